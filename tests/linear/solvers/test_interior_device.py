"""Interior-point steps with X on a GPU: their Hessian, their cuts, and the optimum."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from devices import IS_EMULATED, cuda, few, gpu, large, sized, with_device

import bmrm
from bmrm import losses
from bmrm.errors import ParameterError
from bmrm.linear.solvers import steps as kinds_of_step
from bmrm.linear.solvers.interior_point import InteriorPoint
from bmrm.linear.solvers.interior_rule import WINDOW_PASSES, InteriorRule
from bmrm.matrix.gpu import libraries as device_libraries

pytestmark = [
    gpu,
    pytest.mark.skipif(not IS_EMULATED and not device_libraries.has_blas(), reason="there is no cuBLAS"),
]

KINKED = ("hinge", "absolute", "quantile", "epsilon_insensitive")


def problem(loss, m=1500, d=40, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, d)).astype(dtype)
    z = X @ rng.standard_normal(d) + rng.standard_normal(m) + 0.5
    return X, np.where(z > 0, 1.0, -1.0) if loss == "hinge" else z


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "d"),
    [
        *((1, 1), (7, 1), (1, 9), (5, 3), (300, 33)),
        *(pytest.param(*size, marks=large) for size in ((3000, 33), (70, 513), (40_000, 300), (9000, 2100))),
    ],
)
def test_weighted_gram(m, d, dtype):
    rng = np.random.default_rng(m + d)
    A = rng.standard_normal((m, d)).astype(dtype)
    s = rng.random(m) * (rng.random(m) < 0.8) * 10.0 ** rng.uniform(-8, 8, m)
    X = cuda.Matrix.from_dense(A)
    found = X.weighted_gram(s)
    wide = A.astype(np.float64)
    np.testing.assert_allclose(found, wide.T @ (s[:, None] * wide), rtol=1e-11, atol=1e-12 * s.sum())
    np.testing.assert_array_equal(found, found.T)
    out = np.empty((d, d))
    assert X.weighted_gram(s, out) is out
    np.testing.assert_array_equal(out, found)


@large
def test_weighted_gram_of_rows_that_stream():
    rng = np.random.default_rng(1)
    A, s = rng.standard_normal((60_000, 200)).astype(np.float32), rng.random(60_000)
    room = 80 << 20  # for what it works in
    X = cuda.Matrix.from_dense(A, memory_limit=A.nbytes // 3 + room, spare=room)
    np.testing.assert_allclose(X.weighted_gram(s), (s[:, None] * A.astype(float)).T @ A, rtol=1e-9, atol=1e-6)


def test_weighted_gram_is_of_dense_rows_and_right_shapes():
    sparse = cuda.Matrix(np.array([0, 1]), np.array([0], np.int32), np.array([2.0]), (1, 1))
    assert not sparse.is_dense
    with pytest.raises(ParameterError, match="needs a dense matrix"):
        sparse.weighted_gram([1.0])
    X = cuda.Matrix.from_dense(np.ones((3, 2)))
    assert X.is_dense
    with pytest.raises(ParameterError, match="s: "):
        X.weighted_gram([1.0, 2.0])
    with pytest.raises(ParameterError, match="out"):
        X.weighted_gram(np.ones(3), np.empty((2, 3)))


def test_a_library_that_is_not_there():
    code = "from bmrm.matrix import _cuda; _cuda.load_blas('libnowhere.so')"
    done = subprocess.run(
        [sys.executable, "-c", with_device(code)], capture_output=True, text=True, check=False
    )
    assert "libnowhere.so" in done.stderr


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_derivatives_from_the_host_make_the_same_cut(constant):
    X, y = problem("hinge")
    data = bmrm.Dataset(X, y, device="cuda")
    there = cuda.Problem(data.matrix, losses.get("hinge").number, 0.0, y, None, 1.0 / len(y), constant, False)
    there.reserve(4)
    if constant:
        X = np.column_stack([X, np.full(len(y), constant)])
    r, starts = np.random.default_rng(2).standard_normal(len(y)), np.array([0, 700, 1500])
    there.set_derivatives(r, starts)
    w = there.weights(np.ones(X.shape[1]))
    _, products = there.cut(0, starts, None, None, w, w, 0.0)
    cuts = there.get_cuts(2)
    np.testing.assert_allclose(cuts, [X[:700].T @ r[:700], X[700:].T @ r[700:]], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(products[:, -1], cuts.sum(axis=1), rtol=1e-10, atol=1e-9)
    with pytest.raises(ParameterError, match="r: "):
        there.set_derivatives(np.ones(3), starts)
    with pytest.raises(ParameterError, match="starts"):
        there.set_derivatives(r, np.array([0, 700]))


@pytest.mark.parametrize("loss", few(KINKED, 2))
@pytest.mark.parametrize("dtype", few([np.float64, np.float32]))
@pytest.mark.parametrize("intercept", [None, "free", "penalised"])
def test_the_optimum(loss, dtype, intercept, inside):
    X, y = problem(loss, m=sized(700, 1500), dtype=dtype)
    weights = np.random.default_rng(3).random(len(y)) * (np.arange(len(y)) % 7 > 0)
    options = {
        "lam": 1e-3,
        "tol": 1e-5 if dtype == np.float32 else 1e-8,
        "sample_weight": weights,
        "fit_intercept": intercept is not None,
        "penalize_intercept": intercept == "penalised",
    }
    there = bmrm.solve(X, y, loss, device="cuda", **options)
    assert there.status == "converged"
    assert 3 <= len(inside) <= 60
    here = bmrm.solve(X, y, loss, device="cpu", **options)
    assert there.objective == pytest.approx(here.objective, rel=2 * options["tol"])
    assert there.lower_bound <= here.objective * (1 + 1e-12)
    assert here.lower_bound <= there.objective * (1 + 1e-12)


def test_problems_without_interior_point_steps(monkeypatch):
    monkeypatch.setattr(InteriorRule, "pays", lambda *_: True)
    monkeypatch.setattr(InteriorPoint, "step", lambda self: pytest.fail("a step was taken"))
    X, y = problem("hinge", m=sized(500, 1500))
    options = {"lam": 1e-3, "tol": 1e-4, "device": "cuda"}
    bmrm.solve(sp.csr_matrix(X), y, "hinge", **options)
    bmrm.solve(X, y, "logistic", **options)
    bmrm.solve(X, y, "roc_area", **options)
    bmrm.solve(X[:200, :], y[:200], "hinge", solver="bmrm", max_iter=20, **options)
    monkeypatch.setattr("bmrm.linear.backends.gpu.passes.has_blas", lambda: False)
    bmrm.solve(X, y, "hinge", **options)


@large
def test_steps_are_taken_if_planes_take_longer(monkeypatch):
    """As many kinks as features: planes alone would take thousands of passes."""
    steps, step = [], InteriorPoint.step
    monkeypatch.setattr(InteriorPoint, "step", lambda self: steps.append(1) or step(self))
    X, y = problem("hinge", m=8000, d=400)
    result = bmrm.solve(X, y, "hinge", lam=1e-5, tol=1e-5, device="cuda")
    assert result.status == "converged"
    assert 0 < len(steps) < 60
    assert WINDOW_PASSES < result.n_iter < 400
    monkeypatch.setattr(kinds_of_step, "may_step", lambda *_: False)
    planes = bmrm.solve(X, y, "hinge", lam=1e-5, tol=1e-2, device="cuda")
    assert result.objective <= planes.objective * (1 + 1e-5)
    assert result.lower_bound >= planes.lower_bound * (1 - 1e-12)


def test_the_same_bits_again(inside):
    X, y = problem("quantile", dtype=np.float32)
    data = bmrm.Dataset(X, y, device="cuda")
    first, second = (bmrm.solve(data, loss="quantile", lam=1e-3, tol=1e-5) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    assert first.lower_bound == second.lower_bound
