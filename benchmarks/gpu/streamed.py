"""X larger than its device memory: products and a solve whose rows stream from main memory.

    python -m benchmarks.gpu.streamed [--shape reuters-ccat] [--scale 1.0] [--out FILE]

The set is that of thesis_ch5.py, with its hinge at lam = 1e-5, to a certified relative gap of 1e-3. A solve
without a limit shows the memory that it takes; the others get a share of it as `gpu_mem`. For each: blocks,
what streams, seconds to make it resident and to solve it (second runs count), the two products (replayed
graphs), and how close they come to their roof: the bytes that they have to copy at the speed of one large
copy from pinned memory. Needs CuPy.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import cupy as cp
import numpy as np

import bmrm
from benchmarks.common import report
from benchmarks.gpu.thesis_ch5 import LAM, problem
from bmrm.io import Csr

SHARES = (0.75, 0.5, 0.25, 0.1)
TOL = 1e-3
COPY = 1 << 30  # bytes of the copy that is the roof


SECTIONS = """
## X larger than the memory of the GPU

{gpu}; the set {shape} of the thesis, {rows} x {cols}, {nnz} nonzeros, hinge, lam 1e-5, to a relative gap of
1e-3. With no limit a solve takes {whole[bytes]:.0f MB} MB and {whole[passes]} passes, {whole[seconds]:.0f
ms} ms, after {whole[resident_seconds]:.0f ms} ms of upload and choice; its products take
{whole[times][normal]:.2f ms}, {whole[times][transposed]:.2f ms} ms. Below, `gpu_mem` is a share of that
memory. The roof of a product is the time of its copies at the speed of one large copy from pinned memory,
{bus:.1f GB} GB/s; {agree:all certificates agree with each other/certificates contradict}.

[limited]
share = {share:.0%} | MB = {gpu_mem:.0f MB} | blocks that stream = {streamed_blocks} of {blocks} |
pinned MB = {host_bytes:.0f MB} | X w: ms, of roof = {times[normal]:.2f ms}, {of_roof[normal]:.0%} |
X^T r: ms, of roof = {times[transposed]:.2f ms}, {of_roof[transposed]:.0%} |
resident ms = {resident_seconds:.0f ms} | passes, solve = {passes}, {seconds:.0f ms} ms
"""


def bus_bytes() -> float:
    """Return the bytes per second of a copy from pinned memory, the best of some."""
    source, target = cp.cuda.alloc_pinned_memory(COPY), cp.cuda.alloc(COPY)
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    seconds = []
    for _ in range(4):
        begin.record()
        target.copy_from_host_async(source.ptr, COPY, cp.cuda.Stream.null)
        end.record()
        end.synchronize()
        seconds.append(1e-3 * cp.cuda.get_elapsed_time(begin, end))
    return COPY / min(seconds)


def run(X: Csr, y: np.ndarray, gpu_mem: int | None) -> tuple[dict[str, Any], Any]:
    """Train twice on one resident matrix; return the measurements and the matrix."""
    start = time.perf_counter()
    data = bmrm.Dataset(X, y, device="cuda", gpu_mem=gpu_mem, cpu_share=0, tol=TOL)
    placed = time.perf_counter() - start
    bmrm.solve(data, lam=LAM, tol=TOL)
    result = bmrm.solve(data, lam=LAM, tol=TOL)
    return {
        "bytes": data.matrix.nbytes,
        "resident_seconds": placed,
        "seconds": result.timings["total"],
        "product_seconds": result.timings.get("products"),
        "passes": result.n_iter,
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "status": result.status,
    }, data.matrix


def bounded(X: Csr, y: np.ndarray, share: float, taken: int, bus: float) -> dict[str, Any]:
    """Train with a share of the memory that a solve takes."""
    row, matrix = run(X, y, int(share * taken))
    report = matrix.report()
    blocks = report["blocks"]
    copied = {op: sum(block["copied"][op] for block in blocks) for op in ("normal", "transposed")}
    times = {op: matrix.time(op, repeats=3) for op in copied}
    return {
        "share": share,
        "gpu_mem": int(share * taken),
        "peak_bytes": report["peak_bytes"],
        "host_bytes": report["host_bytes"],
        "blocks": len(blocks),
        "streamed_blocks": sum(block["copied"]["normal"] > 0 for block in blocks),
        "prepare_seconds": report["prepare_seconds"],
        "copied": copied,
        "times": times,
        "of_roof": {op: copied[op] / bus / times[op] for op in times},
        **row,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="reuters-ccat", help="a set of thesis_ch5.py")
    parser.add_argument("--scale", type=float, default=1.0, help="share of its rows")
    parser.add_argument("--out", default=report.RESULTS / "streamed.json")
    options = parser.parse_args()
    X, y = problem(options.shape, options.scale)
    bus = bus_bytes()
    cp.get_default_memory_pool().free_all_blocks()
    whole, matrix = run(X, y, None)
    whole["times"] = {op: matrix.time(op) for op in ("normal", "transposed")}
    whole["prepare_peak_bytes"] = matrix.report()["peak_bytes"]
    taken = whole["bytes"]
    del matrix
    rows = [bounded(X, y, share, taken, bus) for share in SHARES]
    ways = [whole, *rows]
    agree = all(a["objective"] >= b["lower_bound"] * (1 - 1e-6) for a in ways for b in ways)
    for row in rows:
        print({key: value for key, value in row.items() if not isinstance(value, dict)}, row["of_roof"])
    report.write(
        options.out,
        SECTIONS,
        gpu=cp.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        shape=options.shape,
        rows=X.shape[0],
        cols=X.shape[1],
        nnz=X.nnz,
        bus=bus,
        whole=whole,
        limited=rows,
        agree=agree,
    )


if __name__ == "__main__":
    main()
