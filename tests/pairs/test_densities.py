"""Kernel densities against double loops with SciPy's logsumexp, and their bounds."""

import math
import signal
from pathlib import Path

import numpy as np
import pytest
from density_reference import ENDLESS, check, expected, integral, sample
from instruction_sets import output_on

from bmrm import pairs
from bmrm.errors import DataError, Interrupted, ParameterError
from bmrm.pairs._pairs import DENSITY_TILE, SHAPES, DensitySums
from bmrm.pairs.cpu import HostPairs
from bmrm.pairs.densities import log_integral


@pytest.mark.parametrize("kernel", SHAPES)
@pytest.mark.parametrize("d", [1, 2, 3, 5, 10])
def test_densities_are_those_of_a_double_loop(kernel, d):
    x, at = sample(d)
    weights = np.random.default_rng(1).random(len(x))
    weights[:50] = 0.0
    for w in (None, weights):
        wanted = expected(x, at, 0.7, kernel, w)
        for tol in (None, 1e-6):
            check(pairs.kde(x, at, bandwidth=0.7, kernel=kernel, weights=w, log=True, tol=tol), wanted)
        found = pairs.kde(x, at, bandwidth=0.7, kernel=kernel, weights=w)
        np.testing.assert_allclose(found.values, np.exp(wanted), rtol=1e-9)


