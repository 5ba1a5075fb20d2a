"""The solver against independent optima, and what its certificate promises."""

import re
from itertools import pairwise, permutations, product
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loss_cases import CASES, formula, labels_for
from reference_solvers import SMOOTH, objective, optimum

import bmrm
from bmrm import losses
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.linear.backends import local as parts
from bmrm.linear.backends.host import passes as host_passes
from bmrm.linear.objective.objective import Line, Objective
from bmrm.linear.objective.passes import Iterate
from bmrm.linear.regularizers import L2
from bmrm.linear.solvers import newton, steps
from bmrm.linear.solvers.settings import Settings
from bmrm.linear.solvers.state import State

BY_NAME = {loss.name: loss for loss in CASES}


def problem(loss, seed=0, m=60, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.7)
    if loss.task == "novelty":
        # Away from the origin: otherwise w = 0 is the answer.
        return X + 1.0, np.zeros(m)
    if loss.task == "binary":
        return X, np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=m) + 0.3 > 0, 1.0, -1.0)
    return X, labels_for(loss, rng, m)


MODES = [
    (loss, mode)
    for mode in ("plain", "weighted", "intercept", "penalised")
    for loss in CASES
    if not (loss.needs_intercept and mode == "penalised")
]


@pytest.mark.parametrize(("loss", "mode"), MODES, ids=lambda value: getattr(value, "name", value))
def test_optimum_of_every_loss(loss, mode):
    X, y = problem(loss)
    weights = np.random.default_rng(1).random(len(y)) + 0.1 if mode == "weighted" else None
    options = {"fit_intercept": mode in ("intercept", "penalised"), "penalize_intercept": mode == "penalised"}
    lam = 1e-2
    result = bmrm.solve(X, y, loss, lam=lam, tol=1e-9, sample_weight=weights, **options)
    assert result.status == "converged"
    against = np.hstack([X, np.ones((len(y), 1))]) if mode == "penalised" else X
    free = mode == "intercept" or loss.needs_intercept
    wanted = optimum(loss, against, y, lam, weights, free)
    scale = max(1.0, abs(wanted))
    assert result.lower_bound <= wanted + 1e-9 * scale
    assert result.objective == pytest.approx(wanted, rel=1e-6, abs=1e-8)
    penalty = 0.5 * lam * result.intercept**2 if mode == "penalised" else 0.0
    again = (
        objective(X, y, result.w, result.intercept, lam, lambda u, v: formula(loss, u, v), weights) + penalty
    )
    again += loss.intercept_slope * result.intercept
    assert result.objective == pytest.approx(again, rel=1e-12)


@pytest.mark.parametrize("name", ["hinge", "logistic", "squared", "quantile"])
@pytest.mark.parametrize("options", [{"solver": "bmrm"}, {"cuts_per_pass": 1}, {"cuts_per_pass": 5}])
def test_every_variant_finds_the_same(name, options):
    loss = BY_NAME[name]
    X, y = problem(loss, seed=4, m=80)
    result = bmrm.solve(sp.csr_matrix(X), y, loss, lam=1e-2, tol=1e-7, **options)
    assert result.status == "converged"
    assert result.objective == pytest.approx(optimum(loss, X, y, 1e-2, None, False), rel=1e-6)


@pytest.mark.parametrize("name", sorted(SMOOTH))
@pytest.mark.parametrize("intercept", ["none", "free", "penalised"])
def test_newton_steps_and_the_model_alone_find_the_same(name, intercept, monkeypatch):
    loss = BY_NAME[name]
    X, y = problem(loss, seed=20, m=300, d=12)
    options = {"fit_intercept": intercept != "none", "penalize_intercept": intercept == "penalised"}
    stepped = bmrm.solve(sp.csr_matrix(X), y, loss, lam=1e-4, tol=1e-8, **options)
    monkeypatch.setattr(newton, "MAX_HESSIAN_WORK", 0.0)
    by_products = bmrm.solve(sp.csr_matrix(X), y, loss, lam=1e-4, tol=1e-8, **options)
    monkeypatch.setattr("bmrm.linear.plan.newton_pays", lambda *_: False)
    plain = bmrm.solve(sp.csr_matrix(X), y, loss, lam=1e-4, tol=1e-8, **options)
    assert stepped.status == by_products.status == plain.status == "converged"
    assert "newton" in stepped.timings
    assert "newton" in by_products.timings
    assert "newton" not in plain.timings
    assert stepped.n_iter <= 12
    assert max(stepped.n_iter, by_products.n_iter) < plain.n_iter
    for a, b in permutations((stepped, by_products, plain), 2):
        assert a.lower_bound <= b.objective + 1e-12 * abs(b.objective)


class Sizes:
    """What the choice needs to know about a matrix."""

    def __init__(self, columns, length, work=1e30):
        self.shape, self.nnz, self.weighted_gram_work = (1000, columns), 1000 * length, work


@pytest.mark.parametrize(
    ("columns", "length", "rows", "loss", "work", "pays"),
    [
        (30, 30, 1000, "hinge", 1.0, True),  # a Hessian costs nothing
        (200, 15, 1000, "logistic", 1e30, True),
        (200, 15, 6400, "hinge", 1e30, True),
        (200, 15, 6000, "hinge", 1e30, False),  # too few near their kinks
        (200, 10, 6400, "hinge", 1e30, False),  # too thin
        (200, 200, 700, "logistic", 1e30, False),  # too few rows
        (2000, 2000, 8000, "logistic", 1e30, True),
        (2000, 10, 80_000, "logistic", 1e30, False),  # text
        (2000, 10, 80_000, "logistic", np.inf, True),  # on a GPU
        (200, 200, 1000, "hinge", np.inf, False),
        (200, 15, 6400, "hinge", np.inf, True),
        (200, 200, 1000, "roc_area", 1.0, False),
    ],
)
def test_when_newton_steps_pay(columns, length, rows, loss, work, pays):
    operator = Sizes(columns, length * rows / 1000, work)
    assert newton.newton_pays(operator, rows, losses.get(loss), L2(1.0)) is pays


@pytest.mark.parametrize(
    ("name", "intercept"),
    [
        ("logistic", "none"),
        ("logistic", "free"),
        ("squared_hinge", "free"),
        ("squared_hinge", "penalised"),
        ("squared", "none"),
        ("squared", "penalised"),
    ],
)
def test_full_rows_whose_columns_are_of_many_sizes(name, intercept, monkeypatch):
    rng = np.random.default_rng(31)
    X = rng.standard_normal((4000, 400)) * 10.0 ** rng.uniform(-1.5, 1.5, 400)
    z = X @ rng.standard_normal(400)
    z = z / z.std() + 0.5 * rng.standard_normal(4000)
    y = z if name == "squared" else np.sign(z)
    options = {"fit_intercept": intercept != "none", "penalize_intercept": intercept == "penalised"}
    options |= {"loss": name, "lam": 1e-3, "tol": 1e-3, "device": "cpu"}
    found = bmrm.solve(X, y, **options)
    monkeypatch.setattr("bmrm.linear.plan.newton_pays", lambda *_: False)
    plain = bmrm.solve(X, y, **options)
    assert found.status == plain.status == "converged"
    assert found.timings["newton"] > 0.0
    assert found.n_iter < plain.n_iter / 3
    assert found.lower_bound <= plain.objective
    assert plain.lower_bound <= found.objective


