"""Read dense arrays from npy files, whole or some rows at a time, after comparing sizes with the file."""

from __future__ import annotations

import math
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.errors import DataError
from bmrm.io.regular import read_array

_HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class NpyHeader(NamedTuple):
    """The header of a file that holds an array of real numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool  # whether the matrix is stored by columns
    start: int  # offset of the first number


def read_header(file: BinaryIO, size: int, dimensions: int = 2) -> NpyHeader:
    """Read the header of a regular file of ``size`` bytes.

    Raise `DataError` if the array has other dimensions, or no real numbers. Raise `ValueError` if the file is
    damaged, or too short for its header.
    """
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version not in _HEADER_READERS:
        raise ValueError(f"version {version} of the format")
    try:
        shape, by_columns, dtype = _HEADER_READERS[version](file)
    except Exception as error:  # NumPy parses the header as Python: what it raises is no list to rely on
        raise ValueError(f"a header that cannot be read, {' '.join(str(error).split())[:200]}") from None
    if len(shape) != dimensions:
        raise DataError(f"found an array of {len(shape)} dimensions, expected {dimensions}")
    if dtype.hasobject:
        raise ValueError("an array of objects")
    if dtype.kind not in "fiub":
        raise DataError(f"found values of type {dtype}, expected real numbers")
    found = NpyHeader(shape, dtype, by_columns, file.tell())
    needed, there = math.prod(shape) * dtype.itemsize, size - found.start
    if min(shape) < 0 or needed > there:
        raise ValueError(f"{there} bytes of numbers, expected {needed} for the shape {shape}")
    return found


def write_array(file: BinaryIO, array: NDArray[Any]) -> None:
    """Write an npy file; `numpy.save` raises errors of the disk without their number and text."""
    array = np.ascontiguousarray(array)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    file.write(array.data)


def read_rows(file: BinaryIO, header: NpyHeader, first: int = 0, last: int | None = None) -> NDArray[Any]:
    """Read the rows from ``first`` to ``last``; a file stored by columns is read whole."""
    rows, columns = header.shape
    if header.by_columns:
        require_memory(rows * columns * header.dtype.itemsize, "the array")
        return read_array(file, header.dtype, (columns, rows), header.start).T[first:last]
    count = (rows if last is None else min(last, rows)) - first
    width = columns * header.dtype.itemsize
    require_memory(count * width, "the array")
    return read_array(file, header.dtype, (count, columns), header.start + first * width)
