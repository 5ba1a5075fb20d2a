"""Solves whose vectors and cuts stay on a GPU, against the same solves on the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from devices import cuda
from devices import large as gpu  # hundreds of solves: on the emulator they would take a sixth of all tests

import bmrm
from bmrm import losses
from bmrm.errors import ParameterError
from bmrm.losses import _losses

pytestmark = gpu

LOSSES = [(name, {}) for name in _losses.names()] + [("quantile", {"tau": 0.9}), ("huber", {"delta": 0.3})]


def problem(loss="hinge", m=3000, d=40, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    A = sp.random(m, d, 0.2, "csr", rng=rng, dtype=np.float64)
    A.data = rng.standard_normal(A.nnz)
    A = A.astype(dtype)
    z = A @ rng.standard_normal(d) + 0.5 * rng.standard_normal(m)
    task = losses.get(loss).task
    sets = np.stack([z > 0, z > 1, z < -0.5], axis=1).astype(int)
    y = {
        "binary": np.where(z > 0, 1.0, -1.0),
        "count": np.floor(np.exp(np.clip(z, -3, 2))),
        "multiclass": np.digitize(z, [-1.0, 0.5]),
        "multilabel": sets,
        "label_ranking": sets,
    }.get(task, z)
    return A, y


def assert_same(here, there, resolution=0.0):
    """Each objective is above the other's bound."""
    room = resolution * abs(here.objective) + 1e-12
    assert there.objective >= here.lower_bound - room
    assert here.objective >= there.lower_bound - room
    assert there.status == here.status == "converged"


@pytest.mark.parametrize(("loss", "params"), LOSSES)
@pytest.mark.parametrize("dense", [False, True])
def test_every_loss(loss, params, dense):
    A, y = problem(loss)
    if loss == "novelty":  # in a sample around the origin no row is novel
        A.data = np.abs(A.data)
    X = A.toarray() if dense else A
    options = {"lam": 1e-2, "tol": 1e-6, **params}
    here = bmrm.solve(X, y, loss, device="cpu", **options)
    there = bmrm.solve(X, y, loss, device="cuda", **options)
    assert there.device.startswith("cuda")
    assert_same(here, there)
    np.testing.assert_allclose(there.w, here.w, atol=2e-2 * np.abs(here.w).max())


@pytest.mark.parametrize(
    "options", [{"cuts_per_pass": 5}, {"fit_intercept": True, "penalize_intercept": True}]
)
def test_columns_by_block_and_with_a_constant(options):
    A, y = problem("multiclass")
    here, there = (
        bmrm.solve(A, y, "multiclass", lam=1e-2, tol=1e-6, device=device, **options)
        for device in ("cpu", "cuda")
    )
    assert_same(here, there)
    np.testing.assert_allclose(there.intercept, here.intercept, atol=2e-2)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "absolute"])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "bmrm", "tol": 1e-2},
        {"fit_intercept": True},
        {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
        {"cuts_per_pass": 7},
        {"max_cuts": 12},
    ],
    ids=lambda options: "-".join(options),
)
def test_every_option(loss, options):
    A, y = problem(loss)
    options = {"lam": 1e-2, "tol": 1e-5, **options}
    y = y + 3.0 if loss in ("squared", "absolute") else y
    here = bmrm.solve(A, y, loss, device="cpu", **options)
    there = bmrm.solve(A, y, loss, device="cuda", **options)
    assert_same(here, there)
    assert there.intercept == pytest.approx(here.intercept, abs=0.3)


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_the_intercept_minimises_the_loss_with_its_kinks(loss):
    A, y = problem(loss, d=6)
    y = y if loss == "hinge" else y + 3.0
    found = bmrm.solve(A, y, loss, lam=1e-3, tol=1e-2, fit_intercept=True, device="cuda")
    assert found.status == "converged"
    assert "newton" in found.timings
    z = A @ found.w
    if loss == "hinge":
        least = min(np.maximum(0.0, 1.0 - y * (z + b)).mean() for b in y - z)
    else:
        least = np.abs(z + np.median(y - z) - y).mean()
    assert found.objective == pytest.approx(0.5e-3 * found.w @ found.w + least, rel=1e-12)


