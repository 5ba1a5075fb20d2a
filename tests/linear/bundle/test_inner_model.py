"""Inner models hold the state of a run, and penalties none."""

import contextlib
import pickle
import threading

import numpy as np
import pytest

import bmrm
from bmrm.linear import regularizers
from bmrm.linear.bundle.inner_model import inner_model
from bmrm.linear.bundle.l2_model import L2Model
from bmrm.linear.bundle.proximal_model import MAX_PASSES_WITHOUT_BOUND, ProximalModel, Schedule

STRENGTHS = np.array([1.0, 2.0, 0.0, 0.2, 1.0, 1.0, 0.1, 3.0])
PENALTIES = {
    "l2": {},
    "strengths": {"feature_lambda": STRENGTHS + 0.5, "prior": np.linspace(-1.0, 1.0, 8)},
    "free": {"feature_lambda": STRENGTHS},
    "positive": {"positive": True},
    "l1": {"reg": "l1"},
    "l1 free": {"reg": "l1", "feature_lambda": STRENGTHS},
    "elastic net": {"reg": "elastic_net", "feature_lambda": STRENGTHS},
}


def data(seed):
    """A large constant next to small numbers, so that its free weight is far away."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 8)) * np.where(STRENGTHS == 0.0, 1e-4, 1.0)
    return X, np.where(X[:, :3].sum(axis=1) + 1e4 * X[:, 2] + rng.normal(size=80) > 0, 1.0, -1.0)


def numbers(result):
    return result.w.tobytes(), result.objective, result.lower_bound, result.status, result.n_iter


@pytest.mark.parametrize("kind", PENALTIES)
def test_two_solves_share_one_penalty_at_the_same_time(kind, monkeypatch):
    options = {"loss": "hinge", "lam": 0.01, "tol": 1e-6, "threads": 1, **PENALTIES[kind]}
    apart = [numbers(bmrm.solve(*data(seed), **options)) for seed in (1, 2)]

    get, shared = regularizers.get, []

    def get_shared(*arguments, **keywords):
        if not shared:
            shared.append(get(*arguments, **keywords))
        return shared[0]

    monkeypatch.setattr(regularizers, "get", get_shared)
    bmrm.solve(*data(1), max_iter=1, **options)  # makes the penalty
    before = pickle.dumps(shared[0])
    found, turn = [None, None], threading.Barrier(2)

    def take_turns(_):
        with contextlib.suppress(threading.BrokenBarrierError):  # the other one has ended
            turn.wait(timeout=60)

    def run(i):
        found[i] = numbers(bmrm.solve(*data(i + 1), callback=take_turns, **options))
        turn.abort()

    others = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert found == apart
    assert pickle.dumps(shared[0]) == before


@pytest.mark.parametrize("kind", PENALTIES)
def test_the_penalty_says_which_model_it_needs(kind):
    options = {"name": "l2", **PENALTIES[kind]}
    options["name"] = options.pop("reg", options["name"])
    penalty = regularizers.get(lam=0.1, n_features=8, **options)
    model = inner_model(penalty)
    squared = kind in ("l2", "strengths")
    assert isinstance(model, L2Model if squared else ProximalModel)
    assert (penalty.terms is None) == squared
    assert (model.radius < np.inf) == ("free" in kind or kind == "elastic net")
    assert model.reg is penalty


def test_a_model_covers_its_best_point():
    model = inner_model(regularizers.get("l2", 1.0, 2, feature_lambda=[1.0, 0.0]))
    near, far = np.array([1e9, 10.0]), np.array([0.0, 1e6])
    model.reach(near)
    assert model.radius == regularizers.RADIUS
    assert model.covers(near)
    assert not model.covers(far)
    model.reach(far)
    assert model.covers(far)
    assert model.radius == 8e6
    other = inner_model(model.reg)
    assert other.radius == regularizers.RADIUS  # of the run, not of the penalty
    other.cover(5.0)
    assert (other.radius, model.radius) == (5.0, 8e6)


def test_a_model_without_free_features_covers_everything():
    for name in regularizers.NAMES:
        model = inner_model(regularizers.get(name, 1.0, 2))
        model.cover(5.0)
        assert model.radius == np.inf
        assert model.covers(np.array([1e300, 0.0]))


def test_a_sharper_bound_waits_until_points_have_taken_as_many_steps():
    schedule = Schedule(gap=1.0)
    schedule.begin(1.0)
    schedule.begin_bound()
    schedule.cost = 10
    for steps, wanted in ((4, False), (5, False), (1, True)):
        schedule.note_point(steps)
        assert schedule.wants_bound(1.0, 0.0) == wanted
    schedule.begin_bound()
    schedule.cost = 1000
    for _ in range(MAX_PASSES_WITHOUT_BOUND):
        assert not schedule.wants_bound(1.0, 0.0)
        schedule.note_point(1)
    assert schedule.wants_bound(1.0, 0.0)


def test_no_bound_is_wanted_if_a_cheaper_one_halves_the_gap():
    schedule = Schedule(gap=1.0)
    assert not schedule.wants_bound(1.0, 0.6)
    assert schedule.wants_bound(1.0, 0.4)
    schedule.end_pass(1.0, 0.4, 1.0)
    assert not schedule.wants_bound(1.0, 0.8)
    schedule.forget_bounds()
    assert schedule.gap == np.inf


@pytest.mark.parametrize(("value", "factor"), [(0.75, 1.0), (0.5, 2.0), (-9.0, 4.0), (1.0, 0.25), (1.5, 4.0)])
def test_mu_follows_what_the_model_promises(value, factor):
    """The gap is 0.5; half of it is to be promised."""
    schedule = Schedule()
    schedule.begin(1.0)
    schedule.end_pass(1.0, 0.5, value)
    assert schedule.mu == factor
