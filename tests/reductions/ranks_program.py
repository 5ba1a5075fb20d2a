"""Run reductions on the rows of several ranks, and compare with all rows on one; for `test_ranks.py`."""

import numpy as np
from mpi4py import MPI
from programs import CASES

from bmrm.distributed import Shard
from bmrm.errors import ReductionError

comm = MPI.COMM_WORLD
rng = np.random.default_rng(0)
X = rng.integers(-32, 33, (300, 4)) / 16 + 1 / 64
bounds = np.linspace(0, len(X), comm.size + 1).astype(int)
mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
shard = Shard(X[mine], np.ones(mine.stop - mine.start), comm=comm)
for name, case in CASES.items():
    words = case.arguments(rng, X)
    here = {key: value[mine] if np.shape(value)[:1] == (300,) else value for key, value in words.items()}
    found, expected = case.reduction(shard, **here), case.expected(X, words)
    outputs = {a.name for a in case.reduction._binder.general.results() if a.role == "output"}
    for field, one, whole in zip(found._fields, found, expected, strict=True):
        whole = whole[mine] if field in outputs else whole
        np.testing.assert_allclose(one, whole, rtol=1e-12, atol=1e-12, err_msg=f"{name} {field}")
    everywhere = comm.allgather(
        [np.asarray(v).tobytes() for f, v in found._asdict().items() if f not in outputs]
    )
    assert all(each == everywhere[0] for each in everywhere), name
try:
    CASES["item sets"].reduction(shard, sets=[[4]] if comm.rank else [[0]])
except ReductionError as error:
    print(f"failed: {error}\n", end="")
print(f"rank {comm.rank} done\n", end="")
