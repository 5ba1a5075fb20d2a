"""The l2 penalty of weights that are owned in parts."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from bmrm.distributed.group import Group
from bmrm.inner_qp import CutModel, quadratic
from bmrm.regularizers import L2, Penalised, Regularizer
from bmrm.separable import StraightLine
from bmrm.vectors import dot, dot_rows

Vector = NDArray[np.float64]


class OwnedPenalty(L2):
    """``lam/2 sum_j s_j (w_j - w0_j)^2``, over the columns of all ranks; vectors are this rank's parts.

    The inner problem stays that of the plain penalty: products of gradients take column j with weight
    ``1 / s_j`` (`metric`), and the planes are told at w0.

    Parameters
    ----------
    group : Group
    lam : float
    strengths : ndarray of shape (columns here,)
        The factors s of lam, positive.
    prior : ndarray of shape (columns here,)
        The mean w0.
    params : dict
        What there is to tell beside name and lam: of strengths and prior, those that were given.
    """

    def __init__(
        self, group: Group, lam: float, strengths: Vector, prior: Vector, params: dict[str, float | bool]
    ) -> None:
        super().__init__(lam)
        self.group, self.strengths, self.prior, self._params = group, strengths, prior, params
        self._weighs, self._shifts = "feature_lambda" in params, "prior" in params
        if self._weighs:
            self.metric_key = tuple(group.everyones(hashlib.sha256(strengths.tobytes()).hexdigest()))

    @classmethod
    def part_of(cls, reg: Regularizer, group: Group, bounds: NDArray[np.int64]) -> OwnedPenalty:
        """Take this rank's part of an l2 penalty with a strength in every column."""
        first, last = bounds[group.rank], bounds[group.rank + 1]
        if not isinstance(reg, Penalised):
            width = int(last - first)
            return cls(group, reg.lam, np.ones(width), np.zeros(width), reg.params)
        penalty = reg.penalty
        return cls(
            group, reg.lam, penalty.l2[first:last] / reg.lam, penalty.prior[first:last].copy(), reg.params
        )

    @property
    def params(self) -> dict[str, float | bool]:
        """What there is to tell beside name and lam."""
        return self._params

    @property
    def metric(self) -> Vector | None:
        """Weights of the columns in products of gradients; None where all are 1."""
        return 1.0 / self.strengths if self._weighs else None

    def _weighed(self, v: Vector) -> Vector:
        return self.strengths * v if self._weighs else v

    def _from_prior(self, w: Vector) -> Vector:
        return w - self.prior if self._shifts else w

    def start(self, n_features: int) -> Vector:
        """Return the prior mean."""
        return self.prior.copy()

    def value(self, w: Vector) -> float:
        """Value of the penalty."""
        return float(self.group.total(np.array([self.value_here(w)]))[0])

    def value_here(self, w: Vector) -> float:
        """Return what the columns here add to it."""
        v = self._from_prior(w)
        return 0.5 * self.lam * dot(self._weighed(v), v)

    def line(self, w: Vector, dw: Vector) -> StraightLine:
        """Return the derivative along ``w + t dw``."""
        along = self._weighed(dw)
        parts = np.array([dot(self._from_prior(w), along), dot(dw, along)])
        p, q = self.lam * self.group.total(parts)
        return StraightLine(float(p), float(q))

    def minimiser(self, a: Vector) -> Vector:
        """Return the w that minimises the penalty plus ``<a, w>``."""
        w = a / (-self.lam * self.strengths if self._weighs else -self.lam)
        if self._shifts:
            w += self.prior
        return w

    def minimise_model(
        self, planes: CutModel, best: float, rel_tol: float, centre: Vector
    ) -> tuple[Vector, float]:
        """Minimise the model: one QP."""
        offsets = planes.offsets
        if self._shifts:
            offsets = offsets + self.group.total(dot_rows(planes.gradients, self.prior))
        quadratic(planes, self.lam, best, rel_tol, offsets)
        return planes.minimiser(self, centre)
