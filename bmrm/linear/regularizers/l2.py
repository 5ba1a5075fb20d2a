"""The squared penalty: its inner problem is one QP in the products of cuts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot, dot_rows
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.inner_qp import CutModel, combination, tops
from bmrm.linear.objective.running_error import UNIT, ErrorBound
from bmrm.linear.regularizers.base import EASED, MULTIPLIER_STEPS, Steepness, strength
from bmrm.linear.regularizers.separable import FreeFace, StraightLine

Vector = NDArray[np.float64]

SHOWN, REFINEMENTS = 0.1, 4
"""Share of the QP's gap that rounding of products of cuts may hide before the QP is refined; most times that
it is."""


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
    radius = np.inf
    checksums: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        lam: float,
        strengths: Vector | None = None,
        prior: Vector | None = None,
        params: dict[str, float | bool] | None = None,
    ) -> None:
        self.lam, self.strengths, self.prior, self.params = strength(lam), strengths, prior, params or {}
        self.metric = None if strengths is None else 1.0 / strengths
        self.metric_key: object = None
        if strengths is not None:
            import hashlib  # slow to load, and most penalties have no strengths

            self.metric_key = hashlib.sha256(strengths.tobytes()).hexdigest()
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

    def limit(self, errors: ErrorBound) -> None:
        """Tell an error bound how far optimal weights can be from the best ones: J is strongly convex."""
        lengths = errors.lengths
        if isinstance(lengths, float):
            least = 1.0 if self.strengths is None else float(self.strengths.min())
            softness = lengths**2 / (self.lam * least)
        else:
            with np.errstate(over="ignore"):
                softness = float(self._total(np.array([np.sum(np.square(lengths) / self.curvature)]))[0])
        errors.softness = softness
        errors.prior_size = 0.0 if self.prior is None else errors.size(self.prior)
        errors.reachable = lambda gap: math.sqrt(2.0 * gap * softness)

    def covers(self, w: Vector) -> bool:
        """Bounds are of all points."""
        return True

    def cover(self, radius: float) -> None:
        """Bounds are of all points as it is."""

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

    def face(self, w: Vector, gradient: Vector) -> FreeFace:
        """Everything, with the slope and curvature there."""
        return FreeFace(np.ones(len(w), bool), gradient + self.smooth_gradient(w), self.curvature)

    def land(self, w: Vector, step: Vector, face: FreeFace) -> Vector:
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
            self._ease(planes)
            if planes.metric is not None and (self.metric is None or (planes.metric < self.metric).any()):
                return self._minimise_eased(planes, planes.metric, best, rel_tol, centre)
        offsets = None
        if self.prior is not None:
            offsets = planes.offsets + self._total(dot_rows(planes.gradients, self.prior))
        squares = planes.maximise(self.lam, best, rel_tol, offsets)
        w, bound = planes.minimiser(self, centre)
        if max(UNIT * squares / self.lam, planes.lost) > SHOWN * rel_tol * (best - bound):
            return self._refine(planes, w, bound, best, rel_tol, centre)
        return w, bound

    def _refine(
        self, planes: CutModel, w: Any, bound: float, best: float, rel_tol: float, centre: Any
    ) -> tuple[Any, float]:
        """Minimise the model again, by what planes differ in at its minimiser.

        Their values are close to each other there, while the squares of gradients that the QP is made of may
        be far larger than what is left of the gap: the iterative refinement of Wilkinson (Rounding Errors in
        Algebraic Processes (1963), chapter 3) for a QP.
        """
        for _ in range(REFINEMENTS):
            found = planes.sharpened(self, w)
            if found is None:
                break
            w, heights, sharper = found
            bound = max(bound, sharper)
            _, spread = tops(planes, heights, planes.alpha)
            if spread <= rel_tol * (best - bound):
                break
            planes.maximise(self.lam, best - bound, rel_tol, heights, planes.alpha.copy())
            w, improved = planes.minimiser(self, centre)
            bound = max(bound, improved)
        return w, bound

    def _ease(self, planes: CutModel) -> None:
        """Give features in which a new cut is too steep for the QP a smaller weight in products of cuts."""
        squares = self._steepness.of_new(planes, self.lam)
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
            for _ in range(REFINEMENTS):
                a, _ = combination(planes, planes.alpha)
                w = mean - a / bend
                heights = planes.offsets + dot_rows(planes.gradients, w)
                top, spread = tops(planes, heights, planes.alpha)
                bound = max(bound, planes.minimiser(self, centre)[1])
                if spread <= rel_tol * (best - bound):
                    break
                planes.maximise(self.lam, best - bound, rel_tol, heights, planes.alpha.copy())
            if self.value(w) + top - bound <= rel_tol * (best - bound):
                break
            middle = w
        return w, bound
