"""Inner products of vectors of float64, without BLAS.

A threaded BLAS wakes a pool of its own for a product as short as 10 000, and that pool then spins against
the OpenMP threads of the kernels.  These loops are memory-bound: one thread of plain SIMD code is as fast.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""Real numbers of any shape."""
Indices = NDArray[np.int64]
"""Row pointers, bounds, and numbers of rows."""

ArrayOrNone = TypeVar("ArrayOrNone", bound="NDArray[Any] | None")


def read_only_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written through, for whoever only looks.

    Examples
    --------
    >>> read_only(np.zeros(2))[0] = 1.0
    Traceback (most recent call last):
    ValueError: assignment destination is read-only
    """
    view = array.view()
    view.flags.writeable = False
    return view


def make_arrays_read_only(frozen: object, *names: str) -> None:
    """Put read-only views in the place of those attributes of a frozen dataclass that are arrays."""
    for name in names:
        value = getattr(frozen, name)
        if isinstance(value, np.ndarray):
            object.__setattr__(frozen, name, read_only_view(value))


def copy_arrays(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return numbers, and copies of arrays."""
    return tuple(part.copy() if isinstance(part, np.ndarray) else part for part in parts)


def freeze(array: ArrayOrNone) -> ArrayOrNone:
    """Make an array that nobody else has read-only for good, in place; None stays."""
    if array is not None:
        array.flags.writeable = False
    return array


def dot(x: Vector, y: Vector) -> float:
    """Inner product of two vectors."""
    return float(np.einsum("i,i->", x, y))


def norm(x: Vector) -> float:
    """Euclidean length of a vector; its squares may be beyond float64.

    Examples
    --------
    >>> length(np.array([3.0, 4.0]) * 2.0**600) / 2.0**600
    5.0
    """
    most = float(np.abs(x).max(initial=0.0))
    if not 0.0 < most < np.inf:
        return most
    scaled = x / most
    return most * float(np.sqrt(dot(scaled, scaled)))


def dot_rows(rows: Vector, x: Vector) -> Vector:
    """Inner product of each row with ``x``."""
    return np.asarray(np.einsum("pi,i->p", rows, x))
