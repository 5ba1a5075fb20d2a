"""Files of arrays that the package writes for itself, with checksums of everything: the caches of texts.

Layout (little-endian): eight bytes that name the kind of file, the length and the checksum of a JSON header
as two uint64, the header, then each array, starting on a new page. The header holds a version, a key,
whatever else the kind needs, and dtype, length, offset and checksum of each array.

Such a file is never trusted. Version and key must be those that are wanted, header and arrays must match
their checksums, and the sizes must match the file. The checks use our own copy in memory, so nobody can
change it afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bmrm.base.atomic import atomic_write
from bmrm.io import _svmlight

MAX_HEADER_BYTES = 1 << 16
"""A header takes about 1 kB; a longer one is damaged."""

PAGE_BYTES = 4096
"""Alignment of the arrays."""

MAGIC_BYTES = 8
_START = MAGIC_BYTES + 16  # offset of the header


class UnusableError(Exception):
    """The file is absent, stale or damaged."""


FAULTS = (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""What a header with values of other types may cause."""


def read_arrays(
    file: BinaryIO,
    size: int,
    magic: bytes,
    dtypes: Mapping[str, tuple[str, ...]],
    wanted: Mapping[str, Any],
    limits_of: Callable[[Any], Mapping[str, int]],
    threads: int,
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read a file whose arrays match their checksums.

    Parameters
    ----------
    file : binary file
    size : int
        Number of its bytes.
    magic : bytes
        The kind of file.
    dtypes : dict
        By name, the types that an array may have.
    wanted : dict
        Entries that the header must have, the version among them.
    limits_of : callable
        Takes the header; returns, for arrays of int32 by name, what their numbers must be below, from 0 on.
    threads : int

    Returns
    -------
    header : dict
    arrays : dict of ndarray

    Raises
    ------
    UnusableError
    OSError or one of `FAULTS`
        For a header that is not what it should be.
    """
    header, end = read_header(file, size, magic)
    if any(header[part] != value for part, value in wanted.items()):
        raise UnusableError
    limits, arrays = limits_of(header), {}
    for name, section in header["arrays"].items():
        count, offset = require_size(section["count"]), require_size(section["offset"])
        if section["dtype"] not in dtypes[name] or offset != _align_to_page(end):
            raise UnusableError
        end = offset + count * np.dtype(section["dtype"]).itemsize
        if end > size:
            raise UnusableError
        array = np.empty(count, section["dtype"])
        checksum, in_range = _svmlight.read_checked(
            file.fileno(), array.view(np.uint8), offset, columns=limits.get(name), threads=threads
        )
        if checksum != section["checksum"] or not in_range:
            raise UnusableError
        arrays[name] = array
    if end != size:
        raise UnusableError
    return header, arrays


def read_header(file: BinaryIO, size: int, magic: bytes) -> tuple[Any, int]:
    """Read the header; return it and the offset of its end."""
    start = file.read(_START)
    if len(start) < _START or start[:MAGIC_BYTES] != magic:
        raise UnusableError
    length, checksum = np.frombuffer(start, "<u8", offset=MAGIC_BYTES).tolist()
    if length > min(MAX_HEADER_BYTES, size - _START):
        raise UnusableError
    text = file.read(length)
    if len(text) != length or _svmlight.checksum(text) != checksum:
        raise UnusableError
    return json.loads(text), _START + length


def require_size(number: Any) -> int:
    """Return a number that may be a length; raise for anything else."""
    if not isinstance(number, int) or not 0 <= number < 1 << 62:
        raise UnusableError
    return number


def write_arrays(
    path: str,
    like: os.stat_result,
    magic: bytes,
    header: dict[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    threads: int,
) -> None:
    """Write a file with the permissions of another; what it replaces stays until it is whole."""
    sections: dict[str, dict[str, Any]] = {
        name: {
            "dtype": array.dtype.newbyteorder("<").str,
            "count": len(array),
            "checksum": _svmlight.checksum(_little_endian_bytes(array), threads=threads),
            "offset": 0,
        }
        for name, array in arrays.items()
    }
    # Offsets depend on the length of the header, and it on them: reserve 20 bytes for each offset.
    end = _align_to_page(_START + len(json.dumps({**header, "arrays": sections})) + 20 * len(sections))
    header_end = end
    for section in sections.values():
        section["offset"] = _align_to_page(end)
        end = section["offset"] + section["count"] * np.dtype(section["dtype"]).itemsize
    text = json.dumps({**header, "arrays": sections}).encode().ljust(header_end - _START)
    with atomic_write(path, like=like, follow=False) as file:
        file.write(magic)
        file.write(np.array([len(text), _svmlight.checksum(text)], "<u8").tobytes())
        file.write(text)
        position = header_end
        for name, section in sections.items():
            file.write(bytes(section["offset"] - position))
            file.write(_little_endian_bytes(arrays[name]))
            position = section["offset"] + arrays[name].nbytes


def _align_to_page(offset: int) -> int:
    return (offset + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES


def _little_endian_bytes(array: NDArray[Any]) -> memoryview:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8).data
