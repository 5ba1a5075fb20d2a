# ruff: noqa: F821, F841 (annotations name sizes; results and counters are not read)
"""Parameters and results of which each row has its own: against the plain loop, and against NumPy."""

import shutil

import emulated_driver
import numpy as np
import pytest
import scipy.sparse

from bmrm.distributed._parts import part_rows
from bmrm.distributed.reading import read_rows
from bmrm.errors import HostMemoryError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import dot, local, logaddexp, operator, reduction, squared_distance

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")
RNG = np.random.default_rng(0)


@operator(init=0.0)
def either(a, b):
    return a + b - a * b


@reduction
def every_operator(
    x,
    p: ("rows", "k"),
    c: ("k", "d"),
    q,
    flag: bool,
    s: ("rows", "k"),
    product: ("rows", "k"),
    low: ("rows", "k"),
    high: "rows",
    bits: "rows",
    odd: ("rows", 2),
    both: "rows",
    near: "rows",
    who: "rows",
    where: "rows",
    top: ("rows", "k"),
    column: ("rows", "k"),
    evidence: ("rows",),
    chance: ("rows", "k"),
    count: ("rows", 3),
    square: "rows",
    sure: ("rows", "k"),
    code: ("rows", "k"),
    last: "rows",
    total: "k",
):
    for j in range(len(p)):
        s[j] += p[j] * x[0]
        s[j] -= q[j]
        product[j] *= p[j]
        low[j] = min(low[j], x[0] * p[j])
        high = max(high, p[j] + x.index)
        bits |= 1 << (j % 60)
        odd[j % 2] ^= 5 + j
        both &= j | 6
        dist = 0.0
        for f in range(len(x)):
            e = x[f] - c[j, f]
            dist += e * e
            if e > top[j]:
                top[j], column[j] = e, f
        if dist < near:
            near, who, where = dist, j, x[0]
        evidence = logaddexp(evidence, p[j])
        if flag:
            chance[j] = either(chance[j], 0.25)
        count[(x.index + j) % 3] += 1
        square += dist
        sure[j] = p[j] > 0
        code[len(code) - 1 - j] = 2 * j
        total[j] += code[len(code) - 1 - j] * p[j]
    last = sure[0]


def arguments(X, k):
    """Arguments whose products and sums do not round."""
    n, d = X.shape
    return {
        "p": RNG.integers(-5, 6, (n, k)) / 4,
        "c": RNG.integers(-8, 9, (k, d)) / 4,
        "q": RNG.integers(-5, 6, (n, k)) / 4,
        "flag": RNG.random(n) < 0.5,
    }


def compare(function, X, words, rtol=0.0, **options):
    found, expected = function(X, **words, **options), function.python(X, **words)
    for name, mine, theirs in zip(found._fields, found, expected, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), name
        exact = rtol == 0.0 and name not in ("evidence", "product")
        np.testing.assert_allclose(mine, theirs, rtol=0 if exact else max(rtol, 1e-12), err_msg=name)
    return found


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("rows", "columns", "k"), [(0, 2, 3), (1, 1, 1), (200, 3, 4), (70, 2, 100)])
def test_every_operator_gives_what_the_plain_loop_gives(rows, columns, k, kind):
    X = (RNG.integers(-8, 9, (rows, columns)) / 4).astype(kind)
    found = compare(every_operator, X, arguments(X, k))
    assert (found.s.dtype, found.low.dtype, found.sure.dtype) == (np.float64, kind, np.bool_)
    assert found.s.shape == (rows, k)
    assert found.odd.shape == (rows, 2)
    assert found.near.shape == (rows,)


