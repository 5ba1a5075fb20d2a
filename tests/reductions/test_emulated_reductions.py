# ruff: noqa: F821, F841 (annotations name sizes; results are assigned and not read)
"""Reductions on a GPU with driver and compiler emulated on the CPU (emulated_driver.py)."""

import ctypes
import gc
import shutil
from types import SimpleNamespace

import emulated_driver
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
    histogram,
    item_sets,
    kmeans_step,
    moments_about,
    moments_by_numpy,
    nearest_rows,
    two_of_centers,
)
from random_programs import compare_wild, random_arguments, random_reduction

import bmrm
from bmrm.base.recent import Recent
from bmrm.distributed import blocks
from bmrm.distributed import rows as row_kinds
from bmrm.distributed.reading import read_rows
from bmrm.errors import DataError, DeviceMemoryError, ParameterError, ReductionError
from bmrm.formulas.analysis import products, schedule
from bmrm.formulas.run import device_blocks, gpu
from bmrm.io import Csr
from bmrm.matrix.gpu import driver, pinned
from bmrm.matrix.gpu.driver import GpuArray
from bmrm.reductions import exp, inf, local, reduction, squared_distance

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
RNG = np.random.default_rng(0)


class ArrayThere:
    """An array that another library has put on a GPU: only `get` reads it."""

    def __init__(self, array, stream=None):
        self._array, self._stream, self.reads = array, stream, 0

    @property
    def __cuda_array_interface__(self):
        strides = None if self._array.flags.c_contiguous else self._array.strides
        where = self._array.ctypes.data if self._array.size else 0
        return {
            "shape": self._array.shape,
            "typestr": self._array.dtype.str,
            "data": (where, False),
            "strides": strides,
            "version": 3,
            "stream": self._stream,
        }

    def __array__(self, dtype=None, copy=None):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __getitem__(self, part):
        self.reads += 1
        return ArrayThere(self._array[part])

    def get(self):
        return self._array.copy()


@pytest.fixture(autouse=True)
def library(monkeypatch):
    found = emulated_driver.install(monkeypatch)
    yield found
    assert found.depth == 0


def on_gpu(row_function, X, words, **options):
    """Results of a call with options that users do not have."""
    call = row_function._binder.bind(read_rows(X), words, gpu=True)
    return row_function._tuple(**row_function._gpu.run(call, **options))


def same_bits(one, other):
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(one, other, strict=True))


def check(found, expected, rtol, atol):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize("seed", range(4))
def test_a_random_program_gives_the_bits_of_the_plain_loop(seed):
    row_function, text = random_reduction(20_000 + seed, exact=True)
    X, words = random_arguments(seed, (1, 0, 300, 40)[seed])
    found, expected = on_gpu(row_function, X, words, contract=False), row_function.python(X, **words)
    for name, mine, theirs in zip(found._fields, found, expected, strict=True):
        assert np.array_equal(mine, theirs), (name, mine, theirs, text)


@pytest.mark.parametrize("seed", range(3))
def test_whole_numbers_wrap_and_conditions_keep_indices_inside(seed):
    compare_wild(30_000 + seed, (40, 5, 70)[seed], lambda *call: on_gpu(*call, contract=False))


@pytest.mark.parametrize("name", GUARDED)
def test_no_index_that_no_row_has_is_read_and_every_other_is_checked(name):
    row_function, words, expected = GUARDED[name]
    if isinstance(expected, str):
        assert expected == ERROR
        with pytest.raises(ReductionError, match="found an index outside"):
            on_gpu(row_function, ArrayThere(GUARDED_ROWS), words)
        return
    found = on_gpu(row_function, GUARDED_ROWS, words)
    if expected is None:
        expected = row_function.python(GUARDED_ROWS, **words)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_numpy_gives_on_any_grid(name):
    case, rng = CASES[name], np.random.default_rng(4)
    X = rng.integers(-32, 33, (300, 5)) / 16 + 1 / 64
    words = case.arguments(rng, X)
    found = case.reduction(X, device="cuda", **words)
    check(found, case.expected(X, words), 1e-9, 1e-9)
    for grid in (1, 3):
        assert same_bits(found, on_gpu(case.reduction, X, words, blocks=grid))


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].sparse])
def test_sparse_rows(name):
    case, rng = CASES[name], np.random.default_rng(3)
    X = (rng.normal(size=(200, 20)) * (rng.random((200, 20)) < 0.2)).astype(np.float32)
    words = case.arguments(rng, X)
    found = case.reduction(scipy.sparse.csr_matrix(X), device="cuda", **words)
    check(found, case.expected(X, words), 1e-3, 1e-3)


