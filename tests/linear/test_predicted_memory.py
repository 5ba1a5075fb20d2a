"""Rows that are measured in parts and forgotten are known as those in memory are."""

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.io import Csr
from bmrm.linear.memory import join_rows, measure_rows


def rows(density=0.3):
    rng = np.random.default_rng(0)
    X = sp.random_array((90, 7), density=density, rng=rng, data_sampler=rng.standard_normal)
    return Csr.from_scipy(X.tocsr())


@pytest.mark.parametrize("dense", [False, True])
def test_parts_are_measured_like_the_whole(dense):
    whole = rows()
    order = np.arange(90)
    parts = [whole.take(order[first : first + 30]) for first in (0, 30, 60)]
    if dense:
        whole, *parts = (part.to_scipy().toarray() for part in (whole, *parts))
    one, joined = measure_rows(whole, 4), join_rows([measure_rows(part, 4) for part in parts])
    assert joined._replace(squares=None) == one._replace(squares=None)
    assert joined.squares == pytest.approx(one.squares, rel=1e-14)
    matrix = bmrm.Dataset(whole, device="cpu").matrix
    assert one.shape == matrix.shape
    assert one.nnz == matrix.nnz
    assert one.squares == pytest.approx(90 * matrix.mean_squares.sum())
    if not dense:
        assert one.weighted_gram_work == matrix.weighted_gram_work


@pytest.mark.parametrize(
    ("values", "rounded", "item", "item_if_exact"),
    [([1.0, 0.5], False, 4, 4), ([1.0, 0.1], True, 4, 8), ([1.0, 1e300], True, 8, 8)],
)
def test_what_float32_makes_of_the_values(values, rounded, item, item_if_exact):
    found = measure_rows(np.array([values]), 4)
    stored, exact = (found.in_single(exact=only) for only in (False, True))
    assert (stored.rounded, stored.value_bytes, exact.value_bytes) == (rounded, item, item_if_exact)
    assert stored.in_full().value_bytes == (8 if rounded else 4)
    assert measure_rows(np.array([values]), 8).in_single(exact=False).value_bytes == 8


def test_values_that_are_all_1_are_not_stored():
    ones = rows()._replace(data=None)
    found = measure_rows(ones, 4)
    assert (found.value_bytes, found.change, found.squares) == (0, 0, float(ones.nnz))
    assert join_rows([found, measure_rows(rows(), 4)]).value_bytes == 4
