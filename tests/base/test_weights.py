"""A weight k counts like k equal rows, a row of weight 0 is ignored, and a common factor changes nothing.

Everything that sees weights is held to that: training, folds, scores and calibration, of all losses and
metrics.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bmrm
from bmrm import losses
from bmrm.errors import DataError, ParameterError
from bmrm.linear.models import metrics
from bmrm.linear.selection.cross_validation import FoldProblem
from bmrm.linear.selection.folds import by_fold
from bmrm.linear.selection.select import METRICS
from bmrm.matrix.row_weights import row_weights

COUNT_ROWS = ("f_beta", "precision_at_k", "recall_at_k", "prbep")
"""Losses of measures that count rows: weights must be equal, or 0."""

OPTIONS = {"precision_at_k": {"k": 3}, "recall_at_k": {"k": 0.9}, "ndcg": {"k": 3}}
FACTORS = (1e-200, 1 / 3, 3e150)
TOL = 1e-7


def is_ranking(name):
    return losses.LOSSES[name].task == "ranking"


def problem(name, seed=0, rows=48):
    """X, labels and groups (queries of four rows for a ranking, else one row per group)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    X += 2.0 * (name == "novelty")  # in a sample around the origin no row is novel
    score = X @ [1.0, -1.0, 0.5] + rng.standard_normal(rows)
    grades = np.digitize(score, [-1.0, 1.0])
    task = losses.LOSSES[name].task
    y = {
        "binary": np.where(score > 0, 1.0, -1.0),
        "regression": score,
        "count": rng.poisson(np.exp(0.3 * score)).astype(float),
        "novelty": None,
        "multiclass": grades + 5.0,
        "ordinal": grades + 5.0,
        "ranking": grades.astype(float),
    }
    y["multilabel"] = y["label_ranking"] = [(float(k), float(rng.integers(3, 5))) for k in grades]
    return X, y[task], np.arange(rows) // (4 if task == "ranking" else 1)


def taken(y, rows):
    return None if y is None else [y[i] for i in rows] if isinstance(y, list) else y[rows]


def spoiled(y, rows):
    """Labels that would be invalid, or new classes, in some rows."""
    if y is None:
        return None
    if isinstance(y, list):
        return [(77.0,) if i in set(rows.tolist()) else row for i, row in enumerate(y)]
    y = y.copy()
    y[rows[::2]], y[rows[1::2]] = np.nan, -7e6
    return y


def copies(name, groups, weights):
    """Each row repeated by its weight, and the groups; for a ranking, repeated queries are new groups."""
    if not is_ranking(name):
        rows = np.repeat(np.arange(len(groups)), weights)
        return rows, groups[rows]
    found = [
        (own, np.full(len(own), 1000 * copy + groups[own[0]]))
        for own in (np.flatnonzero(groups == g) for g in np.unique(groups))
        for copy in range(weights[own[0]])
    ]
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))


def counts(name, groups, seed=1):
    """Weights from 0 to 3, the same for all rows of a query."""
    drawn = np.random.default_rng(seed).integers(0, 4, len(groups))
    return drawn[groups * 4] if is_ranking(name) else drawn


def solved(name, X, y, groups, **options):
    """Results of all kinds of problem of the loss: with and without an intercept, l2 and l1."""
    kinds = [{}, {"reg": "l1"}] if losses.LOSSES[name].name != "novelty" else [{}]
    if not losses.get(name).no_intercept:
        kinds.append({"fit_intercept": True, "penalize_intercept": losses.get(name).several})
    options = {"lam": 0.05, "tol": TOL, **OPTIONS.get(name, {}), **options}
    results = [bmrm.solve(X, y, name, groups=groups, **options, **kind) for kind in kinds]
    assert {result.status for result in results} == {"converged"}
    return results


def assert_alike(some, others):
    """Check that the certified intervals of both results overlap."""
    for one, other in zip(some, others, strict=True):
        slack = 1e-12 * max(1.0, abs(one.objective))
        assert one.lower_bound <= other.objective + slack
        assert other.lower_bound <= one.objective + slack


def assert_same_classes(one, other):
    assert (one is None) == (other is None)
    assert one is None or one.tolist() == other.tolist()


