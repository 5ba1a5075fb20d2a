"""Dissimilarities of all pairs of points with their weights, and the passes over them.

They are given, or the distances of rows of features, which each pass computes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.distinct import distinct_values
from bmrm.base.estimator import words_for_scikit_learn
from bmrm.base.vectors import Vector
from bmrm.base.weighting import multiply_weights
from bmrm.distributed.ranks import ALONE, AllRanks
from bmrm.distributed.reading import read_here, read_row_set
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.device_arrays import read_back
from bmrm.matrix.gpu.work import Work
from bmrm.pairs.pair_arrays import PairArray, read_pairs, read_resident_pairs
from bmrm.unsupervised.manifold._manifold import Pairs
from bmrm.unsupervised.manifold.cpu import HostScalingPasses
from bmrm.unsupervised.manifold.gpu import passes_on
from bmrm.unsupervised.manifold.passes import PairData, ScalingPasses
from bmrm.unsupervised.manifold.work import MAX_RECOMPUTED_FEATURES, scaling_work
from bmrm.unsupervised.scales import (
    ORDINARY_EXPONENT,
    ORDINARY_WEIGHT_EXPONENT,
    exponent_to_one,
    too_far_apart,
)

UNSCALED = (1e-100, 1e100)
"""Other dissimilarities are multiplied by a power of two, so that squares do not vanish or overflow."""

SINGLE_UNSCALED = (1e-6, 1e9)
"""The same if squares are in float32."""

MAX_EXPONENT = 1000
"""Exponent of the largest factor; it is a number of float64."""


class Dissimilarities:
    """Dissimilarities with weights, and sums over the pairs.

    Attributes
    ----------
    n : int
    passes : ScalingPasses
        In units of ``scale``.
    scale, weight_scale : float
        Powers of two: a dissimilarity of the passes is ``scale`` times that of the user, a weight
        ``weight_scale`` times.
    weighted : bool
        Whether some pair has a weight other than 1.
    degrees : ndarray, shape (n,)
        Sum of the weights of the pairs of each point.
    weighted_squares : float
        Sum of w delta^2.
    typical : float
        Root mean square of the known dissimilarities.
    single : bool
        Whether descents have their terms in float32.
    ranks : AllRanks
        Those that share the passes.
    """

    def __init__(
        self,
        *,
        given: PairArray | None = None,
        features: NDArray[Any] | None = None,
        weights: PairArray | None = None,
        threads: int | None = None,
        passes_of: Callable[[PairData], ScalingPasses] = HostScalingPasses,
        scale: float = 1.0,
        single: bool = False,
        ranks: AllRanks = ALONE,
    ) -> None:
        self.single, self.ranks = single, ranks
        unscaled = SINGLE_UNSCALED if single else UNSCALED
        if given is not None:
            self.n = given.n
            more, values = within_range(given.values, given.largest, unscaled)
            given = PairArray(values, given.n, given.largest * more, given.missing)
            self.scale = scale * more
        else:
            assert features is not None
            self.n = len(features)
            more, features = features_within_range(features, unscaled)
            self.scale = scale * more
        if weights is not None and weights.n != self.n:
            raise DataError(f"weights: found {weights.n} rows, expected {self.n}, one per point")
        self.weight_scale = 1.0
        if weights is not None:
            self.weight_scale, weights = _weights_within_range(weights)
        self.given, self.features, self.weights, self.threads = given, features, weights, threads
        self.weighted = weights is not None or (given is not None and given.missing)
        delta = None if given is None else given.values
        w = None if weights is None else weights.values
        missing = given is not None and given.missing
        with ranks.together():
            self.passes = passes_of(PairData(self.n, delta, features, w, missing, threads, single, ranks))
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
        groups = len(distinct_values(labels))
        if groups > 1:
            raise DataError(
                f"X: found {groups} groups of points that no known pair of positive weight connects, "
                "expected one"
            )


@dataclass(frozen=True)
class Metric:
    """What makes dissimilarities of rows: "euclidean", or a metric of SciPy with its options."""

    name: Any
    options: Mapping[str, Any] | None = None

    def check(self) -> None:
        """Raise `ParameterError` for what is no metric."""
        if not isinstance(self.name, str) and not callable(self.name):
            hint = "; metric_mds chooses between metric and ordinal scaling"
            raise ParameterError(
                f"metric: found {self.name!r}, expected a name or a callable"
                f"{hint if isinstance(self.name, bool) else ''}"
            )
        if self.options is not None and not isinstance(self.options, Mapping):
            raise ParameterError(f"metric_params: found {self.options!r}, expected a dict or None")

    def among(self, rows: NDArray[Any], threads: int | None) -> tuple[float, PairArray]:
        """Compute those of all pairs, times a power of two, which is returned first."""
        scale = 1.0
        if self.name == "euclidean":
            scale, rows = features_within_range(rows)
            pairs = Pairs.of_features(rows, threads=threads)
            delta = pairs.distances(np.asarray(rows, np.float64))
        else:
            from scipy.spatial.distance import pdist

            try:
                delta = np.asarray(pdist(rows, self.name, **(self.options or {})), np.float64)
            except (TypeError, ValueError) as error:
                raise ParameterError(f"metric: {error}") from None
        return scale, read_pairs("X", delta, nan_allowed=False, diagonal=True, threads=threads)

    def between(self, rows: NDArray[Any], points: NDArray[Any]) -> Vector:
        """Compute those of rows to points."""
        from scipy.spatial.distance import cdist

        if self.name != "euclidean":
            return np.asarray(cdist(rows, points, self.name, **(self.options or {})), np.float64)
        largest = max(float(np.abs(each).max(initial=0.0)) for each in (rows, points))
        exponent = exponent_to_one(largest, ORDINARY_EXPONENT)
        if not exponent:
            return np.asarray(cdist(rows, points), np.float64)
        found = cdist(np.ldexp(rows, exponent), np.ldexp(points, exponent))
        return np.asarray(np.ldexp(found, -exponent))


@dataclass(frozen=True)
class Proximities:
    """What a user gives for scaling: dissimilarities of all pairs, or rows of features and a metric."""

    n: int
    features: int | None  # their number; None if dissimilarities are given
    value_bytes: int
    metric: Metric
    given: PairArray | None = None
    rows: NDArray[Any] | None = None
    ranks: AllRanks = ALONE

    def work(self, p: int, passes: int, threads: int | None, *, single: bool) -> Work:
        """Predict the work of scaling to p dimensions."""
        m = self.features
        return scaling_work(
            self.n,
            p,
            passes=passes,
            features=m if m is not None and m <= MAX_RECOMPUTED_FEATURES else None,
            value_bytes=self.value_bytes,
            square=self.given is not None and self.given.values.ndim == 2,
            threads=threads,
            ranks=self.ranks.ranks,
            single=single,
        )

    def opened(
        self,
        weights: Any,
        gpu: int | None,
        *,
        stored: bool,
        threads: int | None,
        single: bool = False,
    ) -> Dissimilarities:
        """Put pairs where the passes run; ``stored`` means that distances of features are computed once."""
        w, given, scale, ranks = None, self.given, 1.0, self.ranks
        if weights is not None:
            read = read_pairs if gpu is None else read_resident_pairs
            w = read("weights", weights, nan_allowed=False, diagonal=False, threads=threads, ranks=ranks)
        if stored and (gpu is None or self.metric.name != "euclidean"):
            assert self.rows is not None
            with ranks.together():
                scale, given = self.metric.among(self.rows, threads)
        passes_of = HostScalingPasses if gpu is None else passes_on(gpu, stored=stored)
        source: dict[str, Any] = {"features": self.rows} if given is None else {"given": given}
        return Dissimilarities(
            **source, weights=w, threads=threads, passes_of=passes_of, scale=scale, single=single, ranks=ranks
        )


def read_proximities(X: Any, metric: Metric, threads: int | None, ranks: AllRanks = ALONE) -> Proximities:
    """Validate what a user gives; for the metric "precomputed" it is dissimilarities.

    Ranks have all dissimilarities each, or each has some of the rows.
    """
    if metric.name == "precomputed":
        with words_for_scikit_learn(X):
            given = read_resident_pairs("X", X, nan_allowed=True, diagonal=True, threads=threads, ranks=ranks)
        return Proximities(given.n, None, given.values.dtype.itemsize, metric, given=given, ranks=ranks)
    if ranks.group is None:
        found = RowSet(read_here(read_back(X)))
    else:
        with ranks.together():
            X = read_back(X)
        found = read_row_set(X, comm=ranks.group)
    if found.sparse:
        raise DataError("X: found sparse rows, expected a dense matrix, or dissimilarities of the rows")
    rows, value_bytes = found.X[:], max(found.everyones(found.X.value_bytes))
    if ranks.group is not None:
        rows = found.take(np.arange(found.shape[0])).astype(np.float32 if value_bytes == 4 else np.float64)
    return Proximities(*found.shape, value_bytes, metric, rows=rows, ranks=ranks)


def within_range(values: Any, largest: float, unscaled: tuple[float, float] = UNSCALED) -> tuple[float, Any]:
    """Return a power of two, and the values times it: 1 and the same array if squares are safe."""
    least, most = unscaled
    if largest == 0.0 or least <= largest <= most:
        return 1.0, values
    if not isinstance(values, np.ndarray):
        raise DataError(
            f"X: found a largest dissimilarity of {largest:.3g} on a GPU, expected {least:g} to {most:g}"
        )
    exponent = min(-int(np.frexp(largest)[1]), MAX_EXPONENT)
    return float(np.ldexp(1.0, exponent)), np.ldexp(values.astype(np.float64), exponent)


def features_within_range(
    features: NDArray[Any], unscaled: tuple[float, float] = UNSCALED
) -> tuple[float, NDArray[Any]]:
    """Do the same with rows whose distances are dissimilarities."""
    found: tuple[float, NDArray[Any]] = within_range(
        features, max(-float(features.min()), float(features.max())), unscaled
    )
    return found


def _weights_within_range(weights: PairArray) -> tuple[float, PairArray]:
    """Return a power of two, and the weights times it: 1 and the same if products with them are safe."""
    exponent = max(
        -MAX_EXPONENT, min(MAX_EXPONENT, exponent_to_one(weights.largest, ORDINARY_WEIGHT_EXPONENT))
    )
    if not exponent:
        return 1.0, weights
    if not isinstance(weights.values, np.ndarray):
        least, most = (f"{2.0**e:.0e}" for e in (-ORDINARY_WEIGHT_EXPONENT, ORDINARY_WEIGHT_EXPONENT))
        raise DataError(
            f"weights: found a largest one of {weights.largest:.3g} on a GPU, expected {least} to {most}"
        )
    values, lost = multiply_weights(weights.values, exponent)
    if lost < np.inf:
        raise too_far_apart("weights", lost, weights.largest)
    scale = float(np.ldexp(1.0, exponent))
    return scale, PairArray(values, weights.n, weights.largest * scale, weights.missing)
