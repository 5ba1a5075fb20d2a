"""Accelerated ascent in the dual on a GPU: its steps, its cuts, the optimum, and when it is taken."""

import types

import numpy as np
import pytest
import scipy.sparse as sp
from devices import cuda, sized
from devices import gpu as on_gpu
from dual_problems import BEND, DUAL, ENTROPY, HIGH, LOW, PLACE, WIDTH, conjugate, data
from loss_cases import labels_for

import bmrm
from bmrm import losses
from bmrm.linear.backends.gpu import ascent as device_ascent
from bmrm.linear.intercept import Intercept
from bmrm.linear.memory import MatrixSize
from bmrm.linear.plan import Facts, gpu_ascent_pays
from bmrm.linear.regularizers import L2

LAM = 0.05
SHAPES = {"rows": (60, 200), "columns": (150, 90)}
"""Shapes of X for which points are kept as combinations of rows, or of columns."""


def matrix(X, dtype=np.float64):
    X = sp.csr_matrix(X).astype(dtype)
    return cuda.Matrix(X.indptr.astype(np.int64), X.indices, X.data, X.shape)


def best(f, r, u, square):
    """Maximiser r' of -f(r') + u (r' - r) - square (r' - r)^2 / 2; by bisection for the logistic loss."""
    slope = square * r + u - f[:, PLACE]
    bends = square + f[:, BEND]
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.maximum(np.abs(slope) - f[:, WIDTH], 0.0) / bends
    to = np.where(bends > 0.0, np.copysign(size, slope), np.where(slope > 0.0, f[:, HIGH], f[:, LOW]))
    to = np.clip(to, f[:, LOW], f[:, HIGH])
    some = f[:, ENTROPY] > 0.0
    low, high = f[some, LOW].copy(), f[some, HIGH].copy()
    sign, s = np.where(low < 0.0, -1.0, 1.0), f[some, ENTROPY]
    for _ in range(200):
        mid = 0.5 * (low + high)
        share = np.abs(mid) / s
        rises = u[some] - square[some] * (mid - r[some]) > sign * np.log(share / (1.0 - share))
        low, high = np.where(rises, mid, low), np.where(rises, high, mid)
    to[some] = 0.5 * (low + high)
    return to


def ascended(X, f, lam, steps):
    """The derivatives after a number of steps of ``src_cuda/training/ascent.cu``, in NumPy."""
    squares = X.multiply(X).sum(axis=1).A1 / lam

    def margins(r):
        return -(X @ (X.T @ r)) / lam

    r = base = ahead = np.clip(0.0, f[:, LOW], f[:, HIGH])
    u = before = margins(r)
    bend, turn, advances = 1.0, 1.0, 0
    for _ in range(steps):
        new = best(f, ahead, before, bend * squares)
        at = margins(new)
        step = new - ahead
        if -step @ (at - before) <= bend * (squares @ step**2) * (1.0 + 1e-9):
            if squares @ ((ahead - new) * (new - base)) > 0.0:
                turn = 1.0
            share = (turn - 1.0) / (turn + 0.5)
            turn, bend, advances = turn + 0.5, max(1.0, 0.98 * bend), advances + 1
            ahead, before = new + share * (new - base), at + share * (at - u)
            base = r = new
            u = at
        else:
            bend = max(1.3 * bend, -step @ (at - before) / (squares @ step**2))
    return r, advances


