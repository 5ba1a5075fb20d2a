"""Streaming metrics against scikit-learn's, whatever the chunks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from bmrm import metrics

CHUNKS = [[], [50], [1, 1, 70], [30, 60, 90]]


def feed(scores, values, y, cuts):
    for part_values, part_y in zip(np.split(values, cuts), np.split(y, cuts), strict=True):
        scores.update(part_values, part_y)
    return scores.report()


@pytest.mark.parametrize("cuts", CHUNKS)
def test_binary(cuts):
    rng = np.random.default_rng(0)
    y = rng.choice([2.0, 4.0], 100)
    values = np.round(rng.standard_normal(100) + (y - 3), 1)  # rounded: ties matter
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
    auc = metrics.roc_auc(np.array(positive, float), np.array(negative, float))
    assert auc == pytest.approx(np.mean(pairs), rel=1e-12)


def test_auc_in_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    positive, negative = rng.standard_normal(1000), rng.standard_normal(700)
    whole = metrics.roc_auc(positive, negative)
    monkeypatch.setattr(metrics, "_BLOCK", 64)
    assert metrics.roc_auc(positive, negative) == whole


def test_unknown_label_is_wrong_and_outside_the_area():
    scores = metrics.BinaryMetrics((-1.0, 1.0))
    scores.update(np.array([1.0, -1.0, 5.0]), np.array([1.0, -1.0, 3.0]))
    assert scores.report() == {"rows": 3, "correct": 2, "accuracy": 2 / 3, "auc": 1.0}


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
    assert report["r2"] == pytest.approx(np.corrcoef(y, values)[0, 1] ** 2, rel=1e-9)


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


@pytest.mark.parametrize("task", ["binary", "regression", "count", "novelty"])
def test_no_rows(task):
    scores = metrics.for_task(task, (-1.0, 1.0) if task == "binary" else None)
    scores.update(np.zeros(0), np.zeros(0))
    report = scores.report()
    assert report.pop("rows") == 0
    assert all(value is None or value == 0 for value in report.values())


def test_constant_predictions_have_no_correlation():
    report = feed(metrics.RegressionMetrics(), np.ones(4), np.arange(4.0), [])
    assert report["r2"] is None
