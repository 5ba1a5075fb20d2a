"""The passes of k-means over rows on a GPU, by the compiled kernels of ``src_cuda/clusters``.

Rows that are on the GPU already are used in place; others are uploaded once, or in each pass if they do not
fit (`bmrm.distributed.blocks`). Labels and distances stay there between passes, and only sums cross
the bus. Labels are those of the CPU, since rows that the fast pass cannot prove are resolved by the same
operations in float64. Sums have the same bits on every run and for any grid, and are as accurate as those of
the CPU, which adds in another order. Those of blocks, and of ranks, are added in turn on the host: the bits
are those of one process if each rank begins with a block. If one rank fails, all raise its error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.distributed import blocks
from bmrm.distributed.blocks import CpuBlocks, RowBlocks
from bmrm.distributed.reading import MAX_ABSOLUTE_VALUE
from bmrm.distributed.row_set import SAMPLED_ROWS, RowSet
from bmrm.errors import DataError, DeviceMemoryError
from bmrm.matrix.gpu.cpu_share import Share
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.placement import Placement, with_fall_back
from bmrm.unsupervised.clusters._clusters import SEEDING_PANEL_ROWS
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.cpu_rows import CpuClusters, cluster_pass
from bmrm.unsupervised.clusters.passes import Assignment, ClusterPasses
from bmrm.unsupervised.clusters.shared_clusters import SharedClusters, scale_of
from bmrm.unsupervised.scales import ORDINARY_EXPONENT

if TYPE_CHECKING:
    from bmrm.matrix._cuda import Clusters, RowValues

Found = TypeVar("Found")

CENTERS_PER_WAIT = 64
"""Centres that k-means++ on a GPU chooses before the host looks for signals: some milliseconds."""


class DeviceClusters(SharedClusters):
    """Rows on a GPU; see `bmrm.unsupervised.clusters.passes.ClusterPasses`.

    Parameters
    ----------
    rows : RowSet
        Dense in main memory or on the GPU, or sparse in main memory.
    gpu : int
        CUDA number of this rank's GPU.
    clusters : int, default 1
        Number of centres, on which the memory for passes depends.
    limit : int, optional
        Maximum number of bytes on the GPU for rows of several blocks, except rows that are there; default:
        most of what is free.
    there : sequence, optional
        Arrays of the blocks that are on the GPU, the first ones; the others are copied in each pass.
    share : Share, default 0
        The CPU's share of these in eighths; see `bmrm.matrix.gpu.cpu_share`.
    cpu_blocks : int, optional
        How many of them are the CPU's, if that is known.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows, or two blocks of them, do not fit.
    """

    def __init__(
        self,
        rows: RowSet,
        gpu: int,
        clusters: int = 1,
        limit: int | None = None,
        there: Sequence[Any] | None = None,
        share: Share = 0,
        cpu_blocks: int | None = None,
    ) -> None:
        super().__init__(rows)
        cuda: Any = import_cuda()
        X, (n, d) = rows.X, rows.shape
        assert cuda.PANEL_ROWS == SEEDING_PANEL_ROWS
        self._gpu, self._max_trials = gpu, cuda.MAX_TRIALS
        self._count_additions = cuda.count_cluster_additions
        self._each = blocks.block_rows_of(rows)
        if there is None and limit is None:
            limit = blocks.room_for_blocks(rows, gpu, self._each)
        with rows.together():
            number, most = -(-rows.here // self._each), X.most_stored(self._each)
            if there is not None:
                resident = len(there)
            else:
                if X.sparse:
                    kind = X.dtype if X.value_bytes else None
                    needed = cuda.predict_sparse_cluster_bytes(self._each, d, most, clusters, kind)
                else:
                    needed = cuda.predict_cluster_bytes(self._each, d, clusters, X.dtype, True)
                columns = blocks.COLUMN_BYTES * rows.here
                resident = blocks.count_resident(number, needed, needed, limit, columns)

            def put(X: Any, weights: Vector | None) -> Any:
                options = {"device": gpu, "threads": rows.threads}
                if rows.sparse:
                    if resident < number:  # others may come to its place
                        options["most"] = most
                    return cuda.Clusters.sparse(X.indptr, X.indices, X.data, X.shape, weights, **options)
                return cuda.Clusters(X, weights, **options)

            if cpu_blocks is None:
                work = cluster_pass(rows, clusters, share)
                cpu_blocks = blocks.blocks_of_cpu(rows, gpu, self._each, resident, work)
            cpu = CpuBlocks(cpu_blocks, CpuClusters)
            self._blocks: RowBlocks[Clusters] = RowBlocks(
                rows, self._each, resident, put, there or (), cpu=cpu
            )
            self._labels = [on.labels() for on in self._blocks.on]
            self._closest: list[RowValues] = []
            largest = self._largest()
        self.largest = largest = max(rows.everyones(largest))
        on_cpu: CpuClusters | None = self._blocks.on_cpu
        self._has_cpu = any(rows.everyones(on_cpu is not None))
        if rows.sparse:
            self._scale = scale_of(largest)
            with rows.together():
                if on_cpu is not None:
                    on_cpu.pack(np.empty(0), self._scale)
            return
        if self._has_cpu:
            self.error_factor = HostClusters.error_factor_of_dense
        if rows.on_gpu and 0.0 < largest < 2.0**-ORDINARY_EXPONENT:
            raise DataError(
                f"X: found a largest value of {largest:.3g} on a GPU, expected "
                f"{2.0**-ORDINARY_EXPONENT:.0e} or more; rows in main memory may be smaller"
            )
        shift = self.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
        self._scale = scale_of(largest, shift)
        with rows.together():
            for on in {id(on): on for on in self._blocks.on}.values():
                on.pack(shift, self._scale)

    @property
    def note(self) -> str:
        """Which blocks stay on the GPU; empty if all do."""
        return self._blocks.note

    def _of_blocks(self, of: Callable[[Clusters, RowValues], Found]) -> list[Found]:
        """Return what is found in each block, in their order; ``of`` gets the block and its labels."""
        return list(self._blocks.each(lambda i: of(self._blocks.on[i], self._labels[i])))

    def _of_seeded(self, of: Callable[[Clusters, RowValues, int], Found]) -> list[Found]:
        """Do the same; ``of`` gets the block, the distances to the nearest centres, and its first row."""
        starts = [some.start for some in self._blocks.parts]
        return list(self._blocks.each(lambda i: of(self._blocks.on[i], self._closest[i], starts[i])))

    def _largest(self) -> float:
        largest = max(self._of_blocks(lambda on, _: on.largest()))
        if not largest < np.inf:
            raise DataError("X: found NaN or infinity on the GPU, expected finite numbers")
        if largest > MAX_ABSOLUTE_VALUE:
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )
        return largest

    def reset(self) -> None:
        with self.rows.together():
            self._labels.clear()  # so that there is room for others
            self._labels += [on.labels() for on in self._blocks.on]

    @property
    def _whole(self) -> bool:
        """Whether all rows are in one block, and no other rank has some."""
        return self.rows.group is None and len(self._blocks.on) == 1

    def assign(self, centers: Vector, *, want_sums: bool = True) -> Assignment:
        def sums_of(i: int) -> tuple[Any, ...]:
            sums, *more = self._blocks.on[i].assign(centers, self._labels[i], want_sums=want_sums)
            return (np.empty((0, centers.shape[1])) if sums is None else sums, *more)

        sums, weights, inertia, changed, rechecked = self._blocks.sums(sums_of)
        return Assignment(sums, weights, float(inertia), int(changed), int(rechecked))

    def labels(self) -> NDArray[np.int32]:
        return _joined(
            [
                labels.read(0, some.stop - some.start)
                for labels, some in zip(self._labels, self._blocks.parts, strict=True)
            ]
        )

    def own_distances(self, centers: Vector) -> Vector:
        with self.rows.together():
            parts = self._of_blocks(lambda on, labels: on.own_distances(centers, labels))
        return _joined(parts)

    def moves_here(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        with self.rows.together():
            found = self._of_blocks(lambda on, labels: on.single_moves(centers, labels, cluster_weights))
        moves, gains = zip(*found, strict=True)
        return sum(moves), max(gains)

    def distances(self, centers: Vector) -> Vector:
        """Return the distances from each row here to all centres."""
        return _joined(self._of_blocks(lambda on, _: on.measure(centers)))

    def begin_seeding(self) -> None:
        with self.rows.together():
            self._closest.clear()
            self._closest += [on.distances() for on in self._blocks.on]
        self.points = 0

    def choose_centers(self, first: int, uniform: Vector) -> Indices | None:
        k, trials = 1 + uniform.shape[0], uniform.shape[1]
        if not self._whole or self.rows.sparse or trials > self._max_trials:
            return None
        on, (closest,) = self._blocks.on[0], self._closest
        on.begin_choice(first, uniform, self._part_panels * SEEDING_PANEL_ROWS, closest)
        chosen = np.empty(0, np.int64)
        for end in range(CENTERS_PER_WAIT, k + CENTERS_PER_WAIT, CENTERS_PER_WAIT):
            self.check_signals()
            chosen = np.concatenate([chosen, on.choose(CENTERS_PER_WAIT)])
            if len(chosen) < end:
                break
        return chosen

    def passes_over(self, rows: RowSet, clusters: int) -> ClusterPasses:
        if not rows.sparse:
            try:
                return DeviceClusters(rows, self._gpu, clusters)
            except DeviceMemoryError:
                pass
        return HostClusters(rows)

    def panel_potentials(self, points: Vector, *, take: bool) -> Vector:
        with self.rows.together():
            parts = self._of_seeded(lambda on, closest, _: on.potentials(points, closest, take=take))
        return _joined(parts, axis=1)

    def read_closest(self, some: slice) -> NDArray[np.float32]:
        number = self._blocks.number_of(some.start)  # a panel is part of one block
        first = self._blocks.parts[number].start
        found: NDArray[np.float32] = self._closest[number].read(some.start - first, some.stop - first)
        return found

    def approach_here(self, points: Vector) -> Vector:
        with self.rows.together():
            parts = self._blocks.each(
                lambda i: self._blocks.on[i].approach(
                    points, self.points, self._scale, self._closest[i], self._labels[i]
                )
            )
            return _joined(list(parts))

    def draw_here(self, key: int, factor: float) -> Indices:
        before = self.rows.first
        with self.rows.together():
            parts = self._of_seeded(
                lambda on, closest, first: (
                    first + np.sort(on.draw_each(key, before + first, factor, closest)).astype(np.int64)
                )
            )
        return _joined(parts)

    def nearest_weights(self) -> Vector:
        if not self._whole or self.rows.weights is not None:  # sums of weights have the order of the CPU's
            return super().nearest_weights()
        return self._blocks.on[0].count(self._labels[0], self.points).astype(np.float64)

    def take(self, rows: Indices) -> Vector:
        return self.rows.take(rows, self._blocks.take if self.rows.on_gpu else None)

    def count_additions(self, clusters: int) -> int:
        most, by_cpu = self.rows.most_here, 0
        if self._has_cpu:
            on_cpu: CpuClusters | None = self._blocks.on_cpu
            by_cpu = max(self.rows.everyones(0 if on_cpu is None else on_cpu.host.count_additions(clusters)))
        if self.rows.sparse:
            in_block = sum(self.shape)
        else:
            in_block = self._count_additions(min(most, self._each), self.shape[1], clusters)
        return max(in_block, by_cpu) + most // self._each


def _joined(parts: list[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """Return the arrays of all blocks as one."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)


def open_clusters(
    rows: RowSet, placement: Placement, clusters: int, share: Share = 0
) -> tuple[ClusterPasses, Placement]:
    """Put rows where k-means runs; the CPU if there is no room on a GPU that the user has not asked for.

    The placement says which rows are copied to the GPU in each pass, if some are, and which are the CPU's;
    ``share`` is that of `DeviceClusters`.

    Raises
    ------
    DeviceMemoryError
        If they do not fit on the GPU that the user has asked for.
    """

    def on_gpu(number: int) -> tuple[ClusterPasses, str]:
        found = DeviceClusters(rows, number, clusters, share=share)
        return found, found.note

    return with_fall_back(placement, lambda: HostClusters(rows), on_gpu)
