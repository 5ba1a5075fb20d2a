"""The largest eigenvalues of A'A with bounds, A being the rows after centring and weighting.

All of them are computed from the matrix A'A, or some by block Lanczos from products with A.

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

References: B. N. Parlett, The Symmetric Eigenvalue Problem, chapters 10, 11 and 13. K. Wu and H. Simon,
Thick-restart Lanczos, SIAM J. Matrix Anal. Appl. 22 (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.reductions.limits import limit_reached
from bmrm.reductions.scatter import Scatter, rounding_bound

BLOCK = 8
"""Vectors that are multiplied at once: a sparse product with 8 columns takes twice as long as with one. Fewer
would find eigenvalues that are equal one after the other; more cost more than they save in products."""

MIN_GROWTH = 40
"""Minimum number of vectors that the basis grows by before it is restarted from its best ones; from 40 to 80
made no measured difference, except in memory."""


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


def all_eigenvalues(scatter: Scatter) -> Spectrum:
    """Compute all eigenvalues of a scatter matrix."""
    values, vectors = np.linalg.eigh(scatter.matrix)
    values, vectors = values[::-1].copy(), vectors[:, ::-1].copy()
    d = len(values)
    size = float(np.linalg.norm(scatter.matrix))
    largest = float(np.abs(values).max())
    R = scatter.matrix @ vectors - vectors * values
    rounding = rounding_bound(d + 3) * (size + largest)  # of a column of R
    e = _departure(vectors)
    residuals = np.linalg.norm(R, axis=0) + rounding * (1.0 + e)
    shift = (float(np.linalg.norm(residuals)) + 2.0 * e * largest) / (1.0 - e) + scatter.error
    bounds = np.stack([np.maximum(values - shift, 0.0), np.maximum(values + shift, 0.0)], axis=1)
    angles = _angles(values, residuals + scatter.error, shift)
    return Spectrum(
        np.maximum(values, 0.0), vectors, bounds, residuals + scatter.error, angles, True, "converged", 1
    )


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
) -> Spectrum:
    """Compute the p largest eigenvalues of A'A by block Lanczos with thick restarts.

    - ``multiply``: returns A'A V for V of shape (d, columns), each column with an error of at most
    ``rounding``
      times its length
    - ``trace``: an upper bound on the sum of all eigenvalues
    - ``tol``: the method has converged if the residuals are at most this fraction of the largest eigenvalue
    - ``agree``: returns a status that some rank has
    """
    run = _Lanczos(multiply, d, p, rng)
    status = ""
    while not status:
        run.multiply_block()
        values, residuals = run.ritz_values()
        if residuals.max() <= tol * values[0] or not run.next_block():
            status = "converged"
        elif residuals.max() <= 4.0 * rounding:
            status = "precision"
        else:
            status = limit_reached(run.n_iter, max_iter, deadline)
        status = agree(status)
    values, vectors = run.ritz_vectors()
    return _bounded(values, vectors, multiply(vectors), trace, rounding, status, run.n_iter + 1)


class _Lanczos:
    """An orthonormal basis V of a block Krylov space, H = V'A'A V, and the next block.

    A product that is orthogonalised against all of V gives the new columns of H, and what is left of it the
    residuals: A'A V = V H + (next block) (coupling) (rows of the last block). Nothing else of length d is
    computed or kept, also not after a restart, when V has the best vectors and H their values.
    """

    def __init__(
        self, multiply: Callable[[Vector], Vector], d: int, p: int, rng: np.random.Generator
    ) -> None:
        self._multiply = multiply
        self._p = p
        self._width = min(d, BLOCK)
        capacity = min(d, p + self._width + max(MIN_GROWTH, p))
        self._basis = np.empty((d, capacity), order="F")
        self._H = np.empty((capacity, capacity))
        self._resize(0)
        self._block = np.linalg.qr(rng.standard_normal((d, self._width)))[0]
        self.n_iter = 0

    def _resize(self, size: int) -> None:
        self._size, self._V = size, self._basis[:, :size]

    def multiply_block(self) -> None:
        first = self._size
        self._resize(first + self._block.shape[1])
        self._basis[:, first : self._size] = self._block
        W = self._multiply(np.ascontiguousarray(self._block))
        C = self._V.T @ W
        W = W - self._V @ C
        self._H[: self._size, first : self._size] = C
        self._H[first : self._size, : self._size] = C.T
        self._values, self._turn = np.linalg.eigh(self._H[: self._size, : self._size])
        scale = float(np.abs(self._values).max())
        turn, sizes, other = np.linalg.svd(W, full_matrices=False)
        kept = min(W.shape[0] - self._size, int((sizes > 1e-14 * scale).sum()))
        self._next = turn[:, :kept]
        self._couplings = (sizes[:, None] * other) @ self._turn[first:]
        self.n_iter += 1

    def ritz_values(self) -> tuple[Vector, Vector]:
        """Return the p largest Ritz values and the norms of their residuals."""
        values = self._values[::-1][: self._p]
        residuals = np.linalg.norm(self._couplings[:, ::-1][:, : self._p], axis=0)
        if len(values) < self._p:
            residuals = np.append(residuals, np.inf)
        return values, residuals

    def next_block(self) -> bool:
        """Orthogonalise the next block once more; False if the basis spans an invariant subspace."""
        if self._next.shape[1] == 0:
            return False
        if self._size + self._next.shape[1] > self._basis.shape[1]:
            best = self._p + self._width
            self._basis[:, :best] = self._V @ self._turn[:, ::-1][:, :best]
            self._H[:best, :best] = np.diag(self._values[::-1][:best])
            self._resize(best)
        kept = self._next - self._V @ (self._V.T @ self._next)
        self._block = np.linalg.qr(kept)[0]
        return True

    def ritz_vectors(self) -> tuple[Vector, Vector]:
        values, turn = np.linalg.eigh(self._H[: self._size, : self._size])  # of the basis after a restart
        vectors = np.linalg.qr(self._V @ turn[:, ::-1][:, : self._p])[0]
        return values[::-1][: self._p], vectors


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
