"""L1-penalised training on a9a against LIBLINEAR -s 6 and -s 5, both sides judged by one function.

    python -m benchmarks.peers.l1 [A9A] [--out FILE]

A9A is the LIBSVM site's data set in SVMlight text, .gz or not; without it, data of its shape are generated.
LIBLINEAR 2.50 (package liblinear-official) is called in C with its data in place, at ever finer tolerances
until its objective is within 1e-4 of the optimum, relatively. Ours runs until it has certified that, and
includes making X resident. Medians of several runs; no bias.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import scipy.sparse as sp

import bmrm
from benchmarks.common import report
from benchmarks.peers.against_liblinear import FORMULAS, liblinear_train

LAMS = [1e-3, 1e-4, 1e-5]
PAIRS = [("logistic", 6), ("squared_hinge", 5)]
EPSILONS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
ACCURACY = 1e-4
REPEATS = 3


SECTIONS = """
## The l1 penalty on {data}, against LIBLINEAR -s 6 and -s 5

Training alone: bmrm, including making X resident, until it has certified the relative gap {accuracy:g};
LIBLINEAR 2.50 at the loosest of its tolerances whose objective is as close to the optimum, or at its limit
of passes. One function of NumPy and SciPy evaluates both objectives. The last column has the nonzero
weights of bmrm and of LIBLINEAR.

[rows]
loss = {loss}, lam {lam:g} | bmrm ms = {bmrm_seconds:.0f ms} | LIBLINEAR ms = {liblinear_seconds:.0f ms} |
times faster = {liblinear_seconds/bmrm_seconds:.1f} | J bmrm = {bmrm_objective:.7f} |
J LIBLINEAR = {liblinear_objective:.7f} | -e = {epsilon:g}{reached:/, its limit} |
nonzero = {bmrm_nonzero}, {liblinear_nonzero}
"""


def objective(loss: str, X: sp.csr_matrix, y: np.ndarray, w: np.ndarray, lam: float) -> float:
    """Return J(w), by NumPy and SciPy in float64 alone."""
    return float(lam * np.abs(w).sum() + FORMULAS[loss](y * (X @ w)).mean())


def adult_like() -> tuple[sp.csr_matrix, np.ndarray]:
    """Return 14 attributes coded as indicators, 123 columns in all, of 32 561 rows, like a9a."""
    rng = np.random.default_rng(0)
    m, sizes = 32_561, [5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 5, 2, 41]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    picks = [
        start + (size * rng.random(m) ** 2).astype(int) for start, size in zip(starts, sizes, strict=True)
    ]
    columns = np.stack(picks, axis=1).ravel()
    X = sp.csr_matrix((np.ones(len(columns)), columns, np.arange(0, len(columns) + 1, 14)), shape=(m, 123))
    return X, np.where(X @ rng.normal(size=123) + 2.0 * rng.normal(size=m) > 1.0, 1.0, -1.0)


def measure(X: sp.csr_matrix, y: np.ndarray, loss: str, solver: int, lam: float) -> dict:
    """Measure one problem on both sides."""
    from liblinear import liblinear

    m, d = X.shape
    best = bmrm.solve(X, y, loss, "l1", lam, tol=1e-9)
    problem = liblinear.problem(y, X)
    for epsilon in EPSILONS:
        options = f"-s {solver} -c {1 / (lam * m)!r} -e {epsilon} -q"
        runs = [liblinear_train(liblinear, problem, options, d) for _ in range(REPEATS)]
        w = runs[0][1]
        theirs = objective(loss, X, y, w, lam)
        reached = theirs - best.lower_bound <= ACCURACY * best.lower_bound
        if reached:
            break
    spent = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = bmrm.solve(bmrm.Dataset(X, y), loss=loss, reg="l1", lam=lam, tol=ACCURACY)
        spent.append(time.perf_counter() - start)
    return {
        "loss": loss,
        "lam": lam,
        "optimum": best.lower_bound,
        "epsilon": epsilon,
        "reached": bool(reached),
        "liblinear_objective": theirs,
        "liblinear_seconds": statistics.median(seconds for seconds, _ in runs),
        "liblinear_nonzero": int(np.count_nonzero(w)),
        "bmrm_objective": objective(loss, X, y, result.w, lam),
        "bmrm_gap": result.gap,
        "bmrm_seconds": statistics.median(spent),
        "bmrm_passes": result.n_iter,
        "bmrm_nonzero": result.n_nonzero,
    }


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a9a", nargs="?")
    parser.add_argument("--out", default=report.RESULTS / "l1.json")
    options = parser.parse_args()
    X, y = adult_like() if options.a9a is None else bmrm.load_svmlight(options.a9a)
    rows = []
    for loss, solver in PAIRS:
        for lam in LAMS:
            row = measure(X, y, loss, solver, lam)
            rows.append(row)
            print(
                f"{loss:14} lam {lam:g}   LIBLINEAR -e {row['epsilon']:g} "
                f"{1e3 * row['liblinear_seconds']:7.1f} ms, J {row['liblinear_objective']:.8f}, "
                f"{row['liblinear_nonzero']} nonzero   "
                f"bmrm {1e3 * row['bmrm_seconds']:6.1f} ms, J {row['bmrm_objective']:.8f}, "
                f"{row['bmrm_nonzero']} nonzero",
                flush=True,
            )
    report.write(
        options.out, SECTIONS, data="a9a" if options.a9a else "generated", accuracy=ACCURACY, rows=rows
    )


if __name__ == "__main__":
    main()
