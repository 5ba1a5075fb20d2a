"""The matrix on a GPU against scipy and NumPy in float64."""

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import emulated
import numpy as np
import pytest
import scipy.sparse as sp
from devices import IS_BUILT, IS_EMULATED, cuda, few, gpu, large, on_device, sized, with_device
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bmrm
from bmrm.distributed.reading import read_rows
from bmrm.errors import BmrmError, DataError, DeviceMemoryError, ParameterError

Matrix, Plan = cuda.Matrix, cuda.Plan

TYPES = (np.float32, np.float64)
KINDS = ("real", "ones", "dictionary")
ROUNDING = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-14}
"""Largest error of a product, as a share of sqrt(row length) times the sum of its terms' absolute values."""

PLANS = [
    *(Plan("subwarp", lanes=lanes) for lanes in (2, 4, 8, 16, 32)),
    Plan("split"),
    *(Plan("sliced", cap=cap) for cap in (8, 16, 32, 64)),
    *(Plan("tiled", cap=cap, tile=tile) for cap in (8, 64) for tile in (40, 255, 300, 4000)),
    *(Plan("hot", cap=16, tiles=tiles, tile=tile) for tiles in (1, 3) for tile in (32, 255, 1000)),
    *(Plan("binned", cap=cap, tile=tile) for cap in (16, 64) for tile in (1024, 4096)),
]


def values(rng, size, kind, dtype):
    if kind == "ones":
        return np.ones(size, dtype)
    if kind == "dictionary":
        return rng.choice(np.array([-1.5, 0.25, 2.0, 3.0]), size).astype(dtype)
    return rng.standard_normal(size).astype(dtype)


def random_csr(rng, m, d, nnz, kind="real", dtype=np.float32):
    """A matrix with unsorted rows and repeated columns."""
    rows = np.sort(rng.integers(0, m, nnz))
    columns = (d * rng.random(nnz) ** 3).astype(np.int32)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=m)))).astype(np.int64)
    return indptr, columns, values(rng, nnz, kind, dtype), (m, d)


def tidy(rng, indptr, indices, data, shape, kind="real"):
    """The same positions, sorted and without repetitions."""
    A = sp.csr_array((np.ones(len(data)), indices, indptr), shape)
    A.sum_duplicates()
    return A.indptr.astype(np.int64), A.indices, values(rng, A.nnz, kind, data.dtype), shape


def reference(indptr, indices, data, shape):
    # A copy: scipy adds up duplicates in place.
    return sp.csr_array((data.astype(np.float64), indices, indptr), shape, copy=True)


def products(X, w, r, starts, W, R):
    return X.matvec(w), X.rmatvec(r), X.rmatvec_blocks(r, starts), X.matmat(W), X.rmatmat(R)


def expected(A, w, r, starts, W, R):
    blocks = [A[a:b].T @ r[a:b] for a, b in itertools.pairwise(starts)]
    return A @ w, A.T @ r, np.reshape(blocks, (len(starts) - 1, A.shape[1])), A @ W, A.T @ R


def vectors(rng, shape, columns=3, blocks=3):
    m, d = shape
    starts = np.sort(np.concatenate(([0, m], rng.integers(0, m + 1, blocks - 1))))
    sizes = (d, m), (d, columns), (m, columns)
    (w, r), W, R = (rng.standard_normal(n) for n in sizes[0]), *(rng.standard_normal(n) for n in sizes[1:])
    return w, r, starts, W, R


def check(X, A, rng, columns=3, blocks=3):
    """Check products twice: correct, and bit-identical; and the rows that are rebuilt from the format."""
    if not X.is_dense:
        check_rows(X, A)
    at = vectors(rng, A.shape, columns, blocks)
    # What is added up, before repeated entries cancel.
    magnitudes = sp.csr_array((np.abs(A.data), A.indices, A.indptr), A.shape, copy=True)
    want, got = expected(A, *at), products(X, *at)
    scale = expected(magnitudes, *(v if v is at[2] else abs(v) for v in at))
    # Stored entries of the longest row and column, with repeated ones: the number of terms of a sum.
    lengths = [max(1, n.max(initial=0)) for n in (np.diff(magnitudes.indptr), np.bincount(A.indices))]
    for k, (g, v, s) in enumerate(zip(got, want, scale, strict=True)):
        most = ROUNDING[X.vector_dtype] * np.sqrt(lengths[0 if k in (0, 3) else 1])
        assert g.shape == v.shape
        np.testing.assert_array_less(np.abs(g - v), most * s + 1e-30)
    for a, b in zip(got, products(X, *at), strict=True):
        np.testing.assert_array_equal(a, b)


def check_rows(X, A):
    """Check compressed rows: columns in order, and repeated ones as they were."""
    starts, columns, values = X.compressed_rows()
    order = np.lexsort((A.indices, np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))))
    np.testing.assert_array_equal(starts[:], A.indptr)
    np.testing.assert_array_equal(columns[:], A.indices[order])
    if values is None:
        assert np.all(A.data == 1)
    else:
        np.testing.assert_array_equal(values[:], A.data[order])


