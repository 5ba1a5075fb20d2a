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

from bmrm.base import arguments
from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.reading import MAX_ABSOLUTE_VALUE
from bmrm.distributed.row_set import RowSet
from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.device_arrays import read_back
from bmrm.unsupervised.clusters.passes import ClusterPasses
from bmrm.unsupervised.scales import Scales

ROUNDS = 5
"""Rounds of k-means||, each of which draws k rows on average. Inertias are then those of k-means++ or a few
percent less; twice as many rows gain 1 to 4 %."""

MAX_ROUNDS = 1000
"""Rounds of k-means|| until there are k rows; each draws one at least every few times."""


def first_centers(
    init: Any, passes: ClusterPasses, rows: RowSet | None, k: int, rng: np.random.Generator, scales: Scales
) -> Vector:
    """Return the first centres of a name, of a callable, or those given, for passes over scaled rows.

    - ``rows``: those of the user, for k-means|| and a callable
    """
    if isinstance(init, np.ndarray):
        return scales.scaled(init)
    if init == "k-means++":
        return passes.take(choose_plus_plus(passes, k, rng))
    if init == "random":
        return passes.take(choose_random(passes, k, rng))
    assert rows is not None
    if init == "k-means||":
        return passes.take(choose_parallel(passes, k, rng, rows))
    if rows.ranks > 1:
        raise ParameterError("init: found a callable for rows on several ranks, expected a name or centres")
    made = check_centers(read_back(init(rows.X.given, k, rng)), k, passes.shape[1])
    with np.errstate(over="ignore"):
        centers = scales.scaled(made)
    if not np.isfinite(centers).all():
        raise ParameterError("init: found centres that float64 cannot represent in the units of the rows")
    return centers


def check_centers(given: Any, k: int, columns: int) -> Vector:
    """Return first centres of a user as a copy, validated."""
    found = arguments.numbers("init", given, ParameterError)
    if found.shape != (k, columns):
        raise ParameterError(f"init: found shape {found.shape}, expected {(k, columns)}")
    check_values("init", found)
    return np.array(found)


def check_values(what: str, centers: Vector) -> None:
    """Raise `ParameterError` for centres that are not finite or too large."""
    arguments.check_finite(what, centers, ParameterError)
    largest = float(np.abs(centers).max())
    if largest > MAX_ABSOLUTE_VALUE:
        raise ParameterError(
            f"{what}: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
        )


def choose_plus_plus(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k rows by k-means++; if fewer than k are distinct, the rest repeats some at random."""
    trials = 2 + int(math.log(k))
    passes.begin_seeding()
    first = int(passes.draw_by_weight(rng.random(1))[0])
    uniform = rng.random((k - 1, trials))
    chosen = passes.choose_centers(first, uniform)
    if chosen is None:
        chosen = _choose_by_passes(passes, first, uniform)
    rest = uniform[len(chosen) - 1 :, 0]  # of the centres for which no row is left
    return np.concatenate([chosen, passes.draw_by_weight(rest)]) if len(rest) else chosen


def _choose_by_passes(passes: ClusterPasses, first: int, uniform: Vector) -> Indices:
    """Choose rows as `ClusterPasses.choose_centers` does."""
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
    if rows.sparse:
        from scipy.sparse import csr_array, vstack

    points: list[Any] = []

    def approach(some: Indices) -> float:
        found = passes.take(some)
        points.append(csr_array(found) if rows.sparse else found)
        return passes.approach(found)

    passes.begin_seeding()
    drawn = passes.draw_by_weight(rng.random(1))
    potential = approach(drawn)
    for done in range(MAX_ROUNDS):
        if potential <= 0.0 or (done >= ROUNDS and len(drawn) >= k):
            break
        more = passes.draw_each(k, int(rng.integers(2**64, dtype=np.uint64)))
        for some in np.array_split(more, -(-len(more) // k)) if len(more) else ():
            passes.check_signals()
            potential = approach(some)
        drawn = np.concatenate([drawn, more])
    joined = Csr.from_scipy(vstack(points, format="csr")) if rows.sparse else np.concatenate(points)
    few = RowSet(joined, passes.nearest_weights(), rows.threads)
    return np.asarray(drawn[choose_plus_plus(passes.passes_over(few, k), k, rng)])


def choose_random(passes: ClusterPasses, k: int, rng: np.random.Generator) -> Indices:
    """Choose k different rows of positive weight with probability proportional to the weights."""
    weights = passes.all_weights()
    p = None if weights is None else weights / weights.sum()
    return np.asarray(rng.choice(passes.shape[0], k, replace=False, p=p), np.int64)
