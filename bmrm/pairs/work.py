"""The predicted work of counting pairs: seconds per candidate, bytes, and rates that were measured.

A candidate is a pair whose distance is computed. Its time depends on the kernel, on the number of axes and on
the number of bins: tables that leave the first or second cache are slower. Cells take a time per point
besides, to sort it and to find the cells near to it, which has to do with memory and grows with the number of
points. The constants here are of one core of an AMD EPYC with AVX-512; what a machine does is measured when a
count is long enough for it to matter, and kept with the rates of its GPU (`bmrm.matrix.gpu.cache`).

`Rate` turns these times into that of a call, for the choice of a device and for the plan alike.
"""

from __future__ import annotations

from typing import NamedTuple

from bmrm.matrix.gpu.work import FIT_SECONDS, MULTIPROCESSORS, Work, cores_worth, pinning_seconds, threads_of

PAIR_SECONDS = {"float64": 2.4e-9, "brute": 2.5e-10, "cells": 4e-10}
"""Time of a candidate in three dimensions with 100 bins."""

AXES_SHARE = {"float64": (0.93, 0.97, 1.0), "brute": (1.15, 1.0, 1.0), "cells": (1.2, 0.9, 0.85)}
"""Factors of that time for one to three axes: with few axes, more of the candidates are near and in a bin."""

AXIS_SHARE = {"float64": 0.06, "brute": 0.12, "cells": 0.12}
"""Share of that time by which each further axis makes it longer."""

BINS_SHARE = ((128, 1.0), (1024, 1.5), (16384, 2.8))
"""Factors of the time for at most so many bins."""

MOST_BINS_SHARE = 10.0
"""The factor for more bins."""

GPU_PAIR_SECONDS = {"float64": 1.25e-12, "brute": 5.4e-13, "cells": 2.5e-12}
"""Time of a candidate on an NVIDIA H200, in three dimensions with 100 bins."""

POINT_SECONDS = 7e-8
"""Time of a point in cells besides its candidates."""

CACHED_POINTS = 1e5
"""Points up to which that time is the same."""

POINT_GROWTH = (0.0, 0.1, 0.3)
"""The power of their number with which it grows beyond, for one to three axes: cells next to each other are
further apart in memory the more axes there are."""

GPU_POINT_SECONDS = 8e-10
"""Time of a point in cells besides its candidates, on a GPU."""

CELL_MARGIN = 1.3
"""Factor per axis by which cells reach further than the volume of near pairs."""

MIN_SHARED_SECONDS = 1e-3
"""Predicted time of a count from which on more threads than one pay: each has tables of its own."""

CALL_SECONDS = 3e-4
"""Time of a call besides its candidates."""

GPU_CALL_SECONDS = 1.1e-3
"""The same on a GPU, its launches and allocations included."""

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


TERM_SECONDS = {True: 3.2e-10, False: 1.2e-9}
"""Time of a term of a kernel density, in three dimensions: in float32, and in float64."""

TERM_AXIS_SHARE = 0.1
"""Share of that time by which each further axis makes it longer."""

GPU_TERM_SECONDS = {True: 7.5e-13, False: 3e-12}
"""The same on an NVIDIA H100, computed from the numbers of instructions of the kernels."""

DENSITY_BYTES = 40
"""Memory per coordinate of points of a density: by axes, sorted, in tiles and in float32."""

GPU_DENSITY_BYTES = (12, 1 << 28)
"""Memory on a GPU of a coordinate, and of the sums of chunks."""


def bins_share(bins: int) -> float:
    """Return the factor of a candidate's time for so many bins.

    Examples
    --------
    >>> bins_share(100), bins_share(1000), bins_share(10**6)
    (1.0, 1.5, 10.0)
    """
    return next((share for most, share in BINS_SHARE if bins <= most), MOST_BINS_SHARE)


class Rate(NamedTuple):
    """What a kernel takes."""

    candidate: float
    """Time of a candidate on one core, or on a GPU."""
    point: float
    """Time of a point, which threads do not share."""
    call: float = CALL_SECONDS
    """Time of a call besides."""

    def seconds(self, points: int, candidates: float, worth: float = 1.0) -> float:
        """Return the time of a call.

        - ``worth``: how many times as fast as one thread its threads are
        """
        return self.call + points * self.point + candidates * self.candidate / worth


def cpu_rate(kernel: str, axes: int, bins: int, points: int) -> Rate:
    """Return what a kernel takes on one core."""
    point = POINT_SECONDS * point_growth(axes, points) if kernel == "cells" else 0.0
    return Rate(PAIR_SECONDS[kernel] * _shape_share(kernel, axes, bins), point)


def gpu_rate(kernel: str, axes: int, bins: int, multiprocessors: float = MULTIPROCESSORS) -> Rate:
    """Return what a kernel takes on a GPU."""
    candidate = GPU_PAIR_SECONDS[kernel] * _shape_share(kernel, axes, bins)
    point = GPU_POINT_SECONDS if kernel == "cells" else 0.0
    share = MULTIPROCESSORS / multiprocessors
    return Rate(candidate * share, point * share, GPU_CALL_SECONDS)


def point_growth(axes: int, points: int) -> float:
    """Return the factor of a point's time in cells, on a CPU, for so many points."""
    return float(max(1.0, points / CACHED_POINTS) ** _of_axes(POINT_GROWTH, axes))


def _of_axes(values: tuple[float, ...], axes: int) -> float:
    return values[min(max(axes, 1), len(values)) - 1]


def _shape_share(kernel: str, axes: int, bins: int) -> float:
    few = AXES_SHARE[kernel]
    further = max(0, axes - len(few))
    return (_of_axes(few, axes) + AXIS_SHARE[kernel] * further) * bins_share(bins)


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


