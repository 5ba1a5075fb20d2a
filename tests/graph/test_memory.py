"""Memory is predicted before it is used: at least what processes take, and not much more."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from bmrm.cli.graph import main
from bmrm.errors import HostMemoryError, ParameterError
from bmrm.graph import Graph, pagerank
from bmrm.graph.backends.host import HOST_BATCH
from bmrm.graph.memory import GraphSize, predict_bytes
from bmrm.graph.read import measure_graph
from bmrm.io.edge_counts import count_edges
from bmrm.io.edges import read_edges

PEAK = """
import re
def peak():  # in kB; the peak that getrusage returns may be that of the parent
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""

MEASURE = (
    PEAK
    + """
import sys
import numpy as np
import scipy.sparse.csgraph
from bmrm.graph import Graph, hits, pagerank, random_walk
n, m, task, undirected = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "True"
rng = np.random.default_rng(0)
source, target = ((n * rng.random(m) ** 2).astype(np.int32) for _ in range(2))
small = Graph(([0, 1], [1, 0]))
pagerank(small), hits(small).unique, random_walk(small, [0])
before = peak()
G = Graph((source, target), n_nodes=n, directed=not undirected, order="degree", threads=1)
if task == "pagerank":
    pagerank(G, 0.99, tol=1e-12, method="anderson")
elif task == "rwr":
    random_walk(G, [0, 1, 2, 3, 4, 5, 6, 7], 0.99, top=None, tol=1e-12, method="anderson")
elif task == "hits":
    hits(G, tol=1e-14).unique
print(1024 * (peak() - before))
"""
)


@pytest.mark.parametrize(("task", "undirected"), [("pagerank", True), ("rwr", False), ("hits", False)])
def test_a_process_takes_what_was_predicted(task, undirected):
    n, m = 80_000, 800_000
    words = [sys.executable, "-c", MEASURE, *map(str, (n, m, task, undirected))]
    found = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    parts = predict_bytes(GraphSize(n, m, undirected=undirected), task, 8 if task == "rwr" else 1)
    needed = max(parts["building"], parts["graph"] + parts["matrix"] + parts["vectors"])
    assert 0.9 * found <= needed <= 3 * found


def test_parts_of_a_graph_that_is_there():
    G = Graph((np.arange(1000), np.roll(np.arange(1000), 1)))
    found = G.predict_bytes("rwr", 8)
    assert found["total"] == found["graph"] + found["matrix"] + found["vectors"]
    assert found["vectors"] > G.predict_bytes("rwr")["vectors"]
    assert found["graph"] >= G.report()["bytes"]
    with pytest.raises(ParameterError, match="task: found 'rank'"):
        G.predict_bytes("rank")
    with pytest.raises(ParameterError, match="columns: found 0"):
        G.predict_bytes("rwr", 0)


def test_ranks_share_edges_and_vectors():
    size = GraphSize(10_000, 1_000_000)
    alone, shared = predict_bytes(size, "hits"), predict_bytes(size, "hits", ranks=4)
    assert shared["graph"] < 0.3 * alone["graph"]
    assert shared["peak"] < 0.5 * alone["peak"]


@pytest.mark.parametrize(
    "text", ["# no edge\n", "0 1\n1 2\n", "from to\n10 20\n30 -4\n", "a b 1\nb,c 2\n", "1 2\n" * 100]
)
@pytest.mark.parametrize("chunk", [30, 1 << 20])
def test_counts_are_those_of_the_reader(tmp_path, monkeypatch, text, chunk):
    path = tmp_path / "edges"
    path.write_text(text)
    monkeypatch.setattr("bmrm.io.edge_counts.CHUNK_BYTES", chunk)
    counts, edges = count_edges(path), read_edges(path)
    assert (counts.n_nodes, counts.n_edges) == (edges.n_nodes, edges.n_edges)
    assert counts.named == (edges.labels is not None and edges.labels.dtype.hasobject)
    assert (counts.label_bytes > 0) == (edges.labels is not None and edges.n_nodes > 0)


def test_the_command_predicts_and_ends(tmp_path, capsys):
    path = tmp_path / "edges"
    path.write_text("0 1\n1 2\n2 0\n")
    assert main(["pagerank", str(path), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 nodes, 3 edges in the file; at most"
    assert [line.split()[0] for line in lines[1:]] == [
        *("reading", "building", "graph", "matrix", "vectors", "peak")
    ]
    assert main(["rwr", str(path), "--queries", "0", "--undirected", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    size = GraphSize(3, 3, undirected=True)
    assert found == {"nodes": 3, "edges": 3, "ranks": 1, "bytes": predict_bytes(size, "rwr", HOST_BATCH)}
    assert main(["hits", f"{path}x", "--dry-run"]) == 3


def test_other_files_are_measured_by_reading(tmp_path):
    np.save(tmp_path / "edges.npy", np.array([[4, 5], [5, 6], [6, 6]]))
    assert measure_graph(tmp_path / "edges.npy")[:2] == (3, 3)
    (tmp_path / "g.metis").write_text("3 2\n2\n1 3\n2\n")
    size = measure_graph(tmp_path / "g.metis")
    assert (size.n_nodes, size.n_edges, size.undirected) == (3, 2, True)


def test_too_little_memory_is_one_error_that_names_the_command(monkeypatch):
    monkeypatch.setattr("bmrm.base.host_memory.MIN_CHECKED_BYTES", 0)
    G = Graph(([0, 1], [1, 0]))
    monkeypatch.setattr("bmrm.base.host_memory.available_bytes", lambda: 10)
    with pytest.raises(HostMemoryError, match=r"for a graph of 2 edges, .*; bmrm-graph --dry-run predicts"):
        Graph(([0, 1], [1, 0]))
    with pytest.raises(HostMemoryError, match="for the vectors of pagerank"):
        pagerank(G)


def test_counting_takes_bounded_memory(tmp_path):
    path = tmp_path / "edges"
    path.write_text("1 2\n" * 3_000_000)
    code = f"""{PEAK}
import sys
from bmrm.io import edge_counts
edge_counts.CHUNK_BYTES = 1 << 20
edge_counts.count_edges(sys.argv[2])
before = peak()
print(edge_counts.count_edges(sys.argv[1]).n_edges, peak() - before)
"""
    small = tmp_path / "small"
    small.write_text("1 2\n")
    words = [sys.executable, "-c", code, str(path), str(small)]
    edges, grown = map(int, subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert edges == 3_000_000
    assert grown < 30_000  # kB; the edges take 72 MB
