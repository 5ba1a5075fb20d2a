"""Graphs on a GPU against a loop of cuSPARSE and CuPy: iterations, time to a proven error, walks, products.

    python -m benchmarks.gpu.graph_gpu [--nodes 5000000] [--edges 77000000] [--parts ...] [--out FILE]

The graphs are generated on the device. `rmat` and `zipf` mix in a dozen steps; `communities` consists of
R-MAT graphs joined by few edges in one direction, so that power iteration needs many.

products   one product P' x, implicit ones, against cuSPARSE on stored ones, the better algorithm, prepared:
           on the nodes as the data number them, as a program has them, and as `Graph` keeps them
iteration  a plain light step with all vector work, one after another, and an exact step, against an iteration
           of the loop: messages, cuSPARSE on the nodes as they are numbered, the image, the sums
pagerank   the time to a proven error of 1e-8 on the resident graph, scores on the host, against the loop in
           float64 to the residual that bounds the same error without its rounding; the loop looks at the
           residual every 5 iterations
walks      random walks with restart: the time per query and iteration of 8, 16 and 32 together, against one;
           and whole calls with 64 queries, by default and with these batches, against one query alone
top        the first 100 of 5,000,000 scores
hits       to a residual of 1e-8

All times of a row are from one run on one device.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np
from cupy import cublas

from benchmarks.common import gpu_timing, report
from benchmarks.common.graphs import QUADRANTS
from benchmarks.gpu.nvidia_peers import SPMV_ALGORITHMS, CsrProduct, Cusparse
from bmrm.graph import Graph, hits, pagerank, random_walk
from bmrm.graph.backends.base import Restarts
from bmrm.graph.backends.choose import transitions_of

DAMPING = 0.85
TOL = 1e-8
STEPS = 40
ROUNDS = 5
QUERIES = 64
BATCHES = (8, 16, 32)
COMMUNITIES = 64
BRIDGES = 0.004  # share of a community's edges that lead to the one before
GRAPHS = ("rmat", "zipf", "communities")
PARTS = ("products", "iteration", "pagerank", "walks", "top", "hits")
AIMS = {
    "iteration, loop in float32 / bmrm": ("iteration_times_faster_float32", GRAPHS, 2.0),
    "PageRank of communities, loop / bmrm": ("pagerank_times_faster", ("communities",), 5.0),
    "product in float64, cuSPARSE / bmrm": ("product_float64_times_faster", GRAPHS, 1.2),
}


SECTIONS = """
## Graphs on a GPU

{gpu[name]}. Generated graphs, implicit ones. The baseline is a loop of cuSPARSE and cuBLAS over CuPy
arrays, with cuSPARSE's better algorithm and the nodes in the order of the data; in brackets, cuSPARSE
with the nodes in the order of `Graph`. An iteration is the product with all vector work. Ours in
float32 is a light step:

[rows]
graph, nodes / edges = {graph}, {nodes} / {edges}, float32 | product, us = {product_float32_us:.0f} |
cuSPARSE, us = {cusparse_float32_us:.0f} | (our order, us) = {cusparse_float32_our_order_us:.0f} |
times faster = {product_float32_times_faster:.2f} | iteration, us = {light_us:.0f} |
loop, us = {loop_float32_us:.0f}

In float64 it is an exact one:

[rows]
graph, nodes / edges = {graph}, {nodes} / {edges}, float64 | product, us = {product_float64_us:.0f} |
cuSPARSE, us = {cusparse_float64_us:.0f} | (our order, us) = {cusparse_float64_our_order_us:.0f} |
times faster = {product_float64_times_faster:.2f} | iteration, us = {exact_us:.0f} |
loop, us = {loop_float64_us:.0f}

Time to a proven error of 1e-8 with the matrix on the GPU, scores on the host; the loop in float64 stops at
the residual that bounds the same error. Building the graph from arrays in main memory, and putting its matrix
on the GPU, come before.

[rows]
graph = {graph} | PageRank, ms = {pagerank_ms:.1f} | steps = {n_iter} | loop, ms = {loop_ms:.1f} |
its steps = {loop_iterations} | times faster = {pagerank_times_faster:.2f} |
building, s = {graph_seconds:.1f} | matrix to the GPU, s = {upload_seconds:.1f}

Times faster, minimum over the graphs:

[aims]

## Walks together, top lists and HITS on a GPU

The same graphs and device. Walks: the time per iteration of each of some together, and how many times less
that is than one alone.

[rows]
graph = {graph} | 8 walks, us each = {walks_8_us_each:.0f} | over one = {walks_8_times_faster:.2f} |
16 walks, us each = {walks_16_us_each:.0f} | 16 over one = {walks_16_times_faster:.2f} |
32 walks, us each = {walks_32_us_each:.0f} | 32 over one = {walks_32_times_faster:.2f} |
first 100 scores, us = {top_us:.0f} | HITS, ms = {hits_ms:.0f} | steps = {hits_steps}

