"""Training against LIBLINEAR on a generated text set and on a9a, both sides judged by one function.

    python -m benchmarks.peers.against_liblinear A9A [--text FILE] [--out FILE]

Two comparisons, at lam = 1e-5, C = 1 / (lam m), no bias:

whole  start, load, train, write: `bmrm-train` to a certified relative gap of 1e-3 against Debian's
       `liblinear-train -e 0.001` (package liblinear-tools), on a text set of 200 000 x 47 236 with 76
       nonzeros per row (textdata.py writes it unless --text names it). Runs alternate; medians.
alone  training alone on a9a, LIBLINEAR 2.50 (package liblinear-official) called in C with its data in
       place. For each of its tolerances: its seconds and objective, and ours until the best objective is
       as low. Ours includes making X resident.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import bmrm
from benchmarks.common import report
from benchmarks.common.textdata import make_text

LAM = 1e-5
PAIRS = [("hinge", 3), ("squared_hinge", 2), ("logistic", 0)]
FORMULAS = {
    "hinge": lambda v: np.maximum(0.0, 1.0 - v),
    "squared_hinge": lambda v: np.maximum(0.0, 1.0 - v) ** 2,
    "logistic": lambda v: np.logaddexp(0.0, -v),
}


SECTIONS = """
## Against LIBLINEAR
headline: training on a9a to equal suboptimality | LIBLINEAR 2.50 | alone | times_faster | {machine[cpu]}

The whole command on a text set of 200 000 x 47 236 with 76 nonzeros per row (start, load, train, write):
`bmrm-train` to a certified relative gap of 1e-3, Debian's `liblinear-train -e 0.001`. One function of NumPy
and SciPy evaluates both objectives.

[whole]
loss = {loss} | bmrm s = {bmrm_seconds:.2f} | LIBLINEAR s = {liblinear_seconds:.2f} |
times faster = {times_faster:.1f} | J bmrm = {bmrm_objective:.7f} | J LIBLINEAR = {liblinear_objective:.7f}

Training alone on a9a, at equal true suboptimality: LIBLINEAR 2.50 at each of its tolerances, and bmrm until
its objective is as low.

