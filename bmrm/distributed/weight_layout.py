"""Decide whether the weights are replicated on every rank or each rank owns some of their columns.

In both layouts the rows of X are distributed, and for the plain l2 penalty the columns of the cuts are too.
With replicated weights, a rank keeps several vectors over all columns; under an l2 penalty with strengths or
a prior mean it also keeps all columns of all cuts. With owned weights, a rank keeps its own columns, and a
few vectors over the columns that its rows touch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.base.arguments import numbers, refuse
from bmrm.errors import ParameterError
from bmrm.matrix.gpu.devices import gpu

WEIGHT_LAYOUTS = ("auto", "replicated", "owned")

MIN_OWNED_COLUMNS = 250_000
"""Minimum number of columns for which owned weights are faster (they always take less memory).

``benchmarks/ranks/scaling_owned.py`` compares both layouts."""

MIN_OWNED_COLUMNS_OF_WHOLE_CUTS = 1000
"""The same for l2 penalties with strengths or a prior mean: with replicated weights every rank would keep
whole cuts and compute all their products. With fewer columns Newton steps may pay, which need all weights."""

REPLICATED_VECTORS = 9
"""Number of vectors over all columns on a rank with replicated weights, without cuts, as measured: best
point, end of the line, minimiser of the best bound, gradient, mean plane, and temporaries."""

TOUCHED_COLUMN_BYTES = 32
"""Bytes per column that a rank's rows touch: weight and gradient, each also in transit, and the index."""


def why_not_owned(reg: str, *, positive: bool, feature_lambda: Any) -> str | None:
    """Return the reason why weights cannot be owned; None if they can."""
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
    """Resolve the wanted layout as far as the problem alone decides it.

    Parameters
    ----------
    weights : {"auto", "replicated", "owned"}
        The wanted layout.
    why_not : str or None
        Result of `why_not_owned`.
    whole_cuts : bool
        The penalty has strengths or a prior mean: with replicated weights every rank would keep whole cuts.
    columns : int
    device : str
        The wanted device of X; "auto" may be a GPU if there is one.

    Returns
    -------
    {"auto", "replicated", "owned"}
        "auto" if that still depends on `MIN_OWNED_COLUMNS` and on whether X is on GPUs.

    Raises
    ------
    ParameterError
        For an unknown layout, or for "owned" if that is not possible.

    Examples
    --------
    >>> why_not = why_not_owned("l1", positive=False, feature_lambda=None)
    >>> resolve_weight_layout("auto", why_not, whole_cuts=True, columns=5000, device="cpu")
    'replicated'
    >>> resolve_weight_layout("auto", None, whole_cuts=True, columns=5000, device="cpu")
    'owned'
    """
    check_weight_layout(weights)
    if weights == "owned" and why_not is not None:
        raise ParameterError(f"weights owned: {why_not}; use replicated weights")
    if weights != "auto":
        return weights
    if why_not is not None:
        return "replicated"
    on_cpu = device == "cpu" or (device == "auto" and gpu() is None)
    return "owned" if whole_cuts and columns >= MIN_OWNED_COLUMNS_OF_WHOLE_CUTS and on_cpu else "auto"


def check_weight_layout(weights: Any) -> None:
    """Raise `ParameterError` for anything except the name of a layout, such as weights of rows."""
    if not isinstance(weights, str):
        expected = f"one of {', '.join(WEIGHT_LAYOUTS)}; did you mean 'sample_weight'?"
        refuse("weights", weights, expected)
    if weights not in WEIGHT_LAYOUTS:
        raise ParameterError(
            f"weights: found {weights!r}, expected one of {', '.join(WEIGHT_LAYOUTS)} "
            "(weights of rows are sample_weight)"
        )


def weight_bytes(weights: int, ranks: int, touched: int | None = None) -> int:
    """Predict the bytes of all vectors over columns that a rank keeps in a solve, without cuts.

    Parameters
    ----------
    weights : int
        Number of weights of all columns.
    ranks : int
    touched : int, optional
        With owned weights, the number of weights of the columns that a rank's rows touch; None for replicated
        weights.

    Examples
    --------
    >>> weight_bytes(1000, 4), weight_bytes(1000, 4, 300)
    (72000, 27600)
    """
    if touched is None:
        return REPLICATED_VECTORS * 8 * weights
    return REPLICATED_VECTORS * 8 * -(-weights // ranks) + TOUCHED_COLUMN_BYTES * touched
