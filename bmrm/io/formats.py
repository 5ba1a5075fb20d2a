"""Detect formats, and read Matrix Market, npz and npy files.

The headers of these formats state sizes. They are compared with the size of the file before anything is
allocated, so a few damaged bytes cannot claim all the memory.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.base.labels import is_number
from bmrm.errors import DataError, Float32Error, HostMemoryError, ParameterError
from bmrm.io import _edges, _svmlight, _text
from bmrm.io.csr import Csr, as_floats, build_canonical, check_finite, check_layout
from bmrm.io.data import Data
from bmrm.io.matrix_market import BANNER, read_matrix_market
from bmrm.io.npy import NpyHeader, read_header, read_rows
from bmrm.io.sources import Source
from bmrm.io.text import Grammar

FORMATS = ("auto", "svmlight", "mtx", "npz", "npy", "csv", "parquet")
TABLES = ("csv", "parquet")
"""Formats whose columns have names."""
_MAX_NAMES_BYTES = 1 << 12  # of the first line that are looked at for names
_MAX_COLUMNS = 1 << 32  # limit of the matrix products
_MAX_DEFLATE_RATIO = 1032  # bytes that one byte of deflated data can expand to
_MAGIC_BYTES = {b"PK\x03\x04": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet", b"ARROW1": "arrow"}


def detect_format(source: Source, wanted: str = "auto", *, named: bool = False) -> str:
    """Return the wanted format, or detect it from the first bytes; text is CSV if columns are ``named``."""
    if wanted not in FORMATS:
        raise ParameterError(f"format: found {wanted!r}, expected one of {', '.join(FORMATS)}")
    if wanted != "auto":
        return wanted
    return format_of(source.head) or ("csv" if named else "svmlight")


def format_of(head: bytes) -> str | None:
    """Return the format that the first bytes of a file tell; None for other text.

    Matrix Market is known by its first line however that is written: many files have one ``%``, small
    letters, blanks or a byte order mark.
    """
    if BANNER.match(head):
        return "mtx"
    return next((name for magic, name in _MAGIC_BYTES.items() if head.startswith(magic)), None)


def names_columns(source: Source) -> bool:
    """Return whether text starts with names and commas between them, as CSV does but not SVMlight text."""
    head = bytes(source.file.peek(_MAX_NAMES_BYTES)[:_MAX_NAMES_BYTES])  # type: ignore[attr-defined]
    line = head.removeprefix(codecs.BOM_UTF8).split(b"\n", 1)[0].strip()
    cells = line.decode("latin-1").split(",")
    is_row = line.startswith(b"#") or b":" in line or all(map(is_number, cells))
    return len(cells) > 1 and not is_row


def read_matrix_file(
    source: Source,
    kind: str,
    grammar: Grammar,
    label: str | None = None,
    drop: Sequence[str] = (),
    offset: str | None = None,
) -> Data:
    """Read a source of any format except SVMlight text; ``label``, ``drop`` and ``offset`` name columns."""
    began = time.perf_counter()
    if grammar.query_id:
        raise DataError(f"{source.name}: found a {kind} file, which has no query ids, expected SVMlight text")
    X: Csr | NDArray[Any]
    y: NDArray[Any] | None = None
    names: tuple[str, ...] | None = None
    offsets: NDArray[Any] | None = None
    if (label is not None or drop) and kind not in TABLES:
        raise DataError(f"{source.name}: found a {kind} file, whose columns have no names, expected a table")
    with _name_source_in_errors(source):
        if kind == "npz":
            X, y = _read_npz(source, grammar)
        elif kind == "npy":
            X = _read_npy(source)
        elif kind in TABLES:
            from bmrm.io.arrow import read_table

            as_text = grammar.text_labels
            X, y, names, offsets = read_table(source, kind, label, drop, offset, text_labels=as_text)
        else:
            X = read_matrix_market(source, grammar)
        X, rounded = _convert_matrix(X, grammar)
        if y is not None and y.dtype.kind != "U":
            if grammar.text_labels:
                raise DataError(f"found a {kind} file whose labels are numbers, expected text as labels")
            check_finite(y, each="label of row")
        dtype = X.dtype if isinstance(X, np.ndarray) else grammar.dtype
        data = Data(X, y, dtype=dtype.name, rounded=rounded, feature_names=names, offset=offsets)
    data.seconds["parse"] = time.perf_counter() - began
    return data


def _convert_matrix(X: Csr | NDArray[Any], grammar: Grammar) -> tuple[Csr | NDArray[Any], bool]:
    """Convert X to the wanted value type and number of columns; return whether a value was rounded."""
    rows, columns = X.shape
    if columns > _MAX_COLUMNS:
        raise DataError(f"found {columns} columns, expected at most {_MAX_COLUMNS}")
    wanted = columns if grammar.n_features is None else grammar.n_features
    if columns > wanted or (columns != wanted and not isinstance(X, Csr)):
        raise DataError(f"found {columns} columns, expected {wanted} (n_features={wanted})")
    if not isinstance(X, Csr):
        return _convert_values(X, X.dtype if grammar.as_stored else grammar.dtype)
    rounded = False
    if X.data is not None:
        values, rounded = _convert_values(X.data, grammar.dtype)
        X = X._replace(data=values)
    return X._replace(shape=(rows, wanted)), rounded


def _convert_values(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], bool]:
    """Convert finite values to a type, in C order; return whether one was rounded."""
    with np.errstate(over="ignore"):
        found = values.astype(dtype, order="C", copy=False)
    try:
        check_finite(found)
    except DataError as error:
        check_finite(values)
        raise Float32Error(str(error)) from None
    return found, found.dtype != values.dtype and not np.array_equal(found, values)


def _read_npy(source: Source) -> NDArray[Any]:
    with _wrap_library_errors("npy"):
        if source.is_plain:
            return as_floats(read_rows(source.file, read_header(source.file, source.size)))
        X: NDArray[Any] = np.load(io.BytesIO(source.file.read()), allow_pickle=False)
    if X.ndim != 2:
        raise DataError(f"found an array of {X.ndim} dimensions, expected 2")
    return as_floats(X)


def plain_bytes() -> int:
    """Return the number of bytes of plain text and of dense rows that this process has read so far."""
    return _svmlight.parsed_bytes() + _edges.parsed_bytes() + _RowChunks.total_bytes


class _RowChunks:
    """The rows of a dense array, some at a time."""

    total_bytes = 0  # of all arrays

    def __init__(self, source: Source, header: NpyHeader, rows: int) -> None:
        self._source, self._header, self._rows = source, header, rows

    def __iter__(self) -> Iterator[NDArray[Any]]:
        header = self._header
        for first in range(0, header.shape[0], self._rows):
            with _name_source_in_errors(self._source):
                X = as_floats(read_rows(self._source.file, header, first, first + self._rows))
                check_finite(X, first)
            _RowChunks.total_bytes += X.shape[0] * X.shape[1] * header.dtype.itemsize
            yield X


def iter_dense_rows(source: Source, rows: int) -> Iterator[NDArray[Any]] | None:
    """Read a dense array some rows at a time; return None unless the file is npy and stored by rows."""
    if not source.is_plain or detect_format(source) != "npy":
        return None
    with _name_source_in_errors(source), _wrap_library_errors("npy"):
        header = read_header(source.file, source.size)
    if header.by_columns:
        return None
    return iter(_RowChunks(source, header, rows))


def _read_npz(source: Source, grammar: Grammar) -> tuple[Csr, NDArray[Any] | None]:
    arrays = read_npz_arrays(source, ("format", "shape", "indptr", "indices", "data", "y"))
    layout = arrays.get("format")
    if layout is None or layout.shape != () or layout.item() not in (b"csr", "csr"):
        raise DataError("found no matrix that scipy.sparse.save_npz wrote in CSR layout, expected one")
    missing = [name for name in ("shape", "indptr", "indices", "data") if name not in arrays]
    if missing:
        raise DataError(f"found no array {missing[0]!r}, expected the arrays of a CSR matrix")
    shape = arrays["shape"]
    integers = all(arrays[name].dtype.kind in "iu" for name in ("shape", "indptr", "indices"))
    if shape.shape != (2,) or not integers:
        raise DataError("found a shape, row pointers or indices that are not integers")
    rows, columns = map(int, shape)
    values = as_floats(arrays["data"])
    check_layout(arrays["indptr"], arrays["indices"], values, (rows, columns))
    X = build_canonical(arrays["indptr"], arrays["indices"], values, (rows, columns), grammar.sum_duplicates)
    return X, _validate_labels(arrays, rows)


def read_npz_arrays(source: Source, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read those of the wanted arrays of an npz file that it has; raise `DataError` if it is damaged."""
    file: Any = source.file if source.is_plain else io.BytesIO(source.file.read())
    with _wrap_library_errors("npz"), np.load(file, allow_pickle=False) as archive:
        names = [name for name in wanted if name in archive.files]
        require_memory(sum(_max_unpacked_bytes(archive, name) for name in names), "its arrays")
        arrays = {name: archive[name] for name in names}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy returns other members as bytes
            raise DataError(f"found a member {name!r} that is not an npy file, expected an array")
    return arrays


