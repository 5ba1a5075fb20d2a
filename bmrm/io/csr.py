"""Compressed sparse rows without scipy, whose import would double the start-up time of the commands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.base.arguments import array, describe_position, is_sparse
from bmrm.base.sparse_tensors import as_scipy
from bmrm.base.threads import usable_cores
from bmrm.base.vectors import Indices, index_type
from bmrm.errors import DataError
from bmrm.io import _svmlight


class Csr(NamedTuple):
    """A sparse matrix as compressed sparse rows.

    Row i has values ``data[indptr[i]:indptr[i + 1]]`` in columns ``indices[indptr[i]:indptr[i + 1]]``.
    After parsing into a ``bmrm.matrix.upload.Landing``, indices and values are on a GPU.

    Attributes
    ----------
    indptr : ndarray of int64, shape (rows + 1,)
        Row pointers: where rows begin and end.
    indices : ndarray of int32, or int64 for more than 2^31 - 1 columns, shape (nnz,)
        Columns, increasing within each row.
    data : ndarray of float32 or float64, shape (nnz,), or None
        Values; None if all are 1.
    shape : (int, int)
        Number of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> X = Csr(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), None, (2, 3))
    >>> X.nnz
    3
    >>> X.to_scipy().toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]])
    >>> X.take(np.array([1])).shape, Csr.of(X) is X, Csr.from_scipy(X.to_scipy()).nnz
    ((1, 3), True, 3)
    """

    indptr: Indices
    indices: NDArray[Any]
    data: NDArray[Any] | None
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.indices)

    @property
    def value_bytes(self) -> int:
        """Bytes of a value; 0 if all are 1."""
        return 0 if self.data is None else int(self.data.itemsize)

    def on_host(self) -> Csr:
        """Return the matrix with indices and values on the host."""
        data = None if self.data is None else np.asarray(self.data)
        return self._replace(indices=np.asarray(self.indices), data=data)

    def take(self, rows: NDArray[np.intp]) -> Csr:
        """Return a matrix of some rows.

        Parameters
        ----------
        rows : ndarray of intp, shape (m,), or of bool, shape (rows,)
            In this order.

        Returns
        -------
        Csr

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
        """Return a `scipy.sparse.csr_matrix` that shares memory if types allow.

        Parameters
        ----------
        dtype : dtype, optional
            Type of the values; default: as stored, float64 if all are 1.

        Returns
        -------
        scipy.sparse.csr_matrix, shape (rows, columns)
        """
        from scipy.sparse import csr_matrix

        if self.data is None:
            values = np.ones(self.nnz, np.float64 if dtype is None else dtype)
        else:
            values = self.data if dtype is None else self.data.astype(dtype, copy=False)
        kind = index_type(max(self.nnz, *self.shape))
        arrays = (values, self.indices.astype(kind, copy=False), self.indptr.astype(kind, copy=False))
        matrix = csr_matrix(arrays, shape=self.shape, copy=False)
        matrix.has_canonical_format = True
        return matrix

    @classmethod
    def of(cls, X: Any) -> Csr | None:
        """Return a `Csr` unchanged, and convert another sparse matrix.

        Parameters
        ----------
        X : object

        Returns
        -------
        Csr or None
            None if X is neither a sparse matrix of SciPy nor a sparse tensor.
        """
        if isinstance(X, Csr):
            return X
        return cls.from_scipy(X) if is_sparse(X) else None

    @classmethod
    def from_scipy(cls, X: Any, rows: NDArray[np.intp] | None = None) -> Csr:
        """Convert a sparse matrix or array of scipy, or a sparse tensor of PyTorch, of any layout.

        Values become float32 or float64, or None if all are 1; indices are sorted, and repeated entries are
        summed, which is what they mean in scipy.

        Parameters
        ----------
        X : sparse matrix, array or tensor of shape (rows, columns)
            In compressed rows, its values and indices are shared if their types allow.
        rows : ndarray of intp, optional
            Rows to take, in this order; default: all.

        Raises
        ------
        DataError
            If values are complex, not finite or on a GPU, or the arrays are inconsistent.
        """
        X = as_scipy("X", X).tocsr()
        array("X", X.data)
        try:
            if X.ndim != 2:
                raise DataError(f"found a sparse array of {X.ndim} dimensions, expected 2")
            values = as_floats(X.data)
            check_layout(X.indptr, X.indices, values, X.shape)
            return build_canonical(X.indptr, X.indices, values, X.shape, sum_duplicates=True, rows=rows)
        except DataError as error:
            raise DataError(f"X: {error}") from None


