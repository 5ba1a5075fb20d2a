"""When a run that makes no progress ends: rounding, or ``max_cuts``, hides the rest of the gap."""

from __future__ import annotations

import numpy as np

MAX_IDLE_PASSES = 25
"""Passes without progress of objective or bound after which rounding is taken to hide the rest of the gap; or
``max_cuts`` is, if it has cost cuts that the model was made of."""

MIN_PROGRESS = 1e-15
"""Change of objective or bound, as a share of the objective, that counts as progress."""

ROUNDED_GAP = 1e-9
"""Share of the first objective above which a gap is hardly rounding. A kink in many features may then take as
many passes without progress as there are cuts."""

MAX_VAIN_PASSES = 1000
"""Passes after which a run ends that has hardly closed the gap: ten times as many would hardly do."""

MIN_GAP_DECREASE = 0.01
"""Share of the gap that they have to close."""


class StallWatch:
    """Remembers when objective, bound and gap last moved."""

    def __init__(self) -> None:
        self._last_progress = self._last_gain = 0
        self._last_gap = np.inf

    def begin(self, iteration: int) -> None:
        """Count from an iteration."""
        self._last_progress = self._last_gain = iteration

    def note(self, iteration: int, amount: float, objective: float) -> None:
        """Note a change of objective or bound, if it is not rounding."""
        if not amount <= MIN_PROGRESS * abs(objective):
            self._last_progress = iteration

    def excuse(self, iteration: int) -> None:
        """Count passes without progress anew, for another kind of step."""
        self._last_progress = iteration

    def is_stalled(self, iteration: int, gap: float, first_objective: float, cuts: int) -> bool:
        """Whether nothing has moved for so long that nothing will."""
        if not gap > (1.0 - MIN_GAP_DECREASE) * self._last_gap:
            self._last_gain, self._last_gap = iteration, gap
        if iteration - self._last_gain > MAX_VAIN_PASSES:
            return True
        few = self.is_rounding(gap, first_objective)
        return iteration - self._last_progress > (MAX_IDLE_PASSES if few else max(MAX_IDLE_PASSES, cuts))

    def is_rounding(self, gap: float, first_objective: float) -> bool:
        """Whether a gap is so small that rounding may be all of it."""
        return gap <= ROUNDED_GAP * first_objective