@gpu
def test_rows_of_a_sparse_data_set_are_rebuilt_once_and_can_be_copied_back():
    X = sp.random_array((300, 40), density=0.1, format="csr", rng=np.random.default_rng(0))
    data = bmrm.Dataset(X, device="cuda")
    rows = read_rows(data)
    assert rows.X.on_gpu
    assert read_rows(data) is rows
    for found, expected in ((rows.X[:], X), (rows.X[100:250], X[100:250]), (rows.X[7:7], X[7:7])):
        np.testing.assert_array_equal(found.to_scipy().toarray(), expected.toarray())
    model = bmrm.TruncatedSVD(3, device="cpu").fit(X)
    np.testing.assert_array_equal(model.transform(data), model.transform(X))
    with pytest.raises(DataError, match="found sparse rows in a data set on cuda"):
        bmrm.KMeans(3).fit(data)


@gpu
@settings(max_examples=sized(8, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    m=st.integers(1, 90),
    d=st.integers(1, 700),
    fill=st.integers(0, 3000),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(TYPES),
    columns=st.integers(0, 40),
    blocks=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_matrices(m, d, fill, kind, dtype, columns, blocks, seed):
    rng = np.random.default_rng(seed)
    arrays = random_csr(rng, m, d, fill, kind, dtype)
    check(Matrix(*arrays), reference(*arrays), rng, columns, blocks)


@gpu
@settings(max_examples=sized(8, 25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    plan=st.sampled_from(PLANS),
    m=st.integers(1, 400),
    d=st.integers(1, 1500),
    density=st.floats(0, 20),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(TYPES),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_matrices_by_forced_plans(plan, m, d, density, kind, dtype, seed):
    rng = np.random.default_rng(seed)
    arrays = random_csr(rng, m, d, int(density * max(m, d)), kind, dtype)
    check(Matrix(*arrays, plan=plan), reference(*arrays), rng)


@gpu
@pytest.mark.parametrize("dtype", few(TYPES))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: "-".join(map(str, plan)))
def test_every_plan(plan, kind, dtype):
    rng = np.random.default_rng(3)
    arrays = random_csr(rng, *sized((500, 1100, 9_000), (3000, 2000, 60_000)), kind, dtype)
    X = Matrix(*arrays, plan=plan)
    report = X.report()
    for name in ("normal", "transposed"):
        chosen = report[name]["candidates"][report[name]["chosen"]]
        assert Plan(**chosen["plan"]) == plan
        assert chosen["bytes"] > 0
    assert report["coding"] == {"real": "plain"}.get(kind, kind)
    assert X.dtype == (None if kind == "ones" else dtype)
    check(X, reference(*arrays), rng, columns=32, blocks=7)


@gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", few([1, 200, 255, 9, 127], 3))
def test_narrow_plan(d, kind, dtype):
    rng, m = np.random.default_rng(d), sized(1000, 20_000)
    arrays = tidy(rng, *random_csr(rng, m, d, m * min(d, 12), kind, dtype), kind)
    X = Matrix(*arrays, plan=[Plan("narrow", cap=8), Plan("narrow", cap=8)])
    check(X, reference(*arrays), rng, columns=5)


@gpu
def test_values_that_are_not_finite_stay_in_their_places():
    A = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, np.inf, 0.0], [np.nan, 0.0, 0.0], [0.0, 0.0, 3.0]]))
    narrow = Plan("narrow", cap=8)
    for plan in (None, [narrow, narrow]):
        X = Matrix(A.indptr.astype(np.int64), A.indices, A.data, A.shape, plan=plan)
        np.testing.assert_array_equal(X.matvec(np.ones(3)), [3.0, np.inf, np.nan, 3.0])
        np.testing.assert_array_equal(X.rmatvec(np.ones(4)), [np.nan, np.inf, 5.0])


def rows_of_two_kinds(rng, kind, dtype):
    """Short rows and, among them, some of hundreds and thousands of nonzeros; the last ones are empty."""
    m, d, long, most = sized((1000, 3000, 15, 2000), (3000, 6000, 40, 4000))
    lengths = rng.integers(0, 6, m)
    lengths[rng.choice(m - 50, long, replace=False)] = rng.integers(300, most, long)
    lengths[-20:] = 0
    indices = np.concatenate([np.sort(rng.choice(d, count, replace=False)) for count in lengths])
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return indptr, indices.astype(np.int32), values(rng, len(indices), kind, dtype), (m, d)


@gpu
@pytest.mark.parametrize("dtype", few(TYPES))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", few([200, 1000]))
def test_long_rows_in_tiles(tile, kind, dtype):
    rng = np.random.default_rng(tile)
    arrays = rows_of_two_kinds(rng, kind, dtype)
    X = Matrix(*arrays, plan=(Plan("mixed", cap=16, tile=tile), Plan("split")))
    check(X, reference(*arrays), rng)
    assert X.report()["normal"]["candidates"][0]["plan"]["kernel"] == "mixed"


@gpu
def test_the_mixed_plan_is_refused_if_all_rows_are_alike():
    arrays = random_csr(np.random.default_rng(1), 500, 5000, 2000)
    with pytest.raises(ParameterError, match="plan: no rows are long"):
        Matrix(*arrays, plan=(Plan("mixed", cap=16, tile=1000), Plan("split")))


