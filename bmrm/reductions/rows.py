"""The rows of a reduction: dense or sparse, in main memory or in a mapped file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.sparse_tensors import as_scipy
from bmrm.errors import DataError
from bmrm.formulas.llvm_text import Rows
from bmrm.io.csr import Csr, build_canonical, check_layout
from bmrm.io.data import Data
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.dataset import Dataset

_ITEMS = {"f4": "float", "f8": "double", **{f"{k}{n}": f"i{8 * n}" for k in "iu" for n in (1, 2, 4, 8)}}
"""LLVM's types of the values that compiled code reads as they are."""

MAX_CONSTANT_WIDTH = 128
"""Maximum number of columns that is a constant of compiled code; above, a loop's counter costs nothing."""


@dataclass(frozen=True)
class DenseRows:
    """Rows of a dense array, which may be a mapped file.

    Attributes
    ----------
    array : ndarray, shape (rows, columns)
        Of any layout; of a type that compiled code reads.
    first_row : int
        Number of row 0 among the rows of all ranks.
    group : bmrm.distributed.group.Group or None
        The ranks that share the rows.
    """

    array: NDArray[Any]
    first_row: int = 0
    group: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return (self.array.shape[0], self.array.shape[1])

    @property
    def sparse(self) -> bool:
        return False

    @property
    def real(self) -> type[np.floating[Any]]:
        """Type of real numbers: float32 if the values are, else float64."""
        return np.float32 if self.array.dtype == np.float32 else np.float64

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def stored(self) -> float:
        """Average number of stored values of a row."""
        return float(self.shape[1])

    def kind(self) -> Rows:
        dtype = self.array.dtype
        width = self.shape[1] if self.shape[1] <= MAX_CONSTANT_WIDTH else 0
        contiguous = self.array.strides[1] == dtype.itemsize or self.shape[1] == 1
        return Rows(_ITEMS[f"{dtype.kind}{dtype.itemsize}"], dtype.kind == "u", "", width, contiguous)

    def take(self, first: int, last: int) -> DenseRows:
        return DenseRows(self.array[first:last])


@dataclass(frozen=True)
class SparseRows:
    """Compressed sparse rows with ascending columns.

    Attributes
    ----------
    csr : Csr
    first_row : int
        Number of row 0 among the rows of all ranks.
    group : bmrm.distributed.group.Group or None
        The ranks that share the rows.
    """

    csr: Csr
    first_row: int = 0
    group: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.csr.shape

    @property
    def sparse(self) -> bool:
        return True

    @property
    def real(self) -> type[np.floating[Any]]:
        """Type of real numbers: float32 if the values are, else float64."""
        data = self.csr.data
        return np.float32 if data is not None and data.dtype == np.float32 else np.float64

    @property
    def stored(self) -> float:
        """Average number of stored values of a row."""
        return self.csr.nnz / max(1, self.shape[0])

    @property
    def nbytes(self) -> int:
        data = self.csr.data
        return self.csr.indices.nbytes + (0 if data is None else data.nbytes)

    def kind(self) -> Rows:
        data = self.csr.data
        item = "" if data is None else _ITEMS[f"f{data.dtype.itemsize}"]
        return Rows(item, False, f"i{8 * self.csr.indices.dtype.itemsize}")

    def take(self, first: int, last: int) -> SparseRows:
        starts = self.csr.indptr[first : last + 1]
        return SparseRows(self.csr._replace(indptr=starts, shape=(last - first, self.csr.shape[1])))


HostRows = DenseRows | SparseRows


def read_rows(data: Any) -> HostRows:
    """Find the rows of whatever a user passes; nothing is copied if its types allow.

    Parameters
    ----------
    data : ndarray, memmap, SciPy sparse matrix, Csr, Data or Dataset
        A table of numbers; NaN and infinities are allowed.

    Raises
    ------
    DataError
        If it is not a matrix of real numbers.

    Examples
    --------
    >>> read_rows([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if isinstance(data, (DenseRows, SparseRows)):
        return data
    if isinstance(data, Data):
        data = data.X
    if isinstance(data, Dataset):
        return _from_dataset(data)
    if isinstance(data, Csr):
        return SparseRows(data.on_host())
    if arguments.is_sparse(data):
        return SparseRows(_from_scipy(data))
    if isinstance(data, np.ndarray) and data.ndim == 2 and _is_read(data.dtype):
        return DenseRows(np.asarray(data))
    if isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype == bool:
        return DenseRows(data.view(np.uint8))
    found = arguments.matrix("rows", data)
    return DenseRows(np.asarray(found))


_datasets: WeakKeyDictionary[Dataset, HostRows] = WeakKeyDictionary()
"""Rows of data sets: a sparse one keeps its columns in another form, so they are copied once."""


def _from_dataset(data: Dataset) -> HostRows:
    if data not in _datasets:
        if not isinstance(data.matrix, Matrix):
            raise DataError(f"rows: found a data set on {data.device}, expected one on the CPU")
        found = data.matrix.rows()
        if isinstance(found, np.ndarray):
            _datasets[data] = DenseRows(found, data.first_row, data.group)
        else:
            starts, columns, values = found
            if data.columns is not None:  # those that the rows of this rank touch
                columns = data.columns[columns].astype(np.int64)
            values = np.ones(len(columns)) if values is None else values
            shape = (len(starts) - 1, data.shape[1])
            csr = build_canonical(starts, columns, values, shape, sum_duplicates=False)
            _datasets[data] = SparseRows(csr, data.first_row, data.group)
    return _datasets[data]


def _is_read(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and f"{dtype.kind}{dtype.itemsize}" in _ITEMS


def _from_scipy(X: Any) -> Csr:
    """Convert without looking at the values, of which some may not be finite."""
    X = as_scipy("rows", X).tocsr()
    if X.ndim != 2:
        raise DataError(f"rows: found a sparse array of {X.ndim} dimensions, expected 2")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.data.dtype.kind not in "fiub":
        raise DataError(f"rows: found values of type {X.data.dtype}, expected real numbers")
    values = X.data if X.data.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    check_layout(X.indptr, X.indices, values, X.shape)
    index = np.int32 if X.indices.dtype == np.int32 else np.int64
    return Csr(
        np.ascontiguousarray(X.indptr, np.int64),
        np.ascontiguousarray(X.indices, index),
        np.ascontiguousarray(values),
        (int(X.shape[0]), int(X.shape[1])),
    )
