# ruff: noqa: F821, F841 (annotations name sizes; results are assigned and not read)
"""What the front end finds in row functions, and the errors for what a row function cannot have."""

import importlib
import math
import sys
import types
import warnings

import numpy as np
import pytest

from bmrm.errors import ReductionError
from bmrm.formulas.analysis.bounds import IndexBounds
from bmrm.formulas.language.expressions import Given
from bmrm.formulas.language.front import read_program
from bmrm.formulas.language.source import read_source
from bmrm.formulas.language.tree import Combine, For, Load, RowItem, SizeOf, parts, statements
from bmrm.reductions import dot, exp, inf, local, squared_distance


def read(function, **given):
    return read_program(read_source(function), given)


def test_roles_and_operators_are_found():
    def everything(
        x, p, c: ("k", "d"), s, m: "k", mx, o: (), a: (), best: "k", who: "k", where: "k", each, flag: bool
    ):
        s += p * x[0]
        m[0] = min(m[0], c[0, 1])
        mx = max(mx, x[1])
        o |= 1
        a &= int(x[0])
        if x[0] < best[1]:
            best[1] = x[0]
            who[1], where[1] = x.index, 2.0
        each = 3
        flag = x[0] > 1

    found = read(everything)
    roles = {name: argument.role for name, argument in found.arguments.items()}
    assert roles == {
        "p": "parameter",
        "c": "parameter",
        "s": "sum",
        "m": "min",
        "mx": "max",
        "o": "or",
        "a": "and",
        "best": "argmin",
        "who": "other",
        "where": "other",
        "each": "output",
        "flag": "output",
    }
    assert [found.arguments[name].leader for name in ("who", "where", "best")] == ["best", "best", ""]
    types_ = {name: argument.type for name, argument in found.arguments.items()}
    assert [types_[n] for n in ("who", "where", "each", "flag", "p", "mx")] == [
        "int",
        "real",
        "int",
        "bool",
        "any",
        "real",
    ]


@pytest.mark.parametrize(
    "role",
    ["out += x[0]", "out = out + x[0]", "out = x[0] + out", "out -= x[0]", "out = out - x[0]",
     "out = min(x[0], out)", "out = max(x[0], out)", "if x[0] < out: out = x[0]", "if out > x[0]: out = x[0]",
     "out = min(out, x[0])", "if x[0] > out: out = x[0]", "out = max(out, x[0])", "out = x[0]"],
)  # fmt: skip
def test_each_way_to_write_an_operator(role):
    function = made(f"def row(x, out):\n    {role}\n")
    least = ("<" in role and "x[0] <" in role) or "out >" in role or "min" in role
    expected = (
        "sum"
        if "+" in role or "-" in role
        else "min"
        if least
        else "output"
        if role == "out = x[0]"
        else "max"
    )
    assert read(function).arguments["out"].role == expected


def made(text):
    """Make a function of a text that can be found again."""
    import linecache

    name = f"<made {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"local": local, "exp": exp, "inf": inf, "dot": dot, "math": math, "np": np}
    exec(compile(text, name, "exec"), scope)
    return next(f for f in scope.values() if (isinstance(f, types.FunctionType) and f.__module__ is None) or
                (isinstance(f, types.FunctionType) and f.__code__.co_filename == name))  # fmt: skip


def test_types_grow_until_they_have_room():
    def row(x, k, out: "m"):
        a = 0
        b = True
        c = a
        for j in range(k):
            c = a
            a = a + x[j]
        out[0] += c + b

    found = read(row, k=Given((), "int"))
    assert found.locals["a"] == found.locals["c"] == "real"
    assert found.locals["b"] == "bool"
    assert found.arguments["out"].type == "real"


def test_loop_variables_may_be_used_again():
    def row(x, out: "d"):
        for f in range(len(x)):
            out[f] += 1
        for f in range(2, len(x)):
            for g in range(f, 0, -1):
                out[g] += 1
        f = 0
        out[f] += 1

    counters = [s.name for s in statements(read(row).body) if isinstance(s, For)]
    assert counters == ["f.1", "f.2", "g.3"]


