"""Streaming metrics compared with scikit-learn's, for any chunks."""

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from bmrm.errors import DataError
from bmrm.linear.models import metrics

CHUNKS = [[], [50], [1, 1, 70], [30, 60, 90]]


def feed(scores, values, y, cuts):
    for part_values, part_y in zip(np.split(values, cuts), np.split(y, cuts), strict=True):
        scores.update(part_values, part_y)
    return scores.report()


@pytest.mark.parametrize("cuts", CHUNKS)
def test_binary(cuts):
    rng = np.random.default_rng(0)
    y = rng.choice([2.0, 4.0], 100)
    values = np.round(rng.standard_normal(100) + (y - 3), 1)  # rounded, because ties matter
    report = feed(metrics.BinaryMetrics((2.0, 4.0)), values, y, cuts)
    assert report["rows"] == 100
    assert report["accuracy"] == reference.accuracy_score(y, np.where(values > 0, 4.0, 2.0))
    assert report["correct"] == round(report["accuracy"] * 100)
    assert report["auc"] == pytest.approx(reference.roc_auc_score(y == 4, values), rel=1e-14)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
    st.lists(st.integers(-3, 3), min_size=1, max_size=30),
)
def test_auc_counts_pairs(positive, negative):
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    y = np.repeat(["yes", "no"], [len(positive), len(negative)])
    auc = metrics.roc_auc(y, [*positive, *negative])
    assert auc == pytest.approx(np.mean(pairs), rel=1e-12)


def test_auc_in_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    y, values = rng.permutation(1700) < 700, rng.standard_normal(1700)
    whole = metrics.roc_auc(y, values)
    monkeypatch.setattr(metrics, "_SEARCH_BLOCK_ROWS", 64)
    assert metrics.roc_auc(y, values) == whole


def test_auc_of_weights_is_that_of_repeated_rows():
    rng = np.random.default_rng(2)
    y, values, weights = rng.integers(0, 2, 60), rng.integers(0, 9, 60), rng.integers(0, 4, 60)
    repeated = metrics.roc_auc(np.repeat(y, weights), np.repeat(values, weights))
    assert metrics.roc_auc(y, values, 0.5 * weights) == pytest.approx(repeated, rel=1e-14)
    assert metrics.roc_auc(y, values, y) is None


@pytest.mark.parametrize(
    ("y", "score", "weights", "message"),
    [
        ([2.0, 3.0, 5.0], [1.0, 2.0, 3.0], None, "y: found 3 different values, expected two classes"),
        ([1, 0], [1.0, 2.0, 3.0], None, "y: found shape (2,), expected (3,), one per score"),
        ([1, 0], [1.0, np.nan], None, "values: row 2 has nan, expected a number"),
        ([1, np.nan], [1.0, 2.0], None, "y: row 2 has nan, expected a finite number"),
        ([1, 0], [1.0, 2.0], [1, -1], "sample weights: row 2 has -1, expected a number of at least 0"),
    ],
)
def test_auc_of_bad_input(y, score, weights, message):
    with pytest.raises(DataError, match=re.escape(message)):
        metrics.roc_auc(y, score, weights)


def test_unknown_label_is_wrong_and_outside_the_area():
    scores = metrics.BinaryMetrics((-1.0, 1.0))
    scores.update(np.array([1.0, -1.0, 5.0]), np.array([1.0, -1.0, 3.0]))
    report = scores.report()
    assert (report["rows"], report["correct"], report["accuracy"], report["auc"]) == (3, 2, 2 / 3, 1.0)


@pytest.mark.parametrize("cuts", CHUNKS)
def test_measures_of_two_classes(cuts):
    rng = np.random.default_rng(4)
    y = rng.choice([0.0, 1.0], 100, p=[0.7, 0.3])
    values = rng.standard_normal(100) + y - 0.5
    report = feed(metrics.BinaryMetrics((0.0, 1.0), beta=2.0, k=0.2), values, y, cuts)
    predicted = (values > 0).astype(float)
    assert report["precision"] == pytest.approx(reference.precision_score(y, predicted), rel=1e-14)
    assert report["recall"] == pytest.approx(reference.recall_score(y, predicted), rel=1e-14)
    assert report["f1"] == pytest.approx(reference.f1_score(y, predicted), rel=1e-14)
    assert report["f_beta"] == pytest.approx(reference.fbeta_score(y, predicted, beta=2.0), rel=1e-14)
    top = y[np.argsort(-values)]
    positives = int(y.sum())
    assert report["precision_at_k"] == top[:20].mean()
    assert report["recall_at_k"] == top[:20].sum() / positives
    assert report["break_even"] == pytest.approx(top[:positives].mean(), rel=1e-14)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=7).filter(
        lambda rows: any(relevant for _, relevant in rows)
    ),
    st.integers(1, 7),
)
def test_ties_at_the_last_place_are_shared(rows, k):
    values, relevant = np.array([v for v, _ in rows], float), np.array([r for _, r in rows])
    k = min(k, len(rows))
    best = max(sum(values[list(c)]) for c in combinations(range(len(rows)), k))
    tops = [list(c) for c in combinations(range(len(rows)), k) if sum(values[list(c)]) == best]
    hits = np.mean([relevant[top].sum() for top in tops])
    precision, recall = metrics.precision_recall_at(values, relevant, k)
    assert precision == pytest.approx(hits / k)
    assert recall == pytest.approx(hits / relevant.sum())


