"""Inner products without BLAS.

A threaded BLAS wakes a pool of its own for a product as short as 10 000, and that pool then spins against
the OpenMP threads of the kernels.  These loops are memory-bound: one thread of plain SIMD code is as fast.
"""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def dot(x: Vector, y: Vector) -> float:
    """Inner product of two vectors."""
    return float(np.einsum("i,i->", x, y))


def dot_rows(rows: Vector, x: Vector) -> Vector:
    """Inner product of each row with ``x``."""
    return np.asarray(np.einsum("pi,i->p", rows, x))
