"""Graph mining on a resident matrix: PageRank, random walk with restart and HITS.

Names are loaded on first use: NetworkX imports `bmrm.graph.networkx_info` whenever it is imported itself.
"""

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm.graph.graph import Graph as Graph
    from bmrm.graph.hubs_authorities import hits as hits
    from bmrm.graph.page_rank import pagerank as pagerank
    from bmrm.graph.read import read_graph as read_graph
    from bmrm.graph.results import Hits as Hits
    from bmrm.graph.results import Ranking as Ranking
    from bmrm.graph.results import Walks as Walks
    from bmrm.graph.shard import GraphShard as GraphShard
    from bmrm.graph.walk_with_restart import random_walk as random_walk

_MODULES = {
    "Graph": "graph",
    "GraphShard": "shard",
    "Hits": "results",
    "Ranking": "results",
    "Walks": "results",
    "hits": "hubs_authorities",
    "pagerank": "page_rank",
    "random_walk": "walk_with_restart",
    "read_graph": "read",
}
"""The module of each public name."""

_NEED_MORE = {"GraphShard"}
"""Names that need an optional package: `from bmrm.graph import *` works without it."""

__all__ = sorted({*_MODULES} - _NEED_MORE)


def __getattr__(name: str) -> "Any":
    if name not in _MODULES:
        raise AttributeError(f"module 'bmrm.graph' has no attribute {name!r}")
    from importlib import import_module

    value = import_module(f"bmrm.graph.{_MODULES[name]}").__dict__[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
