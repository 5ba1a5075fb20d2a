"""Coordinate ascent in the dual: conjugates, sweeps, cuts, the optimum, and when it is taken."""

import itertools
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problems import BEND, DUAL, ENTROPY, HIGH, LOW, ascent_at_any_lam, conjugate, data
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loss_cases import CASES, formula, labels_for
from reference_solvers import optimum

import bmrm
from bmrm import losses
from bmrm.errors import Interrupted, ParameterError
from bmrm.linear import plan
from bmrm.linear.backends.host import ascent as host_ascent
from bmrm.linear.backends.host._ascent import Ascent
from bmrm.linear.memory import MatrixSize
from bmrm.linear.models.checkpoint import Checkpoint, save
from bmrm.linear.models.model import Model
from bmrm.linear.plan import MAX_RELATIVE_LAM, MAX_RELATIVE_LAM_OF_SEVERAL, Facts, ascent_pays
from bmrm.linear.regularizers import L2
from bmrm.linear.solvers import dual_ascent
from bmrm.linear.solvers.state import State
from bmrm.linear.warm_start import problem_of
from bmrm.losses import _losses
from bmrm.matrix import _cpu
from bmrm.matrix.adapted import MatrixAdapter, MultiOutput

WITHOUT = [loss for loss in CASES if not loss.has_dual]
LAM = 0.05


@pytest.fixture(autouse=True, scope="module")
def at_any_lam():
    with ascent_at_any_lam():
        yield


def test_which_losses_have_conjugates():
    assert {loss.name for loss in WITHOUT} == {"exponential", "poisson", "novelty"}
    others = {"multiclass", "multilabel"}
    found = {name for name in losses.NAMES if losses.get(name).has_dual}
    assert found == others | {loss.name for loss in DUAL}
    for loss in WITHOUT:
        with pytest.raises(ValueError, match="is not known"):
            loss.risk(np.ones(2), None, 1.0, 1).conjugates()


