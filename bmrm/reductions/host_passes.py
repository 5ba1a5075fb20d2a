"""The passes of `bmrm.reductions.passes` over rows in main memory or in a file, by the compiled loops.

k-means packs dense rows in float32, which takes as much memory as the rows. If there is not enough, blocks of
rows are packed anew in each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads
from bmrm.reductions._reductions import (
    PANEL_ROWS,
    Clusters,
    KeptSums,
    cluster_sums,
    mixture_shares,
    mixture_step,
    mixture_sums,
    part_rows,
)
from bmrm.reductions.passes import SAMPLED_ROWS, Assignment, ClusterPasses, Farthest, MixtureSums
from bmrm.reductions.row_set import BLOCK_BYTES, RowSet
from bmrm.reductions.scatter import FLOAT64_UNIT, Scatter, block_rows, scatter_matrix

KEPT_SUMS_FACTOR = 16
"""Factor in the error of an inertia whose sums are kept from pass to pass (``reductions/kept_moments.h``)."""

PACKED_BYTES = 4
"""Bytes of a packed value."""


class HostClusters:
    """Rows of k-means; see `ClusterPasses`."""

    def __init__(self, rows: RowSet) -> None:
        self.rows, self.shape = rows, rows.shape
        self.all_weights, self.take = rows.all_weights, rows.take
        self.agree, self.check_signals = rows.agree, rows.check_signals
        self._labels = np.empty(rows.here, np.int32)
        self._whole: Clusters | None = None
        self._kept: dict[int, KeptSums] = {}  # of the block that begins at a row
        X, n = rows.X, rows.shape[0]
        with rows.guarded():
            if isinstance(X, np.ndarray):
                sampled = np.arange(0, n, max(1, n // SAMPLED_ROWS))
                self._shift = rows.take(sampled).mean(axis=0)
                self._scale = _scale_of(rows, X, self._shift)
            self._limit: float = np.inf
            if isinstance(X, Csr) or rows.bytes_fit(PACKED_BYTES * X.size):
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
        if want_sums and isinstance(self.rows.X, Csr):  # of w x so far
            sums = sums - weights[:, None] * centers
        return Assignment(sums, weights, float(found[-1]), int(changed), int(rechecked))

    def _kept_of(self, block: slice) -> KeptSums:
        if block.start not in self._kept:  # bounds of rows in a file might not fit
            self._kept[block.start] = KeptSums(bounded=self._whole is not None)
        return self._kept[block.start]

    def own_distances(self, centers: Vector) -> Vector:
        """Return the squared distance of each row here to the centre of its label."""
        found = np.empty(self.rows.here)
        for block in self._blocks():
            found[block] = self._clusters(block).own_distances(centers, self._labels[block])
        return found

    def farthest(self, centers: Vector, count: int) -> Farthest:
        rows, weights = self.rows, self.rows.weights
        distances = self.own_distances(centers)
        if weights is not None:
            distances *= weights
        best = np.argsort(-distances, kind="stable")[:count]
        mine = Farthest(
            best + rows.first,
            self._labels[best],
            np.ones(len(best)) if weights is None else weights[best],
            distances[best],
        )
        joined = [np.concatenate(of) for of in zip(*rows.everyones(mine), strict=True)]
        order = np.argsort(-joined[-1], kind="stable")[:count]  # of equal ones the first rank's
        return Farthest._make(each[order] for each in joined)

    def single_moves(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        moves, gain = 0, 0.0
        for block in self._blocks():
            found, best = self._clusters(block).single_moves(centers, self._labels[block], cluster_weights)
            moves, gain = moves + found, max(gain, best)
        found_moves, gains = zip(*self.rows.everyones((moves, gain)), strict=True)
        return sum(found_moves), max(gains)

    def distances(self, centers: Vector) -> Vector:
        from scipy.spatial.distance import cdist

        X = self.rows.X
        if not isinstance(X, Csr):
            return np.asarray(cdist(X, centers))
        sparse = X.to_scipy(np.float64)
        squares = np.asarray(sparse.multiply(sparse).sum(axis=1)) + np.einsum("jf,jf->j", centers, centers)
        return np.asarray(np.sqrt(np.maximum(squares - 2.0 * (sparse @ centers.T), 0.0)))

    def begin_seeding(self) -> None:
        self._closest = np.full(self.rows.here, np.inf, np.float32)
        self._candidates: list[int] = []  # those that were measured last
        self._least = np.empty((0, self.rows.here), np.float32)  # and the minima of each

    def take_center(self, row: int) -> float:
        if row in self._candidates:
            at = self._candidates.index(row)
            self._panels = self._measured[at]
            self._closest[:] = self._least[at]
        else:
            self._panels = self._measure(np.array([row]), self._closest[None])[0]
        self._candidates = []
        self._cumulative, end = self.rows.accumulate(self._panels)
        self._potential = float(end)
        return self._potential

    def potentials(self, candidates: Indices) -> Vector:
        if self._whole is None:  # the minima would take several times the memory of the labels
            return self.rows.accumulate(self._measure(candidates, None))[1]
        if len(self._least) != len(candidates):
            self._least = np.empty((len(candidates), self.rows.here), np.float32)
        self._measured = self._measure(candidates, self._least)
        self._candidates = candidates.tolist()
        return self.rows.accumulate(self._measured)[1]

    def draw(self, uniform: Vector) -> Indices:
        return self._draw(uniform, self._cumulative, self._potential, self._row_in_panel)

    def draw_by_weight(self, uniform: Vector) -> Indices:
        weights = self.rows.weights
        cumulative, end = self.rows.accumulate(np.ones(self.rows.here) if weights is None else weights)
        return self._draw(uniform, cumulative, float(end), lambda place, _: place)

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        rows = self.rows
        n, d = rows.shape
        # Longest chain of additions: the features of a row; the rows of a panel, or what a part adds to kept
        # sums; the panels of all parts.
        kept = max((sums.additions for sums in self._kept.values()), default=0)
        chain: int = max(PANEL_ROWS, *rows.everyones(kept))
        terms = d + chain + n // PANEL_ROWS + 16 + len(rows.bounds)
        relative = terms * FLOAT64_UNIT / (1.0 - terms * FLOAT64_UNIT)
        if not isinstance(rows.X, Csr):
            return KEPT_SUMS_FACTOR * relative * inertia
        # |x|^2 - 2 x.c + |c|^2 cancels: its error is relative to the terms.
        squares = _row_squares(rows.X)
        size = rows.total(float(squares.sum() if rows.weights is None else squares @ rows.weights))
        return relative * float(
            inertia + 4.0 * (size + rows.total_weight * np.einsum("jf,jf->j", centers, centers).max())
        )

    def _clusters(self, block: slice) -> Clusters:
        return self._packed(block) if self._whole is None else self._whole

    def _packed(self, block: slice) -> Clusters:
        rows = self.rows
        weights = None if rows.weights is None else rows.weights[block]
        if isinstance(rows.X, Csr):
            X = rows.X
            return Clusters.sparse(
                X.indptr, X.indices, X.data, X.shape,
                weights=weights, total=rows.shape[0], threads=rows.threads,
            )  # fmt: skip
        return Clusters.dense(
            rows.X[block],
            self._shift,
            self._scale,
            weights=weights,
            total=rows.shape[0],
            threads=rows.threads,
        )

    def _blocks(self) -> Iterator[slice]:
        """Yield the rows here in blocks, for passes without sums over blocks."""
        return self.rows.blocks(part_rows(self.rows.shape[0]), self._limit)

    def _measure(self, candidates: Indices, least: NDArray[np.float32] | None) -> Vector:
        """Return the sums of w min(closest, distance) of the panels here, for each candidate.

        - ``least``: where to write the minima, shape (candidates, rows here)
        """
        points, found = self.take(candidates), []
        for block in self._blocks():
            of = self._clusters(block)
            minima = None if least is None else least[:, block]
            found.append(of.potentials(points, self._closest[block], minima))
        return np.concatenate(found, axis=1)

    def _draw(
        self, uniform: Vector, cumulative: Vector, end: float, refine: Callable[[int, float], int]
    ) -> Indices:
        """Return rows for numbers in [0, 1); places of length 0 are never found.

        - ``cumulative``: of the places here, which go on from those of the ranks before, to ``end``
        - ``refine``: returns the row here of a place here and a number
        """
        rows = self.rows
        counts = rows.everyones(len(cumulative))
        before = sum(counts[: rows.group.rank]) if rows.group else 0
        last = np.searchsorted(cumulative, end, "left")  # rounding of uniform * end may reach the end
        reached = np.array([last, *np.searchsorted(cumulative, uniform * end, "right")], np.float64)
        last, *places = rows.total_array(reached).astype(np.int64).tolist()
        found = np.zeros(len(uniform))
        for at, place in enumerate(places):
            place = min(place, last) - before
            if 0 <= place < len(cumulative):
                found[at] = rows.first + refine(place, float(uniform[at]))
        return rows.total_array(found).astype(np.int64)

    def _row_in_panel(self, panel: int, number: float) -> int:
        """Draw a row of a panel by what is left of the random number that has drawn the panel."""
        first = panel * PANEL_ROWS
        some = slice(first, first + PANEL_ROWS)
        within = self._closest[some].astype(np.float64)
        if self.rows.weights is not None:
            within *= self.rows.weights[some]
        within = np.add.accumulate(within)
        begin = self._cumulative[panel] - self._panels[panel]
        rest = (number * self._potential - begin) / self._panels[panel]
        return first + _place_of(within, min(max(rest, 0.0), 1.0) * within[-1])


class HostMixture:
    """Rows of a mixture; see `MixturePasses`."""

    def __init__(self, rows: RowSet) -> None:
        assert isinstance(rows.X, np.ndarray)
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
        return mixture_shares(self._X, means, roots, constants, threads=self.rows.threads)

    def scatter(self) -> Scatter:
        return scatter_matrix(self.rows, center=True)

    def cluster_moments(self, centers: Vector, *, full: bool) -> MixtureSums:
        (k, d), weights = centers.shape, self.rows.weights
        clusters = self._host_clusters()
        clusters.assign(centers, want_sums=False)
        labels, numbers = clusters.labels(), mixture_sums(k, d, full)

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

        each = max(block_rows(d), part_rows(self.shape[0], numbers))
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


def _place_of(cumulative: Vector, target: float) -> int:
    """Return the place on which a number falls; places of length 0 are never found.

    Examples
    --------
    >>> [_place_of(np.array([0.0, 1.0, 1.0, 4.0]), target) for target in (0.0, 0.9, 1.0, 4.0)]
    [1, 1, 3, 3]
    """
    last = int(np.searchsorted(cumulative, cumulative[-1], "left"))
    return min(int(np.searchsorted(cumulative, target, "right")), last)


def _row_squares(X: Csr) -> Vector:
    values = np.ones(X.nnz) if X.data is None else X.data.astype(np.float64) ** 2
    return np.add.reduceat(np.append(values, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)


def _scale_of(rows: RowSet, X: NDArray[np.floating], shift: Vector) -> float:
    largest = 0.0
    for block in rows.blocks(part_rows(rows.shape[0])):
        largest = max(largest, -float(X[block].min()), float(X[block].max()))
    largest = max(rows.everyones(largest)) + float(np.abs(shift).max())
    return float(np.ldexp(1.0, -int(np.frexp(largest)[1]))) if largest > 0.0 else 1.0
