"""PCA and TruncatedSVD of rows and weights of any scale: intervals against exact fractions, and values."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm import PCA, TruncatedSVD
from bmrm.errors import DataError

SOLVERS = ("covariance_eigh", "lanczos", "randomized")
KINDS = ("tiny", "huge", "mixed", "far", "denormal", "rank one", "constant", "columns")


def rows_of(kind, rng, n, d):
    X = rng.standard_normal((n, d))
    if kind == "denormal":
        return rng.integers(-5, 6, (n, d)) * 5e-324
    if kind == "rank one":
        X = np.outer(X[:, 0], X[0]) * 10.0 ** rng.uniform(-250, 140)
    elif kind == "constant":
        X = np.repeat(X[:1], n, axis=0) * 10.0 ** rng.uniform(-300, 140)
    elif kind == "far":
        X = X * 10.0 ** -rng.uniform(0, 200) + 10.0 ** rng.uniform(-150, 149)
    else:
        exponents = {"tiny": (-307, -100), "huge": (50, 148), "mixed": (-200, 140), "columns": (-170, 30)}[
            kind
        ]
        shape = {"mixed": (n, d), "columns": (1, d)}.get(kind, (1, 1))
        X = X * 10.0 ** rng.uniform(*exponents, size=shape)
    return np.clip(X, -1e150, 1e150)


def weights_of(rng, n):
    w = rng.random(n) * 10.0 ** float(rng.choice([0, -150, -300, 170, 290]))
    if rng.random() < 0.3:
        w = w * 10.0 ** rng.uniform(-8, 8, n)
    w[1:] *= rng.random(n - 1) < 0.8
    return w


def characteristic(X, w, center):
    """Return the coefficients of the characteristic polynomial of A'A, exactly, the constant one first."""
    x = [[Fraction(v) for v in row] for row in X.tolist()]
    w = [Fraction(v) for v in w.tolist()]
    n, d = X.shape
    mean = [sum(a * r[f] for a, r in zip(w, x, strict=True)) / sum(w) * center for f in range(d)]
    c = [[r[f] - mean[f] for f in range(d)] for r in x]
    G = [[sum(w[i] * c[i][f] * c[i][g] for i in range(n)) for g in range(d)] for f in range(d)]
    # Faddeev and LeVerrier
    M, found = [[Fraction(0)] * d for _ in range(d)], [Fraction(1)]
    for k in range(1, d + 1):
        M = [
            [sum(G[i][j] * M[j][h] for j in range(d)) + (found[0] if i == h else 0) for h in range(d)]
            for i in range(d)
        ]
        trace = sum(G[i][j] * M[j][i] for i in range(d) for j in range(d))
        found.insert(0, -trace / k)
    return found


