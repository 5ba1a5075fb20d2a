"""KMeans against float64 brute force, NumPy and scikit-learn, and its certificate against enumeration."""

import itertools
import pickle
import signal
import threading
from unittest import mock

import cluster_cases as cases
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from instruction_sets import assert_same_results

import bmrm
from bmrm import KMeans
from bmrm.distributed.row_set import RowSet
from bmrm.errors import BmrmError, DataError, Interrupted, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix._cpu import instruction_set
from bmrm.unsupervised.clusters import cpu as host_passes
from bmrm.unsupervised.clusters import lloyd
from bmrm.unsupervised.clusters._clusters import KeptSums
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.draws import uniform_of_rows
from bmrm.unsupervised.clusters.lower_bounds import bound_by_spectrum, bound_small
from bmrm.unsupervised.clusters.seeding import choose_parallel, choose_plus_plus
from bmrm.unsupervised.decomposition.scatter import scatter_matrix


def blobs(rng, n, d, k, dtype=np.float64, spread=3.0, offset=0.0):
    centers = spread * rng.normal(size=(k, d))
    return (centers[rng.integers(0, k, n)] + rng.normal(size=(n, d)) + offset).astype(dtype)


def distances(X, centers):
    X = X.toarray() if sp.issparse(X) else X
    return ((X.astype(np.float64)[:, None] - centers) ** 2).sum(axis=2)


def clusters(X, weights=None, threads=1):
    return HostClusters(RowSet(X, weights, threads))


def exact_labels(X, centers, labels):
    """Whether each label has the least distance in float64, up to the last bits of sums in another order."""
    D = distances(X, centers)
    least = D.min(axis=1)
    return (D[np.arange(len(D)), labels] <= least + 1e-14 * (1.0 + least) * D.shape[1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "d", "k"),
    [(1, 1, 1), (63, 1, 2), (64, 3, 4), (65, 2, 5), (500, 17, 9), (300, 130, 33), (5000, 4, 7)],
)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_labels_and_sums_are_those_of_float64(dtype, n, d, k, offset):
    rng = np.random.default_rng(n + d + k)
    X = blobs(rng, n, d, k, dtype, offset=offset)
    centers = X[rng.integers(0, n, k)] + rng.normal(size=(k, d))
    weights = rng.integers(0, 4, n).astype(np.float64) + 0.5
    passes = clusters(X, weights, 2)
    found = passes.assign(centers)
    labels = passes.labels()
    D = distances(X, centers)
    np.testing.assert_array_equal(labels, D.argmin(axis=1))
    assert found.changed == n
    np.testing.assert_allclose(found.cluster_weights, np.bincount(labels, weights, k), rtol=1e-15)
    expected = np.zeros((k, d))
    np.add.at(expected, labels, weights[:, None] * (X.astype(np.float64) - centers[labels]))
    np.testing.assert_allclose(found.sums, expected, rtol=1e-10, atol=1e-9)
    inertia = float((weights * D.min(axis=1)).sum())
    assert abs(found.inertia - inertia) <= 2 * passes.inertia_error(centers, inertia)


def exact_sums(X, centers, labels, weights):
    """Sums of w (x - c) and of w |x - c|^2 by long double arithmetic."""
    E = X.astype(np.longdouble) - centers.astype(np.longdouble)[labels]
    sums = np.zeros(centers.shape, np.longdouble)
    np.add.at(sums, labels, weights[:, None] * E)
    return sums, (weights * (E**2).sum(axis=1)).sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["blobs", "far", "outliers", "repeated"])
