"""The terms of a penalty that is a sum over features of a kink, a parabola and an interval.

    P(w) = sum_j  l1_j |w_j - w0_j| + l2_j / 2 (w_j - w0_j)^2,        low_j <= w_j <= high_j

L1, L2 and the elastic net, each with a strength for every feature, nonnegative weights, weights without a
penalty and a prior mean are all of this form.  Everything here works on one coordinate at a time: the
minimum of P(w) + <a, w>, which the dual of a bundle needs, and the derivative along a line.

If l2_j = 0, that minimum is finite only as long as the kink or an end of the interval holds the slope a_j;
`bounded_share` and `lower_bound` say what a certificate does about it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector, dot

SHRINK = 1.0 - 2.0**-50
"""A few units in the last place less than 1, so that a slope that is scaled to its limit does not pass it."""


class StraightLine(NamedTuple):
    """The derivative ``p + q t`` of a quadratic penalty along a line."""

    p: float
    q: float

    @property
    def end(self) -> float:
        """Infinity: the domain is the whole space."""
        return np.inf

    def slope(self, t: float) -> float:
        """Return the derivative at ``t``."""
        return self.p + self.q * t


class BentLine(NamedTuple):
    """The derivative of a penalty with kinks along a line: that of a parabola, and a jump at each kink."""

    q: float  # slope of the derivative between kinks
    kinks: Vector  # the steps t at which the kinks are, increasing
    slopes: Vector
    """The derivative less ``q t``: before the first kink, between the kinks, and after the last one."""
    end: float  # the largest t at which the line is in the penalty's domain

    def slope(self, t: float) -> float:
        """Return the derivative at ``t``; at a kink the one to its left."""
        return self.q * t + float(self.slopes[np.searchsorted(self.kinks, t)])


class FreeFace(NamedTuple):
    """Where a penalty is smooth around a point: the features that may move, its slope and curvature there."""

    free: NDArray[np.bool_]
    slope: Vector
    curvature: Vector | float


class Separable(NamedTuple):
    """The arrays of the terms, all of shape (n_features,)."""

    l1: Vector
    l2: Vector
    prior: Vector
    low: Vector
    high: Vector

    @property
    def free(self) -> NDArray[np.bool_]:
        """Features without any penalty."""
        return np.asarray((self.l1 == 0.0) & (self.l2 == 0.0))

    def without_penalty(self, w: Vector) -> list[Vector]:
        """Return the weights of the features without a penalty, as they are and twice as large."""
        v = np.where(self.free, w - self.prior, 0.0)
        return [self.project(self.prior + v), self.project(self.prior + 2.0 * v)]

    def take(self, features: NDArray[np.intp]) -> Separable:
        return Separable(*(array[features] for array in self))

    def value(self, w: Vector) -> float:
        v = w - self.prior
        return dot(self.l1, np.abs(v)) + 0.5 * dot(self.l2, v * v)

    def project(self, w: Vector) -> Vector:
        return np.minimum(np.maximum(w, self.low), self.high)

    def smooth_gradient(self, w: Vector) -> Vector:
        return self.l2 * (w - self.prior)

    def line(self, w: Vector, dw: Vector) -> BentLine:
        """Return the derivative along ``w + t dw``, t > 0."""
        v = w - self.prior
        size = self.l1 * np.abs(dw)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = -v / dw
            ends = np.where(dw < 0.0, (self.low - w) / dw, np.where(dw > 0.0, (self.high - w) / dw, np.inf))
        ahead = np.flatnonzero((at > 0.0) & (size > 0.0))
        order = ahead[np.argsort(at[ahead], kind="stable")]
        rising = np.where(v == 0.0, np.abs(dw), np.sign(v) * dw)
        first = dot(self.l1, rising) + dot(self.l2, v * dw)
        slopes = first + np.concatenate([[0.0], np.cumsum(2.0 * size[order])])
        return BentLine(dot(self.l2, dw * dw), at[order], slopes, max(0.0, float(ends.min())))

    def minimiser(self, a: Vector, mu: Vector | None = None, centre: Vector | None = None) -> Vector:
        """Return the w that minimises ``P(w) + <a, w> + sum_j mu_j / 2 (w_j - centre_j)^2``.

        A feature without curvature, neither l2 nor mu, stays at its kink, or goes to the end of its interval
        that a points to.
        """
        h, curvature = a, self.l2
        if mu is not None and centre is not None:
            h, curvature = a + mu * (self.prior - centre), self.l2 + mu
        beyond = h - np.clip(h, -self.l1, self.l1)
        v = np.zeros(len(h))
        with np.errstate(divide="ignore"):
            np.divide(-beyond, curvature, out=v, where=beyond != 0.0)
        return self.project(self.prior + v)

    def face(self, w: Vector, gradient: Vector) -> FreeFace:
        """Return the face of ``P(w) + <gradient, w>`` that a descent from ``w`` moves on.

        The features off their kink may move, and those at a kink that does not hold their slope, with the
        sign that they are about to take. Those that an end of their interval holds may not.
        """
        slope = gradient + self.smooth_gradient(w)
        side = np.sign(w - self.prior)
        side = np.where(side == 0.0, -np.sign(slope), side)
        held = (w == self.prior) & (np.abs(slope) <= self.l1)
        slope = slope + self.l1 * side
        held |= ((w <= self.low) & (slope >= 0.0)) | ((w >= self.high) & (slope <= 0.0))
        return FreeFace(~held, slope, self.l2)

    def land(self, w: Vector, step: Vector, face: FreeFace) -> Vector:
        """Return ``w + step``; a feature that would cross its kink stops there."""
        side = np.sign(w - self.prior)
        side = np.where(side == 0.0, -np.sign(face.slope), side)
        v = w + step - self.prior
        crossed = (self.l1 > 0.0) & (v * side < 0.0)
        return self.project(np.where(crossed, self.prior, w + step))

    def bounded_share(self, a: Vector) -> float:
        """Return the largest share s in [0, 1] for which ``P(w) + s <a, w>`` has a lower bound."""
        flat = self.l2 == 0.0
        falling = flat & (((a > self.l1) & (self.low == -np.inf)) | ((a < -self.l1) & (self.high == np.inf)))
        if not falling.any():
            return 1.0
        return float((self.l1[falling] / np.abs(a[falling])).min()) * SHRINK

    def lower_bound(self, a: Vector, offset: float, floor: float) -> float:
        """Return a lower bound on ``P + R``, where ``R(w) >= <a, w> + offset`` and ``R >= floor``.

        Any mean of the two planes bounds R. The one used has the largest share of the first plane with which
        P still outweighs the slope.
        """
        share = self.bounded_share(a)
        if share < 1.0:
            if floor == -np.inf:
                return -np.inf
            a, offset = share * a, share * offset + (1.0 - share) * floor
        w = self.minimiser(a)
        return self.value(w) + dot(w, a) + offset
