"""The inner model of the l1 penalty as a linear programme, by HiGHS.

    minimise  sum_j l1_j (p_j + n_j) + sum_g xi_g
    subject to  xi_g - <a_i, p - n> >= b_i + <a_i, w0>   for every cut i of block g,
                sum_g xi_g >= floor,   p, n >= 0,   w0 + p - n in the domain

(w = w0 + p - n).  Its dual multipliers are the alpha of the best bound that the cuts have.  HiGHS keeps the
basis: a new cut is a new row, and the simplex method goes on from where it was.  A feature becomes a column
once its slope comes near what the penalty holds; most features never do.

No number of HiGHS is trusted.  Its multipliers are feasible up to a tolerance only: they are made nonnegative
and scaled to sums of one, and the bound is evaluated from them in float64 (`separable_bound`), which scales
the plane to a slope that the penalty outweighs.

HiGHS is a library because a simplex method with a warm basis is a large program; it is loaded only when there
is a linear programme (0.2 s).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot
from bmrm.linear.bundle.cut_model import CutModel, combination
from bmrm.linear.regularizers.separable import Separable

if TYPE_CHECKING:
    import highspy

Bound = Callable[[CutModel, Vector], float]

FEASIBILITY_TOL = 1e-10
"""Tolerance of HiGHS: the smallest that it accepts."""

MAX_SIMPLEX_STEPS = 20_000
"""Maximum number of steps of the simplex method in one run. If slopes are near the ends of the range of
HiGHS, it may run for ever; after this many steps the programme is not asked again."""

COLUMN_SLOPE_SHARE = 0.8
"""Features whose slope is at least this share of what the penalty holds become columns at once."""

MAX_COLUMN_ROUNDS = 4
"""Maximum number of rounds; in each, features become columns whose slope is beyond what the penalty holds at
the last answer."""


class LinearModel:
    """The linear programme of one run, kept from pass to pass.

    The terms have no curvature.
    """

    def __init__(self, terms: Separable) -> None:
        self.terms = terms
        self._highs: highspy.Highs | None = None
        self._rows: Indices = np.empty(0, np.int64)
        # The columns of each feature, above and below the prior mean; 0, which is a block's column, for none.
        self._up, self._down = np.zeros((2, len(terms.l1)), np.int32)
        self.taken = True
        """Whether HiGHS has accepted all numbers and come to an end: slopes of 1e15 and levels of 1e20 are
        too large for it."""

    def bound(self, cuts: CutModel, a: Vector, evaluate: Bound) -> float:
        """Return the best bound of the planes, as ``evaluate`` computes it from the programme's multipliers.

        ``a`` is the slope of a mean plane that is near the best one. If HiGHS refuses a number, the bound
        need not be the best, and ``taken`` is false.
        """
        if self._highs is None:
            self._highs = self._build(cuts)
        highs, best = self._highs, -np.inf
        self._update_rows(highs, cuts)
        wanted = np.abs(a) >= COLUMN_SLOPE_SHARE * self.terms.l1
        for _ in range(MAX_COLUMN_ROUNDS):
            self._add_columns(highs, cuts, np.flatnonzero(wanted & (self._up == 0)))
            columns = cuts.groups + 2 * int(np.count_nonzero(self._up))
            self.taken = (highs.getNumRow(), highs.getNumCol()) == (1 + len(self._rows), columns)
            if not self.taken:
                break
            highs.run()
            self.taken = highs.getInfo().simplex_iteration_count < MAX_SIMPLEX_STEPS
            duals = np.asarray(highs.getSolution().row_dual)[1 + self._places(cuts.serials)]
            duals = np.maximum(0.0, duals)
            sums = np.bincount(cuts.blocks, duals, cuts.groups)
            if not (np.isfinite(duals).all() and (sums > 0.0).all()):
                break
            # The sums fall short of one by the share of the floor, which `evaluate` finds again.
            alpha = duals / sums[cuts.blocks]
            best = max(best, evaluate(cuts, alpha))
            a, _ = combination(cuts, alpha)
            wanted = np.abs(a) * float(sums.min()) > self.terms.l1
            if not (wanted & (self._up == 0)).any():
                break
        return best

    def _places(self, serials: Indices) -> NDArray[np.intp]:
        """Return the rows of cuts, not counting the row of the floor."""
        order = np.argsort(self._rows)
        return np.asarray(order[np.searchsorted(self._rows[order], serials)])

    def _build(self, cuts: CutModel) -> highspy.Highs:
        highs = _quiet()
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("simplex_iteration_limit", MAX_SIMPLEX_STEPS)
        highs.setOptionValue("primal_feasibility_tolerance", FEASIBILITY_TOL)
        highs.setOptionValue("dual_feasibility_tolerance", FEASIBILITY_TOL)
        groups, inf = cuts.groups, highs.getInfinity()
        none = np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
        highs.addCols(groups, np.ones(groups), np.full(groups, -inf), np.full(groups, inf), 0, *none)
        highs.addRow(cuts.floor, inf, groups, np.arange(groups, dtype=np.int32), np.ones(groups))
        return highs

    def _update_rows(self, highs: highspy.Highs, cuts: CutModel) -> None:
        """Delete the rows of cuts that are gone, and append those of new ones."""
        stay = np.isin(self._rows, cuts.serials)
        gone = 1 + np.flatnonzero(~stay)
        if len(gone):
            highs.deleteRows(len(gone), gone.astype(np.int32))
        fresh = np.flatnonzero(~np.isin(cuts.serials, self._rows))
        self._rows = np.concatenate([self._rows[stay], cuts.serials[fresh]])
        features = np.flatnonzero(self._up)
        for i in fresh:
            a = cuts.gradients[i, features]
            columns = np.concatenate([cuts.blocks[i : i + 1], self._up[features], self._down[features]])
            level = cuts.offsets[i] + dot(cuts.gradients[i], self.terms.prior)
            values = np.concatenate([[1.0], -a, a])
            highs.addRow(level, highs.getInfinity(), len(columns), columns, values)

    def _add_columns(self, highs: highspy.Highs, cuts: CutModel, features: NDArray[np.intp]) -> None:
        """Make features columns, above the prior mean and below it, as far as the domain goes."""
        if not len(features):
            return
        p, count = self.terms, len(features)
        rows = np.tile(1 + self._places(cuts.serials), count).astype(np.int32)
        starts = np.arange(count, dtype=np.int32) * len(cuts.serials)
        slopes = np.ascontiguousarray(cuts.gradients[:, features].T).ravel()
        low, high = (p.low - p.prior)[features], (p.high - p.prior)[features]
        for place, least, most, sign in ((self._up, low, high, -1.0), (self._down, -high, -low, 1.0)):
            place[features] = highs.getNumCol() + np.arange(count)
            bounds = np.maximum(0.0, least), np.maximum(0.0, most)
            highs.addCols(count, p.l1[features], *bounds, len(slopes), starts, rows, sign * slopes)


def _quiet() -> highspy.Highs:
    import highspy

    class Quiet(highspy.Highs):
        """Silent from its first call on: the constructor makes a call that prints a banner in 1.16."""

        def enableCallbacks(self) -> None:  # noqa: N802
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()  # type: ignore[no-untyped-call]

    highs = Quiet()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    return highs
