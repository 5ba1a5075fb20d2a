"""The work of a method: what decides between the CPU and a GPU, and the constants of the machine.

`Work` is predicted as times:

    on the CPU   time of all passes, with the threads that they may use
    on a GPU     start of the GPU + upload + steps + time of all passes

The overheads are those that T. Gunarathne, B. Salpitikorala, A. Chauhan and G. Fox (Iterative statistical
kernels on contemporary GPUs, Int. J. Computational Science and Engineering 8, 2013) find to decide the
choice; they measure their sum by doubling the work of a kernel, here each is a term. The start of a GPU
counts unless this process has a context on it already, so a short fit in a new process touches no driver.

A pass has operations, in a unit of the method: multiply-adds, or what takes about as long. On the CPU it
takes the operations' time on one core, or that divided by the cores that the threads are worth and the time
to start them, whichever is less. On either device there is a time per step, a call of compiled code that the
host waits for. The constants of a method stand beside it, in a ``work.py``; those of the machine are here.
All are measured by ``benchmarks/reductions/crossover.py`` on an NVIDIA H100 and 16 cores of an Intel Xeon.

A matrix that many products are formed with has `MatrixWork`: its size alone decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from bmrm.base.threads import preferred_threads
from bmrm.matrix._cpu import MIN_PINNED_BYTES
from bmrm.matrix.gpu.devices import is_started

START_SECONDS = 0.12
"""Time until a new process has a context on a GPU; NVIDIA H100."""

STEP_SECONDS = 1.3e-4
"""Time of one call of compiled code that the host waits for: launches and copies of results; NVIDIA H100."""

FIT_SECONDS = 5.5e-4
"""Time of allocations and synchronisations of one fit on a GPU."""

UPLOAD_BYTES_PER_SECOND = 9e9
"""Rate of an upload from pageable memory; NVIDIA H100 by PCIe 5."""

COPY_BYTES_PER_SECOND = 4.5e10
"""Rate of copies of rows in each pass; NVIDIA H100 by PCIe 5, ``benchmarks/reductions/gpu_blocks.py``."""

PINNED_SECONDS = 2.2e-2
"""Time to allocate the pinned memory of an upload."""

MULTIPROCESSORS = 132
"""Of the GPU for which times of passes are predicted, an H100; those of others are scaled by their own."""

CPU_STEP_SECONDS = 4e-5
"""Time of a step on the CPU, besides its passes."""

THREAD_SECONDS = 1.2e-5
"""Time by which a pass takes longer for each thread that it starts and waits for."""

SHARED_CORE_LOSS = 1 / 15
"""Share by which each further thread slows the others: 16 threads of 8 cores with two threads each are worth
8."""

WORTH_A_GPU = 5_000_000
"""Minimum number of stored values for which ``device="auto"`` uses a GPU.

In a new process the start of the driver and the upload must pay off too. With an H200 and 16 CPU cores they
do from this size on (``benchmarks/gpu/thesis_ch5.py`` counts how often).
"""

MAX_NARROW_COLUMNS = 1024
"""Maximum number of columns of a narrow X, for which a solve needs only a few passes on any device."""

NARROW_WORTH_A_GPU = 80_000_000
"""Minimum number of stored values for which ``device="auto"`` uses a GPU for a narrow X."""

FindGpu: TypeAlias = Callable[[], dict[str, Any] | None]
"""Returns the properties of a usable GPU, or None; see `bmrm.matrix.gpu.devices.gpu`."""

NO_GPU = False, "no GPU that this build can use"


class AnyWork(Protocol):
    """What `bmrm.matrix.gpu.placement.place` asks of a prediction."""

    def compare(self, find_gpu: FindGpu) -> tuple[bool, str]:
        """Return whether a GPU pays off, and why; ask for one only if it could."""
        ...


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

    def compare(self, find_gpu: FindGpu) -> tuple[bool, str]:
        """Compare the predicted times."""
        overhead = self.call_seconds + self.steps * STEP_SECONDS
        upload = self.upload_bytes / UPLOAD_BYTES_PER_SECOND
        if self.cpu_seconds > overhead + upload and not is_started():
            overhead += START_SECONDS
        on_cpu = f"the CPU takes {_time_text(self.cpu_seconds)}"
        if self.cpu_seconds <= overhead + upload:
            start = f"{_time_text(overhead)} to start and {_time_text(upload)} to upload"
            return False, f"{on_cpu}, and a GPU {start}"
        info = find_gpu()
        if info is None:
            return NO_GPU
        passes = self.gpu_seconds * MULTIPROCESSORS / info["multiprocessors"]
        missing = self.gpu_bytes - info["free_bytes"]
        if missing > 0.0:
            if not self.copied_passes:
                return False, "the GPU has too little memory"
            upload += self.copied_passes * missing / COPY_BYTES_PER_SECOND
        seconds = overhead + upload + passes
        return seconds < self.cpu_seconds, (
            f"{on_cpu}, and a GPU {_time_text(seconds)}: {_time_text(overhead)} to start, "
            f"{_time_text(upload)} to upload, {_time_text(passes)} to compute"
        )


class MatrixWork(NamedTuple):
    """Work with a matrix, of which only the size is known."""

    stored: int
    """Number of stored values."""
    columns: int | None = None
    """None if they are not known, or however few do not make the work short."""

    def compare(self, find_gpu: FindGpu) -> tuple[bool, str]:
        """Compare the number of stored values with that from which a GPU pays off."""
        narrow = self.columns is not None and self.columns <= MAX_NARROW_COLUMNS
        least = NARROW_WORTH_A_GPU if narrow else WORTH_A_GPU
        if self.stored >= least and find_gpu() is None:
            return NO_GPU
        found = f"{self.stored:.4g} stored values"
        return self.stored >= least, f"{found}, and a GPU pays off from {least:.4g} on"


def pinning_seconds(upload_bytes: float) -> float:
    """Return the time to allocate the pinned memory of an upload."""
    return PINNED_SECONDS if upload_bytes >= MIN_PINNED_BYTES else 0.0


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


def _time_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"
