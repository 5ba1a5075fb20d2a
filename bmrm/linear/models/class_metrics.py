"""Metrics of predicted classes and sets of labels, accumulated chunk by chunk.

Each accumulator keeps only sums, so files larger than memory can be scored.  Means and shares are weighted;
counts are numbers of rows, without those of weight 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from bmrm.base import arguments
from bmrm.base.labels import Labels, comparable, label_array, label_sets
from bmrm.base.probabilities import log_sum_exp
from bmrm.base.vectors import Vector
from bmrm.base.weighting import drop_idle_rows, fill_idle_labels, validate_weights
from bmrm.errors import DataError

Report = dict[str, float | int | None]


def known_classes(given: Any, number: int | None = None) -> Labels:
    """Validate the labels of the classes, which must be distinct; ``number`` is how many, or None for any."""
    found = label_array("classes", given, each="class")
    if found.ndim != 1 or (number is not None and len(found) != number):
        wanted = "a list of labels" if number is None else f"{number} labels"
        raise DataError(f"classes: found shape {found.shape}, expected {wanted}")
    if found.dtype.kind == "f":
        arguments.check_finite("classes", found, each="class")
    if len(np.unique(found)) < len(found):
        raise DataError("classes: found a label twice, expected each once")
    return found


class Accuracy:
    """Counts rows and those that are predicted correctly; the share of the latter is weighted."""

    def __init__(self) -> None:
        self.rows = self.correct = 0
        self.weight = self.right = 0.0

    def add(self, right: npt.NDArray[np.bool_], weights: Vector) -> None:
        """Add rows: whether each is correct, and its weight, which is above 0."""
        self.rows += len(right)
        self.correct += int(np.count_nonzero(right))
        self.weight += float(weights.sum())
        self.right += float(weights[right].sum())

    def report(self) -> Report:
        """Return ``rows``, ``correct`` and ``accuracy``."""
        share = self.right / self.weight if self.rows else None
        return {"rows": self.rows, "correct": self.correct, "accuracy": share}


class _Counts:
    """Per class, the weight of the rows that have it, of those predicted to have it, and of both."""

    def __init__(self, classes: ArrayLike) -> None:
        self.classes = known_classes(classes)
        if not (self.classes[1:] > self.classes[:-1]).all():
            raise DataError("classes: found labels that are not in order, expected them ascending")
        self.actual, self.predicted, self.both = np.zeros((3, len(self.classes)))

    def codes(self, labels: Labels) -> npt.NDArray[np.intp]:
        """Return the index of each label among the classes; K for a label that is not among them."""
        if not len(labels):
            return np.zeros(0, np.intp)
        indices = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        return np.where(self.classes[indices] == labels, indices, len(self.classes))

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 of the classes that at least one row has or is predicted to have."""
        seen = self.actual + self.predicted
        found = seen > 0
        return float((2 * self.both[found] / seen[found]).mean()) if found.any() else None

    @property
    def micro_f1(self) -> float | None:
        """F1 of all decisions together."""
        seen = float(self.actual.sum() + self.predicted.sum())
        return 2 * float(self.both.sum()) / seen if seen else None


