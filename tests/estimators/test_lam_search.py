"""lam by cross validation: splits, scores, calibration."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

import bmrm
from bmrm.errors import ParameterError
from bmrm.estimators import BMRMClassifier, BMRMClassifierCV, BMRMRegressor, BMRMRegressorCV

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 5))
SCORE = X[:, 0] - X[:, 1] + RNG.standard_normal(200)
Y = np.where(SCORE > 0, "yes", "no")
LAMS = [0.03, 1.0, 0.3]


@pytest.mark.parametrize(
    "cv", [StratifiedKFold(4), StratifiedKFold(3, shuffle=True, random_state=1), KFold(5)]
)
def test_splits_are_scored_as_a_grid_search_does(cv):
    found = BMRMClassifierCV("logistic", lams=LAMS, cv=cv, tol=1e-8).fit(X, Y)
    search = GridSearchCV(BMRMClassifier("logistic", tol=1e-8), {"lam": LAMS}, cv=cv).fit(X, Y)
    folds = cv.get_n_splits()
    theirs = np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(folds)], axis=1)
    np.testing.assert_allclose(found.scores_, theirs)
    assert found.lams_.tolist() == LAMS
    best = search.cv_results_["mean_test_score"].max()
    assert found.scores_.mean(axis=1)[LAMS.index(found.lam_)] == pytest.approx(best)
    alone = BMRMClassifier("logistic", lam=found.lam_, tol=1e-8).fit(X, Y)
    np.testing.assert_allclose(found.coef_, alone.coef_, atol=1e-3)


def test_regressors_are_scored_by_errors():
    cv = KFold(4)
    found = BMRMRegressorCV(lams=LAMS, cv=cv, tol=1e-8, scoring="neg_mean_absolute_error").fit(X, SCORE)
    search = GridSearchCV(
        BMRMRegressor(tol=1e-8), {"lam": LAMS}, cv=cv, scoring="neg_mean_absolute_error"
    ).fit(X, SCORE)
    np.testing.assert_allclose(found.scores_.mean(axis=1), -search.cv_results_["mean_test_score"], rtol=1e-4)
    assert found.lam_ == search.best_params_["lam"]


def test_a_number_of_folds_is_the_selection_of_the_core():
    found = BMRMClassifierCV(lams=LAMS, cv=4, random_state=3).fit(X, Y)
    core = bmrm.select(
        X, (Y == "yes").astype(float), LAMS, 4, seed=3, tol=1e-4, fit_intercept=True, penalize_intercept=True
    )
    np.testing.assert_array_equal(found.scores_, core.scores)
    np.testing.assert_array_equal(found.coef_[0], core.result.w)
    assert found.lam_ == core.lam
    assert found.n_iter_ == core.result.n_iter + sum(r.n_iter for v in core.validations for r in v.results)


def test_groups_are_not_split():
    groups = RNG.integers(0, 9, 200)
    by_number = BMRMClassifierCV(lams=LAMS, cv=3).fit(X, Y, groups=groups)
    by_splits = BMRMClassifierCV(lams=LAMS, cv=GroupKFold(3)).fit(X, Y, groups=groups)
    assert by_number.scores_.shape == by_splits.scores_.shape == (3, 3)


@pytest.mark.parametrize("scoring", ["roc_auc", "f1_macro", "accuracy", None])
def test_names_of_scores(scoring):
    several = scoring == "f1_macro"
    y = np.digitize(SCORE, [-1, 1]) if several else Y
    found = BMRMClassifierCV(lams=LAMS, cv=3, scoring=scoring).fit(X, y)
    assert ((found.scores_ > 0.5) & (found.scores_ < 1.0)).all()
    assert found.coef_.shape == ((3, 5) if several else (1, 5))


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_calibrated_probabilities(method):
    found = BMRMClassifierCV(lams=LAMS, cv=3, calibration=method).fit(X, Y)
    p = found.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert ((p[:, 1] > 0.5) == (SCORE > 0)).mean() > 0.7
    assert not hasattr(BMRMClassifierCV(), "predict_proba")


def test_random_states():
    one, other = (BMRMClassifierCV(lams=[1.0], random_state=np.random.RandomState(5)).fit(X, Y) for _ in "ab")
    np.testing.assert_array_equal(one.scores_, other.scores_)


def test_solves_that_have_not_converged_are_counted():
    with pytest.warns(ConvergenceWarning, match="of 7 solves ended with status max_iter"):
        BMRMClassifierCV(lams=[1e-5, 1e-6], cv=3, max_iter=2, tol=1e-9).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cv": ShuffleSplit(3, test_size=0.5, random_state=0)}, "GridSearchCV takes any"),
        ({"cv": TimeSeriesSplit(3)}, "GridSearchCV takes any"),
        ({"cv": [(np.arange(100), np.arange(100, 200))]}, "no split tests row 1"),
        ({"cv": 1}, "folds"),
        ({"cv": 1000}, "folds"),
        ({"scoring": "r2"}, "metric: found 'r2'"),
        ({"rule": "worst"}, "rule"),
        ({"lams": []}, "lams"),
        ({"calibration": "beta"}, "calibration"),
    ],
)
def test_bad_input(options, text):
    with pytest.raises(ParameterError, match=text):
        BMRMClassifierCV(**{"lams": [1.0], **options}).fit(X, Y)
