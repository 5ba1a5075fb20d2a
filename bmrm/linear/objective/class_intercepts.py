"""Free intercepts of several classes: minimised out by Newton's method on a softened risk.

With K margins per row, R(w) = min_b R(w, b) for b of K numbers. A cut of it has derivatives r whose sums
over the rows vanish, class by class: then it bounds R(w, b) for every b. Softmax is smooth, so r at the
minimiser has that property up to rounding. The other losses are the largest of some lines per row. They are
softened over a width (``src_cython/losses/soft_risk.h``): r are then shares of these lines, and any shares
make a plane that bounds the loss as it is, at most about the width below it. The sums that Newton's method
leaves are cancelled by moving shares to first order. The plane's level shows how far the risk can be above
its minimum, and the width follows the accuracy that is asked for.

A softened risk is self-concordant in a generalised sense: a step to Newton's point, shortened to
log(1 + s) / s of itself for a move of s widths, always decreases it (Sun, Tran-Dinh, Math. Programming 178
(2019) 145, theorem 2). Far from the minimum, a narrow softening hardly bends: the search begins with a width
at which moves are short, and narrows it step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bmrm.base.vectors import Vector, dot
from bmrm.linear.objective.passes import ClassPasses, Margins, Softened
from bmrm.linear.objective.running_error import largest
from bmrm.losses.multiclass import ClassLoss

MAX_MOVES = 200
"""Maximum number of Newton's steps in a search."""

FAR_MOVE = 10.0
"""Length of a move, in widths, from which on the width is too small."""

LOST_MOVE = 1e4
"""Length of a move, in widths, from which on the width is far too small: hardly any row is soft."""

MAX_WIDTH = 1e150
"""Width at which a search ends without success."""

NEAR_MOVE = 0.5
"""Length of a move, in widths, up to which the width is narrowed next."""

EASY_MOVE = 0.1
"""Length of a move, in widths, up to which it is narrowed more than before."""

MIN_NARROWING = 1.1
"""Factor by which the width is always narrowed, however long the next move is."""

MAX_NARROWING = 1e4
"""Maximum factor by which the width is narrowed at once."""

WIDENING = 8.0
"""Factor from one width to the next, if the first one is too small."""

FIRST_NARROWING = 2.8
"""Factor by which the width is narrowed first."""

HIDDEN_BY_CUT = 64.0
"""How far a cut may be below the risk, as a multiple of the accuracy of points: soft cuts say more about
points nearby."""

MAX_MOVES_OF_PLANE = 4
"""Maximum number of moves of shares for a plane without slope in the intercepts."""

MAX_WIDER = 16.0
"""Maximum factor by which the width grows from one point to the next."""

FIRST_WIDTH = 0.25
"""Width at first, as a share of the differences that margins are compared with."""

MIN_WIDTH = 2.0**-40
"""Smallest width, as such a share."""

EXACT = 2.0**-43
"""Smallest accuracy, as a share of the risk."""

RESIDUE = 2.0**-56
"""Size of the sums of derivatives, as a share of the weights, that a plane may keep."""

MIN_SOFT = 2.0**-44
"""Share of the weights that counts as soft in each class, whatever the width: sums below it are rounding."""

ABSENT = 1e4
"""Minus the intercept of a class whose rows have no weight, as long as nothing else is known."""

RIDGE = 1e-12
"""Share of the diagonal that is added to a Hessian: it is singular if all intercepts may move together."""


class Plane(NamedTuple):
    """A plane without slope in the intercepts, and where it was taken."""

    intercepts: Vector
    level: float  # at the margins there
    tilt: float  # what is left of its slopes, added up in size


