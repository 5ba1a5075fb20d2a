"""What goes up to a GPU arrives as it was, however it got there, and is looked at there."""

import numpy as np
import pytest

import bmrm
from bmrm.errors import DataError

cuda = pytest.importorskip("bmrm._cuda", reason="the package was built without CUDA")
Matrix = cuda.Matrix
gpu = pytest.mark.skipif(not cuda.device_count(), reason="there is no CUDA device")


@pytest.fixture(scope="module")
def large():
    """Rows whose indices and values are worth several threads each, in pieces that do not come out even."""
    m, d, each = 60_001, 5000, 101
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, d // each, (m, each)) + np.arange(each) * (d // each), axis=1)
    values = rng.standard_normal(m * each).astype(np.float32)
    return np.arange(m + 1, dtype=np.int64) * each, columns.astype(np.int32).ravel(), values, (m, d)


@gpu
@pytest.mark.parametrize("threads", [2, 3, 16])
def test_threads_carry_up_what_one_does(large, threads):
    m, d = large[3]
    w, r = np.random.default_rng(1).standard_normal(d), np.random.default_rng(2).standard_normal(m)
    one, several = (Matrix(*large, threads=n, plan="split") for n in (1, threads))
    assert np.array_equal(one.matvec(w), several.matvec(w))
    assert np.array_equal(one.rmatvec(r), several.rmatvec(r))


@gpu
def test_a_mapped_file_goes_up(large, tmp_path):
    indptr, columns, values, shape = large
    values.tofile(tmp_path / "values")
    mapped = np.memmap(tmp_path / "values", np.float32, "r")
    w = np.random.default_rng(1).standard_normal(shape[1])
    products = [Matrix(indptr, columns, v, shape, plan="split").matvec(w) for v in (values, mapped)]
    assert np.array_equal(*products)


@gpu
def test_large_dense_rows_go_up():
    dense = np.random.default_rng(3).standard_normal((5003, 2001))
    w = np.random.default_rng(4).standard_normal(2001)
    assert np.allclose(Matrix.from_dense(dense, threads=8).matvec(w), dense @ w, rtol=1e-12, atol=1e-10)


@gpu
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limit", [None, 2_000_000])
def test_values_that_are_not_finite_are_told(value, dtype, limit):
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
def test_a_value_that_float32_cannot_hold_is_told():
    with np.errstate(over="ignore"), pytest.raises(DataError, match="stored value inf is not finite"):
        Matrix([0, 1], [0], [1e300], (1, 1), dtype=np.float32, finite=True)
