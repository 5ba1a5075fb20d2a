"""What the losses of many margins cost beside the two products, and quantile regression against scikit-learn.

    python benchmarks/ranking.py [--rows 1000000] [--seconds 60] [--out FILE]

evaluation  a text-like X of a million rows and 47 236 columns, 76 nonzeros a row, values float32, made in
            memory by textdata.py: the risk and its subgradient, from margins to derivatives, against the two
            products X w and X'r that a pass also makes. Margins are those of a model on the way, w of the
            sixth pass. For each loss: medians, and training to a certified relative gap of 1e-2.
quantile    rows x 100 dense Gaussian features, Gaussian noise, tau = 0.9: `quantile` with an intercept at
            lam = 1e-5 and a certified relative gap of 1e-3, against scikit-learn's QuantileRegressor with
            alpha=0 and solver="highs", at sizes that double until one takes it longer than --seconds. Both by
            one function of NumPy: the mean pinball loss. Then ours alone on a million rows.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import report
import sklearn
from sklearn.linear_model import QuantileRegressor
from textdata import text_matrix

import bmrm
from bmrm import losses

REPEATS, TAU, FEATURES, LAM, TOL = 7, 0.9, 100, 1e-5, 1e-3


def timed(function) -> float:
    """Median seconds of a call, after one to warm up."""
    function()
    runs = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        runs.append(time.perf_counter() - start)
    return statistics.median(runs)


def evaluations(rows: int) -> dict:
    """Time evaluations and products on one set, and train."""
    X, scores = text_matrix(rows)
    rng = np.random.default_rng(1)
    binary = np.where(scores > 0, 1.0, -1.0)
    graded = np.digitize(scores, np.quantile(scores, [0.5, 0.8, 0.95, 0.99])).astype(float)
    queries = np.sort(rng.integers(0, rows // 100, rows))
    everything = np.zeros(rows, np.int64)
    cases = [
        ("roc_area", "two classes", binary, None, {}),
        ("f_beta", "two classes", binary, None, {}),
        ("precision_at_k", "two classes", binary, None, {"k": 0.05}),
        ("pairwise", "5 grades, one group", graded, everything, {}),
        ("pairwise", "a million grades, one group", scores, everything, {}),
        ("pairwise", "5 grades, groups of 100", graded, queries, {}),
        ("ndcg", "5 grades, groups of 100", graded, queries, {}),
        ("lambda_ndcg", "5 grades, groups of 100", graded, queries, {}),
        ("mrr", "5 grades, groups of 100", graded, queries, {}),
        ("ordinal", "5 grades", graded, None, {}),
    ]
    data = bmrm.Dataset(X, binary)
    z, u, r, gradient = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(X.shape[1])
    found = []
    for name, what, y, groups, params in cases:
        data.y, data.groups = y, groups
        options = {"loss": name, "lam": 1e-5, **params}
        w = bmrm.solve(data, max_iter=6, **options).w
        data.matrix.matvec(w, z)
        labels = y - y.min() if name == "ordinal" else y
        risk = losses.get(name, **params).grouped(groups).risk(labels, None, 1.0, data.threads)
        ends = np.array([0, rows])
        seconds = timed(lambda risk=risk, ends=ends: risk.cut(z, z, 0.0, 0.0, ends, r))
        products = timed(lambda w=w: (data.matrix.matvec(w, u), data.matrix.rmatvec(r, gradient)))
        result = bmrm.solve(data, tol=1e-2, max_time=20.0, **options)
        found.append(
            {
                "loss": name,
                "what": what,
                "seconds": seconds,
                "products": products,
                "ratio": seconds / products,
                "passes": result.n_iter,
                "status": result.status,
                "training": result.timings["total"],
                "objective": result.objective,
                "lower_bound": result.lower_bound,
                "search_share": result.timings["search"] / result.timings["total"],
            }
        )
        print(
            f"{name:16} {what:28} {1e3 * seconds:7.1f} ms, products {1e3 * products:7.1f} ms, "
            f"ratio {seconds / products:5.2f}; {result.status}, {result.n_iter} passes, "
            f"{result.timings['total']:.1f} s"
        )
    return {"rows": rows, "cols": X.shape[1], "nnz": X.nnz, "losses": found}


def sample(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw dense rows and targets."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    planted = rng.standard_normal(FEATURES, dtype=np.float32)
    return X, (X @ planted).astype(np.float64) + rng.standard_normal(rows)


def pinball(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float) -> float:
    """Mean quantile loss."""
    e = y - (X @ w + b)
    return float(np.maximum(TAU * e, (TAU - 1.0) * e).mean())


def ours(X: np.ndarray, y: np.ndarray) -> dict:
    """Train and judge; the time counts making X resident."""
    start = time.perf_counter()
    result = bmrm.solve(X, y, "quantile", tau=TAU, lam=LAM, fit_intercept=True, tol=TOL)
    seconds = time.perf_counter() - start
    value = pinball(X, y, result.w, result.intercept)
    return {"seconds": seconds, "status": result.status, "passes": result.n_iter, "loss": value}


def theirs(X: np.ndarray, y: np.ndarray) -> dict:
    """Fit scikit-learn's linear program and judge."""
    peer = QuantileRegressor(quantile=TAU, alpha=0.0, solver="highs")
    start = time.perf_counter()
    peer.fit(X.astype(np.float64), y)
    seconds = time.perf_counter() - start
    value = pinball(X, y, peer.coef_, float(peer.intercept_))
    return {"sklearn_seconds": seconds, "sklearn_loss": value}


def quantiles(rows: int, longest: float) -> dict:
    """Double the size until scikit-learn takes too long; then a large set alone."""
    found, size = [], 1000
    while not found or found[-1]["sklearn_seconds"] < longest:
        X, y = sample(size)
        row = {"rows": size, **ours(X, y), **theirs(X, y)}
        row["times_faster"] = row["sklearn_seconds"] / row["seconds"]
        found.append(row)
        print(
            f"quantile, {size} rows: {row['seconds']:.3f} s (loss {row['loss']:.6f}), "
            f"scikit-learn {row['sklearn_seconds']:.1f} s (loss {row['sklearn_loss']:.6f})"
        )
        size *= 2
    large = {"rows": rows, **ours(*sample(rows))}
    print(f"quantile, {rows} rows: {large['seconds']:.1f} s, {large['status']}, {large['passes']} passes")
    return {"features": FEATURES, "tau": TAU, "sizes": found, "large": large}


def main() -> None:
    """Measure, print and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", default=report.RESULTS / "ranking.json")
    options = parser.parse_args()
    quantile = quantiles(options.rows, options.seconds)
    evaluation = evaluations(options.rows)
    report.write(options.out, sklearn=sklearn.__version__, evaluation=evaluation, quantile=quantile)


if __name__ == "__main__":
    main()
