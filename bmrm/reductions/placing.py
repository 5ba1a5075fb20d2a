"""Decides where an estimator runs, and puts its rows there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from bmrm.base.notices import warn
from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import gpu, import_cuda
from bmrm.reductions.device.choose import Placement, place
from bmrm.reductions.device.clusters import DeviceClusters
from bmrm.reductions.device.gram import DeviceGram
from bmrm.reductions.device.mixtures import DeviceMixture
from bmrm.reductions.device.work import Work
from bmrm.reductions.host_passes import HostClusters, HostMixture
from bmrm.reductions.passes import ClusterPasses, MixturePasses
from bmrm.reductions.row_set import RowSet
from bmrm.reductions.scatter import Scatter, scatter_matrix

if TYPE_CHECKING:
    from bmrm.distributed.group import Group

Passes = TypeVar("Passes")


def open_clusters(
    rows: RowSet, placement: Placement, device: str, clusters: int
) -> tuple[ClusterPasses, Placement]:
    """Put rows where k-means runs; the CPU if there is no room on a GPU that the user has not asked for.

    The placement says which rows are copied to the GPU in each pass, if some are.

    Raises
    ------
    DeviceMemoryError
        If they do not fit on the GPU that the user has asked for.
    """

    def on_gpu(number: int) -> tuple[ClusterPasses, str]:
        found = DeviceClusters(rows, number, clusters)
        return found, found.note

    return _open(rows, placement, device, lambda: HostClusters(rows), on_gpu, sparse=True)


def open_mixture(
    rows: RowSet, placement: Placement, device: str, components: int, *, full: bool
) -> tuple[MixturePasses, Placement]:
    """Put dense rows where a mixture is fitted; ``full``: covariances are matrices. See `open_clusters`."""

    def on_gpu(number: int) -> tuple[MixturePasses, str]:
        found = DeviceMixture(rows, number, components, full=full)
        return found, found.note

    return _open(rows, placement, device, lambda: HostMixture(rows), on_gpu)


def open_gram(rows: RowSet, placement: Placement, device: str) -> tuple[DeviceGram | None, Placement]:
    """Put rows on the GPU where their scatter matrix is computed, None for the CPU; see `open_clusters`."""

    def on_gpu(number: int) -> tuple[DeviceGram, str]:
        found = DeviceGram(rows, number)
        return found, found.blocks.note

    return _open(rows, placement, device, lambda: None, on_gpu)


def scatter_about_mean(rows: RowSet, placement: Placement, device: str) -> Scatter:
    """Compute the scatter matrix of rows about their mean where they are placed, of sparse ones on the CPU.

    The products of a sparse row with itself are fewer than those of a pass of k-means.
    """
    gram = None
    if not isinstance(rows.X, Csr):
        gram, _ = open_gram(rows, placement, device)
    return scatter_matrix(rows, center=True) if gram is None else gram.scatter()


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
        As `bmrm.reductions.device.choose.place`; if some ranks ask for GPUs and others for CPUs.
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


def _open(
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
