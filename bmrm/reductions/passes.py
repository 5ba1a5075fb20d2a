"""The passes over the rows that k-means needs, wherever the rows are.

`KMeans` talks to `ClusterPasses` only. `HostPasses` runs the compiled loops of ``src_cython/reductions``;
rows on another device implement the same methods.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.io.csr import Csr
from bmrm.reductions._reductions import Clusters

SAMPLED_ROWS = 1024
"""Rows whose mean becomes the origin of packed rows; any point near the data will do."""

FLOAT64_UNIT = 2.0**-53
"""Maximum relative error of an operation in float64."""


KEPT_SUMS_FACTOR = 16
"""Factor in the error of an inertia whose sums are kept from pass to pass (``reductions/kept_moments.h``)."""


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

    def assign(self, centers: Vector, labels: NDArray[np.int32], *, want_sums: bool = True) -> Assignment:
        """Replace the labels of all rows by their nearest centres, ties to the least."""
        ...

    def own_distances(self, centers: Vector, labels: NDArray[np.int32]) -> Vector:
        """Return the squared distance of each row to the centre of its label."""
        ...

    def single_moves(
        self, centers: Vector, labels: NDArray[np.int32], cluster_weights: Vector
    ) -> tuple[int, float]:
        """Return how many rows lower the inertia if they alone change the cluster, and the largest gain."""
        ...

    def potentials(self, candidates: Indices, closest: NDArray[np.float32], *, take: bool = False) -> Vector:
        """Return sums of w min(closest, distance to a candidate row), one per block of `PANEL_ROWS` rows.

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

    def __init__(self, X: Csr | NDArray[Any], weights: Vector | None, threads: int | None) -> None:
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])
        self.weights = weights
        self._X = X
        if isinstance(X, Csr):
            self._clusters = Clusters.sparse(
                X.indptr, X.indices, X.data, self.shape, weights=weights, threads=threads
            )
        else:
            some = X[:: max(1, self.shape[0] // SAMPLED_ROWS)]
            shift = some.mean(axis=0, dtype=np.float64)
            self._clusters = Clusters.dense(X, shift, _scale_of(X, shift), weights=weights, threads=threads)

    def assign(self, centers: Vector, labels: NDArray[np.int32], *, want_sums: bool = True) -> Assignment:
        return Assignment(*self._clusters.assign(centers, labels, want_sums=want_sums))

    def own_distances(self, centers: Vector, labels: NDArray[np.int32]) -> Vector:
        return self._clusters.own_distances(centers, labels)

    def single_moves(
        self, centers: Vector, labels: NDArray[np.int32], cluster_weights: Vector
    ) -> tuple[int, float]:
        return self._clusters.single_moves(centers, labels, cluster_weights)

    def potentials(self, candidates: Indices, closest: NDArray[np.float32], *, take: bool = False) -> Vector:
        return self._clusters.potentials(candidates, closest, take=take)

    def take(self, rows: Indices) -> Vector:
        if isinstance(self._X, Csr):
            return np.asarray(self._X.take(rows).to_scipy(np.float64).toarray())
        return self._X[rows].astype(np.float64)

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        n, d = self.shape
        terms = d + self._clusters.additions + 16
        relative = terms * FLOAT64_UNIT / (1.0 - terms * FLOAT64_UNIT)
        if not isinstance(self._X, Csr):
            return KEPT_SUMS_FACTOR * relative * inertia
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


def _scale_of(X: NDArray[Any], shift: Vector) -> float:
    largest = max(-float(X.min()), float(X.max())) + float(np.abs(shift).max())
    return float(np.ldexp(1.0, -int(np.frexp(largest)[1]))) if largest > 0.0 else 1.0
