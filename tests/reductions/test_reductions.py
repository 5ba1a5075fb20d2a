# ruff: noqa: F821, F841, SIM102 (annotations name sizes; results are not read; an inner `if` is an operator)
"""Reductions against NumPy in float64, and compiled code against the plain loop."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from programs import CASES, covariance, em_step, histogram, item_sets, kmeans_step, nearest_rows

import bmrm
from bmrm import io
from bmrm.distributed.reading import read_rows
from bmrm.errors import BmrmError, DataError, HostMemoryError, ParameterError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import inf, local, reduction

needs_compiler = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")
SIZES = {
    np.float64: [(0, 3), (1, 1), (65, 3), (300, 3), (64, 17), (130, 130)],
    np.float32: [(65, 3), (130, 130)],
}


def rows(rng, shape, dtype):
    """Rows of which no float32 operation of the tests rounds a comparison to the other side."""
    return (rng.integers(-32, 33, shape) / 16 + 1 / 64).astype(dtype)


def check(found, expected, tolerance):
    assert len(found) == len(expected)
    for name, mine, theirs in zip(found._fields, found, expected, strict=True):
        theirs = np.asarray(theirs)
        assert np.shape(mine) == theirs.shape, name
        if np.asarray(mine).dtype.kind != "f":
            assert np.array_equal(mine, theirs), name
        else:
            scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=1.0)
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_numpy_gives(name, dtype):
    case, rng = CASES[name], np.random.default_rng(abs(hash(name)) % 1000)
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    for shape in SIZES[dtype]:
        X = rows(rng, shape, dtype)
        words = case.arguments(rng, X)
        check(case.reduction(X, **words), case.expected(X, words), tolerance)
        if shape[0] <= 65:
            check(case.reduction.python(X, **words), case.expected(X, words), tolerance)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_bits_are_the_same_for_any_number_of_threads(name):
    case, rng = CASES[name], np.random.default_rng(5)
    X = rng.normal(size=(20_000, 4))
    words = case.arguments(rng, X)
    first = case.reduction(X, threads=1, **words)
    for threads in (2, 3, 7):
        found = case.reduction(X, threads=threads, **words)
        for one, other in zip(first, found, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    check(case.reduction(X, threads=3, order="any", **words), case.expected(X, words), 1e-10)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].sparse])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_give_what_dense_ones_give(name, dtype):
    case, rng = CASES[name], np.random.default_rng(3)
    for shape in [(0, 3), (1, 1), (65, 16), (400, 30)]:
        X = rows(rng, shape, dtype) * (rng.random(shape) < 0.2)
        words, tolerance = case.arguments(rng, X), 1e-12 if dtype == np.float64 else 2e-4
        expected = case.expected(X, words)
        for sparse in (
            scipy.sparse.csr_matrix(X),
            scipy.sparse.coo_array(X),
            io.Csr.from_scipy(scipy.sparse.csc_matrix(X)),
        ):
            check(case.reduction(sparse, **words), expected, tolerance)
        check(case.reduction.python(scipy.sparse.csr_matrix(X), **words), expected, tolerance)


def test_stored_values_that_are_all_1(tmp_path):
    case = CASES["logistic gradient"]
    X = np.array([[0.0, 1, 1], [1, 0, 0], [0, 0, 0]])
    words = {"y": [1, -1, 1], "weights": [0.5, -1.0, 2.0]}
    csr = io.Csr.from_scipy(scipy.sparse.csr_matrix(X))
    assert csr.data is None
    expected = case.expected(X, {k: np.array(v) for k, v in words.items()})
    check(case.reduction(csr, **words), expected, 1e-12)
    check(case.reduction.python(csr, **words), expected, 1e-12)


class OnlyDlpack:
    """An array of another library that has nothing but the protocol."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


LAYOUTS = [
    "F",
    "strided",
    "reversed",
    "list",
    "mapped",
    "mapped F",
    "mapped >f4",
    "mapped bool",
    "dlpack",
    "frame",
]
TYPES = ["int8", "uint16", "uint64", "bool", "int64", "float16", ">f4", ">f8", ">i4", "longdouble"]


