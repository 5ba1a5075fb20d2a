"""The inner QP against an interior point method, and the properties that certificates rest on."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm.linear.bundle import _qp


def random_problem(rng, n, d, groups):
    A = rng.normal(size=(n, d))
    group = np.concatenate([np.arange(groups), rng.integers(0, groups, n - groups)]).astype(np.int32)
    return A, rng.normal(size=n), group


def run(
    A, b, group, lam, *, alpha=None, best=np.inf, rel_tol=0.0, abs_tol=1e-11, max_changes=100_000,
    serial=None, active_set=None, origin=None,
):  # fmt: skip
    groups = int(group.max()) + 1
    if alpha is None:
        alpha = np.zeros(len(b))
        for p in range(groups):
            alpha[np.flatnonzero(group == p)[0]] = 1.0
    gradient = np.empty(len(b))
    found = _qp.solve(
        np.ascontiguousarray(A @ A.T), b, group, np.arange(len(b)) if serial is None else serial, groups, lam,
        alpha, gradient, active_set or _qp.ActiveSet(),
        best=best, rel_tol=rel_tol, abs_tol=abs_tol, max_changes=max_changes, origin=origin,
    )  # fmt: skip
    return alpha, gradient, found


def oracle(A, b, group, lam):
    """The minimum over w and a height for each group: the dual's Hessian A A' is singular and rounds."""
    (n, d), groups = A.shape, int(group.max()) + 1
    E = sp.csc_matrix((np.ones(n), (np.arange(n), group)), shape=(n, groups))
    settings_ = clarabel.DefaultSettings()
    settings_.verbose = False
    settings_.tol_gap_abs = settings_.tol_gap_rel = 1e-12
    problem = clarabel.DefaultSolver(
        sp.diags(np.append(np.full(d, lam), np.zeros(groups))).tocsc(),
        np.append(np.zeros(d), np.ones(groups)),
        sp.hstack([sp.csc_matrix(A), -E]).tocsc(),
        -b,
        [clarabel.NonnegativeConeT(n)],
        settings_,
    )
    return problem.solve().obj_val


@pytest.mark.parametrize("lam", [1.0, 1e-3])
@pytest.mark.parametrize(
    ("n", "d", "groups"), [(1, 3, 1), (20, 5, 1), (60, 4, 1), (60, 30, 8), (200, 20, 16)]
)
def test_matches_interior_point(n, d, groups, lam):
    A, b, group = random_problem(np.random.default_rng(n + groups), n, d, groups)
    alpha, gradient, (dual, gap, _) = run(A, b, group, lam)
    wanted = oracle(A, b, group, lam)
    assert dual == pytest.approx(wanted, rel=1e-10)
    # The dual is second order in alpha: if it is right to all digits, the gap is right to half of them.
    assert gap <= 1e-4 * max(1.0, abs(dual))
    np.testing.assert_allclose(gradient, b - A @ (A.T @ alpha) / lam, rtol=1e-8, atol=1e-8 / lam)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    d=st.integers(1, 6),
    groups=st.integers(1, 5),
    copies=st.integers(1, 3),
    changes=st.integers(0, 30),
)
def test_any_stop_is_feasible_and_bounds(seed, n, d, groups, copies, changes):
    rng = np.random.default_rng(seed)
    A, b, group = random_problem(rng, n + groups, d, groups)
    A, b, group = np.tile(A, (copies, 1)), np.tile(b, copies), np.tile(group, copies)
    alpha, _, (dual, gap, _) = run(A, b, group, 0.1, max_changes=changes)
    assert np.all(alpha >= 0.0)
    np.testing.assert_allclose(np.bincount(group, alpha), 1.0, rtol=1e-12)
    w = -A.T @ alpha / 0.1
    model = 0.05 * w @ w + sum((A @ w + b)[group == p].max() for p in range(groups))
    assert dual == pytest.approx(b @ alpha - 0.05 * w @ w, rel=1e-9, abs=1e-9)
    assert model - dual == pytest.approx(gap, rel=1e-6, abs=1e-7)
    assert gap >= -1e-9


def test_repeated_cuts_do_not_stall():
    rng = np.random.default_rng(0)
    A, b, group = random_problem(rng, 30, 3, 2)
    A = np.vstack([A] * 4 + [A + 1e-9 * rng.normal(size=A.shape)])
    b, group = np.tile(b, 5), np.tile(group, 5)
    _, _, (dual, gap, changes) = run(A, b, group, 1e-2, abs_tol=1e-9)
    assert gap <= 1e-4
    assert changes < 500
    assert dual == pytest.approx(oracle(A, b, group, 1e-2), rel=1e-8)


@pytest.mark.parametrize("rel_tol", [0.0, np.inf])
@pytest.mark.parametrize("seed", range(5))
def test_mass_on_cuts_that_depend_on_each_other_is_kept(seed, rel_tol):
    """Also if the start is good enough as it is."""
    rng = np.random.default_rng(seed)
    n, groups = 12, 2
    slopes, group = rng.normal(size=n), np.arange(n, dtype=np.int32) % groups
    start = rng.random(n)
    start /= np.bincount(group, start, groups)[group]
    gram, b = np.outer(slopes, slopes), rng.normal(size=n)
    alpha, _, (dual, _, _) = run(
        slopes[:, None], b, group, 1.0, alpha=start.copy(), best=10.0, rel_tol=rel_tol, abs_tol=1e-12
    )
    assert (alpha >= 0.0).all()
    np.testing.assert_allclose(np.bincount(group, alpha, groups), 1.0, rtol=1e-14)
    assert dual == pytest.approx(b @ alpha - 0.5 * alpha @ gram @ alpha, abs=1e-12)
    assert dual >= b @ start - 0.5 * start @ gram @ start - 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_the_change_from_an_origin_is_the_same_problem(seed):
    """Offsets are then the values at the origin of alpha."""
    rng = np.random.default_rng(seed)
    n, groups = 40, 3
    A, b, group = rng.normal(size=(n, 6)), rng.normal(size=n), np.arange(n, dtype=np.int32) % groups
    alpha = np.where(rng.random(n) < 0.4, rng.random(n), 0.0) + (np.arange(n) < groups)
    alpha /= np.bincount(group, alpha, groups)[group]
    gram = A @ A.T
    _, _, (dual, gap, _) = run(A, b, group, 0.5, alpha=alpha.copy(), abs_tol=1e-10)
    values = b - gram @ alpha / 0.5
    _, _, (rise, other_gap, _) = run(A, values, group, 0.5, alpha=alpha.copy(), origin=alpha, abs_tol=1e-10)
    assert max(gap, other_gap) <= 1e-10
    assert b @ alpha - alpha @ gram @ alpha + rise == pytest.approx(dual, abs=1e-9)
    assert rise > 0.01


def test_warm_start_is_used():
    A, b, group = random_problem(np.random.default_rng(5), 80, 20, 4)
    alpha, _, (dual, _, cold) = run(A, b, group, 1e-2)
    _, _, (again, _, warm) = run(A, b, group, 1e-2, alpha=alpha.copy(), abs_tol=1e-8)
    assert warm == 0 < cold
    assert again == pytest.approx(dual, rel=1e-10)


def test_loose_tolerance_follows_the_outer_gap():
    A, b, group = random_problem(np.random.default_rng(6), 80, 20, 4)
    _, _, (tight, _, many) = run(A, b, group, 1e-2)
    _, _, (loose, gap, few) = run(A, b, group, 1e-2, best=tight + 10.0, rel_tol=0.5)
    assert few < many
    assert gap <= 0.5 * (tight + 10.0 - loose)


@pytest.mark.parametrize("n", [1, 7, 8, 60, 123])
def test_cholesky_solves(n):
    rng = np.random.default_rng(n)
    A, x = rng.normal(size=(n, n)), rng.normal(size=n)
    M = A @ A.T + np.eye(n)
    found = M @ x
    assert _qp.cholesky_solve(M.copy(), found)
    np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_cholesky_refuses_what_is_not_positive_definite(value):
    assert not _qp.cholesky_solve(np.diag([1.0, value, 1.0]), np.ones(3))


def test_a_group_without_mass_is_refused():
    with pytest.raises(ValueError, match="no cut with mass"):
        _qp.solve(np.eye(2), np.ones(2), np.zeros(2, np.int32), np.arange(2), 1, 1.0, np.zeros(2), np.ones(2),
                  _qp.ActiveSet(), best=1.0, rel_tol=0.1, abs_tol=0.0, max_changes=1)  # fmt: skip


def test_a_step_that_overflows_is_not_taken():
    rng = np.random.default_rng(0)
    A, alpha, gradient = rng.standard_normal((20, 3)), np.eye(20)[0], np.empty(20)
    group, serial = np.zeros(20, np.int32), np.arange(20)
    for _ in range(3):
        dual, gap, _ = _qp.solve(
            A @ A.T, rng.standard_normal(20), group, serial, 1, 1e308, alpha, gradient, _qp.ActiveSet(),
            best=1.0, rel_tol=1e-6, abs_tol=0.0, max_changes=100,
        )  # fmt: skip
        assert np.isfinite([dual, gap]).all()
        assert (alpha >= 0).all()
        assert alpha.sum() == pytest.approx(1.0)


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="disagree"):
        _qp.cholesky_solve(np.eye(3), np.ones(2))
    with pytest.raises(ValueError, match="disagree"):
        _qp.solve(np.eye(2), np.ones(3), np.zeros(3, np.int32), np.arange(3), 1, 1.0, np.ones(3), np.ones(3),
                  _qp.ActiveSet(), best=1.0, rel_tol=0.1, abs_tol=0.0, max_changes=1)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 4),
    st.integers(2, 12),
    st.lists(st.sampled_from(["add", "drop", "merge", "lam", "swap", "solve"]), min_size=1, max_size=25),
    st.integers(0, 2**31),
)
def test_a_kept_face_changes_no_answer(groups, d, events, seed):
    rng = np.random.default_rng(seed)
    A, b, group = random_problem(rng, 3 * groups, d, groups)
    serial, made, lam, active_set = np.arange(len(b)), len(b), 0.3, _qp.ActiveSet()
    alpha, _, _ = run(A, b, group, lam, serial=serial, active_set=active_set)
    for event in events:
        if event == "add":
            A, b = np.vstack([A, rng.normal(size=(groups, d))]), np.append(b, rng.normal(size=groups))
            group = np.append(group, np.arange(groups)).astype(np.int32)
            serial = np.append(serial, made + np.arange(groups))
            alpha, made = np.append(alpha, np.zeros(groups)), made + groups
        elif event == "merge" and np.count_nonzero(group == group[-1]) > 1:
            i, j = np.flatnonzero(group == group[-1])[:2]
            mass = alpha[i] + alpha[j]
            share = alpha[i] / mass if mass else 0.5
            A[i], b[i] = share * A[i] + (1 - share) * A[j], share * b[i] + (1 - share) * b[j]
            alpha[i], serial[i], made = mass, made, made + 1
            alpha[j], b[j] = 0.0, -1e6
        elif event == "lam":
            lam *= 0.5
        elif event in ("swap", "drop"):
            kept = rng.permutation(len(b)) if event == "swap" else np.arange(len(b))
            if event == "drop":
                kept = kept[alpha > 0.0]
            A, b, group, serial, alpha = A[kept], b[kept], group[kept], serial[kept], alpha[kept]
        alpha, _, (dual, gap, _) = run(A, b, group, lam, alpha=alpha, serial=serial, active_set=active_set)
        _, _, (wanted, room, _) = run(A, b, group, lam)
        assert dual <= wanted + room + 1e-9 * (1.0 + abs(wanted))
        assert wanted <= dual + gap + 1e-9 * (1.0 + abs(wanted))
        assert gap <= 1e-6 * (1.0 + abs(wanted))


def check_bounds(A, b, group, lam, alpha, dual, gap):
    """Feasible, and between D(alpha) and the model's value there: the two ends of a certificate."""
    assert np.all(alpha >= 0.0)
    np.testing.assert_allclose(np.bincount(group, alpha), 1.0, rtol=1e-12)
    w = -A.T @ alpha / lam
    size = 1.0 + abs(dual) + np.abs(b).max() + lam * (w @ w)
    assert dual == pytest.approx(b @ alpha - 0.5 * lam * w @ w, abs=1e-9 * size)
    tops = [(A @ w + b)[group == p].max() for p in range(int(group.max()) + 1)]
    assert 0.5 * lam * w @ w + sum(tops) - dual == pytest.approx(gap, abs=1e-8 * size)


