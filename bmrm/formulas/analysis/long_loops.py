"""Loops that may take long: which of them look in each iteration whether the pass is to end early.

A pass that nobody can end is not to take longer than about a second, but looking costs time in short loops.
So a loop looks only if the operations of all its iterations, without those of loops in it that look
themselves, may be too many for the sizes of a call. The loop over the rows always looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bmrm.formulas.analysis.bounds import IndexBounds
from bmrm.formulas.language.function_table import calls_of
from bmrm.formulas.language.tree import (
    Apply,
    For,
    ForStored,
    If,
    Program,
    Statement,
    direct_expressions,
    parts,
)

MAX_UNWATCHED = 1 << 26
"""Maximum number of operations, of all lanes at once, between two looks: some tenths of a second."""

CALL_OPERATIONS = 64
"""What a call of a function of the library counts, lane by lane."""


def long_loops(program: Program, sizes: Mapping[str, int]) -> frozenset[str]:
    """Return the counters of the loops that look whether the pass is to end early.

    Parameters
    ----------
    program : Program
    sizes : dict of str to int
        Those of a call.
    """
    bounds, found = IndexBounds(program), set()

    def operations(body: tuple[Statement, ...]) -> float:
        total = 0.0
        for statement in body:
            total += 1
            for expr in direct_expressions(statement):
                applied = [part.op for part in parts(expr) if isinstance(part, Apply)]
                total += sum(CALL_OPERATIONS * calls_of(op) or 1 for op in applied)
            match statement:
                case For(name=name, body=inner) | ForStored(index=name, body=inner):
                    each, count = 1 + operations(inner), bounds.iterations(statement, sizes)
                    if each * (math.inf if count is None else count) > MAX_UNWATCHED:
                        found.add(name)
                        total += each
                    else:
                        total += each * (count or 0)
                case If(body=inner, orelse=other):
                    total += operations(inner) + operations(other)
        return total

    operations(program.body)
    return frozenset(found)
