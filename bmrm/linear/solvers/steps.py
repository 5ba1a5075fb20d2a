"""The kinds of step that a pass may take, in order of preference.

*Newton's point* (`newton.py`): if the loss is smooth and X narrow, the line goes to Newton's point, and the
cut is taken at the new best point itself: its gradient is what the next such step needs, and near the optimum
that one cut closes the gap.  For a loss with kinks these are rounded meanwhile (`smoothing.py`): the lines
then begin where Newton's steps have led, which may be a little above the best point.

*Ascent in the dual* (`dual_ascent.py`): first if X is wide, as for text.

*Interior-point steps* (`interior_point.py`): if planes would take long to end a run on kinks.

*Cuts*: ``solver="bmrm"`` is algorithm 1 of Teo, Vishwanathan, Smola, Le, JMLR 11 (2010) 311: a cut at the
minimiser of the model, again and again.  ``solver="ocas"`` keeps the best point and searches the line from it
to the model's minimiser exactly (Franc, Sonnenburg, JMLR 10 (2009) 2157, algorithm 3); its cut is taken a
little beyond the new best point.  How little follows the step t of the search: shift = min(0.1, 2 t).  While
the model is poor its minimiser is far away and t is tiny; a fixed share of that distance would put the cut
where it says nothing about the optimum.  If J hardly moves, as on a kink, a cut so close would only repeat
what is known: the shift then grows tenfold per pass.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

import numpy as np

from bmrm.linear.objective.objective import Line
from bmrm.linear.objective.passes import MAX_SHIFT, SHIFT_PER_STEP, Gradients, Iterate, Weights
from bmrm.linear.solvers.cutting import FLOOR_DEPTH, Cutter
from bmrm.linear.solvers.dual_ascent import Halving
from bmrm.linear.solvers.interior_point import InteriorPoint
from bmrm.linear.solvers.interior_rule import InteriorRule, may_step
from bmrm.linear.solvers.smoothing import Smoothing
from bmrm.linear.solvers.state import State

STUCK_DECREASE = 1e-5
"""Decrease of J, as a share of the gap, up to which the next cut is taken farther beyond the best point."""

MIN_FIRST_STEP = 1e-12
"""Smallest first step that a line search tries."""

CONTENT_SLOPE = 0.3
"""Share of the first slope that a step of 1 to Newton's point may leave, to be taken as it is."""

MIN_DECREASE = 1e-12
"""Newton's steps end if J decreases by no more than this share, and the bound hardly rises."""

MIN_BOUND_RISE = 0.1
"""Rise of the bound, as a share of the gap that is left, up to which it hardly rises."""

SLOW_DECREASE = 0.03
"""A Newton step is slow if it decreases J by no more than this share of the gap, unless steps are quick."""

QUICK_DECREASE_RATIO = 0.1
"""Steps are quick if J decreases by no more than this share of the decrease before: each leaves far less to
the next."""

MAX_SLOW_STEPS = 3
"""Newton's steps end after this number of slow ones in a row. Then, as for few rows under a penalty with
kinks, the cuts alone take fewer passes."""


FirstStep = Literal["newton", "ascent", "cuts"]
"""The kind of step that a run begins with."""


class Step(Protocol):
    """A kind of step: it looks for a better point and adds a cut to the bundle."""

    def pays(self) -> bool:
        """Whether this is the kind of step to take next, if no kind before it is."""

    def take(self, minimiser: Weights) -> None:
        """Take a step.

        Parameters
        ----------
        minimiser : Weights
            Of the cutting-plane model.
        """


class CutAtMinimiser:
    """The method as published: a cut at the minimiser of the model."""

    def __init__(self, state: State, cutter: Cutter) -> None:
        self._state, self._cutter = state, cutter

    def pays(self) -> bool:
        return True

    def take(self, minimiser: Weights) -> None:
        state = self._state
        line = state.objective.line(state.best, minimiser)
        state.lap("products")
        self._cutter.make_room()
        self._advance(line)

    def _advance(self, line: Line) -> None:
        self._state.improve(line, 1.0)
        self._cutter.on_line(line, 0.0, 1.0)