def test_indices_that_need_no_check():
    def row(x, c: ("k", "d"), bins: ("k", "b"), n, out: "k"):
        at = 0
        for j in range(len(c)):
            for f in range(1, len(x)):
                if x[f] > c[j, f - 1]:
                    at = j
        out[at] += 1
        out[len(out) - 1] += 1
        b = min(max(int(x[0]), 0), len(bins[0]) - 1)
        out[-1] += bins[at, b]
        out[n % len(out)] += 1
        out[n] += 1
        for j in range(len(c) - 1, -1, -1):
            out[j] += 1
            out[j + 1] += 1

    program = read(row, n=Given((), "int"))
    bounds = IndexBounds(program)
    inside = []
    for statement in statements(program.body):
        if isinstance(statement, Combine):
            (index,) = statement.index
            inside.append(bounds.inside(index, "k"))
    assert inside == [True, True, True, True, False, True, False]
    loads = [
        e for s in statements(program.body) for e in ([] if not isinstance(s, Combine) else parts(s.value))
    ]
    assert [bounds.inside(e.index[1], "b") for e in loads if isinstance(e, Load)] == [True]
    assert bounds.narrow("at")


def test_products_with_the_row_become_loops():
    def row(x, w: "d", c: ("k", "d"), out: ()):
        for j in range(len(c)):
            out += dot(x, w) * squared_distance(x, c[j])

    dense = read_program(read_source(row))
    sparse = read_program(read_source(row), sparse=True)
    assert any(isinstance(p, RowItem) for s in statements(dense.body) for p in _all(s))
    assert sparse.squares == ("c",)


def _all(statement):
    from bmrm.formulas.language.tree import direct_expressions

    for expr in direct_expressions(statement):
        yield from parts(expr)


def test_sizes_are_names_or_numbers():
    size = 3

    def row(x: "p", c: (size, "p"), out: (2, "size")):
        for f in range(len(x)):
            out[1, 0] += c[2, f]

    program = read(row)
    assert program.width == "p"
    assert program.arguments["c"].dims == (3, "p")
    assert program.arguments["out"].dims == (2, "size")
    loop = next(s for s in program.body if isinstance(s, For))
    assert loop.stop == SizeOf("p")


