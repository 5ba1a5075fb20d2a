"""Where something runs: on the CPU, or on one GPU. `place` decides, `with_fall_back` opens it there.

Rows that are on a GPU stay there. For rows in main memory ``device="auto"`` asks the predicted work,
which is next to each method (`bmrm.matrix.gpu.work`). Without a usable GPU the answer is the CPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from bmrm.base.arguments import is_on_device, is_sparse_tensor
from bmrm.base.foreign_arrays import LEGACY_STREAM
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import gpu, import_cuda, parse_device, warn_of_the_cpu
from bmrm.matrix.gpu.driver import pointer_device
from bmrm.matrix.gpu.work import AnyWork, FindGpu

Host = TypeVar("Host")
Gpu = TypeVar("Gpu")

log = logging.getLogger("bmrm")


@dataclass(frozen=True)
class Placement:
    """Where something runs, and why.

    Attributes
    ----------
    gpu : int or None
        CUDA number of the GPU; None for the CPU.
    reason : str
    chosen : bool
        Whether it was neither asked for nor given by the rows. A GPU with too little memory then gives way
        to the CPU.

    Examples
    --------
    >>> print(Placement(None, "as given"))
    device  cpu: as given
    """

    gpu: int | None
    reason: str
    chosen: bool = False

    @property
    def device(self) -> str:
        """``"cpu"`` or ``"cuda:N"``."""
        return "cpu" if self.gpu is None else f"cuda:{self.gpu}"

    def __str__(self) -> str:
        return f"device  {self.device}: {self.reason}"

    def log(self) -> None:
        """Write the line to the package's log, at level DEBUG."""
        log.debug("plan: %s", self)


class RankGroup(Protocol):
    """Ranks that decide together, a `bmrm.distributed.Group`."""

    number: int
    """Number of this rank among those of its machine."""

    neighbours: int
    """Number of ranks of its machine."""

    def together(self) -> AbstractContextManager[None]:
        """Raise on all ranks what a block raises on any."""

    def everyones(self, value: Any) -> list[Any]:
        """Return the values of all ranks."""


def count_gpus() -> int:
    """Return the number of GPUs that the compiled backend finds."""
    return int(import_cuda().device_count())


def place(
    device: Any,
    there: int | None = None,
    work: AnyWork | None = None,
    *,
    group: RankGroup | None = None,
    find_gpu: FindGpu = gpu,
    count: Callable[[], int] = count_gpus,
) -> Placement:
    """Decide where something runs.

    The ranks of a machine take its GPUs in turn. With "auto" all ranks use GPUs if each of them would.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:N"}
    there : int, optional
        Number of the GPU that has the rows; see `gpu_that_has`.
    work : Work or MatrixWork, optional
        Predicted work, of the rank with the most rows; None if there is nothing to decide for rows in main
        memory: "auto" is the CPU.
    group : bmrm.distributed.Group, optional
        The ranks that decide together.
    find_gpu : callable, default `bmrm.matrix.gpu.devices.gpu`
        Returns the properties of a usable GPU, or None. Ranks share the GPUs of their machine instead.
    count : callable, optional
        Returns the number of GPUs; by default those of the compiled passes.

    Returns
    -------
    Placement
        Of this rank.

    Raises
    ------
    ParameterError
        If ``device`` is none of these, or rows are on another device than it names; if some ranks ask for
        GPUs and others for CPUs.

    Examples
    --------
    >>> place("auto").device, place("cuda:1").device
    ('cpu', 'cuda:1')
    """
    if group is None:
        return _place_alone(device, there, work, find_gpu)
    with group.together():
        found = _place_alone(device, there, work, lambda: _share_of_gpu(group))
        if found.gpu is not None and there is None and device in ("auto", "cuda"):
            found = replace(found, gpu=group.number % max(1, count()))
    asked, all_found = zip(*group.everyones((device, found)), strict=True)
    on_cpu = [each.gpu is None for each in all_found]
    if not any(on_cpu) or all(on_cpu):
        return found
    rank = on_cpu.index(True)
    if set(asked) != {"auto"}:
        other = on_cpu.index(False)
        raise ParameterError(
            f"device: found {asked[rank]!r} on rank {rank} and {asked[other]!r} on rank {other}, "
            "expected GPUs for all ranks or for none"
        )
    return Placement(None, f"as on rank {rank}: {all_found[rank].reason}")


def _place_alone(device: Any, there: int | None, work: AnyWork | None, find_gpu: FindGpu) -> Placement:
    asked = parse_device(device)
    if there is not None:
        if device == "cpu" or asked not in (None, there):
            raise ParameterError(f"device: found {device!r} for rows on GPU {there}, expected cuda:{there}")
        return Placement(there, "the rows are on it")
    if device != "auto":
        return Placement(None if device == "cpu" else asked or 0, "as given")
    if work is None:
        return Placement(None, "the rows are in main memory", chosen=True)
    pays, reason = work.compare(find_gpu)
    return Placement(0 if pays else None, reason, chosen=True)


def ranks_per_gpu(group: RankGroup, gpus: int) -> int:
    """Return how many ranks share a GPU at most, if those of a machine take its GPUs in turn."""
    return -(-group.neighbours // gpus)


def _share_of_gpu(group: RankGroup) -> dict[str, Any] | None:
    """Return the properties of a rank's GPU, and of its memory and multiprocessors what each rank has."""
    info = gpu(group.number)
    if info is None:
        return None
    sharers = ranks_per_gpu(group, count_gpus())
    return {
        **info,
        "free_bytes": info["free_bytes"] // sharers,
        "multiprocessors": info["multiprocessors"] / sharers,
    }


def with_fall_back(
    placement: Placement, on_host: Callable[[], Host], on_gpu: Callable[[int], tuple[Gpu, str]]
) -> tuple[Host | Gpu, Placement]:
    """Open or run something where it is placed; on the CPU if a GPU that `place` chose has too little memory.

    An error of one rank must be one of all, so that all are in the same place.

    Parameters
    ----------
    placement : Placement
    on_host : callable
    on_gpu : callable
        Of the number of the GPU; returns a note for the placement too, or "".

    Returns
    -------
    (object, Placement)
        What the callable returned, and where it is.
    """
    if placement.gpu is None:
        return on_host(), placement
    try:
        found, note = on_gpu(placement.gpu)
    except DeviceMemoryError as error:
        if not placement.chosen:
            raise
        warn_of_the_cpu(error)
        placement = Placement(None, str(error))
    else:
        return found, replace(placement, reason=f"{placement.reason}; {note}") if note else placement
    return on_host(), placement


def gpu_that_has(rows: Any) -> int | None:
    """Return the CUDA number of the GPU that has some rows; None if they are in main memory."""
    if rows is None or isinstance(rows, np.ndarray):
        return None
    array = rows
    if isinstance(rows, DeviceArray):
        pass
    elif isinstance(rows, Csr):
        array = rows.data
    elif is_sparse_tensor(rows):
        array = rows.values()
    elif is_on_device(getattr(rows, "data", None)):
        array = rows.data  # of a sparse matrix of CuPy
    if not isinstance(array, DeviceArray):
        if not is_on_device(array):
            return None
        array = DeviceArray("X", array, None, None, any_order=True, stream=LEGACY_STREAM)
    if not array.address:  # nothing has no address
        return array.device
    return pointer_device(array.address)