@gpu
@pytest.mark.parametrize("dtype", few(TYPES))
@pytest.mark.parametrize("kind", KINDS)
def test_several_vectors_whatever_the_rows(kind, dtype):
    rng = np.random.default_rng(2)
    arrays = rows_of_two_kinds(rng, kind, dtype)
    X = Matrix(*arrays, plan=Plan("split"))
    for columns in (2, 3, 8, 9, 32):
        check(X, reference(*arrays), rng, columns)


@gpu
def test_the_narrow_plan_is_refused_if_it_does_not_apply():
    rng = np.random.default_rng(2)
    with pytest.raises(ParameterError, match="plan: a matrix with repeated columns"):
        Matrix([0, 2], [1, 1], [1.0, 2.0], (1, 3), plan=Plan("narrow", cap=8))
    arrays = tidy(rng, *random_csr(rng, 300, 100_000, 4000))
    with pytest.raises(ParameterError, match="plan: X has too many columns"):
        Matrix(*arrays, plan=Plan("narrow", cap=8))


SHAPES = [
    pytest.param(1, 50_000, 30_000, id="one-row", marks=large),
    pytest.param(50_000, 1, 30_000, id="one-column", marks=large),
    pytest.param(20_000, 60_000, 3_000, id="mostly-empty", marks=large),
    pytest.param(40_000, 700, 400_000, id="tall", marks=large),
    pytest.param(700, 400_000, 400_000, id="wide", marks=large),
    pytest.param(200, 300, 60_000, id="full-with-repeats", marks=large),
    pytest.param(1, 500, 300, id="short-row"),
    pytest.param(500, 1, 300, id="short-column"),
    pytest.param(200, 600, 30, id="nearly-empty"),
    pytest.param(20, 30, 600, id="full"),
    pytest.param(5, 5, 0, id="no-nonzero"),
]


@gpu
@pytest.mark.parametrize("tune", ["predict", "best", "all", "cold"])
@pytest.mark.parametrize(("m", "d", "nnz"), SHAPES)
def test_shapes(m, d, nnz, tune):
    rng = np.random.default_rng(m + d)
    arrays = random_csr(rng, m, d, nnz)
    X = Matrix(*arrays, tune=tune)
    check(X, reference(*arrays), rng)
    for name in ("normal", "transposed"):
        report = X.report()[name]
        timed = [c["measured"] for c in report["candidates"] if c["measured"]]
        if tune == "predict":
            assert timed == []
        if tune == "all" and nnz:
            assert len(timed) == len(report["candidates"])
        assert all(seconds > 0.0 for seconds in timed)
        if timed:
            assert report["candidates"][report["chosen"]]["measured"] == min(timed)


@gpu
@large
def test_a_huge_row_and_a_huge_column_among_short_ones():
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 4, 30_000)
    lengths[17] = 200_000
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    columns = rng.integers(0, 250_000, indptr[-1]).astype(np.int32)
    columns[rng.random(columns.size) < 0.2] = 9
    arrays = indptr, columns, values(rng, columns.size, "real", np.float32), (30_000, 250_000)
    check(Matrix(*arrays), reference(*arrays), rng)
    for plan in (
        Plan("subwarp", lanes=4),
        Plan("split"),
        Plan("sliced", cap=16),
        Plan("hot", 0, 16, 2, 8000),
    ):
        check(Matrix(*arrays, plan=plan), reference(*arrays), rng)


@gpu
def test_indices_of_eight_bytes_and_other_types_of_values():
    rng = np.random.default_rng(6)
    indptr, columns, data, shape = random_csr(rng, 300, 200, 4000)
    A = reference(indptr, columns, data, shape)
    check(Matrix(indptr, columns.astype(np.int64), data, shape), A, rng)
    check(Matrix(indptr.astype(np.int32), columns.astype(np.uint16), data, shape), A, rng)
    whole = (100 * data).astype(np.int16)
    X = Matrix(indptr, columns, whole, shape)
    assert X.vector_dtype == np.float64
    check(X, reference(indptr, columns, whole, shape), rng)
    X = Matrix(indptr, columns, data, shape, dtype=np.float64)
    assert X.dtype == X.vector_dtype == np.float64
    check(X, A, rng)
    X = Matrix(indptr, columns, None, shape)
    assert (X.dtype, X.vector_dtype, X.coding) == (None, np.float32, "ones")
    check(X, reference(indptr, columns, np.ones(len(data)), shape), rng)


@gpu
def test_values_are_unchanged_without_coding():
    rng = np.random.default_rng(7)
    for kind in KINDS:
        arrays = random_csr(rng, 300, 200, 4000, kind)
        coded, plain = Matrix(*arrays, plan=Plan("split")), Matrix(*arrays, plan=Plan("split"), coding=False)
        assert plain.coding == "plain"
        w = rng.standard_normal(200)
        np.testing.assert_array_equal(coded.matvec(w), plain.matvec(w))


