"""Multi-class training against LIBLINEAR's -s 4 (Crammer and Singer) at equal objective.

    python -m benchmarks.peers.multiclass [--out FILE]

Two generated sets of 20 000 rows and 20 classes: `letter`, dense, 16 features, each class a mixture of three
Gaussians, of the size of the UCI letter data; and `text`, sparse, with the same number of features as rows
and Zipf's frequencies, some of them raised in each class, so that the classes are separable and the dual is
the easier problem. No bias, C = 1, lam = 1 / (C m).

LIBLINEAR 2.50 (package liblinear-official) is called in C with its data in place. For each of its tolerances:
its seconds and objective, and ours until the best objective is as low, including making X resident. One
function of NumPy evaluates both objectives. Each side has one thread.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp

import bmrm
from benchmarks.common import report

ROWS, CLASSES = 20_000, 20
LAM = 1.0 / ROWS
EPSILONS = {"letter": (1.0, 1e-1, 1e-2), "text": (1.0, 1e-1)}


def letter(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of mixtures of three Gaussians per class."""
    y = rng.integers(0, CLASSES, ROWS)
    centres = 1.3 * rng.normal(size=(CLASSES, 3, 16))
    return centres[y, rng.integers(0, 3, ROWS)] + rng.normal(size=(ROWS, 16)), y


def text(rng: np.random.Generator) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw rows of 60 words by Zipf's law, a third of them from the words of the class; each of length 1."""
    words, per_row = 20_000, 60
    y = rng.integers(0, CLASSES, ROWS)
    shares = 1.0 / np.arange(1, words + 1)
    common = rng.choice(words, size=(ROWS, per_row), p=shares / shares.sum())
    topics = rng.permuted(np.tile(np.arange(words), (CLASSES, 1)), axis=1)[:, :500]
    own = topics[y[:, None], rng.integers(0, 500, size=(ROWS, per_row))]
    found = np.where(rng.random((ROWS, per_row)) < 1 / 3, own, common)
    X = sp.csr_matrix(
        (np.ones(found.size), found.ravel(), np.arange(0, found.size + 1, per_row)), (ROWS, words)
    )
    X.sum_duplicates()
    X.data = 1.0 + np.log(X.data)
    return sp.csr_matrix(sp.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X), y


def objective(X: np.ndarray | sp.csr_matrix, y: np.ndarray, W: np.ndarray) -> float:
    """Return J(W), by NumPy and SciPy in float64 alone."""
    U = X @ W
    own = U[np.arange(ROWS), y].copy()
    U += 1.0
    U[np.arange(ROWS), y] = own
    return float(0.5 * LAM * (W**2).sum() + (U.max(axis=1) - own).mean())


def liblinear_train(problem: object, epsilon: float, d: int) -> tuple[float, np.ndarray]:
    """Time one call of `train` in C; also return the weights, one column per class."""
    from liblinear import liblinear

    parameter = liblinear.parameter(f"-s 4 -c {1 / (LAM * ROWS)!r} -e {epsilon} -q")
    liblinear.liblinear.set_print_string_function(parameter.print_func)
    start = time.perf_counter()
    model = liblinear.liblinear.train(problem, parameter)
    spent = time.perf_counter() - start
    order = np.argsort(model.contents.label[:CLASSES])
    return spent, np.array(model.contents.w[: d * CLASSES]).reshape(d, CLASSES)[:, order]


def reach(X: np.ndarray | sp.csr_matrix, y: np.ndarray, target: float) -> tuple[float, bmrm.Result]:
    """Return the seconds until the best objective is at most `target`, from X in host memory."""
    start = time.perf_counter()
    data = bmrm.Dataset(X, y, threads=1)
    result = bmrm.solve(
        data, loss="multiclass", lam=LAM, tol=1e-12, callback=lambda state: state.objective <= target
    )
    return time.perf_counter() - start, result


def median(run, repeats: int):
    """Return the run with the median time."""
    return sorted((run() for _ in range(repeats)), key=lambda found: found[0])[repeats // 2]


def compare(name: str, X: np.ndarray | sp.csr_matrix, y: np.ndarray, repeats: int) -> list[dict]:
    """Measure both sides at each of LIBLINEAR's tolerances."""
    from liblinear import liblinear

    problem = liblinear.problem(y, sp.csr_matrix(X))
    optimum = bmrm.solve(X, y, "multiclass", lam=LAM, tol=1e-4, threads=1, max_time=10.0).lower_bound
    rows = []
    for epsilon in EPSILONS[name]:
        theirs, W = median(lambda epsilon=epsilon: liblinear_train(problem, epsilon, X.shape[1]), repeats)
        target = objective(X, y, W)
        ours, result = median(lambda target=target: reach(X, y, target), repeats)
        row = {
            "set": name,
            "epsilon": epsilon,
            "liblinear_objective": target,
            "bmrm_objective": objective(X, y, result.w),
            "gap": target - optimum,
            "liblinear_seconds": theirs,
            "bmrm_seconds": ours,
            "bmrm_passes": result.n_iter,
            "times_faster": theirs / ours,
        }
        rows.append(row)
        print(
            f"{name:7} -e {epsilon:<6g} LIBLINEAR {theirs:7.3f} s, J {target:.7f}   "
            f"bmrm {ours:7.3f} s, J {row['bmrm_objective']:.7f}, {result.n_iter} passes   "
            f"{row['times_faster']:.1f} times faster",
            flush=True,
        )
    return rows


def certified(name: str, X: np.ndarray | sp.csr_matrix, y: np.ndarray, repeats: int) -> list[dict]:
    """Train our own losses to a certified relative gap of 1e-3."""
    rows = []
    for loss in ("multiclass", "softmax"):

        def run(loss: str = loss) -> tuple[float, bmrm.Result]:
            start = time.perf_counter()
            result = bmrm.solve(X, y, loss, lam=LAM, tol=1e-3, threads=1)
            return time.perf_counter() - start, result

        seconds, result = median(run, repeats)
        rows.append(
            {
                "set": name,
                "loss": loss,
                "seconds": seconds,
                "passes": result.n_iter,
                "objective": result.objective,
                "gap": result.gap,
                "parts": result.timings,
            }
        )
        print(f"{name:7} {loss:10} to a gap of {result.gap:.1e}: {seconds:.3f} s, {result.n_iter} passes")
    return rows


def main() -> None:
    """Run the comparisons and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=report.RESULTS / "multiclass.json")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    sets = {"letter": letter(rng), "text": text(rng)}
    against = [row for name, (X, y) in sets.items() for row in compare(name, X, y, options.repeats)]
    alone = certified("letter", *sets["letter"], options.repeats)
    report.write(options.out, lam=LAM, against=against, certified=alone)


if __name__ == "__main__":
    main()
