"""Estimators of `bmrm.reductions` pass scikit-learn's own checks without deriving from its classes."""

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.7")

from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from bmrm.errors import BmrmError, DataError
from bmrm.reductions import MDS, KMeans

DRAWS = "k-means++ draws other rows if rows are repeated, and there are several optima"
OF_KMEANS = {
    "check_sample_weight_equivalence_on_dense_data": DRAWS,
    "check_sample_weight_equivalence_on_sparse_data": DRAWS,
}
OF_GIVEN = {
    "check_positive_only_tag_during_fit": "the diagonal is the first defect of its matrix",
    "check_estimators_nan_inf": "its matrix is not square",
}


def expected(estimator):
    if isinstance(estimator, KMeans):
        return OF_KMEANS
    return OF_GIVEN if estimator.metric == "precomputed" else {}


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that they do not derive from BaseEstimator
    each_check = parametrize_with_checks(
        [MDS(), MDS(metric_mds=False), MDS(metric="precomputed"), KMeans(3, random_state=0)],
        expected_failed_checks=expected,
    )


@pytest.mark.filterwarnings("ignore")  # the checks fit degenerate data
@each_check
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_errors_are_of_both_kinds():
    with pytest.raises(NotFittedError, match="found no fitted model") as caught:
        MDS().transform(np.eye(2))
    assert isinstance(caught.value, BmrmError)
    with pytest.raises(DataError, match="X: found 0 rows") as caught:
        MDS().fit(np.zeros((0, 3)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
