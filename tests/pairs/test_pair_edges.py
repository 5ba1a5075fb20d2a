"""Bounds of squared distances: the least numbers whose rounded roots reach an edge, or exceed it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmrm.errors import ParameterError
from bmrm.pairs.edges import CLOSED, exceeds, reaches, read_bins, read_radii

ODD = [0.0, -0.0, 5e-324, 1e-300, 2.2e-162, 1e-160, 0.1, 1 / 3, 1.0, 2**0.5, 1e154, 1.4e154, 1e200, 1.7e308]


def before(x):
    return np.nextafter(x, 0.0)


@given(st.floats(min_value=0.0, allow_infinity=False))
def test_a_bound_is_the_least_number_that_reaches_or_exceeds_an_edge(edge):
    check(edge)


@pytest.mark.parametrize("edge", ODD)
def test_bounds_of_odd_edges(edge):
    check(edge)


def check(edge):
    low, high = float(reaches(np.array([edge]))[0]), float(exceeds(np.array([edge]))[0])
    assert np.sqrt(low) >= edge
    assert low == 0.0 or np.sqrt(before(low)) < edge
    assert high == np.inf or np.sqrt(high) > edge
    assert np.sqrt(before(high)) <= edge
    assert low <= high


def test_negative_and_infinite_edges():
    edges = np.array([-np.inf, -1.0, np.inf])
    assert reaches(edges).tolist() == [0.0, 0.0, np.inf]
    assert exceeds(edges).tolist() == [0.0, 0.0, np.inf]


@pytest.mark.parametrize("closed", CLOSED)
def test_bins_of_numbers_are_those_of_their_roots(closed):
    rng = np.random.default_rng(0)
    edges = np.unique(np.concatenate([rng.random(20), [0.0, 0.5, 0.25, 1.0]]))
    near = np.square(edges)
    d2 = np.concatenate([rng.random(2000), near, np.nextafter(near, 2.0), np.nextafter(near, 0.0)])
    r, bounds = np.sqrt(d2), read_bins(edges, closed).bounds
    for k in range(len(edges) - 1):
        low, high = edges[k], edges[k + 1]
        inside = (r > low) & (r <= high) if closed == "right" else (r >= low) & (r < high)
        if closed == "last" and k == len(edges) - 2:
            inside |= r == high
        assert np.array_equal(inside, (d2 >= bounds[k]) & (d2 < bounds[k + 1]))


def test_radii_are_sorted_and_found_again():
    bins, which, is_single = read_radii([3.0, 1.0, 3.0])
    assert (bins.edges[1:].tolist(), which.tolist(), is_single) == ([1.0, 3.0], [1, 0, 1], False)
    assert read_radii(2.0)[1:] == (np.array([0]), True)


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ([1.0], "edges: found shape (1,), expected at least 2 numbers"),
        (3.0, "edges: found shape (), expected at least 2 numbers"),
        ([[0.0, 1.0]], "edges: found shape (1, 2), expected at least 2 numbers"),
        ([0.0, 2.0, 1.0], "edges: found 2 before 1, expected increasing numbers"),
        ([0.0, 1.0, 1.0], "edges: found 1 before 1, expected increasing numbers"),
        ([0.0, np.nan], "edges: found 0 before nan, expected increasing numbers"),
        (["a", "b"], "edges: found text, expected numbers"),
    ],
)
def test_edges_that_are_none(edges, text):
    with pytest.raises(ParameterError) as error:
        read_bins(edges, "last")
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("radius", "text"),
    [
        (-1.0, "radius: found -1, expected numbers of at least 0"),
        ([0.5, np.nan], "radius: found nan, expected numbers of at least 0"),
        ([], "radius: found shape (0,), expected one or several numbers"),
        ([[1.0]], "radius: found shape (1, 1), expected one or several numbers"),
        ("x", "radius: found text, expected one or several numbers"),
    ],
)
def test_radii_that_are_none(radius, text):
    with pytest.raises(ParameterError) as error:
        read_radii(radius)
    assert str(error.value) == text
