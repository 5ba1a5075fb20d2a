"""Whether a configuration is a minimum of the stress: its gradient, and the least eigenvalue of the Hessian.

Moving or turning the whole configuration changes nothing, so the Hessian H is restricted to the space that
is orthogonal to these directions. H is at most twice the Laplacian V of the weights, whose eigenvalues are
at most n if all weights are 1 and twice the largest degree otherwise. With c as such a bound, the least
eigenvalue of H / 2 is c less the largest of c - P (H / 2) P, P being the projection. All of them are computed
if there are few; otherwise block Lanczos finds the largest. Its Ritz value is attained by a direction, so a
negative one proves that the stress falls along it. A positive one says that no such direction was found from
a random start, which is likely, not certain.

Rounding. A term of half the gradient has a norm of at most w (d + delta) and is wrong by some units in the
last place of that (of float32, if terms are; see `rounding`), and a sum of n of them by n more. By the
inequality of Cauchy and Schwarz the error of the gradient has a norm of at most 4 g sqrt(D S), D being the
largest degree, S the sum of w (d^2 + delta^2) over the pairs, and g = N u / (1 - N u), N = n + p + 20. A term
of H y / 2 has a norm of at most w (1 + 2 delta / d) |y_i - y_j|. Underflow adds what
`bmrm.unsupervised.scales.vanished` says.
Where points with a positive dissimilarity are together, the stress has no gradient; any two of what may stand
for it differ by at most 4 w delta in each of the two points, which counts as an error too.

J. de Leeuw, Differentiability of Kruskal's stress at a local minimum, Psychometrika 49 (1984). B. N. Parlett,
The Symmetric Eigenvalue Problem, chapters 10 and 13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.errors import DataError
from bmrm.unsupervised.decomposition.scatter import Scatter, rounding_bound
from bmrm.unsupervised.decomposition.spectrum import Spectrum, all_eigenvalues, some_eigenvalues
from bmrm.unsupervised.manifold.majorization import Evaluation, Stress
from bmrm.unsupervised.manifold.passes import ScalingPasses, inner
from bmrm.unsupervised.manifold.rounding import gradient_rounding, stress_error
from bmrm.unsupervised.scales import EXACT, LEAST, divided, vanished

MAX_DENSE_UNKNOWNS = 400
"""Coordinates up to which all eigenvalues of the Hessian are computed: less than a second."""

EXTRA_TERMS = 20
"""Roundings of one term of a sum over pairs, besides those of its p squares."""

SAFE_SQUARE = 1e-200
"""Sum of squares from which on what underflow has taken from it is below its rounding."""


@dataclass(frozen=True)
class MinimumTest:
    """What the second derivatives say of a configuration.

    Attributes
    ----------
    verdict : {"minimum", "saddle", "flat", "not stationary", "together"}
        "saddle": the stress falls along a direction, which is proven. "minimum": it rises along all, except
        that the whole may be moved and rotated; certain only if ``proven``. "flat": the bounds contain 0.
        "not stationary": the gradient is too large for a verdict. "together": two points with a positive
        dissimilarity are at one place, which cannot be a minimum.
    least_eigenvalue : float
        Of the Hessian of the stress.
    bounds : tuple of float
        Contain the least eigenvalue. The upper one is proven.
    proven : bool
        Whether the lower bound is proven too. False: it holds for the eigenvalue that a random start has
        found.
    gradient_norm, gradient_error : float
        Norm of the gradient, and a proven bound on its rounding error.
    stationarity : float
        Norm of the gradient over that of the configuration and of the largest curvature; no unit.
    status : str
        Of the eigenvalue iteration.
    """

    verdict: str
    least_eigenvalue: float
    bounds: tuple[float, float]
    proven: bool
    gradient_norm: float
    gradient_error: float
    stationarity: float
    status: str

    def in_units(self, scale: float, weight_scale: float) -> MinimumTest:
        """Return the test of dissimilarities and weights that were multiplied by powers of two."""
        gradient = GradientNorm(self.gradient_norm, self.gradient_error, self.stationarity)
        norm, error = gradient.in_units(scale, weight_scale)
        eigenvalues = np.array([self.least_eigenvalue, *self.bounds])
        least, low, high = divided(eigenvalues, weight_scale).tolist()
        return replace(
            self, least_eigenvalue=least, bounds=(low, high), gradient_norm=norm, gradient_error=error
        )


@dataclass(frozen=True)
class GradientNorm:
    """The norm of the gradient of the stress.

    Attributes
    ----------
    norm, error : float
        The norm, and a bound on its rounding error.
    stationarity : float
        ``norm`` over 2 D |X|, D being the largest degree and X centred.
    """

    norm: float
    error: float
    stationarity: float

    def in_units(self, scale: float, weight_scale: float) -> tuple[float, float]:
        """Return norm and bound for dissimilarities and weights that were multiplied by powers of two."""
        norm, error = divided(np.array([self.norm, self.error]), weight_scale, scale).tolist()
        return norm, error if norm > EXACT else error + 2.0 * LEAST


def gradient_norm(stress: Stress, found: Evaluation) -> GradientNorm:
    """Return the norm of the gradient at a configuration, an evaluation with arrays."""
    data, delta_squares, (n, p) = stress.data, stress.total, found.X.shape
    norm = 2.0 * _norm(found.direction)
    degree, total = float(data.degrees.max()), float(data.degrees.sum())
    g = gradient_rounding(n, p, EXTRA_TERMS, single=data.single)
    X = found.X - found.X.mean(axis=0)
    lost = vanished(n * n * p, total, float(np.abs(X).max()))
    # the sums themselves are rounded by less than their double
    error = 8.0 * g * float(np.sqrt(degree * (found.squares + delta_squares + lost))) + lost
    if found.together:  # the sum of w delta over some pairs is at most this root
        error += 8.0 * float(np.sqrt(total * delta_squares))
    scale = 2.0 * degree * _norm(X)
    return GradientNorm(norm, error, norm / scale if scale > 0.0 else 0.0)


def bound_stress_error(stress: Stress, found: Evaluation) -> float:
    """Return a bound on the rounding error of a stress, of an evaluation with arrays."""
    data = stress.data
    return stress_error(
        found.stress,
        found.squares,
        stress.total,
        float(data.degrees.sum()) / 2.0,
        shape=found.X.shape,
        features=0 if data.features is None else data.features.shape[1],
        reach=float(np.abs(found.X - found.X.mean(axis=0)).max()),
        single=data.single,
    )


def _norm(X: Vector) -> float:
    """Return the root of the sum of squares, also of numbers whose squares vanish."""
    square = inner(X, X)
    if square > SAFE_SQUARE:
        return float(np.sqrt(square))
    exponent = int(np.frexp(float(np.abs(X).max()))[1])
    X = np.ldexp(X, -exponent)
    return float(np.ldexp(np.sqrt(inner(X, X)), exponent))


def check_minimum(
    stress: Stress,
    X: Vector,
    *,
    stationarity: float,
    tol: float,
    max_iter: int,
    deadline: float,
    rng: np.random.Generator,
) -> MinimumTest:
    """Bound the least eigenvalue of the Hessian at a configuration; see `MinimumTest`."""
    data, passes = stress.data, stress.passes
    found = stress.fetch(stress.at(passes.put(X)))
    gradient = gradient_norm(stress, found)
    n, p = found.X.shape
    fixed = _rigid_directions(found.X)
    unknowns = n * p
    if fixed.shape[1] >= unknowns:
        return _verdict(found, gradient, stationarity, np.inf, (np.inf, np.inf), True, "converged")
    largest = 2.0 * float(data.degrees.max()) if data.weighted else float(n)
    pulls = passes.pulls(found.X)
    size = 2.0 * float((data.degrees + 2.0 * pulls).max())
    rounding = (
        rounding_bound(n + 3 * p + EXTRA_TERMS) * (size + largest) + 8.0 * rounding_bound(unknowns) * largest
    )
    multiply = _shifted_hessian(passes, found.X, fixed, largest)
    spectrum = _largest(multiply, unknowns, rounding, tol * largest, max_iter, deadline, rng)
    low, high = spectrum.bounds[0]
    slack = 4.0 * rounding + 2e-16 * largest
    bounds = 2.0 * (largest - float(high) - slack), 2.0 * (largest - float(low) + slack)
    least = 2.0 * (largest - float(spectrum.values[0]))
    return _verdict(found, gradient, stationarity, least, bounds, bool(spectrum.proven), spectrum.status)


def _verdict(
    found: Evaluation,
    gradient: GradientNorm,
    limit: float,
    least: float,
    bounds: tuple[float, float],
    proven: bool,
    status: str,
) -> MinimumTest:
    if found.together:
        verdict = "together"
    elif gradient.stationarity > limit:
        verdict = "not stationary"
    elif bounds[1] < 0.0:
        verdict = "saddle"
    else:
        verdict = "minimum" if bounds[0] > 0.0 else "flat"
    return MinimumTest(
        verdict, least, bounds, proven, gradient.norm, gradient.error, gradient.stationarity, status
    )


def _rigid_directions(X: Vector) -> Vector:
    """Return an orthonormal basis of the directions that move and rotate a configuration, in columns."""
    n, p = X.shape
    X = X - X.mean(axis=0)
    directions = []
    for k in range(p):
        moved = np.zeros((n, p))
        moved[:, k] = 1.0 / np.sqrt(n)
        directions.append(moved.ravel())
    size = float(np.sqrt(inner(X, X)))
    for k in range(p):
        for other in range(k):
            rotated = np.zeros((n, p))
            rotated[:, k], rotated[:, other] = X[:, other], -X[:, k]
            if size > 0.0:
                directions.append(rotated.ravel() / size)
    U, sizes, _ = np.linalg.svd(np.array(directions).T, full_matrices=False)
    return np.asarray(U[:, sizes > 1e-10])


def _shifted_hessian(
    passes: ScalingPasses, X: Vector, fixed: Vector, shift: float
) -> Callable[[Vector], Vector]:
    """Return the product with shift - P (H / 2) P, of columns of coordinates."""

    def project(Y: Vector) -> Vector:
        return np.asarray(Y - fixed @ (fixed.T @ Y))

    def multiply(Y: Vector) -> Vector:
        Y = project(Y)
        given = np.ascontiguousarray(Y.T).reshape(-1, *X.shape)
        found = passes.curvature(X, given).reshape(len(given), -1).T
        if not np.isfinite(found).all():
            raise DataError("X: found points so near to each other that float64 does not hold the curvature")
        return shift * Y - project(found)

    return multiply


def _largest(
    multiply: Callable[[Vector], Vector],
    unknowns: int,
    rounding: float,
    tol: float,
    max_iter: int,
    deadline: float,
    rng: np.random.Generator,
) -> Spectrum:
    if unknowns <= MAX_DENSE_UNKNOWNS:
        matrix = multiply(np.eye(unknowns))
        error = rounding * float(np.sqrt(unknowns))
        return all_eigenvalues(Scatter((matrix + matrix.T) / 2.0, np.zeros(unknowns), 1.0, error))
    return some_eigenvalues(
        multiply,
        unknowns,
        1,
        trace=np.inf,
        rounding=rounding,
        tol=tol,
        max_iter=max_iter,
        deadline=deadline,
        rng=rng,
    )
