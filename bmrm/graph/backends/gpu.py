"""Walks on a GPU: products by `bmrm.matrix._cuda`, the vector work in the passes of ``src_cuda/graph``.

P' is resident twice, in float32 for light steps and in float64 for exact ones, if there is room. Else it is
on the device once, in float64, and light steps convert their vectors: of a graph without weights both types
have the same bytes. What of it does not fit streams from main memory, once per product; the CPU can have a
share of that (`bmrm.matrix.gpu.cpu_share`). Nothing but sums leaves the device until the end: l1 norms, inner
products for Anderson's method, the largest scores. ``src_cuda/graph/device_walk.h`` says how a step is queued
before the host asks for it.

A process of several has the rows of its own nodes. For light steps they are two matrices, of the edges from
own nodes and from others: the product with the first runs while the messages of other nodes arrive
(``src_cuda/graph/peers.h``). Sums over the processes are taken in their order.

The bound of the rounding is that of the CPU (`bmrm.graph.backends.host`); what differs is a_i, the additions
that a term of row i goes through in the product in float64. Every kernel adds the L terms of a row in a tree
that depends on the matrix alone. Adding a zero is exact, so a_i <= L for any tree. Long rows are cut, and
there a_i <= A + B L with numbers of the kernel (``src_cuda/formats/kernels``):

- ``subwarp``: the lanes of a row have two sums each, then the sums of the lanes are added:
  A = 3 + log2(lanes), B = 1 / (2 lanes).
- ``split``: at most 2048 terms in a share, 5 additions among threads; or for what a share carries on, 8 terms
  per thread, 5 among them, 8 among warps; then the carries one after another: A = 2048 + 28, B = 1 / 2048.
- ``sliced``, ``tiled``, ``hot``, ``mixed`` and the second half of ``binned``: a thread has up to cap terms in
  four sums of at most cap / 4 + 1, or up to 3 in one; 2 additions join them and 5 those of up to 32 threads.
  Then the partial sums of a row, at most L of them: up to 16 in a thread and 5 among threads, or one of 256
  threads of a block, 5 and 8: A = cap / 4 + 45, B = 1 / 256.

Several vectors are multiplied by the plan ``split``: a warp adds pieces of up to 256 terms, 5 additions join
the sums of its threads, and the pieces of a row are added one after another: A = 256 + 8, B = 1 / 256. FMA
instructions round less often than this counts.

Of rows whose products the CPU computes `bmrm.matrix._cpu.row_additions` has A and B.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import UNIT, Indices, Vector
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.host import (
    HIGHER_ORDER,
    PRODUCT_ROUNDINGS,
    bound_rounding,
    transition_values,
    weight_exponent,
)
from bmrm.graph.device_edges import Shares
from bmrm.graph.graph import Graph
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix._cpu import PARTIAL_THREADS, PIECE_NONZEROS, SPLIT_NONZEROS
from bmrm.matrix.gpu.cpu_share import Share, share_with_cpu, split_text
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import (
    MemoryPlan,
    check_host_memory,
    check_resident,
    divide_memory,
    plan_text,
    usable_bytes,
)
from bmrm.matrix.resident import build_with_known_plans

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

log = logging.getLogger("bmrm")

MAX_IMAGES = 16
"""Slots that a loop uses at a time: images and points of the history of Anderson's method, the best image,
the next one and its mixture."""

BATCHES = (32, 16, 8)
"""Numbers of walks together, the best first: the more, the fewer reads of the matrix. There must be room for
the matrix in both types and for all vectors."""

MAX_BASIS_VECTORS = 40 + 8
"""Vectors of the basis of HITS (`bmrm.graph.hubs_authorities.MAX_BASIS`), and a few in passing."""

BASIS_NODE_BYTES = 8 + 8 + 4
"""Besides, of each node of all processes: a vector in the order in memory and in that of the labels, and the
node's place."""


class RowAdditions(NamedTuple):
    """A row of L entries has at most L additions, and at most ``most + per_entry * L``."""

    most: float
    per_entry: float


def row_additions(plan: dict[str, Any], columns: int) -> RowAdditions:
    """Return the additions of a product with a number of vectors."""
    kernel = plan["kernel"]
    if columns > 1:
        return RowAdditions(PIECE_NONZEROS + 8.0, 1.0 / PIECE_NONZEROS)
    if kernel == "subwarp":
        return RowAdditions(3.0 + math.log2(plan["lanes"]), 0.5 / plan["lanes"])
    if kernel == "split":
        return RowAdditions(SPLIT_NONZEROS + 28.0, 1.0 / SPLIT_NONZEROS)
    if kernel in ("sliced", "tiled", "hot", "binned", "mixed"):
        return RowAdditions(plan["cap"] / 4 + 45.0, 1.0 / PARTIAL_THREADS)
    return RowAdditions(0.0, 1.0)


