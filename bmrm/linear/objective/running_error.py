"""What rounding in float64 may hide of an objective, of cutting planes and of a bound: a running error bound.

A sum of n products in any order is off by at most ``n u`` times the sum of their absolute values, u the
unit roundoff (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. (2002), section 3.1). That
worst case grows with n; the error as it occurs grows with the root of n. `chain` takes the worst case for
short sums, and for long ones the root, which holds with a probability next to 1 where rounding errors are
independent (Higham, Mary, SIAM J. Sci. Comput. 41 (2019) A2815, theorem 2.4).

All sums of a solve have X in them, so one number serves them all: the *size* of a point w,

    size(w) = sum_j |w_j| |x_j|  >=  | |X| |w| |,        x_j the columns of X, norms Euclidean.

A product is off by ``chain(d) u size(w)``, and margins that are moved along a line carry the sizes of both
ends on. A risk follows its margins by no more than the length of its derivatives, which `Loss.steepness`
bounds: so J at a point is off by that length times the error of the margins, and little else. A cutting
plane ``R(w) >= <a, w> + offset`` is off by as much where it was taken (`Blur.error`), and at any other
point by the error of ``a = X' r``, ``chain(m) u |r| size(w)`` (`Blur.slack`).

An intercept that is minimised out adds one thing. The slope of a plane in b must be 0, but rounding leaves
a little (`Blur.tilt`), and such a plane says nothing of an intercept that is far away. Two planes that are
steep in b, one to either side, limit how far away a better intercept can be (`Side`).

Sums in float32, on a GPU, are another matter: see `bmrm.linear.solvers.rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import length
from bmrm.linear.regularizers import RADIUS, Reach, Regularizer
from bmrm.losses.extent import Extent

Vector = NDArray[np.float64]

UNIT = 2.0**-53
"""Unit roundoff of float64."""

MOVED, FEW, OF_LOSS = 3.0, 2.0, 8.0
"""Roundings besides those of long sums: of margins that are moved along a line; of a derivative before it is
summed; and of a loss, compiled functions within 2 ulp."""

NOTED = 0.01
"""Share of the gap to stop at from which on an error is looked at more closely."""

IN_ROW = 8
"""Partial sums of a row's product with one vector: lanes on the CPU, threads on a GPU."""

LANES, CHUNK = 256, 2048
"""Longest sums over rows are of so many terms: those in a lane of a chunk of rows, and the chunks."""

ROUNDS = 4
"""Times that the reach of intercepts is taken from the bound that the last one gave."""


def chain(n: float) -> float:
    """Return how many units of roundoff a sum of ``n`` terms may be off by, as a share of their absolute sum.

    Examples
    --------
    >>> chain(3), chain(10_000)
    (3.0, 103.0)
    """
    return min(float(n), math.sqrt(n) + 3.0)


class Blur(NamedTuple):
    """What rounding may have done to cutting planes, an array entry for each.

    Attributes
    ----------
    error : ndarray of shape (planes,)
        How far above the risk the plane may be at weights of 0.
    slack : ndarray of shape (planes,)
        Error of the gradient, in units of roundoff of the columns' lengths.
    steep : ndarray of shape (planes,)
        Length of the derivatives, at most.
    tilt : ndarray of shape (planes,)
        Slope in an intercept that is minimised out, at most.
    """

    error: Vector
    slack: Vector
    steep: Vector
    tilt: Vector


class MeanBlur(NamedTuple):
    """What rounding may have done to a combination of planes; see `Blur`."""

    error: float
    slack: float
    steep: float
    tilt: float


class Derivatives(NamedTuple):
    """What is known of the derivatives that planes are made of.

    Attributes
    ----------
    lengths : ndarray of shape (planes,)
    entries : int
        How many of a plane are not 0, at most.
    slopes : ndarray of shape (planes,)
        Their sums, and what an intercept adds: to all digits but the last, be they as small as they may.
    """

    lengths: Vector
    entries: int
    slopes: Vector


class Side(NamedTuple):
    """A plane that is steep in the intercept, taken far to one side.

    Attributes
    ----------
    intercept, risk, slope : float
        Where it was taken; the risk there, and its slope in b.
    steep, size : float
        Length of the derivatives, at most, and the size of the point.
    """

    intercept: float
    risk: float
    slope: float
    steep: float
    size: float

    def farthest(self, objective: float, size: float, centre: float) -> float:
        """Return how far from a centre an intercept can be at which J is at most ``objective``.

        ``size`` is at least that of the difference of its weights from those here.
        """
        above = max(0.0, objective - self.risk) + self.steep * size
        above += 1e-6 * (abs(objective) + abs(self.risk))  # both as computed
        return abs(self.intercept - centre) + above / abs(self.slope)


