"""Operators that are a function of two numbers in Python, read as row functions are.

The function is read as a row function without a row: its two arguments are parameters, and what it returns is
a result. Its tree is printed as a function of its own, in float64 or for integers, as results are
combined. It reads no array, and nothing in it can fail: lanes that take no part combine too.
"""

from __future__ import annotations

import ast
import functools
import types

from bmrm.formulas.language.expressions import Given
from bmrm.formulas.language.front import read_program
from bmrm.formulas.language.operators import FunctionOperator
from bmrm.formulas.language.source import FunctionSource, read_definition
from bmrm.formulas.language.tree import Apply, Const, Expr, For, Program, expressions, statements

RETURNED = "the result"
"""Name of what the function returns: no local of a user's can have it."""

MAX_ITERATIONS = 1024
"""Maximum number of iterations of a loop in an operator."""


def read_operator(operator: FunctionOperator) -> tuple[FunctionSource, Program]:
    """Return the text and the tree of an operator; its arguments are two parameters and `RETURNED`.

    Raises
    ------
    ReductionError
        If the function has something that a row function cannot have, or an operation that may fail.
    """
    return _read(operator.function, operator.type)


@functools.lru_cache(maxsize=256)
def _read(function: types.FunctionType, kind: str) -> tuple[FunctionSource, Program]:
    source = read_definition(function)
    _return_a_result(source)
    names = source.names[:2]
    program = read_program(source, dict.fromkeys(names, Given((), kind)))
    wrong = _find_fault(program, kind)
    if wrong:
        source.fail(source.tree, wrong)
    return source, program


def _find_fault(program: Program, kind: str) -> str:
    """Return what an operator cannot have and this one has; "" if there is nothing."""
    if program.arrays:
        return "local(...) is not available in an operator"
    if kind == "int" and program.arguments[RETURNED].type == "real":
        return "found a real number, expected a whole one as init is; init=0.0 is a real one"
    if any(isinstance(each, For) and _may_last(each) for each in statements(program.body)):
        return f"found a loop, expected a range of constants with at most {MAX_ITERATIONS} numbers"
    if any(map(_may_fail, expressions(program.body))):
        return "found an operation that may fail, expected a number to divide or shift by"
    return ""


def _may_last(node: For) -> bool:
    """Return whether a loop may be long: nothing in an operator looks whether the pass is to end early."""
    if not (isinstance(node.start, Const) and isinstance(node.stop, Const)):
        return True
    return len(range(int(node.start.value), int(node.stop.value), node.step)) > MAX_ITERATIONS


def _return_a_result(source: FunctionSource) -> None:
    """Make the arguments of a function parameters, and what it returns a result."""
    given, body = source.tree.args, source.tree.body
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    if len(names) != 2 or given.kwonlyargs or given.vararg or given.kwarg or given.defaults:
        source.fail(source.tree, "found other arguments, expected two numbers that it combines")
    for each in ast.walk(source.tree):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id in names:
            source.fail(each, f"{each.id!r} is an argument: it can only be read")
    last = body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        source.fail(last, "found no value that is returned at the end, expected the combined number")
    target = ast.copy_location(ast.Name(RETURNED, ast.Store()), last)
    source.tree.body = [*body[:-1], ast.copy_location(ast.Assign([target], last.value), last)]
    source.row, source.names = "the row", [*names, RETURNED]
    source.dims = dict.fromkeys(names, ())
    source.roles = {**dict.fromkeys(names, "parameter"), RETURNED: "output"}


def _may_fail(expr: Expr) -> bool:
    """Return whether an operation on integers may fail."""
    match expr:
        case Apply("floordiv" | "mod", (a, b), _, _) if a.type != "real":
            return not isinstance(b, Const) or b.value in (0, -1)
        case Apply("shl" | "shr", (_, b), _, _):
            return not isinstance(b, Const) or not 0 <= b.value < 64
    return False
