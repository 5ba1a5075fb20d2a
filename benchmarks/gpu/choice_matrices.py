"""The matrices of choice_gpu.py: generated ones, over a grid and of four families, and published ones.

The fills `whole`, `row` and `block` are Random, Constant Row and Structured of A. H. El Zein, Use of Graphics
Processing Units for Sparse Matrix-Vector Products in Statistical Machine Learning Applications (thesis,
Australian National University, 2009), section 4.3.2: each cell with the same probability; the same number of
nonzeros in each row, anywhere; the same columns in every row. `zipf` draws columns by Zipf's law with
Mandelbrot's shift and lengths from a lognormal, like text; `power` draws lengths from a power law, like
graphs. Four families have a form of their own: `stencil`, the couplings of a grid's points; `fem`, full
blocks of the unknowns of neighbouring nodes of a mesh; `banded`, all cells near the diagonal; `giant`, short
rows and two that have half of all columns, as in table 4.13 of the thesis.
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

Cells = tuple[np.ndarray, np.ndarray, tuple[int, int]]
"""Row and column of each nonzero, and the shape."""

STENCILS = ((5, 300, 300, 1), (5, 1_000, 1_000, 1), (7, 60, 60, 60), (27, 60, 60, 60))
"""Points of a stencil and the sizes of its grid."""
MESHES = ((5_000, 3), (40_000, 3), (10_000, 6))
"""Nodes of a mesh and unknowns of each."""
BANDS = ((30_000, 8), (30_000, 64), (300_000, 8))
"""Rows, and the diagonals on either side of the main one."""
GIANTS = ((30_000, 6), (400_000, 6), (400_000, 16))
"""Rows, and the mean length of all but two."""
FAMILIES = ("stencil", "fem", "banded", "giant")

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
    """Return all matrices; published ones do not change the others."""
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


def generated() -> Iterator[tuple[str, Callable[..., Cells]]]:
    """Yield the grid of rows, columns and nonzeros per row, some fills for each, taken in turn."""
    turn = itertools.cycle(FILLS)
    for rows, cols, per_row in itertools.product(ROWS, COLS, PER_ROW):
        if per_row > cols // 2 or rows * per_row > MOST_NONZEROS:
            continue
        for fill in itertools.islice(turn, FILLS_A_SIZE):
            name = f"{fill} {rows} x {cols}, {per_row} a row"
            yield name, lambda fill=fill, size=(rows, cols, per_row): cells(fill, *size)


def cells(fill: str, rows: int, cols: int, per_row: int) -> Cells:
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


def one_hot() -> Cells:
    """Return the cells of `ONE_HOT`."""
    rows, cols, per_row, exponent = ONE_HOT
    law = np.cumsum(1.0 / np.arange(1, cols + 1) ** exponent)
    draws = np.random.default_rng(0).random(rows * per_row)
    col = np.searchsorted(law / law[-1], draws).clip(0, cols - 1)
    return np.repeat(np.arange(rows), per_row), col, (rows, cols)


def families() -> Iterator[tuple[str, Callable[..., Cells]]]:
    """Yield the matrices of `FAMILIES`."""
    for points, *size in STENCILS:
        grid = " x ".join(str(n) for n in size if n > 1)
        yield f"stencil of {points} points, {grid}", lambda points=points, size=size: stencil(points, *size)
    for nodes, unknowns in MESHES:
        name = f"fem, {nodes} nodes, {unknowns} unknowns"
        yield name, lambda nodes=nodes, unknowns=unknowns: mesh(nodes, unknowns)
    for rows, width in BANDS:
        yield f"banded {rows}, {2 * width + 1} diagonals", lambda rows=rows, width=width: band(rows, width)
    for rows, mean in GIANTS:
        yield f"giant {rows}, {mean} a row", lambda rows=rows, mean=mean: giant(rows, mean)


def near(rows: int, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of these diagonals."""
    row = np.repeat(np.arange(rows), len(offsets))
    col = row + np.tile(offsets, rows)
    inside = (col >= 0) & (col < rows)
    return row[inside], col[inside]


