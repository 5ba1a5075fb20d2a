"""Joint losses compared with their definitions and with independent optima."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_definitions import TERMS, Term, ordinal_rows, ordinal_value, structured_optimum, value
from scipy.optimize import linear_sum_assignment

import bmrm
from bmrm import losses
from bmrm.errors import DataError, ParameterError
from bmrm.linear.models import metrics
from bmrm.losses._joint import JointRisk
from bmrm.losses.joint import Members, bind

PARAMS = {"f_beta": {"beta": 0.7}, "precision_at_k": {"k": 2}, "recall_at_k": {"k": 5}, "ndcg": {"k": 3}}
BINARY = ("roc_area", "f_beta", "precision_at_k", "recall_at_k", "prbep")
RANKING = ("pairwise", "ndcg", "lambda_ndcg", "mrr")
NAMES = (*BINARY, *RANKING, "ordinal")
WEIGHTED = ("roc_area", "pairwise", "ordinal")


def instance(name, rng, m=7):
    """Return labels, weights with some zeros, and unordered groups, some of which cannot be ranked."""
    taking, groups = rng.random(m) < 0.75, rng.integers(0, 3, m)
    if name in BINARY:
        y = rng.choice([-1.0, 1.0], m)
        y[:4], taking[:4] = [1, -1, 1, -1], True
    else:
        y = rng.integers(0, 4 if name in RANKING else 3, m).astype(float)
        y[:2], groups[:2], taking[:2] = [0.0, 2.0], 0, True
    if name in WEIGHTED:
        return y, taking * (rng.random(m) + 0.1), groups
    return y, taking * (rng.random(3) + 0.5)[groups if name in RANKING else 0], groups


def make(name, groups, **params):
    return losses.get(name, **(params or PARAMS.get(name, {}))).grouped(groups)


def expected(name, u, y, weights, groups):
    if name == "ordinal":
        return ordinal_value(y, weights, u)
    return value(TERMS[name](y, weights, groups, *PARAMS.get(name, {}).values()), u)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.3, 1.0, 4.0]), ties=st.booleans())
def test_risk_is_its_definition_and_has_a_subgradient(name, seed, scale, ties):
    rng = np.random.default_rng(seed)
    y, weights, groups = instance(name, rng)
    u, v = (scale * rng.normal(size=len(y)) for _ in range(2))
    if ties:  # margins at the kinks
        u = np.round(2 * u) / 2
    loss = make(name, groups)
    found, r = loss.evaluate(u, y, weights)
    assert found == pytest.approx(expected(name, u, y, weights, groups), rel=1e-12, abs=1e-13)
    assert found + r @ (v - u) <= expected(name, v, y, weights, groups) + 1e-12
    assert not r[weights == 0].any()
    if loss.no_intercept:
        assert r.sum() == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("m", [9, 300])
@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_planes_at_margins_of_zero_are_sums_of_their_own(name, m, scale):
    # At margins of 1e9 the constant of the plane is the difference of two numbers of that size.
    rng = np.random.default_rng(m)
    y, weights, groups = instance(name, rng, m)
    u = scale * rng.normal(size=m)
    params = {"k": m} if name == "recall_at_k" else {}
    risk = make(name, groups, **params).risk(y, weights, 1.0, 1)
    r, v = np.empty(m), rng.normal(size=m)
    values, _ = risk.cut(u, u, 0.0, 0.0, np.array([0, m]), r)
    (constant,) = risk.constants
    assert constant + r @ u == pytest.approx(values[0], rel=1e-12, abs=1e-13 * (np.abs(r) @ np.abs(u)))
    # A sum of losses of labels, each at most 1; the loss of a pair is 1.
    assert 0.0 <= constant <= 1e3
    at_v, _ = risk.cut(v, v, 0.0, 0.0, np.array([0, m]), np.empty(m))
    assert constant + r @ v <= at_v[0] + 1e-13 * (1.0 + at_v[0])


def problem(name, seed):
    """Return a tiny problem: rows, labels, weights, groups."""
    rng = np.random.default_rng(seed)
    y, weights, groups = instance(name, rng)
    return rng.normal(size=(len(y), 3)), y, weights, groups


def optimum(name, X, y, weights, groups, lam, intercept):
    if name == "ordinal":
        rows = ordinal_rows(y)
        share = weights / weights.sum()
        wide = np.zeros((len(rows), X.shape[1] + int(y.max())))
        terms = []
        for t, (i, k, side) in enumerate(rows):
            wide[t, : X.shape[1]], wide[t, X.shape[1] + k] = X[i], -1.0
            slope = np.zeros((2, len(rows)))
            slope[0, t] = -side
            terms.append(Term(share[i], slope, np.array([1.0, 0.0])))
        return structured_optimum(wide, terms, lam, free=int(y.max()))
    terms = TERMS[name](y, weights, groups, *PARAMS.get(name, {}).values())
    if intercept:
        X = np.hstack([X, np.ones((len(y), 1))])
    return structured_optimum(X, terms, lam, free=1 if intercept == "free" else 0)


INTERCEPTS = [
    (n, kind) for n in ("f_beta", "precision_at_k", "recall_at_k") for kind in ("free", "penalised")
]


@pytest.mark.parametrize(("name", "intercept"), [(name, None) for name in NAMES] + INTERCEPTS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_optimum(name, intercept, seed):
    X, y, weights, groups = problem(name, seed)
    lam = 0.05
    result = bmrm.solve(
        X,
        y,
        name,
        lam=lam,
        sample_weight=weights,
        groups=groups,
        fit_intercept=intercept is not None,
        penalize_intercept=intercept == "penalised",
        tol=1e-9,
        **PARAMS.get(name, {}),
    )
    wanted = optimum(name, X, y, weights, groups, lam, intercept)
    assert result.status == "converged"
    assert result.lower_bound <= wanted + 1e-9
    assert result.objective == pytest.approx(wanted, rel=1e-6)
    penalty = 0.5 * lam * (result.w @ result.w + (intercept == "penalised") * result.intercept**2)
    risk = expected(name, result.decision_function(X), y, weights, groups)
    assert result.objective == pytest.approx(penalty + risk, rel=1e-12)


@pytest.mark.parametrize("name", [*BINARY, *RANKING])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_risk_bounds_the_loss_of_what_is_predicted(name, seed):
    rng = np.random.default_rng(seed)
    y, _, groups = instance(name, rng)
    u = rng.normal(size=len(y))
    risk = make(name, groups).evaluate(u, y)[0]
    scores = metrics.for_task(
        "binary" if name in BINARY else "ranking", (-1.0, 1.0), PARAMS.get(name), groups
    )
    scores.update(u, y)
    report = scores.report()
    measures = {
        "roc_area": lambda: 1 - report["auc"],
        "f_beta": lambda: 1 - report["f_beta"],
        "precision_at_k": lambda: 1 - max(report["precision_at_k"], report["precision"] or 0.0),
        "recall_at_k": lambda: 1 - max(report["recall_at_k"], report["recall"]),
        "prbep": lambda: 1 - report["break_even"],
        "pairwise": lambda: report["pairwise_error"],
        "ndcg": lambda: 1 - report["ndcg"],
        "lambda_ndcg": lambda: 1 - report["ndcg"],
        "mrr": lambda: mean_of_rankable(u, y, groups),
    }
    assert risk >= measures[name]() - 1e-12


def test_recall_at_the_number_of_positives():
    """The default k of recall_at_k is the number of positives, also in metrics, folds and models."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 4))
    y = np.where(X[:, 0] + rng.normal(size=90) > 0, 1.0, -1.0)
    positives = int((y > 0).sum())
    assert positives > 10  # at 10, the default of other losses, there is no such loss
    default, given_k = losses.get("recall_at_k"), losses.get("recall_at_k", k=positives)
    assert (default.params, given_k.params) == ({}, {"k": float(positives)})
    u = X[:, 1]
    assert default.evaluate(u, y)[0] == given_k.evaluate(u, y)[0]
    one, other = (bmrm.solve(X, y, "recall_at_k", **k) for k in ({}, {"k": positives}))
    assert (one.w == other.w).all()
    held_out = (y == 1) * 1.0
    held_out[:50] = 1.0  # other weights, another number of positives
    assert bmrm.solve(X, y, "recall_at_k", sample_weight=held_out).status == "converged"
    report = bmrm.cross_validate(bmrm.Dataset(X, y), 3, loss="recall_at_k", lam=0.01).metrics
    assert report["recall_at_k"] == report["precision_at_k"] == report["break_even"] > 0.5
    model = bmrm.Model.from_result(one)
    assert (model.loss, dict(model.loss_params)) == ("recall_at_k", {})


