"""Bounds of integers: which indices need no check, and which numbers fit 32 bits.

A bound is a size of the call plus a number, or a number alone. Each local has one interval for the whole
function, the hull of all that is assigned to it; sizes are at least 1 and smaller than `NARROW`.

Integers wrap at 64 bits when they are computed. So a bound holds only if the operation surely does not
wrap, for any numbers within the bounds of its arguments; of one that may wrap, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bmrm.formulas.language.operators import GREATEST_INT, LEAST_INT
from bmrm.formulas.language.tree import (
    Apply,
    Const,
    Expr,
    For,
    ForStored,
    Program,
    RowNumber,
    Set,
    Size,
    SizeOf,
    Var,
    parts,
    statements,
)

MAX_ROUNDS = 4
"""Number of rounds after which a bound that still moves is given up."""

NARROW = 2**31
"""Numbers from -NARROW to NARROW - 1 fit 32 bits; sizes are smaller than NARROW."""

MOST_ROWS = 2**53
"""Rows of all ranks are fewer."""

FAR = 2**61
"""If a loop counts between -FAR and FAR, by less than FAR, no number that it computes wraps."""

WRAPPING = ("add", "sub", "mul", "neg", "abs")
"""Operators of integers whose results may not fit 64 bits, and of which bounds are known if they do."""


class Bound(NamedTuple):
    """A size plus a number; without a size, the number."""

    size: str
    offset: int


class Interval(NamedTuple):
    """Bounds of an integer, both included; None if unknown."""

    low: Bound | None
    high: Bound | None


UNKNOWN = Interval(None, None)


def at_most(a: Bound, b: Bound) -> bool:
    """Return whether a is at most b for all sizes."""
    return a.offset <= b.offset + (1 if b.size and not a.size else 0) and a.size in ("", b.size)


def hull(a: Interval, b: Interval) -> Interval:
    """Return an interval that has both."""
    low = high = None
    if a.low and b.low:
        low = a.low if at_most(a.low, b.low) else b.low if at_most(b.low, a.low) else None
    if a.high and b.high:
        high = b.high if at_most(a.high, b.high) else a.high if at_most(b.high, a.high) else None
    return Interval(low, high)


def plus(a: Bound | None, b: Bound | None, sign: int = 1) -> Bound | None:
    """Return a + b or a - b, if that is a size plus a number."""
    if a is None or b is None:
        return None
    if not b.size:
        return Bound(a.size, a.offset + sign * b.offset)
    if sign < 0:
        return Bound("", a.offset - b.offset) if a.size == b.size else None
    return None if a.size else Bound(b.size, a.offset + b.offset)


class IndexBounds:
    """Intervals of the locals and loop variables of a program."""

    def __init__(self, program: Program) -> None:
        self.width = program.width
        self.known: dict[str, Interval] = {}
        for round_ in range(2 * MAX_ROUNDS):
            before = dict(self.known)
            for statement in statements(program.body):
                match statement:
                    case Set(name, value) if value.type in ("int", "bool"):
                        self._add(name, self.of(value), round_)
                    case For(name, start, stop, step, _):
                        self._add(name, self._counter(start, stop, step), round_)
                    case ForStored(index=index):
                        self._add(index, Interval(Bound("", 0), Bound(self.width, -1)), round_)
            if self.known == before:
                return
        self.known = dict.fromkeys(self.known, UNKNOWN)

    def _add(self, name: str, found: Interval | None, round_: int) -> None:
        if found is None:
            return
        old = self.known.get(name)
        new = found if old is None else hull(old, found)
        if old is not None and round_ >= MAX_ROUNDS:
            new = Interval(
                new.low if new.low == old.low else None, new.high if new.high == old.high else None
            )
        self.known[name] = new

    def _counter(self, start: Expr, stop: Expr, step: int) -> Interval | None:
        first, last = self.of(start), self.of(stop)
        if first is None or last is None:
            return None
        one = Bound("", 1)
        if step > 0:
            return Interval(first.low, plus(last.high, one, -1))
        return Interval(plus(last.low, one), first.high)

    def of(self, expr: Expr) -> Interval | None:
        """Return the interval of an expression; None if a part of it has no value yet."""
        match expr:
            case Const(value, kind) if kind != "real":
                return Interval(Bound("", int(value)), Bound("", int(value)))
            case SizeOf(size):
                return Interval(Bound(size, 0), Bound(size, 0))
            case RowNumber():
                return Interval(Bound("", 0), Bound("", MOST_ROWS))
            case Var(name, "int" | "bool"):
                return self.known.get(name)
            case Apply(op, args, "int" | "bool", _):
                return self._applied(op, args)
        return UNKNOWN

    def _applied(self, op: str, args: tuple[Expr, ...]) -> Interval | None:
        if op in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isnan", "bool"):
            return Interval(Bound("", 0), Bound("", 1))
        found = [self.of(each) for each in (args[1:] if op == "select" else args)]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        if op == "int":
            return known[0]
        a, b = known[0], known[-1]
        if op in WRAPPING:
            return _computed(op, a, b)
        match op:
            case "select":
                return hull(a, b)
            case "min":
                return Interval(hull(a, b).low, _pick(a.high, b.high, least=True))
            case "max":
                return Interval(_pick(a.low, b.low, least=False), hull(a, b).high)
            case "mod" if b.low and at_most(Bound("", 1), b.low):
                return Interval(Bound("", 0), plus(b.high, Bound("", 1), -1))
        return UNKNOWN

    def wraps(self, node: Apply) -> bool:
        """Return whether the result of an operation on integers may not fit 64 bits."""
        a, *others = (self.of(each) or UNKNOWN for each in node.args)
        return node.op in WRAPPING and not _fits(*_range(node.op, a, others[0] if others else a))

    def is_exact(self, expr: Expr) -> bool:
        """Return whether an expression has the value that it has without a limit of 64 bits."""
        return not any(isinstance(part, Apply) and self.wraps(part) for part in parts(expr))

    def counts_near(self, node: For) -> bool:
        """Return whether the counter of a loop stays so small that none of its next values wraps."""
        ends = [_numbers(self.of(each) or UNKNOWN) for each in (node.start, node.stop)]
        return abs(node.step) < FAR and all(low > -FAR and high < FAR for low, high in ends)

    def has_iteration(self, node: For) -> bool:
        """Return whether a loop that counts up surely has an iteration."""
        first, last = (self.of(each) or UNKNOWN for each in (node.start, node.stop))
        after = plus(first.high, Bound("", 1))
        return after is not None and last.low is not None and at_most(after, last.low)

    def iterations(self, node: For | ForStored, sizes: Mapping[str, int]) -> int | None:
        """Return how many iterations a loop has at most; None if that is not known."""
        if isinstance(node, ForStored):
            return sizes[self.width]
        found = self.known.get(node.name)
        if found is None or found.low is None or found.high is None:
            return None
        low, high = ((sizes[b.size] if b.size else 0) + b.offset for b in (found.low, found.high))
        return max(0, (high - low) // abs(node.step) + 1)

    def inside(self, index: Expr, size: Size) -> bool:
        """Return whether an index is surely from 0 to the size - 1."""
        low = (self.of(index) or UNKNOWN).low
        return low is not None and at_most(Bound("", 0), low) and self.below(index, size)

    def below(self, index: Expr, size: Size) -> bool:
        """Return whether an index is surely at most the size - 1."""
        high = (self.of(index) or UNKNOWN).high
        last = Bound(size, -1) if isinstance(size, str) else Bound("", size - 1)
        return high is not None and at_most(high, last)

    def narrow(self, name: str) -> bool:
        """Return whether a local or loop variable surely fits 32 bits."""
        found = self.known.get(name, UNKNOWN)
        return all(
            bound is not None
            and bound.offset <= (0 if bound.size else NARROW - 1)
            and bound.offset >= (-NARROW)
            for bound in found
        )


def _numbers(found: Interval) -> tuple[int, int]:
    """Return the least and the greatest number in an interval, for any sizes."""
    low = LEAST_INT if found.low is None else found.low.offset + (1 if found.low.size else 0)
    high = GREATEST_INT if found.high is None else found.high.offset + (NARROW - 1 if found.high.size else 0)
    return low, high


def _range(op: str, a: Interval, b: Interval) -> tuple[int, int]:
    """Return the least and the greatest result of an operation without a limit of 64 bits."""
    (low, high), (least, most) = _numbers(a), _numbers(b)
    match op:
        case "add":
            return low + least, high + most
        case "sub":
            return low - most, high - least
        case "mul":
            corners = [x * y for x in (low, high) for y in (least, most)]
            return min(corners), max(corners)
        case "neg":
            return -high, -low
    return max(low, -high, 0), max(high, -low)  # abs


def _fits(low: int, high: int) -> bool:
    return low >= LEAST_INT and high <= GREATEST_INT


def _computed(op: str, a: Interval, b: Interval) -> Interval:
    """Return the interval of the result of one of the operators `WRAPPING`."""
    low, high = _range(op, a, b)
    if not _fits(low, high):
        return UNKNOWN
    least = most = None
    if op == "add":
        least, most = plus(a.low, b.low), plus(a.high, b.high)
    elif op == "sub":
        least, most = plus(a.low, b.high, -1), plus(a.high, b.low, -1)
    return Interval(least or Bound("", low), most or Bound("", high))


def _pick(a: Bound | None, b: Bound | None, *, least: bool) -> Bound | None:
    """Return the tighter of two bounds of which both hold."""
    if a is None or b is None:
        return a or b
    if at_most(a, b):
        return a if least else b
    if at_most(b, a):
        return b if least else a
    return a if a.size else b