@pytest.mark.parametrize("name", losses.NAMES)
def test_an_integer_weight_counts_like_repeated_rows(name):
    X, y, groups = problem(name)
    weights = counts(name, groups)
    if name in COUNT_ROWS:
        with pytest.raises(ParameterError, match="the measure counts rows"):
            solved(name, X, y, groups, sample_weight=weights)
        return
    rows, of_copies = copies(name, groups, weights)
    assert_alike(
        solved(name, X, y, groups, sample_weight=weights), solved(name, X[rows], taken(y, rows), of_copies)
    )


@pytest.mark.parametrize("name", ["squared", "huber", "squared_hinge", "logistic", "poisson"])
def test_weights_that_make_few_rows_of_many_find_the_same_weights(name):
    """Few sparse rows were left to cuts, which at a fine tolerance end far from what Newton's steps find."""
    rng = np.random.default_rng(7)
    X, s = rng.random((15, 30)), rng.integers(0, 5, 15)
    y = rng.integers(0, 2, 15) * 2.0 - (name in ("squared_hinge", "logistic"))
    options = {"C": 1.0, "fit_intercept": True, "tol": 1e-12}
    weighted = bmrm.solve(sp.csr_array(X), y, name, sample_weight=s, **options)
    repeated = bmrm.solve(sp.csr_array(X.repeat(s, axis=0)), y.repeat(s), name, **options)
    assert weighted.status == repeated.status == "converged"
    assert weighted.n_iter < 10
    np.testing.assert_allclose(weighted.w, repeated.w, rtol=1e-7, atol=1e-9)


def test_rows_of_a_query_may_be_repeated_if_pairs_are_counted():
    X, y, _ = problem("pairwise")
    groups, weights = np.zeros(len(X), int), counts("hinge", np.arange(len(X)))
    rows = np.repeat(np.arange(len(X)), weights)
    assert_alike(
        solved("pairwise", X, y, groups, sample_weight=weights),
        solved("pairwise", X[rows], y[rows], groups[rows]),
    )


@pytest.mark.parametrize("name", losses.NAMES)
def test_a_row_of_weight_zero_is_ignored(name):
    """Whatever its label and features, even if the label is of no class with weight."""
    X, y, groups = problem(name)
    counted = np.random.default_rng(2).random(len(X)) < 0.7
    some, others = np.flatnonzero(counted), np.flatnonzero(~counted)
    X[others] *= 1e3
    masked = solved(name, X, spoiled(y, others), groups, sample_weight=counted.astype(float))
    removed = solved(name, X[some], taken(y, some), groups[some])
    assert_alike(masked, removed)
    assert_same_classes(masked[0].classes, removed[0].classes)


@pytest.mark.parametrize("name", losses.NAMES)
def test_a_common_factor_changes_nothing(name):
    X, y, groups = problem(name)
    weights = counts(name, groups)
    if name in COUNT_ROWS:
        weights = np.minimum(weights, 1)
    plain = solved(name, X, y, groups, sample_weight=weights)
    for factor in FACTORS:
        assert_alike(plain, solved(name, X, y, groups, sample_weight=factor * weights))


def test_a_loss_in_python_is_not_asked_about_rows_of_weight_zero():
    own = losses.CallableLoss(lambda u, y: (y + 0.0 * u, 0.0 * u), "mine", minimum=0.0)
    y, z, r = np.array([1.0, -1.0]), np.zeros(2), np.empty(2)
    everything = np.array([0, 2])
    masked = own.risk(y, np.array([1.0, 0.0]), 1.0, 1)
    assert masked.cut(z, z, 0.0, 0.0, everything, r)[0].tolist() == [1.0]
    with pytest.raises(DataError, match="found the value -1, expected at least its minimum, 0"):
        own.risk(y, None, 1.0, 1).cut(z, z, 0.0, 0.0, everything, r)


