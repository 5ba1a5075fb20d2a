"""The text of a row function: its arguments, their annotations, and the role of each.

What a row function only reads is a parameter, what it writes is a result, and how it writes it is the
operator that combines the results of several rows. This is the analysis of roles and of combination
operators of Ma and Agrawal (2009, section 4.1), made on Python's syntax tree. There are no pointers, so each
write names its argument.

References
----------
W. Ma and G. Agrawal, A translation system for enabling data mining applications on GPUs, ICS 2009.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from bmrm.errors import ReductionError
from bmrm.formulas.language.function_table import KNOWN
from bmrm.formulas.language.operators import (
    ReductionOperator,
    all_signs,
    find_extremum,
    find_function,
    find_sign,
    sign_text,
)
from bmrm.formulas.language.tree import Axis, Size, SourceLine

OPTIONS = ("device", "keep", "order", "threads")
"""Names of the options of a call, which no argument may have."""

ROWS = "rows"
"""The first size of an argument of which each row has its own; the function sees that of its row."""

TYPES: dict[Any, str] = {int: "int", float: "real", bool: "bool"}


@dataclass
class FunctionSource:
    """A row function as its author wrote it.

    Attributes
    ----------
    function : function
    tree : ast.FunctionDef
    first_line : int
        Line of its file that is line 1 of the tree.
    row : str
        Name of the row.
    width : str
        Name of the size of the row.
    names : list of str
        The other arguments.
    dims : dict of str to tuple or None
        Sizes of annotated arguments, without `ROWS`; None without an annotation of shape.
    axes : dict of str to tuple of Axis
        Of the arguments whose annotation has `ROWS`.
    types : dict of str to str
        Types of arguments whose annotation says one.
    roles : dict of str to str
        See `bmrm.formulas.language.tree.Argument`; "parameter" for what is only read.
    operators : dict of str to ReductionOperator
        Of the results that are combined over rows.
    leaders : dict of str to str
        For results that are set together with another one: its name.
    numbers : tuple of str
        Arguments that are numbers of the row's own, of a function that is inlined.
    prefix : str
        What the names of such a function begin with, where it is inlined.
    helpers : dict of str to FunctionSource
        The plain functions that it calls, by the text of their names.
    words : dict of str to object
        What names mean that are in the tree but not in the text.
    may_be_empty : tuple of str
        Sizes that may be 0, over which the function only loops.
    is_of_points : bool
        Whether only arguments that say so have a value for each row.
    reworded : function
        Makes of an error's text, which speaks of the tree, one that speaks of the function as it is written.
    """

    function: types.FunctionType
    tree: ast.FunctionDef
    first_line: int
    row: str = ""
    width: str = "d"
    names: list[str] = field(default_factory=list)
    dims: dict[str, tuple[Size, ...] | None] = field(default_factory=dict)
    axes: dict[str, tuple[Axis, ...]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    operators: dict[str, ReductionOperator] = field(default_factory=dict)
    leaders: dict[str, str] = field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    prefix: str = ""
    helpers: dict[str, FunctionSource] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)
    may_be_empty: tuple[str, ...] = ()
    is_of_points: bool = False
    reworded: Callable[[str], str] = str

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    def fail(self, node: ast.AST | int, text: str) -> NoReturn:
        """Raise `ReductionError` for a line of the function."""
        said = self.reworded(text.replace(self.prefix, "") if self.prefix else text)
        raise ReductionError(f"{self.name}, line {self.line(node)}: {said}")

    def line(self, node: ast.AST | int) -> SourceLine:
        """Return the number of a line in its file."""
        inner = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return SourceLine(self.first_line + inner - 1, self.name)

    @functools.cached_property
    def own(self) -> set[str]:
        """Names that the function assigns, except its arguments: they hide all others."""
        names = (node for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        found = {node.id for node in names if isinstance(node.ctx, (ast.Store, ast.Del))}
        return (found | set(self.numbers)) - set(self.roles) - {self.row}

    def called(self, node: ast.Call) -> Any:
        """Return the function that a call means, as ``f`` or ``module.f``; None if there is none."""
        match node.func:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)):
                is_other = name not in self.own and name not in self.roles
                return self._meaning(ast.unparse(node.func)) if is_other else None
        return None

    def _meaning(self, text: str) -> Any:
        """Return what ``f`` or ``module.f`` means."""
        name, _, attr = text.removeprefix(self.prefix).partition(".")
        found = self.resolve(name)
        if not attr:
            return found
        return getattr(found, attr, None) if isinstance(found, types.ModuleType) else None

    def helper_of(self, node: ast.Call) -> FunctionSource | None:
        """Return the plain Python function that a call means; None if it means something else."""
        found = self.called(node)
        if not isinstance(found, types.FunctionType) or id(found) in KNOWN or find_function(found):
            return None
        text = ast.unparse(node.func).removeprefix(self.prefix)
        if text not in self.helpers or self.helpers[text].function is not found:
            self.helpers[text] = read_helper(found)
        return self.helpers[text]

    def helper_functions(self) -> tuple[Any, ...]:
        """Return what its helpers are now: another function may have got the name of one."""
        return tuple(
            each
            for text, helper in self.helpers.items()
            for each in (self._meaning(text), *helper.helper_functions())
        )

    def resolve(self, name: str) -> Any:
        """Return what a name outside of the function means; None if nothing."""
        code, name = self.function.__code__, name.removeprefix(self.prefix)
        if name in self.words:
            return self.words[name]
        if name in code.co_freevars and self.function.__closure__ is not None:
            cell = self.function.__closure__[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:  # assigned later
                return None
        found = self.function.__globals__.get(name)
        return getattr(builtins, name, None) if found is None else found


def read_definition(function: Callable[..., Any], what: str = "reduction") -> FunctionSource:
    """Read the text of a function that is to be compiled."""
    if not isinstance(function, types.FunctionType):
        kind = type(function).__name__
        raise ReductionError(f"{what}: found an object of type {kind}, expected a function defined by def")
    name = function.__name__
    try:
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines))
        tree = ast.parse(text if not text[:1].isspace() else "if 1:\n" + text)
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError, IndexError):
        raise ReductionError(
            f"{name}: found no source text, expected a function from a file or a notebook"
        ) from None
    definition = tree.body[0]
    if isinstance(definition, ast.If):
        definition = definition.body[0]
    if not isinstance(definition, ast.FunctionDef) or definition.name != name:
        kind = "an async function" if isinstance(definition, ast.AsyncFunctionDef) else "a lambda"
        raise ReductionError(f"{name}: found {kind}, expected a function defined by def")
    return FunctionSource(function, definition, max(first, 1))


def read_helper(function: types.FunctionType) -> FunctionSource:
    """Read the text of a plain function that a row function calls."""
    found = read_definition(function)
    given = found.tree.args
    if hasattr(function, "__wrapped__"):
        found.fail(found.tree, "found a wrapped function, expected a plain one")
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        found.fail(found.tree, "found arguments with * or a default value, expected plain ones")
    found.names = [each.arg for each in (*given.posonlyargs, *given.args)]
    found.roles = dict.fromkeys(found.names, "parameter")
    return found


def read_source(function: Callable[..., Any]) -> FunctionSource:
    """Read the text of a row function, and find the role of each argument.

    Raises
    ------
    ReductionError
        If the function is not one that can be a row function.

    Examples
    --------
    >>> def total(x, out):
    ...     out += x[0]
    >>> read_source(total).roles
    {'out': 'sum'}
    """
    found = read_definition(function)
    read_arguments(found, OPTIONS)
    find_roles(found)
    return found


def find_roles(source: FunctionSource) -> None:
    """Find the role of each argument."""
    try:
        for statement in source.tree.body:
            _find_roles(source, statement)
    except RecursionError:
        raise ReductionError(
            f"{source.name}: found code nested too deeply, expected shorter expressions"
        ) from None


def read_arguments(source: FunctionSource, options: tuple[str, ...]) -> None:
    """Read the arguments and their annotations; none may have the name of an option of a call."""
    given = source.tree.args
    extra = given.vararg or given.kwarg
    if extra is not None:
        source.fail(extra, f"found *{extra.arg}, expected arguments with names")
    if given.defaults or any(default is not None for default in given.kw_defaults):
        source.fail(source.tree, "found a default value, expected arguments without one")
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    if not arguments:
        source.fail(source.tree, "found no argument, expected the row first")
    row, *others = arguments
    source.row = row.arg
    dims, _ = _read_annotation(source, row, options)
    if dims is not None:
        if len(dims) != 1 or not isinstance(dims[0], str) or dims[0] == ROWS:
            source.fail(row, f"{row.arg!r} is the row: its annotation names one size")
        source.width = dims[0]
    for argument in others:
        name = argument.arg
        if name in options:
            source.fail(argument, f"{name!r} is an option of the call; choose another name")
        source.names.append(name)
        dims, kind = _read_annotation(source, argument, options)
        if dims and dims[0] == ROWS:
            source.axes[name], dims = (source.row,), dims[1:]
        source.dims[name] = dims
        if dims and ROWS in dims:
            source.fail(argument, f"{name!r}: {ROWS!r} is the number of rows, expected it once and first")
        if kind:
            source.types[name] = kind
        source.roles[name] = "parameter"


def _read_annotation(
    source: FunctionSource, argument: ast.arg, options: tuple[str, ...]
) -> tuple[tuple[Size, ...] | None, str]:
    """Return sizes and type that an annotation says; None or "" if it does not say that."""
    node, name = argument.annotation, argument.arg
    if node is None:
        return None, ""
    found = _evaluate_annotation(source, node, name)
    if found in (int, float, bool):
        return (), TYPES[found]
    sizes: list[Size] = []
    for value in found if isinstance(found, tuple) else (found,):
        if isinstance(value, str) and value.isidentifier():
            if value in options:
                source.fail(
                    argument, f"{name!r}: the size {value!r} is an option of the call; choose another"
                )
            sizes.append(value)
        elif type(value) is int and 1 <= value < 2**31:
            sizes.append(value)
        else:
            text = ast.unparse(node)
            source.fail(argument, f'{name!r}: found the annotation {text}, expected sizes like ("k", "d")')
    return tuple(sizes), ""


def _evaluate_annotation(source: FunctionSource, node: ast.expr, name: str) -> Any:
    """Return the value of an annotation, also if the module delays all of them."""
    try:
        found = source.function.__annotations__[name]
    except Exception:  # whatever it raises: since Python 3.14 it is evaluated here
        found = None
    delayed = isinstance(found, str) and not isinstance(node, ast.Constant)
    if isinstance(node, ast.Constant) and isinstance(found, str):
        found = node.value
    if not delayed and found is not None:
        return found
    parts = [_read_size(source, part) for part in (node.elts if isinstance(node, ast.Tuple) else [node])]
    return tuple(parts) if isinstance(node, ast.Tuple) else parts[0]


def _read_size(source: FunctionSource, part: ast.expr) -> Any:
    """Read a size in a delayed annotation, where a name needs no quotes: a number has its value."""
    if isinstance(part, ast.Constant):
        return part.value
    if not isinstance(part, ast.Name):
        return None
    value = source.resolve(part.id)
    return value if value in (int, float, bool) or type(value) is int else part.id


def target_name(node: ast.AST) -> str | None:
    """Return the name of an assignment's target: of ``a`` in ``a``, ``a[i]`` and ``a[i][j]``."""
    inner = node
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) else None


