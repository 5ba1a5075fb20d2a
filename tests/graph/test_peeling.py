"""Nodes that need no iteration are peeled off: bounds hold, and steps and results are those of all nodes."""

from __future__ import annotations

import exact_pagerank as exact
import graph_cases as cases
import numpy as np
import pytest

from bmrm.graph import Graph, _graph, pagerank, random_walk
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.host import places_of_largest, transition_values
from bmrm.graph.backends.peeled import PeeledTransitions, PeeledWalk


def layered_case(rng):
    """A small graph with nodes without in-links, a core, and nodes without out-links, in any order."""
    core = int(rng.integers(1, 6))
    first, last = int(rng.integers(0, 4)), int(rng.integers(0, 4))
    n = first + core + last
    name = rng.permutation(n)
    pairs = [(u, v) for u in range(first + core) for v in range(first, n) if rng.random() < 0.5]
    pairs += [(first + i, first + (i + 1) % core) for i in range(core)]  # the core stays one
    kind = rng.choice(["ones", "uniform", "huge", "zeros"])
    draw = {
        "ones": lambda: 1.0,
        "uniform": lambda: float(rng.uniform(0, 3)),
        "huge": lambda: float(10.0 ** rng.uniform(-150, 150)),
        "zeros": lambda: float(rng.integers(0, 3)),
    }[kind]
    edges = [(int(name[u]), int(name[v]), draw()) for u, v in dict.fromkeys(pairs)]
    damping = float(rng.choice([0.0, 0.5, 0.85, 0.99, 0.9999]))
    shares = [cases.random_shares(n, rng), cases.random_shares(n, rng)]
    return cases.Case(edges, n, damping, *shares)


def graph_of(case, **options):
    return Graph(case.arrays if case.is_weighted else case.arrays[:2], n_nodes=case.n, **options)


@pytest.mark.parametrize("seed", range(5))
def test_the_error_is_never_above_its_bound(seed):
    rng = np.random.default_rng([1, seed])
    peeled = 0
    for _ in range(40):
        case = layered_case(rng)
        graph = graph_of(case)
        peeled += graph.core is not None
        tol = float(rng.choice([1e-2, 1e-8, 1e-12, 0.0]))
        found = pagerank(
            graph,
            case.damping,
            personalization=case.restart,
            dangling=case.dangling,
            start=cases.random_shares(case.n, rng),
            tol=tol,
            method=str(rng.choice(["auto", "power", "anderson"])),
            max_iter=int(rng.choice([1, 3, 1000])),
        )
        true = exact.pagerank(case.edges, case.n, case.damping, case.restart, case.dangling)
        assert exact.l1_distance(found.scores, true) <= found.error_bound, case
        assert found.status != "converged" or found.error_bound <= tol
    assert peeled > 20


@pytest.mark.parametrize("seed", range(4))
def test_every_query_is_within_its_bound(seed):
    rng = np.random.default_rng([2, seed])
    for _ in range(12):
        case = layered_case(rng)._replace(restart=None)
        queries = [int(q) for q in rng.integers(0, case.n, int(rng.integers(1, 20)))]
        walks = random_walk(
            graph_of(case), queries, case.damping, top=None, tol=1e-9, dangling=case.dangling, batch=32
        )
        for query in set(queries):
            true = exact.pagerank(case.edges, case.n, case.damping, {query: 1.0}, case.dangling)
            column = queries.index(query)
            assert exact.l1_distance(walks.scores[:, column], true) <= walks.error_bound[column]
            assert walks.status[column] == "precision" or walks.error_bound[column] <= 1e-9


