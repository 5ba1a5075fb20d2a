"""Graphs on a GPU or the emulator, against the CPU, exact arithmetic and NetworkX."""

from __future__ import annotations

import gc
from fractions import Fraction

import emulated
import graph_cases as cases
import numpy as np
import pytest
import scipy.sparse as sp
from device_checks import check_bounds_in_exact_arithmetic, check_walks_are_those_of_the_cpu
from devices import IS_EMULATED, cuda, few, large, sized
from devices import gpu as mark_gpu

from bmrm.base.vectors import UNIT
from bmrm.errors import BmrmError, DeviceMemoryError, ParameterError
from bmrm.graph import Graph, hits, pagerank, random_walk
from bmrm.graph.backends import choose, gpu
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.gpu import GpuPair, GpuTransitions, GpuWalk, additions_of, row_additions, upload
from bmrm.graph.backends.host import HostTransitions, transition_values
from bmrm.io.csr import Csr
from bmrm.matrix.gpu import work

pytestmark = mark_gpu

PLANS = [
    cuda.Plan("subwarp", lanes=2),
    cuda.Plan("subwarp", lanes=32),
    cuda.Plan("split"),
    cuda.Plan("sliced", cap=8),
    cuda.Plan("sliced", cap=64),
    cuda.Plan("tiled", cap=16, tile=300),
    cuda.Plan("hot", cap=16, tiles=1, tile=1000),
    cuda.Plan("binned", cap=16, tile=4096),
    cuda.Plan("mixed", cap=16, tile=1000),
]


NODES, EDGES = sized((700, 4200), (20_000, 300_000))


