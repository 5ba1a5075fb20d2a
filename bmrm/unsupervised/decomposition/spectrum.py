"""The largest eigenvalues of A'A with bounds, A being the rows after centring and weighting.

All of them are computed from the matrix A'A, or some by block Lanczos or by a randomised method from
products with A.

All eigenvalues. Let S be the computed A'A with an error of norm at most s, V and t the computed eigenvectors
and values, R = S V - V T, and e = |V'V - I|. With the orthonormal polar factor Q of V,

    |S - Q T Q'| <= (|R| + 2 e max|t|) / (1 - e),

so by Weyl's theorem each eigenvalue differs from t_i, with the same i, by at most that plus s. Norms are
those of Frobenius, and the rounding of R is added to |R|.

The largest of them, if they are few of many columns. V has p columns, and L is a bound on the largest
eigenvalue of S - V T V', proven by a Cholesky factorisation: if the computed one of B ends, no eigenvalue of
B is below -g(d + 1) trace(B) (Higham, theorem 10.5; S. Rump, Verification of positive definiteness, BIT 46,
2006). S is within sqrt(2) |S Q - Q T| of a matrix whose eigenvalues are T and others that are at most L, so
the i-th largest eigenvalue is at most max(t_i, L) plus that, and by interlacing at least t_i - |S Q - Q T|.

Some eigenvalues, from products. By Cauchy's interlacing theorem the i-th largest eigenvalue is at least t_i,
less (|V'R| + 2 e max t) / (1 - e) and rounding. By Kahan's theorem p eigenvalues can be paired with t_1 ...
t_p so that none differs by more than (|R| + 2 e max t) / (1 - e) and rounding. They are the p largest for
sure if what V leaves of the trace, tau = trace(A'A) - sum t, is below t_p: the rest of A'A has no eigenvalue
above tau. For data with a long tail this is not so, and then the upper ends hold for those eigenvalues that
the random start has found, as it does with probability 1 in exact arithmetic.

Vectors. If t_i is at least g away from all other eigenvalues, the sine of the angle between v_i and the
eigenvector is at most (|r_i| + s) / g (Davis and Kahan).

With fewer rows than columns the matrix, or the products, are those of AA', which has the same eigenvalues
besides zeros. From an eigenvector u, v = A'u / s; the v are made orthonormal, and residuals and angles are
those of a fresh product with A'A.

A'A is multiplied by a power of two first, so that its trace is near 1: squares of its entries might overflow
or vanish, and with them the norms of residuals.

References: B. N. Parlett, The Symmetric Eigenvalue Problem, chapters 10, 11 and 13. K. Wu and H. Simon,
Thick-restart Lanczos, SIAM J. Matrix Anal. Appl. 22 (2000). N. Halko, P.-G. Martinsson and J. Tropp, Finding
structure with randomness, SIAM Review 53 (2011), algorithm 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bmrm.base.blas import small_matrices
from bmrm.base.limits import limit_reached
from bmrm.base.vectors import Vector
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads
from bmrm.unsupervised.decomposition.scatter import Scatter, rounding_bound

BLOCK = 8
"""Vectors that are multiplied at once: dense rows or pairs are read from memory once for all of them. Fewer
would find eigenvalues that are equal one after the other; more cost more than they save in products."""

SPARSE_BLOCK = 4
"""The same for sparse rows: at 50000 x 10000 with 20 components, 34 products with 4 vectors take 60 ms, 27
with 8 take 84, 51 with 2 take 75."""

MIN_GROWTH = 40
"""Minimum number of vectors that the basis grows by before it is restarted from its best ones; from 40 to 300
made less than a tenth of the products unnecessary."""

MAX_UNIT_EXPONENT = 1000
"""Maximum exponent of a unit; that of a subnormal number would overflow."""

FEW_OF_COLUMNS = 4
"""Columns per eigenvalue from which a few are computed alone: 2000 columns take 0.45 s instead of 1.3."""

MIN_COLUMNS_FOR_FEW = 128
"""Columns from which this is so; below, all of them take a millisecond."""

LAST_DIGIT = 2.0**-52
"""Residuals relative to the largest eigenvalue that float64 does not reach below."""

PATIENCE = 10
"""Products after which residuals that rounding may explain, and that have not become half as large, are not
expected to fall any more."""

NULL_SHARE = 2.0**-48
"""Eigenvalues of AA' relative to the largest, per row, from which on their vectors say nothing about A'A."""

MAX_CHOLESKY_RATIO = 1e10
"""Ratio of the eigenvalues of W'W up to which they give a basis of W that is orthonormal to 1e-6, which a
second step makes exact (CholeskyQR2)."""

SMALL_REST = 1e-4
"""Size of what orthogonalisation leaves of a product, relative to the eigenvalues, below which it is
orthogonalised again."""


@dataclass(frozen=True)
class Spectrum:
    """The p largest eigenvalues of A'A, in descending order.

    Attributes
    ----------
    values : ndarray, shape (p,)
    vectors : ndarray, shape (d, p)
    bounds : ndarray, shape (p, 2)
        An interval for each eigenvalue.
    residuals : ndarray, shape (p,)
        Norms of A'A v - t v, and bounds on their rounding.
    angles : ndarray, shape (p,)
        Bounds on the sine of the angle between a vector and the eigenvector, 1 at most.
    proven : bool
        Whether the intervals hold for the p largest, in this order, without chance.
    status : str
    n_iter : int
        Number of products with A'A; 1 if all eigenvalues were computed, from that with the identity.
    """

    values: Vector
    vectors: Vector
    bounds: Vector
    residuals: Vector
    angles: Vector
    proven: bool
    status: str
    n_iter: int

    def first(self, p: int) -> Spectrum:
        """Return the p largest, fewer if there are."""
        return replace(
            self,
            values=self.values[:p],
            vectors=self.vectors[:, :p],
            bounds=self.bounds[:p],
            residuals=self.residuals[:p],
            angles=self.angles[:p],
        )

    def in_unit(self, unit: float) -> Spectrum:
        """Return the spectrum of A'A / unit from that of A'A, for a power of two."""
        exponent = 1 - math.frexp(unit)[1]
        low, high = self.bounds.T
        return replace(
            self,
            values=np.ldexp(self.values, exponent),
            bounds=np.stack([scale_down(low, exponent), scale_up(high, exponent)], axis=1),
            residuals=scale_up(self.residuals, exponent),
        )


def scale_up(bounds: Vector, exponent: int) -> Vector:
    """Return nonnegative upper bounds times a power of two, rounded up if float64 cannot hold them."""
    with np.errstate(over="ignore"):
        found = np.ldexp(bounds, exponent)
    return np.where(np.ldexp(found, -exponent) < bounds, np.nextafter(found, np.inf), found)


def scale_down(bounds: Vector, exponent: int) -> Vector:
    """Return nonnegative lower bounds times a power of two, rounded down if float64 cannot hold them."""
    with np.errstate(over="ignore"):
        found = np.ldexp(bounds, exponent)
    return np.where(np.ldexp(found, -exponent) > bounds, np.nextafter(found, 0.0), found)


class Lift(Protocol):
    """The way from vectors of AA' to those of A'A."""

    def lift(self, U: Vector) -> Vector:
        """Return A'U, without columns of A that are 0 if there are many."""

    def multiply_long(self, V: Vector) -> Vector:
        """Return A'A V, both without those columns."""

    def expand(self, V: Vector) -> Vector:
        """Return V with a number for each column of A."""


