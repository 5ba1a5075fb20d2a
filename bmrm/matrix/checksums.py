"""Checksums of the data of a problem, so that cuts and bounds of one problem are not used for another.

The checksum of X or of a vector is a sum modulo 2^64 of one hash per nonzero entry, computed from its
position and value (``src_cython/cpu/entries.h``). It does not depend on threads, ranks, or the storage of X.
Values count as they are stored: if float32 has rounded them, the problem is a different one. Checksums
protect against mistakes and damage, not against malice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmrm.matrix import _cpu

if TYPE_CHECKING:
    from bmrm.io.csr import Csr

MODULUS = 1 << 64
"""Checksums are added modulo this number."""

MAX_PIECE_VALUES = 1 << 24
"""Number of stored values processed at a time if there is no matrix in main memory."""


def array_checksum(array: Any, first_row: int = 0) -> int:
    """Return the checksum of a vector or a dense matrix, or of some of its rows from ``first_row`` on.

    Examples
    --------
    >>> whole = array_checksum([1.0, 2.0, 3.0])
    >>> (array_checksum([1.0]) + array_checksum([2.0, 3.0], 1)) % MODULUS == whole
    True
    """
    rows = np.asarray(array, np.float64)
    return _cpu.Matrix.from_dense(rows.reshape(len(rows), -1), threads=1).entries(first_row)


def matrix_checksum(X: Csr | NDArray[Any], dtype: np.dtype[Any], threads: int, first_row: int = 0) -> int:
    """Return the checksum of X with values of a type, if X is not a matrix in main memory.

    Examples
    --------
    >>> matrix_checksum(np.eye(2), np.dtype(np.float32), 1) == _cpu.Matrix.from_dense(np.eye(2)).entries()
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
    """Format a checksum as 16 hexadecimal digits.

    Examples
    --------
    >>> format_checksum(255)
    '00000000000000ff'
    """
    return f"{number:016x}"
