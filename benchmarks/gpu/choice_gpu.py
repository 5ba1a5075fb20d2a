"""Quality of the choice of a GPU kernel: the pick's time against the best of all candidates.

    python -m benchmarks.gpu.choice_gpu [--only NAME ...] [--peer] [--part 1/3] [--out FILE]
    python -m benchmarks.gpu.choice_gpu --refit FILE [--verbose] [--out FILE]

Each matrix is prepared once with every candidate timed as the tuner times it. Then each candidate is timed
again, longer, on its own. The *tuned* pick is that of `tune="best"`: the fastest, by the tuner's times, of
those that it would try. The *predicted* pick has the least predicted time. The loss of a pick is its time
over the least of all, minus one, by the second times. `choice_fewer.py` says what fewer kernels lose.
*Tuning products* are those run for timing, for one of the two products; the additional time to build the
formats is in seconds. The results hold statistics and times, so `--refit` can show how the current model
does on them, on a machine without a GPU; with `--out` it writes them with the model's new predictions. With
`--peer`, each product is timed by cuSPARSE too, on stored values; *over the peer* is the tuned pick's time
over that of the better of its two algorithms. Parts of the matrices are
measured one after the other, each in less time: all but the first add to the file that is there.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import report
from benchmarks.gpu.choice_fewer import fewer_kernels
from benchmarks.gpu.choice_matrices import FAMILIES, FILLS, LARGE, Case, Rows, cases
from bmrm.errors import DataError, DeviceMemoryError, ParameterError
from bmrm.matrix import _cuda

OPERATORS = ("normal", "transposed")
TITLES = {"normal": "X w", "transposed": "X^T r"}
REPEATS = 12  # products a time is taken over
ROUNDS = 3  # times of which the least counts: now and then all of one is late
TRIAL_PRODUCTS = 7  # kTrialProducts of src_cuda/formats/tuning.h
TIMES = ("predicted", "trial", "measured", "cold")
"""Seconds of each candidate; results from before 2026-11-28 have none with cold caches."""
AHEAD = 12  # matrices made while one is timed
LIMITS = {
    "tuned mean": 0.03,
    "tuned worst": 0.25,
    "predicted mean": 0.05,
    "predicted worst": 0.30,
    "tuning products": 50,
    "over the peer, worst": 1.053,
}
AIMS = (  # name, figure and scale
    ("mean loss of the pick", "tuned mean", 100.0),
    ("worst loss of the pick", "tuned worst", 100.0),
    ("mean loss of the prediction alone", "predicted mean", 100.0),
    ("worst loss of the prediction alone", "predicted worst", 100.0),
    ("products run to choose, at most", "tuning products", 1.0),
    ("largest time over that of cuSPARSE, these matrices", "over the peer, worst", 1.0),
)


SECTIONS = """
## The choice of a kernel on a GPU

{gpu[name]}. {figures[matrices]} matrices, {figures[products]} products. The loss of a pick is its time over
that of the best of all candidates, minus one.

[aims]

Timing took as long as {figures[timing median]:.0f} products of the best candidate (median; at most
{figures[timing most]:.0f}). Choosing for both products, including building the formats for trial, took
{figures[tuning seconds median]:.1f ms} ms (median; at most {figures[tuning seconds most]:.1f ms} ms),
{figures[tuning seconds in products]:.0f} of both products (median).

[groups]
matrices = {group} | products = {products} | tuned mean = {tuned mean:.1%} | worst = {tuned worst:.1%} |
predicted mean = {predicted mean:.1%} | predicted worst = {predicted worst:.1%}

How often each kernel is the best, and the ratio of predicted to measured time of its candidates.

[kernels]
kernel = {kernel} | best = {best} | 10 % = {predicted_over_measured[0]:.2f} |
median = {predicted_over_measured[1]:.2f} | 90 % = {predicted_over_measured[2]:.2f}

Only some kernels: the subsets whose best candidates lose least, in the mean or in the worst case.

[kept]
kernels = {number} | least mean = {by mean[names]} | mean loss = {by mean[mean]:.1%} |
worst loss = {by mean[worst]:.0%} | least worst = {by worst[names]} | its mean = {by worst[mean]:.1%} |
its worst = {by worst[worst]:.0%}

