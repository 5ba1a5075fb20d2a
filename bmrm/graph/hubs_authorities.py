"""HITS: hubs and authorities by the Golub-Kahan process.

The hub and authority vectors are the singular vectors of the largest singular value s of the adjacency matrix
A: A a = s h, A' h = s a (Kleinberg, J. ACM 46 (1999) 604). The Golub-Kahan process takes the best pair of the
Krylov space (Golub, Kahan, SIAM J. Numer. Anal. 2 (1965) 205): after 7 to 23 double products on the graphs of
``benchmarks/cpu/graph.py``. It keeps the authorities orthogonal, which keeps the hubs so (Simon, Zha,
SIAM J. Sci. Comput. 21 (2000) 2257), and restarts with the best pair when the basis is full. The residual
that is reported comes from products of its own.

Which vectors? If A A' is reducible, the largest singular value may belong to several of its components; then
the vectors are not unique, and the process returns the projection of the vector of ones, a nonnegative
choice. Components are those of the graph that joins u, as a hub, to v, as an authority, for each edge. Within
one component the singular value is simple (Perron, Frobenius).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bmrm.base import interrupts
from bmrm.base.interrupts import interruptible
from bmrm.graph.backends.base import Pair
from bmrm.graph.backends.choose import pair_of
from bmrm.graph.components import has_unique_leader
from bmrm.graph.graph import Graph
from bmrm.graph.keywords import suggesting
from bmrm.graph.page_rank import check_limits, require_room, uses_weights
from bmrm.graph.results import NO_WORK, Hits
from bmrm.matrix.gpu.cpu_share import parse_share
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.gpu.placement import Placement

MAX_BASIS = 40
"""Vectors of the basis before a restart: they take 320 bytes per node."""

ROUNDING = 4 * 2.0**-52
"""Residual relative to the singular value below which a product in float64 shows nothing."""


@suggesting
@interruptible
def hits(
    graph: Graph,
    *,
    weighted: bool | None = None,
    tol: float = 1e-8,
    max_iter: int = 500,
    max_time: float = math.inf,
    device: str = "auto",
    gpu_mem: int | str | None = None,
    cpu_share: float | str | None = None,
) -> Hits:
    """Compute hubs and authorities.

    Parameters
    ----------
    graph : Graph
        Anything that `Graph` takes works too.
    weighted : bool, optional
        Default: whether the graph has weights.
    tol : float, default 1e-8
        Largest residual, relative to the singular value.
    max_iter : int, default 500
        Steps of the Golub-Kahan process; each takes a product with A and one with its transpose.
    max_time : float, default inf
        Seconds.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
    gpu_mem : int or str, optional
    cpu_share : float or "auto", optional
        As in `pagerank`.

    Returns
    -------
    Hits
        Nonnegative, each vector with sum 1. A graph without edges has equal scores.

    Raises
    ------
    ParameterError
        If an option is out of range.
    DeviceMemoryError, BmrmError
        As in `pagerank`.
    Interrupted
        For Ctrl-C; its ``result`` is what was found so far.

    References
    ----------
    Kleinberg, "Authoritative sources in a hyperlinked environment", J. ACM 46 (1999) 604.

    Examples
    --------
    >>> from bmrm.graph import Graph
    >>> found = hits(Graph((["a", "a", "b"], ["x", "y", "x"])))
    >>> found.top(2), found.unique
    ([('x', 0.618...), ('y', 0.381...)], True)
    """
    began = time.perf_counter()
    graph = graph if isinstance(graph, Graph) else Graph(graph, device=device, gpu_mem=gpu_mem)
    peers = graph.peers
    with peers.guarded():
        with peers.together():
            check_limits(tol, max_iter, max_time)
            parse_device(device)
            limit, share = parse_memory_size(gpu_mem), parse_share(cpu_share)
            weighs = uses_weights(weighted, graph)
        peers.check_alike({"weighted": weighs, "tol": tol, "max_iter": max_iter, "gpu_mem": limit})
        if not has_edges(graph, weighs):
            even = np.full(graph.n_nodes, 1.0 / max(graph.n_nodes, 1))
            alone, nowhere = partial(bool, graph.n_nodes <= 1), Placement(None, NO_WORK)
            return Hits(even, even, graph.labels, 0.0, 0.0, 0.0, 0.0, "converged", 0, 0, 0.0, nowhere, alone)
        require_room(graph, "HITS")
        pair, placement = pair_of(graph, weighs, device, limit, share)
        found = golub_kahan(pair, tol, max_iter, began + max_time)
        hubs = pair.hub_scores(found.hubs)
        authorities = pair.authority_scores(found.authorities)
        residual = _residual(pair, found)
    gap = 1.0 - found.second / found.first
    value = math.ldexp(found.first, pair.exponent)
    return Hits(
        hubs,
        authorities,
        graph.labels,
        value,
        gap,
        residual,
        residual / gap if gap > 0 else math.inf,
        found.status,
        found.n_iter,
        2 * found.n_iter + 3 + pair.fewer_hubs,
        time.perf_counter() - began,
        placement,
        partial(has_unique_leader, graph, weighs, authorities, value),
    )


def has_edges(graph: Graph, weighted: bool) -> bool:
    """Return whether any edge counts."""
    if not weighted:
        return graph.n_edges > 0
    return float(graph.peers.largest(np.array([graph.rows.weight_bound]))[0]) > 0


class Triplet(NamedTuple):
    """The best singular triplet of a Krylov space, and how it was found."""

    hubs: Any
    authorities: Any
    first: float
    second: float
    status: str
    n_iter: int


def golub_kahan(pair: Pair, tol: float, max_iter: int, deadline: float) -> Triplet:
    """Find the largest singular triplet of A, starting from authorities that are all equal.

    With B the bidiagonal matrix of the process, A V = U B and A' U = V B' + b v e', e the last unit vector.
    So for a triplet (s, p, q) of B the pair h = U p, a = V q has the residuals 0 and b |p_last|. If hubs are
    shorter vectors, A' takes the place of A: they are kept orthogonal, and the start is a product later.
    """
    interrupts.set_signal_mode(pair.signal_mode)  # the process ends after the step that a signal arrives in
    V, k = [pair.start()], 0
    there: Callable[[Any], Any] = pair.hubs
    back: Callable[[Any], Any] = pair.authorities
    if pair.fewer_hubs:
        V = [pair.orthogonalise(pair.hubs(V[0]), [])[0]]
        there, back = pair.authorities, pair.hubs
    B = np.zeros((MAX_BASIS, MAX_BASIS))
    last: list[Any] = []  # the last u
    second, n_iter = 0.0, 0
    while True:
        u, alpha = pair.orthogonalise(there(V[k]), last)  # A v less its part along the u before
        last, B[k, k] = [u], alpha
        w, beta = pair.orthogonalise(back(u), V)  # A' u - alpha v
        n_iter += 1
        left, values, right = np.linalg.svd(B[: k + 1, : k + 1])
        residual, first = beta * abs(left[k, 0]), float(values[0])
        second = max(second, float(values[1])) if k else second
        status = pair.agree(_status(residual, first, tol, n_iter, max_iter, deadline))
        if status is None and k + 1 < MAX_BASIS:
            V.append(w)
            B[k, k + 1] = beta
            k += 1
            continue
        best = pair.combine(V, right[0])
        if status is not None:
            other, _ = pair.orthogonalise(there(best), [])  # A a = s h
            hubs, authorities = (best, other) if pair.fewer_hubs else (other, best)
            return Triplet(hubs, authorities, first, min(second, first), status, n_iter)
        V, last, k, B[:] = [best], [], 0, 0.0


def _status(
    residual: float, first: float, tol: float, n_iter: int, max_iter: int, deadline: float
) -> str | None:
    """Return why the process ends now; None if it goes on."""
    if residual <= tol * first:
        return "converged"
    if residual <= ROUNDING * first:
        return "precision"
    if interrupts.requested():
        return "interrupted"
    if time.perf_counter() >= deadline:
        return "max_time"
    return "max_iter" if n_iter >= max_iter else None


def _residual(pair: Pair, found: Triplet) -> float:
    """Return the larger of ||A a - s h|| and ||A' h - s a||, relative to s, by products of their own."""
    sides = (
        (pair.hubs(found.authorities), found.hubs),
        (pair.authorities(found.hubs), found.authorities),
    )
    return max(pair.distance(product, found.first, vector) for product, vector in sides) / found.first
