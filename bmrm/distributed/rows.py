"""Rows as they are stored: dense or sparse, in main memory, in a mapped file or on a GPU.

Callers ask these classes and do not check which one they have. Compiled functions read dense rows as they
are, of any type and order that their code is made for, by the addresses of `entries`. Estimators read blocks
of float32 or float64, stored by rows (``rows[some]``); other types of a mapped file are converted some rows
at a time.
"""

from __future__ import annotations

import functools
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import MIN_CHECKED_BYTES, available_bytes
from bmrm.base.vectors import Indices, Vector
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.placement import gpu_that_has

_ITEMS = {"f4": "float", "f8": "double", **{f"{k}{n}": f"i{8 * n}" for k in "iu" for n in (1, 2, 4, 8)}}
"""LLVM's types of the values that compiled code reads as they are."""

BYTES, SINGLE, DOUBLE = np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.float64)

MAX_CONVERTED_BYTES = 1 << 22
"""Maximum size of rows that are converted at a time, if compiled code cannot read their type."""

MAX_CONSTANT_WIDTH = 128
"""Maximum number of columns that is a constant of compiled code; above, a loop's counter costs nothing."""

MAX_MAPPED_SHARE = 0.5
"""Maximum share of the free memory for pages of a mapped file; else they are released after each part."""


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


Entries = dict[str, int]
"""Addresses and steps of rows by the names that compiled code has for them."""


