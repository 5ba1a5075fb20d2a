"""The rows of a reduction: dense or sparse, in main memory, in a mapped file or dense on a GPU."""

from __future__ import annotations

import functools
import itertools
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.foreign_arrays import LEGACY_STREAM
from bmrm.base.host_memory import MIN_CHECKED_BYTES, available_bytes
from bmrm.base.sparse_tensors import as_scipy
from bmrm.errors import DataError
from bmrm.io.csr import Csr, build_canonical, check_layout
from bmrm.io.data import Data
from bmrm.matrix._cpu import Matrix
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.resident import resident_rows

_ITEMS = {"f4": "float", "f8": "double", **{f"{k}{n}": f"i{8 * n}" for k in "iu" for n in (1, 2, 4, 8)}}
"""LLVM's types of the values that compiled code reads as they are."""

MAX_CONVERTED_BYTES = 1 << 22
"""Maximum size of rows that are converted at a time, if compiled code cannot read their type."""

MAX_CONSTANT_WIDTH = 128
"""Maximum number of columns that is a constant of compiled code; above, a loop's counter costs nothing."""

MAX_MAPPED_SHARE = 0.5
"""Maximum share of the free memory for pages of a mapped file; else they are given back after each part."""


class Rows(NamedTuple):
    """How the rows are stored.

    Attributes
    ----------
    item : str
        LLVM type of a value: "float", "double", "i8" and so on; "" if all stored values
        are 1.
    unsigned : bool
    column : str
        LLVM type of the number of a column of sparse rows; "" for dense rows.
    width : int
        Number of columns if it is a constant of the code, else 0.
    contiguous : bool
        Whether the values of a dense row are next to each other.
    """

    item: str
    unsigned: bool = False
    column: str = ""
    width: int = 0
    contiguous: bool = False


@dataclass(frozen=True)
class Ranks:
    """The ranks that share rows.

    Attributes
    ----------
    group : bmrm.distributed.group.Group
    bounds : tuple of int
        Rank r has the rows ``bounds[r]`` to before ``bounds[r + 1]``.
    """

    group: Any
    bounds: tuple[int, ...]


