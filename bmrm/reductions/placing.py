"""Puts the rows of an estimator where it runs."""

from __future__ import annotations

import warnings

from bmrm.errors import DeviceMemoryError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.reductions.device.choose import Placement
from bmrm.reductions.device.clusters import DeviceClusters
from bmrm.reductions.host_passes import HostClusters
from bmrm.reductions.passes import ClusterPasses
from bmrm.reductions.row_set import RowSet


def open_clusters(rows: RowSet, placement: Placement, device: str) -> tuple[ClusterPasses, Placement]:
    """Put rows where k-means runs; the CPU if they do not fit on a GPU that the user has not asked for.

    Raises
    ------
    ParameterError
        If rows of several ranks, or sparse ones, should be on a GPU.
    DeviceMemoryError
        If they do not fit on the GPU that the user has asked for.
    """
    if placement.gpu is None:
        return HostClusters(rows), placement
    if rows.ranks > 1:
        raise ParameterError(f"device: found {device!r} for rows on {rows.ranks} ranks, expected auto or cpu")
    if isinstance(rows.X, Csr):
        raise ParameterError(f"device: found {device!r} for sparse rows, expected auto or cpu")
    try:
        return DeviceClusters(rows.X, rows.weights, placement.gpu, rows.threads), placement
    except DeviceMemoryError as error:
        if device != "auto" or isinstance(rows.X, DeviceArray):
            raise
        warnings.warn(f"device='auto': {error}; using the CPU", stacklevel=5)
        return HostClusters(rows), Placement(None, str(error))
