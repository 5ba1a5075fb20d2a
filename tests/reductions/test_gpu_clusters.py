"""The passes of k-means on a GPU, against float64 and those of the CPU."""

from __future__ import annotations

import cluster_cases as cases
import numpy as np
import pytest
import scipy.sparse as sp

from bmrm import KMeans
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import choose_parallel

cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
pytestmark = pytest.mark.skipif(not cuda.device_count(), reason="there is no CUDA device")

SHAPES = [
    (1, 1, 1), (5, 3, 5), (4097, 1, 3), (100_003, 2, 300), (50_000, 3, 7), (30_001, 4, 100), (20_000, 7, 30),
    (20_011, 16, 64), (9_000, 16, 700), (7_000, 32, 33), (5_001, 33, 5), (9_001, 128, 200), (3_000, 784, 256),
    (2_000, 100, 1500), (30_000, 2, 5000),
]  # fmt: skip


@pytest.mark.parametrize(("n", "d", "k"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_is_that_of_float64(n, d, k, dtype, weighted):
    case = cases.make(np.random.default_rng(n + k), n, d, k, dtype, weighted=weighted)
    cases.check(case, DeviceClusters(RowSet(case.X, case.weights), 0))


@pytest.mark.parametrize("d", [3, 16, 64])
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-5, 1e8, 1e30])
def test_scales_do_not_matter(d, scale):
    case = cases.make(np.random.default_rng(d), 5000, d, 20, np.float64, scale=scale)
    share = cases.check(case, DeviceClusters(RowSet(case.X, None), 0))
    assert share < 0.6


@pytest.mark.parametrize("d", [2, 16, 50])
def test_ties_go_to_the_least_centre(d):
    rng = np.random.default_rng(d)
    X = rng.integers(-2, 3, (20_000, d)).astype(np.float32)
    case = cases.Case(X, None, np.concatenate([X[:20], X[:20]]).astype(np.float64))
    cases.check(case, DeviceClusters(RowSet(X, None), 0))


@pytest.mark.parametrize("d", [2, 64])
def test_rows_that_are_all_equal(d):
    X = np.full((3000, d), 1.25)
    case = cases.Case(X, None, np.array([X[0] + 1.0, X[0], X[0]]))
    passes = DeviceClusters(RowSet(X, None), 0)
    cases.check(case, passes)
    assert passes.assign(case.centers).inertia == 0.0


@pytest.mark.parametrize("d", [2, 64])
def test_centres_that_overflow_float32(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, d))
    centers = rng.normal(size=(4, d))
    centers[2] *= 1e60
    assert cases.check(cases.Case(X, None, centers), DeviceClusters(RowSet(X, None), 0)) == 1.0


def test_clear_rows_are_not_decided_twice():
    for d, k in ((2, 50), (16, 30), (128, 200)):
        rng = np.random.default_rng(d)
        points = rng.normal(size=(k, d))
        X = (points[rng.integers(0, k, 20_000)] + 0.05 * rng.normal(size=(20_000, d))).astype(np.float32)
        found = DeviceClusters(RowSet(X, None), 0).assign(points)
        assert found.rechecked < 0.01 * len(X)


@pytest.mark.parametrize(("d", "k"), [(2, 9), (40, 12), (3, 2000)])
def test_the_other_passes(d, k):
    rng = np.random.default_rng(d)
    case = cases.make(rng, 5003, d, k, np.float32, weighted=True)
    passes = DeviceClusters(RowSet(case.X, case.weights), 0)
    cases.check_others(case, passes, rng)


@pytest.mark.parametrize("d", [2, 64])
def test_rows_on_the_gpu_are_used_in_place(d):
    cp = pytest.importorskip("cupy")
    case = cases.make(np.random.default_rng(d), 5000, d, 20, np.float32)
    there = cp.asarray(case.X)
    before = cp.cuda.runtime.memGetInfo()[0]
    passes = DeviceClusters(RowSet(DeviceArray("X", there, 2, (np.float32, np.float64)), None), 0)
    cases.check(case, passes)
    np.testing.assert_array_equal(passes.take(np.array([3, 4999])), case.X[[3, 4999]])
    here = DeviceClusters(RowSet(case.X, None), 0)
    np.testing.assert_array_equal(passes.assign(case.centers).sums, here.assign(case.centers).sums)
    assert before - cp.cuda.runtime.memGetInfo()[0] < 1 << 30
    there[7, 0] = cp.nan
    with pytest.raises(DataError, match="found NaN or infinity on the GPU"):
        DeviceClusters(RowSet(DeviceArray("X", there, 2, (np.float32, np.float64)), None), 0)


