"""The passes of k-means on a GPU or the emulator, against float64 and those of the CPU."""

from __future__ import annotations

import cluster_cases as cases
import emulated
import numpy as np
import pytest
import scipy.sparse as sp
from devices import IS_EMULATED, cuda, few, gpu, large, on_device, sized

from bmrm import KMeans
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import SparseRows
from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import choose_parallel

pytestmark = gpu
on_emulator = pytest.mark.skipif(not IS_EMULATED, reason="only the emulator can be another device")

# (n, d, k, dtype, options)
SMALL = [
    (1, 1, 1, np.float64, {}),
    (5, 3, 5, np.float32, {}),
    (700, 2, 5, np.float32, {}),
    (1000, 1, 3, np.float64, {"weighted": True}),
    (513, 4, 40, np.float32, {"weighted": True, "offset": 1e4}),
    (300, 3, 1, np.float32, {}),
    (900, 7, 30, np.float64, {"scale": 1e30}),
    (640, 16, 64, np.float32, {}),
    (333, 20, 9, np.float32, {"scale": 1e-30}),
    (257, 40, 9, np.float32, {}),
    (150, 70, 140, np.float64, {"weighted": True}),
    (400, 5, 600, np.float32, {}),
]
LARGE = [
    pytest.param(n, d, k, dtype, {"weighted": weighted}, marks=large)
    for n, d, k in (
        (1, 1, 1), (5, 3, 5), (4097, 1, 3), (100_003, 2, 300), (50_000, 3, 7), (30_001, 4, 100),
        (20_000, 7, 30), (20_011, 16, 64), (9_000, 16, 700), (7_000, 32, 33), (5_001, 33, 5),
        (9_001, 128, 200), (3_000, 784, 256), (2_000, 100, 1500), (30_000, 2, 5000),
    )
    for dtype in (np.float32, np.float64)
    for weighted in (False, True)
]  # fmt: skip


def host(case):
    return HostClusters(RowSet(case.X, case.weights, threads=1))


def on_gpu(case, *limits):
    return DeviceClusters(RowSet(case.X, case.weights, 4), 0, *limits)


@pytest.mark.parametrize(("n", "d", "k", "dtype", "options"), [*SMALL, *LARGE])
def test_a_pass_is_that_of_float64(n, d, k, dtype, options):
    case = cases.make(np.random.default_rng(n + k), n, d, k, dtype, **options)
    cases.check(case, on_gpu(case))


@on_emulator
def test_no_bit_depends_on_the_grid():
    for d, k in ((2, 9), (2, 800), (40, 20)):
        case = cases.make(np.random.default_rng(d), 1500, d, k, np.float32, weighted=True)
        found = []
        for multiprocessors in (1, 5):
            emulated.configure(1, multiprocessors=multiprocessors)
            passes = on_gpu(case)
            result = passes.assign(case.centers)
            found.append(
                (result.sums.tobytes(), result.cluster_weights.tobytes(), result[2:], passes.labels())
            )
        assert found[0][:3] == found[1][:3]
        np.testing.assert_array_equal(found[0][3], found[1][3])


@on_emulator
def test_devices_without_tensor_cores_for_bfloat16_decide_in_float64():
    emulated.configure(1, (7, 5))
    case = cases.make(np.random.default_rng(0), 200, 50, 7, np.float32)
    assert cases.check(case, on_gpu(case)) == 1.0


@pytest.mark.parametrize("d", [3, 16, 64])
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-5, 1e8, 1e30])
def test_scales_do_not_matter(d, scale):
    case = cases.make(np.random.default_rng(d), sized(1000, 5000), d, 20, np.float64, scale=scale)
    share = cases.check(case, DeviceClusters(RowSet(case.X, None), 0))
    assert share < 0.6


@pytest.mark.parametrize("d", [2, 16, 50])
def test_ties_go_to_the_least_centre(d):
    rng = np.random.default_rng(d)
    X = rng.integers(-2, 3, (sized(600, 20_000), d)).astype(np.float32)
    case = cases.Case(X, None, np.concatenate([X[:20], X[:20]]).astype(np.float64))
    cases.check(case, DeviceClusters(RowSet(X, None), 0))


@pytest.mark.parametrize("d", [2, 64])
def test_rows_that_are_all_equal(d):
    X = np.full((sized(300, 3000), d), 1.25)
    case = cases.Case(X, None, np.array([X[0] + 1.0, X[0], X[0]]))
    passes = DeviceClusters(RowSet(X, None), 0)
    cases.check(case, passes)
    assert passes.assign(case.centers).inertia == 0.0


