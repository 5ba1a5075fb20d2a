"""The scatter matrix of dense rows on a GPU, by the compiled kernels of ``src_cuda/reductions``.

Rows are read once. What is subtracted from them is the mean of some rows, which is near the mean of all: with
r = sum of w (x - shift) and W = sum of w, the scatter about the mean is what was computed minus r r' / W. If
that cancels digits, because the rows that were looked at are unlike the others, a second pass takes the mean
itself. Differences, products and sums are in float64, so the bound is that of `bmrm.reductions.scatter`.
Ranks add their matrices in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bmrm.base.vectors import Vector
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
    gpu : int
        CUDA number of this rank's GPU.
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
        cuda, n, d = import_cuda(), rows.here, rows.shape[1]
        spare = max(spare, cuda.predict_gram_bytes(n, d))
        self._rows, self._center, self._total = rows, center, rows.total_weight
        self.on_device: DenseRows
        with rows.together():
            self.on_device = cuda.DenseRows(
                rows.X, rows.weights, device=gpu, spare=spare, threads=rows.threads
            )
            if not isinstance(rows.X, np.ndarray):  # those in main memory have been validated
                self._validate()
        self._terms = cuda.count_gram_additions(rows.most_here, d) + OTHER_ROUNDINGS + rows.ranks

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
        (n, d), total = self._rows.shape, self._total
        shift = np.zeros(d)
        if self._center:
            sampled = np.arange(0, n, max(1, n // SAMPLED_ROWS))
            shift = self._rows.take(sampled, self.on_device.take).mean(axis=0)
        matrix, rest = self._sums(shift)
        size = float(np.trace(matrix))
        if self._center and float(rest @ rest) / total > MAX_SHIFT_SHARE * size:
            shift = shift + rest / total
            matrix, rest = self._sums(shift)
            size = float(np.trace(matrix))
        self.mean = shift + rest / total
        error = rounding_bound(self._terms) * size
        if not self._center:
            return Scatter(matrix, shift, total, error)
        return Scatter(matrix - np.outer(rest, rest) / total, self.mean, total, error)

    def _sums(self, shift: Vector) -> tuple[Vector, Vector]:
        """Return the sums of w (x - shift) (x - shift)' and of w (x - shift) of all ranks."""
        with self._rows.together():
            matrix, rest = self.on_device.gram(shift)
        if self._rows.group is None:
            return matrix, rest
        found = self._rows.add_in_turn(np.concatenate([matrix.ravel(), rest])[None, :])
        return found[: matrix.size].reshape(matrix.shape), found[matrix.size :]
