"""Graphs from every kind of object."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bmrm.errors import DataError, ParameterError
from bmrm.graph import Graph, pagerank
from bmrm.graph import graph as graphs


def adjacency(G):
    return G.to_scipy().toarray()


nodes = st.integers(-3, 8)


@given(
    st.lists(st.tuples(nodes, nodes, st.integers(0, 4)), max_size=30),
    st.sampled_from(["drop", "sum", "auto"]),
    st.sampled_from(["keep", "drop"]),
    st.sampled_from(["degree", "given", "auto"]),
    st.booleans(),
    st.booleans(),
)
def test_the_matrix_is_that_of_the_rules(edges, duplicates, loops, order, directed, weighted):
    source, target, weight = (np.array([edge[i] for edge in edges], int) for i in range(3))
    parts = (source, target, weight.astype(float)) if weighted else (source, target)
    G = Graph(parts, duplicates=duplicates, self_loops=loops, order=order, directed=directed)
    labels = sorted({*source.tolist(), *target.tolist()})
    assert G.labels.to_list() == labels
    expected = np.zeros((len(labels), len(labels)))
    rule = ("sum" if weighted else "drop") if duplicates == "auto" else duplicates
    seen = set()
    for u, v, w in edges:
        if loops == "drop" and u == v:
            continue
        pairs = [(u, v)] if directed else list({(u, v), (v, u)})
        for pair in pairs:
            place = labels.index(pair[0]), labels.index(pair[1])
            if rule == "sum":
                expected[place] += w if weighted else 1
            elif pair not in seen:
                expected[place] = w if weighted else 1
            seen.add(pair)
    assert adjacency(G).tolist() == expected.tolist()
    assert G.n_edges == len(seen)
    into = [sum(v == label for _, v in seen) for label in labels]
    assert G.in_degree.tolist() == into
    assert G.dangling.tolist() == np.flatnonzero(expected.sum(1) == 0).tolist()


def test_gaps_in_ids_are_no_nodes():
    big = 10**15
    for ids in ([5, 900, -2], [big, 7, -big]):
        G = Graph(([ids[0], ids[1]], [ids[1], ids[2]]))
        assert G.labels.to_list() == sorted(ids)
        assert pagerank(G).scores.size == 3


def test_given_numbers_are_nodes_even_without_edges():
    G = Graph(([0], [1]), n_nodes=5)
    assert (G.n_nodes, G.labels.to_list()) == (5, [0, 1, 2, 3, 4])
    assert Graph(([0], [1]), labels=["x", "y", "z"]).labels.to_list() == ["x", "y", "z"]


def test_text_keeps_the_order_of_its_appearance():
    G = Graph((["b", "a", "c"], ["a", "c", "b"]))
    assert G.labels.to_list() == ["b", "a", "c"]
    assert G.labels.find("a") == 1
    assert G.labels.find("x") is None
    assert G.labels.find(["a"]) is None
    assert Graph(np.array([["b", "a"], ["a", "c"]])).labels.to_list() == ["b", "a", "c"]


@pytest.mark.parametrize("label", [True, 1.0, "1", 2**70, None])
def test_only_integers_find_integers(label):
    assert Graph(([0, 1], [1, 3])).labels.find(label) is None
    assert Graph(([0, 1], [1, 2])).labels.find(label) is None


def test_results_come_in_the_order_of_the_labels_whatever_the_order_in_memory():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 50, (300, 2))
    weight = rng.uniform(0, 1, 300)
    one, other = (Graph((edges[:, 0], edges[:, 1], weight), order=order) for order in ("given", "degree"))
    assert other.is_reordered
    assert not one.is_reordered
    assert (adjacency(one) == adjacency(other)).all()
    assert pagerank(one).scores == pytest.approx(pagerank(other).scores, abs=1e-8)


def test_neighbours_keep_their_order():
    chain = np.arange(1000)
    assert not Graph((chain[:-1], chain[1:])).is_reordered
    rng = np.random.default_rng(0)
    assert Graph(rng.integers(0, 1000, (5000, 2))).is_reordered


def test_communities_one_after_another_keep_their_order(monkeypatch):
    each, count = 256, 9
    monkeypatch.setattr(graphs, "REACHED_NODES", each)
    rng = np.random.default_rng(3)
    home = rng.integers(0, count, 100_000) * each
    inside = rng.integers(0, each, (2, len(home)))
    assert not Graph((home + inside[0], home + inside[1])).is_reordered
    anywhere = rng.permutation(count * each)
    assert Graph((anywhere[home + inside[0]], anywhere[home + inside[1]])).is_reordered
    # In a small graph all nodes are within reach of each other.
    assert Graph((inside[0], inside[1])).is_reordered


@pytest.mark.parametrize("layout", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
def test_sparse_matrices(layout):
    A = np.array([[0, 2.0, 0], [1, 0, 0], [0, 0, 3]])
    assert adjacency(Graph(getattr(sparse, layout)(A))).tolist() == A.tolist()


def test_a_matrix_must_be_square():
    with pytest.raises(DataError, match=r"found a matrix of shape \(2, 3\), expected a square one"):
        Graph(sparse.csr_array(np.ones((2, 3))))


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
@pytest.mark.parametrize("weighted", [True, False])
def test_networkx_graphs(kind, weighted):
    networkx = pytest.importorskip("networkx")
    g = getattr(networkx, kind)()
    g.add_nodes_from(["d", "a", "b", "c"])
    edges = [("a", "b"), ("b", "c"), ("c", "c"), ("a", "d"), ("a", "b")]
    for number, (u, v) in enumerate(edges, 1):
        g.add_edge(u, v, **({"weight": number} if weighted and number != 3 else {}))
    expected = networkx.to_scipy_sparse_array(g).toarray()
    G = Graph(g)
    assert G.labels.to_list() == list(g)
    assert adjacency(G).tolist() == expected.tolist()
    assert G.directed == g.is_directed()


@pytest.mark.parametrize("directed", [True, False])
def test_igraph_graphs(directed):
    igraph = pytest.importorskip("igraph")
    g = igraph.Graph(edges=[(0, 1), (1, 2), (2, 2), (0, 1)], n=4, directed=directed)
    g.es["weight"] = [1.0, 2.0, 3.0, 4.0]
    expected = np.zeros((4, 4))
    for (u, v), w in zip(g.get_edgelist(), g.es["weight"], strict=True):
        expected[u, v] += w
        if not directed and u != v:
            expected[v, u] += w
    assert adjacency(Graph(g)).tolist() == expected.tolist()
    g.vs["name"] = ["w", "x", "y", "z"]
    assert Graph(g).labels.to_list() == ["w", "x", "y", "z"]


def test_tables_of_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"from": ["x", "y"], "to": ["y", "z"], "w": [1.5, 2.5]})
    G = Graph(table)
    assert (G.labels.to_list(), G.weighted) == (["x", "y", "z"], True)
    G = Graph(pyarrow.table({"from": [10, 20], "to": [20, 30]}))
    assert G.labels.to_list() == [10, 20, 30]
    words = pyarrow.array(["x", "y"]).dictionary_encode()
    assert Graph(pyarrow.table({"from": words, "to": ["y", "x"]})).n_edges == 2
    with pytest.raises(DataError, match="missing values"):
        Graph(pyarrow.table({"from": [1, None], "to": [2, 3]}))
    with pytest.raises(DataError, match="found 1 columns"):
        Graph(pyarrow.table({"from": [1]}))
    with pytest.raises(DataError, match="found a column of type double"):
        Graph(pyarrow.table({"from": [1.5], "to": [2]}))


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_of_other_libraries(library):
    pytest.importorskip("pyarrow")
    frame = pytest.importorskip(library).DataFrame({"s": [1, 2], "t": [2, 3]})
    assert Graph(frame).labels.to_list() == [1, 2, 3]


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_bad_weights_are_named_with_their_edge(weight):
    with pytest.raises(DataError) as fault:
        Graph((["a", "b"], ["b", "c"], [1.0, weight]))
    assert str(fault.value).startswith(f"weight: edge 2 from 'b' to 'c' has {weight}, expected a finite")


def test_weights_may_be_ignored():
    assert not Graph(([0], [1], [math.nan]), weights=False).weighted


def test_weights_whose_sum_overflows_are_refused():
    with pytest.raises(DataError, match="sum is infinite"):
        Graph(([0, 0], [1, 2], [1.7e308, 1.7e308]))


def test_repeated_edges_may_be_an_error():
    for order in ("given", "degree"):
        with pytest.raises(DataError, match="found the edge from 'b' to 'c' twice"):
            Graph((["a", "b", "c", "b"], ["b", "c", "a", "c"]), duplicates="error", order=order)
        assert Graph((["a", "b", "c"], ["b", "c", "b"]), duplicates="error", order=order).n_edges == 3


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (([0, 1], [1]), {}, "edges: found 2 sources and 1 targets"),
        (([0], [1], [1.0, 2.0]), {}, "weight: found shape (2,)"),
        (([0], [1], ["x"]), {}, "weight: found text"),
        (np.zeros((3, 4), int), {}, "edges: found an array of shape (3, 4)"),
        (np.zeros((3, 2)), {}, "source: found 1 dimensions of float64"),
        (7, {}, "edges: found a int"),
        (([0], [5]), {"n_nodes": 3}, "target: edge 1 has node 5, expected 0 to 2"),
        (([-1], [0]), {"n_nodes": 3}, "source: edge 1 has node -1"),
        ((["a"], ["b"]), {"n_nodes": 3}, "source: found <U1"),
        (([0], [1]), {"labels": ["x", "x"]}, "labels: found 'x' twice"),
        (([0], [1]), {"labels": ["x", "y"], "n_nodes": 3}, "labels: found 2, expected 3"),
        (([0], [np.uint64(2**63)]), {}, "target"),
    ],
)
def test_bad_edges_are_named(edges, options, message):
    with pytest.raises(DataError) as fault:
        Graph(edges, **options)
    assert str(fault.value).startswith(message)


@pytest.mark.parametrize(
    "options", [{"duplicates": "some"}, {"self_loops": "no"}, {"order": "x"}, {"n_nodes": -1}, {"threads": 0}]
)
def test_bad_options_are_named(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        Graph(([0], [1]), **options)


def test_the_undirected_graph_is_made_once():
    G = Graph(([5, 6, 6, 5], [6, 5, 7, 5]))
    both = G.undirected()
    assert both is G.undirected()
    assert both.undirected() is both
    assert both.labels.to_list() == [5, 6, 7]
    assert adjacency(both).tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_the_report_counts():
    report = Graph(([0, 1, 1, 3], [1, 1, 2, 0]), n_nodes=5).report()
    expected = {"nodes": 5, "edges": 4, "dangling": 2, "without_in_links": 2, "isolated": 1, "self_loops": 1}
    assert {key: report[key] for key in expected} == expected


def test_arrays_lent_out_are_read_only():
    starts, sources, _ = Graph(([0, 1], [1, 0])).edges_by_target
    for array in (starts, sources):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
