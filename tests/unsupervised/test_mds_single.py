"""MDS with terms in float32: the stress and its gradient are within their proven errors."""

import numpy as np
import pytest
import scaling_cases as cases
from instruction_sets import assert_same_results
from scipy.spatial.distance import pdist, squareform

from bmrm import MDS
from bmrm.errors import ParameterError
from bmrm.matrix._cpu import instruction_set
from bmrm.unsupervised.manifold._manifold import Pairs
from bmrm.unsupervised.manifold.dissimilarities import Metric, read_proximities

WIDE = np.longdouble


def exact(X, delta, W):
    """Return the stress and the norm of its gradient, in more than float64."""
    X = X.astype(WIDE)
    u = X[:, None] - X[None]
    d = np.sqrt((u**2).sum(axis=2))
    W = np.where(np.isnan(delta), 0.0, W).astype(WIDE)
    np.fill_diagonal(W, 0.0)
    delta = np.nan_to_num(delta).astype(WIDE)
    ratio = 1.0 - delta / np.where(d > 0.0, d, 1.0)
    gradient = 2.0 * ((W * ratio)[:, :, None] * u).sum(axis=1)
    return float((W * (delta - d) ** 2).sum() / 2), float(np.sqrt((gradient**2).sum()))


@pytest.mark.parametrize(("n", "p"), [(1, 1), (2, 1), (17, 3), (130, 5), (520, 2)])
def test_sums_are_those_of_full_matrices(n, p):
    rng = np.random.default_rng(n + p)
    X = rng.normal(size=(n, p))
    places = np.float64(np.float32(X))
    d, u = cases.distances(places), places[:, None] - places[None]
    for words, D, W in cases.kinds(rng, n):
        features, delta = words.pop("features", None), words.pop("delta", None)
        if words.pop("stored", False):
            continue
        pairs = Pairs.given(delta, n, **words) if features is None else Pairs.of_features(features, **words)
        direction, stress, squares, together = pairs.descent(X, single=True)
        W = np.where(np.isnan(D), 0.0, W).astype(np.float64)
        known = np.nan_to_num(D.astype(np.float64))
        c = W * (known / np.where(d > 0.0, d, np.inf) - 1.0)
        np.fill_diagonal(c, 0.0)
        np.fill_diagonal(W, 0.0)
        cases.near(direction, (c[:, :, None] * u).sum(axis=1), 1e-7 * (10 + np.sqrt(n)))
        cases.near([stress, squares], [(W * (known - d) ** 2).sum() / 2, (W * d**2).sum() / 2], 1e-6)
        assert together == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("kind", ["float32", "float64", "weights", "gaps", "half", "features", "exact"])
def test_the_stress_and_its_gradient_are_within_their_errors(kind, p, dtype):
    rng = np.random.default_rng(p)
    F = rng.normal(size=(90, p if kind == "exact" else 6)) + 5.0
    D = squareform(pdist(F))
    W = np.ones_like(D)
    given, words = D, {"metric": "precomputed"}
    if kind == "float32":
        given = D = D.astype(np.float32)
    if kind == "weights":
        W = 1.0 / (1e-6 + D**4)
    if kind == "gaps":
        given = D = np.where(D > 4.0, np.nan, D)
    if kind in ("half", "features"):
        given, words = F, {"store": kind}
    found = MDS(p, dtype=dtype, eps=0, max_iter=25, **words).fit(
        given, weights=W if kind == "weights" else None
    )
    stress, gradient = exact(found.embedding_, D, W)
    assert abs(found.raw_stress_ - stress) <= found.stress_error_
    assert abs(found.gradient_norm_ - gradient) <= found.gradient_error_
    assert found.stress_error_ < (1e-5 if dtype == "float32" else 1e-13) * (W * np.nan_to_num(D) ** 2).sum()
    assert (np.diff(found.history_) < 0.0).all()
    if dtype == "float32":
        assert (found.embedding_ == np.float64(np.float32(found.embedding_))).all()


