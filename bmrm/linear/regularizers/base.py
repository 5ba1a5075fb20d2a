"""What a penalty is: the protocol that every one of them follows, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np

from bmrm.base.arguments import number
from bmrm.base.units import number_text
from bmrm.base.vectors import Vector
from bmrm.errors import ParameterError
from bmrm.linear.regularizers.separable import FreeFace, Separable

MIN_LAM = 1e-200
"""Below this, quotients by lam would overflow."""

MAX_LAM = 1e200
"""Above this, products with lam would overflow."""

RADIUS = 1e3
"""Features without a penalty are certified within this distance of the prior mean; see
`bmrm.linear.bundle.separable_bound`."""


class LineDerivative(Protocol):
    """The derivative of ``lam * Omega`` along a line ``w + t dw``, t >= 0."""

    @property
    def end(self) -> float:
        """The largest t at which the line is in the domain."""

    def slope(self, t: float) -> float:
        """Return a subgradient at ``t``."""


class Reach(NamedTuple):
    """How much a penalty limits the weights, in terms of the lengths of the columns of X."""

    softness: float
    """Sum over all features of the squared length of the column over the curvature of the penalty; infinite
    if a feature has no curvature."""
    curved: float  # the same sum over the features with curvature
    kinked: float
    """Largest length of a column over the strength of its kink, among those with kinks but no curvature."""
    free: float  # sum of the lengths of the columns without a penalty


class Regularizer(Protocol):
    """A penalty ``lam * Omega(w)`` for a fixed lam.

    It is a function and holds no state: any number of solves may use one object at the same time. How the
    cutting-plane model is minimised with it is the business of `bmrm.linear.bundle`.
    """

    name: str
    lam: float
    sparse: bool
    """Whether optimal weights can be exactly those of the prior mean."""
    needs_floor: bool
    """Whether a certificate needs a number that no risk is below: if some feature has no curvature."""

    @property
    def plain(self) -> bool:
        """Whether it is ``lam/2 |w|^2``."""

    @property
    def terms(self) -> Separable | None:
        """The terms of each feature, if there are kinks or bounds; None for a squared norm."""

    @property
    def curvature(self) -> Vector | float:
        """Second derivative of the quadratic part in each feature."""

    @property
    def prior(self) -> Vector | None:
        """The prior mean; None for 0."""

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in products of cuts; None if all are 1."""

    @property
    def params(self) -> dict[str, float | bool]:
        """What to report besides name and lam."""

    @property
    def vectors(self) -> Mapping[str, Vector]:
        """The vectors that the user gave, by the name of the option."""

    def start(self, n_features: int) -> Vector:
        """Return the point to start from: the prior mean, or the nearest point of the domain."""

    def reach(self, lengths: Vector | float) -> Reach:
        """Return how much the penalty limits the weights.

        Parameters
        ----------
        lengths : ndarray of shape (n_features,), or float
            Lengths of the columns of X; or that of all together, if the weights are not at hand one by one.
        """

    def total(self, sums: Vector) -> Vector:
        """Return sums over all features from those over the features of this process."""

    def value(self, w: Vector) -> float:
        """Return ``lam * Omega(w)``."""

    def smooth_gradient(self, w: Vector) -> Vector:
        """Return the gradient of the quadratic part."""

    def project(self, w: Vector) -> Vector:
        """Return the nearest point of the domain."""

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        """Return ``w`` with those features on a kink that ``sparser`` has there."""

    def line(self, w: Vector, dw: Vector) -> LineDerivative:
        """Return the derivative of ``lam * Omega(w + t dw)`` for t > 0."""

    def face(self, w: Vector, gradient: Vector) -> FreeFace:
        """Return where the penalty is smooth around ``w``, for a descent of the risk with ``gradient``."""

    def land(self, w: Vector, step: Vector, face: FreeFace) -> Vector:
        """Return ``w + step``; a feature that would leave the face stops at its end."""

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        """Return the v that minimises ``lam Omega(v) + <slope, v - w> + bend / 2 |v - w|^2``."""

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises ``lam * Omega(w) + <a, w>``: a subgradient of the conjugate at -a."""


def strength(lam: float) -> float:
    """Validate lam and return it as a float."""
    lam = number("lam", lam)
    if not 0.0 < lam < np.inf:
        raise ParameterError(f"lam: found {number_text(lam)}, expected a positive number")
    if not MIN_LAM <= lam <= MAX_LAM:
        raise ParameterError(
            f"lam: found {number_text(lam)}, expected a number from {MIN_LAM:g} to {MAX_LAM:g}"
        )
    return lam
