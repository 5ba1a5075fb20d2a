"""Which rank owns which nodes, so that all have about the same work.

Yang, Parthasarathy and Sadayappan (PVLDB 4 (2011) 231) deal rows sorted by length to the GPUs
back and forth, which leaves them with equal numbers of rows and nearly equal numbers of nonzeros, unless a
hub outweighs its round. Here a row costs its entries and a constant for the vectors. The few heavy rows go,
longest first, to the rank with the least work (Graham, SIAM J. Appl. Math. 17 (1969) 416). The many light
ones fill up what is missing, in shares that have the same mix of lengths. So unless a single hub is more than
a rank's share, the work differs by a thousandth, and without hubs rows and nonzeros are balanced each.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector

ROW_ENTRIES = 4
"""Entries that cost as much as the vectors of a row: an iteration on an R-MAT graph of scale 20 takes 1.2 ns
per entry and 5 ns per row."""

HEAVY_SHARE = 2.0**-10
"""A row is heavy if it is more than this share of a rank's work; there are at most 1024 per rank."""

MIXING = 0x9E3779B1
"""2^32 over the golden ratio: rows sorted by their multiples of it, modulo 2^32, are mixed so evenly that
each run of them is a fair sample of all."""


def deal_nodes(in_degree: Indices, ranks: int) -> tuple[NDArray[Any], Indices]:
    """Deal nodes to ranks; those of a rank descend by in-degree, ties by number.

    Parameters
    ----------
    in_degree : ndarray of int64, shape (n,)
    ranks : int

    Returns
    -------
    order : ndarray of int64, shape (n,)
        The nodes, those of rank 0 first.
    bounds : ndarray of int64, shape (ranks + 1,)
        Rank r owns the nodes ``order[bounds[r]:bounds[r + 1]]``.

    Examples
    --------
    >>> deal_nodes(np.array([1, 9, 1, 4, 1, 1]), 2)
    (array([1, 2, 5, 3, 0, 4]), array([0, 3, 6]))
    """
    by_degree = np.argsort(-in_degree, kind="stable")
    costs = (in_degree[by_degree] + ROW_ENTRIES).astype(np.float64)
    heavy = int(np.searchsorted(-costs, -HEAVY_SHARE * costs.sum() / ranks))
    owner = np.empty(len(costs), np.int64)
    loads = _deal_heavy(costs[:heavy], owner, ranks)
    _deal_light(costs[heavy:], owner[heavy:], _shares(loads, costs[heavy:].sum()))
    bounds = np.cumsum([0, *np.bincount(owner, minlength=ranks)])
    return by_degree[np.argsort(owner, kind="stable")], bounds


def _deal_heavy(costs: Vector, owner: Indices, ranks: int) -> Vector:
    """Give each row to the rank with the least work; return the work of each."""
    loads = [(0.0, rank) for rank in range(ranks)]
    for row, cost in enumerate(costs.tolist()):
        load, owner[row] = loads[0]
        heapq.heapreplace(loads, (load + cost, int(owner[row])))
    found = np.empty(ranks)
    for load, rank in loads:
        found[rank] = load
    return found


def _shares(loads: Vector, rest: float) -> Vector:
    """Split what is left so that the ranks with the least work come up to the same level."""
    ascending = np.sort(loads)
    levels = (rest + np.cumsum(ascending)) / np.arange(1, len(loads) + 1)
    level = levels[np.flatnonzero(levels > ascending)[-1]] if rest > 0 else ascending[0]
    return np.asarray(np.maximum(level - loads, 0.0))


def _deal_light(costs: Vector, owner: Indices, shares: Vector) -> None:
    """Cut the rows, mixed by length, into runs with these shares of the work."""
    mixed = np.argsort(np.arange(len(costs), dtype=np.uint32) * np.uint32(MIXING), kind="stable")
    middle = np.cumsum(costs[mixed]) - 0.5 * costs[mixed]
    owner[mixed] = np.minimum(np.searchsorted(np.cumsum(shares), middle), len(shares) - 1)


def cut_nodes(in_degree: Indices, ranks: int) -> Indices:
    """Return the bounds of runs of nodes with about the same work, which keep the order of the nodes."""
    work = np.cumsum(in_degree + float(ROW_ENTRIES))
    total = work[-1] if len(work) else 0.0
    bounds = np.searchsorted(work, total * np.arange(ranks + 1) / ranks)
    bounds[-1] = len(work)
    return bounds.astype(np.int64)
