"""Whole solves by two builds of the package, in turns: does a change make any of them slower?

    python -m benchmarks.cpu.two_builds OLD NEW [--device cuda] [--limit 1.03] [--out FILE]

OLD and NEW are folders that hold a package `bmrm` with its compiled modules: source trees or site-packages.
Each problem goes to a process per build. The two solve it in turns, from arrays to the result, and the least
time of each counts. They are started several times, since where a process has its memory changes its speed
as well, and twice as many times if the ratio of the two is above the limit. The exit status is 1 if any solve
by NEW still takes longer than `--limit` times that by OLD.

On a GPU the problems have more rows.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.common import report
from benchmarks.common.builds import Build
from benchmarks.common.shapes import generate
from benchmarks.common.textdata import text_matrix

WORKER = Path(report.__file__).with_name("one_build.py")

ROWS_FACTOR = {"cpu": 1, "cuda": 10}

TEXT_ROWS = 40_000

PAUSE = 0.02
"""Seconds between two solves: idle threads of the other process spin for a while before they sleep."""

BUILDS = ("old", "new")

Problem = tuple[Any, np.ndarray]


SECTIONS = """
## Whole solves by two builds

The same solves by {old_commit:commit */an earlier build} and by this build, alternating, from arrays to the
result; minima.

[rows]
problem = {problem} | old ms = {seconds_old:.2f ms} | new ms = {seconds_new:.2f ms} | ratio = {ratio:.3f} |
passes = {passes_old}, {passes_new}

[aims]
"""


def categories(rows: int) -> Problem:
    """Return rows like those of the a9a data set: 16 of 123 features, all of them 1."""
    matrix = generate("adult9", scale=rows / 32_561, xp=np)
    X = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    rng = np.random.default_rng(0)
    margins = X @ rng.standard_normal(X.shape[1])
    return X, np.where(margins - margins.mean() + 2.0 * rng.standard_normal(rows) > 0.0, 1.0, -1.0)


@functools.lru_cache(maxsize=1)
def text(rows: int) -> Problem:
    """Return a text-like set with two classes."""
    X, scores = text_matrix(rows)
    return sp.csr_array((X.data, X.indices, X.indptr), X.shape), np.where(scores > 0.0, 1.0, -1.0)


def topics(rows: int) -> Problem:
    """Return a text-like set with five classes and few words."""
    X, scores = text_matrix(rows, cols=2_000, nnz_per_row=30)
    labels = np.digitize(scores, np.quantile(scores, [0.2, 0.4, 0.6, 0.8])).astype(float)
    return sp.csr_array((X.data, X.indices, X.indptr), X.shape), labels


def full(rows: int, columns: int = 60) -> Problem:
    """Return full rows and values with heavy tails."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    return X, X @ rng.standard_normal(columns) + 2.0 + rng.standard_t(2.0, rows)


def classes_of(make: Callable[[int], Problem], rows: int) -> Problem:
    """Return the same rows with the signs of their values."""
    X, y = make(rows)
    return X, np.where(y > 0.0, 1.0, -1.0)


class Case(NamedTuple):
    """A problem to solve.

    Attributes
    ----------
    make : callable
        Returns X and labels for a number of rows.
    rows : int
        On a CPU.
    options : dict
        Of `bmrm.solve`.
    solves : int
        Number of solves that are timed together.
    grows : bool
        Whether there are more rows on a GPU.
    """

    make: Callable[[int], Problem]
    rows: int
    options: dict[str, Any]
    solves: int = 1
    grows: bool = True


CASES = {
    "a9a-like, hinge": Case(categories, 32_561, {"loss": "hinge", "lam": 1e-4, "tol": 1e-3}),
    "a9a-like, logistic, free intercept": Case(
        categories, 32_561, {"loss": "logistic", "lam": 1e-5, "tol": 1e-4, "fit_intercept": True}
    ),
    "text, hinge": Case(text, TEXT_ROWS, {"loss": "hinge", "lam": 1e-5, "tol": 1e-3}),
    "text, logistic": Case(text, TEXT_ROWS, {"loss": "logistic", "lam": 1e-5, "tol": 1e-3}),
    "text, hinge, planes alone": Case(
        text, TEXT_ROWS, {"loss": "hinge", "lam": 1e-4, "tol": 1e-2, "cuts_per_pass": 1}
    ),
    "text, logistic, l1": Case(text, TEXT_ROWS, {"loss": "logistic", "reg": "l1", "lam": 1e-4, "tol": 1e-3}),
    "full rows, absolute, free intercept": Case(
        full, 40_000, {"loss": "absolute", "lam": 1e-4, "tol": 1e-3, "fit_intercept": True}
    ),
    "five topics, multiclass": Case(topics, 20_000, {"loss": "multiclass", "lam": 1e-4, "tol": 1e-2}),
    "200 full rows, hinge": Case(
        lambda rows: classes_of(full, rows), 200, {"loss": "hinge", "lam": 1e-2}, solves=10, grows=False
    ),
}


