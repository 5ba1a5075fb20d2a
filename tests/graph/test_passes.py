"""The compiled passes against NumPy, and the rounding that the proof counts on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bmrm.errors import ParameterError
from bmrm.graph import _graph
from bmrm.graph.backends.host import UNIT, count_row_additions
from bmrm.matrix import _cpu


@pytest.mark.parametrize("columns", [1, 2, 7, 32])
@pytest.mark.parametrize("n", [1, 5, 600, 9001])
@pytest.mark.parametrize("terms", ["plain", "all"])
def test_a_step_is_its_formula(columns, n, terms):
    rng = np.random.default_rng(n + columns)
    scale = rng.uniform(0, 1, n) * (rng.random(n) < 0.8)
    passes = _graph.Passes(scale, columns, threads=2)
    images = [rng.uniform(-0.1, 1, (n, columns)) for _ in range(3)]
    factors = rng.uniform(-1, 2, (3, columns))
    x, z = np.empty((2, n, columns))
    sums = passes.messages(images, factors, x, z)
    mixed = np.maximum(sum(a * g for a, g in zip(factors, images, strict=True)), 0)
    assert x == pytest.approx(mixed, abs=1e-14)
    assert (z == x * scale[:, None]).all()
    assert sums == pytest.approx(np.array([x.sum(0), x[scale == 0].sum(0)]))
    t, g, f = rng.uniform(0, 1, (n, columns)), np.empty((n, columns)), np.empty((n, columns))
    c, mass = rng.uniform(0, 1, (2, columns))
    v, u, b, restarts, expected = None, None, None, None, 0.85 * t
    if terms == "all":
        u = rng.uniform(0, 1, n)
        expected = expected + mass * u[:, None]
        if columns == 1:
            v, b = rng.uniform(0, 1, (2, n))
            expected = expected + c * v[:, None] + b[:, None]
        else:
            rows, owners = np.sort(rng.integers(0, n, columns)), np.arange(columns)
            restarts = rows, owners, np.full(columns, 0.5)
            expected[rows, owners] += 0.5 * c
    elif columns == 1:
        expected = expected + c * 0.25
    g[:] = t
    found = passes.update(0.85, c, v, 0.25, mass, u, b, restarts, x, g, f, z)
    assert g == pytest.approx(expected, abs=1e-14)
    assert (f == g - x).all()
    assert (z == g * scale[:, None]).all()
    assert found == pytest.approx(np.array([np.abs(f).sum(0), g.sum(0), g[scale == 0].sum(0)]))
    g[:] = t
    assert (passes.update(0.85, c, v, 0.25, mass, u, b, restarts, x, g, None, z) == found).all()
    vectors = [rng.uniform(-1, 1, (n, columns)) for _ in range(4)]
    inner = [[(one * other).sum(0) for other in vectors] for one in vectors]
    assert passes.products(vectors) == pytest.approx(np.array(inner), abs=1e-10)
    weights = rng.uniform(0, 9, n)
    assert passes.weighted_sums(weights, t) == pytest.approx(weights @ t)


def test_one_image_is_not_copied():
    passes = _graph.Passes(np.array([0.5, 0.0]), 1)
    x, z = np.full((2, 1), 7.0), np.empty((2, 1))
    passes.messages([np.array([[2.0], [3.0]])], None, x, z)
    assert x.ravel().tolist() == [7, 7]
    assert z.ravel().tolist() == [1, 0]


def test_arguments_that_do_not_fit_are_refused():
    passes = _graph.Passes(np.ones(3), 2)
    good, bad = np.ones((3, 2)), np.ones((3, 1))
    with pytest.raises(ParameterError, match="vectors"):
        passes.messages([bad], None, good, good)
    with pytest.raises(ParameterError, match="found 0"):
        passes.messages([], None, good, good)
    frozen = np.ones((3, 2))
    frozen.flags.writeable = False
    with pytest.raises(ParameterError, match="writeable"):
        passes.messages([good], None, good, frozen)
    two = np.ones(2)
    for restarts in (
        ([3], [0], [1.0]),
        ([1, 0], [0, 0], [1.0, 1.0]),
        ([0], [2], [1.0]),
        ([0], [0, 1], [1.0]),
    ):
        with pytest.raises(ParameterError, match="restarts"):
            passes.update(0.5, two, None, 0.0, two, None, None, restarts, good, good, good, good)
    one = _graph.Passes(np.ones(3), 1)
    with pytest.raises(ParameterError, match="restarts"):
        one.update(0.5, two[:1], None, 0, two[:1], None, None, ([0], [0], [1.0]), bad, bad, bad, bad)
    with pytest.raises(ParameterError, match="columns"):
        _graph.Passes(np.ones(3), 33)


@pytest.mark.parametrize("columns", [1, 3, 16])
@pytest.mark.parametrize("entries", [3, 31, 33, 500, 140_000])
def test_products_round_no_more_than_is_counted(columns, entries):
    # The value 1 and many small ones: each addition that meets the large partial sum rounds.
    small = 2.0**-53
    w = np.full((entries, columns), small)
    w[0] = 1.0
    X = _cpu.Matrix([0, entries], np.arange(entries), None, (1, entries), transpose=False)
    found = X.matvec(w[:, 0]) if columns == 1 else X.matmat(w)[0]
    true = 1 + Fraction(small) * (entries - 1)
    additions = float(count_row_additions(np.array([entries]), columns)[0])
    for value in found:
        assert abs(Fraction(float(value)) - true) <= Fraction(additions * UNIT) * true


@pytest.mark.parametrize("columns", [1, 4])
def test_sums_over_nodes_round_no_more_than_is_counted(columns):
    n = 50_000
    x = np.full((n, columns), 2.0**-53)
    x[0] = 1.0
    sums = _graph.Passes(np.zeros(n), columns).messages([x], None, x, np.empty((n, columns)))
    true = 1 + Fraction(2.0**-53) * (n - 1)
    assert (
        abs(Fraction(float(sums[1, 0])) - true) <= Fraction(_graph.count_additions(n, columns) * UNIT) * true
    )


def test_sums_of_weights_are_compensated():
    weights = np.tile([1.0, 2.0**-60], 50_000)
    sums = _graph.sum_weights_by_source(np.zeros(100_000, np.int32), weights, 2)
    true = 50_000 * (1 + Fraction(2.0**-60))
    assert abs(Fraction(float(sums[0])) - true) <= 2 * Fraction(UNIT) * true
    assert sums[1] == 0


def test_edges_are_sorted_by_target_and_source():
    rng = np.random.default_rng(0)
    source, target = (rng.integers(0, 40, 500).astype(np.int32) for _ in range(2))
    weight = np.arange(500.0)
    for rank in (None, rng.permutation(40).astype(np.int32)):
        ends = (source, target) if rank is None else (rank[source], rank[target])
        order = np.lexsort((np.arange(500), *ends))
        starts, sources, weights = _graph.sort_edges_by_target(
            source, target, weight, rank, 40, "keep", False
        )
        assert (sources == ends[0][order]).all()
        assert (weights == weight[order]).all()
        assert (np.diff(starts) == np.bincount(ends[1], minlength=40)).all()