def test_examples_of_a_structured_loss():
    class OneLabel:
        n_features = 9

        def most_violated(self, w, x, y):
            assert y < 3  # other examples have weight 0
            values = w.reshape(3, 3) @ x + (np.arange(3) != y)
            best, e = int(values.argmax()), np.eye(3)
            return float(best != y), np.outer(e[best] - e[y], x).ravel()

        def predict(self, w, x):
            return int((w.reshape(3, 3) @ x).argmax())

    X, grades, _ = problem("ordinal")
    weights = np.random.default_rng(1).integers(0, 4, len(X))
    y = np.where(weights, grades - 5, 7).astype(int)
    rows = np.repeat(np.arange(len(X)), weights)
    loss = losses.Structured(OneLabel())
    again = bmrm.solve(list(X[rows]), y[rows].tolist(), loss, lam=0.05, tol=TOL)
    for factor in (1.0, *FACTORS):
        found = bmrm.solve(list(X), y.tolist(), loss, lam=0.05, tol=TOL, sample_weight=factor * weights)
        assert_alike([found], [again])


def test_with_c_a_common_factor_multiplies_the_cost():
    X, y, _ = problem("hinge")
    weights = np.random.default_rng(0).random(len(X))
    plain = bmrm.solve(X, y, C=6.0, sample_weight=weights)
    assert bmrm.solve(X, y, C=2.0, sample_weight=3.0 * weights).lam == pytest.approx(plain.lam, rel=1e-14)


WAYS = [
    (name, kept)
    for name in losses.NAMES
    for kept in ((0, 10**9) if losses.get(name).by_rows and not losses.get(name).several else (10**9,))
]
"""Losses whose folds may share cuts in one bundle, and losses with one bundle per fold."""


def some_of(found, *left_out):
    """Return metrics except some of them; -1 for an undefined one."""
    return {k: -1 if v is None else v for k, v in found.items() if k not in left_out}


def shares(found):
    """Return the metrics that are not counts of rows."""
    return some_of(found, "rows", "correct", "novel", "groups")


def scores(name, X, y, groups, fold_of, weights):
    """Return certificates, and scores of all folds by all metrics, for fixed folds and lam."""
    data = bmrm.Dataset(X, y, groups=groups if is_ranking(name) else None, sample_weight=weights)
    options = {"tol": 1e-9, **OPTIONS.get(name, {})}
    problem = FoldProblem(data, by_fold(fold_of, 2), name, 0, options)
    found = problem.validate(0.05)
    known = [m for m in METRICS[problem.loss.task] if m != "loss" or problem.loss.by_rows]
    of_folds = [[problem.score(found, fold, metric) for metric in known] for fold in range(2)]
    return found.results, np.array(of_folds, float), shares(found.metrics)


