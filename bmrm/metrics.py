"""How good predictions are, gathered chunk by chunk.

Each accumulator takes decision values and labels a chunk at a time, so files larger than memory can be
scored; only the exact area under the ROC curve needs every score, at 8 bytes a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bmrm.class_metrics import LabelRankingMetrics, MulticlassMetrics, MultilabelMetrics

Vector = npt.NDArray[np.float64]
_BLOCK = 1 << 18  # rows ranked at a time


class Metrics(Protocol):
    """What every accumulator offers."""

    def update(self, values: Vector, y: Any) -> None:
        """Add rows: predicted values and the labels they should have."""

    def report(self) -> dict[str, float | int | None]:
        """Return the metrics of all rows so far; None where a metric is undefined."""


def roc_auc(positive: Vector, negative: Vector) -> float | None:
    """Area under the ROC curve: P(score of a positive > score of a negative), a tie counting half.

    Parameters
    ----------
    positive, negative : ndarray of float64
        Scores of the two classes, in any order.

    Returns
    -------
    float or None
        Exact up to one rounding; None when a class is empty.

    References
    ----------
    Hanley, McNeil, Radiology 143 (1982) 29.

    Examples
    --------
    >>> roc_auc(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    0.875
    """
    pairs = len(positive) * len(negative)
    if not pairs:
        return None
    ordered = np.sort(negative)
    twice = 0
    for start in range(0, len(positive), _BLOCK):
        block = np.sort(positive[start : start + _BLOCK])  # in order, the searches stay in cache
        twice += int(np.searchsorted(ordered, block, "left").sum())
        twice += int(np.searchsorted(ordered, block, "right").sum())
    return twice / (2 * pairs)


class BinaryMetrics:
    """Accuracy and area under the ROC curve.

    Parameters
    ----------
    classes : tuple of float
        The labels (negative, positive). A row with another label is counted as wrong, as LIBLINEAR
        does, and has no part in the area.

    Examples
    --------
    >>> metrics = BinaryMetrics((-1.0, 1.0))
    >>> metrics.update(np.array([0.5, -1.0, 2.0]), np.array([1.0, -1.0, -1.0]))
    >>> metrics.report()
    {'rows': 3, 'correct': 2, 'accuracy': 0.6666666666666666, 'auc': 0.5}
    """

    def __init__(self, classes: tuple[float, float]) -> None:
        self._classes = classes
        self._rows = 0
        self._correct = 0
        self._positive: list[Vector] = []
        self._negative: list[Vector] = []

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: decision values and labels, each of shape (m,)."""
        negative, positive = (y == label for label in self._classes)
        self._rows += len(y)
        self._correct += int(np.count_nonzero(np.where(values > 0, positive, negative)))
        self._positive.append(values[positive])
        self._negative.append(values[negative])

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``correct``, ``accuracy`` (a fraction) and ``auc``."""
        auc = None
        if self._rows:
            self._positive = [np.concatenate(self._positive)]
            self._negative = [np.concatenate(self._negative)]
            auc = roc_auc(self._positive[0], self._negative[0])
        accuracy = self._correct / self._rows if self._rows else None
        return {"rows": self._rows, "correct": self._correct, "accuracy": accuracy, "auc": auc}


class RegressionMetrics:
    """Errors of predicted values, and the squared correlation that LIBLINEAR prints.

    References
    ----------
    Chan, Golub, LeVeque, The American Statistician 37 (1983) 242: merging moments of two samples.

    Examples
    --------
    >>> metrics = RegressionMetrics()
    >>> metrics.update(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> metrics.report()
    {'rows': 2, 'mse': 2.0, 'rmse': 1.4142135623730951, 'mae': 1.0, 'r2': 1.0}
    """

    def __init__(self) -> None:
        self._rows = 0
        self._squares = 0.0
        self._absolutes = 0.0
        self._means = np.zeros(2)
        self._scatter = np.zeros((2, 2))

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: predictions and targets, each of shape (m,)."""
        if not len(y):
            return
        errors = values - y
        self._squares += float(errors @ errors)
        self._absolutes += float(np.abs(errors).sum())
        pairs = np.stack([values, y])
        means = pairs.mean(axis=1)
        centred = pairs - means[:, None]
        shift = means - self._means
        rows = self._rows + len(y)
        self._scatter += centred @ centred.T + np.outer(shift, shift) * (self._rows * len(y) / rows)
        self._means += shift * (len(y) / rows)
        self._rows = rows

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``mse``, ``rmse``, ``mae`` and ``r2`` (squared correlation)."""
        if not self._rows:
            return {"rows": 0, "mse": None, "rmse": None, "mae": None, "r2": None}
        mse = self._squares / self._rows
        (vv, vy), (_, yy) = self._scatter.tolist()
        return {
            "rows": self._rows,
            "mse": mse,
            "rmse": math.sqrt(mse),
            "mae": self._absolutes / self._rows,
            "r2": vy * vy / (vv * yy) if vv > 0 and yy > 0 else None,
        }


class CountMetrics:
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
        self._deviance = 0.0
        self._errors = RegressionMetrics()

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: decision values (logarithms of expected counts) and counts, each of shape (m,)."""
        with np.errstate(over="ignore"):
            expected = np.exp(values)
        logarithms = np.log(y, out=np.zeros_like(values), where=y > 0) - np.where(y > 0, values, 0.0)
        self._deviance += 2.0 * float((y * logarithms - (y - expected)).sum())
        self._errors.update(expected, y)

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``deviance`` (a mean), ``rmse`` and ``mae``."""
        errors = self._errors.report()
        rows = errors["rows"]
        return {
            "rows": rows,
            "deviance": self._deviance / rows if rows else None,
            "rmse": errors["rmse"],
            "mae": errors["mae"],
        }


class NoveltyMetrics:
    """Share of rows found novel.

    Examples
    --------
    >>> metrics = NoveltyMetrics()
    >>> metrics.update(np.array([0.5, -1.0]), np.zeros(2))
    >>> metrics.report()
    {'rows': 2, 'novel': 1, 'novel_fraction': 0.5}
    """

    def __init__(self) -> None:
        self._rows = 0
        self._novel = 0

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: decision values of shape (m,); labels play no part."""
        self._rows += len(values)
        self._novel += int(np.count_nonzero(values < 0))

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``novel`` and ``novel_fraction``."""
        fraction = self._novel / self._rows if self._rows else None
        return {"rows": self._rows, "novel": self._novel, "novel_fraction": fraction}


def for_task(task: str, classes: Sequence[float] | None, *, probabilities: bool = False) -> Metrics:
    """Return the accumulator for a task.

    Parameters
    ----------
    task : str
        That of a `bmrm.losses.Loss`.
    classes : sequence of float, or None
        The labels (negative, positive) of a binary task, or those of several classes.
    probabilities : bool, default False
        Whether the values of several classes are those of the softmax loss.

    Examples
    --------
    >>> for_task("regression", None).report()["rows"]
    0
    """
    if classes is not None:
        if task == "multiclass":
            return MulticlassMetrics(classes, probabilities=probabilities)
        if task == "multilabel":
            return MultilabelMetrics(classes)
        if task == "label_ranking":
            return LabelRankingMetrics(classes)
        return BinaryMetrics((classes[0], classes[1]))
    accumulators: dict[str, Callable[[], Metrics]] = {
        "regression": RegressionMetrics,
        "count": CountMetrics,
        "novelty": NoveltyMetrics,
    }
    return accumulators[task]()
