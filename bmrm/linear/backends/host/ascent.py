"""Coordinate ascent in the dual on the CPU; see `bmrm.linear.solvers.dual_ascent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast, runtime_checkable

import numpy as np

from bmrm.base.vectors import dot
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.bundle.cuts_per_pass import MAX_SHORT_BLOCKS, short_blocks
from bmrm.linear.objective.objective import CutBatch, Iterate, Objective, Operator
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.dual_ascent import Halving, fenchel_cut, is_wide
from bmrm.losses import Loss
from bmrm.losses.base import DualRisk
from bmrm.matrix import _cpu
from bmrm.matrix.adapted import MatrixAdapter

EASY, EASY_OF_SEVERAL = 3e-4, 2e-3
"""lam over the mean square of a row, above which planes take so few passes that ascent is slower: with one
margin a row, and with several. Not where a few rows with kinks would have several planes a pass."""

TRIED = 50
"""Steps that are taken in any case. Planes begin where so many in a row have not halved the gap."""


@runtime_checkable
class Climbed(Protocol):
    """A resident matrix that begins ascents."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def nnz(self) -> int:
        """Stored values."""

    @property
    def ascent(self) -> Callable[..., _cpu.Ascent]:
        """Begin an ascent; see `bmrm.matrix._cpu.Matrix.ascent`."""


def ascent_pays(operator: Operator, loss: Loss, reg: Regularizer, threads: int, *, newton: bool) -> bool:
    """Whether to begin with ascent in the dual.

    Parameters
    ----------
    operator : Operator
    loss : Loss
    reg : Regularizer
    threads : int
        That products may use.
    newton : bool
        Whether Newton's steps are taken.
    """
    matrix, columns = cast("MatrixAdapter", operator).inner, operator.n_outputs
    if newton or not (loss.has_dual and reg.plain and isinstance(matrix, Climbed)):
        return False
    quick = loss.smooth and not isinstance(matrix, _cpu.Matrix)
    if not is_wide(matrix.shape, matrix.nnz, columns, threads, quick=quick):
        return False
    # Planes would be many, and full.
    if loss.kinked and short_blocks(operator, matrix.shape[0], MAX_SHORT_BLOCKS):
        return True
    mean_square = float(cast("Operator", matrix).mean_squares.sum())
    return reg.lam <= (EASY if columns == 1 else EASY_OF_SEVERAL) * mean_square


class DualAscent:
    """A point of the dual on its way up, and the weights that belong to it.

    Parameters
    ----------
    objective : Objective
        For which `ascent_pays`, with one block of rows.
    at : Iterate
        Where to begin.
    tol : callable
        Gap to stop at, where the best objective is so much.
    """

    def __init__(self, objective: Objective, at: Iterate, tol: Callable[[float], float]) -> None:
        assert isinstance(objective.passes, HostPasses)
        self._objective, self._passes = objective, objective.passes
        self.exact = objective.passes.whole and not objective.profile
        operator = cast("MatrixAdapter", objective.operator)
        matrix, columns, constant = operator.inner, operator.n_outputs, operator.constant or 0.0
        assert isinstance(matrix, Climbed)
        conjugates = cast("DualRisk", self._passes.rows).conjugates()
        lam = penalty = objective.reg.lam
        if objective.profile:
            constant, penalty = 1.0, 0.0
        # Shares of classes cannot be balanced: what one class gains another loses.
        self._held = constant != 0.0 and not isinstance(conjugates, tuple)
        self._pull = -penalty / constant if self._held else 0.0
        self._ascent = matrix.ascent(conjugates, columns, lam, constant, penalty, held=self._held)
        rows, self._width = objective.operator.shape
        self._r, self._w = np.zeros(rows), np.zeros(self._width + objective.profile)
        self._intercepts = self._w[-columns:]
        self._halving = Halving(TRIED)
        self._point = at.w
        self._tol, self._reached = tol, at.objective
        if at.w.any() or at.intercept:
            self._begin_at(at)

    def _begin_at(self, at: Iterate) -> None:
        """Begin at the derivatives of the loss at a point: those of most rows end there.

        They may belong to weights far longer than those of the point, as they do for a smaller lam than it
        was found for. Derivatives of a loss with kinks, most of them at their bounds, are slow to come back
        from there: they are shortened to where they belong to weights as near to the point as they get.
        """
        starts, gradient = self._objective.starts, np.empty((1, self._width))
        self._passes.rows.cut(at.margins, at.margins, 0.0, at.intercept, starts, self._r)
        self._ascent.set(self._r)
        if self._held:
            known = at.intercept if self._objective.profile else self._passes.array(at.w)
            self._intercepts[:] = np.atleast_1d(known)[-len(self._intercepts) :]
        self._balance()
        self._objective.operator.rmatvec_blocks(self._r, starts, gradient)
        w = self._objective.reg.minimiser(gradient[0])
        square = self._objective.reg.lam * dot(w, w)
        if not self._objective.loss.smooth and square > 0.0:
            # lam <w, point> is -<r, X point>: the margins are there, and the point may take a product.
            share = min(max(-dot(self._r, at.margins) / square, 0.0), 1.0)
            self._r *= share  # 0 is within the bounds of each
            self._ascent.set(self._r)
            w *= share
        self._w[: self._width] = w

    def _balance(self) -> None:
        """Fit the sum of r to the intercept: to 0 where that has no penalty, so that r makes a cut at all."""
        if self._held:
            self._ascent.balance(self._pull * self._intercepts)
        self._ascent.get(self._r)

    def pays(self, gap: float) -> bool:
        """Whether to go on, where the last step has left this gap."""
        return self._halving.goes_on(gap)

    def step(self) -> CutBatch | None:
        """Sweep over the rows; return the cutting plane that r makes; None where it makes none."""
        self._ascent.step(self._w, self._tol(self._reached))
        self._balance()
        planes = self._passes.planes_of(self._r, self._objective.starts, self._point)
        assert isinstance(planes.gradients, np.ndarray)
        self._point = self._objective.reg.minimiser(planes.gradients.reshape(self._point.shape))
        if self._held:
            self._w[: self._width] = self._passes.array(self._point)
        slope = self._r.sum(keepdims=True) if self._objective.profile else np.zeros(1)
        return fenchel_cut(self._objective, planes._replace(slope=slope), self._ascent.conjugate)

    def at(self, accuracy: float) -> Iterate:
        """Evaluate J at the point whose minimum with the penalty the plane has."""
        found = self._objective.evaluate_at(self._point, self._passes.margins(self._point), accuracy)
        self._reached = found.objective
        return found
