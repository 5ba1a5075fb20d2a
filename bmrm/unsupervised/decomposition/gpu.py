"""The scatter matrix of dense rows on a GPU, by the compiled kernels of ``src_cuda/decomposition``.

Rows are read once. What is subtracted from them is the mean of some rows, which is near the mean of all: with
r = sum of w (x - shift) and W = sum of w, the scatter about the mean is what was computed minus r r' / W. If
that cancels digits, because the rows that were looked at are unlike the others, a second pass takes the mean
itself. Differences, products and sums are in float64, so the bound is that of
`bmrm.unsupervised.decomposition.scatter`. Matrices of blocks (`bmrm.distributed.blocks`) and of ranks are
added in turn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bmrm.base.vectors import Vector
from bmrm.distributed.blocks import (
    CpuBlocks,
    RowBlocks,
    block_rows,
    blocks_of_cpu,
    count_resident,
    room_for_blocks,
)
from bmrm.distributed.reading import MAX_ABSOLUTE_VALUE
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError
from bmrm.matrix.gpu.cpu_share import Pass, Share
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.placement import Placement, with_fall_back
from bmrm.unsupervised.decomposition.cpu_rows import CpuDenseRows, gram_pass
from bmrm.unsupervised.decomposition.scatter import (
    MAX_PASSES,
    Scatter,
    about_mean,
    is_near_mean,
    scatter_matrix,
)

if TYPE_CHECKING:
    from bmrm.matrix._cuda import DenseRows

WEIGHT_BYTES = 8
"""Bytes of the weight of a row."""

GPU_ROUNDINGS = 8
"""Roundings of x - shift, of its products, of r r', and of the sum of its entries."""


class DeviceGram:
    """Dense rows on a GPU, in place if they are there, else uploaded.

    Parameters
    ----------
    rows : RowSet
    gpu : int
        CUDA number of this rank's GPU.
    spare : int, default 0
        Bytes of device memory that must be left besides those for the scatter matrix; of several blocks, for
        each.
    besides : tuple of int, default (0, 0, 0)
        Further bytes for each block that stays, for a slot, and for all rows if some blocks do not stay.
    limit : int, optional
        Maximum number of bytes on the GPU for rows of several blocks, except rows that are there; default:
        most of what is free.
    work : Pass, optional
        The passes over the rows, of which the CPU may have some; default: all are the GPU's.
    on_cpu : callable, default `CpuDenseRows`
        Puts these rows where the CPU works on them.

    Attributes
    ----------
    blocks : bmrm.distributed.blocks.RowBlocks
        Of `bmrm.matrix._cuda.DenseRows`.
    cpu_blocks : int
        Number of blocks of the CPU.

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
        *,
        spare: int = 0,
        besides: tuple[int, int, int] = (0, 0, 0),
        limit: int | None = None,
        work: Pass | None = None,
        on_cpu: Callable[[RowSet], CpuDenseRows] = CpuDenseRows,
    ) -> None:
        cuda, d, size = import_cuda(), rows.shape[1], rows.X.dtype.itemsize
        each = block_rows(d, size)
        most = min(each, rows.most_here)
        spare = max(spare, cuda.predict_gram_bytes(most, d))
        self._rows = rows
        block = each * (d * size + WEIGHT_BYTES) + spare
        limit = room_for_blocks(rows, gpu, each) if limit is None else limit
        with rows.together():
            number = -(-rows.here // each)
            resident = count_resident(number, block + besides[0], block + besides[1], limit, besides[2])

            def put(X: Any, weights: Vector | None) -> Any:
                return cuda.DenseRows(X, weights, device=gpu, spare=spare, threads=rows.threads)

            self.cpu_blocks = 0 if work is None else blocks_of_cpu(rows, gpu, each, resident, work)
            cpu = CpuBlocks(self.cpu_blocks, on_cpu)
            self.blocks: RowBlocks[DenseRows] = RowBlocks(rows, each, resident, put, cpu=cpu)
            if rows.on_gpu:  # those in main memory have been validated
                self._validate()
        self._terms = cuda.count_gram_additions(most, d) + rows.most_here // each + rows.ranks
        self._terms += GPU_ROUNDINGS
        theirs = self.blocks.on_cpu
        self._terms = max(self._terms, *rows.everyones(0 if theirs is None else theirs.terms + 1))

    def _validate(self) -> None:
        for on, some in zip(self.blocks.on, self.blocks.parts, strict=True):
            largest, row = on.extremes()
            if row is not None:
                raise DataError(
                    f"X: row {some.start + row} has a value that is not finite, expected finite numbers"
                )
            if largest > MAX_ABSOLUTE_VALUE:
                raise DataError(
                    f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
                )

    def scatter(self) -> Scatter:
        """Compute the scatter matrix about the mean."""
        rows, total = self._rows, self._rows.total_weight
        shift = rows.sampled_mean(self.blocks.take if rows.on_gpu else None)
        for _ in range(MAX_PASSES):
            matrix, rest = self.blocks.sums(functools.partial(self._gram, shift))
            if is_near_mean(rest, matrix, total):
                break
            shift = shift + rest / total
        return about_mean(rows, matrix, rest, shift, self._terms)

    def _gram(self, shift: Vector, i: int) -> tuple[Vector, Vector]:
        """Return the sums of w (x - shift) (x - shift)' and of w (x - shift) of a block."""
        return self.blocks.on[i].gram(shift)


def open_gram(rows: RowSet, placement: Placement, share: Share = 0) -> tuple[DeviceGram | None, Placement]:
    """Put rows on the GPU where their scatter matrix is computed, None for the CPU; see `open_clusters`."""

    def on_gpu(number: int) -> tuple[DeviceGram, str]:
        found = DeviceGram(rows, number, work=gram_pass(rows, share))
        return found, found.blocks.note

    return with_fall_back(placement, lambda: None, on_gpu)


def scatter_about_mean(rows: RowSet, placement: Placement) -> Scatter:
    """Compute the scatter matrix of rows about their mean where they are placed, of sparse ones on the CPU.

    The products of a sparse row with itself are fewer than those of a pass of k-means.
    """
    gram = None
    if not rows.sparse:
        gram, _ = open_gram(rows, placement)
    return scatter_matrix(rows, center=True) if gram is None else gram.scatter()
