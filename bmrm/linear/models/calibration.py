"""Calibration: from decision values to probabilities, fitted on rows that the model has not seen.

Platt's sigmoid is the maximum a posteriori fit of

    P(y = +1 | value) = 1 / (1 + exp(a value + b))

to smoothed targets, found by the Newton method of Lin, Lin, Weng.  Isotonic regression is the monotone step
function of least squares (pool adjacent violators), with straight lines between its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmrm.base.arguments import check_finite, numbers, predictions
from bmrm.base.distinct import distinct_values
from bmrm.base.interrupts import interruptible
from bmrm.base.labels import label_array, take_column
from bmrm.base.probabilities import logistic
from bmrm.base.vectors import Vector
from bmrm.base.weighting import effective_sample_size, scale_weights
from bmrm.errors import DataError, ParameterError

METHODS = ("platt", "isotonic")

MAX_NEWTON_STEPS = 100
"""Lin, Lin, Weng, Algorithm 1: maximum number of iterations."""

MIN_STEP_LENGTH = 1e-10
"""Lin, Lin, Weng, Algorithm 1: the line search gives up below this step length."""

HESSIAN_RIDGE = 1e-12
"""Lin, Lin, Weng, Algorithm 1: added to the diagonal of the Hessian, which may be singular."""

MIN_VALUE_SCALE = 1e-200
"""Decision values smaller than this are treated as 0: on their scale, slopes would overflow."""

GRADIENT_TOLERANCE = 1e-10
"""Newton's method stops when both derivatives of the mean log likelihood are below this."""


@dataclass(frozen=True)
class Platt:
    """A sigmoid of the decision value.

    Attributes
    ----------
    a, b : float
        P(larger label) = 1 / (1 + exp(a value + b)); ``a`` is negative if the model is of any use.
    """

    a: float
    b: float
    method: ClassVar[str] = "platt"

    def probability(self, values: ArrayLike) -> Vector:
        """Return the probability of the larger label at each decision value."""
        return logistic(-(self.a * predictions(values) + self.b))


@dataclass(frozen=True, eq=False)
class Isotonic:
    """A nondecreasing function of the decision value, linear between its knots and constant outside.

    Attributes
    ----------
    x, p : ndarray of shape (knots,)
        The knots: increasing decision values, and the probabilities at them.
    """

    x: Vector
    p: Vector
    method: ClassVar[str] = "isotonic"

    def probability(self, values: ArrayLike) -> Vector:
        """Return the probability of the larger label at each decision value."""
        return np.asarray(np.interp(predictions(values), self.x, self.p))


Calibration: TypeAlias = "Platt | Isotonic"


@interruptible
def calibrate(
    values: ArrayLike, y: ArrayLike, method: str = "platt", *, sample_weight: ArrayLike | None = None
) -> Calibration:
    """Fit a map from decision values to the probability of the larger label.

    Parameters
    ----------
    values : array_like of shape (n_samples,)
        Decision values of models that have not seen the rows, such as `bmrm.Selection.values`.
    y : array_like of shape (n_samples,)
        Labels with two distinct values.
    method : {"platt", "isotonic"}, default "platt"
        A sigmoid with two parameters, or any nondecreasing function, which needs some thousand rows.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative. A row of weight 0 takes no part, and a common factor of all weights has no effect. In
        isotonic regression, a row of weight 2 counts as two equal rows. Platt's sigmoid is fitted with these
        weights to targets smoothed by the effective number of rows of each class, (sum s)^2 / sum s^2, which
        is the number of rows if weights are equal.

    Returns
    -------
    Platt or Isotonic
        Its ``probability(values)`` maps new decision values.

    Raises
    ------
    ParameterError
        If the method is unknown.
    DataError
        If values, labels and weights do not fit together, or the labels are not of two classes.
    Interrupted
        On Ctrl-C.

    References
    ----------
    Platt, in Advances in Large Margin Classifiers, MIT Press (1999). Lin, Lin, Weng, A note on Platt's
    probabilistic outputs for support vector machines, Machine Learning 68 (2007) 267. Kish, Survey Sampling
    (1965), section 8.2: effective numbers. Zadrozny, Elkan, KDD 2002, 694. Barlow, Bartholomew, Bremner,
    Brunk, Statistical Inference under Order Restrictions (1972).

    Examples
    --------
    >>> import bmrm
    >>> found = bmrm.calibrate([-2.0, -1.0, 1.0, 2.0, -0.5, 0.5], [0, 0, 1, 1, 1, 0])
    >>> found.probability([-3.0, 0.0, 3.0]).round(2)
    array([0.13, 0.5 , 0.87])
    """
    if method not in METHODS:
        raise ParameterError(f"calibration: found {method!r}, expected one of {', '.join(METHODS)}")
    u = numbers("calibration: values", values)
    labels = take_column("calibration: labels", label_array("calibration: labels", y))
    weights = np.ones(u.shape) if sample_weight is None else numbers("calibration: weights", sample_weight)
    if u.ndim != 1 or labels.shape != u.shape or weights.shape != u.shape:
        raise DataError(
            f"calibration: found {u.shape} values, {labels.shape} labels and {weights.shape} weights, "
            "expected the same number of each"
        )
    if not np.isfinite(u).all():
        raise DataError("calibration: found decision values that are not finite")
    if labels.dtype.kind == "f":
        check_finite("calibration: labels", labels)
    if not ((weights >= 0.0) & (weights < np.inf)).all():
        raise DataError("calibration: found weights that are negative or not finite")
    weights = scale_weights(weights)
    counted = weights > 0.0
    u, labels, weights = u[counted], labels[counted], weights[counted]
    classes = distinct_values(labels)
    if len(classes) != 2:
        raise DataError(f"calibration: found {len(classes)} classes, expected two")
    return (_platt if method == "platt" else _isotonic)(u, labels == classes[1], weights)


