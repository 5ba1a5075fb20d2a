"""Bundle methods for regularised risk minimisation: the outer loop.

A pass minimises the cutting-plane model, which bounds the optimum from below, and takes a step: a new best
point, perhaps, and a cut that improves the model.  `State` knows the gap between the two; `steps.py` has the
kinds of step.  The loop reads like the one in docs/algorithm.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base import interrupts
from bmrm.base.vectors import Vector, copy_arrays
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import Gradients, Iterate, Weights
from bmrm.linear.solvers.cutting import Cutter
from bmrm.linear.solvers.progress import Progress, Status
from bmrm.linear.solvers.settings import Settings
from bmrm.linear.solvers.state import State
from bmrm.linear.solvers.steps import (
    AscentStep,
    CutAtMinimiser,
    CutBeyondBest,
    FirstStep,
    NewtonStep,
    SmoothedNewtonStep,
    Step,
    interior_step,
)

QP_TOL = {"ocas": 0.1, "bmrm": 0.01}
"""Gap of the inner QP, as a share of the outer one."""


class BundleMethod:
    """One run of the outer loop.

    - ``w``: where to start; None for 0
    - ``warm``: whether w is no better than a guess, so that 0 is tried too if it looks bad
    - ``interrupted``: whether a signal ended the run, and not the callback
    """

    def __init__(
        self,
        objective: Objective,
        bundle: Bundle,
        settings: Settings,
        w: Vector | None,
        first_step: FirstStep = "cuts",
        *,
        warm: bool = False,
    ) -> None:
        self.objective, self.bundle, self.settings = objective, bundle, settings
        self.history: list[dict[str, Any]] = []
        self.status: Status = "interrupted"
        self.interrupted = False
        self.state = State(objective, bundle, settings, w, warm=warm)
        self._cutter = Cutter(self.state)
        self._newton: NewtonStep | None = None
        self._ascent: AscentStep | None = None
        self._steps = self._kinds_of_step(first_step)

    def _kinds_of_step(self, first: FirstStep) -> list[Step]:
        given = self.state, self._cutter
        cut: Step = CutBeyondBest(*given) if self.settings.solver == "ocas" else CutAtMinimiser(*given)
        if first == "newton":
            make = SmoothedNewtonStep if self.objective.loss.kinked else NewtonStep
            self._newton = make(*given, cut)
        interior = interior_step(*given) if self.settings.solver == "ocas" else None
        if first == "ascent":
            self._ascent = AscentStep(*given)
        return [step for step in (self._newton, self._ascent, interior, cut) if step is not None]

    def expect_gradients(self, gradients: Gradients) -> None:
        """Give the gradients at the start to Newton's steps, if they are known, or nearly so."""
        if self._newton is not None:
            self._newton.expect(gradients)

    def certified(self) -> Iterate:
        """Return the best iterate, with J from a new product."""
        return self.state.certified()

    def minimise(self) -> None:
        """Run until converged or stopped.

        Ctrl-C ends the run after the iteration, a second one at once. The best iterate so far is kept, and
        signals wait from there on, until something was made of it.
        """
        self.state.given = None
        try:
            interrupts.set_signal_mode(interrupts.AWAITED)
            self._loop_quietly()
        except KeyboardInterrupt:
            self.status, self.interrupted = "interrupted", True
            self.state.doubt()
        finally:
            interrupts.set_signal_mode(interrupts.HELD)

    def _loop_quietly(self) -> None:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self._loop()
        finally:
            if self._newton is not None:
                self._newton.clean_up()

    def _loop(self) -> None:
        state, bundle = self.state, self.bundle
        if state.is_proven():  # by an earlier run
            self.status = "converged"
            state.settle()
            self._observe()
            return
        if not len(bundle) and self._ascent is None:
            self._cutter.at_best()
        if len(bundle):
            self._cutter.look_at_depth()
        while not self._ended():  # max_iter, max_time, callback, stalled
            state.iteration += 1
            begins = not len(bundle)
            if begins and self._ascent is not None:  # its cut is the first of the model
                self._ascent.begin()
            minimiser = self._minimise_model()  # raises the bound: min over w of the model
            if state.is_resolved():  # gap <= tol, with J from a new product
                self.status = state.conclude(minimiser)
                self._observe()
                return
            if not begins:
                step = next(step for step in self._steps if step.pays())
                step.take(minimiser)  # lowers J, and adds a cut

    def _minimise_model(self) -> Weights:
        """Return the minimiser of the model; keep its value, a bound on the optimum, if it is the best."""
        state = self.state
        state.clock.start()
        radius = state.model.radius
        state.inform_errors()
        with interrupts.hold_signals():
            minimiser, bound = self.bundle.minimise(state.model, state.best, QP_TOL[self.settings.solver])
        state.lap("qp")
        if state.model.radius != radius:  # what was certified is void
            state.bound = state.proven = -np.inf
        state.raise_bound(bound, minimiser)
        return minimiser

    def _ended(self) -> bool:
        """Observe the iteration that is over; return whether a limit was hit."""
        stop = self._observe() if self.state.iteration else False
        stop, self.interrupted, late = self._agreed(
            stop, interrupts.requested(), self.state.clock.elapsed >= self.settings.max_time
        )
        if stop or self.interrupted:
            self.status = "interrupted"
        elif self.state.iteration >= self.settings.max_iter:
            self.status = "max_iter"
        elif late:
            self.status = "max_time"
        elif self._is_stalled() and not self._starts_plain_cuts():
            self.status = "max_cuts" if self.bundle.merges else self.state.status_at_standstill()
        else:
            return False
        return True

    def _starts_plain_cuts(self) -> bool:
        """Go on with cuts at the minimiser of the model, if searches get no further far from the optimum.

        That method needs no search to make progress: each of its cuts raises the model where it was lowest.
        """
        state = self.state
        last = self._steps[-1]
        if type(last) is CutAtMinimiser or state.stall.is_rounding(state.gap, state.first_objective):
            return False
        self._steps = [CutAtMinimiser(state, self._cutter)]
        state.stall.begin(state.iteration)
        return True

    def _is_stalled(self) -> bool:
        """Whether nothing has moved for so long that nothing will; ascent itself knows when to end."""
        if self._ascent is not None and self._ascent.active:
            return False
        state = self.state
        return state.stall.is_stalled(state.iteration, state.gap, state.first_objective, len(self.bundle))

    def _agreed(self, stop: bool, interrupted: bool, late: bool) -> tuple[bool, bool, bool]:
        """Return whether the callback, a signal or the clock ends the run, on any process of several."""
        return stop, interrupted, late

    def _observe(self) -> bool:
        """Note the iteration in the history; return whether the callback wants to stop."""
        state = self.state
        best = state.best
        row: dict[str, Any] = {
            "iteration": state.iteration,
            "objective": best.objective,
            "lower_bound": state.lower_bound,
            "gap": best.objective - state.lower_bound,
            "cuts": len(self.bundle),
            "step": state.step,
            "seconds": dict(self.state.clock.seconds),
            "elapsed": self.state.clock.elapsed,
        }
        self.history.append(row)
        if self.settings.callback is None:
            return False
        progress = Progress(
            **row, tol=state.tol, model=lambda: copy_arrays(self.objective.model(best)), bundle=self.bundle
        )
        return bool(self.settings.callback(progress))

    def record(self) -> list[dict[str, Any]]:
        """Return the history; in float32 with no bound above the last one, as rounding is measured last."""
        if not self.settings.resolution:
            return self.history
        last = self.state.lower_bound
        for row in self.history:
            row["lower_bound"] = min(row["lower_bound"], last)
            row["gap"] = row["objective"] - row["lower_bound"]
        return self.history
