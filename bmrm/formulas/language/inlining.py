"""Calls of plain Python functions in a row function: their text is read in place of the call.

All names of such a function get a prefix that no name of a user's has, anew in each call. So its numbers
belong to this call alone, and each call has types of its own. An array that it is given stands under its own
name, since nothing changes it meanwhile: neither results nor arrays can be assigned in such a function. What
it returns is a number of the row; a return before the end leaves a block.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bmrm.formulas.language.expressions import ExpressionReader
from bmrm.formulas.language.leaving import enclosed, ends
from bmrm.formulas.language.source import FunctionSource, target_name
from bmrm.formulas.language.tree import Block, Const, Expr, Leave, Set, Statement, Var, join_types

MAX_INLINED = 1000
"""Maximum number of calls that are replaced by the text of functions: each may have calls in it."""


@dataclass(frozen=True)
class InlinedCall:
    """A call whose function is being read."""

    source: FunctionSource
    name: str

    @property
    def result(self) -> str:
        """Name of what it returns, which no local of a user's has."""
        return f"{self.name}.return"


class InlineReader(ExpressionReader):
    """Reads calls of plain functions."""

    def begin(self) -> None:
        super().begin()
        self.calls: list[InlinedCall] = []  # those that are being read, the inner one last
        self.inlined_calls = 0

    def block(self, body: list[ast.stmt]) -> tuple[Statement, ...]:
        """Read statements."""
        raise NotImplementedError

    def inlined(self, node: ast.Call, helper: FunctionSource) -> Expr:
        name, outer = helper.name, self.source
        if any(each.source.function is helper.function for each in self.calls):
            self.fail(node, f"{name!r} calls itself, expected a function without recursion")
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            self.fail(node, f"{name} takes arguments by position")
        self.count(node, name, len(helper.names))
        self.inlined_calls += 1
        if self.inlined_calls > MAX_INLINED:
            self.fail(node, f"found more than {MAX_INLINED} calls of functions within functions")
        call = InlinedCall(helper, f"{name}.{self.inlined_calls}")
        arrays = dict(self.arrays_given(node, helper))
        numbers = {n: self.expr(v) for n, v in zip(helper.names, node.args, strict=True) if n not in arrays}
        for argument, value in numbers.items():
            self.pending.append(self.keep(f"{call.name}.{argument}", value))
        self.source = renamed(outer, helper, f"{call.name}.", arrays)
        self.own = self.own | self.source.own
        self.calls.append(call)
        held, self.pending = self.pending, []
        body = self.block(self.source.tree.body)
        self.pending = held
        if not ends(body):
            self.fail(helper.tree, "found a path without return, expected one returned number")
        self.calls.pop()
        self.source = outer
        found = enclosed(call.result, body)
        kind = self.types[call.result]
        if isinstance(found[0], Block):  # on a GPU a pass that is to end leaves its loops early
            self.pending.append(Set(call.result, self.cast(node, kind, Const(False, "bool"))))
        self.pending += found
        return Var(call.result, kind)

    def returned(self, node: ast.Return) -> tuple[Statement, ...]:
        """Read a return statement of the function that is being read."""
        if node.value is None or isinstance(node.value, ast.Tuple):
            found = "nothing" if node.value is None else "several values"
            self.fail(node, f"found {found} that a function returns, expected one number")
        call = self.calls[-1]
        value = self.expr(node.value)
        return self.keep(call.result, value), Leave(call.result)

    def keep(self, name: str, value: Expr) -> Statement:
        """Assign a number of the row that has no name of the user's."""
        self.types[name] = join_types(self.types.get(name, "bool"), value.type)
        self.ready.add(name)
        return Set(name, self.cast(self.source.tree, self.types[name], value))

    # --- arrays as arguments

    def arrays_given(self, node: ast.Call, helper: FunctionSource) -> list[tuple[str, ast.expr]]:
        """Return the arguments that are the row, arrays, or rows of arrays, as text that reads them."""
        used = used_as_arrays(helper)
        found = []
        for name, given in zip(helper.names, node.args, strict=True):
            count = self.missing_indices(given, name in used)
            if count:
                found.append((name, self.with_fixed_index(given)))
        return found

    def missing_indices(self, given: ast.expr, used: bool) -> bool:
        """Return whether an argument is an array; what is not known of it, its use says."""
        name, count = target_name(given), 0
        inner = given
        while isinstance(inner, ast.Subscript):
            count += len(inner.slice.elts) if isinstance(inner.slice, ast.Tuple) else 1
            inner = inner.value
        if name is None or name in self.counters:
            return False
        if name == self.source.row:
            return count == 0
        if name in self.arrays:
            return count < len(self.arrays[name].dims)
        if self.source.roles.get(name) != "parameter":
            return False
        dims = self.dims.get(name)
        return used if dims is None else count < len(dims)

    def with_fixed_index(self, given: ast.expr) -> ast.expr:
        """Return a row of an array with indices that stay: numbers, counters, and names of their own."""
        if not isinstance(given, ast.Subscript):
            return given
        parts = given.slice.elts if isinstance(given.slice, ast.Tuple) else [given.slice]
        fixed: list[ast.expr] = []
        for part in parts:
            is_literal = not any(isinstance(each, (ast.Name, ast.Call)) for each in ast.walk(part))
            if isinstance(part, ast.Slice) or is_literal:
                fixed.append(part)
                continue
            held = self.hold(self.expr(part))
            assert isinstance(held, Var)
            self.own = self.own | {held.name}
            self.ready.add(held.name)
            fixed.append(ast.copy_location(ast.Name(held.name, ast.Load()), part))
        index = fixed[0] if len(fixed) == 1 else ast.Tuple(fixed, ast.Load())
        return ast.copy_location(ast.Subscript(self.with_fixed_index(given.value), index, ast.Load()), given)