def test_sums_kept_from_pass_to_pass_are_those_of_all_rows(kind, weighted):
    """Also if centres jump, clusters empty, or what leaves a cluster is larger than what stays."""
    rng = np.random.default_rng(3)
    n, d, k = 5000, 6, 7
    X = blobs(rng, n, d, k, offset=1e6 if kind == "far" else 0.0)
    if kind == "outliers":
        X[::500] *= 1e7
        X[1::500] *= 1e-7
    if kind == "repeated":
        X = X[rng.integers(0, 12, n)]
    weights = rng.integers(0, 3, n) * 0.7 if weighted else np.ones(n)
    passes = clusters(X, weights if weighted else None, 2)
    centers, moved = X[rng.integers(0, n, k)], 0
    for step in range(25):
        before = passes.labels()
        found = passes.assign(centers)
        labels = passes.labels()
        assert exact_labels(X, centers, labels)
        assert found.changed == (labels != before).sum()
        moved += 0 < found.changed < 0.4 * n
        sums, inertia = exact_sums(X, centers, labels, weights)
        assert abs(found.inertia - inertia) <= passes.inertia_error(centers, found.inertia) + 1e-300
        counts = np.bincount(labels, weights, k)
        np.testing.assert_allclose(found.cluster_weights, counts, rtol=1e-13)
        assert ((found.cluster_weights == 0.0) == (counts == 0.0)).all()
        own = weights * distances(X, centers)[np.arange(n), labels]
        spread = np.sqrt(np.bincount(labels, own, k) * counts)
        assert (np.abs(found.sums - sums) <= 1e-12 * spread[:, None] + 1e-300).all()
        centers = centers + found.sums / np.maximum(found.cluster_weights, 1e-300)[:, None]
        if step % 9 == 4:
            centers[step % k] = X[rng.integers(0, n)]
        if step % 9 == 7:
            centers[step % k] = 1e9
        if step == 15:
            passes.assign(centers, want_sums=False)  # changes labels, and no sums
        if step == 20:
            passes.reset()
    assert moved >= 3


