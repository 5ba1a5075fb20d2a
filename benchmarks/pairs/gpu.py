"""Counts of pairs on a GPU, exact, against plain kernels in float32, PyTorch and our own CPU.

    python -m benchmarks.pairs.gpu [--points N] [--many N] [--out FILE]

Points are uniform in a cube and on the GPU before. A time is the least of some calls between two events;
ours includes the wait for the counts. Rates are of pairs i < j; plain kernels go over pairs i, j and j, i,
and both count there. The plain histogram has a table per block in shared memory and one atomic operation per
pair, the plain count four rows per thread in registers. Neither is exact. PyTorch takes `cdist` of blocks of
rows, then `histc`. Our counts by float32 are compared with those of the kernel in float64.

"All pairs" is a radius that leaves no pair of tiles out; with a short one, ours skips those beyond it.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing, report
from benchmarks.pairs import gpu_kernels as kernels
from bmrm.pairs import Points, histogram

DIAGONAL = float(np.sqrt(3.0))
BINS = (10, 100, 200, 1000, 5000, 20_000, 100_000)
RADII = (0.1, 1.0)
TORCH_ROWS = 2000
AIMS = {100: 1.6, 5000: 1.0}
COUNT_AIM, TORCH_AIM, FLOAT64_AIM, SMALL_SECONDS, CPU_AIM = 1.0, 25.0, 0.7e12, 0.1, 10.0

SECTIONS = """
## Pairs of points on a GPU

{device[name]}. {points:,} points in a cube, all distances. Pairs per second.

[histograms]
bins = {bins:,} | plain, float32 = {plain:.3g} | ours, exact = {ours:.3g} |
times faster = {times_faster:.2f} | decided in float64 = {rechecked:.1e}

Counts within a radius, of all pairs considered, and the kernel in float64.

[counts]
radius = {radius:g} | plain, float32 = {plain:.3g} | ours, exact = {ours:.3g} |
times faster = {times_faster:.2f}

[aims]
"""


def rate(n: int, seconds: float) -> float:
    """Return the pairs per second."""
    return n * (n - 1) / 2 / seconds


def measure_histogram(
    n: int, bins: int, ours: kernels.Ours, paper: kernels.Paper, x: cp.ndarray
) -> dict[str, Any]:
    """Compare a histogram of all distances; of the plain kernel only what fits into shared memory."""
    edges = np.linspace(0.0, DIAGONAL, bins + 1)
    seconds = kernels.least_seconds(ours.call(edges, "brute"))
    counter = ours.counter(edges, "brute")
    counts, candidates, rechecked = counter.count(0, counter.tasks)
    assert counts.sum() == n * (n - 1) // 2, "pairs are lost"
    found: dict[str, Any] = {"bins": bins, "ours": rate(n, seconds), "rechecked": rechecked / candidates}
    found |= {"plain": None, "times_faster": None}
    if 4 * bins + 8192 < kernels.SHARED_BYTES:
        plain = kernels.least_seconds(paper.plain(x, bins / DIAGONAL, bins, output=kernels.PRIVATE))
        found["plain"] = 2 * rate(n, plain)
        found["times_faster"] = found["ours"] / found["plain"]
    return found


def measure_count(
    n: int, radius: float, ours: kernels.Ours, paper: kernels.Paper, x: cp.ndarray
) -> dict[str, Any]:
    """Compare the number of pairs within a radius."""
    seconds = kernels.least_seconds(ours.call([0.0, radius], "brute"))
    plain = kernels.least_seconds(paper.plain(x, radius**2, 1, output=kernels.COUNT))
    found, peer = rate(n, seconds), 2 * rate(n, plain)
    return {"radius": radius, "ours": found, "plain": peer, "times_faster": found / peer}


def torch_rate(x: cp.ndarray, bins: int) -> float:
    """Return the pairs i < j per second of PyTorch, by some blocks of rows."""
    import torch

    points = torch.from_dlpack(cp.ascontiguousarray(x.T))
    n = len(points)

    def run() -> object:
        d = torch.cdist(points[:TORCH_ROWS], points, compute_mode="donot_use_mm_for_euclid_dist")
        return torch.histc(d, bins, 0.0, DIAGONAL)

    run()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(5):
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return float(min(TORCH_ROWS, n) * n / 2 / min(times))


def measure_small(n: int) -> dict[str, Any]:
    """Count the pairs within 1 % of a periodic box, on the GPU and on this machine's cores."""
    x = np.random.default_rng(1).random((n, 3))
    edges = np.linspace(0.0, 0.01, 21)
    seconds: dict[str, float] = {}
    counts = {}
    for device, calls in (("cuda", 5), ("cpu", 2)):
        points = Points(x, box=1.0, device=device)
        for _ in range(calls):
            start = time.perf_counter()
            counts[device] = histogram(points, edges=edges, plan="cells").counts
            seconds[device] = min(seconds.get(device, np.inf), time.perf_counter() - start)
    np.testing.assert_array_equal(counts["cuda"], counts["cpu"])
    return {"points": n, "seconds": seconds, "times_faster": seconds["cpu"] / seconds["cuda"]}


def check(ours: kernels.Ours, bins: int) -> float:
    """Compare the counts of float32 and float64; return the pairs per second of float64."""
    edges = np.linspace(0.0, DIAGONAL, bins + 1)
    exact, fast = ours.counter(edges, "float64"), ours.counter(edges, "brute")
    exact.count(0, 1)
    start = time.perf_counter()
    expected = exact.count(0, exact.tasks)[0]
    seconds = time.perf_counter() - start
    np.testing.assert_array_equal(fast.count(0, fast.tasks)[0], expected)
    return rate(ours.points.n, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--many", type=int, default=10_000_000, help="points of the periodic box")
    parser.add_argument("--out", default=str(report.RESULTS / "pairs_gpu.json"))
    options = parser.parse_args()
    n = options.points
    given, x = kernels.uniform(n)
    ours, paper, four = kernels.Ours(given), kernels.Paper(), kernels.by_points(x)
    histograms = [measure_histogram(n, bins, ours, paper, four) for bins in BINS]
    counts = [measure_count(n, radius, ours, paper, four) for radius in RADII]
    float64, torch = check(ours, 100), torch_rate(x, 100)
    small = measure_small(options.many)
    by_bins = {each["bins"]: each for each in histograms}
    aims = [
        report.aim(f"{bins} bins over the plain kernel", by_bins[bins]["times_faster"], bound)
        for bins, bound in AIMS.items()
    ]
    aims += [
        report.aim("counts within a radius over the plain kernel", counts[-1]["times_faster"], COUNT_AIM),
        report.aim("100 bins over PyTorch", by_bins[100]["ours"] / torch, TORCH_AIM),
        report.aim("pairs per second in float64", float64, FLOAT64_AIM),
        report.aim(
            "seconds within 1 % of the box", small["seconds"]["cuda"], SMALL_SECONDS, " s", below=True
        ),
        report.aim("within 1 % of the box over the CPU", small["times_faster"], CPU_AIM),
    ]
    for each in aims:
        print(report.line(each))
    report.write(
        options.out,
        SECTIONS,
        device=gpu_timing.device(),
        points=n,
        histograms=histograms,
        counts=counts,
        float64=float64,
        torch=torch,
        small=small,
        aims=aims,
    )


if __name__ == "__main__":
    main()