def test_parts_threads_and_rows_in_a_file_change_nothing(tmp_path):
    rows = 2 * part_rows(1) + 77
    X, words = RNG.integers(-8, 9, (rows, 3)) / 4, {}
    words = arguments(X, 2)
    expected = every_operator(X, threads=1, **words)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "p.npy", words["p"])
    mapped = words | {"p": np.load(tmp_path / "p.npy", mmap_mode="r")}
    for found in (
        every_operator(X, threads=3, **words),
        every_operator(X, threads=2, order="any", **words),
        every_operator(np.load(tmp_path / "X.npy", mmap_mode="r"), **mapped),
        every_operator(np.asfortranarray(X), **words | {"p": np.asfortranarray(words["p"])}),
        every_operator(X, **words | {"p": words["p"].astype(np.float32), "q": words["q"].tolist()}),
    ):
        for name, one, other in zip(found._fields, found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)


@reduction
def of_stored(
    x, p: ("rows", "k", "d"), u, r: ("rows", "k"), dense: ("rows", "d"), best: "rows", who: "rows", n: ()
):
    for j in range(len(p)):
        r[j] += dot(x, p[j])
        e = squared_distance(x, p[j])
        if e < best:
            best, who = e, j
    for f, v in x.stored():
        dense[f] = v * u[f]
        n += dense[f]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_sparse_rows_have_numbers_of_their_own(kind):
    for rows in (0, 1, 90):
        X = (RNG.integers(-8, 9, (rows, 6)) / 4 * (RNG.random((rows, 6)) < 0.4)).astype(kind)
        words = {"p": RNG.integers(-5, 6, (rows, 3, 6)) / 4, "u": RNG.integers(-5, 6, (rows, 6)) / 4}
        for given in (X, scipy.sparse.csr_array(X)):
            found = compare(of_stored, given, words)
            np.testing.assert_array_equal(found.r, np.einsum("nf,nkf->nk", X, words["p"]))
            np.testing.assert_array_equal(found.dense, X * words["u"])
            assert (found.who == ((X[:, None] - words["p"]) ** 2).sum(axis=2).argmin(axis=1)).all()


def test_each_row_begins_anew():
    @reduction
    def some(x, r: ("rows", 2), s: ("rows", 2), low: "rows", who: "rows", at: "rows", kept: "rows"):
        if x[0] > 0:
            r[0] = x[0]
            s[1] += r[0] + r[1]
            kept = r[0]
        for f in range(len(x)):
            low = min(low, x[f])
            if x[f] < at:
                at, who = x[f], f

    X = RNG.normal(size=(150, 3))
    X[X < -0.8] = np.nan
    X[7] = np.nan
    found = compare(some, X, {})
    first = np.where(X[:, 0] > 0, X[:, 0], 0.0)
    np.testing.assert_array_equal(found.r, np.stack([first, 0 * first], axis=1))
    np.testing.assert_array_equal(found.s, np.stack([0 * first, first], axis=1))
    np.testing.assert_array_equal(found.kept, first)
    np.testing.assert_array_equal(found.low, np.fmin.reduce(X, axis=1, initial=np.inf))
    np.testing.assert_array_equal(found.at, found.low)
    assert (found.low[7], found.who[7]) == (np.inf, -1)


def test_sums_of_a_row_are_float64_where_rows_are_float32():
    @reduction
    def sums(x, r: ("rows", 1), plain):
        s = 0.0
        for f in range(len(x)):
            r[0] += x[f]
            s += x[f]
        plain = s

    X = RNG.random((3, 20_000)).astype(np.float32)
    found, exact = sums(X), X.sum(axis=1, dtype=np.float64)
    assert found.plain.dtype == np.float32
    assert (np.abs(found.r[:, 0] - exact) < 1e-13 * exact).all()
    assert (np.abs(found.plain - exact) > 1e-9 * exact).any()


