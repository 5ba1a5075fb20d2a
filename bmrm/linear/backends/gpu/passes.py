"""The passes of a solve with weights, margins and cuts on a GPU.

The host sees a few numbers per step: one answer each from the line search, from the new cut with its row of
the Gram matrix, and from the minimiser of the model.  Products are queued and not waited for: the margins of
the minimiser are queued before the host knows its bound.  The device measures the time of the products
(`seconds`); the host spends it waiting for the step after them.

The penalty is l2; the device returns its values along with other sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.linear.backends.gpu.ascent import GpuAscent
from bmrm.linear.backends.gpu.cuts import GpuCuts, GpuRowCuts, Resident
from bmrm.linear.backends.host.passes import OneProcess, search_on_slopes
from bmrm.linear.objective.passes import (
    MAX_LINE_STEP,
    MAX_SHIFT,
    Gradients,
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    ObjectiveData,
    StepCosts,
    Subgradients,
)
from bmrm.linear.objective.running_error import Derivatives
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.regularizers.separable import StraightLine
from bmrm.linear.solvers.interior_rule import FACE_CHANGES_PER_CUT, STEP_PRODUCTS
from bmrm.linear.solvers.newton import CG_FORCING, MAX_CG_STEPS
from bmrm.losses.base import KinkedRisk, Pieces, RowRisk
from bmrm.matrix.gpu.libraries import has_blas

# The costs of passes and of interior-point steps, measured on an H200 with 16 cores.

PASS_NS = 1e5
"""Nanoseconds of a pass besides its products."""

READ_BYTES_PER_NS = 3e3
"""Bytes of X that a product reads in a nanosecond."""

FACE_CHANGE_NS = 0.5
"""Nanoseconds of a solve of the inner QP for each pair of cuts that hold mass."""

GRAM_TERMS_PER_NS = 3e4
"""Terms of a Hessian, rows times pairs of columns, that are added in a nanosecond."""

FACTOR_TERMS_PER_NS = 500.0
"""Terms of its factor, triples of columns, that the host adds in a nanosecond."""

STEP_ROW_NS = 200.0
"""Nanoseconds of the rest of an interior-point step, on the host, for each row."""


class GpuPasses(OneProcess):
    """`bmrm.linear.objective.passes.Passes` on a GPU; its margins have the offsets of the rows in them.

    - ``ahead``: begin the cut during the search, if a pass makes one cut
    - ``rows``: binds the risk on the host, for interior points
    """

    def __init__(self, cuts: GpuCuts, ahead: bool, rows: Callable[[], RowRisk] | None = None) -> None:
        self.cuts, self.problem, self.ahead = cuts, cuts.problem, ahead
        self._rows = rows
        self._mean_squares: Vector | None = None

    @property
    def seconds(self) -> float:
        return self.problem.product_seconds

    def origin(self) -> Resident:
        return self.problem.origin()

    def weights(self, w: Vector) -> Resident:
        return self.problem.weights(w)

    def column_lengths(self, squares: Vector) -> float:
        return float(np.sqrt(squares.sum()))

    def size(self, w: Resident, lengths: Vector | float) -> float:
        return float(lengths) * math.sqrt(max(0.0, w.square))

    def known_of(self, starts: Indices, which: int, extra: float = 0.0) -> Derivatives | None:
        """Return None: the derivatives stay on the device."""
        return None

    def constants(self, starts: Indices) -> Vector | None:
        """Return None: the derivatives stay on the device."""
        return None

    def array(self, w: Resident) -> Vector:
        return w.get()

    def margins(self, w: Resident) -> Resident:
        """``X w``, queued when the store made w."""
        return self.problem.margins(w)

    def fresh(self, w: Resident) -> tuple[Resident, Resident]:
        return w, self.problem.fresh_margins(w)

    def rescaled(self, w: Resident, scale: float) -> Resident:
        return self.problem.rescaled(w, scale)

    def direction(self, z: Resident, end: Resident) -> Resident:
        self.problem.make_direction(z, end)
        return end

    def between(self, w: Resident, end: Resident, t: float) -> Resident:
        return self.problem.between(w, end, t)

    def penalty(self, reg: Regularizer, w: Resident) -> float:
        return 0.5 * reg.lam * w.square

    def penalty_line(self, reg: Regularizer, w: Resident, end: Resident) -> StraightLine:
        return StraightLine(reg.lam * end.inner, reg.lam * end.away)

    def search(self, ray: LineSearchProblem) -> tuple[Resident, LineSearchResult]:
        """Minimise J along a line; return the direction too.

        If a pass makes one cut, the cut is begun at once, at the point at which it will most likely be taken.
        """
        z, end, w, w_end, penalty, first, accuracy, content, reach = ray
        assert isinstance(penalty, StraightLine)
        assert not content
        cut = self.cuts.size if self.ahead else -1
        step, risk, moved = self.problem.search(
            z, end, w, w_end, penalty.p, penalty.q, first, MAX_LINE_STEP, accuracy, cut, MAX_SHIFT, reach
        )
        return end, LineSearchResult(step, moved, risk)

    def slope(self, z: Resident, dz: Resident, t: float, b: float) -> tuple[float, float]:
        return self.problem.slope(z, dz, t, b)

    def risk(self, z: Resident, dz: Resident | None, t: float, b: float) -> tuple[float, Resident]:
        risk, moved = self.problem.risk(z, dz, t, b, dz is not None)
        return risk, z if moved is None else moved

    def derivatives(
        self, z: Resident, dz: Resident | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        return self.problem.derivatives(z, dz, t, b, which)

    def mix_derivatives(self, share: float) -> None:
        self.problem.mix_derivatives(share)

    def round_kinks(self, width: float) -> None:
        self.problem.round_kinks(width)

    def planes(
        self, z: Resident, dz: Resident | None, t: float, starts: Indices, w: Resident, end: Resident
    ) -> Subgradients:
        return self._planes(starts, z, dz, w, end, t)

    def mixed_planes(self, starts: Indices, w: Resident, end: Resident, t: float) -> Subgradients:
        return self._planes(starts, None, None, w, end, t)

    def _planes(
        self, starts: Indices, z: Resident | None, dz: Resident | None, w: Resident, end: Resident, t: float
    ) -> Subgradients:
        size = self.cuts.size
        sums, products = self.problem.cut(size, starts, z, dz, w, end, t)
        new = range(size, size + len(sums))
        return Subgradients(new, products[:, :-1], products[:, -1], sums[:, 0], sums[:, 1])

    def interior_costs(self, objective: ObjectiveData) -> StepCosts | None:
        """Return the costs in nanoseconds; None unless all rows are here, and X is dense and has room."""
        matrix = self.problem.matrix
        if self._rows is None or isinstance(self.cuts, GpuRowCuts) or not matrix.is_dense:
            return None
        if matrix.weighted_gram_bytes > matrix.bytes_left:
            return None
        (rows, d), nnz, item = objective.operator.shape, objective.operator.nnz, matrix.vector_dtype.itemsize
        read = nnz * item / READ_BYTES_PER_NS
        hessian = rows * d**2 / GRAM_TERMS_PER_NS + d**3 / FACTOR_TERMS_PER_NS
        return StepCosts(
            PASS_NS + 2 * read,
            hessian + STEP_PRODUCTS * read + STEP_ROW_NS * rows,
            d * item / READ_BYTES_PER_NS,
            FACE_CHANGES_PER_CUT * FACE_CHANGE_NS,
        )

    @property
    def has_hessian(self) -> bool:
        return has_blas()

    def pieces(self) -> Pieces:
        assert self._rows is not None
        return Pieces(*cast("KinkedRisk", self._rows()).pieces())

    def rows_of(self, z: Resident) -> Vector:
        return z.get() if self.problem.offset is None else z.get() - self.problem.offset

    def placed(self, w: Vector, margins: Vector) -> tuple[Resident, Resident]:
        """Copy a point to the device; its margins come from a product."""
        return self.fresh(self.weights(w))

    def planes_of(self, r: Vector, starts: Indices, w: Vector) -> Subgradients:
        point = self.weights(w)
        self.problem.set_derivatives(r, starts)
        return self._planes(starts, None, None, point, point, 0.0)

    def newton_point(self, objective: ObjectiveData, at: Iterate, gradients: Gradients) -> Resident | None:
        assert isinstance(gradients, range)
        if self._mean_squares is None:
            self._mean_squares = objective.operator.mean_squares
        return self.problem.newton_point(
            at.w,
            at.margins,
            at.intercept,
            gradients,
            self._mean_squares,
            objective.reg.lam,
            objective.profile,
            MAX_CG_STEPS,
            CG_FORCING,
        )

    def begin_ascent(self, objective: ObjectiveData, at: Iterate) -> GpuAscent:
        return GpuAscent(objective, self, self.cuts, at)


class SlopePasses(GpuPasses):
    """`GpuPasses` with a search that asks for one slope of the risk at a time, as on the host."""

    def __init__(self, cuts: GpuCuts) -> None:
        super().__init__(cuts, ahead=False)

    def search(self, ray: LineSearchProblem) -> tuple[Resident, LineSearchResult]:
        return search_on_slopes(self, ray)
