"""The work of each method, as times on the CPU and on a GPU that `place` compares.

A pass has operations, in a unit of the method: multiply-adds, or what takes about as long. On the CPU it
takes the operations' time on one core, or that divided by the cores that the threads are worth and the time
to start them, whichever is less. On either device there is a time per step, a call of compiled code that the
host waits for. Constants are measured by ``benchmarks/reductions/crossover.py``, and those of sparse rows by
``gpu_sparse_clusters.py``, on an NVIDIA H100 and 16 cores of an Intel Xeon.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bmrm.base.threads import preferred_threads
from bmrm.matrix.resident import MIN_THREADED_VALUES

THREAD_SECONDS = 1.2e-5
"""Time by which a pass takes longer for each thread that it starts and waits for."""

SHARED_CORE_LOSS = 1 / 15
"""Share by which each further thread slows the others: 16 threads of 8 cores with two threads each are worth
8."""

FIT_SECONDS = 5.5e-4
"""Time of allocations and synchronisations of one fit on a GPU."""

PINNED_BYTES = 1 << 24
"""Size from which rows of an estimator are uploaded through pinned memory."""

PINNED_SECONDS = 2.2e-2
"""Time to allocate the pinned memory of an upload."""

PART_ROWS = 2048
"""Minimum number of rows of a part of a pass, which one thread has."""

PART_PAIRS = 65536
"""Minimum number of pairs of points of a part of a pass of SMACOF."""

STEP_SECONDS = 4e-5
"""Time of a step on the CPU, besides its passes."""

KMEANS_CPU_SECONDS = 2.8e-11
"""Time of one multiply-add of a pass of k-means on one core."""

KMEANS_GPU_SECONDS = 4e-13
"""Time of one multiply-add of a pass of k-means on a GPU."""

KMEANS_ROW_OPERATIONS = 24
"""Operations per row and column of a pass of k-means, besides one per centre: sums, and reading the rows."""

KMEANS_GPU_CENTER_SECONDS = 1.8e-5
"""Time of a centre of k-means++ on a GPU, besides its multiply-adds: two launches. Of 256, of 5000 x 16."""

SEEDING_PASSES = 8
"""Passes of k-means||, besides what k-means++ takes for the rows that it has drawn."""

EXPECTED_MOVES = 20
"""Moves of the centres that a start of k-means takes, if no smaller number is allowed."""

SPARSE_CPU_PRODUCT_SECONDS = 1.5e-10
"""Time of one multiply-add of a pass of k-means over sparse rows on one core."""

SPARSE_CPU_VALUE_SECONDS = 4.6e-9
"""Time per stored value of such a pass besides: reading it, and adding it to the sums."""

SPARSE_CPU_ROW_SECONDS = 2.3e-9
"""Time per row and centre of such a pass: finding the least value and the second."""

SPARSE_CPU_CENTER_SECONDS = 5e-9
"""Time per number of the centres of such a pass, which one core spends: transposing and squaring them."""

SPARSE_GPU_PRODUCT_SECONDS = 2.2e-12
"""Time of one multiply-add of a pass of k-means over sparse rows on a GPU."""

SPARSE_GPU_VALUE_SECONDS = 1.1e-10
"""Time per stored value of such a pass besides: one of a row comes after the other."""

SPARSE_GPU_SEEDING_SECONDS = 8e-12
"""Time per stored value and candidate of a pass of seeding over sparse rows on a GPU."""

SPARSE_GPU_STEP_SECONDS = 5e-5
"""Time of a step over sparse rows on a GPU, besides that of any step: points are taken from main memory."""

SPARSE_GPU_CENTER_SECONDS = 1e-9
"""Time per number of the centres: they are copied to the GPU, and the sums back."""

SPARSE_GPU_COLUMN_SECONDS = 4.6e-9
"""Time per column of each step: the square of a centre is a sum over the columns in their order."""

MAX_PART_SUMS = 1 << 23
"""Limit on the sums of all parts of a pass of k-means on the CPU (``src_cython/reductions/kmeans.h``)."""

SPARSE_ROW_BYTES = 64
"""Memory on a GPU per sparse row: offset, square, labels, distances, and the rows sorted by label."""

SPARSE_SUM_BYTES = 1 << 27
"""Maximum memory on a GPU for sums of parts of sparse rows."""

MIXTURE_CPU_SECONDS = 6.5e-11
"""Time of one operation of a step of EM on one core."""

MIXTURE_CPU_CALL_SECONDS = 1e-3
"""Time of a mixture on the CPU besides steps and passes: the first covariances, and what EM makes of sums."""

MIXTURE_GPU_SECONDS = 2e-13
"""Time of one operation of a step of EM on a GPU."""

EXPECTED_STEPS = 20
"""Steps of EM, if no smaller number is allowed."""

GRAM_CPU_SECONDS = 3.1e-11
"""Time of one multiply-add of a scatter matrix on one core."""

GRAM_CPU_VALUE_SECONDS = 2.4e-9
"""Time per value of a scatter matrix besides, which one core spends: rows are centred."""

GRAM_CPU_CALL_SECONDS = 8.6e-4
"""Time of a scatter matrix on the CPU besides, and of what is made of it."""

GRAM_GPU_SECONDS = 5e-14
"""Time of one multiply-add of a scatter matrix on a GPU."""

MIXTURE_START_STEPS = 10
"""Steps before the first of EM, of a few rows or k-means."""

GRAM_STEPS = 8
"""Steps on a GPU that a scatter matrix takes as long as: allocations, the matrix, and what is made of it."""

SCALING_CPU_SECONDS = 4e-10
"""Time of one operation of a pass of SMACOF on one core."""

SCALING_GPU_SECONDS = 5e-13
"""Time of one operation of a pass of SMACOF on a GPU."""

SCALING_VECTORS = 50
"""Vectors of the size of a configuration that accelerated SMACOF has at once."""

MAX_TILE_ROWS = 160
"""Tiles of a column of pairs at most, up to 163,840 points (``src_cuda/reductions/device_pairs.h``)."""

TILE_COLUMNS = 512
"""Columns of a tile in two or three dimensions."""

EXPECTED_PASSES = 60
"""Passes of SMACOF, if no smaller number is allowed."""

REDUCTION_CPU_SHARE = 0.38
"""Time of a reduction on one core of the Xeon, as a share of what `predict_seconds` returns."""

REDUCTION_GPU_SPEED = 250.0
"""Speed of a pass of a reduction on a GPU, as a multiple of one core's."""

