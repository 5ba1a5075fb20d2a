"""What stands in the place of a resident matrix: X with a constant column, for several outputs, or copied.

A model of K outputs has weights W of shape (d, K) and margins X W of shape (m, K).  Row after row both are
vectors, of d K and m K numbers, and the map between them is a matrix of shape (m K, d K): X, each entry times
the identity of K.  `MultiOutput` is that matrix without its copies.  Its products are those of X with several
columns, which read X once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.matrix import _cpu


class Measurable(Protocol):
    """What the sizes of an operator follow from."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def nnz(self) -> int:
        """Number of stored values."""

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of ``X' diag(s) X``; infinite if there is no such product."""


class MatrixView:
    """What stands in a matrix's place: has what the inner matrix has, except what a subclass defines."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class MatrixAdapter(MatrixView):
    """The operator of a solve: a matrix as it is. Subclasses state what differs.

    Its ``shape`` is the number of margins of all rows, and of weights.
    """

    n_outputs = 1
    constant: float | None = None  # value of a constant feature whose weights are penalised intercepts

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.shape: tuple[int, int] = inner.shape
        self.nnz: int = inner.nnz

    @property
    def weighted_gram_work(self) -> float:
        return float(self.inner.weighted_gram_work)

    @property
    def mean_squares(self) -> Vector:
        return np.asarray(self.inner.mean_squares)

    def matvec(self, w: Vector, out: Vector) -> object:
        return self.inner.matvec(w, out)

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> object:
        return self.inner.rmatvec_blocks(r, starts, out)

    def weighted_gram(self, s: Vector, out: Vector) -> object:
        return self.inner.weighted_gram(s, out)

    def split(self, w: Vector) -> tuple[Vector, float | Vector | None]:
        return w, None

    def join(self, w: Vector, intercept: float | Vector) -> Vector:
        return w

    def column_squares(self, counted: Vector | None, rows: int) -> Vector:
        """Return the sum of the squares of each column.

        - ``counted``, shape (d,), or None: those of the columns of X over the rows that count; None if all
          rows do
        - ``rows``: in all processes
        """
        if counted is None:
            return np.asarray(rows * self.mean_squares)
        return self._widened(counted, float(rows))

    def _widened(self, of_columns: Vector, rows: float) -> Vector:
        """Return numbers of all columns from those of X's, of which a column of ones has ``rows``."""
        return of_columns


class MultiOutput(MatrixAdapter):
    """A matrix that acts on K columns of weights, with a constant column if asked for.

    ``constant`` is the value of that column, whose weights are penalised intercepts.
    """

    weighted_gram_work = np.inf

    def __init__(self, inner: Any, n_outputs: int, constant: float | None = None) -> None:
        self.inner, self.n_outputs, self.constant = inner, n_outputs, constant
        m, d = inner.shape
        d += constant is not None
        self.shape = (m * n_outputs, d * n_outputs)
        self.nnz = inner.nnz + (m if constant is not None else 0)

    @property
    def mean_squares(self) -> Vector:
        return self._widened(self.inner.mean_squares, 1.0)

    def _widened(self, of_columns: Vector, rows: float) -> Vector:
        if self.constant is not None:
            of_columns = np.append(of_columns, rows * self.constant**2)
        return np.repeat(of_columns, self.n_outputs)

    def split(self, w: Vector) -> tuple[Vector, Vector]:
        """Return weights (d, K) and intercepts (K,), 0 without a constant column."""
        W = w.reshape(-1, self.n_outputs)
        if self.constant is None:
            return W, np.zeros(self.n_outputs)
        return W[:-1], self.constant * W[-1]

    def join(self, w: Vector, intercept: float | Vector) -> Vector:
        if self.constant is None:
            return w.ravel()
        return np.vstack([w, intercept / np.float64(self.constant)]).ravel()

    def matvec(self, w: Vector, out: Vector) -> None:
        W, Z = w.reshape(-1, self.n_outputs), out.reshape(-1, self.n_outputs)
        if self.constant is None:
            self.inner.matmat(W, Z)
        else:
            self.inner.matmat(W[:-1], Z)
            Z += self.constant * W[-1]

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> None:
        blocks, K = starts // self.n_outputs, self.n_outputs
        R, full = r.reshape(-1, K), out.reshape(len(out), -1, K)
        if self.constant is None:
            self._products(R, blocks, full)
            return
        inner = np.empty((len(out), full.shape[1] - 1, K))
        self._products(R, blocks, inner)
        full[:, :-1] = inner
        for p in range(len(out)):
            full[p, -1] = self.constant * R[blocks[p] : blocks[p + 1]].sum(axis=0)

    def _products(self, R: Vector, starts: Indices, out: Vector) -> None:
        if len(out) == 1:
            self.inner.rmatmat(R, out[0])
        elif isinstance(self.inner, _cpu.Matrix):
            self.inner.rmatmat_blocks(R, starts, out)
        else:
            # A GPU keeps blocks of rows apart for one column at a time, and so do solves in step.
            column = np.empty(out.shape[:2])
            for c in range(self.n_outputs):
                self.inner.rmatvec_blocks(np.ascontiguousarray(R[:, c]), starts, column)
                out[:, :, c] = column

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        raise NotImplementedError("several outputs have no weighted Gram matrix")


