"""Kernel densities by double loops with SciPy's logsumexp, and points for tests."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp

LOGS = {
    "gaussian": lambda r: -0.5 * r * r,
    "exponential": lambda r: -r,
    "tophat": lambda r: np.where(r < 1.0, 0.0, -np.inf),
    "epanechnikov": lambda r: np.log(np.maximum(0.0, 1.0 - r * r)),
    "linear": lambda r: np.log(np.maximum(0.0, 1.0 - r)),
    "cosine": lambda r: np.log(np.where(r < 1.0, np.cos(0.5 * np.pi * r), 0.0)),
}
ENDLESS = ("gaussian", "exponential")


def integral(kernel, d):
    """The logarithm of the integral of a kernel over d dimensions, by quadrature over the radius."""
    end = 1.0 if kernel not in ENDLESS else 20.0 + 10.0 * d
    with np.errstate(divide="ignore"):
        found = quad(lambda r: math.exp(LOGS[kernel](np.float64(r))) * r ** (d - 1), 0.0, end, epsrel=1e-12)
    return math.log(found[0]) + math.log(d) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)


def expected(x, at, h, kernel, weights=None):
    """Logarithms of densities."""
    x, at = np.asarray(x, float), np.asarray(at, float)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    r = np.sqrt(((at[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)) / h
    d = x.shape[1]
    with np.errstate(divide="ignore"):
        sums = logsumexp(LOGS[kernel](r) + np.log(w), axis=1)
    return sums - integral(kernel, d) - d * math.log(h) - math.log(w.sum())


def check(found, wanted, slack=1e-9):
    """Compare logarithms; the reference has an error of its own."""
    finite = np.isfinite(wanted)
    assert (np.isfinite(found.values) == finite).all()
    off = np.abs(found.values[finite] - wanted[finite])
    assert (off <= found.error_bound[finite] + slack * (1.0 + np.abs(wanted[finite]))).all()
    assert (found.error_bound < 1e-5).all()


def sample(d, n=600, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.concatenate([2.0 * rng.normal(size=(80, d)), 1e4 * rng.normal(size=(5, d)), x[:3]])