REDUCTION_CALL_SECONDS = 2.25e-4
"""Time of a call of a reduction on the CPU, besides its passes."""

REDUCTION_GPU_CALL_SECONDS = 3e-4
"""Time of a call of a reduction on a GPU, besides its passes."""

REDUCTION_TEAM_SECONDS = 1.2e-3
"""Time to set the threads of a reduction to work."""

REDUCTION_PART_SECONDS = 4.5e-5
"""Time of a part of a reduction that only one thread at a time can spend: a call, and combining results."""

MIN_THREADED_SECONDS = 2e-3
"""Predicted time below which a reduction has one thread; see `bmrm.reductions.host`."""


class Work(NamedTuple):
    """Predicted work of one fit, or one call of a reduction."""

    cpu_seconds: float
    """Time on the CPU with the threads that it would use."""
    gpu_seconds: float
    """Time of the passes on an H100, without steps."""
    steps: float
    """Calls of compiled code that the host waits for."""
    upload_bytes: float
    gpu_bytes: float
    """Memory that it takes on a GPU."""
    copied_passes: float = 0.0
    """Passes that could copy rows for which there is no room on a GPU; 0 if all rows must stay there."""
    call_seconds: float = FIT_SECONDS
    """Time on a GPU besides steps, upload and passes."""


