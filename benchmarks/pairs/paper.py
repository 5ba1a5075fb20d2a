"""The figures of a paper on two-body statistics drawn again on today's GPU, ours beside them.

    python -m benchmarks.pairs.paper [--most N] [--ncu] [--out FILE]

Pitaksirianan, Nouri and Tu, "Efficient 2-body statistics computation on GPUs". paper.cu has its kernels:
counts within a radius (2-PCF, Figure 2), distance histograms (SDH, Figure 4) with and without a private
output, over the number of bins (Figure 5), the triangle within blocks with and without balancing (Figures 6
and 7), tiling by shuffles (Figure 9), and rates of the memories (Tables II to IV). Blocks have 1024 threads.

A time is the least of some calls between two events, for kernels of more than half a second that of one or a
few calls; sizes at which a kernel would take longer than LONGEST_SECONDS are left out. The rates of a memory
are those of the bytes that a kernel asks for. With ``--ncu`` NVIDIA's profiler measures utilisation, if the
machine has it and allows it. The paper's kernels compute in float32 and are not exact; ours are.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import gpu_timing, report
from benchmarks.pairs import gpu_kernels as kernels
from benchmarks.pairs.gpu_kernels import ALL, COUNT, GLOBAL, PRIVATE, WITHIN_BLOCKS

DIAGONAL = float(np.sqrt(3.0))
RADIUS, BINS, THREADS = 0.1, 256, 1024
LONGEST_SECONDS = 2.0
SIZES = (512, 2048, 8192, 32_768, 131_072, 524_288, 1_000_000, 2_000_000)
FIXED_POINTS = 512_000
BIN_NUMBERS = (10, 32, 100, 256, 1000, 2048, 4096, 8192, 16_384, 32_768, 50_000, 65_536)
PROFILED_POINTS = 262_144
COUNTS = {
    "naive": kernels.NAIVE,
    "SHM-SHM": kernels.SHM_SHM,
    "Register-SHM": kernels.REGISTER_SHM,
    "Register-ROC": kernels.REGISTER_ROC,
}
HISTOGRAMS = {
    "Register-SHM": (kernels.REGISTER_SHM, GLOBAL),
    "Naive-Out": (kernels.NAIVE, PRIVATE),
    "Reg-SHM-Out": (kernels.REGISTER_SHM, PRIVATE),
    "Reg-ROC-Out": (kernels.REGISTER_ROC, PRIVATE),
    "shuffle": (kernels.SHUFFLE, PRIVATE),
}
# Bytes that a pair reads from shared memory and by the read-only path: its column, and its row of SHM-SHM.
PAIR_BYTES = {"SHM-SHM": (24, 0), "Register-SHM": (12, 0), "Register-ROC": (0, 12)}
PAIR_BYTES |= {"Reg-SHM-Out": (12, 0), "Reg-ROC-Out": (0, 12), "Naive-Out": (0, 0), "shuffle": (0, 0)}
ATOMIC_BYTES = 8  # read and written in a table in shared memory
METRICS = {
    "arithmetic": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "issue": "sm__issue_active.avg.pct_of_peak_sustained_active",
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
}

SECTIONS = """
## The kernels of a paper on two-body statistics

{device[name]}. Seconds of counts within a radius (Figure 2), of n points.

[counts]
points = {points:,} | naive = {naive:.3g} | SHM-SHM = {SHM-SHM:.3g} | Register-SHM = {Register-SHM:.3g} |
Register-ROC = {Register-ROC:.3g} | ours = {ours:.3g}

Seconds of histograms of all distances with 256 bins (Figures 4 and 9). Register-SHM adds to one table in
global memory, the others to a table per block.

[histograms]
points = {points:,} | Register-SHM = {Register-SHM:.3g} | Naive-Out = {Naive-Out:.3g} |
Reg-SHM-Out = {Reg-SHM-Out:.3g} | Reg-ROC-Out = {Reg-ROC-Out:.3g} | shuffle = {shuffle:.3g} |
ours = {ours:.3g}

The same for {fixed_points:,} points by the number of bins (Figure 5), with the number of blocks per
multiprocessor.

[bins]
bins = {bins:,} | Reg-ROC-Out = {seconds:.3g} | blocks = {blocks} | ours = {ours:.3g}

Only pairs within blocks of {threads} (Figures 6 and 7).

[balance]
points = {points:,} | triangle = {plain:.3g} | balanced = {balanced:.3g} | gain = {gain:.2f}

Memory throughput of the kernels, in TB/s (Tables II to IV), at {profiled_points:,} points.

[memories]
kernel = {kernel} | pairs per second = {pairs:.3g} | shared memory = {shared:.2f} |
read-only path = {read_only:.2f}
"""


def pairs_of(n: int) -> float:
    """Return the number of pairs."""
    return n * (n - 1) / 2


class Timer:
    """Times kernels over growing sizes; one that would take too long is left out from there on."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}

    def seconds(self, name: str, n: int, make: Callable[[], Callable[[], object]]) -> float | None:
        """Return the least seconds of what `make` returns, or None."""
        size, before = self._last.get(name, (n, 0.0))
        if before * (n / size) ** 2 > LONGEST_SECONDS:
            return None
        found = kernels.least_seconds(make())
        self._last[name] = n, found
        return found


def measure_counts(paper: kernels.Paper, sizes: list[int]) -> list[dict[str, Any]]:
    """Figure 2."""
    timer, found = Timer(), []
    for n in sizes:
        given, x = kernels.uniform(n)
        row: dict[str, Any] = {"points": n}
        for name, source in COUNTS.items():
            row[name] = timer.seconds(
                name, n, functools.partial(paper.two_body, x, RADIUS**2, 1, source=source, output=COUNT)
            )
        row["ours"] = kernels.least_seconds(kernels.Ours(given).call([0.0, RADIUS], "brute"))
        print(row, flush=True)
        found.append(row)
    return found


