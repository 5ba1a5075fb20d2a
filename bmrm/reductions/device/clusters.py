"""The passes of k-means over rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows that are on the GPU already are used in place; others are uploaded once. Labels and distances stay there
between passes, and only sums cross the bus. Labels are those of the CPU, since rows that the fast pass cannot
prove are decided by the same operations in float64. Sums have the same bits on every run and for any grid,
and are as accurate as those of the CPU, which adds in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE
from bmrm.reductions.passes import FLOAT64_UNIT, SAMPLED_ROWS, Assignment, scale_of

if TYPE_CHECKING:
    from bmrm.matrix._cuda import Column


class DevicePasses:
    """Dense rows on a GPU; see `bmrm.reductions.passes.ClusterPasses`.

    Parameters
    ----------
    X : ndarray or DeviceArray of float32 or float64, shape (n, d)
    weights : ndarray, shape (n,), or None
    gpu : int
        CUDA number.
    threads : int, optional
        Maximum number of threads of the upload.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows do not fit.
    """

    def __init__(
        self, X: NDArray[Any] | DeviceArray, weights: Vector | None, gpu: int, threads: int | None = None
    ) -> None:
        cuda = import_cuda()
        n, d = X.shape
        self.shape: tuple[int, int] = (n, d)
        self.weights = weights
        self.panel_rows: int = cuda.PANEL_ROWS
        self._host = None if isinstance(X, DeviceArray) else X
        self._count_additions = cuda.count_cluster_additions
        self._clusters = cuda.Clusters(X, weights, device=gpu, threads=threads)
        largest = self._clusters.largest()
        if not largest < np.inf:
            raise DataError("X: found NaN or infinity on the GPU, expected finite numbers")
        if largest > MAX_ABSOLUTE_VALUE:
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )
        shift = self.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
        self._clusters.pack(shift, scale_of(largest, shift))

    def new_labels(self) -> Column:
        return self._clusters.labels()

    def read_labels(self, labels: Column) -> NDArray[np.int32]:
        return labels.read(0, self.shape[0])

    def assign(self, centers: Vector, labels: Column, *, want_sums: bool = True) -> Assignment:
        return Assignment(*self._clusters.assign(centers, labels, want_sums=want_sums))

    def own_distances(self, centers: Vector, labels: Column) -> Vector:
        return self._clusters.own_distances(centers, labels)

    def single_moves(self, centers: Vector, labels: Column, cluster_weights: Vector) -> tuple[int, float]:
        return self._clusters.single_moves(centers, labels, cluster_weights)

    def distances(self, centers: Vector) -> Vector:
        return self._clusters.measure(centers)

    def new_distances(self) -> Column:
        return self._clusters.distances()

    def read_distances(self, closest: Column, first: int, last: int) -> NDArray[np.float32]:
        return closest.read(first, last)

    def potentials(self, candidates: Indices, closest: Column, *, take: bool = False) -> Vector:
        return self._clusters.potentials(candidates, closest, take=take)

    def take(self, rows: Indices) -> Vector:
        if self._host is not None:
            return np.asarray(self._host[rows], np.float64)
        return self._clusters.take(rows)

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        terms = self._count_additions(*self.shape, len(centers))
        return terms * FLOAT64_UNIT / (1.0 - terms * FLOAT64_UNIT) * inertia
