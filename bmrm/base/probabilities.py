"""The logistic function and softmax, safe from overflow."""

import numpy as np

from bmrm.base.vectors import Vector


def logistic(u: Vector) -> Vector:
    """Return ``1 / (1 + exp(-u))``.

    Examples
    --------
    >>> logistic(np.array([0.0, 1000.0]))
    array([0.5, 1. ])
    """
    return np.asarray(np.exp(-np.logaddexp(0.0, -u)))


def softmax(u: Vector) -> Vector:
    """Return ``exp(u_ic) / sum_c exp(u_ic)``, shape (m, K).

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0, -np.inf]]))
    array([[0.5, 0.5, 0. ]])
    """
    e, _ = _scaled_exponentials(u)
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def log_sum_exp(u: Vector) -> Vector:
    """Return ``log(sum_c exp(u_ic))``, shape (m,).

    Examples
    --------
    >>> log_sum_exp(np.array([[1000.0, 1000.0]])) - 1000.0
    array([0.69314718])
    """
    e, largest = _scaled_exponentials(u)
    return np.asarray(np.log(e.sum(axis=1)) + largest)


def _scaled_exponentials(u: Vector) -> tuple[Vector, Vector]:
    """Return ``exp(u_ic - max_c u_ic)`` and these maxima."""
    largest = u.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # of infinities, which come from products that overflow
        return np.exp(np.where(u == largest, 0.0, u - largest)), largest[:, 0]