def all_eigenvalues(scatter: Scatter) -> Spectrum:
    """Compute all eigenvalues of a scatter matrix."""
    return largest_eigenvalues(scatter, len(scatter.matrix))


def largest_eigenvalues(scatter: Scatter, p: int) -> Spectrum:
    """Compute at least the p largest eigenvalues of a scatter matrix: all, unless p is small."""
    unit = unit_of(abs(float(np.trace(scatter.matrix))) + scatter.error)  # a trace may have cancelled
    matrix, error, d = scatter.matrix * unit, scatter.error * unit, len(scatter.matrix)
    found = None
    if d >= max(MIN_COLUMNS_FOR_FEW, FEW_OF_COLUMNS * (p + 1)):
        found = _few_eigenvalues(matrix, error, p + 1)  # the next one bounds the angle of the last
    return (found or _all_eigenvalues(matrix, error)).in_unit(unit)


def lifted(found: Spectrum, p: int, way: Lift, trace: float, rounding: float) -> Spectrum:
    """Return the p largest of the eigenvalues of AA' with the vectors of A'A.

    - ``trace``: an upper bound on the sum of all eigenvalues
    - ``rounding``: bound on the error of a product of A'A and a vector of length 1
    """
    unit = unit_of(trace)
    V = _lifted_vectors(found.vectors[:, :p], found.values[:p], way)
    values, bounds = found.values * unit, found.bounds * unit
    R = way.multiply_long(V) * unit - V * values[:p]
    largest = float(values.max(initial=0.0))
    residuals = np.linalg.norm(R, axis=0) + rounding * unit * 1.01 + 4.0 * rounding_bound(2) * largest
    beyond = float(bounds[p, 1]) if len(values) > p else 0.0  # as many as rows, the others are 0
    angles = _angles(values[:p], residuals, bounds[:p], beyond)
    return replace(
        found,
        values=found.values[:p],
        vectors=way.expand(V),
        bounds=found.bounds[:p],
        residuals=scale_up(residuals, 1 - math.frexp(unit)[1]),
        angles=angles,
    )


