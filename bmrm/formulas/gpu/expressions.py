"""The printer of expressions for the GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from bmrm.formulas.analysis.layout import OUTSIDE, ZERO, Site
from bmrm.formulas.analysis.products import COUNTER
from bmrm.formulas.analysis.tried import stays
from bmrm.formulas.gpu.writer import EVERY, CudaWriter
from bmrm.formulas.language.function_table import FUNCTIONS
from bmrm.formulas.language.tree import (
    Apply,
    Const,
    Expr,
    For,
    Load,
    RowItem,
    RowNumber,
    Size,
    SizeOf,
    Value,
    Var,
    parts,
)

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "bitand": "&", "bitor": "|", "bitxor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&&", "or": "||",
}  # fmt: skip


@dataclass(frozen=True)
class View:
    """How the numbers of a row are called where an expression stands.

    Attributes
    ----------
    names : dict of str to str
        C++ names of locals that are called otherwise.
    registers : str
        The row in registers; "" if it is in memory.
    other_row : bool
        Whether the row is another lane's. It is read where it is, and only by what needs no check.
    column : str
        The value of the row in the column `COUNTER`, if it was read before.
    values : dict of str to str
        Numbers of the row that were read before.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    registers: str = ""
    other_row: bool = False
    column: str = ""
    values: Mapping[str, str] = field(default_factory=dict)


