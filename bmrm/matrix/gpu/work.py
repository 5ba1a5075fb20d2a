"""The work of a method, as times on the CPU and on a GPU that `bmrm.matrix.gpu.placement.place` compares.

A pass has operations, in a unit of the method: multiply-adds, or what takes about as long. On the CPU it
takes the operations' time on one core, or that divided by the cores that the threads are worth and the time
to start them, whichever is less. On either device there is a time per step, a call of compiled code that the
host waits for. The constants of a method stand beside it; all are measured by
``benchmarks/reductions/crossover.py`` on an NVIDIA H100 and 16 cores of an Intel Xeon.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bmrm.base.threads import preferred_threads

FIT_SECONDS = 5.5e-4
"""Time of allocations and synchronisations of one fit on a GPU."""


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


THREAD_SECONDS = 1.2e-5
"""Time by which a pass takes longer for each thread that it starts and waits for."""

SHARED_CORE_LOSS = 1 / 15
"""Share by which each further thread slows the others: 16 threads of 8 cores with two threads each are worth
8."""

PINNED_BYTES = 1 << 24
"""Size from which rows of an estimator are uploaded through pinned memory."""

PINNED_SECONDS = 2.2e-2
"""Time to allocate the pinned memory of an upload."""

CPU_STEP_SECONDS = 4e-5
"""Time of a step on the CPU, besides its passes."""


def pinning_seconds(upload_bytes: float) -> float:
    """Return the time to allocate the pinned memory of an upload."""
    return PINNED_SECONDS if upload_bytes >= PINNED_BYTES else 0.0


def cpu_seconds(core_seconds: float, passes: float, steps: float, threads: int | None, parts: float) -> float:
    """Return the time of some passes that take so long together on one core."""
    each, team = core_seconds / passes, max(1, min(threads_of(threads), math.ceil(parts)))
    shared = each / cores_worth(team) + team * THREAD_SECONDS
    return steps * CPU_STEP_SECONDS + passes * min(each, shared)


def cores_worth(team: int) -> float:
    """Return how many times as fast as one thread some threads are.

    Examples
    --------
    >>> cores_worth(1), round(cores_worth(16), 9)
    (1.0, 8.0)
    """
    return team / (1.0 + (team - 1) * SHARED_CORE_LOSS)


def threads_of(given: int | None) -> int:
    """Return the number of threads that a user asks for, or the default."""
    return given or preferred_threads()
