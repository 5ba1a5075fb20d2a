"""Metrics of predictions, accumulated chunk by chunk.

Each accumulator takes decision values and labels one chunk at a time, so files larger than memory can be
scored.  Only metrics that depend on the order of all rows, such as the area under the ROC curve, keep every
score, at 8 bytes per row, and another 8 for its weight.

Means and shares are weighted: a row of weight 2 counts as two equal rows, and a common factor of all weights
has no effect.  Counts in a report (``rows``, ``correct``, ``novel``, ``groups``) ignore weights.  A row of
weight 0 takes no part in either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from bmrm.base.arguments import array, check_finite, integer, number, predictions, refuse, vector
from bmrm.base.distinct import distinct_values
from bmrm.base.groups import index_names, validate_groups
from bmrm.base.labels import label_vector
from bmrm.base.units import number_text
from bmrm.base.vectors import Vector
from bmrm.base.weighting import drop_idle_rows, fill_idle_labels, scale_weights, validate_weights
from bmrm.errors import DataError, ParameterError
from bmrm.linear.models.class_metrics import (
    Accuracy,
    LabelRankingMetrics,
    MulticlassMetrics,
    MultilabelMetrics,
    known_classes,
)
from bmrm.losses.ranking import discount_divisor, gain
from bmrm.matrix.row_weights import row_weights

if TYPE_CHECKING:
    from bmrm.linear.models.model import Model

TopK: TypeAlias = 'float | Literal["positives"]'
"""A number of rows at the top: itself, a fraction below 1 of all rows, or that of the positive rows."""

_SEARCH_BLOCK_ROWS = 1 << 18  # rows ranked at a time, sorted in cache


class Metrics(Protocol):
    """The interface of every accumulator.

    Examples
    --------
    >>> metrics: Metrics = RegressionMetrics()
    >>> metrics.update(np.array([1.0, 3.0]), np.array([1.0, 2.0]))
    >>> metrics.report()["mse"]
    0.5
    """

    def update(self, values: Vector, y: Any, weights: ArrayLike | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        values : ndarray of float64, shape (m,), or (m, K) for K classes
            What is measured; an accumulator says if these are not decision values.
        y : ndarray of float64, shape (m,)
            True labels, as the model has them.
        weights : array_like, shape (m,), optional
            At least 0; default: 1.
        """

    def report(self) -> dict[str, float | int | None]:
        """Return the metrics of all rows so far; None for an undefined metric."""


def roc_auc(y: ArrayLike, score: ArrayLike, sample_weight: ArrayLike | None = None) -> float | None:
    """Return the area under the ROC curve: P(score of a positive > score of a negative), ties counting half.

    Parameters
    ----------
    y : array_like of shape (n_samples,)
        Labels of two classes, numbers or text; the larger one is positive.
    score : array_like of shape (n_samples,)
        The higher, the more likely positive.
    sample_weight : array_like of shape (n_samples,), optional
        Nonnegative; a pair of rows has the product of their weights, and a row of weight 0 takes no part.

    Returns
    -------
    float or None
        None if there is one class only. Without weights, exact up to one rounding.

    Raises
    ------
    DataError
        y has more than two values, or lengths differ, or a number is NaN.

    References
    ----------
    Hanley, McNeil, Radiology 143 (1982) 29.

    Examples
    --------
    >>> roc_auc([1, 0, 1, 0], [2.0, 1.0, 3.0, 2.0])
    0.875
    """
    values = predictions(score)
    weights = row_weights(None, len(values), sample_weight)
    labels = label_vector("y", fill_idle_labels(y, len(values), weights), len(values), each="score")
    if weights is not None:
        labels, values, weights = (array[weights > 0.0] for array in (labels, values, weights))
    classes = distinct_values(labels)
    if len(classes) > 2:
        raise DataError(f"y: found {len(classes)} different values, expected two classes")
    positive = labels == classes[-1:]
    up_down = None if weights is None else (weights[positive], weights[~positive])
    return area_under_curve(values[positive], values[~positive], up_down)


