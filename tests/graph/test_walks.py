"""Random walks with restart, alone and many at once."""

from __future__ import annotations

import exact_pagerank as exact
import graph_cases as cases
import numpy as np
import pytest

from bmrm.errors import ParameterError
from bmrm.graph import Graph, pagerank, random_walk
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.host import HostTransitions, HostWalk


@pytest.mark.parametrize("seed", range(6))
def test_every_query_is_within_its_bound(seed):
    rng = np.random.default_rng(seed)
    for _ in range(12):
        case = cases.random_case(rng)._replace(restart=None)
        weighted = case.is_weighted
        G = Graph(case.arrays if weighted else case.arrays[:2], n_nodes=case.n)
        queries = [int(q) for q in rng.integers(0, case.n, int(rng.integers(1, 9)))]
        tol = float(rng.choice([1e-3, 1e-10]))
        walks = random_walk(
            G, queries, case.damping, top=None, tol=tol, batch=int(rng.integers(1, 9)), dangling=case.dangling
        )
        for column, query in enumerate(queries):
            true = exact.pagerank(case.edges, case.n, case.damping, {query: 1.0}, case.dangling)
            assert exact.l1_distance(walks.scores[:, column], true) <= walks.error_bound[column]
            if walks.status[column] == "converged":
                assert walks.error_bound[column] <= tol


