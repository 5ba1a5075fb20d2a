"""A program for several ranks: graphs over their GPUs against graphs of one process on the CPU.

The arguments are the number of emulated devices, of which two have what stands for NCCL (emulated.py), and
whether other streams run ahead. Rank 0 prints a checksum of all results, and how vectors went.
"""

import sys
import zlib

import numpy as np
import pytest
from mpi4py import MPI

from bmrm.distributed import Group
from bmrm.errors import DeviceMemoryError
from bmrm.graph import Graph, GraphShard, hits, pagerank, random_walk
from bmrm.graph.backends import choose, gpu
from bmrm.graph.backends.gpu import GpuTransitions
from bmrm.matrix.gpu.placement import place

if len(sys.argv) > 1:
    import emulated

    emulated.start(*map(int, sys.argv[1:]))

world = MPI.COMM_WORLD
group = Group(world)
device = place("cuda", group=group).gpu
rank, size = world.Get_rank(), world.Get_size()
everything = []


def same(*arrays):
    """All ranks have the same bits; they go into the checksum."""
    bits = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    assert len(set(world.allgather(bits))) == 1
    everything.append(bits)


def pair(parts, **keywords):
    """Return a graph of this process, and one over all ranks, of which the first has more edges."""
    count = len(parts[0])
    bounds = [count * r * (2 * size - r) // (size * size) for r in range(size + 1)]
    mine = tuple(part[bounds[rank] : bounds[rank + 1]] for part in parts)
    return Graph(parts, **keywords), GraphShard(mine, comm=group, **keywords)


def compare_ranks(alone, shared, **options):
    for tol in (1e-4, 1e-11):
        here = pagerank(alone, tol=tol, device="cpu", **options)
        there = pagerank(shared, tol=tol, device="cuda", **options)
        assert (here.status, there.status) == ("converged", "converged")
        assert np.abs(here.scores - there.scores).sum() <= here.error_bound + there.error_bound
        assert there.error_bound <= tol
        same(there.scores, there.error_bound, there.residual, there.n_products)


def compare_walks(alone, shared, count):
    queries = [0, {1: 2.0, 5: 1.0}, *range(7, 5 + count)][:count]
    for top in (None, 6):
        options = {"top": top, "tol": 1e-9, "batch": count}
        here = random_walk(alone, queries, 0.8, device="cpu", **options)
        there = random_walk(shared, queries, 0.8, device="cuda", **options)
        assert here.status == there.status
        apart, bounds = np.abs(here.scores - there.scores), here.error_bound + there.error_bound
        assert ((apart.sum(0) if top is None else apart.max(1)) <= bounds).all()
        same(there.scores, there.error_bound)
        if top is not None:
            for mine, theirs, proven in zip(
                here.nodes, there.nodes, np.minimum(here.proven, there.proven), strict=True
            ):
                assert (mine[:proven] == theirs[:proven]).all()


def compare_hits(alone, shared):
    here, there = hits(alone, tol=1e-12, device="cpu"), hits(shared, tol=1e-12, device="cuda")
    assert there.status == "converged"
    np.testing.assert_allclose(there.hubs, here.hubs, atol=1e-9)
    np.testing.assert_allclose(there.authorities, here.authorities, atol=1e-9)
    same(there.hubs, there.authorities, there.singular_value)


rng = np.random.default_rng(1)
n, edges = (500, 3000) if len(sys.argv) > 1 else (30_000, 600_000)


def random_edges(count):
    """Return sources, targets and weights."""
    return (
        rng.integers(0, n * 3 // 4, count),
        (n * rng.random(count) ** 3).astype(int),
        rng.uniform(0, 2, count),
    )


source, target, weight = random_edges(edges)
shares = rng.random((3, n))
for parts, orders in (((source, target), ["degree"]), ((source, target, weight), ["degree", "given"])):
    for order in orders:
        alone, shared = pair(parts, n_nodes=n, duplicates="sum", order=order)
        compare_ranks(alone, shared)
        compare_ranks(
            alone, shared, personalization=shares[0], dangling=shares[1], damping=0.95, method="anderson"
        )
    compare_ranks(alone, shared, dangling=shares[1], start=shares[2])
    compare_hits(alone, shared)
for count in (1, 2, 5):
    compare_walks(alone, shared, count)
assert shared.resident(("transitions", True, device), None).resident(1).nodes.rest


def take_turns(transitions):
    """Return norms of walks that share a window, some of which end with a step on its way."""
    found, walks = [], [transitions.walk(damping, gpu.Restarts()) for damping in (0.85, 0.5)]
    nodes = np.arange(4)
    several = gpu.Restarts(nodes=nodes, shares=np.ones(4), columns=nodes, n_columns=4)
    for walk in walks:
        walk.place(0)
    for step in range(4):
        for walk in walks:
            for _ in range(1 + step % 2):
                norms = walk.light_step([0], None, 2, 1, plain_next=step > 1)
                found += [*norms, *walk.light_step([1], None, 2, 0, plain_next=True)]
    walks.pop().close()
    walks += [transitions.walk(0.85, gpu.Restarts()), transitions.walk(0.85, several)]
    for walk in walks[1:]:
        walk.place(0)
    for walk in walks:
        found += [*walk.light_step([0], None, 2, 1, plain_next=True), *walk.exact_step(1, 0)]
        walk.close()
    return found


linked_by, bits = shared.peers.linked_by, []
for windows in (True, False):  # messages written to other devices, if these can, and as all else goes
    again = pair(parts, n_nodes=n, duplicates="sum")[1]
    again.peers.windows = windows
    bits.append(pagerank(again, tol=1e-11, device="cuda").scores.tobytes())
    bits[-1] += np.array(take_turns(choose.transitions_of(again, True, "cuda", 4)[0])).tobytes()
    walk = choose.transitions_of(again, True, "cuda")[0].walk(0.85, gpu.Restarts())
    has_window = linked_by == "NCCL" and windows
    assert walk.has_window == has_window or len(sys.argv) == 1  # not every machine lets devices do that
    walk.close()
assert bits[0] == bits[1]

# Less memory than P' takes twice: once, in float64, part of which streams on a device.
shared = pair(random_edges(2 * edges), n_nodes=n, duplicates="sum")[1]
transitions = GpuTransitions(shared, True, device)
both = gpu.format_bytes(transitions._edges, np.float64) + sum(
    gpu.format_bytes(part, np.float32) for part in gpu.split_by_source(transitions._edges, shared.own)
)
vectors = gpu.import_cuda().predict_walk_bytes(transitions.n_own, 1, gpu.MAX_IMAGES, n)
found = []
for limit in (None, vectors + both - 1):
    transitions = GpuTransitions(shared, True, device, limit)
    assert (transitions.resident(1).nodes.light is None) == (limit is not None)
    walk = transitions.walk(0.85, gpu.Restarts())
    walk.place(0)
    norms = [walk.light_step([step], None, 9, step + 1)[0] for step in range(6)]
    walk.light_step([6, 5], np.array([[0.75], [0.25]]), 8, 7)
    walk.exact_step(7, 0)
    found.append((norms, walk.scores(0, [0])[0]))
    walk.close()
np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4)
np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-7)

