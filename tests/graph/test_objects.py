"""Graphs from objects whose meaning must not be guessed, and results that are kept."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

from bmrm.errors import DataError, ParameterError
from bmrm.graph import Graph, hits, pagerank, random_walk


def edges(G):
    matrix = G.to_scipy().tocoo()
    ends = zip(G.labels.take(matrix.row), G.labels.take(matrix.col), matrix.data.tolist(), strict=True)
    return sorted(ends)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_list_holds_edges_whatever_its_length(count):
    pairs = [(2 * i + 1, 2 * i + 2) for i in range(count)]
    expected = [(u, v, 1.0) for u, v in pairs]
    assert edges(Graph(pairs)) == expected
    assert edges(Graph([list(pair) for pair in pairs])) == expected
    assert edges(Graph(np.array(pairs))) == expected
    triples = [(u, v, 0.5 * u) for u, v in pairs]
    assert edges(Graph(triples)) == triples
    assert Graph([(f"n{u}", "x") for u, _ in pairs]).labels.find("n1") == 0
    with pytest.raises(DataError, match="found text, expected edges; bmrm"):
        Graph("edges.txt")
    with pytest.raises(DataError, match="edges: found a tuple of tuples, expected a tuple of arrays"):
        Graph(tuple(pairs))


@pytest.mark.parametrize(
    "given",
    [
        [np.array([1, 2]), np.array([3, 4])],
        [[1, 2, 3, 4], [2, 3, 4, 1]],
        [[1, 2, 3], [2, 3, 1]],
        [(1, 2), (3,)],
        ["ab", "cd"],
        [{1, 2}, {3, 4}],
        [1, 2],
        (1, 2),
        ("ab", "cd"),
        ([1, 2],),
        iter([(1, 2)]),
        {(1, 2)},
    ],
)
def test_what_may_mean_two_things_is_refused(given):
    with pytest.raises(DataError, match="expected"):
        Graph(given)


def test_masked_and_missing_ids_are_refused():
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    for given in (
        (masked, [2, 3, 1]),
        ([2, 3, 1], masked),
        np.ma.array([[1, 2], [3, 4]], mask=[[False, False], [True, False]]),
    ):
        with pytest.raises(DataError, match="found masked values, expected an id"):
            Graph(given)
    assert Graph((np.ma.array([1, 2]), [2, 1])).n_edges == 2
    for given in ((["a", None], ["b", "c"]), (np.array(["a", np.nan], object), ["b", "c"])):
        with pytest.raises(DataError, match=r"found the id (None|nan)"):
            Graph(given)


def test_arrays_of_other_libraries_are_ids():
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    for ends in (
        (pandas.Series([1, 2], index=[7, 8]), pandas.Series([2, 3])),
        (pandas.Series([1, 2], dtype=object), [2, 3]),
        (pyarrow.array([1, 2]), pyarrow.array([2, 3])),
        (range(1, 3), np.array([2, 3], np.uint8)),
    ):
        assert edges(Graph(ends)) == [(1, 2, 1.0), (2, 3, 1.0)]


def test_frames_are_read_by_name():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    expected = [(1, 2, 1.0), (2, 3, 1.0)]
    for columns in (
        {"id": [10, 11], "source": [1, 2], "target": [2, 3]},
        {"target": [2, 3], "source": [1, 2]},
        {"source": [1, 2], "target": [2, 3], "time": [1082008561, 1082008562]},
        {"source": [1, 2], "target": [2, 3], "kind": ["x", None]},
        {0: [1, 2], 1: [2, 3], 2: [5, 6]},
    ):
        assert edges(Graph(pandas.DataFrame(columns))) == expected
    frame = pandas.DataFrame({"w": [3, 4], "to": [2, 3], "from": [1, 2], "cost": [5, 6]})
    assert edges(Graph(frame)) == [(1, 2, 3.0), (2, 3, 4.0)]
    assert edges(Graph(frame, weights=False)) == expected
    assert edges(Graph(frame, weight="cost")) == [(1, 2, 5.0), (2, 3, 6.0)]
    assert edges(Graph(frame, columns=("to", "from"), weights=False)) == [(2, 1, 1.0), (3, 2, 1.0)]
    rows = pandas.DataFrame({"s": [1, 9, 2], "t": [2, 9, 3]})[lambda x: x.s < 9]
    assert edges(Graph(rows)) == expected
    with pytest.raises(DataError, match=r"found int64 and .*string.* as ids"):
        Graph(pandas.DataFrame({"source": [1], "target": ["2"]}))


@pytest.mark.parametrize("library", ["networkx", "igraph"])
def test_a_weight_that_no_edge_has_is_refused(library):
    module = pytest.importorskip(library)
    if library == "networkx":
        g = module.DiGraph()
        g.add_weighted_edges_from([(0, 1, 9.0), (1, 0, 1.0)], weight="cost")
    else:
        g = module.Graph([(0, 1), (1, 0)], directed=True)
        g.es["cost"] = [9.0, 1.0]
    assert not Graph(g).weighted
    assert edges(Graph(g, weight="cost")) == [(0, 1, 9.0), (1, 0, 1.0)]
    for options in ({"weight": "cots"}, {"weights": True}):
        with pytest.raises(
            DataError, match=r"weight: found no edge with the attribute .*, expected one of: 'cost'"
        ):
            Graph(g, **options)
    with pytest.raises(ParameterError, match="weight: found with weights=False"):
        Graph(g, weight="cost", weights=False)
    for given in (([0], [1]), sparse.eye_array(2, format="csr")):
        with pytest.raises(ParameterError, match="weight: found one with"):
            Graph(given, weight="cost")


@pytest.mark.parametrize("directed", [True, False])
def test_parallel_edges_of_objects_count_by_their_number(directed):
    igraph, networkx = pytest.importorskip("igraph"), pytest.importorskip("networkx")
    pairs = [(0, 1), (0, 1), (1, 0), (0, 2), (2, 2), (2, 0)]
    kind = networkx.MultiDiGraph if directed else networkx.MultiGraph
    one, other = Graph(igraph.Graph(pairs, directed=directed)), Graph(kind(pairs))
    assert (one.to_scipy().toarray() == other.to_scipy().toarray()).all()
    assert one.to_scipy().toarray()[0, 1] == (2 if directed else 3)
    assert edges(Graph(igraph.Graph(pairs, directed=True), duplicates="drop"))[0] == (0, 1, 1.0)


def test_a_series_counts_by_its_labels():
    pandas = pytest.importorskip("pandas")
    G = Graph((["a", "b", "c"], ["b", "c", "a"]))
    expected = pagerank(G, personalization={"c": 3.0, "a": 1.0}).scores
    series = pandas.Series({"c": 3.0, "a": 1.0})
    assert (pagerank(G, personalization=series).scores == expected).all()
    assert (pagerank(G, personalization=series.reindex(["b", "c", "a"]).fillna(0.0)).scores == expected).all()
    for wrong in (pandas.Series([1.0, 2.0, 3.0]), pandas.Series([1.0, 2.0], index=["a", "a"])):
        with pytest.raises(ParameterError, match="personalization: found"):
            pagerank(G, personalization=wrong)


def test_used_graphs_and_results_can_be_pickled():
    G = Graph(([0, 1, 2, 2], [1, 2, 0, 1], [1.0, 2.0, 3.0, 4.0]))
    found, ranking = hits(G), pagerank(G)
    random_walk(G, [0], undirected=True)
    for clone in (pickle.loads(pickle.dumps(G)), copy.deepcopy(G), copy.copy(G)):
        assert (pagerank(clone).scores == ranking.scores).all()
    clone = pickle.loads(pickle.dumps(found))
    assert (clone.hubs == found.hubs).all()
    assert clone.unique == found.unique
    small = pickle.dumps(found)  # without the graph, which nobody needs any more
    assert b"_starts" not in small
    assert pickle.loads(small).unique == found.unique
    assert pickle.loads(pickle.dumps(ranking)).top(1) == ranking.top(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda G: pagerank(G, alpha=0.5), "alpha: no argument of pagerank; did you mean 'damping'?"),
        (lambda G: pagerank(G, nstart={}), "nstart: no argument of pagerank; did you mean 'start'?"),
        (lambda G: random_walk(G, [0], c=0.5), "c: no argument of random_walk; did you mean 'damping'?"),
        (
            lambda G: hits(G, max_iterations=5),
            "max_iterations: no argument of hits; did you mean 'max_iter'?",
        ),
        (lambda G: hits(G, xyz=5), "xyz: no argument of hits"),
        (lambda G: pagerank(G).top(-1), "count: found -1, expected at least 0"),
        (lambda G: pagerank(G).top(1.5), "count: found 1.5, expected an integer"),
        (lambda G: hits(G).top(-1), "count: found -1, expected at least 0"),
        (lambda G: random_walk(G, [0]).top(0, -1), "count: found -1, expected at least 0"),
        (lambda G: random_walk(G, [0]).top(1), "query: found 1, expected a position from 0 to 0"),
    ],
)
def test_errors_are_one_line_that_helps(call, message):
    with pytest.raises(ParameterError) as fault:
        call(Graph(([0, 1], [1, 0])))
    assert str(fault.value) == message


def test_a_star_import_needs_no_mpi(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    names: dict[str, object] = {}
    exec("from bmrm.graph import *", names)
    assert {"Graph", "pagerank", "read_graph"} <= set(names)
