"""The inner problem of the l1 penalty: a linear programme, by HiGHS.

    minimise  sum_j l1_j (p_j + n_j) + sum_g xi_g
    subject to  xi_g - <a_i, p - n> >= b_i + <a_i, w0>   for every cut i of block g,
                sum_g xi_g >= floor,   p, n >= 0,   w0 + p - n in the domain

(w = w0 + p - n).  Its dual multipliers are the alpha of the best bound that the cuts have.  HiGHS keeps the
basis: a new cut is a new row, and the simplex method goes on from where it was.  A feature is a column only
once its slope comes near what the penalty holds: most of them never do.

Nothing of what HiGHS says is believed.  Its multipliers are feasible to a tolerance alone: they are made
nonnegative, their sums one, and the bound is evaluated from them in float64 by the penalty itself
(`Separable.lower_bound`), which scales the plane to a slope that the penalty outweighs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot
from bmrm.linear.bundle.inner_qp import CutModel, combination
from bmrm.linear.regularizers.separable import Separable

if TYPE_CHECKING:
    import highspy

Vector = NDArray[np.float64]
Bound = Callable[[CutModel, Vector], float]

FEASIBILITY = 1e-10
"""Tolerance of HiGHS, the smallest that it takes."""

MOST_STEPS = 20_000
"""Steps of the simplex method in one run. Where slopes are near the ends of what HiGHS takes, it may run for
ever: then the programme is not asked again."""

NEAR, ROUNDS = 0.8, 4
"""Features whose slope is this share of what the penalty holds become columns at once; and how often more
may, those whose slope is beyond it at the programme's answer."""


class LinearModel:
    """The linear programme of one solve, kept between its passes.

    Parameters
    ----------
    penalty : Separable
        Without curvature.
    """

    def __init__(self, penalty: Separable) -> None:
        self.penalty = penalty
        self._highs: highspy.Highs | None = None
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        # The columns of each feature, upwards and downwards of the prior mean; 0, a block's, for none.
        self._up, self._down = np.zeros((2, len(penalty.l1)), np.int32)
        self.taken = True
        """Whether HiGHS has taken all numbers, and come to an end: slopes of 1e15 and levels of 1e20 are too
        large for it."""

    def bound(self, planes: CutModel, a: Vector, evaluate: Bound) -> float:
        """Return the best bound of the planes, as ``evaluate`` finds it for the programme's multipliers.

        ``a`` is the slope of a mean plane that is near the best one. Where HiGHS refuses a number, the bound
        need not be the best, and ``taken`` is false.
        """
        if self._highs is None:
            self._highs = self._build(planes)
        highs, best = self._highs, -np.inf
        self._update_rows(highs, planes)
        wanted = np.abs(a) >= NEAR * self.penalty.l1
        for _ in range(ROUNDS):
            self._add_columns(highs, planes, np.flatnonzero(wanted & (self._up == 0)))
            columns = planes.groups + 2 * int(np.count_nonzero(self._up))
            self.taken = (highs.getNumRow(), highs.getNumCol()) == (1 + len(self._rows), columns)
            if not self.taken:
                break
            highs.run()
            self.taken = highs.getInfo().simplex_iteration_count < MOST_STEPS
            duals = np.asarray(highs.getSolution().row_dual)[1 + self._places(planes.serials)]
            duals = np.maximum(0.0, duals)
            sums = np.bincount(planes.blocks, duals, planes.groups)
            if not (np.isfinite(duals).all() and (sums > 0.0).all()):
                break
            # The sums fall short of one by what the floor holds; `evaluate` finds that share again.
            alpha = duals / sums[planes.blocks]
            best = max(best, evaluate(planes, alpha))
            a, _ = combination(planes, alpha)
            wanted = np.abs(a) * float(sums.min()) > self.penalty.l1
            if not (wanted & (self._up == 0)).any():
                break
        return best

    def _places(self, serials: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the rows of cuts, less the one of the floor."""
        order = np.argsort(self._rows)
        return np.asarray(order[np.searchsorted(self._rows[order], serials)])

    def _build(self, planes: CutModel) -> highspy.Highs:
        highs = _quiet()
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("simplex_iteration_limit", MOST_STEPS)
        highs.setOptionValue("primal_feasibility_tolerance", FEASIBILITY)
        highs.setOptionValue("dual_feasibility_tolerance", FEASIBILITY)
        groups, inf = planes.groups, highs.getInfinity()
        none = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
        highs.addCols(groups, np.ones(groups), np.full(groups, -inf), np.full(groups, inf), 0, *none)
        highs.addRow(planes.floor, inf, groups, np.arange(groups, dtype=np.int32), np.ones(groups))
        return highs

    def _update_rows(self, highs: highspy.Highs, planes: CutModel) -> None:
        """Take out the rows of cuts that are gone, and append those of new ones."""
        stay = np.isin(self._rows, planes.serials)
        gone = 1 + np.flatnonzero(~stay)
        if len(gone):
            highs.deleteRows(len(gone), gone.astype(np.int32))
        fresh = np.flatnonzero(~np.isin(planes.serials, self._rows))
        self._rows = np.concatenate([self._rows[stay], planes.serials[fresh]])
        features = np.flatnonzero(self._up)
        for i in fresh:
            a = planes.gradients[i, features]
            columns = np.concatenate([planes.blocks[i : i + 1], self._up[features], self._down[features]])
            level = planes.offsets[i] + dot(planes.gradients[i], self.penalty.prior)
            values = np.concatenate([[1.0], -a, a])
            highs.addRow(level, highs.getInfinity(), len(columns), columns, values)

    def _add_columns(self, highs: highspy.Highs, planes: CutModel, features: NDArray[np.intp]) -> None:
        """Make features columns, upwards of the prior mean and downwards, as far as the domain goes."""
        if not len(features):
            return
        p, count = self.penalty, len(features)
        rows = np.tile(1 + self._places(planes.serials), count).astype(np.int32)
        starts = np.arange(count, dtype=np.int32) * len(planes.serials)
        slopes = np.ascontiguousarray(planes.gradients[:, features].T).ravel()
        low, high = (p.low - p.prior)[features], (p.high - p.prior)[features]
        for place, least, most, sign in ((self._up, low, high, -1.0), (self._down, -high, -low, 1.0)):
            place[features] = highs.getNumCol() + np.arange(count)
            bounds = np.maximum(0.0, least), np.maximum(0.0, most)
            highs.addCols(count, p.l1[features], *bounds, len(slopes), starts, rows, sign * slopes)


def _quiet() -> highspy.Highs:
    """Return a HiGHS that prints nothing."""
    # 0.2 s: not before there is a linear programme.
    import highspy

    class Quiet(highspy.Highs):
        """Silent from its first call on: the constructor makes one, which prints a banner in 1.16."""

        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    highs = Quiet()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    return highs