def _max_unpacked_bytes(archive: Any, name: str) -> int:
    """Return the stated size of an archive member, but at most what its compressed bytes can expand to."""
    members = archive.zip.namelist()
    info = archive.zip.getinfo(name if name in members else f"{name}.npy")
    return min(int(info.file_size), _MAX_DEFLATE_RATIO * int(info.compress_size))


def _validate_labels(arrays: dict[str, NDArray[Any]], rows: int) -> NDArray[Any] | None:
    if "y" not in arrays:
        return None
    y = arrays["y"]
    if y.dtype.kind != "U":
        y = as_floats(y).astype(np.float64, copy=False)
    if y.shape != (rows,):
        raise DataError(f"found labels of shape {y.shape}, expected ({rows},)")
    return y


@contextlib.contextmanager
def _name_source_in_errors(source: Source) -> Iterator[None]:
    """Put the name of the source into errors that it causes."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"{source.name}: {error}") from None
    except HostMemoryError as error:
        raise HostMemoryError(f"{source.name}: {error}") from None
    except MemoryError:
        raise DataError(f"{source.name}: found sizes that do not fit into memory") from None


@contextlib.contextmanager
def _wrap_library_errors(kind: str) -> Iterator[None]:
    """Turn any exception that a library raises for a damaged file into a `DataError`."""
    try:
        yield
    except (DataError, MemoryError, _text.ChangedError):
        raise
    except Exception as error:
        # A damaged offset can make a seek fail with EINVAL.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        text = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"found a damaged {kind} file ({text})") from None
