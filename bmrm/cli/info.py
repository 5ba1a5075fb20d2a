"""``bmrm-info``: what a model file says of itself, for people and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, reading, run_on_first_rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bmrm.cli.signals import CommandInterrupts
    from bmrm.linear.models.model import Model

PROGRAM = "bmrm-info"
_MAX_CLASSES_SHOWN = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, info, argv)


def info(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    import json

    from bmrm.cli.commands import INFO
    from bmrm.cli.parsing import CommandParser

    options = CommandParser(INFO).parse_words(argv)
    interrupts.importing("bmrm.linear.models.model", "bmrm.linear.models.liblinear")
    with interrupts.opened():
        found = _facts(options.model, options.top)
    print(json.dumps(found, allow_nan=False) if options.json else _text(found))
    return Exit.OK


def _facts(path: str, top: int) -> dict[str, Any]:
    """Return everything that the file says, for JSON."""
    import os
    from datetime import UTC, datetime

    import numpy as np

    from bmrm.base.units import finite_or_none
    from bmrm.linear.models.model import load_checked

    with reading(path):
        model, checksum, metadata = load_checked(path)
        changed = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    certificate = model.certificate
    return {
        "model": path,
        "changed": changed.isoformat(timespec="seconds"),
        "format": _format(metadata),
        "library_version": model.library_version or None,
        "checksum": checksum,
        "data": _data(metadata, model),
        "task": model.task,
        "loss": {"name": model.loss, **model.loss_params},
        "reg": {"name": model.reg, **model.reg_params},
        "lambda": model.lam if metadata else None,
        "classes": None if model.classes is None else list(model.classes),
        "n_features": model.n_features,
        "nonzero_weights": int(np.count_nonzero(model.w)),
        "weights": int(model.w.size),
        "intercept": np.asarray(model.intercept).tolist(),
        "first_feature": None if model.zero_based is None else int(not model.zero_based),
        "has_offset": model.has_offset,
        "calibration": None if model.calibration is None else model.calibration.method,
        "certificate": certificate
        and {
            "status": certificate.status,
            "iterations": certificate.n_iter,
            "objective": finite_or_none(certificate.objective),
            "lower_bound": finite_or_none(certificate.lower_bound),
            "gap": finite_or_none(certificate.gap),
            "tol": certificate.tol,
            "tol_kind": certificate.tol_kind,
            "dtype": certificate.dtype,
            "rounding": certificate.rounding,
        },
        "top_weights": _top(model, top),
    }


def _format(metadata: Mapping[str, str]) -> str:
    if not metadata:
        return "liblinear"
    return "checkpoint" if "bmrm_checkpoint" in metadata else "bmrm"


def _data(metadata: Mapping[str, str], model: Model) -> dict[str, Any] | None:
    """Return what the file says of the data, a checkpoint with its checksums; None if it says nothing."""
    import json

    trained = model.training
    if "bmrm_checkpoint" not in metadata:
        if trained is None:
            return None
        return {"rows": trained.rows, "nnz": trained.values, "text_checksum": trained.text_checksum}

    try:
        problem = json.loads(metadata["bmrm_checkpoint"])
        return {"rows": int(problem["n_samples"]), "nnz": int(problem["nnz"]), **problem["checksums"]}
    except (KeyError, ValueError, TypeError, RecursionError):
        return None


def _top(model: Model, number: int) -> list[dict[str, Any]]:
    """Return the largest weights by size, each with the number and name of its feature, and its class."""
    from bmrm.linear.models.weights import largest_weights, weight_columns

    places, first = largest_weights(model.w, number), 0 if model.zero_based else 1
    columns = weight_columns(model.w, model.feature_names, model.classes, places, first)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _label_text(label: Any) -> str:
    from bmrm.base.units import number_text
    from bmrm.errors import escape_unprintable

    return number_text(label) if isinstance(label, float) else escape_unprintable(str(label))


def _text(found: dict[str, Any]) -> str:
    from bmrm.base.tables import format_table
    from bmrm.errors import escape_unprintable

    def named(choice: dict[str, Any]) -> str:
        return " ".join([choice["name"], *(f"{k}={v:g}" for k, v in choice.items() if k != "name")])

    lines = {
        "model": f"{escape_unprintable(found['model'])}, changed {found['changed']}",
        "format": found["format"] + (f", by bmrm {v}" if (v := found["library_version"]) else ""),
        "loss": f"{named(found['loss'])} ({found['task']})",
        "penalty": named(found["reg"]) + ("" if found["lambda"] is None else f", lambda {found['lambda']:g}"),
    }
    if found["data"] is not None:
        lines["data"] = f"{found['data']['rows']} rows, {found['data']['nnz']} stored values"
    if found["classes"] is not None:
        shown = [_label_text(label) for label in found["classes"][:_MAX_CLASSES_SHOWN]]
        more = len(found["classes"]) - len(shown)
        lines["classes"] = ", ".join(shown) + (f", and {more} more" if more else "")
    lines["weights"] = (
        f"{found['n_features']} features, {found['nonzero_weights']} of {found['weights']} not 0"
    )
    if found["first_feature"] is not None:
        lines["numbering"] = f"features from {found['first_feature']}"
    if found["has_offset"]:
        lines["offset"] = "trained with offsets; predictions need those of their rows"
    if found["calibration"] is not None:
        lines["calibration"] = found["calibration"]
    certificate = found["certificate"]
    if certificate is None:
        lines["certificate"] = "none"
    else:
        unknown = {name: "unknown" for name, value in certificate.items() if value is None}
        value = {k: f"{v:.10g}" for k, v in certificate.items() if isinstance(v, float)} | unknown
        lines["status"] = f"{certificate['status']} after {certificate['iterations']} iterations"
        lines["objective"] = value["objective"]
        lines["lower bound"] = value["lower_bound"]
        kind = "relative" if certificate["tol_kind"] == "rel" else "absolute"
        lines["gap"] = f"{value['gap']}, wanted {certificate['tol']:g} ({kind})"
    text = "\n".join(f"{name:<13}{line}" for name, line in lines.items())
    if found["top_weights"]:
        head = list(found["top_weights"][0])
        rows = [
            [f"{v:.6g}" if k == "weight" else _label_text(v) for k, v in row.items()]
            for row in found["top_weights"]
        ]
        text += f"\nlargest weights:\n{format_table(head, rows)}"
    return text


if __name__ == "__main__":
    sys.exit(main())