def measure_histograms(paper: kernels.Paper, sizes: list[int]) -> list[dict[str, Any]]:
    """Figures 4 and 9."""
    timer, found = Timer(), []
    for n in sizes:
        given, x = kernels.uniform(n)
        row: dict[str, Any] = {"points": n}
        for name, (source, output) in HISTOGRAMS.items():
            row[name] = timer.seconds(
                name,
                n,
                functools.partial(paper.two_body, x, BINS / DIAGONAL, BINS, source=source, output=output),
            )
        row["ours"] = ours_seconds(kernels.Ours(given), BINS)
        print(row, flush=True)
        found.append(row)
    return found


def ours_seconds(ours: kernels.Ours, bins: int) -> float:
    """Return the seconds of our histogram of all distances."""
    return kernels.least_seconds(ours.call(np.linspace(0.0, DIAGONAL, bins + 1), "brute"))


def measure_bins(paper: kernels.Paper, n: int) -> list[dict[str, Any]]:
    """Figure 5; a table that does not fit into shared memory has no time."""
    given, x = kernels.uniform(n)
    ours, found = kernels.Ours(given), []
    for bins in BIN_NUMBERS:
        row: dict[str, Any] = {"bins": bins, "seconds": None, "blocks": 0}
        if 4 * bins <= kernels.SHARED_BYTES:
            call = paper.two_body(x, bins / DIAGONAL, bins, source=kernels.REGISTER_ROC, output=PRIVATE)
            row["seconds"] = kernels.least_seconds(call)
            row["blocks"] = paper.blocks_at_once(kernels.REGISTER_ROC, PRIVATE, THREADS, 4 * bins)
        row["ours"] = ours_seconds(ours, bins)
        print(row, flush=True)
        found.append(row)
    return found


def measure_balance(paper: kernels.Paper, sizes: list[int]) -> list[dict[str, Any]]:
    """Figures 6 and 7."""
    found = []
    for n in sizes:
        _, x = kernels.uniform(n)
        plain, balanced = (
            kernels.least_seconds(
                paper.two_body(
                    x,
                    BINS / DIAGONAL,
                    BINS,
                    source=kernels.REGISTER_SHM,
                    output=PRIVATE,
                    balanced=each,
                    part=WITHIN_BLOCKS,
                )
            )
            for each in (False, True)
        )
        found.append({"points": n, "plain": plain, "balanced": balanced, "gain": plain / balanced})
    return found


def measure_memories(paper: kernels.Paper, n: int) -> list[dict[str, Any]]:
    """Tables II to IV, by the bytes that a pair asks for."""
    _, x = kernels.uniform(n)
    found = []
    for name, (source, output) in {**{k: (s, COUNT) for k, s in COUNTS.items()}, **HISTOGRAMS}.items():
        scale, bins = (RADIUS**2, 1) if output == COUNT else (BINS / DIAGONAL, BINS)
        seconds = kernels.least_seconds(paper.two_body(x, scale, bins, source=source, output=output))
        rate = pairs_of(n) / seconds
        shared, read_only = PAIR_BYTES.get(name, (0, 0))
        shared += ATOMIC_BYTES * (output == PRIVATE)
        found.append(
            {
                "kernel": name if output != GLOBAL else f"{name}, global output",
                "pairs": rate,
                "shared": shared * rate / 1e12,
                "read_only": read_only * rate / 1e12,
            }
        )
    return found


def profile() -> list[dict[str, Any]]:
    """Return what NVIDIA's profiler measures of each kernel; nothing if it cannot."""
    program = shutil.which("ncu")
    if program is None:
        print("ncu: not found")
        return []
    command = [program, "--csv", "--metrics", ",".join(METRICS.values()), "--kernel-name", "regex:two_body"]
    command += [sys.executable, "-m", "benchmarks.pairs.paper", "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or not lines:
        print(f"ncu: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        return []
    names = {metric: name for name, metric in METRICS.items()}
    found: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        kernel = found.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        kernel[names[row["Metric Name"]]] = float(row["Metric Value"])
    return list(found.values())


def run_once(paper: kernels.Paper) -> None:
    """Run each kernel once, for the profiler."""
    _, x = kernels.uniform(PROFILED_POINTS)
    for source in COUNTS.values():
        paper.two_body(x, RADIUS**2, 1, source=source, output=COUNT, part=ALL)()
    for source, output in HISTOGRAMS.values():
        paper.two_body(x, BINS / DIAGONAL, BINS, source=source, output=output)()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="maximum number of points")
    parser.add_argument("--ncu", action="store_true", help="also run NVIDIA's profiler")
    parser.add_argument("--once", action="store_true", help="only run each kernel once")
    parser.add_argument("--out", default=str(report.RESULTS / "pairs_paper.json"))
    options = parser.parse_args()
    paper = kernels.Paper()
    if options.once:
        return run_once(paper)
    sizes = [n for n in SIZES if n <= options.most]
    fixed = min(FIXED_POINTS, options.most)
    return report.write(
        options.out,
        SECTIONS,
        device=gpu_timing.device(),
        fixed_points=fixed,
        profiled_points=min(PROFILED_POINTS, options.most),
        threads=THREADS,
        counts=measure_counts(paper, sizes),
        histograms=measure_histograms(paper, sizes),
        bins=measure_bins(paper, fixed),
        balance=measure_balance(paper, sizes),
        memories=measure_memories(paper, min(PROFILED_POINTS, options.most)),
        utilisation=profile() if options.ncu else [],
    )


if __name__ == "__main__":
    main()
