"""NetworkX's backend: ``nx.pagerank(G, backend="bmrm")`` and ``nx.hits``.

NetworkX converts a graph once and caches what it got; a cached conversion with weights is used again for
calls without weights. So the functions look at their own argument `weight`. Nodes keep the order of
``list(G)``. What NetworkX takes and this package refuses, such as negative weights, is left to NetworkX: it
runs a call itself after `NotImplementedError`.

References
----------
NetworkX 3.6, ``networkx/utils/backends.py`` and ``doc/reference/backends.rst``.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from bmrm.errors import DataError, ParameterError
from bmrm.graph.edges import from_networkx
from bmrm.graph.graph import Graph
from bmrm.graph.hubs_authorities import has_edges
from bmrm.graph.hubs_authorities import hits as find_hits
from bmrm.graph.page_rank import pagerank as rank
from bmrm.graph.results import Ranking

LARGEST_ERROR = 1e-6
"""NetworkX's tolerance counts times the number of nodes, which on large graphs allows any error."""

PROVING_STEPS = 10_000
"""Most iterations after those of NetworkX, which ends at residuals that prove less."""

STEPS_OF_RESTART = 20
"""Steps that one iteration of NetworkX's `hits` stands for: restarts of ARPACK, with as many vectors."""


class ConvertedGraph:
    """A NetworkX graph that was converted.

    Attributes
    ----------
    graph : Graph
    weight : str or None
        The edge attribute that became the weights; without one, parallel edges count by their number.
    nodes : list
        The nodes, as NetworkX has them.
    """

    __networkx_backend__ = "bmrm"

    def __init__(self, given: Any, weight: str | None) -> None:
        edges = from_networkx(given, weight)
        self._directed, self._multiple = bool(given.is_directed()), bool(given.is_multigraph())
        # For calls without weights, which get this conversion too.
        self._parallel = edges if self._multiple and weight is not None else None
        self.graph, self.weight, self.nodes = Graph(edges), weight, list(given)
        self.__networkx_cache__: dict[str, Any] = {}

    def without_weights(self) -> Graph:
        """Return the graph with weights that count parallel edges, if there may be any."""
        if self._parallel is None:
            return self.graph
        ones = replace(self._parallel, weight=np.ones(len(self._parallel.source)))
        found: Graph = self.graph.resident("without weights", lambda: Graph(ones))
        return found

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
    with _left_to_networkx():
        return ConvertedGraph(graph, weight)


@contextlib.contextmanager
def _left_to_networkx() -> Iterator[None]:
    """Leave what is refused to NetworkX."""
    try:
        yield
    except (DataError, ParameterError) as error:
        raise NotImplementedError(str(error)) from error


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
    if max_iter <= 0:
        raise networkx.PowerIterationFailedConvergence(max_iter)
    for given in (personalization, dangling, nstart):
        if given is not None and not any(given.get(node, 0) for node in G):
            raise ZeroDivisionError("found the sum 0, expected a positive share of some node")
    graph, weighted = _graph_of(G, weight)
    options: dict[str, Any] = {
        "personalization": personalization,
        "dangling": dangling,
        "weighted": weighted,
        "tol": min(tol * len(G), LARGEST_ERROR),
        "missing": "ignore",
        "method": method,
    }
    with _left_to_networkx():
        found: Ranking = rank(graph, alpha, start=nstart, max_iter=max_iter, **options)
        if found.status == "max_iter" and found.residual < tol * len(G):  # where NetworkX would have ended
            found = rank(graph, alpha, start=found.scores, max_iter=PROVING_STEPS, **options)
    if found.status == "max_iter":
        raise networkx.PowerIterationFailedConvergence(max_iter)
    return dict(zip(G.nodes, found.scores.tolist(), strict=True))


def _graph_of(G: ConvertedGraph, weight: str | None) -> tuple[Graph, bool]:
    """Return the graph whose weights a call asks for, and whether they count."""
    if weight == G.weight:
        return G.graph, True
    if weight is not None:
        raise NotImplementedError(f"found a conversion with the weights {G.weight!r}, expected {weight!r}")
    return G.without_weights(), G.is_multigraph()


def hits(
    G: ConvertedGraph,
    max_iter: int = 100,
    tol: float = 1e-8,
    nstart: dict[Any, float] | None = None,
    normalized: bool = True,
    *,
    method: str = "power_iteration",
) -> tuple[dict[Any, float], dict[Any, float]]:
    """Compute hubs and authorities as ``networkx.hits`` does, whichever of its methods is named."""
    import networkx

    if method not in ("power_iteration", "svd"):
        raise ValueError(f"method not supported: {method}")
    if len(G) == 0:
        return {}, {}
    if max_iter <= 0:
        raise networkx.PowerIterationFailedConvergence(max_iter)
    if not has_edges(G.graph, G.graph.weighted):
        raise networkx.NetworkXError("found no edges, expected at least one")
    with _left_to_networkx():
        found = find_hits(G.graph, tol=min(max(tol, 0.0), 1e-8), max_iter=STEPS_OF_RESTART * max_iter)
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
    if name != "pagerank":
        return True
    try:
        alpha = inspect.signature(pagerank).bind_partial(*args, **kwargs).arguments.get("alpha", 0.85)
    except TypeError as error:
        return str(error)
    if not isinstance(alpha, Real) or not 0 <= float(alpha) < 1:
        return "alpha must be at least 0 and below 1"
    return True
