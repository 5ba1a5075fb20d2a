"""``bmrm-train -s`` on more than two classes: LIBLINEAR trains one class after another against the rest.

As in LIBLINEAR the weight of a class (``-wi``) counts in its own problem, and the rest has weight 1 there.
The model is written in LIBLINEAR's text, with one column per class.
"""

from __future__ import annotations

import copy
import json
import math
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm import losses
from bmrm.base.progress import ProgressLine, Step, logarithmic_share, print_log, print_notice
from bmrm.base.tables import format_table
from bmrm.base.units import finite_or_none, number_text, time_text
from bmrm.base.weighting import warn_of_absent
from bmrm.cli.fitting import solver_arguments, start_of
from bmrm.cli.loading import class_weights, model_of, numbers
from bmrm.cli.observer import words_of
from bmrm.cli.options import DEFAULT_FOLDS
from bmrm.cli.outcome import exit_code
from bmrm.cli.report import cross_validation_json, cross_validation_text, edge_note, edge_of_grid
from bmrm.cli.solver_types import SOLVER_TYPES, costs_from
from bmrm.cli.storing import DOUBLE, Stored
from bmrm.errors import DataError, Interrupted, ParameterError, escape_unprintable
from bmrm.linear.models import metrics
from bmrm.linear.models.model import Model
from bmrm.linear.selection.one_against_rest import class_problems, solve_each
from bmrm.linear.selection.select import LAMS
from bmrm.losses.labels import encode
from bmrm.matrix.row_weights import lam_from_c

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bmrm.cli.exits import Exit
    from bmrm.cli.options import TrainOptions
    from bmrm.cli.signals import Interrupts
    from bmrm.io import Data
    from bmrm.linear.result import Result
    from bmrm.linear.solvers.progress import Progress
    from bmrm.matrix.dataset import Dataset

_WITHOUT_MEANING = ("checkpoint", "resume", "log_jsonl", "calibrate", "prior")


def applies(options: TrainOptions, data: Data) -> bool:
    """Return whether the options ask for one machine per class, and the data have more than two classes."""
    if options.solver_type is None or SOLVER_TYPES[options.solver_type].kind != "classes":
        return False
    if not isinstance(data.y, np.ndarray):
        return False
    weights = numbers(options.sample_weight, len(data.y), "weight", "rows")
    return len(np.unique(data.y if weights is None else data.y[weights > 0.0])) > 2


class Classes:
    """The problems, one per class, on one matrix."""

    def __init__(self, options: TrainOptions, dataset: Dataset) -> None:
        for name in _WITHOUT_MEANING:
            if getattr(options, name) is not None:
                raise ParameterError(
                    f"--{name.replace('_', '-')}: has no meaning for classes trained one against the rest"
                )
        if options.offset is not None:
            raise ParameterError("--offset: LIBLINEAR's model file, which -s writes, has no place for it")
        if options.class_weight == "balanced":
            raise ParameterError("--class-weight: found balanced, expected weights of classes with -s")
        rows = dataset.shape[0]
        self.options = options
        self.codes, labels = encode(dataset.y, rows, losses.get("multiclass"), dataset.weights)
        assert labels is not None
        self.labels = labels
        if labels.dtype.kind == "U":
            raise DataError(
                "-s: found text as labels, expected 32-bit integers for LIBLINEAR's model "
                "(--loss multiclass takes text)"
            )
        own = class_weights(options, labels) or {}
        assert isinstance(own, dict)
        warn_of_absent(own, labels.tolist())
        self._factors = [own.get(label, 1.0) for label in labels.tolist()]
        given = numbers(options.sample_weight, rows, "weight", "rows")
        self.weights = np.ones(rows) if given is None else given
        self._dataset = copy.copy(dataset)
        self._dataset.weights = self.weights
        for label in labels.tolist():
            if not float(label).is_integer() or abs(label) >= 2**31:
                raise DataError(
                    f"-s: found label {number_text(label)}, expected a 32-bit integer for LIBLINEAR's model"
                )

    def __iter__(self) -> Iterator[Dataset]:
        return class_problems(self._dataset, self.codes, len(self), factors=self._factors)

    def __len__(self) -> int:
        return len(self.labels)


