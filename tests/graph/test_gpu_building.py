"""Graphs that are built on a GPU or the emulator: bit by bit those of the CPU."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import graph_cases as cases
import numpy as np
import pytest
from devices import IS_EMULATED, few, on_device, sized
from devices import gpu as mark_gpu

from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.graph import Graph, device_edges, hits, pagerank, random_walk, read_graph
from bmrm.graph.backends import gpu
from bmrm.graph.read import note_of_direction
from bmrm.matrix.gpu import work

pytestmark = mark_gpu

NODES, EDGES = sized((300, 2000), (50_000, 800_000))


def listed(seed=0, n=NODES, edges=EDGES, kind=np.int64):
    """Edges with hubs, repetitions, loops, and nodes at one end only."""
    rng = np.random.default_rng(seed)
    source = (n * rng.random(edges) ** 2).astype(kind)
    target = (n * rng.random(edges) ** 3).astype(kind)
    source[: edges // 20] = target[: edges // 20]
    again = rng.integers(0, edges, edges // 4)
    return np.concatenate([source, source[again]]), np.concatenate([target, target[again]])


def check_same(edges, **options):
    """Build on both; return the graph of the GPU."""
    here, there = (Graph(edges, device=device, **options) for device in ("cpu", "cuda"))
    assert (there.placement.gpu, here.placement.gpu) == (0, None)
    assert there.labels.to_list() == here.labels.to_list()
    assert (there.n_edges, there.weighted, there.directed) == (here.n_edges, here.weighted, here.directed)
    for one, other in zip(there.edges_by_target, here.edges_by_target, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    for name in ("places", "in_degree", "out_degree", "dangling"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    np.testing.assert_array_equal(there.out_strength(), here.out_strength())
    assert there.report() == here.report()
    assert there.core == here.core
    return there


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint16])
@pytest.mark.parametrize("first", [0, -7, 1000])
def test_ids_get_their_numbers(kind, first):
    if first < 0 and kind == np.uint16:
        pytest.skip("no negative numbers")
    source, target = listed(kind=kind)
    check_same(((source + kind(first)).astype(kind), (target + kind(first)).astype(kind)))


def test_ids_may_be_anywhere():
    source, target = listed()
    ids = np.random.default_rng(1).integers(-(2**63), 2**63, NODES)
    ids[:2] = -(2**63), 2**63 - 1
    check_same((ids[source], ids[target]))
    check_same((ids[source] >> 20, ids[target] >> 20))
    check_same((3 * source, 3 * target + 1))  # with gaps


@pytest.mark.parametrize("duplicates", ["auto", "drop", "sum"])
@pytest.mark.parametrize("weights", [False, True])
def test_repeated_edges(duplicates, weights):
    edges = listed(2)
    if weights:
        edges += (np.random.default_rng(3).uniform(0, 2, len(edges[0])),)
    for loops in ("keep", "drop"):
        check_same(edges, duplicates=duplicates, self_loops=loops)
    check_same(edges, duplicates=duplicates, directed=False)


def test_an_edge_listed_twice_is_refused_on_both():
    for device in ("cpu", "cuda"):
        with pytest.raises(DataError, match="the edge from 5 to 7 twice"):
            Graph(([5, 5, 7], [7, 7, 5]), duplicates="error", device=device)
    check_same(([5, 7], [7, 5]), duplicates="error")


@pytest.mark.parametrize("order", ["auto", "degree", "given"])
@pytest.mark.parametrize("peeled", [False, True])
def test_orders(order, peeled):
    rng = np.random.default_rng(4)
    source, target = rng.integers(0, NODES, (2, EDGES))
    if peeled:
        source[: EDGES // 2] = rng.integers(NODES, 2 * NODES, EDGES // 2)
        target[EDGES // 2 :] = rng.integers(2 * NODES, 3 * NODES, EDGES - EDGES // 2)
    found = check_same((source, target), order=order)
    assert (found.core is not None) == (peeled and order != "given")
    near = np.arange(EDGES)
    check_same((near, near + 1 + near % 3), order=order)


def test_equal_weights_in_both_directions_are_an_undirected_graph():
    source, target = listed(5)
    once = source < target
    source, target = source[once], target[once]
    weight = np.random.default_rng(6).uniform(0.5, 1, len(source))
    both = np.r_[source, target], np.r_[target, source], np.r_[weight, weight]
    assert check_same(both, directed=False).n_edges < len(both[0])
    check_same((*both[:2], np.r_[weight, 2 * weight]), directed=False)


def test_other_inputs(tmp_path):
    check_same([(0, 1), (1, 2), (5, 1)])
    check_same([("b", "a"), ("a", "c"), ("b", "a")])
    check_same((["x", 3], [3, "y"]))
    check_same(np.array([[4, 5], [5, 6]]))
    check_same(cases.random_case(np.random.default_rng(0)).arrays)
    check_same(([0, 3], [3, 1]), n_nodes=6)
    check_same(([0, 2], [2, 1]), labels=["a", "b", "c"])
    check_same(([1], [1]), self_loops="drop")
    assert Graph(([], []), device="cuda").placement.gpu is None
    path = tmp_path / "edges.txt"
    path.write_text("# from to\n10 20\n20 30\n30 10\n")
    found = read_graph(path, device="cuda")
    assert found.labels.to_list() == [10, 20, 30]
    assert found.placement.gpu == 0
    assert found.notes == read_graph(path).notes


def test_wrong_edges_have_the_same_message():
    many = [0.5] * 3
    for edges, options in (
        (([0, 1, 9], [1, 2, 2]), {"n_nodes": 4}),
        (([0, 1, -1], [1, 2, 2]), {"n_nodes": 4}),
        (([4, 5, 6], [5, 6, 4], [1.0, -1.0, 2.0]), {}),
        (([4, 5, 6], [5, 6, 4], [*many[:2], np.nan]), {}),
        (([4, 5, 6], [5, 6, 4], [*many[:2], np.inf]), {}),
        (([4, 5, 6], [5, 6, 4], [1e308, 1e308, 1.0]), {}),
    ):
        arrays, found = tuple(map(np.array, edges)), []
        given = [arrays, arrays, tuple(map(on_device, arrays))]
        for each, device in zip(given, ("cpu", "cuda", "auto"), strict=True):
            with pytest.raises(DataError) as fault:
                Graph(each, device=device, **options)
            found.append(str(fault.value))
        assert len(set(found)) == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_edges_on_a_gpu_stay_there(monkeypatch, weighted):
    source, target = listed(7, kind=np.int32)
    weight = np.random.default_rng(8).uniform(0, 2, len(source)).astype(np.float32)
    arrays = (source, target.astype(np.int64), *([weight] if weighted else []))
    here = Graph(tuple(map(np.asarray, arrays)), device="cpu")
    there = tuple(map(on_device, arrays))
    monkeypatch.setattr(
        device_edges.DeviceEdgeRows, "on_host", lambda self: pytest.fail("copied to the host")
    )
    found = Graph(there)
    assert found.placement.reason == "the rows are on it"
    ranking = pagerank(found, device="cuda")
    walks = random_walk(found, [int(source[0]), int(source[1])], device="cuda")
    pair = hits(found, device="cuda")
    assert note_of_direction(found) == ()
    monkeypatch.undo()
    assert note_of_direction(here) == ()
    assert abs(pair.hubs - hits(here, device="cpu").hubs).sum() <= 1e-6
    np.testing.assert_array_equal(found.edges_by_target[1], here.edges_by_target[1])
    assert abs(ranking.scores - pagerank(here, device="cpu").scores).sum() <= 2e-8
    assert walks.status == ["converged"] * 2


@pytest.mark.parametrize("step", [1, 7])
def test_edges_and_their_reverse_are_counted_as_on_the_cpu(step):
    source, target = listed(17)
    one_way = np.minimum(source, target), np.maximum(source, target)
    for edges in ((source, target), one_way, (source, source), ([0, 5], [5, 9])):
        there, here = (Graph(edges, device=device).rows for device in ("cuda", "cpu"))
        assert there.count_reversed(step) == here.count_reversed(step)
    everything = {(u, v) for u, v in zip(source.tolist(), target.tolist(), strict=True) if u != v}
    both = sum((v, u) in everything for u, v in everything)
    assert Graph((source, target), device="cuda").rows.count_reversed(1) == (len(everything), both)


@pytest.mark.parametrize("exponent", [-900, 0, 900])
def test_weights_of_hits_may_be_of_any_size(exponent):
    source, target = listed(18)
    weight = np.random.default_rng(19).uniform(0.5, 2, len(source))
    plain = hits(Graph((source, target, weight), device="cpu"), device="cpu")
    for device in ("cpu", "cuda"):
        graph = Graph((source, target, np.ldexp(weight, exponent)), device=device)
        found = hits(graph, device=device)
        assert found.status == "converged"
        assert abs(found.authorities - plain.authorities).sum() <= 1e-6
        assert np.ldexp(found.singular_value, -exponent) == pytest.approx(plain.singular_value)


def test_columns_of_an_array_on_a_gpu():
    pairs = np.stack(listed(9), axis=1)
    found, here = Graph(on_device(pairs)), Graph(pairs, device="cpu")
    np.testing.assert_array_equal(found.edges_by_target[1], here.edges_by_target[1])
    with pytest.raises(DataError, match=r"shape \(2, 3\), expected \(edges, 2\)"):
        Graph(on_device(np.zeros((2, 3), np.int64)))


def test_edges_in_two_memories_are_refused(monkeypatch):
    source, target = listed(10)
    with pytest.raises(DataError, match=r"^edges: found sources on GPU 0 and targets in main"):
        Graph((on_device(source), target))
    with pytest.raises(DataError, match="weights in main memory"):
        Graph((on_device(source), on_device(target), np.ones(len(source))))
    with pytest.raises(ParameterError, match="for rows on GPU 0"):
        Graph((on_device(source), on_device(target)), device="cpu")
    with pytest.raises(DataError, match="expected int32 or int64"):
        Graph((on_device(source.astype(np.float32)), on_device(target)))
    monkeypatch.setattr(
        device_edges, "gpu_that_has", lambda part: None if part is None else int(part is not source)
    )
    found = SimpleNamespace(source=source, target=target, weight=None)
    with pytest.raises(DataError, match="sources on GPU 0 and targets on GPU 1"):
        device_edges.place_edges(found, "auto")


def test_auto_builds_large_graphs_on_a_gpu_if_they_fit(monkeypatch, recwarn):
    edges = listed(11)
    assert Graph(edges).placement.gpu is None or not IS_EMULATED
    monkeypatch.setattr(work, "WORTH_A_GPU", 100)
    found = Graph(edges)
    assert found.placement.gpu == 0
    assert not recwarn.list
    with pytest.raises(DeviceMemoryError, match="building a graph takes"):
        Graph(edges, device="cuda", gpu_mem=1000)
    with pytest.warns(match="too little: building a graph takes .* using the CPU") as warned:
        fallen = Graph(edges, gpu_mem=1000)
    assert len(warned) == 1
    assert fallen.placement.gpu is None
    np.testing.assert_array_equal(found.edges_by_target[1], fallen.edges_by_target[1])


def test_a_file_whose_graph_has_no_room_there_is_built_in_main_memory(tmp_path):
    path = tmp_path / "edges"
    np.savetxt(path, np.random.default_rng(3).integers(0, 50, (400, 2)), "%d")
    for limit, there in ((None, 0), (1000, None)):
        found = read_graph(path, device="cuda", gpu_mem=limit)
        assert (found.placement.gpu, found.n_nodes) == (there, 50)


def test_memory_that_ends_while_a_graph_is_built(monkeypatch):
    edges = listed(12)
    monkeypatch.setattr(work, "WORTH_A_GPU", 100)
    built = device_edges.import_cuda()
    monkeypatch.setattr(
        device_edges,
        "import_cuda",
        lambda: SimpleNamespace(predict_edges_bytes=lambda *_: 0, Edges=built.Edges),
    )
    whole = built.predict_edges_bytes(len(edges[0]), 16, False, 0)
    for share in (0.02, 0.1, 0.2):
        with pytest.warns(match="using the CPU"):
            assert Graph(edges, gpu_mem=int(share * 24 * len(edges[0]))).placement.gpu is None
    assert Graph(edges, gpu_mem=whole).placement.gpu == 0


@pytest.mark.parametrize("weighted", few([True, False]))
def test_edges_leave_the_gpu_when_matrices_need_the_room(weighted):
    source, target = listed(13)
    weight = (np.random.default_rng(14).uniform(0, 2, len(source)),) if weighted else ()
    found = Graph((source, target, *weight), device="cuda")
    whole = pagerank(found, device="cuda")
    assert isinstance(found.rows, device_edges.DeviceEdgeRows)
    limited = pagerank(found, device="cuda", gpu_mem="100M")
    assert not isinstance(found.rows, device_edges.DeviceEdgeRows)
    assert abs(whole.scores - limited.scores).sum() <= 2e-8
    again = pickle.loads(pickle.dumps(Graph((source, target, *weight), device="cuda")))
    np.testing.assert_array_equal(again.edges_by_target[1], found.edges_by_target[1])


def test_edges_leave_the_gpu_when_it_is_too_full(monkeypatch):
    found = Graph(listed(16), device="cuda")
    whole = pagerank(found, device="cuda")
    found = Graph(listed(16), device="cuda")
    cuda, n = gpu.import_cuda(), found.n_nodes
    matrices = 2 * cuda.Matrix.predict_format(n, n, found.n_edges, 0, transpose=False)
    room = cuda.predict_walk_bytes(n, 1, gpu.MAX_IMAGES) + matrices - 1
    monkeypatch.setattr(gpu, "usable_bytes", lambda *_: room)
    again = pagerank(found, device="cuda")
    assert found.rows.gpu is None
    assert abs(whole.scores - again.scores).sum() <= 2e-8


def test_a_graph_on_a_gpu_serves_the_cpu():
    source, target = listed(15)
    found, here = Graph((source, target), device="cuda"), Graph((source, target), device="cpu")
    assert pagerank(found, device="cpu").scores.tobytes() == pagerank(here, device="cpu").scores.tobytes()
    assert (found.to_scipy() != here.to_scipy()).nnz == 0
    assert found.undirected().n_edges == here.undirected().n_edges