def _lifted_vectors(U: Vector, values: Vector, way: Lift) -> Vector:
    """Return A'U / s, made orthonormal; where s is 0, vectors that are orthogonal to the others."""
    known = values > NULL_SHARE * len(U) * float(values.max(initial=0.0))
    V = way.lift(np.ascontiguousarray(U))[:, known]
    sizes = np.abs(V).max(axis=0, initial=0.0)
    V = V / np.where(sizes > 0.0, sizes, 1.0)
    if not known.all():
        fresh = np.random.default_rng(0).standard_normal((len(V), int((~known).sum())))
        V = np.concatenate([V, fresh], axis=1)  # values descend: these are the last
    with small_matrices(V.shape[1]):
        Q, T = np.linalg.qr(V)
    return np.ascontiguousarray(Q * np.where(np.diag(T) < 0.0, -1.0, 1.0))


def _few_eigenvalues(matrix: Vector, error: float, p: int) -> Spectrum | None:
    """Compute the p largest eigenvalues; None if it cannot be proven that they are."""
    from scipy.linalg import eigh

    d = len(matrix)
    if not np.isfinite(matrix).all():
        return None
    with small_matrices(d):
        try:
            values, vectors = eigh(matrix, subset_by_index=[d - p, d - 1], driver="evr", check_finite=False)
        except np.linalg.LinAlgError:
            return None
        values, vectors = values[::-1].copy(), np.ascontiguousarray(vectors[:, ::-1])
        R = matrix @ vectors - vectors * values
        e = _departure(vectors)
        rest = _bound_of_rest(matrix, values, vectors, e)
    if not (rest < np.inf and e < 0.5):
        return None
    size, largest = float(np.linalg.norm(matrix)), float(np.abs(values).max())
    residuals = np.linalg.norm(R, axis=0) + rounding_bound(d + 3) * (size + largest) * (1.0 + e)
    defect = (float(np.linalg.norm(residuals)) + 2.0 * e * largest) / (1.0 - e)
    low, high = values - defect - error, np.maximum(values, rest) + 1.4143 * defect + error
    bounds = np.maximum(np.stack([low, high], axis=1), 0.0)
    residuals = residuals + error
    angles = _angles(values, residuals, bounds, float(high[-1]))
    return Spectrum(np.maximum(values, 0.0), vectors, bounds, residuals, angles, True, "converged", 1)