def wide_graph(seed=0, n=3000, **options):
    """A graph of which half of the edges end in nodes without out-links, and some start in others."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, n // 2, 6 * n)
    target = (n // 10 + (n - n // 10) * rng.random(6 * n) ** 1.5).astype(int)
    return Graph((source, target), n_nodes=n, **options)


@pytest.mark.parametrize("damping", [0.5, 0.85, 0.99])
@pytest.mark.parametrize(
    "options",
    [{}, {"personalization": {0: 1, 200: 3, 2900: 2}}, {"dangling": {3: 1}}, {"method": "anderson"}],
)
def test_it_takes_no_more_steps(damping, options):
    # A rate of d in place of d |lambda_2| would take several times as many.
    one, other = wide_graph(), wide_graph(order="given")
    assert one.core is not None
    assert other.core is None
    peeled, plain = (pagerank(graph, damping, tol=1e-10, **options) for graph in (one, other))
    assert peeled.status == plain.status == "converged"
    assert np.abs(peeled.scores - plain.scores).sum() <= peeled.error_bound + plain.error_bound
    assert peeled.n_iter <= plain.n_iter + 4


@pytest.mark.parametrize("count", [1, 3, 12, 20])
@pytest.mark.parametrize("top", [None, 5])
def test_walks_are_those_of_the_whole_graph(count, top):
    queries = [0, 2900, {1: 1.0, 500: 2.0, 2999: 1.0}, *range(40, 1400, 80)][:count]
    peeled, plain = (
        random_walk(graph, queries, top=top, batch=32) for graph in (wide_graph(), wide_graph(order="given"))
    )
    assert set(peeled.status) == {"converged"}
    if top is None:
        distance = np.abs(peeled.scores - plain.scores).sum(0)
        assert (distance <= peeled.error_bound + plain.error_bound).all()
    for query in range(count):
        proven = min(int(peeled.proven[query]), int(plain.proven[query]), 5)
        assert [node for node, _ in peeled.top(query, proven)] == [
            node for node, _ in plain.top(query, proven)
        ]


def test_the_first_ten_are_proven_early():
    peeled, whole = (pagerank(wide_graph(), tol=1e-12, top=top) for top in (10, None))
    assert peeled.proven >= 10
    assert peeled.top(10)[0][0] == whole.top(10)[0][0]
    assert [node for node, _ in peeled.top(10)] == [node for node, _ in whole.top(10)]
    assert peeled.n_products < whole.n_products


def test_the_order_in_memory_is_first_core_last():
    graph = wide_graph()
    starts, sources, _ = graph.edges_by_target
    core = graph.core
    assert starts[core.start] == 0
    assert (np.diff(starts)[core] > 0).all()
    out = np.bincount(sources, minlength=graph.n_nodes)
    assert (out[: core.stop] > 0).all()
    assert (out[core.stop :] == 0).all()
    report = graph.report()
    assert report["peeled_nodes"] == graph.n_nodes - (core.stop - core.start)
    assert wide_graph(order="given").report()["peeled_nodes"] == 0


@pytest.mark.parametrize(
    "edges",
    [
        ([0, 1, 2], [1, 2, 0]),  # no node can be peeled
        ([0, 0, 1], [2, 3, 3]),  # no core would be left
        ([*range(99), 0], [*range(1, 99), 0, 99]),  # one edge of a hundred
    ],
)
def test_what_does_not_pay_is_not_done(edges):
    assert Graph(edges).core is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [1, 4, 8])
def test_the_products_of_both_parts_are_that_of_the_matrix(weighted, columns):
    rng = np.random.default_rng(5)
    plain = wide_graph(7)
    graph = plain
    if weighted:
        graph = Graph(
            (*np.nonzero(plain.to_scipy().toarray()), rng.uniform(0, 2, plain.n_edges)), n_nodes=3000
        )
    assert graph.core is not None
    peeled = PeeledTransitions(graph, weighted)
    z, y = rng.uniform(0, 1, (graph.n_nodes, columns)), np.empty((graph.n_nodes, columns))
    peeled.multiply(z, y)
    starts, sources, _ = graph.edges_by_target
    values, _ = transition_values(graph, weighted)
    whole = _graph.Edges(starts, sources, values, 1)
    expected = np.stack([whole.multiply(np.ascontiguousarray(z[:, k])) for k in range(columns)], 1)
    assert np.all(np.abs(y - expected) <= np.maximum(1e-13 * np.abs(expected), 1e-12))
    # At most an addition per entry, one per part for the sum of its blocks, here one, and that of both parts.
    assert (peeled.count_additions(columns) <= np.diff(starts) + 3).all()
    assert (peeled.count_additions(columns)[graph.core] >= 2).all()
    assert isinstance(peeled.walk(0.85, Restarts()), PeeledWalk)


def test_the_number_of_threads_changes_no_bit():
    found = [pagerank(wide_graph(threads=threads)).scores for threads in (1, 3)]
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("n", [1, 15, 16, 40, 1000])
def test_the_largest_are_found_with_ties(n):
    rng = np.random.default_rng(n)
    scores = np.where(rng.random(n) < 0.7, 1.0, np.round(rng.random(n), 1))
    for count in (0, 1, 2, 7, n - 1, n, n + 1):
        expected = np.flatnonzero(scores >= np.sort(scores)[n - count]) if 0 < count < n else np.arange(n)
        assert (places_of_largest(scores, count) == expected).all()
