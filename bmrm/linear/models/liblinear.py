"""Models in LIBLINEAR's text format: written for its ``predict``, and read as LIBLINEAR wrote them.

A file has a header of lines ``KEY VALUE``, the line ``w``, and one line of weights per feature, with a column
for each class. With two classes there is one column, and a positive value means the first label. With ``bias
B``, B > 0, one more line has the weights of a feature whose value is B. One-class models have ``rho``, which
is subtracted.

A file that is read is untrusted input: its sizes are compared with the length of the file before anything is
allocated.

References
----------
Fan, Chang, Hsieh, Wang, Lin, LIBLINEAR, JMLR 9 (2008) 1871; its README, "Library Usage".
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from bmrm.base.atomic import atomic_write
from bmrm.base.labels import label_text
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError

# The solver_type that makes liblinear's predict compute sign(w.x) or w.x, as the loss requires. If LIBLINEAR
# has no such loss, this is the nearest one of the same task: for predict, only the task matters.
_SOLVER_TYPES = {
    "hinge": "L2R_L1LOSS_SVC_DUAL",
    "squared_hinge": "L2R_L2LOSS_SVC",
    "huber_hinge": "L2R_L2LOSS_SVC",
    "logistic": "L2R_LR",
    "exponential": "L2R_L2LOSS_SVC",
    "squared": "L2R_L2LOSS_SVR",
    "absolute": "L2R_L1LOSS_SVR_DUAL",
    "quantile": "L2R_L1LOSS_SVR_DUAL",
    "epsilon_insensitive": "L2R_L1LOSS_SVR_DUAL",
    "squared_epsilon_insensitive": "L2R_L2LOSS_SVR",
    "huber": "L2R_L2LOSS_SVR",
    "multiclass": "MCSVM_CS",
    "softmax": "MCSVM_CS",
    "novelty": "ONECLASS_SVM",
}

START = b"solver_type "
"""The first bytes of a file in this format."""

_LOSSES = {
    "L2R_LR": ("logistic", "l2"),
    "L2R_L2LOSS_SVC_DUAL": ("squared_hinge", "l2"),
    "L2R_L2LOSS_SVC": ("squared_hinge", "l2"),
    "L2R_L1LOSS_SVC_DUAL": ("hinge", "l2"),
    "MCSVM_CS": ("multiclass", "l2"),
    "L1R_L2LOSS_SVC": ("squared_hinge", "l1"),
    "L1R_LR": ("logistic", "l1"),
    "L2R_LR_DUAL": ("logistic", "l2"),
    "L2R_L2LOSS_SVR": ("squared_epsilon_insensitive", "l2"),
    "L2R_L2LOSS_SVR_DUAL": ("squared_epsilon_insensitive", "l2"),
    "L2R_L1LOSS_SVR_DUAL": ("epsilon_insensitive", "l2"),
    "ONECLASS_SVM": ("novelty", "l2"),
}
"""Loss and regularisation of each solver_type. The file has neither their parameters nor C."""

_MAX_HEADER_BYTES = 1 << 20
"""Maximum length of a line of the header; only that of the labels is long."""

_KEYS = ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho")


def check_exportable(loss: str, classes: Sequence[Any] | None, zero_based: bool | None) -> None:
    """Raise `ParameterError` if LIBLINEAR's format cannot store this loss, these labels or features."""
    if loss not in _SOLVER_TYPES:
        raise ParameterError(f"--export liblinear: LIBLINEAR has no model for the {loss} loss")
    if zero_based:  # LIBLINEAR would apply each weight to the next feature
        raise ParameterError("--export liblinear: found features numbered from 0, expected them from 1")
    for label in classes if classes is not None else ():
        if isinstance(label, str) or not float(label).is_integer() or abs(label) >= 2**31:
            raise ParameterError(
                f"--export liblinear: found label {label_text(label)}, expected a 32-bit integer"
            )


