"""X twice as large as its device memory: all that does not fit streams, or the CPU takes its share of it.

    python -m benchmarks.gpu.both_devices [--dense-mb 4096] [--rows 1000000] [--out FILE]

Dense rows of 256 features, and sparse ones of 64 values in 50,000 columns, all float32. `gpu_mem` is half of
what X takes, with the vectors of a solve. For each: blocks, the two products (replayed graphs), and a solve
with the hinge at lam = 1e-4, to a certified relative gap of 1e-3 (second runs count), with `cpu_share=0` and
by default.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import bmrm
from benchmarks.common import report
from bmrm.base.threads import usable_cores
from bmrm.io import Csr
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import plan_memory

DENSE_COLUMNS, SPARSE_COLUMNS, STORED = 256, 50_000, 64
LAM, TOL = 1e-4, 1e-3
OPERATORS = ("normal", "transposed")
LEAST = 2.0  # times the speed of streaming alone

SECTIONS = """
## Rows that do not fit, on both devices

{gpu} and {cores} cores. The GPU may hold half of X, in float32; `gpu_mem` counts the vectors of a solve too.
Alone: all other rows stream, `cpu_share=0`. Both: the CPU has its share of them, by the measured rates.
Solves are of the hinge, lam 1e-4, to a relative gap of 1e-3;
{agree:all certificates agree with each other/certificates contradict}.

[rows]
rows = {kind} | MB = {bytes:.0f MB} | blocks that do not fit, of the CPU = {streamed}, {on_cpu} |
X w: ms alone, both = {alone[times][normal]:.2f ms}, {both[times][normal]:.2f ms} |
X^T r: ms alone, both = {alone[times][transposed]:.2f ms}, {both[times][transposed]:.2f ms} |
alone / both = {ratio:.2f} | solve: ms alone, both = {alone[seconds]:.0f ms}, {both[seconds]:.0f ms}

[aims]
"""


def dense(megabytes: int) -> Any:
    """Return dense rows that take so many megabytes."""
    shape = megabytes * 1_000_000 // (4 * DENSE_COLUMNS), DENSE_COLUMNS
    return np.random.default_rng(0).random(shape, np.float32) - np.float32(0.5)


def sparse(rows: int) -> Csr:
    """Return sparse rows whose columns are random, each in a stretch of its own."""
    width = SPARSE_COLUMNS // STORED
    columns = np.random.default_rng(1).integers(0, width, (rows, STORED), np.int32)
    columns += width * np.arange(STORED, dtype=np.int32)
    values = np.random.default_rng(2).random(rows * STORED, np.float32)
    return Csr(np.arange(0, rows * STORED + 1, STORED), columns.ravel(), values, (rows, SPARSE_COLUMNS))


def labels_of(X: Any) -> Any:
    """Return labels that a linear function of the rows gives, with noise."""
    rng = np.random.default_rng(3)
    data = bmrm.Dataset(X, device="cpu")
    margins = data.margins(rng.standard_normal(X.shape[1]))
    noise = margins.std() * rng.standard_normal(X.shape[0])
    return np.where(margins - margins.mean() + 0.3 * noise > 0, 1.0, -1.0)


def measured(X: Any, y: Any, gpu_mem: int, cpu_share: float | None) -> dict[str, Any]:
    """Return the times of products and of a solve, and which blocks are where."""
    data = bmrm.Dataset(X, y, device="cuda", gpu_mem=gpu_mem, cpu_share=cpu_share)
    times = {op: data.matrix.time(op, repeats=3) for op in OPERATORS}
    bmrm.solve(data, lam=LAM, tol=TOL)
    result = bmrm.solve(data, lam=LAM, tol=TOL)
    return {
        "times": times,
        "seconds": result.timings["total"],
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "split": result.split,
        "blocks": data.matrix.row_blocks,
    }


def compared(kind: str, X: Any) -> dict[str, Any]:
    """Measure some rows in both ways."""
    y, sparse_values = labels_of(X), X.nnz if isinstance(X, Csr) else None
    plan = plan_memory(X.shape, sparse_values, 4, 4, None)
    gpu_mem = plan.X // 2 + plan.spare
    alone, both = measured(X, y, gpu_mem, 0), measured(X, y, gpu_mem, None)
    blocks = both.pop("blocks")
    alone.pop("blocks")
    return {
        "kind": kind,
        "bytes": plan.X,
        "gpu_mem": gpu_mem,
        "streamed": sum(block["streams"] for block in blocks),
        "on_cpu": sum(block["on_host"] for block in blocks),
        "alone": alone,
        "both": both,
        "ratio": sum(alone["times"].values()) / sum(both["times"].values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dense-mb", type=int, default=4096, help="size of the dense rows")
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of the sparse rows")
    parser.add_argument("--out", default=report.RESULTS / "both_devices.json")
    options = parser.parse_args()
    rows = [compared("dense", dense(options.dense_mb)), compared("sparse", sparse(options.rows))]
    ways = [row[way] for row in rows for way in ("alone", "both")]
    agree = all(
        a["objective"] >= b["lower_bound"] * (1 - 1e-6)
        for row in rows
        for a, b in ((row["alone"], row["both"]), (row["both"], row["alone"]))
    )
    print([(way["split"], way["times"], way["seconds"]) for way in ways])
    aims = [report.aim(f"{row['kind']}: alone / both", row["ratio"], LEAST) for row in rows]
    report.write(
        options.out,
        SECTIONS,
        gpu=import_cuda().device_info(0)["name"],
        cores=usable_cores(),
        rows=rows,
        agree=agree,
        aims=aims,
    )


if __name__ == "__main__":
    main()