@pytest.mark.parametrize("d", [1, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_has_the_error_that_is_reported(d, weighted):
    x, at = (each.astype(np.float32) for each in sample(d, 3000))
    w = np.random.default_rng(1).random(len(x)) if weighted else None
    words = {"bandwidth": 0.3, "weights": w, "log": True}
    exact = pairs.kde(x.astype(np.float64), at.astype(np.float64), **words)
    narrow = pairs.kde(x, at, **words)
    off = np.abs(narrow.values - exact.values)
    assert (off <= narrow.error_bound + exact.error_bound).all()
    near = exact.values > -100.0
    assert (narrow.error_bound[near] <= 1e-6).all()
    loose = pairs.kde(x, at, tol=1e-4, **words)
    assert (loose.error_bound[near] <= 1e-4).all()
    assert (np.abs(loose.values - exact.values) <= loose.error_bound + exact.error_bound).all()


@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_a_tolerance_leaves_out_what_it_may(tol):
    x = np.random.default_rng(0).random((6000, 3))
    exact = pairs.kde(x, x[:300], bandwidth=0.05)
    found = pairs.kde(x, x[:300], bandwidth=0.05, tol=tol)
    off = np.abs(found.values / exact.values - 1.0)
    assert 0.0 < off.max() <= tol
    assert (off <= found.error_bound + exact.error_bound).all()
    assert (found.error_bound <= tol).all()


@pytest.mark.parametrize("kernel", SHAPES)
def test_kernels_have_the_integral_1(kernel):
    for d in (*range(1, 11), 50):
        value, _ = log_integral(kernel, d)
        assert value == pytest.approx(integral(kernel, d), rel=1e-9, abs=1e-9)
    grid = np.linspace(-40.0, 40.0, 40001)[:, None]
    total = pairs.kde([[0.0], [1.0]], grid, bandwidth=0.9, kernel=kernel).values.sum() * 0.002
    assert total == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("kernel", SHAPES)
def test_scikit_learns_densities(kernel):
    neighbors = pytest.importorskip("sklearn.neighbors")
    x, at = sample(3)
    at = at[:80]
    w = np.random.default_rng(2).integers(0, 4, len(x)).astype(float)
    with np.errstate(divide="ignore"):
        theirs = neighbors.KernelDensity(bandwidth=0.8, kernel=kernel).fit(x, sample_weight=w)
        wanted = theirs.score_samples(at)
    wanted[wanted < -30.0] = -np.inf  # its bounds leave a rounding where no point is near
    if kernel in ENDLESS:
        wanted, at = wanted[np.isfinite(wanted)], at[np.isfinite(wanted)]
    check(pairs.kde(x, at, bandwidth=0.8, kernel=kernel, weights=w, log=True), wanted, 1e-8)


def test_scipys_densities():
    from scipy.stats import gaussian_kde

    x = np.random.default_rng(0).normal(size=(500, 2))
    theirs = gaussian_kde(x.T, bw_method=0.4)
    root = np.linalg.cholesky(theirs.covariance)
    z = np.linalg.solve(root, x.T).T  # white: there the kernel is round
    found = pairs.kde(z, bandwidth=1.0).values / np.prod(np.diag(root))
    np.testing.assert_allclose(found, theirs(x.T), rtol=1e-10)


@pytest.mark.parametrize("kernel", SHAPES)
def test_weights_are_repetitions(kernel):
    x, at = sample(2, 200)
    w = np.random.default_rng(3).integers(0, 3, len(x))
    words = {"bandwidth": 0.5, "kernel": kernel}
    once = pairs.kde(x, at, weights=w, **words).values
    np.testing.assert_allclose(once, pairs.kde(np.repeat(x, w, axis=0), at, **words).values, rtol=1e-12)
    scaled = pairs.kde(x, at, weights=1e-200 * w, **words).values
    np.testing.assert_allclose(once, scaled, rtol=1e-12)
    assert (
        pairs.kde(x, at, weights=np.ones(len(x)), **words).values == pairs.kde(x, at, **words).values
    ).all()


def test_logarithms_stay_finite():
    x = np.random.default_rng(0).normal(size=(1000, 3))
    for far in (1e2, 1e6, 1e100):
        for kernel in ENDLESS:
            found = pairs.kde(x, [[far, 0.0, 0.0]], bandwidth=0.5, kernel=kernel, log=True)
            s = 2.0 * far**2 if kernel == "gaussian" else 2.0 * far
            assert found.values[0] == pytest.approx(-s, rel=0.1)
            assert np.isfinite(found.values[0])
            assert np.isfinite(found.error_bound[0]) or far == 1e100
    for far in 10.0 ** np.arange(2, 140, 6):
        at = far * np.random.default_rng(1).normal(size=(5, 3))
        for kernel in ENDLESS:
            found = pairs.kde(x, at, bandwidth=0.5, kernel=kernel, log=True)
            near = np.sqrt(((at[:, None] - x) ** 2).sum(axis=2)).min(axis=1)
            s = 2.0 * near**2 if kernel == "gaussian" else 2.0 * near
            np.testing.assert_allclose(found.values, -s, rtol=1e-3, atol=10.0)
    narrow = pairs.kde(x.astype(np.float32), np.float32([[100, 0, 0]]), bandwidth=0.5, log=True)
    wide = pairs.kde(x.astype(np.float32).astype(float), [[100.0, 0, 0]], bandwidth=0.5, log=True)
    assert narrow.values[0] == wide.values[0]
    light = np.where(np.arange(1000) == 0, 1e-200, 1.0)  # the nearest point has hardly any weight
    x[0] = 60.0
    found = pairs.kde(x, x[:1], bandwidth=0.5, weights=light, log=True)
    check(found, expected(x, x[:1], 0.5, "gaussian", light))


@pytest.mark.parametrize("h", [1e-250, 1e-30, 1e-3, 1e30, 1e250])
@pytest.mark.parametrize("kernel", SHAPES)
def test_tiny_and_huge_bandwidths(kernel, h):
    x = np.array([[0.0, 0.0], [0.0, 0.0], [1e-220, 3e-220], [2.0**-90, 0.0]])
    if h < 1e-100:
        with pytest.raises(
            ParameterError, match=r"bandwidth: found 1e-250 for coordinates of up to 8\.07794e-28"
        ):
            pairs.kde(x, bandwidth=h, kernel=kernel)
        x = x[:3]
    found = pairs.kde(x, bandwidth=h, kernel=kernel, log=True)
    assert np.isfinite(found.values).all()
    assert (found.error_bound < 1e-9).all()
    top = -log_integral(kernel, 2)[0] - 2.0 * math.log(h)
    inside = len(x) if h > 1e-20 else 2 + (h > 1e-100)
    assert found.values[0] == pytest.approx(top + math.log(inside / len(x)), rel=1e-9)


def test_one_point_and_copies():
    for count in (1, 3, DENSITY_TILE + 1):
        found = pairs.kde(np.full((count, 2), 7.0), [[7.0, 7.0], [7.0, 8.0]], bandwidth=1.0)
        np.testing.assert_allclose(found.values, np.exp([0.0, -0.5]) / (2.0 * np.pi), rtol=1e-13)
    assert pairs.kde([[1.0]], np.empty((0, 1)), bandwidth=1.0).values.shape == (0,)


def test_an_end_is_at_the_distance_that_numpy_computes():
    x = np.arange(30.0)[:, None] * 0.1
    found = pairs.kde(x, bandwidth=0.3, kernel="tophat").values * 30 * 0.6
    counts = (np.abs(x - x.T) < 0.3).sum(axis=1)
    np.testing.assert_allclose(found, counts, rtol=1e-13)
    assert len(set(counts.tolist())) > 2


@pytest.mark.parametrize("kernel", SHAPES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_bits_depend_on_neither_threads_nor_other_points(kernel, kind, monkeypatch):
    from bmrm.pairs import densities

    monkeypatch.setattr(densities, "MIN_SHARED_PAIRS", 0)
    x = np.random.default_rng(0).normal(size=(1500, 2)).astype(kind)
    words = {"bandwidth": 0.2, "kernel": kernel, "log": True}
    one = pairs.kde(x, threads=1, **words)
    monkeypatch.setattr(HostPairs, "density_pairs", 1e5)
    shares = []
    many = pairs.kde(x, threads=7, progress=shares.append, **words)
    assert one.values.tobytes() == many.values.tobytes()
    assert one.error_bound.tobytes() == many.error_bound.tobytes()
    assert len(shares) > 10
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    few = pairs.kde(x, x[100:103], **words)
    assert few.values.tolist() == one.values[100:103].tolist()


def test_ctrl_c_ends_the_work(monkeypatch):
    monkeypatch.setattr(HostPairs, "density_pairs", 1e5)
    shares = []

    def note(share):
        shares.append(share)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        pairs.kde(np.random.default_rng(0).random((2000, 2)), bandwidth=0.1, progress=note)
    assert len(shares) == 1


def test_rules_of_bandwidths():
    x = np.random.default_rng(0).normal(size=(50, 3))
    assert pairs.kde(x, bandwidth="scott").bandwidth == pytest.approx(50 ** (-1 / 7))
    assert pairs.kde(x, bandwidth="silverman").bandwidth == pytest.approx((50 * 5 / 4) ** (-1 / 7))
    weights = np.r_[np.ones(20), np.zeros(30)]
    assert pairs.kde(x, bandwidth="scott", weights=weights).bandwidth == pytest.approx(20 ** (-1 / 7))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"bandwidth": 0.0}, "bandwidth: found 0, expected a positive number"),
        ({"bandwidth": -1.0}, "bandwidth: found -1"),
        ({"bandwidth": np.nan}, "bandwidth: found nan"),
        ({"bandwidth": np.inf}, "bandwidth: found inf"),
        ({"bandwidth": "scot"}, "bandwidth: found 'scot'.*scott"),
        ({"bandwidth": None}, "bandwidth: found"),
        ({"kernel": "gauss"}, "kernel: found 'gauss'.*gaussian"),
        ({"tol": -1e-3}, "tol: found -0.001"),
        ({"weights": [0.0, 0.0]}, "weights: found only zeros"),
        ({"device": "gpu"}, "device: found"),
        ({"threads": 0}, "threads: found 0"),
    ],
)
def test_bad_parameters(words, message):
    with pytest.raises(ParameterError, match=message):
        pairs.kde([[0.0], [1.0]], **{"bandwidth": 1.0} | words)


