"""The work of each method, as times on the CPU and on a GPU that `place` compares.

A pass has operations, in a unit of the method: multiply-adds, or what takes about as long. Constants are the
times of one operation, measured by ``benchmarks/reductions/crossover.py`` on an NVIDIA H100 and its 16 cores
of a Xeon, at the sizes near which the choice changes.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from bmrm.base.threads import requested_threads, usable_cores

MIN_THREADED_SECONDS = 2e-3
"""Time of a pass on one core below which threads are of little use."""

KMEANS_CPU_SECONDS = 8e-11
"""Time of one multiply-add of a pass of k-means on one core."""

KMEANS_GPU_SECONDS = 2e-13
"""Time of one multiply-add of a pass of k-means on a GPU."""

KMEANS_ROW_OPERATIONS = 24
"""Operations per row and column of a pass of k-means, besides one per centre: sums, and reading the rows."""

KMEANS_LAUNCHES = 4
"""Launches of a pass of k-means."""

EXPECTED_MOVES = 20
"""Moves of the centres that a start of k-means takes, if no smaller number is allowed."""

MIXTURE_CPU_SECONDS = 2.5e-10
"""Time of one operation of a step of EM on one core."""

MIXTURE_GPU_SECONDS = 8e-13
"""Time of one operation of a step of EM on a GPU."""

MIXTURE_LAUNCHES = 4
"""Launches of a step of EM."""

EXPECTED_STEPS = 20
"""Steps of EM, if no smaller number is allowed."""

GRAM_CPU_SECONDS = 8e-11
"""Time of one multiply-add of a scatter matrix on one core."""

GRAM_GPU_SECONDS = 6e-14
"""Time of one multiply-add of a scatter matrix on a GPU."""

SCALING_CPU_SECONDS = 2.5e-10
"""Time of one operation of a pass of SMACOF on one core."""

SCALING_GPU_SECONDS = 5e-13
"""Time of one operation of a pass of SMACOF on a GPU."""

SCALING_LAUNCHES = 8
"""Launches of a pass of SMACOF with those of its step."""

SCALING_VECTORS = 50
"""Vectors of the size of a configuration that accelerated SMACOF has at once."""

MAX_TILE_ROWS = 160
"""Tiles of a column of pairs at most, up to 163,840 points (``src_cuda/reductions/device_pairs.h``)."""

TILE_COLUMNS = 512
"""Columns of a tile in two or three dimensions."""

EXPECTED_PASSES = 60
"""Passes of SMACOF, if no smaller number is allowed."""

REDUCTION_LAUNCHES = 2
"""Launches of a reduction: its rows, and how chunks are combined."""

REDUCTION_GPU_SPEED = 250.0
"""Speed of a pass of a reduction on a GPU, as a multiple of one core's."""


class Work(NamedTuple):
    """Predicted work of one fit, or one call of a reduction."""

    cpu_seconds: float
    """Time on the CPU with the threads that it would use."""
    gpu_seconds: float
    """Time of the passes on an H100, without launches."""
    launches: float
    upload_bytes: float
    gpu_bytes: float
    """Memory that it takes on a GPU."""


def kmeans_work(
    rows: int,
    columns: int,
    clusters: int,
    value_bytes: int,
    *,
    moves: int,
    starts: int = 1,
    seeded: bool = True,
    threads: int | None = None,
) -> Work:
    """Predict the work of k-means.

    Parameters
    ----------
    rows, columns, clusters, value_bytes : int
        Sizes of dense rows; of sparse ones ``columns`` is the average number of values in a row.
    moves : int
        Maximum number of moves of the centres per start.
    starts : int, default 1
    seeded : bool, default True
        Whether each start begins with k-means++.
    threads : int, optional
        Maximum number of threads; default: the cores that this process may use.
    """
    values = float(rows) * columns
    passes = starts * (1 + min(moves, EXPECTED_MOVES))
    operations = passes * values * (clusters + KMEANS_ROW_OPERATIONS)
    launches = float(KMEANS_LAUNCHES * passes)
    if seeded:  # a pass of all trials for each centre, and one that takes the best
        operations += starts * values * clusters * (4 + math.log(clusters))
        launches += starts * 2.0 * clusters
    seconds = operations * KMEANS_CPU_SECONDS
    return Work(
        seconds / _speed(seconds / passes, threads),
        operations * KMEANS_GPU_SECONDS,
        launches,
        values * value_bytes,
        values * (value_bytes + 4) + 16.0 * rows,
    )


def mixture_work(
    rows: int,
    columns: int,
    components: int,
    value_bytes: int,
    *,
    full: bool,
    steps: int,
    starts: int = 1,
    threads: int | None = None,
) -> Work:
    """Predict the work of a mixture by EM; ``full``: covariances are matrices."""
    values = float(rows) * columns
    each = values * components * (columns + 8.0 if full else 12.0)
    passes = starts * (1 + min(steps, EXPECTED_STEPS))
    operations = passes * each
    seconds = operations * MIXTURE_CPU_SECONDS
    return Work(
        seconds / _speed(seconds / passes, threads),
        operations * MIXTURE_GPU_SECONDS,
        float(MIXTURE_LAUNCHES * passes),
        values * value_bytes,
        values * value_bytes + 16.0 * rows,
    )


def gram_work(rows: int, columns: int, value_bytes: int, *, threads: int | None = None) -> Work:
    """Predict the work of the scatter matrix of dense rows."""
    values = float(rows) * columns
    operations = values * (columns + 8.0)
    seconds = operations * GRAM_CPU_SECONDS
    return Work(
        seconds / _speed(seconds, threads),
        operations * GRAM_GPU_SECONDS,
        4.0,
        values * value_bytes,
        values * value_bytes + 64.0 * columns**2,
    )


def scaling_work(
    points: int,
    dimensions: int,
    *,
    passes: int,
    features: int | None = None,
    value_bytes: int = 8,
    square: bool = False,
    threads: int | None = None,
) -> Work:
    """Predict the work of SMACOF.

    - ``features``: distances of so many features are computed in each pass
    - ``square``: dissimilarities are a square matrix, of which a GPU stores the upper triangle
    """
    pairs = 0.5 * points * (points - 1.0)
    count = 1 + min(passes, EXPECTED_PASSES)
    operations = count * pairs * (4.0 + dimensions + (features or 0))
    seconds = operations * SCALING_CPU_SECONDS
    stored = pairs * value_bytes if features is None else float(points * features * value_bytes)
    tiles = MAX_TILE_ROWS + points / TILE_COLUMNS
    return Work(
        seconds / _speed(seconds / count, threads),
        operations * SCALING_GPU_SECONDS,
        float(SCALING_LAUNCHES * count),
        2.0 * stored if square and features is None else stored,
        stored + 8.0 * points * dimensions * (SCALING_VECTORS + 2.0 * tiles),
    )


def reduction_work(
    core_seconds: float, row_bytes: float, result_bytes: float, threads: int | None = None
) -> Work:
    """Predict the work of a reduction from its time on one core."""
    return Work(
        core_seconds / _speed(core_seconds, threads),
        core_seconds / REDUCTION_GPU_SPEED,
        float(REDUCTION_LAUNCHES),
        row_bytes,
        row_bytes + result_bytes,
    )


def _speed(pass_seconds: float, threads: int | None) -> float:
    """Return by how much several threads are faster than one core; a short pass has one."""
    if pass_seconds < MIN_THREADED_SECONDS:
        return 1.0
    return float(threads or requested_threads(os.environ) or usable_cores())
