# ruff: noqa: F841 (results are assigned and not read)
"""Numbers at the end of 64 bits, and indices that only a condition keeps inside (guarded_cases.py)."""

import numpy as np
import pytest
import scipy.sparse
from guarded_cases import CASES, ERROR, P, X

from bmrm.distributed.reading import read_rows
from bmrm.errors import DataError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import reduction

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


@reduction
def weighted(x, w, total, out, bins: 3):
    total += w * x[0]
    bins[x.index % 3] += w
    out = w if x[0] > 0 else -w


def test_the_plain_loop_ends_with_an_error_where_compiled_code_would_wrap():
    others = ["written_after_a_wrap", "a_counter_plus_one", "an_infinite_number", "the_least_number"]
    names = [name for name in CASES if "wraps" in name] + others
    assert len(names) > 10
    for name in names:
        with pytest.raises(ReductionError, match=r"row \d: found an integer that does not fit 64 bits"):
            CASES[name].reduction.python(X, **CASES[name].words)
    with pytest.raises(ReductionError, match="found a shift by 100000000000, expected 0 to 63"):
        CASES["a_shift_that_wraps"].reduction.python(X, p=P, k=10**11)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_no_index_that_no_row_has_is_read_and_every_other_is_checked(name, kind):
    row_function, words, expected = CASES[name]
    if isinstance(expected, str):
        assert expected == ERROR
        with pytest.raises(ReductionError, match="found the index"):
            row_function(X.astype(kind), device="cpu", **words)
        with pytest.raises(ReductionError, match=name):
            row_function.python(X.astype(kind), **words)
        return
    found = row_function(X.astype(kind), device="cpu", **words)
    if expected is None:
        expected = row_function.python(X.astype(kind), **words)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_row_values_are_loaded_without_a_mask():
    row_function, words, _ = CASES["of_lanes_that_wait"]
    assert "masked.load" not in row_function.source("cpu", X, **words)
    assert "masked.load" not in weighted.source("cpu", X, w=np.ones(len(X)))
    for count in (1, 15, 16, 17, 31, 32, 33, 50):
        w = np.arange(count) / 4
        for mine, theirs in zip(weighted(X[:count], w=w), weighted.python(X[:count], w=w), strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("starts", [[0, 200, 3], [0, 2, 1], [-5, 2, 3], [0, 2, 400]])
def test_rows_of_a_sparse_matrix_that_end_elsewhere_are_refused(starts):
    rows = scipy.sparse.csr_array((np.ones(3), np.arange(3, dtype=np.int32), [0, 2, 3]), shape=(2, 6))
    rows.indptr = np.array(starts)
    with pytest.raises(DataError, match="rise from 0 to 3"):
        read_rows(rows)
