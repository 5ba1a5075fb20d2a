"""Walks on a graph over 1, 2 … GPUs of one host, one rank each.

    python -m benchmarks.ranks.scaling_graph_gpu [--gpus 1,2] [--graphs rmat] [--nodes 5000000]
        [--edges 77000000] [--out FILE]

Every run is `mpiexec -n R`. Each rank draws the whole graph on its GPU (graph_gpu.py), keeps its share of the
edges, and the ranks build the graph together. All times are of the slowest rank, medians of some rounds:

step     a plain light step with all vector work and the exchange of messages, 40 of them one after another
by NCCL  the same, with messages by NCCL where GPUs otherwise write them to each other's memory
bare     a step on a ring of as many nodes: the exchange and the passes, with almost no product
walks    a step of 8 walks together
exact    an exact step
begin    what a call does before its first step and after its last one
end      all scores, in the order of the labels, in each process
pagerank to a proven error of 1e-8, with all scores in each process; those of one GPU and of several agree;
hits     to a residual of 1e-8

The results also say where a whole call of either spends its time on the first rank.

Needs CuPy and an mpiexec.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.ranks import mpi_words
from benchmarks.ranks.scaling_gpu import NO_BINDING

DAMPING = 0.85
TOL = 1e-8
STEPS = 40
ROUNDS = 5
WALKS = 8
WANTED = {2: 1.6}
TIMES = ("step", "by NCCL", "bare", "walks", "exact", "begin", "end", "pagerank", "hits")

OF_WALK = ("light_step", "exact_step", "scores")
OF_PAIR = ("start", "authorities", "hubs", "orthogonalise", "distance", "hub_scores", "authority_scores")
"""Methods that a call of PageRank and of HITS is made of."""

SECTIONS = """
## Graphs over several GPUs

{rows[0][gpu]}s of one host, one rank each; {rows[0][nodes]} nodes and {rows[0][edges]} edges. `step` is a
light step with all vector work and the messages; `bare` is one on a ring of as many nodes, almost without a
product; `walks` is a step of 8 walks; `begin` is what a call does before its first step and after its last
one, `end` the way of all scores to each process; PageRank to a proven 1e-8, with all scores in each
process, and HITS to 1e-8. Times of the slowest rank, medians.

[rows] each step, by NCCL, exact, end, begin, pagerank, hits, walks, bare
graph = {graph} | GPUs = {gpus} | messages by = {vectors_by:*/none} | part = @ | ms = {seconds[@]:.3f ms} |
faster = {faster[@]:.2f}

