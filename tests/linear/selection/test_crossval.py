"""Cross validation by weights is cross validation by subsets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.linear.selection.cross_validation import cross_validate
from bmrm.linear.selection.folds import deal


def problem(rows=90, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(rows) < 0.3, 5.0, 2.0)
    return rng.standard_normal((rows, 4)) + (y - 3.5)[:, None] * 0.4, y


@given(
    labels=st.lists(st.sampled_from([-1.0, 1.0]), min_size=4, max_size=60),
    folds=st.integers(2, 4),
    seed=st.integers(0, 3),
)
def test_folds_are_even_in_rows_and_classes(labels, folds, seed):
    y = np.array(labels)
    fold_of = deal(y, len(y), folds, seed).fold_of
    for rows in (np.ones(len(y), bool), y > 0, y < 0):
        counts = np.bincount(fold_of[rows], minlength=folds)
        assert counts.max() - counts.min() <= 1
    assert (deal(y, len(y), folds, seed).fold_of == fold_of).all()


def test_groups_stay_together():
    X, y = problem()
    groups = np.random.default_rng(1).integers(0, 12, 90)
    found = cross_validate(bmrm.Dataset(X, y, groups=groups), 4, loss="pairwise", lam=0.1)
    numbers = np.unique(groups, return_inverse=True)[1]
    fold_of = deal(None, 12, 4, 0).fold_of[numbers]
    for fold, result in enumerate(found.results):
        rest = fold_of != fold
        alone = bmrm.solve(X[rest], y[rest], "pairwise", groups=groups[rest], lam=0.1)
        assert result.lower_bound <= alone.objective + 1e-12
        assert alone.lower_bound <= result.objective + 1e-12
        np.testing.assert_allclose(found.values[~rest], X[~rest] @ result.w, rtol=1e-12)
    assert found.metrics["groups"] == 12
    assert 0 < found.metrics["pairwise_error"] < 0.5


def test_more_folds_than_groups():
    X, y = problem()
    with pytest.raises(ParameterError, match="folds: found 3, expected 2 to the number of groups, 2"):
        cross_validate(bmrm.Dataset(X, y, groups=np.arange(90) % 2), 3, loss="hinge")


@pytest.mark.parametrize(
    ("loss", "params"), [("roc_area", {}), ("f_beta", {"beta": 2.0}), ("precision_at_k", {"k": 0.1})]
)
def test_measures_of_the_rows_that_are_left(loss, params):
    X, y = problem()
    found = cross_validate(bmrm.Dataset(X, y), 3, loss=loss, lam=0.01, **params)
    fold_of = deal(np.where(y > 3, 1.0, -1.0), 90, 3, 0).fold_of
    for fold, result in enumerate(found.results):
        rest = fold_of != fold
        alone = bmrm.solve(X[rest], y[rest], loss, lam=0.01, **params)
        assert result.lower_bound <= alone.objective + 1e-12
        assert alone.lower_bound <= result.objective + 1e-12
    assert found.metrics["auc"] > 0.6


def test_ordered_classes_are_judged_by_the_thresholds_of_their_fold():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 3))
    y = np.digitize(X @ [1.0, 2.0, -1.0], [-1.0, 1.5]).astype(float)
    found = cross_validate(bmrm.Dataset(X, y), 3, loss="ordinal", lam=1e-3)
    fold_of = deal(y, 120, 3, 0).fold_of
    predicted = np.empty(120)
    for fold, result in enumerate(found.results):
        predicted[fold_of == fold] = result.predict(X[fold_of == fold])
    assert found.metrics["accuracy"] == np.mean(predicted == y) > 0.85


def test_the_shuffle_follows_the_seed():
    assert (deal(None, 100, 5, 0).fold_of != deal(None, 100, 5, 1).fold_of).any()


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_fold_is_trained_on_the_others(loss, weighted):
    X, y = problem()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    data = bmrm.Dataset(X, y, sample_weight=weights if weighted else None)
    found = cross_validate(data, 3, loss=loss, lam=0.1, tol=1e-9)
    fold_of = deal(y if loss == "logistic" else None, len(y), 3, 0).fold_of
    for fold, result in enumerate(found.results):
        rest = fold_of != fold
        alone = bmrm.solve(X[rest], y[rest], loss=loss, lam=0.1, tol=1e-9, sample_weight=weights[rest])
        assert result.objective == pytest.approx(alone.objective, rel=1e-8)
        np.testing.assert_allclose(found.values[~rest], alone.decision_function(X[~rest]), atol=1e-3)


def test_cost_counts_the_rows_trained_on():
    X, y = problem()
    found = cross_validate(bmrm.Dataset(X, y), 3, C=0.5)
    assert [result.lam for result in found.results] == pytest.approx([1 / (0.5 * 60)] * 3)


def test_metrics_are_of_the_values():
    X, y = problem()
    found = cross_validate(bmrm.Dataset(X, y), 5, lam=0.1)
    assert found.metrics["rows"] == 90
    assert found.metrics["accuracy"] == np.mean((found.values > 0) == (y == 5.0))


def test_novelty_needs_no_labels():
    X, _ = problem()
    found = cross_validate(bmrm.Dataset(X + 3.0), 3, loss="novelty", nu=0.2, lam=0.1)
    assert 0 < found.metrics["novel_fraction"] < 0.6


def test_the_data_stays_as_it_was():
    X, y = problem()
    data = bmrm.Dataset(X, y)
    cross_validate(data, 3, lam=0.1)
    assert data.weights is None


@pytest.mark.parametrize("folds", [0, 1, 91])
def test_folds_out_of_range(folds):
    X, y = problem()
    with pytest.raises(ParameterError, match=f"found {folds}"):
        cross_validate(bmrm.Dataset(X, y), folds)


def test_too_few_rows_of_positive_weight():
    X, _ = problem()
    weights = np.zeros(90)
    weights[:2] = 1.0
    with pytest.raises(
        ParameterError, match="found 3, expected 2 to the number of rows of positive weight, 2"
    ):
        cross_validate(bmrm.Dataset(X, X[:, 0], sample_weight=weights), 3, loss="squared")
    with pytest.raises(DataError, match=r"found one label \(True\) in the rows of positive weight"):
        cross_validate(bmrm.Dataset(X, np.arange(90) < 2, sample_weight=weights), 2)


def test_an_interrupt_ends_all_folds():
    X, y = problem()
    with pytest.raises(KeyboardInterrupt):
        cross_validate(bmrm.Dataset(X, y), 3, callback=lambda state: True)


@pytest.mark.parametrize("loss", ["multiclass", "softmax"])
def test_several_margins_and_several_cuts_per_pass(loss):
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 3
    data = bmrm.Dataset(X, y)
    found = cross_validate(data, 2, loss=loss, lam=0.1, cuts_per_pass=2)
    for fold, result in enumerate(found.results):
        rows = deal(y.astype(float), 60, 2, 0).fold_of != fold
        alone = bmrm.solve(X[rows], y[rows], loss=loss, lam=0.1)
        assert result.lower_bound <= alone.objective
        assert alone.lower_bound <= result.objective


@pytest.mark.parametrize("seed", [-1, 0.5, None, "a"])
def test_an_invalid_seed(seed):
    with pytest.raises(ParameterError, match="seed: found"):
        cross_validate(bmrm.Dataset(np.eye(4), [1, -1, 1, -1]), 2, lam=0.1, seed=seed)
