"""Interior-point steps: their equations, their cuts, the optimum they end at, and when they are taken."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from loss_cases import CASES, labels_for
from reference_solvers import optimum

import bmrm
from bmrm import losses
from bmrm.errors import DeviceMemoryError
from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.intercept import intercept_of, operator_of
from bmrm.linear.objective.objective import Objective
from bmrm.linear.regularizers import L2
from bmrm.linear.solvers import interior_point as interior
from bmrm.linear.solvers import steps as kinds_of_step
from bmrm.linear.solvers.interior_point import InteriorPoint
from bmrm.linear.solvers.interior_rule import WINDOW_PASSES, InteriorRule, may_step

KINKED = [loss for loss in CASES if loss.kinked]
LAM = 1e-3


def data(loss, m=90, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d))
    if loss.task == "binary":
        return X, np.where(X @ rng.normal(size=d) + rng.normal(size=m) > 0.3, 1.0, -1.0)
    return X, X @ rng.normal(size=d) + labels_for(loss, rng, m)


def start(loss, *, profile=False, blocks=3, weights=None, reg=None):
    """An interior point, its objective and its data."""
    X, y = data(loss)
    matrix = bmrm.Dataset(X, y).matrix
    operator = operator_of(matrix, loss, 1, intercept_of(loss, fit=profile, penalize=False, scaling=1.0))
    scale = 1.0 / (len(y) if weights is None else weights.sum())
    steps = HostPasses(operator, loss.risk(y, weights, scale, 1))
    objective = Objective(operator, steps, loss, reg or L2(LAM), profile=profile, blocks=blocks)
    assert may_step(operator, loss, objective.reg)
    assert steps.interior_costs(objective) is not None
    at = objective.evaluate(np.random.default_rng(1).normal(size=X.shape[1]))
    return InteriorPoint(objective, at, at.objective), objective, X, y


def risk(loss, weights, u, y):
    values = loss.value(u, y)
    return values.mean() if weights is None else float(weights @ values) / weights.sum()


WEIGHTS = np.random.default_rng(2).random(90) * (np.arange(90) % 5 > 0)


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_pieces_are_the_loss(loss, weights):
    _, y = data(loss)
    slope, places, jumps = loss.risk(y, weights, 0.5, 1).pieces()
    rng = np.random.default_rng(3)
    for u in (rng.normal(size=90), 1e3 * rng.normal(size=90), places[0], places[-1]):
        found = slope * (u - places[0]) + (jumps * np.maximum(0.0, u - places)).sum(axis=0)
        wanted = 0.5 * (1.0 if weights is None else weights) * loss.value(u, y)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_other_losses_have_no_pieces():
    for name in ("logistic", "novelty"):
        with pytest.raises(ValueError, match="no kinks"):
            losses.get(name).risk(np.ones(3), None, 1.0, 1).pieces()


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("profile", [False, True])
def test_a_direction_solves_the_linear_equations(loss, profile):
    prior, strengths = np.linspace(-1.0, 1.0, 12), np.linspace(0.5, 2.0, 12)
    point, objective, X, _ = start(loss, profile=profile, reg=L2(LAM, strengths, prior))
    for _ in range(3):
        system, rows = point._system(), point._rows
        wanted_excess, wanted_slack = np.full((2, *rows.sigma.shape), 0.01)
        move = point._move(system, wanted_excess, wanted_slack)
        np.testing.assert_allclose(move.margins, X @ move.w, rtol=1e-9, atol=1e-9)
        # The products, to first order.
        np.testing.assert_allclose(
            rows.excess * rows.rest + move.excess * rows.rest - rows.excess * move.sigma, wanted_excess
        )
        np.testing.assert_allclose(
            rows.slack * rows.sigma + move.slack * rows.sigma + rows.slack * move.sigma, wanted_slack
        )
        # Distances, and the slopes of J in w and in the intercept.
        far = point._distances() + move.margins + move.intercept
        np.testing.assert_allclose(far, rows.excess + move.excess - rows.slack - move.slack, atol=1e-8)
        r = point._slopes(rows.sigma + move.sigma, rows.rest - move.sigma)
        slope = objective.reg.smooth_gradient(point.w + move.w) + X.T @ r
        np.testing.assert_allclose(slope, 0.0, atol=1e-8)
        assert not profile or abs(r.sum()) < 1e-9
        point.step()


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("profile", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_cuts_bound_the_risk_at_every_step(loss, profile, weights):
    point, _, X, y = start(loss, profile=profile, weights=weights)
    rng = np.random.default_rng(4)
    for _ in range(8):
        assert point.step()
        assert (min(rows.min() for rows in point._rows)) > 0.0
        cut = point.cut()
        gradient, offset = cut.planes.gradients.sum(axis=0), cut.offsets.sum()
        assert cut.planes.gradients.shape == (3, 12)
        for size in (0.0, 0.1, 1.0, 10.0):
            w = point.w + size * rng.normal(size=12)
            shifts = (point.intercept, -3.0, 5.0) if profile else (0.0,)
            for b in shifts:
                value = risk(loss, weights, X @ w + b, y)
                assert gradient @ w + offset <= value + 1e-11 * max(1.0, value)


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("mode", ["plain", "weighted", "intercept", "penalised", "sparse", "floats"])
def test_optimum(loss, mode, inside):
    X, y = data(loss)
    weights = WEIGHTS if mode == "weighted" else None
    options = {"fit_intercept": mode in ("intercept", "penalised"), "penalize_intercept": mode == "penalised"}
    given = {"sparse": sp.csr_array(X), "floats": X.astype(np.float32)}.get(mode, X)
    X = X.astype(np.float32).astype(np.float64) if mode == "floats" else X
    result = bmrm.solve(given, y, loss, lam=LAM, tol=1e-8, sample_weight=weights, **options)
    against = np.hstack([X, np.ones((len(y), 1))]) if mode == "penalised" else X
    wanted = optimum(loss, against, y, LAM, weights, mode == "intercept")
    assert result.status == "converged"
    assert 5 <= len(inside) <= 40
    assert result.n_iter <= len(inside) + 3
    assert result.lower_bound <= wanted * (1.0 + 1e-6) + 1e-10
    assert result.objective == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("rows", [2, 3, 5])
@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.name)
def test_few_rows(loss, rows, inside):
    X, y = data(loss, m=rows, d=3)
    y = np.where(np.arange(rows) % 2, 1.0, -1.0) if loss.task == "binary" else y
    for lam in (1e-4, 1.0):
        result = bmrm.solve(X, y, loss, lam=lam, tol=1e-6)
        wanted = optimum(loss, X, y, lam, None, False)
        assert result.status == "converged"
        assert result.objective == pytest.approx(wanted, rel=2e-6, abs=1e-11)


@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"feature_lambda": "some"}], ids=str)
def test_steps_and_planes_find_the_same(options, monkeypatch, inside):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 60)) * 10.0 ** rng.uniform(-1.0, 1.0, 60)
    y = np.sign(X @ rng.normal(size=60) + 0.5 * X.std() * rng.normal(size=600))
    options = {"lam": 1e-4, "tol": 1e-6, "prior": rng.normal(size=60), **options}
    if "feature_lambda" in options:
        options["feature_lambda"] = rng.uniform(0.5, 2.0, 60)
    steps = bmrm.solve(X, y, **options)
    monkeypatch.setattr(kinds_of_step, "may_step", lambda *_: False)
    planes = bmrm.solve(X, y, **options)
    assert steps.status == planes.status == "converged"
    assert steps.lower_bound <= planes.objective
    assert planes.lower_bound <= steps.objective
    assert 5 <= len(inside) <= 25


def test_few_rows_for_many_features_end():
    """Planes alone take hundreds of passes here, and thousands with a free intercept."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1000, 150))
    y = np.sign(X @ rng.normal(size=150) + 0.5 * X.std() * rng.normal(size=1000))
    for fit in (False, True):
        result = bmrm.solve(X, y, lam=1e-4, tol=1e-6, fit_intercept=fit)
        assert result.status == "converged"
        assert result.n_iter <= 60
        assert result.timings["newton"] > 0.0