def _bound_of_rest(matrix: Vector, values: Vector, vectors: Vector, e: float) -> float:
    """Bound the largest eigenvalue of the matrix less the part of these vectors; infinite if that fails."""
    from scipy.linalg.lapack import dpotrf

    d, p = vectors.shape
    last = max(float(values[-1]), 0.0)
    sizes = float(np.abs(values).sum()) * (1.0 + e)
    forming = rounding_bound(p + 4) * (float(np.linalg.norm(matrix)) + 1.1 * sizes + np.sqrt(d) * last)
    limit = last * (1.0 + 4.0 * rounding_bound(d + 1) * d) + 4.0 * forming
    B = (vectors * values) @ vectors.T
    B -= matrix
    B[np.diag_indices(d)] += limit
    trace = float(np.trace(B))
    failed = dpotrf(B.T, lower=1, clean=0, overwrite_a=1)[1]
    if failed or not trace < np.inf:
        return np.inf
    g = rounding_bound(d + 1)
    return float(limit + 1.01 * forming + 1.01 * g / (1.0 - g) * trace)


def _all_eigenvalues(matrix: Vector, error: float) -> Spectrum:
    d = len(matrix)
    with small_matrices(d):
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1].copy(), vectors[:, ::-1].copy()
        R = matrix @ vectors - vectors * values
        e = _departure(vectors)
    size = float(np.linalg.norm(matrix))
    largest = float(np.abs(values).max())
    rounding = rounding_bound(d + 3) * (size + largest)  # of a column of R
    residuals = np.linalg.norm(R, axis=0) + rounding * (1.0 + e)
    shift = (float(np.linalg.norm(residuals)) + 2.0 * e * largest) / (1.0 - e) + error
    bounds = np.stack([np.maximum(values - shift, 0.0), np.maximum(values + shift, 0.0)], axis=1)
    angles = _angles(values, residuals + error, bounds, -np.inf)
    return Spectrum(np.maximum(values, 0.0), vectors, bounds, residuals + error, angles, True, "converged", 1)


def some_eigenvalues(
    multiply: Callable[[Vector], Vector],
    d: int,
    p: int,
    *,
    trace: float,
    rounding: float,
    tol: float,
    max_iter: int,
    deadline: float,
    rng: np.random.Generator,
    agree: Callable[[str], str] = str,
    block: int = BLOCK,
    threads: int | None = None,
    way: Lift | None = None,
) -> Spectrum:
    """Compute the p largest eigenvalues of A'A by block Lanczos with thick restarts.

    - ``multiply``: returns A'A V for V of shape (d, columns), each column with an error of at most
    ``rounding``
      times its length
    - ``trace``: an upper bound on the sum of all eigenvalues
    - ``tol``: the method has converged if the residuals are at most this fraction of the largest eigenvalue
    - ``agree``: returns a status that some rank has
    - ``block``: vectors that are multiplied at once
    - ``way``: if the products are those of AA', from there to A'A
    """
    unit = unit_of(trace)
    multiply, trace, rounding = _in_unit(multiply, unit), trace * unit, rounding * unit
    why = _Standstill(tol, rounding)
    with small_matrices(basis_vectors(d, p, block)):
        run = _Lanczos(multiply, d, p, rng, block, threads)
        status = ""
        while not status:
            run.multiply_block()
            values, residuals = run.ritz_values()
            if run.exhausted:
                status = "converged" if run.is_complete(max(tol, 64.0 * LAST_DIGIT)) else ""
            else:
                status = why.status(float(residuals.max()), float(values[0]))
            status = agree(status or limit_reached(run.n_iter, max_iter, deadline))
            if not status:
                run.next_block()
        values, vectors = run.ritz_vectors()
        vectors, product, turning = _final_product(values, vectors, multiply, way, unit)
        found = _bounded(vectors, product, trace, rounding + turning, status, run.n_iter + 1)
    return _expanded(found.in_unit(unit), way)


