"""The bracketing search against known minima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm.linear.objective.line_search import Bracket, bracket_minimum, search_ray


@settings(max_examples=200, deadline=None)
@given(
    kinks=st.lists(st.floats(-50, 50), min_size=1, max_size=30),
    start=st.floats(-20, 20),
    step=st.floats(1e-6, 100),
    curve=st.sampled_from([0.0, 1e-4, 1.0]),
)
def test_excess_bounds_the_error_of_piecewise_quadratics(kinks, start, step, curve):
    kinks = np.array(kinks)

    def value(t):
        return np.abs(t - kinks).sum() + 0.5 * curve * t * t

    def slope(t):
        return float(np.sign(t - kinks).sum() + curve * t)

    found = bracket_minimum(slope, start, step, 1e-9)
    assert found.slope_low <= 0.0 <= found.slope_high
    best = min(value(t) for t in [*kinks, *np.linspace(found.low, found.high, 9)])
    assert value(found.nearest) <= best + 2e-9 * (1 + abs(best))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_smooth_minimum(scale):
    calls = []

    def slope(t):
        calls.append(t)
        return float(np.tanh((t - 3.0 * scale) / scale) + 0.1 * t / scale)

    found = bracket_minimum(slope, 0.0, scale, 1e-12 * scale)
    assert abs(slope(found.nearest)) < 1e-6
    assert len(calls) < 30


def test_overflow_far_out_is_uphill():
    def slope(t):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.exp(t * 1e3) - np.exp(-t * 1e3 + 5) + (np.inf - np.inf if abs(t) > 5 else 0.0))

    found = bracket_minimum(slope, 0.0, 100.0, 1e-12)
    assert found.nearest == pytest.approx(2.5e-3, rel=1e-5)


@pytest.mark.parametrize(
    ("low", "high", "share"),
    [
        (-1.0, 3.0, 0.75),
        (-0.0, 2.0, 1.0),
        (-2.0, 0.0, 0.0),
        (-np.inf, 1.0, 0.0),
        (-1.0, np.inf, 1.0),
        (-np.inf, np.inf, 1.0),
        (1.0, 1.0, 1.0),
    ],
)
def test_slopes_average_to_zero(low, high, share):
    """If slopes are infinite or no minimum was found, the slope of one end is taken."""
    assert Bracket(0.0, low, 1.0, high).share_low == share


def test_a_start_at_the_minimum_is_kept():
    assert bracket_minimum(lambda t: 0.0, 2.0, 1.0, 0.0).nearest == 2.0


def test_a_content_search_takes_no_step_that_rises():
    """The slope jumps early: 0.2 at the first step is small, but nearly all of the way is uphill."""
    slope = lambda t: -1.0 if t < 1e-3 else 0.2  # noqa: E731
    found = search_ray(slope, 1e3, 1e-9, end=np.inf, longest=1e4, content=0.3)
    assert found == pytest.approx(1e-3, abs=1e-6)
    asked: list[float] = []

    def parabola(t):
        asked.append(t)
        return t - 0.8

    assert search_ray(parabola, 1.0, 1e-9, end=np.inf, longest=1e4, content=0.3) == 1.0
    assert len(asked) == 3
