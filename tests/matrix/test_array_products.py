"""Products with arrays of CuPy, PyTorch and JAX on a GPU: what is asked of stand-ins for these libraries.

The arrays are in main memory, and the matrix finds them by their addresses alone.
"""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from bmrm import Operator
from bmrm.errors import DataError, ParameterError
from bmrm.matrix import _cpu
from bmrm.matrix.gpu import array_products
from bmrm.matrix.operator import _Resident

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 5))


class Array:
    """An array "on a GPU": it cannot become one of NumPy."""

    __module__ = "cupy"
    number, log = 0, None

    def __init__(self, array):
        self.held = np.asarray(array)
        self.dtype, self.shape, self.ndim = self.held.dtype, self.held.shape, self.held.ndim
        self.device = nullcontext()

    @property
    def __cuda_array_interface__(self):
        known = self.held.__array_interface__
        strides = None if self.held.flags.c_contiguous else known["strides"] or self.held.strides
        return {"shape": self.shape, "typestr": known["typestr"], "data": (known["data"][0], True)} | {
            "strides": strides,
            "version": 3,
        }

    def __dlpack_device__(self):
        return 2, self.number

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, part):
        return type(self)(self.held[part])

    @property
    def T(self):  # noqa: N802
        return type(self)(self.held.T)


class Tensor(Array):
    __module__ = "torch"

    def __init__(self, array):
        super().__init__(array)
        self.dtype = f"torch.{self.held.dtype}"

    def detach(self):
        return self

    def to(self, dtype):
        return type(self)(self.held.astype(dtype))

    def contiguous(self):
        return type(self)(np.ascontiguousarray(self.held))


class JaxArray(Array):
    __module__ = "jaxlib._jax"

    def devices(self):
        return {"a GPU"}


class Matrix:
    """A float32 or float64 matrix "on GPU 0" that records on which streams it works."""

    location, device, threads = "gpu", 0, 1

    def __init__(self, dtype):
        self.inner = _cpu.Matrix.from_dense(X)
        self.vector_dtype = self.dtype = np.dtype(dtype)
        self.shape, self.nnz = X.shape, X.size
        self.stream, self.calls = 77, []

    def use_stream(self, stream):
        self.stream = stream

    def synchronize(self):
        self.calls.append("synchronize")

    def apply(self, op, x, y, columns):
        source, target = (np.asarray(SimpleNamespace(__array_interface__=at(each))) for each in (x, y))
        assert source.dtype == target.dtype == self.vector_dtype
        assert x.__cuda_array_interface__["strides"] is None
        self.calls.append((op, columns, self.stream))
        target[...] = (X if op == "normal" else X.T) @ source


def at(array):
    shown = array.__cuda_array_interface__
    assert shown["data"][1] is False
    return shown


@pytest.fixture
def streams(monkeypatch):
    """Install the three libraries; return the object of the current stream, whose number can be set."""
    current = SimpleNamespace(ptr=5, cuda_stream=5)

    def module(name, **content):
        found = ModuleType(name)
        vars(found).update(content)
        monkeypatch.setitem(sys.modules, name, found)
        return found

    module(
        "cupy",
        cuda=SimpleNamespace(get_current_stream=lambda: current),
        ascontiguousarray=lambda x, dtype: Array(np.ascontiguousarray(x.held, dtype)),
        empty=lambda shape, dtype: Array(np.full(shape, np.nan, dtype)),
        concatenate=lambda parts, axis: Array(np.concatenate([part.held for part in parts], axis)),
    )
    module(
        "torch",
        float32=np.float32,
        float64=np.float64,
        cuda=SimpleNamespace(current_stream=lambda device: current, device=lambda device: device),
        empty=lambda shape, dtype, device: Tensor(np.full(shape, np.nan, dtype)),
        cat=lambda parts, axis: Tensor(np.concatenate([part.held for part in parts], axis)),
    )
    jax = module("jax", block_until_ready=lambda x: x, default_device=lambda device: nullcontext())
    jax.numpy = module(
        "jax.numpy",
        asarray=lambda x, dtype: JaxArray(np.ascontiguousarray(x.held, dtype)),
        zeros=lambda shape, dtype: JaxArray(np.zeros(shape, dtype)),
        concatenate=lambda parts, axis: JaxArray(np.concatenate([part.held for part in parts], axis)),
    )
    return current


def operator(dtype=np.float64):
    matrix = Matrix(dtype)
    found = Operator.__new__(Operator)
    found._hold(_Resident(matrix, "cuda (Abacus 9)", np.dtype(dtype), "0"), transposed=False)
    return found, matrix


