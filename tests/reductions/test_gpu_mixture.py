"""Steps of EM by the kernels of ``src_cuda/reductions``, on the emulator and on a GPU, against NumPy."""

from __future__ import annotations

import emulated_rows
import numpy as np
import pytest
import row_modules
from scipy.special import logsumexp

STEP_TOLERANCE = 1e-12
"""Relative to the largest of an array; a share has the absolute error of its logarithm, some 100 units."""

SIZES = (  # rows, columns, components, full
    (1, 1, 1, True),
    (64, 2, 3, True),
    (200, 5, 4, True),
    (150, 16, 9, True),
    (100, 19, 3, True),
    (130, 33, 2, True),
    (150, 3, 70, True),
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


@pytest.fixture(scope="module", params=["emulated", "little shared memory", "gpu"])
def module(request, tmp_path_factory):
    if request.param == "gpu":
        return row_modules.gpu()
    library = row_modules.library(tmp_path_factory.getbasetemp())
    if request.param == "emulated":
        return emulated_rows.Module(library)
    return emulated_rows.Module(library, row_modules.LITTLE_SHARED)


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
    larger = GPU_SIZES if not isinstance(module, emulated_rows.Module) else ()
    return [size for size in (*SIZES, *larger) if size[1] <= module.count_mixture_columns()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_step_is_numpys_and_has_the_same_bits_on_any_grid(module, dtype, offset):
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
            for grid in (0, 1, 3):
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
