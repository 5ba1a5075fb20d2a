"""A grid of lam scored by cross validation is what brute force finds, and every certificate holds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers import objective, piecewise_linear_optimum

import bmrm
import bmrm.linear.selection.cross_validation
from bmrm import losses
from bmrm.errors import DataError, ParameterError
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.inner_model import inner_model
from bmrm.linear.objective.passes import CutBatch, Iterate, LineSearchProblem, Subgradients
from bmrm.linear.regularizers import L2
from bmrm.linear.selection.cross_validation import FoldProblem
from bmrm.linear.selection.folds import CachedProducts, FoldBundle, FoldObjective, FoldParts, RowsByFold, deal
from bmrm.linear.selection.select import Selection
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.losses.labels import encode

LAMS = [0.3, 0.003, 0.03]


def problem(rows=400, features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    return X, np.where(X @ rng.standard_normal(features) + rng.standard_normal(rows) > 0.2, 3.0, 1.0)


def coded(y):
    return np.where(y == y.max(), 1.0, -1.0)


def hinge(u, y):
    return np.maximum(0.0, 1.0 - y * u)


@pytest.fixture(params=["shared", "apart"])
def engine(request, monkeypatch):
    """Cuts of all folds in one bundle, whatever the shape of X; or each fold's on their own."""
    monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", 0 if request.param == "shared" else 10**9)
    return request.param


LOSSES = {
    "hinge": hinge,
    "squared_hinge": lambda u, y: hinge(u, y) ** 2,
    "logistic": lambda u, y: np.logaddexp(0.0, -y * u),
}


@pytest.mark.parametrize(("given_as", "weighted"), [("arrays", True), ("dataset", False)])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_fold_is_a_refit_on_its_rows(engine, given_as, weighted, loss):
    X, y = problem()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    options = {"loss": loss, "tol": 1e-6, "lams": LAMS, "folds": 3}
    if given_as == "dataset":
        found = bmrm.select(bmrm.Dataset(X, y, sample_weight=weights), **options)
    else:
        found = bmrm.select(X, y, sample_weight=weights, **options)
    for lam, validation in zip(LAMS, found.validations, strict=True):
        for fold, result in enumerate(validation.results):
            rest = found.folds.fold_of != fold
            own = None if weights is None else weights[rest]
            alone = bmrm.solve(X[rest], y[rest], loss, lam=lam, tol=1e-6, sample_weight=own)
            assert result.status == "converged"
            assert result.lam == lam
            # Both intervals hold the one optimum.
            assert result.lower_bound <= alone.objective * (1 + 1e-12)
            assert alone.lower_bound <= result.objective * (1 + 1e-12)
            assert result.gap <= 1e-6 * result.objective
            J = objective(X[rest], coded(y)[rest], result.w, 0.0, lam, LOSSES[loss], own)
            assert result.objective == pytest.approx(J, rel=1e-12)
            np.testing.assert_allclose(validation.values[~rest], X[~rest] @ result.w, atol=1e-12)


def test_lower_bounds_are_below_an_independent_optimum(engine):
    X, y = problem(rows=120)
    found = bmrm.select(X, y, [0.01], 4, tol=1e-3)
    signs = coded(y)
    for fold, result in enumerate(found.validations[0].results):
        rest = found.folds.fold_of != fold
        slopes = np.column_stack([np.zeros(rest.sum()), -signs[rest]])
        levels = np.column_stack([np.zeros(rest.sum()), np.ones(rest.sum())])
        optimum = piecewise_linear_optimum(X[rest], slopes, levels, 0.01)
        assert result.lower_bound <= optimum + 1e-9 <= result.objective + 2e-9