class WithConstant(MatrixAdapter):
    """A matrix with one more column, the same value in every row: a penalised intercept.

    ``constant`` is the value of that column, LIBLINEAR's ``-B``.
    """

    constant: float

    def __init__(self, inner: Any, constant: float) -> None:
        self.inner, self.constant = inner, constant
        self.shape = (inner.shape[0], inner.shape[1] + 1)
        self.nnz = inner.nnz + inner.shape[0]

    def split(self, w: Vector) -> tuple[Vector, float]:
        return w[:-1], float(w[-1]) * self.constant

    def join(self, w: Vector, intercept: float | Vector) -> Vector:
        return np.append(w, intercept / np.float64(self.constant))

    def _widened(self, of_columns: Vector, rows: float) -> Vector:
        return np.append(of_columns, rows * self.constant**2)

    @property
    def weighted_gram_work(self) -> float:
        return float(self.inner.weighted_gram_work) + self.nnz

    @property
    def mean_squares(self) -> Vector:
        return self._widened(self.inner.mean_squares, 1.0)

    def matvec(self, w: Vector, out: Vector) -> None:
        self.inner.matvec(w[:-1], out)
        out += self.constant * w[-1]

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> None:
        inner = np.empty((out.shape[0], out.shape[1] - 1))
        self.inner.rmatvec_blocks(r, starts, inner)
        out[:, :-1] = inner
        out[:, -1] = [self.constant * r[i:j].sum() for i, j in pairwise(starts)]

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        d = self.shape[1] - 1
        out[:d, :d] = self.inner.weighted_gram(s)
        out[d, :d] = out[:d, d] = self.constant * self.inner.rmatvec(s)
        out[d, d] = self.constant**2 * s.sum()


class StackedIdentity(MatrixAdapter):
    """The identity, once per block of examples, one below the other: the "margins" of a block are w."""

    weighted_gram_work = np.inf

    def __init__(self, n_features: int, copies: int) -> None:
        self.inner = None
        self.shape = (n_features * copies, n_features)
        self.nnz = n_features * copies

    @property
    def mean_squares(self) -> Vector:
        return np.full(self.shape[1], 1.0 / self.shape[1])

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out`` is w, once per block."""
        out.reshape(-1, len(w))[:] = w

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> None:
        """``out[p]`` is the sum of the copies of block p."""
        d = self.shape[1]
        out[:] = np.add.reduceat(r.reshape(-1, d), starts[:-1] // d, axis=0)

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        raise NotImplementedError("a structured loss has no second derivative")
