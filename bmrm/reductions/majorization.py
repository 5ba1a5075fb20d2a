"""Scaling by majorising a complicated function (SMACOF), accelerated, with a stress that never rises.

Let h be half the negative gradient of the stress sum w (delta - d)^2, and V the Laplacian of the weights. The
stress is at most a quadratic function with Hessian V that touches it at X, and has its minimum at the Guttman
transform G(X) = X + V^+ h. For equal weights V^+ h = h / n. Otherwise conjugate gradients start from the step
0 and lower that function in every step, so the stress falls even if they end early.

Acceleration takes the step of the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno, with V^+
as the first inverse, so that it starts from the Guttman transform. If the stress is larger there, the point
is dropped, G(X) is taken, and the method starts anew. So the stress falls in any case, at the cost of a pass.

J. de Leeuw, Applications of convex analysis to multidimensional scaling (1977). J. de Leeuw and P. Mair,
Multidimensional scaling using majorization: SMACOF in R, J. Stat. Software 31 (2009). D. Liu and
J. Nocedal, On the limited memory BFGS method for large scale optimization, Math. Programming 45 (1989).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.reductions.dissimilarities import Dissimilarities
from bmrm.reductions.limits import limit_reached
from bmrm.reductions.ordinal import Disparities

DEPTH = 10
"""Steps that acceleration remembers. 5 to 20 need about the same number of passes."""

MIN_CURVATURE = 1e-12
"""Cosine between a step and the change of the gradient above which the step is remembered."""

MAX_INNER_STEPS = 40
"""Maximum number of conjugate gradient steps of a weighted Guttman transform."""

INNER_TOL = 1e-6
"""Residual of a weighted Guttman transform, relative to the right-hand side."""

LOOSE_INNER_TOL = 1e-2
"""The same if steps are accelerated: the number of passes is that of 1e-6, at half the time."""


@dataclass(frozen=True)
class Evaluation:
    """A configuration and what a pass over the pairs found there.

    Attributes
    ----------
    X : ndarray, shape (n, p)
    direction : ndarray, shape (n, p)
        Half the negative gradient of the stress.
    stress, squares : float
        Sums of w (delta - d)^2 and of w d^2.
    together : int
        Pairs at one place although w delta > 0.
    """

    X: Vector
    direction: Vector
    stress: float
    squares: float
    together: int


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


class Stress:
    """The stress of configurations; for ordinal scaling with the best disparities of each."""

    def __init__(
        self, data: Dissimilarities, disparities: Disparities | None = None, inner_tol: float = INNER_TOL
    ) -> None:
        self.data = data
        self.disparities = disparities
        self.inner_tol = inner_tol
        self._pairs = data.pairs if disparities is None else disparities.pairs

    def evaluate(self, X: Vector, *, fit: bool = True) -> Evaluation:
        """Run a pass at X; ``fit`` means that disparities are fitted to its distances before."""
        if self.disparities is not None and fit:
            self.disparities.fit(X)
        direction, stress, squares, together = self._pairs.descent(X)
        return Evaluation(X, direction, stress, squares, together)

    def guttman_step(self, found: Evaluation) -> Vector:
        """Return the Guttman transform of a configuration less itself."""
        if not self.data.weighted:
            return found.direction / self.data.n
        return self._solve_laplacian(found.direction)

    def _solve_laplacian(self, right: Vector) -> Vector:
        """Solve V s = right by conjugate gradients, preconditioned by the diagonal of V."""
        scale = self.data.degrees[:, None]
        s = np.zeros_like(right)
        rest = right.copy()
        z = rest / scale
        q = z.copy()
        size = first = inner(rest, z)
        for _ in range(MAX_INNER_STEPS):
            if size <= self.inner_tol**2 * first:
                break
            Vq = self._pairs.laplacian(q)
            step = size / inner(q, Vq)
            s += step * q
            rest -= step * Vq
            z = rest / scale
            before, size = size, inner(rest, z)
            q = z + (size / before) * q
        return np.asarray(s - s.mean(axis=0))


def inner(a: Vector, b: Vector) -> float:
    """Return the sum of products, in an order that does not depend on the threads of a library."""
    return float(np.einsum("ik,ik->", a, b))


class _Acceleration:
    """The last steps s, the changes y of the gradient along them, and V^+ y."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._steps: list[tuple[Vector, Vector, Vector, float]] = []
        self._last: tuple[Evaluation, Vector] | None = None

    def propose(self, found: Evaluation, step: Vector) -> Vector | None:
        """Return the next point, ``step`` being the Guttman step; None if there are no former steps."""
        if self._last is not None:
            before, step_before = self._last
            s, y, z = found.X - before.X, before.direction - found.direction, step_before - step
            product = inner(s, y)
            if product > MIN_CURVATURE * float(np.sqrt(inner(s, s) * inner(y, y))):
                self._steps = [*self._steps, (s, y, z, product)][-DEPTH:]
        self._last = found, step
        if not self._steps:
            return None
        rest, move = found.direction, step
        shares = []
        for s, y, z, product in reversed(self._steps):
            shares.append(inner(s, rest) / product)
            rest, move = rest - shares[-1] * y, move - shares[-1] * z
        _, y, z, product = self._steps[-1]
        move = move * (product / inner(y, z))
        for s, y, _, product in self._steps:
            move = move + (shares.pop() - inner(y, move) / product) * s
        return found.X + move


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
    found = stress.evaluate(start, fit=False)
    history, n_iter = [found.stress], 0
    past = _Acceleration()
    small = 0  # steps in a row that lowered the stress by less than asked for
    while True:
        status = limit_reached(n_iter, max_iter, deadline)
        if not status and found.stress == 0.0:
            status = "converged"
        if status:
            return ScalingRun(found, history, status, n_iter)
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
            after = stress.evaluate(found.X + step)
        fall = found.stress - after.stress
        if not fall > 0.0:
            status = "converged" if -fall < eps * found.squares else "precision"
            return ScalingRun(found, history, status, n_iter)
        found = after
        history.append(found.stress)
        small = small + 1 if fall < eps * found.squares else 0
        run = ScalingRun(found, history, "converged", n_iter)
        if small > relax:  # one small fall may be chance if steps are accelerated
            return run
        report(run)
