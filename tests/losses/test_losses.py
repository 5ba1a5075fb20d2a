"""Every loss compared with its formula in NumPy, derivatives with differences, cuts with convexity."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from loss_cases import CASES, FORMULAS, formula, labels_for

from bmrm import losses
from bmrm.errors import DataError, ParameterError
from bmrm.losses import _losses


def test_names_agree_with_the_compiled_table():
    scalar = [name for name, cls in losses.LOSSES.items() if issubclass(cls, losses.ScalarLoss)]
    assert tuple(scalar) == _losses.names() == tuple(FORMULAS)
    assert tuple(losses.LOSSES) == losses.NAMES


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("m", [1, 7, 8, 9, 5000])
def test_value_is_the_formula(loss, m):
    rng = np.random.default_rng(m)
    u, y = 4 * rng.normal(size=m), labels_for(loss, rng, m)
    np.testing.assert_allclose(loss.value(u, y), formula(loss, u, y), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
def test_derivative_is_a_difference_away_from_kinks(loss):
    rng = np.random.default_rng(3)
    u, y = 3 * rng.normal(size=2000), labels_for(loss, rng, 2000)
    step = 1e-6
    difference = (formula(loss, u + step, y) - formula(loss, u - step, y)) / (2 * step)
    wrong = np.abs(loss.derivative(u, y) - difference) > 1e-6 * (1 + np.abs(difference))
    # A few in a million rows have a kink inside the step.
    assert wrong.sum() <= 1


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_curvature_is_a_difference_of_derivatives(loss, weighted):
    rng = np.random.default_rng(4)
    m, b, step = 70_001, 0.2, 1e-6
    z, y = 3 * rng.normal(size=m), labels_for(loss, rng, m)
    s = rng.random(m) if weighted else None
    scale = 1 / (m if s is None else s.sum())
    results = []
    for threads in (1, 3):
        r = np.empty(m)
        total = loss.risk(y, s, scale, threads).curvature(z, b, r)
        results.append((total, *r))
    assert results[0] == results[1], "sums depend on the number of threads"
    assert total == pytest.approx(r.sum(), rel=1e-12)
    if not loss.smooth:
        return np.testing.assert_array_equal(r, 0.0)
    u = z + b
    difference = (loss.derivative(u + step, y) - loss.derivative(u - step, y)) / (2 * step)
    wanted = scale * difference * (1.0 if s is None else s)
    # For a few in a million rows the second derivative jumps inside the step.
    assert np.sum(np.abs(r - wanted) > 1e-6 * scale * (1 + np.abs(difference))) <= 2


def test_smooth_losses_are_those_without_kinks():
    kinked = {"hinge", "absolute", "quantile", "epsilon_insensitive", "novelty"}
    assert {loss.name for loss in CASES if not loss.smooth} == kinked
    assert not losses.CallableLoss(lambda u, y: ((u - y) ** 2, 2 * (u - y))).smooth


def two_points(loss, data):
    """Return margins of six rows at two points, and labels."""
    near = st.floats(-8, 8, width=32)
    u, v = (data.draw(hnp.arrays(float, 6, elements=near)) for _ in range(2))
    return u, v, labels_for(loss, np.random.default_rng(data.draw(st.integers(0, 99))), 6)


def assert_below(loss, lower, v, y):
    """Lower bounds of the loss of a row are nowhere above it."""
    assert np.all(loss.value(v, y) >= lower - 1e-9 * (1 + np.abs(lower)))


KINKED = [loss for loss in CASES if loss.kinked]


def test_kinks_are_rounded_if_the_loss_has_a_scale():
    # For novelty detection no bound is known before the intercept is.
    assert {loss.name for loss in KINKED} == {"hinge", "absolute", "quantile", "epsilon_insensitive"}
    assert not losses.CallableLoss(lambda u, y: (np.abs(u - y), np.sign(u - y))).kinked


def rounded(loss, u, y, width):
    """Return values, slopes and second derivatives of each row, with rounded kinks."""
    risk, slopes, bends = loss.risk(y, None, 1.0, 1).rounded(width), np.empty_like(u), np.empty_like(u)
    values, _ = risk.cut(u, u, 0.0, 0.0, np.arange(len(u) + 1), slopes)
    risk.curvature(u, 0.0, bends)
    return values, slopes, bends


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cut_with_rounded_kinks_bounds_the_loss(loss, data):
    u, v, y = two_points(loss, data)
    width = data.draw(st.sampled_from([1e-6, 0.1, 1.0, 20.0]))
    values, slopes, _ = rounded(loss, u, y, width)
    assert_below(loss, values + slopes * (v - u), v, y)
    # Two kinks have an eighth of the width each; the slope of the absolute loss jumps by 2.
    assert np.all(values >= loss.value(u, y) - 0.25 * width - 1e-9)


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("width", [1e-3, 0.3, 5.0])
def test_rounded_kinks_bend_and_nothing_else(loss, width):
    rng = np.random.default_rng(6)
    u, y = 3 * rng.normal(size=4000), labels_for(loss, rng, 4000)
    values, slopes, bends = rounded(loss, u, y, width)
    step = 1e-6 * width
    after, before = (rounded(loss, u + sign * step, y, width)[1] for sign in (1, -1))
    wrong = np.abs(bends - (after - before) / (2 * step)) > 1e-4 / width
    assert wrong.sum() <= 2, "an end of a parabola inside the step is seen by a few in a million rows"
    straight = bends == 0.0
    assert straight.any() or width > 1.0
    np.testing.assert_allclose(values[straight], loss.value(u, y)[straight], rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(slopes[straight], loss.derivative(u, y)[straight])


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("end", [-1.0, 1.0])
def test_the_line_of_a_rounded_kink_has_the_digits_of_its_slope(loss, end):
    # Near an end of the parabola the slope is nearly that beyond it, for some losses 0, like the line's.
    tube = loss.params.get("epsilon", 0.0)
    width = 0.5 * tube or 1.0
    y = np.ones(200)
    near = end * width * (1.0 - 10.0 ** -np.linspace(1.0, 12.0, 200))
    for kink in {1.0 - tube, 1.0 + tube} if tube else {1.0}:
        u = kink + near
        values, slopes, _ = rounded(loss, u, y, width)
        exact = [Fraction(r) * (Fraction(a) - Fraction(kink)) for r, a in zip(slopes, u, strict=True)]
        off = [abs(float(Fraction(v) - line)) for v, line in zip(values, exact, strict=True)]
        assert np.all(off <= 1e-15 * np.abs(slopes) * (1.0 + np.abs(u)) + 1e-300)


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
def test_rounded_kinks_keep_weights_blocks_and_what_is_no_number(loss):
    rng = np.random.default_rng(7)
    m = 9000
    z, dz, y, s = rng.normal(size=m), rng.normal(size=m), labels_for(loss, rng, m), rng.random(m)
    risk, starts, r = loss.risk(y, s, 0.1, 2).rounded(0.5), np.array([0, 100, m]), np.empty(m)
    values, sums = risk.cut(z, dz, 0.3, 0.2, starts, r)
    each, slopes, _ = rounded(loss, z + 0.3 * dz + 0.2, y, 0.5)
    np.testing.assert_allclose(r, 0.1 * s * slopes, rtol=1e-12, atol=1e-15)
    for p, (i, j) in enumerate(pairwise(starts)):
        assert values[p] == pytest.approx(0.1 * np.sum((s * each)[i:j]), rel=1e-10, abs=1e-12)
        assert sums[p] == pytest.approx(r[i:j].sum(), rel=1e-10, abs=1e-12)
    along, across = risk.slope(z, dz, 0.3, 0.2)
    assert along == pytest.approx(r @ dz, rel=1e-9, abs=1e-10)
    assert across == pytest.approx(r.sum(), rel=1e-9, abs=1e-10)
    z[5] = np.nan
    assert np.isnan(risk.cut(z, dz, 0.3, 0.2, starts, r)[0][0])
    assert np.isnan(r[5])
    assert np.isnan(risk.slope(z, dz, 0.3, 0.2)[0])


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_subgradient_inequality(loss, data):
    u, v, y = two_points(loss, data)
    assert_below(loss, loss.value(u, y) + loss.derivative(u, y) * (v - u), v, y)


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
def test_kinks_have_a_subgradient(loss):
    y = np.ones(4)
    u = np.array([1.0, 0.0, 1.0 + loss.params.get("epsilon", 0.0), 1.0 - loss.params.get("h", 0.0)])
    g, step = loss.derivative(u, y), 1e-3
    ahead = (formula(loss, u + step, y) - formula(loss, u, y)) / step
    behind = (formula(loss, u, y) - formula(loss, u - step, y)) / step
    assert np.all(behind - 1e-9 <= g)
    assert np.all(g <= ahead + 1e-9)


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_block_and_slopes_on_a_line(loss, weighted):
    rng = np.random.default_rng(11)
    m = 70_001
    z, dz, y = rng.normal(size=m), rng.normal(size=m), labels_for(loss, rng, m)
    s = rng.random(m) if weighted else None
    scale = 1 / (m if s is None else s.sum())
    full = scale * (np.ones(m) if s is None else s)
    starts = np.array([0, 1, 1, 30_000, m])
    results = []
    for threads in (1, 2, 3):
        risk, r = loss.risk(y, s, scale, threads), np.empty(m)
        values, slopes = risk.cut(z, dz, 0.3, -0.1, starts, r)
        results.append((*values, *slopes, *risk.slope(z, dz, 0.3, -0.1), *r))
    u = z + 0.3 * dz - 0.1
    blocks = list(pairwise(starts))
    rows, g = full * formula(loss, u, y), full * loss.derivative(u, y)
    np.testing.assert_allclose(values, [rows[i:j].sum() for i, j in blocks], rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(slopes, [g[i:j].sum() for i, j in blocks], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(risk.slope(z, dz, 0.3, -0.1), [g @ dz, g.sum()], rtol=1e-9, atol=1e-13)
    assert results[0] == results[1] == results[2], "sums depend on the number of threads"


def test_logistic_keeps_its_tails():
    u = np.array([-800.0, -40.0, 0.0, 40.0, 700.0, 800.0])
    logistic = losses.get("logistic")
    np.testing.assert_allclose(logistic.value(u, np.ones(6)), np.logaddexp(0, -u), rtol=1e-13)
    assert logistic.derivative(u, np.ones(6))[-1] == 0.0


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
def test_nan_is_not_hidden(loss):
    assert np.isnan(loss.value(np.array([np.nan, 1.0]), np.ones(2))).tolist() == [True, False]


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
def test_infinite_margins_have_the_limit(loss):
    u, y = np.array([np.inf, -np.inf]), np.ones(2)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(loss.value(u, y), formula(loss, u, y))


@pytest.mark.parametrize(
    ("name", "params", "found"),
    [
        ("hinges", {}, "hinges"),
        ("hinge", {"tau": 0.5}, "tau"),
        ("quantile", {"tau": 1.0}, "1"),
        ("quantile", {"tau": float("nan")}, "nan"),
        ("huber", {"delta": 0.0}, "0"),
        ("epsilon_insensitive", {"epsilon": -1.0}, "-1"),
        ("novelty", {"nu": 0.0}, "0"),
    ],
)
def test_bad_parameters(name, params, found):
    with pytest.raises(ParameterError, match=found):
        losses.get(name, **params)


def test_poisson_labels():
    poisson = losses.get("poisson")
    with pytest.raises(DataError, match="row 2 has label -1"):
        poisson.check_labels(np.array([1.0, -1.0]))
    with pytest.raises(DataError, match="found only labels of 0"):
        poisson.check_labels(np.zeros(3))


def test_user_loss_must_return_one_value_per_row():
    loss = losses.CallableLoss(lambda u, y: (u.sum(), u))
    with pytest.raises(DataError, match=r"values: found shape \(\), expected \(3,\)"):
        loss.value(np.ones(3), np.ones(3))