Without one kernel: how much longer the chosen kernel takes, for each way of choosing.

[without]
without = {kernel} | best mean = {best[mean]:.2%} | worst = {best[worst]:.0%} |
tuned mean = {tuned[mean]:.2%} | tuned worst = {tuned[worst]:.0%} | cold mean = {cold[mean]:.2%} |
cold worst = {cold[worst]:.0%} | predicted mean = {predicted[mean]:.2%} |
predicted worst = {predicted[worst]:.0%}

## A one-hot matrix on a GPU

{gpu[name]}. One-hot rows, 39 nonzeros each, columns by Zipf's law; `ones64` are values that are not stored,
with vectors in float64. cuSPARSE's better algorithm on stored values.

[one_hot]
matrix, product, values = {matrix}, {product}, {values} | kernel = {kernel} | us = {seconds:.0f us} |
cuSPARSE, us = {peer:.0f us} | times faster = {peer/seconds:.2f}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="only matrices whose name has such a text")
    parser.add_argument("--peer", action="store_true", help="time cuSPARSE too; needs CuPy")
    parser.add_argument("--part", type=part, default=(1, 1), help="which of how many, as 2/3; all by default")
    parser.add_argument("--seconds", type=float, default=260, help="start no matrix after this many seconds")
    parser.add_argument("--out", help="default choice_gpu.json of the results; with --refit none")
    parser.add_argument("--refit", metavar="FILE", help="predict the results in FILE anew; needs no GPU")
    parser.add_argument("--verbose", action="store_true", help="list the worst picks")
    options = parser.parse_args()
    if options.refit:
        found = json.loads(Path(options.refit).read_text())
        rows = [unpacked(row) for row in found["rows"]]
        predict_anew(rows, found["gpu"], found["constants"])
        found |= summary_of(rows, found["constants"], verbose=options.verbose)
        if options.out:
            Path(options.out).write_text(json.dumps(found, indent=1) + "\n")
        return
    gpu, constants = _cuda.device_info(), _cuda.constants()
    out = Path(options.out or report.RESULTS / "choice_gpu.json")
    before = earlier(out, gpu["name"]) if options.part[0] > 1 else []
    matrices = made(options.only, options.part)
    rows = list(measure(matrices, options.seconds, Peer() if options.peer else None))
    again = {row["matrix"] for row in rows}
    rows = [row for row in before if row["matrix"] not in again] + rows
    found = summary_of(rows, constants, verbose=options.verbose)
    report.write(out, SECTIONS, gpu=gpu, constants=constants, **found)


