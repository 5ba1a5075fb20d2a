"""The matrix in main memory against scipy and NumPy in float64."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from instruction_sets import assert_same_results

from bmrm.base.distinct import distinct_values
from bmrm.errors import DataError, ParameterError
from bmrm.matrix import _cpu
from bmrm.matrix._cpu import Matrix, instruction_set, row_additions

VALUES = (np.float32, np.float64, None)
THREADS = (1, 2, 3, 5)
THREADS_OF = {np.float32: (1, 2, 5), np.float64: (1, 3), None: (1, 5)}
"""Rows are split alike whatever the type of their values: each type has other numbers of threads, and lacks
one kind of transpose."""
TRANSPOSE = (True, False, None)
TRANSPOSE_OF = {np.float32: (True, False), np.float64: (False, None), None: (None, True)}


def random_csr(rng, m, d, nnz, dtype):
    """Sparse float64 reference, with duplicates summed, and the triple to build a Matrix from."""
    flat = distinct_values(rng.integers(0, m * d, nnz)) if m * d else np.empty(0, np.int64)
    data = np.ones(flat.size) if dtype is None else rng.standard_normal(flat.size).astype(dtype)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(flat // max(d, 1), minlength=m)))).astype(np.int64)
    columns = (flat % max(d, 1)).astype(np.int32)
    reference = sp.csr_matrix((data.astype(np.float64), columns, indptr), (m, d))
    return reference, (indptr, columns, None if dtype is None else data)


def products(X, w, r, starts, R):
    vectors = X.matvec(w), X.rmatvec(r), X.rmatvec_blocks(r, starts)
    found = X.matmat(columns_of(w, R)), X.rmatmat(R)
    assert_same_apart(X, columns_of(w, R), R, found)
    return *vectors, *found, X.rmatmat_blocks(R, starts)


FEW_ENTRIES = 24
"""Entries per column below which separate vectors are multiplied one after the other."""


def assert_same_apart(X, W, R, found):
    """Separate vectors give the same bits as columns of an array, or as each vector alone."""
    (m, d), K = X.shape, R.shape[1]
    if X.nnz < FEW_ENTRIES * d and X.index_bytes:
        alone = [X.matvec(w) for w in W.T], [X.rmatvec(r) for r in R.T]
        found = tuple(np.reshape(vectors, (K, n)).T for vectors, n in zip(alone, (m, d), strict=True))
    outs = np.full((K, m), np.nan), np.full((K, d), np.nan)
    X.matvecs(list(W.T.copy()), list(outs[0]))
    X.rmatvecs(list(R.T.copy()), list(outs[1]))
    for own, columns in zip(outs, found, strict=True):
        np.testing.assert_array_equal(own.T, columns)


def columns_of(w, R):
    return np.outer(w, np.linspace(1.0, 3.0, R.shape[1]))


def expected(A, w, r, starts, R):
    def by_block(v):
        blocks = [A[a:b].T @ v[a:b] for a, b in itertools.pairwise(starts)]
        return np.reshape(blocks, (len(starts) - 1, A.shape[1], *v.shape[1:]))

    return A @ w, A.T @ r, by_block(r), A @ columns_of(w, R), A.T @ R, by_block(R)


def assert_close(got, want, scale):
    """Within the rounding of sums of products whose absolute values add up to `scale`."""
    for g, s, v in zip(got, scale, want, strict=True):
        assert g.shape == v.shape
        np.testing.assert_array_less(np.abs(g - v), 1e-13 * s + 1e-300)


def check(A, triple, rng, threads=(1,), transpose=TRANSPOSE, columns=3, blocks=3, popular=None):
    m, d = A.shape
    w, r, R = rng.standard_normal(d), rng.standard_normal(m), rng.standard_normal((m, columns))
    R[rng.random(m) < 0.3] = 0.0
    starts = np.sort(np.concatenate(([0, m], rng.integers(0, m + 1, blocks - 1))))
    want = expected(A, w, r, starts, R)
    scale = expected(abs(A), abs(w), abs(r), starts, abs(R))
    for kept in transpose:
        options = {"transpose": kept, "by_popularity": popular}
        made = (Matrix(*triple, A.shape, threads=n, **options) for n in threads)
        first, *others = (products(X, w, r, starts, R) for X in made)
        assert_close(first, want, scale)
        for got in others:
            for a, b in zip(first, got, strict=True):
                np.testing.assert_array_equal(a, b)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    m=st.integers(0, 60),
    d=st.integers(0, 300),
    fill=st.integers(0, 2000),
    dtype=st.sampled_from(VALUES),
    columns=st.integers(0, 40),
    blocks=st.integers(1, 9),
    popular=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_matrices(m, d, fill, dtype, columns, blocks, popular, seed):
    rng = np.random.default_rng(seed)
    A, triple = random_csr(rng, m, d, fill, dtype)
    check(A, triple, rng, columns=columns, blocks=blocks, popular=popular)


LAYOUTS = {
    "several-panels": (30_000, 256, 500_000, 1),
    "narrow-uint16": (9_000, 257, 450_000, 2),
    "sparse-columns": (20_000, 65_536, 500_000, 2),
    "strips": (1_000, 65_537, 500_000, 4),
    "one-wide-panel": (150_000, 400_000, 450_000, 4),
    "one-huge-row": (1, 400_000, 450_000, 4),
    "one-column": (400_000, 1, 450_000, 1),
}
"""Rows, columns, stored values, and bytes of an index."""

# Values move with their columns whatever their type: one type per layout whose popular columns come first.
POPULAR = zip(("narrow-uint16", "strips", "one-huge-row"), VALUES, strict=True)


@pytest.mark.parametrize(
    ("name", "dtype", "popular"),
    [*((*case, False) for case in itertools.product(LAYOUTS, VALUES)), *((*case, True) for case in POPULAR)],
)
def test_every_layout_gives_the_same_bits_on_any_number_of_threads(name, dtype, popular):
    m, d, nnz, index_bytes = LAYOUTS[name]
    rng = np.random.default_rng(m + d)
    A, triple = random_csr(rng, m, d, nnz, dtype)
    assert Matrix(*triple, A.shape).index_bytes == index_bytes
    columns = 3 if d < 100_000 else 1
    words = {"columns": columns, "blocks": 2 * columns, "popular": popular}
    check(A, triple, rng, threads=THREADS_OF[dtype], transpose=TRANSPOSE_OF[dtype], **words)


def test_huge_row_among_short_ones():
    rng = np.random.default_rng(5)
    A = sp.vstack(
        [
            sp.random_array((700, 300_000), density=2e-5, rng=rng),
            np.ones((1, 300_000)),
            sp.csr_matrix((9, 300_000)),
        ]
    ).tocsr()
    A.data = rng.standard_normal(A.nnz)
    check(A, (A.indptr.astype(np.int64), A.indices, A.data), rng, threads=THREADS)


def rows_of_lengths(rng, lengths, d, dtype):
    """Reference and triple of a matrix with random columns, of which some occur twice in a row."""
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    columns = rng.integers(0, d, indptr[-1], dtype=np.int32)
    data = None if dtype is None else rng.standard_normal(columns.size).astype(dtype)
    values = np.ones(columns.size) if data is None else data.astype(np.float64)
    return sp.csr_matrix((values, columns, indptr), (len(lengths), d)), (indptr, columns, data)


SHORT_ROWS = {
    "tiny, unlike": lambda rng, m: rng.poisson(4.0, m),
    "tiny, some long": lambda rng, m: np.where(rng.random(m) < 1e-3, 500, rng.geometric(0.4, m) - 1),
    "tiny, alike": lambda rng, m: np.full(m, 4),
    "many empty": lambda rng, m: np.where(rng.random(m) < 0.9, 0, rng.integers(0, 9, m)),
    "near the limits": lambda rng, m: rng.integers(7, 10, m) * rng.choice([0, 1, 2], m),
    "around twenty": lambda rng, m: rng.integers(0, 41, m),
}


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("d", [50, 5_000, 70_000])
@pytest.mark.parametrize("kind", SHORT_ROWS)
def test_short_rows(kind, d, dtype):
    rng = np.random.default_rng(d)
    for m in (17_003, 1_001):
        A, triple = rows_of_lengths(rng, SHORT_ROWS[kind](rng, m), d, dtype)
        w, r = rng.standard_normal(d), rng.standard_normal((3, m))
        r[1][rng.random(m) < 0.05] = 0.0
        r[2][rng.random(m) < 0.3] = 0.0
        want = A @ w, *(A.T @ v for v in r)
        sizes = sp.csr_matrix((np.abs(A.data), A.indices, A.indptr), A.shape)
        scale = sizes @ abs(w), *(sizes.T @ abs(v) for v in r)
        found = []
        for threads in (1, 3):
            X = Matrix(*triple, A.shape, threads=threads)
            found.append([X.matvec(w), *map(X.rmatvec, r)])
            assert_close(found[-1], want, scale)
        for one, three in zip(*found, strict=True):
            np.testing.assert_array_equal(one, three)
        assert X.nbytes <= Matrix.predict_bytes(m, d, A.nnz, 0 if dtype is None else np.dtype(dtype).itemsize)


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("each", [14, 27])
def test_rows_that_meet_neighbouring_columns(each, dtype):
    """As on grids: the places of consecutive entries in a long vector are near each other."""
    rng, m, d = np.random.default_rng(each), 3_000, 70_000
    columns = (20 * np.arange(m)[:, None] + np.arange(each)).astype(np.int32).ravel()
    indptr = each * np.arange(m + 1)
    data = None if dtype is None else rng.standard_normal(columns.size).astype(dtype)
    values = np.ones(columns.size) if data is None else data.astype(np.float64)
    check(sp.csr_matrix((values, columns, indptr), (m, d)), (indptr, columns, data), rng, threads=(1, 3))


def test_short_rows_that_are_not_finite_reach_sums_through_zeros():
    rng = np.random.default_rng(3)
    A, (indptr, columns, data) = rows_of_lengths(rng, rng.poisson(4.0, 20_000), 300, np.float64)
    data[7] = np.inf
    r = np.ones(20_000)
    r[np.searchsorted(indptr, 7, side="right") - 1] = 0.0
    found = Matrix(indptr, columns, data, A.shape).rmatvec(r)
    assert np.isnan(found[columns[7]])
    assert np.isfinite(np.delete(found, columns[7])).all()


@pytest.mark.parametrize("kept", TRANSPOSE)
def test_mostly_zero_r_reads_only_rows_in_use(kept):
    rng = np.random.default_rng(6)
    for m, d, nnz in [(30_000, 100, 300_000), (900, 70_000, 300_000)]:
        A, triple = random_csr(rng, m, d, nnz, np.float32)
        r = np.where(rng.random(m) < 0.1, rng.standard_normal(m), 0.0)
        got = [Matrix(*triple, A.shape, threads=n, transpose=kept).rmatvec(r) for n in THREADS]
        np.testing.assert_allclose(got[0], A.T @ r, rtol=1e-11, atol=1e-12)
        for other in got[1:]:
            np.testing.assert_array_equal(got[0], other)


def test_transpose_is_built_when_a_product_needs_it():
    rng = np.random.default_rng(7)
    A, triple = random_csr(rng, 20_000, 50, 200_000, np.float64)
    narrow, never = Matrix(*triple, A.shape), Matrix(*triple, A.shape, transpose=False)
    before = narrow.nbytes
    for X in (narrow, never):
        X.matvec(np.ones(50))
        assert not X.has_transpose
        X.rmatvec(np.ones(20_000))
    assert narrow.has_transpose
    assert not never.has_transpose
    assert narrow.nbytes > before
    wide, triple = random_csr(rng, 500, 60_000, 100_000, np.float64)
    assert not Matrix(*triple, wide.shape).has_transpose
    X = Matrix(*triple, wide.shape)
    X.rmatvec(np.ones(500))
    assert not X.has_transpose
    X.build_transpose()
    assert X.has_transpose


@pytest.mark.parametrize("value_bytes", [0, 4, 8])
@pytest.mark.parametrize("shape", [(20_000, 50), (500, 60_000), (900, 70_000), (150_000, 400_000)])
def test_predicted_bytes_are_those_used(shape, value_bytes):
    rng = np.random.default_rng(8)
    A, triple = random_csr(rng, *shape, 200_000, {0: None, 4: np.float32, 8: np.float64}[value_bytes])
    for kept in TRANSPOSE:
        X = Matrix(*triple, A.shape, transpose=kept)
        X.rmatvec(np.ones(shape[0]))
        predicted = Matrix.predict_bytes(*shape, A.nnz, value_bytes, transpose=kept)
        assert X.nbytes <= predicted <= X.nbytes * 1.2


def skewed(rng, m, d, nnz, dtype, places):
    """Columns drawn by a Zipf law, the k-th most popular at places[k]; repeated and unsorted."""
    law = np.cumsum(1.0 / (np.arange(d) + 10.0))
    columns = places[np.searchsorted(law / law[-1], rng.random(nnz)).clip(0, d - 1)].astype(np.int32)
    indptr = np.sort(np.concatenate(([0, nnz], rng.integers(0, nnz + 1, m - 1)))).astype(np.int64)
    data = None if dtype is None else rng.standard_normal(nnz).astype(dtype)
    values = np.ones(nnz) if data is None else data.astype(np.float64)
    return sp.csr_matrix((values, columns.copy(), indptr.copy()), (m, d)), (indptr, columns, data)


@pytest.mark.parametrize("dtype", VALUES)
def test_popular_columns_come_first_if_that_improves_locality(dtype):
    rng = np.random.default_rng(22)
    m, d, nnz = 5_000, 200_000, 1_100_000
    A, triple = skewed(rng, m, d, nnz, dtype, rng.permutation(d))
    X = Matrix(*triple, A.shape)
    assert X.by_popularity
    assert X.nbytes <= Matrix.predict_bytes(m, d, nnz, {np.float32: 4, np.float64: 8, None: 0}[dtype])
    check(A, triple, rng, threads=(1, 3), columns=2)
    order = rng.permutation(m)
    r, found = rng.standard_normal(m), X.reordered(order)
    assert found.by_popularity
    np.testing.assert_allclose(found.rmatvec(r[order]), A.T @ r, rtol=1e-10, atol=1e-10)
    squares = np.ones(nnz) if dtype is None else triple[2].astype(np.float64) ** 2
    np.testing.assert_allclose(X.mean_squares, np.bincount(triple[1], squares, d) / m, rtol=1e-10)
    assert not Matrix(*triple, A.shape, by_popularity=False).by_popularity


def test_columns_stay_where_another_order_improves_nothing():
    rng = np.random.default_rng(22)
    m, d, nnz = 5_000, 200_000, 1_100_000
    anywhere, in_order = rng.permutation(d), np.arange(d)
    for A, triple in (
        skewed(rng, m, d, nnz, None, in_order),  # they lie first as they are
        skewed(rng, m, d, 1_000_000, None, anywhere),  # not worth the trouble
        skewed(rng, m, 60_000, nnz, None, rng.permutation(60_000)),  # weights that stay near as they are
        random_csr(rng, m, d, nnz, None),  # none is popular
    ):
        assert not Matrix(*triple, A.shape).by_popularity


@pytest.mark.parametrize("dtype", VALUES)
def test_weighted_gram_of_popular_columns(dtype):
    rng = np.random.default_rng(23)
    A, triple = random_csr(rng, 300, 40, 2_500, dtype)
    s = rng.standard_normal(300)
    got = Matrix(*triple, A.shape, by_popularity=True).weighted_gram(s)
    np.testing.assert_allclose(got, (A.T @ sp.diags(s) @ A).toarray(), rtol=1e-11, atol=1e-12)


def test_values_of_popular_columns_are_a_copy():
    data = np.arange(1.0, 5.0)
    X = Matrix([0, 2, 4], [2, 1, 2, 0], data, (2, 3), by_popularity=True)
    assert sys.getrefcount(data) == 2
    data[:] = np.nan
    np.testing.assert_array_equal(X.matvec([1.0, 10.0, 100.0]), [120.0, 304.0])


def test_values_of_one_are_dropped():
    for data in (None, np.ones(3), np.ones(3, np.float32), [1, 1, 1]):
        X = Matrix([0, 2, 3], [0, 2, 1], data, (2, 3))
        assert X.dtype is None
        np.testing.assert_array_equal(X.matvec([1.0, 2.0, 4.0]), [5.0, 2.0])
    assert Matrix([0, 2, 3], [0, 2, 1], [1, 1, 2], (2, 3)).dtype == np.float64


def test_values_are_shared_and_results_written_in_place():
    data = np.array([1.0, 2.0, 3.0], np.float32)
    X = Matrix(np.array([0, 2, 3]), np.array([0, 2, 1]), data, (2, 3))
    assert X.dtype == np.float32
    assert sys.getrefcount(data) > 2
    out = np.empty(2)
    assert X.matvec(np.ones(3), out) is out
    np.testing.assert_array_equal(out, [3.0, 3.0])
    data[0] = 10
    np.testing.assert_array_equal(X.matvec(np.ones(3)), [12.0, 3.0])


@pytest.mark.parametrize("popular", [False, True])
@pytest.mark.parametrize("kept", TRANSPOSE)
@pytest.mark.parametrize("shape", [(4, 3), (5000, 40)])
def test_nan_and_infinity_propagate_as_in_scipy(kept, shape, popular):
    rng = np.random.default_rng(9)
    A, triple = random_csr(rng, *shape, 6 * shape[0], np.float64)
    for bad in (np.nan, np.inf, -np.inf):
        A.data[A.nnz // 2] = triple[2][A.nnz // 2] = bad
        X = Matrix(*triple, A.shape, transpose=kept, by_popularity=popular)
        w, r = rng.standard_normal(shape[1]), np.zeros(shape[0])
        np.testing.assert_allclose(X.matvec(w), A @ w, rtol=1e-10)
        np.testing.assert_allclose(X.rmatvec(r), A.T @ r, rtol=1e-10)
        r[:2] = 1.0, bad
        w[0] = bad
        np.testing.assert_allclose(X.matvec(w), A @ w, rtol=1e-10)
        np.testing.assert_allclose(X.rmatvec(r), A.T @ r, rtol=1e-10)


@pytest.mark.parametrize("kept", TRANSPOSE)
def test_nan_and_infinity_propagate_through_rows_of_zeros(kept):
    rng = np.random.default_rng(19)
    A, triple = random_csr(rng, 90, 7, 300, np.float64)
    R = rng.standard_normal((90, 5))
    R[20:70] = 0.0
    for bad in (np.nan, np.inf):
        R[80, 2] = bad
        for k in (A.nnz // 2, 3):  # a row of zeros, and another
            A.data[k] = triple[2][k] = bad
            X = Matrix(*triple, A.shape, transpose=kept)
            np.testing.assert_allclose(X.rmatmat(R), A.T @ R, rtol=1e-10)
            assert_same_apart(X, np.ones((7, 5)), R, (X.matmat(np.ones((7, 5))), X.rmatmat(R)))


def test_products_of_several_vectors_at_the_same_time():
    """Concurrent products never share buffers."""
    rng = np.random.default_rng(20)
    A, triple = random_csr(rng, 3000, 200, 60_000, np.float64)
    X = Matrix(*triple, A.shape, transpose=False)
    inputs = [(rng.standard_normal((200, 3)), rng.standard_normal((3000, 3))) for _ in range(8)]
    want = [(X.matmat(W), X.rmatmat(R)) for W, R in inputs]

    def again(k):
        return all(
            (X.matmat(inputs[k][0]) == want[k][0]).all() and (X.rmatmat(inputs[k][1]) == want[k][1]).all()
            for _ in range(20)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(again, range(8)))


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(0, 60),
    d=st.integers(0, 30),
    dtype=st.sampled_from(VALUES),
    dense=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_in_another_order(m, d, dtype, dense, seed):
    rng = np.random.default_rng(seed)
    A, triple = random_csr(rng, m, d, 5 * m, dtype)
    order = rng.permutation(m)
    given = np.ascontiguousarray(A.toarray(), dtype or np.float64)
    X = Matrix.from_dense(given) if dense else Matrix(*triple, A.shape)
    wanted = Matrix.from_dense(given[order]) if dense else Matrix(*rows_of(triple, order), A.shape)
    found = X.reordered(order)
    assert (found.shape, found.nnz, found.dtype) == (wanted.shape, wanted.nnz, wanted.dtype)
    inputs = rng.standard_normal(d), rng.standard_normal(m), [0, m // 2, m], rng.standard_normal((m, 3))
    for got, want in zip(products(found, *inputs), products(wanted, *inputs), strict=True):
        np.testing.assert_array_equal(got, want)
    assert found.index_bytes == X.index_bytes


def rows_of(triple, order):
    """Reorder rows by scipy."""
    indptr, columns, data = triple
    width = max(1, int(columns.max(initial=0)) + 1)
    numbers = sp.csr_matrix((np.arange(len(columns)), columns, indptr), (len(indptr) - 1, width))
    taken = numbers[order]
    return taken.indptr.astype(np.int64), taken.indices, None if data is None else data[taken.data]


def test_rows_in_another_order_large():
    rng = np.random.default_rng(21)
    A, triple = random_csr(rng, 30_000, 300, 900_000, np.float32)
    order = rng.permutation(30_000)
    r = rng.standard_normal(30_000)
    X = Matrix(*triple, A.shape)
    np.testing.assert_allclose(X.reordered(order).rmatvec(r[order]), X.rmatvec(r), rtol=1e-10, atol=1e-10)


def test_a_value_of_a_neighbouring_row_never_leaks():
    indptr, columns = np.arange(0, 30, 3), np.tile([0, 1, 2], 9)
    data = np.arange(1.0, 28.0)
    data[3:6] = np.inf
    got = Matrix(indptr, columns, data, (9, 4)).matvec([1.0, 1.0, 1.0, np.nan])
    want = data.reshape(9, 3).sum(1)
    np.testing.assert_array_equal(got, want)


def test_strided_and_unaligned_inputs():
    rng = np.random.default_rng(10)
    A, (indptr, columns, data) = random_csr(rng, 50, 40, 500, np.float64)

    def strided(x):
        return np.repeat(x, 2)[::2]

    def unaligned(x):
        raw = np.empty(x.nbytes + 1, np.uint8)
        view = raw[1:].view(x.dtype)
        view[:] = x
        return view

    w, r = rng.standard_normal(40), rng.standard_normal(50)
    for odd in (strided, unaligned):
        X = Matrix(odd(indptr), odd(columns), odd(data), A.shape)
        np.testing.assert_allclose(X.matvec(odd(w)), A @ w, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(X.rmatvec(odd(r)), A.T @ r, rtol=1e-10, atol=1e-12)
        with pytest.raises(ParameterError, match="out"):
            X.matvec(w, odd(np.empty(50)))
    read_only = np.empty(50)
    read_only.flags.writeable = False
    with pytest.raises(ParameterError, match="writeable"):
        X.matvec(w, read_only)
    frozen = w.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(X.matvec(frozen), X.matvec(w))


@pytest.mark.parametrize(
    ("indptr", "indices", "data", "shape", "message"),
    [
        ([1, 2], [0], [1.0], (1, 2), "starts at 1"),
        ([0, 2, 1, 3], [0, 1, 0], None, (3, 2), "decreases at row 1"),
        ([0, 2], [0], None, (1, 2), "ends at 2, but there are 1 indices"),
        ([0, 1, 1], [0], None, (1, 2), "3 entries, expected 2"),
        ([0, 1], [2], None, (1, 2), "entry 0 is 2, expected 0 to 1"),
        ([0, 1], [-1], None, (1, 2), "entry 0 is -1"),
        ([0, 1], [256], None, (1, 256), "entry 0 is 256"),
        ([0, 1], [2**40], None, (1, 2), "entry 0 is"),
        ([0, 1], [0], [1.0, 2.0], (1, 2), "data: found shape"),
        ([0, 1], [0.5], None, (1, 2), "expected integers"),
        ([0, 1], [0], ["a"], (1, 2), "expected real numbers"),
        ([0, 1], [0], [1j], (1, 2), "expected real numbers"),
        ([[0, 1]], [0], None, (1, 2), "2 dimensions"),
        (np.array([0, 2**63], np.uint64), [0], None, (1, 2), "more than int64 holds"),
        ([0, 1], [0], None, (1, 0), "entry 0 is 0"),
    ],
)
def test_arrays_that_form_no_matrix(indptr, indices, data, shape, message):
    with pytest.raises(DataError, match=message):
        Matrix(indptr, indices, data, shape)


@pytest.mark.parametrize(
    ("shape", "threads", "message"),
    [
        ((1,), None, "shape"),
        (3, None, "shape"),
        ((-1, 2), None, "shape"),
        ((1, 2**32 + 1), None, "shape"),
        ((1, 2), 0, "threads"),
        ((1, 2), 1.5, "threads"),
        ((1, 2), True, "threads"),
    ],
)
def test_parameters_out_of_range(shape, threads, message):
    with pytest.raises(ParameterError, match=message):
        Matrix([0, 1], [0], None, shape, threads=threads)


def test_vectors_of_the_wrong_shape():
    X = Matrix([0, 1], [0], None, (1, 2))
    bad = [
        lambda: X.matvec(np.ones(3)),
        lambda: X.matvec(np.ones((2, 1))),
        lambda: X.matvec(np.ones(2), np.empty(2)),
        lambda: X.matvec(np.ones(2), np.empty(1, np.float32)),
        lambda: X.rmatvec(np.ones(2)),
        lambda: X.matmat(np.ones(2)),
        lambda: X.matmat(np.ones((1, 2))),
        lambda: X.rmatmat_blocks(np.ones((1, 2)), [0, 2]),
        lambda: X.rmatmat_blocks(np.ones((2, 2)), [0, 1]),
        lambda: X.rmatmat(np.ones(1)),
        lambda: X.rmatmat(np.ones((2, 2))),
        lambda: X.rmatvec_blocks(np.ones(1), []),
        lambda: X.rmatvec_blocks(np.ones(1), [0, 2]),
        lambda: X.rmatvec_blocks(np.ones(1), [-1, 1]),
        lambda: X.rmatvec_blocks(np.ones(1), [0, 1, 0]),
        lambda: X.rmatvec_blocks(np.ones(1), [0, 1], np.empty((2, 2))),
        lambda: X.matvecs([np.ones(2)], []),
        lambda: X.matvecs([np.ones(3)], [np.empty(1)]),
        lambda: X.matvecs([np.ones(2)], [np.empty(2)]),
        lambda: X.matvecs([np.ones(2)], [None]),
        lambda: X.rmatvecs([np.ones(2)], [np.empty(2)]),
        lambda: X.reordered([1]),
        lambda: X.reordered([-1]),
        lambda: X.reordered([0, 0]),
        lambda: Matrix([0, 1, 1], [0], None, (2, 2)).reordered([0, 0]),
        lambda: Matrix.predict_bytes(-1, 2, 3, 4),
        lambda: Matrix.predict_bytes(1, 2, 3, 5),
        lambda: Matrix.__new__(Matrix).matvec(np.ones(2)),
        lambda: Matrix.__new__(Matrix).nbytes,
    ]
    for call in bad:
        with pytest.raises(ParameterError):
            call()


def test_blocks_may_skip_rows():
    rng = np.random.default_rng(11)
    A, triple = random_csr(rng, 9000, 30, 90_000, np.float64)
    r = rng.standard_normal(9000)
    for kept in TRANSPOSE:
        got = Matrix(*triple, A.shape, transpose=kept).rmatvec_blocks(r, [100, 100, 4096, 8000])
        want = [A[a:b].T @ r[a:b] for a, b in [(100, 100), (100, 4096), (4096, 8000)]]
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(
    m=st.integers(0, 70),
    d=st.integers(0, 90),
    dtype=st.sampled_from([np.float32, np.float64]),
    columns=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_dense(m, d, dtype, columns, seed):
    check_dense(m, d, dtype, columns, np.random.default_rng(seed), (1,))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3000, 333), (40, 30_001), (400_003, 1)])
def test_large_dense_on_any_number_of_threads(shape, dtype):
    check_dense(*shape, dtype, 3, np.random.default_rng(12), THREADS_OF[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_larger_than_the_caches_uses_the_same_order_of_rows(dtype):
    m = (36 << 20) // (501 * np.dtype(dtype).itemsize)
    rng = np.random.default_rng(22)
    check_dense(m, 501, dtype, 2, rng, THREADS_OF[dtype])
    values, w = rng.standard_normal((m, 501)).astype(dtype), rng.standard_normal(501)
    parts = [Matrix.from_dense(half).matvec(w) for half in np.array_split(values, 2)]
    np.testing.assert_array_equal(Matrix.from_dense(values).matvec(w), np.concatenate(parts))


def check_dense(m, d, dtype, columns, rng, threads):
    values = rng.standard_normal((m, d)).astype(dtype)
    A = values.astype(np.float64)
    w, r, R = rng.standard_normal(d), rng.standard_normal(m), rng.standard_normal((m, columns))
    starts = np.array([0, m // 3, m // 3, m])
    want, scale = expected(A, w, r, starts, R), expected(abs(A), abs(w), abs(r), starts, abs(R))
    made = [Matrix.from_dense(values, threads=n) for n in threads]
    first, *others = (products(X, w, r, starts, R) for X in made)
    assert_close(first, want, scale)
    for got in others:
        for a, b in zip(first, got, strict=True):
            np.testing.assert_array_equal(a, b)
    X = made[0]
    assert (X.shape, X.nnz, X.dtype, X.index_bytes, X.has_transpose) == ((m, d), m * d, dtype, 0, False)
    assert X.nbytes == values.nbytes


def test_dense_of_other_layouts_and_types():
    A = np.arange(12).reshape(4, 3)
    for values in (A, A[:, ::-1], np.asfortranarray(A.astype(np.float32)), A.tolist()):
        np.testing.assert_array_equal(
            Matrix.from_dense(values).matvec([1, 2, 3]), np.asarray(values) @ [1, 2, 3]
        )
    for bad in ([1.0, 2.0], [["a"]], [[1j]]):
        with pytest.raises(DataError):
            Matrix.from_dense(bad)


def assert_weighted_gram(make, A, s, threads=THREADS):
    """`make(threads)` against NumPy: the same bits on any number of threads, and symmetric."""
    want, scale = A.T @ (s[:, None] * A), abs(A).T @ (abs(s)[:, None] * abs(A))
    first = make(threads[0]).weighted_gram(s)
    assert_close([first], [want], [scale])
    np.testing.assert_array_equal(first, first.T)
    for n in threads[1:]:
        np.testing.assert_array_equal(make(n).weighted_gram(s), first)


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(0, 70),
    d=st.integers(0, 40),
    dtype=st.sampled_from(VALUES),
    dense=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_weighted_gram_of_small_matrices(m, d, dtype, dense, seed):
    rng = np.random.default_rng(seed)
    A, triple = random_csr(rng, m, d, 3 * m, dtype)
    s = rng.standard_normal(m) * rng.integers(0, 2, m)
    full = A.toarray()

    def make(n):
        return Matrix.from_dense(full, threads=n) if dense else Matrix(*triple, A.shape, threads=n)

    assert_weighted_gram(make, full, s, threads=(1,))


@pytest.mark.parametrize("dtype", VALUES)
def test_weighted_gram_gives_the_same_bits_on_any_number_of_threads(dtype):
    rng = np.random.default_rng(21)
    A, triple = random_csr(rng, 20_000, 40, 200_000, dtype)
    values = rng.standard_normal((20_000, 33)).astype(dtype or float)
    for share in (1.0, 0.1, 0.0):  # of the rows that count
        s = rng.random(20_000) * (rng.random(20_000) < share)
        assert_weighted_gram(lambda n: Matrix(*triple, A.shape, threads=n), A.toarray(), s)
        if dtype is not None:
            assert_weighted_gram(lambda n: Matrix.from_dense(values, threads=n), values.astype(float), s)


@given(
    m=st.integers(1, 40),
    d=st.integers(1, 40),
    dtype=st.sampled_from([np.float32, np.float64, None]),
    dense=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_mean_squares(m, d, dtype, dense, seed):
    rng = np.random.default_rng(seed)
    A = sp.random(m, d, 0.3, "csr", rng=rng, dtype=dtype or float)
    A.data[:] = 1.0 if dtype is None else rng.standard_normal(A.nnz)
    rows = A.toarray()
    values = None if dtype is None else A.data
    X = Matrix.from_dense(rows) if dense else Matrix(A.indptr, A.indices, values, A.shape)
    np.testing.assert_allclose(X.mean_squares, np.square(rows.astype(float)).mean(axis=0), rtol=1e-14)
    assert X.mean_squares is X.mean_squares
    assert not X.mean_squares.flags.writeable


def test_mean_squares_are_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(22)
    A = sp.random(50_000, 40, 0.35, "csr", rng=rng)
    for make in (
        lambda n: Matrix(A.indptr, A.indices, A.data, A.shape, threads=n),
        lambda n: Matrix.from_dense(A.toarray(), threads=n),
    ):
        one, two = (make(n).mean_squares for n in (1, 2))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, np.asarray(A.multiply(A).mean(axis=0)).ravel(), rtol=1e-12)


def test_weighted_gram_of_repeated_and_unsorted_columns():
    X = Matrix([0, 4, 5], [2, 0, 2, 1, 0], [1.0, 2.0, 3.0, 4.0, 5.0], (2, 3))
    A = np.array([[2.0, 4.0, 4.0], [5.0, 0.0, 0.0]])
    np.testing.assert_allclose(X.weighted_gram([0.5, 2.0]), A.T @ np.diag([0.5, 2.0]) @ A, rtol=1e-15)


def test_weighted_gram_reports_its_work_and_checks_shapes():
    X = Matrix([0, 2, 3], [0, 1, 1], None, (2, 2))
    assert X.weighted_gram_work == 3 + 1
    for call in (lambda: X.weighted_gram(np.ones(3)), lambda: X.weighted_gram(np.ones(2), np.empty((2, 3)))):
        with pytest.raises(ParameterError):
            call()


@pytest.mark.parametrize("columns", [1, 2, 8, 9, 32])
@pytest.mark.parametrize("ones", [False, True])
def test_products_have_no_more_additions_than_are_counted(columns, ones):
    """Terms of a little more than half a unit are rounded up whenever one is added to the first term."""
    lengths = np.array([*range(1, 70), 1000, 70_000, 150_000])
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    X = Matrix(
        indptr,
        np.concatenate([np.arange(length) for length in lengths]),
        None if ones else np.full(indptr[-1], 2.0),
        (len(lengths), lengths.max()),
        by_popularity=False,
    )
    x, small = np.ones((X.shape[1], columns)), 2.0**-53 * (1 + 2.0**-10)
    x[1:] = small
    found = X.matvec(x[:, 0])[:, None] if columns == 1 else X.matmat(x)
    true = (1 if ones else 2) * (1 + (lengths - 1) * np.longdouble(small))
    wrong = np.abs(found / true[:, None] - 1) / 2.0**-53
    most, per_entry = row_additions(columns)
    assert (wrong <= 1.01 * np.minimum(lengths, most + per_entry * lengths)[:, None]).all()
    assert (wrong[-3:-1] >= 0.9 * per_entry * lengths[-3:-1, None]).all()


@pytest.mark.parametrize("lower", ["avx2", "baseline"])
def test_narrower_instruction_sets_give_the_same_results(lower):
    program = """
