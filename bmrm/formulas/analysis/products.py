"""Sums of products, whose place in a result does not depend on the row: which loops hold them.

A loop such as ``for f in ...: for g in ...: cross[f, g] += a[f] * b[g]`` adds a matrix per row, and all rows
together are one product of matrices, of rank as high as there are rows. A vector of sums, such as
``total[f] += a[f]``, has one factor. Only the loops around a sum matter, not what happens before, if each
factor reads the row, parameters and the row's own numbers alone. So these sums leave the walk from row to
row, and a printer may compute them by blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bmrm.formulas.analysis.bounds import Bound, Bounds
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    If,
    Load,
    Program,
    RowItem,
    Set,
    SizeOf,
    Statement,
    Value,
    Var,
    direct_expressions,
    parts,
    statements,
)

COUNTER = Var("#", "int")
"""Stands for the counter of a factor, so that equal factors of two counters are equal."""

MAX_FACTORS = 4
"""Maximum number of factors of one side of a product."""


@dataclass(frozen=True)
class Side:
    """One side of a product: factors of one counter, each with `COUNTER` in its place.

    Attributes
    ----------
    counter : str
    low, high : int
        Range of the counter over all turns of the loops, both included.
    factors : tuple of Expr
    """

    counter: str
    low: int
    high: int
    factors: tuple[Expr, ...]

    @property
    def count(self) -> int:
        return self.high - self.low + 1


@dataclass(frozen=True)
class ProductSum:
    """A sum of products of a left side and, for a matrix, a right side.

    Attributes
    ----------
    result : str
    left : Side
        Of the first index of the result.
    right : Side or None
        Of the second index; None for a vector.
    loops : tuple of For
        The loops around the sum, the outer one first.
    tests : tuple of Expr
        Conditions on the row.
    """

    result: str
    left: Side
    right: Side | None
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]

    def expressions(self) -> tuple[Expr, ...]:
        """Return what is computed for each row."""
        return (*self.tests, *self.left.factors, *(self.right.factors if self.right else ()))

    def locals(self) -> set[str]:
        """Return the row's own numbers that occur."""
        found = {p.name for expr in self.expressions() for p in parts(expr) if isinstance(p, Var)}
        return found - {COUNTER.name}


class _UnfitError(Exception):
    """A statement that is not made of sums of products."""


def find_products(
    program: Program, sizes: Mapping[str, int], bounds: Bounds
) -> dict[int, tuple[ProductSum, ...]]:
    """Return the statements of a function that hold nothing but sums of products, by their place in it.

    Parameters
    ----------
    program : Program
        Of dense rows.
    sizes : dict of str to int
    bounds : Bounds
        Of the program.
    """
    combined = [s.array for s in statements(program.body) if isinstance(s, Combine)]
    found = {}
    for place, statement in enumerate(program.body):
        finder = _Finder(program, sizes, bounds)
        try:
            finder.visit((statement,), (), (), {})
            finder.check_temporaries(statement)
        except _UnfitError:
            continue
        if finder.sums and all(combined.count(each.result) == 1 for each in finder.sums):
            found[place] = tuple(finder.sums)
    return found


class _Finder:
    def __init__(self, program: Program, sizes: Mapping[str, int], bounds: Bounds) -> None:
        self.program, self.sizes, self.bounds = program, sizes, bounds
        self.outputs = {a.name for a in program.results()}
        self.sums: list[ProductSum] = []
        self.temporaries: set[str] = set()

    def visit(
        self,
        body: tuple[Statement, ...],
        loops: tuple[For, ...],
        tests: tuple[Expr, ...],
        known: dict[str, Expr],
    ) -> None:
        known = dict(known)
        for statement in body:
            match statement:
                case Set(name, value):
                    if not loops or name in self.outputs or name in self.temporaries:
                        raise _UnfitError
                    self.temporaries.add(name)
                    known[name] = replaced(value, known)
                case Combine():
                    self.sums.append(self.product(statement, loops, tests, known))
                case For(_, start, stop, 1, inner):
                    if not (self.is_plain(start, loops) and self.is_plain(stop, loops)):
                        raise _UnfitError
                    self.visit(inner, (*loops, statement), tests, known)
                case If(test, inner, ()):
                    test = replaced(test, known)
                    if self.counters(test, loops) or not self.is_safe(test):
                        raise _UnfitError
                    self.visit(inner, loops, (*tests, test), known)
                case _:
                    raise _UnfitError

    def check_temporaries(self, statement: Statement) -> None:
        """Raise if a local that the statement assigns exists outside of it, or before it is assigned."""
        program = self.program
        inside = sum(self.count(s) for s in statements((statement,)))
        if inside != sum(self.count(s) for s in statements(program.body)):
            raise _UnfitError
        for each in self.sums:
            if each.locals() & self.temporaries:
                raise _UnfitError

    def count(self, statement: Statement) -> int:
        """Count where a statement reads or assigns one of the temporaries."""
        names = [p.name for e in direct_expressions(statement) for p in parts(e) if isinstance(p, Var)]
        names += [statement.name] if isinstance(statement, Set) else []
        return sum(name in self.temporaries for name in names)

    def is_plain(self, expr: Expr, loops: tuple[For, ...]) -> bool:
        """Return whether a bound of a loop is made of sizes and counters of outer loops, and never wraps."""
        if not self.bounds.is_exact(expr):
            return False
        counters = {loop.name for loop in loops}
        for part in parts(expr):
            match part:
                case Const(_, "int") | SizeOf():
                    pass
                case Var(name, _) if name in counters:
                    pass
                case Apply(op, _, "int", _) if op in PLAIN:
                    pass
                case _:
                    return False
        return True

    def counters(self, expr: Expr, loops: tuple[For, ...]) -> set[str]:
        names = {p.name for p in parts(expr) if isinstance(p, Var)}
        return names & {loop.name for loop in loops}

    def is_safe(self, expr: Expr) -> bool:
        return is_safe(expr, self.program, self.bounds)

    def product(
        self, node: Combine, loops: tuple[For, ...], tests: tuple[Expr, ...], known: dict[str, Expr]
    ) -> ProductSum:
        result, index = self.program.arguments[node.array], node.index
        names = [each.name for each in index if isinstance(each, Var)]
        if (
            node.op != "sum"
            or result.type != "real"
            or not 1 <= len(names) == len(index) <= 2
            or sorted(names) != sorted(loop.name for loop in loops)
            or not all(map(self.bounds.inside, index, result.dims))
        ):
            raise _UnfitError
        factors: dict[str, list[Expr]] = {name: [] for name in names}
        for factor in self.split(replaced(node.value, known), loops):
            if not self.is_safe(factor):
                raise _UnfitError
            own = self.counters(factor, loops) or {names[0]}
            factors[own.pop()].append(without_lines(factor))
        sides = [self.side(name, factors[name]) for name in names]
        tests = tuple(map(without_lines, tests))
        return ProductSum(node.array, sides[0], sides[1] if len(sides) > 1 else None, loops, tests)

    def side(self, name: str, factors: list[Expr]) -> Side:
        found = self.bounds.known.get(name)
        if found is None or found.low is None or found.high is None or len(factors) > MAX_FACTORS:
            raise _UnfitError
        low, high = self.number(found.low), self.number(found.high)
        if high < low:
            raise _UnfitError
        return Side(name, low, high, tuple(replaced(each, {name: COUNTER}) for each in factors))

    def number(self, bound: Bound) -> int:
        return (self.sizes[bound.size] if bound.size else 0) + bound.offset

    def split(self, expr: Expr, loops: tuple[For, ...]) -> list[Expr]:
        """Return factors of an expression, each with one counter at most."""
        if len(self.counters(expr, loops)) <= 1:
            return [expr]
        match expr:
            case Apply("mul", (a, b), "real", _):
                return [*self.split(a, loops), *self.split(b, loops)]
            case Apply("neg", (a,), "real", _):
                return [Const(-1.0, "real"), *self.split(a, loops)]
        raise _UnfitError


