"""The passes of k-means on a GPU, with their kernels run on the CPU (emulated_clusters.py)."""

from __future__ import annotations

import shutil

import cluster_cases as cases
import emulated_clusters
import numpy as np
import pytest

from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DeviceMemoryError
from bmrm.unsupervised.clusters import gpu as clusters
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import choose_parallel

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture(scope="module")
def library():
    return emulated_clusters.load()


@pytest.fixture
def use(library, monkeypatch):
    """Let passes find an emulated device."""

    def use(major=9, multiprocessors=3):
        found = emulated_clusters.Module(library, major, multiprocessors)
        monkeypatch.setattr(clusters, "import_cuda", lambda: found)

    use()
    return use


@pytest.mark.parametrize(
    ("n", "d", "k", "dtype", "options"),
    [
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
    ],
)
def test_a_pass_is_that_of_float64(use, n, d, k, dtype, options):
    case = cases.make(np.random.default_rng(n), n, d, k, dtype, **options)
    cases.check(case, DeviceClusters(RowSet(case.X, case.weights), 0))


def test_no_bit_depends_on_the_grid(use):
    for d, k in ((2, 9), (2, 800), (40, 20)):
        case = cases.make(np.random.default_rng(d), 1500, d, k, np.float32, weighted=True)
        found = []
        for multiprocessors in (1, 5):
            use(multiprocessors=multiprocessors)
            passes = DeviceClusters(RowSet(case.X, case.weights), 0)
            result = passes.assign(case.centers)
            found.append(
                (result.sums.tobytes(), result.cluster_weights.tobytes(), result[2:], passes.labels())
            )
        assert found[0][:3] == found[1][:3]
        np.testing.assert_array_equal(found[0][3], found[1][3])


def test_devices_without_tensor_cores_for_bfloat16_decide_in_float64(use):
    use(major=7)
    case = cases.make(np.random.default_rng(0), 200, 50, 7, np.float32)
    assert cases.check(case, DeviceClusters(RowSet(case.X, None), 0)) == 1.0


@pytest.mark.parametrize("d", [2, 40])
def test_the_other_passes(use, d):
    rng = np.random.default_rng(d)
    case = cases.make(rng, 1100, d, 9, np.float32, weighted=True)
    cases.check_others(case, DeviceClusters(RowSet(case.X, case.weights), 0), rng)


@pytest.mark.parametrize(
    ("n", "d", "k", "ones"), [(300, 20, 5, False), (200, 60, 150, False), (300, 30, 7, True)]
)
def test_sparse_rows(use, n, d, k, ones):
    rng = np.random.default_rng(n)
    case = cases.make_sparse(rng, n, d, k, np.float64, ones=ones)
    passes = DeviceClusters(RowSet(cases.compressed(case.X), case.weights), 0)
    cases.check(case, passes, sparse=True)
    if not ones:  # rows of ones have equal distances, of which any may be drawn
        cases.check_others(case, passes, rng)


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 0.0])
def test_clusters_may_be_tight(use, spread):
    case = cases.make(np.random.default_rng(0), 600, 3, 7, np.float32, spread=spread)
    cases.check(case, DeviceClusters(RowSet(case.X, None), 0))


PARALLEL = [(1100, 3, {}), (700, 20, {"weighted": True, "offset": 1e3}), (300, 40, {"scale": 1e-40})]


@pytest.mark.parametrize(("n", "d", "options"), PARALLEL)
def test_rows_are_drawn_as_on_the_cpu(use, n, d, options):
    case = cases.make(np.random.default_rng(n), n, d, 9, np.float64, **options)
    drawn = []
    for multiprocessors in (1, 5):
        use(multiprocessors=multiprocessors)
        passes = DeviceClusters(RowSet(case.X, case.weights), 0)
        drawn.append(cases.check_parallel_seeding(case, passes, np.random.default_rng(1)))
    drawn.append(cases.check_parallel_seeding(case, host(case), np.random.default_rng(1)))
    for others in drawn[1:]:
        np.testing.assert_array_equal(drawn[0], others)


def test_sparse_rows_are_drawn_as_on_the_cpu(use):
    case = cases.make_sparse(np.random.default_rng(2), 300, 30, 9, np.float64)
    sparse = case._replace(X=cases.compressed(case.X))
    drawn = [
        cases.check_parallel_seeding(case, passes, np.random.default_rng(1))
        for passes in (DeviceClusters(RowSet(sparse.X, case.weights), 0), host(sparse))
    ]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("d", [3, 40])
