"""Dissimilarities of all pairs of points with their weights, and the passes over them.

They are given, or the distances of rows of features, which each pass computes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE
from bmrm.reductions.pair_arrays import PairArray
from bmrm.reductions.pair_passes import HostPasses, PairData, PairPasses

MIN_UNSCALED = 1e-100
"""Smaller dissimilarities are multiplied by a power of two, so that their squares do not vanish."""

MAX_UNSCALED = 1e100
"""Larger ones, so that sums of squares do not overflow."""


class Dissimilarities:
    """Dissimilarities with weights, and sums over the pairs.

    Attributes
    ----------
    n : int
    passes : PairPasses
        In units of ``scale``.
    scale : float
        A power of two: a dissimilarity of the passes is ``scale`` times that of the user.
    weighted : bool
        Whether some pair has a weight other than 1.
    degrees : ndarray, shape (n,)
        Sum of the weights of the pairs of each point.
    weighted_squares : float
        Sum of w delta^2.
    typical : float
        Root mean square of the known dissimilarities.
    """

    def __init__(
        self,
        *,
        given: PairArray | None = None,
        features: NDArray[Any] | None = None,
        weights: PairArray | None = None,
        threads: int | None = None,
        passes_of: Callable[[PairData], PairPasses] = HostPasses,
    ) -> None:
        if given is not None:
            self.n = given.n
            self.scale, values = _within_range(given.values, given.largest)
            given = PairArray(values, given.n, given.largest * self.scale, given.missing)
        else:
            assert features is not None
            self.n = len(features)
            largest = max(-float(features.min()), float(features.max()))
            self.scale, features = _within_range(features, largest)
        if weights is not None and weights.n != self.n:
            raise DataError(f"weights: found {weights.n} rows, expected {self.n}, one per point")
        if weights is not None and weights.largest > MAX_ABSOLUTE_VALUE:
            raise DataError(f"weights: found {weights.largest:.3g}, expected at most {MAX_ABSOLUTE_VALUE:g}")
        self.given, self.features, self.weights, self.threads = given, features, weights, threads
        self.weighted = weights is not None or (given is not None and given.missing)
        delta = None if given is None else given.values
        w = None if weights is None else weights.values
        missing = given is not None and given.missing
        self.passes = passes_of(PairData(self.n, delta, features, w, missing, threads))
        self.degrees, self.weighted_squares, squares, known = self.passes.summary()
        self.typical = float(np.sqrt(squares / known)) if known else 0.0
        if self.weighted:
            self._check_connected()

    def _check_connected(self) -> None:
        """Raise if the known pairs fall apart: the places of such groups do not depend on each other."""
        labels = np.arange(self.n)
        for i in range(self.n - 1):
            known = np.ones(self.n - 1 - i, bool)
            if self.weights is not None:
                known &= self.weights.upper(i) > 0.0
            if self.given is not None and self.given.missing:
                known &= ~np.isnan(self.given.upper(i))
            joined = np.union1d(labels[i + 1 :][known], labels[i : i + 1])
            if len(joined) > 1:
                labels[np.isin(labels, joined)] = joined[0]
                if not labels.any():
                    return
        groups = len(np.unique(labels))
        if groups > 1:
            raise DataError(
                f"X: found {groups} groups of points that no known pair of positive weight connects, "
                "expected one"
            )


def _within_range(values: Any, largest: float) -> tuple[float, Any]:
    """Return a power of two, and the values times it: 1 and the same array if squares are safe."""
    if largest == 0.0 or MIN_UNSCALED <= largest <= MAX_UNSCALED:
        return 1.0, values
    if not isinstance(values, np.ndarray):
        raise DataError(
            f"X: found a largest dissimilarity of {largest:.3g} on a GPU, expected {MIN_UNSCALED:g} to "
            f"{MAX_UNSCALED:g}"
        )
    exponent = min(-int(np.frexp(largest)[1]), 1000)  # 2^1000 is finite
    return float(np.ldexp(1.0, exponent)), np.ldexp(values.astype(np.float64), exponent)
