"""The passes of k-means over rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows that are on the GPU already are used in place; others are uploaded once, or in each pass if they do not
fit (`bmrm.reductions.device.blocks`). Labels and distances stay there between passes, and only sums cross
the bus. Labels are those of the CPU, since rows that the fast pass cannot prove are decided by the same
operations in float64. Sums have the same bits on every run and for any grid, and are as accurate as those of
the CPU, which adds in another order. Those of blocks, and of ranks, are added in turn on the host: the bits
are those of one process if each rank begins with a block. If one rank fails, all raise its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.io.csr import Csr
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.device import blocks
from bmrm.reductions.device.blocks import SLOTS, RowsInPlace, Slots
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE
from bmrm.reductions.passes import SAMPLED_ROWS, Assignment
from bmrm.reductions.row_set import RowSet
from bmrm.reductions.shared_clusters import SharedClusters, scale_of

if TYPE_CHECKING:
    from bmrm.matrix._cuda import Clusters, Column


@dataclass
class _Block:
    """Some rows here, what has them on the GPU, and what stays there for each of them."""

    rows: slice
    on: Clusters
    labels: Column
    closest: Column | None = None


class DeviceClusters(SharedClusters):
    """Rows on a GPU; see `bmrm.reductions.passes.ClusterPasses`.

    Parameters
    ----------
    rows : RowSet
        Dense in main memory or on the GPU, or sparse in main memory.
    gpu : int
        CUDA number of this rank's GPU.
    clusters : int, default 1
        Number of centres, of which the memory for passes depends.
    limit : int, optional
        Maximum number of bytes on the GPU for rows of several blocks, except rows that are there; default:
        most of what is free.

    Attributes
    ----------
    note : str
        Which blocks stay on the GPU; empty if all do.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows, or two blocks of them, do not fit.
    """

    def __init__(self, rows: RowSet, gpu: int, clusters: int = 1, limit: int | None = None) -> None:
        super().__init__(rows)
        cuda: Any = import_cuda()
        X, (n, d) = rows.X, rows.shape
        self.panel_rows = cuda.PANEL_ROWS
        self._count_additions = cuda.count_cluster_additions
        self._each = n if isinstance(X, Csr) else blocks.block_rows(d, X.dtype.itemsize)
        self.note = ""
        if limit is None and rows.most_here > self._each and isinstance(X, np.ndarray):
            limit = blocks.free_share(rows, gpu)
        with rows.together():
            self._open(cuda, gpu, clusters, limit)
            largest = self._largest()
        largest = max(rows.everyones(largest))
        if isinstance(X, Csr):
            self._scale = scale_of(largest)
            return
        shift = self.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
        self._scale = scale_of(largest, shift)
        with rows.together():
            for on in {id(block.on): block.on for block in self._blocks}.values():
                on.pack(shift, self._scale)

    def _open(self, cuda: Any, gpu: int, clusters: int, limit: int | None) -> None:
        """Put the rows here on the GPU, or some blocks of them."""
        rows, X, each = self.rows, self.rows.X, self._each
        parts = [slice(first, min(first + each, rows.here)) for first in range(0, rows.here, each)]
        resident = len(parts)
        if len(parts) > 1 and limit is not None:
            needed = cuda.predict_cluster_bytes(each, X.shape[1], clusters, X.dtype, True)
            resident = blocks.count_resident(len(parts), rows.here, needed, limit)
        options = {"device": gpu, "threads": rows.threads}

        def opened(some: slice) -> Any:
            weights = None if rows.weights is None else rows.weights[some]
            if isinstance(X, Csr):
                found = cuda.Clusters.sparse(X.indptr, X.indices, X.data, X.shape, weights, **options)
            elif isinstance(X, DeviceArray):
                found = cuda.Clusters(RowsInPlace(X, some), weights, **options)
            else:
                found = cuda.Clusters(X[some], weights, **options)
                rows.give_back(some)
            return found

        there = [opened(some) for some in parts[: resident + SLOTS]]
        there += [there[resident + i % SLOTS] for i in range(SLOTS, len(parts) - resident)]
        self._blocks = [_Block(some, on, on.labels()) for some, on in zip(parts, there, strict=True)]
        self._resident, streamed = self._blocks[:resident], self._blocks[resident:]
        self._streamed, self._slots = streamed, Slots(len(streamed), lambda i: _load(rows, streamed[i]))
        if streamed:
            self.note = (
                f"{resident} of {len(parts)} blocks of {each} rows stay there, "
                "the others are copied in each pass"
            )

    def _pass_over(self) -> Iterator[_Block]:
        """Yield the blocks in their order, each on the GPU."""
        copies = self._slots.begin()
        yield from self._resident
        for i in self._slots.numbers(copies):
            yield self._streamed[i]

    def _largest(self) -> float:
        largest = max(block.on.largest() for block in self._pass_over())
        if not largest < np.inf:
            raise DataError("X: found NaN or infinity on the GPU, expected finite numbers")
        if largest > MAX_ABSOLUTE_VALUE:
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )
        return largest

    def reset(self) -> None:
        with self.rows.together():
            for block in self._blocks:
                block.labels = block.on.labels()

    def assign(self, centers: Vector, *, want_sums: bool = True) -> Assignment:
        k, d = centers.shape
        if self.rows.group is None and len(self._blocks) == 1:
            block = self._blocks[0]
            found = block.on.assign(centers, block.labels, want_sums=want_sums)
            return Assignment(np.empty((0, d)) if found[0] is None else found[0], *found[1:])
        counts = np.zeros(2)

        def sums_of_blocks() -> Iterator[Vector]:
            for block in self._pass_over():
                sums, weights, inertia, *more = block.on.assign(centers, block.labels, want_sums=want_sums)
                counts[:] += more
                yield np.concatenate([[] if sums is None else sums.ravel(), weights, [inertia]])

        total = self.rows.sum_parts(sums_of_blocks())
        changed, rechecked = self.rows.total_array(counts)
        sums, weights = total[: -k - 1].reshape(-1, d), total[-k - 1 : -1]
        return Assignment(sums, weights, float(total[-1]), int(changed), int(rechecked))

    def labels(self) -> NDArray[np.int32]:
        parts = [block.labels.read(0, block.rows.stop - block.rows.start) for block in self._blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def own_distances(self, centers: Vector) -> Vector:
        with self.rows.together():
            parts = [block.on.own_distances(centers, block.labels) for block in self._pass_over()]
        return np.concatenate(parts)

    def moves_here(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        with self.rows.together():
            found = [
                block.on.single_moves(centers, block.labels, cluster_weights) for block in self._pass_over()
            ]
        moves, gains = zip(*found, strict=True)
        return sum(moves), max(gains)

    def distances(self, centers: Vector) -> Vector:
        """Return the distances from each row here to all centres."""
        parts = [block.on.measure(centers) for block in self._pass_over()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def begin_seeding(self) -> None:
        with self.rows.together():
            for block in self._blocks:
                block.closest = block.on.distances()
        self.points = 0

    def panel_potentials(self, points: Vector, *, take: bool) -> Vector:
        with self.rows.together():
            parts = [block.on.potentials(points, _closest(block), take=take) for block in self._pass_over()]
        return np.concatenate(parts, axis=1)

    def read_closest(self, some: slice) -> NDArray[np.float32]:
        block = self._blocks[some.start // self._each]  # a panel is part of one
        return _closest(block).read(some.start - block.rows.start, some.stop - block.rows.start)

    def approach_here(self, points: Vector) -> Vector:
        with self.rows.together():
            parts = [
                block.on.approach(points, self.points, self._scale, _closest(block), block.labels)
                for block in self._pass_over()
            ]
        return np.concatenate(parts)

    def draw_here(self, key: int, factor: float) -> Indices:
        with self.rows.together():
            parts = [
                block.rows.start
                + np.sort(
                    block.on.draw_each(key, self.rows.first + block.rows.start, factor, _closest(block))
                ).astype(np.int64)
                for block in self._pass_over()
            ]
        return np.concatenate(parts)

    def take(self, rows: Indices) -> Vector:
        return self.rows.take(rows, self._take_here if isinstance(self.rows.X, DeviceArray) else None)

    def _take_here(self, rows: Indices) -> Vector:
        found, of = np.empty((len(rows), self.shape[1])), rows // self._each
        for number in np.unique(of):
            block, mine = self._blocks[number], of == number
            found[mine] = block.on.take(rows[mine] - block.rows.start)
        return found

    def count_additions(self, clusters: int) -> int:
        if isinstance(self.rows.X, Csr):
            return sum(self.shape)
        most = self.rows.most_here
        in_block: int = self._count_additions(min(most, self._each), self.shape[1], clusters)
        return in_block + most // self._each


def _closest(block: _Block) -> Column:
    assert block.closest is not None
    return block.closest


def _load(rows: RowSet, block: _Block) -> None:
    """Copy a block to its slot."""
    block.on.load(rows.X[block.rows], None if rows.weights is None else rows.weights[block.rows])
    rows.give_back(block.rows)