def train(stored: Stored, path: str, interrupts: Interrupts, started: float, **more: Any) -> Exit:
    """Train all classes, write the model and print the certificates; if interrupted, write nothing.

    Values that float32 would round are read again. ``started`` is when reading began; ``more`` are additional
    keys of the JSON object.
    """
    options = stored.options
    with interrupts.opened():
        if options.dtype == "auto" and stored.data.rounded:
            del stored
            stored = Stored.load(options, DOUBLE, None)
        dataset = stored.dataset
        classes = Classes(options, dataset)
        warm = _starts(options, classes, dataset)
        if stored.zero_based:
            raise ParameterError("-s: found features numbered from 0, expected them from 1 as in LIBLINEAR")
    loaded = time.perf_counter()
    results = _solve(classes, warm, dataset)
    trained = time.perf_counter()
    Model(
        w=np.column_stack([result.w for result in results]),
        intercept=np.array([float(result.intercept) for result in results]),
        loss=options.loss,
        task="multiclass",
        classes=tuple(classes.labels.tolist()),
        lam=results[0].lam,
        zero_based=False,
    ).export_liblinear(path)
    written = time.perf_counter()
    seconds = {"load": loaded - started, "train": trained - loaded, "write": written - trained}
    _report(options, classes, results, path, seconds | {"total": written - started}, more)
    return exit_code([result.status for result in results], options)


def _starts(options: TrainOptions, classes: Classes, dataset: Dataset) -> list[Any]:
    warm = model_of(options.warm_start)
    if warm is None:
        return [None] * len(classes)
    if warm.classes != tuple(classes.labels.tolist()) or warm.w.ndim != 2:
        raise DataError("--warm-start: found a model of other classes than those of the data")
    start = start_of(options, warm, dataset.shape[1])
    return [np.ascontiguousarray(column) for column in start.T]


def _solve(classes: Classes, starts: list[Any], dataset: Dataset) -> list[Result]:
    """Solve the problems of all classes, and show progress."""
    options, count = classes.options, len(classes)
    first_gaps: dict[int, float] = {}
    line = ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet)
    labels = [number_text(label) for label in classes.labels]

    def show(number: int, state: Progress) -> None:
        if math.isfinite(state.gap):
            first_gaps.setdefault(number, state.gap)
        words = (f"class {labels[number]} ({number + 1} of {count})", *words_of(state))
        share = logarithmic_share(first_gaps.get(number, math.inf), state.gap, state.tol) or 0.0
        line.update(lambda: Step(words, (number + share) / count))

    arguments = solver_arguments(options, dataset.shape[1], dataset.zero_based)
    try:
        with print_log(options.verbose):
            return solve_each(classes, starts, callback=show, **arguments)
    finally:
        line.clear()


def cross_validate(options: TrainOptions, dataset: Dataset, dtype: str) -> Exit:
    """Predict each fold by machines that have not seen it; print the accuracy as LIBLINEAR does."""
    validation = _Validation(options, Classes(options, dataset), dataset)
    cost = options.cost if options.cost is not None else validation.cost_of(options.lam)
    results, found = validation.at(cost)
    if options.json:
        print(cross_validation_json(results, found, options, dtype))
    elif not options.quiet:
        print(cross_validation_text("multiclass", found))
    return exit_code([result.status for result in results], options)