def area_under_curve(
    positive: Vector, negative: Vector, weights: tuple[Vector, Vector] | None
) -> float | None:
    """Return the area of `bmrm.roc_auc` from the scores of the two classes.

    Parameters
    ----------
    positive, negative : ndarray of float64, shape (m,) and (n,)
        Scores.
    weights : pair of ndarray of float64, shapes (m,) and (n,), or None
        Above 0; None means 1.

    Returns
    -------
    float or None
        None without rows of both classes.

    Examples
    --------
    >>> area_under_curve(np.array([2.0, 3.0]), np.array([1.0, 2.0]), None)
    0.875
    """
    pairs = len(positive) * len(negative)
    if not pairs:
        return None
    if weights is not None:
        return _weighted_auc(positive, negative, *weights)
    ordered = np.sort(negative)
    twice = 0
    for start in range(0, len(positive), _SEARCH_BLOCK_ROWS):
        block = np.sort(positive[start : start + _SEARCH_BLOCK_ROWS])  # sorted, the searches stay in cache
        twice += int(np.searchsorted(ordered, block, "left").sum())
        twice += int(np.searchsorted(ordered, block, "right").sum())
    return twice / (2 * pairs)


def _weighted_auc(positive: Vector, negative: Vector, up: Vector, down: Vector) -> float:
    order = np.argsort(negative)
    ordered, up, down = negative[order], scale_weights(up), scale_weights(down)[order]
    sums = np.append(0.0, np.cumsum(down))
    below = sum(sums[np.searchsorted(ordered, positive, side)] for side in ("left", "right"))
    return float((up * below).sum() / (2.0 * up.sum() * sums[-1]))


def precision_recall_at(
    values: Vector, relevant: npt.NDArray[np.bool_], k: float, weights: Vector | None = None
) -> tuple[float, float]:
    """Return precision and recall of the k rows with the highest values.

    Rows that tie for the last positions share them: the result is the mean over all ways to break the tie.

    Parameters
    ----------
    values : ndarray of float64, shape (m,)
    relevant : ndarray of bool, shape (m,)
        At least one row must be relevant.
    k : float
        From 1 to m; with weights, a sum of weights above 0 and up to their total.
    weights : ndarray of float64, shape (m,), optional
        Positive; the number of positions that each row takes.

    Returns
    -------
    precision, recall : float
        From 0 to 1.

    Examples
    --------
    >>> precision_recall_at(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, True]), 2)
    (0.75, 0.5)
    """
    values = predictions(values)
    found = vector("relevant", relevant, len(values), each="row of values")
    check_finite("relevant", found)
    relevant = found != 0.0
    k, rows = number("k", k), len(values)
    if weights is None:
        if not (1 <= k <= rows and k == int(k)):
            raise ParameterError(f"k: found {number_text(k)}, expected 1 to the number of rows, {rows}")
        last = float(np.partition(values, -int(k))[-int(k)])
    else:
        weights = _positive("weights", weights, rows)
        order = np.argsort(-values)
        sums = np.cumsum(weights[order])
        if not 0.0 < k <= (1.0 + 1e-9) * float(sums.max(initial=0.0)):
            raise ParameterError(
                f"k: found {number_text(k)}, expected a positive number up to the sum of the weights"
            )
        position = int(np.searchsorted(sums, k))
        last = float(values[order[min(position, rows - 1)]])  # rounding may hide the last position
    above, tied = values > last, values == last
    remaining = k - _total_weight(above, weights)
    share = remaining / _total_weight(tied, weights)
    hits = _total_weight(relevant & above, weights) + share * _total_weight(relevant & tied, weights)
    return hits / k, hits / _total_weight(relevant, weights)


def _positive(what: str, given: Any, length: int) -> Vector:
    weights = vector(what, given, length, each="value")
    if not ((weights > 0.0) & (weights < np.inf)).all():
        raise DataError(f"{what}: found some that are not positive or not finite, expected positive numbers")
    return weights


def _total_weight(chosen: npt.NDArray[np.bool_], weights: Vector | None) -> float:
    """Return the sum of the weights of the chosen rows; without weights, their number."""
    return float(np.count_nonzero(chosen) if weights is None else weights[chosen].sum())


