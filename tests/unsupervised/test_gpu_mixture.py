"""Steps of EM by the kernels of ``src_cuda/mixtures``, on a GPU or the emulator, against NumPy."""

from __future__ import annotations

import emulated
import numpy as np
import pytest
from devices import IS_EMULATED, cuda, gpu, on_device, sized
from scipy.special import logsumexp

from bmrm import GaussianMixture
from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.matrix.gpu.placement import Placement
from bmrm.unsupervised.mixtures import estimator as mixture_module
from bmrm.unsupervised.mixtures.estimator import COVARIANCE_TYPES, STARTS

pytestmark = gpu

LITTLE_SHARED = 30_000
"""Bytes of shared memory of a device on which sums, and shares of many components, are elsewhere."""

STEP_TOLERANCE = 1e-12
"""Relative to the largest of an array; a share has the absolute error of its logarithm, some 100 units."""

SIZES = (  # rows, columns, components, full
    (1, 1, 1, True),
    (64, 2, 3, True),
    (200, 5, 4, True),
    (150, 16, 9, True),
    (100, 19, 3, True),
    (130, 33, 2, True),
    (90, 2, 70, True),
    (70, 9, 2, False),
    (200, 16, 12, False),
    (500, 1, 1, False),
)
GPU_SIZES = (
    (100_003, 16, 32, True),
    (50_001, 40, 5, True),
    (20_000, 130, 3, True),
    (30_000, 7, 700, True),
    (100_003, 16, 32, False),
    (20_000, 180, 33, False),
)


@pytest.fixture(params=["", "little shared memory"] if IS_EMULATED else [""])
def module(request):
    if request.param:
        emulated.configure(1, shared=LITTLE_SHARED)
    return cuda


def mixture(rng, d, k, full):
    """Means, roots of precisions and constants."""
    means = rng.normal(size=(k, d))
    factors = rng.normal(size=(k, d, d)) * 0.4 / np.sqrt(d) + np.eye(d)
    covariances = factors @ np.swapaxes(factors, 1, 2)
    weights = rng.random(k) + 0.1
    if full:
        roots = np.tril(np.linalg.inv(np.linalg.cholesky(covariances)))
        logs = np.log(np.einsum("kff->kf", roots)).sum(axis=1)
    else:
        roots = 1.0 / np.sqrt(np.einsum("kff->kf", covariances))
        logs = np.log(roots).sum(axis=1)
    return means, roots, np.log(weights / weights.sum()) + logs - d / 2 * np.log(2 * np.pi)


def expected_shares(X, means, roots, constants):
    logs = np.empty((len(X), len(means)))
    for j, (mean, root) in enumerate(zip(means, roots, strict=True)):
        e = X - mean
        y = e @ root.T if root.ndim == 2 else e * root
        logs[:, j] = constants[j] - 0.5 * (y * y).sum(axis=1)
    densities = logsumexp(logs, axis=1)
    return densities, np.exp(logs - densities[:, None])


def expected_moments(X, means, r, full):
    first, second = np.empty(means.shape), []
    for j, mean in enumerate(means):
        e = X - mean
        first[j] = r[:, j] @ e
        second.append(np.tril((e * r[:, j, None]).T @ e) if full else r[:, j] @ (e * e))
    return r.sum(axis=0), first, np.array(second)


def assert_close(found, expected, what):
    error = np.abs(np.subtract(found, expected)).max(initial=0.0)
    assert error <= STEP_TOLERANCE * max(1.0, float(np.abs(expected).max(initial=0.0))), what