@pytest.mark.parametrize("kind", LAYOUTS + TYPES)
def test_rows_of_any_layout_and_type(kind, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (150, 6)).astype(float) if "bool" in kind else rows(rng, (150, 6), float)
    if "int" in kind or "i" in kind:
        X = np.trunc(8 * np.abs(X))
    if kind == "F":
        given = np.asfortranarray(X)
    elif kind == "strided":
        given = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif kind == "reversed":
        given = X[::-1, ::-1].copy()[::-1, ::-1]
    elif kind == "list":
        given = X.tolist()
    elif kind.startswith("mapped"):
        layout = kind.partition(" ")[2] or "f8"
        np.save(tmp_path / "X.npy", np.asfortranarray(X) if layout == "F" else X.astype(layout))
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "dlpack":
        given = OnlyDlpack(X)
    elif kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(X)
    else:
        given = X.astype(kind)
    words = {"shift": rng.normal(size=6)}
    tolerance = 1e-5 if kind.endswith(">f4") else 1e-12
    check(covariance(given, **words), CASES["covariance"].expected(X, words), tolerance)
    check(covariance.python(given, **words), CASES["covariance"].expected(X, words), tolerance)


@needs_compiler
def test_rows_that_are_converted_in_blocks_keep_their_numbers(monkeypatch):
    monkeypatch.setattr("bmrm.distributed.rows.MAX_CONVERTED_BYTES", 1)
    X = rows(np.random.default_rng(0), (9000, 3), float)
    words = {"w": np.arange(9000.0), "centers": X[:5]}
    found = kmeans_step(X.astype(">f8"), **words)
    check(found, CASES["k-means"].expected(X, words), 1e-12)
    again = kmeans_step(X.astype(">f8"), threads=3, **words)
    assert found.sums.tobytes() == again.sums.tobytes()


def test_sparse_rows_in_mapped_files(tmp_path):
    X = scipy.sparse.random_array((200, 20), density=0.1, format="csr", rng=np.random.default_rng(0))
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / name, getattr(X, name))
    parts = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")]
    mapped = scipy.sparse.csr_array(tuple(parts), shape=X.shape)
    assert np.shares_memory(read_rows(mapped).X.csr.data, parts[0])
    words = {"y": np.ones(200), "weights": np.linspace(-1, 1, 20)}
    expected = CASES["logistic gradient"].expected(X.toarray(), words)
    check(CASES["logistic gradient"].reduction(mapped, **words), expected, 1e-12)


@needs_compiler
@pytest.mark.parametrize("kind", ["<f4", ">f4"])
def test_a_mapped_file_larger_than_the_memory_streams_through(kind, tmp_path):
    """256 MB of a file with holes, in a process that may allocate 96 MiB; its pages are released."""
    file = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", kind, (1 << 20, 64))
    file[::4096, 0] = 1.0
    file.flush()
    program = Path(__file__).with_name("mapped_program.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path / "X.npy"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    total, megabytes = done.stdout.split()
    assert (float(total), float(megabytes) < 64) == (256.0, True), done.stdout


def test_rows_from_a_reader(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text("1 1:0.5 3:2\n-1 2:1\n1 1:-1 2:4\n")
    data = io.read_data(path, dtype="float64")
    words = {"y": data.y, "weights": [0.5, -1.0, 2.0]}
    X = data.X.to_scipy().toarray()
    expected = CASES["logistic gradient"].expected(X, {k: np.asarray(v) for k, v in words.items()})
    check(CASES["logistic gradient"].reduction(data, **words), expected, 1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].sparse])
def test_rows_of_a_data_set(name, dtype):
    case, rng = CASES[name], np.random.default_rng(3)
    X = rows(rng, (120, 9), dtype) * (rng.random((120, 9)) < 0.4)
    words, tolerance = case.arguments(rng, X), 1e-12 if dtype == np.float64 else 2e-4
    for given in (X, scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix((X != 0).astype(dtype))):
        data = bmrm.Dataset(given, device="cpu")
        dense = given if isinstance(given, np.ndarray) else given.toarray()
        for _ in range(2):
            check(case.reduction(data, **words), case.expected(dense, words), tolerance)