def test_a_parameter_without_annotation_may_be_one_for_all_or_one_for_each_row():
    @reduction
    def weighted(x, p, table, r: ("rows",), v: int):
        for f in range(len(x)):
            r += p[f] * x[f] + table[v, f]

    X = RNG.integers(-8, 9, (60, 3)) / 4
    p, table = RNG.integers(-8, 9, (60, 3)) / 4, RNG.integers(-8, 9, (60, 4, 3)) / 4
    v = RNG.integers(0, 4, 60)
    for one, other in ((p, table), (p[0], table), (p, table[0]), (p[0], table[0])):
        found = compare(weighted, X, {"p": one, "table": other, "v": v})
        chosen = other[np.arange(60), v] if other.ndim == 3 else other[v]
        np.testing.assert_array_equal(found.r, (one * X + chosen).sum(axis=1))
    said = weighted.explain(X, p=p, table=table, v=v)
    assert "p      parameter, numbers of each row  (rows, p.0)" in said
    assert "r      result of each row, sum" in said


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.bool_])
def test_whole_numbers_and_truth_values_of_each_row(kind):
    @reduction
    def choose(x, at: ("rows", "m"), sums: ("rows", "d"), flags: ("rows", "m"), any_: (), n: "d"):
        for i in range(len(at)):
            sums[at[i]] += x[i]
            n[at[i]] += 1
            flags[i] = at[i] > 0
            any_ |= int(flags[i])

    X, at = RNG.integers(-8, 9, (130, 4)) / 4, RNG.integers(0, 2, (130, 3)).astype(kind)
    found = compare(choose, X, {"at": at})
    expected = np.zeros((130, 4))
    for i in range(3):
        np.add.at(expected, (np.arange(130), at[:, i].astype(int)), X[:, i])
    np.testing.assert_array_equal(found.sums, expected)
    np.testing.assert_array_equal(found.flags, at > 0)


@reduction
def grouped(x, p: ("rows", "d"), scale: ("rows", 2), group: int, sums: ("g", "d"), at: ("rows", "g")):
    for f in range(len(x)):
        sums[group, f] += scale[1] * p[f] * x[f]
    at[group] += scale[0]


def grouped_arguments(rows, columns):
    p, scale = RNG.integers(-8, 9, (rows, columns)) / 4, RNG.integers(-8, 9, (rows, 2)) / 4
    X, group = RNG.integers(-8, 9, (rows, columns)) / 4, RNG.integers(0, 5, rows)
    expected = np.zeros((5, columns))
    np.add.at(expected, group, scale[:, 1:] * p * X)
    return X, {"p": p, "scale": scale, "group": group, "g": 5}, expected


def test_columns_of_one_row_are_read_from_its_own_numbers():
    X, words, expected = grouped_arguments(170, 21)
    assert "f: vectors of columns, row by row" in grouped.explain(X, **words)
    np.testing.assert_array_equal(compare(grouped, X, words).sums, expected)


def test_long_arrays_of_a_row():
    @reduction
    def outer(x, p: ("rows", "m"), r: ("rows", "m"), s: ("rows", "m"), total: ()):
        for i in range(len(p)):
            r[i] = p[i] * x[0]
            s[len(s) - 1 - i] += r[i] + x.index
            total += r[i]

    X = RNG.integers(-8, 9, (90, 2)) / 4
    found = compare(outer, X, {"p": RNG.integers(-8, 9, (90, 3000)) / 4})
    assert found.r.shape == (90, 3000)


def test_a_local_array_next_to_those_of_results():
    @reduction
    def ranks(x, r: ("rows", "d"), sorted_: ("rows", "d")):
        q = local("d")
        for f in range(len(x)):
            q[f] = x[f]
            below = 0
            for g in range(len(x)):
                below += x[g] < q[f] or (x[g] == q[f] and g < f)
            r[f] = below
            sorted_[below] = q[f]

    X = RNG.integers(-8, 9, (140, 5)) / 4
    found = compare(ranks, X, {})
    np.testing.assert_array_equal(found.sorted_, np.sort(X, axis=1))
    np.testing.assert_array_equal(found.r, np.argsort(np.argsort(X, axis=1, kind="stable"), axis=1))


