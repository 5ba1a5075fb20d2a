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

DEPTH = 10
"""Steps that acceleration remembers. 5 to 20 need about the same number of passes."""

MAX_RECOMPUTED_FEATURES = 8
"""Features up to which computing a distance takes no longer than reading it."""

ORDINAL_BYTES = 72
"""Maximum bytes per pair of ordinal scaling: values, ranks, distances, order, and blocks of three numbers."""

MAX_KEPT_POINTS = 4096
"""Points up to which a copy of given dissimilarities is kept for `MDS.dissimilarity_matrix_`: 67 MB."""

START_VECTORS = 140
"""Vectors of n numbers that the Lanczos method of a classical start has at once."""


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


def scaling_bytes(
    points: int, dimensions: int, features: int | None, *, stored: bool, ordinal: bool, single: bool
) -> dict[str, int]:
    """Predict the bytes of a fit on the CPU by part, besides what is given.

    - ``features``: their number; None if dissimilarities are given
    - ``stored``: distances of features are computed once
    """
    pairs, n = points * (points - 1) // 2, points
    given = features is None
    parts = 64 * n * max(8, dimensions) * 8  # sums of the parts of a pass
    return {
        "pairs": 8 * pairs if stored else 0,
        "features": 0 if features is None else 8 * n * features * (1 if stored else 2),  # one copy is kept
        "given": 8 * pairs if given and n <= MAX_KEPT_POINTS else 0,
        "rounded": 4 * pairs if single and (stored or given) else 0,
        "disparities": ORDINAL_BYTES * pairs if ordinal else 0,
        "configurations": 8 * n * (dimensions * (3 * DEPTH + 10) + START_VECTORS),
        "sums": min(parts, 8 << 24),
    }
