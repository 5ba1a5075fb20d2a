"""What a kernel takes on this machine: measured when it matters, and kept.

A kernel counts the pairs of random points once for each number of axes and size of table, for some hundredths
of a second; cells are counted a second time with few points in each, which shows what a point takes besides
its candidates. The times are kept with the rates of the kind of processor (`bmrm.matrix.gpu.cache`). Short
counts use the constants of `bmrm.pairs.work`. Plans depend on these times; counts do not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bmrm.matrix.gpu import cache
from bmrm.pairs.work import BINS_SHARE, Rate

if TYPE_CHECKING:
    from bmrm.pairs.passes import PairPasses

MIN_MEASURED_SECONDS = 0.5
"""Counts that are predicted to take longer on one core are worth a measurement."""

FULL, SPARSE = 512, 1
"""Points of a cell half as long as the reach: so many that candidates are all, and so few that points are."""


def rate(passes: PairPasses, kernel: str, axes: int, bins: int, points: int, candidates: float) -> Rate:
    """Return what a kernel takes for so many points and candidates."""
    predicted = passes.rate(kernel, axes, bins, points)
    if predicted.seconds(points, candidates) < MIN_MEASURED_SECONDS or not axes:
        return predicted
    size = next((most for most, _ in BINS_SHARE if bins <= most), 1 << 17)
    name, crowd = f"pairs {kernel} {axes} {size}", FULL if kernel == "cells" else 0

    def candidate() -> float:
        seconds, found = _measure(passes, kernel, axes, size, crowd)
        return seconds / max(1.0, found)

    each, point = cache.known_time(passes.machine, name, candidate), 0.0
    if kernel == "cells":
        sample = passes.sample_points[kernel]

        def of_point() -> float:
            seconds, found = _measure(passes, kernel, axes, size, SPARSE)
            return max(0.1 * seconds, seconds - found * each) / sample / passes.growth(axes, sample)

        point = cache.known_time(passes.machine, f"{name} point", of_point) * passes.growth(axes, points)
    return predicted._replace(candidate=each, point=point)


def _measure(passes: PairPasses, kernel: str, axes: int, bins: int, crowd: int = 0) -> tuple[float, float]:
    """Count the pairs of random points of a unit cube; return the time, and the number of candidates.

    - ``crowd``: points of a cell, which is half as long as the reach; 0 for all pairs
    """
    points = np.random.default_rng(0).random((axes, passes.sample_points[kernel]))
    reach = 2.0 * (crowd / points.shape[1]) ** (1.0 / axes) if crowd else math.sqrt(axes)
    placed = passes.place(points, np.zeros(axes))
    bounds = np.linspace(0.0, reach, bins + 1) ** 2
    # Starts what the first call has to.
    passes.counter(placed, None, bounds, kernel, "nearest", 1).count(0, 1, 1)
    began = passes.clock()
    counter = passes.counter(placed, None, bounds, kernel, "nearest", 1)
    _, candidates, _ = counter.count(0, counter.tasks, 1)
    return max(1e-9, passes.clock() - began), candidates
