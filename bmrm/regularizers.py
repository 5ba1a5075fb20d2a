"""Regularisers: what the solver and the bundle ask of ``lam * Omega(w)``.

A regulariser knows nothing of losses.  It gives its value, its two coefficients on a line (so that a line
search needs no vector work), its derivatives, and the minimiser of ``lam * Omega(w) + <a, w>``, which is
where a bundle's dual lives.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import ParameterError
from bmrm.vectors import dot

Vector = NDArray[np.float64]
NAMES = ("l2",)


class Regularizer(Protocol):
    """``lam * Omega(w)`` for a fixed lam."""

    name: str
    lam: float

    def value(self, w: Vector) -> float:
        """``lam * Omega(w)``."""

    def line(self, w: Vector, dw: Vector) -> tuple[float, float]:
        """``(p, q)`` with the derivative of ``lam * Omega(w + t dw)`` equal to ``p + q t``."""

    def gradient(self, w: Vector) -> Vector:
        """Gradient of ``lam * Omega`` at ``w``."""

    def curvature(self, w: Vector) -> float:
        """Second derivative of ``lam * Omega`` at ``w``, the same in every coordinate."""

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises ``lam * Omega(w) + <a, w>``."""


class L2:
    """``lam/2 |w|^2``.

    Parameters
    ----------
    lam : float
        Strength, positive.

    Raises
    ------
    ParameterError
        If ``lam`` is not a positive finite number.
    """

    name = "l2"

    def __init__(self, lam: float) -> None:
        if not 0.0 < lam < np.inf:
            raise ParameterError(f"lam: found {lam:g}, expected a positive number")
        self.lam = float(lam)

    def value(self, w: Vector) -> float:
        """``lam/2 |w|^2``."""
        return 0.5 * self.lam * dot(w, w)

    def line(self, w: Vector, dw: Vector) -> tuple[float, float]:
        """Coefficients of the derivative along ``w + t dw``."""
        return self.lam * dot(w, dw), self.lam * dot(dw, dw)

    def gradient(self, w: Vector) -> Vector:
        """``lam w``."""
        return self.lam * w

    def curvature(self, w: Vector) -> float:
        """Return ``lam``."""
        return self.lam

    def minimiser(self, a: Vector) -> Vector:
        """Return ``-a / lam``."""
        return a / -self.lam


def get(name: str, lam: float) -> Regularizer:
    """Make a regulariser from its name."""
    if name not in NAMES:
        raise ParameterError(f"reg: found {name!r}, expected one of {', '.join(NAMES)}")
    return L2(lam)
