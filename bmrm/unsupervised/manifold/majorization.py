"""Scaling by majorising a complicated function (SMACOF), accelerated, with a stress that never rises.

Let h be half the negative gradient of the stress sum w (delta - d)^2, and V the Laplacian of the weights. The
stress is at most a quadratic function with Hessian V that touches it at X, and has its minimum at the Guttman
transform G(X) = X + V^+ h. For equal weights V^+ h = h / n. Otherwise conjugate gradients start from the step
0 and lower that function in every step, so the stress falls even if they end early.

Acceleration takes the step of the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno, with V^+
as the first inverse, so that it starts from the Guttman transform. If the stress is larger there, the point
is dropped, G(X) is taken, and the method starts again. So the stress falls in any case, at the cost of a
pass. The step is a combination of earlier vectors, whose factors follow from their inner products (W. Chen,
Z. Wang and J. Zhou, Large-scale L-BFGS using MapReduce, NIPS 2014). All of these are asked for at once, and
the vectors stay where the passes have them.

J. de Leeuw, Applications of convex analysis to multidimensional scaling (1977). J. de Leeuw and P. Mair,
Multidimensional scaling using majorization: SMACOF in R, J. Stat. Software 31 (2009). D. Liu and
J. Nocedal, On the limited memory BFGS method for large scale optimization, Math. Programming 45 (1989).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bmrm.base.limits import limit_reached
from bmrm.base.progress import ProgressStep, logarithmic_share
from bmrm.base.vectors import Vector
from bmrm.errors import DataError
from bmrm.unsupervised.manifold._manifold import Pairs
from bmrm.unsupervised.manifold.dissimilarities import Dissimilarities
from bmrm.unsupervised.manifold.ordinal import Disparities
from bmrm.unsupervised.manifold.passes import PointVector, ScalingPasses
from bmrm.unsupervised.manifold.work import DEPTH
from bmrm.unsupervised.scales import ORDINARY_EXPONENT, exponent_to_one

MIN_CURVATURE = 1e-12
"""Cosine between a step and the change of the gradient above which the step is remembered."""

MAX_INNER_STEPS = 40
"""Maximum number of conjugate gradient steps of a weighted Guttman transform."""

INNER_TOL = 1e-6
"""Residual of a weighted Guttman transform, relative to the right-hand side."""

LOOSE_INNER_TOL = 1e-2
"""The same if steps are accelerated: the number of passes is that of 1e-6, at half the time."""

MAX_REACH = 1e10
"""Largest coordinate of Gower's point, relative to the largest number of all, where a new point may begin."""

PLACE_ITERATIONS = 1000
"""Maximum number of steps of a new point."""


@dataclass(frozen=True)
class Evaluation:
    """A configuration and what a pass over the pairs found there.

    Attributes
    ----------
    X, direction : PointVector
        The direction is half the negative gradient of the stress. Ndarrays in the result of a run.
    stress, squares : float
        Sums of w (delta - d)^2 and of w d^2.
    together : int
        Pairs at one place although w delta > 0.
    """

    X: PointVector
    direction: PointVector
    stress: float
    squares: float
    together: int

    @property
    def normalized(self) -> float:
        """The normalised stress: infinite if all points are at one place, unless that is right."""
        if self.squares > 0.0:
            return float(np.sqrt(self.stress / self.squares))
        return np.inf if self.stress > 0.0 else 0.0


@dataclass(frozen=True)
class ScalingRun:
    """The best configuration, and how the method came there.

    Attributes
    ----------
    found : Evaluation
    history : list of float
        Stress of each configuration that was accepted.
    status : str
    n_iter : int
        Number of passes over the pairs after the first.
    """

    found: Evaluation
    history: list[float]
    status: str
    n_iter: int

    def progress(self, start: tuple[str, ...], max_iter: int, eps: float) -> ProgressStep:
        """Return a line of progress, with words about the start."""
        found, history = self.found, self.history
        share = self.n_iter / max_iter
        if len(history) > 1 and found.squares > 0.0:
            fall = (history[-2] - history[-1]) / found.squares
            first = (history[0] - history[1]) / found.squares
            share = max(share, logarithmic_share(first, fall, eps) or 0.0)
        return ProgressStep((f"stress {found.normalized:.6f}", *start, f"pass {self.n_iter}"), share)


