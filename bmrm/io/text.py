"""Parse SVMlight text in parts, and word its faults.

The compiled reader parses one run of whole lines. A file is one such part; a pipe, or a file that is read in
bounded memory, has many. Three facts depend on all parts: whether indices start at 0, whether a row without a
label is a fault (it is not if other rows have several labels), and the number of columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import flag, integer, refuse
from bmrm.base.host_memory import require_memory
from bmrm.errors import DataError, Float32Error, HostMemoryError, ParameterError
from bmrm.io import _svmlight, _text
from bmrm.io.regular import UNCHANGED_FILE
from bmrm.io.row_storage import SPARSE, StorageChoice, StorageRule, require_dense_memory
from bmrm.io.sources import Source

ZeroBased = bool | Literal["auto"]
LabelKind = Literal["numbers", "text", "none"]

LABEL_KINDS = ("numbers", "text", "none")
"""How labels may be written: as numbers, or as any text; or that none are wanted."""

BLOCK_BYTES = 1 << 20  # text that a thread parses at a time: a few milliseconds of work
CHUNK_BYTES = 64 << 20  # text of a pipe or decompressor that is held at a time
MAX_LINE_BYTES = _text.LONGEST_LINE  # a file with a longer line is not text
MAX_TOKEN_CHARS = 40  # of a token that a message quotes
PAIRS = "index:value pairs"
CSV = "CSV is read if label= or --label names a column, or as format csv"
NO_PAIRS = f"found no index:value on any line, expected a label and index:value pairs; {CSV}"
_MAX_FAULT_BYTES = 1 << 12  # of text from a fault on, from which the message is made
_WORD = re.compile(rb"(?!(nan|na|inf|null|none)\b)[^\W\d][^\s:,;]*(\s|$)", re.IGNORECASE)  # maybe a label
_DECIMAL = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Grammar(NamedTuple):
    """How to read a text."""

    n_features: int | None  # number of columns; None for as many as the text needs
    zero_based: ZeroBased
    dtype: np.dtype[Any]  # float32 or float64
    as_stored: bool  # whether values that a file stores in one of these types keep it
    text_labels: bool  # whether a label is any word, else one or several numbers
    query_id: bool  # whether every row must have a ``qid:``, which is returned
    sum_duplicates: bool  # whether to sum the values of an index that a row repeats; otherwise it is a fault

    @classmethod
    def from_arguments(
        cls,
        n_features: int | None,
        zero_based: ZeroBased,
        dtype: Any,
        query_id: bool,
        duplicates: str,
        labels: str = "numbers",
    ) -> Grammar:
        """Build from the arguments of the public functions; raise `ParameterError` if one is invalid."""
        if n_features is not None and not 1 <= integer("n_features", n_features) <= _svmlight.MAX_INDEX + 1:
            raise ParameterError(f"n_features: found {n_features}, expected 1 to {_svmlight.MAX_INDEX + 1}")
        if not isinstance(zero_based, str) or zero_based != "auto":
            if zero_based is None:
                refuse("zero_based", zero_based, "True, False or 'auto'")
            flag("zero_based", zero_based, "True, False or 'auto'")
        if duplicates not in ("error", "sum"):
            raise ParameterError(f"duplicates: found {duplicates!r}, expected 'error' or 'sum'")
        if labels not in LABEL_KINDS:
            raise ParameterError(f"labels: found {labels!r}, expected one of {', '.join(LABEL_KINDS)}")
        base: ZeroBased = "auto" if zero_based == "auto" else bool(zero_based)
        kind = value_type("float64" if dtype is None else dtype)
        return cls(
            n_features,
            base,
            kind,
            as_stored=dtype is None,
            text_labels=labels == "text",
            query_id=bool(query_id),
            sum_duplicates=duplicates == "sum",
        )

    @property
    def largest(self) -> int:
        """Largest allowed index as written; if the base is still unknown, that of one-based text."""
        if self.n_features is None:
            return _svmlight.MAX_INDEX
        return min(_svmlight.MAX_INDEX, self.n_features - (self.zero_based is True))


def value_type(dtype: Any) -> np.dtype[Any]:
    """Return ``dtype`` as a numpy dtype, float32 or float64."""
    try:
        kind: np.dtype[Any] | None = np.dtype(dtype)
    except (TypeError, ValueError, KeyError):  # NumPy raises any of these for what is no type
        kind = None
    if kind is None or kind not in (np.float32, np.float64):
        raise ParameterError(f"dtype: found {dtype!r}, expected float32 or float64")
    return kind


class Parser:
    """Parses the parts of one text in order.

    For ``block_bytes`` see `bmrm.io._svmlight.parse`; ``rule`` says whether rows become dense.
    """

    def __init__(
        self,
        name: str,
        grammar: Grammar,
        threads: int,
        block_bytes: int = BLOCK_BYTES,
        rule: StorageRule = SPARSE,
    ):
        self.name = name
        self.rule = rule
        self._storage: StorageChoice | None = None  # None as long as the rule has not been asked
        self.grammar = grammar
        self.threads = threads
        self.block_bytes = block_bytes
        self.lines = 0
        self.rows = 0
        self.max_index = -1
        self.has_zero = False
        self.has_lists = False
        self.rounded = self.negative = False
        self._unlabelled: DataError | None = None
        self._too_large_if_zero_based: DataError | None = None

    def parse(self, text: Any, start: int, stop: int, land: _svmlight.Land | None = None) -> _svmlight.Parsed:
        """Parse the whole lines ``text[start:stop]``, which follow those already parsed."""
        grammar = self.grammar
        try:
            part = _svmlight.parse(
                text,
                start,
                stop,
                zero_based=grammar.zero_based,
                largest=grammar.largest,
                dtype=grammar.dtype,
                text_labels=grammar.text_labels,
                query_id=grammar.query_id,
                sum_duplicates=grammar.sum_duplicates,
                threads=self.threads,
                block_bytes=self.block_bytes,
                land=partial(self._choose_sink, land),
                choose=None if self.rule.asked == "sparse" else self._chooses_dense,
                least_share=self.rule.least_share(grammar.dtype.itemsize),
                n_features=grammar.n_features,
            )
        except _text.TextError as error:
            raise self._error(error, text, stop, grammar) from None
        except _text.LongLineError:
            raise long_line_error(self.name) from None
        if self._unlabelled is None and part.no_label_at is not None:
            self._unlabelled = self._error(part.no_label_at, text, stop, grammar)
        limited = grammar.zero_based == "auto" and grammar.n_features is not None
        if limited and self._too_large_if_zero_based is None and part.largest_at is not None:
            zero_based = grammar._replace(zero_based=True)
            self._too_large_if_zero_based = self._error(part.largest_at, text, stop, zero_based)
        self.lines += part.lines
        self.rows += part.rows
        self.max_index = max(self.max_index, part.max_index)
        self.has_zero |= part.has_zero
        self.has_lists |= part.has_lists
        self.rounded |= part.rounded
        self.negative |= part.negative
        return part

    @property
    def storage(self) -> StorageChoice:
        """Why the rows of a text, parsed as one part, are sparse or dense."""
        return self._storage or self.rule.choose_by(None, self.grammar.dtype.itemsize)

    def _chooses_dense(self, rows: int, nonzeros: int, columns: int) -> bool:
        """Return whether rows become dense; raise if they are to be dense, and memory is too small."""
        item = self.grammar.dtype.itemsize
        self._storage = self.rule.choose_by((rows, nonzeros, columns), item)
        if self._storage.dense:
            try:
                require_dense_memory(rows, columns, item, self.name)
            except HostMemoryError:
                if self.rule.asked != "auto":
                    raise
                self._storage = StorageChoice(False, "dense rows do not fit into memory")
        return self._storage.dense

    def _choose_sink(self, land: _svmlight.Land | None, rows: int, nonzeros: int, pairs: int) -> Any:
        """Return the consumer of indices and values, None for arrays; raise if memory is too small."""
        sink = None if land is None else land(rows, nonzeros, pairs)
        if sink is None:
            row_bytes = 16 + 8 * self.grammar.query_id
            needed = row_bytes * rows + (4 + self.grammar.dtype.itemsize) * nonzeros
            require_memory(needed, f"{rows} rows with {nonzeros} values of {self.name}")
        return sink

    def find_zero(self, text: Any, length: int) -> None:
        """Search a whole text for an index 0, before it is parsed in parts."""
        try:
            self.has_zero = _svmlight.has_zero_index(
                text, length, threads=self.threads, block_bytes=self.block_bytes
            )
        except _text.LongLineError:
            raise long_line_error(self.name) from None

    @property
    def zero_based(self) -> bool:
        """Whether indices start at 0, judged by the parts parsed so far."""
        return self.has_zero if self.grammar.zero_based == "auto" else self.grammar.zero_based

    @property
    def gives_tuples(self) -> bool:
        """Whether labels are tuples, since some row parsed so far has several labels or none."""
        return self.has_lists or self._unlabelled is not None

    @property
    def columns(self) -> int:
        """Number of columns: as given, else as many as the parts parsed so far need."""
        if self.grammar.n_features is not None:
            return self.grammar.n_features
        return max(0, self.max_index + self.zero_based)

    def check(self, *, labels: bool = True) -> None:
        """Raise for faults that show only when all parts parsed so far are considered together.

        Missing labels count as a fault only with ``labels``.
        """
        if labels and self._unlabelled is not None and not self.has_lists:
            raise self._unlabelled
        if self._too_large_if_zero_based is not None and self.has_zero:
            raise self._too_large_if_zero_based

    def check_content(self) -> None:
        """Raise if the whole text, which has been parsed, has no rows or is a table."""
        if not self.rows:
            what = "no rows" if self.lines else "an empty file"
            raise DataError(f"{self.name}: found {what}, expected a label and {PAIRS} on each line")
        if (self.has_lists or self.grammar.text_labels) and self.max_index < 0:
            raise DataError(f"{self.name}: {NO_PAIRS}")

    def _error(self, fault: _text.TextError, text: Any, stop: int, grammar: Grammar) -> DataError:
        rest = peek(text, fault.offset, stop)
        kind = Float32Error if fault.name == "value" and grammar.dtype == np.float32 else DataError
        return kind(
            f"{self.name}:{self.lines + fault.line}:{fault.column}: "
            f"found {quote_token(rest)}, expected {_describe_expected(fault.name, grammar, rest)}"
        )


def _describe_expected(fault: str, grammar: Grammar, rest: bytes) -> str:
    """Describe what was expected at the start of the rest of a text."""
    if fault == "range":
        columns = grammar.n_features
        fixed = "" if columns is None else f" (n_features={columns})"
        if columns is not None and grammar.zero_based == "auto":
            return f"an index from 1 to {grammar.largest}, or from 0 to {columns - 1}{fixed}"
        return f"an index from {int(grammar.zero_based is False)} to {grammar.largest}{fixed}"
    if fault == "value":
        return f"index:value with a finite number{_explain_value(rest, grammar)}"
    line = rest.split(b"\n", 1)[0]
    is_table = b":" not in line and (b"," in line or b";" in line)
    if grammar.text_labels and fault in ("pair", "index") and not is_table:
        return "index:value (a label has no blanks in it)"
    if fault == "label" and _WORD.match(rest):
        return 'a label: a finite number (labels="text" or bmrm-train --text-labels reads words)'
    if is_table and (fault == "label" or grammar.text_labels):
        return f"a label and {PAIRS}, not a table ({CSV})"
    return {
        "label": "a label: a finite number, or several joined by commas",
        "text": "a label: text in UTF-8 without control characters",
        "no_label": "a label before the first index:value",
        "pair": "index:value",
        "index": "index:value with an index that is an integer and not negative",
        "repeated": 'each index once per row (duplicates="sum" would sum the values)',
        "query": "qid: and an integer",
        "changed": UNCHANGED_FILE,
    }[fault]


def _explain_value(rest: bytes, grammar: Grammar) -> str:
    """Explain why a value is invalid: it is missing, not in decimals, or too large."""
    words = rest.split(None, 1)
    value = words[0].partition(b":")[2].partition(b"#")[0] if words else b""
    if _DECIMAL.fullmatch(value):
        return f" that {grammar.dtype} can hold"
    if value.lower() in (b"", b"nan", b"na", b"null", b"none", b"?"):
        return "; leave out missing values"
    if not any(digit in value for digit in b"0123456789"):
        return ""
    return " with a decimal point" if b"," in value else " in decimals"


def long_line_error(name: str) -> DataError:
    """Return the error for a line that is longer than `MAX_LINE_BYTES`."""
    return DataError(f"{name}: found a line longer than {MAX_LINE_BYTES} bytes, expected text")


def peek(text: Any, first: int, last: int) -> bytes:
    """Return the bytes from ``first`` to ``last``, at most `_MAX_FAULT_BYTES`."""
    last = min(last, first + _MAX_FAULT_BYTES)
    return text.read(first, last) if isinstance(text, _text.FileText) else bytes(text[first:last])


def quote_token(text: bytes | memoryview) -> str:
    """Return the first token for a message: quoted, shortened, and on one line whatever it contains."""
    start = bytes(text[: MAX_TOKEN_CHARS + 1])
    line = start.split(b"\n", 1)[0].split(b"#", 1)[0].split(None, 1)
    if not line or not start[:1].strip():
        return "the end of the line"
    word = line[0]
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in word[:MAX_TOKEN_CHARS]
    )
    return f'"{shown}"' + ("..." if len(word) > MAX_TOKEN_CHARS else "")


def file_text(source: Source) -> _text.FileText:
    """Return the text of a source that is a plain file."""
    return _text.FileText(source.file.fileno(), source.size)


def line_windows(text: Any, length: int, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Split a text, from the line at ``start`` on, into runs of whole lines of about ``size`` bytes."""
    while start < length:
        stop = -1 if length - start <= size else _text.whole_lines(text, start, size, length)
        if stop < 0:
            stop = length
        yield start, stop
        start = stop


