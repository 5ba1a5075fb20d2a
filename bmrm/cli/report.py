"""The final reports of the commands, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bmrm.base.units import finite_or_none
from bmrm.linear.result import certificate_lines

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.linear.result import Result
    from bmrm.linear.selection.select import Selection

WIDE_GAP = 0.01
"""Gap, as a share of the objective, from which rounding is worth advice: rounding alone hardly causes it."""

NOTABLE_ROUNDING_SHARE = 0.5
"""Share of the gap from which the rounding of values is reported."""

LARGE_FEATURE_RATIO = 1e4
"""Ratio to the median feature size from which a feature is far larger than the others."""


def certificate_text(result: Result, seconds: float) -> str:
    """Return the certificate as text; the gap includes the rounding of values.

    The optimum is at least the lower bound, so gap / lower bound is an upper bound of the relative excess.
    """
    advice, rounding = "", result.rounding
    if rounding > NOTABLE_ROUNDING_SHARE * result.gap:
        advice = f"\nrounding     {rounding:.3g} of the gap: values are stored as float32"
        if result.status == "precision":
            advice += ", try --dtype float64"
    elif result.status == "precision" and result.gap > WIDE_GAP * abs(result.objective):
        ways = ["scale features that are far larger than the others"] if _has_large_features(result) else []
        ways += [] if result.device == "cpu" else ["try --dtype float64"]
        if ways:
            advice = f"\nrounding     is too large: {', or '.join(ways)}"
    return certificate_lines(result, seconds, advice)


def _has_large_features(result: Result) -> bool:
    """Return whether some features are far larger than the others; gradients are proportional to features."""
    sizes = abs(result.bundle.gradients).max(axis=0)
    sizes = sorted(sizes[sizes > 0.0].tolist())
    return bool(sizes) and sizes[-1] > LARGE_FEATURE_RATIO * sizes[(len(sizes) - 1) // 2]


def result_json(
    result: Result, seconds: Mapping[str, float], options: TrainOptions, model: str, **more: Any
) -> str:
    """Return the JSON object of ``--json``; an unknown bound is null."""
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
            "nonzero_weights": result.n_nonzero,
            "device": result.device,
            "lambda": result.lam,
            "model": model,
            "timings": dict(seconds),
            "dtype": result.stored,
            "storage": result.storage,
            "split": result.split,
            "rounding": finite_or_none(result.rounding),
            **more,
            "options": options.as_dict(),
        },
        allow_nan=False,
    )


def selection_document(selection: Selection[Any]) -> dict[str, Any]:
    """Return the selection part of the JSON object."""
    return {
        "folds": selection.folds.number,
        "metric": selection.metric,
        "rule": selection.rule,
        "lambda": selection.lam,
        "edge_of_grid": edge_of_grid(selection.lam, selection.lams.tolist()),
        "best": float(selection.lams[selection.best]),
        "one_standard_error": float(selection.lams[selection.one_standard_error]),
        "grid": [
            {
                "lambda": float(lam),
                "mean": finite_or_none(mean),
                "standard_error": finite_or_none(error),
                "scores": [finite_or_none(score) for score in scores],
                "objectives": [finite_or_none(result.objective) for result in validation.results],
                "lower_bounds": [finite_or_none(result.lower_bound) for result in validation.results],
                "statuses": [result.status for result in validation.results],
                "iterations": [result.n_iter for result in validation.results],
            }
            for lam, mean, error, scores, validation in zip(
                selection.lams,
                selection.mean,
                selection.standard_error,
                selection.scores,
                selection.validations,
                strict=True,
            )
        ],
    }


def edge_of_grid(chosen: float, grid: Iterable[float]) -> str | None:
    """Return whether the chosen value is the smallest or the largest of several, which suggests a wider grid.

    Examples
    --------
    >>> edge_of_grid(0.1, [0.1, 1.0, 10.0]), edge_of_grid(1.0, [0.1, 1.0, 10.0]), edge_of_grid(1.0, [1.0])
    ('smallest', None, None)
    """
    values = set(grid)
    if len(values) < 2:
        return None
    return "smallest" if chosen == min(values) else "largest" if chosen == max(values) else None


def edge_note(name: str, edge: str | None) -> str:
    """Return the note that a chosen value is at an edge of its grid, as the end of a line."""
    beyond = {"smallest": "smaller", "largest": "larger"}
    return f"; {name} is the {edge} of its grid, a {beyond[edge]} one may be better" if edge else ""


def selection_text(selection: Selection[Any]) -> str:
    """Return the selected lam and its score, in one line; a lam at the edge of its grid says so.

    C is LIBLINEAR's, for training on all rows.
    """
    k, cost = selection.chosen, 1.0 / (selection.lam * float(selection.weights.sum()))
    return (
        f"lambda       {selection.lam:.6g} (C = {cost:.6g}): {selection.metric} {selection.mean[k]:.6g} "
        f"+- {selection.standard_error[k]:.2g} over {selection.folds.number} folds"
        + edge_note("lambda", edge_of_grid(selection.lam, selection.lams.tolist()))
    )


def cross_validation_text(task: str, metrics: Mapping[str, float | int | None]) -> str:
    """Return metrics of held-out rows in LIBLINEAR's format."""
    return "\n".join(f"Cross Validation {line}" for line in metrics_text(task, metrics).splitlines())


