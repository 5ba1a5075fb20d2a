"""A pass of k-means over rows that a GPU holds in part, against rows that it holds, and against their copy.

    python -m benchmarks.reductions.gpu_blocks [--out FILE] [--blocks COUNT]

Rows are in pageable memory of the host. A limit lets some of their blocks stay on the GPU; the others are
copied in each pass, as for rows larger than its memory. Times are those of a whole call, medians of some. The
copy is PyTorch's, of as many bytes from pinned memory, between two events: what the bus allows. Results must
have the same bits in all cases.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import torch

from benchmarks.common import report
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.unsupervised.clusters.gpu import DeviceClusters

SHAPES = ((16, 64), (128, 256))
"""Columns and clusters."""
REPEATS = 5
SEED_ROWS = 1 << 20
"""Rows that are drawn; the others repeat them, each time moved by one column."""


SECTIONS = """
## Rows larger than a GPU

{gpu}. A pass of k-means; blocks that do not stay on the GPU are copied in each pass. A copy from pinned
memory has {copy_gb_per_s:.1f} GB/s.

[rows]
rows, clusters = {rows} x {columns}, k {clusters} | blocks that stay = {stay} of {blocks} | ms = {ms:.1f} |
GB/s = {gb_per_s:.1f}
"""


def make(n: int, d: int) -> Any:
    """Return rows of float32 in main memory."""
    rng = np.random.default_rng(1)
    seed = rng.standard_normal((SEED_ROWS, d), np.float32)
    X = np.empty((n, d), np.float32)
    for number, first in enumerate(range(0, n, SEED_ROWS)):
        part = X[first : first + SEED_ROWS]
        part[:] = np.roll(seed[: len(part)], number, axis=1)
    return X


def copy_rate() -> float:
    """Return the bytes per second of a copy from pinned memory."""
    source = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(source, device="cuda")
    seconds = []
    for _ in range(REPEATS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source, non_blocking=True)
        end.record()
        torch.cuda.synchronize()
        seconds.append(1e-3 * begin.elapsed_time(end))
    return source.numel() / statistics.median(seconds[1:])


def pass_seconds(passes: DeviceClusters, centers: Any) -> tuple[float, bytes]:
    """Return the time of a pass, and the bits of its sums."""
    seconds = []
    for _ in range(REPEATS + 1):
        begin = time.perf_counter()
        found = passes.assign(centers)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:]), found.sums.tobytes() + np.float64(found.inertia).tobytes()


def compare(d: int, k: int, count: int, rate: float) -> list[dict[str, Any]]:
    """Return a row for each share of the blocks that stays on the GPU."""
    each = blocks.block_rows(d, 4)
    X = make(each * count, d)
    centers = X[:k].astype(np.float64)
    needed = import_cuda().predict_cluster_bytes(each, d, k, np.float32, True)
    columns = blocks.COLUMN_BYTES * len(X)
    found: list[dict[str, Any]] = []
    expected = None
    for resident in (count, count // 3, 0):  # at least four others, so that the slots save no copies
        limit = needed * (resident + (blocks.SLOTS if resident < count else 0)) + columns
        passes = DeviceClusters(RowSet(X, None), 0, k, limit)
        seconds, bits = pass_seconds(passes, centers)
        expected = expected or bits
        assert bits == expected, (d, k, resident)
        copied = (count - resident) * each * d * 4
        found.append(
            {
                "rows": len(X), "columns": d, "clusters": k, "blocks": count, "stay": resident,
                "ms": 1e3 * seconds, "copied_gb": copied / 1e9,
                "gb_per_s": copied / seconds / 1e9 if copied else None,
                "share_of_copy": copied / seconds / rate,
            }
        )  # fmt: skip
        print(
            f"{len(X):>12,} x {d:<4} k={k:<4} {resident} of {count} blocks stay: {1e3 * seconds:9.2f} ms, "
            f"{copied / seconds / 1e9:6.1f} GB/s copied, {copied / seconds / rate:5.0%} of a pinned copy"
        )
        del passes
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--blocks", type=int, default=6, help="blocks of rows, each of 0.5 to 1 GiB")
    options = parser.parse_args()
    rate = copy_rate()
    print(f"a copy from pinned memory: {rate / 1e9:.1f} GB/s")
    rows = [row for d, k in SHAPES for row in compare(d, k, options.blocks, rate)]
    if options.out:
        gpu = torch.cuda.get_device_name()
        report.write(
            options.out, SECTIONS, gpu=gpu, torch=torch.__version__, copy_gb_per_s=rate / 1e9, rows=rows
        )


if __name__ == "__main__":
    main()