def sizes_of(module):
    all_sizes = sized(SIZES, (*SIZES, *GPU_SIZES))
    return [size for size in all_sizes if size[1] <= module.count_mixture_columns()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_is_numpys_and_has_the_same_bits_on_any_grid(module, dtype):
    offset = 1e4  # such rows lose digits that are not in their differences
    for n, d, k, full in sizes_of(module):
        rng = np.random.default_rng(n + d + k)
        means, roots, constants = mixture(rng, d, k, full)
        X = (2 * rng.normal(size=(n, d)) + offset).astype(dtype)
        means = means + offset
        densities, shares = expected_shares(X.astype(float), means, roots, constants)
        for weights in (None, rng.integers(0, 3, n).astype(float)):
            w = np.ones(n) if weights is None else weights
            rows = module.DenseRows(X, weights)
            found = rows.mixture_step(means, roots, constants)
            for grid in (1, 3):
                again = rows.mixture_step(means, roots, constants, grid=grid)
                assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))
            expected = w @ densities, *expected_moments(X.astype(float), means, shares * w[:, None], full)
            for part, reference in zip(found, expected, strict=True):
                assert_close(part, reference, (n, d, k, full))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_labels_are_numpys(module, dtype):
    for n, d, k, full in sizes_of(module):
        rng = np.random.default_rng(n + d + k)
        X, means = (rng.normal(size=(n, d)) + 7).astype(dtype), rng.normal(size=(k, d)) + 7
        labels, weights = rng.integers(-1, k, n), rng.random(n)
        found = module.DenseRows(X, weights).label_moments(labels, means, full)
        shares = (labels[:, None] == np.arange(k)) * weights[:, None]
        for part, reference in zip(
            found, expected_moments(X.astype(float), means, shares, full), strict=True
        ):
            assert_close(part, reference, (n, d, k, full))


def test_shares_are_numpys(module):
    for n, d, k, full in sizes_of(module):
        rng = np.random.default_rng(n + d + k)
        means, roots, constants = mixture(rng, d, k, full)
        X = 2 * rng.normal(size=(n, d))
        found = module.DenseRows(X).mixture_shares(means, roots, constants)
        for part, reference in zip(found, expected_shares(X, means, roots, constants), strict=True):
            assert_close(part, reference, (n, d, k, full))


