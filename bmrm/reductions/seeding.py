"""First centres for k-means: k-means++ with several trials per centre, or random rows.

D. Arthur and S. Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007. Each further centre
is the best of 2 + ln k rows drawn with probability proportional to w D^2, as in the authors' implementation.
A pass evaluates all trials at once.
"""

from __future__ import annotations

import math

import numpy as np

from bmrm.base.vectors import Indices
from bmrm.reductions.passes import ClusterPasses


def choose_plus_plus(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k rows by k-means++; if fewer than k are distinct, the rest repeats some at random."""
    trials = 2 + int(math.log(k))
    chosen = np.empty(k, np.int64)
    passes.begin_seeding()
    chosen[0] = passes.draw_by_weight(rng.random(1))[0]
    potential = passes.take_center(int(chosen[0]))
    for j in range(1, k):
        passes.check_signals()
        if potential <= 0.0:
            chosen[j:] = passes.draw_by_weight(rng.random(k - j))
            break
        candidates = passes.draw(rng.random(trials))
        chosen[j] = candidates[int(np.argmin(passes.potentials(candidates)))]
        potential = passes.take_center(int(chosen[j]))
    return chosen


def choose_random(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k different rows of positive weight with probability proportional to the weights."""
    weights = passes.all_weights()
    p = None if weights is None else weights / weights.sum()
    return np.asarray(rng.choice(passes.shape[0], k, replace=False, p=p), np.int64)
