"""Free intercepts of several classes: softened risks, their planes and minima, and solves."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import bmrm
from bmrm import losses
from bmrm.errors import DataError
from bmrm.linear.models.checkpoint import Checkpoint, save
from bmrm.linear.selection.cross_validation import cross_validate
from bmrm.linear.warm_start import problem_of
from bmrm.losses import _losses

NAMES = ("softmax", "multiclass", "multilabel", "multilabel_ranking")
LABEL_SETS = ("multilabel", "multilabel_ranking")


def coded(name, rng, m, K):
    if name in LABEL_SETS:
        return np.where(rng.random((m, K)) < 0.4, 1.0, -1.0)
    return np.concatenate([np.arange(K), rng.integers(0, K, m - K)]).astype(float)


def problem(name, m=80, d=4, K=4, seed=0):
    """Return X, labels as a user has them, and row weights; some classes are rare, some weights are 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d)) + 1.0
    scores = X @ rng.standard_normal((d, K)) + rng.gumbel(size=(m, K)) - 2.0 * np.arange(K)
    weights = rng.integers(0, 4, m).astype(float)
    weights[:K] = 1.0
    if name in LABEL_SETS:
        return X, [tuple(np.flatnonzero(row > 0.0)) for row in scores], weights
    y = scores.argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y, weights


def softened(name, K, m=90, seed=1, costs=None):
    """Return a function that evaluates a softened risk at margins on a line, and the row losses there."""
    rng = np.random.default_rng(seed)
    y, s = coded(name, rng, m, K), rng.random(m)
    s[::7] = 0.0
    z, dz = rng.standard_normal((2, m * K))
    risk = _losses.SoftRisk(name, y, K, costs, s, 1.0 / s.sum(), 1)
    loss = losses.get(name) if costs is None else losses.get(name, costs=costs)

    def true(margins):
        return float(s @ loss.value(margins.reshape(m, K), y) / s.sum())

    return lambda b, width, t=0.3, **more: risk.evaluate(z, dz, t, b, width, **more), z + 0.3 * dz, true


# ---- softened risks


@pytest.mark.parametrize("K", [2, 3, 17])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_softened_risks(name, K):
    evaluate, margins, _ = softened(name, K)
    b, width = np.random.default_rng(2).standard_normal(K), 1.0 if name == "softmax" else 0.4
    r = np.empty(len(margins))
    found = evaluate(b, width, r=r, hessian=True)
    sums, hessian = found[2 : 2 + K], found[2 + K :].reshape(K, K)
    np.testing.assert_allclose(r.reshape(-1, K).sum(axis=0), sums, atol=1e-14)
    np.testing.assert_array_equal(hessian, hessian.T)
    step = 1e-6
    for c in range(K):
        e = step * np.eye(K)[c]
        change = (evaluate(b + e, width)[2 : 2 + K] - evaluate(b - e, width)[2 : 2 + K]) / (2 * step)
        np.testing.assert_allclose(hessian[c], change, atol=1e-8)
    if name == "softmax":  # its own softened risk
        ends = evaluate(b, width, t=0.3 + step)[0], evaluate(b, width, t=0.3 - step)[0]
        assert found[1] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("name", ["multiclass", "costs", "multilabel", "multilabel_ranking"])
