"""GaussianMixture: steps against a plain E and M step in NumPy, fits against scikit-learn."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from instruction_sets import assert_same_results
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import bmrm
from bmrm import GaussianMixture
from bmrm.distributed.row_set import RowSet
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.matrix._cpu import instruction_set
from bmrm.unsupervised.mixtures._mixtures import mixture_shares
from bmrm.unsupervised.mixtures.cpu import HostMixture
from bmrm.unsupervised.mixtures.estimator import COVARIANCE_TYPES, STARTS, _Parameters


def blobs(rng, n, d, k, spread=4.0):
    means = spread * rng.normal(size=(k, d))
    turns = rng.normal(size=(k, d, d)) / np.sqrt(d) + np.eye(d)
    labels = rng.integers(0, k, n)
    return means[labels] + np.einsum("ndf,nf->nd", turns[labels], rng.normal(size=(n, d)))


def mixture(rng, d, k):
    """Random means, covariances and weights, and what the compiled step reads."""
    means = rng.normal(size=(k, d))
    roots = rng.normal(size=(k, d, d)) * 0.2 + np.eye(d)
    covariances = np.einsum("kdf,kgf->kdg", roots, roots)
    weights = rng.random(k) + 0.1
    return weights / weights.sum(), means, covariances


def logs_of(X, weights, means, covariances):
    terms = zip(weights, means, covariances, strict=True)
    return np.array(
        [np.log(w) + np.atleast_1d(multivariate_normal(m, c).logpdf(X)) for w, m, c in terms]
    ).T.reshape(len(X), -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (64, 2, 3), (200, 5, 4), (5000, 3, 2)])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_step_is_numpys(dtype, n, d, k, full, offset):
    rng = np.random.default_rng(n + d)
    weights, means, covariances = mixture(rng, d, k)
    if not full:
        covariances = covariances * np.eye(d)
    X = (3 * rng.normal(size=(n, d)) + offset).astype(dtype)
    means = means + offset
    row_weights = rng.integers(0, 3, n).astype(float)
    roots = np.array([np.linalg.inv(np.linalg.cholesky(c)) for c in covariances])
    constants = np.log(weights) + np.log(np.einsum("kdd->kd", roots)).sum(axis=1) - d / 2 * np.log(2 * np.pi)
    roots = np.tril(roots) if full else np.einsum("kdd->kd", roots)
    likelihood, sizes, first, second = HostMixture(RowSet(X, row_weights, 2)).step(means, roots, constants)
    logs = logs_of(X.astype(float), weights, means, covariances)
    densities = logsumexp(logs, axis=1)
    shares = np.exp(logs - densities[:, None])
    np.testing.assert_allclose(likelihood, row_weights @ densities, rtol=1e-12, atol=1e-12)
    r = shares * row_weights[:, None]
    np.testing.assert_allclose(sizes, r.sum(axis=0), rtol=1e-9, atol=1e-13)
    E = X[:, None].astype(float) - means
    np.testing.assert_allclose(first, np.einsum("nk,nkd->kd", r, E), rtol=1e-9, atol=1e-9)
    expected = np.einsum("nk,nkd,nkf->kdf", r, E, E)
    if full:
        np.testing.assert_allclose(np.tril(second), np.tril(expected), rtol=1e-9, atol=1e-8)
    else:
        np.testing.assert_allclose(second, np.einsum("kdd->kd", expected), rtol=1e-9, atol=1e-8)
    found = mixture_shares(X, means, roots, constants)
    np.testing.assert_allclose(found[0], densities, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[1], shares, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_a_fit_is_scikit_learns(kind):
    sklearn = pytest.importorskip("sklearn.mixture")
    X = blobs(np.random.default_rng(1), 800, 3, 3, spread=8.0)
    mine = GaussianMixture(3, covariance_type=kind, random_state=0, tol=1e-10, max_iter=500).fit(X)
    theirs = sklearn.GaussianMixture(3, covariance_type=kind, random_state=0, tol=1e-10, max_iter=500).fit(X)
    assert mine.converged_
    order, other = np.argsort(mine.means_[:, 0]), np.argsort(theirs.means_[:, 0])
    np.testing.assert_allclose(mine.weights_[order], theirs.weights_[other], rtol=1e-4)
    np.testing.assert_allclose(mine.means_[order], theirs.means_[other], rtol=1e-3, atol=1e-3)
    ours, peers = mine.covariances_, theirs.covariances_
    assert ours.shape == peers.shape
    if kind != "tied":
        ours, peers = ours[order], peers[other]
    np.testing.assert_allclose(ours, peers, rtol=1e-2, atol=1e-3)
    assert mine.precisions_.shape == theirs.precisions_.shape
    roots = mine.precisions_cholesky_
    assert roots.shape == theirs.precisions_cholesky_.shape
    if kind in ("full", "tied"):
        unit = np.broadcast_to(np.eye(X.shape[1]), mine.covariances_.shape)
        np.testing.assert_allclose(mine.covariances_ @ mine.precisions_, unit, atol=1e-10)
        np.testing.assert_allclose(roots @ np.swapaxes(roots, -1, -2), mine.precisions_, rtol=1e-12)
        assert (np.triu(roots) == roots).all()
    else:
        np.testing.assert_allclose(mine.covariances_ * mine.precisions_, 1.0, rtol=1e-12)
        np.testing.assert_allclose(roots**2, mine.precisions_, rtol=1e-12)
    np.testing.assert_allclose(mine.score(X), theirs.score(X), rtol=1e-6)
    np.testing.assert_allclose(mine.bic(X), theirs.bic(X), rtol=1e-6)
    np.testing.assert_allclose(mine.aic(X), theirs.aic(X), rtol=1e-6)
    np.testing.assert_allclose(mine.predict_proba(X)[:, order], theirs.predict_proba(X)[:, other], atol=1e-3)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("start", STARTS)
def test_the_likelihood_rises_and_is_that_of_the_parameters(kind, start):
    X = blobs(np.random.default_rng(2), 500, 4, 5, spread=1.5).astype(np.float32)
    found = GaussianMixture(6, covariance_type=kind, init_params=start, random_state=0, max_iter=40).fit(X)
    assert (np.diff(found.lower_bounds_) > 0).all()
    np.testing.assert_allclose(found.score(X), found.lower_bound_, rtol=1e-12)
    np.testing.assert_allclose(found.log_likelihood_, found.score_samples(X).sum(), rtol=1e-12)
    np.testing.assert_allclose(found.weights_.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    assert (found.predict(X) == found.predict_proba(X).argmax(axis=1)).all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(COVARIANCE_TYPES))
@example(seed=82, kind="spherical")
def test_a_whole_weight_counts_as_repeated_rows_and_zero_as_none(seed, kind):
    rng = np.random.default_rng(seed)
    X = blobs(rng, 60, 2, 2)
    weights = rng.integers(0, 4, 60)
    weights[:2] = 1
    model = GaussianMixture(2, covariance_type=kind, tol=0, max_iter=5, init_params="random_from_data")
    weighted = HostMixture(RowSet(X, weights.astype(float)))
    first = model._first(weighted, rng)
    repeated = HostMixture(RowSet(np.repeat(X, weights, axis=0), None))
    steps = [len(model._run(rows, first, np.inf)[1]) - 1 for rows in (weighted, repeated)]
    model.max_iter = min(steps)  # near the optimum roundings decide which step is the last
    one, other = (model._run(rows, first, np.inf)[0] for rows in (weighted, repeated))
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-7)
    np.testing.assert_allclose(one.means, other.means, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(one.covariances, other.covariances, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
@pytest.mark.parametrize("start", STARTS)
def test_a_start_is_a_model_of_the_kind_that_is_asked_for(kind, start):
    """Columns of other sizes, and a run that may end at its start."""
    X = blobs(np.random.default_rng(2), 30, 4, 2) * [1.0, 30.0, 0.1, 5.0]
    weights = np.arange(30) % 3
    found = GaussianMixture(2, covariance_type=kind, init_params=start, random_state=0, max_iter=1, tol=0)
    found.fit(X, sample_weight=weights)
    np.testing.assert_allclose(found.log_likelihood_, weights @ found.score_samples(X), rtol=1e-12)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_first_components_may_be_given(kind):
    sklearn = pytest.importorskip("sklearn.mixture")
    X = blobs(np.random.default_rng(1), 200, 3, 3, spread=2.0)
    fitted = GaussianMixture(3, covariance_type=kind, random_state=0, max_iter=2).fit(X)
    given = {
        "weights_init": np.array([0.5, 0.25, 0.25]),
        "means_init": X[:3],
        "precisions_init": fitted.precisions_,
    }
    words = {"covariance_type": kind, "tol": 0.0, "max_iter": 5, "random_state": 0}
    mine = GaussianMixture(3, n_init=7, **given, **words).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged
        theirs = sklearn.GaussianMixture(3, **given, **words).fit(X)
    assert mine.n_iter_ == 5
    np.testing.assert_allclose(mine.means_, theirs.means_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(mine.covariances_, theirs.covariances_, rtol=1e-5, atol=1e-9)
    for name, value in given.items():
        start = GaussianMixture(3, **words, **{name: value})._first(
            HostMixture(RowSet(X, None)), np.random.default_rng(0)
        )
        if name != "precisions_init":
            assert np.array_equal(getattr(start, name[:-5]), value)
        else:
            np.testing.assert_allclose(start.covariances, fitted._parameters().covariances, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"weights_init": [0.5, 0.6]}, "weights_init: found a sum of 1.1"),
        ({"weights_init": [1.5, -0.5]}, "weights_init: found a sum of 1, expected numbers of at least 0"),
        ({"means_init": [[1.0, 2.0]]}, r"means_init: found shape \(1, 2\), expected \(2, 3\)"),
        ({"means_init": np.full((2, 3), np.nan)}, "means_init: "),
        ({"precisions_init": np.eye(3)}, r"precisions_init: found shape \(3, 3\), expected \(2, 3, 3\)"),
        ({"precisions_init": np.stack([-np.eye(3)] * 2)}, "expected symmetric and positive definite ones"),
        ({"precisions_init": np.zeros((2, 3)), "covariance_type": "diag"}, "precisions_init: found 0"),
        ({"warm_start": 3}, "warm_start"),
        ({"verbose": -1}, "verbose: found -1"),
    ],
)
def test_bad_first_components(options, text):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ParameterError, match=text) as caught:
        GaussianMixture(2, **options).fit(X)
    assert "\n" not in str(caught.value)


def test_a_warm_start_goes_on(capsys):
    X = blobs(np.random.default_rng(1), 300, 3, 4, spread=1.0)
    whole = GaussianMixture(4, tol=0, max_iter=9, random_state=0).fit(X)
    model = GaussianMixture(4, tol=0, max_iter=3, random_state=0, warm_start=True, verbose=2)
    for _ in range(3):
        model.fit(X)
    assert model.means_.tobytes() == whole.means_.tobytes()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"log likelihood {whole.lower_bounds_[0]:.6f}  step 0")
    assert len(lines) == 12
    with pytest.raises(DataError, match="warm_start: found 4 components of 3 columns, expected 4 of 2"):
        model.fit(X[:, :2])


def test_a_covariance_with_a_root_has_a_precision():
    """The square of the rounded root of 2 is not 2, so Cholesky's factors exist where those of LU do not."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    covariance = np.array([[2.0, -2.0], [-2.0, 2.0]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(covariance)
    found = _Parameters(np.ones(1), np.zeros((1, 2)), covariance[None])
    model = GaussianMixture(1, reg_covar=0.0)
    model._keep(HostMixture(RowSet(X, None)), found, [0.0], "converged", 1)
    assert np.isfinite(model.precisions_).all()


