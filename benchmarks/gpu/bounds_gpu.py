"""Limits of sparse products on a GPU: a launch, the bytes and the gathers, each alone.

    python -m benchmarks.gpu.bounds_gpu [--shapes reuters,kdd99] [--out FILE]

For each product of spmv_gpu.py, float32, in one run: cuSPARSE, bmrm, and the necessary parts of a product,
from bounds.cu, each at the fastest of several launch shapes:

read      reads as many bytes as the format that bmrm chose has, and writes the outputs;
gathers   multiplies every nonzero by its input and adds it to one sum per thread, without rows: by local
          indices, with the inputs in shared memory, tile by tile, or by indices of four bytes from global
          memory. If rows are split into several tiles, it writes and reads one sum per piece of a row.

The gathers are left out if bmrm chose a kernel that gathers in another way (`binned`, in two passes;
`narrow`, without bank conflicts): there the bound is the read. The bound of a product is the larger of both,
or bmrm's own time if that is less. The last line has the geometric mean of cuSPARSE over the bounds.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_figures, gpu_timing, report, shapes
from benchmarks.common.gpu_timing import normal
from benchmarks.gpu import gpu_resident, spmv_gpu
from benchmarks.gpu.nvidia_peers import Cublas, Cusparse

EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
SHARED = 225 << 10  # bytes of a multiprocessor that blocks share
LAUNCHES = [(1, 512), (1, 1024), (2, 512), (2, 1024), (4, 256), (4, 512), (8, 256), (16, 128)]
SHORT_TILE, SPLITS = 57_000, 3  # most inputs of a tile; how many numbers of tiles are tried


SECTIONS = """
## Limits of the products on a GPU

{device[name]}, compute capability {device[compute_capability]}, driver for CUDA {device[driver]}, cuSPARSE
{device[cusparse]}; a copy on the device moves {copy_gbs:.0f} GB/s, counting both reads and writes.

Each product, float32, and its two necessary parts, each alone and at the fastest of several launch shapes:
reading the bytes of its format and writing the outputs; and multiplying every nonzero by its input, from
shared memory tile by tile or from global memory, without rows. `At most` is the speed-up over cuSPARSE if a
product took as long as the slower part, or its present time if that is less: {at_most:.2f} in the geometric
mean; the products reach {times_faster:.2f}. A launch that follows another takes {launch_us:.2f} us.

