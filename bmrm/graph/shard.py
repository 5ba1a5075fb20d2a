"""A graph over the ranks of MPI."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.group import group_of
from bmrm.distributed.options import check_alike
from bmrm.errors import DataError, ParameterError
from bmrm.graph import _graph
from bmrm.graph.backends.ranks.dealing import cut_nodes, deal_nodes
from bmrm.graph.backends.ranks.peers import Ranks
from bmrm.graph.backends.ranks.routing import number_together, send_edges
from bmrm.graph.edge_list import EdgeList, HostEdgeRows, ListedEdges, require_sort_memory
from bmrm.graph.edges import Reading, edges_of
from bmrm.graph.graph import Graph, check_options, count_near, is_local, resolve_rule
from bmrm.graph.labels import NodeLabels, narrow
from bmrm.matrix.resident import default_threads


class GraphShard(Graph):
    """A graph whose edges are distributed over the ranks of MPI, by their targets.

    `pagerank`, `random_walk` and `hits` take it like a `Graph`; all ranks must call them, with the same
    arguments, and each gets the whole result. For a fixed number of ranks results are the same to the bit.
    Nodes are dealt so that ranks have about the same numbers of nodes and edges. Labels, and two vectors of
    all nodes, are on every rank.

    Parameters
    ----------
    edges : object, or None
        This rank's part of the edges, of any kind that `Graph` takes; None for no edges. The parts of all
        ranks make up the graph, in the order of the ranks.
    comm : mpi4py.MPI.Comm or PETSc.Comm
    n_nodes, labels, directed, weights, duplicates, self_loops, order, weight, columns, threads
        As for `Graph`, the same on every rank. Without ``n_nodes`` and ``labels`` the nodes are those of all
        parts. The default of ``threads`` is at most the cores that a rank need not share.

    Attributes
    ----------
    n_nodes, n_edges, labels, directed, weighted
        As for `Graph`: of the whole graph.
    own : slice
        Where the nodes of this rank are among all in memory.

    Raises
    ------
    DataError, ParameterError
        As for `Graph`, and for arguments that differ between ranks; the same exception on every rank.

    References
    ----------
    Yang, Parthasarathy, Sadayappan, "Fast sparse matrix-vector multiplication on GPUs: implications for graph
    mining", PVLDB 4 (2011) 231.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> from bmrm.graph import pagerank
    >>> G = GraphShard(([10, 10, 30], [20, 30, 10]), comm=MPI.COMM_SELF)
    >>> G.n_nodes, G.n_edges, pagerank(G).top(1)[0][0]
    (3, 3, 10)
    """

    def __init__(
        self,
        edges: Any,
        *,
        comm: Any,
        n_nodes: int | None = None,
        labels: Any = None,
        directed: bool | None = None,
        weights: bool | None = None,
        duplicates: str = "auto",
        self_loops: str = "keep",
        order: str = "auto",
        weight: str | None = None,
        columns: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> None:
        self.group = group = group_of(comm)
        with group.guarded():
            with group.together():
                check_options(n_nodes, duplicates, self_loops, order, threads)
                how = Reading(n_nodes, labels, weights, weight, columns, threads)
                found = _no_edges() if edges is None else edges_of(edges, how)
                if directed is not None:
                    arguments.flag("directed", directed)
            options = {"directed": directed, "duplicates": duplicates, "self_loops": self_loops}
            has_labels = {"n_nodes": n_nodes, "labels": labels is not None}
            check_alike(group, {**has_labels, **options, "order": order})
            found = self._join_parts(found, given=n_nodes is not None or labels is not None)
            said = group.everyones(found.directed)
            self.directed = False not in said if directed is None else directed
            self.labels, self.n_nodes = found.labels, len(found.labels)
            self.peers = Ranks(group, np.zeros(group.size + 1, np.int64))
            if not self.directed:
                found = self._listed_alike(found)
            self.threads = default_threads(len(found.source)) if threads is None else threads
            self._take(found, duplicates, self_loops == "drop", order)
            self._finish(threads)
            self.notes = found.notes
        if threads is None:
            self.threads = min(default_threads(len(self._sources)), group.cores)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "found a GraphShard, of which each process has a part, expected a Graph to pickle or to copy; "
            "of Hits ask for `unique` before"
        )

    def _join_parts(self, edges: EdgeList, *, given: bool) -> EdgeList:
        """Return this rank's edges with the numbers of nodes that all ranks share, and valid weights."""
        group = self.group
        before = sum(group.everyones(len(edges.source))[: group.rank])
        with group.together():
            edges.check_weights(before)
        if given:
            sums = group.everyones(_checksum(edges.labels))
            if len(set(sums)) > 1:
                raise ParameterError(
                    "labels: found different labels on different ranks, expected the same on all"
                )
        else:
            edges = number_together(group, edges)
        has_weights = group.everyones(None if len(edges.source) == 0 else edges.weight is not None)
        if True in has_weights:
            if edges.weight is None:
                edges.weight = np.ones(len(edges.source))
            if not np.isfinite(sum(group.everyones(float(edges.weight.sum())))):
                raise DataError("weight: found weights whose sum is infinite, expected a finite sum")
        else:
            edges.weight = None
        return edges

    def _listed_alike(self, edges: EdgeList) -> EdgeList:
        """Return edges that all ranks list in both directions, or all once, or all as nobody knows."""
        kinds = set(self.group.everyones(edges.both_ways if len(edges.source) else None))
        if True in kinds and len(edges.source) and not edges.both_ways:
            edges = edges.in_both_directions()
        return replace(edges, both_ways=True if True in kinds else False if False in kinds else None)

    def _build(
        self, edges: ListedEdges, duplicates: str, drop_loops: bool, order: str, *, again: bool = False
    ) -> None:
        """Decide who owns which nodes, and send the edges there."""
        assert isinstance(edges, EdgeList)  # the parts of ranks are in main memory
        group, rule = self.group, resolve_rule(duplicates, weighted=edges.weighted)
        source, target, weight = edges.source, edges.target, edges.weight
        in_degree = np.rint(
            group.total(_graph.count_nodes(target, self.n_nodes, self.threads).astype(np.float64))
        ).astype(np.int64)
        if self._keeps_order(edges, order):
            self._set_order(None)
            self._order_kind = "given"
            bounds = cut_nodes(in_degree, group.size)
        else:
            found, bounds = deal_nodes(in_degree, group.size)
            self._set_order(narrow(found, self.n_nodes))
            self._order_kind = "degree"
        self._core = None
        self._first = int(bounds[group.rank])
        self.peers = self._ranks = Ranks(group, bounds)
        if drop_loops:
            kept = source != target
            source, target = source[kept], target[kept]
            weight = None if weight is None else weight[kept]
        routed = send_edges(group, bounds, self.to_places(target), self.to_places(source), weight)
        self._rows = self._build_rows(*routed, "keep" if rule == "error" else rule)
        with group.together():
            if rule == "error":
                self._check_different()
        ones = self._weights is None or bool((self._weights == 1).all())
        if all(group.everyones(ones)):
            self._rows.weights = None

    def _set_order(self, order: NDArray[Any] | None) -> None:
        """Set the order of the nodes in memory; None is that of the labels."""
        self._order, self._rank = order, None
        if order is not None:
            self._rank = np.empty(len(order), np.int32)
            self._rank[order] = np.arange(len(order), dtype=np.int32)

    def _keeps_order(self, edges: EdgeList, order: str) -> bool:
        """Return whether the nodes of each rank are a run of all nodes in the order of the labels."""
        if order != "auto":
            return order == "given"
        return is_local(np.sum(self.group.everyones(count_near(edges)), axis=0).tolist(), self.n_nodes)

    def _build_rows(
        self, near: NDArray[np.int32], far: NDArray[np.int32], weight: Vector | None, duplicates: str
    ) -> HostEdgeRows:
        """Build compressed rows of edges whose near ends are places of this rank."""
        bounds = self._ranks.bounds
        with self.group.together():
            require_sort_memory(len(near), weighted=weight is not None)
        starts, found, weights = _graph.sort_edges_by_target(
            far, near - np.int32(self._first), weight, None, self.n_nodes, duplicates, False, self.threads
        )
        own = int(bounds[self.group.rank + 1]) - self._first
        return HostEdgeRows(starts[: own + 1].copy(), found, weights)

    def edges_by_source(self, weights: Vector | None) -> tuple[Indices, NDArray[np.int32], Vector | None]:
        routed = send_edges(self.group, self._ranks.bounds, self._sources, self.targets(), weights)
        rows = self._build_rows(*routed, "keep")
        return rows.starts, rows.sources, rows.weights

    def _both_ways(self, edges: tuple[Any, ...]) -> Graph:
        return GraphShard(edges, comm=self.group, n_nodes=self.n_nodes, directed=False, threads=self.threads)


def _no_edges() -> EdgeList:
    nothing = np.zeros(0, np.int32)
    return EdgeList(nothing, nothing, None, NodeLabels(range(0)))


def _checksum(labels: NodeLabels) -> tuple[int, int]:
    """Return what differs, most likely, between other labels."""
    values = labels.values
    text = "" if isinstance(values, range) else "\0".join(map(repr, labels.to_list()))
    return len(values), zlib.crc32(text.encode("utf-8", "surrogatepass"))