Whole calls with 64 queries: the time of each, and how many times less that is than of a call with one.

[rows.calls]
graph = {graph} | returned = {returned} | one query, ms = {one_ms:.1f} | batch = {batch} |
each of 64, ms = {each_ms:.2f} | times less = {times_less:.2f}
"""


def rmat(scale: int, edges: int, rng: Any) -> tuple[cp.ndarray, cp.ndarray]:
    """Draw edges of an R-MAT graph."""
    a, b, c = QUADRANTS
    source, target = cp.zeros(edges, cp.int32), cp.zeros(edges, cp.int32)
    for _ in range(scale):
        draw = rng.random(edges, dtype=cp.float32)
        down = draw >= a + b
        right = ((draw >= a) & (draw < a + b)) | (draw >= a + b + c)
        source, target = 2 * source + down, 2 * target + right
    return source.astype(cp.int32), target.astype(cp.int32)


def draw_graph(name: str, nodes: int, edges: int) -> tuple[cp.ndarray, cp.ndarray]:
    """Draw the edges of a graph with about this number of nodes."""
    rng = cp.random.default_rng(1)
    if name == "rmat":
        return rmat(int(np.ceil(np.log2(nodes))), edges, rng)
    if name == "zipf":
        law = cp.cumsum(1.0 / (cp.arange(nodes) + 10.0) ** 0.8)
        ends = [
            cp.searchsorted(law / law[-1], rng.random(edges)).clip(0, nodes - 1).astype(cp.int32)
            for _ in range(2)
        ]
        cp.random.seed(1)
        return cp.random.permutation(nodes).astype(cp.int32)[ends[0]], ends[1]
    scale = int(np.log2(nodes / COMMUNITIES))
    source, target = rmat(scale, edges, rng)
    home = rng.integers(0, COMMUNITIES, edges).astype(cp.int32)
    away = cp.where(rng.random(edges) < BRIDGES, cp.maximum(home - 1, 0), home)
    return source + (home << scale), (target + (away << scale)).astype(cp.int32)


class Edges(NamedTuple):
    """Edges by target, on the device."""

    starts: cp.ndarray
    sources: cp.ndarray

    def renumbered(self, numbers: cp.ndarray) -> Edges:
        """Give each node another number."""
        n = len(numbers)
        targets = cp.searchsorted(self.starts, cp.arange(len(self.sources)), side="right") - 1
        keys = numbers[targets].astype(cp.int64) * n + numbers[self.sources]
        keys.sort()
        starts = cp.zeros(n + 1, cp.int32)
        starts[1 + numbers] = cp.diff(self.starts)
        return Edges(cp.cumsum(starts, dtype=cp.int32), (keys % n).astype(cp.int32))


class Loop:
    """Power iteration as a fast program writes it with cuSPARSE and CuPy."""

    def __init__(self, cusparse: Cusparse, edges: Edges, dtype: str) -> None:
        n, self.dtype = len(edges.starts) - 1, np.dtype(dtype)
        degree = cp.bincount(edges.sources, minlength=n)
        self.scale = cp.where(degree > 0, 1.0 / cp.maximum(degree, 1), 0.0).astype(dtype)
        self.dangling = (degree == 0).astype(dtype)
        arrays = (*edges, cp.ones(len(edges.sources), dtype))
        self.z, self.y = cp.empty(n, dtype), cp.empty(n, dtype)
        self.products = {name: CsrProduct(cusparse, arrays, self.z, self.y, name) for name in SPMV_ALGORITHMS}
        self.product: Callable[[], None] = next(iter(self.products.values()))
        self.send = cp.ElementwiseKernel(f"{dtype} x, {dtype} s", f"{dtype} z", "z = x * s", "send")
        self.image = cp.ElementwiseKernel(
            f"{dtype} x, {dtype} y, raw {dtype} lost, {dtype} d, {dtype} n", f"{dtype} g, {dtype} r",
            "g = d * y + (1 - d + d * lost[0]) / n; r = g - x", "image",
        )  # fmt: skip
        self.r = cp.empty(n, dtype)
        self.n = n

    def choose(self, clock: gpu_timing.Clock) -> dict[str, float]:
        """Time both algorithms and use the better one."""
        self.z.fill(1.0 / self.n)
        times = {name: clock.seconds([product]) for name, product in self.products.items()}
        self.product = self.products[min(times, key=times.__getitem__)]
        return times

    def iterate(self, x: cp.ndarray, out: cp.ndarray) -> cp.ndarray:
        """Compute the image of x into `out`; return the l1 norm of the residual, on the device."""
        d, n = self.dtype.type(DAMPING), self.dtype.type(self.n)
        self.send(x, self.scale, self.z)
        self.product()
        self.image(x, self.y, cublas.dot(x, self.dangling), d, n, out, self.r)
        return cublas.asum(self.r)

    def solve(self, tol: float) -> tuple[int, np.ndarray]:
        """Iterate to a residual that bounds the error by tol, and return the scores on the host."""
        x, other = cp.full(self.n, 1.0 / self.n, self.dtype), cp.empty(self.n, self.dtype)
        for step in range(1, 5000):
            residual = self.iterate(x, other)
            x, other = other, x
            if step % 5 == 0 and float(residual) * DAMPING / (1 - DAMPING) <= tol:
                break
        return step, cp.asnumpy(x)


def wall(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the median seconds of a call, which ends when the device has."""
    times = []
    for _ in range(rounds + 1):
        cp.cuda.Device().synchronize()
        start = time.perf_counter()
        work()
        cp.cuda.Device().synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def light_seconds(graph: Graph, columns: int) -> float:
    """Return the seconds of a plain light step of some walks."""
    nodes = np.arange(columns)
    restarts = (
        Restarts()
        if columns == 1
        else Restarts(nodes=nodes, shares=np.ones(columns), columns=nodes, n_columns=columns)
    )
    walk = transitions_of(graph, False, "cuda", columns)[0].walk(DAMPING, restarts)
    walk.place(0)

    def steps() -> None:
        for step in range(STEPS):
            walk.light_step([step % 2], None, 2, 1 - step % 2, plain_next=step + 1 < STEPS)

    found = wall(steps) / STEPS
    walk.close()
    return found


