"""Compressed sparse rows without scipy, whose import would double the start-up of the commands."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.vectors import Indices
from bmrm.errors import DataError
from bmrm.io import _svmlight

INT32_MAX = np.iinfo(np.int32).max


class Csr(NamedTuple):
    """A sparse matrix as compressed sparse rows.

    Row i holds ``data[indptr[i]:indptr[i + 1]]`` in the columns ``indices[indptr[i]:indptr[i + 1]]``.
    What a `bmrm.Landing` has taken lies on a GPU, but for the row pointers.

    Attributes
    ----------
    indptr : ndarray of int64, shape (rows + 1,)
        Where rows begin and end.
    indices : ndarray of int32, or int64 for more than 2^31 - 1 columns, shape (nnz,)
        Columns, increasing within each row.
    data : ndarray of float32 or float64, shape (nnz,), or None
        Values; None stands for 1 everywhere.
    shape : (int, int)
        Rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> X = Csr(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), None, (2, 3))
    >>> X.nnz
    3
    >>> X.to_scipy().toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]])
    """

    indptr: Indices
    indices: NDArray[Any]
    data: NDArray[Any] | None
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        """Stored values."""
        return len(self.indices)

    def on_host(self) -> Csr:
        """Return the same matrix with indices and values on the host."""
        data = None if self.data is None else np.asarray(self.data)
        return self._replace(indices=np.asarray(self.indices), data=data)

    def take(self, rows: NDArray[np.intp]) -> Csr:
        """Return a matrix of some of the rows, in the order given.

        Examples
        --------
        >>> import numpy as np
        >>> X = Csr(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), None, (2, 3))
        >>> X.take(np.array([1, 0])).indices
        array([1, 0, 2], dtype=int32)
        """
        numbers = np.arange(self.shape[0])[rows]
        return Csr(
            *_copy_sorted_rows(self.indptr, self.indices, self.data, numbers), (len(rows), self.shape[1])
        )

    def to_scipy(self, dtype: DTypeLike | None = None) -> Any:
        """Return a `scipy.sparse.csr_matrix` that shares what it can.

        Parameters
        ----------
        dtype : dtype, optional
            Of the values; default: as stored, float64 for implicit ones.
        """
        from scipy.sparse import csr_matrix

        if self.data is None:
            values = np.ones(self.nnz, np.float64 if dtype is None else dtype)
        else:
            values = self.data if dtype is None else self.data.astype(dtype, copy=False)
        narrow = max(self.nnz, *self.shape) <= INT32_MAX
        index_type = np.int32 if narrow else np.int64
        parts = (
            values,
            self.indices.astype(index_type, copy=False),
            self.indptr.astype(index_type, copy=False),
        )
        matrix = csr_matrix(parts, shape=self.shape, copy=False)
        matrix.has_canonical_format = True
        return matrix

    @classmethod
    def from_scipy(cls, X: Any, rows: NDArray[np.intp] | None = None) -> Csr:
        """Take over a scipy sparse matrix or array of any layout.

        Values become float32 or float64 and implicit ones where all are 1; indices are sorted, and
        repeated entries are added up, as scipy itself reads them.

        Parameters
        ----------
        X : scipy sparse matrix or array, shape (rows, columns)
        rows : ndarray of intp, optional
            Which rows, in which order; default: all as they are.

        Raises
        ------
        DataError
            Values that are complex or not finite, or arrays that contradict each other.
        """
        X = X.tocsr()
        try:
            if X.ndim != 2:
                raise DataError(f"found a sparse array of {X.ndim} dimensions, expected 2")
            values = as_floats(X.data)
            check_layout(X.indptr, X.indices, values, X.shape)
            return build_canonical(X.indptr, X.indices, values, X.shape, sum_duplicates=True, rows=rows)
        except DataError as error:
            raise DataError(f"X: {error}") from None


def find_numbering(X: Any) -> bool | None:
    """Return whether a matrix says that its features were numbered from 0, as `load_svmlight` marks it."""
    found = getattr(X, "zero_based", None)
    return bool(found) if isinstance(found, (bool, np.bool_)) else None


def check_numbering(what: str, known: bool | None, found: bool | None) -> None:
    """Raise `DataError` where features of a model, ``known``, and of data are numbered otherwise."""
    if known is not None and found is not None and known != found:
        raise DataError(
            f"{what}: features are numbered from {1 - known} there and from {1 - found} in the data; "
            f"read the data with zero_based={known}"
        )


def check_layout(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], shape: tuple[int, int]
) -> None:
    """Raise `DataError` unless the arrays make a CSR matrix; order within rows is not looked at."""
    rows, columns = shape
    if rows < 0 or columns < 0:
        raise DataError(f"found the shape ({rows}, {columns}), expected no negative size")
    if indptr.ndim != 1 or indices.ndim != 1 or data.ndim != 1:
        raise DataError("found CSR arrays of several dimensions, expected one")
    if len(indptr) != rows + 1:
        raise DataError(f"found {len(indptr)} row pointers, expected {rows + 1}")
    if len(indices) != len(data):
        raise DataError(f"found {len(indices)} indices and {len(data)} values, expected as many")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise DataError(f"found row pointers that do not rise from 0 to {len(indices)}")
    if len(indices) and not (indices.min() >= 0 and indices.max() < columns):
        raise DataError(f"found the column {_first_outside(indices, columns)}, expected 0 to {columns - 1}")


def _copy_sorted_rows(indptr: Any, indices: Any, values: Any, rows: NDArray[np.intp]) -> tuple[Any, Any, Any]:
    """Copy rows, each with its columns ascending; return row pointers, columns and values."""
    columns = np.ascontiguousarray(indices, np.int32 if indices.dtype == np.int32 else np.int64)
    return _svmlight.take_rows(
        np.ascontiguousarray(indptr, np.int64),
        columns,
        None if values is None else np.ascontiguousarray(values),
        rows.astype(np.int64),
        threads=len(os.sched_getaffinity(0)),
    )


def check_finite(values: NDArray[Any], first: int = 0) -> None:
    """Raise `DataError` for a NaN or an infinity; ``first`` is the number of the first row."""
    finite = np.isfinite(values)
    if not finite.all():
        at = np.unravel_index(int(np.argmin(finite)), values.shape)
        place = (int(at[0]) + first, *map(int, at[1:]))
        raise DataError(f"found {values[at]} in position {place}, expected a finite number")


def _first_outside(indices: NDArray[Any], columns: int) -> int:
    return int(indices[(indices < 0) | (indices >= columns)][0])


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as float32 or float64; raise `DataError` where they are no real numbers."""
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "fiub":
        raise DataError(f"found values of type {array.dtype}, expected real numbers")
    return array.astype(np.float64)