def test_the_objective_is_that_of_the_weights():
    A, y = problem("logistic", dtype=np.float32)
    found = bmrm.solve(A, y, "logistic", lam=1e-3, tol=1e-4, device="cuda")
    z = A.astype(np.float64) @ found.w
    J = 0.5e-3 * found.w @ found.w + np.logaddexp(0, -y * z).mean()
    assert found.objective == pytest.approx(J, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 31, 2049, 70_001])
def test_any_number_of_rows(m, dtype):
    A, y = problem(m=m, d=7, dtype=dtype)
    y[0] = -y[-1] if m > 1 else 1.0
    loss = "hinge" if m > 1 else "squared"
    here = bmrm.solve(A, y, loss, lam=1e-1, device="cpu")
    there = bmrm.solve(A, y, loss, lam=1e-1, device="cuda")
    assert_same(here, there, 1e-5)


def test_weights_and_labels_that_floats_cannot_hold():
    A, y = problem("squared")
    y = y + 1e9
    weights = np.random.default_rng(3).random(len(y))
    weights[::7] = 0.0
    options = {"lam": 1e-2, "tol": 1e-6, "sample_weight": weights, "fit_intercept": True}
    here = bmrm.solve(A, y, "squared", device="cpu", **options)
    there = bmrm.solve(A, y, "squared", device="cuda", **options)
    assert_same(here, there)
    assert there.intercept == pytest.approx(here.intercept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": True}, {"solver": "bmrm", "tol": 1e-2}], ids=str)
@pytest.mark.parametrize("loss", ["exponential", "poisson", "own"])
def test_rows_of_weight_zero_take_no_part_even_if_their_loss_is_infinite(loss, options, dtype):
    A, y = problem("poisson" if loss == "poisson" else "exponential", dtype=dtype)
    if loss == "own":
        cp = pytest.importorskip("cupy", reason="cupy is not installed")
        loss = losses.CallableLoss(
            lambda u, y: (cp.exp(-y * u), -y * cp.exp(-y * u)), name="own", minimum=0.0, arrays="cupy"
        )
    keep = np.arange(len(y)) % 3 > 0
    far = (sp.diags_array(np.where(keep, 1.0, 1e4)) @ A).astype(dtype)
    options = {"lam": 1e-2, "tol": 1e-5, "device": "cuda", **options}
    cut = bmrm.solve(A[keep], y[keep], loss, **options)
    masked = bmrm.solve(far, y, loss, sample_weight=keep.astype(float), **options)
    assert_same(cut, masked, 1e-6)


def test_a_path_keeps_its_cuts():
    A, y = problem()
    lams = [1e-1, 1e-2, 1.02e-3, 1e-3]
    data = bmrm.Dataset(A, y, device="cuda")
    along = bmrm.path(data, lams=lams, tol=1e-5)
    for lam, found in zip(lams, along, strict=True):
        assert_same(bmrm.solve(A, y, lam=lam, tol=1e-5, device="cpu"), found)
    alone = bmrm.solve(data, lam=lams[-1], tol=1e-5)
    assert along[-1].n_iter < alone.n_iter // 2
    assert along[-1].bundle.gradients.shape == (len(along[-1].bundle), A.shape[1])


def test_cuts_bound_the_risk():
    A, y = problem("logistic")
    found = bmrm.solve(A, y, "logistic", lam=1e-3, tol=1e-7, device="cuda")
    rng = np.random.default_rng(5)
    for size in (0.1, 1.0, 10.0):
        v = found.w + size * rng.standard_normal(len(found.w))
        risk = np.logaddexp(0, -y * (A @ v)).mean()
        assert (found.bundle.gradients @ v + found.bundle.offsets).max() <= risk + 1e-12


def test_the_bound_never_exceeds_the_optimum():
    rng = np.random.default_rng(7)
    for _ in range(5):
        # Columns over six decades: the Hessian is as badly conditioned as data gets.
        A = rng.standard_normal((400, 20)) * 10.0 ** rng.uniform(-3, 3, 20)
        y = A @ rng.standard_normal(20) + rng.standard_normal(400)
        lam = 1e-4
        w = np.linalg.solve(A.T @ A / 400 + lam * np.eye(20), A.T @ y / 400)
        optimum = 0.5 * lam * w @ w + 0.5 * np.mean((A @ w - y) ** 2)
        found = bmrm.solve(A, y, "squared", lam=lam, tol=1e-8, device="cuda", max_iter=3000)
        assert found.lower_bound <= optimum * (1 + 1e-12) <= found.objective * (1 + 2e-12)


def test_the_same_bits_again():
    A, y = problem(m=20_000, dtype=np.float32)
    data = bmrm.Dataset(A, y, device="cuda")
    one, two = (bmrm.solve(data, lam=1e-4, tol=1e-4) for _ in range(2))
    np.testing.assert_array_equal(one.w, two.w)
    assert one.lower_bound == two.lower_bound


def test_a_callback_sees_the_best_point():
    A, y = problem()
    seen = []
    bmrm.solve(
        A, y, lam=1e-3, device="cuda", callback=lambda state: seen.append(state.best()[0]) or len(seen) > 3
    )
    assert len(seen) == 4
    assert all(w.shape == (A.shape[1],) and np.isfinite(w).all() for w in seen)


def test_vectors_of_another_problem():
    A, y = problem()
    made = []
    for _ in range(2):
        matrix = cuda.Matrix(A.indptr, A.indices, A.data, A.shape)
        made.append(cuda.Problem(matrix, 0, 0.0, y, None, 1.0 / len(y), 0.0, False))
    w = made[0].weights(np.zeros(A.shape[1]))
    with pytest.raises(ParameterError, match="belongs elsewhere"):
        made[1].fresh_margins(w)
    with pytest.raises(ParameterError, match="not combined against"):
        made[0].between(w, w, 0.5)


@pytest.mark.parametrize("elsewhere", [1.0, 1.5])
@pytest.mark.parametrize(("in_rows", "width"), [(False, 0.0), (True, 0.0), (False, 0.5)])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_a_cut_made_ahead_is_the_one_asked_for(elsewhere, in_rows, width, constant):
    A, y = problem(m=700, d=1500)
    starts = np.array([0, 700])
    found = []
    for ahead in (1, -1):
        matrix = cuda.Matrix(A.indptr, A.indices, A.data, A.shape)
        p = cuda.Problem(matrix, 0, 0.0, y, None, 1.0 / 700, constant, in_rows)
        p.reserve(2)
        if width:
            p.round_kinks(width)
        w = p.weights(np.zeros(p.width))
        z = p.fresh_margins(w)
        p.cut(0, starts, z, None, w, w, 0.0)
        end = p.combine(np.ones(1), -1.0 / 0.1, w)
        dz = p.margins(end)
        step, risk, moved = p.search(
            z, dz, w, end, 0.1 * end.inner, 0.1 * end.away, 1.0, 100.0, 1e-9, ahead, 0.1, 2.0
        )
        assert 0.0 < step < 1.0
        t = elsewhere * (step + min(0.1, 2.0 * step))
        sums, products = p.cut(1, starts, z, dz, w, end, t)
        found.append((step, risk, moved.get(), sums, products, p.get_cuts(2)))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-10, atol=1e-13)


