"""Count pairs of the points of several ranks, and compare with one; for the test named so."""

import numpy as np
from mpi4py import MPI

from bmrm.distributed import Group
from bmrm.errors import BmrmError, DataError
from bmrm.pairs import Points, count, explain, histogram

comm = MPI.COMM_WORLD
rng = np.random.default_rng(0)
x, y = rng.random((1900, 3)), rng.random((401, 3))
ends = [0, *(int(1900 * (r + 1) ** 2 / comm.size**2) for r in range(comm.size))]
mine = slice(ends[comm.rank], ends[comm.rank + 1])
other = np.array_split(np.arange(401), comm.size)[comm.rank]
edges = np.linspace(0, 0.5, 40)

for box, images in ((None, None), (1.0, None), (0.4, "one"), (0.9, "all")):
    for plan in ("float64", "auto"):
        words = {"edges": edges, "images": images, "plan": plan}
        if images == "all":
            words["edges"] = edges[:20]
        alone = histogram(Points(x, box=box), **words)
        here = Points(x[mine], box=box, comm=comm)
        assert here.shape == (1900, 3)
        found = histogram(here, **words)
        assert np.array_equal(found.counts, alone.counts), (box, images, plan)
        assert (found.pairs, found.candidates, found.share) == (alone.pairs, alone.candidates, 1.0)
        assert abs(found.rechecked - alone.rechecked) < 1e-12
        both = histogram(here, Points(y[other], box=box, comm=comm), **words)
        assert np.array_equal(both.counts, histogram(Points(x, box=box), Points(y, box=box), **words).counts)

assert histogram(x[mine], y[other], edges=edges, comm=comm).pairs == 1900 * 401
assert count(x[mine], radius=0.1, comm=Group(comm)) == count(x, radius=0.1)
assert histogram(x[:0], edges=edges, comm=comm).counts.tolist() == [0] * 39
assert "cpu" in explain(x[mine], edges=edges, comm=comm)

numbers = np.array([2**62, comm.rank, -(2**60)], np.int64)
group = Group(comm)
group.add_up(numbers)
assert numbers.tolist() == [
    (2**62 * comm.size + 2**63) % 2**64 - 2**63, comm.size * (comm.size - 1) // 2, -(2**60) * comm.size
]  # fmt: skip


def failure(call):
    try:
        call()
    except BmrmError as error:
        return type(error), str(error)
    return None


bad = x[mine].copy()
if comm.rank == comm.size - 1:
    bad[0, 0] = np.nan
found = failure(lambda: Points(bad, comm=comm))
assert found == (DataError, "x: row 1, column 1 has nan, expected a finite number"), found
if comm.size > 1:
    found = failure(lambda: Points(x[mine, : 2 + (comm.rank == 0)], comm=comm))
    assert found[1] == "x: found 2 columns on one rank and 3 on another", found
    found = failure(lambda: Points(x[mine], box=1.0 + comm.rank, comm=comm))
    assert found[1] == "box: found different lengths on the ranks, expected the same on all", found
print("done", flush=True)
