"""How good predictions of classes and of sets of labels are, gathered chunk by chunk.

Each accumulator keeps counts alone, so files larger than memory can be scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Report = dict[str, float | int | None]


class _Counts:
    """Of each class: rows that have it, rows predicted to have it, and rows of which both are true."""

    def __init__(self, classes: Sequence[float]) -> None:
        self.classes = np.asarray(classes, np.float64)
        self.actual, self.predicted, self.both = np.zeros((3, len(self.classes)), np.int64)

    def codes(self, labels: Vector) -> npt.NDArray[np.intp]:
        """Place of each label among the classes; K for one that is none of them."""
        places = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        return np.where(self.classes[places] == labels, places, len(self.classes))

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 of the classes that some row has or is predicted to have."""
        seen = self.actual + self.predicted
        found = seen > 0
        return float((2 * self.both[found] / seen[found]).mean()) if found.any() else None

    @property
    def micro_f1(self) -> float | None:
        """F1 of all decisions together."""
        seen = int(self.actual.sum() + self.predicted.sum())
        return 2 * int(self.both.sum()) / seen if seen else None


class MulticlassMetrics:
    """Accuracy, F1 and, where values are logarithms of probabilities, the log loss.

    Parameters
    ----------
    classes : sequence of float
        Labels of the columns of the decision values, ascending. A row with another label is counted as wrong,
        and has no part in F1 and log loss.
    probabilities : bool, default False
        Whether the values are those of the softmax loss.

    Examples
    --------
    >>> scores = MulticlassMetrics((1.0, 2.0, 5.0))
    >>> scores.update(np.array([[3.0, 1.0, 0.0], [0.0, 1.0, 2.0]]), np.array([1.0, 2.0]))
    >>> scores.report()
    {'rows': 2, 'correct': 1, 'accuracy': 0.5, 'macro_f1': 0.333..., 'log_loss': None}
    """

    def __init__(self, classes: Sequence[float], *, probabilities: bool = False) -> None:
        self._counts, self._probabilities = _Counts(classes), probabilities
        self._rows = self._correct = self._known = 0
        self._log_loss = 0.0

    def update(self, values: Vector, y: Vector) -> None:
        """Add rows: decision values of shape (m, K) and labels of shape (m,)."""
        counts, K = self._counts, values.shape[1]
        actual, predicted = counts.codes(y), values.argmax(axis=1)
        right = actual == predicted
        counts.actual += np.bincount(actual, minlength=K + 1)[:K]
        counts.predicted += np.bincount(predicted, minlength=K)
        counts.both += np.bincount(actual[right], minlength=K)
        self._rows += len(y)
        self._correct += int(right.sum())
        if self._probabilities:
            known = np.flatnonzero(actual < K)
            top = values.max(axis=1, keepdims=True)
            sums = np.log(np.exp(values - top).sum(axis=1)) + top[:, 0]
            self._log_loss += float((sums[known] - values[known, actual[known]]).sum())
            self._known += len(known)

    def report(self) -> Report:
        """Return ``rows``, ``correct``, ``accuracy``, ``macro_f1`` and ``log_loss`` (a mean)."""
        return {
            "rows": self._rows,
            "correct": self._correct,
            "accuracy": self._correct / self._rows if self._rows else None,
            "macro_f1": self._counts.macro_f1,
            "log_loss": self._log_loss / self._known if self._known else None,
        }


class MultilabelMetrics:
    """Hamming loss, F1 and the share of rows whose labels are all right.

    Parameters
    ----------
    classes : sequence of float
        Labels of the columns of the decision values, ascending. Others that a row has make it wrong, and have
        no part in Hamming loss and F1.

    Examples
    --------
    >>> scores = MultilabelMetrics((1.0, 2.0))
    >>> scores.update(np.array([[1.0, -1.0], [1.0, 1.0]]), [(1.0,), (2.0,)])
    >>> scores.report()
    {'rows': 2, 'correct': 1, 'accuracy': 0.5, 'hamming_loss': 0.25, 'micro_f1': 0.8, 'macro_f1': 0.833...}
    """

    def __init__(self, classes: Sequence[float]) -> None:
        self._counts = _Counts(classes)
        self._rows = self._correct = self._wrong = 0

    def update(self, values: Vector, y: Any) -> None:
        """Add rows: decision values of shape (m, K), and a list of tuples of labels or one label each."""
        actual, complete = _indicators(self._counts, y)
        predicted = values > 0
        wrong = (actual != predicted).sum(axis=1)
        self._counts.actual += actual.sum(axis=0)
        self._counts.predicted += predicted.sum(axis=0)
        self._counts.both += (actual & predicted).sum(axis=0)
        self._rows += len(values)
        self._wrong += int(wrong.sum())
        self._correct += int(((wrong == 0) & complete).sum())

    def report(self) -> Report:
        """Return ``rows``, ``correct``, ``accuracy``, ``hamming_loss``, ``micro_f1`` and ``macro_f1``."""
        decisions = self._rows * len(self._counts.classes)
        return {
            "rows": self._rows,
            "correct": self._correct,
            "accuracy": self._correct / self._rows if self._rows else None,
            "hamming_loss": self._wrong / decisions if decisions else None,
            "micro_f1": self._counts.micro_f1,
            "macro_f1": self._counts.macro_f1,
        }


class LabelRankingMetrics:
    """How well decision values order labels: rows with all labels, or with none of them, take no part.

    Parameters
    ----------
    classes : sequence of float
        Labels of the columns of the decision values, ascending; others that a row has are left out.

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

    def __init__(self, classes: Sequence[float]) -> None:
        self._counts = _Counts(classes)
        self._rows = self._used = 0
        self._sums = np.zeros(3)

    def update(self, values: Vector, y: Any) -> None:
        """Add rows: decision values of shape (m, K), and a list of tuples of labels or one label each."""
        actual, _ = _indicators(self._counts, y)
        self._rows += len(values)
        mixed = actual.any(axis=1) & ~actual.all(axis=1)
        order = np.argsort(-values[mixed], axis=1, kind="stable")
        ranked = np.take_along_axis(actual[mixed], order, axis=1)
        K = ranked.shape[1]
        found = ranked.cumsum(axis=1)
        relevant = found[:, -1]
        misplaced = (ranked * (np.arange(1, K + 1) - found)).sum(axis=1)
        precision = (ranked * found / np.arange(1, K + 1)).sum(axis=1) / relevant
        self._used += len(ranked)
        self._sums += [
            float((misplaced / (relevant * (K - relevant))).sum()),
            float((~ranked[:, 0]).sum()),
            float(precision.sum()),
        ]

    def report(self) -> Report:
        """Return ``rows``, and means ``ranking_loss``, ``one_error`` and ``average_precision``."""
        names = ("ranking_loss", "one_error", "average_precision")
        means = [float(total) / self._used if self._used else None for total in self._sums]
        return {"rows": self._rows, **dict(zip(names, means, strict=True))}


def _indicators(
    counts: _Counts, y: Vector | Iterable[Iterable[float]]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether each row has each label, and whether all labels that it has are known."""
    sets = [(label,) for label in y] if isinstance(y, np.ndarray) else [tuple(row) for row in y]
    rows = np.repeat(np.arange(len(sets)), [len(row) for row in sets])
    codes = counts.codes(np.array([label for row in sets for label in row], np.float64))
    K = len(counts.classes)
    found = np.zeros((len(sets), K + 1), bool)
    found[rows, codes] = True
    return found[:, :K], ~found[:, K]
