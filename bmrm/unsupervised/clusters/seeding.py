"""First centres for k-means: k-means++ with several trials per centre, k-means||, or random rows.

D. Arthur and S. Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007. Each further centre
is the best of 2 + ln k rows drawn with probability proportional to w D^2, as in the authors' implementation.
A pass evaluates all trials at once. All random numbers are drawn before, so that rows on a GPU can choose all
centres without the host.

B. Bahmani, B. Moseley, A. Vattani, R. Kumar and S. Vassilvitskii, Scalable k-means++, VLDB 2012, algorithm
2. k-means++ reads the rows twice per centre. A round of k-means|| draws k rows on average, each row by itself
with probability k w D^2 / (sum of w D^2); after some rounds, k-means++ chooses among the rows drawn, each
with the weight of all rows that it is nearest to.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.row_set import RowSet
from bmrm.io.csr import Csr
from bmrm.unsupervised.clusters.passes import ClusterPasses

ROUNDS = 5
"""Rounds of k-means||, each of which draws k rows on average. Inertias are then those of k-means++ or a few
percent less; twice as many rows gain 1 to 4 %."""

MAX_ROUNDS = 1000
"""Rounds of k-means|| until there are k rows; each draws one at least every few times."""


def choose_plus_plus(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k rows by k-means++; if fewer than k are distinct, the rest repeats some at random."""
    trials = 2 + int(math.log(k))
    passes.begin_seeding()
    first = int(passes.draw_by_weight(rng.random(1))[0])
    uniform = rng.random((k - 1, trials))
    chosen = passes.walk(first, uniform)
    if chosen is None:
        chosen = _choose_by_passes(passes, first, uniform)
    rest = uniform[len(chosen) - 1 :, 0]  # of the centres for which no row is left
    return np.concatenate([chosen, passes.draw_by_weight(rest)]) if len(rest) else chosen


def _choose_by_passes(passes: ClusterPasses, first: int, uniform: Vector) -> Indices:
    """Choose rows as `ClusterPasses.walk` does."""
    chosen = [first]
    potential = passes.take_center(first)
    for numbers in uniform:
        passes.check_signals()
        if potential <= 0.0:
            break
        candidates = passes.draw(numbers)
        chosen.append(int(candidates[np.argmin(passes.potentials(candidates))]))
        potential = passes.take_center(chosen[-1])
    return np.array(chosen)


def choose_parallel(passes: ClusterPasses, k: int, rng: np.random.Generator, rows: RowSet) -> Indices:
    """Choose k rows by k-means||; ``rows`` are those here, which the passes are over.

    If fewer than k are distinct, the rest repeats some at random.
    """
    passes.begin_seeding()
    drawn, points = passes.draw_by_weight(rng.random(1)), PointList(rows)
    potential = passes.approach(points.add(passes.take(drawn)))
    for done in range(MAX_ROUNDS):
        if potential <= 0.0 or (done >= ROUNDS and len(drawn) >= k):
            break
        more = passes.draw_each(k, int(rng.integers(2**64, dtype=np.uint64)))
        for some in np.array_split(more, -(-len(more) // k)) if len(more) else ():
            passes.check_signals()
            potential = passes.approach(points.add(passes.take(some)))
        drawn = np.concatenate([drawn, more])
    few = RowSet(points.joined(), passes.nearest_weights(), rows.threads)
    return np.asarray(drawn[choose_plus_plus(passes.passes_over(few, k), k, rng)])


class PointList:
    """Points that are collected, sparse if rows are."""

    def __init__(self, rows: RowSet) -> None:
        self._sparse = rows.sparse
        self._points: list[Any] = []

    def add(self, points: Vector) -> Vector:
        """Add dense points and return them."""
        if self._sparse:
            from scipy.sparse import csr_array

            self._points.append(csr_array(points))
        else:
            self._points.append(points)
        return points

    def joined(self) -> Csr | Vector:
        """Return all points."""
        if self._sparse:
            from scipy.sparse import vstack

            return Csr.from_scipy(vstack(self._points, format="csr"))
        return np.concatenate(self._points)


def choose_random(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k different rows of positive weight with probability proportional to the weights."""
    weights = passes.all_weights()
    p = None if weights is None else weights / weights.sum()
    return np.asarray(rng.choice(passes.shape[0], k, replace=False, p=p), np.int64)
