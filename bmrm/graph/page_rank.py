"""PageRank with a proven error."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import interruptible
from bmrm.errors import ParameterError
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.choose import transitions_of
from bmrm.graph.fixed_point import Callback, FixedPoint, Goal
from bmrm.graph.graph import Graph
from bmrm.graph.keywords import suggesting
from bmrm.graph.restart import SHARE_ERROR, restart_vector
from bmrm.graph.results import NO_WORK, Ranking
from bmrm.io.edges import ADVICE
from bmrm.matrix.gpu.cpu_share import parse_share
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.gpu.placement import Placement

METHODS = ("auto", "power", "anderson")

LEAST_VECTORS = 4
"""Vectors of a run that needs no history: two images, the messages and the point."""


@suggesting
@interruptible
def pagerank(
    graph: Graph,
    damping: float = 0.85,
    *,
    personalization: Any = None,
    dangling: Any = None,
    weighted: bool | None = None,
    tol: float = 1e-8,
    top: int | None = None,
    start: Any = None,
    missing: str = "error",
    max_iter: int = 1000,
    max_time: float = math.inf,
    method: str = "auto",
    device: str = "auto",
    gpu_mem: int | str | None = None,
    cpu_share: float | str | None = None,
    callback: Callback | None = None,
) -> Ranking:
    """Compute PageRank, ``x = d (P' x + m u) + (1 - d) v``, to an error that is proven.

    P[i, j] is the weight of the edge from i to j over the sum of the weights of i. A dangling node, whose
    weights sum to 0, sends its share to u; m is the sum of x over these nodes.

    Parameters
    ----------
    graph : Graph
        Anything that `Graph` takes works too.
    damping : float, default 0.85
        d, at least 0 and below 1.
    personalization : dict, series of pandas or array_like, optional
        v: shares by label, or in the order of the labels. Default: all nodes equally.
    dangling : dict, series of pandas or array_like, optional
        u. Default: v.
    weighted : bool, optional
        Default: whether the graph has weights.
    tol : float, default 1e-8
        Largest error, the sum over the nodes of ``|score - exact score|``.
    top : int, optional
        Also stop as soon as the order of the ``top`` first nodes is proven. Equal scores are never in a
        proven order; then ``tol`` ends the run, and ``proven`` says how far the order is proven.
    start : dict, series of pandas or array_like, optional
        Where to start; it changes the time, not the result. Default: v.
    missing : {"error", "ignore"}, default "error"
        What to do with labels of ``personalization``, ``dangling`` and ``start`` that are no nodes.
    max_iter : int, default 1000
    max_time : float, default inf
        Seconds.
    method : {"auto", "power", "anderson"}, default "auto"
        Plain steps, Anderson's acceleration, or that as soon as plain steps prove slow.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        "auto" uses a GPU if there is one and the graph is large enough for it. Of a `bmrm.graph.GraphShard`
        every rank uses a GPU, its own if its machine has enough of them, or none does.
    gpu_mem : int or str, optional
        Device memory to use, in bytes or as "8G" or "500M"; edges that do not fit stream from main memory.
        Default: what is free.
    cpu_share : float or "auto", optional
        The CPU's share, in eighths, of the edges that do not fit on the GPU: it computes with them in main
        memory at the same time (docs/graph.md). None by default, and with "auto".
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value ends with status "interrupted".

    Returns
    -------
    Ranking
        With ``error_bound`` even if the status is not "converged".

    Raises
    ------
    ParameterError
        If an option is out of range or a vector does not fit the graph.
    DeviceMemoryError
        If the vectors of the graph do not fit on the GPU that ``device`` names, or into ``gpu_mem``.
    BmrmError
        If there is no such GPU.
    Interrupted
        For Ctrl-C; its ``result`` is the ranking so far.

    References
    ----------
    Page, Brin, Motwani, Winograd, "The PageRank citation ranking", Stanford InfoLab 1999-66.

    Examples
    --------
    >>> from bmrm.graph import Graph
    >>> ranking = pagerank(Graph((["a", "b", "c"], ["b", "c", "b"])))
    >>> ranking.status, ranking.top(1)[0][0], ranking.error_bound <= 1e-8
    ('converged', 'b', True)
    """
    began = time.perf_counter()
    graph = graph if isinstance(graph, Graph) else Graph(graph, device=device, gpu_mem=gpu_mem)
    peers = graph.peers
    with peers.guarded():
        with peers.together():
            parse_device(device)
            limit, share = parse_memory_size(gpu_mem), parse_share(cpu_share)
            goal = make_goal(tol, top, max_iter, max_time, method, callback, damping)
            v = restart_vector("personalization", personalization, graph, missing)
            u = restart_vector("dangling", dangling, graph, missing)
            first = restart_vector("start", start, graph, missing)
            weighs = uses_weights(weighted, graph)
        peers.check_alike(
            {
                "damping": damping,
                "personalization": v,
                "dangling": u,
                "weighted": weighs,
                "gpu_mem": limit,
                "start": first,
                **goal.shared_options(),
            }
        )
        if graph.n_nodes == 0:
            nowhere = Placement(None, NO_WORK)
            return Ranking(np.zeros(0), graph.labels, 0.0, 0.0, "converged", 0, 0, 0.0, 0.0, nowhere)
        require_room(graph, "pagerank")
        transitions, placement = transitions_of(graph, weighs, device, limit=limit, share=share)
        walk = transitions.walk(damping, Restarts(vector=v, dangling=u, relative_error=SHARE_ERROR))
        run = FixedPoint(walk, damping, goal, lambda at, slot, columns, _: at.scores(slot, columns), first)
        found = run.run()[0]
    seconds = time.perf_counter() - began
    return Ranking(
        found.value,
        graph.labels,
        found.error_bound,
        found.residual,
        found.status,
        found.n_iter,
        run.n_products,
        seconds,
        run.n_products * graph.n_edges / seconds,
        placement,
    )


def require_room(graph: Graph, task: str, columns: int = 1) -> None:
    """Raise `HostMemoryError` on all processes if the least vectors of a task do not fit into one.

    Only what every run needs counts: `Graph.predict_bytes` is an upper bound, which would refuse too much.
    """
    own = graph.own.stop - graph.own.start
    with graph.peers.together():
        require_memory(LEAST_VECTORS * 8 * own * columns, f"the vectors of {task}", ADVICE)


def uses_weights(weighted: bool | None, graph: Graph) -> bool:
    """Return whether edges count by their weights."""
    return graph.weighted if weighted is None else arguments.flag("weighted", weighted) and graph.weighted


def check_limits(tol: float, max_iter: int, max_time: float) -> None:
    """Raise for a limit of a run that is out of range."""
    if not 0 <= arguments.number("tol", tol) < math.inf:
        raise ParameterError(f"tol: found {tol}, expected a finite number of at least 0")
    if arguments.integer("max_iter", max_iter) < 1:
        raise ParameterError(f"max_iter: found {max_iter}, expected at least 1")
    if not arguments.number("max_time", max_time) > 0:
        raise ParameterError(f"max_time: found {max_time}, expected a positive number of seconds")


def make_goal(
    tol: float,
    top: int | None,
    max_iter: int,
    max_time: float,
    method: str,
    callback: Callback | None,
    damping: float,
) -> Goal:
    """Validate the options that end a run."""
    if not 0 <= arguments.number("damping", damping) < 1:
        raise ParameterError(
            f"damping: found {damping}, expected at least 0 and below 1; from 1 on the graph alone does not "
            "define the scores"
        )
    check_limits(tol, max_iter, max_time)
    if top is not None and arguments.integer("top", top) < 1:
        raise ParameterError(f"top: found {top}, expected at least 1")
    if method not in METHODS:
        raise ParameterError(f"method: found {method!r}, expected one of {', '.join(METHODS)}")
    return Goal(tol, top, max_iter, max_time, callback, method)
