"""Walks on a GPU: products by `bmrm.matrix._cuda`, the vector work in the passes of ``src_cuda/graph``.

P' is resident twice, in float32 for light steps and in float64 for exact ones. Nothing but sums leaves the
device until the end: l1 norms, inner products for Anderson's method, the largest scores.
``src_cuda/graph/device_walk.h`` says how a step is queued before the host asks for it.

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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bmrm.base import interrupts
from bmrm.base.vectors import Indices, Vector
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.host import HIGHER_ORDER, UNIT, bound_rounding, transition_values
from bmrm.graph.graph import Graph
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.resident import build_with_known_plans

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

SHARE_NONZEROS = 2048
"""Nonzeros of a share of the plan ``split`` (kSplitNonzeros in ``src_cuda/formats/tuning.h``)."""

PIECE_NONZEROS = 256
"""Nonzeros of a warp of that plan with several vectors (``src_cuda/formats/kernels/columns.cuh``)."""

BLOCK_THREADS = 256
"""Threads that add up the partial sums of a long row (``src_cuda/formats/kernels/partial.cuh``)."""

MAX_IMAGES = 16
"""Slots that a loop uses at a time: images and points of the history of Anderson's method, the best image,
the next one and its mixture."""

MAX_BASIS_VECTORS = 40 + 8
"""Vectors of the basis of HITS (`bmrm.graph.hubs_authorities.MAX_BASIS`), and a few in passing."""


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
        return RowAdditions(SHARE_NONZEROS + 28.0, 1.0 / SHARE_NONZEROS)
    if kernel in ("sliced", "tiled", "hot", "binned", "mixed"):
        return RowAdditions(plan["cap"] / 4 + 45.0, 1.0 / BLOCK_THREADS)
    return RowAdditions(0.0, 1.0)


def additions_of(matrix: _cuda.Matrix, columns: int) -> RowAdditions:
    """Return the additions of a matrix, whose blocks of rows may have different kernels."""
    found = [row_additions(block["normal"], columns) for block in matrix.report()["blocks"]]
    return RowAdditions(max(each.most for each in found), max(each.per_entry for each in found))


def upload(
    X: Csr, device: int, dtype: type, spare: int, *, plan: str | None = None, transpose: bool = False
) -> _cuda.Matrix:
    """Put a square matrix on a device; ``spare`` are the bytes that are left for vectors."""
    cuda = import_cuda()
    options: dict[str, Any] = {"dtype": np.dtype(dtype), "device": device, "spare": spare}
    options |= {"transpose": transpose, "memory_limit": None}
    if plan is not None:
        matrix: _cuda.Matrix = cuda.Matrix(X.indptr, X.indices, X.data, X.shape, plan=plan, **options)
        return matrix
    return build_with_known_plans(cuda, X, np.dtype(dtype), cuda.device_info(device)["name"], options)


class Resident(NamedTuple):
    """P' on a device, in the formats for one vector or for several."""

    nodes: _cuda.Nodes
    additions: RowAdditions


class GpuTransitions:
    """P' of a graph on a GPU.

    Parameters
    ----------
    graph : Graph
        With at least one node.
    weighted : bool
        Whether an edge counts by its weight; else each counts the same.
    device : int, default 0

    Raises
    ------
    DeviceMemoryError
        If the matrices do not fit.
    """

    def __init__(self, graph: Graph, weighted: bool, device: int = 0) -> None:
        self.graph, self.n = graph, graph.n_nodes
        starts, sources, _ = graph.edges_by_target
        values, self._scale = transition_values(graph, weighted)
        self._edges, self._device = Csr(starts, sources, values, (self.n, self.n)), device
        self._residents: dict[bool, Resident] = {}  # by whether it is for several vectors

    def walk(self, damping: float, restarts: Restarts) -> GpuWalk:
        return GpuWalk(self, damping, restarts)

    def resident(self, columns: int) -> Resident:
        """Return P' in the formats for a number of vectors, which are built when they are needed."""
        several = columns > 1
        if several not in self._residents:
            cuda = import_cuda()
            spare = cuda.predict_walk_bytes(self.n, columns, MAX_IMAGES)
            light, exact = (
                upload(self._edges, self._device, dtype, spare, plan="split" if several else None)
                for dtype in (np.float32, np.float64)
            )
            beside = next((other.nodes for other in self._residents.values()), None)
            lengths = np.diff(self._edges.indptr)
            nodes = cuda.Nodes(light, exact, lengths, self._scale, self.graph.places, beside)
            self._residents[several] = Resident(nodes, additions_of(exact, columns))
        return self._residents[several]


