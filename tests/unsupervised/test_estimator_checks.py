"""Estimators of `bmrm.unsupervised` pass scikit-learn's own checks without deriving from its classes."""

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import scipy
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from bmrm import MDS, PCA, GaussianMixture, KernelDensity, KMeans, NearestNeighbors, TruncatedSVD
from bmrm.errors import BmrmError, DataError

ESTIMATORS = [
    MDS(),
    MDS(metric_mds=False),
    MDS(metric="precomputed"),
    KMeans(3, random_state=0),
    GaussianMixture(),
    GaussianMixture(2, covariance_type="diag", random_state=0),
    PCA(),
    PCA(2),
    PCA(1, svd_solver="lanczos", random_state=0),
    TruncatedSVD(),
    TruncatedSVD(1, svd_solver="lanczos", random_state=0),
    KernelDensity(),
    KernelDensity("silverman", kernel="epanechnikov"),
    NearestNeighbors(),
]

DENSE_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
SPARSE_WEIGHTS = "check_sample_weight_equivalence_on_sparse_data"
DRAWS = "k-means++ draws other rows if rows are repeated, and there are several optima"
COUNT = "without n_components there are as many as rows, and repeated rows are more"


def expected(estimator):
    """The checks that an estimator does not pass, and why."""
    if isinstance(estimator, KMeans):
        return dict.fromkeys((DENSE_WEIGHTS, SPARSE_WEIGHTS), DRAWS)
    if isinstance(estimator, PCA) and estimator.n_components is None:
        return dict.fromkeys((DENSE_WEIGHTS, SPARSE_WEIGHTS), COUNT)
    if isinstance(estimator, GaussianMixture) and sklearn.__version__ < "1.7":
        return {SPARSE_WEIGHTS: "the check passes sparse rows although the tags say that it reads none"}
    if isinstance(estimator, MDS) and estimator.metric == "precomputed":
        return {"check_estimators_nan_inf": "NaN is a missing dissimilarity, and the matrix is not square"}
    return {}


def each_check(estimators):
    """Call `parametrize_with_checks`, with a list of values: before 1.7 it is a generator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they do not derive from BaseEstimator
        mark = parametrize_with_checks(estimators, expected_failed_checks=expected)
        names, values = mark.args
        return pytest.mark.parametrize(names, list(values), **mark.kwargs)


@pytest.mark.filterwarnings("ignore")  # the checks fit degenerate data
@each_check(ESTIMATORS)
def test_scikit_learns_checks(estimator, check):
    if "check_array_api" in str(check) and parse_version(scipy.__version__) < parse_version("1.14"):
        pytest.skip("scikit-learn dispatches arrays from SciPy 1.14 on")
    check(estimator)


def test_errors_are_of_both_kinds():
    with pytest.raises(NotFittedError, match="found no fitted model") as caught:
        MDS().transform(np.eye(2))
    assert isinstance(caught.value, BmrmError)
    with pytest.raises(DataError, match="X: found 0 rows") as caught:
        MDS().fit(np.zeros((0, 3)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