def kmeans_work(
    rows: int,
    columns: int,
    clusters: int,
    value_bytes: int,
    *,
    moves: int,
    starts: int = 1,
    init: str = "k-means++",
    threads: int | None = None,
) -> Work:
    """Predict the work of k-means.

    Parameters
    ----------
    rows, columns, clusters, value_bytes : int
        Sizes of dense rows.
    moves : int
        Maximum number of moves of the centres per start.
    starts : int, default 1
    init : str, default "k-means++"
        How each start chooses centres; other names than k-means++ and k-means|| take no time.
    threads : int, optional
        Maximum number of threads; default: the cores that this process may use.
    """
    values = float(rows) * columns
    passes = starts * (1 + min(moves, EXPECTED_MOVES))
    operations = passes * values * (clusters + KMEANS_ROW_OPERATIONS)
    steps = float(passes)
    if init == "k-means||":  # passes over all rows, as many candidates at a time as clusters
        operations += starts * SEEDING_PASSES * values * (clusters + KMEANS_ROW_OPERATIONS)
        steps += starts * SEEDING_PASSES
    host_steps = steps
    if init == "k-means++":  # a pass of all trials for each centre, and one that takes the best
        operations += starts * values * clusters * (4 + math.log(clusters))
        host_steps += starts * 2.0 * clusters
    walked = starts * clusters if init.startswith("k-means") else 0  # centres that a GPU chooses by itself
    return Work(
        _cpu_seconds(operations * KMEANS_CPU_SECONDS, passes, host_steps, threads, rows / PART_ROWS),
        operations * KMEANS_GPU_SECONDS + _pinning_seconds(values * value_bytes),
        steps,
        values * value_bytes,
        values * (value_bytes + 4) + 18.0 * rows,
        copied_passes=host_steps,  # each is a pass
        call_seconds=FIT_SECONDS + walked * KMEANS_GPU_CENTER_SECONDS,
    )


