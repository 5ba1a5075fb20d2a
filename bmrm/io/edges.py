"""Read graphs from edge text, one edge per line, as SNAP and KONECT publish them.

Ids need not be numbers from 0 on: the reader numbers the nodes that occur, and keeps their ids as labels. So
gaps between ids are no nodes. Repeated edges and loops are kept, since their meaning depends on the use.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmrm.base.arguments import flag
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import interruptible
from bmrm.errors import DataError, ParameterError
from bmrm.io import _edges, _svmlight, _text
from bmrm.io.edge_columns import check_columns
from bmrm.io.edge_data import Edges, NodeLabels
from bmrm.io.edge_layout import EdgeLayout, decide_layout
from bmrm.io.formats import detect_format
from bmrm.io.regular import UNCHANGED_FILE
from bmrm.io.sources import Source, open_source
from bmrm.io.svmlight import resolve_thread_count
from bmrm.io.text import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    file_text,
    line_start,
    line_windows,
    long_line_error,
    peek,
    quote_token,
    read_chunks,
)

LabelKind = Literal["auto", "integer", "string"]
LABEL_KINDS = ("auto", "integer", "string")
ADVICE = "bmrm-graph --dry-run predicts what a graph will need"  # if memory is short
MAX_FIRST_LINE = 1 << 24  # bytes of a line that are looked at to find its columns
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8; some programs put it at the start of a text


@interruptible
def read_edges(
    path: str | os.PathLike[str],
    *,
    weights: bool | None = None,
    labels: LabelKind = "auto",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    cache: bool = False,
) -> Edges:
    r"""Read a graph from edge text.

    A line has two ids, apart by blanks, tabs, commas or semicolons. Others may follow, which are ignored; all
    lines have as many columns. A first line that names them says where source, target and weight are. Lines
    that begin with ``#``, ``%`` or ``//`` are comments, and ``#`` or ``%`` after an edge begins one.
    docs/formats.md has the grammar.

    Parameters
    ----------
    path : str or path-like
        Text, plain or compressed by gzip, bzip2, xz or zstd; ``"-"`` is the standard input.
    weights : bool, optional
        Whether to return weights: those of the column that the first line names so, of the attributes that
        NetworkX writes, or else of the third column. Every line must then have one. Default: if the text says
        that it has weights, by such a name, attributes, or KONECT's first line.
    labels : {"auto", "integer", "string"}, default "auto"
        Whether ids are integers of 64 bits or strings. With ``"auto"`` they are integers if the first edge
        has two integers.
    columns : sequence of str, optional
        Names of the columns source, target and maybe weight, which the first line has; or their numbers, from
        "1" on, of a text without names.
    threads : int, optional
        Default: one per core that the process may use. The result does not depend on it.
    cache : bool, default False
        Use a binary cache next to a plain text, ``path`` + ``.bmrmcache``, and write it if needed.

    Returns
    -------
    Edges

    Raises
    ------
    DataError
        The first fault of the text, as ``FILE:LINE:COLUMN: found ..., expected ...``.
    OSError
        The file is missing or cannot be read. A cache that cannot be written causes only a warning.
    ParameterError
        An argument is out of range.
    HostMemoryError
        The edges do not fit into main memory.
    Interrupted
        By Ctrl-C.

    References
    ----------
    J. Leskovec and R. Sosic, "SNAP: a general-purpose network analysis and graph-mining library", ACM
    Transactions on Intelligent Systems and Technology 8 (2016). J. Kunegis, "KONECT: the Koblenz network
    collection", WWW 2013 Companion.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("# a comment\n10 30\n30\t20\n")
    >>> edges = read_edges(path)
    >>> edges.sources, edges.targets, edges.labels
    (array([0, 2], dtype=int32), array([2, 1], dtype=int32), array([10, 20, 30]))
    """
    check_edge_options(weights, labels, columns)
    count = resolve_thread_count(threads)
    with open_source(path) as source:
        kind = detect_format(source)
        if kind != "svmlight":
            raise DataError(f"{source.name}: found a file of the format {kind}, expected two ids per line")
        if not flag("cache", cache) or not source.is_plain:
            return _read_text(source, labels, count, weights, columns)
        from bmrm.io import edge_cache
        from bmrm.io.cache import describe_source

        assert source.path is not None
        key = describe_source(source)
        options = {
            "weights": weights,
            "labels": labels,
            "columns": None if columns is None else list(columns),
        }
        edges = edge_cache.load(source.path, key, options, count)
        if edges is None:
            edges = _read_text(source, labels, count, weights, columns)
            if describe_source(source) == key:  # the file has not changed meanwhile
                edge_cache.store(source, edges, key, options, count)
        return edges


def _read_text(
    source: Source, labels: LabelKind, threads: int, weights: bool | None, columns: Sequence[str] | None
) -> Edges:
    began = time.perf_counter()
    parser = EdgeParser(source.name, labels, threads, weights=weights, columns=columns)
    if source.is_plain and not ends_in_returns(source):
        parser.parse_file(source)
    else:
        for text, length in text_chunks(source):
            parser.parse(text, 0, length)
    edges = parser.finish()
    edges.seconds["parse"] = time.perf_counter() - began
    return edges


def check_edge_options(weights: bool | None, labels: str, columns: Sequence[str] | None = None) -> None:
    """Raise for an option of `read_edges` that is out of range."""
    if labels not in LABEL_KINDS:
        raise ParameterError(f"labels: found {labels!r}, expected one of {', '.join(LABEL_KINDS)}")
    if weights is not None:
        flag("weights", weights)
    check_columns(columns, weights)


def ends_in_returns(source: Source) -> bool:
    """Whether lines end in carriage returns alone, judged by the first."""
    first = re.search(rb"\n|\r+(?=[^\r])", source.head)
    return first is not None and first[0] != b"\n" and source.head[first.end() :][:1] != b"\n"


def _bytes_of(text: Any, first: int, last: int) -> bytes:
    """Return a line of a text, or its beginning."""
    last = min(last, first + MAX_FIRST_LINE)
    return text.read(first, last) if isinstance(text, _text.FileText) else bytes(text[first:last])


class _ReturnsAsLineEnds:
    """A file whose carriage returns become line feeds."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readinto(self, buffer: memoryview) -> int:
        count: int = self._file.readinto(buffer)
        found = np.frombuffer(buffer, np.uint8)[:count]
        found[found == ord("\r")] = ord("\n")
        return count


