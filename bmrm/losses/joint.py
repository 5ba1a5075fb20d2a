"""Losses of margins taken together: what they share.

Their risk is a mean over groups of rows, ``R(u) = sum_g share_g F_g(u)``, or one F of all rows.  F is
convex but no sum over rows: it is found by sorting the margins (``src_cython/joint``).  A row of weight 0
takes no part, as if it were not there; that is how cross validation holds rows out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import dot
from bmrm.errors import ParameterError
from bmrm.losses._joint import JointRisk
from bmrm.losses.base import About, NamedLoss, ValuedRisk, Vector
from bmrm.losses.extent import Extent

Indices = NDArray[np.int64]

GATHERED = "all margins on one rank, 24 bytes per row and pass"
BY_GROUP = "margins of groups on several ranks, 24 bytes per row and pass"
"""What several ranks exchange; `bmrm.linear.backends.ranks.joint` has the way."""


def together(
    formula: str,
    reference: str,
    complexity: str = "O(m log m)",
    *,
    weights: bool = True,
    distributed: str = GATHERED,
) -> About:
    """Tell of a loss of margins taken together: what most of them have in common."""
    return About(
        formula, reference, complexity, "exact, from subgradients", weights, distributed, "all of a pass"
    )


class Members(NamedTuple):
    """The rows that take part, group by group, and their weights."""

    rows: Indices
    starts: Indices
    weights: Vector

    @property
    def group(self) -> Indices:
        """The number of the group of each row here."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def group_weights(self) -> Vector:
        """Mean weight of each group's rows."""
        return np.asarray(np.add.reduceat(self.weights, self.starts[:-1]) / np.diff(self.starts))

    def of_groups(self, kept: NDArray[np.bool_]) -> Members:
        """Return the members of some groups."""
        inside = np.repeat(kept, np.diff(self.starts))
        sizes = np.diff(self.starts)[kept]
        return Members(self.rows[inside], np.append(0, np.cumsum(sizes)), self.weights[inside])


def members(weights: Vector | None, groups: Indices | None, n_samples: int) -> Members:
    """Collect the rows of positive weight, in the order of their groups."""
    rows = np.arange(n_samples) if weights is None else np.flatnonzero(weights > 0.0)
    starts = np.array([0, len(rows)])
    if groups is not None:
        of_row = groups[rows]
        order = np.argsort(of_row, kind="stable")
        rows, of_row = rows[order], of_row[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(of_row)) + 1, [len(rows)]])
    return Members(rows, starts, np.ones(len(rows)) if weights is None else weights[rows])


def levels_within(group: Indices, labels: Vector) -> Indices:
    """Return the rank of each label among the distinct ones of its group, from 0; groups are in order."""
    order = np.lexsort((labels, group))
    in_order, group_in_order = labels[order], group[order]
    opens = np.append(True, np.diff(group_in_order) != 0)
    rank = np.cumsum(opens | np.append(True, np.diff(in_order) != 0)) - 1
    level = np.empty(len(labels), np.int64)
    level[order] = rank - rank[opens][group_in_order]
    return level


def bind(
    kind: str,
    found: Members,
    level: Indices,
    share: Vector,
    *,
    weight: Vector | None = None,
    value: Vector | None = None,
    anchor: Vector | None = None,
    k: int = 1,
    beta: float = 1.0,
    threads: int = 1,
) -> JointRisk:
    """Make the compiled risk, a group's rows by level; arrays that it has no use for are left out."""
    order = np.lexsort((level, found.group))
    unused = np.zeros(len(found.rows))
    return JointRisk(
        kind,
        found.rows[order],
        found.starts,
        level[order],
        unused if weight is None else weight[order],
        unused if value is None else value[order],
        unused if anchor is None else anchor[order],
        share,
        k=k,
        beta=beta,
        threads=threads,
    )