@pytest.mark.parametrize("small", [0.0, 1e-4, 1e-7, 1e-8, 1e-10, 1e-12, 1e-14, 1e-20, 1e-75, 1e-150])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("n", "d", "groups"), [(21, 5, 7), (21, 5, 1), (60, 20, 4)])
def test_curvatures_of_all_scales(n, d, groups, whole, small):
    """Some cuts, or all of some blocks, are much shorter than the others."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        group = np.resize(np.arange(groups, dtype=np.int32), n)
        short = group % 2 == 1 if whole else rng.random(n) < 0.5
        A, b = np.where(short, small, 1.0)[:, None] * rng.normal(size=(n, d)), rng.normal(size=n)
        alpha, _, (dual, gap, changes) = run(A, b, group, 1.0, abs_tol=1e-9)
        check_bounds(A, b, group, 1.0, alpha, dual, gap)
        assert gap <= 1e-9
        assert changes <= 4 * n


@pytest.mark.parametrize("large", [1e3, 1e6, 1e9])
def test_a_cut_from_far_away_spoils_no_other(large):
    """Such cuts come from exp() and squares: huge, and below the others nearly everywhere."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A, b = rng.normal(size=(40, 8)), rng.normal(size=40)
        group = np.resize(np.arange(4, dtype=np.int32), 40)
        # The first of a block holds all its mass at the start.
        A[[0, 37]] *= large
        b[[0, 37]] -= large
        alpha, _, (dual, gap, _) = run(A, b, group, 1.0, abs_tol=1e-9)
        check_bounds(A, b, group, 1.0, alpha, dual, gap)
        assert gap <= max(1e-9, 1e-14 * large)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    groups=st.sampled_from([1, 3, 16]),
    cuts=st.integers(1, 20),
    d=st.integers(1, 30),
    spread=st.integers(0, 6),
    twins=st.sampled_from([0.0, 1e-12, 1e-7, 1e-3]),
    lam=st.sampled_from([1.0, 1e-2]),
)
def test_twins_and_scales_against_interior_point(seed, groups, cuts, d, spread, twins, lam):
    rng = np.random.default_rng(seed)
    n, doubled = groups * cuts, groups * cuts // 2
    A, b = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-spread, 1, size=d), rng.normal(size=n)
    group = np.resize(np.arange(groups, dtype=np.int32), n)
    A = np.vstack([A, A[:doubled] + twins * rng.normal(size=(doubled, d))])
    b, group = np.append(b, b[:doubled] - twins), np.append(group, group[:doubled])
    alpha, _, (dual, gap, _) = run(A, b, group, lam, best=0.0, abs_tol=1e-9)
    check_bounds(A, b, group, lam, alpha, dual, gap)
    wanted = oracle(A, b, group, lam)
    size = 1.0 + abs(wanted) + np.abs(b).max()
    assert dual <= wanted + 1e-6 * size
    assert wanted <= dual + gap + 1e-6 * size
    assert gap <= 1e-4 * size


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    groups=st.sampled_from([1, 4, 16]),
    passes=st.integers(2, 25),
    share=st.sampled_from([0.5, 0.1, 1e-3]),
)
def test_a_bundle_that_grows_and_forgets(seed, groups, passes, share):
    """Cuts of a convex piecewise linear risk, pass by pass, with a kept active set; idle ones go."""
    rng = np.random.default_rng(seed)
    d, lam = 8, 1e-2
    X, side = rng.normal(size=(groups, 40, d)), rng.choice([-1.0, 1.0], size=(groups, 40))
    w, active_set, made = np.zeros(d), _qp.ActiveSet(), 0
    A, b = np.empty((0, d)), np.empty(0)
    group, serial, alpha = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
    best = np.inf
    for k in range(passes):
        margins = side * (X @ w)
        missed = (margins < 1.0) * side / side.size
        best = min(best, 0.5 * lam * w @ w + np.maximum(0.0, 1.0 - margins).sum() / side.size)
        A = np.vstack([A, -np.einsum("pi,pij->pj", missed, X)])
        b = np.append(b, (margins < 1.0).sum(axis=1) / side.size)
        group = np.append(group, np.arange(groups, dtype=np.int32))
        serial, made = np.append(serial, made + np.arange(groups)), made + groups
        alpha = np.append(alpha, np.full(groups, 1.0 if k == 0 else 0.0))
        alpha, _, (dual, gap, _) = run(
            A, b, group, lam, alpha=alpha, serial=serial, active_set=active_set, best=best, rel_tol=share,
            abs_tol=1e-13,
        )  # fmt: skip
        check_bounds(A, b, group, lam, alpha, dual, gap)
        assert gap <= max(1e-12, share * (best - dual))
        assert dual <= best + 1e-12
        w = -A.T @ alpha / lam
        if k % 6 == 5:
            kept = (alpha > 0.0) | (np.arange(len(b)) >= len(b) - groups)
            A, b, group, serial, alpha = A[kept], b[kept], group[kept], serial[kept], alpha[kept]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 24, 33])