@gpu
@pytest.mark.parametrize("plan", [None, *PLANS[::3]], ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_values_stay_in_their_rows(plan, bad):
    rng = np.random.default_rng(8)
    indptr, columns, data, shape = random_csr(rng, 500, 400, 3000)
    A = reference(indptr, columns, np.ones_like(data), shape)
    X = Matrix(indptr, columns, data, shape, plan=plan)
    w, r = rng.standard_normal(400), rng.standard_normal(500)
    w[3] = r[5] = bad
    np.testing.assert_array_equal(~np.isfinite(X.matvec(w)), A[:, [3]].toarray()[:, 0] != 0)
    np.testing.assert_array_equal(~np.isfinite(X.rmatvec(r)), A[[5]].toarray()[0] != 0)
    data[7] = bad
    X = Matrix(indptr, columns, data, shape, plan=plan)
    row = np.searchsorted(indptr, 7, side="right") - 1
    assert np.flatnonzero(~np.isfinite(X.matvec(np.ones(400)))).tolist() == [row]
    assert np.flatnonzero(~np.isfinite(X.rmatvec(np.ones(500)))).tolist() == [columns[7]]


@gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("m", "d"),
    [
        (1, 1),
        (1, 5000),
        (5000, 1),
        (128, 3000),
        (3000, 128),
        (777, 777),
        (33, 31),
        (sized(2000, 20_000), 54),
        # A part of a warp, one warp, or several per four rows; rows in segments. The emulator has fewer
        # multiprocessors, so that fewer rows do.
        (7, 4),
        (sized(5001, 50_001), 8),
        (sized(3003, 30_003), 12),
        (sized(1011, 20_011), 256),
        (sized(599, 9_999), 512),
        (sized(401, 6_001), 1024),
        (sized(247, 2_047), 3200),
        (5, sized(10_000, 100_000)),
        (sized(65, 515), 12_800),
        (3, sized(30_000, 300_000)),
    ],
)
def test_dense_shapes(m, d, dtype):
    rng = np.random.default_rng(m)
    array = rng.standard_normal((m, d)).astype(dtype)
    X = Matrix.from_dense(array)
    assert (X.shape, X.nnz, X.dtype, X.index_bytes) == ((m, d), m * d, dtype, 0)
    check(X, sp.csr_array(array.astype(np.float64)), rng, columns=4)


@large
@gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("m", "d"), [(8300, 1025), (4103, 2050), (130, 70_003)])
def test_long_dense_rows_that_start_anywhere(m, d, dtype):
    rng = np.random.default_rng(m)
    array = rng.standard_normal((m, d)).astype(dtype)
    X = Matrix.from_dense(array)
    for _ in range(2):
        w = rng.standard_normal(d).astype(dtype).astype(np.float64)
        room = 30 * np.finfo(dtype).eps * np.sqrt(d)
        np.testing.assert_allclose(X.matvec(w), array.astype(np.float64) @ w, rtol=0, atol=room)


@gpu
def test_a_nan_stays_in_its_row():
    array = np.ones((8300, 1025), np.float32)
    array[[7, 4000], [0, -1]] = np.nan, np.inf
    z = Matrix.from_dense(array, finite=False).matvec(np.ones(1025))
    assert np.flatnonzero(~np.isfinite(z)).tolist() == [7, 4000]


@gpu
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("n", [5, 40_000, pytest.param(1_000_003, marks=large)])
def test_the_bridge_carries_every_number(n, threads, dtype):
    numbers = np.random.default_rng(n).standard_normal(n).astype(dtype).astype(np.float64)
    indices = np.arange(n, dtype=np.int32)
    X = Matrix(np.arange(n + 1), indices, np.full(n, 2.0, dtype), (n, n), threads=threads, tune="predict")
    around = np.full(n + 10, -1.0)
    for start in (1, 2, 9):  # the first product of a size chooses where numbers are converted
        around[:] = -1.0
        X.matvec(numbers, around[start : start + n])
        np.testing.assert_array_equal(around[start : start + n], 2.0 * numbers)
        assert (np.delete(around, slice(start, start + n)) == -1.0).all()


@gpu
def test_statistics_of_a_dense_matrix_are_those_of_its_compressed_rows():
    m, d = 70, 300
    X = Matrix.from_dense(np.ones((m, d), np.float32))
    report, indices = X.report(), np.arange(m * d)
    for name, (rows, columns) in (("normal", (m, d)), ("transposed", (d, m))):
        indptr = np.arange(rows + 1) * columns
        want = cuda.statistics(indptr, (indices % columns).astype(np.int32), (rows, columns))
        assert report[name]["statistics"] == want
    assert "X w: 70 rows of 300 nonzeros on average, 300 at most, 0 empty" in X.explain()


@gpu
def test_dense_layouts_and_types():
    rng = np.random.default_rng(9)
    with pytest.raises(DataError, match="at least one row"):
        Matrix.from_dense(np.empty((0, 3)))
    array = rng.standard_normal((60, 40))
    for other in (np.asfortranarray(array), array[::2], array.T, (9 * array).astype(np.int8), array.tolist()):
        check(Matrix.from_dense(other), sp.csr_array(np.asarray(other, np.float64)), rng)


@large
@gpu
def test_the_same_bits_from_every_build_and_in_every_thread():
    rng = np.random.default_rng(10)
    arrays = random_csr(rng, 20_000, 5000, 300_000)
    plan = Plan("hot", cap=16, tiles=2, tile=1000), Plan("split")
    X = Matrix(*arrays, plan=plan)
    at = vectors(rng, (20_000, 5000))
    want = products(X, *at)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append([products(X, *at) for _ in range(20)])) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for got in [*found[0], *found[1], products(Matrix(*arrays, plan=plan), *at)]:
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


