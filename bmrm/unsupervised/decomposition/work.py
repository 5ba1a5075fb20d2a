"""The predicted work of a scatter matrix; see `bmrm.matrix.gpu.work`."""

from __future__ import annotations

from bmrm.matrix.gpu.work import Work, cores_worth, pinning_seconds, threads_of
from bmrm.matrix.resident import MIN_THREADED_VALUES

GRAM_CPU_SECONDS = 3.1e-11
"""Time of one multiply-add of a scatter matrix on one core."""

GRAM_CPU_VALUE_SECONDS = 2.4e-9
"""Time per value of a scatter matrix besides, which one core spends: rows are centred."""

GRAM_CPU_CALL_SECONDS = 8.6e-4
"""Time of a scatter matrix on the CPU besides, and of what is made of it."""

GRAM_GPU_SECONDS = 5e-14
"""Time of one multiply-add of a scatter matrix on a GPU."""

GRAM_STEPS = 8
"""Steps on a GPU that a scatter matrix takes as long as: allocations, the matrix, and what is made of it."""


def gram_work(rows: int, columns: int, value_bytes: int) -> Work:
    """Predict the work of the scatter matrix of dense rows."""
    values = float(rows) * columns
    cores = 1.0 if values < MIN_THREADED_VALUES else cores_worth(threads_of(None))
    return Work(
        values * (columns * GRAM_CPU_SECONDS / cores + GRAM_CPU_VALUE_SECONDS) + GRAM_CPU_CALL_SECONDS,
        values * (columns + 8.0) * GRAM_GPU_SECONDS + pinning_seconds(values * value_bytes),
        float(GRAM_STEPS),
        values * value_bytes,
        values * value_bytes + 64.0 * columns**2,
        copied_passes=1.0,
    )
