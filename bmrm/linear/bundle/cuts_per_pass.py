"""How many cuts a pass over the data gives: as many as there are blocks of rows, or of examples."""

from __future__ import annotations

import math

import numpy as np

from bmrm.base.arguments import integer, refuse
from bmrm.errors import ParameterError
from bmrm.linear.objective.objective import Operator
from bmrm.losses import Loss

BLOCKS, MORE_BLOCKS, ORACLE_BLOCKS = 8, 16, 64
"""Cuts a pass where several pay; where a pass is long; and where an oracle is asked for them."""

LONG = 4_000_000
"""Stored values of which a pass is long."""

MULTIPLE = 1000
"""Stored values a feature from which several cuts pay."""

SHORT, FULL = 32, 256
"""Rows of a block, at least and at most, from whose kinks a cut of its own may learn nearly all there is."""

FEW, MANY = 4, 32
"""Cuts a pass where all blocks are that short: fewer make no difference; more cost more than they save."""

KEPT = 16
"""Cuts of each block that there must be room for."""


def blocks_of(
    cuts_per_pass: int | str,
    operator: Operator,
    loss: Loss,
    rows: int,
    *,
    several_pay: bool,
    profile: bool,
    newton: bool,
    max_cuts: int | None = None,
    most: int | None = None,
) -> int:
    """Return the number of blocks of rows with a cut of their own: what is asked for, or what pays.

    Parameters
    ----------
    cuts_per_pass : int or "auto"
    operator : Operator
    loss : Loss
    rows : int
        Of all processes.
    several_pay : bool
        Whether the method and the machine gain by several at all.
    profile : bool
        Whether there is an unpenalised intercept.
    newton : bool
        Whether Newton's steps are taken.
    max_cuts : int, optional
        Most cuts kept.
    most : int, optional
        Blocks that the risk can be cut into, where these are not blocks of any rows.

    Raises
    ------
    ParameterError
        For a number of cuts that cannot be.
    """
    d = operator.shape[1]
    most = rows if most is None else most
    max_cuts = None if max_cuts is None else integer("max_cuts", max_cuts)
    if cuts_per_pass == "auto":
        if not (several_pay and loss.several_cuts) or profile:
            return 1
        # Eight cuts save half of the passes, sixteen some more, for a tenth of a millisecond of QP a pass or
        # two, and some 8 cuts x 400 kept x d multiplications for Gram entries: where X is wide these cost
        # more than the passes that are saved.  On a GPU no pass is long enough.
        wanted = MORE_BLOCKS if operator.nnz > LONG else BLOCKS
        cheap = operator.nnz > MULTIPLE * d and rows >= 64 * wanted and most >= wanted
        short = short_blocks(operator, rows, MORE_BLOCKS if newton else MANY) if loss.kinked else 0
        pays = short or (wanted if cheap else 1)
        return pays if max_cuts is None else min(pays, max(1, max_cuts // KEPT))
    if most == 1 and cuts_per_pass != 1:
        raise ParameterError(
            f"cuts_per_pass: loss {loss.name} is no sum over rows, or over groups whose rows are together, "
            "and takes one cut a pass"
        )
    found = _checked_cuts(cuts_per_pass, most)
    if profile and found > 1:
        raise ParameterError("cuts_per_pass: an unpenalised intercept takes one cut a pass")
    return found


def short_blocks(operator: Operator, rows: int, most: int) -> int:
    """Return how many short blocks the rows make, where they are few; 0 where they are not.

    The risk of a few rows with kinks has few slopes, and cuts know them soon. There are k P cuts after k
    passes, and each new one has products with them: little beside a pass while P^2 is less than nnz / d.
    """
    wanted = int(min(most, rows / SHORT, math.sqrt(operator.nnz / operator.shape[1])))
    return wanted if wanted >= FEW and rows <= FULL * wanted else 0


def oracle_cuts(cuts_per_pass: int | str, examples: int, solver: str) -> int:
    """Many cuts a pass, where nothing else is asked for: a pass of an oracle costs more than they do."""
    if cuts_per_pass == "auto":
        return min(ORACLE_BLOCKS, examples) if solver == "ocas" else 1
    return _checked_cuts(cuts_per_pass, examples)


def asked_cuts(given: object) -> int | str:
    """Take in ``cuts_per_pass``: "auto" or a number."""
    if isinstance(given, str) and given == "auto":
        return given
    if not isinstance(given, (int, np.integer)):
        refuse("cuts_per_pass", given, "auto or a number")
    return int(given)


def _checked_cuts(cuts_per_pass: int | str, rows: int) -> int:
    if not (isinstance(cuts_per_pass, (int, np.integer)) and 1 <= cuts_per_pass <= rows):
        refuse("cuts_per_pass", cuts_per_pass, f"auto or a number from 1 to {rows}")
    return int(cuts_per_pass)