def network(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return Graph((rng.integers(0, n, 5 * n), rng.zipf(1.6, 5 * n) % n), n_nodes=n)


QUERIES = list(range(20))


@pytest.fixture(scope="module")
def one_by_one():
    return [pagerank(network(), 0.9, personalization={query: 1}, tol=1e-10) for query in QUERIES]


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("method", ["auto", "power", "anderson"])
def test_queries_together_are_the_queries_one_by_one(batch, method, one_by_one):
    walks = random_walk(network(), QUERIES, top=None, batch=batch, tol=1e-10, method=method)
    for column, alone in enumerate(one_by_one):
        distance = np.abs(walks.scores[:, column] - alone.scores).sum()
        assert distance <= walks.error_bound[column] + alone.error_bound
    assert set(walks.status) == {"converged"}
    assert walks.error_bound.max() <= 1e-10


def test_lists_are_the_first_of_all_scores():
    G = network()
    queries = list(range(12))
    whole = random_walk(G, queries, top=None, tol=1e-12)
    lists = random_walk(G, queries, top=5)
    for row in range(12):
        proven = int(lists.proven[row])
        expected = [label for label, _ in whole.top(row, 5)]
        assert [label for label, _ in lists.top(row)][:proven] == expected[:proven]
        true = whole.scores[lists.nodes[row], row]
        assert np.abs(lists.scores[row] - true).max() <= lists.error_bound[row] + whole.error_bound[row]
    assert lists.n_products < whole.n_products


def test_results_stay_when_their_memory_is_used_again():
    for order in ("given", "degree"):
        rng = np.random.default_rng(0)
        G = Graph(rng.integers(0, 200, (900, 2)), n_nodes=200, order=order)
        first = [pagerank(G, personalization={node: 1}) for node in range(3)]
        kept = [found.scores.copy() for found in first]
        random_walk(G, list(range(9)), top=None)
        pagerank(G, 0.5)
        for found, copy in zip(first, kept, strict=True):
            assert (found.scores == copy).all()
        assert (pagerank(G, personalization={0: 1}).scores == kept[0]).all()


def test_equal_calls_give_equal_bits_for_any_number_of_threads():
    rng = np.random.default_rng(1)
    edges = rng.integers(0, 20_000, (200_000, 2))
    found = [
        random_walk(Graph(edges, threads=threads), list(range(11)), top=None, method="anderson", max_iter=9)
        for threads in (1, 2, 3)
    ]
    for other in found[1:]:
        assert np.array_equal(found[0].scores, other.scores)


def test_walks_end_one_by_one():
    # Node 0 dangles: its walk ends at once; the others take longer.
    G = Graph(([1, 2, 3, 1], [2, 3, 1, 0]))
    walks = random_walk(G, [0, 1, 2, 3], top=None, tol=1e-12)
    assert walks.n_iter[0] < walks.n_iter[1:].min()
    assert walks.scores[:, 0] == pytest.approx([1, 0, 0, 0])
    for column in range(1, 4):
        alone = pagerank(G, 0.9, personalization={column: 1}, tol=1e-12)
        assert np.abs(walks.scores[:, column] - alone.scores).sum() <= 2e-12


def test_one_query_may_have_several_nodes():
    G = network()
    walks = random_walk(G, [{3: 1, 5: 3}, 3], top=None, tol=1e-11)
    alone = pagerank(G, 0.9, personalization={3: 1, 5: 3}, tol=1e-11)
    assert np.abs(walks.scores[:, 0] - alone.scores).sum() <= 2e-11


def test_a_label_is_one_query():
    G = Graph((["a", "b", "c"], ["b", "c", "a"]))
    walks = random_walk(G, "a", top=5)
    assert walks.queries == ["a"]
    assert [label for label, _ in walks.top()] == ["a", "b", "c"]
    assert walks.nodes.tolist() == [[0, 1, 2, -1, -1]]


def test_undirected_walks_go_both_ways():
    G = Graph(([0, 1], [1, 2]))
    walks = random_walk(G, 2, top=None, undirected=True, tol=1e-12)
    both = Graph(([0, 1, 1, 2], [1, 0, 2, 1]))
    alone = pagerank(both, 0.9, personalization={2: 1}, tol=1e-12)
    assert np.abs(walks.scores[:, 0] - alone.scores).sum() <= 2e-12
    assert walks.labels.to_list() == [0, 1, 2]


def test_no_queries_give_no_walks():
    walks = random_walk(network(), [])
    assert (walks.nodes.shape, walks.status) == ((0, 100), [])


def test_a_limit_holds_for_all():
    walks = random_walk(network(), list(range(5)), max_iter=2, tol=1e-12, top=None)
    assert walks.status == ["max_iter"] * 5
    for column in range(5):
        true = pagerank(network(), 0.9, personalization={column: 1}, tol=1e-12).scores
        assert np.abs(walks.scores[:, column] - true).sum() <= walks.error_bound[column]


def test_a_callback_ends_the_run_with_the_queries_begun():
    walks = random_walk(network(), list(range(9)), batch=3, callback=lambda state: True)
    assert walks.status == ["interrupted"] * 3
    assert walks.queries == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": [0, 999]}, "queries: found 999, expected a node of the graph"),
        ({"queries": [{}]}, "queries: found the sum 0"),
        ({"queries": 0, "batch": 0}, "batch: found 0, expected 1 to 32"),
        ({"queries": 0, "batch": 33}, "batch: found 33"),
        ({"queries": 0, "damping": 1}, "damping: found 1"),
        ({"queries": 0, "undirected": "no"}, "undirected: found 'no'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ParameterError) as fault:
        random_walk(network(), **options)
    assert str(fault.value).startswith(message)


def test_lists_are_saved(tmp_path):
    walks = random_walk(Graph(([0, 1, 2], [1, 2, 0])), [0, 1], top=2)
    walks.save(tmp_path / "walks.tsv")
    rows = [line.split("\t") for line in (tmp_path / "walks.tsv").read_text().splitlines()]
    assert rows[0] == ["query", "rank", "node", "score"]
    assert [row[:3] for row in rows[1:]] == [
        ["0", "1", "0"],
        ["0", "2", "1"],
        ["1", "1", "1"],
        ["1", "2", "2"],
    ]


def test_lists_are_looked_for_seldom(monkeypatch):
    calls = []
    top = HostWalk.top
    monkeypatch.setattr(HostWalk, "top", lambda *words: calls.append(words[2:]) or top(*words))
    rng = np.random.default_rng(0)
    G = Graph(rng.integers(0, 2000, (9000, 2)), threads=1)
    walks = random_walk(G, G.labels.to_array()[:16].tolist(), top=10)
    assert walks.status == ["converged"] * 16
    assert len(calls) <= 12  # of some 35 steps, each for several walks


@pytest.mark.parametrize("columns", [1, 3, 16, 20])
def test_lists_are_those_of_sorted_scores(columns):
    n = 5000
    graph = Graph((np.arange(n - 1), np.arange(1, n)), n_nodes=n)
    entries = np.arange(columns)
    shares = {"nodes": entries, "shares": np.ones(columns), "columns": entries, "n_columns": columns}
    walk = HostTransitions(graph, False).walk(0.5, Restarts(**shares))
    rng = np.random.default_rng(1)
    walk.place(0)
    # Many ties, and columns with fewer positive entries than are wanted.
    walk._images[0][:, :columns] = rng.integers(-40, 9, (n, columns)) / 16.0
    walk._images[0][:, 0] = np.where(np.arange(n) % 700 == 3, 0.5, -1.0)
    scores = np.maximum(walk._images[0][:, :columns].astype(np.float64), 0.0)
    chosen = list(range(0, columns, 2))
    for count in (1, 10, 300, n):
        for (nodes, values), column in zip(walk.top(0, chosen, count), chosen, strict=True):
            at = graph.to_places(np.arange(n))
            order = np.lexsort((np.arange(n), -scores[at, column]))[:count]
            assert nodes.tolist() == order.tolist()
            assert values.tolist() == scores[at[order], column].tolist()
