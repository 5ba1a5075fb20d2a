"""The printer of statements for the CPU, each loop as the schedule says.

Results with a data-dependent index are updated lane by lane, in the order of the rows. Those with the same
index for all lanes are first combined over the lanes by halves. Results that are one number are combined lane
by lane over all blocks, and over the lanes at the end. So the order of every sum is fixed. Sums of whole
numbers have counters of 32 bits if they can: half as much is moved from lanes to memory, and without a mask.
"""

from __future__ import annotations

from bmrm.formulas.analysis.layout import NO_ROW
from bmrm.formulas.analysis.schedule import VectorColumns
from bmrm.formulas.cpu.column_vectors import ColumnVectorLoop
from bmrm.formulas.cpu.leaving import LaneLeaving
from bmrm.formulas.cpu.llvm_text import REAL_BITS, Val, quote, real_text, short
from bmrm.formulas.language.operators import FunctionOperator, ReductionOperator
from bmrm.formulas.language.tree import (
    Argument,
    Block,
    Combine,
    For,
    ForStored,
    If,
    Leave,
    Set,
    SetItem,
    Statement,
    While,
    statements,
)


class LaneStatements(LaneLeaving):
    """Prints statements."""

    def block(self, body: tuple[Statement, ...]) -> None:
        outer = self.mask
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
                case While():
                    self.while_loop(statement)
                case Block(name, inner):
                    with self.may_be_left(name) as on:
                        self.mask = self.still_on(on) if on else self.mask
                        self.block(inner)
                case Leave(target):
                    self.leave(target)
                case If():
                    self.condition(statement)
            self.without_those_gone(statement)
        self.mask = outer

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

    def set_item(self, node: SetItem) -> None:
        array = self.program.arrays[node.array]
        kind, bytes_ = self.element(array)
        index = [self.expr(each) for each in node.index]
        value = self.widen(self.expr(node.value))
        index = self.check_all(index, node.index, array.dims, node.array, node.line)
        flat = self.flat(index, array.dims)
        base = self.base_of(node.array, kind)
        text = value.text
        if array.type == "bool":
            text = self.new(f"zext {self.of(value)} {text} to {self.bytes_of(value)}")
        if node.op is not None:
            self.combine_own(node.op, self.program.arguments[node.array], base, flat, value)
            return
        if self.W == 1:
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {flat.text}")
            self.put(f"store {kind} {text}, ptr {at}")
            return
        vector = f"<{self.W} x {kind}>"
        if not flat.wide:
            at = self.new(f"getelementptr {vector}, ptr {base}, i64 {flat.text}")
            if self.mask is not None:
                old = self.new(f"load {vector}, ptr {at}, align {bytes_}")
                text = self.new(f"select <{self.W} x i1> {self.mask}, {vector} {text}, {vector} {old}")
            self.put(f"store {vector} {text}, ptr {at}, align {bytes_}")
            return
        where = self.lane_places(flat, base, kind)
        name = f"llvm.masked.scatter.v{self.W}{short(kind)}.v{self.W}p0"
        self.need(f"declare void @{name}({vector}, <{self.W} x ptr>, i32 immarg, <{self.W} x i1>)")
        self.put(
            f"call void @{name}({vector} {text}, <{self.W} x ptr> {where}, "
            f"i32 {bytes_}, <{self.W} x i1> {self.effect_mask()})"
        )

    def loop(self, node: For) -> None:
        how = self.schedule.of(node)
        if isinstance(how, VectorColumns):
            ColumnVectorLoop(self, node).print()
            return
        with self.may_be_left(node.name) as on:
            if node.name in self.varying:
                self.diverging_loop(node, on)
                return
            start, stop = self.expr(node.start), self.expr(node.stop)
            near = self.bounds.counts_near(node)
            with self.counted(start.text, stop.text, node.step, near=near, on=on) as now:
                if node.name in self.looking:
                    self.look()
                self.put(f"store i64 {now}, ptr %{quote(node.name)}")
                self.mask = self.still_on(on) if on else self.mask
                self.block(node.body)

    def diverging_loop(self, node: For, on: str) -> None:
        """Print a loop in which lanes that have reached their end wait for the others, and count on."""
        start, stop = (self.widen(each) for each in (self.expr(node.start), self.expr(node.stop)))
        count = self.alloca(self.label("counts"), f"<{self.W} x i64>")
        vector = f"<{self.W} x i64>"
        self.put(f"store {vector} {start.text}, ptr {count}, align 64")
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        self.put(f"br label %{head}")
        self.place(head)
        now = self.new(f"load {vector}, ptr {count}, align 64")
        active = self.new(f"icmp {'slt' if node.step > 0 else 'sgt'} {vector} {now}, {stop.text}")
        active = self.new(f"and <{self.W} x i1> {active}, {self.still_on(on) if on else self.effect_mask()}")
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

    def while_loop(self, node: While) -> None:
        """Print a loop that goes on as long as some lane has not left it, by its test or otherwise."""
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        kind = f"<{self.W} x i1>"
        with self.may_be_left(node.name) as on:
            self.put(f"br label %{head}")
            self.place(head)
            self.mask = self.still_on(on) if on else self.mask
            self.block(node.before)
            test = self.expr(node.test)
            go_on = test.text
            if on:
                active = self.new(f"and {kind} {self.mask}, {self.widen(test).text}")
                self.put(f"store {kind} {active}, ptr {on}, align 8")
                self.mask, go_on = active, self.any_lane(active)
            self.put(f"br i1 {go_on}, label %{body}, label %{done}")
            self.place(body)
            self.look()
            self.block(node.body)
            self.put(f"br label %{head}")
            self.place(done)

    def stored_loop(self, node: ForStored) -> None:
        with self.may_be_left(node.index), self.counted(self.row_first, self.row_last) as place:
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
        simple = all(isinstance(s, (Set, Leave)) for s in statements((*node.body, *node.orelse)))
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

    # --- combining

    def over_lanes(self, op: ReductionOperator, value: str, kind: str) -> str:
        """Combine the lanes of a vector by halves; by a function one after the other."""
        if isinstance(op, FunctionOperator):
            held, total = self.held_lanes(value, kind), self.alloca(self.label("total"), kind)
            self.put(f"store {kind} {self.lane_of(held, kind, '0')}, ptr {total}")
            with self.counted("1", str(self.W)) as lane:
                self.update(op, total, self.lane_of(held, kind, lane), kind)
            return self.new(f"load {kind}, ptr {total}")
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

    def update(self, op: ReductionOperator, at: str, value: str, kind: str) -> None:
        """Combine a number into memory."""
        old = self.new(f"load {kind}, ptr {at}")
        self.put(f"store {kind} {self.merged(op, old, value, kind, 'i1', kind in REAL_BITS)}, ptr {at}")

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
            self.combine_element(result, index, value)

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

    def better(self, op: ReductionOperator, new: str, old: str, kind: str) -> str:
        return self.new(f"{'fcmp o' if kind == 'double' else 'icmp s'}{op.order} {kind} {new}, {old}")

    def row_of_best(self, result: Argument, flat: str) -> str:
        """Return where the row of an extremum is kept."""
        return self.new(f"getelementptr i64, ptr {self.slot(f'rows {result.name}')}, i64 {flat}")

    def take_extremum(
        self,
        op: ReductionOperator,
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
        if kind in REAL_BITS and result.combined_by.order:
            number = self.new(f"fcmp ord {vector} {text}, {text}")
            mask = self.new(f"and <{self.W} x i1> {mask}, {number}")
        return self.new(
            f"select <{self.W} x i1> {mask}, {vector} {text}, {vector} splat ({identity_text(result, kind)})"
        )

    def combine_lanes(self, result: Argument, value: Val) -> None:
        text, kind = self.as_accumulated(value, result)
        text = self.neutralised(result, text, kind)
        self.update_lanes(result.combined_by, f"%{quote(f'lanes.{result.name}')}", text, kind)

    def update_lanes(self, op: ReductionOperator, at: str, text: str, kind: str, align: int = 64) -> None:
        """Combine a vector into memory, lane by lane."""
        vector = f"<{self.W} x {kind}>"
        if isinstance(op, FunctionOperator):
            values = self.held_lanes(text, kind)
            with self.counted("0", self.rows_here) as lane:
                to = self.new(f"getelementptr {kind}, ptr {at}, i64 {lane}")
                self.update(op, to, self.lane_of(values, kind, lane), kind)
            return
        old = self.new(f"load {vector}, ptr {at}, align {align}")
        new = self.merged(op, old, text, vector, f"<{self.W} x i1>", kind in REAL_BITS)
        self.put(f"store {vector} {new}, ptr {at}, align {align}")

    def combine_own(self, op: ReductionOperator, result: Argument, base: str, flat: Val, value: Val) -> None:
        """Combine the values of lanes into an element of a result of which each row has its own."""
        text, kind = (
            self.as_accumulated(value, result) if result.wide else (value.text, self.memory(value.type))
        )
        if self.W == 1:
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {flat.text}")
            self.update(op, at, text, kind)
            return
        text = self.neutralised(result, text, kind)
        if not flat.wide:
            at = self.new(f"getelementptr <{self.W} x {kind}>, ptr {base}, i64 {flat.text}")
            self.update_lanes(op, at, text, kind, self.element(self.program.arrays[result.name])[1])
            return
        places, values = self.held_lanes(self.safe_index(flat).text, "i64"), self.held_lanes(text, kind)
        with self.counted("0", str(self.W)) as lane:
            first = self.new(f"mul nsw i64 {self.lane_of(places, 'i64', lane)}, {self.W}")
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {self.new(f'add nsw i64 {first}, {lane}')}")
            self.update(op, at, self.lane_of(values, kind, lane), kind)

    def combine_element(self, result: Argument, index: list[Val], value: Val) -> None:
        flat = self.flat(index, result.dims)
        if flat.wide and result.name in self.schedule.counters:
            self.count_lanes(result, flat, value)
            return
        text, kind = self.as_accumulated(self.widen(value), result)
        text = self.neutralised(result, text, kind)
        base = self.slot(f"argument {result.name}")
        if not flat.wide:
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {flat.text}")
            self.update(result.combined_by, at, self.over_lanes(result.combined_by, text, kind), kind)
            return
        numbers = self.held_lanes(self.safe_index(flat).text, "i64")
        values = self.held_lanes(text, kind)
        # Lanes that take no part have a value that changes nothing, and the index 0.
        with self.counted("0", str(self.W)) as lane:
            where = self.lane_of(numbers, "i64", lane)
            what = self.lane_of(values, kind, lane)
            at = self.new(f"getelementptr {kind}, ptr {base}, i64 {where}")
            self.update(result.combined_by, at, what, kind)

    def count_lanes(self, result: Argument, flat: Val, value: Val) -> None:
        """Add the values of lanes to counters; lanes that take no part have one after the last."""
        self.counting[result.name] = None
        wide = f"<{self.W} x i64>"
        after = self.splat(self.product(result.dims), "i64")
        at = self.new(f"select <{self.W} x i1> {self.effect_mask()}, {wide} {flat.text}, {wide} {after}")
        places = self.held_lanes(self.new(f"trunc {wide} {at} to <{self.W} x i32>"), "i32")
        text, kind = self.as_accumulated(value, result)
        kind, narrow = (wide, f"<{self.W} x i32>") if value.wide else (kind, "i32")
        text = self.new(f"trunc {kind} {text} to {narrow}")
        values = self.held_lanes(text, "i32") if value.wide else ""
        with self.counted("0", str(self.W)) as lane:
            where = self.new(f"zext i32 {self.lane_of(places, 'i32', lane)} to i64")
            to = self.new(f"getelementptr i32, ptr {self.slot(f'counters {result.name}')}, i64 {where}")
            what = self.lane_of(values, "i32", lane) if values else text
            self.update(result.combined_by, to, what, "i32")

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


def identity_text(result: Argument, kind: str) -> str:
    """Return the value that changes nothing, in LLVM's text with its type."""
    value = result.identity
    return f"{kind} {real_text(float(value), kind) if kind in REAL_BITS else int(value)}"
