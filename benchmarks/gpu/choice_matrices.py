"""The matrices of choice_gpu.py: generated ones, over a grid and of some families, and published ones.

The fills `whole`, `row` and `block` are Random, Constant Row and Structured of A. H. El Zein, Use of Graphics
Processing Units for Sparse Matrix-Vector Products in Statistical Machine Learning Applications (thesis,
Australian National University, 2009), section 4.3.2: each cell with the same probability; the same number of
nonzeros in each row, anywhere; the same columns in every row. `zipf` draws columns by Zipf's law with
Mandelbrot's shift and lengths from a lognormal, like text; `power` draws lengths from a power law, like
graphs.

The families come from other fields: `stencil` are differences on a grid, `fem` finite elements with several
unknowns in a node, `band` all cells near the diagonal, and `giant` has two full rows among short ones.
"""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROWS = (2_000, 30_000, 300_000)
COLS = (60, 300, 5_000, 50_000, 500_000)
PER_ROW = (4, 16, 64, 256)
FILLS = ("whole", "row", "block", "zipf", "power")
FILLS_A_SIZE = 4
MOST_NONZEROS = 8_000_000
KINDS = ("float32", "float32", "ones", "float32", "float64", "ones64")
"""Types of the values, in turn over the matrices; vectors are float64 for `ones64`, float32 for `ones`."""

PLANE = ((-1, 0), (0, -1), (0, 0), (0, 1), (1, 0))
CUBE = tuple(itertools.product((-1, 0, 1), repeat=3))
CROSS = tuple(step for step in CUBE if sum(map(abs, step)) <= 1)
TRIANGLES = (*PLANE, (-1, -1), (1, 1))
GRIDS = (  # family, points of the grid, neighbours, unknowns in a point
    ("stencil", (1000, 1000), PLANE, 1),
    ("stencil", (100, 100, 100), CROSS, 1),
    ("stencil", (60, 60, 60), CUBE, 1),
    ("fem", (300, 300), TRIANGLES, 2),
    ("fem", (30, 30, 30), CUBE, 3),
    ("band", (300_000,), tuple((step,) for step in range(-8, 9)), 1),
    ("band", (100_000,), tuple((step,) for step in range(-32, 33)), 1),
)
GIANT = ((30_000, 4), (300_000, 4), (300_000, 16))
"""Rows and columns, and nonzeros of a short row, of matrices with two full rows."""

FAMILIES = ("stencil", "fem", "band", "giant")

LARGE = "large-graph"
"""The group of a matrix that is too large for the others' number."""

ONE_HOT = (1_000_000, 1_000_000, 39, 1.05)
"""Rows, columns, features of a row and the exponent of Zipf's law of a large one-hot matrix."""


class Case(NamedTuple):
    """A matrix that can be generated."""

    name: str
    kind: str
    make: Callable[[], Rows]


