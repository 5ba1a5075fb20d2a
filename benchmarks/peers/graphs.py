"""Graphs from file to score, against igraph and NetworKit.

    python -m benchmarks.peers.graphs [--edges 16e6,77e6] [--peers igraph,networkit] [--out FILE]
    python -m benchmarks.peers.graphs --edges 1.05e9

R-MAT graphs of distinct edges in random order, their nodes numbered from 0. All programs read the same text,
build a graph from the same arrays of int64 in main memory, and rank its nodes: PageRank with a damping of
0.85, and HITS. Other programs get the graphs up to 20 million edges, since igraph takes minutes to build
larger ones; one that is not installed is skipped, which the results say.

read    the text, to edges for bmrm, and to a graph for the others, which build it meanwhile
build   a graph from arrays; bmrm also from arrays on the GPU
upload  the matrix of PageRank in the format of its products: on a GPU with the choice of kernels
scores  PageRank and HITS, on what is there then; bmrm proves an error of 1e-8, igraph solves by PRPACK to
        1e-10, and NetworKit iterates until a step changes less than 1e-8

A graph of 200 million edges or more is drawn on the GPU and stays there, for a results file of its own. One
run ranks it as it is, another with a part of the matrix in main memory: `gpu_mem` has room for the vectors
and the fewest eighths of the matrix, from half of it on, within which blocks of it can be prepared.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import report
from benchmarks.common.graphs import QUADRANTS
from bmrm.base.threads import usable_cores
from bmrm.errors import DeviceMemoryError
from bmrm.graph import Graph, hits, pagerank, read_graph
from bmrm.graph.backends.choose import transitions_of
from bmrm.graph.backends.gpu import MAX_IMAGES
from bmrm.io.edges import read_edges
from bmrm.matrix.gpu.devices import gpu, import_cuda

DAMPING = 0.85
TOL = 1e-8
EDGES_PER_NODE = 15
HUGE = 200_000_000
HUGE_EDGES_PER_NODE = 30  # so that more of the memory is of edges than of nodes
MOST_PEER_EDGES = 20_000_000
CHUNK = 1 << 26  # edges that are drawn or written at once
ROUNDS = 3
BUILDING_SECONDS = 0.25  # on a GPU, upload included, for 76 million edges


SECTIONS = """
## Graphs from file to score
headline: PageRank from a file of edges | igraph and NetworKit | graphs.peers | times_faster | {machine[cpu]}

R-MAT graphs; seconds. Reading the text, building the graph from arrays in main memory (in brackets, from
arrays on the GPU), upload or layout of its matrix, PageRank and HITS on what is there then. Not installed,
and so skipped: {skipped}.

[graphs.rows]
nodes / edges = {nodes} / {edges} | program = {program} | text = {text_bytes:.0f MB} MB | read = {read:.2f} |
build = {build:.3f} | (there) = {there:.3f} | upload = {upload:.3f} | PageRank = {pagerank:.4f} |
HITS = {hits:.4f}

The reading of a peer builds its graph too. File to PageRank, the baseline over ours:

[graphs.peers]
edges = {edges} | peer, against = {peer}, {against} | times faster = {times_faster:.1f} |
scores apart = {apart:.0e}

[aims]
"""

SECTIONS_ON_GPU = """
## A graph of a billion edges on one GPU

{gpu}; R-MAT, {nodes} nodes and {edges} edges, which are drawn on the GPU. Building the graph there takes
{build:.2f} s. Seconds to make its matrix ({matrix_bytes:.1f GB} GB in both types), and to rank it to a proven
error of 1e-8; and the same within a `gpu_mem` of {limit_bytes:.1f GB} GB, which has room for the vectors and
{eighths}/8 of the matrix in one type.

