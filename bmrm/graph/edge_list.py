"""Edges between numbered nodes as they are listed, and as rows by target: in main memory.

`bmrm.graph.device_edges` has both on a GPU. `bmrm.graph.Graph` makes all decisions and knows the protocols
alone, so a graph is the same wherever it was built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.graph import _graph
from bmrm.graph.labels import NodeLabels, quote
from bmrm.graph.memory import GRAPH_EDGE, SORTED_EDGE, WEIGHT
from bmrm.io.edges import ADVICE

LOCALITY_SAMPLES = 1 << 16
"""Edges that are looked at for locality."""


class EdgeRows(Protocol):
    """The edges of a graph by target, in the order in memory."""

    starts: Indices

    @property
    def gpu(self) -> int | None:
        """The GPU that has them; None if they are in main memory alone."""

    @property
    def weighted(self) -> bool:
        """Whether there are weights; else all are 1."""

    @property
    def sources(self) -> NDArray[np.int32]:
        """Sources in main memory."""

    @property
    def weights(self) -> Vector | None:
        """Weights in main memory; None if there are none."""

    def sources_near(self, gpu: int) -> Any:
        """Return sources for a matrix on a GPU: in its memory if they are there."""

    @property
    def weight_bound(self) -> float:
        """At least the largest weight, and at most the largest sum of a source's."""

    def weights_near(self, gpu: int) -> Any:
        """Return weights for a matrix on a GPU: in its memory if they are there."""

    def shares_near(self, gpu: int) -> Any:
        """Return weights over the sums of their sources, by type, if they are on this GPU; else None."""

    def count_reversed(self, step: int) -> tuple[int, int]:
        """Return how many of every ``step``-th edge join two nodes, and of how many the reverse is there."""

    def count_sources(self, n: int, threads: int) -> Indices:
        """Return the number of edges that start at each of ``n`` nodes."""

    def strengths(self, n: int) -> Vector:
        """Return the sums of the weights of each source."""

    def on_host(self) -> HostEdgeRows:
        """Return the rows in main memory, which need no GPU any more."""


