"""Where interior-point steps may be taken, and when they pay (`bmrm.linear.solvers.interior_point`).

A step is a Hessian and some products, as much as a hundred passes of planes or more.  So planes come first,
and what they will still cost, at the rate at which they went lately, is compared with what the steps will.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.objective.objective import Objective, Operator
from bmrm.linear.regularizers import L2, Regularizer
from bmrm.linear.solvers.interior_point import rows_of_all
from bmrm.losses import Loss

COLUMNS = 4096
"""Most columns: of the Hessian there are two copies."""

WINDOW = 8
"""Passes whose progress tells how many more the planes will take."""

STEPS, STEPS_A_DECADE = 5.0, 2.5
"""Steps that an interior point takes to a gap: some, and as many for each power of ten."""

STEP_PRODUCTS, STEP_ROWS = 6, 80
"""Products with X, or X', in a step, and what else it does with a row, in multiply-adds."""

PASS_ROWS, PROFILE_ROWS, CHANGES = 10, 40, 3
"""What a pass of planes does with a row, without and with a free intercept; and how often it solves on the
face of the inner QP for each new cut."""

PASS_NS, BYTES_A_NS, CHANGE_NS = 1e5, 3e3, 0.5
"""With a GPU: a pass beside its products, bytes of X that a product reads, and a pair of cuts on the face."""

GRAM_A_NS, FACTOR_A_NS, ROW_NS = 3e4, 500.0, 200.0
"""Rows times pairs of columns of a Hessian, triples of columns of its factor on the host, and the rest of a
step for a row (measured on an H200 beside 16 cores)."""

PAID = 0.25
"""Share of what the steps would cost that planes are given first: their bound may come all at once."""


def may_step(operator: Operator, loss: Loss, reg: Regularizer) -> bool:
    """Whether there are such steps where all weights and a Hessian may be here: for kinks, under l2."""
    return operator.shape[1] <= COLUMNS and loss.kinked and isinstance(reg, L2)


def can_step(objective: Objective) -> bool:
    """Whether there are such steps."""
    passes = objective.passes
    if isinstance(passes, GpuPasses):
        here = passes.may_go_inside
    else:
        work = objective.operator.weighted_gram_work
        here = isinstance(passes, HostPasses) and passes.whole and math.isfinite(work)
    return here and may_step(objective.operator, objective.loss, objective.reg)


class Costs(NamedTuple):
    """What planes and steps cost: multiply-adds of a CPU's, or nanoseconds with a GPU.

    Attributes
    ----------
    one_pass, step : float
        With X and its rows; of a step all.
    product, change : float
        Of a new cut with one that there is; and of the inner QP, for each pair of cuts on its face.
    """

    one_pass: float
    step: float
    product: float
    change: float


def costs_of(objective: Objective) -> Costs:
    """Return the costs of a problem for which `can_step`."""
    operator, passes = objective.operator, objective.passes
    d, nnz = operator.shape[1], operator.nnz
    if isinstance(passes, GpuPasses):
        rows, item = operator.shape[0], passes.problem.matrix.vector_dtype.itemsize
        read = nnz * item / BYTES_A_NS
        step = rows * d**2 / GRAM_A_NS + d**3 / FACTOR_A_NS + STEP_PRODUCTS * read + ROW_NS * rows
        return Costs(PASS_NS + 2 * read, step, d * item / BYTES_A_NS, CHANGES * CHANGE_NS)
    assert isinstance(passes, HostPasses)
    rows = rows_of_all(passes, operator.shape[0])
    step = operator.weighted_gram_work + d**3 / 6 + STEP_PRODUCTS * nnz + STEP_ROWS * rows
    return Costs(2 * nnz + (PROFILE_ROWS if objective.profile else PASS_ROWS) * rows, step, d, CHANGES)


class InteriorRule:
    """What planes have cost, and what they will, beside interior-point steps to the same gap.

    Costs are counted, not measured, so that a run takes the same way each time.

    Parameters
    ----------
    objective : Objective
        For which `can_step`.
    """

    def __init__(self, objective: Objective) -> None:
        self._costs = costs_of(objective)
        self._blocks, self._d = objective.blocks, objective.operator.shape[1]
        self._gaps: list[float] = []
        self._spent = 0.0

    def better_inside(self, gap: float, tol: float, cuts: int) -> bool:
        """Whether steps pay now, after a pass that has left a gap and so many cuts."""
        # Beside what is done with X and its rows each new cut has its products, and enters the face.
        face = min(cuts, self._d)
        costs = self._costs
        one_pass = costs.one_pass + self._blocks * (cuts * costs.product + costs.change * face**2)
        self._spent += one_pass
        self._gaps = [*self._gaps[-WINDOW:], gap]
        first = self._gaps[0]
        if len(self._gaps) <= WINDOW or not first < math.inf or not gap > tol > 0.0:
            return False
        left, fallen = math.log(gap / tol), max(0.0, math.log(first / gap)) / WINDOW
        inside = (STEPS + STEPS_A_DECADE * left / math.log(10.0)) * costs.step
        return self._spent >= PAID * inside and left * one_pass > fallen * inside
