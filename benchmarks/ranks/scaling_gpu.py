"""A solve on 1, 2, 4 … GPUs of one host, one rank each: seconds by part, against docs/scaling.md's model.

    python -m benchmarks.ranks.scaling_gpu [--gpus 1,2] [--scale 8] [--repeats 5] [--out FILE]

Random rows of the shape of Reuters (shapes.py), `--scale` times as many: each rank generates all of them on
its GPU and keeps its share. Every run is `mpiexec -n R`; hinge at lam 1e-5 to an absolute gap of 1e-4, with
data, vectors and cuts on the GPUs. The figure is the median of the seconds that the slowest rank takes. As a
control the ranks then make the same number of iterations, each on its own rows, at the same time, as
independent processes. The model is the first run's iteration, with the part that grows with rows divided by
R, plus the separately timed exchange. Needs CuPy and an mpiexec.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.common.ranks import mpi_words

LAM, GAP = 1e-5, 1e-4
WANTED = {2: 1.7, 4: 3.2}
NO_BINDING = {
    # Open MPI would give each of two ranks one core, for its helper threads too.
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "NCCL_NVLS_ENABLE": "0",  # its multicast is of no use to sends and receives
}


SECTIONS = """
## Several GPUs

{rows[0][gpu]}s of one host, one rank each. Hinge on {rows[0][rows]} x {rows[0][columns]} with
{rows[0][nnz]} nonzeros, lam {lam:g}, to an absolute gap of {gap:g}, resident; medians. The control is the
same number of iterations of each GPU on its own rows, at the same time, with nothing shared. The model is
that of docs/scaling.md.

[rows]
GPUs = {gpus} | ms = {seconds:.1f ms} | iterations = {iterations} | us each = {iteration_us:.0f} |
us modelled = {model_us:.0f} | us of communication = {exchange_seconds:.0f us} | faster = {faster:.2f} |
control = {control_faster:.2f} | by = {gradients_by}

