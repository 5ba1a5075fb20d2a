"""Iterations that are tried without branches, on a GPU.

A division by a number that stays is a product and two fused operations, and a square root is not much more,
unless something may under- or overflow (``quotient`` and ``root`` of the device header ``arithmetic.cuh``). A
branch for each would keep the iterations of a loop from being computed side by side. So a loop over tiles
tries some iterations without any, and counts what they found afterwards. If one is unusual, what they have
changed is taken back, and they run one by one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from bmrm.formulas.analysis.facts import ProgramFacts
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    Load,
    Program,
    RowItem,
    Set,
    SetItem,
    Size,
    SizeOf,
    Value,
    While,
    direct_expressions,
    parts,
    statements,
)

TRIED = 8
"""Maximum number of iterations that are tried at once; a tile may have fewer, or they may be long."""

MIN_TRIED = 4
"""Minimum number of them: to try fewer saves too little."""

MAX_CHANGED = 4
"""Maximum number of elements of arrays that they may change: those before are kept in registers."""

CHECKED = {"floordiv", "mod", "shl", "shr"}
"""Operators that may fail."""


def stays(expr: Expr, program: Program) -> bool:
    """Return whether an expression is made of arguments that are one number."""
    found = list(parts(expr))
    arguments = [program.arguments[part.name] for part in found if isinstance(part, Value)]
    simple = all(isinstance(part, (Apply, Const, SizeOf, Value)) for part in found)
    return simple and bool(arguments) and not any(each.axes for each in arguments)


def changed_numbers(loop: For) -> list[str]:
    """Return the numbers that iterations assign."""
    return sorted({each.name for each in statements(loop.body) if isinstance(each, Set)})


def changed_arrays(loop: For) -> list[str]:
    """Return the arrays that iterations change."""
    return sorted({each.array for each in statements(loop.body) if isinstance(each, SetItem)})


def divisors(loop: For, program: Program) -> list[Expr]:
    """Return the numbers that stay by which iterations divide."""
    return [each.args[1] for each in _applied(loop) if each.op == "div" and stays(each.args[1], program)]


def counted_after(loop: For) -> list[Combine]:
    """Return what is counted after the iterations that find where."""
    return [each for each in loop.body if isinstance(each, Combine)]


def can_be_tried(loop: For, facts: ProgramFacts, counters: Container[str]) -> bool:
    """Return whether iterations of a loop have what can be tried, can be taken back and never fail.

    Results that are ``counters`` are added up by single operations.
    """
    program, inside = facts.program, list(statements(loop.body))
    if not (divisors(loop, program) or any(each.op == "sqrt" for each in _applied(loop))):
        return False
    kinds = (Set, SetItem, For)
    if any(isinstance(each, While) for each in statements(program.body)):
        return False
    for each in inside:
        if isinstance(each, Combine) and any(each is mine for mine in counted_after(loop)):
            if each.array not in counters or not facts.varies(*each.index):
                return False
        elif not isinstance(each, kinds):
            return False
    if sum(facts.count(program.arrays[name].dims) for name in changed_arrays(loop)) > MAX_CHANGED:
        return False
    return not any(each.op in CHECKED for each in _applied(loop)) and all(
        facts.bounds.inside(index, size)
        for indices, dims in _places(loop, program)
        for index, size in zip(indices, dims, strict=True)
    )


def _parts(loop: For) -> list[Expr]:
    """Return all parts of the expressions of iterations."""
    exprs = [expr for each in statements(loop.body) for expr in direct_expressions(each)]
    return [part for expr in exprs for part in parts(expr)]


def _applied(loop: For) -> list[Apply]:
    return [part for part in _parts(loop) if isinstance(part, Apply)]


def _places(loop: For, program: Program) -> Iterator[tuple[tuple[Expr, ...], tuple[Size, ...]]]:
    """Yield the indices of what iterations read or assign, and the sizes."""
    for each in statements(loop.body):
        if isinstance(each, SetItem):
            yield each.index, program.arrays[each.array].dims
    for part in _parts(loop):
        if isinstance(part, Load):
            yield part.index, program.dims_of(part.array)
        elif isinstance(part, RowItem):
            yield (part.index,), (program.width,)
