"""Data sets that are on a GPU, or the emulator: estimators read their rows in place."""

import numpy as np
import pytest
import scipy.sparse as sp
from devices import gpu, on_device, sized

import bmrm
from bmrm import PCA, GaussianMixture, KMeans
from bmrm.errors import DataError

pytestmark = gpu


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("make", "attribute"),
    [
        (lambda: KMeans(3, random_state=0), "cluster_centers_"),
        (lambda: GaussianMixture(3, random_state=0, max_iter=5), "means_"),
        (lambda: PCA(2), "components_"),
    ],
)
def test_estimators_read_a_dense_data_set_in_place(make, attribute, dtype):
    rng = np.random.default_rng(3)
    n = sized(500, 5000)
    X = (rng.standard_normal((n, 6)) + 4 * rng.integers(0, 3, (n, 1))).astype(dtype)
    weights = rng.random(n)
    data = bmrm.Dataset(X, sample_weight=weights, device="cuda")
    found, expected = make().fit(data), make().fit(on_device(X), sample_weight=weights)
    assert found.placement_.gpu == 0
    np.testing.assert_array_equal(getattr(found, attribute), getattr(expected, attribute))


def test_sparse_data_sets_on_a_gpu_are_refused():
    with pytest.raises(DataError, match="found sparse rows in a data set on cuda"):
        KMeans(2).fit(bmrm.Dataset(sp.csr_array(np.eye(300)), device="cuda"))
