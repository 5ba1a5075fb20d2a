"""Products of a PETSc matrix: `bmrm.petsc.resident_mat` against PETSc's own AIJ, on one rank and on several.

    python -m benchmarks.peers.petsc_mat [--shapes real-sim,grid] [--ranks 1,2] [--device cpu] [--out FILE]

Random matrices of the shapes of shapes.py, each rank with its share of the rows, and "grid", the Laplacian of
a square grid. Ours is made from PETSc's by one call. Both sides are called as KSP and TAO would call them, by
`mult` and `multTranspose`, on one thread per rank. The figure is the processor time of a call, the least of
several that alternate with the other side's, and that of the slowest rank: it includes waiting for other
ranks, which MPI does in a loop. Each product is compared with PETSc's.

With `--device cuda --out petsc_mat_ranks_gpu.json` the peer is `aijcusparse`, vectors are on GPUs, and the
time is that of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report, shapes
from benchmarks.common.cpu_timing import least_seconds
from benchmarks.common.ranks import mpi_words

SIDE = 1000
NEAR = {"float32": 1e-6, "float64": 1e-12}
"""How far a product may be from PETSc's, by the norm."""
NEAR_ON_GPU = {"float32": 1e-4, "float64": 1e-12}

SECTIONS = """
## PETSc's matrix on several ranks

Values in PETSc's matrix (aij, PETSc {petsc}) are doubles, ours are those that the table names; vectors are
doubles. Processor time of the slowest rank, one thread each, ms per product. Several ranks fetch the columns
that their rows touch: `touched` is the share of these in all columns, on the rank with the most.

[rows]
shape, product = {shape}, {product} | ranks = {ranks} | values = {values} | touched = {touched:.3f} |
PETSc ms = {petsc_ms:.3f} | bmrm ms = {bmrm_ms:.3f} | times faster = {times_faster:.2f}
"""

SECTIONS_ON_GPU = """
## PETSc's matrix on several GPUs

Values in PETSc's matrix (aijcusparse, PETSc {petsc}) are doubles, ours are those that the table names;
vectors are doubles, on the GPU of each rank, {gpu}. Time of the slowest rank, ms per product. `touched` is
the share of columns that the rows of a rank touch, on the rank with the most.

[rows]
shape, product = {shape}, {product} | ranks = {ranks} | values = {values} | touched = {touched:.3f} |
PETSc ms = {petsc_ms:.3f} | bmrm ms = {bmrm_ms:.3f} | times faster = {times_faster:.2f}
"""


def save_matrix(name: str, folder: str) -> None:
    """Generate a matrix and save it for the ranks."""
    if name == "grid":
        import scipy.sparse as sp

        line = sp.diags_array([-np.ones(SIDE - 1), 2 * np.ones(SIDE), -np.ones(SIDE - 1)], offsets=[-1, 0, 1])
        X = sp.csr_array(sp.kron(line, sp.eye_array(SIDE)) + sp.kron(sp.eye_array(SIDE), line))
        X.sort_indices()
        parts: tuple[Any, ...] = X.indptr, X.indices, X.data
        columns = SIDE * SIDE
    else:
        made = shapes.generate(name, xp=np)
        parts, columns = (made.indptr, made.indices, made.values), made.shape[1]
    for kind, part in zip(("indptr", "indices", "values"), parts, strict=True):
        np.save(Path(folder, kind), part)
    Path(folder, "columns").write_text(str(columns))


