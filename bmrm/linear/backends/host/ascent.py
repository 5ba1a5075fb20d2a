"""Coordinate ascent in the dual on the CPU, row by row; see `bmrm.linear.solvers.dual_ascent`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, cast, runtime_checkable

import numpy as np

from bmrm.base.vectors import dot
from bmrm.linear.backends.host._ascent import Ascent
from bmrm.linear.objective.passes import Iterate, ObjectiveData, Passes, Subgradients
from bmrm.losses.base import DualRisk, RowRisk
from bmrm.matrix import _cpu
from bmrm.matrix.adapted import MatrixAdapter, MatrixView

MIN_STEPS = 50
"""Number of steps in a row that may fail to halve the gap before planes take over."""

MIN_CLASS_STEPS = 100
"""The same for rows of several classes, with which planes of many rows do far worse."""

MAX_ROUNDS = 4
"""Maximum number of rounds of sweeps of a step if rows have several classes: the cut and the objective of a
step take about as long as a round."""


@runtime_checkable
class BeginsAscents(Protocol):
    """A view of a matrix that begins ascents itself: solves in lockstep take their sweeps in turn."""

    @property
    def ascent(self) -> Callable[..., Ascent]:
        """Begin an ascent; see `bmrm.linear.backends.host._ascent.Ascent`."""


def ascent_on(matrix: object) -> Callable[..., Ascent] | None:
    """Return a function that begins an ascent on a matrix: `Ascent`, or a view's own; None for a GPU."""
    if isinstance(matrix, _cpu.Matrix):
        return partial(Ascent, matrix)
    if isinstance(matrix, BeginsAscents):
        return matrix.ascent
    return ascent_on(matrix.inner) if isinstance(matrix, MatrixView) else None


class DualAscent:
    """`bmrm.linear.objective.passes.Ascent` by sweeps over the rows.

    - ``objective``: one for which `bmrm.linear.plan.ascent_pays`, with one block of rows
    - ``whole``: whether weights are kept one by one, rather than as a combination of rows
    """

    def __init__(
        self, objective: ObjectiveData, passes: Passes, risk: RowRisk, at: Iterate, *, whole: bool
    ) -> None:
        self._objective, self._passes, self._risk = objective, passes, risk
        self.exact = whole and not objective.profile
        operator = cast("MatrixAdapter", objective.operator)
        matrix, columns, constant = operator.inner, operator.n_outputs, operator.constant or 0.0
        begin = ascent_on(matrix)
        assert begin is not None
        conjugates = cast("DualRisk", risk).conjugates()
        lam = penalty = objective.reg.lam
        if objective.profile:
            constant, penalty = 1.0, 0.0
        # Shares of classes cannot be balanced: what one class gains another loses.
        of_classes = isinstance(conjugates, tuple)
        self._held = constant != 0.0 and not of_classes
        self._rounds = MAX_ROUNDS if of_classes else 1
        self.min_steps = MIN_CLASS_STEPS if of_classes else MIN_STEPS
        self._pull = -penalty / constant if self._held else 0.0
        self._ascent = begin(conjugates, columns, lam, constant, penalty, held=self._held)
        rows, self._width = objective.operator.shape
        self._r, self._w = np.zeros(rows), np.zeros(self._width + objective.profile)
        self._intercepts = self._w[-columns:]
        self.point = at.w
        if at.w.any() or at.intercept:
            self._begin_at(at)

    def _begin_at(self, at: Iterate) -> None:
        """Begin at the derivatives of the loss at a point: those of most rows end there.

        They may belong to weights far longer than those of the point, for instance if the point was found for
        a larger lam. The derivatives of a loss with kinks, most of them at their bounds, are slow to come
        back from there: they are scaled to belong to the weights nearest to the point.
        """
        starts, gradient = self._objective.starts, np.empty((1, self._width))
        self._risk.cut(at.margins, at.margins, 0.0, at.intercept, starts, self._r)
        self._ascent.set(self._r)
        if self._held:
            known = at.intercept if self._objective.profile else self._passes.array(at.w)
            self._intercepts[:] = np.atleast_1d(known)[-len(self._intercepts) :]
        self._balance()
        self._objective.operator.rmatvec_blocks(self._r, starts, gradient)
        w = self._objective.reg.minimiser(gradient[0])
        square = self._objective.reg.lam * dot(w, w)
        if not self._objective.loss.smooth and square > 0.0:
            # lam <w, point> is -<r, X point>: the margins are known, while the point may take a product.
            share = min(max(-dot(self._r, at.margins) / square, 0.0), 1.0)
            self._r *= share  # 0 is within the bounds of each
            self._ascent.set(self._r)
            w *= share
        self._w[: self._width] = w

    def _dual(self) -> float:
        """Return the value of the dual, as the weights have it that are kept up to date."""
        return -self._ascent.conjugate - 0.5 * self._objective.reg.lam * dot(self._w, self._w)

    def _balance(self) -> None:
        """Fit the sum of r to the intercept; without a penalty on that it must be 0, or r makes no cut."""
        if self._held:
            self._ascent.balance(self._pull * self._intercepts)
        self._ascent.get(self._r)

    def step(
        self, reached: float, tol: Callable[[float], float], ends: Callable[[], bool]
    ) -> tuple[Subgradients, float]:
        """Sweep over the rows; return the plane of r and its conjugate."""
        objective, gap = self._objective, tol(reached)
        for last in range(1 - self._rounds, 1):
            self._ascent.step(self._w, gap)
            if last == 0 or ends():
                break
            if self._ascent.enough:
                wanted = tol(self._dual() + gap)
                if wanted >= gap:
                    break
                gap = wanted
        self._balance()
        planes = self._passes.planes_of(self._r, objective.starts, self.point)
        assert isinstance(planes.gradients, np.ndarray)
        self.point = objective.reg.minimiser(planes.gradients.reshape(self.point.shape))
        if self._held:
            self._w[: self._width] = self._passes.array(self.point)
        slope = self._r.sum(keepdims=True) if objective.profile else np.zeros(1)
        return planes._replace(slope=slope), self._ascent.conjugate
