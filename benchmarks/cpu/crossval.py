"""Cost of cross validation over a grid of lam, relative to one solve of its smallest lam from scratch.

    python -m benchmarks.cpu.crossval [--a9a FILE] [--text FILE] [--out FILE]

Without files, binary rows of a9a's size replace a9a, and textdata.py writes the text set. `narrow` is the
text set with its columns added up into 2000, and `wide` has the shape of real-sim (wide.py). Each set is
scored by 5 folds for 10 lam, half a power of ten apart, to a certified relative gap of 1e-3, without the
final model. The unit is one solve of the smallest lam on all rows, from zero weights. There are four ratios
of medians over alternating runs:

    from a file      whole commands, `bmrm-train -v 5` with the grid and `bmrm-train` with the smallest lam
    from a matrix    whole calls of `bmrm.select` and `bmrm.solve` from a SciPy matrix in memory
    resident         whole calls of both with the same `bmrm.Dataset`
    strict           `bmrm.select` from a SciPy matrix, relative to the solver's time of the resident solve

For comparison the same 50 solves run one by one from scratch, each on weights that leave a fold out.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import bmrm
from benchmarks.common import report, textdata
from benchmarks.peers import wide
from benchmarks.peers.against_liblinear import TRAIN, seconds

FOLDS, TOL = 5, 1e-3
LAMS = np.logspace(-5.0, -0.5, 10)
NARROW = 2000
AIM = 6.0  # times one solve
LITTLE, MUCH = 9, 3
"""Runs of each kind, on a9a and on the larger sets."""


SECTIONS = """
## Cross validation

{folds} folds for {lams:d count} lam, {lams:.2g span}: {solves} certified solves to a relative gap of
{tol:g}. `one solve` is the whole call of `bmrm.solve` for the smallest lam on all rows, from scratch,
and `grid` that of `bmrm.select` without the final model, both from a SciPy matrix in memory. The
resident columns have the same calls with one `bmrm.Dataset`. `strictly` is the time of the grid from a
SciPy matrix over the solver's own time for the resident solve. `one by one` is the same solves from
scratch. Medians of alternating runs. A pass that ends at once, on known cuts, counts too.

[rows]
set, loss = {set} {rows} x {columns}, {loss} | one solve ms = {seconds[solve]:.1f ms} |
resident = {seconds[resident_solve]:.1f ms} | passes = {unit_passes} | grid ms = {seconds[grid]:.1f ms} |
grid resident = {seconds[resident_grid]:.1f ms} | grid passes = {passes} |
grid / one solve = {times_solve:.1f} | both resident = {times_resident:.1f} | strictly = {times_unit:.1f} |
one by one ms = {one_by_one[seconds]:.1f ms} | its passes = {one_by_one[passes]}

[aims]

Whole commands, from a file: `bmrm-train -v` with the grid, and `bmrm-train` with the smallest lam.

[commands]
set, loss = {set}, {loss} | one solve s = {seconds[solve]:.3f} | grid s = {seconds[grid]:.3f} |
grid / one solve = {times_solve:.1f}

If X is narrow, the folds share their cuts and Hessians. One solve with the logistic loss takes five
Newton steps there. A grid as fast as 6 solves could take 30 steps for its 50 pairs of fold and lam, but
most pairs need one, even from another fold's solution. With the hinge two or three Newton steps with
smoothed kinks finish a fold's solve at the larger lam. At the three smallest lam, kinks stop these
steps, and cuts alone take eight or nine more passes. These passes are needed for the fold's bound, not
for its objective, and other folds hardly help.