class StoredRows(ABC):
    """Rows of any kind.

    Attributes
    ----------
    shape : (int, int)
    dtype : dtype
        Of the values that estimators read: float32 or float64. Compiled functions compute with it too.
    sparse : bool
    there : DeviceArray or None
        The array, or one of the arrays, of rows that are on a GPU.
    held : dict of Device to entries and their arrays, or None
        What stays on GPUs between calls, of rows that do not change: those of a `bmrm.Dataset`.
    """

    held: dict[Any, Any] | None = None
    sparse = False

    @property
    def there(self) -> DeviceArray | None:
        return None

    @property
    def on_gpu(self) -> bool:
        return self.there is not None

    @property
    def gpu(self) -> int | None:
        """Number of the GPU that has the rows; None if they are in main memory."""
        return gpu_that_has(self.there)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes as they are stored, without row pointers."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of stored values."""
        return self.shape[0] * self.shape[1]

    @property
    def stored(self) -> float:
        """Average number of stored values of a row."""
        return self.size / max(1, self.shape[0])

    @property
    def value_bytes(self) -> int:
        """Bytes of a value that estimators read; 0 if all stored values are 1."""
        return self.dtype.itemsize

    def most_stored(self, each: int) -> int:
        """Return the maximum number of stored values of a block of ``each`` rows."""
        return min(each, len(self)) * self.shape[1]

    @property
    def in_place(self) -> bool:
        """Whether estimators can read all rows at once without a copy."""
        return True

    @property
    def item_bytes(self) -> int:
        """Bytes of a value that compiled functions read; 0 if all stored values are 1."""
        return self.value_bytes

    @property
    def copied(self) -> bool:
        """Whether `arrays` makes copies."""
        return False

    def kind(self) -> Rows:
        """Return how the rows are stored, on which compiled code depends."""
        raise NotImplementedError

    def entries(self) -> Entries:
        """Return where compiled code finds the rows."""
        raise NotImplementedError

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int, Entries]]:
        """Yield some rows in pieces that compiled code can read, each with what differs from `entries`."""
        yield first, last, {}

    def arrays(self, some: slice) -> dict[str, NDArray[Any]]:
        """Return what a GPU must get of some rows, by the names of `entries`: all that is in main memory."""
        raise NotImplementedError

    def row(self, number: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the values of a row, and the columns if it is sparse."""
        raise NotImplementedError

    def __getitem__(self, some: Any) -> Any:
        """Return some rows in main memory for estimators: stored by rows, or a `Csr`."""
        raise NotImplementedError

    @property
    def given(self) -> Any:
        """The rows as functions of users know them."""
        raise NotImplementedError

    def block(self, some: slice) -> Any:
        """Return some rows for a GPU: of those that are on it, a view."""
        return self[some]

    def part(self, some: slice) -> StoredRows:
        """Return some rows, which are in main memory, without a copy of their values."""
        raise NotImplementedError

    def dense(self, some: slice) -> NDArray[Any]:
        """Return some rows as a dense array in main memory."""
        return np.asarray(self[some])

    def take(self, rows: Indices) -> Vector:
        """Return some rows, dense in float64."""
        return np.asarray(self[rows], np.float64)

    @property
    def values(self) -> NDArray[Any]:
        """All stored values in main memory."""
        raise NotImplementedError

    def with_values(self, values: NDArray[Any]) -> StoredRows:
        """Return the same rows with other values, in main memory."""
        raise NotImplementedError

    @property
    def reads_too_much(self) -> bool:
        """Whether they are in a mapped file that would fill much of the free memory."""
        return False

    def release(self, first: int, last: int) -> None:
        """Release the pages of some rows of a mapped file; they can be read again."""
        raise NotImplementedError


def _file_of(array: Any) -> mmap.mmap | None:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.mode == "c":
            return None
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def is_mapped(array: NDArray[Any]) -> bool:
    """Return whether values are in a mapped file, of which no page is private."""
    return _file_of(array) is not None


@dataclass(frozen=True)
class DenseRows(StoredRows):
    """Rows of a dense array, which may be a mapped file.

    Attributes
    ----------
    array : ndarray, shape (rows, columns)
        Of any layout and real type.
    """

    array: NDArray[Any]
    held: dict[Any, Any] | None = None

    @functools.cached_property
    def shape(self) -> tuple[int, int]:
        return (self.array.shape[0], self.array.shape[1])

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.array.dtype.newbyteorder("=") == np.float32 else np.float64)

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def in_place(self) -> bool:
        return self.array.dtype == self.dtype and self.array.flags.c_contiguous

    @property
    def converted_rows(self) -> int:
        """Number of rows, a power of two, to convert at a time; 0 if compiled code reads them as they are."""
        if is_read(self.array.dtype):
            return 0
        row_bytes = self.shape[1] * self.dtype.itemsize
        return 1 << max(6, (MAX_CONVERTED_BYTES // max(1, row_bytes)).bit_length() - 1)

    def kind(self) -> Rows:
        dtype = self.array.dtype
        width = self.shape[1] if self.shape[1] <= MAX_CONSTANT_WIDTH else 0
        if self.converted_rows:
            return Rows(_ITEMS[self.dtype.str[1:]], False, "", width, True)
        contiguous = self.array.strides[1] == dtype.itemsize or self.shape[1] == 1
        return Rows(_ITEMS[f"{dtype.kind}{dtype.itemsize}"], dtype.kind == "u", "", width, contiguous)

    @property
    def item_bytes(self) -> int:
        return self.dtype.itemsize if self.converted_rows else self.array.dtype.itemsize

    @property
    def copied(self) -> bool:
        return bool(self.converted_rows) or not self.array.flags.c_contiguous

    def entries(self) -> Entries:
        return {} if self.converted_rows else _dense_entries(self.array.ctypes.data, self.array.strides)

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, int, Entries]]:
        each = self.converted_rows
        if not each:
            yield first, last, {}
        for start in range(first, last, each) if each else ():
            stop = min(last, start + each)
            block = self[start:stop]
            step = block.strides[0]
            yield start, stop, _dense_entries(block.ctypes.data - start * step, block.strides)

    def arrays(self, some: slice) -> dict[str, NDArray[Any]]:
        return {"rows": self[some] if self.converted_rows else np.asarray(self.array[some], order="C")}

    def row(self, number: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        return self.array[number], None

    def __getitem__(self, some: Any) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(self.array[some], self.dtype)

    @property
    def given(self) -> NDArray[Any]:
        return self.array

    def part(self, some: slice) -> StoredRows:
        return DenseRows(self.array[some])

    @property
    def values(self) -> NDArray[Any]:
        return self[:]

    def with_values(self, values: NDArray[Any]) -> StoredRows:
        return DenseRows(values)

    @functools.cached_property
    def mapped(self) -> mmap.mmap | None:
        """The mapped file that the rows are in one after the other; None also if pages may be private."""
        rows_apart = self.array.strides[0] >= self.array.strides[1] * self.array.shape[1] > 0
        return self.file if rows_apart else None

    @functools.cached_property
    def file(self) -> mmap.mmap | None:
        """The mapped file that the values are in, in any order; None also if pages may be private."""
        return _file_of(self.array)

    @property
    def reads_too_much(self) -> bool:
        # The system drops pages of files when memory is short, but others' pages too.
        if self.nbytes < MIN_CHECKED_BYTES or self.mapped is None:
            return False
        free = available_bytes()
        return free is not None and self.nbytes > MAX_MAPPED_SHARE * free

    def release(self, first: int, last: int) -> None:
        assert self.mapped is not None
        start = self.array.ctypes.data - np.frombuffer(self.mapped, np.uint8).ctypes.data
        page, step = mmap.PAGESIZE, self.array.strides[0]
        begin = -(-(start + first * step) // page) * page
        end = (start + last * step) // page * page
        if end > begin:
            self.mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)


@dataclass(frozen=True)
class SparseRows(StoredRows):
    """Compressed sparse rows with ascending columns.

    Attributes
    ----------
    csr : Csr
    """

    csr: Csr
    held: dict[Any, Any] | None = None
    sparse = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.csr.shape

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        data = self.csr.data
        return np.dtype(np.float32 if data is not None and data.dtype == np.float32 else np.float64)

    @property
    def size(self) -> int:
        return self.csr.nnz

    @property
    def value_bytes(self) -> int:
        return 0 if self.csr.data is None else self.csr.data.dtype.itemsize

    def most_stored(self, each: int) -> int:
        ends = self.csr.indptr[np.append(np.arange(0, len(self), each), len(self))]
        return int(np.diff(ends).max(initial=0))

    @property
    def nbytes(self) -> int:
        return self.size * (self.csr.indices.dtype.itemsize + self.value_bytes)

    def kind(self) -> Rows:
        data = self.csr.data
        item = "" if data is None else _ITEMS[f"f{data.dtype.itemsize}"]
        return Rows(item, False, f"i{8 * self.csr.indices.dtype.itemsize}")

    def entries(self) -> Entries:
        return {name: array.ctypes.data for name, array in self._named(self.csr).items()}

    def arrays(self, some: slice) -> dict[str, NDArray[Any]]:
        return self._named(self[some])

    def _named(self, csr: Csr) -> dict[str, NDArray[Any]]:
        found = {"starts": csr.indptr, "columns": csr.indices}
        return found if csr.data is None else {**found, "values": csr.data}

    def row(self, number: int) -> tuple[NDArray[Any], NDArray[Any] | None]:
        csr, part = self.csr, slice(self.csr.indptr[number], self.csr.indptr[number + 1])
        return (np.ones(part.stop - part.start) if csr.data is None else csr.data[part]), csr.indices[part]

    def __getitem__(self, some: slice) -> Csr:
        """Return some rows, which share memory with all."""
        X, (first, last, _) = self.csr, some.indices(len(self))
        if last - first == len(self):
            return X
        begin, end = X.indptr[first], X.indptr[last]
        data = None if X.data is None else X.data[begin:end]
        starts = X.indptr[first : last + 1] - begin
        return Csr(starts, X.indices[begin:end], data, (last - first, X.shape[1]))

    @property
    def given(self) -> Any:
        return self.csr.to_scipy()

    def part(self, some: slice) -> StoredRows:
        return SparseRows(self[some])

    def dense(self, some: slice) -> NDArray[Any]:
        return self.take(np.arange(some.start, some.stop))

    def take(self, rows: Indices) -> Vector:
        return np.asarray(self.csr.take(rows).to_scipy(np.float64).toarray())

    @property
    def values(self) -> NDArray[Any]:
        return np.ones(self.csr.nnz) if self.csr.data is None else self.csr.data

    def with_values(self, values: NDArray[Any]) -> StoredRows:
        return SparseRows(self.csr._replace(data=values))


@dataclass(frozen=True)
class DeviceSparseRows(SparseRows):
    """Compressed sparse rows on a GPU: columns and values are each a `DeviceArray`, row pointers are here."""

    held: dict[Any, Any] | None = field(default_factory=dict)  # row pointers are copied once

    @property
    def there(self) -> DeviceArray | None:
        found: Any = self.csr.indices
        return found  # type: ignore[no-any-return]

    def entries(self) -> Entries:
        found = {"columns": self.csr.indices, "values": self.csr.data}
        return {name: cast(Any, array).address for name, array in found.items() if array is not None}

    def arrays(self, some: slice) -> dict[str, NDArray[Any]]:
        return {"starts": self.csr.indptr}

    def __getitem__(self, some: slice) -> Csr:
        """Copy some rows to main memory."""
        csr, (first, last, _) = self.csr, some.indices(len(self))
        starts = csr.indptr[first : last + 1]
        stored = slice(int(starts[0]), int(starts[-1]))
        data = None if csr.data is None else csr.data[stored]
        return Csr(starts - starts[0], csr.indices[stored], data, (last - first, csr.shape[1]))


@dataclass(frozen=True)
class DeviceRows(StoredRows):
    """Rows of a dense array on a GPU.

    Attributes
    ----------
    array : DeviceArray
        Of any layout and of a type that compiled code reads.
    """

    array: DeviceArray

    @property
    def there(self) -> DeviceArray | None:
        return self.array

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape  # type: ignore[return-value]

    @property
    def item(self) -> np.dtype[Any]:
        """Type of the values; truth values are read as bytes."""
        return BYTES if self.array.dtype.kind == "b" else self.array.dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        return SINGLE if self.array.dtype == SINGLE else DOUBLE

    @property
    def item_bytes(self) -> int:
        return self.item.itemsize

    @property
    def nbytes(self) -> int:
        return self.array.size * self.item.itemsize

    def kind(self) -> Rows:
        return _kind_of(self.item)

    def entries(self) -> Entries:
        return _dense_entries(self.array.address, self.array.strides)

    def arrays(self, some: slice) -> dict[str, NDArray[Any]]:
        return {}

    def __getitem__(self, some: Any) -> NDArray[Any]:
        return self.array[some]

    @property
    def given(self) -> Any:
        return self.array.owner

    def block(self, some: slice) -> Any:
        return RowsInPlace(self.array, some)

    @property
    def values(self) -> NDArray[Any]:
        return self[:]

    def with_values(self, values: NDArray[Any]) -> StoredRows:
        return DenseRows(values)


class RowsInPlace:
    """Some rows of an array on a GPU."""

    def __init__(self, X: DeviceArray, rows: slice) -> None:
        size = np.dtype(X.dtype).itemsize * X.shape[1]
        self._owner = X
        self.__cuda_array_interface__ = {
            "shape": (rows.stop - rows.start, X.shape[1]),
            "typestr": np.dtype(X.dtype).str,
            "data": (X.address + rows.start * size, True),
            "strides": None,
            "version": 3,
        }


@dataclass(frozen=True)
class MatrixRows(StoredRows):
    """Rows of a matrix of which only products are formed."""

    matrix: Any

    @property
    def gpu(self) -> int | None:
        return self.matrix.device  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape  # type: ignore[no-any-return]


def stored_rows(X: Any) -> StoredRows:
    """Return rows as an object of their kind."""
    if isinstance(X, StoredRows):
        return X
    if isinstance(X, Csr):
        return SparseRows(X)
    return DeviceRows(X) if isinstance(X, DeviceArray) else DenseRows(np.asarray(X))


def is_read(dtype: np.dtype[Any]) -> bool:
    """Return whether compiled code reads values of a type as they are."""
    return dtype.isnative and f"{dtype.kind}{dtype.itemsize}" in _ITEMS


def _dense_entries(address: int, strides: tuple[int, ...]) -> Entries:
    return {"rows": address, "row_step": strides[0], "column_step": strides[1]}


@functools.cache
def _kind_of(item: np.dtype[Any]) -> Rows:
    return Rows(_ITEMS[f"{item.kind}{item.itemsize}"], item.kind == "u")
