"""A pass of k-means on a GPU, with labels, sums and inertia, against PyTorch's forms on the same card.

    python -m benchmarks.reductions.gpu_clusters [--out FILE] [--profile]

Rows are on the GPU before. Our time is that of a whole call: centres come from main memory, and sums, weights
and inertia go back there. PyTorch's is that of the best of four forms (distances by cdist or by a product;
sums by index_add or by a product with labels as columns), between two events, and everything stays on the
device; its products are in float32, and besides in tf32. Medians of some calls. Labels are checked
against float64 on the device.

If flash-kmeans is installed (Triton kernels; S. Yang and others), its time is that of one of its iterations,
the difference between runs of 11 and of 1, and the share of its labels that are not those of float64.

``--profile`` prints the kernels of a pass.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.common import report
from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters.gpu import DeviceClusters

SHAPES = (
    (1_000_000, 2, 300),
    (4_000_000, 4, 100),
    (1_000_000, 16, 64),
    (10_000_000, 16, 16),
    (1_000_000, 128, 1024),
    (200_000, 784, 256),
)
REPEATS = 30
CHECKED_ROWS = 100_000


SECTIONS = """
## k-means on a GPU
headline: k-means on a GPU, one pass | PyTorch in float32 | rows | ratio | {gpu}

A whole pass: exact labels, sums and inertia, against the fastest of four PyTorch implementations, in
float32 and in tf32; the ratio is that to float32. Rows that the fast pass leaves ambiguous are resolved
in float64. flash-kmeans: an iteration, and its labels that are not those of float64.

[rows]
rows, clusters = {rows} x {columns}, k {k}, spread {spread:g} | ms = {seconds[ours]:.3g ms} |
PyTorch ms = {seconds[torch]:.3g ms} | tf32 ms = {seconds[torch_tf32]:.3g ms} |
flash ms = {seconds[flash]:.3g ms} | times faster = {ratio:.1f} | in float64 = {rechecked:.2%} |
wrong = {flash_wrong:.2%}
"""


def make(n: int, d: int, k: int, spread: float) -> Any:
    """Return rows around k points, at a distance of about ``spread`` in each column."""
    generator = torch.Generator("cuda").manual_seed(1)
    points = torch.randn(k, d, generator=generator, device="cuda")
    X = points[torch.randint(0, k, (n,), generator=generator, device="cuda")]
    return X.add_(torch.randn(n, d, generator=generator, device="cuda"), alpha=spread)


def squares_by_cdist(X: Any, C: Any) -> Any:
    return torch.cdist(X, C)


def squares_by_product(X: Any, C: Any) -> Any:
    return torch.addmm((C * C).sum(1), X, C.T, alpha=-2.0)


def sums_by_index(X: Any, labels: Any, k: int) -> Any:
    return torch.zeros(k, X.shape[1], device="cuda").index_add_(0, labels, X)


def sums_by_product(X: Any, labels: Any, k: int) -> Any:
    columns = torch.zeros(k, len(X), device="cuda")
    columns.scatter_(0, labels[None], 1.0)
    return columns @ X


def torch_pass(squares: Callable[..., Any], sums: Callable[..., Any], X: Any, C: Any) -> tuple[Any, ...]:
    values, labels = squares(X, C).min(1)
    return labels, sums(X, labels, len(C)), torch.bincount(labels, minlength=len(C)), values.sum()


def seconds_between_events(call: Callable[[], Any], repeats: int) -> float:
    """Return the median time on the device."""
    found = []
    for _ in range(repeats + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / 1e3)
    return statistics.median(found[2:])


def seconds_of_calls(call: Callable[[], Any], repeats: int) -> float:
    """Return the median time from the call to its end."""
    found = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.median(found[2:])


def best_of_torch(X: Any, C: Any, tf32: bool) -> tuple[float, str]:
    """Return the time and the names of the fastest form."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    found = []
    for squares, sums in itertools.product(
        (squares_by_cdist, squares_by_product), (sums_by_index, sums_by_product)
    ):
        name = f"{squares.__name__}, {sums.__name__}"
        try:
            seconds = seconds_between_events(lambda s=squares, t=sums: torch_pass(s, t, X, C), 5)
        except torch.OutOfMemoryError:
            continue
        found.append((seconds, name))
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.empty_cache()
    return min(found)