[alone]
loss = {loss}, -e {epsilon:g} | suboptimality = {suboptimality:.1e} | bmrm ms = {bmrm_seconds:.1f ms} |
LIBLINEAR ms = {liblinear_seconds:.1f ms} | times faster = {times_faster:.1f}
"""


def objective(loss: str, X: sp.csr_matrix, y: np.ndarray, w: np.ndarray) -> float:
    """Return J(w), by NumPy and SciPy in float64 alone."""
    return float(0.5 * LAM * w @ w + FORMULAS[loss](y * (X @ w)).mean())


def liblinear_weights(path: Path, d: int) -> np.ndarray:
    """Return the weights of a LIBLINEAR model file, for the label +1."""
    head, _, body = path.read_text().partition("\nw\n")
    w = np.array(body.split(), float)
    first = next(line for line in head.splitlines() if line.startswith("label")).split()[1]
    return np.pad(w if float(first) > 0 else -w, (0, d - len(w)))


TRAIN = str(Path(sys.executable).parent / "bmrm-train")
"""The command of the Python that runs this."""


def seconds(command: list[str]) -> float:
    """Return the wall time of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def whole(text: Path, folder: Path, repeats: int) -> list[dict]:
    """Time both commands from start to end."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(text))
    m, d = X.shape
    ours, theirs = folder / "ours.model", folder / "theirs.model"
    rows = []
    for loss, solver in PAIRS:
        train = [TRAIN, "-q", "--loss", loss, "--lambda", str(LAM)]
        commands = {
            "bmrm": [*train, "--tol", "1e-3", str(text), str(ours)],
            "liblinear": [
                "liblinear-train", "-s", str(solver), "-e", "0.001", "-c", repr(1 / (LAM * m)), "-q",
                str(text), str(theirs),
            ],
        }  # fmt: skip
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                times[name].append(seconds(command))
        row = {
            "loss": loss,
            "bmrm_seconds": statistics.median(times["bmrm"]),
            "liblinear_seconds": statistics.median(times["liblinear"]),
            "bmrm_objective": objective(loss, X, y, bmrm.Model.load(ours).w),
            "liblinear_objective": objective(loss, X, y, liblinear_weights(theirs, d)),
        }
        row["times_faster"] = row["liblinear_seconds"] / row["bmrm_seconds"]
        rows.append(row)
        print(
            f"whole  {loss:14} bmrm {row['bmrm_seconds']:.2f} s, J {row['bmrm_objective']:.7f}   "
            f"LIBLINEAR {row['liblinear_seconds']:.2f} s, J {row['liblinear_objective']:.7f}   "
            f"{row['times_faster']:.2f} times faster",
            flush=True,
        )
    return rows


def alone(a9a: Path) -> list[dict]:
    """Time training alone, at equal true suboptimality."""
    from liblinear import liblinear

    X, y = bmrm.load_svmlight(a9a)
    m, d = X.shape
    problem = liblinear.problem(y, X)
    rows = []
    for loss, solver in PAIRS:
        best = bmrm.solve(X, y, loss=loss, lam=LAM, tol=1e-9)
        for epsilon in (1e-1, 1e-2, 1e-3, 1e-4):
            options = f"-s {solver} -c {1 / (LAM * m)!r} -e {epsilon} -q"
            spent, w = best_of(lambda options=options: liblinear_train(liblinear, problem, options, d))
            target = objective(loss, X, y, w)
            ours, passes = best_of(lambda loss=loss, target=target: reach(loss, X, y, target))
            row = {
                "loss": loss,
                "epsilon": epsilon,
                "liblinear_objective": target,
                "suboptimality": target - best.lower_bound,
                "liblinear_seconds": spent,
                "bmrm_seconds": ours,
                "bmrm_passes": passes,
                "times_faster": spent / ours,
            }
            rows.append(row)
            print(
                f"alone  {loss:14} -e {epsilon:<7g} suboptimality {row['suboptimality']:.1e}   "
                f"LIBLINEAR {1e3 * spent:8.1f} ms   bmrm {1e3 * ours:7.1f} ms   "
                f"{row['times_faster']:.2f} times faster",
                flush=True,
            )
    return rows


def best_of(run, repeats: int = 5):
    """Return the run with the median time."""
    found = sorted((run() for _ in range(repeats)), key=lambda pair: pair[0])
    return found[repeats // 2]


def liblinear_train(liblinear, problem, options: str, d: int) -> tuple[float, np.ndarray]:
    """Time one call of `train` in C."""
    parameter = liblinear.parameter(options)
    liblinear.liblinear.set_print_string_function(parameter.print_func)
    start = time.perf_counter()
    model = liblinear.liblinear.train(problem, parameter)
    spent = time.perf_counter() - start
    w = np.array(model.contents.w[:d])
    return spent, w if model.contents.label[0] > 0 else -w


def reach(
    loss: str, X: sp.csr_matrix | np.ndarray, y: np.ndarray, target: float, **options: int | str
) -> tuple[float, int]:
    """Return seconds and passes until the best objective is at most `target`, from X in host memory."""
    start = time.perf_counter()
    stop = {"tol": 1e-13, "callback": lambda state: state.objective <= target}
    result = bmrm.solve(X, y, loss=loss, lam=LAM, **stop, **options)
    return time.perf_counter() - start, result.n_iter


def main() -> None:
    """Run both comparisons and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a9a", type=Path)
    parser.add_argument("--text", type=Path, help="the text set, where it was made before")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", default=report.RESULTS / "against_liblinear.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = options.text
        if text is None:
            text = Path(folder) / "text.svm"
            make_text(text)
        small = alone(options.a9a)
        large = whole(text, Path(folder), options.repeats)
    report.write(options.out, SECTIONS, lam=LAM, whole=large, alone=small)


if __name__ == "__main__":
    main()