class BinaryMetrics(Metrics):
    """Accuracy, precision, recall and F1 of the predicted labels, and metrics of the order of the values.

    Parameters
    ----------
    classes : array_like of shape (2,)
        The labels (negative, positive). A row with another label counts as wrong, as in LIBLINEAR, and takes
        no part in the other metrics.
    beta : float, optional
        Report F_beta as well.
    k : float or "positives", optional
        Report precision and recall at the top k as well: a number of rows, or if below 1 a fraction of them,
        or the number of positive rows.

    Examples
    --------
    >>> metrics = BinaryMetrics((-1.0, 1.0))
    >>> metrics.update(np.array([0.5, -1.0, 2.0]), np.array([1.0, -1.0, -1.0]))
    >>> report = metrics.report()
    >>> report["rows"], report["correct"], report["accuracy"], report["auc"], report["precision"]
    (3, 2, 0.6666666666666666, 0.5, 0.5)
    """

    def __init__(self, classes: ArrayLike, *, beta: float | None = None, k: TopK | None = None) -> None:
        self._classes = known_classes(classes, 2)
        self._beta = None if beta is None else number("beta", beta)
        self._k = k if k is None or k == "positives" else number("k", k)
        self._accuracy = Accuracy()
        self._positive, self._negative = _Scores(), _Scores()

    def update(self, values: Vector, y: Vector, weights: ArrayLike | None = None) -> None:
        """Add rows: decision values, labels and weights, each of shape (m,)."""
        values, y, s = drop_idle_rows(values, y, weights, classes=self._classes)
        negative, positive = (y == label for label in self._classes)
        self._accuracy.add(np.where(values > 0, positive, negative), s)
        for side, rows in ((self._positive, positive), (self._negative, negative)):
            side.add(values[rows], None if weights is None else s[rows])

    def report(self) -> dict[str, float | int | None]:
        """Return the metrics.

        Returns
        -------
        dict
            ``rows``, ``correct``, ``accuracy`` (a fraction), ``auc``, ``precision``, ``recall`` and ``f1`` of
            the labels predicted by sign, ``break_even`` (precision at the top k, where k is the number of
            positive rows), and if asked for ``f_beta``, ``precision_at_k`` and ``recall_at_k``.

        Raises
        ------
        ParameterError
            If there is a k, which is a number of rows, and weights differ.
        """
        (positive, up), (negative, down) = self._positive.joined(), self._negative.joined()
        alike = _are_equal(up, down)
        if isinstance(self._k, float) and not alike:
            raise ParameterError(
                "metrics at k: found different weights, expected equal weights, or 0: k is a number of rows"
            )
        weights = None if alike else (up, down)
        s, t = (None, None) if weights is None else weights
        all_positive = _total_weight(np.ones(len(positive), bool), s)
        found, false = _total_weight(positive > 0, s), _total_weight(negative > 0, t)
        recall = found / all_positive if len(positive) else None
        report: dict[str, float | int | None] = {
            **self._accuracy.report(),
            "auc": area_under_curve(positive, negative, weights),
            "precision": found / (found + false) if found + false else None,
            "recall": recall,
            "f1": self._f(found, false, all_positive, 1.0),
            "break_even": self._at(positive, negative, all_positive, weights)[0],
        }
        if self._beta is not None:
            report["f_beta"] = self._f(found, false, all_positive, self._beta)
        if self._k is not None:
            if isinstance(self._k, float):
                rows = len(positive) + len(negative)
                k = int(self._k) if self._k >= 1 else max(1, round(self._k * rows))
                at_k = self._at(positive, negative, k) if k <= rows else (None, None)
            else:
                at_k = self._at(positive, negative, all_positive, weights)
            report["precision_at_k"], report["recall_at_k"] = at_k
        return report

    @staticmethod
    def _f(found: float, false: float, positives: float, beta: float) -> float | None:
        """Return F_beta from the numbers of true positives, false positives and positives; or None."""
        square = beta * beta
        return (1 + square) * found / (found + false + square * positives) if positives else None

    @staticmethod
    def _at(
        positive: Vector, negative: Vector, k: float, weights: tuple[Vector, Vector] | None = None
    ) -> tuple[float | None, float | None]:
        """Return precision and recall at k; None if there is no positive row."""
        if not len(positive):
            return None, None
        relevant = np.arange(len(positive) + len(negative)) < len(positive)
        s = None if weights is None else np.concatenate(weights)
        return precision_recall_at(np.concatenate([positive, negative]), relevant, k, s)