WRONG = {
    "out += x[0] * out": "line 2: 'out' is a result: its value exists only after the pass",
    "out += sorted(x)[0]": "'sorted' is not a function that a row function can call; there are abs, atan2",
    "out /= x[0]": "line 2: 'out': found /=, expected +=, -=, *=, |=, &= or ^=",
    "out = x[0] - out": "line 2: 'out' is a result and has no value here yet",
    "out = out - out": "line 2: 'out' is a result: its value exists only after the pass",
    "out = np.logaddexp(out, out)": "line 2: 'out' is a result: its value exists only after the pass",
    "out += np.logaddexp(x[0], x[1])": "'np.logaddexp' combines a result here: out = np.logaddexp(out, ...)",
    "out *= x[0]\n    out += x[1]": "line 3: 'out' is combined by product above and combined by sum here",
    "out ^= x[0]": "line 2: 'out': ^= combines integers",
    "out += x[0] * gamma": "'gamma' is not known here; parameters are arguments of the row function",
    "out += x[0]\n    out = max(out, x[1])": "line 3: 'out' is combined by sum above and combined by max",
    "while out:\n        out += 1.0": "line 2: 'out' is a result: its value exists only after the pass",
    "while x[0] > 0:\n        out += 1\n    else:\n        out += 2": "line 2: else of a loop is not",
    "for j in range(3):\n        out += 1\n    else:\n        out += 2": "line 2: else of a loop is not",
    "while True:\n        out += 1": "line 2: found a loop that never ends, expected a break in it",
    "while 1:\n        while 1:\n            break\n    out += 1": "line 2: found a loop that never ends",
    "while x[0] > 0:\n        a = 1\n        break\n    out += a": "line 5: 'a' may have no value here",
    "while True:\n        if x[0]:\n            break\n        a = 1\n    out += a": "line 6: 'a' may have",
    "if x[0] > 0:\n        return\n    out += 1": "line 3: return is not available in a row function",
    "out[0] += 1": "'out' is a result with an index: its annotation must give its shape",
    "out += x[0.5]": "an index is an integer; int(...) converts to one",
    "out += x[0, 1]": "'x' is one row: it has one index",
    "out += x": "'x' is the row: read its elements, as x[f]",
    "x[0] = 1\n    out += 1": "'x' is the row: it can only be read",
    "x += 1\n    out += 1": "'x' is the row: it can only be read",
    "out += a": "'a' is not known here",
    "if x[0] > 0:\n        a = 1\n    out += a": "'a' may have no value here",
    "for j in range(3):\n        a = 1\n    out += a": "'a' may have no value here",
    "for j in range(3):\n        out += 1\n    out += j": "'j' may have no value here",
    "for j in range(x[0]):\n        out += 1": "range takes integers",
    "for j in range(3):\n        j = 1\n        out += j": "'j' counts a loop: it cannot be assigned",
    "for j in x:\n        out += 1": "a loop runs over range(...) or x.stored() here",
    "for j in range(0, 3, 0):\n        out += 1": "the step of range must be a constant other than 0",
    "for f in x.stored():\n        out += 1": "found one loop variable, expected two",
    "for j in range(2):\n        q = local(3)\n    out += 1": "local(...) must be outside of loops",
    "q = local(3)\n    out += q": "'q' is an array: read its elements, as q[j]",
    "q = local(3)\n    q = 2\n    out += 1": "'q' is a local array: its elements can be assigned",
    "q = local(0.5)\n    out += q[0]": "local takes sizes",
    "q = 1\n    out += q[0]": "'q' is a number here, not an array",
    "out += x[0] and 1": "'and' joins conditions here, found a number; compare it with 0",
    "out += 1 if 'a' else 2": "text is not available in a row function",
    "out += [x[0]][0]": "a list has no elements in a row function",
    "out += (lambda: 1)()": "is not a function that a row function can call",
    "out += x[0:2]": "slices are not available in a row function",
    "out += exp(x[0], 2)": "exp takes 1 argument, found 2",
    "out += exp(a=x[0])": "exp takes arguments by position",
    "out += x[0] << 2": "&, |, ^, << and >> take integers",
    "out += int(x[0]) ** int(x[1])": "a power of integers takes an exponent from 1 to 8",
    "out += x[0] @ x[1]": "@ is not available in a row function",
    "out += x[0] in x": "in is not available in a row function",
    "out |= x[0]": "'out': |= combines integers",
    "out //= x[0]": "'out': found //=, expected",
    "return x[0]": "return is not available in a row function",
    "print(x[0])\n    out += 1": "found a value that nothing uses",
    "a, b = x[0]\n    out += a": "found 2 targets, expected the same number of values",
    "out += len(3)": "len takes the row or an array",
    "out += dot(x, x)": "dot takes the row 'x' and a row of a parameter",
    "out += x.size": "the row has index and stored(), found 'size'",
    "out += 2**70": "a power of integers takes an exponent from 1 to 8",
    f"out += {2**70}": "expected an integer of at most 64 bits",
    "pass": "found no result, expected an argument that the function writes",
    "import os\n    out += 1": "import is not available in a row function",
    "del x\n    out += 1": "delete is not available in a row function",
    "out = min(out, x[0])\n    y = out": "'out' is a result",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_names_the_line_and_what_is_allowed(text):
    with pytest.raises(ReductionError) as found:
        read(made(f"def row(x, out):\n    {text}\n"))
    assert WRONG[text] in str(found.value)
    assert str(found.value).startswith("row, line ")


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("def row():", "found no argument, expected the row first"),
        ("def row(x, *out):", "found *out, expected arguments with names"),
        ("def row(x, **out):", "found *out, expected arguments with names"),
        ("def row(x, out=1):", "found a default value"),
        ("def row(x, threads, out):", "'threads' is an option of the call"),
        ("def row(x, c: ('order', 2), out):", "the size 'order' is an option of the call"),
        ("def row(x, c: [1], out):", "found the annotation [1], expected sizes like"),
        ("def row(x, c: 0, out):", "found the annotation 0, expected sizes like"),
        ("def row(x: 3, out):", "'x' is the row: its annotation names one size"),
        ("async def row(x, out):", "found an async function"),
        ("def row(x, out, _s):\n    _s += 1", "its name may not begin with _"),
        ("def row(x: 'rows', out):", "'x' is the row: its annotation names one size"),
        (
            "def row(x, p: ('k', 'rows'), out):",
            "'p': 'rows' is the number of rows, expected it once and first",
        ),
        ("def row(x, p: ('rows', 'rows'), out):", "'p': 'rows' is the number of rows, expected it once"),
        ("def row(x, out, r: 'k'):\n    r = x[0]", "expected the annotation ('rows', 'k')"),
    ],
)
def test_an_error_in_the_arguments(head, text):
    with pytest.raises(ReductionError) as found:
        read(made(f"{head}\n    out += 1\n"))
    assert text in str(found.value)


