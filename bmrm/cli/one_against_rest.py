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

from bmrm.base.distinct import distinct_values
from bmrm.base.progress import ProgressLine, ProgressStep, logarithmic_share, print_log, print_notice
from bmrm.base.tables import format_table
from bmrm.base.units import finite_or_none, number_text, time_text
from bmrm.cli.fitting import solver_arguments, start_of
from bmrm.cli.loading import class_weights, load, model_of, numbers
from bmrm.cli.observer import words_of
from bmrm.cli.outcome import exit_code
from bmrm.cli.report import cross_validation_json, cross_validation_text, edge_note, edge_of_grid
from bmrm.cli.solver_types import SOLVER_TYPES, costs_from
from bmrm.cli.train_options import DEFAULT_FOLDS
from bmrm.errors import DataError, ParameterError, escape_unprintable
from bmrm.linear.selection.one_against_rest import ClassProblems, ClassValidation, solve_each
from bmrm.linear.selection.select import LAMS
from bmrm.linear.storage import AUTO, DOUBLE

if TYPE_CHECKING:
    from bmrm.cli.exits import Exit
    from bmrm.cli.signals import CommandInterrupts
    from bmrm.cli.train_options import TrainOptions
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
    return len(distinct_values(data.y if weights is None else data.y[weights > 0.0])) > 2


def _problems(options: TrainOptions, dataset: Dataset) -> ClassProblems:
    """Return the problems of the classes; raise for options and labels that LIBLINEAR's model has not."""
    for name in _WITHOUT_MEANING:
        if getattr(options, name) is not None:
            raise ParameterError(
                f"--{name.replace('_', '-')}: has no meaning for classes trained one against the rest"
            )
    if options.offset is not None:
        raise ParameterError("--offset: LIBLINEAR's model format, which -s writes, cannot store it")
    if options.class_weight == "balanced":
        raise ParameterError("--class-weight: found balanced, expected weights of classes with -s")
    if dataset.y.dtype.kind == "U":
        raise DataError(
            "-s: found text as labels, expected 32-bit integers for LIBLINEAR's model "
            "(--loss multiclass takes text)"
        )
    own = class_weights(options, dataset.y) or {}
    assert isinstance(own, dict)
    rows = copy.copy(dataset)
    rows.weights = numbers(options.sample_weight, dataset.shape[0], "weight", "rows")
    if rows.weights is None:
        rows.weights = np.ones(dataset.shape[0])
    problems = ClassProblems(rows, own)
    for label in problems.labels.tolist():
        if not float(label).is_integer() or abs(label) >= 2**31:
            raise DataError(
                f"-s: found label {number_text(label)}, expected a 32-bit integer for LIBLINEAR's model"
            )
    return problems


def train(
    options: TrainOptions,
    dataset: Dataset,
    path: str,
    interrupts: CommandInterrupts,
    started: float,
    **more: Any,
) -> Exit:
    """Train all classes, write the model and print the certificates; if interrupted, write nothing.

    Values that float32 would round are read again. ``started`` is when reading began; ``more`` are additional
    keys of the JSON object.
    """
    with interrupts.opened():
        if options.dtype == AUTO and dataset.rounded:
            del dataset
            dataset = load(replace(options, dtype=DOUBLE))
        problems = _problems(options, dataset)
        warm = _starts(options, problems)
        if dataset.zero_based:
            raise ParameterError("-s: found features numbered from 0, expected them from 1 as in LIBLINEAR")
    loaded = time.perf_counter()
    results = _solve(options, problems, warm)
    trained = time.perf_counter()
    model = problems.model(results)
    replace(model, loss=options.loss, zero_based=False).export_liblinear(path)
    written = time.perf_counter()
    seconds = {"load": loaded - started, "train": trained - loaded, "write": written - trained}
    labels = problems.labels.tolist()
    _report(options, labels, results, path, seconds | {"total": written - started}, more)
    return exit_code([result.status for result in results], options)


def _starts(options: TrainOptions, problems: ClassProblems) -> list[Any]:
    warm = model_of(options.warm_start)
    if warm is None:
        return [None] * len(problems)
    if warm.classes != tuple(problems.labels.tolist()) or warm.w.ndim != 2:
        raise DataError("--warm-start: found a model of other classes than those of the data")
    start = start_of(options, warm, problems.data.shape[1])
    return [np.ascontiguousarray(column) for column in start.T]


