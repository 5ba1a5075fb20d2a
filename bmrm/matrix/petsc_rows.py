"""Copy the local rows of a PETSc matrix into arrays of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr, build_canonical

MATRIX_TYPES = ("seqaij", "mpiaij", "seqdense", "mpidense")


def copy_rows(A: PETSc.Mat) -> Csr | npt.NDArray[Any]:
    """Copy the rows of this rank from an assembled PETSc matrix, shape (local rows, columns).

    The matrix is of type AIJ or dense, and may be on a GPU (``aijcusparse``, ``densecuda``). Raise
    `ParameterError` for a matrix of another type, and `BmrmError` if PETSc was built with complex scalars.

    Examples
    --------
    >>> from petsc4py import PETSc
    >>> A = PETSc.Mat().createAIJ((2, 3), csr=([0, 1, 2], [2, 0], [5.0, 7.0]), comm=PETSc.COMM_SELF)
    >>> copy_rows(A).to_scipy().toarray()
    array([[0., 0., 5.],
           [7., 0., 0.]])
    """
    check_scalars()
    kind = str(A.getType())
    if not kind.startswith(MATRIX_TYPES):
        raise ParameterError(f"X: found a PETSc matrix of type {kind}, expected AIJ or dense")
    shape = A.getLocalSize()[0], A.getSize()[1]
    if "dense" in kind:
        return np.array(A.getDenseArray(readonly=True), order="C")
    indptr, indices, values = A.getValuesCSR()
    return build_canonical(indptr, indices, values, shape, sum_duplicates=False)


def check_scalars() -> None:
    """Raise `BmrmError` if PETSc was built with scalars other than float32 or float64.

    Indices of 64 bits need no check: indices are exchanged only in `copy_rows`, which converts them.
    """
    kind = np.dtype(PETSc.ScalarType)
    if kind not in (np.float64, np.float32):
        raise BmrmError(
            f"PETSc: found scalars of type {kind.name}, expected real numbers in double or single precision "
            "(configure PETSc with --with-scalar-type=real)"
        )
