"""PageRank, random walks and HITS on one thread, against igraph, NetworkX, SciPy and GraphBLAS.

    OMP_NUM_THREADS=1 python -m benchmarks.cpu.graph --data FOLDER [--scale 20] [--rounds 5] [--out FILE]

The graphs are published ones of FOLDER, and an R-MAT graph of 2^scale nodes and 8 edges per node, repeated
edges dropped. Every figure is the least processor time of one thread over the rounds, in which all take
turns; the graph is built beforehand, and each library gets its own representation.

pagerank   to a proven error of 1e-8 (and 1e-12), damping 0.85
igraph     PRPACK, which always iterates to 1e-10
scipy      power iteration with a stored A', to the residual that proves the same error without its rounding
graphblas  the same with python-graphblas in float64, if it is installed
networkx   `networkx.pagerank` with the tolerance that gives the same residual; and through the backend, with
           the conversion of the graph ("first") and without ("cached")
products   products of the matrix and a vector: of power iteration, by default, until the first ten are proven
hits       to a residual of 1e-8, against igraph's authorities
queries    random walk with restart: 16 queries in one call, per query, against one, and against a SciPy loop
matrix     X w of the adjacency matrix in the order of the labels, with implicit ones, against SciPy
build      from arrays of node numbers to the graph
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.graphs import published, rmat
from bmrm.graph import Graph, hits, pagerank, random_walk, read_graph
from bmrm.matrix import _cpu

DAMPING = 0.85
WALK_DAMPING = 0.9
QUERIES = 16
MATRIX_REPEATS = 5  # products per time that is taken
MAX_NETWORKX_EDGES = 2_000_000  # a graph object of NetworkX takes about 1 kB per edge
TARGETS = {
    "slashdot": {"igraph": 3.5, "scipy": 2.3, "graphblas": 2, "networkx_first": 8, "networkx_cached": 40},
    "rmat": {"igraph": 14, "scipy": 2.3, "graphblas": 2},
}


SECTIONS = """
## Graphs
headline: PageRank, one thread | igraph | graphs | pagerank[over][igraph] | {machine[cpu]}

Processor time of one thread, minimum over rounds. PageRank's error is proven to be 1e-8 at most; igraph
iterates to 1e-10, the others to the same residual. The R-MAT graph is built from its edges in
{graphs[rmat][build][seconds]:.2f} s.

[graphs]
graph, nodes / edges = {name}, {nodes} / {edges} | PageRank to 1e-8, ms = {pagerank[seconds][bmrm]:.1f ms} |
over igraph = {pagerank[over][igraph]:.2f} | over SciPy = {pagerank[over][scipy]:.2f} |
over GraphBLAS = {pagerank[over][graphblas]:.2f} | over igraph at 1e-12 = {pagerank[over_at_1e-12]:.2f} |
over NetworkX, first = {networkx[over_first]:.2f} | cached = {networkx[over_cached]:.2f} |
products / power's = {pagerank[products][default]} / {pagerank[products][power]} |
to top 10 = {pagerank[products][top 10]}

[graphs]
graph = {name} | HITS, ms = {hits[seconds][bmrm]:.1f ms} | over igraph = {hits[over_igraph]:.2f} |
one query, ms = {queries[seconds][one]:.1f ms} | each of 16 / one = {queries[query_over_one]:.2f} |
each of 16 / SciPy's one = {queries[query_over_scipy]:.2f}

[aims]
"""


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turns(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least time of each over the rounds."""
    found = {name: [seconds(work) for _ in range(1)] for name, work in works.items()}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(seconds(work))
    return {name: min(times[1:]) for name, times in found.items()}


class SciPyLoop:
    """Power iteration as one writes it with SciPy."""

    def __init__(self, matrix: Any) -> None:
        self.transposed = matrix.T.tocsr()
        self.out = np.asarray(matrix.sum(1)).ravel()
        self.scale = np.divide(1.0, self.out, out=np.zeros(len(self.out)), where=self.out > 0)
        self.dangling = np.flatnonzero(self.out == 0)

    def run(self, damping: float, tol: float, restart: Any = None) -> tuple[Any, int]:
        n = len(self.out)
        v = np.full(n, 1.0 / n) if restart is None else restart
        x, count = v.copy(), 0
        while True:
            image = (
                damping * (self.transposed @ (x * self.scale) + x[self.dangling].sum() * v)
                + (1 - damping) * v
            )
            count += 1
            residual = np.abs(image - x).sum()
            x = image
            if residual * damping / (1 - damping) <= tol:
                return x, count