class CutBeyondBest(CutAtMinimiser):
    """A line search from the best point to the minimiser of the model, and a cut beyond its end."""

    def _advance(self, line: Line) -> None:
        state = self._state
        before = state.best.objective
        step = state.step = line.search(max(2.0 * state.step, MIN_FIRST_STEP), state.accuracy())
        state.lap("search")
        state.improve(line, step)
        stuck = before - state.best.objective <= STUCK_DECREASE * min(state.gap, abs(before))
        shift = 10.0 * max(state.shift, step) if stuck or step == 0.0 else SHIFT_PER_STEP * step
        # If the risk is at its floor on most of the way, a cut there is the floor's own.
        farthest = 1.0 if stuck and state.bundle.floored else MAX_SHIFT
        state.shift = min(farthest, shift or farthest)
        self._cutter.on_line(line, step, state.shift)


class NewtonStep:
    """A line search from the best point to Newton's point, and a cut at its end.

    ``otherwise`` is taken with the model's minimiser if there is no Newton point.
    """

    def __init__(self, state: State, cutter: Cutter, otherwise: Step) -> None:
        self._state, self._cutter, self._otherwise = state, cutter, otherwise
        self._last_bound, self._last_decrease, self._slow = -np.inf, 0.0, 0
        self._level: Iterate | None = None  # the point of the gradients, if it is not the best
        state.keeps_gradients = True

    def pays(self) -> bool:
        return self._state.keeps_gradients

    def expect(self, gradients: Gradients) -> None:
        """Begin with these gradients at the best point."""
        self._state.gradients = gradients

    def take(self, minimiser: Weights) -> None:
        """Search the line to Newton's point; without one, take the other step, now and from now on."""
        state, objective = self._state, self._state.objective
        if not len(state.gradients):  # the cuts so far were taken elsewhere
            self._begin_at_best()
        w = objective.passes.newton_point(objective, self._origin, state.gradients)
        state.lap("newton")
        if w is None:
            self._end()
            self._otherwise.take(minimiser)
            return
        line = objective.line(self._origin, w)
        state.lap("products")
        self._cutter.make_room()
        self._advance(line)

    @property
    def _origin(self) -> Iterate:
        return self._level or self._state.best

    def _begin_at_best(self) -> None:
        self._level = None
        self._cutter.at_best()

    def _advance(self, line: Line) -> None:
        """Search the line; cut at the new best point, whose gradient the next step needs."""
        state = self._state
        before = state.best.objective
        content = CONTENT_SLOPE if state.objective.takes_full_steps else 0.0
        step = state.step = line.search(1.0, state.accuracy(), content, 0.0)
        state.lap("search")
        self._level = None
        end = self._level_end(line, before) if step == 0.0 else None
        if end is not None:
            # J is level to rounding, but its slope is not: the cut at Newton's point bounds J more closely.
            step = 1.0
            # Another look for a free intercept begins at the one found, and comes closer to its minimum.
            known = None if state.objective.profile else end
            self._level = state.improve(line, step, to_newton=True, continues=True, known=known)
        else:
            state.improve(line, step, to_newton=True)
        decrease, state.shift = before - state.best.objective, 0.0
        self._cutter.on_line(line, step, 0.0)
        rising = state.bound - self._last_bound > MIN_BOUND_RISE * state.gap
        quick = QUICK_DECREASE_RATIO * self._last_decrease >= decrease
        slow = not rising and not quick and decrease <= SLOW_DECREASE * state.gap
        self._slow, self._last_decrease = self._slow + 1 if slow else 0, decrease
        self._last_bound = state.bound
        if self._slow >= MAX_SLOW_STEPS or not (rising or decrease > MIN_DECREASE * abs(before)):
            self._end()

    def _level_end(self, line: Line, before: float) -> Iterate | None:
        """Return the end of the line if J exceeds ``before`` there by no more than rounding."""
        accuracy = self._state.accuracy()
        end = line.at(1.0, accuracy)
        return end if end.objective <= before + accuracy else None

    def _end(self) -> None:
        self._state.keeps_gradients = False

    def clean_up(self) -> None:
        """Leave the passes as they were before the run."""


