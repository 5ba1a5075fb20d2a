"""Whether every rank of several has all weights, or owns some columns of them: what decides.

What is the same with either: rows of X are spread over the ranks, and for the plain l2 penalty the columns of
the cuts are. Where all weights are everywhere, a rank keeps some vectors of all columns; under an l2 penalty
with strengths or a prior mean it keeps all columns of all cuts too. Where they are owned in parts, a rank
keeps the columns that are its own, and a few vectors of those that its rows touch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base.arguments import numbers
from bmrm.errors import ParameterError
from bmrm.matrix.gpu.devices import gpu

WEIGHT_LAYOUTS = ("auto", "replicated", "owned")

MIN_OWNED_COLUMNS = 250_000
MIN_OWNED_COLUMNS_OF_WHOLE_CUTS = 1000
"""Columns from which on weights that are owned in parts take less time, beside less memory. The second is for
l2 penalties with strengths or a prior mean: such cuts are whole on every rank otherwise, and each makes all
of their products. Below it Newton's steps may pay, which need all weights."""

REPLICATED_VECTORS = 9
"""Vectors of all columns on a rank that has all weights, cuts aside, as measured: best point, end of the
line, minimiser of the best bound, gradient, mean plane, and what is made on the way."""

TOUCHED_COLUMN_BYTES = 32
"""Bytes of a column that a rank's rows touch: weight, gradient, either on its way, and where it is."""


def why_not_owned(reg: str, *, positive: bool, feature_lambda: Any) -> str | None:
    """Say why weights cannot be owned in parts; None where they can."""
    if reg in ("l1", "elastic_net"):
        return f"reg {reg} is solved on whole cuts"
    if positive:
        return "positive weights are solved on whole cuts"
    if feature_lambda is not None and not np.all(numbers("feature_lambda", feature_lambda) > 0.0):
        return "feature_lambda has no strength for some feature"
    return None


def resolve_weight_layout(
    weights: str, why_not: str | None, *, whole_cuts: bool, columns: int, device: str
) -> str:
    """Return the form that is asked for, as far as the problem decides it.

    Parameters
    ----------
    weights : {"auto", "replicated", "owned"}
    why_not : str or None
        What `refusal` says.
    whole_cuts : bool
        The penalty has strengths or a prior mean: with all weights every rank would keep all columns of cuts.
    columns : int
    device : str
        Where X is asked to be; a GPU that there is may get it for "auto".

    Returns
    -------
    {"auto", "replicated", "owned"}
        "auto" where `MANY` decides, and whether X is on GPUs.

    Raises
    ------
    ParameterError
        For another name, or for "owned" where that cannot be.

    Examples
    --------
    >>> settled("auto", "reg l1 is solved on whole cuts", whole_cuts=True, columns=5000, device="cpu")
    'replicated'
    >>> settled("auto", None, whole_cuts=True, columns=5000, device="cpu")
    'owned'
    """
    if weights not in WEIGHT_LAYOUTS:
        raise ParameterError(
            f"weights: found {weights!r}, expected one of {', '.join(WEIGHT_LAYOUTS)} (rows have sample_weight)"
        )
    if weights == "owned" and why_not is not None:
        raise ParameterError(f"weights owned: {why_not}; leave them replicated")
    if weights != "auto":
        return weights
    if why_not is not None:
        return "replicated"
    on_cpu = device == "cpu" or (device == "auto" and gpu() is None)
    return "owned" if whole_cuts and columns >= MIN_OWNED_COLUMNS_OF_WHOLE_CUTS and on_cpu else "auto"


def weight_bytes(weights: int, ranks: int, touched: int | None = None) -> int:
    """Predict the bytes of all vectors over the columns that a rank keeps in a solve, cuts aside.

    Parameters
    ----------
    weights : int
        Of all columns.
    ranks : int
    touched : int, optional
        Of the columns that a rank's rows touch, where weights are owned in parts; None where all are
        everywhere.

    Examples
    --------
    >>> weight_bytes(1000, 4), weight_bytes(1000, 4, 300)
    (72000, 27600)
    """
    if touched is None:
        return REPLICATED_VECTORS * 8 * weights
    return REPLICATED_VECTORS * 8 * -(-weights // ranks) + TOUCHED_COLUMN_BYTES * touched