class ErrorBound:
    """The running error bound of one objective.

    Parameters
    ----------
    extent : Extent
    lengths : ndarray of shape (columns,), or float
        Lengths of the columns of X; or that of all together, if weights are not at hand one by one.
    size : callable
        Size of a point, wherever its weights are.
    columns, longest : int
        Columns of X, and stored values of the fullest row.
    floor : float
        A number that the risk is nowhere below; may be minus infinity.
    steepness : callable
        Length of the derivatives, at most, where the risk is at most so much; None where nobody knows.
    bend : float
        Second derivative of the loss of a row, at most, where its slope has no limit; 0 where it has one.
    blocks : ndarray of int64, shape (planes,)
        Margins that each plane of a point is of, at most.
    level : float, default 0
        What differences of margins, or from labels, are compared with again.
    together : bool, default False
        Whether the loss is one of margins taken together.
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
        blocks: NDArray[np.int64],
        *,
        level: float = 0.0,
        together: bool = False,
    ) -> None:
        self.extent, self.lengths, self.size, self.floor = extent, lengths, size, floor
        self._steepness, self._bend = steepness, bend
        rows = extent.margins
        self.root = math.sqrt(rows)
        """Length of ones, one for each margin."""
        # The length of the derivatives of a block is at most this share of that of all.
        self._shares = np.minimum(1.0, extent.most / extent.weight * np.sqrt(blocks))
        self._zeros = np.zeros(len(blocks))
        self.measures = steepness(1.0) is None
        """Whether the length of derivatives has to be measured."""
        # Of one vector a product sums each row in lanes; of several column by column.
        of_row = longest / IN_ROW + 3.0 if extent.parts == 1 else float(longest)
        self._of_row = chain(min(longest, of_row)) + MOVED
        self._of_weights = chain(columns) + FEW
        self.carried = MOVED / self._of_row
        """Share of a point's size that margins moved away from it carry on, however far."""
        self._of_sum = OF_LOSS + chain(min(rows, LANES)) + chain(rows / CHUNK)
        # Derivatives of margins taken together are sums themselves.
        self._of_slope = FEW + (self._of_sum if together else 0.0)
        self._of_column = chain(rows) + self._of_slope
        self._of_compared = level * self.root + (self._of_sum * extent.labels if together else 0.0)
        self.profile = False
        """Whether an intercept is minimised out."""
        self.sides: tuple[Side, Side] | None = None
        self.centre = 0.0
        """The intercept that others are measured from: then an offset of all labels means nothing."""
        self.seen = 0.0
        """Longest derivatives that were measured."""
        self.reach: Reach | None = None
        """How much the penalty limits the weights; None before `take_penalty`."""
        self.prior_size = 0.0
        """Size of the prior mean."""
        self.radius = RADIUS
        """How far from the prior mean features without a penalty may be."""
        self.objective, self.best_size, self.bound = np.inf, np.inf, -np.inf
        """The least J so far, the size of its weights, and the best bound."""
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
        """Return the length of the derivatives, at most, at a point with this risk."""
        found = self._steepness(risk)
        if found is not None:
            return found
        self.seen = max(self.seen, measured or 0.0)
        return self.seen if measured is None else measured

    def of_margins(self, size: float, intercept: float) -> float:
        """Return the length of the error of margins of ``size``, with the intercept.

        Labels add nothing: a difference from one is rounded relative to itself, which counts where that is
        compared with another number. Margins taken together are compared with sums over rows.
        """
        return UNIT * (self._of_row * size + abs(intercept) * self.root + self._of_compared)

    def of_point(
        self, objective: float, size: float, intercept: float, measured: float | None = None
    ) -> float:
        """Return what J at a point may be off by, as it was computed from margins of ``size``.

        ``measured`` is the length of the derivatives, as far as margins may be off, if somebody looked.
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
        intercept: float,
        slope: Vector,
        measured: Derivatives | None,
    ) -> Blur:
        """Return the blur of planes that were taken at one point.

        Parameters
        ----------
        risk : ndarray of shape (planes,)
            Of the rows of each, there.
        size : float
            Of the point's margins.
        intercept : float
        slope : ndarray of shape (planes,)
            In an intercept that is minimised out, as computed; 0 without one.
        measured : Derivatives or None
            What is known of the derivatives, if somebody looked.
        """
        risk = np.abs(risk)
        whole = self.steep(float(risk.sum()), None if measured is None else length(measured.lengths))
        steep, of_column = self._of_blocks(whole, measured)
        inner = UNIT * (of_column + self._of_weights) * size
        error = steep * (self.of_margins(size, intercept) + inner) + UNIT * self._of_sum * risk
        return self._tilted(Blur(error, of_column * steep, steep, self._zeros), intercept, slope, measured)

    def of_conjugates(self, offsets: Vector, slope: Vector, measured: Derivatives | None) -> Blur:
        """Return the blur of planes that derivatives make by themselves, from conjugates instead of margins.

        Parameters
        ----------
        offsets, slope : ndarray of shape (planes,)
        measured : Derivatives or None
            What is known of the derivatives, if somebody looked.
        """
        whole, labels = self._steepness(np.inf), self.extent.labels
        if whole is None:  # conjugates bend: r^2 / (2 c) for each row of weight 1
            bend = self._bend * self.extent.most
            whole = bend * labels + math.sqrt(
                (bend * labels) ** 2 + 2.0 * bend * float(np.abs(offsets).sum())
            )
        steep, of_column = self._of_blocks(whole, measured)
        error = UNIT * self._of_sum * (np.abs(offsets) + steep * labels)
        return self._tilted(Blur(error, of_column * steep, steep, self._zeros), 0.0, slope, measured)

    def is_large(self, blur: Blur, size: float) -> bool:
        """Whether a blur is large beside the gap to stop at."""
        error = float(blur.error.sum()) + UNIT * size * float(blur.slack.sum())
        return not error <= NOTED * self.wanted

    def is_noted(self, blur: Blur, size: float) -> bool:
        """Whether planes are worth a closer look: for their blur, or for their tilt."""
        if self.is_large(blur, size):
            return True
        tilt = float(blur.tilt.sum()) if self.profile else 0.0
        return tilt > 0.0 and tilt * self._farthest(self.wanted) > NOTED * self.wanted

    def _of_blocks(self, whole: float, measured: Derivatives | None) -> tuple[Vector, float]:
        """Return the length of the derivatives of blocks of rows, at most, and the error of their sums."""
        steep = whole * self._shares
        if measured is None:
            return steep, self._of_column
        return np.minimum(steep, measured.lengths), chain(measured.entries) + self._of_slope

    def _tilted(self, blur: Blur, intercept: float, slope: Vector, measured: Derivatives | None) -> Blur:
        """Add what is left of slopes in an intercept that is minimised out, taken where it is this."""
        if not self.profile:
            return blur
        if measured is None:
            tilt = np.abs(slope) + UNIT * self._of_sum * self.root * blur.steep
        else:
            tilt = np.abs(measured.slopes) * (1.0 + FEW * UNIT)
        return blur._replace(error=blur.error + tilt * abs(intercept - self.centre), tilt=tilt)

    def of_mean(self, mean: MeanBlur, size: float, mass: float, sums: int, softness: float) -> float:
        """Return what the minimum of a penalty and the mean of planes may be off by, but for the intercept.

        Parameters
        ----------
        mean : MeanBlur
        size : float
            Of the minimiser.
        mass : float
            How far from 1 the weights of the planes of a block add up, at most.
        sums : int
            Sums that a plane has gone through: merges, and this mean.
        softness : float
            Sum of the squared lengths of columns over the curvatures of the penalty.
        """
        # The sums that a mean goes through round what is no longer than the derivatives.
        off = UNIT * (mean.slack + chain(sums) * mean.steep)
        found = mean.error + off * size + 0.5 * off * off * softness
        known = abs(self.objective) + (abs(self.floor) if math.isfinite(self.floor) else mean.steep * size)
        return found + (mass + UNIT * self._of_weights) * known

    def of_combination(self, mean: MeanBlur, length: float, sums: int) -> float:
        """Return what the square of a minimiser may be off by that is a combination of rows, times lam / 2.

        It comes from products of planes, X X' r, which cancel in the mean. ``length`` is that of the
        coefficients.
        """
        if not isinstance(self.lengths, float):
            return 0.0
        square = self.lengths**2
        off = (self._of_row + self._of_column + chain(sums)) * mean.steep
        return UNIT * off * square * min(length, mean.steep * self.softness / square if square else 0.0)

    def slack(self, mean: MeanBlur) -> Vector:
        """Return what each entry of the mean of gradients may be off by."""
        return np.asarray(UNIT * (mean.slack + self._of_weights * mean.steep) * self.lengths)

    def less_tilt(self, bound: float, tilt: float) -> float:
        """Return a bound less what an intercept out of reach of its slope may take from it."""
        if not tilt:
            return bound
        least = max(self.bound, self.floor, self._least())
        found = -np.inf
        for _ in range(ROUNDS):
            lost = tilt * self._farthest(self.objective - least)
            found = max(found, bound - lost)
            if not found > least or lost <= NOTED * self.wanted:
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
        if self.sides is None or self.reach is None or not gap < np.inf:
            return np.inf
        away = self.reachable(max(gap, 0.0)) + self.best_size
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