def assert_same_scores(one, other):
    assert_alike(one[0], other[0])
    np.testing.assert_allclose(one[1], other[1], rtol=1e-3, atol=1e-4)
    assert one[2] == pytest.approx(other[2], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(("name", "kept"), WAYS)
def test_scores_of_folds_take_weights_as_training_does(name, kept, monkeypatch):
    monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", kept)
    X, y, groups = problem(name, 3)
    fold_of = groups % 2
    weights = counts(name, groups, 6)
    if name in COUNT_ROWS:
        weights = np.minimum(weights, 1)
    weighted = scores(name, X, y, groups, fold_of, weights)
    rows, of_copies = copies(name, groups, weights)
    assert_same_scores(weighted, scores(name, X[rows], taken(y, rows), of_copies, fold_of[rows], None))
    assert_same_scores(weighted, scores(name, X, y, groups, fold_of, 1e-200 * weights))


@pytest.mark.parametrize(("name", "kept"), WAYS)
def test_rows_of_weight_zero_change_no_fold_score_or_choice(name, kept, monkeypatch):
    monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", kept)
    X, y, groups = problem(name, 5)
    counted = np.random.default_rng(2).random(len(X)) < 0.8
    some, others = np.flatnonzero(counted), np.flatnonzero(~counted)
    X[others] *= 1e3
    options = {"lams": [1.0, 0.05], "folds": 2, "loss": name, "tol": 1e-9, **OPTIONS.get(name, {})}
    of_all, of_some = ({"groups": g} if is_ranking(name) else {} for g in (groups, groups[some]))
    masked = bmrm.select(X, spoiled(y, others), sample_weight=counted.astype(float), **of_all, **options)
    removed = bmrm.select(X[some], taken(y, some), **of_some, **options)
    assert masked.folds.fold_of[some].tolist() == removed.folds.fold_of.tolist()
    np.testing.assert_allclose(masked.scores, removed.scores, rtol=1e-3, atol=1e-4)
    assert masked.lam == removed.lam
    for one, other in zip(masked.validations, removed.validations, strict=True):
        assert_alike(one.results, other.results)
        np.testing.assert_allclose(one.values[some], other.values, atol=1e-2)
        assert some_of(one.metrics) == pytest.approx(some_of(other.metrics), rel=1e-3, abs=1e-4)
    assert_alike([masked.result], [removed.result])


def test_folds_of_groups_ignore_groups_of_weight_zero():
    X, y, _ = problem("hinge")
    groups = np.arange(len(X)) // 4
    weights = np.where(groups % 3 == 1, 0.0, 1.0)
    weights[::5] = 0.0
    some = np.flatnonzero(weights)
    options = {"lams": [0.1], "folds": 4, "refit": False}
    masked = bmrm.select(X, y, groups=groups, sample_weight=weights, **options)
    removed = bmrm.select(X[some], y[some], groups=groups[some], **options)
    assert masked.folds.fold_of[some].tolist() == removed.folds.fold_of.tolist()
    for g in np.unique(groups):
        assert len(np.unique(masked.folds.fold_of[groups == g])) == 1
    with pytest.raises(ParameterError, match="expected 2 to the number of groups of positive weight, 8"):
        bmrm.select(X, y, groups=groups, sample_weight=weights, lams=[0.1], folds=9)


def test_a_selection_returns_rows_in_their_original_order(monkeypatch):
    """Even if rows were sorted by fold internally."""
    monkeypatch.setattr("bmrm.linear.plan.CUTS_PER_FOLD", 0)
    X, y, _ = problem("squared", rows=90)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 90)
    found = bmrm.select(X, y, [0.1], 3, loss="squared", sample_weight=weights)
    validation = found.validations[0]
    np.testing.assert_array_equal(validation.targets, y)
    np.testing.assert_array_equal(validation.weights, weights)
    np.testing.assert_array_equal(validation.scored, found.values)
    wanted = np.average((found.values - y) ** 2, weights=weights)
    assert validation.metrics["mse"] == pytest.approx(wanted, rel=1e-12)


def drawn(name, rng, m=30):
    """A factory of accumulators, values with ties, and labels, some of them unknown."""
    values = np.round(rng.standard_normal((m, 3)), 1)
    labels = rng.integers(1, 4, m).astype(float)
    sets = [tuple(rng.choice([1.0, 2.0, 3.0, 9.0], rng.integers(0, 4), replace=False)) for _ in range(m)]
    classes = (1.0, 2.0, 3.0)
    return {
        "binary": (lambda: metrics.BinaryMetrics((1.0, 2.0), beta=2.0), values[:, 0], labels),
        "regression": (metrics.RegressionMetrics, values[:, 0], values[:, 1]),
        "count": (metrics.CountMetrics, values[:, 0], labels),
        "novelty": (metrics.NoveltyMetrics, values[:, 0], np.zeros(m)),
        "probability": (lambda: metrics.ProbabilityMetrics((1.0, 2.0)), rng.random(m), labels),
        "ordinal": (metrics.OrdinalMetrics, rng.integers(1, 4, m).astype(float), labels),
        "multiclass": (lambda: metrics.MulticlassMetrics(classes[:2]), values[:, :2], labels),
        "softmax": (lambda: metrics.MulticlassMetrics(classes, probabilities=True), values, labels),
        "multilabel": (lambda: metrics.MultilabelMetrics(classes), values, sets),
        "label_ranking": (lambda: metrics.LabelRankingMetrics(classes), values, sets),
    }[name]


ACCUMULATORS = (
    *("binary", "regression", "count", "novelty", "probability", "ordinal"),
    *("multiclass", "softmax", "multilabel", "label_ranking"),
)


def report(make, values, y, weights=None, cut=0):
    found = make()
    for part in (slice(cut), slice(cut, None)):
        found.update(values[part], y[part], None if weights is None else weights[part])
    return some_of(found.report())