[aims]
"""


def exchange_seconds(shard: Any, repeats: int = 200) -> float:
    """Time what an iteration adds up over the ranks: a gradient on the devices, and six short sums."""
    from bmrm import losses
    from bmrm.linear.backends.gpu.cuts import gpu_cuts
    from bmrm.linear.backends.gpu.passes import GpuPasses
    from bmrm.linear.backends.ranks.gpu import shared_passes

    group = shard.group
    if group.size == 1:
        return 0.0
    m, d = shard.matrix.shape
    cuts = gpu_cuts(shard, shard.matrix, losses.get("hinge"), np.ones(m), 1.0 / m, None, None, in_rows=False)
    steps = GpuPasses(cuts, ahead=True)
    alone = steps.problem
    w = alone.weights(np.zeros(d))
    z = alone.fresh_margins(w)
    starts = np.array([0, m], np.int64)

    def seconds(problem: Any) -> float:
        group.comm.Barrier()
        began = time.perf_counter()
        for _ in range(repeats):
            problem.cut(0, starts, z, None, w, w, 0.0)
            for _ in range(5):
                problem.slope(z, z, 0.0, 0.0)
        return (time.perf_counter() - began) / repeats

    alone.reserve(1)
    seconds(alone)
    before = seconds(alone)
    shared = shared_passes(shard.links(), steps).problem
    seconds(shared)
    return seconds(shared) - before


def work(scale: float, repeats: int, out: str) -> None:
    """Solve on this rank; on the first rank, write the measurements."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    import cupy

    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    import bmrm
    from benchmarks.gpu import thesis_ch5
    from bmrm.distributed import Group, Shard
    from bmrm.io import Csr

    began = time.perf_counter()
    X, y = thesis_ch5.problem("reuters-ccat", scale)
    cuts = np.searchsorted(X.indptr, np.arange(size + 1) * X.indptr[-1] // size)
    first, last = int(cuts[rank]), int(cuts[rank + 1])
    start, stop = int(X.indptr[first]), int(X.indptr[last])
    own = Csr(
        X.indptr[first : last + 1] - start,
        X.indices[start:stop],
        X.data[start:stop],
        (last - first, X.shape[1]),
    )
    made = time.perf_counter()
    group = Group(world)
    shard = Shard(own, y[first:last], comm=group, device="cuda", tol=GAP)
    linked = shard.links()
    resident = time.perf_counter()
    options: dict[str, Any] = {"lam": LAM, "tol": GAP, "tol_kind": "abs"}
    bmrm.solve(shard, **options)
    runs = []
    for _ in range(repeats):
        world.Barrier()
        result = bmrm.solve(shard, **options)
        runs.append((world.allreduce(result.timings["total"], op=MPI.MAX), result))
    runs.sort(key=lambda run: run[0])
    seconds, result = runs[len(runs) // 2]
    lone = Shard(own, y[first:last], comm=MPI.COMM_SELF, device=f"cuda:{shard.matrix.device}", tol=GAP)
    controls = []
    for _ in range(repeats + 1):
        world.Barrier()
        alone = bmrm.solve(lone, lam=LAM, tol=1e-12, max_iter=result.n_iter)
        controls.append(world.allreduce(alone.timings["total"], op=MPI.MAX))
    exchange = exchange_seconds(shard)
    if rank == 0:
        found = {
            "gpus": size,
            "gpu": cupy.cuda.runtime.getDeviceProperties(rank)["name"].decode(),
            "gradients_by": "NCCL" if linked.nccl is not None else "none" if size == 1 else "MPI",
            "rows": shard.shape[0],
            "columns": shard.shape[1],
            "nnz": shard.nnz,
            "seconds": seconds,
            "all_seconds": [run[0] for run in runs],
            "control_seconds": statistics.median(controls[1:]),
            "iterations": result.n_iter,
            "status": result.status,
            "objective": result.objective,
            "gap": result.gap,
            "parts": result.timings,
            "exchange_seconds": exchange,
            "make_seconds": made - began,
            "resident_seconds": resident - made,
            "bit_identical": len({run[1].w.tobytes() for run in runs}) == 1,
        }
        Path(out).write_text(json.dumps(found))


def modelled(one: dict[str, Any], row: dict[str, Any]) -> float:
    """Return seconds per iteration: rows, divided; QP and bundle, on every rank; the exchange."""
    parts, passes = one["parts"], one["iterations"]
    by_rows = sum(parts[name] for name in ("products", "loss", "search")) / passes
    fixed = one["seconds"] / passes - by_rows
    return float(by_rows / row["gpus"] + fixed + row["exchange_seconds"])


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", default="1,2")
    parser.add_argument("--scale", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", default=report.RESULTS / "scaling_gpu.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.scale, options.repeats, options.worker)
        return
    rows: list[dict[str, Any]] = []
    figures = []
    for gpus in map(int, options.gpus.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found = str(Path(folder) / "found.json")
            size = ["--scale", str(options.scale), "--repeats", str(options.repeats)]
            program = [sys.executable, "-m", __spec__.name, *size, "--worker", found]
            environ = {**os.environ, **NO_BINDING, "OMP_NUM_THREADS": "1"}
            subprocess.run([*mpi_words(gpus), *program], env=environ, check=True)
            row = json.loads(Path(found).read_text())
        rows.append(row)
        one, each = rows[0], row["seconds"] / row["iterations"]
        row["iteration_us"], row["model_us"] = 1e6 * each, 1e6 * modelled(one, row)
        row["faster"] = one["seconds"] / row["seconds"]
        row["control_faster"] = one["control_seconds"] / row["control_seconds"]
        print(
            f"{gpus} GPUs: {row['seconds']:.4f} s, {row['iterations']} iterations of {1e6 * each:.0f} us "
            f"(model {row['model_us']:.0f}), {row['faster']:.2f} times "
            f"(control {row['control_faster']:.2f}); "
            f"exchange {1e6 * row['exchange_seconds']:.0f} us by {row['gradients_by']}; "
            f"{row['status']}, gap {row['gap']:.3g}, bit-identical {row['bit_identical']}",
            flush=True,
        )
        if gpus in WANTED:
            figures.append(report.aim(f"{gpus} GPUs / one", row["faster"], WANTED[gpus]))
        report.write(options.out, SECTIONS, lam=LAM, gap=GAP, rows=rows, aims=figures)


if __name__ == "__main__":
    main()
