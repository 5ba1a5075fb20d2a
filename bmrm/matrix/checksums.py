"""Checksums of what a problem is made of, so that what was proven of one is not believed of another.

A checksum of X or of a vector is a number for each entry that is not 0, of its place and its value, added up
modulo 2^64 (``src_cython/cpu/entries.h``). It does not depend on threads, on ranks, or on how X is kept.
Values count as they are stored: where float32 has changed them, it has changed the problem. Checksums are
against mistakes and damage, not against malice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmrm.matrix import _cpu

if TYPE_CHECKING:
    from bmrm.io.csr import Csr

MODULUS = 1 << 64

MAX_PIECE_VALUES = 1 << 24
"""Stored values that are looked at at a time, where no matrix in main memory has them."""


def array_checksum(array: Any, first_row: int = 0) -> int:
    """Return the checksum of numbers, of a vector or of a matrix of which these are some rows.

    Examples
    --------
    >>> whole = of_array([1.0, 2.0, 3.0])
    >>> (of_array([1.0]) + of_array([2.0, 3.0], 1)) % MODULUS == whole
    True
    """
    rows = np.asarray(array, np.float64)
    return _cpu.Matrix.from_dense(rows.reshape(len(rows), -1), threads=1).entries(first_row)


def matrix_checksum(X: Csr | NDArray[Any], dtype: np.dtype[Any], threads: int, first_row: int = 0) -> int:
    """Return the checksum of X with its values in a type, from arrays that no matrix in main memory has.

    Examples
    --------
    >>> of_matrix(np.eye(2), np.dtype(np.float32), 1) == _cpu.Matrix.from_dense(np.eye(2)).entries()
    True
    """
    rows, columns = X.shape
    starts = columns * np.arange(rows + 1) if isinstance(X, np.ndarray) else X.indptr
    total = first = 0
    while first < rows:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + MAX_PIECE_VALUES, "right")) - 1)
        if isinstance(X, np.ndarray):
            part = _cpu.Matrix.from_dense(X[first:last].astype(dtype, copy=False), threads=threads)
        else:
            span = slice(int(starts[first]), int(starts[last]))
            values = None if X.data is None else np.asarray(X.data[span]).astype(dtype, copy=False)
            part = _cpu.Matrix(
                starts[first : last + 1] - starts[first],
                np.asarray(X.indices[span]),
                values,
                (last - first, columns),
                threads=threads,
                transpose=False,
                by_popularity=False,
            )
        total += part.entries(first_row + first)
        first = last
    return total % MODULUS


def format_checksum(number: int) -> str:
    """Write a checksum.

    Examples
    --------
    >>> digits(255)
    '00000000000000ff'
    """
    return f"{number:016x}"
