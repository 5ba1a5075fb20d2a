"""How to run the outer loop, and when to end it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bmrm.base.arguments import number
from bmrm.base.units import number_text
from bmrm.errors import ParameterError
from bmrm.linear.solvers.progress import Progress

Callback = Callable[[Progress], object]

SOLVERS = ("ocas", "bmrm")
TOL_KINDS = ("rel", "abs")

SMALLEST_TOL = 1e-13
"""Gaps below this share of the objective are rounding in float64."""


@dataclass(frozen=True)
class Settings:
    """The options of a run."""

    solver: str
    tol: float
    tol_kind: str
    max_iter: int
    max_time: float
    callback: Callback | None = None
    resolution: float = 0.0
    """Share of the objective below which rounding of the products hides a gap."""

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ParameterError(f"solver: found {self.solver!r}, expected one of {', '.join(SOLVERS)}")
        if self.tol_kind not in TOL_KINDS:
            raise ParameterError(f"tol_kind: found {self.tol_kind!r}, expected one of {', '.join(TOL_KINDS)}")
        for name in ("tol", "max_iter", "max_time"):
            number(name, getattr(self, name))
        least = SMALLEST_TOL if self.tol_kind == "rel" else 0.0
        if not (self.tol >= least and 0.0 < self.tol < np.inf):
            wanted = f"at least {least:g}, what float64 resolves" if least else "a positive number"
            raise ParameterError(f"tol: found {number_text(self.tol)}, expected {wanted}")
        if not self.max_iter >= 1:
            raise ParameterError(f"max_iter: found {self.max_iter}, expected at least 1")
        if not self.max_time > 0.0:
            raise ParameterError(
                f"max_time: found {number_text(self.max_time)} s, expected a positive number"
            )

    def absolute_tol(self, objective: float) -> float:
        """Return the gap at which to stop."""
        return absolute_tol(self.tol, self.tol_kind, objective)

    def resolved_tol(self, objective: float, rounding: float = 0.0) -> float:
        """Return the gap at which there is nothing more to find.

        It is the gap to stop at, less ``rounding``, the error that objective and bound may have; or what the
        products resolve.
        """
        wanted, hidden = self.absolute_tol(objective), self.resolution * abs(objective)
        return max(wanted - rounding, rounding, hidden if wanted < hidden else 0.0)


def absolute_tol(tol: float, tol_kind: str, objective: float) -> float:
    """Return the gap that a tolerance asks for."""
    return tol * abs(objective) if tol_kind == "rel" else tol
