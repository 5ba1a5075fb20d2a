"""Data uploaded to a GPU arrive unchanged, by any path, and are checked there."""

import functools
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from devices import cuda, few, gpu, sized
from devices import large as large_only

import bmrm
from bmrm import io
from bmrm.cli import train
from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.io._text import PADDING
from bmrm.io.svmlight import join_parts
from bmrm.io.text import Grammar, Parser
from bmrm.matrix import row_storage
from bmrm.matrix import upload as landing
from bmrm.matrix.resident import fingerprint
from bmrm.matrix.upload import Landing

Matrix = cuda.Matrix


@functools.cache
def many_rows():
    """Rows whose indices and values are worth several threads each, in pieces of unequal size."""
    m, d, each = sized(21_001, 60_001), 5000, 101
    index, value = sized((np.int64, np.float64), (np.int32, np.float32))  # or fewer would not be worth it
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, d // each, (m, each)) + np.arange(each) * (d // each), axis=1)
    values = rng.standard_normal(m * each).astype(value)
    return np.arange(m + 1, dtype=np.int64) * each, columns.astype(index).ravel(), values, (m, d)


def products(arrays, threads):
    m, d = arrays[3]
    w, r = np.random.default_rng(1).standard_normal(d), np.random.default_rng(2).standard_normal(m)
    X = Matrix(*arrays, threads=threads, plan="split")
    return X.matvec(w), X.rmatvec(r)


@functools.cache
def products_by_one():
    return products(many_rows(), 1)


@gpu
@pytest.mark.parametrize("threads", few([3, 2, 16]))
def test_several_threads_upload_the_same_as_one(threads):
    # One matrix at a time: what the other leaves of the memory may mean other blocks.
    for one, several in zip(products_by_one(), products(many_rows(), threads), strict=True):
        assert np.array_equal(one, several)


@gpu
def test_a_mapped_file_is_uploaded(tmp_path):
    indptr, columns, values, shape = many_rows()
    values.tofile(tmp_path / "values")
    mapped = np.memmap(tmp_path / "values", values.dtype, "r")
    for one, other in zip(products_by_one(), products((indptr, columns, mapped, shape), None), strict=True):
        assert np.array_equal(one, other)


@gpu
def test_large_dense_rows_are_uploaded():
    shape = sized((1503, 1501), (5003, 2001))
    dense = np.random.default_rng(3).standard_normal(shape)
    w = np.random.default_rng(4).standard_normal(shape[1])
    assert np.allclose(Matrix.from_dense(dense, threads=8).matvec(w), dense @ w, rtol=1e-12, atol=1e-10)


@gpu
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limit", [None, 2_000_000])
def test_non_finite_values_are_reported(value, dtype, limit):
    dense = np.random.default_rng(5).standard_normal((4000, 100)).astype(dtype)
    dense[3777, 42] = value
    text = f"X: stored value {value} is not finite"
    with pytest.raises(DataError, match=text):
        Matrix.from_dense(dense, memory_limit=limit, finite=True)
    arrays = np.arange(0, 400_001, 100), np.tile(np.arange(100, dtype=np.int32), 4000), dense.ravel()
    with pytest.raises(DataError, match=text):
        Matrix(*arrays, (4000, 100), memory_limit=limit, finite=True)
    with pytest.raises(DataError, match=text):
        bmrm.Dataset(dense, device="cuda")


@gpu
def test_a_value_that_float32_cannot_hold_is_reported():
    with np.errstate(over="ignore"), pytest.raises(DataError, match="stored value inf is not finite"):
        Matrix([0, 1], [0], [1e300], (1, 1), dtype=np.float32, finite=True)


KINDS = ("reals", "ones", "ones first", "zero-based", "gaps")


@functools.cache
def text_of(kind, rows=3000):
    rng = np.random.default_rng(6)
    lines = []
    for i in range(rows):
        columns = 1 + np.flatnonzero(rng.random(500) < 0.08) - (kind == "zero-based" and i > 2000)
        ones = kind == "ones" or (kind == "ones first" and i < 1000)
        values = np.ones(len(columns)) if ones else rng.standard_normal(len(columns)).round(4)
        pairs = [f"{j}:{v:g}" for j, v in zip(columns, values, strict=True)]
        if kind == "gaps":
            pairs = ["qid:1", *pairs[::-1], *pairs[:3], "# 1:1 2:2\n"]
        lines.append(" ".join([str(2 * int(rng.integers(2)) - 1), *pairs]))
    return "\n".join(lines).encode()


