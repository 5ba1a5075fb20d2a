"""Where an estimator or a reduction runs: on the CPU, or on one GPU.

Rows that are on a GPU stay there. For rows in main memory, ``device="auto"`` compares two predictions:

    on the CPU   time of all passes, with the threads that they may use
    on a GPU     start of the GPU + upload + steps + time of all passes

The overheads are those that T. Gunarathne, B. Salpitikorala, A. Chauhan and G. Fox (Iterative statistical
kernels on contemporary GPUs, Int. J. Computational Science and Engineering 8, 2013) find to decide the
choice; they measure their sum by doubling the work of a kernel, here each is a term.

`bmrm.unsupervised.work` predicts the work of each method, with constants that
``benchmarks/reductions/crossover.py`` measures. The start of a GPU counts unless this process has a context
on it already, so a short fit in a new process touches no driver. Without a usable GPU the answer is the CPU.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmrm.base.arguments import is_on_device, is_sparse_tensor
from bmrm.base.foreign_arrays import LEGACY_STREAM
from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import gpu, parse_device
from bmrm.matrix.gpu.driver import pointer_device
from bmrm.matrix.gpu.work import Work

START_SECONDS = 0.12
"""Time until a new process has a context on a GPU; NVIDIA H100."""

STEP_SECONDS = 1.3e-4
"""Time of one call of compiled code that the host waits for: launches and copies of results; NVIDIA H100."""

UPLOAD_BYTES_PER_SECOND = 9e9
"""Rate of an upload from pageable memory; NVIDIA H100 by PCIe 5."""

COPY_BYTES_PER_SECOND = 4.5e10
"""Rate of copies of rows in each pass; NVIDIA H100 by PCIe 5, ``benchmarks/reductions/gpu_blocks.py``."""

MULTIPROCESSORS = 132
"""Of the GPU for which times of passes are predicted, an H100; those of others are scaled by their own."""

log = logging.getLogger("bmrm")


@dataclass(frozen=True)
class Placement:
    """Where something runs, and why.

    Attributes
    ----------
    gpu : int or None
        CUDA number of the GPU; None for the CPU.
    reason : str

    Examples
    --------
    >>> print(Placement(None, "as given"))
    device  cpu: as given
    """

    gpu: int | None
    reason: str

    @property
    def device(self) -> str:
        """``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self.gpu is None else f"cuda:{self.gpu}"

    def __str__(self) -> str:
        return f"device  {self.device}: {self.reason}"

    def log(self) -> None:
        """Write the line to the package's log, at level DEBUG."""
        log.debug("plan: %s", self)


def place(
    device: Any,
    rows: Any = None,
    work: Work | None = None,
    *,
    available: Callable[[], dict[str, Any] | None] = gpu,
) -> Placement:
    """Decide where something runs.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:N"}
    rows : object
        What the user passes, or a validated matrix or array on a GPU.
    work : Work, optional
        Predicted work; None if there is nothing to decide for rows in main memory: "auto" is the CPU.
    available : callable, default `bmrm.matrix.gpu.devices.gpu`
        Returns the properties of a usable GPU, or None.

    Returns
    -------
    Placement

    Raises
    ------
    ParameterError
        If ``device`` is none of these, or rows are on another device than it names.

    Examples
    --------
    >>> place("auto").device, place("cuda:1").device
    ('cpu', 'cuda:1')
    """
    asked = parse_device(device)
    there = gpu_that_has(rows)
    if there is not None:
        if device == "cpu" or asked not in (None, there):
            raise ParameterError(f"device: found {device!r} for rows on GPU {there}, expected cuda:{there}")
        return Placement(there, "the rows are on it")
    if device != "auto":
        return Placement(None if device == "cpu" else asked or 0, "as given")
    if work is None:
        return Placement(None, "the rows are in main memory")
    return _compare(work, available)


def gpu_that_has(rows: Any) -> int | None:
    """Return the CUDA number of the GPU that has some rows; None if they are in main memory."""
    if isinstance(rows, np.ndarray):
        return None
    array = rows
    if isinstance(rows, Csr):
        array = rows.data
    elif is_sparse_tensor(rows):
        array = rows.values()
    elif not isinstance(rows, DeviceArray) and is_on_device(getattr(rows, "data", None)):
        array = rows.data  # of a sparse matrix of CuPy
    if not isinstance(array, DeviceArray):
        if not is_on_device(array):
            return None
        array = DeviceArray("X", array, None, None, any_order=True, stream=LEGACY_STREAM)
    return pointer_device(array.address) if array.address else array.device  # nothing has no address


def is_started(number: int = 0) -> bool:
    """Return whether this process has a context on a GPU; looks only, and loads no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    flags, active = ctypes.c_uint(), ctypes.c_int()
    failed = driver.cuDevicePrimaryCtxGetState(number, ctypes.byref(flags), ctypes.byref(active))
    return not failed and bool(active.value)


def _compare(work: Work, available: Callable[[], dict[str, Any] | None]) -> Placement:
    """Decide by the predicted times; ask for a GPU only if one could pay."""
    overhead = work.call_seconds + work.steps * STEP_SECONDS
    upload = work.upload_bytes / UPLOAD_BYTES_PER_SECOND
    if work.cpu_seconds > overhead + upload and not is_started():
        overhead += START_SECONDS
    on_cpu = f"the CPU takes {_time_text(work.cpu_seconds)}"
    if work.cpu_seconds <= overhead + upload:
        return Placement(
            None, f"{on_cpu}, and a GPU {_time_text(overhead)} to start and {_time_text(upload)} to upload"
        )
    info = available()
    if info is None:
        return Placement(None, "no GPU that this build can use")
    passes = work.gpu_seconds * MULTIPROCESSORS / info["multiprocessors"]
    missing = work.gpu_bytes - info["free_bytes"]
    if missing > 0.0:
        if not work.copied_passes:
            return Placement(None, "the GPU has too little memory")
        upload += work.copied_passes * missing / COPY_BYTES_PER_SECOND
    seconds = overhead + upload + passes
    reason = (
        f"{on_cpu}, and a GPU {_time_text(seconds)}: {_time_text(overhead)} to start, {_time_text(upload)} "
        f"to upload, {_time_text(passes)} to compute"
    )
    return Placement(0 if seconds < work.cpu_seconds else None, reason)


def _time_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"