On text the folds' solutions are far apart: folds share no cuts, and about half of their passes are at
the two smallest lam, for which solutions at larger lam help little. Shared cuts save hardly any of
these passes, nor do more cuts per pass. So the folds are solved in lockstep: products with one column
per fold take most of the time, and the other work of a fold in a pass is that of a separate solve.
"""


def binary_rows(rows: int = 32_561, groups: int = 14, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Return rows like a9a's: one category of each of 14 groups, 123 columns, labels of a planted model."""
    rng = np.random.default_rng(seed)
    sizes = np.full(groups, 123 // groups) + (np.arange(groups) < 123 % groups)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    popular = rng.random((rows, groups)) ** 3
    columns = (starts + popular * sizes).astype(np.int32)
    X = sp.csr_matrix((np.ones(rows * groups), columns.ravel(), np.arange(0, rows * groups + 1, groups)))
    margin = X @ rng.standard_normal(123) + 1.5 * rng.standard_normal(rows)
    return X, np.where(margin > np.quantile(margin, 0.76), 1.0, -1.0)


def add_up_columns(X: Any, columns: int, seed: int = 0) -> Any:
    """Add up columns at random into a few, with random signs: feature hashing."""
    rng = np.random.default_rng(seed)
    to, sign = rng.integers(0, columns, X.shape[1]), rng.choice([-1.0, 1.0], X.shape[1])
    return (X @ sp.csr_matrix((sign, (np.arange(X.shape[1]), to)), shape=(X.shape[1], columns))).tocsr()


def write_text(path: Path, X: Any, y: np.ndarray) -> Path:
    """Write rows as SVMlight text."""
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


def from_a_file(name: str, text: Path, loss: str, repeats: int) -> dict:
    """Time whole commands, the grid and its unit, in turns."""
    options = ["--loss", loss, "--tol", str(TOL), "--no-cache", "-q", str(text)]
    grid = [TRAIN, "-v", str(FOLDS), "--lambdas", f"{LAMS.min()}:{LAMS.max()}:{len(LAMS)}", *options]
    times: dict[str, list[float]] = {"solve": [], "grid": []}
    with tempfile.TemporaryDirectory() as folder:
        solve = [TRAIN, "--lambda", str(LAMS.min()), *options, str(Path(folder) / "model")]
        for _ in range(repeats):
            times["solve"].append(seconds(solve))
            times["grid"].append(seconds(grid))
    medians = {kind: statistics.median(found) for kind, found in times.items()}
    ratio = medians["grid"] / medians["solve"]
    print(f"{name:10} {loss:9} from a file {medians['solve']:.3f} s and {medians['grid']:.3f} s: {ratio:.1f}")
    return {"set": name, "loss": loss, "seconds": medians, "spread": times, "times_solve": ratio}


def one_by_one(data: bmrm.Dataset, X: Any, y: np.ndarray, fold_of: np.ndarray, loss: str) -> dict:
    """Solve each lam without each fold, from zero weights and no cuts."""
    seconds, passes = 0.0, 0
    weights = data.weights
    for fold in range(FOLDS):
        data.weights = (fold_of != fold).astype(float)
        for lam in LAMS:
            result = bmrm.solve(data, loss=loss, lam=float(lam), tol=TOL)
            seconds += result.timings["total"]
            passes += result.n_iter
    data.weights = weights
    return {"seconds": seconds, "passes": passes}


def measure(name: str, X: Any, y: np.ndarray, loss: str, repeats: int) -> dict:
    """Time the grid and its unit, in turns."""
    data = bmrm.Dataset(X, y)
    one = {"loss": loss, "lam": float(LAMS.min()), "tol": TOL}
    grid = {"lams": LAMS, "folds": FOLDS, "loss": loss, "tol": TOL, "refit": False}
    bmrm.solve(data, **one)  # builds what products keep
    runs: dict[str, list[float]] = {
        "unit": [], "resident_solve": [], "resident_grid": [], "solve": [], "grid": []
    }  # fmt: skip

    def timed(kind: str, call: Callable[..., Any], *given: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = call(*given, **options)
        runs[kind].append(time.perf_counter() - start)
        return found

    for _ in range(repeats):
        alone = timed("resident_solve", bmrm.solve, data, **one)
        runs["unit"].append(alone.timings["total"])
        timed("resident_grid", bmrm.select, data, **grid)
        timed("solve", bmrm.solve, X, y, **one)
        found = timed("grid", bmrm.select, X, y, **grid)
    seconds = {kind: statistics.median(times) for kind, times in runs.items()}
    results = [r for v in found.validations for r in v.results]
    row = {
        "set": name,
        "rows": X.shape[0],
        "columns": X.shape[1],
        "nnz": X.nnz,
        "loss": loss,
        "repeats": repeats,
        "seconds": seconds,
        "spread": {kind: [min(times), max(times)] for kind, times in runs.items()},
        "unit_passes": alone.n_iter,
        "times_solve": seconds["grid"] / seconds["solve"],
        "times_resident": seconds["resident_grid"] / seconds["resident_solve"],
        "times_unit": seconds["grid"] / seconds["unit"],
        "passes": sum(r.n_iter for r in results),
        "worst_gap": max(r.gap / r.objective for r in results),
        "converged": all(r.status == "converged" for r in results),
        "one_by_one": one_by_one(data, X, y, found.folds.fold_of, loss),
        "lam": found.lam,
        "accuracy": float(found.mean[found.chosen]),
    }
    print(
        f"{name:10} {loss:9} one solve {1e3 * seconds['solve']:7.1f} ms {alone.n_iter:4d} passes; the grid "
        f"{1e3 * seconds['grid']:8.1f} ms {row['passes']:4d} passes: {row['times_solve']:5.1f} solves, "
        f"resident {row['times_resident']:5.1f}, strictly {row['times_unit']:5.1f}; one by one "
        f"{1e3 * row['one_by_one']['seconds']:8.1f} ms {row['one_by_one']['passes']:5d} passes",
        flush=True,
    )
    return row


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--a9a")
    parser.add_argument("--text")
    parser.add_argument("--out", default=report.RESULTS / "crossval.json")
    options = parser.parse_args()
    a9a = bmrm.load_svmlight(options.a9a) if options.a9a else binary_rows()
    name = "a9a" if options.a9a else "a9a-like"
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(options.a9a) if options.a9a else write_text(Path(folder) / name, *a9a)}
        files["text"] = Path(options.text) if options.text else Path(folder) / "text.svm"
        if not options.text:
            textdata.make_text(files["text"])
        text, thin = bmrm.load_svmlight(files["text"]), wide.problem("real-sim")
        files["wide"] = write_text(Path(folder) / "wide.svm", *thin)
        commands = [
            from_a_file(kind, path, loss, LITTLE if kind == name else MUCH)
            for kind, path in files.items()
            for loss in ("hinge", "logistic")
        ]
    rows = [measure(name, *a9a, loss, LITTLE) for loss in ("hinge", "logistic")]
    rows.append(measure("narrow", add_up_columns(text[0], NARROW), text[1], "hinge", MUCH))
    rows += [measure("text", *text, loss, MUCH) for loss in ("hinge", "logistic")]
    rows += [measure("wide", *thin, loss, MUCH) for loss in ("hinge", "logistic")]
    report.write(
        options.out,
        SECTIONS,
        folds=FOLDS,
        lams=LAMS.tolist(),
        solves=FOLDS * len(LAMS),
        tol=TOL,
        rows=rows,
        commands=commands,
        aims=[
            report.aim(f"grid / one solve, {row['set']}, {row['loss']}", row["times_solve"], AIM, below=True)
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
