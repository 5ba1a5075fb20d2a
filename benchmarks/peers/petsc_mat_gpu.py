"""Products of a PETSc matrix on a GPU: `bmrm.petsc.resident_mat` against PETSc's own `aijcusparse`.

    python -m benchmarks.peers.petsc_mat_gpu [--shapes reuters,kdd99] [--out FILE]

Random matrices of the shapes of shapes.py. Both sides are called as KSP and TAO would call them, by `mult`
and `multTranspose` of PETSc matrices with PETSc's CUDA vectors of doubles. The time is that of a run of such
calls up to the end of the device's work, including calls and conversions, in turns with the peer's. PETSc's
matrix holds doubles; it multiplies by the transpose as it does by default, and by a stored one
(`-mat_form_explicit_transpose`). Ours holds floats or doubles. Each product is compared with PETSc's. Needs
CuPy and a PETSc with CUDA.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import cupy as cp
import numpy as np
import scipy.sparse as sp
from petsc4py import PETSc

from benchmarks.common import report, shapes
from bmrm.matrix.gpu.devices import gpu
from bmrm.petsc import resident_mat

CALLS, TURNS = 20, 7
NEAR = {"float32": 1e-4, "float64": 1e-12}
"""How far a product may be from PETSc's, by the norm."""
WANTED = {"X w": 2.0, "X^T r": 10.0, "X^T r, stored": 2.0}
"""Times faster than PETSc, with a matrix of floats."""


SECTIONS = """
## PETSc's matrix on a GPU

[aims]

The GPU: {gpu}; PETSc {petsc}. Its `aijcusparse` holds doubles, ours the values that the table names; both
sides use PETSc's vectors of doubles.

[rows]
shape = {shape} | product = {product} | values = {values} | PETSc us = {petsc_us:.1f} |
bmrm us = {bmrm_us:.1f} | times faster = {times_faster:.2f}
"""


def made(name: str) -> sp.csr_matrix:
    """Generate a matrix on the device and copy it to the host."""
    on_device = shapes.generate(name)
    parts = [part.get() for part in (on_device.values, on_device.indices, on_device.indptr)]
    parts[2] = parts[2].astype(np.int32)
    del on_device
    cp.get_default_memory_pool().free_all_blocks()
    return sp.csr_matrix(tuple(parts), (len(parts[2]) - 1, shapes.SHAPES[name].cols))


def peer(X: sp.csr_matrix, *, stored: bool) -> PETSc.Mat:
    """Return PETSc's matrix on the GPU, with a stored transpose if wanted."""
    A = PETSc.Mat().createAIJ(X.shape, csr=(X.indptr, X.indices, X.data), comm=PETSc.COMM_SELF)
    A.convert("aijcusparse")
    if stored:
        A.setOptionsPrefix("stored_")
        PETSc.Options("stored_")["mat_form_explicit_transpose"] = True
        A.setFromOptions()
    return A


def seconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of a call of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 1):
        for name, call in calls.items():
            cp.cuda.Device().synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            cp.cuda.Device().synchronize()
            if turn:  # the first makes what products keep
                times[name].append((time.perf_counter() - began) / CALLS)
    return {name: statistics.median(found) for name, found in times.items()}


def away(found: PETSc.Vec, wanted: PETSc.Vec) -> float:
    """Return the distance of two vectors, relative to the norm of the second."""
    difference = found.duplicate()
    found.copy(difference)
    difference.axpy(-1.0, wanted)
    return float(difference.norm() / wanted.norm())


def measure(name: str) -> list[dict[str, Any]]:
    """Time the products of one shape."""
    X = made(name)
    plain, stored = peer(X, stored=False), peer(X, stored=True)
    rng = np.random.default_rng(0)
    w, r = plain.createVecs()
    w.setArray(rng.standard_normal(X.shape[1]))
    r.setArray(rng.standard_normal(X.shape[0]))
    rows = []
    for dtype in NEAR:
        A = resident_mat(X.astype(dtype), device="cuda")
        gradient, margins = A.createVecs()
        for product, theirs, ours, given, out in (
            ("X w", plain.mult, A.mult, w, margins),
            ("X^T r", plain.multTranspose, A.multTranspose, r, gradient),
            ("X^T r, stored", stored.multTranspose, A.multTranspose, r, gradient),
        ):
            wanted = out.duplicate()
            took = seconds({"petsc": partial(theirs, given, wanted), "bmrm": partial(ours, given, out)})
            error = away(out, wanted)
            if not error <= NEAR[dtype]:
                raise SystemExit(f"{name}, {product}, {dtype}: {error:.1e} from PETSc's product")
            row = {
                "shape": name,
                "product": product,
                "values": dtype,
                "nnz": X.nnz,
                "petsc_us": 1e6 * took["petsc"],
                "bmrm_us": 1e6 * took["bmrm"],
                "times_faster": took["petsc"] / took["bmrm"],
                "error": error,
            }
            rows.append(row)
            print(
                f"{name:12} {product:14} {dtype}: PETSc {row['petsc_us']:9.1f} us, "
                f"bmrm {row['bmrm_us']:8.1f} us, {row['times_faster']:6.2f} times",
                flush=True,
            )
        A.destroy()
    plain.destroy()
    stored.destroy()
    return rows


def main() -> None:
    """Print the table, the figures and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="reuters,kdd99,news20,real-sim,covertype")
    parser.add_argument("--out", default=report.RESULTS / "petsc_mat_gpu.json")
    options = parser.parse_args()
    rows = [row for name in options.shapes.split(",") for row in measure(name)]
    device = gpu()
    assert device is not None
    figures = [
        report.aim(f"PETSc / bmrm, float32, {row['shape']} {row['product']}", row["times_faster"],
                           WANTED[row["product"]])
        for row in rows if row["values"] == "float32"
    ]  # fmt: skip
    version = ".".join(map(str, PETSc.Sys.getVersion()))
    report.write(options.out, SECTIONS, gpu=device["name"], petsc=version, rows=rows, aims=figures)


if __name__ == "__main__":
    main()
