"""How good predictions are, gathered chunk by chunk.

Each accumulator takes decision values and labels a chunk at a time, so files larger than memory can be
scored; only what depends on the order of all rows, as the area under the ROC curve does, needs every score,
at 8 bytes a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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


def precision_recall_at(values: Vector, relevant: npt.NDArray[np.bool_], k: int) -> tuple[float, float]:
    """Precision and recall of the k rows with the highest values.

    Rows that tie for the last places share them: the mean over all ways to break the tie.

    Parameters
    ----------
    values : ndarray of float64, shape (m,)
    relevant : ndarray of bool, shape (m,)
        Some row is.
    k : int
        From 1 to m.

    Examples
    --------
    >>> precision_recall_at(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, True]), 2)
    (0.75, 0.5)
    """
    last = float(np.partition(values, -k)[-k])
    above, tied = values > last, values == last
    places = k - int(np.count_nonzero(above))
    share = places / int(np.count_nonzero(tied))
    hits = np.count_nonzero(relevant & above) + share * np.count_nonzero(relevant & tied)
    return float(hits) / k, float(hits) / int(np.count_nonzero(relevant))


class BinaryMetrics:
    """Accuracy, precision, recall and F of the labels predicted, and what the order of the values is worth.

    Parameters
    ----------
    classes : tuple of float
        The labels (negative, positive). A row with another label is counted as wrong, as LIBLINEAR
        does, and has no part in the other metrics.
    beta : float, optional
        Report F_beta as well.
    k : float, optional
        Report precision and recall at the top k: a number of rows, or below 1 a fraction of them.

    Examples
    --------
    >>> metrics = BinaryMetrics((-1.0, 1.0))
    >>> metrics.update(np.array([0.5, -1.0, 2.0]), np.array([1.0, -1.0, -1.0]))
    >>> report = metrics.report()
    >>> report["rows"], report["correct"], report["accuracy"], report["auc"], report["precision"]
    (3, 2, 0.6666666666666666, 0.5, 0.5)
    """

    def __init__(
        self, classes: tuple[float, ...], *, beta: float | None = None, k: float | None = None
    ) -> None:
        self._classes, self._beta, self._k = classes, beta, k
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
        """Return the metrics.

        Returns
        -------
        dict
            ``rows``, ``correct``, ``accuracy`` (a fraction), ``auc``, ``precision``, ``recall`` and ``f1`` of
            the labels by sign, ``break_even`` (precision of as many rows at the top as are positive), and
            where asked for ``f_beta``, ``precision_at_k`` and ``recall_at_k``.
        """
        positive, negative = (
            np.concatenate([np.zeros(0), *part]) for part in (self._positive, self._negative)
        )
        self._positive, self._negative = [positive], [negative]
        found, false = int(np.count_nonzero(positive > 0)), int(np.count_nonzero(negative > 0))
        precision = found / (found + false) if found + false else None
        recall = found / len(positive) if len(positive) else None
        report: dict[str, float | int | None] = {
            "rows": self._rows,
            "correct": self._correct,
            "accuracy": self._correct / self._rows if self._rows else None,
            "auc": roc_auc(positive, negative),
            "precision": precision,
            "recall": recall,
            "f1": self._f(found, false, len(positive), 1.0),
            "break_even": self._at(positive, negative, len(positive))[0],
        }
        if self._beta is not None:
            report["f_beta"] = self._f(found, false, len(positive), self._beta)
        if self._k is not None:
            k = self._k if self._k >= 1 else max(1, round(self._k * (len(positive) + len(negative))))
            report["precision_at_k"], report["recall_at_k"] = self._at(positive, negative, int(k))
        return report

    @staticmethod
    def _f(found: int, false: int, positives: int, beta: float) -> float | None:
        """F_beta of so many true and false positives; None without a positive row."""
        square = beta * beta
        return (1 + square) * found / (found + false + square * positives) if positives else None

    @staticmethod
    def _at(positive: Vector, negative: Vector, k: int) -> tuple[float | None, float | None]:
        """Precision and recall at k; None where there is no positive row, or no k rows."""
        if not (len(positive) and 1 <= k <= len(positive) + len(negative)):
            return None, None
        relevant = np.arange(len(positive) + len(negative)) < len(positive)
        return precision_recall_at(np.concatenate([positive, negative]), relevant, k)


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
            "r2": (vy / vv) * (vy / yy) if vv > 0 and yy > 0 else None,
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


class ProbabilityMetrics:
    """Log loss and Brier score of probabilities of the larger label.

    Parameters
    ----------
    classes : tuple of float
        The labels (negative, positive). A row with another label has no part.

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

    def __init__(self, classes: tuple[float, float]) -> None:
        self._classes = classes
        self._rows = 0
        self._logarithms = 0.0
        self._squares = 0.0

    def update(self, probability: Vector, y: Vector) -> None:
        """Add rows: probabilities and labels, each of shape (m,)."""
        known = np.isin(y, self._classes)
        p, positive = probability[known], y[known] == self._classes[1]
        right = np.where(positive, p, 1.0 - p)
        self._rows += len(p)
        # Certainty that is wrong would cost infinity: no probability counts as less than the rounding of 1.
        self._logarithms -= float(np.log(np.maximum(right, np.finfo(float).eps)).sum())
        self._squares += float(((1.0 - right) ** 2).sum())

    def report(self) -> dict[str, float | int | None]:
        """Return ``log_loss`` and ``brier``, means over the rows."""
        if not self._rows:
            return {"log_loss": None, "brier": None}
        return {"log_loss": self._logarithms / self._rows, "brier": self._squares / self._rows}


