"""The aims for products on a GPU, and whether the measurements of spmv_gpu.py reach them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from benchmarks.common import report

GRAPHS = ("flickr-like", "livejournal-like")
LARGE_DENSE_BYTES = 200_000_000


def geometric_mean(numbers: Iterable[float]) -> float | None:
    """Return the geometric mean, or None for no numbers."""
    logs = [math.log(x) for x in numbers]
    return math.exp(sum(logs) / len(logs)) if logs else None


def least(numbers: Iterable[float]) -> float | None:
    """Return the least number, or None for no numbers."""
    return min(numbers, default=None)


def figures(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Judge every measured figure: its name, value and bound, and whether the aim is reached."""
    sparse = [row for row in results["sparse"] if row["values"] == "float32"]
    double = [row for row in results["sparse"] if row["values"] == "float64"]
    dense = [row for row in results["dense"] if row["values"] == "float32"]
    judged = []

    def judge(name: str, value: float | None, bound: float, unit: str = "", *, below: bool = False) -> None:
        if value is not None:
            judged.append(report.aim(name, value, bound, unit, below=below))

    def times_faster(shape: str, product: str) -> float | None:
        found = (row for row in sparse if (row["shape"], row["product"]) == (shape, product))
        return least(row["times_faster"] for row in found)

    judge(
        f"cuSPARSE / bmrm, float32, geometric mean of {len(sparse)} products",
        geometric_mean(row["times_faster"] for row in sparse),
        2.5,
    )
    for product in ("X w", "X^T r"):
        judge(f"cuSPARSE / bmrm, reuters {product}", times_faster("reuters", product), 2.4)
    judge("cuSPARSE / bmrm, kdd99 X w", times_faster("kdd99", "X w"), 2.0)
    judge("cuSPARSE / bmrm, kdd99 X^T r", times_faster("kdd99", "X^T r"), 4.0)
    for shape in GRAPHS:
        for product in ("X w", "X^T r"):
            judge(f"cuSPARSE / bmrm, {shape} {product}", times_faster(shape, product), 1.2)
    judge("cuSPARSE / bmrm, float32, least of all", least(row["times_faster"] for row in sparse), 1.0)
    for shape in ("reuters", "kdd99"):
        for row in sparse:
            if row["shape"] == shape:
                judge(f"share of copy bandwidth, {shape} {row['product']}", row["of_copy"], 0.75)
    judge(
        "share of copy bandwidth, dense over 200 MB, least",
        least(row["of_copy"] for row in dense if row["bytes"] > LARGE_DENSE_BYTES),
        0.9,
    )
    judge("cuBLAS / bmrm, dense, least of all", least(row["times_faster"] for row in dense), 0.95)
    judge(
        f"cuSPARSE / bmrm, float64, geometric mean of {len(double)} products",
        geometric_mean(row["times_faster"] for row in double),
        1.5,
    )
    judge(
        "error of float32 over sqrt(row length), most",
        max((row["error"] for row in sparse + dense), default=None),
        2e-6,
        below=True,
    )
    for row in results["upload"]:
        name = f"upload and preparation of {row['shape']} from pinned memory"
        judge(name, row["seconds"], 0.25, " s", below=True)
    return judged
