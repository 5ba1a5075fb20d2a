"""Labels as the losses take them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.weighting import fill_idle_labels
from bmrm.errors import DataError
from bmrm.losses import Loss

Vector = NDArray[np.float64]

MOST_LEVELS = 1000
"""More ordered classes than this are taken for a mistake: real targets, say."""

_OF_CLASSES = ("binary", "multiclass", "ordinal")


def encode(
    y: Any, n_samples: int, loss: Loss, weights: Vector | None = None
) -> tuple[Vector, NDArray[np.float64] | None]:
    """Check labels against the data and the loss, and code classes.

    Parameters
    ----------
    y : array_like of shape (n_samples,), or None
        None only where the loss ignores labels. For several labels a row a list of tuples or sets of labels,
        or a matrix of zeros and ones (an array, sparse, a frame, a list of rows) with a column for each of
        the labels 0, 1, ...
    n_samples : int
    loss : Loss
    weights : ndarray of float64, shape (n_samples,), optional
        The labels of rows of weight 0 are not looked at: classes are those of the other rows.

    Returns
    -------
    coded : ndarray of float64, shape (n_samples,), or (n_samples, K) for several labels a row
        Two classes as -1 and +1, K classes (ordered or not) as 0 to K - 1, each of K labels of a row as -1 or
        +1. A row of weight 0 has the label of the first that counts.
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
    y, among = fill_idle_labels(y, n_samples, weights), _among(weights)
    if loss.task in ("multilabel", "label_ranking"):
        return _label_sets(y, n_samples, loss)
    labels = _numbers(y, n_samples, loss)
    classes = None
    if loss.task == "binary":
        classes = _two_classes(labels, loss, among)
        if classes.tolist() != [-1.0, 1.0]:
            labels = np.where(labels == classes[1], 1.0, -1.0)
    elif loss.task in ("multiclass", "ordinal"):
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"loss {loss.name}: found one label ({classes[0]:g}){among}, expected two or more classes"
            )
        if loss.task == "ordinal" and len(classes) > MOST_LEVELS:
            raise DataError(
                f"loss {loss.name}: found {len(classes)} different labels, expected 2 to {MOST_LEVELS}"
            )
        labels = codes.astype(np.float64)
    loss.check_labels(labels)
    return np.ascontiguousarray(labels), classes


def _among(weights: Vector | None) -> str:
    """Say that rows of weight 0 do not count, where there are some."""
    return "" if weights is None or weights.all() else " in the rows of positive weight"


def distinct(y: Any, n_samples: int, loss: Loss, weights: Vector | None = None) -> list[float]:
    """Return the labels that occur, ascending; in a part of the rows they may be one, or none."""
    if weights is not None and not weights.any():
        return []
    y = fill_idle_labels(y, n_samples, weights)
    if loss.task in ("multilabel", "label_ranking"):
        _, each, _ = _flat_sets(y, n_samples, loss)
    else:
        each = _numbers(y, n_samples, loss)
    return [float(label) for label in np.unique(each)]


def extended(y: Any, labels: list[float]) -> Any:
    """Return labels that were `taken` of a part of the rows, and a row more for each of some labels."""
    if isinstance(y, np.ndarray) and y.ndim == 2:
        return np.vstack([y, np.arange(y.shape[1]) == np.array(labels)[:, None]])
    if isinstance(y, list) and any(isinstance(row, tuple) for row in y):
        return [*y, *((label,) for label in labels)]
    return np.append(arguments.numbers("labels", y), labels)


def _numbers(y: Any, n_samples: int, loss: Loss) -> Vector:
    if y is None:
        raise DataError(f"loss {loss.name}: labels are missing")
    if isinstance(y, list) and any(isinstance(label, tuple) for label in y):
        raise DataError(f"loss {loss.name}: the data has several labels a row, expected one")
    labels = label_numbers(y, n_samples, classes=loss.task in _OF_CLASSES)
    _check_finite(labels)
    return labels


def label_numbers(y: Any, n_samples: int, *, classes: bool = False) -> Vector:
    """Take in a label of each row; of ``classes`` raise for integers that float64 would merge."""
    return arguments.vector("labels", y, n_samples, exact=classes)


def _two_classes(labels: Vector, loss: Loss, among: str) -> Vector:
    low, high = labels.min(initial=np.inf), labels.max(initial=-np.inf)
    if low >= high:
        only = f"one label ({low:g})" if labels.size else "no rows"
        raise DataError(f"loss {loss.name}: found {only}{among}, expected two classes")
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
    rows = taken(y, loss)
    if isinstance(rows, np.ndarray):
        counts, each = (rows != 0).sum(axis=1), np.nonzero(rows)[1].astype(np.float64)
        classes = np.arange(float(rows.shape[1]))
    else:
        counts = np.array([len(row) for row in rows], np.int64)
        each = arguments.numbers("labels", [label for row in rows for label in row], exact=True)
        _check_finite(each, np.repeat(np.arange(len(counts)), counts))
        classes = np.unique(each)
    if len(counts) != n_samples:
        raise DataError(f"labels: found {len(counts)} rows of them, expected {n_samples}, one a row of X")
    return counts, each, classes


def taken(y: Any, loss: Loss) -> Any:
    """Take in labels whatever holds them, for `encode`, `distinct` and `extended`.

    Returns
    -------
    object
        For several labels a row a matrix of zeros and ones, or a list of tuples of labels; else ``y``.
    """
    if loss.task not in ("multilabel", "label_ranking"):
        return y
    if y is None:
        raise DataError(f"loss {loss.name}: labels are missing")
    return arguments.label_sets(y)
