"""Bundle methods for regularised risk minimisation: the outer loop.

``solver="bmrm"`` is algorithm 1 of Teo, Vishwanathan, Smola, Le, JMLR 11 (2010) 311: take a cut at the
minimiser of the model, again and again.  ``solver="ocas"`` keeps the best point and searches the line from
it to the model's minimiser exactly (Franc, Sonnenburg, JMLR 10 (2009) 2157, algorithm 3); its cut is taken
a little beyond the new best point.  How little follows the step t of the search: `shift` = min(0.1, 2 t).
While the model is poor its minimiser is far away and t is tiny; a fixed share of that distance would put the
cut where it says nothing about the optimum.  Where J hardly moves, as on a kink, a cut so close would only
repeat what is known: the shift then grows tenfold a pass.

Where the loss is smooth and X narrow, the line goes to Newton's point instead (``newton.py``), and the cut is
taken at the new best point itself: its gradient is what the next such step needs, and near the optimum that
one cut closes the gap.  A loss with kinks is taken with its kinks rounded meanwhile (``kinks.py``): the lines
then begin where Newton's steps have led, which may be a little above the best point.  Where planes will take
long to end such a run, interior-point steps do it (``interior.py``).  Where X is wide, as of text, ascent in
the dual goes first (``ascent.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.ascent import begin_ascent
from bmrm.bundle import Bundle
from bmrm.errors import BmrmError, DataError
from bmrm.interior import InteriorPoint, go_inside
from bmrm.kinks import Kinks
from bmrm.newton import newton_point
from bmrm.objective import FARTHEST, REACH, USELESS, Cut, Gradients, Iterate, Line, Objective, Weights
from bmrm.outlook import Outlook, can_step
from bmrm.result import Clock, Progress, Status
from bmrm.rounding import rounding
from bmrm.settings import SMALLEST_TOL, Settings

Vector = NDArray[np.float64]

QP_TOL = {"ocas": 0.1, "bmrm": 0.01}
"""Gap of the inner QP, as a share of the outer one."""

SEARCH_TOL, COARSE = 2e-4, 5.0
"""Accuracy of a line search, as a share of the gap: with many rows and few features a coarser one takes a
third more passes. And how many times coarser it is where every slope is a search for the intercept, or where
the penalty has kinks: the lowest point of a line is often at one, and the next lines zigzag along it."""

STUCK = 1e-5
"""Decrease of J, as a share of the gap, under which the next cut is taken farther beyond the best point."""

CONTENT = 0.3
"""Slope that a step to Newton's point may leave, as a share of the first one."""

NO_FALL, RISING = 1e-12, 0.1
"""Newton's steps end where J falls by no more than this share, and the bound rises by no more than this share
of the gap that is left."""

SLOW, QUICK, PATIENT = 0.03, 0.1, 3
"""Or where so many in a row let J fall by less than the first share of the gap, and by more than the second
of the fall before: where steps are quick each leaves far less to the next. Elsewhere, as for few rows beside
kinks of the penalty, the cuts alone take fewer passes."""

MAGNIFIED = 16.0
"""Most that rounding of margins may be magnified. A step t beyond the end of a line takes |1 - t| times what
was there along: after a few steps of 100 the margins would be none of the weights'."""

IMPOSSIBLE = 1e-6
"""A bound above the objective by more than this share of it is no rounding: the loss is not what it says."""

LOST = 1e-14
"""Share of an intercept that rounding of the margins may put into the risk."""

STALL = 25
"""Passes without progress of objective or bound after which rounding is taken to hide the rest of the gap; or
``max_cuts`` is, where it has cost cuts that the model was made of."""

ROUNDED = 1e-9
"""Share of the first objective above which a gap is hardly rounding. A kink in many features may then take as
many passes without progress as there are cuts."""

TRIES = 30
"""Times that a cut which is useless is moved closer to the best iterate, to a tenth of the way each time."""

FAR = 1e3
"""Objective of a start other than zero above which zero may well be better: it costs a product to know. For a
prior mean, or on rows that a warm start has not seen, margins may be where exp() has run away."""

UNKNOWN = np.empty((0, 0))
"""Gradients that nobody has taken."""


