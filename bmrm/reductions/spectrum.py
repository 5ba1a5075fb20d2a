"""The largest eigenvalues of A'A with bounds, A being the rows after centring and weighting.

All of them are computed from the matrix A'A, or some by block Lanczos or by a randomised method from
products with A.

All eigenvalues. Let S be the computed A'A with an error of norm at most s, V and t the computed eigenvectors
and values, R = S V - V T, and e = |V'V - I|. With the orthonormal polar factor Q of V,

    |S - Q T Q'| <= (|R| + 2 e max|t|) / (1 - e),

so by Weyl's theorem each eigenvalue differs from t_i, with the same i, by at most that plus s. Norms are
those of Frobenius, and the rounding of R is added to |R|.

Some eigenvalues. V has p columns now. By Cauchy's interlacing theorem the i-th largest eigenvalue is at least
t_i, less (|V'R| + 2 e max t) / (1 - e) and rounding. By Kahan's theorem p eigenvalues can be paired with t_1
... t_p so that none differs by more than (|R| + 2 e max t) / (1 - e) and rounding. They are the p largest for
sure if what V leaves of the trace, tau = trace(A'A) - sum t, is below t_p: the rest of A'A has no eigenvalue
above tau. For data with a long tail this is not so, and then the upper ends hold for those eigenvalues that
the random start has found, as it does with probability 1 in exact arithmetic.

Vectors. If t_i is at least g away from all other eigenvalues, the sine of the angle between v_i and the
eigenvector is at most (|r_i| + s) / g (Davis and Kahan).

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

import numpy as np

from bmrm.base.blas import small_matrices
from bmrm.base.vectors import Vector
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads
from bmrm.reductions.limits import limit_reached
from bmrm.reductions.scatter import Scatter, rounding_bound

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

    def in_unit(self, unit: float) -> Spectrum:
        """Return the spectrum of A'A / unit from that of A'A, for a power of two."""
        return replace(
            self, values=self.values / unit, bounds=self.bounds / unit, residuals=self.residuals / unit
        )


def all_eigenvalues(scatter: Scatter) -> Spectrum:
    """Compute all eigenvalues of a scatter matrix."""
    unit = unit_of(abs(float(np.trace(scatter.matrix))) + scatter.error)  # a trace may have cancelled
    return _all_eigenvalues(scatter.matrix * unit, scatter.error * unit).in_unit(unit)


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
    angles = _angles(values, residuals + error, shift)
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
) -> Spectrum:
    """Compute the p largest eigenvalues of A'A by block Lanczos with thick restarts.

    - ``multiply``: returns A'A V for V of shape (d, columns), each column with an error of at most
    ``rounding``
      times its length
    - ``trace``: an upper bound on the sum of all eigenvalues
    - ``tol``: the method has converged if the residuals are at most this fraction of the largest eigenvalue
    - ``agree``: returns a status that some rank has
    - ``block``: vectors that are multiplied at once
    """
    unit = unit_of(trace)
    multiply, trace, rounding = _in_unit(multiply, unit), trace * unit, rounding * unit
    with small_matrices(basis_vectors(d, p, block)):
        run = _Lanczos(multiply, d, p, rng, block, threads)
        status = ""
        while not status:
            run.multiply_block()
            values, residuals = run.ritz_values()
            if run.exhausted:
                status = "converged" if run.is_complete(tol) else ""
            else:
                status = _status(float(residuals.max()), float(values[0]), tol, rounding)
            status = agree(status or limit_reached(run.n_iter, max_iter, deadline))
            if not status:
                run.next_block()
        values, vectors = run.ritz_vectors()
        found = _bounded(values, vectors, multiply(vectors), trace, rounding, status, run.n_iter + 1)
    return found.in_unit(unit)


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
    with small_matrices(width):
        basis = np.linalg.qr(rng.standard_normal((d, width)))[0]
        n_iter = 0
        while True:
            product = multiply(np.ascontiguousarray(basis))
            n_iter += 1
            values, turn = np.linalg.eigh(basis.T @ product)
            values, turn = values[::-1][:p], turn[:, ::-1][:, :p]
            residual = float(np.linalg.norm(product @ turn - basis @ turn * values, axis=0).max())
            status = _status(residual, float(values[0]), tol, rounding)
            status = agree(status or limit_reached(n_iter, power + 1, deadline))
            if status:
                break
            basis = np.linalg.qr(product)[0]
        vectors = np.ascontiguousarray(basis @ turn)
        found = _bounded(values, vectors, multiply(vectors), trace, rounding, status, n_iter + 1)
    return found.in_unit(unit)


def _status(residual: float, largest: float, tol: float, rounding: float) -> str:
    """Return why a method ends with this largest residual; empty if it goes on."""
    if residual <= tol * largest:
        return "converged"
    return "precision" if residual <= 4.0 * rounding else ""


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
        turn, sizes, other = self._factors(W)
        kept = min(W.shape[0] - size, int((sizes > 1e-14 * scale).sum()))
        self._next = turn[:, :kept]
        self._again = kept > 0 and sizes[kept - 1] < SMALL_REST * scale
        self._coupling = sizes[:, None] * other
        self.n_iter += 1

    def ritz_values(self) -> tuple[Vector, Vector]:
        """Return the p largest Ritz values and the norms of their residuals."""
        values, turn = self._solve()
        last = turn[self._size - self._coupling.shape[1] :, ::-1][:, : self._p]
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
            values, turn = self._solve()
            best = self._p + self._width
            self._basis[:best] = self._combine(turn[:, ::-1][:, :best]).T
            self._H[:best, :best] = np.diag(values[::-1][:best])
            self._size, self._near = best, 0

    def ritz_vectors(self) -> tuple[Vector, Vector]:
        values, turn = self._solve()
        vectors = self._combine(turn[:, ::-1][:, : self._p])
        squares, basis = np.linalg.eigh(
            self._long(vectors).rmatmat(vectors)
        )  # the identity, but for rounding
        return values[::-1][: self._p], self._long(vectors).matmat(basis / np.sqrt(squares) @ basis.T)

    def _solve(self) -> tuple[Vector, Vector]:
        if self._ritz is None:
            values, turn = np.linalg.eigh(self._H[: self._size, : self._size])
            self._ritz = values, turn
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
        squares, turn = np.linalg.eigh(long.rmatmat(W))
        if not squares[0] * MAX_CHOLESKY_RATIO > squares[-1]:
            Q, sizes, other = np.linalg.svd(W, full_matrices=False)
            return Q, sizes, other
        sizes, turn = np.sqrt(squares[::-1]), turn[:, ::-1]
        return long.matmat(turn / sizes), sizes, turn.T


def _bounded(
    values: Vector, vectors: Vector, product: Vector, trace: float, rounding: float, status: str, n_iter: int
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
    shift = above if proven else np.inf
    return Spectrum(
        np.maximum(values, 0.0),
        vectors,
        bounds,
        residuals,
        _angles(values, residuals, shift, beyond=None if p == d else rest),
        proven,
        status,
        n_iter,
    )


def _departure(V: Vector) -> float:
    """Bound the Frobenius norm of V'V - I."""
    d, p = V.shape
    return float(np.linalg.norm(V.T @ V - np.eye(p)) + rounding_bound(d + 1) * 1.01 * p)


def _angles(values: Vector, residuals: Vector, shift: float, beyond: float | None = None) -> Vector:
    """Bound the sines of the angles; ``beyond`` bounds the eigenvalues that are not in ``values``."""
    if not shift < np.inf:
        return np.ones(len(values))
    padded = np.concatenate([[np.inf], values, [-np.inf if beyond is None else beyond]])
    gaps = np.minimum(padded[:-2] - values, values - padded[2:]) - shift
    with np.errstate(divide="ignore", invalid="ignore"):
        sines = np.where(gaps > 0.0, residuals / gaps, 1.0)
    return np.minimum(sines, 1.0)
