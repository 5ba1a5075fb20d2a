"""A row function as a plain Python loop: the reference for compiled code, and what runs without a compiler.

The function of the user runs, with a few expressions replaced so that they mean what the tree means: real
numbers have the type of the rows, comparisons are Python's truth values (NumPy's add up to True), `int`
accepts every real number, indices below 0 are errors unless they are written as numbers, and results that are
one number are returned. Line numbers stay, so a debugger shows the user's text.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.errors import ReductionError
from bmrm.formulas.language import functions
from bmrm.formulas.language.combination import read_operator
from bmrm.formulas.language.expressions import BESIDE, MAX_POWER, ExpressionReader
from bmrm.formulas.language.function_table import FUNCTIONS
from bmrm.formulas.language.operators import GREATEST_INT, LEAST_INT, FunctionOperator
from bmrm.formulas.language.source import FunctionSource, as_loaded, match_update, pairs_of, target_name
from bmrm.formulas.language.tree import Local, Program, Size

GROWING = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.LShift)
"""Operators whose integers may not fit 64 bits though those that they work on do."""


class Row:
    """One row, as a row function sees it.

    Parameters
    ----------
    values : ndarray
        All values of a dense row, or the stored ones of a sparse row.
    index : int
        Number of the row.
    columns : ndarray, optional
        Columns of the stored values.
    width : int, optional
        Number of columns of a sparse row.
    """

    def __init__(
        self, values: NDArray[Any], index: int, columns: NDArray[Any] | None = None, width: int = 0
    ) -> None:
        self.values, self.index, self.columns = values, index, columns
        self.zero = values.dtype.type(0)
        self._width = len(values) if columns is None else width

    def __len__(self) -> int:
        return self._width

    def __getitem__(self, column: Any) -> Any:
        return self.values[column]

    def item(self, column: int) -> Any:
        """Return an element, 0 if a sparse row does not store it."""
        if self.columns is None:
            return self.values[column]
        at = int(np.searchsorted(self.columns, column))
        there = at < len(self.columns) and self.columns[at] == column
        return self.values[at] if there else self.zero

    def stored(self) -> Iterator[tuple[int, Any]]:
        """Yield columns and values of what is stored."""
        if self.columns is None:
            yield from enumerate(self.values)
        else:
            for column, value in zip(self.columns, self.values, strict=True):
                yield int(column), value


def _whole(value: Any) -> int:
    """Return a number without its fraction: the nearest there is for too large ones, the least for NaN."""
    if isinstance(value, (int, np.integer, np.bool_)):
        return int(value)
    if value != value:
        return LEAST_INT
    if abs(value) >= 2.0**63:
        return GREATEST_INT if value > 0 else LEAST_INT
    return int(value)


def _fits(value: Any) -> Any:
    if type(value) is int and not LEAST_INT <= value <= GREATEST_INT:
        raise OverflowError("found an integer that does not fit 64 bits; compiled code wraps it")
    return value


def _shift(by: Any) -> Any:
    if not 0 <= by < 64:
        raise IndexError(f"found a shift by {by}, expected 0 to 63")
    return by


def _at(array: Any, *index: Any) -> Any:
    found = array[index[0] if len(index) == 1 else index]
    if isinstance(found, np.bool_):
        return bool(found)
    return int(found) if isinstance(found, np.integer) else found


def _below_size(index: Any) -> int:
    """Return an index; NumPy would take a truth value for a mask."""
    if index < 0:
        raise IndexError(f"index {index} is below 0")
    return int(index)


def _power(base: Any, exponent: Any, real: Any) -> Any:
    if isinstance(exponent, int) and 1 <= exponent <= MAX_POWER:
        found = base
        for _ in range(exponent - 1):
            found = _fits(found * base)
        return found
    return np.power(real(base), real(exponent))


class _Rewriter(ast.NodeTransformer):
    """Replaces the expressions of a row function that mean something else in plain Python."""

    def __init__(self, source: FunctionSource) -> None:
        self.reader = ExpressionReader(source, {}, False)
        self.reader.begin()
        self.names: dict[str, str] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return _call(node, "__real", node) if isinstance(node.value, float) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        mine = node.id in self.reader.own or node.id in self.reader.source.roles
        if isinstance(node.ctx, ast.Load) and not mine and node.id != self.reader.source.row:
            found = self.reader.source.resolve(node.id)
            if isinstance(found, float):
                return _call(node, "__real", node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr not in BESIDE:
            return node
        after, node.attr = BESIDE[node.attr] == "end", "index"  # one row runs at a time
        return ast.copy_location(ast.BinOp(node, ast.Add(), ast.Constant(int(after))), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            return _call(node, "__divide", node.left, node.right)
        if isinstance(node.op, ast.Pow):
            return _call(node, "__power", node.left, node.right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return _call(node, "__truth", node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if isinstance(node.op, (ast.Div, ast.Pow)):
            value = ast.copy_location(ast.BinOp(as_loaded(node.target), node.op, node.value), node)
            return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name, text = self.reader.function_of(node), ast.unparse(node.func)
        is_helper = name is None and self.reader.source.helper_of(node) is not None
        self.generic_visit(node)
        if is_helper:
            return _call(node, f"__function {text}", *node.args)
        if name == "int":
            return _call(node, "__whole", *node.args)
        if name == "float":
            return _call(node, "__real", *node.args)
        if name in ("whole floor", "whole ceil"):
            inner = _call(node, f"__{name.split()[1]}", *node.args)
            return _call(node, "__whole", inner)
        if name == "pow":
            return _call(node, "__power", *node.args)
        if name in FUNCTIONS:
            return _call(node, f"__{name}", *(_call(node, "__real", each) for each in node.args))
        if name in ("dot", "squared_distance"):
            return _call(node, f"__{name}", *node.args)
        if name == "local":
            return _call(node, "__local", ast.Constant(self.target))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        targets = [t for t in node.targets if isinstance(t, ast.Name)]
        self.target = targets[0].id if targets else ""
        if len(node.targets) == 1:
            pairs = [(target, self.in_order(target, value)) for target, value in pairs_of(node)]
            if len(pairs) == 1 and pairs[0][0] is node.targets[0]:
                node.value = pairs[0][1]
            elif isinstance(node.value, ast.Tuple):
                node.value.elts = [value for _, value in pairs]
        if isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple):
            for target, value in zip(node.targets[0].elts, node.value.elts, strict=False):
                if isinstance(target, ast.Name) and self.reader.is_local_call(value):
                    raise ReductionError(
                        f"{self.reader.source.name}: local(...) needs an assignment of its own"
                    )
        self.generic_visit(node)
        return node

    def in_order(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """Return a result that is combined by a function with itself first, as in ``out = min(out, e)``."""
        source = self.reader.source
        found = match_update(source, target, value) if target_name(target) in source.operators else None
        if found is None or not isinstance(value, ast.Call):
            return value
        name = f"__combine_{target_name(target)}"
        function = value.func if not isinstance(found[0], FunctionOperator) else ast.Name(name, ast.Load())
        return ast.copy_location(ast.Call(function, [as_loaded(target), found[1]], []), value)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Attribute):
            return node
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        index: list[ast.expr] = [
            part if _is_written_number(part) else _call(part, "__below", part) for part in parts
        ]
        if isinstance(node.ctx, ast.Load):
            return _call(node, "__at", node.value, *index)
        slice_ = index[0] if len(index) == 1 else ast.Tuple(index, ast.Load())
        return ast.copy_location(ast.Subscript(node.value, slice_, node.ctx), node)


def _is_written_number(node: ast.expr) -> bool:
    """Return whether an index is an integer as written, which may count from the end."""
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int


class _Limited(ast.NodeTransformer):
    """Lets operations fail whose integers do not fit 64 bits: compiled code would go on with others."""

    def __init__(self, own: set[str]) -> None:
        self.own = own

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, (ast.LShift, ast.RShift)):
            node.right = _call(node.right, "__shift", node.right)
        return _call(node, "__fits", node) if isinstance(node.op, GROWING) else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        plain = not isinstance(node.op, ast.USub) or isinstance(node.operand, ast.Constant)
        return node if plain else _call(node, "__fits", node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_abs = isinstance(node.func, ast.Name) and node.func.id == "abs"
        return _call(node, "__fits", node) if is_abs else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name) or node.target.id not in self.own:
            self.generic_visit(node)
            return node
        read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(value)), node)


def _call(at: ast.AST, name: str, *args: ast.expr) -> ast.Call:
    """Make a call; its names are looked up among the globals, where no name of a user's begins with __."""
    function = ast.Name(name, ast.Load())
    made = ast.Call(function, list(args), [])
    for node in (made, function):
        ast.copy_location(node, at)
    return made


