"""The products of the cuts of a bundle, and points of a line, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_sets import assert_same_results

from bmrm.errors import ParameterError
from bmrm.linear.bundle._qp import along, combine, gram

THREADS = (1, 2, 3, 5)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(0, 40), P=st.integers(0, 20), d=st.integers(0, 50), seed=st.integers(0, 2**32 - 1))
def test_gram_and_combine(n, P, d, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((n, d)), rng.standard_normal((P, d))
    coef = rng.standard_normal(n) * rng.integers(0, 2, n)
    np.testing.assert_allclose(gram(A, B), A @ B.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(combine(A, coef), coef @ A, rtol=1e-12, atol=1e-12)


def test_gram_and_combine_on_any_number_of_threads():
    rng = np.random.default_rng(13)
    A, B, coef = rng.standard_normal((75, 20_011)), rng.standard_normal((18, 20_011)), rng.standard_normal(75)
    coef[::4] = 0
    G, a = np.empty((75, 18)), np.empty(20_011)
    assert gram(A, B, G, threads=1) is G
    assert combine(A, coef, a, threads=1) is a
    np.testing.assert_allclose(G, A @ B.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(a, coef @ A, rtol=1e-10, atol=1e-10)
    for n in THREADS[1:]:
        np.testing.assert_array_equal(gram(A, B, threads=n), G)
        np.testing.assert_array_equal(combine(A, coef, threads=n), a)


def test_combine_leaves_out_rows_with_coefficient_zero():
    A = np.array([[np.nan, np.inf], [1.0, 2.0]])
    np.testing.assert_array_equal(combine(A, [0.0, 3.0]), [3.0, 6.0])
    np.testing.assert_array_equal(combine(A, [0.0, 0.0]), [0.0, 0.0])


def test_points_of_a_line_on_any_number_of_threads():
    rng = np.random.default_rng(14)
    for n in (0, 7, 50_021):
        x, y = rng.standard_normal((2, n))
        for threads in THREADS:
            np.testing.assert_allclose(along(x, y, 0.3, threads=threads), x + 0.3 * y, rtol=0, atol=1e-15)
    x, y = rng.standard_normal((2, 50_021))
    wanted = x - y
    assert along(x, y, -1.0, x, threads=2) is x
    np.testing.assert_array_equal(x, wanted)


def test_gram_and_combine_refuse_shapes_that_disagree():
    A = np.ones((3, 4))
    for call in (
        lambda: gram(A, np.ones((2, 5))),
        lambda: gram(A, np.ones(4)),
        lambda: gram(A, A, np.empty((3, 4))),
        lambda: gram(A, A, threads=0),
        lambda: combine(A, np.ones(4)),
        lambda: combine(np.ones(3), np.ones(3)),
        lambda: combine(A, np.ones(3), np.empty(3)),
        lambda: along(A, A, 1.0),
        lambda: along(np.ones(3), np.ones(4), 1.0),
        lambda: along(np.ones(3), np.ones(3), 1.0, np.empty(2)),
    ):
        with pytest.raises(ParameterError):
            call()


@pytest.mark.parametrize("lower", ["avx2", "baseline"])
def test_narrower_instruction_sets_give_the_same_results(lower):
    program = """
import numpy as np
from bmrm.linear.bundle._qp import combine, gram
from bmrm.matrix._cpu import instruction_set
rng = np.random.default_rng(3)
A = rng.standard_normal((200, 301)) * (rng.random((200, 301)) < 0.3)
out = [gram(A, A).ravel(), combine(A, rng.standard_normal(200))]
print(instruction_set(), *(x.hex() for x in np.concatenate(out).tolist()))
"""
    assert_same_results(program, lower)
