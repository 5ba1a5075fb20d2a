"""``bmrm-train -C``, ``-v`` with a grid, and ``--calibrate``: cross validation, and training after it."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import TYPE_CHECKING, Any

from bmrm.base.progress import ProgressLine, ProgressStep, print_log, print_notice
from bmrm.base.weighting import scale_weights
from bmrm.cli import one_against_rest
from bmrm.cli.fitting import check, check_labels, make_loss, solver_arguments, write_model
from bmrm.cli.loading import placement, read_shown
from bmrm.cli.outcome import exit_code, model_path, report
from bmrm.cli.report import cross_validation_text, finite_metrics, selection_document, selection_text
from bmrm.cli.signals import CommandInterrupts
from bmrm.cli.solver_types import costs_from
from bmrm.cli.storing import first_type, loaded
from bmrm.cli.train_options import DEFAULT_FOLDS
from bmrm.errors import ParameterError
from bmrm.linear.models.metrics import ProbabilityMetrics
from bmrm.linear.selection.cross_validation import FoldDone
from bmrm.linear.selection.select import LAMS, Selection, select
from bmrm.linear.storage import AUTO, DOUBLE
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.row_weights import lam_from_c, row_weights

if TYPE_CHECKING:
    from bmrm.base.vectors import Vector
    from bmrm.cli.train_options import TrainOptions
    from bmrm.io import Data
    from bmrm.linear.models.calibration import Calibration


def select_and_train(options: TrainOptions, interrupts: CommandInterrupts) -> int:
    """Score a grid, and train with the selected lam; if interrupted, write nothing."""
    started = time.perf_counter()
    with interrupts.opened():
        path = model_path(options)
        check(options)
        if options.calibrate is not None and make_loss(options).task != "binary":
            raise ParameterError(f"--calibrate: found loss {options.loss}, expected one for two classes")
        if options.plot is not None:
            from bmrm.base.figures import check_suffix

            check_suffix(options.plot)
        data = loaded(read_shown, options, first_type(options))
        if one_against_rest.applies(options, data):
            dataset = Dataset(data, tol=options.tol, **placement(options, data))
            del data
            return one_against_rest.select(options, dataset, path, interrupts, started)
        check_labels(options, data, _placed(options, data)[1])
        arguments = _arguments(options, data)
    known = time.perf_counter()
    selection = _select(options, data, arguments)
    if options.dtype == AUTO and data.rounded and "precision" in selection.statuses:
        remaining = _with_remaining_time(options, time.perf_counter() - known)
        if remaining is not None:
            del data, arguments, selection
            with interrupts.opened():
                data = loaded(read_shown, remaining, DOUBLE)
                arguments = _arguments(remaining, data)
            known = time.perf_counter()
            selection = _select(remaining, data, arguments)
    calibration, fit = _calibrate(options, selection)
    trained = time.perf_counter()
    seconds = {"load": known - started, "train": trained - known}
    if selection.result is not None:
        write_model(selection.result, options, path, calibration)
    if options.plot is not None:
        from bmrm.linear.plots import save

        save(selection.plot(), options.plot)
    written = time.perf_counter()
    seconds |= {"write": written - trained, "total": written - started}
    _report(options, selection, path, seconds, fit)
    return exit_code(selection.statuses, options)


def _with_remaining_time(options: TrainOptions, elapsed: float) -> TrainOptions | None:
    """Return the options with the remaining time limit; None if no time remains."""
    if options.max_time is None:
        return options
    remaining = options.max_time - elapsed
    return dataclasses.replace(options, max_time=remaining) if remaining > 0.0 else None


def _placed(options: TrainOptions, data: Data) -> tuple[dict[str, Any], Vector | None]:
    """Return the arguments of the data set, and its row weights."""
    given = placement(options, data)
    return given, row_weights(data.y, data.X.shape[0], given["sample_weight"], given["class_weight"])


def _arguments(options: TrainOptions, data: Data) -> dict[str, Any]:
    """Return the arguments of `select` besides the data; read the files named in the options."""
    given, weights = _placed(options, data)
    arguments = solver_arguments(options, data.X.shape[1], data.zero_based)
    lams = LAMS if options.lambdas is None else options.lambdas
    lam, cost = arguments.pop("lam", None), arguments.pop("C", None)
    total = float(data.X.shape[0]) if weights is None else float(weights.sum())
    if not options.has_grid:
        lams = (lam if cost is None else lam_from_c(cost, total),)
    elif cost is not None:
        lams = tuple(lam_from_c(each, total) for each in costs_from(cost))
    if options.metric is not None:
        arguments["metric"] = options.metric
    folds = DEFAULT_FOLDS if options.folds is None else options.folds
    return arguments | {"lams": lams, "folds": folds} | given


def _select(options: TrainOptions, data: Data, arguments: dict[str, Any]) -> Selection[Any]:
    line = ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet)
    try:
        with print_log(options.verbose):
            return select(
                data,
                rule=options.rule,
                refit=options.trains,
                progress=lambda done: line.update(lambda: _step(done, arguments["folds"])),
                **arguments,
            )
    finally:
        line.clear()


def _step(done: FoldDone, folds: int) -> ProgressStep:
    words = (
        f"solve {done.done} of {done.total}",
        f"lambda {done.result.lam:.4g}",
        f"without fold {done.fold + 1}" if done.fold < folds else "all rows",
        f"objective {done.result.objective:.6g}",
        f"{done.result.n_iter} iterations",
    )
    return ProgressStep(words, done.done / done.total)


def _calibrate(options: TrainOptions, selection: Selection[Any]) -> tuple[Calibration | None, dict[str, Any]]:
    """Fit the requested calibration; return also its metrics on the held-out rows."""
    if options.calibrate is None:
        return None, {}
    calibration = selection.calibrate(options.calibrate)
    scores = ProbabilityMetrics((-1.0, 1.0))
    weights = scale_weights(selection.weights)
    scores.update(calibration.probability(selection.values), selection.labels, weights)
    return calibration, dict(scores.report())


def _report(
    options: TrainOptions,
    selection: Selection[Any],
    path: str,
    seconds: dict[str, float],
    fit: dict[str, Any],
) -> None:
    import json

    if options.has_grid:
        print_notice(str(selection), quiet=options.quiet)
    text = selection_text(selection)
    if fit:
        text += f"\n{cross_validation_text('binary', fit)}"
    document: dict[str, Any] = {"selection": selection_document(selection)}
    if fit:
        document["calibration"] = {"method": options.calibrate, **finite_metrics(fit)}
    if not options.json and not options.quiet:
        print(text)
    if selection.result is not None:
        report(selection.result, options, path, seconds, **document)
    elif options.json:
        dtype = selection.validations[0].results[0].stored
        print(
            json.dumps(
                {**document, "dtype": dtype, "timings": seconds, "options": options.as_dict()},
                allow_nan=False,
            )
        )
