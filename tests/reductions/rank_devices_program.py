"""Run reductions on ranks with an emulated GPU each, and compare with the CPU; for the test named so."""

import emulated_driver
import numpy as np
import scipy.sparse
from mpi4py import MPI
from programs import CASES
from turns import by_one

from bmrm.distributed import Shard, blocks
from bmrm.errors import BmrmError, ReductionError
from bmrm.formulas.run import gpu
from bmrm.matrix.gpu import driver

comm = MPI.COMM_WORLD
last = comm.rank == comm.size - 1
library = emulated_driver.Driver()
driver.load_driver = lambda: library
gpu.compile_cuda = emulated_driver.compiler()
blocks.BLOCK_BYTES, blocks.MIN_BLOCK_ROWS = 1 << 13, 64
used = []
run = gpu.GpuRunner.run


def noted(self, call, number, keep, **more):
    used.append(number)
    return run(self, call, number, keep, **more)


gpu.GpuRunner.run = noted

rng = np.random.default_rng(0)
X = rng.integers(-32, 33, (1100, 4)) / 16 + 1 / 64
bounds = [0, 300, len(X)]
mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
for name in ("nearest rows", "memberships"):
    case = CASES[name]
    words = case.arguments(np.random.default_rng(1), X)
    here = {key: value[mine] if np.shape(value)[:1] == (len(X),) else value for key, value in words.items()}
    outputs = {a.name for a in case.reduction._binder.general.outputs()}
    for make in (np.asarray, *([scipy.sparse.csr_matrix] if case.sparse else [])):
        shard, used[:] = Shard(make(X[mine]), comm=comm), []
        expected = by_one(comm, lambda: tuple(case.reduction(make(X), device="cpu", **words)))  # noqa: B023
        for _ in range(2):  # uploaded, then there
            found = case.reduction(shard, device="cuda", **here)
            for field, one, whole in zip(found._fields, found, expected, strict=True):
                whole = whole[mine] if field in outputs else whole
                np.testing.assert_allclose(one, whole, rtol=1e-12, atol=1e-12, err_msg=f"{name} {field}")
        assert used == 2 * [comm.rank % emulated_driver.DEVICES], used
        alike = [np.asarray(v).tobytes() for f, v in found._asdict().items() if f not in outputs]
        assert all(each == alike for each in comm.allgather(alike)), name

sets, case = {"sets": [[0]]}, CASES["item sets"].reduction
shard = Shard(X[mine], comm=comm)
for words, device in (({"sets": [[4 if last else 0]]}, "cuda"), (sets, "cpu" if last else "cuda")):
    try:
        case(shard, device=device, **words)
    except (BmrmError, ReductionError) as error:
        print(f"failed: {error}\n", end="")
case(shard, device="cuda:1", **sets)
assert used[-1] == 1
print(f"rank {comm.rank} done\n", end="")
