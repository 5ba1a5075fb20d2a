"""`bmrm.matrix._cuda` as far as scaling needs it, with the kernels of ``src_cuda/manifold`` run on the CPU.

The CUDA runtime is that of ``tests/graph/emulator``: the threads of a block are fibers.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_int32, c_int64, c_void_p
from functools import cache

import numpy as np
from emulated_build import compile_kernels, open_kernels

SOURCES = (
    "src_cuda/manifold/scaling.cu",
    "src_cuda/manifold/scaling_passes.cu",
    "src_cuda/manifold/descent.cu",
    "src_cuda/manifold/weighted_descent.cu",
    "src_cuda/manifold/laplacian.cu",
    "src_cuda/runtime/mailbox.cu",
)


class Values(ctypes.Structure):
    _fields_ = [("values", c_void_p), ("type", c_int32), ("square", c_int32), ("in_place", c_int32)]


class PairsOf(ctypes.Structure):
    _fields_ = [
        ("n", c_int64), ("delta", Values), ("weights", Values), ("missing", c_int32), ("stored", c_int32),
        ("features", c_void_p), ("features_type", c_int32), ("m", c_int64), ("threads", c_int32),
    ]  # fmt: skip


class Defect(ctypes.Structure):
    _fields_ = [
        ("kind", c_int32), ("missing", c_int32), ("row", c_int64), ("column", c_int64), ("value", c_double),
        ("other", c_double), ("largest", c_double),
    ]  # fmt: skip


@cache
def load() -> ctypes.CDLL:
    """Compile the kernels and their host code, and load them."""
    return open_kernels(compile_kernels(SOURCES, "-O0"), ("bb_scaling_sum_bytes",))


def in_memory(array):
    """The array of an address that stands for one on a device, or the array itself."""
    there = getattr(array, "__cuda_array_interface__", None)
    if there is None:
        return array, False
    return np.ctypeslib.as_array(
        (ctypes.c_char * (int(np.prod(there["shape"])) * np.dtype(there["typestr"]).itemsize)).from_address(
            there["data"][0]
        )
    ).view(there["typestr"]).reshape(there["shape"]), True


def values_of(array):
    if array is None:
        return Values()
    array, in_place = in_memory(array)
    assert array.flags.c_contiguous
    return Values(array.ctypes.data, int(array.dtype == np.float64), int(array.ndim == 2), int(in_place))


class Module:
    """What stands for the module."""

    MAX_SCALING_AXES = 16

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

        class Bound:
            module = self

        self.ResidentPairs = type("ResidentPairs", (ResidentPairs, Bound), {})

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.emulator_failure().decode())

    def predict_scaling_bytes(self, n, adds):
        return self.library.bb_scaling_sum_bytes(c_int64(n), c_int32(adds))

    def inspect_resident_pairs(self, values, n, *, nan_allowed, diagonal, asymmetry, device=0):
        given, found = values_of(values), Defect()
        self.check(
            self.library.bb_scaling_inspect(
                c_int32(device), c_int64(n), byref(given), c_int32(nan_allowed), c_double(diagonal),
                c_double(asymmetry), byref(found),
            )
        )  # fmt: skip
        return (
            found.kind, found.row, found.column, found.value, found.other, found.largest, bool(found.missing)
        )  # fmt: skip


class PointVector:
    def __init__(self, pairs, columns):
        self.pairs, self.columns, self.size, self.pointer = pairs, columns, pairs.n * columns, c_void_p()
        pairs.call("lend", c_int64(self.size), byref(self.pointer))

    def __del__(self):
        if self.pairs.handle:
            self.pairs.module.library.bb_scaling_give(self.pairs.handle, c_int64(self.size), self.pointer)


class ResidentPairs:
    module: Module

    def __init__(
        self,
        n,
        *,
        delta=None,
        weights=None,
        missing=False,
        features=None,
        stored=False,
        device=0,
        threads=None,
    ):
        self.n, self.handle, self._kept = n, c_void_p(), (delta, weights)
        given = PairsOf(n, values_of(delta), values_of(weights), missing, stored)
        if features is not None:
            given.features, given.m = features.ctypes.data, features.shape[1]
            given.features_type = int(features.dtype == np.float64)
        self.module.check(
            self.module.library.bb_scaling_create(c_int32(device), byref(given), byref(self.handle))
        )

    def call(self, name, *arguments):
        self.module.check(getattr(self.module.library, f"bb_scaling_{name}")(self.handle, *arguments))

    def close(self):
        self.module.library.bb_scaling_destroy(self.handle)
        self.handle = c_void_p()

    def __del__(self):
        self.close()

    @property
    def device_bytes(self):
        found = c_int64()
        self.call("used", byref(found))
        return found.value

    def put(self, values):
        values = np.ascontiguousarray(values, np.float64)
        out = PointVector(self, values.shape[1])
        self.call("put", c_int64(out.size), c_void_p(values.ctypes.data), out.pointer)
        return out

    def get(self, vector):
        values = np.empty((self.n, vector.columns))
        self.call("get", c_int64(vector.size), vector.pointer, c_void_p(values.ctypes.data))
        return values

    def combine(self, vectors, factors):
        out, count = PointVector(self, vectors[0].columns), len(vectors)
        assert count <= 32
        addresses = (c_void_p * count)(*(each.pointer.value for each in vectors))
        shares = (c_double * count)(*map(float, factors))
        self.call("combine", c_int64(out.size), addresses, shares, c_int32(count), out.pointer)
        return out

    def products(self, pairs):
        count = len(pairs)
        assert count <= 64
        lists = [(c_void_p * count)(*(pair[k].pointer.value for pair in pairs)) for k in (0, 1)]
        found = (c_double * count)()
        self.call("products", c_int64(pairs[0][0].size), *lists, c_int32(count), found)
        return list(found)

    def over_degrees(self, vector):
        out = PointVector(self, vector.columns)
        self.call("over_degrees", c_int32(out.columns), vector.pointer, out.pointer)
        return out

    def centre(self, vector):
        out = PointVector(self, vector.columns)
        self.call("centre", c_int32(out.columns), vector.pointer, out.pointer)
        return out

    def summary(self):
        degrees, totals = np.empty(self.n), (c_double * 3)()
        self.call("summary", c_void_p(degrees.ctypes.data), totals)
        return degrees, totals[0], totals[1], int(totals[2])

    def descent(self, X):
        out, totals = PointVector(self, X.columns), (c_double * 3)()
        self.call("descent", c_int32(out.columns), X.pointer, out.pointer, totals)
        return out, totals[0], totals[1], int(totals[2])

    def laplacian(self, Y):
        out = PointVector(self, Y.columns)
        self.call("laplacian", c_int32(out.columns), Y.pointer, out.pointer)
        return out

    def squared(self, Y, unknown=0.0):
        out = PointVector(self, Y.columns)
        self.call("squared", c_int32(out.columns), Y.pointer, c_double(unknown), out.pointer)
        return out

    def pulls(self, X):
        out = PointVector(self, 1)
        self.call("pulls", c_int32(X.columns), X.pointer, out.pointer)
        return out

    def curvature(self, X, direction):
        out = PointVector(self, X.columns)
        self.call("curvature", c_int32(X.columns), X.pointer, direction.pointer, out.pointer)
        return out

    def row(self, i):
        values = np.empty(self.n)
        self.call("row", c_int64(i), c_void_p(values.ctypes.data))
        return values
