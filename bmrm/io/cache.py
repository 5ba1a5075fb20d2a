"""A binary cache next to a text file: its arrays in a form that needs no parsing.

It is a file of arrays (`bmrm.io.array_file`), whose key is what the cache was made from: size and time of
change of the source, a checksum of 16 pieces spread over it, and the options of reading.

It has sparse rows or dense ones, and what this was chosen by. The choice is made again whenever the cache is
read, and if it is another one now, so is the text.

A cache is never trusted. Besides its checksums, indices and row pointers must be in range; otherwise the text
is read and the cache written again. If the name of the cache belongs to anything except a regular file, even
a symbolic link, it is neither read nor replaced. Whoever may read the text may read the cache.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.labels import spread_texts
from bmrm.errors import escape_unprintable
from bmrm.io import _svmlight, _text
from bmrm.io.array_file import (
    FAULTS,
    UnusableError,
    read_arrays,
    read_header,
    require_size,
    write_arrays,
)
from bmrm.io.csr import Csr
from bmrm.io.data import Data, Labels
from bmrm.io.regular import open_own_file
from bmrm.io.row_storage import SPARSE, StorageChoice, StorageRule, require_dense_memory
from bmrm.io.sources import Source
from bmrm.io.text import Grammar, value_type

SUFFIX = ".bmrmcache"
MAGIC = b"bmrmCSR\x00"
CACHE_VERSION = 3  # of the layout; caches of other versions are written again
CHECKED_PIECES = 16  # of the source, for its checksum
CHECKED_PIECE_BYTES = 1 << 16
_ARRAY_DTYPES = {
    "indptr": ("<i8",),
    "indices": ("<i4",),
    "values": ("<f4", "<f8"),  # of all columns if there are no row pointers and indices
    "labels": ("<f8",),
    "label_starts": ("<i8",),
    "label_names": ("|u1",),  # UTF-8, one per line, which the labels number
    "query": ("<i8",),
}

_warned_paths: set[str] = set()  # sources whose cache could not be written


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
            header, _ = read_header(file, status.st_size, MAGIC)
        return value_type(header["options"]["dtype"]) if header["version"] == CACHE_VERSION else None
    except (OSError, UnusableError, *FAULTS):
        return None


def load(
    path: str, key: dict[str, int], grammar: Grammar, threads: int, rule: StorageRule = SPARSE
) -> Data | None:
    """Read the cache of ``path``; return None if there is none that is valid and matches."""
    began = time.perf_counter()
    try:
        with open_own_file(path + SUFFIX) as (file, status):
            options = {"source": key, "options": describe_options(grammar)}
            data = _load(file, status.st_size, options, threads, rule)
    except (OSError, UnusableError, _text.ChangedError, *FAULTS):
        return None
    data.seconds["cache"] = time.perf_counter() - began
    return data


def _load(file: Any, size: int, key: dict[str, Any], threads: int, rule: StorageRule) -> Data:
    wanted = {"version": CACHE_VERSION, **key}
    limits = partial(_limits, rule)
    header, arrays = read_arrays(file, size, MAGIC, _ARRAY_DTYPES, wanted, limits, threads)
    return _assemble(arrays, header, _choice(rule, header))


def _limits(rule: StorageRule, header: Any) -> dict[str, int]:
    """Return the limits of the arrays; raise for another storage than the rule's, before these are read."""
    rows, columns = (require_size(n) for n in header["shape"])
    if columns > _svmlight.MAX_INDEX + 1:
        raise UnusableError
    dense = "indptr" not in header["arrays"]
    if _choice(rule, header).dense != dense:
        raise UnusableError
    if dense:
        require_dense_memory(rows, columns, np.dtype(header["options"]["dtype"]).itemsize, "the cache")
    return {"indices": columns}


def _choice(rule: StorageRule, header: Any) -> StorageChoice:
    """Return what the rule chooses for a text; raise if that cannot be told from its cache."""
    counted = header["counted"]
    if rule.asked == "auto" and header["asked"] != "auto":
        raise UnusableError
    if counted is not None:
        rows, stored, columns = map(require_size, counted)
        counted = rows, stored, columns
    return rule.choose_by(counted, np.dtype(header["options"]["dtype"]).itemsize)


def _rows(arrays: dict[str, NDArray[Any]], header: Any, choice: StorageChoice) -> Csr | NDArray[Any]:
    """Return the rows, sparse or dense; raise for arrays of other lengths."""
    (rows, columns), values = header["shape"], arrays.get("values")
    if choice.dense:
        if values is None or "indices" in arrays or len(values) != rows * columns:
            raise UnusableError
        return values.reshape(rows, columns)
    indptr, indices = arrays["indptr"], arrays["indices"]
    _check_starts(indptr, rows, len(indices))
    if values is not None and len(values) != len(indices):
        raise UnusableError
    return Csr(indptr, indices, values, (rows, columns))


def _assemble(arrays: dict[str, NDArray[Any]], header: Any, choice: StorageChoice) -> Data:
    X, rows, labels = _rows(arrays, header, choice), header["shape"][0], arrays["labels"]
    starts, query = arrays.get("label_starts"), arrays.get("query")
    y: Labels = labels
    if header["options"]["text_labels"]:
        if not ((labels >= 0) & np.isfinite(labels)).all():
            raise UnusableError
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
        raise UnusableError
    return Data(
        X,
        y,
        qid=query,
        zero_based=bool(header["zero_based"]),
        from_cache=True,
        dtype=np.dtype(header["options"]["dtype"]).name,
        rounded=header["rounded"],
        storage=choice,
    )


def _check_starts(starts: NDArray[Any], rows: int, count: int) -> None:
    if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise UnusableError


def store(
    source: Source,
    data: Data,
    key: dict[str, int],
    grammar: Grammar,
    threads: int,
    rule: StorageRule = SPARSE,
) -> None:
    """Write the cache of a regular file; if that fails, warn once and continue."""
    began = time.perf_counter()
    header = {"version": CACHE_VERSION, "source": key, "options": describe_options(grammar)}
    header |= {"shape": data.X.shape, "zero_based": data.zero_based, "rounded": data.rounded}
    header |= {"asked": rule.asked, "counted": None if data.storage is None else data.storage.counted}
    store_arrays(source, MAGIC, header, _collect_arrays(data), threads)
    data.seconds["cache"] = time.perf_counter() - began


def store_arrays(
    source: Source, magic: bytes, header: dict[str, Any], arrays: dict[str, NDArray[Any]], threads: int
) -> None:
    """Write the cache of a regular file; if that fails, warn once and continue."""
    path = source.path
    assert path is not None
    try:
        write_arrays(path + SUFFIX, os.fstat(source.file.fileno()), magic, header, arrays, threads)
    except OSError as error:
        if path not in _warned_paths:
            import logging

            _warned_paths.add(path)
            reason = error.strerror or error
            logging.getLogger("bmrm").warning(
                "%s: no cache written: %s", escape_unprintable(path + SUFFIX), reason
            )


def _collect_arrays(data: Data) -> dict[str, NDArray[Any]]:
    X, y = data.X, data.y
    assert y is not None
    arrays: dict[str, NDArray[Any]] = {}
    if not isinstance(X, Csr):
        arrays["values"] = X.ravel()
    else:
        arrays |= {"indptr": X.indptr, "indices": X.indices}
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