def moving_centers(rng, X, k):
    """Yield centres that move as in Lloyd's method, with some jumps, and with equal ones at the end."""
    centers = X[rng.choice(len(X), k, replace=False)].astype(np.float64)
    for step in range(10):
        yield centers
        D = distances(X, centers)
        labels = D.argmin(axis=1)
        means = [X[labels == j].mean(axis=0) if (labels == j).any() else centers[j] for j in range(k)]
        centers = np.array(means, np.float64)
        if step % 4 == 3:
            centers[rng.integers(k)] = X[rng.integers(len(X))]
    centers = centers.copy()
    centers[1], centers[-1] = centers[0], centers[k // 2]
    yield centers
    yield centers


@pytest.mark.parametrize(
    ("n", "d", "k", "dtype", "kind"),
    [
        (900, 64, 70, np.float32, "blobs"),
        (700, 130, 33, np.float64, "blobs"),
        (500, 16, 300, np.float32, "blobs"),  # groups of several sets of centres
        (800, 70, 64, np.float32, "ties"),
        (800, 128, 40, np.float64, "far from 0"),
    ],
)
def test_bounds_change_neither_labels_nor_sums(monkeypatch, n, d, k, dtype, kind):
    rng = np.random.default_rng(d)
    X = blobs(rng, n, d, k, dtype, spread=0.5, offset=1e4 if kind == "far from 0" else 0.0)
    if kind == "ties":
        X = np.round(X)
    weights = rng.random(n)
    bounded, threaded = clusters(X, weights), clusters(X, weights, threads=3)
    monkeypatch.setattr(host_passes, "KeptSums", lambda **_: KeptSums(bounded=False))
    plain = clusters(X, weights)
    plain.assign(X[:k].astype(np.float64))  # keeps its sums from now on
    monkeypatch.undo()
    for passes in (bounded, threaded):
        passes.assign(X[:k].astype(np.float64))
    assert bounded._kept[0].bounded
    assert not plain._kept[0].bounded
    for centers in moving_centers(rng, X, k):
        found, other, same = (passes.assign(centers) for passes in (bounded, plain, threaded))
        assert exact_labels(X, centers, bounded.labels())
        for passes, its in ((plain, other), (threaded, same)):
            assert (passes.labels() == bounded.labels()).all()
            assert (its.sums == found.sums).all()
            assert its.inertia == found.inertia
            assert its.changed == found.changed


def test_rows_that_are_packed_block_by_block_give_the_same_bits(monkeypatch):
    X = blobs(np.random.default_rng(5), 9000, 5, 6, spread=1.0)
    whole = KMeans(6, tol=0, max_iter=25, random_state=1).fit(X)
    monkeypatch.setattr(RowSet, "bytes_fit", lambda *_: False)
    monkeypatch.setattr("bmrm.unsupervised.clusters.cpu.BLOCK_BYTES", X[:4096].nbytes)
    blocks = KMeans(6, tol=0, max_iter=25, random_state=1).fit(X)
    assert blocks.n_iter_ > 9
    for name in ("cluster_centers_", "labels_", "inertia_", "history_", "cluster_weights_"):
        np.testing.assert_array_equal(getattr(blocks, name), getattr(whole, name))


def test_a_pass_of_another_number_of_centres_begins_anew():
    X = blobs(np.random.default_rng(4), 3000, 3, 4)
    passes = clusters(X, None, 1)
    for k in (4, 2, 4, 4):
        found = passes.assign(X[:k])
        sums, inertia = exact_sums(X, X[:k], passes.labels(), np.ones(3000))
        np.testing.assert_allclose(found.sums, sums.astype(float), rtol=1e-10, atol=1e-9)
        assert abs(found.inertia - inertia) <= passes.inertia_error(X[:k], found.inertia)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("ones", [False, True])
def test_sparse_rows_are_labelled_as_dense_ones(dtype, index, ones):
    rng = np.random.default_rng(5)
    S = sp.random_array((700, 90), density=0.05, format="csr", rng=rng, dtype=np.float64).astype(dtype)
    S.sort_indices()
    if ones:
        S.data[:] = 1.0
    X = Csr(S.indptr.astype(np.int64), S.indices.astype(index), None if ones else S.data, S.shape)
    centers = S[:6].toarray() + 0.1 * rng.normal(size=(6, 90))
    weights = rng.random(700)
    passes = clusters(X, weights, 2)
    found = passes.assign(centers)
    labels = passes.labels()
    D = distances(S, centers)
    assert exact_labels(S, centers, labels)
    assert abs(found.inertia - weights @ D.min(axis=1)) <= passes.inertia_error(centers, found.inertia)
    expected = np.zeros((6, 90))
    np.add.at(expected, labels, weights[:, None] * (S.toarray().astype(np.float64) - centers[labels]))
    np.testing.assert_allclose(found.sums, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(passes.own_distances(centers), D.min(axis=1), rtol=1e-10, atol=1e-12)
    dense = clusters(S.toarray(), weights, 2)
    dense.assign(centers)
    moves, _ = passes.single_moves(centers, found.cluster_weights)
    assert moves == dense.single_moves(centers, found.cluster_weights)[0]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sparse=st.booleans(), single=st.booleans())
def test_ties_go_to_the_least_centre(seed, sparse, single):
    """On integers all distances are exact, and many are equal."""
    rng = np.random.default_rng(seed)
    n, d, k = (int(rng.integers(1, most)) for most in (200, 12, 20))
    X = rng.integers(-2, 3, (n, d)).astype(np.float32 if single else np.float64)
    centers = rng.integers(-2, 3, (k, d)).astype(np.float64)
    passes = clusters(Csr.from_scipy(sp.csr_array(X)) if sparse else X)
    found = passes.assign(centers)
    labels = passes.labels()
    D = distances(X, centers)
    np.testing.assert_array_equal(labels, D.argmin(axis=1))
    assert found.inertia == D.min(axis=1).sum()


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e140])
def test_values_beyond_float32_are_labelled_exactly(scale):
    rng = np.random.default_rng(2)
    X = blobs(rng, 200, 5, 4) * scale
    passes = clusters(X)
    passes.assign(X[:9])
    np.testing.assert_array_equal(passes.labels(), distances(X / scale, X[:9] / scale).argmin(axis=1))


def test_far_centres_and_equal_rows_are_decided_in_float64():
    X = np.full((100, 3), 0.1, np.float32)
    passes = clusters(X)
    found = passes.assign(np.array([[1e60, 0, 0], [0.2, 0, 0], [0.2, 0, 0]]))
    assert (passes.labels() == 1).all()
    assert found.rechecked == 100


def test_results_have_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(3)
    dense = blobs(rng, 20_000, 6, 12, np.float32)
    sparse = sp.random_array((20_000, 60), density=0.05, format="csr", rng=rng)
    for X in (dense, sparse):
        fits = [KMeans(12, random_state=1, threads=t, max_iter=15).fit(X) for t in (1, 2, 3)]
        for other in fits[1:]:
            assert other.cluster_centers_.tobytes() == fits[0].cluster_centers_.tobytes()
            assert other.history_ == fits[0].history_
            assert (other.labels_ == fits[0].labels_).all()