def on_the_host(rows, columns, length, blocks):
    """The rule for a problem of this size, and the number of cuts per pass."""
    work = rows * (columns**2 / 16 if length == columns else length**2 / 2)
    operator = SimpleNamespace(shape=(rows, columns), nnz=rows * length, weighted_gram_work=work)
    costs = HostPasses.__new__(HostPasses).interior_costs(SimpleNamespace(operator=operator, profile=False))
    return lambda: InteriorRule(costs, columns, blocks), blocks


def on_a_gpu(rows, columns):
    passes = GpuPasses.__new__(GpuPasses)
    matrix = SimpleNamespace(
        vector_dtype=np.dtype(np.float32), is_dense=True, weighted_gram_bytes=0, bytes_left=1
    )
    passes.problem, passes._rows, passes.cuts = SimpleNamespace(matrix=matrix), list, None
    operator = SimpleNamespace(shape=(rows, columns), nnz=rows * columns)
    costs = passes.interior_costs(SimpleNamespace(operator=operator, profile=False))
    return lambda: InteriorRule(costs, columns, 1), 1


def passes_outside(problem, gaps, tol=1e-5):
    """Passes of planes before steps pay; None if they never do."""
    make, blocks = problem
    rule = make()
    for k, gap in enumerate(gaps):
        if rule.pays(gap, tol, 2 * blocks + k * blocks):
            return k + 1
    return None