OWN_WRONG = {
    "r[x.index, 0] += 1": "'r' has 1 dimensions for each row, found an index of 2",
    "r += 1": "'r' has 1 dimensions for each row, found an index of 0",
    "r = x[0]": "'r' is a result with an index: its elements can be assigned",
    "r[0] /= 2": "'r': found /=, expected +=, -=, *=, |=, &= or ^=",
    "r[0] = 1\n    r[1] += 1": "'r' is assigned above and combined by sum here",
    "r[0] += 1\n    n += r[0]": "'r' is a result and cannot be read here; one with an index that is",
    "n += 1\n    r[0] = n": "'n' is a result and cannot be read here",
    "r[0] = 1\n    n += r": "'r' is an array: read its elements, as r[j]",
    "r[0.5] = 1": "an index is an integer; int(...) converts to one",
    "r[0] |= x[0]": "'r': |= combines integers",
    "n = 1\n    n[0] = 2": "'n' is one number for each row, found an index",
    "q = local('rows')\n    n += q[0]": "'rows' is the number of rows: no local array has this size",
    "if x[0] < n:\n        n, r[0] = x[0], 1": "'r' has another index or shape than 'n', expected the same",
    "if x[0] < n:\n        n, out = x[0], 1": "'out' has another index or shape than 'n', expected the same",
    "n += len(n)": "'n' has 0 dimensions, found dimension 1",
}


@pytest.mark.parametrize("text", OWN_WRONG)
def test_an_error_in_a_result_of_each_row_names_the_line(text):
    with pytest.raises(ReductionError) as found:
        read(made(f"def row(x, out: (), r: ('rows', 'k'), n: 'rows'):\n    {text}\n"))
    assert OWN_WRONG[text] in str(found.value)
    assert str(found.value).startswith("row, line ")


def test_a_number_that_is_assigned_has_no_elements():
    with pytest.raises(ReductionError, match="'out' is a result: its value exists only after the pass"):
        read(made("def row(x, out, s):\n    out = x[0]\n    s += out[0]\n"))


@pytest.mark.parametrize("what", [3, len, int, print, "text", lambda x, out: 1, np.sum, object()])
def test_what_is_no_function(what):
    with pytest.raises(ReductionError, match="expected a function"):
        read_program(read_source(what))


MODULES = sorted(set(sys.stdlib_module_names) - {"antigravity", "this", "idlelib", "turtledemo", "turtle"})


def test_no_function_of_the_standard_library_breaks_the_front_end():
    """Every function is either a row function or gets one clear error."""
    seen, refused = set(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in MODULES[::3]:
            try:
                module = importlib.import_module(name)
            except BaseException:
                continue
            found = list(vars(module).values())
            for each in list(found):
                if isinstance(each, type):
                    found += vars(each).values()
            for each in found:
                function = getattr(each, "__func__", each)
                if not callable(function) or id(function) in seen:
                    continue
                seen.add(id(function))
                try:
                    read_program(read_source(function))
                except ReductionError:
                    refused += 1
    assert len(seen) > 1000
    assert refused > 0.99 * len(seen)
