"""Matrix Market files.

The package has its own reader, since scipy's crashes on some damaged files, and since the sizes in a header
must be compared with the size of the file before anything is allocated.

References
----------
Boisvert, Pozo, Remington, "The Matrix Market exchange formats: initial design", NISTIR 5935 (1996).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Indices
from bmrm.errors import DataError
from bmrm.io import _svmlight, _text
from bmrm.io.csr import Csr, build_canonical
from bmrm.io.sources import HEAD_BYTES, Source
from bmrm.io.text import Grammar, quote_token

BANNER = re.compile(rb"(?:\xef\xbb\xbf)?\s*%+[ \t]*matrixmarket(?=\s|\Z)", re.IGNORECASE)
"""How a file begins."""

_FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
# Empty rows and columns take memory too, so their number is limited by the size of the file.
_MIN_SIZE_LIMIT = 1 << 20  # rows or columns that a file of any size may have
_MAX_ROWS_PER_BYTE = 16  # and rows besides, per byte of the file
_MAX_COLUMNS_PER_BYTE = 1 << 10  # and columns besides, per byte of the file


@dataclass
class _Header:
    sparse: bool
    pattern: bool
    symmetry: str
    rows: int
    columns: int
    stored: int
    start: int  # offset of the entries

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns


def read_matrix_market(source: Source, grammar: Grammar) -> Csr | NDArray[np.float64]:
    """Read a coordinate file as a sparse matrix, an array file as a dense one."""
    text, length = _read_padded(source)
    header = _read_header(text, length)
    rows, columns, values = _read_entries(text, length, header)
    del text
    if rows is None or columns is None:
        assert values is not None
        return _to_dense(values, header)
    if values is None:
        values = np.ones(len(rows))
    if header.symmetry != "general":
        mirrored = rows != columns
        sign = -1.0 if header.symmetry == "skew-symmetric" else 1.0
        rows, columns, values = (
            np.concatenate([rows, columns[mirrored]]),
            np.concatenate([columns, rows[mirrored]]),
            np.concatenate([values, sign * values[mirrored]]),
        )
    order = np.argsort(rows, kind="stable")
    indptr = np.zeros(header.rows + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=header.rows), out=indptr[1:])
    return build_canonical(indptr, columns[order], values[order], header.shape, grammar.sum_duplicates)


def is_symmetric(head: bytes) -> bool:
    """Whether the first line of a file says that the matrix is symmetric."""
    start = BANNER.match(head)
    words = head[start.end() :].split(b"\n", 1)[0].lower().split() if start else []
    return words[-1:] in ([b"symmetric"], [b"hermitian"])


def _read_padded(source: Source) -> tuple[Any, int]:
    if not source.is_plain:
        whole = source.file.read()
        return whole + bytes(_text.PADDING), len(whole)
    text = np.empty(source.size + _text.PADDING, np.uint8)
    text[source.size :] = 0
    _text.read_into(source.file.fileno(), text[: source.size], 0)
    return text, source.size


def _read_header(text: Any, length: int) -> _Header:
    banner = BANNER.match(bytes(memoryview(text)[: min(length, HEAD_BYTES)]))
    line, start = _next_line(text, 0 if banner is None else banner.end(), length)
    words = line.decode("ascii", "replace").lower().split()
    is_known = len(words) == 4 and words[0] == "matrix" and words[1] in ("coordinate", "array")
    if banner is None or not is_known:
        raise DataError("found another first line, expected '%%MatrixMarket matrix coordinate|array ...'")
    sparse, field, symmetry = words[1] == "coordinate", words[2], words[3]
    if field not in _FIELDS or (field == "pattern" and not sparse):
        raise DataError(f"found {field} values, expected real or integer, or pattern for a sparse matrix")
    if symmetry not in _SYMMETRIES:
        raise DataError(f"found the symmetry {symmetry!r}, expected one of {', '.join(_SYMMETRIES)}")
    line, start = _next_line(text, start, length)
    while start < length and (line.startswith(b"%") or not line.strip()):
        line, start = _next_line(text, start, length)
    fields = line.split()
    if len(fields) != 2 + sparse or not all(number.isdigit() and len(number) < 19 for number in fields):
        raise DataError(f"found the size line {line[:40]!r}, expected {2 + sparse} integers")
    rows, columns, *count = map(int, fields)
    if symmetry != "general" and rows != columns:
        raise DataError(f"found a {symmetry} matrix of shape ({rows}, {columns}), expected a square one")
    header = _Header(sparse, field == "pattern", symmetry, rows, columns, 0, start)
    header.stored = count[0] if sparse else _count_stored(header)
    if header.stored > length - start:
        raise DataError(f"found {length - start} bytes after the sizes, expected {header.stored} entries")
    for size, per_byte in ((rows, _MAX_ROWS_PER_BYTE), (columns, _MAX_COLUMNS_PER_BYTE)):
        if size > (allowed := _MIN_SIZE_LIMIT + per_byte * length):
            raise DataError(f"found a size of {size} in a file of {length} bytes, expected at most {allowed}")
    return header


def _next_line(text: Any, start: int, length: int) -> tuple[bytes, int]:
    """Return the line at ``start`` and the start of the next."""
    stop = _text.whole_lines(text, start, 1, length) if start < length else length
    stop = length if stop < 0 else stop
    return bytes(memoryview(text)[start:stop]), stop


def _count_stored(header: _Header) -> int:
    if header.symmetry == "general":
        return header.rows * header.columns
    return header.rows * (header.rows + (1 if header.symmetry != "skew-symmetric" else -1)) // 2


def _read_entries(
    text: Any, length: int, header: _Header
) -> tuple[Indices | None, Indices | None, NDArray[np.float64] | None]:
    arrays = 2 * header.sparse + (not header.pattern)
    require_memory(
        8 * (arrays * header.stored + header.rows), f"{header.stored} entries in {header.rows} rows"
    )
    rows = np.empty(header.stored, np.int64) if header.sparse else None
    columns = np.empty(header.stored, np.int64) if header.sparse else None
    values = None if header.pattern else np.empty(header.stored, np.float64)
    fault = _svmlight.read_entries(
        text, header.start, length, shape=header.shape, rows=rows, columns=columns, values=values
    )
    if fault >= 0:
        view = memoryview(text)
        line = bytes(view[:fault]).count(b"\n") + 1
        found = quote_token(view[fault:length]) if fault < length else "the end of the file"
        pair = f"a row up to {header.rows}, a column up to {header.columns}" if header.sparse else ""
        number = "" if header.pattern else "a finite number"
        expected = " and ".join(filter(None, [pair, number]))
        raise DataError(f"line {line}: found {found}, expected {header.stored} entries: {expected}")
    return rows, columns, values


def _to_dense(values: NDArray[np.float64], header: _Header) -> NDArray[np.float64]:
    """Build a matrix from values stored by columns; a symmetric one stores the part below the diagonal."""
    if header.symmetry == "general":
        return values.reshape(header.columns, header.rows).T
    skew = header.symmetry == "skew-symmetric"
    X = np.zeros(header.shape)
    column, row = np.triu_indices(header.rows, 1 if skew else 0)
    X[column, row] = -values if skew else values
    X[row, column] = values
    return X