@reduction
def scatter(x, w, shift: "d", total: "d", cross: ("d", "d")):
    if w > 0:
        for f in range(len(x)):
            a = w * (x[f] - shift[f])
            total[f] += a
            for g in range(f + 1):
                cross[f, g] += a * (x[g] - shift[g])


@pytest.mark.parametrize(("columns", "limit"), [(1, 88), (8, 88), (9, 88), (20, 88), (20, 4)])
def test_matrices_of_sums_skip_rows_by_their_condition(columns, limit, monkeypatch):
    monkeypatch.setattr(products, "MAX_APART_NUMBERS", limit)
    monkeypatch.setattr(products, "GROUP_BLOCKS", 2)
    rng = np.random.default_rng(columns)
    X, w, shift = rng.normal(size=(150, columns)), rng.random(150), rng.normal(size=columns)
    w[::3], X[::3] = 0, np.nan
    assert "by blocks in registers: total, cross" in scatter.explain(X, w=w, shift=shift)
    found, E = scatter(X, w=w, shift=shift, device="cuda"), (X - shift)[w > 0]
    check(found, (w[w > 0] @ E, np.tril((E * w[w > 0][:, None]).T @ E)), 1e-12, 1e-12)
    call = {"X": X, "words": {"w": w, "shift": shift}}
    assert same_bits(found, on_gpu(scatter, **call, blocks=1))