def petscs_matrix(folder: str) -> Any:
    """Return PETSc's matrix of the rows of all ranks."""
    from petsc4py import PETSc

    world = PETSc.COMM_WORLD
    indptr, indices, values = (
        np.load(Path(folder, f"{kind}.npy"), mmap_mode="r") for kind in ("indptr", "indices", "values")
    )
    rows = len(indptr) - 1
    first, last = (rows * rank // world.size for rank in (world.rank, world.rank + 1))
    mine = slice(int(indptr[first]), int(indptr[last]))
    csr = (
        (indptr[first : last + 1] - indptr[first]).astype(PETSc.IntType),
        indices[mine].astype(PETSc.IntType),
        np.array(values[mine], np.float64),
    )
    columns = int(Path(folder, "columns").read_text())
    return PETSc.Mat().createAIJ(((last - first, rows), (None, columns)), csr=csr, comm=world)


def work(folder: str, device: str, repeats: int) -> None:
    """Time the products on this rank; on the first one, write what all have found."""
    from petsc4py import PETSc

    from bmrm.petsc import resident_mat

    world = PETSc.COMM_WORLD.tompi4py()
    stored = petscs_matrix(folder)
    ours = {kind: resident_mat(stored, device=device, dtype=kind, threads=1) for kind in NEAR}
    if device != "cpu":
        stored = stored.convert("aijcusparse")
    w, r = stored.createVecs()
    for vec, seed in ((w, 0), (r, 1)):
        vec.setArray(np.random.default_rng(seed + 2 * world.rank).standard_normal(vec.getLocalSize()))
    rows = []
    for product, method, given, out in (("X w", "mult", w, r), ("X^T r", "multTranspose", r, w)):
        petscs, found = out.duplicate(), {kind: out.duplicate() for kind in NEAR}
        calls = {kind: partial(getattr(ours[kind], method), given, found[kind]) for kind in NEAR}
        calls["petsc"] = partial(getattr(stored, method), given, petscs)
        for call in calls.values():  # the first of each makes what products keep
            call()
        if device == "cpu":
            least = least_seconds(calls, repeats)
        else:
            from benchmarks.peers.petsc_mat_gpu import seconds

            least = seconds(calls)
        slowest = {kind: max(world.allgather(took)) for kind, took in least.items()}
        for kind, near in (NEAR if device == "cpu" else NEAR_ON_GPU).items():
            away = found[kind].copy()
            away.axpy(-1.0, petscs)
            error = away.norm() / petscs.norm()
            if not error <= near:
                raise SystemExit(f"{product}, {kind}: {error:.1e} from PETSc's product")
            touched = max(world.allgather(ours[kind].getPythonContext().placed.matrix.shape[1]))
            rows.append(
                {
                    "product": product,
                    "values": kind,
                    "ranks": world.size,
                    "touched": touched / stored.getSize()[1],
                    "petsc_ms": 1e3 * slowest["petsc"],
                    "bmrm_ms": 1e3 * slowest[kind],
                    "times_faster": slowest["petsc"] / slowest[kind],
                    "error": error,
                }
            )
    if world.rank == 0:
        Path(folder, "found.json").write_text(json.dumps(rows))


def measure(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time one matrix on each number of ranks."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        save_matrix(name, folder)
        program = [sys.executable, "-m", __spec__.name, "--worker", folder]
        program += ["--device", options.device, "--repeats", str(options.repeats)]
        for ranks in options.ranks.split(","):
            environ = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run([*mpi_words(ranks), *program], env=environ, check=True)
            for row in json.loads(Path(folder, "found.json").read_text()):
                rows.append({"shape": name, **row})
                print(
                    f"{name:10} {row['product']:6} {row['ranks']} ranks, {row['values']}, touched "
                    f"{row['touched']:.3f}: PETSc {row['petsc_ms']:8.3f} ms, bmrm {row['bmrm_ms']:8.3f} ms, "
                    f"{row['times_faster']:.2f} times",
                    flush=True,
                )
    return rows


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="real-sim,covertype,news20,grid")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", default=report.RESULTS / "petsc_mat.json")
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.device, options.repeats)
        return
    rows = [row for name in options.shapes.split(",") for row in measure(name, options)]
    from petsc4py import PETSc

    from bmrm.matrix.gpu.devices import gpu

    report.write(
        options.out,
        SECTIONS if options.device == "cpu" else SECTIONS_ON_GPU,
        petsc=".".join(map(str, PETSc.Sys.getVersion())),
        gpu=None if options.device == "cpu" else (gpu() or {})["name"],
        rows=rows,
    )


if __name__ == "__main__":
    main()
