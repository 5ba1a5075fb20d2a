"""Matrices in blocks of rows, some of which stream from main memory, against scipy in float64."""

import itertools

import emulated
import numpy as np
import pytest
import scipy.sparse as sp
from devices import IS_EMULATED, cuda, few, gpu, in_each_order, large, sized
from hypothesis import given, settings
from hypothesis import strategies as st

import bmrm
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.matrix.row_blocks import (
    MAX_BLOCKS,
    MAX_HALF_ROOM_BLOCKS,
    dense_blocks,
    sparse_blocks,
    steady_room,
)

Matrix = cuda.Matrix

ROUNDING = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-14}
"""Largest error of a product, as a share of sqrt(row length) times the sum of its terms' absolute values."""


# --- where blocks begin


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=200), st.integers(1, 4000))
def test_blocks_are_as_few_as_fit(lengths, room):
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    prepare = lambda rows, nnz: 2 * rows + 3 * nnz  # noqa: E731

    def bytes_of(a, b):
        return prepare(b - a, indptr[b] - indptr[a])

    if max(prepare(1, length) for length in lengths) > room:
        with pytest.raises(DeviceMemoryError, match=r"X has .* MB are left for X"):
            sparse_blocks(indptr, room, prepare)
        return
    starts = sparse_blocks(indptr, room, prepare)
    assert starts[0] == 0
    assert starts[-1] == len(lengths)
    assert (np.diff(starts) > 0).all()
    if bytes_of(0, len(lengths)) <= room:
        assert len(starts) == 2
        return
    most = max(bytes_of(a, b) for a, b in itertools.pairwise(starts))
    assert most <= (room if len(starts) > MAX_HALF_ROOM_BLOCKS + 1 or most > room // 2 else room // 2)
    share = room // 2 if most <= room // 2 else room
    # One row more would be too many.
    assert all(bytes_of(a, b + 1) > share for a, b in itertools.pairwise(starts[:-1]))


def test_more_nonzeros_than_indices_hold_make_several_blocks():
    rows, each = 1000, 10**7
    starts = sparse_blocks(np.arange(rows + 1, dtype=np.int64) * each, 10**12, lambda rows, nnz: nnz)
    assert len(starts) == 6
    assert (np.diff(starts) * each < 2**31).all()


def test_several_blocks_begin_at_the_same_rows_whatever_else_is_free():
    indptr = np.arange(0, 50_100, 100)
    prepare = lambda rows, nnz: 2 * rows + 3 * nnz  # noqa: E731
    total, row = 120_000, 302

    def starts_of(free):
        steady = steady_room(free, total)
        return sparse_blocks(indptr, free, prepare, steady), dense_blocks(500, row, free, steady)

    for frees in ((119_000, 61_000, 60_000), (59_999, 31_000)):
        first, *others = map(starts_of, frees)
        for other in others:
            assert all(map(np.array_equal, first, other))
    assert len(starts_of(59_999)[0]) > len(starts_of(60_000)[0]) > 2
    huge = np.array([0, 5_000, 20_000])  # a row that needs more than half of the memory
    assert len(sparse_blocks(huge, 50_000, prepare, steady_room(50_000, total))) == 3


@gpu
@pytest.mark.skipif(not IS_EMULATED, reason="the memory of a GPU is larger")
def test_bits_of_blocks_do_not_follow_what_others_use():
    emulated.configure(1, memory=8_000_000)
    rng = np.random.default_rng(5)
    arrays = random_csr(rng, 6000, 3000, 200_000)
    r = rng.standard_normal(6000)
    found = set()
    for used in (1, 300_000, 1_000_000):
        other = emulated.Array(np.zeros(used, np.uint8))
        X = Matrix(*arrays, tune="predict")
        assert len(X.report()["blocks"]) > 1
        found.add(X.rmatvec(r).tobytes())
        del X, other
    assert len(found) == 1


def test_too_many_blocks_are_refused():
    with pytest.raises(DeviceMemoryError, match="too many to stream"):
        dense_blocks(2 * MAX_BLOCKS + 1, 100, 1600)
    with pytest.raises(DeviceMemoryError, match=r"1 rows of 0\.8 kB"):
        dense_blocks(1, 800, 700)


# --- products


SPARE = 4_000_000
"""Bytes for the vectors of these tests."""


def random_csr(rng, m, d, nnz, dtype=np.float32, ones=False):
    """Rows of many lengths, some empty, one with every column, columns by popularity."""
    rows = (m * rng.random(nnz) ** 2).astype(np.int64) // 2 * 2
    columns = (d * rng.random(nnz) ** 3).astype(np.int32)
    others = rows != m // 3
    rows = np.concatenate((rows[others], np.full(d, m // 3)))
    columns = np.concatenate((columns[others], np.arange(d, dtype=np.int32)))
    A = sp.csr_array((np.ones(len(rows)), (rows, columns)), (m, d))
    A.sort_indices()
    data = np.ones(A.nnz, dtype) if ones else rng.standard_normal(A.nnz).astype(dtype)
    return A.indptr.astype(np.int64), A.indices.astype(np.int32), data, (m, d)


def reference(indptr, indices, data, shape):
    return sp.csr_array((data.astype(np.float64), indices, indptr), shape)


def close(found, expected, scale, dtype):
    return np.all(np.abs(found - expected) <= ROUNDING[np.dtype(dtype)] * scale + 1e-300)


def check_products(X, A, rng, dtype):
    m, d = A.shape
    B = abs(A)
    root = np.sqrt(max(np.diff(A.indptr).max(), np.bincount(A.indices).max()))
    w, r = rng.standard_normal(d), rng.standard_normal(m)
    W, R = rng.standard_normal((d, 5)), rng.standard_normal((m, 5))
    starts = np.array([0, 0, m // 5, m // 3, m // 3 + 1, m // 3 + 1, m])
    if dtype == np.float32:
        w, r, W, R = (v.astype(np.float32).astype(np.float64) for v in (w, r, W, R))
    assert close(X.matvec(w), A @ w, root * (B @ abs(w)), dtype)
    assert close(X.rmatvec(r), A.T @ r, root * (B.T @ abs(r)), dtype)
    assert close(X.matmat(W), A @ W, root * (B @ abs(W)), dtype)
    assert close(X.rmatmat(R), A.T @ R, root * (B.T @ abs(R)), dtype)
    blocks = X.rmatvec_blocks(r, starts)
    for p, (a, b) in enumerate(itertools.pairwise(starts)):
        assert close(blocks[p], A[a:b].T @ r[a:b], root * (B[a:b].T @ abs(r[a:b])), dtype)
    inner = X.rmatvec_blocks(r, [m // 7, m // 2])[0]
    assert close(inner, A[m // 7 : m // 2].T @ r[m // 7 : m // 2], root * (B.T @ abs(r)), dtype)
    assert np.array_equal(X.rmatvec(r), X.rmatvec(r))
    assert np.array_equal(X.matvec(w), X.matvec(w))


@gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", few(["values", "ones", "implicit"]))
@pytest.mark.parametrize("share", few([0.15, 0.6, 1.0, 0.03]))
def test_products_under_a_limit(dtype, kind, share):
    rng = np.random.default_rng(5)
    indptr, indices, data, shape = arrays = random_csr(rng, 6000, 3000, 200_000, dtype, kind != "values")
    whole = Matrix(*arrays)
    formats = whole.nbytes
    if share == 1.0:
        limit = Matrix.predict_bytes(*shape, len(indices), 8) * 4
    else:
        limit = int(share * formats) + 600_000 + SPARE  # what blocks of a few rows take by themselves
    given = (indptr, indices, None if kind == "implicit" else data, shape)
    X = Matrix(*given, memory_limit=limit, spare=SPARE, dtype=dtype)
    report = X.report()
    assert report["peak_bytes"] <= limit
    assert sum(block["rows"] for block in report["blocks"]) == shape[0]
    assert sum(block["nnz"] for block in report["blocks"]) == len(indices)
    if share == 1.0:
        assert len(report["blocks"]) == 1
        assert report["host_bytes"] == 0
    else:
        assert len(report["blocks"]) > 1
        assert sum(sum(block["copied"].values()) for block in report["blocks"]) == report["host_bytes"]
    check_products(X, reference(*arrays), rng, dtype)
    assert X.report()["peak_bytes"] <= limit
    np.testing.assert_allclose(X.mean_squares, whole.mean_squares, rtol=1e-6)


@gpu
def test_rows_are_rebuilt_from_several_blocks_if_there_is_room():
    rng = np.random.default_rng(5)
    arrays = indptr, indices, data, _ = random_csr(rng, 6000, 3000, 200_000, np.float64)
    data[: indptr[2000]] = 1.0  # the first block has no values
    X = Matrix(*arrays, memory_limit=28_000_000, spare=26_000_000)
    assert X.host_bytes
    for _ in range(2):
        for found, expected in zip(X.compressed_rows(), (indptr, indices, data), strict=True):
            np.testing.assert_array_equal(found[:], expected)
    check_products(X, reference(*arrays), rng, np.float64)
    X = Matrix(*arrays, memory_limit=3_000_000, spare=1_000_000)
    with pytest.raises(DeviceMemoryError, match=r"the compressed rows of X take .* MB of device memory"):
        X.compressed_rows()


LIMITS = (60_000_000, 6_000_000, 2_500_000)
"""For `random_csr(rng, 20_000, 2000, 1_000_000)`, whose formats take about 13 MB."""


@large
def test_some_blocks_stay_and_others_stream():
    rng = np.random.default_rng(6)
    arrays = random_csr(rng, 20_000, 2000, 1_000_000)
    shares = []
    for limit in LIMITS:
        X = Matrix(*arrays, memory_limit=limit + SPARE, spare=SPARE)
        streams = [block["copied"]["normal"] > 0 for block in X.report()["blocks"]]
        shares.append(sum(streams) / len(streams))
        check_products(X, reference(*arrays), rng, np.float32)
        assert ("stream" in X.explain()) == any(streams)
        assert X.nbytes <= X.report()["peak_bytes"] <= limit + SPARE
    assert shares[0] == 0 < shares[1] < shares[2]


@gpu
def test_blocks_of_an_unsorted_matrix_with_wide_indices():
    rng = np.random.default_rng(7)
    indptr, indices, data, shape = random_csr(rng, 5000, 700, 300_000)
    for a, b in itertools.pairwise(indptr):
        order = rng.permutation(b - a)
        indices[a:b], data[a:b] = indices[a:b][order], data[a:b][order]
    X = Matrix(indptr, indices.astype(np.int64), data, shape, memory_limit=2_000_000 + SPARE, spare=SPARE)
    assert X.host_bytes
    check_products(X, reference(indptr, indices, data, shape), rng, np.float32)


@gpu
@in_each_order
@pytest.mark.parametrize("plan", ["subwarp", "split", "sliced", "tiled", "hot", "binned"])
def test_every_kernel_streams(plan):
    rng = np.random.default_rng(8)
    rows, nnz, room = sized((2_000, 100_000, 600_000), (20_000, 1_000_000, 4_000_000))
    arrays = random_csr(rng, rows, 2000, nnz)
    parameters = {
        "subwarp": {"lanes": 8},
        "sliced": {"cap": 16},
        "tiled": {"cap": 16, "tile": 500},
        "hot": {"cap": 16, "tiles": 2, "tile": 200},
        "binned": {"cap": 16, "tile": 4096},
    }
    chosen = cuda.Plan(plan, **parameters.get(plan, {}))
    X = Matrix(*arrays, plan=chosen, memory_limit=room + SPARE, spare=SPARE)
    blocks = X.report()["blocks"]
    assert X.host_bytes
    assert {block["normal"]["kernel"] for block in blocks} == {plan}
    check_products(X, reference(*arrays), rng, np.float32)


@gpu
@in_each_order
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_rows_stream(dtype):
    rng = np.random.default_rng(9)
    dense = rng.standard_normal((sized(300, 3000), 400)).astype(dtype)
    X = Matrix.from_dense(dense, memory_limit=dense.nbytes // 3 + SPARE, spare=SPARE)
    assert X.host_bytes
    assert X.report()["peak_bytes"] <= dense.nbytes // 3 + SPARE
    check_products(X, sp.csr_array(dense.astype(np.float64)), rng, dtype)


@gpu
@in_each_order
def test_a_streamed_product_can_be_timed():
    rows, nnz, room = sized((2_000, 100_000, 600_000), (20_000, 1_000_000, 4_000_000))
    arrays = random_csr(np.random.default_rng(11), rows, 2000, nnz)
    X = Matrix(*arrays, memory_limit=room + SPARE, spare=SPARE)
    assert X.host_bytes
    assert 0 < X.time("normal") < 1
    assert 0 < X.time("transposed", columns=3) < 1


@large
def test_more_nonzeros_than_an_index_holds():
    cupy = pytest.importorskip("cupy", reason="CuPy makes the arrays on the device")
    if cuda.device_info()["free_bytes"] < 90 * 10**9:
        pytest.skip("there are no 90 GB of device memory")
    m, d = 2_200_000, 1000
    columns = cupy.tile(cupy.arange(d, dtype=cupy.int32), m)
    cupy.cuda.Device().synchronize()
    X = Matrix(np.arange(m + 1, dtype=np.int64) * d, columns, None, (m, d))
    del columns
    cupy.get_default_memory_pool().free_all_blocks()
    assert X.nnz > 2**31
    assert len(X.report()["blocks"]) > 1
    assert X.host_bytes == 0
    w, r = np.arange(d) % 7.0, (np.arange(m) % 3 == 0) * 1.0
    assert np.array_equal(X.matvec(w), np.full(m, w.sum()))
    assert np.array_equal(X.rmatvec(r), np.full(d, r.sum()))


@gpu
def test_x_that_does_not_fit_at_all_is_reported_with_sizes():
    arrays = random_csr(np.random.default_rng(12), 20_000, 5000, 1_000_000)
    for limit in (1_000, 300_000):
        with pytest.raises(DeviceMemoryError, match=r"\d+(\.\d+)? [kM]?B"):
            Matrix(*arrays, memory_limit=limit)
    with pytest.raises(DeviceMemoryError, match="nothing for X"):
        Matrix(*arrays, memory_limit=10**6, spare=10**6)
    with pytest.raises(DeviceMemoryError, match="too many to stream"):
        Matrix.from_dense(np.ones((1000, 1000), np.float32), memory_limit=20_000)


# --- solves


@large
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("limit", ["40M", "9M", "5M"])
def test_a_solve_under_a_limit_finds_the_same_solution(loss, limit):
    rng = np.random.default_rng(13)
    X = sp.csr_array(random_csr(rng, 40_000, 3000, 1_000_000)[2::-1], (40_000, 3000))
    y = np.where(X @ rng.standard_normal(3000) > 0, 1.0, -1.0)
    common = {"loss": loss, "lam": 1e-4, "tol": 1e-3, "device": "cuda"}
    whole, bounded = bmrm.solve(X, y, **common), bmrm.solve(X, y, gpu_mem=limit, **common)
    assert whole.status == bounded.status == "converged"
    for one, other in ((whole, bounded), (bounded, whole)):
        assert one.lower_bound <= other.objective * (1 + 1e-5)


@large
def test_solves_on_one_dataset_repeat_within_the_limit():
    rng = np.random.default_rng(14)
    X = sp.csr_array(random_csr(rng, 20_000, 2000, 1_000_000)[2::-1], (20_000, 2000))
    data = bmrm.Dataset(X, np.sign(rng.standard_normal(20_000)), device="cuda", gpu_mem="6M")
    report = data.matrix.report()
    assert report["host_bytes"] > 0
    first = bmrm.solve(data, lam=1e-3)
    assert data.matrix.report()["peak_bytes"] <= 6_000_000
    again = bmrm.solve(data, lam=1e-3)
    assert np.array_equal(first.w, again.w)


@pytest.mark.parametrize("size", ["", "8X", "-1", 0, "0.1", True, 2**62])
def test_bad_sizes(size):
    with pytest.raises(ParameterError, match="gpu_mem: found"):
        bmrm.Dataset(np.eye(2), device="cpu", gpu_mem=size)
