"""Graphs over several ranks: the answers of one process, the same bits each time, no rank left waiting."""

from __future__ import annotations

import gzip
import json
import os
from itertools import pairwise
from pathlib import Path

import mpi
import networkx as nx
import numpy as np
import pytest

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")

from mpi4py import MPI

from bmrm.errors import DataError, ParameterError
from bmrm.graph import GraphShard, pagerank
from bmrm.graph.backends.ranks.dealing import cut_nodes, deal_nodes

COMMAND = "import sys; from bmrm.cli.graph import main; sys.exit(main())"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with graphs as text; repeated edges and comments are where texts are split."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    pairs = (70 * rng.random((600, 2)) ** 2).astype(int)
    lines = [f"{u} {v}\n" if i % 50 else f"# {i}\n\n{u}\t{v}\n" for i, (u, v) in enumerate(pairs)]
    Path("integers").write_text("".join(lines))
    Path("names").write_text("".join(f"n{u}, näme-{v} {i % 7}\n" for i, (u, v) in enumerate(pairs)))
    Path("header").write_text(
        "from to weight\n" + "".join(f"{u * 10} {v} {i % 7}\n" for i, (u, v) in enumerate(pairs))
    )
    Path("packed.gz").write_bytes(gzip.compress("".join(lines).encode()))
    return tmp_path


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_results_are_those_of_one_process_and_the_same_each_time(folder, ranks):
    program = Path(__file__).with_name("shard_program.py")
    found = [mpi.run(ranks, program, folder, own_job=again) for again in range(2 if ranks == 2 else 1)]
    assert all(done.returncode == 0 for done in found), found[0].stderr
    assert len({done.stdout for done in found}) == 1


@pytest.mark.parametrize("task", ["pagerank", "hits"])
def test_the_command_on_ranks_writes_once_what_networkx_finds(folder, task):
    done = mpi.run(2, "-c", COMMAND, task, "integers", "--tol", "1e-12", "-o", "scores.npz", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["status"] == "converged"
    G = nx.read_edgelist("integers", create_using=nx.DiGraph, nodetype=int)
    expected = nx.pagerank(G, tol=1e-13) if task == "pagerank" else nx.hits(G)[1]
    with np.load("scores.npz") as arrays:
        scores = arrays["score" if task == "pagerank" else "authority"]
        found = dict(zip(arrays["node"].tolist(), scores.tolist(), strict=True))
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_command_on_ranks_walks_and_counts(folder):
    Path("queries").write_text("n1 n2\n")
    words = ["rwr", "names", "--queries", "queries", "--json", "--top", "3"]
    alone, shared = (json.loads(mpi.run(ranks, "-c", COMMAND, *words).stdout) for ranks in (1, 2))
    for one, other in zip(alone["queries"], shared["queries"], strict=True):
        assert [node for node, _ in one["top"]] == [node for node, _ in other["top"]]
    alone, shared = (mpi.run(ranks, "-c", COMMAND, "info", "names", "--json").stdout for ranks in (1, 2))
    assert {**json.loads(alone), "bytes": 0} == {**json.loads(shared), "bytes": 0}


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("1 2\n" * 40 + "3 x\n" + "1 2\n" * 5, [], 'faulty:41:3: found "x"'),
        ("1 2 1\n" * 40 + "3 4 -1\n", ["--weighted"], "edge 41 from 3 to 4 has -1.0"),
        ("1 2\n" * 9, ["--seeds", "5"], "--seeds: found 5"),
        (None, [], "faulty: No such file"),
        ("1 2\n", ["--cache"], "--cache: only without MPI"),
    ],
)
def test_a_fault_ends_all_ranks_with_one_message(folder, text, words, message):
    if text is not None:
        Path("faulty").write_text(text)
    done = mpi.run(3, "-c", COMMAND, "pagerank", "faulty", *words)
    assert done.returncode == (2 if {"--seeds", "--cache"} & {*words} else 3)
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert done.stdout == ""


