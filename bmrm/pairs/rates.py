"""What a candidate takes on this machine: measured when it matters, and kept.

A kernel counts the pairs of random points once for each number of axes and size of table, for some hundredths
of a second, and the time is kept with the rates of the kind of processor (`bmrm.matrix.gpu.cache`). Short
counts use the constants of `bmrm.pairs.work`. Plans depend on these times; counts do not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bmrm.matrix.gpu import cache
from bmrm.pairs.work import BINS_SHARE

if TYPE_CHECKING:
    from bmrm.pairs.passes import PairPasses

MIN_MEASURED_SECONDS = 0.5
"""Counts that are predicted to take longer on one core are worth a measurement."""

CROWDS = (8, 64, 512)
"""Points of a cell for which cells are measured: few of them leave vectors half empty."""

_known: dict[tuple[str, str], float] = {}


def seconds_per_candidate(
    passes: PairPasses, kernel: str, axes: int, bins: int, candidates: float, crowd: float = 0.0
) -> float:
    """Return the time of a candidate on one core, or on a GPU.

    - ``crowd``: points of a cell, if there are cells
    """
    predicted = passes.seconds(kernel, axes, bins)
    if predicted * candidates < MIN_MEASURED_SECONDS or not axes:
        return predicted
    size = next((most for most, _ in BINS_SHARE if bins <= most), 1 << 17)
    name, points = f"pairs {kernel} {axes} {size}", 0
    if kernel == "cells":
        points = min(CROWDS, key=lambda each: abs(math.log(each / max(crowd, 1.0))))
        name += f" {points}"
    key = passes.machine, name
    if key not in _known:
        found = cache.read_record(passes.machine).times.get(name)
        if found is None:
            found = _measure(passes, kernel, axes, size, points)
            cache.save_time(passes.machine, name, found)
        _known[key] = found
    return _known[key]


def _measure(passes: PairPasses, kernel: str, axes: int, bins: int, crowd: int = 0) -> float:
    """Count the pairs of random points of a unit cube; return the time of a candidate.

    - ``crowd``: points of a cell, which is half as long as the reach; 0 for all pairs
    """
    points = np.random.default_rng(0).random((axes, passes.sample_points[kernel]))
    reach = 2.0 * (crowd / points.shape[1]) ** (1.0 / axes) if crowd else math.sqrt(axes)
    placed = passes.place(points, np.zeros(axes))
    counter = passes.counter(placed, None, np.linspace(0.0, reach, bins + 1) ** 2, kernel, "nearest")
    counter.count(0, 1, 1)  # starts what the first call has to start
    began = passes.clock()
    _, candidates, _ = counter.count(0, counter.tasks, 1)
    return max(1e-9, passes.clock() - began) / max(1.0, candidates)
