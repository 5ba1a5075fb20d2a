"""PCA and TruncatedSVD against NumPy in float64, scikit-learn, and exact arithmetic; their intervals."""

import signal
import threading
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import bmrm
from bmrm import PCA, TruncatedSVD
from bmrm.distributed.row_set import RowSet
from bmrm.errors import BmrmError, DataError, Interrupted, ParameterError
from bmrm.unsupervised.decomposition.scatter import scatter_matrix
from bmrm.unsupervised.decomposition.spectrum import all_eigenvalues, some_eigenvalues

SOLVERS = ("covariance_eigh", "lanczos")


def table(rng, n, d, dtype=np.float64, offset=0.0):
    """Rows with a spectrum that falls slowly."""
    return (
        (rng.normal(size=(n, d)) * np.linspace(3.0, 0.5, d)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    ).astype(dtype) + dtype(offset)


def centered(X, weights=None):
    X = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    w = np.ones(len(X)) if weights is None else np.asarray(weights)
    mean = (w[:, None] * X).sum(axis=0) / w.sum()
    return (np.sqrt(w)[:, None] * (X - mean)).astype(np.float64)


def assert_inside(bounds, values, slack=1e-13):
    """Whether intervals contain values that LAPACK found to some digits."""
    assert (bounds[:, 0] <= values * (1 + slack) + slack * values[0]).all()
    assert (values * (1 - slack) - slack * values[0] <= bounds[:, 1]).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["float32", "float64", "sparse", "offset", "wide"])