def additions_of(matrix: _cuda.Matrix, columns: int) -> RowAdditions:
    """Return the additions of a matrix, whose blocks of rows may have different kernels, or be the CPU's."""
    found = [
        RowAdditions(*_cpu.row_additions(columns))
        if block["on_host"]
        else row_additions(block["normal"], columns)
        for block in matrix.row_blocks
    ]
    return RowAdditions(max(each.most for each in found), max(each.per_entry for each in found))


def upload(
    X: Csr,
    device: int,
    dtype: type,
    spare: int,
    *,
    plan: str | None = None,
    transpose: bool = False,
    limit: int | None = None,
    tune: str = "best",
    share: Share = 0,
    columns: int = 1,
    threads: int | None = None,
) -> _cuda.Matrix:
    """Put a matrix on a device.

    ``spare`` are the bytes that are left for vectors, of at most ``limit``. The CPU has a ``share`` of what
    streams, whose products with up to ``columns`` vectors it computes with ``threads``.
    """
    cuda = import_cuda()
    shares: Any = X.data
    if isinstance(shares, Shares):
        X = X._replace(data=shares.of_type(dtype))
    options: dict[str, Any] = {"dtype": np.dtype(dtype), "device": device, "spare": spare}
    options |= {"transpose": transpose, "memory_limit": limit, "tune": tune, "threads": threads}
    if plan is not None:
        options["plan"] = plan
        matrix: _cuda.Matrix = cuda.Matrix(*X, **options)
    else:
        matrix = build_with_known_plans(cuda, X, np.dtype(dtype), cuda.device_info(device)["name"], options)
    share_with_cpu(matrix, X, share, columns)
    if isinstance(shares, Shares):
        shares.forget()
    return matrix


def format_bytes(X: Csr, dtype: type, *, transpose: bool = False) -> int:
    """Predict the bytes of a matrix on a device."""
    value_bytes = 0 if X.data is None else np.dtype(dtype).itemsize
    return int(import_cuda().Matrix.predict_format(*X.shape, X.nnz, value_bytes, transpose=transpose))


def plan_one_matrix(size: int, vectors: int, total: int, min_resident: float = 0.0) -> MemoryPlan:
    """Divide device memory between a matrix of some bytes and vectors; what does not fit streams.

    Raises
    ------
    DeviceMemoryError
        If there is no room for vectors, for what streams in main memory, or for a share of the matrix of at
        least ``min_resident`` on the device.
    """
    plan = divide_memory(total, vectors, 0, size, "the graph")
    if plan.streamed:
        check_resident(plan, min_resident)
        log.info("%s", plan_text(plan))
        check_host_memory(plan)
    return plan


def split_by_source(X: Csr, own: slice) -> tuple[Csr, Csr]:
    """Return the entries in some columns, as a matrix of these, and the others, in that of all columns.

    Examples
    --------
    >>> X = Csr(np.array([0, 2, 3]), np.array([0, 2, 1], np.int32), None, (2, 3))
    >>> near, far = split_by_source(X, slice(1, 3))
    >>> near.indptr.tolist(), near.indices.tolist(), near.shape, far.indptr.tolist(), far.indices.tolist()
    ([0, 1, 2], [1, 0], (2, 2), [0, 1, 1], [0])
    """
    inside = (X.indices >= own.start) & (X.indices < own.stop)
    before = np.concatenate(([0], np.cumsum(inside)))[X.indptr]

    def part(chosen: NDArray[np.bool_], indptr: Indices, first: int, columns: int) -> Csr:
        values = None if X.data is None else X.data[chosen]
        return Csr(indptr, X.indices[chosen] - np.int32(first), values, (X.shape[0], columns))

    near = part(inside, before, own.start, own.stop - own.start)
    return near, part(~inside, X.indptr - before, 0, X.shape[1])


class DeviceTransitions(NamedTuple):
    """P' on a device, in the formats for one vector or for several."""

    nodes: _cuda.Nodes
    additions: RowAdditions
    split: str  # which rows are the CPU's, as `split_text` says it


