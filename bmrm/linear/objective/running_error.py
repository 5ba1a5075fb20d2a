"""What rounding in float64 may hide of an objective, of cutting planes and of a bound: a running error bound.

A sum of n products in any order is off by at most ``n u`` times the sum of their absolute values, u the
unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. (2002), section 3.1). That
worst case grows with n; the error as it occurs grows with the root of n. `chain` takes the worst case for
short sums and the root for long ones, which holds with a probability next to 1 if rounding errors are
independent (Higham, Mary, SIAM J. Sci. Comput. 41 (2019) A2815, theorem 2.4).

All sums of a solve involve X, so one number serves them all: the *size* of a point w,

    size(w) = sum_j |w_j| |x_j|  >=  | |X| |w| |,        x_j the columns of X, norms Euclidean.

A product is off by ``chain(d) u size(w)``, and margins that are moved along a line carry the sizes of both
ends on. A risk follows its margins by no more than the length of its derivatives, which `Loss.steepness`
bounds. So J at a point is off by that length times the error of the margins, and by little else. A cutting
plane ``R(w) >= <a, w> + offset`` is off by as much at the point where it was taken (`Blur.error`), and at any
other point by the error of ``a = X' r``, ``chain(m) u |r| size(w)`` (`Blur.slack`).

An intercept that is minimised out adds one thing. The slope of a plane in b must be 0, but rounding leaves a
little of it (`Blur.tilt`), and such a plane says nothing about an intercept that is far away. Two planes that
are steep in b, one on either side, limit how far away a better intercept can be (`FarPlane`). With K
intercepts a tilt is the sum of the sizes of K slopes, and a distance is the largest of K; each loss knows how
far from 0 intercepts need to be, since they fit margins no larger than the size of a point (`limit`).

Sums in float32, on a GPU, are another matter: see `bmrm.linear.solvers.rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bmrm.base.vectors import UNIT, Indices, Vector, norm
from bmrm.linear.regularizers import RADIUS, Reach, Regularizer
from bmrm.losses.extent import Extent

MOVE_ROUNDINGS = 3.0
"""Roundings of margins that are moved along a line, besides those of long sums."""

DERIVATIVE_ROUNDINGS = 2.0
"""Roundings of a derivative before it is summed."""

LOSS_ROUNDINGS = 8.0
"""Roundings of the loss of a row, with compiled functions within 2 ulp."""

NOTED_SHARE = 0.01
"""An error above this share of the gap to stop at is looked at more closely."""

ROW_LANES = 8
"""Partial sums of a row's product with one vector: lanes on the CPU, threads on a GPU."""

LANE_ROWS = 256
"""Maximum number of terms in one lane of a sum over a chunk of rows."""

CHUNK_ROWS = 2048
"""Rows of a chunk; a sum over rows has one term per chunk."""

MAX_REACH_ROUNDS = 4
"""The number of times that the reach of intercepts is computed, each time from the last bound."""


def largest(intercept: Any) -> float:
    """Return the size of an intercept, or the largest of those of several classes.

    Examples
    --------
    >>> largest(-2.0), largest(np.array([1.0, -3.0]))
    (2.0, 3.0)
    """
    return float(np.abs(intercept).max())


def chain(n: float) -> float:
    """Return the units of roundoff that a sum of ``n`` terms may be off by, relative to their absolute sum.

    Examples
    --------
    >>> chain(3), chain(10_000)
    (3.0, 103.0)
    """
    return min(float(n), math.sqrt(n) + 3.0)


class Blur(NamedTuple):
    """What rounding may have done to cutting planes: one array entry per plane."""

    error: Vector  # shape (planes,): how far above the risk the plane may be at w = 0
    slack: Vector
    """Shape (planes,): error of the gradient, in units of roundoff times the lengths of the columns."""
    steep: Vector  # shape (planes,): upper bound of the length of the derivatives
    tilt: Vector  # shape (planes,): upper bound of the slope in an intercept that is minimised out


class MeanBlur(NamedTuple):
    """What rounding may have done to a combination of planes; see `Blur`."""

    error: float
    slack: float
    steep: float
    tilt: float


class Derivatives(NamedTuple):
    """What is known of the derivatives that planes are made of."""

    lengths: Vector  # shape (planes,)
    entries: int  # maximum number of them that are not 0 in one plane
    slopes: Vector
    """Shape (planes,): their sums, and what an intercept adds: exact up to the last digit, however small they
    are."""


