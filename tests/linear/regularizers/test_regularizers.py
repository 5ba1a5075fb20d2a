"""Penalties against independent optima, and what their certificates promise."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers import penalised_optimum

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.linear import regularizers
from bmrm.linear.bundle import _qp, proximal_model
from bmrm.linear.bundle.inner_lp import LinearModel
from bmrm.linear.bundle.proximal_model import ProximalModel
from bmrm.linear.bundle.quadratic import quadratic_minimiser
from bmrm.linear.regularizers.separable import Separable
from bmrm.losses import CallableLoss

LOSSES = ("hinge", "squared_hinge", "logistic", "squared", "absolute")
FORMULAS = {
    "hinge": lambda u, y: np.maximum(0.0, 1.0 - y * u),
    "squared_hinge": lambda u, y: np.maximum(0.0, 1.0 - y * u) ** 2,
    "logistic": lambda u, y: np.logaddexp(0.0, -y * u),
    "squared": lambda u, y: 0.5 * (u - y) ** 2,
    "absolute": lambda u, y: np.abs(u - y),
}
RATIO = {"l1": 1.0, "elastic_net": 0.7, "l2": 0.0}
STRENGTHS = np.array([1.0, 2.0, 0.5, 0.2, 1.0, 1.0, 0.1, 3.0])


def problem(loss, seed=0, m=60, d=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.8)
    y = X @ (rng.normal(size=d) * (rng.random(d) < 0.6)) + 0.5 * rng.normal(size=m) + 0.3
    return X, y if loss in ("squared", "absolute") else np.where(y > 0, 1.0, -1.0)


def penalty(w, reg, lam, strengths, prior=0.0):
    v, rho = w - prior, RATIO[reg]
    return lam * (strengths * (rho * np.abs(v) + 0.5 * (1.0 - rho) * v**2)).sum()


def ratio(reg):
    return {"l1_ratio": RATIO[reg]} if reg == "elastic_net" else {}


MODES = {
    "plain": {},
    "strengths": {"feature_lambda": STRENGTHS},
    "free": {"feature_lambda": np.where(STRENGTHS < 0.3, 0.0, STRENGTHS)},
    "positive": {"positive": True},
    "prior": {"prior": np.random.default_rng(5).normal(size=8)},
    "strengths prior": {"feature_lambda": STRENGTHS, "prior": np.random.default_rng(8).normal(size=8)},
    "positive prior": {"positive": True, "prior": np.random.default_rng(6).normal(size=8)},
    "intercept": {"fit_intercept": True},
    "weights": {"sample_weight": np.random.default_rng(7).random(60) + 0.1},
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reg", regularizers.NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_optimum_of_every_penalty(mode, reg, loss):
    X, y = problem(loss)
    lam, options = 0.02, MODES[mode]
    result = bmrm.solve(X, y, loss, reg, lam, tol=1e-7, **ratio(reg), **options)
    strengths = options.get("feature_lambda", np.ones(8))
    prior = options.get("prior", 0.0)
    wanted = penalised_optimum(
        X, y, loss, lam * RATIO[reg] * strengths, lam * (1.0 - RATIO[reg]) * strengths,
        prior=prior, positive="positive" in options, intercept="fit_intercept" in options,
        weights=options.get("sample_weight"),
    )  # fmt: skip
    assert result.status == "converged"
    assert result.objective == pytest.approx(wanted, rel=1e-6)
    assert result.lower_bound <= wanted * (1.0 + 1e-8)
    weights = options.get("sample_weight", np.ones(60))
    rows = FORMULAS[loss](X @ result.w + result.intercept, y)
    again = penalty(result.w, reg, lam, strengths, prior) + np.average(rows, weights=weights)
    assert result.objective == pytest.approx(again, rel=1e-12)
    if "positive" in options:
        assert (result.w >= 0.0).all()


def test_l2_with_strengths_and_a_mean_is_what_it_is_as_a_sum_over_features():
    rng = np.random.default_rng(11)
    d, lam = 6, 0.3
    strengths, prior, w, a, dw = rng.uniform(0.1, 3.0, d), *rng.normal(size=(4, d))
    one = regularizers.get("l2", lam, d, feature_lambda=strengths, prior=prior)
    infinite = np.full(d, np.inf)
    other = regularizers.SeparablePenalty(
        "l2", lam, Separable(np.zeros(d), lam * strengths, prior, -infinite, infinite), one.params
    )
    assert isinstance(one, regularizers.L2)
    assert not one.plain
    assert one.params == {"feature_lambda": True, "prior": True}
    assert one.value(w) == pytest.approx(other.value(w), rel=1e-14)
    for mine, wanted in (
        (one.start(d), other.start(d)),
        (one.minimiser(a), other.minimiser(a)),
        (one.proximal(w, a, 0.7), other.proximal(w, a, 0.7)),
        (one.face(w, a).slope, other.face(w, a).slope),
        (one.face(w, a).curvature, other.face(w, a).curvature),
        ([one.line(w, dw).slope(t) for t in (0.0, 2.0)], [other.line(w, dw).slope(t) for t in (0.0, 2.0)]),
    ):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12)
    H = rng.normal(size=(d, d))
    H = H @ H.T + np.eye(d)
    np.testing.assert_allclose(
        quadratic_minimiser(one, H.copy(), a, w), quadratic_minimiser(other, H.copy(), a, w), rtol=1e-8
    )


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_strengths_and_a_mean_of_wide_data(loss):
    rng = np.random.default_rng(4)
    X = sp.random_array((300, 200), density=0.05, rng=rng).tocsr()
    y = np.where(X @ rng.normal(size=200) + 0.1 * rng.normal(size=300) > 0, 1.0, -1.0)
    strengths, prior = rng.uniform(0.1, 3.0, 200), 0.5 * rng.normal(size=200)
    result = bmrm.solve(X, y, loss, lam=1e-2, tol=1e-7, feature_lambda=strengths, prior=prior)
    wanted = penalised_optimum(X, y, loss, 0.0, 1e-2 * strengths, prior=prior)
    assert result.status == "converged"
    assert result.objective == pytest.approx(wanted, rel=1e-6)
    assert result.lower_bound <= wanted * (1.0 + 1e-8)


@pytest.mark.parametrize("blocks", [1, 4])
def test_a_path_with_strengths_keeps_its_cuts(blocks):
    X, y = problem("hinge", seed=9, m=200)
    options = {"feature_lambda": STRENGTHS, "prior": np.full(8, 0.3), "tol": 1e-6, "cuts_per_pass": blocks}
    along = bmrm.path(X, y, [1e-1, 1e-2, 1e-3], **options)
    alone = [bmrm.solve(X, y, lam=lam, **options) for lam in (1e-1, 1e-2, 1e-3)]
    for found, wanted in zip(along, alone, strict=True):
        assert found.status == "converged"
        assert found.objective == pytest.approx(wanted.objective, rel=2e-6)
        assert found.lower_bound <= wanted.objective
    assert sum(r.n_iter for r in along) < sum(r.n_iter for r in alone)


def numbered(loss, m=300, d=6):
    """Rows whose first feature reaches 1e7, and the units in which it is like the others."""
    rng = np.random.default_rng(12)
    X = rng.uniform(1.0, 10.0, (m, d))
    u = (X - X.mean(axis=0))[:, 1:] @ rng.normal(size=d - 1)
    y = u + 0.3 * u.std() * rng.normal(size=m)
    units = np.ones(d)
    units[0] = 1e6
    return (
        X * units,
        np.where(y > 0, 1.0, -1.0) if loss in ("hinge", "squared_hinge", "logistic") else y,
        units,
    )


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"cuts_per_pass": 4}], ids=str)
@pytest.mark.parametrize("lam", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_feature_of_a_far_larger_scale(loss, lam, options):
    X, y, units = numbered(loss)
    result = bmrm.solve(X, y, loss, lam=lam, tol=1e-5, device="cpu", **options)
    wanted = penalised_optimum(X / units, y, loss, 0.0, lam / units**2, intercept="fit_intercept" in options)
    assert result.status == "converged"
    assert result.n_iter < 120
    assert wanted * (1.0 - 1e-6) <= result.objective <= wanted * (1.0 + 1.1e-5)
    assert result.lower_bound <= wanted * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("reg", "options"),
    [
        ("elastic_net", {"l1_ratio": 0.7}),
        ("l2", {"feature_lambda": np.array([2.0, 1.0, 0.5, 1.0, 3.0, 1.0])}),
        ("l2", {"prior": np.array([1e-7, 1.0, -1.0, 0.0, 0.5, 0.0])}),
    ],
    ids=["elastic net", "strengths", "prior"],
)
@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_a_feature_of_a_far_larger_scale_under_other_penalties(loss, reg, options):
    X, y, units = numbered(loss)
    lam, rho = 1e-3, RATIO[reg]
    result = bmrm.solve(X, y, loss, reg, lam, tol=1e-5, device="cpu", **options)
    strengths = options.get("feature_lambda", np.ones(6))
    l1, l2 = lam * rho * strengths / units, lam * (1.0 - rho) * strengths / units**2
    wanted = penalised_optimum(X / units, y, loss, l1, l2, prior=options.get("prior", 0.0) * units)
    assert result.status == "converged"
    assert result.objective == pytest.approx(wanted, rel=1.1e-5)
    assert result.lower_bound <= wanted * (1.0 + 1e-6)


def test_a_feature_of_a_far_larger_scale_along_a_path():
    X, y, units = numbered("hinge")
    lams = [1.0, 1e-2, 1e-4]
    for lam, result in zip(lams, bmrm.path(X, y, lams, tol=1e-4, device="cpu"), strict=True):
        wanted = penalised_optimum(X / units, y, "hinge", 0.0, lam / units**2)
        assert result.status == "converged"
        assert result.objective == pytest.approx(wanted, rel=1.1e-4)
        assert result.lower_bound <= wanted * (1.0 + 1e-6)
    # Back to the first lam, with cuts whose products are in another metric.
    again = bmrm.solve(X, y, lam=1.0, tol=1e-4, device="cpu", warm_start=result)
    assert again.status == "converged"


def test_products_of_cuts_stay_as_they_are_if_features_are_alike():
    X, y = problem("hinge", m=200)
    assert bmrm.solve(X, y, lam=1e-6, tol=1e-6, device="cpu").bundle.metric is None


@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_sparse_weights_of_wide_data(loss, reg):
    rng = np.random.default_rng(3)
    X = sp.random_array((300, 200), density=0.05, rng=rng).tocsr()
    y = np.where(X @ rng.normal(size=200) + 0.1 * rng.normal(size=300) > 0, 1.0, -1.0)
    lam = 4e-3
    result = bmrm.solve(X, y, loss, reg, lam, tol=1e-7, **ratio(reg))
    wanted = penalised_optimum(X, y, loss, lam * RATIO[reg], lam * (1.0 - RATIO[reg]))
    assert result.status == "converged"
    assert result.objective == pytest.approx(wanted, rel=1e-6)
    assert ("newton" in result.timings) == (loss != "hinge")
    assert result.n_nonzero < 150


def test_against_scikit_learn_and_liblinear():
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = problem("logistic", seed=8, m=200, d=12)
    lam = 0.01
    for reg, share in (("l1", 1.0), ("elastic_net", 0.5)):
        saga = linear_model.LogisticRegression(
            C=1.0 / (lam * 200),
            solver="saga",
            l1_ratio=share,
            fit_intercept=False,
            tol=1e-10,
            max_iter=100_000,
        ).fit(X, y)
        result = bmrm.solve(X, y, "logistic", reg, lam, tol=1e-9)
        np.testing.assert_allclose(result.w, saga.coef_[0], atol=1e-5)
        assert ((result.w == 0.0) == (saga.coef_[0] == 0.0)).all()


@settings(max_examples=60, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    reg=st.sampled_from(regularizers.NAMES),
    seed=st.integers(0, 1000),
    m=st.integers(2, 25),
    d=st.integers(1, 6),
    lam=st.sampled_from([1e-4, 1e-2, 1.0]),
    free=st.booleans(),
    positive=st.booleans(),
    intercept=st.booleans(),
    passes=st.integers(1, 30),
)
def test_no_bound_passes_any_objective(loss, reg, seed, m, d, lam, free, positive, intercept, passes):
    X, y = problem(loss, seed, m, d)
    y[:2] = [-1.0, 1.0]
    rng = np.random.default_rng(seed)
    strengths = rng.random(d) + 0.1
    if free and d > 1:
        strengths[0] = 0.0
    options = {"feature_lambda": strengths, "positive": positive, "fit_intercept": intercept, **ratio(reg)}
    result = bmrm.solve(X, y, loss, reg, lam, tol=1e-6, max_iter=passes, **options)
    for scale in (0.0, 0.1, 1.0, 10.0):
        w, b = scale * rng.normal(size=d), float(intercept) * rng.normal()
        w = np.abs(w) if positive else w
        value = penalty(w, reg, lam, strengths) + FORMULAS[loss](X @ w + b, y).mean()
        assert result.lower_bound <= value + 1e-9 * max(1.0, abs(value))
    values = [row["objective"] for row in result.history]
    assert result.lower_bound <= min(values) + 1e-9 * max(1.0, abs(values[0]))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_penalty_that_outweighs_all_leaves_exactly_nothing(loss):
    X, y = problem(loss)
    result = bmrm.solve(X, y, loss, "l1", 100.0, tol=1e-12)
    assert result.status == "converged"
    assert result.n_nonzero == 0
    assert result.gap <= 1e-13 * result.objective  # what rounding may hide
    prior = np.arange(8.0)
    assert (bmrm.solve(X, y, loss, "l1", 100.0, prior=prior).w == prior).all()


def test_the_zeros_of_l1_are_exact_for_a_kinked_loss():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(200, 30))
    y = np.where(X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
    result = bmrm.solve(X, y, "hinge", "l1", 0.03, tol=1e-4)
    assert result.status == "converged"
    tight = bmrm.solve(X, y, "hinge", "l1", 0.03, tol=1e-9)
    assert tight.n_nonzero < 25
    assert (np.flatnonzero(result.w) == np.flatnonzero(tight.w)).all()


@pytest.mark.parametrize("reg", regularizers.NAMES)
def test_a_warm_start_brings_its_cuts(reg):
    X, y = problem("hinge", m=200)
    data = bmrm.Dataset(X, y)
    first = bmrm.solve(data, reg=reg, lam=0.02, tol=1e-5)
    again = bmrm.solve(data, reg=reg, lam=0.02, tol=1e-4, warm_start=first)
    assert again.n_iter <= 3
    other = bmrm.solve(data, reg="l2", lam=0.02, tol=1e-6, warm_start=first)
    assert other.objective == pytest.approx(bmrm.solve(X, y, lam=0.02, tol=1e-6).objective, rel=1e-5)


@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
def test_few_cuts_are_enough(reg):
    X, y = problem("hinge", m=200)
    wanted = bmrm.solve(X, y, reg=reg, lam=0.01, tol=1e-6)
    few = bmrm.solve(X, y, reg=reg, lam=0.01, tol=1e-3, max_cuts=20)
    assert len(few.bundle) <= 20
    assert few.objective >= wanted.lower_bound * (1 - 1e-9)
    assert few.lower_bound <= wanted.objective


@pytest.mark.parametrize("cuts", [1, 4])
def test_several_cuts_per_pass(cuts):
    X, y = problem("absolute", m=80)
    for reg in ("l1", "elastic_net"):
        result = bmrm.solve(X, y, "absolute", reg, 0.02, tol=1e-7, cuts_per_pass=cuts, **ratio(reg))
        wanted = penalised_optimum(X, y, "absolute", 0.02 * RATIO[reg], 0.02 * (1 - RATIO[reg]))
        assert result.objective == pytest.approx(wanted, rel=1e-6)


def test_a_penalised_intercept_takes_part_but_not_in_signs():
    X, y = problem("squared")
    result = bmrm.solve(
        X, y - 5.0, "squared", "l1", 0.02, fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0,
        positive=True, tol=1e-8,
    )  # fmt: skip
    assert result.intercept < -1.0
    assert (result.w >= 0.0).all()
    value = 0.02 * (np.abs(result.w).sum() + abs(result.intercept) / 2.0)
    value += 0.5 * ((X @ result.w + result.intercept - y + 5.0) ** 2).mean()
    assert result.objective == pytest.approx(value, rel=1e-12)


def test_the_prior_may_be_a_result_or_a_model():
    X, y = problem("logistic")
    options = {"loss": "logistic", "lam": 0.05, "fit_intercept": True, "penalize_intercept": True}
    first = bmrm.solve(X, y, **options)
    strong = {**options, "lam": 1e3}
    for prior in (first, bmrm.Model.from_result(first)):
        moved = bmrm.solve(X, y, prior=prior, **strong)
        np.testing.assert_allclose(moved.w, first.w, atol=1e-3)
        assert moved.intercept == pytest.approx(first.intercept, abs=1e-3)
        assert moved.reg_params == {"prior": True}


def test_the_penalty_used_is_recorded():
    X, y = problem("squared")
    result = bmrm.solve(
        X, y, "squared", "elastic_net", 0.02, l1_ratio=0.25, positive=True, feature_lambda=[0.0] + [1.0] * 7
    )
    assert result.reg == "elastic_net"
    assert result.reg_params == {"l1_ratio": 0.25, "positive": True, "feature_lambda": True, "unpenalised": 1}


def test_losses_without_a_floor():
    X, y = problem("squared")

    def residual(u, v):
        return 0.5 * (u - v) ** 2, u - v

    with pytest.raises(ParameterError, match="no known lower bound"):
        bmrm.solve(X, y, CallableLoss(residual), "l1")
    with pytest.raises(ParameterError, match="novelty"):
        bmrm.solve(X, loss="novelty", reg="l1")
    own = bmrm.solve(X, y, CallableLoss(residual, minimum=0.0), "l1", 0.02, tol=1e-7)
    assert own.objective == pytest.approx(penalised_optimum(X, y, "squared", 0.02, 0.0), rel=1e-6)
    with pytest.raises(DataError, match="at least its minimum"):
        bmrm.solve(X, y, CallableLoss(residual, minimum=1.0), "l1")


def test_the_floor_of_counts():
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(100, 4)), rng.poisson(3.0, 100).astype(float)
    result = bmrm.solve(X, y, "poisson", "l1", 0.01, tol=1e-8)
    assert result.status == "converged"
    assert result.lower_bound < result.objective < 0.0 or result.objective > 0.0


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"reg": "l3"}, ParameterError, "reg: found 'l3'"),
        ({"reg": "l1", "lam": 0.0}, ParameterError, "lam"),
        ({"reg": "l1", "l1_ratio": 0.5}, ParameterError, "needs reg elastic_net"),
        ({"reg": "elastic_net", "l1_ratio": 1.5}, ParameterError, "expected 0 to 1"),
        ({"feature_lambda": [1.0]}, DataError, "feature_lambda: found shape"),
        ({"feature_lambda": [-1.0] * 8}, DataError, "at least 0"),
        ({"feature_lambda": [0.0] * 8}, DataError, "all are 0"),
        ({"prior": [np.nan] * 8}, DataError, "prior"),
    ],
)
def test_options_that_make_no_penalty_are_an_error(options, error, text):
    X, y = problem("hinge")
    with pytest.raises(error, match=text):
        bmrm.solve(X, y, **options)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 8))
def test_the_derivative_on_a_line(seed, d):
    rng = np.random.default_rng(seed)
    low = np.where(rng.random(d) < 0.5, -np.inf, -0.5)
    p = Separable(rng.random(d).round(1), rng.random(d).round(1), rng.normal(size=d).round(1), low, -low)
    w, dw = p.project(rng.normal(size=d).round(1)), rng.normal(size=d)
    line = p.line(w, dw)
    for t in rng.random(8) * min(line.end, 3.0):
        # Where the line begins may be a kink of its own.
        if 1e-6 < t < line.end - 1e-6 and not np.any(np.abs(line.kinks - t) < 2e-6):
            numeric = (p.value(w + (t + 1e-6) * dw) - p.value(w + (t - 1e-6) * dw)) / 2e-6
            assert line.slope(t) == pytest.approx(numeric, abs=1e-6)
    assert line.end == np.inf or np.abs(p.project(w + line.end * dw) - (w + line.end * dw)).max() < 1e-12


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 8), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_a_plane_under_the_penalty_bounds_it(seed, d, scale):
    rng = np.random.default_rng(seed)
    low = np.where(rng.random(d) < 0.5, -np.inf, 0.0)
    l2 = np.where(rng.random(d) < 0.5, 0.0, rng.random(d))
    p = Separable(rng.random(d), l2, rng.normal(size=d), low, np.full(d, np.inf))
    a, offset = scale * rng.normal(size=d), rng.normal()
    bound = p.lower_bound(a, offset, -2.0)
    for _ in range(20):
        w = p.project(10.0 * rng.normal(size=d))
        assert bound <= p.value(w) + max(a @ w + offset, -2.0) + 1e-9


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 12), rank=st.integers(1, 12))
def test_a_penalised_quadratic_is_minimised(seed, d, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rank, d))
    H, l1 = A.T @ A + 1e-3 * np.eye(d), rng.random(d)
    prior, slope = rng.normal(size=d), rng.normal(size=d)
    low = np.where(rng.random(d) < 0.5, -np.inf, 0.0)
    p = Separable(l1, np.zeros(d), prior, low, np.full(d, np.inf))
    c = p.project(rng.normal(size=d))
    w, s = c.copy(), slope.copy()
    _qp.penalised_quadratic(H, s, l1, prior, p.low, p.high, w)
    np.testing.assert_allclose(s, slope + H @ (w - c), atol=1e-8)
    assert (w >= p.low).all()
    # At the minimum the slope is held by the kinks and the ends.
    held = np.where(w == prior, np.maximum(0.0, np.abs(s) - l1), np.abs(s + l1 * np.sign(w - prior)))
    # At an end, whether it is a kink too or not, a slope that points outward is held as well.
    at_end = w == p.low
    held[at_end] = np.maximum(0.0, -(s + l1 * np.where(w < prior, -1.0, 1.0)))[at_end]
    assert held.max() < 1e-6


@pytest.mark.parametrize(("labels", "values"), [(1e12, 1.0), (1.0, 1e16)])
def test_numbers_that_the_linear_programme_cannot_hold(labels, values):
    X, y = problem("squared")
    result = bmrm.solve(values * X, labels * y, "squared", reg="l1", lam=1e-4)
    wanted = labels**2 * 0.5 * np.mean((X @ np.linalg.lstsq(X, y)[0] - y) ** 2)
    assert result.objective == pytest.approx(wanted, rel=1e-3)
    assert result.lower_bound <= result.objective


def wide(loss, m, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, d))
    u = X @ rng.normal(size=d)
    u = u / np.abs(u).max() + 0.1 * rng.normal(size=m)
    return X, np.where(u > 0.0, 1.0, -1.0) if loss == "squared_hinge" else u


@pytest.mark.parametrize("loss", ["squared_epsilon_insensitive", "squared_hinge"])
def test_l1_with_many_cuts_of_many_features_asks_for_few_bounds(loss, monkeypatch):
    bounds, sharper = [], ProximalModel._sharper_bound
    linear, programme = [], LinearModel.bound
    monkeypatch.setattr(ProximalModel, "_sharper_bound", lambda *a: (bounds.append(1), sharper(*a))[1])
    monkeypatch.setattr(LinearModel, "bound", lambda *a: (linear.append(1), programme(*a))[1])
    X, y = wide(loss, 100, 300)
    result = bmrm.solve(X, y, loss, "l1", 1e-4, tol=1e-4)
    assert result.status == "converged"
    assert 0 < len(bounds) < result.n_iter / 3
    assert len(linear) <= 0.1 * len(bounds)
    # The certificates of both tolerances agree.
    again = bmrm.solve(X, y, loss, "l1", 1e-4, tol=1e-6)
    assert result.lower_bound <= again.objective * (1.0 + 1e-9)
    assert again.lower_bound <= result.objective * (1.0 + 1e-9)


def test_the_linear_programme_helps_if_the_method_of_multipliers_fails(monkeypatch):
    monkeypatch.setattr(proximal_model, "MAX_MULTIPLIER_STEPS", 1)
    linear, bound = [], LinearModel.bound
    monkeypatch.setattr(LinearModel, "bound", lambda *a: (linear.append(1), bound(*a))[1])
    X, y = wide("squared_hinge", 60, 300)
    result = bmrm.solve(X, y, "squared_hinge", "l1", 1e-3, tol=1e-5)
    assert result.status == "converged"
    assert linear


@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
def test_products_that_are_kept_change_no_optimum(reg, monkeypatch):
    X, y = wide("squared_hinge", 60, 300)
    found = []
    for small in (0, 1 << 62):
        monkeypatch.setattr("bmrm.linear.bundle.gram_cache.MIN_CACHED_OPERATIONS", small)
        found.append(bmrm.solve(X, y, "hinge", reg, 1e-3, tol=1e-6))
    for one, other in (found, found[::-1]):
        assert one.status == "converged"
        assert one.lower_bound <= other.objective * (1.0 + 1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
@pytest.mark.parametrize("scale", [1e3, 1.0, 1e-3, 1e-6])
def test_a_free_weight_beyond_the_radius_is_certified_too(loss, scale):
    """The weight without a penalty is near 2 / scale: beyond what certificates cover at first for most."""
    X = np.array([[1.0, 1e-3], [1.0, 2e-3], [0.5, 3e-3], [1.0, -1e-3]])
    y = np.array([2.0, 4.0, 6.5, -1.0])
    options = {"loss": loss, "lam": 1.0, "feature_lambda": [1.0, 0.0], "tol": 1e-6}
    near = bmrm.solve(X * [1.0, 1e3], y, **options)
    found = bmrm.solve(X * [1.0, scale], y, **options)
    assert found.status == near.status == "converged"
    assert found.lower_bound <= near.objective * (1 + 1e-14)
    assert near.lower_bound <= found.objective * (1 + 1e-14)
    assert found.objective == pytest.approx(near.objective, rel=2e-6)


@pytest.mark.parametrize("answer", [1.0, 300.0, 450.0, 900.0, 1900.0, 1e5])
def test_a_certificate_covers_four_times_the_answer(answer):
    X = np.array([[1.0, 1e-3], [1.0, 2e-3], [0.5, 3e-3], [1.0, -1e-3]]) * [1.0, 2e3 / answer]
    y = np.array([2.0, 4.0, 6.5, -1.0])
    found = bmrm.solve(X, y, "absolute", lam=1.0, feature_lambda=[1.0, 0.0], tol=1e-6)
    assert found.status == "converged"
    assert found.origin.radius == found.bundle.radius >= max(regularizers.RADIUS, 4.0 * abs(found.w[1]))


def in_own_units(n=1000):
    """Default of a loan by being a student, balance and income, of about 1, 1e3 and 1e4."""
    rng = np.random.default_rng(1)
    X = np.c_[rng.integers(0, 2, n), np.maximum(0, rng.normal(835, 484, n)), rng.normal(33517, 13336, n)]
    chance = 1 / (1 + np.exp(10.87 - X @ [-0.65, 0.00574, 3e-6]))
    return X, np.where(rng.random(n) < chance, 1, -1)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("reg", ["l2", "elastic_net"])
@pytest.mark.parametrize("strength", [1.0, 1e-4, 1e-9])
def test_features_nearly_without_a_penalty_are_certified_in_their_own_units(loss, reg, strength):
    X, y = in_own_units()
    size = np.array([1.0, 1e3, 1e4])
    given = {"reg": reg, "lam": 1e-4, "fit_intercept": True, "max_iter": 500}
    found = bmrm.solve(X, y, loss, feature_lambda=[0.0, 0.0, strength], **given)
    assert found.status == "converged"
    assert found.lower_bound > 0.99 * found.objective
    if reg == "l2":  # the same problem
        scaled = bmrm.solve(X / size, y, loss, feature_lambda=[0.0, 0.0, strength * 1e-8], **given)
        assert found.lower_bound <= scaled.objective * (1 + 1e-12)
        assert scaled.lower_bound <= found.objective * (1 + 1e-12)


def test_a_bound_that_does_not_cover_the_best_point_is_none():
    """Stopped as soon as the best point lies beyond the radius of the bound that there is."""
    X = np.array([[1.0, 1e-3], [1.0, 2e-3], [0.5, 3e-3], [1.0, -1e-3]]) * [1.0, 1e-3]
    y = np.array([2.0, 4.0, 6.5, -1.0])
    optimum = bmrm.solve(X * [1.0, 1e6], y, "absolute", lam=1.0, feature_lambda=[1, 0], tol=1e-9).objective
    for passes in range(1, 12):
        found = bmrm.solve(X, y, "absolute", lam=1.0, feature_lambda=[1, 0], tol=1e-9, max_iter=passes)
        assert found.lower_bound <= optimum * (1 + 1e-9)


def test_a_perfect_fit_ends_without_a_fault():
    """An optimum of 0, which no relative gap resolves: the proximal term goes to 0 / 0."""
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-1, 1, (3, 30)), rng.uniform(-1, 1, 3)
    free = np.r_[np.zeros(12), np.ones(18)]
    for reg in ("l2", "l1", "elastic_net"):
        found = bmrm.solve(X, y, "absolute", reg=reg, lam=1.0, feature_lambda=free, max_iter=2000)
        assert found.objective < 1e-12
        assert found.lower_bound <= 1e-12


@pytest.mark.parametrize("loss", ["hinge", "absolute", "softmax", "roc_area", "prbep"])
@pytest.mark.parametrize("options", [{}, {"cuts_per_pass": 1}, {"solver": "bmrm"}])
def test_a_free_feature_in_which_the_first_plane_has_no_slope(loss, options):
    """A column of ones, and as many rows of either class: its slope is nothing but rounding."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 20)
    X = rng.standard_normal((40, 6)) + 0.3 * y[:, None] * (np.arange(6) < 3) + 0.5
    free = np.append(np.ones(6), 0.0)
    given = {"loss": loss, "lam": 0.01, "max_iter": 1000, **options}
    found = bmrm.solve(np.column_stack([X, np.ones(40)]), y, feature_lambda=free, **given)
    # The limit of small strengths.
    free[-1] = 1e-6
    near = bmrm.solve(np.column_stack([X, np.ones(40)]), y, feature_lambda=free, **given)
    assert found.status == near.status == "converged"
    assert found.lower_bound <= near.objective
    assert found.objective >= near.lower_bound - 1e-6
