"""``bmrm-train -s`` on more than two classes: LIBLINEAR trains one class after another against the rest.

All problems share one resident matrix; only labels and weights differ. As in LIBLINEAR the weight of a class
(``-wi``) counts in its own problem, and the rest has weight 1 there. Each problem has its own certificate.
The model is written in LIBLINEAR's text, with one column per class.
"""

from __future__ import annotations

import copy
import json
import math
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm import losses
from bmrm.base.progress import ProgressLine, Step, logarithmic_share, print_log
from bmrm.base.units import finite_or_none, number_text, time_text
from bmrm.cli.fitting import solver_arguments, start_of
from bmrm.cli.loading import model_of, numbers
from bmrm.cli.observer import words_of
from bmrm.cli.outcome import exit_code
from bmrm.cli.report import cross_validation_json, cross_validation_text
from bmrm.cli.storing import DOUBLE, Stored
from bmrm.errors import DataError, Interrupted, ParameterError, escape_unprintable
from bmrm.linear.models import metrics
from bmrm.linear.models.model import Model
from bmrm.losses.labels import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bmrm.cli.exits import Exit
    from bmrm.cli.options import TrainOptions
    from bmrm.cli.signals import Interrupts
    from bmrm.linear.result import Result
    from bmrm.linear.solvers.progress import Progress
    from bmrm.matrix.dataset import Dataset

_WITHOUT_MEANING = ("checkpoint", "resume", "log_jsonl", "calibrate", "prior")


class Classes:
    """The problems, one per class, on one matrix."""

    def __init__(self, options: TrainOptions, dataset: Dataset) -> None:
        for name in _WITHOUT_MEANING:
            if getattr(options, name) is not None:
                raise ParameterError(
                    f"--{name.replace('_', '-')}: has no meaning for classes trained one against the rest"
                )
        if options.class_weight == "balanced":
            raise ParameterError("--class-weight: found balanced, expected weights of classes with -s")
        rows = dataset.shape[0]
        self.options, self._dataset = options, dataset
        self.codes, labels = encode(dataset.y, rows, losses.get("multiclass"), dataset.weights)
        assert labels is not None
        self.labels = labels
        given = numbers(options.sample_weight, rows, "weight", "rows")
        self.weights = np.ones(rows) if given is None else given
        for label in labels.tolist():
            if not float(label).is_integer() or abs(label) >= 2**31:
                raise DataError(f"-s: found label {label:g}, expected a 32-bit integer for LIBLINEAR's model")

    def __iter__(self) -> Iterator[Dataset]:
        own = self.options.class_weight or {}
        assert isinstance(own, dict)
        for code, label in enumerate(self.labels.tolist()):
            part, mine = copy.copy(self._dataset), self.codes == code
            part.y = np.where(mine, 1.0, -1.0)
            part.coded = part.y, np.array([-1.0, 1.0])
            part.weights = np.where(mine, own.get(label, 1.0) * self.weights, self.weights)
            yield part

    def __len__(self) -> int:
        return len(self.labels)


def train(stored: Stored, path: str, interrupts: Interrupts, started: float) -> Exit:
    """Train all classes, write the model and print the certificates; if interrupted, write nothing.

    Values that float32 would round are read again. ``started`` is when reading began.
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
    results: list[Result] = []
    line = ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet)
    try:
        with print_log(options.verbose):
            for part, start in zip(classes, warm, strict=True):
                results.append(_solve(options, part, start, line, len(results), classes, loaded))
    finally:
        line.clear()
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
    _report(options, classes, results, path, seconds | {"total": written - started})
    return exit_code([result.status for result in results], options)


def _starts(options: TrainOptions, classes: Classes, dataset: Dataset) -> list[Any]:
    warm = model_of(options.warm_start)
    if warm is None:
        return [None] * len(classes)
    if warm.classes != tuple(classes.labels.tolist()) or warm.w.ndim != 2:
        raise DataError("--warm-start: found a model of other classes than those of the data")
    start = start_of(options, warm, dataset.shape[1])
    return [np.ascontiguousarray(column) for column in start.T]


def _solve(
    options: TrainOptions,
    part: Dataset,
    start: Any,
    line: ProgressLine,
    number: int,
    classes: Classes,
    began: float,
) -> Result:
    from bmrm.linear.solve import solve

    arguments = solver_arguments(options, part.shape[1], part.zero_based)
    arguments["max_time"] = max(arguments["max_time"] - (time.perf_counter() - began), 1e-9)
    label, count, first_gap = number_text(classes.labels[number]), len(classes), math.inf

    def show(state: Progress) -> None:
        nonlocal first_gap
        first_gap = first_gap if math.isfinite(first_gap) else state.gap
        words = (f"class {label} ({number + 1} of {count})", *words_of(state))
        share = logarithmic_share(first_gap, state.gap, state.tol) or 0.0
        line.update(lambda: Step(words, (number + share) / count))

    try:
        return solve(part, warm_start=start, callback=show, **arguments)
    except Interrupted:
        raise Interrupted from None


def cross_validate(options: TrainOptions, dataset: Dataset, dtype: str) -> Exit:
    """Predict each fold by machines that have not seen it; print the accuracy as LIBLINEAR does."""
    from bmrm.linear.selection.cross_validation import FoldProblem, deal_for

    assert options.folds is not None
    classes = Classes(options, dataset)
    rows = dataset.shape[0]
    folds = deal_for(losses.get("multiclass"), classes.codes, None, classes.weights, rows, options.folds, 0)
    arguments = solver_arguments(options, dataset.shape[1], dataset.zero_based)
    loss, columns, results = arguments.pop("loss"), [], []
    lam = arguments.get("lam", 1.0)  # C, if given, comes first
    try:
        for part in classes:
            found = FoldProblem(part, folds, loss, 0, dict(arguments)).validate(lam)
            columns.append(found.values)
            results += found.results
    except Interrupted:
        raise Interrupted from None
    scores = metrics.for_task("multiclass", classes.labels.tolist())
    scores.update(np.column_stack(columns), classes.labels[classes.codes.astype(int)], classes.weights)
    if options.json:
        print(cross_validation_json(results, scores.report(), options, dtype))
    elif not options.quiet:
        print(cross_validation_text("multiclass", scores.report()))
    return exit_code([result.status for result in results], options)


def _report(
    options: TrainOptions, classes: Classes, results: list[Result], path: str, seconds: dict[str, float]
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
        document = {"classes": each, **sizes, "model": path, "timings": seconds, "options": options.as_dict()}
        print(json.dumps(document, allow_nan=False))
    elif not options.quiet:
        print(f"{len(each)} classes, one against the rest, {time_text(seconds['train'])}")
        for label, result in zip(classes.labels.tolist(), results, strict=True):
            print(
                f"class {number_text(label):<6} {result.status} after {result.n_iter} iterations: "
                f"objective {result.objective:.10g}, gap {result.gap:.3g}"
            )
        print(f"model        {escape_unprintable(path)}")
