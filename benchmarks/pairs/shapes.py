"""The choice of a plan: "auto" against each plan that is asked for, and predicted against measured times.

    OMP_NUM_THREADS=1 python -m benchmarks.pairs.shapes [--device cpu|cuda] [--out FILE]

The shapes were fixed before anything was measured: 1 to 5 axes, 1e3 to 1e7 points, uniform in the unit cube,
up to a distance of half a percent of it to all distances. Points are placed before, so that times are those
of counts alone; they are the least of some calls that take turns. On a CPU they are processor time of one
thread, since other programs may be busy; on a GPU the time until the counts are there. A plan whose predicted
time is more than a minute is left out, and the table says so. All plans have the same counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import report
from bmrm import pairs
from bmrm.errors import ParameterError
from bmrm.pairs.edges import read_bins
from bmrm.pairs.gpu import DevicePairs
from bmrm.pairs.histograms import check_call, prepare_call
from bmrm.pairs.plan import PLANS

BINS = 100
MAX_SECONDS = 60.0
ENOUGH_SECONDS = 0.3
REPEATS = 5
BEST_FACTOR, PREDICTED_FACTOR, WANTED = 1.3, 1.5, 12

SECTIONS = """
## The choice of a plan for pairs of points: {device}

{bins} bins; times in milliseconds. "-" is a plan that cannot count this, and "long" one that is
predicted to take more than a minute. The last two columns should be at most 1.3, and between 0.67 and 1.5.

[shapes]
axes = {axes} | points = {points:,} | reach = {reach} | box = {box} | brute = {shown[brute]} |
cells = {shown[cells]} | float64 = {shown[float64]} | auto = {shown[auto]} | chosen = {chosen} |
of the fastest = {of_fastest:.2f} | predicted / measured = {of_measured:.2f}

[aims]
"""


class Shape(NamedTuple):
    """Points in a cube, and the distance up to which their pairs are counted; None for all."""

    axes: int
    points: int
    reach: float | None
    periodic: bool


SHAPES = (
    Shape(1, 100_000, 0.005, False),
    Shape(1, 1_000_000, 0.005, True),
    Shape(2, 10_000, 0.02, True),
    Shape(2, 1_000_000, 0.005, False),
    Shape(2, 100_000, 0.1, True),
    Shape(2, 50_000, None, False),
    Shape(3, 1000, 0.05, False),
    Shape(3, 10_000, 0.1, True),
    Shape(3, 100_000, None, False),
    Shape(3, 100_000, 0.05, False),
    Shape(3, 1_000_000, 0.01, True),
    Shape(3, 10_000_000, 0.005, False),
    Shape(3, 30_000, 0.3, True),
    Shape(4, 30_000, 0.1, False),
    Shape(5, 10_000, None, False),
)


def predicted(words: dict[str, Any], plan: str) -> pairs.PairPlan | None:
    """Return what explain shows of a plan; None for one that cannot count this."""
    bins = read_bins(words["edges"], "last")
    try:
        return prepare_call(check_call((words["x"], None), bins, None, plan))[0].plan
    except ParameterError:
        return None


def least_seconds(words: dict[str, Any], plans: list[str], clock: Callable[[], float]) -> dict[str, float]:
    """Return the least time of each plan; short ones are repeated more often."""
    found = dict.fromkeys(plans, float("inf"))
    for turn in range(REPEATS):
        for plan in plans:
            if turn >= 2 and found[plan] > ENOUGH_SECONDS:
                continue
            start = clock()
            pairs.histogram(**words, plan=plan)
            found[plan] = min(found[plan], clock() - start)
    return found


def measure(shape: Shape, device: str) -> dict[str, Any]:
    """Measure all plans of a shape."""
    x = np.random.default_rng(0).random((shape.points, shape.axes))
    points = pairs.Points(x, box=1.0 if shape.periodic else None, device=device, threads=1)
    edges = np.linspace(0.0, np.sqrt(shape.axes) if shape.reach is None else shape.reach, BINS + 1)
    words = {"x": points, "edges": edges}
    plans = {plan: predicted(words, plan) for plan in PLANS}
    run = [plan for plan, found in plans.items() if found is not None and found.seconds <= MAX_SECONDS]
    seconds = least_seconds(words, run, time.process_time if device == "cpu" else time.perf_counter)
    counts = [pairs.histogram(**words, plan=plan).counts for plan in run if seconds[plan] < ENOUGH_SECONDS]
    assert all((each == counts[0]).all() for each in counts)
    left_out = {plan: "-" if found is None else "long" for plan, found in plans.items()}
    auto = plans["auto"]
    assert auto is not None
    return {
        "axes": shape.axes,
        "points": shape.points,
        "reach": "all" if shape.reach is None else f"{shape.reach:g}",
        "box": "periodic" if shape.periodic else "open",
        "predicted": {plan: None if found is None else found.seconds for plan, found in plans.items()},
        "seconds": seconds,
        "shown": left_out | {plan: f"{1e3 * each:.3g}" for plan, each in seconds.items()},
        "chosen": auto.kernel,
        "of_fastest": seconds["auto"] / min(seconds.values()),
        "of_measured": auto.seconds / seconds["auto"],
    }


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare with what is asked."""
    best = [row["of_fastest"] <= BEST_FACTOR for row in rows]
    near = [1.0 / PREDICTED_FACTOR <= row["of_measured"] <= PREDICTED_FACTOR for row in rows]
    both = [all(each) for each in zip(best, near, strict=True)]
    names = (
        f"auto is within {BEST_FACTOR} of the fastest plan",
        f"the predicted time is within a factor of {PREDICTED_FACTOR}",
        "both are so",
    )
    return [
        report.aim(f"shapes of {len(rows)} for which {name}", sum(each), WANTED)
        for name, each in zip(names, (best, near, both), strict=True)
    ]


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out")
    options = parser.parse_args()
    rows = []
    for shape in SHAPES:
        row = measure(shape, options.device)
        rows.append(row)
        print(
            shape,
            row["shown"],
            row["chosen"],
            f"{row['of_fastest']:.2f} {row['of_measured']:.2f}",
            flush=True,
        )
    found = aims(rows)
    for aim in found:
        print(report.line(aim))
    default = report.RESULTS / ("pairs_shapes.json" if options.device == "cpu" else "pairs_shapes_gpu.json")
    device = "One thread" if options.device == "cpu" else DevicePairs(0).machine
    report.write(options.out or default, SECTIONS, device=device, bins=BINS, shapes=rows, aims=found)


if __name__ == "__main__":
    main()
