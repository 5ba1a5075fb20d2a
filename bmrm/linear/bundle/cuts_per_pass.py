"""How many cuts a pass over the data gives: one per block of rows or examples."""

from __future__ import annotations

import math

import numpy as np

from bmrm.base.arguments import integer, refuse
from bmrm.errors import ParameterError
from bmrm.linear.objective.passes import DesignOperator
from bmrm.losses import Loss

SEVERAL_BLOCKS = 8
"""Cuts per pass if several pay."""

MAX_BLOCKS = 16
"""Cuts per pass if several pay and a pass is long."""

ORACLE_BLOCKS = 64
"""Maximum number of cuts per pass if an oracle makes them."""

MIN_LONG_PASS_VALUES = 4_000_000
"""Stored values from which on a pass is long."""

MIN_VALUES_PER_FEATURE = 1000
"""Stored values per feature from which on several cuts pay."""

MIN_ROWS_PER_BLOCK = 64
"""Rows per block from which on several cuts pay."""

MIN_SHORT_BLOCK_ROWS = 32
"""Minimum number of rows of a short block, whose kinks a cut of its own learns nearly all of."""

MAX_SHORT_BLOCK_ROWS = 256
"""Maximum number of rows of a short block."""

MIN_SHORT_BLOCKS = 4
"""Minimum number of cuts per pass if all blocks are short: fewer make no difference."""

MAX_SHORT_BLOCKS = 32
"""Maximum number of cuts per pass if all blocks are short: more cost more than they save."""

MIN_CUTS_KEPT_PER_BLOCK = 16
"""The number of cuts of each block that there must be room for."""


def blocks_of(
    cuts_per_pass: int | str,
    operator: DesignOperator,
    loss: Loss,
    rows: int,
    *,
    several_pay: bool,
    profile: bool,
    newton: bool,
    max_cuts: int | None = None,
    most: int | None = None,
) -> int:
    """Return the number of blocks of rows with a cut of their own: the one asked for, or the one that pays.

    - ``rows``: in all processes
    - ``several_pay``: whether the method and the machine gain by several cuts at all
    - ``profile``: whether there is an unpenalised intercept
    - ``newton``: whether Newton's steps are taken
    - ``most``: maximum number of blocks that the risk can be cut into; any rows make a block by default

    Raise `ParameterError` if the number of cuts is out of range, or the loss or intercept allows one only.
    """
    d = operator.shape[1]
    most = rows if most is None else most
    max_cuts = None if max_cuts is None else integer("max_cuts", max_cuts)
    if cuts_per_pass == "auto":
        if not (several_pay and loss.several_cuts) or profile:
            return 1
        # Eight cuts save half of the passes, sixteen some more. They cost one or two tenths of a millisecond
        # of QP per pass, and some 8 cuts x 400 kept x d multiplications for Gram entries: if X is wide, these
        # cost more than the passes that are saved.  On a GPU no pass is long enough.
        wanted = MAX_BLOCKS if operator.nnz > MIN_LONG_PASS_VALUES else SEVERAL_BLOCKS
        cheap = (
            operator.nnz > MIN_VALUES_PER_FEATURE * d
            and rows >= MIN_ROWS_PER_BLOCK * wanted
            and most >= wanted
        )
        short = short_blocks(operator, rows, MAX_BLOCKS if newton else MAX_SHORT_BLOCKS) if loss.kinked else 0
        pays = short or (wanted if cheap else 1)
        return pays if max_cuts is None else min(pays, max(1, max_cuts // MIN_CUTS_KEPT_PER_BLOCK))
    if most == 1 and cuts_per_pass != 1:
        raise ParameterError(
            f"cuts_per_pass: loss {loss.name} is not a sum over rows, or over groups of consecutive rows, "
            "and takes one cut per pass"
        )
    found = _checked_cuts(cuts_per_pass, most)
    if profile and found > 1:
        raise ParameterError("cuts_per_pass: an unpenalised intercept takes one cut per pass")
    return found


def short_blocks(operator: DesignOperator, rows: int, most: int) -> int:
    """Return the number of short blocks that the rows make, at most ``most``; 0 if there are too many rows.

    The risk of a few rows with kinks has few slopes, and cuts know them soon. There are k P cuts after k
    passes, and each new one has products with them: little compared with a pass while P^2 < nnz / d.
    """
    wanted = int(min(most, rows / MIN_SHORT_BLOCK_ROWS, math.sqrt(operator.nnz / operator.shape[1])))
    return wanted if wanted >= MIN_SHORT_BLOCKS and rows <= MAX_SHORT_BLOCK_ROWS * wanted else 0


def oracle_cuts(cuts_per_pass: int | str, examples: int, solver: str) -> int:
    """Return the cuts per pass of an oracle: many by default, since its pass costs more than they do."""
    if cuts_per_pass == "auto":
        return min(ORACLE_BLOCKS, examples) if solver == "ocas" else 1
    return _checked_cuts(cuts_per_pass, examples)


def asked_cuts(given: object) -> int | str:
    """Validate ``cuts_per_pass``: "auto" or a number."""
    if isinstance(given, str) and given == "auto":
        return given
    if not isinstance(given, (int, np.integer)):
        refuse("cuts_per_pass", given, "auto or a number")
    return int(given)


def _checked_cuts(cuts_per_pass: int | str, rows: int) -> int:
    if not (isinstance(cuts_per_pass, (int, np.integer)) and 1 <= cuts_per_pass <= rows):
        refuse("cuts_per_pass", cuts_per_pass, f"auto or a number from 1 to {rows}")
    return int(cuts_per_pass)