def line_start(text: Any, at: int, size: int) -> int:
    """Return the start of the first line of a text of ``size`` bytes that starts at ``at`` or later."""
    if at == 0 or at >= size:
        return min(at, size)
    end = _text.whole_lines(text, at - 1, 1, size)
    return size if end < 0 else end


def read_chunks(
    file: BinaryIO, name: str, size: int = CHUNK_BYTES
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Read runs of whole lines of about ``size`` bytes into a buffer that is reused.

    Yields
    ------
    text : ndarray of uint8
        Whole lines, then at least `_text.PADDING` bytes.
    length : int
        Number of bytes of the whole lines.
    """
    text = np.empty(size + _text.PADDING, np.uint8)
    filled = 0
    while True:
        room = len(text) - _text.PADDING
        count = file.readinto(text[filled:room].data)  # type: ignore[attr-defined]
        filled += count
        if count == 0:
            text[filled : filled + _text.PADDING] = 0
            if filled:
                yield text, filled
            return
        if filled < room:
            continue
        stop = _text.whole_lines(text, 0, filled, filled)
        if stop < 0 and text[:filled].all():
            if room >= MAX_LINE_BYTES:
                raise long_line_error(name)
            text = np.concatenate([text, np.empty(room, np.uint8)])
            continue
        if stop < 0:  # a NUL, which no text contains: parse what there is to get the message
            stop = filled
        yield text, stop
        text[: filled - stop] = text[stop:filled]
        filled -= stop
