# ruff: noqa: F821, F841 (annotations name sizes; results are assigned and not read)
"""Row functions of the tests, as users write them, each with its result by NumPy in float64."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bmrm.reductions import (
    Reduction,
    dot,
    exp,
    inf,
    local,
    log,
    logaddexp,
    operator,
    reduction,
    squared_distance,
)

sys.path.append(str(Path(__file__).parents[2]))  # for examples
from examples.row_formulas import covariance, em_step, histogram, kmeans_step


def kmeans_by_numpy(X, w, centers):
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    label = distances.argmin(axis=1)
    weights = np.broadcast_to(w, len(X))
    sums, counts = np.zeros_like(centers), np.zeros(len(centers))
    np.add.at(sums, label, weights[:, None] * X)
    np.add.at(counts, label, weights)
    return sums, counts, (weights * distances.min(axis=1, initial=np.inf)).sum(), label


def em_by_numpy(X, mean, prec, const):
    e = X[:, None, :] - mean
    q = const - 0.5 * (prec * e * e).sum(axis=2)
    top = q.max(axis=1, keepdims=True)
    p = np.exp(q - top)
    total = p.sum(axis=1, keepdims=True)
    r = p / total
    first = (r[:, :, None] * e).sum(axis=0)
    return r.sum(axis=0), first, (r[:, :, None] * e * e).sum(axis=0), (top + np.log(total)).sum()


def covariance_by_numpy(X, shift):
    E = X - shift
    return E.sum(axis=0), np.tril(E.T @ E)


def histogram_by_numpy(X, low, scale, bins):
    count = np.zeros((X.shape[1], bins), int)
    with np.errstate(invalid="ignore"):
        scaled = np.where(np.isnan(X), -1.0, (X - low) * scale)
    place = np.clip(np.trunc(scaled), 0, bins - 1).astype(int)
    for f in range(X.shape[1]):
        np.add.at(count[f], place[:, f], 1)
    least = np.fmin.reduce(X, axis=0, initial=np.inf)
    return count, least, np.fmax.reduce(X, axis=0, initial=-np.inf)


@reduction
def logistic_gradient(x, y, weights: "d", loss: (), gradient: "d"):
    margin = y * dot(x, weights)
    if margin > 0:
        e = exp(-margin)
        loss += log(1 + e)
        slope = -y * e / (1 + e)
    else:
        e = exp(margin)
        loss += log(1 + e) - margin
        slope = -y / (1 + e)
    for f, v in x.stored():
        gradient[f] += slope * v


def logistic_by_numpy(X, y, weights):
    margin = y * (X @ weights)
    slope = -y / (1 + np.exp(margin))
    return np.logaddexp(0, -margin).sum(), X.T @ slope


@reduction
def nearest_vote(x, points: ("m", "d"), classes: "m", label):
    near = local(3)
    who = local(3)
    for i in range(3):
        near[i] = inf
    for j in range(len(points)):
        d = squared_distance(x, points[j])
        c = j
        for i in range(3):
            if d < near[i]:
                d, near[i] = near[i], d
                c, who[i] = who[i], c
    votes = local("kinds")
    for i in range(3):
        votes[classes[who[i]]] += 1
    most = 0
    for c in range(len(votes)):
        if votes[c] > votes[most]:
            most = c
    label = most


def vote_by_numpy(X, points, classes, kinds):
    distances = ((X[:, None, :] - points) ** 2).sum(axis=2)
    near = np.argsort(distances, axis=1, kind="stable")[:, :3]
    votes = np.zeros((len(X), kinds), int)
    for i in range(3):
        np.add.at(votes, (np.arange(len(X)), classes[near[:, i]]), 1)
    return (votes.argmax(axis=1),)


@reduction
def split_statistic(x, w, label, thresholds: ("d", "t"), below: ("d", "t", "classes"), total: "classes"):
    total[label] += w
    for f in range(len(x)):
        for t in range(len(thresholds[f])):
            if x[f] <= thresholds[f, t]:
                below[f, t, label] += w


def split_by_numpy(X, w, label, thresholds, classes):
    of_class = np.eye(classes)[label] * w[:, None]
    less = (X[:, :, None] <= thresholds).astype(float)
    return np.einsum("nft,nc->ftc", less, of_class), of_class.sum(axis=0)


@reduction
def item_sets(x, sets: ("m", "s"), count: "m"):
    for c in range(len(sets)):
        inside = True
        for i in range(len(sets[c])):
            inside = inside and x[sets[c, i]] > 0
        count[c] += inside


def item_sets_by_numpy(X, sets):
    return ((X[:, sets] > 0).all(axis=2).sum(axis=0),)


@reduction
def nearest_rows(x, centers: ("k", "d"), best: "k", who: "k", far: (), last: (), common: (), bits: ()):
    for j in range(len(centers)):
        d = squared_distance(x, centers[j])
        if d < best[j]:
            best[j], who[j] = d, x.index
    d = squared_distance(x, centers[0])
    if d > far:
        far = d
        last = x.index
    whole = int(x[0]) % 8
    common &= whole | 1
    bits |= 1 << whole


def nearest_by_numpy(X, centers):
    distances = ((X[:, None, :] - centers) ** 2).sum(axis=2)
    whole = np.trunc(X[:, 0]).astype(int) % 8
    if not len(X):
        k = len(centers)
        return np.full(k, np.inf), np.full(k, -1), -np.inf, -1, -1, 0
    return (
        distances.min(axis=0),
        distances.argmin(axis=0),
        distances[:, 0].max(),
        distances[:, 0].argmax(),
        np.bitwise_and.reduce(whole | 1),
        np.bitwise_or.reduce(1 << whole),
    )


@dataclass
class Case:
    """A row function, its arguments for given rows, and its results by NumPy."""

    reduction: Reduction
    by_numpy: Callable[..., tuple[Any, ...]]
    arguments: Callable[[np.random.Generator, np.ndarray], dict[str, Any]]
    sparse: bool = False

    def expected(self, X: np.ndarray, words: dict[str, Any]) -> tuple[Any, ...]:
        words = {k: np.asarray(v, float) if np.asarray(v).dtype.kind == "f" else v for k, v in words.items()}
        return self.by_numpy(np.asarray(X, float), **words)


@reduction
def two_of_centers(
    x, scale, centers: ("k", "d"), reach: "k", near: "k", far: (), value, label: int, other: int
):
    part = scale
    if scale > 1:
        part = 1.0
    best, at = inf, -1
    for j in range(len(centers)):
        dist = 0.0
        for f in range(len(x)):
            dist += part * (x[f] - centers[j, f]) ** 2
        if dist < best:
            best, at = dist, j
    most, twice = 0.25, -2
    for j in range(1, len(centers)):
        more = reach[j] - part * x[0]
        if most < more:
            most = more
            twice = j * 2
    if at >= 0:
        near[at] += best + x[0]
    far += most
    value, label, other = best, at, twice


def center_arguments(rows, clusters, columns):
    """Return arguments of `two_of_centers` with ties, NaN and infinities, with which nothing rounds."""
    rng = np.random.default_rng(clusters)
    X = rng.integers(-3, 4, (rows, columns)) / 2
    X[[3, 100]], X[40:44, 0], X[70, -1] = np.nan, [-np.inf, np.inf, np.nan, 1e30], np.inf
    centers, reach = rng.integers(-3, 4, (clusters, columns)) / 2, rng.integers(-4, 4, clusters) / 4
    reach[5], centers[7] = np.nan, np.nan
    return X, {"scale": rng.integers(0, 5, rows) / 2, "centers": centers, "reach": reach}


@reduction
def moments_about(x, w, shift: "d", total: "d", square: ("d", "d"), later: ("d", "d"), rest: "d"):
    for f in range(len(x)):
        for g in range(len(x)):
            square[f, g] += (x[f] - shift[f]) * (x[g] - shift[g])
    for f in range(len(x)):
        total[f] += w * x[f]
    for f in range(1, len(x)):
        rest[f] += x[f] - shift[f]
        for g in range(1, f):
            later[f, g] += x[f] * x[g]


def moments_by_numpy(X, w, shift):
    E = (X - shift).astype(np.float64)
    later = np.tril(X.astype(np.float64).T @ X, -1)
    rest = E.sum(axis=0)
    later[:, 0], rest[0] = 0, 0
    return X.T.astype(np.float64) @ w, E.T @ E, later, rest


@operator(init=0.0)
def either(a, b):
    return a + b - a * b


@reduction
def operators(x, w, product: (), flips: "k", less: "d", evidence: (), each: "k", chance: "d", first, last):
    j = int(8 * w)
    product *= 1 + x[0] / 64
    flips[j] ^= int(32 * x[0])
    for f in range(len(x)):
        less[f] -= w * x[f]
    evidence = logaddexp(evidence, x[0])
    each[j] = np.logaddexp(w, each[j])
    for f in range(len(x)):
        chance[f] = either(chance[f], w / 256)
    first = min(x[0], first)
    last = max(w, last)


def operators_by_numpy(X, w, k):
    j = (8 * w).astype(int)
    flips, each = np.zeros(k, int), np.full(k, -np.inf)
    np.bitwise_xor.at(flips, j, np.trunc(32 * X[:, 0]).astype(int))
    np.logaddexp.at(each, j, w)
    chance = np.full(X.shape[1], 1 - np.prod(1 - w / 256))
    first, last = X[:, 0].min(initial=np.inf), w.max(initial=-np.inf)
    evidence = np.logaddexp.reduce(X[:, 0], initial=-np.inf)
    return np.prod(1 + X[:, 0] / 64), flips, -(w @ X), evidence, each, chance, first, last


@reduction
def memberships(
    x,
    mean: ("k", "d"),
    prior: ("rows", "k"),
    shift,
    r: ("rows", "k"),
    near: "rows",
    who: "rows",
    far: ("rows",),
    growth: ("rows", "k"),
    moved: ("rows", "k"),
    chance: "rows",
    flags: ("rows", 2),
    sure: ("rows", "k"),
    weight: "k",
):
    total = 0.0
    for j in range(len(mean)):
        dist = squared_distance(x, mean[j])
        r[j] = prior[j] / (1 + dist)
        total += r[j]
        if dist < near:
            near, who = dist, j
        far = max(far, prior[j] - shift[j])
        growth[j] *= 1 + prior[j]
        moved[(x.index + j) % len(moved)] -= shift[j]
        chance = either(prior[j] / 4, chance)
        flags[j % 2] ^= 1 << j % 60
        sure[j] = prior[j] > 0.5
    for j in range(len(mean)):
        r[j] = r[j] / total
        weight[j] += r[j]


def memberships_by_numpy(X, mean, prior, shift):
    distances = ((X[:, None, :] - mean) ** 2).sum(axis=2)
    r, moved, k = prior / (1 + distances), np.zeros(prior.shape), len(mean)
    r /= r.sum(axis=1, keepdims=True)
    for j in range(k):
        np.subtract.at(moved, (np.arange(len(X)), (np.arange(len(X)) + j) % k), shift[:, j])
    flags = np.tile([sum(1 << j for j in range(first, k, 2)) for first in (0, 1)], (len(X), 1))
    far, chance = (prior - shift).max(axis=1), 1 - np.prod(1 - prior / 4, axis=1)
    nearest = distances.min(axis=1), distances.argmin(axis=1)
    return r, *nearest, far, 1 + prior, moved, chance, flags, prior > 0.5, r.sum(axis=0)


def _centers(rng, X):
    return rng.integers(-8, 9, (rng.integers(1, 9), X.shape[1])) / 4 + 1 / 16


CASES = {
    "k-means": Case(
        kmeans_step, kmeans_by_numpy, lambda r, X: {"w": r.random(len(X)), "centers": _centers(r, X)}
    ),
    "EM": Case(
        em_step,
        em_by_numpy,
        lambda r, X: {
            "mean": (m := _centers(r, X)),
            "prec": r.random(m.shape) + 0.5,
            "const": r.normal(size=len(m)),
        },
    ),
    "covariance": Case(covariance, covariance_by_numpy, lambda r, X: {"shift": r.normal(size=X.shape[1])}),
    "histogram": Case(
        histogram,
        histogram_by_numpy,
        lambda r, X: {
            "low": np.full(X.shape[1], -2.0),
            "scale": np.full(X.shape[1], 8.0),
            "bins": int(r.integers(1, 40)),
        },
    ),
    "logistic gradient": Case(
        logistic_gradient,
        logistic_by_numpy,
        lambda r, X: {"y": r.choice([-1, 1], len(X)), "weights": r.normal(size=X.shape[1])},
        sparse=True,
    ),
    "vote": Case(
        nearest_vote,
        vote_by_numpy,
        lambda r, X: {
            "points": r.normal(size=(m := int(r.integers(3, 30)), X.shape[1])),
            "classes": r.integers(0, 4, m),
            "kinds": 4,
        },
        sparse=True,
    ),
    "split": Case(
        split_statistic,
        split_by_numpy,
        lambda r, X: {
            "w": r.random(len(X)),
            "label": r.integers(0, 3, len(X)),
            "thresholds": r.integers(-8, 8, (X.shape[1], int(r.integers(1, 5)))) / 4,
            "classes": 3,
        },
    ),
    "item sets": Case(
        item_sets,
        item_sets_by_numpy,
        lambda r, X: {"sets": r.integers(0, X.shape[1], (int(r.integers(1, 9)), int(r.integers(1, 4))))},
    ),
    "operators": Case(
        operators,
        operators_by_numpy,
        lambda r, X: {"w": r.integers(0, 24, len(X)) / 8, "k": 24},
    ),
    "memberships": Case(
        memberships,
        memberships_by_numpy,
        lambda r, X: {
            "mean": (m := _centers(r, X)),
            "prior": r.integers(1, 16, (len(X), len(m))) / 16,
            "shift": r.integers(-8, 9, (len(X), len(m))) / 8,
        },
        sparse=True,
    ),
    "nearest rows": Case(nearest_rows, nearest_by_numpy, lambda r, X: {"centers": _centers(r, X)}),
}
