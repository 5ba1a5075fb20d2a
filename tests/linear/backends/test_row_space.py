"""Solves in the space of rows, against the same solves in that of columns, on the CPU and on a GPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bmrm
from bmrm.linear.backends.host.row_space import RowCuts, RowPasses, inner
from bmrm.losses import get
from bmrm.matrix.gpu.devices import gpu

no_gpu = pytest.mark.skipif(gpu() is None, reason="there is no CUDA device")
LAM = 0.5
DEVICES = ["cpu", pytest.param("cuda", marks=no_gpu)]


def problem(m=60, d=500, seed=0):
    rng = np.random.default_rng(seed)
    A = sp.random(m, d, 0.1, "csr", rng=rng, dtype=np.float64)
    A.data = rng.standard_normal(A.nnz)
    return A, np.where(A @ rng.standard_normal(d) + rng.standard_normal(m) > 0, 1.0, -1.0)


def both(monkeypatch, *arguments, **options):
    """Solve in the space of rows and in that of columns."""
    rows = bmrm.solve(*arguments, **options)
    monkeypatch.setattr("bmrm.linear.plan.row_space_pays", lambda rows, columns: False)
    columns = bmrm.solve(*arguments, **options)
    monkeypatch.undo()
    assert "RowCuts" in type(rows.bundle.store).__name__
    assert "RowCuts" not in type(columns.bundle.store).__name__
    return rows, columns


def assert_same(rows, columns):
    """Each objective is above the other's bound, and the weights are near."""
    room = 1e-10 * abs(columns.objective)
    assert rows.status == columns.status == "converged"
    assert rows.objective >= columns.lower_bound - room
    assert columns.objective >= rows.lower_bound - room
    np.testing.assert_allclose(rows.w, columns.w, atol=1e-2 * np.abs(columns.w).max())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("hinge", {}),
        ("hinge", {"fit_intercept": True}),
        ("hinge", {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 3.0}),
        ("hinge", {"sample_weight": np.linspace(0.0, 2.0, 60)}),
        ("hinge", {"max_cuts": 25}),
        ("hinge", {"solver": "bmrm"}),
        ("absolute", {}),
        ("quantile", {"tau": 0.8}),
        ("epsilon_insensitive", {"fit_intercept": True}),
    ],
)
def test_the_answer_is_that_of_columns(monkeypatch, device, loss, options):
    A, y = problem()
    rows, columns = both(monkeypatch, A, y, loss, lam=LAM, tol=1e-6, device=device, **options)
    assert_same(rows, columns)
    # The certificate is that of the weights that are returned.
    weights = options.get("sample_weight")
    risk = rows.loss.risk(y, weights, 1.0 / (60 if weights is None else weights.sum()), 1)
    z = A @ rows.w + rows.intercept
    (value,), _ = risk.cut(z, z, 0.0, 0.0, np.array([0, 60]), np.empty(60))
    constant = rows.intercept / 3.0 if "intercept_scaling" in options else 0.0
    J = 0.5 * LAM * (rows.w @ rows.w + constant**2) + value
    assert pytest.approx(rows.objective, rel=1e-9) == J


def test_a_joint_loss(monkeypatch):
    A, y = problem()
    assert_same(*both(monkeypatch, A, y, "roc_area", lam=0.05, tol=1e-6, device="cpu"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"fit_intercept": True, "penalize_intercept": True}])
def test_any_start(monkeypatch, device, options):
    A, y = problem()
    where = {"lam": 0.05, "tol": 1e-6, "device": device, **options}
    w = np.random.default_rng(3).standard_normal(501 if options else 500)
    first = bmrm.solve(A, y, "hinge", lam=0.5, device=device, **options)
    assert_same(*both(monkeypatch, A, y, "hinge", warm_start=w, **where))
    assert_same(*both(monkeypatch, A, y, "hinge", warm_start=first, **where))


@pytest.mark.parametrize("device", DEVICES)
def test_a_path_continues_with_its_cuts(monkeypatch, device):
    A, y = problem()
    data = bmrm.Dataset(A, y, device=device, tol=1e-6)
    results = bmrm.path(data, lams=[0.5, 0.1, 0.02], loss="hinge", tol=1e-6)
    assert isinstance(results[2].bundle.store, RowCuts)
    for result in results:
        assert_same(*both(monkeypatch, data, loss="hinge", lam=result.lam, tol=1e-6))
        alone = bmrm.solve(data, loss="hinge", lam=result.lam, tol=1e-6)
        assert result.objective == pytest.approx(alone.objective, rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_cuts_bound_the_risk(device):
    A, y = problem()
    result = bmrm.solve(A, y, "hinge", lam=0.05, tol=1e-6, device=device)
    rng = np.random.default_rng(1)
    cuts = result.bundle.working()
    assert len(cuts.alpha)
    assert cuts.alpha.sum() == pytest.approx(1.0)
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.standard_normal(500)
        risk = np.maximum(0.0, 1.0 - y * (A @ w)).mean()
        assert (result.bundle.gradients @ w + result.bundle.offsets <= risk + 1e-9).all()
        assert (cuts.gradients @ w + cuts.offsets <= risk + 1e-9).all()


def test_a_checkpoint_resumes_in_the_space_of_columns(tmp_path):
    from bmrm.linear.models import checkpoint
    from bmrm.linear.warm_start import problem_of

    A, y = problem()
    first = bmrm.solve(A, y, "hinge", lam=0.05, tol=1e-6, max_iter=10)
    path = tmp_path / "half.ckpt"
    checkpoint.save(path, bmrm.Model.from_result(first), problem_of(first), first.bundle.working())
    second = bmrm.solve(A, y, "hinge", lam=0.05, tol=1e-6, warm_start=checkpoint.Checkpoint.load(path))
    assert not isinstance(second.bundle.store, RowCuts)
    assert second.status == "converged"
    assert second.lower_bound <= first.objective


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**31))
def test_inner_products_are_those_of_the_weights(m, d, seed):
    rng = np.random.default_rng(seed)
    A = sp.csr_array(rng.standard_normal((m, d)))
    operator = bmrm.Dataset(A, rng.choice([-1.0, 1.0], m), device="cpu").matrix
    risk = get("absolute").risk(rng.standard_normal(m), None, 1.0, 1)
    steps = RowPasses(operator, risk, RowCuts(operator, 1))
    start = rng.standard_normal(d)
    x = steps.weights(start)
    np.testing.assert_allclose(steps.array(x), start)
    steps.cuts.reserve(1)
    planes = steps.planes(steps.margins(x), None, 0.0, np.array([0, m]), x, x)
    steps.cuts.append(planes)
    end, _ = steps.cuts.minimise(bmrm.linear.regularizers.get("l2", 0.5, d), np.ones(1), x)
    between = steps.between(x, end, 0.3)
    for u in (x, end, between):
        np.testing.assert_allclose(steps.margins(u), A @ steps.array(u), atol=1e-10)
        np.testing.assert_allclose(steps.fresh(u)[0], u, atol=1e-10)
        for v in (x, end, between):
            assert inner(u, v) == pytest.approx(steps.array(u) @ steps.array(v), abs=1e-9)


def test_the_space_of_rows_is_for_few_rows():
    A, y = problem()
    square = bmrm.solve(A[:, :60], y, "hinge", lam=0.05)
    several = bmrm.solve(A, y, "hinge", lam=0.05, cuts_per_pass=4)
    sparse = bmrm.solve(A, y, "hinge", reg="elastic_net", lam=0.05)
    for result in (square, several, sparse):
        assert not isinstance(result.bundle.store, RowCuts)
