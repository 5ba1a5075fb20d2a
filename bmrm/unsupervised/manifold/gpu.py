"""Pairs of points on a GPU for multidimensional scaling, by the passes of ``src_cuda/manifold``.

Dissimilarities and weights that are on the GPU already are used in place; others are uploaded, of a square
matrix the upper triangle. Arithmetic is in float64, as on the CPU, but sums are added in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.errors import DataError
from bmrm.matrix.gpu.device_arrays import gpu_of
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.pairs.passes import own_rows
from bmrm.unsupervised.manifold._manifold import MAX_PRODUCTS, SQUARED_COLUMNS
from bmrm.unsupervised.manifold.cpu import read_row
from bmrm.unsupervised.manifold.passes import Descent, PairData, PointVector, Summary

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


def passes_on(device: int, *, stored: bool) -> Callable[[PairData], DeviceScalingPasses]:
    """Return what makes passes on a GPU; ``stored`` means that distances of features are computed once."""

    def make(data: PairData) -> DeviceScalingPasses:
        return DeviceScalingPasses(data, device, stored=stored)

    return make


class DeviceScalingPasses:
    """Pairs on a GPU; see `bmrm.unsupervised.manifold.passes.ScalingPasses`."""

    def __init__(self, data: PairData, device: int, *, stored: bool = False) -> None:
        for what, values in (("X", data.delta), ("weights", data.weights)):
            there = gpu_of(values)
            if there not in (None, device):
                raise DataError(f"{what}: found an array on GPU {there}, expected one on GPU {device}")
        cuda, ranks = import_cuda(), data.ranks
        self._data, self._there = data, gpu_of(data.delta) is not None
        self._pairs: _cuda.ResidentPairs = cuda.ResidentPairs(
            data.n,
            delta=data.delta,
            weights=data.weights,
            missing=data.missing,
            features=None if data.features is None else np.ascontiguousarray(data.features),
            stored=stored,
            device=device,
            threads=data.threads,
            rows=own_rows(data.n, cuda.scaling_strip_rows(data.n), ranks) if ranks.group else None,
            ranks=ranks,
        )

    def summary(self) -> Summary:
        return Summary(*self._pairs.summary())

    def put(self, values: Vector) -> PointVector:
        return self._pairs.put(values)

    def get(self, vector: PointVector) -> Vector:
        return self._pairs.get(vector)

    def combine(self, vectors: Sequence[PointVector], factors: Sequence[float]) -> PointVector:
        return self._pairs.combine(vectors, factors)

    def inner(self, pairs: Sequence[tuple[PointVector, PointVector]]) -> list[float]:
        found: list[float] = []
        for first in range(0, len(pairs), MAX_PRODUCTS):
            found += self._pairs.products(pairs[first : first + MAX_PRODUCTS])
        return found

    def over_degrees(self, vector: PointVector) -> PointVector:
        return self._pairs.over_degrees(vector)

    def centre(self, vector: PointVector) -> PointVector:
        return self._pairs.centre(vector)

    def descent(self, X: PointVector) -> Descent:
        return Descent(*self._pairs.descent(X, single=self._data.single))

    def laplacian(self, vector: PointVector) -> PointVector:
        return self._pairs.laplacian(vector)

    def squared(self, Y: Vector, unknown: float) -> Vector:
        out = np.empty_like(Y)
        for first in range(0, Y.shape[1], SQUARED_COLUMNS):
            part = slice(first, first + SQUARED_COLUMNS)
            out[:, part] = self.get(self._pairs.squared(self.put(Y[:, part]), unknown))
        return out

    def pulls(self, X: Vector) -> Vector:
        return np.asarray(self.get(self._pairs.pulls(self.put(X)))[:, 0])

    def curvature(self, X: Vector, Y: Vector) -> Vector:
        places = self.put(X)
        return np.array([self.get(self._pairs.curvature(places, self.put(each))) for each in Y])

    def row(self, i: int) -> Vector:
        whole = self._there or self._data.ranks.group is None
        return self._pairs.row(i) if whole else read_row(self._data, i)
