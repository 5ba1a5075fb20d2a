"""Every estimator passes scikit-learn's own checks."""

import pytest

pytest.importorskip("sklearn", minversion="1.6")

import scipy
import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from bmrm.estimators import (
    BMRMClassifier,
    BMRMClassifierCV,
    BMRMOneClass,
    BMRMRanker,
    BMRMRegressor,
    BMRMRegressorCV,
)

# The checks ask for predictions that are equal to seven digits, and convex data are soon out of digits.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning"
)

FINE = {"tol": 1e-10}
GRID = {"lams": (1.0, 0.01), "cv": 3}

ESTIMATORS = [
    BMRMClassifier("hinge", **FINE),
    BMRMClassifier("squared_hinge", **FINE),
    BMRMClassifier("logistic", **FINE),
    BMRMClassifier("logistic", multi_class="ovr", **FINE),
    BMRMRegressor("squared", **FINE),
    BMRMRegressor("quantile", **FINE),
    BMRMRegressor("huber", **FINE),
    BMRMRegressor("poisson", **FINE),
    BMRMOneClass(**FINE),
    BMRMRanker(**FINE),
    BMRMClassifierCV("logistic", **FINE, **GRID),
    BMRMRegressorCV(**FINE, **GRID),
]

AT_THE_DEFAULT_TOL = [BMRMClassifier(), BMRMRegressor(), BMRMOneClass(), BMRMRanker()]

SPARSE_WEIGHTS = "check_sample_weight_equivalence_on_sparse_data"
DENSE_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
EXPECTED_FAILED_CHECKS = {
    SPARSE_WEIGHTS: "weights and repeated rows agree to within tol, and the check asks for seven digits"
}
"""At the default tol; docs/estimators.md says the same."""


def expected_at_the_default_tol(estimator):
    if isinstance(estimator, BMRMRanker):  # few kinks pin the solution down
        return {}
    if isinstance(estimator, BMRMClassifier):  # the ascent for three classes ends anywhere within tol
        return EXPECTED_FAILED_CHECKS | {DENSE_WEIGHTS: EXPECTED_FAILED_CHECKS[SPARSE_WEIGHTS]}
    return EXPECTED_FAILED_CHECKS


def expected_of_old_checks(estimator):
    """Before 1.7 the check gives weighted and repeated rows of two classes different labels."""
    of_classes = estimator.__sklearn_tags__().classifier_tags
    if sklearn.__version__ >= "1.7" or of_classes is None or of_classes.multi_class:
        return {}
    return dict.fromkeys((SPARSE_WEIGHTS, DENSE_WEIGHTS), "the check mixes up the labels")


def each_check(estimators, expected):
    """Call `parametrize_with_checks`, with a list of values: before 1.7 it is a generator."""
    mark = parametrize_with_checks(estimators, expected_failed_checks=expected)
    names, values = mark.args
    return pytest.mark.parametrize(names, list(values), **mark.kwargs)


def skip_if_scipy_is_old(check):
    if "check_array_api" in str(check) and parse_version(scipy.__version__) < parse_version("1.14"):
        pytest.skip("scikit-learn dispatches arrays from SciPy 1.14 on")


@each_check(ESTIMATORS, expected_of_old_checks)
def test_at_a_fine_tol(estimator, check):
    skip_if_scipy_is_old(check)
    check(estimator)


@each_check(AT_THE_DEFAULT_TOL, expected_at_the_default_tol)
def test_at_the_default_tol(estimator, check):
    skip_if_scipy_is_old(check)
    check(estimator)


def test_few_checks_are_expected_to_fail():
    assert len(EXPECTED_FAILED_CHECKS) <= 5