def test_the_cuts_of_a_fold_prove_its_bound(engine):
    """The bundle of each result bounds the risk of the fold's own rows, and its dual value is the bound."""
    X, y = problem(rows=150)
    found = bmrm.select(X, y, LAMS, 3, tol=1e-4)
    points = 3.0 * np.random.default_rng(2).standard_normal((20, 4))
    for lam, validation in zip(LAMS, found.validations, strict=True):
        for fold, result in enumerate(validation.results):
            rest = found.folds.fold_of != fold
            cuts = result.bundle
            for w in points:
                model = cuts.gradients @ w + cuts.offsets
                risk = hinge(X[rest] @ w, coded(y)[rest]).mean()
                assert sum(model[cuts.blocks == p].max() for p in range(cuts.groups)) <= risk + 1e-12
            np.testing.assert_allclose(np.bincount(cuts.blocks, cuts.alpha), 1.0, rtol=1e-12)
            a = cuts.alpha @ cuts.gradients
            dual = cuts.alpha @ cuts.offsets - a @ a / (2 * lam)
            assert dual <= result.lower_bound + 1e-12
            assert dual == pytest.approx(result.lower_bound, rel=1e-3)


def test_both_ways_and_any_order_of_rows_agree(monkeypatch):
    X, y = problem(rows=300)
    found = {}
    for kept in (0, 10**9):
        monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", kept)
        found[kept] = bmrm.select(X, y, LAMS, loss="hinge", tol=1e-8)
    again = []
    for copied in (10**9, 0):
        monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", 0)
        monkeypatch.setattr("bmrm.linear.selection.cross_validation.MAX_COPIED_BYTES", copied)
        again.append(bmrm.select(bmrm.Dataset(X, y), lams=LAMS, loss="hinge", tol=1e-8))
    for other in (found[10**9], *again):
        np.testing.assert_allclose(other.scores, found[0].scores, atol=0.02)
        np.testing.assert_allclose(other.values, found[0].values, atol=1e-2)
        assert (other.folds.fold_of == found[0].folds.fold_of).all()
        assert other.result.objective == pytest.approx(found[0].result.objective, rel=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_full_steps_of_folds_spare_products(monkeypatch, loss):
    X, y = problem(rows=3000, features=15)
    made = HostPasses.margins
    products, lams = [], np.logspace(-4, -1, 6)
    monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", 0)
    monkeypatch.setattr(HostPasses, "margins", lambda self, w: products.append(1) or made(self, w))
    found, counts = [], []
    for full in (True, False):
        monkeypatch.setattr(FoldObjective, "takes_full_steps", full)
        found.append(bmrm.select(X, y, lams, 5, loss=loss, tol=1e-5, refit=False))
        counts.append(len(products))
        products.clear()
    assert counts[0] < counts[1]
    for validation in found[0].validations:
        for fold, result in enumerate(validation.results):
            rest = found[0].folds.fold_of != fold
            assert result.status == "converged"
            J = objective(X[rest], coded(y)[rest], result.w, 0.0, result.lam, LOSSES[loss])
            assert result.objective == pytest.approx(J, rel=1e-13)


@pytest.mark.parametrize("seed", [7, 33, 88, 243])
def test_the_risk_may_overflow_at_rows_held_out(seed):
    """exp() of their margins may overflow at weights that fit the other rows well."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(10, 60)), int(rng.integers(2, 30))
    X = rng.standard_normal((m, d)) * 10.0 ** rng.uniform(-1, 2)
    y = np.where(X[:, 0] + rng.standard_normal(m) * rng.uniform(0.1, 3) > 0.0, 1.0, -1.0)
    found = bmrm.select(X, y, [1.0, 1e-2, 1e-4, 1e-6], loss="exponential", folds=3, max_iter=300)
    for result in (result for validation in found.validations for result in validation.results):
        assert result.status == "converged"
        assert 0.0 <= result.gap <= 1e-3 * result.objective


def test_a_full_step_of_a_fold_is_that_of_a_search():
    rng = np.random.default_rng(11)
    X, folds = rng.standard_normal((300, 3)), deal(None, 300, 3, 0)
    y, weights = np.where(rng.random(300) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, 300)
    loss, operator = losses.get("logistic"), RowsByFold(bmrm.Dataset(X).matrix, folds)
    parts = FoldParts(operator, loss.risk(y, weights, 1.0 / weights.sum(), 1), folds.starts, np.zeros(3))
    for fold in range(4):  # the last holds out nothing
        objective = FoldObjective(parts, loss, y, weights, fold, threads=1)
        objective.begin(0.1)
        steps, starts = objective.passes, objective.starts
        w, end = np.zeros(3), 0.1 * rng.standard_normal(3)
        best = objective.evaluate(w)
        if steps.slope(best.margins, steps.margins(end), 0.0, 0.0)[0] > 0.0:
            end = -end
        alone, penalty = HostPasses(operator, steps.rows, cut_of=parts.risk), objective.reg.line(w, end - w)
        # A little beyond the lowest point of the line.
        exact = LineSearchProblem(best.margins, alone.margins(end), w, end, penalty, 1.0, 1e-9, 0.0, 0.0)
        end *= 1.05 * alone.search(exact)[1].step
        penalty = objective.reg.line(w, end - w)
        for content, taken in ((100.0, True), (1e-9, False)):  # any slope at the end is small enough; none is
            given = w, end, penalty, 1.0, 1e-9, content, 0.0
            dz, found = steps.search(LineSearchProblem(best.margins, steps.margins(end), *given))
            dz_alone, expected = alone.search(LineSearchProblem(best.margins, alone.margins(end), *given))
            assert (found.step == 1.0) == taken
            assert found.step == expected.step
            assert found.risk == pytest.approx(expected.risk, rel=1e-13)
            np.testing.assert_allclose(found.margins, expected.margins, atol=1e-15)
            known = steps.parts_at(found.margins)
            assert (known is not None) == taken
            for t in (1.0, found.step, 0.5):
                cut = steps.planes(best.margins, dz, t, starts, w, end)
                same = alone.planes(best.margins, dz_alone, t, starts, w, end)
                np.testing.assert_allclose(cut.gradients, same.gradients, atol=1e-15)
                np.testing.assert_allclose(cut.risk, same.risk, rtol=1e-13)


@pytest.mark.parametrize("metric", ["accuracy", "auc", "loss"])
def test_the_choice_is_brute_forces(engine, metric):
    X, y = problem(rows=200, seed=3)
    lams = [1e-4, 1e-2, 1e-1, 1.0, 10.0]
    found = bmrm.select(X, y, lams, 4, metric=metric, loss="logistic", tol=1e-8)
    scores = np.empty((5, 4))
    for k, lam in enumerate(lams):
        for fold in range(4):
            out = found.folds.fold_of == fold
            u = X[out] @ bmrm.solve(X[~out], y[~out], "logistic", lam=lam, tol=1e-8).w
            signs = coded(y)[out]
            if metric == "accuracy":
                scores[k, fold] = np.mean((u > 0) == (signs > 0))
            elif metric == "auc":
                from sklearn.metrics import roc_auc_score

                scores[k, fold] = roc_auc_score(signs, u)
            else:
                scores[k, fold] = np.logaddexp(0, -signs * u).mean()
    np.testing.assert_allclose(found.scores, scores, atol=1e-3 if metric == "loss" else 0.02)
    gains = found.mean * (-1 if metric == "loss" else 1)
    best = max(range(5), key=lambda k: (gains[k], lams[k]))
    assert found.best == best
    error = np.std(found.scores[best], ddof=1) / 2.0
    near = [lam for lam, gain in zip(lams, gains, strict=True) if gain >= gains[best] - error]
    assert found.lams[found.one_standard_error] == max(near)
    assert found.lam == lams[best] == found.result.lam


def scored(scores, lams, metric="accuracy", rule="best"):
    folds = deal(None, 10, len(scores[0]), 0)
    ones = np.ones(10)
    return Selection(np.array(lams), [], np.array(scores), metric, rule, folds, ones, ones, None)


def test_of_equals_the_strongest_wins():
    found = scored([[0.5, 0.7], [0.5, 0.7], [0.4, 0.4]], [0.1, 1.0, 10.0])
    assert (found.best, found.one_standard_error) == (1, 1)
    lower = scored([[0.5, 0.7], [0.5, 0.7], [0.69, 0.69]], [0.1, 1.0, 10.0], "mse", "1se")
    assert (lower.best, lower.one_standard_error, lower.lam) == (1, 2, 10.0)


def test_sharing_saves_passes(monkeypatch):
    monkeypatch.setattr("bmrm.linear.plan.newton_pays", lambda *_: False)  # only planes
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 15))
    y = np.where(X @ rng.standard_normal(15) + 2 * rng.standard_normal(3000) > 0, 1, -1)
    passes = []
    for cuts in ("auto", 1):  # shared, and one cut per pass and fold
        found = bmrm.select(X, y, np.logspace(-5, -1, 5), 5, refit=False, cuts_per_pass=cuts)
        assert found.result is None
        passes.append(sum(r.n_iter for v in found.validations for r in v.results))
    assert passes[0] < 0.6 * passes[1]


class CountingGrams(RowsByFold):
    """Rows by fold that note how often a Hessian is asked for."""

    grams = 0

    def weighted_gram(self, s, out):
        CountingGrams.grams += 1
        super().weighted_gram(s, out)


def test_folds_share_their_hessians(monkeypatch):
    rng = np.random.default_rng(9)
    X = rng.standard_normal((3000, 15))
    y = np.where(X @ rng.standard_normal(15) + 2 * rng.standard_normal(3000) > 0, 1, -1)
    monkeypatch.setattr("bmrm.linear.selection.cross_validation.RowsByFold", CountingGrams)
    monkeypatch.setattr("bmrm.linear.selection.cross_validation.MAX_COPIED_BYTES", 0)
    monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", 0)
    found = bmrm.select(bmrm.Dataset(X, y), lams=np.logspace(-5, -1, 5), loss="logistic", refit=False)
    results = [r for v in found.validations for r in v.results]
    assert all(r.status == "converged" for r in results)
    assert 0 < CountingGrams.grams <= 6
    stepped = sum(r.n_iter - 1 for r in results)
    assert stepped > 2 * CountingGrams.grams


def test_hessians_are_kept_while_the_margins_are_much_the_same():
    rng = np.random.default_rng(10)
    X, folds = rng.standard_normal((200, 4)), deal(None, 200, 3, 0)
    y, weights = np.where(rng.random(200) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, 200)
    operator = RowsByFold(bmrm.Dataset(X).matrix, folds)
    risk = losses.get("logistic").risk(y, weights, 1.0 / weights.sum(), 1)
    parts, there = FoldParts(operator, risk, folds.starts, np.zeros(3)), X[folds.order]
    margins = rng.standard_normal(200)

    def expected(margins):
        p = 1.0 / (1.0 + np.exp(-margins))
        s = weights * p * (1.0 - p) / weights.sum()
        return there.T @ (s[:, None] * there)

    first = parts.hessian(risk, margins)
    np.testing.assert_allclose(first, expected(margins), rtol=1e-10)
    first[:] = 0.0  # the caller may overwrite it
    first, far = parts.hessian(risk, margins), margins + 4.0
    np.testing.assert_array_equal(parts.hessian(risk, far), first)
    parts.doubt()
    np.testing.assert_array_equal(parts.hessian(risk, margins + 0.01), first)
    parts.doubt()
    np.testing.assert_allclose(parts.hessian(risk, far), expected(far), rtol=1e-10)


def test_wrong_gradients_to_begin_with_do_no_harm():
    X, y = problem(rows=600, features=20)
    run_of = {}

    class Misled(BundleMethod):
        def minimise(self):
            if run_of["misled"]:
                self.expect_gradients(np.full((self.bundle.groups, self.bundle.n_features), -7.0))
            super().minimise()

    passes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", 0)
        patch.setattr("bmrm.linear.selection.cross_validation.BundleMethod", Misled)
        for misled in (False, True):
            run_of["misled"] = misled
            found = bmrm.select(X, y, LAMS, 3, loss="logistic", tol=1e-9, refit=False)
            assert set(found.statuses) == {"converged"}
            passes.append(sum(r.n_iter for v in found.validations for r in v.results))
    assert passes[1] <= passes[0] + 9  # one more pass per solve


def test_no_threshold_and_no_mean_are_scored():
    X, y = problem()
    metrics = {"roc_area": "auc", "prbep": "auc", "f_beta": "accuracy", "quantile": "loss", "absolute": "mse"}
    for loss, metric in metrics.items():
        assert bmrm.select(X, y, [1.0], 3, loss=loss, refit=False).metric == metric


def test_regression_and_counts_have_their_metrics():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((150, 3))
    target = X @ np.array([1.0, -1.0, 0.5]) + 0.1 * rng.standard_normal(150)
    squared = bmrm.select(X, target, [1e-3, 1.0], 3, loss="squared")
    assert (squared.metric, squared.lam) == ("mse", 1e-3)
    out = squared.folds.fold_of == 0
    expected = np.mean((squared.validations[0].values - target)[out] ** 2)
    assert squared.scores[0, 0] == pytest.approx(expected)
    counts = bmrm.select(X, rng.poisson(np.exp(0.5 * X[:, 0])), [1e-2, 3.0], 3, loss="poisson")
    assert (counts.metric, counts.lam) == ("deviance", 1e-2)
    novelty = bmrm.select(X + 3.0, None, [1e-1, 1.0], 3, loss="novelty", nu=0.2)
    assert novelty.metric == "loss"


@pytest.mark.parametrize("loss", ["multiclass", "softmax"])
def test_several_classes(loss):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((150, 4))
    y = np.argmax(X @ rng.standard_normal((4, 3)) + 0.5 * rng.standard_normal((150, 3)), axis=1) + 1.0
    found = bmrm.select(X, y, [1e-3, 1.0], 3, loss=loss, tol=1e-5)
    assert (found.metric, found.result.w.shape) == ("accuracy", (4, 3))
    for k, lam in enumerate(found.lams):
        for fold in range(3):
            out = found.folds.fold_of == fold
            alone = bmrm.solve(X[~out], y[~out], loss, lam=float(lam), tol=1e-5)
            result = found.validations[k].results[fold]
            assert result.objective == pytest.approx(alone.objective, rel=2e-5)
            np.testing.assert_allclose(found.validations[k].values[out], X[out] @ result.w, atol=1e-12)
            right = np.argmax(X[out] @ result.w, axis=1) + 1.0 == y[out]
            assert found.scores[k, fold] == pytest.approx(right.mean())
    with pytest.raises(DataError, match="several values per row"):
        found.calibrate()


@pytest.mark.parametrize("penalised", [False, True])
def test_intercepts(engine, penalised):
    X, y = problem(rows=150)
    options = {"fit_intercept": True, "penalize_intercept": penalised, "intercept_scaling": 2.0}
    found = bmrm.select(X + 1.0, y, [0.01], 3, tol=1e-6, **options)
    for fold, result in enumerate(found.validations[0].results):
        rest = found.folds.fold_of != fold
        alone = bmrm.solve(X[rest] + 1.0, y[rest], lam=0.01, tol=1e-6, **options)
        assert result.objective == pytest.approx(alone.objective, rel=2e-6)
        values = (X[~rest] + 1.0) @ result.w + result.intercept
        np.testing.assert_allclose(found.values[~rest], values, atol=1e-12)


def test_sparse_rows_are_put_in_order(engine):
    from scipy.sparse import csr_matrix

    X, y = problem(rows=200)
    X[np.abs(X) < 0.7] = 0.0
    sparse, dense = (bmrm.select(Z, y, LAMS, tol=1e-7) for Z in (csr_matrix(X), X))
    np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-6)
    np.testing.assert_allclose(sparse.values, dense.values, atol=1e-3)


def test_progress_and_the_table():
    X, y = problem(rows=100)
    seen = []
    found = bmrm.select(X, y, LAMS, 3, progress=seen.append)
    assert [(s.done, s.total) for s in seen] == [(k, 10) for k in range(1, 11)]
    assert [s.result.lam for s in seen[:9]] == [0.3] * 3 + [0.03] * 3 + [0.003] * 3
    lines = str(found).splitlines()
    assert lines[0].split()[:3] == ["lam", "accuracy", "s.e."]
    assert [float(line.split()[0]) for line in lines[1:]] == [0.3, 0.03, 0.003]
    assert sum(line.endswith("best") for line in lines) == 1
    assert len(found.statuses) == 10


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    folds=st.integers(2, 4),
    passes=st.integers(1, 25),
    most=st.integers(3, 6),
)
def test_a_shared_bundle_bounds_every_fold(seed, folds, passes, most):
    """Whatever was pruned and merged on the way, each dual value is below the fold's own optimum."""
    rng = np.random.default_rng(seed)
    d = 3
    bundle = FoldBundle(d, folds, max_cuts=most * folds)
    parts = [rng.standard_normal((6, d)) for _ in range(folds)]
    levels = [rng.standard_normal(6) for _ in range(folds)]
    lams = [1.0, 0.3]
    for k in range(passes):
        w = rng.standard_normal(d)
        tops = [int(np.argmax(A @ w + b)) for A, b in zip(parts, levels, strict=True)]
        gradients = np.array([A[i] for A, i in zip(parts, tops, strict=True)])
        offsets = np.array([b[i] for b, i in zip(levels, tops, strict=True)])
        bundle.make_room()
        bundle.add(
            CutBatch(
                Subgradients(gradients, None, gradients @ w, gradients @ w + offsets, offsets), offsets, 0.0
            )
        )
        fold, lam = k % (folds + 1), lams[k % 2]
        scale = 1.0 if fold == folds else 1.25
        bundle.hold_out(fold, scale)
        start = Iterate(w, None, 0.0, np.inf)
        w, bound = bundle.minimise(inner_model(L2(lam)), start, 0.0)
        inside = [p for p in range(folds) if p != fold]

        def value(w, inside=inside, lam=lam, scale=scale):
            return lam / 2 * w @ w + scale * sum((parts[p] @ w + levels[p]).max() for p in inside)

        for point in [w, *rng.standard_normal((20, d))]:
            assert bound <= value(point) + 1e-9
        active = bundle.active()
        assert isinstance(active, Bundle)
        assert active.groups == len(inside)
        _, same = active.minimise(inner_model(L2(lam)), start, 0.0)
        assert same == pytest.approx(bound, abs=1e-7 * max(1.0, abs(bound)))


def test_a_shared_bundle_grows_with_its_cuts():
    rng = np.random.default_rng(12)
    few, many = FoldBundle(4, 2), FoldBundle(4, 2)
    many._allocate(many.max_cuts)
    assert few.nbytes < many.nbytes / 100
    for k in range(80):
        gradients, offsets = rng.standard_normal((2, 4)), rng.standard_normal(2)
        unknown = np.full(2, np.nan)
        bounds = []
        for bundle in (few, many):
            bundle.make_room()
            bundle.add(CutBatch(Subgradients(gradients, None, unknown, unknown, unknown), offsets, 0.0))
            bundle.hold_out(k % 3, 1.5)
            start = Iterate(np.zeros(4), None, 0.0, np.inf)
            bounds.append(bundle.minimise(inner_model(L2(0.3)), start, 0.0)[1])
        assert bounds[0] == bounds[1]
        np.testing.assert_array_equal(few._alphas[:, : len(few)], many._alphas[:, : len(many)])
    assert len(few) > 64  # more than there was room for at first


def test_rows_by_fold_are_the_rows_sorted():
    rng = np.random.default_rng(6)
    X, folds = rng.standard_normal((50, 4)), deal(None, 50, 3, 0)
    rows, there = RowsByFold(bmrm.Dataset(X).matrix, folds), X[folds.order]
    z, w, r = np.empty(50), rng.standard_normal(4), rng.standard_normal(50)
    rows.matvec(w, z)
    np.testing.assert_allclose(z, there @ w, rtol=1e-12)
    for starts in (folds.starts, np.array([0, 50])):
        out = np.empty((len(starts) - 1, 4))
        rows.rmatvec_blocks(r, starts, out)
        for p, (i, j) in enumerate(pairwise(starts)):
            np.testing.assert_allclose(out[p], there[i:j].T @ r[i:j], rtol=1e-12, atol=1e-13)
    gram = np.empty((4, 4))
    rows.weighted_gram(r**2, gram)
    np.testing.assert_allclose(gram, there.T @ (r[:, None] ** 2 * there), rtol=1e-12, atol=1e-13)


def test_time_is_for_all_together():
    X, y = problem()
    found = bmrm.select(X, y, LAMS, 3, tol=1e-12, tol_kind="abs", max_time=1e-6)
    assert set(found.statuses) == {"max_time"}


def test_an_interrupt_ends_the_selection(engine):
    X, y = problem()
    with pytest.raises(KeyboardInterrupt):
        bmrm.select(X, y, LAMS, 3, callback=lambda state: True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lams": []}, "lams: found none"),
        ({"lams": [1.0, -1.0]}, "lams: found -1"),
        ({"lams": [1.0, 1.0]}, "once"),
        ({"rule": "worst"}, "rule: found 'worst'"),
        ({"metric": "mse"}, "metric: found 'mse', expected one of accuracy, auc, loss for hinge"),
        ({"lam": 1.0}, "lam: a selection sets it"),
        ({"folds": 1}, "folds: found 1"),
        ({"folds": 2.5}, "folds: found 2.5"),
        ({"folds": "two"}, "folds: found 'two'"),
        ({"verbose": 1}, "verbose: no option"),
        ({"tol": 0.0}, "tol: found 0"),
        ({"loss": "quantile", "tau": 2.0}, "tau: found 2"),
    ],
)
def test_bad_arguments(options, message):
    X, y = problem(rows=40)
    with pytest.raises(ParameterError, match=message):
        bmrm.select(X, y, **{"lams": [1.0], **options})


