"""First centres for k-means on a GPU: k-means|| and k-means++ against k-means|| in PyTorch on the same card.

    python -m benchmarks.reductions.gpu_seeding [--out FILE]

Rows are on the GPU before. PyTorch's k-means|| has the rounds and the number of draws of ours, distances by a
product in float32, and k-means++ with one trial per centre among the rows drawn, also on the GPU; a plain
k-means++ of PyTorch is that with all rows. Times are of whole calls, medians of some. Inertias are those of
the chosen centres, by a pass that is exact; ours must be equal from call to call, and those of a pass on the
CPU over the same rows where that takes some seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.common import report
from benchmarks.reductions.gpu_clusters import make
from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.clusters.seeding import ROUNDS, choose_parallel, choose_plus_plus

SHAPES = ((1_000_000, 16, 256), (1_000_000, 16, 1024), (200_000, 128, 1024), (4_000_000, 4, 512))
REPEATS = 3
MAX_CPU_PRODUCTS = 5e9
"""Rows times columns times clusters up to which the CPU seeds too."""


SECTIONS = """
## First centres of k-means on a GPU

{gpu}. Seconds of k-means|| (parallel) and k-means++, ours and in PyTorch, which draws one row per centre;
the inertia of its k-means|| over that of ours.

[rows]
rows, clusters = {rows} x {columns}, k {k} | parallel = {seconds[parallel]:.3f} |
++ = {seconds[plus_plus]:.3f} | PyTorch, parallel = {seconds[torch_parallel]:.3f} |
PyTorch, ++ = {seconds[torch_plus_plus]:.3f} | inertia = {inertia[torch_parallel]/inertia[parallel]:.2f}
"""


def closer(X: Any, squares: Any, points: Any, closest: Any, nearest: Any, first: int) -> None:
    """Replace distances and numbers of points by those of further points if these are closer."""
    found, at = torch.addmm((points * points).sum(1), X, points.T, alpha=-2.0).min(1)
    found = (found + squares).clamp_(min=0.0)
    less = found < closest
    closest[less], nearest[less] = found[less], at[less] + first


def torch_plus_plus(X: Any, weights: Any, k: int) -> Any:
    """Return rows by k-means++ with one trial per centre."""
    chosen = [torch.multinomial(weights, 1)]
    closest = ((X - X[chosen[0]]) ** 2).sum(1)
    for _ in range(1, k):
        cumulative = torch.cumsum((closest * weights).double(), 0)
        at = torch.searchsorted(
            cumulative, torch.rand(1, device="cuda", dtype=torch.float64) * cumulative[-1]
        )
        chosen.append(at.clamp_(max=len(X) - 1))
        closest = torch.minimum(closest, ((X - X[chosen[-1]]) ** 2).sum(1))
    return X[torch.cat(chosen)]


def torch_parallel(X: Any, k: int) -> Any:
    """Return rows by k-means||."""
    n = len(X)
    squares = (X * X).sum(1)
    closest = torch.full((n,), torch.inf, device="cuda")
    nearest = torch.zeros(n, dtype=torch.int64, device="cuda")
    points = X[torch.randint(0, n, (1,), device="cuda")]
    closer(X, squares, points, closest, nearest, 0)
    for _ in range(ROUNDS):
        chances = closest * (k / closest.sum(dtype=torch.float64)).float()
        more = X[torch.rand(n, device="cuda") < chances]
        for first in range(0, len(more), k):
            some = more[first : first + k]
            closer(X, squares, some, closest, nearest, len(points))
            points = torch.cat([points, some])
    return torch_plus_plus(points, torch.bincount(nearest, minlength=len(points)).float(), k)


def seconds_of(call: Callable[[], Any]) -> float:
    found = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def measure(n: int, d: int, k: int) -> dict[str, Any]:
    X = make(n, d, k, 0.5)
    rows = RowSet(DeviceArray("X", X, 2, (np.float32,)), None)
    passes = DeviceClusters(rows, 0)

    def parallel() -> Any:
        return choose_parallel(passes, k, np.random.default_rng(0), rows)

    def plus_plus() -> Any:
        return choose_plus_plus(passes, k, np.random.default_rng(0))

    def inertia(centers: Any) -> float:
        return passes.assign(np.asarray(centers, np.float64), want_sums=False).inertia

    chosen = parallel()
    np.testing.assert_array_equal(chosen, parallel())
    on_cpu = None
    if n * d * k <= MAX_CPU_PRODUCTS:
        here = RowSet(X.cpu().numpy(), None)
        start = time.perf_counter()
        found = choose_parallel(HostClusters(here), k, np.random.default_rng(0), here)
        on_cpu = time.perf_counter() - start
        np.testing.assert_array_equal(chosen, found)
    torch_parallel(X, k)
    return {
        "rows": n,
        "columns": d,
        "k": k,
        "seconds": {
            "parallel": seconds_of(parallel),
            "plus_plus": seconds_of(plus_plus),
            "torch_parallel": seconds_of(lambda: torch_parallel(X, k)),
            "torch_plus_plus": seconds_of(lambda: torch_plus_plus(X, torch.ones(n, device="cuda"), k)),
            "cpu": on_cpu,
        },
        "inertia": {
            "parallel": inertia(passes.take(chosen)),
            "plus_plus": inertia(passes.take(plus_plus())),
            "torch_parallel": inertia(torch_parallel(X, k).cpu().numpy()),
        },
    }


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "gpu_seeding.json")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    found = []
    for n, d, k in SHAPES:
        row = measure(n, d, k)
        found.append(row)
        times = "  ".join(f"{who} {s:.4f} s" for who, s in row["seconds"].items() if s is not None)
        inertias = "  ".join(f"{who} {x:.5g}" for who, x in row["inertia"].items())
        print(f"{n} x {d} k={k}: {times}; inertia {inertias}", flush=True)
    report.write(options.out, SECTIONS, gpu=torch.cuda.get_device_name(), torch=torch.__version__, rows=found)


if __name__ == "__main__":
    main()