def make_plain(
    source: FunctionSource, program: Program, sizes: Mapping[str, int], real: type[np.floating[Any]]
) -> Callable[..., tuple[Any, ...]]:
    """Make the plain function of a row function.

    Parameters
    ----------
    source : FunctionSource
    program : Program
        With all types known.
    sizes : dict of str to int
    real : type
        NumPy's type of real numbers.

    Returns
    -------
    callable
        Takes the row and the other arguments in their order: parameters, arrays of results, and present
        values of results that are one number. Returns the latter, in their order.
    """
    numbers = [a.name for a in program.results() if not a.dims]
    back = ast.Return(ast.Tuple([ast.Name(name, ast.Load()) for name in numbers], ast.Load()))
    words = {f"__{name}": each.plain for name, each in FUNCTIONS.items()}
    words |= {
        f"__combine_{name}": plain_operator(each)
        for name, each in source.operators.items()
        if isinstance(each, FunctionOperator)
    }
    words |= {
        "__real": real,
        "__divide": lambda a, b: real(a) / real(b),
        "__power": lambda a, b: _power(a, b, real),
        "__truth": bool,
        "__whole": _whole,
        "__fits": _fits,
        "__shift": _shift,
        "__at": _at,
        "__below": _below_size,
        "__local": lambda name: _make_local(program.arrays[name], sizes, real),
        "__dot": _with_row_first(functions.dot),
        "__squared_distance": _with_row_first(functions.squared_distance),
    }
    rewriter = _Rewriter(source)
    limited = _Limited(rewriter.reader.own)
    statements = copy.deepcopy(source.tree).body
    body = [limited.visit(rewriter.visit(each)) for each in statements if not isinstance(each, ast.Return)]
    return _compiled(source, [source.row, *source.names], [*body, back], words)