@pytest.mark.parametrize("lower", ["avx2", "baseline"])
@pytest.mark.skipif(instruction_set() == "baseline", reason="this processor has no other instruction set")
def test_instruction_sets_differ_by_rounding_alone(lower):
    program = """
import numpy as np
from bmrm.matrix._cpu import instruction_set
from bmrm import KMeans
rng = np.random.default_rng(0)
print(instruction_set())
for dtype in (np.float32, np.float64):
    X = (rng.normal(size=(3000, 5)) + 5 * rng.integers(0, 3, (3000, 1))).astype(dtype)
    found = KMeans(4, init=X[:4], tol=0).fit(X)
    for value in [*found.cluster_centers_.ravel(), found.inertia_, *found.labels_[:200]]:
        print(float(value).hex())
"""
    assert_same_results(program, lower)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse", "fortran", "integer"])
def test_a_fit_is_scikit_learns(dtype, kind):
    cluster = pytest.importorskip("sklearn.cluster")
    rng = np.random.default_rng(11)
    X = blobs(rng, 900, 5, 6, spread=8.0)
    if kind == "sparse":
        X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    X = X.round() if kind == "integer" else X.astype(dtype)
    init = X[:6].astype(np.float64)
    given = {"sparse": sp.csr_matrix, "fortran": np.asfortranarray}.get(kind, np.asarray)(X)
    weights = rng.random(900)
    mine = KMeans(6, init=init, tol=0).fit(given, sample_weight=weights)
    theirs = cluster.KMeans(6, init=init, n_init=1, tol=0).fit(X.astype(np.float64), sample_weight=weights)
    np.testing.assert_array_equal(mine.labels_, theirs.labels_)
    np.testing.assert_allclose(mine.cluster_centers_, theirs.cluster_centers_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mine.inertia_, theirs.inertia_, rtol=1e-9)
    np.testing.assert_allclose(mine.transform(given), theirs.transform(X.astype(np.float64)), atol=1e-6)
    np.testing.assert_array_equal(mine.predict(given), theirs.predict(X.astype(np.float64)))
    assert abs(mine.score(given, sample_weight=weights) + mine.inertia_) <= 2 * mine.inertia_error_
    assert mine.status_ == "converged"


def test_the_inertia_falls_until_no_label_changes():
    X = blobs(np.random.default_rng(4), 3000, 8, 3, np.float32)
    found = KMeans(20, random_state=0, tol=0).fit(X)
    steps = np.diff(found.history_)
    assert (steps <= found.inertia_error_).all()
    assert found.history_[-1] == found.inertia_
    assert len(found.history_) == found.n_iter_ + 1
    means = np.array([X[found.labels_ == j].astype(np.float64).mean(axis=0) for j in range(20)])
    np.testing.assert_allclose(found.cluster_centers_, means, rtol=1e-12, atol=1e-13)
    assert found.rechecked_ < 0.05


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_whole_weight_counts_as_repeated_rows_and_zero_as_none(seed):
    rng = np.random.default_rng(seed)
    X = blobs(rng, 60, 3, 4)
    weights = rng.integers(0, 4, 60)
    weights[:4] = 1
    with mock.patch.object(lloyd, "_take_farthest", wraps=lloyd._take_farthest) as taken:
        fits = [
            KMeans(4, init=X[:4], tol=0).fit(X, sample_weight=weights),
            KMeans(4, init=X[:4], tol=0).fit(np.repeat(X, weights, axis=0)),
            KMeans(4, init=X[:4], tol=0).fit(X[weights > 0], sample_weight=7.0 * weights[weights > 0]),
        ]
    assume(not taken.called)  # an empty cluster takes a row, and one of several equal rows weighs less
    for other in fits[1:]:
        np.testing.assert_allclose(other.cluster_centers_, fits[0].cluster_centers_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(fits[2].inertia_, 7.0 * fits[0].inertia_, rtol=1e-10)
    assert fits[0].labels_.shape == (60,)


def test_empty_clusters_get_the_farthest_rows():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [30.0]])
    init = np.array([[1.0], [100.0], [200.0]])
    found = KMeans(3, init=init, max_iter=1).fit(X)
    # All rows are at the first centre: the second takes 30, the third 10.
    np.testing.assert_array_equal(found.cluster_centers_.ravel(), [1.0, 30.0, 10.0])
    np.testing.assert_array_equal(found.labels_, [0, 0, 0, 2, 1])
    weighted = KMeans(3, init=init, max_iter=1).fit(X, sample_weight=[1, 1, 1, 100, 1])
    assert weighted.cluster_centers_[1, 0] == 10.0
    sparse = KMeans(3, init=init, max_iter=1).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.cluster_centers_, found.cluster_centers_)


