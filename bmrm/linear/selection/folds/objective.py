"""The objective without a fold, with cuts of every fold's part Q_g, and a Hessian that serves all folds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bmrm.base.vectors import Indices, Vector, dot
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.objective.line_search import is_content
from bmrm.linear.objective.objective import (
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    Objective,
    Operator,
    Subgradients,
)
from bmrm.linear.regularizers import L2
from bmrm.linear.solvers.cutting import USELESS_RISK
from bmrm.losses import Loss
from bmrm.losses.base import RowRisk

CHANGED = 0.4
"""Change of the second derivatives, as a share of their sum, up to which the Hessian is that of an earlier
point."""


class Known(NamedTuple):
    """A point, and what a pass there told of every fold.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    margins : ndarray of shape (n_samples,)
        Sorted by fold.
    parts : ndarray of shape (folds,)
        Q_g there.
    gradients : ndarray of shape (folds, n_features)
        The gradients of Q_g, where they are known, or nearly so; else without rows.
    size : float
        Of the margins, see `bmrm.linear.objective.running_error`.
    """

    w: Vector
    margins: Vector
    parts: Vector
    gradients: Vector
    size: float


class FoldParts:
    """The parts Q_g of the risk, and a Hessian of their sum, which serves all folds.

    Parameters
    ----------
    operator : Operator
        With rows sorted by fold.
    risk : RowRisk
        Of all rows.
    starts : ndarray of int64, shape (folds + 1,)
    floors : ndarray of shape (folds,)
        Numbers that the parts are nowhere below.
    """

    def __init__(self, operator: Operator, risk: RowRisk, starts: Indices, floors: Vector) -> None:
        self.operator, self.risk, self.starts, self._floors = operator, risk, starts, floors
        self._most = np.inf
        self._derivatives = np.empty(operator.shape[0])
        self._curvature: Vector | None = None
        self._hessian = np.empty(0)
        self._doubted = True

    def at(self, w: Vector, margins: Vector, gradients: Vector, size: float) -> Known:
        """Evaluate the parts at a point whose margins have this size."""
        parts, _ = self.risk.cut(margins, margins, 0.0, 0.0, self.starts, self._derivatives)
        if self._most == np.inf:
            self._most = USELESS_RISK * abs(float(parts.sum()))
        return Known(w, margins, parts, gradients, size)

    def useful(self, planes: Subgradients, unseen: slice) -> Subgradients:
        """Put the floor of a part that nobody looked at in the place of a cut that says nothing.

        Rows that are held out may be where exp() has run away: their cut would drown all others.
        """
        gradients, risk, floors = planes.gradients, planes.risk, self._floors[unseen]
        assert isinstance(gradients, np.ndarray)
        says = bool((risk[unseen] <= self._most).all() and np.isfinite(gradients[unseen]).all())
        if not says and np.isfinite(floors).all():
            gradients[unseen], planes.at_point[unseen], risk[unseen] = 0.0, 0.0, floors
        return planes

    def doubt(self) -> None:
        """Look at the second derivatives again before the next step: lam has changed, or a step was poor."""
        self._doubted = True

    def hessian(self, risk: RowRisk, margins: Vector) -> Vector:
        """Return the Hessian of the risk of all rows at a point or one much like it.

        A Hessian only proposes a point: that of another fold's answer, or of another lam's, will do as long
        as the second derivatives of the rows, as ``risk`` tells them, have changed little.
        """
        if self._doubted:
            curvature, self._doubted = np.empty_like(margins), False
            total = risk.curvature(margins, 0.0, curvature)
            if self._curvature is None or np.abs(curvature - self._curvature).sum() > CHANGED * total:
                d = self.operator.shape[1]
                self._curvature, self._hessian = curvature, np.empty((d, d))
                self.operator.weighted_gram(curvature, self._hessian)
        return self._hessian.copy()


class _FullStep(NamedTuple):
    """The end of a line that a search was content with: its margins, the way there, the parts of the risk."""

    margins: Vector
    direction: Vector
    parts: Vector


class FoldSteps(HostPasses):
    """Steps of all rows but one fold's, with cuts of every fold's part.

    Parameters
    ----------
    parts : FoldParts
    risk : RowRisk
        Of all rows but the fold's.
    held_out : slice
        The blocks that take no part.
    scale : float
        c_f.
    """

    whole = False

    def __init__(self, parts: FoldParts, risk: RowRisk, held_out: slice, scale: float) -> None:
        super().__init__(parts.operator, risk, cut_of=parts.risk)
        self._parts, self._held_out, self._scale = parts, held_out, scale
        starts = parts.starts[held_out.start : held_out.stop + 1]
        self._left_out = slice(int(starts[0]), int(starts[-1])) if len(starts) > 1 else slice(0, 0)
        self._full: _FullStep | None = None

    def without(self, parts: Vector) -> Vector:
        """From what is known of every part, the sum of those that take part, as they are weighed."""
        before, after = slice(self._held_out.start), slice(self._held_out.stop, None)
        return np.asarray(self._scale * (parts[before].sum(axis=0) + parts[after].sum(axis=0)))

    def hessian(self, at: Iterate, profile: bool) -> Vector:
        """Hessian of the risk at a point, or one much like it; of all rows, which is much the same."""
        if self.cut_of is not self._parts.risk:  # with kinks rounded another width is another Hessian
            self._parts.doubt()
        return self._parts.hessian(self.cut_of, at.margins)

    def parts_at(self, margins: Vector) -> Vector | None:
        """Tell the parts of the risk at margins where a line was content to end."""
        return self._full.parts if self._full is not None and self._full.margins is margins else None

    def search(self, ray: LineSearchProblem) -> tuple[Vector, LineSearchResult]:
        """Minimise J along a line; return the direction too.

        Where its end may be good enough, all that a cut there needs is made at once, and the slope from that.
        """
        if ray.content:
            z, end, penalty = ray.z, ray.end, ray.penalty
            parts, _ = self.cut_of.cut(end, end, 0.0, 0.0, self._parts.starts, self._derivatives[0])
            dz, r, out = end - z, self._derivatives[0], self._left_out
            last = self._scale * (dot(r, dz) - dot(r[out], dz[out])) + penalty.slope(1.0)

            def slope(t: float) -> float:
                return self.slope(z, dz, t, 0.0)[0] + penalty.slope(t)

            if is_content(slope, slope(0.0), 1.0, last, ray.content):
                self._full = _FullStep(end, dz, parts)
                return dz, LineSearchResult(1.0, end, float(self.without(parts)))
            self._parts.doubt()
        return super().search(ray._replace(content=0.0))

    def planes(
        self, z: Vector, dz: Vector | None, t: float, starts: Indices, w: Vector, end: Vector
    ) -> Subgradients:
        """Cutting planes at ``z + t dz``, the margins of ``w + t (end - w)``."""
        full = self._full
        if full is None or dz is not full.direction or t != 1.0:
            found = super().planes(z, dz, t, starts, w, end)
        else:
            parts = full.parts.copy()
            found = self._planes(starts, self.between(w, end, t), parts, np.full_like(parts, np.nan))
        return self._parts.useful(found, self._held_out)


class FoldObjective(Objective):
    """The objective of all rows but one fold's, whose cuts are of every fold's part Q_g.

    Parameters
    ----------
    parts : FoldParts
    loss : Loss
    y, weights : ndarray of shape (n_samples,)
        Sorted by fold.
    held_out : int
        The fold that takes no part; the number of folds for none.
    threads : int

    Attributes
    ----------
    scale : float
        c_f.
    """

    def __init__(
        self, parts: FoldParts, loss: Loss, y: Vector, weights: Vector, held_out: int, *, threads: int
    ) -> None:
        rest, starts = weights.copy(), parts.starts
        self._held_out = slice(held_out, held_out + 1)
        if held_out < len(starts) - 1:
            rest[starts[held_out] : starts[held_out + 1]] = 0.0
        inside = float(rest.sum())
        self.scale = float(weights.sum()) / inside
        passes = FoldSteps(parts, loss.risk(y, rest, 1.0 / inside, threads), self._held_out, self.scale)
        super().__init__(parts.operator, passes, loss, L2(1.0), profile=False, blocks=1)
        self.starts, self._parts, self._fold_steps = starts, parts, passes
        self._known: list[Known] = []

    @property
    def takes_full_steps(self) -> bool:
        """Whether Newton's point itself will do: from another fold's answer, or another lam's, it is near."""
        return True

    def begin(self, lam: float) -> None:
        """Get ready for a solve."""
        if lam != self.reg.lam:
            self._parts.doubt()
        self.reg, self._fold_steps.seconds = L2(lam), 0.0
        if self.errors is not None:
            self.errors.take_penalty(self.reg)
        self._known.clear()

    def value(self, point: Known) -> float:
        """J at a known point, from its parts."""
        self._known.append(point)
        return self.reg.value(point.w) + float(self._fold_steps.without(point.parts))

    def known(self, w: Vector) -> Known | None:
        """Tell of a point that was evaluated."""
        return next((point for point in self._known if point.w is w), None)

    def reached(self, best: Iterate, gradients: Vector) -> Known:
        """Return what is known of the best point of a run, with the gradients of the parts there."""
        parts = self._fold_steps.parts_at(best.margins)
        if parts is not None:
            return Known(best.w, best.margins, parts, gradients, best.size)
        known = self.known(best.w) or self._parts.at(best.w, best.margins, gradients, best.size)
        return known._replace(gradients=gradients)

    def evaluate(self, w: Vector) -> Iterate:
        """Evaluate J at ``w``: from its parts where it is known, else from a new product."""
        point = self.known(w)
        if point is None:
            point = self._parts.at(w, self.passes.margins(w), np.empty((0, 0)), self.size(w))
        return Iterate(w, point.margins, 0.0, self.value(point), point.size)

    def gradient(self, gradients: Vector) -> Vector:
        """Return the gradient of the risk from those of the parts."""
        return self._fold_steps.without(gradients)

    def risk(self, parts: Vector) -> float:
        """Return the risk from its parts."""
        return float(self._fold_steps.without(parts))
