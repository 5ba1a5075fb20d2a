"""Training on several ranks: the result of one, bit-identical each time, and no rank left waiting."""

import os
import time

import mpi
import numpy as np
import pytest

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")

from mpi4py import MPI

import bmrm
from bmrm.distributed import Group, Shard, read_rows
from bmrm.errors import DataError, ParameterError

PROBLEM = mpi.PROBLEM.format(rows=600) + "from bmrm.losses import CallableLoss\n"
FEWER_ROWS = mpi.PROBLEM.format(rows=300)

AGREES = (
    PROBLEM
    + """
cosh = CallableLoss(lambda u, y: (np.log(np.cosh(u - y)), np.tanh(u - y)), name="logcosh")
cases = (
    dict(loss="hinge", lam=1e-3),
    dict(loss="hinge", lam=1e-3, cuts_per_pass=16),
    dict(loss="hinge", lam=1e-2, cuts_per_pass=5, solver="bmrm", tol=1e-2),
    dict(loss="hinge", lam=1e-3, fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0),
    dict(loss="logistic", lam=1e-3),
    dict(loss="squared_hinge", lam=1e-3, fit_intercept=True),
    dict(loss="absolute", C=1.0, fit_intercept=True),
    dict(loss="novelty", lam=1e-2),
    dict(loss=cosh, lam=1e-2),
    dict(loss="squared_hinge", lam=1e-3, class_weight="balanced"),
    dict(loss="hinge", lam=1e-3, class_weight={1.0: 2.0, 2.0: 0.5}, weighted=True),
)
for keywords in cases[:: 4 if size == 3 or "again" in sys.argv else 1]:  # three ranks share two cores
    keywords = {"tol": 1e-3, **keywords}
    weights = s if keywords.pop("weighted", False) else None
    alone = bmrm.solve(X, y, sample_weight=weights, **keywords)
    shared = bmrm.solve(
        X[mine], y[mine], sample_weight=None if weights is None else weights[mine], comm=world, **keywords
    )
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    # Each lies between the bound of the other and its objective, so both bounds hold.
    assert shared.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= shared.objective + 1e-12, keywords
    assert abs(shared.lam - alone.lam) <= 1e-12 * alone.lam
    assert (shared.n_samples, shared.n_features, shared.nnz) == (m, d, alone.nnz)
    assert len(set(world.allgather((shared.w.tobytes(), shared.intercept, shared.lower_bound)))) == 1
    if rank == 0:
        print(shared.w.tobytes().hex())
"""
)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_result_equals_that_of_one_process_and_is_reproducible(tmp_path, ranks):
    program = mpi.script(tmp_path, AGREES)
    done = mpi.run(ranks, program)
    assert (done.returncode, done.stdout.count("\n")) == (0, 3 if ranks == 3 else 11), done.stderr
    if ranks == 2:
        again = mpi.run(ranks, program, "again", own_job=True)
        assert (again.returncode, again.stdout.count("\n")) == (0, 3), again.stderr
        assert set(again.stdout.splitlines()) <= set(done.stdout.splitlines())


PRODUCTS = """
from bmrm.linear.solvers import newton
newton.MAX_HESSIAN_WORK = newton.MAX_FINE_HESSIAN_WORK = 0.0  # no Hessian is cheap enough
both = dict(fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0)
cases = (
    dict(loss="logistic"),
    dict(loss="squared_hinge", fit_intercept=True),
    dict(loss="logistic", **both),
    dict(loss="logistic", reg="elastic_net"),
)
for keywords in cases:
    keywords = {"lam": 1e-4, "tol": 1e-8, **keywords}
    alone = bmrm.solve(X, y, **keywords)
    shared = bmrm.solve(X[mine], y[mine], comm=world, **keywords)
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    assert shared.timings["newton"] > 0.0, keywords
    assert shared.n_iter <= alone.n_iter + 2, keywords
    assert shared.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= shared.objective + 1e-12, keywords
    assert len(set(world.allgather((shared.w.tobytes(), shared.intercept, shared.lower_bound)))) == 1
"""


def test_newton_steps_by_products_use_all_rows(tmp_path):
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + PRODUCTS))


