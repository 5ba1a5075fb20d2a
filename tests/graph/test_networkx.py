"""NetworkX's backend, by its own tests and by comparison."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

networkx = pytest.importorskip("networkx")

from bmrm.graph import networkx_backend, networkx_info  # noqa: E402


def has_entry_point() -> bool:
    return "bmrm" in networkx.utils.backends.backends


def random_graph(kind, seed=0):
    g = networkx.gnp_random_graph(40, 0.1, seed=seed, directed=True)
    h = kind()
    h.add_nodes_from(f"n{u}" for u in g)
    h.add_edges_from((f"n{u}", f"n{v}", {"weight": 1 + (u + v) % 3, "cost": 1 + u % 2}) for u, v in g.edges)
    return h


@pytest.mark.parametrize(
    "kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]
)
@pytest.mark.parametrize("weight", ["weight", "cost", None])
def test_scores_are_those_of_networkx(kind, weight):
    g = random_graph(kind)
    options = {"weight": weight, "personalization": {"n1": 1, "n5": 2}, "dangling": {"n2": 1}}
    attributes = None if weight is None else {weight: 1}
    converted = networkx_backend.convert_from_nx(g, edge_attrs=attributes, name="pagerank")
    found = networkx_backend.pagerank(converted, tol=1e-14, max_iter=1000, **options)
    expected = networkx.pagerank(g, tol=1e-14, max_iter=1000, **options)
    assert list(found) == list(g)
    assert found == pytest.approx(expected, abs=1e-10)


def test_a_conversion_with_weights_serves_a_call_without():
    g = random_graph(networkx.DiGraph)
    converted = networkx_backend.convert_from_nx(g, edge_attrs={"weight": 1}, name="pagerank")
    found = networkx_backend.pagerank(converted, weight=None, tol=1e-14)
    assert found == pytest.approx(networkx.pagerank(g, weight=None, tol=1e-14), abs=1e-10)
    with pytest.raises(NotImplementedError):
        networkx_backend.pagerank(converted, weight="cost")


def test_hubs_are_those_of_networkx():
    g = random_graph(networkx.DiGraph)
    converted = networkx_backend.convert_from_nx(g, preserve_edge_attrs=True, name="hits")
    for normalized in (True, False):
        found = networkx_backend.hits(converted, normalized=normalized)
        expected = networkx.hits(g, normalized=normalized, tol=1e-12, max_iter=1000)
        if normalized:
            for one, other in zip(found, expected, strict=True):
                assert one == pytest.approx(other, abs=1e-6)
        else:
            assert max(found[0].values()) == 1.0


def test_errors_are_those_of_networkx():
    converted = networkx_backend.convert_from_nx(random_graph(networkx.DiGraph), name="pagerank")
    with pytest.raises(ZeroDivisionError):
        networkx_backend.pagerank(converted, personalization={"x": 1}, weight=None)
    with pytest.raises(networkx.PowerIterationFailedConvergence):
        networkx_backend.pagerank(converted, max_iter=1, tol=1e-15, weight=None)
    empty = networkx_backend.convert_from_nx(networkx.DiGraph(), name="pagerank")
    assert networkx_backend.pagerank(empty) == {}
    assert networkx_backend.hits(empty) == ({}, {})
    assert networkx_backend.can_run("pagerank", (), {"alpha": 1}) != True  # noqa: E712
    assert networkx_backend.can_run("pagerank", (), {"alpha": 0.5}) is True
    g = networkx.path_graph(3)
    assert networkx_backend.can_run("pagerank", (g, 1.0, None, 100, 1e-6, None, "weight", None), {}) != True  # noqa: E712
    assert networkx_backend.can_run("pagerank", (g, 0.5, None, 100, 1e-6, None, "weight", None), {}) is True
    assert networkx_backend.can_run("hits", (g, 100), {}) is True


@pytest.mark.parametrize("kind", [networkx.MultiGraph, networkx.MultiDiGraph])
def test_a_conversion_of_parallel_edges_serves_calls_without_weights(kind):
    g = kind()
    g.add_weighted_edges_from([(0, 1, 5.0), (0, 1, 0.5), (1, 2, 2.0), (2, 0, 9.0), (2, 2, 1.0)])
    converted = networkx_backend.convert_from_nx(g, edge_attrs={"weight": 1}, name="pagerank")
    for weight in ("weight", None):
        found = networkx_backend.pagerank(converted, weight=weight, tol=1e-14)
        expected = networkx.pagerank(g, weight=weight, tol=1e-14, max_iter=1000)
        assert found == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("weight", ["3", -1.0, float("inf"), None])
def test_weights_that_are_refused_are_left_to_networkx(weight):
    g = networkx.DiGraph([(0, 1, {"weight": weight}), (1, 0, {"weight": 1})])
    with pytest.raises(NotImplementedError, match="weight"):
        networkx_backend.convert_from_nx(g, edge_attrs={"weight": 1}, name="pagerank")


@pytest.mark.parametrize(
    "options",
    [
        {"personalization": {0: -1, 1: 3}},
        {"nstart": {0: -1, 1: 3}},
        {"dangling": {0: float("nan")}},
        {"alpha": 1},
    ],
)
def test_arguments_that_are_refused_are_left_to_networkx(options):
    converted = networkx_backend.convert_from_nx(networkx.path_graph(3), edge_attrs={"weight": 1})
    with pytest.raises(NotImplementedError):
        networkx_backend.pagerank(converted, **options)


def test_limits_count_as_in_networkx():
    for g in (networkx.path_graph(200), networkx.ladder_graph(200)):
        converted = networkx_backend.convert_from_nx(g, preserve_edge_attrs=True, name="hits")
        found = networkx_backend.hits(converted)
        assert sum(found[0].values()) == pytest.approx(1.0)
        with pytest.raises(networkx.PowerIterationFailedConvergence):
            networkx_backend.hits(converted, max_iter=1)
        with pytest.raises(networkx.PowerIterationFailedConvergence):
            networkx_backend.hits(converted, max_iter=0)
    g = networkx.cycle_graph(50, create_using=networkx.DiGraph)
    g.add_edge(0, 25)
    expected = networkx.pagerank(g, alpha=0.99, max_iter=20, tol=1e-3)  # ends long before 1e-6
    converted = networkx_backend.convert_from_nx(g, edge_attrs={"weight": 1})
    found = networkx_backend.pagerank(converted, alpha=0.99, max_iter=20, tol=1e-3)
    exact = networkx.pagerank(g, alpha=0.99, max_iter=100_000, tol=1e-12)
    assert sum(abs(found[node] - exact[node]) for node in g) <= 1e-6
    assert sum(abs(expected[node] - exact[node]) for node in g) > 1e-6


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph])
def test_a_graph_comes_back(kind):
    g = random_graph(kind)
    back = networkx_backend.convert_to_nx(networkx_backend.convert_from_nx(g, edge_attrs={"weight": 1}))
    assert type(back) is kind
    assert list(back) == list(g)
    assert {(u, v, w) for u, v, w in back.edges(data="weight")} == {
        (u, v, w) for u, v, w in g.edges(data="weight")
    } or not g.is_directed()
    assert back.number_of_edges() == g.number_of_edges()


def test_the_description_imports_nothing():
    code = (
        "import sys; import bmrm.graph.networkx_info; "
        "assert not {'numpy', 'scipy', 'bmrm.graph.graph'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    info = networkx_info.get_info()
    assert info["backend_name"] == "bmrm"
    assert set(info["functions"]) == {"pagerank", "hits"}


def test_networkx_calls_the_backend():
    if not has_entry_point():
        pytest.skip("the installed bmrm has no entry point")
    g = random_graph(networkx.DiGraph)
    assert networkx.pagerank(g, backend="bmrm", tol=1e-13) == pytest.approx(networkx.pagerank(g, tol=1e-13))


def test_the_tests_of_networkx_pass():
    if not has_entry_point():
        pytest.skip("the installed bmrm has no entry point")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "--pyargs", "networkx.algorithms.link_analysis"],
        env={**os.environ, "NETWORKX_TEST_BACKEND": "bmrm", "NETWORKX_FALLBACK_TO_NX": "True"},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
