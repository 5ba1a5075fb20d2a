"""Run reductions on the rows of several ranks, and compare with all rows on one; for the test named so."""

import numpy as np
import scipy.sparse
from mpi4py import MPI
from programs import CASES
from turns import by_one

from bmrm.distributed import Shard
from bmrm.distributed._parts import part_rows
from bmrm.errors import ReductionError

comm = MPI.COMM_WORLD
rng = np.random.default_rng(0)
PART_ROWS = part_rows(1)
ROWS = 3 * PART_ROWS + 100
X = rng.integers(-32, 33, (ROWS, 4)) / 16 + 1 / 64
whole_parts = PART_ROWS * np.linspace(0, 3, comm.size + 1).astype(int)
whole_parts[-1] = ROWS
anywhere = np.linspace(0, ROWS, comm.size + 1).astype(int)


def compare(name, make, bounds, same_bits):
    """Run a program on rows that `make` makes of an array, with rank r's rows from bounds[r]."""
    case = CASES[name]
    words = case.arguments(np.random.default_rng(1), X)
    mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
    here = {key: value[mine] if np.shape(value)[:1] == (ROWS,) else value for key, value in words.items()}
    shard = Shard(make(X[mine]), comm=comm)
    found = case.reduction(shard, **here)
    alone = by_one(comm, lambda: tuple(case.reduction(make(X), **words)))
    outputs = {a.name for a in case.reduction._binder.general.outputs()}
    exact = name in ("histogram", "item sets", "nearest rows", "vote")
    if comm.rank == 0:
        said = case.reduction.explain(shard, **here)
        assert ("and as without ranks: every part" in said) == (same_bits and not exact), (name, said)
        assert ("ranks with these rows" in said) == (not same_bits and not exact), said
        assert ("threads and ranks: no result is a sum" in said) == exact, said
    for field, one, whole in zip(found._fields, found, alone, strict=True):
        if field in outputs:
            whole = whole[mine]
        if same_bits or exact or field in outputs:
            assert np.asarray(one).tobytes() == np.asarray(whole).tobytes(), (name, field)
        else:
            np.testing.assert_allclose(one, whole, rtol=1e-12, atol=1e-12, err_msg=f"{name} {field}")
    everywhere = comm.allgather(
        [np.asarray(v).tobytes() for f, v in found._asdict().items() if f not in outputs]
    )
    assert all(each == everywhere[0] for each in everywhere), name


for name, case in CASES.items():
    compare(name, np.asarray, whole_parts, True)
    compare(name, np.asarray, anywhere, comm.size == 1)
    if case.sparse:
        compare(name, lambda rows: scipy.sparse.csr_matrix(rows * (rows > 1)), whole_parts, True)

# All values of a rank may be 1, which stores none: the type of real numbers is that of all ranks.
flags = (X > 1.9).astype(np.float32)
flags[0, 0] = 0.5
mine = slice(whole_parts[comm.rank], whole_parts[comm.rank + 1])
words = {"y": 1.0, "weights": np.array([0.1, 0.2, 0.3, 0.7])}
step = CASES["logistic gradient"].reduction
found = step(Shard(scipy.sparse.csr_matrix(flags[mine]), comm=comm), **words)
assert found.gradient.tobytes() == step(scipy.sparse.csr_matrix(flags), **words).gradient.tobytes()

shard = Shard(X[mine], comm=comm)
sets = {"sets": [[0]]}
for words in ({"sets": [[4]]} if comm.rank else sets, {**sets, "other": 1} if comm.rank else sets):
    try:
        CASES["item sets"].reduction(shard, **words)
    except ReductionError as error:
        print(f"failed: {error}\n", end="")
print(f"rank {comm.rank} done\n", end="")
