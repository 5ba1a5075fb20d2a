"""Penalties with kinks and bounds: a proximal method solves the inner problem, and bounds stand beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.gram_cache import GramCache
from bmrm.linear.bundle.inner_lp import LinearModel
from bmrm.linear.bundle.inner_qp import CutModel, Maximum, combination, piecewise
from bmrm.linear.objective.running_error import ErrorBound
from bmrm.linear.regularizers.base import EASED, MULTIPLIER_STEPS, Steepness
from bmrm.linear.regularizers.separable import BentLine, FreeFace, Separable
from bmrm.matrix import _cpu

Vector = NDArray[np.float64]

RADIUS, AROUND = 1e3, 4.0
"""Weights without a penalty are certified to be the best ones within this distance of the prior mean, and
within so many times the distance of the best point where that is more."""

LEAST_SLOPE = 1e-4
"""Smallest square of a slope that the first weight of the proximal term is chosen for, as a share of that of
the plane, and of what the penalty holds."""

ROUNDING = 1e-24
"""Square of a slope in some features, as a share of that in all, that is rounding."""

LEAST_MU = 1e-6
"""Smallest weight of the proximal term, as a share of the first one."""

LESS = 0.3
"""Share of the proximal term that each step of the method of multipliers leaves to the next, where the term
is there for the point's sake alone."""

LONGEST_WAIT = 20
"""Most passes without a sharper bound, where one takes more of Newton's steps than the points since then."""

NARROW = 200
"""Features up to which a linear programme gives the bound at once; with more it only does where the method of
multipliers fails."""


