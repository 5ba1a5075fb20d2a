"""The scatter matrix of rows, sum of w (x - m) (x - m)', with a bound on its rounding error.

Dense rows are centred in float64 before they are multiplied, block by block. m is a rounded mean: with r =
sum of w (x - m) and W = sum of w, the scatter about the exact mean is what was computed minus r r' / W.
Blocks are added up to parts, and parts to the whole, as `bmrm.reductions.row_set` says: of a file that is
larger than the memory, and of several ranks, with the same bits. Sparse rows, and those that are resident
already, are multiplied as they are, and W m m' is subtracted; what that cancels is part of the bound. Their
sums on several ranks are those of each rank, added in rank order.

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
from bmrm.reductions._reductions import part_rows
from bmrm.reductions.row_set import RowSet

FLOAT64_UNIT = 2.0**-53
"""Maximum relative error of an operation in float64."""

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
    """Return g(terms), the maximum relative error of a sum of that number of products in float64."""
    product = terms * FLOAT64_UNIT
    return product / (1.0 - product) if product < 0.5 else np.inf


def resident_matrix(X: Csr | NDArray[Any], threads: int | None) -> _cpu.Matrix:
    """Return the host matrix of rows, for products."""
    size = X.nnz if isinstance(X, Csr) else X.size
    threads = default_threads(size) if threads is None else threads
    if isinstance(X, Csr):
        return _cpu.Matrix(X.indptr, X.indices, X.data, X.shape, threads=threads)
    return _cpu.Matrix.from_dense(X, threads=threads)


def block_rows(columns: int) -> int:
    """Return the number of rows of a block: a power of two.

    Examples
    --------
    >>> block_rows(64), block_rows(1_000_000)
    (32768, 64)
    """
    return 1 << max(6, (BLOCK_VALUES // columns).bit_length() - 1)


def scatter_part_rows(rows: int, columns: int) -> int:
    """Return the number of rows of a part of dense rows: those of a block, or more."""
    return max(block_rows(columns), part_rows(rows, columns * (columns + 1)))


def scatter_matrix(rows: RowSet, *, center: bool) -> Scatter:
    """Compute the scatter matrix of rows about their mean, or about 0."""
    X = rows.X
    n, d = rows.shape
    if isinstance(X, Csr) or not center:
        return scatter_of_matrix(resident_matrix(X, rows.threads), rows, center=center)
    w = np.ones(rows.here) if rows.weights is None else rows.weights
    size, each = block_rows(d), scatter_part_rows(n, d)

    def sums_of(part: slice, mean: Vector | None) -> Vector:
        """Return the sum of w (x - mean) and, if there is a mean, the sum of w (x - mean) (x - mean)'."""
        found = np.zeros(d if mean is None else d + d * d)
        for first in range(part.start, part.stop, size):
            some = slice(first, min(first + size, part.stop))
            values = X[some] if mean is None else X[some] - mean
            block = _cpu.Matrix.from_dense(values, threads=default_threads(values.size))
            found[:d] += block.rmatvec(w[some])
            if mean is not None:
                found[d:] += block.weighted_gram(w[some]).ravel()
        return found

    total = rows.total_weight
    mean = rows.fold_parts(d, each, lambda part: sums_of(part, None)) / total
    sums = rows.fold_parts(d + d * d, each, lambda part: sums_of(part, mean))
    rest, found = sums[:d], sums[d:].reshape(d, d)
    found -= np.outer(rest, rest) / total
    # rows of a block, blocks of a part, parts; and the roundings of x - m, of its product with w and of r r'
    terms = min(size, n) + each // size + -(-n // each) + len(rows.bounds) + 8
    error = rounding_bound(terms) * float(np.trace(found) + rest @ rest / total)
    return Scatter(found, mean + rest / total, total, error)


def scatter_of_matrix(matrix: Any, rows: RowSet, *, center: bool) -> Scatter:
    """Compute the scatter matrix of a resident matrix on any device, with the weights of the rows."""
    n, d = rows.shape
    w = np.ones(matrix.shape[0]) if rows.weights is None else rows.weights
    total = rows.total_weight
    found = rows.total_array(matrix.weighted_gram(w))
    size = float(np.trace(found))
    if not center:
        return Scatter(found, np.zeros(d), total, rounding_bound(n + 2) * size)
    mean = rows.total_array(matrix.rmatvec(w)) / total
    found = found - total * np.outer(mean, mean)
    # |m|^2 W is at most the trace, and so is the effect of the error of m
    return Scatter(found, mean, total, rounding_bound(n + 4) * 5.0 * size)
