"""The objective: what the outer loop asks about the data.

    J(w) = lam Omega(w) + R(w),    R(w) = sum_i s_i loss(x_i . w, y_i) / sum_i s_i

`Objective` evaluates J and takes cutting planes of R, by passes over the rows that a backend makes
(`Passes`). `Line` is the ray from the best point through another one.

An unpenalised intercept is minimised out, ``R(w) = min_b R(w, b)``, which keeps the problem convex in w
alone. Its cuts are exact without the exact minimiser b: if b_low and b_high bracket it, the joint cuts of
R(w, b) at both have slopes g_low <= 0 <= g_high in b, and the mean of the two cuts whose slope in b is zero
bounds R(w, b) from below for every b, hence its minimum over b too. The intercepts of several classes are
minimised out in the same way, by cuts whose slopes in all of them are zero; see `class_intercepts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.linear.objective.blocks import block_starts
from bmrm.linear.objective.class_intercepts import ClassIntercepts
from bmrm.linear.objective.line_search import Bracket, bracket_minimum, search_ray
from bmrm.linear.objective.passes import (
    MAX_LINE_STEP,
    SHIFT_PER_STEP,
    CutBatch,
    DesignOperator,
    FreeIntercept,
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    Margins,
    Passes,
    Subgradients,
    Weights,
)
from bmrm.linear.objective.running_error import NOTED_SHARE, ErrorBound, FarPlane
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss
from bmrm.losses.extent import Extent

LEVEL_SLOPE = 1e-12
"""Slopes in b below this share of the numbers that they are sums of may be rounding. Such a slope is not
believed if it says that no intercept minimises the risk."""

MAX_FRESH_SIZE = 2.0
"""Largest size of margins, as a multiple of that of their weights, up to which a new product does not
help."""

FAR_RISK = 10.0
"""A risk above this multiple of the least objective is that of a point far away."""

SIDE_REACH_FACTOR = 8.0
"""How many times farther out the next plane that limits an optimal intercept is taken."""

MAX_SIDE_RATIO = 0.9
"""Planes that limit an optimal intercept are taken until one lowers the limit to no less than this share."""

MAX_SIDE_PLANES = 60
"""Maximum number of such planes in one direction."""


class Objective:
    """J for one data set, loss and regulariser.

    - ``passes``: bound to the operator, the loss, the labels and the weights
    - ``profile``: minimise over an unpenalised intercept
    - ``blocks``: number of blocks of rows, each with a cut of its own; 1 if ``profile``, since the blocks
      share b
    - ``classes``: minimises the intercepts of several classes out; None if there is one, or none is free
    """

    def __init__(
        self,
        operator: DesignOperator,
        passes: Passes,
        loss: Loss,
        reg: Regularizer,
        *,
        profile: bool,
        blocks: int,
        columns: int = 1,
        classes: ClassIntercepts | None = None,
    ) -> None:
        self.operator, self.passes, self.loss, self.reg, self.profile = operator, passes, loss, reg, profile
        self.starts = columns * block_starts(operator.shape[0] // columns, blocks)
        self.errors: ErrorBound | None = None
        """What rounding in float64 may hide; None if sums are in float32."""
        self.classes = classes
        self._bias = 0.0
        """Where the next search for the intercept begins: where the last one ended."""
        self.home: FreeIntercept = 0.0
        """Where it begins if sums overflow there: the intercept of the best point."""
        self.kink_width = 0.0
        """Width over which the kinks of the loss are rounded in searches and cuts; 0 if they are not."""

    def round_kinks(self, width: float) -> None:
        """Round the kinks in searches and cuts over ``width`` from now on; 0 leaves them as they are."""
        self.kink_width = width
        self.passes.round_kinks(width)

    def expect(self, intercept: FreeIntercept) -> None:
        """Begin the first search for a free intercept at this value."""
        if self.classes is None:
            self._bias = float(intercept)
        else:
            self.classes.begin(intercept)

    @property
    def takes_full_steps(self) -> bool:
        """Whether a step of 1 to Newton's point is taken if it leaves little of the slope.

        The point has the zeros that a sparse penalty put there; any other step has fewer.
        """
        return self.reg.sparse

    @property
    def blocks(self) -> int:
        """Number of cuts per pass."""
        return len(self.starts) - 1

    def model(self, point: Iterate) -> tuple[Vector, float | Vector]:
        """Return weights and intercept as the user sees them; here a penalised intercept is a weight."""
        w, intercept = self.operator.split(self.passes.array(point.w))
        return w, point.intercept if self.profile or intercept is None else intercept

    def evaluate(self, w: Weights) -> Iterate:
        """Evaluate J at ``w`` from a new product, with the intercept that minimises the loss as it is."""
        w, margins = self.passes.fresh(w)
        with self._kinks_as_they_are():
            return self.evaluate_at(w, margins, 0.0)

    @contextmanager
    def _kinks_as_they_are(self) -> Iterator[None]:
        """Round no kinks meanwhile: J is larger at the intercept that minimises the rounded loss."""
        width = self.kink_width
        if not (self.profile and width):
            yield
            return
        self.round_kinks(0.0)
        try:
            yield
        finally:
            self.round_kinks(width)

    def risk_at_zero(self) -> float:
        """Return the mean loss at weights and intercept of 0."""
        passes = self.passes
        return passes.risk(passes.fresh(passes.origin())[1], None, 0.0, 0.0)[0]

    def evaluate_at(self, w: Weights, margins: Margins, accuracy: float) -> Iterate:
        """Evaluate J at a point with known margins; minimise over an intercept to within ``accuracy``."""
        return self._at(w, margins, None, 0.0, accuracy, self.size(w))

    def size(self, w: Weights) -> float:
        """Return the size of a point, 0 if errors are not counted; see `running_error`."""
        return 0.0 if self.errors is None else self.errors.size(w)

    def hidden(self, point: Iterate) -> float:
        """Return what rounding in float64 may hide of J at a point."""
        errors = self.errors
        if errors is None:
            return 0.0
        found = errors.of_point(point.objective, point.size, point.intercept)
        # If margins are compared with each other, moving all of them together says nothing.
        alone = self.loss.by_rows and not self.loss.several and self.loss.task != "structured"
        if (found <= NOTED_SHARE * errors.wanted and not errors.measures) or not alone:
            return found
        # A closer look: the derivatives as far to either side as margins may be off.
        off, squares = errors.of_margins(point.size, point.intercept), 0.0
        for b in (point.intercept - off, point.intercept + off):
            self.passes.risk(point.margins, None, 0.0, b)  # its kinks are never rounded
            known = self.passes.known_of(self.starts[[0, -1]], 1)
            if known is None:
                return found
            length = float(known.lengths[0])
            squares += length * length  # ** 2 of a float may raise
        return errors.of_point(point.objective, point.size, point.intercept, math.sqrt(squares))

    def cut(
        self,
        planes: Subgradients,
        offsets: Vector,
        risk: float,
        terms: Vector,
        size: float,
        intercept: FreeIntercept,
        slope: Vector,
    ) -> CutBatch:
        """Make a cut of planes, with what rounding may have done to them.

        - ``offsets``, shape (blocks,)
        - ``terms``, shape (blocks,): sizes of the terms that the risks of the blocks are sums of
        - ``size``, ``intercept``: size of the margins at the point, and its intercept
        - ``slope``, shape (blocks,): slopes in an intercept that is minimised out
        """
        errors = self.errors
        if errors is None:
            return CutBatch(planes, offsets, risk)
        found = errors.of_cut(terms, size, intercept, slope, None)
        far = not abs(risk) <= FAR_RISK * abs(errors.objective)  # and J may yet fall by as much
        # A look at derivatives is cheap if a sort, or a search for K intercepts, has just made them.
        cheap = not self.loss.by_rows or self.classes is not None
        if errors.measures or far or cheap or errors.is_noted(found, size):
            known = self.passes.known_of(self.starts, 0, self.loss.intercept_slope)
            found = errors.of_cut(terms, size, intercept, slope, known)
            if known is not None and (far or not self.loss.by_rows or errors.is_large(found, size)):
                # The constants of planes are not differences of numbers that are large far from the optimum.
                straight = self.loss.kinked or not self.loss.by_rows
                constants = self.passes.constants(self.starts) if straight else None
                if constants is not None:
                    offsets, found = constants, errors.of_conjugates(constants, slope, known)
        return CutBatch(planes, offsets, risk, found)

    def cut_of_conjugates(self, planes: Subgradients, offsets: Vector) -> CutBatch:
        """Make a cut of planes ``<X' r, w> + offset`` with any derivatives r."""
        planes, errors, blur = planes._replace(risk=offsets + planes.at_point), self.errors, None
        if errors is not None:
            blur = errors.of_conjugates(offsets, planes.slope, None)
            if errors.is_noted(blur, errors.best_size):
                known = self.passes.known_of(self.starts, 0, self.loss.intercept_slope)
                blur = errors.of_conjugates(offsets, planes.slope, known)
        return CutBatch(planes, offsets, self.risk(planes.risk), blur)

    def block_rows(self, extent: Extent) -> Indices:
        """Return the maximum number of margins of each block."""
        return np.diff(self.starts)

    def gradient(self, gradients: Vector) -> Vector:
        """Return the gradient of the risk from those of its parts, which have a cut each."""
        return np.asarray(gradients.sum(axis=0))

    def risk(self, parts: Vector) -> float:
        """Return the risk from its parts, which have a cut each."""
        return float(sum(parts.tolist()))  # few: NumPy takes longer

    def line(self, best: Iterate, end: Weights) -> Line:
        """Return the line from the best point to ``end``, by a product with X."""
        return Line(self, best, end, self.passes.margins(end))

    def _at(
        self, w: Weights, z: Margins, dz: Margins | None, t: float, accuracy: float, size: float
    ) -> Iterate:
        """Evaluate J at ``w`` with margins ``z + t dz``; see `evaluate_at`."""
        b = self._best_intercept(z, dz, t, accuracy) if self.profile else 0.0
        risk, moved = self.passes.risk(z, dz, t, b)
        return Iterate(w, moved, b, self._whole(w, risk, b), size)

    def _best_intercept(self, z: Margins, dz: Margins | None, t: float, accuracy: float) -> FreeIntercept:
        if self.classes is not None:
            return self.classes.minimiser(z, dz, t, accuracy)
        return self._bracket_intercept(z, dz, t, accuracy).nearest

    def with_intercept(self, at: Iterate, b: FreeIntercept) -> Iterate:
        """Return the point with another free intercept if J is no larger with it, else the point itself."""
        risk, _ = self.passes.risk(at.margins, None, 0.0, b)
        found = self._whole(at.w, risk, b)
        return at._replace(intercept=b, objective=found) if found <= at.objective else at

    def _whole(self, w: Weights, risk: float, b: FreeIntercept) -> float:
        slope = self.loss.intercept_slope
        return self.passes.penalty(self.reg, w) + risk + (slope * b if slope else 0.0)

    def _bracket_intercept(self, z: Margins, dz: Margins | None, t: float, accuracy: float) -> Bracket:
        """Bracket the b that minimises R at margins ``z + t dz``, starting from the last one found."""
        along = z if dz is None else dz

        def slope(b: float) -> float:
            return self.passes.slope(z, along, t, b)[1] + self.loss.intercept_slope

        here = slope(self._bias)
        if not math.isfinite(here):
            self._bias, here = self.home, slope(self.home)
        found = bracket_minimum(slope, self._bias, 0.1, accuracy, here)
        self._bias = found.nearest
        return found

    def look_aside(self, at: Iterate) -> None:
        """Find two planes that are steep in b, one on either side: they limit an optimal intercept."""
        errors = self.errors
        if errors is None or not self.profile:
            return
        errors.objective, errors.best_size, errors.centre = at.objective, at.size, at.intercept
        if self.classes is not None:
            errors.limit = self.classes.limit
            return
        sides = [self._side(errors, at, sign) for sign in (-1.0, 1.0)]
        if sides[0] is not None and sides[1] is not None:
            errors.sides = sides[0], sides[1]

    def _side(self, errors: ErrorBound, at: Iterate, sign: float) -> FarPlane | None:
        """Return the plane on one side that limits an optimal intercept most; None if none does."""
        of_labels = errors.extent.labels / errors.root if self.loss.task == "regression" else 1.0
        size, best, least = errors.farthest_weights(at), None, math.inf
        for factor in (SIDE_REACH_FACTOR, 1.0 / SIDE_REACH_FACTOR):
            reach = (of_labels or 1.0) * (1.0 if factor > 1.0 else factor)
            for _ in range(MAX_SIDE_PLANES):
                side = self._plane_aside(errors, at, at.intercept + sign * reach)
                if side is None:
                    break
                far = math.inf
                if sign * side.slope > 0.0:
                    far = side.farthest(at.objective, size, errors.centre)
                enough = best is not None and far > MAX_SIDE_RATIO * least
                if far < least:
                    best, least = side, far
                if enough:
                    break
                reach *= factor
        return best

    def _plane_aside(self, errors: ErrorBound, at: Iterate, b: float) -> FarPlane | None:
        """Return the plane at another intercept; None if sums overflow."""
        extra = self.loss.intercept_slope
        risk, slope = self.passes.derivatives(at.margins, None, 0.0, b, 1)
        risk, slope = risk + extra * b, slope + extra
        if not (math.isfinite(risk) and math.isfinite(slope)):
            return None
        return FarPlane(b, risk, slope, errors.steep(abs(risk) + abs(extra * b)), at.size)

    def steepest(self, risk: float) -> float:
        """Return a bound on the terms that slopes in b are sums of, at a point of this risk."""
        if self.errors is None or self.errors.measures:
            return max(1.0, risk)
        return self.errors.root * self.errors.steep(risk) + abs(self.loss.intercept_slope)

    def _profiled_slope(self, z: Margins, dz: Margins, t: float, accuracy: float) -> float:
        if self.classes is not None:
            return self.classes.slope(z, dz, t, accuracy)
        found = self._bracket_intercept(z, dz, t, 0.1 * accuracy)
        low, high = (self.passes.slope(z, dz, t, b)[0] for b in (found.low, found.high))
        return found.share_low * low + (1.0 - found.share_low) * high


