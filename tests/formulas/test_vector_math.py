# ruff: noqa: F841 (results are assigned and not read)
"""exp and log of vectors against NumPy in longer formats."""

import numpy as np
import pytest

from bmrm.formulas.cpu import native
from bmrm.reductions import exp, log, reduction

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")

MAX_ERROR_ULPS = 2.0


@reduction
def both(x, powers, logarithms):
    powers = exp(x[0])
    logarithms = log(abs(x[0]))


def errors(found, exact, dtype):
    """Errors in units of the last place of the exact values, where these are finite."""
    finite = np.isfinite(exact) & (np.abs(exact) < np.finfo(dtype).max)
    ulps = np.spacing(np.abs(exact[finite]).astype(dtype)).astype(exact.dtype)
    return np.abs(found[finite].astype(exact.dtype) - exact[finite]) / ulps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_errors_are_below_two_units_in_the_last_place(dtype):
    wide = np.longdouble if dtype == np.float64 else np.float64
    rng, limit = np.random.default_rng(0), 745.0 if dtype == np.float64 else 103.0
    tiny = np.float64(2.0) ** rng.uniform(-1074 if dtype == np.float64 else -149, 1, 20_000)
    values = np.concatenate(
        [rng.uniform(-limit, limit, 40_000), rng.normal(size=20_000), tiny, 1 + rng.normal(size=9999) / 1e3]
    ).astype(dtype)
    found = both(values[:, None])
    with np.errstate(all="ignore"):
        exact = np.exp(values.astype(wide)), np.log(np.abs(values).astype(wide))
    assert errors(found.powers, exact[0], dtype).max() < MAX_ERROR_ULPS
    assert errors(found.logarithms, exact[1], dtype).max() < MAX_ERROR_ULPS


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_special_values(dtype):
    @reduction
    def plain_log(x, power, logarithm):
        power, logarithm = exp(x[0]), log(x[0])

    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 1e30, -1e30, 800.0, -800.0], dtype)
    found = plain_log(values[:, None])
    with np.errstate(all="ignore"):
        powers, expected = np.exp(values), np.log(values)
    np.testing.assert_allclose(found.power, powers, rtol=1e-6)
    assert np.array_equal(np.isnan(found.logarithm), np.isnan(expected))
    np.testing.assert_allclose(found.logarithm, expected, rtol=1e-6)