# Some of what streams is the CPU's, of each rank its own rows.
dense = pair(tuple(rng.integers(0, n, (2, 120 * n))), n_nodes=n)[1]
exact = group.everyones(gpu.format_bytes(GpuTransitions(dense, False, device)._edges, np.float64))[0]
basis = 8 * transitions.n_own * gpu.MAX_BASIS_VECTORS + gpu.BASIS_NODE_BYTES * n
for run, limit in ((pagerank, vectors + exact * 3 // 4), (hits, basis + exact * 3 // 2)):
    alone, both = (run(dense, device="cuda", gpu_mem=limit, cpu_share=share) for share in (0, 0.5))
    assert "the CPU computes" in both.placement.reason
    assert "the CPU computes" not in alone.placement.reason
    if run is pagerank:
        assert np.abs(alone.scores - both.scores).sum() <= alone.error_bound + both.error_bound
        same(both.scores, both.error_bound)
    else:
        np.testing.assert_allclose(both.hubs, alone.hubs, atol=1e-7)
        same(both.hubs, both.authorities)

# A failure of one rank is raised on all; graphs without nodes on some rank stay on the CPU.
with pytest.raises(DeviceMemoryError, match="too little"):
    GpuTransitions(shared, True, device, None if rank else 1000).resident(1)
for parts in (([], []), ([3], [3])):
    alone, shared = pair(tuple(np.array(part, int) for part in parts))
    same(pagerank(shared, device="cuda").scores)

if rank == 0:
    print(zlib.crc32(b"".join(everything)), linked_by)