KINKED = ("hinge", "absolute", "quantile", "epsilon_insensitive")


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize(
    ("intercept", "reg"), [("none", "l2"), ("penalised", "l2"), ("free", "l2"), ("free", "elastic_net")]
)
def test_steps_with_rounded_kinks_and_the_model_alone_find_the_same(name, intercept, reg, monkeypatch):
    rng = np.random.default_rng(23)
    X, weights = rng.normal(size=(4000, 12)), rng.random(4000)
    y = X @ rng.normal(size=12) + 2.0 * rng.normal(size=4000)
    y = np.sign(y) if name == "hinge" else y
    options = {"fit_intercept": intercept != "none", "penalize_intercept": intercept == "penalised"}
    options |= {"loss": name, "reg": reg, "lam": 1e-4, "tol": 1e-5, "sample_weight": weights}
    options |= {"cuts_per_pass": 1 if intercept == "free" or reg != "l2" else 8}
    monkeypatch.setattr(steps, "may_step", lambda *_: False)
    stepped = bmrm.solve(X, y, **options)
    monkeypatch.setattr(newton, "MAX_HESSIAN_WORK", 0.0)
    by_products = bmrm.solve(X, y, **options)
    monkeypatch.setattr("bmrm.linear.plan.newton_pays", lambda *_: False)
    plain = bmrm.solve(X, y, **options)
    assert stepped.status == by_products.status == plain.status == "converged"
    assert "newton" in stepped.timings
    assert "newton" in by_products.timings
    assert "newton" not in plain.timings
    assert stepped.n_iter < plain.n_iter
    for a, b in permutations((stepped, by_products, plain), 2):
        assert a.lower_bound <= b.objective + 1e-12 * abs(b.objective)


def test_steps_with_rounded_kinks_take_few_passes():
    rng = np.random.default_rng(24)
    X = rng.normal(size=(20_000, 30))
    y = np.sign(X @ rng.normal(size=30) + 3.0 * rng.normal(size=20_000))
    passes = [bmrm.solve(X, y, lam=1e-5, tol=tol).n_iter for tol in (1e-3, 1e-4, 1e-5)]
    assert passes[0] <= 8
    assert passes[1] <= 10
    assert passes[2] <= 20


def test_objective_and_bound_are_of_the_loss_with_its_kinks():
    rng = np.random.default_rng(25)
    X = rng.normal(size=(3000, 8))
    y = np.sign(X @ rng.normal(size=8) + rng.normal(size=3000))
    seen = []

    def keep(state):
        seen.append((state.objective, state.lower_bound, state.model()[0]))

    result = bmrm.solve(X, y, lam=1e-3, tol=1e-6, callback=keep)
    for found, bound, w in seen:
        value = np.maximum(0.0, 1.0 - y * (X @ w)).mean() + 0.5e-3 * w @ w
        assert found == pytest.approx(value, rel=1e-12)
        assert bound <= result.objective
    objectives = [row["objective"] for row in result.history]
    assert (np.diff(objectives) <= 1e-12).all(), "the best point got worse"


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_intercept_minimises_the_loss_with_its_kinks(name, tol, weighted, monkeypatch):
    loss, rng = BY_NAME[name], np.random.default_rng(29)
    X, weights = rng.normal(size=(500, 4)), rng.random(500) if weighted else None
    y = X @ rng.normal(size=4) + rng.normal(size=500) + 0.7
    y = np.sign(y) if name == "hinge" else y
    monkeypatch.setattr(steps, "may_step", lambda *_: False)
    result = bmrm.solve(X, y, loss, lam=1e-3, tol=tol, sample_weight=weights, fit_intercept=True)
    assert result.status == "converged"
    assert "newton" in result.timings
    # With w as it is, J is linear in the intercept except at the kinks: it is smallest at one of them.
    width = loss.params.get("epsilon", 0.0)
    kinks = np.concatenate([y - X @ result.w + side for side in (-width, width)])
    least = min(objective(X, y, result.w, b, 1e-3, lambda u, v: formula(loss, u, v), weights) for b in kinks)
    assert result.objective == pytest.approx(least, rel=1e-13)


def test_a_point_from_a_new_product_knows_nothing_of_rounded_kinks():
    loss = BY_NAME["hinge"]
    X, y = problem(loss)
    data = bmrm.Dataset(X, y)
    passes = host_passes.HostPasses(data.matrix, loss.risk(y, None, 1.0 / len(y), 1))
    objective = Objective(data.matrix, passes, loss, L2(0.1), profile=True, blocks=1)
    w = np.random.default_rng(30).normal(size=X.shape[1])
    sharp = objective.evaluate(w)
    objective.round_kinks(1.0)
    again = objective.evaluate(w)
    assert again.objective == pytest.approx(sharp.objective, rel=1e-14)
    # The next search rounds them as before.
    assert objective.kink_width == 1.0
    assert objective.evaluate_at(w, again.margins, 0.0).objective > sharp.objective + 1e-4


@pytest.mark.parametrize("rows", [2, 3, 30])
@pytest.mark.parametrize("name", KINKED)
def test_rounded_kinks_of_few_rows(name, rows):
    loss, rng = BY_NAME[name], np.random.default_rng(26)
    X = rng.normal(size=(rows, 3))
    y = np.where(np.arange(rows) % 2, 1.0, -1.0) if name == "hinge" else rng.normal(size=rows)
    for lam in (1e-3, 1e-1, 10.0):
        result = bmrm.solve(X, y, loss, lam=lam, tol=1e-6)
        wanted = optimum(loss, X, y, lam, None, False)
        assert result.status == "converged"
        assert result.objective == pytest.approx(wanted, rel=2e-6, abs=1e-11)
        assert result.lower_bound <= wanted * (1.0 + 1e-6) + 1e-11


def test_a_run_that_ends_leaves_no_kink_rounded():
    rng = np.random.default_rng(27)
    X = rng.normal(size=(2000, 6))
    y = np.sign(X @ rng.normal(size=6) + rng.normal(size=2000))
    widths = []

    class Passes(host_passes.HostPasses):
        def round_kinks(self, width):
            widths.append(width)
            super().round_kinks(width)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "HostPasses", Passes)
        bmrm.solve(X, y, lam=1e-3)
    assert len(widths) > 2
    assert widths[-1] == 0.0