class GpuTransitions:
    """P' of a graph on a GPU, or of one process of several on its GPU.

    Parameters
    ----------
    graph : Graph
        With at least one node in each process.
    weighted : bool
        Whether an edge counts by its weight; else each counts the same.
    device : int, default 0
    limit : int, optional
        Bytes of device memory that may be used; default: what is free.
    share : Share, default 0
        The CPU's share of rows that do not fit; see `bmrm.matrix.gpu.cpu_share.parse_share`.
    """

    def __init__(
        self,
        graph: Graph,
        weighted: bool,
        device: int = 0,
        limit: int | None = None,
        share: Share = 0,
    ) -> None:
        self.graph, self.n, self._share = graph, graph.n_nodes, share
        if limit is not None:
            graph.leave_gpu()  # the limit is for matrix and vectors, so edges take nothing besides
        self._weighted, self._device, self._limit = weighted, device, limit
        self._edges, self._scale = self._matrix()
        self.n_own = self._edges.shape[0]
        self._residents: dict[bool, DeviceTransitions] = {}  # by whether it is for several vectors
        self._shared = graph.peers.on_gpus(device)
        self.numbers, self._places = own_numbers(graph)

    def _matrix(self) -> tuple[Csr, Vector]:
        """Return P' as it is uploaded, from where the edges are, and the factors of what nodes send."""
        graph, rows = self.graph, self.graph.rows
        weighted = self._weighted and graph.weighted
        values: Any = rows.shares_near(self._device) if weighted else None
        if values is None:
            values, scale = transition_values(graph, weighted)
        else:
            scale = (graph.out_strength() > 0).astype(np.float64)
        sources = rows.sources_near(self._device)
        return Csr(rows.starts, sources, values, (len(rows.starts) - 1, self.n)), scale

    def walk(self, damping: float, restarts: Restarts) -> GpuWalk:
        return GpuWalk(self, damping, restarts)

    @property
    def batch(self) -> int:
        # A share of the device's memory, not of what is free, so that runs are the same.
        total = self._limit or import_cuda().device_info(self._device)["total_bytes"] // 2
        total -= sum(format_bytes(self._edges, kind) for kind in (np.float64, np.float32))
        fits = (size for size in BATCHES if self._vector_bytes(size) <= total)
        return int(-self.graph.peers.largest(np.array([-float(next(fits, BATCHES[-1]))]))[0])

    def _vector_bytes(self, columns: int) -> int:
        return int(import_cuda().predict_walk_bytes(self.n_own, columns, MAX_IMAGES, self.n))

    def resident(self, columns: int, min_resident: float = 0.0) -> DeviceTransitions:
        """Return P' in the formats for a number of vectors, which are built when they are needed.

        Raises
        ------
        DeviceMemoryError
            If there is not enough memory, or less than a share ``min_resident`` of the matrix would stay on
            the device; on all processes if on any.
        """
        several = columns > 1
        if several not in self._residents:
            if self._limit is not None:
                self._residents.clear()  # which counts for all formats together
            with self.graph.peers.together():
                self._residents[several] = self._upload(columns, min_resident)
        return self._residents[several]

    def _upload(self, columns: int, min_resident: float) -> DeviceTransitions:
        spare = self._vector_bytes(columns)
        plan = "split" if columns > 1 else None
        exact_bytes, light_bytes = (format_bytes(self._edges, kind) for kind in (np.float64, np.float32))
        needed = light_bytes + exact_bytes + spare
        if self.graph.rows.gpu is not None and needed > usable_bytes(self._device, self._limit):
            self.graph.leave_gpu()
            self._edges, _ = self._matrix()
        left = usable_bytes(self._device, self._limit) - spare - exact_bytes
        parts = [self._edges]
        tune = "best"
        if self.graph.peers.size > 1:
            # A product with one part finds what the other has left in the caches.
            parts, tune = [*split_by_source(self._edges, self.graph.own)], "cold"
        light: list[_cuda.Matrix | None] = [None, None]
        limit = None
        if sum(format_bytes(part, np.float32) for part in parts) <= left:
            for number, part in enumerate(parts):
                light[number] = upload(part, self._device, np.float32, spare, plan=plan, tune=tune)
        else:
            plan_one_matrix(exact_bytes, spare, left + spare + exact_bytes, min_resident)
            limit = self._limit
        exact = upload(
            self._edges,
            self._device,
            np.float64,
            spare,
            plan=plan,
            limit=limit,
            share=self._share,
            columns=columns,
            threads=self.graph.threads,
        )
        beside = next((other.nodes for other in self._residents.values()), None)
        lengths = np.diff(self._edges.indptr)
        all_places = self.graph.places if self.graph.peers.size > 1 else None
        nodes = import_cuda().Nodes(
            *light, exact, lengths, self._scale, self._places, beside, self._shared, all_places
        )
        return DeviceTransitions(nodes, additions_of(exact, columns), split_text(exact))