def band(rows: int, width: int) -> Cells:
    """Return the cells at most `width` from the diagonal."""
    return *near(rows, np.arange(-width, width + 1)), (rows, rows)


def stencil(points: int, *size: int) -> Cells:
    """Return the couplings of neighbouring points of a grid: all 27, or those along an axis."""
    steps = [
        step
        for step in itertools.product((-1, 0, 1), repeat=3)
        if points == 27 or (np.abs(step).sum() <= 1 and (points == 7 or step[2] == 0))
    ]
    places = np.stack(np.unravel_index(np.arange(np.prod(size)), size))
    rows, cols = [], []
    for step in steps:
        to = places + np.array(step)[:, None]
        inside = ((to >= 0) & (to < np.array(size)[:, None])).all(0)
        rows.append(np.flatnonzero(inside))
        cols.append(np.ravel_multi_index(tuple(to[:, inside]), size))
    return np.concatenate(rows), np.concatenate(cols), (int(np.prod(size)),) * 2


def mesh(nodes: int, unknowns: int) -> Cells:
    """Return full blocks for a node, its two neighbours and some further ones nearby, in both directions."""
    rng = np.random.default_rng([nodes, unknowns])
    node = np.repeat(np.arange(nodes), rng.integers(3, 9, nodes))
    other = node + np.rint(rng.standard_normal(len(node)) * np.sqrt(nodes)).astype(np.int64)
    inside = (other >= 0) & (other < nodes)
    node, other = node[inside], other[inside]
    close, beside = near(nodes, np.arange(-1, 2))
    node, other = np.concatenate((node, other, close)), np.concatenate((other, node[: len(other)], beside))
    i, j = np.divmod(np.arange(unknowns**2), unknowns)
    row, col = node[:, None] * unknowns + i, other[:, None] * unknowns + j
    return row.ravel(), col.ravel(), (nodes * unknowns,) * 2


def giant(rows: int, mean: int) -> Cells:
    """Return rows of a mean length, of which two have half of all columns."""
    rng = np.random.default_rng([rows, mean])
    lengths = 1 + rng.poisson(mean - 1, rows)
    lengths[rng.choice(rows, 2, replace=False)] = rows // 2
    return np.repeat(np.arange(rows), lengths), rng.integers(0, rows, lengths.sum()), (rows, rows)


def data_folder() -> Path | None:
    """Return the folder of published data, or None and say so."""
    if root := os.environ.get("BMRM_TEST_DATA"):
        return Path(root)
    print("no published matrices: BMRM_TEST_DATA does not name their folder")
    return None


def published() -> Iterator[tuple[str, Callable[..., Cells]]]:
    """Yield the matrices of the folder $BMRM_TEST_DATA."""
    if (root := data_folder()) is None:
        return
    for path in sorted(p for folder in ("mtx", "svm", "rank") for p in (root / folder).glob("*")):
        yield f"{path.parent.name}/{path.name}", lambda path=path: from_file(path)
    for path in sorted((root / "graphs").glob("*.gz")):
        yield f"graphs/{path.name}", lambda path=path: from_edges(path)


def from_file(path: Path) -> Cells:
    """Return the cells of a data file that the package reads."""
    from bmrm.io import read_data

    X = read_data(path, duplicates="sum").X
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices, X.shape


def from_edges(path: Path) -> Cells:
    """Return the cells of a graph's adjacency matrix; nodes are numbered by the order of their names."""
    with gzip.open(path, "rt") as file:
        edges = np.loadtxt((line for line in file if line[0] not in "#%"), np.int64, usecols=(0, 1), ndmin=2)
    names, ends = np.unique(edges, return_inverse=True)
    ends = ends.reshape(-1, 2)
    return ends[:, 0], ends[:, 1], (len(names), len(names))
