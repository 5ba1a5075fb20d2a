"""Passes of k-means over the rows of several ranks: what each rank finds in its own, combined in rank order.

Where the rows of a rank are makes no difference: `bmrm.unsupervised.clusters.cpu` and
`bmrm.unsupervised.clusters.gpu` have the passes over them. `RowSet` makes all sums in rank order, so a fixed
number of ranks gives fixed bits.

Shares w D^2 of k-means++ are added up in four levels: strips of rows, panels of strips, parts of panels, and
all parts in turn; a draw descends from the parts to a row. ``src_cuda/clusters/kernels/candidate_draws.cuh``
has the same operations, without the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.distributed._parts import add_in_order
from bmrm.distributed.row_set import RowSet
from bmrm.io.csr import Csr
from bmrm.unsupervised.clusters._clusters import SEEDING_PANEL_ROWS, descend, draw_row
from bmrm.unsupervised.clusters.passes import Farthest
from bmrm.unsupervised.decomposition.scatter import rounding_bound
from bmrm.unsupervised.scales import vanished

MAX_SCALE_EXPONENT = 1000
"""Exponent of the largest factor of packed rows; with denormal numbers a mixture may be asked for."""


class SharedClusters(ABC):
    """What `ClusterPasses` combines over ranks; a subclass has the passes over the local rows."""

    error_factor = 1
    """Factor in the error of an inertia of dense rows."""

    largest: float
    """Largest absolute value of the rows of all ranks."""

    points = 0
    """Number of points that the rows were measured against since `begin_seeding`."""

    def __init__(self, rows: RowSet) -> None:
        self.rows, self.shape = rows, rows.shape
        self._part_panels = rows.part_rows() // SEEDING_PANEL_ROWS
        # one of which `take_center` mostly gets next
        self._candidates, self._candidate_points = np.empty(0, np.int64), np.empty((0, self.shape[1]))
        self.all_weights, self.agree, self.check_signals = rows.all_weights, rows.agree, rows.check_signals

    @abstractmethod
    def labels(self) -> NDArray[np.int32]:
        """Return a copy of the labels of the local rows."""

    @abstractmethod
    def own_distances(self, centers: Vector) -> Vector:
        """Return the squared distance of each row here to the centre of its label."""

    @abstractmethod
    def moves_here(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        """Return what `single_moves` returns, for the local rows."""

    @abstractmethod
    def panel_potentials(self, points: Vector, *, take: bool) -> Vector:
        """Return the sums of w min(closest, distance) of the panels here, for each point: (points, panels).

        With ``take`` the only point becomes a centre.
        """

    @abstractmethod
    def read_closest(self, some: slice) -> NDArray[np.float32]:
        """Return the squared distances of some local rows to the nearest of the centres so far."""

    @abstractmethod
    def approach_here(self, points: Vector) -> Vector:
        """Measure the local rows against further points; return the sums of w D^2 of the panels here.

        The labels become the numbers of the nearest points.
        """

    @abstractmethod
    def draw_here(self, key: int, factor: float) -> Indices:
        """Draw each row here by itself with probability w D^2 factor; ascending numbers here."""

    @abstractmethod
    def count_additions(self, clusters: int) -> int:
        """Return the maximum number of additions that a term of an inertia goes through, on any rank."""

    def take(self, rows: Indices) -> Vector:
        return self.rows.take(rows)

    def farthest(self, centers: Vector, count: int) -> Farthest:
        rows, weights = self.rows, self.rows.weights
        distances, labels = self.own_distances(centers), self.labels()
        if weights is not None:
            distances *= weights
        best = np.argsort(-distances, kind="stable")[:count]
        mine = Farthest(
            best + rows.first,
            labels[best],
            np.ones(len(best)) if weights is None else weights[best],
            distances[best],
        )
        joined = [np.concatenate(of) for of in zip(*rows.everyones(mine), strict=True)]
        order = np.argsort(-joined[-1], kind="stable")[:count]  # of equal ones the first rank's
        return Farthest._make(each[order] for each in joined)

    def single_moves(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        moves, gains = zip(*self.rows.everyones(self.moves_here(centers, cluster_weights)), strict=True)
        return sum(moves), max(gains)

    def take_center(self, row: int) -> float:
        known = np.flatnonzero(self._candidates == row)[:1]
        point = self._candidate_points[known] if len(known) else self.take(np.array([row]))
        self._panels = self.panel_potentials(point, take=True)[0]
        self._parts = add_in_order(self._panels, self._part_panels)
        self._cumulative, end = self.rows.accumulate(self._parts)
        self._potential = float(end)
        return self._potential

    def potentials(self, candidates: Indices) -> Vector:
        self._candidates, self._candidate_points = candidates, self.take(candidates)
        found = self.panel_potentials(self._candidate_points, take=False)
        return self.rows.accumulate(add_in_order(found, self._part_panels))[1]

    def draw(self, uniform: Vector) -> Indices:
        return self._draw(uniform, self._cumulative, self._potential, self._row_in_part)

    def draw_by_weight(self, uniform: Vector) -> Indices:
        weights = self.rows.weights
        if weights is None:
            return np.minimum((uniform * self.shape[0]).astype(np.int64), self.shape[0] - 1)
        cumulative, end = self.rows.accumulate(weights)
        return self._draw(uniform, cumulative, float(end), lambda place, _: place)

    def approach(self, points: Vector) -> float:
        self._potential = float(self.rows.accumulate(self.approach_here(points))[1])
        self.points += len(points)
        return self._potential

    def draw_each(self, expected: float, key: int) -> Indices:
        rows = self.rows
        return np.concatenate(rows.everyones(rows.first + self.draw_here(key, expected / self._potential)))

    def nearest_weights(self) -> Vector:
        labels, weights, points = self.labels(), self.rows.weights, self.points

        def sums_of(part: slice) -> Vector:
            w = None if weights is None else weights[part]
            return np.bincount(labels[part], w, points).astype(np.float64)

        return self.rows.fold_parts(points, self.rows.part_rows(points), sums_of)

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        rows = self.rows
        additions = self.count_additions(len(centers)) + len(rows.bounds)
        relative, (n, d) = rounding_bound(additions), self.shape
        steps = n + len(centers) * additions * -(-n // rows.part_rows())  # rows that join a sum or leave it
        reach = self.largest + float(np.abs(centers).max())
        lost = vanished(steps * d, rows.total_weight, reach)
        if not rows.sparse:
            return self.error_factor * relative * inertia + lost
        # |x|^2 - 2 x.c + |c|^2 cancels: its error is relative to the terms.
        squares = _row_squares(rows.X[:])
        size = rows.total(float(squares.sum() if rows.weights is None else squares @ rows.weights))
        terms = inertia + 4.0 * (size + rows.total_weight * np.einsum("jf,jf->j", centers, centers).max())
        return relative * float(terms) + lost

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

    def _row_in_part(self, part: int, number: float) -> int:
        """Draw a row here by what is left of the random number that has drawn the part."""
        end, size = self._cumulative[part], self._parts[part]
        rest = min(max((number * self._potential - (end - size)) / size, 0.0), 1.0)
        first = part * self._part_panels
        panel, rest = descend(self._panels[first : first + self._part_panels], rest)
        first = (first + panel) * SEEDING_PANEL_ROWS
        some = slice(first, min(first + SEEDING_PANEL_ROWS, self.rows.here))
        weights = self.rows.weights
        return first + draw_row(self.read_closest(some), None if weights is None else weights[some], rest)


def scale_of(largest: float, shift: Vector | None = None) -> float:
    """Return the power of two by which rows of values up to ``largest`` become at most 1 after a shift."""
    widest = largest if shift is None else largest + float(np.abs(shift).max())
    exponent = min(-int(np.frexp(widest)[1]), MAX_SCALE_EXPONENT)
    return float(np.ldexp(1.0, exponent)) if widest > 0.0 else 1.0


def _row_squares(X: Csr) -> Vector:
    values = np.ones(X.nnz) if X.data is None else X.data.astype(np.float64) ** 2
    return np.add.reduceat(np.append(values, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)
