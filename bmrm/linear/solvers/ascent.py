"""Ascent in the dual, as the solver sees it: row by row on the CPU, all rows at once on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bmrm.linear.backends.gpu.ascent import GpuAscent
from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.host.ascent import DualAscent
from bmrm.linear.objective.objective import CutBatch, Iterate, Objective


class Ascent(Protocol):
    """A point of the dual on its way up."""

    exact: bool
    """Whether J at the point is what a new product of its weights would make it."""

    def pays(self, gap: float) -> bool:
        """Whether to go on, where the last step has left this gap."""

    def step(self) -> CutBatch | None:
        """Go up; return the cutting plane that the point makes; None where it makes none."""

    def at(self, accuracy: float) -> Iterate:
        """Evaluate J at the point whose minimum with the penalty the plane has."""


def begin_ascent(objective: Objective, at: Iterate, tol: Callable[[float], float]) -> Ascent:
    """Begin where X lives, at the derivatives of the loss at a point, or at none where its weights are 0.

    `tol` tells the gap to stop at, where the best objective is so much.
    """
    if isinstance(objective.passes, GpuPasses):
        return GpuAscent(objective, at)
    return DualAscent(objective, at, tol)
