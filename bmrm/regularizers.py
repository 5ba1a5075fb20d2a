"""Regularisers: what the solver and the bundle ask of ``lam * Omega(w)``.

A regulariser knows nothing of losses.  It gives its value, its derivative on a line as a function of the
step alone (so that a line search needs no vector work), the minimiser of a quadratic model of the risk, and
that of the cutting-plane model with a lower bound on it: each kind has an inner solver of its own.

    l2            lam s_j / 2 (w_j - w0_j)^2, summed over the features
    l1            lam s_j |w_j - w0_j|
    elastic_net   lam s_j (rho |w_j - w0_j| + (1 - rho) / 2 (w_j - w0_j)^2),  rho = l1_ratio

with s = 1 and w0 = 0 where nothing else is said; ``positive`` adds w >= 0.  A feature with s_j = 0 is not
penalised.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm import _cpu, _qp
from bmrm.errors import DataError, ParameterError
from bmrm.inner_lp import LinearModel
from bmrm.inner_qp import CutModel, Maximum, combination, piecewise
from bmrm.moving_gram import MovingGram
from bmrm.separable import BentLine, Face, Separable, StraightLine
from bmrm.vectors import dot, dot_rows

Vector = NDArray[np.float64]
NAMES = ("l2", "l1", "elastic_net")

L1_RATIO = 0.5
"""Default share of the l1 norm in the elastic net."""

RADIUS = 1e3
"""Weights without a penalty are certified to be the best ones within this distance of the prior mean."""


LEAST_SLOPE = 1e-4
"""Smallest square of a slope that the first weight of the proximal term is chosen for, as a share of what the
penalty holds."""

LEAST_MU = 1e-6
"""Smallest weight of the proximal term, as a share of the first one."""

MULTIPLIER_STEPS, LESS = 10, 0.3
"""Most steps of the method of multipliers in a pass; and the share of the proximal term that each leaves to
the next, where the term is there for the point's sake alone."""

LONGEST_WAIT = 20
"""Most passes without a sharper bound, where one takes more of Newton's steps than the points since then."""

NARROW = 200
"""Features up to which a linear programme gives the bound at once; with more it only does where the method of
multipliers fails."""

STEEP, EASED = 1e9, 1.0 / 256.0
"""Most curvature of a cut in one feature, ``a_j^2 / (lam s_j)``, as a multiple of the first objective, that
the QP takes as it is: near 1e12 rounding hides what is left of others in it. And the share of that which a
feature has once it is eased: with more the QP of several blocks still gets stuck, with less the bound needs
more steps."""


class Slopes(Protocol):
    """The derivative of ``lam * Omega`` on a line ``w + t dw``, t >= 0."""

    @property
    def end(self) -> float:
        """The largest t at which the line is in the domain."""

    def slope(self, t: float) -> float:
        """Return a subgradient at ``t``."""


