"""Vectors of float64: taken in from outside, and inner products without BLAS.

A threaded BLAS wakes a pool of its own for a product as short as 10 000, and that pool then spins against
the OpenMP threads of the kernels.  These loops are memory-bound: one thread of plain SIMD code is as fast.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import BmrmError, DataError

Vector = NDArray[np.float64]


def numbers(what: str, given: Any, error: type[BmrmError] = DataError) -> Vector:
    """Take an array of real numbers in, of any shape and type; raise ``error`` for what is none.

    Examples
    --------
    >>> numbers("weights", [1, 2])
    array([1., 2.])
    >>> numbers("weights", ["one"])
    Traceback (most recent call last):
    bmrm.errors.DataError: weights: could not convert string to float: 'one'; expected numbers
    """
    try:
        if isinstance(given, np.ndarray) and given.dtype.kind == "c":  # NumPy would only warn
            raise TypeError("found complex ones")
        return np.asarray(given, np.float64)
    except (TypeError, ValueError) as fault:
        raise error(f"{what}: {fault}; expected numbers") from None


def dot(x: Vector, y: Vector) -> float:
    """Inner product of two vectors."""
    return float(np.einsum("i,i->", x, y))


def dot_rows(rows: Vector, x: Vector) -> Vector:
    """Inner product of each row with ``x``."""
    return np.asarray(np.einsum("pi,i->p", rows, x))