def test_clusters_stay_empty_if_all_rows_are_at_centres():
    X = np.repeat([[0.0, 1.0], [2.0, 3.0]], 5, axis=0)
    with pytest.warns(UserWarning, match="2 of 4 clusters are empty"):
        found = KMeans(4, random_state=0).fit(X)
    assert found.inertia_ == 0.0
    assert (found.cluster_weights_ > 0).sum() == 2


def test_rows_are_drawn_by_weight_and_squared_distance():
    rng = np.random.default_rng(0)
    X = np.sqrt(rng.integers(0, 3, (150, 1)).astype(np.float64))
    X[64:128] = X[0] = 0.0
    weights = rng.integers(0, 3, 150).astype(np.float64)
    shares = X[:, 0] ** 2 * weights
    passes = clusters(X, weights)
    passes.take_center(0)
    counts = np.bincount(passes.draw((np.arange(20_000) + 0.5) / 20_000), minlength=150)
    np.testing.assert_allclose(counts / 20_000, shares / shares.sum(), atol=2e-4)
    assert (counts[shares == 0.0] == 0).all()
    counts = np.bincount(passes.draw_by_weight((np.arange(20_000) + 0.5) / 20_000), minlength=150)
    np.testing.assert_allclose(counts / 20_000, weights / weights.sum(), atol=2e-4)
    assert (passes.draw_by_weight(np.array([0.0, 1.0 - 2.0**-53])) == np.flatnonzero(weights)[[0, -1]]).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_potentials_are_those_of_a_loop(sparse):
    rng = np.random.default_rng(8)
    X = rng.integers(-3, 4, (150, 5)).astype(np.float64)
    weights = rng.integers(0, 3, 150).astype(np.float64)
    passes = clusters(Csr.from_scipy(sp.csr_array(X)) if sparse else X, weights, 2)
    first = passes.take_center(7)
    unit = first / (weights @ distances(X, X[7:8])[:, 0])  # dense rows are scaled
    rows = np.array([3, 50, 149, 80, 12, 1])
    found = passes.potentials(rows) / unit
    D = distances(X, X[7:8])
    expected = [weights @ np.minimum(D[:, 0], distances(X, X[i : i + 1])[:, 0]) for i in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_seeding_prefers_distinct_rows_and_repeats_them_only_if_it_must():
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(4), 50, axis=0)
    chosen = choose_plus_plus(clusters(X), 4, rng)
    assert len({*map(tuple, X[chosen])}) == 4
    assert len(choose_plus_plus(clusters(X), 7, rng)) == 7


@pytest.mark.parametrize("kind", ["float32", "float64", "sparse"])
def test_rows_are_drawn_by_themselves_by_weight_and_distance(kind):
    rng = np.random.default_rng(3)
    if kind == "sparse":
        case = cases.make_sparse(rng, 700, 20, 9)
        rows = RowSet(cases.compressed(case.X), case.weights)
    else:
        case = cases.make(rng, 700, 5, 9, kind, weighted=True, offset=100.0)
        rows = RowSet(case.X, case.weights)
    cases.check_parallel_seeding(case, HostClusters(rows), np.random.default_rng(0))
    drawn = uniform_of_rows(7, 10**6, 10**6 + 100_000)
    np.testing.assert_allclose(np.histogram(drawn, 10, (0.0, 1.0))[0], 10_000, rtol=0.05)


def test_parallel_seeding_is_as_good_and_prefers_distinct_rows():
    X = blobs(np.random.default_rng(1), 4000, 3, 60, spread=8.0)
    for k in (2, 60, 300):
        found = {
            init: np.mean(
                [
                    KMeans(k, init=init, random_state=i, max_iter=1, threads=1, device="cpu")
                    .fit(X)
                    .history_[0]
                    for i in range(4)
                ]
            )
            for init in ("k-means++", "k-means||")
        }
        assert found["k-means||"] < 1.1 * found["k-means++"]
    X = np.repeat(np.eye(4), 50, axis=0)
    rows, rng = RowSet(X, None), np.random.default_rng(0)
    chosen = choose_parallel(HostClusters(rows), 4, rng, rows)
    assert len({*map(tuple, X[chosen])}) == 4
    assert len(choose_parallel(HostClusters(rows), 7, rng, rows)) == 7
    rows = RowSet(np.zeros((50, 3)), None)
    assert len(choose_parallel(HostClusters(rows), 3, rng, rows)) == 3
    weights = np.zeros(200)
    weights[[3, 70, 150]] = 1.0
    rows = RowSet(X, weights)
    assert set(choose_parallel(HostClusters(rows), 3, rng, rows)) == {3, 70, 150}