@pytest.mark.parametrize("loss", DUAL, ids=lambda loss: loss.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_conjugates_are_those_of_the_loss(loss, weighted):
    """Fenchel and Young: f(r) + s loss(u) >= r u, with equality where r is the derivative."""
    rng, m = np.random.default_rng(1), 400
    y, u = labels_for(loss, rng, m), 3.0 * rng.normal(size=m)
    weights = rng.random(m) * (np.arange(m) % 5 > 0) if weighted else None
    s = 0.5 * (np.ones(m) if weights is None else weights)
    bound = loss.risk(y, weights, 0.5, 1)
    f, r = bound.conjugates(), np.empty(m)
    bound.cut(u, u, 0.0, 0.0, np.array([0, m]), r)
    assert (f[:, LOW] <= r).all()
    assert (r <= f[:, HIGH]).all()
    values = s * formula(loss, u, y)
    np.testing.assert_allclose(conjugate(f, r) + values, r * u, rtol=1e-12, atol=1e-12)
    others = np.clip(5.0 * rng.normal(size=m), f[:, LOW], f[:, HIGH])
    assert (conjugate(f, others) + values >= others * u - 1e-12).all()
    if weighted:
        assert (f[s == 0.0][:, [BEND, LOW, HIGH, ENTROPY]] == 0.0).all()


def dual_value(ascent, X, r, lam):
    gradient = X.T @ r
    return -float((gradient**2).sum()) / (2.0 * lam) - ascent.conjugate


MATRICES = {
    "float64": lambda A: A,
    "popular": lambda A: A,
    "float32": lambda A: A.astype(np.float32),
    "ones": lambda A: sp.csr_matrix((np.ones_like(A.data), A.indices, A.indptr), A.shape),
    "dense": lambda A: A.toarray(),
    "dense float32": lambda A: A.toarray().astype(np.float32),
}


SHAPES = [(d, K) for d in (90, 5000) for K in (1, 3, 8, 41)] + [(70_000, 1), (70_000, 3)]
"""Numbers of columns and of classes: with 70,000 the indices of columns are wider, however many classes."""


@pytest.mark.parametrize(
    ("form", "d", "K", "constant"),
    [(form, *shape, 0.0) for form in MATRICES for shape in SHAPES]
    # The column of the intercept follows those of any matrix.
    + [("float64", *shape, 2.0) for shape in SHAPES]
    + [(form, 90, 3, 2.0) for form in MATRICES if form != "float64"],
)
def test_weights_belong_to_derivatives_and_the_dual_rises(form, d, constant, K):
    if d == 70_000 and form.startswith("dense"):
        d = 300
    loss = losses.get("squared_hinge")
    A, _ = data(loss, d=d, fill=0.2 if d < 1000 else 300 / (60 * d))
    A = MATRICES[form](A)
    X = np.asarray(A.todense() if sp.issparse(A) else A, np.float64)
    extended = np.hstack([X, np.full((60, 1), constant)]) if constant else X
    y = np.random.default_rng(2).choice([-1.0, 1.0], 60 * K)
    matrix = bmrm.Dataset(A, np.ones(60), device="cpu").matrix
    if form == "popular":
        matrix = _cpu.Matrix(A.indptr, A.indices, A.data, A.shape, by_popularity=True)
    f = loss.risk(y, None, 1.0 / 60, 1).conjugates()
    ascent = Ascent(matrix, f, K, LAM, constant)
    r, w, values = np.empty(60 * K), np.zeros(extended.shape[1] * K), [-np.inf]
    for _ in range(4):
        ascent.step(w)
        ascent.get(r)
        R = r.reshape(60, K)
        np.testing.assert_allclose(w.reshape(-1, K), -extended.T @ R / LAM, atol=1e-12)
        np.testing.assert_allclose(ascent.conjugate, conjugate(f, r).sum(), atol=1e-13)
        assert (f[:, LOW] <= r).all()
        assert (r <= f[:, HIGH]).all()
        values.append(dual_value(ascent, extended, R, LAM))
    assert (np.diff(values) >= -1e-14 * max(1.0, values[-1])).all()


@settings(deadline=None, max_examples=60)
@given(
    m=st.integers(1, 40),
    d=st.integers(1, 40),
    fill=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    loss=st.sampled_from(DUAL),
    seed=st.integers(0, 1000),
    dense=st.booleans(),
)
def test_any_shape_reaches_a_point_at_which_no_row_moves(m, d, fill, loss, seed, dense):
    """Empty rows and columns, one row, one column: the ascent ends with slopes that the loss has there."""
    rng = np.random.default_rng(seed)
    A = sp.random(m, d, fill, "csr", rng=rng, dtype=np.float64)
    y = labels_for(loss, rng, m)
    matrix = bmrm.Dataset(A.toarray() if dense else A, np.ones(m), device="cpu").matrix
    bound = loss.risk(y, None, 1.0 / m, 1)
    ascent = Ascent(matrix, bound.conjugates(), 1, 0.5)
    r, w, u = np.empty(m), np.zeros(d), np.empty(m)
    for _ in range(300):
        ascent.step(w)
    ascent.get(r)
    u = A @ w
    values, _ = bound.cut(u, u, 0.0, 0.0, np.array([0, m]), np.empty(m))
    gap = values[0] + ascent.conjugate - r @ u
    assert -1e-12 <= gap <= 1e-6 * max(1.0, values[0])


@settings(deadline=None, max_examples=200)
@given(
    x=st.floats(-1e3, 1e3).filter(lambda x: x == 0.0 or abs(x) > 1e-3),
    lam=st.floats(-8.0, 3.0).map(lambda power: 10.0**power),
    loss=st.sampled_from(DUAL),
    seed=st.integers(0, 1000),
)
def test_a_lone_row_goes_to_its_maximum_at_once(x, lam, loss, seed):
    y = labels_for(loss, np.random.default_rng(seed), 1)
    bound = loss.risk(y, None, 1.0, 1)
    matrix = bmrm.Dataset(np.array([[x]]), np.ones(1), device="cpu").matrix
    ascent = Ascent(matrix, bound.conjugates(), 1, lam)
    r, w = np.empty(1), np.zeros(1)
    ascent.step(w)
    ascent.get(r)
    values, _ = bound.cut(x * w, x * w, 0.0, 0.0, np.array([0, 1]), np.empty(1))
    gap = values[0] + ascent.conjugate - r[0] * x * w[0]
    assert abs(gap) <= 1e-9 * max(1.0, abs(values[0]), abs(r[0] * x * w[0]))


@pytest.mark.parametrize("costs", [None, "some"])
@pytest.mark.parametrize("K", [2, 5, 20])
def test_classes_keep_shares_and_rise(costs, K):
    rng, m = np.random.default_rng(3), 50
    X, _ = data(losses.get("hinge"), m=m)
    y = rng.permutation(np.arange(m) % K).astype(np.float64)
    table = None if costs is None else rng.random((K, K)) * (1.0 - np.eye(K))
    weights = rng.random(m) * (np.arange(m) % 7 > 0)
    bound = losses.get("multiclass", costs=table).risk(y, weights, 0.1, 1)
    matrix = bmrm.Dataset(X, np.ones(m), device="cpu").matrix
    ascent = Ascent(matrix, bound.conjugates(), K, LAM)
    R, w, values = np.empty((m, K)), np.zeros(X.shape[1] * K), [-np.inf]
    cost = 1.0 - np.eye(K) if table is None else table
    for _ in range(30):
        ascent.step(w)
        ascent.get(flat := np.empty(m * K))
        R = flat.reshape(m, K)
        shares = R + 0.1 * weights[:, None] * (np.arange(K) == y[:, None])
        assert (shares >= -1e-15).all()
        np.testing.assert_allclose(shares.sum(axis=1), 0.1 * weights, atol=1e-14)
        assert ascent.conjugate == pytest.approx(-(shares * cost[y.astype(int)]).sum(), rel=1e-12)
        np.testing.assert_allclose(w.reshape(-1, K), -(X.T @ R) / LAM, atol=1e-11)
        values.append(dual_value(ascent, X, R, LAM))
    assert (np.diff(values) >= -1e-13).all()
    u = np.ascontiguousarray(X @ w.reshape(-1, K)).ravel()
    risk, _ = bound.cut(u, u, 0.0, 0.0, np.array([0, m * K]), np.empty(m * K))
    objective = 0.5 * LAM * float(w @ w) + risk[0]
    assert 0.0 <= objective - values[-1] + 1e-12 <= 1e-6 * objective


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9])
def test_shares_add_up_if_the_dual_hardly_bends(scale):
    """Only then is there a cut. These rows are so short that a step hardly changes their margins."""
    X, _ = data(losses.get("hinge"), m=50)
    y = np.arange(50) % 4.0
    bound = losses.get("multiclass").risk(y, None, 0.02, 1)
    ascent = Ascent(bmrm.Dataset(scale * X, y, device="cpu").matrix, bound.conjugates(), 4, 10.0)
    w, r = np.zeros(X.shape[1] * 4), np.empty(200)
    for _ in range(3):
        ascent.step(w)
        ascent.get(r)
        np.testing.assert_allclose(r.reshape(50, 4).sum(axis=1), 0.0, atol=1e-16)


