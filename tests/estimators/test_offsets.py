"""Offsets of the estimators: those of the core, under scikit-learn's names."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

import sklearn
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.estimators import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMOneClass,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 4))
OFFSET = RNG.standard_normal(90)
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0] + OFFSET))
CLASSES = np.where(X[:, 0] + RNG.standard_normal(90) > 0, "a", "b")
THREE = RNG.integers(0, 3, 90)


def test_a_regressor_of_rates_is_that_of_the_core():
    rate = BMRMRegressor("poisson", lam=0.1, tol=1e-8).fit(X, COUNTS, offset=OFFSET)
    core = bmrm.solve(
        X, COUNTS, loss="poisson", lam=0.1, tol=1e-8, fit_intercept=True, offset=OFFSET, device="cpu"
    )
    np.testing.assert_allclose(rate.coef_, core.w, atol=1e-5)
    np.testing.assert_allclose(rate.predict(X, offset=OFFSET), core.predict(X, offset=OFFSET), rtol=1e-4)
    assert rate.model_.has_offset
    assert rate.score(X, COUNTS, offset=OFFSET) > rate.score(X, COUNTS, offset=0)
    for method in (rate.predict, lambda X: rate.score(X, COUNTS)):
        with pytest.raises(ParameterError, match=r"^offset: found none for a model trained with offsets"):
            method(X)


@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
def test_a_classifier_adds_them_to_its_values(multi_class):
    two = BMRMClassifier("logistic", lam=0.1).fit(X, CLASSES, offset=OFFSET)
    np.testing.assert_allclose(
        two.decision_function(X, OFFSET), (X @ two.coef_.T + two.intercept_)[:, 0] + OFFSET
    )
    np.testing.assert_allclose(two.predict_proba(X, OFFSET).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(two.predict_log_proba(X, OFFSET)), two.predict_proba(X, OFFSET))
    assert two.score(X, CLASSES, offset=OFFSET) == np.mean(two.predict(X, OFFSET) == CLASSES)
    given = OFFSET if multi_class == "ovr" else np.outer(OFFSET, [1.0, 0.0, -1.0])
    three = BMRMClassifier("logistic", lam=0.1, multi_class=multi_class).fit(X, THREE, offset=given)
    each = given[:, None] if multi_class == "ovr" else given
    np.testing.assert_allclose(three.decision_function(X, given), X @ three.coef_.T + three.intercept_ + each)
    assert three.predict_proba(X, given).shape == (90, 3)
    if multi_class == "joint":
        with pytest.raises(DataError, match="one number per row shifts all classes alike"):
            BMRMClassifier("logistic", lam=0.1).fit(X, THREE, offset=OFFSET)


def test_searches_rankers_and_detectors_take_them():
    search = BMRMRegressorCV("poisson", lams=[1.0, 0.1], cv=3).fit(X, COUNTS, offset=OFFSET)
    assert search.predict(X, OFFSET).shape == (90,)
    found = BMRMClassifierCV("hinge", lams=[1.0, 0.1], cv=3, calibration="platt").fit(
        X, CLASSES, None, OFFSET
    )
    assert found.predict_proba(X, OFFSET).shape == (90, 2)
    groups = np.arange(90) // 9
    ranker = BMRMRanker(lam=0.1).fit(X, THREE, offset=OFFSET, groups=groups)
    np.testing.assert_allclose(ranker.predict(X, OFFSET), X @ ranker.coef_ + OFFSET)
    assert 0.0 < ranker.score(X, THREE, offset=OFFSET, groups=groups) <= 1.0
    detector = BMRMOneClass().fit(X, offset=OFFSET)
    values = (X @ detector.coef_.T)[:, 0] + OFFSET
    np.testing.assert_allclose(detector.score_samples(X, OFFSET), values)
    np.testing.assert_allclose(detector.decision_function(X, OFFSET), values - detector.offset_)
    assert set(detector.predict(X, OFFSET)) <= {-1, 1}


def test_offsets_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        rate = BMRMRegressor("poisson", lam=0.1)
        for method in ("fit", "predict", "score"):
            rate = getattr(rate, f"set_{method}_request")(offset=True)
        scores = cross_validate(make_pipeline(StandardScaler(), rate), X, COUNTS, params={"offset": OFFSET})
    assert np.isfinite(scores["test_score"]).all()


def test_bad_offsets():
    for bad, line in ((OFFSET[:-1], r"found shape \(89,\)"), (np.full(90, np.nan), "row 1 has nan")):
        with pytest.raises(ValueError, match=line):
            BMRMRegressor().fit(X, COUNTS, offset=bad)
    with pytest.raises(DataError, match="found masked values"):
        BMRMRegressor().fit(X, COUNTS, offset=np.ma.masked_less(OFFSET, 0.0))
    with pytest.raises(DataError, match="found complex numbers"):
        BMRMRegressor().fit(X, COUNTS, offset=OFFSET + 1j)
