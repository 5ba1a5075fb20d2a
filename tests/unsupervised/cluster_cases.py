"""Rows and centres for the passes of k-means, and what a pass over them must find."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bmrm.io.csr import Csr
from bmrm.unsupervised.clusters.draws import uniform_of_rows
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.passes import ClusterPasses


class Case(NamedTuple):
    X: np.ndarray
    weights: np.ndarray | None
    centers: np.ndarray


def make(rng, n, d, k, dtype=np.float32, *, weighted=False, scale=1.0, offset=0.0, spread=0.3) -> Case:
    """Rows around k points; the centres are some rows and, if k allows, a duplicate and one without rows."""
    points = rng.normal(size=(k, d))
    X = points[rng.integers(0, k, n)] + spread * rng.normal(size=(n, d))
    X = (scale * (X + offset)).astype(dtype)
    centers = X[rng.integers(0, n, k)].astype(np.float64)
    if k > 2:
        centers[-1] = centers[0]
        centers[-2] = 50.0 * scale * (1.0 + offset)
    weights = None
    if weighted:
        weights = rng.random(n)
        weights[rng.random(n) < 0.2] = 0.0
    return Case(X, weights, centers)


def make_sparse(rng, n, d, k, dtype=np.float32, *, ones=False) -> Case:
    """Rows with a fifth of the columns, as a dense array; centres as in `make`."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
    X = (X != 0 if ones else X).astype(dtype)
    centers = X[rng.integers(0, n, k)].astype(np.float64)
    centers[-1], centers[-2] = centers[0], 50.0
    weights = rng.random(n)
    weights[rng.random(n) < 0.2] = 0.0
    return Case(X, weights, centers)


def compressed(X: np.ndarray) -> Csr:
    """Return the rows compressed; without values if all are 1."""
    starts = np.append(0, np.cumsum((X != 0).sum(axis=1)))
    values = X[X != 0]
    return Csr(starts, np.nonzero(X)[1].astype(np.int32), None if (values == 1).all() else values, X.shape)


