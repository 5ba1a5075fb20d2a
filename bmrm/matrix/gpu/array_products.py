"""Products of a matrix on a GPU with arrays that CuPy, PyTorch or JAX have there: no copy, no wait.

The product is queued on the stream on which the library works at the moment, so it comes after what fills its
input and before what reads its result, and the library's own allocator provides the result. JAX shows no
stream: there the call waits for the input, and for the product.

A stream of CuPy ends with its object. The matrix works on it until another product brings another stream, so
the object is kept as long.

References
----------
Numba's documentation, "CUDA Array Interface (Version 3)". PyTorch's documentation, "CUDA semantics".
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from bmrm.base.foreign_arrays import detach
from bmrm.errors import DataError
from bmrm.matrix.gpu.device_arrays import DeviceArray

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

MAX_COLUMNS = 32
"""Maximum number of columns of one product (``MAX_COLUMNS`` of the CUDA module)."""

DEFAULT_STREAM = 0
"""CUDA's default stream."""

_streams: WeakKeyDictionary[_cuda.Matrix, Any] = WeakKeyDictionary()
"""The object of the stream that a matrix works on."""

_lock = threading.Lock()
"""Held from the choice of the stream until the product is queued on it."""


class Library(Protocol):
    """What a product needs of a library of arrays on a GPU; ``x`` is its input."""

    def using(self, x: Any) -> Any:
        """Return a context in which the library works on the device of x."""

    def stream(self, x: Any) -> tuple[int, Any]:
        """Return the current stream as a ``cudaStream_t``, and its object."""

    def prepare(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """Return x in this type and stored by rows, itself if it is."""

    def empty(self, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return a new array on the device of x."""

    def join(self, parts: list[Any]) -> Any:
        """Return the columns of several arrays as one array."""

    def finish(self, matrix: _cuda.Matrix) -> None:
        """Make the work of the library wait for what is queued."""


class _CuPy:
    def __init__(self) -> None:
        self._library = importlib.import_module("cupy")

    def using(self, x: Any) -> Any:
        return x.device

    def stream(self, x: Any) -> tuple[int, Any]:
        current = self._library.cuda.get_current_stream()
        return int(current.ptr), current

    def prepare(self, x: Any, dtype: np.dtype[Any]) -> Any:
        return self._library.ascontiguousarray(x, dtype)

    def empty(self, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return self._library.empty(shape, dtype)

    def join(self, parts: list[Any]) -> Any:
        return self._library.concatenate(parts, axis=1)

    def finish(self, matrix: _cuda.Matrix) -> None:
        """Do nothing: it works on the same stream."""


class _PyTorch:
    def __init__(self) -> None:
        self._library = importlib.import_module("torch")

    def using(self, x: Any) -> Any:
        return self._library.cuda.device(x.device)

    def stream(self, x: Any) -> tuple[int, Any]:
        current = self._library.cuda.current_stream(x.device)
        return int(current.cuda_stream), current

    def prepare(self, x: Any, dtype: np.dtype[Any]) -> Any:
        return detach(x).to(getattr(self._library, dtype.name)).contiguous()

    def empty(self, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return self._library.empty(shape, dtype=getattr(self._library, dtype.name), device=x.device)

    def join(self, parts: list[Any]) -> Any:
        return self._library.cat(parts, 1)

    def finish(self, matrix: _cuda.Matrix) -> None:
        """Do nothing: it works on the same stream."""


class _Jax:
    def __init__(self) -> None:
        self._library, self._numpy = map(importlib.import_module, ("jax", "jax.numpy"))

    def using(self, x: Any) -> Any:
        return self._library.default_device(next(iter(x.devices())))

    def stream(self, x: Any) -> tuple[int, Any]:
        return DEFAULT_STREAM, None

    def prepare(self, x: Any, dtype: np.dtype[Any]) -> Any:
        return self._library.block_until_ready(self._numpy.asarray(x, dtype))

    def empty(self, x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return self._library.block_until_ready(self._numpy.zeros(shape, dtype))

    def join(self, parts: list[Any]) -> Any:
        return self._numpy.concatenate(parts, axis=1)

    def finish(self, matrix: _cuda.Matrix) -> None:
        matrix.synchronize()


_LIBRARIES: dict[str, type[Library]] = {"cupy": _CuPy, "torch": _PyTorch, "jax": _Jax, "jaxlib": _Jax}
"""Classes by the package of an array's type."""


def multiply(matrix: _cuda.Matrix, transposed: bool, x: Any, dtype: np.dtype[Any]) -> Any:
    """Return ``X x`` or ``X' x`` as an array of x's library, where it is.

    - ``x``: of the right length, with one or two dimensions
    - ``dtype``: of the result; the product is in the type of the matrix

    Raise `DataError` for an array of another library, on another device, or of a type that it has not.
    """
    name = type(x).__module__.partition(".")[0]
    if name not in _LIBRARIES:
        raise DataError(f"x: found an array of {name} on a GPU, expected one of CuPy, PyTorch or JAX")
    library = _LIBRARIES[name]()
    with library.using(x):
        if x.ndim == 1 or 0 < x.shape[1] <= MAX_COLUMNS:
            found = _product(matrix, transposed, x, library)
        else:
            starts = range(0, max(x.shape[1], 1), MAX_COLUMNS)
            parts = [x[:, start : start + MAX_COLUMNS] for start in starts]
            found = library.join([_product(matrix, transposed, part, library) for part in parts])
        return library.prepare(found, dtype)


def _product(matrix: _cuda.Matrix, transposed: bool, x: Any, library: Library) -> Any:
    """Compute the product with at most `MAX_COLUMNS` columns."""
    kind = matrix.vector_dtype
    given = DeviceArray("x", library.prepare(x, kind), None, (kind,), waits=False)
    if given.device != matrix.device:
        place = f"GPU {matrix.device}, where X is"
        raise DataError(f"x: found an array on GPU {given.device}, expected one on {place}")
    out = library.empty(x, (matrix.shape[1 if transposed else 0], *x.shape[1:]), kind)
    result = DeviceArray("x", out, None, (kind,), waits=False)
    if not out.shape[-1]:
        return out
    with _working_on(matrix, *library.stream(x)):
        columns = 1 if x.ndim == 1 else x.shape[1]
        operator: Literal["normal", "transposed"] = "transposed" if transposed else "normal"
        matrix.apply(operator, _writable(given), _writable(result), columns)
    library.finish(matrix)
    return out


@contextmanager
def _working_on(matrix: _cuda.Matrix, stream: int, owner: Any) -> Iterator[None]:
    """Let a matrix work on a stream."""
    with _lock:
        if matrix.stream != stream:
            matrix.use_stream(stream)
            _streams[matrix] = owner
        yield


def _writable(array: DeviceArray) -> Any:
    """Return an array that may be written, though its library never changes it once it has been made."""
    interface = array.__cuda_array_interface__
    shown = {name: interface[name] for name in ("shape", "typestr", "version")}
    return SimpleNamespace(
        __cuda_array_interface__=shown | {"data": (array.address, False), "strides": None}, owner=array
    )
