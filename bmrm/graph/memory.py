"""What reading a graph and ranking its nodes takes at most, in bytes, before it is done.

The figures follow the arrays of the code, and are upper bounds: repeated edges that are dropped, walks that
need no history and vectors that are not asked for take nothing. A test compares them with what processes use.
"""

from __future__ import annotations

from typing import NamedTuple

TASKS = ("pagerank", "rwr", "hits")

PARSED_EDGE = 24
"""Both ids of an edge as they are parsed, and their numbers; names have numbers only."""

NAMED_EDGE = 8

LISTED_EDGE = 8
"""The numbers of both nodes of an edge; its weight takes `WEIGHT` more."""

WEIGHT = 8

SORTED_EDGE = 16
"""An edge twice, as the sort of edges by target holds it: a key of 8 bytes, and its weight."""

GRAPH_EDGE = 4
"""The source of an edge; row pointers and the order of nodes are `GRAPH_NODE`."""

GRAPH_NODE = 16

ORDER_NODE = 32
"""In-degrees and their order, while nodes are put in order."""

LAYOUT_EDGE = 12
"""An edge in the layout for products, besides the graph; without peeling 6."""

LAYOUT_NODE = 40
"""The factor of what a node sends and, with peeling, rows of both parts of the edges."""

WALK_NODE = 72
"""Scale, lengths of rows, additions, restart and dangling vectors, and scores of the walks of a graph."""

WALK_VECTOR = 8

WALK_VECTORS = 17
"""Images and residuals of Anderson's method, the point and the messages."""

HITS_EDGE = 48
"""What `hits` needs for a while: edges sorted by source, or compared components."""

HITS_VECTORS = 48
"""A basis of 40 vectors, and those of a step."""

EXCHANGE_EDGE = 24
"""An edge on its way to another rank: the numbers of its nodes, their order, and both again as received."""


class GraphSize(NamedTuple):
    """A graph as its input lists it.

    Attributes
    ----------
    n_nodes, n_edges : int
    label_bytes : int
        Of the labels.
    weighted, named, undirected : bool
        Whether edges have weights, nodes have names in the text, and edges count in both directions.
    """

    n_nodes: int
    n_edges: int
    label_bytes: int = 0
    weighted: bool = False
    named: bool = False
    undirected: bool = False

    @property
    def n_kept(self) -> int:
        """Number of edges of the graph, at most."""
        return 2 * self.n_edges if self.undirected else self.n_edges

    @property
    def weight(self) -> int:
        """Bytes of the weight of an edge."""
        return WEIGHT if self.weighted else 0


def reading_bytes(size: GraphSize, ranks: int = 1) -> int:
    """Return the bytes that reading needs, of each rank: its edges, and the labels of all parts."""
    edge = (NAMED_EDGE if size.named else PARSED_EDGE) + size.weight
    return -(-size.n_edges // ranks) * edge + (ranks + 1 if ranks > 1 else 2) * size.label_bytes


def building_bytes(size: GraphSize, ranks: int = 1) -> int:
    """Return the bytes that building the graph needs, with the edges as listed."""
    listed, kept = -(-size.n_edges // ranks), -(-size.n_kept // ranks)
    found = listed * (LISTED_EDGE + size.weight) + kept * (SORTED_EDGE + 3 * size.weight + GRAPH_EDGE)
    if size.undirected:
        found += kept * (LISTED_EDGE + size.weight) + listed * LISTED_EDGE
    if ranks > 1:
        found += kept * (EXCHANGE_EDGE + 2 * size.weight)
    return found + size.n_nodes * (GRAPH_NODE + ORDER_NODE) + 2 * size.label_bytes


def graph_bytes(size: GraphSize, ranks: int = 1) -> int:
    """Return the bytes of the graph itself."""
    return (
        -(-size.n_kept // ranks) * (GRAPH_EDGE + size.weight)
        + size.n_nodes * GRAPH_NODE
        + 2 * size.label_bytes
    )


def matrix_bytes(size: GraphSize, task: str, ranks: int = 1) -> int:
    """Return the bytes of the matrices of a task, besides the graph."""
    edges = -(-size.n_kept // ranks)
    if task == "hits":  # A by source, and the weights scaled
        return edges * (GRAPH_EDGE + HITS_EDGE + 3 * size.weight) + 8 * size.n_nodes
    return edges * (LAYOUT_EDGE + 4 * size.weight) + LAYOUT_NODE * size.n_nodes


def vectors_bytes(size: GraphSize, task: str, columns: int = 1, ranks: int = 1) -> int:
    """Return the bytes of the vectors of a task, at most."""
    own = -(-size.n_nodes // ranks)
    if task == "hits":
        found = own * HITS_VECTORS * 8 + 4 * 8 * size.n_nodes
    else:
        found = own * (WALK_NODE + WALK_VECTORS * WALK_VECTOR * columns) + 8 * size.n_nodes * columns
    exchanged = 16 * size.n_nodes * columns if ranks > 1 else 0
    return found + exchanged


def predict_bytes(size: GraphSize, task: str, columns: int = 1, ranks: int = 1) -> dict[str, int]:
    """Return the bytes by part, of each rank, and the largest sum of parts that are needed at once.

    Examples
    --------
    >>> predict_bytes(GraphSize(1000, 20_000), "pagerank")["peak"]
    608000
    """
    parts = {
        "reading": reading_bytes(size, ranks),
        "building": building_bytes(size, ranks),
        "graph": graph_bytes(size, ranks),
    }
    peak = max(parts["reading"], parts["building"])
    if task in TASKS:
        parts["matrix"] = matrix_bytes(size, task, ranks)
        parts["vectors"] = vectors_bytes(size, task, columns, ranks)
        peak = max(peak, parts["graph"] + parts["matrix"] + parts["vectors"])
    return {**parts, "peak": peak}
