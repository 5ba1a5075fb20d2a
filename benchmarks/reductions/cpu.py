"""Reductions on the CPU: seconds of a pass and of compiling, against NumPy and plain loops of Numba.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.reductions.cpu [--out FILE]

Each row function runs on one thread, and ours on two. NumPy's form is the usual one with temporary arrays.
Numba compiles the same loops over rows, as they are and with `fastmath`, which lets it reorder sums. A time
is the least of some calls; compiling is the first call on a few rows, less a later one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from benchmarks.common import report
from benchmarks.reductions.programs import CASES, SHAPES, normal_rows

REPEATS = 7
FEW_ROWS = 10


def least_seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the least time of some calls."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def compiling(call: Callable[[], Any]) -> float:
    """Return the processor time of a first call, less that of a second one."""
    times = []
    for _ in range(2):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return times[0] - times[1]


def measure(program: str, rows: int, columns: int, k: int, dtype: str) -> dict[str, Any]:
    """Measure a program."""
    case, X = CASES[program], normal_rows(rows, columns, dtype)
    words = case.words(np.random.default_rng(1), X, k)
    few = {key: value[:FEW_ROWS] if np.shape(value) == (rows,) else value for key, value in words.items()}
    plain, fast = numba.njit(case.loops), numba.njit(case.loops, fastmath=True)
    compile_seconds = {
        "ours": compiling(lambda: case.reduction(X[:FEW_ROWS], threads=1, **few)),
        "numba": compiling(lambda: plain(X[:FEW_ROWS], **few)),
    }
    fast(X[:FEW_ROWS], **few)
    seconds = {
        "ours": least_seconds(lambda: case.reduction(X, threads=1, **words)),
        "ours_two_threads": least_seconds(lambda: case.reduction(X, threads=2, **words)),
        "numpy": least_seconds(lambda: case.by_numpy(X, **words), 3),
        "numba": least_seconds(lambda: plain(X, **words), 3),
        "numba_fastmath": least_seconds(lambda: fast(X, **words), 3),
    }
    ours, theirs = case.reduction(X, **words), case.by_numpy(X.astype(np.float64), **words)
    error = max(relative_error(a, b) for a, b in zip(ours, theirs, strict=True))
    return {
        "program": program,
        "rows": rows,
        "columns": columns,
        "k": k,
        "dtype": dtype,
        "seconds": seconds,
        "compile_seconds": compile_seconds,
        "largest_relative_error": error,
    }


def relative_error(mine: Any, theirs: Any) -> float:
    """Return the largest difference, relative to the largest value; for labels the share that differs."""
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    if mine.dtype.kind != "f":
        return float((mine != theirs).mean())
    return float(np.abs(mine - theirs).max() / np.abs(theirs).max())


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "reductions_cpu.json")
    options = parser.parse_args()
    found = []
    for shape in SHAPES:
        for dtype in ("float32", "float64"):
            row = measure(*shape, dtype)
            found.append(row)
            times = "  ".join(f"{who} {1e3 * s:.1f} ms" for who, s in row["seconds"].items())
            print(f"{row['program']} {row['rows']} x {row['columns']} {dtype}: {times}", flush=True)
            print(f"    compiling {row['compile_seconds']}, error {row['largest_relative_error']:.1e}")
    versions = {"numpy": np.__version__, "numba": numba.__version__}
    report.write(options.out, versions=versions, rows=found)


if __name__ == "__main__":
    main()
