"""Estimators say how much memory they need, before they need it."""

import numpy as np
import pytest
import scipy.sparse as sp

from bmrm import PCA, GaussianMixture, KMeans, TruncatedSVD
from bmrm.errors import HostMemoryError

WIDE = sp.csr_array((1000, 2_000_000_000))
MANY = np.broadcast_to(np.zeros((1, 2)), (2_000_000, 2))


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda: KMeans.of_centers(np.zeros((1_000_000, 2))).transform(MANY), "for the distances, "),
        (lambda: KMeans(900, random_state=0).fit(WIDE), "for the centres and their sums, "),
        (lambda: GaussianMixture(2000).fit(np.zeros((2000, 3000))), "for the covariances, "),
        (lambda: PCA(2, svd_solver="covariance_eigh").fit(WIDE), "for the covariance matrix and its eig"),
        (lambda: PCA(0.5).fit(WIDE), "for the covariance matrix and its eigenvectors, "),
        (lambda: TruncatedSVD(900, svd_solver="lanczos").fit(WIDE), "for the vectors of the decomposition, "),
        (lambda: TruncatedSVD(900, svd_solver="randomized").fit(WIDE), "for the vectors of the decomp"),
    ],
    ids=["distances", "centres", "mixture", "eigh", "share", "lanczos", "randomized"],
)
def test_what_does_not_fit_is_refused_at_once(run, text):
    with pytest.raises(HostMemoryError, match=r"out of memory: needs .* GB ") as caught:
        run()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
