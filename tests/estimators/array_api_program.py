"""Runs scikit-learn's checks of the array API and some of our own, with SCIPY_ARRAY_API=1 in the environment.

Prints the number of checks that passed with each library.
"""

import json
import sys
import warnings
from collections import Counter
from importlib.util import find_spec
from unittest import SkipTest

import array_api_strict
import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import estimator_checks
from sklearn.utils._array_api import get_namespace

import bmrm.estimators as ours

if find_spec("torch"):
    import torch

GRID = {"lams": (1.0, 0.1), "cv": 3}
ESTIMATORS = [
    ours.BMRMClassifier("logistic"),
    ours.BMRMClassifier("hinge", multi_class="ovr", class_weight="balanced"),
    ours.BMRMRegressor("poisson"),
    ours.BMRMOneClass(),
    ours.BMRMRanker(),
    ours.BMRMClassifierCV("logistic", calibration="platt", **GRID),
    ours.BMRMRegressorCV(**GRID),
]


def checks():
    """scikit-learn's, with the libraries that are installed."""
    passed = Counter()
    libraries = [("array_api_strict", None)] + [("torch", "cpu")] * bool(find_spec("torch"))
    for estimator in ESTIMATORS:
        name = type(estimator).__name__
        for library, device in libraries:
            # Before 1.7 accuracies of tensors are computed in float32.
            values = library != "torch" or sklearn.__version__ >= "1.7"
            estimator_checks.check_array_api_input(name, estimator, library, device, check_values=values)
            passed[library] += 1
        for check in estimator_checks._yield_array_api_checks(estimator):
            try:
                check(name, estimator)
            except SkipTest:
                continue
            passed["all"] += 1
    return passed


def data(classes, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 5)).astype(dtype)
    return X, (X[:, :classes] + 0.3 * rng.standard_normal((90, classes))).argmax(axis=1)


def converters():
    yield array_api_strict.asarray
    if find_spec("torch"):
        yield torch.asarray


def labels_and_results(convert):
    """Labels keep their type, results are those of NumPy's arrays and belong to the library of X."""
    for dtype in (np.float64, np.float32):
        for classes, multi_class in ((2, "joint"), (3, "joint"), (3, "ovr")):
            X, y = data(classes, dtype)
            weights = np.arange(90.0)
            wanted = ours.BMRMClassifier("logistic", multi_class=multi_class).fit(X, y, weights)
            found = clone(wanted).fit(convert(X), convert(y), convert(weights))
            xp = get_namespace(convert(X))[0]
            assert get_namespace(found.coef_)[0] is xp
            np.testing.assert_array_equal(np.asarray(found.coef_), wanted.coef_)
            for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
                result = getattr(found, method)(convert(X))
                assert get_namespace(result)[0] is xp
                np.testing.assert_array_equal(np.asarray(result), getattr(wanted, method)(X))
            named = clone(wanted).fit(convert(X), np.array(["a", "b", "c"])[y], weights)
            assert named.predict(convert(X)).tolist() == [str("abc"[k]) for k in wanted.predict(X)]
            assert accuracy_score(convert(y), found.predict(convert(X))) > 0.7


def other_inputs():
    """While the dispatch is on, NumPy's arrays, lists and sparse matrices are what they were."""
    X, y = data(2)
    wanted = ours.BMRMClassifier().fit(X, y)
    lists = [X.tolist()] if sklearn.__version__ >= "1.7" else []  # before, no list passes its validation
    for A in (X, sp.csr_array(X), *lists):
        found = ours.BMRMClassifier().fit(A, y)
        assert isinstance(found.coef_, np.ndarray)
        assert isinstance(found.predict(A), np.ndarray)
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6)
    groups = np.arange(90) // 9
    ranked = [ours.BMRMRanker().fit(X, y, groups=each) for each in (groups, array_api_strict.asarray(groups))]
    np.testing.assert_array_equal(ranked[0].coef_, ranked[1].coef_)
    score = ranked[0].score(X, array_api_strict.asarray(y), groups=array_api_strict.asarray(groups))
    assert score == ranked[0].score(X, y, groups=groups)


def main():
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ConvergenceWarning)
    passed = checks()
    with sklearn.config_context(array_api_dispatch=True):
        for convert in converters():
            labels_and_results(convert)
        other_inputs()
    json.dump(passed, sys.stdout)


if __name__ == "__main__":
    main()
