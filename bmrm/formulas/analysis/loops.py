"""Loops that a printer may rearrange: what each pattern needs, and which statements of a loop fit it.

A loop ``for f in ...: s[j, f] += ...``, whose targets do not depend on the row, has a number per lane for
each target. On a GPU, 16 of them reduced over the warp one by one take 5 shuffles each. Reduced together by
a butterfly, each shuffle halves the values per lane: 16 shuffles in all (`butterfly_sums`). In a loop whose
targets are in a row of the result that the data choose, lanes are iterations, for one row after the other
(`column_sums`). If there are few iterations, lanes with equal targets are ranked once for all of them
(`ranked_sums`).

The first statements, if they combine nothing, may be computed for some rows of a lane at once by register
blocking (`count_blocked`): a parameter in shared memory is then read once for them. A loop that keeps the
best of its iterations, as k-means has one, compares groups of iterations first (`find_best`), as
``nearest_lanes.cuh`` does. How many iterations are written out is limited (`unrolled_iterations`): NVRTC
takes the more time the more text it makes.

On a CPU, lanes are rows, and a sum into a row that the data choose has another target in each lane. Lane by
lane it would cost an update per number. But for one row the targets, the row itself and rows of parameters
are contiguous, so a vector may hold columns of one row instead (`ColumnVectors`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from bmrm.formulas.analysis.facts import ProgramFacts
from bmrm.formulas.analysis.products import PLAIN, is_safe, without_lines
from bmrm.formulas.language.function_table import calls_of
from bmrm.formulas.language.operators import OPERATORS
from bmrm.formulas.language.tree import (
    Apply,
    Block,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Leave,
    Load,
    Loop,
    RowItem,
    Set,
    SizeOf,
    Statement,
    Var,
    direct_expressions,
    names_in,
    parts,
    repeated,
    statements,
)

MIN_COLUMNS = 8
"""Minimum number of iterations of a loop whose lanes are iterations; with fewer, too many lanes have none."""

MAX_OPERATIONS = 256
"""Maximum number of operations of a row that are written out for the iterations of a loop."""

MAX_COLUMN_OPERATIONS = 1024
"""The same of a loop over columns: if its iterations are not written out, the row is in memory."""

MAX_UNROLLED = 8
"""Maximum number of iterations that are written out, of a loop that has more."""

CALL_OPERATIONS, COMBINE_OPERATIONS, COUNTER_OPERATIONS = 32, 64, 32
"""What a call of a function of the library, a result that is combined over a warp, and a counter count."""

MIN_BLOCKED_OPERATIONS = 512
"""Minimum number of operations of statements that are computed for some rows at once."""

MAX_BEST_OPERATIONS = 32
"""Maximum number of operations of an iteration of a loop that compares groups: some are computed again."""

MIN_GROUP, MAX_GROUP = 8, 12
"""Number of iterations of a group: a divisor of all iterations if there is one."""

SIMPLE = {"add", "sub", "mul", "div", "neg", "abs", "min", "max", "real"}
"""Operators that vectors of columns may have on what depends on the counter."""


def unrolled_iterations(node: For, facts: ProgramFacts, counters: Container[str] = ()) -> int:
    """Return how many iterations of a loop are written out; 0 if the compiler decides.

    Results that are ``counters`` are added up by single operations.

    It does if all iterations are short. A loop whose counter is a column should be longer before it is
    limited: the row is in registers, and a register has no number that is only known later.
    """
    count, operations = facts.iterations(node), _operations(node.body, facts, counters)
    counter = Var(node.name, "int")
    used = (p for each in statements(node.body) for expr in direct_expressions(each) for p in parts(expr))
    if any(isinstance(p, RowItem) and counter in parts(p.index) for p in used):
        return 1 if count * operations > MAX_COLUMN_OPERATIONS else 0
    if count * operations <= MAX_OPERATIONS:
        return 0
    fit = max(1, MAX_OPERATIONS // operations)
    return min(MAX_UNROLLED, 1 << (fit.bit_length() - 1))


def _operations(body: tuple[Statement, ...], facts: ProgramFacts, counters: Container[str] = ()) -> int:
    """Count the operations of statements, those in loops for each iteration."""

    def iterations(node: Loop) -> int:
        return max(1, facts.iterations(node)) if isinstance(node, For) else 1

    total = 0.0
    for statement, times in repeated(body, iterations):
        applied = [p.op for e in direct_expressions(statement) for p in parts(e) if isinstance(p, Apply)]
        operations = 1 + sum(CALL_OPERATIONS * calls_of(op) or 1 for op in applied)
        if isinstance(statement, Combine):
            operations += COUNTER_OPERATIONS if statement.array in counters else COMBINE_OPERATIONS
        total += times * operations
    return int(total)


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


def _has_own_target(statement: Combine, node: For, facts: ProgramFacts) -> bool:
    """Return whether each iteration of a loop has another target: one index is its counter, others stay."""
    assigned = _assigned(node)
    counters = [each for each in statement.index if isinstance(each, Var) and each.name == node.name]
    others = [each for each in statement.index if each not in counters]
    dims = facts.program.arguments[statement.array].dims
    return (
        not statement.op.keeps_row
        and len(counters) == 1
        and not any(isinstance(p, (Load, RowItem)) for each in others for p in parts(each))
        and not names_in(*others) & assigned
        and all(
            facts.bounds.inside(each, size)
            for each, size in zip(statement.index, dims, strict=True)
            if each in counters
        )
    )


def butterfly_sums(node: For, facts: ProgramFacts) -> tuple[Combine, ...]:
    """Return the statements of a loop whose results are reduced together over the warp.

    There are none if the loop has others that combine, or loops in it: its iterations would be too long to
    be written out, and its numbers would not stay in registers.
    """
    if facts.iterations(node) < 2:
        return ()
    found = [
        each
        for each in node.body
        if isinstance(each, Combine)
        and _has_own_target(each, node, facts)
        and all(map(facts.bounds.inside, each.index, facts.program.arguments[each.array].dims))
        and not facts.varies(*each.index)
    ]
    others = [each for each in statements(node.body) if each not in found]
    if any(isinstance(each, (Combine, Loop, Block, Leave)) for each in others):
        return ()
    return tuple(found)


def column_sums(node: For, facts: ProgramFacts) -> tuple[Combine, ...]:
    """Return the statements of a loop whose lanes are iterations; none if they are not."""
    found = _of_chosen_rows(node, facts)
    if len(found) < len(node.body) or facts.iterations(node) < MIN_COLUMNS:
        return ()
    fit = all(
        each.op is OPERATORS["sum"] and is_safe(each.value, facts.program, facts.bounds) for each in found
    )
    return found if fit else ()


def ranked_sums(node: For, facts: ProgramFacts) -> tuple[Combine, ...]:
    """Return the statements of a loop whose lanes are ranked once for all targets; none if they are not."""
    found = _of_chosen_rows(node, facts)
    others = [each for each in node.body if each not in found]
    if not found or facts.iterations(node) < 2 or not all(isinstance(each, Set) for each in others):
        return ()
    rows = {(chosen_row(each), facts.program.arguments[each.array].dims[:-1]) for each in found}
    return found if len(rows) == 1 else ()


def chosen_row(statement: Combine) -> tuple[Expr, ...]:
    """Return the indices of a row of the result."""
    return tuple(map(without_lines, statement.index[:-1]))


def _of_chosen_rows(node: For, facts: ProgramFacts) -> tuple[Combine, ...]:
    """Return the statements of a loop that combine into a row of a result which the data choose."""
    return tuple(
        each
        for each in node.body
        if isinstance(each, Combine)
        and _has_own_target(each, node, facts)
        and each.index[-1] == Var(node.name, "int")
        and facts.varies(*each.index)
    )


def count_blocked(facts: ProgramFacts) -> int:
    """Return how many of the first statements are computed for some rows at once; 0 if none."""
    count = 0
    for statement in facts.program.body:
        inside = list(statements((statement,)))
        if not all(isinstance(each, (Set, If, For)) for each in inside):
            break
        exprs = [expr for each in inside for expr in direct_expressions(each)]
        if any(isinstance(p, Load) and p.array in facts.program.arrays for e in exprs for p in parts(e)):
            break
        if isinstance(statement, For) and not (
            statement.step == 1
            and all(_is_counted(expr) for expr in (statement.start, statement.stop))
            and not facts.diverges(statement)
        ):
            break
        count += 1
    pays = any(
        isinstance(each, For)
        and facts.iterations(each) * _operations(each.body, facts) >= MIN_BLOCKED_OPERATIONS
        for each in facts.program.body[:count]
    )
    return count if pays else 0


def _is_counted(expr: Expr) -> bool:
    """Return whether an expression is made of sizes and integers, with nothing to check."""
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
    group: int
    """Number of iterations of a group."""


def find_best(node: For, facts: ProgramFacts) -> Best | None:
    """Return what a loop compares which keeps the best value, and what goes with it, in locals.

    What is before the comparison is computed again, so it may keep nothing for a later iteration.
    """
    program, count = facts.program, facts.iterations(node)
    *before, last = node.body
    if not isinstance(last, If) or last.orelse or count < 2 * MAX_GROUP:
        return None
    if _operations(node.body, facts) > MAX_BEST_OPERATIONS:
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
    if names_in(*exprs, value, *kept.values()) & kept.keys():
        return None
    mine = set(map(id, statements((node,))))
    others = [each for each in statements(program.body) if id(each) not in mine]
    if temporaries & names_in(*(expr for each in others for expr in direct_expressions(each))):
        return None
    if _reads_first(node.body, temporaries, {node.name}):
        return None
    even = [each for each in range(MIN_GROUP, MAX_GROUP + 1) if count % each == 0]
    return Best(op, value, name, max(even, default=MIN_GROUP))


def _reads_first(body: tuple[Statement, ...], names: set[str], known: set[str]) -> bool:
    """Return whether statements may read one of some locals before they assign it."""
    known = set(known)
    for statement in body:
        if names_in(*direct_expressions(statement)) & names - known:
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


class ColumnVectors:
    """Tests whether a loop may have vectors of columns of one row.

    Parameters
    ----------
    node : For
    facts : ProgramFacts
    """

    def __init__(self, node: For, facts: ProgramFacts) -> None:
        self.node, self.facts, self.counter = node, facts, node.name
        self.temporaries = {s.name for s in node.body if isinstance(s, Set)}

    def fit(self) -> bool:
        """Return whether the loop can have them, and has a sum whose target depends on the row."""
        node = self.node
        if node.step != 1 or node.name in self.facts.varying:
            return False
        if not all(isinstance(s, (Set, Combine)) for s in node.body) or not self._are_own():
            return False
        combined = [s for s in node.body if isinstance(s, Combine)]
        return (
            any(self.facts.varies(*s.index[:-1]) for s in combined)
            and all(self._is_sum(s) for s in combined)
            and all(self._supported(s.value) for s in node.body if isinstance(s, (Set, Combine)))
        )

    def invariant(self, expr: Expr) -> bool:
        """Return whether an expression is the same in all iterations."""
        names = names_in(expr)
        return self.counter not in names and not names & self.temporaries

    def is_counter(self, expr: Expr) -> bool:
        """Return whether an expression is the counter of the loop."""
        return isinstance(expr, Var) and expr.name == self.counter

    def _are_own(self) -> bool:
        """Return whether locals that the loop assigns exist only inside it, assigned before they are read."""
        program = self.facts.program
        inside = sum(self._count(s) for s in self.node.body)
        outside = sum(self._count(s) for s in statements(program.body))
        if inside != outside or self.temporaries & {a.name for a in program.results()}:
            return False
        return not _reads_first(self.node.body, self.temporaries, set())

    def _count(self, statement: Statement) -> int:
        """Count where a statement reads or assigns one of the loop's locals."""
        found = isinstance(statement, Set) and statement.name in self.temporaries
        exprs = direct_expressions(statement)
        names = [p.name for expr in exprs for p in parts(expr) if isinstance(p, Var)]
        return int(found) + sum(name in self.temporaries for name in names)

    def _is_sum(self, statement: Combine) -> bool:
        dims = self.facts.program.arguments[statement.array].dims
        return (
            statement.op is OPERATORS["sum"]
            and bool(statement.index)
            and self.is_counter(statement.index[-1])
            and all(map(self.invariant, statement.index[:-1]))
            and self.facts.bounds.inside(statement.index[-1], dims[-1])
        )

    def _supported(self, expr: Expr) -> bool:
        program, inside = self.facts.program, self.facts.bounds.inside
        if self.invariant(expr):
            return expr.type in ("real", "int")
        match expr:
            case Var(name, kind):
                return name in self.temporaries and kind == "real"
            case RowItem(index=index):
                return self.is_counter(index) and inside(index, program.width)
            case Load(array, index, "real", _) if array not in program.arrays:
                *others, last = index
                is_inside = inside(last, program.arguments[array].dims[-1])
                return self.is_counter(last) and is_inside and all(map(self.invariant, others))
            case Apply(op, args, "real", _):
                return op in SIMPLE and all(map(self._supported, args))
        return False