class Rows(NamedTuple):
    """Compressed rows; `data` of the ones is None."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray | None
    shape: tuple[int, int]


def cases() -> Iterator[Case]:
    """Return all matrices: generated, then those of families, then published ones."""
    for number, (name, make) in enumerate(itertools.chain(generated(), families(), published())):
        kind = KINDS[number % len(KINDS)]
        yield Case(name, kind, lambda make=make, kind=kind, seed=number: with_values(*make(), kind, seed))
    rows, cols, per_row, _ = ONE_HOT
    for kind in ("ones", "ones64", "float64"):
        name = f"one-hot {rows} x {cols}, {per_row} a row"
        yield Case(name, kind, lambda kind=kind: with_values(*one_hot(), kind, 0))


def with_values(row: np.ndarray, col: np.ndarray, shape: tuple[int, int], kind: str, seed: int) -> Rows:
    """Return compressed rows of distinct cells, with values of a kind."""
    key = np.unique(row.astype(np.int64) * shape[1] + col)
    row, col = np.divmod(key, shape[1])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=shape[0]))))
    data = None
    if not kind.startswith("ones"):
        data = np.random.default_rng(seed).standard_normal(len(key), np.float32).astype(kind)
    return Rows(indptr, col.astype(np.int32), data, shape)


def generated() -> Iterator[tuple[str, Callable[[], tuple]]]:
    """Yield the grid of rows, columns and nonzeros per row, some fills for each, taken in turn."""
    turn = itertools.cycle(FILLS)
    for rows, cols, per_row in itertools.product(ROWS, COLS, PER_ROW):
        if per_row > cols // 2 or rows * per_row > MOST_NONZEROS:
            continue
        for fill in itertools.islice(turn, FILLS_A_SIZE):
            name = f"{fill} {rows} x {cols}, {per_row} a row"
            yield name, lambda *size, fill=fill, r=rows, c=cols, k=per_row: cells(fill, r, c, k)


def cells(fill: str, rows: int, cols: int, per_row: int) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return row and column of each nonzero; some may occur twice."""
    rng = np.random.default_rng([FILLS.index(fill), rows, cols, per_row])
    if fill == "block":
        row, col = np.arange(rows), rng.choice(cols, per_row, replace=False)
        return np.repeat(row, per_row), np.tile(col, rows), (rows, cols)
    lengths = np.full(rows, per_row)
    if fill == "whole":
        lengths = np.maximum(1, rng.binomial(cols, per_row / cols, rows))
    elif fill == "zipf":
        lengths = per_row * np.exp(0.7 * rng.standard_normal(rows) - 0.245)
    elif fill == "power":
        lengths = per_row / 3 * (1 + rng.pareto(1.5, rows))
    lengths = np.clip(np.rint(lengths), 1, cols // 2).astype(np.int64)
    draws = rng.random(int(lengths.sum()))
    if fill == "zipf":
        law = np.cumsum(1 / (np.arange(cols) + 10.0))
        col = rng.permutation(cols)[np.searchsorted(law / law[-1], draws).clip(0, cols - 1)]
    else:
        col = (draws * cols).astype(np.int64)
    return np.repeat(np.arange(rows), lengths), col, (rows, cols)


def families() -> Iterator[tuple[str, Callable[[], tuple]]]:
    """Yield the matrices of the families."""
    for family, points, steps, unknowns in GRIDS:
        size = " x ".join(map(str, points))
        name = f"{family} {size}, {len(steps)} neighbours of {unknowns}"
        yield name, lambda points=points, steps=steps, unknowns=unknowns: grid(points, steps, unknowns)
    for rows, per_row in GIANT:
        yield f"giant {rows} x {rows}, {per_row} a row", lambda n=rows, k=per_row: with_full_rows(n, k)


def grid(
    points: tuple[int, ...], steps: tuple[tuple[int, ...], ...], unknowns: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return the cells of a matrix that couples the unknowns of neighbours on a grid."""
    number = np.arange(np.prod(points)).reshape(points)
    ends = []
    for step in steps:
        here = tuple(slice(max(0, -d), min(n, n - d)) for d, n in zip(step, points, strict=True))
        there = tuple(slice(max(0, d), min(n, n + d)) for d, n in zip(step, points, strict=True))
        ends.append(np.stack([number[here].ravel(), number[there].ravel()]))
    row, col = np.concatenate(ends, axis=1)[:, :, None, None] * unknowns
    each = np.arange(unknowns)
    row, col = np.broadcast_arrays(row + each[:, None], col + each)
    return row.ravel(), col.ravel(), (number.size * unknowns, number.size * unknowns)


def with_full_rows(n: int, per_row: int) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return the cells of a square matrix with two full rows and short ones."""
    row, col, shape = cells("whole", n, n, per_row)
    full = np.repeat([n // 3, n // 2], n)
    return np.concatenate([row, full]), np.concatenate([col, np.tile(np.arange(n), 2)]), shape


def one_hot() -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return the cells of `ONE_HOT`."""
    rows, cols, per_row, exponent = ONE_HOT
    law = np.cumsum(1.0 / np.arange(1, cols + 1) ** exponent)
    draws = np.random.default_rng(0).random(rows * per_row)
    col = np.searchsorted(law / law[-1], draws).clip(0, cols - 1)
    return np.repeat(np.arange(rows), per_row), col, (rows, cols)


def published() -> Iterator[tuple[str, Callable[[], tuple]]]:
    """Yield the matrices of the folder $BMRM_TEST_DATA, or say that it is not named."""
    if "BMRM_TEST_DATA" not in os.environ:
        print("no published matrices: BMRM_TEST_DATA does not name their folder")
        return
    root = Path(os.environ["BMRM_TEST_DATA"])
    for path in sorted(p for folder in ("mtx", "svm", "rank") for p in (root / folder).glob("*")):
        yield f"{path.parent.name}/{path.name}", lambda path=path: from_file(path)
    for path in sorted((root / "graphs").glob("*.gz")):
        yield f"graphs/{path.name}", lambda path=path: from_edges(path)


def from_file(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return the cells of a data file that the package reads."""
    from bmrm.io import read_data

    X = read_data(path, duplicates="sum").X
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices, X.shape


def from_edges(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Return the cells of a graph's adjacency matrix; nodes are numbered by the order of their names."""
    with gzip.open(path, "rt") as file:
        edges = np.loadtxt((line for line in file if line[0] not in "#%"), np.int64, usecols=(0, 1), ndmin=2)
    names, ends = np.unique(edges, return_inverse=True)
    ends = ends.reshape(-1, 2)
    return ends[:, 0], ends[:, 1], (len(names), len(names))
