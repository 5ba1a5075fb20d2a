"""Newton's steps for losses with kinks: how far the kinks are rounded, pass by pass.

Many small kinks in a row look like a curve from afar.  Where X is narrow, a step goes to Newton's point of
the risk with kinks rounded over a width h (``src_common/rounded.h``), the line there is searched for the
least of that risk, and the cut is taken with its derivatives.  Such a cut is no subgradient, yet it bounds
the risk as it is, less what rounding hides: h^2 times the density of rows near their kinks, or so.  At the
minimum of the rounded objective one such cut closes the gap up to that (Nesterov, Math. Programming 103
(2005) 127, estimates it; here it is evaluated).

So h begins wide and shrinks, to where it hides a share of the tolerance, as long as Newton's steps stay good.
A short step says that h is too narrow for the quadratic model: too few rows are near their kinks to tell the
curvature in all features.  Then it is the kinks themselves that matter, and cuts at them take over.
"""

from __future__ import annotations

import numpy as np

from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.objective.objective import CutBatch, Iterate, Objective

FIRST = 1.5
"""First width, as a share of the objective: with the hinge at zero all rows are well within it."""

SHARE, SOME, FALLEN = 0.3, 0.1, 0.3
"""What rounding may hide: a share of the tolerance at last, before of the gap and of the last fall of J."""

RATE = 0.2
"""Least that a width is of the last one."""

SHORT, LONG = 0.1, 0.5
"""Steps with which Newton's steps end, and from which on the width may shrink."""

CLOSED, PATIENT = 0.7, 2
"""Or end where, at the last width, more than this share of the gap is left by so many passes in a row."""

EXACT = 0.01
"""Accuracy of a search along a line, as a share of what the rounding hides, or may hide at last."""


class Smoothing:
    """The width over which the kinks of a loss are rounded in a run, and the point that Newton has reached.

    Parameters
    ----------
    objective : Objective
        Of a loss with kinks.
    start : Iterate

    Attributes
    ----------
    width : float
        0 where the kinks are as they are.
    reached : Iterate
        Where the rounded objective is least so far: the best point, but for what the rounding hides.
    """

    def __init__(self, objective: Objective, start: Iterate) -> None:
        assert isinstance(objective.passes, HostPasses | GpuPasses)
        self._reg, self._passes = objective.reg, objective.passes
        self.reached = start
        # Unknown as yet: the first step of some length shrinks the width by as much as one may.
        self._hidden = self._last_gap = np.inf
        self._short, self._idle = False, 0
        self.round(FIRST * start.objective)

    def round(self, width: float) -> None:
        """Round the kinks over ``width`` from now on; not at all for 0."""
        self.width = width
        self._passes.round_kinks(width)

    def fit(self, gap: float, tol: float) -> None:
        """Begin near a minimum: with the width that hides as much as is allowed."""
        allowed = max(SHARE * tol, SOME * gap)
        at, passes = self.reached, self._passes
        rounded, _ = passes.derivatives(at.margins, None, 0.0, at.intercept, 1)
        hidden = passes.risk(at.margins, None, 0.0, at.intercept)[0] - rounded
        if hidden > allowed:
            self.round(self.width * float(np.sqrt(allowed / hidden)))

    def accuracy(self, tol: float) -> float:
        """Accuracy that a search along a line to Newton's point needs."""
        return EXACT * max(SHARE * tol, min(self._hidden, FALLEN * abs(self.reached.objective)))

    def move(self, found: Iterate, step: float, gap: float, tol: float) -> None:
        """Go to the end of a search, and choose the width of the cut there."""
        fall = max(0.0, self.reached.objective - found.objective)
        self.reached, self._short = found, step < SHORT
        if step >= LONG:
            allowed = max(SHARE * tol, min(SOME * gap, SOME * abs(found.objective), FALLEN * fall))
            if self._hidden > allowed:
                self.round(self.width * max(float(np.sqrt(allowed / self._hidden)), RATE))

    def of_use(self, cut: CutBatch, gap: float, tol: float) -> bool:
        """Look at the cut at the point reached; tell whether to go on."""
        at = self.reached
        self._hidden = at.objective - self._passes.penalty(self._reg, at.w) - cut.risk
        idle = self._hidden < 2.0 * SHARE * tol and gap > CLOSED * self._last_gap
        self._idle, self._last_gap = self._idle + 1 if idle else 0, gap
        return not self._short and self._idle < PATIENT
