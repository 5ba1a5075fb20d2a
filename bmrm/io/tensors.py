"""Read safetensors files into our own memory, with every number of the header checked.

The library's own reader maps the file, which another process may truncate meanwhile, and creates arrays of
any type and shape that the header states.

References
----------
The safetensors format, https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.errors import DataError
from bmrm.io.regular import check_unchanged, read_array

MAX_TENSOR_HEADER_BYTES = 1 << 20
"""Maximum size of a header; those of bmrm's models take a few hundred bytes."""

MAX_TENSOR_ELEMENTS = 1 << 48
"""Maximum number of elements, ignoring sides of length 0: NumPy creates no larger arrays."""

_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32}
_BITS |= {"F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
_DTYPES = {"F64": "<f8", "I32": "<i4", "U8": "u1"}


class Tensors:
    """The tensors of an open file.

    ``start`` is the offset of the tensors, after the header.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size
        text, self.start = _read_header(file, size)
        self.metadata, self._entries = _parse_header(text, size - self.start)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def shape(self, name: str, kind: str, sides: int) -> tuple[int, ...]:
        """Return the shape of a tensor that must have the given type and number of sides.

        Raise `DataError` if the tensor is missing, or its type or number of sides differs.
        """
        if name not in self._entries:
            raise DataError(f"truncated or damaged model file (no tensor {name!r})")
        found, shape, _ = self._entries[name]
        if found != kind or len(shape) != sides:
            wanted = "vector" if sides == 1 else "matrix"
            raise DataError(f"tensor {name!r}: found {found} of shape {shape}, expected one {kind} {wanted}")
        return shape

    def read(self, name: str, kind: str, sides: int) -> NDArray[Any]:
        """Read a tensor of the given type, "F64", "I32" or "U8", and number of sides; see `shape`."""
        shape = self.shape(name, kind, sides)
        dtype = np.dtype(_DTYPES[kind])
        require_memory(math.prod(shape) * dtype.itemsize, f"tensor {name!r}")
        return read_array(self._file, dtype, shape, self.start + self._entries[name][2])

    def bytes(self, first: int, last: int) -> NDArray[np.uint8]:
        """Read the bytes ``[first, last)`` of the file."""
        return read_array(self._file, np.uint8, (last - first,), first)

    def read_columns(self, name: str, first: int, last: int) -> NDArray[np.float64]:
        """Read the columns ``[first, last)`` of a matrix of type "F64"; see `shape`."""
        rows, columns = self.shape(name, "F64", 2)
        if (first, last) == (0, columns):
            return self.read(name, "F64", 2)
        start = self.start + self._entries[name][2]
        require_memory(8 * rows * (last - first), f"tensor {name!r}")
        found = np.empty((rows, last - first))
        for row in range(rows):
            found[row] = read_array(self._file, "<f8", (last - first,), start + 8 * (row * columns + first))
        return found


@contextlib.contextmanager
def open_tensors(path: str) -> Iterator[Tensors]:
    """Open a safetensors file.

    Raise `DataError` if the file is of another format, truncated or damaged, or has changed by the end of the
    block. Raise `OSError` if the file cannot be read.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # before opening: a pipe would wait for its writer
        raise DataError("found something other than a regular file, expected a model file")
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        with check_unchanged(file.fileno(), status, "model file"):
            yield Tensors(file, status.st_size)


def _read_header(file: BinaryIO, size: int) -> tuple[bytes, int]:
    head = file.read(9)
    length = int.from_bytes(head[:8], "little")
    if not head:
        raise DataError("found an empty file, expected a model file")
    if len(head) < 9 or head[8:] != b"{" or length > MAX_TENSOR_HEADER_BYTES:
        raise DataError("not a bmrm model file (it does not open with a safetensors header)")
    if length + 8 > size:
        raise DataError(f"truncated model file: {size} bytes, its header alone has {length}")
    return read_array(file, np.uint8, (length,), 8).tobytes(), 8 + length


def _parse_header(
    text: bytes, there: int
) -> tuple[dict[str, str], dict[str, tuple[str, tuple[int, ...], int]]]:
    """Return the metadata, and the type, shape and offset of each tensor.

    As the format requires, the tensors must follow each other without gaps and end with the file.
    """
    try:
        header = json.loads(text, object_pairs_hook=_reject_repeated_keys)
        metadata = header.pop("__metadata__", {})
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("metadata that is not text")
        entries = {name: _parse_entry(name, found) for name, found in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:100]
        raise DataError(f"truncated or damaged model file ({reason or type(error).__name__})") from None
    end = 0
    for first, last in sorted((offset, last) for *_, offset, last in entries.values()):
        if first != end:
            raise DataError("truncated or damaged model file (tensors overlap or have gaps between them)")
        end = last
    if end != there:
        raise DataError(f"truncated or damaged model file ({there} bytes of tensors, expected {end})")
    return metadata, {name: entry[:3] for name, entry in entries.items()}


def _parse_entry(name: str, found: Mapping[str, Any]) -> tuple[str, tuple[int, ...], int, int]:
    kind, shape, (first, last) = found["dtype"], found["shape"], found["data_offsets"]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in (*shape, first, last)):
        raise ValueError(f"tensor {name!r}: sizes out of range")
    if kind not in _BITS:
        raise ValueError(f"tensor {name!r}: type {kind!r}")
    if math.prod(max(side, 1) for side in shape) > MAX_TENSOR_ELEMENTS:
        raise ValueError(f"tensor {name!r}: shape {shape}")
    if last - first != math.prod(shape) * _BITS[kind] // 8:
        raise ValueError(f"tensor {name!r}: {last - first} bytes for shape {shape} of {kind}")
    return kind, tuple(shape), first, last


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found
