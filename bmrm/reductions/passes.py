"""The passes over the rows that k-means needs, wherever the rows are.

`KMeans` talks to `ClusterPasses` only. `HostPasses` runs the compiled loops of ``src_cython/reductions``;
rows on another device implement the same methods.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.io.csr import Csr
from bmrm.reductions._reductions import PANEL_ROWS, Clusters

SAMPLED_ROWS = 1024
"""Rows whose mean becomes the origin of packed rows; any point near the data will do."""

FLOAT64_UNIT = 2.0**-53
"""Maximum relative error of an operation in float64."""


Column: TypeAlias = Any
"""One number per row wherever the rows are: labels or squared distances."""


class Assignment(NamedTuple):
    """What a pass found: for each centre the sum of w (x - centre) over its rows, and their weight."""

    sums: Vector
    cluster_weights: Vector
    inertia: float
    changed: int
    rechecked: int


class ClusterPasses(Protocol):
    """Rows with weights. Labels are those of float64; results do not depend on the number of threads."""

    shape: tuple[int, int]
    weights: Vector | None
    panel_rows: int
    """Number of rows of which `potentials` returns one sum."""

    def new_labels(self) -> Column:
        """Return labels, all -1."""
        ...

    def read_labels(self, labels: Column) -> NDArray[np.int32]:
        """Return labels in main memory."""
        ...

    def assign(self, centers: Vector, labels: Column, *, want_sums: bool = True) -> Assignment:
        """Replace the labels of all rows by their nearest centres, ties to the least."""
        ...

    def own_distances(self, centers: Vector, labels: Column) -> Vector:
        """Return the squared distance of each row to the centre of its label."""
        ...

    def single_moves(self, centers: Vector, labels: Column, cluster_weights: Vector) -> tuple[int, float]:
        """Return how many rows lower the inertia if they alone change the cluster, and the largest gain."""
        ...

    def distances(self, centers: Vector) -> Vector:
        """Return the distances from each row to all centres, shape (n, k)."""
        ...

    def new_distances(self) -> Column:
        """Return squared distances to the nearest centre, all infinite."""
        ...

    def read_distances(self, closest: Column, first: int, last: int) -> NDArray[np.float32]:
        """Return the squared distances of some rows in main memory."""
        ...

    def potentials(self, candidates: Indices, closest: Column, *, take: bool = False) -> Vector:
        """Return sums of w min(closest, distance to a candidate row), one per `panel_rows` rows.

        The unit of distances is any. With ``take``, the only candidate becomes a centre.
        """
        ...

    def take(self, rows: Indices) -> Vector:
        """Return some rows, dense in float64."""
        ...

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        """Bound the rounding error of an inertia that `assign` returned."""
        ...


class HostPasses:
    """Rows in main memory, by the compiled loops; see `ClusterPasses`."""

    panel_rows = PANEL_ROWS

    def __init__(self, X: Csr | NDArray[Any], weights: Vector | None, threads: int | None) -> None:
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])
        self.weights = weights
        self._X = X
        if isinstance(X, Csr):
            self._clusters = Clusters.sparse(
                X.indptr, X.indices, X.data, self.shape, weights=weights, threads=threads
            )
        else:
            shift = sampled_mean(X)
            largest = max(-float(X.min()), float(X.max()))
            self._clusters = Clusters.dense(
                X, shift, scale_of(largest, shift), weights=weights, threads=threads
            )

    def new_labels(self) -> NDArray[np.int32]:
        return np.full(self.shape[0], -1, np.int32)

    def read_labels(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        return labels

    def assign(self, centers: Vector, labels: NDArray[np.int32], *, want_sums: bool = True) -> Assignment:
        return Assignment(*self._clusters.assign(centers, labels, want_sums=want_sums))

    def own_distances(self, centers: Vector, labels: NDArray[np.int32]) -> Vector:
        return self._clusters.own_distances(centers, labels)

    def single_moves(
        self, centers: Vector, labels: NDArray[np.int32], cluster_weights: Vector
    ) -> tuple[int, float]:
        return self._clusters.single_moves(centers, labels, cluster_weights)

    def distances(self, centers: Vector) -> Vector:
        from scipy.spatial.distance import cdist

        if not isinstance(self._X, Csr):
            return np.asarray(cdist(self._X, centers))
        sparse = self._X.to_scipy(np.float64)
        squares = np.asarray(sparse.multiply(sparse).sum(axis=1)) + np.einsum("jf,jf->j", centers, centers)
        return np.asarray(np.sqrt(np.maximum(squares - 2.0 * (sparse @ centers.T), 0.0)))

    def new_distances(self) -> NDArray[np.float32]:
        return np.full(self.shape[0], np.inf, np.float32)

    def read_distances(self, closest: NDArray[np.float32], first: int, last: int) -> NDArray[np.float32]:
        return closest[first:last]

    def potentials(self, candidates: Indices, closest: NDArray[np.float32], *, take: bool = False) -> Vector:
        return self._clusters.potentials(candidates, closest, take=take)

    def take(self, rows: Indices) -> Vector:
        if isinstance(self._X, Csr):
            return np.asarray(self._X.take(rows).to_scipy(np.float64).toarray())
        return self._X[rows].astype(np.float64)

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        n, d = self.shape
        # Longest chain of additions: the features of a row, the rows of a panel, the panels of all parts.
        terms = d + PANEL_ROWS + n // PANEL_ROWS + 16
        relative = terms * FLOAT64_UNIT / (1.0 - terms * FLOAT64_UNIT)
        if not isinstance(self._X, Csr):
            return relative * inertia
        # |x|^2 - 2 x.c + |c|^2 cancels: its error is relative to the terms.
        squares = _row_squares(self._X)
        total = n if self.weights is None else self.weights.sum()
        size = squares.sum() if self.weights is None else squares @ self.weights
        return relative * float(
            inertia + 4.0 * (size + total * np.einsum("jf,jf->j", centers, centers).max())
        )


def _row_squares(X: Csr) -> Vector:
    values = np.ones(X.nnz) if X.data is None else X.data.astype(np.float64) ** 2
    return np.add.reduceat(np.append(values, 0.0), X.indptr[:-1]) * (np.diff(X.indptr) > 0)


def sampled_mean(X: NDArray[Any]) -> Vector:
    """Return the mean of some rows, a point near the data."""
    some = X[:: max(1, len(X) // SAMPLED_ROWS)]
    return np.asarray(some.mean(axis=0, dtype=np.float64))


def scale_of(largest: float, shift: Vector) -> float:
    """Return the power of two by which rows of values up to ``largest`` become at most 1 after a shift."""
    widest = largest + float(np.abs(shift).max())
    return float(np.ldexp(1.0, -int(np.frexp(widest)[1]))) if widest > 0.0 else 1.0