def _platt(values: Vector, positive: NDArray[np.bool_], weights: Vector) -> Platt:
    """Algorithm 1 of Lin, Lin, Weng: Newton's method with backtracking, safe from overflow."""
    # Targets as if each class had one more row, with the wrong label: Platt's guard against certainty.  The
    # number of rows of a class is an effective number, not a sum of weights, whose scale means nothing.
    up, down = effective_sample_size(weights[positive]), effective_sample_size(weights[~positive])
    target = np.where(positive, (up + 1.0) / (up + 2.0), 1.0 / (down + 2.0))
    weights = weights / weights.sum()
    # Values are scaled to a maximum of 1, so that the tolerance does not depend on their scale.
    scale = max(float(np.abs(values).max()), MIN_VALUE_SCALE)
    x = values / scale

    def negative_log_likelihood(a: float, b: float) -> float:
        u = a * x + b
        return float(np.einsum("i,i->", weights, target * u + np.logaddexp(0.0, -u)))

    a, b = 0.0, float(np.log((down + 1.0) / (up + 1.0)))
    value = negative_log_likelihood(a, b)
    for _ in range(MAX_NEWTON_STEPS):
        p = logistic(-(a * x + b))
        first, second = weights * (target - p), weights * p * (1.0 - p)  # derivatives in a x_i + b
        ga, gb = float(np.einsum("i,i->", first, x)), float(first.sum())
        if abs(ga) < GRADIENT_TOLERANCE and abs(gb) < GRADIENT_TOLERANCE:
            break
        haa = float(np.einsum("i,i,i->", second, x, x)) + HESSIAN_RIDGE
        hab = float(np.einsum("i,i->", second, x))
        hbb = float(second.sum()) + HESSIAN_RIDGE
        det = haa * hbb - hab * hab
        da, db = -(hbb * ga - hab * gb) / det, -(haa * gb - hab * ga) / det
        descent, step = ga * da + gb * db, 1.0
        while step >= MIN_STEP_LENGTH:
            tried = negative_log_likelihood(a + step * da, b + step * db)
            if tried < value + 1e-4 * step * descent:
                a, b, value = a + step * da, b + step * db, tried
                break
            step *= 0.5
        else:
            break  # rounding hides any further descent
    return Platt(a / scale, b)


def _isotonic(values: Vector, positive: NDArray[np.bool_], weights: Vector) -> Isotonic:
    from scipy.optimize import isotonic_regression

    x, place = np.unique(values, return_inverse=True)
    total = np.bincount(place, weights)
    mean = np.bincount(place, weights * positive) / total
    p = np.clip(isotonic_regression(mean, weights=total).x, 0.0, 1.0)
    # Only the two ends of each constant stretch are knots.
    is_knot = np.ones(len(p), bool)
    is_knot[1:-1] = (p[1:-1] != p[:-2]) | (p[1:-1] != p[2:])
    return Isotonic(x[is_knot], p[is_knot])
