"""MDS against a plain SMACOF step by step, scikit-learn, finite differences and exact configurations."""

import pickle
import signal
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from instruction_sets import assert_same_results
from scipy.spatial.distance import cdist, pdist, squareform

from bmrm import MDS
from bmrm.errors import BmrmError, DataError, HostMemoryError, Interrupted, ParameterError
from bmrm.matrix._cpu import instruction_set
from bmrm.pairs._pairs import inspect_pairs
from bmrm.pairs.pair_arrays import PairArray, read_pairs
from bmrm.unsupervised.manifold._manifold import Pairs, fit_disparities
from bmrm.unsupervised.manifold.cpu import HostScalingPasses
from bmrm.unsupervised.manifold.dissimilarities import Dissimilarities
from bmrm.unsupervised.manifold.majorization import Stress
from bmrm.unsupervised.manifold.passes import PairData

SIZES = [(1, 1), (2, 1), (2, 2), (3, 2), (17, 3), (65, 2), (130, 5), (520, 2)]


def distances(X, Y=None):
    return cdist(X, X if Y is None else Y)


def noisy(rng, n, dims=3, noise=0.2):
    """A symmetric matrix that no configuration in a plane has exactly."""
    D = distances(rng.normal(size=(n, dims))) * np.exp(noise * rng.normal(size=(n, n)))
    return np.triu(D, 1) + np.triu(D, 1).T


def with_gaps(D, rng, share):
    gaps = np.triu(rng.random(D.shape) < share, 1)
    return np.where(gaps | gaps.T, np.nan, D)


def random_weights(rng, n):
    W = np.triu(rng.random((n, n)) + 0.1, 1)
    return W + W.T


def plain_stress(D, X, W=None):
    W = np.ones_like(D) if W is None else W
    W = np.where(np.isnan(D), 0.0, W)
    return float((np.triu(W, 1) * (np.nan_to_num(D) - distances(X)) ** 2).sum())


def plain_step(D, X, W=None):
    """A Guttman transform as in the books, by the pseudo-inverse of V."""
    W = np.ones_like(D) if W is None else W
    W = np.where(np.isnan(D), 0.0, W)
    np.fill_diagonal(W := W.copy(), 0.0)
    d = distances(X)
    B = -W * np.nan_to_num(D) / np.where(d > 0.0, d, np.inf)
    np.fill_diagonal(B, -B.sum(axis=1))
    V = np.diag(W.sum(axis=1)) - W
    return np.linalg.pinv(V) @ B @ X


def plain_direction(D, X, W):
    d = distances(X)
    c = W * (np.nan_to_num(D) / np.where(d > 0.0, d, np.inf) - 1.0)
    return (c[:, :, None] * (X[:, None] - X[None])).sum(axis=1)


def procrustes(A, B):
    """The largest difference of two configurations after the best rotation, reflection and move."""
    A, B = A - A.mean(axis=0), B - B.mean(axis=0)
    U, _, Vt = np.linalg.svd(A.T @ B)
    return float(np.abs(A @ (U @ Vt) - B).max())


def kinds(rng, n):
    """Each way to pass pairs, with the same numbers as square matrices of dissimilarities and weights."""
    F = rng.normal(size=(n, 5))
    D, W = distances(F), random_weights(rng, n)
    upper = np.triu_indices(n, 1)
    ones = np.ones((n, n))
    G = with_gaps(D, rng, 0.2)
    yield Pairs.given(D, n), D, ones
    yield Pairs.given(D[upper], n), D, ones
    single = D.astype(np.float32)
    yield Pairs.given(single, n), single.astype(np.float64), ones
    yield Pairs.of_features(F), D, ones
    yield Pairs.of_features(F.astype(np.float32)), distances(F.astype(np.float32).astype(np.float64)), ones
    yield Pairs.given(D, n, weights=W), D, W
    yield Pairs.given(D[upper], n, weights=W), D, W
    yield Pairs.given(D, n, weights=W[upper].astype(np.float32)), D, W.astype(np.float32).astype(np.float64)
    yield Pairs.of_features(F, weights=W[upper]), D, W
    yield Pairs.given(G, n, missing=True), G, ones
    yield Pairs.given(G[upper].astype(np.float32), n, weights=W, missing=True), G.astype(np.float32), W


