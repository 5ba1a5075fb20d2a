"""Weights with some columns on each rank: the answer of one process, in part of its memory."""

import os

import mpi
import numpy as np
import pytest

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")

from mpi4py import MPI

import bmrm
from bmrm.distributed import Shard
from bmrm.distributed import weight_layout as ownership
from bmrm.errors import ParameterError

PROBLEM = (
    mpi.PROBLEM.format(rows=600)
    + """
def agrees(labels=y, weights=None, **keywords):
    own = None if weights is None else weights[mine]
    of_all = dict(keywords)
    alone = by_one(world, lambda: bmrm.solve(X, labels, sample_weight=weights, **of_all))
    groups = {"groups": keywords.pop("groups")[mine]} if "groups" in keywords else {}
    found = bmrm.solve(
        X[mine], labels[mine], sample_weight=own, comm=world, weights="owned", **keywords, **groups
    )
    assert (found.status, alone.status) == ("converged", "converged"), keywords
    # Each lies between the bound of the other and its objective, so both bounds hold.
    assert found.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= found.objective + 1e-12, keywords
    assert found.w.shape == alone.w.shape and np.shape(found.intercept) == np.shape(alone.intercept)
    everyones = world.allgather((found.w.tobytes(), np.asarray(found.intercept).tobytes(), found.lower_bound))
    assert len(set(everyones)) == 1, keywords
    # The certificate is that of the weights returned.
    if "loss" in keywords and keywords["loss"] in ("hinge", "logistic") and weights is None:
        z = np.where(labels == 2.0, 1.0, -1.0) * (X @ found.w + found.intercept)
        risk = np.maximum(0.0, 1.0 - z) if keywords["loss"] == "hinge" else np.log1p(np.exp(-z))
        v = found.w - keywords.get("prior", 0.0)
        omega = 0.5 * (keywords.get("feature_lambda", 1.0) * v * v).sum()
        if keywords.get("penalize_intercept"):
            omega += 0.5 * (found.intercept / keywords.get("intercept_scaling", 1.0)) ** 2
        assert abs(risk.mean() + found.lam * omega - found.objective) <= 1e-12, keywords
    if rank == 0:
        print(found.w.tobytes().hex())
    return alone, found
"""
)

AGREES = """
factors, prior = np.linspace(0.1, 2.0, d), 0.1 * rng.standard_normal(d)
constant = dict(fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0)
cases = (
    dict(loss="hinge", lam=1e-3),
    dict(loss="hinge", lam=1e-2, feature_lambda=factors, prior=prior, **constant),
    dict(loss="hinge", lam=1e-3, cuts_per_pass=16, weights=s),
    dict(loss="logistic", lam=1e-3, prior=prior),
    dict(loss="hinge", lam=1e-2, cuts_per_pass=5, solver="bmrm", tol=1e-2),
    dict(loss="hinge", lam=1e-3, **constant),
    dict(loss="squared_hinge", lam=1e-3, fit_intercept=True),
    dict(loss="absolute", C=1.0, fit_intercept=True, feature_lambda=factors),
    dict(loss="novelty", lam=1e-2),
    dict(loss="logistic", lam=1e-2, feature_lambda=factors),
    dict(loss="roc_area", lam=1e-2),
    dict(loss="hinge", lam=1e-3, max_cuts=12),
)
for keywords in cases[:: 3 if size == 3 or "again" in sys.argv else 1]:
    agrees(**keywords)
levels = np.digitize(X @ rng.standard_normal(d), [-0.5, 0.0, 0.5]).astype(float)
alone, found = agrees(levels, loss="ordinal", lam=1e-2)
np.testing.assert_allclose(found.thresholds, alone.thresholds, atol=0.1)
agrees(levels, loss="ndcg", lam=1e-2, groups=np.arange(m) // 7)
labels = np.arange(m) % 3 + 4.0
agrees(labels, loss="multiclass", lam=1e-2, cuts_per_pass=4, **constant)
agrees(labels, loss="softmax", lam=1e-2, feature_lambda=factors)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_answer_is_that_of_one_process_and_the_same_each_time(tmp_path, ranks):
    program = mpi.script(tmp_path, PROBLEM + AGREES)
    done = mpi.run(ranks, program)
    assert (done.returncode, done.stdout.count("\n")) == (0, 8 if ranks == 3 else 16), done.stderr
    if ranks == 2:
        again = mpi.run(ranks, program, "again", own_job=True)
        assert (again.returncode, again.stdout.count("\n")) == (0, 8), again.stderr
        assert set(again.stdout.splitlines()) <= set(done.stdout.splitlines())


SHAPES = """
import scipy.sparse as sp
everything = X.toarray()