def test_planes_of_softened_risks_are_nowhere_above_the_loss(name):
    K, rng = 5, np.random.default_rng(3)
    costs = np.round(rng.uniform(0, 3, (K, K)), 1) * (1 - np.eye(K)) if name == "costs" else None
    evaluate, margins, true = softened("multiclass" if name == "costs" else name, K, costs=costs)
    b, r = rng.standard_normal(K), np.empty(len(margins))
    here = margins + np.tile(b, len(margins) // K)
    for width in (1.0, 0.1, 1e-3, 1e-9):
        for move in (np.zeros(K), 0.3 * width * rng.random(K), 5.0 * width * rng.standard_normal(K)):
            level = evaluate(b, width, move=move, r=r)[0]
            assert level <= true(here) + 1e-13
            for size in (1e-3, 0.1, 1.0, 10.0):
                other = here + size * rng.standard_normal(len(here))
                assert level + r @ (other - here) <= true(other) + 1e-12
    assert evaluate(b, 1e-9)[0] == pytest.approx(true(here), abs=1e-8)


@pytest.mark.parametrize("name", ["multiclass", "multilabel", "multilabel_ranking"])
def test_a_short_move_changes_sums_as_the_hessian_says(name):
    K = 4
    evaluate, _, _ = softened(name, K)
    b, move = np.linspace(-1, 1, K), 0.1 * np.cos(np.arange(K))
    found = evaluate(b, 0.5, hessian=True)
    expected = found[2 : 2 + K] + found[2 + K :].reshape(K, K) @ move
    np.testing.assert_allclose(evaluate(b, 0.5, move=move)[2:], expected, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_softened_risks_have_the_same_bits_for_any_number_of_threads(name):
    rng, m, K = np.random.default_rng(5), 30_000, 6
    y, z = coded(name, rng, m, K), rng.standard_normal(m * K)
    found = []
    for threads in (1, 2, 5):
        risk, r = _losses.SoftRisk(name, y, K, None, None, 1 / m, threads), np.empty(m * K)
        found.append((risk.evaluate(z, z, 0.1, np.arange(K) / K, 1.0, None, r, True).tobytes(), r.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"z": np.zeros(5)}, "margins and labels"),
        ({"b": np.zeros(2)}, "one for each class"),
        ({"move": np.zeros(4)}, "one for each class"),
        ({"r": np.zeros(5)}, "derivatives and margins"),
        ({"width": 0.0}, "positive"),
        ({"width": np.nan}, "positive"),
    ],
)
def test_softened_risks_check_their_arrays(arguments, message):
    risk = _losses.SoftRisk("multiclass", np.arange(3.0), 3, None, None, 1.0, 1)
    given = {"z": np.zeros(9), "dz": np.zeros(9), "t": 0.0, "b": np.zeros(3), "width": 1.0} | arguments
    given["dz"] = given["z"]
    with pytest.raises(ValueError, match=message):
        risk.evaluate(**given)


# ---- how far intercepts are apart


def lines_of(name, U, y, s):
    """Return, for each row, the lines in b whose largest is its loss: coefficients and constants."""
    K = U.shape[1]
    for u, label in zip(U, y, strict=True):
        if name == "multiclass":
            c = int(label)
            yield np.eye(K) - np.eye(K)[c], u - u[c] + (np.arange(K) != c)
        elif name == "multilabel":
            for c in range(K):
                yield np.vstack([np.zeros(K), -label[c] * np.eye(K)[c]]), np.array([0, 1 - label[c] * u[c]])
        else:
            pairs = [(a, b) for a in np.flatnonzero(label < 0) for b in np.flatnonzero(label > 0)]
            slopes = [np.zeros(K), *(np.eye(K)[a] - np.eye(K)[b] for a, b in pairs)]
            yield np.array(slopes), np.array([0.0, *(1.0 + u[a] - u[b] for a, b in pairs)])