def randomized_eigenvalues(
    multiply: Callable[[Vector], Vector],
    d: int,
    p: int,
    *,
    trace: float,
    rounding: float,
    tol: float,
    power: int,
    oversamples: int,
    deadline: float,
    rng: np.random.Generator,
    agree: Callable[[str], str] = str,
    way: Lift | None = None,
) -> Spectrum:
    """Approximate the p largest eigenvalues of A'A by randomised subspace iteration.

    A random subspace is multiplied by A'A and made orthonormal ``power`` times at most; then its best vectors
    are taken. The number of products is small and known beforehand; the bounds say how good the result is.

    - ``power``: products before the last one; fewer if the residuals are at most ``tol`` times the largest
    value
    - ``oversamples``: vectors besides p
    - the others: as for `some_eigenvalues`
    """
    width, unit = min(d, p + oversamples), unit_of(trace)
    multiply, trace, rounding = _in_unit(multiply, unit), trace * unit, rounding * unit
    why = _Standstill(tol, rounding)
    with small_matrices(width):
        basis = np.linalg.qr(rng.standard_normal((d, width)))[0]
        n_iter = 0
        while True:
            product = multiply(np.ascontiguousarray(basis))
            n_iter += 1
            values, rotation = np.linalg.eigh(basis.T @ product)
            values, rotation = values[::-1][:p], rotation[:, ::-1][:, :p]
            residual = float(np.linalg.norm(product @ rotation - basis @ rotation * values, axis=0).max())
            status = why.status(residual, float(values[0]))
            status = agree(status or limit_reached(n_iter, power + 1, deadline))
            if status:
                break
            basis = np.linalg.qr(product)[0]
        vectors = np.ascontiguousarray(basis @ rotation)
        vectors, product, turning = _final_product(values, vectors, multiply, way, unit)
        found = _bounded(vectors, product, trace, rounding + turning, status, n_iter + 1)
    return _expanded(found.in_unit(unit), way)


class _Standstill:
    """Why a method ends by its residuals: they are small enough, or rounding keeps them from falling."""

    def __init__(self, tol: float, rounding: float) -> None:
        self._tol, self._rounding = tol, rounding
        self._best, self._since = np.inf, 0

    def status(self, residual: float, largest: float) -> str:
        """Return why a method ends with this largest residual; empty if it goes on."""
        if residual <= self._tol * largest:
            return "converged"
        self._since += 1
        if residual < 0.5 * self._best:
            self._best, self._since = residual, 0
        stands = residual <= 4.0 * self._rounding and self._since >= PATIENCE
        return "precision" if stands or residual <= LAST_DIGIT * largest else ""


def _expanded(found: Spectrum, way: Lift | None) -> Spectrum:
    return found if way is None else replace(found, vectors=way.expand(found.vectors))


def _final_product(
    values: Vector, vectors: Vector, multiply: Callable[[Vector], Vector], way: Lift | None, unit: float
) -> tuple[Vector, Vector, float]:
    """Return the final vectors of A'A, their product with it, and a bound on what else rounds in that.

    Vectors that are lifted before they have converged span the space, but are not the best ones in it.
    """
    if way is None:
        return vectors, multiply(vectors), 0.0
    V = _lifted_vectors(vectors, values, way)
    product = way.multiply_long(V) * unit
    G = V.T @ product
    best, rotation = np.linalg.eigh((G + G.T) / 2.0)
    rotation, p = rotation[:, ::-1], len(rotation)
    rounding = 4.0 * rounding_bound(p + 2) * np.sqrt(p) * max(float(best[-1]), float(np.abs(G).max()))
    return np.ascontiguousarray(V @ rotation), product @ rotation, float(rounding)


def unit_of(trace: float) -> float:
    """Return a power of two that makes a trace at least 1/2 and less than 1; 1 if it is 0 or infinite."""
    if not 0.0 < trace < np.inf:
        return 1.0
    return math.ldexp(1.0, max(-MAX_UNIT_EXPONENT, min(-math.frexp(trace)[1], MAX_UNIT_EXPONENT)))


def _in_unit(multiply: Callable[[Vector], Vector], unit: float) -> Callable[[Vector], Vector]:
    return multiply if unit == 1.0 else lambda V: multiply(V) * unit


def basis_vectors(d: int, p: int, block: int = SPARSE_BLOCK) -> int:
    """Return the maximum number of vectors of the basis of `some_eigenvalues`."""
    return min(d, p + block + max(MIN_GROWTH, p))