def test_any_derivatives_become_feasible():
    X, y = data(losses.get("hinge"))
    matrix = bmrm.Dataset(X, y, device="cpu").matrix
    f = losses.get("hinge").risk(y, None, 1.0 / 60, 1).conjugates()
    ascent, r = Ascent(matrix, f, 1, LAM), np.random.default_rng(0).normal(size=60)
    wanted = np.clip(r, f[:, LOW], f[:, HIGH])
    ascent.set(r)
    np.testing.assert_array_equal(r, wanted)
    y3 = np.arange(60) % 3.0
    bound = losses.get("multiclass").risk(y3, None, 1.0 / 60, 1)
    ascent, r = Ascent(matrix, bound.conjugates(), 3, LAM), np.empty(180)
    u = np.random.default_rng(0).normal(size=180)
    bound.cut(u, u, 0.0, 0.0, np.array([0, 180]), r)
    given_r = r.copy()
    ascent.set(r)
    np.testing.assert_allclose(r, given_r, atol=1e-15)


def test_wrong_arrays_are_refused():
    matrix = bmrm.Dataset(np.eye(3), np.ones(3), device="cpu").matrix
    f = np.zeros((3, 6))
    for conjugates, columns, lam in [(f[:2], 1, 1.0), (f, 2, 1.0), (f, 0, 1.0), (f, 1, 0.0), (f, 1, np.nan)]:
        with pytest.raises(ParameterError):
            Ascent(matrix, conjugates, columns, lam)
    for classes in ([0, 1], [0, 1, 2], [0, -1, 1]):
        with pytest.raises(ParameterError):
            Ascent(matrix, (np.array(classes, np.int32), None, np.ones(3)), 2, 1.0)
    with pytest.raises(ParameterError):
        Ascent(matrix, (np.zeros(3, np.int32), np.ones((3, 3)), np.ones(3)), 2, 1.0)
    ascent = Ascent(matrix, f, 1, 1.0)
    for call in (ascent.step, ascent.get, ascent.set, ascent.balance):
        with pytest.raises(ParameterError):
            call(np.zeros(4))
    with pytest.raises(ParameterError):
        Ascent(matrix, f, 1, 1.0, 2.0).step(np.zeros(3))
    for penalty, held in [(0.0, False), (-1.0, True), (np.nan, True)]:
        with pytest.raises(ParameterError, match="penalty"):
            Ascent(matrix, f, 1, 1.0, 2.0, penalty, held=held)
    Ascent(matrix, f, 1, 1.0, 2.0, 0.0, held=True)


def ascended(result):
    return "ascent" in result.timings


def assert_agree(first, second):
    """Each objective is above the other's bound."""
    room = 1e-10 * abs(second.objective)
    assert first.status == second.status == "converged"
    assert first.objective >= second.lower_bound - room
    assert second.objective >= first.lower_bound - room


MODES = ("plain", "weighted", "penalised", "free", "free rows", "penalised rows", "rows", "dense")