def test_variances_whose_reciprocals_overflow_are_singular():
    X = np.random.default_rng(0).normal(size=(20, 2)) * 1e-155
    with pytest.raises(DataError, match="component 0: found a singular covariance"):
        GaussianMixture(1, covariance_type="diag", reg_covar=0.0).fit(X)


def test_results_have_the_same_bits_for_any_number_of_threads():
    X = blobs(np.random.default_rng(3), 20_000, 3, 4)
    fits = [GaussianMixture(4, random_state=0, max_iter=5, threads=t).fit(X) for t in (1, 2, 3)]
    assert len({fit.covariances_.tobytes() for fit in fits}) == 1
    assert len({tuple(fit.lower_bounds_) for fit in fits}) == 1


@pytest.mark.parametrize("lower", ["avx2", "baseline"])
@pytest.mark.skipif(instruction_set() == "baseline", reason="this processor has no other instruction set")
def test_instruction_sets_differ_by_rounding_alone(lower):
    program = """
import numpy as np
from bmrm.matrix._cpu import instruction_set
from bmrm import GaussianMixture
rng = np.random.default_rng(0)
print(instruction_set())
X = rng.normal(size=(3000, 3)) + 6 * rng.integers(0, 3, (3000, 1))
for kind in ("full", "diag"):
    found = GaussianMixture(3, covariance_type=kind, random_state=0, max_iter=5).fit(X)
    for value in [*found.means_.ravel(), *found.covariances_.ravel(), found.lower_bound_]:
        print(float(value).hex())
"""
    assert_same_results(program, lower)


