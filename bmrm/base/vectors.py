"""Types of arrays, read-only arrays, and inner products of float64 vectors without BLAS.

A threaded BLAS wakes its own pool of threads for products as short as 10 000, and that pool then spins
against the threads of the kernels.  These loops are memory-bound: one thread of plain SIMD code is as
fast.
"""

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""Real numbers of any shape."""
Indices = NDArray[np.int64]
"""Row pointers, bounds, and numbers of rows."""

UNIT = 2.0**-53
"""Unit roundoff of float64: the maximum relative error of an operation."""

LINE_BYTES = 64
"""Bytes of a line of a cache."""

ArrayOrNone = TypeVar("ArrayOrNone", bound="NDArray[Any] | None")


def read_only_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be used for writing.

    Examples
    --------
    >>> read_only_view(np.zeros(2))[0] = 1.0
    Traceback (most recent call last):
    ValueError: assignment destination is read-only
    """
    view = array.view()
    view.flags.writeable = False
    return view


def make_arrays_read_only(frozen: object, *names: str) -> None:
    """Replace the named attributes of a frozen dataclass that are arrays by read-only views."""
    for name in names:
        value = getattr(frozen, name)
        if isinstance(value, np.ndarray):
            object.__setattr__(frozen, name, read_only_view(value))


def empty_by_lines(shape: tuple[int, ...], kind: type) -> NDArray[Any]:
    """Return an array with any content that begins with a line of a cache.

    NumPy's large arrays begin 16 bytes later: then each row of 64 bytes is in two lines.

    Examples
    --------
    >>> empty_by_lines((3, 16), np.float32).ctypes.data % 64
    0
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.empty(size + LINE_BYTES, np.uint8)
    first = -room.ctypes.data % LINE_BYTES
    return room[first : first + size].view(kind).reshape(shape)


def copy_arrays(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy the arrays of a tuple; leave other values as they are."""
    return tuple(value.copy() if isinstance(value, np.ndarray) else value for value in values)


def freeze(array: ArrayOrNone) -> ArrayOrNone:
    """Make an array read-only in place and return it; nobody else may hold it. None stays None."""
    if array is not None:
        array.flags.writeable = False
    return array


def dot(x: Vector, y: Vector) -> float:
    """Return the inner product of two vectors."""
    return float(np.einsum("i,i->", x, y))


def norm(x: Vector) -> float:
    """Return the Euclidean norm of a vector, even if squares overflow or underflow.

    Examples
    --------
    >>> norm(np.array([3.0, 4.0]) * 2.0**600) / 2.0**600
    5.0
    """
    largest = float(np.abs(x).max(initial=0.0))
    if not 0.0 < largest < np.inf:
        return largest
    scaled = x / largest
    return largest * float(np.sqrt(dot(scaled, scaled)))


def dot_rows(rows: Vector, x: Vector) -> Vector:
    """Return the inner product of each row with ``x``."""
    return np.asarray(np.einsum("pi,i->p", rows, x))


def index_type(largest: int) -> type[np.signedinteger[Any]]:
    """Return the type of indices, and of counts, that are at most a number, as SciPy chooses it.

    Examples
    --------
    >>> index_type(7), index_type(1 << 31)
    (<class 'numpy.int32'>, <class 'numpy.int64'>)
    """
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64