def test_nan_and_infinity_go_where_the_formula_puts_them():
    X = np.array([[np.nan, 1.0], [np.inf, -np.inf], [1e300, -1e300], [0.25, np.nan]])
    words = {"low": [0.0, 0.0], "scale": [4.0, 4.0], "bins": 4}
    found = histogram(X, **words)
    check(found, CASES["histogram"].expected(X, words), 0)
    check(histogram.python(X, **words), found, 0)
    # No distance is below infinity: the first centre, as the function says.
    found = kmeans_step(X, w=1.0, centers=[[0.0, 0.0], [1.0, 1.0]])
    assert found.label.tolist() == [0, 0, 0, 0]
    assert np.isnan(found.inertia) or found.inertia == inf
    check(kmeans_step.python(X, w=1.0, centers=[[0.0, 0.0], [1.0, 1.0]]), found, 0)


def test_ties_go_to_the_least_row():
    X = np.tile(rows(np.random.default_rng(0), (50, 2), float), (300, 1))
    found = nearest_rows(X, centers=X[[7, 3, 49]])
    assert found.who.tolist() == [7, 3, 49]
    assert found.best.tolist() == [0.0, 0.0, 0.0]
    assert found.last < 50


def test_rows_that_take_no_part_leave_an_extremum_as_it_is():
    @reduction
    def chosen(x, bin: int, least: "m", who: "m"):
        if x[0] > 0:
            if x[0] < least[bin]:
                least[bin], who[bin] = x[0], x.index

    X = np.full((130, 1), -1.0)
    X[[66, 100]], bins = 2.0, np.zeros(130, int)
    bins[100] = 1
    for run in (chosen, chosen.python):
        found = run(X, bin=bins, m=3)
        assert found.who.tolist() == [66, 100, -1]
        assert found.least.tolist() == [2.0, 2.0, inf]
        assert run(-np.abs(X), bin=bins, m=2).who.tolist() == [-1, -1]


def test_results_of_no_rows():
    found = nearest_rows(np.empty((0, 2)), centers=[[0.0, 0.0]])
    assert found == (np.array([inf]), np.array([-1]), -inf, -1, -1, 0)


def test_a_number_per_row_or_one_for_all():
    X, centers = rows(np.random.default_rng(1), (90, 3), float), np.eye(3)
    one, each = kmeans_step(X, w=2.0, centers=centers), kmeans_step(X, w=np.full(90, 2.0), centers=centers)
    check(one, each, 1e-14)
    whole = kmeans_step(X, w=2, centers=centers)
    assert whole.counts.dtype == np.int64
    assert whole.counts.sum() == 180


def test_results_have_names_and_types():
    found = kmeans_step(np.ones((3, 2), np.float32), w=1.0, centers=[[1.0, 1.0]])
    assert type(found).__name__ == "kmeans_step"
    assert [np.asarray(each).dtype.name for each in found] == ["float64", "float64", "float64", "int64"]
    assert kmeans_step.results == ("sums", "counts", "inertia", "label")
    assert "kmeans_step" in repr(kmeans_step)
    assert bmrm.reduction is reduction


WRONG_CALLS = [
    (kmeans_step, {"w": 1.0}, "found no 'centers', expected it: the row function reads it"),
    (kmeans_step, {"w": 1.0, "centers": np.ones((2, 4))}, "shape (2, 4) with d = 4, expected d = 3"),
    (kmeans_step, {"w": 1.0, "centers": np.ones(3)}, "centers: found shape (3,), expected the shape (k, d)"),
    (kmeans_step, {"w": np.ones(4), "centers": np.eye(3)}, "w: found shape (4,), expected one number"),
    (kmeans_step, {"w": 1.0, "centers": np.eye(3), "sums": 1}, "found the result 'sums' as an argument"),
    (kmeans_step, {"w": 1.0, "centers": np.eye(3), "scale": 1}, "found the argument 'scale', expected"),
    (kmeans_step, {"w": 1.0, "centers": np.eye(3), "k": 4}, "(3, 3) with k = 3, expected k = 4"),
    (kmeans_step, {"w": 1.0, "centers": np.ones((0, 3))}, "found the size k = 0, expected at least 1"),
    (histogram, {"low": np.zeros(3), "scale": np.ones(3)}, "found no size 'bins', expected bins="),
    (histogram, {"low": np.zeros(3), "scale": np.ones(3), "bins": 2.5}, "bins = 2.5, expected an integer"),
    (item_sets, {"sets": np.array([[0.5]])}, "an index is an integer"),
    (item_sets, {"sets": [[3]]}, "row 0: the row: found the index 3, expected 0 to 2"),
    (item_sets, {"sets": [[-1]]}, "found the index -1, expected 0 to 2"),
    (em_step, {"mean": np.eye(3), "prec": np.ones((2, 3)), "const": [0] * 3}, "with k = 2, expected k = 3"),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("row_function", "words", "text"), WRONG_CALLS)