class _Scores:
    """Collects values, with their weights if some are given."""

    def __init__(self) -> None:
        self._values: list[Vector] = []
        self._weights: list[Vector] = []
        self._size = 0

    def add(self, values: Vector, weights: Vector | None) -> None:
        """Add values; without weights all of them have weight 1."""
        if weights is not None and not self._weights:
            self._weights.append(np.ones(self._size))
        self._size += len(values)
        self._values.append(values)
        if self._weights:
            self._weights.append(np.ones(len(values)) if weights is None else weights)

    def joined(self) -> tuple[Vector, Vector]:
        """Return all values and their weights; the weights are a single 1 if none was given."""
        self._values = [np.concatenate([np.zeros(0), *self._values])]
        self._weights = [np.concatenate(self._weights)] if self._weights else []
        return self._values[0], self._weights[0] if self._weights else np.ones(1)


def _are_equal(*weights: Vector) -> bool:
    every = np.concatenate(weights)
    return not len(every) or bool(every.min() == every.max())


class RegressionMetrics(Metrics):
    """Errors of predicted values, their coefficient of determination, and LIBLINEAR's squared correlation.

    References
    ----------
    Chan, Golub, LeVeque, The American Statistician 37 (1983) 242: merging moments of two samples.

    Examples
    --------
    >>> metrics = RegressionMetrics()
    >>> metrics.update(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> report = metrics.report()
    >>> report["mse"], report["mae"], round(report["r2"], 4), report["squared_correlation"]
    (2.0, 1.0, 0.1111, 1.0)
    """

    def __init__(self) -> None:
        self._rows = 0
        self._weight = self._squares = self._absolutes = 0.0
        self._means = np.zeros(2)
        self._scatter = np.zeros((2, 2))

    def update(self, values: Vector, y: Vector, weights: ArrayLike | None = None) -> None:
        """Add rows: predictions, targets and weights, each of shape (m,)."""
        values, y, s = drop_idle_rows(values, y, weights)
        if not len(y):
            return
        errors, here = values - y, float(s.sum())
        self._squares += float((s * errors) @ errors)
        self._absolutes += float((s * np.abs(errors)).sum())
        pairs = np.stack([values, y])
        means = (s * pairs).sum(axis=1) / here
        centred = pairs - means[:, None]
        shift = means - self._means
        weight = self._weight + here
        self._scatter += (s * centred) @ centred.T + np.outer(shift, shift) * (self._weight * here / weight)
        self._means += shift * (here / weight)
        self._rows, self._weight = self._rows + len(y), weight

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``mse``, ``rmse``, ``mae``, ``r2`` and ``squared_correlation``.

        ``r2`` is the coefficient of determination: 1 minus the sum of squared errors over that of the mean
        label as prediction. It is None if all labels are equal; the squared correlation also if all
        predictions are.
        """
        if not self._rows:
            return dict.fromkeys(("mse", "rmse", "mae", "r2", "squared_correlation"), None) | {"rows": 0}
        mse = self._squares / self._weight
        (vv, vy), (_, yy) = self._scatter.tolist()
        return {
            "rows": self._rows,
            "mse": mse,
            "rmse": math.sqrt(mse),
            "mae": self._absolutes / self._weight,
            "r2": 1.0 - self._squares / yy if yy > 0 else None,
            "squared_correlation": (vy / vv) * (vy / yy) if vv > 0 and yy > 0 else None,
        }


class CountMetrics(Metrics):
    """Mean Poisson deviance and errors of expected counts.

    References
    ----------
    McCullagh, Nelder, Generalized Linear Models (1989), section 2.3.

    Examples
    --------
    >>> metrics = CountMetrics()
    >>> metrics.update(np.array([0.0, 0.0]), np.array([1.0, 0.0]))
    >>> metrics.report()
    {'rows': 2, 'deviance': 1.0, 'rmse': 0.7071067811865476, 'mae': 0.5}
    """

    def __init__(self) -> None:
        self._weight = self._deviance = 0.0
        self._errors = RegressionMetrics()

    def update(self, values: Vector, y: Vector, weights: ArrayLike | None = None) -> None:
        """Add rows: decision values (logarithms of expected counts), counts, weights, all of shape (m,)."""
        values, y, s = drop_idle_rows(values, y, weights)
        with np.errstate(over="ignore"):
            expected = np.exp(values)
        logarithms = np.log(y, out=np.zeros_like(values), where=y > 0) - np.where(y > 0, values, 0.0)
        self._deviance += 2.0 * float((s * (y * logarithms - (y - expected))).sum())
        self._weight += float(s.sum())
        self._errors.update(expected, y, s)

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``deviance`` (a mean), ``rmse`` and ``mae``."""
        errors = self._errors.report()
        return {
            "rows": errors["rows"],
            "deviance": self._deviance / self._weight if self._weight else None,
            "rmse": errors["rmse"],
            "mae": errors["mae"],
        }


