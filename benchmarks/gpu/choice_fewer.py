"""What is lost with fewer kernels, from the times of all candidates that `choice_gpu.py` has measured.

*Kept*: of all sets of k kernels, the one whose best candidates lose least in the mean over the products, and
the one that loses least at worst (tables 4.7 and 4.8 of the thesis that `choice_matrices.py` cites).
*Without*: the time of a pick without one kernel over that of the pick with all, for the best candidate, for
the picks of `tune="best"` and `tune="cold"`, and for the prediction alone. A kernel whose absence costs less
than 1 % in the mean and 5 % at worst, for every pick, is not worth its code.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from bmrm.matrix import _cuda

Row = dict[str, Any]
Losses = dict[str, Any]
MEAN, WORST = 0.01, 0.05  # what the absence of a kernel that may go costs at most


def fewer_kernels(rows: list[Row], constants: dict[str, float]) -> dict[str, list[Losses]]:
    """Print and return what is lost with some kernels only, and without each."""
    names = sorted({plan.kernel for row in rows for plan in row["plans"]})
    return {"kept": kept(rows, names), "without": without(rows, names, constants)}


def kept(rows: list[Row], names: list[str]) -> list[Losses]:
    """Return the best sets of each size."""
    least = [
        {
            name: min(
                (s for p, s in zip(row["plans"], row["measured"], strict=True) if s and p.kernel == name),
                default=float("inf"),
            )
            for name in names
        }
        for row in rows
    ]
    found = []
    for size in range(1, len(names)):
        sets = []
        for those in itertools.combinations(names, size):
            losses = summary(min(each[name] for name in those) / min(each.values()) for each in least)
            sets.append({"names": ", ".join(those), **losses})
        of_mean, of_worst = (min(sets, key=lambda each: each[by]) for by in ("mean", "worst"))
        found.append({"number": size, "by mean": of_mean, "by worst": of_worst})
        print(f"{size} kernels: {of_mean['mean']:.1%} by {of_mean['names']}", end="; ")
        print(f"at worst {of_worst['worst']:.0%} by {of_worst['names']}")
    return found


def without(rows: list[Row], names: list[str], constants: dict[str, float]) -> list[Losses]:
    """Return what the absence of each kernel costs, by the way of picking."""
    ways = {
        "best": lambda row, those: of_least(row["measured"], those),
        "tuned": lambda row, those: of_least(row["trial"], tried(row, those, constants)),
        "cold": lambda row, those: of_least(row["cold"], those),
        "predicted": lambda row, those: of_least(row["predicted"], those),
    }
    if not all(row["cold"] for row in rows):
        del ways["cold"]
    found = []
    for name in names:
        costs = {way: summary(ratios(rows, name, pick)) for way, pick in ways.items()}
        spared = all(cost["mean"] < MEAN and cost["worst"] < WORST for cost in costs.values())
        found.append({"kernel": name, **costs, "spared": spared})
        listed = ", ".join(f"{way} {cost['mean']:.2%} {cost['worst']:.0%}" for way, cost in costs.items())
        print(f"without {name}: {listed}{' (may go)' if spared else ''}")
    return found


def ratios(rows: list[Row], name: str, pick: Callable[[Row, list[int]], int | None]) -> Iterable[float]:
    """Yield the time of the pick without a kernel over that with all, for the rows that have a pick."""
    for row in rows:
        possible = [i for i, seconds in enumerate(row["measured"]) if seconds]
        others = [i for i in possible if row["plans"][i].kernel != name]
        found, second = pick(row, possible), pick(row, others)
        if found is not None and second is not None:
            yield row["measured"][second] / row["measured"][found]


def of_least(seconds: list[float | None], those: list[int]) -> int | None:
    """Return the position with the least seconds, or None if none has any."""
    timed = [(found, i) for i in those if (found := seconds[i]) is not None]
    return min(timed)[1] if timed else None


def tried(row: Row, those: list[int], constants: dict[str, float]) -> list[int]:
    """Return what `tune="best"` would time of these candidates."""
    plans, predicted = ([row[key][i] for i in those] for key in ("plans", "predicted"))
    return [those[k] for k in _cuda.worth_timing(constants, row["statistics"], plans, predicted)]


def summary(over: Iterable[float]) -> Losses:
    """Return the mean and the largest loss of these ratios of times."""
    losses = [ratio - 1 for ratio in over]
    return {"mean": statistics.fmean(losses), "worst": max(losses)}
