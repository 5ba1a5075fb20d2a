"""Kernel densities on a GPU or the emulator, against double loops and those of the CPU."""

import numpy as np
import pytest
from density_reference import check, expected, sample
from devices import cuda, gpu, on_device, sized

from bmrm import KernelDensity, pairs
from bmrm.errors import BmrmError
from bmrm.pairs._pairs import SHAPES

pytestmark = gpu

POINTS = sized(300, 20_000)


@pytest.mark.parametrize("kernel", SHAPES)
@pytest.mark.parametrize("d", [1, 3, 5])
def test_densities_are_those_of_a_double_loop(kernel, d):
    x, at = sample(d, 301)
    weights = np.random.default_rng(1).random(len(x))
    weights[:50] = 0.0
    for w in (None, weights):
        words = {"bandwidth": 0.7, "kernel": kernel, "weights": w, "log": True, "device": "cuda"}
        check(pairs.kde(x, at, **words), expected(x, at, 0.7, kernel, w))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_has_the_error_that_is_reported(d, weighted):
    x, at = (each.astype(np.float32) for each in sample(d, POINTS))
    w = np.random.default_rng(1).random(len(x)) if weighted else None
    for tol in (None, 1e-4):
        words = {"bandwidth": 0.5, "weights": w, "log": True, "tol": tol}
        exact = pairs.kde(x.astype(np.float64), at.astype(np.float64), **words | {"tol": None})
        found = pairs.kde(x, at, device="cuda", **words)
        assert (np.abs(found.values - exact.values) <= found.error_bound + exact.error_bound).all()
        assert (found.error_bound[exact.values > -100.0] <= (tol or 1e-6)).all()


@pytest.mark.parametrize("m", [1, 7, 511, 512, 513, 8192, 8201])
def test_tiles_and_chunks_that_are_not_full(m):
    y = np.random.default_rng(0).random((3, m)).astype(np.float32).astype(np.float64)
    w = np.random.default_rng(1).random(m).astype(np.float32).astype(np.float64)
    x = y[:, : min(m, 5)]
    squares = ((x[:, :, None] - y[:, None, :]) ** 2).sum(axis=0)
    found = cuda.DensitySums(y, w, light=True)
    away = ((x[:, :, None] + 2.0 - y[:, None, :]) ** 2).sum(axis=0).min(axis=1)
    np.testing.assert_allclose(found.nearest(x + 2.0), away)
    sums, inside, cuts = found.sums(x, "tophat", 0.0, 0.3, None, 0.0)
    np.testing.assert_allclose(sums, np.where(squares < 0.3, w, 0.0).sum(axis=1), rtol=1e-13)
    assert (inside == sums).all()
    assert not cuts.any()
    sums, moments, _ = found.light_sums(x, 2.0, 2.0 / np.log(2.0), 40.0, 0.0)
    terms = w * np.exp(-2.0 * squares)
    np.testing.assert_allclose(sums, terms.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(moments, (terms * squares).sum(axis=1), rtol=1e-4, atol=1e-30)


def test_bits_do_not_depend_on_other_points():
    x, _ = sample(2, POINTS)
    words = {"bandwidth": 0.4, "log": True, "device": "cuda"}
    for kind in (np.float32, np.float64):
        x = x.astype(kind)
        one = pairs.kde(x, **words)
        assert one.values.tobytes() == pairs.kde(x, **words).values.tobytes()
        assert pairs.kde(x, x[100:103], **words).values.tolist() == one.values[100:103].tolist()


def test_points_on_the_device():
    x, at = sample(2, 200)
    x = x.astype(np.float32)
    there = pairs.Points(on_device(np.ascontiguousarray(x)), device="auto")
    found = pairs.kde(there, at, bandwidth=0.5, log=True)
    check(found, expected(x, at, 0.5, "gaussian"))
    model = KernelDensity(0.5, device="cuda").fit(x)
    assert np.allclose(model.score_samples(at), found.values, rtol=1e-9)


def test_arguments():
    with pytest.raises(BmrmError, match="light: expected True"):
        cuda.DensitySums(np.zeros((2, 3)), np.ones(3), light=False).light_sums(
            np.zeros((2, 1)), 1.0, 1.0, 9.0, 0.0
        )
    with pytest.raises(BmrmError, match=r"x: found shape \(1, 4\), expected \(2, 4\)"):
        cuda.DensitySums(np.zeros((2, 3)), np.ones(3), light=True).nearest(np.zeros((1, 4)))
    with pytest.raises(BmrmError, match="points: expected"):
        cuda.DensitySums(np.zeros((2, 0)), np.ones(0), light=False)
