"""`bmrm.matrix._cuda` as far as graphs need it, with the kernels of ``src_cuda/graph`` run on the CPU.

``emulator`` has a CUDA runtime for that: the threads of a block are fibers, and the matrix is one of
compressed rows. What differs from a GPU is time, and the order in which a product adds.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_int32, c_int64, c_void_p
from pathlib import Path

import compiled
import numpy as np

from bmrm.errors import BmrmError
from bmrm.graph.backends import choose, gpu
from bmrm.matrix.gpu import placement, work

EMULATOR = "tests/graph/emulator"
SOURCES = (
    "src_cuda/graph/walk.cu",
    "src_cuda/graph/basis.cu",
    "src_cuda/graph/numbering.cu",
    "src_cuda/graph/peers.cu",
    "src_cuda/graph/window.cu",
    "src_cuda/distributed/collective.cu",
    "src_cuda/distributed/nccl.cu",
    "src_cuda/runtime/mailbox.cu",
    f"{EMULATOR}/columns.cpp",
    f"{EMULATOR}/emulator.cpp",
)


GATHER = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, ctypes.POINTER(c_int64))


class Terms(ctypes.Structure):
    _fields_ = [
        ("damping", c_double), ("v", c_void_p), ("v0", c_double), ("u", c_void_p), ("rows", c_void_p),
        ("owners", c_void_p), ("shares", c_void_p), ("entries", c_int64), ("most", c_double),
        ("per_entry", c_double),
    ]  # fmt: skip


class Calls(ctypes.Structure):
    _fields_ = [
        ("rank", c_int32), ("size", c_int32), ("context", c_void_p), ("total", c_void_p),
        ("add_up", c_void_p), ("gather", GATHER),
    ]  # fmt: skip


class Shared(ctypes.Structure):
    _fields_ = [
        ("calls", ctypes.POINTER(Calls)), ("nccl", c_void_p), ("bounds", c_void_p), ("windows", c_int32),
    ]  # fmt: skip


class Step(ctypes.Structure):
    _fields_ = [
        ("slots", c_void_p), ("count", c_int32), ("factors", c_void_p), ("mixed", c_int32), ("into", c_int32),
        ("ahead", c_int32),
    ]  # fmt: skip


def build() -> Path:
    """Compile the kernels and their host code."""
    folders = (f"-I{path}" for path in (EMULATOR, "src_common", "src_cuda"))
    return compiled.library(SOURCES, ["-O1", "-w", "-include", "cuda_runtime.h", *folders], linked=["-lrt"])


def build_nccl() -> Path:
    """Compile what stands for NCCL."""
    return compiled.library([f"{EMULATOR}/nccl.cpp"], ["-O1"])


def install(library: ctypes.CDLL, replace=setattr) -> Module:
    """Let graphs find the emulated device; ``replace`` sets an attribute of a module."""
    found = Module(library)

    def build_matrix(cuda, X, dtype, name, options):
        return cuda.Matrix(X.indptr, X.indices, X.data, X.shape, **options)

    for module in (gpu, choose, placement):
        replace(module, "import_cuda", lambda: found)
    replace(gpu, "build_with_known_plans", build_matrix)
    replace(work.MatrixWork, "compare", lambda self, find_gpu: (True, "for this test"))
    return found


def declare(found: ctypes.CDLL) -> None:
    """Set the types of what the library's functions return."""
    found.emulator_failure.restype = ctypes.c_char_p
    for name in ("emulator_matrix", "bb_walk_additions", "bb_walk_bytes", "emulator_used"):
        getattr(found, name).restype = c_void_p if name == "emulator_matrix" else c_int64


def address(array: np.ndarray | None) -> c_void_p:
    return c_void_p(None if array is None else array.ctypes.data)


def given(array: object, dtype: type) -> np.ndarray | None:
    return None if array is None else np.ascontiguousarray(array, dtype)


def multiply(library: ctypes.CDLL, X, x: np.ndarray) -> np.ndarray:
    """Return the product of a SciPy matrix and several vectors, by the kernels of the plan `split`."""
    parts = given(X.indptr, np.int64), given(X.indices, np.uint32), given(X.data, np.float64)
    ones = (X.data == 1).all()
    y, x = np.zeros((X.shape[0], x.shape[1])), given(x, np.float64)
    library.emulator_columns(
        *map(address, (*parts[:2], None if ones else parts[2])), c_int64(X.shape[0]), address(x),
        c_int32(x.shape[1]), address(y),
    )  # fmt: skip
    return y