class Regularizer(Protocol):
    """``lam * Omega(w)`` for a fixed lam, and for one solve."""

    name: str
    lam: float
    sparse: bool
    """Whether weights can be exactly those of the prior mean."""
    needs_floor: bool
    """Whether a certificate needs a number that no risk is below."""
    metric_key: object
    """What tells products of cuts in a metric of this penalty's own; None where they are plain ones."""

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in products of cuts; None where all are 1."""

    @property
    def plain(self) -> bool:
        """Whether it is ``lam/2 |w|^2``."""

    @property
    def params(self) -> dict[str, float | bool]:
        """What there is to tell beside name and lam."""

    def start(self, n_features: int) -> Vector:
        """Return the point to start from: the prior mean."""

    def value(self, w: Vector) -> float:
        """``lam * Omega(w)``."""

    def project(self, w: Vector) -> Vector:
        """Return the nearest point of the domain."""

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        """Return ``w`` with those features on a kink that ``sparser`` has there."""

    def line(self, w: Vector, dw: Vector) -> Slopes:
        """Return the derivative of ``lam * Omega(w + t dw)``."""

    def quadratic_minimiser(self, hessian: Vector, gradient: Vector, w: Vector) -> Vector | None:
        """Return the v that minimises ``lam Omega(v) + <gradient, v - w> + (v - w)' hessian (v - w) / 2``.

        ``hessian`` is overwritten.  None where rounding leaves no minimum.
        """

    def face(self, w: Vector, gradient: Vector) -> Face:
        """Return where the penalty is smooth around ``w``, for a descent of the risk with ``gradient``."""

    def land(self, w: Vector, step: Vector, face: Face) -> Vector:
        """Return ``w + step``, or where it leaves the face."""

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        """Return the v that minimises ``lam Omega(v) + <slope, v - w> + bend / 2 |v - w|^2``."""

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises ``lam * Omega(w) + <a, w>``."""

    def minimise_model(
        self, planes: CutModel, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise ``lam Omega(w) + sum_p max_i <a_i, w> + b_i``; see `Bundle.minimise`."""


class Steepness:
    """How steep cuts are, feature by feature, beside the first objective."""

    def __init__(self) -> None:
        self._first, self._looked = 0.0, 0

    def of_new(self, planes: CutModel, best: float, least: float) -> Vector | None:
        """Return the largest squares of entries of new cuts, in units of `STEEP` times the first objective.

        Those of cuts with a product of at least ``least`` in these units with themselves; None where there
        are none.
        """
        self._first = self._first or abs(best) or 1.0
        unit = STEEP * self._first
        steep = planes.steep(self._looked, least * unit)
        self._looked = planes.made
        if not steep:
            return None
        # A cut from where the risk is far larger, as where exp() has run away, is steep for that reason.
        size = np.minimum(1.0, self._first / np.maximum(np.abs(planes.offsets[steep]), np.finfo(float).tiny))
        return np.asarray(np.square(planes.gradients[steep] * size[:, None]).max(axis=0) / unit)


class L2:
    """``lam/2 |w|^2``, or ``lam/2 sum_j s_j (w_j - w0_j)^2``.

    The inner problem is one QP either way: products of cuts take feature j with weight ``1 / s_j``
    (`metric`), and the planes are told at w0.

    Where a cut is so steep in a feature that rounding of its curvature would drown what others do, as with
    an identity number of seven digits beside counts, the model has a proximal term in that feature,
    ``mu_j / 2 (w_j - best_j)^2``. With it the feature is one of larger strength and another mean, so that
    the QP is as before, and ``lam s_j + mu_j`` what its weight in products of cuts says. The point serves the
    line search as that without the term would; the bound is that of the model without it, and the method of
    multipliers takes away what the term costs.

    Parameters
    ----------
    lam : float
        Strength, positive.
    strengths : ndarray of shape (n_features,), optional
        The factors s of lam, positive; None for 1.
    prior : ndarray of shape (n_features,), optional
        The mean w0; None for 0.
    params : dict of str to float or bool, optional
        What there is to tell beside name and lam.

    Attributes
    ----------
    metric : ndarray of shape (n_features,), or None
        Weights of the features in products of cuts; None where all are 1.

    Raises
    ------
    ParameterError
        If ``lam`` is not a positive finite number.
    """

    name = "l2"
    sparse = needs_floor = False

    def __init__(
        self,
        lam: float,
        strengths: Vector | None = None,
        prior: Vector | None = None,
        params: dict[str, float | bool] | None = None,
    ) -> None:
        self.lam, self.strengths, self.prior, self.params = _strength(lam), strengths, prior, params or {}
        self.metric = None if strengths is None else 1.0 / strengths
        self.metric_key: object = (
            None if strengths is None else hashlib.sha256(strengths.tobytes()).hexdigest()
        )
        self._steepness = Steepness()

    @property
    def plain(self) -> bool:
        """Whether it is ``lam/2 |w|^2``."""
        return self.strengths is None and self.prior is None

    @property
    def curvature(self) -> Vector | float:
        """The factors of ``(w_j - w0_j)^2 / 2``."""
        return self.lam if self.strengths is None else self.lam * self.strengths

    def _weighed(self, v: Vector) -> Vector:
        return v if self.strengths is None else self.strengths * v

    def _from_prior(self, w: Vector) -> Vector:
        return w if self.prior is None else w - self.prior

    def _total(self, parts: Vector) -> Vector:
        """Sum over the features of all processes: there is this one."""
        return parts

    def start(self, n_features: int) -> Vector:
        """Return the prior mean."""
        return np.zeros(n_features) if self.prior is None else self.prior.copy()

    def value(self, w: Vector) -> float:
        """Value of the penalty."""
        v = self._from_prior(w)
        return 0.5 * self.lam * dot(self._weighed(v), v)

    def project(self, w: Vector) -> Vector:
        """Return ``w``: the domain is everything."""
        return w

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        """Return ``w``: there are no kinks."""
        return w

    def line(self, w: Vector, dw: Vector) -> StraightLine:
        """Return the derivative along ``w + t dw``."""
        along = self._weighed(dw)
        p, q = self.lam * self._total(np.array([dot(self._from_prior(w), along), dot(dw, along)]))
        return StraightLine(float(p), float(q))

    def smooth_gradient(self, w: Vector) -> Vector:
        """Gradient of the penalty."""
        return self.lam * self._weighed(self._from_prior(w))

    def quadratic_minimiser(self, hessian: Vector, gradient: Vector, w: Vector) -> Vector | None:
        """Return ``w - (hessian + P'')^{-1} (gradient + P'(w))``, P the penalty."""
        hessian[np.diag_indices(len(w))] += self.curvature
        step = gradient + self.smooth_gradient(w)
        return w - step if _qp.cholesky_solve(hessian, step) else None

    def face(self, w: Vector, gradient: Vector) -> Face:
        """Everything, with the slope and curvature there."""
        return Face(np.ones(len(w), bool), gradient + self.smooth_gradient(w), self.curvature)

    def land(self, w: Vector, step: Vector, face: Face) -> Vector:
        """Return ``w + step``."""
        return w + step

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        """Return the step of a slope from ``w``, shrunk towards the prior mean."""
        towards = bend * w - slope
        if self.prior is not None:
            towards += self.curvature * self.prior
        return np.asarray(towards / (bend + self.curvature))

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises the penalty plus ``<a, w>``."""
        w = a / -self.curvature
        if self.prior is not None:
            w += self.prior
        return np.asarray(w)

    def minimise_model(
        self, planes: CutModel, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise the model: one QP, or some where cuts are too steep for it."""
        if planes.whole:
            self._ease(planes, best)
            if planes.metric is not None and (self.metric is None or (planes.metric < self.metric).any()):
                return self._minimise_eased(planes, planes.metric, best, rel_tol, centre)
        offsets = None
        if self.prior is not None:
            offsets = planes.offsets + self._total(dot_rows(planes.gradients, self.prior))
        planes.maximise(self.lam, best, rel_tol, offsets)
        return planes.minimiser(self, centre)

    def _ease(self, planes: CutModel, best: float) -> None:
        """Give features in which a new cut is too steep for the QP a smaller weight in products of cuts."""
        squares = self._steepness.of_new(planes, best, self.lam)
        if squares is None:
            return
        metric = np.ones(len(squares)) if planes.metric is None else planes.metric
        eased = squares * metric > self.lam
        if eased.any():
            planes.weigh(np.where(eased, EASED * self.lam / np.where(eased, squares, 1.0), metric))

    def _minimise_eased(
        self, planes: CutModel, metric: Vector, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise the model with a proximal term, and bound that without it."""
        bend = self.lam / metric
        mu = np.maximum(0.0, bend - self.curvature)
        pull = self.smooth_gradient(np.zeros(len(mu)))
        bound, middle = -np.inf, centre
        for _ in range(MULTIPLIER_STEPS):
            # Penalty and proximal term: a parabola of their own, bend / 2 (w - mean)^2, and a constant.
            mean = (mu * middle - pull) / bend
            constant = self.value(mean) + 0.5 * dot(mu, np.square(mean - middle))
            planes.maximise(
                self.lam, best - constant, rel_tol, planes.offsets + dot_rows(planes.gradients, mean)
            )
            a, _ = combination(planes, planes.alpha)
            w = mean - a / bend
            tops = np.full(planes.groups, -np.inf)
            np.maximum.at(tops, planes.blocks, planes.offsets + dot_rows(planes.gradients, w))
            bound = max(bound, planes.minimiser(self, centre)[1])
            if self.value(w) + float(tops.sum()) - bound <= rel_tol * (best - bound):
                break
            middle = w
        return w, bound


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

    def __init__(self, name: str, lam: float, penalty: Separable, params: dict[str, float | bool]) -> None:
        self.name, self.lam, self.penalty, self.params = name, lam, penalty, params
        self.sparse = bool(penalty.l1.any())
        self._flat = penalty.l2 == 0.0
        self.needs_floor = bool(self._flat.any())
        self._mu = self._least_mu = 0.0
        self._steepness, self._eased = Steepness(), np.zeros(len(penalty.l2))
        self._best_bound, self._gap = -np.inf, np.inf
        self._spent = self._due = self._waited = 0
        self._products = MovingGram()
        self._linear = LinearModel(penalty) if not penalty.l2.any() else None
        free = penalty.free
        self._free = np.flatnonzero(free)
        self.radius = RADIUS if free.any() else np.inf
        self._certified = penalty._replace(
            low=np.where(free, np.maximum(penalty.low, penalty.prior - self.radius), penalty.low),
            high=np.where(free, np.minimum(penalty.high, penalty.prior + self.radius), penalty.high),
        )

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

    def face(self, w: Vector, gradient: Vector) -> Face:
        """Return the features that may move; see `Separable.face`."""
        return self.penalty.face(w, gradient)

    def land(self, w: Vector, step: Vector, face: Face) -> Vector:
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
        last = np.empty(planes.groups, np.intp)
        last[planes.blocks] = np.arange(len(planes.blocks))
        newest = np.zeros(len(planes.alpha))
        newest[last] = 1.0
        bound = self._bound(planes, newest)
        if not self._flat.any():
            mu = self._ease(planes, best)
            found = piecewise(planes, self.penalty, mu, centre, best, rel_tol, self._products)
            bound = max(bound, self._bound(planes, planes.alpha))
            if mu is not None and found.value - bound > rel_tol * (best - bound):
                bound = max(bound, self._sharper_bound(planes, mu, found, best, rel_tol))
            return found.w, bound
        if self._mu == 0.0:
            self._mu = self._first_mu(planes, best, bound)
            self._least_mu = LEAST_MU * self._mu
        mu = np.where(self._flat, self._mu, 0.0)
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
        return found.w, bound

    def _ease(self, planes: CutModel, best: float) -> Vector | None:
        """Return the proximal term that features have in which cuts are too steep, as under `L2`."""
        l2 = self.penalty.l2
        squares = self._steepness.of_new(planes, best, float(l2.min()))
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
        planes.alpha[:] = alpha
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
        bound = self._certified.lower_bound(a, offset, planes.floor)
        if not len(self._free):
            return bound
        levelled = self._level(planes, alpha, a)
        return max(bound, self._certified.lower_bound(*combination(planes, levelled), planes.floor))

    def _level(self, planes: CutModel, alpha: Vector, a: Vector) -> Vector:
        """Return a mean near ``alpha`` that has hardly any slope in features without a penalty.

        Of all changes of alpha that cancel the slope and keep the sums, it takes the smallest one relative to
        alpha itself.
        """
        inside = np.flatnonzero(alpha)
        k, groups = len(self._free), planes.groups
        conditions = np.zeros((k + groups, len(inside)))
        conditions[:k] = planes.gradients[np.ix_(inside, self._free)].T
        conditions[k + planes.blocks[inside], np.arange(len(inside))] = 1.0
        conditions *= alpha[inside]
        change = -np.append(a[self._free], np.zeros(groups))
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

        A warm start may have a plane with hardly a slope that the penalty does not hold.
        """
        a, l1 = combination(planes, planes.alpha)[0][self._flat], self.penalty.l1[self._flat]
        beyond = np.maximum(0.0, np.abs(a) - l1)
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


def _strength(lam: float) -> float:
    if not 0.0 < lam < np.inf:
        raise ParameterError(f"lam: found {lam:g}, expected a positive number")
    return float(lam)


def get(
    name: str,
    lam: float,
    n_features: int,
    *,
    l1_ratio: float | None = None,
    positive: bool = False,
    feature_lambda: Any = None,
    prior: Any = None,
    columns: int = 1,
    intercepts: int = 0,
) -> Regularizer:
    """Make a regulariser from its name and options.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    lam : float
        Strength, positive.
    n_features : int
    l1_ratio : float, optional
        Of the elastic net, in [0, 1]; default `L1_RATIO`.
    positive : bool, default False
        Keep weights at least 0.
    feature_lambda : array_like of shape (n_features,), optional
        Factors of lam, at least 0; 0 leaves a feature without a penalty.
    prior : array_like of shape (n_features,), (n_features, columns) or all weights, optional
        Weights to regularise towards.
    columns : int, default 1
        Weights of each feature, one for each class.
    intercepts : int, default 0
        Weights at the end that are intercepts: with strength 1 and of either sign.

    Raises
    ------
    ParameterError
        For a name, a strength or a share that is none.
    DataError
        For strengths or a prior mean that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> get("l1", 0.5, 2, feature_lambda=[1.0, 0.0]).value(np.array([3.0, 4.0]))
    1.5
    """
    if name not in NAMES:
        raise ParameterError(f"reg: found {name!r}, expected one of {', '.join(NAMES)}")
    lam = _strength(lam)
    if l1_ratio is not None and name != "elastic_net":
        raise ParameterError(f"l1_ratio: goes with reg elastic_net, found {name}")
    share = {"l2": 0.0, "l1": 1.0, "elastic_net": L1_RATIO if l1_ratio is None else l1_ratio}[name]
    if not 0.0 <= share <= 1.0:
        raise ParameterError(f"l1_ratio: found {share:g}, expected 0 to 1")
    if name == "l2" and not positive and feature_lambda is None and prior is None:
        return L2(lam)
    weights = _vector("feature_lambda", feature_lambda, n_features, columns, intercepts, 1.0)
    if not (weights >= 0.0).all():
        raise DataError(f"feature_lambda: found {weights.min():g}, expected numbers of at least 0")
    if not weights.any():
        raise DataError("feature_lambda: all are 0, expected a penalty on one feature at least")
    mean = _vector("prior", prior, n_features, columns, intercepts, 0.0)
    params = {
        "l1_ratio": share if name == "elastic_net" else None,
        "positive": positive or None,
        "unpenalised": int(np.count_nonzero(weights == 0.0)) or None,
        "feature_lambda": feature_lambda is not None or None,
        "prior": prior is not None or None,
    }
    told = {key: x for key, x in params.items() if x is not None}
    if name == "l2" and not positive and weights.all():
        strengths = None if feature_lambda is None else weights
        return L2(lam, strengths, None if prior is None else mean, told)
    low = np.full(len(weights), -np.inf)
    if positive:
        low[: n_features * columns] = 0.0
    penalty = Separable(
        l1=lam * share * weights,
        l2=lam * (1.0 - share) * weights,
        prior=mean,
        low=low,
        high=np.full(len(weights), np.inf),
    )
    return Penalised(name, lam, penalty, told)


def _vector(what: str, given: Any, n_features: int, columns: int, intercepts: int, fill: float) -> Vector:
    """Numbers of all weights, row after row; of the intercepts behind them where they are not given."""
    found = np.full(n_features * columns + intercepts, fill)
    if given is not None:
        values = np.asarray(given, np.float64)
        shape = values.shape
        if shape in ((n_features,), (n_features, columns)):
            values = (np.repeat(values, columns) if values.ndim == 1 else values).ravel()
        elif shape != found.shape:
            values = np.array([np.nan])
        if not np.isfinite(values).all():
            raise DataError(
                f"{what}: found shape {shape}, expected {n_features} finite numbers, one a feature"
            )
        found[: len(values)] = values
    return found