@pytest.mark.parametrize(
    ("x", "at", "words", "message"),
    [
        ([[0.0], [np.nan]], None, {}, "x: row 2, column 1 has nan"),
        ([[0.0]], [[np.inf]], {}, "at: row 1, column 1 has inf"),
        (np.empty((0, 2)), None, {}, r"x: found shape \(0, 2\), expected some points"),
        (np.empty((2, 0)), None, {}, r"x: found shape \(2, 0\), expected some points"),
        ([[0.0]], [[0.0, 1.0]], {}, "at: found 2 columns, expected 1 as in x"),
        ([[0.0], [1.0]], None, {"weights": [1.0, -2.0]}, "weights: found -2, expected numbers of at least 0"),
        ([[0.0], [1.0]], None, {"weights": [1.0, np.nan]}, "weights: row 2 has nan"),
        ([[0.0], [1.0]], None, {"weights": [1.0]}, r"weights: found shape \(1,\), expected \(2,\)"),
    ],
)
def test_bad_data(x, at, words, message):
    with pytest.raises(DataError, match=message):
        pairs.kde(x, at, bandwidth=1.0, **words)


def test_a_periodic_box_is_refused():
    with pytest.raises(ParameterError, match="x: found points in a periodic box"):
        pairs.kde(pairs.Points([[0.0]], box=1.0), bandwidth=1.0)


def test_compiled_sums_check_their_arguments():
    found = DensitySums(np.zeros((2, 3)), np.ones(3), light=False)
    with pytest.raises(ParameterError, match="light"):
        found.light_sums(np.zeros((2, 1)), 1.0, 1.0, 100.0, 0.0)
    with pytest.raises(ParameterError, match=r"x: found shape \(1, 4\)"):
        found.nearest(np.zeros((1, 4)))
    with pytest.raises(ParameterError, match=r"offsets: found shape \(3,\)"):
        found.sums(np.zeros((2, 1)), "gaussian", 1.0, np.inf, np.zeros(3), 0.0)
    with pytest.raises(ParameterError, match="y: found shape"):
        DensitySums(np.zeros((2, 0)), np.ones(0), light=True)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_other_instruction_sets(isa):
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n" + (
        "import test_densities as t; t.test_float32_has_the_error_that_is_reported(3, True)\n"
        "for kernel in t.SHAPES: t.test_densities_are_those_of_a_double_loop(kernel, 3)"
    )
    output_on(isa, program)