def test_when_steps_pay():
    slow, quick = 0.99 ** np.arange(1000), 0.5 ** np.arange(20)
    full, text = on_the_host(20_000, 500, 500, 16), on_the_host(200_000, 4000, 76, 16)
    assert WINDOW_PASSES < passes_outside(full, slow) < 60
    assert passes_outside(full, quick) is None
    assert passes_outside(text, slow[:100]) is None
    # A gap that does not move says nothing before planes have had their share.
    assert WINDOW_PASSES < passes_outside(full, np.ones(100)) < 60
    assert passes_outside(text, np.ones(100)) is None
    assert passes_outside(full, np.full(1000, np.inf)) is None


def test_when_steps_pay_with_a_gpu():
    slow, quick = 0.999 ** np.arange(3000), 0.5 ** np.arange(20)
    assert WINDOW_PASSES < passes_outside(on_a_gpu(100_000, 1000), slow) < 500
    assert WINDOW_PASSES < passes_outside(on_a_gpu(100_000, 4000), slow) < 1500
    assert passes_outside(on_a_gpu(100_000, 1000), quick) is None


def test_problems_without_interior_point_steps():
    X, y = data(KINKED[0])
    options = {"tol": 1e-6, "lam": LAM}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InteriorRule, "pays", lambda *_: True)
        patch.setattr(InteriorPoint, "step", lambda self: pytest.fail("a step was taken"))
        for loss, more in [
            ("logistic", {}),
            ("hinge", {"reg": "elastic_net"}),
            ("hinge", {"solver": "bmrm", "max_iter": 20}),
            ("roc_area", {}),
        ]:
            bmrm.solve(X, y, loss, **options, **more)


def test_no_plane_that_bounds_the_risk_for_one_intercept_only():
    point, *_ = start(KINKED[0], profile=True)
    assert point.step()
    assert point.cut() is not None
    point._rows.sigma[:], point._rows.rest[:] = 1e-200, 1.0
    point._rows.sigma[0, 0], point._rows.rest[0, 0] = 0.5, 0.5
    assert point.cut() is None


