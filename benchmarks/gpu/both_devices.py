"""X twice as large as its device memory: all that does not fit streams, or the CPU takes its share of it.

    python -m benchmarks.gpu.both_devices [--dense-mb 4096] [--rows 1000000] [--passes-mb 2048] [--out FILE]

Dense rows of 256 features, and sparse ones of 64 values in 50,000 columns, all float32. `gpu_mem` is half of
what X takes, with the vectors of a solve. For each: blocks, the two products (replayed graphs), and a solve
with the hinge at lam = 1e-4, to a certified relative gap of 1e-3 (second runs count), with `cpu_share=0` and
by default.

Then passes of k-means, mixtures, PCA and compiled functions over dense rows of float32, half of whose blocks
stay on the GPU, by the CPU's share of the others: none, each of some, and "auto", which measures the rates of
the machine and stores them. Medians of whole passes. Results of all shares must agree.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import bmrm
from benchmarks.common import report
from bmrm.base.threads import usable_cores
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.formulas.run import device_blocks
from bmrm.io import Csr
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import plan_memory
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.decomposition import gpu as decomposition
from bmrm.unsupervised.decomposition.gpu import DeviceGram, gram_pass
from bmrm.unsupervised.mixtures.gpu import DeviceMixture
from examples.row_formulas import covariance, em_step

DENSE_COLUMNS, SPARSE_COLUMNS, STORED = 256, 50_000, 64
LAM, TOL = 1e-4, 1e-3
OPERATORS = ("normal", "transposed")
LEAST = 2.0  # times the speed of streaming alone
NEVER_SLOWER = 1.0
BLOCK_BYTES = 1 << 27  # of passes: some 16 blocks
SHARES: tuple[int | str, ...] = (0, 2, 4, "auto")  # of the CPU, in eighths
REPEATS = 5

SECTIONS = """
## Rows that do not fit, on both devices

{gpu} and {cores} cores. The GPU may hold half of X, in float32; `gpu_mem` counts the vectors of a solve too.
Alone: all other rows stream, `cpu_share=0`. Both: the CPU has its share of them, by the measured rates.
Solves are of the hinge, lam 1e-4, to a relative gap of 1e-3;
{agree:all certificates agree with each other/certificates contradict}.

[rows]
rows = {kind} | MB = {bytes:.0f MB} | blocks that do not fit, of the CPU = {streamed}, {on_cpu} |
X w: ms alone, both = {alone[times][normal]:.2f ms}, {both[times][normal]:.2f ms} |
X^T r: ms alone, both = {alone[times][transposed]:.2f ms}, {both[times][transposed]:.2f ms} |
alone / both = {ratio:.2f} | solve: ms alone, both = {alone[seconds]:.0f ms}, {both[seconds]:.0f ms}

## Passes over rows that do not fit, on both devices

{gpu} and {cores} cores; {passes_mb} MB of float32, half of whose blocks of {block_mb} MB stay on the GPU. A
whole pass by the CPU's share of the others, in eighths; "auto" follows from measured rates.

[passes]
pass = {name} | columns = {columns} | blocks that do not fit, of the CPU by auto = {streamed}, {on_cpu} |
ms alone, 2/8, 4/8, auto = {ms[0]:.1f}, {ms[2]:.1f}, {ms[4]:.1f}, {ms[auto]:.1f} | alone / auto = {ratio:.2f}