def own_numbers(graph: Graph) -> tuple[Indices, NDArray[Any] | None]:
    """Return the numbers of the own nodes, ascending, and their places among the own ones if these differ."""
    own = graph.own
    if not graph.is_reordered:
        return np.arange(own.start, own.stop), None
    if graph.peers.size == 1:
        return np.arange(graph.n_nodes), graph.places
    numbers = graph.to_given(np.arange(own.start, own.stop)).astype(np.int64)
    places = np.argsort(numbers)
    return numbers[places], places


class GpuWalk:
    """Walks on a GPU."""

    looks_ahead = True
    ranks_light_images = True

    def __init__(self, transitions: GpuTransitions, damping: float, restarts: Restarts) -> None:
        self._transitions, self._graph = transitions, transitions.graph
        self._peers = self._graph.peers
        self._damping, self._restarts = damping, restarts
        self.columns = restarts.n_columns
        uniform = restarts.vector is None and restarts.nodes is None
        self._even = 1.0 / transitions.n if uniform else 0.0
        self._v = None if restarts.vector is None else self._graph.in_memory_order(restarts.vector)
        self._u = None if restarts.dangling is None else self._graph.in_memory_order(restarts.dangling)
        self._entries = self._sorted_entries()
        self._walk = self._begin()

    def _sorted_entries(self) -> tuple[Indices, Indices, Vector] | None:
        restarts = self._restarts
        if restarts.nodes is None:
            return None
        assert restarts.columns is not None
        assert restarts.shares is not None
        own = self._graph.own
        rows = self._graph.to_places(restarts.nodes).astype(np.int64) - own.start
        order = np.lexsort((restarts.columns, rows))
        order = order[(rows[order] >= 0) & (rows[order] < own.stop - own.start)]
        return rows[order], restarts.columns[order], restarts.shares[order]

    def _begin(self) -> _cuda.Walk:
        """Return new walks on the device for the present number of columns."""
        n = self._transitions.n_own
        if self.columns == 1 and self._entries is not None:
            rows, _, shares = self._entries
            self._v, self._entries = np.zeros(n), None
            self._v[rows] = shares
        cuda, resident = import_cuda(), self._transitions.resident(self.columns)
        additions = np.array([float(cuda.count_walk_additions(n, self.columns))])
        self._sum_additions = float(self._peers.largest(additions)[0]) + self._peers.size - 1
        walk: _cuda.Walk = cuda.Walk(
            resident.nodes,
            self.columns,
            self._damping,
            self._v,
            self._u,
            self._entries if self._entries is not None and len(self._entries[0]) else None,
            self._even,
            resident.additions,
        )
        return walk

    @property
    def signal_mode(self) -> str:
        return self._peers.signal_mode

    @property
    def has_window(self) -> bool:
        """Whether messages are written to the memory of other GPUs."""
        return self._walk.has_window

    def agree(self, status: str | None) -> str | None:
        return self._peers.agree(status)

    def place(self, slot: int, start: Vector | None = None) -> None:
        self._walk.place(slot, None if start is None else self._graph.in_memory_order(start))

    def light_step(
        self,
        slots: Sequence[int],
        factors: Vector | None,
        mixed: int,
        into: int,
        *,
        plain_next: bool = False,
    ) -> Vector:
        return self._peers.total(self._walk.light_step(slots, factors, mixed, into, plain_next))

    def exact_step(self, slot: int, into: int) -> Vector:
        self._found: Vector = self._walk.exact_step(slot, into)
        return np.asarray(self._found[0])

    def products(self, images: Sequence[int], points: Sequence[int | None]) -> Vector:
        return self._walk.products(images, [-1 if slot is None else slot for slot in points])

    def rounding(self) -> Vector:
        # Besides, each process has its own sum of the weights of a node's edges.
        product = PRODUCT_ROUNDINGS + self._peers.size - 1
        error, n = self._restarts.relative_error, self._transitions.n
        return bound_rounding(list(self._found), n, self._damping, error, self._sum_additions, product)

    @property
    def norm_error(self) -> float:
        return float(HIGHER_ORDER * UNIT * (1 + self._sum_additions))

    def top(self, slot: int, columns: Sequence[int], count: int) -> list[tuple[Indices, Vector]]:
        lists = self._walk.top(slot, columns, count)
        return lists if self._peers.size == 1 else [self._joined(*each, count) for each in lists]

    def _joined(self, found: Indices, scores: Vector, count: int) -> tuple[Indices, Vector]:
        """Return the largest scores of all processes, given those of this one."""
        nodes, scores = self._peers.joined(self._transitions.numbers[found]), self._peers.joined(scores)
        order = np.lexsort((nodes, -scores))[:count]
        return nodes[order], scores[order]

    def scores(
        self, slot: int, columns: Sequence[int], out: Sequence[Vector] | None = None
    ) -> Sequence[Vector]:
        targets: Sequence[Vector | None] = [None] * len(columns) if out is None else out
        return [self._walk.get(slot, column, out) for column, out in zip(columns, targets, strict=True)]

    def keep(self, columns: Sequence[int], slot: int) -> None:
        chosen, before = list(columns), self._walk
        if self._entries is not None:
            rows, owners, shares = self._entries
            number = np.full(self.columns, -1)
            number[chosen] = np.arange(len(chosen))
            there = number[owners] >= 0
            self._entries = rows[there], number[owners[there]], shares[there]
        self._found, self.columns = self._found[:, chosen], len(chosen)
        self._walk = self._begin()
        self._walk.take(before, slot, chosen)
        before.close()

    def close(self) -> None:
        self._walk.close()


