"""Disparities: numbers that rise with the dissimilarities and are nearest to the distances.

Only the order of the dissimilarities counts, so they are replaced by their ranks, of which equal ones get
the mean. Disparities have sum w dhat^2 = sum w, or all points would end at one place. Of equal
dissimilarities the disparities may differ (Kruskal's primary approach); unknown ones have none.

J. B. Kruskal, Psychometrika 29 (1964). I. Borg and P. Groenen, Modern Multidimensional Scaling (2005),
chapter 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.pairs.pair_arrays import PairArray
from bmrm.unsupervised.manifold._manifold import fit_disparities
from bmrm.unsupervised.manifold.cpu import HostScalingPasses
from bmrm.unsupervised.manifold.dissimilarities import Dissimilarities
from bmrm.unsupervised.manifold.passes import PairData


class Disparities:
    """Disparities of the pairs, row by row, fitted to one configuration after the other.

    Attributes
    ----------
    values : ndarray, shape (n (n - 1) / 2,)
        NaN for unknown pairs.
    passes : HostScalingPasses
        Over ``values``.
    total : float
        Sum of w dhat^2.
    """

    def __init__(self, data: Dissimilarities) -> None:
        assert data.given is not None
        self._data = data
        delta = data.given.condensed()
        weights = None if data.weights is None else data.weights.condensed()
        known = np.flatnonzero(~np.isnan(delta))
        kind = np.int32 if len(delta) < 2**31 else np.int64
        order: NDArray[Any] = known[np.argsort(delta[known], kind="stable")].astype(kind)
        self.sorted = delta[order]
        """Known dissimilarities in rising order."""
        bounds = np.concatenate([[0], np.flatnonzero(np.diff(self.sorted)) + 1, [len(order)]])
        begins, ends = bounds[:-1], bounds[1:]
        several = ends - begins > 1
        self._order = order
        self._ties = begins[several].astype(np.int64), ends[several].astype(np.int64)
        self._weights = weights
        self.total = float(len(order)) if weights is None else float(weights[known].sum())
        self._distances = np.empty(len(delta))
        self.values = np.full(len(delta), np.nan)
        self.values[order] = np.repeat((begins + ends + 1) / 2.0, ends - begins) if len(order) else 0.0
        if len(order):
            squares = self.values[order] ** 2
            size = squares.sum() if weights is None else weights[order] @ squares
            self.values *= np.sqrt(self.total / size) if size > 0.0 else 1.0
        self._ranks = self.values.copy()
        self.passes = HostScalingPasses(
            PairData(data.n, self.values, None, weights, data.given.missing, data.threads)
        )
        self.passes.summary()

    def forget(self) -> None:
        """Return to the ranks."""
        self.values[:] = self._ranks

    def fit(self, X: Vector) -> None:
        """Fit to the distances of a configuration."""
        self.passes.pairs.distances(X, self._distances)
        fit_disparities(
            self._order,
            *self._ties,
            self._distances,
            self._weights,
            self.total,
            self.values,
            threads=self._data.threads,
        )

    def as_given(self) -> PairArray:
        """Return the present values as dissimilarities."""
        largest = float(np.fmax.reduce(self.values, initial=0.0))
        return PairArray(self.values, self._data.n, largest, bool(np.isnan(self.values).any()))

    def knots(self) -> tuple[Vector, Vector]:
        """Return dissimilarities and disparities between which the function is linear, rising."""
        fitted = self.values[self._order]
        corner = np.ones(len(fitted), bool)
        corner[1:-1] = (fitted[1:-1] != fitted[:-2]) | (fitted[1:-1] != fitted[2:])
        at, value = self.sorted[corner], fitted[corner]
        places, which, counts = np.unique(at, return_inverse=True, return_counts=True)
        return places, np.bincount(which, value, len(places)) / counts