class NoveltyMetrics(Metrics):
    """The share of rows predicted to be novel.

    Examples
    --------
    >>> metrics = NoveltyMetrics()
    >>> metrics.update(np.array([0.5, -1.0]), np.zeros(2))
    >>> metrics.report()
    {'rows': 2, 'novel': 1, 'novel_fraction': 0.5}
    """

    def __init__(self) -> None:
        self._rows = self._novel = 0
        self._weight = self._outside = 0.0

    def update(self, values: Vector, y: Vector, weights: ArrayLike | None = None) -> None:
        """Add rows: decision values and weights, each of shape (m,); labels are ignored."""
        values = predictions(values)
        s = validate_weights(weights, len(values))
        values, s = values[s > 0.0], s[s > 0.0]
        self._rows += len(values)
        self._novel += int(np.count_nonzero(values < 0))
        self._weight += float(s.sum())
        self._outside += float(s[values < 0].sum())

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``novel`` and ``novel_fraction``."""
        fraction = self._outside / self._weight if self._rows else None
        return {"rows": self._rows, "novel": self._novel, "novel_fraction": fraction}


class ProbabilityMetrics:
    """Log loss and Brier score of probabilities of the larger label.

    Parameters
    ----------
    classes : array_like of shape (2,)
        The labels (negative, positive). A row with another label takes no part.

    References
    ----------
    Brier, Monthly Weather Review 78 (1950) 1. Good, J. R. Statist. Soc. B 14 (1952) 107.

    Examples
    --------
    >>> metrics = ProbabilityMetrics((-1.0, 1.0))
    >>> metrics.update(np.array([0.5, 0.5]), np.array([1.0, -1.0]))
    >>> metrics.report()
    {'log_loss': 0.6931471805599453, 'brier': 0.25}
    """

    def __init__(self, classes: ArrayLike) -> None:
        self._classes = known_classes(classes, 2)
        self._weight = self._logarithms = self._squares = 0.0

    def update(self, probability: Vector, y: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        probability : ndarray of float64, shape (m,)
            Of the larger label, from 0 to 1.
        y : array_like, shape (m,)
            True labels.
        weights : array_like, shape (m,), optional
            At least 0; default: 1.

        Raises
        ------
        DataError
            If a probability is not one.
        """
        probability, y, s = drop_idle_rows(probability, y, weights, classes=self._classes)
        if not ((probability >= 0.0) & (probability <= 1.0)).all():
            raise DataError("values: found one outside 0 to 1, expected probabilities")
        negative, positive = (np.asarray(y == label) for label in self._classes)
        known = negative | positive
        p, positive, s = probability[known], positive[known], s[known]
        right = np.where(positive, p, 1.0 - p)
        self._weight += float(s.sum())
        # A wrong prediction of probability 1 would cost infinity, so probabilities count as at least eps.
        self._logarithms -= float((s * np.log(np.maximum(right, np.finfo(float).eps))).sum())
        self._squares += float((s * (1.0 - right) ** 2).sum())

    def report(self) -> dict[str, float | int | None]:
        """Return ``log_loss`` and ``brier``, means over the rows."""
        if not self._weight:
            return {"log_loss": None, "brier": None}
        return {"log_loss": self._logarithms / self._weight, "brier": self._squares / self._weight}


