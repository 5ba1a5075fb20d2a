"""Search for the minimum of a convex function on a line, from slopes alone.

The functions here are sums over rows, piecewise linear for the hinge and smooth for the logistic loss. One
bracketing search on the slope, which is monotone, serves both: regula falsi with the Illinois correction
(Dowell, Jarratt, BIT 11 (1971) 168), and bisection whenever that shrinks the bracket too slowly, as it does
at a kink.

By convexity a point with slope s in a bracket of width h is at most |s| h above the minimum: the search
stops on that bound, so its accuracy is known and not guessed.
"""

from collections.abc import Callable
from typing import NamedTuple

MAX_SLOPE_CALLS = 200
"""Maximum number of slopes in each half of a search, outward and within the bracket."""

MAX_POINT = 1e150
"""A search outward ends beyond this point: its square is near the end of float64."""

STEP_GROWTH = 4.0
"""Factor of the step from one point to the next in a search outward."""


class Bracket(NamedTuple):
    """Two points on either side of a minimum, ``slope_low <= 0 <= slope_high``."""

    low: float
    slope_low: float
    high: float
    slope_high: float

    @property
    def nearest(self) -> float:
        """The end with the flatter slope."""
        return self.low if -self.slope_low < self.slope_high else self.high

    @property
    def excess(self) -> float:
        """How far above the minimum the value at `nearest` can be."""
        flatter = min(-self.slope_low, self.slope_high)
        # An infinite slope at one end says nothing about the other.
        return flatter * (self.high - self.low) if flatter > 0.0 else 0.0

    @property
    def share_low(self) -> float:
        """Weight of the low end for which the two slopes average to zero."""
        width = self.slope_high - self.slope_low
        return self.slope_high / width if width > 0.0 and self.slope_high < float("inf") else 1.0


def _outward(slope: float, limit: float) -> float:
    """Return a slope; its limit if terms overflow to inf - inf, as they do far out."""
    return slope if slope == slope else limit


def bracket_minimum(
    slope: Callable[[float], float],
    start: float,
    step: float,
    accuracy: float,
    slope_start: float | None = None,
) -> Bracket:
    """Bracket the minimum of a convex function of one variable.

    - ``slope``: a subgradient of the function at a point
    - ``start``, ``step``: the point to begin at, and the first step to try (positive)
    - ``accuracy``: the value at ``bracket.nearest`` exceeds the minimum by no more than this, rounding aside
    - ``slope_start``: ``slope(start)``, if known

    Examples
    --------
    >>> from bmrm.linear.objective.line_search import bracket_minimum
    >>> round(bracket_minimum(lambda t: 2 * (t - 3), 0.0, 1.0, 1e-12).nearest, 6)
    3.0
    """
    here = slope(start) if slope_start is None else slope_start
    if here == 0.0:
        return Bracket(start, 0.0, start, 0.0)
    sign = -1.0 if here > 0.0 else 1.0
    near, slope_near = start, here
    for _ in range(MAX_SLOPE_CALLS):
        far = near + sign * step
        slope_far = _outward(slope(far), sign * float("inf"))
        if slope_far * sign >= 0.0 or abs(far) > MAX_POINT:
            break
        near, slope_near = far, slope_far
        step *= STEP_GROWTH
    if sign > 0.0:
        return _shrink(slope, Bracket(near, slope_near, far, slope_far), accuracy)
    return _shrink(slope, Bracket(far, slope_far, near, slope_near), accuracy)


def search_ray(
    slope: Callable[[float], float],
    first: float,
    accuracy: float,
    *,
    end: float,
    longest: float,
    content: float = 0.0,
) -> float:
    """Minimise a convex function on ``0 <= t <= min(end, longest)``.

    - ``slope``: a subgradient of the function at a point
    - ``accuracy``: the value at the step returned exceeds the minimum by no more than this
    - ``end``: the end of the function's domain, or infinity; the slope may still be negative there
    - ``longest``: the longest step that makes sense
    - ``content``: if ``first`` leaves at most this share of the slope, and the function is no larger there,
      it is returned as it is

    Examples
    --------
    >>> from bmrm.linear.objective.line_search import search_ray
    >>> search_ray(lambda t: 2 * (t - 3), 1.0, 1e-12, end=2.0, longest=100.0)
    2.0
    """
    start = slope(0.0)
    if not start < 0.0:
        return 0.0
    last = min(end, longest)
    if content and first <= last and is_content(slope, start, first, slope(first), content):
        return first
    if end <= longest and slope(last) <= 0.0:
        return last
    return min(bracket_minimum(slope, 0.0, min(first, last), accuracy, start).nearest, last)


def is_content(
    slope: Callable[[float], float], start: float, step: float, there: float, content: float
) -> bool:
    """Whether a step leaves at most a share of the slope, and the convex function no larger.

    - ``slope``: called half way if the function rises at the step: either half rises by at most its last
      slope
    - ``start``, ``there``: slopes at 0, negative, and at the step
    """
    return abs(there) <= -content * start and (there <= 0.0 or slope(0.5 * step) + there <= 0.0)


def _shrink(slope: Callable[[float], float], bracket: Bracket, accuracy: float) -> Bracket:
    # The Illinois correction halves the remembered slope of an end that stays; the true slopes are kept
    # apart.
    weight_low = weight_high = 1.0
    last_width = bracket.high - bracket.low
    for call in range(MAX_SLOPE_CALLS):
        low, slope_low, high, slope_high = bracket
        width = high - low
        if bracket.excess <= accuracy:
            break
        middle = low + 0.5 * width
        if not low < middle < high:
            break
        trial = middle
        falls = weight_low * slope_low, weight_high * slope_high
        if call % 3 != 2 or width <= 0.25 * last_width:
            secant = low - falls[0] * (width / (falls[1] - falls[0]))
            if low < secant < high:
                trial = secant
        if call % 3 == 2:
            last_width = width
        value = slope(trial)
        if value != value:
            value = slope_high
        if value <= 0.0:
            bracket = Bracket(trial, value, high, slope_high)
            weight_low, weight_high = 1.0, weight_high * 0.5
        else:
            bracket = Bracket(low, slope_low, trial, value)
            weight_low, weight_high = weight_low * 0.5, 1.0
    return bracket
