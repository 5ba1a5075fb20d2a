"""First centres for k-means: k-means++ with several trials per centre, or random rows.

D. Arthur and S. Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007. Each further centre
is the best of 2 + ln k rows drawn with probability proportional to w D^2, as in the authors' implementation.
A pass evaluates all trials at once.
"""

from __future__ import annotations

import math

import numpy as np

from bmrm.base.interrupts import check_signals
from bmrm.base.vectors import Indices, Vector
from bmrm.reductions.passes import ClusterPasses, Column


def choose_plus_plus(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k rows by k-means++; if fewer than k are distinct, the rest repeats some at random."""
    n, trials = passes.shape[0], 2 + int(math.log(k))
    weights = np.ones(n) if passes.weights is None else passes.weights
    chosen = np.empty(k, np.int64)
    chosen[0] = draw(np.cumsum(weights), rng.random(1))[0]
    closest = passes.new_distances()
    panels = passes.potentials(chosen[:1], closest, take=True)[0]
    for j in range(1, k):
        check_signals()
        cumulative = np.cumsum(panels)
        if cumulative[-1] <= 0.0:
            chosen[j:] = draw(np.cumsum(weights), rng.random(k - j))
            break
        candidates = _draw_rows(passes, cumulative, closest, weights, rng.random(trials))
        best = int(np.argmin(passes.potentials(candidates, closest).sum(axis=1)))
        chosen[j] = candidates[best]
        panels = passes.potentials(chosen[j : j + 1], closest, take=True)[0]
    return chosen


def choose_random(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k different rows of positive weight with probability proportional to the weights."""
    weights = passes.weights
    p = None if weights is None else weights / weights.sum()
    return np.asarray(rng.choice(passes.shape[0], k, replace=False, p=p), np.int64)


def draw(cumulative: Vector, uniform: Vector) -> Indices:
    """Return, for each number in [0, 1), the place that it falls on; places of length 0 are never found.

    Examples
    --------
    >>> draw(np.array([0.0, 1.0, 1.0, 4.0]), np.array([0.0, 0.2, 0.25, 0.999]))
    array([1, 1, 3, 3])
    """
    total = cumulative[-1]
    last = int(np.searchsorted(cumulative, total, "left"))  # rounding of uniform * total may reach the end
    return np.asarray(np.minimum(np.searchsorted(cumulative, uniform * total, "right"), last))


def _draw_rows(
    passes: ClusterPasses, cumulative: Vector, closest: Column, weights: Vector, uniform: Vector
) -> Indices:
    """Draw the panel, and then the row in it with what is left of the same random number."""
    panels = draw(cumulative, uniform)
    found = np.empty(len(uniform), np.int64)
    for t, panel in enumerate(panels.tolist()):
        first = panel * passes.panel_rows
        last = min(first + passes.panel_rows, len(weights))
        distances = passes.read_distances(closest, first, last).astype(np.float64)
        within = np.cumsum(distances * weights[first:last])
        before = cumulative[panel - 1] if panel else 0.0
        rest = (uniform[t] * cumulative[-1] - before) / (cumulative[panel] - before)
        found[t] = first + draw(within, np.array([min(max(rest, 0.0), 1.0)]))[0]
    return found