@gpu
def test_outputs_are_written_in_place():
    X = Matrix([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3))
    out = np.empty(2)
    assert X.matvec([1.0, 1.0, 10.0], out) is out
    assert out.tolist() == [21.0, 3.0]
    assert set(X.last_times) == {"convert_in", "upload", "product", "download", "convert_out"}
    assert all(value >= 0 for value in X.last_times.values())
    for bad in (np.empty(3), np.empty(2, np.float32), np.empty(4)[::2], [0.0, 0.0]):
        with pytest.raises(ParameterError, match="out: expected"):
            X.matvec(np.ones(3), bad)
    with pytest.raises(ParameterError, match=r"w: found shape \(2,\), expected \(3,\)"):
        X.matvec(np.ones(2))


@gpu
@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        (([0, 1], [3], [1.0], (1, 3)), "indices"),
        (([0, 1], [-1], [1.0], (1, 3)), "indices"),
        (([1, 1], [0], [1.0], (1, 3)), "indptr: starts at 1"),
        (([0, 2], [0], [1.0], (1, 3)), "indptr: ends at 2"),
        (([0, 1, 0], [0], [1.0], (2, 3)), "indptr: decreases at row 1"),
        (([0, 1], [0], [1.0], (2, 3)), "indptr: found 2 entries, expected 3"),
        (([0], [], [], (0, 3)), "at least one row"),
        (([0, 0], [], [], (1, 0)), "at least one row and one column"),
        (([0, 1], [0], [1.0, 2.0], (1, 3)), r"data: found shape \(2,\)"),
        (([0, 1], [0.5], [1.0], (1, 3)), "indices: found dtype float64"),
        (([0, 1], [0], [1j], (1, 3)), "data: found dtype complex128"),
    ],
)
def test_arrays_that_form_no_matrix(arrays, text):
    with pytest.raises(DataError, match=text):
        Matrix(*arrays)


@gpu
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"plan": "abacus"}, "plan: found kernel 'abacus'"),
        ({"plan": Plan("subwarp", lanes=3)}, "lanes"),
        ({"plan": ["split"]}, "plan: found 1 plans"),
        ({"tune": "hard"}, "tune: found 'hard'"),
        ({"device": -1}, "device: found -1"),
        ({"dtype": np.int8}, "dtype"),
        ({"memory_limit": 0}, "memory_limit: found 0"),
        ({"threads": 0}, "threads: found 0"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ParameterError, match=text):
        Matrix([0, 1], [0], [1.0], (1, 3), **options)


@gpu
def test_a_missing_device():
    with pytest.raises(BmrmError, match="device='cpu'"):
        Matrix([0, 1], [0], [1.0], (1, 3), device=cuda.device_count())


@large
@gpu
def test_out_of_memory_is_reported_with_sizes_and_frees_everything():
    rng = np.random.default_rng(11)
    arrays = random_csr(rng, 20_000, 5000, 1_000_000)
    Matrix(*arrays)
    before = cuda.device_info()["free_bytes"]
    for _ in range(3):
        with pytest.raises(DeviceMemoryError, match=r"\d+(\.\d+)? [kM]B"):
            Matrix(*arrays, memory_limit=300_000)
    assert cuda.device_info()["free_bytes"] >= before - (64 << 20)
    assert Matrix(*arrays, memory_limit=1 << 30).nbytes <= 1 << 30


@large
@gpu
def test_the_memory_limit_holds_from_the_upload_on():
    arrays = random_csr(np.random.default_rng(11), 20_000, 5000, 1_000_000)
    assert Matrix(*arrays, memory_limit=3_000_000).report()["peak_bytes"] <= 3_000_000
    dense = np.ones((1000, 1000), np.float32)
    assert Matrix.from_dense(dense, memory_limit=3_000_000).report()["peak_bytes"] <= 3_000_000
    r = np.ones((20_000, 32))
    with pytest.raises(DeviceMemoryError, match=r"\d MB more are needed, .* the limit is 3\.0 MB"):
        Matrix(*arrays, memory_limit=3_000_000).rmatmat(r)
    with pytest.raises(ParameterError, match="memory_limit: found 0"):
        Matrix.from_dense(dense, memory_limit=0)
    assert Matrix.from_dense(dense, memory_limit=1 << 30).nbytes <= 1 << 30


@large
@gpu
def test_memory_is_at_most_what_was_predicted_and_is_freed():
    rng = np.random.default_rng(12)
    arrays = random_csr(rng, 100_000, 50_000, 4_000_000)
    before = cuda.device_info()["free_bytes"]
    X = Matrix(*arrays)
    predicted = Matrix.predict_bytes(100_000, 50_000, 4_000_000, 4)
    assert 4_000_000 * 6 < X.nbytes <= predicted
    assert Matrix.predict_bytes(100_000, 50_000, 4_000_000, 4, transpose=False) < predicted
    del X
    assert cuda.device_info()["free_bytes"] >= before - (64 << 20)