def is_safe(expr: Expr, program: Program, bounds: Bounds) -> bool:
    """Return whether an expression needs no check, and nothing of the row's own except numbers."""
    outputs = {a.name for a in program.results()}
    return all(_is_safe(part, program, bounds, outputs) for part in parts(expr))


def _is_safe(part: Expr, program: Program, bounds: Bounds, outputs: set[str]) -> bool:
    match part:
        case Value(name, _) | Var(name, _):
            return name not in outputs
        case RowItem(index, _):
            return bounds.inside(index, program.width)
        case Load(array, index, _, _):
            name = array.removesuffix(".squares")
            if array in program.arrays or name not in program.arguments:
                return False
            return all(map(bounds.inside, index, program.arguments[name].dims))
        case Apply("shl" | "shr", args, _, _):
            return bounds.inside(args[1], 64)
        case Apply("floordiv" | "mod", args, _, _) if args[0].type != "real":
            return isinstance(args[1], Const) and args[1].value != 0
    return True


PLAIN = {"add", "sub", "mul", "min", "max", "neg"}
"""Operators of bounds of loops."""


def replaced(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """Return an expression with other expressions in place of some locals."""
    match expr:
        case Var(name, kind) if name in known:
            new = known[name]
            return new if new.type == kind else Apply(kind, (new,), kind, 0)
        case Apply(args=args):
            return replace(expr, args=tuple(replaced(each, known) for each in args))
        case Load(index=index):
            return replace(expr, index=tuple(replaced(each, known) for each in index))
        case RowItem(index=one):
            return replace(expr, index=replaced(one, known))
    return expr


def without_lines(expr: Expr) -> Expr:
    """Return an expression that does not know where it stands: two that mean the same are equal."""
    match expr:
        case Apply(args=args):
            return replace(expr, args=tuple(map(without_lines, args)), line=0)
        case Load(index=index):
            return replace(expr, index=tuple(map(without_lines, index)), line=0)
        case RowItem(index=one):
            return replace(expr, index=without_lines(one), line=0)
    return expr


def plain_number(expr: Expr, sizes: Mapping[str, int], counters: Mapping[str, int]) -> int:
    """Return a bound of a loop, for numbers that the counters of outer loops have."""
    match expr:
        case Const(value, _):
            return int(value)
        case SizeOf(size):
            return sizes[size]
        case Var(name, _):
            return counters[name]
    assert isinstance(expr, Apply)
    args = [plain_number(each, sizes, counters) for each in expr.args]
    match expr.op:
        case "add":
            return args[0] + args[1]
        case "sub":
            return args[0] - args[1]
        case "mul":
            return args[0] * args[1]
        case "neg":
            return -args[0]
    return min(args) if expr.op == "min" else max(args)


def visited_cells(sum_: ProductSum, sizes: Mapping[str, int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the cells of a matrix of sums to which its loops come: a row, and some of its columns."""
    outer, inner = sum_.loops
    counters: dict[str, int] = {}

    def turns(loop: For) -> range:
        return range(plain_number(loop.start, sizes, counters), plain_number(loop.stop, sizes, counters))

    for turn in turns(outer):
        counters[outer.name] = turn
        if outer.name == sum_.left.counter:
            yield turn, turns(inner)
        else:
            yield from ((i, (turn,)) for i in turns(inner))
