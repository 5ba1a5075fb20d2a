"""How good the choice of a GPU kernel is: the pick's time against the best of all candidates.

    python benchmarks/choice_gpu.py [--only TEXT] [--out FILE]
    python benchmarks/choice_gpu.py --refit FILE [--verbose]

Each matrix is prepared once with every candidate timed as the tuner times it, and each candidate is then
timed again, longer, on its own. The *tuned* pick is what `tune="best"` takes: the fastest, by the tuner's
times, of those that it would try. The *predicted* pick has the least predicted time. The loss of a pick is
its time over the least of all, less one, by the second times. The results hold statistics and times, so that
`--refit` tells what the model, as it is now, makes of them, on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import report
from choice_matrices import Case, Rows, cases

from bmrm import _cuda
from bmrm.errors import DataError, DeviceMemoryError, ParameterError

OPERATORS = ("normal", "transposed")
TITLES = {"normal": "X w", "transposed": "X^T r"}
REPEATS = 12  # products a time is taken over
AHEAD = 12  # matrices made while one is timed
LIMITS = {"tuned mean": 0.03, "tuned worst": 0.25, "predicted mean": 0.10, "tuning products": 50}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only matrices whose name has this text")
    parser.add_argument("--seconds", type=float, default=220, help="begin no matrix after so many seconds")
    parser.add_argument("--out", default=str(report.RESULTS / "choice_gpu.json"))
    parser.add_argument("--refit", metavar="FILE", help="predict the results in FILE anew; needs no GPU")
    parser.add_argument("--verbose", action="store_true", help="list the worst picks")
    options = parser.parse_args()
    if options.refit:
        found = json.loads(Path(options.refit).read_text())
        rows = [unpacked(row) for row in found["rows"]]
        predict_anew(rows, found["gpu"], found["constants"])
        summarise(rows, verbose=options.verbose)
        return
    rows = list(measure(made(options.only), options.seconds))
    figures = summarise(rows, verbose=options.verbose)
    gpu, constants = _cuda.device_info(), _cuda.constants()
    report.write(options.out, gpu=gpu, constants=constants, figures=figures, rows=[packed(r) for r in rows])


def made(only: str) -> Iterator[tuple[Case, Rows]]:
    """The matrices, some of them being made while the caller works on one."""
    wanted = [case for case in cases() if only in case.name]
    with ThreadPoolExecutor() as pool:
        waiting = collections.deque((case, pool.submit(case.make)) for case in wanted[:AHEAD])
        following = iter(wanted[AHEAD:])
        while waiting:
            case, future = waiting.popleft()
            for another in itertools.islice(following, 1):
                waiting.append((another, pool.submit(another.make)))
            yield case, future.result()


def measure(matrices: Iterable[tuple[Case, Rows]], seconds: float) -> Iterator[dict[str, Any]]:
    """Time the candidates of both products of each matrix."""
    began = time.perf_counter()
    for case, X in matrices:
        if time.perf_counter() - began > seconds:
            print(f"out of time before {case.name}")
            return
        everything = _cuda.Matrix(*X, tune="all").report()
        rows = []
        for op in OPERATORS:
            candidates = everything[op]["candidates"]
            plans = [plan_of(c["plan"]) for c in candidates]
            rows.append(
                {
                    "matrix": case.name,
                    "values": case.kind,
                    "op": op,
                    "statistics": everything[op]["statistics"],
                    "plans": plans,
                    "predicted": [c["predicted"] for c in candidates],
                    "trial": [c["measured"] or None for c in candidates],
                    "measured": [forced_seconds(X, op, plan) for plan in plans],
                    "tried": tried(everything[op]),
                }
            )
        # What choosing costs, against the products that it is for.
        extra = prepare_seconds(X, "best") - prepare_seconds(X, "predict")
        product = sum(min(filter(None, row["measured"])) for row in rows)
        for row in rows:
            yield {**row, "tuning_products": max(0.0, extra) / product}
        print(f"{time.perf_counter() - began:6.1f} s  {case.name}", flush=True)


def tried(found: dict[str, Any]) -> list[int]:
    """Positions of what `tune="best"` would time."""
    candidates = found["candidates"]
    plans, predicted = [plan_of(c["plan"]) for c in candidates], [c["predicted"] for c in candidates]
    return _cuda.worth_timing(_cuda.constants(), found["statistics"], plans, predicted)


def plan_of(plan: Any) -> _cuda.Plan:
    """Return the plan of a report."""
    return _cuda.Plan(**plan) if isinstance(plan, dict) else _cuda.Plan(*plan)


def forced_seconds(X: Rows, op: str, plan: _cuda.Plan) -> float | None:
    """Seconds of a product by a plan, None where the matrix cannot have it."""
    try:
        if op == "normal":
            return _cuda.Matrix(*X, transpose=False, plan=plan).time(op, repeats=REPEATS)
        return _cuda.Matrix(*X, plan=("split", plan)).time(op, repeats=REPEATS)
    except (ParameterError, DataError, DeviceMemoryError):
        return None


def prepare_seconds(X: Rows, tune: str) -> float:
    """Seconds of the preparation of a matrix on the device."""
    return _cuda.Matrix(*X, tune=tune).report()["prepare_seconds"]


def predict_anew(rows: list[dict[str, Any]], gpu: dict[str, Any], constants: dict[str, float]) -> None:
    """Replace the predictions by those of the model as it is now."""
    for row in rows:
        row["predicted"] = [_cuda.predict(gpu, constants, row["statistics"], p) for p in row["plans"]]
        row["tried"] = _cuda.worth_timing(constants, row["statistics"], row["plans"], row["predicted"])


def tuned_pick(row: dict[str, Any]) -> int:
    """Position of what `tune="best"` takes."""
    tried = [i for i in row["tried"] if row["trial"][i] is not None]
    return min(tried, key=lambda i: row["trial"][i])


def predicted_pick(row: dict[str, Any]) -> int:
    """Position of the least prediction."""
    possible = [i for i, seconds in enumerate(row["measured"]) if seconds is not None]
    return min(possible, key=lambda i: row["predicted"][i])


def loss(row: dict[str, Any], pick: int) -> float:
    """Time of a pick over the least, less one."""
    return row["measured"][pick] / min(filter(None, row["measured"])) - 1


def summarise(rows: list[dict[str, Any]], *, verbose: bool) -> dict[str, float]:
    """Print and return the losses, and hold them against what is wanted."""
    losses = {
        "tuned": [loss(row, tuned_pick(row)) for row in rows],
        "predicted": [loss(row, predicted_pick(row)) for row in rows],
    }
    matrices = len({row["matrix"] for row in rows})
    figures: dict[str, float] = {"matrices": matrices, "products": len(rows)}
    print(f"{matrices} matrices, {len(rows)} products\npick        mean  median   worst")
    for name, found in losses.items():
        figures[f"{name} mean"], figures[f"{name} worst"] = statistics.fmean(found), max(found)
        print(f"{name:9} {statistics.fmean(found):6.1%} {statistics.median(found):7.1%} {max(found):7.1%}")
    figures["tuning products"] = max(row["tuning_products"] for row in rows)
    for name, limit in LIMITS.items():
        verdict = "pass" if figures[name] <= limit else "FAIL"
        print(f"{name:16} {figures[name]:8.3f}  at most {limit:<6} {verdict}")
    by_kernel(rows)
    if verbose:
        for name, pick in (("tuned", tuned_pick), ("predicted", predicted_pick)):
            worst(name, rows, losses[name], pick)
    return figures


def by_kernel(rows: list[dict[str, Any]]) -> None:
    """Print how often each kernel is the best, and how its predictions relate to its times."""
    best: collections.Counter[str] = collections.Counter()
    ratios = collections.defaultdict(list)
    for row in rows:
        least = min(filter(None, row["measured"]))
        for plan, predicted, measured in zip(row["plans"], row["predicted"], row["measured"], strict=True):
            if measured is not None:
                ratios[plan.kernel].append(predicted / measured)
                best[plan.kernel] += measured == least
    print("kernel    best  predicted / measured: 10 %, median, 90 %")
    for kernel, found in ratios.items():
        deciles = statistics.quantiles(found, n=10) if len(found) > 1 else [found[0]] * 9
        print(f"{kernel:8} {best[kernel]:5} {deciles[0]:10.2f} {deciles[4]:8.2f} {deciles[8]:8.2f}")


def worst(name: str, rows: list[dict[str, Any]], losses: list[float], pick: Any, count: int = 12) -> None:
    """Print the rows that a pick loses most on."""
    print(f"worst of {name}:")
    for i in sorted(range(len(rows)), key=lambda i: -losses[i])[:count]:
        row, took = rows[i], pick(rows[i])
        least = min(range(len(row["plans"])), key=lambda k: row["measured"][k] or float("inf"))
        sides = [
            f"{' '.join(str(part) for part in row['plans'][k] if part)} "
            f"{1e6 * row['predicted'][k]:.1f} -> {1e6 * row['measured'][k]:.1f} us"
            for k in (took, least)
        ]
        title = f"{row['matrix']}, {row['values']}, {TITLES[row['op']]}"
        print(f"  {losses[i]:6.1%} {title}: {'; best '.join(sides)}")


def packed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in fewer lines: a string a candidate, a string a list."""
    stats = dict(row["statistics"])
    for name, value in stats.items():
        if isinstance(value, list):
            stats[name] = " ".join(f"{i}:{v}" for i, v in enumerate(value) if v) + f" /{len(value)}"
    columns = zip(row["plans"], row["predicted"], row["trial"], row["measured"], strict=True)
    lines = [
        " ".join([*map(str, plan), *("-" if s is None else f"{s:.4g}" for s in seconds)])
        for plan, *seconds in columns
    ]
    rest = {k: row[k] for k in ("matrix", "values", "op", "tuning_products")}
    return {**rest, "tried": " ".join(map(str, row["tried"])), "statistics": stats, "candidates": lines}


def unpacked(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row that `packed` was given."""
    stats = dict(row["statistics"])
    for name, value in stats.items():
        if isinstance(value, str):
            body, _, length = value.rpartition("/")
            stats[name] = [0] * int(length)
            for pair in body.split():
                place, number = pair.split(":")
                stats[name][int(place)] = int(number)
    out: dict[str, Any] = {k: row[k] for k in ("matrix", "values", "op", "tuning_products")}
    out.update(statistics=stats, plans=[], predicted=[], trial=[], measured=[])
    out["tried"] = [int(i) for i in row["tried"].split()]
    for line in row["candidates"]:
        kernel, *numbers = line.split()
        out["plans"].append(_cuda.Plan(kernel, *map(int, numbers[:4])))
        for name, text in zip(("predicted", "trial", "measured"), numbers[4:], strict=True):
            out[name].append(None if text == "-" else float(text))
    return out


if __name__ == "__main__":
    main()
