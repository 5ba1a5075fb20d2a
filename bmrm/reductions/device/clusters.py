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

from bmrm.base.interrupts import check_signals
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.io.csr import Csr
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.draws import place_of
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE, power_below
from bmrm.reductions.passes import SAMPLED_ROWS, Assignment, Farthest
from bmrm.reductions.scatter import FLOAT64_UNIT

if TYPE_CHECKING:
    from bmrm.matrix._cuda import Clusters, Column


class DeviceClusters:
    """Rows on a GPU; see `bmrm.reductions.passes.ClusterPasses`.

    Parameters
    ----------
    X : ndarray or DeviceArray of float32 or float64, or Csr on the host, shape (n, d)
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
        self,
        X: Csr | NDArray[Any] | DeviceArray,
        weights: Vector | None,
        gpu: int,
        threads: int | None = None,
    ) -> None:
        cuda: Any = import_cuda()
        n, d = X.shape
        self.shape: tuple[int, int] = (n, d)
        self._weights = weights
        self._host = None if isinstance(X, DeviceArray) else X
        self._panel_rows: int = cuda.PANEL_ROWS
        self._count_additions = cuda.count_cluster_additions
        self._clusters: Clusters
        if isinstance(X, Csr):
            self._clusters = cuda.Clusters.sparse(
                X.indptr, X.indices, X.data, X.shape, weights, device=gpu, threads=threads
            )
        else:
            self._clusters = cuda.Clusters(X, weights, device=gpu, threads=threads)
        largest = self._clusters.largest()
        if not largest < np.inf:
            raise DataError("X: found NaN or infinity on the GPU, expected finite numbers")
        if largest > MAX_ABSOLUTE_VALUE:
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )
        if not isinstance(X, Csr):
            shift = self.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
            self._scale = power_below(largest + float(np.abs(shift).max()))
            self._clusters.pack(shift, self._scale)
        else:
            self._scale = power_below(largest)
        self._labels: Column = self._clusters.labels()
        self._closest: Column | None = None
        self._cumulative = self._cumulative_weights = np.empty(0)

    def reset(self) -> None:
        self._labels = self._clusters.labels()

    def assign(self, centers: Vector, *, want_sums: bool = True) -> Assignment:
        sums, weights, inertia, changed, rechecked = self._clusters.assign(
            centers, self._labels, want_sums=want_sums
        )
        sums = np.empty((0, self.shape[1])) if sums is None else sums
        return Assignment(sums, weights, inertia, changed, rechecked)

    def labels(self) -> NDArray[np.int32]:
        return self._labels.read(0, self.shape[0])

    def farthest(self, centers: Vector, count: int) -> Farthest:
        distances = self._clusters.own_distances(centers, self._labels)
        weights = np.ones(len(distances)) if self._weights is None else self._weights
        distances *= weights
        rows = np.argsort(-distances, kind="stable")[:count]
        return Farthest(rows, self.labels()[rows], weights[rows], distances[rows])

    def single_moves(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        return self._clusters.single_moves(centers, self._labels, cluster_weights)

    def distances(self, centers: Vector) -> Vector:
        """Return the distances from each row to all centres, shape (n, k)."""
        return self._clusters.measure(centers)

    def begin_seeding(self) -> None:
        self._closest = self._clusters.distances()
        self._points = 0

    def take_center(self, row: int) -> float:
        assert self._closest is not None
        panels = self._clusters.potentials(np.array([row]), self._closest, take=True)[0]
        self._cumulative = np.add.accumulate(panels)
        return float(self._cumulative[-1])

    def potentials(self, candidates: Indices) -> Vector:
        assert self._closest is not None
        panels = self._clusters.potentials(candidates, self._closest)
        return np.asarray(np.add.accumulate(panels, axis=1)[:, -1])

    def draw(self, uniform: Vector) -> Indices:
        """Draw the panel, and then the row in it with what is left of the same random number."""
        assert self._closest is not None
        found = np.empty(len(uniform), np.int64)
        for at, target in enumerate(uniform * self._cumulative[-1]):
            panel = place_of(self._cumulative, target)
            first = panel * self._panel_rows
            some = slice(first, min(first + self._panel_rows, self.shape[0]))
            within = self._closest.read(some.start, some.stop).astype(np.float64)
            if self._weights is not None:
                within *= self._weights[some]
            before = self._cumulative[panel - 1] if panel else 0.0
            found[at] = first + place_of(np.add.accumulate(within), target - before)
        return found

    def approach(self, points: Vector) -> float:
        assert self._closest is not None
        panels = self._clusters.approach(points, self._points, self._scale, self._closest, self._labels)
        self._points += len(points)
        self._potential = float(np.add.accumulate(panels)[-1])
        return self._potential

    def draw_each(self, expected: float, key: int) -> Indices:
        assert self._closest is not None
        drawn = self._clusters.draw_each(key, 0, expected / self._potential, self._closest)
        return np.sort(drawn.astype(np.int64))

    def nearest_weights(self) -> Vector:
        return np.bincount(self.labels(), self._weights, self._points).astype(np.float64)

    def draw_by_weight(self, uniform: Vector) -> Indices:
        if not len(self._cumulative_weights):
            weights = np.ones(self.shape[0]) if self._weights is None else self._weights
            self._cumulative_weights = np.add.accumulate(weights)
        cumulative = self._cumulative_weights
        return np.array([place_of(cumulative, target) for target in uniform * cumulative[-1]], np.int64)

    def all_weights(self) -> Vector | None:
        return self._weights

    def take(self, rows: Indices) -> Vector:
        if isinstance(self._host, Csr):
            return np.asarray(self._host.take(rows).to_scipy(np.float64).toarray())
        if self._host is not None:
            return np.asarray(self._host[rows], np.float64)
        return self._clusters.take(rows)

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        n, d = self.shape
        of_sparse = isinstance(self._host, Csr)
        terms: int = n + d if of_sparse else self._count_additions(n, d, len(centers))
        relative = terms * FLOAT64_UNIT / (1.0 - terms * FLOAT64_UNIT)
        if not isinstance(self._host, Csr):
            return relative * inertia
        # |x|^2 - 2 x.c + |c|^2 cancels: its error is relative to the terms.
        values = self._host.to_scipy(np.float64)
        squares = np.asarray(values.multiply(values).sum(axis=1)).ravel()
        w = np.ones(n) if self._weights is None else self._weights
        widest = float(np.einsum("jf,jf->j", centers, centers).max())
        return relative * (inertia + 4.0 * float(w @ squares + w.sum() * widest))

    def agree(self, status: str) -> str:
        return status

    def check_signals(self) -> None:
        check_signals()
