"""The passes of a mixture over rows in main memory or in a file, by the compiled loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.distributed.row_set import RowSet
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.passes import ClusterPasses
from bmrm.unsupervised.decomposition.scatter import Scatter, block_rows, scatter_matrix
from bmrm.unsupervised.mixtures._mixtures import mixture_shares, mixture_step, mixture_sums
from bmrm.unsupervised.mixtures.passes import MixtureSums


class HostMixture:
    """Rows of a mixture; see `MixturePasses`."""

    def __init__(self, rows: RowSet) -> None:
        self.rows, self.shape, self.total_weight = rows, rows.shape, rows.total_weight
        self.agree = rows.agree
        self._X = rows.X
        self._clusters: HostClusters | None = None

    def step(self, means: Vector, roots: Vector, constants: Vector) -> MixtureSums:
        (k, d), full, weights = means.shape, roots.ndim == 3, self.rows.weights

        def run(block: slice, sums: Vector) -> None:
            w = None if weights is None else weights[block]
            mixture_step(
                self._X[block], w, means, roots, constants, sums,
                total=self.shape[0], threads=self.rows.threads,
            )  # fmt: skip

        return _mixture_sums(self.rows.fold(mixture_sums(k, d, full), run), k, d, full)

    def shares(self, means: Vector, roots: Vector, constants: Vector) -> tuple[Vector, Vector]:
        found = [
            mixture_shares(self._X[block], means, roots, constants, threads=self.rows.threads)
            for block in self.rows.blocks(self.rows.part_rows())
        ]
        if len(found) == 1:
            return found[0]
        logs, shares = zip(*found, strict=True)
        return np.concatenate(logs), np.concatenate(shares)

    def scatter(self) -> Scatter:
        return scatter_matrix(self.rows, center=True)

    def cluster_moments(self, centers: Vector, *, full: bool) -> MixtureSums:
        clusters = self._host_clusters()
        clusters.assign(centers, want_sums=False)
        return self.label_moments(clusters.labels(), centers, full=full)

    def label_moments(self, labels: NDArray[np.int32], centers: Vector, *, full: bool) -> MixtureSums:
        """Return the sums of a step in which each row is in the cluster of its label alone."""
        (k, d), weights = centers.shape, self.rows.weights
        numbers = mixture_sums(k, d, full)

        def sums_of(part: slice) -> Vector:
            found = np.zeros(numbers)
            sums = found[:-1].reshape(k, -1)
            w = np.ones(part.stop - part.start) if weights is None else weights[part]
            for j in range(k):
                mine = np.flatnonzero(labels[part] == j)
                if not len(mine):
                    continue
                values = self._X[part][mine] - centers[j]
                block = _cpu.Matrix.from_dense(values, threads=default_threads(values.size))
                sums[j, 0] = w[mine].sum()
                sums[j, 1 : 1 + d] = block.rmatvec(w[mine])
                second = block.weighted_gram(w[mine])
                sums[j, 1 + d :] = second.ravel() if full else np.diag(second)
            return found

        each = max(block_rows(d), self.rows.part_rows(numbers))
        return _mixture_sums(self.rows.fold_parts(numbers, each, sums_of), k, d, full)

    def clusters(self) -> ClusterPasses:
        return self._host_clusters()

    def _host_clusters(self) -> HostClusters:
        if self._clusters is None:
            self._clusters = HostClusters(self.rows)
        return self._clusters


def _mixture_sums(found: Vector, k: int, d: int, full: bool) -> MixtureSums:
    sums = found[:-1].reshape(k, -1)
    second = sums[:, 1 + d :].reshape((k, d, d) if full else (k, d))
    return MixtureSums(float(found[-1]), sums[:, 0], sums[:, 1 : 1 + d], second)
