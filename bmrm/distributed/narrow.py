"""Drop the columns that the rows of a rank do not touch, as in the off-diagonal part of a PETSc MPIAIJ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.io.csr import Csr

CHUNK_INDICES = 1 << 22
"""Number of indices processed at a time."""


def find_touched_columns(X: Csr | NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns have entries; in a dense matrix all have."""
    if not isinstance(X, Csr):
        return np.ones(X.shape[1], bool)
    seen = np.zeros(X.shape[1], bool)
    for start in range(0, X.nnz, CHUNK_INDICES):
        seen[X.indices[start : start + CHUNK_INDICES]] = True
    return seen


def drop_untouched_columns(X: Csr | NDArray[Any]) -> tuple[Csr | NDArray[Any], NDArray[np.integer]]:
    """Return X with only the columns that have entries, and the numbers of these columns.

    One column is kept if none has entries.

    Examples
    --------
    >>> X = Csr(np.array([0, 1, 3]), np.array([7, 2, 7], np.int32), None, (2, 9))
    >>> found, columns = drop_untouched_columns(X)
    >>> found.shape, found.indices.tolist(), columns.tolist()
    ((2, 2), [1, 0, 1], [2, 7])
    """
    seen = find_touched_columns(X)
    seen[0] |= not seen.any()
    columns = np.flatnonzero(seen)
    if not isinstance(X, Csr):
        return X, columns
    # Keep the order, so that products sum in the same order as before.
    numbers = np.cumsum(seen, dtype=X.indices.dtype)
    numbers -= 1
    indices = np.empty(X.nnz, np.int32)
    for start in range(0, X.nnz, CHUNK_INDICES):
        part = slice(start, start + CHUNK_INDICES)
        indices[part] = numbers[X.indices[part]]
    columns = columns.astype(X.indices.dtype)
    return Csr(X.indptr, indices, X.data, (X.shape[0], len(columns))), columns