def of(entries, more=0):
    '''Solve on such a matrix, whose columns may be fewer than ranks, and of which a rank may have none.'''
    global X, d
    X, d = sp.csr_matrix(entries), entries.shape[1]
    return agrees(loss="hinge", lam=1e-2)[1]

of(everything[:, :1])  # a column for many ranks
of(everything[:, :2])
lacking = everything.copy()
lacking[:, [0, 7, 8, 30, 60]] = 0.0  # columns without values, the first and the last among them
assert (of(lacking).w[[0, 7, 8, 30, 60]] == 0.0).all()
lacking[bounds[size - 1] :] = 0.0  # a rank without a nonzero
of(lacking)
apart = everything.copy()
for r in range(size):  # no column is that of two ranks
    apart[bounds[r] : bounds[r + 1], np.arange(d) % size != r] = 0.0
of(apart)
# A shard has only the columns that its rows touch.
shard = Shard(X[mine], y[mine], comm=world, weights="owned")
assert shard.matrix.shape[1] == len(np.unique(X[mine].indices))
if size > 1:
    assert shard.matrix.shape[1] < d
dense = bmrm.solve(everything[mine], y[mine], lam=1e-2, comm=world, weights="owned")
alone = bmrm.solve(everything, y, lam=1e-2)
assert dense.lower_bound <= alone.objective and alone.lower_bound <= dense.objective
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_few_columns_and_columns_without_values(tmp_path, ranks):
    mpi.succeed(ranks, mpi.script(tmp_path, PROBLEM + SHAPES))


EXCHANGE = """
import sys
import numpy as np
from mpi4py import MPI
from bmrm.distributed import Group
from bmrm.distributed.exchange import Exchange, split_columns

group = Group(MPI.COMM_WORLD)
if "apart" in sys.argv:  # as on two hosts
    group.area = None
rank, size = group.rank, group.size
rng = np.random.default_rng(0)
for d in (1, 2, 11, 1000):
    bounds = split_columns(d, size)
    whole = rng.standard_normal(d)
    wants = [np.flatnonzero(rng.random(d) < share) for share in (0.0, 0.5, 1.0)[:size]]
    heights = [(min(r, 1), 2) for r in range(size)]  # the rows that each adds to
    rows = [rng.standard_normal((2 - min(r, 1), len(wants[r]))) * 10.0**r for r in range(size)]
    mine = Exchange(group, bounds, wants[rank])
    for _ in range(2):
        fetched = mine.fetch(whole[bounds[rank] : bounds[rank + 1]])
        np.testing.assert_array_equal(fetched, whole[wants[rank]])
        sums = np.full((2, mine.width), np.nan)
        mine.add_up(rows[rank], heights, sums)
        wanted = np.zeros((2, d))
        for (first, last), part, columns in zip(heights, rows, wants):
            wanted[first:last, columns] += part
        np.testing.assert_array_equal(sums, wanted[:, bounds[rank] : bounds[rank + 1]])
"""


@pytest.mark.parametrize(("ranks", "words"), [(1, []), (3, []), (3, ["apart"])])
def test_columns_travel_to_the_ranks_that_touch_them_and_back(tmp_path, ranks, words):
    mpi.succeed(ranks, mpi.script(tmp_path, EXCHANGE), *words)


MEMORY = """
import tracemalloc
import numpy as np
from mpi4py import MPI
import bmrm
from bmrm.distributed import Shard
from bmrm.io import Csr

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
d, m, each = 300_000, 400, 20
rng = np.random.default_rng(rank)
columns = np.sort(rng.choice(d, (m, each), replace=False), axis=1).astype(np.int32)
X = Csr(np.arange(m + 1) * each, columns.ravel(), None, (m, d))
y = np.where(np.arange(m) % 2, 1.0, -1.0)
prior = np.full(d, 1e-3)
peaks, stores = {}, {}
for form in ("replicated", "owned"):
    shard = Shard(X, y, comm=world, weights=form)
    shard.wanted_by = "none"
    for name, keywords in (("plain", {}), ("prior", {"prior": prior})):
        tracemalloc.start()
        result = bmrm.solve(shard, lam=1e-3, max_iter=8, max_cuts=32, cuts_per_pass=1, **keywords)
        store = result.bundle.store  # addresses of cuts to come take no memory
        peaks[form, name] = tracemalloc.get_traced_memory()[1] - store._rows.nbytes
        tracemalloc.stop()
        stores[form, name] = store.nbytes / len(result.bundle)
        assert len(result.w) == (d if form == "replicated" else len(range(d)[rank::size])), len(result.w)
share = 8 * -(-d // size)
assert stores["owned", "plain"] <= share and stores["owned", "prior"] <= share, stores
assert stores["replicated", "prior"] == 8 * d
# Vectors of all columns: some, and none at all.
assert peaks["replicated", "plain"] > 5 * 8 * d, peaks
assert peaks["owned", "plain"] < 8 * (8 * d / size + 4 * m * each) + 500_000, peaks
assert peaks["owned", "plain"] < 0.5 * peaks["replicated", "plain"], peaks
"""


