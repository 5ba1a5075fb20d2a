"""Functions of two points on a GPU, against our kernels that are written by hand.

    python -m benchmarks.pairs.statistics_gpu [--points N] [--out FILE]

Points are uniform in a cube, in float32, and on the GPU before. Times are the least of some calls that take
turns, each to the end of its results in main memory; a first one, which compiles, is not counted. The sums of
terms of a kernel density, over all pairs of points, are compared with the kernel of `bmrm.pairs.kde`; the
histogram of all distances with that of `bmrm.pairs.histogram`, which is exact in float64. The energies of
Lennard-Jones have no such kernel.
"""

# ruff: noqa: F821 (sizes are names in quotes)

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing, report
from benchmarks.pairs import gpu_kernels
from benchmarks.pairs.kde_gpu import AXES, H, sums_of
from bmrm.pairs import Points, exp, sqrt, squared_distance, statistic

BINS = 100
DIAGONAL = float(np.sqrt(3.0))
ROUNDS, LONG_SECONDS = (2, 20), 4.0
AIMS = {"density": 0.6, "histogram": 0.4}

SECTIONS = """
## Functions of two points on a GPU

{device[name]}. {points:,} points in a cube, in float32. Pairs per second, in units of 1e12: of a result of
each x all pairs of points x and y, of the histogram those with x before y. Our own kernels of the same are
written by hand.

[rates]
function = {function} | statistic = {statistic:.3f T} | our kernel = {kernel:.3f T} |
share = {share:.2f}

[aims]
"""


@statistic
def density(x, y, h, total: rows):  # type: ignore
    """Add a term of the Gaussian kernel."""
    total[x.index] += exp(-squared_distance(x, y) / (2 * h * h))


@statistic
def distances(x, y, scale, count: bins):  # type: ignore
    """Count a pair by its distance."""
    count[min(int(sqrt(squared_distance(x, y)) * scale), len(count) - 1)] += 1


@statistic
def lennard_jones(x, y, energy: rows):  # type: ignore
    """Add the energy of a pair, without its factor 4."""
    s6 = 1 / squared_distance(x, y) ** 3
    energy[x.index] += s6 * s6 - s6


def measure(name: str, pairs: float, calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Measure a function, and our kernel of the same if there is one."""
    seconds = gpu_timing.least_seconds(calls, ROUNDS, LONG_SECONDS)
    rates = {who: pairs / seconds[who] for who in calls}
    share = rates["statistic"] / rates["kernel"] if "kernel" in rates else None
    found = {"function": name, "seconds": seconds, "statistic": rates["statistic"]}
    return found | {"kernel": rates.get("kernel"), "share": share}


def measure_all(n: int) -> list[dict[str, Any]]:
    """Measure all functions; their results are compared with those of the kernels."""
    x = np.random.default_rng(0).random((n, AXES), np.float32)
    points = Points(cp.asarray(x))
    kernel_sums = sums_of(x)
    np.testing.assert_allclose(density(points, h=H).total + 1.0, kernel_sums(), rtol=1e-5)
    edges = np.linspace(0.0, DIAGONAL, BINS + 1)
    counts = gpu_kernels.Ours(np.ascontiguousarray(x.T.astype(np.float64))).call(edges, "brute")
    scale = np.float32(BINS / DIAGONAL)
    found, exact = distances(points, scale=scale, bins=BINS).count, counts()[0]
    assert found.sum() == n * (n - 1) // 2
    assert abs(found - exact).max() < 1e-4 * exact.max()
    return [
        measure(
            "density",
            float(n) * n,
            {"statistic": lambda: density(points, h=H).total, "kernel": kernel_sums},
        ),
        measure(
            "histogram",
            n * (n - 1) / 2,
            {"statistic": lambda: distances(points, scale=scale, bins=BINS).count, "kernel": counts},
        ),
        measure("energies", float(n) * n, {"statistic": lambda: lennard_jones(points).energy}),
    ]


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--out", default=report.RESULTS / "pairs_statistics_gpu.json")
    options = parser.parse_args()
    rates = measure_all(options.points)
    for row in rates:
        print(f"{row['function']}: {row['statistic']:.3g} pairs/s, kernel {row['kernel'] or 0.0:.3g}")
    aims = [
        report.aim(f"statistic / our kernel, {row['function']}", row["share"], AIMS[row["function"]])
        for row in rates
        if row["function"] in AIMS
    ]
    for each in aims:
        print(report.line(each))
    numbers = {"points": options.points, "rates": rates, "aims": aims}
    report.write(options.out, SECTIONS, device=gpu_timing.device(), **numbers)


if __name__ == "__main__":
    main()