def count_above(polynomial, t):
    """Return the number of roots above t of a polynomial with real roots: Descartes' rule is exact for it."""
    shifted = list(polynomial)
    for i in range(len(shifted) - 1):
        for j in range(len(shifted) - 2, i - 1, -1):
            shifted[j] += t * shifted[j + 1]
    signs = [a > 0 for a in shifted if a != 0]
    return sum(a != b for a, b in itertools.pairwise(signs))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
    solver=st.sampled_from(SOLVERS),
    weighted=st.booleans(),
    sparse=st.booleans(),
    center=st.booleans(),
)
def test_intervals_contain_the_exact_values_at_any_scale(seed, kind, solver, weighted, sparse, center):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    X = rows_of(kind, rng, n, d)
    if sparse:
        X = np.where(rng.random((n, d)) < 0.5, X, 0.0)
    w = weights_of(rng, n) if weighted else np.ones(n)
    if center and w.sum() < 2.0:
        w = w / w.sum() * 3.0
    model = (PCA if center else TruncatedSVD)(
        int(rng.integers(1, min(n, d) + 1)), svd_solver=solver, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(sp.csr_array(X) if sparse else X, sample_weight=w)
    polynomial = characteristic(X, w, center)
    assert np.isfinite(model.singular_value_bounds_).all()
    for i, (low, high) in enumerate(model.singular_value_bounds_.tolist()):
        if low > 0.0:
            assert count_above(polynomial, Fraction(low) ** 2 * (1 - Fraction(1, 10**40))) > i
        if model.bounds_proven_:
            assert count_above(polynomial, Fraction(high) ** 2) <= i
    shares = model.explained_variance_ratio_
    assert ((shares >= 0.0) & (shares <= 1.0)).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-156, 1e-100, 1e100, 1e148])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_values_have_the_scale_of_the_rows(scale, solver, sparse):
    X = np.random.default_rng(0).standard_normal((30, 6)) * [9, 5, 3, 1, 1, 1]
    for kind in (PCA, TruncatedSVD):
        one, other = (
            kind(2, svd_solver=solver, random_state=0).fit(sp.csr_array(Y) if sparse else Y)
            for Y in (X, X * scale)
        )
        np.testing.assert_allclose(other.singular_values_ / scale, one.singular_values_, rtol=1e-12)
        np.testing.assert_allclose(
            other.singular_value_bounds_ / scale, one.singular_value_bounds_, rtol=1e-9
        )
        np.testing.assert_allclose(other.explained_variance_ratio_, one.explained_variance_ratio_, rtol=1e-10)
        np.testing.assert_allclose(other.components_, one.components_, atol=1e-9)
        assert other.bounds_proven_ == one.bounds_proven_
    white = PCA(2, whiten=True, svd_solver=solver, random_state=0).fit(X * scale)
    np.testing.assert_allclose(white.transform(X * scale).std(axis=0, ddof=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(
        white.inverse_transform(white.transform(X * scale)) / scale, one_plane(X), atol=1e-6
    )


def one_plane(X):
    plain = PCA(2).fit(X)
    return plain.inverse_transform(plain.transform(X))


@pytest.mark.parametrize("weight", [1e-290, 1e-150, 1e150, 1e170, 1e280])
@pytest.mark.parametrize("solver", SOLVERS)
def test_values_have_the_root_of_the_scale_of_the_weights(weight, solver):
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((30, 4)), rng.random(30)
    for kind in (PCA, TruncatedSVD):
        if kind is PCA and weight < 1.0:
            continue
        one, other = (
            kind(2, svd_solver=solver, random_state=0).fit(X, sample_weight=v) for v in (w, w * weight)
        )
        np.testing.assert_allclose(other.singular_values_ / np.sqrt(weight), one.singular_values_, rtol=1e-12)
        np.testing.assert_allclose(other.explained_variance_ratio_, one.explained_variance_ratio_, rtol=1e-10)
        np.testing.assert_allclose(other.components_, one.components_, atol=1e-9)
    with pytest.raises(DataError, match="sample_weight: found weights from 1e-300 to 1e"):
        TruncatedSVD(1, svd_solver=solver).fit(X[:2], sample_weight=[1e-300, 1e300])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_weights_that_sum_to_1_have_no_variance(dtype):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(10 ** rng.uniform(1, 5))
        w = rng.random(n).astype(dtype)
        w /= w.sum()
        with pytest.raises(DataError, match=r"found a total weight of [01.]\S*, expected more than 1.0001"):
            PCA(1).fit(rng.normal(size=(n, 2)), sample_weight=w)
    X = rng.normal(size=(9, 3))
    few, many = (PCA(2).fit(X, sample_weight=np.full(9, s)) for s in (0.2, 300.0))
    np.testing.assert_allclose(few.explained_variance_ratio_, many.explained_variance_ratio_, rtol=1e-12)
    np.testing.assert_allclose(few.components_, many.components_, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_shares_of_rows_far_from_0_are_those_of_their_differences(solver):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((40, 5)).round(3)
    X, true = D + 2.0**30, np.linalg.svd(D - D.mean(axis=0))[1] ** 2
    for rows in (X, sp.csr_array(X)):
        found = PCA(2, svd_solver=solver, random_state=0).fit(rows)
        np.testing.assert_allclose(found.explained_variance_ratio_, true[:2] / true.sum(), rtol=1e-5)
        spread = TruncatedSVD(3, svd_solver=solver, random_state=0).fit(rows)
        assert 0.0 < spread.explained_variance_ratio_.sum() < 1.0
    flat = np.full((14, 13), 3.3, np.float32)
    for model in (PCA(3, svd_solver=solver), TruncatedSVD(3, svd_solver=solver)):
        shares = model.fit(flat).explained_variance_ratio_
        assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert PCA(0.9).fit(sp.csr_array(X)).n_components_ == PCA(0.9).fit(D).n_components_


def test_an_outlier_without_weight_moves_nothing():
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((200, 3)), np.ones(200)
    X[::7], w[::7] = 1e150, 0.0
    found = PCA(2).fit(X, sample_weight=w)
    np.testing.assert_allclose(found.singular_values_, PCA(2).fit(X[w > 0]).singular_values_, rtol=1e-13)
    assert (np.diff(found.singular_value_bounds_) < 1e-9).all()
