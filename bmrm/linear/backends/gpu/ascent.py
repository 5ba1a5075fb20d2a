"""Accelerated ascent in the dual on a GPU; see `bmrm.linear.solvers.dual_ascent`.

A sweep over the rows is the work of one thread.  A GPU moves all rows at once, each to the point at which the
dual D(r) would be largest if the curvature of all rows together were at most a certain multiple of that of
each row alone, and continues with the momentum of earlier steps (``src_cuda/training/ascent.cu``).  A step
costs little more than its two products: the host waits for none of its numbers, and no cuts are made or
combined.  Rows of a text share few of their features, so few such steps are enough.  Some steps make a cut,
as sweeps do on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bmrm.linear.backends.gpu.cuts import GpuCuts, Resident
from bmrm.linear.objective.passes import Iterate, ObjectiveData, Passes, Subgradients

FIRST_CUT_STEPS = 9
"""Number of steps before the first cut; eight of them are queued by one call."""

MAX_CUT_STEPS = 33
"""Maximum number of steps before a later cut."""

MIN_CUTS = 12
"""Number of cuts in a row that may fail to halve the gap before planes take over."""


class GpuAscent:
    """`bmrm.linear.objective.passes.Ascent` by steps of all rows.

    `bmrm.linear.plan.gpu_ascent_pays` for the problem, which has one block of rows.
    """

    exact = False  # in the space of rows, weights are rounded only when they are copied to the host

    def __init__(self, objective: ObjectiveData, passes: Passes, cuts: GpuCuts, at: Iterate) -> None:
        self._objective, self._passes, self._cuts = objective, passes, cuts
        self.min_steps, self._count = MIN_CUTS, FIRST_CUT_STEPS
        self.point: Resident = at.w
        self._device = cuts.problem
        self._device.begin_ascent(at.margins if at.w.square > 0.0 else None)

    def step(
        self, reached: float, tol: Callable[[float], float], ends: Callable[[], bool]
    ) -> tuple[Subgradients, float]:
        """Take some steps of all rows, whatever the gap; return the plane of r and its conjugate."""
        lam = self._objective.reg.lam
        conjugate = self._device.climb(lam, self._count)
        self._count = min(2 * self._count - 1, MAX_CUT_STEPS)
        planes = self._passes.mixed_planes(self._objective.starts, self.point, self.point, 0.0)
        alone = np.zeros(self._cuts.size + 1)
        alone[-1] = 1.0
        self.point = self._device.combine(alone, -1.0 / lam, self.point)
        return planes, conjugate
