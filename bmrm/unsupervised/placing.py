"""Decides where an estimator runs, and puts its rows there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from bmrm.base.notices import warn
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import gpu, import_cuda
from bmrm.matrix.gpu.placement import Placement, place
from bmrm.matrix.gpu.work import Work

if TYPE_CHECKING:
    from bmrm.distributed.group import Group

Passes = TypeVar("Passes")


def place_rows(rows: RowSet, device: str, work: Work | None = None) -> Placement:
    """Decide where rows are worked on; ranks decide together.

    The ranks of a machine take its GPUs in turn. With "auto" all ranks use GPUs if each of them would.

    Parameters
    ----------
    rows : RowSet
    device : {"auto", "cpu", "cuda", "cuda:N"}
    work : Work, optional
        Of the rank with the most rows; None if there is nothing to decide.

    Returns
    -------
    Placement
        Of this rank.

    Raises
    ------
    ParameterError
        As `bmrm.matrix.gpu.placement.place`; if some ranks ask for GPUs and others for CPUs.
    """
    group = rows.group
    if group is None:
        return place(device, rows.X, work)
    with rows.together():
        found = place(device, rows.X, work, available=lambda: _share_of_gpu(group))
        if found.gpu is not None and device in ("auto", "cuda") and not isinstance(rows.X, DeviceArray):
            found = replace(found, gpu=group.number % max(1, import_cuda().device_count()))
    asked, all_found = zip(*rows.everyones((device, found)), strict=True)
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


def _share_of_gpu(group: Group) -> dict[str, Any] | None:
    """Return the properties of a rank's GPU, and of its memory and multiprocessors what each rank has."""
    info = gpu(group.number)
    if info is None:
        return None
    sharers = -(-group.neighbours // import_cuda().device_count())
    return {
        **info,
        "free_bytes": info["free_bytes"] // sharers,
        "multiprocessors": info["multiprocessors"] / sharers,
    }


def open_rows(
    rows: RowSet,
    placement: Placement,
    device: str,
    on_host: Callable[[], Passes],
    on_gpu: Callable[[int], tuple[Passes, str]],
    *,
    sparse: bool = False,
) -> tuple[Passes, Placement]:
    """Put rows on a GPU or leave them; an error of one rank is one of all, so that all are in the same place.

    - ``on_gpu``: returns a note for the placement too
    - ``sparse``: sparse rows may be on a GPU
    """
    if placement.gpu is None:
        return on_host(), placement
    if isinstance(rows.X, Csr) and not sparse:
        raise ParameterError(f"device: found {device!r} for sparse rows, expected auto or cpu")
    try:
        passes, note = on_gpu(placement.gpu)
    except DeviceMemoryError as error:
        if device != "auto" or isinstance(rows.X, DeviceArray):
            raise
        warn(f"device='auto': {error}; using the CPU")
        return on_host(), Placement(None, str(error))
    return passes, replace(placement, reason=f"{placement.reason}; {note}") if note else placement
