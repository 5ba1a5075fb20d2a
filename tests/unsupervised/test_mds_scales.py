"""Multidimensional scaling of tiny, huge and mixed numbers, and of points that fall together."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist, squareform

from bmrm import MDS
from bmrm.errors import DataError
from bmrm.unsupervised.manifold import estimator as module

EXPONENTS = (0, 0, -1074, -1030, -540, -335, -300, 330, 400, 490)
WEIGHT_EXPONENTS = (0, -1060, -465, -101, 101, 500, 1020)


def problem(seed):
    """Return features or the upper triangle of dissimilarities, weights or None, and parameters."""
    rng = np.random.default_rng(seed)
    n, base, spread = int(rng.integers(2, 7)), int(rng.choice(EXPONENTS)), int(rng.choice([0, 0, 20, 300]))
    features = bool(rng.integers(2))
    shape = (n, 3) if features else (n * (n - 1) // 2,)
    X = np.ldexp(rng.standard_normal(shape), base - rng.integers(0, spread + 1, shape))
    X = np.clip(X, -1e150, 1e150) if features else np.abs(X)
    w = None
    if rng.random() < 0.5:
        w = np.ldexp(rng.random(n * (n - 1) // 2) + 0.5, int(rng.choice(WEIGHT_EXPONENTS)))
    words = {
        "n_components": int(rng.integers(1, min(n, 3) + 1)),
        "metric": "euclidean" if features else "precomputed",
        "init": str(rng.choice(["random", "classical_mds", "landmark"])),
        "store": str(rng.choice(["half", "features"])) if features else "auto",
        "relax": bool(rng.integers(2)),
        "eps": float(rng.choice([0, 1e-6])),
    }
    return X, w, MDS(**words, random_state=seed)


def root(square, flint):
    return square.sqrt() if square > 0 else flint.arb(0)


def exact_gradient(X, w, places, flint):
    """Return the norm of the gradient of the raw stress of features, or of given dissimilarities."""
    number = [[flint.arb(float(value)) for value in row] for row in places]
    rows = [[flint.arb(float(value)) for value in row] for row in X] if X.ndim == 2 else None
    gradient = [[flint.arb(0)] * len(number[0]) for _ in number]
    for pair, (i, j) in enumerate(zip(*np.triu_indices(len(number), 1), strict=True)):
        apart = [a - b for a, b in zip(number[i], number[j], strict=True)]
        d = root(sum(u * u for u in apart), flint)
        if not d > 0:
            continue
        delta = flint.arb(float(X[pair])) if rows is None else None
        if delta is None:
            delta = root(sum((a - b) * (a - b) for a, b in zip(rows[i], rows[j], strict=True)), flint)
        factor = 2 * flint.arb(1.0 if w is None else float(w[pair])) * (1 - delta / d)
        for axis, u in enumerate(apart):
            gradient[i][axis] += factor * u
            gradient[j][axis] -= factor * u
    return root(sum(value * value for row in gradient for value in row), flint)


def test_the_bound_of_the_gradient_holds_at_any_scale():
    flint = pytest.importorskip("flint")
    flint.ctx.prec = 2600
    try:
        for seed in range(150):
            X, w, model = problem(seed)
            found = model.fit(X, weights=w)
            assert np.isfinite(found.embedding_).all()
            assert np.isfinite(found.transform(X if X.ndim == 2 else squareform(X))).all()
            if np.isfinite(found.gradient_error_) and np.isfinite(found.gradient_norm_):
                exact = exact_gradient(X, w, found.embedding_, flint)
                error = abs(exact - flint.arb(found.gradient_norm_))
                assert error <= flint.arb(found.gradient_error_), seed
    finally:
        flint.ctx.prec = 53


@pytest.mark.parametrize("exponent", [-1000, -540, -60, 60, 400])
@pytest.mark.parametrize("init", ["random", "classical_mds", "landmark"])
@pytest.mark.parametrize("ordinal", [False, True])
def test_a_power_of_two_changes_no_digit(exponent, init, ordinal):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    D = pdist(X)
    words = dict(metric="precomputed", init=init, random_state=0, metric_mds=not ordinal)
    one, far = MDS(2, **words).fit(D), MDS(2, **words).fit(np.ldexp(D, exponent))
    np.testing.assert_array_equal(far.embedding_, np.ldexp(one.embedding_, 0 if ordinal else exponent))
    assert far.normalized_stress_ == one.normalized_stress_
    assert far.stationarity_ == one.stationarity_
    weights = np.ldexp(rng.random(D.shape) + 0.5, -exponent // 2)
    weighted = MDS(2, **words).fit(D, weights=weights)
    again = MDS(2, **words).fit(D, weights=np.ldexp(weights, 300))
    np.testing.assert_allclose(again.embedding_, weighted.embedding_, rtol=1e-6)


def test_stored_distances_of_tiny_features_are_those_that_are_computed():
    X = np.random.default_rng(3).standard_normal((5, 6)) * 1e-162
    half, features = (MDS(1, store=store, eps=0).fit(X) for store in ("half", "features"))
    assert half.normalized_stress_ == pytest.approx(features.normalized_stress_, rel=1e-9)
    np.testing.assert_allclose(half.dissimilarity_matrix_ / 1e-162, cdist(X / 1e-162, X / 1e-162))
    new = half.transform(X[:2] * 1.01)
    assert (np.abs(new) < 1e-160).all()
    np.testing.assert_array_equal(half.transform(X), half.embedding_)


@pytest.mark.parametrize("scale", [1.0, 1e-14, 1e-18, 1e-25, 1e30])
def test_random_starts_have_the_size_of_the_data(scale):
    D = squareform(pdist(np.random.default_rng(0).standard_normal((20, 3))))
    for words in ({"init": "random"}, {"n_init": 3}):
        found = MDS(2, metric="precomputed", random_state=0, **words).fit(D * scale)
        assert 0.1 < found.normalized_stress_ < 0.2
        assert found.raw_stress_ > 0.0


@pytest.mark.parametrize("place", [0.0, 1e20, 1e200])
@pytest.mark.parametrize("size", [1e-300, 1e-30, 1.0, 1e30])
@pytest.mark.parametrize("ordinal", [False, True])
def test_a_given_start_may_be_anywhere_and_of_any_size(place, size, ordinal):
    rng = np.random.default_rng(1)
    D = squareform(pdist(rng.standard_normal((20, 3))))
    start = place + size * rng.standard_normal((20, 2))
    found = MDS(2, metric="precomputed", metric_mds=not ordinal).fit(D, init=start)
    assert 0.0 < found.normalized_stress_ < 0.35
    assert found.raw_stress_ > 0.0


def test_points_at_one_place_have_no_stress_of_0():
    D = pdist(np.random.default_rng(0).standard_normal((5, 3)))
    found = MDS(2, metric="precomputed", max_time=1e-9).fit(D, init=np.zeros((5, 2)))
    assert found.status_ == "max_time"
    assert found.normalized_stress_ == np.inf
    assert found.raw_stress_ == pytest.approx((D**2).sum())
    assert found.gradient_error_ > found.gradient_norm_ / 4  # there is no gradient
    assert MDS(2, metric="precomputed").fit(np.zeros(10)).normalized_stress_ == 0.0


def test_the_reported_stress_of_ordinal_scaling_falls(monkeypatch):
    seen = []
    monkeypatch.setattr(
        MDS, "_show", lambda self, line, number, run: seen.append(run.found.stress / run.found.squares)
    )
    for seed in range(60):
        rng = np.random.default_rng(seed)
        D = pdist(np.round(rng.standard_normal((int(rng.integers(4, 20)), 4)), seed % 3))
        weights = rng.random(len(D)) + 0.01 if seed % 2 else None
        seen.clear()
        words = dict(metric="precomputed", metric_mds=False, relax=seed % 4 < 3, eps=0, random_state=seed)
        init = ("random", "classical_mds", "landmark")[seed % 3]
        found = MDS(2, init=init, max_iter=60, **words).fit(D, weights=weights)
        rounding = 1e-12 + 1e-9 * np.array(seen[:-1])
        assert (np.diff(seen) <= rounding).all(), seed
        assert (np.diff(found.history_) <= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_on_the_diagonal_is_allowed(dtype):
    X = np.random.default_rng(0).normal(size=(40, 30))
    D = (1 - np.corrcoef(X)).astype(dtype)
    np.fill_diagonal(D, 0.0)
    clean = MDS(2, metric="precomputed").fit(D)
    limit = {4: 1e-3, 8: 1e-6}[D.itemsize] * D.max()
    for value in (1e-16, -1e-16, 1e-8, 0.9 * limit):
        np.fill_diagonal(D, value)
        for words in ({}, {"init": "landmark", "random_state": 0}):
            found = MDS(2, metric="precomputed", **words).fit(D)
            if not words:
                np.testing.assert_array_equal(found.embedding_, clean.embedding_)
        assert (np.diagonal(found.dissimilarity_matrix_) == 0.0).all()
    for value in (1.1 * limit, 1.0, np.nan, np.inf):
        D[7, 7] = value
        with pytest.raises(
            DataError, match=r"row 8, column 8 has .* expected 0 on the diagonal, up to round"
        ):
            MDS(2, metric="precomputed").fit(D)


def test_dissimilarities_are_an_attribute_and_no_array_of_the_caller_is_kept(monkeypatch):
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((12, 3)), rng.standard_normal((2, 3))
    for metric, words in (("euclidean", {}), ("cityblock", {}), ("minkowski", {"metric_params": {"p": 3}})):
        given = X.copy()
        found = MDS(2, metric=metric, **words).fit(given)
        placed, D = found.transform(new), cdist(X, X, metric, **words.get("metric_params", {}))
        np.testing.assert_allclose(found.dissimilarity_matrix_, D, atol=1e-15)
        given[:] = 0.0
        np.testing.assert_array_equal(found.transform(new), placed)
        found.set_params(metric="precomputed", metric_mds=False)  # of a later fit
        np.testing.assert_array_equal(found.transform(new), placed)
    D = squareform(pdist(X))
    for given in (D.copy(), pdist(X), D.astype(np.float32)):
        expected = squareform(given) if given.ndim == 1 else given.copy()
        found = MDS(2, metric="precomputed").fit(given)
        given[:] = 0.0
        np.testing.assert_array_equal(found.dissimilarity_matrix_, expected)
    monkeypatch.setattr(module, "MAX_KEPT_POINTS", 11)
    with pytest.raises(AttributeError, match="found 12 points with given dissimilarities"):
        _ = MDS(2, metric="precomputed").fit(D).dissimilarity_matrix_
