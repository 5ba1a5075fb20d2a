"""Interior-point steps for losses that are linear but for kinks.

For any sigma in [0, 1], sigma x is nowhere above max(0, x).  So the risk is the greatest that numbers sigma,
one for each kink of each row, can make it, and the optimum is a saddle point, on which as many rows lie at
their kinks as there are features.  Planes find it kink by kink, and rounded kinks
(`bmrm.linear.solvers.smoothing`) bend too little there for a Newton step of any length.  Here every row
bends at all times: with the excess xi and the
slack zeta, x = xi - zeta, the products

    xi (1 - sigma)  and  zeta sigma

are zero at the optimum, and mu > 0 on a path that leads there.  A step solves for both to be a smaller mu, to
second order (Mehrotra, SIAM J. Optim. 2 (1992) 575; for quantile regression Portnoy, Koenker, Statist. Sci.
12 (1997) 279, for support vector machines Ferris, Munson, SIAM J. Optim. 13 (2003) 783).  It takes one
Hessian of the size of w,

    P'' + X' diag(s theta) X,      theta = 1 / (xi / (1 - sigma) + zeta / sigma).

Sigma makes a cutting plane of the risk as it is, whose minimum with the penalty is the value of the dual
problem at sigma: objective and bound rest on no step.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DeviceMemoryError
from bmrm.linear.objective.objective import (
    LEVEL,
    CutBatch,
    Iterate,
    Margins,
    Objective,
    Starts,
    Subgradients,
    Weights,
)
from bmrm.linear.regularizers import L2
from bmrm.losses.base import Pieces

Vector = NDArray[np.float64]

BACK = 0.995
"""Share of the way to the nearest bound that a step goes."""

LEAST = 1e-4
"""Rows are left out of the Hessian that all together bend less than this share of the one that bends most."""

SHARES, LONG = (0.5, 0.25, 0.1), 0.5
"""Of the correction, where with all of it a step is not long."""

SHORT, PATIENT, MOST = 0.05, 3, 80
"""The steps end where so many in a row are shorter than this, or after so many."""

BALANCED = 60
"""Most steps of the search for the intercept that the path begins at."""


class InteriorPasses(Protocol):
    """What an interior point asks of the passes; itself it works on the host."""

    @property
    def has_hessian(self) -> bool:
        """Whether what makes a Hessian is found."""

    def pieces(self) -> Pieces:
        """Tell the risk's pieces between kinks."""

    def total(self, sums: Vector) -> Vector:
        """Return sums over all rows from those over the rows of this process."""

    def least(self, number: float) -> float:
        """Return the least of the numbers of all processes."""

    def array(self, w: Weights) -> Vector:
        """Give weights out."""

    def rows_of(self, z: Margins) -> Vector:
        """Give margins out."""

    def placed(self, w: Vector, margins: Vector) -> tuple[Weights, Margins]:
        """Take a point in, with its margins."""

    def planes_of(self, r: Vector, starts: Starts, w: Vector) -> Subgradients:
        """Cutting planes of any derivatives; their risk is not known."""


class Rows(NamedTuple):
    """What is known of each kink of each row, shape (kinks, m) each; all above 0.

    Attributes
    ----------
    sigma, rest : ndarray
        Share of the kink's slope that is taken, and 1 less that.
    excess, slack : ndarray
        What x is above 0, and below.
    """

    sigma: Vector
    rest: Vector
    excess: Vector
    slack: Vector


class Move(NamedTuple):
    """A direction: of weights, margins, intercept, and of the kinks."""

    w: Vector
    margins: Vector
    intercept: float
    sigma: Vector
    excess: Vector
    slack: Vector

    def towards(self, other: Move, share: float) -> Move:
        """Return the direction a share of the way to another."""
        return Move(
            self.w + share * (other.w - self.w),
            self.margins + share * (other.margins - self.margins),
            self.intercept + share * (other.intercept - self.intercept),
            self.sigma + share * (other.sigma - self.sigma),
            self.excess + share * (other.excess - self.excess),
            self.slack + share * (other.slack - self.slack),
        )