class Line:
    """The points ``w + t (end - w)`` from the best one on, with their margins.

    ``margins`` are those of ``end``; None if it is the best point itself.
    """

    def __init__(self, objective: Objective, best: Iterate, end: Weights, margins: Margins | None) -> None:
        self.objective, self.best, self.end = objective, best, end
        objective.home = best.intercept
        if objective.classes is not None:
            objective.classes.begin(best.intercept)
        self._margins, self._dz = margins, None
        self._end_size = objective.size(end)
        self._searched: LineSearchResult | None = None

    def search(
        self, first: float, accuracy: float, content: float = 0.0, reach: float = SHIFT_PER_STEP
    ) -> float:
        """Minimise J along the line, 0 <= t <= 100, from stored margins alone: no product with X.

        - ``accuracy``: J at the step returned exceeds the minimum on the ray by no more than this
        - ``content``: see `search_ray`
        - ``reach``: where the next cut will most likely be taken: so far beyond the step, as a multiple of it
        """
        objective, passes = self.objective, self.objective.passes
        accuracy *= objective.loss.search_slack
        penalty = passes.penalty_line(objective.reg, self.best.w, self.end)
        if not objective.profile:
            best = self.best
            self._dz, self._searched = passes.search(
                LineSearchProblem(
                    best.margins, self._margins, best.w, self.end, penalty, first, accuracy, content, reach
                )
            )
            return self._searched.step
        z, dz = self.best.margins, self._direction()

        def slope(t: float) -> float:
            return penalty.slope(t) + objective._profiled_slope(z, dz, t, accuracy)

        return search_ray(slope, first, accuracy, end=penalty.end, longest=MAX_LINE_STEP, content=content)

    def at(self, t: float, accuracy: float) -> Iterate:
        """Evaluate J at a point of the line; see `Objective.evaluate_at`."""
        objective = self.objective
        w = objective.reg.project(objective.passes.between(self.best.w, self.end, t))
        if self._searched is not None and self._searched.step == t:
            _, moved, risk = self._searched
            return Iterate(w, moved, 0.0, objective._whole(w, risk, 0.0), self._size(t))
        return objective._at(w, self.best.margins, self._direction(), t, accuracy, self._size(t))

    def _size(self, t: float) -> float:
        """Return the size of the margins at a point of the line, including what they inherit from both ends.

        The direction is a difference: the rounding of the first end stays in it, even at the other end.
        """
        errors = self.objective.errors
        carried = 0.0 if errors is None else errors.carried
        return (abs(1.0 - t) + abs(t) * carried) * self.best.size + abs(t) * self._end_size

    def is_fresh(self, point: Iterate) -> bool:
        """Whether the margins of a point are hardly less exact than those from a new product, at the end."""
        return point.size <= MAX_FRESH_SIZE * self._end_size

    def cut(self, t: float, accuracy: float) -> CutBatch:
        """Return the cutting planes of R at a point of the line."""
        objective, passes = self.objective, self.objective.passes
        z, dz = self.best.margins, self._direction()
        if objective.classes is not None:
            return self._cut_of_classes(objective.classes, z, dz, t, accuracy)
        if objective.profile:
            return self._profiled_cut(z, dz, t, accuracy)
        planes = passes.planes(z, dz, t, objective.starts, self.best.w, self.end)
        risks = planes.risk
        return objective.cut(
            planes, risks - planes.at_point, objective.risk(risks), risks, self._size(t), 0.0, planes.slope
        )

    def _direction(self) -> Margins | None:
        if self._dz is None and self._margins is not None:
            self._dz = self.objective.passes.direction(self.best.margins, self._margins)
        return self._dz

    def _cut_of_classes(
        self, classes: ClassIntercepts, z: Margins, dz: Margins | None, t: float, accuracy: float
    ) -> CutBatch:
        objective = self.objective
        plane = classes.cut(z, dz, t, accuracy)
        planes = objective.passes.mixed_planes(objective.starts, self.best.w, self.end, t)
        level, tilt = np.array([plane.level]), np.array([plane.tilt])
        planes = planes._replace(risk=level)
        return objective.cut(
            planes, level - planes.at_point, plane.level, level, self._size(t), plane.intercepts, tilt
        )

    def _profiled_cut(self, z: Margins, dz: Margins | None, t: float, accuracy: float) -> CutBatch:
        objective, passes = self.objective, self.objective.passes
        extra = objective.loss.intercept_slope
        found = objective._bracket_intercept(z, dz, t, accuracy)
        risk_low, slope_low = passes.derivatives(z, dz, t, found.low, 0)
        risk_high, slope_high = passes.derivatives(z, dz, t, found.high, 1)
        terms_low = abs(risk_low) + abs(extra * found.low)
        terms_high = abs(risk_high) + abs(extra * found.high)
        risk_low, slope_low = risk_low + extra * found.low, slope_low + extra
        risk_high, slope_high = risk_high + extra * found.high, slope_high + extra
        # These slopes are new: the mean's slope in b must vanish for these very derivatives.
        if max(slope_low, -slope_high) > LEVEL_SLOPE * objective.steepest(max(abs(risk_low), abs(risk_high))):
            raise DataError(f"loss {objective.loss.name}: no intercept minimises the risk; fit without one")
        width = slope_high - slope_low
        share = min(1.0, max(0.0, slope_high / width)) if 0.0 < width < math.inf else 1.0
        passes.mix_derivatives(share)
        planes = passes.mixed_planes(objective.starts, self.best.w, self.end, t)
        # Slopes that cancel up to rounding must not be extrapolated far, as to b = 0.
        b = found.nearest
        fall_low, fall_high = slope_low * (found.low - b), slope_high * (found.high - b)
        level = share * (risk_low - fall_low) + (1.0 - share) * (risk_high - fall_high)
        terms = share * (terms_low + abs(fall_low)) + (1.0 - share) * (terms_high + abs(fall_high))
        slope = np.array([share * slope_low + (1.0 - share) * slope_high])
        planes = planes._replace(risk=np.array([level]))
        return objective.cut(
            planes,
            level - planes.at_point,
            min(risk_low, risk_high),
            np.array([terms]),
            self._size(t),
            b,
            slope,
        )