@gpu
def test_x_alone():
    rng = np.random.default_rng(13)
    arrays = random_csr(rng, 300, 200, 4000)
    X = Matrix(*arrays, transpose=False)
    assert not X.has_transpose
    assert X.report()["transposed"] is None
    w = rng.standard_normal(200)
    np.testing.assert_allclose(X.matvec(w), reference(*arrays) @ w, rtol=1e-4, atol=1e-4)
    with pytest.raises(ParameterError):
        X.rmatvec(np.ones(300))


@large
@gpu
def test_a_mapped_file_is_uploaded_in_parts(tmp_path):
    rng = np.random.default_rng(14)
    indptr, columns, data, shape = random_csr(rng, 5000, 4000, 40_000_000)
    maps = []
    for name, array in (("indices", columns), ("data", data)):
        array.tofile(tmp_path / name)
        maps.append(np.memmap(tmp_path / name, array.dtype, "r"))
    w = rng.standard_normal(4000)
    plan = Plan("split")
    got = Matrix(indptr, *maps, shape, plan=plan, transpose=False).matvec(w)
    np.testing.assert_array_equal(
        got, Matrix(indptr, columns, data, shape, plan=plan, transpose=False).matvec(w)
    )


@gpu
def test_explain_and_report():
    rng = np.random.default_rng(15)
    arrays = random_csr(rng, 3000, 2000, 60_000)
    X = Matrix(*arrays)
    report, text = X.report(), X.explain()
    lengths = np.diff(arrays[0])
    normal = report["normal"]["statistics"]
    assert (normal["rows"], normal["cols"], normal["nnz"]) == (3000, 2000, 60_000)
    assert (normal["longest"], normal["empty_rows"]) == (lengths.max(), (lengths == 0).sum())
    assert report["transposed"]["statistics"]["longest"] == np.bincount(arrays[1]).max()
    assert text.count("\n*") == 2
    for name in ("normal", "transposed"):
        assert min(c["predicted"] for c in report[name]["candidates"]) > 0
        assert len(report[name]["candidates"]) > 3


@gpu
def test_statistics_of_the_device_are_those_of_the_host():
    rng = np.random.default_rng(16)
    for m, d, nnz in [(3000, 2000, 60_000), (40, 100_000, 30_000), (7, 9, 0)]:
        indptr, columns, data, shape = random_csr(rng, m, d, nnz)
        found = Matrix(indptr, columns, data, shape, tune="predict").report()["normal"]["statistics"]
        assert found == cuda.statistics(indptr, columns, shape, value_bytes=found["value_bytes"])


@gpu
def test_products_of_vectors_on_the_device():
    rng = np.random.default_rng(17)
    arrays = random_csr(rng, 3000, 2000, 60_000)
    A = reference(*arrays)
    X = Matrix(*(on_device(array) for array in arrays[:3]), arrays[3])
    for op, B in (("normal", A), ("transposed", A.T)):
        for columns in (1, 2, 7, 32):
            x = on_device(rng.standard_normal((B.shape[1], columns)).astype(np.float32))
            y = on_device(np.full((B.shape[0], columns), np.nan, np.float32))
            X.apply(op, x, y, columns)
            X.synchronize()
            np.testing.assert_allclose(y.get(), B @ x.get(), rtol=1e-4, atol=1e-3)
        assert X.time(op) > 0
        assert X.time(op, columns=4, repeats=3) > 0
    x, y = on_device(np.zeros(2000, np.float32)), on_device(np.zeros(3000, np.float32))
    for bad in ((x[::2], y), (on_device(np.zeros(2000)), y), (y, x), (np.zeros(2000, np.float32), y)):
        with pytest.raises(ParameterError, match=r"^[xy]: (found|expected)"):
            X.apply("normal", *bad)
    with pytest.raises(ParameterError, match="op: found 'both'"):
        X.apply("both", x, y)


@gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_doubles_on_the_device(dtype):
    rng = np.random.default_rng(19)
    arrays = random_csr(rng, 3000, 2000, 60_000)
    A, X = reference(*arrays), Matrix(*arrays, dtype=dtype)
    exact = 1e-5 if dtype == np.float32 else 1e-12
    for op, B in (("normal", A), ("transposed", A.T)):
        x, y = on_device(rng.standard_normal(B.shape[1])), on_device(np.full(B.shape[0], np.nan))
        X.apply_wide(op, x, y)
        X.synchronize()
        expected = B @ x.get()
        np.testing.assert_allclose(y.get(), expected, rtol=0.0, atol=exact * np.abs(expected).max())
    with pytest.raises(ParameterError, match="x: found 2000 elements of float32, expected 2000 of float64"):
        X.apply_wide("normal", on_device(np.zeros(2000, np.float32)), on_device(np.zeros(3000)))


@large
@gpu
def test_a_stream_of_the_caller():
    cp = pytest.importorskip("cupy", reason="cupy is not installed")
    rng = np.random.default_rng(18)
    arrays = random_csr(rng, 3000, 2000, 60_000)
    X = Matrix(*arrays)
    own, stream = X.stream, cp.cuda.Stream(non_blocking=True)
    X.use_stream(stream.ptr)
    assert X.stream == stream.ptr
    with stream:
        x, y = cp.asarray(rng.standard_normal(2000), cp.float32), cp.empty(3000, cp.float32)
        stream.begin_capture()
        X.apply("normal", x, y)
        graph = stream.end_capture()
        x *= 2
        graph.launch(stream)
        got = y.get()
    np.testing.assert_allclose(got, reference(*arrays) @ x.get(), rtol=1e-4, atol=1e-3)
    X.use_stream(own)
    w = rng.standard_normal(2000)
    np.testing.assert_allclose(X.matvec(w), reference(*arrays) @ w, rtol=1e-4, atol=1e-3)