def mean_of_rankable(u, y, groups):
    """Return the mean of 1 - reciprocal rank over the groups with relevant and irrelevant rows."""
    losses_of = []
    for g in np.unique(groups):
        relevant = y[groups == g][np.argsort(-u[groups == g])] > 0
        if relevant.any() and not relevant.all():
            losses_of.append(1 - 1 / (1 + np.argmax(relevant)))
    return np.mean(losses_of)


def test_assignment_of_a_long_list_is_the_best():
    rng = np.random.default_rng(3)
    n, k = 60, 12
    u, y = rng.normal(size=n), rng.integers(0, 4, n).astype(float)
    d = np.append(1 / np.log2(np.arange(k) + 2), np.zeros(n - k))
    gains = 2**y - 1
    best = d @ np.sort(gains)[::-1]
    benefit = d[:, None] * (u - gains / best)
    places, rows = linear_sum_assignment(benefit, maximize=True)
    order = np.argsort(-y, kind="stable")
    ideal = np.empty(n)
    for level in np.unique(y):
        ideal[y == level] = d[np.flatnonzero(y[order] == level)].mean()
    wanted = 1 + benefit[places, rows].sum() - ideal @ u
    assert make("ndcg", np.zeros(n, np.int64), k=k).evaluate(u, y)[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("levels", [2, 8, 9, 40])
@pytest.mark.parametrize("m", [30, 600, 5000])
def test_pairs_of_many_rows(m, levels):
    rng = np.random.default_rng(m)
    u, s = 2 * rng.normal(size=m), rng.random(m)
    y, groups = rng.integers(0, levels, m).astype(float), rng.integers(0, 3, m)
    y[:6], groups[:6] = [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]
    found, r = make("pairwise", groups).evaluate(u, y, s)
    wanted, gradient = 0.0, np.zeros(m)
    shares = [s[groups == g].mean() for g in range(3)]
    for g in range(3):
        rows = np.flatnonzero(groups == g)
        v, pairs = u[rows], np.outer(s[rows], s[rows]) * (y[rows][:, None] > y[rows])
        pairs *= shares[g] / sum(shares) / pairs.sum()
        hinge = 1 - (v[:, None] - v)
        wanted += (pairs * np.maximum(0, hinge)).sum()
        active = pairs * (hinge > 0)
        gradient[rows] = active.sum(axis=0) - active.sum(axis=1)
    assert found == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(r, gradient, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("levels", [2, 5, 12])
@pytest.mark.parametrize("spread", [0.05, 1.0, 30.0])
def test_pairs_of_a_group_in_chunks(spread, levels, graded):
    """There are enough rows for several chunks; all, some or hardly any pairs are active."""
    rng = np.random.default_rng(levels)
    m = 70_000
    level = rng.integers(0, levels, m)
    u, s, v = spread * rng.normal(size=m) + 0.1 * level, rng.random(m), np.sqrt(level)
    wanted, gradient = 0.0, np.zeros(m)
    for high in range(levels):
        i = np.flatnonzero(level == high)
        for low in range(high):
            j = np.flatnonzero(level == low)
            j = j[np.argsort(u[j])]
            c = np.sqrt(high) - np.sqrt(low) if graded else 1.0
            weight, moment = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (s[j], s[j] * u[j]))
            first = np.searchsorted(u[j], u[i] - 1.0, "right")
            wanted += c * (s[i] * ((1.0 - u[i]) * weight[first] + moment[first])).sum()
            gradient[i] -= c * s[i] * weight[first]
            taken = np.append(0.0, np.cumsum(np.bincount(first, s[i], len(j) + 1)))[1:-1]
            gradient[j] += c * s[j] * taken
    everything = Members(np.arange(m), np.array([0, m]), s)
    kind = "graded_pairs" if graded else "pairs"
    results = []
    for threads in (1, 3):
        risk = bind(kind, everything, level, np.ones(1), weight=s, value=v, threads=threads)
        r = np.empty(m)
        results.append((risk.evaluate(u, u, 0.0, 0.0, r), r))
    assert results[0][0][0] == pytest.approx(wanted, rel=1e-11)
    np.testing.assert_allclose(results[0][1], gradient, rtol=1e-9, atol=1e-9 * np.abs(gradient).max())
    assert results[0][0][0] == results[1][0][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("levels", [2, 4, 7])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 20.0])
