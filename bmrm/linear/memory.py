"""The bytes that a solve needs, by part: X, vectors, and the bundle when it is full.

The figures are upper bounds, except that of X on a GPU, whose formats are known only after the upload. They
follow from sizes alone, so they can be computed before the data are read into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.distributed.weight_layout import weight_bytes
from bmrm.io.csr import Csr
from bmrm.io.row_storage import StorageChoice
from bmrm.linear.bundle.bundle import MAX_CUTS
from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.solvers.dual_ascent import MARGIN_BYTES as ASCENT_MARGIN_BYTES
from bmrm.matrix._cpu import Matrix

MARGIN_BYTES = 64
"""Bytes per margin of all vectors over rows that a solve on the CPU has at once
(tests/cli/test_dryrun.py)."""

JOINT_MARGIN_BYTES = 320
"""The same for joint losses, which sort the margins."""

FLOAT32_BYTES = 4
FLOAT64_BYTES = 8

AS_GIVEN = "as given"
"""Why rows in memory are sparse or dense."""

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


NO_CHEAP_HESSIAN = 1e300
"""Multiply-adds of a Hessian that nobody has counted."""


class MeasuredRows(NamedTuple):
    """What was measured of rows that are not kept: all that a plan asks of X."""

    n_samples: int
    n_features: int
    nnz: int
    value_bytes: int  # 0 if every value is 1
    is_dense: bool
    columns: int = 1  # those of the weights: the labels found, for a loss with a margin for each of them
    change: int = 0
    """What float32 makes of the values: 0 nothing, 1 it rounds some, 2 it cannot hold them."""
    rounded: bool = False  # float32 values are rounded, so that training may come to store float64
    weighted_gram_work: float = NO_CHEAP_HESSIAN  # of ``X' diag(s) X``, as a matrix on the CPU counts it
    squares: float | None = None  # sum of the squares of all values; None if nobody has looked
    storage: str = AS_GIVEN  # why rows are sparse or dense

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.n_samples, self.n_features

    @property
    def size(self) -> MatrixSize:
        """The size of X in one process that has all rows."""
        return MatrixSize(*self.shape, self.nnz, self.value_bytes, self.is_dense)

    def in_full(self) -> MeasuredRows:
        """Return the rows with the values that training may come to store."""
        return self._replace(value_bytes=FLOAT64_BYTES) if self.rounded else self

    def in_storage(self, choice: StorageChoice, item: int) -> MeasuredRows:
        """Return sparse rows as a reader that makes this choice stores them, values in ``item`` bytes."""
        found = self._replace(storage=choice.reason)
        if not choice.dense:
            return found
        n, d = self.shape
        return found._replace(
            nnz=n * d, value_bytes=item, is_dense=True, weighted_gram_work=_dense_gram_work(n, d)
        )

    def in_single(self, *, exact: bool) -> MeasuredRows:
        """Return the rows as they are stored if float32 is tried first; ``exact`` allows no rounding."""
        if self.value_bytes != FLOAT32_BYTES:
            return self
        found = self._replace(rounded=self.change > 0)
        return found.in_full() if self.change > 1 or (self.change and exact) else found


def measure_rows(X: Csr | NDArray[Any], item: int) -> MeasuredRows:
    """Measure rows whose values will take ``item`` bytes each, unless all are 1."""
    if not isinstance(X, Csr):
        m, d = X.shape
        work, squares = _dense_gram_work(m, d), _sum_squares(X)
        return MeasuredRows(
            m, d, X.size, item, True, change=_change(X), weighted_gram_work=work, squares=squares
        )
    lengths = np.diff(X.indptr).astype(np.float64)
    return MeasuredRows(
        *X.shape,
        X.nnz,
        0 if X.data is None else item,
        False,
        change=0 if X.data is None else _change(X.data),
        weighted_gram_work=float((lengths * (lengths + 1.0)).sum() / 2.0),  # each row times itself
        squares=float(X.nnz) if X.data is None else _sum_squares(X.data),
    )


def _dense_gram_work(rows: int, columns: int) -> float:
    """Return the multiply-adds of ``X' diag(s) X`` of dense rows, as a matrix on the CPU counts them."""
    return rows * columns * columns / 16


def join_rows(parts: Sequence[MeasuredRows]) -> MeasuredRows:
    """Return what was measured of all parts, which follow each other."""
    features = max(part.n_features for part in parts)
    squares = [part.squares for part in parts if part.squares is not None]
    return parts[0]._replace(
        n_samples=sum(part.n_samples for part in parts),
        n_features=features,
        nnz=sum(features * part.n_samples if part.is_dense else part.nnz for part in parts),
        value_bytes=max(part.value_bytes for part in parts),
        columns=max(part.columns for part in parts),
        change=max(part.change for part in parts),
        rounded=any(part.rounded for part in parts),
        weighted_gram_work=sum(part.weighted_gram_work for part in parts),
        squares=sum(squares) if len(squares) == len(parts) else None,
    )


def _sum_squares(values: NDArray[Any]) -> float:
    with np.errstate(over="ignore"):
        return float(np.square(values, dtype=np.float64).sum())


def _change(values: NDArray[Any]) -> int:
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    return 0 if np.array_equal(single, values) else 1 + (not np.isfinite(single).all())


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

    - ``size``: of the local rows, with the columns that they touch if weights are owned
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
