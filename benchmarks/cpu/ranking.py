"""Cost of losses of many margins relative to the two products, and quantile regression by scikit-learn.

    python -m benchmarks.cpu.ranking [--gpu] [--rows 1000000] [--seconds 60] [--out FILE]

evaluation  a text-like X of a million rows and 47 236 columns, 76 nonzeros per row, float32 values, drawn in
            memory by textdata.py: the risk and its subgradient, from margins to derivatives, against the two
            products X w and X'r that a pass also makes. Margins are those of an unfinished model, w of the
            sixth pass. For each loss: medians, and training to a certified relative gap of 1e-2. --gpu runs
            this part alone, on a GPU: evaluation and products each between two CUDA events, and the relative
            difference of the risk from the CPU's at the same margins.
quantile    rows x 100 dense Gaussian features, Gaussian noise, tau = 0.9: `quantile` with an intercept at
            lam = 1e-5 and a certified relative gap of 1e-3, against scikit-learn's QuantileRegressor with
            alpha=0 and solver="highs", at sizes that double until one takes it longer than --seconds. One
            function of NumPy, the mean pinball loss, judges both. Then ours alone on a million rows.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import bmrm
from benchmarks.common import report
from benchmarks.common.textdata import text_matrix
from bmrm import losses
from bmrm.losses import JointLoss

REPEATS, TAU, FEATURES, LAM, TOL = 7, 0.9, 100, 1e-5, 1e-3


SECTIONS = """
## Losses of many margins

A text-like X of {evaluation[rows]} x {evaluation[cols]} with 76 nonzeros per row. One evaluation is the
risk and its derivatives from the margins; the two products are X w and X^T r of the same pass. Training is
to a certified relative gap of 1 %, for 20 s at most; "searches" is the share of line searches in it, which
evaluate several times per pass. A million grades take twenty passes over the rows, one for each bit of a
grade.

[evaluation[losses]]
loss = `{loss}`, {what} | evaluation ms = {seconds:.0f ms} | two products ms = {products:.0f ms} |
ratio = {ratio:.2f} | passes = {passes} | training s = {training:.1f} | searches = {search_share:.0%} |
gap = {gap:.1%}

## Quantile regression

tau {quantile[tau]:g}, {quantile[features]} dense features, against scikit-learn {sklearn}'s
QuantileRegressor, a linear program solved by HiGHS, at sizes that double until it takes more than a minute.
The loss is the mean quantile loss of each answer: the linear program is exact, ours certified to 1e-3 with
a small penalty.

[quantile[sizes]]
rows = {rows} | bmrm s = {seconds:.2f} | scikit-learn s = {sklearn_seconds:.1f} |
times faster = {times_faster:.1f} | loss bmrm = {loss:.6f} | loss sklearn = {sklearn_loss:.6f}

{quantile[large][rows]} rows, bmrm alone: {quantile[large][seconds]:.1f} s, {quantile[large][passes]}
passes, {quantile[large][status]}.
"""
SECTIONS_ON_GPU = """
## Losses of many margins on a GPU

{gpu}; a text-like X of {evaluation[rows]} x {evaluation[cols]}. Evaluation and products each between two
CUDA events; "from the CPU" is the relative difference of the risk from the CPU's at the same margins.

