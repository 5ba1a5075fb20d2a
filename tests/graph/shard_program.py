"""A program for several ranks: graphs over all of them against graphs of one process, and exact arithmetic.

Rank 0 prints a checksum of all results.
"""

import sys
import zlib
from pathlib import Path

import exact_pagerank as exact
import graph_cases
import numpy as np
from mpi4py import MPI
from scipy import io, sparse

from bmrm.distributed import Group
from bmrm.graph import Graph, GraphShard, hits, pagerank, random_walk, read_graph

world = MPI.COMM_WORLD
group = Group(world)
rank, size = world.Get_rank(), world.Get_size()
folder = Path(sys.argv[1])
everything = []


def same(*arrays):
    """All ranks have the same bits; they go into the checksum."""
    bits = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    assert len(set(world.allgather(bits))) == 1
    everything.append(bits)


def shard(parts, **keywords):
    """Give each rank its run of the edges, the first rank more than the others."""
    count = len(parts[0])
    bounds = [count * r * (2 * size - r) // (size * size) for r in range(size + 1)]
    return GraphShard(tuple(part[bounds[rank] : bounds[rank + 1]] for part in parts), comm=group, **keywords)


def compare(alone, shared):
    figures = alone.report(), shared.report()
    for report in figures:
        report.pop("bytes")
        report.pop("peeled_nodes")  # none on ranks
    assert figures[0] == figures[1]
    assert alone.labels.to_list() == shared.labels.to_list()
    assert (alone.in_degree == shared.in_degree).all()
    assert (alone.out_degree == shared.out_degree).all()
    assert (alone.dangling == shared.dangling).all()
    assert sum(world.allgather(shared.own.stop - shared.own.start)) == alone.n_nodes
    whole = sum(world.allgather(shared.to_scipy()), sparse.csr_array(shared.to_scipy().shape))
    assert (whole != alone.to_scipy()).nnz == 0
    one, other = pagerank(alone, tol=1e-11), pagerank(shared, tol=1e-11)
    assert (one.status, other.status) == ("converged", "converged")
    assert np.abs(one.scores - other.scores).sum() <= one.error_bound + other.error_bound
    assert other.error_bound <= 1e-11
    same(other.scores, other.error_bound, other.residual)


def compare_walks(alone, shared):
    queries = [alone.labels[0], alone.labels[3], {alone.labels[1]: 1.0, alone.labels[2]: 3.0}]
    one, other = (random_walk(graph, queries, top=5) for graph in (alone, shared))
    assert other.status == ["converged"] * 3
    for mine, theirs, proven in zip(
        one.nodes, other.nodes, np.minimum(one.proven, other.proven), strict=True
    ):
        assert (mine[:proven] == theirs[:proven]).all()
    same(other.nodes, other.scores, other.error_bound, other.proven)
    one, other = (
        random_walk(graph, queries, top=None, undirected=True, tol=1e-10, batch=2)
        for graph in (alone, shared)
    )
    assert (np.abs(one.scores - other.scores).sum(0) <= one.error_bound + other.error_bound).all()
    same(other.scores)


def compare_hits(alone, shared):
    one, other = hits(alone, tol=1e-12), hits(shared, tol=1e-12)
    np.testing.assert_allclose(other.hubs, one.hubs, atol=1e-9)
    np.testing.assert_allclose(other.authorities, one.authorities, atol=1e-9)
    assert other.unique == one.unique
    same(other.hubs, other.authorities, other.residual)


rng = np.random.default_rng(7)
source, target = ((300 * rng.random(2500) ** power).astype(int) * 7 for power in (2, 3))
weight = np.round(10 * rng.random(2500), 2)
for keywords in (
    {},
    {"directed": False, "order": "degree", "self_loops": "drop"},
    {"order": "given", "duplicates": "sum"},
)[2 * (size == 3) :]:  # three ranks share two cores
    for parts in ((source, target), (source, target, weight)):
        alone, shared = Graph(parts, **keywords), shard(parts, **keywords)
        compare(alone, shared)
compare_walks(alone, shared)
compare_hits(alone, shared)

# Other inputs: names, numbers, a matrix, nothing at all, fewer nodes than ranks, several components.
A = sparse.random_array((60, 60), density=0.1, rng=np.random.default_rng(1), format="csr")
if size < 3:
    names = [f"n{i % 97}" for i in source], [f"n{i % 89}" for i in target]
    compare(Graph(names), shard(names))
    compare(Graph((source, target), n_nodes=2200), shard((source, target), n_nodes=2200))
    compare(Graph(A), GraphShard(A if rank == size - 1 else None, comm=world))
two = [0, 1, 0, 5, 6, 5], [1, 2, 2, 6, 7, 7]
compare(Graph(two), shard(two))
compare_hits(Graph(two), shard(two))
assert not hits(shard(two)).unique
for parts in (([], []), ([3], [3]), ([1, 2], [2, 1])):
    small = shard(parts)
    assert small.n_nodes == len({*parts[0], *parts[1]})
    same(pagerank(small).scores, hits(small).hubs)

# Files: text that is split anywhere, integers and names, compressed, and a format that rank 0 reads.
for name in ("integers", "names", "header", "packed.gz", "matrix.mtx")[: 2 if size == 3 else 5]:
    path, keywords = folder / name, {"weights": name in ("header", "matrix.mtx")}
    if rank == 0 and name == "matrix.mtx":
        io.mmwrite(path, A)
    world.Barrier()
    compare(read_graph(path, **keywords), read_graph(path, comm=world, **keywords))

# The bound against exact arithmetic.
rng, proven = np.random.default_rng(11), 0
count = 8 if size == 3 else 25
for _ in range(count):
    case = graph_cases.random_case(rng)
    keywords = {"personalization": case.restart, "dangling": case.dangling, "tol": 1e-12}
    found = pagerank(shard(case.arrays, n_nodes=case.n), case.damping, **keywords)
    if rank == 0:
        right = exact.pagerank(case.edges, case.n, case.damping, case.restart, case.dangling)
        assert exact.l1_distance(found.scores, right) <= found.error_bound, case
    proven += found.status == "converged"
assert proven > count // 2
if rank == 0:
    print(zlib.crc32(b"".join(everything)))
