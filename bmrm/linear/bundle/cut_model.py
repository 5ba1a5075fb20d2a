"""The cutting planes as inner models see them, and what is common to the inner models."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot
from bmrm.linear.bundle import _qp
from bmrm.linear.objective.running_error import ErrorBound, MeanBlur
from bmrm.linear.regularizers import Regularizer

ROUNDING_SHARE = 1e-15
"""A gap of the dual below this share of the objective is rounding."""


class CutModel(Protocol):
    """The cutting-plane model of the risk, ``sum_p max_{i in p} <a_i, w> + b_i``, with a dual solution.

    Gradients are asked for only if they are on the host.
    """

    groups: int
    threads: int
    floor: float
    errors: ErrorBound | None
    """What rounding may hide."""
    first_objective: float
    floored: bool
    lost: float
    """By how much cancelling products of rows lowered the last bound of `minimiser`."""

    @property
    def gradients(self) -> Vector:
        """Gradients a, shape (cuts, n_features)."""

    @property
    def offsets(self) -> Vector:
        """Offsets b, shape (cuts,)."""

    @property
    def blocks(self) -> NDArray[np.int32]:
        """Block of each cut, shape (cuts,)."""

    @property
    def whole(self) -> bool:
        """Whether whole gradients are on the host, so that their products may be taken in another metric."""

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in products of gradients; None if all are 1."""

    def change_metric(self, metric: Vector) -> None:
        """Take products of gradients with other weights from now on."""

    @property
    def alpha(self) -> Vector:
        """Dual solution, shape (cuts,), from which an inner model starts; not to be written to."""

    def set_alpha(self, alpha: Vector) -> None:
        """Set the dual solution."""

    def minimiser(self, reg: Regularizer, near: Any) -> tuple[Any, float]:
        """Return the minimiser of a penalty plus the mean plane, where weights live, and a bound on J."""

    def evaluate_cuts(self, reg: Regularizer, w: Any) -> tuple[Any, Vector, float] | None:
        """Evaluate all planes at a minimiser.

        Return the point, the values of the planes and a bound on J, without cancellation; None if the
        gradients are out of reach.
        """

    def blur(self, alpha: Vector) -> MeanBlur:
        """Return what rounding may have done to the mean plane."""

    def certified(self, least: float, alpha: Vector, size: float) -> float:
        """Return a bound on J: the minimum of a penalty plus the mean plane, less what rounding may hide.

        That the weights ``alpha`` are nonnegative and add up to 1 is checked here, whatever made them.
        ``size`` is that of the minimiser, see `bmrm.linear.objective.running_error`; 0 if the errors of
        gradients are counted already.
        """

    def maximise(
        self,
        lam: float,
        best: float,
        rel_tol: float,
        offsets: Vector | None = None,
        origin: Vector | None = None,
    ) -> tuple[float, float]:
        """Maximise D for ``lam/2 |w|^2`` in alpha, up to ``rel_tol`` of ``best`` minus its value.

        The offsets are the planes', or those given. With an ``origin`` they are the values of the planes at
        the minimiser for that alpha, and ``best`` is relative to the value of D there. Return the mean square
        of the gradients, and the gap that is left.
        """

    @property
    def serials(self) -> Indices:
        """A number for each cut that no other has had, shape (cuts,)."""

    @property
    def made(self) -> int:
        """The number that the next cut will have."""

    def steep_cuts(self, since: int, min_square: float) -> list[int]:
        """Return the positions of cuts with a square above ``min_square``, from serial ``since`` on."""


def combination(cuts: CutModel, alpha: Vector) -> tuple[Vector, float]:
    """Return the mean plane ``(A' alpha, <b, alpha>)``."""
    a = np.empty(cuts.gradients.shape[1])
    _qp.combine(cuts.gradients, alpha, a, threads=cuts.threads)
    return a, dot(cuts.offsets, alpha)


def risk_and_excess(cuts: CutModel, heights: Vector, alpha: Vector) -> tuple[float, float]:
    """Return the model's risk at a point, and by how much it exceeds the mean plane with these weights.

    ``heights`` are the values of all planes at the point.
    """
    highest = np.full(cuts.groups, -np.inf)
    np.maximum.at(highest, cuts.blocks, heights)
    total = float(highest.sum())
    return total, total - dot(alpha, heights)


def rounding_gap(objective: float) -> float:
    """Return a gap that is rounding error at an objective of this size."""
    return ROUNDING_SHARE * abs(objective)
