"""``bmrm-pairs knn`` and ``bmrm-pairs join``: neighbours of the points in files."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit
from bmrm.cli.results import print_json, showing

if TYPE_CHECKING:
    import argparse

    from bmrm.pairs import Points


def find_neighbours(options: argparse.Namespace, x: Points, y: Points | None, began: float) -> int:
    """Find neighbours, write them and report; return the exit code."""
    from bmrm.pairs import within

    words: dict[str, Any] = {"metric": options.metric, "threads": options.threads}
    with showing(options, "finding neighbours"):
        if options.task == "join":
            graph = within(options.radius[0], x, y, **words)
        else:
            graph = _nearest_graph(options.k, x, y, words)
    _write(options, graph)
    seconds = time.perf_counter() - began
    found, points = graph.nnz, graph.shape[0]
    if options.json:
        print_json({"neighbours": found, "points": points, "seconds": seconds, "status": "found"})
    elif options.output != "-":
        print(
            f"found: {found} neighbours of {points} points, {seconds:.3f} s",
            file=sys.stderr if options.output is None else sys.stdout,
        )
    return Exit.OK


def _nearest_graph(k: int, x: Points, y: Points | None, words: dict[str, Any]) -> Any:
    """Return the nearest neighbours as a sparse matrix, each row by distance."""
    import numpy as np
    from scipy.sparse import csr_array

    from bmrm.pairs import nearest

    distances, indices = nearest(k, x, y, **words)
    starts = np.arange(0, distances.size + 1, k)
    shape = (len(distances), len(x if y is None else y))
    return csr_array((distances.reshape(-1), indices.reshape(-1), starts), shape=shape)


def _write(options: argparse.Namespace, graph: Any) -> None:
    """Write an npz file of SciPy, pairs of numbers as npy, or a line per neighbour."""
    import numpy as np

    from bmrm.base.atomic import atomic_write
    from bmrm.io.npy import write_array

    if options.output is None and options.json:
        return
    kind = "" if options.output in (None, "-") else os.path.splitext(options.output)[1]
    if kind == ".npz":
        from scipy.sparse import save_npz

        with atomic_write(options.output) as file:
            save_npz(file, graph, compressed=False)
        return
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    if kind == ".npy":
        with atomic_write(options.output) as file:
            write_array(file, np.column_stack([rows, graph.indices.astype(np.int64)]))
        return
    each = zip(rows.tolist(), graph.indices.tolist(), graph.data.tolist(), strict=True)
    lines = (f"{row} {index} {distance!r}\n" for row, index, distance in each)
    if options.output in (None, "-"):
        sys.stdout.writelines(lines)
        return
    with atomic_write(options.output) as file:
        file.writelines(line.encode() for line in lines)
