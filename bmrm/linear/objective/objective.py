"""The objective: what the outer loop asks about the data.

    J(w) = lam Omega(w) + R(w),    R(w) = sum_i s_i loss(x_i . w, y_i) / sum_i s_i

The loop works on *lines*: from the best point to another the margins are known at both ends, so that to
search the line, to move to a point of it and to take the derivatives there need no product with X.  Where
weights and margins live, and how the passes over the rows are made, is the business of `Passes`:
``host_passes.py`` has NumPy arrays and the loss's compiled sums, ``gpu_passes.py`` keeps all on a GPU, and
``row_space.py`` keeps combinations of rows where X has fewer rows than columns.

An unpenalised intercept is profiled out, ``R(w) = min_b R(w, b)``, which keeps the problem convex in w
alone.  Its cuts stay exact without ever finding the minimising b exactly: if b_low and b_high bracket it,
the joint cuts of R(w, b) at both have slopes g_low <= 0 <= g_high in b, and the mean of the two cuts whose
slope in b is zero bounds R(w, b) from below for every b, hence its minimum over b too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError
from bmrm.linear.objective.blocks import block_starts
from bmrm.linear.objective.line_search import Bracket, bracket_minimum, search_ray
from bmrm.linear.objective.running_error import NOTED, Blur, Derivatives, ErrorBound, Side
from bmrm.linear.regularizers import Regularizer, Slopes
from bmrm.losses import Loss
from bmrm.losses.extent import Extent

Vector = NDArray[np.float64]
Starts = NDArray[np.int64]
Weights: TypeAlias = Any
"""A point w where `Passes` keeps it: an array, or a handle of one on a device."""
Margins: TypeAlias = Any
"""Margins X w, likewise."""
Gradients: TypeAlias = Vector | range
"""Gradients of cuts, an array; on a device the numbers that they have in their store."""

LONGEST_STEP = 100.0
"""The direction is known to rounding of w, and a longer step would make much of that."""

FARTHEST, REACH = 0.1, 2.0
"""Largest distance of a cut beyond the new best point, as a share of that to the model's minimiser; and the
distance that it has as a rule, as a share of the step to that point."""

USELESS = 1e6
"""A risk so many times the first objective, as exp() reaches far from any optimum, says nothing of what is
near, and its cut drowns what others do."""

LEVEL = 1e-12
"""Slopes in b that are below this share of what they are sums of may be rounding. Where such a one says that
no intercept minimises the risk, it is not believed."""


FRESH = 2.0
"""Size of margins, beside that of weights that they belong to, up to which a new product is of no use."""

AFAR = 10.0
"""A risk so many times the least objective is that of a point far away."""

WIDER, BETTER, TRIES = 8.0, 0.9, 60
"""How much farther out the next plane that limits an optimal intercept is taken, until one does not lower the
limit to this share of it; at most so often."""


class Operator(Protocol):
    """The face of a resident matrix that training needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def nnz(self) -> int:
        """Stored values."""

    @property
    def n_outputs(self) -> int:
        """Margins per row of X."""

    @property
    def constant(self) -> float | None:
        """Value of the constant feature whose weights are penalised intercepts; None without one."""

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram`; infinite if there is no such product."""

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column, over all rows; not to be written to."""

    def matvec(self, w: Vector, out: Vector) -> object:
        """``out = X w``."""

    def rmatvec_blocks(self, r: Vector, starts: Starts, out: Vector) -> object:
        """``out[p] = X_p' r_p`` for each block of rows."""

    def weighted_gram(self, s: Vector, out: Vector) -> object:
        """``out = X' diag(s) X``."""

    def split(self, w: Vector) -> tuple[Vector, float | Vector | None]:
        """Return weights and penalised intercepts of a vector of weights; None for no intercept."""

    def join(self, w: Vector, intercept: float | Vector) -> Vector:
        """Return the vector of weights and intercepts that `split` takes apart."""

    def column_squares(self, counted: Vector | None, rows: int) -> Vector:
        """Return the sum of the squares of each column; see `bmrm.matrix.adapted.MatrixAdapter`."""


class LineSearchProblem(NamedTuple):
    """A line to search from a point on, and how; see `search_ray`.

    Attributes
    ----------
    z, end : Margins
        Of the point, and of the step 1; the latter may be used up.
    w, w_end : Weights
        Likewise.
    penalty : Slopes
        Of the penalty along it.
    first, accuracy, content, reach : float
    """

    z: Margins
    end: Margins
    w: Weights
    w_end: Weights
    penalty: Slopes
    first: float
    accuracy: float
    content: float
    reach: float

    def minimise(self, slope: Callable[[float], float]) -> float:
        """Search it, by slopes of J."""
        return search_ray(
            slope,
            self.first,
            self.accuracy,
            end=self.penalty.end,
            longest=LONGEST_STEP,
            content=self.content,
        )


class LineSearchResult(NamedTuple):
    """The end of a search along a line: the step, and the margins and the risk there."""

    step: float
    margins: Margins
    risk: float


class Subgradients(NamedTuple):
    """Cutting planes at one point, one for each block of rows.

    Attributes
    ----------
    gradients : ndarray of shape (blocks, width), or range
        As the store of the cuts keeps them; the numbers that they have there, where it has them already.
    products : ndarray of shape (blocks, cuts + blocks), or None
        Of the gradients with those of all cuts, where they are known.
    at_point : ndarray of shape (blocks,)
        Of the gradients with the point.
    risk, slope : ndarray of shape (blocks,)
        Risk of each block's rows, and sum of their derivatives.
    """

    gradients: Gradients
    products: Vector | None
    at_point: Vector
    risk: Vector
    slope: Vector


class Passes(Protocol):
    """Weights, margins and derivatives where they live, and the passes over them."""

    @property
    def seconds(self) -> float:
        """Time of all products so far."""

    def origin(self) -> Weights:
        """Weights that are 0."""

    def column_lengths(self, squares: Vector) -> Vector | float:
        """Return the length of each column of X; or that of all, if weights are not at hand one by one."""

    def size(self, w: Weights, lengths: Vector | float) -> float:
        """Return the size of a point that `between` did not make; see `running_error`."""

    def known_of(self, starts: Starts, which: int, extra: float = 0.0) -> Derivatives | None:
        """Return what is known of derivatives, by block of rows: the first or second of two sets.

        To the sum of the rows' derivatives comes ``extra``.
        """

    def constants(self, starts: Starts) -> Vector | None:
        """Return the offsets of the last planes of a loss with kinks from their derivatives alone.

        None: the derivatives, or what they are of, are not at hand.
        """

    def weights(self, w: Vector) -> Weights:
        """Take weights in."""

    def array(self, w: Weights) -> Vector:
        """Give weights out."""

    def margins(self, w: Weights) -> Margins:
        """``X w`` of a point that the bundle's store made."""

    def fresh(self, w: Weights) -> tuple[Weights, Margins]:
        """Return the same point and its margins from a new product, free of what rounding added up."""

    def rescaled(self, w: Weights, scale: float) -> Margins:
        """Margins of ``scale w``, from a product of its own: the same but for rounding, and the scale."""

    def direction(self, z: Margins, end: Margins) -> Margins:
        """``end - z``; the margins ``end`` may be used up."""

    def between(self, w: Weights, end: Weights, t: float) -> Weights:
        """``w + t (end - w)``."""

    def penalty(self, reg: Regularizer, w: Weights) -> float:
        """``lam Omega(w)``."""

    def penalty_line(self, reg: Regularizer, w: Weights, end: Weights) -> Slopes:
        """Return the derivative of ``lam Omega`` along ``w + t (end - w)``."""

    def search(self, ray: LineSearchProblem) -> tuple[Margins, LineSearchResult]:
        """Minimise J along a line, see `search_ray`; return the direction too."""

    def slope(self, z: Margins, dz: Margins, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of ``R(z + t dz + b)`` in t and b."""

    def risk(self, z: Margins, dz: Margins | None, t: float, b: float) -> tuple[float, Margins]:
        """Risk at ``z + t dz + b``, and the margins ``z + t dz``; without dz, t is 0.

        On the host the second set of derivatives is that of the risk there.
        """

    def derivatives(
        self, z: Margins, dz: Margins | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        """Keep the derivatives of all rows, the first or second of two sets; return risk and their sum."""

    def mix_derivatives(self, share: float) -> None:
        """Make the first derivatives ``share`` of themselves and the rest of the second ones."""

    def planes(
        self, z: Margins, dz: Margins | None, t: float, starts: Starts, w: Weights, end: Weights
    ) -> Subgradients:
        """Cutting planes at ``z + t dz``, the margins of ``w + t (end - w)``."""

    def mixed_planes(self, starts: Starts, w: Weights, end: Weights, t: float) -> Subgradients:
        """Cutting planes of the first derivatives as they are."""


class Iterate(NamedTuple):
    """A point with all that is known of it; its `size` is that of its margins, see `running_error`."""

    w: Weights
    margins: Margins
    intercept: float
    objective: float
    size: float = 0.0


class CutBatch(NamedTuple):
    """Cutting planes as the bundle takes them, the risk at their point, and what rounding may have done."""

    planes: Subgradients
    offsets: Vector
    risk: float
    blur: Blur | None = None


class Objective:
    """J for one data set, loss and regulariser.

    Parameters
    ----------
    operator : Operator
    passes : Passes
        Bound to the design, the loss, the labels and the weights.
    loss : Loss
    reg : Regularizer
    profile : bool
        Minimise over an unpenalised intercept.
    blocks : int
        Number of blocks of rows, each with a cut of its own; 1 where ``profile``, since the blocks share b.
    columns : int, default 1
        Entries of margins that belong to a row.
    """

    def __init__(
        self,
        operator: Operator,
        passes: Passes,
        loss: Loss,
        reg: Regularizer,
        *,
        profile: bool,
        blocks: int,
        columns: int = 1,
    ) -> None:
        self.operator, self.passes, self.loss, self.reg, self.profile = operator, passes, loss, reg, profile
        self.starts = columns * block_starts(operator.shape[0] // columns, blocks)
        self.errors: ErrorBound | None = None
        """What rounding in float64 may hide; None where sums are in float32."""
        self._bias = self.home = 0.0
        """Where searches for the intercept begin: where the last one ended; where sums overflow there, at the
        intercept of the best point."""

    def expect(self, intercept: float) -> None:
        """Begin the first search for a free intercept at what it is said to be."""
        self._bias = intercept

    @property
    def takes_full_steps(self) -> bool:
        """Whether Newton's point itself will do where it leaves little of the slope.

        It has the zeros that a sparse regulariser put there.
        """
        return self.reg.sparse

    @property
    def blocks(self) -> int:
        """Cuts a pass."""
        return len(self.starts) - 1

    def model(self, point: Iterate) -> tuple[Vector, float | Vector]:
        """Return weights and intercept as the user sees them; a penalised one is the last weight."""
        w, intercept = self.operator.split(self.passes.array(point.w))
        return w, point.intercept if intercept is None else intercept

    def evaluate(self, w: Weights) -> Iterate:
        """Evaluate J at ``w`` from a new product."""
        w, margins = self.passes.fresh(w)
        return self.evaluate_at(w, margins, 0.0)

    def risk_at_zero(self) -> float:
        """Mean loss at weights and intercept of 0."""
        passes = self.passes
        return passes.risk(passes.fresh(passes.origin())[1], None, 0.0, 0.0)[0]

    def evaluate_at(self, w: Weights, margins: Margins, accuracy: float) -> Iterate:
        """Evaluate J at a point whose margins are known; with a profiled intercept to within ``accuracy``."""
        return self._at(w, margins, None, 0.0, accuracy, self.size(w))

    def size(self, w: Weights) -> float:
        """Return the size of a point, if anybody wants to know; see `bmrm.linear.objective.running_error`."""
        return 0.0 if self.errors is None else self.errors.size(w)

    def hidden(self, point: Iterate) -> float:
        """Return what rounding in float64 may hide of J at a point."""
        errors = self.errors
        if errors is None:
            return 0.0
        found = errors.of_point(point.objective, point.size, point.intercept)
        # Margins that are compared with each other all move together, which says nothing.
        alone = self.loss.by_rows and not self.loss.several and self.loss.task != "structured"
        if (found <= NOTED * errors.wanted and not errors.measures) or not alone:
            return found
        # A closer look: the derivatives there, and as far to either side as margins may be off.
        off, squares = errors.of_margins(point.size, point.intercept), 0.0
        for b in (point.intercept - off, point.intercept + off):
            self.passes.risk(point.margins, None, 0.0, b)  # whose derivatives are those of kinks as they are
            known = self.passes.known_of(self.starts[[0, -1]], 1)
            if known is None:
                return found
            squares += float(known.lengths[0]) ** 2
        return errors.of_point(point.objective, point.size, point.intercept, math.sqrt(squares))

    def cut(
        self,
        planes: Subgradients,
        offsets: Vector,
        risk: float,
        terms: Vector,
        size: float,
        intercept: float,
        slope: Vector,
    ) -> CutBatch:
        """Make a cut of planes at a point whose margins have this size, with what rounding may have done.

        Parameters
        ----------
        planes : Subgradients
        offsets : ndarray of shape (blocks,)
        risk : float
        terms : ndarray of shape (blocks,)
            What the risks of the blocks are differences of.
        size, intercept : float
            Of the point.
        slope : ndarray of shape (blocks,)
            In an intercept that is minimised out.
        """
        errors = self.errors
        if errors is None:
            return CutBatch(planes, offsets, risk)
        found = errors.of_cut(terms, size, intercept, slope, None)
        far = not abs(risk) <= AFAR * abs(errors.objective)  # and J may yet fall by as much
        # A look at derivatives is short beside the sort that made those of margins taken together.
        if errors.measures or far or not self.loss.by_rows or errors.is_noted(found, size):
            known = self.passes.known_of(self.starts, 0, self.loss.intercept_slope)
            found = errors.of_cut(terms, size, intercept, slope, known)
            if known is not None and (far or not self.loss.by_rows or errors.is_large(found, size)):
                # The constants of planes are not differences of what is large far from the optimum.
                straight = self.loss.kinked or not self.loss.by_rows
                constants = self.passes.constants(self.starts) if straight else None
                if constants is not None:
                    offsets, found = constants, errors.of_conjugates(constants, slope, known)
        return CutBatch(planes, offsets, risk, found)

    def blur_of_conjugates(self, planes: Subgradients, offsets: Vector) -> Blur | None:
        """Return what rounding may have done to planes that derivatives make, with these offsets."""
        errors = self.errors
        if errors is None:
            return None
        found = errors.of_conjugates(offsets, planes.slope, None)
        if errors.is_noted(found, errors.best_size):
            known = self.passes.known_of(self.starts, 0, self.loss.intercept_slope)
            found = errors.of_conjugates(offsets, planes.slope, known)
        return found

    def block_rows(self, extent: Extent) -> Starts:
        """Return how many margins each block has, at most."""
        return np.diff(self.starts)

    def gradient(self, slopes: Vector) -> Vector:
        """Return the gradient of the risk from those of the parts that have a cut each."""
        return np.asarray(slopes.sum(axis=0))

    def risk(self, parts: Vector) -> float:
        """Return the risk from its parts that have a cut each."""
        return float(sum(parts.tolist()))  # few: NumPy takes longer

    def line(self, best: Iterate, end: Weights) -> Line:
        """Return the line from the best point to ``end``, by a product with X."""
        return Line(self, best, end, self.passes.margins(end))

    def _at(
        self, w: Weights, z: Margins, dz: Margins | None, t: float, accuracy: float, size: float
    ) -> Iterate:
        """Evaluate J at ``w`` with margins ``z + t dz``; with a profiled intercept to within ``accuracy``."""
        b = self._bracket_intercept(z, dz, t, accuracy).nearest if self.profile else 0.0
        risk, moved = self.passes.risk(z, dz, t, b)
        return Iterate(w, moved, b, self._whole(w, risk, b), size)

    def with_intercept(self, at: Iterate, b: float) -> Iterate:
        """Return a point with another free intercept, where J is no larger with it."""
        risk, _ = self.passes.risk(at.margins, None, 0.0, b)
        found = self._whole(at.w, risk, b)
        return at._replace(intercept=b, objective=found) if found <= at.objective else at

    def _whole(self, w: Weights, risk: float, b: float) -> float:
        return self.passes.penalty(self.reg, w) + risk + self.loss.intercept_slope * b

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
        """Find planes that are steep in b, one to either side: they limit an optimal intercept."""
        errors = self.errors
        if errors is None or not self.profile:
            return
        errors.objective, errors.best_size, errors.centre = at.objective, at.size, at.intercept
        sides = [self._side(errors, at, sign) for sign in (-1.0, 1.0)]
        if sides[0] is not None and sides[1] is not None:
            errors.sides = sides[0], sides[1]

    def _side(self, errors: ErrorBound, at: Iterate, sign: float) -> Side | None:
        """Find the plane to one side of a point that limits an optimal intercept most; None if none does."""
        of_labels = errors.extent.labels / errors.root if self.loss.task == "regression" else 1.0
        size, best, least = errors.farthest_weights(at), None, math.inf
        for factor in (WIDER, 1.0 / WIDER):
            reach = (of_labels or 1.0) * (1.0 if factor > 1.0 else factor)
            for _ in range(TRIES):
                side = self._plane_aside(errors, at, at.intercept + sign * reach)
                if side is None:
                    break
                far = math.inf
                if sign * side.slope > 0.0:
                    far = side.farthest(at.objective, size, errors.centre)
                enough = best is not None and far > BETTER * least
                if far < least:
                    best, least = side, far
                if enough:
                    break
                reach *= factor
        return best

    def _plane_aside(self, errors: ErrorBound, at: Iterate, b: float) -> Side | None:
        """Take the plane at another intercept; None where sums overflow."""
        extra = self.loss.intercept_slope
        risk, slope = self.passes.derivatives(at.margins, None, 0.0, b, 1)
        risk, slope = risk + extra * b, slope + extra
        if not (math.isfinite(risk) and math.isfinite(slope)):
            return None
        return Side(b, risk, slope, errors.steep(abs(risk) + abs(extra * b)), at.size)

    def steepest(self, risk: float) -> float:
        """Return what slopes in b are sums of, at most, where the risk is at most so much."""
        if self.errors is None or self.errors.measures:
            return max(1.0, risk)
        return self.errors.root * self.errors.steep(risk) + abs(self.loss.intercept_slope)

    def _profiled_slope(self, z: Margins, dz: Margins, t: float, accuracy: float) -> float:
        """Slope along a line of the risk minimised over b."""
        found = self._bracket_intercept(z, dz, t, 0.1 * accuracy)
        low, high = (self.passes.slope(z, dz, t, b)[0] for b in (found.low, found.high))
        return found.share_low * low + (1.0 - found.share_low) * high


class Line:
    """The points ``w + t (end - w)`` from the best one on, with their margins.

    Parameters
    ----------
    objective : Objective
    best : Iterate
    end : Weights
    margins : Margins or None
        Of ``end``; None where it is the best point itself.
    """

    def __init__(self, objective: Objective, best: Iterate, end: Weights, margins: Margins | None) -> None:
        self.objective, self.best, self.end = objective, best, end
        objective.home = best.intercept
        self._margins, self._dz = margins, None
        self._end_size = objective.size(end)
        self._searched: LineSearchResult | None = None

    def search(self, first: float, accuracy: float, content: float = 0.0, reach: float = REACH) -> float:
        """Minimise J along the line, 0 <= t <= 100, from stored margins alone: no product with X.

        Parameters
        ----------
        first : float
            First step to try.
        accuracy : float
            J at the step returned exceeds the minimum on the ray by no more than this.
        content : float, default 0
            See `search_ray`.
        reach : float
            How far beyond the step the next cut will most likely be taken, as a share of it.
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

        return search_ray(slope, first, accuracy, end=penalty.end, longest=LONGEST_STEP, content=content)

    def at(self, t: float, accuracy: float) -> Iterate:
        """Evaluate J at a point of the line; with a profiled intercept to within ``accuracy``."""
        objective = self.objective
        w = objective.reg.project(objective.passes.between(self.best.w, self.end, t))
        if self._searched is not None and self._searched.step == t:
            _, moved, risk = self._searched
            return Iterate(w, moved, 0.0, objective._whole(w, risk, 0.0), self._size(t))
        return objective._at(w, self.best.margins, self._direction(), t, accuracy, self._size(t))

    def _size(self, t: float) -> float:
        """Size of the margins at a point of the line, with what they carry on from both ends.

        The direction is a difference: what it rounds of the first end stays, also at the other one.
        """
        errors = self.objective.errors
        carried = 0.0 if errors is None else errors.carried
        return (abs(1.0 - t) + abs(t) * carried) * self.best.size + abs(t) * self._end_size

    def is_fresh(self, point: Iterate) -> bool:
        """Whether the margins of a point are hardly more than those of the other end, from its product."""
        return point.size <= FRESH * self._end_size

    def cut(self, t: float, accuracy: float) -> CutBatch:
        """Take the cutting planes of R at a point of the line."""
        objective, passes = self.objective, self.objective.passes
        z, dz = self.best.margins, self._direction()
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
        # The slopes are taken again here: the mean's slope in b must vanish for these very derivatives.
        if max(slope_low, -slope_high) > LEVEL * objective.steepest(max(abs(risk_low), abs(risk_high))):
            raise DataError(f"loss {objective.loss.name}: no intercept minimises the risk; fit without one")
        width = slope_high - slope_low
        share = min(1.0, max(0.0, slope_high / width)) if 0.0 < width < math.inf else 1.0
        passes.mix_derivatives(share)
        planes = passes.mixed_planes(objective.starts, self.best.w, self.end, t)
        # Of slopes that cancel to rounding alone, the values must not be taken from afar, as at b = 0.
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
