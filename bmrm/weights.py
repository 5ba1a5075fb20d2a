"""Weights of rows, from sample and class weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import DataError, ParameterError

Vector = NDArray[np.float64]
ClassWeight = dict[float, float] | str


def row_weights(
    y: Any, n_samples: int, sample_weight: Any = None, class_weight: ClassWeight | None = None
) -> Vector | None:
    """Combine sample and class weights; None where all are equal to 1.

    Raises
    ------
    DataError
        For weights of the wrong number, negative, not finite, or all zero.
    ParameterError
        For a class weight of a label that does not occur, or one that is not a positive number.
    """
    weights = None
    if sample_weight is not None:
        weights = np.array(sample_weight, dtype=np.float64)
        if weights.shape != (n_samples,):
            raise DataError(
                f"sample weights: found shape {weights.shape}, expected ({n_samples},), one a row of X"
            )
        bad = np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))
        if bad.size:
            raise DataError(
                f"sample weights: row {bad[0] + 1} has {weights[bad[0]]:g}, expected a number of at least 0"
            )
    if class_weight is not None:
        if isinstance(y, list) and any(isinstance(label, (tuple, list)) for label in y):
            raise ParameterError("class_weight: rows with several labels have no weight by class")
        factors = _class_factors(np.asarray(y, np.float64), class_weight)
        weights = factors if weights is None else weights * factors
    if weights is not None and not weights.sum() > 0.0:
        raise DataError("sample weights: all are 0, expected some positive weight")
    return weights


def _class_factors(labels: Vector, class_weight: ClassWeight) -> Vector:
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ParameterError(
                f"class_weight: found {class_weight!r}, expected 'balanced' or a weight a label"
            )
        return np.asarray((len(labels) / (len(classes) * counts))[codes])
    factors = np.ones(len(classes))
    for label, weight in class_weight.items():
        if not 0.0 < weight < np.inf:
            raise ParameterError(f"class_weight: label {label:g} has {weight:g}, expected a positive number")
        where = np.flatnonzero(classes == label)
        if not where.size:
            raise ParameterError(f"class_weight: no row has label {label:g}")
        factors[where] = weight
    return factors[codes]