[evaluation[losses]]
loss = `{loss}`, {what} | evaluation ms = {seconds:.2f ms} | two products ms = {products:.2f ms} |
ratio = {ratio:.2f} | from the CPU = {apart:.0e} | passes = {passes} | training s = {training:.2f}
"""


def timed(function) -> float:
    """Return the median seconds of a call, after one to warm up."""
    function()
    runs = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        runs.append(time.perf_counter() - start)
    return statistics.median(runs)


def cases_of(scores: np.ndarray) -> list[tuple]:
    """Return losses with labels from scores: name, kind of labels, labels, groups, parameters."""
    rows = len(scores)
    rng = np.random.default_rng(1)
    binary = np.where(scores > 0, 1.0, -1.0)
    graded = np.digitize(scores, np.quantile(scores, [0.5, 0.8, 0.95, 0.99])).astype(float)
    queries = np.sort(rng.integers(0, rows // 100, rows))
    everything = np.zeros(rows, np.int64)
    return [
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


class OnHost:
    """Evaluations and products on the CPU."""

    def __init__(self, data: bmrm.Dataset) -> None:
        self.data = data
        rows, columns = data.shape
        self.z, self.u, self.r, self.gradient = (np.empty(n) for n in (rows, rows, rows, columns))

    def measure(self, loss: JointLoss, labels: np.ndarray, w: np.ndarray) -> dict:
        """Time an evaluation at the margins of ``w``, and the two products."""
        matrix, ends = self.data.matrix, np.array([0, len(labels)])
        matrix.matvec(w, self.z)
        risk = loss.risk(labels, None, 1.0, self.data.threads)
        seconds = timed(lambda: risk.cut(self.z, self.z, 0.0, 0.0, ends, self.r))
        products = timed(lambda: (matrix.matvec(w, self.u), matrix.rmatvec(self.r, self.gradient)))
        return {"seconds": seconds, "products": products}


class OnDevice:
    """The same on a GPU, between CUDA events on the stream of the matrix."""

    def __init__(self, data: bmrm.Dataset) -> None:
        import cupy

        self.data, self.cupy = data, cupy
        self.stream = cupy.cuda.ExternalStream(data.matrix.stream)
        rows, columns = data.shape
        kind = data.matrix.vector_dtype
        self.w, self.z = cupy.zeros(columns, kind), cupy.zeros(rows, kind)
        self.r, self.gradient = cupy.ones(rows, kind), cupy.zeros(columns, kind)

    def timed(self, function) -> float:
        """Return the median seconds between two events, after a call to warm up."""
        function()
        start, end, runs = self.cupy.cuda.Event(), self.cupy.cuda.Event(), []
        for _ in range(5 * REPEATS):
            start.record(self.stream)
            function()
            end.record(self.stream)
            end.synchronize()
            runs.append(1e-3 * self.cupy.cuda.get_elapsed_time(start, end))
        return statistics.median(runs)

    def measure(self, loss: JointLoss, labels: np.ndarray, w: np.ndarray) -> dict:
        """Time an evaluation at the margins of ``w``, and the two products."""
        from bmrm.matrix import _cuda

        matrix = self.data.matrix
        problem = _cuda.Problem(matrix, _cuda.OWN_LOSS, 0.0, labels, None, 1.0, 0.0, False)
        here = loss.joint_risk(labels, None, self.data.threads)
        there = _cuda.Joint(problem, **here.parts)
        z = problem.fresh_margins(problem.weights(w))
        seconds = self.timed(lambda: there.evaluate(z, None, 0.0, 0.0, keep=0))
        self.w.set(w.astype(self.w.dtype))

        def products() -> None:
            matrix.apply("normal", self.w, self.z)
            matrix.apply("transposed", self.r, self.gradient)

        margins = z.get()
        value = here.evaluate(margins, margins, 0.0, 0.0, np.empty_like(margins)).sum()
        apart = abs(there.evaluate(z, None, 0.0, 0.0)[0] - value) / abs(value)
        return {"seconds": seconds, "products": self.timed(products), "apart": apart}


def evaluations(rows: int, device: str) -> dict:
    """Time evaluations and products on one set, and train."""
    X, scores = text_matrix(rows)
    data = bmrm.Dataset(X, scores, device=device)
    where = (OnHost if device == "cpu" else OnDevice)(data)
    found = []
    for name, what, y, groups, params in cases_of(scores):
        data.y, data.groups = y, groups
        options = {"loss": name, "lam": 1e-5, **params}
        w = bmrm.solve(data, max_iter=6, **options).w
        labels = y - y.min() if name == "ordinal" else y
        measured = where.measure(losses.get(name, **params).grouped(groups), labels, w)
        seconds, products = measured["seconds"], measured["products"]
        result = bmrm.solve(data, tol=1e-2, max_time=20.0, **options)
        found.append(
            {
                "loss": name,
                "what": what,
                **measured,
                "ratio": seconds / products,
                "passes": result.n_iter,
                "status": result.status,
                "training": result.timings["total"],
                "objective": result.objective,
                "lower_bound": result.lower_bound,
                "gap": (result.objective - result.lower_bound) / result.objective,
                "search_share": result.timings["search"] / result.timings["total"],
            }
        )
        print(
            f"{name:16} {what:28} {1e3 * seconds:7.2f} ms, products {1e3 * products:7.2f} ms, "
            f"ratio {seconds / products:5.2f}; {result.status}, {result.n_iter} passes, "
            f"{result.timings['total']:.1f} s",
            flush=True,
        )
    return {"rows": rows, "cols": X.shape[1], "nnz": X.nnz, "device": data.device, "losses": found}


def sample(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw dense rows and targets."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32)
    planted = rng.standard_normal(FEATURES, dtype=np.float32)
    return X, (X @ planted).astype(np.float64) + rng.standard_normal(rows)


def pinball(X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float) -> float:
    """Return the mean quantile loss."""
    e = y - (X @ w + b)
    return float(np.maximum(TAU * e, (TAU - 1.0) * e).mean())


def ours(X: np.ndarray, y: np.ndarray) -> dict:
    """Train and judge; the time includes making X resident."""
    start = time.perf_counter()
    result = bmrm.solve(X, y, "quantile", tau=TAU, lam=LAM, fit_intercept=True, tol=TOL)
    seconds = time.perf_counter() - start
    value = pinball(X, y, result.w, result.intercept)
    return {"seconds": seconds, "status": result.status, "passes": result.n_iter, "loss": value}


def theirs(X: np.ndarray, y: np.ndarray) -> dict:
    """Fit scikit-learn's linear program and judge."""
    from sklearn.linear_model import QuantileRegressor

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
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.gpu:
        evaluation = evaluations(options.rows, "cuda")
        from bmrm.matrix import _cuda

        gpu = _cuda.device_info()["name"]
        out = options.out or report.RESULTS / "ranking_gpu.json"
        report.write(out, SECTIONS_ON_GPU, gpu=gpu, evaluation=evaluation)
        return
    import sklearn

    quantile = quantiles(options.rows, options.seconds)
    evaluation = evaluations(options.rows, "cpu")
    report.write(
        options.out or report.RESULTS / "ranking.json",
        SECTIONS,
        sklearn=sklearn.__version__,
        evaluation=evaluation,
        quantile=quantile,
    )


if __name__ == "__main__":
    main()