class OrdinalMetrics:
    """Accuracy of predicted classes, and how far off they are.

    Examples
    --------
    >>> metrics = OrdinalMetrics()
    >>> metrics.update(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, 5.0]))
    >>> metrics.report()
    {'rows': 3, 'correct': 2, 'accuracy': 0.6666666666666666, 'mae': 0.3333333333333333}
    """

    def __init__(self) -> None:
        self._rows = 0
        self._correct = 0
        self._absolutes = 0.0

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: predicted labels, not decision values, and labels, each of shape (m,)."""
        self._rows += len(y)
        self._correct += int(np.count_nonzero(values == y))
        self._absolutes += float(np.abs(values - y).sum())

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``correct``, ``accuracy`` (a fraction) and ``mae`` (in units of the labels)."""
        rows = self._rows
        return {
            "rows": rows,
            "correct": self._correct,
            "accuracy": self._correct / rows if rows else None,
            "mae": self._absolutes / rows if rows else None,
        }


class RankingMetrics:
    """How well values rank the rows of each group.

    Each metric is the mean over the groups that it is defined for.
    Rows with equal values are taken in the worst order, the least relevant first; of a pair of them half
    counts as wrong. So a model that cannot tell rows apart gains nothing by it.

    Parameters
    ----------
    groups : ndarray of int, shape (m,)
        The group of each row that `update` will bring, in their order.
    k : int, default 10
        NDCG counts so many places.

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
        self._groups, self._k = groups, k
        self._values: list[Vector] = []
        self._labels: list[Vector] = []

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: scores and relevances, each of shape (m,)."""
        self._values.append(values)
        self._labels.append(y)

    def report(self) -> dict[str, float | int | None]:
        """Return ``rows``, ``groups``, ``ndcg``, ``mrr`` and ``pairwise_error``.

        ``ndcg`` wants relevances from 0 on and one above it, ``mrr`` (relevant is above 0) a relevant row,
        ``pairwise_error`` two different relevances.
        """
        values, labels = (np.concatenate([np.zeros(0), *part]) for part in (self._values, self._labels))
        groups = self._groups[: len(values)]
        order = np.lexsort((labels, -values, groups))
        sorted_groups = groups[order]
        first = np.ones(len(order), bool)
        first[1:] = sorted_groups[1:] != sorted_groups[:-1]
        starts = np.flatnonzero(first)
        gains: list[float] = []
        ranks: list[float] = []
        errors: list[float] = []
        for rows in np.split(order, starts[1:]) if len(order) else []:
            relevance = labels[rows]
            if relevance.min() >= 0 and relevance.max() > 0:
                gains.append(self._dcg(relevance) / self._dcg(-np.sort(-relevance)))
            if relevance.max() > 0:
                ranks.append(1.0 / (1 + int(np.argmax(relevance > 0))))
            if relevance.min() < relevance.max():
                errors.append(_wrong_pairs(values[rows], relevance))
        means = [math.fsum(part) / len(part) if part else None for part in (gains, ranks, errors)]
        found = dict(zip(("ndcg", "mrr", "pairwise_error"), means, strict=True))
        return {"rows": len(values), "groups": len(starts), **found}

    def _dcg(self, relevance: Vector) -> float:
        top = relevance[: self._k]
        return float(((np.exp2(top) - 1) / np.log2(np.arange(len(top)) + 2.0)).sum())