def exact_seconds(graph: Graph) -> float:
    """Return the seconds of an exact step."""
    walk = transitions_of(graph, False, "cuda")[0].walk(DAMPING, Restarts())
    walk.place(0)
    found = wall(lambda: walk.exact_step(0, 0))
    walk.close()
    return found


def walk_calls(graph: Graph) -> list[dict[str, Any]]:
    """Time whole calls with some queries, by default and with each batch, against one query alone."""
    ends = np.flatnonzero(graph.out_degree > 2)
    labels = graph.labels.take(np.random.default_rng(3).choice(ends, QUERIES, replace=False))
    rows = []
    for top in (100, None):

        def call(queries: Any, top: Any = top, batch: int | None = None) -> Any:
            return random_walk(graph, queries, DAMPING, top=top, batch=batch, device="cuda")

        one = wall(lambda call=call: call(labels[:1]))
        for batch in (None, *BATCHES):
            each = wall(lambda call=call, batch=batch: call(labels, batch=batch), 3) / QUERIES
            returned = "all scores" if top is None else f"first {top}"
            rows.append({"returned": returned, "one_ms": 1e3 * one, "batch": batch or "default"})
            rows[-1] |= {"each_ms": 1e3 * each, "times_less": one / each}
            print(f"  {rows[-1]}", flush=True)
    return rows