def find_numbering(X: Any) -> bool | None:
    """Return the mark of `load_svmlight` that says whether features were numbered from 0; None without it."""
    found = getattr(X, "zero_based", None)
    return bool(found) if isinstance(found, (bool, np.bool_)) else None


def check_numbering(what: str, known: bool | None, found: bool | None) -> None:
    """Raise `DataError` if features of model (``known``) and data (``found``) start at different numbers."""
    if known is not None and found is not None and known != found:
        raise DataError(
            f"{what}: found features numbered from {1 - found} in the data, expected from {1 - known}; "
            f"read the data with zero_based={known}"
        )


def check_layout(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], shape: tuple[int, int]
) -> None:
    """Raise `DataError` unless the arrays form a CSR matrix; the order within rows does not matter."""
    rows, columns = shape
    if rows < 0 or columns < 0:
        raise DataError(f"found the shape ({rows}, {columns}), expected sizes of at least 0")
    if indptr.ndim != 1 or indices.ndim != 1 or data.ndim != 1:
        raise DataError("found CSR arrays of several dimensions, expected one dimension")
    if len(indptr) != rows + 1:
        raise DataError(f"found {len(indptr)} row pointers, expected {rows + 1}")
    if len(indices) != len(data):
        raise DataError(f"found {len(indices)} indices and {len(data)} values, expected equal numbers")
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise DataError(f"found other row pointers, expected them to rise from 0 to {len(indices)}")
    if len(indices) and not (indices.min() >= 0 and indices.max() < columns):
        first = indices[(indices < 0) | (indices >= columns)][0]
        raise DataError(f"found the column {first}, expected 0 to {columns - 1}")


def _copy_sorted_rows(indptr: Any, indices: Any, values: Any, rows: NDArray[np.intp]) -> tuple[Any, Any, Any]:
    columns = np.ascontiguousarray(indices, np.int32 if indices.dtype == np.int32 else np.int64)
    return _svmlight.take_rows(
        np.ascontiguousarray(indptr, np.int64),
        columns,
        None if values is None else np.ascontiguousarray(values),
        rows.astype(np.int64),
        threads=usable_cores(),
    )


def check_finite(values: NDArray[Any], first: int = 0, each: str = "stored value") -> None:
    """Raise `DataError` for NaN and infinities.

    ``first`` is the index of the first row, ``each`` what the entries of a vector are.
    """
    finite = np.isfinite(values)
    if not finite.all():
        at = np.unravel_index(int(np.argmin(finite)), values.shape)
        place = describe_position((int(at[0]) + first, *at[1:]), each)
        raise DataError(f"{place}has {values[at]}, expected a finite number")


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Convert real numbers to float64, or leave float32; raise `DataError` for other types."""
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "fiub":
        raise DataError(f"found values of type {array.dtype}, expected real numbers")
    return array.astype(np.float64)


def _has_ascending_rows(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
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
    """Build a matrix from a valid layout: sort the rows, choose the index type, drop values that are all 1.

    Repeated entries are summed if `sum_duplicates`, else they are a `DataError`. With ``rows``, the matrix
    has only these rows, in this order: the copy that sorts the columns selects them too.
    """
    found: NDArray[Any] | None = values
    if rows is not None or not _has_ascending_rows(indptr, indices):
        wanted = np.arange(shape[0]) if rows is None else rows
        if (values == 1).all():
            found = None
        indptr, indices, found = _copy_sorted_rows(indptr, indices, found, wanted)
        shape, ascending = (len(wanted), shape[1]), _has_ascending_rows(indptr, indices)
        if not (ascending or sum_duplicates):
            raise DataError('found an entry twice, expected each once (duplicates="sum" would sum them)')
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
        np.ascontiguousarray(indices, index_type(shape[1])),
        found,
        (int(shape[0]), int(shape[1])),
    )