@pytest.mark.parametrize(
    ("loss", "mode"),
    [(loss, "free weighted") for loss in DUAL]
    # Modes know of a loss only its conjugates: one with kinks, one without, one that is quadratic.
    + [(loss, mode) for mode in MODES for loss in DUAL if loss.name in ("hinge", "logistic", "squared")],
    ids=lambda case: getattr(case, "name", case),
)
def test_the_optimum_is_that_of_an_independent_solver(loss, mode):
    X, y = data(loss, d=300 if "rows" in mode else 90)
    weights = (
        np.random.default_rng(1).random(len(y)) * (np.arange(60) % 6 > 0) if "weighted" in mode else None
    )
    free, penalised = "free" in mode, "penalised" in mode
    options = {"fit_intercept": free or penalised, "penalize_intercept": penalised}
    A = X.toarray()
    result = bmrm.solve(
        A if mode == "dense" else X,
        y,
        loss,
        lam=LAM,
        tol=1e-9,
        sample_weight=weights,
        device="cpu",
        **options,
    )
    assert ascended(result)
    assert result.status == "converged"
    against = np.hstack([A, np.ones((len(y), 1))]) if penalised else A
    wanted = optimum(loss, against, y, LAM, weights, free)
    assert result.lower_bound <= wanted + 1e-9 * max(1.0, abs(wanted))
    assert result.objective == pytest.approx(wanted, rel=2e-7, abs=1e-9)


@pytest.mark.parametrize("name", ["multiclass", "multilabel"])
@pytest.mark.parametrize("mode", ["plain", "penalised", "weighted", "costs"])
def test_several_margins_end_at_the_optimum_of_planes(name, mode):
    rng, m = np.random.default_rng(5), 80
    X, _ = data(losses.get("hinge"), m=m, d=200)
    K = 6
    y = np.argmax(X @ rng.normal(size=(200, K)) + 0.5 * rng.normal(size=(m, K)), axis=1)
    if name == "multilabel":
        y = (rng.random((m, K)) < 0.4).astype(float)
        y[np.arange(K), np.arange(K)] = 1.0
    options = {"sample_weight": rng.random(m)} if mode == "weighted" else {}
    if mode == "penalised":
        options = {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0}
    if mode == "costs":
        if name == "multilabel":
            pytest.skip("multilabel knows no costs")
        options = {"costs": rng.random((K, K)) * (1.0 - np.eye(K))}
    up, by_planes = (
        bmrm.solve(X, y, name, lam=0.02, tol=1e-7, device="cpu", cuts_per_pass=cuts, **options)
        for cuts in ("auto", 1)
    )
    assert ascended(up)
    assert not ascended(by_planes)
    assert_agree(up, by_planes)


def noisy_counts(m, K, seed=0):
    """Rows of word counts by Zipf's law, of unlike lengths, and classes of which a third are noise."""
    rng, d = np.random.default_rng(seed), 3000
    y, shares = rng.integers(0, K, m), 1.0 / np.arange(1, d + 1)
    row = np.repeat(np.arange(m), rng.lognormal(4.5, 1.0, m).astype(int) + 5)
    own = (97 * y[row] + 31 * rng.integers(0, 200, len(row))) % d
    common = rng.choice(d, len(row), p=shares / shares.sum())
    X = sp.csr_matrix((np.ones(len(row)), (row, np.where(rng.random(len(row)) < 0.1, own, common))), (m, d))
    return X, np.where(rng.random(m) < 0.3, rng.integers(0, K, m), y)


@pytest.mark.parametrize("K", [2, 5, 20])
def test_classes_of_long_rows_take_few_steps(K):
    """A row has several classes at the margin, and all rows share words: most of the gap is in a few rows."""
    X, y = noisy_counts(200, K)
    found = bmrm.solve(X, y, "multiclass", lam=1e-4, tol=1e-3, device="cpu")
    assert found.status == "converged"
    assert ascended(found)
    assert "search" not in found.timings  # no plane has been searched for
    assert found.n_iter <= 60


