"""Which backend holds a graph."""

from __future__ import annotations

from bmrm.graph.backends.base import Pair, Transitions
from bmrm.graph.backends.host import HostPair, HostTransitions
from bmrm.graph.graph import Graph


def transitions_of(graph: Graph, weighted: bool) -> Transitions:
    """Return the transition matrix of a graph, which is built once."""
    found: Transitions = graph.resident(("transitions", weighted), lambda: HostTransitions(graph, weighted))
    return found


def pair_of(graph: Graph, weighted: bool) -> Pair:
    """Return the adjacency matrix of a graph and its transpose, which are built once."""
    found: Pair = graph.resident(("pair", weighted), lambda: HostPair(graph, weighted))
    return found