@pytest.mark.parametrize("point", [None, np.zeros(5), np.full(5, 1e12)])
def test_a_newton_point_of_no_use_leaves_the_model(point, monkeypatch):
    X, y = problem(BY_NAME["logistic"], seed=21)
    monkeypatch.setattr(host_passes.HostPasses, "newton_point", lambda *_: point)
    result = bmrm.solve(X, y, "logistic", lam=1e-3, tol=1e-7)
    assert result.status == "converged"
    assert result.objective == pytest.approx(optimum(BY_NAME["logistic"], X, y, 1e-3, None, False), rel=1e-6)


def test_the_margins_of_zero_take_no_product():
    class Product:
        shape = 5, 2

        def matvec(self, w, out):
            out[:] = w.sum()

    operator = Product()
    steps = host_passes.HostPasses(operator, losses.get("hinge").risk(np.ones(5), None, 1.0, 1))
    np.testing.assert_array_equal(steps.margins(np.array([0.0, 3.0])), np.full(5, 3.0))
    operator.matvec = None
    np.testing.assert_array_equal(steps.margins(np.zeros(2)), np.zeros(5))


def test_newton_steps_are_for_narrow_data():
    rng = np.random.default_rng(22)
    narrow, wide = rng.normal(size=(400, 10)), sp.random_array((400, 300), density=0.02, rng=rng).tocsr()
    y = rng.choice([-1.0, 1.0], 400)
    for X, options, used in (
        (narrow, {"loss": "logistic"}, True),
        (narrow, {"loss": "hinge"}, True),
        (narrow, {"loss": "hinge", "solver": "bmrm"}, False),
        (narrow, {"loss": "novelty"}, False),
        (wide, {"loss": "hinge"}, False),
        (narrow, {"loss": "logistic", "solver": "bmrm"}, False),
        (wide, {"loss": "logistic"}, False),
    ):
        assert ("newton" in bmrm.solve(X, y, lam=1e-2, **options).timings) == used


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(BY_NAME)),
    seed=st.integers(0, 1000),
    m=st.integers(2, 30),
    d=st.integers(1, 6),
    scale=st.sampled_from([1e-3, 1.0, 100.0]),
    lam=st.sampled_from([1e-6, 1e-2, 10.0]),
    intercept=st.booleans(),
)
@example(name="hinge", seed=67, m=7, d=2, scale=1e-3, lam=1e-2, intercept=True)
def test_the_bound_never_passes_any_objective(name, seed, m, d, scale, lam, intercept):
    loss = BY_NAME[name]
    X, y = problem(loss, seed, m, d)
    if loss.task == "binary":
        y[:2] = [-1.0, 1.0]
    if loss.task == "count":
        y[0] = 3.0
    result = bmrm.solve(scale * X, y, loss, lam=lam, tol=1e-6, fit_intercept=intercept, max_iter=60)
    bounds = [row["lower_bound"] for row in result.history]
    # The last objective may come from a new product, and caps the bound: monotone up to rounding.
    assert all(b >= a - 1e-10 * (1 + abs(a)) for a, b in pairwise(bounds))
    objectives = [row["objective"] for row in result.history]
    assert all(b <= a + 1e-10 * (1 + abs(a)) for a, b in pairwise(objectives))
    assert result.lower_bound <= result.objective
    better = bmrm.solve(scale * X, y, loss, lam=lam, tol=1e-9, fit_intercept=intercept, max_iter=400)
    slack = 1e-12 * max(1.0, abs(better.objective), abs(objectives[0]))
    assert result.lower_bound <= better.objective + slack
    assert better.lower_bound <= result.objective + slack


def test_ill_conditioned_data_keeps_an_honest_bound():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 8)) * 10.0 ** np.arange(-4, 4)
    y = X[:, 3] + rng.normal(size=300)
    lam = 1e-6
    exact = np.linalg.solve(X.T @ X / 300 + lam * np.eye(8), X.T @ y / 300)
    wanted = objective(X, y, exact, 0.0, lam, lambda u, v: (u - v) ** 2 / 2)
    result = bmrm.solve(X, y, "squared", lam=lam, tol=1e-9)
    assert result.status in ("converged", "precision")
    assert result.lower_bound <= wanted * (1 + 1e-12)
    assert result.objective >= wanted * (1 - 1e-12)
    assert result.gap <= 1e-6 * wanted


@pytest.mark.parametrize("name", ["mrr", "pairwise", "lambda_ndcg"])
def test_long_steps_do_not_separate_margins_from_weights(name):
    """A step of 100 magnifies the rounding of margins a hundred times, and the next one does so again."""
    X = np.array([[-3.1221682], [22.73651757], [12.81341229], [7.13245449], [1.01407698]])
    y, options = np.array([0.0, 1.0, 1.0, 1.0, 0.0]), {"reg": "l1", "lam": 8e-4, "positive": True}
    coarse, fine = (
        bmrm.solve(X, y, name, groups=np.zeros(5, int), tol=tol, **options) for tol in (1e-3, 1e-9)
    )
    assert coarse.status == fine.status == "converged"
    assert coarse.lower_bound <= fine.objective * (1 + 1e-13)
    assert max(row["step"] for row in fine.history) == 100.0


@pytest.mark.parametrize("reg", ["l2", "elastic_net"])
@pytest.mark.parametrize("seed", range(3))
def test_an_optimum_of_zero_at_the_start(reg, seed):
    """No step leads down from there, but cuts have to be taken elsewhere."""
    X = np.random.default_rng(seed).normal(size=(200, 40))
    result = bmrm.solve(X, None, "novelty", reg, lam=1e-5, tol=1e-9, tol_kind="abs")
    assert result.status == "converged"
    assert 0.0 <= result.objective < 1e-30


