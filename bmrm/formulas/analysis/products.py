"""Sums of products, whose place in a result does not depend on the row: which loops hold them.

A loop such as ``for f in ...: for g in ...: cross[f, g] += a[f] * b[g]`` adds a matrix per row, and all rows
together are one product of matrices, of rank as high as there are rows. A vector of sums, such as
``total[f] += a[f]``, has one factor. Only the loops around a sum matter, not what happens before, if each
factor reads the row, parameters and the row's own numbers alone. So these sums leave the walk from row to
row, and a GPU computes them by blocks of 8 x 8 sums.

Neighbouring columns are a block, or, if both sides of all products are the same, columns are dealt to blocks
in turn: then a lane's columns are neighbours. Sums that only need the rows and parameters have a loop of
their own over the rows (``apart``). Sums that need the row's own numbers are added on the way (``along``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bmrm.formulas.analysis.bounds import Bound, IndexBounds
from bmrm.formulas.analysis.facts import ProgramFacts
from bmrm.formulas.language.operators import OPERATORS
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
    names_in,
    parts,
    statements,
)

COUNTER = Var("#", "int")
"""Stands for the counter of a factor, so that equal factors of two counters are equal."""

MAX_FACTORS = 4
"""Maximum number of factors of one side of a product."""

BLOCK = 8
"""Rows and columns of a block of sums, and rows that are multiplied at a time."""

WARP_BYTES = 256
"""Size of a number of each lane of a warp."""

MAX_APART_NUMBERS = 88
"""Maximum number of sums of a lane that has a loop of its own: with two rows of factors, 255 registers."""

MAX_ALONG_NUMBERS = 32
"""Maximum number of sums of a lane that are added on the way, besides all else that the row needs."""

GROUP_BLOCKS = 4
"""Blocks of rows, and of columns, of a matrix that does not fit."""

GROUP_VECTOR_BLOCKS = 16
"""Blocks of a vector that does not fit."""

MAX_COUNTED_CELLS = 1 << 14
"""Maximum number of cells of a matrix whose blocks are looked at one by one."""


@dataclass(frozen=True)
class ProductSide:
    """One side of a product: factors of one counter, each with `COUNTER` in its place.

    Attributes
    ----------
    counter : str
    low, high : int
        Range of the counter over all iterations of the loops, both included.
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
    left : ProductSide
        Of the first index of the result.
    right : ProductSide or None
        Of the second index; None for a vector.
    loops : tuple of For
        The loops around the sum, the outer one first.
    tests : tuple of Expr
        Conditions on the row.
    """

    result: str
    left: ProductSide
    right: ProductSide | None
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]

    def expressions(self) -> tuple[Expr, ...]:
        """Return what is computed for each row."""
        return (*self.tests, *self.left.factors, *(self.right.factors if self.right else ()))

    def locals(self) -> set[str]:
        """Return the row's own numbers that occur."""
        return names_in(*self.expressions()) - {COUNTER.name}


class _UnfitError(Exception):
    """A statement that is not made of sums of products."""


def find_products(
    program: Program, sizes: Mapping[str, int], bounds: IndexBounds
) -> dict[int, tuple[ProductSum, ...]]:
    """Return the statements of a function that hold nothing but sums of products, by their place in it.

    Parameters
    ----------
    program : Program
        Of dense rows.
    sizes : dict of str to int
    bounds : IndexBounds
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
    def __init__(self, program: Program, sizes: Mapping[str, int], bounds: IndexBounds) -> None:
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
        return names_in(expr) & {loop.name for loop in loops}

    def is_safe(self, expr: Expr) -> bool:
        return is_safe(expr, self.program, self.bounds)

    def product(
        self, node: Combine, loops: tuple[For, ...], tests: tuple[Expr, ...], known: dict[str, Expr]
    ) -> ProductSum:
        result, index = self.program.arguments[node.array], node.index
        names = [each.name for each in index if isinstance(each, Var)]
        if (
            node.op is not OPERATORS["sum"]
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

    def side(self, name: str, factors: list[Expr]) -> ProductSide:
        found = self.bounds.known.get(name)
        if found is None or found.low is None or found.high is None or len(factors) > MAX_FACTORS:
            raise _UnfitError
        low, high = self.number(found.low), self.number(found.high)
        if high < low:
            raise _UnfitError
        return ProductSide(name, low, high, tuple(replaced(each, {name: COUNTER}) for each in factors))

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


def is_safe(expr: Expr, program: Program, bounds: IndexBounds) -> bool:
    """Return whether an expression needs no check, and nothing of the row's own except numbers."""
    outputs = {a.name for a in program.results()}
    return all(_is_safe(part, program, bounds, outputs) for part in parts(expr))


def _is_safe(part: Expr, program: Program, bounds: IndexBounds, outputs: set[str]) -> bool:
    match part:
        case Value(name, _) | Var(name, _):
            return name not in outputs
        case RowItem(index=index):
            return bounds.inside(index, program.width)
        case Load(array, index, _, _):
            return array not in program.arrays and all(map(bounds.inside, index, program.dims_of(array)))
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

    def iterations(loop: For) -> range:
        return range(plain_number(loop.start, sizes, counters), plain_number(loop.stop, sizes, counters))

    for number in iterations(outer):
        counters[outer.name] = number
        if outer.name == sum_.left.counter:
            yield number, iterations(inner)
        else:
            yield from ((i, (number,)) for i in iterations(inner))


