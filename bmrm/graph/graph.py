"""A graph, its edges held by target in an order that suits products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Indices, Vector, read_only_view
from bmrm.errors import DataError, ParameterError
from bmrm.graph import _graph
from bmrm.graph.device_edges import DeviceEdges, place_edges
from bmrm.graph.edge_list import EdgeRows, ListedEdges
from bmrm.graph.edges import Reading, listed_of
from bmrm.graph.labels import NodeLabels, quote
from bmrm.graph.memory import (
    TASKS,
    GraphSize,
    graph_bytes,
    matrix_bytes,
    vectors_bytes,
)
from bmrm.graph.peers import ALONE, Peers, total_of
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.gpu.placement import with_fall_back
from bmrm.matrix.resident import default_threads

DUPLICATES = ("auto", "drop", "sum", "error")
ORDERS = ("auto", "degree", "given")

NEAR_NODES = 64
"""Edges between nodes whose numbers differ by less likely read a vector from a near cache."""

MIN_NEAR_SHARE = 0.5
"""Share of such edges from which the order of the input is kept. Degree order halves the time of a product on
graphs without locality (slashdot 2.1 times faster, an R-MAT graph 1.6 times), and destroys what a crawl in
the order of its URLs has."""

REACHED_NODES = 1 << 16
"""Edges between nodes whose numbers differ by less read a part of a vector that fits a core's cache, or the
shared memory of a GPU's multiprocessor."""

MIN_REACHED_SHARE = 0.9
"""Share of such edges from which the order of the input is kept too, as that of communities one after
another. With 64 communities of 65,536 nodes products in this order took 0.4 (float32) and 0.6 (float64) of
the time on an H100, and PageRank with 16 of them 0.77 of it on a CPU."""

MIN_REACHES = 8
"""Minimum number of nodes, in units of `REACHED_NODES`: in smaller graphs, many edges are short by chance."""

MIN_PEELED_SHARE = 0.15
"""Share of the edges that end in nodes without out-links, or start in nodes without in-links, from which
these nodes are peeled off: light steps have fewer edges and shorter vectors, exact steps take 15 % longer."""


SAME_WEIGHT = 1e-9
"""Relative difference of the weights of both directions that rounding may have made."""


