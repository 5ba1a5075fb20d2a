# ruff: noqa: B007, F821, F841 (counters are not read; annotations name sizes; results are not read)
"""Row functions with `while`, `break`, `continue` and functions that they call; their results by NumPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bmrm.reductions import Reduction, cos, dot, reduction, sin


class Case(NamedTuple):
    reduction: Reduction
    words: dict[str, Any]
    by_numpy: Callable[..., tuple[Any, ...]]
    sparse: bool = False

    def arguments(self, rows: int) -> dict[str, Any]:
        """Return the arguments of a call with some rows."""
        return {name: value[:rows] if value is ROW_ARRAYS else value for name, value in self.words.items()}


RNG = np.random.default_rng(48)
SORTED = np.sort(RNG.integers(-60, 60, 77)) / 16
ROW_ARRAYS = RNG.integers(-60, 60, (5000, 4)) / 16
"""A parameter with an array for each row, of as many rows as a call has."""
CENTERS = RNG.integers(-32, 33, (9, 5)) / 16


def polynomial(y, a):
    return y * y * y - a


def cube_root(a, y):
    """Newton's method, with a bound on its turns."""
    turns = 0
    while abs(polynomial(y, a)) > 1e-10:
        y = y - polynomial(y, a) / (3 * y * y)
        turns += 1
        if turns == 200:
            return -1.0
    return y


@reduction
def cube_roots(x, root, total, most: "d"):
    root = cube_root(abs(x[0]) + 0.5, 1.0)
    for f in range(len(x)):
        each = cube_root(x[f] * x[f] + 1, 2.0)
        total += each
        most[f] = max(most[f], each)


def cube_roots_by_numpy(X):
    each = np.cbrt(X * X + 1)
    return np.cbrt(np.abs(X[:, 0]) + 0.5), each.sum(), each.max(axis=0, initial=-np.inf)


@reduction
def mandelbrot(x, limit: int, turns: int, inside, escaped: "limit_more"):
    a, b, n = 0.0, 0.0, 0
    while n < limit and a * a + b * b <= 4:
        a, b = a * a - b * b + x[0], 2 * a * b + x[1]
        n += 1
    turns = n
    inside += n == limit
    escaped[n] += 1


def mandelbrot_by_numpy(X, limit, limit_more):
    z, c = np.zeros(len(X), complex), X[:, 0] + 1j * X[:, 1]
    n = np.zeros(len(X), int)
    for _ in range(limit):
        on = z.real**2 + z.imag**2 <= 4
        z[on] = z[on] ** 2 + c[on]
        n += on
        z[~on] = 3
    return n, (n == limit).sum(), np.bincount(n, minlength=limit_more)


@reduction
def places(x, p: "k", count: "bins", place: int, probes):
    for f in range(len(x)):
        low, high = 0, len(p)
        while low < high:
            middle = (low + high) // 2
            if p[middle] < x[f]:
                low = middle + 1
            else:
                high = middle
            probes += 1
        place = low
        count[low] += 1


def places_by_numpy(X, p, bins):
    found = np.searchsorted(p, X)
    probes = 0
    for x in X.ravel():
        low, high = 0, len(p)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if p[middle] < x else (low, middle)
            probes += 1
    return np.bincount(found.ravel(), minlength=bins), found[:, -1], probes


def near(x, c, limit):
    """Whether the squared distance is below a limit: most columns need not be looked at."""
    dist = 0.0
    for f in range(len(x)):
        dist += (x[f] - c[f]) ** 2
        if dist >= limit:
            return False
    return True


@reduction
def first_near(
    x, centers: ("k", "d"), radius: float, at: int, members: ("k", "d"), none, who: "k", least: "k"
):
    at = -1
    for j in range(len(centers)):
        if centers[j, 0] < 0:
            continue
        if not near(x, centers[j], radius):
            continue
        at = j
        if x[0] < least[j]:
            least[j], who[j] = x[0], x.index
        for f in range(len(x)):
            members[j, f] += x[f]
        break
    none += at < 0


def first_near_by_numpy(X, centers, radius):
    k = len(centers)
    is_near = ((X[:, None, :] - centers) ** 2).sum(axis=2) < radius
    is_near &= centers[:, 0] >= 0
    at = np.where(is_near.any(axis=1), is_near.argmax(axis=1) if len(X) else -1, -1)
    members, who, least = np.zeros(centers.shape), np.full(k, -1), np.full(k, np.inf)
    for i, j in enumerate(at):
        if j >= 0:
            members[j] += X[i]
            if X[i, 0] < least[j]:
                least[j], who[j] = X[i, 0], i
    return at, members, (at < 0).sum(), who, least


def anomaly_of(mean, eccentricity):
    """Kepler's equation by Newton's method: the test is at the end of a turn."""
    E, turns = mean, 0
    while True:
        step = (E - eccentricity * sin(E) - mean) / (1 - eccentricity * cos(E))
        E -= step
        turns += 1
        if abs(step) < 1e-12 or turns > 60:
            break
    return E


