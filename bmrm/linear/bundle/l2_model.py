"""The inner model of the squared penalty: one QP in the products of cuts.

Products of cuts take feature j with weight ``1 / s_j`` (`L2.metric`), and the planes are evaluated at the
prior mean w0; so strengths and a mean leave the QP as it is.

If a cut is so steep in a feature that rounding of its curvature would drown what other features do, as with
an identity number of seven digits among counts, the model gets a proximal term in that feature, ``mu_j / 2
(w_j - best_j)^2``.  With it the feature is one of larger strength and another mean, so that the QP is as
before, and its weight in products of cuts contains ``lam s_j + mu_j``.  The point serves the line search as
well as the one without the term.  The bound is that of the model without it; the method of multipliers
(Rockafellar, Math. Oper. Res. 1 (1976) 97) removes what the term costs.

If rounding of the products hides too much of the gap, or keeps it open, the QP is refined: it is solved again
by what the planes differ in at its minimiser.  Their values are close to each other there, while the squares
of gradients that the QP is made of may be far larger than what is left of the gap.  That is the iterative
refinement of Wilkinson (Rounding Errors in Algebraic Processes (1963), chapter 3) for a QP.  If that gets
nowhere, as with one row far longer than the others, the steps of `inner_qp.piecewise` do: they lead up
whatever rounding does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base.vectors import UNIT, Vector, dot, dot_rows
from bmrm.linear.bundle.cut_model import CutModel, combination, risk_and_excess
from bmrm.linear.bundle.gram_cache import GramCache
from bmrm.linear.bundle.inner_qp import piecewise
from bmrm.linear.bundle.steepness import EASED_SHARE, MAX_MULTIPLIER_STEPS, Steepness
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.regularizers.separable import Separable

MAX_HIDDEN_SHARE = 0.1
"""Share of the QP's gap that rounding of products of cuts may hide before the QP is refined."""

MAX_REFINEMENTS = 4
"""Maximum number of refinements of one QP."""


class L2Model:
    """The inner model of one run with a squared penalty.

    The penalty has no kinks or bounds.
    """

    radius = np.inf

    def __init__(self, reg: Regularizer) -> None:
        self.reg = reg
        self._steepness = Steepness()
        self._products = GramCache()

    def covers(self, w: Any) -> bool:
        return True

    def cover(self, radius: float) -> None:
        pass

    def reach(self, w: Any) -> None:
        pass

    def minimise(self, cuts: CutModel, best: float, rel_tol: float, centre: Any) -> tuple[Any, float]:
        reg = self.reg
        if cuts.whole:
            self._ease(cuts)
            if cuts.metric is not None and (reg.metric is None or (cuts.metric < reg.metric).any()):
                return self._minimise_eased(cuts, cuts.metric, best, rel_tol, centre)
        offsets = None
        if reg.prior is not None:
            offsets = cuts.offsets + reg.total(dot_rows(cuts.gradients, reg.prior))
        squares, left = cuts.maximise(reg.lam, best, rel_tol, offsets)
        w, bound = cuts.minimiser(reg, centre)
        wanted = rel_tol * (best - bound)
        if max(UNIT * squares / reg.lam, cuts.lost) > MAX_HIDDEN_SHARE * wanted or left > wanted:
            return self._refine(cuts, w, bound, best, rel_tol, centre)
        return w, bound

    def _refine(
        self, cuts: CutModel, w: Any, bound: float, best: float, rel_tol: float, centre: Any
    ) -> tuple[Any, float]:
        """Minimise the model again, by what planes differ in at its minimiser."""
        for _ in range(MAX_REFINEMENTS):
            found = cuts.evaluate_cuts(self.reg, w)
            if found is None:
                return w, bound
            w, heights, sharper = found
            bound = max(bound, sharper)
            _, excess = risk_and_excess(cuts, heights, cuts.alpha)
            if excess <= rel_tol * (best - bound):
                return w, bound
            cuts.maximise(self.reg.lam, best - bound, rel_tol, heights, cuts.alpha.copy())
            w, improved = cuts.minimiser(self.reg, centre)
            bound = max(bound, improved)
        if not cuts.whole:
            return w, bound
        maximum = piecewise(cuts, self._terms(len(w)), None, centre, best, rel_tol, self._products)
        return maximum.w, max(bound, cuts.minimiser(self.reg, centre)[1])

    def _terms(self, n_features: int) -> Separable:
        """Return the penalty as one whose kinks and intervals are nowhere."""
        reg, none = self.reg, np.zeros(n_features)
        return Separable(none, none + reg.curvature, reg.start(n_features), none - np.inf, none + np.inf)

    def _ease(self, cuts: CutModel) -> None:
        """Give features in which a new cut is too steep for the QP a smaller weight in products of cuts."""
        lam = self.reg.lam
        squares = self._steepness.of_new(cuts, lam)
        if squares is None:
            return
        metric = np.ones(len(squares)) if cuts.metric is None else cuts.metric
        eased = squares * metric > lam
        if eased.any():
            cuts.change_metric(np.where(eased, EASED_SHARE * lam / np.where(eased, squares, 1.0), metric))

    def _minimise_eased(
        self, cuts: CutModel, metric: Vector, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise the model with a proximal term, and bound the one without it."""
        reg = self.reg
        bend = reg.lam / metric
        mu = np.maximum(0.0, bend - reg.curvature)
        pull = reg.smooth_gradient(np.zeros(len(mu)))
        bound, middle = -np.inf, centre
        for _ in range(MAX_MULTIPLIER_STEPS):
            # Penalty and proximal term: a parabola of their own, bend / 2 (w - mean)^2, and a constant.
            mean = (mu * middle - pull) / bend
            constant = reg.value(mean) + 0.5 * dot(mu, np.square(mean - middle))
            cuts.maximise(reg.lam, best - constant, rel_tol, cuts.offsets + dot_rows(cuts.gradients, mean))
            for _ in range(MAX_REFINEMENTS):
                a, _ = combination(cuts, cuts.alpha)
                w = mean - a / bend
                heights = cuts.offsets + dot_rows(cuts.gradients, w)
                risk, excess = risk_and_excess(cuts, heights, cuts.alpha)
                bound = max(bound, cuts.minimiser(reg, centre)[1])
                if excess <= rel_tol * (best - bound):
                    break
                cuts.maximise(reg.lam, best - bound, rel_tol, heights, cuts.alpha.copy())
            if reg.value(w) + risk - bound <= rel_tol * (best - bound):
                break
            middle = w
        return w, bound
