"""The steps of a solve with weights and margins in NumPy arrays, and the cuts in one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot, dot_rows
from bmrm.linear.backends.host.joint_line_search import JointLineSearch
from bmrm.linear.bundle.products import along
from bmrm.linear.objective.objective import (
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    Margins,
    Operator,
    Passes,
    Subgradients,
)
from bmrm.linear.objective.running_error import Derivatives
from bmrm.linear.regularizers import Regularizer, Slopes
from bmrm.losses.base import KinkedRisk, Pieces, RowRisk, ValuedRisk

Vector = NDArray[np.float64]
Starts = NDArray[np.int64]

MANY = 100_000
"""Margins from which on threads move them: fewer are there before a call of the threads is."""


def search_on_slopes(passes: Passes, ray: LineSearchProblem) -> tuple[Margins, LineSearchResult]:
    """Minimise J along a line from one slope of the risk at a time; see `Passes.search`."""
    z, penalty = ray.z, ray.penalty
    dz = passes.direction(z, ray.end)

    def slope(t: float) -> float:
        return penalty.slope(t) + passes.slope(z, dz, t, 0.0)[0]

    step = ray.minimise(slope)
    risk, moved = passes.risk(z, dz, step, 0.0)
    return dz, LineSearchResult(step, moved, risk)


class OneProcess:
    """Steps with all rows in this process."""

    def total(self, sums: Vector) -> Vector:
        """Return sums over all rows from those over the rows of this process."""
        return sums

    def least(self, number: float) -> float:
        """Return the least of the numbers of all processes."""
        return number


class HostPasses(OneProcess):
    """`bmrm.linear.objective.objective.Passes` on the host; the products are the design's.

    Parameters
    ----------
    operator : Operator
    risk : RowRisk
        The loss bound to labels and weights.
    cut_of : RowRisk, optional
        What cutting planes are taken of, where it is not ``risk``.
    threads : int, default 1
        For what is done with margins here; products and risk have their own.
    """

    whole = True
    """Whether weights, gradients and a Hessian may be had whole in this process."""

    has_hessian = True
    """Whether what makes a Hessian is found."""

    def __init__(
        self, operator: Operator, risk: RowRisk, cut_of: RowRisk | None = None, threads: int = 1
    ) -> None:
        self.operator, self.rows, self.cut_of, self.threads = operator, risk, cut_of or risk, threads
        self._slopes_of, self._exact = self.rows, self.cut_of
        self._valued = JointLineSearch(self, risk) if isinstance(risk, ValuedRisk) else None
        self._pieces: Pieces | None = None
        self._constants: list[Vector | None] = [None, None]
        self.seconds = 0.0
        m = operator.shape[0]
        self._derivatives = np.empty(m), np.empty(m)
        self._everything = np.array([0, m], np.int64)

    def origin(self) -> Vector:
        """Weights that are 0."""
        return self.weights(np.zeros(self.operator.shape[1]))

    def column_lengths(self, squares: Vector) -> Vector | float:
        """Return the length of each column of X."""
        return np.asarray(np.sqrt(squares))

    def size(self, w: Vector, lengths: Vector | float) -> float:
        """Return the size of a point."""
        return dot(np.abs(w), cast("Vector", lengths))

    def known_of(self, starts: Starts, which: int, extra: float = 0.0) -> Derivatives | None:
        """Return what is known of derivatives, by block of rows."""
        r = self._derivatives[which]
        parts = [r[i:j] for i, j in pairwise(starts.tolist())]
        squares = self.total(np.array([dot(part, part) for part in parts]))
        most = -self.least(-float(max(np.count_nonzero(part) for part in parts)))
        return Derivatives(np.sqrt(squares), int(most), self._sums(parts, extra))

    def constants(self, starts: Starts) -> Vector | None:
        """Return the offsets of the last planes, if the loss knows them besides from the risk."""
        if self._exact is not self.rows:  # planes of other rows
            return None
        if self._valued is not None:
            return self._constants[0]
        if self._pieces is None:
            self._pieces = self.pieces()
        found = self._pieces.constants(self._derivatives[0])
        return self.total(np.array([found[i:j].sum() for i, j in pairwise(starts.tolist())]))

    def _sums(self, parts: list[Vector], extra: float) -> Vector:
        """Add up derivatives, which cancel, in a wider type."""
        return np.array([float(part.sum(dtype=np.longdouble) + extra) for part in parts])

    def weights(self, w: Vector) -> Vector:
        """Take weights in."""
        return w

    def array(self, w: Vector) -> Vector:
        """Give weights out."""
        return w

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start

    def margins(self, w: Vector) -> Vector:
        """``X w``; no product where most solves start, at zero."""
        if self._is_zero(w):
            return np.zeros(self.operator.shape[0])
        z = np.empty(self.operator.shape[0])
        with self._timed():
            self.operator.matvec(w, z)
        return z

    def _is_zero(self, w: Vector) -> bool:
        return not w.any()

    def fresh(self, w: Vector) -> tuple[Vector, Vector]:
        """Return the point and its margins from a new product."""
        return w, self.margins(w)

    def rescaled(self, w: Vector, scale: float) -> Vector:
        """Margins of ``scale w``, from a product of its own."""
        return HostPasses.margins(self, scale * self.array(w))

    def direction(self, z: Vector, end: Vector) -> Vector:
        """``end - z``, in the place of ``end``."""
        if len(z) < MANY:
            return np.subtract(end, z, out=end)
        return along(end, z, -1.0, end, threads=self.threads)

    def moved(self, z: Vector, dz: Vector, t: float) -> Vector:
        """``z + t dz``; no copy where that is ``z``."""
        if t == 0.0:
            return z
        return z + t * dz if len(z) < MANY else along(z, dz, t, threads=self.threads)

    def between(self, w: Vector, end: Vector, t: float) -> Vector:
        """``w + t (end - w)``."""
        return w + t * (end - w)

    def penalty(self, reg: Regularizer, w: Vector) -> float:
        """``lam Omega(w)``."""
        return reg.value(w)

    def penalty_line(self, reg: Regularizer, w: Vector, end: Vector) -> Slopes:
        """Return the derivative of ``lam Omega`` along ``w + t (end - w)``."""
        return reg.line(w, end - w)

    def search(self, ray: LineSearchProblem) -> tuple[Vector, LineSearchResult]:
        """Minimise J along a line; return the direction too."""
        return search_on_slopes(self, ray) if self._valued is None else self._valued(ray)

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of ``R(z + t dz + b)`` in t and b."""
        return self._slopes_of.slope(z, dz, t, b)

    def risk(self, z: Vector, dz: Vector | None, t: float, b: float) -> tuple[float, Vector]:
        """Risk at ``z + t dz + b``, and the margins ``z + t dz``."""
        if dz is not None:
            z = self.moved(z, dz, t)
        values, _ = self.rows.cut(z, z, 0.0, b, self._everything, self._derivatives[1])
        return float(values[0]), z

    def derivatives(
        self, z: Vector, dz: Vector | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        """Keep the derivatives of all rows; return risk and their sum."""
        along, step = (z, 0.0) if dz is None else (dz, t)
        values, slopes = self._slopes_of.cut(z, along, step, b, self._everything, self._derivatives[which])
        self._note_constants(which)
        return float(values[0]), float(slopes[0])

    def _note_constants(self, which: int) -> None:
        if self._valued is not None:
            self._constants[which] = self._valued.risk.constants

    def round_kinks(self, width: float) -> None:
        """Search and cut the risk with kinks rounded over ``width`` from now on; as it is for 0.

        The risk that is told of a point is always that with kinks.
        """
        self._slopes_of, self.cut_of = self.rows, self._exact
        if width:
            self._slopes_of = cast("KinkedRisk", self.rows).rounded(width)
            self.cut_of = cast("KinkedRisk", self._exact).rounded(width)

    def pieces(self) -> Pieces:
        """Tell the risk's pieces between kinks."""
        return Pieces(*cast("KinkedRisk", self.rows).pieces())

    def rows_of(self, z: Vector) -> Vector:
        """Give margins out."""
        return z

    def placed(self, w: Vector, margins: Vector) -> tuple[Vector, Vector]:
        """Take a point in, with its margins."""
        return w, margins

    def planes_of(self, r: Vector, starts: Starts, w: Vector) -> Subgradients:
        """Cutting planes of any derivatives; their risk is not known."""
        self._keep(r)
        gradients = np.empty((len(starts) - 1, self.operator.shape[1]))
        with self._timed():
            self.operator.rmatvec_blocks(r, starts, gradients)
        unknown = np.full(len(starts) - 1, np.nan)
        return Subgradients(gradients, None, dot_rows(gradients, w), unknown, unknown)

    def mix_derivatives(self, share: float) -> None:
        """Make the first derivatives ``share`` of themselves and the rest of the second ones."""
        first, second = self._derivatives
        first *= share
        first += (1.0 - share) * second
        low, high = self._constants
        self._constants[0] = None if low is None or high is None else share * low + (1.0 - share) * high

    def _keep(self, r: Vector) -> None:
        if r is not self._derivatives[0]:
            self._derivatives[0][:] = r

    def over_rows(self, a: Vector, b: Vector) -> float:
        """Inner product over all rows."""
        return float(self.total(np.array([dot(a, b)]))[0])

    def planes(
        self, z: Vector, dz: Vector | None, t: float, starts: Starts, w: Vector, end: Vector
    ) -> Subgradients:
        """Cutting planes at ``z + t dz``, the margins of ``w + t (end - w)``."""
        along, step = (z, 0.0) if dz is None else (dz, t)
        values, slopes = self.cut_of.cut(z, along, step, 0.0, starts, self._derivatives[0])
        self._note_constants(0)
        return self._planes(starts, self.between(w, end, t), values, slopes)

    def mixed_planes(self, starts: Starts, w: Vector, end: Vector, t: float) -> Subgradients:
        """Cutting planes of the first derivatives as they are."""
        unknown = np.full(len(starts) - 1, np.nan)
        return self._planes(starts, self.between(w, end, t), unknown, unknown)

    def curvature(self, at: Iterate) -> tuple[Vector, float]:
        """Weighted second derivatives of the rows at a point, and their sum."""
        s = np.empty(self.operator.shape[0])
        return s, self._slopes_of.curvature(at.margins, at.intercept, s)

    def hessian(self, at: Iterate, profile: bool) -> Vector:
        """Hessian of the risk at a point; with ``profile`` that of its minimum over b."""
        d = self.operator.shape[1]
        hessian = np.empty((d, d))
        s, total = self.curvature(at)
        self.operator.weighted_gram(s, hessian)
        if profile and total > 0.0:
            mixed = np.empty((1, d))
            self.operator.rmatvec_blocks(s, self._everything, mixed)
            hessian -= mixed.T * (mixed / total)
        return hessian

    def _planes(self, starts: Starts, w: Vector, risk: Vector, slope: Vector) -> Subgradients:
        return self.planes_of(self._derivatives[0], starts, w)._replace(risk=risk, slope=slope)