class GpuPair:
    """A and A' of a graph on a GPU: one matrix with its transpose, or two with the rows of a process."""

    fewer_hubs = False

    def __init__(
        self,
        graph: Graph,
        weighted: bool,
        device: int = 0,
        limit: int | None = None,
        min_resident: float = 0.0,
        share: Share = 0,
    ) -> None:
        if limit is not None:
            graph.leave_gpu()
        starts, sources = graph.rows.starts, graph.rows.sources_near(device)
        self._peers, self.n = graph.peers, graph.n_nodes
        self.exponent = weight_exponent(graph) if weighted else 0
        values = graph.rows.weights_near(device) if weighted else None
        if values is not None and self.exponent:
            values = np.ldexp(values[:], -self.exponent)
        shape = len(starts) - 1, self.n
        matrices = [Csr(starts, sources, values, shape)]
        if self._peers.size > 1:
            matrices.append(Csr(*graph.edges_by_source(values), shape))
        shared = self._peers.on_gpus(device)
        with self._peers.together():
            spare = 8 * shape[0] * MAX_BASIS_VECTORS + BASIS_NODE_BYTES * self.n
            transpose = len(matrices) == 1
            size = sum(format_bytes(X, np.float64, transpose=transpose) for X in matrices)
            plan = plan_one_matrix(size, spare, usable_bytes(device, limit), min_resident)
            # The first of two leaves the other its share.
            spares = [spare] if transpose else [spare + (plan.total - spare) // 2, spare]
            found = [
                upload(
                    X,
                    device,
                    np.float64,
                    left,
                    transpose=transpose,
                    limit=limit,
                    share=share,
                    threads=graph.threads,
                )
                for X, left in zip(matrices, spares, strict=True)
            ]
            self.matrix = found[0]
            self.split = "; ".join(text for each in found if (text := split_text(each)))
            self._basis: _cuda.Basis = import_cuda().Basis(*found, shared=shared, places=graph.places)

    @property
    def signal_mode(self) -> str:
        return self._peers.signal_mode

    def agree(self, status: str | None) -> str | None:
        return self._peers.agree(status)

    def start(self) -> _cuda.BasisVector:
        return self._basis.filled(1.0 / math.sqrt(self.n))

    def authorities(self, hubs: _cuda.BasisVector) -> _cuda.BasisVector:
        return self._basis.apply("normal", hubs)

    def hubs(self, authorities: _cuda.BasisVector) -> _cuda.BasisVector:
        return self._basis.apply("transposed", authorities)

    def orthogonalise(
        self, vector: _cuda.BasisVector, basis: Sequence[_cuda.BasisVector]
    ) -> tuple[_cuda.BasisVector, float]:
        return self._basis.orthogonalise(vector, basis)

    def combine(self, basis: Sequence[_cuda.BasisVector], factors: Vector) -> _cuda.BasisVector:
        return self._basis.combine(basis, factors)

    def distance(self, vector: _cuda.BasisVector, factor: float, other: _cuda.BasisVector) -> float:
        return self._basis.distance(vector, factor, other)

    def hub_scores(self, hubs: _cuda.BasisVector) -> Vector:
        return self._basis.get(self._basis.distribution(hubs))

    def authority_scores(self, authorities: _cuda.BasisVector) -> Vector:
        return self._basis.get(self._basis.distribution(authorities))