def test_a_wrong_call_says_what_does_not_fit(row_function, words, text):
    with pytest.raises(ReductionError) as found:
        row_function(np.ones((5, 3)), **words)
    assert text in str(found.value)
    assert row_function.__name__ in str(found.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "tpu"}, "device: found 'tpu'"),
        ({"threads": 0}, "threads: found 0"),
        ({"order": "none"}, "order: found 'none'"),
        ({"keep": 1}, "keep: found 1"),
    ],
)
def test_a_wrong_option_is_named(options, text):
    with pytest.raises(ParameterError, match=text):
        covariance(np.ones((5, 3)), shift=np.ones(3), **options)


@pytest.mark.parametrize(
    "given",
    [
        np.ones(3),
        np.ones((2, 2, 2)),
        [["a"]],
        np.ones((2, 2), complex),
        None,
        np.ma.masked_array(np.ones((2, 2)), [[0, 0], [0, 1]]),
        np.array([["a", "b"]], object),
        np.zeros((2, 2), "datetime64[s]"),
        iter([[1.0, 2.0]]),
    ],
)
def test_rows_that_are_no_matrix(given):
    with pytest.raises(DataError):
        covariance(given, shift=np.ones(2))


@reduction
def pairs(x, out: ("m", "m"), other: ()):
    q = local("m")
    out[0, 0] += x[0]
    other += q[0]


@pytest.mark.parametrize("run", [pairs, pairs.python])
@pytest.mark.parametrize("m", [2**20, 2**31 - 1])
def test_results_that_do_not_fit_into_memory(run, m):
    with pytest.raises(
        HostMemoryError, match=r"GB for the results of pairs and its arrays, .* smaller sizes"
    ):
        run(np.ones((5, 3)), m=m)


def test_a_result_is_a_parameter_of_the_next_call():
    assert bmrm.reduction is reduction
    X = np.random.default_rng(0).normal(size=(500, 3))
    first = covariance(X, shift=np.zeros(3), keep=True)
    again = covariance(X, shift=first.total, keep=True)
    assert again.total.tobytes() == covariance(X, shift=np.asarray(first.total)).total.tobytes()


@reduction
def first_column(x, out: float):
    out = x[0]


@pytest.mark.parametrize("run", [first_column, first_column.python])
def test_rows_need_a_column(run):
    """A literal index is one of a column that exists."""
    with pytest.raises(ReductionError, match="the rows: found the size d = 0, expected at least 1"):
        run(np.ones((3, 0)))


def test_more_columns_than_32_bits_count_are_refused():
    @reduction
    def stored(x, total: ()):
        for _, v in x.stored():
            total += v

    X = scipy.sparse.csr_array((np.ones(1), np.array([2**31]), np.array([0, 1])), shape=(1, 2**31 + 1))
    with pytest.raises(ReductionError, match=f"found the size d = {2**31 + 1}, expected at most {2**31 - 1}"):
        stored(X)


def test_reductions_and_results_can_be_pickled():
    X = np.random.default_rng(0).normal(size=(20, 3))
    assert pickle.loads(pickle.dumps(first_column)) is first_column
    assert copy.deepcopy(first_column) is first_column
    found = covariance(X, shift=np.zeros(3))
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert type(again) is type(found)
        check(again, found, 0)


def test_arguments_may_have_the_names_of_those_of_methods():
    @reduction
    def named(x, data, self, total: "target"):
        total[0] += x[0] * data + self

    X, words = np.ones((5, 1)), {"data": 2.0, "self": 1.0, "target": 1}
    assert named(X, **words).total == named.python(X, **words).total == 15.0
    assert "total" in named.explain(X, **words)
    assert "__global__" in named.source("cuda", X, **words)


def test_dense_code_refuses_sparse_rows_with_the_line():
    with pytest.raises(
        ReductionError, match=r"covariance, line \d+: rows are sparse: for f, v in x.stored\(\)"
    ):
        covariance(scipy.sparse.eye_array(3).tocsr(), shift=np.ones(3))


