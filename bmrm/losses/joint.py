"""The common part of joint losses: losses of the margins of many rows together.

Their risk is a mean over groups of rows, ``R(u) = sum_g share_g F_g(u)``, or one F of all rows.  F is
convex but not a sum over rows: it is computed by sorting the margins (``src_cython/joint``).  A row of weight
0 takes no part, as if it were absent; this is how cross validation holds rows out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Indices, Vector, dot
from bmrm.errors import ParameterError
from bmrm.losses._joint import JointRisk
from bmrm.losses.base import About, NamedLoss, ValuedRisk
from bmrm.losses.extent import Extent

GATHERED_MARGINS = "all margins on one rank, 24 bytes per row and pass"
"""Communication between ranks if every margin matters to every other (`bmrm.linear.backends.ranks.joint`)."""

GATHERED_GROUPS = "margins of groups split over ranks, 24 bytes per row and pass"
"""Communication between ranks if only margins of the same group matter to each other."""


def about_joint_loss(
    formula: str,
    reference: str,
    complexity: str = "O(m log m)",
    *,
    weights: bool = True,
    distributed: str = GATHERED_MARGINS,
) -> About:
    """Describe a joint loss, with what most of them have in common."""
    return About(
        formula, reference, complexity, "exact, from subgradients", weights, distributed, "all of a pass"
    )


class Members(NamedTuple):
    """The rows that take part, ordered by group, and their weights."""

    rows: Indices
    starts: Indices
    weights: Vector

    @property
    def group(self) -> Indices:
        """The group of each row, numbered in the order of ``starts``."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def group_weights(self) -> Vector:
        """The mean row weight of each group."""
        return np.asarray(np.add.reduceat(self.weights, self.starts[:-1]) / np.diff(self.starts))

    def select_groups(self, kept: NDArray[np.bool_]) -> Members:
        """Return the members of the groups for which ``kept`` is true."""
        inside = np.repeat(kept, np.diff(self.starts))
        sizes = np.diff(self.starts)[kept]
        return Members(self.rows[inside], np.append(0, np.cumsum(sizes)), self.weights[inside])


def collect_members(weights: Vector | None, groups: Indices | None, n_samples: int) -> Members:
    """Collect the rows of positive weight, ordered by group."""
    rows = np.arange(n_samples) if weights is None else np.flatnonzero(weights > 0.0)
    starts = np.array([0, len(rows)])
    if groups is not None:
        of_row = groups[rows]
        order = np.argsort(of_row, kind="stable")
        rows, of_row = rows[order], of_row[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(of_row)) + 1, [len(rows)]])
    return Members(rows, starts, np.ones(len(rows)) if weights is None else weights[rows])


