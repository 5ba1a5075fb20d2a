"""Dense rows on a GPU that are the CPU's: what scatter matrices ask of `bmrm.matrix._cuda.DenseRows`."""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.distributed.blocks import sampled_rows
from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.cpu_share import Pass, Share, least_seconds
from bmrm.unsupervised.decomposition.scatter import RowGram


class CpuDenseRows:
    """Dense rows in main memory."""

    def __init__(self, rows: RowSet) -> None:
        self._gram = RowGram(rows)
        self.terms = self._gram.terms

    def gram(self, shift: Vector) -> tuple[Vector, Vector]:
        """Return the sums of w (x - shift) (x - shift)' and of w (x - shift)."""
        rest, matrix = self._gram.sums(shift)
        return matrix, rest


def gram_pass(rows: RowSet, share: Share) -> Pass:
    """Return a pass that makes a scatter matrix, for `count_cpu_blocks`."""
    d = rows.shape[1]

    def seconds(cores: int) -> float:
        sample = sampled_rows(rows, cores)
        on_cpu, shift = CpuDenseRows(sample), np.zeros(d)
        return least_seconds(lambda: on_cpu.gram(shift)) / sample.here

    return Pass(share, f"a scatter matrix, {d} columns, {rows.X.dtype}", seconds)
