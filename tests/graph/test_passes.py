"""The compiled passes against NumPy, and the rounding that the proof counts on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from bmrm.base.vectors import UNIT
from bmrm.errors import ParameterError
from bmrm.graph import _graph

WIDTHS = _graph.WIDTHS


def random_edges(rng, n, count, weighted=False):
    """Return row pointers, sources and weights whose rows have any length, some of them none."""
    source, target = rng.integers(0, n, count), np.minimum(rng.zipf(1.3, count), n) - 1
    weight = rng.uniform(0, 1, count) if weighted else None
    return _graph.sort_edges_by_target(
        source.astype(np.int32),
        target.astype(np.int32),
        weight,
        None,
        n,
        "sum" if weighted else "drop",
        False,
    )


def dense_product(starts, sources, weights, z):
    """Return the sums of the rows, by SciPy."""
    n, values = len(starts) - 1, np.ones(len(sources)) if weights is None else weights
    return csr_array((values, sources, starts), shape=(n, n)) @ z


def assert_close(found, expected, *, rel, least):
    """As ``pytest.approx``, which takes the elements of large arrays one by one."""
    assert np.all(np.abs(found - expected) <= np.maximum(rel * np.abs(expected), least))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "count"), [(1, 0), (5, 9), (40_000, 150_000), (70_000, 400_000)])
def test_products_in_blocks_are_those_of_the_rows(n, count, weighted):
    rng = np.random.default_rng(n)
    rows = random_edges(rng, n, count, weighted)
    z = rng.uniform(0, 1, n)
    expected = dense_product(*rows, z)
    found = [_graph.Edges(*rows, threads).multiply(z) for threads in (1, 3)]
    assert_close(found[0], expected, rel=1e-13, least=1e-12)
    assert (found[0] == found[1]).all()
    light = _graph.Edges(*rows, 2).multiply(z.astype(np.float32))
    assert light.dtype == np.float32
    assert_close(light, expected, rel=1e-4, least=1e-12)


def walks_of(rng, n, columns, terms, damping=0.85):
    """Return steps, and what they compute as a function of points in float64."""
    rows = random_edges(rng, n, 6 * n)
    edges = _graph.Edges(*rows, 2)
    scale = rng.uniform(0, 1, n) * (rng.random(n) < 0.8)
    u = rng.uniform(0, 1, n) if "u" in terms else None
    v = rng.uniform(0, 1, n) if "v" in terms and columns == 1 else None
    restarts, where = None, np.zeros((n, columns))
    if columns > 1:
        nodes, owners = np.sort(rng.integers(0, n, columns)), rng.permutation(columns)
        restarts = nodes, owners, rng.uniform(0, 1, columns)
        where[nodes, owners] = restarts[2]
    else:
        where[:, 0] = 0.25 if v is None else v
    steps = _graph.Walks(edges, scale, columns, damping, v, 0.25 if columns == 1 else 0.0, u, restarts)

    def image(x, restart):
        lost = damping * x[scale == 0].sum(0)
        found = damping * dense_product(*rows, x * scale[:, None])
        if u is None:
            return found + (restart + lost) * where
        return found + restart * where + lost * u[:, None]

    return steps, scale, image


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("n", [1, 5, 600, 9001])
@pytest.mark.parametrize("terms", ["", "uv"])
def test_a_light_step_is_its_formula(columns, n, terms):
    rng = np.random.default_rng(n + columns)
    steps, scale, image = walks_of(rng, n, columns, terms)
    images = [rng.uniform(-0.1, 1, (n, columns)).astype(np.float32) for _ in range(3)]
    factors = rng.uniform(-1, 2, (3, columns))
    x, z, g, sent = (np.empty((n, columns), np.float32) for _ in range(4))
    lost = steps.mix(images, factors, x, z)
    mixed = sum(a * g for a, g in zip(factors, images, strict=True))
    assert_close(x, mixed, rel=1e-6, least=1e-5)
    assert_close(z, x * scale[:, None], rel=1e-6, least=1e-6)
    assert lost == pytest.approx(x[scale == 0].sum(0), rel=1e-4, abs=1e-4)
    for restart, constant in ((0.15, None), (0.0, images[0])):
        found = steps.light_step(restart, constant, lost, x, z, g, sent)
        expected = image(x.astype(np.float64), restart) + (0 if constant is None else constant)
        close = 1e-5 * max(1, np.abs(expected).max())
        assert_close(g, expected, rel=1e-4, least=close)
        assert_close(sent, g * scale[:, None], rel=1e-5, least=1e-6)
        sums = np.array([np.abs(g - x).sum(0), g[scale == 0].sum(0), g.sum(0, dtype=np.float64)])
        assert found == pytest.approx(sums, rel=1e-4, abs=close)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("n", [1, 9, 600, 9001])
@pytest.mark.parametrize("terms", ["", "uv"])
def test_an_exact_step_is_its_formula(columns, n, terms):
    rng = np.random.default_rng(n + columns)
    steps, scale, image = walks_of(rng, n, columns, terms)
    base = rng.uniform(0, 1, (n, columns))
    e = rng.uniform(-0.5, 0.5, (n, columns)).astype(np.float32)
    factor = rng.uniform(0.9, 1.1, columns)
    x = np.maximum((base + e) * factor, 0)
    residual, z = np.empty((n, columns), np.float32), np.empty((n, min(columns, 8)))
    y = np.empty((n, 1)) if columns == 1 else None
    found = steps.exact_step(e, factor, base, residual, z, y)
    expected = image(x, 1 - 0.85)
    assert_close(base, x, rel=1e-15, least=1e-15)
    assert_close(residual, expected - x, rel=1e-6, least=1e-6)
    counts = steps.additions @ expected
    sums = [np.abs(expected - x).sum(0), expected.sum(0), counts, x.sum(0), x[scale == 0].sum(0)]
    assert found == pytest.approx(np.array(sums), rel=1e-12)
    some = list(range(columns))[::-2]
    places, out = rng.permutation(n).astype(np.int32), [np.empty(n) for _ in some]
    steps.collect(base, residual, places, some, out)
    for column, vector in zip(some, out, strict=True):
        wanted = np.maximum(base[:, column] + residual[:, column], 0)[places]
        assert_close(vector, wanted, rel=1e-6, least=1e-15)


@pytest.mark.parametrize("columns", WIDTHS)
def test_inner_products_are_those_of_the_residuals(columns):
    rng = np.random.default_rng(columns)
    n = 5000
    steps, _, _ = walks_of(rng, n, columns, "")
    images, points = ([rng.uniform(-1, 1, (n, columns)).astype(np.float32) for _ in range(4)] for _ in "ab")
    residuals = [image.astype(np.float64) - point for image, point in zip(images, points, strict=True)]
    residuals[2] = images[2].astype(np.float64)
    inner = [[(one * other).sum(0) for other in residuals] for one in residuals]
    found = steps.products(images, [points[0], points[1], None, points[3]])
    assert found == pytest.approx(np.array(inner), rel=1e-4, abs=0.05)


def test_one_image_is_not_copied():
    steps, scale, _ = walks_of(np.random.default_rng(0), 2, 1, "")
    x, z = np.full((2, 1), 7, np.float32), np.empty((2, 1), np.float32)
    steps.mix([np.array([[2], [3]], np.float32)], None, x, z)
    assert x.ravel().tolist() == [7, 7]
    assert z.ravel() == pytest.approx([2, 3] * scale)


def test_arguments_that_do_not_fit_are_refused():
    edges = _graph.Edges([0, 0, 0, 0], [], None, 1)
    ones = np.ones(3)

    def steps_of(columns, restarts=None, v=None):
        return _graph.Walks(edges, ones, columns, 0.5, v, 0.0, None, restarts)

    steps = steps_of(4)
    good, bad, wide = np.ones((3, 4), np.float32), np.ones((3, 1), np.float32), np.ones((3, 4))
    with pytest.raises(ParameterError, match="images"):
        steps.mix([bad], None, good, good)
    with pytest.raises(ParameterError, match="found 0"):
        steps.mix([], None, good, good)
    with pytest.raises(ParameterError, match="float32"):
        steps.mix([wide], None, good, good)
    frozen = np.ones((3, 4), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ParameterError, match="writeable"):
        steps.mix([good], None, good, frozen)
    with pytest.raises(ParameterError, match="sent"):
        steps.light_step(0.5, None, np.zeros(4), good, good, np.empty_like(good), good)
    with pytest.raises(ParameterError, match="lost"):
        steps.light_step(0.5, None, np.zeros(3), good, good, np.empty_like(good), np.empty_like(good))
    with pytest.raises(ParameterError, match="columns"):
        steps.collect(wide, good, None, [4], [np.empty(3)])
    for restarts in (
        ([3], [0], [1.0]),
        ([1, 0], [0, 0], [1.0, 1.0]),
        ([0], [4], [1.0]),
        ([0], [0, 1], [1.0]),
    ):
        with pytest.raises(ParameterError, match="restarts"):
            steps_of(4, restarts)
    with pytest.raises(ParameterError, match="restarts"):
        steps_of(1, ([0], [0], [1.0]))
    with pytest.raises(ParameterError, match="restarts"):
        steps_of(4, None, ones)
    with pytest.raises(ParameterError, match="columns"):
        steps_of(33)
    with pytest.raises(ParameterError, match="starts"):
        _graph.Edges([0, 1], [], None, 1)
    with pytest.raises(ParameterError, match="z"):
        edges.multiply(np.ones(2))


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("entries", [2, 3, 8, 15, 31, 33, 500, 140_000])
def test_products_round_no_more_than_is_counted(columns, entries):
    # The value 1 and many small ones: each addition that meets the large partial sum rounds.
    small, n = 2.0**-53, max(entries, 2)
    starts = np.full(n + 1, entries)
    starts[0] = 0  # all edges end in node 0, and T(x) = x / 2 there without restarts
    edges = _graph.Edges(starts, np.arange(entries, dtype=np.int32), None, 1)
    nowhere = (np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    steps = _graph.Walks(edges, np.ones(n), columns, 0.5, None, 0.0, None, nowhere if columns > 1 else None)
    base, e = np.zeros((n, columns)), np.full((n, columns), small, np.float32)
    e[0], e[entries:] = 1.0, 0.0
    z, y = np.empty((n, min(columns, 8))), np.empty((n, 1)) if columns == 1 else None
    found = steps.exact_step(e, np.ones(columns), base, np.empty_like(e), z, y)
    true = 1 + Fraction(small) * (entries - 1)
    allowed = Fraction(int(steps.additions[0]) * UNIT) * true
    assert steps.additions[0] <= entries / 4 + 20
    for value in found[1]:  # the sum of T(x), whose other terms are 0
        assert abs(2 * Fraction(float(value)) - true) <= allowed
    if columns == 1:
        assert abs(Fraction(float(edges.multiply(base[:, 0])[0])) - true) <= allowed


@pytest.mark.parametrize("columns", [1, 4, 8])
def test_sums_over_nodes_round_no_more_than_is_counted(columns):
    n = 50_000
    edges = _graph.Edges(np.zeros(n + 1, int), [], None, 1)
    steps = _graph.Walks(edges, np.zeros(n), columns, 0.5, None, 0.0, np.zeros(n), None)
    e = np.full((n, columns), 2.0**-53, np.float32)
    e[0] = 1.0
    base, z, y = np.zeros((n, columns)), np.empty((n, columns)), np.empty((n, 1)) if columns == 1 else None
    lost = steps.exact_step(e, np.ones(columns), base, np.empty_like(e), z, y)[4]
    true = 1 + Fraction(2.0**-53) * (n - 1)
    assert steps.additions_per_sum < n / 10
    for value in lost:
        assert abs(Fraction(float(value)) - true) <= Fraction(steps.additions_per_sum * UNIT) * true


def test_sums_of_weights_are_compensated():
    weights = np.tile([1.0, 2.0**-60], 50_000)
    sums = _graph.sum_weights_by_source(np.zeros(100_000, np.int32), weights, 2)
    true = 50_000 * (1 + Fraction(2.0**-60))
    assert abs(Fraction(float(sums[0])) - true) <= 2 * Fraction(UNIT) * true
    assert sums[1] == 0


def crowded_edges(kind, rng, n, count):
    """Return edges whose sort has hard parts: a node with most of the links, one edge many times."""
    source, target = (rng.integers(0, n, count).astype(np.int32) for _ in range(2))
    if kind == "star":
        target[rng.random(count) < 0.9] = n // 3
    elif kind == "repeated":
        source[count // 10 :], target[count // 10 :] = n - 1, n - 2
    return source, target


@pytest.mark.parametrize("kind", ["even", "star", "repeated"])
@pytest.mark.parametrize("rule", ["keep", "drop", "sum"])
def test_large_sorts_do_not_depend_on_threads(kind, rule):
    rng, n, count = np.random.default_rng(3), 30_000, 300_000
    source, target = crowded_edges(kind, rng, n, count)
    rank, weight = rng.permutation(n).astype(np.int32), rng.uniform(0, 1, count)
    one, three = (
        _graph.sort_edges_by_target(source, target, weight, rank, n, rule, True, threads)
        for threads in (1, 3)
    )
    assert all((a == b).all() for a, b in zip(one, three, strict=True))
    order = np.lexsort((rank[source], rank[target]))  # stable
    order = order[source[order] != target[order]]
    u, v, w = rank[source][order], rank[target][order], weight[order]
    first = np.ones(len(u), bool)
    if rule != "keep":
        first[1:] = (u[1:] != u[:-1]) | (v[1:] != v[:-1])
    assert (one[1] == u[first]).all()
    assert (np.diff(one[0]) == np.bincount(v[first], minlength=n)).all()
    if rule == "sum":
        assert_close(one[2], np.add.reduceat(w, np.flatnonzero(first)), rel=1e-9, least=0)
    else:
        assert (one[2] == w[first]).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_nodes_are_counted_and_ordered(threads):
    rng, n = np.random.default_rng(4), 70_000
    ids = np.minimum(rng.zipf(1.2, 400_000), n).astype(np.int32) - 1
    counts = _graph.count_nodes(ids, n, threads)
    assert (counts == np.bincount(ids, minlength=n)).all()
    groups = rng.integers(0, 3, n).astype(np.uint8)
    for by, among in ((counts, groups), (counts, None), (None, groups)):
        keys = [-by if by is not None else np.zeros(n), among if among is not None else np.zeros(n)]
        order, rank = _graph.order_nodes(n, by, among, threads)
        assert (order == np.lexsort(keys)).all()
        assert (rank[order] == np.arange(n)).all()


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
