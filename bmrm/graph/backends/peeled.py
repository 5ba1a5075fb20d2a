"""Walks on the CPU on graphs with many nodes that need no iteration, which are peeled off.

Nodes without in-links ("first"), the core, and nodes without out-links ("last") follow each other in memory.
Let F, C and L be the three, d the damping, m the sum of x over the dangling nodes. Then the fixed point is

    x_F = (1 - d) v_F + d m u_F,
    x_C = d P'_CC x_C + (1 - d) v~ + d m u~,      w~ = w_C + d P'_CF w_F  for w = u, v,
    x_L = d P'_L x + (1 - d) v_L + d m u_L.

So light steps iterate x_C alone, on the edges within the core, with other restart vectors. All dangling nodes
count as one (Ipsen, Selee, "PageRank computation, with special attention to dangling nodes", SIAM J. Matrix
Anal. Appl. 29 (2007) 1281): m is what is missing in the sum 1,

    m = (1 - sum of x_C - (1 - d) v(F)) / (1 + d u(F)),

the sums over nodes that are not dangling. This keeps the rate of the iteration on all nodes, d |lambda_2|. To
compute m from what goes to L would bring back errors of the sum, which shrink by d per step only.

An exact step takes x_C, and computes x_F, x_L and m from the equations above, in float64: then T(x) - x is
rounding but on the core. Nothing in the proof rests on this. The step multiplies all edges with this x and
bounds the distance to T(x) as without peeling (`bmrm.graph.backends.host`); the products of the two parts of
the edges are added, which counts as one addition more.

Peeling on, until no node is left that could be, removes little more: wiki-Vote keeps 38 % of its edges in
place of 39 %, gnutella31 34 % in place of 39 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.distinct import distinct_values
from bmrm.base.vectors import Indices, Vector
from bmrm.graph import _graph
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.host import FAR_TOTAL, HostTransitions, HostWalk


class PeeledTransitions(HostTransitions):
    """P' of a graph with a core.

    Attributes
    ----------
    first, core, last : slice
        Places of the nodes without in-links, of the core, and of the nodes without out-links.
    inner, outer : Edges
        The edges within the core, numbered from its first node, and all others.
    sends : ndarray of bool, shape (nodes before the last,)
        Whether a node is not dangling.
    to_last : ndarray of float64, of the same shape
        Share of what a node sends that goes to the last nodes.
    spread : ndarray of float64, shape (core nodes,)
        What core nodes get if each of the first nodes has 1.
    """

    inner: _graph.Edges
    outer: _graph.Edges

    def _lay_out(self, starts: Indices, sources: NDArray[Any], values: Vector | None) -> None:
        core, threads = self.graph.core, self.graph.threads
        assert core is not None
        self.first, self.core, self.last = slice(0, core.start), core, slice(core.stop, self.n)
        size = core.stop - core.start
        end = int(starts[core.stop])  # of the edges into the core; the first nodes have none
        inside = np.zeros(len(sources), bool)
        np.greater_equal(sources[:end], core.start, out=inside[:end])
        counts = np.zeros(len(sources) + 1, np.int32 if len(sources) < 2**31 else np.int64)
        np.cumsum(inside, out=counts[1:])
        before = counts[starts].astype(np.int64)  # edges inside, before each row
        del counts

        def part(which: NDArray[Any], rows: Indices, offset: int, count: int) -> _graph.Edges:
            weights = None if values is None else values[which]
            return _graph.Edges(rows, sources[which] - np.int32(offset), weights, threads, n_sources=count)

        self.inner = part(inside, before[core.start : core.stop + 1], core.start, size)
        self.outer = part(~inside, starts - before, 0, self.n)
        into_last = np.ascontiguousarray(sources[end:])
        if values is None:
            weights = _graph.count_nodes(into_last, core.stop).astype(np.float64)
        else:
            weights = _graph.sum_weights_by_source(into_last, values[end:], core.stop)
        self.sends, self.to_last = self.scale[: core.stop] > 0, self.scale[: core.stop] * weights
        self.spread = self.spread_from_first(np.ones(core.start))
        self._additions: dict[int, NDArray[np.int32]] = {}

    def walk(self, damping: float, restarts: Restarts) -> HostWalk:
        return PeeledWalk(self, damping, restarts)

    def spread_from_first(self, shares: Vector) -> Vector:
        """Return what core nodes get if the first nodes have these shares."""
        z = np.zeros(self.n)
        np.multiply(shares, self.scale[self.first], out=z[self.first])
        return np.asarray(self.outer.multiply(z))[self.core]

    def count_additions(self, columns: int) -> NDArray[np.int32]:
        """Return how many additions a term of each row goes through in `multiply`."""
        if columns not in self._additions:
            found = self.outer.count_additions(columns).copy()
            found[self.core] += self.inner.count_additions(columns) + np.int32(1)
            self._additions[columns] = found
        return self._additions[columns]

    def multiply(self, z: Vector, y: Vector) -> None:
        """Compute y = P' z for some columns."""
        core = self.take_array(z.shape[1], np.float64, self.inner.n)
        self.outer.multiply_columns(z, y)
        self.inner.multiply_columns(z[self.core], core)
        y[self.core] += core
        self.release([core])


