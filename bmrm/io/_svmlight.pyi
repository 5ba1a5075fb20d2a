"""Types of the compiled SVMlight reader."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer

Bytes = Buffer | NDArray[np.uint8]

MAX_INDEX: int
"""Largest index that a text may hold."""
PADDING: int
"""Readable bytes, the first of them NUL, that must follow a text in memory."""
LONGEST_LINE: int
"""Bytes of a line of a text, at most."""

class FileText:
    """The first ``size`` bytes of a file: a text that is read piece by piece, and never in memory whole."""

    def __init__(self, descriptor: int, size: int) -> None: ...
    def __len__(self) -> int: ...
    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``."""

class ChangedError(Exception):
    """A file has fewer bytes than when it was opened."""

class LongLineError(Exception):
    """A line is longer than ``LONGEST_LINE``."""

class TextError(Exception):
    """What is wrong with a text: a name, and the line, column (from 1) and offset of the token."""

    name: str
    line: int
    column: int
    offset: int

class Sink(Protocol):
    """Where indices and values go while they are parsed, in place of arrays: see ``svmlight/sink.h``."""

    capsule: object
    """Holds a ``svmlight_block_consumer``."""
    failure: BaseException | None
    """What was wrong where one of its functions has failed."""

    def settle(self, count: int, shift: int, /) -> tuple[Any, Any]:
        """Add ``shift`` to the ``count`` indices that there are, and return them and the values.

        Values that were not sent are 1.
        """

Land = Callable[[int, int, int], Sink | None]
"""From the most rows and nonzeros that a text may have, and the most nonzeros of a piece of it, to where its
indices and values go; None for arrays of the host."""

class Parsed:
    """The arrays and facts of one parsed text."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    """These and the values are what the sink gives, where there is one."""
    values: NDArray[np.float32] | NDArray[np.float64] | None
    """None where every value is 1."""
    labels: NDArray[np.float64]
    """One a row (NaN: the row has none), or those of all rows where ``label_starts`` is set."""
    label_starts: NDArray[np.int64] | None
    """Row i has ``labels[label_starts[i]:label_starts[i + 1]]``; None where no row has several."""
    query: NDArray[np.int64] | None
    lines: int
    max_index: int
    """As written; -1 where there is no pair at all."""
    rounded: bool
    """Some value is not the number of the text, but the nearest one of its type."""
    negative: bool
    """Some value is below 0."""
    has_zero: bool
    has_lists: bool
    no_label_at: TextError | None
    """The first row without a label."""
    largest_at: TextError | None
    """The first row with an index equal to ``largest``."""

def read_into(descriptor: int, to: NDArray[np.uint8], offset: int) -> None:
    """Fill an array with what a file holds from an offset on; raises `ChangedError` where it ends before."""

def parse(
    text: Bytes | FileText,
    start: int,
    stop: int,
    *,
    zero_based: bool | Literal["auto"],
    largest: int,
    dtype: DTypeLike,
    query_id: bool,
    sum_duplicates: bool,
    threads: int,
    block_bytes: int,
    land: Land | None = None,
) -> Parsed:
    """Parse the whole lines ``text[start:stop]``.

    ``largest`` bounds the indices as written. ``block_bytes`` is the least size of the pieces that
    threads take; neither it nor ``threads`` changes the outcome. ``land`` is asked once the text has been
    counted. Raises `TextError` for the first fault, what has made a sink fail, and `ChangedError`.
    """

def read_entries(
    text: Bytes,
    start: int,
    length: int,
    *,
    shape: tuple[int, int],
    rows: NDArray[np.int64] | None,
    columns: NDArray[np.int64] | None,
    values: NDArray[np.float64] | None,
) -> int:
    """Fill the arrays from the Matrix Market entries ``text[start:length]``, as many as they are long.

    Returns -1, or the offset of the first token that is wrong, ``length`` where entries are missing.
    """

def take_rows(
    indptr: NDArray[np.int64],
    columns: NDArray[Any],
    values: NDArray[Any] | None,
    rows: NDArray[np.int64],
    *,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any] | None]:
    """Copy rows of a CSR matrix, each with its columns ascending; return row pointers, columns and values.

    Columns are int32 or int64, values float32 or float64; all arrays are C-contiguous, and rows in range.
    """

def column_sums(
    indptr: NDArray[np.int64],
    columns: NDArray[Any],
    values: NDArray[Any],
    weights: NDArray[np.float64],
    n_columns: int,
    *,
    squares: bool,
    threads: int,
) -> NDArray[np.float64]:
    """Return the sum of the sizes of the values of each column, or of their squares, times weights of rows.

    Arrays as for `take_rows`, columns in range. Rows of weight 0 are left out.
    """

def has_zero_index(text: Bytes | FileText, length: int, *, threads: int, block_bytes: int) -> bool:
    """Whether an index 0 occurs in ``text[:length]``, told at a fraction of the time of parsing."""

def line_count(text: Bytes | FileText, length: int, *, threads: int, block_bytes: int) -> int:
    """Lines in ``text[:length]``, which ends with one."""

def whole_lines(text: Bytes | FileText, start: int, size: int, length: int) -> int:
    """End of the last line that ends in ``text[start:start + size]``, else of the first behind, else -1."""

def checksum(data: Bytes, *, threads: int = 1) -> int:
    """Return the checksum of bytes."""

def read_checked(
    descriptor: int, to: NDArray[np.uint8], offset: int, *, columns: int | None, threads: int = 1
) -> tuple[int, bool]:
    """Fill an array with what a file holds from an offset on.

    Returns its checksum, and whether its int32 indices, if it holds them, are in ``[0, columns)``. Raises
    `ChangedError` where the file ends before.
    """
