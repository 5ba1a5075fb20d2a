"""The passes of a solve with weights and margins in NumPy arrays.

The compiled loss sums over the rows; the products are those of the operator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot, dot_rows
from bmrm.linear.backends.host.ascent import DualAscent
from bmrm.linear.backends.host.joint_line_search import JointLineSearch
from bmrm.linear.bundle._qp import along, cholesky_solve
from bmrm.linear.bundle.quadratic import quadratic_minimiser
from bmrm.linear.objective.class_intercepts import ClassIntercepts
from bmrm.linear.objective.passes import (
    DesignOperator,
    FreeIntercept,
    Gradients,
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    Margins,
    ObjectiveData,
    Passes,
    Softened,
    StepCosts,
    Subgradients,
)
from bmrm.linear.objective.running_error import Derivatives
from bmrm.linear.problem import TrainingProblem
from bmrm.linear.regularizers import LineDerivative, Regularizer
from bmrm.linear.solvers.conjugate_gradients import minimise_quadratic
from bmrm.linear.solvers.interior_point import rows_of_all
from bmrm.linear.solvers.interior_rule import FACE_CHANGES_PER_CUT, STEP_PRODUCTS
from bmrm.losses.base import KinkedRisk, Pieces, RowRisk, SoftRisk, ValuedRisk
from bmrm.losses.multiclass import ClassLoss
from bmrm.losses.offset import OffsetSoftRisk

MIN_THREADED_MARGINS = 100_000
"""Number of margins from which threads move them: with fewer, starting the threads takes longer."""

PASS_ROW_WORK = 10
"""Work of a pass of planes per row, besides its products with X, in multiply-adds."""

PROFILED_PASS_ROW_WORK = 40
"""The same if an intercept is minimised out."""

STEP_ROW_WORK = 80
"""Work of an interior-point step per row, besides its products with X, in multiply-adds."""


def search_on_slopes(passes: Passes, ray: LineSearchProblem) -> tuple[Margins, LineSearchResult]:
    """Minimise J along a line by one slope of the risk at a time; see `Passes.search`."""
    z, penalty = ray.z, ray.penalty
    dz = passes.direction(z, ray.end)

    def slope(t: float) -> float:
        return penalty.slope(t) + passes.slope(z, dz, t, 0.0)[0]

    step = ray.minimise(slope)
    risk, moved = passes.risk(z, dz, step, 0.0)
    return dz, LineSearchResult(step, moved, risk)


def class_intercepts(problem: TrainingProblem, passes: Passes) -> ClassIntercepts | None:
    """Return what minimises the intercepts of several classes out; None if there are none that are free.

    Losses of several margins are evaluated on the host, wherever X is.
    """
    data, loss = problem.data, problem.loss
    if not (problem.intercept.free and isinstance(loss, ClassLoss)):
        return None
    assert isinstance(passes, HostPasses)
    of_rows = problem.labels, data.weights, 1.0 / data.total_weight, data.threads
    soft = loss.soften(*of_rows, problem.n_outputs)
    passes.soft = soft if problem.offset is None else OffsetSoftRisk(soft, problem.offset)
    return ClassIntercepts(passes, loss, cholesky_solve)


class OneProcess:
    """Sums of passes that have all rows in this process."""

    def total(self, sums: Vector) -> Vector:
        return sums

    def least(self, number: float) -> float:
        return number


class HostPasses(OneProcess):
    """`bmrm.linear.objective.passes.Passes` on the host.

    - ``cut_of``: what cutting planes are taken of, if it is not ``risk``
    - ``threads``: for moving margins; products and risk have their own
    - ``hessian``: whether Newton's points come from a Hessian, and not from conjugate gradients
    """

    whole = True
    """Whether this process has whole weights, gradients and Hessians."""

    has_hessian = True
    """A Hessian needs no library."""

    def __init__(
        self,
        operator: DesignOperator,
        risk: RowRisk,
        cut_of: RowRisk | None = None,
        threads: int = 1,
        *,
        hessian: bool = False,
    ) -> None:
        self.operator, self.rows, self.cut_of, self.threads = operator, risk, cut_of or risk, threads
        self._forms_hessian = hessian
        self._slopes_of, self._exact = self.rows, self.cut_of
        self.soft: SoftRisk | None = None
        """Softens the risk if each of several classes has a free intercept."""
        self._valued = JointLineSearch(self, risk) if isinstance(risk, ValuedRisk) else None
        self._pieces: Pieces | None = None
        self._constants: list[Vector | None] = [None, None]
        self.seconds = 0.0
        m = operator.shape[0]
        self._derivatives = np.empty(m), np.empty(m)
        self._everything = np.array([0, m], np.int64)

    def origin(self) -> Vector:
        return self.weights(np.zeros(self.operator.shape[1]))

    def column_lengths(self, squares: Vector) -> Vector | float:
        return np.asarray(np.sqrt(squares))

    def size(self, w: Vector, lengths: Vector | float) -> float:
        return dot(np.abs(w), cast("Vector", lengths))

    def known_of(self, starts: Indices, which: int, extra: float = 0.0) -> Derivatives | None:
        r = self._derivatives[which]
        parts = [r[i:j] for i, j in pairwise(starts.tolist())]
        squares = self.total(np.array([dot(part, part) for part in parts]))
        most = -self.least(-float(max(np.count_nonzero(part) for part in parts)))
        return Derivatives(np.sqrt(squares), int(most), self._slopes(parts, extra))

    def constants(self, starts: Indices) -> Vector | None:
        """Return the offsets of the last planes, if the loss knows them without the risk."""
        if self._exact is not self.rows:  # planes of other rows
            return None
        if self._valued is not None:
            return self._constants[0]
        if self._pieces is None:
            self._pieces = self.pieces()
        found = self._pieces.constants(self._derivatives[0])
        return self.total(np.array([found[i:j].sum() for i, j in pairwise(starts.tolist())]))

    def _slopes(self, parts: list[Vector], extra: float) -> Vector:
        """Return the slope of each part in the intercept; in those of several classes, added up in size."""
        K = self.operator.n_outputs
        sums = self._sums([part.reshape(-1, K) for part in parts])
        if K > 1:
            sums = np.abs(sums)
        return np.asarray((sums.sum(axis=1) + extra).astype(np.float64))

    def _sums(self, parts: list[Vector]) -> NDArray[np.longdouble]:
        """Add up derivatives of each output, which cancel, in a wider type."""
        return np.stack([part.sum(axis=0, dtype=np.longdouble) for part in parts])

    def weights(self, w: Vector) -> Vector:
        return w

    def array(self, w: Vector) -> Vector:
        return w

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start

    def margins(self, w: Vector) -> Vector:
        """``X w``; without a product at zero, where most solves start."""
        if self._is_zero(w):
            return np.zeros(self.operator.shape[0])
        z = np.empty(self.operator.shape[0])
        with self._timed():
            self.operator.matvec(w, z)
        return z

    def _is_zero(self, w: Vector) -> bool:
        return not w.any()

    def fresh(self, w: Vector) -> tuple[Vector, Vector]:
        return w, self.margins(w)

    def rescaled(self, w: Vector, scale: float) -> Vector:
        return HostPasses.margins(self, scale * self.array(w))

    def direction(self, z: Vector, end: Vector) -> Vector:
        if len(z) < MIN_THREADED_MARGINS:
            return np.subtract(end, z, out=end)
        return along(end, z, -1.0, end, threads=self.threads)

    def moved(self, z: Vector, dz: Vector, t: float) -> Vector:
        """``z + t dz``; no copy if that is ``z``."""
        if t == 0.0:
            return z
        return z + t * dz if len(z) < MIN_THREADED_MARGINS else along(z, dz, t, threads=self.threads)

    def between(self, w: Vector, end: Vector, t: float) -> Vector:
        return w + t * (end - w)

    def penalty(self, reg: Regularizer, w: Vector) -> float:
        return reg.value(w)

    def penalty_line(self, reg: Regularizer, w: Vector, end: Vector) -> LineDerivative:
        return reg.line(w, end - w)

    def search(self, ray: LineSearchProblem) -> tuple[Vector, LineSearchResult]:
        return search_on_slopes(self, ray) if self._valued is None else self._valued(ray)

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        return self._slopes_of.slope(z, dz, t, b)

    def risk(self, z: Vector, dz: Vector | None, t: float, b: FreeIntercept) -> tuple[float, Vector]:
        if dz is not None:
            z = self.moved(z, dz, t)
        along, step = z, 0.0
        if isinstance(b, np.ndarray):  # one for each margin of a row
            along, step, b = np.tile(b, len(z) // len(b)), 1.0, 0.0
        values, _ = self.rows.cut(z, along, step, b, self._everything, self._derivatives[1])
        return float(values[0]), z

    def soften(
        self,
        z: Vector,
        dz: Vector,
        t: float,
        b: Vector,
        width: float,
        *,
        move: Vector | None = None,
        keep: bool = False,
        hessian: bool = False,
    ) -> Softened:
        assert self.soft is not None
        r = self._derivatives[0] if keep else None
        found = self.total(self.soft.evaluate(z, dz, t, b, width, move, r, hessian))
        K = len(b)
        bends = found[2 + K :].reshape(K, K) if hessian else None
        return Softened(float(found[0]), float(found[1]), found[2 : 2 + K], bends)

    def class_weights(self) -> Vector:
        assert self.soft is not None
        return self.total(self.soft.class_weights())

    def derivatives(
        self, z: Vector, dz: Vector | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        along, step = (z, 0.0) if dz is None else (dz, t)
        values, slopes = self._slopes_of.cut(z, along, step, b, self._everything, self._derivatives[which])
        self._note_constants(which)
        return float(values[0]), float(slopes[0])

    def _note_constants(self, which: int) -> None:
        if self._valued is not None:
            self._constants[which] = self._valued.risk.constants

    def round_kinks(self, width: float) -> None:
        self._slopes_of, self.cut_of = self.rows, self._exact
        if width:
            self._slopes_of = cast("KinkedRisk", self.rows).rounded(width)
            self.cut_of = cast("KinkedRisk", self._exact).rounded(width)

    def pieces(self) -> Pieces:
        return Pieces(*cast("KinkedRisk", self.rows).pieces())

    def rows_of(self, z: Vector) -> Vector:
        return z

    def placed(self, w: Vector, margins: Vector) -> tuple[Vector, Vector]:
        return w, margins

    def planes_of(self, r: Vector, starts: Indices, w: Vector) -> Subgradients:
        self._keep(r)
        gradients = np.empty((len(starts) - 1, self.operator.shape[1]))
        with self._timed():
            self.operator.rmatvec_blocks(r, starts, gradients)
        unknown = np.full(len(starts) - 1, np.nan)
        return Subgradients(gradients, None, dot_rows(gradients, w), unknown, unknown)

    def mix_derivatives(self, share: float) -> None:
        first, second = self._derivatives
        first *= share
        first += (1.0 - share) * second
        low, high = self._constants
        self._constants[0] = None if low is None or high is None else share * low + (1.0 - share) * high

    def _keep(self, r: Vector) -> None:
        if r is not self._derivatives[0]:
            self._derivatives[0][:] = r

    def over_rows(self, a: Vector, b: Vector) -> float:
        """Return the inner product over all rows."""
        return float(self.total(np.array([dot(a, b)]))[0])

    def planes(
        self, z: Vector, dz: Vector | None, t: float, starts: Indices, w: Vector, end: Vector
    ) -> Subgradients:
        along, step = (z, 0.0) if dz is None else (dz, t)
        values, slopes = self.cut_of.cut(z, along, step, 0.0, starts, self._derivatives[0])
        self._note_constants(0)
        return self._planes(starts, self.between(w, end, t), values, slopes)

    def mixed_planes(self, starts: Indices, w: Vector, end: Vector, t: float) -> Subgradients:
        unknown = np.full(len(starts) - 1, np.nan)
        return self._planes(starts, self.between(w, end, t), unknown, unknown)

    def newton_point(self, objective: ObjectiveData, at: Iterate, gradients: Gradients) -> Vector | None:
        """Return Newton's point: by a Cholesky factor of the Hessian, or by conjugate gradients."""
        assert not isinstance(gradients, range)
        gradient, profile = objective.gradient(gradients), objective.profile
        if self._forms_hessian:
            w = quadratic_minimiser(objective.reg, self.hessian(at, profile), gradient, at.w)
        else:
            w = minimise_quadratic(objective.reg, at.w, gradient, *self._hessian_products(at, profile))
        return None if w is None or not np.isfinite(w).all() else w

    def curvature(self, at: Iterate) -> tuple[Vector, float]:
        """Return the weighted second derivatives of the rows at a point, and their sum."""
        s = np.empty(self.operator.shape[0])
        return s, self._slopes_of.curvature(at.margins, at.intercept, s)

    def hessian(self, at: Iterate, profile: bool) -> Vector:
        """Return the Hessian of the risk at a point; with ``profile`` that of its minimum over b."""
        d = self.operator.shape[1]
        hessian = np.empty((d, d))
        s, total = self.curvature(at)
        self.operator.weighted_gram(s, hessian)
        if profile and total > 0.0:
            mixed = np.empty((1, d))
            self.operator.rmatvec_blocks(s, self._everything, mixed)
            hessian -= mixed.T * (mixed / total)
        return hessian

    def _hessian_products(self, at: Iterate, profile: bool) -> tuple[Callable[[Vector], Vector], Vector]:
        """Return a function that multiplies by the Hessian of `hessian`, and an estimate of its diagonal."""
        operator = self.operator
        m, d = operator.shape
        margins, product = np.empty(m), np.empty((1, d))
        s, total = self.curvature(at)

        def times(v: Vector) -> Vector:
            operator.matvec(v, margins)
            if profile and total > 0.0:
                np.subtract(margins, self.over_rows(s, margins) / total, out=margins)
            np.multiply(margins, s, out=margins)
            operator.rmatvec_blocks(margins, self._everything, product)
            return np.array(product[0])

        # The diagonal of X' S X as if every row had the mean curvature.
        return times, total * operator.mean_squares

    def begin_ascent(self, objective: ObjectiveData, at: Iterate) -> DualAscent:
        return DualAscent(objective, self, self.rows, at, whole=self.whole)

    def interior_costs(self, objective: ObjectiveData) -> StepCosts | None:
        """Return the costs in multiply-adds; None if no process has the whole Hessian."""
        operator = objective.operator
        if not self.whole or not math.isfinite(operator.weighted_gram_work):
            return None
        d, nnz, rows = operator.shape[1], operator.nnz, rows_of_all(self, operator.shape[0])
        row_work = PROFILED_PASS_ROW_WORK if objective.profile else PASS_ROW_WORK
        step = operator.weighted_gram_work + d**3 / 6 + STEP_PRODUCTS * nnz + STEP_ROW_WORK * rows
        return StepCosts(2 * nnz + row_work * rows, step, d, FACE_CHANGES_PER_CUT)

    def _planes(self, starts: Indices, w: Vector, risk: Vector, slope: Vector) -> Subgradients:
        return self.planes_of(self._derivatives[0], starts, w)._replace(risk=risk, slope=slope)
