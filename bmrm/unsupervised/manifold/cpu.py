"""The passes over pairs in main memory, by the compiled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.distributed.rows import is_mapped
from bmrm.unsupervised.manifold._manifold import Pairs
from bmrm.unsupervised.manifold.passes import Descent, PairData, PointVector, Summary, inner


class HostScalingPasses:
    """Pairs in main memory, by the compiled loops; see `ScalingPasses`."""

    def __init__(self, data: PairData) -> None:
        self._data = data
        if data.features is not None:
            self.pairs = Pairs.of_features(data.features, weights=data.weights, threads=data.threads)
        else:
            self.pairs = Pairs.given(
                data.delta, data.n, weights=data.weights, missing=data.missing, threads=data.threads
            )

        self._descents = self._rounded() if data.single else self.pairs
        if data.ranks.group is not None:
            for pairs in {id(each): each for each in (self.pairs, self._descents)}.values():
                pairs.share(data.ranks.rank, data.ranks.ranks, data.ranks.in_turn)

    def _rounded(self) -> Pairs:
        """Return the pairs with dissimilarities in float32; passes round those in a mapped file."""
        n, delta, *_ = self._data
        if delta is None or delta.dtype == np.float32 or is_mapped(delta):
            return self.pairs
        rounded = np.empty(n * (n - 1) // 2, np.float32)
        if delta.ndim == 1:
            rounded[:] = delta
        else:
            ends = np.cumsum(np.arange(n - 1, 0, -1))
            for i, end in enumerate(ends.tolist()):
                rounded[end - (n - 1 - i) : end] = delta[i, i + 1 :]
        weights, missing, threads = self._data.weights, self._data.missing, self._data.threads
        return Pairs.given(rounded, n, weights=weights, missing=missing, threads=threads)

    def summary(self) -> Summary:
        found = Summary(*self.pairs.summary())
        self._degrees = found.degrees[:, None]
        return found

    def put(self, values: Vector) -> PointVector:
        return values

    def get(self, vector: PointVector) -> Vector:
        return np.asarray(vector)

    def combine(self, vectors: Sequence[PointVector], factors: Sequence[float]) -> PointVector:
        out = factors[0] * vectors[0]
        for vector, factor in zip(vectors[1:], factors[1:], strict=True):
            out += factor * vector
        return out

    def inner(self, pairs: Sequence[tuple[PointVector, PointVector]]) -> list[float]:
        return [inner(a, b) for a, b in pairs]

    def over_degrees(self, vector: PointVector) -> PointVector:
        return vector / self._degrees

    def centre(self, vector: PointVector) -> PointVector:
        return vector - vector.mean(axis=0)

    def descent(self, X: PointVector) -> Descent:
        return Descent(*self._descents.descent(X, single=self._data.single))

    def laplacian(self, vector: PointVector) -> PointVector:
        return self.pairs.laplacian(vector)

    def squared(self, Y: Vector, unknown: float) -> Vector:
        return self.pairs.squared(Y, unknown)

    def pulls(self, X: Vector) -> Vector:
        return self.pairs.pulls(X)

    def curvature(self, X: Vector, Y: Vector) -> Vector:
        return self.pairs.curvature(X, Y)

    def row(self, i: int) -> Vector:
        return read_row(self._data, i)


def read_row(data: PairData, i: int) -> Vector:
    """Return the dissimilarities of a point to all, of numbers or features in main memory."""
    n, delta, features = data.n, data.delta, data.features
    if delta is None:
        from scipy.spatial.distance import cdist

        assert features is not None
        return np.asarray(cdist(features[i : i + 1], features)[0])
    if delta.ndim == 2:
        return np.asarray(delta[i], np.float64)
    out = np.zeros(n)
    before = np.arange(i)
    first = i * (2 * n - i - 1) // 2
    out[i + 1 :] = delta[first : first + n - 1 - i]
    out[:i] = delta[before * (2 * n - before - 1) // 2 + i - before - 1]
    return out