def test_parallel_seeds_are_those_of_the_cpu(use, d):
    case = cases.make(np.random.default_rng(d), 1500, d, 9, np.float32, weighted=True)
    rows = RowSet(case.X, case.weights)
    chosen = [
        choose_parallel(passes, 25, np.random.default_rng(0), rows)
        for passes in (DeviceClusters(RowSet(case.X, case.weights), 0), host(case))
    ]
    np.testing.assert_array_equal(*chosen)
    assert len(np.unique(chosen[0])) == 25


def host(case):
    return HostClusters(RowSet(case.X, case.weights, threads=1))


@pytest.mark.parametrize(
    ("d", "dtype", "weighted"), [(3, np.float32, False), (2, np.float64, True), (40, np.float32, True)]
)
def test_blocks_that_are_copied_in_each_pass_give_the_bits_of_blocks_that_stay(
    use, monkeypatch, d, dtype, weighted
):
    rng = np.random.default_rng(d)
    case = cases.make(rng, 3 * 1024 + 100, d, 5, dtype, weighted=weighted)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1024 * d * np.dtype(dtype).itemsize)
    one = clusters.import_cuda().predict_cluster_bytes(1024, d, 5, dtype, True)
    columns = blocks.COLUMN_BYTES * len(case.X)
    found = []
    limits = ((4 * one, 4), (3 * one + columns, 1), (2 * one + columns, 0))
    for limit, stay in limits if d < 40 else limits[::2]:
        passes = DeviceClusters(RowSet(case.X, case.weights), 0, 5, limit)
        assert passes.note.startswith(f"{stay} of 4 blocks of 1024 rows stay") == (stay < 4)
        found.append(cases.bits(case, passes))
    assert all(each == found[0] for each in found)
    if d < 40:
        passes.reset()
        cases.check(case, passes)
    if d == 2:
        cases.check_others(case, passes, rng)
    with pytest.raises(DeviceMemoryError, match="on the GPU for blocks of rows"):
        DeviceClusters(RowSet(case.X, case.weights), 0, 5, one)


@pytest.mark.parametrize(("dtype", "ones"), [(np.float32, False), (np.float64, True)])
def test_blocks_of_sparse_rows_give_the_bits_of_blocks_that_stay(use, monkeypatch, dtype, ones):
    rng = np.random.default_rng(4)
    case = cases.make_sparse(rng, 3 * 1024 + 100, 10, 5, dtype, ones=ones)
    case = case._replace(weights=None if ones else case.weights)
    case.X[1024:2048, 3:] = 0  # blocks have unlike numbers of values
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)  # the minimum number of rows
    X = cases.compressed(case.X)
    assert (X.data is None) == ones
    most, kind = int(np.diff(X.indptr[::1024]).max()), None if ones else dtype
    one = clusters.import_cuda().predict_sparse_cluster_bytes(1024, 10, most, 5, kind)
    columns = blocks.COLUMN_BYTES * len(case.X)
    found = []
    for limit, stay in ((4 * one, 4), (3 * one + columns, 1), (2 * one + columns, 0)):
        passes = DeviceClusters(RowSet(X, case.weights), 0, 5, limit)
        assert passes.note.startswith(f"{stay} of 4 blocks of 1024 rows stay") == (stay < 4)
        found.append(cases.bits(case, passes))
    assert found[0] == found[1] == found[2]
    passes.reset()
    cases.check(case, passes, sparse=True)
    with pytest.raises(DeviceMemoryError, match="on the GPU for blocks of rows"):
        DeviceClusters(RowSet(X, None), 0, 5, one)


def test_sparse_rows_that_do_not_fit_in_their_place_are_refused(use):
    X = cases.compressed(np.eye(6, 4))
    held = clusters.import_cuda().Clusters.sparse(X.indptr, X.indices, None, X.shape)
    held.load(blocks.rows_of(X, slice(2, 5)))
    np.testing.assert_array_equal(held.take(np.arange(3)), np.eye(6, 4)[2:5])
    more = cases.compressed(np.ones((2, 4)))
    with pytest.raises(RuntimeError, match="no more stored values than announced"):
        held.load(more)
    with pytest.raises(RuntimeError, match="values and weights if there were some at first"):
        held.load(blocks.rows_of(X, slice(2, 5)), np.ones(3))
    with pytest.raises(RuntimeError, match="values and weights"):
        held.load(X._replace(data=np.ones(4)))
