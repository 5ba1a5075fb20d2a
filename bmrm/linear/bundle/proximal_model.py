"""The inner model of a penalty with kinks and bounds: a proximal method, and bounds of their own.

Where the penalty has no curvature, the minimiser of the model is a corner that jumps from pass to pass.  So
the *point* minimises the model plus ``mu/2 |w - best|^2``, with features in units of their columns; mu
follows what the model promises at the point, about half of the gap, as in a level method.  The *bound* is
that of the model itself.  Cheap planes (the newest cuts, the mean at the point) give one each pass; a sharper
one takes many of Newton's steps and waits until the points have taken as many.  It comes from the method of
multipliers (Rockafellar, Math. Oper. Res. 1 (1976) 97), or from a linear programme if features are few or
that fails.

Features in which cuts are too steep for a QP in float64 have a proximal term of their own, as in `l2_model`.
It weakens with mu: a term that stays would leave steps that are too short for ever.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector, dot
from bmrm.linear.bundle.cut_model import CutModel, combination
from bmrm.linear.bundle.gram_cache import GramCache
from bmrm.linear.bundle.inner_lp import LinearModel
from bmrm.linear.bundle.inner_qp import Maximum, piecewise
from bmrm.linear.bundle.separable_bound import SeparableBound
from bmrm.linear.bundle.steepness import EASED_SHARE, MAX_MULTIPLIER_STEPS, Steepness
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.regularizers.separable import Separable

MIN_SLOPE_SHARE = 1e-4
"""Smallest square of a slope that the first mu is chosen for, as a share of that of the plane, and of what
the penalty holds."""

ROUNDING_SHARE = 1e-24
"""If the square of the slope in some features is below this share of that in all, it is rounding."""

MIN_MU_SHARE = 1e-16
"""Smallest mu, as a share of the first one. One row that is 1e5 times longer than the others makes the first
one 1e10 times too large for moves that leave its margin alone."""

MU_REDUCTION = 0.3
"""Factor of the proximal term from one step of the method of multipliers to the next, if the term is there
for the point's sake alone."""

MAX_PASSES_WITHOUT_BOUND = 20
"""Maximum number of passes without a sharper bound, if one takes more of Newton's steps than the points since
then."""

MAX_LP_FEATURES = 200
"""Up to this many features a linear programme gives the sharper bound at once; with more it does only if the
method of multipliers fails."""

MAX_MU_CHANGE = 4.0
"""Maximum factor by which mu grows or shrinks from one pass to the next."""


@dataclass
class Schedule:
    """How strong the proximal term is, and when a sharper bound is due."""

    mu: float = 0.0
    """0 until the first pass has chosen it."""
    first_mu: float = 0.0
    min_mu: float = 0.0
    best_bound: float = -np.inf
    gap: float = np.inf
    """The smallest gap so far."""
    spent: int = 0
    """Newton's steps that points have taken since the last sharper bound."""
    cost: int = 0
    """Newton's steps that the last sharper bound took."""
    waited: int = 0
    """Passes since the last sharper bound."""

    def begin(self, mu: float) -> None:
        """Set the first mu."""
        self.mu, self.first_mu, self.min_mu = mu, mu, MIN_MU_SHARE * mu

    @property
    def share(self) -> float:
        """What is left of the first mu, at most all of it."""
        return min(1.0, self.mu / self.first_mu)

    def note_point(self, steps: int) -> None:
        """Count the Newton's steps that a point took."""
        self.spent, self.waited = self.spent + steps, self.waited + 1

    def wants_bound(self, best: float, bound: float) -> bool:
        """Whether to look for a sharper bound: it is due, and the bound so far does not halve the gap.

        A sharper bound takes far more steps than a point if there are many cuts: no more than all points
        since the last one.
        """
        due = self.spent >= self.cost or self.waited >= MAX_PASSES_WITHOUT_BOUND
        return due and best - max(bound, self.best_bound) > 0.5 * self.gap

    def begin_bound(self) -> None:
        """Start to count the cost of a sharper bound."""
        self.spent = self.cost = self.waited = 0

    def end_pass(self, best: float, bound: float, value: float) -> None:
        """Note the bound of a pass and the model's value at its point; adapt mu to what the model promises.

        The point is to be where the model promises about half of what the gap leaves.  If it promises no fall
        at all, its minimiser was not found: mu is too small for that.
        """
        self.best_bound = max(self.best_bound, bound)
        self.gap = min(self.gap, best - self.best_bound)
        fall = best - value
        if 0.0 < self.gap < np.inf:
            change = MAX_MU_CHANGE
            if fall >= 0.0:
                change = min(MAX_MU_CHANGE, max(1.0 / MAX_MU_CHANGE, 2.0 * fall / self.gap))
            self.mu = max(self.min_mu, change * self.mu)

    def forget_bounds(self) -> None:
        """Forget bounds that are void."""
        self.best_bound, self.gap = -np.inf, np.inf


