"""A solve whose weights are owned in parts: a rank has a run of columns of w, of gradients and of cuts.

Nothing here is as long as all columns. A product with X fetches the weights of the columns that the local
rows touch, and one with X' adds up its columns at their owners (``exchange.py``); X itself has no others.
Everything else is sums of what the ranks find for their columns: norms, the Gram matrix, the minimum of the
model.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bmrm.base.vectors import Indices, Vector, dot
from bmrm.distributed.exchange import Exchange
from bmrm.distributed.group import Group
from bmrm.linear.backends.ranks.cuts import SplitCuts
from bmrm.linear.backends.ranks.passes import RankPasses, RanksObjective, RanksOperator
from bmrm.linear.backends.ranks.penalty import OwnedPenalty
from bmrm.linear.bundle._qp import combine
from bmrm.linear.objective.passes import Iterate
from bmrm.linear.regularizers import Regularizer
from bmrm.matrix.adapted import MatrixAdapter

if TYPE_CHECKING:
    from bmrm.distributed.shard import Shard


class OwnedOperator(RanksOperator):
    """The rows of this rank with the columns that they touch; vectors over the columns are owned in parts."""

    def __init__(self, group: Group, inner: MatrixAdapter, exchange: Exchange) -> None:
        super().__init__(group, inner)
        self.exchange, self.bounds = exchange, exchange.bounds
        self.shape = inner.shape[0], int(exchange.bounds[-1])
        self._gram_work = np.inf  # a Hessian would need columns of other ranks

    @cached_property
    def mean_squares(self) -> Vector:
        """Mean square of each column of this rank, over the rows of all."""
        group, inner = self.group, self.inner
        found = np.empty((1, self.exchange.width))
        self.exchange.add_up(inner.shape[0] * inner.mean_squares[None], [(0, 1)] * group.size, found)
        return np.asarray(found[0] / group.total(np.array([float(inner.shape[0])])))

    def matvec(self, w: Vector, out: Vector) -> None:
        """Margins of this rank's rows."""
        self.inner.matvec(self.exchange.fetch(w), out)

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> None:
        """Gradients of all ranks' rows, a block of them each, in the columns of this rank."""
        reach = [(0, 1)] * self.group.size if len(starts) == 2 else self.reach
        first, last = reach[self.group.rank]
        own = np.empty((last - first, self.exchange.reach))
        self.inner.rmatvec_blocks(r, starts[first : last + 1], own)
        self.exchange.add_up(own, reach, out)


class OwnedPasses(RankPasses):
    """The passes over this rank's rows and columns."""

    whole = False

    def size(self, w: Vector, lengths: Vector | float) -> float:
        """Return the size of a point, of which the columns here are known here."""
        return float(self.total(np.array([super().size(w, lengths)]))[0])

    def weights(self, w: Vector) -> Vector:
        """Return the weights of this rank, given those or all."""
        exchange = self.operator.exchange
        first = exchange.bounds[exchange.group.rank]
        return w if len(w) == exchange.width else w[first : first + exchange.width].copy()

    def _own(self, w: Vector) -> Vector:
        return w

    def _is_zero(self, w: Vector) -> bool:
        """Whether the local rows need no product: unknown, as they meet weights of other ranks too."""
        return False


class OwnedCuts(SplitCuts):
    """Cuts of which each rank has some columns, for weights of which it has the same."""

    def minimise(self, reg: Regularizer, alpha: Vector, near: Vector) -> tuple[Vector, float]:
        """Minimise ``lam Omega(w) + <sum_k alpha_k a_k, w>``; return w here, and the minimum."""
        assert isinstance(reg, OwnedPenalty)
        a = np.empty(self.width)
        combine(self._rows[: len(alpha)], alpha, a, threads=self.threads)
        w = reg.minimiser(a)
        return w, float(self.group.total(np.array([reg.value_here(w) + dot(w, a)]))[0])

    def _here(self, w: Vector) -> Vector:
        """Return the weights, which are those of the columns here."""
        return w


class OwnedObjective(RanksObjective):
    """The objective of all rows and columns, seen from the rank that has some of either."""

    data: Shard
    """It gathers whole weights."""

    def model(self, point: Iterate) -> tuple[Vector, float | Vector]:
        """Weights and intercept as the user sees them: of all columns, or of those here.

        All ranks must call this at the same time.
        """
        data, inner = self.data, self.operator.inner
        if inner.constant is None:
            w, zeros = inner.split(point.w)
            return data.put_together(w), point.intercept if self.profile or zeros is None else zeros
        # The constant column is the last rank's.
        last = data.group.rank == data.group.size - 1
        w, intercept = inner.split(point.w if last else np.append(point.w, np.zeros(inner.n_outputs)))
        total = data.group.total(np.atleast_1d(np.asarray(intercept)))
        return data.put_together(w), total if isinstance(intercept, np.ndarray) else float(total[0])
