"""`bmrm.matrix._cuda` as far as k-means needs it, with the kernels of ``src_cuda/clusters`` run on the CPU.

``emulator`` adds to the CUDA runtime of ``tests/graph/emulator`` what these kernels need, the tensor cores
included. What differs from a GPU is time, and that copies do not run ahead.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

import numpy as np
from emulated_build import ONE_AT_A_TIME, Device, address, compile_kernels, open_kernels

from bmrm.io.csr import Csr

SOURCES = (
    "src_cuda/clusters/nearest.cu",
    "src_cuda/clusters/nearest_sparse.cu",
    "src_cuda/clusters/clusters.cu",
    "src_cuda/clusters/seeding.cu",
    "src_cuda/runtime/pinned.cpp",
)
COUNTS = ("bb_clusters_additions", "bb_clusters_bytes", "bb_sparse_clusters_bytes")


class Counts(ctypes.Structure):
    _fields_ = [("inertia", c_double), ("changed", c_int64), ("rechecked", c_int64), ("largest", c_double)]


@cache
def build() -> Path:
    """Compile the kernels and their host code."""
    return compile_kernels(SOURCES)


@cache
def load(library: Path | str | None = None) -> ctypes.CDLL:
    """Load the library of `build`."""
    return open_kernels(library or build(), COUNTS)


class Module:
    """What `import_cuda` returns.

    The compute capability of the device and the number of its multiprocessors are those given.
    """

    PANEL_ROWS, MAX_TRIALS = 1024, 15

    def __init__(self, library: ctypes.CDLL, major: int = 9, multiprocessors: int = 3) -> None:
        self.library, self.device = library, Device(0, major, 0, multiprocessors)

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.emulator_failure().decode())

    def predict_cluster_bytes(self, n: int, d: int, k: int, dtype: type, uploaded: bool) -> int:
        kind = int(np.dtype(dtype) == np.float64)
        return self.library.bb_clusters_bytes(c_int64(n), c_int64(d), c_int64(k), kind, int(uploaded))

    def predict_sparse_cluster_bytes(self, n: int, d: int, entries: int, k: int, dtype: type | None) -> int:
        kind = int(dtype is None or np.dtype(dtype) == np.float64)
        sizes = map(c_int64, (n, d, entries, k))
        return self.library.bb_sparse_clusters_bytes(*sizes, kind, int(dtype is not None))

    def count_cluster_additions(self, n: int, d: int, k: int) -> int:
        return self.library.bb_clusters_additions(c_int64(n), c_int64(d), c_int64(k))

    @property
    def Clusters(self):  # noqa: N802
        """The class, and its other constructor."""
        module = self

        class Rows(Clusters):
            def __init__(self, X, weights=None, *, device=0, memory_limit=None, threads=None):
                X = np.ascontiguousarray(X)
                values = int(X.dtype == np.float64), address(X)
                super().__init__(module, "dense", X.shape, values, weights)

            @staticmethod
            def sparse(indptr, indices, data, shape, weights=None, *, most=None, device=0, threads=None):
                columns = np.ascontiguousarray(indices, np.int32)
                kind = int(data is None or data.dtype == np.float64)
                most = c_int64(len(columns) if most is None else most)
                values = most, address(indptr), address(columns), kind, address(data)
                return Clusters(module, "sparse", shape, values, weights)

        return Rows


class Column:
    def __init__(self, rows: Clusters, bits: int, dtype: type) -> None:
        self.rows, self.dtype, self.address = rows, dtype, c_void_p()
        rows.call("lend", c_uint32(bits), byref(self.address))

    def __del__(self) -> None:
        self.rows.module.library.bb_clusters_give(self.rows.handle, self.address)

    def read(self, first: int, last: int) -> np.ndarray:
        out = np.empty(last - first, self.dtype)
        self.rows.call("read", self.address, c_int64(first), c_int64(last - first), address(out))
        return out

    def write(self, values: np.ndarray) -> None:
        self.rows.call("write", self.address, address(np.ascontiguousarray(values, self.dtype)))


class Clusters:
    def __init__(self, module: Module, kind: str, shape, values: tuple, weights: np.ndarray | None) -> None:
        self.module, self.handle = module, c_void_p()
        self.n, self.d = shape
        module.check(
            getattr(module.library, f"bb_clusters_{kind}")(
                byref(module.device), c_int64(self.n), c_int64(self.d), *values,
                address(weights), c_int64(0), 1, byref(self.handle),
            )
        )  # fmt: skip

    def __del__(self) -> None:
        self.module.library.bb_clusters_destroy(self.handle)

    def call(self, name: str, *arguments: object) -> None:
        with ONE_AT_A_TIME:
            self.module.check(getattr(self.module.library, f"bb_clusters_{name}")(self.handle, *arguments))

    def load(self, X: np.ndarray | Csr, weights: np.ndarray | None = None) -> None:
        self.n = X.shape[0]
        if isinstance(X, Csr):
            columns = np.ascontiguousarray(X.indices, np.int32)
            arrays = (np.ascontiguousarray(X.indptr), columns, X.data, weights)
            return self.call("load_sparse", c_int64(self.n), *map(address, arrays))
        self.call("load", c_int64(self.n), address(np.ascontiguousarray(X)), address(weights))

    def largest(self) -> float:
        found = c_double()
        self.call("largest", byref(found))
        return found.value

    def pack(self, shift: np.ndarray, scale: float) -> None:
        self.call("pack", address(shift), c_double(scale))

    def take(self, numbers: np.ndarray) -> np.ndarray:
        numbers = np.ascontiguousarray(numbers, np.int64)
        out = np.empty((len(numbers), self.d))
        self.call("take", address(numbers), c_int64(len(numbers)), address(out))
        return out

    def labels(self) -> Column:
        return Column(self, 0xFFFFFFFF, np.int32)

    def distances(self) -> Column:
        return Column(self, 0x7F800000, np.float32)

    def assign(self, centers, labels, *, want_sums=True):
        centers, k, found = np.ascontiguousarray(centers, np.float64), len(centers), Counts()
        sums, weights = np.empty((k, self.d)) if want_sums else None, np.empty(k)
        self.call(
            "assign",
            address(centers),
            c_int64(k),
            labels.address,
            address(sums),
            address(weights),
            byref(found),
        )
        return sums, weights, found.inertia, found.changed, found.rechecked

    def own_distances(self, centers, labels):
        out, centers = np.empty(self.n), np.ascontiguousarray(centers, np.float64)
        self.call("own", address(centers), c_int64(len(centers)), labels.address, address(out))
        return out

    def single_moves(self, centers, labels, cluster_weights):
        centers, found = np.ascontiguousarray(centers, np.float64), Counts()
        self.call(
            "moves",
            address(centers),
            c_int64(len(centers)),
            labels.address,
            address(cluster_weights),
            byref(found),
        )
        return found.changed, found.largest

    def measure(self, centers):
        centers = np.ascontiguousarray(centers, np.float64)
        out = np.empty((self.n, len(centers)))
        self.call(
            "distances", address(centers), c_int64(len(centers)), c_int64(0), c_int64(self.n), address(out)
        )
        return out

    def potentials(self, points, closest, *, take=False):
        points = np.ascontiguousarray(points, np.float64)
        out = np.empty((len(points), -(-self.n // self.module.PANEL_ROWS)))
        self.call(
            "potentials",
            address(points),
            c_int64(len(points)),
            closest.address,
            int(take),
            address(out),
        )
        return out

    def begin_walk(self, first, uniform, part_rows, closest):
        self.uniform = np.ascontiguousarray(uniform, np.float64)
        self.call(
            "begin_walk", c_int64(first), address(self.uniform), c_int64(1 + len(uniform)),
            c_int64(uniform.shape[1]), c_int64(part_rows), closest.address,
        )  # fmt: skip

    def walk(self, count):
        chosen, found = np.empty(count, np.int64), c_int64()
        self.call("walk", c_int64(count), address(chosen), byref(found))
        return chosen[: found.value]

    def approach(self, points, first, scale, closest, nearest):
        points = np.ascontiguousarray(points, np.float64)
        out = np.empty(-(-self.n // self.module.PANEL_ROWS))
        self.call(
            "approach", address(points), c_int64(len(points)), c_int64(first), c_double(scale),
            closest.address, nearest.address, address(out),
        )  # fmt: skip
        return out

    def count(self, labels, k):
        out = np.empty(k, np.uint32)
        self.call("count", labels.address, c_int64(k), address(out))
        return out

    def draw_each(self, key, first, factor, closest):
        drawn, count = self.labels(), c_int64()
        self.call(
            "draw", closest.address, c_uint64(key), c_int64(first), c_double(factor), drawn.address,
            byref(count),
        )  # fmt: skip
        return drawn.read(0, count.value)