class ClassIntercepts:
    """The minimum over the intercepts of K classes, at margins on a line.

    ``solve`` solves a positive definite system in place, and says whether it is one.
    """

    def __init__(self, passes: ClassPasses, loss: ClassLoss, solve: Callable[[Vector, Vector], bool]) -> None:
        self._passes, self._loss, self._own_width = passes, loss, loss.own_width
        self._solve = solve
        self._scale = loss.level or 1.0
        self._weights = passes.class_weights()
        self._present = self._weights > 0.0
        self._together = loss.moves_together
        # Of searches and cuts, and with which points are evaluated
        self._width = self._narrow = self._own_width or FIRST_WIDTH * self._scale
        self.b = np.where(self._present, 0.0, -ABSENT)
        """Where the next search begins: where the last one ended."""
        # The width of that minimum, and how the minimum moves with the width
        self._reached, self._drift = self._width, np.zeros_like(self.b)
        self._on_line: list[tuple[float, Vector]] = []
        """Where minima were found on the line that is searched."""

    def begin(self, b: Vector) -> None:
        """Begin the next search at these intercepts."""
        self.b, self._reached = np.array(b, np.float64), self._narrow
        self._on_line = []

    def limit(self, size: float) -> float:
        """Return how far from 0 intercepts need to be, for margins of at most this size."""
        return self._loss.intercept_limit(self._weights, size)

    def slope(self, z: Margins, dz: Margins, t: float, accuracy: float) -> float:
        """Return the derivative in t of the risk's minimum, softened over the width of searches."""
        self._foresee(t)
        at, move = self._settle(z, dz, t, self._narrow, 0.1 * accuracy)
        self._on_line.append((t, self.b))
        if not self._own_width:
            at = self._passes.soften(z, dz, t, self.b, self._narrow, move=move)
        return at.along

    def _foresee(self, t: float) -> None:
        """Begin the next search on the line that two minima near ``t`` make."""
        near = sorted(self._on_line, key=lambda known: abs(known[0] - t))[:2]
        if len(near) == 2 and near[0][0] != near[1][0]:
            (here, b), (there, other) = near
            share = (t - here) / (there - here)
            self.b = b + max(-1.0, min(share, 1.0)) * (other - b)

    def minimiser(self, z: Margins, dz: Margins | None, t: float, accuracy: float) -> Vector:
        """Return intercepts at which the risk is above its minimum by at most ``accuracy``, if it can be."""
        plane, width = self._close_plane(z, dz, t, self._narrow, accuracy, keep=False)
        if accuracy > 0.0:  # not at the start or the end of a run
            self._narrow = width
        return plane.intercepts

    def cut(self, z: Margins, dz: Margins | None, t: float, accuracy: float) -> Plane:
        """Keep the derivatives of a plane without slope in the intercepts, in the first set; return it."""
        plane, self._width = self._close_plane(z, dz, t, self._width, HIDDEN_BY_CUT * accuracy, keep=True)
        return plane

    def _close_plane(
        self, z: Margins, dz: Margins | None, t: float, width: float, accuracy: float, *, keep: bool
    ) -> tuple[Plane, float]:
        """Return a plane that is below the risk by at most ``accuracy``, and the width for the next one."""
        along, step = (z, 0.0) if dz is None else (dz, t)
        if self._own_width:
            return self._plane(z, along, step, self._own_width, accuracy, keep=keep), self._own_width
        widest, least = FIRST_WIDTH * self._scale, MIN_WIDTH * self._scale
        while True:
            plane = self._plane(z, along, step, width, accuracy, keep=keep)
            risk = self._passes.risk(z, dz, t, plane.intercepts)[0]
            hidden, wanted = risk - plane.level, max(accuracy, EXACT * abs(risk))
            # What is hidden is between the width and its square.
            factor = 0.5 * math.sqrt(wanted / hidden) if hidden > 0.0 else math.inf
            if not hidden > wanted or width <= least:
                return plane, min(widest, width * max(1.0, min(factor, MAX_WIDER)))
            width = max(least, width * min(0.5, max(factor, 1.0 / 64.0)))

    def _plane(
        self, z: Margins, dz: Margins, t: float, width: float, accuracy: float, *, keep: bool
    ) -> Plane:
        """Return a plane of the risk at its minimum; ``keep`` its derivatives."""
        smooth = self._own_width > 0.0
        at, move = self._settle(z, dz, t, width, 0.0 if smooth else 0.1 * accuracy)
        if not keep and smooth:
            return Plane(self.b, at.level, 0.0)
        settled, last = at, math.inf
        for _ in range(MAX_MOVES_OF_PLANE if keep and not smooth else 1):
            left = None if smooth else move
            at = self._passes.soften(z, dz, t, self.b, width, move=left, keep=keep)
            tilt = float(np.abs(at.sums).sum())
            if not RESIDUE < tilt < 0.5 * last:
                break
            last = tilt
            move = move + self._newton(at._replace(hessian=settled.hessian), width)[0]
        return Plane(self.b, at.level, tilt)

    def _settle(
        self, z: Margins, dz: Margins, t: float, wanted: float, enough: float
    ) -> tuple[Softened, Vector]:
        """Minimise the risk softened over a width to within ``enough``; return it, and the next move."""
        width, b = wanted, self._expected(wanted)
        factor, last, before, found = FIRST_NARROWING, math.inf, math.inf, False
        for _ in range(MAX_MOVES):
            at = self._passes.soften(z, dz, t, b, width, hessian=True)
            move, length = self._newton(at, width)
            if not length >= 0.0 or not width < MAX_WIDTH:  # sums are not finite
                break
            if found and length > FAR_MOVE and factor > MIN_NARROWING:  # the last one was too much
                factor = math.sqrt(factor)
                width = self._reached / factor
                b = self._expected(width)
                continue
            if not found and length > FAR_MOVE and (length > LOST_MOVE or length < 0.5 * last):
                width, last = width * (WIDENING**2 if length > LOST_MOVE else WIDENING), length
                continue
            if length == math.inf:
                break
            if width <= wanted:
                left = float(np.abs(at.sums).sum())
                near = length <= NEAR_MOVE and -0.5 * dot(at.sums, move) <= enough
                if near or (length < 0.1 and left >= 0.5 * before):
                    break
                before = left
            b = self._centred(b + (math.log1p(length) / length if length else 1.0) * move)
            if length <= NEAR_MOVE and width > wanted:
                self._note(width, b)
                factor, found = min(factor**2, MAX_NARROWING) if length < EASY_MOVE else factor, True
                width = max(wanted, width / factor)
                b = self._expected(width)
        self._note(width, b)
        return at, move

    def _expected(self, width: float) -> Vector:
        """Return where the minimum is expected for a width: it moves with the width, about in proportion."""
        return self.b + (width - self._reached) * self._drift

    def _note(self, width: float, b: Vector) -> None:
        """Note the minimum of a width."""
        if width < self._reached:
            self._drift = (b - self.b) / (width - self._reached)
        elif width > self._reached:
            self._drift = np.zeros_like(b)
        self.b, self._reached = b, width

    def _newton(self, at: Softened, width: float) -> tuple[Vector, float]:
        """Return the move to Newton's point, and its length in widths."""
        assert at.hessian is not None
        hessian, sums = at.hessian, at.sums
        if not (np.isfinite(hessian).all() and np.isfinite(sums).all()):
            return np.zeros_like(sums), math.nan
        # A class of which nothing is soft at this width does not bend: it moves far, unless its sum is 0.
        ridge = MIN_SOFT / width
        diagonal = hessian.diagonal() + ridge
        units = 1.0 / np.sqrt(diagonal)
        scaled = hessian * units[:, None] * units
        scaled[np.diag_indices(len(units))] = 1.0 + RIDGE
        move = -units * sums
        if not self._solve(scaled, move):
            return np.zeros_like(sums), math.inf
        move = units * move
        low, high = (float(move.min()), float(move.max())) if self._together else (0.0, largest(move))
        length = (high - low) / width
        return (move, length) if length < math.inf else (np.zeros_like(sums), math.inf)

    def _centred(self, b: Vector) -> Vector:
        """Return the same intercepts with a mean of 0, if moving all of them together changes nothing."""
        return b - b[self._present].mean() if self._together else b