@pytest.mark.parametrize("seed", range(4))
def test_curvature_that_vanishes(seed):
    """Rows far out leave the Huber loss straight, and rows with a margin the squared hinge flat."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2, 2500))
    assert bmrm.solve(X, [0.98, -0.31], "huber", "l1", 4e-5, fit_intercept=True).status == "converged"
    X, y = 20.0 * rng.normal(size=(5, 300)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    assert bmrm.solve(X, y, "squared_hinge", "elastic_net", 1.7e-4, tol=1e-6).status == "converged"


@pytest.mark.parametrize("seed", [0, 2])
def test_kinks_in_many_features_do_not_end_with_precision(seed):
    """Many passes move neither objective nor bound; and a warm start has hardly a slope to begin with."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 60))
    y = np.sign(X @ rng.normal(size=60) + rng.normal(size=500))
    first = bmrm.solve(X, y, "hinge", "l1", 1e-4)
    results = [bmrm.solve(X, y, "hinge", "l1", 1e-4, tol=1e-6, warm_start=start) for start in (None, first)]
    assert [result.status for result in results] == ["converged"] * 2
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_a_large_scale_leaves_a_small_gap_under_the_elastic_net(seed):
    """The gap of the model is far larger than what is left to gain of its dual, which is second order."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((200, 2500), density=0.02, format="csr", rng=rng, data_sampler=rng.standard_normal)
    u = X @ rng.normal(size=2500)
    result = bmrm.solve(
        20.0 * X, u / np.abs(u).max(), "absolute", "elastic_net", 1e-5, tol=1e-5, positive=True
    )
    assert result.status == "converged"


@pytest.fixture
def level_lines(monkeypatch):
    """A problem in which conjugate gradients end early: J has all its digits before its slope is small."""
    pytest.importorskip("highspy")
    monkeypatch.setattr(newton, "MAX_HESSIAN_WORK", 0.0)
    rng = np.random.default_rng(0)
    A = sp.random(3000, 40, 0.2, "csr", rng=rng, dtype=np.float64)
    A.data = rng.standard_normal(A.nnz)
    z = A @ rng.standard_normal(40) + 0.5 * rng.standard_normal(3000)
    options = {"reg": "l1", "lam": 1e-3, "tol": 1e-8, "device": "cpu"}
    return lambda **words: bmrm.solve(A, np.sign(z), "squared_hinge", **options, **words)


def test_newton_steps_go_on_where_the_objective_is_level(level_lines):
    found = level_lines()
    assert found.status == "converged"
    assert found.n_iter <= 20  # cuts alone ended with status precision, after 73


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_end_of_a_level_line_is_evaluated_once(level_lines, monkeypatch, fit_intercept):
    at, improve, ends = Line.at, State.improve, []

    def counted(line, t, accuracy):
        ends.append(t == 1.0)
        return at(line, t, accuracy)

    def forgetful(state, line, t, *, known=None, **words):
        return improve(state, line, t, **words)

    monkeypatch.setattr(Line, "at", counted)
    found, calls = [], []
    for each in (improve, forgetful):
        monkeypatch.setattr(State, "improve", each)
        result = level_lines(fit_intercept=fit_intercept)
        found.append((result.w.tobytes(), result.objective, result.lower_bound, result.n_iter))
        calls.append(sum(ends))
        ends.clear()
    assert found[0] == found[1]
    # a free intercept is looked for once more
    assert calls[0] == calls[1] if fit_intercept else calls[0] < calls[1]


@pytest.mark.parametrize("loss", ["huber", "huber_hinge"])
@pytest.mark.parametrize("seed", range(2))
def test_newton_steps_that_crawl_give_way_to_cuts(seed, loss):
    """Near the kinks of the penalty J falls only a little each time: some solves took hundreds of passes."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 2500)), np.sign(rng.standard_normal(30))
    prior = 0.1 * rng.standard_normal(2500)
    result = bmrm.solve(X, y, loss, "elastic_net", 5e-6, prior=prior, cuts_per_pass=4, max_iter=120)
    assert result.status == "converged"


def test_bounds_hold_with_cuts_from_points_of_a_far_larger_objective():
    """Cuts of a warm start may come from points with an objective a million times as large."""
    rng = np.random.default_rng(4)
    X = 20.0 * rng.normal(size=(300, 800))
    y = 1e-3 * rng.normal(size=300)
    rows, given = bmrm.Dataset(X, y), {"loss": "absolute", "lam": 6e-3}
    far = bmrm.solve(rows, tol=1e-3, cuts_per_pass=1, max_iter=1, **given)
    first = bmrm.solve(rows, tol=1e-3, warm_start=far, **given)
    assert first.status == "converged"
    assert first.bundle.offsets.max() > 1e6 * first.objective
    for tol, cuts in product((1e-6, 1e-9), ("auto", 1)):
        options = {"tol": tol, "max_iter": 300, "cuts_per_pass": cuts}
        again = bmrm.solve(rows, warm_start=first, **given, **options)
        assert again.lower_bound <= first.objective * (1 + 1e-15)
        assert first.lower_bound <= again.objective * (1 + 1e-15)


def test_a_bound_is_impossible_beyond_the_rounding_of_the_largest_cut():
    run = object.__new__(State)
    run.settings = Settings("ocas", 1e-3, "rel", 100, 10.0)
    run.best = Iterate(np.zeros(2), np.zeros(3), 0.0, 1e-11)
    run.first_objective, run.largest_risk, run._evaluated = 1e-9, 0.0, True
    for run.largest_risk, offset in ((0.0, 8e-4), (8e-4, 0.0)):
        run.bundle = SimpleNamespace(offsets=np.array([-offset, 1e-12]))
        assert not run._is_impossible(1e-11 + 0.5e-6 * 8e-4)
        assert run._is_impossible(1e-11 + 2e-6 * 8e-4)
    run.largest_risk = 0.0
    assert run._is_impossible(1e-11 + 0.5e-6 * 8e-4)


def test_cuts_far_above_the_objective_round_by_more_than_it():
    """With a lam so small the first minimiser has a risk of 1e11; the optimum is 0, at no weights."""
    X = np.random.default_rng(0).standard_normal((40, 3))
    for lam in (1e-12, 1e-14):
        result = bmrm.solve(X, loss="novelty", lam=lam, max_iter=300)
        assert result.lower_bound <= 0.0 == result.objective


def test_a_small_objective_with_large_labels_does_not_count_as_zero():
    # Of labels of 1e16 the mean of squares is 6e31; the optimum of 1.8e14 is known to 7 digits.
    X = np.outer([1.0, 1.0], [-(2.0**-19), 2.0**-18])
    y = 2.0**53 * np.array([1.25, 1.25 - 2.0**-28])
    result = bmrm.solve(X, y, loss="squared", lam=2.0**-43, fit_intercept=True, tol=1e-12)
    assert result.objective == pytest.approx(0.5 * ((y[0] - y[1]) / 2.0) ** 2)
    assert result.status == "precision"
    assert result.gap > 1e-12 * result.objective


def test_a_risk_that_only_falls_towards_zero_has_an_end():
    # Features without a penalty separate the classes: exp(-y u) falls for ever.
    X = np.array([[1.0, 0.5], [2.0, 1.0], [-1.0, 0.3], [-3.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    given = {"loss": "exponential", "lam": 0.01, "fit_intercept": True, "feature_lambda": [0.0, 1.0]}
    first = bmrm.solve(X, y, **given, tol=1e-10)
    assert first.status == "converged"
    assert first.objective <= 1e-15
    assert first.n_iter < 60
    again = bmrm.solve(X, y, **given, tol=1e-13, warm_start=first)
    assert again.status == "converged"


def test_too_few_cuts_do_not_end_with_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 30))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, 1.0, -1.0)
    result = bmrm.solve(X, y, "logistic", "l1", 1e-5, solver="bmrm", max_cuts=4)
    assert result.status == "max_cuts"
    assert result.gap > 1e-3


