"""Models in LIBLINEAR's text format, for its ``predict`` and other programs that read it.

References
----------
Fan, Chang, Hsieh, Wang, Lin, LIBLINEAR, JMLR 9 (2008) 1871; its README, "Library Usage".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bmrm.base.atomic import atomic_write
from bmrm.base.labels import label_text
from bmrm.base.vectors import Vector
from bmrm.errors import ParameterError

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
}


def check_exportable(loss: str, classes: Sequence[Any] | None, zero_based: bool | None) -> None:
    """Raise `ParameterError` if LIBLINEAR's format has no place for this loss, these labels or features."""
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
    lines += [f"nr_feature {len(w)}", f"bias {1 if biased else -1}", "w"]
    columns = w if w.ndim == 2 else w[:, None]
    rows = np.vstack([columns, np.atleast_1d(intercept)]) if biased else columns
    with atomic_write(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
        for row in rows.tolist():
            file.write("".join(f"{weight:.17g} " for weight in row).encode() + b"\n")