def test_bad_data():
    X, y = problem(rows=40)
    with pytest.raises(DataError, match="labels: found shape"):
        bmrm.select(X, y[:-1], [1.0])
    with pytest.raises(DataError, match="X: found shape"):
        bmrm.select(X[0], y[:4], [1.0], 2)
    with pytest.raises(ParameterError, match="y: give it to the Dataset"):
        bmrm.select(bmrm.Dataset(X, y), y, [1.0])
    rare = np.where(np.arange(40) == 0, 1.0, -1.0)
    with pytest.raises(DataError, match="metric auc: it is undefined on fold"):
        bmrm.select(X, rare, [1.0], 3, metric="auc")


def test_the_matrix_is_shared_and_the_data_stay_as_they_were():
    X, y = problem(rows=60)
    data = bmrm.Dataset(X, y)
    folds = FoldProblem(data, 3, "hinge", 0, {"lam": 0.1})
    parts = [folds.without(fold, data.matrix) for fold in range(4)]
    assert all(part.matrix.inner is data.matrix for part in parts)
    assert data.weights is None
    assert parts[3].weights is None
    assert [int(part.weights.sum()) for part in parts[:3]] == [40] * 3


def test_known_margins_take_no_product():
    X, _ = problem(rows=30)
    matrix = CachedProducts(bmrm.Dataset(X).matrix)
    w, z = np.arange(4.0), np.empty(30)
    first = matrix.matvec(w)
    first += 1.0  # what a caller does with its own vector is not remembered
    np.testing.assert_array_equal(matrix.matvec(w, z), X @ w)
    np.testing.assert_array_equal(matrix.matvec(w), X @ w)
    matrix.matvec(w + 1.0, z)
    np.testing.assert_allclose(z, X @ (w + 1.0), rtol=1e-14)
    for v in (w + 2.0, w, w + 1.0, w + 2.0, w):  # two are remembered, in the memory of those before
        np.testing.assert_allclose(matrix.matvec(v), X @ v, rtol=1e-14)
    assert (matrix.shape, matrix.nnz) == ((30, 4), 120)