def test_cholesky_reads_one_triangle(n):
    rng = np.random.default_rng(n)
    A, x = rng.normal(size=(n, n)), rng.normal(size=n)
    M = A @ A.T + n * np.eye(n)
    found = M @ x
    upper = np.triu(M) + np.tril(rng.normal(size=(n, n)), -1)
    assert _qp.cholesky_solve(upper, found)
    np.testing.assert_allclose(found, x, rtol=1e-10, atol=1e-11)


def table(capacity):
    kinds = (np.float64, np.float64, np.int32, np.int32, np.int64)
    arrays = np.zeros((capacity, capacity)), *(np.zeros(capacity, kind) for kind in kinds)
    arrays = *arrays, np.zeros((4, capacity))
    return _qp.Table(*arrays), arrays


def test_a_table_keeps_the_products_of_each_pass():
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(6, 4)), rng.normal(size=6)
    kept, (gram, offset, alpha, group, idle, serial, _) = table(8)
    for n in (2, 4, 6):
        assert kept.append(A[n - 2 : n] @ A[:n].T, b[n - 2 : n], 10 + n - 2)
    np.testing.assert_array_equal(gram[:6, :6], np.tril(A @ A.T) + np.tril(A @ A.T, -1).T)
    np.testing.assert_array_equal(offset[:6], b)
    np.testing.assert_array_equal(group[:6], [0, 1] * 3)
    np.testing.assert_array_equal(alpha[:6], [1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(serial[:6], 10 + np.arange(6))
    squares, gap = kept.maximise(
        6, 2, 0.3, _qp.ActiveSet(), best=np.inf, rel_tol=0.0, abs_tol=1e-12, max_changes=100
    )
    assert squares == pytest.approx((A**2).sum(axis=1) @ alpha[:6])
    assert gap <= 1e-12
    wanted, _, _ = run(A, b, group[:6], 0.3, abs_tol=1e-12)
    np.testing.assert_allclose(alpha[:6], wanted, atol=1e-6)
    assert kept.offset_of_mean(6) == pytest.approx(b @ alpha[:6])
    for _ in range(3):
        kept.age(6)
    np.testing.assert_array_equal(idle[:6], np.where(alpha[:6] > 0.0, 0, 3))
    assert kept.count_idle(6, 2) == np.count_nonzero(alpha[:6] == 0.0)
    assert kept.count_idle(6, 3) == 0
    squares = (A**2).sum(axis=1)
    most = float(np.median(squares))
    assert kept.steep(6, 12, most) == [k for k in range(2, 6) if squares[k] > most]


def test_a_table_takes_the_offsets_that_it_is_given():
    A, b = np.eye(3), np.array([3.0, 0.0, 0.0])
    kept, (_, _, alpha, *_) = table(3)
    for n in (1, 2, 3):
        kept.append(A[n - 1 : n] @ A[:n].T, b[n - 1 : n], n)
    kept.maximise(3, 1, 1.0, _qp.ActiveSet(), best=np.inf, rel_tol=0.0, abs_tol=1e-12, max_changes=100,
                  offsets=np.zeros(3))  # fmt: skip
    np.testing.assert_allclose(alpha, 1 / 3, atol=1e-9)


def test_a_table_continues_from_known_values():
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(5, 3)), rng.normal(size=5)
    kept, (_, _, alpha, *_) = table(5)
    for n in range(1, 6):
        kept.append(A[n - 1 : n] @ A[:n].T, b[n - 1 : n], n)
    start = alpha.copy()
    heights = b - A @ (A.T @ start) / 0.7
    kept.maximise(5, 1, 0.7, _qp.ActiveSet(), best=np.inf, rel_tol=0.0, abs_tol=1e-13, max_changes=100,
                  offsets=heights, origin=start)  # fmt: skip
    wanted, _, _ = run(A, b, np.zeros(5, np.int32), 0.7, abs_tol=1e-13)
    np.testing.assert_allclose(alpha, wanted, atol=1e-6)


def test_a_table_computes_the_blur_of_a_mean_and_whether_it_is_one():
    rng = np.random.default_rng(4)
    kept, (_, _, _, group, _, _, blur) = table(6)
    for n in (2, 4, 6):
        kept.append(np.ones((2, n)), np.zeros(2), n)
    blur[:] = rng.random(blur.shape)
    alpha = np.array([0.25, 0.5, 0.75, 0.25, 0.0, 0.25])
    np.testing.assert_allclose(kept.blur_of_mean(alpha), blur @ alpha, rtol=1e-15)
    np.testing.assert_array_equal(group, [0, 1] * 3)
    assert kept.missed(alpha, 2) == 0.0
    assert kept.missed(alpha + 0.125 * (np.arange(6) == 2), 2) == 0.125
    assert kept.missed(alpha * (group == 1), 2) == 1.0
    assert kept.missed(alpha * (group == 1), 2, 0) == 0.0
    assert kept.missed(alpha, 1) == np.inf
    for wrong in (-1e-300, np.nan):
        assert kept.missed(np.array([1.0, 1.0, wrong]), 2) == np.inf


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_table_takes_no_cut_that_is_not_finite(value):
    kept, arrays = table(4)
    assert kept.append(np.eye(2), np.zeros(2), 0)
    before = [array.copy() for array in arrays]
    products = np.ones((2, 4))
    products[1, 2] = value
    assert not kept.append(products, np.zeros(2), 2)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_a_table_checks_sizes():
    with pytest.raises(ValueError, match="disagree"):
        _qp.Table(
            np.zeros((2, 2)),
            *np.zeros((2, 3)),
            *np.zeros((2, 3), np.int32),
            np.zeros(3, int),
            np.zeros((4, 3)),
        )
    kept, _ = table(2)
    with pytest.raises(ValueError, match="room"):
        kept.append(np.ones((3, 3)), np.zeros(3), 0)
    with pytest.raises(ValueError, match="disagree"):
        kept.append(np.ones((2, 2)), np.zeros(1), 0)
    with pytest.raises(ValueError, match="room"):
        kept.age(3)
    with pytest.raises(ValueError, match="there must be a cut"):
        kept.maximise(0, 1, 1.0, _qp.ActiveSet(), best=1.0, rel_tol=0.1, abs_tol=0.0, max_changes=1)