def test_thresholds_of_many_rows(spread, levels):
    rng = np.random.default_rng(levels)
    m = 50_000
    y = rng.integers(0, levels, m).astype(float)
    y[:levels] = np.arange(levels)
    u, s = spread * rng.normal(size=m) + 0.5 * y, rng.random(m)
    wanted = 0.0
    for k in range(levels - 1):
        above = y > k
        theta = _minimiser(u, above, s)
        wanted += (s * np.maximum(0.0, 1.0 - np.where(above, u - theta, theta - u))).sum() / s.sum()
    loss = losses.get("ordinal")
    found, r = loss.evaluate(u, y, s)
    assert found == pytest.approx(wanted, rel=1e-12)
    assert r.sum() == pytest.approx(0.0, abs=1e-12)
    step = 1e-3 * spread * rng.normal(size=m)
    assert loss.evaluate(u + step, y, s)[0] >= found + r @ step - 1e-13
    again, same = loss.evaluate(u, y, s, threads=3)
    assert again == found
    np.testing.assert_array_equal(r, same)
    np.testing.assert_allclose(
        loss.thresholds(u, y, s), [_minimiser(u, y > k, s) for k in range(levels - 1)], rtol=1e-12, atol=1e-12
    )


def _minimiser(u, above, s):
    """Return the threshold with the smallest sum of hinges, by sorting all knots."""
    knots = np.where(above, u - 1.0, u + 1.0)
    order = np.argsort(knots)
    return knots[order[np.argmax(np.cumsum(s[order]) >= s[~above].sum())]]


