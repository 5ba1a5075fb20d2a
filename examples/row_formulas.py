"""Formulas of one row, compiled into passes over all rows: k-means, EM, a histogram and a covariance.

Each function below is plain Python for one row. What it only reads is a parameter, what it writes is a
result. The program runs Lloyd's k-means with the first and fits a mixture with the second, and compares all
with NumPy.
"""

# ruff: noqa: F821, F841 (names in annotations are sizes; results are not read)

import numpy as np

from bmrm.reductions import exp, inf, local, log, reduction

CLUSTERS = 4


@reduction
def kmeans_step(x, w, centers: ("k", "d"), sums: ("k", "d"), counts: "k", inertia: (), label: int):
    best, at = inf, 0
    for j in range(len(centers)):
        dist = 0.0
        for f in range(len(x)):
            dist += (x[f] - centers[j, f]) ** 2
        if dist < best:
            best, at = dist, j
    for f in range(len(x)):
        sums[at, f] += w * x[f]
    counts[at] += w
    inertia += w * best
    label = at


@reduction
def em_step(
    x, mean: ("k", "d"), prec: ("k", "d"), const: "k", weight: "k", s1: ("k", "d"), s2: ("k", "d"), loglik: ()
):
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
        r = q[j] / total
        weight[j] += r
        for f in range(len(x)):
            e = x[f] - mean[j, f]
            s1[j, f] += r * e
            s2[j, f] += r * e * e


@reduction
def histogram(x, low: "d", scale: "d", count: ("d", "bins"), least: "d", most: "d"):
    for f in range(len(x)):
        b = int((x[f] - low[f]) * scale[f])
        count[f, min(max(b, 0), len(count[f]) - 1)] += 1
        least[f] = min(least[f], x[f])
        most[f] = max(most[f], x[f])


@reduction
def covariance(x, shift: "d", total: "d", cross: ("d", "d")):
    for f in range(len(x)):
        a = x[f] - shift[f]
        total[f] += a
        for g in range(f + 1):
            cross[f, g] += a * (x[g] - shift[g])


def main() -> None:
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((4000, 3))
        + 4 * rng.standard_normal((CLUSTERS, 3))[rng.integers(0, CLUSTERS, 4000)]
    )
    weights = rng.random(4000)

    print(kmeans_step.explain())
    centers, before, steps = X[:CLUSTERS], np.inf, 0
    while True:
        out = kmeans_step(X, w=weights, centers=centers)
        centers = out.sums / np.maximum(out.counts, 1e-300)[:, None]
        if out.inertia >= before:
            break
        before, steps = out.inertia, steps + 1
    distances = ((X[:, None] - centers) ** 2).sum(axis=2)
    right = (distances.argmin(axis=1) == out.label).mean()
    print(f"k-means: inertia {out.inertia:.3f} after {steps} steps, {right:.2%} of the labels as NumPy's")

    share, mean, variance, trace = out.counts / weights.sum(), centers, np.ones((CLUSTERS, 3)), []
    for _ in range(10):
        const = np.log(share) - 0.5 * np.log(2 * np.pi * variance).sum(axis=1)
        out = em_step(X, mean=mean, prec=1 / variance, const=const)
        trace.append(out.loglik)
        terms = const - 0.5 * ((X[:, None] - mean) ** 2 / variance).sum(axis=2)
        share, shift = out.weight / len(X), out.s1 / out.weight[:, None]
        mean, variance = mean + shift, out.s2 / out.weight[:, None] - shift**2
    by_numpy = np.logaddexp.reduce(terms, axis=1).sum()
    falls = (np.diff(trace) < 0).sum()
    error = abs(trace[-1] - by_numpy)
    print(f"EM: {trace[-1]:.3f} after {len(trace)} steps, {falls} falls, {error:.1e} from NumPy's")

    low, high = X.min(axis=0), X.max(axis=0)
    bins = histogram(X, low=low, scale=20 / (high - low), bins=20)
    numpy_bins = [np.histogram(column, 20)[0] for column in X.T]
    print(f"histogram: {abs(bins.count - numpy_bins).sum()} of {X.size} values in another bin than NumPy's")

    shift = X.mean(axis=0)
    cross = covariance(X, shift=shift).cross / (len(X) - 1)
    print(f"covariance: at most {abs(cross - np.tril(np.cov(X.T))).max():.1e} from NumPy's")


if __name__ == "__main__":
    main()