class Stress:
    """The stress of configurations, for ordinal scaling with the best disparities of each.

    - ``relax``: steps will be accelerated
    """

    def __init__(
        self, data: Dissimilarities, disparities: Disparities | None = None, *, relax: bool = False
    ) -> None:
        self.data = data
        self.disparities = disparities
        self._resize = relax
        self._inner_tol = LOOSE_INNER_TOL if relax else INNER_TOL
        self.passes: ScalingPasses = data.passes if disparities is None else disparities.passes

    @property
    def total(self) -> float:
        """The sum of w delta^2, or of w dhat^2."""
        return self.data.weighted_squares if self.disparities is None else self.disparities.total

    def at(self, X: PointVector, *, fit: bool = True) -> Evaluation:
        """Run a pass at X; ``fit`` means that disparities are fitted to its distances before."""
        if self.disparities is not None and fit:
            self.disparities.fit(self.passes.get(X))
        return Evaluation(X, *self.passes.descent(X))

    def evaluate(self, X: PointVector, *, fit: bool = True) -> Evaluation:
        """Run a pass at X, or at the multiple of X with the least stress.

        For ordinal scaling what is reported is the stress relative to the sum of w d^2. It falls too if the
        sizes of configurations are the best ones, and with Guttman transforms after the first; accelerated
        steps and starts have any size.
        """
        found = self.at(X, fit=fit)
        if self.disparities is None or not found.squares > 0.0 or (fit and not self._resize):
            return found
        product = (self.total + found.squares - found.stress) / 2.0  # sum of w dhat d
        factor = product / found.squares if product > 0.0 else 1.0
        return self.at(self.passes.combine([X], [factor]), fit=False)

    def fetch(self, found: Evaluation) -> Evaluation:
        """Return an evaluation with arrays; places are those that the pass has rounded."""
        X = self.passes.get(found.X)
        if self.data.single:
            X = X.astype(np.float32).astype(np.float64)
        return replace(found, X=X, direction=self.passes.get(found.direction))

    def guttman_step(self, found: Evaluation) -> PointVector:
        """Return the Guttman transform of a configuration less itself."""
        if not self.data.weighted:
            return self.passes.combine([found.direction], [1.0 / self.data.n])
        return self._solve_laplacian(found.direction)

    def _solve_laplacian(self, right: PointVector) -> PointVector:
        """Solve V s = right by conjugate gradients, preconditioned by the diagonal of V.

        The sum of ``right`` is 0 up to rounding, which would be a large part near the end, and V has no
        solution for.
        """
        passes = self.passes
        rest = passes.centre(passes.combine([right], [1.0]))
        q = z = passes.over_degrees(rest)
        s = passes.combine([q], [0.0])
        size = first = passes.inner([(rest, z)])[0]
        for _ in range(MAX_INNER_STEPS):
            if size <= self._inner_tol**2 * first:
                break
            Vq = passes.laplacian(q)
            curvature = passes.inner([(q, Vq)])[0]
            if not curvature > 0.0:  # what is left is rounding
                break
            step = size / curvature
            s = passes.combine([s, q], [1.0, step])
            rest = passes.combine([rest, Vq], [1.0, -step])
            z = passes.over_degrees(rest)
            before, size = size, passes.inner([(rest, z)])[0]
            q = passes.combine([z, q], [1.0, size / before])
        return passes.centre(s)