def test_large_offsets_do_not_spoil_variances():
    X = blobs(np.random.default_rng(4), 500, 2, 2)
    for kind in COVARIANCE_TYPES:
        near = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
        far = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X + 1e6)
        np.testing.assert_allclose(far.covariances_, near.covariances_, rtol=1e-6, atol=1e-6)


def test_collapsed_components_are_named():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 2)), np.full((50, 2), 20.0)])
    found = GaussianMixture(2, random_state=0).fit(X)
    assert found.collapsed_ == [int(np.argmax(found.means_[:, 0]))]
    assert GaussianMixture(1).fit(X).collapsed_ == []
    with pytest.raises(DataError, match=r"component .: found a singular covariance"):
        GaussianMixture(2, random_state=0, reg_covar=0).fit(X)
    with pytest.raises(DataError, match="component 0: found a singular covariance"):
        GaussianMixture(1, covariance_type="diag", reg_covar=0).fit(np.ones((5, 2)))


def test_limits_are_reported():
    X = blobs(np.random.default_rng(1), 2000, 3, 4, spread=1.0)
    found = GaussianMixture(6, max_iter=2, tol=0, random_state=0).fit(X)
    assert (found.status_, found.n_iter_, found.converged_) == ("max_iter", 2, False)
    found = GaussianMixture(6, max_time=1e-9, tol=0, random_state=0).fit(X)
    assert (found.status_, found.n_iter_) == ("max_time", 0)
    one = GaussianMixture(6, init_params="random_from_data", random_state=0).fit(X)
    more = GaussianMixture(6, init_params="random_from_data", random_state=0, n_init=4).fit(X)
    assert more.lower_bound_ >= one.lower_bound_


