"""Regressors: shapes, counts, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn", minversion="1.6")

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.estimators import BMRMClassifier, BMRMOneClass, BMRMRanker, BMRMRegressor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 4))
Y = X @ [1.0, -2.0, 0.0, 0.5] + 3.0 + 0.1 * RNG.standard_normal(150)


@pytest.mark.parametrize("loss", ["squared", "absolute", "epsilon_insensitive", "huber"])
@pytest.mark.parametrize("make", [np.asarray, sp.csc_array, lambda X: X.astype(np.float32)])
def test_attributes(loss, make):
    found = BMRMRegressor(loss, lam=1e-6).fit(make(X), Y)
    assert found.coef_.shape == (4,)
    assert isinstance(found.intercept_, float)
    assert found.score(make(X), Y) > 0.98
    np.testing.assert_allclose(found.predict(make(X)), X @ found.coef_ + found.intercept_, atol=1e-5)
    assert found.dual_gap_ == found.objective_ - found.lower_bound_
    assert not hasattr(found, "decision_function")


def test_the_core_finds_the_same_bits():
    found = BMRMRegressor("quantile", tau=0.9, C=2.0).fit(X, Y)
    core = bmrm.solve(X, Y, "quantile", tau=0.9, C=2.0, tol=1e-4, fit_intercept=True)
    np.testing.assert_array_equal(found.coef_, core.w)
    assert (found.intercept_, found.objective_) == (core.intercept, core.objective)


def test_counts_are_predicted_by_their_means():
    y = RNG.poisson(np.exp(X[:, 0]))
    found = BMRMRegressor("poisson", lam=1e-4).fit(X, y)
    np.testing.assert_allclose(found.predict(X), np.exp(X @ found.coef_ + found.intercept_))
    with pytest.raises(ValueError, match="poisson"):
        BMRMRegressor("poisson").fit(X, Y - 10.0)


def test_a_warm_start_takes_fewer_passes():
    model = BMRMRegressor("absolute", lam=1e-4, warm_start=True, tol=1e-6).fit(X, Y)
    first = model.n_iter_
    assert model.fit(X, Y).n_iter_ < first


@pytest.mark.parametrize(
    ("options", "data", "text"),
    [
        ({}, (X, np.array(["a", "b"] * 75)), "labels"),
        ({}, (X, np.array(["a", "b"] * 75, object)), "could not convert string"),
        ({}, (X, np.where(Y > 3, np.nan, Y)), "Input y contains NaN"),
        ({}, (X, np.stack([Y, Y], axis=1)), "should be a 1d array"),
        ({"loss": "hinge"}, (X, Y), "loss: found 'hinge', expected one of squared"),
        ({"loss": "quantil"}, (X, Y), "did you mean 'quantile'"),
        ({"loss": "quantile", "tau": 2.0}, (X, Y), "tau"),
        ({"lam": 1.0, "C": 1.0}, (X, Y), "lam, C: found both"),
    ],
)
def test_bad_input_is_a_value_error(options, data, text):
    with pytest.raises(ValueError, match=text):
        BMRMRegressor(**options).fit(*data)


@pytest.mark.parametrize("estimator", [BMRMRegressor(), BMRMClassifier(), BMRMOneClass(), BMRMRanker()])
def test_masked_arrays_are_refused(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 2)), np.arange(20) % 2
    groups = {"groups": np.arange(20) // 10} if isinstance(estimator, BMRMRanker) else {}
    masked, weights = np.ma.array(X, mask=X > 1), np.ma.array(np.ones(20), mask=y == 1)
    fitted = estimator.fit(X, y, **groups)
    for what, call in {
        "X": lambda: estimator.fit(masked, y, **groups),
        "y": lambda: estimator.fit(X, np.ma.array(y, mask=y == 1), **groups),
        "sample_weight": lambda: estimator.fit(X, y, sample_weight=weights, **groups),
        "X of predict": lambda: fitted.predict(masked),
    }.items():
        if what == "y" and isinstance(estimator, BMRMOneClass):
            continue  # it has no labels
        with pytest.raises(DataError, match=f"{what.split()[0]}: found masked values"):
            call()


def test_arguments_of_other_libraries():
    """What changes nothing is taken, and all else gets a suggestion."""
    known = BMRMClassifier(penalty="l2", dual="auto", verbose=0, random_state=None)
    assert known.get_params() == BMRMClassifier().get_params()
    for words, hint in {
        (("penalty", "l1"),): "penalty: no parameter of BMRMClassifier; did you mean 'reg'",
        (("penalty", "l2"), ("reg", "l1")): "penalty: no parameter of BMRMClassifier; did you mean 'reg'",
        (("alpha", 1.0),): "alpha: no parameter of BMRMClassifier; did you mean 'lam'",
        (("max_itr", 5),): "did you mean 'max_iter'",
    }.items():
        with pytest.raises(ParameterError, match=hint):
            BMRMClassifier(**dict(words))