def export(
    path: str | os.PathLike[str],
    w: Vector,
    intercept: float | Vector,
    *,
    loss: str,
    classes: Sequence[Any] | None,
    zero_based: bool | None,
) -> None:
    """Write a model; see `Model.export_liblinear`."""
    check_exportable(loss, classes, zero_based)
    lines = [f"solver_type {_SOLVER_TYPES[loss]}", f"nr_class {w.shape[1] if w.ndim == 2 else 2}"]
    if classes is not None:
        # With two classes a positive value means the first label; with several, labels follow the columns.
        labels = classes if w.ndim == 2 else reversed(classes)
        lines.append(f"label {' '.join(str(int(label)) for label in labels)}")
    biased = bool(np.any(intercept))
    if loss == "novelty":
        lines += [f"nr_feature {len(w)}", "bias -1", f"rho {-float(np.max(intercept)):.17g}", "w"]
        biased = False
    else:
        lines += [f"nr_feature {len(w)}", f"bias {1 if biased else -1}", "w"]
    columns = w if w.ndim == 2 else w[:, None]
    rows = np.vstack([columns, np.atleast_1d(intercept)]) if biased else columns
    with atomic_write(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
        for row in rows.tolist():
            file.write("".join(f"{weight:.17g} " for weight in row).encode() + b"\n")


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file; return the fields of its `Model`.

    The file does not have lam, which is 1 in the model. Raise `DataError` if the file is damaged.
    """
    with open(path, "rb") as file:
        header = _read_header(file)
        return _fields(header, file)


def _fields(header: dict[str, str], file: BinaryIO) -> dict[str, Any]:
    solver = header.get("solver_type", "")
    if solver not in _LOSSES:
        raise DataError(f"found solver_type {solver[:40]!r}, expected one of LIBLINEAR's")
    loss, reg = _LOSSES[solver]
    task = _task(loss)
    n_features, n_classes = (_whole(header, key) for key in ("nr_feature", "nr_class"))
    bias, rho = (_real(header, key) for key in ("bias", "rho"))
    columns = n_classes if task == "binary" and (n_classes > 2 or loss == "multiclass") else 1
    labels = _labels(header, n_classes) if task == "binary" else np.empty(0)
    weights = _read_weights(file, n_features + (bias > 0.0), columns)
    w, intercept = weights[:n_features], bias * weights[n_features:].sum(axis=0) - rho
    classes = None
    if task == "binary":
        order = np.argsort(labels)
        classes = tuple(labels[order].tolist())
        if columns == 1:
            w, intercept = (-w, -intercept) if labels[0] < labels[1] else (w, intercept)
        else:
            task, w, intercept = "multiclass", w[:, order], intercept[order]
    one = columns == 1 and task != "multiclass"
    return {
        "w": np.ascontiguousarray(w[:, 0] if one else w),
        "intercept": float(intercept[0]) if one else intercept,
        "loss": loss,
        "task": task,
        "classes": classes,
        "lam": 1.0,
        "reg": reg,
        "zero_based": False,
    }


def _task(loss: str) -> str:
    if loss == "novelty":
        return loss
    return "regression" if "insensitive" in loss else "binary"


def _read_header(file: BinaryIO) -> dict[str, str]:
    header: dict[str, str] = {}
    while True:
        line = file.readline(_MAX_HEADER_BYTES)
        if not line.endswith(b"\n"):
            found = f"a line of {len(line)} bytes or more" if len(line) == _MAX_HEADER_BYTES else "its end"
            raise DataError(f"found {found} in the header of a LIBLINEAR model, expected the line 'w'")
        key, _, value = line.decode("ascii", "backslashreplace").strip().partition(" ")
        if key == "w":
            return header
        if key not in _KEYS or key in header:
            raise DataError(f"found {key[:40]!r} in the header of a LIBLINEAR model")
        header[key] = value


def _whole(header: dict[str, str], key: str) -> int:
    text = header.get(key, "")
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
        raise DataError(f"found {key} {text[:40]!r}, expected a positive integer")
    return int(text)


def _real(header: dict[str, str], key: str) -> float:
    text = header.get(key, "0")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"found {key} {text[:40]!r}, expected a finite number")
    return value


def _labels(header: dict[str, str], n_classes: int) -> Vector:
    words = header.get("label", "").split()
    if len(words) != n_classes:
        raise DataError(f"found {len(words)} labels, expected one for each of {n_classes} classes")
    if n_classes < 2:
        raise DataError("found a model of one class, expected two or more")
    for word in words:
        if not re.fullmatch(r"[+-]?[0-9]{1,15}", word):
            raise DataError(f"found label {word[:40]!r}, expected an integer")
    return np.array([int(word) for word in words], np.float64)


def _read_weights(file: BinaryIO, rows: int, columns: int) -> Vector:
    """Read the weights, whose number must be as the header says; each takes two bytes or more."""
    body = file.read()
    values = np.empty(0)
    if 2 * rows * columns <= len(body) + 1:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # NumPy warns of what is no number
                values = np.fromstring(body.decode("ascii"), sep=" ")
        except (ValueError, DeprecationWarning):  # also bytes that are not ASCII
            raise DataError("found weights that are not numbers") from None
    if len(values) != rows * columns:
        raise DataError(
            f"found {len(values) or 'too few'} weights, expected {columns} in each of {rows} lines: truncated"
        )
    if not np.isfinite(values).all():
        raise DataError("found weights that are not finite")
    return values.reshape(rows, columns)
