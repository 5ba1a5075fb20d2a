"""The scatter matrix of rows, sum of w (x - m) (x - m)', with a bound on its rounding error.

Dense rows are read once. What is subtracted from them in float64, before they are multiplied, is the mean of
some rows, which is near the mean of all: with r = sum of w (x - shift) and W = sum of w, the scatter about
the exact mean is what was computed minus r r' / W. If that cancels digits, because the rows that were looked
at are unlike the others, another pass takes the mean itself. Parts of the rows are added up to the whole as
`bmrm.distributed.row_set` says: of a file that is larger than the memory, and of several ranks, with the same
bits. Sparse rows, and those that are resident already, are multiplied as they are, and W m m' is subtracted;
what that cancels is part of the bound. If it cancels most digits, sparse rows are made dense, some at a time.
The sums of sparse rows on several ranks are those of each rank, added in rank order.

A sum of N products in any order has an error of at most g(N) sum |a| |b|, g(N) = N u / (1 - N u), u = 2^-53
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Summed over the entries of the matrix
in the Frobenius norm this is at most g(N) times the sum of w |x - m|^2, its trace. A product that is not
normal has an absolute error of at most 2^-1075 instead, which `underflow_bound` adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bmrm.base.vectors import UNIT, Vector
from bmrm.distributed._parts import part_rows
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import StoredRows
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads

MAX_GRAM_COLUMNS = 1024
"""Columns up to which all eigenvalues of a d x d matrix take less than a second or so."""

BLOCK_VALUES = 1 << 21
"""Values of a block of dense rows: 16 MiB of float64."""

COLUMN_ROWS = 4
"""Rows of a part per column at least."""

MAX_SHIFT_SHARE = 0.1
"""A second pass is needed if W |mean - shift|^2 is a larger share of the scatter about the shift."""

MAX_PASSES = 3
"""Maximum number of passes; of constant rows, rounding is all that the last one finds."""

LOST_SHARE = 1e-4
"""Share of the trace that the bound of rounding may have before sparse rows are made dense."""

OTHER_ROUNDINGS = 24
"""Roundings of a sum besides those of the rows of a part: of x - shift, of its products, of the groups that a
part is cut into."""

SMALLEST = 2.0**-1074
"""Twice the maximum absolute error of a product that underflows."""


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

    @property
    def trace(self) -> float:
        return float(np.trace(self.matrix))

    def about_zero(self) -> Scatter:
        """Return the scatter about 0 from that about the mean: S + W m m'."""
        size = np.sqrt(max(0.0, self.trace) + self.error)
        center = np.sqrt(self.weight) * float(np.linalg.norm(self.mean))
        # an error of S is at least one of m: |dm| sqrt(W) <= error / sqrt(trace), besides rounding
        moved = 2.0 * center * (self.error / size if size > 0.0 else 0.0)
        error = self.error + moved + rounding_bound(16) * (size + center) ** 2
        return Scatter(
            self.matrix + self.weight * np.outer(self.mean, self.mean),
            np.zeros_like(self.mean),
            self.weight,
            float(error),
        )


def rounding_bound(terms: float) -> float:
    """Return g(terms), the maximum relative error of a sum of that number of products in float64."""
    product = terms * UNIT
    return product / (1.0 - product) if product < 0.5 else np.inf


def resident_matrix(X: StoredRows, threads: int | None) -> _cpu.Matrix:
    """Return the host matrix of rows, for products."""
    threads = default_threads(X.size) if threads is None else threads
    if X.sparse:
        return _cpu.Matrix(*X[:], threads=threads)
    return _cpu.Matrix.from_dense(X[:], threads=threads)


