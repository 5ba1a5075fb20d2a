"""Interior-point steps for losses that are linear except at kinks.

For any sigma in [0, 1], sigma x is nowhere above max(0, x).  So the risk is the maximum over numbers sigma,
one for each kink of each row, and the optimum is a saddle point, at which as many rows lie at their kinks as
there are features.  Planes find it kink by kink, and rounded kinks (`bmrm.linear.solvers.smoothing`) have too
little curvature there for a Newton step of any length.  Here every row has curvature at all times: with the
excess xi and the slack zeta, x = xi - zeta, the products

    xi (1 - sigma)  and  zeta sigma

are zero at the optimum, and mu > 0 on a path that leads there.  A step solves for both products to equal a
smaller mu, to second order (Mehrotra, SIAM J. Optim. 2 (1992) 575; for quantile regression Portnoy, Koenker,
Statist. Sci. 12 (1997) 279; for support vector machines Ferris, Munson, SIAM J. Optim. 13 (2003) 783).  It
takes one Hessian of the size of w,

    P'' + X' diag(s theta) X,      theta = 1 / (xi / (1 - sigma) + zeta / sigma).

Sigma makes a cutting plane of the risk as it is, whose minimum with the penalty is the value of the dual
problem at sigma: objective and bound rest on no step.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.errors import DeviceMemoryError
from bmrm.linear.objective.objective import LEVEL_SLOPE, Objective
from bmrm.linear.objective.passes import CutBatch, InteriorPasses, Iterate

STEP_TO_BOUND = 0.995
"""Share of the way to the nearest bound that a step goes."""

MIN_CURVATURE_SHARE = 1e-4
"""Rows are left out of the Hessian that all together have less than this share of the largest curvature of a
row."""

CORRECTION_SHARES = (0.5, 0.25, 0.1)
"""Shares of the correction that are tried if a step with all of it is not long."""

LONG_STEP = 0.5
"""Steps of at least this length are long."""

SHORT_STEP = 0.05
"""Steps below this length are short."""

MAX_SHORT_STEPS = 3
"""The steps end after this number of short ones in a row."""

MAX_STEPS = 80
"""Maximum number of steps."""

MAX_INTERCEPT_STEPS = 60
"""Maximum number of steps in the search for the intercept at which the path begins."""


class KinkState(NamedTuple):
    """The state of each kink of each row, arrays of shape (kinks, m); all numbers are above 0."""

    # Share of the jump of the slope that is taken, and 1 minus that
    sigma: Vector
    rest: Vector
    # How far x is above 0, and below
    excess: Vector
    slack: Vector


class Move(NamedTuple):
    """A direction: changes of weights, margins, intercept, and of the kinks."""

    w: Vector
    margins: Vector
    intercept: float
    sigma: Vector
    excess: Vector
    slack: Vector

    def towards(self, other: Move, share: float) -> Move:
        """Return the direction that is a share of the way to another one."""
        return Move(
            self.w + share * (other.w - self.w),
            self.margins + share * (other.margins - self.margins),
            self.intercept + share * (other.intercept - self.intercept),
            self.sigma + share * (other.sigma - self.sigma),
            self.excess + share * (other.excess - self.excess),
            self.slack + share * (other.slack - self.slack),
        )


class System(NamedTuple):
    """The factor of the Hessian, and what an intercept adds to it."""

    factor: Vector  # shape (d, d): lower triangle
    theta: Vector  # shape (kinks, m)
    mixed: Vector  # shape (d,): second derivatives in w and the intercept
    total: float  # second derivative in the intercept; 0 if there is none


class InteriorPoint:
    """A point on its way along the path.

    `may_step` holds for the problem of the objective, and its passes have `interior_costs`.
    """

    def __init__(self, objective: Objective, at: Iterate, gap: float) -> None:
        self._objective, self._operator, self._reg = objective, objective.operator, objective.reg
        self._passes = passes = objective.passes
        self._pieces = passes.pieces()
        self._idle = np.nonzero(self._pieces.weights <= 0.0)
        self.w, self.margins, self.intercept = passes.array(at.w), passes.rows_of(at.margins), at.intercept
        self._hessian = np.empty((len(self.w), len(self.w)))  # fresh pages take as long as a product
        self._short, self._left = 0, MAX_STEPS
        self._count = rows_of_all(passes, len(self.margins))
        (self._weight,) = self._sums(self._pieces.weights)
        size = abs(at.objective) or 1.0
        mu = math.sqrt(min(gap, size) * size) / self._weight
        if objective.profile:
            self.intercept = self._balanced(mu, self.intercept)
        self._rows = _central(self._distances(), mu)

    def _sums(self, *arrays: Vector) -> list[float]:
        """Return the sums of arrays over the rows of all processes."""
        found: list[float] = self._passes.total(np.array([array.sum() for array in arrays])).tolist()
        return found

    def _distances(self) -> Vector:
        """Return how far margins are above each kink, shape (kinks, m)."""
        return np.asarray(self.margins + self.intercept - self._pieces.places)

    def _balanced(self, mu: float, b: float) -> float:
        """Return the intercept at which the slopes on the path add up to 0."""
        low, high = -np.inf, np.inf
        for _ in range(MAX_INTERCEPT_STEPS):
            self.intercept = b
            rows = _central(self._distances(), mu)
            bends = self._pieces.weights / (1.0 / np.square(rows.sigma) + 1.0 / np.square(rows.rest))
            slope, bend = self._sums(self._slopes(rows.sigma, rows.rest), bends)
            low, high = (b, high) if slope < 0.0 else (low, b)
            if not bend > 0.0:  # mu is so small that its square underflows
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
        """Return what each kink takes of its jump; if it takes most of it, minus what it leaves.

        If lam is tiny, most kinks take or leave far less than the rounding of their jump.
        """
        return self._pieces.weights * np.where(sigma > 0.5, -rest, sigma)

    def _slopes(self, sigma: Vector, rest: Vector) -> Vector:
        """Return the derivative of each row's risk for these sigma and 1 - sigma."""
        pieces = self._pieces
        whole = pieces.slope + np.where(sigma > 0.5, pieces.weights, 0.0).sum(axis=0)
        return np.asarray(whole + self._taken(sigma, rest).sum(axis=0))

    def _values(self, sigma: Vector, rest: Vector) -> Vector:
        """Return the value at a margin of 0 of each row's line with these slopes."""
        pieces = self._pieces
        whole = np.where(sigma > 0.5, pieces.weights * pieces.places, 0.0).sum(axis=0)
        whole += pieces.slope * pieces.places[0]
        return np.asarray(-whole - (self._taken(sigma, rest) * pieces.places).sum(axis=0))

    def step(self) -> bool:
        """Take a step; return False if there is none, or the last ones were too short."""
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
        self._short = self._short + 1 if min(primal, dual) < SHORT_STEP else 0
        self._left -= 1
        return self._short < MAX_SHORT_STEPS and self._left > 0

    def _system(self) -> System | None:
        """Form and factor the Hessian; None if it is not positive definite, or memory for it runs out."""
        from scipy.linalg import lapack  # most solves do without, and it takes a while to load

        rows, weights, d = self._rows, self._pieces.weights, len(self.w)
        theta = 1.0 / (rows.excess / rows.rest + rows.slack / rows.sigma)
        bends = (weights * theta).sum(axis=0)
        most = -self._passes.least(-float(bends.max(initial=0.0)))
        bends[self._count * bends < MIN_CURVATURE_SHARE * most] = 0.0
        hessian = self._hessian
        try:
            self._operator.weighted_gram(bends, hessian)
        except DeviceMemoryError:  # cuts may have taken it
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
        self._operator.rmatvec_blocks(r, np.array([0, len(r)], np.int64), product)
        return np.asarray(product[0])

    def _move(self, system: System, excess_product: Vector | float, slack_product: Vector | float) -> Move:
        """Return the direction along which the products of each kink become these, to first order."""
        from scipy.linalg import lapack

        sigma, rest, excess, slack = self._rows
        unmet = self._distances() - excess_product / rest + slack_product / sigma
        change = system.theta * unmet
        r = self._slopes(sigma + change, rest - change)
        wanted = self._reg.smooth_gradient(self.w) + self._pulled(r)
        if system.total:
            (slope,) = self._sums(r)
            wanted -= system.mixed * (slope / system.total)
        dw, _ = lapack.dpotrs(system.factor, -wanted, lower=True)
        margins = np.empty(len(r))
        self._operator.matvec(dw, margins)
        intercept = 0.0
        if system.total:
            intercept = -(slope + float(system.mixed @ dw)) / system.total
        change = system.theta * (margins + intercept + unmet)
        excess = (excess_product - excess * rest + excess * change) / rest
        slack = (slack_product - slack * sigma - slack * change) / sigma
        for moved in (change, excess, slack):  # rows without weight must not shorten a step
            moved[self._idle] = 0.0
        return Move(dw, margins, intercept, change, excess, slack)

    def _longest(self, ahead: Move, wanted: Move) -> tuple[Move, float, float]:
        """Return the direction between these two along which the steps are longest, and the steps."""
        best, steps = wanted, self._lengths(wanted)
        for share in CORRECTION_SHARES:
            if min(steps) >= LONG_STEP:
                break
            move = ahead.towards(wanted, share)
            found = self._lengths(move)
            if min(found) > min(steps):
                best, steps = move, found
        return best, *steps

    def _lengths(self, move: Move) -> tuple[float, float]:
        """Return the longest steps of weights and of sigma that keep everything above 0."""
        rows = self._rows
        primal = min(self._length(rows.excess, move.excess), self._length(rows.slack, move.slack))
        return primal, min(self._length(rows.sigma, move.sigma), self._length(rows.rest, -move.sigma))

    def _length(self, values: Vector, change: Vector) -> float:
        ratios = np.divide(values, change, out=np.full_like(values, -np.inf), where=change < 0.0)
        return min(1.0, STEP_TO_BOUND * self._passes.least(-float(ratios.max(initial=-np.inf))))

    def _moved(self, move: Move, primal: float, dual: float) -> KinkState:
        rows = self._rows
        return KinkState(
            rows.sigma + dual * move.sigma,
            rows.rest - dual * move.sigma,
            rows.excess + primal * move.excess,
            rows.slack + primal * move.slack,
        )

    def _product(self, rows: KinkState) -> float:
        """Return the mean of the products of all kinks: mu on the path."""
        (total,) = self._sums(self._pieces.weights * (rows.excess * rows.rest + rows.slack * rows.sigma))
        return total / (2.0 * self._weight)

    def at(self, accuracy: float) -> Iterate:
        """Evaluate J at the point; see `Objective.evaluate_at`."""
        return self._objective.evaluate_at(*self._passes.placed(self.w, self.margins), accuracy)

    def cut(self) -> CutBatch | None:
        """Return the cutting planes that sigma makes; None if they bound the risk for one intercept only."""
        objective, pieces = self._objective, self._pieces
        sigma, rest = self._rows.sigma, self._rows.rest
        if objective.profile:
            free = sigma * rest
            slope, bend = self._sums(self._slopes(sigma, rest), pieces.weights * free)
            sigma, rest = sigma - free * (slope / bend), rest + free * (slope / bend)
        sigma, rest = np.clip(sigma, 0.0, 1.0), np.clip(rest, 0.0, 1.0)
        r = self._slopes(sigma, rest)
        if objective.profile and not abs(self._sums(r)[0]) <= LEVEL_SLOPE * objective.steepest(0.0):
            return None
        starts = objective.starts
        # The offset of a plane is its value at margins of 0.
        values = self._values(sigma, rest)
        blocks = list(pairwise(starts.tolist()))
        sums = np.array([[part[i:j].sum() for i, j in blocks] for part in (values, r)])
        offsets, slopes = self._passes.total(sums)
        planes = self._passes.planes_of(r, starts, self.w)
        return objective.cut_of_conjugates(planes._replace(slope=slopes), offsets)


def rows_of_all(passes: InteriorPasses, rows: int) -> int:
    """Return the number of rows of all processes."""
    return int(passes.total(np.array([rows], np.float64))[0])


def _central(x: Vector, mu: float) -> KinkState:
    """Return the rows at distances x from their kinks on the path: both products are mu."""
    far = x / mu
    root = np.hypot(2.0, far)
    # Written without the difference of root and |far|, which would cancel on one side.
    less, more = 2.0 + 4.0 / (root + np.abs(far)), 2.0 + root + np.abs(far)
    sigma, rest = (0.5 * np.where(s < 0.0, less, more) / (2.0 + root) for s in (far, -far))
    return KinkState(sigma, rest, mu / rest, mu / sigma)
