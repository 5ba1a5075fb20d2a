"""KMeans, GaussianMixture and PCA against scikit-learn and its extension, in turns, on one thread and on two.

    python -m benchmarks.cpu.estimators [--repeat 2] [--threads 1 2] [--out FILE]

k-means: blobs, with centres of standard deviation 0.5 and rows of 1 around them. An iteration is the
difference of two fits of 2 and up to 22 iterations from the same first rows, over the passes between them;
ours end with a pass that labels the rows, scikit-learn's unless labels were equal. A fit has the defaults of
each, with k-means++; how many iterations it takes depends on the random start, so that it is the mean of
some starts. The same by scikit-learn-intelex, which has neither the mixtures nor this PCA, if it is there
(`pip install scikit-learn-intelex`). Mixtures: an EM step is the difference of fits of 2
and 7 steps from k-means++ starts of their own, over five. Each figure is the least of the repetitions; of
one thread it is processor time. PCA:
20 components of sparse rows with columns of falling frequency, ours to residuals of 1e-8, scikit-learn's by
ARPACK with its default tolerance.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans as Peer
from sklearn.decomposition import PCA as PeerPCA  # noqa: N811 (their names are ours)
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as PeerMixture
from threadpoolctl import threadpool_limits

from benchmarks.common import intelex, report
from bmrm import PCA, GaussianMixture, KMeans

SHAPES = (
    (500_000, 4, 16, np.float32),
    (200_000, 16, 64, np.float32),
    (200_000, 16, 64, np.float64),
    (50_000, 64, 100, np.float32),
    (30_000, 128, 256, np.float32),
    (10_000, 784, 64, np.float32),
)
CENTER_SPREAD = 0.5
FEW, MANY = 2, 22
STARTS = 3
"""Random starts of whole fits."""
MIXTURE_SHAPE = (100_000, 8, 16)
FEW_STEPS, MANY_STEPS = 2, 7
SPARSE_SHAPE = (50_000, 10_000)
SPARSE_DENSITY = 0.001


SECTIONS = """
## k-means, mixtures, principal components
headline: k-means, one iteration, one thread | scikit-learn | kmeans | iteration_ratio | {machine[cpu]}

Times on one thread are processor time. A fit is the mean of three random starts, whose iterations are in
the second table. The last column is the share of labels that the float32 pass could not prove and float64
resolved. intelex is scikit-learn-intelex ({intelex_version:*/not measured}).

[kmeans]
k-means = {rows} x {columns}, k {clusters}, {dtype} | threads = {threads} |
iteration, ms = {iteration_ms:.2f} | scikit-learn = {sklearn_iteration_ms:.2f} |
times = {iteration_ratio:.2f} | intelex = {intelex_iteration_ms:.2f} |
times intelex = {intelex_iteration_ms/iteration_ms:.2f} | fit, s = {fit_s:.2f} |
scikit-learn, s = {sklearn_fit_s:.2f} | times faster = {fit_ratio:.2f} | intelex, s = {intelex_fit_s:.2f} |
than intelex = {intelex_fit_s/fit_s:.2f} | float64 = {rechecked:.2%}

[kmeans]
iterations of = {rows} x {columns}, k {clusters}, {dtype} | ours = {iterations} |
scikit-learn's = {sklearn_iterations} | intelex's = {intelex_iterations}

[mixture]
EM = {covariance}, {rows} x {columns}, k {components} | threads = {threads} | step, ms = {step_ms:.1f} |
scikit-learn = {sklearn_step_ms:.1f} | times = {ratio:.1f}

