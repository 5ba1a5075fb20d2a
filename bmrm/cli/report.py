"""What the commands say at the end, in words and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bmrm.cli.units import time_text
from bmrm.io.model_file import finite_or_none

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.crossval import CrossValidation
    from bmrm.result import Result

_STOPS = {
    "converged": "converged",
    "max_iter": "stopped at the iteration limit",
    "max_time": "stopped at the time limit",
    "precision": "stopped at the limit of precision: the tolerance cannot be resolved",
    "interrupted": "interrupted",
}


def certificate_text(result: Result, seconds: float) -> str:
    """Return what is known of the optimum, in words.

    The optimum is at least the lower bound, so gap / lower bound bounds the relative excess.
    """
    place = "" if result.device == "cpu" else f" on {result.device}"
    excess = f"{result.gap:.3g}"
    if result.lower_bound > 0:
        excess = f"{100 * result.gap / result.lower_bound:.2g} %"
    return (
        f"{_STOPS[result.status]} after {result.n_iter} iterations, {time_text(seconds)}{place}\n"
        f"objective    {result.objective:.10g}\n"
        f"lower bound  {result.lower_bound:.10g}\n"
        f"gap          {result.gap:.3g}: at most {excess} above the optimum"
    )


def result_json(result: Result, seconds: Mapping[str, float], options: TrainOptions, model: str) -> str:
    """Return the object that ``--json`` prints; an unknown bound is null."""
    return json.dumps(
        {
            "objective": finite_or_none(result.objective),
            "lower_bound": finite_or_none(result.lower_bound),
            "gap": finite_or_none(result.gap),
            "status": result.status,
            "iterations": result.n_iter,
            "n_samples": result.n_samples,
            "n_features": result.n_features,
            "nnz": result.nnz,
            "device": result.device,
            "lambda": result.lam,
            "model": model,
            "timings": dict(seconds),
            "options": options.as_dict(),
        },
        allow_nan=False,
    )


def cross_validation_text(found: CrossValidation) -> str:
    """Return the metrics as LIBLINEAR prints them."""
    lines = metrics_text(found.results[0].loss.task, found.metrics).splitlines()
    return "\n".join(f"Cross Validation {line}" for line in lines)


def cross_validation_json(found: CrossValidation, options: TrainOptions) -> str:
    """Return the object that ``--json`` prints for ``-v``."""
    return json.dumps(
        {
            "folds": len(found.results),
            **found.metrics,
            "statuses": [result.status for result in found.results],
            "iterations": [result.n_iter for result in found.results],
            "options": options.as_dict(),
        },
        allow_nan=False,
    )


def metrics_text(task: str, report: Mapping[str, float | int | None]) -> str:
    """Return metrics as LIBLINEAR prints them where it has them, one a line.

    Examples
    --------
    >>> print(metrics_text("binary", {"rows": 4, "correct": 3, "accuracy": 0.75, "auc": None}))
    Accuracy = 75% (3/4)
    """
    if "correct" in report:
        templates = {
            "accuracy": "Accuracy = {0:g}% ({1[correct]}/{1[rows]})",
            "auc": "AUC = {0:.6g}",
            "hamming_loss": "Hamming loss = {0:.6g}",
            "micro_f1": "Micro F1 = {0:.6g}",
            "macro_f1": "Macro F1 = {0:.6g}",
            "log_loss": "Log loss = {0:.6g}",
        }
    else:
        templates = {
            "mse": "Mean squared error = {0:g} (regression)",
            "r2": "Squared correlation coefficient = {0:g} (regression)",
            "deviance": "Mean Poisson deviance = {0:g}",
            "rmse": "RMSE = {0:g}",
            "mae": "MAE = {0:g}",
            "ranking_loss": "Ranking loss = {0:.6g}",
            "one_error": "One-error = {0:.6g}",
            "average_precision": "Average precision = {0:.6g}",
            "novel_fraction": "Novel = {0:g}% ({1[novel]}/{1[rows]})",
        }
    percent = ("accuracy", "novel_fraction")
    return "\n".join(
        template.format(100 * value if name in percent else value, report)
        for name, template in templates.items()
        if (value := report.get(name)) is not None
    )
