"""Count the edges and nodes of a text in bounded memory, for predictions of memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.distinct import distinct_values
from bmrm.base.interrupts import interruptible
from bmrm.io import _edges
from bmrm.io.edges import EdgeParser, LabelKind, check_edge_options, ends_in_returns, text_chunks
from bmrm.io.sources import open_source
from bmrm.io.svmlight import resolve_thread_count
from bmrm.io.text import CHUNK_BYTES, file_text, line_windows


class EdgeCounts(NamedTuple):
    """What is measured of edge text.

    Attributes
    ----------
    n_nodes, n_edges : int
        Repeated edges and loops count.
    label_bytes : int
        Bytes of the labels of a graph, at least.
    named : bool
        Whether ids are strings.
    weighted : bool
    directed : bool or None
        What the text says of itself.
    """

    n_nodes: int
    n_edges: int
    label_bytes: int
    named: bool
    weighted: bool = False
    directed: bool | None = None


STRING_BYTES = 128
"""Of a short string, its places in an array and a list, and its entry in the reader's table."""


@interruptible
def count_edges(
    path: str | os.PathLike[str],
    *,
    weights: bool | None = None,
    labels: LabelKind = "auto",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
) -> EdgeCounts:
    r"""Count the edges and nodes of edge text; it is read in chunks, which are forgotten.

    Memory grows with the nodes alone. The arguments and errors are those of `bmrm.io.edges.read_edges`.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("10 30 2\n30 20 1\n")
    >>> count_edges(path)
    EdgeCounts(n_nodes=3, n_edges=2, label_bytes=24, named=False, weighted=False, directed=None)
    """
    check_edge_options(weights, labels, columns)
    with open_source(path) as source:
        count = resolve_thread_count(threads)
        counter = _Counter(source.name, labels, count, weights=weights, columns=columns)
        if source.is_plain and not ends_in_returns(source):
            text, length = file_text(source), source.size
            for start, stop in line_windows(text, length, CHUNK_BYTES):
                counter.parse(text, start, stop)
        else:
            for chunk, length in text_chunks(source):
                counter.parse(chunk, 0, length)
    return counter.counts()


class _Counter(EdgeParser):
    """Counts edges and distinct ids, part by part."""

    def __init__(
        self,
        name: str,
        labels: LabelKind,
        threads: int,
        *,
        weights: bool | None,
        columns: Sequence[str] | None,
    ) -> None:
        super().__init__(name, labels, threads, weights=weights, columns=columns)
        self._n_edges = 0
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)

    def parse(self, text: Any, start: int, stop: int) -> None:
        super().parse(text, start, stop)
        for part in self._parts:
            self._n_edges += len(part.sources)
            if self._names is None and len(part.sources):
                arrays = [part.sources, part.targets]
                _, ids = _edges.number(arrays, low=part.low, high=part.high, threads=self.threads)
                self._ids = distinct_values(np.concatenate([self._ids, ids]))
        self._parts.clear()

    def counts(self) -> EdgeCounts:
        if self._names is not None:
            n = len(self._names)
            return EdgeCounts(n, self._n_edges, STRING_BYTES * n, True, self.weights, self.layout.directed)
        n = len(self._ids)
        plain = n == 0 or (self._ids[0] == 0 and self._ids[-1] == n - 1)
        return EdgeCounts(n, self._n_edges, 0 if plain else 8 * n, False, self.weights, self.layout.directed)
