"""Rows dealt to folds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import refuse
from bmrm.base.vectors import Indices, Vector


class Folds(NamedTuple):
    """Rows dealt to folds.

    Attributes
    ----------
    fold_of : ndarray of intp, shape (n_samples,)
        The fold of each row.
    order : ndarray of intp, shape (n_samples,)
        The rows sorted by fold, otherwise in the order of the data.
    starts : ndarray of int64, shape (folds + 1,)
        Where each fold starts in ``order``.
    """

    fold_of: NDArray[np.intp]
    order: NDArray[np.intp]
    starts: Indices

    @property
    def number(self) -> int:
        """Number of folds."""
        return len(self.starts) - 1

    def rows(self, fold: int) -> NDArray[np.intp]:
        """Return the rows of a fold."""
        return self.order[self.starts[fold] : self.starts[fold + 1]]

    @property
    def is_sorted(self) -> bool:
        """Whether the rows of each fold are neighbours in the data, the folds in order."""
        return bool((np.diff(self.fold_of) >= 0).all())

    def sorted(self) -> Folds:
        """Return the folds of data whose rows were put into ``order``."""
        return Folds(self.fold_of[self.order], np.arange(len(self.order)), self.starts)


def deal(labels: Vector | None, rows: int, folds: int, seed: int) -> Folds:
    """Deal rows to folds: shuffled, then like cards, class by class.

    Parameters
    ----------
    labels : ndarray of shape (rows,), or None
        Classes to spread evenly.
    rows, folds : int
    seed : int
        Of the shuffle.

    Returns
    -------
    Folds

    Raises
    ------
    ParameterError
        If the seed is not an integer of at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> deal(None, 5, 2, seed=0).starts.tolist()
    [0, 3, 5]
    """
    if not (isinstance(seed, (int, np.integer)) and seed >= 0):
        refuse("seed", seed, "an integer of at least 0")
    shuffled = np.random.default_rng(seed).permutation(rows)
    if labels is not None:
        shuffled = shuffled[_stable_order(labels[shuffled])]
    fold_of = np.empty(rows, np.intp)
    fold_of[shuffled] = np.arange(rows) % folds
    return by_fold(fold_of, folds)


def _stable_order(codes: NDArray[Any]) -> NDArray[np.intp]:
    """Sort stably. Short integers, as classes and folds usually are, take two passes."""
    with np.errstate(invalid="ignore"):
        short = codes.astype(np.int16)
    return np.argsort(short if (short == codes).all() else codes, kind="stable")


def by_fold(fold_of: NDArray[np.intp], folds: int) -> Folds:
    """Sort rows by their fold."""
    order = _stable_order(fold_of)
    starts = np.concatenate([[0], np.cumsum(np.bincount(fold_of, minlength=folds))]).astype(np.int64)
    return Folds(fold_of, order, starts)
