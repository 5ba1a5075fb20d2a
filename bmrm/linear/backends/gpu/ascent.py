"""Accelerated ascent in the dual on a GPU, for text and whatever else has many features for its rows.

The sweeps of `bmrm.linear.solvers.dual_ascent` are the work of one thread, row by row.  A GPU moves all rows
at once, each to where the dual

    D(r) = -|X' r|^2 / (2 lam) - sum_i f_i(r_i),       f_i the conjugate of the loss of row i,

would be largest if all rows together bent it by no more than some times what each bends it alone, and goes
on with the momentum of earlier steps (``src_cuda/training/ascent.cu``).  A step costs the two products and
hardly more: no number of it is for the host, and there are no cuts to make and to combine.  Rows of a text
share few of their features, so that few such steps are enough.

Some steps make a cut, as sweeps do on the CPU: any r within the domains of the f_i makes a plane of the risk
as it is, whose minimum with the penalty is D(r).
"""

from __future__ import annotations

import numpy as np

from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.objective.objective import CutBatch, Iterate, Objective, Operator
from bmrm.linear.solvers.dual_ascent import WIDE, Halving, fenchel_cut
from bmrm.losses import Loss
from bmrm.matrix.gpu.memory import CLIMBED_ROWS

FIRST, MOST = 9, 33
"""Steps that the first cut is made of, and most that a later one is; eight of them are queued by one call."""

TRIED = 12
"""Cuts that are made in any case. Planes begin where so many in a row have not halved the gap."""


def gpu_ascent_pays(operator: Operator, loss: Loss, *, profile: bool) -> bool:
    """Whether a solve on a GPU under plain l2 begins with ascent in the dual.

    Parameters
    ----------
    operator : Operator
        A constant feature would tie all rows together.
    loss : Loss
    profile : bool
        Whether an intercept is minimised out, which ties them together too.
    """
    m, d = operator.shape
    alone = operator.n_outputs == 1 and operator.constant is None and not profile
    sparse = not getattr(operator, "is_dense", True)
    return loss.has_dual and alone and sparse and m <= CLIMBED_ROWS * d and operator.nnz <= WIDE * d


class GpuAscent:
    """A point of the dual on its way up, and the weights that belong to it, on a GPU.

    Parameters
    ----------
    objective : Objective
        For which `gpu_ascent_pays`, with one block of rows.
    at : Iterate
        Where to begin.
    """

    exact = False  # in the space of rows weights are only then rounded as they are given out

    def __init__(self, objective: Objective, at: Iterate) -> None:
        assert isinstance(objective.passes, GpuPasses)
        self._objective, self._passes = objective, objective.passes
        self._problem, self._point, self._halving = self._passes.problem, at.w, Halving(TRIED)
        self._count = FIRST
        self._problem.begin_ascent(at.margins if at.w.square > 0.0 else None)

    def pays(self, gap: float) -> bool:
        """Whether to go on, where the last step has left this gap."""
        return self._halving.goes_on(gap)

    def step(self) -> CutBatch | None:
        """Take some steps of all rows; return the cutting plane that r makes; None where it makes none."""
        objective, lam = self._objective, self._objective.reg.lam
        conjugate = self._problem.climb(lam, self._count)
        self._count = min(2 * self._count - 1, MOST)
        planes = self._passes.mixed_planes(objective.starts, self._point, self._point, 0.0)
        alone = np.zeros(self._passes.cuts.size + 1)
        alone[-1] = 1.0
        self._point = self._problem.combine(alone, -1.0 / lam, self._point)
        return fenchel_cut(objective, planes, conjugate)

    def at(self, accuracy: float) -> Iterate:
        """Evaluate J at the point whose minimum with the penalty the plane has."""
        return self._objective.evaluate_at(self._point, self._passes.margins(self._point), accuracy)