def least_risk(name, U, y, s, limit):
    """Return the least risk over intercepts, which are at most ``limit`` apart, or from 0: by HiGHS."""
    K, rows = U.shape[1], list(lines_of(name, U, y, s))
    each = np.repeat(s / s.sum(), K if name == "multilabel" else 1)
    A, rhs = [], []
    for i, (slopes, constants) in enumerate(rows):
        A += [np.concatenate([slope, -np.eye(len(rows))[i]]) for slope in slopes]
        rhs += list(-constants)
    for a in range(K):
        for other in [None] if name == "multilabel" else range(a):
            row = np.eye(K)[a] - (0.0 if other is None else np.eye(K)[other])
            A += [np.concatenate([sign * row, np.zeros(len(rows))]) for sign in (1, -1)]
            rhs += [limit, limit]
    bounds = [(None, None)] * (K + len(rows))
    found = scipy.optimize.linprog(np.append(np.zeros(K), each), A, rhs, bounds=bounds, method="highs")
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["multiclass", "multilabel", "multilabel_ranking"])
def test_intercepts_need_not_be_farther_than_the_limit(name, seed):
    """The certificate rests on it: the minimum over all intercepts is attained within the limit."""
    rng = np.random.default_rng(seed)
    m, K = int(rng.integers(5, 12)), int(rng.integers(2, 5))
    y, U = coded(name, rng, m, K), rng.standard_normal((m, K)) * 10.0 ** rng.uniform(-2, 1)
    if seed % 2 and name != "multiclass":
        y[:, 0] = -1.0  # a label that no row has
    s = rng.random(m) ** 4
    limit = losses.get(name).intercept_limit(np.ones(K), float(np.abs(U).max()))
    free = least_risk(name, U, y, s, 1e4 * limit)
    assert least_risk(name, U, y, s, limit) == pytest.approx(free, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_intercepts_of_softmax_are_within_the_limit(seed):
    rng = np.random.default_rng(seed)
    m, K = 40, 3
    y, u = coded("softmax", rng, m, K), rng.standard_normal(m)
    s = np.where(y == 1, 1e-6, 1.0)  # a rare class
    result = bmrm.solve(u[:, None], y, "softmax", lam=1e-3, tol=1e-8, fit_intercept=True, sample_weight=s)
    weights = np.bincount(y.astype(int), s, K) / s.sum()
    limit = losses.get("softmax").intercept_limit(weights, float(np.abs(u[:, None] * result.w).max()))
    assert np.ptp(result.intercept) <= limit


# ---- solves


def test_probabilities_of_a_null_model_are_the_shares_of_the_classes():
    y = np.repeat([3, 5, 9], [950, 49, 1])
    shares = np.array([0.95, 0.049, 0.001])
    for X, options in (
        (np.zeros((1000, 2)), {"lam": 1e-3}),
        (np.random.default_rng(0).standard_normal((1000, 3)), {"lam": 1e3, "reg": "l1"}),
        (np.random.default_rng(0).standard_normal((1000, 3)), {"lam": 1e9}),
    ):
        result = bmrm.solve(X, y, "softmax", tol=1e-8, fit_intercept=True, **options)
        assert result.status == "converged"
        assert result.objective == pytest.approx(-shares @ np.log(shares), rel=1e-8)
        found = bmrm.Model.from_result(result).predict_probability(X)
        np.testing.assert_allclose(found.mean(axis=0), shares, atol=1e-9)
        assert not result.w.any() or options["lam"] == 1e9
    weights = np.where(y == 9, 100.0, 1.0)
    result = bmrm.solve(np.zeros((1000, 1)), y, "softmax", fit_intercept=True, sample_weight=weights)
    found = np.exp(result.intercept) / np.exp(result.intercept).sum()
    np.testing.assert_allclose(found, np.array([950, 49, 100]) / 1099, atol=1e-6)


def test_mean_probabilities_of_any_model_are_the_shares():
    X, y, _ = problem("softmax", m=300)
    weights = np.random.default_rng(4).random(300)
    result = bmrm.solve(X, y, "softmax", lam=1e-2, tol=1e-9, fit_intercept=True, sample_weight=weights)
    found = bmrm.Model.from_result(result).predict_probability(X)
    shares = np.bincount(y, weights) / weights.sum()
    np.testing.assert_allclose(weights @ found / weights.sum(), shares, atol=1e-8)
    assert abs(result.intercept.sum()) < 1e-12


def test_the_majority_is_predicted_if_the_penalty_outweighs_all():
    """Half of the rows, and more, are in one class: the multi-class hinge of w = 0 is 2 for the others."""
    y = np.repeat([0, 1, 2], [70, 20, 10])
    X = np.random.default_rng(0).standard_normal((100, 3))
    result = bmrm.solve(X, y, "multiclass", lam=1e3, tol=1e-6, fit_intercept=True)
    assert result.status == "converged"
    assert result.objective == pytest.approx(0.6, rel=1e-5)
    assert (result.predict(X) == 0).all()


@pytest.mark.parametrize(
    "reg", ["l2", "l1", "elastic_net", "positive", "strengths", "prior", "free features"]
)
@pytest.mark.parametrize("name", ["softmax", "multiclass"])
def test_a_penalty_that_vanishes_leads_to_the_same_optimum(name, reg):
    X, y, weights = problem(name, m=60)
    rng = np.random.default_rng(7)
    options = {
        "positive": {"positive": True},
        "strengths": {"feature_lambda": [0.5, 2.0, 1.0, 3.0]},
        "free features": {"feature_lambda": [1.0, 0.0, 1.0, 1.0]},
        "prior": {"prior": 0.2 * rng.standard_normal((4, 4))},
    }.get(reg, {"reg": reg})
    options |= {"lam": 0.02, "tol": 1e-6, "fit_intercept": True, "sample_weight": weights}
    free = bmrm.solve(X, y, name, **options)
    held = bmrm.solve(X, y, name, penalize_intercept=True, intercept_scaling=1e3, **options)
    assert free.status == "converged"
    assert free.lower_bound <= held.objective
    b = free.intercept / 1e3
    rho = {"l1": 1.0, "elastic_net": 0.5}.get(reg, 0.0)
    penalty = 0.02 * (rho * np.abs(b).sum() + 0.5 * (1.0 - rho) * (b**2).sum())
    assert held.lower_bound <= free.objective + penalty
    assert free.intercept.shape == (4,)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_repetitions(name):
    X, y, weights = problem(name)
    order = np.repeat(np.arange(len(X)), weights.astype(int))
    options = {"lam": 1e-2, "tol": 1e-7, "fit_intercept": True}
    weighted = bmrm.solve(X, y, name, sample_weight=weights, **options)
    repeated = bmrm.solve(X[order], [y[i] for i in order], name, **options)
    scaled = bmrm.solve(X, y, name, sample_weight=3e5 * weights, **options)
    for other in (repeated, scaled):
        assert weighted.lower_bound <= other.objective
        assert other.lower_bound <= weighted.objective
        np.testing.assert_allclose(other.w, weighted.w, atol=2e-2)


@pytest.mark.parametrize("name", NAMES)
def test_adding_a_number_to_all_rows_of_a_feature_changes_the_intercepts_alone(name):
    X, y, _ = problem(name)
    options = {"lam": 1e-2, "tol": 1e-7, "fit_intercept": True}
    here, there = (bmrm.solve(X + shift, y, name, **options) for shift in (0.0, np.array([3, -2, 0, 10.0])))
    assert here.status == there.status == "converged"
    assert here.lower_bound <= there.objective
    assert there.lower_bound <= here.objective


@pytest.mark.parametrize("name", NAMES)
def test_no_intercept_is_better(name):
    """A penalised intercept, none, and other free ones reach no lower J."""
    X, y, weights = problem(name)
    options = {"lam": 1e-2, "tol": 1e-8, "sample_weight": weights}
    free = bmrm.solve(X, y, name, fit_intercept=True, **options)
    assert free.status == "converged"
    assert free.lower_bound < bmrm.solve(X, y, name, **options).objective
    held = bmrm.solve(X, y, name, fit_intercept=True, penalize_intercept=True, **options)
    assert free.lower_bound <= held.objective
    loss = losses.get(name)
    codes = y
    if name in LABEL_SETS:
        codes = np.array([[1.0 if c in row else -1.0 for c in free.classes] for row in y])
    rng, total = np.random.default_rng(1), weights.sum()

    def risk(b):
        return float(weights @ loss.value(X @ free.w + b, codes.astype(float)) / total)

    least = risk(free.intercept)
    for size in (1e-6, 1e-4, 1e-2, 1.0):
        for _ in range(30):
            assert risk(free.intercept + size * rng.standard_normal(len(free.classes))) >= least - 1e-8 * abs(
                least
            )


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_for_any_number_of_threads(name):
    rng, K = np.random.default_rng(2), 5
    X = rng.standard_normal((14_000, 3))
    y = (rng.random((14_000, K)) < 0.3).astype(int) if name in LABEL_SETS else rng.integers(0, K, 14_000)
    results = [bmrm.solve(X, y, name, lam=1e-2, fit_intercept=True, threads=t, max_iter=2) for t in (1, 3)]
    assert results[0].w.tobytes() == results[1].w.tobytes()
    assert results[0].intercept.tobytes() == results[1].intercept.tobytes()
    assert results[0].lower_bound == results[1].lower_bound


@pytest.mark.parametrize("name", NAMES)
def test_separable_rows(name):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = 20.0 * np.eye(3)[y] + rng.random((60, 3)) + 100.0
    given = [(c,) for c in y] if name in LABEL_SETS else y
    for lam in (1e-2, 1e-4):
        result = bmrm.solve(X, given, name, lam=lam, tol=1e-5, fit_intercept=True)
        assert result.status == "converged"
        assert (X @ result.w + result.intercept).argmax(axis=1).tolist() == y.tolist()


@pytest.mark.parametrize("shape", ["wide", "sparse", "float32", "one feature"])
@pytest.mark.parametrize("name", ["softmax", "multiclass"])
def test_shapes_of_the_data(name, shape):
    rng = np.random.default_rng(3)
    m, d = (40, 200) if shape == "wide" else (80, 1) if shape == "one feature" else (80, 5)
    X = rng.standard_normal((m, d))
    y = rng.integers(0, 3, m)
    given = sp.csr_matrix(X) if shape == "sparse" else X.astype(np.float32) if shape == "float32" else X
    result = bmrm.solve(given, y, name, lam=0.1, tol=1e-6, fit_intercept=True)
    other = bmrm.solve(np.hstack([X, np.zeros((m, 1))]), y, name, lam=0.1, tol=1e-6, fit_intercept=True)
    assert result.status == "converged"
    assert result.objective == pytest.approx(other.objective, rel=1e-5)


def test_a_class_with_a_single_row():
    X, y, _ = problem("softmax", m=200)
    y = np.where(y == 3, 2, y)
    y[17] = 3
    for name in ("softmax", "multiclass"):
        result = bmrm.solve(X, y, name, lam=1e-3, tol=1e-6, fit_intercept=True)
        assert result.status == "converged"
    # Each fold holds rows out; one of them holds out the only row of the class.
    found = cross_validate(bmrm.Dataset(X, y), 4, loss="softmax", lam=1e-2, fit_intercept=True)
    assert found.metrics["accuracy"] > 0.5
    weights = np.ones(200)
    weights[17] = 1e-12
    result = bmrm.solve(X, y, "softmax", lam=1e-2, tol=1e-6, fit_intercept=True, sample_weight=weights)
    assert result.status == "converged"
    assert result.intercept[3] < -10.0


@pytest.mark.parametrize("name", NAMES)
def test_paths_warm_starts_and_checkpoints(name, tmp_path):
    X, y, weights = problem(name)
    data = bmrm.Dataset(X, y, sample_weight=weights)
    options = {"loss": name, "fit_intercept": True, "tol": 1e-7}
    cold = {lam: bmrm.solve(data, lam=lam, **options) for lam in (1e-1, 1e-2)}
    for point in bmrm.path(data, lams=[1e-1, 1e-2], **options):
        other = cold[point.lam]
        assert point.lower_bound <= other.objective
        assert other.lower_bound <= point.objective
    again = bmrm.solve(data, lam=1e-2, warm_start=cold[1e-2], **options)
    assert again.n_iter == 0
    assert again.objective <= cold[1e-2].objective
    np.testing.assert_allclose(again.intercept, cold[1e-2].intercept, rtol=1e-12)
    early = bmrm.solve(data, lam=1e-2, max_iter=3, **options)
    save(tmp_path / "state", bmrm.Model.from_result(early), problem_of(early), early.bundle.working())
    resumed = bmrm.solve(data, lam=1e-2, warm_start=Checkpoint.load(tmp_path / "state"), **options)
    assert resumed.n_iter >= 3
    assert resumed.lower_bound >= early.lower_bound
    assert resumed.objective <= early.objective
    assert resumed.lower_bound <= cold[1e-2].objective
    assert cold[1e-2].lower_bound <= resumed.objective


def test_model_files_and_calibration(tmp_path):
    X, y, _ = problem("multiclass")
    result = bmrm.solve(X, y, "multiclass", lam=1e-2, fit_intercept=True)
    result.save(tmp_path / "model")
    model = bmrm.Model.load(tmp_path / "model")
    np.testing.assert_array_equal(model.intercept, result.intercept)
    np.testing.assert_allclose(model.decision_function(X), X @ result.w + result.intercept, rtol=1e-12)
    chosen = bmrm.select(X, y, loss="softmax", lams=[1e-1, 1e-3], folds=3, fit_intercept=True)
    assert chosen.result.intercept.shape == (4,)


def test_one_cut_per_pass():
    X, y, _ = problem("softmax")
    with pytest.raises(bmrm.errors.ParameterError, match="one cut per pass"):
        bmrm.solve(X, y, "softmax", fit_intercept=True, cuts_per_pass=3)
    with pytest.raises(DataError):
        bmrm.solve(
            np.full((80, 1), 1e200), y, "softmax", fit_intercept=True, warm_start=np.full((1, 4), 1e200)
        )