class SmoothedNewtonStep(NewtonStep):
    """`NewtonStep` for a loss with kinks, which are rounded meanwhile."""

    def __init__(self, state: State, cutter: Cutter, otherwise: Step) -> None:
        super().__init__(state, cutter, otherwise)
        self._smoothing = Smoothing(state.objective, state.best)

    def expect(self, gradients: Gradients) -> None:
        """Ignore them: their kinks are not rounded."""

    @property
    def _origin(self) -> Iterate:
        return self._smoothing.reached

    def _begin_at_best(self) -> None:
        self._smoothing.fit(self._state.gap, self._state.tol)
        super()._begin_at_best()

    def _advance(self, line: Line) -> None:
        state, smoothing = self._state, self._smoothing
        step = state.step = line.search(1.0, smoothing.accuracy(state.tol), reach=0.0)
        state.lap("search")
        smoothing.move(state.improve(line, step, to_newton=True, continues=True), step, state.gap, state.tol)
        if not smoothing.is_useful(self._cutter.on_line(line, step, 0.0), state.gap, state.tol):
            self._end()

    def _end(self) -> None:
        super()._end()
        self._state.objective.round_kinks(0.0)
        self._state.evaluate_best()

    def clean_up(self) -> None:
        if self.pays():
            self._state.objective.round_kinks(0.0)


class AscentStep:
    """A step of ascent in the dual, and the cut that its point makes."""

    def __init__(self, state: State, cutter: Cutter) -> None:
        self._state, self._cutter = state, cutter
        objective = state.objective
        self._ascent = objective.passes.begin_ascent(objective, state.best)
        self._halving = Halving(self._ascent.min_steps)
        self._reached = state.best.objective
        self.active = True

    def pays(self) -> bool:
        """Whether the ascent goes on: it ends when it is slow."""
        if self.active and not self._halving.continues(self._state.gap):
            self._end()
        return self.active

    def begin(self) -> None:
        """Take a step while there is no model; its cut, or that at the best point, makes one."""
        self.take(None)
        if not len(self._state.bundle):
            self._cutter.at_best()

    def take(self, minimiser: Weights) -> None:
        """Go up; add the cut that the point of the dual makes."""
        state, objective, ascent = self._state, self._state.objective, self._ascent
        self._cutter.make_room()
        planes, conjugate = ascent.step(self._reached, state.settings.absolute_tol, state.must_end)
        # R(w) >= <X' r, w> - sum_i f_i(r_i), if r is in the domain of every f_i: else the sum is infinite.
        in_domain = math.isfinite(conjugate)
        cut = objective.cut_of_conjugates(planes, np.array([-conjugate])) if in_domain else None
        state.lap("ascent")
        margins = objective.passes.margins(ascent.point)
        found = objective.evaluate_at(ascent.point, margins, state.accuracy())
        self._reached = found.objective
        state.arrive(found, exact=ascent.exact)
        state.lap("loss")
        if cut is None or not self._cutter.add(cut):
            self._end()

    def _end(self) -> None:
        """Go on by cuts, which have not been tried yet."""
        self.active = False
        if not FLOOR_DEPTH * self._state.bound >= self._state.first_objective:
            self._cutter.add_floor()
        self._state.stall.excuse(self._state.iteration)


class InteriorStep:
    """A step of an interior point, and the cut that it makes.

    ``rule`` says when such steps pay.
    """

    def __init__(self, state: State, cutter: Cutter, rule: InteriorRule) -> None:
        self._state, self._cutter = state, cutter
        self._rule: InteriorRule | None = rule
        self._point: InteriorPoint | None = None

    def pays(self) -> bool:
        """Whether such steps have begun, or begin now."""
        state = self._state
        if self._rule is None:
            return False
        if self._point is None and self._rule.pays(state.gap, state.tol, len(state.bundle)):
            if state.objective.passes.has_hessian:
                self._point = InteriorPoint(state.objective, state.best, state.gap)
            else:
                self._rule = None
        return self._point is not None

    def take(self, minimiser: Weights) -> None:
        """Take a step of the interior point, and its cut; if it is of no use, it is the last one."""
        state, point = self._state, self._point
        assert point is not None
        self._cutter.make_room()
        useful = point.step()
        state.lap("newton")
        state.arrive(point.at(state.accuracy()), exact=False)
        cut = point.cut()
        state.lap("loss")
        if cut is None or not self._cutter.add(cut) or not useful:
            self._point = self._rule = None


def interior_step(state: State, cutter: Cutter) -> InteriorStep | None:
    """Return such a step if the problem and the backend have any."""
    objective = state.objective
    if not may_step(objective.operator, objective.loss, objective.reg):
        return None
    costs = objective.passes.interior_costs(objective)
    if costs is None:
        return None
    return InteriorStep(state, cutter, InteriorRule(costs, objective.operator.shape[1], objective.blocks))
