"""The state of a run: the best point, the best bound, and what rounding may hide of either.

The gap between the two is what a solve certifies.  The objective of the best point is evaluated from a new
product before it counts; the bound is that of the bundle (`bmrm.linear.bundle.bundle`), less what rounding
may hide.  A relative tolerance is a share of the objective, but no gap above 0 is a share of an optimum of 0:
there it is a share of `State.scale`.
"""

from __future__ import annotations

import numpy as np

from bmrm.base import interrupts
from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, DataError
from bmrm.linear.bundle.bundle import FLOOR_ERROR, Bundle
from bmrm.linear.bundle.inner_model import inner_model
from bmrm.linear.objective.objective import Line, Objective
from bmrm.linear.objective.passes import MAX_SHIFT, Gradients, Iterate, Weights
from bmrm.linear.objective.running_error import largest
from bmrm.linear.solvers.progress import Clock, Status
from bmrm.linear.solvers.rounding import rounding
from bmrm.linear.solvers.settings import SMALLEST_TOL, Settings
from bmrm.linear.solvers.stalling import StallWatch

SEARCH_TOL = 2e-4
"""Accuracy of a line search, as a share of the gap: with many rows and few features a coarser one takes a
third more passes."""

COARSE_SEARCH_FACTOR = 5.0
"""How many times coarser it is if every slope is a search for the intercept, or if the penalty has kinks: the
lowest point of a line is often at one, and the next lines zigzag along it."""

MAX_MAGNIFICATION = 16.0
"""How far rounding of margins may be magnified. A step t beyond the end of a line multiplies it by |1 - t|:
after a few steps of 100 the margins would no longer be those of the weights."""

IMPOSSIBLE_EXCESS = 1e-6
"""A bound above the objective by more than this share of it is no rounding: the loss is not what it says."""

INTERCEPT_ROUNDING = 1e-14
"""Share of an intercept that rounding of the margins may put into the risk."""

SMALLEST_BOUND = 2.0**-1000
"""Positive bounds below this count as 0: squares and products of numbers below its root underflow."""

ZERO_OBJECTIVE = 1e-15
"""Share of the mean loss at zero below which objective and bound are 0 as far as float64 can tell."""

SMALL_OBJECTIVE = 1e-6
"""An objective at the start below this may be rounding: the mean loss at zero then says more about its
size."""

FAR_OBJECTIVE = 1e3
"""Objective of a start other than zero above which zero may well be better; to know costs a product. For a
prior mean, or on rows that a warm start has not seen, margins may be where exp() has run away."""

UNKNOWN_GRADIENTS: Vector = np.empty((0, 0))
"""Stands for gradients that were not taken."""


