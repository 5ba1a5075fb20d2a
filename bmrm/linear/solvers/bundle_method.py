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

from bmrm.base import interrupts
from bmrm.base.vectors import copied
from bmrm.errors import BmrmError, DataError
from bmrm.linear.bundle.bundle import FLOOR_ERROR, Bundle
from bmrm.linear.bundle.inner_model import inner_model
from bmrm.linear.objective.objective import (
    FARTHEST,
    REACH,
    USELESS,
    CutBatch,
    Gradients,
    Iterate,
    Line,
    Objective,
    Weights,
)
from bmrm.linear.solvers.ascent import begin_ascent
from bmrm.linear.solvers.interior_point import InteriorPoint, go_inside
from bmrm.linear.solvers.interior_rule import InteriorRule, can_step
from bmrm.linear.solvers.newton import newton_point
from bmrm.linear.solvers.progress import Clock, Progress, Status
from bmrm.linear.solvers.rounding import rounding
from bmrm.linear.solvers.settings import SMALLEST_TOL, Settings
from bmrm.linear.solvers.smoothing import Smoothing

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

TINY = 2.0**-1000
"""Squares and products of what is below its root are not those of their factors any more."""

NIL = 1e-15
"""Share of the mean loss at zero under which objective and bound are 0 as far as float64 says."""

SMALL = 1e-6
"""Objective of a start under which its own size may be rounding: the mean loss at zero then says more."""

ROUNDED = 1e-9
"""Share of the first objective above which a gap is hardly rounding. A kink in many features may then take as
many passes without progress as there are cuts."""

VAIN, LITTLE = 1000, 0.01
"""So many passes that together take less than this share of the gap: ten times as many would hardly do."""

TRIES = 30
"""Times that a cut which is useless is moved closer to the best iterate, to a tenth of the way each time."""

FAR = 1e3
"""Objective of a start other than zero above which zero may well be better: it costs a product to know. For a
prior mean, or on rows that a warm start has not seen, margins may be where exp() has run away."""