def _has_ascending_rows(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Whether the columns of each row ascend, none of them twice."""
    ordered = np.ones(len(indices) + 1, bool)
    ordered[1:-1] = indices[1:] > indices[:-1]
    ordered[indptr] = True
    return bool(ordered.all())


def build_canonical(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    shape: tuple[int, int],
    sum_duplicates: bool,
    rows: NDArray[np.intp] | None = None,
) -> Csr:
    """Build a matrix from arrays of a sound layout: sort its rows, pick the index type, drop ones.

    An entry that occurs twice is added up where `sum_duplicates` says so, else it is a `DataError`. Of
    ``rows`` only those are taken, in their order: the copy that puts columns in order does it too.
    """
    found: NDArray[Any] | None = values
    if rows is not None or not _has_ascending_rows(indptr, indices):
        wanted = np.arange(shape[0]) if rows is None else rows
        if (values == 1).all():
            found = None
        indptr, indices, found = _copy_sorted_rows(indptr, indices, found, wanted)
        shape, ascending = (len(wanted), shape[1]), _has_ascending_rows(indptr, indices)
        if not (ascending or sum_duplicates):
            raise DataError('found an entry twice, expected each once (duplicates="sum" would add them up)')
        if not ascending:
            from scipy.sparse import csr_matrix

            each = np.ones(len(indices), values.dtype) if found is None else found
            X = csr_matrix((each, indices, indptr), shape=shape)
            X.sum_duplicates()
            indptr, indices, found = X.indptr, X.indices, X.data
    if found is not None:
        check_finite(found)
        found = None if (found == 1).all() else np.ascontiguousarray(found)
    return Csr(
        np.ascontiguousarray(indptr, np.int64),
        np.ascontiguousarray(indices, np.int32 if shape[1] <= INT32_MAX else np.int64),
        found,
        (int(shape[0]), int(shape[1])),
    )
