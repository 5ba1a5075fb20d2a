"""The fits of one build of the package, one at a time, for `benchmarks.cpu.busy`.

    python one_fit.py CASE

The command is run by its path with the build first in PYTHONPATH, so it imports nothing from the benchmarks:
another build may have none, or others. For each line of the input, a number of threads or "default", it fits
once from arrays, and prints the seconds that passed and those of processors as JSON; before the first one it
prints which package it has imported.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import bmrm
from bmrm import MDS, GaussianMixture, KMeans, TruncatedSVD

Fit = Callable[[int | None], object]


def solve(loss: str) -> Fit:
    """Return a solve of 200,000 full rows of 40 values."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 40))
    y = np.where(X @ rng.standard_normal(40) + 3.0 * rng.standard_normal(len(X)) > 0.0, 1.0, -1.0)

    def fit(threads: int | None) -> object:
        return bmrm.solve(X, y, loss=loss, lam=1e-5, tol=1e-3, threads=threads, device="cpu")

    return fit


def sparse_solve() -> Fit:
    """Return a solve of sparse rows."""
    rng = np.random.default_rng(0)
    X = sp.random_array((60_000, 5_000), density=0.01, format="csr", rng=rng)
    y = np.where(X @ rng.standard_normal(5_000) + rng.standard_normal(X.shape[0]) > 0.0, 1.0, -1.0)
    return lambda threads: bmrm.solve(X, y, loss="hinge", lam=1e-4, tol=1e-2, threads=threads, device="cpu")


def clusters(rows: int, k: int) -> Fit:
    """Return a fit of k-means; k-means++ makes some 2k short passes."""
    X = np.random.default_rng(0).standard_normal((rows, 8))
    return lambda threads: KMeans(k, random_state=0, max_iter=5, threads=threads, device="cpu").fit(X)


def mixture() -> Fit:
    """Return a fit of a mixture."""
    X = np.random.default_rng(0).standard_normal((50_000, 8))
    return lambda threads: GaussianMixture(8, random_state=0, max_iter=5, threads=threads, device="cpu").fit(
        X
    )


def scaling() -> Fit:
    """Return a fit of multidimensional scaling."""
    X = np.random.default_rng(0).standard_normal((1_000, 5))
    return lambda threads: MDS(2, random_state=0, n_init=1, max_iter=30, threads=threads, device="cpu").fit(X)


def spectrum() -> Fit:
    """Return a truncated singular value decomposition of sparse rows."""
    X = sp.random_array((50_000, 2_000), density=0.01, format="csr", rng=np.random.default_rng(0))
    return lambda threads: TruncatedSVD(8, random_state=0, threads=threads, device="cpu").fit(X)


CASES: dict[str, Callable[[], Fit]] = {
    "full rows, hinge": lambda: solve("hinge"),
    "full rows, logistic": lambda: solve("logistic"),
    "sparse rows, hinge": sparse_solve,
    "k-means, 8 centres": lambda: clusters(200_000, 8),
    "k-means, 500 centres": lambda: clusters(20_000, 500),
    "mixture": mixture,
    "multidimensional scaling": scaling,
    "singular values, sparse": spectrum,
}


def main() -> None:
    warnings.simplefilter("ignore")  # that a fit has reached max_iter
    fit = CASES[sys.argv[1]]()
    print(json.dumps({"package": str(Path(bmrm.__file__).parent)}), flush=True)
    for line in sys.stdin:
        threads = None if line.strip() == "default" else int(line)
        start, used = time.perf_counter(), time.process_time()
        fit(threads)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        print(json.dumps({"seconds": seconds, "processor": used}), flush=True)


if __name__ == "__main__":
    main()
