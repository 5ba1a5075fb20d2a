"""Solves on several ranks with the whole iteration on GPUs, which they may have to share."""

import mpi
import pytest
from devices import cuda
from devices import large as gpu

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
pytestmark = gpu

PROBLEM = (
    mpi.PROBLEM.format(rows=900)
    + """
from bmrm.linear.backends.ranks.gpu import SharedCuts

def shard(weights=None, columns=None, **keywords):
    weights = None if weights is None else weights[mine]
    return Shard(X[mine, :columns], y[mine], comm=world, device="cuda", sample_weight=weights, **keywords)

def solved(data, **keywords):
    found = bmrm.solve(data, **keywords)
    assert isinstance(found.bundle.store, SharedCuts), type(found.bundle.store)
    everyones = world.allgather((found.w.tobytes(), found.intercept, found.lower_bound, found.objective))
    assert len(set(everyones)) == 1, everyones
    return found
"""
)

AGREES = """
cases = (
    dict(loss="hinge", lam=1e-3),
    dict(loss="hinge", lam=1e-3, cuts_per_pass=16),
    dict(loss="hinge", lam=1e-2, cuts_per_pass=5, solver="bmrm", tol=1e-2),
    dict(loss="hinge", lam=1e-3, fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0),
    dict(loss="logistic", lam=1e-3, weighted=True),
    dict(loss="squared_hinge", lam=1e-3, fit_intercept=True),
    dict(loss="absolute", C=1.0, fit_intercept=True),
    dict(loss="hinge", lam=1e-3, tol=1e-7),
    dict(loss="logistic", lam=1e-5, tol=1e-8),
    dict(loss="logistic", lam=1e-5, tol=1e-8, fit_intercept=True),
    dict(loss="squared_hinge", lam=1e-5, tol=1e-8, weighted=True, fit_intercept=True),
    dict(loss="quantile", tau=0.3, lam=1e-4, tol=1e-4, columns=20),  # by steps with rounded kinks
)
for keywords in cases:
    weights = s if keywords.pop("weighted", False) else None
    columns = keywords.pop("columns", None)
    alone = bmrm.solve(X[:, :columns], y, sample_weight=weights, device="cuda", **keywords)
    shared = solved(shard(weights, columns, tol=keywords.get("tol", 1e-3)), **keywords)
    assert ("newton" in shared.timings) == ("newton" in alone.timings), keywords
    assert columns is None or "newton" in shared.timings
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    assert shared.lower_bound <= alone.objective + 1e-6, keywords
    assert alone.lower_bound <= shared.objective + 1e-6, keywords
    assert abs(shared.lam - alone.lam) <= 1e-12 * alone.lam
    assert (shared.n_samples, shared.n_features, shared.nnz) == (m, columns or d, alone.nnz)
    if rank == 0:
        print(shared.w.tobytes().hex())
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_answer_is_that_of_one_gpu_and_the_same_each_time(tmp_path, ranks):
    program = mpi.script(tmp_path, PROBLEM + AGREES)
    runs = [mpi.run(ranks, program, own_job=True) for _ in range(2 if ranks == 2 else 1)]
    for done in runs:
        assert (done.returncode, done.stdout.count("\n")) == (0, 12), done.stderr
    assert len({done.stdout for done in runs}) == 1


WAYS = """
def apart():  # as ranks on two hosts are
    group = Group(world)
    group.area = None
    return group

found = []
for group in (Group(world), apart()):
    for dtype in ("float32", "float64"):
        data = Shard(X[mine], y[mine], comm=group, device="cuda", dtype=dtype)
        assert group.area is not None or data.links().nccl is None
        found.append(solved(data, lam=1e-3, tol=1e-3).w)
assert (found[0] == found[2]).all() and (found[1] == found[3]).all()
assert np.abs(found[0] - found[1]).max() < 1e-2 * np.abs(found[1]).max()
if rank == 0:
    print("NCCL" if Shard(X[mine], y[mine], comm=MPI.COMM_WORLD, device="cuda").links().nccl else "MPI")
else:
    Shard(X[mine], y[mine], comm=MPI.COMM_WORLD, device="cuda").links()
"""


def test_nccl_and_main_memory_give_the_same_bits(tmp_path):
    """With a GPU for each rank; otherwise vectors through shared memory and by messages alone."""
    done = mpi.run(2, mpi.script(tmp_path, PROBLEM + WAYS), own_job=True)
    assert done.returncode == 0, done.stderr
    if cuda.device_count() > 1:
        assert done.stdout == "NCCL\n"


BUNDLES = """
from bmrm.linear.models.checkpoint import Checkpoint
data = shard()
first = solved(data, lam=1e-2, tol=1e-4)
second = solved(data, lam=1e-2, tol=1e-4, warm_start=first)
assert second.n_iter <= 2, second.n_iter
few = solved(data, lam=1e-2, tol=1e-4, max_cuts=8)
assert few.status == "converged" and len(few.bundle) <= 8
path = bmrm.path(data, lams=[1e-1, 1e-2], tol=1e-4)
assert [result.status for result in path] == ["converged"] * 2
late = solved(data, lam=1e-6, tol=1e-12, callback=lambda state: rank == size - 1 and state.iteration == 7)
assert (late.status, late.n_iter) == ("interrupted", 7)
"""


def test_bundles_paths_and_ends(tmp_path):
    done = mpi.run(2, mpi.script(tmp_path, PROBLEM + BUNDLES), own_job=True)
    assert done.returncode == 0, done.stderr


LARGE = """
from bmrm.matrix import _cuda
# More bytes than go in one step: pieces, and a width that the ranks do not divide.
d = 1_500_001
rows = sp.random_array((50 * size, d), density=2e-5, format="csr", rng=rng)
labels = np.where(rng.random(50 * size) > 0.5, 1.0, -1.0)
mine = slice(50 * rank, 50 * rank + 50)
data = Shard(rows[mine], labels[mine], comm=world, device="cuda")
shared = solved(data, lam=1e-2)
alone = bmrm.solve(rows, labels, lam=1e-2, device="cuda")
assert shared.lower_bound <= alone.objective + 1e-6 and alone.lower_bound <= shared.objective + 1e-6
"""


def test_long_gradients(tmp_path):
    ranks = 3 if cuda.device_count() > 2 else 2
    done = mpi.run(ranks, mpi.script(tmp_path, PROBLEM + LARGE), own_job=True)
    assert done.returncode == 0, done.stderr
