"""Lower bounds from a mean plane, for a penalty with kinks and bounds.

With ``w -> P(w)`` the penalty and ``R(w) >= <a, w> + b`` a mean of the planes, ``min_w P(w) + <a, w> + b`` is
a bound on J whatever the weights of the mean are.  Two things need care:

- A feature without any penalty bounds J only if its slope a_j is zero, and no weights in floating point make
  it so.  The weights are moved the little that cancels the slope; what is left is paid for, which costs a_j
  times a radius.  So the bound holds for weights within that radius of the prior mean.
- The slopes themselves are rounded.  Up to the strength of a kink, their error is taken from the strength;
  the rest costs its product with the weights.
"""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector, dot
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.cut_model import CutModel, combination
from bmrm.linear.regularizers import RADIUS
from bmrm.linear.regularizers.separable import Separable

COVERED_FACTOR = 4.0
"""Certificates cover features without a penalty up to this many times the distance of the best point from the
prior mean, if that is more than `RADIUS`."""


class SeparableBound:
    """Bounds of one run: within a radius of the prior mean in features without a penalty.

    - ``units``, shape (n_features,): of the features, squared
    - ``radius``: infinite if every feature has a penalty
    """

    def __init__(self, terms: Separable, units: Vector) -> None:
        self.terms, self._units = terms, units
        self._free = np.flatnonzero(terms.free)
        self.radius = RADIUS if len(self._free) else np.inf
        self._certified = self._within_radius()

    def _within_radius(self) -> Separable:
        """Return the penalty on the weights that certificates cover."""
        terms, free = self.terms, self.terms.free
        low, high = terms.prior - self.radius, terms.prior + self.radius
        return terms._replace(
            low=np.where(free, np.maximum(terms.low, low), terms.low),
            high=np.where(free, np.minimum(terms.high, high), terms.high),
        )

    def covers(self, w: Vector) -> bool:
        """Whether certificates hold for a region as large as a point calls for."""
        return COVERED_FACTOR * self._distance(w) <= self.radius

    def wanted_radius(self, w: Vector) -> float:
        """Return the radius to take if a point is not covered: room for later ones too."""
        return 2.0 * COVERED_FACTOR * self._distance(w)

    def _distance(self, w: Vector) -> float:
        free = self._free
        return float(np.abs(w[free] - self.terms.prior[free]).max(initial=0.0))

    def cover(self, radius: float) -> bool:
        """Set the radius, if there is one; return whether earlier bounds are void for it."""
        if not len(self._free):
            return False
        self.radius = radius
        self._certified = self._within_radius()
        return True

    def of_mean(self, cuts: CutModel, alpha: Vector) -> float:
        """Return what the mean plane certifies, with or without its slope in features without a penalty."""
        a, offset = combination(cuts, alpha)
        bound = self._of_plane(cuts, alpha, a, offset)
        if not len(self._free):
            return bound
        levelled = self._level(cuts, alpha, a)
        return max(bound, self._of_plane(cuts, levelled, *combination(cuts, levelled)))

    def _of_plane(self, cuts: CutModel, alpha: Vector, a: Vector, offset: float) -> float:
        """Return what the mean plane certifies as it is, with slopes that may be off by rounding."""
        errors, terms = cuts.errors, self._certified
        if errors is None:
            return cuts.certified(terms.lower_bound(a, offset, cuts.floor), alpha, 0.0)
        slack = errors.slack(cuts.blur(alpha))
        held = np.minimum(terms.l1, slack)
        terms = terms._replace(l1=terms.l1 - held)
        rest, lost = slack - held, dot(slack, np.abs(terms.prior))
        if rest.any():
            w = terms.minimiser(terms.bounded_share(a) * a)
            curved = terms.l2 > 0.0
            lost += dot(rest[curved], np.abs(w - terms.prior)[curved])
            lost += float((np.square(rest[curved]) / (2.0 * terms.l2[curved])).sum())
            ends = np.maximum(np.abs(terms.low - terms.prior), np.abs(terms.high - terms.prior))
            loose = (rest > 0.0) & ~curved
            lost += dot(rest[loose], ends[loose])
        return cuts.certified(terms.lower_bound(a, offset, cuts.floor) - lost, alpha, 0.0)

    def _level(self, cuts: CutModel, alpha: Vector, a: Vector) -> Vector:
        """Return a mean near ``alpha`` that has hardly any slope in features without a penalty.

        Of all changes of alpha that cancel the slope and keep the sums, it takes the smallest one relative to
        alpha itself.
        """
        inside = np.flatnonzero(alpha)
        k, groups = len(self._free), cuts.groups
        conditions = np.zeros((k + groups, len(inside)))
        units = np.append(np.sqrt(self._units[self._free]), np.ones(groups))
        conditions[:k] = cuts.gradients[np.ix_(inside, self._free)].T / units[:k, None]
        conditions[k + cuts.blocks[inside], np.arange(len(inside))] = 1.0
        conditions *= alpha[inside]
        change = -np.append(a[self._free], np.zeros(groups)) / units
        if not _qp.cholesky_solve(_qp.gram(conditions, conditions, threads=cuts.threads), change):
            return alpha
        levelled = alpha.copy()
        levelled[inside] *= np.maximum(0.0, 1.0 + _qp.combine(conditions, change, threads=cuts.threads))
        sums = np.bincount(cuts.blocks, levelled, groups)
        if not (np.isfinite(levelled).all() and (sums > 0.0).all()):
            return alpha
        return np.asarray(levelled / sums[cuts.blocks])