def corner(name, rng, m, d, K):
    """X, labels and weights of an unusual problem of classes."""
    X = np.where(rng.random((m, d)) < 0.2, rng.normal(size=(m, d)), 0.0)
    y, weights = rng.integers(0, K, m), None
    y[:K] = np.arange(K)
    if name == "repeated rows":  # with labels that contradict each other
        X[m // 2 :] = X[: m - m // 2]
    elif name == "zero rows":
        X[::3] = 0.0
    elif name == "all rows zero":
        X[:] = 0.0
    elif name == "zero weights":
        weights = rng.random(m) * (rng.random(m) < 0.6)
    elif name == "a class without weight":
        weights = np.where(y == 1, 0.0, rng.random(m))
    elif name == "weights far apart":
        weights = 10.0 ** rng.uniform(-9.0, 0.0, m)
    elif name == "rows far apart":
        X *= 10.0 ** rng.uniform(-3.0, 2.0, (m, 1))
    return sp.csr_matrix(X), y, weights


CORNERS = ["repeated rows", "zero rows", "all rows zero", "zero weights", "a class without weight"]


@pytest.mark.parametrize("name", [*CORNERS, "weights far apart", "rows far apart"])
@pytest.mark.parametrize(
    ("K", "lam", "intercept"),
    [
        (3, 1e-6, False),
        (3, 1e-2, False),
        (3, 1e-2, True),
        (3, 1e6, False),
        (2, 1e-2, True),
        (100, 1e-3, True),
    ],
)
def test_corners_of_classes_are_certified(name, K, lam, intercept):
    """J from NumPy is what is claimed, no point of either method is below the other's bound."""
    m = K + 30
    X, y, weights = corner(name, np.random.default_rng(K), m, 150, K)
    if K == 2 and name == "a class without weight":
        weights[0] = weights.max()  # with one class there is nothing to learn
        y[0] = 1
    s = np.ones(m) if weights is None else weights
    rows = bmrm.Dataset(X, y, sample_weight=weights, device="cpu")
    given = {"loss": "multiclass", "lam": lam, "fit_intercept": intercept, "penalize_intercept": intercept}
    up = bmrm.solve(rows, tol=1e-5 if K < 100 else 1e-3, max_iter=1000, **given)
    assert ascended(up) == (name != "all rows zero")
    assert up.status in ("converged", "precision")
    counts = s > 0.0
    U, own = X[counts] @ up.w + up.intercept, np.searchsorted(up.classes, y[counts])
    wrong = np.arange(U.shape[1]) != own[:, None]
    risk = (U + wrong).max(axis=1) - U[np.arange(len(U)), own]
    square = float((up.w**2).sum() + (up.intercept**2).sum())
    objective = 0.5 * lam * square + float(s[counts] @ risk) / s.sum()
    assert up.objective == pytest.approx(objective, rel=1e-9, abs=1e-12)
    by_planes = bmrm.solve(rows, tol=1e-3, cuts_per_pass=1, max_iter=100, **given)
    room = 1e-9 * max(up.objective, by_planes.objective)
    assert up.lower_bound <= by_planes.objective + room
    assert by_planes.lower_bound <= up.objective + room


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10])
def test_classes_reach_any_tolerance(tol):
    X, y, weights = corner("zero weights", np.random.default_rng(0), 40, 150, 3)
    found = bmrm.solve(X, y, "multiclass", lam=1e-2, tol=tol, device="cpu", sample_weight=weights)
    assert found.status == "converged"
    assert found.gap <= tol * found.objective


def test_a_long_step_ends_when_it_must(monkeypatch):
    """A signal or the clock is looked for after each round of sweeps."""
    X, y = noisy_counts(200, 5)
    steps = bmrm.solve(X, y, "multiclass", lam=1e-4, tol=1e-2, device="cpu").n_iter
    monkeypatch.setattr(State, "must_end", lambda self: True)
    assert bmrm.solve(X, y, "multiclass", lam=1e-4, tol=1e-2, device="cpu").n_iter > 2 * steps
    monkeypatch.undo()

    def signalled(self):
        signal.raise_signal(signal.SIGINT)
        return must_end(self)

    must_end = State.must_end
    monkeypatch.setattr(State, "must_end", signalled)
    with pytest.raises(Interrupted) as caught:
        bmrm.solve(X, y, "multiclass", lam=1e-4, tol=1e-9, device="cpu")
    assert caught.value.result.n_iter == 1


def test_the_bound_never_exceeds_the_optimum_on_the_way():
    for loss, free in itertools.product(DUAL, (False, True)):
        X, y = data(loss)
        wanted = optimum(loss, X.toarray(), y, LAM, None, free)
        found = bmrm.solve(X, y, loss, lam=LAM, tol=1e-9, device="cpu", fit_intercept=free)
        assert ascended(found)
        room = 1e-9 * max(1.0, abs(wanted))
        assert all(
            row["lower_bound"] <= wanted + room <= row["objective"] + 2 * room for row in found.history
        )


LONG = 3000
"""Number of rows, so large that the gap is estimated from some of them."""


def gaps_of(name, wanted, steps, K=1):
    """Gap between objective and dual after each step of an ascent, and the rows that the first step moved."""
    loss = losses.get(name)
    X, y = data(loss, m=LONG, d=LONG, fill=10 / LONG)
    if name == "multiclass":
        y = np.arange(LONG) % K
    elif name == "multilabel":
        y = np.where(np.random.default_rng(1).random((LONG, K)) < 0.4, 1.0, -1.0)
    matrix = bmrm.Dataset(X, np.ones(LONG), device="cpu").matrix
    bound = loss.risk(y.astype(float), None, 1.0 / LONG, 1)
    ascent = Ascent(matrix, bound.conjugates(), K, 1e-3)
    w, r, start, found = np.zeros(LONG * K), np.empty(LONG * K), np.empty(LONG * K), []
    ascent.get(start)
    for step in range(steps):
        ascent.step(w, wanted)
        ascent.get(r)
        if step == 0:
            moved = np.any((r != start).reshape(LONG, K), axis=1).sum()
        z = np.ascontiguousarray(X @ w.reshape(-1, K)).ravel()
        values, _ = bound.cut(z, z, 0.0, 0.0, np.array([0, LONG * K]), np.empty_like(z))
        found.append(values.sum() + ascent.conjugate + 1e-3 * (w @ w))
    return np.array(found), moved


SEVERAL = [*((loss.name, 1) for loss in DUAL), ("multiclass", 4), ("multilabel", 3)]


