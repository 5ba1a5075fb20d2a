"""Passes over pairs of points on a device against full matrices in float64, for `_cuda` and its emulation."""

from __future__ import annotations

import numpy as np


def distances(X):
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))


def symmetric(rng, n, low, high):
    W = np.triu(rng.uniform(low, high, (n, n)), 1)
    return W + W.T


def kinds(rng, n):
    """Each way to pass pairs, with the same numbers as square matrices of dissimilarities and weights."""
    F = rng.normal(size=(n, 5))
    D, W, ones = distances(F), symmetric(rng, n, 0.1, 1.1), np.ones((n, n))
    upper = np.triu_indices(n, 1)
    gaps = symmetric(rng, n, 0.0, 1.0) < 0.2
    np.fill_diagonal(gaps, False)
    G = np.where(gaps, np.nan, D)
    single, light = D.astype(np.float32), W.astype(np.float32)
    yield {"delta": D}, D, ones
    yield {"delta": D[upper]}, D, ones
    yield {"delta": single}, single, ones
    yield {"delta": single[upper]}, single, ones
    yield {"features": F}, D, ones
    yield {"features": F, "stored": True}, D, ones
    yield {"features": F.astype(np.float32)}, distances(F.astype(np.float32).astype(float)), ones
    yield {"delta": D, "weights": W}, D, W
    yield {"delta": single, "weights": light[upper]}, single, light
    yield {"features": F, "weights": W[upper]}, D, W
    yield {"delta": G, "missing": True}, G, ones
    yield {"delta": G[upper].astype(np.float32), "weights": W, "missing": True}, G.astype(np.float32), W


def near(found, expected, tol=1e-11):
    """Whether numbers agree up to the rounding of sums of about as many terms."""
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol * scale)


def check_passes(make, n, p):
    """Compare all passes of each kind; ``make`` is ResidentPairs with its arrays where they should be."""
    rng = np.random.default_rng(n + p)
    X, Y, y = rng.normal(size=(n, p)), rng.normal(size=(n, 5)), rng.normal(size=(n, p))
    d, u = distances(X), X[:, None] - X[None]
    away = np.where(d > 0.0, d, np.inf)
    turned = y[:, None] - y[None]
    inner = (u * turned).sum(axis=2)
    for words, D, W in kinds(rng, n):
        D = D.astype(np.float64)
        W = np.where(np.isnan(D), 0.0, W).astype(np.float64)
        np.fill_diagonal(W, 0.0)
        known = np.nan_to_num(D)
        pairs = make(n, **words)
        places = pairs.put(X)
        degrees, weighted, total, count = pairs.summary()
        near(degrees, W.sum(axis=1))
        near([weighted, total], [(W * known**2).sum() / 2, (known**2).sum() / 2])
        assert count == np.count_nonzero(~np.isnan(D[np.triu_indices(n, 1)]))

        direction, stress, squares, together = pairs.descent(places)
        near(pairs.get(direction), ((W * (known / away - 1.0))[:, :, None] * u).sum(axis=1))
        near([stress, squares], [(W * (known - d) ** 2).sum() / 2, (W * d**2).sum() / 2])
        assert together == 0
        again = pairs.descent(places)
        assert pairs.get(again[0]).tobytes() == pairs.get(direction).tobytes()
        assert again[1:] == (stress, squares, together)

        direction, stress, squares, together = pairs.descent(places, single=True)
        rounded = np.float64(np.float32(X))
        d32, u32 = distances(rounded), rounded[:, None] - rounded[None]
        apart = np.where(d32 > 0.0, d32, np.inf)
        expected = ((W * (known / apart - 1.0))[:, :, None] * u32).sum(axis=1)
        most = (W * (known + d32)).sum(axis=1).max(initial=0.0)  # of which each term is wrong by some units
        assert np.abs(pairs.get(direction) - expected).max() <= 2e-6 * most
        sums = [(W * (known - d32) ** 2).sum() / 2, (W * d32**2).sum() / 2]
        assert np.abs(np.array([stress, squares]) - sums).max() <= 4e-6 * (W * (known**2 + d32**2)).sum()
        assert together == 0

        if "weights" in words or "missing" in words:
            near(pairs.get(pairs.laplacian(places)), (np.diag(W.sum(axis=1)) - W) @ X)
        near(pairs.get(pairs.squared(pairs.put(Y), 1.5)), np.where(np.isnan(D), 1.5, D) ** 2 @ Y)
        near(pairs.get(pairs.pulls(places))[:, 0], (W * known / away).sum(axis=1))
        even = (W * (1.0 - known / away))[:, :, None] * turned
        along = (W * known / away**3 * inner)[:, :, None] * u
        near(pairs.get(pairs.curvature(places, pairs.put(y))), (even + along).sum(axis=1), 1e-10)
        expected = D[n // 2].copy()
        expected[n // 2] = 0.0
        near(pairs.row(n // 2), expected)


def check_vectors(make, n, p):
    """Compare combinations, inner products and means."""
    rng = np.random.default_rng(n)
    pairs = make(n, delta=symmetric(rng, n, 0.5, 1.0), weights=symmetric(rng, n, 0.5, 1.0))
    degrees = pairs.summary()[0]
    A = rng.normal(size=(32, n, p))
    vectors = [pairs.put(each) for each in A]
    factors = rng.normal(size=32)
    near(pairs.get(pairs.combine(vectors, factors)), np.tensordot(factors, A, 1), 1e-14)
    asked = [(i, j) for i in range(8) for j in range(8)]
    expected = [(A[i] * A[j]).sum() for i, j in asked]
    near(pairs.products([(vectors[i], vectors[j]) for i, j in asked]), expected, 1e-13)
    near(pairs.get(pairs.centre(vectors[0])), A[0] - A[0].mean(axis=0), 1e-14)
    if n > 1:
        near(pairs.get(pairs.over_degrees(vectors[0])), A[0] / degrees[:, None], 1e-15)


def check_coincident(make, host):
    """Points at one place part as on the CPU; ``host`` is `Pairs.given`."""
    rng = np.random.default_rng(0)
    D, X = distances(rng.normal(size=(150, 3))), rng.normal(size=(150, 2))
    X[5] = X[6] = X[140]
    X[7] = X[8]
    D[7, 8] = D[8, 7] = 0.0
    expected = host(D, 150).descent(X)
    pairs = make(150, delta=D)
    found = pairs.descent(pairs.put(X))
    near(pairs.get(found[0]), expected[0])
    near(found[1:3], expected[1:3])
    assert found[3] == expected[3] == 3
    expected, found = host(D, 150).descent(X, single=True), pairs.descent(pairs.put(X), single=True)
    near(pairs.get(found[0]), expected[0], 1e-5)
    near(found[1:3], expected[1:3], 1e-5)
    assert found[3] == expected[3] == 3