class GraphBlasLoop:
    """The same with python-graphblas."""

    def __init__(self, matrix: Any) -> None:
        import graphblas

        self.gb = graphblas
        coo = matrix.tocoo()
        self.matrix = graphblas.Matrix.from_coo(
            coo.col.astype(np.uint64),
            coo.row.astype(np.uint64),
            1.0,
            nrows=matrix.shape[0],
            ncols=matrix.shape[0],
        )
        out = np.asarray(matrix.sum(1)).ravel()
        self.n = len(out)
        scale = np.divide(1.0, out, out=np.zeros(self.n), where=out > 0)
        self.scale = graphblas.Vector.from_dense(scale)
        self.dangling = np.flatnonzero(out == 0)

    def run(self, damping: float, tol: float) -> Any:
        gb, n = self.gb, self.n
        x = gb.Vector.from_dense(np.full(n, 1.0 / n))
        plus_second, dense = gb.semiring.plus_second, np.empty(n)
        while True:
            sent = x.ewise_mult(self.scale, gb.binary.times).new()
            found = self.matrix.mxv(sent, plus_second[float]).new()
            dense = found.to_dense(fill_value=0.0)
            before = x.to_dense()
            lost = before[self.dangling].sum()
            dense = damping * (dense + lost / n) + (1 - damping) / n
            residual = np.abs(dense - before).sum()
            x = gb.Vector.from_dense(dense)
            if residual * damping / (1 - damping) <= tol:
                return x


def peers(graph: Graph) -> dict[str, Any]:
    """Return the graph in the representations of other libraries."""
    matrix = graph.to_scipy()
    found: dict[str, Any] = {"scipy": SciPyLoop(matrix)}
    try:
        import igraph

        coo = matrix.tocoo()
        pairs = np.column_stack([coo.row, coo.col])
        found["igraph"] = igraph.Graph(n=graph.n_nodes, edges=pairs, directed=True)
    except ImportError:
        print("igraph is not installed")
    try:
        found["graphblas"] = GraphBlasLoop(matrix)
    except ImportError:
        print("python-graphblas is not installed")
    return found


def measure_pagerank(graph: Graph, others: dict[str, Any], rounds: int) -> dict[str, Any]:
    works: dict[str, Callable[[], Any]] = {
        "bmrm": lambda: pagerank(graph, DAMPING, tol=1e-8),
        "bmrm, 1e-12": lambda: pagerank(graph, DAMPING, tol=1e-12),
        "scipy": lambda: others["scipy"].run(DAMPING, 1e-8),
    }
    if "igraph" in others:
        works["igraph"] = lambda: others["igraph"].pagerank(damping=DAMPING)
    if "graphblas" in others:
        works["graphblas"] = lambda: others["graphblas"].run(DAMPING, 1e-8)
    times = in_turns(works, rounds)
    found = pagerank(graph, DAMPING, tol=1e-8)
    exact = pagerank(graph, DAMPING, tol=1e-12)
    assert found.status == exact.status == "converged"
    row: dict[str, Any] = {
        "seconds": times,
        "over": {
            name: times[name] / times["bmrm"] for name in ("scipy", "igraph", "graphblas") if name in times
        },
        "error_bound": found.error_bound,
        "distance_to_1e-12": float(np.abs(found.scores - exact.scores).sum()),
        "products": {
            "power": pagerank(graph, DAMPING, tol=1e-8, method="power").n_products,
            "default": found.n_products,
            "top 10": pagerank(graph, DAMPING, tol=1e-12, top=10).n_products,
        },
    }
    if "igraph" in times:
        row["over_at_1e-12"] = times["igraph"] / times["bmrm, 1e-12"]
        peer = np.array(others["igraph"].pagerank(damping=DAMPING))
        row["largest_difference_to_igraph"] = float(np.abs(peer - exact.scores).max())
    return row


def measure_hits(graph: Graph, others: dict[str, Any], rounds: int) -> dict[str, Any]:
    works: dict[str, Callable[[], Any]] = {"bmrm": lambda: hits(graph)}
    if "igraph" in others:
        works["igraph"] = lambda: others["igraph"].authority_score()
    times = in_turns(works, rounds)
    found = hits(graph)
    row = {"seconds": times, "steps": found.n_iter, "residual": found.residual, "unique": found.unique}
    return row | ({"over_igraph": times["igraph"] / times["bmrm"]} if "igraph" in times else {})


