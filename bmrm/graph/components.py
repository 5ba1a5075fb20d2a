"""Whether the largest singular value is simple, by comparing the components of hubs and authorities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.graph.graph import Graph

SAME_VALUE = 1e-9
"""Relative distance below which two computed singular values count as equal."""

POWER_STEPS = 200
"""Steps of power iteration that estimate the singular values of the other components, all at once."""


def has_unique_leader(graph: Graph, weighted: bool, authorities: Vector, largest: float) -> bool:
    """Return whether one component alone has the largest singular value.

    Other components whose bound, ``sqrt(||A||_1 ||A||_inf)`` of their part of A, is below it are out of
    question. The values of the rest come from power iteration, and are compared to `SAME_VALUE`.

    Parameters
    ----------
    graph : Graph
    weighted : bool
    authorities : ndarray of float64, shape (n,)
        In the order of the labels; the component of the largest entry is the leader.
    largest : float
        Singular value of the leader.
    """
    from scipy.sparse import csr_array

    starts, sources, weights = graph.edges_by_target
    n = graph.n_nodes
    targets = np.repeat(np.arange(n), np.diff(starts))
    values = np.ones(len(sources)) if weights is None or not weighted else weights
    present = values > 0
    sources, targets, values = sources[present], targets[present], values[present]
    owner = _components(sources, targets, n)
    leader = owner[graph.in_memory_order(np.arange(n) == int(np.argmax(authorities))).argmax()]
    edge_owner = owner[targets]
    rivals = _possible_rivals(edge_owner, sources, targets, values, n, leader, largest)
    if not len(rivals):
        return True
    kept = np.isin(edge_owner, rivals)
    scale = float(values.max())
    A = csr_array((values[kept] / scale, (targets[kept], sources[kept])), shape=(n, n))
    return bool(_largest_values(A, owner, rivals).max() * scale < largest * (1.0 - SAME_VALUE))


def _components(sources: NDArray[Any], targets: NDArray[Any], n: int) -> NDArray[np.int32]:
    """Return the component of each node as an authority."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = targets.astype(np.int64), sources.astype(np.int64) + n
    joined = coo_array((np.ones(len(sources), np.int8), ends), shape=(2 * n, 2 * n))
    owner: NDArray[np.int32] = connected_components(joined, directed=False)[1][:n]
    return owner


def _possible_rivals(
    edge_owner: NDArray[Any],
    sources: NDArray[Any],
    targets: NDArray[Any],
    values: Vector,
    n: int,
    leader: int,
    largest: float,
) -> NDArray[Any]:
    """Return the components, except the leader, whose bound reaches the largest value."""
    count = int(edge_owner.max()) + 1
    out, into = (np.bincount(ends, values, minlength=n) for ends in (sources, targets))
    widest = np.zeros((2, count))
    np.maximum.at(widest[0], edge_owner, out[sources])
    np.maximum.at(widest[1], edge_owner, into[targets])
    bound = np.sqrt(widest[0]) * np.sqrt(widest[1])
    bound[leader] = 0.0
    return np.flatnonzero(bound >= largest * (1.0 - SAME_VALUE))


def _largest_values(A: Any, owner: NDArray[Any], rivals: NDArray[Any]) -> Vector:
    """Return the largest singular value of each rival, by power iteration on all at once."""
    count = int(owner.max()) + 1
    x = np.ones(A.shape[1])
    values = np.zeros(count)
    authorities = A @ x
    for _ in range(POWER_STEPS):
        length = np.sqrt(np.bincount(owner, authorities**2, minlength=count))
        authorities = np.divide(
            authorities, length[owner], out=np.zeros_like(authorities), where=length[owner] > 0
        )
        hubs = A.T @ authorities
        authorities = A @ hubs
        squares = np.sqrt(np.sqrt(np.bincount(owner, authorities**2, minlength=count)))
        if np.allclose(squares, values, rtol=1e-12, atol=0.0):
            break
        values = squares
    return np.asarray(values[rivals])
