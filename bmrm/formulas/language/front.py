"""The front end: from Python's syntax tree to the typed tree.

Types of locals are found by repetition: the tree is built until no type grows any more. A function is read
again for the types that the arguments of a call have, and for dense or sparse rows.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from bmrm.errors import ReductionError
from bmrm.formulas.language import functions  # noqa: F401 (its rows are in the table)
from bmrm.formulas.language.function_table import FUNCTIONS, KNOWN, callable_names
from bmrm.formulas.language.operators import Operator, find_function, find_sign, sign_text
from bmrm.formulas.language.source import (
    Extremum,
    Source,
    as_loaded,
    match_extremum,
    match_update,
    negated,
    pairs_of,
    target_name,
)
from bmrm.formulas.language.tree import (
    RANKS,
    Apply,
    Argument,
    Combine,
    Const,
    Expr,
    For,
    ForStored,
    If,
    Load,
    Local,
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

MAX_POWER = 8
"""Maximum exponent of a power that becomes products."""

MAX_PASSES = 8
"""Maximum number of passes that find types; a type can grow three times, and usually all do in one pass."""


class Given(NamedTuple):
    """What a call gives for a parameter.

    Attributes
    ----------
    role : str
        "parameter" or "row value".
    type : str
    """

    role: str
    type: str


def read_program(
    source: Source, given: Mapping[str, Given] | None = None, *, sparse: bool = False
) -> Program:
    """Build the typed tree of a row function.

    Parameters
    ----------
    source : Source
    given : dict of str to Given, optional
        What a call gives for each parameter; default: not known yet.
    sparse : bool, default False
        Whether rows are sparse.

    Raises
    ------
    ReductionError
        For whatever a row function cannot have, with its line.
    """
    reader = Reader(source, given or {}, sparse)
    try:
        for _ in range(MAX_PASSES):
            before = reader.state()
            body = reader.read_all()
            if reader.state() == before:
                return reader.program(body)
    except RecursionError:
        raise ReductionError(f"{source.name}: found too deeply nested text, expected less") from None
    raise AssertionError("types grow at most three times")


@dataclass
class Reader:
    """Reads the statements and expressions of a row function; see `read_program`."""

    source: Source
    given: Mapping[str, Given]
    sparse: bool
    types: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Local] = field(default_factory=dict)
    dims: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    """Sizes of arguments: annotated ones, and those that are found by how they are used."""

    def __post_init__(self) -> None:
        self.names = {node.id for node in ast.walk(self.source.tree) if isinstance(node, ast.Name)}
        self.own = self.source.own
        self.dims = {name: dims for name, dims in self.source.dims.items() if dims is not None}

    def state(self) -> tuple[Any, ...]:
        return dict(self.types), dict(self.arrays), dict(self.dims)

    def fail(self, node: ast.AST | int, text: str) -> NoReturn:
        self.source.fail(node, text)

    def read_all(self) -> tuple[Statement, ...]:
        self.counters: dict[str, str] = {}  # loop variables in scope, with their unique names
        self.ready: set[str] = set()  # locals that surely have a value here
        self.pending: list[Statement] = []  # what must be computed before the statement that is being read
        self.temporaries = self.loops = 0
        self.squares: dict[str, None] = {}
        self.items = False  # whether elements of the row are read
        return self.block(self.source.tree.body)

    def program(self, body: tuple[Statement, ...]) -> Program:
        source = self.source
        arguments = {}
        for name in source.names:
            role, dims = source.roles[name], self.dims.get(name, ())
            kind = self.types.get(name, source.types.get(name, "any"))
            if role == "parameter" and name in self.given:
                role, kind = self.given[name]
            leader, operator = source.leaders.get(name, ""), source.operators.get(name)
            arguments[name] = Argument(name, role, dims, kind, leader, operator)
        if not any(a.role not in ("parameter", "row value") for a in arguments.values()):
            self.fail(source.tree, "found no result, expected an argument that the function writes")
        locals_ = {n: t for n, t in self.types.items() if n not in arguments}
        return Program(
            source.name,
            source.width,
            arguments,
            locals_,
            dict(self.arrays),
            body,
            not self.items,
            tuple(self.squares),
        )

    # --- statements

    def block(self, body: list[ast.stmt]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for statement in body:
            outer, self.pending = self.pending, []
            made = list(self.statement(statement))
            found += [*self.pending, *made]
            self.pending = outer
        return tuple(found)

    def statement(self, node: ast.stmt) -> Iterator[Statement]:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Assign():
                yield from self.assign(node)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                yield from self.assign(ast.copy_location(ast.Assign([target], value), node))
            case ast.AugAssign():
                yield from self.augment(node)
            case ast.If():
                yield from self.condition(node)
            case ast.For():
                yield from self.loop(node)
            case ast.Return(value=None) if node is self.source.tree.body[-1]:
                return
            case ast.Expr():
                self.fail(node, "found a value that nothing uses, expected an assignment")
            case _:
                self.fail(node, f"{_word(node)} is not available in a row function")

    def assign(self, node: ast.Assign) -> Iterator[Statement]:
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and not (
                isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(target.elts)
            ):
                self.fail(node, f"found {len(target.elts)} targets, expected the same number of values")
        pairs = list(pairs_of(node))
        if len(pairs) == 1:
            yield from self.assign_one(node, *pairs[0])
            return
        # All values are computed before any is assigned, as in `a, b = b, a`.
        written = [target_name(target) for target, _ in pairs]
        held: list[tuple[ast.expr, ast.expr, Expr | None]] = []
        for target, value in pairs:
            name = target_name(target)
            plain = name not in self.source.roles or self.source.roles[name] == "output"
            if plain and not self.is_local_call(value):
                made = self.expr(value)
                if any(isinstance(n, ast.Name) and n.id in written for n in ast.walk(value)):
                    made = self.hold(made)
                held.append((target, value, made))
            else:
                held.append((target, value, None))
        for target, value, found in held:
            if found is None:
                yield from self.assign_one(node, target, value)
            else:
                yield self.store(node, target, found)

    def hold(self, value: Expr) -> Expr:
        """Give a value a name of its own before the statement."""
        self.temporaries += 1
        name = f"held.{self.temporaries}"
        self.types[name] = join_types(self.types.get(name, "bool"), value.type)
        self.pending.append(Set(name, value))
        return Var(name, self.types[name])

    def assign_one(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> Iterator[Statement]:
        name = target_name(target)
        if self.is_local_call(value):
            self.make_array(node, target, value)
            return
        if name in self.source.roles and self.source.roles[name] != "output":
            found = match_update(self.source, target, value)
            if found is None:
                self.fail(
                    node, f"{name!r} is a result combined by {self.source.roles[name]}, found an assignment"
                )
            yield self.combine(node, found[0], target, found[1])
            return
        yield self.store(node, target, self.expr(value))

    def store(self, node: ast.stmt, target: ast.expr, value: Expr) -> Statement:
        if isinstance(target, ast.Name):
            name = target.id
            if name in self.counters:
                self.fail(node, f"{name!r} counts a loop: it cannot be assigned inside it")
            if name in self.arrays:
                self.fail(node, f"{name!r} is a local array: its elements can be assigned")
            known = self.source.types.get(name) if name in self.source.roles else None
            kind = join_types(self.types.get(name, known or "bool"), value.type)
            if known and kind != known and kind != "any":
                self.fail(node, f"{name!r} has type {known}, found a value of type {kind}")
            self.types[name] = kind
            self.ready.add(name)
            return Set(name, self.cast(node, kind, value))
        if isinstance(target, ast.Subscript):
            name, index = self.subscripts(target)
            if name not in self.arrays:
                what = "is not a local array" if name in self.own else "is not known here"
                self.fail(node, f"{name!r} {what}; local(...) makes one")
            array = self.arrays[name]
            index = self.placed(node, name, index, array.dims)
            kind = join_types(array.type, value.type)
            self.arrays[name] = Local(array.dims, kind)
            return SetItem(name, index, self.cast(node, kind, value), self.source.line(node))
        self.fail(node, f"found the target {ast.unparse(target)}, expected a name or an element")

    def augment(self, node: ast.AugAssign) -> Iterator[Statement]:
        name = target_name(node.target)
        role = self.source.roles.get(name or "", "parameter")
        if name in self.source.roles and role != "output":
            found = find_sign(node.op)
            given = negated(node.value) if found and found[1] else node.value
            yield self.combine(node, self.source.operators[name], node.target, given)
            return
        read = ast.copy_location(as_loaded(node.target), node.target)
        value = self.binary(node, node.op, self.expr(read), self.expr(node.value))
        yield self.store(node, node.target, value)

    def combine(
        self,
        node: ast.stmt,
        op: Operator,
        target: ast.expr,
        value: ast.expr,
        others: tuple[tuple[ast.expr, ast.expr], ...] = (),
    ) -> Statement:
        name, index = self.result(node, target)
        found = self.expr(value)
        if found.type == "real" and not op.takes_real:
            how = f"{sign_text(op.signs[0]())}=" if op.signs else op.about.removeprefix("combined by ")
            self.fail(node, f"{name!r}: {how} combines whole numbers")
        self.types[name] = join_types(self.types.get(name, op.type), found.type)
        said = self.source.types.get(name)
        if said and RANKS[self.types[name]] > RANKS[said] and self.types[name] != "any":
            self.fail(node, f"{name!r} has type {said}, found a value of type {self.types[name]}")
        if said:
            self.types[name] = said
        along: list[tuple[str, Expr]] = []
        for one, what in others:
            other, _ = self.result(node, one)
            if _index_text(one) != _index_text(target) or self.dims[other] != self.dims[name]:
                self.fail(node, f"{other!r} has another index or shape than {name!r}, expected the same")
            made = self.expr(what)
            self.types[other] = join_types(self.types.get(other, "int"), made.type)
            along.append((other, self.cast(node, self.types[other], made)))
        made = self.cast(node, self.types[name], found)
        return Combine(name, op, index, made, tuple(along), self.source.line(node))

    def result(self, node: ast.stmt, target: ast.expr) -> tuple[str, tuple[Expr, ...]]:
        """Return the name and the index of a result."""
        index: tuple[Expr, ...] = ()
        if isinstance(target, ast.Name):
            name = target.id
        else:
            name, index = self.subscripts(target)
        dims = self.source.dims[name]
        if dims is None:
            if index:
                self.fail(
                    node,
                    f"{name!r} is a result with an index: its annotation must give its shape, "
                    f'as {name}: "k" or {name}: ("k", "d")',
                )
            dims = ()
        self.dims[name] = dims
        return name, self.placed(node, name, index, dims)

    def condition(self, node: ast.If) -> Iterator[Statement]:
        found = match_extremum(self.source, node)
        if found is not None and self.is_result(found):
            yield self.combine(node, found.op, found.target, found.value, found.others)
            return
        test = self.truth(node, self.expr(node.test))
        before = set(self.ready)
        body = self.block(node.body)
        after, self.ready = self.ready, before
        orelse = self.block(node.orelse)
        self.ready &= after
        yield If(test, body, orelse)

    def is_result(self, found: Extremum) -> bool:
        name = target_name(found.target)
        return name is not None and self.source.operators.get(name) is found.op

    def loop(self, node: ast.For) -> Iterator[Statement]:
        if node.orelse:
            self.fail(node, "else of a loop is not available in a row function")
        call = node.iter
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            yield from self.stored_loop(node, call)
            return
        if not (isinstance(call, ast.Call) and self.function_of(call) == "range"):
            self.fail(node, f"a loop runs over range(...) or {self.source.row}.stored() here")
        if not isinstance(node.target, ast.Name):
            self.fail(node, "found several loop variables, expected one")
        if call.keywords or not 1 <= len(call.args) <= 3:
            self.fail(node, "range takes one to three whole numbers")
        bounds = [self.expr(each) for each in call.args]
        if any(bound.type not in ("int", "bool", "any") for bound in bounds):
            self.fail(node, "range takes whole numbers; int(...) converts to one")
        bounds = [self.cast(node, "int", bound) for bound in bounds]
        start = bounds[0] if len(bounds) > 1 else Const(0, "int")
        stop = bounds[min(1, len(bounds) - 1)]
        step = bounds[2] if len(bounds) > 2 else Const(1, "int")
        if not (isinstance(step, Const) and step.value):
            self.fail(node, "the step of range must be a constant other than 0")
        with _Scope(self, node, node.target.id) as name:
            body = self.block(node.body)
        yield For(name, start, stop, int(step.value), body)

    def stored_loop(self, node: ast.For, call: ast.Call) -> Iterator[Statement]:
        function = call.func
        assert isinstance(function, ast.Attribute)
        row = self.source.row
        if not (isinstance(function.value, ast.Name) and function.value.id == row):
            self.fail(node, f"a loop runs over range(...) or {row}.stored() here")
        if function.attr != "stored" or call.args or call.keywords:
            self.fail(node, f"a loop runs over range(...) or {row}.stored() here")
        names = node.target.elts if isinstance(node.target, ast.Tuple) else []
        if len(names) != 2 or not all(isinstance(each, ast.Name) for each in names):
            self.fail(node, f"found one loop variable, expected two: for f, v in {row}.stored()")
        index, value = (each.id for each in names if isinstance(each, ast.Name))
        if value in self.source.roles or value in self.counters or value == index:
            self.fail(node, f"{value!r} has another meaning here, expected a new name")
        if self.types.get(value, "real") != "real" or value in self.arrays:
            self.fail(node, f"{value!r} has another meaning here, expected a new name")
        self.types[value] = "real"
        known = value in self.ready
        with _Scope(self, node, index) as name:
            self.ready.add(value)
            body = self.block(node.body)
        if not known:
            self.ready.discard(value)
        yield self.visit_stored(name, value, body)

    def visit_stored(self, index: str, value: str, body: tuple[Statement, ...]) -> Statement:
        """Loop over what is stored of a sparse row, or over all of a dense one."""
        if self.sparse:
            return ForStored(index, value, body)
        item = Set(value, RowItem(Var(index, "int"), 0))
        return For(index, Const(0, "int"), SizeOf(self.source.width), 1, (item, *body))

    # --- local arrays and subscripts

    def is_local_call(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.function_of(node) == "local"

    def make_array(self, node: ast.stmt, target: ast.expr, call: ast.expr) -> None:
        assert isinstance(call, ast.Call)
        if not isinstance(target, ast.Name) or target.id in self.source.roles:
            self.fail(node, "local(...) makes an array of the row's own: assign it to a new name")
        if node not in self.source.tree.body:
            self.fail(node, "local(...) must be outside of loops and branches")
        if call.keywords or not call.args:
            self.fail(node, 'local takes sizes: numbers, or names in quotes, as local("k")')
        dims: list[Size] = []
        for each in call.args:
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
                dims.append(each.value)
                continue
            found = self.expr(each)
            if isinstance(found, SizeOf):
                dims.append(found.size)
            elif isinstance(found, Const) and type(found.value) is int and 1 <= found.value < 2**31:
                dims.append(found.value)
            else:
                self.fail(node, 'local takes sizes: numbers, or names in quotes, as local("k")')
        name = target.id
        if name in self.ready or name in self.counters or name in self.types:
            self.fail(node, f"{name!r} has another meaning above, expected a new name")
        self.arrays[name] = Local(tuple(dims), self.arrays[name].type if name in self.arrays else "bool")
        self.ready.add(name)

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
            self.fail(node, f"{_word(node)} has no elements in a row function")
        return node.id, tuple(index)

    def placed(
        self, node: ast.AST, name: str, index: tuple[Expr, ...], dims: tuple[Size, ...]
    ) -> tuple[Expr, ...]:
        """Check an index; a number below 0 counts from the end, and a truth value is 0 or 1."""
        if len(index) != len(dims):
            self.fail(node, f"{name!r} has {len(dims)} dimensions, found an index of {len(index)}")
        for each in index:
            if each.type not in ("int", "bool", "any"):
                self.fail(node, "an index is a whole number; int(...) converts to one")
        whole = [self.cast(node, "int", each) for each in index]
        return tuple(self.from_end(each, size) for each, size in zip(whole, dims, strict=True))

    # --- expressions

    def expr(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=bool() as value):
                return Const(value, "bool")
            case ast.Constant(value=int() as value):
                if not -(2**63) <= value < 2**63:
                    self.fail(node, f"found {value}, expected a whole number of at most 64 bits")
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
                self.fail(node, f"{_word(node)} is not available in a row function")

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
            if role == "output":
                if name not in self.ready:
                    self.fail(node, f"{name!r} is a result and has no value here yet")
                return Var(name, self.types[name])
            if role != "parameter":
                self.fail(
                    node,
                    f"{name!r} is a result: its value exists only after the pass, so it cannot be read here",
                )
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
                    return RowNumber()
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
            self.items = True
            return RowItem(index[0], line)
        if name in self.arrays:
            dims, kind = self.arrays[name].dims, self.arrays[name].type
        elif name in self.source.roles:
            if self.source.roles[name] != "parameter":
                self.fail(
                    node,
                    f"{name!r} is a result: its value exists only after the pass, so it cannot be read here",
                )
            dims, kind = self.find_dims(node, name, len(index)), self.type_of(name)
        elif name in self.own:
            self.fail(node, f"{name!r} is a number here, not an array; local(...) makes one")
        else:
            self.fail(node, f"{name!r} is not known here; parameters are arguments of the row function")
        return Load(name, self.placed(node, name, index, dims), kind, line)

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
            self.fail(node, f"{_word(sign)} is not available in a row function")
        kind = join_types(a.type, b.type)
        if op in ("bitand", "bitor", "bitxor", "shl", "shr"):
            if kind == "real":
                self.fail(node, "&, |, ^, << and >> take whole numbers")
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
            self.fail(node, f"a power of whole numbers takes an exponent from 1 to {MAX_POWER}")
        both = (self.cast(node, "real", a), self.cast(node, "real", b))
        return self.apply(node, "pow", both, "any" if "any" in (a.type, b.type) else "real")

    def unary(self, node: ast.UnaryOp) -> Expr:
        value = self.expr(node.operand)
        match node.op:
            case ast.Not():
                return self.apply(node, "not", (self.truth(node, value),), "bool")
            case ast.Invert():
                if value.type not in ("int", "any"):
                    self.fail(node, "~ takes a whole number")
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
                self.fail(node, f"{_word(sign)} is not available in a row function")
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
                node, f"{text!r} is not a function that a row function can call; there are {callable_names()}"
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
        if not (isinstance(row, ast.Name) and row.id == self.source.row):
            self.fail(node, f"{name} takes the row {self.source.row!r} and a row of a parameter")
        found = target_name(other)
        if found is None or found == self.source.row or self.source.roles.get(found) != "parameter":
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
        self.temporaries += 1
        total, value, at = (f"{part}.{self.temporaries}" for part in ("total", "stored", "column"))
        self.types[total] = "real"
        if self.sparse:
            self.types[value] = "real"
        mine = Var(total, "real")
        if not self.sparse:
            stored: Expr = RowItem(Var(at, "int"), line)
        else:
            stored = Var(value, "real")
        theirs = self.cast(node, "real", Load(found, (*index, Var(at, "int")), self.type_of(found), line))
        first: Expr = Const(0.0, "real")
        if name == "dot":
            step: Expr = Apply("mul", (stored, theirs), "real", line)
        elif not self.sparse:
            e = Var(f"held.{total}", "real")
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
            self.pending.append(ForStored(at, value, tuple(add)))
            zero = Const(0.0, "real")
            self.pending.append(Set(total, Apply("max", (zero, mine), "real", line)))
            if name == "dot":
                self.pending.pop()
        else:
            self.pending.append(For(at, Const(0, "int"), SizeOf(width), 1, tuple(add)))
        return mine


class _Scope:
    """The body of a loop: its variable has a value, and what the body assigns may have none after it."""

    def __init__(self, reader: Reader, node: ast.AST, name: str) -> None:
        if name in reader.source.roles or name == reader.source.row:
            reader.fail(node, f"{name!r} is an argument: it cannot count a loop")
        if name in reader.arrays:
            reader.fail(node, f"{name!r} is a local array: it cannot count a loop")
        if name in reader.counters:
            reader.fail(node, f"{name!r} counts a loop around this one already")
        self._reader, self._name = reader, name

    def __enter__(self) -> str:
        reader = self._reader
        reader.loops += 1
        self._ready = set(reader.ready)
        unique = reader.counters[self._name] = f"{self._name}.{reader.loops}"
        return unique

    def __exit__(self, *_: object) -> None:
        del self._reader.counters[self._name]
        self._reader.ready = self._ready


def _index_text(target: ast.expr) -> str:
    """Return the text of an element without the name of its array."""
    return ast.unparse(target).removeprefix(target_name(target) or "")


def _word(node: ast.AST) -> str:
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
