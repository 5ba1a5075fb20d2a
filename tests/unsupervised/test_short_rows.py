"""PCA and TruncatedSVD of fewer rows than columns: the smaller matrix, with the same claims."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from bmrm import PCA, TruncatedSVD
from bmrm.unsupervised.decomposition.scatter import Scatter
from bmrm.unsupervised.decomposition.spectrum import largest_eigenvalues

KINDS = [
    *((PCA, kind) for kind in ("dense", "float32", "far", "sparse")),
    *((TruncatedSVD, kind) for kind in ("dense", "float32", "sparse")),
]
SOLVERS = ("covariance_eigh", "lanczos", "randomized")


def rows_of(kind, rng, n=30, d=200):
    X = rng.standard_normal((n, d)) * np.geomspace(5.0, 0.2, n)[:, None]
    if kind == "sparse":
        X = np.where(rng.random((n, d)) < 0.05, X, 0.0)
        X[:, rng.random(d) < 0.3] = 0.0
    if kind == "far":
        X = X + 1e6
    return X.astype(np.float32) if kind == "float32" else X


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("model", "kind"), KINDS)
def test_values_and_vectors_are_numpys_and_inside_their_bounds(solver, kind, weighted, model):
    rng = np.random.default_rng(3)
    X = rows_of(kind, rng)
    w = rng.integers(0, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    A = X.astype(np.longdouble)
    if model is PCA:
        A = A - (w[:, None] * A).sum(axis=0) / w.sum()
    A = (np.sqrt(w)[:, None] * A).astype(np.float64)
    _, values, vectors = np.linalg.svd(A, full_matrices=False)
    found = model(6, svd_solver=solver, random_state=0, iterated_power=12).fit(
        sp.csr_array(X) if kind == "sparse" else X, sample_weight=w
    )
    low, high = found.singular_value_bounds_.T
    assert (low <= values[:6] * (1 + 1e-13)).all()
    if found.bounds_proven_:
        assert (values[:6] * (1 - 1e-13) <= high).all()
    assert found.bounds_proven_ or solver != "covariance_eigh"
    np.testing.assert_allclose(
        found.singular_values_, values[:6], rtol=1e-3 if solver == "randomized" else 1e-9
    )
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(6), atol=1e-12)
    places = A @ found.components_.T  # uncorrelated, converged or not
    apart = places.T @ places - np.diag(np.einsum("ip,ip->p", places, places))
    assert np.abs(apart).max() < 1e-11 * values[0] ** 2
    sines = np.sqrt(np.maximum(1 - np.einsum("pd,pd->p", found.components_, vectors[:6]) ** 2, 0.0))
    assert (sines <= found.component_angles_ + 1e-7).all()
    residuals = np.linalg.norm(
        A.T @ (A @ found.components_.T) - found.components_.T * values[:6] ** 2, axis=0
    )
    assert (
        residuals <= found.residuals_ + 2 * values[0] * np.abs(found.singular_values_ - values[:6]).max() * 3
    ).all()
    if solver == "covariance_eigh":
        assert (found.component_angles_[:5] < 1e-2).all()
        assert (high - low < 1e-4 * values[0]).all()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_all_components_and_shares(kind):
    rng = np.random.default_rng(0)
    X = rows_of(kind, rng)
    rows = sp.csr_array(X) if kind == "sparse" else X
    found = PCA(svd_solver="covariance_eigh").fit(rows)
    assert found.components_.shape == (30, 200)
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(30), atol=1e-10)
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(found.singular_values_, values, atol=1e-6 * values[0])
    shares = np.cumsum(values**2) / (values**2).sum()
    for share in (0.5, 0.9, 0.99):
        assert PCA(share).fit(rows).n_components_ == int((shares <= share).sum()) + 1
    restored = found.inverse_transform(found.transform(X))
    np.testing.assert_allclose(restored, X, atol=1e-9)


@pytest.mark.parametrize("make", [lambda X: X, sp.csr_array])
@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_of_the_size_of_the_columns_squared(make, solver):
    X = make(np.where(np.random.default_rng(0).random((20, 20_000)) < 0.01, 1.5, 0.0))
    TruncatedSVD(2, svd_solver=solver, random_state=0).fit(make(np.eye(3, 5)))
    tracemalloc.start()
    found = PCA(0.9 if solver == "covariance_eigh" else 5, svd_solver=solver, random_state=0).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.components_.shape[1] == 20_000
    assert peak < 60e6


@pytest.mark.parametrize("rows", [np.zeros((3, 9)), np.ones((3, 9)), np.eye(3, 9), sp.csr_array((3, 9))])
@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_of_low_rank_have_orthonormal_components(rows, solver):
    for model in (PCA, TruncatedSVD):
        found = model(3, svd_solver=solver, random_state=0).fit(rows)
        np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(3), atol=1e-12)
        dense = rows.toarray() if sp.issparse(rows) else rows
        A = dense - dense.mean(axis=0) if model is PCA else dense
        values = np.linalg.svd(A, compute_uv=False)
        assert (found.singular_value_bounds_[:, 0] <= values + 1e-14).all()
        np.testing.assert_allclose(found.singular_values_, values, atol=1e-7)


def known_matrix(values, seed):
    """A symmetric matrix of integers with known eigenvalues, by a Hadamard matrix."""
    H = np.array([[1.0]])
    while len(H) < len(values):
        H = np.block([[H, H], [H, -H]])
    H = H[:, np.random.default_rng(seed).permutation(len(H))]
    return (H * values) @ H.T / len(values)


@pytest.mark.parametrize("kind", ["apart", "equal", "flat", "last ones equal", "low rank"])
def test_a_few_of_many_eigenvalues_are_proven_to_be_the_largest(kind):
    rng = np.random.default_rng(1)
    values = np.sort(rng.choice(1000, 256, replace=False))[::-1].astype(float)
    if kind == "equal":
        values[:20] = values[0]
    if kind == "flat":
        values[:] = 7.0
    if kind == "last ones equal":
        values[4:9] = values[4]
    if kind == "low rank":
        values[3:] = 0.0
    found = largest_eigenvalues(Scatter(known_matrix(values, 2), np.zeros(256), 1.0, 0.0), 5)
    assert len(found.values) == 6
    assert found.proven
    assert (found.bounds[:, 0] <= values[:6]).all()
    assert (values[:6] <= found.bounds[:, 1]).all()
    assert (np.diff(found.bounds) < 1e-6 * values[0]).all()
    if kind == "apart":
        assert (found.angles[:5] < 1e-6).all()
    if kind == "flat":
        assert (found.angles == 1.0).all()


def test_too_many_or_missed_eigenvalues_fall_back_to_all(monkeypatch):
    from bmrm.unsupervised.decomposition import spectrum

    values = np.arange(256.0)[::-1]
    scatter = Scatter(known_matrix(values, 0), np.zeros(256), 1.0, 0.0)
    assert len(largest_eigenvalues(scatter, 100).values) == 256
    monkeypatch.setattr(spectrum, "_bound_of_rest", lambda *given: np.inf)
    found = largest_eigenvalues(scatter, 3)
    assert len(found.values) == 256
    np.testing.assert_allclose(found.values, values, atol=1e-9)


def test_a_missed_eigenvalue_is_found_out():
    from bmrm.unsupervised.decomposition.spectrum import _bound_of_rest

    values = np.arange(256.0)[::-1]
    matrix = known_matrix(values, 0)
    found, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-found)
    kept = order[[0, 1, 3]]  # not the third
    assert _bound_of_rest(matrix, found[kept], vectors[:, kept], 1e-12) == np.inf
    kept = order[:3]
    assert _bound_of_rest(matrix, found[kept], vectors[:, kept], 1e-12) < 253.0 + 1e-6


def test_lanczos_goes_to_the_last_digits():
    rng = np.random.default_rng(42)
    for shape in ((400, 120), (60, 300)):
        S = sp.random_array(shape, density=0.1, random_state=3, format="csr")
        S = sp.csr_array(S.multiply(rng.random(shape[1])))
        D = S.toarray()
        V = np.linalg.svd(D - D.mean(axis=0), full_matrices=False)[2][:2]
        found = PCA(2, svd_solver="lanczos", tol=0.0, random_state=0).fit(S)
        assert found.status_ == "precision"
        np.testing.assert_allclose(np.abs(found.components_), np.abs(V), atol=2e-13)
        close = PCA(2, svd_solver="lanczos", tol=1e-12, random_state=0).fit(S)
        assert close.status_ == "converged"
        np.testing.assert_allclose(np.abs(close.components_), np.abs(V), atol=1e-10)
