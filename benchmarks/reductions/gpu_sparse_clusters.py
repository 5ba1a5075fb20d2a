"""Passes of k-means over sparse rows on the CPU, on a GPU, and in PyTorch on the same card.

    python -m benchmarks.reductions.gpu_sparse_clusters [--out FILE]

A pass labels all rows, and adds up sums, weights and inertia; one of seeding measures all rows against five
candidates. Ours take centres from main memory and return sums there, so their times are those of whole calls.
PyTorch's pass is a product in float32 of the compressed rows with the centres, minima, and an index_add of
all stored values, between two events, and everything stays on the device. ``compiled`` is the row function
`sparse_kmeans_step` over rows that a `bmrm.Dataset` holds on the GPU: sums as users write them, without
labels that are proven, and its results return to main memory too. Medians of some calls. Labels are compared
with those of the CPU, and of the first rows with float64.

The times are what ``bmrm/unsupervised/clusters/work.py`` predicts: ``opening`` is the upload, with all that
is done once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import bmrm
from benchmarks.common import report
from benchmarks.reductions.gpu_clusters import seconds_between_events, seconds_of_calls
from benchmarks.reductions.programs import sparse_kmeans_step, sparse_rows
from bmrm.base.threads import usable_cores
from bmrm.distributed.reading import read_row_set
from bmrm.distributed.row_set import RowSet
from bmrm.unsupervised.clusters.cpu import HostClusters
from bmrm.unsupervised.clusters.gpu import DeviceClusters

SHAPES = (
    (5_000, 2_000, 50, 10),
    (20_000, 10_000, 100, 20),
    (50_000, 50_000, 40, 64),
    (100_000, 100, 10, 8),
    (100_000, 1_000, 10, 100),
    (400_000, 1_000, 20, 32),
    (1_000_000, 10_000, 30, 32),
    (1_000_000, 2_000, 10, 300),
)
"""Rows, columns, stored values per row, clusters."""

CANDIDATES = 5
REPEATS = 10
CHECKED_ROWS = 2_000


SECTIONS = """
## Sparse k-means on a GPU

{gpu}. A whole pass over compressed rows of float32: labels that are exact in float64, sums and inertia,
from and to main memory. PyTorch's product, minima and index_add are in float32 and stay on the GPU. The CPU
has {cores} threads. The seeding columns are a pass with five candidates. The row function is compiled
from Python (`sparse_kmeans_step` of `benchmarks/reductions/programs.py`), over rows that stay on the GPU; its
labels are not proven. It takes 1.3 to 25 times as long as the pass of `KMeans`, which stays written by hand.