def test_ranking():
    rng = np.random.default_rng(5)
    groups = rng.integers(0, 6, 90)
    y, values = rng.integers(0, 4, 90).astype(float), rng.standard_normal(90)
    scores = metrics.RankingMetrics(groups, 5)
    scores.update(values[:40], y[:40])
    scores.update(values[40:], y[40:])
    report = scores.report()
    gains, ranks, errors = [], [], []
    for g in range(6):
        u, v = values[groups == g], y[groups == g]
        gains.append(reference.ndcg_score([2**v - 1], [u], k=5))
        ranks.append(1 / (1 + np.argmax(v[np.argsort(-u)] > 0)))
        pairs = [(u[i] < u[j]) for i in range(len(v)) for j in range(len(v)) if v[i] > v[j]]
        errors.append(np.mean(pairs))
    assert report["ndcg"] == pytest.approx(np.mean(gains), rel=1e-12)
    assert report["mrr"] == pytest.approx(np.mean(ranks), rel=1e-12)
    assert report["pairwise_error"] == pytest.approx(np.mean(errors), rel=1e-12)
    assert (report["rows"], report["groups"]) == (90, 6)


@pytest.mark.parametrize("first", [-1, -(2**63), 7])
def test_groups_of_any_number(first):
    groups = np.array([first, first, 2**62, 2**62])
    scores = metrics.RankingMetrics(groups)
    scores.update(np.array([1.0, 3.0, 2.0, 0.5]), np.array([2.0, 1.0, 2.0, 1.0]))
    report = scores.report()
    assert (report["groups"], report["pairwise_error"]) == (2, 0.5)


def test_equal_scores_gain_nothing_in_a_ranking():
    scores = metrics.RankingMetrics(np.zeros(3, int))
    scores.update(np.zeros(3), np.array([0.0, 0.0, 1.0]))
    report = scores.report()
    assert report["mrr"] == pytest.approx(1 / 3)
    assert report["ndcg"] == pytest.approx(0.5)
    assert report["pairwise_error"] == 0.5


def test_groups_without_a_measure_are_left_out():
    scores = metrics.RankingMetrics(np.array([0, 0, 1, 2, 2]))
    scores.update(np.array([1.0, 2.0, 3.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0, 0.0, 0.0]))
    assert scores.report() == {"rows": 5, "groups": 3, "ndcg": 1.0, "mrr": 1.0, "pairwise_error": 0.0}


def test_one_class_has_no_area():
    scores = metrics.BinaryMetrics((-1.0, 1.0))
    scores.update(np.array([1.0]), np.array([1.0]))
    assert scores.report()["auc"] is None


@pytest.mark.parametrize("cuts", CHUNKS)
def test_regression(cuts):
    rng = np.random.default_rng(2)
    y = 1e4 + rng.standard_normal(100)
    values = y + 0.3 * rng.standard_normal(100)
    report = feed(metrics.RegressionMetrics(), values, y, cuts)
    assert report["mse"] == pytest.approx(reference.mean_squared_error(y, values), rel=1e-12)
    assert report["rmse"] == pytest.approx(reference.root_mean_squared_error(y, values), rel=1e-12)
    assert report["mae"] == pytest.approx(reference.mean_absolute_error(y, values), rel=1e-12)
    assert report["squared_correlation"] == pytest.approx(np.corrcoef(y, values)[0, 1] ** 2, rel=1e-9)
    assert report["r2"] == pytest.approx(reference.r2_score(y, values), rel=1e-9)


@pytest.mark.parametrize("cuts", CHUNKS)
def test_counts(cuts):
    rng = np.random.default_rng(3)
    y = rng.poisson(2.0, 100).astype(float)
    values = 0.5 * rng.standard_normal(100)
    report = feed(metrics.CountMetrics(), values, y, cuts)
    assert report["deviance"] == pytest.approx(reference.mean_poisson_deviance(y, np.exp(values)), rel=1e-12)
    assert report["mae"] == pytest.approx(np.abs(np.exp(values) - y).mean(), rel=1e-12)


def test_novelty():
    report = feed(metrics.NoveltyMetrics(), np.array([-1.0, 0.0, 2.0, -3.0]), np.zeros(4), [2])
    assert report == {"rows": 4, "novel": 2, "novel_fraction": 0.5}


@pytest.mark.parametrize("task", ["binary", "regression", "count", "novelty", "ranking", "ordinal"])
def test_no_rows(task):
    scores = metrics.for_task(task, (-1.0, 1.0) if task == "binary" else None, {"k": 3.0}, np.zeros(0, int))
    scores.update(np.zeros(0), np.zeros(0))
    report = scores.report()
    assert report.pop("rows") == 0
    assert all(value is None or value == 0 for value in report.values())


def test_constant_predictions_have_no_correlation():
    report = feed(metrics.RegressionMetrics(), np.ones(4), np.arange(4.0), [])
    assert report["squared_correlation"] is None
    assert report["r2"] == pytest.approx(reference.r2_score(np.arange(4.0), np.ones(4)))


def test_equal_labels_have_no_coefficient_of_determination():
    report = feed(metrics.RegressionMetrics(), np.arange(4.0), np.ones(4), [])
    assert report["r2"] is None
    assert report["squared_correlation"] is None


def test_correlation_of_values_whose_squares_underflow():
    report = feed(metrics.RegressionMetrics(), 1e-100 * np.arange(4.0), 1e-100 * np.arange(4.0), [])
    assert report["squared_correlation"] == pytest.approx(1.0)
    assert report["r2"] == pytest.approx(1.0)