[aims]
"""


class Pass(NamedTuple):
    """A pass over rows on a GPU.

    - ``open``: of rows and a share returns the pass, and what names its blocks
    """

    name: str
    columns: int
    open: Callable[[Any, Any], tuple[Callable[[], Sequence[Any]], Callable[[], str]]]


def k_means(clusters: int) -> Callable[[Any, Any], Any]:
    """Return what opens a pass of k-means."""

    def open_rows(X: Any, share: Any) -> Any:
        passes = DeviceClusters(RowSet(X), 0, clusters, share=share)
        centers = np.array(X[:clusters], np.float64)

        def run() -> Sequence[Any]:
            found = passes.assign(centers)
            return found.sums, found.inertia

        return run, lambda: passes.note

    return open_rows


def mixture(components: int) -> Callable[[Any, Any], Any]:
    """Return what opens a step of EM, with full covariances."""

    def open_rows(X: Any, share: Any) -> Any:
        passes, d = DeviceMixture(RowSet(X), 0, components, full=True, share=share), X.shape[1]
        means, constants = np.array(X[:components], np.float64), np.zeros(components)
        roots = np.tile(np.eye(d), (components, 1, 1))
        return lambda: tuple(passes.step(means, roots, constants)), lambda: passes.note

    return open_rows


def scatter(X: Any, share: Any) -> Any:
    """Open the pass of PCA."""
    rows = RowSet(X)
    gram, shift = DeviceGram(rows, 0, work=gram_pass(rows, share)), np.zeros(X.shape[1])
    return lambda: gram.blocks.sums(lambda i: gram.blocks.on[i].gram(shift)), lambda: gram.blocks.note


def compiled(function: Any, words: Callable[[Any], dict[str, Any]]) -> Callable[[Any, Any], Any]:
    """Return what opens a call of a compiled function."""

    def open_rows(X: Any, share: Any) -> Any:
        data, given = bmrm.Dataset(X, device="cpu"), words(X)
        part = share if isinstance(share, str) else share / 8
        return lambda: function(data, device="cuda", cpu_share=part, **given), lambda: ""

    return open_rows


def components(X: Any) -> dict[str, Any]:
    """Return the parameters of the compiled step of EM."""
    return {"mean": X[:8], "prec": np.ones((8, X.shape[1])), "const": np.zeros(8)}


PASSES = (
    Pass("k-means, k = 16", 64, k_means(16)),
    Pass("k-means, k = 100", 64, k_means(100)),
    Pass("mixture, 4 full components", 16, mixture(4)),
    Pass("PCA", 64, scatter),
    Pass("PCA", 256, scatter),
    Pass("compiled mixture, 8 components", 16, compiled(em_step, components)),
    Pass("compiled covariance", 16, compiled(covariance, lambda X: {"shift": np.zeros(16)})),
)


def seconds_of(run: Callable[[], Any]) -> float:
    """Return the median time of a pass."""
    seconds = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def passed_over(given: Pass, values: Any) -> dict[str, Any]:
    """Measure a pass by the CPU's share of the blocks that do not stay."""
    X, times, note, first = values.reshape(-1, given.columns), {}, "", None
    for share in SHARES:
        run, text = given.open(X, share)
        times[str(share)], note = 1e3 * seconds_of(run), text()
        found = [np.asarray(each) for each in run()]
        first = found if first is None else first
        for mine, theirs in zip(found, first, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6 * len(X))
        print(given.name, given.columns, share, times[str(share)], note, flush=True)
    number = len(blocks.block_parts(len(X), blocks.block_rows(given.columns, 4)))
    taken = note.partition("the CPU computes ")[2].partition(" ")[0]
    return {
        "name": given.name,
        "columns": given.columns,
        "streamed": number - number // 2,
        "on_cpu": taken or "-",
        "ms": times,
        "ratio": times["0"] / times["auto"],
    }


