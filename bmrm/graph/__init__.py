"""Graph mining on a resident matrix: PageRank, random walk with restart and HITS.

Names are loaded on first use: NetworkX imports `bmrm.graph.networkx_info` whenever it is imported itself.
"""

from bmrm.base.on_use import load_on_use

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from bmrm.graph.graph import Graph as Graph
    from bmrm.graph.hubs_authorities import hits as hits
    from bmrm.graph.page_rank import pagerank as pagerank
    from bmrm.graph.read import read_graph as read_graph
    from bmrm.graph.results import Hits as Hits
    from bmrm.graph.results import Ranking as Ranking
    from bmrm.graph.results import Walks as Walks
    from bmrm.graph.shard import GraphShard as GraphShard
    from bmrm.graph.walk_with_restart import random_walk as random_walk

_HOMES = {
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
"""The module of each public name, below ``bmrm.graph``."""

_NEED_MORE = {"GraphShard"}
"""Names that need an optional package: `from bmrm.graph import *` works without it."""

__all__ = sorted({*_HOMES} - _NEED_MORE)

__getattr__, __dir__ = load_on_use(__name__, _HOMES)