class OrdinalMetrics(Metrics):
    """Accuracy and mean absolute error of predicted ordered classes.

    Examples
    --------
    >>> metrics = OrdinalMetrics()
    >>> metrics.update(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 5.0]))
    >>> metrics.report()
    {'rows': 3, 'correct': 2, 'accuracy': 0.6666666666666666, 'mae': 0.3333333333333333}
    """

    def __init__(self) -> None:
        self._accuracy, self._absolutes = Accuracy(), 0.0

    def update(self, values: Vector, y: Vector, weights: ArrayLike | None = None) -> None:
        """Add rows: predicted labels (not decision values), labels and weights, each of shape (m,)."""
        values, y, s = drop_idle_rows(values, y, weights)
        self._accuracy.add(values == y, s)
        self._absolutes += float((s * np.abs(values - y)).sum())

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``correct``, ``accuracy`` (a fraction) and ``mae`` (in units of the labels)."""
        weight = self._accuracy.weight
        return {**self._accuracy.report(), "mae": self._absolutes / weight if weight else None}


class RankingMetrics(Metrics):
    """How well values rank the rows of each group.

    Each metric is a mean over the groups for which it is defined. A group is weighted by the mean weight of
    its rows, as in the losses, so a group of weight 2 counts as two such groups.  Within a group, NDCG and
    reciprocal rank ignore weights; a pair in the wrong order counts with the product of its weights.
    Rows with equal values are taken in the worst order, the least relevant first, and a pair of them counts
    as half wrong. So a model gains nothing from giving all rows the same value.

    Parameters
    ----------
    groups : ndarray of int, shape (m,)
        The group of each row, in the order in which `update` gets the rows.
    k : int, default 10
        The number of positions that count in NDCG.

    References
    ----------
    Jaervelin, Kekaelaeinen, ACM TOIS 20 (2002) 422, with gains 2^y - 1 (Burges et al., ICML 2005); Voorhees,
    TREC-8 (1999) 77: reciprocal rank; Kendall, Biometrika 30 (1938) 81: tau is 1 - 2 pairwise errors.

    Examples
    --------
    >>> metrics = RankingMetrics(np.array([0, 0, 0]))
    >>> metrics.update(np.array([1.0, 3.0, 2.0]), np.array([1.0, 0.0, 2.0]))
    >>> report = metrics.report()
    >>> report["mrr"], report["pairwise_error"], round(report["ndcg"], 4)
    (0.5, 0.6666666666666666, 0.659)
    """

    def __init__(self, groups: npt.NDArray[np.int64], k: int = 10) -> None:
        names = validate_groups(groups, array("groups", groups).size)
        self._groups, self._k = index_names(names)[1], integer("k", k)
        self._rows = 0
        self._values: list[Vector] = []
        self._labels: list[Vector] = []
        self._weights: list[Vector] = []
        self._kept: list[npt.NDArray[np.int64]] = []

    def update(self, values: Vector, y: Vector, weights: ArrayLike | None = None) -> None:
        """Add rows: scores, relevances and weights, each of shape (m,)."""
        given = validate_weights(weights, len(predictions(values)))
        values, y, s = drop_idle_rows(values, y, given)
        first, self._rows = self._rows, self._rows + len(given)
        if self._rows > len(self._groups):
            raise DataError(f"groups: found {len(self._groups)}, expected one for each of {self._rows} rows")
        self._kept.append(self._groups[first : self._rows][given > 0.0])
        self._values.append(values)
        self._labels.append(y)
        self._weights.append(s)

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``groups``, ``ndcg``, ``mrr`` and ``pairwise_error``.

        In a group, ``ndcg`` requires relevances of at least 0 and one above 0, ``mrr`` requires a relevant
        row, with a label above 0, and ``pairwise_error`` requires two different relevances.
        """
        values, labels, weights = (
            np.concatenate([np.zeros(0), *part]) for part in (self._values, self._labels, self._weights)
        )
        groups = np.concatenate([np.zeros(0, np.int64), *self._kept])
        order = np.lexsort((labels, -values, groups))
        sorted_groups = groups[order]
        first = np.ones(len(order), bool)
        first[1:] = sorted_groups[1:] != sorted_groups[:-1]
        starts = np.flatnonzero(first)
        gains, ranks, errors = _Mean(), _Mean(), _Mean()
        for rows in np.split(order, starts[1:]) if len(order) else []:
            relevance, share = labels[rows], float(weights[rows].mean())
            if relevance.min() >= 0 and relevance.max() > 0:
                gains.add(self._dcg(relevance) / self._dcg(-np.sort(-relevance)), share)
            if relevance.max() > 0:
                ranks.add(1.0 / (1 + int(np.argmax(relevance > 0))), share)
            if relevance.min() < relevance.max():
                errors.add(_wrong_pairs(values[rows], relevance, weights[rows]), share)
        found = {"ndcg": gains.value, "mrr": ranks.value, "pairwise_error": errors.value}
        return {"rows": len(values), "groups": len(starts), **found}

    def _dcg(self, relevance: Vector) -> float:
        top = relevance[: self._k]
        return float((gain(top) / discount_divisor(np.arange(len(top)))).sum())


