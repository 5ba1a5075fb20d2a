"""PageRank, random walks and HITS of a graph over 1, 2, … ranks of one core each.

    python -m benchmarks.ranks.scaling_graph --data FOLDER [--ranks 1,2] [--scale 20] [--repeats 5] [--out F]

The graphs are slashdot's of FOLDER and an R-MAT graph of 2^scale nodes and 8 edges per node. Every run is
`mpiexec -n R`, one thread per rank: it reads the graph from text, and computes each answer five times. The
figure is the least time of the slowest rank in a run, and the median over the runs, in which numbers of ranks
take turns. As a control every rank then computes the answers of the whole graph for itself, at the same time:
R times what one process takes over this is what the machine's cores and memory allow. Bytes are those that a
rank sends per product.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.graphs import published, rmat
from benchmarks.common.ranks import mpi_words

ROUNDS = 5
QUERIES = 8


SECTIONS = """
## Graphs over several ranks

PageRank to 1e-8, {queries} random walks in one read and HITS, one core per rank: minimum over {rounds}
rounds per run, and the median over the runs. The control is the same computation by R independent
processes at the same time, R times the time of one over theirs: the speed-up that the machine allows.
MB are sent by a rank per product.

[graphs] each pagerank, walks, hits
graph = {name} | task = @ | ranks = {ranks} | ms = {seconds[@]:.1f ms} |
all runs = {all_seconds[@]:.1f span ms} | faster = {faster[@]:.2f} | control = {control_faster[@]:.2f} |
products = {tasks[@][products]} | MB sent = {tasks[@][sent]:.2f MB}

How evenly the graphs are distributed: the largest share of a rank over the mean, and the seconds of
reading.

[graphs]
graph = {name} | ranks = {ranks} | nodes = {largest_share[nodes]:.3f} | edges = {largest_share[edges]:.3f} |
read s = {seconds[read]:.2f}
"""


def tasks(graph: Any) -> dict[str, Callable[[], Any]]:
    from bmrm.graph import hits, pagerank, random_walk

    queries = [graph.labels[number] for number in range(QUERIES)]
    return {
        "pagerank": lambda: pagerank(graph, tol=1e-8),
        "walks": lambda: random_walk(graph, queries, top=10),
        "hits": lambda: hits(graph, tol=1e-8),
    }


def work(text: str, out: str) -> None:
    """Measure on this rank; on the first rank, write the measurements."""
    from mpi4py import MPI

    from bmrm.distributed import Group
    from bmrm.graph import GraphShard, read_graph

    group = Group(MPI.COMM_WORLD)

    def slowest(work: Callable[[], Any]) -> tuple[float, Any]:
        group.comm.Barrier()
        began = time.perf_counter()
        value = work()
        return group.comm.allreduce(time.perf_counter() - began, op=MPI.MAX), value

    seconds: dict[str, float] = {}
    seconds["read"], graph = slowest(lambda: read_graph(text, threads=1, comm=group))
    assert isinstance(graph, GraphShard)
    sent = 0
    gathered = group.gathered

    def counting(piece: Any, bounds: Any, out: Any = None) -> Any:
        nonlocal sent
        sent += piece.nbytes * (group.size - 1)
        return gathered(piece, bounds, out)

    group.gathered = counting  # type: ignore[method-assign]
    found: dict[str, Any] = {}
    for name, task in tasks(graph).items():
        slowest(task)  # builds what is built once
        sent = 0
        times, results = zip(*(slowest(task) for _ in range(ROUNDS)), strict=True)
        seconds[name] = min(times)
        found[name] = {"products": results[0].n_products, "sent": sent / ROUNDS / results[0].n_products}
    edges = group.everyones(len(graph.edges_by_target[1]))
    nodes = group.everyones(graph.own.stop - graph.own.start)
    whole = read_graph(text, threads=1)
    control = {}
    for name, task in tasks(whole).items():
        task()
        control[name] = min(slowest(task)[0] for _ in range(ROUNDS))
    if group.rank == 0:
        facts = {"nodes": nodes, "edges": edges, "tasks": found, "seconds": seconds, "control": control}
        Path(out).write_text(json.dumps(facts))


def run(text: Path, ranks: int) -> dict[str, Any]:
    """Return the measurements of one run."""
    with tempfile.TemporaryDirectory() as folder:
        found = str(Path(folder) / "found.json")
        program = [sys.executable, "-m", __spec__.name, "--text", str(text), "--worker", found]
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*mpi_words(ranks), *program], env=environ, check=True)
        measured: dict[str, Any] = json.loads(Path(found).read_text())
        return measured


def texts(folder: Path, data: Path, scale: int) -> dict[str, Path]:
    """Write the graphs as plain text, and return the files by name."""
    from bmrm.graph import read_graph

    found = {name: folder / f"{name}.txt" for name in ("slashdot", f"rmat{scale}")}
    G = read_graph(published(data)["slashdot"]).to_scipy().tocoo()
    arrays = {"slashdot": (G.row, G.col), f"rmat{scale}": rmat(scale, 8)}
    for name, pair in arrays.items():
        np.savetxt(found[name], np.column_stack(pair), "%d")
    return found


def summary(runs: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return one row per number of ranks."""
    rows: list[dict[str, Any]] = []
    for ranks, each in runs.items():
        row: dict[str, Any] = {"ranks": ranks, "nodes": each[0]["nodes"], "edges": each[0]["edges"]}
        row["largest_share"] = {key: max(row[key]) * ranks / sum(row[key]) for key in ("nodes", "edges")}
        row["tasks"] = each[0]["tasks"]
        for kind in ("seconds", "control"):
            row[kind] = {name: statistics.median(one[kind][name] for one in each) for name in each[0][kind]}
        row["all_seconds"] = {name: [one["seconds"][name] for one in each] for name in row["seconds"]}
        alone = rows[0] if rows else row
        row["faster"] = {name: alone["seconds"][name] / row["seconds"][name] for name in row["seconds"]}
        row["control_faster"] = {
            name: ranks * alone["control"][name] / row["control"][name] for name in row["control"]
        }
        rows.append(row)
    return rows


def main() -> None:
    """Print the figures and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the published graphs")
    parser.add_argument("--ranks", default="1,2", help="the first is what the others are compared with")
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", default=report.RESULTS / "scaling_graph.json")
    parser.add_argument("--text", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.text, options.worker)
        return
    counts = [int(ranks) for ranks in options.ranks.split(",")]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts(Path(folder), options.data, options.scale).items():
            runs: dict[int, list[dict[str, Any]]] = {ranks: [] for ranks in counts}
            for ranks in counts * options.repeats:
                runs[ranks].append(run(text, ranks))
            found[name] = summary(runs)
            for row in found[name]:
                print(name, row["ranks"], json.dumps({key: row[key] for key in ("seconds", "faster")}))
                print("  control", json.dumps(row["control_faster"]), row["nodes"], row["edges"])
    report.write(options.out, SECTIONS, graphs=found, rounds=ROUNDS, queries=QUERIES)


if __name__ == "__main__":
    main()
