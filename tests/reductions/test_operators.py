# ruff: noqa: F821, F841 (annotations name sizes; results are assigned and not read)
"""Operators that combine results, and functions: each is one row of a table, and all code follows from it."""

import math
import re
import shutil
from pathlib import Path

import emulated_driver
import numpy as np
import pytest
import scipy.sparse

import bmrm
from bmrm.distributed.reading import read_rows
from bmrm.errors import ReductionError
from bmrm.formulas.cpu import native
from bmrm.formulas.language.function_table import FUNCTIONS, KNOWN, function
from bmrm.formulas.language.operators import OPERATORS, ReductionOperator
from bmrm.reductions import Reduction, inf, logaddexp, operator, reduction

WHOLE = np.array([1, -1, 0, -3, 2**62, -(2**63), 2**63 - 1, 5, -7])
REAL = np.array([0.0, -0.0, 1.0, -1.5, inf, -inf, np.nan, 1e308, -1e308, 5e-324])


def plain(row_function, X, words):
    return row_function.python(X, **words)


def on_cpu(row_function, X, words):
    return row_function(X, device="cpu", **words)


def on_gpu(row_function, X, words):
    call = row_function._binder.bind(read_rows(X), words, gpu=True)
    return row_function._tuple(**row_function._gpu.run(call))


@pytest.fixture(params=["plain", "16 bytes", "32 bytes", "64 bytes", "emulated"])
def run(request, monkeypatch):
    """Run a reduction as a loop of Python, with vectors of every size, and on an emulated GPU."""
    if request.param == "plain":
        return plain
    if request.param == "emulated":
        if shutil.which("g++") is None:
            pytest.skip("there is no g++")
        emulated_driver.install(monkeypatch)
        return on_gpu
    if not native.can_compile():
        pytest.skip("llvmlite is not installed")
    size = int(request.param.split()[0])
    monkeypatch.setattr(native, "vector_bytes", lambda: size)
    return on_cpu


@operator(init=1)
def times(a, b):
    return a * b


@operator(init=0.0)
def longest(a, b):
    """Return the hypotenuse, by a loop, a branch and locals."""
    high, low = max(abs(a), abs(b)), min(abs(a), abs(b))
    found = high
    if 0.0 < high < math.inf:
        total = 0.0
        for _ in range(1):
            total += (low / high) ** 2
        found = high * (1.0 + total) ** 0.5
    return found


@reduction
def of_whole(x, v, w, product: (), xor: (), less: (), or_: (), own: (), twice: "k", flips: "k"):
    product *= v
    xor = v ^ xor
    less -= v
    or_ = v | or_
    own = times(v, own)
    j = w % len(twice)
    twice[j] = v * twice[j]
    flips[j] ^= v


@reduction
def of_real(
    x, v, j: int, product: (), less: (), evidence: (), least: (), most: (), own: (), each: "k", bins: "k"
):
    product *= v
    less = less - v
    evidence = np.logaddexp(evidence, v)
    least = min(v, least)
    most = max(v, most)
    own = longest(own, v)
    each[j] = logaddexp(v, each[j])
    bins[j] *= v


def samples(values):
    """Cases of no row, one row of each kind, two rows, and many with some that change nothing."""
    yield values[:0]
    for value in values:
        yield np.array([value])
    for a, b in ((a, b) for a in values for b in values if a is not b):
        yield np.array([a, b])
    yield np.resize(values, 150)


def few(values):
    """Some of the cases that an emulated GPU or Python runs in little time."""
    found = list(samples(values))
    return [*found[: len(values) + 1], *found[len(values) + 1 :: 7], found[-1]]


