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
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE
from bmrm.reductions.passes import SAMPLED_ROWS
from bmrm.reductions.row_set import RowSet
from bmrm.reductions.scatter import Scatter, rounding_bound

if TYPE_CHECKING:
    from bmrm.matrix._cuda import DenseRows

MAX_SHIFT_SHARE = 0.1
"""A second pass is needed if W |mean - shift|^2 is a larger share of the scatter about the shift."""

OTHER_ROUNDINGS = 8
"""Roundings of x - shift, of its products, of r r', and of the sum of its entries."""


class DeviceGram:
    """Dense rows on a GPU, in place if they are there, else uploaded.

    Parameters
    ----------
    rows : RowSet
        Of one process.
    gpu : int
        CUDA number.
    center : bool
        Whether the scatter is about the mean, else about 0.
    spare : int, default 0
        Bytes of device memory that must be left besides those for the scatter matrix.

    Attributes
    ----------
    on_device : bmrm.matrix._cuda.DenseRows
    mean : ndarray, shape (d,)
        Of the rows, with their weights; `scatter` sets it.

    Raises
    ------
    DataError
        If a value on the GPU is not finite, or its square overflows.
    DeviceMemoryError
        If the rows do not fit.
    """

    def __init__(self, rows: RowSet, gpu: int, *, center: bool, spare: int = 0) -> None:
        cuda, (n, d) = import_cuda(), rows.shape
        spare = max(spare, cuda.predict_gram_bytes(n, d))
        self.on_device: DenseRows = cuda.DenseRows(
            rows.X, rows.weights, device=gpu, spare=spare, threads=rows.threads
        )
        self._center, self._total = center, rows.total_weight
        self._terms = cuda.count_gram_additions(n, d) + OTHER_ROUNDINGS
        if not isinstance(rows.X, np.ndarray):  # those in main memory have been validated
            self._validate()

    def _validate(self) -> None:
        largest, row = self.on_device.extremes()
        if row is not None:
            raise DataError(f"X: row {row} has a value that is not finite, expected finite numbers")
        if largest > MAX_ABSOLUTE_VALUE:
            raise DataError(
                f"X: found {largest:.3g}, expected absolute values of at most {MAX_ABSOLUTE_VALUE:g}"
            )

    def scatter(self) -> Scatter:
        """Compute the scatter matrix."""
        rows, total = self.on_device, self._total
        n, d = rows.shape
        shift = np.zeros(d)
        if self._center:
            shift = rows.take(np.arange(0, n, max(1, n // SAMPLED_ROWS))).mean(axis=0)
        matrix, rest = rows.gram(shift)
        size = float(np.trace(matrix))
        if self._center and float(rest @ rest) / total > MAX_SHIFT_SHARE * size:
            shift = shift + rest / total
            matrix, rest = rows.gram(shift)
            size = float(np.trace(matrix))
        self.mean = shift + rest / total
        error = rounding_bound(self._terms) * size
        if not self._center:
            return Scatter(matrix, shift, total, error)
        return Scatter(matrix - np.outer(rest, rest) / total, self.mean, total, error)