def _wrong_pairs(values: Vector, labels: Vector) -> float:
    """Share of the pairs with different labels whose values are in the other order; a tie counts half."""
    levels, counts = np.unique(labels, return_counts=True)
    by_level = [values[labels == level] for level in levels]
    wrong = 0.0
    pairs = (len(labels) ** 2 - int((counts.astype(object) ** 2).sum())) // 2
    for level in range(1, len(levels)):
        # Every pair of this class with all that are below it.
        lower = np.concatenate(by_level[:level])
        area = roc_auc(by_level[level], lower)
        assert area is not None
        wrong += (1.0 - area) * len(by_level[level]) * len(lower)
    return wrong / pairs


class Scorer(Protocol):
    """What `scored` asks of a model."""

    @property
    def task(self) -> str:
        """What is predicted."""

    def predictions(self, values: Vector) -> Any:
        """Predictions at decision values."""


def scored(model: Scorer, values: Vector) -> Vector:
    """Return what a model's metrics are taken of: decision values, but for ordinal regression the labels.

    Parameters
    ----------
    model : Model
    values : ndarray of float64, shape (m,), or (m, K) for K classes
        Decision values.
    """
    return np.asarray(model.predictions(values)) if model.task == "ordinal" else values


def for_task(
    task: str,
    classes: Sequence[float] | None,
    params: Mapping[str, float] | None = None,
    groups: npt.NDArray[np.int64] | None = None,
    *,
    probabilities: bool = False,
) -> Metrics:
    """Return the accumulator for a task.

    Parameters
    ----------
    task : str
        That of a `bmrm.losses.Loss`.
    classes : sequence of float, or None
        The labels (negative, positive) of a binary task, or those of several classes.
    params : mapping of str to float, optional
        The loss's parameters, of which ``beta`` and ``k`` are also those of metrics.
    groups : ndarray of int64, shape (m,), optional
        The group of each row of a ranking.
    probabilities : bool, default False
        Whether the values of several classes are those of the softmax loss.

    Examples
    --------
    >>> for_task("regression", None).report()["rows"]
    0
    """
    known = params or {}
    if task == "ranking":
        assert groups is not None
        return RankingMetrics(groups, int(min(known.get("k", 10.0), 2.0**53)))
    if classes is not None and task != "ordinal":
        if task == "multiclass":
            return MulticlassMetrics(classes, probabilities=probabilities)
        if task == "multilabel":
            return MultilabelMetrics(classes)
        if task == "label_ranking":
            return LabelRankingMetrics(classes)
        return BinaryMetrics((classes[0], classes[1]), beta=known.get("beta"), k=known.get("k"))
    accumulators: dict[str, Callable[[], Metrics]] = {
        "regression": RegressionMetrics,
        "count": CountMetrics,
        "novelty": NoveltyMetrics,
        "ordinal": OrdinalMetrics,
    }
    return accumulators[task]()