def test_whole_numbers_are_those_of_numpy_and_wrap(run):
    # Python's loop ends where a number that the row computes does not fit 64 bits.
    for v in few(WHOLE[:4] if run is plain else WHOLE):
        X, w = np.zeros((len(v), 1)), np.arange(len(v))
        twice, flips = np.ones(2, np.int64), np.zeros(2, np.int64)
        np.multiply.at(twice, w % 2, v)
        np.bitwise_xor.at(flips, w % 2, v)
        with np.errstate(over="ignore"):
            expected = np.prod(v), np.bitwise_xor.reduce(v), np.sum(-v), np.bitwise_or.reduce(v)
        found = run(of_whole, X, {"v": v, "w": w, "k": 2})
        for mine, theirs in zip(found, (*expected, expected[0], twice, flips), strict=True):
            assert np.array_equal(mine, theirs), (v, found._fields, mine, theirs)
            assert mine.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_real_numbers_are_those_of_numpy(run, dtype):
    for v in few(REAL):
        with np.errstate(all="ignore"):
            v = v.astype(dtype).astype(float)
            least, most = np.fmin.reduce(v, initial=inf), np.fmax.reduce(v, initial=-inf)
            each, bins = np.full(2, -inf), np.ones(2)
            j = np.arange(len(v)) % 2
            np.logaddexp.at(each, j, v)
            np.multiply.at(bins, j, v)
            product, evidence = np.prod(v), np.logaddexp.reduce(v, initial=-inf)
            own = np.nan if np.isnan(v).any() else math.hypot(*v)
            expected = product, -v.sum(), evidence, least, most, own, each, bins
        found = run(of_real, np.zeros((len(v), 1), dtype), {"v": v, "j": j, "k": 2})
        for name, mine, theirs in zip(found._fields, found, expected, strict=True):
            if name == "own" and np.isnan(theirs):
                continue  # it does not say what becomes of NaN
            if name in ("product", "less", "bins") and not np.isfinite(theirs).all():
                continue  # inf - inf and inf * 0 depend on the order
            np.testing.assert_allclose(mine, theirs, 1e-13, 0, err_msg=f"{name} of {v}")
        assert [np.asarray(each).dtype.name for each in found] == [
            *["float64"] * 3, *[np.dtype(dtype).name] * 2, *["float64"] * 3
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([inf, 0.0], "product", np.nan),
        ([1e308, 1e308, 0.5], "product", None),
        ([-inf, inf], "less", np.nan),
        ([-0.0, 1.0], "product", -0.0),
        ([inf, inf], "evidence", inf),
        ([-inf, -inf], "evidence", -inf),
        ([-inf, inf], "evidence", inf),
        ([np.nan, inf], "evidence", np.nan),
        ([np.nan, -inf], "evidence", np.nan),
        ([1e308, 1e308], "evidence", 1e308),
        ([-1000.0, -1000.0], "evidence", -1000.0 + math.log(2)),
        ([5e-324], "product", 5e-324),
        ([], "product", 1.0),
        ([], "evidence", -inf),
        ([], "own", 0.0),
    ],
)
def test_ends_of_the_real_numbers(run, values, name, expected):
    v = np.array(values)
    found = run(of_real, np.zeros((len(v), 1)), {"v": v, "j": np.zeros(len(v), int), "k": 1})
    mine = getattr(found, name)
    if expected is None:
        assert mine in (inf, 5e307 * 1e308)
    else:
        np.testing.assert_equal(float(mine), float(expected))


@pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")
def test_bits_do_not_depend_on_threads_and_parts_are_combined():
    rng = np.random.default_rng(0)
    v, j = rng.normal(size=30_000), rng.integers(0, 5, 30_000)
    X = np.zeros((30_000, 1))
    first = of_real(X, v=v, j=j, k=5, threads=1)
    again = of_real(X, v=v, j=j, k=5, threads=3)
    for one, other in zip(first, again, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    np.testing.assert_allclose(first.own, np.sqrt(v @ v), 1e-12)
    np.testing.assert_allclose(first.evidence, np.logaddexp.reduce(v), 1e-12)
    assert "ranks that begin at multiples" in of_real.explain(X, v=v, j=j, k=5)
    flips = of_whole.explain(X, v=j, w=j, k=5)
    assert "combined by times" in flips
    assert ", 8 calls of functions, " in of_real.explain(X, v=v, j=j, k=5)  # two of logaddexp, one of longest
    assert "no result is a sum of real numbers" in flips
    assert "result, product" in flips


def test_sparse_rows(run):
    @reduction
    def stored(x, product: "d", evidence: (), flips: ()):
        for f, v in x.stored():
            product[f] *= v
            evidence = logaddexp(evidence, v)
            flips ^= f

    X = scipy.sparse.random_array((90, 6), density=0.3, format="csr", rng=np.random.default_rng(0))
    dense = X.toarray()
    found = run(stored, X, {})
    np.testing.assert_allclose(found.product, np.where(dense == 0, 1, dense).prod(axis=0), 1e-12)
    np.testing.assert_allclose(found.evidence, np.logaddexp.reduce(X.data), 1e-12)
    assert found.flips == np.bitwise_xor.reduce(X.indices)


def test_angles(run):
    @reduction
    def angles(x, total: "d", angle: float, rest: float):
        for f in range(len(x)):
            total[f] += math.atan2(x[f], x[0])
        angle = np.arctan2(x[0], x[1])
        rest = math.fmod(x[0], x[1])

    values = np.array([0.0, -0.0, 1.0, -2.5, inf, -inf, np.nan])
    X = np.array([(a, b) for a in values for b in values])
    for dtype in (np.float64, np.float32):
        found = run(angles, X.astype(dtype), {})
        with np.errstate(invalid="ignore"):
            expected = np.arctan2(X[:, 0], X[:, 1]), np.fmod(X[:, 0], X[:, 1])
        tolerance = 1e-15 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(found.angle, expected[0], tolerance)
        np.testing.assert_array_equal(np.signbit(found.angle), np.signbit(expected[0]))
        np.testing.assert_array_equal(found.rest, expected[1].astype(dtype))


def toy(a):
    """Return the cube root."""
    return np.cbrt(a)


def mix(a, b):
    """Return what the toy operator combines."""
    return a + b + a * b


@pytest.fixture
def rows_of_toys(monkeypatch):
    """Add a row to each table."""
    monkeypatch.setattr("bmrm.formulas.language.function_table.FUNCTIONS", FUNCTIONS)
    function(np.cbrt, name="cbrt")(toy)
    OPERATORS["mix"] = ReductionOperator(
        name="mix", about="mixture", identity=(0.0, 0), combine=mix, functions=(mix,),
        llvm_real=("fmul {type} {a}, {b}", "fadd {type} {a}, {b}", "fadd {type} {0}, {1}"),
        llvm_whole=("mul {type} {a}, {b}", "add {type} {a}, {b}", "add {type} {0}, {1}"),
        struct="Mix", cuda="a + b + a * b",
    )  # fmt: skip
    yield
    del OPERATORS["mix"], FUNCTIONS["cbrt"], KNOWN[id(toy)], KNOWN[id(np.cbrt)]


def test_a_function_and_an_operator_are_one_row_each(run, rows_of_toys):
    def mixed(x, all_of: (), each: "k", whole: ()):
        all_of = mix(all_of, np.cbrt(x[0]))
        j = int(x[1])
        each[j] = mix(toy(x[0]), each[j])
        whole = mix(whole, j)

    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(100) / 64, rng.integers(0, 3, 100)])
    found = run(Reduction(mixed), X, {"k": 3})
    roots, j = np.cbrt(X[:, 0]), X[:, 1].astype(int)
    of_bin = [np.prod(1 + roots[j == k]) - 1 for k in range(3)]
    np.testing.assert_allclose(found.all_of, np.prod(1 + roots) - 1, 1e-12)
    np.testing.assert_allclose(found.each, of_bin, 1e-12)
    assert found.whole == np.multiply.reduce(1 + j) - 1
    assert "result, mixture" in Reduction(mixed).explain()


