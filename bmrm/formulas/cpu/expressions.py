"""The printer of expressions for the CPU: a vector over the rows of a block, or a single number.

Indices are checked here. Both branches of a choice are computed; an index that only one of them uses is
checked, and safe, under its condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bmrm.formulas.analysis.layout import OUTSIDE, ZERO, Site
from bmrm.formulas.cpu.llvm_text import Val, Writer, quote, short
from bmrm.formulas.cpu.vector_math import VectorMath
from bmrm.formulas.language.function_table import FUNCTIONS
from bmrm.formulas.language.operators import GREATEST_INT, LEAST_INT, OPERATORS
from bmrm.formulas.language.tree import (
    Apply,
    Const,
    Expr,
    Load,
    RowItem,
    RowNumber,
    Size,
    SizeOf,
    Value,
    Var,
)

COMPARE = {
    "lt": ("olt", "slt"),
    "le": ("ole", "sle"),
    "gt": ("ogt", "sgt"),
    "ge": ("oge", "sge"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}


class LaneExpressions(Writer):
    """Prints expressions."""

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
            case RowNumber(of=of):
                return self.row_number(of)
            case RowItem(_, index, line):
                return self.row_item(index, line)
            case Load(array, index, kind, line):
                return self.load(array, index, kind, line)
            case Apply():
                return self.apply(node)

    def read_var(self, name: str, kind: str) -> Val:
        wide = name in self.varying
        stored = self.storage(name, kind)
        text = self.new(f"load {stored}, ptr %{quote(name)}" + (", align 64" if wide else ""))
        if stored.endswith("x i32>"):
            text = self.new(f"sext {stored} {text} to <{self.W} x i64>")
        return Val(text, kind, wide)

    def storage(self, name: str, kind: str) -> str:
        """Return the LLVM type in which a local is kept: integers take 32 bits if those suffice."""
        wide = name in self.varying
        if kind == "int" and wide and self.bounds.narrow(name):
            return f"<{self.W} x i32>"
        return self.llvm(kind, wide)

    def loaded_item(self, at: str) -> str:
        """Load a stored value and convert it to the type of real numbers."""
        return self.as_real(self.new(f"load {self.rows.item}, ptr {at}, align 1"))

    def row_number(self, of: str = "") -> Val:
        first = self.new(f"add nsw i64 {self.slot('number')}, {self.base}")
        if of == "end":
            first = self.new(f"add nsw i64 {first}, {self.W}")
        if self.W == 1 or of:
            return Val(first, "int", False)
        wide = self.splat(first, "i64")
        return Val(self.new(f"add nsw <{self.W} x i64> {wide}, {self.lane_numbers()}"), "int", True)

    def argument(self, name: str, kind: str) -> Val:
        base = self.slot(f"argument {name}")
        memory = self.memory(kind)
        if not self.program.arguments[name].axes:
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
        name, dims, memory = array.removesuffix(".squares"), self.program.dims_of(array), self.memory(kind)
        values = [self.expr(each) for each in index]
        values = self.check_all(values, index, dims, name, line)
        flat, base = self.flat(values, dims), self.base_of(array, memory)
        if self.W > 1 and array in self.program.own_arrays():
            return self.lane_load(base, flat, memory, kind)
        if not flat.wide:
            text = self.single_safe(flat.text)
            at = self.new(f"getelementptr {memory}, ptr {base}, i64 {text}")
            return self.loaded(at, memory, kind)
        flat = self.safe_index(flat)
        where = self.new(f"getelementptr {memory}, ptr {base}, <{self.W} x i64> {flat.text}")
        return self.gathered(where, memory, kind)

    def base_of(self, array: str, kind: str) -> str:
        """Return where an array begins; that of the row, or that of the rows of a block in lanes."""
        name = array.removesuffix(".squares")
        slot = f"squares {name}" if name != array else f"argument {name}"
        if name not in self.program.arguments or (self.W > 1 and array in self.program.own_arrays()):
            return self.slot(f"array {array}")
        if self.program.axes_of(array):
            return self.own_address(slot, self.program.dims_of(array), kind, self.base)
        return self.slot(slot)

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
                bits = self.llvm("bool", wide)
                return Val(self.merged(OPERATORS[op], texts[0], texts[1], of, bits, real), kind, wide)
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
        # Too large numbers become the greatest integer; NaN becomes the least, an index of nothing.
        # LLVM's intrinsic fptosi.sat does the same number by number.
        found = Val(self.new(f"fptosi {of} {a.text} to {to}"), kind, a.wide)
        for first, op, beyond in ((2.0**63, "oge", GREATEST_INT), (-(2.0**63), "ult", LEAST_INT)):
            bound = self.splat_real(first, a.wide)
            test = Val(self.new(f"fcmp {op} {of} {a.text}, {bound}"), "bool", a.wide)
            found = self.selected(test, Val(self.number(beyond, a.wide), "int", a.wide), found)
        return found

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
        """Divide and round down as Python and NumPy do, exactly where the quotient is an integer."""
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
        row = FUNCTIONS[name]
        if row.intrinsic:
            return self.intrinsic(row.intrinsic, values)
        texts = [value.text for value in values]
        if row.instruction:
            return Val(self.new(row.instruction.format(*texts, type=self.of(values[0]))), row.result, wide)
        if wide and row.vector:
            return Val(getattr(VectorMath(self), row.vector)(*texts), "real", True)
        real = self.real
        symbol = row.library + ("f" if real == "float" else "")
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

    def lane_places(self, flat: Val, base: str, kind: str) -> str:
        """Return the addresses of an element of each lane's own array."""
        flat = self.safe_index(flat)
        step = self.new(f"mul nsw <{self.W} x i64> {flat.text}, splat (i64 {self.W})")
        place = self.new(f"add nsw <{self.W} x i64> {step}, {self.lane_numbers()}")
        return self.new(f"getelementptr {kind}, ptr {base}, <{self.W} x i64> {place}")
