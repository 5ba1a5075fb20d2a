"""Certificates on ill-conditioned data, held against values of J in extended precision.

Bounds must stay below the optimum, and so below J at any point. The points are those of a solve to a gap of
1e-11, and J there is evaluated here. If long double is no wider than double, the tests show that much
less.
"""

from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.matrix.gpu.devices import gpu

M, D = 400, 15
LONG = np.longdouble
LOSSES = ("hinge", "squared_hinge", "logistic", "absolute", "squared")
BINARY = ("hinge", "squared_hinge", "logistic")


@lru_cache
def family(name):
    """Rows and lam of data that are hard in one way."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((M, D))
    few = np.repeat(rng.standard_normal((M, 3)), D // 3, axis=1)
    X, lam = {
        "columns over six decades": (base * 10.0 ** rng.uniform(-3, 3, D), 1e-4),
        "nearly collinear columns": (few + 1e-4 * base, 1e-6),
        "columns far from zero": (base + 1e3, 1e-4),
        "huge margins": (base * 1e5, 1e-3),
        "tiny lam": (base, 1e-10),
        "collinear columns and tiny lam": (few + 1e-4 * base, 1e-10),
        "more columns than rows": (np.tile(base[:60], 10) + 1e-3 * rng.standard_normal((60, 150)), 1e-8),
    }[name]
    return X.astype(np.float32), lam


FAMILIES = (
    "columns over six decades",
    "nearly collinear columns",
    "columns far from zero",
    "huge margins",
    "tiny lam",
    "collinear columns and tiny lam",
    "more columns than rows",
)


@lru_cache
def problem(name, loss):
    """Rows, labels, lam, and J at the best point known, in extended precision."""
    X, lam = family(name)
    rng = np.random.default_rng(1)
    wide = X.astype(np.float64)
    m, d = X.shape
    z = wide @ (rng.standard_normal(d) / np.abs(wide).mean(axis=0)) + 0.3 * rng.standard_normal(m)
    y = np.where(z > np.median(z), 1.0, -1.0) if loss in BINARY else z
    best = bmrm.solve(wide, y, loss, lam=lam, tol=1e-11, device="cpu", max_iter=1500, max_time=0.5)
    return X, y, lam, objective(loss, X, y, lam, best.w)


def objective(loss, X, y, lam, w):
    """The objective in extended precision."""
    w, y = w.astype(LONG), y.astype(LONG)
    z = X.astype(LONG) @ w
    values = {
        "hinge": lambda: np.maximum(0, 1 - y * z),
        "squared_hinge": lambda: np.maximum(0, 1 - y * z) ** 2,
        "logistic": lambda: np.maximum(-y * z, 0) + np.log1p(np.exp(-np.abs(z))),
        "absolute": lambda: np.abs(z - y),
        "squared": lambda: (z - y) ** 2 / 2,
    }[loss]()
    return lam * (w @ w) / 2 + values.mean()


def check(loss, X, y, lam, optimum, found, exact):
    """Compare a result with the optimum and with J at its own weights."""
    own = objective(loss, X, y, lam, found.w)
    room = 1e-12 * own + 1e-14 * np.abs(y).mean()
    assert found.lower_bound <= min(optimum, own) * (1 + 1e-13)
    assert found.gap == found.objective - found.lower_bound >= 0.0
    # The gap covers the error of the objective.
    assert abs(found.objective - own) <= (room if exact else max(found.gap, room))
    assert own - optimum <= 1.01 * found.gap + room
    if found.status == "converged":
        assert found.gap <= found.tol * found.objective


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("tol", "dtype"), [(1e-3, np.float32), (1e-8, np.float64)])
def test_certificates_on_the_cpu(name, loss, tol, dtype):
    X, y, lam, optimum = problem(name, loss)
    found = bmrm.solve(X.astype(dtype), y, loss, lam=lam, tol=tol, device="cpu", max_iter=800, max_time=0.5)
    check(loss, X, y, lam, optimum, found, exact=True)


class Float32Products:
    """What a GPU does with float32: vectors are rounded, and 32 threads add up a row in their type."""

    weighted_gram_work = np.inf
    location, threads = "host", 1

    def __init__(self, X):
        self.rows, self.columns = X, np.ascontiguousarray(X.T)
        self.shape, self.nnz = X.shape, X.size
        self.mean_squares = np.square(X, dtype=np.float64).mean(axis=0)

    @staticmethod
    def product(rows, vector):
        m, n = rows.shape
        terms = np.zeros((m, -(-n // 32) * 32), np.float32)
        terms[:, :n] = rows * vector.astype(np.float32)
        by_thread = np.add.accumulate(terms.reshape(m, -1, 32), axis=1, dtype=np.float32)[:, -1]
        return by_thread.sum(axis=1, dtype=np.float32)

    def matvec(self, w, out):
        out[:] = self.product(self.rows, w)

    def rmatvec_blocks(self, r, starts, out):
        assert len(starts) == 2
        out[0] = self.product(self.columns, r)


@pytest.mark.parametrize(
    ("name", "loss", "tol"),
    [
        (name, loss, (1e-5, (1e-3, 1e-8)[(i + j) % 2])[k])
        for i, name in enumerate(FAMILIES)
        for j, loss in enumerate(LOSSES)
        for k in range(2)
    ],
)
def test_certificates_of_products_in_float32(name, loss, tol):
    X, y, lam, optimum = problem(name, loss)
    data = bmrm.Dataset(X, y, device="cpu")
    data.matrix, data.resolution = Float32Products(X), 1e-5
    found = bmrm.solve(data, loss=loss, lam=lam, tol=tol, cuts_per_pass=1, max_iter=800, max_time=1.0)
    check(loss, X, y, lam, optimum, found, exact=False)
    assert found.status != "converged" or tol >= 1e-5
    if (name, loss, tol) == ("collinear columns and tiny lam", "squared_hinge", 1e-5):
        assert found.status != "converged"  # though float32 resolves 1e-5 on most data


@pytest.mark.skipif(gpu() is None, reason="there is no CUDA device")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("tol", "dtype"), [(1e-3, None), (1e-5, None), (1e-8, None), (1e-8, np.float32)])
@pytest.mark.parametrize("sparse", [False, True])
def test_certificates_on_a_gpu(name, loss, tol, dtype, sparse):
    X, y, lam, optimum = problem(name, loss)
    rows = sp.csr_array(X) if sparse else X
    found = bmrm.solve(
        rows, y, loss, lam=lam, tol=tol, dtype=dtype, device="cuda", max_iter=800, max_time=0.5
    )
    check(loss, X, y, lam, optimum, found, exact=tol < 1e-5 and dtype is None)
    assert found.status != "converged" or dtype is None


@pytest.mark.parametrize("seed", [16, 17, 18, 19, 23, 29])
def test_offsets_that_are_differences_of_far_larger_numbers(seed):
    # With solver="bmrm" the first points are minimisers of a model that lam alone bounds.
    rng = np.random.default_rng(seed)
    X = sp.random_array((76, 1300), density=0.02, rng=rng).tocsr()
    y = X @ rng.normal(size=1300) + rng.normal(size=76)
    options = {
        "loss": "absolute",
        "lam": 3e-5,
        "feature_lambda": rng.random(1300) + 1e-3,
        "fit_intercept": True,
    }
    optimum = bmrm.solve(X, y, tol=1e-8, **options).objective
    found = bmrm.solve(X, y, tol=1e-6, solver="bmrm", **options)
    assert found.status == "converged"
    assert found.lower_bound <= optimum <= found.objective


def separable_rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[:, 0] += 0.5 * y
    return X, y


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_hard_margin_is_certified_however_small_lam_is(loss, fit):
    """Rows that can be separated: J / lam is |w|^2 / 2 of the widest margin, for every small lam."""
    X, y = separable_rows()
    soft = bmrm.solve(X, y, "hinge", lam=1e-8, tol=1e-6, fit_intercept=fit)
    for lam in (1e-11, 1e-12, 1e-13, 1e-14, 1e-16):
        found = bmrm.solve(X, y, loss, lam=lam, tol=1e-3, fit_intercept=fit)
        assert found.status == "converged"
        assert found.n_iter < 100
        assert found.lower_bound / lam <= soft.objective / soft.lam * (1.0 + 1e-5)
        assert found.objective / lam == pytest.approx(soft.objective / soft.lam, rel=2e-3)


LEAST = (1e-18, 1e-50, 1e-100, 1e-200)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("lam", LEAST)
def test_the_least_lam_divides_by_nothing(lam, fit):
    X, y = separable_rows()
    soft = bmrm.solve(X, y, "hinge", lam=1e-8, tol=1e-6, fit_intercept=fit)
    found = bmrm.solve(X, y, "hinge", lam=lam, fit_intercept=fit, max_iter=500)
    assert found.status == "converged"
    assert found.objective / lam == pytest.approx(soft.objective / soft.lam, rel=2e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lam", LEAST)
def test_rows_that_cannot_be_separated_have_the_optimum_without_a_penalty_at_the_least_lam(lam):
    X, y = np.array([[0, 0, 0, 0, 1, 1, 1, 1.0]]).T, [1, 0, 0, 0, 1, 1, 1, 0]
    found = bmrm.solve(X, y, "logistic", lam=lam, fit_intercept=True, max_iter=500)
    assert found.status in ("converged", "precision")
    assert found.objective == pytest.approx(0.5623351446188083, rel=1e-6)
    assert found.lower_bound <= 0.5623351446188084