def test_seeds_and_starts():
    X = blobs(np.random.default_rng(1), 400, 3, 5, spread=1.0)
    for init in (
        "k-means++",
        "k-means||",
        "random",
        lambda X, k, random_state: X[random_state.integers(0, len(X), k)],
    ):
        one = KMeans(9, init=init, random_state=3).fit(X)
        again = KMeans(9, init=init, random_state=3).fit(X)
        assert one.inertia_ == again.inertia_
        assert KMeans(9, init=init, random_state=3, n_init=12).fit(X).inertia_ <= one.inertia_
    state = np.random.RandomState(0)
    assert KMeans(3, random_state=state).fit(X).status_ == "converged"
    assert KMeans(3, random_state=np.random.default_rng(1)).fit(X).status_ == "converged"


def test_rows_may_be_those_of_a_data_set():
    rng = np.random.default_rng(1)
    X, weights = blobs(rng, 300, 4, 3, np.float32), rng.integers(1, 4, 300)
    found = KMeans(3, random_state=0).fit(bmrm.Dataset(X, sample_weight=weights))
    plain = KMeans(3, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(found.cluster_centers_, plain.cluster_centers_)
    with pytest.raises(DataError, match="found a Dataset of 300 stored values, expected dense rows"):
        KMeans(2).fit(bmrm.Dataset(sp.eye_array(300, format="csr")))


def test_limits_are_reported():
    X = blobs(np.random.default_rng(1), 3000, 5, 3)
    found = KMeans(30, max_iter=2, tol=0, random_state=0).fit(X)
    assert (found.status_, found.n_iter_) == ("max_iter", 2)
    assert exact_labels(X, found.cluster_centers_, found.labels_)
    found = KMeans(30, max_time=1e-9, tol=0, random_state=0).fit(X)
    assert (found.status_, found.n_iter_) == ("max_time", 0)
    assert exact_labels(X, found.cluster_centers_, found.labels_)


def test_an_interrupt_returns_the_state_so_far():
    X = blobs(np.random.default_rng(1), 5000, 8, 3)
    timer = threading.Timer(1.0, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(Interrupted) as caught:
        KMeans(40, tol=0, n_init=10_000, random_state=0).fit(X)
    timer.join()
    result = caught.value.result
    assert result.status_ == "interrupted"
    assert exact_labels(X, result.cluster_centers_, result.labels_)


BAD = [
    (dict(n_clusters=0), None, ParameterError, "n_clusters: found 0, expected an integer of at least 1"),
    (dict(n_clusters=2.5), None, ParameterError, "n_clusters: found 2.5"),
    (dict(n_clusters=9), None, DataError, "n_clusters: found 9, expected at most 8, the number of rows"),
    (dict(init="kmeans"), None, ParameterError, "init: found 'kmeans'"),
    (dict(init=np.zeros((3, 3))), None, ParameterError, r"init: found shape \(3, 3\), expected \(2, 3\)"),
    (dict(init=np.full((2, 3), np.nan)), None, ParameterError, "init: .*nan"),
    (dict(n_init=0), None, ParameterError, "n_init"),
    (dict(max_iter=0), None, ParameterError, "max_iter"),
    (dict(tol=-1.0), None, ParameterError, "tol: found -1"),
    (dict(max_time=0), None, ParameterError, "max_time"),
    (dict(random_state=-1), None, ParameterError, "random_state"),
    (dict(threads=0), None, ParameterError, "threads"),
    (dict(device="gpu"), None, ParameterError, "device"),
    ({}, [1.0] * 7, DataError, r"sample_weight: found shape \(7,\), expected \(8,\)"),
    ({}, [1.0] * 7 + [-1.0], DataError, "sample_weight: found -1"),
    ({}, [1.0] * 7 + [np.nan], DataError, "sample_weight: .*nan"),
    ({}, [0.0] * 8, DataError, "sample_weight: found only zeros"),
    ({}, [0.0] * 7 + [1.0], DataError, "expected at most 1, the number of rows of positive weight"),
]


@pytest.mark.parametrize(("options", "weights", "error", "text"), BAD)
def test_bad_options_and_weights(options, weights, error, text):
    X = np.random.default_rng(0).normal(size=(8, 3))
    with pytest.raises(error, match=text) as caught:
        KMeans(**{"n_clusters": 2, "random_state": 0, **options}).fit(X, sample_weight=weights)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((0, 3)), "found 0 rows"),
        (np.zeros((3, 0)), "0 columns"),
        (np.zeros(3), "found shape"),
        ([["a"], ["b"]], "X"),
        (np.array([[1.0], [np.nan]]), "row 2.*nan"),
        (np.array([[1.0], [-np.inf]]), "row 2.*inf"),
        (np.array([[1.0], [1e200]]), "at most 1e\\+150"),
        (np.array([[1.0], [1j]]), "X"),
        (sp.csr_array(np.array([[1.0], [np.nan]])), "finite"),
        (Csr(np.array([0, 1]), np.array([7], np.int32), np.array([1.0]), (1, 2)), "found the column 7"),
        (Csr(np.array([0, 3]), np.array([0], np.int32), None, (1, 2)), "row pointers"),
        (Csr(np.array([0, 1]), np.array([0], np.int32), np.array([np.inf]), (1, 2)), "row 1 has inf"),
    ],
)
def test_bad_rows(X, text):
    with pytest.raises(DataError, match=text) as caught:
        KMeans(1).fit(X)
    assert "\n" not in str(caught.value)