@pytest.mark.parametrize("labels", [[-1.0, 1.0], [0.0, 1.0, 2.0], [0.5, 0.25, 1e99], [3.0, 70000.0, 4464.0]])
def test_rows_are_dealt_like_cards_class_by_class(labels):
    rng = np.random.default_rng(13)
    y = rng.choice(labels, 500)
    folds = deal(y, 500, 4, seed=5)
    shuffled = np.random.default_rng(5).permutation(500)
    cards = [row for label in sorted(labels) for row in shuffled if y[row] == label]
    expected = np.empty(500, int)
    expected[cards] = np.arange(500) % 4
    assert (folds.fold_of == expected).all()
    assert folds.order.tolist() == sorted(range(500), key=lambda row: expected[row])
    assert (np.diff(folds.starts) == 125).all()


def test_labels_are_coded_once(monkeypatch):
    X, y = problem(rows=60)
    data, seen = bmrm.Dataset(X, y), []
    monkeypatch.setattr(
        "bmrm.linear.backends.local.encode", lambda *given: seen.append(given) or encode(*given)
    )
    found = bmrm.select(data, lams=[0.1, 0.01], folds=3, fit_intercept=True, tol=1e-6)
    assert not seen
    assert (found.validations[0].results[0].classes == np.unique(y)).all()
    assert bmrm.solve(data, lam=found.lam, fit_intercept=True, tol=1e-6).status == "converged"
    assert len(seen) == 1