def save(path: Path, problem: Problem, options: dict[str, Any], solves: int) -> None:
    """Write a problem to a file that `one_build.py` reads."""
    X, y = problem
    arrays = (
        {"X": X}
        if isinstance(X, np.ndarray)
        else {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    )
    np.savez(path, y=y, task=json.dumps({"options": options, "solves": solves}), **arrays)


def solve(build: Build) -> dict[str, Any]:
    """Solve the problem of a build once."""
    found = build.ask()
    time.sleep(PAUSE)
    return found


def in_turns(
    folders: dict[str, Path], problem: Path, starts: int, seconds: float, limit: float
) -> dict[str, Any]:
    """Return the versions of both builds, and their solves with the least time."""
    best: dict[str, Any] = {}
    versions = {}
    for start in range(2 * starts):
        if start == starts and ratio(best) <= limit:
            break
        with contextlib.ExitStack() as stack:
            builds = {
                name: stack.enter_context(Build(folder, WORKER, str(problem)))
                for name, folder in folders.items()
            }
            versions = {name: build.about["version"] for name, build in builds.items()}
            turn = list(builds)[:: 1 if start % 2 == 0 else -1]
            warm = [solve(builds[name])["seconds"] for name in turn]
            for _ in range(max(3, math.ceil(seconds / starts / sum(warm)))):
                for name in turn:
                    found = solve(builds[name])
                    if name not in best or found["seconds"] < best[name]["seconds"]:
                        best[name] = found
                turn.reverse()
    return {"versions": versions, "best": best}


def ratio(best: dict[str, Any]) -> float:
    """Return the least time by the new build over that by the old one."""
    return best["new"]["seconds"] / best["old"]["seconds"]


def compare(name: str, best: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a problem in the results file; both solves must converge, and their bounds agree."""
    old, new = best["old"], best["new"]
    if {old["status"], new["status"]} != {"converged"}:
        raise SystemExit(f"{name}: a solve has not converged: {best}")
    for one, other in ((old, new), (new, old)):
        if one["lower_bound"] > other["objective"] * (1.0 + 1e-6):
            raise SystemExit(f"{name}: a bound of one build is above the objective of the other: {best}")
    row: dict[str, Any] = {"problem": name, "device": new["device"]}
    row |= {f"seconds_{build}": best[build]["seconds"] for build in BUILDS}
    row |= {f"passes_{build}": best[build]["passes"] for build in BUILDS}
    return row | {"ratio": ratio(best)}


def commit_of(folder: Path) -> str | None:
    """Return the commit that a folder is a checkout of, None if it is no checkout."""
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(folder), "rev-parse", "--show-toplevel", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None
    top, commit = done.stdout.splitlines()
    return commit[:7] if Path(top).resolve() == folder.resolve() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--device", choices=tuple(ROWS_FACTOR), default="cpu")
    parser.add_argument("--limit", type=float, default=1.03, help="largest ratio of new to old that passes")
    parser.add_argument("--starts", type=int, default=3, help="processes per problem and build")
    parser.add_argument("--seconds", type=float, default=15.0, help="time per problem, about")
    parser.add_argument("--out", default=report.RESULTS / "two_builds.json")
    options = parser.parse_args()
    folders = {name: getattr(options, name).absolute() for name in BUILDS}
    for folder in folders.values():
        if not (folder / "bmrm" / "__init__.py").is_file():
            parser.error(f"{folder}: found no package bmrm")
    rows, versions = [], {}
    print(f"{'problem':40} {'old ms':>9} {'new ms':>9} {'ratio':>7}  passes")
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in CASES.items():
            size = case.rows * (ROWS_FACTOR[options.device] if case.grows else 1)
            file = Path(scratch) / "problem.npz"
            save(file, case.make(size), {"device": options.device, **case.options}, case.solves)
            found = in_turns(folders, file, options.starts, options.seconds, options.limit)
            versions = found["versions"]
            row = compare(name, found["best"])
            rows.append(row)
            print(
                f"{name:40} {1e3 * row['seconds_old']:9.2f} {1e3 * row['seconds_new']:9.2f} "
                f"{row['ratio']:7.3f}  {row['passes_old']}, {row['passes_new']}",
                flush=True,
            )
    old_commit = commit_of(folders["old"])
    worst = max(row["ratio"] for row in rows)
    aims = [report.aim("new / old, most", worst, options.limit, below=True)]
    report.write(options.out, SECTIONS, old_commit=old_commit, versions=versions, rows=rows, aims=aims)
    slower = [row["problem"] for row in rows if row["ratio"] > options.limit]
    if slower:
        raise SystemExit(f"slower by more than {options.limit:g} times: {'; '.join(slower)}")


if __name__ == "__main__":
    main()
