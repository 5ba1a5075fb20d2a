"""The passes of k-means over rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows that are on the GPU already are used in place; others are uploaded once. Labels and distances stay there
between passes, and only sums cross the bus. Labels are those of the CPU, since rows that the fast pass cannot
prove are decided by the same operations in float64. Sums have the same bits on every run and for any grid,
and are as accurate as those of the CPU, which adds in another order. Ranks add theirs in turn on the host, so
the bits are those of the given ranks and their rows. If one rank fails, all raise its error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.io.csr import Csr
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE
from bmrm.reductions.passes import SAMPLED_ROWS, Assignment
from bmrm.reductions.row_set import RowSet
from bmrm.reductions.shared_clusters import SharedClusters, scale_of

if TYPE_CHECKING:
    from bmrm.matrix._cuda import Clusters, Column


class DeviceClusters(SharedClusters):
    """Rows on a GPU; see `bmrm.reductions.passes.ClusterPasses`.

    Parameters
    ----------
    rows : RowSet
        Dense in main memory or on the GPU, or sparse in main memory.
    gpu : int
        CUDA number of this rank's GPU.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows do not fit.
    """

    def __init__(self, rows: RowSet, gpu: int) -> None:
        super().__init__(rows)
        cuda: Any = import_cuda()
        X, n = rows.X, rows.shape[0]
        self.panel_rows = cuda.PANEL_ROWS
        self._count_additions = cuda.count_cluster_additions
        with rows.together():
            self._clusters: Clusters
            if isinstance(X, Csr):
                self._clusters = cuda.Clusters.sparse(
                    X.indptr, X.indices, X.data, X.shape, rows.weights, device=gpu, threads=rows.threads
                )
            else:
                self._clusters = cuda.Clusters(X, rows.weights, device=gpu, threads=rows.threads)
            largest = self._clusters.largest()
            _check_largest(largest)
            self._labels: Column = self._clusters.labels()
        if not isinstance(X, Csr):
            shift = self.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
            self._scale = scale_of(max(rows.everyones(largest)), shift)
            with rows.together():
                self._clusters.pack(shift, self._scale)
        else:
            self._scale = scale_of(max(rows.everyones(largest)))
        self._closest: Column | None = None

    def reset(self) -> None:
        with self.rows.together():
            self._labels = self._clusters.labels()

    def assign(self, centers: Vector, *, want_sums: bool = True) -> Assignment:
        k, d = centers.shape
        with self.rows.together():
            sums, weights, inertia, *counts = self._clusters.assign(
                centers, self._labels, want_sums=want_sums
            )
            sums = np.empty((0, d)) if sums is None else sums
        if self.rows.group is None:
            return Assignment(sums, weights, inertia, *counts)
        found = self.rows.add_in_turn(np.concatenate([sums.ravel(), weights, [inertia]])[None, :])
        changed, rechecked = self.rows.total_array(np.array(counts, np.float64)).astype(np.int64).tolist()
        sums, weights = found[: -k - 1].reshape(-1, d), found[-k - 1 : -1]
        return Assignment(sums, weights, float(found[-1]), changed, rechecked)

    def labels(self) -> NDArray[np.int32]:
        return self._labels.read(0, self.rows.here)

    def own_distances(self, centers: Vector) -> Vector:
        with self.rows.together():
            found = self._clusters.own_distances(centers, self._labels)
        return found

    def moves_here(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        with self.rows.together():
            found = self._clusters.single_moves(centers, self._labels, cluster_weights)
        return found

    def distances(self, centers: Vector) -> Vector:
        """Return the distances from each row here to all centres."""
        return self._clusters.measure(centers)

    def begin_seeding(self) -> None:
        with self.rows.together():
            self._closest = self._clusters.distances()
        self.points = 0

    def panel_potentials(self, points: Vector, *, take: bool) -> Vector:
        with self.rows.together():
            assert self._closest is not None
            found = self._clusters.potentials(points, self._closest, take=take)
        return found

    def read_closest(self, some: slice) -> NDArray[np.float32]:
        assert self._closest is not None
        return self._closest.read(some.start, some.stop)

    def approach_here(self, points: Vector) -> Vector:
        with self.rows.together():
            assert self._closest is not None
            found = self._clusters.approach(points, self.points, self._scale, self._closest, self._labels)
        return found

    def draw_here(self, key: int, factor: float) -> Indices:
        with self.rows.together():
            assert self._closest is not None
            found = self._clusters.draw_each(key, self.rows.first, factor, self._closest)
        return np.sort(found.astype(np.int64))

    def take(self, rows: Indices) -> Vector:
        there = isinstance(self.rows.X, DeviceArray)
        return self.rows.take(rows, self._clusters.take if there else None)

    def count_additions(self, clusters: int) -> int:
        if isinstance(self.rows.X, Csr):
            return sum(self.shape)
        return int(self._count_additions(self.rows.most_here, self.shape[1], clusters))


def _check_largest(largest: float) -> None:
    if not largest < np.inf:
        raise DataError("X: found NaN or infinity on the GPU, expected finite numbers")
    if largest > MAX_ABSOLUTE_VALUE:
        raise DataError(f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}")