class Degrees(Protocol):
    """In-links and out-links of all nodes, as far as the order of nodes follows from them.

    A node is last without out-links, and first with out-links only.
    """

    into_last: int
    """Edges that end in last nodes."""

    out_of_first: int
    """Edges that start in first nodes."""

    n_last: int
    n_first: int

    def order(self, *, by_degree: bool, peeled: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the nodes in their order in memory, and the place of each.

        First and last nodes are where they are called if they are ``peeled``; besides, nodes with many
        in-links come first if it is ``by_degree``.
        """


class ListedEdges(Protocol):
    """Edges between numbered nodes, as they are listed."""

    @property
    def labels(self) -> NodeLabels:
        """Labels of the nodes."""

    @property
    def directed(self) -> bool | None:
        """See `ListedColumns`."""

    @property
    def both_ways(self) -> bool | None:
        """See `ListedColumns`."""

    @property
    def notes(self) -> tuple[str, ...]:
        """See `ListedColumns`."""

    @property
    def weighted(self) -> bool:
        """Whether edges have weights."""

    def __len__(self) -> int: ...

    def check_weights(self) -> None:
        """Raise for the first weight that is negative or not finite, and for sums that overflow."""

    def count_directions(self) -> tuple[int, int]:
        """Return how many edges have the larger number at their source, and at their target."""

    def in_both_directions(self) -> ListedEdges:
        """Return each edge in both directions, a loop once; equal edges stay next to each other."""

    def count_near(self, near: int, reached: int) -> tuple[int, int, int]:
        """Return how many edges of a sample join nodes with numbers so near, and its size."""

    def degrees(self, threads: int) -> Degrees:
        """Count the edges of all nodes."""

    def sort(
        self, places: Any, duplicates: str, threads: int, *, drop_loops: bool, again: bool = False
    ) -> EdgeRows:
        """Build the rows, by the places of the nodes if there are any.

        - ``duplicates``: "keep", "drop" or "sum"
        - ``again``: whether the listed edges will be used again, in place of these rows
        """


@dataclass
class HostEdgeRows:
    """Edges by target in main memory."""

    starts: Indices
    sources: NDArray[np.int32]
    weights: Vector | None
    gpu: None = None

    @property
    def weighted(self) -> bool:
        return self.weights is not None

    def sources_near(self, gpu: int) -> Any:
        return self.sources

    @property
    def weight_bound(self) -> float:
        assert self.weights is not None
        return float(self.weights.max(initial=0.0))

    def weights_near(self, gpu: int) -> Any:
        return self.weights

    def shares_near(self, gpu: int) -> Any:
        return None

    def count_reversed(self, step: int) -> tuple[int, int]:
        starts, sources = self.starts, self.sources
        edges = np.arange(0, len(sources), step)
        u, v = sources[edges].astype(np.int64), np.searchsorted(starts, edges, "right") - 1
        u, v = u[u != v], v[u != v]
        # Binary search of v among the sources of edges to u.
        low, high = starts[u], starts[u + 1]
        for _ in range(len(sources).bit_length()):
            middle = (low + high) // 2
            before = (low < high) & (sources[np.minimum(middle, len(sources) - 1)] < v)
            low, high = np.where(before, middle + 1, low), np.where(before | (low >= high), high, middle)
        there = low < starts[u + 1]
        return len(u), int(np.count_nonzero(sources[low[there]] == v[there]))

    def count_sources(self, n: int, threads: int) -> Indices:
        return _graph.count_nodes(np.ascontiguousarray(self.sources), n, threads)

    def strengths(self, n: int) -> Vector:
        assert self.weights is not None
        return _graph.sum_weights_by_source(self.sources, self.weights, n)

    def on_host(self) -> HostEdgeRows:
        return self


class HostDegrees:
    """Degrees in main memory."""

    def __init__(self, into: Indices, out: Indices, threads: int) -> None:
        self._into, self._threads = into, threads
        self._last = out == 0
        self._first = (into == 0) & ~self._last
        self.into_last, self.out_of_first = int(into[self._last].sum()), int(out[self._first].sum())
        self.n_last, self.n_first = (int(np.count_nonzero(each)) for each in (self._last, self._first))

    def order(self, *, by_degree: bool, peeled: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        groups = 1 + self._last.astype(np.uint8) - self._first if peeled else None
        counts = self._into if by_degree else None
        return _graph.order_nodes(len(self._into), counts, groups, self._threads)


@dataclass
class ListedColumns:
    """A list of edges.

    Attributes
    ----------
    source, target : array, shape (edges,)
    weight : array, shape (edges,), or None
    labels : NodeLabels or None
    directed : bool or None
        What the object says of itself; None if it does not say.
    both_ways : bool or None
        Whether an undirected graph lists each edge in both directions, or once; None if that is not known.
    notes : tuple of str
        What a reader left open or out.
    """

    source: Any
    target: Any
    weight: Any
    labels: Any
    directed: bool | None = None
    both_ways: bool | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.source)

    @property
    def weighted(self) -> bool:
        return self.weight is not None


@dataclass
class EdgeList(ListedColumns):
    """A list of edges between numbered nodes, in main memory, in int32 and float64."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: Vector | None
    labels: NodeLabels

    def numbered(self, threads: int | None) -> EdgeList:
        """Return the edges, whose nodes have numbers."""
        return self

    def check_weights(self, first: int = 0) -> None:
        # ``first`` is the number of edges before these, for the message.
        weight = self.weight
        if weight is None:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            total = weight.sum()
        if np.isfinite(total) and weight.min(initial=0.0) >= 0:
            return
        wrong = ~(np.isfinite(weight) & (weight >= 0))
        if not wrong.any():
            raise infinite_sum()
        edge = int(np.argmax(wrong))
        ends = self.labels[int(self.source[edge])], self.labels[int(self.target[edge])]
        raise wrong_weight(first + edge, ends, weight[edge])

    def count_directions(self) -> tuple[int, int]:
        backward, forward = self.source > self.target, self.source < self.target
        return int(backward.sum()), int(forward.sum())

    def in_both_directions(self) -> EdgeList:
        other = self.source != self.target
        weight = None if self.weight is None else np.concatenate([self.weight, self.weight[other]])
        # An edge listed as (u, v) and as (v, u) is the same edge twice: both have the smaller node first.
        low, high = np.minimum(self.source, self.target), np.maximum(self.source, self.target)
        source, target = np.concatenate([low, high[other]]), np.concatenate([high, low[other]])
        return EdgeList(source, target, weight, self.labels, False, True)

    def count_near(self, near: int, reached: int) -> tuple[int, int, int]:
        step = sample_step(len(self))
        distance = np.abs(self.source[::step].astype(np.int64) - self.target[::step])
        return int((distance < near).sum()), int((distance < reached).sum()), len(distance)

    def degrees(self, threads: int) -> HostDegrees:
        n = len(self.labels)
        into, out = (_graph.count_nodes(end, n, threads) for end in (self.target, self.source))
        return HostDegrees(into, out, threads)

    def sort(
        self, places: Any, duplicates: str, threads: int, *, drop_loops: bool, again: bool = False
    ) -> HostEdgeRows:
        require_sort_memory(len(self), weighted=self.weighted)
        starts, sources, weights = _graph.sort_edges_by_target(
            self.source, self.target, self.weight, places, len(self.labels), duplicates, drop_loops, threads
        )
        if weights is not None and (weights == 1).all():
            weights = None
        return HostEdgeRows(starts, sources, weights)


def require_sort_memory(edges: int, *, weighted: bool) -> None:
    """Raise `HostMemoryError` if a graph with these edges does not fit into main memory."""
    each = SORTED_EDGE + GRAPH_EDGE + (3 * WEIGHT if weighted else 0)
    require_memory(each * edges, f"a graph of {edges} edges", ADVICE)


def sample_step(edges: int) -> int:
    """Return the distance of the edges that are looked at."""
    return max(1, edges // LOCALITY_SAMPLES)


def wrong_weight(edge: int, ends: tuple[Any, Any], weight: float) -> DataError:
    """Return the error that an edge between two labels has a weight that cannot be used."""
    return DataError(
        f"weight: edge {edge + 1} from {quote(ends[0])} to {quote(ends[1])} has {weight}, expected a finite "
        "number of at least 0"
    )


def infinite_sum() -> DataError:
    """Return the error that the sum of all weights overflows."""
    return DataError("weight: found weights whose sum is infinite, expected a finite sum")