@pytest.mark.parametrize(("name", "K"), SEVERAL)
def test_a_step_ends_at_the_gap_that_is_wanted(name, K):
    whole, moved = gaps_of(name, 0.0, 6, K)
    _, few = gaps_of(name, np.inf, 1, K)
    assert few < 0.2 * moved
    for wanted in whole[1] * np.array([1.0, 0.1]):
        found, _ = gaps_of(name, wanted, 8, K)
        reached = found[found <= wanted][0]
        assert reached >= 0.01 * wanted or reached in whole
        assert np.argmax(found <= wanted) <= np.argmax(whole <= wanted) + 2


@settings(deadline=None, max_examples=200)
@example(m=2, K=2, loss=losses.get("absolute"), weights="far apart", target=1.0, seed=498)
@given(
    m=st.integers(1, 40),
    K=st.integers(1, 3),
    loss=st.sampled_from(DUAL),
    weights=st.sampled_from(["one", "some", "far apart"]),
    target=st.floats(-1.5, 1.5),
    seed=st.integers(0, 1000),
)
def test_sums_are_balanced_within_bounds(m, K, loss, weights, target, seed):
    """Nothing leaves its bounds; the sum is reached if shrinking the present values can reach it."""
    rng = np.random.default_rng(seed)
    y = labels_for(loss, rng, m * K)
    s = {
        "one": np.ones(m * K),
        "some": rng.random(m * K) * (rng.random(m * K) > 0.4),
        "far apart": 10.0 ** rng.uniform(-12.0, 0.0, m * K),
    }[weights]
    f = loss.risk(y, s, 1.0 / (m * K), 1).conjugates()
    ascent = Ascent(bmrm.Dataset(np.ones((m, 2)), np.ones(m), device="cpu").matrix, f, K, LAM)
    r = np.clip(rng.normal(size=m * K) / m, f[:, LOW], f[:, HIGH])
    r[rng.random(m * K) < 0.3] = 0.0
    ascent.set(r)
    before = r.reshape(m, K)
    up, down = (np.maximum(sign * before, 0.0).sum(axis=0) for sign in (1.0, -1.0))
    sums = np.where(target < 0.0, target * down, target * up)
    ascent.balance(sums)
    ascent.get(after := np.empty(m * K))
    assert (f[:, LOW] <= after).all()
    assert (after <= f[:, HIGH]).all()
    if abs(target) <= 1.0:
        size = np.abs(after.reshape(m, K)).sum(axis=0) + up + down
        assert (np.abs(after.reshape(m, K).sum(axis=0) - sums) <= 1e-14 * size).all()


def test_shares_of_classes_are_not_balanced():
    y = np.arange(60) % 3.0
    bound = losses.get("multiclass").risk(y, None, 1.0 / 60, 1)
    matrix = bmrm.Dataset(data(losses.get("hinge"))[0], y, device="cpu").matrix
    ascent, r, w = Ascent(matrix, bound.conjugates(), 3, LAM), np.empty((2, 180)), np.zeros(270)
    ascent.step(w)
    ascent.get(r[0])
    ascent.balance(np.ones(3))
    ascent.get(r[1])
    np.testing.assert_array_equal(r[1], r[0])


@pytest.mark.parametrize("name", ["hinge", "logistic", "absolute"])
@pytest.mark.parametrize("scaling", [None, 1.0, 30.0])
def test_an_intercept_takes_few_more_steps(name, scaling):
    """Even if most rows are of one class or all labels far from 0: rows need not find it one by one."""
    rng = np.random.default_rng(4)
    X = sp.random(400, 3000, 0.01, "csr", rng=rng, dtype=np.float64)
    u = X @ rng.normal(size=3000) + 0.3 * rng.normal(size=400)
    y = u + 1000.0 if name == "absolute" else np.where(u > np.quantile(u, 0.9), 1.0, -1.0)
    given_intercept = {"penalize_intercept": scaling is not None, "intercept_scaling": scaling or 1.0}
    found = bmrm.solve(X, y, name, lam=1e-4, tol=1e-4, device="cpu", fit_intercept=True, **given_intercept)
    assert ascended(found)
    assert found.n_iter <= 40
    by_planes = bmrm.solve(
        X, y, name, lam=1e-4, tol=1e-4, device="cpu", cuts_per_pass=1, fit_intercept=True, **given_intercept
    )
    assert_agree(found, by_planes)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "multiclass"])
def test_the_same_bits_each_time_and_for_a_few_threads(loss):
    X, y = data(losses.get(loss), m=400, d=2000, fill=0.02)
    if loss == "multiclass":
        y = np.arange(400) % 7
    found = [bmrm.solve(X, y, loss, lam=1e-3, device="cpu", threads=threads) for threads in (1, 1, 3)]
    assert all(ascended(result) for result in found)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].w, other.w)
        assert found[0].lower_bound == other.lower_bound


