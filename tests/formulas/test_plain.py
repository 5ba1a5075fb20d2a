# ruff: noqa: F821, F841 (annotations name sizes; results are not read)
"""The plain loop: Python's truth values and indices, and numbers that 64 bits do not hold."""

import numpy as np
import pytest

from bmrm.errors import HostMemoryError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import local, reduction

X = np.random.default_rng(0).standard_normal((50, 3))


@reduction
def count_truth(x, p, flag, out, most, bins: 4, pairs: (2, 2)):
    n = x[0] > 0
    n += x[1] > 0
    n += x[2] > 0
    out += n
    own = local(3)
    own[not (x[0] > 0)] = 1.5
    both = (0 < x[0] < 1) - (x[1] > 0)
    for j in range(x[0] > 0, 3):
        both += (x[j] > 0) * 2
    most = max(most, both + (own[1] > 1) * 3 - p[x[1] > 0] * flag)
    bins[x[0] > 0] += 1
    bins[2 + (x[1] > 0)] += -(x[2] > 0)
    pairs[x[0] > 0, x[1] > 0] += (x[2] > 0) + flag


def test_truth_values_are_numbers_as_in_python():
    p = np.array([3, 4])
    found = count_truth.python(X, p=p, flag=True)
    a, b, c = (X > 0).astype(int).T
    np.testing.assert_array_equal(found.out, (a + b + c).sum())
    bins = [(a == 0).sum(), a.sum(), -c[b == 0].sum(), -c[b == 1].sum()]
    np.testing.assert_array_equal(found.bins, bins)
    pairs = [[(c + 1)[(a == i) & (b == j)].sum() for j in (0, 1)] for i in (0, 1)]
    np.testing.assert_array_equal(found.pairs, pairs)
    turns = [2 * ((X[i, k:] > 0).sum()) for i, k in enumerate(a)]
    both = (a & (X[:, 0] < 1)) - b + turns
    np.testing.assert_array_equal(found.most, (both + 3 * (a == 0) - p[b]).max())
    if native.can_compile():
        for mine, compiled in zip(found, count_truth(X, p=p, flag=True), strict=True):
            np.testing.assert_array_equal(mine, compiled)


@reduction
def doubled(x, k: int, total):
    total += k + k


@reduction
def doubled_each(x, k: int, each):
    each = k + k


@pytest.mark.parametrize("function", [doubled, doubled_each])
def test_a_number_beyond_64_bits_is_an_error_of_one_line(function):
    text = r"^doubled\w*: row 0: found an integer that does not fit 64 bits"
    with pytest.raises(ReductionError, match=text):
        function.python(X[:2], k=2**62)


@reduction
def from_the_end(x, p, k: int, out):
    out += p[-k]


@reduction
def last(x, p, out):
    out += p[-1] + x[-1]


def test_only_a_number_as_written_counts_from_the_end():
    p = np.arange(3.0)
    assert last.python(X, p=p).out == pytest.approx(2 * len(X) + X[:, -1].sum())
    with pytest.raises(ReductionError, match="row 0: index -1 is below 0"):
        from_the_end.python(X, p=p, k=1)


@reduction
def one_of_many(x, p: ("a", "b"), out):
    out += p[0, 0]


def test_a_parameter_that_cannot_be_copied_is_refused():
    with pytest.raises(HostMemoryError, match="needs 8796 GB for a copy of one_of_many: p"):
        one_of_many(X[:1], p=np.broadcast_to(np.ones(1), (2**20, 2**20)))
