"""`while`, `break` and `continue` on a GPU, and the end of endless passes.

Without a GPU driver and compiler are emulated on the CPU.
"""

import shutil
import signal
import threading

import emulated_driver
import numpy as np
import pytest
import scipy.sparse
from endless_functions import FOR_LONG_PARAMETERS, FUNCTIONS, arguments_of, uniform
from loop_programs import CASES
from test_gpu import gpu_works
from test_loops import check, of_rows, outside, rows_of

from bmrm.errors import ReductionError
from bmrm.formulas.analysis import long_loops
from bmrm.reductions import reduction

HAS_GPU = gpu_works()

pytestmark = pytest.mark.skipif(not (HAS_GPU or shutil.which("g++")), reason="there is neither a GPU nor g++")


@pytest.fixture(autouse=True)
def library(monkeypatch):
    if HAS_GPU:
        yield
        return
    monkeypatch.setattr(long_loops, "MIN_ITERATION_WORK", 1 << 22)  # 2^20 of them take an emulated lane long
    found = emulated_driver.install(monkeypatch)
    yield
    assert found.depth == 0


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_numpy_gives(name):
    case, X = CASES[name], rows_of(300)
    check(
        case.reduction(X, device="cuda", **case.arguments(len(X))), case.by_numpy(X, **case.arguments(len(X)))
    )
    if case.sparse:
        X[np.abs(X) < 0.5] = 0
        found = case.reduction(scipy.sparse.csr_array(X), device="cuda", **case.arguments(len(X)))
        check(found, case.by_numpy(X, **case.arguments(len(X))))


def test_functions_are_given_rows_and_arrays():
    X, rng = rows_of(70), np.random.default_rng(3)
    words = {"p": rng.integers(1, 9, 5) / 4, "q": rng.integers(-8, 9, (3, 5)) / 4, "n": np.array([3, 7, -2])}
    check(of_rows(X, device="cuda", **words), of_rows.python(X, **words))


def test_an_index_in_a_while_is_checked():
    X, p = np.ones((50, 2)), np.arange(60.0)
    with pytest.raises(ReductionError, match=r"outside: row 0: index 80 is out of bounds"):
        outside(X, p=p, k=40, device="cuda")
    assert outside(X, p=p, k=100, device="cuda").out == 0


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_signal_ends_an_endless_pass(function):
    rows, words = arguments_of(function)
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    function(rows[:0], device="cuda", **words)  # compiles it
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        function(rows[:300], device="cuda", **words)
    assert uniform(np.ones((300, 9)), n=2, p=np.ones(2), device="cuda").out == 300


LOOPS = ("in 32 lanes", "ranked once", "warp butterfly", "the best of groups", *["sums of products"] * 2)


@pytest.mark.parametrize(("function", "loop"), list(zip(FOR_LONG_PARAMETERS, LOOPS, strict=True)))
def test_a_signal_ends_a_pass_over_long_parameters(function, loop, monkeypatch):
    name, rows, width = function.__name__, 20_000, 2
    count = {"best": 1 << 29, "butterfly": 20_000}.get(name, 1 << 27)
    if not HAS_GPU:
        monkeypatch.setattr(long_loops, "MAX_UNWATCHED", 1 << 10)
        count, rows = {"butterfly": 150, "best": 100_000}.get(name, 10_000), 30_000
    if name == "products":
        count, width = 1, 20_000 if HAS_GPU else 150
    X, p = np.ones((rows, width)), np.ones(count)
    assert loop in function.explain(X, p=p)
    text = function.source("cuda", X, p=p)
    assert any("is_to_end(" in line and "base + lane" not in line for line in text.splitlines())
    function(X[:0], device="cuda", p=p)
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        function(X, device="cuda", p=p)


def test_a_lane_looks_every_2_to_the_20_iterations(monkeypatch):
    monkeypatch.setattr(long_loops, "MIN_ITERATION_WORK", 16)
    X = np.ones((40, 3))
    text = FUNCTIONS[-3].source("cuda", X, n=2, p=np.ones(2))
    work = long_loops.work_of_iteration(long_loops.long_loops(FUNCTIONS[-3]._binder.general, {})["while.1"])
    assert f"if (is_to_end(table, row, work, {work})) break;" in text
    assert work << 20 == long_loops.GPU_LOOK_OPERATIONS
    short = CASES["stored"]
    assert "watch.cuh" not in short.reduction.source("cuda", rows_of(9), **short.words)


@reduction
def until_large(x, p, out):
    i = int(x[0])
    while p[i] < 9.0:
        i += 1
    out += i


def test_a_loop_ends_whose_index_is_outside_and_the_earliest_row_is_named():
    X, p = np.full((300, 2), 3.0), np.ones(50)
    p[3] = 9.0  # p[0], which a lane reads instead of what is outside, does not end the loop
    X[[40, 250]] = 7
    with pytest.raises(ReductionError, match="until_large: row 40: index 50 is out of bounds"):
        until_large(X, p=p, device="cuda")
    assert until_large(X * 0, p=p, device="cuda").out == 900
