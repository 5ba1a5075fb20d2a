"""The walks and vectors of a GPU, with their kernels run on the CPU (emulated_cuda.py)."""

from __future__ import annotations

import ctypes
import shutil
from fractions import Fraction
from pathlib import Path

import emulated_cuda
import mpi
import numpy as np
import pytest
from device_checks import check_bounds_in_exact_arithmetic, check_walks_are_those_of_the_cpu

from bmrm.errors import DeviceMemoryError
from bmrm.graph import Graph, hits, pagerank
from bmrm.graph.backends import choose, gpu
from bmrm.graph.backends.gpu import GpuPair, GpuTransitions

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@pytest.fixture(scope="session")
def library():
    return ctypes.CDLL(str(emulated_cuda.build()))


@pytest.fixture(autouse=True)
def module(library, monkeypatch):
    """Let graphs find the emulated device."""
    return emulated_cuda.install(library, monkeypatch.setattr)


def random_graph(seed, n=700, per_node=6, weights=False):
    """A graph with popular nodes, dangling ones and some without edges."""
    rng = np.random.default_rng(seed)
    source, target = (
        rng.integers(0, n * 3 // 4, n * per_node),
        (n * rng.random(n * per_node) ** 3).astype(int),
    )
    arrays = (source, target, rng.uniform(0, 2, n * per_node)) if weights else (source, target)
    return Graph(arrays, n_nodes=n, duplicates="sum" if weights else "drop")


@pytest.mark.parametrize("method", ["power", "anderson", "auto"])
@pytest.mark.parametrize("weights", [False, True])
def test_pagerank_is_that_of_the_cpu(module, method, weights):
    graph = random_graph(1, weights=weights)
    shares = np.random.default_rng(2).random((3, graph.n_nodes))
    for options in (
        {},
        {"personalization": shares[0], "dangling": shares[1]},
        {"dangling": shares[1], "start": shares[2]},
    ):
        there = pagerank(graph, tol=1e-11, method=method, device="cuda", **options)
        here = pagerank(graph, tol=1e-11, method=method, device="cpu", **options)
        assert there.status == here.status == "converged"
        assert np.abs(there.scores - here.scores).sum() <= there.error_bound + here.error_bound
        assert there.n_iter <= here.n_iter + 2
        proven = min(there.proven, here.proven, 20)
        assert [node for node, _ in there.top(proven)] == [node for node, _ in here.top(proven)]
    assert module.ahead_steps > 0


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_several_walks_are_those_of_the_cpu(count):
    check_walks_are_those_of_the_cpu(random_graph(3, n=300), count, 5)


def test_the_bound_holds_in_exact_arithmetic():
    check_bounds_in_exact_arithmetic(40)


def test_a_step_that_was_foreseen_is_the_same():
    graph = random_graph(5)
    found = []
    for ahead in (False, True):
        walk = GpuTransitions(graph, False).walk(0.85, gpu.Restarts())
        walk.place(0)
        slots, norms = 0, []
        for _ in range(12):
            into = 1 - slots
            norms.append(walk.light_step([slots], None, 9, into, plain_next=ahead)[0])
            slots = into
        products = walk.products([0, 1], [1, None])
        mixed = np.array([[0.75], [0.25]])
        norms.append(walk.light_step([slots, 1 - slots], mixed, 3, 2, plain_next=ahead)[0])
        norms.append(walk.light_step([3], None, 9, 4)[0])  # not as it was foreseen
        norms += walk.exact_step(4, 0).tolist()
        found.append((norms, products.tolist(), walk.scores(0, [0])[0].tolist(), walk.rounding().tolist()))
        walk.close()
    assert found[0] == found[1]


def test_the_largest_scores_are_in_order_with_ties_by_number():
    n = 500
    graph = Graph((np.arange(n - 1), np.arange(1, n)), n_nodes=n)
    walk = GpuTransitions(graph, False).walk(0.5, gpu.Restarts())
    start = np.random.default_rng(6).integers(1, 5, n) / 1000.0
    start[:3] = [0.0, 1e-300, 0.7]
    walk.place(0, start)
    for count in (1, 2, 7, 200, n, n + 5):
        nodes, values = walk.top(0, 0, count)
        order = np.lexsort((np.arange(n), -start))[:count]
        assert nodes.tolist() == order.tolist()
        assert values.tolist() == start[order].tolist()


def test_memory_comes_back(module):
    graph = random_graph(7)
    transitions = GpuTransitions(graph, False)
    light = transitions.resident(1).nodes.main
    before = light.used
    walk = transitions.walk(0.85, gpu.Restarts())
    walk.place(0)
    predicted = module.predict_walk_bytes(graph.n_nodes, 1, gpu.MAX_IMAGES)
    for step in range(gpu.MAX_IMAGES - 1):
        walk.light_step([step], None, 99, step + 1, plain_next=True)
    walk.products(range(8, 0, -1), range(7, -1, -1))
    assert light.used - before <= predicted
    walk.exact_step(8, 0)
    walk.close()
    assert light.used == before


@pytest.mark.parametrize("weights", [False, True])
def test_hits_are_those_of_the_cpu(weights):
    graph = random_graph(8, weights=weights)
    there, here = (hits(graph, tol=1e-12, device=device) for device in ("cuda", "cpu"))
    assert there.status == here.status == "converged"
    assert there.singular_value == pytest.approx(here.singular_value, rel=1e-12)
    assert there.hubs == pytest.approx(here.hubs, abs=1e-9)
    assert there.authorities == pytest.approx(here.authorities, abs=1e-9)


def test_a_basis_is_orthonormal_and_its_sums_are_right():
    graph = random_graph(9)
    pair = GpuPair(graph, False)
    basis, arrays = [], []
    vector = pair.start()
    for _ in range(19):
        vector, length = pair.orthogonalise(vector, basis)
        basis.append(vector)
        arrays.append(pair.authority_scores(vector))
        assert length > 0
        vector = pair.authorities(pair.hubs(vector))
    B = np.array(arrays)
    assert np.abs(B @ B.T - np.eye(19)).max() < 1e-13
    factors = np.random.default_rng(10).standard_normal(19)
    assert pair.authority_scores(pair.combine(basis, factors)) == pytest.approx(factors @ B, abs=1e-13)
    assert pair.distance(basis[0], 0.5, basis[1]) == pytest.approx(np.sqrt(1.25))
    inside, length = pair.orthogonalise(basis[3], basis)
    assert length < 1e-15
    assert np.isfinite(pair.authority_scores(inside)).all()


@pytest.mark.parametrize("weights", [False, True])
def test_a_graph_with_room_for_one_matrix_takes_light_steps_in_it(module, weights, caplog):
    graph = random_graph(11, weights=weights)
    here = pagerank(graph, tol=1e-11, device="cpu")
    vectors = module.predict_walk_bytes(graph.n_nodes, 1, gpu.MAX_IMAGES)
    exact = graph.n_edges * (10 if weights else 2) + 4 * (graph.n_nodes + 1)
    for room, streams in ((exact + 100, False), (exact * 3 // 4, True)):
        module.free_bytes = (vectors + room) / gpu.FREE_SHARE
        other = random_graph(11, weights=weights)
        with caplog.at_level("INFO", "bmrm"):
            there = pagerank(other, tol=1e-11, device="cuda")
        assert there.status == "converged"
        assert np.abs(there.scores - here.scores).sum() <= there.error_bound + here.error_bound
        assert ("stream from main memory" in caplog.text) == streams
        assert choose.transitions_of(other, weights, "cuda")[0].resident(1).nodes.light is None
    for room in (exact // 4, -1):  # most would stream; not even the vectors fit
        module.free_bytes = (vectors + room) / gpu.FREE_SHARE
        with pytest.warns(UserWarning, match="using the CPU"):
            found = pagerank(random_graph(11, weights=weights), tol=1e-11)
        assert (found.status, found.placement.device) == ("converged", "cpu")
        assert "of device memory" in found.placement.reason or "slower" in found.placement.reason
    with pytest.raises(DeviceMemoryError, match="too little"):
        pagerank(random_graph(11, weights=weights), device="cuda")


def test_ranks_find_what_one_process_does_however_vectors_go(library):
    """By main memory, and by what stands for NCCL, with the same bits."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    program, found = Path(__file__).with_name("gpu_shard_program.py"), []
    for more in ((), (emulated_cuda.build_nccl(),)):
        done = mpi.run(2, program, library._name, *more)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found[0][0] == found[1][0]
    assert [way for _, way in found] == ["MPI", "NCCL"]


def test_sums_have_no_more_additions_than_are_counted(module):
    for n, columns in ((1, 1), (700, 1), (700, 3), (10**6, 32), (10**8, 1)):
        counted = module.count_walk_additions(n, columns)
        assert counted <= n + 100
        assert Fraction(counted) >= np.log2(n + 1)


@pytest.mark.parametrize("columns", [2, 3, 8, 9, 32])
def test_several_vectors_whatever_the_rows(library, columns):
    sp = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(columns)
    longest = [0, 0, 700, 1, 0, 256, 0, 3000, 5, 251, 512, 0, 0, 44, 2304, 1, 0]
    for lengths in (longest, rng.integers(0, 40, 300), [0, 2048], [2048, 0, 1], [1], [0, 5000]):
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices = rng.integers(0, 500, indptr[-1])
        for data in (np.ones(len(indices)), rng.standard_normal(len(indices))):
            X = sp.csr_array((data, indices, indptr), (len(lengths), 500))
            x = rng.standard_normal((500, columns))
            assert emulated_cuda.multiply(library, X, x) == pytest.approx(X @ x, abs=1e-9)
