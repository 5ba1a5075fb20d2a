"""Whether the largest singular value is simple, by comparing the components of hubs and authorities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.graph.graph import Graph
from bmrm.graph.peers import Peers

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

    _, sources, weights = graph.edges_by_target
    n, peers, targets = graph.n_nodes, graph.peers, graph.targets()
    values = np.ones(len(sources)) if weights is None or not weighted else weights
    present = values > 0
    sources, targets, values = sources[present], targets[present], values[present]
    owner = _components(sources, targets, n, peers)
    bound = _bounds(owner, sources, targets, values, peers)
    bound[owner[graph.to_places(np.argmax(authorities))]] = 0.0  # the leader
    rivals = np.flatnonzero(bound >= largest * (1.0 - SAME_VALUE))
    if not len(rivals):
        return True
    kept = np.isin(owner[targets], rivals)
    ends = [peers.joined(part[kept]) for part in (targets, sources)]
    scale = float(peers.largest(np.array([values.max(initial=0.0)]))[0])
    A = csr_array((peers.joined(values[kept]) / scale, (ends[0], ends[1])), shape=(n, n))
    return bool(_largest_values(A, owner, rivals).max() * scale < largest * (1.0 - SAME_VALUE))


def _components(sources: NDArray[Any], targets: NDArray[Any], n: int, peers: Peers) -> NDArray[np.int32]:
    """Return the component of each node as an authority, given the edges of this process."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    def find(ends: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.int32]:
        joined = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(2 * n, 2 * n))
        found: NDArray[np.int32] = connected_components(joined, directed=False)[1]
        return found

    owner = find((targets.astype(np.int64), sources.astype(np.int64) + n))
    if peers.size > 1:  # an edge from each node to the first of its component stands for all edges
        _, first = np.unique(owner, return_index=True)
        nodes = np.flatnonzero(first[owner] != np.arange(2 * n))
        owner = find((peers.joined(nodes), peers.joined(first[owner[nodes]])))
    return owner[:n]


def _bounds(
    owner: NDArray[Any], sources: NDArray[Any], targets: NDArray[Any], values: Vector, peers: Peers
) -> Vector:
    """Return the bound of the largest singular value of each component."""
    n, edge_owner = len(owner), owner[targets]
    sums = [np.bincount(ends, values, minlength=n).astype(np.float64) for ends in (sources, targets)]
    out, into = map(peers.total, sums)
    widest = np.zeros((2, int(owner.max()) + 1))
    np.maximum.at(widest[0], edge_owner, out[sources])
    np.maximum.at(widest[1], edge_owner, into[targets])
    widest = np.sqrt(peers.largest(widest))
    return np.asarray(widest[0] * widest[1])


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
