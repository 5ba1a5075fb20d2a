"""Views of a resident matrix for folds: with rows sorted by fold, and with cached margins."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.linear.selection.folds.dealing import Folds
from bmrm.matrix.adapted import MatrixAdapter, MatrixView
from bmrm.matrix.resident import Matrix


class RowsByFold(MatrixAdapter):
    """A resident matrix whose rows look sorted by fold.

    Parameters
    ----------
    matrix : Matrix
    folds : Folds
    """

    def __init__(self, matrix: Matrix, folds: Folds) -> None:
        super().__init__(matrix)
        self.folds = folds
        # One column per fold, each with the derivatives of its own rows: X' times it is one read of X.
        self._spread = np.zeros((self.shape[0], folds.number))
        self._z = np.empty(self.shape[0])

    def matvec(self, w: Vector, out: Vector) -> None:
        """``out = X w``, sorted by fold."""
        self.inner.matvec(w, self._z)
        np.take(self._z, self.folds.order, out=out)

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> None:
        """``out[p] = X_p' r_p`` for each fold, or for all rows at once."""
        rows = self.folds.order
        if len(starts) == 2:
            self._z[rows] = r
            self.inner.rmatvec_blocks(self._z, starts, out)
            return
        for fold, (i, j) in enumerate(pairwise(starts)):
            self._spread[rows[i:j], fold] = r[i:j]
        out[:] = self.inner.rmatmat(self._spread).T

    def weighted_gram(self, s: Vector, out: Vector) -> None:
        """``out = X' diag(s) X``."""
        self._z[self.folds.order] = s
        self.inner.weighted_gram(self._z, out)


class CachedProducts(MatrixView):
    """A resident matrix that remembers the margins of the last two weight vectors.

    A solve starts where the last one ended, and its final margins are needed again to predict the fold.

    Parameters
    ----------
    matrix : Matrix
    """

    def __init__(self, matrix: Matrix) -> None:
        super().__init__(matrix)
        self._known: deque[tuple[Vector, Vector]] = deque()

    def matvec(self, w: Vector, out: Vector | None = None) -> Vector:
        """``out = X w``."""
        for known, margins in self._known:
            if np.array_equal(known, w):
                if out is None:
                    return margins.copy()
                out[:] = margins
                return out
        found = self.inner.matvec(w, out)
        # Into memory that is there already: new pages at each product would cost more than the copy.
        known, margins = (
            self._known.popleft() if len(self._known) == 2 else (np.empty_like(w), np.empty_like(found))
        )
        known[:], margins[:] = w, found
        self._known.append((known, margins))
        return np.asarray(found)
