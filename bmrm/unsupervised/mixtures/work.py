"""The predicted work of a mixture; see `bmrm.matrix.gpu.work`."""

from __future__ import annotations

from bmrm.distributed._parts import part_rows
from bmrm.matrix.gpu.work import Work, cpu_seconds, pinning_seconds

MIXTURE_CPU_SECONDS = 6.5e-11
"""Time of one operation of a step of EM on one core."""

MIXTURE_CPU_CALL_SECONDS = 1e-3
"""Time of a mixture on the CPU besides steps and passes: the first covariances, and what EM makes of sums."""

MIXTURE_GPU_SECONDS = 2e-13
"""Time of one operation of a step of EM on a GPU."""

EXPECTED_STEPS = 20
"""Steps of EM, if no smaller number is allowed."""

MIXTURE_START_STEPS = 10
"""Steps before the first of EM, of a few rows or k-means."""


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
        cpu_seconds(operations * MIXTURE_CPU_SECONDS, passes, calls, threads, rows / part_rows(rows))
        + MIXTURE_CPU_CALL_SECONDS,
        operations * MIXTURE_GPU_SECONDS + pinning_seconds(values * value_bytes),
        calls,
        values * value_bytes,
        values * value_bytes + 16.0 * rows,
        copied_passes=calls,
    )