[rows]
rows, clusters = {rows} x {columns}, {stored/rows:.0f} per row, k {k} | ms = {seconds[gpu]:.3g ms} |
PyTorch ms = {seconds[torch]:.3g ms} | row function ms = {seconds[compiled]:.3g ms} |
CPU ms = {seconds[cpu]:.3g ms} | seeding ms = {seconds[gpu_seeding]:.3g ms} |
CPU seeding ms = {seconds[cpu_seeding]:.3g ms} |
times faster = {seconds[torch]/seconds[gpu]:.1f}
"""


def torch_pass(X: sp.csr_array, C: np.ndarray) -> Callable[[], Any]:
    """Return a pass in PyTorch over rows and centres that are on the GPU."""
    n, d = X.shape
    there = torch.sparse_csr_tensor(
        *(torch.from_numpy(of.astype(np.int64)) for of in (X.indptr, X.indices)),
        torch.from_numpy(X.data),
        size=X.shape,
    ).cuda()
    rows = torch.repeat_interleave(torch.arange(n, device="cuda"), there.crow_indices().diff())
    squares = torch.zeros(n, device="cuda").index_add_(0, rows, there.values() ** 2)
    centers = torch.from_numpy(C).float().cuda()

    def run() -> Any:
        halves = 0.5 * (centers * centers).sum(1)
        values, labels = (halves - there @ centers.T).min(1)
        places = labels[rows] * d + there.col_indices()
        sums = torch.zeros(len(C) * d, device="cuda").index_add_(0, places, there.values())
        weights = torch.bincount(labels, minlength=len(C))
        return labels, sums, weights, (2.0 * values + squares).sum()

    return run


def compiled_pass(X: sp.csr_array, C: np.ndarray) -> Callable[[], Any]:
    """Return a pass of a compiled function over rows that stay on the GPU."""
    rows, centers = bmrm.Dataset(X, device="cpu"), C.astype(np.float32)
    halves = (0.5 * (C * C).sum(axis=1)).astype(np.float32)
    return lambda: sparse_kmeans_step(rows, halves=halves, centers=centers, device="cuda")


def measure(n: int, d: int, each: int, k: int) -> dict[str, Any]:
    """Measure one shape."""
    X = sparse_rows(n, d, each)
    rows = read_row_set(X)
    rng = np.random.default_rng(1)
    there = DeviceClusters(rows, 0, k)
    start = time.perf_counter()
    there = DeviceClusters(rows, 0, k)
    opening = time.perf_counter() - start
    here, alone = HostClusters(rows), HostClusters(RowSet(rows.X, None, threads=1))
    C = here.take(rng.choice(n, k, replace=False))
    for _ in range(2):
        found = here.assign(C)
        C = C + found.sums / np.maximum(found.cluster_weights, 1.0)[:, None]
    for passes in (here, there):
        found = passes.assign(C)
    np.testing.assert_array_equal(here.labels(), there.labels())
    first = X[:CHECKED_ROWS].toarray().astype(np.float64)
    exact = (first**2).sum(axis=1)[:, None] - 2.0 * first @ C.T + (C**2).sum(axis=1)
    least = exact[np.arange(len(first)), there.labels()[:CHECKED_ROWS]]
    assert (least <= exact.min(axis=1) + 1e-9).all()
    chosen = rng.choice(n, CANDIDATES, replace=False)
    seconds = {"opening": opening}
    for name, passes, repeats in (("cpu", here, REPEATS), ("one_core", alone, 3), ("gpu", there, REPEATS)):
        passes.begin_seeding()
        passes.take_center(0)
        points = passes.take(chosen)
        seconds[name] = seconds_of_calls(lambda p=passes: p.assign(C), repeats)
        seconds[f"{name}_seeding"] = seconds_of_calls(
            lambda p=passes, q=points: p.panel_potentials(q, take=False), repeats
        )
    again = there.assign(C)
    assert (found.inertia, found.sums.tobytes()) == (again.inertia, again.sums.tobytes())
    step = compiled_pass(X, C)
    np.testing.assert_allclose(step().inertia, found.inertia, rtol=1e-3)
    seconds["compiled"] = seconds_of_calls(step, REPEATS)
    run = torch_pass(X, C)
    np.testing.assert_allclose(float(run()[3]), found.inertia, rtol=1e-3)
    seconds["torch"] = seconds_between_events(run, REPEATS)
    return {
        "rows": n,
        "columns": d,
        "stored": X.nnz,
        "k": k,
        "seconds": seconds,
        "rechecked": found.rechecked / n,
    }


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "gpu_sparse_clusters.json")
    options = parser.parse_args()
    found = []
    for shape in SHAPES:
        row = measure(*shape)
        found.append(row)
        times = "  ".join(f"{who} {1e3 * s:.3f}" for who, s in row["seconds"].items())
        print(
            f"{row['rows']} x {row['columns']}, {row['stored']} stored, k={row['k']}: ms {times}", flush=True
        )
    report.write(
        options.out,
        SECTIONS,
        gpu=torch.cuda.get_device_name(),
        torch=torch.__version__,
        cores=usable_cores(),
        rows=found,
    )


if __name__ == "__main__":
    main()