class ProximalModel:
    """The inner model of one run with a penalty that has kinks or bounds.

    - ``terms``: those of the penalty
    - ``mean_squares``, shape (n_features,): of the columns of X: moves of features without curvature are
      measured by what they do to margins, whatever their units
    """

    def __init__(self, reg: Regularizer, terms: Separable, mean_squares: Vector | None = None) -> None:
        self.reg, self.terms = reg, terms
        self._flat = terms.l2 == 0.0
        self._units = _units(self._flat, mean_squares)
        self._bounds = SeparableBound(terms, self._units)
        self._schedule = Schedule()
        self._steepness, self._eased = Steepness(), np.zeros(len(terms.l2))
        self._products = GramCache()
        self._linear = LinearModel(terms) if not terms.l2.any() else None

    @property
    def radius(self) -> float:
        return self._bounds.radius

    def covers(self, w: Vector) -> bool:
        return self._bounds.covers(w)

    def cover(self, radius: float) -> None:
        if self._bounds.cover(radius):
            self._schedule.forget_bounds()

    def reach(self, w: Vector) -> None:
        if not self.covers(w):
            self.cover(self._bounds.wanted_radius(w))

    def minimise(self, cuts: CutModel, best: float, rel_tol: float, centre: Vector) -> tuple[Vector, float]:
        bound = self._bounds.of_mean(cuts, _newest(cuts))
        if self._flat.any():
            found, bound = self._minimise_flat(cuts, best, bound, rel_tol, centre)
        else:
            found, bound = self._minimise_curved(cuts, best, bound, rel_tol, centre)
        # Rounding may leave no minimiser, as for an optimum of 0.
        return found.w if np.isfinite(found.w).all() else centre.copy(), bound

    def _minimise_curved(
        self, cuts: CutModel, best: float, bound: float, rel_tol: float, centre: Vector
    ) -> tuple[Maximum, float]:
        """Minimise the model if the penalty has curvature everywhere: point and bound are of one problem."""
        mu = self._ease(cuts, self.terms.l2)
        found = piecewise(cuts, self.terms, mu, centre, best, rel_tol, self._products)
        bound = max(bound, self._bounds.of_mean(cuts, cuts.alpha))
        if mu is not None and found.value - bound > rel_tol * (best - bound):
            bound = max(bound, self._sharper_bound(cuts, mu, found, best, rel_tol))
        return found, bound

    def _minimise_flat(
        self, cuts: CutModel, best: float, bound: float, rel_tol: float, centre: Vector
    ) -> tuple[Maximum, float]:
        """Minimise the model with a proximal term, and bound the one without it when that is due."""
        schedule = self._schedule
        if schedule.mu == 0.0:
            schedule.begin(self._first_mu(cuts, best, bound))
        mu = np.where(self._flat, schedule.mu * self._units, 0.0)
        if not self._flat.all():
            eased = self._ease(cuts, np.where(self._flat, np.inf, self.terms.l2))
            mu = mu if eased is None else mu + schedule.share * eased
        found = piecewise(cuts, self.terms, mu, centre, best, rel_tol, self._products)
        bound = max(bound, self._bounds.of_mean(cuts, cuts.alpha))
        schedule.note_point(found.steps)
        if schedule.wants_bound(best, bound):
            bound = max(bound, self._sharper_bound(cuts, mu, found, best, rel_tol, MU_REDUCTION))
        schedule.end_pass(best, bound, found.value)
        return found, bound

    def _ease(self, cuts: CutModel, l2: Vector) -> Vector | None:
        """Return the proximal term of features in which cuts are too steep for a QP, or None."""
        squares = self._steepness.of_new(cuts, float(l2.min()))
        if squares is not None:
            steep = squares > l2 + self._eased
            self._eased = np.where(steep, squares / EASED_SHARE - l2, self._eased)
        return self._eased if self._eased.any() else None

    def _sharper_bound(
        self, cuts: CutModel, mu: Vector, found: Maximum, best: float, rel_tol: float, reduction: float = 1.0
    ) -> float:
        """Return the best bound of the planes, without the proximal term; alpha stays the point's."""
        self._schedule.begin_bound()
        bound = -np.inf
        if self._linear is not None and len(mu) <= MAX_LP_FEATURES:
            bound = self._linear_bound(self._linear, cuts, found.a)
            if self._linear is not None:
                return bound
        alpha, a = cuts.alpha.copy(), found.a
        for _ in range(MAX_MULTIPLIER_STEPS):
            # What is left of the slope is mu times the last move: the method of multipliers for the condition
            # that a feature without penalty has no slope.
            mu = reduction * mu
            found = piecewise(cuts, self.terms, mu, found.w, best, rel_tol, self._products)
            self._schedule.cost += found.steps
            bound = max(bound, self._bounds.of_mean(cuts, cuts.alpha))
            closed = found.value - bound <= rel_tol * (best - bound)
            if closed:
                break
        cuts.set_alpha(alpha)
        if self._linear is not None and not closed:
            bound = max(bound, self._linear_bound(self._linear, cuts, a))
        return bound

    def _linear_bound(self, linear: LinearModel, cuts: CutModel, a: Vector) -> float:
        """Return the bound of the linear programme; drop that if it does not take all numbers."""
        bound = linear.bound(cuts, a, self._bounds.of_mean)
        if not linear.taken:
            self._linear = None
        return bound

    def _first_mu(self, cuts: CutModel, best: float, bound: float) -> float:
        """Return the mu at which the first step closes half the gap, if the mean plane were all there is.

        A warm start may have a plane with hardly a slope that the penalty does not hold. If that slope is
        rounding, as in a column of ones for as many rows of either class, the one in all features is the
        scale.
        """
        whole = combination(cuts, cuts.alpha)[0]
        whole = whole / np.sqrt(self._units)
        a, l1 = whole[self._flat], (self.terms.l1 / np.sqrt(self._units))[self._flat]
        beyond = np.maximum(0.0, np.abs(a) - l1)
        if dot(a, a) <= ROUNDING_SHARE * dot(whole, whole):
            a = whole
        size = max(dot(beyond, beyond), MIN_SLOPE_SHARE * max(dot(a, a), dot(l1, l1)), 1e-300)
        gap = best - max(bound, cuts.floor)
        return size / (gap if 0.0 < gap < np.inf else max(abs(best), 1.0))


def _units(flat: NDArray[np.bool_], mean_squares: Vector | None) -> Vector:
    """Return the units, squared, that moves of features are measured in: 1 for those with curvature."""
    if mean_squares is None:
        return np.ones(len(flat))
    measured = (mean_squares > 0.0) & flat
    if not measured.any():
        return np.ones(len(flat))
    unit = np.exp(np.log(mean_squares[measured]).mean())  # a common factor is that of mu
    return np.where(measured, mean_squares / unit, 1.0)


def _newest(cuts: CutModel) -> Vector:
    """Return the weights of the mean that is made of the newest cut of each block."""
    last = np.empty(cuts.groups, np.intp)
    last[cuts.blocks] = np.arange(len(cuts.blocks))
    newest = np.zeros(len(cuts.alpha))
    newest[last] = 1.0
    return newest