class MulticlassMetrics:
    """Accuracy, F1 and, for the softmax loss, the log loss.

    Parameters
    ----------
    classes : array_like
        Labels of the columns of the decision values, ascending. A row with another label counts as wrong,
        and takes no part in F1 and log loss.
    probabilities : bool, default False
        Whether the values are those of the softmax loss, so that they determine probabilities.

    Examples
    --------
    >>> scores = MulticlassMetrics((1.0, 2.0, 5.0))
    >>> scores.update(np.array([[3.0, 1.0, 0.0], [0.0, 1.0, 2.0]]), np.array([1.0, 2.0]))
    >>> scores.report()
    {'rows': 2, 'correct': 1, 'accuracy': 0.5, 'macro_f1': 0.333..., 'log_loss': None}
    """

    def __init__(self, classes: ArrayLike, *, probabilities: bool = False) -> None:
        self._counts, self._probabilities = _Counts(classes), probabilities
        self._accuracy, self._known, self._log_loss = Accuracy(), 0.0, 0.0

    def update(self, values: Vector, y: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add rows: decision values of shape (m, K), labels of shape (m,), and weights (default: 1)."""
        counts, K = self._counts, len(self._counts.classes)
        values, labels, s = drop_idle_rows(values, y, weights, K, classes=counts.classes)
        actual, predicted = counts.codes(labels), values.argmax(axis=1)
        right = actual == predicted
        counts.actual += np.bincount(actual, s, K + 1)[:K]
        counts.predicted += np.bincount(predicted, s, K)
        counts.both += np.bincount(actual[right], s[right], K)
        self._accuracy.add(right, s)
        if self._probabilities:
            known = np.flatnonzero(actual < K)
            sums = log_sum_exp(values)
            self._log_loss += float((s[known] * (sums[known] - values[known, actual[known]])).sum())
            self._known += float(s[known].sum())

    def report(self) -> Report:
        """Return ``rows``, ``correct``, ``accuracy``, ``macro_f1`` and ``log_loss`` (a mean)."""
        return {
            **self._accuracy.report(),
            "macro_f1": self._counts.macro_f1,
            "log_loss": self._log_loss / self._known if self._known else None,
        }


class MultilabelMetrics:
    """Hamming loss, F1 and the share of rows whose labels are all correct.

    Parameters
    ----------
    classes : array_like
        Labels of the columns of the decision values, ascending. A row with any other label counts as wrong;
        other labels take no part in Hamming loss and F1.

    Examples
    --------
    >>> scores = MultilabelMetrics((1.0, 2.0))
    >>> scores.update(np.array([[1.0, -1.0], [1.0, 1.0]]), [(1.0,), (2.0,)])
    >>> scores.report()
    {'rows': 2, 'correct': 1, 'accuracy': 0.5, 'hamming_loss': 0.25, 'micro_f1': 0.8, 'macro_f1': 0.833...}
    """

    def __init__(self, classes: ArrayLike) -> None:
        self._counts, self._accuracy, self._wrong = _Counts(classes), Accuracy(), 0.0

    def update(self, values: Vector, y: Any, weights: ArrayLike | None = None) -> None:
        """Add rows: decision values of shape (m, K), labels as for `Dataset`, and weights (default: 1)."""
        values, actual, complete, s = _counting_rows(self._counts, values, y, weights)
        predicted = values > 0
        wrong = (actual != predicted).sum(axis=1)
        right = (wrong == 0) & complete
        self._counts.actual += _sums(s, actual)
        self._counts.predicted += _sums(s, predicted)
        self._counts.both += _sums(s, actual & predicted)
        self._accuracy.add(right, s)
        self._wrong += float((s * wrong).sum())

    def report(self) -> Report:
        """Return ``rows``, ``correct``, ``accuracy``, ``hamming_loss``, ``micro_f1`` and ``macro_f1``."""
        decisions = self._accuracy.weight * len(self._counts.classes)
        return {
            **self._accuracy.report(),
            "hamming_loss": self._wrong / decisions if decisions else None,
            "micro_f1": self._counts.micro_f1,
            "macro_f1": self._counts.macro_f1,
        }


class LabelRankingMetrics:
    """How well decision values order the labels of a row.

    Rows with all labels, or with none, take no part.

    Parameters
    ----------
    classes : array_like
        Labels of the columns of the decision values, ascending; other labels of a row are ignored.

    References
    ----------
    Schapire, Singer, Machine Learning 39 (2000) 135: one-error, average precision, ranking loss.

    Examples
    --------
    >>> scores = LabelRankingMetrics((1.0, 2.0, 3.0))
    >>> scores.update(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), [(1.0,), (2.0,)])
    >>> scores.report()
    {'rows': 2, 'ranking_loss': 0.25, 'one_error': 0.5, 'average_precision': 0.75}
    """

    def __init__(self, classes: ArrayLike) -> None:
        self._counts = _Counts(classes)
        self._rows, self._used = 0, 0.0
        self._sums = np.zeros(3)

    def update(self, values: Vector, y: Any, weights: ArrayLike | None = None) -> None:
        """Add rows: decision values of shape (m, K), labels as for `Dataset`, and weights (default: 1)."""
        values, actual, _, s = _counting_rows(self._counts, values, y, weights)
        self._rows += len(values)
        mixed = actual.any(axis=1) & ~actual.all(axis=1)
        order = np.argsort(-values[mixed], axis=1, kind="stable")
        ranked = np.take_along_axis(actual[mixed], order, axis=1)
        K = ranked.shape[1]
        found = ranked.cumsum(axis=1)
        relevant = found[:, -1]
        misplaced = (ranked * (np.arange(1, K + 1) - found)).sum(axis=1)
        precision = (ranked * found / np.arange(1, K + 1)).sum(axis=1) / relevant
        share = s[mixed]
        self._used += float(share.sum())
        self._sums += [
            float((share * misplaced / (relevant * (K - relevant))).sum()),
            float(share[~ranked[:, 0]].sum()),
            float((share * precision).sum()),
        ]

    def report(self) -> Report:
        """Return ``rows``, and the means ``ranking_loss``, ``one_error`` and ``average_precision``."""
        names = ("ranking_loss", "one_error", "average_precision")
        means = [float(total) / self._used if self._used else None for total in self._sums]
        return {"rows": self._rows, **dict(zip(names, means, strict=True))}


def _sums(weights: Vector, chosen: npt.NDArray[np.bool_]) -> Vector:
    """Return, per column, the sum of the weights of the chosen rows."""
    return np.asarray(np.einsum("i,ij->j", weights, chosen))


def _counting_rows(
    counts: _Counts, values: Vector, y: Any, weights: ArrayLike | None
) -> tuple[Vector, npt.NDArray[np.bool_], npt.NDArray[np.bool_], Vector]:
    """Return values, indicators of labels, whether all labels are known, and weights; drop weights of 0."""
    values = arguments.predictions(values, len(counts.classes))
    s = validate_weights(weights, len(values))
    actual, complete = _indicators(counts, fill_idle_labels(y, len(values), s), len(values))
    rows = s > 0.0
    return values[rows], actual[rows], complete[rows], s[rows]


def _indicators(counts: _Counts, y: Any, m: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return whether each row has each label, and whether all labels of each row are known."""
    sets = label_sets(y)
    if isinstance(sets, np.ndarray):
        sets = [tuple(np.flatnonzero(row)) for row in sets]
    if len(sets) != m:
        raise DataError(f"labels: found {len(sets)} rows, expected {m}, one per row of values")
    rows = np.repeat(np.arange(len(sets)), [len(row) for row in sets])
    each = label_array("labels", [label for row in sets for label in row], each="label")
    if each.dtype.kind == "f":
        arguments.check_finite("labels", each, each="label")
    codes = counts.codes(comparable(each, counts.classes))
    K = len(counts.classes)
    found = np.zeros((len(sets), K + 1), bool)
    found[rows, codes] = True
    return found[:, :K], ~found[:, K]