@pytest.mark.parametrize("name", ACCUMULATORS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 30))
def test_metrics(name, seed, cut):
    rng = np.random.default_rng(seed)
    make, values, y = drawn(name, rng)
    weights = rng.integers(0, 4, len(values))
    rows, some = np.repeat(np.arange(len(values)), weights), np.flatnonzero(weights)
    found = report(make, values, y, weights, cut)
    again = report(make, values[rows], taken(y, rows))
    assert shares(found) == pytest.approx(shares(again), rel=1e-12, abs=1e-15)
    removed = report(make, values[some], taken(y, some), weights[some])
    assert found == pytest.approx(removed, rel=1e-12, abs=1e-15)
    assert found == pytest.approx(report(make, values, y, 0.7 * weights), rel=1e-12, abs=1e-15)
    ones = report(make, values, y, np.full(len(values), 0.3), cut)
    assert ones == pytest.approx(report(make, values, y), rel=1e-12, abs=1e-15)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_metrics_of_rankings(seed):
    rng = np.random.default_rng(seed)
    groups = np.arange(32) // 4
    values, y = np.round(rng.standard_normal(32), 1), rng.integers(0, 3, 32).astype(float)
    weights = rng.integers(0, 4, 8)[groups]
    rows, of_copies = copies("ndcg", groups, weights)
    found = report(lambda: metrics.RankingMetrics(groups, 3), values, y, weights, 7)
    again = report(lambda: metrics.RankingMetrics(of_copies, 3), values[rows], y[rows])
    assert shares(found) == pytest.approx(shares(again), rel=1e-12)
    # Within a query, pairs count repeated rows, and places count each row once.
    weights = rng.integers(0, 4, 32)
    rows, some = np.repeat(np.arange(32), weights), np.flatnonzero(weights)
    one = np.zeros(len(rows) + 32, int)
    found = report(lambda: metrics.RankingMetrics(one, 3), values, y, weights, 7)
    again = report(lambda: metrics.RankingMetrics(one, 3), values[rows], y[rows])
    assert found["pairwise_error"] == pytest.approx(again["pairwise_error"], rel=1e-12)
    removed = report(lambda: metrics.RankingMetrics(one, 3), values[some], y[some])
    for key in ("rows", "ndcg", "mrr"):
        assert found[key] == pytest.approx(removed[key], rel=1e-12)


def test_metrics_are_scikit_learns():
    from sklearn import metrics as reference

    rng = np.random.default_rng(0)
    y, s = rng.choice([1.0, 2.0], 200), rng.random(200)
    values = np.round(rng.standard_normal(200) + y - 1.5, 1)
    predicted = np.where(values > 0, 2.0, 1.0)
    found = report(lambda: metrics.BinaryMetrics((1.0, 2.0)), values, y, s, 50)
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(y, predicted, sample_weight=s))
    assert found["auc"] == pytest.approx(reference.roc_auc_score(y == 2, values, sample_weight=s))
    assert found["f1"] == pytest.approx(reference.f1_score(y, predicted, pos_label=2, sample_weight=s))
    found = report(metrics.RegressionMetrics, values, y, s, 50)
    assert found["mse"] == pytest.approx(reference.mean_squared_error(y, values, sample_weight=s))
    assert found["r2"] == pytest.approx(reference.r2_score(y, values, sample_weight=s))
    assert found["squared_correlation"] == pytest.approx(
        np.cov(values, y, aweights=s)[0, 1] ** 2 / np.prod([np.cov(part, aweights=s) for part in (values, y)])
    )
    found = report(metrics.CountMetrics, values, y, s, 50)
    wanted = reference.mean_poisson_deviance(y, np.exp(values), sample_weight=s)
    assert found["deviance"] == pytest.approx(wanted)