@pytest.mark.parametrize(("n", "p"), SIZES)
def test_passes_are_those_of_full_matrices(n, p):
    rng = np.random.default_rng(n + p)
    X = rng.normal(size=(n, p))
    Y = rng.normal(size=(n, 3))
    for pairs, D, W in kinds(rng, n):
        D = D.astype(np.float64)
        W = np.where(np.isnan(D), 0.0, W)
        np.fill_diagonal(W, 0.0)
        known = np.nan_to_num(D)
        d = distances(X)
        direction, stress, squares, together = pairs.descent(X)
        np.testing.assert_allclose(direction, plain_direction(D, X, W), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(stress, (W * (known - d) ** 2).sum() / 2, rtol=1e-12)
        np.testing.assert_allclose(squares, (W * d**2).sum() / 2, rtol=1e-12)
        assert together == 0
        V = np.diag(W.sum(axis=1)) - W
        np.testing.assert_allclose(pairs.laplacian(Y), V @ Y, rtol=1e-11, atol=1e-11)
        filled = np.where(np.isnan(D), 1.5, D)
        np.testing.assert_allclose(pairs.squared(Y, 1.5), filled**2 @ Y, rtol=1e-11, atol=1e-10)
        np.testing.assert_allclose(pairs.distances(X), d[np.triu_indices(n, 1)], rtol=1e-15)
        degrees, weighted, total, count = pairs.summary()
        np.testing.assert_allclose(degrees, W.sum(axis=1), rtol=1e-13)
        np.testing.assert_allclose([weighted, total], [(W * known**2).sum() / 2, (known**2).sum() / 2])
        assert count == np.count_nonzero(~np.isnan(D[np.triu_indices(n, 1)]))
        ratio = np.where(d > 0.0, W * known / np.where(d > 0.0, d, 1.0), 0.0)
        np.testing.assert_allclose(pairs.pulls(X), ratio.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(("n", "p"), [(3, 1), (20, 2), (70, 4)])
def test_gradient_and_hessian_are_those_of_differences(n, p):
    rng = np.random.default_rng(n)
    D = with_gaps(noisy(rng, n), rng, 0.1)
    W = random_weights(rng, n)
    pairs = Pairs.given(D, n, weights=W, missing=True)
    X = rng.normal(size=(n, p))
    step = 1e-6
    for _ in range(3):
        Y = rng.normal(size=(n, p))
        slope = (plain_stress(D, X + step * Y, W) - plain_stress(D, X - step * Y, W)) / (2 * step)
        np.testing.assert_allclose(-2.0 * (pairs.descent(X)[0] * Y).sum(), slope, rtol=1e-6, atol=1e-6)
        change = (pairs.descent(X + step * Y)[0] - pairs.descent(X - step * Y)[0]) / (2 * step)
        curvature = pairs.curvature(X, np.stack([Y, 2.0 * Y]))
        np.testing.assert_allclose(curvature[0], -change, rtol=1e-5, atol=1e-5 * np.abs(change).max())
        np.testing.assert_allclose(curvature[1], 2.0 * curvature[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighted", ["plain", "weights", "gaps"])
def test_steps_are_those_of_a_plain_loop(weighted):
    rng = np.random.default_rng(3)
    n, p = 60, 2
    D = noisy(rng, n)
    W = random_weights(rng, n) if weighted == "weights" else None
    if weighted == "gaps":
        D = with_gaps(D, rng, 0.3)
    X = rng.normal(size=(n, p))
    history = [plain_stress(D, X, W)]
    expected = X - X.mean(axis=0)
    for _ in range(15):
        expected = plain_step(D, expected, W)
        history.append(plain_stress(D, expected, W))
    found = MDS(p, metric="precomputed", relax=False, eps=0, max_iter=15).fit(D, init=X, weights=W)
    assert (found.status_, found.n_iter_) == ("max_iter", 15)
    tolerance = 1e-12 if weighted == "plain" else 1e-5  # conjugate gradients end early
    np.testing.assert_allclose(found.history_, history, rtol=tolerance)
    assert procrustes(found.embedding_, expected) < 1e2 * tolerance
    np.testing.assert_allclose(found.raw_stress_, plain_stress(D, found.embedding_, W), rtol=1e-12)


@pytest.mark.parametrize("metric_mds", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 40])
def test_the_stress_is_scikit_learns_from_the_same_start(metric_mds, steps):
    manifold = pytest.importorskip("sklearn.manifold")
    rng = np.random.default_rng(4)
    n = 50
    ranks = squareform(1.0 + rng.permutation(n * (n - 1) // 2))  # ordinal scaling starts from these
    D = noisy(rng, n) if metric_mds else ranks
    X = rng.normal(size=(n, 2))
    words = dict(metric=metric_mds, n_components=2, init=X, n_init=1, max_iter=steps, eps=0.0)
    theirs, stress = manifold.smacof(D, normalized_stress=True, **words)
    mine = MDS(2, metric_mds=metric_mds, metric="precomputed", relax=False, eps=0, max_iter=steps)
    mine.fit(D, init=X)
    assert procrustes(mine.embedding_, theirs) < 1e-9 * np.abs(theirs).max()
    if metric_mds:
        np.testing.assert_allclose(mine.normalized_stress_, stress, rtol=1e-10)
        assert mine.stress_ == mine.raw_stress_
    else:  # theirs is that of the disparities of the step before
        assert mine.normalized_stress_ < stress
        assert mine.stress_ == mine.normalized_stress_


@pytest.mark.parametrize("start", ["classical_mds", "landmark"])
@pytest.mark.parametrize(("n", "p"), [(5, 1), (40, 2), (90, 3), (200, 7)])
@pytest.mark.parametrize("form", ["square", "condensed", "features", "half", "gaps"])
def test_euclidean_configurations_are_recovered(start, n, p, form):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, p)) + 100.0
    D = distances(X)
    given = {"square": D, "condensed": pdist(X)}.get(form, X @ np.linalg.qr(rng.normal(size=(p, p)))[0])
    words = dict(metric="precomputed" if form in ("square", "condensed", "gaps") else "euclidean")
    if form == "gaps":
        gaps = with_gaps(D, rng, 0.1 if n > 5 else 0.0)
        found = MDS(p, init=start, eps=0, max_iter=4000, **words).fit(gaps)
    else:
        store = form if form in ("features", "half") else "auto"
        found = MDS(p, init=start, eps=0, store=store, **words).fit(given)
    assert procrustes(found.embedding_, X) < 1e-10 * n
    assert found.normalized_stress_ < 1e-11


@pytest.mark.parametrize("relax", [True, False])
@pytest.mark.parametrize("metric_mds", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_stress_falls_in_each_step(relax, metric_mds, weighted):
    rng = np.random.default_rng(7)
    D = noisy(rng, 80)
    weights = random_weights(rng, 80) if weighted else None
    found = MDS(
        2, metric="precomputed", metric_mds=metric_mds, relax=relax, eps=1e-9, init="random", random_state=1
    )
    found.fit(D, weights=weights)
    assert (np.diff(found.history_) < 0.0).all()
    assert len(found.history_) > 5
    assert found.history_[-1] == pytest.approx(found.raw_stress_, rel=1e-12)


def test_acceleration_takes_fewer_passes():
    rng = np.random.default_rng(1)
    D = noisy(rng, 150)
    runs = [
        MDS(2, metric="precomputed", relax=relax, eps=1e-13, max_iter=20_000).fit(D)
        for relax in (True, False)
    ]
    assert runs[0].raw_stress_ < runs[1].raw_stress_ * (1 + 1e-7)
    assert 2 * runs[0].n_iter_ < runs[1].n_iter_
    assert {run.status_ for run in runs} == {"converged"}


def test_weights_of_zero_count_as_unknown_and_whole_ones_as_repeated_terms():
    rng = np.random.default_rng(2)
    D = noisy(rng, 40)
    gaps = with_gaps(D, rng, 0.3)
    X = rng.normal(size=(40, 2))
    words = dict(metric="precomputed", eps=1e-8)
    dropped = MDS(2, **words).fit(gaps, init=X)
    zero = MDS(2, **words).fit(D, init=X, weights=np.where(np.isnan(gaps), 0.0, 1.0))
    np.testing.assert_allclose(zero.embedding_, dropped.embedding_, rtol=1e-9, atol=1e-9)
    double = MDS(2, **words).fit(D, init=X, weights=np.where(np.isnan(gaps), 0.0, 2.0))
    np.testing.assert_allclose(double.embedding_, dropped.embedding_, rtol=1e-6, atol=1e-6)
    assert double.raw_stress_ == pytest.approx(2.0 * dropped.raw_stress_, rel=1e-6)
    assert double.normalized_stress_ == pytest.approx(dropped.normalized_stress_, rel=1e-6)


def test_equal_weights_are_no_weights():
    rng = np.random.default_rng(2)
    D = noisy(rng, 50)
    X = rng.normal(size=(50, 2))
    words = dict(metric="precomputed", relax=False, eps=0, max_iter=10)
    plain = MDS(2, **words).fit(D, init=X)
    equal = MDS(2, **words).fit(D, init=X, weights=np.ones((50, 50)))
    np.testing.assert_allclose(equal.embedding_, plain.embedding_, rtol=1e-9, atol=1e-9)


def plain_disparities(delta, d, w):
    """Weighted isotonic regression by the minimax formula, ties sorted by distance."""
    order = np.lexsort((d, delta))
    y, v = d[order], w[order]
    n = len(y)
    sums = np.concatenate([[0.0], np.cumsum(v * y)])
    totals = np.concatenate([[0.0], np.cumsum(v)])
    means = np.full((n, n), np.nan)
    for a in range(n):
        for b in range(a, n):
            means[a, b] = (sums[b + 1] - sums[a]) / (totals[b + 1] - totals[a])
    out = np.empty(n)
    for k in range(n):
        out[order[k]] = max(np.nanmin(means[a, k:]) for a in range(k + 1))
    return out


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("weighted", [True, False])
def test_disparities_are_the_isotonic_regression(kind, weighted):
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        delta = rng.integers(0, 6, n).astype(float)
        d, w = rng.random(n), rng.random(n) + 0.1 if weighted else np.ones(n)
        order = np.argsort(delta, kind="stable").astype(kind)
        bounds = np.flatnonzero(np.diff(delta[order], prepend=np.nan, append=np.nan) != 0.0)
        out = np.empty(n)
        fit_disparities(order, bounds[:-1], bounds[1:], d, w if weighted else None, 3.0, out)
        expected = plain_disparities(delta, d, w)
        expected *= np.sqrt(3.0 / (w * expected**2).sum())
        np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_ordinal_scaling_sees_the_order_only():
    rng = np.random.default_rng(6)
    D = with_gaps(noisy(rng, 45), rng, 0.1)
    words = dict(metric_mds=False, metric="precomputed", eps=1e-9)
    for start in ("classical_mds", "landmark", "random"):
        seed = None if start == "classical_mds" else 0
        plain = MDS(2, init=start, random_state=seed, **words).fit(D)
        for changed in (D**3, np.expm1(D), 1e30 * D):
            other = MDS(2, init=start, random_state=seed, **words).fit(changed)
            assert other.embedding_.tobytes() == plain.embedding_.tobytes()
            assert other.stress_ == plain.stress_


def test_disparities_rise_with_the_dissimilarities():
    rng = np.random.default_rng(6)
    D = noisy(rng, 45).round(1)  # with ties
    weights = random_weights(rng, 45)
    found = MDS(2, metric_mds=False, metric="precomputed").fit(D, weights=weights)
    delta = squareform(D)
    low = [found.disparities_[delta == value].min() for value in np.unique(delta)]
    high = [found.disparities_[delta == value].max() for value in np.unique(delta)]
    assert (np.array(low[1:]) >= np.array(high[:-1]) * (1 - 1e-14)).all()
    w = squareform(weights)
    assert (w * found.disparities_**2).sum() == pytest.approx(w.sum())
    d = pdist(found.embedding_)
    assert found.raw_stress_ == pytest.approx((w * (found.disparities_ - d) ** 2).sum(), rel=1e-10)
    assert found.stress_ == pytest.approx(np.sqrt(found.raw_stress_ / (w * d**2).sum()), rel=1e-10)
    fitted = plain_disparities(delta[:40], d[:40], w[:40])
    assert (np.diff(fitted[np.lexsort((d[:40], delta[:40]))]) >= 0.0).all()


def test_ordinal_scaling_recovers_a_configuration_from_ranks():
    rng = np.random.default_rng(9)
    X = rng.random((80, 2))
    found = MDS(2, metric_mds=False, metric="precomputed", eps=1e-12, max_iter=3000).fit(distances(X) ** 2)
    Y = found.embedding_ - found.embedding_.mean(axis=0)
    X -= X.mean(axis=0)
    assert found.stress_ < 1e-3
    assert procrustes(Y * np.linalg.norm(X) / np.linalg.norm(Y), X) < 0.02


@pytest.mark.parametrize("form", ["square", "condensed", "features", "weights", "gaps", "ordinal"])
def test_results_have_the_same_bits_for_any_number_of_threads(form):
    rng = np.random.default_rng(5)
    n = 700  # several parts
    X = rng.normal(size=(n, 9)).astype(np.float32)
    D = distances(X[:, :4].astype(np.float64))
    given = {"square": D, "condensed": squareform(D, checks=False), "weights": D, "ordinal": D.round(2)}.get(
        form, X
    )
    if form == "gaps":
        given = with_gaps(D, rng, 0.1)
    weights = random_weights(rng, n) if form == "weights" else None
    words = dict(
        metric="euclidean" if form == "features" else "precomputed",
        store="features" if form == "features" else "auto",
        metric_mds=form != "ordinal",
        max_iter=4,
        random_state=0,
    )
    fits = [MDS(2, threads=t, **words).fit(given, weights=weights) for t in (1, 2, 3)]
    new = (
        X[:30] + 0.1
        if form == "features"
        else np.nan_to_num(given[:30], nan=1.0)
        if form != "condensed"
        else D[:30]
    )
    for other in fits[1:]:
        assert other.embedding_.tobytes() == fits[0].embedding_.tobytes()
        assert other.history_ == fits[0].history_
        assert other.gradient_norm_ == fits[0].gradient_norm_
        assert other.transform(new).tobytes() == fits[0].transform(new).tobytes()


@pytest.mark.parametrize("lower", ["avx2", "baseline"])
@pytest.mark.skipif(instruction_set() == "baseline", reason="this processor has no other instruction set")
def test_instruction_sets_differ_by_rounding_alone(lower):
    program = """
import numpy as np
from bmrm.matrix._cpu import instruction_set
from bmrm import MDS
rng = np.random.default_rng(0)
print(instruction_set())
F = rng.normal(size=(131, 5))
D = np.sqrt(((F[:, None] - F[None]) ** 2).sum(axis=2))
for p in (1, 2, 3, 5):
    for given, metric in ((F, "euclidean"), (np.where(D > 4, np.nan, D), "precomputed")):
        found = MDS(p, metric=metric, relax=False, eps=0, max_iter=3).fit(given, init=F[:, :p])
        for value in [*found.embedding_.ravel()[:200], found.raw_stress_]:
            print(float(value).hex())
"""
    assert_same_results(program, lower)


def test_one_and_two_points():
    one = MDS(1, metric="precomputed").fit([[0.0]])
    assert one.embedding_.tolist() == [[0.0]]
    assert (one.raw_stress_, one.normalized_stress_, one.status_) == (0.0, 0.0, "converged")
    assert one.check_minimum([[0.0]]).verdict == "minimum"
    assert MDS(1).fit([[5.0, 6.0]]).embedding_.shape == (1, 1)
    for p in (1, 2):
        for metric_mds in (True, False):
            two = MDS(p, metric="precomputed", metric_mds=metric_mds).fit([[0.0, 3.0], [3.0, 0.0]])
            size = 3.0 if metric_mds else 1.0
            assert np.linalg.norm(two.embedding_[0] - two.embedding_[1]) == pytest.approx(size, rel=1e-12)
            assert two.normalized_stress_ < 1e-12
    assert MDS(2, metric="precomputed").fit([3.0]).raw_stress_ < 1e-24


@pytest.mark.parametrize("metric_mds", [True, False])
def test_equal_points_and_duplicates(metric_mds):
    same = MDS(2, metric_mds=metric_mds).fit(np.full((6, 3), 4.0))
    if metric_mds:
        assert np.abs(same.embedding_).max() < 1e-12
        assert same.raw_stress_ < 1e-24
    X = np.repeat(np.random.default_rng(0).normal(size=(8, 3)), 3, axis=0)
    found = MDS(2, metric_mds=metric_mds, eps=1e-12, max_iter=2000).fit(X)
    assert np.isfinite(found.embedding_).all()
    if metric_mds:
        groups = found.embedding_.reshape(8, 3, 2)
        assert np.abs(groups - groups[:, :1]).max() < 1e-4


@pytest.mark.parametrize("p", [1, 2, 4])
def test_points_at_one_place_part(p):
    D = 1.0 - np.eye(6)
    start = np.zeros((6, p))
    assert Pairs.given(D, 6).descent(start)[3] == 15
    found = MDS(p, metric="precomputed", eps=1e-12).fit(D, init=start)
    assert found.history_[0] == 15.0
    assert found.raw_stress_ < 8.0
    assert Pairs.given(D, 6).descent(found.embedding_)[3] == 0
    assert np.abs(np.linalg.svd(found.embedding_)[1]).min() > 0.1  # along all axes


def test_the_certificate_knows_minima_and_saddles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    found = MDS(2, eps=1e-12, max_iter=3000).fit(X)
    test = found.check_minimum(X)
    assert test.verdict == "minimum"
    assert not test.proven
    assert test.bounds[0] <= test.least_eigenvalue <= test.bounds[1]
    # A plane of zeros along the second axis stays one: a saddle
    line = MDS(1, eps=1e-12, max_iter=3000).fit(X).embedding_
    flat = MDS(2, eps=1e-12, max_iter=3000).fit(X, init=np.hstack([line, np.zeros_like(line)]))
    assert flat.check_minimum(X).verdict == "saddle"
    assert (
        MDS(2, init="random", max_iter=1, random_state=0).fit(X).check_minimum(X).verdict == "not stationary"
    )


@pytest.mark.parametrize("weighted", [True, False])
def test_the_least_eigenvalue_is_that_of_the_whole_hessian(weighted):
    rng = np.random.default_rng(1)
    n = 30
    D = noisy(rng, n)
    W = random_weights(rng, n) if weighted else np.ones((n, n))
    found = MDS(2, metric="precomputed", eps=1e-14, max_iter=5000).fit(D, weights=W)
    X = found.embedding_
    H = np.empty((2 * n, 2 * n))
    step = 1e-5
    pairs = Pairs.given(D, n, weights=W)
    for k in range(2 * n):
        Y = np.zeros(2 * n)
        Y[k] = step
        Y = Y.reshape(n, 2)
        H[k] = ((pairs.descent(X - Y)[0] - pairs.descent(X + Y)[0]) / step).ravel()
    values = np.linalg.eigvalsh((H + H.T) / 2.0)
    assert np.abs(values[:3]).max() < 1e-3  # moves and the turn
    test = found.check_minimum(D, weights=W)
    assert test.verdict == "minimum"
    assert test.proven
    assert test.least_eigenvalue == pytest.approx(values[3], rel=1e-4)
    assert test.bounds[1] - test.bounds[0] < 1e-8 * n


def test_the_gradient_is_within_its_error():
    rng = np.random.default_rng(2)
    D = noisy(rng, 40)
    found = MDS(2, metric="precomputed", eps=0, max_iter=5000).fit(D)
    X, wide = found.embedding_, np.longdouble
    u = X[:, None].astype(wide) - X[None].astype(wide)
    d = np.sqrt((u**2).sum(axis=2))
    np.fill_diagonal(d, 1.0)
    exact = 2.0 * np.sqrt(((((1.0 - D / d)[:, :, None] * u).sum(axis=1)) ** 2).sum())
    assert abs(float(exact) - found.gradient_norm_) <= found.gradient_error_
    assert found.gradient_error_ < 1e-9
    assert found.stationarity_ < 1e-7
    assert found.status_ in ("converged", "precision")


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "precomputed"])
@pytest.mark.parametrize("metric_mds", [True, False])
def test_training_rows_are_placed_where_they_are(metric, metric_mds):
    X = np.random.default_rng(3).normal(size=(60, 4))
    given = distances(X) if metric == "precomputed" else X
    model = MDS(2, metric=metric, metric_mds=metric_mds)
    places = model.fit_transform(given)
    np.testing.assert_array_equal(places, model.embedding_)
    np.testing.assert_array_equal(model.transform(given), places)


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_new_rows_find_their_places(p):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(80, p)) + 7.0
    new = rng.normal(size=(11, p)) + 7.0
    model = MDS(p).fit(X)
    joint = np.vstack([model.embedding_, model.transform(new)])
    np.testing.assert_allclose(distances(joint), distances(np.vstack([X, new])), atol=1e-8)
    given = MDS(p, metric="precomputed").fit(distances(X))
    D = distances(new, X)
    np.testing.assert_allclose(distances(given.transform(D), given.embedding_), D, atol=1e-8)
    D[rng.random(D.shape) < 0.3] = np.nan
    np.testing.assert_allclose(distances(given.transform(D), given.embedding_), distances(new, X), atol=1e-6)


def test_a_new_row_has_the_least_stress_of_its_own():
    rng = np.random.default_rng(8)
    X, new = rng.normal(size=(100, 6)), rng.normal(size=(5, 6))
    model = MDS(2).fit(X)
    D, places = distances(new, X), model.transform(new)

    def stress(at, row):
        return ((row - np.linalg.norm(at - model.embedding_, axis=1)) ** 2).sum()

    for at, row in zip(places, D, strict=True):
        best = stress(at, row)
        for shift in 0.05 * rng.normal(size=(40, 2)):
            assert stress(at + shift, row) > best


def test_starts_are_counted_and_the_best_is_kept():
    D = noisy(np.random.default_rng(0), 40)
    words = dict(metric="precomputed", random_state=3)
    one = MDS(2, init="random", **words).fit(D)
    many = MDS(2, init="random", n_init=8, **words).fit(D)
    assert many.raw_stress_ <= one.raw_stress_
    again = MDS(2, init="random", n_init=8, **words).fit(D)
    assert again.embedding_.tobytes() == many.embedding_.tobytes()
    assert MDS(2, n_init=3, **words).fit(D).raw_stress_ <= MDS(2, **words).fit(D).raw_stress_


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_dissimilarities_of_any_size(scale):
    X = np.random.default_rng(0).normal(size=(30, 2))
    for metric, given in (("precomputed", distances(X) * scale), ("euclidean", X * min(scale, 1e149))):
        found = MDS(2, metric=metric).fit(given)
        unit = scale if metric == "precomputed" else min(scale, 1e149)
        assert procrustes(found.embedding_ / unit, X) < 1e-9
        assert found.normalized_stress_ < 1e-9
        assert found.check_minimum(given).verdict in ("minimum", "flat")


@pytest.mark.parametrize("scale", [1e100, 1e-100])
def test_dissimilarities_of_no_space_have_a_classical_start_of_any_size(scale):
    delta = np.random.default_rng(0).random(66 * 65 // 2)
    found, one = (MDS(2, metric="precomputed", max_iter=1).fit(delta * unit) for unit in (scale, 1.0))
    np.testing.assert_allclose(found.embedding_ / scale, one.embedding_, rtol=1e-6, atol=1e-9)


def test_a_weighted_step_of_three_points_ends():
    """Conjugate gradients have the solution after two steps; what is left is rounding."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        weights = rng.integers(1, 3, 3).astype(float)
        model = MDS(1, metric="precomputed", init="random", random_state=seed, eps=0.0, max_iter=100)
        model.fit(rng.random(3) * 10.0 ** rng.integers(-3, 4, 3), weights=weights)
        assert np.isfinite(model.embedding_).all()


def test_limits_are_reported():
    D = noisy(np.random.default_rng(1), 100)
    found = MDS(2, metric="precomputed", eps=0, max_iter=2).fit(D)
    assert (found.status_, found.n_iter_, len(found.history_)) == ("max_iter", 2, 3)
    found = MDS(2, metric="precomputed", max_time=1e-9).fit(D)
    assert (found.status_, found.n_iter_) == ("max_time", 0)
    assert found.raw_stress_ == pytest.approx(plain_stress(D, found.embedding_))


@pytest.mark.parametrize("metric_mds", [True, False])
def test_an_interrupt_returns_the_state_so_far(metric_mds):
    X = np.random.default_rng(1).normal(size=(300, 8))
    timer = threading.Timer(0.7, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(Interrupted) as caught:
        MDS(2, init="random", n_init=1_000_000, metric_mds=metric_mds, random_state=0).fit(X)
    timer.join()
    result = caught.value.result
    assert result.status_ == "interrupted"
    assert 0.0 < result.normalized_stress_ < 1.0


def test_an_interrupt_of_the_start_returns_it(monkeypatch):
    from bmrm import PCA

    fit = PCA.fit

    def interrupted_fit(self, X):
        signal.raise_signal(signal.SIGINT)
        return fit(self, X)

    monkeypatch.setattr(PCA, "fit", interrupted_fit)
    with pytest.raises(Interrupted) as caught:
        MDS(2).fit(np.random.default_rng(1).normal(size=(50, 3)))
    result = caught.value.result
    assert isinstance(result, MDS)
    assert (result.status_, result.n_iter_) == ("interrupted", 0)


def test_progress_is_shown(capsys):
    MDS(2, metric="precomputed", verbose=2, n_init=2, max_iter=3).fit(noisy(np.random.default_rng(1), 20))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("stress 0.")
    assert "start 1 of 2" in lines[0]
    assert "pass 1" in lines[0]


def test_memory_is_predicted_before_it_is_used(monkeypatch):
    monkeypatch.setattr("bmrm.unsupervised.manifold.estimator.available_bytes", lambda: 10_000)
    with pytest.raises(HostMemoryError, match="out of memory: 50 points need"):
        MDS(2).fit(np.eye(50))
    model = MDS(2)
    assert model._store(1000, 3) == model._store(10**6, 500) == "features"
    assert sum(MDS(2, metric_mds=False).memory(1000, 5).values()) > 72 * 499_500


SQUARE = 1.0 - np.eye(4)


def changed(i, j, value, both=True):
    D = SQUARE.copy()
    D[i, j] = value
    if both:
        D[j, i] = value
    return D


@pytest.mark.parametrize(
    ("D", "text"),
    [
        (
            changed(0, 2, 2.0, both=False),
            "row 1, column 3 has 2, and row 3, column 1 has 1: expected a symmetric",
        ),
        (changed(1, 2, np.nan, both=False), "row 2, column 3 has nan, and row 3, column 2 has 1"),
        (changed(1, 2, -1.0), "row 2, column 3 has -1, expected at least 0"),
        (changed(1, 2, np.inf), "row 2, column 3 has inf, expected a finite number"),
        (changed(3, 3, 1.0), "row 4, column 4 has 1, expected 0 on the diagonal"),
        (changed(3, 3, np.nan), "row 4, column 4 has nan, expected 0 on the diagonal"),
        (np.ones((3, 4)), r"found shape \(3, 4\), expected a square matrix"),
        (np.zeros((0, 0)), "found shape"),
        (np.ones(4), r"found 4 numbers, expected n \(n - 1\) / 2"),
        (np.array([1.0, -2.0, 1.0]), "row 1, column 3 has -2"),
        (sp.csr_array(SQUARE), "sparse matrix"),
        ([["a", "b"], ["c", "d"]], "X"),
        (np.where(np.eye(4) == 1.0, 0.0, np.nan), "found 4 groups of points that no known pair"),
        ([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]], "found 2 groups"),
    ],
)
def test_bad_dissimilarities(D, text):
    with pytest.raises(DataError, match=text) as caught:
        MDS(1, metric="precomputed").fit(D)
    assert "\n" not in str(caught.value)


BAD = [
    (dict(n_components=0), {}, ParameterError, "n_components: found 0"),
    (dict(n_components=5), {}, DataError, "n_components: found 5, expected at most 4, the number of points"),
    (dict(n_init=0), {}, ParameterError, "n_init"),
    (dict(max_iter=0), {}, ParameterError, "max_iter"),
    (dict(eps=-1.0), {}, ParameterError, "eps: found -1"),
    (dict(eps=np.nan), {}, ParameterError, "eps"),
    (dict(max_time=0), {}, ParameterError, "max_time"),
    (
        dict(init="pca"),
        {},
        ParameterError,
        "init: found 'pca', expected one of classical_mds, landmark, random",
    ),
    (dict(init=np.eye(4)), {}, ParameterError, "init: found"),
    (dict(store="disk"), {}, ParameterError, "store"),
    (dict(store="features"), {}, ParameterError, "store: found 'features'"),
    (dict(metric="nonsense"), {}, ParameterError, "metric: "),
    (dict(metric=3), {}, ParameterError, "metric: found 3"),
    (dict(metric_mds="no"), {}, ParameterError, "metric_mds"),
    (dict(relax="no"), {}, ParameterError, "relax"),
    (dict(normalized_stress="yes"), {}, ParameterError, "normalized_stress"),
    (dict(verbose=-1), {}, ParameterError, "verbose"),
    (dict(random_state=-1, init="random"), {}, ParameterError, "random_state"),
    (dict(threads=0), {}, ParameterError, "threads"),
    ({}, dict(init=np.eye(4)), DataError, r"init: found shape \(4, 4\), expected \(4, 1\)"),
    ({}, dict(init=np.full((4, 1), np.nan)), DataError, "init: .*nan"),
    ({}, dict(weights=np.ones((3, 3))), DataError, "weights: found 3 rows, expected 4"),
    ({}, dict(weights=-SQUARE), DataError, "weights: row 1, column 2 has -1"),
    (
        {},
        dict(weights=changed(0, 1, np.nan)),
        DataError,
        "weights: row 1, column 2 has nan, expected a number",
    ),
    ({}, dict(weights=changed(0, 1, np.inf)), DataError, "weights: row 1, column 2 has inf"),
    ({}, dict(weights=changed(0, 1, 2.0, both=False)), DataError, "weights: .* expected a symmetric"),
    ({}, dict(weights=changed(0, 1, 1e300) * changed(0, 2, 1e-300)), DataError, "weights: found 1e-300"),
    ({}, dict(weights=0.0 * SQUARE), DataError, "found 4 groups"),
]


@pytest.mark.parametrize(("options", "words", "error", "text"), BAD)
def test_bad_options_weights_and_starts(options, words, error, text):
    with pytest.raises(error, match=text) as caught:
        MDS(**{"n_components": 1, "metric": "precomputed", **options}).fit(SQUARE, **words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((0, 3)), "found 0 rows"),
        (np.zeros(3), "found shape"),
        (np.array([[1.0], [np.nan]]), "row 2"),
        (np.array([[1.0], [np.inf]]), "row 2"),
        (sp.csr_array(np.eye(3)), "found sparse rows"),
    ],
)
def test_bad_rows(X, text):
    with pytest.raises(DataError, match=text) as caught:
        MDS(1).fit(X)
    assert "\n" not in str(caught.value)


def test_a_model_checks_what_it_is_applied_to():
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(BmrmError, match="found no fitted model"):
        MDS(2).transform(X)
    model = MDS(2).fit(X)
    with pytest.raises(DataError, match="found 2 columns, expected 3"):
        model.transform(X[:, :2])
    with pytest.raises(DataError, match="found 19 points, expected 20"):
        model.check_minimum(X[:19])
    given = MDS(2, metric="precomputed").fit(distances(X))
    for bad, text in ((-np.ones((1, 20)), "negative"), (np.full((1, 20), np.nan), "without any known")):
        with pytest.raises(DataError, match=text):
            given.transform(bad)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X + 0.1), model.transform(X + 0.1))
    assert repr(MDS(3, eps=0.5)) == "MDS(n_components=3, eps=0.5)"


def test_float32_matrices_may_be_less_symmetric():
    D = distances(np.random.default_rng(0).normal(size=(20, 2))).astype(np.float32)
    D[1, 0] *= np.float32(1.0 + 1e-6)
    assert read_pairs("X", D, nan_allowed=False, diagonal=True, threads=1).values.dtype == np.float32
    with pytest.raises(DataError, match="symmetric"):
        read_pairs("X", D.astype(np.float64), nan_allowed=False, diagonal=True, threads=1)


def test_inspection_finds_the_first_defect():
    D = distances(np.random.default_rng(0).normal(size=(200, 2)))
    D[150, 3] = D[3, 150] = -1.0
    D[3, 149] = 5.0
    D[9, 9] = 1.0
    words = dict(nan_allowed=True, diagonal=0.0, tolerance=0.0)
    for threads in (1, 2, 3):
        assert inspect_pairs(D, 200, threads=threads, **words)[:3] == ("asymmetric", 3, 149)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_given_pairs(dtype):
    D = noisy(np.random.default_rng(0), 30).astype(dtype)
    for values in (D, D[np.triu_indices(30, 1)]):
        passes = HostScalingPasses(PairData(30, values, None, None, False, None))
        np.testing.assert_array_equal([passes.row(i) for i in (29, 0, 7)], D[[29, 0, 7]])
        condensed = PairArray(values, 30, 1.0, False).condensed()
        np.testing.assert_array_equal(condensed, D[np.triu_indices(30, 1)].astype(np.float64))


def test_a_weighted_step_solves_with_the_laplacian():
    rng = np.random.default_rng(1)
    D, W = noisy(rng, 50), random_weights(rng, 50)
    data = Dissimilarities(given=PairArray(D, 50, D.max(), False), weights=PairArray(W, 50, W.max(), False))
    stress = Stress(data)
    X = rng.normal(size=(50, 2))
    found = stress.evaluate(X)
    moved = X + stress.guttman_step(found)
    np.testing.assert_allclose(moved - moved.mean(axis=0), plain_step(D, X, W), rtol=1e-5, atol=1e-5)


def test_scikit_learns_tools_accept_the_estimator():
    base = pytest.importorskip("sklearn.base")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import get_tags

    model = base.clone(MDS(2, eps=1e-3))
    assert model.get_params()["eps"] == 1e-3
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert make_pipeline(StandardScaler(), model).fit_transform(X).shape == (50, 2)
    assert get_tags(MDS(metric="precomputed")).input_tags.pairwise
    assert not get_tags(model).input_tags.pairwise