@pytest.mark.parametrize("weighted", [False, True])
def test_singular_values_are_numpys_and_inside_their_intervals(solver, kind, weighted):
    rng = np.random.default_rng(1)
    shape = (40, 90) if kind == "wide" else (600, 40)
    X = table(
        rng, *shape, np.float32 if kind == "float32" else np.float64, 100.0 if kind == "offset" else 0.0
    )
    if kind == "sparse":
        X = sp.csr_array(np.where(rng.random(shape) < 0.1, X + 1.0, 0.0))
    weights = rng.integers(0, 4, shape[0]) if weighted else None
    found = PCA(7, svd_solver=solver, random_state=0).fit(X, sample_weight=weights)
    A = centered(X, weights)
    _, values, vectors = np.linalg.svd(A, full_matrices=False)
    total = shape[0] if weights is None else weights.sum()
    np.testing.assert_allclose(found.singular_values_, values[:7], rtol=1e-9)
    np.testing.assert_allclose(found.explained_variance_, values[:7] ** 2 / (total - 1), rtol=1e-9)
    np.testing.assert_allclose(
        found.explained_variance_ratio_, values[:7] ** 2 / (values**2).sum(), rtol=1e-8
    )
    np.testing.assert_allclose(
        found.noise_variance_, (values[7:] ** 2).sum() / (min(shape) - 7) / (total - 1), rtol=1e-7
    )
    assert_inside(found.singular_value_bounds_, values[:7])
    assert (np.diff(found.singular_value_bounds_) < 1e-5 * values[0]).all()
    assert found.bounds_proven_ == (solver == "covariance_eigh")
    assert found.status_ == "converged"
    sines = np.sqrt(np.maximum(1 - np.einsum("pd,pd->p", found.components_, vectors[:7]) ** 2, 0.0))
    assert (sines <= found.component_angles_ + 1e-7).all()
    if solver == "covariance_eigh":
        assert (found.component_angles_ < 1e-3).all()
    np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(7), atol=1e-13)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_is_scikit_learns(solver):
    decomposition = pytest.importorskip("sklearn.decomposition")
    rng = np.random.default_rng(3)
    X = table(rng, 300, 12)
    for whiten in (False, True):
        mine = PCA(4, whiten=whiten, svd_solver=solver, random_state=0).fit(X)
        theirs = decomposition.PCA(4, whiten=whiten, svd_solver="full").fit(X)
        np.testing.assert_allclose(mine.components_, theirs.components_, atol=1e-6)
        np.testing.assert_allclose(mine.mean_, theirs.mean_, atol=1e-13)
        np.testing.assert_allclose(mine.noise_variance_, theirs.noise_variance_, rtol=1e-9)
        np.testing.assert_allclose(mine.transform(X), theirs.transform(X), atol=1e-5)
        np.testing.assert_allclose(mine.fit_transform(X), mine.transform(X))
        scores = mine.transform(X)
        np.testing.assert_allclose(
            mine.inverse_transform(scores), theirs.inverse_transform(theirs.transform(X)), atol=1e-6
        )
    S = sp.csr_array(np.where(rng.random((300, 12)) < 0.3, X, 0.0))
    mine = TruncatedSVD(5, svd_solver=solver, random_state=0).fit(S)
    theirs = decomposition.TruncatedSVD(5, algorithm="arpack").fit(S)
    np.testing.assert_allclose(mine.singular_values_, theirs.singular_values_, rtol=1e-9)
    np.testing.assert_allclose(mine.explained_variance_, theirs.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(mine.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-6)
    np.testing.assert_allclose(np.abs(mine.transform(S)), np.abs(theirs.transform(S)), atol=1e-5)
    np.testing.assert_allclose(
        mine.inverse_transform(mine.transform(S)), theirs.inverse_transform(theirs.transform(S)), atol=1e-5
    )
    np.testing.assert_allclose(
        PCA(3).fit(S).transform(S), PCA(3).fit(S.toarray()).transform(S.toarray()), atol=1e-9
    )


def test_numbers_of_components():
    X = table(np.random.default_rng(0), 50, 6)
    assert PCA().fit(X).n_components_ == 6
    assert PCA().fit(X[:4]).n_components_ == 4
    shares = PCA().fit(X).explained_variance_ratio_
    for share in (0.3, 0.7, 0.95):
        p = PCA(share).fit(X).n_components_
        assert shares[:p].sum() > share >= shares[: p - 1].sum()
    with pytest.raises(ParameterError, match=r"found 0\.5, expected an integer for lanczos"):
        PCA(0.5, svd_solver="lanczos").fit(X)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_error_of_a_scatter_matrix_is_bounded(seed):
    """Against exact fractions."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 30)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4) + 10.0 ** rng.integers(-3, 7)
    weights = rng.random(n)
    rows = [[Fraction(x) for x in row] for row in X.tolist()]
    w = [Fraction(x) for x in weights.tolist()]
    mean = [sum(a * row[f] for a, row in zip(w, rows, strict=True)) / sum(w) for f in range(d)]
    exact = [
        [sum(a * (r[f] - mean[f]) * (r[g] - mean[g]) for a, r in zip(w, rows, strict=True)) for g in range(d)]
        for f in range(d)
    ]
    for rows_given in (X, sp.csr_array(X)):
        read = bmrm.io.Csr.from_scipy(rows_given) if sp.issparse(rows_given) else rows_given
        found = scatter_matrix(RowSet(read, weights), center=True)
        error = sum((Fraction(found.matrix[f, g]) - exact[f][g]) ** 2 for f in range(d) for g in range(d))
        assert error <= Fraction(found.error) ** 2


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_intervals_contain_known_eigenvalues(seed):
    """A symmetric matrix of integers with known eigenvalues: H diag H / n of a Hadamard matrix H."""
    rng = np.random.default_rng(seed)
    n = 2 ** int(rng.integers(1, 6))
    H = np.array([[1]])
    while len(H) < n:
        H = np.block([[H, H], [H, -H]])
    values = np.sort(rng.integers(0, 50, n))[::-1].astype(float)
    G = (H * values) @ H.T / n  # exact: integers, and n is a power of two
    scatter = type("Exact", (), {"matrix": G, "error": 0.0})()
    found = all_eigenvalues(scatter)
    assert (found.bounds[:, 0] <= values).all()
    assert (values <= found.bounds[:, 1]).all()
    assert (found.bounds[:, 1] - found.bounds[:, 0] <= 1e-9).all()
    p = int(rng.integers(1, n + 1))
    some = some_eigenvalues(
        lambda V: G @ V, n, p, trace=values.sum() * (1 + 1e-13), rounding=1e-12 * max(values[0], 1.0),
        tol=1e-9, max_iter=100, deadline=np.inf, rng=rng,
    )  # fmt: skip
    assert (some.bounds[:, 0] <= values[:p]).all()
    if some.proven:
        assert (values[:p] <= some.bounds[:, 1]).all()
    np.testing.assert_allclose(some.values, values[:p], atol=1e-7 * max(values[0], 1.0))


def test_lanczos_proves_what_dominates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60)) * np.concatenate([[50.0, 40.0, 30.0], np.full(57, 0.1)])
    found = PCA(3, svd_solver="lanczos", random_state=0).fit(X)
    assert found.bounds_proven_
    assert (found.component_angles_ < 1e-4).all()
    assert_inside(found.singular_value_bounds_, np.linalg.svd(centered(X))[1][:3])


def test_rows_may_be_resident():
    rng = np.random.default_rng(2)
    X = table(rng, 200, 8)
    for rows in (X, sp.csr_array(X)):
        for solver in SOLVERS:
            found = PCA(3, svd_solver=solver, random_state=0).fit(bmrm.Dataset(rows))
            np.testing.assert_allclose(found.singular_values_, np.linalg.svd(centered(X))[1][:3], rtol=1e-9)
    weights = rng.integers(1, 4, 200)
    for rows in (X, sp.csr_array(X)):
        for solver in SOLVERS:
            data = bmrm.Dataset(rows, sample_weight=weights)
            found = PCA(3, svd_solver=solver, random_state=0).fit(data)
            true = np.linalg.svd(centered(X, weights))[1][:3]
            np.testing.assert_allclose(found.singular_values_, true, rtol=1e-9)


def test_a_data_set_says_which_gpu_it_is_on():
    class OnSecondGpu:
        """A matrix on the CPU that says it is on another device."""

        device, is_dense = 1, False

        def __init__(self, matrix):
            self._matrix = matrix

        def __getattr__(self, name):
            return getattr(self._matrix, name)

    data = bmrm.Dataset(sp.csr_array(np.random.default_rng(0).normal(size=(40, 6))))
    data.matrix, data.device = OnSecondGpu(data.matrix), "cuda (a GPU)"
    for device in ("auto", "cuda:1"):
        assert PCA(2, svd_solver="lanczos", device=device).fit(data).placement_.device == "cuda:1"
    for device in ("cuda", "cuda:0", "cpu"):
        with pytest.raises(ParameterError, match="expected cuda:1, where the Dataset is"):
            PCA(2, svd_solver="lanczos", device=device).fit(data)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), solver=st.sampled_from(SOLVERS))
def test_a_whole_weight_counts_as_repeated_rows_and_zero_as_none(seed, solver):
    rng = np.random.default_rng(seed)
    X, weights = table(rng, 30, 4), rng.integers(0, 4, 30)
    weights[:5] = 1
    one = PCA(2, svd_solver=solver, random_state=0).fit(X, sample_weight=weights)
    other = PCA(2, svd_solver=solver, random_state=0).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(one.singular_values_, other.singular_values_, rtol=1e-8)
    np.testing.assert_allclose(one.explained_variance_, other.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(one.mean_, other.mean_, rtol=1e-10, atol=1e-12)


def test_the_same_bits_for_any_number_of_threads():
    X = table(np.random.default_rng(0), 5000, 20, np.float32)
    for solver in SOLVERS:
        fits = [PCA(3, svd_solver=solver, random_state=0, threads=t).fit(X) for t in (1, 2, 3)]
        assert len({fit.components_.tobytes() for fit in fits}) == 1


def test_constant_rows_have_no_variance():
    found = PCA(2).fit(np.full((10, 3), 0.1))
    np.testing.assert_allclose(found.singular_values_, 0.0, atol=1e-15)
    assert (found.explained_variance_ratio_ >= 0.0).all()
    assert np.isfinite(PCA(2, whiten=True).fit_transform(np.full((10, 3), 2.0))).all()
    assert (PCA(2, svd_solver="lanczos").fit(np.zeros((10, 3))).singular_values_ == 0.0).all()


def test_limits_are_reported_with_valid_intervals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200))
    values = np.linalg.svd(centered(X))[1]
    for options, status in (({"max_iter": 2}, "max_iter"), ({"max_time": 1e-9}, "max_time")):
        found = PCA(4, svd_solver="lanczos", random_state=0, **options).fit(X)
        assert found.status_ == status
        assert (found.singular_value_bounds_[:, 0] <= values[:4] * (1 + 1e-13)).all()
        for low, high in found.singular_value_bounds_:
            assert ((values >= low) & (values <= high)).any()


def test_an_interrupt_returns_what_was_found():
    X = np.random.default_rng(0).normal(size=(2000, 1500))
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(Interrupted) as caught:
        PCA(30, svd_solver="lanczos", tol=0.0, max_iter=10_000, random_state=0).fit(X)
    timer.join()
    found, columns = caught.value.result.components_.shape
    assert 1 <= found <= 30  # of a basis that may not have 30 vectors yet
    assert columns == 1500
    assert caught.value.result.status_ == "interrupted"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_components": 0}, "n_components: found 0"),
        ({"n_components": 5}, "n_components: found 5, expected at most 4, the smaller side of X"),
        ({"n_components": 1.5}, "n_components: found 1.5"),
        ({"n_components": "mle"}, "n_components: found 'mle'"),
        ({"svd_solver": "full"}, "svd_solver: found 'full', .*; did you mean 'covariance_eigh'?"),
        ({"svd_solver": "arpack"}, "svd_solver: found 'arpack', .*; did you mean 'lanczos'?"),
        ({"power_iteration_normalizer": "qr"}, "power_iteration_normalizer: found 'qr', expected one of"),
        ({"n_oversamples": -1}, "n_oversamples: found -1, expected at least 0"),
        ({"iterated_power": 0.5}, "iterated_power: found 0.5, expected an integer"),
        ({"tol": -1}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_time": -1}, "max_time"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ParameterError, match=text) as caught:
        PCA(**options).fit(np.eye(4))
    assert "\n" not in str(caught.value)


def test_bad_rows():
    for model in (PCA(1), TruncatedSVD(1)):
        for X in (np.zeros((0, 2)), np.array([[1.0], [np.nan]]), np.zeros(3)):
            with pytest.raises(DataError):
                model.fit(X)
        with pytest.raises(BmrmError, match="no fitted model"):
            model.transform(np.eye(2))
    with pytest.raises(DataError, match="total weight of 1, expected more than 1"):
        PCA(1).fit(np.ones((1, 2)))
    found = PCA(1).fit(np.eye(3))
    with pytest.raises(DataError, match="found 2 columns, expected 3"):
        found.transform(np.eye(2))
    with pytest.raises(DataError, match="expected 1 columns"):
        found.inverse_transform(np.eye(2))


def test_scikit_learns_tools_accept_the_estimators():
    base = pytest.importorskip("sklearn.base")
    from sklearn.pipeline import make_pipeline

    X = table(np.random.default_rng(0), 60, 5)
    model = make_pipeline(base.clone(PCA(3)), TruncatedSVD(2)).fit(X)
    assert model.transform(X).shape == (60, 2)


@pytest.mark.parametrize(("equal", "p"), [(15, 12), (15, 20), (9, 9), (40, 5)])
def test_more_equal_eigenvalues_than_a_block_has_vectors(equal, p):
    rng = np.random.default_rng(0)
    true = np.r_[np.full(equal, 10.0), np.linspace(5.0, 0.1, 300 - equal)]
    Q = np.linalg.qr(rng.normal(size=(300, 300)))[0]
    G = Q * true @ Q.T
    found = some_eigenvalues(
        lambda V: G @ V,
        300,
        p,
        trace=1.0001 * true.sum(),
        rounding=1e-13,
        tol=1e-10,
        max_iter=1000,
        deadline=np.inf,
        rng=rng,
    )
    assert found.status == "converged"
    np.testing.assert_allclose(found.values, true[:p], rtol=1e-13)
    assert (found.bounds[:, 0] <= true[:p]).all()
    assert (true[:p] <= found.bounds[:, 1]).all()
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(p), atol=1e-13)


@pytest.mark.parametrize("max_iter", range(1, 12))
def test_a_limit_may_come_at_a_restart(max_iter):
    X = np.random.default_rng(0).normal(size=(120, 90))
    model = PCA(3, svd_solver="lanczos", max_iter=max_iter, tol=1e-12, random_state=0).fit(X)
    true = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:3]
    assert model.status_ in ("max_iter", "converged")
    assert (model.singular_value_bounds_[:, 0] <= true).all()
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "sparse", "wide"])
def test_the_randomised_method_has_valid_intervals(kind):
    rng = np.random.default_rng(2)
    X = table(rng, 60, 300) if kind == "wide" else table(rng, 400, 120)
    if kind == "sparse":
        X = sp.csr_array(np.where(rng.random(X.shape) < 0.1, X, 0.0))
    values = np.linalg.svd(centered(X))[1]
    model = PCA(4, svd_solver="randomized", random_state=0).fit(X)
    assert (model.status_, model.n_iter_) == ("max_iter", 9)  # 7 powers, the last product and the bounds'
    assert PCA(30, svd_solver="randomized", random_state=0).fit(X).n_iter_ == 6
    for found in (model, PCA(4, svd_solver="randomized", iterated_power=0, random_state=0).fit(X)):
        assert (found.singular_value_bounds_[:, 0] <= values[:4] * (1 + 1e-13)).all()
        for low, high in found.singular_value_bounds_:
            assert ((values >= low) & (values <= high)).any()
        np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(4), atol=1e-13)
    np.testing.assert_allclose(model.singular_values_, values[:4], rtol=0.02)
    svd = TruncatedSVD(4, svd_solver="randomized", iterated_power=60, random_state=0).fit(X)
    true = np.linalg.svd(X.toarray() if kind == "sparse" else X, compute_uv=False)[:4]
    np.testing.assert_allclose(svd.singular_values_, true, rtol=1e-6)


def test_the_randomised_method_ends_early_if_it_can():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 50))
    found = PCA(3, svd_solver="randomized", random_state=0).fit(X)
    assert (found.status_, found.bounds_proven_) == ("converged", True)
    assert found.n_iter_ < 5
    np.testing.assert_allclose(found.singular_values_, np.linalg.svd(centered(X))[1][:3], rtol=1e-10)
    with pytest.raises(ParameterError, match=r"found 0\.5, expected an integer for randomized"):
        PCA(0.5, svd_solver="randomized").fit(X)


@pytest.mark.parametrize("p", [1, 4, 12])
def test_densities_are_scikit_learns(p):
    decomposition = pytest.importorskip("sklearn.decomposition")
    X = table(np.random.default_rng(3), 300, 12, offset=50.0)
    mine, theirs = PCA(p).fit(X), decomposition.PCA(p, svd_solver="full").fit(X)
    new = X[:50] + 0.1
    np.testing.assert_allclose(mine.score_samples(new), theirs.score_samples(new), rtol=1e-9)
    np.testing.assert_allclose(mine.score(new), theirs.score(new), rtol=1e-9)
    np.testing.assert_allclose(mine.score_samples(sp.csr_array(new)), theirs.score_samples(new), rtol=1e-7)
    np.testing.assert_allclose(mine.get_covariance(), theirs.get_covariance(), atol=1e-9)
    np.testing.assert_allclose(mine.get_precision(), theirs.get_precision(), atol=1e-8)


def test_a_singular_covariance_has_no_density():
    X = np.random.default_rng(0).normal(size=(30, 2)) @ np.ones((2, 4))
    with pytest.raises(DataError, match="score: found a singular covariance"):
        PCA(4).fit(np.ones((5, 4))).score(X)
    with pytest.raises(DataError, match="score: found a singular covariance"):
        PCA(3).fit(X[:3]).get_precision()


@pytest.mark.parametrize("scale", [1e140, 1e-140])
@pytest.mark.parametrize("solver", [*SOLVERS, "randomized"])
def test_intervals_have_the_scale_of_the_rows(scale, solver):
    X = table(np.random.default_rng(0), 60, 20)
    for model in (PCA, TruncatedSVD):
        one = model(3, svd_solver=solver, random_state=0).fit(X)
        other = model(3, svd_solver=solver, random_state=0).fit(X * scale)
        np.testing.assert_allclose(
            other.singular_value_bounds_, one.singular_value_bounds_ * scale, rtol=1e-6
        )
        residuals = other.residuals_ / scale / scale
        np.testing.assert_allclose(residuals, one.residuals_, rtol=0.5, atol=1e-11)
    rows = sp.csr_array(np.full((5, 3), scale))
    assert np.isfinite(PCA(1, svd_solver="covariance_eigh").fit(rows).singular_value_bounds_).all()


@pytest.mark.parametrize("make", [np.zeros, np.ones, lambda shape: np.eye(*shape)])
@pytest.mark.parametrize("sparse", [False, True])
def test_more_components_than_a_subspace_of_lanczos_has_vectors(make, sparse):
    """Few different eigenvalues: the subspace is soon invariant, and has one block of vectors of each."""
    X = make((40, 30))
    for p in (1, 9, 20, 30):
        found = TruncatedSVD(p, svd_solver="lanczos", random_state=0).fit(sp.csr_array(X) if sparse else X)
        assert found.status_ == "converged"
        assert found.components_.shape == (p, 30)
        np.testing.assert_allclose(found.components_ @ found.components_.T, np.eye(p), atol=1e-12)
        true = np.linalg.svd(X, compute_uv=False)[:p]
        np.testing.assert_allclose(found.singular_values_, true, atol=1e-6)
        assert (found.singular_value_bounds_[:, 0] <= true).all()


def test_equal_eigenvalues_beyond_an_invariant_subspace():
    rng = np.random.default_rng(0)
    values = np.r_[np.full(15, 10.0), np.full(285, 5.0)]
    X = values[:, None] ** 0.5 * np.linalg.qr(rng.normal(size=(300, 300)))[0]
    found = TruncatedSVD(12, svd_solver="lanczos", random_state=0).fit(X)
    np.testing.assert_allclose(found.singular_values_**2, 10.0, rtol=1e-10)