def test_a_rank_keeps_its_share_of_weights_and_cuts(tmp_path):
    mpi.succeed(3, mpi.script(tmp_path, MEMORY))


def test_a_bundle_serves_the_next_solve_in_its_own_metric(tmp_path):
    code = """
shard = Shard(X[mine], y[mine], comm=world, weights="owned")
factors = np.linspace(0.5, 2.0, d)
for penalty in ({}, {"feature_lambda": factors}, {"prior": 0.1 * factors}):
    keywords = dict(lam=1e-2, tol=1e-4, cuts_per_pass=4, **penalty)
    first = bmrm.solve(shard, **keywords)
    assert bmrm.solve(shard, warm_start=first, **keywords).n_iter <= 2
    # Products of cuts with weights of their own are of no use to another penalty.
    keywords["feature_lambda"] = factors[::-1].copy()
    other = bmrm.solve(shard, warm_start=first, **keywords)
    alone = bmrm.solve(X, y, **keywords)
    assert other.lower_bound <= alone.objective + 1e-12 and alone.lower_bound <= other.objective + 1e-12
path = bmrm.path(shard, lams=[1e-1, 1e-2], tol=1e-4)
assert [result.status for result in path] == ["converged"] * 2
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


def test_a_checkpoint_serves_either_form_on_any_number_of_ranks(tmp_path):
    save = """
from bmrm.linear.models.checkpoint import Checkpoint, save
from bmrm.linear.warm_start import problem_of
prior = np.linspace(-0.1, 0.1, d)
penalty = dict(feature_lambda=np.linspace(0.5, 2.0, d), prior=prior) if "penalty" in sys.argv else {}
keywords = dict(lam=1e-3, fit_intercept=True, penalize_intercept=True, cuts_per_pass=4, **penalty)
path, form = sys.argv[1:3]
data = (X[mine], y[mine]) if size > 1 else (X, y)
keywords |= dict(comm=world, weights=form) if form != "alone" else {}
"""
    write = """
first = bmrm.solve(*data, max_iter=12, **keywords)
cuts, problem = first.bundle.working(), problem_of(first)
if rank == 0:
    save(path, bmrm.Model.from_result(first), problem, cuts)
"""
    go_on = """
checkpoint = Checkpoint.load(path)
again = bmrm.solve(*data, warm_start=checkpoint, **keywords)
certificate = checkpoint.model.certificate
assert (again.status, again.history[0]["iteration"]) == ("converged", 12), again.history[0]
# What was proven still is, from the first iteration on.
assert again.history[0]["lower_bound"] == certificate.lower_bound
assert again.objective <= certificate.objective
# Nothing is left to do; other data are not these.
last = bmrm.solve(*data, warm_start=again, **keywords)
if form == "alone":
    assert last.status == "converged"
other = (data[0], np.where(np.arange(len(data[1])) % 7 == 3, 1.0, data[1]))
try:
    bmrm.solve(*other, warm_start=checkpoint, **keywords)
except bmrm.errors.DataError as error:
    assert "is for other data: found a different checksum of labels; " in str(error), error
else:
    raise AssertionError