class Module:
    """What stands for the module; ``plan`` is that of the matrices of one vector."""

    def __init__(self, library: ctypes.CDLL) -> None:
        declare(library)
        self.library = library
        self.ahead_steps = 0
        self.free_bytes, self.devices = 1 << 30, 1

        class Bound:
            module = self

        kinds = (Matrix, Nodes, Walk, Basis)
        self.Ranks, self.GraphRanks, self.Nccl = Ranks, GraphRanks, self.join_nccl
        self.Matrix, self.Nodes, self.Walk, self.Basis = (
            type(kind.__name__, (kind, Bound), {}) for kind in kinds
        )

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.emulator_failure().decode())

    def device_info(self, device: int) -> dict[str, object]:
        return {"name": "emulated", "multiprocessors": 1, "free_bytes": self.free_bytes}

    def device_count(self) -> int:
        return self.devices

    def count_walk_additions(self, n: int, columns: int) -> int:
        return self.library.bb_walk_additions(c_int64(n), c_int32(columns))

    def predict_walk_bytes(self, n: int, columns: int, images: int, nodes: int | None = None) -> int:
        nodes = n if nodes is None else nodes
        return self.library.bb_walk_bytes(c_int64(n), c_int64(nodes), c_int32(columns), c_int32(images))

    def device_uuid(self, device: int) -> bytes:
        return b"emulated %d" % device

    def load_nccl(self, library: str) -> None:
        if self.library.bb_nccl_load(library.encode()):
            raise BmrmError("there is no NCCL")

    def nccl_id(self) -> bytes:
        found = ctypes.create_string_buffer(128)
        self.check(self.library.bb_nccl_id(found))
        return found.raw

    def join_nccl(self, device: int, name: bytes, rank: int, size: int) -> c_void_p:
        handle = c_void_p()
        letters = ctypes.create_string_buffer(name, 128)
        self.check(
            self.library.bb_nccl_join(c_int32(0), letters, c_int32(rank), c_int32(size), byref(handle))
        )
        return handle


class Matrix:
    module: Module

    def __init__(self, indptr, indices, data, shape, *, dtype, plan="split", **options):
        arrays = given(indptr, np.int64), given(indices, np.int32), given(data, np.float64)
        self.shape, self.plan, self.stream, self.device = shape, plan, 0, options["device"]
        self.handle = c_void_p(
            self.module.library.emulator_matrix(
                *map(c_int64, shape), *map(address, arrays), c_int32(np.dtype(dtype) == np.float64)
            )
        )

    @staticmethod
    def predict_format(m, d, nnz, value_bytes, *, transpose=None):
        return (1 if transpose is False else 2) * (nnz * (2 + value_bytes) + 4 * (m + 1))

    def report(self):
        return {"blocks": [{"normal": {"kernel": self.plan, "lanes": 4, "cap": 16}}]}

    @property
    def used(self):
        return self.module.library.emulator_used(self.handle)

    def __del__(self):
        self.module.library.emulator_free(self.handle)


class Ranks:
    def __init__(self, rank, size, dtype, total, add_up, gather, nccl=None):
        def complete(context, whole, bounds):
            try:
                edges = np.array(bounds[: size + 1])
                if edges[-1]:
                    gather(
                        np.ctypeslib.as_array((ctypes.c_uint8 * int(edges[-1])).from_address(whole)), edges
                    )
            except Exception as error:
                self.error = error
                return 1
            return 0

        self.error, self.nccl, self.gather = None, nccl, GATHER(complete)
        self.calls = Calls(rank, size, None, None, None, self.gather)


class GraphRanks:
    def __init__(self, ranks, bounds, windows=True):
        self.ranks, self.bounds = ranks, given(bounds, np.int64)
        self.calls = Shared(ctypes.pointer(ranks.calls), ranks.nccl, address(self.bounds), windows)


class Nodes:
    module: Module

    def __init__(self, light, rest, exact, lengths, scale, places, beside=None, shared=None, all_places=None):
        self.light, self.rest, self.exact, self.shared, self.handle = light, rest, exact, shared, c_void_p()
        self.n, self.n_all = exact.shape
        self.main = exact if light is None else light
        kept = given(lengths, np.uint32), given(scale, np.float64)
        kept += given(places, np.uint32), given(all_places, np.uint32)
        matrices = (c_void_p * 3)(*(each and each.handle.value for each in (light, rest, exact)))
        self.module.check(
            self.module.library.bb_nodes_create(
                matrices, *map(address, kept), shared and byref(shared.calls), byref(self.handle)
            )
        )

    def __del__(self):
        self.module.library.bb_nodes_destroy(self.handle)


