"""The predicted work of SMACOF; see `bmrm.matrix.gpu.work`."""

from __future__ import annotations

from bmrm.matrix.gpu.work import Work, cpu_seconds, pinning_seconds
from bmrm.unsupervised.manifold._manifold import MAX_STRIPS, MIN_PART_PAIRS, TILE_COLUMNS

SCALING_CPU_SECONDS = 4e-10
"""Time of one operation of a pass of SMACOF on one core."""

SINGLE_CPU_SHARE = 0.53
"""Share of this time that it takes in float32; benchmarks.reductions.mds."""

SCALING_GPU_SECONDS = 5e-13
"""Time of one operation of a pass of SMACOF on a GPU."""

SCALING_VECTORS = 50
"""Vectors of the size of a configuration that accelerated SMACOF has at once."""

EXPECTED_PASSES = 60
"""Passes of SMACOF, if no smaller number is allowed."""


def scaling_work(
    points: int,
    dimensions: int,
    *,
    passes: int,
    features: int | None = None,
    value_bytes: int = 8,
    square: bool = False,
    threads: int | None = None,
    ranks: int = 1,
    single: bool = False,
) -> Work:
    """Predict the work of SMACOF.

    - ``features``: the number of features from which each pass computes the distances
    - ``square``: dissimilarities are a square matrix, of which a GPU stores the upper triangle
    - ``ranks``: that share the pairs
    - ``single``: terms are in float32
    """
    pairs = 0.5 * points * (points - 1.0) / ranks
    count = 1 + min(passes, EXPECTED_PASSES)
    operations = count * pairs * (4.0 + dimensions + (features or 0))
    stored = pairs * value_bytes if features is None else float(points * features * value_bytes)
    uploaded = 2.0 * stored if square and features is None else stored
    tiles = MAX_STRIPS + points / TILE_COLUMNS
    each = SCALING_CPU_SECONDS * (SINGLE_CPU_SHARE if single else 1.0)
    return Work(
        cpu_seconds(operations * each, count, count, threads, pairs / MIN_PART_PAIRS),
        operations * SCALING_GPU_SECONDS + pinning_seconds(uploaded),
        float(count),
        uploaded,
        stored + 8.0 * points * dimensions * (SCALING_VECTORS + 2.0 * tiles),
    )