SMOOTH = [name for name in _losses.names() if losses.get(name).smooth]
KINKED = [name for name in _losses.names() if losses.get(name).kinked]
WIDTH = 0.7


def newton_problem(loss, dtype=np.float64, constant=0.0):
    """A point, and the risk there on the device and on the host, with kinks rounded."""
    A, y = problem(loss, m=500, dtype=dtype)
    rng = np.random.default_rng(4)
    s = rng.random(500)
    s[::9] = 0.0
    scale, lam, bias = 1.0 / s.sum(), 1e-2, 0.25
    matrix = cuda.Matrix(A.indptr, A.indices, A.data, A.shape)
    bound = losses.get(loss)
    p = cuda.Problem(matrix, bound.number, bound.parameter_value, y, s, scale, constant, False)
    p.reserve(5)
    w = 0.1 * rng.standard_normal(p.width)
    X = np.column_stack([A.toarray(), np.full(500, constant)])[:, : p.width].astype(np.float64)
    z, here = X @ w, bound.risk(y, s, scale, 1)
    if bound.kinked:
        p.round_kinks(WIDTH)
        here = here.rounded(WIDTH)
    return p, w, X, lam, bias, here, z


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("constant", "profile"), [(0.0, False), (2.0, False), (0.0, True)])
@pytest.mark.parametrize("loss", SMOOTH + KINKED)
def test_newton_point(loss, constant, profile, dtype):
    p, w, X, lam, bias, here, z = newton_problem(loss, dtype, constant)
    curvature, r = np.empty(500), np.empty(500)
    total = here.curvature(z, bias, curvature)
    here.cut(z, z, 0.0, bias, np.array([0, 500]), r)
    hessian = X.T @ (curvature[:, None] * X) + lam * np.eye(p.width)
    if profile and total > 0.0:
        mixed = X.T @ curvature
        hessian -= np.outer(mixed, mixed) / total
    expected = w - np.linalg.solve(hessian, X.T @ r + lam * w)

    squares = np.square(X).mean(axis=0)
    at = p.weights(w)
    margins = p.fresh_margins(at)
    blocks = ((0, 100), (100, 101), (101, 500))
    p.set_cuts(np.stack([X[i:j].T @ r[i:j] for i, j in blocks]))
    found = p.newton_point(at, margins, bias, range(3), squares, lam, profile, 500, 1e-6)
    close = {"rtol": 0.0, "atol": (2e-4 if dtype == np.float32 else 1e-5) * np.abs(expected).max()}
    v = found.get()
    np.testing.assert_allclose(v, expected, **close)
    assert found.square == pytest.approx(v @ v, rel=1e-9)
    assert found.inner == pytest.approx(w @ (v - w), rel=1e-9)
    assert found.away == pytest.approx((v - w) @ (v - w), rel=1e-9)
    np.testing.assert_allclose(p.margins(found).get(), X @ v, rtol=1e-4, atol=1e-4 * np.abs(X @ v).max())

    # With fewer steps it ends earlier; without a slope there is no point.
    early = p.newton_point(at, margins, bias, range(3), squares, lam, profile, 1, 1e-6)
    gradient = hessian @ (w - expected)
    down = -gradient / (lam + total * squares)
    along = early.get() - w
    np.testing.assert_allclose(
        along, -down * (gradient @ down) / (down @ hessian @ down), rtol=1e-3, atol=1e-4 * np.abs(along).max()
    )
    p.set_cuts(np.stack([-lam * w, 0 * w, 0 * w]))
    nowhere = p.newton_point(at, margins, bias, range(3), squares, lam, profile, 9, 0.5)
    assert dtype == np.float32 or nowhere is None