def test_fits_end_where_those_in_float64_end():
    D = squareform(pdist(np.random.default_rng(3).normal(size=(200, 4))))
    fits = [MDS(2, metric="precomputed", dtype=dtype).fit(D) for dtype in ("float32", "float64")]
    assert fits[0].normalized_stress_ == pytest.approx(fits[1].normalized_stress_, rel=1e-4)
    tests = [fit.check_minimum(D, stationarity=1.0) for fit in fits]  # in float64
    assert tests[0].gradient_error < 1e-3 * fits[0].gradient_error_
    assert tests[0].verdict == tests[1].verdict
    again = MDS(2, metric="precomputed", dtype="float32", threads=1).fit(D)
    assert again.embedding_.tobytes() == fits[0].embedding_.tobytes()


@pytest.mark.parametrize("exponent", [-300, -60, 60, 300])
def test_dissimilarities_of_any_size(exponent):
    X = np.random.default_rng(0).normal(size=(40, 3))
    here, there = (MDS(2, dtype="float32").fit(np.ldexp(X, each)) for each in (0, exponent))
    assert np.isfinite(there.embedding_).all()
    assert there.normalized_stress_ == pytest.approx(here.normalized_stress_, rel=1e-5)
    far = MDS(2, dtype="float32", max_iter=5).fit(X, init=X[:, :2] + 1e7)  # no digits are lost
    assert far.normalized_stress_ == pytest.approx(
        MDS(2, max_iter=5).fit(X, init=X[:, :2]).normalized_stress_, rel=1e-4
    )


def test_points_at_one_place_part():
    D = squareform(pdist(np.random.default_rng(1).normal(size=(60, 2))))
    start = np.zeros((60, 2))
    found = MDS(2, metric="precomputed", dtype="float32", max_iter=500).fit(D, init=start)
    assert found.normalized_stress_ < 0.5
    direction, _, _, together = Pairs.given(D, 60).descent(start, single=True)
    assert together == 60 * 59 // 2
    np.testing.assert_allclose(direction, Pairs.given(D, 60).descent(start)[0], rtol=1e-6)


@pytest.mark.parametrize("lower", ["avx2", "baseline"])
@pytest.mark.skipif(instruction_set() == "baseline", reason="this processor has no other instruction set")
def test_every_instruction_set_keeps_the_errors(lower):
    program = """
import numpy as np
from bmrm.matrix._cpu import instruction_set
from bmrm.unsupervised.manifold._manifold import Pairs
rng = np.random.default_rng(0)
print(instruction_set())
F = rng.normal(size=(131, 5))
D = np.sqrt(((F[:, None] - F[None]) ** 2).sum(axis=2))
for p in (1, 2, 3, 5):
    for pairs in (Pairs.given(D.astype(np.float32), 131), Pairs.given(D, 131, weights=1 / (1 + D))):
        X = np.float64(np.float32(F[:, :p]))
        found, expected = pairs.descent(X, single=True), pairs.descent(X)
        print(float(np.abs(found[0] - expected[0]).max() < 1e-6 * np.abs(expected[0]).max()).hex())
        print(float(abs(found[1] - expected[1]) < 1e-6 * expected[1]).hex())
        print(float(abs(found[2] - expected[2]) < 1e-6 * expected[2]).hex())
"""
    assert_same_results(program, lower)


def test_a_mapped_file_is_not_copied(tmp_path):
    D = squareform(pdist(np.random.default_rng(0).normal(size=(50, 3))))
    np.save(tmp_path / "D.npy", D)
    mapped = np.load(tmp_path / "D.npy", mmap_mode="r")
    pairs = read_proximities(mapped, Metric("precomputed"), 1)
    for single in (False, True):
        data = pairs.opened(None, None, stored=False, threads=1, single=single)
        assert np.shares_memory(data.given.values, mapped)
    for dtype in ("float32", "float64"):
        one, other = (MDS(2, metric="precomputed", dtype=dtype).fit(each) for each in (mapped, D))
        assert one.embedding_.tobytes() == other.embedding_.tobytes()


def test_what_float32_cannot_do():
    X = np.random.default_rng(0).normal(size=(9, 3))
    with pytest.raises(ParameterError, match="dtype: found float32 with metric_mds=False, expected float64"):
        MDS(2, metric_mds=False, dtype="float32").fit(X)
    with pytest.raises(ParameterError, match="dtype: found 'half', expected one of float64, float32"):
        MDS(2, dtype="half").fit(X)