@reduction
def kepler(x, anomaly, furthest, which: int):
    e = anomaly_of(x[0], min(abs(x[1]), 2.0) / 4)
    anomaly = e
    if e > furthest:
        furthest, which = e, x.index


def kepler_by_numpy(X):
    mean, e = X[:, 0], np.minimum(np.abs(X[:, 1]), 2) / 4
    E = mean.copy()
    for _ in range(200):
        E = mean + e * np.sin(E)
    return E, E.max(initial=-np.inf), E.argmax() if len(X) else -1


def clipped(total, limit):
    return total if total < limit else limit


@reduction
def signed_parts(x, p: "d", limit: float, total, columns: "d", last: int, product):
    """Of stored values: those after a large one do not count, nor do negative ones."""
    last = -1
    for f, v in x.stored():
        if v == 0.0:
            continue
        if v < 0.0:
            total -= clipped(-v, limit)
            continue
        if v > 1.75:
            break
        last = f
        columns[f] += v * p[f]
    product += clipped(dot(x, p), limit)


def signed_parts_by_numpy(X, p, limit):
    total, columns, last = 0.0, np.zeros(X.shape[1]), np.full(len(X), -1)
    for i, x in enumerate(X):
        for f, v in enumerate(x):
            if v < 0:
                total -= min(-v, limit)
            elif v > 1.75:
                break
            elif v > 0:
                last[i] = f
                columns[f] += v * p[f]
    return total, columns, last, np.minimum(X @ p, limit).sum()


@reduction
def walk(x, p: "k", steps: int, seen: "k", ends: "k", longest, far):
    """Loops that all rows leave together, around one that each leaves alone."""
    at, n = x.index % len(p), 0
    start = 0
    while start < steps:
        start += 1
        if start == 2:
            continue
        if start > 5:
            break
        length = 0
        while True:
            seen[at] += 1
            at = (at + start) % len(p)
            length += 1
            if p[at] > x[0] + start:
                break
            if length >= len(p):
                n += 1
                break
        longest = max(longest, length)
    ends[at] += n
    far += at


def walk_by_numpy(X, p, steps):
    seen, ends, longest, far = np.zeros(len(p), int), np.zeros(len(p), int), -(2**63), 0
    for i, x in enumerate(X):
        at, n = i % len(p), 0
        for start in (s for s in range(1, min(steps, 5) + 1) if s != 2):
            for length in range(1, len(p) + 1):
                seen[at] += 1
                at = (at + start) % len(p)
                if p[at] > x[0] + start:
                    break
            else:
                n += 1
            longest = max(longest, length)
        ends[at] += n
        far += at
    return seen, ends, longest, far


def first_above(x, least):
    for f in range(len(x)):
        if x[f] > least:
            return x[f]
    return least


@reduction
def halvings(x, p: ("rows", "k"), r: ("rows", "k"), own: ("rows", "k"), most, total, seen: "k"):
    """Arrays of each row in loops that rows leave one by one."""
    best = 0.0
    for j in range(len(seen)):
        value, sum_, steps = abs(p[j]) * x[0], 0.0, 0
        if value < 0:
            continue
        while value > 0.25:
            value /= 2
            r[j] += value
            sum_ += value
            own[j] = value
            steps += 1
            if sum_ > 3:
                break
        best = max(best, own[j])
        seen[j] += steps
        if steps == 0:
            break
    most = best
    total += first_above(x, 0.5)


def halvings_by_numpy(X, p):
    n, k = p.shape
    r, own, most, seen = np.zeros((n, k)), np.zeros((n, k)), np.zeros(n), np.zeros(k, int)
    for i in range(n):
        for j in range(k):
            value, steps = abs(p[i, j]) * X[i, 0], 0
            if value < 0:
                continue
            while value > 0.25 and r[i, j] <= 3:
                value /= 2
                r[i, j] += value
                own[i, j] = value
                steps += 1
            most[i] = max(most[i], own[i, j])
            seen[j] += steps
            if steps == 0:
                break
    first = [next((v for v in x if v > 0.5), 0.5) for x in X]
    return r, own, most, sum(first), seen


CASES = {
    "Newton": Case(cube_roots, {}, cube_roots_by_numpy),
    "Mandelbrot": Case(mandelbrot, {"limit": 50, "limit_more": 51}, mandelbrot_by_numpy),
    "binary search": Case(places, {"p": SORTED, "bins": 78}, places_by_numpy),
    "first near": Case(first_near, {"centers": CENTERS, "radius": 6.0}, first_near_by_numpy),
    "Kepler": Case(kepler, {}, kepler_by_numpy),
    "stored": Case(signed_parts, {"p": CENTERS[0], "limit": 1.5}, signed_parts_by_numpy, sparse=True),
    "walk": Case(walk, {"p": SORTED, "steps": 7}, walk_by_numpy),
    "arrays of rows": Case(halvings, {"p": ROW_ARRAYS}, halvings_by_numpy),
}
