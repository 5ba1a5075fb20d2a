"""Loops that combine one result after another, on a GPU: lanes share the work of combining.

A loop ``for f in ...: s[j, f] += ...``, whose places do not depend on the row, has a number per lane for each
place. Combining 16 of them over the warp one by one takes 5 exchanges each. Combined side by side, each
exchange halves the numbers that a lane has: 16 exchanges in all (`batched`).

"""

from __future__ import annotations

from collections.abc import Mapping

from bmrm.formulas.bounds import Bounds
from bmrm.formulas.llvm_text import depends_on_row
from bmrm.formulas.products import is_safe, without_lines
from bmrm.formulas.tree import (
    Combine,
    Expr,
    For,
    ForStored,
    Load,
    Program,
    RowItem,
    Set,
    Var,
    parts,
    statements,
)

MAX_BATCH = 16
"""Maximum number of places that are combined side by side: their numbers are in registers."""

MIN_TURNED = 8
"""Minimum number of places of a turned loop; with fewer, too many lanes have none."""

COMBINED = ("sum", "min", "max", "or", "and")
"""Operators that need one number."""


def trips(node: For, bounds: Bounds, sizes: Mapping[str, int]) -> int:
    """Return how many turns a loop has at most; 0 if that is not known."""
    found = bounds.known.get(node.name)
    if node.step != 1 or found is None or found.low is None or found.high is None:
        return 0
    low, high = (((sizes[b.size] if b.size else 0) + b.offset) for b in (found.low, found.high))
    return max(0, high - low + 1)


def _assigned(node: For) -> set[str]:
    """Return the locals and counters that a loop assigns, its own counter too."""
    found = {node.name}
    for statement in statements(node.body):
        match statement:
            case Set(name=name) | For(name=name):
                found.add(name)
            case ForStored(index=index, value=value):
                found.update((index, value))
    return found


def _has_own_place(statement: Combine, node: For, program: Program, bounds: Bounds) -> bool:
    """Return whether each turn of a loop has another place: one index is its counter, others stay."""
    assigned = _assigned(node)
    counters = [each for each in statement.index if isinstance(each, Var) and each.name == node.name]
    others = [each for each in statement.index if each not in counters]
    dims = program.arguments[statement.array].dims
    return (
        statement.op in COMBINED
        and len(counters) == 1
        and not any(isinstance(p, (Load, RowItem)) for each in others for p in parts(each))
        and not any(isinstance(p, Var) and p.name in assigned for each in others for p in parts(each))
        and all(
            bounds.inside(each, size)
            for each, size in zip(statement.index, dims, strict=True)
            if each in counters
        )
    )


def batched(
    node: For, program: Program, bounds: Bounds, sizes: Mapping[str, int], varying: set[str]
) -> list[Combine]:
    """Return the statements of a loop whose results are combined side by side over the warp.

    There are none if the loop has others that combine, or loops in it: its turns would be too long to be
    written out, and its numbers would not stay in registers.
    """
    if trips(node, bounds, sizes) < 2:
        return []
    found = [
        each
        for each in node.body
        if isinstance(each, Combine)
        and _has_own_place(each, node, program, bounds)
        and all(map(bounds.inside, each.index, program.arguments[each.array].dims))
        and not any(depends_on_row(program, index, varying) for index in each.index)
    ]
    others = [each for each in statements(node.body) if each not in found]
    return [] if any(isinstance(each, (Combine, For, ForStored)) for each in others) else found


def turned(
    node: For, program: Program, bounds: Bounds, sizes: Mapping[str, int], varying: set[str]
) -> list[Combine]:
    """Return the statements of a loop that is turned; none if it is not."""
    found = _of_chosen_rows(node, program, bounds, varying)
    if len(found) < len(node.body) or trips(node, bounds, sizes) < MIN_TURNED:
        return []
    fit = all(each.op == "sum" and is_safe(each.value, program, bounds) for each in found)
    return found if fit else []


def ranked(
    node: For, program: Program, bounds: Bounds, sizes: Mapping[str, int], varying: set[str]
) -> list[Combine]:
    """Return the statements of a loop whose lanes take turns once for all places; none if they do not."""
    found = _of_chosen_rows(node, program, bounds, varying)
    others = [each for each in node.body if each not in found]
    if not found or trips(node, bounds, sizes) < 2 or not all(isinstance(each, Set) for each in others):
        return []
    rows = {(chosen_row(each), program.arguments[each.array].dims[:-1]) for each in found}
    return found if len(rows) == 1 else []


def chosen_row(statement: Combine) -> tuple[Expr, ...]:
    """Return the indices of a row of the result."""
    return tuple(map(without_lines, statement.index[:-1]))


def _of_chosen_rows(node: For, program: Program, bounds: Bounds, varying: set[str]) -> list[Combine]:
    """Return the statements of a loop that combine into a row of a result which the data choose."""
    return [
        each
        for each in node.body
        if isinstance(each, Combine)
        and _has_own_place(each, node, program, bounds)
        and each.index[-1] == Var(node.name, "int")
        and any(depends_on_row(program, index, varying) for index in each.index)
    ]
