"""Where the page says that an estimator of scikit-learn can be swapped, both find the same minimum."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn import linear_model, svm

from bmrm import estimators

ROOT = Path(__file__).parents[2]
PEERS = {name: getattr(module, name) for module in (svm, linear_model) for name in module.__all__}
OURS = {name: getattr(estimators, name) for name in estimators.__all__}
FUNCTIONS = {name: getattr(np, name) for name in ("abs", "exp", "log1p", "maximum")}
VALUES = {"C": 0.5, "alpha": 0.05, "q": 0.7, "r": 0.3, "e": 0.2}

TIGHT = {
    "LinearSVC": {"tol": 1e-10, "max_iter": 1_000_000, "random_state": 0},
    "LinearSVR": {"tol": 1e-10, "max_iter": 1_000_000, "random_state": 0},
    "LogisticRegression": {"tol": 1e-10, "solver": "newton-cholesky"},
    "Ridge": {},
    "Lasso": {"tol": 1e-14, "max_iter": 1_000_000},
    "ElasticNet": {"tol": 1e-14, "max_iter": 1_000_000},
    "QuantileRegressor": {},
    "PoissonRegressor": {"tol": 1e-10, "solver": "newton-cholesky"},
}
"""The tightest options of each peer."""


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        return importlib.import_module("estimators_tables")


SWAPS = range(9)


@pytest.mark.parametrize("number", SWAPS)
def test_both_find_the_same_minimum(number, tables):
    swap = tables.SWAPS[number]
    rng = np.random.default_rng(number)
    X = rng.standard_normal((120, 6))
    z = X @ rng.standard_normal(6) + rng.standard_normal(120) + 0.5
    n, name = len(X), swap.peer.partition("(")[0]
    classes = "Classifier" in swap.ours
    y = (
        np.where(z > 0.0, 1.0, -1.0)
        if classes
        else rng.poisson(np.exp(0.3 * z)) + 0.0
        if "poisson" in swap.ours
        else z
    )
    known = {**VALUES, "n": n}
    peer = eval(swap.peer, PEERS | known).set_params(**TIGHT[name]).fit(X, y)
    ours = eval(swap.ours, OURS | known).set_params(tol=1e-10).fit(X, y)
    found = []
    for model in (peer, ours):
        w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        found.append(eval(swap.objective, FUNCTIONS | known | {"w": w, "b": b, "u": X @ w + b, "y": y}))
    assert ours.status_ == "converged"
    assert math.isclose(*found, rel_tol=1e-6)
    if swap.strictly_convex:
        np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-4 * np.abs(peer.coef_).max())
        np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-4 * np.abs(peer.coef_).max())
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-3, atol=1e-3)


def test_all_swaps_are_tested(tables):
    assert list(SWAPS) == list(range(len(tables.SWAPS)))


def test_the_tables_of_the_page_are_what_was_tested(tables):
    text = tables.PAGE.read_text()
    assert text == tables.page(text)


def test_names_and_defaults_of_the_prefix_are_kept():
    """A script that changes import, name and tol prints the same numbers."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 5))
    y = np.where(X[:, 0] + rng.standard_normal(200) > 0, "yes", "no")
    old = linear_model.LogisticRegression(C=2.0, tol=1e-10, solver="newton-cholesky").fit(X, y)
    new = estimators.BMRMClassifier("logistic", C=2.0, tol=1e-10).fit(X, y)
    for name in ("predict", "predict_proba", "decision_function"):
        a, b = getattr(old, name)(X), getattr(new, name)(X)
        assert (a == b).all() if a.dtype.kind == "U" else np.allclose(a, b, atol=1e-6)
    assert old.coef_.shape == new.coef_.shape
    assert old.intercept_.shape == new.intercept_.shape
    assert old.score(X, y) == new.score(X, y)