def sparse_kmeans_work(
    rows: int,
    columns: int,
    stored: int,
    clusters: int,
    value_bytes: int,
    *,
    moves: int,
    starts: int = 1,
    init: str = "k-means++",
    threads: int | None = None,
) -> Work:
    """Predict the work of k-means over sparse rows; the rest as for `kmeans_work`.

    - ``stored``: number of stored values
    - ``value_bytes``: 0 if all of them are 1
    """
    passes = float(starts * (1 + min(moves, EXPECTED_MOVES)))
    seeding = candidates = seeding_steps = 0.0  # passes, points that they measure, calls
    if init == "k-means++":
        seeding = float(starts * clusters)
        candidates, seeding_steps = seeding * (3 + math.log(clusters)), 2.0 * seeding
    if init == "k-means||":
        seeding = seeding_steps = float(starts * SEEDING_PASSES)
        candidates = seeding * clusters
    points, steps = passes * clusters + candidates, passes + seeding_steps
    numbers = points * columns
    on_cores = (
        points * (stored * SPARSE_CPU_PRODUCT_SECONDS + rows * SPARSE_CPU_ROW_SECONDS)
        + (passes + seeding) * stored * SPARSE_CPU_VALUE_SECONDS
    )
    parts = min(rows / PART_ROWS, MAX_PART_SUMS / (clusters * columns))
    uploaded = stored * (value_bytes + 4.0) + 8.0 * rows
    return Work(
        _cpu_seconds(on_cores, passes + seeding, steps, threads, parts) + numbers * SPARSE_CPU_CENTER_SECONDS,
        passes * stored * (clusters * SPARSE_GPU_PRODUCT_SECONDS + SPARSE_GPU_VALUE_SECONDS)
        + candidates * stored * SPARSE_GPU_SEEDING_SECONDS
        + _pinning_seconds(uploaded),
        steps,
        uploaded,
        uploaded + SPARSE_ROW_BYTES * rows + SPARSE_SUM_BYTES + 32.0 * clusters * columns,
        copied_passes=steps,
        call_seconds=FIT_SECONDS
        + numbers * SPARSE_GPU_CENTER_SECONDS
        + steps * (SPARSE_GPU_STEP_SECONDS + columns * SPARSE_GPU_COLUMN_SECONDS),
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
    calls = float(passes + starts * MIXTURE_START_STEPS)
    return Work(
        _cpu_seconds(operations * MIXTURE_CPU_SECONDS, passes, calls, threads, rows / PART_ROWS)
        + MIXTURE_CPU_CALL_SECONDS,
        operations * MIXTURE_GPU_SECONDS + _pinning_seconds(values * value_bytes),
        calls,
        values * value_bytes,
        values * value_bytes + 16.0 * rows,
        copied_passes=calls,
    )


def gram_work(rows: int, columns: int, value_bytes: int) -> Work:
    """Predict the work of the scatter matrix of dense rows."""
    values = float(rows) * columns
    cores = 1.0 if values < MIN_THREADED_VALUES else _cores_worth(_threads(None))
    return Work(
        values * (columns * GRAM_CPU_SECONDS / cores + GRAM_CPU_VALUE_SECONDS) + GRAM_CPU_CALL_SECONDS,
        values * (columns + 8.0) * GRAM_GPU_SECONDS + _pinning_seconds(values * value_bytes),
        float(GRAM_STEPS),
        values * value_bytes,
        values * value_bytes + 64.0 * columns**2,
        copied_passes=1.0,
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

    - ``features``: the number of features from which each pass computes the distances
    - ``square``: dissimilarities are a square matrix, of which a GPU stores the upper triangle
    """
    pairs = 0.5 * points * (points - 1.0)
    count = 1 + min(passes, EXPECTED_PASSES)
    operations = count * pairs * (4.0 + dimensions + (features or 0))
    stored = pairs * value_bytes if features is None else float(points * features * value_bytes)
    uploaded = 2.0 * stored if square and features is None else stored
    tiles = MAX_TILE_ROWS + points / TILE_COLUMNS
    return Work(
        _cpu_seconds(operations * SCALING_CPU_SECONDS, count, count, threads, pairs / PART_PAIRS),
        operations * SCALING_GPU_SECONDS + _pinning_seconds(uploaded),
        float(count),
        uploaded,
        stored + 8.0 * points * dimensions * (SCALING_VECTORS + 2.0 * tiles),
    )


def reduction_work(
    core_seconds: float, parts: int, uploaded: float, there: float, threads: int | None = None
) -> Work:
    """Predict the work of a reduction from its predicted time on one core, and its parts on the CPU.

    ``uploaded`` and ``there`` are the bytes that are copied to a GPU and that the call needs on it.
    """
    seconds = REDUCTION_CPU_SHARE * core_seconds
    if core_seconds >= MIN_THREADED_SECONDS:
        threads = min(parts, _threads(threads))
        seconds = seconds / threads + REDUCTION_TEAM_SECONDS + parts * REDUCTION_PART_SECONDS
    return Work(
        seconds + REDUCTION_CALL_SECONDS,
        core_seconds / REDUCTION_GPU_SPEED,
        0.0,
        uploaded,
        there,
        call_seconds=REDUCTION_GPU_CALL_SECONDS,
    )


def _pinning_seconds(upload_bytes: float) -> float:
    return PINNED_SECONDS if upload_bytes >= PINNED_BYTES else 0.0


def _cpu_seconds(
    core_seconds: float, passes: float, steps: float, threads: int | None, parts: float
) -> float:
    """Return the time of some passes that take so long together on one core."""
    each, team = core_seconds / passes, max(1, min(_threads(threads), math.ceil(parts)))
    shared = each / _cores_worth(team) + team * THREAD_SECONDS
    return steps * STEP_SECONDS + passes * min(each, shared)


def _cores_worth(team: int) -> float:
    """Return how many times as fast as one thread some threads are.

    Examples
    --------
    >>> _cores_worth(1), round(_cores_worth(16), 9)
    (1.0, 8.0)
    """
    return team / (1.0 + (team - 1) * SHARED_CORE_LOSS)


def _threads(given: int | None) -> int:
    return given or preferred_threads()