def zipf_graph(seed, n=NODES, edges=EDGES, *, weights=False, hub=0):
    """A graph with popular nodes, dangling ones, some without edges, and one with ``hub`` in-links."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, n * 4 // 5, edges)
    target = (n * rng.random(edges) ** 3).astype(int)
    source = np.concatenate([source, rng.integers(0, n, hub)])
    target = np.concatenate([target, np.zeros(hub, int)])
    arrays = (source, target, rng.uniform(0, 2, len(source))) if weights else (source, target)
    return Graph(arrays, n_nodes=n, duplicates="sum" if weights else "drop")


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-11])
def test_pagerank_is_that_of_the_cpu(monkeypatch, weights, tol):
    ahead, light_step = [], gpu.GpuWalk.light_step

    def counted(self, *words, plain_next=False):
        ahead.append(plain_next)
        return light_step(self, *words, plain_next=plain_next)

    monkeypatch.setattr(gpu.GpuWalk, "light_step", counted)
    graph = zipf_graph(1, weights=weights)
    shares = np.random.default_rng(2).random((3, graph.n_nodes))
    for options in (
        {},
        {"personalization": shares[0], "dangling": shares[1], "damping": 0.97},
        {"dangling": shares[1], "start": shares[2], "method": "anderson"},
        {"method": "power"},
    ):
        there = pagerank(graph, tol=tol, device="cuda", **options)
        here = pagerank(graph, tol=tol, device="cpu", **options)
        assert there.status == here.status == "converged"
        assert np.abs(there.scores - here.scores).sum() <= there.error_bound + here.error_bound
        assert there.error_bound <= tol
        assert there.n_iter <= here.n_iter + 2
        proven = min(there.proven, here.proven, 20)
        assert [node for node, _ in there.top(proven)] == [node for node, _ in here.top(proven)]
    assert any(ahead)


@pytest.mark.parametrize("count", few([1, 2, 5, 20, 3, 8, 32], 4))
def test_several_walks_are_those_of_the_cpu(count):
    check_walks_are_those_of_the_cpu(zipf_graph(3, weights=count == 8, hub=sized(300, 5000)), count, 10)


def test_the_bound_holds_in_exact_arithmetic():
    pytest.importorskip("flint")
    check_bounds_in_exact_arithmetic(sized(40, 60))


@large
def test_the_bound_holds_for_hubs():
    pytest.importorskip("flint")
    import exact_pagerank as exact

    case = cases.hub_case(np.random.default_rng(5), 110_000)
    n = sum(case.sizes)
    found = pagerank(
        Graph((case.source, case.target, case.weight), n_nodes=n), case.damping, tol=1e-9, device="cuda"
    )
    true = exact.pagerank_of_classes(case.sizes, case.shares, case.damping)
    apart = np.abs(found.scores - np.repeat([float(score) for score in true], case.sizes)).sum()
    assert apart <= found.error_bound * (1 + 1e-9) + 1e-16 * n
    assert found.status in ("converged", "precision")


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: "-".join(str(part) for part in plan if part))
def test_products_round_no_more_than_is_counted(plan):
    """Every product in float64 is within its additions of one in long double."""
    graph = zipf_graph(6, weights=True, hub=sized(3000, 40_000))
    starts, sources, _ = graph.edges_by_target
    values, _ = transition_values(graph, True)
    n = graph.n_nodes
    X = Csr(starts, sources, values, (n, n))
    x = np.random.default_rng(7).random((n, 32))
    lengths = np.diff(starts)
    filled = lengths > 0
    for columns in (1, 2, 5, 32):
        try:
            matrix = upload(X, 0, np.float64, 0, plan=plan)
        except ParameterError:
            pytest.skip("the plan does not suit the matrix")
        if columns > 1 and plan.kernel != "split":
            break
        y = matrix.matvec(x[:, 0])[:, None] if columns == 1 else matrix.matmat(x[:, :columns].copy())
        terms = values.astype(np.longdouble)[:, None] * x[sources, :columns].astype(np.longdouble)
        true = np.add.reduceat(terms, starts[:-1][filled], axis=0)
        most, per_entry = additions_of(matrix, columns)
        additions = np.minimum(lengths, most + per_entry * lengths)[filled]
        wrong = np.abs(y[filled] - true) / true
        assert (wrong <= 1.01 * UNIT * (additions + 1)[:, None]).all()
        assert (y[~filled] == 0).all()


def test_a_run_has_the_same_bits_again():
    first, second = (pagerank(zipf_graph(8), tol=1e-11, device="cuda", method="anderson") for _ in range(2))
    assert first.scores.tobytes() == second.scores.tobytes()
    assert first.error_bound == second.error_bound
    walks = [
        random_walk(zipf_graph(8), list(range(9)), tol=1e-10, batch=9, top=None, device="cuda")
        for _ in range(2)
    ]
    assert walks[0].scores.tobytes() == walks[1].scores.tobytes()


def test_a_step_that_was_foreseen_is_the_same():
    graph, found = zipf_graph(9), []
    for ahead in (False, True):
        walk = GpuTransitions(graph, False).walk(0.85, Restarts())
        walk.place(0)
        slot, norms = 0, []
        for _ in range(12):
            norms.append(walk.light_step([slot], None, 9, 1 - slot, plain_next=ahead)[0])
            slot = 1 - slot
        products = walk.products([0, 1], [1, None])
        mixed = np.array([[0.75], [0.25]])
        norms.append(walk.light_step([slot, 1 - slot], mixed, 3, 2, plain_next=ahead)[0])
        norms.append(walk.light_step([3], None, 9, 4)[0])  # not as it was foreseen
        norms += walk.exact_step(4, 0).tolist()
        found.append((norms, products.tolist(), walk.scores(0, [0])[0].tolist(), walk.rounding().tolist()))
        walk.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("columns", few([1, 3, 8, 32], 2))
def test_each_step_is_that_of_the_cpu(columns):
    graph = zipf_graph(10, weights=columns == 3)
    nodes = np.arange(columns)
    restarts = Restarts(nodes=nodes, shares=np.ones(columns), columns=nodes, n_columns=columns)
    walks = [kind(graph, columns == 3).walk(0.85, restarts) for kind in (GpuTransitions, HostTransitions)]
    for walk in walks:
        walk.place(0)
    for step in range(6):
        norms = [walk.light_step([step], None, 9, step + 1) for walk in walks]
        assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    inner = [walk.products(range(6, 0, -1), range(5, -1, -1)) for walk in walks]
    lengths = np.sqrt(np.diagonal(inner[1]).T)  # of each difference of each column
    allowed = 1e-3 * lengths[:, None] * lengths[None, :] + 1e-12
    assert np.all(np.abs(inner[0] - inner[1]) <= allowed)
    norms = [walk.exact_step(6, 0) for walk in walks]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3, abs=1e-7)
    for column in range(columns):
        scores = [walk.scores(0, [column])[0] for walk in walks]
        assert np.abs(scores[0] - scores[1]).sum() < 1e-5
        ((found, values),) = walks[0].top(0, [column], 50)
        order = np.lexsort((np.arange(graph.n_nodes), -scores[0]))[:50]
        assert found.tolist() == order.tolist()
        assert values.tolist() == scores[0][order].tolist()


def test_ties_are_in_the_order_of_the_labels():
    n = sized(500, 70_000)
    graph = Graph((np.arange(n - 1), np.arange(1, n)), n_nodes=n)
    walk = GpuTransitions(graph, False).walk(0.5, Restarts())
    start = np.random.default_rng(11).integers(1, 5, n) / 1000.0
    start[:3] = [0.0, 1e-300, 0.7]
    walk.place(0, start)
    for count in (1, 2, 7, 2 * n // 7, n, n + 5):
        ((nodes, values),) = walk.top(0, [0], count)
        order = np.lexsort((np.arange(n), -start))[:count]
        assert nodes.tolist() == order.tolist()
        assert values.tolist() == start[order].tolist()


@pytest.mark.parametrize("columns", [1, 3, 16, 20])
def test_lists_of_several_walks_are_those_of_sorted_scores(columns):
    n = sized(3000, 90_000)
    graph = Graph((np.arange(n - 1), np.arange(1, n)), n_nodes=n)
    rng = np.random.default_rng(columns)
    # All but the last column have scores in many nodes, some of them equal.
    nodes = [rng.choice(n, n // 2, replace=False) for _ in range(columns - 1)] + [np.arange(7)]
    given = Restarts(
        nodes=np.concatenate(nodes),
        shares=np.concatenate([rng.integers(1, 2000, len(each)) / 4096.0 for each in nodes]),
        columns=np.repeat(np.arange(columns), [len(each) for each in nodes]),
        n_columns=columns,
    )
    walk = GpuTransitions(graph, False).walk(0.5, given)
    walk.place(0)
    chosen = [*range(0, columns - 1, 2), columns - 1]
    for count in (1, 5, 20, n // 3):
        scores = walk.scores(0, chosen)
        for (found, values), expected in zip(walk.top(0, chosen, count), scores, strict=True):
            order = np.lexsort((np.arange(n), -expected))[:count]
            assert found.tolist() == order.tolist()
            assert values.tolist() == expected[order].tolist()


@pytest.mark.parametrize("weights", [False, True])
def test_hits_are_those_of_the_cpu(weights):
    graph = zipf_graph(12, weights=weights)
    there, here = (hits(graph, tol=1e-12, device=device) for device in ("cuda", "cpu"))
    assert there.status == here.status == "converged"
    assert there.singular_value == pytest.approx(here.singular_value, rel=1e-12)
    assert there.hubs == pytest.approx(here.hubs, abs=1e-9)
    assert there.authorities == pytest.approx(here.authorities, abs=1e-9)


def test_a_basis_is_orthonormal():
    pair = GpuPair(zipf_graph(13), False)
    basis, arrays = [], []
    vector = pair.start()
    for _ in range(19):
        vector, length = pair.orthogonalise(vector, basis)
        assert length > 0
        basis.append(vector)
        arrays.append(pair._basis.get(vector))
        vector = pair.authorities(pair.hubs(vector))
    B = np.array(arrays)
    assert np.abs(B @ B.T - np.eye(19)).max() < 1e-13
    factors = np.random.default_rng(14).standard_normal(19)
    assert pair._basis.get(pair.combine(basis, factors)) == pytest.approx(factors @ B, abs=1e-13)
    for sign in (1.0, -1.0):  # the first vector has equal entries, the sums of the others are 0
        mixture = np.array([0.2, 1.0]) * sign
        expected = np.maximum(mixture @ B[:2] * sign, 0.0)
        scores = pair.authority_scores(pair.combine(basis[:2], mixture))
        assert scores == pytest.approx(expected / expected.sum(), abs=1e-14)
    assert pair.distance(basis[0], 0.5, basis[1]) == pytest.approx(np.sqrt(1.25))
    inside, length = pair.orthogonalise(basis[3], basis)
    assert length < 1e-15
    assert np.isfinite(pair._basis.get(inside)).all()


def test_parts_of_a_cycle_go_back_in_any_order():
    class Holder:
        pass

    for order in ("basis matrix", "matrix basis"):
        held, pair = Holder(), GpuPair(zipf_graph(13), False)
        vector, _ = pair.orthogonalise(pair.start(), [])
        values = {"basis": (pair, vector), "matrix": pair._basis.matrix}
        for name in order.split():
            setattr(held, name, values[name])
        held.itself = held
        del held, pair, vector, values
        gc.collect()
    assert pagerank(zipf_graph(13), device="cuda").status == "converged"


def test_small_and_empty_graphs():
    for edges, n in ((([], []), 1), (([], []), 50), (([0], [0]), 1), (([0, 1], [1, 0]), 2)):
        graph = Graph(tuple(np.array(end, int) for end in edges), n_nodes=n)
        found = pagerank(graph, device="cuda")
        assert found.status == "converged"
        assert found.scores == pytest.approx(pagerank(graph, device="cpu").scores, abs=1e-12)
    empty = Graph((np.zeros(0, int), np.zeros(0, int)), n_nodes=0)
    assert pagerank(empty, device="cuda").scores.shape == (0,)


def test_scores_are_those_of_networkx():
    nx = pytest.importorskip("networkx")
    known = nx.gnp_random_graph(300, 0.02, seed=1, directed=True)
    expected = nx.pagerank(known, tol=1e-13 / 300, max_iter=1000)
    found = pagerank(Graph(known), tol=1e-11, device="cuda").to_dict()
    assert found == pytest.approx(expected, abs=1e-10)


def test_walks_give_their_memory_back():
    graph = zipf_graph(15)
    pagerank(graph, device="cuda")
    light = choose.transitions_of(graph, False, "cuda")[0].resident(1).nodes.main
    before = light.report()["bytes"]
    for _ in range(3):
        pagerank(graph, device="cuda")
    assert light.report()["bytes"] == before
    predicted = cuda.predict_walk_bytes(graph.n_nodes, 1, gpu.MAX_IMAGES)
    walk = choose.transitions_of(graph, False, "cuda")[0].walk(0.85, Restarts())
    walk.place(0)
    for step in range(gpu.MAX_IMAGES - 1):
        walk.light_step([step], None, 99, step + 1, plain_next=True)
    walk.products(range(8, 0, -1), range(7, -1, -1))
    assert light.report()["bytes"] - before <= predicted
    walk.exact_step(8, 0)
    walk.close()
    assert light.report()["bytes"] == before


@pytest.mark.parametrize("weights", [False, True])
def test_a_graph_with_room_for_one_matrix_takes_light_steps_in_it(monkeypatch, weights, caplog):
    def graph():
        return zipf_graph(11, weights=weights)

    here, n = pagerank(graph(), tol=1e-11, device="cpu"), graph().n_nodes
    vectors = cuda.predict_walk_bytes(n, 1, gpu.MAX_IMAGES)
    exact = gpu.format_bytes(GpuTransitions(graph(), weights)._edges, np.float64)
    for room, streams in ((exact + 100, False), (exact * 3 // 4, True)):
        monkeypatch.setattr(gpu, "usable_bytes", lambda device, limit, room=room: vectors + room)
        other = graph()
        with caplog.at_level("INFO", "bmrm"):
            there = pagerank(other, tol=1e-11, device="cuda")
        assert there.status == "converged"
        assert np.abs(there.scores - here.scores).sum() <= there.error_bound + here.error_bound
        assert ("stream from pinned host memory" in caplog.text) == streams
        assert choose.transitions_of(other, weights, "cuda")[0].resident(1).nodes.light is None
    monkeypatch.setattr(work.MatrixWork, "compare", lambda self, find_gpu: (True, "for this test"))
    for room in (exact // 4, -1):  # most would stream; not even the vectors fit
        monkeypatch.setattr(gpu, "usable_bytes", lambda device, limit, room=room: vectors + room)
        with pytest.warns(UserWarning, match="using the CPU"):
            found = pagerank(graph(), tol=1e-11)
        assert (found.status, found.placement.device) == ("converged", "cpu")
        assert "of device memory" in found.placement.reason or "slower" in found.placement.reason
    with pytest.raises(DeviceMemoryError, match="too little"):
        pagerank(graph(), device="cuda")


@pytest.mark.parametrize("task", ["pagerank", "rwr", "hits"])
def test_a_limit_of_device_memory_streams_what_is_above_it(task, caplog):
    n, columns = 400, 4 if task == "rwr" else 1
    graph = Graph(np.random.default_rng(5).integers(0, n, (80_000, 2)), n_nodes=n)
    edges = GpuTransitions(graph, False)._edges
    size = gpu.format_bytes(edges, np.float64, transpose=task == "hits")
    vectors = cuda.predict_walk_bytes(n, columns, gpu.MAX_IMAGES, n)
    if task == "hits":
        vectors = 8 * n * gpu.MAX_BASIS_VECTORS + gpu.BASIS_NODE_BYTES * n

    def run(**options):
        if task == "hits":
            found = hits(graph, tol=1e-11, **options)
            return found.authorities
        if task == "pagerank":
            return pagerank(graph, tol=1e-11, **options).scores
        return random_walk(graph, [0, 1, 2, 3], tol=1e-11, top=None, **options).scores

    here = run(device="cpu")
    for limit, streams in ((2 * size + vectors + 1000, False), (size * 3 // 4 + vectors, True)):
        caplog.clear()
        with caplog.at_level("INFO", "bmrm"):
            there = run(device="cuda", gpu_mem=limit)
        assert np.abs(there - here).sum() <= 1e-8
        assert ("stream from pinned host memory" in caplog.text) == streams
    for limit in (vectors // 2, vectors + 16):  # no room for vectors, or for a block
        with pytest.raises(DeviceMemoryError, match=r"^[^\n]*device memory[^\n]*$"):
            run(device="cuda", gpu_mem=limit)


def test_a_batch_has_as_many_walks_as_there_is_room_for(monkeypatch):
    graph = zipf_graph(8)
    resident = choose.transitions_of(graph, False, "cuda")[0]
    matrices = sum(gpu.format_bytes(resident._edges, kind) for kind in (np.float32, np.float64))
    for most in (32, 16, 8):
        limit = matrices + cuda.predict_walk_bytes(graph.n_nodes, most, gpu.MAX_IMAGES, graph.n_nodes)
        assert GpuTransitions(zipf_graph(8), False, limit=limit).batch == most
    assert GpuTransitions(zipf_graph(8), False, limit=limit - 1).batch == 8
    found = []
    monkeypatch.setattr(
        GpuTransitions, "walk", lambda self, *given: found.append(given[1].n_columns) or GpuWalk(self, *given)
    )
    walks = random_walk(graph, list(range(40)), top=None, device="cuda")
    assert found == [32, 8]
    assert (
        walks.scores.tobytes()
        == random_walk(graph, list(range(40)), top=None, batch=32, device="cuda").scores.tobytes()
    )


@pytest.mark.parametrize("size", [0, -5, "8X", True])
def test_a_limit_that_is_no_size_is_refused(size):
    for run in (pagerank, hits, lambda graph, **options: random_walk(graph, 0, **options)):
        with pytest.raises(ParameterError, match=r"^gpu_mem: found .*, expected bytes, or a size"):
            run(([0, 1], [1, 0]), gpu_mem=size)


def test_sums_have_no_more_additions_than_are_counted():
    for n, columns in ((1, 1), (700, 1), (700, 3), (10**6, 32), (10**8, 1)):
        counted = cuda.count_walk_additions(n, columns)
        assert counted <= n + 100
        assert Fraction(counted) >= np.log2(n + 1)


@pytest.mark.parametrize("columns", [2, 3, 8, 9, 32])
def test_several_vectors_whatever_the_rows(columns):
    rng = np.random.default_rng(columns)
    longest = [0, 0, 700, 1, 0, 256, 0, 3000, 5, 251, 512, 0, 0, 44, 2304, 1, 0]
    for lengths in (longest, rng.integers(0, 40, 300), [0, 2048], [2048, 0, 1], [1], [0, 5000]):
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices = rng.integers(0, 500, indptr[-1])
        for data in (np.ones(len(indices)), rng.standard_normal(len(indices))):
            X = sp.csr_array((data, indices, indptr), (len(lengths), 500))
            x = rng.standard_normal((500, columns))
            there = upload(
                Csr(indptr, indices.astype(np.int32), data, X.shape), 0, np.float64, 0, plan="split"
            )
            assert there.matmat(x) == pytest.approx(X @ x, abs=1e-9)


def test_threads_may_share_a_graph():
    from concurrent.futures import ThreadPoolExecutor

    graph = zipf_graph(16)
    expected = pagerank(graph, device="cuda").scores
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: pagerank(graph, device="cuda").scores, range(8)))
    assert all(scores.tobytes() == expected.tobytes() for scores in found)


@pytest.mark.skipif(not IS_EMULATED, reason="there is a CUDA device")
def test_without_a_device_the_error_suggests_the_cpu():
    emulated.configure(0)
    graph = Graph((np.array([0, 1]), np.array([1, 0])))
    for run in (pagerank, hits, lambda *a, **k: random_walk(*a, [0], **k)):
        with pytest.raises(BmrmError, match="device='cpu'"):
            run(graph, device="cuda")


def test_devices_that_do_not_exist_are_refused():
    graph = Graph((np.array([0, 1]), np.array([1, 0])))
    for run in (pagerank, hits, lambda *a, **k: random_walk(*a, [0], **k)):
        with pytest.raises(ParameterError, match="device: found 'gpu'"):
            run(graph, device="gpu")


def test_the_additions_of_a_plan_have_an_entry_for_each_kernel():
    for kernel in cuda.KERNELS:
        most, per_entry = row_additions({"kernel": kernel, "lanes": 2, "cap": 16}, 1)
        assert 0 <= most < 3000
        assert 0 < per_entry <= 1