def test_a_fault_of_one_rank_is_raised_on_all(folder):
    mpi.succeed(
        2,
        mpi.script(
            folder,
            """
from mpi4py import MPI
from bmrm.errors import DataError, ParameterError
from bmrm.graph import GraphShard, pagerank, random_walk, read_graph

rank = MPI.COMM_WORLD.Get_rank()

def fails(call, kind, words):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

def shard(*parts, **keywords):
    return GraphShard(parts, comm=MPI.COMM_WORLD, **keywords)

fails(lambda: shard([1], [2], [float("nan") if rank else 1.0]), DataError, "weight: edge 2 from 1 to 2")
fails(lambda: shard([1], [2], duplicates="error"), DataError, "found the edge from 1 to 2 twice")
fails(lambda: shard([1], [2], [1e308 * 1.5]), DataError, "expected a finite sum")
fails(lambda: shard([1], [2], order="given" if rank else "auto"), ParameterError, "order: found auto on one")
fails(lambda: shard([0], [1], n_nodes=2 if rank else None), ParameterError, "n_nodes: found none on one rank")
fails(lambda: shard([0], [1], labels=["a", "b" if rank else "c"]), ParameterError, "labels: found different")
G = shard([1, 2], [2, 3])
fails(lambda: pagerank(G, 0.5 + 0.1 * rank), ParameterError, "damping: found 0.5 on one rank")
fails(lambda: pagerank(G, personalization={1 + 4 * rank: 1.0}), ParameterError, "found 5, expected a node")
fails(lambda: pagerank(G, start={1 + rank: 1.0}), ParameterError, "start: found 3 numbers")
fails(lambda: random_walk(G, [1, 2 + rank]), ParameterError, "queries: found")
kinds = {"labels": "string" if rank else "auto", "comm": MPI.COMM_WORLD}
fails(lambda: read_graph("integers", **kinds), ParameterError, "labels: found auto on one rank")
found = pagerank(G, max_time=1e-9 if rank else 9.0)
assert found.status == "max_time" and found.n_iter == 1
assert pagerank(G, callback=lambda state: rank == 1).status == "interrupted"
""",
        ),
    )


def test_a_signal_to_one_rank_ends_all_with_the_best_ranking(folder):
    code = """
import os, signal, sys
from bmrm.cli import graph
watch = graph._Watch.__call__
def press(self, state):
    if os.environ["PMI_RANK"] == "1" and state.iteration == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return watch(self, state)
graph._Watch.__call__ = press
sys.exit(graph.main(sys.argv[1:]))
"""
    done = mpi.run(2, "-c", code, "pagerank", "integers", "--tol", "1e-300", "--json")
    assert (done.returncode, done.stderr) == (130, "")
    report = json.loads(done.stdout)
    assert (report["status"], report["n_iter"]) == ("interrupted", 3)


def test_nodes_are_dealt_balanced_in_rows_and_entries():
    rng = np.random.default_rng(2)
    degrees = {
        "power law": np.minimum(rng.zipf(1.8, 60_000), 20_000),
        "even": rng.integers(0, 30, 5000),
        "none": np.zeros(100, int),
    }
    for name, degree in degrees.items():
        for ranks in (2, 3, 8):
            order, bounds = deal_nodes(degree, ranks)
            assert (np.sort(order) == np.arange(len(degree))).all()
            entries = [degree[order[a:b]].sum() for a, b in pairwise(bounds)]
            # Bitonic dealing leaves up to one longest row more on a rank.
            assert max(entries) <= 1.002 * sum(entries) / ranks + 1, (name, ranks)
            assert np.diff(bounds).max() <= 1.02 * len(degree) / ranks + 1, (name, ranks)
            cuts = cut_nodes(degree, ranks)
            work = [(degree[a:b] + 4).sum() for a, b in pairwise(cuts)]
            assert max(work) <= sum(work) / ranks + degree.max() + 4


def test_a_hub_leaves_the_other_rows_to_other_ranks():
    degree = np.concatenate([[1000], np.full(500, 2)])
    order, bounds = deal_nodes(degree, 2)
    assert order[: bounds[1]].tolist()[0] == 0
    work = [(degree[part] + 4).sum() for part in np.split(order, bounds[1:-1])]
    assert abs(work[0] - work[1]) <= 12
    order, bounds = deal_nodes(np.array([1000, 1, 1]), 2)
    assert bounds.tolist() == [0, 1, 3]


def test_one_rank_needs_no_launcher():
    G = GraphShard((["a", "b"], ["b", "a"]), comm=MPI.COMM_SELF, directed=False)
    assert repr(G) == "<Graph: 2 nodes, 2 edges, undirected>"
    assert pagerank(G).scores.tolist() == [0.5, 0.5]
    with pytest.raises(ParameterError, match="comm: found 1"):
        GraphShard(([1], [2]), comm=1)
    with pytest.raises(DataError, match="expected a finite number"):
        GraphShard(([1], [2], [np.inf]), comm=MPI.COMM_SELF)
