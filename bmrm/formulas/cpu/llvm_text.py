"""LLVM text: what its printers share, from names and types to loops and masks."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from bmrm.distributed.rows import Rows
from bmrm.formulas.analysis.layout import OUTSIDE, ROOM, Site, TableLayout
from bmrm.formulas.analysis.schedule import CpuSchedule
from bmrm.formulas.language.operators import FunctionOperator, ReductionOperator
from bmrm.formulas.language.tree import Argument, Leave, Local, Size, statements

REAL_BITS = {"float": 32, "double": 64}


class Val(NamedTuple):
    """A value in the text: its name or number, its type in the tree, and whether it is one per lane."""

    text: str
    type: str
    wide: bool


class Writer:
    """Text of a function that is being printed.

    Attributes
    ----------
    W : int
        Rows that run side by side.
    mask : str or None
        Lanes whose branch is taken; None for all.
    base, rows_here : str
        The first row of the block, and how many there are.
    looking : set of str
        Counters of the loops that may take long: each iteration looks whether the pass is to end early.
    """

    def __init__(
        self,
        schedule: CpuSchedule,
        rows: Rows,
        real: str,
        lanes: int,
        vector: int,
        contract: bool,
        looking: AbstractSet[str],
    ) -> None:
        self.schedule, self.rows, self.real, self.W, self.vector = schedule, rows, real, lanes, vector
        self.program, self.bounds, self.varying = (
            schedule.facts.program,
            schedule.facts.bounds,
            schedule.facts.varying,
        )
        self.left = schedule.facts.left
        self.targets = {s.target for s in statements(self.program.body) if isinstance(s, Leave)}
        self.on: list[tuple[str, str]] = []  # loops and blocks around that rows leave one by one: their masks
        self.ends: dict[str, str] = {}  # where those end that all rows leave together
        self.flags = "contract " if contract else ""
        self.looking = looking
        counters = sorted(schedule.counters)
        own = (*(f"counters {name}" for name in counters), *([ROOM] if counters else []))
        self.layout = TableLayout(self.program, bool(rows.column), own)
        self.counting: dict[str, None] = {}  # results with counters so far
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.defined: list[str] = []
        self.functions: dict[FunctionOperator, str] = {}
        self.count = 0
        self.mask: str | None = None  # lanes whose branch is taken; None for all
        self.slot_values: dict[str, str] = {}
        self.base = self.rows_here = ""
        self.here = self.row_first = self.row_last = ""

    def put(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def alloca(self, name: str, kind: str) -> str:
        self.entry.append(f"  %{name} = alloca {kind}, align 64")
        return f"%{name}"

    def need(self, declaration: str) -> None:
        self.declared[declaration] = None

    def scalar(self, kind: str) -> str:
        return {"real": self.real, "int": "i64", "bool": "i1"}[kind]

    def llvm(self, kind: str, wide: bool) -> str:
        inner = self.scalar(kind)
        return f"<{self.W} x {inner}>" if wide else inner

    def of(self, value: Val) -> str:
        return self.llvm(value.type, value.wide)

    def constant(self, value: float | bool, kind: str) -> str:
        if kind == "bool":
            return "true" if value else "false"
        if kind == "int":
            return str(int(value))
        return real_text(float(value), self.real)

    def splat(self, text: str, kind: str, lanes: int = 0) -> str:
        """Copy a number of an LLVM type into all lanes."""
        if not text.startswith("%"):
            return f"splat ({kind} {text})"
        count = lanes or self.W
        wide = f"<{count} x {kind}>"
        one = self.new(f"insertelement {wide} poison, {kind} {text}, i64 0")
        return self.new(f"shufflevector {wide} {one}, {wide} poison, <{count} x i32> zeroinitializer")

    def widen(self, value: Val) -> Val:
        if value.wide or self.W == 1:
            return value
        return Val(self.splat(value.text, self.scalar(value.type)), value.type, True)

    def both(self, *values: Val) -> tuple[list[Val], bool]:
        wide = any(value.wide for value in values)
        return ([self.widen(value) for value in values] if wide else list(values)), wide

    def effect_mask(self) -> str | None:
        """Return the lanes that are rows and whose branch is taken; None in plain code."""
        if self.W == 1:
            return None
        tail = self.new(f"load <{self.W} x i1>, ptr %tail, align 8")
        if self.mask is None:
            return tail
        return self.new(f"and <{self.W} x i1> {tail}, {self.mask}")

    def any_lane(self, mask: str) -> str:
        bits = self.new(f"bitcast <{self.W} x i1> {mask} to i{self.W}")
        return self.new(f"icmp ne i{self.W} {bits}, 0")

    def first_lane(self, mask: str) -> str:
        """Return the number of the first lane of a mask that has one."""
        bits = self.new(f"bitcast <{self.W} x i1> {mask} to i{self.W}")
        self.need(f"declare i{self.W} @llvm.cttz.i{self.W}(i{self.W}, i1 immarg)")
        found = self.new(f"call i{self.W} @llvm.cttz.i{self.W}(i{self.W} {bits}, i1 false)")
        if self.W == 64:
            return found
        return self.new(f"{'zext' if self.W < 64 else 'trunc'} i{self.W} {found} to i64")

    @contextmanager
    def masked(self, test: str | None) -> Iterator[None]:
        """Add a condition to the mask for a while."""
        outer = self.mask
        if test is not None:
            self.mask = test if outer is None else self.new(f"and <{self.W} x i1> {outer}, {test}")
        yield
        self.mask = outer

    @contextmanager
    def branch(self, test: str) -> Iterator[None]:
        """Run what follows only if a single condition holds."""
        yes, no = self.label("yes"), self.label("no")
        self.put(f"br i1 {test}, label %{yes}, label %{no}")
        self.place(yes)
        yield
        self.put(f"br label %{no}")
        self.place(no)

    def look(self) -> None:
        """Leave the function if the pass is to end early."""
        now = self.new(f"load atomic i8, ptr {self.slot('leave')} monotonic, align 1")
        with self.branch(self.new(f"icmp ne i8 {now}, 0")):
            self.put("ret void")
            self.place(self.label("never"))

    def next_count(self, now: str, step: int, near: bool, kind: str = "i64") -> str:
        """Return the next value of a counter, or the last number there is if it would leave 64 bits."""
        by = str(step) if kind == "i64" else f"splat (i64 {step})"
        if near:
            return self.new(f"add nsw {kind} {now}, {by}")
        name = f"llvm.sadd.sat.{'' if kind == 'i64' else f'v{self.W}'}i64"
        self.need(f"declare {kind} @{name}({kind}, {kind})")
        return self.new(f"call {kind} @{name}({kind} {now}, {kind} {by})")

    @contextmanager
    def counted(
        self, start: str, stop: str, step: int = 1, *, near: bool = True, on: str = ""
    ) -> Iterator[str]:
        """Count from start to before stop; yield the counter.

        ``near`` says that no value of the counter plus the step leaves 64 bits. For steps of 1 it never does.
        ``on`` is where the lanes are that are still in the loop.
        """
        count = self.alloca(self.label("count"), "i64")
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        self.put(f"store i64 {start}, ptr {count}")
        self.put(f"br label %{head}")
        self.place(head)
        now = self.new(f"load i64, ptr {count}")
        test = self.new(f"icmp {'slt' if step > 0 else 'sgt'} i64 {now}, {stop}")
        if on:
            some = self.any_lane(self.new(f"load <{self.W} x i1>, ptr {on}, align 8"))
            test = self.new(f"and i1 {test}, {some}")
        self.put(f"br i1 {test}, label %{body}, label %{done}")
        self.place(body)
        yield now
        after = self.next_count(now, step, near or abs(step) == 1)
        self.put(f"store i64 {after}, ptr {count}")
        self.put(f"br label %{head}")
        self.place(done)

    def slot(self, name: str) -> str:
        return self.slot_values[name]

    def size(self, size: Size) -> str:
        return str(size) if isinstance(size, int) else self.slot(f"size {size}")

    def accumulated(self, result: Argument) -> str:
        return "double" if result.type == "real" else "i64"

    def bytes_of(self, value: Val) -> str:
        return f"<{self.W} x i8>" if value.wide else "i8"

    def merged(self, op: ReductionOperator, a: str, b: str, kind: str, bits: str, real: bool) -> str:
        """Combine two values of a type; comparisons of it have the type ``bits``."""
        found: list[str] = []
        for text in op.llvm_real if real else op.llvm_whole:
            found.append(self.new(text.format(*found, a=a, b=b, type=kind, bits=bits)))
        return found[-1]

    def item_bytes(self, kind: str) -> int:
        return 8 if kind == "int" else 1 if kind == "bool" else REAL_BITS[self.real] // 8

    def memory(self, kind: str) -> str:
        """Return the LLVM type of an element of an array."""
        return {"bool": "i8", "int": "i64", "real": self.real}[kind]

    def element(self, array: Local) -> tuple[str, int]:
        """Return the LLVM type of an element of an array of the row, and its size."""
        return ("double", 8) if array.wide else (self.memory(array.type), self.item_bytes(array.type))

    def product(self, dims: tuple[Size, ...]) -> str:
        found = "1"
        for size in dims:
            text = self.size(size)
            found = text if found == "1" else self.new(f"mul i64 {found}, {text}")
        return found

    def own_address(self, slot: str, dims: tuple[Size, ...], kind: str, row: str) -> str:
        """Return where the array of a row begins in an argument of which each row has its own."""
        first = self.new(f"mul nsw i64 {row}, {self.product(dims)}")
        return self.new(f"getelementptr {kind}, ptr {self.slot(slot)}, i64 {first}")

    def as_real(self, value: str, before: str = "", after: str = "") -> str:
        """Convert stored values to the type of real numbers; of vectors with the text around their type."""
        item = self.rows.item
        if item == self.real:
            return value
        if item in REAL_BITS:
            op = "fpext" if REAL_BITS[item] < REAL_BITS[self.real] else "fptrunc"
        else:
            op = "uitofp" if self.rows.unsigned else "sitofp"
        return self.new(f"{op} {before}{item}{after} {value} to {before}{self.real}{after}")

    def stored_bytes(self) -> int:
        """Return the size of a stored value."""
        return (REAL_BITS.get(self.rows.item) or int(self.rows.item[1:])) // 8

    def site(self, line: int, what: str, size: Size) -> Site:
        """Return the place of an index in the text."""
        return Site(line, OUTSIDE, what, size)

    def held_lanes(self, text: str, kind: str) -> str:
        """Keep a vector in memory, to visit its lanes one by one."""
        at = self.alloca(self.label("held"), f"<{self.W} x {kind}>")
        self.put(f"store <{self.W} x {kind}> {text}, ptr {at}, align 64")
        return at

    def lane_of(self, held: str, kind: str, lane: str) -> str:
        at = self.new(f"getelementptr {kind}, ptr {held}, i64 {lane}")
        return self.new(f"load {kind}, ptr {at}")

    def safe_index(self, index: Val) -> Val:
        """Replace the indices of lanes that take no part by 0."""
        if not index.wide:
            return index
        mask = self.effect_mask()
        kind = f"<{self.W} x i64>"
        return Val(
            self.new(f"select <{self.W} x i1> {mask}, {kind} {index.text}, {kind} zeroinitializer"),
            "int",
            True,
        )

    def splat_real(self, value: float, wide: bool) -> str:
        text = real_text(value, self.real)
        return f"splat ({self.real} {text})" if wide else text

    def lane_numbers(self) -> str:
        return "<" + ", ".join(f"i64 {lane}" for lane in range(self.W)) + ">"


def real_text(value: float, kind: str) -> str:
    """Return a real number in LLVM's text: its bits as a double.

    Examples
    --------
    >>> real_text(1.0, "double"), real_text(1e300, "float")
    ('0x3FF0000000000000', '0x7FF0000000000000')
    """
    if kind == "float":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def quote(name: str) -> str:
    """Return a name of LLVM's for a local: a user's name cannot clash with one of the printer's."""
    return f'"v.{name}"'


def short(kind: str) -> str:
    """Return LLVM's short name of a type, as in the names of its functions."""
    return {"float": "f32", "double": "f64"}.get(kind, kind)
