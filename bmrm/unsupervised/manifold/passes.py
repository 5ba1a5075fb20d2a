"""The passes over the pairs of points that multidimensional scaling needs, wherever the pairs are.

`MDS` and its loops talk to `ScalingPasses` only. Numbers of the points, such as places and directions, stay
with the pairs: the loops combine such vectors and see inner products. `HostScalingPasses` runs the compiled
loops of ``src_cython/manifold``; `bmrm.unsupervised.manifold.gpu` has the same on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.distributed.ranks import ALONE, AllRanks

PointVector = Any
"""Numbers of the points, shape (n, p), that only the passes that made it read."""


class PairData(NamedTuple):
    """Dissimilarities and weights of all pairs of n points, checked.

    Attributes
    ----------
    n : int
    delta, weights : array of float32 or float64, shape (n, n) or (n (n - 1) / 2,), or None
        In main memory or on a GPU. Without weights all are 1.
    features : ndarray, shape (n, m), or None
        In place of ``delta``: rows whose distances are the dissimilarities.
    missing : bool
        Whether some dissimilarities are NaN, which means unknown.
    threads : int, optional
    single : bool
        Whether descents have their terms in float32.
    ranks : AllRanks
        All ranks that share the passes; each has all pairs.
    """

    n: int
    delta: Any
    features: NDArray[Any] | None
    weights: Any
    missing: bool
    threads: int | None
    single: bool = False
    ranks: AllRanks = ALONE


class Summary(NamedTuple):
    """Sums over the pairs.

    Attributes
    ----------
    degrees : ndarray, shape (n,)
        Sum of the weights of the pairs of each point.
    weighted_squares, squares : float
        Sums of w delta^2 and of delta^2.
    known : int
        Number of pairs whose dissimilarity is known.
    """

    degrees: Vector
    weighted_squares: float
    squares: float
    known: int


class Descent(NamedTuple):
    """What a pass finds at a configuration.

    Attributes
    ----------
    direction : PointVector
        Half the negative gradient of the stress.
    stress, squares : float
        Sums of w (delta - d)^2 and of w d^2.
    together : int
        Pairs at one place although w delta > 0. An axis takes the place of their direction.
    """

    direction: PointVector
    stress: float
    squares: float
    together: int


class ScalingPasses(Protocol):
    """Passes over all pairs. Equal calls return equal bits, for any number of ranks that call together.

    All arithmetic is in float64, except that of a descent of `PairData.single`.
    """

    def summary(self) -> Summary:
        """Return sums over the pairs; called once, before all others."""
        ...

    def put(self, values: Vector) -> PointVector:
        """Take numbers of the points, shape (n, p)."""
        ...

    def get(self, vector: PointVector) -> Vector:
        """Return a vector as an array, which is not changed afterwards."""
        ...

    def combine(self, vectors: Sequence[PointVector], factors: Sequence[float]) -> PointVector:
        """Return the sum of factors times vectors."""
        ...

    def inner(self, pairs: Sequence[tuple[PointVector, PointVector]]) -> list[float]:
        """Return inner products of vectors."""
        ...

    def over_degrees(self, vector: PointVector) -> PointVector:
        """Return each point's numbers divided by the sum of its weights."""
        ...

    def centre(self, vector: PointVector) -> PointVector:
        """Return a vector less the mean of all points."""
        ...

    def descent(self, X: PointVector) -> Descent:
        """Compute the stress at a configuration and its gradient."""
        ...

    def laplacian(self, vector: PointVector) -> PointVector:
        """Return the product with the Laplacian V of the weights, of which some are not 1."""
        ...

    def squared(self, Y: Vector, unknown: float) -> Vector:
        """Return the matrix of squared dissimilarities times Y, ``unknown`` taking the place of NaN."""
        ...

    def pulls(self, X: Vector) -> Vector:
        """Return for each point the sum of w delta / d over its pairs, shape (n,)."""
        ...

    def curvature(self, X: Vector, Y: Vector) -> Vector:
        """Return half the Hessian of the stress at X times directions Y, shape (T, n, p)."""
        ...

    def row(self, i: int) -> Vector:
        """Return the dissimilarities of a point to all, NaN for unknown ones, 0 to itself."""
        ...


def inner(a: Vector, b: Vector) -> float:
    """Return the sum of products, in an order that does not depend on the threads of a library."""
    return float(np.einsum("ik,ik->", a, b))