@pytest.mark.parametrize("d", [2, 64])
def test_centres_that_overflow_float32(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sized(300, 3000), d))
    centers = rng.normal(size=(4, d))
    centers[2] *= 1e60
    assert cases.check(cases.Case(X, None, centers), DeviceClusters(RowSet(X, None), 0)) == 1.0


def test_clear_rows_are_not_decided_twice():
    n = sized(500, 20_000)
    for d, k in few(((2, 50), (16, 30), (128, 200)), 2):
        rng = np.random.default_rng(d)
        points = rng.normal(size=(k, d))
        X = (points[rng.integers(0, k, n)] + 0.05 * rng.normal(size=(n, d))).astype(np.float32)
        found = DeviceClusters(RowSet(X, None), 0).assign(points)
        assert found.rechecked < 0.01 * len(X)


@pytest.mark.parametrize(("d", "k"), [(2, 9), (40, 12), pytest.param(3, 2000, marks=large)])
def test_the_other_passes(d, k):
    rng = np.random.default_rng(d)
    case = cases.make(rng, sized(1100, 5003), d, k, np.float32, weighted=True)
    passes = DeviceClusters(RowSet(case.X, case.weights), 0)
    cases.check_others(case, passes, rng)


@pytest.mark.parametrize("d", [2, 64])
def test_rows_on_the_gpu_are_used_in_place(d):
    n = sized(500, 5000)
    case = cases.make(np.random.default_rng(d), n, d, 20, np.float32)
    there = on_device(case.X)
    before = cuda.device_info()["free_bytes"]
    passes = DeviceClusters(RowSet(DeviceArray("X", there, 2, (np.float32, np.float64)), None), 0)
    cases.check(case, passes)
    np.testing.assert_array_equal(passes.take(np.array([3, n - 1])), case.X[[3, n - 1]])
    here = DeviceClusters(RowSet(case.X, None), 0)
    np.testing.assert_array_equal(passes.assign(case.centers).sums, here.assign(case.centers).sums)
    assert before - cuda.device_info()["free_bytes"] < 1 << 30
    there[7, 0] = np.nan
    with pytest.raises(DataError, match="found NaN or infinity on the GPU"):
        DeviceClusters(RowSet(DeviceArray("X", there, 2, (np.float32, np.float64)), None), 0)


def test_memory_is_predicted():
    for n, d, k in sized(
        [(1000, 2, 30), (300, 70, 20)], [(100_000, 2, 300), (20_000, 128, 200), (50_000, 16, 500)]
    ):
        case = cases.make(np.random.default_rng(0), n, d, k, np.float32)
        predicted = cuda.predict_cluster_bytes(n, d, k, np.float32, True)
        rows = cuda.Clusters(case.X, memory_limit=predicted)
        rows.pack(np.zeros(d), 0.125)
        rows.assign(case.centers, rows.labels())