[aims]
"""


def spent_in(call: Callable[[], Any], owner: type, names: Sequence[str]) -> dict[str, float]:
    """Return the seconds of a call within methods of a class, and the rest."""
    found = dict.fromkeys(names, 0.0)
    plain = {name: getattr(owner, name) for name in found}

    def timed(name: str) -> Callable[..., Any]:
        def method(*given: Any, **keywords: Any) -> Any:
            began = time.perf_counter()
            value = plain[name](*given, **keywords)
            found[name] += time.perf_counter() - began
            return value

        return method

    for name in plain:
        setattr(owner, name, timed(name))
    began = time.perf_counter()
    kept = call()
    found["rest"] = time.perf_counter() - began - sum(found.values())
    del kept
    for name, method in plain.items():
        setattr(owner, name, method)
    return found


def work(options: argparse.Namespace) -> None:
    """Measure on this rank; on the first rank, write the measurements."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    import cupy

    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    from benchmarks.gpu.graph_gpu import draw_graph
    from bmrm.distributed import Group
    from bmrm.graph import Graph, GraphShard, hits, pagerank
    from bmrm.graph.backends.base import Restarts
    from bmrm.graph.backends.choose import transitions_of
    from bmrm.graph.backends.gpu import GpuPair, GpuTransitions, GpuWalk

    group = Group(world)

    def build(parts: tuple[Any, Any], **keywords: Any) -> Graph:
        if size == 1:
            return Graph(parts, **keywords)
        share = slice(len(parts[0]) * rank // size, len(parts[0]) * (rank + 1) // size)
        return GraphShard(tuple(part[share] for part in parts), comm=group, **keywords)

    def slowest(call: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, Any]:
        times, value = [], None
        for _ in range(rounds + 1):
            world.Barrier()
            began = time.perf_counter()
            found = call()
            cupy.cuda.Device().synchronize()
            times.append(world.allreduce(time.perf_counter() - began, op=MPI.MAX))
            value = found  # frees the result before, which is no part of a call
        return statistics.median(times[1:]), value

    def step_seconds(transitions: Any, columns: int = 1) -> tuple[float, bool]:
        nodes = np.arange(columns)
        restarts = Restarts()
        if columns > 1:
            restarts = Restarts(nodes=nodes, shares=np.ones(columns), columns=nodes, n_columns=columns)
        walk = transitions.walk(DAMPING, restarts)
        walk.place(0)

        def steps() -> None:
            for step in range(STEPS):
                walk.light_step([step % 2], None, 2, 1 - step % 2, plain_next=step + 1 < STEPS)

        seconds, _ = slowest(steps)
        has_window = walk.has_window
        walk.close()
        return seconds / STEPS, has_window

    def parts_of_a_run(graph: Graph) -> dict[str, float]:
        def begin() -> Any:
            walk = transitions_of(graph, False, "cuda")[0].walk(DAMPING, Restarts())
            walk.place(0)
            return walk

        walk = begin()
        found = {"exact": slowest(lambda: walk.exact_step(0, 0))[0]}
        found["end"], _ = slowest(lambda: walk.scores(0, [0]))
        walk.close()
        found["begin"], _ = slowest(lambda: begin().close())
        return found

    began = time.perf_counter()
    source, target = (cupy.asnumpy(end) for end in draw_graph(options.graph, options.nodes, options.edges))
    cupy.get_default_memory_pool().free_all_blocks()
    graph = build((source, target))
    del source, target
    built = time.perf_counter()
    resident: Any = transitions_of(graph, False, "cuda")[0]
    nodes = resident.resident(1).nodes
    uploaded = time.perf_counter()
    seconds = {}
    seconds["step"], has_window = step_seconds(resident)
    seconds["by NCCL"] = seconds["step"]
    if has_window:
        graph.peers.windows = False  # type: ignore[attr-defined]
        seconds["by NCCL"], _ = step_seconds(GpuTransitions(graph, False, nodes.exact.device))
        graph.peers.windows = True  # type: ignore[attr-defined]
    parts = {
        name: (matrix.nnz, 1e6 * matrix.time("normal"))
        for name, matrix in (("near", nodes.light), ("far", nodes.rest), ("exact", nodes.exact))
        if matrix is not None
    }
    seconds |= parts_of_a_run(graph)
    seconds["pagerank"], found = slowest(lambda: pagerank(graph, DAMPING, tol=TOL, device="cuda"), 3)
    again = pagerank(graph, DAMPING, tol=TOL, device="cuda")
    world.Barrier()
    of_pagerank = spent_in(lambda: pagerank(graph, DAMPING, tol=TOL, device="cuda"), GpuWalk, OF_WALK)
    seconds["hits"], pair = slowest(lambda: hits(graph, tol=TOL, device="cuda"), 3)
    world.Barrier()
    of_hits = spent_in(lambda: hits(graph, tol=TOL, device="cuda"), GpuPair, OF_PAIR)
    seconds["walks"], _ = step_seconds(transitions_of(graph, False, "cuda", WALKS)[0], WALKS)
    places = np.arange(graph.n_nodes, dtype=np.int32)
    ring = build((places, np.roll(places, -1)), n_nodes=graph.n_nodes)
    seconds["bare"], _ = step_seconds(transitions_of(ring, False, "cuda")[0])
    everyones = group.everyones((graph.own.stop - graph.own.start, len(graph.edges_by_target[1]), parts))
    if rank == 0:
        scores = Path(options.scores)
        if not scores.exists():
            np.save(scores, found.scores)
        apart = float(np.abs(np.load(scores) - found.scores).sum())
        assert found.status == "converged", found.status
        assert apart <= 2 * TOL, apart
        linked = None if size == 1 else graph.peers.linked_by  # type: ignore[attr-defined]
        linked = "writes" if has_window else linked
        facts = {
            "gpus": size,
            "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
            "vectors_by": linked,
            "nodes": graph.n_nodes,
            "edges": graph.n_edges,
            "of_ranks": everyones,
            "seconds": seconds,
            "of_pagerank": of_pagerank,
            "of_hits": of_hits,
            "draw_and_build_seconds": built - began,
            "resident_seconds": uploaded - built,
            "n_iter": found.n_iter,
            "error_bound": found.error_bound,
            "apart": apart,
            "hits_status": pair.status,
            "hits_steps": pair.n_iter,
            "bit_identical": found.scores.tobytes() == again.scores.tobytes(),
        }
        Path(options.worker).write_text(json.dumps(facts))


def run(options: argparse.Namespace, graph: str, gpus: int, folder: str) -> dict[str, Any]:
    """Return the measurements on a number of GPUs."""
    found, scores = str(Path(folder) / f"{gpus}.json"), str(Path(folder) / "scores.npy")
    words = ["--nodes", options.nodes, "--edges", options.edges, "--worker", found, "--scores", scores]
    program = [sys.executable, "-m", __spec__.name, "--graph", graph, *map(str, words)]
    environ = {**os.environ, **NO_BINDING}
    subprocess.run([*mpi_words(gpus), *program], env=environ, check=True)
    measured: dict[str, Any] = json.loads(Path(found).read_text())
    return measured


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", default="1,2", help="the first is what the others are compared with")
    parser.add_argument("--graphs", default="rmat", help="rmat, zipf, communities")
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--edges", type=int, default=77_000_000)
    parser.add_argument("--out", default=report.RESULTS / "scaling_graph_gpu.json")
    for name in ("--graph", "--scores", "--worker"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    rows: list[dict[str, Any]] = []
    figures = []
    for graph in options.graphs.split(","):
        with tempfile.TemporaryDirectory() as folder:
            each = [run(options, graph, int(gpus), folder) for gpus in options.gpus.split(",")]
        for row in each:
            row["graph"] = graph
            row["faster"] = {name: each[0]["seconds"][name] / row["seconds"][name] for name in TIMES}
            rows.append(row)
            print(
                f"{graph}, {row['gpus']} GPUs ({row['gpu']}), vectors by {row['vectors_by']}: "
                f"{row['nodes']} nodes, {row['edges']} edges\n"
                f"  built in {row['draw_and_build_seconds']:.0f} s, "
                f"resident in {row['resident_seconds']:.0f} s; pagerank in {row['n_iter']} steps, "
                f"within {row['error_bound']:.1e}, {row['apart']:.1e} from the first run, "
                f"bit-identical {row['bit_identical']}"
            )
            for name in TIMES:
                print(f"  {name:9} {1e6 * row['seconds'][name]:10.0f} us  {row['faster'][name]:5.2f} times")
            for name in ("of_pagerank", "of_hits"):
                print(f"  {name}: " + ", ".join(f"{k} {1e3 * v:.2f}" for k, v in row[name].items()))
            for number, (nodes, edges, parts) in enumerate(row["of_ranks"]):
                products = ", ".join(f"{part} {us:.0f} us of {nnz}" for part, (nnz, us) in parts.items())
                print(f"  rank {number}: {nodes} nodes, {edges} edges; {products}")
            if row["gpus"] in WANTED:
                title = f"step, {graph}: {row['gpus']} GPUs / one"
                figures.append(report.aim(title, row["faster"]["step"], WANTED[row["gpus"]]))
                print(f"  {title}: at least {WANTED[row['gpus']]}: {figures[-1]['passed']}")
        report.write(options.out, SECTIONS, rows=rows, aims=figures)


if __name__ == "__main__":
    main()
