"""What analyses and printers know of a program: bounds of whole numbers, and what varies from row to row.

What varies has the axes along which it does: a number that depends on the rows of one axis only is the same
for all rows of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from bmrm.formulas.analysis.bounds import IndexBounds
from bmrm.formulas.language.tree import (
    Axis,
    Expr,
    For,
    ForStored,
    If,
    Load,
    Program,
    RowItem,
    RowNumber,
    Set,
    Size,
    Statement,
    Value,
    Var,
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
    """

    program: Program
    sizes: Mapping[str, int]
    bounds: IndexBounds
    varying: Mapping[str, AbstractSet[Axis]]

    def axes_of(self, *exprs: Expr) -> AbstractSet[Axis]:
        """Return the axes along which some expression may differ from row to row."""
        return _axes_of(self.program, self.varying, *exprs)

    def varies(self, *exprs: Expr) -> bool:
        """Return whether some expression may differ from row to row."""
        return bool(self.axes_of(*exprs))

    def diverges(self, node: For) -> bool:
        """Return whether the iterations of a loop may differ from row to row."""
        return node.name in self.varying or self.varies(node.start, node.stop)

    def iterations(self, node: For) -> int:
        """Return how many iterations a loop has at most; 0 if that is not known."""
        return (self.bounds.iterations(node, self.sizes) or 0) if node.step == 1 else 0

    def count(self, dims: tuple[Size, ...]) -> int:
        """Return the number of elements of an array."""
        return math.prod(self.sizes[size] if isinstance(size, str) else size for size in dims)


def find_facts(program: Program, sizes: Mapping[str, int]) -> ProgramFacts:
    """Find the facts of a program for the sizes of a call."""
    return ProgramFacts(program, sizes, IndexBounds(program), _find_varying(program))


def _find_varying(program: Program) -> dict[str, set[Axis]]:
    """Return the locals that may differ from row to row, or be assigned for some rows only."""
    found: dict[str, set[Axis]] = {a.name: set(a.axes) for a in program.outputs()}

    def add(name: str, axes: AbstractSet[Axis]) -> None:
        if axes:
            found.setdefault(name, set()).update(axes)

    def axes_of(*exprs: Expr) -> AbstractSet[Axis]:
        return _axes_of(program, found, *exprs)

    def visit(body: tuple[Statement, ...], mask: AbstractSet[Axis]) -> None:
        for statement in body:
            match statement:
                case Set(name, value):
                    add(name, mask | axes_of(value))
                case For(name, start, stop, _, inner):
                    wide = mask | axes_of(start, stop)
                    add(name, wide)
                    visit(inner, wide)
                case ForStored(axis, index, value, inner):
                    add(index, mask | {axis})
                    add(value, mask | {axis})
                    visit(inner, mask | {axis})
                case If(test, inner, other):
                    wide = mask | axes_of(test)
                    visit(inner, wide)
                    visit(other, wide)

    count = -1
    while count < sum(map(len, found.values())):
        count = sum(map(len, found.values()))
        visit(program.body, set())
    return found


def _axes_of(program: Program, varying: Mapping[str, AbstractSet[Axis]], *exprs: Expr) -> AbstractSet[Axis]:
    """Return the axes along which expressions may differ from row to row, if these locals may."""
    found: set[Axis] = set()
    for expr in exprs:
        for part in parts(expr):
            match part:
                case RowItem(axis=axis) | RowNumber(axis=axis):
                    found.add(axis)
                case Var(name, _):
                    found.update(varying.get(name, ()))
                case Value(name, _):
                    found.update(program.arguments[name].axes)
                case Load(array, _, _, _):
                    found.update(program.axes_of(array))
    return found
