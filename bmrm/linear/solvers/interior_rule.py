"""When interior-point steps pay (`bmrm.linear.solvers.interior_point`).

A step is a Hessian and some products, as much as a hundred passes of planes or more.  So planes come first,
and what they will still cost, at their recent rate, is compared with the cost of the steps.  Costs are
counted, not measured, so that a run takes the same way each time.
"""

from __future__ import annotations

import math

from bmrm.linear.objective.passes import DesignOperator, StepCosts
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss

MAX_HESSIAN_COLUMNS = 4096
"""Maximum number of columns: the Hessian is kept twice."""

WINDOW_PASSES = 8
"""Number of passes whose progress predicts how many more the planes will take."""

FIRST_STEPS = 5.0
"""Number of steps that an interior point takes before the gap falls."""

STEPS_PER_DECADE = 2.5
"""Number of steps that it takes for each power of ten of the gap."""

STEP_PRODUCTS = 6
"""Number of products with X, or X', in a step."""

FACE_CHANGES_PER_CUT = 3
"""Number of times that the inner QP solves on its active set for each new cut."""

MIN_SPENT_SHARE = 0.25
"""Share of the cost of the steps that planes are given first: their bound may come all at once."""


def may_step(operator: DesignOperator, loss: Loss, reg: Regularizer) -> bool:
    """Whether a problem has such steps if the backend has them: for losses with kinks, under l2."""
    return operator.shape[1] <= MAX_HESSIAN_COLUMNS and loss.kinked and reg.terms is None


class InteriorRule:
    """What planes have cost and will cost, compared with interior-point steps to the same gap."""

    def __init__(self, costs: StepCosts, columns: int, blocks: int) -> None:
        self._costs, self._columns, self._blocks = costs, columns, blocks
        self._gaps: list[float] = []
        self._spent = 0.0

    def pays(self, gap: float, tol: float, cuts: int) -> bool:
        """Whether steps pay now, after a pass of planes that has left this gap."""
        # Besides the work on X and its rows, each new cut has its inner products, and enters the active set.
        active = min(cuts, self._columns)
        costs = self._costs
        one_pass = costs.one_pass + self._blocks * (cuts * costs.product + costs.change * active**2)
        self._spent += one_pass
        self._gaps = [*self._gaps[-WINDOW_PASSES:], gap]
        first = self._gaps[0]
        if len(self._gaps) <= WINDOW_PASSES or not first < math.inf or not gap > tol > 0.0:
            return False
        left, fallen = math.log(gap / tol), max(0.0, math.log(first / gap)) / WINDOW_PASSES
        steps = (FIRST_STEPS + STEPS_PER_DECADE * left / math.log(10.0)) * costs.step
        return self._spent >= MIN_SPENT_SHARE * steps and left * one_pass > fallen * steps