def test_sorted_classes_take_no_longer():
    X, y = data(losses.get("hinge"), m=2000, d=3000, fill=0.01)
    order = np.argsort(y, kind="stable")
    mixed = bmrm.solve(X, y, lam=1e-4, device="cpu")
    ordered = bmrm.solve(X[order], y[order], lam=1e-4, device="cpu")
    assert_agree(mixed, ordered)
    assert ordered.n_iter <= 1.5 * mixed.n_iter


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": True},
        {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 3.0},
    ],
)
@pytest.mark.parametrize("d", [90, 300])
def test_a_warm_start_begins_at_its_derivatives(options, d):
    """At the answer most derivatives are right: fewer steps than from nothing."""
    X, y = data(losses.get("squared_hinge"), d=d)
    cold = bmrm.solve(X, y, "squared_hinge", lam=1e-3, tol=1e-8, device="cpu", **options)
    warm = bmrm.solve(X, y, "squared_hinge", lam=1e-3, tol=1e-8, device="cpu", warm_start=cold, **options)
    assert_agree(warm, cold)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("name", ["hinge", "multiclass", "multilabel"])
def test_a_warm_start_of_a_larger_lam_is_no_burden(name):
    """Its derivatives as they are belong to weights far too long: they would take a fifth more steps."""
    rng = np.random.default_rng(0)
    X = sp.random_array((2000, 1500), density=0.01, format="csr", rng=rng)
    z = X @ rng.standard_normal(1500) + 0.3 * rng.standard_normal(2000)
    y = np.where(z > 0.0, 1.0, -1.0)
    if name == "multiclass":
        y = np.digitize(z, [-0.5, 0.5])
    elif name == "multilabel":
        y = [tuple(np.flatnonzero(row)) for row in np.stack([z > 0.0, z < 0.0, z > 1.0], axis=1)]
    rows = bmrm.Dataset(X, y, device="cpu")
    last = bmrm.solve(rows, loss=name, lam=1e-3, tol=1e-3)
    for lam in (3e-4, 1e-4, 3e-5):
        cold = bmrm.solve(rows, loss=name, lam=lam, tol=1e-3)
        warm = bmrm.solve(rows, loss=name, lam=lam, tol=1e-3, warm_start=last)
        assert ascended(warm)
        assert_agree(warm, cold)
        assert warm.n_iter <= cold.n_iter
        last = cold


@pytest.mark.parametrize("free", [False, True])
def test_a_path_continues_with_its_cuts(free):
    X, y = data(losses.get("hinge"))
    rows = bmrm.Dataset(X, y, device="cpu")
    options = {"loss": "hinge", "tol": 1e-7, "fit_intercept": free}
    found = bmrm.path(rows, lams=[0.3, 0.05, 0.01], **options)
    for result in found:
        assert ascended(result)
        assert_agree(result, bmrm.solve(rows, lam=result.lam, cuts_per_pass=1, **options))


def test_a_checkpoint_continues(tmp_path):
    X, y = data(losses.get("hinge"), m=300, d=400)
    stopped = bmrm.solve(X, y, lam=1e-4, tol=1e-9, device="cpu", max_iter=2)
    path = tmp_path / "checkpoint"
    save(path, Model.from_result(stopped), problem_of(stopped), stopped.bundle.working())
    resumed = bmrm.solve(X, y, lam=1e-4, tol=1e-9, device="cpu", warm_start=Checkpoint.load(path))
    assert ascended(resumed)
    assert resumed.status == "converged"
    assert resumed.history[0]["iteration"] == 2
    assert resumed.lower_bound >= stopped.lower_bound


