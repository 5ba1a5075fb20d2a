"""Pairs of points on the CPU: histograms of all distances, and pairs within a radius, against other programs.

    OMP_NUM_THREADS=1 python -m benchmarks.pairs.cpu [--out FILE]

All of it runs on one thread. A time is processor time of the process, the least of some calls that take
turns, so that other programs on the machine matter less; ours includes reading and sorting the points.
Programs of which a call takes long get fewer points, and the time per pair counts. Corrfunc, TreeCorr and
CADISHI are left out if they are not installed. Our counts are compared with those of the kernel in float64
each time, and of few points with NumPy's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from bmrm import pairs

ALL, FEW, PERIODIC, PERIODIC_FEW = 50_000, 10_000, 200_000, 50_000
RADIUS, RADIUS_BINS = 0.1, 20
BINS = (20, 100, 200, 1000, 10_000)
SETS = ("avx512", "avx2", "baseline")
REPEATS = 3

SECTIONS = """
## Pairs of points on the CPU
headline: distances of points, one thread | CADISHI in float32 | all | ns[cadishi]/ns[ours] | {machine[cpu]}

NumPy {versions[numpy]}, SciPy {versions[scipy]}, Numba {versions[numba]}, Corrfunc {versions[corrfunc]},
TreeCorr {versions[treecorr]}. Minimum processor time of one thread, ours with reading and sorting the points.
Our counts are exact, and those of NumPy.

All distances of {sizes[all]} uniform points in a cube, 100 bins; SciPy's `pdist` and `np.histogram` with
{sizes[few]} points. Nanoseconds per pair. CADISHI and Numba count in float32.

[all]
bins = {bins} | bmrm ns = {ns[ours]:.3f} | SciPy and NumPy ns = {ns[scipy]:.3g} |
Numba, float32, ns = {ns[numba]:.3g} | CADISHI, single, ns = {ns[cadishi]:.3g}

[bins]
bins = {bins} | s = {seconds:.3f} | of 100 bins = {of_100:.2f} | share decided in float64 = {rechecked:.1e}

[sets]
instruction set = {name} | all distances s = {seconds[brute]:.3f} |
pairs within a radius s = {seconds[cells]:.3f}

Pairs within a tenth of a periodic cube, {sizes[radius_bins]} bins. Corrfunc counts in float64.

[periodic]
points = {points} | bmrm s = {seconds[ours]:.3g} | Corrfunc s = {seconds[corrfunc]:.3g} |
cKDTree.count_neighbors s = {seconds[scipy]:.3g} | TreeCorr, bin_slop=0, s = {seconds[treecorr]:.3g}

[aims]
"""


def cube(n: int) -> Any:
    """Return uniform points of the unit cube."""
    return np.random.default_rng(0).random((n, 3))


def all_edges(bins: int) -> Any:
    """Return edges of bins over all distances in the unit cube."""
    return np.linspace(0.0, np.sqrt(3.0), bins + 1)


def all_distances(x: Any, bins: int, plan: str = "brute") -> pairs.Histogram:
    """Return our histogram of all distances."""
    return pairs.histogram(x, edges=all_edges(bins), plan=plan, device="cpu", threads=1)


def near_pairs(x: Any, plan: str = "cells") -> pairs.Histogram:
    """Return our histogram of the distances within the radius in a periodic cube."""
    points = pairs.Points(x, box=1.0, device="cpu", threads=1)
    return pairs.histogram(points, edges=np.linspace(0.0, RADIUS, RADIUS_BINS + 1), plan=plan)


@numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
def loop(x: Any, y: Any, z: Any, bins: int, scale: Any) -> Any:
    """Count the distances of all pairs, as one writes it."""
    counts = np.zeros(bins + 1, np.int64)
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            square = (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + (z[i] - z[j]) ** 2
            counts[int(np.sqrt(square) * scale)] += 1
    return counts


def numba_loop(x: Any, bins: int) -> Callable[[], Any]:
    """Return Numba's loop in float32, compiled."""
    axes = [np.ascontiguousarray(x[:, k], np.float32) for k in range(3)]
    scale = np.float32(bins / np.sqrt(3.0))
    loop(*(axis[:10] for axis in axes), bins, scale)
    return lambda: loop(*axes, bins, scale)


def measure_all() -> dict[str, Any]:
    """Measure the histogram of all distances, per pair."""
    x, few, bins = cube(ALL), cube(FEW), 100
    calls = {"ours": lambda: all_distances(x, bins), "numba": numba_loop(x, bins)}
    if cadishi := report.optional("cadishi.kernel.pydh"):
        calls["cadishi"] = lambda: cadishi.histograms([x], float(all_edges(bins)[-1]), bins)
    calls["scipy"] = lambda: np.histogram(pdist(few), all_edges(bins))
    found = all_distances(x, bins)
    assert (found.counts == all_distances(x, bins, "float64").counts).all()
    assert (all_distances(few, bins).counts == np.histogram(pdist(few), all_edges(bins))[0]).all()
    seconds = least_seconds(calls, REPEATS)
    few_pairs = FEW * (FEW - 1) / 2
    ns = {who: 1e9 * s / (few_pairs if who == "scipy" else found.pairs) for who, s in seconds.items()}
    return {"bins": bins, "seconds": seconds, "ns": ns}


