"""Adds cuts to the bundle of a run: at the best point, on a line, or made by a step."""

from __future__ import annotations

from bmrm.base import interrupts
from bmrm.errors import BmrmError
from bmrm.linear.objective.objective import Line
from bmrm.linear.objective.passes import CutBatch
from bmrm.linear.solvers.state import UNKNOWN_GRADIENTS, State

MAX_TRIES = 30
"""Number of times that a useless cut is moved closer to the best iterate, to a tenth of the way each time."""

USELESS_RISK = 1e6
"""A risk above this multiple of the first objective, as exp() reaches far from any optimum, says nothing
about points near the optimum, and its cut drowns the others."""

FLOOR_DEPTH = 1e9
"""The floor becomes a cut if the bound of the first cuts is below 0 by this multiple of the first
objective."""


class Cutter:
    """Adds cuts to the bundle of a run; `make_room` comes first."""

    def __init__(self, state: State) -> None:
        self._state, self._bundle = state, state.bundle

    def make_room(self) -> None:
        """Make room in the bundle for the cuts of a pass."""
        with interrupts.hold_signals():  # an interrupt leaves a bundle of whole cuts
            self._bundle.make_room()
        self._state.lap("bundle")

    def add(self, cut: CutBatch) -> bool:
        """Add a cut after `make_room`; return False if it means nothing."""
        state = self._state
        # Negated, so that NaN is refused as well.
        if not cut.risk <= USELESS_RISK * state.first_objective:
            return False
        with interrupts.hold_signals():
            added = self._bundle.add(cut)
        if not added:
            return False
        state.largest_risk = max(state.largest_risk, abs(cut.risk))
        state.lap("bundle")
        state.gradients = cut.planes.gradients if state.keeps_gradients else UNKNOWN_GRADIENTS
        return True

    def at_best(self) -> None:
        """Cut at the best point itself."""
        state = self._state
        self.make_room()
        if self._at(Line(state.objective, state.best, state.best.w, None), 0.0) is None:
            raise BmrmError(
                f"loss {state.objective.loss.name}: its derivatives are not finite at the best iterate"
            )

    def on_line(self, line: Line, step: float, shift: float) -> CutBatch:
        """Cut at ``step + shift`` on the line, or closer to its start if the loss overflows there."""
        for _ in range(MAX_TRIES):
            cut = self._at(line, step + shift)
            if cut is not None:
                return cut
            step, shift = (step, 0.1 * shift) if shift else (0.0, 0.0)
        # With a tiny lam the line may end so far away that no point of it is near: nothing will move then.
        cut = self._at(line, 0.0)
        if cut is not None:
            return cut
        raise BmrmError("the risk is not finite anywhere near the best iterate")

    def _at(self, line: Line, t: float) -> CutBatch | None:
        """Add the cut at a point of the line; None if it means nothing."""
        cut = line.cut(t, self._state.accuracy())
        self._state.lap("loss")
        return cut if self.add(cut) else None

    def look_at_depth(self) -> None:
        """Look at how far below the cuts' values the first cuts bound the optimum.

        It is the size of an objective that is 0 at the start, whatever X is.  If it is far below the floor,
        lam is so small that the risk may be hardly more than the floor at the optimum: there cuts hold masses
        of the size of lam, and the floor the rest.  Without it they would add up to its plane in all digits.
        """
        state, objective, bundle = self._state, self._state.objective, self._bundle
        if objective.reg.needs_floor:  # all planes are mixed with it
            return
        depth = bundle.depth(objective.reg.lam)
        if objective.loss.intercept_slope:
            bundle.first_objective = max(state.first_objective, depth)
        elif depth > FLOOR_DEPTH * state.first_objective:
            self.add_floor()

    def add_floor(self) -> None:
        """Add the plane at the floor of the loss."""
        with interrupts.hold_signals():
            self._bundle.make_room()
            self._bundle.add_floor()