@pytest.mark.parametrize("free", [False, True])
def test_planes_begin_if_the_gap_hardly_falls(free, monkeypatch):
    """Rows that are all nearly the same direction: what one gains the next takes back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 600)) + 1e-3 * rng.normal(size=(60, 600))
    y = rng.choice([-1.0, 1.0], 60)
    monkeypatch.setattr(host_ascent, "MIN_STEPS", 3)
    options = {"lam": 1e-5, "tol": 1e-4, "device": "cpu", "fit_intercept": free}
    result = bmrm.solve(X, y, **options)
    assert ascended(result)
    assert "search" in result.timings
    assert_agree(result, bmrm.solve(X, y, cuts_per_pass=1, **options))


def test_a_stop_by_the_callback_keeps_what_was_found():
    X, y = data(losses.get("hinge"), m=300, d=400)
    result = bmrm.solve(X, y, lam=1e-4, tol=1e-9, device="cpu", callback=lambda state: state.iteration == 2)
    assert result.status == "interrupted"
    assert result.n_iter == 2
    assert ascended(result)
    assert result.lower_bound < result.objective < 1.0


def test_when_ascent_pays(monkeypatch):
    monkeypatch.setattr(plan, "MAX_RELATIVE_LAM", MAX_RELATIVE_LAM)
    monkeypatch.setattr(plan, "MAX_RELATIVE_LAM_OF_SEVERAL", MAX_RELATIVE_LAM_OF_SEVERAL)

    def pays(shape, nnz, loss="hinge", reg=None, threads=1, K=1, in_step=False):
        m, d = shape
        ends = np.linspace(0, nnz, m + 1).astype(np.int64)
        width = int(np.diff(ends).max())
        at = (np.arange(nnz) - np.repeat(ends[:-1], np.diff(ends))) % max(1, min(d, width))
        matrix = _cpu.Matrix(ends, at.astype(np.int32), None, shape)
        facts = Facts(
            MatrixAdapter(matrix) if K == 1 else MultiOutput(matrix, K, None),
            MatrixSize(m, d, nnz, 0, is_dense=False),
            m,
            losses.get(loss),
            reg or L2(1e-5),
            threads=threads,
            in_lockstep=in_step,
            row_square=lambda: float(matrix.mean_squares.sum()),
        )
        return ascent_pays(facts)

    text = (3000, 6000), 90_000
    assert pays(*text)
    assert pays(*text, loss="squared")
    assert pays(*text, loss="multiclass", K=5)
    assert pays(*text, threads=64)
    assert pays(*text, loss="logistic")
    assert not pays(*text, loss="poisson")
    assert not pays(*text, loss="softmax", K=5)
    assert not pays(*text, reg=L2(1e-5, np.ones(6000)))
    # Thirty ones per row: planes take few passes from some lam on.
    assert pays(*text, reg=L2(30 * MAX_RELATIVE_LAM))
    assert not pays(*text, reg=L2(30.1 * MAX_RELATIVE_LAM))
    assert pays(*text, reg=L2(30 * MAX_RELATIVE_LAM_OF_SEVERAL), loss="multiclass", K=5)
    assert not pays(*text, reg=L2(30.1 * MAX_RELATIVE_LAM_OF_SEVERAL), loss="multiclass", K=5)
    assert not pays((3000, 300), 90_000)
    assert not pays((3000, 185), 30_000)
    assert pays((3000, 190), 30_000)
    assert not pays((3000, 370), 30_000, threads=2)
    assert pays((3000, 380), 30_000, threads=2)
    assert not pays((3000, 740), 30_000, threads=64)
    assert pays((3000, 760), 30_000, threads=64)
    assert pays((3000, 600), 30_000, in_step=True)
    assert not pays((3000, 600), 30_000, in_step=True, loss="logistic")
    assert pays((2400, 600), 30_000, in_step=True, loss="logistic")
    assert not pays((700, 600), 420_000)
    assert pays((600, 600), 360_000)
    assert pays((600, 600), 360_000, reg=L2(1e9))  # there would be several planes per pass
    assert not pays((600, 600), 360_000, reg=L2(1e9), loss="logistic")
    many = (5000, 90_000), 9_000_000
    assert pays(*many, threads=4)
    assert not pays(*many, threads=5)
    assert pays((5000, 90_000), 7_000_000, threads=5)
    for threads in (1, 2, 64):  # the method, and so the bits, do not depend on them
        assert pays(*many, threads=threads, K=5, loss="multiclass")
        assert pays(*many, threads=threads, K=5, loss="multilabel")
        assert pays((3000, 370), 30_000, threads=threads, K=5, loss="multiclass")
    monkeypatch.setattr(dual_ascent, "CUT_BYTES", 3000 * dual_ascent.MARGIN_BYTES)
    assert pays(*text)
    assert not pays(*text, K=2, loss="multilabel")


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "bmrm"},
        {"cuts_per_pass": 2},
        {"feature_lambda": np.linspace(1, 2, 90)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_no_ascent_if_planes_are_requested_or_needed(options):
    X, y = data(losses.get("hinge"))
    result = bmrm.solve(X, y, lam=LAM, device="cpu", **options)
    assert not ascended(result)
    assert result.status == "converged"


def test_every_pair_of_a_loss_and_a_lam_is_certified():
    """From lam so large that a sweep is enough to one so small that many are not."""
    for loss, lam in itertools.product(("hinge", "absolute", "huber"), (10.0, 1e-1, 1e-3, 1e-5)):
        X, y = data(losses.get(loss), m=100, d=120)
        result = bmrm.solve(X, y, loss, lam=lam, tol=1e-5, device="cpu")
        assert result.status == "converged", (loss, lam)
        assert result.gap <= 1e-5 * result.objective


def test_numbers_of_losses_are_checked():
    with pytest.raises(ValueError, match="no loss has number"):
        _losses.has_dual(99)


@pytest.mark.parametrize("max_cuts", [None, 10, 20])
def test_planes_take_over_if_ascent_is_stuck(max_cuts):
    """Few cuts are kept, so that many passes without progress look like the end."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (6, 300)).astype(float)[np.arange(20) % 6] * (rng.random(300) < 0.2)
    y = rng.standard_normal(20)
    found = bmrm.solve(X, y, "epsilon_insensitive", lam=1.2e-4, max_cuts=max_cuts)
    assert found.status == "converged"
