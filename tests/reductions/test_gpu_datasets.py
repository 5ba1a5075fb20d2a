"""Data sets that are on a GPU: reductions read their rows in place."""

import numpy as np
import pytest
import scipy.sparse as sp
from programs import CASES, covariance

import bmrm
from bmrm.errors import BmrmError
from bmrm.formulas.gpu import nvrtc
from bmrm.matrix.gpu.devices import gpu


def compiles():
    try:
        return nvrtc.load_nvrtc() is not None
    except BmrmError:
        return False


pytestmark = pytest.mark.skipif(gpu() is None or not compiles(), reason="there is no GPU, or no NVRTC")


@pytest.fixture(params=[np.float32, np.float64])
def rows(request):
    rng = np.random.default_rng(3)
    X = (rng.standard_normal((5000, 6)) + 4 * rng.integers(0, 3, (5000, 1))).astype(request.param)
    return X, rng.random(5000)


def test_reductions_read_a_dense_data_set_in_place(rows):
    X, _ = rows
    data, shift = bmrm.Dataset(X, device="cuda"), X.mean(axis=0)
    for mine, theirs in zip(
        covariance(data, shift=shift), covariance(X, shift=shift, device="cuda"), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_rows_of_a_data_set_in_main_memory_stay_on_the_gpu(rows):
    X, _ = rows
    for given in (X, sp.csr_array(X * (X > 4))):
        data = bmrm.Dataset(given, device="cpu")
        case, rng = CASES["logistic gradient"], np.random.default_rng(0)
        words = case.arguments(rng, X)
        expected = case.reduction(given, **words, device="cuda")
        for _ in range(2):
            for mine, theirs in zip(case.reduction(data, **words, device="cuda"), expected, strict=True):
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("columns", [6, 100, 3000])
def test_reductions_read_a_sparse_data_set_in_its_format(columns, density):
    rng = np.random.default_rng(4)
    X = sp.random_array((5000, columns), density=density, format="csr", rng=rng, dtype=np.float32)
    case = CASES["logistic gradient"]
    words = case.arguments(rng, X.toarray())
    data = bmrm.Dataset(X, device="cuda")
    expected = case.reduction(X, **words, device="cuda")
    for _ in range(2):
        for mine, theirs in zip(case.reduction(data, **words), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
