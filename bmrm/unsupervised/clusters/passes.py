"""The passes over the rows that k-means needs, wherever the rows are.

`KMeans` talks to `ClusterPasses` only. The compiled loops of ``src_cython/clusters`` implement it in
`bmrm.unsupervised.clusters.cpu`, also for rows that several ranks share or that are in a file; rows on a GPU
have the same methods. Values per row, such as labels, stay inside. Row indices count the rows of all
ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector

if TYPE_CHECKING:
    from bmrm.distributed.row_set import RowSet


class Assignment(NamedTuple):
    """What a pass found: for each centre the sum of w (x - centre) over its rows, and their weight."""

    sums: Vector  # empty if they are not wanted
    cluster_weights: Vector
    inertia: float
    changed: int
    rechecked: int


class Farthest(NamedTuple):
    """Rows far from their centres, by descending w |x - c|^2; of equal ones the least row is first."""

    rows: Indices
    labels: NDArray[np.int32]
    weights: Vector
    distances: Vector  # w |x - c|^2


class ClusterPasses(Protocol):
    """Rows with weights, and a label per row. Labels are those of float64, ties to the least.

    Results do not depend on the number of threads.
    """

    shape: tuple[int, int]
    """Number of rows of all ranks, and of columns."""

    def reset(self) -> None:
        """Forget all labels."""
        ...

    def assign(self, centers: Vector, *, want_sums: bool = True) -> Assignment:
        """Label all rows by their nearest centres."""
        ...

    def labels(self) -> NDArray[np.int32]:
        """Return a copy of the labels of the local rows; -1 for rows without one."""
        ...

    def farthest(self, centers: Vector, count: int) -> Farthest:
        """Return up to ``count`` rows that are farthest from the centres of their labels."""
        ...

    def single_moves(self, centers: Vector, cluster_weights: Vector) -> tuple[int, float]:
        """Return how many rows lower the inertia if they alone change the cluster, and the largest gain."""
        ...

    def distances(self, centers: Vector) -> Vector:
        """Return the distances from each row here to all centres, shape (n, k)."""
        ...

    def begin_seeding(self) -> None:
        """Forget all centres of k-means++."""
        ...

    def choose_centers(self, first: int, uniform: Vector) -> Indices | None:
        """Run k-means++ at once, after `begin_seeding`; None if only the single passes below can.

        Parameters
        ----------
        first : int
            Row that is the first centre.
        uniform : ndarray, shape (k - 1, trials)
            Numbers in [0, 1) that draw the candidates for each further centre.

        Returns
        -------
        ndarray of int64 or None
            Rows of the centres, the first one included; fewer than k if all rows are at them.
        """
        ...

    def passes_over(self, rows: RowSet, clusters: int) -> ClusterPasses:
        """Return passes over other rows, few enough for one device, that this process has alone."""
        ...

    def take_center(self, row: int) -> float:
        """Make a row a centre of k-means++; return the potential, a sum of w D^2 in any unit.

        D is the distance to the nearest of the rows that are centres.
        """
        ...

    def potentials(self, candidates: Indices) -> Vector:
        """Return what `take_center` would return for each of some rows, in the same unit."""
        ...

    def draw(self, uniform: Vector) -> Indices:
        """Return a row for each number in [0, 1), with probability proportional to w D^2."""
        ...

    def approach(self, points: Vector) -> float:
        """Measure the rows against further points; return the potential, in the unit of this method.

        D is then the distance to the nearest point since `begin_seeding`, in float64 up to a last rounding.
        """
        ...

    def draw_each(self, expected: float, key: int) -> Indices:
        """Draw each row by itself with probability ``expected`` w D^2 / potential, at most 1; ascending.

        Draws depend on the key and the row index only; see
        `bmrm.unsupervised.clusters.draws.uniform_of_rows`.
        """
        ...

    def nearest_weights(self) -> Vector:
        """Return, for each point that was approached, the weight of the rows that it is nearest to.

        Of equally near points the first counts.
        """
        ...

    def draw_by_weight(self, uniform: Vector) -> Indices:
        """Return a row for each number in [0, 1), with probability proportional to w."""
        ...

    def all_weights(self) -> Vector | None:
        """Return the weights of all rows; None if they are 1."""
        ...

    def take(self, rows: Indices) -> Vector:
        """Return some rows, dense in float64."""
        ...

    def inertia_error(self, centers: Vector, inertia: float) -> float:
        """Bound the rounding error of an inertia that `assign` returned."""
        ...

    def agree(self, status: str) -> str:
        """Return a status that some rank has, the same on all; empty if none has one."""
        ...

    def check_signals(self) -> None:
        """Raise `KeyboardInterrupt` on all ranks if a signal has asked one of them to stop."""
        ...