def _solve(options: TrainOptions, problems: ClassProblems, starts: list[Any]) -> list[Result]:
    """Solve the problems of all classes, and show progress."""
    count = len(problems)
    first_gaps: dict[int, float] = {}
    line = ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet)
    labels = [number_text(label) for label in problems.labels]

    def show(number: int, state: Progress) -> None:
        if math.isfinite(state.gap):
            first_gaps.setdefault(number, state.gap)
        words = (f"class {labels[number]} ({number + 1} of {count})", *words_of(state))
        share = logarithmic_share(first_gaps.get(number, math.inf), state.gap, state.tol) or 0.0
        line.update(lambda: ProgressStep(words, (number + share) / count))

    arguments = solver_arguments(options, problems.data.shape[1], problems.data.zero_based)
    try:
        with print_log(options.verbose):
            return solve_each(problems, starts, callback=show, **arguments)
    finally:
        line.clear()


def _validation(options: TrainOptions, dataset: Dataset) -> ClassValidation:
    arguments = solver_arguments(options, dataset.shape[1], dataset.zero_based)
    for name in ("lam", "C"):
        arguments.pop(name, None)
    folds = DEFAULT_FOLDS if options.folds is None else options.folds
    return ClassValidation(_problems(options, dataset), folds, **arguments)


def cross_validate(options: TrainOptions, dataset: Dataset) -> Exit:
    """Predict each fold by machines that have not seen it; print the accuracy as LIBLINEAR does."""
    validation = _validation(options, dataset)
    cost = options.cost if options.cost is not None else validation.cost_of(options.lam)
    results, found = validation.at(cost)
    if options.json:
        print(cross_validation_json(results, found, options))
    elif not options.quiet:
        print(cross_validation_text("multiclass", found))
    return exit_code([result.status for result in results], options)


def select(
    options: TrainOptions, dataset: Dataset, path: str, interrupts: CommandInterrupts, started: float
) -> Exit:
    """Choose C by the accuracy on held-out rows, print the table, and train with the best one.

    Among equal scores the smallest C wins, as in `bmrm.select`.
    """
    for name in ("plot", "metric"):
        if getattr(options, name) is not None:
            raise ParameterError(f"--{name}: has no meaning for classes trained one against the rest")
    if options.rule != "best":
        raise ParameterError(f"--rule: found {options.rule}, expected best for classes against the rest")
    validation = _validation(options, dataset)
    if options.cost is not None:
        costs = costs_from(options.cost)
    else:
        lams = LAMS if options.lambdas is None else options.lambdas
        costs = sorted(map(validation.cost_of, lams))
    best, scored = validation.select(costs)
    rows = [[f"{cost:.6g}", f"{score:.6f}", status] for cost, score, status in scored]
    print_notice(format_table(["C", "accuracy", "status"], rows), quiet=options.quiet)
    grid = [{"C": cost, "accuracy": score, "status": status} for cost, score, status in scored]
    edge = edge_of_grid(best.cost, costs)
    selection = {"C": best.cost, "edge_of_grid": edge, "metric": "accuracy", "grid": grid}
    if not options.json and not options.quiet:
        accuracy = f"accuracy {best.accuracy:.6g} on held-out rows"
        print(f"C            {best.cost:.6g}: {accuracy}{edge_note('C', edge)}")
    if options.trains:
        options = replace(options, cost=best.cost, select=False, lambdas=None)
        return train(options, dataset, path, interrupts, started, selection=selection)
    if options.json:
        print(json.dumps({"selection": selection, "options": options.as_dict()}))
    return exit_code([status for _, _, status in scored], options)


def _report(
    options: TrainOptions,
    labels: list[Any],
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
        for label, result in zip(labels, results, strict=True)
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
        for label, result in zip(labels, results, strict=True):
            print(
                f"class {number_text(label):<6} {result.status} after {result.n_iter} iterations: "
                f"objective {result.objective:.10g}, gap {result.gap:.3g}"
            )
        print(f"model        {escape_unprintable(path)}")
