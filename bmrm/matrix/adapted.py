"""A weight matrix of several columns as the vector that the outer loop knows.

A model of K classes has weights W of shape (d, K) and margins X W of shape (m, K).  Row after row both are
vectors, of d K and m K numbers, and the map between them is a matrix of shape (m K, d K): X, each entry times
the identity of K.  `Columns` is that matrix without its copies.  Its products are those of X with several
columns, which read X once.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bmrm.matrix import _cpu
from bmrm.matrix.resident import Matrix

Vector = NDArray[np.float64]


class Columns:
    """A resident matrix that acts on K columns of weights, and where asked for one more row of X's, constant.

    Parameters
    ----------
    matrix : Matrix
    columns : int
        K.
    value : float, optional
        The value of a constant feature, whose weights are penalised intercepts; None for none.
    """

    def __init__(self, matrix: Matrix, columns: int, value: float | None = None) -> None:
        self.matrix, self.columns, self.value = matrix, columns, value
        m, d = matrix.shape
        d += value is not None
        self.shape = (m * columns, d * columns)
        self.nnz = matrix.nnz + (m if value is not None else 0)

    @property
    def weighted_gram_work(self) -> float:
        """Infinite: there is no such product."""
        return np.inf

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column, once for each class."""
        squares = self.matrix.mean_squares
        return np.repeat(squares if self.value is None else np.append(squares, self.value**2), self.columns)

    def split(self, w: Vector) -> tuple[Vector, Vector]:
        """Weights (d, K) and intercepts (K,) of a vector of weights."""
        W = w.reshape(-1, self.columns)
        if self.value is None:
            return W, np.zeros(self.columns)
        return W[:-1], self.value * W[-1]

    def joined(self, W: Vector, intercepts: float | Vector) -> Vector:
        """Undo `split`."""
        return (W if self.value is None else np.vstack([W, intercepts / np.float64(self.value)])).ravel()

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out = X W``, row after row."""
        W, Z = w.reshape(-1, self.columns), out.reshape(-1, self.columns)
        if self.value is None:
            self.matrix.matmat(W, Z)
        else:
            self.matrix.matmat(W[:-1], Z)
            Z += self.value * W[-1]

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        """``out[p] = X_p' R_p``, row after row, for each block of whole rows of X."""
        blocks, K = starts // self.columns, self.columns
        R, full = r.reshape(-1, K), out.reshape(len(out), -1, K)
        if self.value is None:
            self._products(R, blocks, full)
            return
        inner = np.empty((len(out), full.shape[1] - 1, K))
        self._products(R, blocks, inner)
        full[:, :-1] = inner
        for p in range(len(out)):
            full[p, -1] = self.value * R[blocks[p] : blocks[p + 1]].sum(axis=0)

    def _products(self, R: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        if len(out) == 1:
            self.matrix.rmatmat(R, out[0])
        elif isinstance(self.matrix, _cpu.Matrix):
            self.matrix.rmatmat_blocks(R, starts, out)
        else:
            # A GPU keeps blocks of rows apart for one column at a time, and so do solves in step.
            column = np.empty(out.shape[:2])
            for c in range(self.columns):
                self.matrix.rmatvec_blocks(np.ascontiguousarray(R[:, c]), starts, column)
                out[:, :, c] = column

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """There is no such product."""
        raise NotImplementedError("several columns have no weighted Gram matrix")


class WithConstant:
    """A resident matrix with one more column, the same value in every row: a penalised intercept.

    Parameters
    ----------
    matrix : Matrix
    value : float
        The constant feature's value, LIBLINEAR's ``-B``.
    """

    def __init__(self, matrix: Matrix, value: float) -> None:
        self.matrix, self.value = matrix, value
        self.shape = (matrix.shape[0], matrix.shape[1] + 1)
        self.nnz = matrix.nnz + matrix.shape[0]

    def split(self, w: Vector) -> tuple[Vector, float]:
        """Weights and intercept of a vector of weights."""
        return w[:-1], float(w[-1]) * self.value

    def joined(self, w: Vector, intercept: float | Vector) -> Vector:
        """Undo `split`."""
        return np.append(w, intercept / np.float64(self.value))

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram`; infinite where X has no such product."""
        return self.matrix.weighted_gram_work + self.nnz

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column."""
        return np.append(self.matrix.mean_squares, self.value**2)

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out = [X, value 1] w``."""
        self.matrix.matvec(w[:-1], out)
        out += self.value * w[-1]

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        """``out[p] = [X_p, value 1]' r_p`` for each block of rows."""
        inner = np.empty((out.shape[0], out.shape[1] - 1))
        self.matrix.rmatvec_blocks(r, starts, inner)
        out[:, :-1] = inner
        out[:, -1] = [self.value * r[i:j].sum() for i, j in pairwise(starts)]

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """``out = [X, value 1]' diag(s) [X, value 1]``."""
        d = self.shape[1] - 1
        out[:d, :d] = self.matrix.weighted_gram(s)
        out[d, :d] = out[:d, d] = self.value * self.matrix.rmatvec(s)
        out[d, d] = self.value**2 * s.sum()


class Copies:
    """The identity, once for each block of examples, one below the other: a block's "margins" are w.

    Parameters
    ----------
    n_features : int
    copies : int
    """

    weighted_gram_work = np.inf

    def __init__(self, n_features: int, copies: int) -> None:
        self.shape = (n_features * copies, n_features)
        self.nnz = n_features * copies

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column."""
        return np.full(self.shape[1], 1.0 / self.shape[1])

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out`` is w, and again."""
        out.reshape(-1, len(w))[:] = w

    def rmatvec_blocks(self, r: Vector, starts: NDArray[np.int64], out: Vector) -> None:
        """``out[p]`` is the sum of the copies of block p."""
        d = self.shape[1]
        out[:] = np.add.reduceat(r.reshape(-1, d), starts[:-1] // d, axis=0)

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """There is no such product."""
        raise NotImplementedError("a structured loss has no second derivative")
