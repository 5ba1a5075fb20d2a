"""Puts the rows of an estimator where it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.reductions.device.choose import Placement
from bmrm.reductions.device.clusters import DeviceClusters
from bmrm.reductions.device.gram import DeviceGram
from bmrm.reductions.device.mixtures import DeviceMixture
from bmrm.reductions.host_passes import HostClusters, HostMixture
from bmrm.reductions.passes import ClusterPasses, MixturePasses
from bmrm.reductions.row_set import RowSet

Passes = TypeVar("Passes")


def open_clusters(rows: RowSet, placement: Placement, device: str) -> tuple[ClusterPasses, Placement]:
    """Put rows where k-means runs; the CPU if they do not fit on a GPU that the user has not asked for.

    Raises
    ------
    ParameterError
        If rows of several ranks should be on a GPU.
    DeviceMemoryError
        If they do not fit on the GPU that the user has asked for.
    """

    def on_gpu(number: int) -> ClusterPasses:
        return DeviceClusters(rows.X, rows.weights, number, rows.threads)

    return _open(rows, placement, device, lambda: HostClusters(rows), on_gpu, sparse=True)


def open_mixture(
    rows: RowSet, placement: Placement, device: str, components: int, *, full: bool
) -> tuple[MixturePasses, Placement]:
    """Put dense rows where a mixture is fitted; ``full``: covariances are matrices. See `open_clusters`."""

    def on_gpu(number: int) -> MixturePasses:
        return DeviceMixture(rows, number, components, full=full)

    return _open(rows, placement, device, lambda: HostMixture(rows), on_gpu)


def open_gram(
    rows: RowSet, placement: Placement, device: str, *, center: bool
) -> tuple[DeviceGram | None, Placement]:
    """Put rows on the GPU where their scatter matrix is computed, None for the CPU; see `open_clusters`."""
    return _open(
        rows, placement, device, lambda: None, lambda number: DeviceGram(rows, number, center=center)
    )


def _open(
    rows: RowSet,
    placement: Placement,
    device: str,
    on_host: Callable[[], Passes],
    on_gpu: Callable[[int], Passes],
    *,
    sparse: bool = False,
) -> tuple[Passes, Placement]:
    """Put rows on a GPU or leave them; ``sparse``: sparse ones may be on a GPU."""
    if placement.gpu is None:
        return on_host(), placement
    if rows.ranks > 1:
        raise ParameterError(f"device: found {device!r} for rows on {rows.ranks} ranks, expected auto or cpu")
    if isinstance(rows.X, Csr) and not sparse:
        raise ParameterError(f"device: found {device!r} for sparse rows, expected auto or cpu")
    try:
        return on_gpu(placement.gpu), placement
    except DeviceMemoryError as error:
        if device != "auto" or isinstance(rows.X, DeviceArray):
            raise
        warnings.warn(f"device='auto': {error}; using the CPU", stacklevel=6)
        return on_host(), Placement(None, str(error))
