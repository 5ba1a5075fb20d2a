"""Labels as the losses take them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError
from bmrm.losses import Loss

Vector = NDArray[np.float64]

MOST_LEVELS = 1000
"""More ordered classes than this are taken for a mistake: real targets, say."""


def encode(y: Any, n_samples: int, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
    """Check labels against the data and the loss; code two classes as -1 and +1, ordered ones as 0, 1, ...

    Parameters
    ----------
    y : array_like of shape (n_samples,), or None
        None only where the loss ignores labels.
    n_samples : int
    loss : Loss

    Returns
    -------
    coded : ndarray of float64, shape (n_samples,)
    classes : ndarray or None
        For a binary loss the labels that -1 and +1 stand for: the smaller, the larger; for an ordinal one the
        labels that 0, 1, ... stand for, in ascending order.

    Raises
    ------
    DataError
        For labels of the wrong number, not finite, or that the loss cannot take.
    """
    if loss.task == "novelty":
        return np.zeros(n_samples), None
    labels = _numbers(y, loss)
    if labels.shape != (n_samples,):
        raise DataError(f"labels: found shape {labels.shape}, expected ({n_samples},), one a row of X")
    bad = np.flatnonzero(~np.isfinite(labels))
    if bad.size:
        raise DataError(f"labels: row {bad[0] + 1} has {labels[bad[0]]}, expected a finite number")
    classes = None
    if loss.task == "binary":
        classes = _two_classes(labels, loss)
        labels = np.where(labels == classes[1], 1.0, -1.0)
    elif loss.task == "ordinal":
        classes, codes = np.unique(labels, return_inverse=True)
        labels = codes.astype(np.float64)
        if not 2 <= len(classes) <= MOST_LEVELS:
            raise DataError(
                f"loss {loss.name}: found {len(classes)} different labels, expected 2 to {MOST_LEVELS}"
            )
    loss.check_labels(labels)
    return np.ascontiguousarray(labels), classes


def _numbers(y: Any, loss: Loss) -> Vector:
    if y is None:
        raise DataError(f"loss {loss.name}: labels are missing")
    if isinstance(y, list) and any(isinstance(label, tuple) for label in y):
        raise DataError(f"loss {loss.name}: the data has several labels a row, expected one")
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"labels: {error}; expected numbers") from None


def _two_classes(labels: Vector, loss: Loss) -> Vector:
    low, high = labels.min(initial=np.inf), labels.max(initial=-np.inf)
    if low >= high:
        only = f"one label ({low:g})" if labels.size else "no rows"
        raise DataError(f"loss {loss.name}: found {only}, expected two classes")
    other = labels[(labels != low) & (labels != high)]
    if other.size:
        raise DataError(
            f"loss {loss.name}: found labels {low:g}, {other[0]:g} and {high:g}, expected two classes"
        )
    return np.array([low, high])