def test_a_row_is_the_only_place_that_names_it():
    root = Path(bmrm.__file__).parent
    texts = {p: p.read_text() for folder in ("formulas", "reductions") for p in (root / folder).rglob("*.py")}
    for name in (
        "atan2",
        "logaddexp",
        "logsumexp",
        "log1p",
        "lgamma",
        "tanh",
        "erf",
        "bitwise_xor",
        "Product",
    ):
        found = [
            str(path.relative_to(root)) for path, text in texts.items() if re.search(rf"\b{name}\b", text)
        ]
        table = "operators" if name in ("bitwise_xor", "Product") else "functions"
        assert found == [f"formulas/language/{table}.py"], name


WRONG = [
    (3, "found an object of type int, expected a function defined by def"),
    (lambda a, b: a, "found a lambda"),
]


@pytest.mark.parametrize(("given", "text"), WRONG)
def test_what_is_no_operator(given, text):
    with pytest.raises(ReductionError, match=text):
        operator(init=0.0)(given)


@pytest.mark.parametrize("init", ["0", None, True, 2**63, 1j])
def test_an_identity_is_a_number(init):
    with pytest.raises(ReductionError, match="operator: found init="):
        operator(init=init)


def divided(a, b):
    return a // b


def quotient(a, b):
    return a / b


def three(a, b, c):
    return a


def nothing(a, b):
    c = a + b


def early(a, b):
    if a > b:
        return a
    return b


def long(a, b):
    total = 0
    for _ in range(a):
        total += b
    return total


def endless(a, b):
    total = a
    for _ in range(1099511627776):
        total ^= b
    return total


def element(a, b):
    return a[0] + b


def written(a, b):
    a += b
    return a


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (divided, "an operation that may fail"),
        (quotient, "found a real number, expected a whole one"),
        (three, "found other arguments, expected two numbers"),
        (nothing, "found no value that is returned at the end"),
        (early, "return is not available"),
        (endless, "a loop, expected a range of constants"),
        (long, "a loop, expected a range of constants with at most 1024"),
        (element, "'a' is a number above and an array here"),
        (written, "'a' is an argument: it can only be read"),
    ],
)
def test_an_operator_says_what_it_cannot_have(given, text):
    with pytest.raises(ReductionError, match=rf"{given.__name__}, line \d+: .*{text}"):
        operator(init=0)(given)


def test_an_operator_is_called_as_its_function():
    assert times(3, 4) == 12
    assert longest(3.0, 4.0) == 5.0
    assert repr(times) == "<operator times, of no rows 1>"
    assert float(logaddexp(0.0, 0.0)) == math.log(2)


def test_whole_operators_take_whole_numbers():
    with pytest.raises(ReductionError, match="'out': times combines integers"):

        @reduction
        def wrong(x, out):
            out = times(out, x[0])
