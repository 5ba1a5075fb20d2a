"""Functions of two points on the CPU, against Numba, PyKeOps and NumPy.

    OMP_NUM_THREADS=1 python -m benchmarks.pairs.statistics [--out FILE]

All of it runs on one thread, in float32 but for the join. A time is processor time of the process, the least
of some calls that take turns, after a first one that compiles. That first one is measured in a process of its
own with empty caches, and counts its compilers. PyKeOps is left out if it is not installed.
"""

# ruff: noqa: F821 (sizes are names in quotes)

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from benchmarks.pairs.cpu import all_edges, cube, loop
from bmrm.pairs import Points, histogram, sqrt, squared_distance, statistic

SUMS, BINNED, JOINED, WANTED, BINS, REPEATS = 20_000, 20_000, 100_000, 1_000_000, 100, 3
BLOCK_ROWS = 100
"""Rows of a block of NumPy's join, which then stays in a cache."""

SECTIONS = """
## Functions of two points on the CPU
headline: Lennard-Jones energies, one thread | Numba | sums | seconds[numba]/seconds[ours] | {machine[cpu]}

NumPy {versions[numpy]}, Numba {versions[numba]}, PyKeOps {versions[pykeops]}. Minimum processor time of
one thread, in float32 except for the join. Lennard-Jones energies of {sizes[sums]} points with as many
others; ours are summed in float64.

[sums]
bmrm s = {seconds[ours]:.3f} | Numba s = {seconds[numba]:.3f} | PyKeOps s = {seconds[keops]:.3f}

A histogram of all distances of {sizes[binned]} points in {sizes[bins]} bins.

[bins]
statistic s = {seconds[ours]:.3f} | Numba s = {seconds[numba]:.3f} | pairs.histogram s = {seconds[exact]:.3f}

Pairs of two sets of {sizes[joined]} rows with similar prices: NumPy compares a block of rows with all
others at a time; ours visits all pairs, or uses the price as a coordinate with a reach.

[join]
results = {results} | bmrm, all pairs, s = {seconds[all]:.3f} | bmrm, reach, s = {seconds[ours]:.3f} |
NumPy s = {seconds[numpy]:.3f}

The first call of the energies of 1000 points, with its compilation.

[first]
bmrm s = {seconds[ours]:.2f} | Numba s = {seconds[numba]:.2f} | PyKeOps s = {seconds[keops]:.2f}

[aims]
"""


@statistic
def lennard_jones(x, y, energy: rows):  # type: ignore
    """Add the energy of a pair, without its factor 4."""
    s6 = 1 / squared_distance(x, y) ** 3
    energy[x.index] += s6 * s6 - s6


@statistic
def distances(x, y, scale, count: bins):  # type: ignore
    """Count a pair by its distance."""
    count[min(int(sqrt(squared_distance(x, y)) * scale), len(count) - 1)] += 1


@statistic
def near_prices(x, y, width, change: float):  # type: ignore
    """Keep the difference of two prices that are near."""
    if abs(x[0] - y[0]) <= width:
        change[x.index, y.index] = y[0] - x[0]


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def energies(x: Any, y: Any) -> Any:
    """Return the energy of each x, as one writes it."""
    found = np.zeros(x.shape[1], np.float32)
    for i in range(x.shape[1]):
        total = np.float32(0)
        for j in range(y.shape[1]):
            square = (x[0, i] - y[0, j]) ** 2 + (x[1, i] - y[1, j]) ** 2 + (x[2, i] - y[2, j]) ** 2
            s6 = np.float32(1) / (square * square * square)
            total += s6 * s6 - s6
        found[i] = total
    return found


def keops_energies(x: Any, y: Any) -> Callable[[], Any]:
    """Return the energies by PyKeOps."""
    from pykeops.numpy import LazyTensor

    s6 = 1 / ((LazyTensor(x[:, None, :]) - LazyTensor(y[None, :, :])) ** 2).sum(-1) ** 3
    return lambda: (s6 * s6 - s6).sum(axis=1)


def energy_calls(n: int) -> dict[str, Callable[[], Any]]:
    """Return calls for the energies of n points with n others."""
    rng = np.random.default_rng(0)
    x, y = (10 * rng.random((2, n, 3))).astype(np.float32)
    a, b = (Points(each, device="cpu", threads=1) for each in (x, y))
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: lennard_jones(a, b).energy,
        "numba": lambda: energies(np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)),
    }
    if report.optional("pykeops"):
        calls["keops"] = keops_energies(x, y)
    return calls


