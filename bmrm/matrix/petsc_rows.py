"""The rows of a PETSc matrix that this rank holds, as the package takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr, build_canonical

MATRIX_TYPES = ("seqaij", "mpiaij", "seqdense", "mpidense")


def copy_rows(A: PETSc.Mat) -> Csr | npt.NDArray[Any]:
    """Copy this rank's rows out of an assembled PETSc matrix.

    Parameters
    ----------
    A : PETSc.Mat
        Of type AIJ or dense, also on a GPU (``aijcusparse``, ``densecuda``).

    Returns
    -------
    Csr or ndarray, of shape (rows here, columns)

    Raises
    ------
    ParameterError
        For a matrix of another type.
    BmrmError
        For a PETSc built with complex scalars.

    Examples
    --------
    >>> from petsc4py import PETSc
    >>> A = PETSc.Mat().createAIJ((2, 3), csr=([0, 1, 2], [2, 0], [5.0, 7.0]), comm=PETSc.COMM_SELF)
    >>> rows_of(A).to_scipy().toarray()
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
    """Raise `BmrmError` where PETSc was built with scalars that the bridge cannot carry.

    Indices of 64 bits need no check: no index crosses the bridge but in `bmrm.matrix.petsc_rows`, which
    converts.
    """
    kind = np.dtype(PETSc.ScalarType)
    if kind not in (np.float64, np.float32):
        raise BmrmError(
            f"this PETSc was built with scalars of type {kind.name}: bmrm.petsc needs real double or single "
            "precision (configure it with --with-scalar-type=real)"
        )
