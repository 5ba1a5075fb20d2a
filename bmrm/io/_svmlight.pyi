"""Types of the compiled SVMlight reader."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm.io._text import Bytes, FileText, TextError

MAX_INDEX: int
"""Largest index that a text may contain."""

class Sink(Protocol):
    """Consumer of parsed indices and values, instead of arrays: see ``svmlight/block_consumer.h``."""

    capsule: object
    """Holds a ``svmlight_block_consumer``."""
    failure: BaseException | None
    """The exception of a function of the sink that has failed."""

    def settle(self, count: int, shift: int, /) -> tuple[Any, Any]:
        """Add ``shift`` to the ``count`` received indices; return the indices and the values.

        Values that were not sent are 1.
        """

Land = Callable[[int, int, int], Sink | None]
"""Returns the consumer of indices and values, None for arrays on the host. Its arguments are upper bounds:
rows and nonzeros of the text, and nonzeros of a piece."""

Choose = Callable[[int, int, int], bool]
"""Returns whether rows become dense. Its arguments are upper bounds of the rows and nonzeros of the text, and
its columns."""

class Parsed:
    """The arrays and facts of one parsed text."""

    rows: int
    dense: NDArray[Any] | None
    """The dense rows if they were chosen; then there are no row pointers, indices and values."""
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    """With a sink, indices and values are what it returns."""
    values: NDArray[np.float32] | NDArray[np.float64] | None
    """None if every value is 1."""
    labels: NDArray[np.float64]
    """One per row, NaN for a row without a label; or those of all rows if ``label_starts`` is set; or indices
    of ``label_names``."""
    label_names: list[str] | None
    """The distinct labels in the order in which they first appear, if labels are text."""
    label_starts: NDArray[np.int64] | None
    """Row i has ``labels[label_starts[i]:label_starts[i + 1]]``; None if no row has several labels."""
    query: NDArray[np.int64] | None
    lines: int
    max_index: int
    """As written; -1 if there is no pair at all."""
    rounded: bool
    """Some value differs from the number in the text, since its type cannot hold that."""
    negative: bool
    """Some value is below 0."""
    has_zero: bool
    has_lists: bool
    no_label_at: TextError | None
    """The first row without a label."""
    largest_at: TextError | None
    """The first row with an index equal to ``largest``."""

def parse(
    text: Bytes | FileText,
    start: int,
    stop: int,
    *,
    zero_based: bool | Literal["auto"],
    largest: int,
    dtype: DTypeLike,
    text_labels: bool,
    query_id: bool,
    sum_duplicates: bool,
    threads: int,
    block_bytes: int,
    land: Land | None = None,
    choose: Choose | None = None,
    least_share: float = 0.0,
    n_features: int | None = None,
) -> Parsed:
    """Parse the whole lines ``text[start:stop]``.

    ``largest`` is the largest allowed index as written. ``block_bytes`` is the minimum size of the pieces
    that threads process; neither it nor ``threads`` changes the result. ``land`` is called after the text has
    been counted. ``choose`` is called before, if the first piece of the text has at least the ``least_share``
    of the values of a dense array; dense rows have ``n_features`` columns, or as many as the text needs.
    Raises `TextError` for the first fault, the exception of a failed sink, and `ChangedError`.
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
    """Fill the arrays from the Matrix Market entries ``text[start:length]``.

    Returns -1, or the offset of the first wrong token, which is ``length`` if entries are missing.
    """

def take_rows(
    indptr: NDArray[np.int64],
    columns: NDArray[Any],
    values: NDArray[Any] | None,
    rows: NDArray[np.int64],
    *,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any] | None]:
    """Copy rows of a CSR matrix with ascending columns; return row pointers, columns and values.

    Columns are int32 or int64, values float32 or float64; all arrays are C-contiguous, and rows are in range.
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
    """Return for each column the weighted sum of the absolute values, or of the squares.

    Arrays as for `take_rows`, columns in range. Rows of weight 0 are skipped.
    """

def has_zero_index(text: Bytes | FileText, length: int, *, threads: int, block_bytes: int) -> bool:
    """Return whether an index 0 occurs in ``text[:length]``, in a fraction of the time of parsing."""

def line_count(text: Bytes | FileText, length: int, *, threads: int, block_bytes: int) -> int:
    """Return the number of lines of ``text[:length]``, which ends with a whole line."""

def parsed_bytes() -> int:
    """Return the number of bytes of SVMlight text that this process has parsed, while it parses too."""

def checksum(data: Bytes, *, threads: int = 1) -> int:
    """Return a checksum of bytes."""

def read_checked(
    descriptor: int, to: NDArray[np.uint8], offset: int, *, columns: int | None, threads: int = 1
) -> tuple[int, bool]:
    """Fill an array from a file, starting at an offset.

    Returns the checksum, and whether the int32 indices, if ``columns`` is given, are in ``[0, columns)``.
    Raises `ChangedError` if the file is too short.
    """
