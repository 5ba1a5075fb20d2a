"""The squared penalty, with a strength for each feature and a prior mean."""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector, dot
from bmrm.linear.regularizers.base import Reach, strength
from bmrm.linear.regularizers.separable import FreeFace, StraightLine


class L2:
    """``lam/2 |w|^2``, or ``lam/2 sum_j s_j (w_j - w0_j)^2``.

    Parameters
    ----------
    lam : float
        Strength, positive.
    strengths : ndarray of shape (n_features,), optional
        The factors s of lam, positive; None for 1.
    prior : ndarray of shape (n_features,), optional
        The mean w0; None for 0.
    params : dict of str to float or bool, optional
        What to report besides name and lam.

    Raises
    ------
    ParameterError
        If ``lam`` is not a positive finite number.

    Examples
    --------
    >>> L2(0.5).value(np.array([3.0, 4.0]))
    6.25
    """

    name = "l2"
    sparse = needs_floor = False
    terms: None = None

    def __init__(
        self,
        lam: float,
        strengths: Vector | None = None,
        prior: Vector | None = None,
        params: dict[str, float | bool] | None = None,
    ) -> None:
        self.lam, self.strengths, self.prior, self.params = strength(lam), strengths, prior, params or {}
        self.metric = None if strengths is None else 1.0 / strengths

    @property
    def plain(self) -> bool:
        return self.strengths is None and self.prior is None

    @property
    def curvature(self) -> Vector | float:
        return self.lam if self.strengths is None else self.lam * self.strengths

    @property
    def vectors(self) -> dict[str, Vector]:
        given = {"feature_lambda": self.strengths, "prior": self.prior}
        return {what: vector for what, vector in given.items() if vector is not None}

    def _weighed(self, v: Vector) -> Vector:
        return v if self.strengths is None else self.strengths * v

    def _from_prior(self, w: Vector) -> Vector:
        return w if self.prior is None else w - self.prior

    def total(self, sums: Vector) -> Vector:
        return sums

    def start(self, n_features: int) -> Vector:
        return np.zeros(n_features) if self.prior is None else self.prior.copy()

    def reach(self, lengths: Vector | float) -> Reach:
        if isinstance(lengths, float):
            weakest = 1.0 if self.strengths is None else float(self.strengths.min())
            softness = lengths**2 / (self.lam * weakest)
        else:
            with np.errstate(over="ignore"):
                softness = float(self.total(np.array([np.sum(np.square(lengths) / self.curvature)]))[0])
        return Reach(softness, softness, 0.0, 0.0)

    def value(self, w: Vector) -> float:
        v = self._from_prior(w)
        return 0.5 * self.lam * dot(self._weighed(v), v)

    def smooth_gradient(self, w: Vector) -> Vector:
        return self.lam * self._weighed(self._from_prior(w))

    def project(self, w: Vector) -> Vector:
        return w

    def trim(self, w: Vector, sparser: Vector) -> Vector:
        return w

    def line(self, w: Vector, dw: Vector) -> StraightLine:
        along = self._weighed(dw)
        p, q = self.lam * self.total(np.array([dot(self._from_prior(w), along), dot(dw, along)]))
        return StraightLine(float(p), float(q))

    def face(self, w: Vector, gradient: Vector) -> FreeFace:
        return FreeFace(np.ones(len(w), bool), gradient + self.smooth_gradient(w), self.curvature)

    def land(self, w: Vector, step: Vector, face: FreeFace) -> Vector:
        return w + step

    def proximal(self, w: Vector, slope: Vector, bend: float) -> Vector:
        towards = bend * w - slope
        if self.prior is not None:
            towards += self.curvature * self.prior
        return np.asarray(towards / (bend + self.curvature))

    def minimiser(self, a: Vector) -> Vector:
        w = a / -self.curvature
        if self.prior is not None:
            w += self.prior
        return np.asarray(w)
