"""Arithmetic of the weights of rows: what all that sees weights has in common.

A weight of 2 is a row that is there twice, a row of weight 0 is not there, and a factor that all weights have
in common means nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.vectors import Vector
from bmrm.errors import DataError


def balance_factors(sums: Vector) -> Vector:
    """Return the factors that give classes with these sums of weights the same sum, and leave that of all.

    Examples
    --------
    >>> balanced(np.array([1.0, 3.0]))
    array([2.        , 0.66666667])
    """
    return np.asarray(sums.sum() / sums / len(sums))


def scale_weights(weights: Vector, largest: Vector | None = None) -> Vector:
    """Return weights over a power of two that makes the largest about 1: products of them are safe then.

    No digit is lost, so that sums and quotients are those of the weights as they are.

    Parameters
    ----------
    weights : ndarray of shape (m,)
    largest : ndarray of shape (m,), optional
        For each weight the largest of those that it is held against; default: the largest of all.

    Examples
    --------
    >>> relative(np.array([1.0, 6.0, 0.0]))
    array([0.125, 0.75 , 0.   ])
    """
    most = weights.max(initial=0.0) if largest is None else largest
    return np.asarray(np.ldexp(weights, -np.frexp(most)[1]))


def effective_sample_size(weights: Vector) -> float:
    """Return how many rows of equal weight say as much: (sum s)^2 / sum s^2.

    References
    ----------
    Kish, Survey Sampling (1965), section 8.2.

    Examples
    --------
    >>> effective_number(np.array([3.0, 3.0])), effective_number(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    s = scale_weights(weights)
    total = float(s.sum())
    return total * total / float(np.einsum("i,i->", s, s))


def validate_weights(weights: Any, rows: int) -> Vector:
    """Take in the weights of some rows whose predictions are scored; all are 1 where there are none.

    Raises
    ------
    DataError
        For weights of another number than rows, negative or not finite.
    """
    if weights is None:
        return np.ones(rows)
    found = arguments.vector("weights", weights, rows, each="value")
    if not ((found >= 0.0) & (found < np.inf)).all():
        raise DataError("weights: found some that are negative or not finite")
    return found


def drop_idle_rows(
    values: Any, y: Any, weights: Any, columns: int | None = None
) -> tuple[Vector, Vector, Vector]:
    """Take in values predicted, labels and weights of rows; leave out those of weight 0.

    Parameters
    ----------
    values : array_like of shape (m,), or (m, columns)
    y : array_like of shape (m,)
        Labels; those of rows of weight 0 are not looked at.
    weights : array_like of shape (m,), or None
    columns : int, optional

    Returns
    -------
    values, labels, weights : ndarray of float64
        Of the rows that count.

    Examples
    --------
    >>> that_count([0.5, -1.0], (1, None), [3, 0])
    (array([0.5]), array([1.]), array([3.]))
    """
    found = arguments.predictions(values, columns)
    s = validate_weights(weights, len(found))
    labels = arguments.vector("labels", fill_idle_labels(y, len(found), s), len(found), each="row of values")
    arguments.check_finite("labels", labels)
    rows = s > 0.0
    return (found, labels, s) if rows.all() else (found[rows], labels[rows], s[rows])


def fill_idle_labels(y: Any, n_samples: int, weights: Vector | None) -> Any:
    """Return labels with that of the first row that counts in the place of those of rows of weight 0.

    So these rows have a label that a loss can take, and add no class.
    """
    if weights is None or weights.all():
        return y
    if not weights.any():  # of one rank among several, say: any label will do
        return np.zeros(n_samples)
    rows = np.where(weights > 0.0, np.arange(n_samples), np.argmax(weights > 0.0))
    if isinstance(y, (list, tuple)):
        return y if len(y) != n_samples else [y[i] for i in rows.tolist()]
    if arguments.is_sparse(y):
        y = y.tocsr()
    if not hasattr(y, "shape") or y.shape[:1] != (n_samples,):
        return y  # which is told of later
    return y.iloc[rows] if hasattr(y, "iloc") else y[rows]
