"""What the solver and the bundle ask of a regulariser, and what is common to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import number
from bmrm.errors import ParameterError
from bmrm.linear.bundle.inner_qp import CutModel
from bmrm.linear.objective.running_error import ErrorBound
from bmrm.linear.regularizers.separable import FreeFace

Vector = NDArray[np.float64]

STEEP, EASED = 1e9, 1.0 / 256.0
"""Most curvature of a cut in one feature, ``a_j^2 / (lam s_j)``, as a multiple of the first objective, that
the QP takes as it is: near 1e12 rounding hides what is left of others in it. And the share of that which a
feature has once it is eased: with more the QP of several blocks still gets stuck, with less the bound needs
more steps."""

LEAST_LAM, MOST_LAM = 1e-200, 1e200
"""Beyond these, products of lam with what it is multiplied by or divides would overflow."""

MULTIPLIER_STEPS = 10
"""Most steps of the method of multipliers in a pass."""


class Slopes(Protocol):
    """The derivative of ``lam * Omega`` on a line ``w + t dw``, t >= 0."""

    @property
    def end(self) -> float:
        """The largest t at which the line is in the domain."""

    def slope(self, t: float) -> float:
        """Return a subgradient at ``t``."""


class Regularizer(Protocol):
    """``lam * Omega(w)`` for a fixed lam, and for one solve."""

    name: str
    lam: float
    sparse: bool
    """Whether weights can be exactly those of the prior mean."""
    needs_floor: bool
    """Whether a certificate needs a number that no risk is below."""
    radius: float
    """How far from the prior mean bounds cover features without a penalty; it may grow, which makes earlier
    ones void. Infinite where all have one."""
    metric_key: object
    """What tells products of cuts in a metric of this penalty's own; None where they are plain ones."""

    checksums: Mapping[str, str]
    """Of the vectors that make it, those that were given; see `bmrm.matrix.checksums`."""

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in products of cuts; None where all are 1."""

    @property
    def plain(self) -> bool:
        """Whether it is ``lam/2 |w|^2``."""

    @property
    def params(self) -> dict[str, float | bool]:
        """What there is to tell beside name and lam."""

    def start(self, n_features: int) -> Vector:
        """Return the point to start from: the prior mean."""

    def limit(self, errors: ErrorBound) -> None:
        """Tell an error bound how far optimal weights can be, and how soft the penalty is."""

    def covers(self, w: Vector) -> bool:
        """Whether bounds are of a region as large as a best point wants."""

    def cover(self, radius: float) -> None:
        """Let bounds cover features without a penalty so far from the prior mean; earlier ones are void."""

    def value(self, w: Vector) -> float:
        """``lam * Omega(w)``."""

    def project(self, w: Vector) -> Vector:
        """Return the nearest point of the domain."""

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        """Return ``w`` with those features on a kink that ``sparser`` has there."""

    def line(self, w: Vector, dw: Vector) -> Slopes:
        """Return the derivative of ``lam * Omega(w + t dw)``."""

    def quadratic_minimiser(self, hessian: Vector, gradient: Vector, w: Vector) -> Vector | None:
        """Return the v that minimises ``lam Omega(v) + <gradient, v - w> + (v - w)' hessian (v - w) / 2``.

        ``hessian`` is overwritten.  None where rounding leaves no minimum.
        """

    def face(self, w: Vector, gradient: Vector) -> FreeFace:
        """Return where the penalty is smooth around ``w``, for a descent of the risk with ``gradient``."""

    def land(self, w: Vector, step: Vector, face: FreeFace) -> Vector:
        """Return ``w + step``, or where it leaves the face."""

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        """Return the v that minimises ``lam Omega(v) + <slope, v - w> + bend / 2 |v - w|^2``."""

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises ``lam * Omega(w) + <a, w>``."""

    def minimise_model(
        self, planes: CutModel, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise ``lam Omega(w) + sum_p max_i <a_i, w> + b_i``; see `Bundle.minimise`."""


class Steepness:
    """How steep cuts are, feature by feature, beside the first objective."""

    def __init__(self) -> None:
        self._looked = 0

    def of_new(self, planes: CutModel, least: float) -> Vector | None:
        """Return the largest squares of entries of new cuts, in units of `STEEP` times the first objective.

        Those of cuts with a product of at least ``least`` in these units with themselves; None where there
        are none.
        """
        first = planes.first_objective
        unit = STEEP * first
        steep = planes.steep(self._looked, least * unit)
        self._looked = planes.made
        if not steep:
            return None
        # A cut from where the risk is far larger, as where exp() has run away, is steep for that reason.
        size = np.minimum(1.0, first / np.maximum(np.abs(planes.offsets[steep]), np.finfo(float).tiny))
        squares = np.square(planes.gradients[steep] * size[:, None]).max(axis=0)
        if planes.floored:
            # Masses of cuts are as small as lam then, and none drowns what others do: but features may.
            others = np.sort(squares[squares > 0.0])
            if len(others):
                unit = max(unit, STEEP * float(others[(len(others) - 1) // 2]) / least)
        return np.asarray(squares / unit)


def strength(lam: float) -> float:
    """Return a strength that is one."""
    lam = number("lam", lam)
    if not 0.0 < lam < np.inf:
        raise ParameterError(f"lam: found {lam:g}, expected a positive number")
    if not LEAST_LAM <= lam <= MOST_LAM:
        raise ParameterError(f"lam: found {lam:g}, expected a number from {LEAST_LAM:g} to {MOST_LAM:g}")
    return lam