class JointLoss(NamedLoss):
    """A loss of margins taken together; subclasses collect what the compiled risk needs."""

    by_rows = several_cuts = False
    search_slack = 50.0  # a slope sorts all margins, which takes as long as a product

    @property
    def total_slope(self) -> float:
        """Sum of the sizes of the risk's derivatives, at most."""
        return 2.0

    def steepness(self, extent: Extent, risk: float) -> float:
        """Return the sum of the sizes of the derivatives, at most, which is no less than their length."""
        return self.total_slope

    def mass(self, y: Vector, weights: Vector | None) -> float:
        """Return what the risk of these rows weighs in a mean over this part and others; 0: there is none."""
        return float(len(y) > 0)

    @abstractmethod
    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        """Bind the loss to labels and weights."""

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> LineRisk:
        """Bind the loss to labels and weights; ``scale`` plays no part, the risk has one of its own."""
        return LineRisk(self.joint_risk(y, weights, threads), len(y))

    def evaluate(
        self, margins: Vector, y: Vector, weights: Vector | None = None, threads: int = 1
    ) -> tuple[float, Vector]:
        """Return the risk at some margins and a subgradient there.

        Parameters
        ----------
        margins, y : ndarray of float64, shape (m,)
            Labels coded as for `Loss.risk`.
        weights : ndarray of float64, shape (m,), optional
        threads : int, default 1

        Returns
        -------
        risk : float
        subgradient : ndarray of float64, shape (m,)
        """
        z, labels = arguments.margins(margins, y)
        if weights is not None:
            weights = arguments.vector("weights", weights, len(z), each="margin")
            arguments.check_finite("weights", weights)
        r = np.empty_like(z)
        values = self.joint_risk(labels, weights, threads).evaluate(z, z, 0.0, 0.0, r)
        return float(values.sum()), r

    def _rows(self, margins: Vector, y: Vector) -> tuple[Vector, Vector]:
        raise ParameterError(f"loss {self.name}: is no sum over rows; evaluate gives it for all")


class RowBlocks:
    """The number of each row's block, kept: a solve has the same blocks in every pass.

    Parameters
    ----------
    there : callable, optional
        Takes a number of each row to where it is worked on, if that is elsewhere; all processes call at once.
    """

    def __init__(self, there: Callable[[Vector], Vector] | None = None) -> None:
        self._there = there
        self._of: Indices | None = None
        self._numbers = np.empty(0, np.int64)

    def numbers(self, starts: Indices) -> Indices | None:
        """Return them for blocks with these starts; None where there is one block."""
        if len(starts) == 2:
            return None
        if starts is not self._of:
            self._of = starts
            self._numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            if self._there is not None:
                self._numbers = self._there(self._numbers.astype(np.float64)).astype(np.int64)
        return self._numbers


class LineRisk(ValuedRisk):
    """A compiled joint risk as the solver asks for it."""

    def __init__(self, risk: JointRisk, n_samples: int) -> None:
        self._risk, self.size, self._blocks = risk, n_samples, RowBlocks()

    def evaluate(self, z: Vector, dz: Vector, t: float, derivatives: Vector) -> float:
        """Fill in the derivatives; return the risk."""
        return float(self._risk.evaluate(z, dz, t, 0.0, derivatives).sum())

    def along(self, derivatives: Vector, dz: Vector) -> float:
        """Return the slope in a direction."""
        return dot(derivatives, dz)

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Slopes in t and b."""
        r = np.empty(self.size)
        self._risk.evaluate(z, dz, t, b, r)
        return dot(r, dz), float(r.sum())

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        """Risk and slope in b of each block of rows, which no group has rows on both sides of."""
        return self.cut_of_blocks(z, dz, t, b, len(starts) - 1, self._blocks.numbers(starts), r)

    def cut_of_blocks(
        self, z: Vector, dz: Vector, t: float, b: float, blocks: int, block: Indices | None, r: Vector
    ) -> tuple[Vector, Vector]:
        """Risk and slope in b of each block of groups, from the block of each row; None: all are one."""
        values, constants = self._risk.evaluate(z, dz, t, b, r), self._risk.constants
        if block is None:
            self.constants = np.array([constants.sum()])
            return np.array([values.sum()]), np.array([r.sum()])
        parts = self._risk.parts
        of_groups = block[parts["rows"][parts["starts"][:-1]]]
        self.constants = np.bincount(of_groups, constants, blocks).astype(np.float64)
        return (
            np.bincount(of_groups, values, blocks).astype(np.float64),
            np.bincount(block, r, blocks).astype(np.float64),
        )

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        """Refuse: there is none."""
        raise NotImplementedError("a joint loss has no second derivative")
