"""Solves in step: products of all as one, faults and interrupts of any."""

import threading

import numpy as np
import pytest

import bmrm
from bmrm.crossval import FoldProblem
from bmrm.lockstep import Lockstep


class Counting:
    """A matrix that notes how many columns each product has."""

    def __init__(self, array):
        self.array, self.shape, self.columns = array, array.shape, []

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


def together(seats=3):
    matrix = Counting(np.arange(12.0).reshape(4, 3))
    return matrix, Lockstep(matrix, seats)


def test_products_of_one_kind_are_done_together():
    matrix, steps = together()

    def task(seat, times):
        w = np.full(3, float(times))
        for _ in range(times):
            w = np.asarray(seat.matvec(w, np.empty(4)))[:3]
        out = np.empty((1, 3))
        seat.rmatvec_blocks(np.ones(4), np.array([0, 4]), out)
        return w, out

    tasks = {k: lambda k=k: task(steps.seats[k], k + 1) for k in range(3)}
    found = steps.run(tasks)
    assert matrix.columns == [3, 2, -1, 1, -1, -1]
    for k in range(3):
        w = np.full(3, k + 1.0)
        for _ in range(k + 1):
            w = (matrix.array @ w)[:3]
        np.testing.assert_array_equal(found[k][0], w)
        np.testing.assert_array_equal(found[k][1][0], matrix.array.sum(axis=0))
    # Outside of a run a seat is the matrix.
    np.testing.assert_array_equal(steps.seats[0].matvec(np.ones(3)), matrix.array.sum(axis=1))


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
        steps.run({k: lambda k=k: task(steps.seats[k], k == 1) for k in range(3)})
    assert sorted(ended) == [False, False, True]
    assert steps.run({0: lambda: 7}) == {0: 7}


def test_whoever_goes_on_after_a_stop_gets_no_product():
    _, steps = together()
    running, stopped = threading.active_count(), []

    def task(k):
        if k == 0:
            raise ValueError("bad")
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                steps.seats[k].matvec(np.ones(3))
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
        steps.run({k: lambda k=k: steps.seats[k].matvec(np.ones(3)) for k in range(3)})
    assert threading.active_count() == running
    assert steps.run({1: lambda: steps.seats[1].matvec(np.ones(3)).sum()}) == {1: 66.0}


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


def test_a_callback_stops_the_folds():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 40))
    y = np.sign(X[:, 0] + 0.5)
    options = {"callback": lambda state: state.iteration >= 2, "tol": 1e-9}
    with pytest.raises(KeyboardInterrupt):
        FoldProblem(bmrm.Dataset(X, y), 4, "hinge", 0, options).validate(0.01)