def measure_sums() -> dict[str, Any]:
    """Measure the energies."""
    calls = energy_calls(SUMS)
    found = {who: np.ravel(call()) for who, call in calls.items()}
    assert all(np.allclose(each, found["ours"], rtol=1e-3) for each in found.values())
    return {"seconds": least_seconds(calls, REPEATS)}


def measure_bins() -> dict[str, Any]:
    """Measure the histogram of all distances."""
    x = cube(BINNED).astype(np.float32)
    axes, scale = [np.ascontiguousarray(axis) for axis in x.T], np.float32(BINS / np.sqrt(3.0))
    points = Points(x, device="cpu", threads=1)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: distances(points, scale=scale, bins=BINS).count,
        "numba": lambda: loop(*axes, BINS, scale),
        "exact": lambda: histogram(points, edges=all_edges(BINS)).counts,
    }
    found = {who: call()[:BINS] for who, call in calls.items()}
    assert all(abs(each - found["exact"]).max() < 1e-3 * found["exact"].max() for each in found.values())
    return {"seconds": least_seconds(calls, REPEATS)}


def numpy_join(x: Any, y: Any, width: float) -> int:
    """Join by comparing some rows with all at a time."""
    parts = []
    for first in range(0, len(x), BLOCK_ROWS):
        difference = y - x[first : first + BLOCK_ROWS, None]
        i, j = np.nonzero(np.abs(difference) <= width)
        parts.append((first + i, j, difference[i, j]))
    return sum(len(each) for each, *_ in parts)


def measure_join() -> dict[str, Any]:
    """Measure the join of rows with near prices."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, JOINED))
    width = WANTED / (2.0 * JOINED * JOINED)
    a, b = (Points(each[:, None], device="cpu", threads=1) for each in (x, y))
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: near_prices(a, b, width=width, reach=2 * width).change.nnz,
        "all": lambda: near_prices(a, b, width=width).change.nnz,
        "numpy": lambda: numpy_join(x, y, width),
    }
    found = {call() for call in calls.values()}
    assert len(found) == 1
    return {"results": found.pop(), "seconds": least_seconds(calls, 1)}


def first_call(who: str) -> None:
    """Print the processor time of a first call, with that of the compilers that it starts."""
    call = energy_calls(1000)[who]
    before = sum(os.times()[:4])
    call()
    print(sum(os.times()[:4]) - before)


def measure_first() -> dict[str, Any]:
    """Measure first calls, each in a process of its own."""
    seconds = {}
    for who in ("ours", "numba", *(["keops"] if report.optional("pykeops") else [])):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.pairs.statistics", "--first", who],
                env={**os.environ, "XDG_CACHE_HOME": empty, "KEOPS_CACHE_FOLDER": empty},
                capture_output=True,
                text=True,
                check=True,
            )
        seconds[who] = float(done.stdout.split()[-1])
    return {"seconds": seconds}


def aims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what is asked."""
    found = []
    for section, who, name, bound in (
        ("sums", "numba", "Numba / bmrm, energies", 3.0),
        ("sums", "keops", "PyKeOps / bmrm, energies", 15.0),
        ("bins", "numba", "Numba / bmrm, histogram", 1.3),
        ("join", "numpy", "NumPy / bmrm, join", 20.0),
    ):
        seconds = numbers[section][0]["seconds"]
        if who in seconds:
            found.append(report.aim(name, seconds[who] / seconds["ours"], bound))
    first = numbers["first"][0]["seconds"]["ours"]
    return [*found, report.aim("first call", first, 1.0, " s", below=True)]


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "pairs_statistics.json")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        return first_call(options.first)
    numbers: dict[str, Any] = {
        "sizes": {"sums": SUMS, "binned": BINNED, "bins": BINS, "joined": JOINED},
        "sums": [measure_sums()],
        "bins": [measure_bins()],
        "join": [measure_join()],
        "first": [measure_first()],
    }
    numbers["aims"] = aims(numbers)
    for aim in numbers["aims"]:
        print(report.line(aim))
    versions = {module.__name__: module.__version__ for module in (np, numba)}
    versions["pykeops"] = report.version("pykeops")
    report.write(options.out, SECTIONS, versions=versions, **numbers)


if __name__ == "__main__":
    main()