class BundleMethod:
    """One run of the outer loop: the best iterate, the bound, and their history; from ``w``, None for 0."""

    def __init__(
        self,
        objective: Objective,
        bundle: Bundle,
        settings: Settings,
        w: Vector | None,
        *,
        newton: bool = False,
        ascent: bool = False,
        warm: bool = False,
    ) -> None:
        self.objective, self.bundle, self.settings = objective, bundle, settings
        self.newton = newton
        self.clock = Clock()
        self.history: list[dict[str, Any]] = []
        self.bound = -np.inf
        self.status: Status = "interrupted"
        self.iteration = 0
        self.step, self.shift = 1.0, FARTHEST
        self._last_bound, self._last_fall, self._slow = -np.inf, 0.0, 0
        self.rounding = self._largest_risk = 0.0
        self._minimiser: Weights | None = None
        start = objective.steps.origin() if w is None else objective.steps.weights(w)
        self.best = self._evaluate(start)
        if warm and w is not None and not self.best.objective <= FAR:
            zero = self._evaluate(objective.steps.weights(objective.reg.project(np.zeros_like(w))))
            if not self.best.objective <= zero.objective:
                self.best = zero
        if not np.isfinite(self.best.objective):
            raise DataError(
                f"loss {objective.loss.name}: the objective is {self.best.objective:g} at the first weights; "
                "labels, weights or values of X are too large"
            )
        self._evaluated, self._measured, self._magnified = True, False, 1.0
        self.kinks = Kinks(objective, self.best) if self.newton and objective.loss.kinked else None
        self.outlook = Outlook(objective) if settings.solver == "ocas" and can_step(objective) else None
        self.inside: InteriorPoint | None = None
        self.ascent = begin_ascent(objective, self.best, settings.absolute_tol) if ascent else None
        self.slopes: Gradients = UNKNOWN
        """Gradients of the risk's parts at the best point: what Newton's steps need. Whoever knows them, or
        nearly, may set them before the run."""
        self._last_progress = 0
        self._first_objective = abs(self.best.objective) or 1.0

    def go_on(self, iterations: int) -> None:
        """Count from where an earlier run ended."""
        self.iteration = self._last_progress = iterations

    def minimise(self) -> None:
        """Run until converged or stopped; an interrupt leaves the best iterate so far."""
        try:
            self._loop_quietly()
        except KeyboardInterrupt:
            self.status = "interrupted"

    def _loop_quietly(self) -> None:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self._loop()
        finally:
            if self.kinks is not None:
                self.kinks.round(0.0)

    def _loop(self) -> None:
        advance = self._search_and_cut if self.settings.solver == "ocas" else self._cut_at_minimiser
        if not len(self.bundle) and self.ascent is None:
            self._cut_at_best()
        while not self._ended():
            self.iteration += 1
            first = not len(self.bundle)
            if first:
                self._step_up_first()
            w = self._minimise_model()
            if self._resolved():
                self._trim(w)
                wanted = self._tol
                # A bound may meet the objective by rounding alone, which shows no gap smaller than rounding.
                shown = max(max(self.gap, 0.0) + self.rounding, SMALLEST_TOL * abs(self.best.objective))
                self.status = "converged" if shown <= wanted else "precision"
                self._observe()
                return
            if first:  # the pass is done
                continue
            if self.newton:
                w = self._newton_point(w)
            elif self._goes_up():
                self._step_up()
                continue
            elif self._goes_inside():
                self._step_inside()
                continue
            line = self.objective.line(self._origin, w)
            self._lap("products")
            if self.kinks is None:
                advance(line)
            else:
                self._search_rounded(line, self.kinks)

    def _minimise_model(self) -> Weights:
        """Return the minimiser of the model; its value, a bound on the optimum, is kept if it is the best."""
        self.clock.start()
        reg = self.objective.reg
        radius = reg.radius
        w, bound = self.bundle.minimise(reg, self.best, QP_TOL[self.settings.solver])
        self._lap("qp")
        if reg.radius != radius:  # what was certified is void
            self.bound = -np.inf
        if not self.settings.resolution:
            # A bound above the objective shows how far either may be off.
            self.rounding = max(self.rounding, 2.0 * (bound - self.best.objective))
        if bound > self.bound:
            self._note_progress(bound - self.bound)
            self.bound, self._minimiser = bound, w
        if self._impossible(bound):
            raise BmrmError(
                f"lower bound {bound:g} is above the objective {self.best.objective:g}: the loss "
                f"{self.objective.loss.name} is not convex, or its derivatives are none of its values"
            )
        return w

    def _impossible(self, bound: float) -> bool:
        """Whether a bound is farther above the objective than rounding puts it."""
        size = max(self._first_objective, abs(bound))
        if bound - self.best.objective <= max(IMPOSSIBLE, self.settings.resolution) * size:
            return False
        best = self.certified()
        # Cuts may be from where the objective is far larger, those of a warm start from an earlier solve.
        size = max(size, self._largest_risk, float(np.abs(self.bundle.offsets).max()))
        hidden = 2.0 * self.rounding if self.settings.resolution else 0.0
        hidden += LOST * abs(best.intercept)
        return bound - best.objective > hidden + IMPOSSIBLE * size

    def _newton_point(self, minimiser: Weights) -> Weights:
        """Return Newton's point; the model's minimiser, now and from now on, where there is none."""
        if not len(self.slopes):  # the cuts so far were taken elsewhere
            if self.kinks is not None:
                self.kinks.fit(self.gap, self._tol)
            self._cut_at_best()
        w = newton_point(self.objective, self._origin, self.slopes)
        self._lap("newton")
        if w is None:
            self._end_newton()
        return minimiser if w is None else w

    def _end_newton(self) -> None:
        """Go on by cuts alone, from the best point."""
        self.newton = False
        if self.kinks is not None:
            self.kinks.round(0.0)
            self.kinks = None
            self._evaluate_best()

    def _goes_inside(self) -> bool:
        """Whether this pass is a step of an interior point, which begins where such steps pay."""
        if self.outlook is None:
            return False
        if self.inside is None and self.outlook.better_inside(self.gap, self._tol, len(self.bundle)):
            self.inside = go_inside(self.objective, self.best, self.gap)
            if self.inside is None:
                self.outlook = None
        return self.inside is not None

    def _step_inside(self) -> None:
        """Take a step of the interior point, and the cut that it makes; if it is of no use, the last one."""
        assert self.inside is not None
        self._make_room()
        useful = self.inside.step()
        self._lap("newton")
        self._arrive(self.inside.at(self._accuracy()), exact=False)
        cut = self.inside.cut()
        self._lap("loss")
        if cut is None or self._take(cut) is None or not useful:
            self.inside = self.outlook = None

    def _goes_up(self) -> bool:
        """Whether this pass is a step of ascent in the dual, which ends where it is slow."""
        if self.ascent is not None and not self.ascent.pays(self.gap):
            self._end_ascent()
        return self.ascent is not None

    def _step_up(self) -> None:
        """Take a step of ascent in the dual, and the cut that it makes."""
        assert self.ascent is not None
        self._make_room()
        cut = self.ascent.step()
        self._lap("ascent")
        self._arrive(self.ascent.at(self._accuracy()), exact=self.ascent.exact)
        self._lap("loss")
        if self._take(cut) is None:
            self._end_ascent()

    def _end_ascent(self) -> None:
        """Go on by cuts, which have not been tried yet."""
        self.ascent = None
        self._last_progress = self.iteration

    def _step_up_first(self) -> None:
        """Take a step of ascent while there is no model; its cut, or that at the best point, makes one."""
        self._step_up()
        if not len(self.bundle):
            self._cut_at_best()

    def _arrive(self, found: Iterate, *, exact: bool) -> None:
        """Make a point the best iterate if it is."""
        if found.objective < self.best.objective:
            self._note_progress(self.best.objective - found.objective)
            self.best, self._evaluated, self._measured = found, exact, False

    def _cut_at_best(self) -> None:
        """Cut at the best point itself."""
        self._make_room()
        if self._add_cut(Line(self.objective, self.best, self.best.w, None), 0.0) is None:
            raise BmrmError(
                f"loss {self.objective.loss.name}: its derivatives are not finite at the best iterate"
            )

    def _search_and_cut(self, line: Line) -> None:
        """Search the line from the best point; cut beyond the new best, or (Newton) right at it."""
        self._make_room()
        before = self.best.objective
        first = 1.0 if self.newton else max(2.0 * self.step, 1e-12)
        content = CONTENT if self.newton and self.objective.takes_full_steps else 0.0
        self.step = line.search(first, self._accuracy(), content, 0.0 if self.newton else REACH)
        self._lap("search")
        self._improve(line, self.step)
        fall = before - self.best.objective
        stuck = fall <= STUCK * min(self.gap, abs(before))
        reach = 10.0 * max(self.shift, self.step) if stuck or self.step == 0.0 else REACH * self.step
        self.shift = 0.0 if self.newton else min(FARTHEST, reach or FARTHEST)
        self._cut_on_line(line, self.step, self.shift)
        # The next Newton step needs the gradient at the best point, and that this one was of use.
        rising = self.bound - self._last_bound > RISING * self.gap
        slow = not rising and QUICK * self._last_fall < fall <= SLOW * self.gap
        self._slow, self._last_fall = self._slow + 1 if slow else 0, fall
        self.newton = self.newton and self._slow < PATIENT and (rising or fall > NO_FALL * abs(before))
        self._last_bound = self.bound

    def _search_rounded(self, line: Line, kinks: Kinks) -> None:
        """Search the line to Newton's point, with kinks rounded; cut at its end, be it the best or not."""
        self._make_room()
        self.step = line.search(1.0, kinks.accuracy(self._tol), reach=0.0)
        self._lap("search")
        kinks.move(self._improve(line, self.step), self.step, self.gap, self._tol)
        if not kinks.of_use(self._cut_on_line(line, self.step, 0.0), self.gap, self._tol):
            self._end_newton()

    def _cut_at_minimiser(self, line: Line) -> None:
        """Cut at the model's minimiser itself."""
        self._make_room()
        self._improve(line, 1.0)
        self._cut_on_line(line, 0.0, 1.0)

    def _cut_on_line(self, line: Line, step: float, shift: float) -> Cut:
        """Cut at ``step + shift`` on the line, or closer to its start where the loss overflows."""
        for _ in range(TRIES):
            cut = self._add_cut(line, step + shift)
            if cut is not None:
                return cut
            step, shift = (step, 0.1 * shift) if shift else (0.0, 0.0)
        raise BmrmError("the risk is not finite anywhere near the best iterate")

    def _make_room(self) -> None:
        self.bundle.make_room()
        self._lap("bundle")

    def _add_cut(self, line: Line, t: float) -> Cut | None:
        """Add the cut at a point of the line; none where the risk is too large for it to mean anything."""
        cut = line.cut(t, self._accuracy())
        self._lap("loss")
        return self._take(cut)

    def _take(self, cut: Cut) -> Cut | None:
        """Add a cut, unless it means nothing."""
        # Negated, so that NaN is refused as well.
        if not cut.risk <= USELESS * self._first_objective or not self.bundle.add(cut):
            return None
        self._largest_risk = max(self._largest_risk, abs(cut.risk))
        self._lap("bundle")
        self.slopes = cut.planes.gradients if self.newton else UNKNOWN
        return cut

    def _improve(self, line: Line, t: float) -> Iterate:
        """Make a point of the line the best iterate if it is."""
        found = line.at(t, self._accuracy())
        self._lap("loss")
        better = found.objective < self.best.objective
        if better or self.kinks is not None:
            self._magnified = abs(1.0 - t) * self._magnified + abs(t)
            fresh = self._magnified > MAGNIFIED
            if better:
                self._note_progress(self.best.objective - found.objective)
            if fresh:
                found, self._magnified = self._evaluate(found.w), 1.0
            if better:
                # At Newton's point itself the margins are those of this pass's product.
                exact = self.newton and t == 1.0 and not self.objective.profile
                self.best, self._evaluated, self._measured = found, fresh or exact, False
        return found

    def _lap(self, part: str) -> None:
        """Charge the time since the last lap to ``part``, but to products what of it they took."""
        self.clock.lap(part, self.objective.steps.seconds)

    def _evaluate(self, w: Weights) -> Iterate:
        """Evaluate J at ``w`` from a new product, free of what rounding added up along the way."""
        self.clock.start()
        found = self.objective.evaluate(w)
        self._lap("products")
        return found

    def _evaluate_best(self) -> None:
        self.best = self._evaluate(self.best.w)
        self._evaluated, self._measured, self._magnified = True, False, 1.0

    def _trim(self, minimiser: Weights) -> None:
        """Give the best iterate the zeros of the model's minimiser, where that leaves the solve resolved.

        A search on a line from a point without them never meets them all.
        """
        reg = self.objective.reg
        if reg.sparse:
            found = self._evaluate(reg.trim(self.best.w, minimiser))
            if found.objective - self.bound <= self.settings.resolved_tol(found.objective, self.rounding):
                self.best = found

    def certified(self) -> Iterate:
        """Return the best iterate, with J from a new product."""
        if not self._evaluated:
            self._evaluate_best()
        if self.settings.resolution and not self._measured:
            given = self._minimiser, self.settings.resolution, self._first_objective
            self.rounding, self._measured = rounding(self.objective, self.best, *given), True
            self._lap("products")
        return self.best

    @property
    def _origin(self) -> Iterate:
        """Where the next line begins: at the best point, or where Newton's steps have led."""
        return self.best if self.kinks is None else self.kinks.reached

    @property
    def _tol(self) -> float:
        """Gap to stop at."""
        return self.settings.absolute_tol(self.best.objective)

    @property
    def gap(self) -> float:
        """Best objective minus best bound, as they were computed."""
        return self.best.objective - self.bound

    @property
    def lower_bound(self) -> float:
        """The best bound less what rounding was found to hide, which may put it above the objective.

        Before the cuts say more it is the least value of the loss.
        """
        best = self.best.objective
        bound = self.bound if self.objective.reg.covers(self.best.w) else -np.inf
        return max(min(bound, best) - self.rounding, min(self.bundle.floor, best))

    def _accuracy(self) -> float:
        """Accuracy in J that searches need now: a share of the gap, or of J while bounds are poor."""
        size = abs(self.best.objective) or 1.0
        coarse = self.objective.profile or self.objective.reg.sparse
        share = COARSE * SEARCH_TOL if coarse else SEARCH_TOL
        return share * min(max(self.gap, 1e-16 * size), size)

    def _resolved(self) -> bool:
        if self.gap > self.settings.resolved_tol(self.best.objective, self.rounding):
            return False
        self.certified()
        return self.gap <= self.settings.resolved_tol(self.best.objective, self.rounding)

    def _ended(self) -> bool:
        """Observe the iteration that is over; True if a limit was hit."""
        stop = self._observe() if self.iteration else False
        stop, late = self._agreed(stop, self.clock.elapsed >= self.settings.max_time)
        if stop:
            self.status = "interrupted"
        elif self.iteration >= self.settings.max_iter:
            self.status = "max_iter"
        elif late:
            self.status = "max_time"
        elif self._stalled():
            self.status = "max_cuts" if self.bundle.merged else "precision"
        else:
            return False
        return True

    def _stalled(self) -> bool:
        """Whether nothing has moved for so long that nothing will; ascent knows itself when to end."""
        if self.ascent is not None:
            return False
        hidden = self.gap <= ROUNDED * self._first_objective
        return self.iteration - self._last_progress > (STALL if hidden else max(STALL, len(self.bundle)))

    def _agreed(self, stop: bool, late: bool) -> tuple[bool, bool]:
        """Whether to stop, and whether time is up: what only this process knows, where there are others."""
        return stop, late

    def _note_progress(self, amount: float) -> None:
        if not amount <= 1e-15 * abs(self.best.objective):
            self._last_progress = self.iteration

    def _observe(self) -> bool:
        """Note the iteration in the history; True where the callback wants to stop."""
        best = self.best
        row: dict[str, Any] = {
            "iteration": self.iteration,
            "objective": best.objective,
            "lower_bound": self.lower_bound,
            "gap": best.objective - self.lower_bound,
            "cuts": len(self.bundle),
            "step": self.step,
            "seconds": dict(self.clock.parts),
            "elapsed": self.clock.elapsed,
        }
        self.history.append(row)
        if self.settings.callback is None:
            return False
        state = Progress(**row, tol=self._tol, model=lambda: self.objective.model(best), bundle=self.bundle)
        return bool(self.settings.callback(state))