class _Acceleration:
    """The last steps s, the changes y of the gradient along them, and z = V^+ y, with inner products."""

    def __init__(self, passes: ScalingPasses) -> None:
        self._passes = passes
        self.forget()

    def forget(self) -> None:
        self._steps: list[tuple[PointVector, PointVector, PointVector]] = []
        self._sy = np.zeros((0, 0))  # s_i'y_j for i <= j
        self._yz = np.zeros((0, 0))  # y_i'z_j
        self._last: tuple[Evaluation, PointVector] | None = None

    def propose(self, found: Evaluation, step: PointVector) -> PointVector | None:
        """Return the next point, ``step`` being the Guttman step; None if there are no former steps."""
        past, fresh = self._steps, self._change(found, step)
        self._last = found, step
        asked = [(s, found.direction) for s, _, _ in past] + [(y, step) for _, y, _ in past]
        if fresh is not None:
            s, y, z = fresh
            asked += [(old, y) for old, _, _ in past] + [(old, z) for _, old, _ in past]
            asked += [(y, old) for _, _, old in past]
            asked += [(s, y), (y, z), (s, found.direction), (y, step), (s, s), (y, y)]
        if not asked:
            return None
        numbers, k = self._passes.inner(asked), len(past)
        descents, slopes = numbers[:k], numbers[k : 2 * k]
        if fresh is not None:
            sy, yz, descent, slope, ss, yy = numbers[5 * k :]
            if sy > MIN_CURVATURE * float(np.sqrt(ss * yy)) and yz > 0.0:
                self._remember(fresh, sy, yz, *(numbers[j * k : (j + 1) * k] for j in (2, 3, 4)))
                count = len(self._steps)
                descents, slopes = [*descents, descent][-count:], [*slopes, slope][-count:]
        if not self._steps:
            return None
        return self._combine(found, step, descents, slopes)

    def _change(
        self, found: Evaluation, step: PointVector
    ) -> tuple[PointVector, PointVector, PointVector] | None:
        """Return s, y and z from the last point to this one; None if there is none."""
        if self._last is None:
            return None
        before, step_before = self._last
        less = self._passes.combine
        return (
            less([found.X, before.X], [1.0, -1.0]),
            less([before.direction, found.direction], [1.0, -1.0]),
            less([step_before, step], [1.0, -1.0]),
        )

    def _remember(
        self,
        fresh: tuple[PointVector, PointVector, PointVector],
        sy: float,
        yz: float,
        past_s: list[float],
        past_y: list[float],
        past_z: list[float],
    ) -> None:
        """Add a step, with products of former s and its y, of former y and its z, of former z and its y."""
        k = len(self._steps)
        for name, column, row, corner in (("_sy", past_s, np.zeros(k), sy), ("_yz", past_y, past_z, yz)):
            grown = np.empty((k + 1, k + 1))
            grown[:k, :k], grown[:k, k], grown[k, :k], grown[k, k] = getattr(self, name), column, row, corner
            setattr(self, name, grown[-DEPTH:, -DEPTH:])
        self._steps = [*self._steps, fresh][-DEPTH:]

    def _combine(
        self, found: Evaluation, step: PointVector, descents: list[float], slopes: list[float]
    ) -> PointVector:
        """Return X + the step of the method, from s_i'h and y_i'V^+ h."""
        k, products = len(self._steps), self._sy.diagonal()
        shares, added = np.zeros(k), np.zeros(k)
        for i in reversed(range(k)):  # h less the sum of share_j y_j for later j
            shares[i] = (descents[i] - self._sy[i] @ shares) / products[i]
        size = products[-1] / self._yz[-1, -1]
        for i in range(k):  # size times V^+ of what is left, plus the sum of added_j s_j for earlier j
            slope = size * (slopes[i] - self._yz[i] @ shares) + added @ self._sy[:, i]
            added[i] = shares[i] - slope / products[i]
        vectors, factors = [found.X, step], [1.0, float(size)]
        for (s, _, z), share, more in zip(self._steps, shares, added, strict=True):
            vectors += [z, s]
            factors += [float(-size * share), float(more)]
        return self._passes.combine(vectors, factors)


