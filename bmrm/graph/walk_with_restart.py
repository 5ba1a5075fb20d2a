"""Random walk with restart, which is PageRank personalised to a query, for many queries at once."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bmrm.base import arguments, interrupts
from bmrm.base.interrupts import interruptible
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import ParameterError
from bmrm.graph.backends.base import Restarts, Transitions, Walk
from bmrm.graph.backends.choose import transitions_of
from bmrm.graph.backends.host import HOST_BATCH
from bmrm.graph.fixed_point import Callback, Collect, FixedPoint, Goal, Outcome
from bmrm.graph.graph import Graph
from bmrm.graph.keywords import suggesting
from bmrm.graph.page_rank import make_goal, require_room, uses_weights
from bmrm.graph.restart import SHARE_ERROR, restart_vector
from bmrm.graph.results import Walks, proven_ranks
from bmrm.matrix.gpu.cpu_share import parse_share
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.gpu.placement import Placement

MAX_BATCH = 32
"""Columns of one read of the matrix."""


@suggesting
@interruptible
def random_walk(
    graph: Graph,
    queries: Any,
    damping: float = 0.9,
    *,
    top: int | None = 100,
    undirected: bool = False,
    batch: int | None = None,
    dangling: Any = None,
    weighted: bool | None = None,
    tol: float = 1e-8,
    missing: str = "error",
    max_iter: int = 1000,
    max_time: float = math.inf,
    method: str = "auto",
    device: str = "auto",
    gpu_mem: int | str | None = None,
    cpu_share: float | str | None = None,
    callback: Callback | None = None,
) -> Walks:
    """Compute random walks with restart: the share of its time that a walk from a query spends at each node.

    For each query q it solves ``x = d (P' x + m u) + (1 - d) v`` as `pagerank` does, where v restarts at q.

    Parameters
    ----------
    graph : Graph
        Anything that `Graph` takes works too.
    queries : label, or sequence of labels or dicts
        Query nodes; a dict of shares by label is one query of several nodes.
    damping : float, default 0.9
        d, the probability to go on.
    top : int or None, default 100
        Return this number of nodes per query, and stop as soon as their order is proven. None returns all
        scores, an array of shape (n, queries).
    undirected : bool, default False
        Walk along edges in both directions.
    batch : int, optional
        Number of queries per read of the matrix, 1 to 32. Default: up to 16 on a CPU, and up to 32 on a GPU
        if there is room for their vectors.
    dangling : dict, series of pandas or array_like, optional
        Where dangling nodes send their share. Default: back to the query.
    weighted, tol, missing, max_iter, max_time, method, device, gpu_mem, cpu_share, callback
        As in `pagerank`; ``tol`` and ``max_iter`` hold for each query.

    Returns
    -------
    Walks
        If the run is interrupted, it has the queries that were begun.

    Raises
    ------
    ParameterError
        If an option is out of range or a query is no node.
    DeviceMemoryError, BmrmError
        As in `pagerank`.
    Interrupted
        For Ctrl-C; its ``result`` is what was found so far.

    References
    ----------
    Tong, Faloutsos, Pan, "Fast random walk with restart and its applications", ICDM 2006.

    Examples
    --------
    >>> from bmrm.graph import Graph
    >>> G = Graph((["a", "b", "c", "d"], ["b", "c", "a", "a"]))
    >>> walks = random_walk(G, ["a", "d"], top=2)
    >>> [[label for label, _ in walks.top(query)] for query in range(2)]
    [['a', 'b'], ['a', 'b']]
    """
    began = time.perf_counter()
    graph = graph if isinstance(graph, Graph) else Graph(graph, device=device, gpu_mem=gpu_mem)
    peers, wanted = graph.peers, as_queries(queries)
    with peers.guarded():
        with peers.together():
            parse_device(device)
            limit, share = parse_memory_size(gpu_mem), parse_share(cpu_share)
            goal = make_goal(tol, top, max_iter, max_time, method, callback, damping)
            both_ways = arguments.flag("undirected", undirected)
            if batch is not None and not 1 <= arguments.integer("batch", batch) <= MAX_BATCH:
                raise ParameterError(f"batch: found {batch}, expected 1 to {MAX_BATCH}")
            starts = [_restart_of(query, graph, missing) for query in wanted]
            u = restart_vector("dangling", dangling, graph, missing)
            weighs = uses_weights(weighted, graph)
        peers.check_alike(
            {
                "queries": wanted,
                "damping": damping,
                "undirected": undirected,
                "batch": batch,
                "dangling": u,
                "weighted": weighs,
                "gpu_mem": limit,
                **goal.shared_options(),
            }
        )
        graph = graph.undirected() if both_ways else graph
        require_room(graph, "random walks", min(batch or HOST_BATCH, len(starts)))
        weighs = weighs and graph.weighted
        transitions, placement = transitions_of(graph, weighs, device, len(starts), limit, batch, share)
        size = transitions.batch if batch is None else batch
        outcomes, everything, n_products = _run_in_batches(
            transitions, starts, u, size, damping, goal, began + max_time
        )
    seconds = time.perf_counter() - began
    return _gather(outcomes, everything, wanted, graph, top, n_products, seconds, placement)


def _run_in_batches(
    transitions: Transitions,
    starts: list[tuple[Indices, Vector]],
    u: Vector | None,
    size: int,
    damping: float,
    goal: Goal,
    deadline: float,
) -> tuple[list[Outcome], Vector, int]:
    """Return the ends of the walks that were begun, all scores if those are wanted, and the products."""
    outcomes: list[Outcome] = []
    everything = np.empty((len(starts) if goal.top is None else 0, transitions.n))
    n_products = 0
    for first in range(0, len(starts), size):
        left = max(deadline - time.perf_counter(), 0.0)
        walk = _walk(transitions, damping, starts[first : first + size], u)
        collect = None if goal.top is not None else _collect(list(everything[first : first + size]))
        run = FixedPoint(walk, damping, replace(goal, max_time=left), collect)
        outcomes += run.run()
        n_products += run.n_products
        stops = interrupts.requested() or outcomes[-1].status == "interrupted"
        if walk.agree("interrupted" if stops else None):
            break
    return outcomes, everything, n_products


def as_queries(queries: Any) -> list[Any]:
    """Return the queries as a list; a single label or dict is one query."""
    if isinstance(queries, np.ndarray):
        return list(queries.tolist())
    if isinstance(queries, Sequence) and not isinstance(queries, (str, bytes, tuple)):
        return list(queries)
    return [queries]


def _restart_of(query: Any, graph: Graph, missing: str) -> tuple[Indices, Vector]:
    """Return the nodes at which a query restarts, and their shares."""
    if isinstance(query, Mapping):
        vector = restart_vector("queries", query, graph, missing)
        assert vector is not None
        nodes = np.flatnonzero(vector)
        return nodes, vector[nodes]
    return np.array([graph.labels.number("queries", query)]), np.ones(1)


def _walk(
    transitions: Transitions, damping: float, starts: list[tuple[Indices, Vector]], u: Vector | None
) -> Walk:
    restarts = Restarts(
        nodes=np.concatenate([nodes for nodes, _ in starts]),
        shares=np.concatenate([shares for _, shares in starts]),
        columns=np.repeat(np.arange(len(starts)), [len(nodes) for nodes, _ in starts]),
        n_columns=len(starts),
        dangling=u,
        relative_error=SHARE_ERROR,
    )
    return transitions.walk(damping, restarts)


def _collect(into: list[Vector]) -> Collect:
    """Return what takes all scores of walks into a vector for each."""
    return lambda walk, slot, columns, numbers: walk.scores(slot, columns, [into[k] for k in numbers])


def _gather(
    outcomes: list[Outcome],
    everything: Vector,
    queries: list[Any],
    graph: Graph,
    top: int | None,
    n_products: int,
    seconds: float,
    placement: Placement,
) -> Walks:
    count = len(outcomes)
    bounds = np.array([found.error_bound for found in outcomes])
    nodes: Indices | None = None
    proven: Indices | None = None
    if top is None:
        scores = everything[:count].T
    else:
        nodes, scores = np.full((count, top), -1), np.zeros((count, top))
        proven = np.zeros(count, np.int64)
        for row, found in enumerate(outcomes):
            order, values = found.value
            kept = min(top, len(order))
            nodes[row, :kept], scores[row, :kept] = order[:kept], values[:kept]
            proven[row] = min(proven_ranks(values, found.error_bound), kept)
    return Walks(
        nodes,
        scores,
        graph.labels,
        queries[:count],
        bounds,
        np.array([found.residual for found in outcomes]),
        [found.status for found in outcomes],
        np.array([found.n_iter for found in outcomes], np.int64),
        n_products,
        seconds,
        n_products * graph.n_edges / seconds,
        placement,
        proven,
    )
