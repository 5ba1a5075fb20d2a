"""Validate labels and code them in the form that the losses expect."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.distinct import distinct_values
from bmrm.base.labels import (
    Labels,
    append,
    label_array,
    label_sets,
    label_text,
    label_vector,
    take_column,
)
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import fill_idle_labels
from bmrm.errors import DataError
from bmrm.losses import Loss

MAX_ORDINAL_CLASSES = 1000
"""More ordered classes than this are treated as a mistake, such as real-valued targets."""


def encode(y: Any, n_samples: int, loss: Loss, weights: Vector | None = None) -> tuple[Vector, Labels | None]:
    """Check labels against the data and the loss, and code classes; return codes and the labels of the codes.

    Labels are None only if the loss ignores them. For several labels per row, they are a list of tuples or
    sets of labels, or a matrix of zeros and ones (an array, sparse, a frame, a list of rows) with one column
    for each of the labels 0, 1, ...

    Two classes are coded as -1 and +1, K classes (ordered or not) as 0 to K - 1, each of K labels of a row as
    -1 or +1, in K columns. The labels of the codes ascend, and have the type of the given ones; they are None
    for a loss without classes. Labels of rows of weight 0 are ignored: such a row gets the label of the first
    row of positive weight. Raise `DataError` if the number of labels is wrong, a label is not finite, or the
    loss does not accept them.
    """
    if loss.task == "novelty":
        return np.zeros(n_samples), None
    if loss.task == "structured":
        return y, None
    y, among = fill_idle_labels(y, n_samples, weights), _among(weights)
    if loss.task in ("multilabel", "label_ranking"):
        return _label_sets(y, n_samples, loss)
    labels = row_labels(y, n_samples, loss)
    classes = None
    if loss.task == "binary":
        classes = _two_classes(labels, loss, among)
        if labels.dtype != np.float64 or classes.tolist() != [-1.0, 1.0]:
            labels = np.where(labels == classes[1], 1.0, -1.0)
    elif loss.task in ("multiclass", "ordinal"):
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"loss {loss.name}: found one label ({label_text(classes[0])}){among}, "
                "expected two or more classes"
            )
        if loss.task == "ordinal" and len(classes) > MAX_ORDINAL_CLASSES:
            raise DataError(
                f"loss {loss.name}: found {len(classes)} different labels, "
                f"expected 2 to {MAX_ORDINAL_CLASSES}"
            )
        labels = codes.astype(np.float64)
    loss.check_labels(labels)
    return np.ascontiguousarray(labels), classes


def _among(weights: Vector | None) -> str:
    """Return a phrase for messages which says that rows of weight 0 do not count, if there are any."""
    return "" if weights is None or weights.all() else " in the rows of positive weight"


def distinct_labels(y: Any, n_samples: int, loss: Loss, weights: Vector | None = None) -> Labels | None:
    """Return the distinct labels, ascending; None if all weights are 0."""
    if weights is not None and not weights.any():
        return None
    y = fill_idle_labels(y, n_samples, weights)
    if loss.task in ("multilabel", "label_ranking"):
        _, each, _ = _flat_sets(y, n_samples, loss)
    else:
        each = row_labels(y, n_samples, loss)
    return distinct_values(each)


def _no_labels(loss: Loss) -> DataError:
    return DataError(f"loss {loss.name}: found no labels, expected one per row (bmrm-train --labels FILE)")


def append_labels(y: Any, labels: Labels) -> Any:
    """Append one row for each of ``labels`` to labels converted by `convert_label_sets`."""
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1:
        return np.vstack([y, np.arange(y.shape[1]) == labels[:, None]])
    if isinstance(y, list) and any(isinstance(row, tuple) for row in y):
        return [*y, *((label,) for label in labels.tolist())]
    return append(take_column("labels", label_array("labels", y)), labels)


def row_labels(y: Any, n_samples: int, loss: Loss) -> Labels:
    """Convert labels, one per row: classes in their own type, numbers to float64."""
    if y is None:
        raise _no_labels(loss)
    if isinstance(y, list) and any(isinstance(label, tuple) for label in y):
        raise DataError(f"loss {loss.name}: found several labels per row, expected one")
    if loss.task in ("binary", "multiclass"):
        return label_vector("labels", y, n_samples)
    if loss.task == "ordinal":
        return _ordered(label_vector("labels", y, n_samples), loss)
    found = take_column("labels", arguments.numbers("labels", y))
    labels = arguments.vector("labels", found, n_samples)
    _check_finite(labels)
    return labels


def _ordered(labels: Labels, loss: Loss) -> Labels:
    """Raise for classes whose order is not that of numbers, and integers that metrics would merge."""
    if labels.dtype.kind == "U":
        raise DataError(
            f"loss {loss.name}: found text as labels, expected numbers in the order of the classes"
        )
    arguments.numbers("labels", labels, exact=True)
    return labels


def _two_classes(labels: Labels, loss: Loss, among: str) -> Labels:
    if labels.dtype.kind == "U":
        found = distinct_values(labels)
    else:  # the extremes are cheaper than the order
        found = np.array([labels.min(), labels.max()]) if labels.size else labels
    if not len(found) or found[0] == found[-1]:
        only = f"one label ({label_text(found[0])})" if labels.size else "no rows"
        raise DataError(f"loss {loss.name}: found {only}{among}, expected two classes")
    low, high = found[0], found[-1]
    if np.count_nonzero(labels == low) + np.count_nonzero(labels == high) < labels.size:
        other = labels[(labels != low) & (labels != high)][0]
        raise DataError(
            f"loss {loss.name}: found labels {label_text(low)}, {label_text(other)} and {label_text(high)}, "
            "expected two classes (the losses multiclass and softmax take more)"
        )
    return found


def _check_finite(labels: Labels, rows: NDArray[np.intp] | None = None) -> None:
    """Raise for a label that is not finite; ``rows`` are the rows of the labels, if not one per row."""
    finite = np.isfinite(labels)
    if not finite.all():
        bad = int(np.argmin(finite))
        row = bad if rows is None else rows[bad]
        raise DataError(f"labels: row {row + 1} has {labels[bad]}, expected a finite number")


def _label_sets(y: Any, n_samples: int, loss: Loss) -> tuple[Vector, Labels]:
    """Code the labels of each row as a row of -1 and +1; return also the labels of the columns."""
    counts, each, classes = _flat_sets(y, n_samples, loss)
    if not len(each):
        raise DataError(f"loss {loss.name}: found no row with a label")
    coded = np.full((n_samples, len(classes)), -1.0)
    coded[np.repeat(np.arange(n_samples), counts), np.searchsorted(classes, each)] = 1.0
    return coded, classes


def _flat_sets(y: Any, n_samples: int, loss: Loss) -> tuple[Indices, Labels, Labels]:
    """Return the number of labels of each row, the concatenated labels of all rows, and the classes."""
    rows = convert_label_sets(y, loss)
    if isinstance(rows, np.ndarray):
        counts, each = (rows != 0).sum(axis=1), np.nonzero(rows)[1]
        classes = np.arange(rows.shape[1])
    else:
        counts = np.array([len(row) for row in rows], np.int64)
        each = label_array("labels", [label for row in rows for label in row], each="label")
        if each.dtype.kind == "f":
            _check_finite(each, np.repeat(np.arange(len(counts)), counts))
        classes = distinct_values(each)
    if len(counts) != n_samples:
        raise DataError(f"labels: found {len(counts)} rows, expected {n_samples}, one per row of X")
    return counts, each, classes


def convert_label_sets(y: Any, loss: Loss) -> Any:
    """Convert labels to the form that `encode`, `distinct_labels` and `append_labels` accept.

    Several labels per row become a matrix of zeros and ones or a list of tuples of labels.
    """
    if loss.task not in ("multilabel", "label_ranking"):
        return y
    if y is None:
        raise _no_labels(loss)
    return label_sets(y)
