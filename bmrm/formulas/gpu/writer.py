"""CUDA C++ text that is being printed: lines, names and types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from bmrm.formulas.analysis.layout import Site, TableLayout
from bmrm.formulas.analysis.long_loops import work_of_iteration
from bmrm.formulas.analysis.schedule import GpuSchedule, held_items, rounded_up
from bmrm.formulas.gpu.operator_text import struct_of
from bmrm.formulas.language.operators import ReductionOperator
from bmrm.formulas.language.tree import Argument, Size, While, statements

EXTRA = ("chunks", "chunk_rows")
"""Entries of the table besides those of the CPU's code: how many chunks there are, and their rows."""

EVERY = ("here", "true")
"""Masks of statements that run in every lane: lanes without a row have the numbers of another one."""


@dataclass(frozen=True)
class Number:
    """An integer of the text; at run time it comes from the table, since sizes of the call decide it."""

    value: int
    at_run_time: bool = False

    def __add__(self, other: Number) -> Number:
        return Number(self.value + other.value, self.at_run_time or other.at_run_time)

    def rounded_up(self, unit: int) -> Number:
        return Number(rounded_up(self.value, unit), self.at_run_time)


@dataclass(frozen=True)
class Tried:
    """Names in iterations that are tried: see `analysis/tried.py`.

    Attributes
    ----------
    unusual : str
        The flag that they set.
    number : str
        The number of an iteration, from 0.
    divisors : dict of str to str
        Divisors by their text.
    counts : dict of int to (list of str, str)
        Arrays with the indices and the values of what is counted afterwards, by the identity of its
        statement.
    """

    unusual: str
    number: str
    divisors: Mapping[str, str]
    counts: Mapping[int, tuple[list[str], str]]


