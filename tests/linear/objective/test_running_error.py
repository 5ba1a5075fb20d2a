"""What rounding in float64 hides is in the gap: of J, of cuts, of bounds, and of an intercept's slope."""

from fractions import Fraction

import numpy as np
import pytest

import bmrm
from bmrm import losses
from bmrm.base.vectors import norm
from bmrm.linear.backends.host._ascent import Ascent
from bmrm.linear.objective.running_error import chain
from bmrm.losses.base import Pieces
from bmrm.matrix import _cpu


def quantile_loss(X, y, w, b, lam, tau):
    """J in exact arithmetic."""
    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    weights = [Fraction(v) for v in w.tolist()]
    total = Fraction(0)
    for row, label in zip(rows, y.tolist(), strict=True):
        e = Fraction(label) - sum(x * v for x, v in zip(row, weights, strict=True)) - Fraction(b)
        total += max(Fraction(tau) * e, (Fraction(tau) - 1) * e)
    return Fraction(lam) / 2 * sum(v * v for v in weights) + total / len(rows)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("scale", "tol"), [(1e7, 1e-6), (1e10, 1e-3)])
def test_a_slope_in_the_intercept_is_compared_with_slopes_not_with_the_risk(seed, scale, tol):
    """Labels times k and lam over k: the answer is k times that of the problem as it was."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, 5))
    y = X @ rng.standard_normal(5) + rng.standard_normal(5)
    lam = 10.0 ** rng.uniform(-4, -1)
    plain = bmrm.solve(X, y, "quantile", tau=0.3, lam=lam, fit_intercept=True, tol=1e-12)
    found = bmrm.solve(X, scale * y, "quantile", tau=0.3, lam=lam / scale, fit_intercept=True, tol=tol)
    attained = quantile_loss(X, scale * y, scale * plain.w, scale * plain.intercept, lam / scale, 0.3)
    assert found.status == "converged"
    assert Fraction(found.lower_bound) <= attained
    assert found.objective <= float(attained) * (1.0 + tol)


@pytest.mark.parametrize("tol", [1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("seed", range(4))
def test_a_gap_holds_the_rounding_of_an_objective_that_is_smaller_than_its_terms(seed, tol):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((2, 6)), rng.standard_normal(2)
    lam = 10.0 ** rng.uniform(-9, -3)
    found = bmrm.solve(X, y, "quantile", tau=0.5, lam=lam, tol=tol)
    exact = quantile_loss(X, y, found.w, 0.0, lam, 0.5)
    assert abs(Fraction(found.objective) - exact) <= Fraction(found.gap) + Fraction(2.0**-50) * exact
    if found.status == "converged":
        assert found.gap <= tol * found.objective


def test_labels_far_from_0_limit_the_precision():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = 1.7e9 + rng.choice([-1.0, 1.0], 50)
    fine = bmrm.solve(X, y, "absolute", lam=1e-3, fit_intercept=True, tol=1e-5)
    assert fine.status == "converged"
    assert bmrm.solve(X, y, "absolute", lam=1e-3, fit_intercept=True, tol=1e-12).status == "precision"


@pytest.mark.parametrize("seed", range(3))
def test_repeated_rows_change_no_bound_of_several_classes(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.random((10, 30)), np.arange(10) % 3
    once = bmrm.solve(X, y, "multiclass", lam=1e-4, tol=1e-6)
    twice = bmrm.solve(np.repeat(X, 2, axis=0), np.repeat(y, 2), "multiclass", lam=1e-4, tol=1e-6)
    assert twice.lower_bound <= once.objective
    assert once.lower_bound <= twice.objective


def test_a_column_that_drowns_others_stays_out_of_the_space_of_rows():
    rng = np.random.default_rng(0)
    X, y = 1e-10 * rng.standard_normal((14, 32)), np.arange(14) % 3
    options = {"lam": 1e-20, "fit_intercept": True, "penalize_intercept": True}
    found = bmrm.solve(X, y, "softmax", **options)
    scaled = bmrm.solve(1e10 * X, y, "softmax", lam=1e-20 * 1e20)  # w is 1e10 times as small, and b is 0
    assert found.status == "converged"
    assert found.lower_bound <= scaled.objective


def test_a_warm_start_in_the_space_of_rows_has_the_objective_of_its_weights():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 20)), 1e4 * rng.standard_normal(5)
    first = bmrm.solve(X, y, "squared", lam=0.1, tol=1e-4)
    found = bmrm.solve(X, y, "squared", lam=0.1, tol=1e-4, solver="bmrm", warm_start=first.w.copy())
    residual = X @ found.w - y
    assert found.objective == pytest.approx(0.5 * np.mean(residual**2) + 0.05 * found.w @ found.w)


def test_a_point_out_of_the_domain_has_no_finite_conjugate():
    """However it got there, it makes no bound."""
    rows = np.array([[1.0, 0.0, 0.0, -1.0, 0.0, 0.0]])  # r for -1 <= r <= 0: a hinge
    ascent = Ascent(_cpu.Matrix.from_dense([[2.0]]), rows, 1, 1.0)
    r = np.array([-0.5])
    ascent.set(r)
    assert ascent.conjugate == -0.5
    outside = np.array([-1.5])
    ascent.set(outside)  # goes to the nearest feasible point
    assert (outside[0], ascent.conjugate) == (-1.0, -1.0)


@pytest.mark.parametrize("name", ["hinge", "absolute", "quantile", "epsilon_insensitive"])
def test_constants_of_lines_are_those_of_the_loss(name):
    rng = np.random.default_rng(0)
    y = np.sign(rng.standard_normal(50)) if name == "hinge" else 5.0 * rng.standard_normal(50)
    s, z, r = rng.random(50), 4.0 * rng.standard_normal(50), np.empty(50)
    risk = losses.get(name).risk(y, s, 1.0 / s.sum(), 1)
    values, _ = risk.cut(z, z, 0.0, 0.0, np.arange(51), r)
    np.testing.assert_allclose(Pieces(*risk.pieces()).constants(r), values - r * z, atol=1e-15)
    # Between kinks' slopes no line is above the risk.
    rounded = risk.rounded(0.7)
    rounded.cut(z, z, 0.0, 0.0, np.arange(51), r)
    lines = Pieces(*risk.pieces()).constants(r)
    for at in rng.standard_normal((20, 50)) * 6.0:
        values, _ = risk.cut(at, at, 0.0, 0.0, np.arange(51), np.empty(50))
        assert (lines + r * at <= values + 1e-15).all()


def test_chains_of_sums_and_lengths():
    assert (chain(1), chain(4)) == (1.0, 4.0)
    assert chain(1e6) == 1003.0
    assert norm(np.array([])) == 0.0
    assert norm(np.full(4, 1e300)) == pytest.approx(2e300)
    assert norm(np.array([np.inf, 1.0])) == np.inf


def test_lines_of_pieces_keep_the_digits_of_small_slopes():
    # A weight of 1e8 next to a slope of 1e-8: the constant of the line is of the size of the slope.
    rng = np.random.default_rng(0)
    s, y = np.full(200, 1e8), rng.normal(size=200)
    r = rng.choice([-1.0, 1.0], 200) * 10.0 ** rng.uniform(-12, 7.9, 200)
    epsilon = 0.25
    pieces = Pieces(-s, np.stack([y - epsilon, y + epsilon]), np.stack([s, s]))
    wanted = -r * y - epsilon * np.abs(r)
    assert (np.abs(pieces.constants(r) - wanted) <= 1e-15 * np.abs(r) * (np.abs(y) + epsilon)).all()
    hinge = Pieces(-s, np.ones((1, 200)), s[None])
    np.testing.assert_array_equal(hinge.constants(-np.abs(r)), np.abs(r))


def test_conjugates_of_small_derivatives_keep_their_digits():
    # Margins of 40: the derivative is exp(-40), and 1 - exp(-40) rounds to 1.
    X, y = np.array([[1.0, -0.5], [-1.0, 0.25], [0.5, 1.0], [-0.25, -1.0]]), np.array([1.0, -1.0, 1.0, -1.0])
    X = np.hstack([X, np.zeros((4, 30))])
    tight = bmrm.solve(X, y, loss="logistic", lam=1e-20, tol=1e-12)
    loose = bmrm.solve(X, y, loss="logistic", lam=1e-20, tol=1e-6)
    assert tight.status == "converged"
    assert loose.lower_bound <= tight.objective
    assert tight.objective - tight.lower_bound <= 1e-12 * tight.objective
