"""Tables with named columns, CSV and Parquet, read by pyarrow (extra ``arrow``).

The first line of a CSV names its columns. All columns except the label's and the dropped ones are features,
in the order of the file, and become a dense array.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.base.labels import is_number, spread_texts
from bmrm.errors import DataError, HostMemoryError, ParameterError
from bmrm.io.csr import check_finite
from bmrm.io.sources import Source

if TYPE_CHECKING:
    import pyarrow

_BLOCK_BYTES = 1 << 20  # of CSV that are parsed at a time
_LONG_BLOCK_BYTES = 1 << 28  # likewise if lines are long
_SHORT_LINE_BYTES = 1 << 12  # of a first line whose rows are not longer than a block
_LINES_PER_BLOCK = 32  # at least: a row may be longer than the line of names
_MAX_NAMES_SHOWN = 10
_MAX_TEXT_SHOWN = 40


class Table(NamedTuple):
    """What `read_table` finds."""

    X: NDArray[np.float64]
    y: NDArray[np.float64] | NDArray[np.str_] | None
    names: tuple[str, ...]
    offset: NDArray[np.float64] | None


def read_table(
    source: Source,
    kind: str,
    label: str | None,
    drop: Sequence[str],
    offset: str | None = None,
    *,
    text_labels: bool = False,
) -> Table:
    """Read features, labels (None without ``label``), the names of the features, and offsets.

    - ``kind``: ``csv`` or ``parquet``
    - ``label``: name of the column of labels
    - ``drop``: names of columns that are not features
    - ``offset``: name of the column of offsets
    - ``text_labels``: whether labels are text even if they look like numbers

    Raise `DataError` for a missing or repeated column, values that are missing or not numbers, or a first
    line without names.
    """
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise ParameterError(f"{kind} needs pyarrow: pip install pyarrow") from None
    except ImportError as error:  # as that it needs another release of NumPy
        raise ParameterError(f"{kind}: the package pyarrow cannot be imported: {error}") from None
    try:
        table = _read_csv(source, label if text_labels else None) if kind == "csv" else _read_parquet(source)
        table.validate(full=True)  # Arrow trusts offsets and bytes of text until it is told not to
        names = list(table.column_names)
    except MemoryError as error:  # ArrowMemoryError is an ArrowException too
        raise HostMemoryError(f"out of memory: found too little for the {kind} file ({error})") from None
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())[:200]
        raise DataError(f"found a damaged {kind} file ({text})") from None
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"found the column {_quoted(repeated[0])} twice, expected each name once")
    given = [name for name in (label, offset) if name is not None]
    for name in (*given, *drop):
        if name == "" and name not in names:
            raise ParameterError(f"label, drop: found '', expected one of {_listed(names)}")
        if name not in names:
            raise DataError(f"found no column {_quoted(name)}, expected one of {_listed(names)}")
    kept = set(names).difference(given, drop)
    features = [name for name in names if name in kept]
    require_memory(8 * table.num_rows * len(features), "its values")
    X = np.empty((table.num_rows, len(features)))
    for j, name in enumerate(features):
        X[:, j] = _numbers(table, name)
    y = None if label is None else _labels(table, label, as_text=text_labels)
    return Table(X, y, tuple(features), None if offset is None else _offsets(table, offset))


def _read_csv(source: Source, text: str | None) -> pyarrow.Table:
    """Read a CSV; the column ``text`` is not taken for numbers."""
    import pyarrow
    from pyarrow import csv

    types = {} if text is None else {text: pyarrow.string()}
    # A line must fit into a block.
    table = csv.read_csv(
        source.file,
        read_options=csv.ReadOptions(block_size=_block_bytes(source)),
        convert_options=csv.ConvertOptions(column_types=types),
    )
    if table.column_names and all(map(is_number, table.column_names)):
        raise DataError(f"found the first line {_listed(table.column_names)}, expected names of columns")
    return table


def _block_bytes(source: Source) -> int:
    """Return the bytes of CSV to be parsed at a time: many times the first line if that is long."""
    head = source.file.peek(_BLOCK_BYTES)  # type: ignore[attr-defined]
    if b"\n" in head[:_SHORT_LINE_BYTES]:
        return _BLOCK_BYTES
    if not source.is_plain:
        return _LONG_BLOCK_BYTES
    first = len(source.file.readline(_LONG_BLOCK_BYTES))
    source.file.seek(0)
    return min(max(_BLOCK_BYTES, _LINES_PER_BLOCK * first), _LONG_BLOCK_BYTES)


def _read_parquet(source: Source) -> pyarrow.Table:
    from pyarrow import parquet

    file = parquet.ParquetFile(source.file if source.is_plain else io.BytesIO(source.file.read()))
    # A run of equal values takes a few bytes, whatever its length.
    require_memory(8 * file.metadata.num_rows * file.metadata.num_columns, "its columns")
    return file.read()


def _labels(table: pyarrow.Table, name: str, *, as_text: bool) -> NDArray[np.float64] | NDArray[np.str_]:
    """Return the column of labels: text if its cells are, or if labels ``as_text`` are wanted."""
    import pyarrow.types

    column = _plain_column(table, name, "a label")
    kinds = (pyarrow.types.is_string, pyarrow.types.is_large_string)
    if as_text and (pyarrow.types.is_integer(column.type) or pyarrow.types.is_boolean(column.type)):
        column = column.cast(pyarrow.string())
    if not any(is_kind(column.type) for is_kind in kinds):
        if as_text:
            raise DataError(f"column {_quoted(name)}: found {column.type}, expected text or integers")
        return _numbers(table, name)
    encoded = column.dictionary_encode().unify_dictionaries()
    texts = encoded.chunk(0).dictionary.to_pylist() if len(encoded) else []
    for text in texts:
        if not text or "\0" in text:
            row = column.to_pylist().index(text) + 1
            found = repr(text[:_MAX_TEXT_SHOWN]) if text else "no value"
            raise DataError(f"column {_quoted(name)}: found {found} in row {row}, expected a label")
    codes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return spread_texts(texts, np.concatenate(codes) if codes else np.empty(0), f"column {_quoted(name)}")


def _plain_column(table: pyarrow.Table, name: str, expected: str) -> pyarrow.ChunkedArray:
    """Return a column without codes for its values; raise if a value is missing."""
    import pyarrow.types

    column = table.column(name)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise DataError(f"column {_quoted(name)}: found no value in row {row + 1}, expected {expected}")
    return column


def _numbers(table: pyarrow.Table, name: str) -> NDArray[np.float64]:
    import pyarrow.types

    column = _plain_column(table, name, "a number")
    kinds = (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_boolean)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise DataError(
            f"column {_quoted(name)}: found {_first_bad(column)}, expected numbers "
            "(drop= or --drop leaves it out)"
        )
    return np.asarray(column.to_numpy()).astype(np.float64)


def _first_bad(column: pyarrow.ChunkedArray) -> str:
    """Return the first cell of a column that is no number, and its row; or the type of its cells."""
    for row, cell in enumerate(column):
        if isinstance(text := cell.as_py(), str) and not is_number(text):
            return f"{_quoted(text)} in row {row + 1}"
    return str(column.type)


def _offsets(table: pyarrow.Table, name: str) -> NDArray[np.float64]:
    found = _numbers(table, name)
    try:
        check_finite(found, each="row")
    except DataError as error:
        raise DataError(f"column {_quoted(name)}: {error}") from None
    return found


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _MAX_TEXT_SHOWN else f"{name[:_MAX_TEXT_SHOWN]}...")


def _listed(names: Iterable[str]) -> str:
    shown = [_quoted(name) for name in names]
    more = len(shown) - _MAX_NAMES_SHOWN
    return ", ".join(shown[:_MAX_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