def parsed(text, dtype="float32", land=None, threads=4):
    """Parse many blocks of a text through few slots."""
    parser = Parser(
        "text", Grammar.from_arguments(None, "auto", dtype, False, "sum"), threads, block_bytes=10_000
    )
    return join_parts([parser.parse(text + bytes(PADDING), 0, len(text), land)], parser)[:2]


@gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 4])
def test_indices_and_values_are_on_the_gpu_after_parsing(kind, dtype, threads):
    text = text_of(kind)
    X, y = parsed(text, dtype)
    with Landing(device="cuda", dtype=dtype, threads=threads) as there:
        landed, labels = parsed(text, dtype, there, threads)
        assert there.used
        assert np.array_equal(labels, y)
        assert landed.shape == X.shape
        for got, expected in zip(landed.on_host()[:3], X[:3], strict=True):
            assert (got is None) == (expected is None)
            assert got is None or (got.dtype == expected.dtype and np.array_equal(got, expected))
        assert np.array_equal(landed.indices[5:9000:7], X.indices[5:9000:7])
        assert fingerprint(landed, np.dtype(dtype)) == fingerprint(X, np.dtype(dtype))
        one, other = (
            Matrix(A.indptr, A.indices, A.data, A.shape, plan="split", dtype=dtype) for A in (landed, X)
        )
    w, r = (
        np.random.default_rng(1).standard_normal(X.shape[1]),
        np.random.default_rng(2).standard_normal(3000),
    )
    assert one.coding == other.coding
    assert np.array_equal(one.matvec(w), other.matvec(w))
    assert np.array_equal(one.rmatvec(r), other.rmatvec(r))


@gpu
def test_a_solve_is_the_same_on_text_uploaded_while_parsed():
    text = text_of("reals", sized(600, 3000))
    X, y = parsed(text)
    with Landing(device="cuda") as there:
        landed, labels = parsed(text, land=there)
        datasets = [bmrm.Dataset(landed, labels, device="cuda"), bmrm.Dataset(X, y, device="cuda")]
    one, other = (bmrm.solve(dataset, lam=1e-3) for dataset in datasets)
    assert one.status == "converged"
    assert np.array_equal(one.w, other.w)
    assert (one.objective, one.lower_bound) == (other.objective, other.lower_bound)


@large_only
def test_the_command_trains_the_same_model_either_way(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("text").write_bytes(text_of("reals"))
    assert train.main(["--device", "cuda", "text", "landed"]) == 0
    monkeypatch.setattr(landing, "MAX_MEMORY_SHARE", 0.0)
    assert train.main(["--device", "cuda", "text", "plain"]) == 0
    assert Path("landed").read_bytes() == Path("plain").read_bytes()


@gpu
def test_a_fault_or_an_interrupt_frees_everything():
    text = text_of("reals")

    def land(text):
        with Landing(device="cuda") as there:
            parsed(text, land=there)

    def go_on():
        while True:
            land(20 * (text + b"\n"))

    land(text)
    before = cuda.device_info()["free_bytes"]
    for _ in range(10):
        with pytest.raises(DataError, match=r'text:3001:4: found "oops", expected index:value'):
            land(text + b"\n1  oops\n1 1:1")
        threading.Timer(0.06, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            go_on()
    assert cuda.device_info()["free_bytes"] >= before - (64 << 20)


@gpu
def test_a_landing_without_room_or_already_closed_raises():
    with pytest.raises(DeviceMemoryError, match="are needed"):
        cuda.Landing(10**14, "float32", 2, 100)
    with pytest.raises(DeviceMemoryError, match="cudaMallocHost"):
        cuda.Landing(100, "float32", 2, 10**14)
    with Landing(device="cuda") as there:
        X, _ = parsed(b"1 1:1 2:3", land=there)
    with pytest.raises(ParameterError, match="released"):
        np.asarray(X.indices)


@gpu
def test_dense_rows_of_text_are_uploaded_as_such(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(row_storage, "SAMPLE_ROWS", sized(256, row_storage.SAMPLE_ROWS))
    costs = row_storage.measured_costs(0, 4)
    assert min(costs.product) > 0.0
    path = tmp_path / "full.svm"
    path.write_text("".join(f"{1 - 2 * (i % 2)} 1:{i + 1} 2:0.5\n" for i in range(20)))
    with Landing(device="cuda") as used:
        data = io.read_data(path, land=used, storage="dense")
        dataset = bmrm.Dataset(data, device="cuda")
    assert not used.used
    assert dataset.matrix.is_dense
    assert dataset.shape == (20, 2)
    with Landing(device="cuda") as used:
        assert not bmrm.Dataset(
            io.read_data(path, land=used, storage="sparse"), device="cuda"
        ).matrix.is_dense
        assert used.used
