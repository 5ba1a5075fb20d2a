"""Cost of the bridge between PETSc's vectors and the resident matrix, against a bare copy of the vector.

    python -m benchmarks.peers.petsc_bridge [--sizes 100000,1000000,10000000] [--out FILE]

On the CPU the bridge uses PETSc's own arrays: the time is that of taking them and giving them back. A machine
with a GPU (and CuPy, for the bare copies) has two more ways: vectors on the host, through the matrix's pinned
buffers, against pinned copies of the long vector there and of the short one back; and vectors on the device,
by the conversion kernels, against a device-to-device copy of the same number of doubles. For these the matrix
has one value per row, and the time of its own product is subtracted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from petsc4py import PETSc

from benchmarks.common import report
from bmrm.io import Csr
from bmrm.petsc.bridge import host_arrays

ROWS = 1024
WAYS = {
    "cpu": "CPU, shared array / copy in memory",
    "host": "GPU, vectors on the host / pinned copy",
    "device": "GPU, vectors on the GPU / device copy",
}


SECTIONS = """
## The bridge to PETSc

{gpu:The GPU: *./}

[rows]
way / against = {what} | doubles = {size} | bridge us = {bridge:.2f us} | copy us = {copy:.1f us} |
ratio = {ratio:.3f}
"""


def median(body: Callable[[], object], repeats: int = 30) -> float:
    """Return the median seconds of a call."""
    body()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        body()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def on_cpu(size: int) -> dict:
    """Time the use of a vector of that size and of a short one, without a product."""
    x, y = PETSc.Vec().createSeq(size), PETSc.Vec().createSeq(ROWS)
    source, target = np.ones(size), np.empty(size)

    def bridge() -> None:
        with host_arrays(x, y):
            pass

    copy = median(lambda: np.copyto(target, source))
    took = median(bridge)
    return {"size": size, "bridge": took, "copy": copy, "ratio": took / copy}


def thin(size: int) -> Csr:
    """Return a matrix of few rows and many columns, with one value per row."""
    columns = np.linspace(0, size - 1, ROWS).astype(np.int32)
    return Csr(np.arange(ROWS + 1), columns, np.full(ROWS, 2.0, np.float32), (ROWS, size))


def on_gpu(size: int) -> list[dict]:
    """Time both ways onto a GPU with a float32 matrix."""
    import cupy

    from bmrm.matrix import _cuda

    X = thin(size)
    matrix = _cuda.Matrix(X.indptr, X.indices, X.data, X.shape, dtype=np.float32)
    w, z = np.random.default_rng(0).standard_normal(size), np.empty(ROWS)

    def beside_the_product() -> float:
        began = time.perf_counter()
        matrix.matvec(w, z)
        return time.perf_counter() - began - 1e-3 * matrix.last_times["product"]

    for _ in range(5):
        beside_the_product()
    host = statistics.median(beside_the_product() for _ in range(30))
    pinned = cupy.cuda.alloc_pinned_memory(8 * size)
    there, back = cupy.empty(size), cupy.empty(ROWS)

    def bare() -> None:
        there.data.copy_from_host(pinned.ptr, 8 * size)
        back.data.copy_to_host(pinned.ptr, 8 * ROWS)

    copy = median(bare)
    matrix.use_stream(cupy.cuda.get_current_stream().ptr)
    wide, narrow = cupy.asarray(w), cupy.asarray(w.astype(np.float32))
    out, out32, other = cupy.empty(ROWS), cupy.empty(ROWS, np.float32), cupy.empty(size)

    def device(body: Callable[[], object]) -> float:
        graph_free = []
        for _ in range(30):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            for _ in range(20):
                body()
            end.record()
            end.synchronize()
            graph_free.append(1e-3 * cupy.cuda.get_elapsed_time(start, end) / 20)
        return statistics.median(graph_free)

    with_bridge = device(lambda: matrix.apply_wide("normal", wide, out))
    without = device(lambda: matrix.apply("normal", narrow, out32))
    plain = device(lambda: cupy.copyto(other, wide))
    took = with_bridge - without
    return [
        {"way": "host", "size": size, "bridge": host, "copy": copy, "ratio": host / copy},
        {"way": "device", "size": size, "bridge": took, "copy": plain, "ratio": took / plain},
    ]


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100000,1000000,10000000")
    parser.add_argument("--out", default=report.RESULTS / "petsc_bridge.json")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    rows = [{"way": "cpu", **on_cpu(size)} for size in sizes]
    from bmrm.matrix.gpu.devices import gpu

    device = gpu()
    if device is not None:
        rows += [row for size in sizes for row in on_gpu(size)]
    for row in rows:
        row["what"] = WAYS[row["way"]]
        print(
            f"{row['way']:6} {row['size']:>9} doubles: bridge {1e6 * row['bridge']:9.2f} us, "
            f"copy {1e6 * row['copy']:9.2f} us, ratio {row['ratio']:.3f}"
        )
    report.write(options.out, SECTIONS, gpu=None if device is None else device["name"], rows=rows)


if __name__ == "__main__":
    main()