@pytest.mark.parametrize(("columns", "kind"), [(3, float), (8, np.float32), (24, float), (32, np.float32)])
def test_one_of_two_equal_blocks_is_computed_for_both(columns, kind):
    rng = np.random.default_rng(columns)
    wide = rng.integers(-9, 9, (203, columns + 1)).astype(kind) / 4
    words = {"w": rng.integers(0, 3, 203) / 2, "shift": rng.integers(-4, 4, columns) / 2}
    for X in (wide[:, :columns].copy(), wide[:, 1:]):
        found = moments_about(ArrayThere(X), **words)
        for mine, theirs in zip(found, moments_by_numpy(X, **words), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert same_bits(found, on_gpu(moments_about, ArrayThere(X), words, blocks=1))


def test_sums_with_numbers_of_the_row_come_from_other_lanes():
    @reduction
    def moments(x, p: "k", first: "d", mixed: ("d", "k"), upper: ("d", "d"), seen: (), out):
        s = exp(-x[0])
        even = x.index % 2 == 0
        for f in range(len(x)):
            first[f] += s * x[f]
        seen += s
        if even:
            for j in range(1, len(p)):
                for f in range(len(x)):
                    mixed[f, j] += -(p[j] * s) * (x[f] + 1)
        for f in range(len(x)):
            for g in range(max(f, 2), len(x) - 1):
                upper[f, g] += x[f] * x[g] * s
        out = s

    X, p = RNG.normal(size=(90, 9)), RNG.normal(size=4)
    assert "registers: first, mixed, upper" in moments.explain(X, p=p)
    found, s = moments(X, p=p, device="cuda"), np.exp(-X[:, 0])
    mixed = -np.outer((s[:, None] * (X + 1))[::2].sum(axis=0), p)
    mixed[:, 0] = 0
    upper = np.triu((X * s[:, None]).T @ X)
    upper[:, [0, 1, 8]] = 0
    check(found, (s @ X, mixed, upper, s.sum(), s), 1e-12, 1e-12)


def test_long_vectors_of_sums():
    @reduction
    def totals(x, total: "d", skipped: "d"):
        for f in range(len(x)):
            total[f] += x[f]
        for f in range(3, len(x)):
            skipped[f] += 1

    X = RNG.normal(size=(70, 730))
    skipped = np.full(730, 70.0)
    skipped[:3] = 0
    check(totals(X, device="cuda"), (X.sum(axis=0), skipped), 1e-12, 1e-12)


def test_not_every_sum_is_one_of_products():
    @reduction
    def others(x, sums: "d", twice: "d", whole: "d", last: "d", outside: 3):
        for f in range(len(x)):
            sums[f] += abs(x[f] - x[0]) * x[f]
        for f in range(len(x)):
            twice[f] += x[f]
        for f in range(len(x)):
            twice[f] += 1.0
        for f in range(len(x)):
            whole[f] += 1
        b = 0.0
        for f in range(len(x)):
            b = x[f]
        for f in range(len(x)):
            last[f] += b
        for f in range(len(x)):
            outside[f] += x[f]

    X = RNG.normal(size=(40, 3))
    assert "in registers: sums, last\n" in others.explain(X)
    check(others(X, device="cuda"), others.python(X), 1e-12, 1e-12)


@pytest.mark.parametrize("columns", [2, 7, 8, 19, 40])
def test_loops_that_combine_one_result_after_another(columns):
    @reduction
    def places(x, w, table: ("k", "d"), sums: ("k", "d"), most: ("k", "d"), count: "k", low: "d", high: "d"):
        at = int(w) % len(sums)
        scale = w * 0.5
        for f in range(len(x)):
            sums[at, f] += scale * x[f] - table[at, f]
        if w > 2:
            for f in range(1, len(x)):
                most[at, f] = max(most[at, f], x[f])
        count[at] += 1
        for f in range(len(x)):
            e = x[f] * scale
            low[f] = min(low[f], e)
        for f in range(len(x)):
            e = x[f] - scale
            if e > 0:
                high[f] = max(high[f], e)

    rng = np.random.default_rng(columns)
    X, w = rng.normal(size=(150, columns)), rng.integers(0, 9, 150)
    words = {"w": w.astype(float), "table": rng.normal(size=(4, columns))}
    text = places.source("cuda", X, **words)
    assert ("place0[" in text) == (columns >= 8)
    assert "over_warp_each<Least>" in text
    found = places(X, device="cuda", **words)
    check(found, places.python(X, **words), 1e-12, 1e-12)
    assert same_bits(found, on_gpu(places, X, words, blocks=2))


@pytest.mark.parametrize(("clusters", "columns"), [(61, 2), (48, 3), (40, 9)])
def test_rows_side_by_side_keep_the_first_of_equal_turns(clusters, columns):
    X, words = center_arguments(157, clusters, columns)
    text = two_of_centers.source("cuda", X, **words)
    assert "start += 2 * WARP" in text
    assert ("fmin(" in text) == (columns < 9)
    for kind in (np.float32, np.float64):
        call = two_of_centers, X.astype(kind), words
        found, expected = on_gpu(*call, contract=False), two_of_centers.python(X.astype(kind), **words)
        for name, mine, theirs in zip(found._fields, found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, name)
        assert same_bits(found, on_gpu(*call, contract=False, blocks=1))


def test_rows_side_by_side_have_arrays_of_their_own():
    @reduction
    def places(x, c: ("k", "d"), total: (), code: int):
        best, at = inf, 0
        for j in range(len(c)):
            dist = squared_distance(x, c[j])
            if dist < best:
                best, at = dist, j
        seen = local(3)
        seen[at % 3] += 1
        seen[0] += 2
        code = seen[0] + 10 * seen[1] + 100 * seen[2]
        total += best

    X, c = RNG.integers(-9, 9, (200, 16)) / 4, RNG.integers(-9, 9, (64, 16)) / 4
    assert "start += 2 * WARP" in places.source("cuda", X, c=c)
    assert same_bits(on_gpu(places, X, {"c": c}, contract=False), places.python(X, c=c))


def test_turns_that_keep_something_are_compared_one_by_one():
    @reduction
    def kept(x, table: ("k", 2), low: (), second: (), walk: ()):
        best, before, walked, last = inf, inf, 0.0, 0.0
        for j in range(len(table)):
            dist = abs(x[0] - table[j, 0]) + abs(x[1] - table[j, 1])
            if dist < best:
                before, best = best, dist
        for j in range(len(table)):
            walked += table[j, 0]
            where = walked * x[0] + table[j, 1]
            if where < last:
                last = where
        low += best
        second += before
        walk += last

    rng = np.random.default_rng(0)
    X, table = rng.integers(-9, 9, (70, 2)) / 4, rng.integers(-9, 9, (130, 2)) / 4
    text = kept.source("cuda", X, table=table)
    assert "start += 2 * WARP" in text
    assert "fmin" not in text
    assert same_bits(on_gpu(kept, X, {"table": table}, contract=False), kept.python(X, table=table))


def test_large_results_are_in_global_memory():
    X = RNG.normal(size=(100, 3))
    words = {"w": RNG.random(100), "centers": RNG.normal(size=(4000, 3))}
    assert "results of a warp in global memory" in kmeans_step.explain(X, **words)
    found = kmeans_step(X, device="cuda", **words)
    check(found, CASES["k-means"].expected(X, words), 1e-9, 1e-9)


def test_ties_go_to_the_least_row():
    X = np.tile(np.random.default_rng(0).integers(-9, 9, (50, 2)) / 4, (8, 1))
    X[:50] += np.arange(50)[:, None]
    X[50:] = X[:50].repeat(7, axis=0)
    assert nearest_rows(X, centers=X[[7, 3, 49]], device="cuda").who.tolist() == [7, 3, 49]


@pytest.mark.parametrize("kind", ["<f4", "<i2", "?", "F", "strided", "empty"])
def test_rows_of_another_library_are_used_in_place(kind, library):
    X = RNG.integers(0, 2 if kind == "?" else 9, (90, 6)).astype(kind if kind[0] in "<?" else float)
    X = {"F": np.asfortranarray(X), "strided": X[::2, 1:], "empty": X[:0]}.get(kind, X)
    shift = np.zeros(X.shape[1])
    found = covariance(ArrayThere(X), shift=shift)
    assert same_bits(found, covariance(X, shift=shift, device="cuda"))
    there, here = (
        covariance.explain(ArrayThere(X), shift=ArrayThere(shift)),
        covariance.explain(X, shift=shift),
    )
    assert there.rpartition("\n")[0] == here.rpartition("\n")[0]  # the last line has the device


def test_arrays_are_waited_for_unless_their_stream_is_ours():
    for stream, reads in ((None, 1), (1, 0), (2, 1), (94_000_000, 1)):
        rows, shift = ArrayThere(np.ones((9, 2)), stream), ArrayThere(np.zeros(2), stream)
        assert covariance(rows, shift=shift).total.tolist() == [9, 9]
        assert (rows.reads, shift.reads) == (reads, reads)


def test_results_that_stay_are_parameters_and_rows():
    X = RNG.normal(size=(200, 6))
    there, centers = ArrayThere(X), X[:5]
    for _ in range(2):
        kept = kmeans_step(there, w=1.0, centers=centers, keep=True)
        assert all(isinstance(each, GpuArray) for each in kept)
        here = kmeans_step(X, w=1.0, centers=np.asarray(centers), device="cuda")
        assert same_bits(kept, here)
        centers = kept.sums
    assert same_bits(
        covariance(kept.sums, shift=ArrayThere(X[0])), covariance(here.sums, shift=X[0], device="cuda")
    )
    with pytest.raises(DataError, match="rows on a GPU"):
        kmeans_step.python(there, w=1.0, centers=centers)
    with pytest.raises(DataError, match="in main memory"):
        kmeans_step(X, w=1.0, centers=centers)


@pytest.mark.parametrize("clusters", [5, 3000])  # 9000 numbers do not fit into shared memory
def test_sums_that_stay_are_read_in_float64_where_rows_are_float32(clusters, library, monkeypatch):
    rng = np.random.default_rng(clusters)
    X, centers = rng.normal(size=(100, 3)).astype(np.float32), rng.normal(size=(clusters, 3))
    weights = rng.random(100)
    expected = kmeans_step(X, w=weights, centers=centers, device="cuda")
    upload, uploads = library.cuMemcpyHtoD_v2, []
    monkeypatch.setattr(library, "cuMemcpyHtoD_v2", lambda *of: uploads.append(of) or upload(*of))
    words = {"w": ArrayThere(weights, 1), "centers": ArrayThere(centers, 1)}
    assert same_bits(kmeans_step(ArrayThere(X, 1), keep=True, **words), expected)
    assert uploads == []


def test_parameters_elsewhere_are_copied(library):
    X, centers = RNG.normal(size=(60, 4)), np.asfortranarray(RNG.normal(size=(3, 4)))
    expected = kmeans_step(X, w=1.0, centers=centers, device="cuda")
    weight, far = np.ones(60), np.ascontiguousarray(centers)
    library.elsewhere = {far.ctypes.data}
    for given in (ArrayThere(centers), ArrayThere(far), ArrayThere(centers.astype(np.longdouble))):
        assert same_bits(kmeans_step(X, w=ArrayThere(weight), centers=given, device="cuda:0"), expected)


def test_small_parameters_stay_until_there_are_too_many(monkeypatch):
    monkeypatch.setattr(kmeans_step._gpu, "_held", Recent(2))
    X, centers = np.ones((40, 2)), np.zeros((1, 2))
    for weight in (1.0, 2.0, 0.5, 1.0):
        found = kmeans_step(X, w=weight, centers=centers, device="cuda")
        assert found.counts.tolist() == [40 * weight]
        assert 1 <= len(kmeans_step._gpu._held) <= 2


def test_a_device_is_that_of_the_rows(library):
    X = np.ones((40, 3))
    library.elsewhere = {X.ctypes.data}
    for name in ("cpu", "cuda:0"):
        with pytest.raises(ParameterError, match=f"found '{name}' for rows on GPU 1, expected cuda:1"):
            covariance(ArrayThere(X), shift=np.zeros(3), device=name)
    assert covariance(ArrayThere(X), shift=np.zeros(3), device="cuda:1", keep=True).cross.device.number == 1


def test_rows_that_no_gpu_reads():
    for given, text in (
        (np.ones((3, 2), complex), "found complex128 on a GPU"),
        (np.ones(3), "1 dimensions"),
    ):
        with pytest.raises(DataError, match=text):
            covariance(ArrayThere(given), shift=np.zeros(2))


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2"])
def test_a_mapped_file_is_uploaded_piece_by_piece(kind, tmp_path, monkeypatch):
    X = RNG.integers(-9, 9, (700, 8)).astype(kind)
    np.save(tmp_path / "X.npy", X)
    mapped, shift = np.load(tmp_path / "X.npy", mmap_mode="r"), np.zeros(8)
    expected = covariance(X, shift=shift, device="cuda")
    monkeypatch.setattr(row_kinds, "available_bytes", lambda: X.nbytes)
    monkeypatch.setattr(row_kinds, "MIN_CHECKED_BYTES", 1)
    monkeypatch.setattr(device_blocks, "UPLOADED_BYTES", 5000)
    returned = []
    rows = read_rows(mapped)
    kind = type(rows.X)
    assert rows.X.reads_too_much
    release = kind.release
    monkeypatch.setattr(kind, "release", lambda rows, *of: (returned.append(of), release(rows, *of))[1])
    assert same_bits(covariance(rows, shift=shift, device="cuda"), expected)
    assert (returned[0][0], returned[-1][1]) == (0, 700)
    assert len(returned) > 1
    np.testing.assert_array_equal(expected.cross, np.tril(X.astype(float).T @ X.astype(float)))


@pytest.mark.parametrize(
    ("form", "arrays"), [(np.asarray, 1), (scipy.sparse.csr_matrix, 3), (scipy.sparse.csr_array, 2)]
)
def test_rows_of_a_data_set_are_uploaded_once(form, arrays, library, monkeypatch):
    X = RNG.integers(-9, 9, (300, 8)) * (RNG.random((300, 8)) < 0.5).astype(float)
    given = form((X != 0).astype(float) if arrays == 2 else X)  # two arrays if all values are 1
    data, words = bmrm.Dataset(given, device="cpu"), CASES["logistic gradient"].arguments(RNG, X)
    gradient, sizes, copy = CASES["logistic gradient"].reduction, [], library.cuMemcpyHtoD_v2

    def counted(to, source, size):
        sizes.append(size.value)
        return copy(to, source, size)

    expected = gradient(given, **words, device="cuda")
    monkeypatch.setattr(library, "cuMemcpyHtoD_v2", counted)
    assert same_bits(gradient(data, **words, device="cuda"), expected)
    first = len(sizes)
    assert same_bits(gradient(data, **words, device="cuda"), expected)
    assert len(sizes) == 2 * first - arrays


def test_a_dense_data_set_on_a_gpu_is_read_in_place(library):
    X = RNG.integers(-9, 9, (300, 8)).astype(float)
    data, there = bmrm.Dataset(X, device="cpu"), ArrayThere(X)
    data.device = "cuda:0"
    data.matrix = SimpleNamespace(is_dense=True, device_rows=lambda: there)
    found = covariance(data, shift=np.zeros(8))
    np.testing.assert_array_equal(found.cross, np.tril(X.T @ X))
    data.matrix = SimpleNamespace(is_dense=True, device_rows=lambda: None)
    with pytest.raises(DataError, match="found rows in blocks in a data set on cuda:0, expected a dense"):
        covariance(data, shift=np.zeros(8))


@pytest.mark.parametrize("ones", [False, True])
def test_a_sparse_data_set_on_a_gpu_is_read_in_place(library, ones):
    X = scipy.sparse.random_array((700, 40), density=0.1, format="csr", rng=RNG, dtype=np.float32)
    X.data[:] = 1 if ones else X.data
    calls = []

    def compressed_rows():
        calls.append(1)
        values = None if ones else ArrayThere(X.data)
        return X.indptr.astype(np.int64), ArrayThere(X.indices.astype(np.int32)), values

    data = bmrm.Dataset(X, device="cpu")
    words = CASES["logistic gradient"].arguments(np.random.default_rng(0), X.toarray())
    gradient = CASES["logistic gradient"].reduction
    expected = gradient(data, **words, device="cuda")
    there = bmrm.Dataset(X, device="cpu")
    there.device = "cuda:0"
    there.matrix = SimpleNamespace(is_dense=False, compressed_rows=compressed_rows, shape=X.shape)
    for _ in range(2):
        assert same_bits(gradient(there, **words), expected)
    assert len(calls) == 1
    with pytest.raises(DataError, match="found sparse rows in a data set on cuda:0, expected a dense block"):
        bmrm.KMeans(2).fit(there)


def small_blocks(monkeypatch, bytes_=4096):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", bytes_)
    monkeypatch.setattr(blocks, "MIN_BLOCK_ROWS", 64)


@pytest.mark.parametrize("name", CASES)
def test_rows_in_blocks_have_the_same_bits_wherever_they_are(name, library, monkeypatch):
    case, rng = CASES[name], np.random.default_rng(4)
    X = rng.integers(-32, 33, (1000, 5)) / 16 + 1 / 64
    words = case.arguments(rng, X)
    small_blocks(monkeypatch)
    uploaded = case.reduction(X, device="cuda", **words)
    check(uploaded, case.expected(X, words), 1e-9, 1e-9)
    data = bmrm.Dataset(X, device="cpu")
    for given in (ArrayThere(X), ArrayThere(np.asfortranarray(X)), data, data):
        assert same_bits(case.reduction(given, device="cuda", **words), uploaded)
    (held,) = read_rows(data).X.held.values()
    assert held.resident == len(held.parts) == 16
    kept = case.reduction(ArrayThere(X), keep=True, **words)
    check([each.numpy() for each in kept], uploaded, 0, 0)


@pytest.mark.parametrize("form", [np.asarray, np.float16, scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_rows_larger_than_the_gpu_stream_through_two_slots(form, library, monkeypatch):
    X = RNG.integers(-9, 9, (3000, 8)) * (RNG.random((3000, 8)) < 0.5)
    X[1500:] *= RNG.random((1500, 1)) < 0.5  # blocks of sparse rows differ in size
    given = form((X != 0).astype(float) if form is scipy.sparse.csr_array else X.astype(float))
    given = Csr.from_scipy(given) if form is scipy.sparse.csr_array else given  # without values
    case = CASES["logistic gradient"]
    words = case.arguments(RNG, X)
    small_blocks(monkeypatch)
    expected = case.reduction(given, **words, device="cuda")
    check(expected, case.reduction(given, **words, device="cpu"), 1e-12, 1e-12)
    gc.collect()
    library.limit = library.used + 60_000
    assert same_bits(case.reduction(given, **words, device="cuda"), expected)
    if form is np.float16:  # a data set has converted them
        return
    data = bmrm.Dataset(given, device="cpu")
    for _ in range(3):
        assert same_bits(case.reduction(data, **words, device="cuda"), expected)
    (held,) = read_rows(data).X.held.values()
    assert 0 < held.resident < len(held.parts)
    monkeypatch.setattr(driver, "MAX_SPARE_BYTES", 0)
    used = library.used
    del data, held
    assert library.used < used  # no cycle holds it
    library.limit = library.used + 4000
    with pytest.raises(DeviceMemoryError):
        case.reduction(given, **words, device="cuda")


def test_the_earliest_failing_row_of_all_blocks_is_named(library, monkeypatch):
    @reduction
    def bins(x, out: "m"):
        out[int(x[0])] += 1

    X = np.ones((1000, 8))
    X[[700, 400, 450], 0] = 5
    small_blocks(monkeypatch)
    for given, text in ((X, "row 400: .*index 5"), (ArrayThere(X), "row 400: out: found an index outside")):
        for _ in range(2):
            with pytest.raises(ReductionError, match=text):
                bins(given, m=3, device="cuda")
        assert bins(given, m=6, device="cuda").out.tolist() == [0, 997, 0, 0, 0, 3]


def test_explain_says_how_blocks_come_to_a_gpu(monkeypatch):
    X, words = np.zeros((1000, 5)), {"shift": np.zeros(5)}
    assert "blocks of 64 rows" not in covariance.explain(X, **words)
    small_blocks(monkeypatch)
    for given, how in (
        (X, "uploaded one after the other; two take 5.12 kB"),
        (scipy.sparse.csr_array(X + 1), "uploaded one after the other; two take"),
        (bmrm.Dataset(X, device="cpu"), "of which as many stay as fit; a call uploads the others"),
        (ArrayThere(X), "which are there"),
    ):
        row_function, given_words = covariance, words
        if scipy.sparse.issparse(given):
            row_function = CASES["logistic gradient"].reduction
            given_words = {"y": 1.0, "weights": np.zeros(5)}
        text = row_function.explain(given, **given_words)
        assert f"GPU: 16 blocks of 64 rows, {how}" in text, text


@pytest.mark.parametrize("ones", [False, True])
def test_compressed_rows_on_a_gpu_are_used_in_place(ones, library, monkeypatch):
    X = scipy.sparse.random_array((1000, 20), density=0.2, format="csr", rng=RNG)
    X.data[:] = 1.0 if ones else RNG.integers(-5, 6, X.nnz)
    case = CASES["logistic gradient"]
    words = case.arguments(RNG, X.toarray())
    csr = Csr.from_scipy(X)
    there = csr._replace(
        indices=ArrayThere(csr.indices), data=None if csr.data is None else ArrayThere(csr.data)
    )
    small_blocks(monkeypatch)
    rows, copy, sizes = read_rows(there), library.cuMemcpyHtoD_v2, []
    monkeypatch.setattr(library, "cuMemcpyHtoD_v2", lambda *of: (sizes.append(of[2].value), copy(*of))[1])
    for expected in (1, 0):  # row pointers are copied once
        sizes.clear()
        assert same_bits(case.reduction(rows, **words), case.reduction(csr, **words, device="cuda"))
        assert sizes[: len(sizes) // 2].count(8 * 1001) == expected


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [9_999, 10_000, 54_321, 1 << 17])
def test_large_arrays_are_uploaded_through_pinned_pieces(threads, size, library, monkeypatch):
    monkeypatch.setattr(pinned, "MIN_PINNED_BYTES", 10_000)
    monkeypatch.setattr(pinned, "PINNED_PIECE_BYTES", 4096)
    on = driver.Device(0)
    on._pinned = pinned.PinnedPieces(on, threads)
    given = RNG.integers(0, 255, size, np.uint8)
    given.flags.writeable = False
    np.testing.assert_array_equal(on.upload(given).numpy(), given)
    assert (
        library.copied == len(library.copies) == (-(-size // 4096) if threads > 1 and size >= 10_000 else 0)
    )
    by_columns = np.asfortranarray(given[:9_998].reshape(2, -1).astype(float))
    np.testing.assert_array_equal(on.upload(by_columns).numpy(), by_columns)


def test_memory_that_others_still_read_is_not_overwritten(library, monkeypatch):
    monkeypatch.setattr(pinned, "MIN_PINNED_BYTES", 10_000)
    monkeypatch.setattr(pinned, "PINNED_PIECE_BYTES", 4096)
    on, read = driver.Device(0), []
    on._pinned = pinned.PinnedPieces(on, 2)
    first, second = (np.full(20_000, number, np.uint8) for number in (1, 2))
    kept = on.upload(first)
    address = kept.address
    library.work.append(lambda: read.append(ctypes.string_at(address, first.nbytes)))  # of another library
    del kept
    again = on.upload(second)
    assert again.address == address
    np.testing.assert_array_equal(again.numpy(), second)
    assert read == [first.tobytes()]


def test_pinned_arrays_are_copied_directly(library, monkeypatch):
    monkeypatch.setattr(pinned, "MIN_PINNED_BYTES", 1000)
    on = driver.Device(0)
    on._pinned = pinned.PinnedPieces(on, 2)
    given = RNG.standard_normal(500)
    library.host[given.ctypes.data] = given
    np.testing.assert_array_equal(on.upload(given).numpy(), given)
    assert not library.copies


def test_without_pinned_memory_the_driver_copies(library, monkeypatch):
    monkeypatch.setattr(pinned, "MIN_PINNED_BYTES", 1000)
    monkeypatch.setattr(library, "cuMemHostAlloc", lambda *words: emulated_driver.OUT_OF_MEMORY)
    on = driver.Device(0)
    on._pinned = pinned.PinnedPieces(on, 2)
    given = RNG.standard_normal(500)
    np.testing.assert_array_equal(on.upload(given).numpy(), given)
    assert not library.copies


def test_a_failing_row_is_named():
    @reduction
    def bins(x, out: "m"):
        out[int(x[0])] += 6 // int(x[1])

    X = np.ones((300, 2))
    X[[200, 290], 0] = 5
    with pytest.raises(ReductionError, match=r"bins: row 200: .*index 5"):
        bins(X, m=3, device="cuda")
    with pytest.raises(
        ReductionError, match=r"bins, line \d+: row 200: out: found an index outside .* 0 to 2"
    ):
        bins(ArrayThere(X), m=3)
    X[150, 1] = 0
    with pytest.raises(ReductionError, match="row 150"):
        bins(X, m=3, device="cuda")
    with pytest.raises(ReductionError, match=r"line \d+: row 150: division of an integer by 0"):
        bins(ArrayThere(X), m=3)


def test_memory_is_used_again_and_large_pieces_are_given_back(library, monkeypatch):
    X, words = RNG.normal(size=(500, 4)), {"low": np.full(4, -4.0), "scale": np.ones(4), "bins": 8}
    used = []
    for _ in range(3):
        histogram(X, device="cuda", **words)
        gc.collect()
        used.append(library.used)
    assert used[0] == used[1] == used[2] > 0
    monkeypatch.setattr(driver, "MAX_SPARE_BYTES", 0)
    histogram(X, device="cuda", **words)
    gc.collect()
    assert library.used <= used[0]
    library.limit = 10_000
    with pytest.raises(DeviceMemoryError, match="GPU 0: out of memory"):
        item_sets(X, sets=[[0]], device="cuda")


@reduction
def nearest_center(x, centers: ("k", "d"), sums: ("k", "d"), counts: "k", least: "k", who: "k", label: int):
    best, at = inf, 0
    for j in range(len(centers)):
        dist = 0.0
        for f in range(len(x)):
            dist += (x[f] - centers[j, f]) ** 2
        if dist < best:
            best, at = dist, j
    for f in range(len(x)):
        sums[at, f] += x[f]
    counts[at] += 1
    if best < least[at]:
        least[at], who[at] = best, x.index
    label = at


@pytest.mark.parametrize("unit", [1, 2])
def test_bits_are_those_of_constant_sizes_wherever_results_are(library, monkeypatch, unit):
    X = RNG.normal(size=(500, 3))
    found = [nearest_center(X, centers=X[:k], device="cuda") for k in (5, 13, 18)]
    monkeypatch.setattr(schedule, "ALIGNED_NUMBERS", unit)
    monkeypatch.setattr(schedule, "_constant_sizes", lambda facts, *_: set(facts.sizes))
    monkeypatch.setattr(nearest_center, "_gpu", gpu.GpuRunner(nearest_center._source))
    for k, expected in zip((5, 13, 18), found, strict=True):
        assert same_bits(nearest_center(X, centers=X[:k], device="cuda"), expected)


def test_a_search_over_sizes_shares_modules_and_those_used_longest_ago_go(library, monkeypatch):
    texts = []
    compile_cuda = gpu.compile_cuda
    monkeypatch.setattr(
        gpu, "compile_cuda", lambda text, *of, **how: texts.append(text) or compile_cuda(text, *of, **how)
    )
    monkeypatch.setattr(nearest_center._gpu, "_kernels", Recent(3))
    monkeypatch.setattr(nearest_center._gpu, "_modules", Recent(1))
    X = RNG.integers(-32, 33, (300, 16)) / 16 + 1 / 64

    def compare(clusters):
        found = nearest_center(X, centers=X[:clusters], device="cuda")
        check(found, nearest_center.python(X, centers=X[:clusters]), 1e-12, 1e-12)

    for clusters in (8, 15, 20, 9, 8, 12):
        compare(clusters)
    assert len(texts) == 1  # the number of centres is read at run time
    compare(2)
    compare(300)  # so many that results are in global memory
    compare(20)
    gc.collect()
    assert len(texts) == 4
    assert sum(module is not None for module in library.modules) <= 3
