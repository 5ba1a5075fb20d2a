"""``bmrm-pairs knn`` and ``bmrm-pairs join``: neighbours of the points in files."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit
from bmrm.cli.results import print_json, showing, write_lines

if TYPE_CHECKING:
    import argparse

    from bmrm.pairs import Points


def find_neighbours(options: argparse.Namespace, x: Points, y: Points | None, began: float) -> int:
    """Find neighbours, write them and report; return the exit code."""
    from bmrm.pairs import nearest, within
    from bmrm.pairs.neighbours import nearest_graph

    words: dict[str, Any] = {"metric": options.metric, "threads": options.threads}
    with showing(options, "finding neighbours"):
        if options.task == "join":
            graph = within(options.radius[0], x, y, **words)
        else:
            found = nearest(options.k, x, y, **words)
            graph = nearest_graph(*found, len(x if y is None else y))
    _write(options, graph)
    seconds = time.perf_counter() - began
    count, points = graph.nnz, graph.shape[0]
    if options.json:
        print_json({"neighbours": count, "points": points, "seconds": seconds, "status": "found"})
    elif options.output != "-":
        print(
            f"found: {count} neighbours of {points} points, {seconds:.3f} s",
            file=sys.stderr if options.output is None else sys.stdout,
        )
    return Exit.OK


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
    write_lines(options.output, (f"{row} {index} {distance!r}\n" for row, index, distance in each))
