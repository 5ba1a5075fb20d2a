"""Products on a GPU against cuSPARSE, cuBLAS and the bandwidth of a copy.

    python -m benchmarks.gpu.spmv_gpu [--shapes reuters,kdd99] [--quick] [--peer-only] [--out FILE]

The matrices are those of shapes.py. Their values are normally distributed, so only the columns can be
compressed; a separate table shows the gain of ones and of few distinct values. Every time is that of a
product within a replayed CUDA graph, the median of the replays. The products of a graph take turns over as
many copies of the matrix and its vectors as exceed twice the level-two cache. cuSPARSE is the better of its
two CSR algorithms, preprocessed, its buffer reused, with a stored transpose for X^T r; cuBLAS the better of
gemv on a row-major and on a column-major matrix. GB/s and the share of copy bandwidth count the bytes of the
format that the product reads, its input once and its output once.

The error of an output y_i is |y_i - reference| / (||x_i o w||_2 sqrt(nonzeros of row i)), with the reference
in float64 from the same rounded numbers; the table has the largest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from benchmarks.common import gpu_figures, gpu_timing, report, shapes
from benchmarks.common.gpu_timing import normal
from benchmarks.gpu import gpu_resident
from benchmarks.gpu.gpu_resident import PRODUCTS
from benchmarks.gpu.nvidia_peers import SPMV_ALGORITHMS, CsrProduct, Cublas, Cusparse

# 26 214 400 elements in every shape, as in table 3.6 of the thesis that the design goes back to.
DENSE = [
    (128, 204_800), (512, 51_200), (1_024, 25_600), (1_600, 16_384), (2_048, 12_800), (2_560, 10_240),
    (3_200, 8_192), (4_096, 6_400), (5_120, 5_120), (6_400, 4_096), (8_192, 3_200), (10_240, 2_560),
    (12_800, 2_048), (16_384, 1_600), (25_600, 1_024), (51_200, 512), (204_800, 128),
]  # fmt: skip
LARGE_DENSE = [(1_024, 131_072), (8_192, 16_384), (10_007, 10_007), (131_072, 1_024), (1_048_576, 128)]
QUICK_DENSE = [DENSE[0], DENSE[8], DENSE[-1], LARGE_DENSE[1]]
CODED = ("adult9", "web8", "kdd99", "reuters", "flickr-like")
LEVELS = 200  # distinct values of the dictionary's table


SECTIONS = """
## Products on a GPU
headline: sparse products on a GPU | cuSPARSE | sparse | times_faster | {device[name]}

{device[name]}, compute capability {device[compute_capability]}, driver for CUDA {device[driver]}, cuSPARSE
{device[cusparse]}, cuBLAS {device[cublas]}; a copy on the device moves {copy_gbs:.0f} GB/s, counting both
reads and writes.

[aims]

Sparse products; cuSPARSE is the better of its two algorithms, preprocessed, with a stored transpose for X^T
r. Shares are of the bandwidth of a copy. `at most` is the speed-up if a product moved the bytes of its
format and its vectors as fast as a copy and started at once: {at_most[float32]:.2f} in the geometric mean
for float32 and {at_most[float64]:.2f} for float64.

[sparse]
shape, values, product = {shape}, {values}, {product} | cuSPARSE us = {peer_us:.0f} |
its share = {peer_of_copy:.0%} | bmrm us = {us:.0f} | share = {of_copy:.0%} |
times faster = {times_faster:.2f} | at most = {times_faster/of_copy:.2f} | error = {error:.0e} |
plan = {plan}

Dense products; cuBLAS is the better of a row-major and a column-major matrix.

[dense]
shape, values, product = {rows} x {cols}, {values}, {product} | cuBLAS us = {peer_us:.1f} |
bmrm us = {us:.1f} | share = {of_copy:.0%} | times faster = {times_faster:.2f} | error = {error:.0e}

The gain of ones and of few distinct values, float32.