@gpu
def test_two_matrices_on_two_devices():
    if IS_EMULATED:
        emulated.configure(2)
    elif cuda.device_count() < 2:
        pytest.skip("there is one device alone")
    rng = np.random.default_rng(21)
    pairs = []
    for device in (0, 1):
        arrays = random_csr(rng, 3000, 2000, 60_000)
        pairs.append((Matrix(*arrays, device=device), reference(*arrays)))
        assert pairs[-1][0].device == device
    for X, A in [*pairs, *reversed(pairs)]:
        check(X, A, rng)


SOLVED = sized((700, 100, 7000), (2000, 300, 40_000))
"""Rows, columns and nonzeros of what is solved."""


@gpu
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
@pytest.mark.parametrize("dense", [False, True])
def test_solve(loss, dense):
    rng = np.random.default_rng(22)
    A = reference(*random_csr(rng, *SOLVED))
    A = A.toarray() if dense else A
    m, d = A.shape
    y = np.where(A @ rng.standard_normal(d) + rng.standard_normal(m) > 0, 1.0, -1.0)
    here = bmrm.solve(A, y, loss, lam=1e-3, tol=1e-4, device="cpu")
    for dtype in (np.float32, None):
        there = bmrm.solve(A, y, loss, lam=1e-3, tol=1e-4, device="cuda", dtype=dtype)
        assert there.device.startswith("cuda (")
        assert there.status == "converged"
        # Each objective is above the other's bound, up to what float32 resolves.
        slack = 1e-5 * here.objective
        assert there.lower_bound <= here.objective + slack
        assert here.lower_bound <= there.objective + slack


@gpu
def test_solve_is_reproducible():
    rng = np.random.default_rng(23)
    A = reference(*random_csr(rng, *SOLVED))
    data = bmrm.Dataset(A, rng.choice([-1.0, 1.0], A.shape[0]), device="cuda", dtype=np.float32)
    one, two = (bmrm.solve(data, lam=1e-3) for _ in range(2))
    assert one.objective == two.objective
    np.testing.assert_array_equal(one.w, two.w)


@large
@gpu
def test_the_kernels_picked_by_one_process_are_those_of_the_next(tmp_path):
    code = """
import hashlib, numpy as np, scipy.sparse as sp
from bmrm.matrix.resident import place_matrix
rng = np.random.default_rng(26)
X = sp.random_array((20_000, 3000), density=0.01, format="csr", dtype=np.float32, rng=rng)
matrix = place_matrix(X, device="cuda").matrix
w, r = rng.standard_normal(3000), rng.standard_normal(20_000)
bits = matrix.matvec(w).tobytes() + matrix.rmatvec(r).tobytes()
print(hashlib.sha256(bits).hexdigest(), len(matrix.report()["normal"]["candidates"]))
"""
    ended = [run(code, XDG_CACHE_HOME=str(tmp_path)) for _ in range(3)]
    assert [process.returncode for process in ended] == [0, 0, 0], ended[0].stderr
    (first, timed), *later = (process.stdout.split() for process in ended)
    assert int(timed) > 1
    assert later == [[first, "1"]] * 2


@gpu
@pytest.mark.parametrize("dtype", few([np.float32, np.float64]))
@pytest.mark.parametrize(
    "shape",
    [(1, 1), (1, 700), (5000, 1), (3000, 7), *sized([], [(700, 300), (40_000, 3), (300, 5000)])],
)
@pytest.mark.parametrize("kind", ["normal", "few values", "ones", "dense"])
def test_mean_squares(kind, shape, dtype):
    rng = np.random.default_rng(31)
    A = sp.random(*shape, 1.0 if kind == "dense" else 0.3, "csr", rng=rng, dtype=dtype)
    draw = {"ones": np.ones, "few values": lambda n: rng.integers(1, 9, n)}.get(kind, rng.standard_normal)
    A.data[:] = draw(A.nnz)
    dense = A.toarray()

    def made():
        return Matrix.from_dense(dense) if kind == "dense" else Matrix(A.indptr, A.indices, A.data, shape)

    found = made().mean_squares
    np.testing.assert_allclose(found, np.square(dense.astype(float)).mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found, made().mean_squares)


@gpu
def test_mean_squares_need_the_transpose():
    with pytest.raises(ParameterError, match="without its transpose"):
        _ = Matrix([0, 1], [0], [2.0], (1, 1), transpose=False).mean_squares


@large
@gpu
def test_newton_steps_on_a_gpu_need_no_hessian():
    rng = np.random.default_rng(27)
    A, y = rng.standard_normal((400, 10)), rng.choice([-1.0, 1.0], 400)
    data = bmrm.Dataset(A, y, device="cuda")
    assert data.matrix.weighted_gram_work == np.inf
    there = bmrm.solve(data, loss="logistic", lam=1e-2, tol=1e-6)
    here = bmrm.solve(A, y, "logistic", lam=1e-2, tol=1e-6, device="cpu")
    assert there.status == "converged"
    assert ("newton" in there.timings, "newton" in here.timings) == (True, True)
    assert there.objective == pytest.approx(here.objective, rel=2e-6)


