"""Losses of several margins per row: formulas, cuts, optima compared with other solvers, files."""

import os
from itertools import pairwise

import clarabel
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import bmrm
from bmrm import losses
from bmrm.base.probabilities import softmax
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.linear.selection.cross_validation import cross_validate

NAMES = ("multiclass", "softmax", "multilabel", "multilabel_ranking")


def formula(name, U, y, costs=None):
    """Return the loss of each row; y has classes, or rows of -1 and +1."""
    m, K = U.shape
    if name == "multilabel":
        return np.maximum(0, 1 - y * U).sum(axis=1)
    if name == "multilabel_ranking":
        wrong = np.where(y < 0, U, -np.inf).max(axis=1)
        return np.maximum(0, 1 + wrong - np.where(y > 0, U, np.inf).min(axis=1))
    own = U[np.arange(m), y.astype(int)]
    if name == "softmax":
        return logsumexp(U, axis=1) - own
    return (U + (1 - np.eye(K) if costs is None else costs)[y.astype(int)]).max(axis=1) - own


def random_costs(rng, K):
    costs = rng.uniform(0.5, 3, (K, K))
    np.fill_diagonal(costs, 0)
    return costs


def coded(name, rng, m, K):
    """Return labels in coded form, in which every class occurs."""
    if name.startswith("multilabel"):
        return np.where(rng.random((m, K)) < 0.4, 1.0, -1.0)
    return np.concatenate([np.arange(K), rng.integers(0, K, max(0, m - K))])[:m].astype(float)


def make(name, costs=None):
    return losses.get(name) if costs is None else losses.get(name, costs=costs)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    m=st.integers(1, 70),
    K=st.integers(2, 35),
    weighted=st.booleans(),
    costly=st.booleans(),
    blocks=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_values_derivatives_and_slopes_are_those_of_the_formula(name, m, K, weighted, costly, blocks, seed):
    rng = np.random.default_rng(seed)
    m += K
    y = coded(name, rng, m, K)
    costs = random_costs(rng, K) if costly and name == "multiclass" else None
    Z, D = 2 * rng.normal(size=(2, m, K))
    s = rng.random(m) if weighted else None
    full = 0.3 * (np.ones(m) if s is None else s)
    t, step = 0.4, 1e-6
    starts = np.sort(np.concatenate(([0, m], rng.integers(0, m + 1, blocks - 1))))
    risk, r = make(name, costs).risk(y, s, 0.3, 1), np.empty(m * K)
    values, _ = risk.cut(Z.ravel(), D.ravel(), t, 0.0, K * starts, r)
    rows = full * formula(name, Z + t * D, y, costs)
    np.testing.assert_allclose(values, [rows[i:j].sum() for i, j in pairwise(starts)], rtol=1e-11, atol=1e-13)
    slope = risk.slope(Z.ravel(), D.ravel(), t, 0.0)[0]
    assert slope == pytest.approx(r @ D.ravel(), rel=1e-9, abs=1e-12)
    after, before = (full @ formula(name, Z + (t + h) * D, y, costs) for h in (step, -step))
    # The function is convex, so the derivative is between the one-sided differences; a kink may be near.
    slack = 1e-5 + 1e-7 * abs(slope)
    assert (rows.sum() - before) / step - slack <= slope <= (after - rows.sum()) / step + slack
    # A subgradient at this point bounds the risk at any other point.
    other = 3 * rng.normal(size=(m, K))
    bound = rows.sum() + r @ (other - Z - t * D).ravel()
    assert full @ formula(name, other, y, costs) >= bound - 1e-9 * (1 + abs(bound))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("K", [2, 7, 8, 20, 300])
