# ruff: noqa: F821 (annotations name sizes)
"""Reductions on a GPU against NumPy, the plain loop and themselves on other grids."""

import sys

import numpy as np
import pytest
import scipy.sparse
from guarded_cases import CASES as GUARDED
from guarded_cases import ERROR
from guarded_cases import X as GUARDED_ROWS
from programs import (
    CASES,
    center_arguments,
    covariance,
    kmeans_step,
    moments_about,
    moments_by_numpy,
    nearest_rows,
    two_of_centers,
)
from random_programs import compare_wild, random_arguments, random_reduction

from bmrm import Dataset
from bmrm.distributed import blocks
from bmrm.distributed.reading import read_rows
from bmrm.errors import BmrmError, DataError, ParameterError, ReductionError
from bmrm.formulas.gpu import nvrtc
from bmrm.matrix.gpu import pinned
from bmrm.matrix.gpu.driver import GpuArray, device
from bmrm.reductions import reduction


def gpu_works():
    try:
        nvrtc.load_nvrtc()
        return device(0) is not None
    except BmrmError:
        return False


pytestmark = pytest.mark.skipif(not gpu_works(), reason="there is no GPU, or no NVRTC")
PROGRAMS = 60


def same_bits(one, other):
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(one, other, strict=True))


def on_gpu(row_function, X, words, **options):
    """Results of a call with options that users do not have."""
    call = row_function._binder.bind(read_rows(X), words, gpu=True)
    return row_function._tuple(**row_function._gpu.run(call, **options))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_numpy_gives(name, dtype):
    case, rng = CASES[name], np.random.default_rng(1)
    for shape in [(0, 3), (1, 1), (33, 2), (1000, 16), (5000, 5), (70, 100)]:
        X = (rng.integers(-32, 33, shape) / 16 + 1 / 64).astype(dtype)
        words = case.arguments(rng, X)
        for mine, theirs in zip(
            case.reduction(X, device="cuda", **words), case.expected(X, words), strict=True
        ):
            scale = np.abs(np.asarray(theirs)[np.isfinite(theirs)]).max(initial=1.0)
            tolerance = (1e-12 if dtype == np.float64 else 3e-5) * scale
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("logistic gradient", np.asarray),
        ("logistic gradient", scipy.sparse.csr_array),
        ("k-means", np.asarray),
        ("nearest rows", np.asarray),
    ],
)
def test_blocks_that_stream_have_the_bits_of_blocks_that_are_there(name, form, monkeypatch):
    """Copies go through pinned memory while kernels work on the other slot; no pass finds other rows."""
    case, rng = CASES[name], np.random.default_rng(2)
    X = rng.normal(size=(60_000, 16))
    X = np.where(X > 1.0, X, 0.0) if case.sparse else X
    words, given = case.arguments(rng, X), form(X)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 19)
    monkeypatch.setattr(pinned, "MIN_PINNED_BYTES", 1 << 12)
    expected = case.reduction(Dataset(given, device="cpu"), device="cuda", **words)
    for mine, theirs in zip(expected, case.expected(X, words), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr("bmrm.formulas.run.device_blocks.count_resident", lambda blocks, *_: blocks // 2)
    half = Dataset(given, device="cpu")
    for _ in range(5):
        assert same_bits(case.reduction(given, device="cuda", **words), expected)
        assert same_bits(case.reduction(half, device="cuda", **words), expected)


@pytest.mark.parametrize("name", CASES)
def test_bits_do_not_depend_on_the_grid_or_the_run(name):
    case, rng = CASES[name], np.random.default_rng(5)
    X = rng.normal(size=(50_000, 4))
    words = case.arguments(rng, X)
    first = on_gpu(case.reduction, X, words)
    for grid in (None, 1, 3, 1000):
        assert same_bits(first, on_gpu(case.reduction, X, words, blocks=grid))


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_gives_the_bits_of_the_plain_loop(seed):
    row_function, text = random_reduction(seed, exact=True)
    X, words = random_arguments(seed, (0, 1, 5, 40, 300)[seed % 5])
    found, expected = on_gpu(row_function, X, words, contract=False), row_function.python(X, **words)
    for name, mine, theirs in zip(found._fields, found, expected, strict=True):
        assert np.array_equal(mine, theirs), (name, mine, theirs, text)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_whole_numbers_wrap_and_conditions_keep_indices_inside(seed):
    compare_wild(seed, (0, 1, 5, 40, 300)[seed % 5], lambda *call: on_gpu(*call, contract=False))


@pytest.mark.parametrize("name", GUARDED)
def test_no_index_that_no_row_has_is_read_and_every_other_is_checked(name):
    row_function, words, expected = GUARDED[name]
    if isinstance(expected, str):
        assert expected == ERROR
        with pytest.raises(ReductionError):
            on_gpu(row_function, GUARDED_ROWS, words)
        return
    found = on_gpu(row_function, GUARDED_ROWS, words)
    if expected is None:
        expected = row_function.python(GUARDED_ROWS, **words)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].sparse])