INSIDE = """
from bmrm.linear.solvers import interior_point as interior, interior_rule as outlook
from bmrm.linear import plan
plan.newton_pays = lambda *_: False
steps, step = [], interior.InteriorPoint.step
interior.InteriorPoint.step = lambda self: steps.append(1) or step(self)
outlook.InteriorRule.pays = lambda *_: True
both = dict(fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0)
cases = (
    dict(loss="hinge"),
    dict(loss="hinge", cuts_per_pass=3),
    dict(loss="epsilon_insensitive", fit_intercept=True),
    dict(loss="absolute", **both),
    dict(loss="quantile", tau=0.3, fit_intercept=True, weighted=True),
)
for keywords in cases:
    weights = s if keywords.pop("weighted", False) else None
    keywords = {"lam": 1e-3, "tol": 1e-8, **keywords}
    alone = bmrm.solve(X, y, sample_weight=weights, **keywords)
    here = len(steps)
    assert here > 4, keywords
    steps.clear()
    own = None if weights is None else weights[mine]
    shared = bmrm.solve(X[mine], y[mine], sample_weight=own, comm=world, **keywords)
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    assert abs(len(steps) - here) <= 3, keywords
    assert shared.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= shared.objective + 1e-12, keywords
    assert len(set(world.allgather((shared.w.tobytes(), shared.intercept, shared.lower_bound)))) == 1
    steps.clear()
"""


def test_interior_points_use_all_rows(tmp_path):
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + INSIDE))


CLASSES = """
labels = np.arange(m) % 3 + 4.0
labels[: m // 3] = 4.0  # rank 0 has no row of the last class
sets = [(4.0,) if label == 4.0 else (5.0, label) for label in labels]
sets[0] = ()
matrix = np.array([[label in row for label in (4.0, 5.0, 6.0, 7.0)] for row in sets], np.int64)
both = dict(fit_intercept=True, penalize_intercept=True, intercept_scaling=2.0)
cases = (
    (labels, dict(loss="multiclass", lam=1e-2, cuts_per_pass=4, **both)),
    (labels, dict(loss="multiclass", lam=1e-2, costs=[[0, 1, 4], [1, 0, 1], [4, 1, 0]])),
    (labels, dict(loss="softmax", lam=1e-2, class_weight="balanced")),
    (labels, dict(loss="softmax", lam=1e-2, fit_intercept=True, tol=1e-6, sample_weight=s)),
    (labels, dict(loss="softmax", lam=1e-2, reg="l1", fit_intercept=True)),
    (labels, dict(loss="multiclass", lam=1e-2, fit_intercept=True, weights="owned")),
    (sets, dict(loss="multilabel", lam=1e-2, fit_intercept=True, tol=1e-6)),
    (matrix, dict(loss="multilabel_ranking", lam=1e-2, fit_intercept=True)),
    (sets, dict(loss="multilabel", lam=1e-2, **both)),
    (matrix, dict(loss="multilabel_ranking", lam=1e-2)),
    (np.array(["cat", "horse", "dog", "a"])[labels.astype(int) % 4], dict(loss="softmax", lam=1e-2)),
    ((labels - 130).astype(np.int8), dict(loss="multiclass", lam=1e-2, class_weight="balanced")),
    (np.where(labels > 4.0, "no", "perhaps"), dict(lam=1e-2, cuts_per_pass=1, class_weight={"no": 2.0})),
    (labels > 4.0, dict(lam=1e-2, cuts_per_pass=1, sample_weight=s)),
    ([{"b"} if label == 4.0 else ("a", f"c{label}") for label in labels], dict(loss="multilabel", lam=1e-2)),
)
for targets, keywords in cases:
    of_all = {name: v for name, v in keywords.items() if name != "weights"}
    alone, groups = by_one(world, lambda: (one := bmrm.solve(X, targets, **of_all), one.bundle.groups))
    if "sample_weight" in keywords:
        keywords["sample_weight"] = s[mine]
    shared = bmrm.solve(X[mine], targets[mine], comm=world, **keywords)
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    blocks = keywords.get("cuts_per_pass", 1)
    assert (shared.bundle.groups, groups) == (blocks, blocks)
    assert shared.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= shared.objective + 1e-12, keywords
    assert shared.w.shape == alone.w.shape and np.shape(shared.intercept) == np.shape(alone.intercept)
    assert shared.classes.dtype == alone.classes.dtype
    assert (shared.classes == alone.classes).all()
    assert len(set(world.allgather((shared.w.tobytes(), shared.lower_bound)))) == 1
# Ranks may store labels in different types; only text and numbers do not go together.
narrow = labels.astype(np.int8 if rank else np.int64)
assert bmrm.solve(X[mine], narrow[mine], loss="softmax", comm=world).classes.dtype == np.int64
from bmrm.errors import DataError
try:
    bmrm.solve(X[mine], (labels if rank else labels.astype(str))[mine], loss="softmax", comm=world)
except DataError as error:
    assert "labels: found text on one rank and numbers on another" in str(error), error
else:
    raise SystemExit("no error")
try:
    bmrm.solve(X[mine], matrix[mine, : 3 + rank], loss="multilabel", comm=world)
except DataError as error:
    assert "found rows of (3,) on one rank and of (4,) on another" in str(error), error
else:
    raise SystemExit("no error")
"""


