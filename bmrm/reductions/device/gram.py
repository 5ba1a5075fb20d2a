"""The scatter matrix of dense rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows are read once. What is subtracted from them is the mean of some rows, which is near the mean of all: with
r = sum of w (x - shift) and W = sum of w, the scatter about the mean is what was computed minus r r' / W. If
that cancels digits, because the rows that were looked at are unlike the others, a second pass takes the mean
itself. Differences, products and sums are in float64, so the bound is that of `bmrm.reductions.scatter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bmrm.errors import DataError
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE
from bmrm.reductions.row_set import RowSet
from bmrm.reductions.scatter import Scatter, rounding_bound

if TYPE_CHECKING:
    from bmrm.matrix._cuda import DenseRows

SAMPLED_ROWS = 1024
"""Rows whose mean is subtracted in the first pass."""

MAX_SHIFT_SHARE = 0.1
"""A second pass is needed if W |mean - shift|^2 is a larger share of the scatter about the shift."""

OTHER_ROUNDINGS = 8
"""Roundings of x - shift, of its products, of r r', and of the sum of its entries."""


def hold_rows(rows: RowSet, gpu: int) -> DenseRows:
    """Return dense rows on a GPU: in place if they are there, else uploaded.

    Raise `DataError` if a value on the GPU is not finite, or its square overflows.
    """
    found: DenseRows = import_cuda().DenseRows(rows.X, rows.weights, device=gpu, threads=rows.threads)
    if isinstance(rows.X, DeviceArray):  # rows in main memory have been validated
        largest, row = found.extremes()
        if row is not None:
            raise DataError(f"X: row {row} has a value that is not finite, expected finite numbers")
        if largest > MAX_ABSOLUTE_VALUE:
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )
    return found


def scatter_of_rows(rows: DenseRows, total_weight: float, *, center: bool, additions: int) -> Scatter:
    """Compute the scatter matrix of rows about their mean, or about 0.

    ``additions`` is the maximum number that a product goes through (`_cuda.count_gram_additions`).
    """
    n, d = rows.shape
    shift = np.zeros(d)
    if center:
        shift = rows.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
    matrix, rest = rows.gram(shift)
    size = float(np.trace(matrix))
    if center and float(rest @ rest) / total_weight > MAX_SHIFT_SHARE * size:
        shift = shift + rest / total_weight
        matrix, rest = rows.gram(shift)
        size = float(np.trace(matrix))
    error = rounding_bound(additions + OTHER_ROUNDINGS) * size
    if not center:
        return Scatter(matrix, shift, total_weight, error)
    found = matrix - np.outer(rest, rest) / total_weight
    return Scatter(found, shift + rest / total_weight, total_weight, error)
