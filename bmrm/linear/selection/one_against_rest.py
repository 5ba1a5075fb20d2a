"""One class against the rest: a problem of two classes for each class, all on one resident matrix.

Only labels and weights differ from problem to problem, so that X is stored once. Each result has its own
certificate. See Rifkin, Klautau, "In defense of one-vs-all classification", JMLR 5 (2004) 101.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import Interrupted
from bmrm.linear.result import Result
from bmrm.linear.solve import solve
from bmrm.linear.solvers.progress import Progress
from bmrm.matrix.dataset import Dataset


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
