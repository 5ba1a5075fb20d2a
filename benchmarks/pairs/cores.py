"""Pairs of points on one core and on more: how the time falls.

    python -m benchmarks.pairs.cores [--out FILE]

A time is wall time, the least of some calls that take turns, so nothing else should run on the machine.
Counts are compared between numbers of threads each time. "Apart" is what the machine gives at most: as many
calls at once as it has cores, each on a thread of its own, against one alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from benchmarks.pairs.cpu import RADIUS, RADIUS_BINS, all_edges, cube
from bmrm import pairs
from bmrm.base.threads import usable_cores

ALL, PERIODIC, BINS, REPEATS = 100_000, 400_000, 100, 3

SECTIONS = """
## Pairs of points on one core and on {count}

{cores}. Least wall time of {sizes[repeats]} calls, sorting included: all distances of {sizes[all]} uniform
points, {sizes[bins]} bins, and pairs within a tenth of a periodic cube of {sizes[periodic]} points.

[rows]
pairs = {what} | threads = {threads} | s = {seconds:.4f} | times one thread = {speedup:.2f} |
calls apart, times one = {apart:.2f}

[aims]
"""


def cores() -> str:
    """Say how many cores this process may use, and how many of them share one with another."""
    found = {
        path.read_text()
        for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    }
    usable = usable_cores()
    if not found or len(found) >= usable:
        return f"{usable} cores, as the system counts them"
    return f"{usable} hardware threads of {len(found)} cores"


def measure(what: str, call: Callable[[int], pairs.Histogram]) -> list[dict[str, Any]]:
    """Measure a count on 1, 2, 4, ... threads and on all."""
    usable = usable_cores()
    numbers = sorted({usable, *(1 << k for k in range(usable.bit_length()))})
    counts = [call(threads).counts for threads in numbers]
    assert all((found == counts[0]).all() for found in counts)
    calls: dict[str, Callable[[], Any]] = {
        str(threads): lambda threads=threads: call(threads) for threads in numbers
    }
    with ThreadPoolExecutor(usable) as pool:
        calls["apart"] = lambda: list(pool.map(call, [1] * usable))
        seconds = least_seconds(calls, REPEATS, time.perf_counter)
    return [
        {
            "what": what,
            "threads": threads,
            "seconds": seconds[str(threads)],
            "speedup": seconds["1"] / seconds[str(threads)],
            "apart": usable * seconds["1"] / seconds["apart"] if threads == usable else None,
        }
        for threads in numbers
    ]


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "pairs_cores.json")
    options = parser.parse_args()
    x, y, edges = cube(ALL), cube(PERIODIC), np.linspace(0.0, RADIUS, RADIUS_BINS + 1)

    def all_pairs(threads: int) -> pairs.Histogram:
        return pairs.histogram(x, edges=all_edges(BINS), device="cpu", threads=threads)

    def near(threads: int) -> pairs.Histogram:
        points = pairs.Points(y, box=1.0, device="cpu", threads=threads)
        return pairs.histogram(points, edges=edges)

    rows = [*measure("all distances", all_pairs), *measure("within a radius", near)]
    bounds = {2: 1.7, 16: 10.0}
    aims = [
        report.aim(f"{row['what']}, {row['threads']} threads / one", row["speedup"], bounds[row["threads"]])
        for row in rows
        if row["threads"] in bounds
    ]
    for row in rows:
        print("{what}, {threads} threads: {seconds:.4f} s, {speedup:.2f}, {apart}".format(**row))
    for aim in aims:
        print(report.line(aim))
    sizes = {"all": ALL, "periodic": PERIODIC, "bins": BINS, "repeats": REPEATS}
    words = {"sizes": sizes, "cores": cores(), "count": usable_cores()}
    report.write(options.out, SECTIONS, **words, rows=rows, aims=aims)


if __name__ == "__main__":
    main()