class _OfRanks:
    """What all kinds of rows share: where they stand among the rows of all ranks."""

    ranks: Ranks | None

    @property
    def shape(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def first_row(self) -> int:
        """Number of row 0 among the rows of all ranks."""
        return self.ranks.bounds[self.ranks.group.rank] if self.ranks else 0

    @property
    def total(self) -> int:
        """Number of rows of all ranks."""
        return self.ranks.bounds[-1] if self.ranks else self.shape[0]


@dataclass(frozen=True)
class DenseRows(_OfRanks):
    """Rows of a dense array, which may be a mapped file.

    Attributes
    ----------
    array : ndarray, shape (rows, columns)
        Of any layout and real type. If compiled code cannot read the type, some rows at a time are converted.
    ranks : Ranks or None
    held : dict of Device to list of GpuArray, or None
        What stays on GPUs between calls, of rows that do not change: those of a `bmrm.Dataset`.
    """

    array: NDArray[Any]
    ranks: Ranks | None = None
    held: dict[Any, list[Any]] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return (self.array.shape[0], self.array.shape[1])

    @property
    def sparse(self) -> bool:
        return False

    @property
    def real(self) -> type[np.floating[Any]]:
        """Type of real numbers: float32 if the values are, else float64."""
        return np.float32 if self.array.dtype.newbyteorder("=") == np.float32 else np.float64

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def converted_rows(self) -> int:
        """Number of rows, a power of two, to convert at a time; 0 if compiled code reads them as they are."""
        if _is_read(self.array.dtype):
            return 0
        row_bytes = self.shape[1] * np.dtype(self.real).itemsize
        return 1 << max(6, (MAX_CONVERTED_BYTES // max(1, row_bytes)).bit_length() - 1)

    def converted(self, first: int, last: int) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(self.array[first:last], self.real)

    @functools.cached_property
    def mapped(self) -> mmap.mmap | None:
        """The mapped file that the rows are in one after the other; None also if pages may be private."""
        rows_apart = self.array.strides[0] >= self.array.strides[1] * self.array.shape[1] > 0
        return self.file if rows_apart else None

    @functools.cached_property
    def file(self) -> mmap.mmap | None:
        """The mapped file that the values are in, in any order; None also if pages may be private."""
        array: Any = self.array
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and array.mode == "c":
                return None
            array = array.base
        return array if isinstance(array, mmap.mmap) else None

    def give_back(self, first: int, last: int) -> None:
        """Give the pages of some rows of a mapped file back to the system; they can be read again."""
        assert self.mapped is not None
        start = self.array.ctypes.data - np.frombuffer(self.mapped, np.uint8).ctypes.data
        page, step = mmap.PAGESIZE, self.array.strides[0]
        begin = -(-(start + first * step) // page) * page
        end = (start + last * step) // page * page
        if end > begin:
            self.mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)

    @property
    def stored(self) -> float:
        """Average number of stored values of a row."""
        return float(self.shape[1])

    def kind(self) -> Rows:
        dtype = self.array.dtype
        width = self.shape[1] if self.shape[1] <= MAX_CONSTANT_WIDTH else 0
        if self.converted_rows:
            return Rows("float" if self.real is np.float32 else "double", False, "", width, True)
        contiguous = self.array.strides[1] == dtype.itemsize or self.shape[1] == 1
        return Rows(_ITEMS[f"{dtype.kind}{dtype.itemsize}"], dtype.kind == "u", "", width, contiguous)


class ConvertedRows:
    """Rows of a mapped file of another type or order than compiled code reads; what is taken is converted.

    Attributes
    ----------
    source : DenseRows
        The rows as they are.
    shape : (int, int)
    dtype : dtype
        What they are converted to: float32 if they are, else float64.
    """

    def __init__(self, source: DenseRows) -> None:
        self.source, self.shape, self.dtype = source, source.shape, np.dtype(source.real)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, some: Any) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(self.source.array[some], self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self[:]
        return found if dtype is None else found.astype(dtype, copy=False)

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows when they are converted."""
        return self.size * self.dtype.itemsize

    def blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield some rows at a time, each with the number of the first."""
        size = max(1, MAX_CONVERTED_BYTES // (self.shape[1] * self.dtype.itemsize))
        for first in range(0, len(self), size):
            yield first, self[first : first + size]


def find_converted(X: Any) -> ConvertedRows | None:
    """Return the rows of a mapped file that compiled code cannot read as they are, else None."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fiub" or not X.size:
        return None
    is_float = X.dtype.isnative and X.dtype in (np.float32, np.float64)
    rows = DenseRows(np.asarray(X))
    return None if (is_float and X.flags.c_contiguous) or rows.file is None else ConvertedRows(rows)


@dataclass(frozen=True)
class SparseRows(_OfRanks):
    """Compressed sparse rows with ascending columns.

    Attributes
    ----------
    csr : Csr
    ranks : Ranks or None
    held : dict of Device to list of GpuArray, or None
        As of `DenseRows`: row pointers, columns and values.
    """

    csr: Csr
    ranks: Ranks | None = None
    held: dict[Any, list[Any]] | None = None

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


@dataclass(frozen=True)
class DeviceRows(_OfRanks):
    """Rows of a dense array that another library has put on a GPU; no other rank has some of them.

    Attributes
    ----------
    array : DeviceArray
        Of any layout and of a type that compiled code reads.
    """

    array: DeviceArray
    ranks: None = None

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        return (self.array.shape[0], self.array.shape[1])

    @property
    def sparse(self) -> bool:
        return False

    @functools.cached_property
    def item(self) -> np.dtype[Any]:
        """Type of the values; truth values are read as bytes."""
        return np.dtype(np.uint8) if self.array.dtype == bool else self.array.dtype

    @functools.cached_property
    def real(self) -> type[np.floating[Any]]:
        """Type of real numbers: float32 if the values are, else float64."""
        return np.float32 if self.item == np.float32 else np.float64

    @property
    def nbytes(self) -> int:
        return self.array.size * self.item.itemsize

    @property
    def stored(self) -> float:
        """Number of values of a row."""
        return float(self.shape[1])

    def kind(self) -> Rows:
        return _kind_of(self.item)


@functools.cache
def _kind_of(item: np.dtype[Any]) -> Rows:
    return Rows(_ITEMS[f"{item.kind}{item.itemsize}"], item.kind == "u")


HostRows = DenseRows | SparseRows
AnyRows = HostRows | DeviceRows


def read_rows(data: Any) -> AnyRows:
    """Find the rows of whatever a user passes; nothing is copied if its types allow.

    Parameters
    ----------
    data : ndarray, memmap, DLPack, DataFrame, SciPy sparse matrix, Csr, Data, Dataset, or array on a GPU
        A table of numbers; NaN and infinities are allowed. Mapped files are never copied as a whole.

    Raises
    ------
    DataError
        If it is not a matrix of real numbers.

    Examples
    --------
    >>> read_rows([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if isinstance(data, (DenseRows, SparseRows, DeviceRows)):
        return data
    if isinstance(data, Data):
        data = data.X
    if isinstance(data, Dataset):
        return _from_dataset(data)
    if isinstance(data, Csr):
        return SparseRows(data.on_host())
    if arguments.is_sparse(data):
        return SparseRows(_from_scipy(data))
    if (type(data) is np.ndarray or isinstance(data, np.memmap)) and data.ndim == 2:
        if data.dtype == bool:
            data = data.view(np.uint8)
        if data.dtype.kind in "fiu":
            return DenseRows(np.asarray(data))
    if arguments.is_on_device(data):
        return _on_device(data)
    found = arguments.matrix("rows", data)
    return DenseRows(np.asarray(found))


_datasets: WeakKeyDictionary[Dataset, HostRows] = WeakKeyDictionary()
"""Rows of data sets in main memory; a sparse one keeps its columns in another form, which are copied once."""


def _from_dataset(data: Dataset) -> AnyRows:
    if not isinstance(data.matrix, Matrix):
        return _on_device(resident_rows("rows", data))
    if data not in _datasets:
        found = data.matrix.rows()
        ranks = _ranks_of(data)
        if isinstance(found, np.ndarray):
            _datasets[data] = DenseRows(found, ranks, {})
        else:
            starts, columns, values = found
            if data.columns is not None:  # those that the rows of this rank touch
                columns = data.columns[columns].astype(np.int64)
            values = np.ones(len(columns)) if values is None else values
            shape = (len(starts) - 1, data.shape[1])
            csr = build_canonical(starts, columns, values, shape, sum_duplicates=False)
            if csr.data is None and data.stored == "float32":  # as on another rank, where not all are 1
                csr = csr._replace(data=np.ones(csr.nnz, np.float32))
            _datasets[data] = SparseRows(csr, ranks, {})
    return _datasets[data]


def _ranks_of(data: Dataset) -> Ranks | None:
    if data.group is None:
        return None
    from bmrm.distributed.shard import Shard

    assert isinstance(data, Shard)
    return Ranks(data.group, (0, *itertools.accumulate(data.rows)))


def _on_device(data: Any) -> DeviceRows:
    array = DeviceArray("rows", data, 2, None, any_order=True, stream=LEGACY_STREAM)
    if array.dtype != bool and not _is_read(array.dtype):
        raise DataError(
            f"rows: found {array.dtype} on a GPU, expected float32, float64, whole numbers or truth values"
        )
    return DeviceRows(array)


def _is_read(dtype: np.dtype[Any]) -> bool:
    return dtype.isnative and f"{dtype.kind}{dtype.itemsize}" in _ITEMS


def _from_scipy(X: Any) -> Csr:
    """Convert without looking at the values, of which some may not be finite."""
    X = as_scipy("rows", X).tocsr()
    if X.ndim != 2:
        raise DataError(f"rows: found a sparse array of {X.ndim} dimensions, expected 2")
    check_layout(X.indptr, X.indices, X.data, X.shape)  # SciPy would read outside of arrays
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.data.dtype.kind not in "fiub":
        raise DataError(f"rows: found values of type {X.data.dtype}, expected real numbers")
    values = X.data if X.data.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
    index = np.int32 if X.indices.dtype == np.int32 else np.int64
    return Csr(
        np.ascontiguousarray(X.indptr, np.int64),
        np.ascontiguousarray(X.indices, index),
        np.ascontiguousarray(values),
        (int(X.shape[0]), int(X.shape[1])),
    )


def reads_too_much(rows: AnyRows) -> TypeGuard[DenseRows]:
    """Return whether rows are in a mapped file that would fill much of the free memory.

    The system drops pages of files when memory is short, but others' pages too.
    """
    if not isinstance(rows, DenseRows) or rows.nbytes < MIN_CHECKED_BYTES or rows.mapped is None:
        return False
    free = available_bytes()
    return free is not None and rows.nbytes > MAX_MAPPED_SHARE * free