@pytest.mark.parametrize("loss", ["hinge", "roc_area", "absolute"])
@pytest.mark.parametrize("lam", [1e-6, 1e-8])
def test_products_of_rows_that_cancel_keep_no_bound_down(loss, lam):
    # Rows again with the opposite label: the best weights are 0, and gradients of the mean plane cancel.
    rng = np.random.default_rng(3)
    X, y = np.tile(rng.standard_normal((6, 40)), (2, 1)), rng.standard_normal(6)
    y = np.concatenate([y, -y]) if loss == "absolute" else np.sign(np.concatenate([y, -y]))
    result = bmrm.solve(X, y, loss=loss, lam=lam, tol=1e-9)
    assert result.status == "converged"
    assert result.objective == pytest.approx(np.abs(y).mean(), rel=1e-12)


def test_a_qp_whose_products_are_far_larger_than_the_gap_is_refined():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 3))
    result = bmrm.solve(X, np.arange(12) % 3, loss="multiclass", lam=1e-8, tol=1e-10)
    assert result.status == "converged"


def test_a_tolerance_beyond_rounding_ends_with_precision():
    X, y = problem(BY_NAME["hinge"], m=200)
    result = bmrm.solve(X, y, lam=1e-3, tol=1e-30, tol_kind="abs", max_iter=5000)
    assert result.status == "precision"
    assert result.gap < 1e-10


def test_same_answer_for_any_number_of_threads():
    rng = np.random.default_rng(2)
    X = sp.random(3000, 400, 0.05, random_state=rng, format="csr")
    y = rng.choice([0.0, 1.0], 3000)
    answers = [bmrm.solve(X, y, "logistic", lam=1e-4, threads=t) for t in (1, 2, 3)]
    for other in answers[1:]:
        np.testing.assert_array_equal(answers[0].w, other.w)
        assert answers[0].lower_bound == other.lower_bound


@pytest.mark.parametrize("blocks", [1, 4])
def test_few_cuts_still_converge(blocks):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 30))
    y = np.sign(X @ rng.normal(size=30) + rng.normal(size=400))
    full = bmrm.solve(X, y, lam=1e-3, tol=1e-4, cuts_per_pass=blocks)
    small = bmrm.solve(X, y, lam=1e-3, tol=1e-4, cuts_per_pass=blocks, max_cuts=12 * blocks)
    assert small.status == full.status == "converged"
    assert max(row["cuts"] for row in small.history) <= 12 * blocks < max(row["cuts"] for row in full.history)
    bounds = [row["lower_bound"] for row in small.history]
    assert bounds == sorted(bounds)


def test_merged_cuts_stay_below_the_risk():
    rng = np.random.default_rng(3)
    X, loss = rng.normal(size=(200, 10)), BY_NAME["hinge"]
    y = np.sign(X @ rng.normal(size=10) + rng.normal(size=200))
    bundle = bmrm.solve(X, y, lam=1e-3, tol=1e-5, cuts_per_pass=1, max_cuts=6, max_iter=200).bundle
    for w in 3 * rng.normal(size=(50, 10)):
        risk = formula(loss, X @ w, y).mean()
        assert (bundle.gradients @ w + bundle.offsets).max() <= risk + 1e-12 * (1 + risk)


def test_class_weights_are_sample_weights():
    X, y = problem(BY_NAME["hinge"], seed=5)
    weights = np.where(y > 0, 3.0, 1.0)
    by_row = bmrm.solve(X, y, lam=1e-2, sample_weight=weights, tol=1e-8)
    by_class = bmrm.solve(X, y, lam=1e-2, class_weight={1.0: 3.0}, tol=1e-8)
    assert by_row.objective == by_class.objective
    balanced = bmrm.solve(X, y, lam=1e-2, class_weight="balanced", tol=1e-8)
    counts = np.where(y > 0, (y > 0).sum(), (y < 0).sum())
    same = bmrm.solve(X, y, lam=1e-2, sample_weight=len(y) / (2 * counts), tol=1e-8)
    assert balanced.objective == pytest.approx(same.objective, rel=1e-7)


def test_rows_of_weight_zero_take_no_part():
    X, y = problem(BY_NAME["logistic"], seed=6)
    keep = np.arange(len(y)) % 3 > 0
    masked = bmrm.solve(X, y, "logistic", lam=1e-2, sample_weight=keep.astype(float), tol=1e-9)
    cut = bmrm.solve(X[keep], y[keep], "logistic", lam=1e-2, tol=1e-9)
    assert masked.objective == pytest.approx(cut.objective, rel=1e-8)


def in_python(loss):
    """The same loss as one that is evaluated in Python."""
    return losses.CallableLoss(lambda u, y: (loss.value(u, y), loss.derivative(u, y)), minimum=0.0)


@pytest.mark.parametrize(
    "loss",
    ["exponential", "poisson", in_python(BY_NAME["exponential"])],
    ids=["exponential", "poisson", "in Python"],
)
def test_rows_of_weight_zero_take_no_part_even_if_their_loss_is_infinite(loss):
    X, y = problem(BY_NAME["poisson" if loss == "poisson" else "exponential"], seed=6)
    keep = np.arange(len(y)) % 3 > 0
    far = X.copy()
    far[~keep] *= 1e4
    cut = bmrm.solve(X[keep], y[keep], loss, lam=1e-2, tol=1e-6)
    masked = bmrm.solve(far, y, loss, lam=1e-2, sample_weight=keep.astype(float), tol=1e-6)
    assert masked.status == cut.status == "converged"
    assert masked.objective == pytest.approx(cut.objective, rel=2e-6)


def test_cost_is_liblinears():
    X, y = problem(BY_NAME["hinge"], seed=7)
    assert bmrm.solve(X, y, C=2.0).lam == pytest.approx(1 / (2.0 * len(y)))
    assert bmrm.solve(X, y, C=2.0, sample_weight=np.full(len(y), 3.0)).lam == pytest.approx(
        1 / (6.0 * len(y))
    )


def test_novelty_is_scikit_learns_one_class_svm():
    from sklearn.svm import OneClassSVM

    X = np.random.default_rng(9).normal(size=(80, 3)) + 2.0
    nu, lam = 0.25, 1.0
    # nu-scaled: minimise |w|^2/2 + sum max(0, rho - x.w)/(nu m) - rho, lam = 1.
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-9).fit(X)
    ours = bmrm.solve(X, loss="novelty", nu=nu, lam=lam, tol=1e-9)
    np.testing.assert_allclose(ours.w, theirs.coef_[0] / (nu * 80), rtol=1e-3)
    assert np.mean(ours.predict(X) < 0) == pytest.approx(nu, abs=0.05)


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.677, 0.8])
@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize(("scale", "lam"), [(1.0, 1e-2), (1e-5, 1.0), (300.0, 1e-8), (5e6, 1e-5)])
def test_an_optimum_of_0_is_certified(scale, lam, d, nu):
    rng = np.random.default_rng(20 + d)
    X = rng.normal(size=(50, d))
    X = scale * (X - X.mean(axis=0))  # in a sample around the origin no row is novel
    for method in bmrm.linear.solvers.settings.SOLVERS:
        result = bmrm.solve(X, loss="novelty", nu=nu, lam=lam, tol=1e-6, solver=method)
        assert result.status == "converged"
        assert result.lower_bound <= min(0.0, result.objective)
        assert result.gap <= 1e-6


