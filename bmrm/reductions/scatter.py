"""The scatter matrix of rows, sum of w (x - m) (x - m)', with a bound on its rounding error.

Dense rows are centred in float64 before they are multiplied, block by block. m is a rounded mean: with r =
sum of w (x - m) and W = sum of w, the scatter about the exact mean is what was computed minus r r' / W.
Sparse rows, and those that are resident already, are multiplied as they are, and W m m' is subtracted; what
that cancels is part of the bound.

A sum of N products in any order has an error of at most g(N) sum |a| |b|, g(N) = N u / (1 - N u), u = 2^-53
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Summed over the entries of the matrix
in the Frobenius norm this is at most g(N) times the sum of w |x - m|^2, its trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads
from bmrm.reductions.passes import FLOAT64_UNIT

MAX_GRAM_COLUMNS = 1024
"""Columns up to which all eigenvalues of a d x d matrix take less than a second or so."""

BLOCK_VALUES = 1 << 21
"""Values of a block of dense rows that is copied as float64: 16 MiB."""


@dataclass(frozen=True)
class Scatter:
    """A scatter matrix.

    Attributes
    ----------
    matrix : ndarray, shape (d, d)
    mean : ndarray, shape (d,)
        0 if it was not to be centred.
    weight : float
        Sum of the weights.
    error : float
        Bound on the Frobenius norm of the error of ``matrix``.
    """

    matrix: Vector
    mean: Vector
    weight: float
    error: float


def rounding_bound(terms: float) -> float:
    """Return g(terms), the maximum relative error of a sum of so many products in float64."""
    product = terms * FLOAT64_UNIT
    return product / (1.0 - product) if product < 0.5 else np.inf


def resident_matrix(X: Csr | NDArray[Any], threads: int | None) -> _cpu.Matrix:
    """Return the host matrix of rows, for products."""
    size = X.nnz if isinstance(X, Csr) else X.size
    threads = default_threads(size) if threads is None else threads
    if isinstance(X, Csr):
        return _cpu.Matrix(X.indptr, X.indices, X.data, X.shape, threads=threads)
    return _cpu.Matrix.from_dense(X, threads=threads)


def scatter_matrix(
    X: Csr | NDArray[Any], weights: Vector | None, *, center: bool, threads: int | None = None
) -> Scatter:
    """Compute the scatter matrix of rows about their mean, or about 0."""
    if isinstance(X, Csr) or not center:
        return scatter_of_matrix(resident_matrix(X, threads), weights, center=center)
    n, d = X.shape
    w = np.ones(n) if weights is None else weights
    total = float(w.sum())
    mean = resident_matrix(X, threads).rmatvec(w) / total
    found, rest = np.zeros((d, d)), np.zeros(d)
    size = max(64, BLOCK_VALUES // d)
    for first in range(0, n, size):
        rows = slice(first, first + size)
        block = _cpu.Matrix.from_dense(X[rows] - mean, threads=default_threads(min(size, n) * d))
        found += block.weighted_gram(w[rows])
        rest += block.rmatvec(w[rows])
    found -= np.outer(rest, rest) / total
    # size terms in a block, one per block, and the roundings of x - m, of its product with w and of r r'
    error = rounding_bound(min(size, n) + -(-n // size) + 8) * float(np.trace(found) + rest @ rest / total)
    return Scatter(found, mean + rest / total, total, error)


def scatter_of_matrix(matrix: Any, weights: Vector | None, *, center: bool) -> Scatter:
    """Compute the scatter matrix of a resident matrix on any device."""
    n, d = matrix.shape
    w = np.ones(n) if weights is None else weights
    total = float(w.sum())
    found = matrix.weighted_gram(w)
    size = float(np.trace(found))
    if not center:
        return Scatter(found, np.zeros(d), total, rounding_bound(n + 2) * size)
    mean = matrix.rmatvec(w) / total
    found = found - total * np.outer(mean, mean)
    # |m|^2 W is at most the trace, and so is the effect of the error of m
    return Scatter(found, mean, total, rounding_bound(n + 4) * 5.0 * size)