def block_rows(columns: int) -> int:
    """Return the number of rows of a block: a power of two.

    Examples
    --------
    >>> block_rows(64), block_rows(1_000_000)
    (32768, 64)
    """
    return 1 << max(6, (BLOCK_VALUES // columns).bit_length() - 1)


def scatter_part_rows(rows: int, columns: int) -> int:
    """Return the number of rows of a part of dense rows: those of a block, or more.

    The sums of a part take less time than its products.
    """
    many = 1 << (COLUMN_ROWS * columns - 1).bit_length()
    return max(block_rows(columns), many, part_rows(rows, columns * (columns + 1)))


def underflow_bound(rows: RowSet, size: float) -> float:
    """Bound what underflow of products adds to the error of a scatter matrix; ``size`` is its trace.

    A product w x y of a row is w x, rounded, times y. |y| is at most sqrt(size / w).
    """
    n, d = rows.shape
    reach = np.sqrt(size) if rows.weights is None else np.sqrt(size / rows.least_weight)
    total = rows.total_weight
    return float(4.0 * d * (n * (1.0 + reach) + total + np.sqrt(total) * (1.0 + np.sqrt(size)))) * SMALLEST


def scatter_matrix(rows: RowSet, *, center: bool) -> Scatter:
    """Compute the scatter matrix of rows about their mean, or about 0."""
    if not rows.sparse:
        found = dense_scatter(rows)
        return found if center else found.about_zero()
    found = scatter_of_matrix(resident_matrix(rows.X, rows.threads), rows, center=center)
    if center and found.error > LOST_SHARE * float(np.trace(found.matrix)):
        return dense_scatter(rows)
    return found


class RowGram:
    """Sums over differences of rows from a shift; sparse rows are made dense part by part.

    Attributes
    ----------
    terms : int
        Roundings that a product goes through.
    """

    def __init__(self, rows: RowSet) -> None:
        n, d = rows.shape
        self._rows, self._each = rows, scatter_part_rows(n, d)
        self._weights = np.ones(rows.here) if rows.weights is None else rows.weights
        self._threads = default_threads(rows.here * d) if rows.threads is None else rows.threads
        self.terms = min(self._each, n) + -(-n // self._each) + len(rows.bounds) + OTHER_ROUNDINGS

    def sums(self, shift: Vector) -> tuple[Vector, Vector]:
        """Return the sums of w (x - shift), and of w (x - shift) (x - shift)', over all ranks."""
        d = self._rows.shape[1]

        def sums_of(part: slice) -> Vector:
            block = _cpu.Matrix.from_dense(self._rows.X.dense(part), threads=self._threads)
            matrix, rest = block.centred_gram(self._weights[part], shift)
            return np.concatenate([rest, matrix.ravel()])

        sums = self._rows.fold_parts(d + d * d, self._each, sums_of)
        return sums[:d], sums[d:].reshape(d, d)


def dense_scatter(rows: RowSet) -> Scatter:
    """Compute the scatter matrix about the mean from differences."""
    gram, total = RowGram(rows), rows.total_weight
    shift = rows.sampled_mean()
    for _ in range(MAX_PASSES):
        rest, found = gram.sums(shift)
        if is_near_mean(rest, found, total):
            break
        shift = shift + rest / total
    return about_mean(rows, found, rest, shift, gram.terms)


def is_near_mean(rest: Vector, matrix: Vector, total: float) -> bool:
    """Return whether a scatter matrix about a shift loses no digits when it is moved to the mean."""
    moved = rest / np.sqrt(total)
    return bool(moved @ moved <= MAX_SHIFT_SHARE * np.trace(matrix))


def about_mean(rows: RowSet, matrix: Vector, rest: Vector, shift: Vector, terms: int) -> Scatter:
    """Return the scatter matrix about the mean from that about a shift, and the sum of w (x - shift).

    - ``terms``: roundings that a product goes through
    """
    total, size = rows.total_weight, float(np.trace(matrix))
    moved = rest / np.sqrt(total)
    off = float(np.sqrt(moved @ moved))
    # of r r' / W: the error of r is at most g(terms) times the sum of w |x - shift|
    error = rounding_bound(terms) * (np.sqrt(size) + off) ** 2 + underflow_bound(rows, size)
    found = matrix - np.outer(moved, moved)
    return Scatter(found, shift + rest / total, total, float(error))


def scatter_of_matrix(matrix: Any, rows: RowSet, *, center: bool) -> Scatter:
    """Compute the scatter matrix of a resident matrix on any device, with the weights of the rows."""
    n, d = rows.shape
    w = np.ones(matrix.shape[0]) if rows.weights is None else rows.weights
    total = rows.total_weight
    found = rows.total_array(matrix.weighted_gram(w))
    size = float(np.trace(found))
    underflow = underflow_bound(rows, size)
    if not center:
        return Scatter(found, np.zeros(d), total, rounding_bound(n + 2) * size + underflow)
    mean = rows.total_array(matrix.rmatvec(w)) / total
    found = found - total * np.outer(mean, mean)
    # |m|^2 W is at most the trace, and so is the effect of the error of m
    return Scatter(found, mean, total, rounding_bound(n + 4) * 5.0 * size + underflow)