def test_novelty_of_rows_of_any_size():
    rng = np.random.default_rng(31)
    X = rng.normal(size=(50, 20))
    unit = bmrm.solve(X + 1.0, loss="novelty", nu=0.5, lam=1.0, tol=1e-4)
    for scale in (1e-6, 1e6):
        result = bmrm.solve(scale * (X + 1.0), loss="novelty", nu=0.5, lam=1e-2, tol=1e-4)
        assert result.status == "converged"
        assert result.objective == pytest.approx(unit.objective * scale**2 / 1e-2, rel=2e-4)


def test_user_loss_equals_the_built_in_one():
    X, y = problem(BY_NAME["huber"], seed=8)
    huber = losses.CallableLoss(
        lambda u, v: (formula(BY_NAME["huber"], u, v), np.clip(u - v, -0.7, 0.7)), name="my huber"
    )
    mine = bmrm.solve(X, y, huber, lam=1e-2, tol=1e-8, cuts_per_pass=3, fit_intercept=False)
    built_in = bmrm.solve(X, y, "huber", delta=0.7, lam=1e-2, tol=1e-8)
    assert mine.objective == pytest.approx(built_in.objective, rel=1e-7)


def test_path_reuses_the_cuts():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(500, 40))
    y = np.sign(X @ rng.normal(size=40) + 2 * rng.normal(size=500))
    lams = [1e-3, 4e-3, 2e-3]
    along = bmrm.path(X, y, lams=lams, tol=1e-4)
    alone = [bmrm.solve(X, y, lam=lam, tol=1e-4) for lam in lams]
    assert [r.lam for r in along] == lams
    assert all(r.status == "converged" for r in along)
    for a, b in zip(along, alone, strict=True):
        assert a.lower_bound <= b.objective * (1 + 1e-12)
        assert b.lower_bound <= a.objective * (1 + 1e-12)
    assert sum(r.n_iter for r in along) < sum(r.n_iter for r in alone)


def test_warm_starts():
    X, y = problem(BY_NAME["logistic"], seed=11)
    data = bmrm.Dataset(X, y)
    intercept = {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0}
    cold = bmrm.solve(data, loss="logistic", lam=1e-3, tol=1e-6, **intercept)
    again = bmrm.solve(data, loss="logistic", lam=1e-3, tol=1e-6, warm_start=cold, **intercept)
    assert again.n_iter <= 2 < cold.n_iter
    plain = bmrm.solve(X, y, "logistic", lam=1e-3, tol=1e-6)
    from_weights = bmrm.solve(X, y, "logistic", lam=1e-3, tol=1e-6, warm_start=plain.w)
    assert from_weights.n_iter < plain.n_iter
    from_model = bmrm.solve(
        data, loss="logistic", lam=1e-3, tol=1e-6, warm_start=bmrm.Model.from_result(cold), **intercept
    )
    assert from_model.n_iter < cold.n_iter
    with pytest.raises(DataError, match="expected a Result, a Model or weights"):
        bmrm.solve(X, y, warm_start="cold.model")
    with pytest.raises(DataError, match=r"shape \(2,\), expected \(5,\)"):
        bmrm.solve(X, y, warm_start=np.zeros(2))


@pytest.mark.parametrize("other", ["data", "labels", "loss", "parameter", "intercept"])
def test_cuts_of_another_problem_are_not_trusted(other):
    X, y = problem(BY_NAME["quantile"], seed=15)
    data = bmrm.Dataset(X, y)
    options = {"loss": "quantile", "tau": 0.5, "fit_intercept": False}
    known = bmrm.solve(data, lam=1e-3, tol=1e-6, **options)
    if other == "data":
        data = bmrm.Dataset(np.flip(X, 0), y)
    elif other == "labels":
        data = bmrm.Dataset(X, 3 * y)
    elif other == "loss":
        options = {"loss": "squared"}
    elif other == "parameter":
        options["tau"] = 0.9
    else:
        options["fit_intercept"] = True
    cold = bmrm.solve(data, lam=1e-3, tol=1e-6, **options)
    warm = bmrm.solve(data, lam=1e-3, tol=1e-6, warm_start=known, **options)
    assert warm.bundle is not known.bundle
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
    assert warm.lower_bound <= cold.objective


def test_a_loss_that_is_not_convex_is_found_out():
    X, y = problem(BY_NAME["squared"], seed=16)
    wrong = losses.CallableLoss(lambda u, v: (np.sin(3 * u) + 0.1 * (u - v) ** 2, u + 5.0), name="sine")
    with pytest.raises(BmrmError, match="sine is not convex"):
        bmrm.solve(X, y, wrong, lam=1e-3, tol=1e-9)


def test_many_kinks_in_few_features_reach_a_small_gap():
    rng = np.random.default_rng(17)
    X = rng.normal(size=(400, 8))
    y = X @ rng.normal(size=8) + rng.standard_t(2, 400)
    for options in ({}, {"solver": "bmrm"}, {"cuts_per_pass": 16}):
        result = bmrm.solve(X, y, "absolute", lam=1e-2, tol=1e-9, **options)
        assert result.status == "converged"


def test_limits_and_callbacks_keep_the_best():
    rng = np.random.default_rng(12)
    X, y = rng.normal(size=(300, 50)), rng.choice([-1.0, 1.0], 300)
    limited = bmrm.solve(X, y, lam=1e-5, max_iter=3)
    assert (limited.status, limited.n_iter) == ("max_iter", 3)
    hurried = bmrm.solve(X, y, lam=1e-5, max_time=1e-9)
    assert (hurried.status, hurried.lower_bound, hurried.gap) == ("max_time", 0.0, hurried.objective)
    assert bmrm.solve(X, y, lam=1e-5, max_iter=1).lower_bound >= 0.0
    assert bmrm.solve(X, loss="novelty", lam=1e-5, max_time=1e-9).lower_bound == -np.inf
    seen = []

    def stop(state):
        seen.append(state)
        return state.iteration == 4

    stopped = bmrm.solve(X, y, lam=1e-5, callback=stop)
    assert (stopped.status, stopped.n_iter) == ("interrupted", 4)
    assert [s.iteration for s in seen] == [1, 2, 3, 4]
    np.testing.assert_array_equal(seen[-1].best()[0], stopped.w)
    assert stopped.objective == pytest.approx(min(s.objective for s in seen), rel=1e-14)


def test_verbose_prints_a_line_per_iteration(capsys):
    X, y = problem(BY_NAME["hinge"])
    result = bmrm.solve(X, y, verbose=1)
    assert len(capsys.readouterr().out.splitlines()) == result.n_iter