def text_chunks(source: Source) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Read runs of whole lines of any source; see `bmrm.io.text.read_chunks`."""
    file: Any = _ReturnsAsLineEnds(source.file) if ends_in_returns(source) else source.file
    return read_chunks(file, source.name)


class EdgeParser:
    """Parses the parts of one text in order.

    Parameters
    ----------
    name : str
        Name of the text, for messages.
    labels : {"auto", "integer", "string"}
    threads : int
    weights : bool or None
    columns : sequence of str, optional
    block_bytes : int
        See `bmrm.io._edges.parse`.
    """

    def __init__(
        self,
        name: str,
        labels: LabelKind,
        threads: int,
        *,
        weights: bool | None,
        columns: Sequence[str] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ):
        self.name = name
        self.threads = threads
        self.weights = bool(weights)
        self.block_bytes = block_bytes
        self.lines = 0
        self.layout = EdgeLayout(names=labels == "string")
        self._options: dict[str, Any] = {"labels": labels, "weights": weights, "columns": columns}
        self._names = _edges.Names() if labels == "string" else None
        self._is_decided = False
        self._parts: list[_edges.Parsed] = []

    def parse_file(
        self, source: Source, first: int = 0, last: int | None = None, *, numbered: bool = True
    ) -> None:
        """Parse the lines of a plain file that start in a range of its bytes.

        Integers are parsed at once, names in windows, since those of a window are held twice. Messages have
        the numbers of lines if those before the range are counted (``numbered``).
        """
        text, length = file_text(source), source.size
        start = self._open(text, 0, length)
        start, stop = max(start, line_start(text, first, length)), length
        if last is not None:
            stop = max(start, line_start(text, last, length))
        if first > 0 and numbered:
            self.lines = _svmlight.line_count(text, start, threads=self.threads, block_bytes=self.block_bytes)
        if self._names is None:
            self._parse(text, start, stop)
            return
        for begin, end in line_windows(text, stop, CHUNK_BYTES, start):
            self._parse(text, begin, end)

    def parse(self, text: Any, start: int, stop: int) -> None:
        """Parse the whole lines ``text[start:stop]``, which follow those already parsed."""
        self._parse(text, self._open(text, start, stop), stop)

    def _open(self, text: Any, start: int, stop: int) -> int:
        """Decide what ids are, if that is still open; return where the edges begin."""
        if self.lines == 0 and peek(text, start, min(stop, start + len(BYTE_ORDER_MARK))) == BYTE_ORDER_MARK:
            start += len(BYTE_ORDER_MARK)
        if self._is_decided:
            return start
        try:
            found, lines = _edges.open_text(text, start, stop)
        except _text.LongLineError:
            raise long_line_error(self.name) from None
        if not found:
            return start
        self._is_decided = True
        first, second, *_ = *(_bytes_of(text, *place) for place in found), None, None
        assert first is not None
        try:
            self.layout = decide_layout(first, second, peek(text, start, found[0][0]), **self._options)
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None
        self.weights = self.layout.weight is not None
        if self.layout.attributes:
            self.weights = self._options["weights"] is None or bool(self._options["weights"])
        if self.layout.names and self._names is None:
            self._names = _edges.Names()
        if self.layout.has_header:
            self.lines += lines
            return found[1][0] if len(found) > 1 else stop
        return start

    def _parse(self, text: Any, start: int, stop: int) -> None:
        try:
            part = _edges.parse(
                text,
                start,
                stop,
                names=self._names,
                weights=self.weights,
                layout=self.layout,
                threads=self.threads,
                block_bytes=self.block_bytes,
                reserve=self._reserve,
            )
        except _text.TextError as error:
            rest = peek(text, error.offset, stop)
            raise DataError(
                f"{self.name}:{self.lines + error.line}:{error.column}: "
                f"found {quote_token(rest)}, expected {self._describe_expected(error.name)}"
            ) from None
        except _text.LongLineError:
            raise long_line_error(self.name) from None
        except _edges.NodesError:
            raise too_many_nodes(self.name) from None
        self.lines += part.lines
        self._parts.append(part)

    def _reserve(self, edges: int) -> None:
        """Raise if there is no memory for this number of further edges."""
        ids = 8 if self._names is not None else 24  # both ids as they are parsed, and their numbers
        require_memory((ids + 8 * self.weights) * edges, f"{edges} edges of {self.name}", ADVICE)

    def _describe_expected(self, fault: str) -> str:
        as_strings = ' (labels="string" reads any id)'
        return {
            "integer": "an id that is an integer" + as_strings,
            "large": "an id from -2^63 to 2^63 - 1" + as_strings,
            "name": "an id without control characters"
            if self.layout.separator
            else "an id without blanks, commas and control characters",
            "encoding": "an id in UTF-8",
            "target": "a second id",
            "weight": "a weight: a finite number",
            "no_weight": "a weight",
            "columns": f"{self.layout.columns} columns on each line, as on the first",
            "quote": "quotes around a whole column, closed on its line",
            "comment": "quotes around a name with # or % after a blank",
            "attributes": "the attributes of an edge, as NetworkX writes them",
            "direction": "the Type that the first edge has",
            "return": "lines that end in LF or CRLF",
            "nul": "text without zero bytes",
            "changed": UNCHANGED_FILE,
        }[fault]

    def finish(self) -> Edges:
        """Return the edges of all parts, with their nodes numbered."""
        parts = self._parts
        weights = _joined([part.weights for part in parts], np.float64) if self.weights else None
        labels: NodeLabels | None
        sources: list[NDArray[Any]]
        targets: list[NDArray[Any]]
        if self._names is None:
            low = min((part.low for part in parts), default=0)
            high = max((part.high for part in parts), default=-1)
            arrays = [ids for part in parts for ids in (part.sources, part.targets)]
            self._parts = []
            del parts
            numbers, labels, n_nodes = _number(arrays, low, high, self.threads, self.name)
            sources, targets = list(numbers[::2]), list(numbers[1::2])
        else:
            labels, n_nodes = self._names.strings(), len(self._names)
            sources = [part.sources for part in parts]
            targets = [part.targets for part in parts]
        return Edges(
            _joined(sources, np.int32),
            _joined(targets, np.int32),
            weights,
            labels,
            n_nodes,
            self.layout.has_header,
            self.layout.directed,
            self.layout.unread,
        )


def number_nodes(
    sources: ArrayLike, targets: ArrayLike, *, threads: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64] | None]:
    """Give the nodes of a graph with integer ids numbers from 0 on, as `read_edges` does for text.

    Parameters
    ----------
    sources, targets : array-like of integers, shape (edges,)
        Ids of the nodes, of any size that int64 can hold.
    threads : int, optional
        Default: one per core that the process may use. The result does not depend on it.

    Returns
    -------
    sources, targets : ndarray of int32, shape (edges,)
        Numbers from 0 on, in the order of the ids.
    labels : ndarray of int64, shape (nodes,), or None
        The ids, ascending; None if node i has the id i.

    Raises
    ------
    DataError
        There are too many nodes, or ids that int64 cannot hold.
    ParameterError
        The arrays are not integer vectors of one length.

    Examples
    --------
    >>> number_nodes([7, -2], [-2, 7])
    (array([1, 0], dtype=int32), array([0, 1], dtype=int32), array([-2,  7]))
    """
    arrays = [integer_vector(name, ids) for name, ids in (("sources", sources), ("targets", targets))]
    if len(arrays[0]) != len(arrays[1]):
        raise ParameterError(f"targets: found {len(arrays[1])} ids, expected {len(arrays[0])}")
    team = resolve_thread_count(threads)
    low, high = extent(arrays, team)
    numbers, labels, _ = _number(arrays, low, high, team, "the graph")
    return numbers[0], numbers[1], labels


def extent(arrays: Sequence[NDArray[Any]], threads: int | None = None) -> tuple[int, int]:
    """Return the least and the largest of ids, in contiguous arrays of int32 or int64; 0 and -1 for none."""
    low, high = _edges.extent(arrays, resolve_thread_count(threads))
    return (low, high) if low <= high else (0, -1)


def narrow_below(ids: NDArray[Any], n: int, threads: int | None = None) -> NDArray[np.int32] | None:
    """Return ids as int32, for at most 2^31 nodes; None if one is none of 0 to ``n - 1``."""
    plain = integer_vector("ids", ids)
    low, high = extent([plain], threads)
    if low < 0 or high >= n:
        return None
    return plain if plain.dtype == np.int32 else _edges.narrow(plain, resolve_thread_count(threads))


def integer_vector(name: str, ids: ArrayLike) -> NDArray[Any]:
    """Return ids of int32 as they are, others as int64."""
    array = np.asarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ParameterError(
            f"{name}: found {array.dtype} of shape {array.shape}, expected a vector of integers"
        )
    if array.dtype == np.uint64 and len(array) and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{name}: found the id {array.max()}, expected at most 2^63 - 1")
    return np.ascontiguousarray(array, np.int32 if array.dtype == np.int32 else np.int64)


def _number(
    arrays: list[NDArray[Any]], low: int, high: int, threads: int, name: str
) -> tuple[list[NDArray[np.int32]], NDArray[np.int64] | None, int]:
    """Return the numbers of ids, the ids (None if they are their numbers), and the number of nodes."""
    try:
        numbers, labels = _edges.number(arrays, low=low, high=high, threads=threads)
    except _edges.NodesError:
        raise too_many_nodes(name) from None
    n_nodes = len(labels)
    are_numbers = n_nodes == 0 or (low == 0 and high == n_nodes - 1)
    return numbers, None if are_numbers else labels, n_nodes


def too_many_nodes(name: str) -> DataError:
    """Return the error for a graph with more than `_edges.MAX_NODES` nodes."""
    return DataError(f"{name}: found more than {_edges.MAX_NODES} nodes, expected at most that")


def _joined(arrays: list[Any], dtype: Any) -> NDArray[Any]:
    found: NDArray[Any] = arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, dtype), *arrays])
    return found
