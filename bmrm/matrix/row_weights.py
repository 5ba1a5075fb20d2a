"""Combine sample and class weights into row weights."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from bmrm.base.arguments import number, refuse, vector
from bmrm.base.labels import Labels, label_text, label_vector
from bmrm.base.units import number_text
from bmrm.base.vectors import Vector
from bmrm.base.weighting import balance_factors, fill_idle_labels, warn_of_absent
from bmrm.errors import DataError, ParameterError

ClassWeight = dict[Any, float] | str


def row_weights(
    y: Any, n_samples: int, sample_weight: Any = None, class_weight: ClassWeight | None = None
) -> Vector | None:
    """Combine sample and class weights; return None if all are 1.

    "balanced" gives each class the same sum of weights.  Rows of weight 0 belong to no class, so they do not
    change the result.

    Raise `DataError` if the number of weights is wrong; if weights are negative, not finite or all zero, or
    their sum overflows; or if there are class weights and labels are not numbers. Raise `ParameterError` if
    class_weight is neither "balanced" nor a mapping, names labels that are text where the labels are numbers
    or the reverse, or has a weight that is not a positive number. Warn of a label that no row has.
    """
    weights = None
    if sample_weight is not None:
        weights = vector("sample weights", sample_weight, n_samples).copy()
        bad = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
        if bad.size:
            raise DataError(
                f"sample weights: row {bad[0] + 1} has {number_text(weights[bad[0]])}, "
                "expected a number of at least 0"
            )
    if class_weight is not None:
        if isinstance(y, list) and any(isinstance(label, (tuple, list)) for label in y):
            raise ParameterError("class_weight: found rows with several labels, expected one label per row")
        labels = _validate_labels(fill_idle_labels(y, n_samples, weights), n_samples)
        if weights is None:
            weights = np.ones(n_samples)
        else:
            _check_sum(weights)
        counted = weights > 0.0
        weights[counted] *= _class_factors(labels[counted], weights[counted], class_weight)
    if weights is not None:
        _check_sum(weights)
    return weights


def lam_from_c(C: float, total: float) -> float:
    """Convert LIBLINEAR's C to lam for weights with this sum.

    Examples
    --------
    >>> lam_from_c(0.5, 200.0)
    0.01
    """
    C = number("C", C)
    if not 0.0 < C < np.inf:
        raise ParameterError(f"C: found {number_text(C)}, expected a positive number")
    product = C * total
    if not (product > 0.0 and 0.0 < 1.0 / product < np.inf):
        raise ParameterError(
            f"C: found {number_text(C)}, expected a finite lam = 1 / (C times {total:g}) above 0"
        )
    return 1.0 / product


def _check_sum(weights: Vector) -> None:
    """Raise unless the weights can be divided by their sum."""
    with np.errstate(over="ignore"):
        total = weights.sum()
    if total == 0.0:
        raise DataError("sample weights: all are 0, expected some positive weight")
    if not np.finfo(np.float64).tiny <= total < np.inf:
        size = "large" if total > 1.0 else "small"
        raise DataError(f"sample weights: their sum is {total:g}, too {size} to divide by")


def _validate_labels(y: Any, n_samples: int) -> Labels:
    if y is None:
        raise DataError("class_weight: found no labels, expected one per row")
    return label_vector("labels", y, n_samples)


def _class_factors(labels: Labels, weights: Vector, class_weight: Any) -> Vector:
    classes, codes = np.unique(labels, return_inverse=True)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(balance_factors(np.bincount(codes, weights).astype(np.float64))[codes])
    if not isinstance(class_weight, Mapping):
        refuse("class_weight", class_weight, "'balanced' or one weight per label")
    factors, places = np.ones(len(classes)), {label: place for place, label in enumerate(classes.tolist())}
    for label, weight in class_weight.items():
        name = label_text(label)
        if not (isinstance(weight, Real) and 0.0 < float(weight) < np.inf):
            raise ParameterError(f"class_weight: label {name} has {weight!r}, expected a positive number")
        if label in places:
            factors[places[label]] = weight
        elif isinstance(label, str) != (classes.dtype.kind == "U"):
            raise ParameterError(f"class_weight: found label {name}, expected labels such as {classes[0]!r}")
    warn_of_absent(class_weight, places)
    return factors[codes]