def test_levels_that_do_not_ascend_are_refused():
    rows, ones = np.arange(4), np.ones(4)
    with pytest.raises(ValueError, match="levels do not ascend within a group"):
        JointRisk("pairs", rows, np.array([0, 4]), np.array([0, 1, 0, 1]), ones, ones, ones, np.ones(1))
    two = JointRisk("pairs", rows, np.array([0, 2, 4]), np.array([0, 1, 0, 1]), ones, ones, ones, np.ones(2))
    assert two.evaluate(np.zeros(4), np.zeros(4), 0.0, 0.0, np.empty(4)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("m", [24, 300, 3000, 20_000])
def test_margins_that_differ_in_their_last_digits(m):
    """A sort by the upper digits must also sort within its runs, in a chunk and across chunks."""
    rng = np.random.default_rng(9)
    u = 1.0 + 1e-12 * rng.normal(size=m)
    u[: m // 8], u[m // 8 : m // 4] = 0.0, -0.0
    y = rng.choice([-1.0, 1.0], m)
    shifted = np.where(y > 0, u + 1.0, u)  # every pair is within rounding of its kink
    found, r = losses.get("roc_area").evaluate(shifted, y)
    above, below = shifted[y > 0], shifted[y < 0]
    parts = np.array_split(above, 1 + len(above) // 500)  # all pairs at once take gigabytes
    total = sum(np.maximum(0, 1 - (part[:, None] - below)).sum() for part in parts)
    assert found == pytest.approx(total / (len(above) * len(below)), rel=1e-9, abs=1e-15)
    assert r.sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", RANKING)
@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-4, 4)), min_size=1, max_size=9)
)
def test_groups_of_any_size(name, rows):
    """One group, many, groups of one row, groups of one label: if nothing can be ranked, this is an error."""
    groups, y, u = (np.array(column) for column in zip(*rows, strict=True))
    y, u = y.astype(float), u / 4.0
    loss = losses.get(name, **PARAMS.get(name, {})).grouped(groups)
    found = [(y[groups == g] > 0) if name == "mrr" else y[groups == g] for g in groups]
    if not any(len(set(labels.tolist())) > 1 for labels in found):
        with pytest.raises(DataError, match="nothing to rank"):
            loss.evaluate(u, y)
        return
    if max(np.bincount(groups)) <= 6:  # 720 permutations
        wanted = value(TERMS[name](y, np.ones(len(y)), groups, *PARAMS.get(name, {}).values()), u)
        assert loss.evaluate(u, y)[0] == pytest.approx(wanted, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_threads_change_nothing(name):
    """There are enough rows for radix sort, and in one large group for several threads."""
    rng = np.random.default_rng(5)
    m = 200_000
    u = np.round(rng.normal(size=m), 4)  # with ties
    groups = np.where(rng.random(m) < 0.5, 0, rng.integers(1, 5000, m))
    y = rng.choice([-1.0, 1.0], m) if name in BINARY else rng.integers(0, 4, m).astype(float)
    params = {"precision_at_k": {"k": 0.1}, "recall_at_k": {"k": 0.9}}.get(name, {})
    loss = make(name, groups, **params)
    results = [loss.evaluate(u, y, threads=threads) for threads in (1, 2, 5)]
    assert results[0][0] == results[1][0] == results[2][0]
    for _, r in results[1:]:
        np.testing.assert_array_equal(results[0][1], r)
    # The risk is linear between kinks.
    step = 1e-7 * rng.normal(size=m)
    change = loss.evaluate(u + step, y)[0] - results[0][0]
    assert change >= results[0][1] @ step - 1e-12
    if name == "roc_area":
        negative = np.sort(u[y < 0])
        ends = np.searchsorted(negative, u[y > 0] - 1, "right")
        sums = np.append(0, np.cumsum(negative))
        active = len(negative) - ends
        total = (active * (1 - u[y > 0]) + sums[-1] - sums[ends]).sum()
        assert results[0][0] == pytest.approx(total / ((y > 0).sum() * (y < 0).sum()), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_margins_that_are_no_numbers_do_no_harm(name, bad):
    """The solver refuses non-finite margins; here they must only not crash."""
    y, _, groups = instance(name, np.random.default_rng(0))
    u = np.zeros(len(y))
    u[:2] = bad
    value, r = make(name, groups).evaluate(u, y)
    assert not (np.isfinite(value) and np.isnan(bad))
    assert r.shape == y.shape


def test_order_and_names_of_groups_do_not_matter():
    X, y, _, groups = problem("pairwise", 4)
    options = {"lam": 0.1, "tol": 1e-9}
    plain = bmrm.solve(X, y, "pairwise", groups=groups, **options)
    order = np.random.default_rng(0).permutation(len(y))
    named = np.array(["b", "c", "a"])[groups]
    again = bmrm.solve(X[order], y[order], "pairwise", groups=named[order], **options)
    assert again.objective == pytest.approx(plain.objective, rel=1e-8)


def test_groups_with_nothing_to_rank_take_no_part():
    X, y, _, groups = problem("mrr", 6)
    more = np.vstack([X, np.ones((3, 3))]), np.append(y, [2.0, 1.0, 1.0]), np.append(groups, [7, 8, 8])
    for name in RANKING:
        alone = bmrm.solve(X, y, name, groups=groups, lam=0.1, tol=1e-8)
        among = bmrm.solve(more[0], more[1], name, groups=more[2], lam=0.1, tol=1e-8)
        assert among.objective == pytest.approx(alone.objective, rel=1e-7)


X7, Y7 = np.eye(7), np.array([1.0, 0, 2, 0, 1, 2, 0])
BINARY7, GROUPS7 = (Y7 > 0).astype(float), np.zeros(7, int)


@pytest.mark.parametrize(
    ("loss", "y", "options", "error", "text"),
    [
        ("pairwise", Y7, {"groups": None}, DataError, "groups are missing"),
        ("pairwise", np.ones(7), {}, DataError, "nothing to rank, expected different labels"),
        ("pairwise", Y7, {"groups": np.arange(7)}, DataError, "nothing to rank"),
        ("pairwise", Y7, {"groups": np.arange(6)}, DataError, r"groups: found shape \(6,\)"),
        ("pairwise", Y7, {"groups": np.full(7, np.nan)}, DataError, "row 1 has no group"),
        ("pairwise", Y7, {"groups": [1, "a", None, 2, 3, 4, 5]}, DataError, "compared"),
        ("ndcg", np.zeros(7), {}, DataError, "nothing to rank, expected different labels"),
        ("ndcg", Y7 - 1, {}, DataError, "row 2 has label -1, expected a relevance from 0 to 50"),
        ("lambda_ndcg", 60 * Y7, {}, DataError, "row 1 has label 60"),
        ("mrr", Y7 + 1, {}, DataError, "relevant rows"),
        ("ndcg", Y7, {"sample_weight": np.arange(7.0)}, ParameterError, "different weights within a group"),
        ("ndcg", Y7, {"k": 2.5}, ParameterError, "k: found 2.5, expected an integer"),
        ("ndcg", Y7, {"k": 0.5}, ParameterError, "k: found 0.5, expected an integer"),
        ("precision_at_k", BINARY7, {"k": 2.5}, ParameterError, "k: found 2.5"),
        ("precision_at_k", BINARY7, {"k": -1}, ParameterError, "k: found -1"),
        ("precision_at_k", BINARY7, {"k": 5}, DataError, "found 4 positive rows, expected at least k = 5"),
        ("recall_at_k", BINARY7, {"k": 3}, DataError, "found 4 positive rows, expected at most k = 3"),
        ("recall_at_k", BINARY7, {"k": 0.4}, DataError, "expected at most k = 3"),
        ("f_beta", BINARY7, {"beta": 0}, ParameterError, "beta: found 0"),
        ("f_beta", BINARY7, {"sample_weight": np.arange(7.0)}, ParameterError, "expected equal ones"),
        ("f_beta", BINARY7, {"class_weight": {1.0: 2.0}}, ParameterError, "weights from 1 to 2"),
        ("f_beta", Y7, {}, DataError, "expected two classes"),
        ("roc_area", BINARY7, {"sample_weight": BINARY7}, DataError, "one label .* rows of positive weight"),
        ("roc_area", BINARY7, {"cuts_per_pass": 2}, ParameterError, "not a sum over rows"),
        ("ordinal", np.ones(7), {}, DataError, "found one label"),
        ("hinge", BINARY7, {"groups": np.arange(3)}, DataError, "groups: found shape"),
    ],
)
def test_what_cannot_be_trained_is_said(loss, y, options, error, text):
    with pytest.raises(error, match=text):
        bmrm.solve(X7, y, loss, **{"groups": GROUPS7, **options})


@pytest.mark.parametrize("name", [name for name in NAMES if losses.LOSSES[name].no_intercept])
@pytest.mark.parametrize("penalised", [False, True])
def test_intercepts_without_meaning_are_refused(name, penalised):
    y = BINARY7 if name in BINARY else Y7
    with pytest.raises(ParameterError, match=f"loss {name}: takes no intercept, it"):
        bmrm.solve(X7, y, name, groups=GROUPS7, fit_intercept=True, penalize_intercept=penalised)


def test_a_dataset_brings_its_groups():
    data = bmrm.Dataset(X7, Y7, groups=GROUPS7)
    assert bmrm.solve(data, loss="pairwise").status == "converged"
    with pytest.raises(ParameterError, match="groups: give it to the Dataset"):
        bmrm.solve(data, loss="pairwise", groups=GROUPS7)


@pytest.mark.parametrize("name", ["roc_area", "ndcg"])
def test_a_path_uses_the_cuts_again(name):
    X, y, _, groups = problem(name, 8)
    along = bmrm.path(X, y, lams=[0.1, 0.01], loss=name, groups=groups)[1]
    alone = bmrm.solve(X, y, lam=0.01, loss=name, groups=groups)
    assert along.n_iter < alone.n_iter


def test_no_values_by_row():
    with pytest.raises(ParameterError, match="loss roc_area: is not a sum over rows"):
        losses.get("roc_area").value(np.zeros(2), np.array([-1.0, 1.0]))


def test_thresholds_are_in_order_and_predict():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4))
    score = X @ rng.normal(size=4)
    y = np.digitize(score + 0.3 * rng.normal(size=300), [-2.0, 0.0, 1.0]) * 10.0
    result = bmrm.solve(X, y, "ordinal", lam=1e-3, tol=1e-6)
    assert (np.diff(result.thresholds) > 0).all()
    assert result.classes.tolist() == [0.0, 10.0, 20.0, 30.0]
    assert np.mean(result.predict(X) == y) > 0.8
    u = result.decision_function(X)
    assert result.predict(X).tolist() == (10.0 * np.digitize(u, result.thresholds, right=True)).tolist()