def flash_seconds(X: Any, C: np.ndarray) -> tuple[float, float] | None:
    """Return the time of an iteration of flash-kmeans, and the share of its labels that are wrong."""
    try:
        from flash_kmeans import batch_kmeans_Euclid
    except ImportError:
        return None
    there = torch.from_numpy(C).float().cuda()[None]

    def iterate(count: int) -> Any:
        return batch_kmeans_Euclid(X[None], len(C), max_iters=count, init_centroids=there)

    labels = iterate(1)[0][0].cpu().numpy()
    few, many = (seconds_between_events(lambda m=m: iterate(m), 5) for m in (1, 11))
    return (many - few) / 10, wrong_labels(X, C, labels) / min(len(X), CHECKED_ROWS)


def wrong_labels(X: Any, C: np.ndarray, labels: np.ndarray) -> int:
    """Return how many labels of the first rows are not those of float64, features added in order."""
    there, wrong = torch.from_numpy(C).cuda(), 0
    each = max(1, 2**26 // len(C))
    for first in range(0, min(len(X), CHECKED_ROWS), each):
        rows = X[first : min(first + each, CHECKED_ROWS)].double()
        squares = torch.zeros(len(rows), len(C), dtype=torch.float64, device="cuda")
        for f in range(X.shape[1]):
            e = rows[:, f : f + 1] - there[:, f]
            squares += e * e
        found = squares.argmin(1).cpu().numpy()
        wrong += int((found != labels[first : first + len(found)]).sum())
    return wrong


def profile(call: Callable[[], Any]) -> None:
    """Print the kernels of a call."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recorded

    with recorded(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(5):
            call()
        torch.cuda.synchronize()
    for event in sorted(found.key_averages(), key=lambda event: -event.device_time_total)[:12]:
        print(
            f"    {event.device_time_total / 5:9.1f} us {event.count / 5:4.0f}  {event.key[:90]}", flush=True
        )


def measure(n: int, d: int, k: int, spread: float, profiled: bool) -> dict[str, Any]:
    """Measure a pass after some moves of the centres."""
    X = make(n, d, k, spread)
    passes = DeviceClusters(RowSet(DeviceArray("X", X, 2, (np.float32,)), None), 0)
    C = passes.take(np.random.default_rng(0).choice(n, k, replace=False))
    for _ in range(5):
        moved = passes.assign(C)
        C = C + moved.sums / np.maximum(moved.cluster_weights, 1.0)[:, None]
    first = passes.assign(C)
    assert wrong_labels(X, C, passes.labels()) == 0
    again = passes.assign(C)
    assert first.sums.tobytes() == again.sums.tobytes()
    assert (first.inertia, again.changed) == (again.inertia, 0)
    seconds = {"ours": seconds_of_calls(lambda: passes.assign(C), REPEATS)}
    if profiled:
        profile(lambda: passes.assign(C))
    there = torch.from_numpy(C).float().cuda()
    forms = {}
    seconds["torch"], forms["torch"] = best_of_torch(X, there, tf32=False)
    seconds["torch_tf32"], forms["torch_tf32"] = best_of_torch(X, there, tf32=True)
    row = {
        "rows": n,
        "columns": d,
        "k": k,
        "spread": spread,
        "seconds": seconds,
        "forms": forms,
        "rechecked": first.rechecked / n,
        "ratio": seconds["torch"] / seconds["ours"],
    }
    flash = flash_seconds(X, C)
    if flash is not None:
        seconds["flash"], row["flash_wrong"] = flash
    return row


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "gpu_clusters.json")
    parser.add_argument("--profile", action="store_true", help="print the kernels of a pass")
    options = parser.parse_args()
    found = []
    for (n, d, k), spread in itertools.product(SHAPES, (0.5, 2.0)):
        row = measure(n, d, k, spread, options.profile)
        found.append(row)
        times = "  ".join(f"{who} {1e3 * s:.3f} ms" for who, s in row["seconds"].items())
        print(
            f"{n} x {d} k={k} spread {spread}: {times}  {row['ratio']:.1f}x  "
            f"rechecked {row['rechecked']:.2%}  ({row['forms']['torch']})"
            + (f"  flash wrong {row['flash_wrong']:.2%}" if "flash_wrong" in row else ""),
            flush=True,
        )
    report.write(options.out, SECTIONS, gpu=torch.cuda.get_device_name(), torch=torch.__version__, rows=found)


if __name__ == "__main__":
    main()