class CudaWriter:
    """Text of the kernels of a program.

    Parameters
    ----------
    schedule : GpuSchedule
    real, item, column : str
        See `bmrm.formulas.gpu.cuda_text.print_cuda`.
    wide : set of str
    """

    def __init__(
        self, schedule: GpuSchedule, real: str, item: str, column: str, wide: AbstractSet[str]
    ) -> None:
        self.schedule, self.facts, self.memory = schedule, schedule.facts, schedule.memory
        self.program, self.sizes = self.facts.program, self.facts.sizes
        self.real, self.item, self.column, self.wide = real, item, column, wide
        self.layout = TableLayout(self.program, bool(column), extra=EXTRA)
        whole = {name for name, kind in self.program.locals.items() if kind == "int"}
        self.narrow = {name for name in whole if self.facts.bounds.narrow(name)}
        self.lines: list[str] = []
        self.numbers: dict[str, int] = {}
        """Numbers that the table holds, by their entries."""
        self.rows_of_tiles: dict[str, tuple[str, str]] = {}
        """Parameters of which a loop copies tiles: its counter, and the name of the row of an iteration."""
        self.tried: Tried | None = None
        """Iterations that are tried, where there are some."""
        self.kept_failures: dict[int, str] = {}
        """Places of the text whose failures a row keeps until its end, and the numbers that keep them."""
        self.keeps_failures = not any(isinstance(each, While) for each in statements(self.program.body))
        """Whether a row that has failed surely ends."""
        self._depth = self._count = 0
        self._names: dict[str, str] = {}

    # --- text

    def put(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def open(self, text: str = "") -> None:
        self.put(f"{text} {{" if text else "{")
        self._depth += 1

    def close(self, end: str = "}") -> None:
        self._depth -= 1
        self.put(end)

    def reopen(self, text: str) -> None:
        """Print the end of a block and the beginning of the next in one line."""
        self._depth -= 1
        self.open(f"}} {text}")

    def is_to_end(self, row: str, work: float) -> str:
        """Return the test whether a lane is to end, whose rows begin with ``row``, after some more work."""
        return f"is_to_end(table, {row}, work, {work_of_iteration(work)})"

    def kept_failure(self, site: Site) -> str:
        """Return what is negative if a row has failed at a place."""
        number = self.layout.site(site)
        return self.kept_failures.setdefault(number, f"failed{number}")

    def report_failures(self, first_line: int) -> None:
        """Print the failures that a row keeps; ``first_line`` is where its text begins."""
        for number, flag in self.kept_failures.items():
            self.lines.insert(first_line, f"{'  ' * self._depth}int {flag} = 0;")
            self.put(f"if (here && {flag} < 0) fail(table, row, {number});")

    # --- names

    def name(self, name: str) -> str:
        """Return a C++ name for a local: no user's name can clash with one of C++ or of this folder."""
        if name not in self._names:
            self._names[name] = f"v{len(self._names)}_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        return self._names[name]

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def slot(self, name: str) -> str:
        return f"table.at[{self.layout.slots[name]}]"

    # --- types and numbers

    def kind(self, kind: str) -> str:
        return {"real": "T", "int": "whole", "bool": "bool"}[kind]

    def stored(self, kind: str) -> str:
        """Return the type of an element of an array."""
        return {"real": "T", "int": "whole", "bool": "unsigned char"}[kind]

    def size(self, size: Size) -> str:
        return self.number(self.count((size,)), f"size {size}", "LL")

    def count(self, dims: tuple[Size, ...]) -> Number:
        """Return the number of elements of an array."""
        return Number(self.facts.count(dims), any(size in self.schedule.run_time for size in dims))

    def number(self, number: Number, name: str, suffix: str = "", unit: int = 1) -> str:
        """Return a number with the suffix of its type, or its entry in the table, of this name.

        The table has it in a unit that divides it; so the compiler knows that it is a multiple.
        """
        if not number.at_run_time:
            return f"{number.value}{suffix}"
        self.numbers[name] = number.value // unit
        self.layout.slots.setdefault(name, len(self.layout.slots))
        return f"{unit} * {self.slot(name)}" if unit > 1 else self.slot(name)

    def element(self, name: str) -> str:
        """Return the type of an element of an array that a row writes."""
        array = self.program.arrays[name]
        return "double" if array.wide else self.stored(array.type)

    def row_place(self, name: str, dims: tuple[Size, ...], row: str) -> str:
        """Return where the numbers of a row begin in an argument of which each row has its own."""
        return f"{row} * {self.number(self.count(dims), f'count {name}', 'LL')}"

    def accumulated(self, result: Argument) -> str:
        return "double" if result.type == "real" else "whole"

    def held(self, result: Argument) -> str:
        """Return the type in which a warp holds an element of a result."""
        return "int" if result.name in self.schedule.counters else self.accumulated(result)

    def held_items(self, result: Argument) -> Number:
        """Return the numbers of 8 bytes of an array in which a warp holds a result."""
        count = self.count(result.dims)
        is_counter = result.name in self.schedule.counters
        return Number(held_items(count.value, is_counter), count.at_run_time)

    def struct(self, operator: ReductionOperator) -> str:
        """Return the name of the class of an operator."""
        return struct_of(self.program, operator)

    # --- the row

    def declare_numbers(self, suffix: str = "") -> None:
        """Print the declarations of a row's own numbers."""
        for name, kind in self.program.own_numbers().items():
            type_ = "int" if name in self.narrow else self.kind(kind)
            self.put(f"{type_} {self.name(name)}{suffix} = {'false' if kind == 'bool' else '0'};")

    def row_address(self) -> None:
        """Print where the row ``mine`` is."""
        self.put(f"const char* const at = (const char*){self.slot('rows')} + mine * {self.slot('row_step')};")
        self.put(f"const whole across = {self.slot('column_step')};")

    def own_row(self, first: str, other: str) -> None:
        """Print the number of this lane's row; lanes without one read row ``other``."""
        self.put(f"const whole row = {first} + lane;")
        self.put(f"const bool here = lane < int(least<whole>(end - ({first}), WARP));")
        self.put(f"const whole mine = here ? row : {other};")
