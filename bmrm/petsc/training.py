"""Training with PETSc's objects: a Mat and a Vec in, a Vec out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from petsc4py import PETSc

from bmrm.base.interrupts import HELD, interruptible, set_signal_mode
from bmrm.base.vectors import Vector
from bmrm.distributed.petsc_rows import fail_together, find_comm, local_rows
from bmrm.errors import ParameterError
from bmrm.linear.inputs import OF_DATA, choose_weight_layout, make_group
from bmrm.linear.result import Result
from bmrm.linear.solve import solve as solve_arrays
from bmrm.losses import LOSSES
from bmrm.petsc.options import options

if TYPE_CHECKING:
    from bmrm.distributed import Shard


class Solution(NamedTuple):
    """The return value of `solve`.

    Attributes
    ----------
    w : PETSc.Vec
        The weights, distributed over the ranks like the columns of A.
    result : Result
        The result with its certificate, the same on every rank. But with distributed weights, its ``w`` has
        only the weights of this rank.

    Examples
    --------
    >>> import numpy as np
    >>> from petsc4py import PETSc
    >>> import bmrm.petsc
    >>> A = PETSc.Mat().createDense((3, 2), array=np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]))
    >>> A.assemble()
    >>> y = PETSc.Vec().createWithArray(np.array([1.0, 1.0, -1.0]))
    >>> found = bmrm.petsc.solve(A, y, lam=0.1)
    >>> found.w.getSize(), found.result.status
    (2, 'converged')
    """

    w: PETSc.Vec
    result: Result


@interruptible
def solve(A: PETSc.Mat, y: PETSc.Vec | None = None, *, prefix: str = "bmrm_", **keywords: Any) -> Solution:
    """Train on a PETSc matrix, with keywords and with PETSc's options database.

    `bmrm.solve` accepts PETSc matrices and vectors too; this function adds the options database, and returns
    the weights as a vector.

    Parameters
    ----------
    A : PETSc.Mat
        Of type AIJ or dense, on any number of ranks: each trains on its rows.
    y : PETSc.Vec, optional
        Labels, distributed over the ranks like the rows of A.
    prefix : str, default ``"bmrm_"``
        Prefix of the options, see `bmrm.petsc.options`. An option overrides a keyword.
    **keywords
        As for `bmrm.solve`. With ``weights="owned"`` no rank ever has all weights, not even in the result.

    Returns
    -------
    Solution

    Raises
    ------
    ParameterError, DataError, Interrupted
        As for `bmrm.solve`.

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
    comm = find_comm(A, keywords.pop("comm", None))
    if comm is not None:
        set_signal_mode(
            HELD
        )  # the others would wait forever for a rank interrupted before the first iteration
    with fail_together(comm):
        keywords |= options(prefix)
    comm = make_group(None, comm, keywords)
    loss = keywords.get("loss", "hinge")
    if getattr(LOSSES.get(loss) if isinstance(loss, str) else loss, "several", False):
        raise ParameterError(f"loss {loss}: its weights are a matrix, not a vector; use bmrm.solve")
    X, y, comm = local_rows(A, y, comm)
    form = keywords.pop("weights", "auto")
    if comm is None and form == "auto":
        result = solve_arrays(X, y, **keywords)
        return Solution(weights(result.w, A), result)
    from bmrm.distributed import Shard

    comm = A.getComm() if comm is None else comm
    form = choose_weight_layout(
        form,
        X,
        keywords.get("reg", "l2"),
        positive=keywords.get("positive", False),
        feature_lambda=keywords.get("feature_lambda"),
        prior=keywords.get("prior"),
        comm=comm,
        device=keywords.get("device", "auto"),
    )
    of_data = {name: keywords.pop(name) for name in OF_DATA if name in keywords}
    if "tol" in keywords:
        of_data["tol"] = keywords["tol"]
    shard = Shard(X, y, comm=comm, weights=form, **of_data)
    # If A is not the matrix of all ranks, each rank has its own vector.
    here = shard.owned and A.getComm().getSize() == shard.group.size
    shard.wanted_by = "none" if here else "all"
    result = solve_arrays(shard, **keywords)
    return Solution(own_weights(result.w, shard, A) if here else weights(result.w, A), result)


def own_weights(w: Vector, shard: Shard, A: PETSc.Mat) -> PETSc.Vec:
    """Make a vector over A's columns from the weights that each rank owns, for any layout of A's columns."""
    vec = A.createVecRight()
    first, last = map(int, shard.bounds[shard.group.rank : shard.group.rank + 2])
    vec.setValues(np.arange(first, last, dtype=PETSc.IntType), w)
    vec.assemble()
    return vec


def weights(w: Vector, A: PETSc.Mat) -> PETSc.Vec:
    """Make a vector over A's columns from all weights, which every rank has.

    Parameters
    ----------
    w : ndarray of shape (d,)
    A : PETSc.Mat
        A matrix with d columns.

    Returns
    -------
    PETSc.Vec

    Raises
    ------
    ParameterError
        If A does not have d columns.

    Examples
    --------
    >>> import numpy as np
    >>> from petsc4py import PETSc
    >>> A = PETSc.Mat().createDense((1, 2), array=[[0.0, 0.0]], comm=PETSc.COMM_SELF)
    >>> weights(np.array([1.0, 2.0]), A).getArray()
    array([1., 2.])
    """
    if A.getSize()[1] != len(w):
        raise ParameterError(f"A: found {A.getSize()[1]} columns, expected {len(w)}, one per weight")
    vec = A.createVecRight()
    first, last = vec.getOwnershipRange()
    vec.setArray(w[first:last])
    return vec
