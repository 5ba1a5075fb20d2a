"""The product that the CPU chooses, against SciPy, over many matrices: where it loses, and by how much.

    OMP_NUM_THREADS=1 python -m benchmarks.cpu.choice_cpu [--rounds 3] [--only TEXT] [--out FILE]

The matrices are those of `benchmarks.gpu.choice_matrices`: published ones in the folder $BMRM_TEST_DATA, its
families, and in small its grid of rows, columns, nonzeros per row and fills, each with implicit ones, float32
and float64. X w and X^T r are computed on one thread as `bmrm.matrix` does by default; SciPy multiplies its
own compressed rows, with vectors in the type of the values (float64 for ones), and `X.T @ r`. Both take
turns; a time is the least of all. "over" is SciPy's time over ours: at least 0.95 is the aim.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy
from scipy.sparse import csr_matrix

from benchmarks.common import report
from benchmarks.gpu.choice_matrices import FILLS, Rows, cells, families, published, with_values
from bmrm.matrix._cpu import Matrix

ROWS = (2_000, 30_000)
COLS = (60, 300, 5_000, 50_000)
PER_ROW = (4, 16, 64)
FILLS_A_SIZE = 4
MOST_NONZEROS = 2_000_000
KINDS = ("ones", "float32", "float64")
AIM = 0.95
SECONDS = 0.02  # of each round of a product, for both together
MIN_TURNS = 5


SECTIONS = """
## Many matrices on the CPU
headline: sparse products, one thread | SciPy | rows | over | {machine[cpu]}

{matrices} matrices from 2000 x 60 to 30000 x 50000, 4 to 64 nonzeros per row, and published graphs;
calls from Python with existing arrays, on one thread. SciPy {scipy} multiplies with vectors in the type
of the values, and so adds up in float32 if they are. `over` is SciPy's time over ours, each the minimum
of many alternating calls; at least {aim} is the aim.

[summary]
product, values = {product}, {values} | matrices = {matrices} | least over = {least:.2f} |
median over = {median:.2f} | below the aim = {missed}

Those below the aim:

[missed]
matrix, values, product = {matrix}, {values}, {product} | us = {us:.0f} | SciPy, us = {scipy_us:.0f} |
over = {over:.2f}

[aims]
"""


def matrices() -> Iterator[tuple[str, Callable[[], tuple[Any, Any, tuple[int, int]]]]]:
    """Yield names of matrices, and what returns the cells of each."""
    yield from itertools.chain(published(), families())
    turn = itertools.cycle(FILLS)
    for rows, cols, per_row in itertools.product(ROWS, COLS, PER_ROW):
        if per_row > cols // 2 or rows * per_row > MOST_NONZEROS:
            continue
        for fill in itertools.islice(turn, FILLS_A_SIZE):
            name = f"{fill} {rows} x {cols}, {per_row} a row"
            yield name, lambda fill=fill, size=(rows, cols, per_row): cells(fill, *size)


class Case:
    """A matrix with values of one kind, ours and SciPy's, and the least times of both by product."""

    def __init__(self, name: str, kind: str, rows: Rows) -> None:
        self.name, self.kind = name, kind
        values = np.ones(len(rows.indices)) if rows.data is None else rows.data
        self.peer = csr_matrix((values, rows.indices, rows.indptr), rows.shape)
        self.peer.has_canonical_format = True
        self.own = Matrix(rows.indptr.astype(np.int64), rows.indices, rows.data, rows.shape, threads=1)
        m, d = rows.shape
        rng = np.random.default_rng(1)
        self.w, self.r, self.out_m, self.out_d = rng.random(d), rng.random(m), np.empty(m), np.empty(d)
        w, r, transposed = self.w.astype(values.dtype), self.r.astype(values.dtype), self.peer.T
        self.works: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "X w": (lambda: self.own.matvec(self.w, self.out_m), lambda: self.peer @ w),
            "X^T r": (lambda: self.own.rmatvec(self.r, self.out_d), lambda: transposed @ r),
        }
        self.least = {product: [np.inf, np.inf] for product in self.works}
        for ours, theirs in self.works.values():
            ours()
            found = self.out_m if ours is self.works["X w"][0] else self.out_d
            np.testing.assert_allclose(found, theirs(), rtol=1e-3 if kind == "float32" else 1e-9, atol=1e-3)

    def measure(self) -> None:
        """Let both take turns."""
        for product, works in self.works.items():
            end, turns, least = time.perf_counter() + SECONDS, 0, self.least[product]
            while turns < MIN_TURNS or time.perf_counter() < end:
                turns += 1
                for k, work in enumerate(works):
                    start = time.perf_counter()
                    work()
                    least[k] = min(least[k], time.perf_counter() - start)

    def rows(self) -> Iterator[dict[str, Any]]:
        for product, (ours, theirs) in self.least.items():
            yield {
                "matrix": self.name,
                "values": self.kind,
                "product": product,
                "nonzeros": int(self.peer.nnz),
                "us": 1e6 * ours,
                "scipy_us": 1e6 * theirs,
                "over": theirs / ours,
            }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the least and the median ratio of each kind and product, and how many miss the aim."""
    found = []
    for kind, product in itertools.product(KINDS, ("X w", "X^T r")):
        over = [row["over"] for row in rows if (row["values"], row["product"]) == (kind, product)]
        if over:
            missed = sum(ratio < AIM for ratio in over)
            figures = {"least": min(over), "median": float(np.median(over)), "missed": missed}
            found.append({"values": kind, "product": product, "matrices": len(over), **figures})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only matrices whose names contain this")
    parser.add_argument("--out", default=report.RESULTS / "choice_cpu.json")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number, (name, make) in enumerate(matrices()):
        if options.only not in name:
            continue
        cases = [Case(name, kind, with_values(*make(), kind, number)) for kind in KINDS]
        for _ in range(options.rounds):
            for case in cases:
                case.measure()
        for row in (row for case in cases for row in case.rows()):
            rows.append(row)
            if row["over"] < AIM:
                print(
                    f"{name:36} {row['values']:8} {row['product']:6} {row['us']:9.1f} us, {row['over']:.2f}"
                )
    figures = summary(rows)
    for line in figures:
        print(line)
    report.write(
        options.out,
        SECTIONS,
        scipy=scipy.__version__,
        rounds=options.rounds,
        aim=AIM,
        matrices=len({row["matrix"] for row in rows}),
        summary=figures,
        missed=[row for row in rows if row["over"] < AIM],
        rows=rows,
        aims=[report.aim("SciPy / bmrm, least of all products", min(row["over"] for row in rows), AIM)],
    )


if __name__ == "__main__":
    main()
