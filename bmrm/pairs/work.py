"""The predicted work of counting pairs: seconds per candidate, bytes, and rates that were measured.

Times are those of a candidate, a pair whose distance is computed, on one core. They depend on the kernel, on
the number of axes and on the number of bins: tables that leave the first or second cache are slower. The
constants here are of an AMD EPYC with AVX-512; what a machine does is measured when a count is long enough
for it to matter, and kept with the rates of its GPU (`bmrm.matrix.gpu.cache`).
"""

from __future__ import annotations

from bmrm.matrix.gpu.work import MULTIPROCESSORS, Work, cpu_seconds, pinning_seconds

PAIR_SECONDS = {"float64": 2.4e-9, "brute": 2.5e-10, "cells": 4e-10}
"""Time of a candidate in three dimensions with 100 bins."""

AXIS_SHARE = {"float64": 0.06, "brute": 0.12, "cells": 0.12}
"""Share of that time by which each axis more or less makes it longer or shorter."""

BINS_SHARE = ((128, 1.0), (1024, 1.5), (16384, 2.8))
"""Factors of the time for at most so many bins."""

MOST_BINS_SHARE = 10.0
"""The factor for more bins."""

GPU_PAIR_SECONDS = {"float64": 1.4e-12, "brute": 5.5e-13, "cells": 3e-12}
"""Time of a candidate on an NVIDIA H100, in three dimensions with 100 bins."""

CELL_SECONDS = 1.5e-7
"""Time to sort a point into cells."""

MIN_SHARED_SECONDS = 1e-3
"""Predicted time of a count from which on more threads than one pay: each has tables of its own."""

CALL_SECONDS = 3e-4
"""Time of a call besides its candidates."""

TASK_PAIRS = 2.5e5
"""Pairs of a task, about."""

GPU_STEPS = 10.0
"""Calls of compiled code on a GPU that the host waits for."""

POINT_BYTES = {"float64": 8, "brute": 20, "cells": 40}
"""Memory per coordinate of a point: as float64, as float32 about centres, with the cells."""

PLACING_BYTES = 20
"""Memory of a point on a GPU while it is sorted, besides its coordinates before and after."""

CELL_BYTES = 56
"""Memory of a point on a GPU while it is sorted into cells, besides its coordinates."""

TABLE_BYTES = 8
"""Memory of a bin in the table of a thread."""

THREAD_BYTES = 1 << 21
"""Memory of a thread besides that: tables of 32 bits, in several copies, and the points of a block."""


def bins_share(bins: int) -> float:
    """Return the factor of a candidate's time for so many bins.

    Examples
    --------
    >>> bins_share(100), bins_share(1000), bins_share(10**6)
    (1.0, 1.5, 10.0)
    """
    return next((share for most, share in BINS_SHARE if bins <= most), MOST_BINS_SHARE)


def cpu_pair_seconds(kernel: str, axes: int, bins: int) -> float:
    """Return the time of a candidate on one core."""
    return PAIR_SECONDS[kernel] * _shape_share(kernel, axes, bins)


def gpu_pair_seconds(kernel: str, axes: int, bins: int, multiprocessors: float = MULTIPROCESSORS) -> float:
    """Return the time of a candidate on a GPU."""
    return GPU_PAIR_SECONDS[kernel] * _shape_share(kernel, axes, bins) * MULTIPROCESSORS / multiprocessors


def _shape_share(kernel: str, axes: int, bins: int) -> float:
    return max(0.5, 1.0 + AXIS_SHARE[kernel] * (axes - 3)) * bins_share(bins)


def host_bytes(kernel: str, points: int, axes: int, bins: int, threads: int) -> int:
    """Return the bytes of a call on the CPU."""
    tables = threads * (TABLE_BYTES * bins + THREAD_BYTES)
    return points * max(1, axes) * POINT_BYTES[kernel] + tables + 16 * bins


def device_bytes(kernel: str, points: int, axes: int, bins: int) -> int:
    """Return the bytes of a call on a GPU: the most of placing the points and of preparing the kernel.

    Examples
    --------
    >>> device_bytes("brute", 1000, 3, 100), device_bytes("cells", 1000, 3, 100)
    (69600, 105600)
    """
    axes = max(1, axes)
    prepared = {"float64": 0, "brute": 16 if axes <= 3 else 32, "cells": 8 * axes + CELL_BYTES}[kernel]
    return points * max(16 * axes + PLACING_BYTES, 8 * axes + prepared) + 16 * bins


def pair_work(pairs: int, near_share: float, axes: int, bins: int, points: int, threads: int | None) -> Work:
    """Predict the work of a count of all pairs, of which cells would leave about a share.

    - ``near_share``: 1 if cells do not pay
    """
    kernel = "brute" if near_share > 0.5 else "cells"
    candidates = pairs * near_share if kernel == "cells" else float(pairs)
    build = points * CELL_SECONDS if kernel == "cells" else 0.0
    core = build + candidates * cpu_pair_seconds(kernel, axes, bins)
    uploaded = 8.0 * points * max(1, axes)
    return Work(
        cpu_seconds(core, 1.0, 1.0, threads, candidates / TASK_PAIRS),
        candidates * gpu_pair_seconds(kernel, axes, bins) + pinning_seconds(uploaded),
        GPU_STEPS,
        uploaded,
        device_bytes(kernel, points, axes, bins),
    )
