"""The passes of a mixture over rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows that are on the GPU already are used in place; others are uploaded once per fit. Products and sums are in
float64, on tensor cores where the GPU has them for it, so that results are as accurate as those of the CPU,
which adds in another order. They have the same bits in each call, for any grid, and on GPUs of the same
generation. Ranks add their sums in turn on the host.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.errors import DeviceMemoryError
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.device.clusters import DeviceClusters
from bmrm.reductions.device.gram import DeviceGram
from bmrm.reductions.passes import ClusterPasses, MixtureSums
from bmrm.reductions.row_set import RowSet


class DeviceMixture:
    """Dense rows on a GPU; see `bmrm.reductions.passes.MixturePasses`.

    Parameters
    ----------
    rows : RowSet
        Dense, in main memory or on the GPU.
    gpu : int
        CUDA number of this rank's GPU.
    components : int
    full : bool
        Whether covariances are matrices, else diagonals.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows do not fit, or 64 of them not into the shared memory of a multiprocessor (more than 448
        columns on an H100).
    """

    def __init__(self, rows: RowSet, gpu: int, components: int, *, full: bool) -> None:
        cuda, n, d = import_cuda(), rows.here, rows.shape[1]
        with rows.together():
            most = cuda.count_mixture_columns(gpu)
            if d > most:
                raise DeviceMemoryError(
                    f"X: found {d} columns, expected at most {most} for a mixture on this GPU"
                )
        self.shape, self.total_weight, self.agree = rows.shape, rows.total_weight, rows.agree
        self.rows, self._gpu = rows, gpu
        spare = cuda.predict_mixture_bytes(n, d, components, full)
        gram = DeviceGram(rows, gpu, center=True, spare=spare)
        self._on_device, self.scatter = gram.on_device, gram.scatter
        self._clusters: DeviceClusters | None = None

    def step(self, means: Vector, roots: Vector, constants: Vector) -> MixtureSums:
        with self.rows.together():
            found = MixtureSums(*self._on_device.mixture_step(means, roots, constants))
        return self._in_turn(found)

    def shares(self, means: Vector, roots: Vector, constants: Vector) -> tuple[Vector, Vector]:
        return self._on_device.mixture_shares(means, roots, constants)

    def cluster_moments(self, centers: Vector, *, full: bool) -> MixtureSums:
        clusters = self._device_clusters()
        clusters.assign(centers, want_sums=False)
        with self.rows.together():
            found = MixtureSums(0.0, *self._on_device.label_moments(clusters.labels(), centers, full))
        return self._in_turn(found)

    def clusters(self) -> ClusterPasses:
        return self._device_clusters()

    def _in_turn(self, found: MixtureSums) -> MixtureSums:
        """Add the sums of all ranks in turn."""
        if self.rows.group is None:
            return found
        arrays = [np.asarray(each) for each in found]
        packed = self.rows.add_in_turn(np.concatenate([each.ravel() for each in arrays])[None, :])
        ends = np.cumsum([each.size for each in arrays])[:-1]
        likelihood, *sums = np.split(packed, ends)
        shaped = [part.reshape(each.shape) for part, each in zip(sums, arrays[1:], strict=True)]
        return MixtureSums(float(likelihood[0]), *shaped)

    def _device_clusters(self) -> DeviceClusters:
        if self._clusters is None:
            there = DeviceArray("X", self._on_device, 2, (np.float32, np.float64))
            self._clusters = DeviceClusters(replace(self.rows, X=there), self._gpu)
        return self._clusters
