"""Products on a CPU against those on a GPU: many sparse matrices, and sizes and forms of dense ones.

    python -m benchmarks.gpu.over_cpu [--out FILE]

The sparse matrices are those of choice_gpu.py (table 4.12 of the thesis that `choice_matrices.py` cites). The
dense ones are squares of 1024 to 10240, every size from 4160 to 4224, and the forms of 26 million elements
(its tables 3.3 to 3.6), all in float32. A GPU's time is that of a product whose vectors stay there, by the
kernel that `tune="best"` has picked. A CPU's is that of a call with arrays in main memory, on one thread and
on all; these are quiet while it is measured. Each is the least of some.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.gpu.choice_matrices import Case, Rows, cases
from bmrm.base.threads import usable_cores
from bmrm.matrix import _cpu, _cuda

OPERATORS = {"normal": "X w", "transposed": "X^T r"}
REPEATS, ROUNDS = 12, 3
CPU_SECONDS = 0.02
"""Time for which a product is repeated on the CPU."""
TOGETHER = 16
"""Matrices that are made at the same time."""
SQUARES = tuple((n, n) for n in range(1_024, 10_241, 1_024))
STEPS = tuple((n, n) for n in range(4_160, 4_225))
ELEMENTS = 26_214_400
FORMS = tuple((n, ELEMENTS // n) for n in (128, 512, 1_024, 2_048, 5_120, 12_800, 25_600, 51_200, 204_800))

SECTIONS = """
## Sparse products, CPU and GPU

{gpu} and {cores} cores. {matrices} matrices; the time on the CPU over that on the GPU.

[summary]
product, values = {product}, {values} | matrices = {matrices} | threads = {threads} | least = {least:.2f} |
median = {median:.1f} | most = {most:.0f} | mean = {mean:.1f}

## Dense products, CPU and GPU

{gpu} and {cores} cores, float32. Squares and forms as in tables 3.3 to 3.6 of the thesis.

[dense]
matrix = {shape} | product = {product} | one thread, us = {one:.0f us} | all, us = {all:.0f us} |
GPU, us = {gpu_seconds:.1f us} | all over GPU = {over:.1f}

The least and the largest of these for every size from 4160 to 4224:

[steps]
matrix = {shape} | product = {product} | one thread, us = {one:.0f us span} | all, us = {all:.0f us span} |
GPU, us = {gpu_seconds:.1f us span} | all over GPU = {over:.1f span}
"""


def least_on_cpu(call: Callable[[], object]) -> float:
    """Return the least seconds of a call."""
    call()
    least, end = float("inf"), time.perf_counter() + CPU_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def seconds(build_cpu: Callable[[int], Any], on_gpu: Any, shape: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the times of both products."""
    hosts = {"one": build_cpu(1), "all": build_cpu(usable_cores())}
    w, r = np.random.default_rng(0).random(shape[1]), np.random.default_rng(1).random(shape[0])
    for op, product in OPERATORS.items():
        row: dict[str, Any] = {"product": product}
        for name, host in hosts.items():
            x, y = (w, np.empty(shape[0])) if op == "normal" else (r, np.empty(shape[1]))
            multiply = host.matvec if op == "normal" else host.rmatvec
            row[name] = least_on_cpu(lambda multiply=multiply, x=x, y=y: multiply(x, y))
        row["gpu_seconds"] = min(on_gpu.time(op, repeats=REPEATS) for _ in range(ROUNDS))
        yield row


def sparse(case: Case, X: Rows) -> Iterator[dict[str, Any]]:
    """Yield the times of a sparse matrix."""
    indptr = X.indptr.astype(np.int64)
    on_gpu = _cuda.Matrix(*X, dtype=np.float64 if case.kind == "ones64" else None)
    for row in seconds(
        lambda threads: _cpu.Matrix(indptr, X.indices, X.data, X.shape, threads=threads), on_gpu, X.shape
    ):
        yield {"matrix": case.name, "values": case.kind, "nonzeros": len(X.indices), **row}


def dense(rows: int, cols: int) -> list[dict[str, Any]]:
    """Return the times of a dense matrix."""
    X = np.random.default_rng(0).random((rows, cols), np.float32)
    found = seconds(
        lambda threads: _cpu.Matrix.from_dense(X, threads=threads), _cuda.Matrix.from_dense(X), X.shape
    )
    return [{**row, "shape": f"{rows} x {cols}", "over": row["all"] / row["gpu_seconds"]} for row in found]


def in_one(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per product, with the times of all sizes."""
    both = []
    for product in OPERATORS.values():
        those = [row for row in rows if row["product"] == product]
        lists = {key: [row[key] for row in those] for key in ("one", "all", "gpu_seconds", "over")}
        both.append({"shape": f"{those[0]['shape']} to {those[-1]['shape']}", "product": product, **lists})
    return both


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ratios by product, type of values and threads."""
    found = []
    for product, values in itertools.product(OPERATORS.values(), sorted({row["values"] for row in rows})):
        those = [row for row in rows if (row["product"], row["values"]) == (product, values)]
        for key, threads in (("one", 1), ("all", usable_cores())):
            over = [row[key] / row["gpu_seconds"] for row in those]
            figures = {"least": min(over), "median": statistics.median(over), "most": max(over)}
            about = {"product": product, "values": values, "matrices": len(over), "threads": threads}
            found.append({**about, **figures, "mean": statistics.fmean(over)})
            print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240, help="start no sparse matrices after these")
    parser.add_argument("--out", default=report.RESULTS / "over_cpu.json")
    options = parser.parse_args()
    table = [row for shape in (*SQUARES, *FORMS) for row in dense(*shape)]
    steps = in_one([row for shape in STEPS for row in dense(*shape)])
    for row in (*table, *steps):
        print(row, flush=True)
    rows, began = [], time.perf_counter()
    with ThreadPoolExecutor(TOGETHER) as pool:
        everything = list(cases())
        for first in range(0, len(everything), TOGETHER):
            some = everything[first : first + TOGETHER]
            if time.perf_counter() - began > options.seconds:
                print(f"out of time before {some[0].name}")
                break
            made = list(pool.map(lambda case: case.make(), some))
            rows += [row for case, X in zip(some, made, strict=True) for row in sparse(case, X)]
    report.write(
        options.out,
        SECTIONS,
        gpu=_cuda.device_info()["name"],
        cores=usable_cores(),
        matrices=len({row["matrix"] for row in rows}),
        summary=summary(rows),
        dense=table,
        steps=steps,
        rows=rows,
    )


if __name__ == "__main__":
    main()