class FarPlane(NamedTuple):
    """A plane that is steep in the intercept, taken far to one side."""

    # The intercept where it was taken; the risk there, and its slope in b
    intercept: float
    risk: float
    slope: float
    # Upper bound of the length of the derivatives, and the size of the point
    steep: float
    size: float

    def farthest(self, objective: float, size: float, centre: float) -> float:
        """Return the largest distance from a centre of an intercept at which J is at most ``objective``.

        ``size`` is at least that of the difference of its weights from those here.
        """
        above = max(0.0, objective - self.risk) + self.steep * size
        above += 1e-6 * (abs(objective) + abs(self.risk))  # both as computed
        return abs(self.intercept - centre) + above / abs(self.slope)


class ErrorBound:
    """The running error bound of one objective.

    - ``lengths``, shape (columns,), or float: lengths of the columns of X; or that of all together, if the
      weights are not at hand one by one
    - ``size``: returns the size of a point, wherever its weights are
    - ``columns``, ``longest``: columns of X, and stored values of the fullest row
    - ``floor``: a number that the risk is nowhere below; may be minus infinity
    - ``steepness``: returns an upper bound of the length of the derivatives at points with at most a given
      risk; None if there is none
    - ``bend``: upper bound of the second derivative of the loss of a row if its slope has no limit; 0 if it
      has one
    - ``blocks``, shape (planes,): maximum number of margins that each plane of a point depends on
    - ``level``: what differences of margins, or from labels, are compared with in turn
    - ``joint``: whether the loss takes the margins of many rows together
    """

    def __init__(
        self,
        extent: Extent,
        lengths: Vector | float,
        size: Callable[[Any], float],
        columns: int,
        longest: int,
        floor: float,
        steepness: Callable[[float], float | None],
        bend: float,
        blocks: Indices,
        *,
        level: float = 0.0,
        joint: bool = False,
    ) -> None:
        self.extent, self.lengths, self.size, self.floor = extent, lengths, size, floor
        self._steepness, self._bend = steepness, bend
        rows = extent.margins
        self.root = math.sqrt(rows)
        """Length of the vector of ones, one per margin."""
        # Maximum length of the derivatives of a block, as a share of that of all.
        self._shares = np.minimum(1.0, extent.most / extent.weight * np.sqrt(blocks))
        self._zeros = np.zeros(len(blocks))
        self.measures = steepness(1.0) is None
        """Whether the length of derivatives has to be measured."""
        # A product with one vector sums each row in lanes; with several, one after the other.
        of_row = longest / ROW_LANES + 3.0 if extent.losses_per_row == 1 else float(longest)
        self._of_row = chain(min(longest, of_row)) + MOVE_ROUNDINGS
        self._of_weights = chain(columns) + DERIVATIVE_ROUNDINGS
        self.carried = MOVE_ROUNDINGS / self._of_row
        """Share of a point's size that margins carry on when they are moved away from it, however far."""
        self._of_sum = LOSS_ROUNDINGS + chain(min(rows, LANE_ROWS)) + chain(rows / CHUNK_ROWS)
        # Derivatives of margins taken together are sums themselves.
        self._of_slope = DERIVATIVE_ROUNDINGS + (self._of_sum if joint else 0.0)
        self._of_column = chain(rows) + self._of_slope
        self._of_compared = level * self.root + (self._of_sum * extent.labels if joint else 0.0)
        self._of_compared += MOVE_ROUNDINGS * extent.offsets
        self._places = extent.labels + extent.offsets
        """Norm of the places that derivatives are multiplied by in conjugates."""
        self.profile = False
        """Whether an intercept is minimised out."""
        self.sides: tuple[FarPlane, FarPlane] | None = None
        self.limit: Callable[[float], float] | None = None
        """Returns how far from 0 intercepts of K classes need to be, for margins of at most a given size."""
        self.centre: Any = 0.0
        """The intercept that others are measured from, so that an offset of all labels does not matter."""
        self.seen = 0.0
        """The largest length of derivatives measured so far."""
        self.reach: Reach | None = None
        """How much the penalty limits the weights; None before `take_penalty`."""
        self.prior_size = 0.0
        """Size of the prior mean."""
        self.radius = RADIUS
        """How far from the prior mean features without a penalty may be."""
        self.objective, self.best_size, self.bound = np.inf, np.inf, -np.inf
        """The least J so far, the size of its point, and the best bound."""
        self.wanted = np.inf
        """The gap to stop at."""

    def take_penalty(self, reg: Regularizer) -> None:
        """Set the penalty that limits the weights."""
        self.reach = reg.reach(self.lengths)
        self.prior_size = 0.0 if reg.prior is None else self.size(reg.prior)

    @property
    def softness(self) -> float:
        """Sum of the squared lengths of columns over the curvatures of the penalty."""
        return 0.0 if self.reach is None else self.reach.softness

    def reachable(self, gap: float) -> float:
        """Return the size of the difference of weights that may be optimal from the best ones, for a gap."""
        assert self.reach is not None
        reach = self.reach
        # In features with curvature J is strongly convex; in others the penalty is at most J less the risk.
        there = math.sqrt(2.0 * gap * reach.curved)
        if reach.kinked or reach.free:
            there += reach.kinked * max(0.0, self.objective - self.floor) + self.prior_size
            there += self.best_size + (self.radius * reach.free if reach.free else 0.0)
        return float(there)

    def steep(self, risk: float, measured: float | None = None) -> float:
        """Return an upper bound of the length of the derivatives at a point with this risk."""
        found = self._steepness(risk)
        if found is not None:
            return found
        self.seen = max(self.seen, measured or 0.0)
        return self.seen if measured is None else measured

    def of_margins(self, size: float, intercept: Any) -> float:
        """Return the length of the error of margins of ``size``, with the intercept.

        Labels add nothing: a difference from one is rounded relative to itself, which counts only if it is
        compared with another number. Margins taken together are compared with sums over rows. The offset of a
        margin is added to it, and rounded like a margin that is moved.
        """
        return UNIT * (self._of_row * size + largest(intercept) * self.root + self._of_compared)

    def of_point(self, objective: float, size: float, intercept: Any, measured: float | None = None) -> float:
        """Return the error of J at a point, as computed from margins of ``size``.

        ``measured`` is the length of the derivatives, over the range that margins may be off by, if known.
        """
        floor = abs(self.floor) if math.isfinite(self.floor) else 0.0
        terms = abs(objective) + floor
        off = self.of_margins(size, intercept)
        steep = self.steep(max(objective, 0.0) + floor)
        found = (steep if measured is None else min(steep, measured)) * off
        found += 0.5 * self._bend * self.extent.most * off * off
        return found + UNIT * (2.0 * self._of_sum + self._of_weights) * terms

    def of_cut(
        self,
        risk: Vector,
        size: float,
        intercept: Any,
        slope: Vector,
        measured: Derivatives | None,
    ) -> Blur:
        """Return the blur of planes taken at one point.

        - ``risk``, shape (planes,): risk of the rows of each plane at the point
        - ``size``: size of the point's margins
        - ``slope``, shape (planes,): slope in an intercept that is minimised out, as computed; 0 without one
        - ``measured``: what is known of the derivatives, if they were measured
        """
        risk = np.abs(risk)
        whole = self.steep(float(risk.sum()), None if measured is None else norm(measured.lengths))
        steep, of_column = self._of_blocks(whole, measured)
        inner = UNIT * (of_column + self._of_weights) * size
        error = steep * (self.of_margins(size, intercept) + inner) + UNIT * self._of_sum * risk
        return self._tilted(Blur(error, of_column * steep, steep, self._zeros), intercept, slope, measured)

    def of_conjugates(self, offsets: Vector, slope: Vector, measured: Derivatives | None) -> Blur:
        """Return the blur of planes that are made of derivatives and their conjugates, without margins.

        - ``offsets``, ``slope``, shape (planes,)
        - ``measured``: what is known of the derivatives, if they were measured
        """
        whole, places = self._steepness(np.inf), self._places
        if whole is None:  # conjugates bend: r^2 / (2 c) for each row of weight 1
            bend = self._bend * self.extent.most
            whole = bend * places + math.sqrt(
                (bend * places) ** 2 + 2.0 * bend * float(np.abs(offsets).sum())
            )
        steep, of_column = self._of_blocks(whole, measured)
        error = UNIT * self._of_sum * (np.abs(offsets) + steep * places)
        return self._tilted(Blur(error, of_column * steep, steep, self._zeros), 0.0, slope, measured)

    def is_large(self, blur: Blur, size: float) -> bool:
        """Whether a blur is large compared with the gap to stop at."""
        error = float(blur.error.sum()) + UNIT * size * float(blur.slack.sum())
        return not error <= NOTED_SHARE * self.wanted

    def is_noted(self, blur: Blur, size: float) -> bool:
        """Whether planes are worth a closer look: for their blur, or for their tilt."""
        if self.is_large(blur, size):
            return True
        tilt = float(blur.tilt.sum()) if self.profile else 0.0
        return tilt > 0.0 and tilt * self._farthest(self.wanted) > NOTED_SHARE * self.wanted

    def _of_blocks(self, whole: float, measured: Derivatives | None) -> tuple[Vector, float]:
        """Return upper bounds of the length of the derivatives of blocks, and the error of their sums."""
        steep = whole * self._shares
        if measured is None:
            return steep, self._of_column
        return np.minimum(steep, measured.lengths), chain(measured.entries) + self._of_slope

    def _tilted(self, blur: Blur, intercept: Any, slope: Vector, measured: Derivatives | None) -> Blur:
        """Add what is left of slopes in an intercept that is minimised out; it has this value here."""
        if not self.profile:
            return blur
        if measured is None:
            tilt = np.abs(slope) + UNIT * self._of_sum * self.root * blur.steep
        else:
            tilt = np.abs(measured.slopes) * (1.0 + DERIVATIVE_ROUNDINGS * UNIT)
        return blur._replace(error=blur.error + tilt * largest(intercept - self.centre), tilt=tilt)

    def of_mean(self, mean: MeanBlur, size: float, mass: float, sums: int, softness: float) -> float:
        """Return the error of the minimum of a penalty plus the mean of planes, except for the intercept.

        - ``mass``: largest deviation from 1 of the masses of a block
        - ``sums``: the number of sums that a plane has gone through: merges, and this mean
        - ``softness``: sum of the squared lengths of columns over the curvatures of the penalty
        """
        # The sums that a mean goes through round vectors that are no longer than the derivatives.
        off = UNIT * (mean.slack + chain(sums) * mean.steep)
        found = mean.error + off * size + 0.5 * off * off * softness
        known = abs(self.objective) + (abs(self.floor) if math.isfinite(self.floor) else mean.steep * size)
        return found + (mass + UNIT * self._of_weights) * known

    def of_combination(self, mean: MeanBlur, length: float, sums: int) -> float:
        """Return the error of ``lam/2 |w|^2`` for a minimiser that is a combination of rows.

        It comes from products of planes, X X' r, which cancel in the mean. ``length`` is that of the
        coefficients.
        """
        if not isinstance(self.lengths, float):
            return 0.0
        square = self.lengths**2
        off = (self._of_row + self._of_column + chain(sums)) * mean.steep
        return UNIT * off * square * min(length, mean.steep * self.softness / square if square else 0.0)

    def slack(self, mean: MeanBlur) -> Vector:
        """Return the error of each entry of the mean of gradients."""
        return np.asarray(UNIT * (mean.slack + self._of_weights * mean.steep) * self.lengths)

    def less_tilt(self, bound: float, tilt: float) -> float:
        """Return a bound less what its slope in the intercept may cost, as far as an intercept can be."""
        if not tilt:
            return bound
        least = max(self.bound, self.floor, self._least())
        found = -np.inf
        for _ in range(MAX_REACH_ROUNDS):
            lost = tilt * self._farthest(self.objective - least)
            found = max(found, bound - lost)
            if not found > least or lost <= NOTED_SHARE * self.wanted:
                break
            least = found
        return found

    def farthest_weights(self, at: Any) -> float:
        """Return the size of the difference between weights that may be optimal and those of a point."""
        if self.reach is None:
            return np.inf
        gap = at.objective - self.floor if math.isfinite(self.floor) else abs(at.objective)
        return self.reachable(max(gap, 0.0)) + float(at.size)

    def _farthest(self, gap: float) -> float:
        """Return how far from the centre an optimal intercept can be."""
        if self.reach is None or not gap < np.inf:
            return np.inf
        away = self.reachable(max(gap, 0.0)) + self.best_size
        if self.limit is not None:
            return (1.0 + 1e-6) * self.limit(away + self.extent.offsets) + largest(self.centre)
        if self.sides is None:
            return np.inf
        return max(side.farthest(self.objective, away + side.size, self.centre) for side in self.sides)

    def _least(self) -> float:
        """Return a bound that rests on the sides alone: the mean of their planes without slope in b."""
        if self.sides is None or self.reach is None:
            return -np.inf
        low, high = self.sides
        share = high.slope / (high.slope - low.slope)
        found = 0.0
        for side, part in ((low, share), (high, 1.0 - share)):
            found += part * (side.risk - side.slope * side.intercept - side.steep * side.size)
        # lam Omega(w) - steep |X w| is least where |X w|^2 is `softness` times twice the penalty.
        steep = max(low.steep, high.steep)
        return found - steep * (self.prior_size + 0.5 * steep * self.softness) - 1e-6 * abs(found)