class _Validation:
    """Cross validation of all classes, with the same folds, for one C after another."""

    def __init__(self, options: TrainOptions, classes: Classes, dataset: Dataset) -> None:
        from bmrm.linear.selection.cross_validation import FoldProblem, deal_for

        number = DEFAULT_FOLDS if options.folds is None else options.folds
        joint, rows = losses.get("multiclass"), dataset.shape[0]
        folds = deal_for(joint, classes.codes, dataset.groups, classes.weights, rows, number, 0)
        arguments = solver_arguments(options, dataset.shape[1], dataset.zero_based)
        loss = arguments.pop("loss")
        arguments = {name: value for name, value in arguments.items() if name not in ("lam", "C")}
        self._classes = classes
        self._parts = [(part, FoldProblem(part, folds, loss, 0, dict(arguments))) for part in classes]

    def cost_of(self, lam: float) -> float:
        """Return the C that lam means for rows without weights of classes."""
        return 1.0 / (lam * float(self._classes.weights.sum()))

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
        classes = self._classes
        scores = metrics.for_task("multiclass", classes.labels.tolist())
        scores.update(np.column_stack(columns), classes.labels[classes.codes.astype(int)], classes.weights)
        return results, scores.report()


def select(stored: Stored, path: str, interrupts: Interrupts, started: float) -> Exit:
    """Choose C by the accuracy on held-out rows, print the table, and train with the best one.

    Among equal scores the smallest C wins, as in `bmrm.select`.
    """
    options = stored.options
    for name in ("plot", "metric"):
        if getattr(options, name) is not None:
            raise ParameterError(f"--{name}: has no meaning for classes trained one against the rest")
    if options.rule != "best":
        raise ParameterError(f"--rule: found {options.rule}, expected best for classes against the rest")
    validation = _Validation(options, Classes(options, stored.dataset), stored.dataset)
    if options.cost is not None:
        costs = costs_from(options.cost)
    else:
        lams = LAMS if options.lambdas is None else options.lambdas
        costs = sorted(map(validation.cost_of, lams))
    scored = []
    for cost in costs:
        results, found = validation.at(cost)
        stopped = [result.status for result in results if result.status != "converged"]
        scored.append((cost, float(found["accuracy"] or 0.0), stopped[0] if stopped else "converged"))
    best, accuracy, _ = max(scored, key=lambda row: row[1])
    rows = [[f"{cost:.6g}", f"{score:.6f}", status] for cost, score, status in scored]
    print_notice(format_table(["C", "accuracy", "status"], rows), quiet=options.quiet)
    grid = [{"C": cost, "accuracy": score, "status": status} for cost, score, status in scored]
    edge = edge_of_grid(best, [cost for cost, _, _ in scored])
    selection = {"C": best, "edge_of_grid": edge, "metric": "accuracy", "grid": grid}
    if not options.json and not options.quiet:
        print(f"C            {best:.6g}: accuracy {accuracy:.6g} on held-out rows{edge_note('C', edge)}")
    if options.trains:
        stored.options = replace(options, cost=best, select=False, lambdas=None)
        return train(stored, path, interrupts, started, selection=selection)
    if options.json:
        print(json.dumps({"selection": selection, "options": options.as_dict()}))
    return exit_code([status for _, _, status in scored], options)


def _report(
    options: TrainOptions,
    classes: Classes,
    results: list[Result],
    path: str,
    seconds: dict[str, float],
    more: dict[str, Any],
) -> None:
    each = [
        {
            "label": label,
            "objective": finite_or_none(result.objective),
            "lower_bound": finite_or_none(result.lower_bound),
            "gap": finite_or_none(result.gap),
            "status": result.status,
            "iterations": result.n_iter,
            "lambda": result.lam,
        }
        for label, result in zip(classes.labels.tolist(), results, strict=True)
    ]
    if options.json:
        one = results[0]
        sizes = {"n_samples": one.n_samples, "n_features": one.n_features, "nnz": one.nnz}
        document = {
            "classes": each,
            **sizes,
            **more,
            "model": path,
            "timings": seconds,
            "options": options.as_dict(),
        }
        print(json.dumps(document, allow_nan=False))
    elif not options.quiet:
        print(f"{len(each)} classes, one against the rest, {time_text(seconds['train'])}")
        for label, result in zip(classes.labels.tolist(), results, strict=True):
            print(
                f"class {number_text(label):<6} {result.status} after {result.n_iter} iterations: "
                f"objective {result.objective:.10g}, gap {result.gap:.3g}"
            )
        print(f"model        {escape_unprintable(path)}")
