"""Neighbours of points on a GPU, exact, against PyTorch.

    python -m benchmarks.pairs.nearest_gpu [--out FILE]

Points are uniform, of float32, and on the GPU before. A time is the least of some calls between two events;
ours ends with distances in float64 and indices in main memory, PyTorch's, `cdist` of blocks of rows and then
`topk`, on the GPU. Of many points it gets some blocks, and the time per pair counts. Some of our distances
are compared with those of NumPy in float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.common import gpu_timing, report
from bmrm import pairs
from bmrm.errors import HostMemoryError

K, CALLS, CHECKED = 10, 3, 20
SHAPES = ((100_000, 3), (1_000_000, 3), (100_000, 6), (100_000, 16), (100_000, 64), (100_000, 768))
AIMS = {3: 8.0, 64: 3.0, 768: 1.5}
TORCH_NUMBERS, TORCH_BLOCKS = 200_000_000, 50
RADII = ((1_000_000, 3, 0.01), (1_000_000, 3, 0.03), (100_000, 6, 0.2))
MANY, COLUMNS, REFUSED_AIM = 180_000, 9, 2.0

SECTIONS = """
## Neighbours of points on a GPU

{device[name]}, PyTorch {versions[torch]}. The {sizes[k]} nearest of each of some uniform points of float32
that are on the GPU: ours, as in float64, in main memory; PyTorch's in float32. Pairs of points per second, in
units of 1e11.

[nearest]
points = {points:,} | columns = {columns} | bmrm s = {seconds[ours]:.4f} | bmrm = {ours/1e11:.2f} |
PyTorch = {torch/1e11:.2f} | times faster = {times_faster:.1f}

Pairs of uniform points within a radius, as a sparse matrix in main memory.

[radius]
points = {points:,} | columns = {columns} | radius = {radius} | neighbours = {neighbours:,} |
bmrm s = {seconds:.3f}

Counting until the result cannot fit, of points most of which are within the radius.

[refused]
points = {points:,} | columns = {columns} | s = {seconds:.3f}

[aims]
"""


def least_seconds(call: Callable[[], object], calls: int = CALLS) -> float:
    """Return the least time between two events."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(calls):
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return min(times)


def measure_nearest(n: int, columns: int) -> dict[str, Any]:
    """Measure the nearest neighbours of all points."""
    x = torch.rand((n, columns), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    rows = max(1, TORCH_NUMBERS // n)
    blocks = min(TORCH_BLOCKS, -(-n // rows))

    def by_torch() -> None:
        for first in range(0, blocks * rows, rows):
            torch.topk(torch.cdist(x[first : first + rows], x), K + 1, largest=False)

    by_torch()
    torch_rate = min(n, blocks * rows) * n / least_seconds(by_torch, 1)
    torch.cuda.empty_cache()
    points = pairs.Points(x, device="cuda")
    found = pairs.nearest(K, points)
    seconds = least_seconds(lambda: pairs.nearest(K, points))
    wide = x.cpu().numpy().astype(np.float64)
    for row in range(0, n, n // CHECKED):
        squares = np.zeros(n)
        for axis in wide.T:
            squares += (axis - axis[row]) ** 2
        squares[row] = np.inf
        nearest = np.lexsort((np.arange(n), np.sqrt(squares)))[:K]
        assert (found[1][row] == nearest).all()
        assert (found[0][row] == np.sqrt(squares[nearest])).all()
    ours = n * n / seconds
    return {
        "points": n,
        "columns": columns,
        "seconds": {"ours": seconds},
        "ours": ours,
        "torch": torch_rate,
        "times_faster": ours / torch_rate,
    }


def measure_radius(n: int, columns: int, radius: float) -> dict[str, Any]:
    """Measure pairs within a radius."""
    rows = np.random.default_rng(0).random((n, columns))
    x = pairs.Points(rows, device="cuda")
    found = pairs.within(radius, x)
    expected = pairs.within(radius, rows[:CHECKED], rows, device="cpu")
    assert (np.diff(expected.indptr) - 1 == np.diff(found.indptr)[:CHECKED]).all()  # but for the row itself
    return {
        "points": n,
        "columns": columns,
        "radius": radius,
        "neighbours": int(found.nnz),
        "seconds": least_seconds(lambda: pairs.within(radius, x)),
    }


def measure_refusal() -> dict[str, Any]:
    """Measure how long it takes to refuse too many pairs."""
    many = np.random.default_rng(0).random((MANY, COLUMNS))

    def refuse() -> None:
        try:
            pairs.within(1.5, many, device="cuda")
        except HostMemoryError:
            return
        raise AssertionError("the result fits")

    return {"points": MANY, "columns": COLUMNS, "seconds": least_seconds(refuse, 2)}


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(report.RESULTS / "pairs_nearest_gpu.json"))
    options = parser.parse_args()
    nearest = [measure_nearest(*shape) for shape in SHAPES]
    radius = [measure_radius(*each) for each in RADII]
    refused = measure_refusal()
    aims = [
        report.aim(
            f"{row['points']} points, {row['columns']} columns over PyTorch", row["times_faster"], bound
        )
        for row in nearest
        if (bound := AIMS.get(row["columns"]))
    ]
    aims.append(
        report.aim("a result that cannot fit is refused", refused["seconds"], REFUSED_AIM, " s", below=True)
    )
    for each in aims:
        print(report.line(each))
    report.write(
        options.out,
        SECTIONS,
        device=gpu_timing.device(),
        versions={"torch": torch.__version__},
        sizes={"k": K},
        nearest=nearest,
        radius=radius,
        refused=[refused],
        aims=aims,
    )


if __name__ == "__main__":
    main()
