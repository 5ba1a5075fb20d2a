"""The printer for the CPU: LLVM text in which each number of a row is a vector over a few rows.

The loop of a row function over the columns of a row is a sum, which no compiler may reorder, so it would
run one number at a time. Here W rows run side by side, row r in lane r. Every local number is a vector of W
lanes in registers, every branch on such a number is a mask, and a block of W rows is transposed first, so
that one column of it is a vector. This is the model of ispc (Pharr and Mark 2012). What does not depend on
the row (counters of loops, parameters read by them) stays a single number. W = 1 gives plain code, for sparse
rows.

The text is LLVM's and not that of a Python compiler for two reasons, both measured by
``benchmarks/reductions/cpu.py``: a loop over lanes around each statement keeps every local in memory, and
typing generated Python takes longer than all of this.

Results with a data-dependent index are updated lane by lane, in the order of the rows. Those with the same
index for all lanes are first combined over the lanes by halves. Results that are one number are combined lane
by lane over all blocks, and over the lanes at the end. So the order of every sum is fixed.

References
----------
M. Pharr and W. R. Mark, ispc: A SPMD compiler for high-performance CPU programming, InPar 2012.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

from bmrm.distributed.rows import Rows
from bmrm.formulas.analysis.layout import OUTSIDE, ZERO, Layout, Site
from bmrm.formulas.cpu.llvm_text import Val, Writer, quote, real_text, short
from bmrm.formulas.cpu.turned import TurnedLoop
from bmrm.formulas.cpu.vector_math import VectorMath
from bmrm.formulas.language.tree import (
    Apply,
    Argument,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Load,
    Program,
    RowItem,
    RowNumber,
    Set,
    SetItem,
    Size,
    SizeOf,
    Statement,
    Value,
    Var,
    statements,
)

COMPARE = {
    "lt": ("olt", "slt"),
    "le": ("ole", "sle"),
    "gt": ("ogt", "sgt"),
    "ge": ("oge", "sge"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}
LIBRARY = ("exp", "log", "log2", "log1p", "expm1", "sin", "cos", "tanh", "erf", "lgamma", "pow", "fmod")
"""Functions of the C library, called lane by lane; exp and log of vectors have code of their own."""

INTRINSIC = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil"}

LEAST_INT, GREATEST_INT = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Code:
    """Text of a function, and what its caller must know.

    Attributes
    ----------
    text : str
    layout : Layout
    lanes : int
        Rows of a block.
    """

    text: str
    layout: Layout
    lanes: int


NO_ROW = 2**63 - 1
"""Number of the row of an extremum of no rows."""

NAME = "bmrm_rows"
"""Name of the compiled function."""


def print_lanes(
    program: Program,
    rows: Rows,
    real: str,
    lanes: int,
    vector: int,
    *,
    contract: bool = True,
    looking: AbstractSet[str] = frozenset(),
) -> Code:
    """Print a program as LLVM text.

    Parameters
    ----------
    program : Program
        With all types known.
    rows : Rows
    real : {"float", "double"}
        Type of real numbers.
    lanes : int
        Rows that run side by side; 1 for sparse rows.
    vector : int
        Real numbers of a vector register.
    contract : bool, default True
        Whether a product and a sum may become one operation, which rounds once.
    looking : set of str, optional
        Counters of the loops that look in each turn whether the pass is to end early; the rows always do.
    """
    return Printer(program, rows, real, lanes, vector, contract, looking).print()


class Printer(Writer):
    """Prints one program; `bmrm.formulas.cpu.turned` prints some of its loops."""

    # --- text

    # --- types

    # --- masks

    # --- the function

    def print(self) -> Code:
        self.prepare()
        last = self.slot("last")
        with self.counted(self.slot("first"), last, self.W) as base:
            self.base = base
            self.look()
            self.start_block(last)
            self.block(self.program.body)
            self.store_outputs()
        self.flush()
        self.put("ret void")
        text = [f"define void @{NAME}(ptr noalias %table) #0 {{", "entry:"]
        text += [*self.entry, "  br label %begin", "begin:", *self.lines, "}", ""]
        text += self.declared
        text.append('attributes #0 = { nounwind "no-trapping-math"="true" }')
        return Code("\n".join(text) + "\n", self.layout, self.W)

    def prepare(self) -> None:
        """Read the table, and make room for locals and for results that are one number."""
        for name, place in self.layout.slots.items():
            plain = name.split()[0] in ("first", "last", "number", "row_step", "column_step", "size")
            kind = "i64" if plain else "ptr"
            at = f"%slot{place}"
            self.entry.append(f"  {at}.at = getelementptr i64, ptr %table, i64 {place}")
            self.entry.append(f"  {at} = load {kind}, ptr {at}.at, align 8")
            self.slot_values[name] = at
        if self.rows.width:
            self.slot_values[f"size {self.program.width}"] = str(self.rows.width)
        if self.W > 1:
            self.alloca("tail", f"<{self.W} x i1>")
        for argument in self.row_values():
            vector = f"<{self.W} x {self.memory(argument.type)}>"
            at = self.alloca(quote(f"row.{argument.name}"), vector)
            self.entry.append(f"  store {vector} zeroinitializer, ptr {at}, align 64")
        for name, kind in self.variables().items():
            self.alloca(quote(name), self.storage(name, kind))
        for result in self.lane_results():
            kind = self.accumulated(result)
            at = self.alloca(quote(f"lanes.{result.name}"), f"<{self.W} x {kind}>")
            self.entry.append(
                f"  store <{self.W} x {kind}> splat ({kind} {neutral(result, kind)}), ptr {at}, align 64"
            )

    def variables(self) -> dict[str, str]:
        outputs = {a.name: a.type for a in self.program.results() if a.role == "output"}
        found = {**self.program.locals, **outputs}
        for statement in statements(self.program.body):
            match statement:
                case For(name, _, _, _, _) | ForStored(name, _, _):
                    found[name] = "int"
        return found

    def storage(self, name: str, kind: str) -> str:
        """Return the LLVM type in which a local is kept: whole numbers take 32 bits if those suffice."""
        wide = name in self.varying
        if kind == "int" and wide and self.bounds.narrow(name):
            return f"<{self.W} x i32>"
        return self.llvm(kind, wide)

    def lane_results(self) -> list[Argument]:
        """Return the results that each lane combines on its own until the end."""
        if self.W == 1:
            return []
        simple = ("sum", "min", "max", "or", "and")
        return [a for a in self.program.results() if not a.dims and a.role in simple]

    def row_values(self) -> list[Argument]:
        """Return the parameters with one number per row, which are copied for each block."""
        values = [a for a in self.program.arguments.values() if a.role == "row value"]
        return values if self.W > 1 else []

    def start_block(self, last: str) -> None:
        """Stage the rows of a block, and give all locals a value."""
        if self.W > 1:
            left = self.new(f"sub i64 {last}, {self.base}")
            few = self.new(f"icmp slt i64 {left}, {self.W}")
            self.rows_here = self.new(f"select i1 {few}, i64 {left}, i64 {self.W}")
            wide = self.splat(self.rows_here, "i64")
            tail = self.new(f"icmp slt <{self.W} x i64> {self.lane_numbers()}, {wide}")
            self.put(f"store <{self.W} x i1> {tail}, ptr %tail, align 64")
            self.stage()
            if self.row_values():
                self.copy_row_values(few)
        else:
            self.rows_here = "1"
            if self.rows.column:
                self.find_row()
            else:
                step = self.new(f"mul i64 {self.base}, {self.slot('row_step')}")
                self.here = self.new(f"getelementptr i8, ptr {self.slot('rows')}, i64 {step}")
        for name, kind in self.variables().items():
            self.put(
                f"store {self.storage(name, kind)} zeroinitializer, ptr %{quote(name)}, align 64"
                if name in self.varying
                else f"store {self.llvm(kind, False)} {self.constant(0, kind)}, ptr %{quote(name)}"
            )
        for name, array in self.program.arrays.items():
            total = self.product(array.dims)
            count = self.new(f"mul i64 {total}, {self.W * self.item_bytes(array.type)}")
            self.need("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            self.put(
                f"call void @llvm.memset.p0.i64(ptr align 64 {self.slot(f'array {name}')}, "
                f"i8 0, i64 {count}, i1 false)"
            )

    def stage(self) -> None:
        """Transpose the block: column f of it is the vector of W numbers from W f.

        Value by value: squares transposed in registers gained 5 % for some programs and lost 20 % for others.
        """
        width = self.slot(f"size {self.program.width}")
        rows, step, across = (self.slot(each) for each in ("rows", "row_step", "column_step"))
        with self.counted("0", self.rows_here) as lane:
            row = self.new(f"add nsw i64 {self.base}, {lane}")
            from_ = self.new(f"mul nsw i64 {row}, {step}")
            start = self.new(f"getelementptr i8, ptr {rows}, i64 {from_}")
            with self.counted("0", width) as column:
                off = self.new(f"mul nsw i64 {column}, {across}")
                at = self.new(f"getelementptr i8, ptr {start}, i64 {off}")
                value = self.loaded_item(at)
                flat = self.new(f"mul nsw i64 {column}, {self.W}")
                to = self.new(f"add nsw i64 {flat}, {lane}")
                there = self.new(f"getelementptr {self.real}, ptr {self.slot('staged')}, i64 {to}")
                self.put(f"store {self.real} {value}, ptr {there}")

    def copy_row_values(self, few: str) -> None:
        """Copy the row values of a block; of the last one, which may be short, number by number.

        A masked load would do it at once, but LLVM 22 may load whole vectors then: it folds the load into an
        operation with the same mask, and takes it out again without the mask.
        """
        whole, some, done = self.label("whole"), self.label("some"), self.label("done")
        places = [
            (self.memory(a.type), f"%{quote(f'row.{a.name}')}", self.slot(f"argument {a.name}"))
            for a in self.row_values()
        ]
        self.put(f"br i1 {few}, label %{some}, label %{whole}")
        self.place(whole)
        for kind, to, base in places:
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {self.base}")
            value = self.new(f"load <{self.W} x {kind}>, ptr {at}, align 1")
            self.put(f"store <{self.W} x {kind}> {value}, ptr {to}, align 64")
        self.put(f"br label %{done}")
        self.place(some)
        with self.counted("0", self.rows_here) as lane:
            row = self.new(f"add nsw i64 {self.base}, {lane}")
            for kind, to, base in places:
                at = self.new(f"getelementptr {kind}, ptr {base}, i64 {row}")
                there = self.new(f"getelementptr {kind}, ptr {to}, i64 {lane}")
                self.put(f"store {kind} {self.new(f'load {kind}, ptr {at}, align 1')}, ptr {there}")
        self.put(f"br label %{done}")
        self.place(done)

    def loaded_item(self, at: str) -> str:
        """Load a stored value and convert it to the type of real numbers."""
        return self.as_real(self.new(f"load {self.rows.item}, ptr {at}, align 1"))

    def find_row(self) -> None:
        """Find where a sparse row begins and ends."""
        starts = self.slot("starts")
        at = self.new(f"getelementptr i64, ptr {starts}, i64 {self.base}")
        self.row_first = self.new(f"load i64, ptr {at}")
        after = self.new(f"getelementptr i64, ptr {at}, i64 1")
        self.row_last = self.new(f"load i64, ptr {after}")

    def product(self, dims: tuple[Size, ...]) -> str:
        found = "1"
        for size in dims:
            text = self.size(size)
            found = text if found == "1" else self.new(f"mul i64 {found}, {text}")
        return found

    def store_outputs(self) -> None:
        """Write the results that are one value per row."""
        for result in self.program.results():
            if result.role != "output":
                continue
            value = self.read_var(result.name, result.type)
            if value.type == "bool":
                value = Val(
                    self.new(f"zext {self.of(value)} {value.text} to {self.bytes_of(value)}"), "", True
                )
            kind = {"bool": "i8", "int": "i64", "real": self.real}[result.type]
            to = self.new(
                f"getelementptr {kind}, ptr {self.slot(f'argument {result.name}')}, i64 {self.base}"
            )
            if self.W == 1:
                self.put(f"store {kind} {value.text}, ptr {to}, align 1")
                continue
            vector = f"<{self.W} x {kind}>"
            name = f"llvm.masked.store.v{self.W}{short(kind)}.p0"
            self.need(f"declare void @{name}({vector}, ptr, i32 immarg, <{self.W} x i1>)")
            tail = self.new(f"load <{self.W} x i1>, ptr %tail, align 8")
            self.put(f"call void @{name}({vector} {value.text}, ptr {to}, i32 1, <{self.W} x i1> {tail})")

    def bytes_of(self, value: Val) -> str:
        return f"<{self.W} x i8>" if value.wide else "i8"

    def flush(self) -> None:
        """Combine the lanes of results that are one number."""
        for result in self.lane_results():
            kind = self.accumulated(result)
            value = self.new(f"load <{self.W} x {kind}>, ptr %{quote(f'lanes.{result.name}')}, align 64")
            one = self.over_lanes(result.role, value, kind)
            self.update(result.role, self.slot(f"argument {result.name}"), one, kind)

    # --- combining

    def over_lanes(self, op: str, value: str, kind: str) -> str:
        """Combine the lanes of a vector by halves."""
        width = self.W
        while width > 1:
            half = width // 2
            low, high = (
                self.new(
                    f"shufflevector <{width} x {kind}> {value}, <{width} x {kind}> poison, <{half} x i32> <"
                    + ", ".join(f"i32 {lane}" for lane in range(first, first + half))
                    + ">"
                )
                for first in (0, half)
            )
            value = self.merged(op, low, high, f"<{half} x {kind}>", f"<{half} x i1>", kind == "double")
            width = half
        return self.new(f"extractelement <1 x {kind}> {value}, i64 0")

    def merged(self, op: str, a: str, b: str, kind: str, bits: str, real: bool) -> str:
        """Combine two values."""
        if op == "sum":
            return self.new(f"{'fadd' if real else 'add'} {kind} {a}, {b}")
        if op in ("or", "and"):
            return self.new(f"{op} {kind} {a}, {b}")
        less = op in ("min", "argmin")
        sign = ("fcmp o" if real else "icmp s") + ("lt" if less else "gt")
        test = self.new(f"{sign} {kind} {b}, {a}")
        return self.new(f"select {bits} {test}, {kind} {b}, {kind} {a}")

    def update(self, op: str, at: str, value: str, kind: str) -> None:
        """Combine a number into memory."""
        old = self.new(f"load {kind}, ptr {at}")
        self.put(f"store {kind} {self.merged(op, old, value, kind, 'i1', kind == 'double')}, ptr {at}")

    def as_accumulated(self, value: Val, result: Argument) -> tuple[str, str]:
        """Convert a value to the type in which a result is kept: return text and type."""
        kind = self.accumulated(result)
        vector = f"<{self.W} x {kind}>" if value.wide else kind
        if value.type == "real":
            text = value.text
            if self.real == "float":
                text = self.new(f"fpext {self.of(value)} {value.text} to {vector}")
            return text, kind
        if kind == "double":
            op = "uitofp" if value.type == "bool" else "sitofp"
            return self.new(f"{op} {self.of(value)} {value.text} to {vector}"), kind
        if value.type == "bool":
            return self.new(f"zext {self.of(value)} {value.text} to {vector}"), kind
        return value.text, kind

    def combine(self, node: Combine) -> None:
        result = self.program.arguments[node.array]
        index = [self.expr(each) for each in node.index]
        value = self.expr(node.value)
        others = [(name, self.expr(each)) for name, each in node.others]
        index = self.check_all(index, node.index, result.dims, result.name, node.line)
        if self.W == 1:
            self.combine_plain(node, result, index, value, others)
        elif others:
            self.combine_extremum(node, result, index, self.widen(value), others)
        elif not result.dims:
            self.combine_lanes(result, self.widen(value))
        else:
            self.combine_element(result, index, self.widen(value))

    def combine_plain(
        self,
        node: Combine,
        result: Argument,
        index: list[Val],
        value: Val,
        others: list[tuple[str, Val]],
    ) -> None:
        text, kind = self.as_accumulated(value, result)
        flat = self.flat(index, result.dims).text
        at = self.new(f"getelementptr {kind}, ptr {self.slot(f'argument {result.name}')}, i64 {flat}")
        if not others:
            self.update(node.op, at, text, kind)
            return
        old = self.new(f"load {kind}, ptr {at}")
        with self.branch(self.better(node.op, text, old, kind)):
            self.put(f"store {kind} {text}, ptr {at}")
            self.store_others(others, flat, None)
            row = self.new(f"add nsw i64 {self.slot('number')}, {self.base}")
            self.put(f"store i64 {row}, ptr {self.row_of_best(result, flat)}")

    def better(self, op: str, new: str, old: str, kind: str) -> str:
        sign = "lt" if op in ("min", "argmin") else "gt"
        return self.new(f"{'fcmp o' if kind == 'double' else 'icmp s'}{sign} {kind} {new}, {old}")

    def row_of_best(self, result: Argument, flat: str) -> str:
        """Return where the row of an extremum is kept."""
        return self.new(f"getelementptr i64, ptr {self.slot(f'rows {result.name}')}, i64 {flat}")

    def take_extremum(
        self,
        op: str,
        result: Argument,
        flat: str,
        value: str,
        kind: str,
        lane: str,
        others: list[tuple[str, Val]],
    ) -> None:
        """Keep the value of a lane if it is better, or equal and of an earlier row.

        Lanes run side by side, so an earlier row may come later, if several statements combine.
        """
        at = self.new(f"getelementptr {kind}, ptr {self.slot(f'argument {result.name}')}, i64 {flat}")
        rows = self.row_of_best(result, flat)
        old = self.new(f"load {kind}, ptr {at}")
        first = self.new(f"add nsw i64 {self.slot('number')}, {self.base}")
        row = self.new(f"add nsw i64 {first}, {lane}")
        before = self.new(f"load i64, ptr {rows}")
        earlier = self.new(f"icmp slt i64 {row}, {before}")
        equal = self.new(f"{'fcmp oeq' if kind == 'double' else 'icmp eq'} {kind} {value}, {old}")
        some = self.new(f"icmp ne i64 {before}, {NO_ROW}")
        tie = self.new(f"and i1 {self.new(f'and i1 {earlier}, {some}')}, {equal}")
        with self.branch(self.new(f"or i1 {self.better(op, value, old, kind)}, {tie}")):
            self.put(f"store {kind} {value}, ptr {at}")
            self.store_others(others, flat, lane)
            self.put(f"store i64 {row}, ptr {rows}")

    def store_others(self, others: list[tuple[str, Val]], flat: str, lane: str | None) -> None:
        """Set the results that go with an extremum; of one lane if there are lanes."""
        for name, value in others:
            argument = self.program.arguments[name]
            text, kind = self.as_accumulated(value, argument)
            if value.wide:
                assert lane is not None
                text = self.new(f"extractelement <{self.W} x {kind}> {text}, i64 {lane}")
            at = self.new(f"getelementptr {kind}, ptr {self.slot(f'argument {name}')}, i64 {flat}")
            self.put(f"store {kind} {text}, ptr {at}")

    def neutralised(self, result: Argument, text: str, kind: str) -> str:
        """Replace the values of lanes that take no part, and NaN, which is neither least nor greatest."""
        mask = self.effect_mask()
        vector = f"<{self.W} x {kind}>"
        if kind == "double" and result.role != "sum":
            number = self.new(f"fcmp ord {vector} {text}, {text}")
            mask = self.new(f"and <{self.W} x i1> {mask}, {number}")
        return self.new(
            f"select <{self.W} x i1> {mask}, {vector} {text}, {vector} splat ({kind} {neutral(result, kind)})"
        )

    def combine_lanes(self, result: Argument, value: Val) -> None:
        text, kind = self.as_accumulated(value, result)
        text = self.neutralised(result, text, kind)
        at = f"%{quote(f'lanes.{result.name}')}"
        vector = f"<{self.W} x {kind}>"
        old = self.new(f"load {vector}, ptr {at}, align 64")
        new = self.merged(result.role, old, text, vector, f"<{self.W} x i1>", kind == "double")
        self.put(f"store {vector} {new}, ptr {at}, align 64")

    def combine_element(self, result: Argument, index: list[Val], value: Val) -> None:
        text, kind = self.as_accumulated(value, result)
        text = self.neutralised(result, text, kind)
        flat = self.flat(index, result.dims)
        base = self.slot(f"argument {result.name}")
        if not flat.wide:
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {flat.text}")
            self.update(result.role, at, self.over_lanes(result.role, text, kind), kind)
            return
        numbers = self.held_lanes(self.safe_index(flat).text, "i64")
        values = self.held_lanes(text, kind)
        # Lanes that take no part have a value that changes nothing, and the index 0.
        with self.counted("0", str(self.W)) as lane:
            where = self.lane_of(numbers, "i64", lane)
            what = self.lane_of(values, kind, lane)
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {where}")
            self.update(result.role, at, what, kind)

    def combine_extremum(
        self,
        node: Combine,
        result: Argument,
        index: list[Val],
        value: Val,
        others: list[tuple[str, Val]],
    ) -> None:
        text, kind = self.as_accumulated(value, result)
        text = self.neutralised(result, text, kind)
        flat = self.flat(index, result.dims)
        vector = f"<{self.W} x {kind}>"
        if flat.wide:
            numbers = self.held_lanes(self.safe_index(flat).text, "i64")
            values = self.held_lanes(text, kind)
            with self.counted("0", self.rows_here) as lane:
                where = self.lane_of(numbers, "i64", lane)
                what = self.lane_of(values, kind, lane)
                self.take_extremum(node.op, result, where, what, kind, lane, others)
            return
        best = self.over_lanes(node.op, text, kind)
        at = self.new(f"getelementptr {kind}, ptr {self.slot(f'argument {result.name}')}, i64 {flat.text}")
        old = self.new(f"load {kind}, ptr {at}")
        worse = self.better(node.op, old, best, kind)
        with self.branch(self.new(f"xor i1 {worse}, true")):
            sign = "fcmp oeq" if kind == "double" else "icmp eq"
            equal = self.new(f"{sign} {vector} {text}, {self.splat(best, kind)}")
            self.take_extremum(node.op, result, flat.text, best, kind, self.first_lane(equal), others)

    def first_lane(self, mask: str) -> str:
        """Return the number of the first lane of a mask that has one."""
        bits = self.new(f"bitcast <{self.W} x i1> {mask} to i{self.W}")
        self.need(f"declare i{self.W} @llvm.cttz.i{self.W}(i{self.W}, i1 immarg)")
        found = self.new(f"call i{self.W} @llvm.cttz.i{self.W}(i{self.W} {bits}, i1 false)")
        if self.W == 64:
            return found
        return self.new(f"{'zext' if self.W < 64 else 'trunc'} i{self.W} {found} to i64")

    # --- indices

    def flat(self, index: list[Val], dims: tuple[Size, ...]) -> Val:
        """Return the place of an element in an array that is stored by rows."""
        if not index:
            return Val("0", "int", False)
        found = index[0]
        for size, each in zip(dims[1:], index[1:], strict=True):
            found = self.arithmetic(
                "add", self.arithmetic("mul", found, Val(self.size(size), "int", False)), each
            )
        return found

    def arithmetic(self, op: str, a: Val, b: Val) -> Val:
        (a, b), wide = self.both(a, b)
        return Val(self.new(f"{op} nsw {self.llvm('int', wide)} {a.text}, {b.text}"), "int", wide)

    def check_all(
        self, index: list[Val], exprs: tuple[Expr, ...], dims: tuple[Size, ...], what: str, line: int
    ) -> list[Val]:
        return [
            self.check(each, expr, size, Site(line, OUTSIDE, what, size))
            for each, expr, size in zip(index, exprs, dims, strict=True)
        ]

    def check(self, index: Val, expr: Expr, size: Size, site: Site) -> Val:
        if self.bounds.inside(expr, size):
            return index
        kind = self.of(index)
        limit = self.size(size)
        if index.text.isdecimal() and limit.isdecimal() and int(index.text) < int(limit):
            return index  # of rows whose width is a constant of the code
        if index.wide:
            limit = self.splat(limit, "i64")
        # Below 0 is above all sizes for numbers without a sign.
        bad = self.new(f"icmp uge {kind} {index.text}, {limit}")
        self.leave_if(bad, index, site)
        if index.wide or (self.mask is None and not self.guards):
            return index
        return Val(self.new(f"select i1 {bad}, i64 0, i64 {index.text}"), "int", False)

    def leave_if(self, bad: str, index: Val, site: Site) -> None:
        row = self.base
        if self.W > 1:
            bad = bad if index.wide else self.splat(bad, "i1")
            bad = self.new(f"and <{self.W} x i1> {bad}, {self.effect_mask()}")
            lane = None
            test = self.any_lane(bad)
        else:
            test = bad
            for guard in self.guards:
                test = self.new(f"and i1 {test}, {guard}")
        with self.branch(test):
            number = index.text
            if self.W > 1:
                lane = self.first_lane(bad)
                row = self.new(f"add i64 {self.base}, {lane}")
                if index.wide:
                    number = self.new(f"extractelement <{self.W} x i64> {index.text}, i64 {lane}")
            error = self.slot("error")
            for place, text in enumerate((str(self.layout.site(site) + 1), row, number)):
                at = self.new(f"getelementptr i64, ptr {error}, i64 {place}")
                self.put(f"store i64 {text}, ptr {at}")
            self.put("ret void")
            self.place(self.label("never"))

    # --- statements

    def block(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            match statement:
                case Set(name, value):
                    self.set(name, self.expr(value))
                case SetItem():
                    self.set_item(statement)
                case Combine():
                    self.combine(statement)
                case For():
                    self.loop(statement)
                case ForStored():
                    self.stored_loop(statement)
                case If():
                    self.condition(statement)

    def set(self, name: str, value: Val) -> None:
        at = f"%{quote(name)}"
        if name not in self.varying:
            self.put(f"store {self.of(value)} {value.text}, ptr {at}")
            return
        value = self.widen(value)
        kind = self.storage(name, value.type)
        text = value.text
        if kind.endswith("x i32>"):
            text = self.new(f"trunc {self.of(value)} {text} to {kind}")
        if self.mask is not None:
            old = self.new(f"load {kind}, ptr {at}, align 64")
            text = self.new(f"select <{self.W} x i1> {self.mask}, {kind} {text}, {kind} {old}")
        self.put(f"store {kind} {text}, ptr {at}, align 64")

    def read_var(self, name: str, kind: str) -> Val:
        wide = name in self.varying
        stored = self.storage(name, kind)
        text = self.new(f"load {stored}, ptr %{quote(name)}" + (", align 64" if wide else ""))
        if stored.endswith("x i32>"):
            text = self.new(f"sext {stored} {text} to <{self.W} x i64>")
        return Val(text, kind, wide)

    def set_item(self, node: SetItem) -> None:
        array = self.program.arrays[node.array]
        index = [self.expr(each) for each in node.index]
        value = self.widen(self.expr(node.value))
        index = self.check_all(index, node.index, array.dims, node.array, node.line)
        flat = self.flat(index, array.dims)
        base, kind = self.slot(f"array {node.array}"), self.memory(array.type)
        text = value.text
        if array.type == "bool":
            text = self.new(f"zext {self.of(value)} {text} to {self.bytes_of(value)}")
        if self.W == 1:
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {flat.text}")
            self.put(f"store {kind} {text}, ptr {at}")
            return
        vector = f"<{self.W} x {kind}>"
        if not flat.wide:
            at = self.new(f"getelementptr {vector}, ptr {base}, i64 {flat.text}")
            if self.mask is not None:
                old = self.new(f"load {vector}, ptr {at}, align {self.item_bytes(array.type)}")
                text = self.new(f"select <{self.W} x i1> {self.mask}, {vector} {text}, {vector} {old}")
            self.put(f"store {vector} {text}, ptr {at}, align {self.item_bytes(array.type)}")
            return
        where = self.lane_places(flat, base, kind)
        name = f"llvm.masked.scatter.v{self.W}{short(kind)}.v{self.W}p0"
        self.need(f"declare void @{name}({vector}, <{self.W} x ptr>, i32 immarg, <{self.W} x i1>)")
        self.put(
            f"call void @{name}({vector} {text}, <{self.W} x ptr> {where}, "
            f"i32 {self.item_bytes(array.type)}, <{self.W} x i1> {self.effect_mask()})"
        )

    def memory(self, kind: str) -> str:
        """Return the LLVM type of an element of a local array."""
        return {"bool": "i8", "int": "i64", "real": self.real}[kind]

    def lane_places(self, flat: Val, base: str, kind: str) -> str:
        """Return the addresses of an element of each lane's own array."""
        flat = self.safe_index(flat)
        step = self.new(f"mul nsw <{self.W} x i64> {flat.text}, splat (i64 {self.W})")
        place = self.new(f"add nsw <{self.W} x i64> {step}, {self.lane_numbers()}")
        return self.new(f"getelementptr {kind}, ptr {base}, <{self.W} x i64> {place}")

    def loop(self, node: For) -> None:
        turned = TurnedLoop(self, node)
        if self.W > 1 and turned.pays():
            turned.print()
            return
        start, stop = self.expr(node.start), self.expr(node.stop)
        at = f"%{quote(node.name)}"
        if node.name not in self.varying:
            near = self.bounds.counts_near(node)
            with self.counted(start.text, stop.text, node.step, near=near) as now:
                if node.name in self.looking:
                    self.look()
                self.put(f"store i64 {now}, ptr {at}")
                self.block(node.body)
            return
        # Lanes that have reached their end wait for the others, while their counters go on.
        (start, stop), _ = (self.widen(start), self.widen(stop)), True
        count = self.alloca(self.label("counts"), f"<{self.W} x i64>")
        vector = f"<{self.W} x i64>"
        self.put(f"store {vector} {start.text}, ptr {count}, align 64")
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        self.put(f"br label %{head}")
        self.place(head)
        now = self.new(f"load {vector}, ptr {count}, align 64")
        active = self.new(f"icmp {'slt' if node.step > 0 else 'sgt'} {vector} {now}, {stop.text}")
        active = self.new(f"and <{self.W} x i1> {active}, {self.effect_mask()}")
        self.put(f"br i1 {self.any_lane(active)}, label %{body}, label %{done}")
        self.place(body)
        if node.name in self.looking:
            self.look()
        outer, self.mask = self.mask, active
        self.set(node.name, Val(now, "int", True))
        self.block(node.body)
        self.mask = outer
        after = self.next_count(now, node.step, self.bounds.counts_near(node), vector)
        self.put(f"store {vector} {after}, ptr {count}, align 64")
        self.put(f"br label %{head}")
        self.place(done)

    def stored_loop(self, node: ForStored) -> None:
        with self.counted(self.row_first, self.row_last) as place:
            if node.index in self.looking:
                self.look()
            kind = self.rows.column
            at = self.new(f"getelementptr {kind}, ptr {self.slot('columns')}, i64 {place}")
            column = self.new(f"load {kind}, ptr {at}")
            if kind != "i64":
                column = self.new(f"sext {kind} {column} to i64")
            self.put(f"store i64 {column}, ptr %{quote(node.index)}")
            if self.rows.item:
                at = self.new(f"getelementptr {self.rows.item}, ptr {self.slot('values')}, i64 {place}")
                value = self.loaded_item(at)
            else:
                value = real_text(1.0, self.real)
            self.put(f"store {self.real} {value}, ptr %{quote(node.value)}")
            self.block(node.body)

    def condition(self, node: If) -> None:
        test = self.expr(node.test)
        if not test.wide:
            self.plain_condition(node, test.text)
            return
        simple = all(isinstance(s, Set) for s in statements((*node.body, *node.orelse)))
        for body, wanted in ((node.body, True), (node.orelse, False)):
            if not body:
                continue
            mask = test.text
            if not wanted:
                mask = self.new(f"xor <{self.W} x i1> {mask}, splat (i1 true)")
            with self.masked(mask):
                if simple:
                    self.block(body)
                    continue
                with self.branch(self.any_lane(self.effect_mask() or mask)):
                    self.block(body)

    def plain_condition(self, node: If, test: str) -> None:
        yes, no, end = self.label("yes"), self.label("no"), self.label("end")
        self.put(f"br i1 {test}, label %{yes}, label %{no}")
        self.place(yes)
        self.block(node.body)
        self.put(f"br label %{end}")
        self.place(no)
        self.block(node.orelse)
        self.put(f"br label %{end}")
        self.place(end)

    # --- expressions

    def expr(self, node: Expr) -> Val:
        match node:
            case Const(value, kind):
                return Val(self.constant(value, kind), kind, False)
            case Var(name, kind):
                return self.read_var(name, kind)
            case Value(name, kind):
                return self.argument(name, kind)
            case SizeOf(size):
                return Val(self.size(size), "int", False)
            case RowNumber():
                return self.row_number()
            case RowItem(index, line):
                return self.row_item(index, line)
            case Load(array, index, kind, line):
                return self.load(array, index, kind, line)
            case Apply():
                return self.apply(node)

    def row_number(self) -> Val:
        first = self.new(f"add nsw i64 {self.slot('number')}, {self.base}")
        if self.W == 1:
            return Val(first, "int", False)
        wide = self.splat(first, "i64")
        return Val(self.new(f"add nsw <{self.W} x i64> {wide}, {self.lane_numbers()}"), "int", True)

    def argument(self, name: str, kind: str) -> Val:
        base = self.slot(f"argument {name}")
        memory = self.memory(kind)
        if self.program.arguments[name].role != "row value":
            return self.loaded(base, memory, kind)
        if self.W == 1:
            at = self.new(f"getelementptr {memory}, ptr {base}, i64 {self.base}")
            return self.loaded(at, memory, kind)
        text = self.new(f"load <{self.W} x {memory}>, ptr %{quote(f'row.{name}')}, align 64")
        return self.from_memory(text, memory, kind, True)

    def loaded(self, at: str, memory: str, kind: str) -> Val:
        return self.from_memory(self.new(f"load {memory}, ptr {at}, align 1"), memory, kind, False)

    def from_memory(self, text: str, memory: str, kind: str, wide: bool) -> Val:
        if kind == "bool":
            of = f"<{self.W} x i8>" if wide else "i8"
            text = self.new(f"trunc {of} {text} to {self.llvm('bool', wide)}")
        return Val(text, kind, wide)

    def row_item(self, index: Expr, line: int) -> Val:
        width = self.program.width
        at = self.check(self.expr(index), index, width, Site(line, OUTSIDE, "the row", width))
        if self.W == 1:
            off = self.new(f"mul nsw i64 {self.single_safe(at.text)}, {self.slot('column_step')}")
            there = self.new(f"getelementptr i8, ptr {self.here}, i64 {off}")
            return Val(self.loaded_item(there), "real", False)
        return self.lane_load(self.slot("staged"), at, self.real, "real")

    def lane_load(self, base: str, flat: Val, memory: str, kind: str) -> Val:
        """Load an element of each lane's own array."""
        vector = f"<{self.W} x {memory}>"
        bytes_ = self.item_bytes(kind)
        if not flat.wide:
            text = self.single_safe(flat.text)
            at = self.new(f"getelementptr {vector}, ptr {base}, i64 {text}")
            return self.from_memory(self.new(f"load {vector}, ptr {at}, align {bytes_}"), memory, kind, True)
        return self.gathered(self.lane_places(flat, base, memory), memory, kind)

    def gathered(self, where: str, memory: str, kind: str) -> Val:
        vector = f"<{self.W} x {memory}>"
        name = f"llvm.masked.gather.v{self.W}{short(memory)}.v{self.W}p0"
        self.need(f"declare {vector} @{name}(<{self.W} x ptr>, i32 immarg, <{self.W} x i1>, {vector})")
        text = self.new(
            f"call {vector} @{name}(<{self.W} x ptr> {where}, i32 {self.item_bytes(kind)}, "
            f"<{self.W} x i1> splat (i1 true), {vector} zeroinitializer)"
        )
        return self.from_memory(text, memory, kind, True)

    def load(self, array: str, index: tuple[Expr, ...], kind: str, line: int) -> Val:
        own = self.program.arrays.get(array)
        if own is not None:
            dims, base = own.dims, self.slot(f"array {array}")
        elif array.endswith(".squares"):
            name = array.removesuffix(".squares")
            dims, base = self.program.arguments[name].dims[:-1], self.slot(f"squares {name}")
        else:
            dims, base = self.program.arguments[array].dims, self.slot(f"argument {array}")
        values = [self.expr(each) for each in index]
        values = self.check_all(values, index, dims, array.removesuffix(".squares"), line)
        flat, memory = self.flat(values, dims), self.memory(kind)
        if own is not None and self.W > 1:
            return self.lane_load(base, flat, memory, kind)
        if not flat.wide:
            text = self.single_safe(flat.text)
            at = self.new(f"getelementptr {memory}, ptr {base}, i64 {text}")
            return self.loaded(at, memory, kind)
        flat = self.safe_index(flat)
        where = self.new(f"getelementptr {memory}, ptr {base}, <{self.W} x i64> {flat.text}")
        return self.gathered(where, memory, kind)

    def single_safe(self, text: str) -> str:
        """Replace an index that no row uses by 0, in code that computes both branches of a choice."""
        if not self.guards:
            return text
        test = self.guards[0]
        for each in self.guards[1:]:
            test = self.new(f"and i1 {test}, {each}")
        return self.new(f"select i1 {test}, i64 {text}, i64 0")

    guards: tuple[str, ...] = ()
    """Conditions, the same for all lanes, under which a value is used that is computed in any case."""

    @contextmanager
    def used_if(self, test: Val, wanted: bool = True) -> Iterator[None]:
        """Compute a value that counts only if a condition holds: its indices are not checked otherwise."""
        kind = self.of(test)
        text = test.text
        if not wanted:
            text = self.new(f"xor {kind} {text}, {'splat (i1 true)' if test.wide else 'true'}")
        if test.wide:
            with self.masked(text):
                yield
            return
        outer_mask, outer = self.mask, self.guards
        self.guards = (*outer, text)
        if self.W > 1:
            with self.masked(self.splat(text, "i1")):
                yield
        else:
            yield
        self.guards, self.mask = outer, outer_mask

    def apply(self, node: Apply) -> Val:
        op, kind = node.op, node.type
        if op == "select":
            return self.choice(node)
        if op in ("and", "or"):
            a = self.expr(node.args[0])
            with self.used_if(a, op == "and"):
                b = self.expr(node.args[1])
            (a, b), wide = self.both(a, b)
            return Val(self.new(f"{op} {self.llvm('bool', wide)} {a.text}, {b.text}"), "bool", wide)
        args = [self.expr(each) for each in node.args]
        if op in ("bool", "int", "real") and len(args) == 1:
            return self.converted(args[0], op)
        values, wide = self.both(*args)
        a = values[0]
        of, real = self.of(a), a.type == "real"
        texts = [value.text for value in values]
        if op in COMPARE:
            sign = COMPARE[op][0 if real else 1]
            return Val(self.new(f"{'fcmp' if real else 'icmp'} {sign} {of} {', '.join(texts)}"), "bool", wide)
        match op:
            case "not":
                return Val(self.new(f"xor {of} {a.text}, {self.ones('bool', wide)}"), "bool", wide)
            case "isnan":
                return Val(self.new(f"fcmp uno {of} {a.text}, {a.text}"), "bool", wide)
            case "add" | "sub" | "mul":
                name = f"f{op} {self.flags}" if real else f"{op} "
                return Val(self.new(f"{name}{of} {', '.join(texts)}"), kind, wide)
            case "div":
                return Val(self.new(f"fdiv {of} {', '.join(texts)}"), kind, wide)
            case "neg":
                text = f"fneg {of} {a.text}" if real else f"sub {of} {self.zero('int', wide)}, {a.text}"
                return Val(self.new(text), kind, wide)
            case "abs":
                return self.absolute(a)
            case "min" | "max":
                return self.least(op, values[0], values[1])
            case "floordiv" | "mod":
                if real:
                    return self.real_division(op, values[0], values[1])
                return self.whole_division(op, values[0], values[1], node)
            case "bitand" | "bitor" | "bitxor":
                return Val(self.new(f"{op.removeprefix('bit')} {of} {', '.join(texts)}"), kind, wide)
            case "shl" | "shr":
                self.check(args[1], node.args[1], 64, Site(node.line, OUTSIDE, "a shift", 64))
                limited = self.new(f"and {of} {texts[1]}, {self.number(63, wide)}")
                return Val(
                    self.new(f"{'shl' if op == 'shl' else 'ashr'} {of} {texts[0]}, {limited}"), kind, wide
                )
        return self.function(op, values, wide)

    def number(self, value: int, wide: bool) -> str:
        return f"splat (i64 {value})" if wide else str(value)

    def zero(self, kind: str, wide: bool) -> str:
        return "zeroinitializer" if wide else self.constant(0, kind)

    def ones(self, kind: str, wide: bool) -> str:
        return f"splat ({self.scalar(kind)} {'true' if kind == 'bool' else '-1'})" if wide else "true"

    def selected(self, test: Val, a: Val, b: Val) -> Val:
        """Return a where the condition holds, else b."""
        (a, b), wide = self.both(a, b)
        if test.wide and not wide:
            a, b = self.widen(a), self.widen(b)
        of = self.of(a)
        return Val(
            self.new(f"select {self.of(test)} {test.text}, {of} {a.text}, {of} {b.text}"), a.type, a.wide
        )

    def choice(self, node: Apply) -> Val:
        test = self.expr(node.args[0])
        with self.used_if(test):
            a = self.expr(node.args[1])
        with self.used_if(test, False):
            b = self.expr(node.args[2])
        return self.selected(test, a, b)

    def least(self, op: str, a: Val, b: Val) -> Val:
        real = a.type == "real"
        sign = ("fcmp o" if real else "icmp s") + ("lt" if op == "min" else "gt")
        test = Val(self.new(f"{sign} {self.of(a)} {b.text}, {a.text}"), "bool", a.wide)
        return self.selected(test, b, a)

    def absolute(self, a: Val) -> Val:
        if a.type == "real":
            return self.intrinsic("fabs", [a])
        minus = Val(self.new(f"sub {self.of(a)} {self.zero('int', a.wide)}, {a.text}"), "int", a.wide)
        test = self.new(f"icmp slt {self.of(a)} {a.text}, {self.zero('int', a.wide)}")
        return self.selected(Val(test, "bool", a.wide), minus, a)

    def converted(self, a: Val, kind: str) -> Val:
        of, to = self.of(a), self.llvm(kind, a.wide)
        if a.type == kind:
            return a
        if kind == "real":
            op = "uitofp" if a.type == "bool" else "sitofp"
            return Val(self.new(f"{op} {of} {a.text} to {to}"), kind, a.wide)
        if a.type == "bool":
            return Val(self.new(f"zext {of} {a.text} to {to}"), kind, a.wide)
        # Too large numbers become the greatest whole number; NaN becomes the least, an index of nothing.
        suffix = f"v{self.W}i64.v{self.W}{short(self.real)}" if a.wide else f"i64.{short(self.real)}"
        self.need(f"declare {to} @llvm.fptosi.sat.{suffix}({of})")
        whole = Val(self.new(f"call {to} @llvm.fptosi.sat.{suffix}({of} {a.text})"), kind, a.wide)
        nan = Val(self.new(f"fcmp uno {of} {a.text}, {a.text}"), "bool", a.wide)
        return self.selected(nan, Val(self.number(LEAST_INT, a.wide), "int", a.wide), whole)

    def whole_division(self, op: str, a: Val, b: Val, node: Apply) -> Val:
        wide, of = a.wide, self.of(a)
        divisor = node.args[1]
        zero, one = self.number(0, wide), self.number(1, wide)
        if not (isinstance(divisor, Const) and divisor.value not in (0, -1)):
            bad = self.new(f"icmp eq {of} {b.text}, {zero}")
            self.leave_if(bad, b, Site(node.line, ZERO))
            # The hardware traps for 0, and for the least number divided by -1: neither may reach it.
            minus = self.new(f"icmp eq {of} {b.text}, {self.number(-1, wide)}")
            odd = self.new(f"or {self.llvm('bool', wide)} {bad}, {minus}")
            safe = self.selected(Val(odd, "bool", wide), Val(one, "int", wide), b)
        else:
            minus, safe = "", b
        quotient = self.new(f"sdiv {of} {a.text}, {safe.text}")
        back = self.new(f"mul {of} {quotient}, {safe.text}")
        rest = self.new(f"sub {of} {a.text}, {back}")
        some = self.new(f"icmp ne {of} {rest}, {zero}")
        signs = self.new(f"xor {of} {rest}, {safe.text}")
        differ = self.new(f"icmp slt {of} {signs}, {zero}")
        down = Val(self.new(f"and {self.llvm('bool', wide)} {some}, {differ}"), "bool", wide)
        if op == "mod":
            more = Val(self.new(f"add {of} {rest}, {safe.text}"), "int", wide)
            return self.selected(down, more, Val(rest, "int", wide))
        less = Val(self.new(f"sub {of} {quotient}, {one}"), "int", wide)
        found = self.selected(down, less, Val(quotient, "int", wide))
        if not minus:
            return found
        opposite = Val(self.new(f"sub {of} {zero}, {a.text}"), "int", wide)
        return self.selected(Val(minus, "bool", wide), opposite, found)

    def real_division(self, op: str, a: Val, b: Val) -> Val:
        """Divide and round down as Python and NumPy do, exactly where the quotient is a whole number."""
        wide, of = a.wide, self.of(a)
        zero = Val(self.splat_real(0.0, wide), "real", wide)
        rest = self.function("fmod", [a, b], wide)
        some = self.new(f"fcmp une {of} {rest.text}, {zero.text}")
        below = self.new(f"fcmp olt {of} {b.text}, {zero.text}")
        under = self.new(f"fcmp olt {of} {rest.text}, {zero.text}")
        bits = self.llvm("bool", wide)
        differ = self.new(f"xor {bits} {below}, {under}")
        down = Val(self.new(f"and {bits} {some}, {differ}"), "bool", wide)
        by_zero = Val(self.new(f"fcmp oeq {of} {b.text}, {zero.text}"), "bool", wide)
        more = Val(self.new(f"fadd {of} {rest.text}, {b.text}"), "real", wide)
        signed = self.intrinsic("copysign", [zero, b])
        mod = self.selected(down, more, self.selected(Val(some, "bool", wide), rest, signed))
        if op == "mod":
            return self.selected(by_zero, rest, mod)
        diff = self.new(f"fsub {of} {a.text}, {rest.text}")
        div = Val(self.new(f"fdiv {of} {diff}, {b.text}"), "real", wide)
        one = self.splat_real(1.0, wide)
        div = self.selected(down, Val(self.new(f"fsub {of} {div.text}, {one}"), "real", wide), div)
        low = self.intrinsic("floor", [div])
        gap = self.new(f"fsub {of} {div.text}, {low.text}")
        far = Val(self.new(f"fcmp ogt {of} {gap}, {self.splat_real(0.5, wide)}"), "bool", wide)
        low = self.selected(far, Val(self.new(f"fadd {of} {low.text}, {one}"), "real", wide), low)
        plain = Val(self.new(f"fdiv {of} {a.text}, {b.text}"), "real", wide)
        nothing = Val(self.new(f"fcmp oeq {of} {div.text}, {zero.text}"), "bool", wide)
        low = self.selected(nothing, self.intrinsic("copysign", [zero, plain]), low)
        return self.selected(by_zero, plain, low)

    def intrinsic(self, name: str, values: list[Val]) -> Val:
        a = values[0]
        of = self.of(a)
        suffix = f"v{self.W}{short(self.real)}" if a.wide else short(self.real)
        self.need(f"declare {of} @llvm.{name}.{suffix}({', '.join([of] * len(values))})")
        words = ", ".join(f"{of} {value.text}" for value in values)
        return Val(self.new(f"call {of} @llvm.{name}.{suffix}({words})"), "real", a.wide)

    def function(self, name: str, values: list[Val], wide: bool) -> Val:
        if name in INTRINSIC:
            return self.intrinsic(INTRINSIC[name], values)
        if wide and name in ("exp", "log"):
            math = VectorMath(self)
            text = math.exp(values[0].text) if name == "exp" else math.log(values[0].text)
            return Val(text, "real", True)
        real = self.real
        symbol = name + ("f" if real == "float" else "")
        self.need(f"declare {real} @{symbol}({', '.join([real] * len(values))}) nounwind memory(none)")
        if not wide:
            words = ", ".join(f"{real} {value.text}" for value in values)
            return Val(self.new(f"call {real} @{symbol}({words})"), "real", False)
        held = [self.held_lanes(value.text, real) for value in values]
        out = self.alloca(self.label("out"), f"<{self.W} x {real}>")
        with self.counted("0", str(self.W)) as lane:
            words = ", ".join(f"{real} {self.lane_of(each, real, lane)}" for each in held)
            one = self.new(f"call {real} @{symbol}({words})")
            at = self.new(f"getelementptr {real}, ptr {out}, i64 {lane}")
            self.put(f"store {real} {one}, ptr {at}")
        return Val(self.new(f"load <{self.W} x {real}>, ptr {out}, align 64"), "real", True)


def neutral(result: Argument, kind: str) -> str:
    """Return the value that changes nothing, in LLVM's text."""
    match result.role, kind:
        case "sum" | "or", "i64":
            return "0"
        case "sum", _:
            return real_text(0.0, "double")
        case "and", _:
            return "-1"
        case "min" | "argmin", "i64":
            return str(GREATEST_INT)
        case "min" | "argmin", _:
            return real_text(float("inf"), "double")
        case _, "i64":
            return str(LEAST_INT)
    return real_text(float("-inf"), "double")