WRONG = [
    ({"p": np.ones((9, 3))}, r"weights: p: found shape \(9, 3\), expected the shape \(rows, k\)"),
    ({"p": np.ones(10)}, r"weights: p: found shape \(10,\), expected the shape \(rows, k\)"),
    ({"p": np.ones((10, 0))}, r"weights: p: found the size k = 0, expected at least 1"),
    (
        {"q": np.ones((9, 3))},
        r"q: found shape \(9, 3\), expected the shape \(q.0,\), or \(10, q.0\) for one per row",
    ),
    ({"w": np.ones((10, 2))}, r"w: found shape \(10, 2\), expected one number, or \(10,\) for one per row"),
    ({"w": np.ones(9)}, r"w: found shape \(9,\), expected one number, or \(10,\) for one per row"),
    ({"u": 1.0}, r"u: found shape \(\), expected the shape \(rows,\)"),
    ({"c": np.ones((10, 3, 2))}, r"c: found shape \(10, 3, 2\), expected the shape \(k, d\)"),
    ({"c": np.ones((4, 2))}, r"c: found shape \(4, 2\) with k = 4, expected k = 3 as in p"),
    ({"p": np.full((10, 3), 1j)}, r"p: found"),
    ({"rows": 10}, r"found the argument 'rows', expected one of c, d, k, p, q, u, w"),
    ({"r": np.ones((10, 3))}, r"found the result 'r' as an argument, expected parameters only"),
]


@pytest.mark.parametrize(("words", "text"), WRONG)
def test_an_error_in_a_call_is_one_line(words, text):
    @reduction
    def weights(x, p: ("rows", "k"), c: ("k", "d"), q, w, u: "rows", r: ("rows", "k")):
        r[0] += p[0] * c[0, 0] + q[0] * w + u

    given = {"p": np.ones((10, 3)), "c": np.ones((3, 2)), "q": np.ones(4), "w": 1.0, "u": np.ones(10)}
    for run in (weights, weights.python):
        with pytest.raises(Exception, match=text) as found:
            run(np.ones((10, 2)), **given | words)
        assert "\n" not in str(found.value)


def test_an_index_outside_of_an_array_of_the_row_names_the_row():
    @reduction
    def beyond(x, p: ("rows", "k"), r: ("rows", "k"), m: ("rows", 2)):
        r[int(x[0])] = 1.0
        m[0] += p[int(x[1])]
        m[int(x[2])] -= 1

    X = np.zeros((80, 3))
    for column, value, what in ((0, 3, "r"), (1, -1, "p"), (2, 2, "m")):
        wrong = X.copy()
        wrong[41, column] = value
        last = 1 if what == "m" else 2
        found = f"beyond, line .*: row 41: {what}: found the index {value}, expected 0 to {last}"
        with pytest.raises(ReductionError, match=found):
            beyond(wrong, p=np.ones((80, 3)))


def test_results_that_do_not_fit_into_memory_are_refused_before_any_work():
    @reduction
    def large(x, r: ("rows", "m")):
        r[0] = x[0]

    with pytest.raises(HostMemoryError, match="the results of large and its arrays"):
        large(np.ones((100_000, 1)), m=2**31 - 1)


# --- on a GPU with driver and compiler emulated on the CPU


@pytest.fixture
def library(monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    return emulated_driver.install(monkeypatch)


def compare_on_gpu(function, X, words):
    call = function._binder.bind(read_rows(X), words, gpu=True)
    found = function._tuple(**function._gpu.run(call, contract=False))
    for name, mine, theirs in zip(found._fields, found, function.python(X, **words), strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), name
        rtol = 1e-12 if name in ("evidence", "product") else 0
        np.testing.assert_allclose(mine, theirs, rtol=rtol, err_msg=name)
    return found


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("rows", "k"), [(0, 2), (1, 1), (150, 4), (70, 70)])
def test_every_operator_on_a_gpu(rows, k, kind, library):
    X = (RNG.integers(-8, 9, (rows, 3)) / 4).astype(kind)
    words = arguments(X, k)
    said = "results of rows in global memory: chance, code, column, low, product, s, sure, top" in (
        every_operator.explain(X, **words)
    )
    assert said == (k > 64)
    compare_on_gpu(every_operator, X, words)


