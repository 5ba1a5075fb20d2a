# ruff: noqa: F821 (annotations name sizes)
"""Predicted times of compiled functions on one core, against measured ones, and the constants that fit best.

    python -m benchmarks.reductions.predictions

A time is processor time of the process, the least of some passes. Results have up to a row per row of X, and
rows up to 10 000 columns. The last lines are the seconds of each kind of work (`bmrm.formulas.run.cost`) with
which the relative errors are least.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.common.cpu_timing import least_seconds
from benchmarks.reductions.programs import CASES, SHAPES, normal_rows, sparse_rows
from bmrm.distributed.reading import read_rows
from bmrm.formulas.run.cost import KINDS, lanes_of, predict_seconds, work_of
from bmrm.reductions import Reduction, exp, reduction

REPEATS = 5
MORE_SHAPES = (
    ("k-means", 1_000_000, 2, 4),
    ("k-means", 100_000, 64, 100),
    ("k-means", 5_000, 1_000, 8),
    ("EM", 100_000, 4, 4),
    ("EM", 20_000, 64, 16),
    ("memberships", 1_000_000, 4, 4),
    ("memberships", 20_000, 64, 32),
    ("memberships", 20_000, 4, 1_000),
    ("sums by memberships", 1_000_000, 2, 8),
    ("sums by memberships", 20_000, 64, 32),
    ("covariance", 1_000_000, 4, 0),
    ("covariance", 3_000, 300, 0),
    ("histogram", 20_000, 500, 20),
    ("logistic gradient", 4_000, 10_000, 0),
)


@reduction
def membership(x, centers: (k, d), r: (n, k)):
    for j in range(len(centers)):
        dist = 0.0
        for f in range(len(x)):
            dist += (x[f] - centers[j, f]) ** 2
        r[x.index, j] += exp(-dist)


@reduction
def grouped(x, group: int, sums: (g, d)):
    for f in range(len(x)):
        sums[group, f] += x[f]


@reduction
def lookup(x, table: m, total: ()):
    for f in range(len(x)):
        total += table[min(max(int(x[f] * 8) + 32, 0), len(table) - 1)]


@reduction
def stored_sums(x, weights: d, sums: d):
    for f, v in x.stored():
        sums[f] += weights[f] * v


def calls() -> Iterator[tuple[str, Reduction, Any, dict[str, Any]]]:
    """Yield names, functions, rows and parameters."""
    rng = np.random.default_rng(0)
    for program, rows, columns, k in (*SHAPES, *MORE_SHAPES):
        for dtype in ("float32", "float64"):
            X, case = normal_rows(rows, columns, dtype), CASES[program]
            yield f"{program} {rows} x {columns} {dtype}", case.reduction, X, case.words(rng, X, k)
    for rows, columns in ((50_000, 4), (200_000, 4), (1_000_000, 4), (20_000, 64), (20_000, 1_000)):
        X = normal_rows(rows, columns, "float64")
        at = f"{rows} x {columns}"
        yield f"result of n x 4, {at}", membership, X, {"centers": X[:4].copy(), "n": rows}
        for groups in (1_000, rows):
            of_rows = rng.integers(0, groups, rows)
            yield f"{groups} groups, {at}", grouped, X, {"group": of_rows, "g": groups}
        yield f"table, {at}", lookup, X, {"table": np.arange(1000.0)}
    for rows, columns, each in ((100_000, 10_000, 30), (20_000, 1_000, 200)):
        X = sparse_rows(rows, columns, each)
        yield f"{rows} x {columns} sparse", stored_sums, X, {"weights": np.ones(columns)}


def main() -> None:
    """Print the ratios and the constants."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    names = [*KINDS, "staged numbers", "numbers of results"]
    counted, measured = [], []
    for name, function, X, words in calls():
        call = function._binder.bind(read_rows(X), words)
        run = partial(function._host.run, call, threads=1)
        run()
        seconds = least_seconds({name: run}, REPEATS)[name]
        rows, columns = call.rows.X.shape
        each = {kind: rows * count for kind, count in work_of(call).items()}
        in_lanes = {kind: each[kind] / (lanes_of(call) if KINDS[kind].in_lanes else 1) for kind in KINDS}
        staged = 0 if call.rows.sparse else rows * columns
        counted.append([*in_lanes.values(), staged, (len(call.part_bounds()) - 1) * call.numbers])
        measured.append(seconds)
        ratio = predict_seconds(call, 1) / seconds
        print(f"{name}: {1e3 * seconds:.1f} ms, predicted {ratio:.2f} of it", flush=True)
    shares = np.array(counted) / np.array(measured)[:, None]
    for name, seconds in zip(names, nnls(shares, np.ones(len(measured)))[0], strict=True):
        print(f"{name}: {seconds:.2g} s")


if __name__ == "__main__":
    main()
