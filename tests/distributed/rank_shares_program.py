"""Solve and cluster rows of several ranks whose GPUs have some of them, and CPUs a share; for the test.

The argument is the number of emulated devices (emulated.py).
"""

import signal
import sys

import numpy as np
from mpi4py import MPI

import bmrm
from bmrm import PCA, GaussianMixture, KMeans
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.errors import Interrupted
from bmrm.matrix.gpu.memory import plan_memory
from bmrm.unsupervised.decomposition import gpu as gram

comm = MPI.COMM_WORLD
if sys.argv[1:]:
    import emulated

    emulated.start(int(sys.argv[1]))

ROWS, COLUMNS = 4096, 30
rng = np.random.default_rng(0)
X = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
y = np.sign(X @ rng.standard_normal(COLUMNS) + 0.1)
bounds = np.linspace(0, ROWS, comm.size + 1).astype(int)
mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
here = X[mine], y[mine]
plan = plan_memory(here[0].shape, None, 4, 4, None)
options = {"lam": 1e-3, "device": "cuda", "gpu_mem": plan.X // 2 + plan.spare, "comm": comm}

whole = bmrm.solve(X, y, lam=1e-3, device="cpu")
shares = (0.5, 0.5, 0, 0.5 if comm.rank else 0)
found = [bmrm.solve(*here, cpu_share=share, threads=1 + i, **options) for i, share in enumerate(shares)]
assert found[0].split.startswith("the CPU computes"), found[0].split
assert found[2].split == ""
assert found[0].w.tobytes() == found[1].w.tobytes()
for each in found:
    assert each.status == "converged"
    assert each.lower_bound <= whole.objective
    assert whole.lower_bound <= each.objective
    assert len(set(comm.allgather(each.w.tobytes()))) == 1


def press(_):
    if comm.rank == 0:
        signal.raise_signal(signal.SIGINT)


try:
    bmrm.solve(*here, cpu_share=0.5, callback=press, tol=1e-9, **options)
except Interrupted as stopped:
    certified = stopped.result.lower_bound <= whole.objective
    print(f"rank {comm.rank} stopped, {certified}\n", end="")

blocks.BLOCK_BYTES = 512 * 4 * COLUMNS
blocks.room_for_blocks = gram.room_for_blocks = lambda *of: 1 << 40
blocks.count_resident = gram.count_resident = lambda *of: 1
blocks.MIN_BLOCK_ROWS = 512
for make, names in (
    (lambda d, s: KMeans(4, init=X[:4], max_iter=3, tol=0.0, device=d, cpu_share=s), ["cluster_centers_"]),
    (
        lambda d, s: GaussianMixture(
            2, max_iter=2, random_state=0, device=d, cpu_share=s, init_params="random_from_data"
        ),
        ["means_", "covariances_"],
    ),
    (lambda d, s: PCA(2, device=d, cpu_share=s), ["singular_values_", "singular_value_bounds_"]),
):
    alone = make("cpu", None).fit(X)
    for share in (0.5, 0.5 if comm.rank else 0):
        one, other = (make("cuda", share).fit(X[mine], comm=comm) for _ in range(2))
        assert ("the CPU computes" in one.placement_.reason) == (share > 0), one.placement_
        for name in names:
            mine_, again, theirs = (getattr(model, name) for model in (one, other, alone))
            assert mine_.tobytes() == again.tobytes(), name
            assert len(set(comm.allgather(mine_.tobytes()))) == 1, name
            np.testing.assert_allclose(mine_, theirs, rtol=1e-6, atol=1e-6, err_msg=name)
assert RowSet(X).part(slice(10, 20)).first == 10
print(f"rank {comm.rank} done\n", end="")