def test_sparse_rows_on_a_gpu(library):
    X = RNG.integers(-8, 9, (90, 6)) / 4 * (RNG.random((90, 6)) < 0.4)
    words = {"p": RNG.integers(-5, 6, (90, 3, 6)) / 4, "u": RNG.integers(-5, 6, (90, 6)) / 4}
    for given in (X, scipy.sparse.csr_array(X)):
        compare_on_gpu(of_stored, given, words)


@pytest.mark.parametrize("columns", [3, 12, 40])
def test_other_lanes_read_the_numbers_of_a_row(columns, library):
    @reduction
    def mixed(x, p: ("rows", "k"), c: ("k", "d"), s: ("k", "d"), r: ("rows", "k"), n: "k"):
        for j in range(len(p)):
            n[j] += p[j]
            for f in range(len(x)):
                s[j, f] += p[j] * (x[f] - c[j, f])
            r[j] = p[j] * x[0]

    X, words, expected = grouped_arguments(150, columns)
    text = grouped.source("cuda", X, **words)
    assert ("place0[" in text) == (columns >= 8)
    np.testing.assert_array_equal(compare_on_gpu(grouped, X, words).sums, expected)
    words = {"p": RNG.integers(-8, 9, (150, 3)) / 4, "c": RNG.integers(-8, 9, (3, columns)) / 4}
    compare_on_gpu(mixed, X, words)


def test_two_rows_of_a_lane_have_arrays_of_their_own(library):
    @reduction
    def places(x, w: ("rows", 2), c: ("k", "d"), r: ("rows", 3), sums: ("rows", 3), total: ()):
        best, at = w[0], 0
        for j in range(len(c)):
            dist = squared_distance(x, c[j])
            if dist < best:
                best, at = dist, j
        r[at % 3] = best
        sums[0] += r[1] * w[1]
        sums[at % 3] += 1
        total += best

    X, c = RNG.integers(-9, 9, (200, 16)) / 4, RNG.integers(-9, 9, (64, 16)) / 4
    words = {"w": RNG.integers(80, 90, (200, 2)) / 4, "c": c}
    assert "start += 2 * WARP" in places.source("cuda", X, **words)
    compare_on_gpu(places, X, words)


@pytest.mark.parametrize("k", [3, 70])
def test_results_of_rows_stay_and_are_parameters_of_the_next_call(k, library):
    @reduction
    def shares(x, c: ("k", "d"), r: ("rows", "k"), s: ("rows", "k")):
        for j in range(len(c)):
            r[j] = squared_distance(x, c[j])
            s[j] += r[j]

    @reduction
    def weigh(x, r: ("rows", "k"), s, total: "k"):
        for j in range(len(r)):
            total[j] += r[j] - s[j]

    X, c = (RNG.integers(-9, 9, (130, 4)) / 4).astype(np.float32), RNG.integers(-9, 9, (k, 4)) / 4
    kept = shares(X, c=c, device="cuda", keep=True)
    assert [(each.shape, each.dtype.name) for each in kept] == [((130, k), "float32"), ((130, k), "float64")]
    assert weigh(X, r=kept.r, s=kept.s, device="cuda").total.tolist() == [0.0] * k
    here = shares(X, c=c, device="cpu")
    np.testing.assert_array_equal(kept.s.numpy(), here.s)


def test_a_gpu_names_the_row_whose_index_is_outside(library):
    @reduction
    def beyond(x, p: ("rows", "k"), r: ("rows", "k")):
        r[int(x[0])] = p[int(x[1])]

    for column in (0, 1):
        X = np.zeros((80, 2))
        X[41, column] = 3
        with pytest.raises(ReductionError, match="beyond: row 41: index 3 is out of bounds"):
            beyond(X, p=np.ones((80, 3)), device="cuda")
