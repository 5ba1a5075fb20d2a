"""The printer of loops whose vectors have columns of one row, not rows: `loops.ColumnVectors` says which.

A sum into the row of a result that the data choose, ``for f in ...: sums[at, f] += w * x[f]``, has another
target in each lane. Lane by lane it would cost an update per number. But for one row the targets, the row
itself and rows of parameters are contiguous. So the rows of a block are visited one by one, and a vector
holds the columns f to f + V - 1. What does not depend on f is computed for all rows first, as vectors over
rows.
"""

from __future__ import annotations

from bmrm.formulas.analysis.loops import ColumnVectors
from bmrm.formulas.cpu.expressions import LaneExpressions
from bmrm.formulas.cpu.llvm_text import Val, short
from bmrm.formulas.language.operators import OPERATORS
from bmrm.formulas.language.tree import (
    Apply,
    Combine,
    Const,
    Expr,
    For,
    Load,
    RowItem,
    Set,
    Size,
    SizeOf,
    Var,
)


class ColumnVectorLoop:
    """Prints one loop.

    Parameters
    ----------
    printer : LaneExpressions
        Prints the statements around it.
    node : For
    """

    def __init__(self, printer: LaneExpressions, node: For) -> None:
        self.printer, self.node = printer, node
        self.vectors = ColumnVectors(node, printer.schedule.facts)
        self.held: dict[Expr, tuple[Val, str]] = {}

    def print(self) -> None:
        """Print the loop; what does not depend on its counter comes before it, if it has an iteration."""
        printer = self.printer
        start, stop = printer.expr(self.node.start), printer.expr(self.node.stop)
        with printer.branch(printer.new(f"icmp slt i64 {start.text}, {stop.text}")):
            self._rows(start.text, stop.text)

    def _rows(self, start: str, stop: str) -> None:
        """Print the loop for all rows of a block."""
        printer = self.printer
        for statement in self.node.body:
            assert isinstance(statement, (Set, Combine))
            self._hold_parts(statement.value)
            if isinstance(statement, Combine):
                self._hold_index(statement.array, statement.index, statement.line)
        mask = None
        if printer.mask is not None:
            bits = printer.new(f"zext <{printer.W} x i1> {printer.mask} to <{printer.W} x i8>")
            mask = printer.held_lanes(bits, "i8")
        with printer.counted("0", printer.rows_here) as lane:
            if mask is None:
                self._row(lane, start, stop)
            else:
                test = printer.new(f"icmp ne i8 {printer.lane_of(mask, 'i8', lane)}, 0")
                with printer.branch(test):
                    self._row(lane, start, stop)

    def _hold_index(self, array: str, index: tuple[Expr, ...], line: int) -> None:
        """Check the index of an element, without its last part, which is the counter, for all rows."""
        printer = self.printer
        dims = printer.program.arguments[array].dims
        for expr, size in zip(index[:-1], dims[:-1], strict=True):
            self._hold(expr)
            value = self.held[expr][0] if expr in self.held else printer.expr(expr)
            printer.check(value, expr, size, printer.site(line, array, size))

    def _hold_parts(self, expr: Expr) -> None:
        """Compute what does not depend on the counter, for all rows."""
        if self.vectors.invariant(expr):
            self._hold(expr)
            return
        match expr:
            case Apply(args=args):
                for each in args:
                    self._hold_parts(each)
            case Load(array, index, _, line):
                self._hold_index(array, index, line)

    def _hold(self, expr: Expr) -> None:
        if expr in self.held or isinstance(expr, (Const, SizeOf)):
            return
        printer = self.printer
        value = printer.expr(expr)
        if value.wide and value.type == "int":
            value = printer.safe_index(value)
        self.held[expr] = (
            value,
            printer.held_lanes(value.text, printer.scalar(value.type)) if value.wide else "",
        )

    def _of_lane(self, expr: Expr, lane: str) -> str:
        """Return the number that an invariant expression is in a lane."""
        if expr not in self.held:
            return self.printer.expr(expr).text
        value, memory = self.held[expr]
        return self.printer.lane_of(memory, self.printer.scalar(value.type), lane) if memory else value.text

    def _row(self, lane: str, start: str, stop: str) -> None:
        """Print the loop for the row of a lane."""
        printer = self.printer
        self.values = {expr: self._of_lane(expr, lane) for expr in self.held}
        self.row = printer.new(f"add nsw i64 {printer.base}, {lane}")
        off = printer.new(f"mul nsw i64 {self.row}, {printer.slot('row_step')}")
        self.row_at = printer.new(f"getelementptr i8, ptr {printer.slot('rows')}, i64 {off}")
        width = self.V = printer.vector
        last = printer.new(f"sub nsw i64 {stop}, {width - 1}")
        with printer.counted(start, last, width) as column:
            self._body(column, None)
        # The rest has fewer columns than a vector.
        count = printer.new(f"sub nsw i64 {stop}, {start}")
        positive = printer.new(f"icmp sgt i64 {count}, 0")
        safe = printer.new(f"select i1 {positive}, i64 {count}, i64 0")
        rest = printer.new(f"urem i64 {safe}, {width}")
        with printer.branch(printer.new(f"icmp ne i64 {rest}, 0")):
            column = printer.new(f"sub nsw i64 {stop}, {rest}")
            wide = f"<{width} x i64>"
            many = printer.splat(rest, "i64", width)
            numbers = "<" + ", ".join(f"i64 {each}" for each in range(width)) + ">"
            self._body(column, printer.new(f"icmp slt {wide} {numbers}, {many}"))

    def _body(self, column: str, mask: str | None) -> None:
        self.temporary: dict[str, str] = {}
        for statement in self.node.body:
            if isinstance(statement, Set):
                self.temporary[statement.name] = self._expr(statement.value, column, mask)
            else:
                assert isinstance(statement, Combine)
                self._combine(statement, column, mask)

    def _combine(self, statement: Combine, column: str, mask: str | None) -> None:
        printer = self.printer
        result = printer.program.arguments[statement.array]
        value, kind = self._expr(statement.value, column, mask), printer.accumulated(result)
        wide = f"<{self.V} x {kind}>"
        of = f"<{self.V} x {printer.scalar(statement.value.type)}>"
        if statement.value.type == "int" and kind == "double":
            value = printer.new(f"sitofp {of} {value} to {wide}")
        elif kind == "double" and printer.real == "float":
            value = printer.new(f"fpext {of} {value} to {wide}")
        flat = self._flat(statement.index, result.dims, column)
        at = printer.new(f"getelementptr {kind}, ptr {printer.slot(f'argument {result.name}')}, i64 {flat}")
        old = self._load(at, kind, mask)
        new = printer.merged(statement.op, old, value, wide, f"<{self.V} x i1>", kind == "double")
        if mask is None:
            printer.put(f"store {wide} {new}, ptr {at}, align 8")
            return
        name = f"llvm.masked.store.v{self.V}{short(kind)}.p0"
        printer.need(f"declare void @{name}({wide}, ptr, i32 immarg, <{self.V} x i1>)")
        printer.put(f"call void @{name}({wide} {new}, ptr {at}, i32 8, <{self.V} x i1> {mask})")

    def _flat(self, index: tuple[Expr, ...], dims: tuple[Size, ...], column: str) -> str:
        printer, found = self.printer, ""
        for each, size in zip(index, dims, strict=True):
            text = column if self.vectors.is_counter(each) else self.values.get(each, "")
            text = text or printer.expr(each).text
            if found:
                scaled = printer.new(f"mul nsw i64 {found}, {printer.size(size)}")
                text = printer.new(f"add nsw i64 {scaled}, {text}")
            found = text
        return found

    def _load(self, at: str, kind: str, mask: str | None) -> str:
        printer, wide = self.printer, f"<{self.V} x {kind}>"
        if mask is None:
            return printer.new(f"load {wide}, ptr {at}, align 1")
        name = f"llvm.masked.load.v{self.V}{short(kind)}.p0"
        printer.need(f"declare {wide} @{name}(ptr, i32 immarg, <{self.V} x i1>, {wide})")
        return printer.new(
            f"call {wide} @{name}(ptr {at}, i32 1, <{self.V} x i1> {mask}, {wide} zeroinitializer)"
        )

    def _expr(self, expr: Expr, column: str, mask: str | None) -> str:
        printer = self.printer
        kind = printer.scalar(expr.type)
        if self.vectors.invariant(expr):
            text = self.values[expr] if expr in self.values else printer.expr(expr).text
            return printer.splat(text, kind, self.V)
        match expr:
            case Var(name, _):
                return self.temporary[name]
            case RowItem():
                size = printer.stored_bytes()
                off = printer.new(f"mul nsw i64 {column}, {size}")
                at = printer.new(f"getelementptr i8, ptr {self.row_at}, i64 {off}")
                return printer.as_real(self._load(at, printer.rows.item, mask), f"<{self.V} x ", ">")
            case Load(array, index, _, _):
                argument, slot = printer.program.arguments[array], f"argument {array}"
                flat = self._flat(index, argument.dims, column)
                base = printer.slot(slot)
                if argument.axes:
                    base = printer.own_address(slot, argument.dims, kind, self.row)
                at = printer.new(f"getelementptr {kind}, ptr {base}, i64 {flat}")
                return self._load(at, kind, mask)
        assert isinstance(expr, Apply)
        args = [self._expr(each, column, mask) for each in expr.args]
        return self._apply(expr, args)

    def _apply(self, expr: Apply, args: list[str]) -> str:
        printer = self.printer
        of = f"<{self.V} x {printer.scalar(expr.args[0].type)}>"
        match expr.op:
            case "add" | "sub" | "mul" | "div":
                flags = "" if expr.op == "div" else printer.flags
                return printer.new(f"f{expr.op} {flags}{of} {args[0]}, {args[1]}")
            case "neg":
                return printer.new(f"fneg {of} {args[0]}")
            case "real":
                return printer.new(f"sitofp {of} {args[0]} to <{self.V} x {printer.real}>")
            case "abs":
                name = f"llvm.fabs.v{self.V}{short(printer.real)}"
                printer.need(f"declare {of} @{name}({of})")
                return printer.new(f"call {of} @{name}({of} {args[0]})")
        return printer.merged(OPERATORS[expr.op], args[0], args[1], of, f"<{self.V} x i1>", True)