FAR_BELOW = 1e9
"""Times the first objective that the first cuts' bound is below 0 where the floor becomes a cut."""

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
        units = objective.operator.mean_squares if objective.reg.needs_floor else None
        self.model = inner_model(objective.reg, units)
        """How the cutting-plane model is minimised."""
        self.newton = newton
        self.clock = Clock()
        self.history: list[dict[str, Any]] = []
        self.bound = self.proven = -np.inf
        self.status: Status = "interrupted"
        self.interrupted = False
        """Whether a signal ended it, and not the callback."""
        self.iteration = 0
        self.step, self.shift = 1.0, FARTHEST
        self._last_bound, self._last_fall, self._slow = -np.inf, 0.0, 0
        self.rounding = self._largest_risk = 0.0
        self._minimiser: Weights | None = None
        self._hidden_of: Iterate | None = None
        self._hidden_is = 0.0
        start = objective.passes.origin() if w is None else objective.passes.weights(w)
        self.best = self._evaluate(start)
        self.given: Iterate | None = self.best
        """The start as it was given, until the run begins: zero may be better."""
        if warm and w is not None and not self.best.objective <= FAR:
            zero = self._evaluate(objective.passes.weights(objective.reg.project(np.zeros_like(w))))
            # In the space of rows points rest on what was taken in last: that comes again if it is better.
            better = self.best.objective <= zero.objective
            self.best = self._evaluate(objective.passes.weights(w)) if better else zero
            self.given = self.best if better else self.given
        if not np.isfinite(self.best.objective):
            raise DataError(
                f"loss {objective.loss.name}: the objective is {self.best.objective:g} at the first weights; "
                "labels, weights or values of X are too large"
            )
        self._scale = 0.0
        self._first_objective = bundle.first_objective = self._first_size()
        self._evaluated, self._measured, self._magnified = True, False, 1.0
        if objective.errors is not None:
            objective.errors.wanted = settings.absolute_tol(self.best.objective)
        objective.look_aside(self.best)
        bundle.watch(objective.errors)
        self.kinks = Smoothing(objective, self.best) if self.newton and objective.loss.kinked else None
        self.outlook = InteriorRule(objective) if settings.solver == "ocas" and can_step(objective) else None
        self.inside: InteriorPoint | None = None
        self.ascent = begin_ascent(objective, self.best, settings.absolute_tol) if ascent else None
        self.slopes: Gradients = UNKNOWN
        """Gradients of the risk's parts at the best point: what Newton's steps need. Whoever knows them, or
        nearly, may set them before the run."""
        self._last_progress = self._last_gain = 0
        self._last_gap = np.inf
        self._most = np.inf
        """No objective above this is returned."""
        self._start: Iterate | None = None
        """Where an earlier run ended, whose bound has the rounding of the objective there in it."""

    @property
    def scale(self) -> float:
        """What a relative ``tol`` is of if the optimum is 0: the mean loss at zero, or 1 if that is 0."""
        self._scale = self._scale or abs(self.objective.risk_at_zero()) or 1.0
        return self._scale

    def _first_size(self) -> float:
        first = abs(self.best.objective)
        return first if first > SMALL else max(first, self.scale)

    def _size_up(self) -> None:
        """Look at how far below the cuts' values the first cuts bound the optimum.

        It is the size of an objective that is 0 at the start, whatever X is. Where it is far below the floor,
        lam is so small that the risk may be hardly more than the floor at the optimum: cuts hold masses of
        the size of lam there, and the floor the rest. Without it they would add up to its plane in all
        digits.
        """
        if self.objective.reg.needs_floor:  # where all planes are mixed with it
            return
        depth = self.bundle.depth(self.objective.reg.lam)
        if self.objective.loss.intercept_slope:
            self.bundle.first_objective = max(self._first_objective, depth)
        elif depth > FAR_BELOW * self._first_objective:
            self._add_floor()

    def _add_floor(self) -> None:
        with interrupts.held():
            self.bundle.make_room()
            self.bundle.add_floor()

    def go_on(self, iterations: int, proven: float, radius: float) -> None:
        """Go on where an earlier run of the same problem ended, at its best point.

        Parameters
        ----------
        iterations : int
            To count from.
        proven : float
            A bound that holds as it is, rounding included.
        radius : float
            How far from the prior mean it covers features without a penalty.
        """
        self.model.cover(radius)
        if self.objective.errors is not None:
            self.objective.errors.radius = self.model.radius
        self.iteration = self._last_progress = self._last_gain = iterations
        self.bound = self.proven = proven
        self._start, self._most = self.best, self.best.objective

    def minimise(self) -> None:
        """Run until converged or stopped.

        Ctrl-C ends it with the iteration, a second one does not wait for that. The best iterate so far is
        kept, and signals wait from there on, until something was made of it.
        """
        self.given = None
        try:
            interrupts.enter(interrupts.AWAITED)
            self._loop_quietly()
        except KeyboardInterrupt:
            self.status, self.interrupted = "interrupted", True
            self._evaluated = self._measured = False
        finally:
            interrupts.enter(interrupts.HELD)

    def _loop_quietly(self) -> None:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self._loop()
        finally:
            if self.kinks is not None:
                self.kinks.round(0.0)

    def _loop(self) -> None:
        if self._is_done():
            self.status, self._measured = "converged", True
            self._observe()
            return
        advance = self._search_and_cut if self.settings.solver == "ocas" else self._cut_at_minimiser
        if not len(self.bundle) and self.ascent is None:
            self._cut_at_best()
        if len(self.bundle):
            self._size_up()
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
                shown = max(max(self.gap, 0.0) + self._hidden, SMALLEST_TOL * abs(self.best.objective))
                self.status = "converged" if shown <= wanted or self._is_done() else self._as_precise()
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

    def _is_done(self) -> bool:
        """Whether what an earlier run has proven is enough."""
        best = self.best
        if self.proven == -np.inf:
            return False
        hidden = 0.0 if best is self._start else self._hidden
        shown = max(best.objective + hidden - self.proven, SMALLEST_TOL * abs(best.objective))
        return self.model.covers(best.w) and shown <= self._tol

    def _minimise_model(self) -> Weights:
        """Return the minimiser of the model; its value, a bound on the optimum, is kept if it is the best."""
        self.clock.start()
        radius, errors = self.model.radius, self.objective.errors
        if errors is not None:
            errors.objective, errors.best_size = self.best.objective + self._hidden, self.best.size
            errors.bound, errors.wanted = self.bound, self._tol
        with interrupts.held():
            w, bound = self.bundle.minimise(self.model, self.best, QP_TOL[self.settings.solver])
        self._lap("qp")
        if self.model.radius != radius:  # what was certified is void
            self.bound = self.proven = -np.inf
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
        hidden = 2.0 * self._hidden if self.settings.resolution else 0.0
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
        if cut is None or self._take(cut) is None:
            self._end_ascent()

    def _end_ascent(self) -> None:
        """Go on by cuts, which have not been tried yet."""
        self.ascent = None
        if not FAR_BELOW * self.bound >= self._first_objective:
            self._add_floor()
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
        # Where the risk is at its floor on most of the way, a cut there is the floor's own.
        farthest = 1.0 if stuck and self.bundle.floored else FARTHEST
        self.shift = 0.0 if self.newton else min(farthest, reach or farthest)
        self._cut_on_line(line, self.step, self.shift)
        # The next Newton step needs the gradient at the best point, and that this one was of use.
        rising = self.bound - self._last_bound > RISING * self.gap
        slow = not rising and QUICK * self._last_fall < fall <= SLOW * self.gap
        self._slow, self._last_fall = self._slow + 1 if slow else 0, fall
        self.newton = self.newton and self._slow < PATIENT and (rising or fall > NO_FALL * abs(before))
        self._last_bound = self.bound

    def _search_rounded(self, line: Line, kinks: Smoothing) -> None:
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

    def _cut_on_line(self, line: Line, step: float, shift: float) -> CutBatch:
        """Cut at ``step + shift`` on the line, or closer to its start where the loss overflows."""
        for _ in range(TRIES):
            cut = self._add_cut(line, step + shift)
            if cut is not None:
                return cut
            step, shift = (step, 0.1 * shift) if shift else (0.0, 0.0)
        # With a tiny lam the line may end so far away that no point of it is near: nothing will move then.
        cut = self._add_cut(line, 0.0)
        if cut is not None:
            return cut
        raise BmrmError("the risk is not finite anywhere near the best iterate")

    def _make_room(self) -> None:
        with interrupts.held():  # an interrupt leaves a bundle of whole cuts
            self.bundle.make_room()
        self._lap("bundle")

    def _add_cut(self, line: Line, t: float) -> CutBatch | None:
        """Add the cut at a point of the line; none where the risk is too large for it to mean anything."""
        cut = line.cut(t, self._accuracy())
        self._lap("loss")
        return self._take(cut)

    def _take(self, cut: CutBatch) -> CutBatch | None:
        """Add a cut, unless it means nothing."""
        # Negated, so that NaN is refused as well.
        if not cut.risk <= USELESS * self._first_objective:
            return None
        with interrupts.held():
            added = self.bundle.add(cut)
        if not added:
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
                exact = self.newton and t == 1.0 and not self.objective.profile and line.is_fresh(found)
                self.best, self._evaluated, self._measured = found, fresh or exact, False
        return found

    def _lap(self, part: str) -> None:
        """Charge the time since the last lap to ``part``, but to products what of it they took."""
        self.clock.lap(part, self.objective.passes.seconds)

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
            enough = self.settings.resolved_tol(found.objective, self._hidden)
            if found.objective <= self._most and found.objective - self.bound <= enough:
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
        return self.settings.absolute_tol(self._size)

    @property
    def _size(self) -> float:
        """What a relative ``tol`` is of."""
        return self.scale if self._is_nil() else self.best.objective

    @property
    def _wanted(self) -> float:
        """Gap at which there is nothing more to find."""
        return self.settings.resolved_tol(self._size, self._hidden)

    def _is_nil(self) -> bool:
        """Whether float64 says no more of an optimum than that it is 0.

        A risk that may be below 0 may have it on either side. At first nobody has looked for a point that is
        better than the start.
        """
        best = self.best.objective
        if not abs(best) < SMALL * self._first_objective:
            return False
        bound = self._safe_bound
        if bound > 0.0:
            return False
        if not self._signed:
            return best <= NIL * self.scale and self._pays_nothing()
        size = max(abs(best), abs(bound))
        looked = self.iteration > 1 or self.bound >= best
        return looked and size <= max(NIL, self.settings.resolution) * self.scale

    def _try_zero(self) -> Iterate:
        """Make weights of 0 the best iterate if they are: a start from elsewhere may get stuck near them."""
        zero = self._evaluate(self.objective.passes.origin())
        if zero.objective <= self.best.objective:
            self.best, self._evaluated, self._measured = zero, True, False
            self.certified()
        return self.best

    def _pays_nothing(self) -> bool:
        """Whether the best weights are free of a penalty: the risk is all that is left of J."""
        penalty = self.objective.passes.penalty(self.objective.reg, self.best.w)
        return self.model.radius < np.inf or penalty == 0.0

    @property
    def _signed(self) -> bool:
        """Whether the risk may be below 0."""
        return self.bundle.floor < 0.0

    @property
    def _safe_bound(self) -> float:
        return min(self.bound, self.best.objective) - self._hidden

    def _as_precise(self) -> Status:
        """Return how a solve ends that gets no further: converged where 0 is the optimum to within tol."""
        best, nil = self.certified().objective, NIL * self.scale
        if 0.0 < best <= SMALL * self.scale:
            best = self._try_zero().objective
        gap = max(best - self._safe_bound, 0.0)
        if self.lower_bound > 0.0:
            is_nil = False
        elif self._signed:
            is_nil = abs(best) <= nil
        else:
            is_nil = best <= nil and (self._pays_nothing() or self._hidden >= best)
        return "converged" if is_nil and gap <= self.settings.absolute_tol(self.scale) else "precision"

    @property
    def gap(self) -> float:
        """Best objective minus best bound, as they were computed."""
        return self.best.objective - self.bound

    @property
    def lower_bound(self) -> float:
        """The best bound less what rounding was found to hide, or what an earlier run has proven.

        Rounding may put the former above the objective.

        Before the cuts say more it is the least value of the loss.
        """
        best = self.best.objective
        covered = self.model.covers(self.best.w)
        bound, proven = (self.bound, self.proven) if covered else (-np.inf, -np.inf)
        hidden = self._hidden
        if not self._measured:  # of float32, what is to be measured at the end
            hidden = max(hidden, self.settings.resolution * abs(best))
        # The least loss is a bound as it is, but J is known to what rounding hides of it.
        floor = self.bundle.floor
        least = min(floor - FLOOR_ERROR * abs(floor) if floor > -np.inf else floor, best - hidden)
        found = max(min(bound, best) - hidden, min(proven, best), least)
        return 0.0 if 0.0 < found < TINY else found

    @property
    def _hidden(self) -> float:
        """What rounding may hide of the best objective: a bound of it, and in float32 what was seen of it."""
        if self._hidden_of is not self.best:
            self._hidden_of, self._hidden_is = self.best, self.objective.hidden(self.best)
        return max(self.rounding, self._hidden_is)

    def record(self) -> list[dict[str, Any]]:
        """Return the history; in float32 with no bound above the last one, for rounding is measured last."""
        if not self.settings.resolution:
            return self.history
        last = self.lower_bound
        for row in self.history:
            row["lower_bound"] = min(row["lower_bound"], last)
            row["gap"] = row["objective"] - row["lower_bound"]
        return self.history

    def _accuracy(self) -> float:
        """Accuracy in J that searches need now: a share of the gap, or of J while bounds are poor."""
        size = abs(self.best.objective)
        if self._signed:  # it may be 0 on the way
            size = max(size, NIL * self._first_objective)
        size = size or 1.0
        coarse = self.objective.profile or self.objective.reg.sparse
        share = COARSE * SEARCH_TOL if coarse else SEARCH_TOL
        return share * min(max(self.gap, 1e-16 * size), size)

    def _resolved(self) -> bool:
        if self.gap > self._wanted:
            return False
        self.certified()
        return self.gap <= self._wanted

    def _ended(self) -> bool:
        """Observe the iteration that is over; True if a limit was hit."""
        stop = self._observe() if self.iteration else False
        stop, self.interrupted, late = self._agreed(
            stop, interrupts.requested(), self.clock.elapsed >= self.settings.max_time
        )
        if stop or self.interrupted:
            self.status = "interrupted"
        elif self.iteration >= self.settings.max_iter:
            self.status = "max_iter"
        elif late:
            self.status = "max_time"
        elif self._stalled():
            self.status = "max_cuts" if self.bundle.merges else self._as_precise()
        else:
            return False
        return True

    def _stalled(self) -> bool:
        """Whether nothing has moved for so long that nothing will; ascent knows itself when to end."""
        if self.ascent is not None:
            return False
        if not self.gap > (1.0 - LITTLE) * self._last_gap:
            self._last_gain, self._last_gap = self.iteration, self.gap
        if self.iteration - self._last_gain > VAIN:
            return True
        hidden = self.gap <= ROUNDED * self._first_objective
        return self.iteration - self._last_progress > (STALL if hidden else max(STALL, len(self.bundle)))

    def _agreed(self, stop: bool, interrupted: bool, late: bool) -> tuple[bool, bool, bool]:
        """Whether the callback, a signal or the clock ends it: what only this process knows of several."""
        return stop, interrupted, late

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
        state = Progress(
            **row, tol=self._tol, model=lambda: copied(self.objective.model(best)), bundle=self.bundle
        )
        return bool(self.settings.callback(state))
