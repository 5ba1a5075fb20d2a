"""The passes over the rows that `GaussianMixture` needs, wherever the rows are."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bmrm.base.vectors import Vector
from bmrm.unsupervised.clusters.passes import ClusterPasses
from bmrm.unsupervised.decomposition.scatter import Scatter


class MixtureSums(NamedTuple):
    """Sums of a step of EM over all rows, for each component; r is its share in a row."""

    log_likelihood: float
    weights: Vector  # of w r
    first: Vector  # of w r (x - mean)
    second: Vector  # of w r (x - mean) (x - mean)', lower triangles or diagonals


class MixturePasses(Protocol):
    """Dense rows with weights. All is in float64, and does not depend on the number of threads."""

    shape: tuple[int, int]
    """Number of rows of all ranks, and of columns."""
    total_weight: float

    def step(self, means: Vector, roots: Vector, constants: Vector) -> MixtureSums:
        """Run an E step and sum what the M step needs.

        The log density of component j at x is ``constants[j] - |roots[j] (x - means[j])|^2 / 2``; roots are
        lower triangles, shape (k, d, d), or diagonals, shape (k, d).
        """
        ...

    def shares(self, means: Vector, roots: Vector, constants: Vector) -> tuple[Vector, Vector]:
        """Return the log densities of the local rows, shape (n,), and the shares of components, (n, k)."""
        ...

    def scatter(self) -> Scatter:
        """Return the scatter matrix of all rows about their mean."""
        ...

    def cluster_moments(self, centers: Vector, *, full: bool) -> MixtureSums:
        """Return the sums of a step in which each row is in the cluster of its nearest centre alone."""
        ...

    def clusters(self) -> ClusterPasses:
        """Return the passes of k-means over the same rows."""
        ...

    def agree(self, status: str) -> str:
        """Return a status that some rank has, the same on all; empty if none has one."""
        ...