def test_a_class_without_weight_leaves_finite_thresholds():
    levels, weights = np.array([0.0, 1.0, 2.0, 2.0]), np.array([0.0, 1.0, 1.0, 0.0])
    found = losses.get("ordinal").thresholds(np.array([0.0, 1.0, 2.0, 3.0]), levels, weights)
    assert np.isfinite(found).all()
    assert found[0] <= found[1] == 1.5


@pytest.mark.parametrize("name", ["roc_area", "pairwise"])
@pytest.mark.parametrize("factor", [1e200, 1e-200, 3e150])
def test_weights_of_pairs_may_be_of_any_size(name, factor):
    """The weight of a pair is the product of two weights, which may overflow float64."""
    rng = np.random.default_rng(3)
    X, weights = rng.standard_normal((30, 3)), rng.integers(1, 4, 30).astype(float)
    y = np.where(X[:, 0] + rng.standard_normal(30) > 0, 1.0, -1.0)
    groups = np.repeat(np.arange(3), 10) if name == "pairwise" else None
    found = [
        bmrm.solve(X, y, loss=name, lam=0.1, groups=groups, sample_weight=scale * weights, tol=1e-8)
        for scale in (1.0, factor)
    ]
    assert [result.status for result in found] == ["converged"] * 2
    assert found[1].objective == pytest.approx(found[0].objective, rel=1e-7)