def used_as_arrays(helper: FunctionSource) -> set[str]:
    """Return the arguments that a function reads as arrays, or gives to another function."""
    found: set[str] = set()
    for node in ast.walk(helper.tree):
        inner: list[ast.expr] = []
        match node:
            case ast.Subscript(value=value) | ast.Attribute(value=value):
                inner = [value]
            case ast.Call(args=args):
                inner = args
        found |= {each.id for each in inner if isinstance(each, ast.Name)}
    return found & (set(helper.names) - helper_stores(helper))


def helper_stores(helper: FunctionSource) -> set[str]:
    """Return the names that a function assigns; raise if it assigns elements of its arguments."""
    found = set()
    for node in ast.walk(helper.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            name = target_name(node)
            if name in helper.names:
                helper.fail(node, f"{name!r} is an argument: its elements can only be read here")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def renamed(
    outer: FunctionSource, helper: FunctionSource, prefix: str, arrays: Mapping[str, ast.expr]
) -> FunctionSource:
    """Return a function as it is read in another one: arrays that it is given have their names there."""
    tree = copy.deepcopy(helper.tree)
    tree.body = [_Renamer(prefix, arrays).visit(statement) for statement in tree.body]
    return replace(
        outer,
        function=helper.function,
        tree=tree,
        first_line=helper.first_line,
        numbers=tuple(prefix + name for name in helper.names if name not in arrays),
        prefix=prefix,
        helpers=helper.helpers,
    )


class _Renamer(ast.NodeTransformer):
    def __init__(self, prefix: str, arrays: Mapping[str, ast.expr]) -> None:
        self.prefix, self.arrays = prefix, arrays

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.arrays:
            return ast.copy_location(ast.Name(self.prefix + node.id, node.ctx), node)
        found = copy.deepcopy(self.arrays[node.id])
        for each in ast.walk(found):
            if hasattr(each, "lineno"):
                ast.copy_location(each, node)
        return found
