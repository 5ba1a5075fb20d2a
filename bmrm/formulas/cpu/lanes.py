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
from bmrm.formulas.analysis.layout import ROOM, TableLayout
from bmrm.formulas.analysis.schedule import schedule_cpu
from bmrm.formulas.cpu.llvm_text import Val, quote, short
from bmrm.formulas.cpu.statements import LaneStatements, identity_text
from bmrm.formulas.language.combination import read_operator
from bmrm.formulas.language.operators import FunctionOperator, ReductionOperator
from bmrm.formulas.language.tree import Argument, For, ForStored, Local, Program, statements

NAME = "bmrm_rows"
"""Name of the compiled function."""


@dataclass(frozen=True)
class Code:
    """Text of a function, and what its caller must know.

    Attributes
    ----------
    text : str
    layout : TableLayout
    lanes : int
        Rows of a block.
    """

    text: str
    layout: TableLayout
    lanes: int


def print_lanes(
    program: Program,
    rows: Rows,
    real: str,
    lanes: int,
    vector: int,
    *,
    contract: bool = True,
    looking: AbstractSet[str] = frozenset(),
    counters: AbstractSet[str] = frozenset(),
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
        Counters of the loops that look in each iteration whether the pass is to end; the rows always do.
    counters : set of str, optional
        Shared results that lanes add to counters of 32 bits.
    """
    schedule = schedule_cpu(program, lanes, contiguous=rows.contiguous, counters=counters)
    return Printer(schedule, rows, real, lanes, vector, contract, looking).print()


class Printer(LaneStatements):
    """Prints a program."""

    def print(self) -> Code:
        self.prepare()
        last = self.slot("last")
        with self.counted(self.slot("first"), last, self.W) as base:
            self.base = base
            self.look()
            self.start_block(last)
            self.block(self.program.body)
            self.store_outputs()
            self.flush_full_counters()
        self.flush_counters()
        self.flush()
        self.put("ret void")
        text = [f"define void @{NAME}(ptr noalias %table) #0 {{", "entry:"]
        text += [*self.entry, "  br label %begin", "begin:", *self.lines, "}", ""]
        text += self.declarations()
        return Code("\n".join(text) + "\n", self.layout, self.W)

    def declarations(self) -> list[str]:
        """Return what follows the text of a function: what it calls, and its attributes."""
        return [*self.declared, *self.defined, 'attributes #0 = { nounwind "no-trapping-math"="true" }']

    # --- operators that are functions

    def merged(self, op: ReductionOperator, a: str, b: str, kind: str, bits: str, real: bool) -> str:
        if not isinstance(op, FunctionOperator):
            return super().merged(op, a, b, kind, bits, real)
        return self.new(f"call {kind} @{self.name_of(op)}({kind} {a}, {kind} {b})")

    def name_of(self, op: FunctionOperator) -> str:
        """Return the name of the function of an operator, which is defined after this one."""
        if op not in self.functions:
            self.functions[op] = f"operator.{len(self.functions)}"
            inner = operator_printer(op, bool(self.flags))
            self.defined += inner.print_operator(self.functions[op], op.type)
            self.declared |= inner.declared
        return self.functions[op]

    def print_operator(self, name: str, type_: str) -> list[str]:
        """Print a program of two parameters and a result as a function of two numbers."""
        kind, given = self.scalar(type_), []
        for argument in self.program.arguments.values():
            if argument.role == "parameter":
                given.append(f"{kind} %{quote('given ' + argument.name)}")
                at = self.slot_values[f"argument {argument.name}"] = self.alloca(quote(argument.name), kind)
                self.entry.append(f"  store {given[-1]}, ptr {at}")
        for local, of in self.variables().items():
            at = self.alloca(quote(local), self.scalar(of))
            self.put(f"store {self.scalar(of)} {self.constant(0, of)}, ptr {at}")
        self.block(self.program.body)
        (result,) = self.program.results()
        value = self.converted(self.read_var(result.name, result.type), type_)
        head = [f"define internal {kind} @{name}({', '.join(given)}) #0 {{", "entry:", *self.entry]
        return [*head, "  br label %begin", "begin:", *self.lines, f"  ret {kind} {value.text}", "}"]

    # --- the function

    def prepare(self) -> None:
        """Read the table, and make room for locals and for results that are one number."""
        for name, place in self.layout.slots.items():
            plain = name.split()[0] in ("first", "last", "number", "row_step", "column_step", "size", ROOM)
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
        if self.schedule.counters:
            self.entry.append(f"  store i64 0, ptr {self.alloca('counted', 'i64')}")
        for result in self.lane_results():
            kind = self.accumulated(result)
            at = self.alloca(quote(f"lanes.{result.name}"), f"<{self.W} x {kind}>")
            self.entry.append(
                f"  store <{self.W} x {kind}> splat ({identity_text(result, kind)}), ptr {at}, align 64"
            )

    def variables(self) -> dict[str, str]:
        found = self.program.own_numbers()
        for statement in statements(self.program.body):
            match statement:
                case For(name=name) | ForStored(index=name):
                    found[name] = "int"
        return found

    def lane_results(self) -> list[Argument]:
        """Return the results that each lane combines on its own until the end."""
        if self.W == 1:
            return []
        return [a for a in self.program.combined() if not a.dims and a.operator and not a.keeps_row]

    def row_values(self) -> list[Argument]:
        """Return the parameters with one number per row, which are copied for each block as vectors."""
        return [a for a in self.program.row_values() if not a.dims] if self.W > 1 else []

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
            if self.W > 1 or name not in self.program.arguments:
                self.start_array(name, array)
        for argument in self.program.row_values():
            if argument.dims and self.W > 1:
                with self.own_elements(argument.name) as (kind, there, here):
                    self.put(f"store {kind} {self.new(f'load {kind}, ptr {there}, align 1')}, ptr {here}")

    def start_array(self, name: str, array: Local) -> None:
        """Set all elements of an array of the row to what they are at first.

        A result of each row needs this only if it is kept in lanes: in memory it begins so.
        """
        total, (kind, bytes_) = self.product(array.dims), self.element(array)
        at = self.slot(f"array {name}")
        if array.initial == 0:
            count = self.new(f"mul i64 {total}, {self.W * bytes_}")
            self.need("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            self.put(f"call void @llvm.memset.p0.i64(ptr align 64 {at}, i8 0, i64 {count}, i1 false)")
            return
        vector = f"<{self.W} x {kind}>"
        with self.counted("0", total) as each:
            to = self.new(f"getelementptr {vector}, ptr {at}, i64 {each}")
            value = f"splat ({identity_text(self.program.arguments[name], kind)})"
            self.put(f"store {vector} {value}, ptr {to}, align {bytes_}")

    @contextmanager
    def own_elements(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Visit the elements that the rows of a block have of an argument.

        Their type is yielded, and where each is in the argument and in lanes.
        """
        array = self.program.own_arrays()[name]
        (kind, _), count = self.element(array), self.product(array.dims)
        with self.counted("0", self.rows_here) as lane:
            row = self.new(f"add nsw i64 {self.base}, {lane}")
            first = self.own_address(f"argument {name}", array.dims, kind, row)
            with self.counted("0", count) as each:
                flat = self.new(f"add nsw i64 {self.new(f'mul nsw i64 {each}, {self.W}')}, {lane}")
                here = self.new(f"getelementptr {kind}, ptr {self.slot(f'array {name}')}, i64 {flat}")
                yield kind, self.new(f"getelementptr {kind}, ptr {first}, i64 {each}"), here

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

    def find_row(self) -> None:
        """Find where a sparse row begins and ends."""
        starts = self.slot("starts")
        at = self.new(f"getelementptr i64, ptr {starts}, i64 {self.base}")
        self.row_first = self.new(f"load i64, ptr {at}")
        after = self.new(f"getelementptr i64, ptr {at}, i64 1")
        self.row_last = self.new(f"load i64, ptr {after}")

    def store_outputs(self) -> None:
        """Write the results of which each row has its own."""
        for result in self.program.outputs():
            if result.name in self.program.arrays:
                if self.W > 1:
                    with self.own_elements(result.name) as (kind, there, here):
                        self.put(f"store {kind} {self.new(f'load {kind}, ptr {here}')}, ptr {there}, align 1")
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

    def flush_full_counters(self) -> None:
        """Flush counters if they have no room for another block."""
        if not self.counting:
            return
        rows = self.new(f"add nsw i64 {self.new('load i64, ptr %counted')}, {self.W}")
        self.put(f"store i64 {rows}, ptr %counted")
        after = self.new(f"add nsw i64 {rows}, {self.W}")
        with self.branch(self.new(f"icmp sgt i64 {after}, {self.slot(ROOM)}")):
            self.flush_counters()
            self.put("store i64 0, ptr %counted")

    def flush_counters(self) -> None:
        """Add counters to their results, and set them to 0."""
        for name in self.counting:
            result = self.program.arguments[name]
            with self.counted("0", self.product(result.dims)) as each:
                at = self.new(f"getelementptr i32, ptr {self.slot(f'counters {name}')}, i64 {each}")
                to = self.new(f"getelementptr i64, ptr {self.slot(f'argument {name}')}, i64 {each}")
                value = self.new(f"sext i32 {self.new(f'load i32, ptr {at}')} to i64")
                self.put(f"store i32 0, ptr {at}")
                self.update(result.combined_by, to, value, "i64")

    def flush(self) -> None:
        """Combine the lanes of results that are one number."""
        for result in self.lane_results():
            kind = self.accumulated(result)
            value = self.new(f"load <{self.W} x {kind}>, ptr %{quote(f'lanes.{result.name}')}, align 64")
            one = self.over_lanes(result.combined_by, value, kind)
            self.update(result.combined_by, self.slot(f"argument {result.name}"), one, kind)


def operator_printer(op: FunctionOperator, contract: bool = True) -> Printer:
    """Return a printer of plain code in float64, for the function of an operator."""
    schedule = schedule_cpu(read_operator(op)[1], 1, contiguous=False)
    return Printer(schedule, Rows("double"), "double", 1, 1, contract, frozenset())
