"""``bmrm-train -C``, ``-v`` with a grid, and ``--calibrate``: cross validation, and what it leads to."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from bmrm.cli.fitting import check, check_labels, make_loss, solver_arguments
from bmrm.cli.loading import placement, read
from bmrm.cli.progress import Interrupts, ProgressLine, logged, notice
from bmrm.cli.report import finite_metrics, metrics_text, selection_document, selection_text
from bmrm.cli.train import exit_code, model_path, report
from bmrm.crossval import FoldDone
from bmrm.errors import ParameterError
from bmrm.io.model import Model
from bmrm.metrics import ProbabilityMetrics
from bmrm.selection import LAMS, Selection, select
from bmrm.weights import lam_of, row_weights

if TYPE_CHECKING:
    from bmrm.calibration import Calibration
    from bmrm.cli.options import TrainOptions
    from bmrm.io import Data

FOLDS = 5


def select_and_train(options: TrainOptions, interrupts: Interrupts) -> int:
    """Score a grid, and train with the lam picked; an interrupt on the way leaves nothing written."""
    started = time.perf_counter()
    path = model_path(options)
    check(options)
    if options.calibrate is not None and make_loss(options).task != "binary":
        raise ParameterError(f"--calibrate: found loss {options.loss}, expected one for two classes")
    if options.plot is not None:
        from bmrm.plots import check_suffix

        check_suffix(options.plot)
    data = read(options)
    check_labels(options, data)
    loaded = time.perf_counter()
    selection = _select(options, data)
    calibration, fit = _calibrate(options, selection)
    trained = time.perf_counter()
    seconds = {"load": loaded - started, "train": trained - loaded}
    with interrupts.shielded():
        if selection.result is not None:
            model = Model.from_result(selection.result, calibration=calibration, zero_based=data.zero_based)
            if options.export == "liblinear":
                model.export_liblinear(path)
            else:
                model.save(path)
        if options.plot is not None:
            from bmrm.plots import save

            save(selection.plot(), options.plot)
    written = time.perf_counter()
    seconds |= {"write": written - trained, "total": written - started}
    _report(options, selection, path, seconds, fit)
    return exit_code(selection.statuses, options)


def _select(options: TrainOptions, data: Data) -> Selection:
    X, y = data.X, data.y
    line = ProgressLine(sys.stderr, every_step=options.verbose, quiet=options.quiet)
    arguments = solver_arguments(options, X.shape[1])
    lams = LAMS if options.lambdas is None else options.lambdas
    folds = FOLDS if options.folds is None else options.folds
    lam, cost = arguments.pop("lam", None), arguments.pop("C", None)
    if not options.has_grid:
        lams = (lam if cost is None else lam_of(cost, _total_weight(options, data)),)
    if options.metric is not None:
        arguments["metric"] = options.metric
    try:
        with logged(options.verbose):
            return select(
                X,
                y,
                lams,
                folds,
                rule=options.rule,
                refit=options.trains,
                progress=lambda done: line.update(lambda: _line(done, folds)),
                **placement(options, data),
                **arguments,
            )
    finally:
        line.clear()


def _total_weight(options: TrainOptions, data: Data) -> float:
    given, X = placement(options, data), data.X
    weights = row_weights(data.y, X.shape[0], given["sample_weight"], given["class_weight"])
    return float(X.shape[0]) if weights is None else float(weights.sum())


def _line(done: FoldDone, folds: int) -> str:
    rows = f"without fold {done.fold + 1}" if done.fold < folds else "all rows"
    return (
        f"solve {done.done} of {done.total}: lambda {done.result.lam:.4g}, {rows}, "
        f"objective {done.result.objective:.6g}, {done.result.n_iter} iterations"
    )


def _calibrate(options: TrainOptions, selection: Selection) -> tuple[Calibration | None, dict[str, Any]]:
    """Fit the calibration that was asked for; return also how well it fits the held-out rows."""
    if options.calibrate is None:
        return None, {}
    calibration = selection.calibrate(options.calibrate)
    scores = ProbabilityMetrics((-1.0, 1.0))
    scores.update(calibration.probability(selection.values), selection.labels)
    return calibration, dict(scores.report())


def _report(
    options: TrainOptions, selection: Selection, path: str, seconds: dict[str, float], fit: dict[str, Any]
) -> None:
    import json

    if options.has_grid:
        notice(str(selection), quiet=options.quiet)
    text = selection_text(selection)
    if fit:
        text += "\n" + "\n".join(
            f"Cross Validation {line}" for line in metrics_text("binary", fit).splitlines()
        )
    document: dict[str, Any] = {"selection": selection_document(selection)}
    if fit:
        document["calibration"] = {"method": options.calibrate, **finite_metrics(fit)}
    if not options.json and not options.quiet:
        print(text)
    if selection.result is not None:
        report(selection.result, options, path, seconds, **document)
    elif options.json:
        print(json.dumps({**document, "timings": seconds, "options": options.as_dict()}, allow_nan=False))
