"""Walks on the CPU, in the compiled passes of `_graph`.

The bound of the rounding of an exact step. Let u = 2^-53, x >= 0, and t = P' x. Everything that is added is
positive, so each computed entry of t has a relative error of at most (a_i + 3) u to first order, where a_i
is the number of additions that a term of row i goes through: 1 or 2 units are due to the messages x_j / s_j
or the rounded weights w_ij / s_j, the rest to the sum s_j. Times d and plus the restart terms, T(x)_i has
the error

    |error_i| <= u ((a_i + C) d t_i + (b + D) ((1 - d) v_i + d m u_i)) <= u (a_i T(x)_i + C d t_i + (b + D)
    ...),

b the additions of the sum over dangling nodes. The sum over i bounds the l1 norm. It weighs each row's
additions by the row's score: a hub with 10^6 in-links and 1 % of the mass costs 1 % of 10^6 / 8 units.
(Higham, "Accuracy and stability of numerical algorithms", 2002, chapters 3 and 4.)

The scores are x + r with the residual r = T(x) - x in float32. They differ from T(x) by at most 2^-24 ||r||_1
and one more unit u. Tests compare all this with exact arithmetic.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import UNIT, Indices, Vector, empty_by_lines, norm
from bmrm.graph import _graph
from bmrm.graph.backends.base import Restarts
from bmrm.graph.graph import Graph
from bmrm.graph.peers import total_of

LIGHT_UNIT = 2.0**-24
"""Unit roundoff of float32, in which a residual is kept."""

LIGHT_TINY = 2.0**-126
"""More than what an entry of a residual loses if it underflows in float32."""

HIGHER_ORDER = 1.01
"""Factor for terms of higher order, and for the rounding of the bound itself: additions times UNIT stay far
below 0.01 for every row that fits into memory."""

PRODUCT_ROUNDINGS = 6
"""C: message or weight (2), their product (1), sum of weights (2, compensated), times d (1); the additions of
the restart terms are among `MORE_ADDITIONS`."""

MORE_ADDITIONS = 5
"""Additions to an entry of T(x) besides those of the product: of v, u, an entry of a restart vector, and the
residual to x, with one to spare."""

RESTART_ROUNDINGS = 8
"""D: 1 - d, times m, their sum, times v_i, plus the terms of u, plus the product, with two to spare."""

TINY = 1e-290
"""More than all that underflow can lose: each operation loses at most 2^-1075, times a weight over a sum."""

FAR_TOTAL = 0.1
"""Distance from 1 at which a sum of scores is no result of rounding."""

MAX_SPARE_BYTES = 1 << 30
"""Arrays that a graph keeps from one run to the next. Fresh memory has to be cleared by the system, which
costs a tenth of the time of a run with one walk, and a third of one with 16."""

HOST_BATCH = 16
"""A query costs 19 ms of 16, 21 of 8 and 30 to 40 alone on slashdot's graph; 85, 87 and 140 on an R-MAT graph
of scale 20."""

GROUP_SIZE = 16
"""Entries of a group of which the maximum is looked at first for the largest scores."""

MIN_ROWS_OF_LISTED = 8
"""Nodes per wanted entry from which the largest are looked for in lists; else all scores are written down."""

FEWER_HUBS = 2
"""Authorities per hub from which the process keeps hubs orthogonal, in shorter vectors."""

MODERATE_EXPONENT = 256
"""Weights below this power of two, the largest of them above its inverse, are used as they are."""

ENOUGH_LEFT = 0.7
"""Share of the length of a vector that must be left after orthogonalisation, or it is done a second time
(Daniel, Gragg, Kaufman, Stewart, Math. Comp. 30 (1976) 772)."""


def transition_values(graph: Graph, weighted: bool) -> tuple[Vector | None, Vector]:
    """Return the values of P' by target, None if they are 1, and the factors of what nodes send.

    Of a shard these are those of its edges and of its nodes.
    """
    if not weighted or not graph.weighted:
        degree = graph.count_out_edges()[graph.own]
        return None, np.divide(1.0, degree, out=np.zeros(len(degree)), where=degree > 0)
    _, sources, weights = graph.edges_by_target
    assert weights is not None
    sums = graph.out_strength()
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        shares = weights / sums[sources]
    return np.where(sums[sources] > 0, shares, 0.0), (sums[graph.own] > 0).astype(np.float64)


def bound_rounding(
    found: Sequence[Vector],
    n: int,
    damping: float,
    relative_error: float,
    sum_additions: float,
    product_roundings: float = PRODUCT_ROUNDINGS,
) -> Vector:
    """Bound the rounding of an exact step.

    ``found`` has the sums of the step: the l1 norm of the residual, the sum of T(x), that of T(x) times the
    additions of each row, the sum of x, and that of x over the dangling nodes. ``relative_error`` is that of
    the restart vectors, ``sum_additions`` the additions of a sum over the nodes.
    """
    residual, total, counted, mass, lost = found
    restarts = relative_error / UNIT + RESTART_ROUNDINGS + sum_additions
    units = counted + (MORE_ADDITIONS + 1) * total + product_roundings * damping * mass
    units += restarts * ((1.0 - damping) + damping * lost)
    image = HIGHER_ORDER * UNIT * units + TINY
    return np.asarray(image + HIGHER_ORDER * LIGHT_UNIT * residual + n * LIGHT_TINY)


def places_of_largest(scores: Vector, count: int) -> NDArray[Any]:
    """Return the places of the largest entries, which are not negative, and of those that equal the last.

    The largest of the maxima of groups bound the entry from below, which leaves few to be sorted. NumPy's
    partition takes up to a microsecond per 5 entries if many are equal.
    """
    groups = len(scores) // GROUP_SIZE
    if not 0 < count < len(scores):
        return np.arange(len(scores))
    least = 0.0
    if count < groups:
        least = np.sort(scores[: groups * GROUP_SIZE].reshape(GROUP_SIZE, groups).max(0))[groups - count]
    places = np.flatnonzero(scores >= least) if least > 0.0 else np.flatnonzero(scores)
    if len(places) < count:  # the last of them is 0
        return np.arange(len(scores))
    found = scores[places]
    return np.asarray(places[found >= np.sort(found)[len(found) - count]])


class HostTransitions:
    """P' of a graph in main memory.

    Parameters
    ----------
    graph : Graph
    weighted : bool
        Whether an edge counts by its weight; else each counts the same.
    """

    batch = HOST_BATCH

    def __init__(self, graph: Graph, weighted: bool) -> None:
        starts, sources, _ = graph.edges_by_target
        self.graph, self.n, self.n_own = graph, graph.n_nodes, len(starts) - 1
        values, self.scale = transition_values(graph, weighted)
        self._spare: dict[tuple[tuple[int, ...], type], list[NDArray[Any]]] = {}
        self._spare_bytes = 0
        self._lay_out(starts, sources, values)

    def _lay_out(self, starts: Indices, sources: NDArray[Any], values: Vector | None) -> None:
        self.edges = _graph.Edges(starts, sources, values, self.graph.threads, n_sources=self.n)

    def walk(self, damping: float, restarts: Restarts) -> HostWalk:
        return HostWalk(self, damping, restarts)

    def take_array(self, columns: int, kind: type = np.float32, rows: int | None = None) -> NDArray[Any]:
        """Return an array of shape (rows, columns) with any content, if possible one that was released.

        Rows are by default the own nodes.
        """
        shape = self.n_own if rows is None else rows, columns
        with contextlib.suppress(KeyError, IndexError):  # none is there, or another thread took it
            array = self._spare[shape, kind].pop()
            self._spare_bytes -= array.nbytes
            return array
        return empty_by_lines(shape, kind)

    def release(self, arrays: Iterable[NDArray[Any]]) -> None:
        """Keep arrays for the next walk, up to `MAX_SPARE_BYTES`."""
        for array in arrays:
            if self._spare_bytes + array.nbytes <= MAX_SPARE_BYTES:
                self._spare.setdefault((array.shape, array.dtype.type), []).append(array)
                self._spare_bytes += array.nbytes


class HostWalk:
    """Walks in main memory; vectors have the order in memory and shape (own nodes, width).

    Only a product needs the messages of all nodes, which `Peers.whole` returns.
    """

    looks_ahead = False
    ranks_light_images = True

    def __init__(self, transitions: HostTransitions, damping: float, restarts: Restarts) -> None:
        self._transitions, self._graph = transitions, transitions.graph
        self._peers = self._graph.peers
        self._damping, self._restarts = damping, restarts
        self.columns = restarts.n_columns
        uniform = restarts.vector is None and restarts.nodes is None
        self._even = 1.0 / transitions.n if uniform and transitions.n else 0.0
        self._v = None if restarts.vector is None else self._graph.in_memory_order(restarts.vector)
        self._u = None if restarts.dangling is None else self._graph.in_memory_order(restarts.dangling)
        self._entries = self._sorted_entries(restarts)
        self._begin()
        self._base = self._take(np.float64)
        self._base.fill(0.0)
        self._base_total = np.zeros(self._width)

    def _begin(self) -> None:
        """Make the passes and the arrays for the present number of walks."""
        self._width = next(width for width in _graph.WIDTHS if width >= self.columns)
        if self._width == 1:
            self._make_restart_dense()
        self._passes, self._light = self._make_passes()
        additions = np.array([float(self._passes.additions_per_sum)])
        self._additions_per_sum = float(self._peers.largest(additions)[0]) + self._peers.size - 1
        self._images: dict[int, NDArray[Any]] = {}  # and mixtures, by slot
        self._messages, self._sending = self._take_light(), self._take_light()
        self._correction: NDArray[Any] | None = None  # the residual of the base
        self._sent: int | None = None  # slot of the image whose messages are there
        self._lost = np.zeros(self._width)  # its sum over the dangling nodes
        self._lost_before = self._lost  # that of the point whose image it is
        self._totals: dict[int, Vector] = {}  # sums of the images of light steps

    def _make_passes(self) -> tuple[_graph.Walks, _graph.Walks]:
        """Return the passes of exact steps and those of light steps."""
        found = _graph.Walks(
            self._transitions.edges,
            self._transitions.scale,
            self._width,
            self._damping,
            self._v,
            self._even,
            self._u,
            self._entries,
        )
        return found, found

    def _take(self, kind: type = np.float32) -> NDArray[Any]:
        return self._transitions.take_array(self._width, kind)

    def _take_light(self) -> NDArray[Any]:
        """Return an array for a vector of light steps."""
        return self._take()

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
            nodes, _, shares = self._entries
            self._v, self._entries = np.zeros(self._transitions.n_own), None
            self._v[nodes] = shares

    def place(self, slot: int, start: Vector | None = None) -> None:
        image = self._writeable(slot)
        if start is not None:
            self._base[:, 0] = self._graph.in_memory_order(start)
        image[:] = 0.0 if start is not None else self._even if self._v is None else self._v[:, None]
        if self._entries is not None:
            nodes, columns, shares = self._entries
            image[nodes, columns] = shares

    def _writeable(self, slot: int) -> NDArray[Any]:
        """Return the array of a slot, which must not be the residual of the base."""
        if slot not in self._images or self._images[slot] is self._correction:
            self._images[slot] = self._take_light()
        return self._images[slot]

    def light_step(
        self,
        slots: Sequence[int],
        factors: Vector | None,
        mixed: int,
        into: int,
        *,
        plain_next: bool = False,
    ) -> Vector:
        images = [self._images[slot] for slot in slots]
        point = images[0] if factors is None else self._writeable(mixed)
        if factors is not None or self._sent != slots[0]:
            factors = None if factors is None else self._padded(factors)
            lost = self._peers.total(self._light.mix(images, factors, point, self._messages))
            self._lost = self._lost_of(lost, slots, factors)
        sums = self._light.light_step(
            1.0 - self._damping if self._correction is None else 0.0,
            self._correction,
            self._lost,
            point,
            self._peers.whole(self._messages),
            self._writeable(into),
            self._sending,
        )
        found = self._peers.total(sums)
        self._messages, self._sending = self._sending, self._messages
        self._sent, self._totals[into], self._lost_before = into, found[2], self._lost
        self._lost = self._lost_of(found[1], [into], None)
        return np.asarray(found[0, : self.columns])

    def _lost_of(self, lost: Vector, slots: Sequence[int], factors: Vector | None) -> Vector:
        """Return what dangling nodes send of a mixture, whose sum over those with a row is ``lost``."""
        return lost

    def _padded(self, factors: Vector) -> Vector:
        if factors.shape[1] == self._width:
            return factors
        found = np.zeros((len(factors), self._width))
        found[:, : self.columns] = factors
        return found

    def exact_step(self, slot: int, into: int) -> Vector:
        z = self._transitions.take_array(min(self._width, _graph.EXACT_COLUMNS), np.float64)
        y = self._transitions.take_array(1, np.float64) if self._width == 1 else None
        residual, image = self._take(), self._images[slot]
        factor = self._to_distribution(slot)
        found = self._passes.exact_step(image, factor, self._base, residual, z, y, self._peers)
        kept = {id(array): array for array in (self._correction, *self._images.values(), y, z)}
        self._transitions.release(array for array in kept.values() if array is not None)
        self._images = {into: residual}
        self._correction, self._sent, self._totals = residual, None, {}
        self._found, self._base_total = found[:, : self.columns], found[3]
        return np.asarray(self._found[0])

    def _to_distribution(self, slot: int) -> Vector:
        """Return factors that make the sums of the points 1, as those of the fixed points are.

        Rounding in float32 loses some of the sum, which would come back by a factor of d per step only, where
        the rest of the residual may shrink by d |lambda_2|.
        """
        if slot not in self._totals:
            return np.ones(self._width)
        total = self._base_total + self._totals[slot]
        return np.divide(1.0, total, out=np.ones(self._width), where=np.abs(total - 1.0) < FAR_TOTAL)

    def products(self, images: Sequence[int], points: Sequence[int | None]) -> Vector:
        sums = self._light.products(
            [self._images[slot] for slot in images],
            [None if slot is None else self._images[slot] for slot in points],
        )
        found = self._peers.total(sums)
        return np.ascontiguousarray(found[:, :, : self.columns])

    def rounding(self) -> Vector:
        # Besides, each process has its own sum of the weights of a node's edges.
        product = PRODUCT_ROUNDINGS + self._peers.size - 1
        error, n = self._restarts.relative_error, self._transitions.n
        return bound_rounding(list(self._found), n, self._damping, error, self._additions_per_sum, product)

    @property
    def norm_error(self) -> float:
        return HIGHER_ORDER * UNIT * (1 + self._additions_per_sum)

    def top(self, slot: int, columns: Sequence[int], count: int) -> list[tuple[Indices, Vector]]:
        return [self._ranked(*found, count) for found in self._largest(slot, columns, count)]

    def _largest(
        self, slot: int, columns: Sequence[int], count: int
    ) -> Iterable[tuple[NDArray[Any], Vector]]:
        """Return places of own nodes with at least the largest scores, and these."""
        parts = self._parts(slot)
        if not 0 < MIN_ROWS_OF_LISTED * count < self._transitions.n_own:
            for column in columns:
                scores = np.concatenate(
                    [np.maximum(base[:, column] + image[:, column], 0.0) for _, base, image in parts]
                )
                places = places_of_largest(scores, count)
                yield places, scores[places]
            return
        lists: list[list[tuple[NDArray[Any], Vector]]] = [[] for _ in columns]
        for first, base, image in parts:
            some = _graph.largest(base, image, columns, count, self._graph.threads)
            for found, (places, scores) in zip(lists, some, strict=True):
                found.append((first + places, scores))
        for found in lists:
            places, scores = (np.concatenate(each) for each in zip(*found, strict=True))
            if len(places) < count:  # the others are 0, and the first of these come next
                zeros = np.setdiff1d(self._first_places(count), places)
                places, scores = np.append(places, zeros), np.append(scores, np.zeros(len(zeros)))
            yield places, scores

    def _first_places(self, count: int) -> NDArray[Any]:
        """Return the places among own nodes of those with the least numbers."""
        own = self._graph.own
        if self._peers.size == 1:
            return self._graph.to_places(np.arange(count))
        return np.argpartition(self._graph.to_given(np.arange(own.start, own.stop)), count)[:count]

    def _parts(self, slot: int) -> list[tuple[int, Vector, NDArray[Any]]]:
        """Return what scores are the sums of, of runs of own nodes, with the place of the first."""
        return [(0, self._base, self._images[slot])]

    def _ranked(self, places: NDArray[Any], scores: Vector, count: int) -> tuple[Indices, Vector]:
        """Return the nodes with the largest scores, and these, from candidates of each process."""
        nodes = self._peers.joined(self._graph.to_given(self._graph.own.start + places))
        found = self._peers.joined(scores)
        if len(found) > count > 0:  # many may equal the last, most often zeros: take the first of those
            chosen = places_of_largest(found, count)
            nodes, found = nodes[chosen], found[chosen]
            last = found.min()
            above, equal = found > last, nodes[found == last]
            left = count - np.count_nonzero(above)
            nodes = np.concatenate([nodes[above], np.partition(equal, left - 1)[:left]])
            found = np.concatenate([found[above], np.full(left, last)])
        order = np.lexsort((nodes, -found))
        return nodes[order].astype(np.int64), found[order]

    def _own_scores(self, slot: int, columns: Sequence[int]) -> list[Vector]:
        """Return scores of the own nodes, in the order in memory."""
        found = [np.empty(self._transitions.n_own) for _ in columns]
        self._passes.collect(self._base, self._images[slot], None, columns, found)
        return found

    def _residual(self, slot: int) -> NDArray[Any]:
        """Return the residual of the base, of all nodes, from the slot of an exact image."""
        return self._images[slot]

    def scores(
        self, slot: int, columns: Sequence[int], out: Sequence[Vector] | None = None
    ) -> Sequence[Vector]:
        if out is None:
            out = [np.empty(self._transitions.n) for _ in columns]
        if self._peers.size == 1:
            self._passes.collect(self._base, self._residual(slot), self._graph.places, columns, list(out))
            return out
        for found, own in zip(out, self._own_scores(slot, columns), strict=True):
            found[:] = self._graph.to_label_order(self._peers.whole(own))
        return out

    def keep(self, columns: Sequence[int], slot: int) -> None:
        chosen, base, residual = list(columns), self._base, self._residual(slot)
        self._transitions.release([self._messages, self._sending])
        if self._entries is not None:
            nodes, owners, shares = self._entries
            number = np.full(self.columns, -1)
            number[chosen] = np.arange(len(chosen))
            there = number[owners] >= 0
            self._entries = nodes[there], number[owners[there]], shares[there]
        self._found, self.columns = self._found[:, chosen], len(chosen)
        self._begin()
        self._base, found = (self._selected(array, chosen) for array in (base, residual))
        self._go_on_from(slot, found)
        self._transitions.release([base, residual])

    def _go_on_from(self, slot: int, residual: NDArray[Any]) -> None:
        """Make a residual the correction, after the base has been reduced to some columns."""
        self._images, self._correction = {slot: residual}, residual
        self._base_total = np.zeros(self._width)
        self._base_total[: self.columns] = self._found[3]

    def _selected(self, array: NDArray[Any], columns: list[int]) -> NDArray[Any]:
        found = self._take(array.dtype.type)
        found[:, : len(columns)], found[:, len(columns) :] = array[:, columns], 0.0
        return found

    def close(self) -> None:
        arrays = [self._base, self._messages, self._sending, self._correction, *self._images.values()]
        self._transitions.release({id(array): array for array in arrays if array is not None}.values())

    @property
    def signal_mode(self) -> str:
        return self._peers.signal_mode

    def agree(self, status: str | None) -> str | None:
        return self._peers.agree(status)


def weight_exponent(graph: Graph) -> int:
    """Return the exponent of the power of two by which `Pair` divides all weights.

    Squares then neither overflow nor underflow, and A stays what it is, bit by bit.
    """
    if not graph.weighted:
        return 0
    bound = graph.peers.largest(np.array([graph.rows.weight_bound]))[0]
    exponent = int(np.frexp(bound)[1])
    return exponent if abs(exponent) > MODERATE_EXPONENT else 0


def _distribution(vector: Vector) -> Vector:
    """Make a vector a distribution, in place: a new array costs more than the arithmetic."""
    if vector.sum() < 0:
        np.negative(vector, out=vector)
    np.maximum(vector, 0.0, out=vector)
    vector /= vector.sum()
    return vector


class HostPair:
    """A and A' of a graph in main memory; vectors are arrays in the order in memory.

    If nodes are peeled off (`Graph.core`), those without out-links are left out of hubs, and those without
    in-links out of authorities, where they would be 0.
    """

    def __init__(self, graph: Graph, weighted: bool) -> None:
        starts, sources, weights = graph.edges_by_target
        self._graph, self.n, self._peers = graph, graph.n_nodes, graph.peers
        self.exponent = weight_exponent(graph) if weighted else 0
        values = weights if weighted else None
        if values is not None and self.exponent:
            values = np.ldexp(values, -self.exponent)
        out_starts, targets, out_values = graph.edges_by_source(values)
        own, core, threads = graph.own, graph.core, graph.threads
        self._hubs = slice(0, own.stop - own.start if core is None else core.stop)
        self._authorities = slice(0 if core is None else core.start, own.stop - own.start)
        n_hubs, n_authorities = (
            self.n if core is None else part.stop - part.start for part in (self._hubs, self._authorities)
        )
        self._by_target = _graph.Edges(
            starts[self._authorities.start :], sources, values, threads, n_sources=n_hubs
        )
        self._by_source = _graph.Edges(
            out_starts[: self._hubs.stop + 1],
            targets if core is None else targets - np.int32(core.start),
            out_values,
            threads,
            n_sources=n_authorities,
        )
        self.fewer_hubs = FEWER_HUBS * n_hubs <= n_authorities

    def start(self) -> Vector:
        part = self._authorities
        nodes = self.n if self._graph.core is None else part.stop - part.start
        return np.full(part.stop - part.start, 1.0 / math.sqrt(nodes))

    def authorities(self, hubs: Vector) -> Vector:
        return np.asarray(self._by_target.multiply(self._peers.whole(hubs)))

    def hubs(self, authorities: Vector) -> Vector:
        return np.asarray(self._by_source.multiply(self._peers.whole(authorities)))

    def orthogonalise(self, vector: Vector, basis: Sequence[Vector]) -> tuple[Vector, float]:
        threads = self._graph.threads
        # The last one first: it has most of the vector, and what is left then needs one round more.
        rounds = [basis[-1:], basis, basis] if len(basis) > 1 else [basis, basis] if basis else []
        sums = self._peers.total(_graph.basis_products([*basis[-1:], vector], vector, threads))
        factors, before = sums[:-1], math.sqrt(sums[-1])
        length = before  # unit vectors times a matrix scaled to 1: no overflow
        for count, some in enumerate(rounds):
            if count:
                factors = self._peers.total(_graph.basis_products(some, vector, threads))
            square = _graph.add_basis(some, -factors, vector, threads)
            length = math.sqrt(total_of(self._peers, square))
            if len(some) == len(basis) and length > ENOUGH_LEFT * before:
                break  # else cancellation has let the basis in again
            before = length
        if length > 0:
            vector /= length
        return vector, length

    def combine(self, basis: Sequence[Vector], factors: Vector) -> Vector:
        found = np.zeros_like(basis[0])
        _graph.add_basis(basis, factors, found, self._graph.threads)
        return found

    def distance(self, vector: Vector, factor: float, other: Vector) -> float:
        return norm(self._peers.joined(np.array([norm(vector - factor * other)])))

    def hub_scores(self, hubs: Vector) -> Vector:
        return self._in_given_order(hubs, self._hubs)

    def authority_scores(self, authorities: Vector) -> Vector:
        return self._in_given_order(authorities, self._authorities)

    def _in_given_order(self, vector: Vector, part: slice) -> Vector:
        """Return the distribution over all nodes in the order of the labels."""
        own = self._graph.own
        found = np.zeros(own.stop - own.start)
        found[part] = vector
        return _distribution(np.ascontiguousarray(self._graph.in_given_order(found)))

    @property
    def signal_mode(self) -> str:
        return self._peers.signal_mode

    def agree(self, status: str | None) -> str | None:
        return self._peers.agree(status)
