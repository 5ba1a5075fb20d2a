"""Arithmetic of row weights, shared by all code that uses them.

A row of weight 2 counts like two rows, a row of weight 0 does not count, and a common factor of all weights
changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.labels import Labels, comparable, label_text, label_vector
from bmrm.base.notices import warn
from bmrm.base.sparse_tensors import as_scipy
from bmrm.base.vectors import Vector
from bmrm.errors import DataError

_MAX_ABSENT_SHOWN = 10  # labels in a message


def balance_factors(sums: Vector) -> Vector:
    """Return one factor per class that makes the sums of the class weights equal and keeps their total.

    Examples
    --------
    >>> balance_factors(np.array([1.0, 3.0]))
    array([2.        , 0.66666667])
    """
    return np.asarray(sums.sum() / sums / len(sums))


def scale_weights(weights: Vector, largest: Vector | None = None) -> Vector:
    """Divide weights by a power of two so that the largest is about 1 and products cannot overflow.

    No digit is lost, so ratios of sums stay the same.

    - ``weights``, shape (m,)
    - ``largest``, shape (m,): for each weight, the largest of those it is compared with; default: the largest
      of all

    Examples
    --------
    >>> scale_weights(np.array([1.0, 6.0, 0.0]))
    array([0.125, 0.75 , 0.   ])
    """
    scale = weights.max(initial=0.0) if largest is None else largest
    return np.asarray(np.ldexp(weights, -np.frexp(scale)[1]))


def multiply_weights(given: NDArray[Any], exponent: int) -> tuple[Vector, float]:
    """Return weights times a power of two, and the least of those that lose digits, infinity if none does."""
    weights = np.ldexp(given.astype(np.float64, copy=False), exponent)
    changed = np.ldexp(weights, -exponent) != given
    return weights, float(np.min(given, initial=np.inf, where=changed))


def effective_sample_size(weights: Vector) -> float:
    """Return the number of rows of equal weight that carry the same information: (sum s)^2 / sum s^2.

    References
    ----------
    Kish, Survey Sampling (1965), section 8.2.

    Examples
    --------
    >>> effective_sample_size(np.array([3.0, 3.0])), effective_sample_size(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    s = scale_weights(weights)
    total = float(s.sum())
    return total * total / float(np.einsum("i,i->", s, s))


def validate_weights(weights: Any, rows: int) -> Vector:
    """Validate the weights of rows whose predictions are scored; without weights, all are 1.

    Raise `DataError` if the number of weights is wrong, or some are negative or not finite.
    """
    if weights is None:
        return np.ones(rows)
    found = arguments.vector("weights", weights, rows, each="value")
    if not ((found >= 0.0) & (found < np.inf)).all():
        raise DataError(
            "weights: found negative or non-finite weights, expected finite numbers of at least 0"
        )
    return found


def drop_idle_rows(
    values: Any, y: Any, weights: Any, columns: int | None = None, *, classes: Labels | None = None
) -> tuple[Vector, Any, Vector]:
    """Validate predicted values, labels and weights, and drop the rows of weight 0.

    The values have shape (m,), or (m, columns). Labels of rows of weight 0 are ignored; those of the others
    are numbers, or with ``classes`` labels that can be compared with these.

    Examples
    --------
    >>> drop_idle_rows([0.5, -1.0], (1, None), [3, 0])
    (array([0.5]), array([1.]), array([3.]))
    """
    found = arguments.predictions(values, columns)
    s = validate_weights(weights, len(found))
    y, each = fill_idle_labels(y, len(found), s), "row of values"
    if classes is None:
        labels = arguments.vector("labels", y, len(found), each=each)
        arguments.check_finite("labels", labels)
    else:
        labels = label_vector("labels", y, len(found), each=each)
    rows = s > 0.0
    if not rows.all():
        found, labels, s = found[rows], labels[rows], s[rows]
    return found, labels if classes is None else comparable(labels, classes), s


def fill_idle_labels(y: Any, n_samples: int, weights: Vector | None) -> Any:
    """Give rows of weight 0 the label of the first row with positive weight.

    Then every row has a label that the loss accepts, and idle rows add no class.
    """
    if weights is None or weights.all():
        return y
    if not weights.any():  # possible on one rank of several; any label will do
        return np.zeros(n_samples)
    rows = np.where(weights > 0.0, np.arange(n_samples), np.argmax(weights > 0.0))
    if isinstance(y, (list, tuple)):
        return y if len(y) != n_samples else [y[i] for i in rows.tolist()]
    y = as_scipy("labels", y).tocsr() if arguments.is_sparse(y) else arguments.read_foreign("labels", y)
    if not hasattr(y, "shape") or y.shape[:1] != (n_samples,):
        return y  # a later check reports the wrong shape
    return y.iloc[rows] if hasattr(y, "iloc") else y[rows]


def warn_of_absent(class_weight: Mapping[Any, float], present: Collection[Any]) -> None:
    """Warn of class weights that change nothing, as LIBLINEAR does."""
    absent = [label_text(label) for label in class_weight if label not in present]
    if absent:
        text = f"class_weight: no row has label {', '.join(absent[:_MAX_ABSENT_SHOWN])}"
        warn(f"{text}, whose weight has no effect")