def part(text: str) -> tuple[int, int]:
    """Return which part of how many a text such as 2/3 names."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return number, count


def earlier(path: Path, gpu: str) -> list[dict[str, Any]]:
    """Return the rows of a results file of the same device."""
    found = json.loads(path.read_text())
    if found["gpu"]["name"] != gpu:
        raise SystemExit(f"found results of {found['gpu']['name']} in {path}, expected those of {gpu}")
    return [unpacked(row) for row in found["rows"]]


def summary_of(rows: list[dict[str, Any]], constants: dict[str, float], *, verbose: bool) -> dict[str, Any]:
    """Print and return all that the results file says of the rows, and these."""
    found = summarise(rows, verbose=verbose) | fewer_kernels(rows, constants)
    return found | {"one_hot": one_hot(rows), "rows": [packed(row) for row in rows]}


def made(only: list[str], part: tuple[int, int] = (1, 1)) -> Iterator[tuple[Case, Rows]]:
    """Yield the matrices of a part; some are made while the caller works on one."""
    number, count = part
    wanted = [case for case in cases() if any(text in case.name for text in only)][number - 1 :: count]
    with ThreadPoolExecutor() as pool:
        waiting = collections.deque((case, pool.submit(case.make)) for case in wanted[:AHEAD])
        following = iter(wanted[AHEAD:])
        while waiting:
            case, future = waiting.popleft()
            for another in itertools.islice(following, 1):
                waiting.append((another, pool.submit(another.make)))
            yield case, future.result()


def build(case: Case, X: Rows, **options: Any) -> _cuda.Matrix:
    """Put a matrix on the device."""
    return _cuda.Matrix(*X, dtype=np.float64 if case.kind == "ones64" else None, **options)


class Peer:
    """cuSPARSE on the same matrices."""

    def __init__(self) -> None:
        from benchmarks.common import gpu_timing
        from benchmarks.gpu import nvidia_peers

        self.clock, self.peers = gpu_timing.Clock(calls=REPEATS, replays=ROUNDS), nvidia_peers
        self.normal = gpu_timing.normal
        self.cusparse = nvidia_peers.Cusparse(self.clock.stream)

    def seconds(self, case: Case, X: Rows, op: str) -> float:
        """Return the seconds of a product by the better algorithm."""
        import cupy as cp
        import scipy.sparse as sp

        dtype = np.float64 if case.kind in ("float64", "ones64") else np.float32
        values = np.ones(len(X.indices), dtype) if X.data is None else X.data.astype(dtype)
        A = sp.csr_array((values, X.indices, X.indptr), X.shape)
        if op == "transposed":
            A = A.T.tocsr()
        parts = A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data
        arrays = tuple(cp.asarray(part) for part in parts)
        x, y = self.normal(A.shape[1], A.dtype.name, 1), cp.empty(A.shape[0], A.dtype)
        products = (
            self.peers.CsrProduct(self.cusparse, arrays, x, y, name) for name in self.peers.SPMV_ALGORITHMS
        )
        return min(self.clock.seconds([product]) for product in products)


def measure(
    matrices: Iterable[tuple[Case, Rows]], seconds: float, peer: Peer | None
) -> Iterator[dict[str, Any]]:
    """Time the candidates of both products of each matrix."""
    began = time.perf_counter()
    for case, X in matrices:
        if time.perf_counter() - began > seconds:
            print(f"out of time before {case.name}")
            return
        everything = build(case, X, tune="all").report()
        cold = build(case, X, tune="cold").report()
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
                    "cold": [c["measured"] or None for c in cold[op]["candidates"]],
                    "measured": [forced_seconds(case, X, op, plan) for plan in plans],
                    "tried": tried(everything[op]),
                    "peer": None if peer is None else peer.seconds(case, X, op),
                }
            )
        # What choosing costs in all, for both products.
        extra = max(0.0, prepare_seconds(case, X, "best") - prepare_seconds(case, X, "predict"))
        for row in rows:
            yield {**row, "tuning_seconds": extra}
        print(f"{time.perf_counter() - began:6.1f} s  {case.name}", flush=True)


def tried(found: dict[str, Any]) -> list[int]:
    """Return the positions of what `tune="best"` would time."""
    candidates = found["candidates"]
    plans, predicted = [plan_of(c["plan"]) for c in candidates], [c["predicted"] for c in candidates]
    return _cuda.worth_timing(_cuda.constants(), found["statistics"], plans, predicted)


def plan_of(plan: Any) -> _cuda.Plan:
    """Return the plan of a report."""
    return _cuda.Plan(**plan) if isinstance(plan, dict) else _cuda.Plan(*plan)


def forced_seconds(case: Case, X: Rows, op: str, plan: _cuda.Plan) -> float | None:
    """Return the seconds of a product by a plan, or None if the matrix cannot have it."""
    try:
        if op == "normal":
            matrix = build(case, X, transpose=False, plan=plan)
        else:
            matrix = build(case, X, plan=("split", plan))
        return min(matrix.time(op, repeats=REPEATS) for _ in range(ROUNDS))
    except (ParameterError, DataError, DeviceMemoryError):
        return None


def prepare_seconds(case: Case, X: Rows, tune: str) -> float:
    """Return the seconds of preparing a matrix on the device."""
    return build(case, X, tune=tune).report()["prepare_seconds"]


def predict_anew(rows: list[dict[str, Any]], gpu: dict[str, Any], constants: dict[str, float]) -> None:
    """Replace the predictions by those of the current model; former candidates have none."""
    for row in rows:
        stats = row["statistics"]
        now = set(_cuda.candidates(gpu, stats))
        row["predicted"] = [
            _cuda.predict(gpu, constants, stats, plan) if plan in now else math.inf for plan in row["plans"]
        ]
        row["tried"] = _cuda.worth_timing(constants, stats, row["plans"], row["predicted"])


def tuned_pick(row: dict[str, Any]) -> int:
    """Return the position of the pick of `tune="best"`."""
    timed = [i for i in row["tried"] if row["trial"][i] is not None]
    return min(timed, key=row["trial"].__getitem__)


def predicted_pick(row: dict[str, Any]) -> int:
    """Return the position of the least prediction."""
    possible = [i for i, seconds in enumerate(row["measured"]) if seconds is not None]
    return min(possible, key=lambda i: row["predicted"][i])


def least(row: dict[str, Any]) -> float:
    """Return the seconds of the best candidate."""
    return min(filter(None, row["measured"]))


def loss(row: dict[str, Any], pick: int) -> float:
    """Return the time of a pick over the least, minus one."""
    return row["measured"][pick] / least(row) - 1


def tuning_products(row: dict[str, Any]) -> int:
    """Return the number of products run to choose; a single candidate needs none."""
    return TRIAL_PRODUCTS * len(row["tried"]) if len(row["tried"]) > 1 else 0


def timing_cost(row: dict[str, Any]) -> float:
    """Return the cost of these, in products of the best candidate."""
    tried = [row["trial"][i] for i in row["tried"] if row["trial"][i] is not None]
    return TRIAL_PRODUCTS * sum(tried) / least(row) if len(row["tried"]) > 1 else 0.0


def summarise(rows: list[dict[str, Any]], *, verbose: bool) -> dict[str, Any]:
    """Print and return the losses, and compare them with the aims."""
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
    figures["tuning products"] = max(tuning_products(row) for row in rows)
    figures |= costs(rows)
    over = [row["measured"][tuned_pick(row)] / row["peer"] for row in rows if row.get("peer")]
    if over:
        figures["over the peer, worst"] = max(over)
        print(f"tuned pick over cuSPARSE: {statistics.median(over):.2f} (median)")
    for name, limit in LIMITS.items():
        if name not in figures:
            continue
        verdict = "pass" if figures[name] <= limit else "FAIL"
        print(f"{name:20} {figures[name]:8.3f}  at most {limit:<6} {verdict}")
    kernels, groups = by_kernel(rows), by_group(rows, losses)
    if verbose:
        for name, pick in (("tuned", tuned_pick), ("predicted", predicted_pick)):
            worst(name, rows, losses[name], pick)
    return {"figures": figures, "groups": groups, "kernels": kernels, "aims": aims(figures)}


def aims(figures: dict[str, float]) -> list[dict[str, Any]]:
    """Return the aims, and whether they are reached."""
    return [
        report.aim(name, scale * figures[key], scale * LIMITS[key], " %" if scale > 1.0 else "", below=True)
        for name, key, scale in AIMS
        if key in figures
    ]


def one_hot(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the picks for the one-hot matrix, with the times of the peer."""
    return [
        {
            "matrix": row["matrix"],
            "product": TITLES[row["op"]],
            "values": row["values"],
            "kernel": row["plans"][pick].kernel,
            "seconds": row["measured"][pick],
            "peer": row["peer"],
        }
        for row in rows
        if row["matrix"].startswith("one-hot")
        for pick in [tuned_pick(row)]
    ]


