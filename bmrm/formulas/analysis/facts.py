"""What analyses and printers know of a program: bounds of whole numbers, and what varies with the row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bmrm.formulas.analysis.bounds import IndexBounds
from bmrm.formulas.language.tree import (
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
    varying : set of str
        Locals that may differ from row to row.
    """

    program: Program
    sizes: Mapping[str, int]
    bounds: IndexBounds
    varying: set[str]

    def varies(self, *exprs: Expr) -> bool:
        """Return whether some expression may differ from row to row."""
        return any(_depends_on_row(self.program, expr, self.varying) for expr in exprs)

    def diverges(self, node: For) -> bool:
        """Return whether the iterations of a loop may differ from row to row."""
        return node.name in self.varying or self.varies(node.start, node.stop)

    def iterations(self, node: For) -> int:
        """Return how many iterations a loop has at most; 0 if that is not known."""
        return (self.bounds.iterations(node, self.sizes) or 0) if node.step == 1 else 0

    def count(self, dims: tuple[Size, ...]) -> int:
        """Return the number of elements of an array."""
        return math.prod(self.sizes[size] if isinstance(size, str) else size for size in dims)


def find_facts(program: Program, sizes: Mapping[str, int], sparse: bool) -> ProgramFacts:
    """Find the facts of a program for the sizes of a call."""
    return ProgramFacts(program, sizes, IndexBounds(program), _varying_names(program, sparse))


def _varying_names(program: Program, sparse: bool) -> set[str]:
    """Return the locals that may differ from row to row, or be assigned for some rows only."""
    found: set[str] = {a.name for a in program.results() if a.role == "output"}

    def varies(expr: Expr) -> bool:
        return _depends_on_row(program, expr, found)

    def visit(body: tuple[Statement, ...], masked: bool) -> None:
        for statement in body:
            match statement:
                case Set(name, value):
                    if masked or varies(value):
                        found.add(name)
                case For(name, start, stop, _, inner):
                    wide = masked or varies(start) or varies(stop)
                    if wide:
                        found.add(name)
                    visit(inner, wide)
                case ForStored(index, value, inner):
                    found.update((index, value))
                    visit(inner, True)
                case If(test, inner, other):
                    wide = masked or varies(test)
                    visit(inner, wide)
                    visit(other, wide)

    count = -1
    while count < len(found):
        count = len(found)
        visit(program.body, False)
    return found


def _depends_on_row(program: Program, expr: Expr, varying: set[str]) -> bool:
    """Return whether an expression may differ from row to row, if these locals may."""
    for part in parts(expr):
        match part:
            case RowItem() | RowNumber():
                return True
            case Var(name, _) if name in varying:
                return True
            case Value(name, _) if program.arguments[name].role == "row value":
                return True
            case Load(array, _, _, _) if array in program.arrays:
                return True
    return False