class Walk:
    module: Module

    def __init__(self, nodes, columns, damping, v, u, entries, even, additions):
        self.nodes, self.columns, self.handle = nodes, columns, c_void_p()
        parts = entries or (None, None, None)
        kinds = (np.int64, np.int32, np.float64)
        rows, owners, shares = (given(part, kind) for part, kind in zip(parts, kinds, strict=True))
        v, u = given(v, np.float64), given(u, np.float64)
        terms = Terms(
            damping, address(v), even, address(u), address(rows), address(owners), address(shares),
            0 if rows is None else len(rows), *additions,
        )  # fmt: skip
        self._call("create", nodes.handle, c_int32(columns), byref(terms), byref(self.handle), of_walk=False)

    def _call(self, name, *arguments, of_walk=True):
        call = getattr(self.module.library, f"bb_walk_{name}")
        self.module.check(call(self.handle, *arguments) if of_walk else call(*arguments))

    @property
    def has_window(self):
        return bool(self.module.library.bb_walk_has_window(self.handle))

    def close(self):
        self.module.library.bb_walk_destroy(self.handle)
        self.handle = c_void_p()

    def __del__(self):
        self.close()

    def place(self, slot, start):
        start = given(start, np.float64)
        self._call("place", c_int32(slot), address(start))

    def light_step(self, slots, factors, mixed, into, ahead):
        slots, factors, norms = given(slots, np.int32), given(factors, np.float64), np.empty(self.columns)
        step = Step(address(slots), len(slots), address(factors), mixed, into, ahead)
        self.module.ahead_steps += ahead
        self._call("light", byref(step), address(norms))
        return norms

    def exact_step(self, slot, into):
        sums = np.empty((5, self.columns))
        self._call("exact", c_int32(slot), c_int32(into), address(sums))
        return sums

    def products(self, images, points):
        images, points, count = given(images, np.int32), given(points, np.int32), len(images)
        found = np.empty((count, count, self.columns))
        self._call("products", address(images), address(points), c_int32(count), address(found))
        return found

    def top(self, slot, column, count):
        count = min(count, self.nodes.n)
        numbers, values = np.empty(count, np.int64), np.empty(count)
        self._call("top", c_int32(slot), c_int32(column), c_int64(count), address(numbers), address(values))
        return numbers, values

    def get(self, slot, column, out=None):
        values = np.empty(self.nodes.n_all) if out is None else out
        self._call("get", c_int32(slot), c_int32(column), address(values))
        return values

    def take(self, source, slot, columns):
        self._call("take", source.handle, c_int32(slot), address(given(columns, np.int32)))


class BasisVector:
    def __init__(self, basis):
        self.basis, self.pointer = basis, c_void_p()
        basis._call("lend", byref(self.pointer))

    def __del__(self):
        self.basis.module.library.bb_basis_give(self.basis.handle, self.pointer)


class Basis:
    module: Module

    def __init__(self, matrix, by_source=None, shared=None, places=None):
        self.matrix, self.by_source, self.shared, self.handle = matrix, by_source, shared, c_void_p()
        places = given(places, np.uint32)
        self.module.check(
            self.module.library.bb_basis_create(
                matrix.handle,
                by_source and by_source.handle,
                address(places),
                shared and byref(shared.calls),
                byref(self.handle),
            )
        )

    def _call(self, name, *arguments):
        self.module.check(getattr(self.module.library, f"bb_basis_{name}")(self.handle, *arguments))

    def filled(self, value):
        out = BasisVector(self)
        self._call("fill", out.pointer, c_double(value))
        return out

    def apply(self, op, vector):
        out = BasisVector(self)
        self._call("apply", c_int32(op == "transposed"), vector.pointer, out.pointer)
        return out

    def orthogonalise(self, vector, vectors):
        out, length = BasisVector(self), c_double()
        others = (c_void_p * 64)(*(each.pointer.value for each in vectors))
        count = c_int32(len(vectors))
        self._call("orthogonalise", vector.pointer, others, count, out.pointer, byref(length))
        return out, length.value

    def combine(self, vectors, factors):
        out = BasisVector(self)
        others = (c_void_p * 64)(*(each.pointer.value for each in vectors))
        factors = given(factors, np.float64)
        self._call("combine", others, address(factors), c_int32(len(vectors)), out.pointer)
        return out

    def distance(self, vector, factor, other):
        length = c_double()
        self._call("distance", vector.pointer, c_double(factor), other.pointer, byref(length))
        return length.value

    def get(self, vector):
        values = np.empty(self.matrix.shape[1])
        self._call("get", vector.pointer, address(values))
        return values

    def __del__(self):
        self.module.library.bb_basis_destroy(self.handle)