def costs(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Print and return the cost of choosing: the products timed, and all with building formats."""
    timing = [timing_cost(row) for row in rows]
    seconds = {row["matrix"]: row["tuning_seconds"] for row in rows}
    product: collections.Counter[str] = collections.Counter()
    for row in rows:
        product[row["matrix"]] += least(row)
    of_both = [seconds[matrix] / product[matrix] for matrix in seconds]
    found = {
        "timing median": statistics.median(timing),
        "timing most": max(timing),
        "tuning seconds median": statistics.median(seconds.values()),
        "tuning seconds most": max(seconds.values()),
        "tuning seconds in products": statistics.median(of_both),
    }
    print(
        f"timing took as long as {found['timing median']:.0f} products of the best (median), at most "
        f"{found['timing most']:.0f};\nchoosing, with the building of formats, "
        f"{1e3 * found['tuning seconds median']:.1f} ms (median), at most "
        f"{1e3 * found['tuning seconds most']:.1f} ms: {found['tuning seconds in products']:.0f} of both "
        "products (median)"
    )
    return found


def by_kernel(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print and return how often each kernel is the best, and its predicted over its measured times."""
    best: collections.Counter[str] = collections.Counter()
    ratios = collections.defaultdict(list)
    for row in rows:
        for plan, predicted, measured in zip(row["plans"], row["predicted"], row["measured"], strict=True):
            if measured is not None:
                best[plan.kernel] += measured == least(row)
                ratios[plan.kernel].append(predicted / measured)
    print("kernel    best  predicted / measured: 10 %, median, 90 %")
    out = []
    for kernel, found in ratios.items():
        known = [ratio for ratio in found if ratio < math.inf]
        if not known:
            continue
        deciles = statistics.quantiles(known, n=10) if len(known) > 1 else known * 9
        out.append({"kernel": kernel, "best": best[kernel], "predicted_over_measured": deciles[::4]})
        print(f"{kernel:8} {best[kernel]:5} {deciles[0]:10.2f} {deciles[4]:8.2f} {deciles[8]:8.2f}")
    return out


def by_group(rows: list[dict[str, Any]], losses: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return the losses for each way a matrix was filled."""
    places = collections.defaultdict(list)
    for i, row in enumerate(rows):
        fill = row["matrix"].split()[0]
        places[fill if fill in (*FILLS, *FAMILIES, LARGE, "one-hot") else "published"].append(i)
    return [
        {
            "group": group,
            "products": len(those),
            **{f"{name} mean": statistics.fmean(found[i] for i in those) for name, found in losses.items()},
            **{f"{name} worst": max(found[i] for i in those) for name, found in losses.items()},
        }
        for group, those in places.items()
    ]


def worst(name: str, rows: list[dict[str, Any]], losses: list[float], pick: Any, count: int = 12) -> None:
    """Print the rows on which a pick loses most."""
    print(f"worst of {name}:")
    for i in sorted(range(len(rows)), key=lambda i: -losses[i])[:count]:
        row, took = rows[i], pick(rows[i])
        best = min(range(len(row["plans"])), key=lambda k: row["measured"][k] or math.inf)
        sides = [
            f"{' '.join(str(part) for part in row['plans'][k] if part)} "
            f"{1e6 * row['predicted'][k]:.1f} -> {1e6 * row['measured'][k]:.1f} us"
            for k in (took, best)
        ]
        title = f"{row['matrix']}, {row['values']}, {TITLES[row['op']]}"
        print(f"  {losses[i]:6.1%} {title}: {'; best '.join(sides)}")


def packed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in fewer lines: one string per candidate, one string per list."""
    stats = dict(row["statistics"])
    for name, value in stats.items():
        if isinstance(value, list):
            stats[name] = " ".join(f"{i}:{v}" for i, v in enumerate(value) if v) + f" /{len(value)}"
    columns = zip(row["plans"], *(row[name] for name in TIMES if row[name]), strict=True)
    lines = [
        " ".join([*map(str, plan), *("-" if s is None else f"{s:.4g}" for s in seconds)])
        for plan, *seconds in columns
    ]
    rest = {k: row[k] for k in ("matrix", "values", "op", "tuning_seconds", "peer") if row.get(k) is not None}
    return {**rest, "tried": " ".join(map(str, row["tried"])), "statistics": stats, "candidates": lines}


def unpacked(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row from which `packed` was made."""
    stats = dict(row["statistics"])
    for name, value in stats.items():
        if isinstance(value, str):
            body, _, length = value.rpartition("/")
            stats[name] = [0] * int(length)
            for pair in body.split():
                place, number = pair.split(":")
                stats[name][int(place)] = int(number)
    out: dict[str, Any] = {k: row[k] for k in ("matrix", "values", "op", "tuning_seconds")}
    out["peer"] = row.get("peer")
    out.update(statistics=stats, plans=[], **{name: [] for name in TIMES})
    out["tried"] = [int(i) for i in row["tried"].split()]
    for line in row["candidates"]:
        kernel, *numbers = line.split()
        out["plans"].append(_cuda.Plan(kernel, *map(int, numbers[:4])))
        for name, text in zip(TIMES, numbers[4:], strict=False):
            out[name].append(None if text == "-" else float(text))
    return out


if __name__ == "__main__":
    main()
