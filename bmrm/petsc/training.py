"""Training with PETSc's objects: a Mat and a Vec in, a Vec out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.errors import ParameterError
from bmrm.losses import LOSSES
from bmrm.petsc.bridge import check_scalars
from bmrm.petsc.options import options
from bmrm.petsc.rows import rows_of
from bmrm.result import Result
from bmrm.training import solve as solve_arrays


class Solution(NamedTuple):
    """What `solve` returns.

    Attributes
    ----------
    w : PETSc.Vec
        The weights, spread over the ranks as A's columns are.
    result : Result
        With the certificate; the same on every rank.
    """

    w: PETSc.Vec
    result: Result


def solve(A: PETSc.Mat, y: PETSc.Vec | None = None, *, prefix: str = "bmrm_", **keywords: Any) -> Solution:
    """Train on a PETSc matrix, by keywords and by PETSc's options database.

    `bmrm.solve` takes PETSc matrices and vectors too; this adds the options database, and gives the weights
    as a vector.

    Parameters
    ----------
    A : PETSc.Mat
        Of type AIJ or dense, on any number of ranks: each trains on the rows that it holds.
    y : PETSc.Vec, optional
        Labels, spread over the ranks as A's rows are.
    prefix : str, default "bmrm_"
        Of the options, see `bmrm.petsc.options`. An option wins over a keyword.
    **keywords
        Of `bmrm.solve`.

    Returns
    -------
    Solution

    Raises
    ------
    ParameterError, DataError
        As `bmrm.solve`.

    Examples
    --------
    >>> from petsc4py import PETSc
    >>> import bmrm.petsc
    >>> A = PETSc.Mat().createAIJ((2, 2), csr=([0, 1, 2], [0, 1], [1.0, 1.0]), comm=PETSc.COMM_SELF)
    >>> y = PETSc.Vec().createWithArray([1.0, -1.0], comm=PETSc.COMM_SELF)
    >>> w, result = bmrm.petsc.solve(A, y, lam=0.5)
    >>> w.getArray().round(1), result.status
    (array([ 1., -1.]), 'converged')
    """
    keywords |= options(prefix)
    loss = keywords.get("loss", "hinge")
    if getattr(LOSSES.get(loss) if isinstance(loss, str) else loss, "several", False):
        raise ParameterError(f"loss {loss}: its weights are a matrix, which bmrm.solve gives, and no vector")
    result = solve_arrays(A, y, **keywords)
    return Solution(weights(result.w, A), result)


def weights(w: npt.NDArray[np.float64], A: PETSc.Mat) -> PETSc.Vec:
    """Make a vector of A's columns from weights that every rank has whole.

    Parameters
    ----------
    w : ndarray of shape (d,)
    A : PETSc.Mat
        With d columns.

    Returns
    -------
    PETSc.Vec

    Raises
    ------
    ParameterError
        If A has another number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from petsc4py import PETSc
    >>> A = PETSc.Mat().createDense((1, 2), array=[[0.0, 0.0]], comm=PETSc.COMM_SELF)
    >>> weights(np.array([1.0, 2.0]), A).getArray()
    array([1., 2.])
    """
    if A.getSize()[1] != len(w):
        raise ParameterError(f"A: found {A.getSize()[1]} columns, expected {len(w)}, one a weight")
    vec = A.createVecRight()
    first, last = vec.getOwnershipRange()
    vec.setArray(w[first:last])
    return vec


def local_rows(X: Any, y: Any, comm: Any) -> tuple[Any, Any, Any]:
    """Take PETSc's objects apart: rows of this rank, their labels, the communicator where there are others.

    Raises
    ------
    ParameterError
        If the labels are spread over the ranks in another way than the rows.
    """
    check_scalars()
    if comm is None and X.getComm().getSize() > 1:
        comm = X.getComm()
    if isinstance(y, PETSc.Vec):
        if y.getLocalSize() != X.getLocalSize()[0]:
            raise ParameterError(
                f"y: found {y.getLocalSize()} labels on a rank that holds {X.getLocalSize()[0]} rows"
            )
        y = np.array(y.getArray(readonly=True), np.float64)
    return rows_of(X), y, comm