def measure_queries(graph: Graph, others: dict[str, Any], rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    chosen = rng.choice(np.flatnonzero(graph.out_degree > 2), QUERIES, replace=False)
    labels = graph.labels.take(chosen)
    restart = np.zeros(graph.n_nodes)
    restart[chosen[0]] = 1.0
    works = {
        "one": lambda: random_walk(graph, labels[0], WALK_DAMPING, top=None),
        "many": lambda: random_walk(graph, labels, WALK_DAMPING, top=None),
        "scipy": lambda: others["scipy"].run(WALK_DAMPING, 1e-8, restart),
    }
    times = in_turns(works, rounds)
    each = times["many"] / QUERIES
    products = random_walk(graph, labels, WALK_DAMPING, top=None).n_iter.tolist()
    return {
        "seconds": times,
        "query_over_one": each / times["one"],
        "query_over_scipy": each / times["scipy"],
        "steps": products,
    }


def measure_matrix(graph: Graph, rounds: int) -> dict[str, Any]:
    """Compare the product of `bmrm.matrix` with SciPy's."""
    plain, rng = graph.to_scipy(), np.random.default_rng(4)
    w, out, starts = rng.random(graph.n_nodes), np.empty(graph.n_nodes), plain.indptr.astype(np.int64)
    held = _cpu.Matrix(starts, plain.indices, None, plain.shape, threads=1, transpose=False)
    times = in_turns(
        {
            "ones": lambda: [held.matvec(w, out) for _ in range(MATRIX_REPEATS)],
            "scipy": lambda: [plain @ w for _ in range(MATRIX_REPEATS)],
        },
        rounds,
    )
    times = {name: spent / MATRIX_REPEATS for name, spent in times.items()}
    return {"seconds": times, "over_scipy_ones": times["scipy"] / times["ones"]}


def measure_networkx(graph: Graph, rounds: int) -> dict[str, Any] | None:
    """Compare with NetworkX, by its own function and through the backend's."""
    try:
        import networkx
    except ImportError:
        return None
    from bmrm.graph import networkx_backend

    if graph.n_edges > MAX_NETWORKX_EDGES:
        return None
    coo = graph.to_scipy().tocoo()
    made = networkx.DiGraph()
    made.add_nodes_from(range(graph.n_nodes))
    made.add_edges_from(zip(coo.row.tolist(), coo.col.tolist(), strict=True))
    tol = 1e-8 * (1 - DAMPING) / DAMPING / graph.n_nodes

    def convert() -> Any:
        return networkx_backend.convert_from_nx(made, edge_attrs={"weight": 1}, name="pagerank")

    converted = convert()
    times = in_turns(
        {
            "networkx": lambda: networkx.pagerank(made, tol=tol, max_iter=1000),
            "first": lambda: networkx_backend.pagerank(convert(), tol=1e-8 / graph.n_nodes),
            "cached": lambda: networkx_backend.pagerank(converted, tol=1e-8 / graph.n_nodes),
        },
        max(1, rounds // 2),
    )
    return {
        "seconds": times,
        **{f"over_{name}": times["networkx"] / times[name] for name in ("first", "cached")},
    }


def measure(name: str, graph: Graph, rounds: int) -> dict[str, Any]:
    print(f"{name}: {graph}")
    others = peers(graph)
    row = {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "pagerank": measure_pagerank(graph, others, rounds),
        "hits": measure_hits(graph, others, rounds),
        "queries": measure_queries(graph, others, max(1, rounds // 2)),
        "networkx": measure_networkx(graph, rounds),
        "matrix": measure_matrix(graph, rounds),
    }
    for key in ("pagerank", "hits", "queries", "networkx", "matrix"):
        print(f"  {key}: {row[key]}")
    return row


def aims(rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the aims of PageRank, and whether they are reached."""
    found = []
    for name, wanted in TARGETS.items():
        if name in rows:
            over = rows[name]["pagerank"]["over"] | {
                f"networkx_{kind}": (rows[name]["networkx"] or {}).get(f"over_{kind}")
                for kind in ("first", "cached")
            }
            found += [
                report.aim(f"{name}, {peer.replace('_', ', ')} / bmrm", over[peer], bound)
                for peer, bound in wanted.items()
                if over.get(peer) is not None
            ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of published graphs")
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", default=report.RESULTS / "graph.json")
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    for name, path in ({} if options.data is None else published(options.data)).items():
        rows[name] = measure(name, read_graph(path, threads=1), options.rounds)
    source, target = rmat(options.scale, 8)
    build = min(seconds(lambda: Graph((source, target), threads=1)) for _ in range(3))
    rows["rmat"] = measure("rmat", Graph((source, target), threads=1), options.rounds)
    rows["rmat"]["build"] = {"seconds": build, "edges_per_second": len(source) / build}
    report.write(
        options.out, SECTIONS, scale=options.scale, rounds=options.rounds, graphs=rows, aims=aims(rows)
    )


if __name__ == "__main__":
    main()