def test_several_classes_on_ranks_without_some_of_them(tmp_path):
    mpi.succeed(2, mpi.script(tmp_path, FEWER_ROWS + CLASSES))


JOINT = """
levels = np.digitize(X @ rng.standard_normal(d), [-0.5, 0.0, 0.5]).astype(float)
near = np.arange(m) // 7  # most groups are on one rank, those at its ends on two
far = rng.permutation(m) % 40  # every group is everywhere
names = np.array([f"query {n}" for n in near])
halves = np.where(near % 2 == 0, 0.5, 2.0)
cases = (
    (y, dict(loss="roc_area", lam=1e-2), s),
    (y, dict(loss="f_beta", lam=1e-2, fit_intercept=True), None),
    (y, dict(loss="precision_at_k", lam=1e-2, k=0.1), (s > 0.0).astype(float)),
    (y, dict(loss="prbep", lam=1e-1), None),
    (levels, dict(loss="ordinal", lam=1e-2), s),
    (levels, dict(loss="pairwise", lam=1e-2, groups=near), halves),
    (levels, dict(loss="ndcg", lam=1e-2, groups=far), None),
    (levels, dict(loss="ndcg", lam=1e-2, groups=near, cuts_per_pass=4), None),
    (levels, dict(loss="pairwise", lam=1e-2, groups=near, cuts_per_pass=7), halves),
    (levels, dict(loss="lambda_ndcg", lam=1e-2, groups=names), halves),
    (levels, dict(loss="mrr", lam=1e-2, groups=far), None),
)
for targets, keywords, weights in cases[:: 2 if size == 3 else 1]:
    alone = by_one(world, lambda: bmrm.solve(X, targets, sample_weight=weights, **keywords))
    if (groups := keywords.pop("groups", None)) is not None:
        keywords["groups"] = groups[mine]
    own = None if weights is None else weights[mine]
    shared = bmrm.solve(X[mine], targets[mine], sample_weight=own, comm=world, **keywords)
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    assert shared.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= shared.objective + 1e-12, keywords
    assert len(set(world.allgather((shared.w.tobytes(), shared.lower_bound)))) == 1
    if keywords["loss"] == "ordinal":
        z = X @ shared.w
        coded = np.searchsorted(np.unique(levels), levels).astype(float)
        np.testing.assert_allclose(shared.thresholds, shared.loss.thresholds(z, coded, weights), atol=1e-9)
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_margins_of_joint_losses_are_gathered_on_the_home_rank(tmp_path, ranks):
    mpi.succeed(ranks, mpi.script(tmp_path, PROBLEM + JOINT))


IDLE = """
counted = s > 0.0  # no row of rank 0, some of rank 1
levels = np.digitize(X @ rng.standard_normal(d), [-0.5, 0.5]) + 4.0
sets = [(level,) for level in levels]
cases = (
    (y, dict(loss="hinge", class_weight="balanced")),
    (y, dict(loss="roc_area", class_weight={1.0: 2.0})),
    (y, dict(loss="quantile", fit_intercept=True)),
    (y, dict(loss="poisson")),
    (levels, dict(loss="softmax", class_weight="balanced")),
    (sets, dict(loss="multilabel")),
    (levels, dict(loss="ordinal")),
    (levels, dict(loss="pairwise", groups=np.arange(m) // 7)),
)
for targets, keywords in cases:
    if isinstance(targets, list):
        spoiled = [row if s[i] else (99.0,) for i, row in enumerate(targets)]
        removed = [row for i, row in enumerate(targets) if s[i]]
    else:
        spoiled = np.where(counted, targets, np.where(np.arange(m) % 2, -99.0, np.nan))
        removed = targets[counted]
    groups = keywords.pop("groups", None)
    of_some, of_mine = ({} if groups is None else {"groups": groups[rows]} for rows in (counted, mine))
    keywords |= {"lam": 1e-2}
    some = dict(sample_weight=s[counted], **of_some, **keywords)
    alone = by_one(world, lambda: bmrm.solve(X[counted], removed, **some))
    own = 1e-200 * s[mine]
    shared = bmrm.solve(X[mine], spoiled[mine], sample_weight=own, comm=world, **of_mine, **keywords)
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    assert shared.lower_bound <= alone.objective + 1e-12, keywords
    assert alone.lower_bound <= shared.objective + 1e-12, keywords
    assert alone.classes is None or (alone.classes == shared.classes).all(), keywords
"""


def test_rows_of_weight_zero_are_ignored_on_every_rank(tmp_path):
    mpi.succeed(3, mpi.script(tmp_path, PROBLEM + IDLE))


HOMES = """
from bmrm.linear.backends.ranks.joint import GroupPlacement

group = Group(world)
rows = 5 + 3 * rank
own = np.arange(rows) + 100.0 * rank
for numbers in (None, rng.integers(0, 6, rows) if rank else np.zeros(rows, np.int64)):
    homes = GroupPlacement(group, rows, numbers)
    there = homes.there(own)
    assert len(there) == homes.rows and (np.diff(there) > 0).all()  # in the order of ranks and their rows
    everyones = world.allgather(there)
    assert sorted(np.concatenate(everyones)) == sorted(np.concatenate(world.allgather(own)))
    assert homes.away == sum(world.allgather(int((there // 100 != rank).sum())))
    if numbers is None:
        assert [len(part) for part in everyones[1:]] == [0] * (size - 1)
    else:  # a group is nowhere else
        held = world.allgather(set(homes.there(numbers.astype(float))))
        assert not set.intersection(*held)
    back = np.full(rows, np.nan)
    homes.back(there, back)
    assert (back == own).all()
"""


def test_home_ranks_get_whole_groups_and_return_results(tmp_path):
    mpi.succeed(3, mpi.script(tmp_path, PROBLEM + HOMES))


PENALTIES = """
factors = np.linspace(0.0, 2.0, d)
prior = 0.1 * rng.standard_normal(d)
cases = (
    dict(loss="logistic", reg="l1", lam=1e-2),
    dict(loss="hinge", reg="l1", lam=1e-2),
    dict(loss="squared_hinge", reg="elastic_net", lam=1e-2, fit_intercept=True),
    dict(loss="hinge", reg="elastic_net", l1_ratio=0.2, lam=1e-2, cuts_per_pass=3),
    dict(loss="hinge", lam=1e-2, positive=True),
    dict(loss="logistic", lam=1e-2, feature_lambda=factors),
    dict(loss="squared", reg="l1", lam=1e-2, prior=prior, fit_intercept=True),
    dict(loss="poisson", reg="l1", lam=1e-2, counts=True),
)
for keywords in cases[:: 3 if size == 3 else 1]:
    targets = np.where(np.arange(m) < m // 3, 0.0, y) if keywords.pop("counts", False) else y
    alone = by_one(world, lambda: bmrm.solve(X, targets, sample_weight=s, **keywords))
    shared = bmrm.solve(X[mine], targets[mine], sample_weight=s[mine], comm=world, **keywords)
    assert (shared.status, alone.status) == ("converged", "converged"), keywords
    assert shared.lower_bound <= alone.objective + 1e-9, keywords
    assert alone.lower_bound <= shared.objective + 1e-9, keywords
    everyones = world.allgather((shared.w.tobytes(), shared.intercept, shared.lower_bound))
    assert len(set(everyones)) == 1, keywords
    if keywords.get("reg") == "l1":
        assert np.count_nonzero(shared.w - prior if "prior" in keywords else shared.w) < d
"""


def test_every_penalty(tmp_path):
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + PENALTIES))


def test_structured_losses_need_one_process():
    class Oracle:
        n_features = 2

    with pytest.raises(ParameterError, match="loss structured: trains in one process"):
        bmrm.solve([1, 2], [1, 2], bmrm.losses.Structured(Oracle()), comm=MPI.COMM_SELF)


def test_a_bundle_serves_the_next_solve_on_the_ranks(tmp_path):
    """Also for a path, which is a sequence of solves on one shard; with more cuts than max_cuts allows."""
    code = """
shard = Shard(X[mine], y[mine], comm=world)
first = bmrm.solve(shard, lam=1e-2, tol=1e-4, cuts_per_pass=4)
second = bmrm.solve(shard, lam=1e-2, tol=1e-4, cuts_per_pass=4, warm_start=first)
assert second.n_iter <= 2, second.n_iter
few = bmrm.solve(shard, lam=1e-2, tol=1e-4, cuts_per_pass=4, max_cuts=16)
assert few.status == "converged" and len(few.bundle) <= 16
path = bmrm.path(shard, lams=[1e-1, 1e-2], tol=1e-4)
assert [result.status for result in path] == ["converged"] * 2
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


def test_limits_and_callbacks_end_all_ranks_together(tmp_path):
    code = """
import time
def slow(state):  # time is up on one rank only
    time.sleep(0.2 if rank == size - 1 else 0.0)
hard = dict(lam=1e-6, tol=1e-12, comm=world)
late = bmrm.solve(X[mine], y[mine], max_time=0.5, callback=slow, **hard)
asked = bmrm.solve(X[mine], y[mine], callback=lambda s: rank == size - 1 and s.iteration == 7, **hard)
counts = world.allgather((late.status, late.n_iter, asked.status, asked.n_iter))
assert len(set(counts)) == 1, counts
assert counts[0][0::2] == ("max_time", "interrupted") and counts[0][3] == 7, counts
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


def test_ctrl_c_on_one_rank_ends_all_ranks_with_the_best_iterate(tmp_path):
    code = """
import os, signal
from bmrm.errors import Interrupted
def press(state):
    if rank == 1 and state.iteration == 5:
        os.kill(os.getpid(), signal.SIGINT)
try:
    bmrm.solve(X[mine], y[mine], lam=1e-6, tol=1e-12, comm=world, callback=press)
except Interrupted as stop:
    result = stop.result
assert (result.status, result.n_iter) == ("interrupted", 5), (result.status, result.n_iter)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


OTHERWISE = (
    (dict(lam=0.01), dict(lam=0.001), "lam: found 0.01 on one rank and 0.001 on another"),
    (dict(loss="hinge"), dict(loss="logistic"), "loss: found hinge on one rank and logistic on another"),
    (dict(), dict(C=1.0), "C: found none on one rank and 1 on another"),
    (dict(fit_intercept=True), dict(), "fit_intercept: found True on one rank and False on another"),
    (dict(tol=1e-3), dict(tol=1e-4), "tol: found 0.001 on one rank and 0.0001 on another"),
    (dict(weights="owned"), dict(weights="replicated"), "weights: found owned on one rank and replicated on"),
    (dict(dtype="float32"), dict(), "dtype: found float32 on one rank and none on another"),
    (
        dict(class_weight={1: 2.0, 2: 1.0}),
        dict(class_weight="balanced"),
        "class_weight: found {1: 2, 2: 1} on",
    ),
    (dict(loss="quantile", tau=0.5), dict(loss="quantile", tau=0.4), "tau: found 0.5 on one rank and 0.4 on"),
    (dict(prior=np.zeros(61)), dict(prior=np.ones(61)), "prior: found 61 numbers with the checksum "),
    (dict(feature_lambda=np.ones(61)), dict(), "feature_lambda: found 61 numbers with the checksum "),
    (dict(warm_start=np.zeros(61)), dict(warm_start=np.ones(61)), "warm_start: found 61 numbers with the "),
)
"""Options of rank 0, options of the last rank, and the message on all ranks."""

ALIKE = """
import warnings
from bmrm.errors import ParameterError
last = rank == size - 1
for one, other, message in OTHERWISE:
    for where in (X[mine], Shard(X[mine], y[mine], comm=world)):
        if isinstance(where, Shard):
            if {"weights", "dtype", "class_weight"} & {*one, *other}:
                continue
            given = {}
        else:
            given = dict(y=y[mine], comm=world)
        try:
            bmrm.solve(where, **given, **(other if last else one))
        except ParameterError as error:
            assert str(error).startswith(message), error
        else:
            raise AssertionError(message)
# Options in which ranks may differ, and equal options in different forms.
same = dict(lam=1, C=None, max_iter=50) if last else dict(lam=1.0, max_iter=np.int64(50), threads=1)
start = bmrm.solve(X[mine], y[mine], comm=world, callback=None if last else lambda _: None, **same)
again = bmrm.solve(X[mine], y[mine], comm=world, warm_start=start, prior=bmrm.Model.from_result(start))
assert again.status == "converged"
try:
    bmrm.path(Shard(X[mine], y[mine], comm=world), lams=[0.1, 0.01][: 1 + last])
except ParameterError as error:
    assert str(error).startswith("lams: found 1 numbers with the checksum "), error
else:
    raise AssertionError("lams")
try:
    read_rows(__file__, world, n_features=5 + last)
except ParameterError as error:
    assert str(error) == "n_features: found 5 on one rank and 6 on another", error
else:
    raise AssertionError("n_features")
"""


def test_ranks_with_different_options_are_reported(tmp_path):
    given = f"from numpy import array\nfrom bmrm.distributed import read_rows\nOTHERWISE = {OTHERWISE!r}\n"
    mpi.succeed(3, mpi.script(tmp_path, PROBLEM + given + ALIKE))


FAULTS = {
    "labels[0] = np.nan": "labels: row 1 has nan, expected a finite number",
    "labels[0] = 7.0": "loss hinge: found labels 1, 2 and 7, expected two classes",
    "rows = rows[:, :-1]": "X: found 60 columns on one rank and 61 on another",
    "rows.data[0] = np.inf": "stored value 1 has inf, expected a finite number",
    "labels = labels[1:]": "labels: found shape",
    "rows = rows[:0]": "X: found 0 rows and 61 columns",
    "weights = weights[1:]": "sample weights: found shape",
    "weights[0] = -1": "sample weights: row 1 has -1",
}
"""What happens to the data of one rank, and a part of the message."""


def test_bad_data_of_one_rank_is_an_error_of_all_and_the_job_goes_on(tmp_path):
    code = f"""
from bmrm.errors import DataError
for fault, message in {FAULTS!r}.items():
    rows, labels, weights = X[mine].copy(), y[mine].copy(), s[mine].copy()
    if rank == size - 1:
        exec(fault)
    try:
        bmrm.solve(rows, labels, sample_weight=weights, comm=world)
    except DataError as error:
        assert message in str(error), (fault, error)
    else:
        raise SystemExit(f"no error: {{fault}}")
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


def test_a_rank_that_fails_alone_ends_the_job(tmp_path):
    code = """
def fail(state):
    if rank == 1 and state.iteration == 3:
        raise FloatingPointError("this rank alone")
bmrm.solve(X[mine], y[mine], lam=1e-6, tol=1e-12, comm=world, callback=fail)
"""
    began = time.monotonic()
    done = mpi.run(2, mpi.script(tmp_path, PROBLEM + code), own_job=True)
    assert done.returncode == 1
    assert done.stderr.count("FloatingPointError: this rank alone") == 1
    assert time.monotonic() - began < 15.0


def test_an_error_on_all_ranks_does_not_abort_the_job(tmp_path):
    code = """
def fail(state):
    raise FloatingPointError("all ranks")
try:
    bmrm.solve(X[mine], y[mine], comm=world, callback=fail)
except FloatingPointError:
    world.Barrier()
    sys.exit(0)
"""
    mpi.succeed(2, mpi.script(tmp_path, PROBLEM + code))


def test_ranks_of_different_kinds_are_refused(tmp_path):
    code = """
import os
import sys

from mpi4py import MPI

if MPI.COMM_WORLD.Get_rank():
    os.environ["BMRM_CPU_ISA"] = "baseline"

import bmrm.errors
from bmrm.matrix import _cpu
from bmrm.distributed import Group

if len(set(MPI.COMM_WORLD.allgather(_cpu.instruction_set()))) == 1:
    sys.exit(0)  # there is no other kind of processor
try:
    Group(MPI.COMM_WORLD)
except bmrm.errors.BmrmError as error:
    assert "expected the same" in str(error), error
    sys.exit(0)
sys.exit("no error")
"""
    mpi.succeed(2, mpi.script(tmp_path, code), forked=False)


SUMS = """
import sys
import numpy as np
from mpi4py import MPI
from bmrm.distributed import Group

group = Group(MPI.COMM_WORLD)
if "apart" in sys.argv:  # as on two hosts
    group.area = None
else:
    assert (group.area is None) == (group.size == 1)
rank, size = group.rank, group.size
for count in (1, 7, 20_000):
    parts = [np.random.default_rng(r).standard_normal(count) * 10.0**r for r in range(size)]
    total = group.total(parts[rank])
    in_order = np.zeros(count)
    for part in parts:
        in_order = in_order + part
    if count > 1:
        assert (total == in_order).all()
    assert len(set(group.comm.allgather(total.tobytes()))) == 1
    assert np.allclose(total, in_order, rtol=1e-15)
# Each rank adds to some rows of the sum, one to none of the first.
reach = [(min(r, 2), 3) for r in range(size)]
bounds = group.split(11)
rows = {r: np.arange(11.0) + 100.0 * r + np.arange(reach[r][0], 3)[:, None] for r in range(size)}
out = np.full((3, bounds[rank + 1] - bounds[rank]), np.nan)
group.total_by_columns(rows[rank], reach, bounds, out)
whole = np.zeros((3, 11))
for r in range(size):
    whole[reach[r][0] :] += rows[r]
np.testing.assert_array_equal(out, whole[:, bounds[rank] : bounds[rank + 1]])
np.testing.assert_array_equal(group.gathered(out[2], bounds), whole[2])
for count in (30, 5, 600_000):
    bounds = group.split(count)
    vectors = [np.arange(float(count)) * (r + 1) for r in range(size)]
    piece = np.empty((1, bounds[rank + 1] - bounds[rank]))
    for _ in range(3):
        group.total_by_columns(vectors[rank][None, :], [(0, 1)] * size, bounds, piece)
        np.testing.assert_array_equal(group.gathered(piece[0], bounds), sum(vectors))
for dtype in (np.float32, np.float64):
    numbers = np.array([1.0, 2.0**-30, -1.0, 3.0, 4.0], dtype) * (1 + rank)
    group.add_up(numbers)
    wanted = np.array([1.0, 2.0**-30, -1.0, 3.0, 4.0]) * sum(range(1, size + 1))
    np.testing.assert_array_equal(numbers, wanted.astype(dtype))
"""


@pytest.mark.parametrize(("ranks", "words"), [(1, []), (3, []), (3, ["apart"])])
def test_sums_are_made_in_the_order_of_the_ranks(tmp_path, ranks, words):
    """Even if they outgrow the memory allocated before."""
    mpi.succeed(ranks, mpi.script(tmp_path, SUMS), *words)


LINKS = """
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

import bmrm.matrix.gpu.libraries
import bmrm.distributed.links
import bmrm.linear.backends.gpu.cuts
import bmrm.linear.backends.ranks.gpu as device
from bmrm.distributed import Group
from bmrm.errors import BmrmError, DeviceMemoryError

group = Group(MPI.COMM_WORLD)
rank, size = group.rank, group.size
left = 4000 if rank else 8000
matrix = SimpleNamespace(device=rank, vector_dtype=np.dtype(np.float32), bytes_left=left, shape=(1, 10))

def machine(names, uuids, libraries):  # its GPUs, and whether a rank finds the library
    def load(name):
        if not libraries[rank]:
            raise BmrmError("no library")
    return SimpleNamespace(
        device_info=lambda number: {"name": names[number], "multiprocessors": 132},
        device_uuid=lambda number: uuids[number],
        load_nccl=load,
        nccl_id=lambda: b"a name",
        Nccl=lambda *arguments: arguments,
    )

for alike, joined, *there in (
    (True, True, "AA", "ab", [1, 1]),
    (True, False, "AA", "aa", [1, 1]),  # one GPU for both
    (True, False, "AA", "ab", [1, 0]),
    (False, False, "AB", "ab", [1, 1]),
):
    bmrm.distributed.links.import_cuda = bmrm.matrix.gpu.libraries.import_cuda = lambda: machine(*there)
    bmrm.matrix.gpu.libraries.has_nccl.cache_clear()
    links = device.Links(group, matrix.device)
    assert links.alike == alike, there
    assert links.nccl == ((rank, b"a name", rank, size) if joined else None), there

class Problem:
    width = length = 10
    def __init__(self):
        self.matrix = matrix
    def reserve(self, capacity):
        if rank and capacity > 8:
            raise DeviceMemoryError("too many")

bmrm.linear.backends.gpu.cuts.room_for_cuts = lambda left, shape, item: left
cuts = device.SharedCuts(Problem(), group)
assert cuts.most == 100
cuts.reserve(8)
with pytest.raises(DeviceMemoryError, match="too many"):  # also on the rank that has room
    cuts.reserve(9)
"""


def test_ranks_agree_on_how_their_gpus_are_linked(tmp_path):
    """With a fake driver: the decision needs no GPU."""
    mpi.succeed(2, mpi.script(tmp_path, LINKS))


READ = """
import sys
import numpy as np
from mpi4py import MPI
from bmrm.distributed import read_rows
from bmrm.io import read_data

world = MPI.COMM_WORLD
pattern, *whole = sys.argv[1:]
kind = "text" if "words" in pattern else "numbers"
found = read_rows(pattern, world, dtype="float64", labels=kind)
data = found.data
assert found.first == sum(world.allgather(data.X.shape[0])[: world.Get_rank()])
rows = world.allgather((data.X.to_scipy().toarray(), data.y))
parts = [read_data(n, dtype="float64", zero_based=data.zero_based or "auto", labels=kind) for n in whole]
columns = max(part.X.shape[1] for part in parts)
dense = [np.pad(p.X.to_scipy().toarray(), ((0, 0), (0, columns - p.X.shape[1]))) for p in parts]
np.testing.assert_array_equal(np.vstack([X for X, _ in rows]), np.vstack(dense))
np.testing.assert_array_equal(np.concatenate([y for _, y in rows]), np.concatenate([p.y for p in parts]))
assert found.total == sum(len(y) for _, y in rows)
assert min(len(y) for _, y in rows) > 0
"""


def write_rows(path, rows, rng, *, lowest=1, longest=12):
    lines = []
    for _ in range(rows):
        columns = lowest + np.sort(rng.choice(30, rng.integers(0, longest), replace=False))
        pairs = " ".join(f"{c}:{rng.standard_normal():.3f}" for c in columns)
        lines.append(f"{rng.integers(2)} {pairs}".rstrip() + "\n")
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize(("ranks", "lowest"), [(1, 0), (2, 1), (3, 0)])
def test_ranks_read_a_text_in_parts(tmp_path, ranks, lowest):
    path = write_rows(tmp_path / "whole.svm", 50, np.random.default_rng(2), lowest=lowest)
    mpi.succeed(ranks, mpi.script(tmp_path, READ), path, path)


def test_ranks_read_labels_that_are_words(tmp_path):
    path = tmp_path / "words.svm"
    path.write_text("".join(f"{'ham' if i % 3 else 'spam' * (1 + i)} {1 + i % 7}:2\n" for i in range(40)))
    mpi.succeed(2, mpi.script(tmp_path, READ), path, path)


def test_an_index_zero_on_one_rank_shifts_those_of_all(tmp_path):
    path = tmp_path / "whole.svm"
    path.write_text("1 1:1 2:1\n" * 20 + "0 0:5 3:1\n")
    mpi.succeed(2, mpi.script(tmp_path, READ), path, path)


def test_ranks_read_a_set_of_files(tmp_path):
    rng = np.random.default_rng(4)
    files = [write_rows(tmp_path / f"part-{k}.svm", n, rng) for k, n in enumerate((1, 40, 3, 9))]
    (tmp_path / "part-4.svm").write_text("")
    mpi.succeed(3, mpi.script(tmp_path, READ), tmp_path / "part-*.svm", *files)


def test_byte_ranges_give_every_line_to_one_rank(tmp_path):
    """For every split: lines of one byte, a last line without an end, blank lines."""
    from bmrm.io.sources import open_source
    from bmrm.io.text import file_text, line_start

    path = tmp_path / "text"
    path.write_text("1\n\n2 1:1\n3 5:2\n4")
    with open_source(path) as source:
        text, size = file_text(source), source.size
        starts = {0, 2, 3, 9, 15, size}
        for at in range(size + 1):
            found = line_start(text, at, size)
            assert found == min(start for start in starts if start >= at)


@pytest.mark.parametrize("name", ["whole.svm.gz", "whole.npz"])
def test_files_that_cannot_be_split_are_read_whole(tmp_path, name):
    import gzip

    import scipy.sparse as sp

    text = write_rows(tmp_path / "whole.svm", 40, np.random.default_rng(1))
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.read_bytes()))
    else:
        X, y = bmrm.load_svmlight(text)
        sp.save_npz(path, X)
        with np.load(path) as parts:
            np.savez(path, **parts, y=y)
    mpi.succeed(3, mpi.script(tmp_path, READ), path, text)


def test_faults_are_those_of_the_whole_text(tmp_path):
    faults = {
        "1 1:1\n" * 30 + "1 4:x\n": ":31:3: found",
        "1 1:1\n" * 30 + "2:1\n": ":31:1: found",
        "1 1:1\n" * 30 + "1 7:1\n": ':31:3: found "7:1", expected an index from 1 to 6, or',
        "": "found 0 rows",
    }
    paths = [tmp_path / f"bad-{number}.svm" for number in range(len(faults))]
    for path, text in zip(paths, faults, strict=True):
        path.write_text(text)
    code = """
import sys
from mpi4py import MPI
from bmrm.distributed import read_rows
from bmrm.errors import DataError
for path in sys.argv[1:]:
    try:
        read_rows(path, MPI.COMM_WORLD, n_features=6)
    except DataError as error:
        (text,) = set(MPI.COMM_WORLD.allgather(str(error)))
        if MPI.COMM_WORLD.Get_rank() == 0:
            print(text)
"""
    done = mpi.run(2, mpi.script(tmp_path, code), *paths)
    for line, message in zip(done.stdout.splitlines(), faults.values(), strict=True):
        assert message in line, done.stderr


def test_a_pattern_without_files():
    with pytest.raises(DataError, match="no file matches this pattern"):
        read_rows("nowhere-*.svm", MPI.COMM_SELF)


def test_stdin_needs_one_process():
    with pytest.raises(ParameterError, match="stdin"):
        read_rows("-", MPI.COMM_SELF)


def test_a_communicator_must_be_one_of_mpi():
    with pytest.raises(ParameterError, match="found 3, expected a communicator"):
        Group(3)


def test_a_loss_that_is_not_a_sum_is_refused():
    class Ranking(type(bmrm.losses.get("hinge"))):
        by_rows = False

    with pytest.raises(ParameterError, match="not a sum over rows"):
        bmrm.solve(np.eye(2), [1, 2], loss=Ranking(), comm=MPI.COMM_SELF)


def test_a_shard_keeps_its_options():
    shard = Shard(np.eye(2), [1, 2], comm=MPI.COMM_SELF)
    with pytest.raises(ParameterError, match="comm: give it to the Dataset"):
        bmrm.solve(shard, comm=MPI.COMM_SELF)