class CudaExpressions:
    """Prints expressions of a row.

    Parameters
    ----------
    writer : CudaWriter
    view : View
    """

    def __init__(self, writer: CudaWriter, view: View) -> None:
        self.writer, self.view = writer, view
        self.program, self.facts, self.bounds = writer.program, writer.facts, writer.facts.bounds
        self.put, self.open, self.close, self.fresh = writer.put, writer.open, writer.close, writer.fresh

    def name(self, name: str) -> str:
        """Return the C++ name of a local or an argument."""
        return self.view.names.get(name) or self.writer.name(name)

    def flat(self, index: tuple[Expr, ...], dims: tuple[Size, ...], what: str, line: int, mask: str) -> str:
        """Return the place of an element in an array that is stored by rows, all indices checked."""
        found = ""
        for each, size in zip(index, dims, strict=True):
            text = self.expr(each, mask)
            if not self.bounds.inside(each, size):
                site = Site(line, OUTSIDE, what, size)
                text = self.checked(text, size, site, mask, below=self.bounds.below(each, size))
            found = f"({found} * {self.writer.size(size)} + {text})" if found else text
        return found or "0"

    def guarded(self, node: Expr, mask: str) -> str:
        """Return an expression that only lanes which take part compute, if it may stray in others."""
        text = self.expr(node, mask)
        return (
            f"({mask} ? {text} : {self.writer.kind(node.type)}(0))" if self.strays(node, mask=mask) else text
        )

    def strays(self, *exprs: Expr, mask: str) -> bool:
        """Return whether lanes that take no part may read outside of arrays: no bound holds there."""
        if mask in EVERY:
            return False
        read = [p for expr in exprs for p in parts(expr) if isinstance(p, (Load, RowItem))]
        return any(self.facts.varies(*(p.index if isinstance(p, Load) else (p.index,))) for p in read)

    def index(self, text: str, dims: tuple[Size, ...]) -> str:
        """Return an index of an array in the type in which lanes compare it."""
        return f"{'unsigned' if self.facts.count(dims) < 1 << 32 else 'bits64'}({text})"

    def checked(self, text: str, size: Size, site: Site, mask: str, *, below: bool = False) -> str:
        """Return an index that is checked; ``below`` says that it is surely below the size."""
        if self.view.other_row:  # only what needs no check is read so
            return text
        where = f"{mask}, table, row, {self.writer.layout.site(site)}"
        return (
            f"not_below({text}, {where})" if below else f"inside({text}, {self.writer.size(size)}, {where})"
        )

    def with_iteration(self, node: For, start: str, stop: str, mask: str) -> str:
        """Return the mask of lanes that take part in what a loop needs before its first iteration."""
        if self.bounds.has_iteration(node):
            return mask
        found = self.fresh("part")
        self.put(f"const bool {found} = {mask} && {start} < {stop};")
        return found

    def expr(self, node: Expr, mask: str) -> str:
        match node:
            case Const(value, kind):
                return constant(value, kind)
            case Var(name, _):
                return f"whole({self.name(name)})" if name in self.writer.narrow else self.name(name)
            case Value(name, kind):
                text = self.name(name)
                if self.program.arguments[name].axes:
                    text = self.view.values.get(name, f"{text}[mine]") + (" != 0" if kind == "bool" else "")
                    text = f"T({text})" if name in self.writer.wide else text
                return f"({text})"
            case SizeOf(size):
                return self.writer.size(size)
            case RowNumber(of=of):
                return {"": "(number + row)", "first": "(number + base)", "end": "(number + base + WARP)"}[of]
            case RowItem(_, index, line):
                if self.view.column and index == COUNTER:
                    return f"T({self.view.column})"
                width = self.program.width
                at = self.flat((index,), (width,), "the row", line, mask)
                if self.view.registers:
                    return f"{self.view.registers}[{at}]"
                where = f"(const {self.writer.item}*)(at + ({at}) * across)"
                return f"T(__ldg({where}))" if self.view.other_row else f"T(*{where})"
            case Load(array, index, kind, line):
                return self.load(array, index, kind, line, mask)
            case Apply():
                return self.apply(node, mask)

    def load(self, array: str, index: tuple[Expr, ...], kind: str, line: int, mask: str) -> str:
        dims = self.program.dims_of(array)
        counter, row = self.writer.rows_of_tiles.get(array, ("", ""))
        if row and index[0] == Var(counter, "int"):
            text = f"{row}[{self.flat(index[1:], dims[1:], array, line, mask)}]"
            return f"({text} != 0)" if kind == "bool" else text
        flat = self.flat(index, dims, array.removesuffix(".squares"), line, mask)
        if array not in self.program.arrays and self.program.axes_of(array):
            flat = f"{self.writer.row_place(array, dims, 'mine')} + {flat}"
        text = f"{self.name(array)}[{flat}]"
        if array in self.writer.wide and array not in self.writer.memory.shared_parameters:
            return f"T({text})"
        return f"({text} != 0)" if kind == "bool" else text

    def apply(self, node: Apply, mask: str) -> str:
        op = node.op
        args = [self.expr(each, mask) for each in node.args]
        kind = node.args[0].type if node.args else node.type
        if kind == "int" and self.bounds.wraps(node):
            match op:
                case "add" | "sub" | "mul":
                    return f"wrap_{op}({args[0]}, {args[1]})"
                case "neg":
                    return f"wrap_sub(0, {args[0]})"
        if op == "div" and self.writer.real == "float" and stays(node.args[1], self.program):
            tried = self.writer.tried
            if tried is None:
                return f"divided({args[0]}, {args[1]})"
            return f"quotient({args[0]}, {tried.divisors[args[1]]}, {tried.unusual})"
        if op == "sqrt" and self.writer.tried is not None:
            return f"root({args[0]}, {self.writer.tried.unusual})"
        if op in SIGNS:
            return f"({args[0]} {SIGNS[op]} {args[1]})"
        match op:
            case "select":
                return f"({args[0]} ? {args[1]} : {args[2]})"
            case "not":
                return f"(!{args[0]})"
            case "neg":
                return f"(-{args[0]})"
            case "min" | "max":
                word = "least" if op == "min" else "greatest"
                return f"{word}<{self.writer.kind(node.type)}>({args[0]}, {args[1]})"
            case "abs":
                return f"absolute<{self.writer.kind(node.type)}>({args[0]})"
            case "real" | "bool":
                return f"{self.writer.kind(op)}({args[0]})"
            case "int":
                return f"to_whole({args[0]})" if kind == "real" else f"whole({args[0]})"
            case "shl" | "shr":
                by = args[1]
                if not self.bounds.inside(node.args[1], 64):
                    by = self.checked(by, 64, Site(node.line, OUTSIDE, "a shift", 64), mask)
                return f"whole(bits64({args[0]}) << {by})" if op == "shl" else f"({args[0]} >> {by})"
            case "floordiv" | "mod":
                word = "div" if op == "floordiv" else "mod"
                if kind == "real":
                    return f"T(real_{word}({args[0]}, {args[1]}))"
                by = args[1]
                if not (isinstance(node.args[1], Const) and node.args[1].value != 0):
                    by = (
                        f"divisor({by}, {mask}, table, row, {self.writer.layout.site(Site(node.line, ZERO))})"
                    )
                return f"whole_{word}({args[0]}, {by})"
        return FUNCTIONS[op].cuda.format(*args, f="f" if self.writer.real == "float" else "")


def bring(around: CudaExpressions, names: list[str], other: str) -> dict[str, str]:
    """Print shuffles that bring locals of another lane's row; return how they are called here."""
    found = {}
    for name in names:
        kind, old, new = around.program.locals[name], around.name(name), around.fresh("far")
        value = f"int({old})" if kind == "bool" else old
        around.put(f"const {around.writer.kind(kind)} {new} = __shfl_sync(FULL, {value}, {other});")
        found[name] = new
    return found


def constant(value: bool | int | float, kind: str) -> str:
    """Return a number as C++ text.

    Examples
    --------
    >>> constant(True, "bool"), constant(-3, "int"), constant(0.1, "real")
    ('true', '(-3LL)', 'T(0x1.999999999999ap-4)')
    """
    if kind == "bool":
        return "true" if value else "false"
    if kind == "int":
        return "LEAST_WHOLE" if value == -(2**63) else f"({int(value)}LL)" if value < 0 else f"{int(value)}LL"
    value = float(value)
    if math.isnan(value):
        return "T(NOT_A_NUMBER)"
    if math.isinf(value):
        return "T(INF)" if value > 0 else "T(-INF)"
    return f"T({value.hex()})"