@on_gpu
@pytest.mark.parametrize("loss", DUAL, ids=lambda loss: loss.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_are_those_of_the_formulas(loss, weighted):
    X, y = data(loss, m=70, d=60, seed=3)
    m, d = X.shape
    X = sp.csr_matrix(sp.diags((np.arange(m) != 5).astype(float)) @ X)  # a row without features
    X.eliminate_zeros()
    weights = np.random.default_rng(4).random(m) * (np.arange(m) % 6 > 0) if weighted else None
    scale = 1.0 / (m if weights is None else weights.sum())
    f = loss.risk(y, weights, scale, 1).conjugates()
    problem = cuda.Problem(matrix(X), loss.number, loss.parameter_value, y, weights, scale, 0.0, False)
    problem.reserve(4)
    w, starts = problem.weights(np.zeros(d)), np.array([0, m])
    problem.begin_ascent(None)
    total = 0
    for steps in (1, 2, 9, 20):
        found = problem.climb(LAM, steps)
        total += steps
        r, advances = ascended(X, f, LAM, total)
        problem.cut(0, starts, None, None, w, w, 0.0)
        np.testing.assert_allclose(problem.get_cuts(1)[0], X.T @ r, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found, conjugate(f, r).sum(), rtol=1e-8, atol=1e-12)
    assert advances > 3
    assert problem.products == 2 * total + 4  # a cut after each ascent


@on_gpu
@pytest.mark.parametrize("loss", DUAL, ids=lambda loss: loss.name)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_optimum_is_that_of_the_cpu(loss, shape, dtype):
    X, y = data(loss, *shape)
    weights = np.random.default_rng(1).random(len(y)) * (np.arange(len(y)) % 7 > 0)
    options = {"lam": LAM, "tol": 1e-4 if dtype == np.float32 else 1e-8, "sample_weight": weights}
    here = bmrm.solve(X, y, loss, device="cpu", **options)
    there = bmrm.solve(X, y, loss, device="cuda", dtype=dtype, **options)
    assert "ascent" in there.timings
    assert there.status == here.status == "converged"
    room = 1e-6 * here.objective
    assert there.objective >= here.lower_bound - room
    assert here.objective >= there.lower_bound - room
    assert there.gap <= options["tol"] * there.objective


@on_gpu
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_runs_repeat_and_continue(shape):
    loss = losses.get("hinge")
    X, y = data(loss, *shape, fill=0.1)
    resident = bmrm.Dataset(X, y, device="cuda", tol=1e-6)
    first, again = (bmrm.solve(resident, loss=loss, lam=1e-3, tol=1e-6) for _ in range(2))
    assert (first.w == again.w).all()
    assert (first.objective, first.lower_bound) == (again.objective, again.lower_bound)
    near = bmrm.solve(resident, loss=loss, lam=1e-3, tol=1e-6, warm_start=first.w)
    assert near.status == "converged"
    assert near.n_iter <= first.n_iter
    other = bmrm.solve(resident, loss=loss, lam=5e-4, tol=1e-6, warm_start=first)
    alone = bmrm.solve(X, y, loss, lam=5e-4, tol=1e-6, device="cpu")
    assert other.status == "converged"
    assert other.objective >= alone.lower_bound
    assert alone.objective >= other.lower_bound


@on_gpu
def test_planes_take_over_if_ascent_is_slow(monkeypatch):
    monkeypatch.setattr(device_ascent, "MIN_CUTS", 1)
    monkeypatch.setattr(device_ascent, "FIRST_CUT_STEPS", 1)
    X, y = data(losses.get("hinge"), 150, 90)
    result = bmrm.solve(X, y, lam=1e-3, tol=1e-6, device="cuda")
    assert result.status == "converged"
    assert {"ascent", "search"} <= set(result.timings)


@on_gpu
def test_rows_in_several_blocks_that_stream():
    rng = np.random.default_rng(0)
    m, d, density, room = sized((800, 1_200, 0.02, "1200k"), (20_000, 30_000, 0.002, "40M"))
    X = sp.random(m, d, density, "csr", rng=rng, dtype=np.float64)
    y = np.where(X @ rng.standard_normal(d) > 0.0, 1.0, -1.0)
    whole = bmrm.solve(X, y, lam=1e-4, device="cuda", dtype=np.float64, tol=1e-5)
    parts = bmrm.solve(X, y, lam=1e-4, device="cuda", dtype=np.float64, tol=1e-5, gpu_mem=room)
    assert "ascent" in parts.timings
    assert parts.status == whole.status == "converged"
    assert parts.objective >= whole.lower_bound
    assert whole.objective >= parts.lower_bound


@on_gpu
@pytest.mark.parametrize(
    "options",
    [
        {"fit_intercept": True},
        {"fit_intercept": True, "penalize_intercept": True},
        {"cuts_per_pass": 1},
        {"solver": "bmrm", "tol": 1e-2},
        {"reg": "elastic_net"},
        {"loss": "poisson"},
    ],
    ids=lambda options: "-".join(options),
)
def test_no_ascent_if_planes_are_requested_or_needed(options):
    loss = losses.get(options.get("loss", "hinge"))
    X, y = data(losses.get("hinge"))
    if loss.name == "poisson":
        y = labels_for(loss, np.random.default_rng(0), len(y))
    result = bmrm.solve(X, y, lam=LAM, device="cuda", **options)
    assert "ascent" not in result.timings
    assert result.status == "converged"


@on_gpu
def test_what_is_refused():
    X, y = data(losses.get("hinge"))
    narrow = matrix(np.vstack([X.toarray()[:, :3]] * 2))
    cases = [
        (matrix(X), losses.get("exponential"), y, 0.0),
        (matrix(X), losses.get("hinge"), y, 1.0),
        (narrow, losses.get("hinge"), np.tile(y, 2), 0.0),
    ]
    for X_there, loss, labels, constant in cases:
        problem = cuda.Problem(X_there, loss.number, 0.0, labels, None, 1.0, constant, False)
        with pytest.raises(bmrm.errors.ParameterError, match="ascent"):
            problem.begin_ascent(None)
        with pytest.raises(bmrm.errors.ParameterError, match="has not begun"):
            problem.climb(LAM, 1)


def test_when_ascent_pays():
    def pays(shape, nnz, loss="hinge", *, dense=False, profile=False):
        operator = types.SimpleNamespace(shape=shape, nnz=nnz, n_outputs=1)
        size, intercept = MatrixSize(*shape, nnz, 0, dense), Intercept(profile, None)
        return gpu_ascent_pays(Facts(operator, size, shape[0], losses.get(loss), L2(1.0), intercept))

    text = (3000, 6000), 90_000
    assert pays(*text)
    assert pays(*text, "logistic")
    assert not pays(*text, "poisson")
    assert not pays(*text, "roc_area")
    assert not pays(*text, dense=True)
    assert not pays(*text, profile=True)
    assert pays((8000, 1000), 90_000)
    assert not pays((8001, 1000), 90_000)
    assert not pays((3000, 600), 600_001)
