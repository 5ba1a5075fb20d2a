"""How many cuts a pass over the data gives: as many as there are blocks of rows, or of examples."""

from __future__ import annotations

from bmrm.errors import ParameterError
from bmrm.losses import Loss
from bmrm.objective import Design

BLOCKS, ORACLE_BLOCKS = 16, 64
"""Cuts a pass where several pay; and where an oracle is asked for them."""


def blocks_of(
    cuts_per_pass: int | str, design: Design, loss: Loss, rows: int, *, several_pay: bool, profile: bool
) -> int:
    """Return the number of blocks of rows with a cut of their own: what is asked for, or what pays."""
    d = design.shape[1]
    several_pay = several_pay and loss.by_rows
    if cuts_per_pass == "auto":
        # Sixteen cuts halve the passes at best, and cost half a millisecond of QP each pass, and some 16 cuts
        # x 400 kept x d multiplications for their Gram entries: the pass that they save must cost more than
        # that.  On a GPU no pass does.
        cheap = design.nnz > max(1000 * d, 4_000_000) and rows >= 64 * BLOCKS
        return BLOCKS if cheap and several_pay and not profile else 1
    found = _checked_cuts(cuts_per_pass, rows)
    if profile and found > 1:
        raise ParameterError("cuts_per_pass: an unpenalised intercept takes one cut a pass")
    if not loss.by_rows and found > 1:
        raise ParameterError(f"cuts_per_pass: loss {loss.name} is no sum over rows and takes one cut a pass")
    return found


def oracle_cuts(cuts_per_pass: int | str, examples: int, solver: str) -> int:
    """Many cuts a pass, where nothing else is asked for: a pass of an oracle costs more than they do."""
    if cuts_per_pass == "auto":
        return min(ORACLE_BLOCKS, examples) if solver == "ocas" else 1
    return _checked_cuts(cuts_per_pass, examples)


def _checked_cuts(cuts_per_pass: int | str, rows: int) -> int:
    if isinstance(cuts_per_pass, str) or not 1 <= cuts_per_pass <= rows:
        raise ParameterError(
            f"cuts_per_pass: found {cuts_per_pass!r}, expected auto or a number from 1 to {rows}"
        )
    return cuts_per_pass