def measure(name: str, options: argparse.Namespace, clock: gpu_timing.Clock) -> dict[str, Any]:
    """Measure all parts on one graph."""
    began = time.perf_counter()
    source, target = (cp.asnumpy(end) for end in draw_graph(name, options.nodes, options.edges))
    cp.get_default_memory_pool().free_all_blocks()
    drawn = time.perf_counter()
    graph = Graph((source, target))
    built = time.perf_counter()
    row: dict[str, Any] = {"graph": name, "nodes": graph.n_nodes, "edges": graph.n_edges}
    row |= {"draw_seconds": drawn - began, "graph_seconds": built - drawn}
    start = time.perf_counter()
    nodes = transitions_of(graph, False, "cuda")[0].resident(1).nodes
    row["upload_seconds"] = time.perf_counter() - start
    row["kernels"] = {
        kind: matrix.report()["blocks"][0]["normal"]
        for kind, matrix in (("float32", nodes.light), ("float64", nodes.exact))
    }
    print(f"{name}: {graph}, {row['kernels']}", flush=True)
    loops = {}
    if {"products", "iteration", "pagerank"} & set(options.parts):
        cusparse = Cusparse(clock.stream)
        starts, sources, _ = graph.edges_by_target
        kept = Edges(cp.asarray(starts.astype(np.int32)), cp.asarray(sources.astype(np.int32)))
        given = kept.renumbered(cp.asarray(graph.to_given(np.arange(graph.n_nodes))))
        for kind, matrix in (("float32", nodes.light), ("float64", nodes.exact)):
            loops[kind] = loop = Loop(cusparse, given, kind)
            ours = row[f"product_{kind}_us"] = 1e6 * matrix.time("normal", repeats=20)
            theirs = row[f"cusparse_{kind}_us"] = 1e6 * min(loop.choose(clock).values())
            same = row[f"cusparse_{kind}_our_order_us"] = 1e6 * min(
                Loop(cusparse, kept, kind).choose(clock).values()
            )
            row[f"product_{kind}_times_faster"] = theirs / ours
            print(
                f"  product {kind}: {ours:.0f} us, {theirs / ours:.2f} x cuSPARSE, "
                f"{same / ours:.2f} x on our order",
                flush=True,
            )
    if "iteration" in options.parts:
        row["light_us"], row["exact_us"] = 1e6 * light_seconds(graph, 1), 1e6 * exact_seconds(graph)
        for kind, loop in loops.items():
            x, other = cp.full(loop.n, 1.0 / loop.n, loop.dtype), cp.empty(loop.n, loop.dtype)

            def iterations(loop: Loop = loop, x: Any = x, other: Any = other) -> None:
                for _ in range(STEPS // 2):
                    loop.iterate(x, other)
                    loop.iterate(other, x)

            row[f"loop_{kind}_us"] = 1e6 * wall(iterations) / STEPS
            row[f"iteration_times_faster_{kind}"] = row[f"loop_{kind}_us"] / row["light_us"]
        print({key: round(value, 2) for key, value in row.items() if key.endswith("_us") and
               isinstance(value, float)}, flush=True)  # fmt: skip
    if "pagerank" in options.parts:
        found = pagerank(graph, DAMPING, tol=TOL, device="cuda")
        row |= {"n_iter": found.n_iter, "bound": found.error_bound, "status": found.status}
        row["pagerank_ms"] = 1e3 * wall(lambda: pagerank(graph, DAMPING, tol=TOL, device="cuda"), 3)
        loop = loops["float64"]
        row["loop_iterations"], scores = loop.solve(TOL)
        row["distance_to_loop"] = float(np.abs(found.scores - scores).sum())
        row["loop_ms"] = 1e3 * wall(lambda: loop.solve(TOL), 3)
        row["pagerank_times_faster"] = row["loop_ms"] / row["pagerank_ms"]
        ours, theirs = row["pagerank_ms"], row["loop_ms"]
        print(
            f"  pagerank {ours:.1f} ms ({found.n_iter} steps, {found.status}, {found.error_bound:.1e}), loop "
            f"{theirs:.1f} ms ({row['loop_iterations']} steps), {row['pagerank_times_faster']:.2f} x; apart "
            f"{row['distance_to_loop']:.1e}",
            flush=True,
        )
    loops.clear()
    cp.get_default_memory_pool().free_all_blocks()
    if "walks" in options.parts:
        one = light_seconds(graph, 1)
        for columns in BATCHES:
            each = light_seconds(graph, columns) / columns
            row[f"walks_{columns}_us_each"], row[f"walks_{columns}_times_faster"] = 1e6 * each, one / each
            print(f"  {columns} walks: {1e6 * each:.0f} us each, {one / each:.2f} x one", flush=True)
        row["calls"] = walk_calls(graph)
    if "top" in options.parts:
        walk = transitions_of(graph, False, "cuda")[0].walk(DAMPING, Restarts())
        walk.place(0)
        walk.light_step([0], None, 2, 1)
        row["top_us"] = 1e6 * wall(lambda: walk.top(1, [0], 100))
        row["scores_ms"] = 1e3 * wall(lambda: walk.scores(1, [0]))
        walk.close()
        print(f"  top 100: {row['top_us']:.0f} us; all scores {row['scores_ms']:.1f} ms", flush=True)
    if "hits" in options.parts:
        ranked = hits(graph, device="cuda")
        row |= {"hits_steps": ranked.n_iter, "hits_ms": 1e3 * wall(lambda: hits(graph, device="cuda"), 3)}
        print(f"  hits {row['hits_ms']:.1f} ms ({ranked.n_iter} steps, {ranked.status})", flush=True)
    return row


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the aims, each of the least over the graphs that it holds for, and whether they are reached."""
    found = []
    for title, (key, graphs, bound) in AIMS.items():
        values = [row[key] for row in rows if key in row and row["graph"] in graphs]
        if values:
            found.append(report.aim(title, min(values), bound))
            print(report.line(found[-1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--edges", type=int, default=77_000_000)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", default=str(report.RESULTS / "graph_gpu.json"))
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    clock = gpu_timing.Clock(calls=20, replays=5)
    rows = [measure(name, options, clock) for name in options.graphs.split(",")]
    report.write(options.out, SECTIONS, gpu=gpu_timing.device(), rows=rows, aims=aims(rows))


if __name__ == "__main__":
    main()
