"""The passes of k-means over rows in main memory or in a file, by the compiled loops.

Dense rows are packed in float32, which takes as much memory as the rows. If there is not enough, each pass
packs them again, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.distributed._parts import add_in_order
from bmrm.distributed.row_set import BLOCK_BYTES, SAMPLED_ROWS, RowSet
from bmrm.unsupervised.clusters._clusters import (
    PANEL_ROWS,
    SEEDING_PANEL_ROWS,
    Clusters,
    KeptSums,
    cluster_sums,
)
from bmrm.unsupervised.clusters.draws import uniform_of_rows
from bmrm.unsupervised.clusters.passes import Assignment, ClusterPasses
from bmrm.unsupervised.clusters.shared_clusters import SharedClusters, scale_of

KEPT_SUMS_FACTOR = 16
"""Factor in the error of an inertia whose sums are kept from pass to pass (``clusters/kept_moments.h``)."""

DRAWN_ROWS = 1 << 18
"""Rows for which numbers are drawn at a time."""

PACKED_BYTES = 4
"""Bytes of a packed value."""

CANCELLED_SHARE = 1e-3
"""Share of |x|^2 + |c|^2 below which a squared distance of a sparse row is computed again from differences:
the terms of the product form have cancelled, and some digits with them."""

DIFFERENCES = 1 << 20
"""Number of differences that are computed at once for these distances."""

KEPT_ROW_BYTES = 100
"""Maximum number of bytes per packed row of what is kept with it: bounds, and in seeding the minima of some
candidates."""


class HostClusters(SharedClusters):
    """Rows of k-means; see `ClusterPasses`.

    Parameters
    ----------
    rows : RowSet
    unit : (ndarray, float), optional
        What is subtracted from dense rows, and the factor of distances; by default those of these rows.
    labels : ndarray of int32, optional
        Where the labels are.
    """

    error_factor_of_dense = KEPT_SUMS_FACTOR

    def __init__(
        self,
        rows: RowSet,
        unit: tuple[Vector, float] | None = None,
        labels: NDArray[np.int32] | None = None,
    ) -> None:
        super().__init__(rows)
        self.largest = rows.largest
        self._labels = np.empty(rows.here, np.int32) if labels is None else labels
        self._whole: Clusters | None = None
        self._kept: dict[int, KeptSums] = {}  # of the block that begins at a row
        X, n = rows.X, rows.shape[0]
        with rows.guarded():
            if not X.sparse:
                self.error_factor = self.error_factor_of_dense
            if unit is not None:
                self._shift, self._scale = unit
            elif not X.sparse:
                sampled = np.arange(0, n, max(1, n // SAMPLED_ROWS))
                self._shift = rows.take(sampled).mean(axis=0)
                self._scale = scale_of(self.largest, self._shift)
            else:
                self._scale = scale_of(self.largest)
            self._limit: float = np.inf
            fits = X.in_place and rows.bytes_fit(PACKED_BYTES * X.size + KEPT_ROW_BYTES * rows.here)
            if X.sparse or fits:
                self._whole = self._packed(slice(0, rows.here))
            else:
                self._limit = BLOCK_BYTES
        self.reset()
        self.begin_seeding()

    def reset(self) -> None:
        self._labels.fill(-1)
        self._kept.clear()

    def labels(self) -> NDArray[np.int32]:
        return self._labels.copy()

    def assign(self, centers: Vector, *, want_sums: bool = True) -> Assignment:
        (k, d), counts = centers.shape, np.zeros(2)

        def run(block: slice, sums: Vector) -> None:
            of = self._clusters(block)
            kept = self._kept_of(block) if want_sums else None
            counts[:] += of.assign(centers, self._labels[block], sums, want_sums=want_sums, kept=kept)

        found = self.rows.fold(cluster_sums(want_sums, k, d), run, self._limit)
        changed, rechecked = self.rows.total_array(counts)
        sums = found[: k * d].reshape(k, d) if want_sums else np.empty((0, d))
        weights = found[-k - 1 : -1]
        if want_sums and self.rows.sparse:  # of w x so far
            sums = sums - weights[:, None] * centers
        return Assignment(sums, weights, float(found[-1]), int(changed), int(rechecked))

    def _kept_of(self, block: slice) -> KeptSums:
        if block.start not in self._kept:  # bounds of rows in a file might not fit
            self._kept[block.start] = KeptSums(bounded=self._whole is not None)
        return self._kept[block.start]

    def own_distances(self, centers: Vector) -> Vector:
        found = np.empty(self.rows.here)
        for block in self._blocks():
            found[block] = self._clusters(block).own_distances(centers, self._labels[block])
        return found

    def moves_here(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        moves, gain = 0, 0.0
        for block in self._blocks():
            found, best = self._clusters(block).single_moves(centers, self._labels[block], cluster_weights)
            moves, gain = moves + found, max(gain, best)
        return moves, gain

    def distances(self, centers: Vector) -> Vector:
        from scipy.spatial.distance import cdist

        X = self.rows.X[:]
        if not self.rows.sparse:
            return np.asarray(cdist(X, centers))
        return np.sqrt(_sparse_squares(X.to_scipy(np.float64), centers))

    def choose_centers(self, first: int, uniform: Vector) -> None:
        return None

    def passes_over(self, rows: RowSet, clusters: int) -> ClusterPasses:
        return HostClusters(rows)

    def begin_seeding(self) -> None:
        self.closest = np.full(self.rows.here, np.inf, np.float32)
        self._measured = np.empty((0, self.shape[1]))  # the candidates of the last pass
        self._potentials: Vector = np.empty((0, 0))  # with each of them
        self._minima = np.empty((0, self.rows.here), np.float32)
        self.points = 0

    def panel_potentials(self, points: Vector, *, take: bool) -> Vector:
        if take:
            known = np.flatnonzero((self._measured == points).all(axis=1))
            self._measured = self._measured[:0]
            if len(known):  # the best of the candidates
                self.closest[:] = self._minima[known[0]]
                return self._potentials[known[:1]]
            return self._measure(points, self.closest[None])
        if self._whole is None:  # the minima would take several times the memory of the labels
            return self._measure(points, None)
        if len(self._minima) != len(points):
            self._minima = np.empty((len(points), self.rows.here), np.float32)
        self._potentials = self._measure(points, self._minima)
        self._measured = points
        return self._potentials

    def _measure(self, points: Vector, minima: NDArray[np.float32] | None) -> Vector:
        """Return the sums of w min(closest, distance) of the panels here; write the minima themselves."""
        found = []
        for block in self._blocks():
            here = None if minima is None else minima[:, block]
            found.append(self._clusters(block).potentials(points, self.closest[block], here))
        return add_in_order(np.concatenate(found, axis=1), SEEDING_PANEL_ROWS // PANEL_ROWS)

    def read_closest(self, some: slice) -> NDArray[np.float32]:
        return self.closest[some]

    def approach_here(self, points: Vector) -> Vector:
        k, d = points.shape
        counted, panels = np.zeros(cluster_sums(False, k, d)), []
        self._measured = self._measured[:0]
        for block in self._blocks():
            of, fresh = self._clusters(block), np.full(block.stop - block.start, -1, np.int32)
            of.assign(points, fresh, counted, want_sums=False)
            squares = of.own_distances(points, fresh) * self._scale * self._scale
            squares = squares.astype(np.float32)
            closest, nearest = self.closest[block], self._labels[block]
            closer = np.flatnonzero(squares < closest) if self.points else slice(None)
            closest[closer] = squares[closer]
            nearest[closer] = fresh[closer] + self.points
            panels.append(np.add.reduceat(self._shares(block), np.arange(0, len(fresh), PANEL_ROWS)))
        return np.concatenate(panels)

    def draw_here(self, key: int, factor: float) -> Indices:
        rows, drawn = self.rows, []
        for start in range(0, rows.here, DRAWN_ROWS):
            block = slice(start, min(start + DRAWN_ROWS, rows.here))
            uniform = uniform_of_rows(key, rows.first + block.start, rows.first + block.stop)
            drawn.append(start + np.flatnonzero(uniform < self._shares(block) * factor))
        return np.concatenate(drawn)

    def _shares(self, block: slice) -> Vector:
        """Return w D^2 of some local rows."""
        shares = self.closest[block].astype(np.float64)
        return shares if self.rows.weights is None else shares * self.rows.weights[block]

    def count_additions(self, clusters: int) -> int:
        n, d = self.shape
        # Longest chain: the features of a row; the rows of a panel, or what a part adds to kept sums; the
        # panels of all parts.
        kept = max((sums.additions for sums in self._kept.values()), default=0)
        chain: int = max(PANEL_ROWS, *self.rows.everyones(kept))
        return d + chain + n // PANEL_ROWS + 16

    def _clusters(self, block: slice) -> Clusters:
        return self._packed(block) if self._whole is None else self._whole

    def _packed(self, block: slice) -> Clusters:
        rows = self.rows
        weights = None if rows.weights is None else rows.weights[block]
        if rows.sparse:
            return Clusters.sparse(*rows.X[:], weights=weights, total=rows.shape[0], threads=rows.threads)
        return Clusters.dense(
            rows.X[block],
            self._shift,
            self._scale,
            weights=weights,
            total=rows.shape[0],
            threads=rows.threads,
        )

    def _blocks(self) -> Iterator[slice]:
        """Yield the local rows in blocks, for passes without sums over blocks."""
        return self.rows.blocks(self.rows.part_rows(), self._limit)


def _sparse_squares(X: Any, centers: Vector) -> Vector:
    """Return the squared distances from sparse rows to centres, as |x|^2 + |c|^2 - 2 x.c if none cancels."""
    sizes = np.asarray(X.multiply(X).sum(axis=1)).reshape(-1, 1) + np.einsum("jf,jf->j", centers, centers)
    found = np.asarray(sizes - 2.0 * (X @ centers.T))
    rows, near = np.nonzero(found <= CANCELLED_SHARE * sizes)
    each = max(1, DIFFERENCES // centers.shape[1])
    for first in range(0, len(rows), each):
        i, j = rows[first : first + each], near[first : first + each]
        left = X[i].toarray() - centers[j]
        found[i, j] = np.einsum("if,if->i", left, left)
    return found