@gpu
def test_a_tolerance_that_float32_cannot_resolve():
    rng = np.random.default_rng(24)
    A = reference(*random_csr(rng, *SOLVED))
    y = rng.choice([-1.0, 1.0], A.shape[0])
    coarse = bmrm.solve(A, y, lam=1e-2, tol=1e-8, device="cuda", dtype=np.float32)
    assert coarse.status == "precision"
    fine = bmrm.solve(A.astype(np.float32), y, lam=1e-2, tol=1e-8, device="cuda")
    assert fine.status == "converged"
    here = bmrm.solve(A.astype(np.float32), y, lam=1e-2, tol=1e-8, device="cpu")
    assert fine.objective == pytest.approx(here.objective, rel=2e-8)


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the package under test."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(bmrm.__file__).parents[1]), **environ},
    )


@gpu
def test_a_forked_process_gets_a_clear_error():
    code = """
import os
from bmrm.matrix._cuda import Matrix
X = Matrix([0, 1], [0], [1.0], (1, 1))
if os.fork() == 0:
    for use in (lambda: X.matvec([1.0]), lambda: Matrix([0, 1], [0], [1.0], (1, 1))):
        try:
            use()
        except Exception as error:
            print(type(error).__name__, error, flush=True)
    os._exit(0)
os.wait()
print(X.matvec([2.0])[0])
"""
    ended = run(with_device(code))
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert len(lines) == 3
    assert all(line.startswith("BmrmError") and "fork" in line for line in lines[:2])
    assert lines[2] == "2.0"


@pytest.mark.skipif(not IS_BUILT, reason="the package was built without CUDA")
def test_import_touches_no_driver():
    code = "import bmrm.matrix._cuda, bmrm.matrix.dataset; print('libcuda' in open('/proc/self/maps').read())"
    assert run(code).stdout == "False\n"


def test_without_a_device_the_error_suggests_a_solution():
    code = """
import numpy as np, bmrm
from bmrm.matrix import _cuda
print(_cuda.device_count())
for use in (
    lambda: _cuda.Matrix([0, 1], [0], [1.0], (1, 1)),
    lambda: _cuda.Matrix.from_dense([[1.0]]),
    lambda: _cuda.device_info(),
    lambda: _cuda.measure(),
    lambda: bmrm.solve(np.eye(2), [1, -1], device="cuda"),
):
    try:
        use()
    except bmrm.errors.BmrmError as error:
        print("device='cpu'" in str(error) and "\\n" not in str(error))
print(bmrm.solve(np.eye(2), [1, -1], device="auto").device)
"""
    ended = run(with_device(code, 0), CUDA_VISIBLE_DEVICES="")
    assert ended.stdout.split() == ["0", *["True"] * 5, "cpu"], ended.stderr


H200 = {
    "id": 0, "name": "NVIDIA H200", "major": 9, "minor": 0, "multiprocessors": 132,
    "shared_per_block": 232448, "shared_per_multiprocessor": 233472,
    "l2_bytes": 60 << 20, "total_bytes": 150 * 10**9, "free_bytes": 149 * 10**9,
}  # fmt: skip
CONSTANTS = {
    "launch": 2e-6, "copy": 4.2e12, "read": 4.3e12, "fill_shared": 2e13,
    "gather_shared": 4e12, "gather_l2": 1e12, "gather_memory": 2e11,
}  # fmt: skip


def test_the_choice_needs_no_device():
    rng = np.random.default_rng(25)
    indptr, columns, _, shape = random_csr(rng, 3000, 2000, 60_000)
    stats = cuda.statistics(indptr, columns, shape)
    assert stats["nnz"] == sum(stats["length_nnz"]) == 60_000
    assert sum(stats["length_rows"]) == 3000
    plans = cuda.candidates(H200, stats)
    assert {plan.kernel for plan in plans} >= {"subwarp", "split", "sliced"}
    assert len(set(plans)) == len(plans)
    for plan in plans:
        assert 1e-6 < cuda.predict(H200, CONSTANTS, stats, plan) < 1e-2
    with pytest.raises(ParameterError, match="expected one of subwarp"):
        cuda.predict(H200, CONSTANTS, stats, "abacus")


@pytest.mark.parametrize(
    ("arrays", "error", "text"),
    [
        (([0, 1], [3], (1, 3)), DataError, "indices: found 3 to 3, expected 0 to 2"),
        (([0, 2], [0], (1, 3)), DataError, "indptr: ends at 2"),
        (([0, 1], [0], (1, 2**31)), ParameterError, "shape"),
        (([0, 1], [0], 3), ParameterError, "shape"),
    ],
)
def test_statistics_of_arrays_that_form_no_matrix(arrays, error, text):
    with pytest.raises(error, match=text):
        cuda.statistics(*arrays)


def test_a_matrix_that_was_not_initialised():
    with pytest.raises(ParameterError, match="not initialised"):
        Matrix.__new__(Matrix).synchronize()
