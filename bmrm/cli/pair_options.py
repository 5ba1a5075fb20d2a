"""The options of ``bmrm-pairs``."""

from __future__ import annotations

from collections.abc import Callable

from bmrm.cli.exits import PAIRS_MEANINGS
from bmrm.cli.parsing import Command, Option, integer, positive, real
from bmrm.cli.shared_options import COLUMNS, DEVICE, NO_PROGRESS, THREADS


def _numbers(expected: str, accept: Callable[[float], bool]) -> Callable[[str], tuple[float, ...]]:
    """Return an argparse type for numbers with commas between them."""
    number = real(expected, accept)
    return lambda text: tuple(number(word) for word in text.split(","))


def _box(text: str) -> float | tuple[float, ...]:
    found = _numbers("lengths of at least 0, one or one per axis: 420 or 1,1,0", lambda value: value >= 0)(
        text
    )
    return found[0] if len(found) == 1 else found


def _bandwidth(text: str) -> float | str:
    return text if text in ("scott", "silverman") else positive(text)


_TASKS = ("hist", "count", "plan", "knn", "join", "kde")

PAIRS = Command(
    "bmrm-pairs",
    about="count pairs of points by distance; neighbours, densities",
    usage="hist|count|plan|knn|join|kde [options] POINTS [POINTS2]",
    description="Count the pairs of POINTS, or of POINTS with POINTS2, by distance (hist) or within\n"
    "radii (count), exactly; plan explains how hist would count. Find the nearest\n"
    "neighbours of POINTS (knn), or all within a radius (join), among themselves or in\n"
    "POINTS2. Estimate the density from which POINTS were drawn (kde), at these or at\n"
    "POINTS2.",
    meanings=PAIRS_MEANINGS,
    files=(
        Option("task", "hist, count, plan, knn, join, kde", "TASK", choices=_TASKS),
        Option(
            "points",
            "npy, npz, CSV, Parquet, Matrix Market, SVMlight; - is standard input; FILE:A,B,C reads some "
            "columns, by names or numbers from 1",
            "POINTS",
        ),
        Option("points2", "other points, for pairs of one with one", "POINTS2", kind="optional"),
    ),
    examples=(
        "bmrm-pairs hist --edges 0:1.7:10 points.npy",
        "bmrm-pairs knn -k 5 -o nearest.npz points.npy",
        "bmrm-pairs kde --bandwidth 0.1 points.npy grid.npy",
    ),
    options={
        "": (
            Option(
                "--edges",
                "hist, plan: FROM:TO:BINS, evenly spaced; log:FROM:TO:BINS, evenly spaced logarithms; or a "
                "file of edges, npy or text",
                "EDGES",
            ),
            Option(
                "--radius",
                "count, join: largest distance; several with commas for count",
                "R,...",
                type=_numbers("numbers of at least 0: 0.1 or 0.1,0.2", lambda value: value >= 0),
            ),
            Option(
                "--box", "lengths of a periodic box, 0 for an open axis: 420 or 1,1,0", "L,...", type=_box
            ),
            Option(
                "--images",
                "on periodic axes beyond half the shortest length: the nearest image of a pair, or all",
                choices=("one", "all"),
            ),
            Option(
                "--closed",
                "hist, plan: ends that count: left ones and the last, left, right (default: last)",
                choices=("last", "left", "right"),
                default="last",
            ),
            Option("-k", "knn: number of neighbours", "K", type=integer(1)),
            Option(
                "--metric",
                "knn, join: distance (default: euclidean)",
                choices=("euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev", "jaccard"),
                default="euclidean",
            ),
            Option(
                "--bandwidth",
                "kde: standard deviation or radius of the kernel, scott or silverman",
                "H",
                type=_bandwidth,
            ),
            Option(
                "--kernel",
                "kde: %(choices)s (default: gaussian)",
                "NAME",
                choices=("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"),
                default="gaussian",
            ),
            Option("--weights", "kde: weights of the points in POINTS, npy or text", "FILE"),
            Option("--log", "kde: logarithms of densities", kind="flag"),
            Option("--tol", "kde: relative error that densities may have", "X", type=positive),
            Option(
                "-o --output",
                "write counts, densities, or neighbours as a sparse matrix of distances (.npz) or as pairs "
                "of numbers from 0 (.npy): .npz, .npy, else text; - is stdout",
                "FILE",
            ),
            Option(
                "--plan",
                "how to count; counts do not depend on it (default: auto)",
                choices=("auto", "brute", "cells", "float64"),
                default="auto",
            ),
            COLUMNS[0],
            COLUMNS[2],
            THREADS,
            DEVICE,
            *NO_PROGRESS,
        )
    },
)
