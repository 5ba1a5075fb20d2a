"""One class against the rest: a problem of two classes for each class, all on one resident matrix.

Only labels and weights differ from problem to problem, so that X is stored once. Each result has its own
certificate. See Rifkin, Klautau, "In defense of one-vs-all classification", JMLR 5 (2004) 101.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bmrm import losses
from bmrm.base.vectors import Indices, Vector
from bmrm.base.weighting import warn_of_absent
from bmrm.errors import Interrupted
from bmrm.linear.models import metrics
from bmrm.linear.models.model import Model
from bmrm.linear.result import Result
from bmrm.linear.selection.cross_validation import FoldProblem, deal_for
from bmrm.linear.solve import solve
from bmrm.linear.solvers.progress import Progress
from bmrm.losses import Loss
from bmrm.losses.labels import encode
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.row_weights import lam_from_c


def class_problems(
    X: Any, codes: Vector | Indices, number: int, *, factors: Sequence[float] | None = None, **options: Any
) -> Iterator[Dataset]:
    """Yield the data of each class's problem: +1 for its rows, -1 for all others.

    - ``X``: the rows, as a `Dataset` or as a matrix of which ``options`` make one
    - ``codes``: the class of each row, from 0 to ``number`` - 1
    - ``factors``: for each class, the factor of the weights of its rows in its own problem; the rest keeps
      its weights there, as in LIBLINEAR
    """
    dataset = X if isinstance(X, Dataset) else Dataset(X, **options)
    for code in range(number):
        part, mine = copy.copy(dataset), codes == code
        part.y = np.where(mine, 1.0, -1.0)
        part.coded = part.y, np.array([-1.0, 1.0])
        if factors is not None:
            part.weights = _raised(dataset.weights, mine, factors[code])
        yield part


def _raised(weights: Vector | None, mine: Any, factor: float) -> Vector:
    """Return weights of rows, those of ``mine`` times a factor."""
    one = np.ones(len(mine)) if weights is None else weights
    return np.where(mine, factor * one, one)


def solve_each(
    problems: Iterable[Dataset],
    warm_starts: Iterable[Any],
    *,
    callback: Callable[[int, Progress], object] | None = None,
    max_time: float = math.inf,
    **options: Any,
) -> list[Result]:
    """Solve the problem of each class; return the results in the order of the classes.

    - ``callback``: as for `bmrm.solve`, called with the number of the class and the state of its solve
    - ``max_time``: seconds for all classes together
    - ``options``: those of `bmrm.solve`

    Raise `Interrupted` without a result, because a part of the classes predicts nothing.
    """
    began, results = time.perf_counter(), list[Result]()
    for part, start in zip(problems, warm_starts, strict=True):
        left = max(max_time - (time.perf_counter() - began), 1e-9)  # a solve makes one pass at least
        seen = None if callback is None else _numbered(callback, len(results))
        try:
            results.append(solve(part, warm_start=start, callback=seen, max_time=left, **options))
        except Interrupted:
            raise Interrupted from None
    return results


def _numbered(callback: Callable[[int, Progress], object], number: int) -> Callable[[Progress], object]:
    return lambda state: callback(number, state)


class ClassProblems:
    """The problems of all classes on the rows of one data set.

    - ``data``: with the labels, and with weights of rows alone
    - ``factors``: by label, as for `class_problems`; 1 for the others
    """

    def __init__(self, data: Dataset, factors: Mapping[Any, float]) -> None:
        self.data = data
        self.codes, labels = encode(data.y, data.shape[0], losses.get("multiclass"), data.weights)
        assert labels is not None
        self.labels = labels
        warn_of_absent(factors, labels.tolist())
        self._factors = [factors.get(label, 1.0) for label in labels.tolist()]

    def __iter__(self) -> Iterator[Dataset]:
        return class_problems(self.data, self.codes, len(self), factors=self._factors)

    def __len__(self) -> int:
        return len(self.labels)

    def model(self, results: Sequence[Result]) -> Model:
        """Return the model of all classes, which has no certificate: each class has its own."""
        return Model(
            w=np.column_stack([result.w for result in results]),
            intercept=np.array([float(result.intercept) for result in results]),
            loss=results[0].loss.name,
            task="multiclass",
            classes=tuple(self.labels.tolist()),
            lam=results[0].lam,
            zero_based=self.data.zero_based,
        )


class CostScore(NamedTuple):
    """A C, the accuracy on held-out rows, and the status of the solves: of the first that stopped, if any."""

    cost: float
    accuracy: float
    status: str


class ClassValidation:
    """Cross validation of all classes, with the same folds, for one C after another.

    ``options`` are those of `bmrm.solve`, except ``lam`` and ``C``.
    """

    def __init__(self, problems: ClassProblems, folds: int, loss: Loss, **options: Any) -> None:
        data, rows = problems.data, problems.data.shape[0]
        self._weights = np.ones(rows) if data.weights is None else data.weights
        joint = losses.get("multiclass")
        dealt = deal_for(joint, problems.codes, data.groups, self._weights, rows, folds, 0)
        self._problems = problems
        self._parts = [(part, FoldProblem(part, dealt, loss, 0, dict(options))) for part in problems]

    def cost_of(self, lam: float) -> float:
        """Return the C that lam means for rows without weights of classes."""
        return 1.0 / (lam * float(self._weights.sum()))

    def at(self, cost: float) -> tuple[list[Result], dict[str, float | int | None]]:
        """Return all results for a C, and the metrics of the rows by machines that have not seen them."""
        columns, results = [], []
        try:
            for part, problem in self._parts:
                found = problem.validate(lam_from_c(cost, part.total_weight))
                columns.append(found.values)
                results += found.results
        except Interrupted:
            raise Interrupted from None
        labels, codes = self._problems.labels, self._problems.codes.astype(int)
        scores = metrics.for_task("multiclass", labels.tolist())
        scores.update(np.column_stack(columns), labels[codes], self._weights)
        return results, scores.report()

    def select(self, costs: Sequence[float]) -> tuple[CostScore, list[CostScore]]:
        """Return the C of the best accuracy, the first of equals, and the scores of all."""
        scored = []
        for cost in costs:
            results, found = self.at(cost)
            stopped = [result.status for result in results if result.status != "converged"]
            status = stopped[0] if stopped else "converged"
            scored.append(CostScore(cost, float(found["accuracy"] or 0.0), status))
        return max(scored, key=lambda row: row.accuracy), scored
