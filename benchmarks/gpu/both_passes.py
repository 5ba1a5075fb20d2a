"""Passes over rows of which a GPU holds half: all others are copied in each pass, or the CPU has some.

    python -m benchmarks.gpu.both_passes [--mb 2048] [--out FILE]

Passes of k-means, mixtures, PCA and compiled functions over dense rows of float32. Half of their blocks stay
on the GPU. Medians of whole passes by the CPU's share of the others: none, some, and "auto", which measures
the rates of the machine and stores them. Results of all shares must agree.
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
from benchmarks.gpu.both_devices import dense
from bmrm.base.threads import usable_cores
from bmrm.distributed import blocks
from bmrm.distributed.row_set import RowSet
from bmrm.formulas.run import device_blocks
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.unsupervised.clusters.gpu import DeviceClusters
from bmrm.unsupervised.decomposition import gpu as decomposition
from bmrm.unsupervised.decomposition.gpu import DeviceGram, gram_pass
from bmrm.unsupervised.mixtures.gpu import DeviceMixture
from examples.row_formulas import covariance, em_step

NEVER_SLOWER = 1.0
BLOCK_BYTES = 1 << 27  # some 16 blocks
SHARES: tuple[int | str, ...] = (0, 2, 4, "auto")  # of the CPU, in eighths
REPEATS = 5

SECTIONS = """
## Passes over rows that do not fit, on both devices

{gpu} and {cores} cores; {megabytes} MB of float32, half of whose blocks of {block_mb} MB stay on the GPU. A
whole pass by the CPU's share of the others, in eighths; "auto" follows from measured rates.

[passes]
pass = {name} | columns = {columns} | blocks that do not fit, of the CPU by auto = {streamed}, {on_cpu} |
ms alone, 2/8, 4/8, auto = {ms[of_0]:.1f}, {ms[of_2]:.1f}, {ms[of_4]:.1f}, {ms[of_auto]:.1f} |
alone / auto = {ratio:.2f}

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
        milliseconds, note = 1e3 * seconds_of(run), text()
        times[f"of_{share}"] = milliseconds
        found = [np.asarray(each) for each in run()]
        first = found if first is None else first
        for mine, theirs in zip(found, first, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6 * len(X))
        print(given.name, given.columns, share, milliseconds, note, flush=True)
    number = len(blocks.block_parts(len(X), blocks.block_rows(given.columns, 4)))
    taken = note.partition("the CPU computes ")[2].partition(" ")[0]
    return {
        "name": given.name,
        "columns": given.columns,
        "streamed": number - number // 2,
        "on_cpu": taken or "-",
        "ms": times,
        "ratio": times["of_0"] / times["of_auto"],
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=2048, help="size of the rows")
    parser.add_argument("--out", default=report.RESULTS / "both_passes.json")
    options = parser.parse_args()
    rows = passes(options.mb)
    report.write(
        options.out,
        SECTIONS,
        gpu=import_cuda().device_info(0)["name"],
        cores=usable_cores(),
        megabytes=options.mb,
        block_mb=BLOCK_BYTES >> 20,
        passes=rows,
        aims=[
            report.aim(f"{row['name']}, {row['columns']} columns: alone / auto", row["ratio"], NEVER_SLOWER)
            for row in rows
        ],
    )


if __name__ == "__main__":
    main()