def as_loaded(target: ast.expr) -> ast.expr:
    """Return the target of an assignment as a value."""
    found = copy.deepcopy(target)
    for each in ast.walk(found):
        if isinstance(each, (ast.Name, ast.Subscript)):
            each.ctx = ast.Load()
    return found


def same(a: ast.AST, b: ast.AST) -> bool:
    """Return whether two expressions have the same text."""
    return ast.unparse(a) == ast.unparse(b)


def pairs_of(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets with their values; a tuple that is assigned a tuple yields its elements."""
    for target in statement.targets:
        value = statement.value
        if (
            isinstance(target, ast.Tuple)
            and isinstance(value, ast.Tuple)
            and len(target.elts) == len(value.elts)
        ):
            yield from zip(target.elts, value.elts, strict=True)
        else:
            yield target, value


@dataclass(frozen=True)
class Extremum:
    """An ``if`` that keeps the least or greatest value, with results that are set together with it."""

    op: ReductionOperator
    target: ast.expr
    value: ast.expr
    others: tuple[tuple[ast.expr, ast.expr], ...]


def match_extremum(source: FunctionSource, statement: ast.If) -> Extremum | None:
    """Recognise ``if e < best[j]: best[j], who[j] = e, x.index``, and the other ways to write it."""
    test = statement.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1) or statement.orelse:
        return None
    left, right, sign = test.left, test.comparators[0], test.ops[0]
    if not isinstance(sign, (ast.Lt, ast.Gt)):
        return None
    least = isinstance(sign, ast.Lt)
    if target_name(right) in source.roles and _is_written(statement, right):
        target, value = right, left
    elif target_name(left) in source.roles and _is_written(statement, left):
        target, value, least = left, right, not least
    else:
        return None
    if not all(isinstance(inner, ast.Assign) for inner in statement.body):
        return None
    others = []
    for inner in statement.body:
        assert isinstance(inner, ast.Assign)
        for one, what in pairs_of(inner):
            if same(one, target):
                if not same(what, value):
                    return None
            elif target_name(one) in source.roles:
                others.append((one, what))
            else:
                return None
    order = "lt" if least else "gt"
    return Extremum(find_extremum(order, bool(others)), target, value, tuple(others))


def _is_written(statement: ast.If, target: ast.expr) -> bool:
    return any(
        same(one, target)
        for inner in statement.body
        if isinstance(inner, ast.Assign)
        for one, _ in pairs_of(inner)
    )


def match_update(
    source: FunctionSource, target: ast.expr, value: ast.expr
) -> tuple[ReductionOperator, ast.expr] | None:
    """Recognise ``t = t + e``, ``t = min(t, e)`` and the like: return the operator and e.

    The target may also come second, but for ``t = e - t``.
    """
    match value:
        case ast.Call(args=[a, b], keywords=[]):
            operator, negative = find_function(source.called(value)), False
        case ast.BinOp(left=a, right=b, op=sign):
            operator, negative = find_sign(sign) or (None, False)
        case _:
            return None
    if operator is not None and same(a, target):
        return operator, negated(b) if negative else b
    return (operator, a) if operator is not None and same(b, target) and not negative else None


def negated(value: ast.expr) -> ast.expr:
    """Return the negative of a value."""
    return ast.copy_location(ast.UnaryOp(ast.USub(), value), value)


def _find_roles(source: FunctionSource, statement: ast.stmt) -> None:
    match statement:
        case ast.AugAssign(target=target, op=op):
            name = target_name(target)
            if name in source.roles:
                found = find_sign(op)
                if found is None:
                    source.fail(statement, f"{name!r}: found {sign_text(op)}=, expected {all_signs()}")
                _set_operator(source, statement, name, found[0])
            _check_row(source, target)
        case ast.Assign():
            for one, value in pairs_of(statement):
                _find_assigned(source, statement, one, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            _find_assigned(source, statement, target, value)
        case ast.If():
            extremum = match_extremum(source, statement)
            if extremum is None:
                for inner in [*statement.body, *statement.orelse]:
                    _find_roles(source, inner)
                return
            leader = target_name(extremum.target)
            assert leader is not None
            _set_operator(source, statement, leader, extremum.op)
            for other, _ in extremum.others:
                name = target_name(other)
                assert name is not None
                _set_role(source, statement, name, "other")
                if source.leaders.setdefault(name, leader) != leader:
                    source.fail(statement, f"{name!r} is set with {source.leaders[name]!r} above")
        case ast.For() | ast.While():
            for inner in [*statement.body, *statement.orelse]:
                _find_roles(source, inner)


def _find_assigned(source: FunctionSource, statement: ast.stmt, target: ast.expr, value: ast.expr) -> None:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            _find_assigned(source, statement, part, value)
        return
    _check_row(source, target)
    name = target_name(target)
    if name not in source.roles:
        return
    found = match_update(source, target, value)
    if found is not None:
        _set_operator(source, statement, name, found[0])
    elif isinstance(target, ast.Name) or name in source.axes:
        _set_role(source, statement, name, "output")
    else:
        source.fail(
            statement,
            f"{name!r} is assigned, expected {all_signs()}, or = min(itself, ...), = max(itself, ...)",
        )


def _check_row(source: FunctionSource, target: ast.expr) -> None:
    if target_name(target) == source.row:
        source.fail(target, f"{source.row!r} is the row: it can only be read")


def _set_operator(
    source: FunctionSource, statement: ast.stmt, name: str, operator: ReductionOperator
) -> None:
    before = source.operators.setdefault(name, operator)
    if before is not operator and before.name == operator.name:
        source.fail(
            statement, f"{name!r} is {operator.about} above, and by another function of this name here"
        )
    _set_role(source, statement, name, operator.name)
    source.operators[name] = operator


def _set_role(source: FunctionSource, statement: ast.stmt, name: str, role: str) -> None:
    before = source.roles[name]
    if before not in ("parameter", role):
        words = {"output": "assigned", "other": "set with another"}
        said = [words.get(each, f"combined by {each}") for each in (before, role)]
        source.fail(statement, f"{name!r} is {said[0]} above and {said[1]} here")
    if name.startswith("_"):
        source.fail(statement, f"{name!r} is a result: its name may not begin with _")
    dims = source.dims[name]
    if role == "output" and dims and name not in source.axes:
        expected = ", ".join(map(repr, (ROWS, *dims)))
        source.fail(
            statement,
            f"{name!r} is assigned, so that each row has its own: expected the annotation ({expected})",
        )
    source.roles[name] = role
