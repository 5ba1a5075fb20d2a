"""Joint risks on a GPU compared with the same risks on the CPU."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from devices import cuda, few, gpu, sized

import bmrm
from bmrm import losses
from bmrm.errors import DataError

pytestmark = gpu

PARAMS = {"f_beta": {"beta": 0.7}, "precision_at_k": {"k": 0.01}, "recall_at_k": {"k": 0.9}, "ndcg": {"k": 3}}
BINARY = ("roc_area", "f_beta", "precision_at_k", "recall_at_k", "prbep")
RANKING = ("pairwise", "ndcg", "lambda_ndcg", "mrr")
NAMES = (*BINARY, *RANKING, "ordinal")
WEIGHTED = ("roc_area", "pairwise", "ordinal")


def instance(name, rng, m, sizes):
    """Return labels, weights with some zeros, and unordered groups of sizes drawn from `sizes`."""
    ends = np.cumsum(rng.choice(sizes, m // min(sizes) + 1))
    groups = np.searchsorted(ends, np.arange(m), side="right")
    rng.shuffle(groups)
    taking = rng.random(m) < 0.9
    y = rng.choice([-1.0, 1.0], m, p=[0.7, 0.3]) if name in BINARY else rng.integers(0, 5, m) * 1.0
    taking[:10], y[:10] = True, [1.0, -1.0] * 5 if name in BINARY else [0.0, 1.0, 2.0, 3.0, 4.0] * 2
    groups[:10] = 0
    if name in WEIGHTED:
        return y, taking * (rng.random(m) + 0.1), groups
    return y, taking * (rng.random(m) + 0.5)[groups if name in RANKING else 0], groups


@cache
def identity(m, dtype):
    """Return the identity as a resident matrix: margins are weights, and the gradient of a risk is r."""
    return cuda.Matrix(np.arange(m + 1), np.arange(m), np.ones(m, dtype), (m, m), dtype=dtype, tune="predict")


class OnDevice:
    """A joint risk on the device, and the same risk on the CPU."""

    def __init__(self, loss, y, weights, dtype=np.float64):
        m = len(y)
        self.here = loss.joint_risk(y, weights, 1)
        self.problem = cuda.Problem(identity(m, dtype), cuda.OWN_LOSS, 0.0, y, None, 1.0, 0.0, False)
        self.there = cuda.Joint(self.problem, **self.here.parts)
        self.problem.reserve(1)
        self.starts = np.array([0, m])

    def vector(self, u):
        return self.problem.fresh_margins(self.problem.weights(u))

    def evaluate(self, z, dz, t, b):
        """Return risk, slopes and derivatives on the device and on the CPU."""
        start, along = self.vector(z), None if dz is None else self.vector(dz)
        risk, slope, total, moved = self.there.evaluate(start, along, t, b, keep=0, move=True)
        w = self.problem.weights(z)
        self.problem.cut(0, self.starts, None, None, w, w, 0.0)
        r, expected = self.problem.get_cuts(1)[0], np.empty_like(z)
        flat = np.zeros_like(z) if dz is None else dz
        values = self.here.evaluate(z, flat, t, b, expected)
        np.testing.assert_allclose(moved.get(), z + t * flat, rtol=1e-14, atol=1e-14)
        return (risk, slope, total, r), (values.sum(), expected @ flat, expected.sum(), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(1, 2, 3), (5, 100, 3000), (10**6,)], ids=["tiny", "mixed", "one"])
@pytest.mark.parametrize("ties", [False, True])
def test_risk_and_derivatives_are_those_of_the_cpu(name, sizes, ties):
    rng = np.random.default_rng(3)
    y, weights, groups = instance(name, rng, sized(5000, 20_000), sizes)
    z, dz = 1.5 * rng.normal(size=(2, len(y)))
    t, b = (0.0, 0.0) if ties else (0.3, 0.25)
    if ties:  # margins at the kinks, and equal ones
        z = np.round(4 * z) / 4
    if losses.get(name).no_intercept:
        b = 0.0
    loss = losses.get(name, **PARAMS.get(name, {})).grouped(groups)
    there, here = OnDevice(loss, y, weights).evaluate(z, dz, t, b)
    assert there[0] == pytest.approx(here[0], rel=1e-12)
    size = np.abs(here[3]).max()
    if ties and name in ("f_beta", "precision_at_k", "recall_at_k"):
        # Equal terms differ by rounding: a different one may be the largest, with equally valid slopes.
        u = rng.normal(size=len(y))
        assert there[0] + there[3] @ (u - z) <= loss.evaluate(u, y, weights)[0] + 1e-10
        return
    np.testing.assert_allclose(there[3], here[3], atol=1e-10 * size, rtol=1e-9)
    assert there[1] == pytest.approx(here[1], rel=1e-9, abs=1e-10)
    assert there[2] == pytest.approx(here[2], rel=1e-9, abs=1e-10)
    assert not there[3][weights == 0].any()


@pytest.mark.parametrize("name", ["pairwise", "lambda_ndcg"])
def test_as_many_levels_as_rows(name):
    rng = np.random.default_rng(4)
    m = 5000
    y = rng.permutation(m) / m * 40.0
    loss = losses.get(name).grouped(np.arange(m) // 1250)
    there, here = OnDevice(loss, y, None).evaluate(rng.normal(size=m), None, 0.0, 0.0)
    assert there[0] == pytest.approx(here[0], rel=1e-12)
    np.testing.assert_allclose(there[3], here[3], atol=1e-10 * np.abs(here[3]).max())


@pytest.mark.parametrize("name", NAMES)
def test_margins_in_float32_are_taken_as_they_are(name):
    rng = np.random.default_rng(5)
    y, weights, groups = instance(name, rng, 5000, (5, 100))
    z = rng.normal(size=5000).astype(np.float32).astype(np.float64)
    loss = losses.get(name, **PARAMS.get(name, {})).grouped(groups)
    there, here = OnDevice(loss, y, weights, np.float32).evaluate(z, None, 0.0, 0.0)
    assert there[0] == pytest.approx(here[0], rel=1e-7 if name == "ndcg" else 1e-12)


def test_pairs_of_rows_whose_weights_are_unlike_keep_their_digits():
    # Rows of weight 1e12 pair only with rows of weight 1e-2: sums over these are differences of larger ones.
    rng = np.random.default_rng(8)
    y, weights = np.where(rng.random(4000) < 0.5, 1.0, -1.0), rng.uniform(0.01, 1.0, 4000)
    weights[(y > 0) & (rng.random(4000) < 0.3)] *= 1e12
    z, dz = rng.normal(size=(2, 4000))
    there, here = OnDevice(losses.get("roc_area"), y, weights).evaluate(z, dz, 0.3, 0.0)
    assert there[0] == pytest.approx(here[0], rel=1e-13)
    np.testing.assert_allclose(there[3], here[3], rtol=1e-11, atol=1e-14 * np.abs(here[3]).max())


def test_weights_too_unlike_for_sums_on_a_gpu_are_refused():
    X, y = np.random.default_rng(0).normal(size=(6, 2)), np.tile([1.0, -1.0], 3)
    weights = np.array([1e-4, 1.0, 1e12, 1.0, 1.0, 0.0])
    message = "sample weights: found one 1e[+]16 times the least, expected at most 1e[+]15 for loss roc_area"
    with pytest.raises(DataError, match=message):
        bmrm.solve(X, y, loss="roc_area", sample_weight=weights, device="cuda")
    assert bmrm.solve(X, y, loss="roc_area", sample_weight=weights, device="cpu").status == "converged"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_margins_that_are_no_numbers_do_no_harm(name, bad):
    rng = np.random.default_rng(6)
    y, weights, groups = instance(name, rng, 3000, (5, 100))
    z = rng.normal(size=3000)
    z[::7] = bad
    loss = losses.get(name, **PARAMS.get(name, {})).grouped(groups)
    risk = OnDevice(loss, y, weights)
    with np.errstate(invalid="ignore"):
        risk.there.evaluate(risk.vector(z), None, 0.0, 0.0, keep=0)
    after = risk.there.evaluate(risk.vector(np.zeros(3000)), None, 0.0, 0.0)[0]
    assert after == pytest.approx(loss.evaluate(np.zeros(3000), y, weights)[0], rel=1e-12)


@pytest.mark.parametrize("name", few(NAMES, 2))
@pytest.mark.parametrize(
    "options",
    [{}, {"fit_intercept": True}, {"fit_intercept": True, "penalize_intercept": True}, {"max_cuts": 12}],
    ids=lambda options: "-".join(options) or "plain",
)
def test_solves(name, options):
    if "fit_intercept" in options and losses.get(name).no_intercept:
        pytest.skip("the loss takes no intercept")
    rng = np.random.default_rng(7)
    m, d = 2000, 30
    X = sp.random(m, d, 0.3, "csr", rng=rng)
    scores = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(m)
    y = np.where(scores > 0, 1.0, -1.0) if name in BINARY else np.digitize(scores, [-0.5, 0.0, 0.5]) * 1.0
    given = {"lam": 1e-2, "tol": 1e-5, "groups": np.arange(m) // 20 if name in RANKING else None}
    given.update(options, **PARAMS.get(name, {}))
    if name == "recall_at_k":
        given["k"] = 0.8
    here = bmrm.solve(X, y, name, device="cpu", **given)
    there = bmrm.solve(X, y, name, device="cuda", **given)
    assert there.status == here.status == "converged"
    assert there.objective >= here.lower_bound - 1e-12
    assert here.objective >= there.lower_bound - 1e-12
    assert there.predict(X).shape == (m,)
    again = bmrm.solve(X, y, name, device="cuda", **given)
    assert (again.w == there.w).all()
    if name == "ordinal":
        np.testing.assert_allclose(there.thresholds, here.thresholds, atol=0.05)


def test_blocks_of_groups_have_cuts_of_their_own():
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((400, 6)), rng.integers(0, 4, 400).astype(float)
    options = {"lam": 1e-2, "tol": 1e-5, "groups": np.repeat(np.arange(40), 10)}
    there = bmrm.solve(X, y, "ndcg", device="cuda", cuts_per_pass=8, **options)
    assert there.status == "converged"
    assert there.bundle.groups == 8
    alone = bmrm.solve(X, y, "ndcg", device="cuda", **options)
    assert alone.bundle.groups == 1
    assert there.objective == pytest.approx(alone.objective, rel=3e-5)


@pytest.mark.parametrize("name", ["roc_area", "f_beta", "pairwise"])
def test_solves_with_fewer_rows_than_columns(name):
    rng = np.random.default_rng(9)
    m, d = sized((100, 300), (150, 600))
    X = sp.random(m, d, 0.1, "csr", rng=rng)
    y = np.sign(X @ rng.standard_normal(d) + 0.1)
    options = {"lam": 1e-2, "tol": 1e-6, "groups": np.arange(m) // 25 if name == "pairwise" else None}
    here, there = (bmrm.solve(X, y, name, device=device, **options) for device in ("cpu", "cuda"))
    assert there.status == here.status == "converged"
    assert there.objective >= here.lower_bound - 1e-12
    assert here.objective >= there.lower_bound - 1e-12


def test_a_path_and_folds_keep_to_the_device():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((900, 10))
    y = np.where(X[:, 0] + rng.standard_normal(900) > 0, 1.0, -1.0)
    here, there = (
        bmrm.path(X, y, [0.1, 0.01], loss="roc_area", tol=1e-5, device=device) for device in ("cpu", "cuda")
    )
    for a, b in zip(here, there, strict=True):
        assert b.objective == pytest.approx(a.objective, rel=2e-5)
    found = bmrm.select(X, y, [0.1, 0.01], 3, loss="roc_area", metric="auc", device="cuda")
    assert set(found.statuses) == {"converged"}