class Blocks(NamedTuple):
    """Sums of products of a program, by the place of their statement, and where they are computed."""

    apart: dict[int, tuple[ProductSum, ...]]
    along: dict[int, tuple[ProductSum, ...]]

    def sums(self) -> list[ProductSum]:
        return [each for some in (self.apart, self.along) for sums in some.values() for each in sums]

    def results(self) -> dict[str, None]:
        return dict.fromkeys(each.result for each in self.sums())


def choose_blocks(facts: ProgramFacts, sparse: bool) -> Blocks:
    """Find the sums of products, and choose where each is computed."""
    blocks, program, sizes = Blocks({}, {}), facts.program, facts.sizes
    if sparse:
        return blocks
    found = find_products(program, sizes, facts.bounds)
    alone = len(found) == len(program.body) and not any(a.axes or not a.dims for a in program.results())
    left = MAX_ALONG_NUMBERS
    for place, sums in found.items():
        numbers = group_numbers(sums, sizes)
        own = any(each.locals() for each in sums)
        if numbers <= left and not (alone and not own):
            blocks.along[place] = sums
            left -= numbers
        elif not own:
            blocks.apart[place] = sums
    return blocks


def side_blocks(side: ProductSide) -> int:
    """Return how many blocks of columns a side has."""
    return -(-side.count // BLOCK)


def tiles_of(sum_: ProductSum, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return the blocks of a matrix of sums to which its loops come."""
    left, right = sum_.left, sum_.right
    assert right is not None
    if left.count * right.count > MAX_COUNTED_CELLS:
        return [(a, b) for a in range(side_blocks(left)) for b in range(side_blocks(right))]
    found: set[tuple[int, int]] = set()
    for i, some in visited_cells(sum_, sizes):
        found.update(((i - left.low) // BLOCK, (j - right.low) // BLOCK) for j in some)
    return sorted(found)


def half_tiles(blocks: int) -> list[tuple[int, int]]:
    """Return one of (a, b) and (b, a) for any two blocks, such that b appears an even number of times.

    Two products with the same b are computed at once. One b may be left over.

    Examples
    --------
    >>> half_tiles(3)
    [(0, 0), (0, 2), (1, 0), (1, 1), (2, 1), (2, 2)]
    """
    odd = [b for b in range(blocks) if (blocks - b) % 2]
    turned = {(high, low): (low, high) for low, high in zip(odd[::2], odd[1::2], strict=False)}
    return sorted(turned.get((a, b), (a, b)) for b in range(blocks) for a in range(b, blocks))


def is_symmetric(sum_: ProductSum, sizes: Mapping[str, int]) -> bool:
    """Return whether both sides of a product are the same, and half of all blocks are no more than needed."""
    left, right = sum_.left, sum_.right
    if right is None or (left.low, left.high, left.factors) != (right.low, right.high, right.factors):
        return False
    blocks = side_blocks(left)
    return blocks * (blocks + 1) // 2 <= len(tiles_of(sum_, sizes))


def is_dealt(sums: tuple[ProductSum, ...], sizes: Mapping[str, int]) -> bool:
    """Return whether columns are dealt to blocks in turn."""
    matrices = [each for each in sums if each.right]
    return bool(matrices) and all(is_symmetric(each, sizes) for each in matrices)


def group_numbers(sums: tuple[ProductSum, ...], sizes: Mapping[str, int]) -> int:
    """Return how many sums a lane has of those that are computed together."""
    dealt = is_dealt(sums, sizes)
    total = 0
    for each in sums:
        blocks = side_blocks(each.left)
        if each.right is None:
            total += blocks
        else:
            total += blocks * (blocks + 1) if dealt else 2 * len(tiles_of(each, sizes))
    return total


def split_sums(
    sums: tuple[ProductSum, ...], sizes: Mapping[str, int]
) -> Iterator[tuple[tuple[ProductSum, ...], bool]]:
    """Yield what is computed together of sums with a loop of their own, and whether by groups of blocks."""
    if group_numbers(sums, sizes) <= MAX_APART_NUMBERS:
        yield sums, False
        return
    for each in sums:
        yield (each,), group_numbers((each,), sizes) > MAX_APART_NUMBERS


def max_group_blocks(sum_: ProductSum) -> int:
    """Return the maximum number of blocks of a side of a sum that does not fit."""
    return GROUP_BLOCKS if sum_.right else GROUP_VECTOR_BLOCKS


def held_bytes(blocks: Blocks, sizes: Mapping[str, int]) -> int:
    """Return the size of the shared memory in which the warps of a block add their sums."""
    numbers = [group_numbers(sums, sizes) for sums in blocks.along.values()]
    for sums in blocks.apart.values():
        for some, one_of_many in split_sums(sums, sizes):
            side = max_group_blocks(some[0])
            many = 2 * side**2 if some[0].right else side
            numbers.append(many if one_of_many else group_numbers(some, sizes))
    return WARP_BYTES * max(numbers, default=0)
