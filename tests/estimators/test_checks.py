"""Every estimator passes scikit-learn's own checks."""

import pytest

pytest.importorskip("sklearn", minversion="1.6")

import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks

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

GRID = {"lams": (3.0, 1.0), "cv": 2}

ESTIMATORS = [
    BMRMClassifier(),
    BMRMRegressor(),
    BMRMOneClass(),
    BMRMRanker(),
    BMRMClassifierCV("squared_hinge", **GRID),
    BMRMRegressorCV(**GRID),
]

FINE = {"tol": 1e-10}

AT_A_FINE_TOL = [
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

OF_ARRAYS = "check_array_api"
"""How the checks begin that `array_api_program.py` runs, where they are not skipped."""
OF_RESULTS = (
    "check_class", "check_dtype_object", "check_estimator_sparse", "check_estimators_dtypes",
    "check_fit2d", "check_fit_idempotent", "check_methods", "check_outliers", "check_regressor",
    "check_sample_weight_equivalence", "check_supervised_y_2d",
)  # fmt: skip
"""How the checks begin that compare results, which depend on the loss and on tol; the others do not."""

SPARSE_WEIGHTS = "check_sample_weight_equivalence_on_sparse_data"
DENSE_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
EXPECTED_FAILED_CHECKS = {
    SPARSE_WEIGHTS: "weights and repeated rows agree to within tol, and the check asks for seven digits"
}
"""At the default tol; docs/estimators.md says the same."""


def expected_at_the_default_tol(estimator):
    old = expected_of_old_checks(estimator)
    # Few kinks pin a ranker's solution down; the data of the check do that for the lams of GRID.
    if isinstance(estimator, BMRMRanker | BMRMClassifierCV | BMRMRegressorCV):
        return old
    if isinstance(estimator, BMRMClassifier):  # the ascent for three classes ends anywhere within tol
        return old | EXPECTED_FAILED_CHECKS | {DENSE_WEIGHTS: EXPECTED_FAILED_CHECKS[SPARSE_WEIGHTS]}
    return old | EXPECTED_FAILED_CHECKS


def expected_of_old_checks(estimator):
    """Before 1.7 the check gives weighted and repeated rows of two classes different labels."""
    of_classes = estimator.__sklearn_tags__().classifier_tags
    if sklearn.__version__ >= "1.7" or of_classes is None or of_classes.multi_class:
        return {}
    return dict.fromkeys((SPARSE_WEIGHTS, DENSE_WEIGHTS), "the check mixes up the labels")


def each_check(estimators, expected, wanted):
    """Call `parametrize_with_checks`, and keep the checks with names that are wanted."""
    mark = parametrize_with_checks(estimators, expected_failed_checks=expected)
    names, values = mark.args
    pairs = [(getattr(value, "values", value), value) for value in values]
    kept = [value for (_, check), value in pairs if wanted(check.func.__name__)]
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


@each_check(ESTIMATORS, expected_at_the_default_tol, lambda name: not name.startswith(OF_ARRAYS))
def test_at_the_default_tol(estimator, check):
    check(estimator)


@each_check(AT_A_FINE_TOL, expected_of_old_checks, lambda name: name.startswith(OF_RESULTS))
def test_at_a_fine_tol(estimator, check):
    check(estimator)


def test_few_checks_are_expected_to_fail():
    assert len(EXPECTED_FAILED_CHECKS) <= 5