def test_newton_point_is_of_smooth_losses():
    p, w, *_ = newton_problem("hinge")
    p.round_kinks(0.0)
    at = p.weights(w)
    with pytest.raises(ParameterError, match="not smooth"):
        p.newton_point(at, p.fresh_margins(at), 0.0, range(1), np.ones(40), 1.0, False, 9, 0.5)
    p, w, *_ = newton_problem("logistic")
    at = p.weights(w)
    with pytest.raises(ParameterError, match="no such cuts"):
        p.newton_point(at, p.fresh_margins(at), 0.0, range(4, 6), np.ones(40), 1.0, False, 9, 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", KINKED)
def test_rounded_kinks(loss, dtype):
    """Slopes, cuts and searches are those of the host; the risk at a point keeps its kinks."""
    A, y = problem(loss, m=500, dtype=dtype)
    bound, rng = losses.get(loss), np.random.default_rng(6)
    s = rng.random(500)
    scale, lam, starts = 1.0 / s.sum(), 1e-2, np.array([0, 500])
    kinked, r = bound.risk(y, s, scale, 1), np.empty(500)
    here = kinked.rounded(WIDTH)
    matrix = cuda.Matrix(A.indptr, A.indices, A.data, A.shape)
    p = cuda.Problem(matrix, bound.number, bound.parameter_value, y, s, scale, 0.0, False)
    p.reserve(2)
    p.round_kinks(WIDTH)
    close = {"rtol": 2e-6 if dtype == np.float32 else 1e-12, "atol": 2e-6 if dtype == np.float32 else 1e-13}

    w = p.weights(0.1 * rng.standard_normal(40))
    margins = p.fresh_margins(w)
    p.cut(0, starts, margins, None, w, w, 0.0)
    end = p.combine(np.ones(1), -1.0 / lam, w)
    towards = p.margins(end)
    z, dz = margins.get(), towards.get() - margins.get()
    step, risk, moved = p.search(
        margins, towards, w, end, lam * end.inner, lam * end.away, 1.0, 100.0, 1e-12, -1, 0.1, 0.0
    )
    along = z + step * dz
    np.testing.assert_allclose(moved.get(), along, **close)
    np.testing.assert_allclose(risk, kinked.cut(along, along, 0.0, 0.0, starts, r)[0][0], **close)
    slopes = [lam * end.inner + lam * end.away * t + here.slope(z, dz, t, 0.0)[0] for t in (0.0, step)]
    assert abs(slopes[1]) <= (1e-4 if dtype == np.float32 else 1e-6) * abs(slopes[0])
    for t, b in ((0.0, 0.0), (0.5, 0.25)):
        np.testing.assert_allclose(p.slope(margins, towards, t, b), here.slope(z, dz, t, b), **close)
        values, sums = here.cut(z, dz, t, b, starts, r)
        found = p.derivatives(margins, towards, t, b, 0)
        np.testing.assert_allclose(found, (values[0], sums[0]), **close)
        exact = kinked.cut(z, dz, t, b, starts, r)[0][0]
        np.testing.assert_allclose(p.risk(margins, towards, t, b, False)[0], exact, **close)
        assert found[0] < exact
    p.round_kinks(0.0)
    found = p.derivatives(margins, towards, 0.5, 0.25, 0)
    np.testing.assert_allclose(found[0], p.risk(margins, towards, 0.5, 0.25, False)[0], rtol=1e-12)


def test_kinks_that_cannot_be_rounded():
    p, *_ = newton_problem("logistic")
    with pytest.raises(ParameterError, match="no kinks"):
        p.round_kinks(0.5)
    p, *_ = newton_problem("hinge")
    for width in (-1.0, np.nan):
        with pytest.raises(ParameterError, match="a width of at least 0"):
            p.round_kinks(width)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", KINKED)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": True},
        {"fit_intercept": True, "penalize_intercept": True},
        {"cuts_per_pass": 4},
        {"reg": "elastic_net"},
    ],
    ids=str,
)
def test_steps_with_rounded_kinks(loss, options, dtype):
    rng = np.random.default_rng(23)
    X, weights = rng.normal(size=(4000, 12)).astype(dtype), rng.random(4000)
    y = X @ rng.normal(size=12) + 2.0 * rng.normal(size=4000)
    y = np.sign(y) if loss == "hinge" else y
    options = {"lam": 1e-4, "tol": 1e-4, "sample_weight": weights, **options}
    data = bmrm.Dataset(X, y, device="cuda", sample_weight=options.pop("sample_weight"))
    here = bmrm.solve(X, y, loss, device="cpu", sample_weight=weights, **options)
    there = bmrm.solve(data, loss=loss, **options)
    assert_same(here, there, 1e-5 if dtype == np.float32 else 0.0)
    assert there.timings["newton"] > 0.0
    assert there.n_iter <= 40
    # The problem on the device has its kinks back: another solve continues from it.
    after = bmrm.solve(data, loss=loss, warm_start=there, **options)
    assert after.status == "converged"
    assert after.n_iter <= 3


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": True},
        {"fit_intercept": True, "penalize_intercept": True},
        {"cuts_per_pass": 3},
        {"reg": "l1", "lam": 1e-3},
        {"reg": "elastic_net", "lam": 1e-3},
    ],
    ids=str,
)
def test_newton_steps_end_a_solve(loss, options):
    A, y = problem(loss)
    options = {"lam": 1e-5, "tol": 1e-8, **options}
    if options.get("reg") == "l1":
        pytest.importorskip("highspy")
    here, there = (bmrm.solve(A, y, loss, device=device, **options) for device in ("cpu", "cuda"))
    assert_same(here, there)
    assert there.timings["newton"] > 0.0
    assert there.n_iter <= 60
