"""The bridge: PETSc's vectors as the resident matrix takes and gives them.

Four cases, none with a loop in Python:

- the matrix on the CPU, vectors of doubles: their own arrays are lent, nothing is copied;
- the matrix on a GPU, vectors on the host: the same arrays go through the matrix's pinned buffers;
- the matrix and the vectors on a GPU: device pointers are lent, and a kernel converts where the matrix is of
  floats; no byte crosses the bus;
- PETSc built in single precision: one conversion on the way in and one on the way out.

An array or pointer that was taken goes back when a product fails too, and so do the locks that PETSc holds on
the input.

References
----------
PETSc/TAO users manual, "Vectors and parallel data" (VecGetArrayRead, VecCUDAGetArray, VecLockReadPush).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.matrix import _cpu

if TYPE_CHECKING:
    from bmrm.matrix.resident import Matrix

DEFAULT_STREAM = 0
"""CUDA's default stream, on which PETSc works where nothing else is asked of it (PetscDeviceContext)."""

Operator = Literal["normal", "transposed"]
_Array: TypeAlias = npt.NDArray[np.float64]


def share_stream(matrix: Matrix) -> None:
    """Let a matrix on a GPU work on the stream of PETSc's vectors, so that neither need wait."""
    if hasattr(matrix, "use_stream"):
        matrix.use_stream(DEFAULT_STREAM)


def multiply(matrix: Matrix, op: Operator, x: PETSc.Vec, y: PETSc.Vec) -> None:
    """``y = X x``, or ``y = X' x`` for ``op="transposed"``, with the parts of x and y of this process.

    Parameters
    ----------
    matrix : Matrix
    op : {"normal", "transposed"}
    x, y : PETSc.Vec
        Of the sizes that the product takes and gives; on the host, or both on the GPU of the matrix.
    """
    if _on_gpu(x) and _on_gpu(y) and (apply := _device_product(matrix)) is not None:
        with _Pointer(x, "r") as source, _Pointer(y, "w") as target:
            apply(op, source, target)
    else:
        with lent(x, y) as (source, target):
            (matrix.matvec if op == "normal" else matrix.rmatvec)(source, target)


@contextmanager
def lent(x: PETSc.Vec, y: PETSc.Vec) -> Iterator[tuple[_Array, _Array]]:
    """Lend the array of x for reading and that of y for writing, as doubles on the host.

    An array held by a local variable alone would stay out for as long as a traceback keeps the frame.
    """
    with x.buffer_r as source, y.buffer_w as target:
        if target.dtype == np.float64:
            yield source, target
        else:
            wide = np.empty(target.shape)
            yield source.astype(np.float64), wide
            target[:] = wide


def _device_product(matrix: Matrix) -> Callable[[Operator, _Pointer, _Pointer], None] | None:
    """Return the product of a matrix on a GPU with vectors there; None where there is none for their type."""
    if isinstance(matrix, _cpu.Matrix):
        return None
    kind = np.dtype(PETSc.ScalarType)
    if kind == matrix.vector_dtype:
        return matrix.apply
    return matrix.apply_wide if kind == np.float64 else None


def _on_gpu(vec: PETSc.Vec) -> bool:
    return str(vec.getType()).endswith("cuda")


class _Pointer:
    """Lends the device memory of a vector, as ``__cuda_array_interface__`` tells it.

    A class, as `unlocking` is: a generator as context manager takes as long as a launch.
    """

    __slots__ = ("__cuda_array_interface__", "_address", "_mode", "_vec")

    def __init__(self, vec: PETSc.Vec, mode: Literal["r", "w"]) -> None:
        self._vec, self._mode = vec, mode

    def __enter__(self) -> Self:
        self._address = self._vec.getCUDAHandle(self._mode)
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (self._vec.getLocalSize(),),
            "typestr": np.dtype(PETSc.ScalarType).str,
            "data": (self._address, self._mode == "r"),
            "version": 2,
        }
        return self

    def __exit__(self, *fault: object) -> None:
        self._vec.restoreCUDAHandle(self._address, self._mode)


class unlocking:  # noqa: N801
    """Take back PETSc's locks on the input of a product where that raises."""

    __slots__ = ("_vec",)

    def __init__(self, x: PETSc.Vec) -> None:
        self._vec = x

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *fault: object) -> None:
        if kind is not None:
            _unlock(self._vec)


def _unlock(x: PETSc.Vec) -> None:
    """Take back the read locks of x.

    MatMult and its kin lock x round the product, and like all of PETSc return from an error without
    undoing what they did; petsc4py has no call for it.
    """
    library = ctypes.CDLL(PETSc.__file__)
    vec, locks = ctypes.c_void_p(x.handle), ctypes.c_int64()
    library.VecLockGet(vec, ctypes.byref(locks))
    for _ in range(locks.value):
        library.VecLockReadPop(vec)