[coded]
shape, values, product = {shape}, {values}, {product} | us = {us:.0f} |
bytes per nonzero = {bytes_per_nonzero:.2f} | share = {of_copy:.0%}
"""


class Bench(NamedTuple):
    """What all measurements share."""

    clock: gpu_timing.Clock
    cusparse: Cusparse
    cublas: Cublas
    copy: float  # bytes per second
    peer_only: bool


def csr_arrays(matrix: shapes.Csr, dtype: str) -> tuple[cp.ndarray, cp.ndarray, cp.ndarray]:
    """Return the arrays that cuSPARSE takes."""
    return matrix.indptr.astype(cp.int32), matrix.indices, matrix.values.astype(dtype)


def cusparse_times(bench: Bench, matrix: shapes.Csr, dtype: str) -> dict[str, float]:
    """Return the seconds of y = A x by algorithm."""
    arrays = csr_arrays(matrix, dtype)
    rows, cols = matrix.shape
    copies = gpu_timing.copies_beyond_cache(sum(a.nbytes for a in arrays))
    sets = [tuple(a.copy() for a in arrays) for _ in range(copies - 1)] + [arrays]
    inputs = [normal(cols, dtype, seed) for seed in range(copies)]
    times = {}
    for algorithm in SPMV_ALGORITHMS:
        work = [
            CsrProduct(bench.cusparse, own, x, cp.empty(rows, dtype), algorithm)
            for own, x in zip(sets, inputs, strict=True)
        ]
        times[algorithm] = bench.clock.seconds(work)
    return times


def reference(bench: Bench, matrix: shapes.Csr, dtype: str, x: cp.ndarray) -> tuple[cp.ndarray, cp.ndarray]:
    """Return y = A x in float64 from numbers rounded to `dtype`, and the scale of its errors."""
    indptr, indices, values = csr_arrays(matrix, dtype)
    values, x = values.astype(cp.float64), x.astype(cp.float64)
    y, squares = cp.empty(matrix.shape[0]), cp.empty(matrix.shape[0])
    CsrProduct(bench.cusparse, (indptr, indices, values), x, y, "ALG2")()
    CsrProduct(bench.cusparse, (indptr, indices, values**2), x**2, squares, "ALG2")()
    lengths = (indptr[1:] - indptr[:-1]).astype(cp.float64)
    return y, cp.sqrt(squares * lengths)


def largest_error(y: cp.ndarray, exact: cp.ndarray, scale: cp.ndarray) -> float:
    """Return the largest error; infinite if an output without nonzeros is not 0 or one is not finite."""
    wrong = cp.abs(y.astype(cp.float64) - exact)
    errors = cp.where(scale > 0, wrong / cp.where(scale > 0, scale, 1.0), cp.where(wrong == 0, 0.0, cp.inf))
    return float(cp.where(cp.isfinite(errors), errors, cp.inf).max())


def sparse(bench: Bench, name: str, dtypes: list[str]) -> list[dict[str, Any]]:
    """Measure both products of one shape against cuSPARSE."""
    matrix = shapes.generate(name)
    operators = {"X w": matrix, "X^T r": shapes.transpose(matrix)}
    rows = []
    for dtype in dtypes:
        resident = None if bench.peer_only else gpu_resident.of_csr(bench.clock, matrix, dtype)
        for product, operator in operators.items():
            times = cusparse_times(bench, operator, dtype)
            algorithm = min(times, key=times.__getitem__)
            plain = sum(a.nbytes for a in csr_arrays(operator, dtype))
            plain += np.dtype(dtype).itemsize * sum(matrix.shape)
            row = {
                "shape": name, "rows": matrix.shape[0], "cols": matrix.shape[1], "nnz": matrix.nnz,
                "values": dtype, "product": product, "peer": algorithm, "peer_us": 1e6 * times[algorithm],
                "peer_of_copy": plain / times[algorithm] / bench.copy,
                "peer_times_us": {known: 1e6 * seconds for known, seconds in times.items()},
            }  # fmt: skip
            if resident is not None:
                entries, x, y = resident.row(product, bench.copy)
                row |= entries
                row["times_faster"] = times[algorithm] / (row["us"] / 1e6)
                row["error"] = largest_error(y, *reference(bench, operator, dtype, x))
            rows.append(row)
            print(table_line(row), flush=True)
    return rows


def coded(bench: Bench, name: str) -> list[dict[str, Any]]:
    """Measure both products with plain values, with ones and with few distinct values, float32."""
    matrix = shapes.generate(name)
    indptr, indices, plain = gpu_resident.host_arrays(matrix, "float32")
    levels = np.rint(plain * LEVELS / 8).clip(-LEVELS // 2, LEVELS // 2 - 1).astype(np.float32)
    rows = []
    for kind, values in (("plain", plain), ("ones", np.ones_like(plain)), ("dictionary", levels)):
        resident = gpu_resident.sparse(bench.clock, (indptr, indices, values), matrix.shape)
        for product in PRODUCTS:
            row = {"shape": name, "values": kind, "product": product}
            row |= resident.row(product, bench.copy)[0]
            row["bytes_per_nonzero"] = resident.format_bytes(product) / matrix.nnz
            rows.append(row)
            print(table_line(row), flush=True)
    return rows


def cublas_times(bench: Bench, matrix: cp.ndarray, product: str) -> dict[str, float]:
    """Return the seconds of cuBLAS gemv by the order of the matrix in memory."""
    dtype = matrix.dtype.name
    rows, cols = matrix.shape if product == "X w" else matrix.shape[::-1]
    copies = gpu_timing.copies_beyond_cache(matrix.nbytes)
    times = {}
    for order in ("row-major", "column-major"):
        laid = [cp.array(matrix, order="C" if order == "row-major" else "F") for _ in range(copies)]
        work = [
            partial(bench.cublas.gemv, X, normal(cols, dtype, seed), cp.empty(rows, dtype), product != "X w")
            for seed, X in enumerate(laid)
        ]
        times[order] = bench.clock.seconds(work)
    return times


def dense_matrix(shape: tuple[int, int], dtype: str) -> cp.ndarray:
    """Return normally distributed numbers, row by row."""
    return normal(shape[0] * shape[1], dtype, 7).reshape(shape)


def dense(bench: Bench, shape: tuple[int, int], dtype: str) -> list[dict[str, Any]]:
    """Measure both products of a dense matrix against cuBLAS."""
    matrix = dense_matrix(shape, dtype)
    resident = None if bench.peer_only else gpu_resident.of_dense(bench.clock, matrix)
    rows = []
    for product in PRODUCTS:
        times = cublas_times(bench, matrix, product)
        order = min(times, key=times.__getitem__)
        size = matrix.nbytes + matrix.itemsize * sum(shape)
        row = {
            "shape": f"dense {shape[0]} x {shape[1]}", "rows": shape[0], "cols": shape[1], "values": dtype,
            "product": product, "peer": order, "peer_us": 1e6 * times[order],
            "peer_of_copy": size / times[order] / bench.copy,
            "peer_times_us": {known: 1e6 * seconds for known, seconds in times.items()},
        }  # fmt: skip
        if resident is not None:
            entries, x, y = resident.row(product, bench.copy)
            row |= entries
            row["times_faster"] = times[order] / (row["us"] / 1e6)
            exact = matrix.astype(cp.float64) if product == "X w" else matrix.T.astype(cp.float64)
            wide = x.astype(cp.float64)
            scale = cp.sqrt((exact**2 @ wide**2) * wide.size)
            row["error"] = largest_error(y, exact @ wide, scale)
        rows.append(row)
        print(table_line(row), flush=True)
    return rows


def upload(bench: Bench, name: str = "reuters", repeats: int = 3) -> list[dict[str, Any]]:
    """Return the seconds from arrays in pinned memory to a matrix ready for products, tuning included."""
    from bmrm.matrix._cuda import Matrix

    matrix = shapes.generate(name)
    arrays = gpu_resident.host_arrays(matrix, "float32")
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        Matrix(*arrays, matrix.shape).synchronize()
        times.append(time.perf_counter() - start)
    size = sum(a.nbytes for a in arrays)
    seconds = statistics.median(times[1:])
    print(f"upload and preparation of {name}: {seconds:.3f} s for {size / 1e6:.0f} MB", flush=True)
    return [{"shape": name, "bytes": size, "seconds": seconds, "first_seconds": times[0]}]


def table_line(row: dict[str, Any]) -> str:
    """Return one line for one product."""
    text = f"{row['shape']:20} {row['values']:10} {row['product']:6}"
    if "peer_us" in row:
        text += f" {row['peer_us']:9.1f} {row['peer_of_copy']:5.0%} {row['peer']:12}"
    if "us" in row:
        text += f" {row['us']:9.1f} {row['of_copy']:5.0%}"
        text += f" {row['times_faster']:6.2f} {row['error']:8.1e}" if "error" in row else ""
        text += f"  {row['plan']}"
    return text


def release() -> None:
    """Release memory that CuPy holds in reserve, for the matrix under test."""
    cp.get_default_memory_pool().free_all_blocks()
    cp.get_default_pinned_memory_pool().free_all_blocks()


def measurements(bench: Bench, wanted: list[str], quick: bool) -> list[tuple[str, Callable[[], list]]]:
    """Return the parts of the results, each with the function that measures its rows."""
    dtypes = ["float32"] if quick else ["float32", "float64"]
    dense_shapes = QUICK_DENSE if quick else DENSE + LARGE_DENSE
    found = [("sparse", partial(sparse, bench, name, dtypes)) for name in wanted]
    found += [("dense", partial(dense, bench, shape, dtype)) for dtype in dtypes for shape in dense_shapes]
    if bench.peer_only:
        return found
    if not quick:
        found += [("coded", partial(coded, bench, name)) for name in CODED if name in wanted]
    if "reuters" in wanted:
        found += [("upload", partial(upload, bench))]
    return found


def run(bench: Bench, wanted: list[str], quick: bool) -> tuple[dict[str, Any], int]:
    """Measure everything; return the results, and the number of failed measurements."""
    results: dict[str, Any] = {"sparse": [], "coded": [], "dense": [], "upload": []}
    failures = 0
    for part, measurement in measurements(bench, wanted, quick):
        try:
            results[part] += measurement()
        except Exception:
            failures += 1
            traceback.print_exc()
        release()
    if not bench.peer_only:
        results["at_most"] = {
            dtype: gpu_figures.geometric_mean(
                row["times_faster"] / row["of_copy"] for row in results["sparse"] if row["values"] == dtype
            )
            for dtype in ("float32", "float64")
        }
        results["aims"] = gpu_figures.figures(results)
        for figure in results["aims"]:
            print(report.line(figure))
    return results, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(shapes.SHAPES), help="comma-separated names")
    parser.add_argument("--quick", action="store_true", help="float32, few dense shapes, fewer replays")
    parser.add_argument("--peer-only", action="store_true", help="measure cuSPARSE and cuBLAS alone")
    parser.add_argument("--out", help="results file; with --peer-only none by default")
    options = parser.parse_args()
    begun = time.perf_counter()
    clock = gpu_timing.Clock(calls=20, replays=5) if options.quick else gpu_timing.Clock()
    bench = Bench(
        clock,
        Cusparse(clock.stream),
        Cublas(clock.stream),
        gpu_timing.copy_bandwidth(clock),
        options.peer_only,
    )
    libraries = {"cusparse": bench.cusparse.version, "cublas": bench.cublas.version}
    device = gpu_timing.device() | libraries
    print(", ".join(f"{key} {value}" for key, value in device.items()))
    print(f"copy bandwidth {bench.copy / 1e9:.0f} GB/s")
    print(
        "shape                values     product   peer us  copy               bmrm us  copy faster    error"
    )
    results, failures = run(bench, options.shapes.split(","), options.quick)
    print(f"{time.perf_counter() - begun:.0f} s in all")
    out = options.out or (None if options.peer_only else report.RESULTS / "spmv_gpu.json")
    if out:
        report.write(out, SECTIONS, device=device, copy_gbs=bench.copy / 1e9, **results)
    sys.exit(f"{failures} measurements failed" if failures else 0)


if __name__ == "__main__":
    main()