def passes(megabytes: int) -> list[dict[str, Any]]:
    """Measure all passes; half of the blocks stay."""
    values = dense(megabytes).ravel()
    values = values[: values.size // 65536 * 65536]
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(blocks, "BLOCK_BYTES", BLOCK_BYTES))
        for module in (blocks, decomposition, device_blocks):
            half = mock.patch.object(module, "count_resident", lambda number, *_: max(1, number // 2))
            stack.enter_context(half)
        return [passed_over(each, values) for each in PASSES]


def dense(megabytes: int) -> Any:
    """Return dense rows that take so many megabytes."""
    shape = megabytes * 1_000_000 // (4 * DENSE_COLUMNS), DENSE_COLUMNS
    return np.random.default_rng(0).random(shape, np.float32) - np.float32(0.5)


def sparse(rows: int) -> Csr:
    """Return sparse rows whose columns are random, each in a stretch of its own."""
    width = SPARSE_COLUMNS // STORED
    columns = np.random.default_rng(1).integers(0, width, (rows, STORED), np.int32)
    columns += width * np.arange(STORED, dtype=np.int32)
    values = np.random.default_rng(2).random(rows * STORED, np.float32)
    return Csr(np.arange(0, rows * STORED + 1, STORED), columns.ravel(), values, (rows, SPARSE_COLUMNS))


def labels_of(X: Any) -> Any:
    """Return labels that a linear function of the rows gives, with noise."""
    rng = np.random.default_rng(3)
    data = bmrm.Dataset(X, device="cpu")
    margins = data.margins(rng.standard_normal(X.shape[1]))
    noise = margins.std() * rng.standard_normal(X.shape[0])
    return np.where(margins - margins.mean() + 0.3 * noise > 0, 1.0, -1.0)


def measured(X: Any, y: Any, gpu_mem: int, cpu_share: float | None) -> dict[str, Any]:
    """Return the times of products and of a solve, and which blocks are where."""
    data = bmrm.Dataset(X, y, device="cuda", gpu_mem=gpu_mem, cpu_share=cpu_share)
    times = {op: data.matrix.time(op, repeats=3) for op in OPERATORS}
    bmrm.solve(data, lam=LAM, tol=TOL)
    result = bmrm.solve(data, lam=LAM, tol=TOL)
    return {
        "times": times,
        "seconds": result.timings["total"],
        "objective": result.objective,
        "lower_bound": result.lower_bound,
        "split": result.split,
        "blocks": data.matrix.row_blocks,
    }


def compared(kind: str, X: Any) -> dict[str, Any]:
    """Measure some rows in both ways."""
    y, sparse_values = labels_of(X), X.nnz if isinstance(X, Csr) else None
    plan = plan_memory(X.shape, sparse_values, 4, 4, None)
    gpu_mem = plan.X // 2 + plan.spare
    alone, both = measured(X, y, gpu_mem, 0), measured(X, y, gpu_mem, None)
    blocks = both.pop("blocks")
    alone.pop("blocks")
    return {
        "kind": kind,
        "bytes": plan.X,
        "gpu_mem": gpu_mem,
        "streamed": sum(block["streams"] for block in blocks),
        "on_cpu": sum(block["on_host"] for block in blocks),
        "alone": alone,
        "both": both,
        "ratio": sum(alone["times"].values()) / sum(both["times"].values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dense-mb", type=int, default=4096, help="size of the dense rows")
    parser.add_argument("--rows", type=int, default=1_000_000, help="number of the sparse rows")
    parser.add_argument("--passes-mb", type=int, default=2048, help="size of the rows of passes")
    parser.add_argument("--out", default=report.RESULTS / "both_devices.json")
    options = parser.parse_args()
    rows = [compared("dense", dense(options.dense_mb)), compared("sparse", sparse(options.rows))]
    ways = [row[way] for row in rows for way in ("alone", "both")]
    agree = all(
        a["objective"] >= b["lower_bound"] * (1 - 1e-6)
        for row in rows
        for a, b in ((row["alone"], row["both"]), (row["both"], row["alone"]))
    )
    print([(way["split"], way["times"], way["seconds"]) for way in ways])
    passed = passes(options.passes_mb)
    aims = [report.aim(f"{row['kind']}: alone / both", row["ratio"], LEAST) for row in rows]
    aims += [
        report.aim(f"{row['name']}, {row['columns']} columns: alone / auto", row["ratio"], NEVER_SLOWER)
        for row in passed
    ]
    report.write(
        options.out,
        SECTIONS,
        gpu=import_cuda().device_info(0)["name"],
        cores=usable_cores(),
        rows=rows,
        agree=agree,
        passes=passed,
        passes_mb=options.passes_mb,
        block_mb=BLOCK_BYTES >> 20,
        aims=aims,
    )


if __name__ == "__main__":
    main()