def test_sparse_rows(name):
    case, rng = CASES[name], np.random.default_rng(3)
    X = rng.normal(size=(3000, 20)) * (rng.random((3000, 20)) < 0.2)
    words = case.arguments(rng, X)
    found = case.reduction(scipy.sparse.csr_matrix(X), device="cuda", **words)
    for mine, theirs in zip(found, case.expected(X, words), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


def test_large_results_are_in_global_memory():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    words = {"w": rng.random(2000), "centers": rng.normal(size=(9000, 3))}
    case = CASES["k-means"]
    for mine, theirs in zip(kmeans_step(X, device="cuda", **words), case.expected(X, words), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


@pytest.mark.parametrize(("clusters", "columns"), [(61, 2), (48, 3), (40, 9), (64, 16)])
def test_rows_side_by_side_keep_the_first_of_equal_turns(clusters, columns):
    X, words = center_arguments(1000, clusters, columns)
    for kind in (np.float32, np.float64):
        call = two_of_centers, X.astype(kind), words
        found, expected = on_gpu(*call, contract=False), two_of_centers.python(X.astype(kind), **words)
        for name, mine, theirs in zip(found._fields, found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, name)


@pytest.mark.parametrize(
    ("columns", "kind"), [(8, np.float64), (24, np.float64), (32, np.float32), (64, np.float32)]
)
def test_one_of_two_equal_blocks_is_computed_for_both(columns, kind):
    rng = np.random.default_rng(columns)
    X = rng.integers(-9, 9, (5000, columns)).astype(kind) / 4
    words = {"w": rng.integers(0, 3, 5000) / 2, "shift": rng.integers(-4, 4, columns) / 2}
    for mine, theirs in zip(
        moments_about(X, device="cuda", **words), moments_by_numpy(X, **words), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_ties_go_to_the_least_row():
    X = np.tile(np.random.default_rng(0).integers(-9, 9, (50, 2)) / 4, (300, 1))
    X[:50] += np.arange(50)[:, None]
    X[50:] = X[:50].repeat(299, axis=0)
    found = nearest_rows(X, centers=X[[7, 3, 49]], device="cuda")
    assert found.who.tolist() == [7, 3, 49]


def test_results_stay_and_rows_of_another_library_are_used_in_place():
    cupy = pytest.importorskip("cupy")
    X = np.random.default_rng(0).normal(size=(4000, 6))
    there, centers = cupy.asarray(X), X[:5]
    for _ in range(3):
        kept = kmeans_step(there, w=1.0, centers=centers, keep=True)
        assert isinstance(kept.sums, GpuArray)
        centers = cupy.asarray(kept.sums) / cupy.maximum(cupy.asarray(kept.counts), 1)[:, None]
    mine = kmeans_step(X, w=1.0, centers=cupy.asnumpy(centers), device="cuda")
    assert same_bits(kmeans_step(there, w=1.0, centers=centers), mine)
    by_columns = cupy.asfortranarray(there)[::2, 1:]
    found = covariance(by_columns, shift=np.zeros(5))
    np.testing.assert_allclose(found.cross, np.tril(X[::2, 1:].T @ X[::2, 1:]), rtol=1e-9, atol=1e-9)
    with pytest.raises(ParameterError, match="found 'cpu' for rows on GPU 0"):
        kmeans_step(there, w=1.0, centers=centers, device="cpu")
    with pytest.raises(DataError, match="rows on a GPU"):
        kmeans_step.python(there, w=1.0, centers=centers)


@pytest.mark.parametrize("kind", ["<f4", "<i2", "<u1", "?"])
def test_rows_of_another_library_have_any_type(kind):
    cupy = pytest.importorskip("cupy")
    X = np.random.default_rng(0).integers(0, 2 if kind == "?" else 9, (3000, 6)).astype(kind)
    shift = np.zeros(6)
    with cupy.cuda.Stream(non_blocking=True):  # which work on the default stream does not wait for
        there = cupy.asarray(X)
        for _ in range(50):
            there = there.copy()
        found = covariance(there, shift=cupy.asarray(shift))
    assert same_bits(found, covariance(X, shift=shift, device="cuda"))


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2"])
def test_mapped_files_of_any_type(dtype, tmp_path):
    X = np.random.default_rng(0).integers(-9, 9, (70_000, 8)).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    found = covariance(np.load(tmp_path / "X.npy", mmap_mode="r"), shift=np.zeros(8), device="cuda")
    np.testing.assert_array_equal(found.cross, np.tril(X.astype(float).T @ X.astype(float)))


def test_compiled_code_is_found_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = 'extern "C" __global__ void nothing() {}'
    capability = device(0).capability
    code = nvrtc.compile_cuda(text, capability)
    monkeypatch.setattr(nvrtc, "_compile", None)
    assert nvrtc.compile_cuda(text, capability) == code


def test_the_device_of_the_thread_stays():
    cupy = pytest.importorskip("cupy")
    for number in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(number):
            nearest_rows(np.ones((5, 2)), centers=np.ones((1, 2)), device="cuda:0")
            assert cupy.cuda.runtime.getDevice() == number


def test_a_failing_row_is_named():
    @reduction
    def bins(x, out: "m"):
        out[int(x[0])] += 6 // int(x[1])

    X = np.ones((3000, 2))
    X[[2000, 2900], 0] = 5
    with pytest.raises(ReductionError, match=r"row 2000: .*index 5"):
        bins(X, m=3, device="cuda")
    if cupy := sys.modules.get("cupy"):
        with pytest.raises(ReductionError, match=r"line \d+: row 2000: out: found an index outside"):
            bins(cupy.asarray(X), m=3)
    X[1500, 1] = 0
    with pytest.raises(ReductionError, match=r"row 1500"):
        bins(X, m=3, device="cuda")
