"""Neighbours of points on the CPU, against other programs.

    OMP_NUM_THREADS=1 python -m benchmarks.pairs.nearest [--out FILE]

All of it runs on one thread. A time is processor time of the process, the least of some calls that take
turns; trees and packed points are made in each call. With many columns some points ask for their neighbours
among all. Distances are compared with those of the other programs each time. FAISS computes in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pykdtree
import scipy
import sklearn
from pykdtree.kdtree import KDTree
from scipy.spatial import cKDTree
from sklearn import neighbors

from benchmarks.common import report
from benchmarks.common.cpu_timing import least_seconds
from bmrm import pairs
from bmrm.errors import HostMemoryError

POINTS, K, REPEATS = 100_000, 10, 3
QUERIES = {16: 10_000, 64: 10_000, 768: 500}
"""Points that ask for neighbours, by the number of columns."""

RADIUS = 0.03
MANY, COLUMNS = 180_000, 9

SECTIONS = """
## Neighbours of points on the CPU
headline: 10 nearest, one thread | FAISS | few | seconds[faiss]/seconds[ours] | {machine[cpu]}

NumPy {versions[numpy]}, SciPy {versions[scipy]}, scikit-learn {versions[sklearn]}, FAISS
{versions[faiss]}, pykdtree {versions[pykdtree]}. Minimum processor time of one thread, including all
preparation of the points. Our neighbours are those of distances in float64, with points at the same
distance ordered by index. The {sizes[k]} nearest of each of {sizes[points]} uniform points:

[trees]
columns = {columns} | bmrm s = {seconds[ours]:.3f} | pykdtree s = {seconds[pykdtree]:.3f} |
cKDTree s = {seconds[scipy]:.3f}

The {sizes[k]} nearest of some points among these:

[few]
columns = {columns} | points = {queries} | bmrm s = {seconds[ours]:.3f} |
scikit-learn s = {seconds[sklearn]:.3f} |
FAISS s = {seconds[faiss]:.3f}

Pairs within {sizes[radius]} as a sparse matrix, of {sizes[points]} points in a cube; and counting until the
result cannot fit, of {sizes[many]} points with {sizes[columns]} columns most of which are within the radius.

[radius]
neighbours = {neighbours} | bmrm s = {seconds[ours]:.3f} | cKDTree s = {seconds[scipy]:.3f} |
refused after s = {refused:.3f}

[aims]
"""


def uniform(n: int, columns: int) -> Any:
    """Return uniform points of a unit cube."""
    return np.random.default_rng(0).random((n, columns))


def nearest(x: Any, y: Any = None) -> tuple[Any, Any]:
    """Return our neighbours."""
    return pairs.nearest(K, x, y, device="cpu", threads=1)


def measure_trees(columns: int) -> dict[str, Any]:
    """Measure the neighbours of all points among few columns."""
    x = uniform(POINTS, columns)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: nearest(x),
        "pykdtree": lambda: KDTree(x).query(x, K + 1),
        "scipy": lambda: cKDTree(x).query(x, K + 1),
    }
    assert np.allclose(nearest(x)[0], calls["scipy"]()[0][:, 1:], rtol=1e-12)
    return {"columns": columns, "seconds": least_seconds(calls, REPEATS)}


def measure_few(columns: int) -> dict[str, Any]:
    """Measure the neighbours of some points among many columns."""
    x = uniform(POINTS, columns)
    few, single = x[: QUERIES[columns]], x.astype(np.float32)

    def exhaustive() -> Any:
        index = faiss.IndexFlatL2(columns)
        index.add(single)
        return index.search(single[: len(few)], K)

    brute = neighbors.NearestNeighbors(n_neighbors=K, algorithm="brute", n_jobs=1)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: nearest(few, x),
        "sklearn": lambda: brute.fit(x).kneighbors(few),
        "faiss": exhaustive,
    }
    assert np.allclose(nearest(few, x)[0], calls["sklearn"]()[0], rtol=1e-9, atol=1e-6)
    return {"columns": columns, "queries": len(few), "seconds": least_seconds(calls, REPEATS)}


def measure_radius() -> dict[str, Any]:
    """Measure pairs within a radius, and how long it takes to refuse too many."""
    x, many = uniform(POINTS, 3), uniform(MANY, COLUMNS)

    def matrix_of_scipy() -> Any:
        tree = cKDTree(x)
        return tree.sparse_distance_matrix(tree, RADIUS, output_type="coo_matrix").tocsr()

    def refuse() -> None:
        try:
            pairs.within(1.0, many, device="cpu", threads=1)
        except HostMemoryError:
            return
        raise AssertionError("the result fits")

    calls = {"ours": lambda: pairs.within(RADIUS, x, device="cpu", threads=1), "scipy": matrix_of_scipy}
    found = calls["ours"]()
    assert found.nnz == calls["scipy"]().nnz - POINTS
    seconds = least_seconds(calls, REPEATS)
    return {
        "neighbours": int(found.nnz),
        "seconds": seconds,
        "refused": least_seconds({"ours": refuse}, 1)["ours"],
    }


def aims(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare with what is asked."""
    found = []
    for row in numbers["trees"]:
        if row["columns"] == 3:
            for who, bound in (("pykdtree", 1.0), ("scipy", 1.4)):
                share = row["seconds"][who] / row["seconds"]["ours"]
                found.append(report.aim(f"{who} / bmrm, 3 columns", share, bound))
    for row in numbers["few"]:
        if row["columns"] == 64:
            for who, name in (("sklearn", "scikit-learn"), ("faiss", "FAISS")):
                share = row["seconds"][who] / row["seconds"]["ours"]
                found.append(report.aim(f"{name} / bmrm, 64 columns", share, 2.5))
    refused = numbers["radius"][0]["refused"]
    found.append(report.aim("a result that cannot fit is refused", refused, 10.0, " s", below=True))
    return found


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "pairs_nearest.json")
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    numbers: dict[str, Any] = {
        "sizes": {"points": POINTS, "k": K, "radius": RADIUS, "many": MANY, "columns": COLUMNS},
        "trees": [measure_trees(columns) for columns in (2, 3, 6)],
        "few": [measure_few(columns) for columns in QUERIES],
        "radius": [measure_radius()],
    }
    numbers["aims"] = aims(numbers)
    for aim in numbers["aims"]:
        print(report.line(aim))
    versions = {module.__name__: module.__version__ for module in (np, scipy, sklearn, faiss)}
    versions["pykdtree"] = getattr(pykdtree, "__version__", "-")
    report.write(options.out, SECTIONS, versions=versions, **numbers)


if __name__ == "__main__":
    main()
