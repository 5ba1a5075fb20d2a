"""Random sparse matrices with the shapes of linear models and graphs, generated on the device in seconds.

    python -m benchmarks.common.shapes [--shapes reuters,kdd99] [--scale 0.1]

prints the properties of each. The first ten have the rows, columns and nonzeros of the data sets of Teo,
Vishwanathan, Smola and Le, JMLR 11 (2010) 311; the graphs have those of two social networks.

A cell (i, j) is drawn with probability proportional to u_i v_j, the expected-degree model of Chung and Lu
(PNAS 99 (2002) 15879), until there are enough distinct cells. Rows are drawn by stratified quantiles of u, so
that a row's length follows its weight closely. Words follow Zipf's law with Mandelbrot's shift,
v_j ~ 1 / (rank_j + 10), with ranks in random order over the columns. Lengths of texts are lognormal. Degrees
of graphs follow a power law, for both directions, and a node has one rank for both.
"""

from __future__ import annotations

import argparse
import time
import zlib
from typing import Any, NamedTuple


class Power(NamedTuple):
    """Weights (rank + shift) ** -exponent, ranks in random order."""

    exponent: float
    shift: float


class Lognormal(NamedTuple):
    """Weights exp(spread * standard normal)."""

    spread: float


class Shape(NamedTuple):
    """Size of a matrix and the laws of its rows and columns; None is uniform."""

    rows: int
    cols: int
    nnz: int
    row_law: Power | Lognormal | None = None
    col_law: Power | None = None

    def scaled(self, scale: float) -> Shape:
        """Scale rows and nonzeros, and the columns of a square matrix."""
        cols = int(self.cols * scale) if self.cols == self.rows else self.cols
        return self._replace(rows=int(self.rows * scale), cols=cols, nnz=int(self.nnz * scale))


WORDS, TEXTS = Power(1.0, 10.0), Lognormal(0.7)
FLICKR, LIVEJOURNAL = Power(0.8, 50.0), Power(0.7, 100.0)
SHAPES = {
    "adult9": Shape(32_561, 123, 520_000),
    "astro-ph": Shape(62_369, 99_757, 4_900_000, TEXTS, WORDS),
    "aut-avn": Shape(56_862, 20_707, 3_000_000, TEXTS, WORDS),
    "covertype": Shape(522_911, 54, 6_900_000),
    "kdd99": Shape(4_898_431, 127, 91_000_000),
    "news20": Shape(15_960, 1_355_181, 6_700_000, TEXTS, WORDS),
    "real-sim": Shape(57_763, 20_958, 3_000_000, TEXTS, WORDS),
    "reuters": Shape(781_265, 47_236, 60_000_000, TEXTS, WORDS),
    "web8": Shape(45_546, 300, 700_000, TEXTS),
    "flickr-like": Shape(1_715_000, 1_715_000, 25_000_000, FLICKR, FLICKR),
    "livejournal-like": Shape(5_200_000, 5_200_000, 89_000_000, LIVEJOURNAL, LIVEJOURNAL),
}
GRAPHS = ("flickr-like", "livejournal-like")


class Csr(NamedTuple):
    """Compressed rows on the device: indptr int64, indices int32 sorted within a row, values float64."""

    indptr: Any
    indices: Any
    values: Any
    shape: tuple[int, int]

    @property
    def nnz(self) -> int:
        return int(self.indices.size)


def cumulative(xp: Any, rng: Any, n: int, law: Power | Lognormal | None) -> Any:
    """Return the cumulative probability of each of n outcomes; None if all are alike."""
    if law is None:
        return None
    if isinstance(law, Power):
        weights = (xp.argsort(rng.random(n)) + law.shift) ** -law.exponent
    else:
        weights = xp.exp(law.spread * rng.standard_normal(n))
    sums = xp.cumsum(weights)
    return sums / sums[-1]


def outcomes(xp: Any, uniform: Any, n: int, law: Any) -> Any:
    """Return the outcomes of numbers uniform in [0, 1) under a cumulative law."""
    drawn = (uniform * n).astype(xp.int64) if law is None else xp.searchsorted(law, uniform, side="right")
    return xp.minimum(drawn, n - 1)


def generate(name: str, *, scale: float = 1.0, xp: Any = None) -> Csr:
    """Return the matrix called `name`: the same one each time on the same kind of device."""
    if xp is None:
        import cupy as xp
    shape = SHAPES[name].scaled(scale)
    rng = xp.random.default_rng(zlib.crc32(name.encode()))
    row_law = cumulative(xp, rng, shape.rows, shape.row_law)
    col_law = row_law if name in GRAPHS else cumulative(xp, rng, shape.cols, shape.col_law)
    cells = xp.empty(0, xp.int64)
    while (missing := shape.nnz - cells.size) > 0:
        count = missing + missing // 8 + 64
        strata = (xp.arange(count) + rng.random(1)) / count
        drawn = outcomes(xp, strata, shape.rows, row_law) * shape.cols
        drawn += outcomes(xp, rng.random(count), shape.cols, col_law)
        cells = xp.concatenate((cells, drawn))
        cells.sort()
        first = xp.ones(cells.size, bool)
        first[1:] = cells[1:] != cells[:-1]
        cells = cells[first]
    # A surplus leaves evenly from everywhere.
    surplus = cells.size - shape.nnz
    if surplus:
        kept = xp.ones(cells.size, bool)
        kept[xp.arange(surplus) * cells.size // surplus] = False
        cells = cells[kept]
    return compressed(xp, cells, rng.standard_normal(shape.nnz), (shape.rows, shape.cols))


def compressed(xp: Any, cells: Any, values: Any, shape: tuple[int, int]) -> Csr:
    """Return the compressed rows of cells, row * columns + column, in order."""
    rows, cols = shape
    indptr = xp.searchsorted(cells, xp.arange(rows + 1) * cols).astype(xp.int64)
    return Csr(indptr, (cells % cols).astype(xp.int32), values, shape)


def row_of_each(xp: Any, matrix: Csr) -> Any:
    """Return the row of each nonzero."""
    return xp.searchsorted(matrix.indptr[1:], xp.arange(matrix.nnz), side="right")


def transpose(matrix: Csr, *, xp: Any = None) -> Csr:
    """Return the compressed rows of the transpose."""
    if xp is None:
        import cupy as xp
    rows, cols = matrix.shape
    cells = matrix.indices.astype(xp.int64) * rows + row_of_each(xp, matrix)
    order = xp.argsort(cells)
    return compressed(xp, cells[order], matrix.values[order], (cols, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES), help="comma-separated names")
    parser.add_argument("--scale", type=float, default=1.0, help="scale of rows and nonzeros")
    options = parser.parse_args()
    print("shape                  rows      cols   nonzeros  longest row  longest column  seconds")
    for name in options.shapes.split(","):
        start = time.perf_counter()
        matrix = generate(name, scale=options.scale)
        longest = int((matrix.indptr[1:] - matrix.indptr[:-1]).max())
        seconds = time.perf_counter() - start
        lengths = transpose(matrix).indptr
        column = int((lengths[1:] - lengths[:-1]).max())
        rows, cols = matrix.shape
        print(
            f"{name:16} {rows:10} {cols:9} {matrix.nnz:10} {longest:12} {column:15} {seconds:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
