"""Solves in step: products of all as one, faults and interrupts of any."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problems import ascent_at_any_lam

import bmrm
from bmrm.linear.plan import MAX_RELATIVE_LAM
from bmrm.linear.selection.cross_validation import FoldProblem
from bmrm.linear.selection.lockstep import Lockstep, Stopped


class Counting:
    """A matrix that notes how many columns each product has."""

    def __init__(self, array):
        self.array, self.shape, self.threads, self.columns = array, array.shape, 1, []

    def matvec(self, w, out):
        self.columns.append(1)
        out[:] = self.array @ w

    def rmatvec(self, r, out):
        self.columns.append(-1)
        out[:] = self.array.T @ r

    def matvecs(self, vectors, outs):
        self.columns.append(len(vectors))
        for w, out in zip(vectors, outs, strict=True):
            out[:] = self.array @ w

    def rmatvecs(self, vectors, outs):
        self.columns.append(-len(vectors))
        for r, out in zip(vectors, outs, strict=True):
            out[:] = self.array.T @ r


def together(workers=3):
    matrix = Counting(np.arange(12.0).reshape(4, 3))
    return matrix, Lockstep(matrix, workers)


def test_products_of_one_kind_are_done_together():
    matrix, steps = together()

    def task(seat, times):
        w = np.full(3, float(times))
        for _ in range(times):
            w = np.asarray(seat.matvec(w, np.empty(4)))[:3]
        out = np.empty((1, 3))
        seat.rmatvec_blocks(np.ones(4), np.array([0, 4]), out)
        return w, out

    tasks = {k: lambda k=k: task(steps.workers[k], k + 1) for k in range(3)}
    found = steps.run(tasks)
    assert matrix.columns == [3, 2, -1, 1, -1, -1]
    for k in range(3):
        w = np.full(3, k + 1.0)
        for _ in range(k + 1):
            w = (matrix.array @ w)[:3]
        np.testing.assert_array_equal(found[k][0], w)
        np.testing.assert_array_equal(found[k][1][0], matrix.array.sum(axis=0))
    # Outside a run a seat is the matrix.
    np.testing.assert_array_equal(steps.workers[0].matvec(np.ones(3)), matrix.array.sum(axis=1))


def test_a_fault_ends_all():
    _, steps = together()
    ended = []

    def task(seat, bad):
        try:
            for k in range(100):
                seat.matvec(np.ones(3))
                if bad and k == 3:
                    raise ValueError("bad")
        finally:
            ended.append(bad)

    with pytest.raises(ValueError, match="bad"):
        steps.run({k: lambda k=k: task(steps.workers[k], k == 1) for k in range(3)})
    assert sorted(ended) == [False, False, True]
    assert steps.run({0: lambda: 7}) == {0: 7}


class Climbing:
    """A matrix whose ascents take a step only together with a number of others."""

    def __init__(self, threads, together=1):
        self.shape, self.threads, self.steps = (4, 3), threads, []
        self._all_there = threading.Barrier(together)

    def ascent(self, name):
        return Climb(self, name)

    def wait(self):
        self._all_there.wait(20.0)


class Climb:
    def __init__(self, matrix, name):
        self.conjugate, self._matrix, self._name = 2.0 * name, matrix, name

    def step(self, w, wanted):
        self._matrix.wait()
        if self._name < 0:
            raise ValueError("bad")
        self._matrix.steps.append(threading.current_thread().name)
        w += self._name + wanted


@pytest.mark.parametrize(("threads", "at_once"), [(1, 1), (2, 2), (4, 4), (9, 4)])
def test_sweeps_of_all_run_side_by_side(threads, at_once):
    """On no more threads than products may use; here four if there is room."""
    matrix = Climbing(threads, at_once)
    steps = Lockstep(matrix, 4)

    def task(seat, name):
        ascent, w = seat.ascent(name), np.zeros(2)
        ascent.step(w, 0.25)
        ascent.step(w, 0.5)
        return w[0], ascent.conjugate

    found = steps.run({k: lambda k=k: task(steps.workers[k], k) for k in range(4)})
    assert found == {k: (2.0 * k + 0.75, 2.0 * k) for k in range(4)}
    assert len(matrix.steps) == 8
    assert len(set(matrix.steps)) <= at_once
    # Outside a run a step is taken at once.
    matrix = Climbing(threads)
    steps = Lockstep(matrix, 1)
    steps.workers[0].ascent(3).step(w := np.zeros(2), 0.5)
    assert w[0] == 3.5


def test_a_fault_in_a_sweep_ends_all():
    steps = Lockstep(Climbing(2), 3)
    with pytest.raises(ValueError, match="bad"):
        steps.run({k: lambda k=k: steps.workers[k].ascent(k - 1).step(np.zeros(2), 0.0) for k in range(3)})


def test_a_worker_that_continues_after_a_stop_gets_no_product():
    _, steps = together()
    running, stopped = threading.active_count(), []

    def task(k):
        if k == 0:
            raise ValueError("bad")
        for _ in range(3):
            with pytest.raises(Stopped):
                steps.workers[k].matvec(np.ones(3))
            stopped.append(k)

    with pytest.raises(ValueError, match="bad"):
        steps.run({k: lambda k=k: task(k) for k in range(3)})
    assert sorted(stopped) == [1] * 3 + [2] * 3
    assert threading.active_count() == running


def test_an_interrupt_ends_all():
    matrix, steps = together()
    running = threading.active_count()

    def interrupt(vectors, outs):
        raise KeyboardInterrupt

    matrix.matvecs = interrupt
    with pytest.raises(KeyboardInterrupt):
        steps.run({k: lambda k=k: steps.workers[k].matvec(np.ones(3)) for k in range(3)})
    assert threading.active_count() == running
    assert steps.run({1: lambda: steps.workers[1].matvec(np.ones(3)).sum()}) == {1: 66.0}


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_folds_in_step_are_folds_alone(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 60))
    y = np.where(X[:, 0] + rng.standard_normal(400) > 0, 1.0, -1.0)
    options = {"tol": 1e-6, "fit_intercept": True}
    data = bmrm.Dataset(X, y)
    problem = FoldProblem(data, 10, loss, 0, options)
    for lam in (0.1, 0.01):
        found = problem.validate(lam)
        for fold, result in enumerate(found.results):
            rest = problem.folds.fold_of != fold
            alone = bmrm.solve(X[rest], y[rest], loss, lam=lam, **options)
            assert result.status == "converged"
            assert result.lower_bound <= alone.objective * (1 + 1e-12)
            assert alone.lower_bound <= result.objective * (1 + 1e-12)
    again = FoldProblem(data, 10, loss, 0, options)
    again.validate(0.1)
    for one, other in zip(found.results, again.validate(0.01).results, strict=True):
        assert (one.w == other.w).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"fit_intercept": True}, {"loss": "multiclass"}, {"loss": "squared_hinge", "threads": 1}],
    ids=lambda options: "-".join(options) or "plain",
)
@ascent_at_any_lam()
def test_folds_of_wide_rows_ascend_in_step(options):
    """What they find is what each finds alone, and the same bits each time."""
    rng = np.random.default_rng(1)
    X = sp.random_array((300, 900), density=0.03, format="csr", rng=rng)
    y = np.argmax(X @ rng.standard_normal((900, 3)) + 0.1 * rng.standard_normal((300, 3)), axis=1)
    options = {"loss": "hinge", "threads": 2, **options}
    loss, threads = options.pop("loss"), options.pop("threads")
    y = y if loss == "multiclass" else np.where(y > 0, 1.0, -1.0)
    data = bmrm.Dataset(X, y, threads=threads, device="cpu")
    runs = [FoldProblem(data, 3, loss, 0, {"tol": 1e-6, **options}) for _ in range(2)]
    for lam in (1e-2, 1e-3):
        found, again = (problem.validate(lam).results for problem in runs)
        for fold, (one, other) in enumerate(zip(found, again, strict=True)):
            assert "ascent" in one.timings
            assert (one.w == other.w).all()
            rest = runs[0].folds.fold_of != fold
            alone = bmrm.solve(X[rest], y[rest], loss, lam=lam, tol=1e-6, cuts_per_pass=1, **options)
            assert one.status == "converged"
            assert one.lower_bound <= alone.objective * (1 + 1e-12)
            assert alone.lower_bound <= one.objective * (1 + 1e-12)


def test_folds_ascend_if_planes_take_many_passes():
    """At a large lam planes take as few passes as ascent takes steps, and are quicker."""
    rng = np.random.default_rng(1)
    X = sp.random_array((300, 900), density=0.03, format="csr", rng=rng)
    y = np.where(X @ rng.standard_normal(900) + 0.1 * rng.standard_normal(300) > 0, 1.0, -1.0)
    problem = FoldProblem(bmrm.Dataset(X, y, device="cpu"), 5, "hinge", 0, {"tol": 1e-3})
    edge = MAX_RELATIVE_LAM * X.power(2).sum() / 300
    runs = [problem.validate(lam).results for lam in (1.0, 2 * edge, edge / 2, edge / 20)]
    assert [all("ascent" in r.timings for r in results) for results in runs] == [False, False, True, True]
    assert all(r.status == "converged" for results in runs for r in results)


def test_a_callback_stops_the_folds():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 40))
    y = np.sign(X[:, 0] + 0.5)
    options = {"callback": lambda state: state.iteration >= 2, "tol": 1e-9}
    with pytest.raises(KeyboardInterrupt):
        FoldProblem(bmrm.Dataset(X, y), 4, "hinge", 0, options).validate(0.01)