class Graph:
    """A directed or undirected graph with labelled nodes, ready for products.

    Parameters
    ----------
    edges : object
        A tuple ``(source, target)`` or ``(source, target, weight)`` of arrays with one entry per edge; a list
        of pairs ``(u, v)`` or triples ``(u, v, weight)``; an array of shape (edges, 2); a SciPy sparse matrix
        whose entry (u, v) is the weight of the edge from u to v; a graph of NetworkX or igraph; or an object
        with ``__arrow_c_stream__`` (a table of pyarrow, polars, pandas or DuckDB), see ``columns``. Nodes are
        integers or text.
    n_nodes : int, optional
        With arrays: the nodes are 0 to ``n_nodes - 1``, with or without edges. Default: the nodes are those
        that occur in edges; a gap in the ids is no node.
    labels : sequence, optional
        With arrays or a matrix whose nodes are 0 to n - 1: their labels.
    directed : bool, optional
        Undirected edges count in both directions, a loop once. Default: what the input says of itself, True
        if it says nothing. A weighted list or matrix that has every edge in both directions, with the same
        weights, is an undirected graph as it stands; else the weights of (u, v) and (v, u) are added.
    weights : bool, optional
        Whether weights count. Default: if the input says that it has any, by a third array, the entries of a
        matrix, or a name.
    duplicates : {"auto", "drop", "sum", "error"}, default "auto"
        What an edge that is listed several times means: one edge, the first of them ("drop"); one whose
        weight is the sum, where edges without weights weigh 1 ("sum"); or a `DataError`. "auto" drops without
        weights and sums with weights; parallel edges of graph objects are summed either way. In an undirected
        graph (u, v) and (v, u) are the same edge.
    self_loops : {"keep", "drop"}, default "keep"
    order : {"auto", "degree", "given"}, default "auto"
        Order of the nodes in memory; results always come in the order of the labels. "degree" puts nodes with
        many in-links first, "given" keeps the order, "auto" keeps it if most edges join nodes that are near.
        If nodes without in-links or out-links have enough edges to be peeled off, "degree" and "auto" put
        the former before the others and the latter after them.
    weight : str, optional
        Name of the edge attribute in graph objects, or of the column of weights in a table; it must be there.
        Default: "weight" if it is there. Edges without the attribute weigh 1.
    columns : sequence of str, optional
        With a table: the names of its columns source, target and maybe weight. Default: columns named so, or
        alike (``from`` and ``to``, ``src`` and ``dst``, ``sourceId``, ...), in any order; else two columns,
        besides one named weight, are source and target in their order.
    threads : int, optional
        Default: the cores that the process may use.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where the graph is built; it is the same everywhere. "auto" is a GPU if there is one and the graph is
        large enough for it, as for `pagerank`. Edges that are on a GPU already, as arrays of CuPy, PyTorch or
        JAX, are taken there. The graph stays where it was built, and has a copy in main memory as soon as
        something there needs it.
    gpu_mem : int or str, optional
        Device memory that building may take, in bytes or as "8G" or "500M". Default: what is free.

    Attributes
    ----------
    n_nodes, n_edges : int
        An edge of an undirected graph counts in each direction.
    labels : NodeLabels
    directed, weighted : bool
    threads : int
    notes : tuple of str
        What a file has left open, and what was not read of it.
    placement : Placement
        Where it was built, and why.

    Raises
    ------
    DataError
        For edges that cannot be used: a weight that is negative, NaN or infinite, different lengths, ends on
        two devices, ...
    DeviceMemoryError
        If there is too little memory on the GPU that ``device`` names, or that has the edges.
    ParameterError
        If an option is out of range.

    Examples
    --------
    >>> G = Graph(([10, 10, 30], [20, 30, 10]))
    >>> G.n_nodes, G.n_edges, G.labels.to_list()
    (3, 3, [10, 20, 30])
    >>> G.dangling
    array([1])
    >>> numbers = np.array([0.5, 0.25, 0.25])  # in the order of the labels
    >>> own = G.in_memory_order(numbers)
    >>> G.in_given_order(own), G.to_label_order(own), G.to_given(G.to_places(np.array([0, 2])))
    (array([0.5 , 0.25, 0.25]), array([0.5 , 0.25, 0.25]), array([0, 2], dtype=int32))
    >>> G.edges_by_source(None)[0]
    array([0, 2, 3, 3])
    """

    def __init__(
        self,
        edges: Any,
        *,
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
        device: str = "auto",
        gpu_mem: int | str | None = None,
    ) -> None:
        check_options(n_nodes, duplicates, self_loops, order, threads)
        limit = parse_memory_size(gpu_mem)
        listed = listed_of(edges, Reading(n_nodes, labels, weights, weight, columns, threads))
        self.directed = (
            listed.directed is not False if directed is None else arguments.flag("directed", directed)
        )
        self.peers: Peers = ALONE
        self._first = 0
        self.threads = default_threads(len(listed)) if threads is None else threads

        factor = 1 if self.directed or listed.both_ways else 2
        self.labels: NodeLabels

        def build(found: ListedEdges) -> NodeLabels:
            found.check_weights()
            self.labels, self.n_nodes = found.labels, len(found.labels)
            self._take(found, duplicates, self_loops == "drop", order)
            return found.labels

        self.labels, self.placement = with_fall_back(
            place_edges(listed, device),
            lambda: build(listed.numbered(threads)),
            lambda gpu: (build(DeviceEdges(listed, gpu, limit, threads, factor)), ""),
        )
        self.placement.log()
        self._finish(threads)
        self.notes: tuple[str, ...] = listed.notes

    def _take(self, edges: ListedEdges, duplicates: str, drop_loops: bool, order: str) -> None:
        """Put edges into memory, those of an undirected graph in both directions."""
        if self.directed or edges.both_ways:
            self._build(edges, duplicates, drop_loops, order)
            return
        if edges.both_ways is None and edges.weighted and duplicates == "auto":
            counts = self.peers.total(np.array(edges.count_directions(), float))
            if counts[0] == counts[1]:
                self._build(edges, duplicates, drop_loops, order, again=True)
                if self._is_symmetric():
                    return
        self._build(edges.in_both_directions(), duplicates, drop_loops, order)

    def _is_symmetric(self) -> bool:
        """Whether every edge is there in both directions, with the same weight up to rounding."""
        starts, targets, weights = self.edges_by_source(self._weights)
        same = np.array_equal(starts, self._starts) and np.array_equal(targets, self._sources)
        if same and self._weights is not None and weights is not None:
            same = np.allclose(self._weights, weights, SAME_WEIGHT, 0.0)
        return total_of(self.peers, float(same)) == self.peers.size

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: without the matrices that calls have made."""
        return self.__dict__ | {"_resident": {}, "_rows": self._rows.on_host()}

    def _finish(self, threads: int | None) -> None:
        """Set what follows from the edges."""
        self.n_edges = int(total_of(self.peers, self._starts[-1]))
        self.weighted = self._rows.weighted
        self.threads = default_threads(int(self._starts[-1])) if threads is None else threads
        self._resident: dict[Any, Any] = {}

    def _build(
        self, edges: ListedEdges, duplicates: str, drop_loops: bool, order: str, *, again: bool = False
    ) -> None:
        rule = resolve_rule(duplicates, weighted=edges.weighted)
        chosen = _choose_order(edges, self.n_nodes, order, self.threads)
        self._order, self._rank = chosen.nodes, chosen.places
        self._core, self._order_kind = chosen.core, chosen.kind
        kept = "keep" if rule == "error" else rule
        self._rows: EdgeRows = edges.sort(self._rank, kept, self.threads, drop_loops=drop_loops, again=again)
        if rule == "error":
            self._check_different()

    @property
    def _starts(self) -> Indices:
        return self._rows.starts

    @property
    def _sources(self) -> NDArray[np.int32]:
        return self._rows.sources

    @property
    def _weights(self) -> Vector | None:
        return self._rows.weights

    @property
    def rows(self) -> EdgeRows:
        """The edges by target, in the order in memory, where they are."""
        return self._rows

    def leave_gpu(self) -> None:
        """Move the edges to main memory, to free GPU memory for matrices."""
        self._rows = self._rows.on_host()

    def _check_different(self) -> None:
        """Raise for an edge that is listed twice."""
        same = self._sources[1:] == self._sources[:-1]
        same[self._starts[1:-1][(self._starts[1:-1] > 0) & (self._starts[1:-1] <= len(same))] - 1] = False
        if same.any():
            place = int(np.argmax(same))
            target = self._first + int(np.searchsorted(self._starts, place, "right")) - 1
            names = [quote(self.labels[int(self.to_given([i])[0])]) for i in (self._sources[place], target)]
            raise DataError(f"edges: found the edge from {names[0]} to {names[1]} twice, expected it once")

    @property
    def own(self) -> slice:
        """Places in memory of the nodes whose edges are in this process: all places on one rank."""
        return slice(self._first, self._first + len(self._starts) - 1)

    @property
    def in_degree(self) -> Indices:
        """Number of edges that end in each node, in the order of the labels."""
        return self.in_given_order(np.diff(self._starts))

    @property
    def out_degree(self) -> Indices:
        """Number of edges that start in each node, in the order of the labels."""
        return self.to_label_order(self.count_out_edges())

    @property
    def dangling(self) -> NDArray[np.intp]:
        """Numbers of the nodes whose edges to other nodes weigh nothing, in the order of the labels."""
        return np.flatnonzero(self.to_label_order(self.out_strength() == 0))

    def count_out_edges(self) -> Indices:
        """Return the number of edges that start in each node, of all processes, in the order in memory."""
        counts = self._rows.count_sources(self.n_nodes, self.threads)
        return self.peers.total(counts.astype(np.float64)).astype(np.int64)

    def out_strength(self) -> Vector:
        """Return the sum of the weights of each node's edges, of all processes, in the order in memory."""
        if not self._rows.weighted:
            return self.count_out_edges().astype(np.float64)
        return self.peers.total(self._rows.strengths(self.n_nodes))

    @property
    def is_reordered(self) -> bool:
        """Whether the order in memory is another than that of the labels."""
        return self._order is not None

    @property
    def core(self) -> slice | None:
        """Places in memory of the nodes that have in-links and out-links, if the others are worth peeling.

        Before them come the nodes without in-links, and after them those without out-links.
        """
        return self._core

    @property
    def places(self) -> NDArray[Any] | None:
        """Place in memory of each node, in the order of the labels; None if the orders are the same."""
        return self._rank

    def to_label_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Reorder values of all nodes from the order in memory to that of the labels.

        Parameters
        ----------
        values : ndarray, first dimension n_nodes

        Returns
        -------
        ndarray
        """
        found: NDArray[Any] = values if self._rank is None else values[self._rank]
        return found

    def in_given_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Gather values of the own nodes, in the order in memory, to all in the order of the labels.

        Parameters
        ----------
        values : ndarray, first dimension as `own`

        Returns
        -------
        ndarray, first dimension n_nodes
        """
        return self.to_label_order(self.peers.joined(values))

    def in_memory_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Take the values of the own nodes, in the order in memory, from all in the order of labels.

        Parameters
        ----------
        values : ndarray, first dimension n_nodes

        Returns
        -------
        ndarray, first dimension as `own`
        """
        found: NDArray[Any] = values[self.own] if self._order is None else values[self._order[self.own]]
        return found

    def to_given(self, places: Any) -> NDArray[Any]:
        """Convert places in memory to numbers of nodes.

        Parameters
        ----------
        places : int, or ndarray of int

        Returns
        -------
        ndarray of int
        """
        return np.asarray(places if self._order is None else self._order[places])

    def to_places(self, numbers: Any) -> NDArray[Any]:
        """Convert numbers of nodes to places in memory.

        Parameters
        ----------
        numbers : int, or ndarray of int

        Returns
        -------
        ndarray of int
        """
        return np.asarray(numbers if self._rank is None else self._rank[numbers])

    @property
    def edges_by_target(self) -> tuple[Indices, NDArray[Any], Vector | None]:
        """Row pointers, sources and weights of the edges by target, in the order in memory; read-only."""
        weights = None if self._weights is None else read_only_view(self._weights)
        return read_only_view(self._starts), read_only_view(self._sources), weights

    def targets(self) -> Indices:
        """Return the targets of the edges in this process, in the order in memory."""
        return np.repeat(np.arange(self.own.start, self.own.stop), np.diff(self._starts))

    def edges_by_source(self, weights: Vector | None) -> tuple[Indices, NDArray[np.int32], Vector | None]:
        """Return the edges by source, whose order is that in memory.

        Parameters
        ----------
        weights : ndarray of float64, shape (n_edges,), or None
            Weights of the edges by target.

        Returns
        -------
        pointers : ndarray of int64, shape (n_nodes + 1,)
        targets : ndarray of int32, shape (n_edges,)
        weights : ndarray of float64, shape (n_edges,), or None
        """
        targets = self.targets().astype(np.int32)
        return _graph.sort_edges_by_target(
            targets, self._sources, weights, None, self.n_nodes, "keep", False, self.threads
        )

    def resident(self, key: Any, build: Any, limit: int | None = None, share: Any = None) -> Any:
        """Return what ``build()`` makes, and remember it under a key.

        Parameters
        ----------
        key : hashable
        build : callable
        limit : int, optional
            Bytes of memory.
        share : Share, optional
            The CPU's share of what does not fit. What was made with another limit or share is forgotten
            first.

        Returns
        -------
        object
        """
        if key in self._resident and self._resident[key][1:] != (limit, share):
            del self._resident[key]
        if key not in self._resident:
            self._resident[key] = build(), limit, share
        return self._resident[key][0]

    def to_scipy(self) -> Any:
        """Return the adjacency matrix in the order of the labels, a `scipy.sparse.csr_array`.

        Examples
        --------
        >>> Graph(([0, 1], [1, 0], [2.0, 3.0])).to_scipy().toarray()
        array([[0., 2.],
               [3., 0.]])
        """
        from scipy.sparse import csr_array

        values = np.ones(len(self._sources)) if self._weights is None else self._weights
        ends = self.to_given(self._sources), self.to_given(self.targets())
        return csr_array((values, ends), shape=(self.n_nodes, self.n_nodes))

    def undirected(self) -> Graph:
        """Return the graph with every edge in both directions; the graph itself if it is undirected.

        An edge that has its reverse counts once; with weights, the two weights are added, unless all edges
        have their reverse, with the same weight.
        """
        if not self.directed:
            return self

        def build() -> Graph:
            ends = self.to_given(self._sources), self.to_given(self.targets())
            found = self._both_ways(ends if self._weights is None else (*ends, self._weights))
            found.labels = self.labels
            return found

        found: Graph = self.resident("undirected", build)
        return found

    def _both_ways(self, edges: tuple[Any, ...]) -> Graph:
        """Return the undirected graph of edges between the same nodes."""
        return Graph(edges, n_nodes=self.n_nodes, directed=False, threads=self.threads)

    def predict_bytes(self, task: str, columns: int = 1) -> dict[str, int]:
        """Return the bytes that a task needs at most, in this process.

        Parameters
        ----------
        task : {"pagerank", "rwr", "hits"}
        columns : int, default 1
            Number of random walks in one read of the matrix.

        Returns
        -------
        dict of int
            By part: ``graph``, ``matrix``, ``vectors``, and their sum as ``total``.

        Examples
        --------
        >>> Graph(([0, 1], [1, 0])).predict_bytes("pagerank")["graph"]
        40
        """
        _check_choice("task", task, TASKS)
        if arguments.integer("columns", columns) < 1:
            raise ParameterError(f"columns: found {columns}, expected at least 1")
        size = GraphSize(self.n_nodes, self.n_edges, weighted=self.weighted)
        ranks = self.peers.size
        parts = {
            "graph": graph_bytes(size, ranks),
            "matrix": matrix_bytes(size, task, ranks),
            "vectors": vectors_bytes(size, task, columns, ranks),
        }
        return {**parts, "total": sum(parts.values())}

    def report(self) -> dict[str, Any]:
        """Return properties of the graph, for people and for JSON."""
        into = np.diff(self._starts)
        strength, out = self.out_strength()[self.own], self.count_out_edges()[self.own]
        counted = [strength == 0, into == 0, (into == 0) & (out == 0), self._sources == self.targets()]
        dangling, unreached, isolated, loops = self.peers.total(
            np.array([np.count_nonzero(each) for each in counted], np.float64)
        )
        most = self.peers.largest(np.array([into.max(initial=0), out.max(initial=0)], np.float64))
        return {
            "nodes": self.n_nodes,
            "edges": self.n_edges,
            "directed": self.directed,
            "weighted": self.weighted,
            "dangling": int(dangling),
            "without_in_links": int(unreached),
            "isolated": int(isolated),
            "self_loops": int(loops),
            "max_in_degree": int(most[0]),
            "max_out_degree": int(most[1]),
            "order": self._order_kind,
            "peeled_nodes": 0 if self._core is None else self.n_nodes - (self._core.stop - self._core.start),
            "bytes": sum(part.nbytes for part in self.edges_by_target if part is not None),
        }

    def __repr__(self) -> str:
        kind = ("" if self.directed else "un") + "directed"
        return f"<Graph: {self.n_nodes} nodes, {self.n_edges} edges, {kind}>"


def check_options(
    n_nodes: int | None, duplicates: str, self_loops: str, order: str, threads: int | None
) -> None:
    """Raise for an option of `Graph` that is out of range."""
    _check_choice("duplicates", duplicates, DUPLICATES)
    _check_choice("self_loops", self_loops, ("keep", "drop"))
    _check_choice("order", order, ORDERS)
    if n_nodes is not None and arguments.integer("n_nodes", n_nodes) < 0:
        raise ParameterError(f"n_nodes: found {n_nodes}, expected at least 0")
    if threads is not None and arguments.integer("threads", threads) < 1:
        raise ParameterError(f"threads: found {threads}, expected at least 1")


def resolve_rule(duplicates: str, *, weighted: bool) -> str:
    """Return what becomes of an edge that is listed several times: drop, sum or error."""
    return ("sum" if weighted else "drop") if duplicates == "auto" else duplicates


def _check_choice(what: str, given: Any, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ParameterError(f"{what}: found {given!r}, expected one of {', '.join(choices)}")


class NodeOrder(NamedTuple):
    """The order of the nodes in memory.

    Attributes
    ----------
    nodes : ndarray of int32, or None
        Nodes in that order; None is the order of the labels.
    places : ndarray of int32, or None
        Place of each node in it.
    core : slice or None
        Places of the nodes that are left if those without in-links, which come before it, and those without
        out-links, which come after it, are peeled off; None if that does not pay.
    kind : str
        "given" or "degree": what it follows besides.
    """

    nodes: NDArray[Any] | None
    places: NDArray[Any] | None
    core: slice | None
    kind: str


def _choose_order(edges: ListedEdges, n: int, order: str, threads: int) -> NodeOrder:
    if order == "given" or n == 0 or len(edges) == 0:
        return NodeOrder(None, None, None, "given")
    kind = "degree"
    if order == "auto":
        kind = "given" if is_local(count_near(edges), n) else "degree"
    degrees = edges.degrees(threads)
    most = max(degrees.into_last, degrees.out_of_first)  # of the edges are peeled, or more
    core = None
    if most > MIN_PEELED_SHARE * len(edges) and degrees.n_first + degrees.n_last < n:
        core = slice(degrees.n_first, n - degrees.n_last)
    if kind == "given" and core is None:
        return NodeOrder(None, None, None, kind)
    nodes, places = degrees.order(by_degree=kind == "degree", peeled=core is not None)
    return NodeOrder(nodes, places, core, kind)


def count_near(edges: ListedEdges) -> tuple[int, int, int]:
    """Return how many edges of a sample join near nodes, or nodes within reach, and the sample's size."""
    return edges.count_near(NEAR_NODES, REACHED_NODES)


def is_local(counted: Sequence[int], n: int) -> bool:
    """Whether `count_near` has found locality in the order of the input; ``n`` is the number of nodes."""
    near, reached, looked_at = counted
    if near >= MIN_NEAR_SHARE * looked_at:
        return True
    return n >= MIN_REACHES * REACHED_NODES and reached >= MIN_REACHED_SHARE * looked_at
