"""Fewer rows than columns: the matrix A A' instead of A'A, A being the rows after centring and weighting.

Dense rows are centred in float64, twice, so that what rounding of the mean leaves is small relative to the
centred values, and their transpose is kept. If rounding has moved A by E, |E| <= g(2n) |A|, the products of
rows have an error of at most (2 g(2n) + g(d)) |A|^2.

Sparse rows stay sparse. With D = diag(sqrt w), s = sqrt w and P = I - s s' / W, A = P D X, so that products
with A A' are P D X X' D P. Rounding of P and X is relative to |D X|^2. If that cancels most digits, the rows
are made dense.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Vector
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import stored_rows
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix.resident import default_threads
from bmrm.unsupervised.decomposition.scatter import (
    BLOCK_VALUES,
    LOST_SHARE,
    Scatter,
    resident_matrix,
    rounding_bound,
    underflow_bound,
)

DENSE_COPIES = 2
"""Arrays of the size of the rows in float64 that dense rows take at most for some time."""


class ShortRows:
    """Rows of one process that are fewer than their columns, transposed.

    Parameters
    ----------
    rows : RowSet
    center : bool
        Whether the mean is subtracted.

    Attributes
    ----------
    mean : ndarray, shape (d,)
        0 if it is not subtracted.
    trace : float
        The sum of all eigenvalues.
    error : float
        Bound on the error of the trace, and of the Frobenius norm of the matrix of `scatter`.
    rounding : float
        Bound on the error of a product of `multiply` or `multiply_long` and a vector of length 1.
    """

    def __init__(self, rows: RowSet, *, center: bool) -> None:
        self._rows, self._center = rows, center
        n = rows.shape[0]
        w = np.ones(n) if rows.weights is None else rows.weights
        self._root, self._total = np.sqrt(w), rows.total_weight
        self._sparse = rows.sparse and self._keep_sparse(rows.X[:], w)
        if not self._sparse:
            self._keep_dense(w)

    def _keep_sparse(self, X: Csr, w: Vector) -> bool:
        """Keep sparse rows; return False if centring them cancels most digits."""
        n, d = self._rows.shape
        columns = X.to_scipy().tocsc()
        self._touched = np.flatnonzero(np.diff(columns.indptr))
        if len(self._touched) < n:  # fewer than there may be vectors
            self._touched = np.arange(d)
        starts = np.append(columns.indptr[self._touched], columns.nnz).astype(np.int64)
        shape = (len(self._touched), n)
        values = np.ones(columns.nnz) if X.data is None else columns.data
        self._matrix = resident_matrix(
            stored_rows(Csr(starts, columns.indices, values, shape)), self._rows.threads
        )
        self.mean = np.zeros(d)
        if self._center:
            self.mean[self._touched] = self._matrix.matvec(w) / self._total
        sums = np.repeat(np.arange(len(self._touched)), np.diff(starts))
        squares = w[columns.indices] * (values.astype(np.float64) - self.mean[self._touched][sums]) ** 2
        missing = self._total - np.bincount(sums, w[columns.indices], minlength=len(self._touched))
        self.trace = float(squares.sum() + np.maximum(missing, 0.0) @ self.mean[self._touched] ** 2)
        size = self.trace + self._total * float(self.mean @ self.mean)
        g, big = rounding_bound(n + 8), np.sqrt(size * (1.0 + rounding_bound(d + n + 8)))
        underflow = underflow_bound(self._rows, size)
        self.error = (6.0 * g + rounding_bound(d + 8)) * big**2 * 1.1 + underflow
        small = np.sqrt(self.trace + self.error)
        self.rounding = (7.0 * g + rounding_bound(d + 8)) * big * (small + 4.0 * g * big) * 1.1 + underflow
        return not self._center or self.error <= LOST_SHARE * self.trace

    def _keep_dense(self, w: Vector) -> None:
        n, d = self._rows.shape
        require_memory(8 * DENSE_COPIES * n * d, "the centred rows", "svd_solver='lanczos' may need less")
        A = np.empty((d, n))
        size = max(1, BLOCK_VALUES // n)
        off = 0.0
        self.mean = np.zeros(d)
        for first in range(0, d, size):
            part = slice(first, min(first + size, d))
            block = self._columns(part)
            for _ in range(2 if self._center else 0):
                moved = block @ w / self._total
                block -= moved[:, None]
                self.mean[part] += moved
            off += float(moved @ moved) if self._center else 0.0
            np.multiply(block, self._root, out=A[part])
        self._touched = np.arange(d)
        self._matrix = _cpu.Matrix.from_dense(A, threads=self._threads)
        self.trace = float(self._matrix.mean_squares.sum()) * d
        size_before = (np.sqrt(self.trace) + np.sqrt(self._total * off)) ** 2
        underflow = underflow_bound(self._rows, size_before)
        g = rounding_bound(d + 2 * n + 16)
        self.error = 2.0 * g * size_before + underflow
        self.rounding = 4.0 * g * size_before + underflow

    def _columns(self, part: slice) -> Vector:
        """Return some columns as the rows of a matrix of float64."""
        if self._rows.sparse:
            return np.ascontiguousarray(self._transposed[part].toarray(), np.float64)
        return np.ascontiguousarray(self._rows.X[:, part].T, np.float64)

    @functools.cached_property
    def _transposed(self) -> Any:
        return self._rows.X[:].to_scipy(np.float64).T.tocsr()

    @property
    def _threads(self) -> int:
        given = self._rows.threads
        return default_threads(self._rows.here * self._rows.shape[1]) if given is None else given

    def scatter(self) -> Scatter:
        """Compute the matrix A A'."""
        found = self._matrix.weighted_gram(np.ones(len(self._touched)))
        if self._sparse:
            found = self._around(self._around(found).T)
            found = (found + found.T) / 2.0
        return Scatter(found, self.mean, self._total, self.error)

    def multiply(self, U: Vector) -> Vector:
        """Return A A' U."""
        return self._around(self._matrix.gram_product(self._inside(U)))

    def lift(self, U: Vector) -> Vector:
        return self._matrix.matmat(self._inside(U))

    def multiply_long(self, V: Vector) -> Vector:
        return self.lift(self._around(self._matrix.rmatmat(V)))

    def expand(self, V: Vector) -> Vector:
        if len(V) == self._rows.shape[1]:
            return V
        found = np.zeros((self._rows.shape[1], V.shape[1]))
        found[self._touched] = V
        return found

    def _inside(self, U: Vector) -> Vector:
        """Return D P U for sparse rows; dense ones are centred and weighted."""
        return np.ascontiguousarray(self._project(U) * self._root[:, None]) if self._sparse else U

    def _around(self, U: Vector) -> Vector:
        """Return P D U for sparse rows."""
        return self._project(U * self._root[:, None]) if self._sparse else U

    def _project(self, U: Vector) -> Vector:
        if not self._center:
            return U
        return np.asarray(U - np.outer(self._root, self._root @ U / self._total))


def gathered(rows: RowSet) -> RowSet | None:
    """Return the rows of all ranks on each of them; None if they do not fit into the memory of one."""
    if rows.group is None:
        return rows
    X = rows.X
    needed = 8 * DENSE_COPIES * int(rows.total(float(X.size)))
    if not all(rows.everyones(rows.bytes_fit(needed))):
        return None
    parts = rows.everyones(X[:])
    weights = rows.all_weights()
    whole: Csr | NDArray[Any]
    if rows.sparse:
        whole = Csr(
            np.concatenate([[0], *(np.diff(each.indptr) for each in parts)]).cumsum().astype(np.int64),
            np.concatenate([each.indices for each in parts]),
            np.concatenate([np.ones(each.nnz) if each.data is None else each.data for each in parts]),
            rows.shape,
        )
    else:
        whole = np.concatenate(parts)
    return RowSet(whole, weights, rows.threads)