KINDS = [Array, Tensor, JaxArray]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of_matrix", [np.float32, np.float64])
@pytest.mark.parametrize("of_vector", [np.float32, np.float64, np.int64])
def test_the_result_is_an_array_of_the_library(streams, kind, of_matrix, of_vector):
    A, _ = operator(of_matrix)
    for K in (0, 1, 3, 17, 40):
        V, U = (10 * RNG.standard_normal((n, K)) for n in (5, 9))
        V, U = V.astype(of_vector), U.astype(of_vector)
        for found, wanted in (
            (A @ kind(V), X @ V),
            (A.T @ kind(U), X.T @ U),
            (A.matmat(kind(V.T.copy()).T), X @ V),  # not stored by rows
            (A.__rmul__(kind(U.T.copy())), U.T @ X),
        ):
            assert type(found) is kind
            assert found.held.dtype == np.result_type(of_matrix, of_vector)
            np.testing.assert_allclose(found.held, wanted, rtol=1e-4, atol=1e-4)
    w, r = RNG.standard_normal(5).astype(np.float32), RNG.standard_normal(9).astype(np.float32)
    for found, wanted in ((A @ kind(w), X @ w), (A.rmatvec(kind(r)), X.T @ r), (A.__rmul__(kind(r)), r @ X)):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found.held, wanted, rtol=1e-4, atol=1e-4)
    assert (A @ kind(np.repeat(w, 2)[::2])).held == pytest.approx(X @ w, rel=1e-4, abs=1e-4)
    assert (A @ kind(w[:, None])).shape == (9, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_on_the_current_stream(streams, kind):
    A, matrix = operator()
    A @ kind(np.ones(5))
    streams.ptr = streams.cuda_stream = 6
    A.T @ kind(np.ones((9, 33)))
    first, second = (0, 0) if kind is JaxArray else (5, 6)
    calls = [("normal", 1, first), ("transposed", 32, second), ("transposed", 1, second)]
    assert [call for call in matrix.calls if call != "synchronize"] == calls
    # JAX shows no stream, so the product has ended when the call returns.
    assert matrix.calls.count("synchronize") == (3 if kind is JaxArray else 0)


def test_a_stream_lives_as_long_as_a_matrix_works_on_it(streams):
    A, matrix = operator()
    A @ Array(np.ones(5))
    assert array_products._streams[matrix] is streams
    A @ JaxArray(np.ones(5))
    assert array_products._streams[matrix] is None


class Numba(Array):
    __module__ = "numba.cuda.cudadrv.devicearray"


class Elsewhere(Array):
    number = 1


class Complex(Tensor):
    def __init__(self, array):
        super().__init__(array)
        self.dtype = "torch.complex128"


class Brain(Tensor):
    def __init__(self, array):
        super().__init__(array)
        self.dtype = "torch.bfloat16"


def test_arrays_that_do_not_fit_are_refused_in_one_line(streams, monkeypatch):
    A, matrix = operator()
    monkeypatch.setattr(Elsewhere, "__module__", "cupy")
    monkeypatch.setattr(sys.modules["cupy"], "ascontiguousarray", lambda x, dtype: x)
    for x, text in (
        (Numba(np.ones(5)), "x: found an array of numba on a GPU, expected one of CuPy, PyTorch or JAX"),
        (Elsewhere(np.ones(5)), "x: found an array on GPU 1, expected one on GPU 0, where X is"),
        (Complex(np.ones(5)), "x: found values of type complex128, expected real numbers"),
        (Brain(np.ones(5)), "x: found values of type bfloat16, expected real numbers"),
    ):
        with pytest.raises(DataError) as found:
            A @ x
        assert str(found.value) == text
    with pytest.raises(ParameterError, match=r"^x: found shape \(4,\), expected \(5,\) or \(5, 1\)$"):
        A @ Array(np.ones(4))
    with pytest.raises(ParameterError, match=r"^x: found shape \(4, 2\), expected \(5, K\)$"):
        A @ Array(np.ones((4, 2)))
    with pytest.raises(
        DataError, match=r"^x: found an array on a GPU, expected one in main memory, where X is$"
    ):
        Operator(X, device="cpu") @ Array(np.ones(5))
    assert matrix.calls == []


def test_a_library_without_float64_says_so(streams):
    A, _ = operator()
    narrow = sys.modules["jax.numpy"]
    narrow.asarray = lambda x, dtype: JaxArray(np.asarray(x.held, np.float32))
    with pytest.raises(DataError, match=r"^x: found float32 on a GPU, expected float64$"):
        A @ JaxArray(np.ones(5, np.float32))
