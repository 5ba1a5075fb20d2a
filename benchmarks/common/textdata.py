"""A text-like SVMlight set: Zipf columns, normalised tf-idf-like values, labels of a planted model.

    python -m benchmarks.common.textdata OUT [--rows 200000] [--cols 47236] [--nnz-per-row 76] [--seed 0]

With the defaults the file has 14.6 M nonzeros and 222 MB, the size and shape of a large news corpus.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os

import numpy as np

from bmrm.io import Csr

CHUNK_ROWS = 10_000
LABEL, WORD = 2, 8  # bytes of a label and, at most, of " index:"
NOISE = 0.5  # standard deviation of what is added to the margins, over that of the margins


def make_text(
    path: str | os.PathLike[str],
    rows: int = 200_000,
    cols: int = 47_236,
    nnz_per_row: int = 76,
    seed: int = 0,
) -> None:
    """Write the set to `path`, on all cores; the same arguments give the same bytes."""
    words = np.array([f" {j}:" for j in range(1, cols + 1)], dtype=f"S{WORD}")
    chunk = functools.partial(_text, _drawing(rows, cols, nnz_per_row, seed), words)
    with open(path, "wb") as file, multiprocessing.get_context("spawn").Pool() as pool:
        for text in pool.imap(chunk, range(0, rows, CHUNK_ROWS)):
            file.write(text)


def text_matrix(
    rows: int, cols: int = 47_236, nnz_per_row: int = 76, seed: int = 0
) -> tuple[Csr, np.ndarray]:
    """Return the same set in memory, values float32, and the scores whose signs are its labels."""
    indptr, indices, data, scores = [np.zeros(1, np.int64)], [], [], []
    draw = _drawing(rows, cols, nnz_per_row, seed)
    for score, starts, column, value in map(draw, range(0, rows, CHUNK_ROWS)):
        indptr.append(indptr[-1][-1] + np.append(starts[1:], len(column)))
        indices.append(column.astype(np.int32))
        data.append(value.astype(np.float32))
        scores.append(score)
    X = Csr(np.concatenate(indptr), np.concatenate(indices), np.concatenate(data), (rows, cols))
    return X, np.concatenate(scores)


def _drawing(rows, cols, nnz_per_row, seed):
    """Return a function that draws a chunk, given the number of its first row."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(cols) + 10.0)
    popularity /= popularity.sum()
    tokens = _tokens(popularity, nnz_per_row)
    column_of_rank = rng.permutation(cols)
    idf = np.log(1.0 / np.minimum(1.0, nnz_per_row * popularity)) + 0.5
    planted = rng.standard_normal(cols)
    return functools.partial(_draw, seed, rows, tokens, np.cumsum(popularity), column_of_rank, idf, planted)


def _tokens(popularity, distinct) -> float:
    """Return the mean number of tokens per row that gives the wanted number of distinct ones."""
    low, high = 0.0, 1e9
    for _ in range(100):
        middle = (low + high) / 2
        few = -np.expm1(-middle * popularity).sum() < distinct
        low, high = (middle, high) if few else (low, middle)
    return low


def _draw(seed, all_rows, tokens, cumulative, column_of_rank, idf, planted, first):
    """Return the scores of a chunk's rows, where they start, and their columns and values."""
    rng = np.random.default_rng((seed, first))
    cols, rows = len(column_of_rank), min(CHUNK_ROWS, all_rows - first)
    lengths = np.maximum(1, rng.poisson(tokens, rows))
    row = np.repeat(np.arange(rows), lengths)
    rank = np.minimum(np.searchsorted(cumulative, rng.random(len(row))), cols - 1)
    key, counts = np.unique(row * np.int64(cols) + column_of_rank[rank], return_counts=True)
    row, column = np.divmod(key, cols)
    rank_of_column = np.empty(cols, np.int64)
    rank_of_column[column_of_rank] = np.arange(cols)
    value = (1 + np.log(counts)) * idf[rank_of_column[column]] * rng.uniform(0.5, 1.5, len(row))
    value /= np.sqrt(np.bincount(row, value**2, rows))[row]
    margin = np.bincount(row, value * planted[column], rows)
    score = margin + NOISE * margin.std() * rng.standard_normal(rows)
    return score, np.flatnonzero(np.diff(row, prepend=-1)), column, value


def _text(draw, words, first) -> bytes:
    score, starts, column, value = draw(first)
    return _format(np.where(score > 0, b"+1", b"-1"), starts, words[column], value)


def _format(label, starts, word, value) -> bytes:
    """Return the text of the rows: fixed-width fields side by side, without the NULs that pad them.

    Values have six significant digits and no trailing zeros, as printf's %g writes them.
    """
    decimals = np.minimum(8, 6 + (value < 0.1) + (value < 0.01))
    unit = 10 ** (8 - decimals)
    scaled = np.maximum(1, np.rint(value * 10.0**decimals)).astype(np.int64) * unit
    fields = np.zeros((len(word), LABEL + WORD + 10 + 1), np.uint8)
    fields[starts, :LABEL] = label[:, None].view(np.uint8).reshape(-1, LABEL)
    fields[:, LABEL : LABEL + WORD] = word[:, None].view(np.uint8).reshape(-1, WORD)
    number = fields[:, LABEL + WORD :]
    number[:, 0] = ord("0") + scaled // 10**8
    number[:, 1] = np.where(scaled % 10**8, ord("."), 0)
    for digit in range(8):
        rest = scaled % 10 ** (8 - digit)
        number[:, 2 + digit] = np.where(rest, ord("0") + rest // 10 ** (7 - digit), 0)
    number[np.append(starts[1:] - 1, -1), 10] = ord("\n")
    flat = fields.reshape(-1)
    return flat[flat != 0].tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--cols", type=int, default=47_236)
    parser.add_argument("--nnz-per-row", type=int, default=76)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make_text(arguments.out, arguments.rows, arguments.cols, arguments.nnz_per_row, arguments.seed)


if __name__ == "__main__":
    main()
