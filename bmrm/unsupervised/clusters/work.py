"""The predicted work of k-means; see `bmrm.matrix.gpu.work`.

Constants of sparse rows are measured by ``benchmarks/reductions/gpu_sparse_clusters.py``.
"""

from __future__ import annotations

import math

from bmrm.distributed._parts import part_rows
from bmrm.matrix.gpu.work import FIT_SECONDS, Work, cpu_seconds, pinning_seconds

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

SPARSE_ROW_BYTES = 64
"""Memory on a GPU per sparse row: offset, square, labels, distances, and the rows sorted by label."""

SPARSE_SUM_BYTES = 1 << 27
"""Maximum memory on a GPU for sums of parts of sparse rows."""


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
    chosen = starts * clusters if init.startswith("k-means") else 0  # centres that a GPU chooses by itself
    return Work(
        cpu_seconds(operations * KMEANS_CPU_SECONDS, passes, host_steps, threads, rows / part_rows(rows)),
        operations * KMEANS_GPU_SECONDS + pinning_seconds(values * value_bytes),
        steps,
        values * value_bytes,
        values * (value_bytes + 4) + 18.0 * rows,
        copied_passes=host_steps,  # each is a pass
        call_seconds=FIT_SECONDS + chosen * KMEANS_GPU_CENTER_SECONDS,
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
    parts = rows / part_rows(rows, clusters * columns)
    uploaded = stored * (value_bytes + 4.0) + 8.0 * rows
    return Work(
        cpu_seconds(on_cores, passes + seeding, steps, threads, parts) + numbers * SPARSE_CPU_CENTER_SECONDS,
        passes * stored * (clusters * SPARSE_GPU_PRODUCT_SECONDS + SPARSE_GPU_VALUE_SECONDS)
        + candidates * stored * SPARSE_GPU_SEEDING_SECONDS
        + pinning_seconds(uploaded),
        steps,
        uploaded,
        uploaded + SPARSE_ROW_BYTES * rows + SPARSE_SUM_BYTES + 32.0 * clusters * columns,
        copied_passes=steps,
        call_seconds=FIT_SECONDS
        + numbers * SPARSE_GPU_CENTER_SECONDS
        + steps * (SPARSE_GPU_STEP_SECONDS + columns * SPARSE_GPU_COLUMN_SECONDS),
    )