def test_predictions():
    X, y = problem(BY_NAME["hinge"], seed=14)
    named = bmrm.solve(X, np.where(y > 0, 4, 2), lam=1e-2)
    assert set(named.predict(X)) <= {2.0, 4.0}
    np.testing.assert_array_equal(named.predict(sp.csr_matrix(X)), named.predict(X))
    with pytest.raises(DataError, match="found 2 features, expected"):
        named.predict(X[:, :2])
    counts = np.random.default_rng(0).poisson(2, len(y))
    assert np.all(bmrm.solve(X, counts, "poisson", lam=1e-2).predict(X) > 0)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"lam": 0.0}, ParameterError, "lam: found 0"),
        ({"lam": float("nan")}, ParameterError, "lam: found nan"),
        ({"C": -1.0}, ParameterError, "C: found -1"),
        ({"C": 1e-320}, ParameterError, "expected a finite lam"),
        (
            {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 1e200},
            ParameterError,
            "intercept_scaling: found 1e\\+200",
        ),
        ({"tol": 1e-20}, ParameterError, "at least 1e-13"),
        ({"tol": 0.0, "tol_kind": "abs"}, ParameterError, "tol: found 0"),
        ({"tol_kind": "relative"}, ParameterError, "relative"),
        ({"solver": "sgd"}, ParameterError, "sgd"),
        ({"reg": "l0"}, ParameterError, "l0"),
        ({"loss": "hing"}, ParameterError, "hing"),
        ({"max_iter": 0}, ParameterError, "max_iter"),
        ({"max_time": 0}, ParameterError, "max_time"),
        ({"cuts_per_pass": 0}, ParameterError, "cuts_per_pass"),
        ({"cuts_per_pass": 2, "fit_intercept": True}, ParameterError, "one cut per pass"),
        ({"max_cuts": 2}, ParameterError, "max_cuts: found 2"),
        ({"device": "gpu"}, ParameterError, "gpu"),
        ({"device": None}, ParameterError, "device: found None"),
        ({"dtype": "int8"}, ParameterError, "int8"),
        ({"dtype": "flaot64"}, ParameterError, "flaot64"),
        ({"threads": 0}, ParameterError, "threads"),
        (
            {"loss": "novelty", "fit_intercept": True, "penalize_intercept": True},
            ParameterError,
            "cannot be penalised",
        ),
        ({"penalize_intercept": True}, ParameterError, "needs fit_intercept"),
        ({"fit_intercept": True, "intercept_scaling": 0.0}, ParameterError, "intercept_scaling: found 0"),
        ({"sample_weight": [1.0]}, DataError, r"shape \(1,\), expected \(60,\)"),
        ({"sample_weight": [-1.0] * 60}, DataError, "row 1 has -1"),
        ({"sample_weight": [0.0] * 60}, DataError, "all are 0"),
        ({"sample_weight": [1e308] * 60}, DataError, "sum is inf, too large"),
        ({"sample_weight": [1e-320] * 60}, DataError, "too small"),
        ({"class_weight": {1.0: 1e308}}, DataError, "sum is inf, too large"),
        ({"class_weight": {1.0: 0.0}}, ParameterError, "expected a positive number"),
        ({"class_weight": {"yes": 1.0}}, ParameterError, "found label 'yes', expected labels such as"),
        ({"class_weight": {1.0: "2"}}, ParameterError, "label 1 has '2', expected a positive number"),
        ({"class_weight": [1.0, 2.0]}, ParameterError, "expected 'balanced' or one weight per label"),
        ({"class_weight": "even"}, ParameterError, "even"),
        ({"lam": 1e250}, ParameterError, "lam: found 1e\\+250, expected a number from 1e-200"),
        ({"sample_weight": ["one"] * 60}, DataError, "sample weights: .*expected numbers"),
        (
            {"sample_weight": np.full(60, 1j)},
            DataError,
            "sample weights: found complex numbers, expected numbers",
        ),
        ({"feature_lambda": ["one"]}, DataError, "feature_lambda: .*expected numbers"),
        ({"prior": ["one"]}, DataError, "prior: .*expected numbers"),
        ({"loss": "quantile", "tau": "one"}, ParameterError, "tau: found 'one', expected a number"),
        ({"cuts_per_pass": 1.5}, ParameterError, "cuts_per_pass: found 1.5"),
        ({"cuts_per_pass": None}, ParameterError, "cuts_per_pass: found None"),
    ],
)
def test_bad_arguments(options, error, text):
    X, y = problem(BY_NAME["hinge"])
    with pytest.raises(error, match=text) as caught:
        bmrm.solve(X, y, **options)
    assert "\n" not in str(caught.value)


def test_what_a_dataset_holds_is_not_given_again():
    X, y = problem(BY_NAME["hinge"])
    for name, value in {"y": y, "device": "cpu", "threads": 1, "sample_weight": y * y}.items():
        with pytest.raises(ParameterError, match=f"{name}: give it to the Dataset"):
            bmrm.solve(bmrm.Dataset(X, y), **{name: value})


@pytest.mark.parametrize(
    ("X", "y", "text"),
    [
        (np.eye(3), [1, 2, 3], "found labels 1, 2 and 3, expected two classes"),
        (np.eye(3), [1, 1, 1], r"one label \(1\)"),
        (np.eye(3), [1, -1], r"shape \(2,\), expected \(3,\)"),
        (np.eye(3), [1, -1, np.nan], "row 3 has nan"),
        (np.eye(3), ["a", "b", "c"], "found labels 'a', 'b' and 'c', expected two classes"),
        (np.eye(3), None, "found no labels"),
        (np.eye(3), [(1.0,), (2.0, 3.0), ()], "several labels per row"),
        (np.array([[1.0, np.inf], [0, 1]]), [1, -1], "inf is not finite"),
        (np.zeros((0, 2)), [], "0 rows"),
        (np.zeros(3), [1, -1, 1], "expected a matrix"),
        (np.array([["x"]]), [1], "expected a matrix of real numbers"),
        (np.ma.masked_less(np.eye(2), 0.5), [1, -1], "X: found masked values"),
        (np.eye(3), np.ma.masked_less([1, -1, 1], 0), "labels: found masked values"),
        (sp.csr_array([[1.0, np.nan], [0.0, 1.0]]), [1, -1], "X: stored value 2 has nan"),
        (sp.csr_array([[1.0, 1j], [0.0, 1.0]]), [1, -1], "X: found values of type complex128"),
    ],
)
def test_bad_data(X, y, text):
    with pytest.raises(DataError, match=text):
        bmrm.solve(X, y)


@pytest.mark.parametrize("reg", ["l2", "l1"])
def test_an_objective_that_overflows_is_no_solution(reg):
    X, y = problem(BY_NAME["squared"])
    with pytest.raises(DataError, match="loss squared: the objective is inf at the first"):
        bmrm.solve(X, 1e200 * y, "squared", reg=reg)
    # From a warm start that overflows the solve goes back to zero.
    cold, warm = (
        bmrm.solve(X, np.sign(y), "exponential", reg=reg, warm_start=start)
        for start in (None, np.full(X.shape[1], 1e5))
    )
    assert warm.status == "converged"
    assert warm.objective == pytest.approx(cold.objective, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.longdouble])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array])