def test_metrics_at_k_count_rows():
    values, y = np.arange(6.0), np.array([1.0, 2.0, 1.0, 2.0, 2.0, 1.0])
    make = lambda: metrics.BinaryMetrics((1.0, 2.0), k=2)  # noqa: E731
    masked = report(make, values, y, np.array([0.0, 3.0, 3.0, 3.0, 3.0, 0.0]))
    assert (masked["precision_at_k"], masked["recall_at_k"]) == (1.0, 2 / 3)
    with pytest.raises(ParameterError, match="k is a number of rows"):
        report(make, values, y, np.arange(6.0))


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (np.ones(2), r"found shape \(2,\), expected \(3,\)"),
        ([1.0, -1.0, 1.0], "negative"),
        ([1, np.nan, 1], "finite"),
    ],
)
def test_metrics_refuse_invalid_weights(weights, text):
    with pytest.raises(DataError, match=text):
        metrics.RegressionMetrics().update(np.ones(3), np.ones(3), weights)


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_calibration(method):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(300).round(1)
    y, weights = values + rng.standard_normal(300) > 0, rng.integers(0, 4, 300)
    wide = np.linspace(-4.0, 4.0, 200)

    def fitted(rows, weights):
        return bmrm.calibrate(values[rows], y[rows], method, sample_weight=weights).probability(wide)

    everything, some = np.arange(300), np.flatnonzero(weights)
    found = fitted(everything, weights)
    np.testing.assert_allclose(found, fitted(some, weights[some]), atol=1e-12)
    for factor in (*FACTORS, 5e-324 * 2.0**60):
        np.testing.assert_allclose(found, fitted(everything, factor * weights), atol=1e-8)
    again = fitted(np.repeat(everything, weights), None)
    # Platt's guard against certainty counts equal rows as separate observations, whatever their weights.
    np.testing.assert_allclose(found, again, atol=1e-12 if method == "isotonic" else 0.02)
    equal = fitted(everything, np.full(300, 1 / 300))
    np.testing.assert_allclose(equal, fitted(everything, None), atol=1e-9)


def test_balanced_classes_have_equal_weight():
    y = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 9.0])
    weights = np.array([1.0, 2.0, 0.0, 4.0, 1.0, 1.0, 0.0])
    found = row_weights(y, 7, weights, "balanced")
    np.testing.assert_allclose([found[y == c].sum() for c in (1.0, 2.0, 3.0, 9.0)], [3.0, 3.0, 3.0, 0.0])
    rows = np.repeat(np.arange(7), weights.astype(int))
    np.testing.assert_allclose(found[rows] / weights[rows], row_weights(y[rows], len(rows), None, "balanced"))
    np.testing.assert_allclose(row_weights(y, 7, 1e-200 * weights, "balanced"), 1e-200 * found)


def test_class_weights_of_absent_labels_change_nothing():
    y, weights = np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0, 0.0])
    with pytest.warns(UserWarning, match="no row has label 9, 7, whose weight has no effect"):
        found = row_weights(y, 3, weights, {1.0: 3.0, 9.0: 2.0, 7: 2.0})
    np.testing.assert_array_equal(found, [3.0, 2.0, 0.0])


def test_metrics_ignore_labels_of_rows_of_weight_zero():
    values = np.array([0.5, -1.0, 2.0])
    found = metrics.BinaryMetrics((-1.0, 1.0))
    found.update(values, [1, None, -1], [1, 0, 1])
    assert (found.report()["rows"], found.report()["correct"]) == (2, 1)
    ranked = metrics.RankingMetrics(["a", "a", "a"])
    ranked.update(values, [0.0, "none", 1.0], [1, 0, 1])
    assert ranked.report()["pairwise_error"] == 0.0


def test_metrics_validate_weights_like_all_arguments():
    found = metrics.BinaryMetrics((-1.0, 1.0))
    for wrong in (["1", "1"], np.ma.array([1.0, 1.0], mask=[0, 1]), [1.0, None], [-1.0, 1.0], [1.0]):
        with pytest.raises(DataError, match="weights: "):
            found.update([1.0, 2.0], [1.0, -1.0], wrong)


def test_a_dataset_keeps_label_indicators_as_given():
    X = np.array([[1.0], [-1.0], [0.5], [-2.0]])
    given = [[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 1, 0]]
    data = bmrm.Dataset(X, given, sample_weight=[1, 1, 0, 1])
    given[0][1] = 7
    assert bmrm.solve(data, loss="multilabel", lam=0.1).classes.tolist() == [0.0, 1.0, 2.0]
