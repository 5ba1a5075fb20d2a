"""Graphs of which a GPU may hold half: all other edges stream, or the CPU multiplies by a share of them.

    python -m benchmarks.gpu.both_graphs [--nodes 500000] [--edges 60000000] [--out FILE]

PageRank and 8 random walks to a proven error of 1e-8, and HITS to a residual of 1e-8, with and without
weights. `gpu_mem` is the vectors and half of the matrix in float64. Medians of whole calls by the CPU's share
of the edges that do not fit, in eighths; the matrix is there already. Results of all shares must agree.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import report
from bmrm.base.threads import usable_cores
from bmrm.graph import Graph, hits, pagerank, random_walk
from bmrm.graph.backends.gpu import (
    BASIS_NODE_BYTES,
    MAX_BASIS_VECTORS,
    MAX_IMAGES,
    GpuTransitions,
    format_bytes,
)
from bmrm.matrix.gpu.devices import import_cuda

TOL = 1e-8
WALKS = 8
SHARES: tuple[int | str, ...] = (0, 2, 4, 6, "auto")  # of the CPU, in eighths
REPEATS = 3
DANGLING = 0.1  # share of the nodes

SECTIONS = """
## Graphs that do not fit, on both devices

{gpu} and {cores} cores; {nodes} nodes, {edges} edges to popular nodes. The GPU may hold half of the matrix
in float64, besides all vectors. Whole calls to 1e-8 with the matrix in its places, by the CPU's share of the
edges that do not fit, in eighths; sparse rows have none by "auto".

[rows]
task = {task} | weights = {weighted:yes/no} | matrix, MB = {bytes:.0f MB} |
blocks that do not fit, of the CPU at 4/8 = {streamed}, {on_cpu} |
ms alone, auto = {ms[of_0]:.1f}, {ms[of_auto]:.1f} |
2/8, 4/8, 6/8 = {ms[of_2]:.1f}, {ms[of_4]:.1f}, {ms[of_6]:.1f} |
alone / best = {ratio:.2f}
"""


def draw(nodes: int, edges: int) -> Graph:
    """Return a graph with weights, popular targets and dangling nodes."""
    rng = np.random.default_rng(1)
    source = rng.integers(0, int((1 - DANGLING) * nodes), edges, np.int32)
    target = (nodes * rng.random(edges) ** 2).astype(np.int32)
    return Graph((source, target, 0.5 + rng.random(edges)), n_nodes=nodes, duplicates="sum")


def bounded(here: Any, there: Any) -> bool:
    """Whether scores differ by no more than both bounds together."""
    apart = np.abs(here.scores - there.scores).sum(axis=0)
    return bool(np.all(apart <= here.error_bound + there.error_bound))


def near(here: Any, there: Any) -> bool:
    """Whether hubs and authorities are about the same."""
    return all(
        np.abs(getattr(here, side) - getattr(there, side)).sum() < 1e-5 for side in ("hubs", "authorities")
    )


def tasks(nodes: int) -> dict[str, tuple[Callable[..., Any], Callable[[Any, Any], bool], int]]:
    """Return what runs a task, whether two results agree, and the bytes of its vectors on the GPU."""
    walk_bytes = partial(import_cuda().predict_walk_bytes, nodes)
    walks = partial(random_walk, queries=list(range(WALKS)), top=None, batch=WALKS)
    return {
        "PageRank": (pagerank, bounded, walk_bytes(1, MAX_IMAGES, nodes)),
        "8 walks": (walks, bounded, walk_bytes(WALKS, MAX_IMAGES, nodes)),
        "HITS": (hits, near, nodes * (8 * MAX_BASIS_VECTORS + BASIS_NODE_BYTES)),
    }


def measured(graph: Graph, task: str, *, weighted: bool) -> dict[str, Any]:
    """Measure a task by the CPU's share."""
    run, agree, vectors = tasks(graph.n_nodes)[task]
    edges = GpuTransitions(graph, weighted)._edges
    size = format_bytes(edges, np.float64, transpose=task == "HITS")
    options = {"weighted": weighted, "tol": TOL, "device": "cuda", "gpu_mem": vectors + size // 2}
    times: dict[str, float] = {}
    blocks, first = ["-"] * 3, None
    for share in SHARES:
        part = share if isinstance(share, str) else share / 8
        calls = [run(graph, cpu_share=part, **options) for _ in range(1 + REPEATS)]  # the first uploads
        times[f"of_{share}"] = 1e3 * statistics.median(call.seconds for call in calls[1:])
        first = first or calls[0]
        assert agree(first, calls[-1])
        note = calls[0].placement.reason.partition("the CPU computes ")[2]
        blocks = note.split()[:3] if share == 4 else blocks
        print(task, weighted, share, times[f"of_{share}"], note, flush=True)
    return {
        "task": task,
        "weighted": weighted,
        "bytes": size,
        "streamed": blocks[2],
        "on_cpu": blocks[0],
        "ms": times,
        "ratio": times["of_0"] / min(times.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--edges", type=int, default=60_000_000)
    parser.add_argument("--out", default=report.RESULTS / "both_graphs.json")
    options = parser.parse_args()
    graph = draw(options.nodes, options.edges)
    rows = [
        measured(graph, task, weighted=weighted)
        for weighted in (False, True)
        for task in tasks(graph.n_nodes)
    ]
    report.write(
        options.out,
        SECTIONS,
        gpu=import_cuda().device_info(0)["name"],
        cores=usable_cores(),
        nodes=graph.n_nodes,
        edges=graph.n_edges,
        rows=rows,
    )


if __name__ == "__main__":
    main()