class System(NamedTuple):
    """The factor of the Hessian, and what an intercept adds to it.

    Attributes
    ----------
    factor : ndarray of shape (d, d)
        Lower triangle.
    theta : ndarray of shape (kinks, m)
    mixed : ndarray of shape (d,)
    total : float
        Second derivatives in w and the intercept, and in the latter alone; 0 where there is none.
    """

    factor: Vector
    theta: Vector
    mixed: Vector
    total: float


def go_inside(objective: Objective, at: Iterate, gap: float) -> InteriorPoint | None:
    """Return the point to begin at, where steps pay; None where nothing makes a Hessian after all."""
    passes = cast("InteriorPasses", objective.passes)
    return InteriorPoint(objective, at, gap) if passes.has_hessian else None


class InteriorPoint:
    """A point on its way along the path.

    Parameters
    ----------
    objective : Objective
        For which `can_step`.
    at : Iterate
        Where to begin.
    gap : float
        Of that point.
    """

    def __init__(self, objective: Objective, at: Iterate, gap: float) -> None:
        assert isinstance(objective.reg, L2)
        self._objective, self._design, self._reg = objective, objective.operator, objective.reg
        self._passes = passes = cast("InteriorPasses", objective.passes)
        self._pieces = passes.pieces()
        self._idle = np.nonzero(self._pieces.weights <= 0.0)
        self.w, self.margins, self.intercept = passes.array(at.w), passes.rows_of(at.margins), at.intercept
        self._hessian = np.empty((len(self.w), len(self.w)))  # fresh pages take as long as a product
        self._short, self._left = 0, MOST
        self._count = rows_of_all(passes, len(self.margins))
        (self._weight,) = self._sums(self._pieces.weights)
        size = abs(at.objective) or 1.0
        mu = math.sqrt(min(gap, size) * size) / self._weight
        if objective.profile:
            self.intercept = self._balanced(mu, self.intercept)
        self._rows = _central(self._distances(), mu)

    def _sums(self, *arrays: Vector) -> list[float]:
        """Add up arrays, over the rows of all processes."""
        found: list[float] = self._passes.total(np.array([array.sum() for array in arrays])).tolist()
        return found

    def _distances(self) -> Vector:
        """How far margins are above each kink, shape (kinks, m)."""
        return np.asarray(self.margins + self.intercept - self._pieces.places)

    def _balanced(self, mu: float, b: float) -> float:
        """Return the intercept at which the path's slopes add up to nothing."""
        low, high = -np.inf, np.inf
        for _ in range(BALANCED):
            self.intercept = b
            rows = _central(self._distances(), mu)
            bends = self._pieces.weights / (1.0 / np.square(rows.sigma) + 1.0 / np.square(rows.rest))
            slope, bend = self._sums(self._slopes(rows.sigma, rows.rest), bends)
            low, high = (b, high) if slope < 0.0 else (low, b)
            if not bend > 0.0:  # mu is so small that its square is nothing
                break
            b -= mu * slope / bend
            if not low < b < high:
                if not np.isfinite(high - low):
                    break
                b = 0.5 * (low + high)
            if not low < b < high:
                break
        return b

    def _taken(self, sigma: Vector, rest: Vector) -> Vector:
        """Return what each kink takes of its jump, or where that is most of it what it leaves, negative.

        Where lam is tiny hardly a kink takes or leaves more than that: what it adds to the jump is rounding.
        """
        return self._pieces.weights * np.where(sigma > 0.5, -rest, sigma)

    def _slopes(self, sigma: Vector, rest: Vector) -> Vector:
        """Return the derivative of each row's risk with these sigma, and 1 less these."""
        pieces = self._pieces
        whole = pieces.slope + np.where(sigma > 0.5, pieces.weights, 0.0).sum(axis=0)
        return np.asarray(whole + self._taken(sigma, rest).sum(axis=0))

    def _values(self, sigma: Vector, rest: Vector) -> Vector:
        """Return the values of each row's line with these slopes at a margin of 0."""
        pieces = self._pieces
        whole = np.where(sigma > 0.5, pieces.weights * pieces.places, 0.0).sum(axis=0)
        whole += pieces.slope * pieces.places[0]
        return np.asarray(-whole - (self._taken(sigma, rest) * pieces.places).sum(axis=0))

    def step(self) -> bool:
        """Take a step; False where there is none, or those so far have been of no use."""
        system = self._system()
        if system is None:
            return False
        rows = self._rows
        mu = self._product(rows)
        ahead = self._move(system, 0.0, 0.0)
        left = self._product(self._moved(ahead, *self._lengths(ahead)))
        target = mu * (left / mu) ** 3
        wanted = self._move(system, target + ahead.excess * ahead.sigma, target - ahead.slack * ahead.sigma)
        move, primal, dual = self._longest(ahead, wanted)
        if not np.isfinite(move.w).all():
            return False
        self.w = self.w + primal * move.w
        self.margins = self.margins + primal * move.margins
        self.intercept += primal * move.intercept
        self._rows = self._moved(move, primal, dual)
        self._short = self._short + 1 if min(primal, dual) < SHORT else 0
        self._left -= 1
        return self._short < PATIENT and self._left > 0

    def _system(self) -> System | None:
        """Make the Hessian and factor it; None where it is not positive definite, or has no room."""
        from scipy.linalg import lapack  # which most solves do without

        rows, weights, d = self._rows, self._pieces.weights, len(self.w)
        theta = 1.0 / (rows.excess / rows.rest + rows.slack / rows.sigma)
        bends = (weights * theta).sum(axis=0)
        most = -self._passes.least(-float(bends.max(initial=0.0)))
        bends[self._count * bends < LEAST * most] = 0.0
        hessian = self._hessian
        try:
            self._design.weighted_gram(bends, hessian)
        except DeviceMemoryError:  # cuts may have taken what there was
            return None
        hessian[np.diag_indices(d)] += self._reg.curvature
        mixed, total = np.zeros(d), 0.0
        if self._objective.profile:
            mixed, (total,) = self._pulled(bends), self._sums(bends)
            hessian -= mixed[:, None] * (mixed / total)
        factor, failed = lapack.dpotrf(hessian.T, lower=True, overwrite_a=True)
        return None if failed else System(factor, theta, mixed, total)

    def _pulled(self, r: Vector) -> Vector:
        """``X' r``."""
        product = np.empty((1, len(self.w)))
        self._design.rmatvec_blocks(r, np.array([0, len(r)], np.int64), product)
        return np.asarray(product[0])

    def _move(self, system: System, excess_product: Vector | float, slack_product: Vector | float) -> Move:
        """Return the direction to where the products of each kink are these, to first order."""
        from scipy.linalg import lapack

        sigma, rest, excess, slack = self._rows
        unmet = self._distances() - excess_product / rest + slack_product / sigma
        turn = system.theta * unmet
        r = self._slopes(sigma + turn, rest - turn)
        wanted = self._reg.smooth_gradient(self.w) + self._pulled(r)
        if system.total:
            (slope,) = self._sums(r)
            wanted -= system.mixed * (slope / system.total)
        dw, _ = lapack.dpotrs(system.factor, -wanted, lower=True)
        margins = np.empty(len(r))
        self._design.matvec(dw, margins)
        intercept = 0.0
        if system.total:
            intercept = -(slope + float(system.mixed @ dw)) / system.total
        turn = system.theta * (margins + intercept + unmet)
        excess = (excess_product - excess * rest + excess * turn) / rest
        slack = (slack_product - slack * sigma - slack * turn) / sigma
        for change in (turn, excess, slack):  # rows without weight keep no step short
            change[self._idle] = 0.0
        return Move(dw, margins, intercept, turn, excess, slack)

    def _longest(self, ahead: Move, wanted: Move) -> tuple[Move, float, float]:
        """Return the direction between two along which the steps are longest, and the steps."""
        best, steps = wanted, self._lengths(wanted)
        for share in SHARES:
            if min(steps) >= LONG:
                break
            move = ahead.towards(wanted, share)
            found = self._lengths(move)
            if min(found) > min(steps):
                best, steps = move, found
        return best, *steps

    def _lengths(self, move: Move) -> tuple[float, float]:
        """Return the steps of weights and of sigma that leave everything above 0."""
        rows = self._rows
        primal = min(self._length(rows.excess, move.excess), self._length(rows.slack, move.slack))
        return primal, min(self._length(rows.sigma, move.sigma), self._length(rows.rest, -move.sigma))

    def _length(self, values: Vector, change: Vector) -> float:
        ratios = np.divide(values, change, out=np.full_like(values, -np.inf), where=change < 0.0)
        return min(1.0, BACK * self._passes.least(-float(ratios.max(initial=-np.inf))))

    def _moved(self, move: Move, primal: float, dual: float) -> Rows:
        rows = self._rows
        return Rows(
            rows.sigma + dual * move.sigma,
            rows.rest - dual * move.sigma,
            rows.excess + primal * move.excess,
            rows.slack + primal * move.slack,
        )

    def _product(self, rows: Rows) -> float:
        """Mean of the products of all kinks: mu on the path."""
        (total,) = self._sums(self._pieces.weights * (rows.excess * rows.rest + rows.slack * rows.sigma))
        return total / (2.0 * self._weight)

    def at(self, accuracy: float) -> Iterate:
        """Evaluate J at the point; with a profiled intercept to within ``accuracy``."""
        return self._objective.evaluate_at(*self._passes.placed(self.w, self.margins), accuracy)

    def cut(self) -> CutBatch | None:
        """Take the cutting planes that sigma makes; none that bound the risk for one intercept only."""
        objective, pieces = self._objective, self._pieces
        sigma, rest = self._rows.sigma, self._rows.rest
        if objective.profile:
            free = sigma * rest
            slope, bend = self._sums(self._slopes(sigma, rest), pieces.weights * free)
            sigma, rest = sigma - free * (slope / bend), rest + free * (slope / bend)
        sigma, rest = np.clip(sigma, 0.0, 1.0), np.clip(rest, 0.0, 1.0)
        r = self._slopes(sigma, rest)
        if objective.profile and not abs(self._sums(r)[0]) <= LEVEL * objective.steepest(0.0):
            return None
        starts = objective.starts
        # At margins of 0, where the gradient counts for nothing.
        values = self._values(sigma, rest)
        blocks = list(pairwise(starts.tolist()))
        sums = np.array([[part[i:j].sum() for i, j in blocks] for part in (values, r)])
        offsets, slopes = self._passes.total(sums)
        planes = self._passes.planes_of(r, starts, self.w)
        planes = planes._replace(risk=offsets + planes.at_point, slope=slopes)
        return CutBatch(
            planes, offsets, objective.risk(planes.risk), objective.blur_of_conjugates(planes, offsets)
        )


def rows_of_all(passes: InteriorPasses, rows: int) -> int:
    """Add up the rows of all processes."""
    return int(passes.total(np.array([rows], np.float64))[0])


def _central(x: Vector, mu: float) -> Rows:
    """Return the rows of the path at distances from their kinks: both products are mu."""
    far = x / mu
    root = np.hypot(2.0, far)
    # Without the difference of root and |far|, which is all that is left on one side.
    less, more = 2.0 + 4.0 / (root + np.abs(far)), 2.0 + root + np.abs(far)
    sigma, rest = (0.5 * np.where(s < 0.0, less, more) / (2.0 + root) for s in (far, -far))
    return Rows(sigma, rest, mu / rest, mu / sigma)