[sparse_pca]
PCA, 20 components = {rows} x {columns}, {stored} stored | threads = {threads} | seconds = {seconds:.2f} |
ARPACK = {sklearn_seconds:.2f} | times = {ratio:.2f} | widest interval = {largest_width:.1e}
"""


def seconds(threads: int, run: Callable[[], Any]) -> float:
    """Return the processor time of one thread, which other programs change little, or the time of several."""
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def kmeans(n: int, d: int, k: int, dtype: type, threads: int, repeat: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    centers = CENTER_SPREAD * rng.normal(size=(k, d))
    X = (centers[rng.integers(0, k, n)] + rng.normal(size=(n, d))).astype(dtype)
    init = np.ascontiguousarray(X[:k])
    makes: dict[str, Callable[..., Any]] = {
        "": lambda **words: KMeans(k, threads=threads, **words),
        "sklearn_": lambda **words: Peer(k, **words),
    }
    if clusters := intelex.module("cluster", threads):
        makes["intelex_"] = lambda **words: clusters.KMeans(k, **words)
    times: dict[str, dict[Any, float]] = {who: {} for who in makes}
    passes: dict[str, list[int]] = {who: [] for who in makes}
    fits: dict[str, list[Any]] = {}

    def least(who: str, kind: Any, found: float) -> None:
        times[who][kind] = min(times[who].get(kind, np.inf), found)

    for turn in range(repeat):
        for steps in (FEW, MANY):
            for who, make in makes.items():
                model = make(init=init, n_init=1, tol=0.0, max_iter=steps)
                least(who, steps, seconds(threads, lambda model=model: model.fit(X)))
                if turn == 0:
                    ends = model.n_iter_ == steps
                    passes[who].append(model.n_iter_ + ends if who else len(model.history_))
        for who, make in makes.items():
            fits[who] = [make(random_state=start) for start in range(STARTS)]
        each = [
            [seconds(threads, lambda model=model: model.fit(X)) for model in start]
            for start in zip(*fits.values(), strict=True)
        ]
        for who, spent in zip(makes, zip(*each, strict=True), strict=True):
            least(who, "fit", sum(spent) / STARTS)
    found: dict[str, Any] = {"rows": n, "columns": d, "clusters": k, "dtype": np.dtype(dtype).name}
    found["threads"] = threads
    for who in makes:
        between = passes[who][1] - passes[who][0]
        found |= {
            f"{who}passes": between,
            f"{who}iteration_ms": 1e3 * (times[who][MANY] - times[who][FEW]) / between,
            f"{who}fit_s": times[who]["fit"],
            f"{who}iterations": [model.n_iter_ for model in fits[who]],
            f"{who}inertia": [float(model.inertia_) for model in fits[who]],
        }
    found["iteration_ratio"] = found["sklearn_iteration_ms"] / found["iteration_ms"]
    found["fit_ratio"] = found["sklearn_fit_s"] / found["fit_s"]
    found["rechecked"] = float(np.mean([model.rechecked_ for model in fits[""]]))
    print({name: value for name, value in found.items() if "inertia" not in name}, flush=True)
    return found


def mixture(kind: str, threads: int, repeat: int) -> dict[str, Any]:
    n, d, k = MIXTURE_SHAPE
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(k, d))
    X = centers[rng.integers(0, k, n)] + rng.normal(size=(n, d))
    mine: dict[int, float] = {}
    theirs: dict[int, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for steps in [FEW_STEPS, MANY_STEPS] * repeat:
            ours = GaussianMixture(
                k, covariance_type=kind, init_params="k-means++", tol=0.0, max_iter=steps, random_state=0,
                threads=threads,
            )  # fmt: skip
            peer = PeerMixture(
                k, covariance_type=kind, init_params="k-means++", tol=0.0, max_iter=steps, random_state=0
            )
            mine[steps] = min(mine.get(steps, np.inf), seconds(threads, lambda e=ours: e.fit(X)))
            theirs[steps] = min(theirs.get(steps, np.inf), seconds(threads, lambda e=peer: e.fit(X)))
            if ours.n_iter_ != steps or peer.n_iter_ != steps:
                raise SystemExit(f"mixture {kind}: ended after {ours.n_iter_} and {peer.n_iter_} steps")
    step = [(t[MANY_STEPS] - t[FEW_STEPS]) / (MANY_STEPS - FEW_STEPS) for t in (mine, theirs)]
    found = {
        "rows": n, "columns": d, "components": k, "covariance": kind, "threads": threads,
        "step_ms": 1e3 * step[0], "sklearn_step_ms": 1e3 * step[1], "ratio": step[1] / step[0],
    }  # fmt: skip
    print(found, flush=True)
    return found


def sparse_pca(threads: int, repeat: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n, d = SPARSE_SHAPE
    stored = int(n * d * SPARSE_DENSITY)
    columns = np.minimum((d * rng.random(stored) ** 2).astype(int), d - 1)
    X = sp.csr_array((rng.random(stored), (rng.integers(0, n, stored), columns)), shape=(n, d))
    X.sum_duplicates()
    found: dict[str, Any] = {"rows": n, "columns": d, "stored": X.nnz, "threads": threads}
    ours = PCA(20, random_state=0, threads=threads)
    found["seconds"] = min(seconds(threads, lambda: ours.fit(X)) for _ in range(repeat))
    found["status"], found["products"] = ours.status_, ours.n_iter_
    found["largest_width"] = float(np.diff(ours.singular_value_bounds_).max())
    peer = PeerPCA(20, svd_solver="arpack", random_state=0)
    found["sklearn_seconds"] = min(seconds(threads, lambda: peer.fit(X)) for _ in range(repeat))
    found["ratio"] = found["sklearn_seconds"] / found["seconds"]
    found["largest_difference"] = float(np.abs(peer.singular_values_ - ours.singular_values_).max())
    print(found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", default=report.RESULTS / "estimators.json")
    args = parser.parse_args()
    clusters, mixtures, components = [], [], []
    for threads in args.threads:
        with threadpool_limits(threads):
            clusters += [kmeans(*shape, threads, args.repeat) for shape in SHAPES]
            mixtures += [mixture(kind, threads, args.repeat) for kind in ("full", "diag")]
            components.append(sparse_pca(threads, args.repeat))
    report.write(
        args.out,
        SECTIONS,
        intelex_version=intelex.version(),
        kmeans=clusters,
        mixture=mixtures,
        sparse_pca=components,
    )


if __name__ == "__main__":
    main()