class State:
    """What a run knows of the optimum; from ``w``, None for 0.

    - ``warm``: whether w is no better than a guess, so that 0 is tried too if it looks bad
    - ``model``: how the cutting-plane model is minimised
    - ``bound``: the best bound of this run, as computed
    - ``proven``: a bound that holds as it is, rounding included: that of an earlier run
    - ``rounding``: what was seen of rounding: bounds above the objective; or in float32, differences of equal
      products
    - ``step``, ``shift``: length of the last line search, and how far beyond its end the last cut was taken
    - ``gradients``: those of the risk's parts at the best point, if Newton's steps need them
    - ``keeps_gradients``: whether they do
    """

    def __init__(
        self, objective: Objective, bundle: Bundle, settings: Settings, w: Vector | None, *, warm: bool
    ) -> None:
        self.objective, self.bundle, self.settings = objective, bundle, settings
        units = objective.operator.mean_squares if objective.reg.needs_floor else None
        self.model = inner_model(objective.reg, units)
        self.clock, self.stall = Clock(), StallWatch()
        self.iteration = 0
        self.bound = self.proven = -np.inf
        self.step, self.shift = 1.0, MAX_SHIFT
        self.gradients: Gradients = UNKNOWN_GRADIENTS
        self.keeps_gradients = False
        self.rounding = self.largest_risk = 0.0
        self._minimiser: Weights | None = None
        self._hidden_of: Iterate | None = None
        self._hidden_is = 0.0
        start = objective.passes.origin() if w is None else objective.passes.weights(w)
        self.best = self.evaluate(start)
        self.given: Iterate | None = self.best
        """The start as it was given, until the run begins: zero may be better."""
        if warm and w is not None and not self.best.objective <= FAR_OBJECTIVE:
            self._try_start_at_zero(w)
        if not np.isfinite(self.best.objective):
            raise DataError(
                f"loss {objective.loss.name}: the objective is {self.best.objective:g} at the first weights; "
                "labels, weights or values of X are too large"
            )
        self._scale = 0.0
        first = abs(self.best.objective)
        self.first_objective = first if first > SMALL_OBJECTIVE else max(first, self.scale)
        bundle.first_objective = self.first_objective
        self._evaluated, self._measured, self._magnified = True, False, 1.0
        if objective.errors is not None:
            objective.errors.wanted = settings.absolute_tol(self.best.objective)
        objective.look_aside(self.best)
        bundle.watch(objective.errors)
        self._most = np.inf
        """No objective above this is returned."""
        self._tried: Iterate | None = None
        """The best iterate that weights without a penalty were last compared with."""
        self._resumed_at: Iterate | None = None
        """Where an earlier run ended; its bound includes the rounding of the objective there."""

    def _try_start_at_zero(self, w: Vector) -> None:
        passes, reg = self.objective.passes, self.objective.reg
        zero = self.evaluate(passes.weights(reg.project(np.zeros_like(w))))
        # In the space of rows, points rest on the last one that was copied from the host: the better one
        # again.
        better = self.best.objective <= zero.objective
        self.best = self.evaluate(passes.weights(w)) if better else zero
        self.given = self.best if better else self.given

    def resume(self, iterations: int, proven: float, radius: float) -> None:
        """Go on where an earlier run of the same problem ended, at its best point.

        - ``iterations``: to count from
        - ``proven``: a bound that holds as it is, rounding included
        - ``radius``: how far from the prior mean it covers features without a penalty
        """
        self.model.cover(radius)
        if self.objective.errors is not None:
            self.objective.errors.radius = self.model.radius
        self.iteration = iterations
        self.stall.begin(iterations)
        self.bound = self.proven = proven
        self._resumed_at, self._most = self.best, self.best.objective

    # Points.

    def lap(self, part: str) -> None:
        """Charge the time since the last lap to ``part``, except that of products, which is theirs."""
        self.clock.lap(part, self.objective.passes.seconds)

    def evaluate(self, w: Weights) -> Iterate:
        """Evaluate J at ``w`` from a new product, free of accumulated rounding."""
        self.clock.start()
        found = self.objective.evaluate(w)
        self.lap("products")
        return found

    def evaluate_best(self) -> None:
        """Evaluate J at the best point from a new product."""
        self.best = self.evaluate(self.best.w)
        self._evaluated, self._measured, self._magnified = True, False, 1.0

    def improve(
        self,
        line: Line,
        t: float,
        *,
        to_newton: bool = False,
        continues: bool = False,
        known: Iterate | None = None,
    ) -> Iterate:
        """Make a point of the line the best iterate if it is better; return it.

        - ``to_newton``: whether the line leads to Newton's point, whose margins come from a new product
        - ``continues``: whether the next line begins at the point even if it is not better
        - ``known``: the point, if it has been evaluated
        """
        found = line.at(t, self.accuracy()) if known is None else known
        self.lap("loss")
        better = found.objective < self.best.objective
        if better or continues:
            self._magnified = abs(1.0 - t) * self._magnified + abs(t)
            fresh = self._magnified > MAX_MAGNIFICATION
            if better:
                self._note_progress(self.best.objective - found.objective)
            if fresh:
                found, self._magnified = self.evaluate(found.w), 1.0
            if better:
                exact = to_newton and t == 1.0 and not self.objective.profile and line.is_fresh(found)
                self.best, self._evaluated, self._measured = found, fresh or exact, False
        return found

    def arrive(self, found: Iterate, *, exact: bool) -> None:
        """Make a point the best iterate if it is better; ``exact`` if its margins come from a new product."""
        if found.objective < self.best.objective:
            self._note_progress(self.best.objective - found.objective)
            self.best, self._evaluated, self._measured = found, exact, False

    def _note_progress(self, amount: float) -> None:
        self.stall.note(self.iteration, amount, self.best.objective)

    def certified(self) -> Iterate:
        """Return the best iterate, with J from a new product."""
        if not self._evaluated:
            self.evaluate_best()
        if self.settings.resolution and not self._measured:
            given = self._minimiser, self.settings.resolution, self.first_objective
            self.rounding, self._measured = rounding(self.objective, self.best, *given), True
            self.lap("products")
        return self.best

    # The bound.

    def inform_errors(self) -> None:
        """Pass what is known of the optimum to the error bound."""
        errors = self.objective.errors
        if errors is not None:
            errors.objective, errors.best_size = self.best.objective + self.hidden, self.best.size
            errors.bound, errors.wanted = self.bound, self.tol

    def raise_bound(self, bound: float, minimiser: Weights) -> None:
        """Keep the minimum of the model as a bound on the optimum, if it is the best."""
        if not self.settings.resolution:
            # A bound above the objective shows how far either may be off.
            self.rounding = max(self.rounding, 2.0 * (bound - self.best.objective))
        if bound > self.bound:
            self._note_progress(bound - self.bound)
            self.bound, self._minimiser = bound, minimiser
        if self._is_impossible(bound):
            raise BmrmError(
                f"lower bound {bound:g} is above the objective {self.best.objective:g}: the loss "
                f"{self.objective.loss.name} is not convex, or its derivative does not match its value"
            )

    def _is_impossible(self, bound: float) -> bool:
        """Whether a bound is farther above the objective than rounding can put it."""
        size = max(self.first_objective, abs(bound))
        if bound - self.best.objective <= max(IMPOSSIBLE_EXCESS, self.settings.resolution) * size:
            return False
        best = self.certified()
        # Cuts may be from where the objective is far larger, those of a warm start from an earlier solve.
        size = max(size, self.largest_risk, float(np.abs(self.bundle.offsets).max()))
        hidden = 2.0 * self.hidden if self.settings.resolution else 0.0
        hidden += INTERCEPT_ROUNDING * largest(best.intercept)
        return bound - best.objective > hidden + IMPOSSIBLE_EXCESS * size

    @property
    def gap(self) -> float:
        """Best objective minus best bound, as they were computed."""
        return self.best.objective - self.bound

    @property
    def lower_bound(self) -> float:
        """A bound on the optimum that holds with rounding.

        The largest of: the best bound less what rounding was found to hide, at most the objective less that;
        what an earlier run has proven; and the least value of the loss, which says more before there are
        cuts.
        """
        best = self.best.objective
        covered = self.model.covers(self.best.w)
        bound, proven = (self.bound, self.proven) if covered else (-np.inf, -np.inf)
        hidden = self.hidden
        if not self._measured:  # in float32, what is to be measured at the end
            hidden = max(hidden, self.settings.resolution * abs(best))
        # The least loss is a bound as it is, but J is known only up to what rounding hides of it.
        floor = self.bundle.floor
        least = min(floor - FLOOR_ERROR * abs(floor) if floor > -np.inf else floor, best - hidden)
        found = max(min(bound, best) - hidden, min(proven, best), least)
        return 0.0 if 0.0 < found < SMALLEST_BOUND else found

    @property
    def _safe_bound(self) -> float:
        return min(self.bound, self.best.objective) - self.hidden

    @property
    def hidden(self) -> float:
        """What rounding may hide of the best objective: a bound on it; in float32, what was seen of it."""
        if self._hidden_of is not self.best:
            self._hidden_of, self._hidden_is = self.best, self.objective.hidden(self.best)
        return max(self.rounding, self._hidden_is)

    # Tolerances.

    @property
    def scale(self) -> float:
        """What ``tol`` is a share of if the optimum is 0: the mean loss at zero, or 1 if that is 0."""
        self._scale = self._scale or abs(self.objective.risk_at_zero()) or 1.0
        return self._scale

    @property
    def tol(self) -> float:
        """Gap to stop at."""
        return self.settings.absolute_tol(self._size)

    @property
    def _size(self) -> float:
        """What a relative ``tol`` is a share of."""
        return self.scale if self._optimum_is_zero() else self.best.objective

    @property
    def _wanted(self) -> float:
        """Gap at which there is nothing more to find."""
        return self.settings.resolved_tol(self._size, self.hidden)

    def accuracy(self) -> float:
        """Return the accuracy in J that searches need: a share of the gap, or of J while bounds are poor."""
        size = abs(self.best.objective)
        if self._may_be_negative:  # it may be 0 on the way
            size = max(size, ZERO_OBJECTIVE * self.first_objective)
        size = size or 1.0
        coarse = self.objective.profile or self.objective.reg.sparse
        share = COARSE_SEARCH_FACTOR * SEARCH_TOL if coarse else SEARCH_TOL
        return share * min(max(self.gap, 1e-16 * size), size)

    def _optimum_is_zero(self, *, at_standstill: bool = False) -> bool:
        """Whether the optimum counts as 0: float64 says no more of it.

        No bound may be above 0, and the objective is at most `ZERO_OBJECTIVE` of the scale.  A risk that may
        be negative may have the optimum on either side: the bound has to be as close, and somebody must have
        looked for a point better than the start.  For any other risk, all that is left of J must be the risk:
        a penalty, however small, may be the optimum, and that rounding could hide it is no sign that it does.
        A run that gets no further need not show as much for a risk that may be negative: there J alone has to
        be small.
        """
        best = self.best.objective
        if not (at_standstill or abs(best) < SMALL_OBJECTIVE * self.first_objective):
            return False
        bound = self.lower_bound if at_standstill else self._safe_bound
        if bound > 0.0:
            return False
        if not self._may_be_negative:
            if not best <= ZERO_OBJECTIVE * self.scale:
                return False
            # Without a penalty on the best weights, the risk is all that is left of J.
            penalty = self.objective.passes.penalty(self.objective.reg, self.best.w)
            return penalty == 0.0
        if at_standstill:
            return abs(best) <= ZERO_OBJECTIVE * self.scale
        looked = self.iteration > 1 or self.bound >= best
        resolved = max(ZERO_OBJECTIVE, self.settings.resolution)
        return looked and max(abs(best), abs(bound)) <= resolved * self.scale

    @property
    def _may_be_negative(self) -> bool:
        return self.bundle.floor < 0.0

    # How a run ends.

    def must_end(self) -> bool:
        """Whether a signal has arrived or the time is up: a long step ends before its time."""
        return interrupts.requested() or self.clock.elapsed >= self.settings.max_time

    def is_proven(self) -> bool:
        """Whether what an earlier run has proven is enough."""
        best = self.best
        if self.proven == -np.inf:
            return False
        hidden = 0.0 if best is self._resumed_at else self.hidden
        shown = max(best.objective + hidden - self.proven, SMALLEST_TOL * abs(best.objective))
        return self.model.covers(best.w) and shown <= self.tol

    def settle(self) -> None:
        """Take the state as it is for certified: an earlier run has measured what rounding hides."""
        self._measured = True

    def doubt(self) -> None:
        """Evaluate and measure the best point anew before it is returned: it was interrupted anywhere."""
        self._evaluated = self._measured = False

    def is_resolved(self) -> bool:
        """Whether the gap is closed, with J from a new product."""
        if self._may_shed_penalty():
            self._try_zero()
        if self.gap > self._wanted:
            return False
        self.certified()
        return self.gap <= self._wanted

    def _may_shed_penalty(self) -> bool:
        """Whether J is so small that weights without a penalty may show an optimum of 0; once per point."""
        best = self.best
        if best is self._tried or not 0.0 < best.objective < SMALL_OBJECTIVE * self.first_objective:
            return False
        self._tried = best
        return self.bound <= 0.0 and best.objective <= ZERO_OBJECTIVE * self.scale

    def conclude(self, minimiser: Weights) -> Status:
        """Return how a resolved run ends: converged if it can show that the gap is within ``tol``."""
        self._trim(minimiser)
        tol = self.tol
        # A bound may meet the objective by rounding alone, which shows no gap smaller than rounding.
        shown = max(max(self.gap, 0.0) + self.hidden, SMALLEST_TOL * abs(self.best.objective))
        return "converged" if shown <= tol or self.is_proven() else self.status_at_standstill()

    def _trim(self, minimiser: Weights) -> None:
        """Give the best iterate the zeros of the model's minimiser, if that leaves the run resolved.

        A search on a line from a point without them never meets them all.
        """
        reg = self.objective.reg
        if reg.sparse:
            found = self.evaluate(reg.trim(self.best.w, minimiser))
            enough = self.settings.resolved_tol(found.objective, self.hidden)
            if found.objective <= self._most and found.objective - self.bound <= enough:
                self.best = found

    def status_at_standstill(self) -> Status:
        """Return how a run ends that gets no further: converged if 0 is the optimum to within ``tol``."""
        best, scale = self.certified().objective, self.scale
        if 0.0 < best <= SMALL_OBJECTIVE * scale:
            self._try_zero()
        gap = max(self.best.objective - self._safe_bound, 0.0)
        is_zero = self._optimum_is_zero(at_standstill=True)
        return "converged" if is_zero and gap <= self.settings.absolute_tol(scale) else "precision"

    def _try_zero(self) -> None:
        """Take weights that an optimum of 0 may have, if they are better: a run may get stuck near them.

        These are weights of 0, and of those features alone that have no penalty, also twice as large.
        """
        passes, reg = self.objective.passes, self.objective.reg
        tried = [passes.origin()]
        if reg.terms is not None:
            tried += [passes.weights(w) for w in reg.terms.without_penalty(self.best.w)]
        for w in tried:
            found = self.evaluate(w)
            if found.objective <= self.best.objective:
                self.best, self._evaluated, self._measured = found, True, False
            if self.best.objective == 0.0:
                break
        self.certified()