def test_a_model_checks_what_it_is_applied_to():
    with pytest.raises(BmrmError, match="found no fitted model"):
        KMeans(2).predict(np.eye(2))
    found = KMeans(2, random_state=0).fit(np.eye(3))
    with pytest.raises(DataError, match="found 2 columns, expected 3"):
        found.predict(np.eye(2))
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict(np.eye(3)), found.labels_)
    assert repr(found) == "KMeans(n_clusters=2, random_state=0)"
    with pytest.raises(ParameterError, match="k: no parameter of KMeans"):
        found.set_params(k=3)


def test_scikit_learns_tools_accept_the_estimator():
    base = pytest.importorskip("sklearn.base")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = blobs(np.random.default_rng(0), 200, 3, 3)
    model = base.clone(KMeans(3, random_state=0, tol=0.0))
    assert model.get_params()["tol"] == 0.0
    found = make_pipeline(StandardScaler(), model).fit(X)
    assert found.predict(X).shape == (200,)


def optimum(X, k):
    """The least inertia over all ways to put rows into k clusters."""
    best = np.inf
    for labels in itertools.product(range(k), repeat=len(X) - 1):
        labels = np.array([0, *labels])
        total = sum(
            ((X[labels == j] - X[labels == j].mean(axis=0)) ** 2).sum()
            for j in range(k)
            if (labels == j).any()
        )
        best = min(best, total)
    return best


@pytest.mark.parametrize("scale", [1.0, 1e140, 1e-140])
def test_distances_of_sparse_rows_near_centres_keep_their_digits(scale):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 30)) < 0.2, rng.normal(size=(60, 30)), 0.0) * scale
    near = X[:6] * (1.0 + 1e-9 * rng.normal(size=(6, 30)))
    centers = np.concatenate([near, X[:4], rng.normal(size=(2, 30)) * scale])
    model = KMeans.of_centers(centers)
    found = model.transform(sp.csr_array(X))
    np.testing.assert_allclose(found, model.transform(X), rtol=1e-11, atol=0.0)
    assert (found.argmin(axis=1) == model.predict(sp.csr_array(X))).all()


@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_for_the_best_of_all_clusterings(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 2)) + 4 * rng.integers(0, 2, (8, 1))
    for k in (2, 3):
        best = optimum(X, k)
        scatter = scatter_matrix(RowSet(X, None), center=True)
        for bound in (bound_small(X, k, rng), bound_by_spectrum(scatter, k)):
            assert bound <= best * (1 + 1e-12)
        assert bound_small(X, k, rng) >= 0.5 * best


