"""Cost of the error bounds: solves with them and without, in turns in one process.

    python -m benchmarks.cpu.error_bounds [A9A] [--repeats 60] [--gpu] [--out FILE]

A9A is the LIBSVM site's data set in SVMlight text, .gz or not; without it, data of its shape are generated.
The other set is that of textdata.py with 200,000 rows; with `--gpu` it is reuters-ccat of thesis_ch5.py on a
GPU. The figure is the least processor time of all repeats, on one thread, and on a GPU the least time between
two events. Without the bounds a solve is the same, but its gap contains no rounding. In float32 on a GPU
bounds are computed only for an intercept; the effect of rounding is measured there either way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bmrm
from benchmarks.common import report
from benchmarks.common.textdata import text_matrix
from benchmarks.peers.l1 import adult_like
from bmrm.linear import solve as training

ADULT: list[dict[str, Any]] = [
    {"loss": "hinge", "lam": 1e-4},
    {"loss": "logistic", "lam": 1e-4},
    {"loss": "hinge", "lam": 1e-4, "fit_intercept": True},
    {"loss": "squared_hinge", "lam": 1e-4, "reg": "l1"},
]
TEXT: list[dict[str, Any]] = [{"loss": "hinge", "lam": 1e-5}, {"loss": "logistic", "lam": 1e-5}]
AIM = 1.05
"""Times as long as without the bounds, at most."""


SECTIONS = """
## What error bounds cost, on {device[name]:one */one thread}

Solves with and without error bounds, alternating; minima of the {clock}.

[solves]
set, loss = {set}, {loss}{reg:, */}{fit_intercept:, free intercept/} |
without ms = {seconds_without:.2f ms} | with ms = {seconds_with:.2f ms} | ratio = {ratio:.3f}

[aims]
"""


def on_cpu(work: Callable[[], Any]) -> float:
    """Return the processor time of a call, in seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started


def on_gpu(work: Callable[[], Any]) -> float:
    """Return the time between two events around a call, in seconds."""
    from benchmarks.common.gpu_timing import between_events

    return between_events(work)


def measure(
    data: bmrm.Dataset, options: dict[str, Any], repeats: int, clock: Callable[..., float]
) -> dict[str, Any]:
    """Time one problem, with the bounds and without."""
    real, least, passes = training.watch, [np.inf, np.inf], [0, 0]

    def work() -> None:
        passes[bounds] = bmrm.solve(data, **options).n_iter

    try:
        for k in range(2 * repeats):
            bounds = k % 2
            training.watch = real if bounds else (lambda *_, **__: None)
            least[bounds] = min(least[bounds], clock(work))
    finally:
        training.watch = real
    without, with_bounds = least
    return {
        **options,
        "seconds_without": without,
        "seconds_with": with_bounds,
        "ratio": with_bounds / without,
        "passes": passes,
    }


def main() -> None:
    """Measure all problems of the sets and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a9a", nargs="?")
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--out", default=report.RESULTS / "error_bounds.json")
    options = parser.parse_args()
    sets: list[tuple[str, bmrm.Dataset, list[dict[str, Any]], int]] = []
    if options.gpu:
        from benchmarks.common import gpu_timing
        from benchmarks.gpu.thesis_ch5 import problem

        X, y = problem("reuters-ccat", 1.0)
        data = bmrm.Dataset(X, y, device="cuda")
        sets.append(("reuters-ccat", data, [*TEXT, TEXT[0] | {"fit_intercept": True}], options.repeats))
    else:
        X, y = bmrm.load_svmlight(options.a9a) if options.a9a else adult_like()
        sets.append(("a9a", bmrm.Dataset(X, y, threads=1), ADULT, options.repeats))
        X, scores = text_matrix(200_000)
        sets.append(("text", bmrm.Dataset(X, np.sign(scores), threads=1), TEXT, max(1, options.repeats // 6)))
    rows = []
    for name, data, problems, repeats in sets:
        for problem in problems:
            row = {"set": name} | measure(data, problem, repeats, on_gpu if options.gpu else on_cpu)
            rows.append(row)
            print(row)
    aims = [report.aim("ratio, most", max(row["ratio"] for row in rows), AIM, below=True)]
    print(report.line(aims[0]))
    clock = "time between events" if options.gpu else "processor time"
    device = {"device": gpu_timing.device()} if options.gpu else {}
    report.write(options.out, SECTIONS, clock=clock, solves=rows, aims=aims, **device)


if __name__ == "__main__":
    main()