def measure_bins() -> list[dict[str, Any]]:
    """Measure how the number of bins matters."""
    x = cube(ALL)
    found = {bins: all_distances(x, bins) for bins in BINS}
    for bins in BINS:
        assert (all_distances(x[:FEW], bins).counts == all_distances(x[:FEW], bins, "float64").counts).all()
    seconds = least_seconds({str(bins): lambda bins=bins: all_distances(x, bins) for bins in BINS}, REPEATS)
    return [
        {
            "bins": bins,
            "seconds": seconds[str(bins)],
            "of_100": seconds[str(bins)] / seconds["100"],
            "rechecked": found[bins].rechecked,
        }
        for bins in BINS
    ]


def own_seconds() -> dict[str, float]:
    """Return the times of our kernels, by the instruction set of this process."""
    x, y = cube(ALL), cube(PERIODIC)
    all_distances(x[:FEW], 100), near_pairs(y[:FEW])
    return least_seconds({"brute": lambda: all_distances(x, 100), "cells": lambda: near_pairs(y)}, REPEATS)


def measure_sets() -> list[dict[str, Any]]:
    """Measure each instruction set, in processes of their own that take turns."""
    found: dict[str, dict[str, float]] = {}
    for name in SETS * 2:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.pairs.cpu", "--own-seconds"],
            env={**os.environ, "BMRM_CPU_ISA": name},
            capture_output=True,
            text=True,
            check=True,
        )
        seconds = json.loads(done.stdout)
        found[name] = {key: min(s, found.get(name, seconds)[key]) for key, s in seconds.items()}
    return [{"name": name, "seconds": found[name]} for name in SETS]


def measure_periodic(n: int, *, trees: bool) -> dict[str, Any]:
    """Measure pairs within the radius; ``trees`` asks TreeCorr instead of Corrfunc."""
    x, edges = cube(n), np.linspace(0.0, RADIUS, RADIUS_BINS + 1)
    found = near_pairs(x)
    tree = cKDTree(x, boxsize=1.0)
    within = (tree.count_neighbors(tree, edges[1:]) - n) // 2
    assert (np.cumsum(found.counts) == within).all()
    seconds = least_seconds({"scipy": lambda: cKDTree(x, boxsize=1.0).count_neighbors(tree, edges[1:])}, 1)
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: near_pairs(x)}
    if not trees and (corrfunc := report.optional("Corrfunc.theory.DD")):
        # Its least edge is above 0.
        bins = np.concatenate([[1e-10], edges[1:]])
        calls["corrfunc"] = lambda: corrfunc.DD(1, 1, bins, *x.T, periodic=True, boxsize=1.0, verbose=False)
    if trees and (treecorr := report.optional("treecorr")):
        catalogue = treecorr.Catalog(x=x[:, 0], y=x[:, 1], z=x[:, 2])
        words = {"bin_type": "Linear", "min_sep": 0, "max_sep": RADIUS, "nbins": RADIUS_BINS}
        counts = treecorr.NNCorrelation(**words, bin_slop=0, metric="Periodic", period=1.0, num_threads=1)
        calls["treecorr"] = lambda: counts.process(catalogue)
    return {"points": n, "seconds": seconds | least_seconds(calls, REPEATS)}


def aims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what is asked."""
    found, ns = [], numbers["all"][0]["ns"]
    for who, name, bound in (("scipy", "SciPy", 25), ("numba", "Numba", 7), ("cadishi", "CADISHI", 2.3)):
        if who in ns:
            found.append(report.aim(f"{name} / bmrm, all distances", ns[who] / ns["ours"], bound))
    bins = {row["bins"]: row["of_100"] for row in numbers["bins"]}
    found.append(report.aim("1,000 bins / 100 bins", bins[1000], 1.7, below=True))
    found.append(report.aim("10,000 bins / 100 bins", bins[10_000], 3.5, below=True))
    sets = {row["name"]: row["seconds"] for row in numbers["sets"]}
    for key, what in (("brute", "all distances"), ("cells", "pairs within a radius")):
        found.append(report.aim(f"AVX-512 / AVX2, {what}", sets["avx512"][key] / sets["avx2"][key], 0.35))
    for row in numbers["periodic"]:
        wanted = {"treecorr": 20} if row["points"] != PERIODIC else {"corrfunc": 5, "scipy": 60}
        for who in [who for who in wanted if who in row["seconds"]]:
            name = f"{who} / bmrm, {row['points']} points within a radius"
            found.append(report.aim(name, row["seconds"][who] / row["seconds"]["ours"], wanted[who]))
    found.append(report.aim("1,000 points, 100 bins", numbers["small_ms"], 1.0, " ms", below=True))
    return found


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "pairs_cpu.json")
    parser.add_argument("--own-seconds", action="store_true", help="print only the times of our kernels")
    options = parser.parse_args()
    if options.own_seconds:
        print(json.dumps(own_seconds()))
        return
    small = cube(1000)
    numbers: dict[str, Any] = {
        "sizes": {"all": ALL, "few": FEW, "radius_bins": RADIUS_BINS},
        "small_ms": 1e3 * least_seconds({"ours": lambda: all_distances(small, 100)}, 50)["ours"],
        "all": [measure_all()],
        "bins": measure_bins(),
        "sets": measure_sets(),
        "periodic": [measure_periodic(PERIODIC, trees=False), measure_periodic(PERIODIC_FEW, trees=True)],
    }
    numbers["aims"] = aims(numbers)
    for aim in numbers["aims"]:
        print(report.line(aim))
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "numba": numba.__version__}
    for name in ("Corrfunc", "treecorr"):
        versions[name.lower()] = report.version(name)
    report.write(options.out, SECTIONS, versions=versions, **numbers)


if __name__ == "__main__":
    main()
