"""Gram matrices on a GPU or the emulator, against NumPy and exact sums, and what is made of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from devices import cuda, gpu, on_device, sized

from bmrm import PCA, KMeans, TruncatedSVD
from bmrm.distributed import blocks
from bmrm.distributed.row_set import SAMPLED_ROWS
from bmrm.errors import DataError, ParameterError
from bmrm.unsupervised.clusters import lower_bounds
from bmrm.unsupervised.clusters.lower_bounds import bound_by_spectrum
from bmrm.unsupervised.decomposition import gpu as gram
from bmrm.unsupervised.decomposition.scatter import rounding_bound

pytestmark = gpu

SIZES = ((1, 1), (9, 3), (700, 8), (300, 16), (131, 24), (130, 32), (77, 64), (100, 48), (90, 70), (65, 96))
GPU_SIZES = ((300_001, 64), (100_000, 64), (50_000, 33), (20_000, 257), (3_000, 1024))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_is_numpys_and_has_the_same_bits_on_any_grid(dtype):
    for n, d in sized(SIZES, (*SIZES, *GPU_SIZES)):
        rng = np.random.default_rng(n + d)
        X, shift = (rng.normal(size=(n, d)) + 5).astype(dtype), rng.normal(size=d) + 5
        for weights in (None, rng.random(n)):
            w = np.ones(n) if weights is None else weights
            rows = cuda.DenseRows(X, weights)
            matrix, totals = rows.gram(shift)
            for grid in (0, 1, 3):
                again = rows.gram(shift, grid=grid)
                assert np.array_equal(again[0], matrix)
                assert np.array_equal(again[1], totals)
            E = X.astype(float) - shift
            expected = (E * w[:, None]).T @ E
            size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
            allowed = rounding_bound(n + cuda.count_gram_additions(n, d) + 4)
            assert (np.abs(matrix - expected) <= allowed * size).all(), (n, d)
            assert (np.abs(totals - w @ E) <= allowed * (w @ np.abs(E))).all(), (n, d)
            assert np.array_equal(matrix, matrix.T)


def test_the_error_is_within_the_bound_of_exact_sums():
    rng = np.random.default_rng(5)
    for n, d, dtype in ((500, 3, np.float32), (300, 9, np.float64)):
        X, shift = (1e4 * rng.normal(size=(n, d)) + 1e6).astype(dtype), np.full(d, 1e6)
        matrix, _ = cuda.DenseRows(X).gram(shift)
        rows = [[Fraction(float(v)) - Fraction(s) for v, s in zip(row, shift, strict=True)] for row in X]
        # one rounding of x - shift each, one of the product
        bound = rounding_bound(cuda.count_gram_additions(n, d) + 3)
        for f in range(d):
            for h in range(f + 1):
                terms = [row[f] * row[h] for row in rows]
                error = abs(Fraction(matrix[f, h]) - sum(terms))
                assert error <= Fraction(bound) * sum(map(abs, terms)), (f, h)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_components_and_intervals_are_those_of_the_cpu(dtype, weighted):
    rng = np.random.default_rng(7)
    for n, d in ((300, 5), (200, 40)):
        X = (rng.normal(size=(n, d)) * np.geomspace(1, 1e-3, d) + 3.0).astype(dtype)
        weights = rng.random(n) if weighted else None
        for method, kept in ((PCA, ("mean_", "noise_variance_")), (TruncatedSVD, ())):
            here = method(3, device="cpu").fit(X, sample_weight=weights)
            there = method(3, device="cuda").fit(X, sample_weight=weights)
            assert there.placement_.device == "cuda:0"
            for name in ("singular_values_", "explained_variance_ratio_", *kept):
                np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-9)
            np.testing.assert_allclose(there.components_[:1], here.components_[:1], atol=1e-9)
            low, high = there.singular_value_bounds_.T
            assert there.bounds_proven_
            assert (low <= here.singular_value_bounds_[:, 1]).all()
            assert (here.singular_value_bounds_[:, 0] <= high).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_spectral_bound_of_clusters_is_that_of_the_cpu(monkeypatch, weighted, dtype):
    rng = np.random.default_rng(11)
    X = (rng.normal(size=(900, 9)) * np.geomspace(3, 1, 9) + 50.0).astype(dtype)
    weights = rng.random(900) if weighted else None
    scatters = []

    def bound(scatter, k, lost):
        scatters.append(scatter)
        return bound_by_spectrum(scatter, k, lost)

    monkeypatch.setattr(lower_bounds, "bound_by_spectrum", bound)
    here, there = (
        KMeans.of_centers(X[:3], device=device).certificate(X, weights, samples=0)
        for device in ("cpu", "cuda")
    )
    assert there.confidence == 1.0
    np.testing.assert_allclose(there.lower_bound, here.lower_bound, rtol=1e-10)
    exact = np.linalg.svd(centred(X.astype(float), weights), compute_uv=False) ** 2
    np.testing.assert_allclose(there.lower_bound, exact[2:].sum(), rtol=1e-10)
    assert there.lower_bound <= exact[2:].sum() * (1 + 1e-14)
    apart = np.linalg.norm(scatters[0].matrix - scatters[1].matrix)
    assert 0.0 < apart <= scatters[0].error + scatters[1].error < 1e-11 * exact.sum()


def centred(X, weights):
    w = np.ones(len(X)) if weights is None else weights
    return (X - w @ X / w.sum()) * np.sqrt(w)[:, None]


def test_the_spectral_bound_of_rows_in_blocks_or_in_place(monkeypatch):
    n, d = 5 * 1024 + 100, 3
    X = 4 * np.random.default_rng(12).normal(size=(n, d))
    model = KMeans.of_centers(X[:2], device="cuda")
    whole = model.certificate(X, samples=0)
    exact = np.linalg.svd(centred(X, None), compute_uv=False) ** 2
    np.testing.assert_allclose(whole.lower_bound, exact[1:].sum(), rtol=1e-10)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1024 * d * 8)
    monkeypatch.setattr(gram, "room_for_blocks", lambda *of: 1 << 40)
    found = []
    for resident in (6, 1):
        with monkeypatch.context() as patch:
            patch.setattr(gram, "count_resident", lambda *words, resident=resident: resident)
            found.append(model.certificate(X, samples=0).lower_bound)
    assert found[0] == found[1]
    np.testing.assert_allclose(found[0], whole.lower_bound, rtol=1e-10)
    there = KMeans.of_centers(X[:2]).certificate(on_device(X), samples=0)
    assert there.lower_bound == found[0]


def test_sparse_rows_on_a_gpu_have_the_spectral_bound_of_the_cpu():
    rng = np.random.default_rng(13)
    X = sp.random_array((300, 6), density=0.5, format="csr", rng=rng)
    here, there = (
        KMeans.of_centers(X[:2].toarray(), device=device).certificate(X, samples=0)
        for device in ("cpu", "cuda")
    )
    assert here.lower_bound == there.lower_bound > 0.0


def test_rows_unlike_the_first_ones_take_a_second_pass():
    n = 5000
    X = np.random.default_rng(8).normal(size=(n, 3))
    X[:: max(1, n // SAMPLED_ROWS)] += 1e9  # those that are looked at
    exact = X - X.mean(axis=0)
    expected = np.linalg.svd(exact, compute_uv=False)
    found = PCA(3, device="cuda").fit(X)
    np.testing.assert_allclose(found.singular_values_[:1], expected[:1], rtol=1e-12)
    Y = X.copy()
    Y[:: max(1, n // SAMPLED_ROWS)] -= 1e9
    weights = np.ones(n)
    weights[:: max(1, n // SAMPLED_ROWS)] = 0.0
    found = PCA(3, device="cuda").fit(X, sample_weight=weights)
    centred = (Y - weights @ Y / weights.sum()) * np.sqrt(weights)[:, None]
    np.testing.assert_allclose(found.singular_values_, np.linalg.svd(centred, compute_uv=False), rtol=1e-7)


def test_lanczos_and_sparse_rows_on_a_gpu_are_one_error():
    X = np.random.default_rng(9).normal(size=(30, 5))
    with pytest.raises(ParameterError, match="svd_solver"):
        PCA(2, svd_solver="lanczos", device="cuda").fit(X)
    with pytest.raises(ParameterError, match="sparse"):
        PCA(2, device="cuda").fit(sp.csr_array(X))
    assert PCA(2).fit(sp.csr_array(X)).placement_.device == "cpu"


def test_rows_on_a_gpu_are_used_in_place():
    X = np.random.default_rng(10).normal(size=(sized(300, 20_000), 33)).astype(np.float32)
    there = on_device(X)
    found, other = PCA(4).fit(there), PCA(4, device="cuda").fit(X)
    assert np.array_equal(found.singular_values_, other.singular_values_)
    assert np.array_equal(found.transform(there), other.transform(X))
    there[3, 2] = np.inf
    with pytest.raises(DataError, match="row 3"):
        PCA(4).fit(there)