PENALTIES = [
    {"reg": "l1"},
    {"reg": "elastic_net", "l1_ratio": 0.7, "positive": True},
    {"feature_lambda": [1.0, 0.5, 2.0, 3.0]},
    {"reg": "elastic_net", "prior": [0.5, -0.5, 0.0, 1.0]},
]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_every_penalty_is_that_of_a_refit(engine, penalty, loss):
    X, y = problem(rows=150)
    options = {"loss": loss, "tol": 1e-5, "fit_intercept": True, "penalize_intercept": True, **penalty}
    found = bmrm.select(X, y, [0.1, 0.01], 3, **options)
    for lam, validation in zip([0.1, 0.01], found.validations, strict=True):
        for fold, result in enumerate(validation.results):
            rest = found.folds.fold_of != fold
            alone = bmrm.solve(X[rest], y[rest], lam=lam, **options)
            assert result.status == alone.status == "converged"
            assert result.reg_params == alone.reg_params
            assert result.lower_bound <= alone.objective * (1 + 1e-12)
            assert alone.lower_bound <= result.objective * (1 + 1e-12)
    assert found.result.reg_params == found.validations[0].results[0].reg_params


def test_the_share_of_l1_goes_with_the_elastic_net(engine):
    X, y = problem(rows=60)
    with pytest.raises(ParameterError, match="l1_ratio"):
        bmrm.select(X, y, [0.1], 3, l1_ratio=0.5)
