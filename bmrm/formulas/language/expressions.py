"""The front end of expressions: from Python's syntax tree to the typed tree."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from bmrm.formulas.language import functions  # noqa: F401 (its rows are in the table)
from bmrm.formulas.language.function_table import FUNCTIONS, KNOWN, callable_names
from bmrm.formulas.language.operators import find_function
from bmrm.formulas.language.source import FunctionSource, target_name
from bmrm.formulas.language.tree import (
    Apply,
    Axis,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Load,
    Local,
    RowItem,
    RowNumber,
    Set,
    Size,
    SizeOf,
    Statement,
    Value,
    Var,
    join_types,
)

BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "bitand",
    ast.BitOr: "bitor",
    ast.BitXor: "bitxor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**"}

FIRST, END = "first of those side by side", "end of those side by side"
"""Attributes of the row that no user can write: of the rows beside it, the first and the end."""

BESIDE = {FIRST: "first", END: "end"}

MAX_POWER = 8
"""Maximum exponent of a power that becomes products."""


class Given(NamedTuple):
    """What a call gives for a parameter.

    Attributes
    ----------
    axes : tuple of Axis
        See `bmrm.formulas.language.tree.Argument`.
    type : str
    """

    axes: tuple[Axis, ...]
    type: str


@dataclass
class ExpressionReader:
    """Reads the expressions of a row function; see `bmrm.formulas.language.front.read_program`."""

    source: FunctionSource
    given: Mapping[str, Given]
    sparse: bool
    types: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Local] = field(default_factory=dict)
    dims: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    """Sizes of arguments: annotated ones, and those that are found by how they are used."""

    def __post_init__(self) -> None:
        self.own = self.source.own
        self.axes: tuple[Axis, ...] = (self.source.row,)
        self.dims = {name: dims for name, dims in self.source.dims.items() if dims is not None}
        for name, role in self.source.roles.items():
            if role == "output" and self.dims.get(name):
                self.arrays[name] = Local(self.dims[name], "bool")

    def state(self) -> tuple[Any, ...]:
        return dict(self.types), dict(self.arrays), dict(self.dims)

    def begin(self) -> None:
        """Forget what the last pass over the text found, but for types and sizes."""
        self.counters: dict[str, str] = {}  # loop variables in scope, with their unique names
        self.ready: set[str] = set()  # locals that surely have a value here
        self.pending: list[Statement] = []  # what must be computed before the statement that is being read
        self.temporaries = self.loops = 0
        self.squares: dict[str, None] = {}

    def fail(self, node: ast.AST | int, text: str) -> NoReturn:
        self.source.fail(node, text)

    def hold(self, value: Expr) -> Expr:
        """Give a value a name of its own before the statement."""
        name = self.fresh("held")
        self.types[name] = join_types(self.types.get(name, "bool"), value.type)
        self.pending.append(Set(name, value))
        return Var(name, self.types[name])

    def fresh(self, hint: str) -> str:
        """Return a name that no local and no counter has: these begin with a name of the user's."""
        self.temporaries += 1
        return f".{hint}.{self.temporaries}"

    def is_local_call(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.function_of(node) == "local"

    def subscripts(self, node: ast.expr) -> tuple[str, tuple[Expr, ...]]:
        """Return the name and the index of ``a[i, j]`` or ``a[i][j]``."""
        index: list[Expr] = []
        while isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            made = []
            for part in parts:
                if isinstance(part, ast.Slice):
                    self.fail(node, "slices are not available in a row function; a loop visits elements")
                made.append(self.expr(part))
            index = made + index
            node = node.value
        if isinstance(node, ast.Call):
            self.expr(node)
        if not isinstance(node, ast.Name):
            self.fail(node, f"{word_of(node)} has no elements in a row function")
        return node.id, tuple(index)

    def placed(
        self, node: ast.AST, name: str, index: tuple[Expr, ...], dims: tuple[Size, ...]
    ) -> tuple[Expr, ...]:
        """Check an index; a number below 0 counts from the end, and a truth value is 0 or 1."""
        if len(index) != len(dims):
            own = " for each row" if name in self.source.axes else ""
            self.fail(node, f"{name!r} has {len(dims)} dimensions{own}, found an index of {len(index)}")
        for each in index:
            if each.type not in ("int", "bool", "any"):
                self.fail(node, "an index is an integer; int(...) converts to one")
        whole = [self.cast(node, "int", each) for each in index]
        return tuple(self.from_end(each, size) for each, size in zip(whole, dims, strict=True))

    # --- expressions

    def expr(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=bool() as value):
                return Const(value, "bool")
            case ast.Constant(value=int() as value):
                if not -(2**63) <= value < 2**63:
                    self.fail(node, f"found {value}, expected an integer of at most 64 bits")
                return Const(value, "int")
            case ast.Constant(value=float() as value):
                return Const(value, "real")
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript():
                return self.element(node)
            case ast.BinOp():
                return self.binary(node, node.op, self.expr(node.left), self.expr(node.right))
            case ast.UnaryOp():
                return self.unary(node)
            case ast.Compare():
                return self.compare(node)
            case ast.BoolOp():
                word = "and" if isinstance(node.op, ast.And) else "or"
                found: Expr | None = None
                for part in node.values:
                    each = self.expr(part) if found is None else self.guarded(node, found, word == "or", part)
                    if each.type not in ("bool", "any"):
                        self.fail(node, f"{word!r} joins conditions here, found a number; compare it with 0")
                    found = each if found is None else self.apply(node, word, (found, each), "bool")
                assert found is not None
                return found
            case ast.IfExp():
                test = self.truth(node, self.expr(node.test))
                a = self.guarded(node, test, False, node.body)
                b = self.guarded(node, test, True, node.orelse)
                kind = join_types(a.type, b.type)
                return self.apply(
                    node, "select", (test, self.cast(node, kind, a), self.cast(node, kind, b)), kind
                )
            case ast.Call():
                return self.call(node)
            case _:
                self.fail(node, f"{word_of(node)} is not available in a row function")

    def guarded(self, node: ast.AST, test: Expr, unless: bool, value: ast.expr) -> Expr:
        """Read a value that is computed only if a condition holds, or unless it holds."""
        outer, self.pending = self.pending, []
        found = self.expr(value)
        inner, self.pending = self.pending, outer
        if inner:
            test = self.apply(node, "not", (test,), "bool") if unless else test
            self.pending.append(If(test, tuple(inner), ()))
        return found

    def apply(self, node: ast.AST, op: str, args: tuple[Expr, ...], kind: str) -> Expr:
        return Apply(op, args, kind, self.source.line(node))

    def cast(self, node: ast.AST, kind: str, value: Expr) -> Expr:
        """Convert to a type that has room for the value's."""
        if value.type == kind or "any" in (kind, value.type):
            return value
        if isinstance(value, Const):
            made = {"int": int, "real": float, "bool": bool}[kind](value.value)
            return Const(made, kind)
        return self.apply(node, kind, (value,), kind)

    def truth(self, node: ast.AST, value: Expr) -> Expr:
        if isinstance(value, Const):
            return Const(bool(value.value), "bool")
        if value.type in ("bool", "any"):
            return value
        zero = Const(0.0, "real") if value.type == "real" else Const(0, "int")
        return self.apply(node, "ne", (value, zero), "bool")

    def name(self, node: ast.Name) -> Expr:
        name, source = node.id, self.source
        if name in self.counters:
            return Var(self.counters[name], "int")
        if name == source.row:
            self.fail(node, f"{name!r} is the row: read its elements, as {name}[f]")
        if name in source.roles:
            role = source.roles[name]
            if role == "output" and name not in self.arrays:
                if name not in self.ready:
                    self.fail(node, f"{name!r} is a result and has no value here yet")
                return Var(name, self.types[name])
            self.require_readable(node, name)
            if self.dims.get(name):
                self.fail(node, f"{name!r} is an array: read its elements, as {name}[j]")
            self.dims.setdefault(name, ())
            return Value(name, self.type_of(name))
        if name in self.arrays:
            self.fail(node, f"{name!r} is an array: read its elements, as {name}[j]")
        if name in self.own:
            if name not in self.ready:
                self.fail(node, f"{name!r} may have no value here; assign it before the loop or the branch")
            return Var(name, self.types[name])
        found = source.resolve(name)
        if isinstance(found, float) and (math.isinf(found) or math.isnan(found)):
            return Const(float(found), "real")
        hint = "call it" if id(found) in KNOWN else "parameters are arguments of the row function"
        self.fail(node, f"{name!r} is not known here; {hint}")

    def type_of(self, name: str) -> str:
        """Return the type of a parameter."""
        found = self.given[name].type if name in self.given else "any"
        return self.source.types.get(name, found)

    def attribute(self, node: ast.Attribute) -> Expr:
        if isinstance(node.value, ast.Name):
            owner = node.value.id
            if owner == self.source.row:
                if node.attr == "index":
                    return RowNumber(owner)
                if node.attr in BESIDE:
                    return RowNumber(owner, of=BESIDE[node.attr])
                self.fail(node, f"the row has index and stored(), found {node.attr!r}")
            if owner not in self.own and owner not in self.source.roles:
                module = self.source.resolve(owner)
                found = getattr(module, node.attr, None) if module is math or module is np else None
                if isinstance(found, float):
                    return Const(float(found), "real")
        self.fail(node, f"{ast.unparse(node)!r} is not available in a row function")

    def element(self, node: ast.Subscript) -> Expr:
        shape = node.value
        if isinstance(shape, ast.Attribute) and shape.attr == "shape":
            return self.shape_item(node, shape)
        name, index = self.subscripts(node)
        line = self.source.line(node)
        if name == self.source.row:
            if len(index) != 1:
                self.fail(node, f"{name!r} is one row: it has one index")
            index = self.placed(node, name, index, (self.source.width,))
            if self.sparse:
                self.fail(node, f"rows are sparse: for f, v in {name}.stored() visits what they hold")
            return RowItem(name, index[0], line)
        if name in self.source.roles:
            self.require_readable(node, name)
        if name in self.arrays:
            dims, kind = self.arrays[name].dims, self.arrays[name].type
        elif name in self.source.roles:
            dims, kind = self.find_dims(node, name, len(index)), self.type_of(name)
        elif name in self.own:
            self.fail(node, f"{name!r} is a number here, not an array; local(...) makes one")
        else:
            self.fail(node, f"{name!r} is not known here; parameters are arguments of the row function")
        return Load(name, self.placed(node, name, index, dims), kind, line)

    def require_readable(self, node: ast.AST, name: str) -> None:
        """Fail for a result, but for an array that the row assigns."""
        role = self.source.roles[name]
        if role == "parameter" or name in self.arrays:
            return
        if name in self.source.axes:
            self.fail(
                node, f"{name!r} is a result and cannot be read here; one with an index that is assigned can"
            )
        self.fail(
            node, f"{name!r} is a result: its value exists only after the pass, so it cannot be read here"
        )

    def find_dims(self, node: ast.AST, name: str, count: int) -> tuple[Size, ...]:
        """Return the sizes of a parameter; without annotation its use says how many there are."""
        if name not in self.dims:
            self.dims[name] = tuple(f"{name}.{axis}" for axis in range(count))
        if not self.dims[name] and count:
            self.fail(node, f"{name!r} is a number above and an array here")
        return self.dims[name]

    def from_end(self, index: Expr, size: Size) -> Expr:
        """Replace a negative number, which counts from the end."""
        if isinstance(index, Const) and index.value < 0:
            if isinstance(size, int):
                return Const(size + int(index.value), "int")
            return Apply("add", (SizeOf(size), Const(int(index.value), "int")), "int", 0)
        return index

    def shape_item(self, node: ast.Subscript, shape: ast.Attribute) -> Expr:
        axis = node.slice
        if (
            not isinstance(shape.value, ast.Name)
            or not isinstance(axis, ast.Constant)
            or type(axis.value) is not int
        ):
            self.fail(node, "shape takes a number here, as centers.shape[0]")
        return self.size(node, shape.value, axis.value)

    def size(self, node: ast.AST, what: ast.expr, axis: int = 0) -> Expr:
        name, index = self.subscripts(what) if isinstance(what, ast.Subscript) else (target_name(what), ())
        if name == self.source.row:
            dims: tuple[Size, ...] = (self.source.width,)
        elif name in self.arrays:
            dims = self.arrays[name].dims
        elif name in self.source.roles:
            annotated = self.source.dims[name]
            if annotated is not None or self.source.roles[name] != "parameter":
                dims = annotated or ()
            else:
                dims = self.dims.setdefault(name, (f"{name}.0",))
        else:
            self.fail(node, f"len takes the row or an array, found {ast.unparse(what)}")
        at = len(index) + axis
        if not 0 <= at < len(dims):
            self.fail(node, f"{name!r} has {len(dims)} dimensions, found dimension {at + 1}")
        size = dims[at]
        return Const(size, "int") if isinstance(size, int) else SizeOf(size)

    def binary(self, node: ast.AST, sign: ast.operator, a: Expr, b: Expr) -> Expr:
        op = BINARY.get(type(sign))
        if op is None:
            self.fail(node, f"{word_of(sign)} is not available in a row function")
        kind = join_types(a.type, b.type)
        if op in ("bitand", "bitor", "bitxor", "shl", "shr"):
            if kind == "real":
                self.fail(node, "&, |, ^, << and >> take integers")
            if kind == "bool" and op in ("shl", "shr"):
                kind = "int"
        elif op == "pow":
            return self.power(node, a, b)
        elif op == "div":
            kind = "any" if kind == "any" else "real"
        elif kind == "bool":
            kind = "int"
        return self.apply(node, op, (self.cast(node, kind, a), self.cast(node, kind, b)), kind)

    def power(self, node: ast.AST, a: Expr, b: Expr) -> Expr:
        if isinstance(b, Const) and b.type == "int" and 1 <= b.value <= MAX_POWER:
            base = self.cast(node, "int", a) if a.type == "bool" else a
            if b.value > 1 and not isinstance(base, (Var, Value, Const)):
                base = self.hold(base)
            found = base
            for _ in range(int(b.value) - 1):
                found = self.apply(node, "mul", (found, base), base.type)
            return found
        if "real" not in (a.type, b.type) and "any" not in (a.type, b.type):
            self.fail(node, f"a power of integers takes an exponent from 1 to {MAX_POWER}")
        both = (self.cast(node, "real", a), self.cast(node, "real", b))
        return self.apply(node, "pow", both, "any" if "any" in (a.type, b.type) else "real")

    def unary(self, node: ast.UnaryOp) -> Expr:
        value = self.expr(node.operand)
        match node.op:
            case ast.Not():
                return self.apply(node, "not", (self.truth(node, value),), "bool")
            case ast.Invert():
                if value.type not in ("int", "any"):
                    self.fail(node, "~ takes an integer")
                return self.apply(node, "bitxor", (value, Const(-1, "int")), value.type)
        if value.type == "bool":
            value = self.cast(node, "int", value)
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(value, Const):
            return Const(-value.value, value.type)
        return self.apply(node, "neg", (value,), value.type)

    def compare(self, node: ast.Compare) -> Expr:
        for sign in node.ops:
            if type(sign) not in COMPARED:
                self.fail(node, f"{word_of(sign)} is not available in a row function")
        a = self.expr(node.left)
        found: Expr | None = None
        for sign, right in zip(node.ops, node.comparators, strict=True):
            b = self.expr(right) if found is None else self.guarded(node, found, False, right)
            kind = join_types(a.type, b.type)
            kind = "int" if kind == "bool" else kind
            both = (self.cast(node, kind, a), self.cast(node, kind, b))
            one = self.apply(node, COMPARED[type(sign)], both, "bool")
            found = one if found is None else self.apply(node, "and", (found, one), "bool")
            a = b
        assert found is not None
        return found

    # --- calls

    def function_of(self, node: ast.Call) -> str | None:
        """Return the name of the known function that a call means; None for any other."""
        return KNOWN.get(id(self.source.called(node)))

    def call(self, node: ast.Call) -> Expr:
        name = self.function_of(node)
        if name is None:
            helper = self.source.helper_of(node)
            if helper is not None:
                return self.inlined(node, helper)
            text = ast.unparse(node.func)
            row, _, method = text.partition(".")
            if row == self.source.row and method == "stored":
                self.fail(node, f"{row}.stored() belongs in a loop: for f, v in ...")
            if row == self.source.row:
                self.fail(
                    node,
                    f"found {text}(), expected no method of a row but stored(); a loop visits its columns: "
                    f"for f in range(len({row})): ... {row}[f]",
                )
            if find_function(self.source.called(node)):
                self.fail(node, f"{text!r} combines a result here: out = {text}(out, ...)")
            self.fail(
                node,
                f"{text!r} is not a function that a row function can call; there are {callable_names()}, "
                "and functions in Python that are defined above",
            )
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            self.fail(node, f"{name} takes arguments by position")
        if name == "range":
            self.fail(node, "range belongs in a loop: for j in range(...)")
        if name == "local":
            self.fail(node, "local(...) makes an array: assign it to a name of its own")
        if name == "len":
            self.count(node, name, 1)
            return self.size(node, node.args[0])
        if name in ("dot", "squared_distance"):
            self.count(node, name, 2)
            return self.row_product(node, name)
        args = [self.expr(each) for each in node.args]
        if name in ("min", "max"):
            return self.least(node, name, args)
        self.count(node, name, FUNCTIONS[name].arguments if name in FUNCTIONS else 1)
        if name == "pow":
            return self.power(node, args[0], args[1])
        if name == "abs":
            value = self.cast(node, "int", args[0]) if args[0].type == "bool" else args[0]
            return self.apply(node, "abs", (value,), value.type)
        if name in ("int", "float", "bool"):
            return self.convert(node, name, args[0])
        if name in ("whole floor", "whole ceil"):
            real = self.cast(node, "real", args[0])
            rounded = self.apply(node, name.split()[1], (real,), real.type)
            return self.apply(node, "int", (rounded,), "int")
        values = tuple(self.cast(node, "real", each) for each in args)
        kind = "any" if any(each.type == "any" for each in values) else "real"
        return self.apply(node, name, values, "bool" if FUNCTIONS[name].result == "bool" else kind)

    def inlined(self, node: ast.Call, helper: FunctionSource) -> Expr:
        """Read a call of a plain function; `bmrm.formulas.language.inlining` does."""
        raise NotImplementedError

    def count(self, node: ast.Call, name: str, expected: int) -> None:
        if len(node.args) != expected:
            self.fail(
                node, f"{name} takes {expected} argument{'s' if expected > 1 else ''}, found {len(node.args)}"
            )

    def convert(self, node: ast.AST, name: str, value: Expr) -> Expr:
        if name == "bool":
            return self.truth(node, value)
        kind = {"int": "int", "float": "real"}[name]
        if value.type == kind:
            return value
        if isinstance(value, Const) and not (isinstance(value.value, float) and kind == "int"):
            return self.cast(node, kind, value)
        return self.apply(node, kind, (value,), kind)

    def least(self, node: ast.Call, name: str, args: list[Expr]) -> Expr:
        if len(args) < 2:
            self.fail(node, f"{name} takes two or more numbers here")
        kind = "bool"
        for each in args:
            kind = join_types(kind, each.type)
        kind = "int" if kind == "bool" else kind
        found = self.cast(node, kind, args[0])
        for each in args[1:]:
            found = self.apply(node, name, (found, self.cast(node, kind, each)), kind)
        return found

    def row_product(self, node: ast.Call, name: str) -> Expr:
        """Build the loop of ``dot(x, p[j])`` or ``squared_distance(x, p[j])`` before the statement."""
        row, other = node.args
        if target_name(row) != self.source.row:
            row, other = other, row
        found, is_row = target_name(other), isinstance(row, ast.Name) and row.id == self.source.row
        if not is_row or found is None or self.source.roles.get(found) != "parameter":
            self.fail(node, f"{name} takes the row {self.source.row!r} and a row of a parameter")
        index: tuple[Expr, ...] = ()
        if isinstance(other, ast.Subscript):
            _, index = self.subscripts(other)
        width = self.source.width
        dims = self.dims.get(found)
        if dims is None:
            dims = self.dims[found] = (*(f"{found}.{axis}" for axis in range(len(index))), width)
        if len(dims) != len(index) + 1 or dims[-1] != width:
            self.fail(node, f"{name}: found {ast.unparse(other)}, expected {width} numbers as in the row")
        index = self.placed(node, found, index, dims[:-1])
        index = tuple(each if isinstance(each, (Var, Const, SizeOf)) else self.hold(each) for each in index)
        line = self.source.line(node)
        total, value, at = map(self.fresh, ("total", "stored", "column"))
        self.types[total] = "real"
        mine = Var(total, "real")
        stored: Expr = RowItem(self.source.row, Var(at, "int"), line)
        if self.sparse:
            self.types[value] = "real"
            stored = Var(value, "real")
        theirs = self.cast(node, "real", Load(found, (*index, Var(at, "int")), self.type_of(found), line))
        first: Expr = Const(0.0, "real")
        if name == "dot":
            step: Expr = Apply("mul", (stored, theirs), "real", line)
        elif not self.sparse:
            e = Var(self.fresh("held"), "real")
            self.types[e.name] = "real"
            step = Apply("mul", (e, e), "real", line)
        else:
            # |x - p|^2 = |p|^2 + the sum over stored v of v (v - 2 p).
            self.squares[found] = None
            first = Load(f"{found}.squares", index, "real", line)
            twice = Apply("add", (theirs, theirs), "real", line)
            step = Apply("mul", (stored, Apply("sub", (stored, twice), "real", line)), "real", line)
        add: list[Statement] = [Set(total, Apply("add", (mine, step), "real", line))]
        if name == "squared_distance" and not self.sparse:
            add.insert(0, Set(e.name, Apply("sub", (stored, theirs), "real", line)))
        self.pending.append(Set(total, first))
        if self.sparse:
            self.pending.append(ForStored(self.source.row, at, value, tuple(add)))
            if name == "squared_distance":  # rounding may leave a sum below 0
                self.pending.append(Set(total, Apply("max", (Const(0.0, "real"), mine), "real", line)))
        else:
            self.pending.append(For(at, Const(0, "int"), SizeOf(width), 1, tuple(add)))
        return mine


def word_of(node: ast.AST) -> str:
    """Return what a user calls a kind of syntax."""
    words = {
        "ListComp": "a list",
        "List": "a list",
        "Dict": "a dict",
        "Tuple": "a tuple",
        "JoinedStr": "text",
        "Constant": "text",
        "NamedExpr": ":=",
        "MatMult": "@",
        "In": "in",
        "NotIn": "not in",
        "Is": "is",
        "IsNot": "is not",
        "FunctionDef": "a function in a function",
        "Call": "the result of a call",
    }
    name = type(node).__name__
    return words.get(name, name.lower())
