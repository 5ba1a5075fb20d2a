"""Graphs over several ranks, whose GPUs they may have to share, and graphs larger than a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import mpi
import numpy as np
import pytest
from devices import IS_EMULATED, cuda, gpu, large, sized

from bmrm.graph import Graph, hits, pagerank, random_walk, read_graph
from bmrm.graph.backends.gpu import MAX_BASIS_VECTORS, MAX_IMAGES, GpuPair, GpuTransitions

pytestmark = gpu

ROOM = sized(100_000, 4_000_000)
"""Bytes of device memory for a matrix that takes more."""


def test_emulated_ranks_find_what_one_process_does_however_vectors_go():
    """By main memory, and by what stands for NCCL in each order of the streams, with the same bits."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    if not IS_EMULATED:
        pytest.skip("only emulated ranks may have one GPU or two")
    program, found = Path(__file__).with_name("gpu_shard_program.py"), []
    for devices, ahead in ((1, 0), (2, 0), (2, 1)):
        done = mpi.run(2, program, devices, ahead, own_job=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert len({bits for bits, _ in found}) == 1
    assert [way for _, way in found] == ["MPI", "NCCL", "NCCL"]


@large
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_find_what_one_process_does_with_the_same_bits_each_time(ranks):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    program = Path(__file__).with_name("gpu_shard_program.py")
    found = [mpi.run(ranks, program, own_job=True) for _ in range(2 if ranks == 2 else 1)]
    assert [done.returncode for done in found] == [0] * len(found), found[0].stderr
    assert len({done.stdout for done in found}) == 1
    assert found[0].stdout.split()[1] == ("NCCL" if cuda.device_count() >= ranks else "MPI")


@large  # other processes
def test_the_command_on_ranks_uses_their_gpus(tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    rng, path = np.random.default_rng(2), tmp_path / "edges"
    path.write_text("".join(f"{u} {v}\n" for u, v in (900 * rng.random((5000, 2)) ** 2).astype(int)))
    code = "import sys; from bmrm.cli.graph import main; sys.exit(main())"
    for task in ("pagerank", "hits"):
        words = [task, path, "--device", "cuda", "--json", "--tol", "1e-10"]
        done = mpi.run(2, "-c", code, *words, own_job=True)
        assert (done.returncode, done.stderr) == (0, "")
        report = json.loads(done.stdout)
        assert report["status"] == "converged"
        alone = pagerank(read_graph(path), tol=1e-10, device="cpu")
        if task == "pagerank":
            assert [node for node, _ in report["top"]][:5] == [node for node, _ in alone.top(5)]


def large_graph(weights):
    rng = np.random.default_rng(1)
    n, edges = sized((1000, 60_000), (50_000, 3_000_000))
    source, target = rng.integers(0, n * 4 // 5, edges), (n * rng.random(edges) ** 2).astype(int)
    arrays = (source, target, rng.uniform(0, 2, edges)) if weights else (source, target)
    return Graph(arrays, n_nodes=n, duplicates="sum" if weights else "drop")


@pytest.mark.parametrize(("weights", "columns"), [(False, 1), (True, 1), (False, 5)])
def test_a_graph_without_room_streams(weights, columns):
    graph = large_graph(weights)
    limit = ROOM + cuda.predict_walk_bytes(graph.n_nodes, columns, MAX_IMAGES)
    key = "transitions", weights, 0
    transitions = graph.resident(key, lambda: GpuTransitions(graph, weights, 0, limit))
    nodes = transitions.resident(columns).nodes
    assert nodes.light is None
    assert nodes.exact.host_bytes > 0
    if columns == 1:
        here, there = (pagerank(graph, tol=1e-10, device=device) for device in ("cpu", "cuda"))
        assert here.status == there.status == "converged"
        assert np.abs(here.scores - there.scores).sum() <= here.error_bound + there.error_bound
    else:
        here, there = (
            random_walk(graph, list(range(columns)), top=None, tol=1e-9, batch=columns, device=device)
            for device in ("cpu", "cuda")
        )
        assert here.status == there.status
        apart = np.abs(here.scores - there.scores).sum(0)
        assert (apart <= here.error_bound + there.error_bound).all()
    assert nodes.exact.report()["peak_bytes"] <= limit


def test_hits_of_a_graph_without_room_stream():
    graph = large_graph(weights=False)
    limit = 2 * ROOM + 8 * graph.n_nodes * (MAX_BASIS_VECTORS + 1)
    pair = graph.resident(("pair", False, 0), lambda: GpuPair(graph, False, 0, limit))
    assert pair.matrix.host_bytes > 0
    here, there = (hits(graph, tol=1e-10, device=device) for device in ("cpu", "cuda"))
    assert there.singular_value == pytest.approx(here.singular_value, rel=1e-10)
    assert there.authorities == pytest.approx(here.authorities, abs=1e-8)
