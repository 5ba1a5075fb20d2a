"""What compiled code and its caller agree on: the table of addresses and numbers that a call passes.

The compiled function has one argument, an array of int64. Each entry has a name here. Also here: the places
in the text at which a pass may fail, so that an error can name the line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bmrm.formulas.language.operators import GREATEST_INT
from bmrm.formulas.language.tree import Argument, Program, Size

FIXED = ("first", "last", "number", "rows", "row_step", "column_step", "staged", "error", "leave")
"""Entries of every table: the rows from ``first`` to before ``last``; the number of row 0 among the rows of
all ranks; the address of row 0, and the bytes to the next row and the next column; the staged block; where
errors are written; the address of a byte that is 0 until the pass is to end early."""

STORED = ("starts", "columns", "values")
"""Entries for sparse rows, in place of the address of row 0: row pointers, columns and values."""

ROOM = "counter_room"
"""Entry for a CPU's counters: the number of rows that they have room for."""

OUTSIDE, ZERO = "outside", "zero"
"""Kinds of failure: an index outside of an array, a division of integers by 0."""


NO_ROW = GREATEST_INT
"""Number of the row of an extremum of no rows."""


@dataclass(frozen=True)
class Site:
    """A place in the text at which a pass may fail.

    Attributes
    ----------
    line : int
    kind : str
        "outside" or "zero".
    what : str
        The array.
    size : str or int
        The size that the index must stay below.
    """

    line: int
    kind: str
    what: str = ""
    size: Size = 0

    def place(self, name: str) -> str:
        """Return the function and the line; a row function of a name may call others."""
        return f"{getattr(self.line, 'function', name)}, line {self.line}"


@dataclass
class TableLayout:
    """Names of the entries of the table of a program, and the places at which it may fail."""

    program: Program
    sparse: bool
    extra: tuple[str, ...] = ()
    slots: dict[str, int] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)

    def __post_init__(self) -> None:
        program = self.program
        names = [*FIXED, *(STORED if self.sparse else ())]
        names += [f"size {size}" for size in sizes_of(program)]
        names += [f"argument {name}" for name in program.arguments]
        names += [f"rows {a.name}" for a in program.results() if a.keeps_row]
        names += [f"squares {name}" for name in program.squares]
        names += [f"array {name}" for name in program.own_arrays()]
        names += self.extra
        self.slots = {name: place for place, name in enumerate(names)}

    def site(self, site: Site) -> int:
        """Return the number of a place; the same for the same place."""
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)


class Place(NamedTuple):
    """Where a result is in the results of a part of the rows, one vector of numbers of 8 bytes."""

    argument: Argument
    is_row: bool
    """Whether it is the numbers of the rows of extrema, not their values."""
    first: int
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def places_of(program: Program, sizes: Mapping[str, int]) -> tuple[Place, ...]:
    """Return where the results of a part are: first all values, then the rows of extrema."""
    results = program.combined()
    found, first = [], 0
    for argument, is_row in (*((a, False) for a in results), *((a, True) for a in results if a.keeps_row)):
        shape = tuple(sizes[s] if isinstance(s, str) else s for s in argument.dims)
        kind = np.dtype(np.float64 if argument.type == "real" and not is_row else np.int64)
        found.append(Place(argument, is_row, first, math.prod(shape), shape, kind))
        first += found[-1].size
    return tuple(found)


def sizes_of(program: Program) -> list[str]:
    """Return the names of all sizes of a program, in the order in which they first occur."""
    found: dict[str, None] = {program.width: None}
    for argument in program.arguments.values():
        found |= dict.fromkeys(size for size in argument.dims if isinstance(size, str))
    for array in program.arrays.values():
        found |= dict.fromkeys(size for size in array.dims if isinstance(size, str))
    return list(found)
