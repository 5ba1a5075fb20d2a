"""Fits with the default threads beside other work, against the same on one thread.

    python -m benchmarks.cpu.busy [--old FOLDER] [--loads idle loops] [--rounds 9] [--only TEXT] [--out FILE]

The loads are

idle       nothing else
loops      one process per core, each of which does nothing but count
products   one process that multiplies matrices by NumPy, with a thread of BLAS per core

Each case goes to a process of its own, which fits on one thread and with the default in turns; with --old,
one more process does so by another build, whose package is in FOLDER. The least time counts on the idle
machine, the median beside a load. The exit status is 1 if the default takes more than 1.2 times the time of
one thread beside a load, by the clock or of processors, or on the idle machine 1.03 times that of the old
build. `taskset -c 0,1` before the command gives it two cores of a larger machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bmrm
from benchmarks.common import report
from benchmarks.common.builds import Build
from benchmarks.common.one_fit import CASES
from benchmarks.cpu.two_builds import commit_of

WORKER = Path(report.__file__).with_name("one_fit.py")

MAX_BUSY_RATIO, MAX_IDLE_RATIO = 1.2, 1.03

COUNT = "while True: pass"
MULTIPLY = "import numpy; x = numpy.ones((600, 600))\nwhile True: x @ x"

LOADS = ("idle", "loops", "products")

KINDS = ("seconds", "processor")

WARM_LOAD = 0.5
"""Seconds that a load runs before anything is timed."""


SECTIONS = """
## On a busy machine

Fits from arrays on one thread, and how many times as long they take with the default threads: in
wall-clock and in processor time. Loads: idle machine (minima); one busy process per core; one process
that multiplies matrices with a BLAS thread per core (medians of {rounds}). The last columns are of
{old:*/this build alone}.

[rows]
fit = {case} | load = {load} | one thread ms = {seconds_new_1:.0f ms} |
times by the clock = {seconds_new_default/seconds_new_1:.2f} |
of processors = {processor_new_default/processor_new_1:.2f} | old: one thread ms = {seconds_old_1:.0f ms} |
old: times by the clock = {seconds_old_default/seconds_old_1:.2f} |
old: of processors = {processor_old_default/processor_old_1:.2f}

[aims]
"""


@contextlib.contextmanager
def loaded(load: str) -> Iterator[None]:
    """Run a load during a block."""
    cores = len(os.sched_getaffinity(0))
    codes = {"idle": [], "loops": [COUNT] * cores, "products": [MULTIPLY]}[load]
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": str(cores)}
    others = [subprocess.Popen([sys.executable, "-c", code], env=environ) for code in codes]
    try:
        time.sleep(WARM_LOAD if others else 0.0)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(case: str, load: str, folders: dict[str, Path], rounds: int) -> dict[str, Any]:
    """Return the row of a case beside a load: the times of each build, on one thread and by default."""
    settle = min if load == "idle" else statistics.median
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")}
    with contextlib.ExitStack() as stack:
        builds = {
            name: stack.enter_context(Build(folder, WORKER, case, environ))
            for name, folder in folders.items()
        }
        turns = [(name, threads) for name in builds for threads in ("1", "default")]
        for name, threads in turns:
            builds[name].ask(threads)
        found: dict[tuple[str, str], list[dict[str, float]]] = {turn: [] for turn in turns}
        with loaded(load):
            for _ in range(rounds):
                for name, threads in turns:
                    found[name, threads].append(builds[name].ask(threads))
                turns.reverse()
    return {"case": case, "load": load} | {
        f"{kind}_{name}_{threads}": settle(one[kind] for one in some)
        for (name, threads), some in found.items()
        for kind in KINDS
    }


def ratio(row: dict[str, Any], name: str, kind: str) -> float:
    """Return how many times as long the default takes as one thread."""
    return row[f"{kind}_{name}_default"] / row[f"{kind}_{name}_1"]


def faults(row: dict[str, Any]) -> list[str]:
    """Return what a row says against the build."""
    place = f"{row['case']} beside {row['load']}"
    if row["load"] != "idle":
        ratios = {kind: ratio(row, "new", kind) for kind in KINDS}
        return [f"{place}: {kind} {r:.2f}" for kind, r in ratios.items() if r > MAX_BUSY_RATIO]
    old = row.get("seconds_old_default")
    slower = old is not None and row["seconds_new_default"] > MAX_IDLE_RATIO * old
    return [f"{row['case']}: slower than the old build on an idle machine"] if slower else []


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest ratios beside a load, and whether they are small enough."""
    loaded = [row for row in rows if row["load"] != "idle"]
    return [
        report.aim(f"{kind} under load, default / one thread, most", most, MAX_BUSY_RATIO, below=True)
        for kind in KINDS
        if (most := max((ratio(row, "new", kind) for row in loaded), default=None)) is not None
    ]


def show(row: dict[str, Any], names: list[str]) -> None:
    """Print a row."""
    parts = [f"{row['case']:26} {row['load']:9}"]
    for name in names:
        one, default = (1e3 * row[f"seconds_{name}_{threads}"] for threads in ("1", "default"))
        ratios = " ".join(f"{ratio(row, name, kind):6.2f}" for kind in KINDS)
        parts.append(f"{name} {one:8.1f} {default:8.1f} ms {ratios}")
    print(" | ".join(parts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, help="folder with the package of another build")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=LOADS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="only cases whose names have this in them")
    parser.add_argument("--out", default=report.RESULTS / "busy.json")
    options = parser.parse_args()
    folders = {"new": Path(bmrm.__file__).parents[1]}
    if options.old:
        folders["old"] = options.old.absolute()
    print("case, load | build: ms on one thread and by default, the ratio by the clock and of processors")
    rows = []
    for case in CASES:
        if options.only in case:
            for load in options.loads:
                rows.append(measure(case, load, folders, options.rounds))
                show(rows[-1], list(folders))
    old = f"commit {commit_of(options.old)}" if options.old and commit_of(options.old) else "an earlier build"
    old = old if options.old else None
    report.write(options.out, SECTIONS, old=old, rounds=options.rounds, rows=rows, aims=aims(rows))
    if found := [fault for row in rows for fault in faults(row)]:
        raise SystemExit("; ".join(found))


if __name__ == "__main__":
    main()
