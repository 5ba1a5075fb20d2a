"""Counters: sums of integers that fit 32 bits for some rows at a time.

Such a sum, `count[bin] += 1` as a rule, has 32 bits in a table of few rows, which is added to one of 64 bits
before it can overflow. What a row adds at most is the number of times that its loops come to the statement,
times the bound of the value. Where the tables of a GPU are in shared memory, counters are added by atomic
operations: integers have the same sum in any order. On a CPU a thread has counters of its own, for
places that differ from lane to lane.
"""

from __future__ import annotations

from bmrm.formulas.analysis import loops
from bmrm.formulas.analysis.bounds import UNKNOWN
from bmrm.formulas.analysis.facts import ProgramFacts
from bmrm.formulas.language.operators import OPERATORS
from bmrm.formulas.language.tree import (
    Argument,
    Combine,
    Expr,
    For,
    ForStored,
    Statement,
    While,
    parts_of,
    statements,
)

COUNTER_LIMIT = 2**31 - 1
"""The greatest number of a counter."""


def find_counters(facts: ProgramFacts, least_rows: int) -> dict[str, int]:
    """Return the shared results that are counters, and the number of rows for which each has room.

    Those with room for fewer than some rows are none. Neither are those that a loop combines in another way.
    """
    program, found = facts.program, dict[str, int]()
    for result in program.combined():
        if _is_sum(result) and result.dims and not _has_a_loop(result, facts):
            most = _most_of_row(program.body, result.name, facts)
            rows = 0 if most is None else COUNTER_LIMIT // max(1, most)
            if rows >= least_rows:
                found[result.name] = rows
    return found


def _is_sum(result: Argument) -> bool:
    return result.type == "int" and result.operator is OPERATORS["sum"]


def _has_a_loop(result: Argument, facts: ProgramFacts) -> bool:
    """Return whether a loop has a schedule for what it combines into a result."""
    patterns = loops.butterfly_sums, loops.column_sums, loops.ranked_sums
    return any(
        each.array == result.name
        for node in statements(facts.program.body)
        if isinstance(node, For)
        for pattern in patterns
        for each in pattern(node, facts)
    )


def _most_of_row(body: tuple[Statement, ...], name: str, facts: ProgramFacts) -> int | None:
    """Return the greatest absolute value that a row adds to an element; None if it is not known."""
    total = 0
    for statement in body:
        if isinstance(statement, Combine):
            most = _most_of(statement.value, facts) if statement.array == name else 0
        else:
            inner = [_most_of_row(each, name, facts) for each in parts_of(statement)]
            most = None if None in inner else sum(each or 0 for each in inner)
            if most:
                times = _times(statement, facts)
                most = None if times is None else most * times
        if most is None:
            return None
        total += most
    return total


def _times(statement: Statement, facts: ProgramFacts) -> int | None:
    """Return how often what is in a statement runs at most; None if it is not known."""
    if isinstance(statement, (For, ForStored)):
        return facts.bounds.iterations(statement, facts.sizes)
    return None if isinstance(statement, While) else 1


def _most_of(value: Expr, facts: ProgramFacts) -> int | None:
    """Return the greatest absolute value of a number; None if it is not known."""
    found = facts.bounds.of(value) or UNKNOWN
    ends = [(facts.sizes[b.size] if b.size else 0) + b.offset for b in found if b is not None]
    return max(map(abs, ends)) if len(ends) == 2 else None
