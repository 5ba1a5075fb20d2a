"""The facts that a plan rests on, for a data set in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.linear.backends.host.ascent import ascent_on
from bmrm.linear.intercept import Intercept
from bmrm.linear.memory import GpuMemory, MatrixSize
from bmrm.linear.plan import Facts
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss
from bmrm.matrix import _cpu
from bmrm.matrix.adapted import MatrixAdapter
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.memory import room_for_cuts, vector_bytes

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


def facts_of(
    data: Dataset, operator: MatrixAdapter, loss: Loss, penalty: Regularizer, intercept: Intercept
) -> Facts:
    """Return the facts of a data set of one process; ``operator`` is X with intercept and outputs."""
    matrix: Any = data.matrix
    keeps_solves = matrix.location == "gpu"
    return Facts(
        operator,
        size_of(data),
        data.shape[0],
        loss,
        penalty,
        intercept,
        threads=data.threads,
        device="cpu" if data.device == "cpu" else "gpu",
        gpu=gpu_memory_of(matrix) if keeps_solves else None,
        can_solve_on_gpu=keeps_solves,
        has_ascent=ascent_on(matrix) is not None,
        has_class_offsets=data.offset is not None and loss.task == "multiclass",
        in_lockstep=not isinstance(matrix, _cpu.Matrix),
        rounds=data.resolution > 0.0,
        row_square=lambda: float(matrix.mean_squares.sum()),
        column_squares=lambda: operator.mean_squares[:: operator.n_outputs],
    )


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