def run_smacof(
    stress: Stress,
    start: Vector,
    *,
    max_iter: int,
    eps: float,
    deadline: float,
    relax: bool,
    report: Callable[[ScalingRun], None],
) -> ScalingRun:
    """Run from a configuration until the stress falls by less than ``eps`` times the sum of w d^2.

    - ``report``: called after each step with the run so far
    """
    passes = stress.passes
    found = stress.evaluate(passes.put(start), fit=False)
    history, n_iter = [found.stress], 0
    past = _Acceleration(passes)
    small = 0  # steps in a row that lowered the stress by less than asked for
    while True:
        status = stress.data.ranks.agree(limit_reached(n_iter, max_iter, deadline))
        if not status and found.stress == 0.0:
            status = "converged"
        if status:
            return ScalingRun(stress.fetch(found), history, status, n_iter)
        step = stress.guttman_step(found)
        point = past.propose(found, step) if relax else None
        after = None
        if point is not None:
            n_iter += 1
            after = stress.evaluate(point)
            if not after.stress < found.stress:
                after = None
                past.forget()
                if n_iter == max_iter:
                    continue
        if after is None:
            n_iter += 1
            after = stress.evaluate(passes.combine([found.X, step], [1.0, 1.0]))
        fall = found.stress - after.stress
        if not fall > 0.0:
            status = "converged" if -fall < eps * found.squares else "precision"
            return ScalingRun(stress.fetch(found), history, status, n_iter)
        found = after
        history.append(found.stress)
        small = small + 1 if fall < eps * found.squares else 0
        run = ScalingRun(found, history, "converged", n_iter)
        if small > relax:  # one small fall may be chance if steps are accelerated
            return replace(run, found=stress.fetch(found))
        report(run)


def run_starts(
    stress: Stress,
    starts: Iterable[Vector],
    *,
    report: Callable[[int, ScalingRun], None],
    **options: Any,
) -> ScalingRun:
    """Run from each configuration and return the run with the least stress.

    - ``report``: gets the number of the start too; ``options``: those of `run_smacof`
    """
    best: ScalingRun | None = None
    for number, start in enumerate(starts):
        if stress.disparities is not None:
            stress.disparities.forget()
        run = run_smacof(stress, start, report=partial(report, number), **options)
        if best is None or run.found.stress < best.found.stress:
            best = run
        if run.status in ("max_time", "interrupted"):
            break
    assert best is not None
    return best


def place_new(
    delta: Vector, points: Vector, threads: int | None, knots: tuple[Vector, Vector] | None
) -> Vector:
    """Place new points among points that stay where they are; see `MDS.transform`.

    - ``delta``: dissimilarities of each new point to the others, NaN for unknown ones
    - ``knots``: for ordinal scaling dissimilarities and their disparities
    """
    equal = delta == 0.0
    if knots is not None:
        delta = np.where(np.isnan(delta), np.nan, np.interp(delta, *knots))
    known = ~np.isnan(delta)
    largest = max(float(np.abs(points).max()), float(delta[known].max(initial=0.0)))
    exponent = exponent_to_one(largest, ORDINARY_EXPONENT)
    delta, X = np.ldexp(delta, exponent), np.ldexp(points, exponent)
    mean = X.mean(axis=0)
    X = X - mean
    if not known.any(axis=1).all():
        raise DataError("X: found a row without any known dissimilarity, expected at least one")
    squares = np.einsum("ik,ik->i", X, X)
    gaps = np.where(known, squares - np.where(known, delta, 0.0) ** 2, 0.0)
    nearest = X[np.argmin(np.where(known, delta, np.inf), axis=1)]
    with np.errstate(over="ignore", invalid="ignore"):
        gower = 0.5 * gaps @ np.linalg.pinv(X).T
        near = np.abs(gower).max(axis=1) <= MAX_REACH * np.ldexp(largest, exponent)
    gower = np.where(near[:, None], gower, nearest)
    pairs = Pairs.of_features(X, threads=threads)
    places, stress = pairs.place(X, delta, gower, PLACE_ITERATIONS)
    others, other_stress = pairs.place(X, delta, nearest, PLACE_ITERATIONS)
    places = np.where((other_stress < stress)[:, None], others, places)
    places = np.asarray(np.ldexp(places + mean, -exponent))
    same = equal.any(axis=1)
    places[same] = points[equal[same].argmax(axis=1)]
    return places