class _Mean:
    """A weighted mean, exact except for one rounding per term."""

    def __init__(self) -> None:
        self._terms: list[float] = []
        self._shares: list[float] = []

    def add(self, value: float, share: float) -> None:
        """Add a value with weight ``share``."""
        self._terms.append(share * value)
        self._shares.append(share)

    @property
    def value(self) -> float | None:
        """The mean; None if there are no values."""
        return math.fsum(self._terms) / math.fsum(self._shares) if self._terms else None


def _wrong_pairs(values: Vector, labels: Vector, weights: Vector) -> float:
    """Return the share of the pairs with different labels whose values are in the other order; ties half."""
    weights = scale_weights(weights)
    wrong = pairs = 0.0
    for level in distinct_values(labels)[1:]:
        # All pairs of a row of this level and a row of a lower level.
        own, lower = labels == level, labels < level
        area = _weighted_auc(values[own], values[lower], weights[own], weights[lower])
        here = float(weights[own].sum()) * float(weights[lower].sum())
        wrong += (1.0 - area) * here
        pairs += here
    return wrong / pairs


def scored(model: Model, values: Vector) -> Vector:
    """Return what a model's metrics expect: decision values, or for ordinal regression predicted labels.

    Parameters
    ----------
    model : Model
    values : ndarray of float64, shape (m,), or (m, K) for K classes
        Decision values.

    Returns
    -------
    ndarray, shape (m,), or (m, K)

    Examples
    --------
    >>> from bmrm import Model
    >>> model = Model(np.array([1.0]), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1e-3)
    >>> scored(model, np.array([0.5]))
    array([0.5])
    """
    return np.asarray(model.predictions(values)) if model.task == "ordinal" else values


def for_task(
    task: str,
    classes: ArrayLike | None,
    params: Mapping[str, float] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
    *,
    probabilities: bool = False,
    at_positives: bool = False,
) -> Metrics:
    """Return the accumulator for a task.

    Parameters
    ----------
    task : str
        The task of a `bmrm.losses.Loss`.
    classes : array_like, or None
        The labels (negative, positive) of a binary task, or the labels of several classes.
    params : mapping of str to float, optional
        The parameters of the loss; ``beta`` and ``k`` are also parameters of metrics.
    groups : ndarray of int64, shape (m,), optional
        The group of each row of a ranking.
    probabilities : bool, default False
        Whether the values of several classes are those of the softmax loss.
    at_positives : bool, default False
        Whether a binary task without ``k`` has precision and recall at the number of positive rows, which is
        the default k of the loss recall_at_k.

    Returns
    -------
    Metrics

    Examples
    --------
    >>> for_task("regression", None).report()["rows"]
    0
    """
    known = params or {}
    if task == "ranking":
        if groups is None:
            raise ParameterError("groups: found None, expected the group of each row of a ranking")
        return RankingMetrics(groups, int(min(known.get("k", 10.0), 2.0**53)))
    if classes is not None and task != "ordinal":
        if task == "multiclass":
            return MulticlassMetrics(classes, probabilities=probabilities)
        if task == "multilabel":
            return MultilabelMetrics(classes)
        if task == "label_ranking":
            return LabelRankingMetrics(classes)
        at_k: TopK | None = "positives" if at_positives else None
        return BinaryMetrics(classes, beta=known.get("beta"), k=known.get("k", at_k))
    accumulators: dict[str, Callable[[], Metrics]] = {
        "regression": RegressionMetrics,
        "count": CountMetrics,
        "novelty": NoveltyMetrics,
        "ordinal": OrdinalMetrics,
    }
    if task not in accumulators:
        refuse("task", task, "the task of a loss, and its classes if it has any")
    return accumulators[task]()