def test_bits_do_not_depend_on_threads(name, K):
    rng = np.random.default_rng(K)
    m = 40_000 // K + K
    y, Z, D = coded(name, rng, m, K), rng.normal(size=m * K), rng.normal(size=m * K)
    found = []
    for threads in (1, 2, 5):
        risk, r = losses.get(name).risk(y, None, 1 / m, threads), np.empty(m * K)
        values, _ = risk.cut(Z, D, 0.5, 0.0, K * np.array([0, m // 3, m]), r)
        found.append((*values, risk.slope(Z, D, 0.5, 0.0)[0], *r))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_margin_that_is_nan_is_not_hidden(name):
    U = np.zeros((3, 11))
    for place in (0, 4, 10):
        U[1] = 0.0
        U[1, place] = np.nan
        y = (
            np.where(np.eye(11)[[0, 4, 10]], 1.0, -1.0)
            if name.startswith("multilabel")
            else np.array([0, 4, 10])
        )
        assert np.isnan(losses.get(name).value(U, y)).tolist() == [False, True, False]


def test_a_row_whose_class_wins_by_its_margin_has_no_derivative():
    loss = losses.get("multiclass")
    U = np.array([[1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(loss.value(U, np.zeros(3)), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(loss.derivative(U, np.zeros(3)), [[0, 0, 0], [-1, 1, 0], [-1, 1, 0]])


# Optima


def problem(name, m=70, d=4, K=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    scores = X @ rng.normal(size=(d, K)) + rng.normal(size=(m, K))
    if name.startswith("multilabel"):
        y = np.where(scores > 0.7, 1.0, -1.0)
        return X, y, [tuple((np.flatnonzero(row > 0) + 1.0).tolist()) for row in y]
    y = scores.argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y.astype(float), 10.0 * y - 7.0


def value(name, X, y, W, lam, weights=None, costs=None):
    s = np.ones(len(X)) if weights is None else weights
    return 0.5 * (lam * W**2).sum() + s @ formula(name, X @ W, y, costs) / s.sum()


def with_free_intercepts(X, lam):
    """Return X with a column of ones, and lam as a column, 0 for the weights of the ones."""
    return np.hstack([X, np.ones((len(X), 1))]), np.append(np.full(X.shape[1], lam), 0.0)[:, None]


def winner_optimum(X, y, K, lam, weights=None, costs=None):
    """Solve Crammer and Singer's QP by Clarabel: one slack per row, one constraint per row and class."""
    m, d = X.shape
    s = np.ones(m) if weights is None else weights
    costs = 1 - np.eye(K) if costs is None else costs
    own = np.eye(K)[y.astype(int)]
    blocks, rhs = [], []
    for c in range(K):
        change = own - np.eye(K)[c]  # xi_i >= cost - x_i . (w_y - w_c)
        blocks.append(
            sp.hstack([-sp.csr_matrix(np.einsum("ij,ik->ijk", X, change).reshape(m, -1)), -sp.eye(m)])
        )
        rhs.append(-costs[y.astype(int), c])
    return quadratic_optimum(lam, d * K, s / s.sum(), blocks, rhs)


def separation_optimum(X, y, lam):
    """Solve the QP of label ranking by Clarabel: one constraint per pair of a label and a missing label."""
    m, d = X.shape
    K = y.shape[1]
    entries, rhs = [], []
    for i in range(m):
        for a in np.flatnonzero(y[i] > 0):
            for b in np.flatnonzero(y[i] < 0):
                row = np.outer(X[i], np.eye(K)[a] - np.eye(K)[b]).ravel()
                entries.append(np.concatenate([-row, -np.eye(m)[i]]))
                rhs.append(-1.0)
    entries += list(np.hstack([np.zeros((m, d * K)), -np.eye(m)]))
    return quadratic_optimum(
        lam, d * K, np.full(m, 1 / m), [sp.csr_matrix(np.array(entries))], [rhs, np.zeros(m)]
    )


def quadratic_optimum(lam, n, s, blocks, rhs):
    each = np.repeat(lam, n // np.size(lam))
    P = sp.block_diag([sp.diags(each), sp.csc_matrix((len(s), len(s)))]).tocsc()
    A, b = sp.vstack(blocks).tocsc(), np.concatenate(rhs)
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    q = np.concatenate([np.zeros(n), s])
    found = clarabel.DefaultSolver(
        sp.triu(P).tocsc(), q, A, b, [clarabel.NonnegativeConeT(len(b))], options
    ).solve()
    assert str(found.status) in ("Solved", "AlmostSolved")
    return found.obj_val


def softmax_optimum(X, y, K, lam, weights=None):
    """Minimise by SciPy's L-BFGS with an explicit gradient."""
    m, d = X.shape
    s = (np.ones(m) if weights is None else weights) / (m if weights is None else weights.sum())

    def both(v):
        W = v.reshape(d, K)
        U = X @ W
        P = np.exp(U - logsumexp(U, axis=1)[:, None])
        R = s[:, None] * (P - np.eye(K)[y.astype(int)])
        return value("softmax", X, y, W, lam, None if weights is None else weights), (
            lam * W + X.T @ R
        ).ravel()

    options = {"gtol": 1e-12, "ftol": 1e-16, "maxiter": 10_000}
    return scipy.optimize.minimize(both, np.zeros(d * K), jac=True, method="L-BFGS-B", options=options).fun


def optimum(name, X, y, K, lam, weights=None, costs=None):
    if name == "multiclass":
        return winner_optimum(X, y, K, lam, weights, costs)
    return softmax_optimum(X, y, K, lam, weights)


MODES = ("plain", "weighted", "penalised", "free", "costs", "costs free", "blocks", "bmrm", "sparse free")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["multiclass", "softmax"])
def test_optimum_of_classes(name, mode):
    if "costs" in mode and name == "softmax":
        pytest.skip("softmax knows no costs")
    X, y, labels = problem(name)
    K, lam, rng = 5, 1e-2, np.random.default_rng(3)
    weights = rng.random(len(y)) + 0.1 if mode in ("weighted", "free") else None
    costs = random_costs(rng, K) if "costs" in mode else None
    options = {
        "penalised": {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
        "blocks": {"cuts_per_pass": 6},
        "bmrm": {"solver": "bmrm"},
        "weighted": {"sample_weight": weights},
        "free": {"sample_weight": weights},
    }.get(mode, {})
    options |= {"fit_intercept": True} if "free" in mode else {}
    options |= {} if costs is None else {"costs": costs}
    given = sp.csr_matrix(X) if "sparse" in mode else X
    result = bmrm.solve(given, labels, name, lam=lam, tol=1e-8, **options)
    against = np.hstack([X, np.full((len(y), 1), 2.0)]) if mode == "penalised" else X
    if "free" in mode:
        against, lam = with_free_intercepts(X, lam)
        assert abs(result.intercept.sum()) < 1e-12
    wanted = optimum(name, against, y, K, lam, weights, costs)
    assert result.status == "converged"
    assert result.objective == pytest.approx(wanted, rel=1e-6)
    assert result.lower_bound <= wanted * (1 + 1e-8)
    assert result.w.shape == (4, K)
    assert result.intercept.shape == (K,)
    scaling = 2.0 if mode == "penalised" else 1.0
    W = result.w if len(against[0]) == 4 else np.vstack([result.w, result.intercept / scaling])
    again = value(name, against, y, W, lam, weights, costs)
    assert result.objective == pytest.approx(again, rel=1e-12)
    U = X @ result.w + result.intercept
    np.testing.assert_allclose(result.decision_function(given), U, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(result.predict(given), result.classes[U.argmax(axis=1)])


@pytest.mark.parametrize("intercept", [False, True])
def test_softmax_is_scikit_learns_logistic_regression(intercept):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y, labels = problem("softmax", m=200)
    lam = 1e-2
    theirs = linear_model.LogisticRegression(
        C=1 / (lam * len(y)), fit_intercept=intercept, tol=1e-12, max_iter=10_000, solver="newton-cg"
    ).fit(X, labels)
    ours = bmrm.solve(X, labels, "softmax", lam=lam, tol=1e-9, fit_intercept=intercept)
    W, strengths = theirs.coef_.T, lam
    np.testing.assert_allclose(ours.w, W, atol=2e-4)
    if intercept:
        X, strengths = with_free_intercepts(X, lam)
        W = np.vstack([W, theirs.intercept_])
        np.testing.assert_allclose(ours.intercept, theirs.intercept_ - theirs.intercept_.mean(), atol=2e-4)
    assert ours.objective == pytest.approx(value("softmax", X, y, W, strengths), rel=1e-6)
    probabilities = softmax(ours.decision_function(X[:, :4]))
    np.testing.assert_allclose(probabilities, theirs.predict_proba(X[:, :4]), atol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
def test_each_label_is_trained_on_its_own(intercept):
    X, y, sets = problem("multilabel")
    options = {"lam": 1e-2, "fit_intercept": intercept}
    result = bmrm.solve(X, sets, "multilabel", tol=1e-8, **options)
    alone = [bmrm.solve(X, y[:, c], "hinge", tol=1e-9, **options) for c in range(5)]
    assert result.status == "converged"
    assert result.objective == pytest.approx(sum(one.objective for one in alone), rel=1e-6)
    np.testing.assert_array_equal(result.classes, np.arange(1.0, 6.0))
    U = X @ result.w + result.intercept
    assert result.predict(X) == [tuple((np.flatnonzero(row > 0) + 1.0).tolist()) for row in U]
    matrix = bmrm.solve(X, (y > 0).astype(int), "multilabel", tol=1e-8, **options)
    np.testing.assert_array_equal(matrix.w, result.w)
    np.testing.assert_array_equal(matrix.classes, np.arange(5.0))


@pytest.mark.parametrize("options", [{"cuts_per_pass": 1}, {"cuts_per_pass": 4}, {"fit_intercept": True}])
def test_optimum_of_label_ranking(options):
    X, y, sets = problem("multilabel_ranking", m=40)
    result = bmrm.solve(X, sets, "multilabel_ranking", lam=1e-2, tol=1e-8, **options)
    against = with_free_intercepts(X, 1e-2) if "fit_intercept" in options else (X, 1e-2)
    assert result.status == "converged"
    assert result.objective == pytest.approx(separation_optimum(against[0], y, against[1]), rel=1e-6)
    first = result.predict(X)[0]
    values = dict(zip(result.classes, result.decision_function(X)[0], strict=True))
    assert list(first) == sorted(values, key=lambda label: -values[label])


def test_two_classes_are_the_hinge():
    X, y, _ = problem("multiclass", K=2)
    for intercept in (False, True):
        both = bmrm.solve(X, y, "multiclass", lam=2e-2, tol=1e-8, fit_intercept=intercept)
        # w_1 = -w_0 = v / 2: the margin depends on v, and the penalty is lam |v|^2 / 4.
        hinge = bmrm.solve(X, y, "hinge", lam=1e-2, tol=1e-8, fit_intercept=intercept)
        assert both.objective == pytest.approx(hinge.objective, rel=1e-7)


def test_class_weights_are_sample_weights():
    X, _, labels = problem("multiclass")
    each = np.where(labels == labels[0], 3.0, 1.0)
    by_class, by_row = (
        bmrm.solve(X, labels, "softmax", lam=1e-2, **{option: weights})
        for option, weights in (("class_weight", {labels[0]: 3.0}), ("sample_weight", each))
    )
    np.testing.assert_array_equal(by_class.w, by_row.w)


def test_a_path_keeps_its_cuts_and_its_point():
    X, _, labels = problem("multiclass")
    data = bmrm.Dataset(X, labels)
    costs = losses.tree_costs([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)])
    options = {"costs": costs, "tol": 1e-6, "fit_intercept": True, "penalize_intercept": True}
    path = bmrm.path(data, lams=[1e-1, 1e-2], loss="multiclass", **options)
    assert path[0].bundle.origin == path[1].bundle.origin
    cold = bmrm.solve(data, loss="multiclass", lam=1e-2, **options)
    assert path[1].n_iter < cold.n_iter
    assert path[1].objective == pytest.approx(cold.objective, rel=1e-5)
    again = bmrm.solve(data, loss="multiclass", lam=1e-2, warm_start=cold, **options)
    assert again.n_iter <= 2
    plain = bmrm.solve(data, loss="multiclass", lam=1e-2, warm_start=cold, tol=1e-6)
    assert plain.bundle is not cold.bundle
    start = bmrm.solve(data, loss="multiclass", lam=1e-2, tol=1e-6, warm_start=plain.w)
    assert start.history[0]["objective"] <= plain.objective * (1 + 1e-12)
    with pytest.raises(DataError, match=r"shape \(4,\), expected \(4, 5\)"):
        bmrm.solve(data, loss="multiclass", warm_start=np.zeros(4))


@pytest.mark.parametrize("name", NAMES)
def test_cross_validation(name):
    X, _, labels = problem(name, m=60)
    found = cross_validate(bmrm.Dataset(X, labels), 3, loss=name, lam=1e-2)
    assert found.values.shape == (60, 5)
    assert all(result.status == "converged" for result in found.results)
    score = found.metrics["average_precision" if name == "multilabel_ranking" else "accuracy"]
    assert 0.15 < score <= 1.0
    assert (found.metrics.get("log_loss") is not None) == (name == "softmax")


@pytest.mark.parametrize("name", NAMES)
def test_models_survive_their_file(name, tmp_path):
    X, _, labels = problem(name)
    result = bmrm.solve(X, labels, name, lam=1e-2, fit_intercept=True, penalize_intercept=True)
    result.save(tmp_path / "model")
    model = bmrm.Model.load(tmp_path / "model")
    np.testing.assert_array_equal(model.w, result.w)
    np.testing.assert_array_equal(model.intercept, result.intercept)
    assert model.classes == tuple(result.classes)
    mine, read = result.predict(X), model.predict(X)
    assert list(mine) == list(read)
    if name == "softmax":
        sums = model.probabilities(model.decision_function(X)).sum(axis=1)
        np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    else:
        with pytest.raises(
            ParameterError, match="expected one with a calibration, or with the loss logistic or softmax"
        ):
            model.probabilities(model.decision_function(X))


@pytest.mark.parametrize("name", ["multiclass", "softmax"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("K", [2, 5])
def test_liblinear_predicts_the_same_from_the_export(name, biased, K, tmp_path):
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    X, _, labels = problem(name, K=K)
    result = bmrm.solve(X, labels, name, lam=1e-2, fit_intercept=biased, penalize_intercept=biased)
    bmrm.Model.from_result(result).export_liblinear(tmp_path / "model")
    theirs = liblinear.load_model(os.fspath(tmp_path / "model"))
    predicted = liblinear.predict([], sp.csr_matrix(X), theirs, "-q")[0]
    np.testing.assert_array_equal(predicted, result.predict(X))


def test_labels_in_sets_have_no_liblinear_model(tmp_path):
    X, _, sets = problem("multilabel")
    with pytest.raises(ParameterError, match="no model for the multilabel loss"):
        bmrm.Model.from_result(bmrm.solve(X, sets, "multilabel")).export_liblinear(tmp_path / "model")


def test_tree_costs_count_edges():
    costs = losses.tree_costs(["ab", "ac", "d", "dxy"])
    np.testing.assert_array_equal(costs, [[0, 2, 3, 5], [2, 0, 3, 5], [3, 3, 0, 2], [5, 5, 2, 0]])
    with pytest.raises(ParameterError, match="classes 1 and 2 are the same node"):
        losses.tree_costs(["ab", "ab"])


BAD_SETS = "several labels per row, expected one"


@pytest.mark.parametrize(
    ("labels", "options", "error", "message"),
    [
        ([1, 1, 1], {}, DataError, "found one label"),
        ([1, 2, np.nan], {}, DataError, "row 3 has nan"),
        ([1, 2], {}, DataError, r"expected \(3,\)"),
        ([(1.0,), (1.0, 2.0), ()], {}, DataError, BAD_SETS),
        (None, {}, DataError, "found no labels"),
        ([1, 2, 3], {"fit_intercept": True, "cuts_per_pass": 2}, ParameterError, "one cut per pass"),
        ([1, 2, 3], {"costs": [[0, 1], [1, 0]]}, DataError, "2 classes, expected the 3"),
        ([1, 2, 3], {"costs": [[0, 1, 1], [1, 0, 1]]}, ParameterError, "one row and one column per class"),
        ([1, 2, 3], {"costs": [[0, -1], [1, 0]]}, ParameterError, "row 1, column 2 has -1"),
        ([1, 2, 3], {"costs": [[0, 1], [1, 2]]}, ParameterError, "row 2 has 2 on the diagonal"),
        ([1, 2, 3], {"costs": "x"}, ParameterError, "expected a matrix"),
        (
            [1, 2, 3],
            {"loss": "softmax", "costs": np.zeros((3, 3))},
            ParameterError,
            "unknown parameter 'costs'",
        ),
        ([1, 2, 3], {"cuts_per_pass": 4}, ParameterError, "from 1 to 3"),
        ([(), (), ()], {"loss": "multilabel"}, DataError, "no row with a label"),
        ([(1.0,), (2.0,)], {"loss": "multilabel"}, DataError, "found 2 rows, expected 3"),
        ([(1.0,), (np.inf,), ()], {"loss": "multilabel"}, DataError, "row 2 has inf"),
        ([("a",), (1,), ()], {"loss": "multilabel"}, DataError, "has 1, expected text"),
        (np.full((3, 2), 2), {"loss": "multilabel"}, DataError, "zeros and ones"),
        (
            [(1.0,), (), ()],
            {"loss": "multilabel", "class_weight": {1.0: 2.0}},
            ParameterError,
            "class_weight",
        ),
    ],
)
def test_bad_input_is_one_clear_line(labels, options, error, message):
    with pytest.raises(error, match=message) as caught:
        bmrm.solve(np.eye(3), labels, **{"loss": "multiclass", **options})
    assert isinstance(caught.value, BmrmError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["multiclass", "softmax"])
def test_penalties_hold_for_every_class(name):
    """The objective is that of the formula, and no nearby point has an objective below the bound."""
    rng = np.random.default_rng(0)
    m, d, K = 60, 3, 3
    X, y = rng.standard_normal((m, d)), coded(name, rng, m, K)
    factors, prior = np.array([1.0, 0.5, 2.0]), rng.standard_normal((d, K))

    def at(W, lam, share):
        v = np.abs(W - prior)
        penalty = (factors[:, None] * (share * v + (1 - share) / 2 * v**2)).sum()
        return lam * penalty + formula(name, X @ W, y).mean()

    for share, reg in ((1.0, "l1"), (0.5, "elastic_net")):
        result = bmrm.solve(X, y, name, reg, 0.02, feature_lambda=factors, prior=prior, tol=1e-6)
        assert result.status == "converged"
        assert result.objective == pytest.approx(at(result.w, 0.02, share), rel=1e-12)
        for scale in (1e-3, 1e-2, 0.1):
            for _ in range(50):
                W = result.w + scale * rng.standard_normal((d, K))
                assert result.lower_bound <= at(W, 0.02, share)
    held = bmrm.solve(X, y, name, "l1", 1e3, prior=prior)
    np.testing.assert_array_equal(held.w, prior)
    kept = bmrm.solve(
        X, y, name, lam=1e-2, positive=True, fit_intercept=True, penalize_intercept=True, prior=held, tol=1e-5
    )
    assert kept.status == "converged"
    assert (kept.w >= 0.0).all()
    with pytest.raises(DataError, match="feature_lambda: found shape"):
        bmrm.solve(X, y, name, feature_lambda=np.ones(d * K + 1))
    with pytest.raises(DataError, match="prior: found weights of shape"):
        bmrm.solve(X, y, name, prior=bmrm.solve(X, y > 0, "hinge"))