def test_rows_are_drawn_from_the_mixture():
    X = blobs(np.random.default_rng(1), 4000, 2, 2)
    for kind in COVARIANCE_TYPES:
        found = GaussianMixture(2, covariance_type=kind, random_state=0).fit(X)
        drawn, labels = found.sample(40_000)
        assert drawn.shape == (40_000, 2)
        for j in range(2):
            np.testing.assert_allclose((labels == j).mean(), found.weights_[j], atol=0.02)
            np.testing.assert_allclose(drawn[labels == j].mean(axis=0), found.means_[j], atol=0.1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_components": 0}, "n_components: found 0"),
        ({"covariance_type": "round"}, "covariance_type: found 'round'"),
        ({"init_params": "random"}, "init_params: found 'random'"),
        ({"reg_covar": -1}, "reg_covar: found -1"),
        ({"tol": np.nan}, "tol: found nan"),
        ({"max_iter": -1}, "max_iter"),
        ({"n_init": 0}, "n_init"),
        ({"max_time": 0}, "max_time"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ParameterError, match=text) as caught:
        GaussianMixture(**options).fit(np.eye(4))
    assert "\n" not in str(caught.value)


def test_bad_rows():
    with pytest.raises(DataError, match="found 5, expected at most 3, the number of rows of positive weight"):
        GaussianMixture(5).fit(np.eye(3))
    with pytest.raises(DataError, match="expected at most 1"):
        GaussianMixture(2).fit(np.eye(3), sample_weight=[0, 0, 1])
    with pytest.raises(DataError, match="found sparse rows"):
        GaussianMixture(1).fit(sp.eye_array(3, format="csr"))
    for X in (np.zeros((0, 2)), np.array([[np.nan]]), np.zeros(3)):
        with pytest.raises(DataError):
            GaussianMixture(1).fit(X)
    with pytest.raises(BmrmError, match="no fitted model"):
        GaussianMixture(1).predict(np.eye(2))
    found = pickle.loads(pickle.dumps(GaussianMixture(1).fit(bmrm.Dataset(np.eye(3)))))
    with pytest.raises(DataError, match="found 2 columns, expected 3"):
        found.predict(np.eye(2))