def nearest(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return labels in float64, features added in order, and the squared distances to these centres."""
    squares = np.zeros((len(case.X), len(case.centers)))
    for f in range(case.X.shape[1]):
        squares += (case.X[:, f : f + 1].astype(np.float64) - case.centers[:, f]) ** 2
    labels = squares.argmin(axis=1)
    return labels, squares[np.arange(len(labels)), labels]


def check(case: Case, passes: DeviceClusters, *, sparse: bool = False) -> float:
    """Check a pass, and the next one; return the share of rows that were decided in float64.

    Sums of sparse rows are those of w x less the weight times c, which cancel.
    """
    X, weights, centers = case
    n, k = len(X), len(centers)
    labels, squares = nearest(case)
    w = np.ones(n) if weights is None else weights
    found = passes.assign(centers)
    np.testing.assert_array_equal(passes.labels(), labels)
    assert found.changed == n
    e = X.astype(np.float64) - centers[labels]
    sums, sizes = np.zeros_like(centers), np.zeros_like(centers)
    np.add.at(sums, labels, w[:, None] * e)
    size = np.abs(X) + np.abs(centers[labels]) if sparse else np.abs(e)
    np.add.at(sizes, labels, w[:, None] * size)
    cluster_weights = np.bincount(labels, w, k)
    unit = (n + 64) * 2.0**-53
    assert (np.abs(found.sums - sums) <= 2 * unit * sizes).all()
    assert (np.abs(found.cluster_weights - cluster_weights) <= 2 * unit * cluster_weights).all()
    inertia = w @ squares
    assert abs(found.inertia - inertia) <= passes.inertia_error(centers, inertia) + unit * inertia
    again = passes.assign(centers)
    assert again.changed == 0
    assert again.rechecked == found.rechecked
    assert again.inertia == found.inertia
    np.testing.assert_array_equal(again.sums, found.sums)
    np.testing.assert_array_equal(again.cluster_weights, found.cluster_weights)
    without = passes.assign(centers, want_sums=False)
    assert (without.inertia, without.sums.size) == (found.inertia, 0)
    return found.rechecked / n


def check_others(case: Case, passes: DeviceClusters, rng: np.random.Generator) -> None:
    """Check distances, single moves and seeding; the case has weights."""
    X, w, centers = case
    assert w is not None
    n, k = len(X), len(centers)
    labels, squares = nearest(case)
    found = passes.assign(centers)
    all_squares = ((X[:, None].astype(np.float64) - centers) ** 2).sum(axis=2) if n * k < 1e6 else None
    if all_squares is not None:
        np.testing.assert_allclose(passes.distances(centers), np.sqrt(all_squares), rtol=1e-12)
    far = passes.farthest(centers, 10)
    order = np.argsort(-w * squares, kind="stable")[:10]
    np.testing.assert_allclose(far.distances, (w * squares)[order], rtol=1e-12)
    np.testing.assert_array_equal(far.labels, labels[far.rows])
    np.testing.assert_array_equal(far.weights, w[far.rows])

    weights = found.cluster_weights
    moves, gain = passes.single_moves(centers, weights)
    if all_squares is not None:
        rest = np.where((w > 0) & (weights[labels] - w > 0), weights[labels] - w, np.inf)
        saved = weights[labels] / rest * w * squares
        with np.errstate(invalid="ignore"):  # an empty cluster and a row of weight 0
            costs = weights / (weights + w[:, None]) * w[:, None] * all_squares
        costs[np.arange(n), labels] = np.inf
        gains = saved - np.nan_to_num(costs, nan=np.inf).min(axis=1)
        assert moves == (gains > 1e-12 * saved).sum()
        np.testing.assert_allclose(gain, max(0.0, gains.max()), rtol=1e-9)

    unit, best = 0.0, np.full(n, np.inf)
    passes.begin_seeding()
    for row in (7, 11):
        to_row = ((X.astype(np.float64) - X[row]) ** 2).sum(axis=1)
        best = np.minimum(best, to_row)
        potential = passes.take_center(row)
        unit = unit or potential / (w @ best)
        np.testing.assert_allclose(potential, unit * (w @ best), rtol=1e-5)
    candidates = rng.integers(0, n, 19)
    expected = [w @ np.minimum(best, ((X.astype(np.float64) - X[i]) ** 2).sum(axis=1)) for i in candidates]
    np.testing.assert_allclose(passes.potentials(candidates), unit * np.array(expected), rtol=1e-5)
    uniform = rng.random(50)
    drawn = passes.draw(uniform)
    cumulative = np.cumsum(w * best)
    for u, row in zip(uniform, drawn, strict=True):
        assert w[row] * best[row] > 0
        before = cumulative[row] - w[row] * best[row]
        assert before * (1 - 1e-4) <= u * cumulative[-1] <= cumulative[row] * (1 + 1e-4)
    np.testing.assert_array_equal(
        passes.draw_by_weight(uniform), np.searchsorted(np.cumsum(w), uniform * np.cumsum(w)[-1], "right")
    )


def check_parallel_seeding(case: Case, passes: ClusterPasses, rng: np.random.Generator) -> np.ndarray:
    """Check the passes of k-means||; return the rows of all draws."""
    X, weights, _ = case
    n, values = len(X), X.astype(np.float64)
    w = np.ones(n) if weights is None else weights
    points, drawn, unit = np.empty((0, X.shape[1])), [], 0.0
    passes.begin_seeding()
    for key, count in ((0, 1), (2**64 - 1, 5), (12345, 40)):
        rows = rng.integers(0, n, count)
        points = np.concatenate([points, values[rows]])
        potential = passes.approach(passes.take(rows))
        squares = ((values[:, None] - points) ** 2).sum(axis=2)
        shares = w * squares.min(axis=1)
        unit = unit or potential / shares.sum()
        np.testing.assert_allclose(potential, unit * shares.sum(), rtol=1e-6)
        expected = np.bincount(squares.argmin(axis=1), w, len(points))
        np.testing.assert_allclose(passes.nearest_weights(), expected, rtol=1e-12)
        found = passes.draw_each(20.0, key)
        uniform = uniform_of_rows(key, 0, n)
        chances = 20.0 * shares / shares.sum()
        clear = np.abs(uniform - chances) > 1e-6 * chances  # a row of chance 0 is never drawn
        np.testing.assert_array_equal(np.isin(np.arange(n), found)[clear], (uniform < chances)[clear])
        assert (np.diff(found) > 0).all()
        drawn.append(found)
    return np.concatenate(drawn)


def bits(case: Case, passes: DeviceClusters) -> list[object]:
    """Return the results of passes as bits."""
    found = passes.assign(case.centers)
    labels = passes.labels()
    moves = passes.single_moves(case.centers, found.cluster_weights)
    far = passes.farthest(case.centers, 5)
    passes.begin_seeding()
    taken = passes.take_center(5)
    potentials = passes.potentials(np.arange(3, 7))
    drawn = passes.draw(np.linspace(0.0, 0.99, 7))
    passes.begin_seeding()
    potential = passes.approach(passes.take(np.arange(9)))
    each, weights = passes.draw_each(50, 7), passes.nearest_weights()
    arrays = (found.sums, found.cluster_weights, labels, potentials, drawn, each, weights, *far)
    return [found.inertia, found.rechecked, moves, taken, potential, *(of.tobytes() for of in arrays)]