def pair_work(kernel: str, candidates: float, axes: int, bins: int, points: int, threads: int | None) -> Work:
    """Predict the work of a call."""
    uploaded = 8.0 * points * max(1, axes)
    return Work(
        cpu_rate(kernel, axes, bins, points).seconds(points, candidates, cores_worth(threads_of(threads))),
        gpu_rate(kernel, axes, bins).seconds(points, candidates),
        GPU_STEPS,
        uploaded,
        device_bytes(kernel, points, axes, bins),
        call_seconds=FIT_SECONDS + pinning_seconds(uploaded),
    )


def density_bytes(points: int, at: int, axes: int) -> int:
    """Return the bytes of a kernel density on the CPU."""
    return (points + at) * (axes + 1) * DENSITY_BYTES


def density_work(light: bool, points: int, at: int, axes: int, threads: int | None) -> Work:
    """Predict the work of the densities at some points; ``light``: in float32."""
    terms = float(points) * at * max(0.5, 1.0 + TERM_AXIS_SHARE * (axes - 3))
    uploaded = 8.0 * (points + at) * (axes + 1)
    each, of_chunks = GPU_DENSITY_BYTES
    return Work(
        CALL_SECONDS + terms * TERM_SECONDS[light] / cores_worth(threads_of(threads)),
        CALL_SECONDS + terms * GPU_TERM_SECONDS[light],
        GPU_STEPS,
        uploaded,
        points * (axes + 1) * each + of_chunks,
        call_seconds=FIT_SECONDS + pinning_seconds(uploaded),
    )


NEAR_SECONDS = (7e-7, 1.32)
"""Time of the nearest neighbours of a row on one core, by boxes: without axes, and the factor of each."""

NEAR_PAIR_SECONDS = {True: (1e-10, 1e-11), False: (2e-10, 1.5e-10)}
"""Time of a pair, and of each axis of it, on one core: for distances of squares, and others."""

GPU_NEAR_PAIR_SECONDS = {True: (2.6e-12, 7e-15), False: (1.8e-12, 7.7e-13)}
"""The same on an NVIDIA H200: by tensor cores, and in float64 (benchmarks/results/pairs_nearest_gpu.json)."""

GPU_TREE_SECONDS = (3e-8, 1.26)
"""Time of a row by a tree there, as `NEAR_SECONDS` (the same results)."""

MAX_TREE_AXES, MAX_TREE_NEIGHBOURS, MIN_TREE_ROWS, MIN_TREE_POINTS = 6, 128, 128, 512
"""For what there is a tree (``src_cuda/pairs/near_tree.h``)."""

TREE_POINT_BYTES = 160
"""Memory on a GPU of a point of a tree, and of a row: coordinates, places on the curve, and boxes."""

MIN_ROUNDED_AXES = 10
"""Axes from which distances of squares are found by tensor cores (``src_cuda/pairs/neighbours.cu``)."""

NEAR_BATCH_BYTES = 1 << 27
"""Memory on a GPU of the candidates of some rows, or of their neighbours within a radius, at most."""

NEAR_POINT_BYTES = 64
"""Memory on a GPU of a point while the distances of a row are sorted."""


def neighbour_work(
    rows: int, points: int, axes: int, k: int, threads: int | None, *, squares: bool, periodic: bool
) -> Work:
    """Predict the work of the k nearest neighbours of some rows.

    - ``squares``: whether the metric is made of squares
    - ``periodic``: whether axes are
    """
    each, growth = NEAR_SECONDS
    pair, axis = NEAR_PAIR_SECONDS[squares]
    of_row = min(each * growth ** min(axes, 100) * (1.0 + 0.03 * k), points * (pair + axis * axes))
    pair, axis = GPU_NEAR_PAIR_SECONDS[squares and not periodic and axes >= MIN_ROUNDED_AXES]
    on_gpu = points * (pair + axis * axes)
    is_small = rows < MIN_TREE_ROWS or points < MIN_TREE_POINTS
    if axes <= MAX_TREE_AXES and k <= MAX_TREE_NEIGHBOURS and not (periodic or is_small):
        each, growth = GPU_TREE_SECONDS
        on_gpu = min(on_gpu, each * growth**axes * (1.0 + 0.03 * k))
    uploaded = 8.0 * (rows + points) * axes
    return Work(
        CALL_SECONDS + rows * of_row / cores_worth(threads_of(threads)),
        CALL_SECONDS + rows * on_gpu,
        GPU_STEPS,
        uploaded,
        neighbour_device_bytes(rows, points, axes, k),
        call_seconds=FIT_SECONDS + pinning_seconds(uploaded),
    )


def neighbour_device_bytes(rows: int, points: int, axes: int, k: int, units: bool = False) -> int:
    """Return the bytes of a search for neighbours on a GPU; ``units``: of rows divided by their lengths."""
    each = 12 * max(256, 6 * k) + 16 * k + 32  # candidates, and the nearest of them
    if axes >= MIN_ROUNDED_AXES:
        each += 2 * (axes + 64)
    batch = max(each, min(NEAR_BATCH_BYTES, rows * each)) + NEAR_POINT_BYTES * points
    rounded = 2 * (axes + 64) * (points + 256) if axes >= MIN_ROUNDED_AXES else 0
    tree = TREE_POINT_BYTES * (rows + points) if axes <= MAX_TREE_AXES else 0
    copies = 8 * (rows + points) * (axes + 1) if units else 0
    return 8 * (rows + points) * axes + copies + batch + rounded + tree