"""
    (tmp_path / "write").mkdir()
    (tmp_path / "on").mkdir()
    writing = mpi.script(tmp_path / "write", PROBLEM + save + write)
    going_on = mpi.script(tmp_path / "on", PROBLEM + save + go_on)
    state = tmp_path / "state"
    for first, then, more in (
        ((2, "owned"), (3, "replicated"), []),
        ((3, "owned"), (1, "alone"), ["penalty"]),
        ((1, "alone"), (2, "owned"), ["penalty"]),
    ):
        mpi.succeed(first[0], writing, state, first[1], *more)
        mpi.succeed(then[0], going_on, state, then[1], *more)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"reg": "l1"}, "weights owned: reg l1 is solved on whole cuts; use replicated weights"),
        ({"reg": "elastic_net"}, "weights owned: reg elastic_net is solved on whole cuts"),
        ({"positive": True}, "weights owned: positive weights are solved on whole cuts"),
        ({"feature_lambda": [1.0, 0.0]}, "weights owned: feature_lambda has no strength for some feature"),
        ({"device": "cuda"}, "weights owned: trains on CPUs, found device cuda"),
        ({"weights": "mine"}, "weights: found 'mine', expected one of auto, replicated, owned"),
        ({"comm": None}, "weights: needs comm, found one process"),
    ],
)
def test_weights_that_cannot_be_owned_give_one_line(keywords, message):
    with pytest.raises(ParameterError) as error:
        bmrm.solve(np.eye(2), [1, 2], **{"comm": MPI.COMM_SELF, "weights": "owned", **keywords})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keywords", [{"reg": "l1"}, {"positive": True}, {"feature_lambda": [1.0, 0.0]}])
def test_a_shard_refuses_them_too_and_auto_falls_back(keywords, monkeypatch):
    shard = Shard(np.eye(2), [1, 2], comm=MPI.COMM_SELF, weights="owned")
    with pytest.raises(ParameterError, match=r"weights owned: .*; use replicated weights"):
        bmrm.solve(shard, **keywords)
    with pytest.raises(ParameterError, match="weights: give it to the Shard"):
        bmrm.solve(shard, weights="owned")
    monkeypatch.setattr("bmrm.distributed.shard.MIN_OWNED_COLUMNS", 2)
    assert Shard(np.eye(2), [1, 2], comm=MPI.COMM_SELF, weights="auto").owned
    assert not Shard(np.eye(2), [1, 2], comm=MPI.COMM_SELF).owned
    assert bmrm.solve(np.eye(2), [1, 2], comm=MPI.COMM_SELF, **keywords).status == "converged"


def test_auto_takes_what_pays(monkeypatch):
    def settled(weights="auto", why_not=None, *, whole_cuts=True, columns=1000, device="cpu"):
        return ownership.resolve_weight_layout(
            weights, why_not, whole_cuts=whole_cuts, columns=columns, device=device
        )

    assert settled() == "owned"
    assert settled(columns=999) == settled(whole_cuts=False) == settled(device="cuda") == "auto"
    assert settled(why_not="no") == settled("replicated") == "replicated"
    monkeypatch.setattr("bmrm.distributed.weight_layout.gpu", lambda: "a GPU")
    assert (settled(device="auto"), settled(device="cpu")) == ("auto", "owned")
    assert settled("owned", whole_cuts=False, columns=1) == "owned"


def test_auto_looks_at_the_columns_and_at_the_gpus_of_all_ranks(tmp_path):
    code = """
from bmrm.distributed import shard as module
def owned(**keywords):
    return world.allgather(Shard(X[mine], y[mine], comm=world, weights="auto", **keywords).owned)
assert owned() == [False] * size
module.MIN_OWNED_COLUMNS = d
assert owned() == [True] * size
module.wants_gpu = lambda device, stored: rank == 0
module._choose_gpu = lambda *arguments: "cpu"
assert owned() == [False] * size
module.wants_gpu = lambda device, stored: False
found = bmrm.solve(X[mine], y[mine], lam=1e-2, comm=world)
assert isinstance(found.bundle.store, bmrm.linear.backends.ranks.owned.OwnedCuts)
sparse = bmrm.solve(X[mine], y[mine], reg="l1", lam=1e-2, comm=world)
assert not isinstance(sparse.bundle.store, bmrm.linear.backends.ranks.owned.OwnedCuts)
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


def test_a_part_of_the_weights_is_no_model(tmp_path):
    code = """
from bmrm.errors import ParameterError
shard = Shard(X[mine], y[mine], comm=world, weights="owned")
shard.wanted_by = "first"
result = bmrm.solve(shard, lam=1e-2)
if rank == 0:
    assert result.predict(X).shape == (m,)
else:
    try:
        result.predict(X)
    except ParameterError as error:
        assert "weights of this rank, expected all 61" in str(error), error
    else:
        raise SystemExit("no error")
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))
