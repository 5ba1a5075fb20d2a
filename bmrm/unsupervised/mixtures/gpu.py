"""The passes of a mixture over rows on a GPU, by the compiled kernels of ``src_cuda/mixtures``.

Rows that are on the GPU already are used in place; others are uploaded once per fit, or in each pass if they
do not fit (`bmrm.distributed.blocks`). Products and sums are in float64, on tensor cores where the GPU
has them for it, so that results are as accurate as those of the CPU, which adds in another order. They have
the same bits in each call, for any grid, and on GPUs of the same generation. Sums of blocks and of ranks are
added in turn on the host.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.distributed.blocks import COLUMN_BYTES, block_rows, sampled_rows
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DeviceMemoryError
from bmrm.matrix.gpu.cpu_share import Pass, Share, least_seconds
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.placement import Placement, with_fall_back
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.passes import ClusterPasses
from bmrm.unsupervised.decomposition.cpu_rows import CpuDenseRows
from bmrm.unsupervised.decomposition.gpu import DeviceGram
from bmrm.unsupervised.mixtures.cpu import HostMixture
from bmrm.unsupervised.mixtures.passes import MixturePasses, MixtureSums


class CpuMixture(CpuDenseRows):
    """Dense rows of a mixture on a GPU that are the CPU's, as `bmrm.matrix._cuda.DenseRows`."""

    def __init__(self, rows: RowSet) -> None:
        super().__init__(rows)
        host = HostMixture(rows)
        self.mixture_step, self.mixture_shares = host.step, host.shares
        self._label_moments = host.label_moments

    def label_moments(self, labels: NDArray[np.int32], centers: Vector, full: bool) -> tuple[Vector, ...]:
        """Return the sums of a step in which each row is in the cluster of its label alone."""
        return self._label_moments(labels, centers, full=full)[1:]


def mixture_pass(rows: RowSet, components: int, share: Share, *, full: bool) -> Pass:
    """Return a step of EM, for `count_cpu_blocks`."""
    d = rows.shape[1]

    def seconds(cores: int) -> float:
        sample, rng = sampled_rows(rows, cores), np.random.default_rng(1)
        host, means = HostMixture(sample), rng.random((components, d))
        roots = np.tile(np.eye(d), (components, 1, 1)) if full else np.ones((components, d))
        constants = np.zeros(components)
        return least_seconds(lambda: host.step(means, roots, constants)) / sample.here

    kind = "full" if full else "diagonal"
    return Pass(share, f"a mixture, {components} {kind} components, {d} columns, {rows.X.dtype}", seconds)


class DeviceMixture:
    """Dense rows on a GPU; see `bmrm.unsupervised.mixtures.passes.MixturePasses`.

    Parameters
    ----------
    rows : RowSet
        Dense, in main memory or on the GPU.
    gpu : int
        CUDA number of this rank's GPU.
    components : int
    full : bool
        Whether covariances are matrices, else diagonals.
    limit : int, optional
        See `bmrm.unsupervised.decomposition.gpu.DeviceGram`.
    share : Share, default 0
        The CPU's share in eighths of the blocks that do not stay; see `bmrm.matrix.gpu.cpu_share`.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows do not fit, or 64 of them not into the shared memory of a multiprocessor (more than 448
        columns on an H100).
    """

    def __init__(
        self,
        rows: RowSet,
        gpu: int,
        components: int,
        *,
        full: bool,
        limit: int | None = None,
        share: Share = 0,
    ) -> None:
        cuda, d, dtype = import_cuda(), rows.shape[1], rows.X.dtype
        with rows.together():
            most = cuda.count_mixture_columns(gpu)
            if d > most:
                raise DeviceMemoryError(
                    f"X: found {d} columns, expected at most {most} for a mixture on this GPU"
                )
        self.shape, self.total_weight, self.agree = rows.shape, rows.total_weight, rows.agree
        self.rows, self._gpu, self._components = rows, gpu, components
        each = block_rows(d, dtype.itemsize)
        spare = cuda.predict_mixture_bytes(min(rows.most_here, each), d, components, full)
        # k-means, which finds the first means, reads the blocks that stay where they are.
        of_clusters = (
            *(cuda.predict_cluster_bytes(each, d, components, dtype, own) for own in (False, True)),
            COLUMN_BYTES * rows.here,
        )
        work = mixture_pass(rows, components, share, full=full)
        gram = DeviceGram(
            rows, gpu, spare=spare, besides=of_clusters, limit=limit, work=work, on_cpu=CpuMixture
        )
        self._blocks, self.scatter, self._cpu_blocks = gram.blocks, gram.scatter, gram.cpu_blocks
        self._clusters: DeviceClusters | None = None

    @property
    def note(self) -> str:
        """Which blocks stay on the GPU; empty if all do."""
        return self._blocks.note

    def step(self, means: Vector, roots: Vector, constants: Vector) -> MixtureSums:
        likelihood, *sums = self._blocks.sums(
            lambda i: self._blocks.on[i].mixture_step(means, roots, constants)
        )
        return MixtureSums(float(likelihood), *sums)

    def shares(self, means: Vector, roots: Vector, constants: Vector) -> tuple[Vector, Vector]:
        on = self._blocks.on
        found = list(self._blocks.each(lambda i: on[i].mixture_shares(means, roots, constants)))
        if len(found) == 1:
            return found[0]
        densities, shares = zip(*found, strict=True)
        return np.concatenate(densities), np.concatenate(shares)

    def cluster_moments(self, centers: Vector, *, full: bool) -> MixtureSums:
        clusters = self._device_clusters()
        clusters.assign(centers, want_sums=False)
        labels, parts = clusters.labels(), self._blocks.parts
        return MixtureSums(
            0.0,
            *self._blocks.sums(lambda i: self._blocks.on[i].label_moments(labels[parts[i]], centers, full)),
        )

    def clusters(self) -> ClusterPasses:
        return self._device_clusters()

    def _device_clusters(self) -> DeviceClusters:
        if self._clusters is None:
            there = self._blocks.on[: self._blocks.resident]
            self._clusters = DeviceClusters(
                self.rows, self._gpu, self._components, there=there, cpu_blocks=self._cpu_blocks
            )
        return self._clusters


def open_mixture(
    rows: RowSet, placement: Placement, components: int, *, full: bool, share: Share = 0
) -> tuple[MixturePasses, Placement]:
    """Put dense rows where a mixture is fitted; ``full``: covariances are matrices. See `open_clusters`."""

    def on_gpu(number: int) -> tuple[MixturePasses, str]:
        found = DeviceMixture(rows, number, components, full=full, share=share)
        return found, found.note

    return with_fall_back(placement, lambda: HostMixture(rows), on_gpu)
