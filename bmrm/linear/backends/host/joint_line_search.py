"""Line search for losses whose value and derivatives are expensive and come together.

A joint loss sorts all margins for either.  So no point is evaluated twice: the value at the end of a search
was found with the slope there, and the derivatives there give the slope that the next search begins with.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.linear.objective.passes import LineSearchProblem, LineSearchResult
from bmrm.losses.base import ValuedRisk


class MarginMoves(Protocol):
    """What moves margins; see `bmrm.linear.backends.host.passes.HostPasses`."""

    def direction(self, z: Vector, end: Vector) -> Vector:
        """``end - z``; may overwrite ``end``."""

    def moved(self, z: Vector, dz: Vector, t: float) -> Vector:
        """``z + t dz``."""


class _Point(NamedTuple):
    """A step, and the risk and its derivatives there."""

    t: float
    risk: float
    derivatives: Vector


class JointLineSearch:
    """The line searches of one solve."""

    def __init__(self, passes: MarginMoves, risk: ValuedRisk) -> None:
        self._passes, self.risk = passes, risk
        self._known: tuple[Vector, _Point] | None = None
        self._spare: list[Vector] = []

    def __call__(self, ray: LineSearchProblem) -> tuple[Vector, LineSearchResult]:
        """Minimise J along a line; return the direction too."""
        z, penalty = ray.z, ray.penalty
        dz = self._passes.direction(z, ray.end)
        # The last points found on either side of the minimum: the search ends at one of them.
        sides: dict[bool, _Point] = {}

        def slope(t: float) -> float:
            point = self._point(z, dz, t)
            found = penalty.slope(t) + self.risk.along(point.derivatives, dz)
            self._release(sides.get(found > 0.0))
            sides[found > 0.0] = point
            return found

        step = ray.minimise(slope)
        last = next((point for point in sides.values() if point.t == step), None)
        for point in sides.values():
            if point is not last:
                self._release(point)
        if last is None:
            last = self._point(z, dz, step)
        moved = self._passes.moved(z, dz, step)
        self._known = moved, last
        return dz, LineSearchResult(step, moved, last.risk)

    def _point(self, z: Vector, dz: Vector, t: float) -> _Point:
        if t == 0.0 and self._known is not None:
            margins, known = self._known
            self._known = None
            if margins is z:
                return known._replace(t=0.0)
            self._release(known)
        derivatives = self._spare.pop() if self._spare else np.empty(self.risk.size)
        return _Point(t, self.risk.evaluate(z, dz, t, derivatives), derivatives)

    def _release(self, point: _Point | None) -> None:
        if point is not None:
            self._spare.append(point.derivatives)
