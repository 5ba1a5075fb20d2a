# ruff: noqa: F821, F841 (annotations name sizes; results are not read)
"""`while`, `break` and `continue` in row functions, and functions that they call, on the CPU."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from loop_programs import CASES

from bmrm.errors import ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import inf, local, operator, reduction

compiled = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def rows_of(count, dtype=np.float64):
    X = np.random.default_rng(count).integers(-32, 33, (count, 5)) / 16
    return X.astype(dtype)


def check(found, expected, tolerance=1e-9):
    for name, mine, theirs in zip(found._fields, found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance, err_msg=name)


@compiled
@pytest.mark.parametrize("rows", [0, 1, 33, 5000])
@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_numpy_gives(name, rows):
    case, X = CASES[name], rows_of(rows)
    found = case.reduction(X, device="cpu", threads=2, **case.arguments(len(X)))
    check(found, case.by_numpy(X, **case.arguments(len(X))))
    one = case.reduction(X, device="cpu", threads=1, **case.arguments(len(X)))
    assert all(np.array_equal(a, b) for a, b in zip(found, one, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_plain_loop_gives_it_too(name):
    case, X = CASES[name], rows_of(60)
    check(case.reduction.python(X, **case.arguments(len(X))), case.by_numpy(X, **case.arguments(len(X))))


@compiled
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].sparse])
def test_sparse_rows(name):
    case, X = CASES[name], rows_of(300)
    X[np.abs(X) < 0.5] = 0
    sparse = scipy.sparse.csr_array(X)
    found = case.reduction(sparse, device="cpu", **case.arguments(len(X)))
    check(found, case.by_numpy(X, **case.arguments(len(X))))
    check(case.reduction.python(sparse[:50], **case.words), case.by_numpy(X[:50], **case.words))


@compiled
@pytest.mark.parametrize("name", ["Mandelbrot", "binary search", "first near", "walk"])
def test_rows_of_float32(name):
    case, X = CASES[name], rows_of(500, np.float32)
    found, plain = (run(X, **case.arguments(len(X))) for run in (case.reduction, case.reduction.python))
    check(found, plain, 1e-4)


# --- functions that a row function calls


def made(text, **names):
    """The functions of a text, whose lines are found as those of a file."""
    import linecache

    name = f"<functions {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"inf": inf, "local": local, **names}
    exec(compile(text, name, "exec"), scope)
    return scope


HELPERS = {
    "def f(a):\n    return f(a - 1) if a > 0 else a\n": "f, line 2: 'f' calls itself, expected a function",
    "def g(a):\n    return f(a)\ndef f(a):\n    return g(a)\n": "g, line 2: 'f' calls itself",
    "def f(a, b=2.0):\n    return a * b\n": "f, line 1: found arguments with * or a default value",
    "def f(*a):\n    return 1.0\n": "f, line 1: found arguments with * or a default value",
    "def f(a):\n    if a > 0:\n        return a\n": "f, line 1: found a path without return",
    "def f(a):\n    return\n": "f, line 2: found nothing that a function returns, expected one number",
    "def f(a):\n    return a, a\n": "f, line 2: found several values that a function returns",
    "def f(a):\n    q = local(3)\n    return q[0]\n": "f, line 2: local(...) is not available in a function",
    "def f(a):\n    return b\n": "f, line 2: 'b' is not known here",
    "def f(a):\n    if a > 0:\n        b = a\n    return b\n": "f, line 4: 'b' may have no value here",
    "def f(a):\n    while True:\n        a += 1\n": "f, line 2: found a loop that never ends",
    "def f(a):\n    return a[0]\n": "f, line 2: 'a' is a number here, not an array",
    "def f(a):\n    a[0] = 1\n    return a[0]\n": "f, line 2: 'a' is an argument: its elements can only be",
    "f = lambda a: a\n": "<lambda>: found a lambda, expected a function defined by def",
    "def f(a, b):\n    return a\n": "row, line 2: f takes 2 arguments, found 1",
    "def f(a):\n    yield a\n": "f, line 2: found a value that nothing uses",
}  # fmt: skip


@pytest.mark.parametrize("text", HELPERS)
def test_an_error_in_a_function_names_its_line(text):
    scope = made(text)
    row = made("def row(x, out):\n    out += f(x[0])\n", f=scope["f"])["row"]
    with pytest.raises(ReductionError) as found:
        reduction(row)
    assert str(found.value).startswith(HELPERS[text])


def test_functions_within_functions_have_a_limit():
    lines = ["def f0(a):", "    return a + 1"]
    for i in range(1, 11):
        lines += [f"def f{i}(a):", f"    return f{i - 1}(a) + f{i - 1}(a)"]
    scope = made("\n".join([*lines, "def row(x, out):", "    out += f8(x[0])", ""]))
    assert reduction(scope["row"])(np.zeros((2, 1))).out == 2 * 2**8
    row = made("def row(x, out):\n    out += f10(x[0])\n", f10=scope["f10"])["row"]
    with pytest.raises(ReductionError, match=r"f1, line 4: found more than 1000 calls of functions"):
        reduction(row)


@pytest.mark.parametrize("call", ["f(a=x[0])", "f(*x)", "f(out)"])
def test_what_a_call_cannot_be(call):
    row = made(f"def f(a):\n    return a\ndef row(x, out):\n    out += {call}\n")["row"]
    with pytest.raises(ReductionError, match=r"row, line 4: f takes arguments by|'out' is a result"):
        reduction(row)


def weighted(row, p, j):
    total = 0.0
    for f in range(len(row)):
        total += row[f] * p[f] * len(p)
    return total if row[0] > p[j] else total - row.index


def sign(a):
    if a < 0:
        return -1
    if a > 0:
        return 1
    return 0


def largest(z):
    best = z[0]
    for i in range(1, len(z)):
        if not z[i] > best:
            continue
        best = z[i]
    return best


@reduction
def of_rows(x, p, q: ("k", "d"), n: "m", out, signs: 3, whole: int):
    own = local("k")
    for j in range(len(q)):
        own[j] = weighted(x, q[j], j % 2) + weighted(x, p, 0)
    out += largest(own) + largest(x) + largest(q[-1]) + largest(q[int(p[0]) % len(q)])
    signs[sign(x[0]) + 1] += sign(x[1]) + sign(2.5)
    whole = largest(n)


@compiled
def test_rows_parameters_and_local_arrays_are_arguments():
    X, rng = rows_of(100), np.random.default_rng(3)
    words = {"p": rng.integers(1, 9, 5) / 4, "q": rng.integers(-8, 9, (3, 5)) / 4, "n": np.array([3, 7, -2])}
    found = of_rows(X, device="cpu", **words)
    check(found, of_rows.python(X, **words))
    assert found.whole.dtype == np.int64
    assert (found.whole == 7).all()
    signs = np.bincount(np.sign(X[:, 0]).astype(int) + 1, np.sign(X[:, 1]) + 1, minlength=3)
    np.testing.assert_array_equal(found.signs, signs)


@compiled
def test_another_function_of_the_same_name_is_compiled():
    scope = made("def f(a):\n    return a\ndef row(x, out):\n    out += f(x[0])\n")
    row, X = reduction(scope["row"]), np.ones((4, 2))
    assert row(X).out == 4
    scope["f"] = made("def f(a):\n    return a + 1\n")["f"]
    assert row(X).out == row.python(X).out == 8
    assert "f    function, in place of its calls" in row.explain()


def steep(a):
    if a > 4:
        return a - 1
    return a


@operator(init=-np.inf)
def steepest(a, b):
    return steep(max(a, b)) if b > 1000 else max(a, b)


@reduction
def by_an_operator(x, out):
    out = steepest(out, steep(x[0]))


@compiled
def test_operators_may_call_functions():
    X = rows_of(40)
    assert by_an_operator(X, device="cpu").out == by_an_operator.python(X).out == X[:, 0].max()


@reduction
def with_names_of_the_compiler(x, p: "d", out, found):
    for held in range(3):
        for total in range(2):
            for column in range(2):
                out += (x[0] + held) ** 2 + (x[1] - total * column) ** 3
    result = steep(x[0])
    found += result


def test_counters_may_have_any_name():
    X = rows_of(20)
    check(with_names_of_the_compiler(X, p=X[0]), with_names_of_the_compiler.python(X, p=X[0]))


def test_types_are_found_through_long_chains():
    names = [f"a{i}" for i in range(30)]
    lines = [f"    {name} = 0" for name in names] + ["    for i in range(40):"]
    lines += [f"        {a} = {b}" for a, b in itertools.pairwise(names)] + ["        a29 = x[0]"]
    row = made("\n".join(["def row(x, out):", *lines, "    out += a0", ""]))["row"]
    assert reduction(row)(np.full((3, 1), 0.5)).out == 1.5


@reduction
def outside(x, p, k: int, out):
    i = k
    while i < 100:
        out += p[i]
        i += 40


@compiled
def test_an_index_in_a_while_is_checked():
    X, p = np.ones((50, 2)), np.arange(60.0)
    where = r"outside, line \d+: row 0: p: found the index 80, expected 0 to 59"
    with pytest.raises(ReductionError, match=where):
        outside(X, p=p, k=40, device="cpu")
    with pytest.raises(ReductionError, match="found the index -9223372036854775808"):
        outside(X, p=p, k=-(2**63), device="cpu")
    assert outside(X, p=p, k=100, device="cpu").out == 0


def picked(z, i):
    if i < 0:
        return z[0]
    return z[i]


@reduction
def by_a_function(x, p, k: int, out):
    out += picked(p, k) + picked(x, 0)


@compiled
def test_an_index_in_a_function_is_named_with_its_line():
    line = picked.__code__.co_firstlineno + 3
    with pytest.raises(ReductionError, match=f"picked, line {line}: row 0: p: found the index 9, expected"):
        by_a_function(np.ones((50, 2)), p=np.ones(9), k=9, device="cpu")
    assert by_a_function(np.ones((50, 2)), p=np.ones(9), k=-9, device="cpu").out == 100


def test_explain_says_how_many_iterations_are_assumed():
    case, X = CASES["Mandelbrot"], rows_of(50)
    text = case.reduction.explain(X, **case.words)
    assert "each while is taken to have 16 iterations" in text
    assert "while in line" in text
    assert "each row ends on its own, lanes wait for the last one" in text