def _compiled(
    source: FunctionSource, names: list[str], body: list[ast.stmt], words: Mapping[str, Any]
) -> Callable[..., Any]:
    """Compile rewritten statements of a function, in their lines, and the functions that it calls."""
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    made = ast.FunctionDef("row_function", arguments, body, [])
    ast.copy_location(made, source.tree)
    if hasattr(source.tree, "type_params"):  # since Python 3.12
        vars(made)["type_params"] = []
    module = ast.fix_missing_locations(ast.Module([made], []))
    ast.increment_lineno(module, source.first_line - 1)
    code = compile(module, source.function.__code__.co_filename, "exec")
    scope = dict(source.function.__globals__)
    for name, cell in zip(
        source.function.__code__.co_freevars, source.function.__closure__ or (), strict=False
    ):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            continue
    scope |= source.words | dict(words)
    scope |= {f"__function {text}": _plain_helper(each, words) for text, each in source.helpers.items()}
    exec(code, scope)
    found: Callable[..., Any] = scope["row_function"]
    return found


def _plain_helper(helper: FunctionSource, words: Mapping[str, Any]) -> Callable[..., Any]:
    """Make the plain function of one that a row function calls."""
    rewriter = _Rewriter(helper)
    limited = _Limited(rewriter.reader.own | set(helper.names))
    body = [limited.visit(rewriter.visit(each)) for each in copy.deepcopy(helper.tree).body]
    return _compiled(helper, helper.names, body, words)


def _make_local(array: Local, sizes: Mapping[str, int], real: type[np.floating[Any]]) -> NDArray[Any]:
    kinds: dict[str, Any] = {"real": real, "int": np.int64, "bool": np.bool_}
    return np.zeros(tuple(size_of(size, sizes) for size in array.dims), kinds[array.type])


def _with_row_first(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(a, b) if isinstance(a, Row) else function(b, a)


def plain_operator(operator: FunctionOperator) -> Callable[[Any, Any], Any]:
    """Make the plain function of an operator, for two numbers of the type in which they are combined."""
    source, program = read_operator(operator)
    run = make_plain(source, program, {}, np.float64)
    convert = np.float64 if operator.type == "real" else int
    return lambda a, b: convert(run(None, convert(a), convert(b), 0)[0])


def size_of(size: Size, sizes: Mapping[str, int]) -> int:
    """Return the value of a size."""
    return size if isinstance(size, int) else sizes[size]
