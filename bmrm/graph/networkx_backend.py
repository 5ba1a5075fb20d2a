"""NetworkX's backend: ``nx.pagerank(G, backend="bmrm")`` and ``nx.hits``.

NetworkX converts a graph once and caches what it got; a cached conversion with weights is used again for
calls without weights. So the functions look at their own argument `weight`. Nodes keep the order of
``list(G)``.

References
----------
NetworkX 3.6, ``networkx/utils/backends.py`` and ``doc/reference/backends.rst``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.graph.edges import EdgeList, from_networkx
from bmrm.graph.graph import Graph
from bmrm.graph.hubs_authorities import has_edges
from bmrm.graph.hubs_authorities import hits as find_hits
from bmrm.graph.page_rank import pagerank as rank
from bmrm.graph.results import Ranking

LARGEST_ERROR = 1e-6
"""NetworkX's tolerance counts times the number of nodes, which on large graphs allows any error."""


class ConvertedGraph:
    """A NetworkX graph that was converted.

    Attributes
    ----------
    graph : Graph
    weight : str or None
        The edge attribute that became the weights.
    nodes : list
        The nodes, as NetworkX has them.
    """

    __networkx_backend__ = "bmrm"

    def __init__(
        self, graph: Graph, weight: str | None, directed: bool, multiple: bool, nodes: list[Any]
    ) -> None:
        self.graph, self.weight, self.nodes = graph, weight, nodes
        self._directed, self._multiple = directed, multiple
        self.__networkx_cache__: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.graph.n_nodes

    def __iter__(self) -> Any:
        return iter(self.nodes)

    def is_directed(self) -> bool:
        return self._directed

    def is_multigraph(self) -> bool:
        return self._multiple


def convert_from_nx(
    graph: Any,
    *,
    edge_attrs: dict[str, Any] | None = None,
    node_attrs: dict[str, Any] | None = None,
    preserve_edge_attrs: Any = False,
    preserve_node_attrs: Any = False,
    preserve_graph_attrs: Any = False,
    name: str | None = None,
    graph_name: str | None = None,
) -> ConvertedGraph:
    """Convert a NetworkX graph for the function ``name``."""
    weight = (
        next(iter(edge_attrs))
        if edge_attrs
        else ("weight" if preserve_edge_attrs or name == "hits" else None)
    )
    edges: EdgeList = from_networkx(graph, weight)
    return ConvertedGraph(Graph(edges), weight, graph.is_directed(), graph.is_multigraph(), list(graph))


def convert_to_nx(found: Any, *, name: str | None = None) -> Any:
    """Return results as they are; a graph becomes a NetworkX graph."""
    if not isinstance(found, ConvertedGraph):
        return found
    import networkx

    kinds = {
        (False, False): networkx.Graph,
        (True, False): networkx.DiGraph,
        (False, True): networkx.MultiGraph,
        (True, True): networkx.MultiDiGraph,
    }
    graph = kinds[found.is_directed(), found.is_multigraph()]()
    graph.add_nodes_from(found)
    matrix, labels = found.graph.to_scipy().tocoo(), found.nodes
    ends = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    once = ((labels[u], labels[v], w) for u, v, w in ends if found.is_directed() or u <= v)
    graph.add_weighted_edges_from(once, weight=found.weight or "weight")
    return graph


def pagerank(
    G: ConvertedGraph,
    alpha: float = 0.85,
    personalization: dict[Any, float] | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    nstart: dict[Any, float] | None = None,
    weight: str | None = "weight",
    dangling: dict[Any, float] | None = None,
    *,
    method: str = "auto",
) -> dict[Any, float]:
    """Compute PageRank as ``networkx.pagerank`` does."""
    import networkx

    if len(G) == 0:
        return {}
    for given in (personalization, dangling, nstart):
        if given is not None and not any(given.get(node, 0) for node in G):
            raise ZeroDivisionError("found the sum 0, expected a positive share of some node")
    found: Ranking = rank(
        G.graph,
        alpha,
        personalization=personalization,
        dangling=dangling,
        start=nstart,
        weighted=_counts_weights(G, weight),
        tol=min(tol * len(G), LARGEST_ERROR),
        missing="ignore",
        max_iter=max(max_iter, 1),
        method=method,
    )
    if found.status == "max_iter":
        raise networkx.PowerIterationFailedConvergence(max_iter)
    return dict(zip(G.nodes, found.scores.tolist(), strict=True))


def _counts_weights(G: ConvertedGraph, weight: str | None) -> bool:
    """Return whether the edges count by what was converted.

    A conversion without an attribute has the numbers of parallel edges as its weights.
    """
    if weight != G.weight and (weight is not None or G.is_multigraph()):
        raise NotImplementedError(f"found a conversion with the weights {G.weight!r}, expected {weight!r}")
    return weight == G.weight


def hits(
    G: ConvertedGraph,
    max_iter: int = 100,
    tol: float = 1e-8,
    nstart: dict[Any, float] | None = None,
    normalized: bool = True,
) -> tuple[dict[Any, float], dict[Any, float]]:
    """Compute hubs and authorities as ``networkx.hits`` does."""
    import networkx

    if len(G) == 0:
        return {}, {}
    if not has_edges(G.graph, G.graph.weighted):
        raise networkx.NetworkXError("found no edges, expected at least one")
    found = find_hits(G.graph, tol=min(max(tol, 0.0), 1e-8), max_iter=max(max_iter, 1))
    if found.status == "max_iter":
        raise networkx.PowerIterationFailedConvergence(max_iter)
    hubs, authorities = (
        (vector if normalized else vector / np.max(vector)) for vector in (found.hubs, found.authorities)
    )
    return (
        dict(zip(G.nodes, hubs.tolist(), strict=True)),
        dict(zip(G.nodes, authorities.tolist(), strict=True)),
    )


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Return whether the backend can run a function, or the reason why not."""
    if (
        name == "pagerank"
        and kwargs.get("alpha", 0.85) is not None
        and not 0 <= kwargs.get("alpha", 0.85) < 1
    ):
        return "alpha must be at least 0 and below 1"
    return True
