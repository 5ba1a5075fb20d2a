"""The objective: what the outer loop asks about the data.

    J(w) = lam Omega(w) + R(w),    R(w) = sum_i s_i loss(x_i . w, y_i) / sum_i s_i

An unpenalised intercept is profiled out, ``R(w) = min_b R(w, b)``, which keeps the problem convex in w
alone.  Its cuts stay exact without ever finding the minimising b exactly: if b_low and b_high bracket it,
the joint cuts of R(w, b) at both have slopes g_low <= 0 <= g_high in b, and the mean of the two cuts whose
slope in b is zero bounds R(w, b) from below for every b, hence its minimum over b too.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.dataset import WithConstant
from bmrm.errors import DataError
from bmrm.linesearch import Bracket, bracket_minimum
from bmrm.losses import Loss
from bmrm.regularizers import Regularizer
from bmrm.vectors import dot_rows

Vector = NDArray[np.float64]

LONGEST_STEP = 100.0
"""The direction is known to rounding of w, and a longer step would make much of that."""

ROUNDING = 1e-12
"""Slopes in b, means over rows of numbers near 1, are zero below this."""


class Design(Protocol):
    """The face of a resident matrix that training needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def nnz(self) -> int:
        """Stored values."""

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram`; infinite where there is no such product."""

    def matvec(self, w: Vector, out: Vector) -> object:
        """``out = X w``."""

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> object:
        """``out[p] = X_p' r_p`` for each block of rows."""

    def weighted_gram(self, s: Vector, out: Vector) -> object:
        """``out = X' diag(s) X``."""


class Iterate(NamedTuple):
    """A point with all that is known of it."""

    w: Vector
    margins: Vector
    intercept: float
    objective: float


class Cut(NamedTuple):
    """Cutting planes at one point, one for each block of rows, and the risk there."""

    gradients: Vector
    offsets: Vector
    intercept: float
    risk: float


class Objective:
    """A regularised risk on resident data.

    Parameters
    ----------
    design : Design
        X, with its constant column where the intercept is penalised.
    loss : Loss
    reg : Regularizer
    y : ndarray of shape (n_samples,)
        Coded labels.
    weights : ndarray of shape (n_samples,), or None
    profile : bool
        Minimise over an unpenalised intercept.
    blocks : int
        Number of blocks of rows, each with a cut of its own; 1 where ``profile``, since the blocks share b.
    threads : int
    """

    def __init__(
        self,
        design: Design,
        loss: Loss,
        reg: Regularizer,
        y: Vector,
        weights: Vector | None,
        *,
        profile: bool,
        blocks: int,
        threads: int,
    ) -> None:
        self.design, self.loss, self.reg, self.profile = design, loss, reg, profile
        m = design.shape[0]
        scale = 1.0 / (m if weights is None else float(weights.sum()))
        self.risk = loss.risk(y, weights, scale, threads)
        self.starts = np.linspace(0, m, blocks + 1).astype(np.int64)
        self._everything = np.array([0, m], np.int64)
        self._r = np.empty(m)
        self._bias = 0.0

    @property
    def blocks(self) -> int:
        """Cuts a pass."""
        return len(self.starts) - 1

    def model(self, point: Iterate) -> tuple[Vector, float]:
        """Weights and intercept as the user sees them; a penalised intercept is the design's last weight."""
        if isinstance(self.design, WithConstant):
            return point.w[:-1], float(point.w[-1]) * self.design.value
        return point.w, point.intercept

    def margins(self, w: Vector) -> Vector:
        """``X w``."""
        z = np.empty(self.design.shape[0])
        self.design.matvec(w, z)
        return z

    def at(self, w: Vector, z: Vector, accuracy: float) -> Iterate:
        """Evaluate J at ``w`` with margins ``z``; with a profiled intercept to within ``accuracy``."""
        b = self._bracket_intercept(z, z, 0.0, accuracy).nearest if self.profile else 0.0
        return Iterate(w, z, b, self.reg.value(w) + self._risk_at(z, b, self._everything)[0])

    def _risk_at(self, z: Vector, b: float, starts: NDArray[np.int64]) -> tuple[float, Vector, float]:
        """Risk, risk by block and slope in b; the rows' derivatives are left in ``_r``."""
        values, slopes = self.risk.cut(z, z, 0.0, b, starts, self._r)
        extra = self.loss.intercept_slope
        return float(values.sum()) + extra * b, values, float(slopes.sum()) + extra

    def _bracket_intercept(self, z: Vector, dz: Vector, t: float, accuracy: float) -> Bracket:
        """Bracket the b that minimises R at margins ``z + t dz``, starting from the last one found."""

        def slope(b: float) -> float:
            return self.risk.slope(z, dz, t, b)[1] + self.loss.intercept_slope

        found = bracket_minimum(slope, self._bias, 0.1, accuracy)
        self._bias = found.nearest
        return found

    def search(self, best: Iterate, dw: Vector, dz: Vector, first: float, accuracy: float) -> float:
        """Minimise J along ``best + t dw``, 0 <= t <= 100, from stored margins alone: no product with X.

        Parameters
        ----------
        best : Iterate
        dw, dz : ndarray
            Direction and its margins ``X dw``.
        first : float
            First step to try.
        accuracy : float
            J at the step returned exceeds the minimum on the ray by no more than this.
        """
        p, q = self.reg.line(best.w, dw)

        def slope(t: float) -> float:
            return p + q * t + self._slope_along(best, dz, t, accuracy)

        start = slope(0.0)
        if not start < 0.0:
            return 0.0
        return min(bracket_minimum(slope, 0.0, first, accuracy, start).nearest, LONGEST_STEP)

    def _slope_along(self, best: Iterate, dz: Vector, t: float, accuracy: float) -> float:
        if not self.profile:
            return self.risk.slope(best.margins, dz, t, 0.0)[0]
        found = self._bracket_intercept(best.margins, dz, t, 0.1 * accuracy)
        low, high = (self.risk.slope(best.margins, dz, t, b)[0] for b in (found.low, found.high))
        return found.share_low * low + (1.0 - found.share_low) * high

    def cut(self, w: Vector, z: Vector, accuracy: float) -> Cut:
        """Take the cutting planes of R at ``w``, whose margins are ``z``."""
        if self.profile:
            return self._profiled_cut(w, z, accuracy)
        risk, by_block, _ = self._risk_at(z, 0.0, self.starts)
        gradients = self._gradients(self.starts)
        return Cut(gradients, by_block - dot_rows(gradients, w), 0.0, risk)

    def _gradients(self, starts: NDArray[np.int64]) -> Vector:
        out = np.empty((len(starts) - 1, self.design.shape[1]))
        self.design.rmatvec_blocks(self._r, starts, out)
        return out

    def _profiled_cut(self, w: Vector, z: Vector, accuracy: float) -> Cut:
        found = self._bracket_intercept(z, z, 0.0, accuracy)
        risk_low, _, slope_low = self._risk_at(z, found.low, self._everything)
        r_low = self._r.copy()
        risk_high, _, slope_high = self._risk_at(z, found.high, self._everything)
        # The slopes are taken again here: the mean's slope in b must vanish for these very derivatives.
        if max(slope_low, -slope_high) > ROUNDING:
            raise DataError(f"loss {self.loss.name}: no intercept minimises the risk; fit without one")
        width = slope_high - slope_low
        share = min(1.0, max(0.0, slope_high / width)) if width > ROUNDING else 1.0
        self._r *= 1.0 - share
        self._r += share * r_low
        gradients = self._gradients(self._everything)
        level = share * (risk_low - slope_low * found.low) + (1.0 - share) * (
            risk_high - slope_high * found.high
        )
        return Cut(gradients, level - dot_rows(gradients, w), found.nearest, min(risk_low, risk_high))
