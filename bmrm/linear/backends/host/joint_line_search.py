"""The search along a line for a risk that is dear to evaluate, and tells value and derivatives at once.

A joint loss sorts all margins to tell either.  So nothing is evaluated twice: the value at the end of a
search is that of the slope found there, and the derivatives there give the slope that the next search begins
with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.linear.objective.objective import LineSearchProblem, LineSearchResult
from bmrm.losses.base import ValuedRisk

if TYPE_CHECKING:
    from bmrm.linear.backends.host.passes import HostPasses

Vector = NDArray[np.float64]


class _Point(NamedTuple):
    """A step with the risk there and its derivatives."""

    t: float
    risk: float
    derivatives: Vector


class JointLineSearch:
    """Searches of one solve.

    Parameters
    ----------
    passes : HostPasses
    risk : ValuedRisk
    """

    def __init__(self, passes: HostPasses, risk: ValuedRisk) -> None:
        self._passes, self.risk = passes, risk
        self._known: tuple[Vector, _Point] | None = None
        self._spare: list[Vector] = []

    def __call__(self, ray: LineSearchProblem) -> tuple[Vector, LineSearchResult]:
        """Minimise J along a line; return the direction too."""
        z, penalty = ray.z, ray.penalty
        dz = self._passes.direction(z, ray.end)
        # The points last found on either side of the minimum: the search ends at one of them.
        sides: dict[bool, _Point] = {}

        def slope(t: float) -> float:
            point = self._point(z, dz, t)
            found = penalty.slope(t) + self.risk.along(point.derivatives, dz)
            self._give_back(sides.get(found > 0.0))
            sides[found > 0.0] = point
            return found

        step = ray.minimise(slope)
        last = next((point for point in sides.values() if point.t == step), None)
        for point in sides.values():
            if point is not last:
                self._give_back(point)
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
            self._give_back(known)
        derivatives = self._spare.pop() if self._spare else np.empty(self.risk.size)
        return _Point(t, self.risk.evaluate(z, dz, t, derivatives), derivatives)

    def _give_back(self, point: _Point | None) -> None:
        if point is not None:
            self._spare.append(point.derivatives)
