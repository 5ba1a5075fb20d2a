"""`bmrm.matrix._cuda.DenseRows` with the kernels of ``src_cuda/rows`` and its passes run on the CPU.

Products of blocks are those of devices without tensor cores for float64.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

import numpy as np
from emulated_build import ONE_AT_A_TIME, Device, address, compile_kernels, open_kernels

SOURCES = (
    "src_cuda/rows/dense_rows.cu",
    "src_cuda/decomposition/gram.cu",
    "src_cuda/mixtures/mixture.cu",
)
COUNTS = ("bb_gram_additions", "bb_gram_bytes", "bb_mixture_bytes", "bb_mixture_columns")


class Model(ctypes.Structure):
    _fields_ = [
        ("k", c_int32), ("full", c_int32), ("means", c_void_p), ("roots", c_void_p), ("constants", c_void_p)
    ]  # fmt: skip


class Moments(ctypes.Structure):
    _fields_ = [
        ("weights", c_void_p), ("first", c_void_p), ("second", c_void_p), ("likelihood", c_double)
    ]  # fmt: skip


@cache
def build() -> Path:
    """Compile the kernels and their host code."""
    return compile_kernels(SOURCES)


@cache
def load(library: Path | str | None = None) -> ctypes.CDLL:
    """Load the library of `build`."""
    return open_kernels(library or build(), COUNTS)


def given(array: object, dtype: type = np.float64) -> np.ndarray | None:
    return None if array is None else np.ascontiguousarray(array, dtype)


class Module:
    """What stands for the module, on a device with some shared memory."""

    def __init__(self, library: ctypes.CDLL, shared_bytes: int = 100_000) -> None:
        self.library = library
        self.device = Device(0, 9, 0, 4, shared_bytes, shared_bytes + 1024, 0, 1 << 30, 1 << 30, b"emulated")
        self.DenseRows = type("DenseRows", (DenseRows,), {"module": self})

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.emulator_failure().decode())

    def count_gram_additions(self, n: int, d: int) -> int:
        return self.library.bb_gram_additions(c_int64(n), c_int64(d))

    def predict_gram_bytes(self, n: int, d: int) -> int:
        return self.library.bb_gram_bytes(c_int64(n), c_int64(d))

    def predict_mixture_bytes(self, n: int, d: int, k: int, full: bool) -> int:
        return self.library.bb_mixture_bytes(c_int64(n), c_int64(d), c_int32(k), c_int32(full))

    def predict_cluster_bytes(self, n: int, d: int, k: int, dtype: type, uploaded: bool) -> int:
        return n * (28 + uploaded * d * np.dtype(dtype).itemsize)  # without what depends on k

    def count_mixture_columns(self, device: int = 0) -> int:
        return self.library.bb_mixture_columns(byref(self.device))


class DenseRows:
    module: Module

    def __init__(self, X, weights=None, *, device=0, spare=0, threads=None):
        self.X, self.handle = np.ascontiguousarray(X), c_void_p()
        self.shape, self.dtype, weights = X.shape, X.dtype, given(weights)
        self._call("dense_rows_create", byref(self.module.device), c_int32(X.dtype == np.float64),
                   c_int64(X.shape[0]), c_int64(X.shape[1]), address(self.X), address(weights),
                   c_int64(spare), c_int32(1), byref(self.handle), of_rows=False)  # fmt: skip

    def __del__(self):
        self.module.library.bb_dense_rows_destroy(self.handle)

    def _call(self, name, *arguments, of_rows=True):
        call = getattr(self.module.library, f"bb_{name}")
        with ONE_AT_A_TIME:
            self.module.check(call(self.handle, *arguments) if of_rows else call(*arguments))

    def load(self, X, weights=None):
        self.X, self.shape, weights = np.ascontiguousarray(X), X.shape, given(weights)
        self._call("dense_rows_load", c_int64(len(X)), address(self.X), address(weights))

    def take(self, numbers):
        numbers = given(numbers, np.int64)
        out = np.empty((len(numbers), self.shape[1]))
        self._call("dense_rows_take", address(numbers), c_int64(len(numbers)), address(out))
        return out

    def extremes(self):
        largest, row = c_double(), c_int64()
        self._call("dense_rows_extremes", byref(largest), byref(row))
        return largest.value, None if row.value < 0 else row.value

    def gram(self, shift, *, grid=0):
        d = self.shape[1]
        matrix, totals, shift = np.full((d, d), np.nan), np.full(d, np.nan), given(shift)
        self._call("gram", address(shift), c_int32(grid), address(matrix), address(totals))
        return matrix, totals

    def mixture_step(self, means, roots, constants, *, grid=0):
        means, roots, constants = map(given, (means, roots, constants))
        return self._moments(means, roots, constants, roots.ndim == 3, None, grid)

    def label_moments(self, labels, means, full, *, grid=0):
        return self._moments(given(means), None, None, full, given(labels, np.int32), grid)[1:]

    def _moments(self, means, roots, constants, full, labels, grid):
        k, d = means.shape
        sizes, first, second = np.empty(k), np.empty((k, d)), np.empty((k, d, d) if full else (k, d))
        model = Model(k, full, address(means), address(roots), address(constants))
        moments = Moments(address(sizes), address(first), address(second))
        self._call("mixture_step", byref(model), address(labels), c_int32(grid), byref(moments))
        return moments.likelihood, sizes, first, second

    def mixture_shares(self, means, roots, constants):
        means, roots, constants = map(given, (means, roots, constants))
        model = Model(len(means), roots.ndim == 3, address(means), address(roots), address(constants))
        densities, shares = np.empty(self.shape[0]), np.empty((self.shape[0], len(means)))
        self._call("mixture_shares", byref(model), address(densities), address(shares))
        return densities, shares