def test_the_certificate_bounds_and_counts_moves():
    rng = np.random.default_rng(0)
    X = blobs(rng, 600, 4, 3, spread=8.0)
    found = KMeans(3, random_state=0, tol=0).fit(X)
    sure = found.certificate(X, samples=0)
    assert sure.confidence == 1.0
    assert 0.0 < sure.lower_bound <= found.inertia_
    likely = found.certificate(X, samples=16, size=80, confidence=0.99)
    assert sure.lower_bound <= likely.lower_bound <= found.inertia_
    assert likely.ratio < 2.0
    assert likely.inertia == found.inertia_


def test_single_moves_are_counted():
    X = np.array([[0.0], [3.9], [8.0]])
    labels = np.array([0, 0, 1], np.int32)
    centers = np.array([[1.95], [8.0]])
    passes = clusters(X)
    passes._labels[:] = labels
    # Away from its own: 2/1 * 1.95^2; into the other: 1/2 * 4.1^2.
    assert passes.single_moves(centers, np.array([2.0, 1.0])) == (0, 0.0)
    X[1], centers[0] = 4.1, 2.05
    moves, gain = passes.single_moves(centers, np.array([2.0, 1.0]))
    assert moves == 1
    np.testing.assert_allclose(gain, 2 * 2.05**2 - 0.5 * 3.9**2)


def test_weights_count_in_single_moves():
    rng = np.random.default_rng(5)
    X, weights = rng.normal(size=(40, 2)), rng.integers(1, 4, 40).astype(float)
    labels = rng.integers(0, 3, 40).astype(np.int32)

    def inertia(labels):
        total = 0.0
        for j in range(3):
            some = labels == j
            mean = np.average(X[some], axis=0, weights=weights[some])
            total += (weights[some] * ((X[some] - mean) ** 2).sum(axis=1)).sum()
        return total

    centers = np.array([np.average(X[labels == j], axis=0, weights=weights[labels == j]) for j in range(3)])
    gains = []
    for i in range(40):
        others = []
        for j in range(3):
            moved = labels.copy()
            moved[i] = j
            others.append(inertia(labels) - inertia(moved))
        gains.append(max(others))
    passes = clusters(X, weights)
    passes._labels[:] = labels
    moves, gain = passes.single_moves(centers, np.bincount(labels, weights))
    assert moves == (np.array(gains) > 1e-12).sum()
    np.testing.assert_allclose(gain, max(gains))


def test_a_callback_sees_each_pass():
    X = np.random.default_rng(0).normal(size=(300, 3))
    seen = []
    model = KMeans(5, init="random", n_init=2, random_state=0, tol=0, callback=seen.append).fit(X)
    assert {state.start for state in seen} == {0, 1}
    for start in (0, 1):
        states = [state for state in seen if state.start == start]
        assert [state.iteration for state in states] == list(range(len(states)))
        assert states[0].changed == 300
    history = min(([s.inertia for s in seen if s.start == start] for start in (0, 1)), key=lambda h: h[-1])
    assert history == model.history_
    assert sorted(state.seconds for state in seen) == [state.seconds for state in seen]
    with pytest.raises(ParameterError, match="callback: found 3, expected a callable"):
        KMeans(5, callback=3).fit(X)


def test_progress_is_shown(capsys):
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = KMeans(5, init="random", n_init=2, random_state=0, verbose=2).fit(X)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("move 0  inertia ")
    assert "300 labels changed" in lines[0]
    assert f"inertia {model.inertia_:.6g}" in "".join(lines)
    assert lines[-1].startswith("start 2  move ")
    KMeans(5, verbose=1).fit(X)
    assert capsys.readouterr().err == ""  # no terminal


def test_a_model_of_given_centres_labels_rows():
    X = np.random.default_rng(0).normal(size=(300, 3))
    fitted = KMeans(5, random_state=0).fit(X)
    model = KMeans.of_centers(fitted.cluster_centers_.tolist(), threads=1)
    assert (model.predict(X) == fitted.labels_).all()
    assert abs(-model.score(X) - fitted.inertia_) <= 2 * fitted.inertia_error_
    assert (model.n_clusters, model.threads, model.n_features_in_) == (5, 1, 3)
    for centers in ([1.0, 2.0], [[]], [[np.nan]], "centres"):
        with pytest.raises(ParameterError, match="centers: "):
            KMeans.of_centers(centers)
