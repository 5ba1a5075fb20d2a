"""A binary cache next to a text file: its arrays in a form that needs no parsing.

Layout (little-endian): ``MAGIC``, the length and the checksum of a JSON header as two uint64, the header,
then each array, starting on a new page. The header holds the version; what the cache was made from (size and
time of change of the source, a checksum of 16 pieces spread over it, and the options of reading); and dtype,
length, offset and checksum of each array.

A cache is never trusted. Header and arrays must match their checksums, the sizes must match the file, and
indices and row pointers must be in range; otherwise the text is read and the cache written again. The checks
use our own copy in memory, so nobody can change it afterwards. If the name of the cache belongs to anything
except a regular file, even a symbolic link, it is neither read nor replaced. Whoever may read the text may
read the cache.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.atomic import atomic_write
from bmrm.base.labels import spread_texts
from bmrm.errors import escape_unprintable
from bmrm.io import _svmlight, _text
from bmrm.io.csr import Csr
from bmrm.io.data import Data, Labels
from bmrm.io.regular import open_own_file
from bmrm.io.sources import Source
from bmrm.io.text import Grammar, value_type

SUFFIX = ".bmrmcache"
MAGIC = b"bmrmCSR\x00"
CACHE_VERSION = 2  # of the layout; caches of other versions are written again
PAGE_BYTES = 4096  # alignment of the arrays
MAX_HEADER_BYTES = 1 << 16  # a header takes about 1 kB; a longer one is damaged
CHECKED_PIECES = 16  # of the source, for its checksum
CHECKED_PIECE_BYTES = 1 << 16
_START = len(MAGIC) + 16  # offset of the header
_ARRAY_DTYPES = {
    "indptr": ("<i8",),
    "indices": ("<i4",),
    "values": ("<f4", "<f8"),
    "labels": ("<f8",),
    "label_starts": ("<i8",),
    "label_names": ("|u1",),  # UTF-8, one per line, which the labels number
    "query": ("<i8",),
}

_warned_paths: set[str] = set()  # sources whose cache could not be written


class _UnusableError(Exception):
    """The cache is absent, stale or damaged."""


def describe_source(source: Source) -> dict[str, int]:
    """Return what identifies the content of a regular file; reads 1 MiB of it."""
    descriptor = source.file.fileno()
    status = os.fstat(descriptor)
    last = max(0, status.st_size - CHECKED_PIECE_BYTES)
    offsets = sorted({last * i // (CHECKED_PIECES - 1) for i in range(CHECKED_PIECES)})
    pieces = b"".join(os.pread(descriptor, CHECKED_PIECE_BYTES, offset) for offset in offsets)
    return {
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "checksum": _svmlight.checksum(pieces),
    }


def describe_options(grammar: Grammar) -> dict[str, Any]:
    """Return all options that change how a text is read."""
    return {
        "n_features": grammar.n_features,
        "zero_based": grammar.zero_based,
        "dtype": grammar.dtype.str,
        "text_labels": grammar.text_labels,
        "query_id": grammar.query_id,
        "sum_duplicates": grammar.sum_duplicates,
    }


def read_cached_dtype(path: str) -> np.dtype[Any] | None:
    """Return the value type of the cache of ``path``; None if there is no cache with a valid header."""
    try:
        with open_own_file(path + SUFFIX) as (file, status):
            header, _ = _read_header(file, status.st_size)
        return value_type(header["options"]["dtype"]) if header["version"] == CACHE_VERSION else None
    except (OSError, _UnusableError, LookupError, RecursionError, TypeError, ValueError):
        return None


def load(path: str, key: dict[str, int], grammar: Grammar, threads: int) -> Data | None:
    """Read the cache of ``path``; return None if there is none that is valid and matches."""
    began = time.perf_counter()
    try:
        with open_own_file(path + SUFFIX) as (file, status):
            data = _load(file, status.st_size, {"source": key, "options": describe_options(grammar)}, threads)
    except (OSError, _UnusableError, _text.ChangedError):
        return None
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    data.seconds["cache"] = time.perf_counter() - began
    return data


def _load(file: Any, size: int, key: dict[str, Any], threads: int) -> Data:
    header, end = _read_header(file, size)
    if header["version"] != CACHE_VERSION or any(header[part] != value for part, value in key.items()):
        raise _UnusableError
    rows, columns = (_require_size(n) for n in header["shape"])
    if columns > _svmlight.MAX_INDEX + 1:
        raise _UnusableError
    arrays = {}
    for name, section in header["arrays"].items():
        count, offset = _require_size(section["count"]), _require_size(section["offset"])
        if section["dtype"] not in _ARRAY_DTYPES[name] or offset != _align_to_page(end):
            raise _UnusableError
        end = offset + count * np.dtype(section["dtype"]).itemsize
        if end > size:
            raise _UnusableError
        array = np.empty(count, section["dtype"])
        checksum, in_range = _svmlight.read_checked(
            file.fileno(),
            array.view(np.uint8),
            offset,
            columns=columns if name == "indices" else None,
            threads=threads,
        )
        if checksum != section["checksum"] or not in_range:
            raise _UnusableError
        arrays[name] = array
    if end != size:
        raise _UnusableError
    return _assemble(arrays, rows, columns, header)


def _read_header(file: Any, size: int) -> tuple[Any, int]:
    """Read the header; return it and the offset of its end."""
    start = file.read(_START)
    if len(start) < _START or start[: len(MAGIC)] != MAGIC:
        raise _UnusableError
    length, checksum = np.frombuffer(start, "<u8", offset=len(MAGIC)).tolist()
    if length > min(MAX_HEADER_BYTES, size - _START):
        raise _UnusableError
    text = file.read(length)
    if len(text) != length or _svmlight.checksum(text) != checksum:
        raise _UnusableError
    return json.loads(text), _START + length


def _assemble(arrays: dict[str, NDArray[Any]], rows: int, columns: int, header: Any) -> Data:
    indptr, indices, labels = arrays["indptr"], arrays["indices"], arrays["labels"]
    values, starts, query = (arrays.get(name) for name in ("values", "label_starts", "query"))
    _check_starts(indptr, rows, len(indices))
    if values is not None and len(values) != len(indices):
        raise _UnusableError
    y: Labels = labels
    if header["options"]["text_labels"]:
        if not ((labels >= 0) & np.isfinite(labels)).all():
            raise _UnusableError
        y = spread_texts(arrays["label_names"].tobytes().decode().split("\n"), labels, "the cache")
    elif starts is not None:
        _check_starts(starts, rows, len(labels))
        flat = labels.tolist()
        y = [tuple(flat[a:b]) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    if (
        len(y) != rows
        or (query is not None and len(query) != rows)
        or not isinstance(header["rounded"], bool)
    ):
        raise _UnusableError
    return Data(
        Csr(indptr, indices, values, (rows, columns)),
        y,
        qid=query,
        zero_based=bool(header["zero_based"]),
        from_cache=True,
        rounded=header["rounded"],
    )


def _check_starts(starts: NDArray[Any], rows: int, count: int) -> None:
    if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise _UnusableError


def _require_size(number: Any) -> int:
    if not isinstance(number, int) or not 0 <= number < 1 << 62:
        raise _UnusableError
    return number


def _align_to_page(offset: int) -> int:
    return (offset + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES


def store(source: Source, data: Data, key: dict[str, int], grammar: Grammar, threads: int) -> None:
    """Write the cache of a regular file; if that fails, warn once and continue."""
    began = time.perf_counter()
    path = source.path
    assert path is not None
    try:
        like = os.fstat(source.file.fileno())
        _store(path + SUFFIX, like, data, {"source": key, "options": describe_options(grammar)}, threads)
    except OSError as error:
        if path not in _warned_paths:
            import logging

            _warned_paths.add(path)
            reason = error.strerror or error
            logging.getLogger("bmrm").warning(
                "%s: no cache written: %s", escape_unprintable(path + SUFFIX), reason
            )
    data.seconds["cache"] = time.perf_counter() - began


def _store(path: str, like: os.stat_result, data: Data, key: dict[str, Any], threads: int) -> None:
    arrays = _collect_arrays(data)
    sections: dict[str, dict[str, Any]] = {
        name: {
            "dtype": array.dtype.newbyteorder("<").str,
            "count": len(array),
            "checksum": _svmlight.checksum(_little_endian_bytes(array), threads=threads),
            "offset": 0,
        }
        for name, array in arrays.items()
    }
    header = {"version": CACHE_VERSION, **key, "shape": data.X.shape, "zero_based": data.zero_based}
    header["rounded"] = data.rounded
    text = b""
    # Offsets depend on the length of the header, and it on them: reserve 20 bytes for each offset.
    end = _align_to_page(_START + len(json.dumps({**header, "arrays": sections})) + 20 * len(sections))
    header_end = end
    for section in sections.values():
        section["offset"] = _align_to_page(end)
        end = section["offset"] + section["count"] * np.dtype(section["dtype"]).itemsize
    text = json.dumps({**header, "arrays": sections}).encode().ljust(header_end - _START)
    with atomic_write(path, like=like, follow=False) as file:
        file.write(MAGIC)
        file.write(np.array([len(text), _svmlight.checksum(text)], "<u8").tobytes())
        file.write(text)
        position = header_end
        for name, section in sections.items():
            file.write(bytes(section["offset"] - position))
            file.write(_little_endian_bytes(arrays[name]))
            position = section["offset"] + arrays[name].nbytes


def _collect_arrays(data: Data) -> dict[str, NDArray[Any]]:
    X, y = data.X, data.y
    assert isinstance(X, Csr)
    assert y is not None
    arrays: dict[str, NDArray[Any]] = {"indptr": X.indptr, "indices": X.indices}
    if X.data is not None:
        arrays["values"] = X.data
    if isinstance(y, np.ndarray) and y.dtype.kind == "U":
        names, codes = np.unique(y, return_inverse=True)
        arrays["labels"] = codes.astype(np.float64)
        arrays["label_names"] = np.frombuffer("\n".join(names.tolist()).encode(), np.uint8)
    elif isinstance(y, list):
        arrays["labels"] = np.array([label for labels in y for label in labels], np.float64)
        arrays["label_starts"] = np.cumsum([0, *map(len, y)], dtype=np.int64)
    else:
        arrays["labels"] = y
    if data.qid is not None:
        arrays["query"] = data.qid
    return arrays


def _little_endian_bytes(array: NDArray[Any]) -> memoryview:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).view(np.uint8).data