class GpuWalk:
    """Walks on a GPU."""

    looks_ahead = True

    def __init__(self, transitions: GpuTransitions, damping: float, restarts: Restarts) -> None:
        self._transitions, self._graph = transitions, transitions.graph
        self._damping, self._restarts = damping, restarts
        self.columns = restarts.n_columns
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
        places = self._graph.to_places(restarts.nodes).astype(np.int64)
        order = np.lexsort((restarts.columns, places))
        return places[order], restarts.columns[order], restarts.shares[order]

    def _begin(self) -> _cuda.Walk:
        """Return new walks on the device for the present number of columns."""
        n = self._transitions.n
        if self.columns == 1 and self._entries is not None:
            rows, _, shares = self._entries
            self._v, self._entries = np.zeros(n), None
            self._v[rows] = shares
        cuda, resident = import_cuda(), self._transitions.resident(self.columns)
        self._sum_additions = cuda.count_walk_additions(n, self.columns)
        walk: _cuda.Walk = cuda.Walk(
            resident.nodes,
            self.columns,
            self._damping,
            self._v,
            self._u,
            self._entries,
            resident.additions,
        )
        return walk

    @property
    def signal_mode(self) -> str:
        return interrupts.AWAITED

    def agree(self, status: str | None) -> str | None:
        return status

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
        return self._walk.light_step(slots, factors, mixed, into, plain_next)

    def exact_step(self, slot: int, into: int) -> Vector:
        self._found: Vector = self._walk.exact_step(slot, into)
        return np.asarray(self._found[0])

    def products(self, images: Sequence[int], points: Sequence[int | None]) -> Vector:
        return self._walk.products(images, [-1 if slot is None else slot for slot in points])

    def rounding(self) -> Vector:
        error = self._restarts.relative_error
        return bound_rounding(
            list(self._found), self._transitions.n, self._damping, error, self._sum_additions
        )

    @property
    def norm_error(self) -> float:
        return float(HIGHER_ORDER * UNIT * (1 + self._sum_additions))

    def top(self, slot: int, column: int, count: int) -> tuple[Indices, Vector]:
        return self._walk.top(slot, column, count)

    def scores(
        self, slot: int, columns: Sequence[int], out: Sequence[Vector] | None = None
    ) -> Sequence[Vector]:
        targets: Sequence[Vector | None] = [None] * len(columns) if out is None else out
        return [self._walk.get(slot, column, target) for column, target in zip(columns, targets, strict=True)]

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
    """A and A' of a graph on a GPU, one matrix with its transpose."""

    fewer_hubs = False

    def __init__(self, graph: Graph, weighted: bool, device: int = 0) -> None:
        starts, sources, weights = graph.edges_by_target
        self._graph, self.n = graph, graph.n_nodes
        values, self.exponent = None, 0
        if weighted and weights is not None:
            # By a power of two, so that squares neither overflow nor underflow and A stays what it is.
            self.exponent = int(np.frexp(weights.max(initial=0.0))[1])
            values = np.ldexp(weights, -self.exponent)
        edges = Csr(starts, sources, values, (self.n, self.n))
        spare = 8 * self.n * MAX_BASIS_VECTORS
        self._basis: _cuda.Basis = import_cuda().Basis(
            upload(edges, device, np.float64, spare, transpose=True)
        )

    @property
    def signal_mode(self) -> str:
        return interrupts.AWAITED

    def agree(self, status: str | None) -> str | None:
        return status

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
        return self.to_host(hubs)

    def authority_scores(self, authorities: _cuda.BasisVector) -> Vector:
        return self.to_host(authorities)

    def to_host(self, vector: _cuda.BasisVector) -> Vector:
        """Return a vector in the order of the labels."""
        return np.ascontiguousarray(self._graph.in_given_order(self._basis.get(vector)))