[runs]
run = {run} | upload = {upload:.2f} | PageRank = {pagerank:.3f} | steps = {n_iter} | error = {error_bound:.0e}
"""


def draw(xp: Any, edges: int, scale: int) -> tuple[Any, Any]:
    """Draw edges of an R-MAT graph, in int32."""
    rng, (a, b, c) = xp.random.default_rng(1), QUADRANTS
    source, target = xp.zeros(edges, np.int32), xp.zeros(edges, np.int32)
    for first in range(0, edges, CHUNK):
        part = slice(first, min(edges, first + CHUNK))
        for _ in range(scale):
            value = rng.random(part.stop - first, dtype=np.float32)
            down = value >= a + b
            right = ((value >= a) & (value < a + b)) | (value >= a + b + c)
            source[part] = 2 * source[part] + down
            target[part] = 2 * target[part] + right
    return source, target


def distinct(xp: Any, edges: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return distinct edges in random order, between nodes from 0 on, and their number."""
    scale = max(1, round(math.log2(edges / EDGES_PER_NODE)))
    ends = draw(xp, edges, scale)
    occurs = xp.zeros(1 << scale, bool)
    for end in ends:
        occurs[end] = True
    number = xp.cumsum(occurs) - 1
    n = int(number[-1]) + 1
    keys = xp.unique(number[ends[0]] * n + number[ends[1]])
    xp.random.seed(2)
    keys = xp.random.permutation(keys)
    return (*(np.asarray(end.get() if xp is not np else end) for end in (keys // n, keys % n)), n)


def write_text(path: str, source: NDArray[np.int64], target: NDArray[np.int64]) -> None:
    """Write edges as text, ids filled up with zeros to one length."""
    digits = len(str(int(max(source.max(), target.max()))))
    with open(path, "wb") as file:
        for first in range(0, len(source), CHUNK // 8):
            part = slice(first, first + CHUNK // 8)
            line = np.full((len(source[part]), 2 * digits + 2), ord("\n"), np.uint8)
            line[:, digits] = ord("\t")
            for ids, start in ((source[part], 0), (target[part], digits + 1)):
                rest = ids.copy()
                for place in range(start + digits - 1, start - 1, -1):
                    rest, digit = np.divmod(rest, 10)
                    line[:, place] = ord("0") + digit
            file.write(line.tobytes())


def seconds(work: Callable[[], Any], rounds: int = 1) -> tuple[float, Any]:
    """Return the least seconds of a call, and what it returned."""
    least, found = math.inf, None
    for _ in range(rounds):
        found = None
        start = time.perf_counter()
        found = work()
        least = min(least, time.perf_counter() - start)
    return least, found


def ours(path: str, source: Any, target: Any, device: str) -> tuple[dict[str, Any], Any]:
    """Measure bmrm on a device; return its row and its scores."""
    row: dict[str, Any] = {"program": f"bmrm, {f'{usable_cores()} cores' if device == 'cpu' else 'GPU'}"}
    row["read"], _ = seconds(lambda: read_edges(path))
    row["build"], graph = seconds(lambda: Graph((source, target), device=device), ROUNDS)
    row["there"] = None
    if device != "cpu" and (cupy := find("cupy")):
        there = cupy.asarray(source), cupy.asarray(target)
        row["there"], _ = seconds(lambda: Graph(there), ROUNDS)
        del there
        cupy.get_default_memory_pool().free_all_blocks()
    row["upload"], (transitions, _) = seconds(lambda: transitions_of(graph, False, device))
    if device != "cpu":
        row["upload"] += seconds(lambda: transitions.resident(1))[0]
    row["pagerank"], ranking = seconds(lambda: pagerank(graph, DAMPING, tol=TOL, device=device), ROUNDS)
    hits(graph, device=device)  # makes the matrix of HITS
    row["hits"], _ = seconds(lambda: hits(graph, device=device), ROUNDS)
    row["file_to_pagerank"], _ = seconds(
        lambda: pagerank(read_graph(path, device=device), DAMPING, tol=TOL, device=device)
    )
    return row, ranking.scores


def igraph_row(path: str, source: Any, target: Any, n: int) -> tuple[dict[str, Any], Any]:
    """Measure igraph, which uses one thread."""
    igraph = import_module("igraph")
    row: dict[str, Any] = {"program": f"igraph {igraph.__version__}", "there": None, "upload": None}
    row["read"], graph = seconds(lambda: igraph.Graph.Read_Edgelist(path, directed=True))
    del graph
    pairs = np.stack([source, target], axis=1)
    row["build"], graph = seconds(lambda: igraph.Graph(n=n, edges=pairs, directed=True))
    row["pagerank"], scores = seconds(lambda: graph.pagerank(damping=DAMPING, implementation="prpack"))
    row["hits"], _ = seconds(lambda: (graph.hub_score(), graph.authority_score()))
    return row, np.asarray(scores)


def networkit_row(path: str, source: Any, target: Any, n: int) -> tuple[dict[str, Any], Any]:
    """Measure NetworKit on all cores; it has no HITS."""
    networkit = import_module("networkit")
    row: dict[str, Any] = {"program": f"NetworKit {networkit.__version__}", "there": None}
    row |= {"upload": None, "hits": None}
    row["read"], graph = seconds(lambda: networkit.graphio.EdgeListReader("\t", 0, directed=True).read(path))
    del graph
    row["build"], graph = seconds(lambda: networkit.GraphFromCoo((source, target), n=n, directed=True))
    ranked = networkit.centrality.PageRank(graph, damp=DAMPING, tol=TOL)
    row["pagerank"], _ = seconds(ranked.run)
    scores = np.asarray(ranked.scores())
    return row, scores / scores.sum()


PEERS = {"igraph": igraph_row, "networkit": networkit_row}


def find(name: str) -> Any:
    """Return a module, or None if it is not installed or has no device."""
    try:
        found = import_module(name)
        if name == "cupy" and not found.cuda.runtime.getDeviceCount():
            return None
    except Exception:  # cupy raises its own errors without a driver
        return None
    return found


def compare(edges: int, names: list[str]) -> dict[str, Any]:
    """Measure all programs on one graph."""
    xp = find("cupy") or np
    source, target, n = distinct(xp, edges)
    if xp is not np:
        xp.get_default_memory_pool().free_all_blocks()
    rows, peers = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "edges.txt")
        write_text(path, source, target)
        size = os.path.getsize(path)
        print(f"{n} nodes, {len(source)} edges, {size / 1e6:.0f} MB of text", flush=True)
        mine = {}
        for device in ["cpu"] if gpu() is None else ["cpu", "cuda"]:
            row, mine[device] = ours(path, source, target, device)
            rows.append(row)
            print(shown(row), flush=True)
        for name in names if len(source) <= MOST_PEER_EDGES else []:
            row, scores = PEERS[name](path, source, target, n)
            row["file_to_pagerank"] = row["read"] + row["pagerank"]
            print(shown(row), flush=True)
            for number, (device, here) in enumerate(mine.items()):
                peers.append(
                    {
                        "peer": row["program"],
                        "against": device,
                        "times_faster": row["file_to_pagerank"] / rows[number]["file_to_pagerank"],
                        "apart": float(np.abs(here - scores).sum()),
                    }
                )
            rows.append(row)
    return {"nodes": n, "edges": len(source), "text_bytes": size, "rows": rows, "peers": peers}


def shown(row: dict[str, Any]) -> str:
    """Return a row as one line."""
    numbers = (f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float))
    return f"{row['program']}: {', '.join(numbers)} s"


def rank_huge(edges: int) -> dict[str, Any]:
    """Build and rank a graph on the GPU that has its edges, whole and within a limit."""
    cupy, cuda = import_module("cupy"), import_cuda()
    ends = draw(cupy, edges, max(1, round(math.log2(edges / HUGE_EDGES_PER_NODE))))
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.cuda.Device().synchronize()
    start = time.perf_counter()
    graph = Graph(ends)
    build = time.perf_counter() - start
    del ends
    cupy.get_default_memory_pool().free_all_blocks()
    print(f"{graph}: built in {build:.2f} s", flush=True)
    n = graph.n_nodes
    size = int(cuda.Matrix.predict_format(n, n, graph.n_edges, 0, transpose=False))
    whole = ranked(graph, None)
    for eighths in range(4, 8):
        limit = size * eighths // 8 + int(cuda.predict_walk_bytes(n, 1, MAX_IMAGES, n))
        try:
            runs = [whole, ranked(graph, limit)]
            break
        except DeviceMemoryError as error:  # its blocks have to be prepared within the limit too
            print(error, flush=True)
    else:
        raise DeviceMemoryError("no block of the matrix can be prepared within 7/8 of its bytes")
    return {
        "gpu": cuda.device_info(0)["name"],
        "nodes": n,
        "edges": graph.n_edges,
        "build": build,
        "matrix_bytes": 2 * size,
        "limit_bytes": limit,
        "eighths": eighths,
        "runs": runs,
    }


def ranked(graph: Graph, limit: int | None) -> dict[str, Any]:
    """Rank a graph on the GPU within a limit of memory; return the row."""
    upload, _ = seconds(lambda: transitions_of(graph, False, "cuda", limit=limit))
    took, found = seconds(lambda: pagerank(graph, DAMPING, tol=TOL, device="cuda", gpu_mem=limit))
    row = {
        "run": "whole" if limit is None else "gpu_mem",
        "upload": upload,
        "pagerank": took,
        "n_iter": found.n_iter,
        "error_bound": found.error_bound,
        "status": found.status,
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", default="16e6,77e6")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--out")
    options = parser.parse_args()
    sizes = [int(float(size)) for size in options.edges.split(",")]
    if sizes[0] >= HUGE:
        out = options.out or report.RESULTS / "graph_huge_gpu.json"
        report.write(out, SECTIONS_ON_GPU, **rank_huge(sizes[0]))
        return
    wanted = list(filter(None, options.peers.split(",")))
    skipped = [name for name in wanted if find(name) is None]
    names = [name for name in wanted if name not in skipped]
    graphs = [compare(size, names) for size in sizes]
    aims = [
        report.aim("building on the GPU", row["build"], BUILDING_SECONDS, " s", below=True)
        for row in graphs[-1]["rows"]
        if row["program"] == "bmrm, GPU"
    ]
    skipped += ["a GPU"] if gpu() is None else []
    found = {"graphs": graphs, "skipped": ", ".join(skipped) or "nothing", "aims": aims}
    report.write(options.out or report.RESULTS / "graph_peers.json", SECTIONS, **found)


if __name__ == "__main__":
    main()
