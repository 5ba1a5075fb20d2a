"""The objective without a fold, with cuts of every fold's part Q_g, and a Hessian that serves all folds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bmrm.base.vectors import Indices, Vector, dot
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.objective.line_search import is_content
from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import (
    DesignOperator,
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    Subgradients,
)
from bmrm.linear.regularizers import L2
from bmrm.linear.solvers.cutting import USELESS_RISK
from bmrm.linear.solvers.newton import hessian_pays
from bmrm.losses import Loss
from bmrm.losses.base import RowRisk
from bmrm.losses.offset import with_offset

MAX_CURVATURE_CHANGE = 0.4
"""Maximum change of the second derivatives, as a share of their sum, for which an old Hessian is reused."""


class FoldPoint(NamedTuple):
    """A point with its margins and, for each fold, risk and gradient.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
    margins : ndarray of shape (n_samples,)
        Sorted by fold.
    parts : ndarray of shape (folds,)
        Q_g there.
    gradients : ndarray of shape (folds, n_features)
        The gradients of Q_g, exact or approximate; an array without rows if they are not known.
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
    operator : DesignOperator
        With rows sorted by fold.
    risk : RowRisk
        Of all rows.
    starts : ndarray of int64, shape (folds + 1,)
    floors : ndarray of shape (folds,)
        Lower bounds of the parts.
    """

    def __init__(self, operator: DesignOperator, risk: RowRisk, starts: Indices, floors: Vector) -> None:
        self.operator, self.risk, self.starts, self._floors = operator, risk, starts, floors
        self._most = np.inf
        self._derivatives = np.empty(operator.shape[0])
        self._curvature: Vector | None = None
        self._hessian = np.empty(0)
        self._doubted = True

    def at(self, w: Vector, margins: Vector, gradients: Vector, size: float) -> FoldPoint:
        """Evaluate the parts at a point whose margins have this size."""
        parts, _ = self.risk.cut(margins, margins, 0.0, 0.0, self.starts, self._derivatives)
        if self._most == np.inf:
            self._most = USELESS_RISK * abs(float(parts.sum()))
        return FoldPoint(w, margins, parts, gradients, size)

    def useful(self, planes: Subgradients, unseen: slice) -> Subgradients:
        """Replace useless cuts of the part that is held out by its floor.

        exp() may overflow on rows that are held out: their cut would drown all others.
        """
        gradients, risk, floors = planes.gradients, planes.risk, self._floors[unseen]
        assert isinstance(gradients, np.ndarray)
        says = bool((risk[unseen] <= self._most).all() and np.isfinite(gradients[unseen]).all())
        if not says and np.isfinite(floors).all():
            gradients[unseen], planes.at_point[unseen], risk[unseen] = 0.0, 0.0, floors
        return planes

    def doubt(self) -> None:
        """Check the second derivatives before the next step, because lam has changed or a step was poor."""
        self._doubted = True

    def hessian(self, risk: RowRisk, margins: Vector) -> Vector:
        """Return the Hessian of the risk of all rows at a point or one much like it.

        A Hessian only proposes a point. So that of another fold's solution, or of another lam's, suffices
        while the second derivatives of ``risk`` have changed little.
        """
        if self._doubted:
            curvature, self._doubted = np.empty_like(margins), False
            total = risk.curvature(margins, 0.0, curvature)
            if (
                self._curvature is None
                or np.abs(curvature - self._curvature).sum() > MAX_CURVATURE_CHANGE * total
            ):
                d = self.operator.shape[1]
                self._curvature, self._hessian = curvature, np.empty((d, d))
                self.operator.weighted_gram(curvature, self._hessian)
        return self._hessian.copy()


class _FullStep(NamedTuple):
    """The end of a line that a search accepted: its margins, the direction, and the parts of the risk."""

    margins: Vector
    direction: Vector
    parts: Vector


class FoldPasses(HostPasses):
    """The passes over all rows except one fold's, with cuts of every fold's part.

    Parameters
    ----------
    parts : FoldParts
    risk : RowRisk
        Of all rows except the fold's.
    held_out : slice
        The blocks that take no part.
    scale : float
        c_f.
    """

    whole = False

    def __init__(self, parts: FoldParts, risk: RowRisk, held_out: slice, scale: float) -> None:
        super().__init__(parts.operator, risk, cut_of=parts.risk, hessian=hessian_pays(parts.operator))
        self._parts, self._held_out, self._scale = parts, held_out, scale
        starts = parts.starts[held_out.start : held_out.stop + 1]
        self._left_out = slice(int(starts[0]), int(starts[-1])) if len(starts) > 1 else slice(0, 0)
        self._full: _FullStep | None = None

    def without(self, parts: Vector) -> Vector:
        """Return the weighted sum over the parts that take part."""
        before, after = slice(self._held_out.start), slice(self._held_out.stop, None)
        return np.asarray(self._scale * (parts[before].sum(axis=0) + parts[after].sum(axis=0)))

    def hessian(self, at: Iterate, profile: bool) -> Vector:
        """Hessian of the risk at a point, or one much like it; of all rows, which is much the same."""
        if self.cut_of is not self._parts.risk:  # with kinks rounded another width is another Hessian
            self._parts.doubt()
        return self._parts.hessian(self.cut_of, at.margins)

    def parts_at(self, margins: Vector) -> Vector | None:
        """Return the parts of the risk at margins where a line search accepted a full step."""
        return self._full.parts if self._full is not None and self._full.margins is margins else None

    def search(self, ray: LineSearchProblem) -> tuple[Vector, LineSearchResult]:
        """Minimise J along a line; return the direction too.

        If the end of the line may be good enough, compute all that a cut there needs, and the slope from it.
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
    """The objective of all rows except one fold's, with cuts of every fold's part Q_g.

    Parameters
    ----------
    parts : FoldParts
    loss : Loss
    y, weights : ndarray of shape (n_samples,)
        Sorted by fold.
    held_out : int
        The fold that takes no part; the number of folds for none.
    threads : int
    offset : ndarray of shape (n_samples,), optional
        Sorted by fold.

    Attributes
    ----------
    scale : float
        c_f.
    """

    def __init__(
        self,
        parts: FoldParts,
        loss: Loss,
        y: Vector,
        weights: Vector,
        held_out: int,
        *,
        threads: int,
        offset: Vector | None = None,
    ) -> None:
        rest, starts = weights.copy(), parts.starts
        self._held_out = slice(held_out, held_out + 1)
        if held_out < len(starts) - 1:
            rest[starts[held_out] : starts[held_out + 1]] = 0.0
        inside = float(rest.sum())
        self.scale = float(weights.sum()) / inside
        risk = with_offset(loss.risk(y, rest, 1.0 / inside, threads), offset)
        passes = FoldPasses(parts, risk, self._held_out, self.scale)
        super().__init__(parts.operator, passes, loss, L2(1.0), profile=False, blocks=1)
        self.starts, self._parts, self._fold_passes = starts, parts, passes
        self._known: list[FoldPoint] = []

    @property
    def takes_full_steps(self) -> bool:
        """Whether Newton's point itself suffices: it is near the solution of another fold or lam."""
        return True

    def begin(self, lam: float) -> None:
        """Prepare for a solve."""
        if lam != self.reg.lam:
            self._parts.doubt()
        self.reg, self._fold_passes.seconds = L2(lam), 0.0
        if self.errors is not None:
            self.errors.take_penalty(self.reg)
        self._known.clear()

    def value(self, point: FoldPoint) -> float:
        """J at a known point, from its parts."""
        self._known.append(point)
        return self.reg.value(point.w) + float(self._fold_passes.without(point.parts))

    def known(self, w: Vector) -> FoldPoint | None:
        """Return a point that was evaluated; None if there is no such point."""
        return next((point for point in self._known if point.w is w), None)

    def reached(self, best: Iterate, gradients: Vector) -> FoldPoint:
        """Return what is known of the best point of a run, with the gradients of the parts there."""
        parts = self._fold_passes.parts_at(best.margins)
        if parts is not None:
            return FoldPoint(best.w, best.margins, parts, gradients, best.size)
        known = self.known(best.w) or self._parts.at(best.w, best.margins, gradients, best.size)
        return known._replace(gradients=gradients)

    def evaluate(self, w: Vector) -> Iterate:
        """Evaluate J at ``w``: from its parts if it is known, else from a new product."""
        point = self.known(w)
        if point is None:
            point = self._parts.at(w, self.passes.margins(w), np.empty((0, 0)), self.size(w))
        return Iterate(w, point.margins, 0.0, self.value(point), point.size)

    def gradient(self, gradients: Vector) -> Vector:
        """Return the gradient of the risk from those of the parts."""
        return self._fold_passes.without(gradients)

    def risk(self, parts: Vector) -> float:
        """Return the risk from its parts."""
        return float(self._fold_passes.without(parts))
