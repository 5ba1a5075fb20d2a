"""The local rows of a PETSc Mat and their labels. With several ranks this needs mpi4py too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from petsc4py import PETSc

from bmrm.errors import ParameterError
from bmrm.matrix.petsc_rows import check_scalars, copy_rows


def find_comm(A: PETSc.Mat, comm: Any) -> Any:
    """Return ``comm`` if given, else the communicator of a matrix on several ranks, else None."""
    return A.getComm() if comm is None and A.getComm().getSize() > 1 else comm


def fail_together(comm: Any) -> AbstractContextManager[object]:
    """Make a failure of the block on any rank a failure of all ranks; ``comm`` None means one rank."""
    if comm is None or comm.size == 1:
        return nullcontext()
    from bmrm.distributed.group import group_of

    return group_of(comm).together()


def local_rows(X: Any, y: Any, comm: Any) -> tuple[Any, Any, Any]:
    """Return the local rows of a PETSc matrix, their labels, and the communicator if there are several ranks.

    Raises
    ------
    ParameterError
        If labels and rows are distributed differently.
    """
    check_scalars()
    comm = find_comm(X, comm)
    with fail_together(comm):
        if isinstance(y, PETSc.Vec):
            if y.getLocalSize() != X.getLocalSize()[0]:
                raise ParameterError(
                    f"y: found {y.getLocalSize()} labels on a rank, expected one for each of its "
                    f"{X.getLocalSize()[0]} rows"
                )
            y = np.array(y.getArray(readonly=True), np.float64)
        return copy_rows(X), y, comm