def test_numbers_of_any_type(form, dtype):
    X = form(np.array([[1, 0], [0, 1], [1, 1]], dtype))
    data = bmrm.Dataset(X, [1, -1, 1])
    values = 4 if sp.issparse(X) else 6
    assert repr(data) == f"<Dataset: 3 rows, 2 columns, {values} stored values, cpu>"
    whole = bmrm.solve(X.toarray().astype(float) if sp.issparse(X) else X.astype(float), [1, -1, 1])
    assert bmrm.solve(data).w.tolist() == whole.w.tolist()


def test_known_optima_of_real_data(real_data):
    X, y = bmrm.load_svmlight(real_data / "svm" / "a9a.gz")
    wanted = {
        ("hinge", 1e-3): 0.3565243,
        ("squared_hinge", 1e-3): 0.4238882,
        ("squared_hinge", 1e-5): 0.4219858,
        ("logistic", 1e-3): 0.3333408,
        ("logistic", 1e-5): 0.3229331,
    }
    data = bmrm.Dataset(X, y)
    assert bmrm.solve(data, loss="logistic", lam=1e-5, tol=1e-4, tol_kind="abs").n_iter <= 8
    for (loss, lam), value in wanted.items():
        result = bmrm.solve(data, loss=loss, lam=lam, tol=1e-7)
        assert result.status == "converged"
        assert result.objective == pytest.approx(value, abs=1.5e-7)
        assert result.lower_bound <= value + 1e-7


@pytest.mark.parametrize("scale", [3.0, 30.0, 1e6])
def test_a_warm_start_at_which_exp_overflows_is_not_used(scale):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 8))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0.0, 1.0, -1.0)
    cold = bmrm.solve(X, y, "exponential", lam=1e-3)
    warm = bmrm.solve(X, y, "exponential", lam=1e-3, warm_start=scale * rng.standard_normal(8))
    assert warm.status == "converged"
    assert warm.objective == pytest.approx(cold.objective, rel=1e-3)
    assert warm.n_iter <= 3 * cold.n_iter + 10


def test_cuts_at_which_exp_overflows_are_not_kept():
    rng = np.random.default_rng(0)
    X = 3.0 * rng.standard_normal((100, 300))
    z = X @ rng.standard_normal(300)
    y = rng.poisson(np.exp(np.clip(z / np.abs(z).max() + rng.standard_normal(100), -3, 3))).astype(float)
    strong = bmrm.solve(X, y, "poisson", lam=1e-3)
    weak = bmrm.solve(X, y, "poisson", lam=1e-5, tol=1e-6, warm_start=strong, max_iter=600)
    assert weak.status == "converged"


def test_margins_that_threads_move_are_the_same(monkeypatch):
    X, y = problem(BY_NAME["hinge"])
    here = bmrm.solve(X, y, lam=1e-2, tol=1e-6, device="cpu")
    monkeypatch.setattr(host_passes, "MIN_THREADED_MARGINS", 0)
    there = bmrm.solve(X, y, lam=1e-2, tol=1e-6, device="cpu")
    assert there.status == "converged"
    assert there.objective == pytest.approx(here.objective, rel=1e-9)


@pytest.mark.parametrize("seed", [77, 246])
def test_intercepts_of_margins_that_lie_far_apart(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((445, 68), density=0.1, rng=rng, data_sampler=rng.standard_normal).tocsr()
    X = sp.csr_array(sp.diags_array(np.exp(2 * rng.standard_normal(445))) @ X)
    y = np.where(X @ rng.standard_normal(68) + 0.5 * rng.standard_normal(445) > 0, 1.0, -1.0)
    options = {"l1_ratio": 0.9, "feature_lambda": rng.random(68) + 1e-3, "fit_intercept": True}
    result = bmrm.solve(X, y, "exponential", "elastic_net", 1e-4, tol=1e-4, **options)
    assert result.status == "converged"


def test_an_intercept_is_found_after_a_point_at_which_sums_overflow():
    X, y = np.array([[1.0], [2.0], [-1.0], [-2.0]]), np.array([1.0, -1.0, 1.0, -1.0])
    data, loss = bmrm.Dataset(X, y), losses.get("exponential")
    # A row of weight 0 takes no part, even if its loss is inf.
    steps = host_passes.HostPasses(data.matrix, loss.risk(y, np.array([1.0, 1.0, 0.0, 1.0]), 1 / 3, 1))
    objective = Objective(data.matrix, steps, loss, L2(0.1), profile=True, blocks=1)
    best = objective.evaluate(np.array([0.1]))
    far = objective.line(best, np.array([1e4])).at(1.0, 1e-6)
    assert not abs(far.objective) < 1e100
    objective._bias = -2000.0
    assert objective.evaluate_at(best.w, best.margins, 1e-9).intercept == pytest.approx(
        best.intercept, abs=1e-4
    )


def test_a_prior_mean_from_which_nothing_can_be_searched():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 5)) * 100.0
    y = np.where(X[:, 0] + 30.0 * rng.standard_normal(60) > 0, 1.0, -1.0)
    result = bmrm.solve(X, y, "exponential", lam=1e-3, prior=-np.ones(5), tol=1e-3)
    assert result.status == "converged"
    assert result.objective < 10.0


@pytest.mark.parametrize("big", [1e160, -1.79769313486e308])
@pytest.mark.parametrize(
    "loss", ["hinge", "logistic", "squared", "pairwise", "roc_area", "multiclass", "novelty"]
)
def test_a_value_that_is_too_large_is_named(loss, big):
    X = np.random.default_rng(0).standard_normal((30, 3))
    y, groups = np.where(X[:, 0] > 0, 1.0, -1.0), np.zeros(30) if loss == "pairwise" else None
    X[4, 1] = big
    expected = re.escape(f"X: row 5 has {big:g} in feature 2, expected an absolute value of at most 1e+150")
    for data in (X, sp.csr_matrix(X)):
        with np.errstate(over="ignore", invalid="ignore"), pytest.raises(DataError, match=expected):
            bmrm.solve(data, y, loss=loss, lam=1e-2, groups=groups)
    zero_based = sp.csr_matrix(X)
    zero_based.zero_based = True
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(DataError, match="in feature 1"):
        bmrm.solve(zero_based, y, loss=loss, lam=1e-2, groups=groups)


def test_a_label_that_is_too_large_is_named():
    X = np.random.default_rng(0).standard_normal((30, 3))
    y = X[:, 0].copy()
    y[3] = 1e200
    with (
        np.errstate(over="ignore"),
        pytest.raises(DataError, match=r"labels: row 4 has 1e\+200, expected an absolute value"),
    ):
        bmrm.solve(X, y, "squared")