def cross_validation_json(
    results: Sequence[Result], metrics: Mapping[str, float | int | None], options: TrainOptions
) -> str:
    """Return the JSON object of ``-v --json``."""
    return json.dumps(
        {
            "folds": options.folds,
            **finite_metrics(metrics),
            "statuses": [result.status for result in results],
            "iterations": [result.n_iter for result in results],
            "dtype": results[0].stored,
            "storage": results[0].storage,
            "options": options.as_dict(),
        },
        allow_nan=False,
    )


def finite_metrics(report: Mapping[str, float | int | None]) -> dict[str, float | int | None]:
    """Return metrics for JSON: null if a metric is undefined or overflows.

    Examples
    --------
    >>> finite_metrics({"rows": 4, "mse": float("inf")})
    {'rows': 4, 'mse': None}
    """
    return {
        name: finite_or_none(value) if isinstance(value, float) else value for name, value in report.items()
    }


def metrics_text(task: str, report: Mapping[str, float | int | None]) -> str:
    """Return metrics, one per line, in LIBLINEAR's format if it has them.

    Examples
    --------
    >>> print(metrics_text("binary", {"rows": 4, "correct": 3, "accuracy": 0.75, "auc": None}))
    Accuracy = 75% (3/4)

    If rows have weights, the share of rows is different:

    >>> print(metrics_text("binary", {"rows": 4, "correct": 3, "accuracy": 0.9, "auc": None}))
    Accuracy = 90% (weighted; 3/4 rows)
    """
    if "correct" in report or "log_loss" in report:
        templates = {
            "accuracy": "Accuracy = {0:g}%" + _counts(report, "accuracy", "correct"),
            "auc": "AUC = {0:.6g}",
            "f1": "F1 = {0:.6g}",
            "f_beta": "F-beta = {0:.6g}",
            "precision_at_k": "Precision at k = {0:.6g}",
            "recall_at_k": "Recall at k = {0:.6g}",
            "break_even": "Precision/recall break-even = {0:.6g}",
            "hamming_loss": "Hamming loss = {0:.6g}",
            "micro_f1": "Micro F1 = {0:.6g}",
            "macro_f1": "Macro F1 = {0:.6g}",
            "log_loss": "Log loss = {0:.6g}",
            "brier": "Brier score = {0:.6g}",
            "mae": "MAE = {0:g}",
        }
    elif task == "ranking":
        templates = {
            "ndcg": "NDCG = {0:.6g} ({1[groups]} groups)",
            "mrr": "Mean reciprocal rank = {0:.6g}",
            "pairwise_error": "Pairs in the wrong order = {0:g}%",
        }
    else:
        templates = {
            "mse": "Mean squared error = {0:g} (regression)",
            "squared_correlation": "Squared correlation coefficient = {0:g} (regression)",
            "r2": "Coefficient of determination = {0:g}",
            "deviance": "Mean Poisson deviance = {0:g}",
            "rmse": "RMSE = {0:g}",
            "mae": "MAE = {0:g}",
            "ranking_loss": "Ranking loss = {0:.6g}",
            "one_error": "One-error = {0:.6g}",
            "average_precision": "Average precision = {0:.6g}",
            "novel_fraction": "Novel = {0:g}%" + _counts(report, "novel_fraction", "novel"),
        }
    percent = ("accuracy", "novel_fraction", "pairwise_error")
    return "\n".join(
        template.format(100 * value if name in percent else value, report)
        for name, template in templates.items()
        if (value := report.get(name)) is not None
    )


def _counts(report: Mapping[str, float | int | None], share: str, counted: str) -> str:
    """Return the numbers of rows of a share, marked if weights make the share different."""
    part, rows, found = report.get(counted), report.get("rows"), report.get(share)
    if part is None or rows is None or found is None:
        return ""
    plain = math.isclose(found * rows, part, rel_tol=1e-9, abs_tol=1e-9)
    return f" ({part}/{rows})" if plain else f" (weighted; {part}/{rows} rows)"
