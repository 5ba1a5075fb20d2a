"""What analyses and printers know of a program: bounds of integers, and what varies from row to row.

What varies has the axes along which it does: a number that depends on the rows of one axis only is the same
for all rows of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from bmrm.formulas.analysis.bounds import IndexBounds
from bmrm.formulas.language.tree import (
    Axis,
    Block,
    Expr,
    For,
    ForStored,
    If,
    Leave,
    Load,
    Program,
    RowItem,
    RowNumber,
    Set,
    Size,
    Statement,
    Value,
    Var,
    While,
    name_of,
    parts,
)


@dataclass(frozen=True)
class ProgramFacts:
    """Facts of a program.

    Attributes
    ----------
    program : Program
        With all types known.
    sizes : dict of str to int
        Those of a call; empty if nothing depends on them.
    bounds : IndexBounds
    varying : dict of str to set of Axis
        Locals that may differ from row to row, with the axes along which they may.
    left : set of str
        Loops and blocks that rows leave one by one, each at a time of its own.
    masked : set of str
        Counters of loops within those: they are the same for all rows that are still there.
    """

    program: Program
    sizes: Mapping[str, int]
    bounds: IndexBounds
    varying: dict[str, set[Axis]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    masked: set[str] = field(default_factory=set)

    def axes_of(self, *exprs: Expr) -> AbstractSet[Axis]:
        """Return the axes along which some expression may differ from row to row."""
        return _axes_of(self.program, self.varying, *exprs)

    def varies(self, *exprs: Expr) -> bool:
        """Return whether some expression may differ from row to row."""
        return bool(self.axes_of(*exprs))

    def diverges(self, node: For | While) -> bool:
        """Return whether the iterations of a loop may differ from row to row."""
        if node.name in self.left:
            return True
        return isinstance(node, For) and (node.name in self.varying or self.varies(node.start, node.stop))

    def iterations(self, node: For) -> int:
        """Return how many iterations a loop has at most; 0 if that is not known."""
        return (self.bounds.iterations(node, self.sizes) or 0) if node.step == 1 else 0

    def count(self, dims: tuple[Size, ...]) -> int:
        """Return the number of elements of an array."""
        return math.prod(self.sizes[size] if isinstance(size, str) else size for size in dims)


def find_facts(program: Program, sizes: Mapping[str, int]) -> ProgramFacts:
    """Find the facts of a program for the sizes of a call."""
    found = ProgramFacts(program, sizes, IndexBounds(program))
    for result in program.outputs():
        found.varying[result.name] = set(result.axes)
    visitor = _Visitor(found)
    before = -1
    while before < visitor.size():
        before = visitor.size()
        visitor.visit(program.body, frozenset(), frozenset())
    return found


class _Visitor:
    """Adds to facts what statements show: locals that differ from row to row, or are set for some rows only.

    A loop under a condition on the row counts for each row. In a loop that rows leave one by one, those that
    are still there count together.
    """

    def __init__(self, found: ProgramFacts) -> None:
        self.found, self.around = found, list[str]()
        self.leaving: dict[str, set[Axis]] = {}
        """The axes along which rows leave a loop or a block one by one."""

    def size(self) -> int:
        """Return how much is known; it grows until nothing is new."""
        return sum(map(len, self.found.varying.values())) + sum(map(len, self.leaving.values()))

    def varies(self, name: str, axes: AbstractSet[Axis]) -> None:
        """Note that a local may differ along axes."""
        if axes:
            self.found.varying.setdefault(name, set()).update(axes)

    def leaves(self, name: str, axes: AbstractSet[Axis]) -> None:
        """Note that rows may leave a loop or a block one by one."""
        if axes:
            self.leaving.setdefault(name, set()).update(axes)
            self.found.left.add(name)

    def visit(
        self, body: tuple[Statement, ...], mask: AbstractSet[Axis], branched: AbstractSet[Axis]
    ) -> None:
        """Visit statements: rows may take no part along ``mask``, along ``branched`` by a condition."""
        axes_of = self.found.axes_of
        for statement in body:
            match statement:
                case Set(name, value):
                    self.varies(name, mask | axes_of(value))
                case For(name, start, stop, _, inner):
                    wide = branched | axes_of(start, stop)
                    self.varies(name, wide)
                    if mask and not wide:
                        self.found.masked.add(name)
                    self.inside(statement, (inner,), mask | wide, wide)
                case ForStored(axis, index, value, inner):
                    self.varies(index, mask | {axis})
                    self.varies(value, mask | {axis})
                    self.inside(statement, (inner,), mask | {axis}, branched | {axis})
                case While(name, before, test, inner):
                    self.leaves(name, mask | axes_of(test))
                    self.inside(statement, (before, inner), mask, branched)
                case Block(body=inner):
                    self.inside(statement, (inner,), mask, branched)
                case Leave(target):
                    for name in self.around[self.around.index(target) :]:
                        self.leaves(name, mask)
                case If(test, inner, other):
                    wide = axes_of(test)
                    self.visit(inner, mask | wide, branched | wide)
                    self.visit(other, mask | wide, branched | wide)

    def inside(
        self,
        node: For | ForStored | While | Block,
        bodies: tuple[tuple[Statement, ...], ...],
        mask: AbstractSet[Axis],
        branched: AbstractSet[Axis],
    ) -> None:
        """Visit what is in a loop or a block."""
        self.around.append(name_of(node))
        for body in bodies:
            self.visit(body, mask | self.leaving.get(name_of(node), frozenset()), branched)
        self.around.pop()


def _axes_of(program: Program, varying: Mapping[str, AbstractSet[Axis]], *exprs: Expr) -> AbstractSet[Axis]:
    """Return the axes along which expressions may differ from row to row, if these locals may."""
    found: set[Axis] = set()
    for expr in exprs:
        for part in parts(expr):
            match part:
                case RowItem(axis=axis) | RowNumber(axis=axis, of=""):
                    found.add(axis)
                case Var(name, _):
                    found.update(varying.get(name, ()))
                case Value(name, _):
                    found.update(program.arguments[name].axes)
                case Load(array, _, _, _):
                    found.update(program.axes_of(array))
    return found