import numpy as np
from bmrm.matrix._cpu import Matrix, instruction_set, row_additions
rng = np.random.default_rng(3)
A = rng.standard_normal((200, 301)) * (rng.random((200, 301)) < 0.3)
rows, columns = np.nonzero(A)
X = Matrix(np.searchsorted(rows, np.arange(201)), columns, A[rows, columns], A.shape)
D = Matrix.from_dense(A.astype(np.float32))
w, R = rng.standard_normal(301), rng.standard_normal((200, 5))
out = [M.matvec(w) for M in (X, D)] + [M.rmatmat(R).ravel() for M in (X, D)]
out += [M.matmat(np.outer(w, R[0])).ravel() for M in (X, D)]
out += [M.rmatmat_blocks(R, [0, 70, 200]).ravel() for M in (X, D)]
out += [M.weighted_gram(R[:, 1]).ravel() for M in (X, D)]
print(instruction_set(), *(x.hex() for x in np.concatenate(out).tolist()))
"""
    assert_same_results(program, lower)


def test_docstrings_run():
    import doctest

    names = [name for name in dir(Matrix) if not name.startswith("_")]
    documented = [Matrix, instruction_set, *(getattr(Matrix, name) for name in names)]
    runner, finder = doctest.DocTestRunner(), doctest.DocTestFinder(recurse=False)
    examples = 0
    for thing in documented:
        name = getattr(thing, "__name__", "property")
        for test in finder.find(thing, name, module=False, globs=dict(vars(_cpu))):
            examples += len(test.examples)
            assert runner.run(test).failed == 0
    assert examples >= 15


@pytest.mark.parametrize("by_popularity", [True, False])
@pytest.mark.parametrize("ones", [True, False])
def test_rows_are_those_given(by_popularity, ones):
    X = sp.random_array((300, 90), density=0.1, format="csr", rng=np.random.default_rng(4), dtype=np.float32)
    if ones:
        X.data[:] = 1
    mine = Matrix(X.indptr, X.indices, X.data, X.shape, by_popularity=by_popularity)
    starts, columns, values = mine.rows()
    assert (values is None) == ones
    again = sp.csr_array((X.data if ones else values, columns, starts), shape=X.shape)
    assert (again != X).nnz == 0
    dense = X.toarray()
    assert np.array_equal(Matrix.from_dense(dense).rows(), dense)
