"""The rows of k-means on a GPU that are the CPU's, with the methods of `bmrm.matrix._cuda.Clusters`.

`HostClusters` has the passes. Rows are moved and scaled as those on the GPU, so that all distances have one
unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.distributed.blocks import sampled_rows
from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.cpu_share import Pass, Share, least_seconds
from bmrm.unsupervised.clusters.cpu import HostClusters


class CpuValues:
    """One number per row, as `bmrm.matrix._cuda.RowValues`."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return the numbers of some rows."""
        return self._values[first:last].copy()


class CpuClusters:
    """Rows in main memory, and their passes once they are packed."""

    host: HostClusters

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._labels = np.full(rows.here, -1, np.int32)

    def largest(self) -> float:
        """Return the largest absolute value."""
        return self._rows.largest

    def pack(self, shift: Vector, scale: float) -> None:
        """Prepare the passes, over rows minus ``shift`` times ``scale``."""
        self.host = HostClusters(self._rows, (shift, scale), self._labels)

    def labels(self) -> CpuValues:
        """Forget all labels; return them."""
        self._labels.fill(-1)
        if hasattr(self, "host"):
            self.host.reset()
        return CpuValues(self._labels)

    def distances(self) -> CpuValues:
        """Forget all centres of k-means++; return the distances to them."""
        self.host.begin_seeding()
        return CpuValues(self.host.closest)

    def assign(
        self, centers: Vector, labels: CpuValues, *, want_sums: bool = True
    ) -> tuple[Vector | None, Vector, float, int, int]:
        """Label the rows; return the sums, and how many changed and were checked again."""
        sums, *others = self.host.assign(centers, want_sums=want_sums)
        return (sums if want_sums else None, *others)  # type: ignore[return-value]

    def own_distances(self, centers: Vector, labels: CpuValues) -> Vector:
        """Return the squared distance of each row to the centre of its label."""
        return self.host.own_distances(centers)

    def single_moves(self, centers: Vector, labels: CpuValues, cluster_weights: Vector) -> tuple[int, float]:
        """Return how many rows lower the inertia if they alone move, and the largest gain."""
        return self.host.moves_here(centers, cluster_weights)

    def measure(self, centers: Vector) -> Vector:
        """Return the distances to all centres."""
        return self.host.distances(centers)

    def potentials(self, points: Vector, closest: CpuValues, *, take: bool = False) -> Vector:
        """Return the sums of w min(closest, distance) of the panels, for each point."""
        return self.host.panel_potentials(points, take=take)

    def approach(
        self, points: Vector, first: int, scale: float, closest: CpuValues, nearest: CpuValues
    ) -> Vector:
        """Measure the rows against points that have numbers from ``first`` on; return sums of w D^2."""
        self.host.points = first
        return self.host.approach_here(points)

    def draw_each(self, key: int, first: int, factor: float, closest: CpuValues) -> NDArray[np.int64]:
        """Draw each row by itself with probability w D^2 factor."""
        return self.host.draw_here(key, factor)


def cluster_pass(rows: RowSet, clusters: int, share: Share) -> Pass:
    """Return a pass of k-means, for `count_cpu_blocks`; sparse rows stream unless a share is asked for."""
    d, dtype = rows.shape[1], rows.X.dtype

    def seconds(cores: int) -> float:
        sample = sampled_rows(rows, cores)
        passes = HostClusters(sample)
        centers = np.random.default_rng(1).random((clusters, d))

        def assign() -> None:
            passes.reset()
            passes.assign(centers)

        return least_seconds(assign) / sample.here

    name = "" if rows.sparse else f"k-means, {clusters} centres, {d} columns, {dtype}"
    return Pass(share, name, seconds)
