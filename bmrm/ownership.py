"""Whether every rank of several has all weights, or owns some columns of them: what decides.

What is the same with either: rows of X are spread over the ranks, and for the plain l2 penalty the columns of
the cuts are. Where all weights are everywhere, a rank keeps some vectors of all columns; under an l2 penalty
with strengths or a prior mean it keeps all columns of all cuts too. Where they are owned in parts, a rank
keeps the columns that are its own, and a few vectors of those that its rows touch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bmrm.errors import ParameterError
from bmrm.host_steps import CUT_BYTES

FORMS = ("auto", "replicated", "owned")

VECTORS = 7
"""Vectors of all columns on a rank where all weights are: best point, end of the line, minimiser of the best
bound, gradient of the rows here, mean plane, and two that are made on the way."""

TOUCHED = 32
"""Bytes of a column that a rank's rows touch: weight, gradient, either on its way, and where it is."""

COMFORT = 8
"""Share of a rank's memory, one in so many, that those vectors may take."""

MANY = 1_000_000
"""Columns from which on the choice is one of time too: fewer are exchanged in less time than an iteration's
other parts take."""

FEW_CUTS = 500
"""Cuts of all columns that have to fit in `CUT_BYTES`, where each rank keeps all of them."""


def refusal(reg: str, *, positive: bool, feature_lambda: Any) -> str | None:
    """Say why weights cannot be owned in parts; None where they can."""
    if reg in ("l1", "elastic_net"):
        return f"reg {reg} is solved on whole cuts"
    if positive:
        return "positive weights are solved on whole cuts"
    if feature_lambda is not None and not np.all(np.asarray(feature_lambda, np.float64) > 0.0):
        return "feature_lambda has no strength for some feature"
    return None


def settled(weights: str, why_not: str | None, *, whole_cuts: bool, columns: int) -> str:
    """Return the form that is asked for, as far as the problem decides it.

    Parameters
    ----------
    weights : {"auto", "replicated", "owned"}
    why_not : str or None
        What `refusal` says.
    whole_cuts : bool
        Every rank would keep all columns of all cuts, were weights everywhere.
    columns : int

    Returns
    -------
    {"auto", "replicated", "owned"}
        "auto" where memory decides.

    Raises
    ------
    ParameterError
        For another name, or for "owned" where that cannot be.

    Examples
    --------
    >>> settled("auto", "reg l1 is solved on whole cuts", whole_cuts=True, columns=10)
    'replicated'
    >>> settled("auto", None, whole_cuts=True, columns=10_000_000)
    'owned'
    """
    if weights not in FORMS:
        raise ParameterError(
            f"weights: found {weights!r}, expected one of {', '.join(FORMS)} (rows have sample_weight)"
        )
    if weights == "owned" and why_not is not None:
        raise ParameterError(f"weights owned: {why_not}; leave them replicated")
    if weights != "auto":
        return weights
    if why_not is not None:
        return "replicated"
    return "owned" if whole_cuts and 8 * FEW_CUTS * columns > CUT_BYTES else "auto"


def pays(columns: int, touched: int, memory: int) -> bool:
    """Whether weights that are owned in parts take less time, or leave memory that is wanted.

    Parameters
    ----------
    columns : int
    touched : int
        Columns that the rows of a rank touch, of the rank where they are most.
    memory : int
        Bytes of a rank.

    Examples
    --------
    >>> pays(47_236, 20_000, 2 << 30), pays(5_000_000, 700_000, 2 << 30), pays(10**8, 10**8, 8 << 30)
    (False, True, True)
    """
    if VECTORS * 8 * columns > memory // COMFORT:
        return True
    return columns >= MANY and 2 * touched <= columns


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
    (56000, 23600)
    """
    if touched is None:
        return VECTORS * 8 * weights
    return VECTORS * 8 * -(-weights // ranks) + TOUCHED * touched
