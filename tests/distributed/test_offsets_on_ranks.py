"""Offsets on several ranks: each brings those of its rows, and the answer is that of one process."""

import os

import mpi
import pytest

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")

AGREES = (
    mpi.PROBLEM.format(rows=120)
    + """
from bmrm.errors import DataError
from bmrm.linear.models import checkpoint
from bmrm.linear.warm_start import problem_of

o = rng.standard_normal(m)
levels = np.digitize(X @ rng.standard_normal(d), [-0.5, 0.5]).astype(float)
counts = rng.poisson(2.0, m).astype(float)
cases = (
    (y, dict(loss="hinge", lam=1e-2, cuts_per_pass=5)),
    (counts, dict(loss="poisson", lam=1e-2, fit_intercept=True)),
    (levels, dict(loss="ordinal", lam=1e-1)),
    (levels, dict(loss="pairwise", lam=1e-1, groups=np.arange(m) // 7)),
    (levels, dict(loss="multiclass", lam=1e-1)),
)
for form in ("replicated", "owned") if size == 2 else ("owned",):
    for labels, keywords in cases:
        offset = np.outer(o, [1.0, -1.0, 0.5]) if keywords["loss"] == "multiclass" else o
        alone = bmrm.solve(X, labels, offset=offset, **keywords)
        groups = {"groups": keywords["groups"][mine]} if "groups" in keywords else {}
        shared = bmrm.solve(
            X[mine], labels[mine], offset=offset[mine], comm=world, weights=form, **keywords | groups
        )
        assert (shared.status, alone.status) == ("converged", "converged"), keywords
        assert shared.lower_bound <= alone.objective + 1e-12, keywords
        assert alone.lower_bound <= shared.objective + 1e-12, keywords
        assert len(set(world.allgather((shared.w.tobytes(), shared.lower_bound)))) == 1
        if alone.thresholds is not None:
            np.testing.assert_allclose(shared.thresholds, alone.thresholds, atol=0.1)
# The checksum is that of the offsets of all rows.
state = problem_of(shared).checksums["offset"]
assert state == problem_of(alone).checksums["offset"]
for bad in (None if rank == size - 1 else o[mine], o[mine][:, None] * np.ones(1 + rank)):
    try:
        Shard(X[mine], y[mine], offset=bad, comm=world)
    except DataError as error:
        assert str(error) == "offset: found different numbers per row on the ranks, expected the same on all"
    else:
        raise AssertionError(bad)
o[-1] = np.nan
try:
    bmrm.solve(X[mine], y[mine], offset=o[mine], comm=world)
except DataError as error:
    assert "has nan, expected a finite number" in str(error)
if rank == 0:
    print("done")
"""
)


@pytest.mark.parametrize("ranks", [2, 3])
def test_offsets_on_ranks(tmp_path, ranks):
    done = mpi.run(ranks, mpi.script(tmp_path, AGREES))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