class PeeledWalk(HostWalk):
    """Walks whose light steps are on the core; their images have a row per core node."""

    _transitions: PeeledTransitions

    def _begin(self) -> None:
        super()._begin()
        self._mass, self._core_total = np.zeros(self._width), np.zeros(self._width)
        self._whole: NDArray[Any] | None = None  # the residual of the base, of all nodes

    def _make_passes(self) -> tuple[_graph.Walks, _graph.Walks]:
        peeled, width, d = self._transitions, self._width, self._damping
        exact = _graph.Walks(
            peeled.outer,
            peeled.scale,
            width,
            d,
            self._v,
            self._even,
            self._u,
            self._entries,
            peeled.count_additions(width),
        )
        # What of a score becomes mass of dangling nodes in the next step, or is it.
        self._to_lost = np.where(peeled.sends, d * peeled.to_last, 1.0)
        v, entries = self._core_restarts()
        u = None
        if self._u is not None:
            u = self._u[peeled.core] + d * peeled.spread_from_first(self._u[peeled.first])
        light = _graph.Walks(peeled.inner, peeled.scale[peeled.core], width, d, v, 0.0, u, entries)
        self._v_lost, self._v_first = self._sums_of_restarts()
        self._u_lost, self._u_first = self._v_lost, self._v_first
        if self._u is not None:
            self._u_lost, self._u_first = self._sums_of_vector(self._u)
        return exact, light

    def _take_light(self) -> NDArray[Any]:
        return self._transitions.take_array(self._width, np.float32, self._transitions.inner.n)

    def _core_restarts(self) -> tuple[Vector | None, tuple[Indices, Indices, Vector] | None]:
        """Return v~, as a vector for one walk or as entries for several."""
        peeled, d = self._transitions, self._damping
        core = peeled.core
        if self._v is not None:
            return self._v[core] + d * peeled.spread_from_first(self._v[peeled.first]), None
        if self._entries is None:
            return self._even * (1.0 + d * peeled.spread), None
        rows, columns, shares = self._entries
        inside = (rows >= core.start) & (rows < core.stop)
        found = [(rows[inside] - core.start, columns[inside], shares[inside])]
        for column in distinct_values(columns[rows < core.start]):
            mine = (rows < core.start) & (columns == column)
            given = np.zeros(core.start)
            given[rows[mine]] = shares[mine]
            reached = d * peeled.spread_from_first(given)
            places = np.flatnonzero(reached)
            found.append((places, np.full(len(places), column), reached[places]))
        joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return None, (joined[0][order], joined[1][order], joined[2][order])

    def _sums_of_restarts(self) -> tuple[Any, Any]:
        """Return, of v, what becomes mass of dangling nodes outside the core, and its sum over sending F."""
        peeled = self._transitions
        if self._v is not None:
            return self._sums_of_vector(self._v)
        if self._entries is None:
            first = peeled.first
            lost = self._to_lost[first].sum() + (peeled.n - peeled.last.start)
            return self._even * lost, self._even * np.count_nonzero(peeled.sends[first])
        rows, columns, shares = self._entries
        lost, sending = np.zeros(self._width), np.zeros(self._width)
        first, last = rows < peeled.core.start, rows >= peeled.core.stop
        np.add.at(lost, columns[first], self._to_lost[rows[first]] * shares[first])
        np.add.at(lost, columns[last], shares[last])
        np.add.at(sending, columns[first], peeled.sends[rows[first]] * shares[first])
        return lost, sending

    def _sums_of_vector(self, shares: Vector) -> tuple[float, float]:
        peeled = self._transitions
        first = shares[peeled.first]
        lost = float(np.sum(first * self._to_lost[peeled.first])) + float(shares[peeled.last].sum())
        return lost, float(np.sum(first * peeled.sends[peeled.first]))

    def _lost_of(self, lost: Vector, slots: Sequence[int], factors: Vector | None) -> Vector:
        d = self._damping
        if factors is None:
            total = self._totals[slots[0]]
        else:
            total = np.sum([f * self._totals[slot] for f, slot in zip(factors, slots, strict=True)], axis=0)
        sending = self._core_total + total - lost
        mass = (1.0 - sending - (1.0 - d) * self._v_first) / (1.0 + d * self._u_first)
        return np.asarray(mass - self._mass)

    def light_step(
        self,
        slots: Sequence[int],
        factors: Vector | None,
        mixed: int,
        into: int,
        *,
        plain_next: bool = False,
    ) -> Vector:
        found = super().light_step(slots, factors, mixed, into)
        # The peeled nodes change with the mass; what they change by counts in the norm.
        change = np.abs(self._lost - self._lost_before) * (1.0 + self._damping * self._u_first)
        return np.asarray(found + change[: self.columns])

    def place(self, slot: int, start: Vector | None = None) -> None:
        image, core = self._writeable(slot), self._transitions.core
        image[:] = 0.0
        if start is not None:
            self._base[:, 0] = self._graph.in_memory_order(start)
        elif self._entries is None:
            image[:] = self._even if self._v is None else self._v[core, None]
        else:
            rows, columns, shares = self._entries
            inside = (rows >= core.start) & (rows < core.stop)
            image[rows[inside] - core.start, columns[inside]] = shares[inside]
        self._totals[slot] = image.sum(0, dtype=np.float64)

    def exact_step(self, slot: int, into: int) -> Vector:
        peeled, base, width = self._transitions, self._base, min(self._width, _graph.EXACT_COLUMNS)
        z, y = (peeled.take_array(width, np.float64) for _ in range(2))
        residual, image = self._take(), self._images[slot]
        found = np.empty((5, self._width))
        for column in range(0, self._width, width):
            some = slice(column, column + width)
            total, lost = self._light.move(column, image, base[peeled.core], z[peeled.core])
            inner = base[peeled.core, some]
            inner *= self._settle(total - lost, inner, some)
            np.multiply(inner, peeled.scale[peeled.core, None], out=z[peeled.core])
            first, last = base[peeled.first, some], base[peeled.last, some]
            first[:] = 0.0
            self._add_restarts(peeled.first, some, first)
            np.multiply(first, peeled.scale[peeled.first, None], out=z[peeled.first])
            peeled.multiply(z, y)
            np.multiply(y[peeled.last], self._damping, out=last)
            self._add_restarts(peeled.last, some, last)
            found[3:, some] = self._passes.total(column, base)
            found[:3, some] = self._passes.residual(column, found[4, some], base, residual, y)
        kept = {id(array): array for array in self._images.values() if array is not self._correction}
        peeled.release([z, y, *kept.values(), *([] if self._whole is None else [self._whole])])
        self._found = found[:, : self.columns]
        self._hold(into, residual)
        return np.asarray(self._found[0])

    def _hold(self, slot: int, residual: NDArray[Any]) -> None:
        """Go on from an exact image."""
        self._whole, self._correction = residual, residual[self._transitions.core]
        self._images, self._sent = {slot: self._correction}, None
        self._totals = {slot: self._correction.sum(0, dtype=np.float64)}

    def _settle(self, sending: Vector, core: Vector, some: slice) -> Vector:
        """Set the masses that belong to scores of the core; return factors of these that make all sums 1.

        ``sending`` are the sums over the nodes of the core that are not dangling. With the sum 1 the residual
        does not keep an error that shrinks by d per step only.
        """
        d = self._damping
        v_lost, u_lost, v_first, u_first = (
            np.broadcast_to(each, self._width)[some]
            for each in (self._v_lost, self._u_lost, self._v_first, self._u_first)
        )
        # m = t a + b for scores times t.
        a = np.einsum("i,ik->k", self._to_lost[self._transitions.core], core)  # in a fixed order
        a, b = a / (1.0 - d * u_lost), (1.0 - d) * v_lost / (1.0 - d * u_lost)
        missing = 1.0 - (1.0 - d) * v_first - b * (1.0 + d * u_first)
        total = sending + a * (1.0 + d * u_first)
        factor = np.divide(missing, total, out=np.ones_like(total), where=total > 0)
        factor[np.abs(factor - 1.0) >= FAR_TOTAL] = 1.0
        self._core_total[some], self._mass[some] = factor * sending, factor * a + b
        return np.asarray(factor)

    def _add_restarts(self, rows: slice, some: slice, out: Vector) -> None:
        """Add (1 - d) v + d m u at some nodes, of some walks."""
        d, mass = self._damping, self._mass[some]
        factor = 1.0 - d + (d * mass if self._u is None else np.zeros(len(mass)))
        if self._u is not None:
            out += d * mass * self._u[rows, None]
        if self._v is not None:
            out += factor * self._v[rows, None]
        elif self._entries is None:
            out += factor * self._even
        else:
            nodes, columns, shares = self._entries
            here = (nodes >= rows.start) & (nodes < rows.stop)
            here &= (columns >= some.start) & (columns < some.stop)
            places = nodes[here] - rows.start, columns[here] - some.start
            np.add.at(out, places, factor[places[1]] * shares[here])

    @property
    def ranks_light_images(self) -> bool:  # type: ignore[override]
        return self._whole is not None

    def _parts(self, slot: int) -> list[tuple[int, Vector, NDArray[Any]]]:
        # In light steps the peeled nodes keep the scores of the last exact step.
        whole, base, image = self._residual(slot), self._base, self._images[slot]
        if image is self._correction:
            return [(0, base, whole)]
        first, core, last = self._transitions.first, self._transitions.core, self._transitions.last
        return [
            (0, base[first], whole[first]),
            (core.start, base[core], image),
            (last.start, base[last], whole[last]),
        ]

    def _residual(self, slot: int) -> NDArray[Any]:
        assert self._whole is not None
        return self._whole

    def keep(self, columns: Sequence[int], slot: int) -> None:
        mass, total = self._mass, self._core_total
        super().keep(columns, slot)
        self._mass[: self.columns], self._core_total[: self.columns] = mass[columns], total[columns]

    def _go_on_from(self, slot: int, residual: NDArray[Any]) -> None:
        self._hold(slot, residual)

    def close(self) -> None:
        arrays = [self._base, self._messages, self._sending, self._whole]
        arrays += [image for image in self._images.values() if image is not self._correction]
        self._transitions.release({id(array): array for array in arrays if array is not None}.values())
