"""The bytes that a solve needs, by part: X, vectors, and the bundle when it is full.

The figures are upper bounds, except that of X on a GPU, whose formats are known only after the upload. They
follow from sizes alone, so they can be computed before the data are read into memory.
"""

from __future__ import annotations

from typing import NamedTuple

from bmrm.distributed.weight_layout import weight_bytes
from bmrm.linear.bundle.bundle import MAX_CUTS
from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.solvers.dual_ascent import MARGIN_BYTES as ASCENT_MARGIN_BYTES
from bmrm.matrix._cpu import Matrix

MARGIN_BYTES = 64
"""Bytes per margin of all vectors over rows that a solve on the CPU has at once
(tests/cli/test_dryrun.py)."""

JOINT_MARGIN_BYTES = 320
"""The same for joint losses, which sort the margins."""

FLOAT64_BYTES = 8

ON_GPU = "X on the GPU"
"""Name of a part of the memory."""

STREAMED = "X in pinned host memory"
"""Name of a part of the memory."""


class MatrixSize(NamedTuple):
    """The size of X in one process; ``value_bytes`` is 0 if every value is 1."""

    rows: int
    columns: int
    nnz: int
    value_bytes: int
    is_dense: bool


class GpuMemory(NamedTuple):
    """Device memory by use."""

    # Bytes of X on the GPU, and in pinned host memory
    resident: int
    streamed: int
    # Bytes of the vectors of a solve, and those that cuts may take
    vectors: int
    room: int
    item: int  # bytes per element of a vector


class BundleSize(NamedTuple):
    """What determines the size of a full bundle, besides the length of a cut."""

    max_cuts: int | None
    blocks: int

    def bytes_of(self, width: int, item: int = FLOAT64_BYTES, room: int = CUT_BYTES) -> int:
        """Return the bytes of a full bundle whose cuts have ``width`` elements, with its Gram matrix."""
        cuts = self.max_cuts or max(4 * self.blocks, min(MAX_CUTS, room // (item * width)))
        return cuts * (item * width + FLOAT64_BYTES * cuts)


def host_memory(
    size: MatrixSize, n_outputs: int, bundle: BundleSize, *, joint: bool, ascent: bool, row_space: bool
) -> dict[str, int]:
    """Return the bytes of a solve of one process on the CPU.

    - ``joint``: whether the loss is joint: of all margins together
    - ``ascent``: the solve begins with ascent in the dual
    - ``row_space``: weights and cuts are combinations of rows
    """
    weights = size.columns * n_outputs
    vectors = _row_bytes(size.rows * n_outputs, joint=joint, ascent=ascent) + weight_bytes(weights, 1)
    width = cut_width(size, n_outputs, row_space=row_space)
    return {**matrix_bytes(size), "vectors": vectors, "bundle": bundle.bytes_of(width)}


def gpu_memory(
    gpu: GpuMemory, size: MatrixSize, n_outputs: int, bundle: BundleSize, *, row_space: bool
) -> dict[str, int]:
    """Return the bytes of a solve with X on a GPU."""
    width = cut_width(size, n_outputs, row_space=row_space)
    cuts = bundle.bytes_of(width, gpu.item, gpu.room)
    return {ON_GPU: gpu.resident, STREAMED: gpu.streamed, "vectors": gpu.vectors, "bundle": cuts}


def rank_memory(
    size: MatrixSize, weights: int, n_outputs: int, ranks: int, bundle: BundleSize, *, joint: bool,
    owned: bool, split_cuts: bool,
) -> dict[str, int]:  # fmt: skip
    """Return the bytes of one of several ranks on CPUs.

    - ``size``: of the rows here, with the columns that they touch if weights are owned
    - ``weights``: of all ranks
    - ``split_cuts``: each rank keeps some columns of the cuts
    """
    touched = size.columns * n_outputs if owned else None
    vectors = _row_bytes(size.rows * n_outputs, joint=joint, ascent=False)
    vectors += weight_bytes(weights, ranks, touched)
    width = -(-weights // ranks) if split_cuts else weights
    return {**matrix_bytes(size), "vectors": vectors, "bundle": bundle.bytes_of(width)}


def matrix_bytes(size: MatrixSize) -> dict[str, int]:
    """Return the bytes of X in main memory, and of its transpose."""
    if size.is_dense:
        return {"X": size.nnz * size.value_bytes, "X^T": 0}
    shape = size.rows, size.columns, size.nnz, size.value_bytes
    X, both = (Matrix.predict_bytes(*shape, transpose=transpose) for transpose in (False, True))
    return {"X": X, "X^T": both - X}


def cut_width(size: MatrixSize, n_outputs: int, *, row_space: bool) -> int:
    """Return the number of elements that a cut is kept as."""
    return 2 * (size.rows * n_outputs + 1) if row_space else size.columns * n_outputs


def _row_bytes(margins: int, *, joint: bool, ascent: bool) -> int:
    return margins * (JOINT_MARGIN_BYTES if joint else MARGIN_BYTES + (ASCENT_MARGIN_BYTES if ascent else 0))