@pytest.mark.parametrize(
    ("n", "d", "k", "ones"),
    [
        (300, 20, 5, False),
        (200, 60, 150, False),
        (1, 1, 1, True),
        (300, 30, 7, True),
        pytest.param(5000, 20, 5, False, marks=large),
        pytest.param(3000, 300, 150, False, marks=large),
        pytest.param(3000, 30, 7, True, marks=large),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows(n, d, k, ones, dtype):
    rng = np.random.default_rng(n)
    case = cases.make_sparse(rng, n, d, max(k, 2), dtype, ones=ones)
    passes = DeviceClusters(RowSet(cases.compressed(case.X), case.weights), 0)
    cases.check(case, passes, sparse=True)
    if not ones:  # rows of ones have equal distances, of which any may be drawn
        cases.check_others(case, passes, rng)


def test_sparse_rows_without_entries():
    case = cases.Case(np.zeros((40, 6)), None, np.array([[0.0] * 6, [1.0] * 6]))
    cases.check(case, DeviceClusters(RowSet(cases.compressed(case.X), None), 0), sparse=True)


def test_a_fit_of_sparse_rows_is_that_of_the_cpu():
    X = cases.make_sparse(np.random.default_rng(3), sized(300, 3000), 50, 4).X
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
    case = cases.make(np.random.default_rng(0), sized(600, 20_000), d, 7, np.float32, spread=spread)
    cases.check(case, DeviceClusters(RowSet(case.X, None), 0))


PARALLEL = [
    (1100, 3, np.float64, {}),
    (700, 20, np.float64, {"weighted": True, "offset": 1e3}),
    (300, 40, np.float64, {"scale": 1e-40}),
    *(
        pytest.param(3001, d, dtype, {"weighted": True, "offset": 5.0}, marks=large)
        for d in (2, 16, 40, 784)
        for dtype in (np.float32, np.float64)
    ),
]


@pytest.mark.parametrize(("n", "d", "dtype", "options"), PARALLEL)
def test_rows_are_drawn_as_on_the_cpu(n, d, dtype, options):
    case, drawn = cases.make(np.random.default_rng(n), n, d, 9, dtype, **options), []
    for multiprocessors in (1, 5) if IS_EMULATED else (0,):
        if multiprocessors:
            emulated.configure(1, multiprocessors=multiprocessors)
        drawn.append(cases.check_parallel_seeding(case, on_gpu(case), np.random.default_rng(1)))
    expected = cases.check_parallel_seeding(case, host(case), np.random.default_rng(1))
    for others in drawn:
        np.testing.assert_array_equal(others, expected)


@pytest.mark.parametrize(
    ("n", "d", "k", "weighted"),
    [
        (1500, 3, 25, True),
        (1500, 40, 25, True),
        pytest.param(50_000, 2, 700, False, marks=large),
        pytest.param(20_000, 16, 300, False, marks=large),
        pytest.param(9000, 128, 64, False, marks=large),
    ],
)
def test_parallel_seeds_are_those_of_the_cpu(n, d, k, weighted):
    case = cases.make(np.random.default_rng(d), n, d, 9 if weighted else 99, np.float32, weighted=weighted)
    rows = RowSet(case.X, case.weights)
    chosen = [
        choose_parallel(passes, k, np.random.default_rng(0), rows)
        for passes in (on_gpu(case), on_gpu(case), host(case))
    ]
    for others in chosen[1:]:
        np.testing.assert_array_equal(chosen[0], others)
    assert len(np.unique(chosen[0])) == k


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_drawn_as_on_the_cpu(dtype):
    case = cases.make_sparse(np.random.default_rng(2), sized(300, 3000), sized(30, 60), 9, dtype)
    sparse = case._replace(X=cases.compressed(case.X))
    drawn = [
        cases.check_parallel_seeding(case, passes, np.random.default_rng(1))
        for passes in (on_gpu(sparse), host(sparse))
    ]
    np.testing.assert_array_equal(*drawn)


BLOCKS = [
    (1024, 4, 3, 5, np.float32, False),
    (1024, 4, 2, 5, np.float64, True),
    (1024, 4, 40, 5, np.float32, True),
    *(
        pytest.param(8192, 11, d, k, np.float32, weighted, marks=large)
        for d, k in ((2, 30), (16, 64), (64, 20), (3, 3000))
        for weighted in (False, True)
    ),
]


def limits_of_blocks(one, columns, count):
    """How much memory lets how many of some blocks stay."""
    some = count // 2 + 1
    return (count * one, count), (some * one + columns, some - 2), (2 * one + columns, 0)


@pytest.mark.parametrize(("size", "count", "d", "k", "dtype", "weighted"), BLOCKS)
def test_blocks_that_are_copied_in_each_pass_give_the_bits_of_blocks_that_stay(
    monkeypatch, size, count, d, k, dtype, weighted
):
    rng = np.random.default_rng(d)
    case = cases.make(rng, (count - 1) * size + 100, d, k, dtype, weighted=weighted)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size * d * np.dtype(dtype).itemsize)
    one = cuda.predict_cluster_bytes(size, d, k, dtype, True)
    found = []
    for limit, stay in limits_of_blocks(one, blocks.COLUMN_BYTES * len(case.X), count):
        passes = on_gpu(case, k, limit)
        assert passes.note.startswith(f"{stay} of {count} blocks of {size} rows stay") == (stay < count)
        found += [cases.bits(case, passes), cases.bits(case, passes)]
    assert all(each == found[0] for each in found)
    passes.reset()
    cases.check(case, passes)
    if weighted:
        cases.check_others(case, passes, rng)
    with pytest.raises(DeviceMemoryError, match="on the GPU for blocks of rows"):
        on_gpu(case, k, one)


@pytest.mark.parametrize(
    ("dtype", "ones"), [(np.float32, False), (np.float64, False), (np.float32, True)]
)  # ones are not stored, whatever their type
def test_blocks_of_sparse_rows_give_the_bits_of_blocks_that_stay(monkeypatch, dtype, ones):
    rng, size, count, d, k = np.random.default_rng(4), *sized((1024, 4, 10, 5), (2048, 11, 40, 9))
    case = cases.make_sparse(rng, (count - 1) * size + 100, d, k, dtype, ones=ones)
    case = case._replace(weights=None if ones else case.weights)
    case.X[size : 2 * size, 3:] = 0  # blocks have unlike numbers of values
    X = cases.compressed(case.X)
    assert (X.data is None) == ones
    total = X.nnz * (X.value_bytes + 4) + 8 * len(case.X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", (size + 1) * total // len(case.X))
    most = int(np.diff(X.indptr[::size]).max())
    one = cuda.predict_sparse_cluster_bytes(size, d, most, k, None if ones else dtype)
    found = []
    for limit, stay in limits_of_blocks(one, blocks.COLUMN_BYTES * len(case.X), count):
        passes = DeviceClusters(RowSet(X, case.weights, 4), 0, k, limit)
        assert passes.note.startswith(f"{stay} of {count} blocks of {size} rows stay") == (stay < count)
        found += [cases.bits(case, passes), cases.bits(case, passes)]
    assert all(each == found[0] for each in found)
    passes.reset()
    cases.check(case, passes, sparse=True)
    with pytest.raises(DeviceMemoryError, match="on the GPU for blocks of rows"):
        DeviceClusters(RowSet(X, None), 0, k, one)


def test_sparse_rows_that_do_not_fit_in_their_place_are_refused():
    X = cases.compressed(np.eye(6, 4))
    held = cuda.Clusters.sparse(X.indptr, X.indices, None, X.shape)
    held.load(SparseRows(X)[2:5])
    np.testing.assert_array_equal(held.take(np.arange(3)), np.eye(6, 4)[2:5])
    more = cases.compressed(np.ones((2, 4)))
    with pytest.raises(ParameterError, match="no more stored values than announced"):
        held.load(more)
    with pytest.raises(ParameterError, match="values and weights if there were some at first"):
        held.load(SparseRows(X)[2:5], np.ones(3))
    with pytest.raises(ParameterError, match="values and weights"):
        held.load(X._replace(data=np.ones(4)))


def test_memory_of_sparse_rows_is_predicted():
    sizes = [(100_000, 30, 300, True), (20_000, 5000, 20, False), (50_000, 500, 64, True)]
    for n, d, k, values in sized([(1000, 30, 30, True), (300, 500, 20, False)], sizes):
        X = sp.random_array((n, d), density=0.02, format="csr", rng=np.random.default_rng(0))
        data = X.data if values else None
        predicted = cuda.predict_sparse_cluster_bytes(n, d, X.nnz, k, np.float64 if values else None)
        starts, columns = X.indptr.astype(np.int64), X.indices
        rows = cuda.Clusters.sparse(starts, columns, data, X.shape, memory_limit=predicted)
        rows.assign(np.random.default_rng(1).random((k, d)), rows.labels())


@large
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
    monkeypatch.setattr(blocks, "room_for_blocks", lambda *of: limit)
    found = KMeans(12, **options).fit(X)
    assert found.placement_.reason.startswith(f"as given; {stay} of 10 blocks of 32768 rows stay")
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    assert found.history_ == whole.history_


def test_a_fit_of_rows_in_a_file_that_do_not_fit_is_that_of_rows_that_do(monkeypatch, tmp_path):
    rng, n, k, size = np.random.default_rng(0), *sized((4000, 5, 1024), (300_000, 12, 1 << 15))
    points = 4 * rng.normal(size=(k, 8))
    X = (points[rng.integers(0, k, n)] + rng.normal(size=(n, 8))).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size * 8 * 4)
    options = {"random_state": 0, "device": "cuda", "max_iter": sized(2, 10)}
    whole = KMeans(k, **options).fit(X)
    assert whole.placement_.reason == "as given"
    one, count = cuda.predict_cluster_bytes(size, 8, k, np.float32, True), -(-n // size)
    limit = (count // 2) * one + sized(blocks.COLUMN_BYTES * n, 0)
    stay = blocks.count_resident(count, one, one, limit, blocks.COLUMN_BYTES * len(X))
    assert sized(-1, 0) < stay < count
    monkeypatch.setattr(blocks, "room_for_blocks", lambda rows, *of: None if rows.on_gpu else limit)
    found = KMeans(k, **options).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert found.placement_.reason.startswith(f"as given; {stay} of {count} blocks of {size} rows stay")
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    np.testing.assert_array_equal(found.labels_, whole.labels_)
    assert found.history_ == whole.history_
    there = KMeans(k, **options).fit(on_device(X))
    assert there.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