[rows]
shape, product = {shape}, {product} | cuSPARSE us = {peer_us:.1f} | bmrm us = {us:.1f} |
read us = {read_us:.1f} | gathers us = {gathers_us:.1f} | times faster = {times_faster:.2f} |
at most = {at_most:.2f}
"""


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_int), ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_int), ("rest", ctypes.c_char * 60),
    ]  # fmt: skip


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class Kernels:
    """The kernels of bounds.cu, launched so that they may begin early."""

    def __init__(self, clock: gpu_timing.Clock) -> None:
        self.clock = clock
        source = Path(__file__).with_name("bounds.cu").read_text()
        self.module = cp.RawModule(code=source, options=("-std=c++17",))
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.multiprocessors = int(gpu_timing.properties()["multiProcessorCount"])

    def call(
        self, name: str, blocks: int, threads: int, arguments: Iterable[Any], shared: int = 0
    ) -> Callable[[], None]:
        """Return a launch of `blocks` per multiprocessor; arguments: arrays, int (32 bits), np.int64."""
        kernel = self.module.get_function(name)
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        kept = list(arguments)
        values: list[Any] = [
            ctypes.c_void_p(a.data.ptr) if isinstance(a, cp.ndarray)
            else ctypes.c_int64(int(a)) if isinstance(a, np.int64)
            else ctypes.c_int(a)
            for a in kept
        ]  # fmt: skip
        addresses = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        early = _Attribute(EARLY, b"", 1, b"")
        grid = (blocks * self.multiprocessors, 1, 1)
        stream = self.clock.stream.ptr
        config = _Config(grid, (threads, 1, 1), shared, stream, ctypes.addressof(early), 1)
        function = ctypes.c_void_p(kernel.kernel.ptr)

        def launch(*_kept: Any) -> None:
            status = self.driver.cuLaunchKernelEx(ctypes.byref(config), function, addresses, None)
            if status:
                raise RuntimeError(f"cuLaunchKernelEx({name}) failed with status {status}")

        return partial(launch, kept, values, early)

    def best(self, tries: Iterable[list[Callable[[], None]]]) -> float:
        """Return the seconds of the fastest; each is a list of calls that take turns."""
        return min(self.clock.seconds(calls) for calls in tries)


def one_after_another(*calls: Callable[[], None]) -> Callable[[], None]:
    """Return a call that makes all of them."""

    def run() -> None:
        for call in calls:
            call()

    return run


def read_seconds(kernels: Kernels, size: int, outputs: int) -> float:
    """Return the seconds to read `size` bytes and to write the outputs."""
    copies = gpu_timing.copies_beyond_cache(size)
    matrices = [cp.zeros(size // 4 + 4, np.uint32) for _ in range(copies)]
    out = cp.empty(outputs, np.float32)
    return kernels.best(
        [
            kernels.call(
                "read_alone", blocks, threads, (matrix, np.int64(size // 16), out, np.int64(outputs))
            )
            for matrix in matrices
        ]
        for blocks, threads in LAUNCHES
    )


def tiled_seconds(kernels: Kernels, matrix: shapes.Csr, tiles: int) -> float:
    """Return the seconds to gather from tiles in shared memory, writing and reading pieces of rows.

    The reading begins early as that of a matrix does, which makes the bound no larger.
    """
    rows, columns = matrix.shape
    width = -(-columns // tiles // 4) * 4
    tile = (matrix.indices // width).astype(cp.int64)
    piece = tile * rows + shapes.row_of_each(cp, matrix)
    order = cp.argsort(piece)
    pieces = rows if tiles == 1 else int(cp.unique(piece).size)
    counts = cp.bincount(tile, minlength=tiles).get()
    starts = np.concatenate(([0], np.cumsum((counts + 3) // 4 * 4)))
    kind = "bytes" if width <= 256 else "shorts"
    index = cp.zeros(int(starts[-1]), np.uint8 if kind == "bytes" else np.uint16)
    value = cp.zeros(int(starts[-1]), np.float32)
    place = cp.arange(matrix.nnz) + cp.asarray(starts[:-1] - (np.cumsum(counts) - counts))[tile[order]]
    index[place], value[place] = (matrix.indices % width)[order], matrix.values[order]
    copies = gpu_timing.copies_beyond_cache(index.nbytes + value.nbytes)
    sets = [(index.copy(), value.copy()) for _ in range(copies)]
    quads = cp.asarray(starts // 4)
    # Tiles are copied sixteen bytes at a time, the last one to beyond its end.
    x, sums = normal(columns + 64, "float32", 0), cp.empty(pieces + 4, np.float32)
    y = cp.empty(rows, np.float32)
    shared = 4 * width + 64
    tries = []
    for blocks, threads in LAUNCHES:
        if blocks * shared > SHARED:
            continue
        calls = []
        for a, v in sets:
            arguments = (a, v, quads, tiles, width, x, columns, sums, np.int64(pieces))
            calls.append(kernels.call(f"gather_by_{kind}", blocks, threads, arguments, shared))
        if tiles > 1:
            adding = kernels.call("read_alone", 2, 256, (sums, np.int64(pieces // 4), y, np.int64(rows)))
            calls = [one_after_another(call, adding) for call in calls]
        tries.append(calls)
    return kernels.best(tries)


def far_seconds(kernels: Kernels, matrix: shapes.Csr) -> float:
    """Return the seconds to gather from global memory."""
    rows, columns = matrix.shape
    count = matrix.nnz // 4
    index = matrix.indices[: 4 * count].astype(np.uint32)
    value = matrix.values[: 4 * count].astype(np.float32)
    copies = gpu_timing.copies_beyond_cache(index.nbytes + value.nbytes)
    sets = [(index.copy(), value.copy()) for _ in range(copies)]
    x, y = normal(columns, "float32", 0), cp.empty(rows, np.float32)
    return kernels.best(
        [
            kernels.call("gather_from_afar", blocks, threads, (a, v, np.int64(count), x, y, np.int64(rows)))
            for a, v in sets
        ]
        for blocks, threads in LAUNCHES
    )


def bounds(bench: spmv_gpu.Bench, kernels: Kernels, name: str) -> list[dict[str, Any]]:
    """Measure both products of one shape, and their limits."""
    matrix = shapes.generate(name)
    resident = gpu_resident.of_csr(bench.clock, matrix, "float32")
    found = []
    for product, operator in (("X w", matrix), ("X^T r", shapes.transpose(matrix))):
        rows, columns = operator.shape
        ours = resident.row(product, bench.copy)[0]
        peer = min(spmv_gpu.cusparse_times(bench, operator, "float32").values())
        row: dict[str, Any] = {"shape": name, "product": product, "peer_us": 1e6 * peer, "us": ours["us"]}
        row["read_us"] = 1e6 * read_seconds(kernels, ours["bytes"] - 4 * rows, rows)
        gathers = [row["read_us"]]
        if resident.chosen[product]["plan"]["kernel"] not in ("binned", "narrow"):
            fewest = -(-columns // SHORT_TILE)
            numbers = range(fewest, fewest + SPLITS) if fewest > 1 else [2**k for k in range(SPLITS)]
            seconds = [tiled_seconds(kernels, operator, tiles) for tiles in numbers]
            row["gathers_us"] = 1e6 * min(*seconds, far_seconds(kernels, operator))
            gathers.append(row["gathers_us"])
        row["bound_us"] = min(row["us"], max(gathers))
        row["times_faster"], row["at_most"] = row["peer_us"] / row["us"], row["peer_us"] / row["bound_us"]
        found.append(row)
        gathered = f"{row['gathers_us']:9.1f}" if "gathers_us" in row else " " * 9
        print(
            f"{name:18} {product:6} {row['peer_us']:9.1f} {row['us']:9.1f} {row['read_us']:9.1f} {gathered}"
            f" {row['times_faster']:6.2f} {row['at_most']:6.2f}",
            flush=True,
        )
        spmv_gpu.release()
    return found


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(shapes.SHAPES), help="comma-separated names")
    parser.add_argument("--out", default=report.RESULTS / "bounds_gpu.json")
    options = parser.parse_args()
    clock = gpu_timing.Clock()
    bench = spmv_gpu.Bench(
        clock, Cusparse(clock.stream), Cublas(clock.stream), gpu_timing.copy_bandwidth(clock), peer_only=False
    )
    kernels = Kernels(clock)
    launch = kernels.best([[kernels.call("launch_alone", 1, 128, (0,))]])
    print(f"a launch after another: {1e6 * launch:.2f} us")
    print("shape              product cuSPARSE us  bmrm us      read   gathers faster at most")
    rows = [row for name in options.shapes.split(",") for row in bounds(bench, kernels, name)]
    means = {key: gpu_figures.geometric_mean(row[key] for row in rows) for key in ("times_faster", "at_most")}
    print(f"geometric means: {means['times_faster']:.2f}, at most {means['at_most']:.2f}")
    device = gpu_timing.device() | {"cusparse": bench.cusparse.version}
    report.write(
        options.out,
        SECTIONS,
        device=device,
        copy_gbs=bench.copy / 1e9,
        launch_us=1e6 * launch,
        rows=rows,
        **means,
    )


if __name__ == "__main__":
    main()
