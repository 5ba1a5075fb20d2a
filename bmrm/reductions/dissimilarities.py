"""Dissimilarities of all pairs of points with their weights: checks of what users pass, and the passes.

They are a square matrix, of which the upper triangle is read, that triangle row by row as SciPy's ``pdist``
returns it, or the distances of rows of features, which each pass computes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.reductions._reductions import Pairs, inspect_pairs
from bmrm.reductions.estimator import MAX_ABSOLUTE_VALUE

MAX_ASYMMETRY = {4: 1e-5, 8: 1e-10}
"""Maximum difference of the entries of a pair, as a share of the largest entry, by the bytes of a value."""

MIN_UNSCALED = 1e-100
"""Smaller dissimilarities are multiplied by a power of two, so that their squares do not vanish."""

MAX_UNSCALED = 1e100
"""Larger ones, so that sums of squares do not overflow."""


@dataclass(frozen=True)
class PairArray:
    """One number per pair.

    Attributes
    ----------
    values : ndarray of float32 or float64, shape (n, n) or (n (n - 1) / 2,)
    n : int
    largest : float
    missing : bool
        Whether some are NaN.
    """

    values: NDArray[Any]
    n: int
    largest: float
    missing: bool

    def upper(self, i: int) -> NDArray[Any]:
        """Return the numbers of the pairs of a row with later ones."""
        if self.values.ndim == 2:
            return self.values[i, i + 1 :]
        first = i * (2 * self.n - i - 1) // 2
        return self.values[first : first + self.n - 1 - i]

    def condensed(self) -> Vector:
        """Return the upper triangle row by row in float64, as a copy."""
        if self.values.ndim == 1:
            return self.values.astype(np.float64)
        out = np.empty(self.n * (self.n - 1) // 2)
        made = PairArray(out, self.n, self.largest, self.missing)
        for i in range(self.n - 1):
            made.upper(i)[:] = self.upper(i)
        return out

    def rows(self, indices: Indices) -> Vector:
        """Return all numbers of some rows in float64, 0 for a row with itself."""
        if self.values.ndim == 2:
            return self.values[indices].astype(np.float64)
        out = np.zeros((len(indices), self.n))
        others = np.arange(self.n)
        for row, i in zip(out, indices.tolist(), strict=True):
            row[i + 1 :] = self.upper(i)
            row[:i] = self.values[others[:i] * (2 * self.n - others[:i] - 1) // 2 + i - others[:i] - 1]
        return out


def read_pairs(what: str, given: Any, *, nan_allowed: bool, diagonal: bool, threads: int | None) -> PairArray:
    """Validate numbers of pairs: at least 0, finite, symmetric.

    - ``nan_allowed``: NaN means unknown
    - ``diagonal``: the diagonal must be 0; otherwise it is not looked at
    """
    if arguments.is_sparse(given):
        raise DataError(f"{what}: found a sparse matrix, expected a dense one or its upper triangle")
    found = arguments.array(what, given, expected="numbers of pairs")
    if found.ndim == 1:
        found = found if found.dtype == np.float32 else arguments.numbers(what, found)
        n = (1 + int(np.sqrt(1.0 + 8.0 * len(found)) + 0.5)) // 2
        if n * (n - 1) // 2 != len(found):
            raise DataError(f"{what}: found {len(found)} numbers, expected n (n - 1) / 2 for n points")
    else:
        found = arguments.matrix(what, given)
        n = len(found)
        if found.shape != (n, n) or n == 0:
            raise DataError(
                f"{what}: found shape {found.shape}, expected a square matrix with at least 1 row"
            )
    if found.ndim == 2 and found.flags.f_contiguous:
        found = found.T  # it should be symmetric
    values = np.ascontiguousarray(found)
    largest = float(np.fmax.reduce(values, axis=None, initial=0.0))
    defect, row, column, value, other, _, missing = inspect_pairs(
        values,
        n,
        nan_allowed=nan_allowed,
        diagonal=diagonal,
        tolerance=MAX_ASYMMETRY[values.itemsize] * largest if largest < np.inf else 0.0,
        threads=threads,
    )
    if defect:
        at = f"{what}: row {row + 1}, column {column + 1} has {value:g}"
        raise DataError(
            {
                "negative": f"{at}, expected at least 0",
                "infinite": f"{at}, expected a finite number",
                "asymmetric": f"{at}, and row {column + 1}, column {row + 1} has {other:g}: "
                "expected a symmetric matrix",
                "diagonal": f"{at}, expected 0 on the diagonal",
                "missing": f"{at}, expected a number",
            }[defect]
        )
    return PairArray(values, n, largest, missing)


class Dissimilarities:
    """Dissimilarities with weights, and sums over the pairs.

    Attributes
    ----------
    n : int
    pairs : Pairs
        The compiled passes; in units of ``scale``.
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
        w = None if weights is None else weights.values
        if given is not None:
            self.pairs = Pairs.given(given.values, self.n, weights=w, missing=given.missing, threads=threads)
        else:
            assert features is not None
            self.pairs = Pairs.of_features(features, weights=w, threads=threads)
        self.degrees, self.weighted_squares, squares, known = self.pairs.summary()
        self.typical = float(np.sqrt(squares / known)) if known else 0.0
        if self.weighted:
            self._check_connected()

    def rows(self, indices: Indices) -> Vector:
        """Return the dissimilarities of some points to all, NaN for unknown ones."""
        if self.given is not None:
            return self.given.rows(indices)
        from scipy.spatial.distance import cdist

        assert self.features is not None
        return np.asarray(cdist(self.features[indices], self.features))

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


def _within_range(values: NDArray[Any], largest: float) -> tuple[float, NDArray[Any]]:
    """Return a power of two, and the values times it: 1 and the same array if squares are safe."""
    if largest == 0.0 or MIN_UNSCALED <= largest <= MAX_UNSCALED:
        return 1.0, values
    exponent = min(-int(np.frexp(largest)[1]), 1000)  # 2^1000 is finite
    return float(np.ldexp(1.0, exponent)), np.ldexp(values.astype(np.float64), exponent)
