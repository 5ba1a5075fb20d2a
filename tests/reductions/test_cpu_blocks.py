"""Calls on a GPU, or the emulator, whose rows are copied in blocks: the CPU has some of them."""

import shutil
import signal
import threading

import emulated_driver
import numpy as np
import pytest
import scipy.sparse
from endless_functions import FUNCTIONS, arguments_of
from loop_programs import CASES as LOOPS
from programs import CASES
from test_gpu import gpu_works

import bmrm
from bmrm.distributed import blocks
from bmrm.errors import ParameterError, ReductionError
from bmrm.formulas.analysis import long_loops
from bmrm.formulas.cpu import native
from bmrm.formulas.run import beside, function
from bmrm.matrix.gpu import cache, cpu_share
from bmrm.matrix.gpu.placement import Placement
from bmrm.reductions import reduction

HAS_GPU = gpu_works()

pytestmark = pytest.mark.skipif(
    not ((HAS_GPU or shutil.which("g++")) and native.can_compile()),
    reason="there is neither a GPU nor g++, or no llvmlite",
)

ROWS, COLUMNS = 1000, 5


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, tmp_path):
    """Cut the rows below into 16 blocks, all of which are copied in each call; no rate is known."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_known_times", {})
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(blocks, "MIN_BLOCK_ROWS", 64)
    if HAS_GPU:
        yield
        return
    monkeypatch.setattr(long_loops, "MIN_ITERATION_WORK", 1 << 22)
    found = emulated_driver.install(monkeypatch)
    yield
    assert found.depth == 0


def rows():
    return np.random.default_rng(4).integers(-32, 33, (ROWS, COLUMNS)) / 16 + 1 / 64


def bits(found):
    return [np.asarray(each).tobytes() for each in found]


def check(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_results_of_both_devices(name):
    case, X = CASES[name], rows()
    words = case.arguments(np.random.default_rng(0), X)
    alone = bits(case.reduction(X, device="cuda", **words))
    assert bits(case.reduction(X, device="cuda", cpu_share=0, **words)) == alone
    for share in (0.125, 0.5, 1.0):
        one, other = (
            case.reduction(X, device="cuda", cpu_share=share, threads=threads, **words) for threads in (1, 3)
        )
        check(one, case.expected(X, words))
        assert bits(one) == bits(other)


@pytest.mark.parametrize("form", [np.float16, scipy.sparse.csr_array])
def test_rows_of_other_kinds(form):
    X = np.where(rows() > 0.5, rows(), 0.0)
    case = CASES["logistic gradient"]
    words = case.arguments(np.random.default_rng(1), X)
    given = X.astype(form) if form is np.float16 else form(X)
    expected = case.reduction(given, device="cpu", **words)
    check(case.reduction(given, device="cuda", cpu_share=0.5, **words), expected)


def test_blocks_of_a_data_set_that_stay_are_the_gpus(monkeypatch):
    monkeypatch.setattr("bmrm.formulas.run.device_blocks.count_resident", lambda number, *_: number // 2)
    case, X = CASES["k-means"], rows()
    words = case.arguments(np.random.default_rng(2), X)
    data, other = bmrm.Dataset(X, device="cpu"), bmrm.Dataset(X, device="cpu")
    found = [case.reduction(data, device="cuda", cpu_share=0.5, **words) for _ in range(2)]
    check(found[0], case.expected(X, words))
    assert bits(found[0]) == bits(found[1])
    assert bits(case.reduction(data, device="cuda", **words)) == bits(
        case.reduction(other, device="cuda", **words)
    )
    monkeypatch.setattr(function, "predict_place", lambda *of: Placement(0, "for this test"))
    monkeypatch.setattr(cache, "stored_time", lambda device, name: 1e-9)
    monkeypatch.setattr(beside, "_is_built", lambda: True)
    monkeypatch.setattr(cpu_share, "copy_time", lambda gpu, measure: 1e-9)  # 40 bytes of a row, 1 of the CPU
    text = case.reduction.explain(data, **words)
    assert text.endswith("for this test; the CPU computes 7 of 8 blocks that do not fit, rows 576 to 999")


@pytest.mark.parametrize(("row", "blocks_of_16"), [(0.1, 14), (1.0, 8), (2.9, 4), (3.1, 0), (100.0, 0)])
def test_a_pass_is_shared_from_two_eighths_on(monkeypatch, row, blocks_of_16):
    monkeypatch.setattr(cpu_share, "_time", lambda *of: row)
    monkeypatch.setattr(cpu_share, "copy_time", lambda gpu, measure: 1.0)
    work = cpu_share.Pass("auto", "a pass", lambda threads: row)
    assert cpu_share.count_cpu_blocks(work, 16, 0, 1.0) == blocks_of_16


def test_results_that_stay_are_all_of_the_gpu():
    case, X = CASES["covariance"], rows()
    words = case.arguments(np.random.default_rng(3), X)
    kept = case.reduction(X, device="cuda", keep=True, cpu_share=0.5, **words)
    alone = case.reduction(X, device="cuda", **words)
    assert bits([each.numpy() for each in kept]) == bits(alone)


@reduction
def at(x, p, out):
    out += p[int(x[0])]


def test_the_earliest_row_is_named_whichever_device_has_it():
    X, p = np.zeros((ROWS, COLUMNS)), np.arange(50.0)
    for wrong in ([980], [40, 980], [700, 980], [40]):
        X[:] = 0
        X[wrong] = 70
        for share in (0, 0.5, 1):
            with pytest.raises(ReductionError, match=f"at: row {wrong[0]}: index 70 is out of bounds|70"):
                at(X, p=p, device="cuda", cpu_share=share)


@pytest.mark.parametrize("function", FUNCTIONS[:2], ids=lambda each: each.__name__)
def test_a_signal_ends_the_passes_of_both(function):
    given, words = arguments_of(function)
    X = np.resize(np.asarray(given), (ROWS, np.shape(given)[1]))
    function(X[:0], device="cuda", **words)
    function(X[:0], device="cpu", **words)
    threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        function(X, device="cuda", cpu_share=0.5, threads=2, **words)
    assert not [each for each in threading.enumerate() if each.name.startswith("bmrm-cpu")]


def test_loops_of_long_parameters_run_on_both():
    case = next(iter(LOOPS.values()))
    X, words = rows(), case.arguments(ROWS)
    check(case.reduction(X, device="cuda", cpu_share=0.5, **words), case.by_numpy(X, **words))


def test_rates_are_measured_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(beside, "_is_built", lambda: True)
    monkeypatch.setattr(beside, "MEASURED_SECONDS", 1e-4)
    monkeypatch.setattr(cpu_share, "copy_time", lambda gpu, measure: 1e-3)
    case, X = CASES["covariance"], rows()
    words = case.arguments(np.random.default_rng(5), X)
    alone = bits(case.reduction(X, device="cuda", **words))
    both = bits(case.reduction(X, device="cuda", cpu_share="auto", **words))
    assert len(cache._known_times) == 1
    assert both != alone
    assert bits(case.reduction(X, device="cuda", **words)) == both  # rates that are stored decide


def test_shares_that_cannot_be_are_refused(monkeypatch):
    for share in (0.3, "half", -1):
        with pytest.raises(ParameterError, match="cpu_share"):
            at(rows(), p=np.ones(2), cpu_share=share)
    monkeypatch.setattr(native, "can_compile", lambda: False)
    with pytest.raises(ParameterError, match="cpu_share: found 4 without llvmlite"):
        at(np.zeros((ROWS, COLUMNS)), p=np.ones(2), device="cuda", cpu_share=0.5)
