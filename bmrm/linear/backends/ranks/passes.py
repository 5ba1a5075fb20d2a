"""The passes over the rows of a rank, with sums over those of all ranks.

Each class is a thin layer over the one that a single process uses.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot_rows
from bmrm.distributed.group import Group
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import Subgradients
from bmrm.losses.base import KinkedRisk, RowRisk
from bmrm.losses.extent import Extent
from bmrm.matrix.adapted import MatrixAdapter


class RanksOperator(MatrixAdapter):
    """The rows of this rank; a gradient is that of all rows, in the columns of this rank.

    Attributes
    ----------
    bounds : ndarray of shape (ranks + 1,), or None
        Columns of each rank; None if every rank has all.
    reach : list of (int, int)
        Blocks of rows that each rank has rows of.
    """

    inner: MatrixAdapter

    def __init__(self, group: Group, inner: MatrixAdapter) -> None:
        self.group, self.inner = group, inner
        self.shape, self.n_outputs, self.constant = inner.shape, inner.n_outputs, inner.constant
        work = group.everyones((inner.nnz, inner.weighted_gram_work))
        self.nnz = sum(nnz for nnz, _ in work)
        self._gram_work = math.fsum(gram for _, gram in work)
        self.bounds: Indices | None = None
        self.reach: list[tuple[int, int]] = []

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram` on all ranks; infinite if there is no such product."""
        return self._gram_work

    @property
    def width(self) -> int:
        """Columns of a gradient here."""
        if self.bounds is None:
            return self.shape[1]
        return int(self.bounds[self.group.rank + 1] - self.bounds[self.group.rank])

    @cached_property
    def mean_squares(self) -> Vector:
        """Mean square of each column, over the rows of all ranks."""
        rows = self.inner.shape[0]
        total = self.group.total(np.append(rows * self.inner.mean_squares, rows))
        return np.asarray(total[:-1] / total[-1])

    def split(self, w: Vector) -> tuple[Vector, float | Vector | None]:
        """Return weights and penalised intercepts of a vector of weights; None for no intercept."""
        return self.inner.split(w)

    def join(self, w: Vector, intercept: float | Vector) -> Vector:
        """Return the vector of weights and intercepts that `split` takes apart."""
        return self.inner.join(w, intercept)

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> None:
        """Gradients of all ranks' rows, a block of them each, in the columns of this rank."""
        group = self.group
        reach = [(0, 1)] * group.size if len(starts) == 2 else self.reach
        first, last = reach[group.rank]
        own = np.empty((last - first, self.shape[1]))
        self.inner.rmatvec_blocks(r, starts[first : last + 1], own)
        if self.bounds is None:
            out[:] = 0.0
            out[first:last] = own
            out[:] = group.total(out)
        else:
            group.total_by_columns(own, reach, self.bounds, out)

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """``out = X' diag(s) X`` over all rows."""
        self.inner.weighted_gram(s, out)
        out[:] = self.group.total(out)


class SummedRisk:
    """The risk of all rows from that of each rank's."""

    def __init__(self, group: Group, own: RowRisk) -> None:
        self.group, self.own = group, own

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Slopes of the risk of all rows."""
        in_t, in_b = self.group.total(np.array(self.own.slope(z, dz, t, b)))
        return float(in_t), float(in_b)

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        """Risk and slope of all rows, by block; ``r`` is of this rank's rows."""
        values, slopes = self.group.total(np.stack(self.own.cut(z, dz, t, b, starts, r)))
        return values, slopes

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        """Sum of the second derivatives of all rows."""
        return float(self.group.total(np.array([self.own.curvature(z, b, r)]))[0])

    def pieces(self) -> tuple[Vector, Vector, Vector]:
        """Return those of this rank's rows."""
        return cast("KinkedRisk", self.own).pieces()

    def rounded(self, width: float) -> SummedRisk:
        """Return the risk with kinks rounded."""
        return SummedRisk(self.group, cast("KinkedRisk", self.own).rounded(width))


class RankPasses(HostPasses):
    """The passes over this rank's rows, with sums over all rows."""

    operator: RanksOperator

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether every rank has all columns of a gradient."""
        return self.operator.bounds is None

    def total(self, sums: Vector) -> Vector:
        """Return sums over the rows of all ranks."""
        return self.operator.group.total(sums)

    def least(self, number: float) -> float:
        """Return the least of the numbers of all ranks."""
        return float(self.operator.group.parts(np.array([number])).min())

    def _sums(self, parts: list[Vector]) -> NDArray[np.longdouble]:
        """Add up derivatives: each rank's in two numbers, since they cancel between ranks as well."""
        wide = super()._sums(parts)
        high = wide.astype(np.float64)
        low = (wide - high).astype(np.float64)
        everyones = self.operator.group.parts(np.concatenate([high.ravel(), low.ravel()]))
        sums = everyones.astype(np.longdouble).sum(axis=0)
        return np.asarray((sums[: wide.size] + sums[wide.size :]).reshape(wide.shape))

    def _own(self, w: Vector) -> Vector:
        """Weights of this rank's columns."""
        bounds, rank = self.operator.bounds, self.operator.group.rank
        return w if bounds is None else w[bounds[rank] : bounds[rank + 1]]

    def _planes(self, starts: Indices, w: Vector, risk: Vector, slope: Vector) -> Subgradients:
        operator, bounds, group = self.operator, self.operator.bounds, self.operator.group
        gradients = np.empty((len(starts) - 1, operator.width))
        with self._timed():
            operator.rmatvec_blocks(self._derivatives[0], starts, gradients)
        if bounds is None:
            at_point = dot_rows(gradients, w)
        else:
            at_point = group.total(dot_rows(gradients, self._own(w)))
        if not np.isfinite(at_point).all():  # then no rank may use the plane
            gradients[:] = np.nan
        return Subgradients(gradients, None, at_point, risk, slope)


class RanksObjective(Objective):
    """The objective of all rows, seen from the rank that has some."""

    operator: RanksOperator

    def block_rows(self, extent: Extent) -> Indices:
        """Return the maximum number of margins per block: that of all margins, the same on all ranks."""
        return np.full(self.blocks, extent.margins)