def test_a_failing_row_is_named():
    @reduction
    def divided(x, by, out: "m"):
        out[int(x[0])] += 6 // by

    by = np.ones(300, int)
    check(divided(np.zeros((300, 1)), by=by, m=2), ([1800, 0],), 0)
    by[[250, 70]] = 0
    with pytest.raises(ReductionError, match=r"row 70: .*by"):
        divided(np.zeros((300, 1)), by=by, m=2)
    with pytest.raises(ReductionError, match=r"row 70: .*by"):
        divided.python(np.zeros((300, 1)), by=by, m=2)
    X = np.zeros((300, 1))
    X[[200, 290]] = 2
    for run in (divided, divided.python):
        with pytest.raises(ReductionError, match=r"row 200: .*index 2"):
            run(X, by=1, m=2)


def test_without_a_compiler_the_plain_loop_runs_if_it_is_short(monkeypatch):
    monkeypatch.setattr(native, "can_compile", lambda: False)
    X, centers = rows(np.random.default_rng(1), (50, 3), float), np.eye(3)
    expected = CASES["k-means"].expected(X, {"w": np.ones(50), "centers": centers})
    check(kmeans_step(X, w=1.0, centers=centers), expected, 1e-12)
    with pytest.raises(BmrmError, match=r"would take about \d+ s for 10000000 rows: pip install llvmlite"):
        kmeans_step(np.broadcast_to(X[0], (10_000_000, 3)), w=1.0, centers=np.ones((20, 3)))
    with pytest.raises(BmrmError, match="found no compiler for the CPU: pip install llvmlite"):
        kmeans_step.source("cpu", X, w=1.0, centers=centers)


def test_a_debugger_sees_the_lines_of_the_user():
    @reduction
    def fails(x, p: "k", out: ()):
        out += p[int(x[0])]

    with pytest.raises(ReductionError) as found:
        fails.python(np.array([[5.0]]), p=[1.0])
    trace = found.value.__cause__.__traceback__
    while trace.tb_next is not None and trace.tb_frame.f_code.co_name != "row_function":
        trace = trace.tb_next
    assert trace.tb_lineno == fails.__wrapped__.__code__.co_firstlineno + 2
    assert trace.tb_frame.f_code.co_filename == __file__


def test_closures_and_other_names_of_functions():
    import math as m

    smallest = min

    @reduction
    def mixed(x, out: (), low: ()):
        a = m.sqrt(abs(x[0])) + m.pi
        out += a if not m.isnan(x[0]) else np.exp(0.0)
        low = min(low, smallest(a, 2.0, x[1]))

    X = np.array([[4.0, 9.0], [np.nan, 1.0]])
    for run in (mixed, mixed.python):
        found = run(X)
        assert found.out == pytest.approx(2 + np.pi + 1)
        assert found.low == 2.0  # as in Python, min(nan, 2.0) is NaN, and min(2.0, nan) is 2.0


def test_division_and_remainder_are_those_of_python():
    @reduction
    def divided(x, y, p, q, fd, fm, wd, wm, power):
        fd, fm = x[0] // y, x[0] % y
        wd, wm = p // q, p % q
        power = x[0] ** 2 * 2**3 + abs(x[0]) ** 0.5

    rng = np.random.default_rng(0)
    X, y = rng.integers(-20, 20, (200, 1)) / 4, rng.choice([-2.5, -1.0, 0.75, 3.0], 200)
    p, q = rng.integers(-20, 20, 200), rng.choice([-3, -1, 1, 2, 7], 200)
    for run in (divided, divided.python):
        found = run(X, y=y, p=p, q=q)
        assert np.array_equal(found.fd, X[:, 0] // y)
        assert np.array_equal(found.fm, X[:, 0] % y)
        assert np.array_equal(found.wd, p // q)
        assert np.array_equal(found.wm, p % q)
        np.testing.assert_allclose(found.power, 8 * X[:, 0] ** 2 + np.abs(X[:, 0]) ** 0.5, rtol=1e-15)
    for run in (divided, divided.python):
        zero = run(np.array([[1.0], [-1.0], [0.0]]), y=0.0, p=-(2**63), q=1)
        assert zero.fd.tolist()[:2] == [inf, -inf]
        assert np.isnan(zero.fd[2])
        assert np.isnan(zero.fm).all()
