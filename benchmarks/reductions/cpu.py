"""Reductions on the CPU: seconds of a pass and of compiling, against NumPy and plain loops of Numba.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.reductions.cpu [--out FILE]

Each row function runs on one thread. NumPy's form is the usual one with temporary arrays. Numba compiles the
same loops over rows, as they are and with `fastmath`, which lets it reorder sums. A time is processor time
of the process, the least of some calls that take turns, so that other programs on the machine matter less.
Compiling is the first call on a few rows, less a later one, with an empty cache of machine code.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from benchmarks.reductions.programs import CASES, SHAPES, normal_rows

REPEATS = 7
FEW_ROWS = 10


SECTIONS = """
## Row functions on the CPU
headline: row functions, one thread | Numba | rows | seconds[numba]/seconds[ours] | {machine[cpu]}

NumPy {versions[numpy]}, Numba {versions[numba]}. Minimum processor time of one thread; Numba compiles
the loops unchanged, and with `fastmath`. Compile times are those of a first call, in seconds.

[rows]
program = {program}, {rows} x {columns}{k:, k */}, {dtype} | ms = {seconds[ours]:.3g ms} |
NumPy ms = {seconds[numpy]:.3g ms} | Numba ms = {seconds[numba]:.3g ms} |
fastmath ms = {seconds[numba_fastmath]:.3g ms} | compile s = {compile_seconds[ours]:.2f} |
Numba's = {compile_seconds[numba]:.2f}
"""


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
    few = {key: value[:FEW_ROWS] if np.shape(value)[:1] == (rows,) else value for key, value in words.items()}
    plain, fast = numba.njit(case.loops), numba.njit(case.loops, fastmath=True)
    compile_seconds = {
        "ours": compiling(lambda: case.reduction(X[:FEW_ROWS], threads=1, **few)),
        "numba": compiling(lambda: plain(X[:FEW_ROWS], **few)),
    }
    fast(X[:FEW_ROWS], **few)
    seconds = least_seconds(
        {
            "ours": lambda: case.reduction(X, threads=1, **words),
            "numpy": lambda: case.by_numpy(X, **words),
            "numba": lambda: plain(X, **words),
            "numba_fastmath": lambda: fast(X, **words),
        },
        REPEATS,
    )
    exact = X if program == "histogram" else X.astype(np.float64)  # float32 decides the bins
    ours, theirs = case.reduction(X, **words), case.by_numpy(exact, **words)
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
            with tempfile.TemporaryDirectory() as cache:
                os.environ["XDG_CACHE_HOME"] = cache
                row = measure(*shape, dtype)
            found.append(row)
            times = "  ".join(f"{who} {1e3 * s:.1f} ms" for who, s in row["seconds"].items())
            print(f"{row['program']} {row['rows']} x {row['columns']} {dtype}: {times}", flush=True)
            print(f"    compiling {row['compile_seconds']}, error {row['largest_relative_error']:.1e}")
    versions = {"numpy": np.__version__, "numba": numba.__version__}
    report.write(options.out, SECTIONS, versions=versions, rows=found)


if __name__ == "__main__":
    main()
