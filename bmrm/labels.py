"""Labels as the losses take them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError
from bmrm.io.csr import has_masked
from bmrm.losses import Loss
from bmrm.vectors import numbers

Vector = NDArray[np.float64]

MOST_LEVELS = 1000
"""More ordered classes than this are taken for a mistake: real targets, say."""


def encode(y: Any, n_samples: int, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
    """Check labels against the data and the loss, and code classes.

    Parameters
    ----------
    y : array_like of shape (n_samples,), or None
        None only where the loss ignores labels. For several labels a row a list of tuples, or a matrix of
        zeros and ones with a column for each of the labels 0, 1, ...
    n_samples : int
    loss : Loss

    Returns
    -------
    coded : ndarray of float64, shape (n_samples,), or (n_samples, K) for several labels a row
        Two classes as -1 and +1, K classes (ordered or not) as 0 to K - 1, each of K labels of a row as -1 or
        +1.
    classes : ndarray of shape (K,) or None
        The labels that these stand for, ascending; None for a loss without classes.

    Raises
    ------
    DataError
        For labels of the wrong number, not finite, or that the loss cannot take.
    """
    if loss.task == "novelty":
        return np.zeros(n_samples), None
    if loss.task == "structured":
        return y, None
    if loss.task in ("multilabel", "label_ranking"):
        return _label_sets(y, n_samples, loss)
    labels = _numbers(y, n_samples, loss)
    classes = None
    if loss.task == "binary":
        classes = _two_classes(labels, loss)
        if classes.tolist() != [-1.0, 1.0]:
            labels = np.where(labels == classes[1], 1.0, -1.0)
    elif loss.task in ("multiclass", "ordinal"):
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"loss {loss.name}: found one label ({classes[0]:g}), expected two or more classes"
            )
        if loss.task == "ordinal" and len(classes) > MOST_LEVELS:
            raise DataError(
                f"loss {loss.name}: found {len(classes)} different labels, expected 2 to {MOST_LEVELS}"
            )
        labels = codes.astype(np.float64)
    loss.check_labels(labels)
    return np.ascontiguousarray(labels), classes


def distinct(y: Any, n_samples: int, loss: Loss) -> list[float]:
    """Return the labels that occur, ascending; in a part of the rows they may be one, or none."""
    if loss.task in ("multilabel", "label_ranking"):
        _, each, _ = _flat_sets(y, n_samples, loss)
    else:
        each = _numbers(y, n_samples, loss)
    return [float(label) for label in np.unique(each)]


def extended(y: Any, labels: list[float]) -> Any:
    """Return the labels of a part of the rows, and a row more for each of some labels."""
    if isinstance(y, np.ndarray) and y.ndim == 2:
        return np.vstack([y, np.arange(y.shape[1]) == np.array(labels)[:, None]])
    if isinstance(y, list) and any(isinstance(row, (tuple, list, set, frozenset)) for row in y):
        return [*y, *((label,) for label in labels)]
    return np.append(np.asarray(y, np.float64), labels)


def _numbers(y: Any, n_samples: int, loss: Loss) -> Vector:
    if y is None:
        raise DataError(f"loss {loss.name}: labels are missing")
    if isinstance(y, list) and any(isinstance(label, tuple) for label in y):
        raise DataError(f"loss {loss.name}: the data has several labels a row, expected one")
    if has_masked(y):
        raise DataError("labels: found masked ones, expected a number in each place")
    labels = numbers("labels", y)
    if labels.shape != (n_samples,):
        raise DataError(f"labels: found shape {labels.shape}, expected ({n_samples},), one a row of X")
    _check_finite(labels)
    return labels


def _two_classes(labels: Vector, loss: Loss) -> Vector:
    low, high = labels.min(initial=np.inf), labels.max(initial=-np.inf)
    if low >= high:
        only = f"one label ({low:g})" if labels.size else "no rows"
        raise DataError(f"loss {loss.name}: found {only}, expected two classes")
    if np.count_nonzero(labels == low) + np.count_nonzero(labels == high) < labels.size:
        other = labels[(labels != low) & (labels != high)]
        raise DataError(
            f"loss {loss.name}: found labels {low:g}, {other[0]:g} and {high:g}, expected two classes"
        )
    return np.array([low, high])


def _check_finite(labels: Vector, rows: NDArray[np.intp] | None = None) -> None:
    """Raise for a label that is no finite number; ``rows`` are those that the labels stand in, if not all."""
    finite = np.isfinite(labels)
    if not finite.all():
        bad = int(np.argmin(finite))
        row = bad if rows is None else rows[bad]
        raise DataError(f"labels: row {row + 1} has {labels[bad]}, expected a finite number")


def _label_sets(y: Any, n_samples: int, loss: Loss) -> tuple[Vector, Vector]:
    """Code the labels of each row as a row of -1 and +1, and return what the columns stand for."""
    counts, each, classes = _flat_sets(y, n_samples, loss)
    if not len(each):
        raise DataError(f"loss {loss.name}: found no row with a label")
    coded = np.full((n_samples, len(classes)), -1.0)
    coded[np.repeat(np.arange(n_samples), counts), np.searchsorted(classes, each)] = 1.0
    return coded, classes


def _flat_sets(y: Any, n_samples: int, loss: Loss) -> tuple[NDArray[np.int64], Vector, Vector]:
    """Return the number of labels of each row, the labels of all rows, and what labels there are."""
    if y is None:
        raise DataError(f"loss {loss.name}: labels are missing")
    if isinstance(y, np.ndarray) and y.ndim == 2:
        if not np.isin(y, (0, 1)).all():
            raise DataError("labels: found a matrix, expected zeros and ones in it, a column a label")
        counts, each = (y != 0).sum(axis=1), np.nonzero(y)[1].astype(np.float64)
        classes = np.arange(float(y.shape[1]))
    else:
        sets = [row if isinstance(row, (tuple, list, set, frozenset)) else (row,) for row in y]
        counts = np.array([len(row) for row in sets], np.int64)
        each = numbers("labels", [label for row in sets for label in row])
        _check_finite(each, np.repeat(np.arange(len(counts)), counts))
        classes = np.unique(each)
    if len(counts) != n_samples:
        raise DataError(f"labels: found {len(counts)} rows of them, expected {n_samples}, one a row of X")
    return counts, each, classes