def test_rows_far_away_and_components_of_no_weight_have_shares_of_zero(module):
    X = np.array([[0.0, 0.0], [1e3, 0.0], [-1e3, 5.0]])
    means, roots = np.array([[0.0, 0.0], [1e3, 0.0], [0.0, 0.0]]), np.array([np.eye(2)] * 3)
    constants = np.array([-2.0, -2.0, -1e300])
    densities, shares = module.DenseRows(X).mixture_shares(means, roots, constants)
    assert np.array_equal(shares, [[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert np.array_equal(densities, [-2.0, -2.0, -2.0 - 0.5 * (1e6 + 25.0)])
    _, sizes, first, second = module.DenseRows(X).mixture_step(means, roots, constants)
    assert sizes.tolist() == [2.0, 1.0, 0.0]
    assert first.tolist() == [[-1e3, 5.0], [0.0, 0.0], [0.0, 0.0]]
    assert second[0].tolist() == [[1e6, 0.0], [-5e3, 25.0]]
    assert not second[1:].any()


def test_rows_are_taken_and_measured(module):
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=(300, 7)).astype(dtype)
        rows = module.DenseRows(X)
        assert np.array_equal(rows.take([5, 0, 299, 5]), X[[5, 0, 299, 5]])
        assert rows.extremes() == (float(np.abs(X).max()), None)
        X[200, 3], X[100, 6] = np.nan, -np.inf
        assert module.DenseRows(X).extremes() == (np.inf, 100)


def test_too_many_columns_are_one_error(module):
    d = module.count_mixture_columns() + 1
    X = np.zeros((2, d))
    with pytest.raises(Exception, match=f"expected at most {d - 1} columns"):
        module.DenseRows(X).mixture_step(np.zeros((1, d)), np.ones((1, d)), np.zeros(1))


def blobs(rng, n, d, k):
    turns = rng.normal(size=(k, d, d)) / np.sqrt(d) + np.eye(d)
    labels = rng.integers(0, k, n)
    X = 3.0 * rng.normal(size=(k, d))[labels]
    return X + np.einsum("ndf,nf->nd", turns[labels], rng.normal(size=(n, d)))


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("start", STARTS)
def test_a_fit_is_that_of_the_cpu(kind, start):
    rng = np.random.default_rng(3)
    n = sized(400, 50_000)
    X, weights = blobs(rng, n, 3, 4).astype(np.float32), rng.integers(0, 3, n)
    words = {"covariance_type": kind, "init_params": start, "tol": 0.0, "max_iter": 5, "random_state": 0}
    there = GaussianMixture(4, device="cuda", **words).fit(X, sample_weight=weights)
    here = GaussianMixture(4, device="cpu", **words).fit(X, sample_weight=weights)
    assert (there.placement_.device, here.placement_.device) == ("cuda:0", "cpu")
    assert there.status_ == here.status_ == "max_iter"
    np.testing.assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-10)
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        expected = getattr(here, name)
        np.testing.assert_allclose(getattr(there, name), expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(there.score_samples(X), here.score_samples(X), rtol=1e-9, atol=1e-9)
    assert (there.predict(X) == there.predict_proba(X).argmax(axis=1)).all()
    assert there.sample(10)[0].shape == (10, 3)
    again = GaussianMixture(4, device="cuda", **words).fit(X, sample_weight=weights)
    assert again.lower_bounds_ == there.lower_bounds_
    assert np.array_equal(again.covariances_, there.covariances_)


def test_one_component_and_collapsed_ones():
    X = blobs(np.random.default_rng(4), 200, 2, 1)
    found = GaussianMixture(1, device="cuda").fit(X)
    np.testing.assert_allclose(found.means_[0], X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.covariances_[0], np.cov(X.T, bias=True) + 1e-6 * np.eye(2), rtol=1e-10)
    repeated = np.concatenate([np.repeat([[50.0, 50.0]], 30, axis=0), X])
    found = GaussianMixture(2, device="cuda", random_state=0).fit(repeated)
    assert len(found.collapsed_) == 1
    assert found.means_[found.collapsed_[0]].tolist() == [50.0, 50.0]


def test_more_columns_than_fit_are_one_error_on_a_gpu_and_the_cpu_if_nobody_asked(monkeypatch):
    d = cuda.count_mixture_columns() + 1
    X = np.random.default_rng(5).normal(size=(2 * d, d))
    words = {"covariance_type": "diag", "init_params": "random_from_data", "max_iter": 1}
    with pytest.raises(DeviceMemoryError, match=f"expected at most {d - 1} for a mixture"):
        GaussianMixture(1, device="cuda", **words).fit(X)
    monkeypatch.setattr(mixture_module, "place", lambda *a, **b: Placement(0, "for this test", chosen=True))
    with pytest.warns(UserWarning, match="using the CPU"):
        found = GaussianMixture(1, **words).fit(X)
    assert found.placement_.device == "cpu"


def test_rows_on_a_gpu_are_used_in_place():
    X = blobs(np.random.default_rng(6), sized(500, 5000), 8, 3).astype(np.float32)
    there, words = on_device(X), {"n_components": 3, "random_state": 0}
    found, other = GaussianMixture(**words).fit(there), GaussianMixture(**words, device="cuda").fit(X)
    assert found.placement_.device == "cuda:0"
    assert found.lower_bounds_ == other.lower_bounds_
    assert np.array_equal(found.predict(there), other.predict(X))
    there[7, 3] = np.nan
    with pytest.raises(DataError, match="row 7"):
        GaussianMixture(**words).fit(there)
    with pytest.raises(ParameterError, match="device"):
        GaussianMixture(**words, device="cpu").fit(there)


def test_too_little_memory_for_passes_is_found_at_once(module):
    X = np.ones((10, 2))
    with pytest.raises(Exception, match="needed besides the rows"):
        module.DenseRows(X, spare=1 << 45)
