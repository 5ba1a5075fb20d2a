"""Walks on the CPU: products by `bmrm.matrix`, the vector work in the compiled passes of `_graph`.

The bound of the rounding. Let u = 2^-53, x >= 0, and t = P' x. Everything that is added is positive, so each
computed entry of t has a relative error of at most (a_i + 3) u to first order, where a_i is the number of
additions that a term of row i goes through: 1 or 2 units are due to the messages x_j / s_j or the rounded
weights w_ij / s_j, the rest to the sum s_j. Times d and plus the restart terms, T(x)_i has the error

    |error_i| <= u ((a_i + C) d t_i + (b + D) ((1 - d) v_i + d m u_i)) <= u (a_i T(x)_i + C d t_i + (b + D)
    ...),

b the additions of the sum over dangling nodes. The sum over i bounds the l1 norm. It weighs each row's
additions by the row's score: a hub with 10^6 in-links and 1 % of the mass costs 1 % of 10^6 / 8 units.
(Higham, "Accuracy and stability of numerical algorithms", 2002, chapters 3 and 4.) A test compares it with
exact arithmetic.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot, norm
from bmrm.graph import _graph
from bmrm.graph.backends.base import Restarts
from bmrm.graph.graph import Graph
from bmrm.graph.peers import total_of
from bmrm.matrix import _cpu

UNIT = 2.0**-53
"""Unit roundoff of float64."""

HIGHER_ORDER = 1.01
"""Factor for terms of higher order, and for the rounding of the bound itself: additions times UNIT stay far
below 0.01 for every row that fits into memory."""

PRODUCT_ROUNDINGS = 6
"""C: message or weight (2), their product (1), sum of weights (2, compensated), times d (1); the additions of
the restart terms are in a_i."""

RESTART_ROUNDINGS = 8
"""D: 1 - d, times m, their sum, times v_i, plus the terms of u, plus the product, with two to spare."""

TINY = 1e-290
"""More than all that underflow can lose: each operation loses at most 2^-1075, times a weight over a sum."""

LANE_ENTRIES = 8
"""Partial sums of a row in a product with one vector (src_cython/cpu/sparse_kernels.h)."""

COLUMN_SUMS = 2
"""Minimum number of partial sums of a row in a product with several vectors."""

SHORT_ROW_ENTRIES = 48
"""Rows up to this length may be summed one entry after the other; the kernels do so up to 32."""

PIECE_ENTRIES = 1 << 17
"""Longer rows are summed in pieces of this length, which are added in order (src_cython/cpu/split.h)."""

JOIN_ADDITIONS = 8
"""Additions that join the partial sums of a row, and the restart terms, with some to spare."""

MAX_SPARE_BYTES = 1 << 30
"""Arrays that a graph keeps from one run to the next. Fresh memory has to be cleared by the system, which
costs a tenth of the time of a run with one walk, and a third of one with 16."""

ENOUGH_LEFT = 0.7
"""Share of the length of a vector that must be left after orthogonalisation, or it is done a second time
(Daniel, Gragg, Kaufman, Stewart, Math. Comp. 30 (1976) 772)."""


def count_row_additions(entries: NDArray[Any], columns: int) -> Vector:
    """Bound the additions that a term goes through in the product of rows with these numbers of entries."""
    lanes = LANE_ENTRIES if columns == 1 else COLUMN_SUMS
    long = entries / lanes + entries / PIECE_ENTRIES + JOIN_ADDITIONS
    short = np.where(entries <= SHORT_ROW_ENTRIES, entries + JOIN_ADDITIONS, long)
    return np.maximum(short, long)


class HostTransitions:
    """P' of a graph in main memory.

    Parameters
    ----------
    graph : Graph
    weighted : bool
        Whether an edge counts by its weight; else each counts the same.
    """

    def __init__(self, graph: Graph, weighted: bool) -> None:
        starts, sources, weights = graph.edges_by_target
        self.graph, self.n = graph, graph.n_nodes
        self.entries = np.diff(starts)
        if weighted and weights is not None:
            sums = graph.out_strength()
            self.scale = (sums[graph.own] > 0).astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
                shares = weights / sums[sources]
            values: Vector | None = np.where(sums[sources] > 0, shares, 0.0)
        else:
            values, degree = None, graph.count_out_edges()[graph.own]
            self.scale = np.divide(1.0, degree, out=np.zeros(len(degree)), where=degree > 0)
        shape = (len(self.entries), self.n)
        by_popularity = False if graph.is_reordered else None
        self.matrix = _cpu.Matrix(
            starts,
            sources,
            values,
            shape,
            threads=graph.threads,
            transpose=False,
            by_popularity=by_popularity,
        )
        self._spare: list[Vector] = []

    def walk(self, damping: float, restarts: Restarts) -> HostWalk:
        return HostWalk(self, damping, restarts)

    def take_array(self, columns: int) -> Vector:
        """Return an array of shape (own nodes, columns) with any content, if possible one given back."""
        for place, array in enumerate(self._spare):
            if array.shape[1] == columns:
                with contextlib.suppress(IndexError):  # another thread took it
                    return self._spare.pop(place)
        return np.empty((len(self.entries), columns))

    def give_back(self, arrays: Iterable[Vector]) -> None:
        """Keep arrays for the next walk, up to `MAX_SPARE_BYTES`."""
        for array in arrays:
            if sum(kept.nbytes for kept in self._spare) + array.nbytes <= MAX_SPARE_BYTES:
                self._spare.append(array)


class HostWalk:
    """Walks in main memory; vectors have the order in memory and shape (own nodes, columns).

    Only the product needs the messages of all nodes, which `Peers.whole` returns.
    """

    def __init__(self, transitions: HostTransitions, damping: float, restarts: Restarts) -> None:
        self._transitions, self._graph = transitions, transitions.graph
        self._peers = self._graph.peers
        self._damping, self._restarts = damping, restarts
        self.columns = restarts.n_columns
        self._uniform = restarts.vector is None and restarts.nodes is None
        self._v = None if restarts.vector is None else self._graph.in_memory_order(restarts.vector)
        self._u = None if restarts.dangling is None else self._graph.in_memory_order(restarts.dangling)
        self._entries = self._sorted_entries(restarts)
        if self.columns == 1:
            self._make_restart_dense()
        self._images: dict[int, Vector] = {}
        self._residuals: dict[int, Vector] = {}
        self._begin()

    def _begin(self) -> None:
        """Make the arrays and the passes for the present number of walks."""
        self._passes = _graph.Passes(self._transitions.scale, self.columns, self._graph.threads)
        self._additions = count_row_additions(self._transitions.entries, self.columns)
        self._longest = float(self._peers.largest(np.array([self._additions.max(initial=0.0)]))[0])
        self._point, self._messages = (self._transitions.take_array(self.columns) for _ in range(2))
        self._by_columns: tuple[int, Vector] | None = None  # a slot and its images, by walk
        self._sent: int | None = None  # slot of the image whose messages are there, with their sums

    def _sorted_entries(self, restarts: Restarts) -> tuple[Indices, Indices, Vector] | None:
        if restarts.nodes is None:
            return None
        assert restarts.columns is not None
        assert restarts.shares is not None
        own = self._graph.own
        rows = self._graph.to_places(restarts.nodes).astype(np.int64) - own.start
        order = np.lexsort((restarts.columns, rows))
        order = order[(rows[order] >= 0) & (rows[order] < own.stop - own.start)]
        return rows[order], restarts.columns[order].astype(np.int64), restarts.shares[order]

    def _make_restart_dense(self) -> None:
        """Replace the entries of the only walk by a vector, which is what passes of one column read."""
        if self._entries is not None:
            rows, _, shares = self._entries
            self._v, self._entries = np.zeros(len(self._transitions.entries)), None
            self._v[rows] = shares

    def place(self, slot: int, start: Vector | None = None) -> None:
        image = self._array(self._images, slot)
        given = self._v if start is None else self._graph.in_memory_order(start)
        image[:] = (
            (1.0 / max(self._transitions.n, 1) if self._uniform else 0.0) if given is None else given[:, None]
        )
        if self._entries is not None:
            rows, columns, shares = self._entries
            image[rows, columns] = shares

    def _array(self, arrays: dict[int, Vector], slot: int) -> Vector:
        if slot not in arrays:
            arrays[slot] = self._transitions.take_array(self.columns)
        return arrays[slot]

    def step(self, slots: Sequence[int], factors: Vector | None, into: int, *, keep_residual: bool) -> Vector:
        self._by_columns = None
        images = [self._images[slot] for slot in slots]
        if factors is not None or self._sent != slots[0]:
            sums = self._passes.messages(images, factors, self._point, self._messages)
            self._sums = self._peers.total(sums)
        point = self._point if factors is not None else images[0]
        image = self._array(self._images, into)
        messages = self._peers.whole(self._messages)
        if self.columns == 1:
            self._transitions.matrix.matvec(messages[:, 0], image[:, 0])
        else:
            self._transitions.matrix.matmat(messages, image)
        d, (self._mass, lost) = self._damping, self._sums
        direct = self._u is None
        self._restart_mass = (1.0 - d) + d * lost if direct else np.full(self.columns, 1.0 - d)
        self._dangling_mass = np.zeros(self.columns) if direct else d * lost
        sums = self._passes.update(
            d,
            self._restart_mass,
            self._v,
            1.0 / self._transitions.n if self._uniform else 0.0,
            self._dangling_mass,
            self._u,
            None,
            self._entries,
            point,
            image,
            self._array(self._residuals, into) if keep_residual else None,
            self._messages,
        )
        found = self._peers.total(sums)
        self._sent, self._sums = into, found[1:]
        return np.asarray(found[0])

    def products(self, slots: Sequence[int]) -> Vector:
        return self._peers.total(self._passes.products([self._residuals[slot] for slot in slots]))

    def rounding(self) -> Vector:
        assert self._sent is not None
        sums = self._passes.weighted_sums(self._additions, self._images[self._sent])
        return self._bound(self._peers.total(sums))

    def rounding_at_most(self) -> Vector:
        return self._bound(
            self._longest * (self._damping * self._mass + self._restart_mass + self._dangling_mass)
        )

    def _bound(self, additions: Vector) -> Vector:
        """Bound the rounding, given the image weighted by the additions of its rows."""
        restarts = self._restarts.relative_error / UNIT + RESTART_ROUNDINGS + self._additions_per_sum()
        # Besides, each process has its own sum of the weights of a node's edges.
        others = (PRODUCT_ROUNDINGS + self._peers.size - 1) * self._damping * self._mass
        others += restarts * (self._restart_mass + self._dangling_mass)
        return np.asarray(HIGHER_ORDER * UNIT * (additions + others) + TINY)

    @property
    def norm_error(self) -> float:
        return HIGHER_ORDER * UNIT * (1 + self._additions_per_sum())

    def _additions_per_sum(self) -> int:
        """Bound the additions that a term of a sum over all nodes goes through, over processes too."""
        return _graph.count_additions(self._transitions.n, self.columns) + self._peers.size - 1

    @property
    def signal_mode(self) -> str:
        return self._peers.signal_mode

    def agree(self, status: str | None) -> str | None:
        return self._peers.agree(status)

    def top(self, slot: int, column: int, count: int) -> tuple[Indices, Vector]:
        scores = self._images[slot][:, column]
        if 0 < count < len(scores):
            threshold = np.partition(scores, len(scores) - count)[len(scores) - count]
            places = np.flatnonzero(scores >= threshold)
        else:
            places = np.arange(len(scores))
        nodes = self._peers.joined(self._graph.to_given(self._graph.own.start + places))
        found = self._peers.joined(scores[places])
        order = np.lexsort((nodes, -found))[:count]
        return nodes[order].astype(np.int64), found[order]

    def scores(self, slot: int, column: int) -> Vector:
        if self._by_columns is None or self._by_columns[0] != slot:
            self._by_columns = slot, np.ascontiguousarray(self._images[slot].T)  # one pass for all columns
        return np.array(self._graph.in_given_order(self._by_columns[1][column]))

    def keep(self, columns: Sequence[int], slots: Collection[int]) -> None:
        chosen = list(columns)
        for arrays in (self._images, self._residuals):
            for slot in list(arrays):
                if slot in slots:
                    arrays[slot] = np.ascontiguousarray(arrays[slot][:, chosen])
                else:
                    del arrays[slot]
        if self._entries is not None:
            rows, owners, shares = self._entries
            number = np.full(self.columns, -1)
            number[chosen] = np.arange(len(chosen))
            there = number[owners] >= 0
            self._entries = rows[there], number[owners[there]], shares[there]
        self.columns = len(chosen)
        if self.columns == 1:
            self._make_restart_dense()
        self._begin()

    def close(self) -> None:
        self._transitions.give_back(
            [*self._images.values(), *self._residuals.values(), self._point, self._messages]
        )


class HostPair:
    """A and A' of a graph in main memory; vectors are arrays in the order in memory."""

    def __init__(self, graph: Graph, weighted: bool) -> None:
        starts, sources, weights = graph.edges_by_target
        self._graph, self.n, self._peers = graph, graph.n_nodes, graph.peers
        values = None
        if weighted and weights is not None:
            # By a power of two, so that squares neither overflow nor underflow and A stays what it is.
            largest = self._peers.largest(np.array([weights.max(initial=0.0)]))[0]
            self.exponent = int(np.frexp(largest)[1])
            values = np.ldexp(weights, -self.exponent)
        else:
            self.exponent = 0
        by_source = graph.edges_by_source(values)
        by_popularity = False if graph.is_reordered else None

        def place(rows: tuple[Indices, NDArray[np.int32], Vector | None]) -> _cpu.Matrix:
            shape = (len(starts) - 1, self.n)
            return _cpu.Matrix(
                *rows, shape=shape, threads=graph.threads, transpose=False, by_popularity=by_popularity
            )

        self._by_target, self._by_source = place((starts, sources, values)), place(by_source)

    def start(self) -> Vector:
        own = self._graph.own
        return np.full(own.stop - own.start, 1.0 / np.sqrt(self.n))

    def authorities(self, hubs: Vector) -> Vector:
        return self._by_target.matvec(self._peers.whole(hubs))

    def hubs(self, authorities: Vector) -> Vector:
        return self._by_source.matvec(self._peers.whole(authorities))

    def orthogonalise(self, vector: Vector, basis: Sequence[Vector]) -> tuple[Vector, float]:
        found, term = vector.copy(), np.empty_like(vector)
        before = math.sqrt(self._dot(found, found))  # unit vectors times a matrix scaled to 1: no overflow
        for _ in range(2):
            for each in basis:
                np.multiply(each, -self._dot(each, found), out=term)
                found += term
            length = math.sqrt(self._dot(found, found))
            if length > ENOUGH_LEFT * before:  # else cancellation has let the basis in again
                break
            before = length
        if length > 0:
            found /= length
        return found, length

    def _dot(self, one: Vector, other: Vector) -> float:
        return total_of(self._peers, dot(one, other))

    def combine(self, basis: Sequence[Vector], factors: Vector) -> Vector:
        found = np.zeros_like(basis[0])
        for each, factor in zip(basis, factors, strict=True):
            found += factor * each
        return found

    def distance(self, vector: Vector, factor: float, other: Vector) -> float:
        return norm(self._peers.joined(np.array([norm(vector - factor * other)])))

    def to_host(self, vector: Vector) -> Vector:
        return np.ascontiguousarray(self._graph.in_given_order(vector))

    @property
    def signal_mode(self) -> str:
        return self._peers.signal_mode

    def agree(self, status: str | None) -> str | None:
        return self._peers.agree(status)
