"""The passes of a mixture over rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows that are on the GPU already are used in place; others are uploaded once per fit. Products and sums are in
float64, on tensor cores where the GPU has them for it, so that results are as accurate as those of the CPU,
which adds in another order. They have the same bits in each call, for any grid, and on GPUs of the same
generation.
"""

from __future__ import annotations

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
        Of one process; dense, in main memory or on the GPU.
    gpu : int
        CUDA number.
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
        cuda, (n, d) = import_cuda(), rows.shape
        most = cuda.count_mixture_columns(gpu)
        if d > most:
            raise DeviceMemoryError(
                f"X: found {d} columns, expected at most {most} for a mixture on this GPU"
            )
        self.shape, self.total_weight, self.agree = rows.shape, rows.total_weight, rows.agree
        self._weights, self._gpu = rows.weights, gpu
        spare = cuda.predict_mixture_bytes(n, d, components, full)
        gram = DeviceGram(rows, gpu, center=True, spare=spare)
        self._rows, self.scatter = gram.on_device, gram.scatter
        self._clusters: ClusterPasses | None = None

    def step(self, means: Vector, roots: Vector, constants: Vector) -> MixtureSums:
        return MixtureSums(*self._rows.mixture_step(means, roots, constants))

    def shares(self, means: Vector, roots: Vector, constants: Vector) -> tuple[Vector, Vector]:
        return self._rows.mixture_shares(means, roots, constants)

    def cluster_moments(self, centers: Vector, *, full: bool) -> MixtureSums:
        clusters = self.clusters()
        clusters.assign(centers, want_sums=False)
        return MixtureSums(0.0, *self._rows.label_moments(clusters.labels(), centers, full))

    def clusters(self) -> ClusterPasses:
        if self._clusters is None:
            there = DeviceArray("X", self._rows, 2, (np.float32, np.float64))
            self._clusters = DeviceClusters(there, self._weights, self._gpu)
        return self._clusters