class _Lanczos:
    """An orthonormal basis V of a block Krylov space, H = V'A'A V, and the next block.

    A product that is orthogonalised against all of V gives the new columns of H, and what is left of it the
    residuals: A'A V = V H + (next block) (coupling) (rows of the last block). Nothing else of length d is
    computed or kept, also not after a restart, when V has the best vectors and H their values.

    A product is orthogonalised against the last two blocks first, which in exact arithmetic is all, and then
    against all of V once. Products of long vectors are the package's own, those of small matrices LAPACK's.
    """

    def __init__(
        self,
        multiply: Callable[[Vector], Vector],
        d: int,
        p: int,
        rng: np.random.Generator,
        block: int,
        threads: int | None,
    ) -> None:
        self._multiply = multiply
        self._p, self._width = p, min(d, block)
        capacity = basis_vectors(d, p, block)
        self._threads = default_threads(capacity * d) if threads is None else threads
        self._basis = np.empty((capacity, d))  # vectors are rows
        self._H = np.empty((capacity, capacity))
        self._scale = 0.0  # of the eigenvalues
        self._size = self._near = 0  # vectors, and the first of the last two blocks
        self._rng = rng
        self._block = np.linalg.qr(rng.standard_normal((d, self._width)))[0]
        self._known: Vector | None = None  # the largest values when the basis was exhausted last
        self.n_iter = 0

    @property
    def exhausted(self) -> bool:
        """Whether the basis spans an invariant subspace."""
        return bool(self._next.shape[1] == 0)

    def is_complete(self, tol: float) -> bool:
        """Return whether an exhausted basis has the p largest eigenvalues.

        It has no more vectors of an eigenvalue than a block. So it grows by another random block, until that
        has brought no larger value.
        """
        values = self._solve()[0][::-1][: self._p]
        known, self._known = self._known, values
        if self._size == self._basis.shape[1]:
            return True
        if known is None or len(known) < self._p:
            return False
        return bool((np.abs(values - known) <= tol * values[0]).all())

    def multiply_block(self) -> None:
        first = self._size
        self._size = size = first + self._block.shape[1]
        self._basis[first:size] = self._block.T
        W = self._multiply(np.ascontiguousarray(self._block))
        C = np.zeros((size, W.shape[1]))
        for start in (self._near, 0):
            C[start:] += self._take_out(W, start)
        self._near = first
        self._H[:size, first:size] = C
        self._H[first:size, :size] = C.T
        self._ritz: tuple[Vector, Vector] | None = None
        scale = self._scale = max(self._scale, float(np.abs(C).max()))
        rotation, sizes, other = self._factors(W)
        kept = min(W.shape[0] - size, int((sizes > 1e-14 * scale).sum()))
        self._next = rotation[:, :kept]
        self._again = kept > 0 and sizes[kept - 1] < SMALL_REST * scale
        self._coupling = sizes[:, None] * other
        self.n_iter += 1

    def ritz_values(self) -> tuple[Vector, Vector]:
        """Return the p largest Ritz values and the norms of their residuals."""
        values, rotation = self._solve()
        last = rotation[self._size - self._coupling.shape[1] :, ::-1][:, : self._p]
        residuals = np.linalg.norm(self._coupling @ last, axis=0)
        values = values[::-1][: self._p]
        if len(values) < self._p:
            residuals = np.append(residuals, np.inf)
        return values, residuals

    def next_block(self) -> None:
        """Prepare the next block; restart the basis first if it is full."""
        if self.exhausted:
            fresh = min(self._width, self._basis.shape[1] - self._size)
            self._make_room(fresh)
            block = self._rng.standard_normal((self._basis.shape[1], fresh))
            for _ in range(2):
                self._take_out(block, 0)
                block = np.ascontiguousarray(np.linalg.qr(block)[0])
            self._near = 0
        else:
            block = np.ascontiguousarray(self._next)
            if self._again:
                self._take_out(block, 0)
            block = self._factors(block)[0]
            self._make_room(block.shape[1])
        self._block = block

    def _make_room(self, columns: int) -> None:
        """Restart the basis from its best vectors if it has no room for some more."""
        if self._size + columns > len(self._basis):
            values, rotation = self._solve()
            best = self._p + self._width
            self._basis[:best] = self._combine(rotation[:, ::-1][:, :best]).T
            self._H[:best, :best] = np.diag(values[::-1][:best])
            self._size, self._near = best, 0

    def ritz_vectors(self) -> tuple[Vector, Vector]:
        values, rotation = self._solve()
        vectors = self._combine(rotation[:, ::-1][:, : self._p])
        squares, basis = np.linalg.eigh(
            self._long(vectors).rmatmat(vectors)
        )  # the identity, but for rounding
        return values[::-1][: self._p], self._long(vectors).matmat(basis / np.sqrt(squares) @ basis.T)

    def _solve(self) -> tuple[Vector, Vector]:
        if self._ritz is None:
            values, rotation = np.linalg.eigh(self._H[: self._size, : self._size])
            self._ritz = values, rotation
        return self._ritz

    def _long(self, rows: Vector) -> _cpu.Matrix:
        return _cpu.Matrix.from_dense(rows, threads=self._threads)

    def _take_out(self, W: Vector, start: int) -> Vector:
        """Subtract from W its part along the vectors from ``start`` on; return its coefficients."""
        V = self._long(self._basis[start : self._size])
        C = V.matmat(W)
        W -= V.rmatmat(C)
        return C

    def _combine(self, C: Vector) -> Vector:
        return self._long(self._basis[: self._size]).rmatmat(np.ascontiguousarray(C))

    def _factors(self, W: Vector) -> tuple[Vector, Vector, Vector]:
        """Return factors Q diag(s) T' of W with almost orthonormal Q, s descending."""
        long = self._long(W)
        squares, rotation = np.linalg.eigh(long.rmatmat(W))
        if not squares[0] * MAX_CHOLESKY_RATIO > squares[-1]:
            Q, sizes, other = np.linalg.svd(W, full_matrices=False)
            return Q, sizes, other
        sizes, rotation = np.sqrt(squares[::-1]), rotation[:, ::-1]
        return long.matmat(rotation / sizes), sizes, rotation.T


