"""The printer of statements for the CPU, each loop as the schedule says."""

from __future__ import annotations

from bmrm.formulas.analysis.schedule import Uniform, VectorColumns
from bmrm.formulas.cpu.column_vectors import ColumnVectorLoop
from bmrm.formulas.cpu.combining import Combining
from bmrm.formulas.cpu.llvm_text import Val, quote, real_text, short
from bmrm.formulas.language.tree import Combine, For, ForStored, If, Set, SetItem, Statement, statements


class Statements(Combining):
    """Prints statements."""

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

    def loop(self, node: For) -> None:
        how = self.schedule.of(node)
        if isinstance(how, VectorColumns):
            ColumnVectorLoop(self, node).print()
        elif isinstance(how, Uniform):
            start, stop = self.expr(node.start), self.expr(node.stop)
            near = self.bounds.counts_near(node)
            with self.counted(start.text, stop.text, node.step, near=near) as now:
                if node.name in self.looking:
                    self.look()
                self.put(f"store i64 {now}, ptr %{quote(node.name)}")
                self.block(node.body)
        else:
            self.diverging_loop(node)

    def diverging_loop(self, node: For) -> None:
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
