# ruff: noqa: F821, F841 (annotations name sizes; results are assigned and not read)
"""Row functions that the benchmarks measure, and what they are compared with: NumPy, and loops for Numba."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bmrm.reductions import Reduction, dot, exp, inf, local, log, reduction
from examples.row_formulas import covariance, em_step, histogram, kmeans_step


@reduction
def sparse_kmeans_step(
    x, halves: "k", centers: ("k", "d"), sums: ("k", "d"), counts: "k", inertia: (), label: int
):
    best, at = inf, 0
    for j in range(len(centers)):
        value = halves[j] - dot(x, centers[j])
        if value < best:
            best, at = value, j
    inertia += 2.0 * best
    for f, v in x.stored():
        sums[at, f] += v
        inertia += v * v
    counts[at] += 1
    label = at


def kmeans_numpy(X, w, centers):
    distances = (X**2).sum(axis=1)[:, None] - 2 * (X @ centers.T) + (centers**2).sum(axis=1)
    label = distances.argmin(axis=1)
    counts = np.bincount(label, minlength=len(centers)) * w
    sums = np.empty((len(centers), X.shape[1]))
    for f in range(X.shape[1]):
        sums[:, f] = np.bincount(label, X[:, f], len(centers))
    return w * sums, counts, w * distances.min(axis=1).sum(dtype=np.float64), label


def kmeans_loops(X, w, centers):
    sums, counts = np.zeros(centers.shape), np.zeros(len(centers))
    label, inertia = np.empty(len(X), np.int64), 0.0
    for i in range(len(X)):
        best, at = X.dtype.type(np.inf), 0
        for j in range(len(centers)):
            dist = X.dtype.type(0)
            for f in range(X.shape[1]):
                e = X[i, f] - centers[j, f]
                dist += e * e
            if dist < best:
                best, at = dist, j
        for f in range(X.shape[1]):
            sums[at, f] += w * X[i, f]
        counts[at] += w
        inertia += w * best
        label[i] = at
    return sums, counts, inertia, label


def em_numpy(X, mean, prec, const):
    e = X[:, None, :] - mean
    q = const - 0.5 * np.einsum("njf,njf,jf->nj", e, e, prec)
    top = q.max(axis=1, keepdims=True)
    p = np.exp(q - top)
    total = p.sum(axis=1, keepdims=True)
    r = p / total
    first, second = np.einsum("nj,njf->jf", r, e), np.einsum("nj,njf,njf->jf", r, e, e)
    return r.sum(axis=0), first, second, (top + np.log(total)).sum()


def em_loops(X, mean, prec, const):
    k, d = mean.shape
    weight, s1, s2, loglik = np.zeros(k), np.zeros((k, d)), np.zeros((k, d)), 0.0
    q = np.empty(k, X.dtype)
    for i in range(len(X)):
        top = -np.inf
        for j in range(k):
            a = const[j]
            for f in range(d):
                e = X[i, f] - mean[j, f]
                a -= 0.5 * prec[j, f] * e * e
            q[j] = a
            top = max(top, a)
        total = 0.0
        for j in range(k):
            q[j] = np.exp(q[j] - top)
            total += q[j]
        loglik += top + np.log(total)
        for j in range(k):
            r = q[j] / total
            weight[j] += r
            for f in range(d):
                e = X[i, f] - mean[j, f]
                s1[j, f] += r * e
                s2[j, f] += r * e * e
    return weight, s1, s2, loglik


@reduction
def memberships(x, mean: ("k", "d"), prec: ("k", "d"), const: "k", r: ("rows", "k"), loglik: ()):
    q = local("k")
    top = -inf
    for j in range(len(mean)):
        q[j] = const[j]
        for f in range(len(x)):
            q[j] -= 0.5 * prec[j, f] * (x[f] - mean[j, f]) ** 2
        top = max(top, q[j])
    total = 0.0
    for j in range(len(mean)):
        q[j] = exp(q[j] - top)
        total += q[j]
    loglik += top + log(total)
    for j in range(len(mean)):
        r[j] = q[j] / total


def memberships_numpy(X, mean, prec, const):
    e = X[:, None, :] - mean
    q = const - 0.5 * np.einsum("njf,njf,jf->nj", e, e, prec)
    top = q.max(axis=1, keepdims=True)
    p = np.exp(q - top)
    total = p.sum(axis=1, keepdims=True)
    return p / total, (top + np.log(total)).sum()


def memberships_loops(X, mean, prec, const):
    k, d = mean.shape
    r, loglik = np.empty((len(X), k), X.dtype), 0.0
    q = np.empty(k, X.dtype)
    for i in range(len(X)):
        top = -np.inf
        for j in range(k):
            a = const[j]
            for f in range(d):
                e = X[i, f] - mean[j, f]
                a -= 0.5 * prec[j, f] * e * e
            q[j] = a
            top = max(top, a)
        total = 0.0
        for j in range(k):
            q[j] = np.exp(q[j] - top)
            total += q[j]
        loglik += top + np.log(total)
        for j in range(k):
            r[i, j] = q[j] / total
    return r, loglik


@reduction
def member_sums(x, r: ("rows", "k"), weight: "k", s1: ("k", "d"), s2: ("k", "d")):
    for j in range(len(r)):
        weight[j] += r[j]
        for f in range(len(x)):
            s1[j, f] += r[j] * x[f]
            s2[j, f] += r[j] * x[f] ** 2


def member_sums_numpy(X, r):
    return r.sum(axis=0), r.T @ X, r.T @ X**2


def member_sums_loops(X, r):
    k, d = r.shape[1], X.shape[1]
    weight, s1, s2 = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    for i in range(len(X)):
        for j in range(k):
            weight[j] += r[i, j]
            for f in range(d):
                s1[j, f] += r[i, j] * X[i, f]
                s2[j, f] += r[i, j] * X[i, f] * X[i, f]
    return weight, s1, s2


def covariance_numpy(X, shift):
    E = (X - shift).astype(np.float64)
    return E.sum(axis=0), np.tril(E.T @ E)


def covariance_loops(X, shift):
    d = X.shape[1]
    total, cross = np.zeros(d), np.zeros((d, d))
    for i in range(len(X)):
        for f in range(d):
            a = X[i, f] - shift[f]
            total[f] += a
            for g in range(f + 1):
                cross[f, g] += a * (X[i, g] - shift[g])
    return total, cross


def histogram_numpy(X, low, scale, bins):
    place = np.clip(((X - low) * scale).astype(np.int64), 0, bins - 1)
    count = np.array([np.bincount(column, minlength=bins) for column in place.T])
    return count, X.min(axis=0), X.max(axis=0)


def histogram_loops(X, low, scale, bins):
    d = X.shape[1]
    count = np.zeros((d, bins), np.int64)
    least, most = np.full(d, np.inf, X.dtype), np.full(d, -np.inf, X.dtype)
    for i in range(len(X)):
        for f in range(d):
            b = int((X[i, f] - low[f]) * scale[f])
            count[f, min(max(b, 0), bins - 1)] += 1
            least[f] = min(least[f], X[i, f])
            most[f] = max(most[f], X[i, f])
    return count, least, most


@reduction
def logistic_gradient(x, y, weights: "d", loss: (), gradient: "d"):
    margin = 0.0
    for f in range(len(x)):
        margin += x[f] * weights[f]
    margin *= y
    e = exp(-abs(margin))
    loss += max(-margin, 0.0) + log(1 + e)
    slope = -y * (e if margin > 0 else 1.0) / (1 + e)
    for f in range(len(x)):
        gradient[f] += slope * x[f]


def logistic_numpy(X, y, weights):
    margin = y * (X @ weights)
    slope = -y / (1 + np.exp(margin))
    return np.logaddexp(0, -margin).sum(dtype=np.float64), X.T @ slope


def logistic_loops(X, y, weights):
    loss, gradient = 0.0, np.zeros(X.shape[1])
    for i in range(len(X)):
        margin = X.dtype.type(0)
        for f in range(X.shape[1]):
            margin += X[i, f] * weights[f]
        margin *= y[i]
        e = np.exp(-abs(margin))
        loss += max(-margin, X.dtype.type(0)) + np.log(1 + e)
        slope = -y[i] * (e if margin > 0 else X.dtype.type(1)) / (1 + e)
        for f in range(X.shape[1]):
            gradient[f] += slope * X[i, f]
    return loss, gradient


class Case(NamedTuple):
    """A row function with its peers and its parameters for given rows."""

    reduction: Reduction
    by_numpy: Callable[..., Any]
    loops: Callable[..., Any]
    words: Callable[[np.random.Generator, np.ndarray, int], dict[str, Any]]


def em_words(r: np.random.Generator, X: np.ndarray, k: int) -> dict[str, Any]:
    """Return the parameters of a step of EM."""
    return {"mean": X[:k].copy(), "prec": np.ones((k, X.shape[1]), X.dtype), "const": np.zeros(k, X.dtype)}


CASES = {
    "k-means": Case(
        kmeans_step, kmeans_numpy, kmeans_loops, lambda r, X, k: {"w": 1.0, "centers": X[:k].copy()}
    ),
    "EM": Case(em_step, em_numpy, em_loops, em_words),
    "memberships": Case(memberships, memberships_numpy, memberships_loops, em_words),
    "sums by memberships": Case(
        member_sums,
        member_sums_numpy,
        member_sums_loops,
        lambda r, X, k: {"r": r.random((len(X), k)).astype(X.dtype)},
    ),
    "covariance": Case(
        covariance, covariance_numpy, covariance_loops, lambda r, X, k: {"shift": X[0].copy()}
    ),
    "histogram": Case(
        histogram,
        histogram_numpy,
        histogram_loops,
        lambda r, X, k: {
            "low": np.full(X.shape[1], -4, X.dtype),
            "scale": np.full(X.shape[1], k / 8, X.dtype),
            "bins": k,
        },
    ),
    "logistic gradient": Case(
        logistic_gradient,
        logistic_numpy,
        logistic_loops,
        lambda r, X, k: {
            "y": np.where(r.random(len(X)) < 0.5, 1, -1).astype(X.dtype),
            "weights": r.normal(size=X.shape[1]).astype(X.dtype),
        },
    ),
}
SHAPES = (
    ("k-means", 1_000_000, 16, 64),
    ("k-means", 400_000, 4, 16),
    ("EM", 200_000, 8, 16),
    ("memberships", 200_000, 4, 4),
    ("sums by memberships", 200_000, 4, 4),
    ("covariance", 200_000, 32, 0),
    ("histogram", 400_000, 16, 32),
    ("logistic gradient", 400_000, 32, 0),
)
"""Program, rows, columns, and clusters or bins."""


def normal_rows(rows: int, columns: int, dtype: Any) -> np.ndarray:
    """Return rows of a few normal clouds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    X += 2 * rng.standard_normal((8, columns), dtype=np.float32)[rng.integers(0, 8, rows)]
    return X.astype(dtype)


def sparse_rows(rows: int, columns: int, each: int) -> sp.csr_array:
    """Return rows with up to ``each`` values of float32, in the first columns more often than in the last."""
    rng = np.random.default_rng(0)
    of_values = (columns * rng.random((rows, each)) ** 2).astype(np.int32).ravel()
    starts = np.arange(0, rows * each + 1, each, dtype=np.int32)
    X = sp.csr_array((rng.random(rows * each, np.float32), of_values, starts), shape=(rows, columns))
    X.sum_duplicates()
    return X
