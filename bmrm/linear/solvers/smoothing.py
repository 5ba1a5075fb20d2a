"""Newton's steps for losses with kinks: how far the kinks are rounded, pass by pass.

Many small kinks in a row look like a curve from afar.  If X is narrow, a step goes to Newton's point of the
risk with kinks rounded over a width h (``src_common/rounded.h``), the line there is searched for the minimum
of that risk, and the cut is taken with its derivatives.  Such a cut is no subgradient, but it bounds the risk
as it is, less what rounding hides: h^2 times the density of rows near their kinks, or so.  At the minimum of
the rounded objective one such cut closes the gap up to that (Nesterov, Math. Programming 103 (2005) 127,
estimates it; here it is evaluated).

So h begins wide and shrinks, until it hides only a share of the tolerance, as long as Newton's steps stay
good.  A short step says that h is too narrow for the quadratic model: too few rows are near their kinks to
show the curvature in all features.  Then the kinks themselves matter, and cuts at them take over.
"""

from __future__ import annotations

import numpy as np

from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import CutBatch, Iterate

FIRST_WIDTH = 1.5
"""First width, as a share of the objective: with the hinge at zero, all rows are well within it."""

MIN_WIDTH_RATIO = 0.2
"""Smallest ratio of a width to the one before."""

MAX_HIDDEN_OF_TOL = 0.3
"""What rounding may hide at the last width, as a share of the tolerance."""

MAX_HIDDEN_OF_GAP = 0.1
"""What it may hide before, as a share of the gap, and of the objective."""

MAX_HIDDEN_OF_DECREASE = 0.3
"""And as a share of the last decrease of J."""

SHORT_STEP = 0.1
"""Newton's steps end with a step shorter than this."""

LONG_STEP = 0.5
"""The width may shrink after a step at least as long as this."""

MIN_GAP_RATIO = 0.7
"""At the last width, a pass that leaves more than this share of the gap is idle."""

MAX_IDLE_PASSES = 2
"""Newton's steps end after this number of idle passes in a row."""

SEARCH_ACCURACY = 0.01
"""Accuracy of a line search, as a share of what the rounding hides now, or may hide at the last width."""


class Smoothing:
    """How wide the kinks of a loss are rounded (`Objective.kink_width`), and where Newton's steps have led.

    - ``objective``: with a loss that has kinks
    - ``reached``: the minimum of the rounded objective so far: the best point, up to what the rounding hides
    """

    def __init__(self, objective: Objective, start: Iterate) -> None:
        self._objective = objective
        self.reached = start
        # Unknown as yet: the first long step shrinks the width as far as is allowed.
        self._hidden = self._last_gap = np.inf
        self._short, self._idle = False, 0
        objective.round_kinks(FIRST_WIDTH * start.objective)

    def _narrow(self, ratio: float) -> None:
        """Multiply the width by a ratio."""
        self._objective.round_kinks(self._objective.kink_width * ratio)

    def fit(self, gap: float, tol: float) -> None:
        """Begin near a minimum: with the width that hides as much as is allowed."""
        allowed = max(MAX_HIDDEN_OF_TOL * tol, MAX_HIDDEN_OF_GAP * gap)
        at, passes = self.reached, self._objective.passes
        rounded, _ = passes.derivatives(at.margins, None, 0.0, at.intercept, 1)
        hidden = passes.risk(at.margins, None, 0.0, at.intercept)[0] - rounded
        if hidden > allowed:
            self._narrow(float(np.sqrt(allowed / hidden)))

    def accuracy(self, tol: float) -> float:
        """Return the accuracy that a search along a line to Newton's point needs."""
        hidden = min(self._hidden, MAX_HIDDEN_OF_DECREASE * abs(self.reached.objective))
        return SEARCH_ACCURACY * max(MAX_HIDDEN_OF_TOL * tol, hidden)

    def move(self, found: Iterate, step: float, gap: float, tol: float) -> None:
        """Go to the end of a search, and choose the width of the cut there."""
        decrease = max(0.0, self.reached.objective - found.objective)
        self.reached, self._short = found, step < SHORT_STEP
        if step >= LONG_STEP:
            some = MAX_HIDDEN_OF_GAP * gap, MAX_HIDDEN_OF_GAP * abs(found.objective)
            allowed = max(MAX_HIDDEN_OF_TOL * tol, min(*some, MAX_HIDDEN_OF_DECREASE * decrease))
            if self._hidden > allowed:
                self._narrow(max(float(np.sqrt(allowed / self._hidden)), MIN_WIDTH_RATIO))

    def is_useful(self, cut: CutBatch, gap: float, tol: float) -> bool:
        """Look at the cut at the point reached; return whether to go on."""
        at, objective = self.reached, self._objective
        self._hidden = at.objective - objective.passes.penalty(objective.reg, at.w) - cut.risk
        idle = self._hidden < 2.0 * MAX_HIDDEN_OF_TOL * tol and gap > MIN_GAP_RATIO * self._last_gap
        self._idle, self._last_gap = self._idle + 1 if idle else 0, gap
        return not self._short and self._idle < MAX_IDLE_PASSES