def _bounded(
    vectors: Vector, product: Vector, trace: float, rounding: float, status: str, n_iter: int
) -> Spectrum:
    """Bound the eigenvalues from a fresh product of the final vectors."""
    d, p = vectors.shape
    values = np.einsum("df,df->f", vectors, product)
    order = np.argsort(-values, kind="stable")
    values, vectors, product = values[order], vectors[:, order], product[:, order]
    largest = float(np.abs(values).max())
    R = product - vectors * values
    each = rounding * 1.01 + 4.0 * rounding_bound(2) * largest
    residuals = np.linalg.norm(R, axis=0) + each
    e = _departure(vectors)
    size = float(np.linalg.norm(residuals))
    inner = float(np.linalg.norm(vectors.T @ R)) + np.sqrt(p) * each + rounding_bound(d + 2) * size
    below = (inner + 2.0 * e * largest) / (1.0 - e)
    above = (size + 2.0 * e * largest) / (1.0 - e)
    bounds = np.stack([np.maximum(values - below, 0.0), np.maximum(values + above, 0.0)], axis=1)
    rest = trace - float(values.sum()) + p * below
    proven = p == d or rest < float(values[-1])
    known = bounds if proven else np.stack([bounds[:, 0], np.full(p, np.inf)], axis=1)
    angles = _angles(values, residuals, known, -np.inf if p == d else rest)
    return Spectrum(np.maximum(values, 0.0), vectors, bounds, residuals, angles, proven, status, n_iter)


def _departure(V: Vector) -> float:
    """Bound the Frobenius norm of V'V - I."""
    d, p = V.shape
    return float(np.linalg.norm(V.T @ V - np.eye(p)) + rounding_bound(d + 1) * 1.01 * p)


def _angles(values: Vector, residuals: Vector, bounds: Vector, beyond: float) -> Vector:
    """Bound the sines of the angles between vectors and eigenvectors.

    - ``bounds``: intervals that contain the largest eigenvalues, in their order
    - ``beyond``: an upper bound on all others
    """
    above = np.concatenate([[np.inf], bounds[:-1, 0]])
    below = np.append(np.maximum(bounds[1:, 1], beyond), beyond)
    if not np.isfinite(bounds).all():
        return np.ones(len(values))
    gaps = np.minimum(above - values, values - below)
    with np.errstate(divide="ignore", invalid="ignore"):
        sines = np.where(gaps > 0.0, residuals / gaps, 1.0)
    return np.minimum(sines, 1.0)