def test_memory_is_predicted():
    for n, d, k in ((100_000, 2, 300), (20_000, 128, 200), (50_000, 16, 500)):
        case = cases.make(np.random.default_rng(0), n, d, k, np.float32)
        predicted = cuda.predict_cluster_bytes(n, d, k, np.float32, True)
        rows = cuda.Clusters(case.X, memory_limit=predicted)
        rows.pack(np.zeros(d), 0.125)
        rows.assign(case.centers, rows.labels())


@pytest.mark.parametrize(
    ("n", "d", "k", "ones"),
    [(5000, 20, 5, False), (3000, 300, 150, False), (1, 1, 1, True), (3000, 30, 7, True)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows(n, d, k, ones, dtype):
    rng = np.random.default_rng(n)
    case = cases.make_sparse(rng, n, d, max(k, 2), dtype, ones=ones)
    passes = DeviceClusters(RowSet(cases.compressed(case.X), case.weights), 0)
    cases.check(case, passes, sparse=True)
    if not ones:
        cases.check_others(case, passes, rng)


def test_sparse_rows_without_entries():
    case = cases.Case(np.zeros((40, 6)), None, np.array([[0.0] * 6, [1.0] * 6]))
    cases.check(case, DeviceClusters(RowSet(cases.compressed(case.X), None), 0), sparse=True)


def test_a_fit_of_sparse_rows_is_that_of_the_cpu():
    X = cases.make_sparse(np.random.default_rng(3), 3000, 50, 4).X
    init = X[:7].astype(np.float64)
    options = {"init": init, "max_iter": 10, "tol": 0.0}
    here = KMeans(7, device="cpu", **options).fit(cases.compressed(X))
    there = KMeans(7, device="cuda", **options).fit(cases.compressed(X))
    assert there.placement_.device == "cuda:0"
    np.testing.assert_array_equal(here.labels_, there.labels_)
    np.testing.assert_allclose(here.cluster_centers_, there.cluster_centers_, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(here.predict(X), there.predict(cases.compressed(X)))
    np.testing.assert_allclose(here.transform(X), there.transform(cases.compressed(X)), atol=1e-7)


@pytest.mark.parametrize("d", [2, 16])
@pytest.mark.parametrize("spread", [1e-3, 1e-6, 0.0])
def test_clusters_may_be_tight(d, spread):
    case = cases.make(np.random.default_rng(0), 20_000, d, 7, np.float32, spread=spread)
    cases.check(case, DeviceClusters(RowSet(case.X, None), 0))


@pytest.mark.parametrize("d", [2, 16, 40, 784])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_drawn_as_on_the_cpu(d, dtype):
    case = cases.make(np.random.default_rng(d), 3001, d, 9, dtype, weighted=True, offset=5.0)
    found = [
        cases.check_parallel_seeding(case, passes, np.random.default_rng(1))
        for passes in (
            DeviceClusters(RowSet(case.X, case.weights), 0),
            HostClusters(RowSet(case.X, case.weights)),
        )
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("n", "d", "k"), [(50_000, 2, 700), (20_000, 16, 300), (9000, 128, 64)])
def test_parallel_seeds_are_those_of_the_cpu(n, d, k):
    case = cases.make(np.random.default_rng(d), n, d, 99, np.float32)
    chosen = [
        choose_parallel(passes, k, np.random.default_rng(0), RowSet(case.X, None))
        for passes in (
            DeviceClusters(RowSet(case.X, None), 0),
            DeviceClusters(RowSet(case.X, None), 0),
            HostClusters(RowSet(case.X, None)),
        )
    ]
    for others in chosen[1:]:
        np.testing.assert_array_equal(chosen[0], others)
    assert len(np.unique(chosen[0])) == k


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_drawn_as_on_the_cpu(dtype):
    case = cases.make_sparse(np.random.default_rng(2), 3000, 60, 9, dtype)
    sparse = cases.compressed(case.X)
    found = [
        cases.check_parallel_seeding(case, passes, np.random.default_rng(1))
        for passes in (
            DeviceClusters(RowSet(sparse, case.weights), 0),
            HostClusters(RowSet(sparse, case.weights)),
        )
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("d", "k"), [(2, 30), (16, 64), (64, 20), (3, 3000)])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_that_are_copied_in_each_pass_give_the_bits_of_blocks_that_stay(monkeypatch, d, k, weighted):
    rng = np.random.default_rng(d)
    case = cases.make(rng, 10 * 8192 + 100, d, k, np.float32, weighted=weighted)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8192 * d * 4)
    one = cuda.predict_cluster_bytes(8192, d, k, np.float32, True)
    columns = blocks.COLUMN_BYTES * len(case.X)
    found = []
    for limit, stay in ((11 * one, 11), (6 * one + columns, 4), (2 * one + columns, 0)):
        passes = DeviceClusters(RowSet(case.X, case.weights, 4), 0, k, limit)
        assert passes.note.startswith(f"{stay} of 11 blocks of 8192 rows stay") == (stay < 11)
        found += [cases.bits(case, passes), cases.bits(case, passes)]
    assert all(each == found[0] for each in found)
    passes.reset()
    cases.check(case, passes)
    if weighted:
        cases.check_others(case, passes, rng)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ones", [False, True])
def test_blocks_of_sparse_rows_give_the_bits_of_blocks_that_stay(monkeypatch, dtype, ones):
    rng = np.random.default_rng(4)
    case = cases.make_sparse(rng, 10 * 2048 + 100, 40, 9, dtype, ones=ones)
    case.X[2048:4096, 3:] = 0  # blocks have unlike numbers of values
    X = cases.compressed(case.X)
    total = X.nnz * (X.value_bytes + 4) + 8 * len(case.X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2049 * total // len(case.X))
    most = int(np.diff(X.indptr[::2048]).max())
    one = cuda.predict_sparse_cluster_bytes(2048, 40, most, 9, None if ones else dtype)
    columns = blocks.COLUMN_BYTES * len(case.X)
    found = []
    for limit, stay in ((11 * one, 11), (6 * one + columns, 4), (2 * one + columns, 0)):
        passes = DeviceClusters(RowSet(X, case.weights, 4), 0, 9, limit)
        assert passes.note.startswith(f"{stay} of 11 blocks of 2048 rows stay") == (stay < 11)
        found += [cases.bits(case, passes), cases.bits(case, passes)]
    assert all(each == found[0] for each in found)
    passes.reset()
    cases.check(case, passes, sparse=True)


def test_memory_of_sparse_rows_is_predicted():
    for n, d, k, values in ((100_000, 30, 300, True), (20_000, 5000, 20, False), (50_000, 500, 64, True)):
        X = sp.random_array((n, d), density=0.02, format="csr", rng=np.random.default_rng(0))
        data = X.data if values else None
        predicted = cuda.predict_sparse_cluster_bytes(n, d, X.nnz, k, np.float64 if values else None)
        starts, columns = X.indptr.astype(np.int64), X.indices
        rows = cuda.Clusters.sparse(starts, columns, data, X.shape, memory_limit=predicted)
        rows.assign(np.random.default_rng(1).random((k, d)), rows.labels())


def test_a_fit_of_sparse_rows_that_do_not_fit_is_that_of_rows_that_do(monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random_array((300_000, 200), density=0.05, format="csr", rng=rng, dtype=np.float32)
    options = {"random_state": 0, "device": "cuda", "max_iter": 5}
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 22)
    whole = KMeans(12, **options).fit(X)
    assert whole.placement_.reason == "as given"
    most = int(np.diff(X.indptr[::32768]).max())
    one = cuda.predict_sparse_cluster_bytes(32768, 200, most, 12, np.float32)
    limit = 5 * one
    stay = blocks.count_resident(10, one, one, limit, blocks.COLUMN_BYTES * X.shape[0])
    assert 0 < stay < 10
    monkeypatch.setattr(blocks, "free_share", lambda rows, gpu: limit)
    found = KMeans(12, **options).fit(X)
    assert found.placement_.reason.startswith(f"as given; {stay} of 10 blocks of 32768 rows stay")
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    assert found.history_ == whole.history_


def test_a_fit_of_rows_in_a_file_that_do_not_fit_is_that_of_rows_that_do(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    points = 4 * rng.normal(size=(12, 8))
    X = (points[rng.integers(0, 12, 300_000)] + rng.normal(size=(300_000, 8))).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 20)
    options = {"random_state": 0, "device": "cuda", "max_iter": 10}
    whole = KMeans(12, **options).fit(X)
    assert whole.placement_.reason == "as given"
    one = cuda.predict_cluster_bytes(1 << 15, 8, 12, np.float32, True)
    limit = 5 * one
    stay = blocks.count_resident(10, one, one, limit, blocks.COLUMN_BYTES * len(X))
    assert 0 < stay < 10
    monkeypatch.setattr(blocks, "free_share", lambda rows, gpu: limit)
    found = KMeans(12, **options).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert found.placement_.reason.startswith(f"as given; {stay} of 10 blocks of 32768 rows stay")
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    assert found.history_ == whole.history_
    cp = pytest.importorskip("cupy")
    there = KMeans(12, **options).fit(cp.asarray(X))
    assert there.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
