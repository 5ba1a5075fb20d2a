"""Products of the resident matrix with PETSc's vectors.

There are four cases, none with a loop in Python:

- The matrix is on the CPU, and the vectors are float64: their own arrays are used, nothing is copied.
- The matrix is on a GPU, and the vectors are on the host: their arrays go through the matrix's pinned
  buffers.
- Matrix and vectors are on a GPU: device pointers are used, and a kernel converts if the matrix is float32.
  No byte crosses the bus.
- PETSc was built in single precision: the input and the output are converted once.

Arrays and pointers are returned to PETSc even if a product fails, and so are PETSc's locks on the input.

References
----------
PETSc/TAO users manual, "Vectors and parallel data" (VecGetArrayRead, VecCUDAGetArray, VecLockReadPush).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from petsc4py import PETSc

from bmrm.base.vectors import Vector
from bmrm.matrix import _cpu

if TYPE_CHECKING:
    from bmrm.matrix.resident import Matrix

DEFAULT_STREAM = 0
"""CUDA's default stream, which PETSc uses unless another one is set (PetscDeviceContext)."""

SCALARS = np.dtype(PETSc.ScalarType)

Operator = Literal["normal", "transposed"]

LIBRARY = ctypes.CDLL(PETSc.__file__)
"""PETSc's C functions, for those that petsc4py does not have."""


def share_stream(matrix: Matrix) -> None:
    """Make a matrix on a GPU use the stream of PETSc's vectors, so that neither has to wait."""
    if hasattr(matrix, "use_stream"):
        matrix.use_stream(DEFAULT_STREAM)


def multiply(matrix: Matrix, op: Operator, x: PETSc.Vec, y: PETSc.Vec) -> None:
    """Compute ``y = X x``, or ``y = X' x`` if ``op="transposed"``, with this process's parts of x and y."""
    if is_on_gpu(x) and is_on_gpu(y) and (apply := _device_product(matrix)) is not None:
        with _Pointer(x, "r") as source, _Pointer(y, "w") as target:
            apply(op, source, target)
    else:
        with host_arrays(x, y) as (source, target):
            (matrix.matvec if op == "normal" else matrix.rmatvec)(source, target)


@contextmanager
def host_arrays(x: PETSc.Vec, y: PETSc.Vec) -> Iterator[tuple[Vector, Vector]]:
    """Give access to the arrays of x, for reading, and of y, for writing, as float64 on the host.

    A context manager, because an array in a local variable would not be returned to PETSc while a traceback
    keeps the frame.
    """
    with x.buffer_r as source, y.buffer_w as target:
        if target.dtype == np.float64:
            yield source, target
        else:
            wide = np.empty(target.shape)
            yield source.astype(np.float64), wide
            target[:] = wide


def _device_product(matrix: Matrix) -> Callable[[Operator, _Pointer, _Pointer], None] | None:
    """Return the product of a matrix on a GPU with vectors on that GPU; None if their type has none."""
    if isinstance(matrix, _cpu.Matrix):
        return None
    if matrix.vector_dtype == SCALARS:
        return matrix.apply
    return matrix.apply_wide if SCALARS.char == "d" else None


def is_on_gpu(vec: PETSc.Vec) -> bool:
    """Return whether a vector is one of PETSc's CUDA vectors."""
    return str(vec.getType()).endswith("cuda")


def make_vec(sizes: tuple[int, int], comm: PETSc.Comm, *, on_gpu: bool) -> PETSc.Vec:
    """Make a vector on PETSc's GPU, or on the host, which is also where it is if PETSc has no CUDA."""
    vec = PETSc.Vec().create(comm=comm)
    vec.setSizes(sizes)
    there = on_gpu and PETSc.Sys.hasExternalPackage("cuda")
    vec.setType(PETSc.Vec.Type.CUDA if there else PETSc.Vec.Type.STANDARD)
    return vec


class _Pointer:
    """Gives access to the device memory of a vector by ``__cuda_array_interface__``.

    Like `unlocking` it is a class, because a generator as context manager takes as long as a kernel launch.
    """

    __slots__ = ("__cuda_array_interface__", "_address", "_mode", "_vec")

    def __init__(self, vec: PETSc.Vec, mode: Literal["r", "w"]) -> None:
        self._vec, self._mode = vec, mode

    def __enter__(self) -> Self:
        self._address = self._vec.getCUDAHandle(self._mode)
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (self._vec.getLocalSize(),),
            "typestr": SCALARS.str,
            "data": (self._address, self._mode == "r"),
            "version": 2,
        }
        return self

    def __exit__(self, *fault: object) -> None:
        self._vec.restoreCUDAHandle(self._address, self._mode)


class unlocking:  # noqa: N801
    """Releases PETSc's locks on the input of a product that raises."""

    __slots__ = ("_vec",)

    def __init__(self, x: PETSc.Vec) -> None:
        self._vec = x

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *fault: object) -> None:
        if kind is not None:
            _unlock(self._vec)


def _unlock(x: PETSc.Vec) -> None:
    """Release the read locks of x.

    MatMult and similar functions lock x during the product. Like all of PETSc, they do not undo this if they
    return with an error, and petsc4py has no function for it.
    """
    vec, locks = ctypes.c_void_p(x.handle), ctypes.c_int64()
    LIBRARY.VecLockGet(vec, ctypes.byref(locks))
    for _ in range(locks.value):
        LIBRARY.VecLockReadPop(vec)