class Penalised:
    """Any other one: a sum over features of kinks, parabolas and intervals.

    Parameters
    ----------
    name : str
    lam : float
    penalty : Separable
    params : dict of str to float or bool

    Attributes
    ----------
    radius : float
        Features without a penalty are certified within this distance of the prior mean; infinite where
        there are none.
    """

    metric_key: object = None
    metric: Vector | None = None
    plain = False
    checksums: Mapping[str, str] = MappingProxyType({})

    def __init__(self, name: str, lam: float, penalty: Separable, params: dict[str, float | bool]) -> None:
        self.name, self.lam, self.penalty, self.params = name, lam, penalty, params
        self.sparse = bool(penalty.l1.any())
        self._flat = penalty.l2 == 0.0
        self.needs_floor = bool(self._flat.any())
        self._mu = self._least_mu = 0.0
        self._steepness, self._eased = Steepness(), np.zeros(len(penalty.l2))
        self._sizes = np.ones(len(penalty.l2))
        self._best_bound, self._gap = -np.inf, np.inf
        self._spent = self._due = self._waited = 0
        self._products = GramCache()
        self._linear = LinearModel(penalty) if not penalty.l2.any() else None
        self._free = np.flatnonzero(penalty.free)
        self.radius = RADIUS if len(self._free) else np.inf
        self._certified = self._within_radius()

    def take_units(self, mean_squares: Vector) -> None:
        """Measure moves of features without a penalty by what they do to margins, whatever their units.

        Parameters
        ----------
        mean_squares : ndarray of shape (n_features,)
            Of the columns of X.
        """
        known = mean_squares > 0.0
        if (known & self._flat).any():  # a common factor is that of mu
            unit = np.exp(np.log(mean_squares[known & self._flat]).mean())
            self._sizes = np.where(known & self._flat, mean_squares / unit, 1.0)

    def _within_radius(self) -> Separable:
        """Return the penalty on the weights that certificates cover."""
        penalty, free = self.penalty, self.penalty.free
        low, high = penalty.prior - self.radius, penalty.prior + self.radius
        return penalty._replace(
            low=np.where(free, np.maximum(penalty.low, low), penalty.low),
            high=np.where(free, np.minimum(penalty.high, high), penalty.high),
        )

    def limit(self, errors: ErrorBound) -> None:
        """Tell an error bound how far optimal weights can be: their penalty is J less the risk, at most."""
        penalty, lengths = self.penalty, errors.lengths
        assert isinstance(lengths, np.ndarray)
        bent, free = penalty.l2 > 0.0, penalty.free
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            softness = np.where(lengths > 0.0, np.square(lengths) / penalty.l2, 0.0)
            of_kink = np.where(bent | free, 0.0, lengths / penalty.l1).max(initial=0.0)
        of_bend, of_free = float(softness[bent].sum()), float(lengths[free].sum())
        errors.softness, errors.prior_size = float(softness.sum()), errors.size(penalty.prior)

        def reachable(gap: float) -> float:
            # Where it bends, J is strongly convex.
            there = math.sqrt(2.0 * gap * of_bend)
            if of_kink or of_free:
                there += of_kink * max(0.0, errors.objective - errors.floor) + errors.prior_size
                there += errors.best_size + (self.radius * of_free if of_free else 0.0)
            return float(there)

        errors.reachable = reachable

    def covers(self, w: Vector) -> bool:
        """Whether certificates are of a region as large as a point wants."""
        return AROUND * self._distance(w) <= self.radius

    def _distance(self, w: Vector) -> float:
        free = self._free
        return float(np.abs(w[free] - self.penalty.prior[free]).max(initial=0.0))

    def _reach(self, best: Vector) -> None:
        """Have certificates cover what the best point wants, and later ones; what was certified is void."""
        if not self.covers(best):
            self.cover(2.0 * AROUND * self._distance(best))

    def cover(self, radius: float) -> None:
        """Have certificates cover what is no farther away than this; what was certified before is void."""
        if len(self._free):
            self.radius = radius
            self._certified = self._within_radius()
            self._best_bound, self._gap = -np.inf, np.inf

    def start(self, n_features: int) -> Vector:
        """Return the prior mean, or the point of the domain that is nearest to it."""
        return self.project(self.penalty.prior)

    def value(self, w: Vector) -> float:
        """``lam * Omega(w)``."""
        return self.penalty.value(w)

    def project(self, w: Vector) -> Vector:
        """Return the nearest point of the domain."""
        return self.penalty.project(w)

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        """Return ``w`` with those features at the prior mean or at an end that ``sparser`` has there."""
        p = self.penalty
        kept = (sparser == p.prior) & (p.l1 > 0.0) | (sparser == p.low) | (sparser == p.high)
        return np.where(kept, sparser, w)

    def line(self, w: Vector, dw: Vector) -> BentLine:
        """Return the derivative along ``w + t dw``."""
        return self.penalty.line(w, dw)

    def quadratic_minimiser(self, hessian: Vector, gradient: Vector, w: Vector) -> Vector | None:
        """Minimise by coordinate descent and steps on the face that it finds."""
        penalty = self.penalty
        hessian[np.diag_indices(len(w))] += penalty.l2
        found = penalty.project(w)
        slope = gradient + penalty.smooth_gradient(w)
        _qp.penalised_quadratic(hessian, slope, penalty.l1, penalty.prior, penalty.low, penalty.high, found)
        return found

    def face(self, w: Vector, gradient: Vector) -> FreeFace:
        """Return the features that may move; see `Separable.face`."""
        return self.penalty.face(w, gradient)

    def land(self, w: Vector, step: Vector, face: FreeFace) -> Vector:
        """Return ``w + step``; a feature that would cross its kink stops there."""
        return self.penalty.land(w, step, face)

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        """Shrink the step that a slope takes from ``w``."""
        return self.penalty.minimiser(slope, np.full(len(w), bend), w)

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises ``lam * Omega(w) + <a, w>``."""
        return self.penalty.minimiser(a)

    def minimise_model(
        self, planes: CutModel, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise the model, near ``centre`` where the penalty has no curvature."""
        self._reach(centre)
        last = np.empty(planes.groups, np.intp)
        last[planes.blocks] = np.arange(len(planes.blocks))
        newest = np.zeros(len(planes.alpha))
        newest[last] = 1.0
        bound = self._bound(planes, newest)
        if not self._flat.any():
            mu = self._ease(planes, self.penalty.l2)
            found = piecewise(planes, self.penalty, mu, centre, best, rel_tol, self._products)
            bound = max(bound, self._bound(planes, planes.alpha))
            if mu is not None and found.value - bound > rel_tol * (best - bound):
                bound = max(bound, self._sharper_bound(planes, mu, found, best, rel_tol))
            return _finite(found.w, centre), bound
        if self._mu == 0.0:
            self._mu = self._first_mu(planes, best, bound)
            self._least_mu = LEAST_MU * self._mu
        mu = np.where(self._flat, self._mu * self._sizes, 0.0)
        if not self._flat.all():
            eased = self._ease(planes, np.where(self._flat, np.inf, self.penalty.l2))
            mu = mu if eased is None else mu + eased
        found = piecewise(planes, self.penalty, mu, centre, best, rel_tol, self._products)
        bound = max(bound, self._bound(planes, planes.alpha))
        self._spent, self._waited = self._spent + found.steps, self._waited + 1
        # A sharper bound takes far more steps than a point, where there are many cuts: no more than all
        # points since the last one.
        due = self._spent >= self._due or self._waited >= LONGEST_WAIT
        if due and best - max(bound, self._best_bound) > 0.5 * self._gap:
            bound = max(bound, self._sharper_bound(planes, mu, found, best, rel_tol, LESS))
        self._best_bound = max(self._best_bound, bound)
        self._gap = min(self._gap, best - self._best_bound)
        self._adapt(best - found.value)
        return _finite(found.w, centre), bound

    def _ease(self, planes: CutModel, l2: Vector) -> Vector | None:
        """Return the proximal term that features have in which cuts are too steep, as under `L2`."""
        squares = self._steepness.of_new(planes, float(l2.min()))
        if squares is not None:
            steep = squares > l2 + self._eased
            self._eased = np.where(steep, squares / EASED - l2, self._eased)
        return self._eased if self._eased.any() else None

    def _sharper_bound(
        self, planes: CutModel, mu: Vector, found: Maximum, best: float, rel_tol: float, less: float = 1.0
    ) -> float:
        """Return the best bound of the planes, without the proximal term; alpha stays the point's."""
        bound, self._spent, self._due, self._waited = -np.inf, 0, 0, 0
        if self._linear is not None and len(mu) <= NARROW:
            bound = self._linear_bound(self._linear, planes, found.a)
            if self._linear is not None:
                return bound
        alpha, a = planes.alpha.copy(), found.a
        for _ in range(MULTIPLIER_STEPS):
            # What is left of the slope is mu times the last move: the method of multipliers (Rockafellar,
            # Math. Oper. Res. 1 (1976) 97) for the condition that a feature without penalty has no slope.
            mu = less * mu
            found = piecewise(planes, self.penalty, mu, found.w, best, rel_tol, self._products)
            self._due += found.steps
            bound = max(bound, self._bound(planes, planes.alpha))
            closed = found.value - bound <= rel_tol * (best - bound)
            if closed:
                break
        planes.set_alpha(alpha)
        if self._linear is not None and not closed:
            bound = max(bound, self._linear_bound(self._linear, planes, a))
        return bound

    def _linear_bound(self, linear: LinearModel, planes: CutModel, a: Vector) -> float:
        """Return the linear programme's bound; it is asked no more where it did not take all numbers."""
        bound = linear.bound(planes, a, self._bound)
        if not linear.taken:
            self._linear = None
        return bound

    def _bound(self, planes: CutModel, alpha: Vector) -> float:
        """Return what the mean plane certifies, also once its slope is taken out where nothing holds it."""
        a, offset = combination(planes, alpha)
        bound = self._bound_of_mean(planes, alpha, a, offset)
        if not len(self._free):
            return bound
        levelled = self._level(planes, alpha, a)
        return max(bound, self._bound_of_mean(planes, levelled, *combination(planes, levelled)))

    def _bound_of_mean(self, planes: CutModel, alpha: Vector, a: Vector, offset: float) -> float:
        """Return what the mean plane as it is certifies.

        Its slopes may be off. Up to the strength of a kink that is taken from the strength; the rest costs
        its product with the weights.
        """
        errors, penalty = planes.errors, self._certified
        if errors is None:
            return planes.certified(penalty.lower_bound(a, offset, planes.floor), alpha, 0.0)
        slack = errors.slack(planes.blur(alpha))
        held = np.minimum(penalty.l1, slack)
        penalty = penalty._replace(l1=penalty.l1 - held)
        rest, lost = slack - held, dot(slack, np.abs(penalty.prior))
        if rest.any():
            w = penalty.minimiser(penalty.bounded_share(a) * a)
            bent = penalty.l2 > 0.0
            lost += dot(rest[bent], np.abs(w - penalty.prior)[bent])
            lost += float((np.square(rest[bent]) / (2.0 * penalty.l2[bent])).sum())
            ends = np.maximum(np.abs(penalty.low - penalty.prior), np.abs(penalty.high - penalty.prior))
            loose = (rest > 0.0) & ~bent
            lost += dot(rest[loose], ends[loose])
        return planes.certified(penalty.lower_bound(a, offset, planes.floor) - lost, alpha, 0.0)

    def _level(self, planes: CutModel, alpha: Vector, a: Vector) -> Vector:
        """Return a mean near ``alpha`` that has hardly any slope in features without a penalty.

        Of all changes of alpha that cancel the slope and keep the sums, it takes the smallest one relative to
        alpha itself.
        """
        inside = np.flatnonzero(alpha)
        k, groups = len(self._free), planes.groups
        conditions = np.zeros((k + groups, len(inside)))
        units = np.append(np.sqrt(self._sizes[self._free]), np.ones(groups))
        conditions[:k] = planes.gradients[np.ix_(inside, self._free)].T / units[:k, None]
        conditions[k + planes.blocks[inside], np.arange(len(inside))] = 1.0
        conditions *= alpha[inside]
        change = -np.append(a[self._free], np.zeros(groups)) / units
        if not _qp.cholesky_solve(_cpu.gram(conditions, conditions, threads=planes.threads), change):
            return alpha
        levelled = alpha.copy()
        levelled[inside] *= np.maximum(0.0, 1.0 + _cpu.combine(conditions, change, threads=planes.threads))
        sums = np.bincount(planes.blocks, levelled, groups)
        if not (np.isfinite(levelled).all() and (sums > 0.0).all()):
            return alpha
        return np.asarray(levelled / sums[planes.blocks])

    def _first_mu(self, planes: CutModel, best: float, bound: float) -> float:
        """Return the mu at which the first step closes half the gap, were the plane all there is.

        A warm start may have a plane with hardly a slope that the penalty does not hold. Where it is
        rounding, as in a column of ones for as many rows of either class, that in all features is the scale.
        """
        whole = combination(planes, planes.alpha)[0]
        whole = whole / np.sqrt(self._sizes)
        a, l1 = whole[self._flat], (self.penalty.l1 / np.sqrt(self._sizes))[self._flat]
        beyond = np.maximum(0.0, np.abs(a) - l1)
        if dot(a, a) <= ROUNDING * dot(whole, whole):
            a = whole
        size = max(dot(beyond, beyond), LEAST_SLOPE * max(dot(a, a), dot(l1, l1)), 1e-300)
        gap = best - max(bound, planes.floor)
        return size / (gap if 0.0 < gap < np.inf else max(abs(best), 1.0))

    def _adapt(self, fall: float) -> None:
        """Let the model's minimiser be where the model promises about half of what the gap leaves.

        Where it promises no fall at all it was not found: mu is too small for that.
        """
        if 0.0 < self._gap < np.inf:
            change = min(4.0, max(0.25, 2.0 * fall / self._gap)) if fall >= 0.0 else 4.0
            self._mu = max(self._least_mu, change * self._mu)


def _finite(w: Vector, centre: Vector) -> Vector:
    """Return the minimiser; the best point itself where rounding has left none, as for an optimum of 0."""
    return w if np.isfinite(w).all() else centre.copy()
