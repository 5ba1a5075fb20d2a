"""What analyses and printers know of a program: bounds of whole numbers, and what varies with the row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bmrm.formulas.analysis.bounds import Bounds
from bmrm.formulas.analysis.varying import depends_on_row, varying_names
from bmrm.formulas.language.tree import Expr, For, Program, Size


@dataclass(frozen=True)
class Facts:
    """Facts of a program.

    Attributes
    ----------
    program : Program
        With all types known.
    sizes : dict of str to int
        Those of a call; empty if nothing depends on them.
    bounds : Bounds
    varying : set of str
        Locals that may differ from row to row.
    """

    program: Program
    sizes: Mapping[str, int]
    bounds: Bounds
    varying: set[str]

    def varies(self, *exprs: Expr) -> bool:
        """Return whether some expression may differ from row to row."""
        return any(depends_on_row(self.program, expr, self.varying) for expr in exprs)

    def diverges(self, node: For) -> bool:
        """Return whether the iterations of a loop may differ from row to row."""
        return node.name in self.varying or self.varies(node.start, node.stop)

    def iterations(self, node: For) -> int:
        """Return how many iterations a loop has at most; 0 if that is not known."""
        return (self.bounds.turns(node, self.sizes) or 0) if node.step == 1 else 0

    def count(self, dims: tuple[Size, ...]) -> int:
        """Return the number of elements of an array."""
        return math.prod(self.sizes[size] if isinstance(size, str) else size for size in dims)


def find_facts(program: Program, sizes: Mapping[str, int], sparse: bool) -> Facts:
    """Find the facts of a program for the sizes of a call."""
    return Facts(program, sizes, Bounds(program), varying_names(program, sparse))
