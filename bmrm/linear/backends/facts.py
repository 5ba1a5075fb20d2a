"""The facts that a plan rests on: of a data set in one process or on several ranks, and of measured rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base.vectors import Indices
from bmrm.linear.backends.host.ascent import ascent_on
from bmrm.linear.intercept import Intercept, operator_of
from bmrm.linear.memory import AS_GIVEN, GpuMemory, MatrixSize, MeasuredRows
from bmrm.linear.plan import Facts
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss, ScalarLoss
from bmrm.matrix import _cpu
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.devices import parse_device
from bmrm.matrix.gpu.memory import plan_memory, room_for_cuts, vector_bytes
from bmrm.matrix.resident import choose_gpu_dtype, default_threads

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


def facts_of(
    data: Dataset,
    operator: MatrixAdapter,
    loss: Loss,
    penalty: Regularizer,
    intercept: Intercept,
    borders: Indices | None = None,
) -> Facts:
    """Return the facts of a data set; ``operator`` is X of all ranks with intercept and outputs.

    - ``borders``: where blocks of rows may begin, None for any row

    All ranks must call this at the same time.
    """
    matrix: Any = data.matrix
    shard: Any = data
    keeps_solves = on_gpu = matrix.location == "gpu"
    if data.group is not None:
        # Sums on GPUs need links of one kind between all of them.
        keeps_solves = on_gpu and penalty.plain and isinstance(loss, ScalarLoss) and shard.links().alike
    return Facts(
        operator,
        size_of(data),
        data.shape[0],
        loss,
        penalty,
        intercept,
        threads=data.threads,
        device="cpu" if data.device == "cpu" else "gpu",
        gpu=gpu_memory_of(matrix) if on_gpu else None,
        can_solve_on_gpu=keeps_solves,
        has_ascent=ascent_on(matrix) is not None,
        has_class_offsets=data.offset is not None and loss.task == "multiclass",
        in_lockstep=not isinstance(matrix, _cpu.Matrix),
        ranks=None if data.group is None else data.group.size,
        owned=data.owned,
        rounds=data.resolution > 0.0,
        split=data.split,
        storage=storage_reason(data),
        max_blocks=None if borders is None else len(borders) - 1,
        row_square=lambda: float(matrix.mean_squares.sum()),
        column_squares=lambda: operator.mean_squares[:: operator.n_outputs],
    )


def measured_facts(
    rows: MeasuredRows,
    loss: Loss,
    penalty: Regularizer,
    intercept: Intercept,
    *,
    threads: int | None = None,
    mean_is_known: bool = True,
) -> Facts:
    """Return the facts of rows that one process will have on the CPU.

    - ``penalty``: of any number of features
    - ``mean_is_known``: the mean over rows is not weighted, or the strength of the penalty does not depend
      on the weights
    """
    squares, one_block = rows.squares, not (loss.by_rows or loss.needs_groups)
    return Facts(
        operator_of(rows, loss, rows.columns, intercept),
        rows.size,
        rows.n_samples,
        loss,
        penalty,
        intercept,
        threads=threads or default_threads(rows.nnz),
        storage=rows.storage,
        max_blocks=1 if one_block else None,
        row_square=None if squares is None or not mean_is_known else lambda: squares / rows.n_samples,
    )


def on_gpu(known: Facts, rows: MeasuredRows, *, tol: float, limit: int | None, device: str) -> Facts:
    """Return the facts of measured rows with X on a GPU.

    - ``tol``: as for `Dataset`
    - ``limit``: bytes of device memory that may be used
    """
    stored = choose_gpu_dtype(np.dtype(f"f{rows.value_bytes}") if rows.value_bytes else None, tol)
    item, nnz = stored.itemsize, None if rows.is_dense else rows.nnz
    values = item if rows.value_bytes else 0
    found = plan_memory(rows.shape, nnz, values, item, limit, parse_device(device) or 0)
    room = room_for_cuts(found.left, rows.shape, item)
    return replace(
        known,
        operator=operator_of(
            rows._replace(weighted_gram_work=np.inf), known.loss, rows.columns, known.intercept
        ),  # the host forms no Hessian
        device="gpu",
        gpu=GpuMemory(found.resident, found.streamed, found.vectors, room, item),
        can_solve_on_gpu=True,
    )


def by_layout(known: Facts, rows: MeasuredRows, ranks: int, *, may_own: bool) -> dict[str, Facts]:
    """Return the facts of each of several ranks on CPUs, by how these keep the weights.

    How many columns the rows of a rank touch is not known: no more than it has nonzeros.
    """
    m, nnz = -(-rows.n_samples // ranks), -(-rows.nnz // ranks)
    here = rows.size._replace(rows=m, nnz=nnz)
    found = {"replicated": replace(known, ranks=ranks, size=here)}
    if may_own:
        touched = here._replace(columns=min(rows.n_features, nnz))
        found["owned"] = replace(known, ranks=ranks, size=touched, owned=True)
    return found


def storage_reason(data: Dataset) -> str:
    """Return why the rows of X are sparse or dense."""
    read = None if data.source is None else data.source.storage
    return AS_GIVEN if read is None else read.reason


def size_of(data: Dataset) -> MatrixSize:
    """Return the size of X in this process."""
    matrix: Any = data.matrix
    rows, columns = matrix.shape
    # A matrix that only has products does not say how it is stored.
    dtype = getattr(matrix, "dtype", None)
    # On a GPU the bytes of an index are known only after its kernels have been timed.
    is_dense = matrix.is_dense if hasattr(matrix, "is_dense") else getattr(matrix, "index_bytes", 0) == 0
    value_bytes = 0 if dtype is None else np.dtype(dtype).itemsize
    return MatrixSize(rows, columns, matrix.nnz, value_bytes, is_dense)


def gpu_memory_of(matrix: _cuda.Matrix) -> GpuMemory:
    """Return the device memory of X, and what is left for vectors and cuts."""
    item, shape = matrix.vector_dtype.itemsize, matrix.shape
    return GpuMemory(
        matrix.nbytes,
        matrix.host_bytes,
        vector_bytes(shape, item),
        room_for_cuts(matrix.bytes_left, shape, item),
        item,
    )
