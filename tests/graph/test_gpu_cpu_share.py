"""Graphs some of whose edges stay in main memory, where the CPU multiplies by them beside the GPU."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from devices import cuda, gpu, in_each_order

from bmrm.base.vectors import UNIT
from bmrm.errors import ParameterError
from bmrm.graph import Graph, hits, pagerank, random_walk
from bmrm.graph.backends.gpu import (
    BASIS_NODE_BYTES,
    MAX_BASIS_VECTORS,
    MAX_IMAGES,
    GpuTransitions,
    additions_of,
    format_bytes,
    upload,
)
from bmrm.graph.backends.host import transition_values
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu

NODES, EDGES = 400, 40_000
TEXT = "the CPU computes"


def drawn(n=NODES, count=EDGES, seed=5):
    """Edges, some of which are drawn twice, from four fifths of the nodes, with a hub that most point to."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (count, 2))
    ends[:, 0] %= n * 4 // 5
    hub = np.stack([np.arange(n * 4 // 5), np.full(n * 4 // 5, n // 2)], axis=1)
    ends = np.concatenate([ends, hub])
    return ends[:, 0], ends[:, 1], rng.uniform(0, 2, len(ends))


def graph_of(*, weights=False, **options):
    source, target, weight = drawn(**options)
    n = options.get("n", NODES)
    arrays = (source, target, weight) if weights else (source, target)
    return Graph(arrays, n_nodes=n, duplicates="sum" if weights else "drop", order="given")


def limit_of(graph, weights=False, columns=1, task="pagerank"):
    """A size of which half of the matrix streams, or more: weights take more bytes in some formats."""
    n, edges = graph.n_nodes, GpuTransitions(graph, weights)._edges
    size = format_bytes(edges, np.float64, transpose=task == "hits")
    size //= 3 if weights else 2
    if task == "hits":
        return size + 8 * n * MAX_BASIS_VECTORS + BASIS_NODE_BYTES * n
    return size + cuda.predict_walk_bytes(n, columns, MAX_IMAGES, n)


def check_split(placement, share):
    """The text names so many eighths of the blocks that do not fit."""
    text = placement.reason.partition(TEXT)[2].split()
    own, streamed = int(text[0]), int(text[2])
    assert own == int(8 * share) * streamed // 8 >= 1


@gpu
@pytest.mark.parametrize("weights", [False, True])
@in_each_order
def test_pagerank_of_both_devices(weights):
    limit, shares = limit_of(graph_of(weights=weights), weights), np.random.default_rng(2).random((2, NODES))
    for options in ({}, {"personalization": shares[0], "dangling": shares[1], "method": "anderson"}):
        here = pagerank(graph_of(weights=weights), tol=1e-11, device="cpu", **options)
        for share in (0.25, 0.5, 1):
            there = pagerank(
                graph_of(weights=weights),
                tol=1e-11,
                device="cuda",
                gpu_mem=limit,
                cpu_share=share,
                **options,
            )
            check_split(there.placement, share)
            assert there.status == "converged"
            assert there.error_bound <= 1e-11
            assert np.abs(there.scores - here.scores).sum() <= there.error_bound + here.error_bound


@gpu
@pytest.mark.parametrize("weights", [False, True])
def test_the_same_split_gives_the_same_bits(weights):
    limit = limit_of(graph_of(weights=weights), weights)

    def bits(share, threads=1):
        graph = graph_of(weights=weights)
        graph.threads = threads
        found = pagerank(graph, tol=1e-11, device="cuda", gpu_mem=limit, cpu_share=share)
        assert (TEXT in found.placement.reason) == (share not in (0, None, "auto"))
        return found.scores.tobytes(), found.error_bound

    assert bits(0.5) == bits(0.5, threads=3)
    assert bits(0) == bits(None) == bits("auto")  # sparse rows stream unless a share is asked for


@gpu
@pytest.mark.parametrize("weights", [False, True])
def test_the_bound_is_kept_in_exact_arithmetic(weights):
    """Nodes of a class are alike: each sends a weight to every node of another; the last are dangling."""
    pytest.importorskip("flint")
    import exact_pagerank as exact

    rng, sizes = np.random.default_rng(8), [1, 3, 60, 140, 196]
    first = np.concatenate([[0], np.cumsum(sizes)])
    others = [[i for i in range(5) if i != j] for j in range(4)]
    shares = [{i: rng.uniform(0.1, 2) if weights else 1.0 for i in each} for each in others] + [{}]
    parts = [
        np.stack(
            [
                np.repeat(np.arange(first[j], first[j + 1]), sizes[i]),
                np.tile(np.arange(first[i], first[i + 1]), sizes[j]),
                np.full(sizes[i] * sizes[j], weight),
            ]
        )
        for j, row in enumerate(shares)
        for i, weight in row.items()
    ]
    source, target, weight = np.concatenate(parts, axis=1)
    arrays = source.astype(int), target.astype(int), weight
    graph = Graph(arrays if weights else arrays[:2], n_nodes=sum(sizes), order="given")
    limit = limit_of(graph, weights)
    found = pagerank(graph, 0.9, tol=0.0, device="cuda", gpu_mem=limit, cpu_share=0.75)
    check_split(found.placement, 0.75)
    true = np.repeat(exact.pagerank_of_classes(sizes, shares, 0.9), sizes)
    assert exact.l1_distance(found.scores, true.tolist()) <= found.error_bound <= 1e-12


@gpu
def test_scores_are_those_of_networkx():
    nx = pytest.importorskip("networkx")
    known = nx.DiGraph(zip(*(ends.tolist() for ends in drawn()[:2]), strict=True))
    known.add_nodes_from(range(NODES))
    expected = nx.pagerank(known, tol=1e-13 / NODES, max_iter=1000)
    graph = Graph(known)
    found = pagerank(graph, tol=1e-12, device="cuda", gpu_mem=limit_of(graph), cpu_share=0.5)
    check_split(found.placement, 0.5)
    assert found.to_dict() == pytest.approx(expected, abs=1e-11)


@gpu
@pytest.mark.parametrize(("count", "top"), [(8, None), (8, 5), (3, None), (20, None)])
@in_each_order
def test_several_walks_of_both_devices(count, top):
    graph = graph_of()
    options = {"tol": 1e-10, "top": top, "batch": count}
    queries = [0, {1: 2.0, 5: 1.0}, *range(7, 5 + count)]
    here = random_walk(graph, queries, 0.8, device="cpu", **options)
    limit, found = limit_of(graph, columns=count), []
    for _ in range(2):
        there = random_walk(graph_of(), queries, 0.8, device="cuda", gpu_mem=limit, cpu_share=0.5, **options)
        check_split(there.placement, 0.5)
        assert there.status == here.status
        apart, bounds = np.abs(there.scores - here.scores), there.error_bound + here.error_bound
        assert ((apart.sum(0) if top is None else apart.max(1)) <= bounds).all()
        found.append(there.scores.tobytes())
    assert found[0] == found[1]


@gpu
@pytest.mark.parametrize("weights", [False, True])
@in_each_order
def test_hits_of_both_devices(weights):
    graph = graph_of(weights=weights)
    limit, found = limit_of(graph, weights, task="hits"), []
    here = hits(graph, tol=1e-12, device="cpu")
    for _ in range(2):
        there = hits(graph_of(weights=weights), tol=1e-12, device="cuda", gpu_mem=limit, cpu_share=0.5)
        check_split(there.placement, 0.5)
        assert there.status == "converged"
        assert there.singular_value == pytest.approx(here.singular_value, rel=1e-12)
        assert there.hubs == pytest.approx(here.hubs, abs=1e-9)
        assert there.authorities == pytest.approx(here.authorities, abs=1e-9)
        found.append(there.hubs.tobytes() + there.authorities.tobytes())
    assert found[0] == found[1]


@gpu
def test_another_share_of_the_same_graph_takes_effect():
    graph = graph_of()
    for run, limit in ((pagerank, limit_of(graph)), (hits, limit_of(graph, task="hits"))):
        for share in (0.5, 0.25, 1):
            check_split(run(graph, device="cuda", gpu_mem=limit, cpu_share=share).placement, share)
        assert TEXT not in run(graph, device="cuda", gpu_mem=limit).placement.reason


@gpu
def test_what_fits_is_not_shared():
    graph = graph_of()
    for run in (pagerank, hits, lambda *a, **k: random_walk(*a, [0, 1], **k)):
        assert TEXT not in run(graph, device="cuda", cpu_share=1).placement.reason


@gpu
@pytest.mark.parametrize("columns", [1, 2, 8, 9, 32])
@pytest.mark.parametrize("weights", [False, True])
def test_products_round_no_more_than_is_counted(columns, weights):
    """Every product of both devices in float64 is within its additions of one in long double."""
    graph = graph_of(weights=weights)
    starts, sources, _ = graph.edges_by_target
    values, _ = transition_values(graph, weights)
    X, lengths = Csr(starts, sources, values, (NODES, NODES)), np.diff(starts)
    spare = 16 * 8 * NODES * columns
    limit = format_bytes(X, np.float64) // 2 + spare
    plan = "split" if columns > 1 else None
    matrix = upload(X, 0, np.float64, spare, plan=plan, limit=limit, share=4, columns=columns)
    assert any(block["on_host"] for block in matrix.row_blocks)
    most, per_entry = additions_of(matrix, columns)
    assert all(np.greater_equal((most, per_entry), _cpu.row_additions(columns)))
    x = np.random.default_rng(7).random((NODES, columns))
    y = matrix.matvec(x[:, 0])[:, None] if columns == 1 else matrix.matmat(x)
    terms = x[sources].astype(np.longdouble)
    if values is not None:
        terms *= values.astype(np.longdouble)[:, None]
    filled = lengths > 0
    true = np.add.reduceat(terms, starts[:-1][filled], axis=0)
    additions = np.minimum(lengths, most + per_entry * lengths)[filled]
    assert (np.abs(y[filled] - true) / true <= 1.01 * UNIT * (additions + 1)[:, None]).all()


@gpu
def test_a_matrix_without_its_transpose_has_none_on_the_cpu():
    graph = graph_of()
    starts, sources, _ = graph.edges_by_target
    X, limit = Csr(starts, sources, None, (NODES, NODES)), 0
    for transpose in (False, True):
        limit = format_bytes(X, np.float64, transpose=transpose) // 2
        matrix = upload(X, 0, np.float64, 0, limit=limit, share=8, transpose=transpose)
        blocks = [block for block in matrix.row_blocks if block["on_host"]]
        assert all(first["first"] + first["rows"] == last["first"] for first, last in pairwise(blocks))
        begin, end = blocks[0]["first"], blocks[-1]["first"] + blocks[-1]["rows"]
        own = slice(starts[begin], starts[end])
        alone = _cpu.Matrix(starts[begin : end + 1] - starts[begin], sources[own], None, (end - begin, NODES))
        if transpose:
            alone.build_transpose()
        assert matrix.host_bytes == alone.nbytes


@pytest.mark.parametrize("share", [-0.125, 0.3, 1.125, "half", float("nan")])
def test_shares_that_are_no_eighths_are_refused(share):
    for run in (pagerank, hits, lambda *a, **k: random_walk(*a, [0], **k)):
        for device in ("cpu", "auto"):
            with pytest.raises(ParameterError, match=r"^cpu_share: found [^\n]*$"):
                run(graph_of(), device=device, cpu_share=share)


def test_on_a_cpu_there_is_nothing_to_share():
    for share in (None, "auto", 0, 0.5, 1):
        found = pagerank(graph_of(), device="cpu", cpu_share=share)
        assert found.placement.reason == "as given"
