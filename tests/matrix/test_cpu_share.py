"""Matrices some of whose rows stay in main memory, where the CPU computes their products beside the GPU's."""

import itertools
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from devices import cuda, gpu, in_each_order

import bmrm
from bmrm.errors import Interrupted, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu import cache, cpu_share
from bmrm.matrix.gpu.libraries import has_blas
from bmrm.matrix.gpu.memory import plan_memory

ROWS, COLUMNS = 6000, 120

SPARE = 4_000_000
"""Bytes for the vectors of these tests."""


def sparse_rows(dtype=np.float32, ones=False):
    X = sp.random_array((ROWS, COLUMNS), density=0.15, rng=np.random.default_rng(0), format="csr")
    return Csr(X.indptr, X.indices, None if ones else X.data.astype(dtype), X.shape)


def dense_rows(dtype=np.float32):
    return np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(dtype)


def as_float64(X):
    if not isinstance(X, Csr):
        return X.astype(np.float64)
    data = np.ones(X.nnz) if X.data is None else X.data.astype(np.float64)
    return sp.csr_array((data, X.indices, X.indptr), X.shape)


def limit_of(X):
    """Half of what X takes."""
    if isinstance(X, Csr):
        value_bytes = 0 if X.data is None else X.data.itemsize
        return int(cuda.Matrix.predict_format(*X.shape, X.nnz, value_bytes)) // 2
    return int(X.nbytes) // 2


def gpu_mem(X):
    """Half of what X takes, and the vectors of a solve."""
    stored = X.nnz if isinstance(X, Csr) else None
    return limit_of(X) + plan_memory(X.shape, stored, 4, 4, None).spare


def matrix_of(X, share, **options):
    values = X.data if isinstance(X, Csr) else X
    dtype = np.float32 if values is None else values.dtype
    options = {"memory_limit": limit_of(X) + SPARE, "spare": SPARE, "dtype": dtype, **options}
    found = (
        cuda.Matrix(*X, tune="predict", **options)
        if isinstance(X, Csr)
        else cuda.Matrix.from_dense(X, **options)
    )
    cpu_share.share_with_cpu(found, X, share)
    return found


KINDS = {
    "sparse": sparse_rows,
    "float64": lambda: sparse_rows(np.float64),
    "ones": lambda: sparse_rows(ones=True),
    "dense": dense_rows,
    "dense float64": lambda: dense_rows(np.float64),
}


@gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [1, 4, 8])
@in_each_order
def test_products_of_both_devices(kind, share):
    X, rng = KINDS[kind](), np.random.default_rng(2)
    matrix, exact = matrix_of(X, share), as_float64(X)
    blocks = matrix.row_blocks
    streamed = [block for block in blocks if block["streams"]]
    assert len(streamed) > 2
    assert sum(block["on_host"] for block in blocks) == share * len(streamed) // 8
    tolerance = 1e-12 if "float64" in kind else 2e-4
    for columns in (None, 3):
        shape = () if columns is None else (columns,)
        w, r = rng.standard_normal((COLUMNS, *shape)), rng.standard_normal((ROWS, *shape))
        forward, back = (
            (matrix.matvec, matrix.rmatvec) if columns is None else (matrix.matmat, matrix.rmatmat)
        )
        for _ in range(2):
            np.testing.assert_allclose(forward(w), exact @ w, atol=tolerance * 100, rtol=tolerance)
            np.testing.assert_allclose(back(r), exact.T @ r, atol=tolerance * 100, rtol=tolerance)
    starts, r = np.array([0, 17, 17, ROWS // 2, ROWS - 5]), rng.standard_normal(ROWS)
    found = matrix.rmatvec_blocks(r, starts)
    for p, (a, b) in enumerate(itertools.pairwise(starts)):
        np.testing.assert_allclose(found[p], exact[a:b].T @ r[a:b], atol=tolerance * 100, rtol=tolerance)


@gpu
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_same_split_gives_the_same_bits_for_any_number_of_threads(kind):
    X, r = KINDS[kind](), np.random.default_rng(3).standard_normal(ROWS)
    w = r[:COLUMNS]
    matrices = [matrix_of(X, 5, threads=threads) for threads in (1, 3)]
    assert len({m.rmatvec(r).tobytes() + m.matvec(w).tobytes() for m in matrices}) == 1
    alone, none = matrix_of(X, 0), matrix_of(X, 0)
    assert not any(block["on_host"] for block in none.row_blocks)
    assert alone.rmatvec(r).tobytes() == none.rmatvec(r).tobytes()


@gpu
def test_products_are_timed_as_graphs():
    matrix = matrix_of(dense_rows(), 4)
    assert matrix.time("normal") > 0
    assert matrix.time("transposed") > 0


@gpu
def test_rows_of_the_cpu_are_not_rebuilt_on_the_device():
    matrix = matrix_of(sparse_rows(), 4)
    with pytest.raises(ParameterError, match="cpu_share=0"):
        matrix.compressed_rows()


@gpu
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_rows_of_the_cpu_are_named_and_counted(kind):
    matrix, alone = matrix_of(KINDS[kind](), 8), matrix_of(KINDS[kind](), 0)
    assert cpu_share.split_text(alone) == ""
    assert cpu_share.split_text(matrix).startswith("the CPU computes")
    assert "stay in main memory for the CPU" in matrix.explain()
    assert matrix.host_bytes > 0
    assert kind == "sparse" or matrix.host_bytes == alone.host_bytes


@gpu
def test_x_dx_of_dense_rows_has_those_of_the_cpu():
    if not has_blas():
        pytest.skip("there is no cuBLAS")
    X, s = dense_rows(), np.random.default_rng(6).random(ROWS)
    found = matrix_of(X, 4, memory_limit=limit_of(X) + (1 << 27), spare=1 << 27)
    exact = as_float64(X)
    np.testing.assert_allclose(found.weighted_gram(s), exact.T @ (s[:, None] * exact), rtol=1e-9, atol=1e-6)


@gpu
def test_blocks_that_do_not_stream_are_refused():
    with pytest.raises(ParameterError, match="count"):
        cuda.Matrix.from_dense(dense_rows()).keep_on_host(1)


@gpu
@pytest.mark.parametrize(("loss", "kind"), [("hinge", "sparse"), ("logistic", "dense")])
def test_a_solve_names_its_split_and_proves_its_gap(loss, kind):
    X = KINDS[kind]()
    y = np.sign(as_float64(X) @ np.random.default_rng(4).standard_normal(COLUMNS) + 0.1)
    whole = bmrm.solve(X, y, loss=loss, lam=1e-3, device="cuda")
    limit = gpu_mem(X)
    found = [
        bmrm.solve(X, y, loss=loss, lam=1e-3, device="cuda", gpu_mem=limit, cpu_share=share, threads=threads)
        for share, threads in ((0.5, 1), (0.5, 2), (0, 1))
    ]
    assert found[0].split.startswith("the CPU computes")
    assert found[2].split == whole.split == ""
    assert found[0].w.tobytes() == found[1].w.tobytes()
    for one in found:
        assert one.status == "converged"
        assert one.lower_bound <= whole.objective
        assert whole.lower_bound <= one.objective


@gpu
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_signal_ends_a_solve_with_what_both_devices_found(kind):
    X = KINDS[kind]()
    y = np.sign(as_float64(X) @ np.random.default_rng(5).standard_normal(COLUMNS) + 0.1)
    given = {
        "lam": 1e-3,
        "device": "cuda",
        "gpu_mem": gpu_mem(X),
        "cpu_share": 0.5,
        "tol": 1e-9,
        "dtype": np.float32,
    }

    def press(progress):
        if progress.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted) as stopped:
        bmrm.solve(X, y, callback=press, **given)
    assert stopped.value.result.split.startswith("the CPU computes")
    assert stopped.value.result.lower_bound <= bmrm.solve(X, y, lam=1e-3, device="cpu").objective


@gpu
@pytest.mark.parametrize("part", np.arange(0.3, 0.8, 0.05).round(2))
def test_rows_that_stream_are_consecutive_however_long_they_are(part):
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 540, 90_000), (600 * rng.random(90_000) ** 3).astype(int)
    found = sp.csr_array((rng.random(90_000), ends[::-1]), (600, 600))
    X = Csr.from_scipy(found)
    limit = int(part * cuda.Matrix.predict_format(600, 600, X.nnz, 8)) + SPARE
    matrix = cuda.Matrix(*X, memory_limit=limit, spare=SPARE)
    streamed = [number for number, block in enumerate(matrix.row_blocks) if block["streams"]]
    assert len(streamed) > 2
    assert streamed == list(range(streamed[0], streamed[-1] + 1))
    cpu_share.share_with_cpu(matrix, X, 8)
    assert sum(block["on_host"] for block in matrix.row_blocks) == len(streamed)
    w = rng.standard_normal(600)
    np.testing.assert_allclose(matrix.matvec(w), found @ w, atol=1e-10)
    np.testing.assert_allclose(matrix.rmatvec(w), found.T @ w, atol=1e-10)


@gpu
def test_the_share_follows_from_measured_rates(monkeypatch):
    rates = {"bus": 1.0, "cpu": 0.0}
    monkeypatch.setattr(
        cache, "known_time", lambda device, name, measure: rates["cpu" if "cores" in name else "bus"]
    )
    X = dense_rows()
    for cpu, share in ((4.0, 4), (1.0, 6), (4 / 7, 7), (29.0, 0)):  # a value is four bytes on the bus
        rates["cpu"] = cpu
        matrix = matrix_of(X, 0)
        blocks = [block for block in matrix.row_blocks if block["streams"]]
        assert cpu_share.measured_share(matrix, blocks) == share


@gpu
def test_rates_are_measured_once(monkeypatch):
    monkeypatch.setattr(cpu_share, "DENSE_ROWS", 256)
    matrix = matrix_of(dense_rows(), None)
    seconds = cpu_share.cpu_time(matrix), cpu_share.bus_time(matrix)
    assert min(seconds) > 0
    assert seconds == (cpu_share.cpu_time(matrix), cpu_share.bus_time(matrix))


@gpu
def test_sparse_rows_stream_unless_a_share_is_asked_for(monkeypatch):
    monkeypatch.setattr(cache, "known_time", lambda device, name, measure: 0.0 if "cores" in name else 1.0)
    assert not cpu_share.split_text(matrix_of(sparse_rows(), None))
    assert cpu_share.split_text(matrix_of(sparse_rows(), 4))


@pytest.mark.parametrize("share", [-0.125, 0.3, 1.125, "half", float("nan")])
def test_shares_that_are_no_eighths_are_refused(share):
    with pytest.raises(ParameterError, match="cpu_share"):
        bmrm.Dataset(np.eye(3), cpu_share=share)
