"""k-means and mixtures of tiny, huge and mixed values and weights, against exact arithmetic."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from bmrm import GaussianMixture, KMeans
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError, ParameterError
from bmrm.unsupervised.scales import in_safe_units

EXPONENTS = (0, -1074, -1022, -700, -540, -300, -100, 60, 300, 480, 497)
WEIGHT_EXPONENTS = (0, -1074, -1040, -600, -465, -300, -99, 99, 300, 500, 800, 1020)


def fractions(values):
    return [[Fraction(float(value)) for value in row] for row in values]


def exact_inertia(X, w, centers):
    squares = [[sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in centers] for x in X]
    return sum(weight * min(each) for weight, each in zip(w, squares, strict=True))


def exact_optimum(X, w, k):
    """Return the least inertia of k centres, by all clusterings."""
    best = None
    for labels in itertools.product(range(k), repeat=len(X)):
        total = Fraction(0)
        for j in range(k):
            mine = [i for i in range(len(X)) if labels[i] == j and w[i] > 0]
            weight = sum(w[i] for i in mine)
            for column in range(len(X[0])) if mine else ():
                first = sum(w[i] * X[i][column] for i in mine)
                total += sum(w[i] * X[i][column] ** 2 for i in mine) - first**2 / weight
        best = total if best is None else min(best, total)
    return best


def problem(seed):
    """Return rows, weights or None, and a number of clusters."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    spread = int(rng.choice([0, 0, 0, 30, 600]))
    exponents = int(rng.choice(EXPONENTS)) - rng.integers(0, spread + 1, (n, d))
    X = np.ldexp(rng.standard_normal((n, d)), exponents)
    if rng.random() < 0.3:
        X[rng.integers(n)] = X[rng.integers(n)]
    w = None
    if rng.random() < 0.7:
        w = np.ldexp(rng.random(n) + 0.1, int(rng.choice(WEIGHT_EXPONENTS)) - rng.integers(0, 11, n))
        w = np.maximum(w, 5e-324)
    return np.clip(X, -1e150, 1e150), w, int(rng.integers(1, min(n, 3) + 1))


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_bounds_hold_at_any_scale_of_rows_and_weights(first):
    for seed in range(first, first + 60):
        X, w, k = problem(seed)
        rows = sp.csr_array(X) if seed % 3 == 0 else X
        weights = [Fraction(float(each)) for each in (np.ones(len(X)) if w is None else w)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*clusters are empty")
            try:
                found = KMeans(k, random_state=seed).fit(rows, sample_weight=w)
            except DataError as error:
                if "float64 does not hold" in str(error):
                    continue
                raise
        proof = found.certificate(rows, w, samples=seed % 2 * 2, size=12)
        exact = exact_inertia(fractions(X), weights, fractions(found.cluster_centers_))
        assert np.isfinite(found.inertia_)
        if np.isfinite(found.inertia_error_):
            assert abs(Fraction(found.inertia_) - exact) <= Fraction(found.inertia_error_), seed
        assert Fraction(proof.lower_bound) <= exact_optimum(fractions(X), weights, k), seed
        assert np.isfinite(found.transform(rows)).all()
        assert (found.predict(rows) == found.labels_).all()


@pytest.mark.parametrize("exponent", [-1000, -600, 400])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
def test_a_power_of_two_changes_no_digit(exponent, kind, init):
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(300, 4)), rng.random(300) + 0.5
    one = KMeans(5, init=init, n_init=1, random_state=0).fit(kind(X), sample_weight=w)
    far = KMeans(5, init=init, n_init=1, random_state=0).fit(
        kind(np.ldexp(X, exponent)), sample_weight=np.ldexp(w, -exponent)
    )
    np.testing.assert_array_equal(far.labels_, one.labels_)
    np.testing.assert_array_equal(far.cluster_centers_, np.ldexp(one.cluster_centers_, exponent))
    np.testing.assert_array_equal(far.cluster_weights_, np.ldexp(one.cluster_weights_, -exponent))
    assert far.inertia_ == np.ldexp(one.inertia_, exponent)
    assert far.history_ == np.ldexp(one.history_, exponent).tolist()
    np.testing.assert_array_equal(far.transform(np.ldexp(X, exponent)), np.ldexp(one.transform(X), exponent))
    assert far.score(np.ldexp(X, exponent)) == np.ldexp(one.score(X), 2 * exponent)


def test_given_centres_and_a_callable_are_in_the_units_of_the_user():
    X = np.ldexp(np.array([[1.0], [2.0], [9.0], [10.0]]), -700)
    for init in (X[[0, 3]], lambda rows, k, rng: rows[[0, 3]]):
        found = KMeans(2, init=init).fit(X)
        np.testing.assert_array_equal(found.cluster_centers_, np.ldexp([[1.5], [9.5]], -700))
    with pytest.raises(ParameterError, match=r"init: found 1e\+200, expected absolute values"):
        KMeans(1, init=[[1e200]]).fit(np.ones((2, 1)))
    with pytest.raises(ParameterError, match="init: found centres that float64 cannot represent"):
        KMeans(1, init=lambda *_: [[1e150]]).fit(X)
    with pytest.raises(ParameterError, match="centers: found"):
        KMeans.of_centers([[1e200]])


def test_denormal_rows_give_no_warning():
    X = np.random.default_rng(0).integers(-5, 6, (30, 3)) * 5e-324
    for fit in (
        lambda: KMeans(3, random_state=0).fit(X),
        lambda: KMeans(3, random_state=0).fit(sp.csr_array(X)),
        lambda: GaussianMixture(2, random_state=0).fit(X),
    ):
        fit()  # warnings are errors
    found = KMeans(3, random_state=0).fit(X)
    assert found.inertia_ == 0.0
    assert found.inertia_error_ > 0.0


def test_what_float64_does_not_hold_is_refused():
    X, huge = np.array([[1e100], [2e100], [5e100]]), np.full(3, 1e300)
    with pytest.raises(DataError, match="inertia: found a sum that float64 does not hold"):
        KMeans(1).fit(X, sample_weight=huge)
    found = KMeans(1).fit(X)
    with pytest.raises(DataError, match="inertia"):
        found.score(X, sample_weight=huge)
    with pytest.raises(DataError, match=r"sample_weight: found 1e-300 and 1e\+300, expected"):
        KMeans(1).fit(X, sample_weight=[1e-300, 1.0, 1e300])
    with pytest.raises(DataError, match="sample_weight: found a sum"):
        KMeans(1).fit(np.ones((3, 1)), sample_weight=np.full(3, 1.7e308))


def test_ordinary_rows_are_not_copied():
    X, w = np.random.default_rng(0).normal(size=(9, 2)), np.arange(9.0)
    rows, scales = in_safe_units(RowSet(X, w))
    assert rows.X.array is X
    assert rows.weights is w
    assert scales == type(scales)()


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e160, 1e290])
def test_a_factor_of_the_weights_changes_no_mixture(factor):
    rng = np.random.default_rng(3)
    X, w = np.r_[rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) + 5], rng.integers(1, 4, 100)
    one = GaussianMixture(2, random_state=0).fit(X, sample_weight=w)
    far = GaussianMixture(2, random_state=0).fit(X, sample_weight=w * factor)
    np.testing.assert_allclose(np.sort(far.means_, axis=0), np.sort(one.means_, axis=0), rtol=1e-6)
    assert far.lower_bound_ == pytest.approx(one.lower_bound_)
    assert far.log_likelihood_ == pytest.approx(one.log_likelihood_ * factor, rel=1e-6)
    assert far.score(X, sample_weight=w * factor) == pytest.approx(far.score(X, sample_weight=w))
