"""Loops that combine one result after another, on a GPU: lanes share the work of combining.

A loop ``for f in ...: s[j, f] += ...``, whose places do not depend on the row, has a number per lane for each
place. Combining 16 of them over the warp one by one takes 5 exchanges each. Combined side by side, each
exchange halves the numbers that a lane has: 16 exchanges in all (`batched`). In a loop whose places are in a
row that the data choose, lanes are turns of the loop, for one row after the other (`turned`). If there are
few turns, lanes take turns once for all of them (`ranked`).

The first statements, if they combine nothing, may be computed for some rows of a lane side by side
(`paired`): a parameter in shared memory is then read once for them. A loop that keeps the best of its turns,
as k-means has one, compares groups of turns first (`find_best`), as ``nearest_lanes.cuh`` does.

How many turns of a loop are written out is limited here too (`turns_at_once`): NVRTC takes the more time the
more text it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bmrm.formulas.analysis.bounds import Bounds
from bmrm.formulas.analysis.products import PLAIN, is_safe, without_lines
from bmrm.formulas.analysis.varying import depends_on_row
from bmrm.formulas.cpu.lanes import LIBRARY
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Load,
    Program,
    RowItem,
    Set,
    SizeOf,
    Statement,
    Var,
    direct_expressions,
    parts,
    statements,
)

MAX_BATCH = 16
"""Maximum number of places that are combined side by side: their numbers are in registers."""

MIN_TURNED = 8
"""Minimum number of places of a turned loop; with fewer, too many lanes have none."""

MAX_OPERATIONS = 256
"""Maximum number of operations of a row that are written out for the turns of a loop."""

MAX_COLUMN_OPERATIONS = 1024
"""The same of a loop whose counter is a column: if its turns are not written out, the row is in memory."""

MAX_TURNS_AT_ONCE = 8
"""Maximum number of turns that are written out, of a loop that has more."""

CALL_OPERATIONS, COMBINE_OPERATIONS = 32, 64
"""What a call of a function of the library, and a result that is combined over a warp, count."""

MIN_PAIRED_OPERATIONS = 512
"""Minimum number of operations of statements that are computed for some rows side by side."""

MAX_BEST_OPERATIONS = 32
"""Maximum number of operations of a turn of a loop that compares groups: some turns are computed again."""

MIN_GROUP_TURNS, MAX_GROUP_TURNS = 8, 12
"""Number of turns of a group: a divisor of all turns if there is one."""

COMBINED = ("sum", "min", "max", "or", "and")
"""Operators that need one number."""


def trips(node: For, bounds: Bounds, sizes: Mapping[str, int]) -> int:
    """Return how many turns a loop has at most; 0 if that is not known."""
    return (bounds.turns(node, sizes) or 0) if node.step == 1 else 0


def turns_at_once(node: For, bounds: Bounds, sizes: Mapping[str, int]) -> int:
    """Return how many turns of a loop are written out; 0 if the compiler decides.

    It does if all turns are short. A loop whose counter is a column should be longer before it is limited:
    the row is in registers, and a register has no number that is only known later.
    """
    count, operations = trips(node, bounds, sizes), _operations(node.body, bounds, sizes)
    counter = Var(node.name, "int")
    used = (p for each in statements(node.body) for expr in direct_expressions(each) for p in parts(expr))
    if any(isinstance(p, RowItem) and counter in parts(p.index) for p in used):
        return 1 if count * operations > MAX_COLUMN_OPERATIONS else 0
    if count * operations <= MAX_OPERATIONS:
        return 0
    fit = max(1, MAX_OPERATIONS // operations)
    return min(MAX_TURNS_AT_ONCE, 1 << (fit.bit_length() - 1))


def _operations(body: tuple[Statement, ...], bounds: Bounds, sizes: Mapping[str, int]) -> int:
    """Count the operations of statements, those in loops for each turn."""
    total = 0
    for statement in body:
        total += 1
        for expr in direct_expressions(statement):
            for part in parts(expr):
                if isinstance(part, Apply):
                    total += CALL_OPERATIONS if part.op in LIBRARY else 1
        match statement:
            case Combine():
                total += COMBINE_OPERATIONS
            case For(body=inner):
                total += max(1, trips(statement, bounds, sizes)) * _operations(inner, bounds, sizes)
            case ForStored(body=inner):
                total += _operations(inner, bounds, sizes)
            case If(body=inner, orelse=other):
                total += _operations(inner, bounds, sizes) + _operations(other, bounds, sizes)
    return total


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


def paired(program: Program, bounds: Bounds, sizes: Mapping[str, int], varying: set[str]) -> int:
    """Return how many of the first statements are computed for some rows side by side; 0 if none."""
    count = 0
    for statement in program.body:
        inside = list(statements((statement,)))
        if not all(isinstance(each, (Set, If, For)) for each in inside):
            break
        exprs = [expr for each in inside for expr in direct_expressions(each)]
        if any(isinstance(p, Load) and p.array in program.arrays for expr in exprs for p in parts(expr)):
            break
        if isinstance(statement, For) and not (
            statement.step == 1
            and statement.name not in varying
            and all(_is_counted(expr) for expr in (statement.start, statement.stop))
            and not depends_on_row(program, statement.start, varying)
            and not depends_on_row(program, statement.stop, varying)
        ):
            break
        count += 1
    pays = any(
        isinstance(each, For)
        and trips(each, bounds, sizes) * _operations(each.body, bounds, sizes) >= MIN_PAIRED_OPERATIONS
        for each in program.body[:count]
    )
    return count if pays else 0


def _is_counted(expr: Expr) -> bool:
    """Return whether an expression is made of sizes and whole numbers, with nothing to check."""
    return all(
        isinstance(p, (Const, SizeOf, Var)) or (isinstance(p, Apply) and p.op in PLAIN) for p in parts(expr)
    )


class Best(NamedTuple):
    """What a loop compares."""

    op: str
    """"lt" for the least value, "gt" for the greatest."""
    value: Expr
    name: str
    """The local that has the best value so far."""
    turns: int
    """Number of turns of a group."""


def find_best(node: For, program: Program, bounds: Bounds, sizes: Mapping[str, int]) -> Best | None:
    """Return what a loop compares which keeps the best value, and what goes with it, in locals.

    What is before the comparison is computed again, so it may keep nothing for a later turn.
    """
    count = trips(node, bounds, sizes)
    *before, last = node.body
    if not isinstance(last, If) or last.orelse or count < 2 * MAX_GROUP_TURNS:
        return None
    if _operations(node.body, bounds, sizes) > MAX_BEST_OPERATIONS:
        return None
    match last.test:
        case Apply("lt" | "gt" as op, (value, Var(name, "real")), _, _) if value.type == "real":
            pass
        case Apply("lt" | "gt" as op, (Var(name, "real"), value), _, _) if value.type == "real":
            op = "gt" if op == "lt" else "lt"
        case _:
            return None
    if not all(isinstance(each, Set) for each in last.body):
        return None
    kept = {each.name: each.value for each in last.body if isinstance(each, Set)}
    if name not in kept or without_lines(kept[name]) != without_lines(value) or len(kept) < len(last.body):
        return None
    temporaries = _assigned(node) - kept.keys()
    if temporaries & ({a.name for a in program.results()}) or any(
        isinstance(each, Set) and each.name in kept for each in statements(tuple(before))
    ):
        return None
    exprs = [expr for each in statements(tuple(before)) for expr in direct_expressions(each)]
    if _names((*exprs, value, *kept.values())) & kept.keys():
        return None
    mine = set(map(id, statements((node,))))
    others = [each for each in statements(program.body) if id(each) not in mine]
    if temporaries & _names(tuple(expr for each in others for expr in direct_expressions(each))):
        return None
    if _reads_first(node.body, temporaries, {node.name}):
        return None
    even = [each for each in range(MIN_GROUP_TURNS, MAX_GROUP_TURNS + 1) if count % each == 0]
    return Best(op, value, name, max(even, default=MIN_GROUP_TURNS))


def _names(exprs: tuple[Expr, ...]) -> set[str]:
    return {p.name for expr in exprs for p in parts(expr) if isinstance(p, Var)}


def _reads_first(body: tuple[Statement, ...], names: set[str], known: set[str]) -> bool:
    """Return whether statements may read one of some locals before they assign it."""
    known = set(known)
    for statement in body:
        if _names(direct_expressions(statement)) & names - known:
            return True
        match statement:
            case Set(name=name):
                known.add(name)
            case For(name=name, body=inner):
                if _reads_first(inner, names, known | {name}):
                    return True
            case If(body=inner, orelse=other):
                if _reads_first(inner, names, known) or _reads_first(other, names, known):
                    return True
    return False