def levels_within(group: Indices, labels: Vector) -> Indices:
    """Return the rank of each label among the distinct labels of its group, from 0; groups ascend."""
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
    """Make the compiled risk, with the rows of a group sorted by level; unused arrays may be left out."""
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
    """A loss of the margins of many rows together; subclasses collect what the compiled risk needs.

    Parameters
    ----------
    **params
        As for `NamedLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import losses
    >>> loss, y = losses.get("roc_area"), np.array([-1.0, 1.0])
    >>> loss.evaluate(np.zeros(2), y)
    (1.0, array([ 1., -1.]))
    >>> loss.total_weight(y, None)
    1.0
    >>> risk = loss.joint_risk(y, None, 1)
    """

    by_rows = several_cuts = False
    search_slack = 50.0  # computing a slope sorts all margins, which takes as long as a product with X

    @property
    def total_slope(self) -> float:
        """Maximum sum of the absolute values of the derivatives of the risk."""
        return 2.0

    def steepness(self, extent: Extent, risk: float) -> float:
        return self.total_slope  # the sum of absolute values is at least the Euclidean length

    def total_weight(self, y: Vector, weights: Vector | None) -> float:
        """Return the weight of these rows' risk in a mean over several sets of rows.

        Parameters
        ----------
        y : ndarray of float64, shape (m,)
        weights : ndarray of float64, shape (m,), or None

        Returns
        -------
        float
            0 if they have no risk.
        """
        return float(len(y) > 0)

    @abstractmethod
    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        """Bind the loss to labels and weights.

        Parameters
        ----------
        y : ndarray of float64, shape (m,)
            Coded as for `Loss.risk`.
        weights : ndarray of float64, shape (m,), or None
        threads : int

        Returns
        -------
        JointRisk
        """

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> LineRisk:
        # The compiled risk has its own scale.
        return LineRisk(self.joint_risk(y, weights, threads), len(y))

    def evaluate(
        self, margins: Vector, y: Vector, weights: Vector | None = None, threads: int = 1
    ) -> tuple[float, Vector]:
        """Return the risk at some margins and a subgradient there.

        Parameters
        ----------
        margins, y : ndarray of float64, shape (m,)
            Margins and labels; labels are coded as for `Loss.risk`.
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
        raise ParameterError(f"loss {self.name}: is not a sum over rows; evaluate returns it for all rows")


class BlocksOfRows:
    """The block number of each row, cached: all passes of a solve have the same blocks.

    ``send`` sends one number per row to the rank that works on the row; it is collective over all ranks.
    """

    def __init__(self, send: Callable[[Vector], Vector] | None = None) -> None:
        self._send = send
        self._starts: Indices | None = None
        self._numbers = np.empty(0, np.int64)

    def numbers(self, starts: Indices) -> Indices | None:
        """Return the block numbers for blocks with these starts; None if there is one block."""
        if len(starts) == 2:
            return None
        if starts is not self._starts:
            self._starts = starts
            self._numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            if self._send is not None:
                self._numbers = self._send(self._numbers.astype(np.float64)).astype(np.int64)
        return self._numbers


class CompiledRisk(Protocol):
    """What a `LineRisk` asks of a compiled joint risk; see `bmrm.losses._joint.JointRisk`."""

    @property
    def parts(self) -> dict[str, Any]:
        """The arguments that it was made of."""

    @property
    def constants(self) -> Vector:
        """Values at margins of 0 of the planes of the last evaluation, one per group."""

    def evaluate(self, z: Vector, dz: Vector, t: float, b: float, r: Vector) -> Vector:
        """Fill ``r`` with a subgradient at ``z + t dz + b``; return the risk of each group."""


class LineRisk(ValuedRisk):
    """A compiled joint risk with the interface that the solver expects."""

    def __init__(self, risk: CompiledRisk, n_samples: int) -> None:
        self.compiled, self.size, self._blocks = risk, n_samples, BlocksOfRows()

    def evaluate(self, z: Vector, dz: Vector, t: float, derivatives: Vector) -> float:
        return float(self.compiled.evaluate(z, dz, t, 0.0, derivatives).sum())

    def along(self, derivatives: Vector, dz: Vector) -> float:
        return dot(derivatives, dz)

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        r = np.empty(self.size)
        self.compiled.evaluate(z, dz, t, b, r)
        return dot(r, dz), float(r.sum())

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        # No group has rows in two blocks.
        return self.cut_of_blocks(z, dz, t, b, len(starts) - 1, self._blocks.numbers(starts), r)

    def cut_of_blocks(
        self, z: Vector, dz: Vector, t: float, b: float, blocks: int, block: Indices | None, r: Vector
    ) -> tuple[Vector, Vector]:
        """Return risk and slope in b per block of groups, given the block of each row; None: one block."""
        values, constants = self.compiled.evaluate(z, dz, t, b, r), self.compiled.constants
        if block is None:
            self.constants = np.array([constants.sum()])
            return np.array([values.sum()]), np.array([r.sum()])
        parts = self.compiled.parts
        group_block = block[parts["rows"][parts["starts"][:-1]]]
        self.constants = np.bincount(group_block, constants, blocks).astype(np.float64)
        return (
            np.bincount(group_block, values, blocks).astype(np.float64),
            np.bincount(block, r, blocks).astype(np.float64),
        )

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        raise NotImplementedError("a joint loss has no second derivative")
