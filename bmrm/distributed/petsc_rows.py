"""The rows of a PETSc Mat on this rank, and their labels. Several ranks need mpi4py too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from petsc4py import PETSc

from bmrm.errors import ParameterError
from bmrm.matrix.petsc_rows import check_scalars, copy_rows


def find_comm(A: PETSc.Mat, comm: Any) -> Any:
    """Return the ranks of a matrix where there are several, unless others were given."""
    return A.getComm() if comm is None and A.getComm().getSize() > 1 else comm


def fail_together(comm: Any) -> AbstractContextManager[object]:
    """Make a failure of the block on any rank of a communicator one of all ranks; None is one rank."""
    if comm is None or comm.size == 1:
        return nullcontext()
    from bmrm.distributed.group import Group

    return (comm if isinstance(comm, Group) else Group(comm)).together()


def local_rows(X: Any, y: Any, comm: Any) -> tuple[Any, Any, Any]:
    """Take PETSc's objects apart: rows of this rank, their labels, the communicator where there are others.

    Raises
    ------
    ParameterError
        If the labels are spread over the ranks in another way than the rows.
    """
    check_scalars()
    comm = find_comm(X, comm)
    with fail_together(comm):
        if isinstance(y, PETSc.Vec):
            if y.getLocalSize() != X.getLocalSize()[0]:
                raise ParameterError(
                    f"y: found {y.getLocalSize()} labels on a rank that holds {X.getLocalSize()[0]} rows"
                )
            y = np.array(y.getArray(readonly=True), np.float64)
    return copy_rows(X), y, comm