def test_no_step_without_a_library_for_the_hessian(monkeypatch, inside):
    monkeypatch.setattr(HostPasses, "has_hessian", False)
    X, y = data(KINKED[0])
    assert bmrm.solve(X, y, lam=LAM, tol=1e-4).status == "converged"
    assert not inside


@pytest.mark.parametrize("failing", ["system", "memory", "nan", "step", "cut", "no cut"])
def test_steps_of_no_use_leave_the_planes(failing, monkeypatch, inside):
    X, y = data(KINKED[0])
    if failing == "system":  # not positive definite
        monkeypatch.setattr(InteriorPoint, "_system", lambda _: None)
    elif failing == "memory":  # taken by cuts meanwhile
        made = InteriorPoint.__init__

        def out_of_memory(*_):
            raise DeviceMemoryError("none is left")

        def without(self, *arguments):
            made(self, *arguments)
            self._operator = SimpleNamespace(weighted_gram=out_of_memory)

        monkeypatch.setattr(InteriorPoint, "__init__", without)
    elif failing == "nan":
        monkeypatch.setattr(InteriorPoint, "_pulled", lambda self, _: np.full(len(self.w), np.nan))
    elif failing == "step":  # all too short
        monkeypatch.setattr(InteriorPoint, "_lengths", lambda *_: (1e-9, 1e-9))
    elif failing == "no cut":
        monkeypatch.setattr(InteriorPoint, "cut", lambda _: None)
    else:  # not finite
        cut = InteriorPoint.cut
        monkeypatch.setattr(
            InteriorPoint, "cut", lambda self: cut(self)._replace(offsets=np.array([np.nan]), risk=np.nan)
        )
    result = bmrm.solve(X, y, lam=LAM, tol=1e-6, cuts_per_pass=1, fit_intercept=failing == "nan")
    assert result.status == "converged"
    assert len(inside) == (interior.MAX_SHORT_STEPS if failing == "step" else 1)
    assert result.n_iter > len(inside) + 3


def test_the_same_bits_again():
    X, y = data(KINKED[0], m=400, d=50)
    one, two = (bmrm.solve(X, y, lam=1e-5, tol=1e-7) for _ in range(2))
    np.testing.assert_array_equal(one.w, two.w)
    assert one.lower_bound == two.lower_bound


@pytest.mark.parametrize("mu", [1e-3, 1e-18, 1e-200])
@pytest.mark.parametrize("x", [-1e10, -1.0, -1e-3, 0.0, 1e-3, 1.0, 1e10])
def test_rows_of_the_path_are_known_to_all_digits(x, mu):
    """Also rows with hardly anything left on one side: a rest that rounds to 0 would be divided by."""
    rows = interior._central(np.array([x]), mu)
    assert rows.sigma + rows.rest == pytest.approx(1.0, rel=1e-15)
    assert rows.excess - rows.slack == pytest.approx(x, rel=1e-14)
    for product in (rows.excess * rows.rest, rows.slack * rows.sigma):
        assert product == pytest.approx(mu, rel=1e-14, abs=0.0)


def test_slopes_far_below_their_jumps_are_known():
    """With a tiny lam hardly any of a row's jump is taken, or left: a sum with it would be rounding."""
    point, *_ = start(losses.get("hinge"))
    tiny = np.full(point._rows.sigma.shape, 1e-30)
    for sigma, rest in ((tiny, 1.0 - tiny), (1.0 - tiny, tiny)):
        r, weights = point._slopes(sigma, rest), point._pieces.weights[0]
        np.testing.assert_allclose(np.minimum(np.abs(r), weights - np.abs(r)) <= 1e-15, True)
        near = np.abs(r) < 0.5 * weights
        assert near.any()
        np.testing.assert_allclose(np.abs(r[near]), 1e-30 * weights[near], rtol=1e-12)
        np.testing.assert_allclose(point._values(sigma, rest)[near], 1e-30 * weights[near], rtol=1e-12)
