"""Multidimensional scaling on the CPU against scikit-learn's SMACOF.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.reductions.mds [--out FILE]

The points are normal in 10 dimensions, and scaled to 2. The time of an iteration is that of a run of some
iterations, less that of a run of one, from the same random start; the least of some runs that take turns,
in processor time of one thread. A whole scaling begins with classical scaling and
ends by the same rule, a fall of the stress by less than 1e-6 times the sum of d^2; ours with acceleration,
and without.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from scipy.spatial.distance import pdist, squareform
from sklearn import manifold

from benchmarks.common import report
from bmrm import MDS

SIZES = (500, 2000, 5000)
WHOLE_SIZE = 2000
ORDINAL_SIZES = (500, 2000)
DIMENSIONS = 10
REPEATS = 3
ITERATIONS = {"bmrm": 20, "peer": 3}
AIMS = {"metric, float64": 15.0}


SECTIONS = """
## Multidimensional scaling on the CPU
headline: SMACOF, one iteration, one thread | scikit-learn | iterations | times_faster | {machine[cpu]}

scikit-learn {versions[scikit_learn]}. An iteration of SMACOF in two dimensions from the same random start,
in processor time of one thread; both compute in float64, ours with float32 terms in float32. A weighted
iteration solves a system with the weights, and is compared with one without weights.

[iterations]
points, kind = {n}, {kind} | ms = {seconds:.2f ms} | scikit-learn ms = {peer_seconds:.1f ms} |
times faster = {times_faster:.1f} | aim = {aim:g}

[aims]

Whole scalings of {whole[0][n]} points from classical scaling, until the stress falls by less than 1e-6
times the sum of d^2; accelerated steps must do so twice in a row.

[whole]
who = {who} | seconds = {seconds:.2f} | iterations = {n_iter} | normalised stress = {stress:.6f}
"""


def seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def iteration(run: Callable[[int], Any], count: int) -> float:
    """Return the time of an iteration: of ``count`` more than one, divided by their number."""
    return (seconds(lambda: run(1 + count)) - seconds(lambda: run(1))) / count


def scikit_learns(D: np.ndarray, start: np.ndarray, *, metric: bool = True) -> Callable[[int], Any]:
    """Return a run of a number of iterations of scikit-learn's."""

    def run(count: int) -> Any:
        return manifold.smacof(D, metric=metric, init=start, n_init=1, max_iter=count, eps=0.0)

    return run


def ours(
    given: np.ndarray,
    start: np.ndarray,
    *,
    threads: int = 1,
    weights: np.ndarray | None = None,
    **options: Any,
) -> Callable[[int], Any]:
    """Return a run of a number of iterations of ours."""

    def run(count: int) -> Any:
        model = MDS(2, relax=False, eps=0.0, max_iter=count, threads=1, **options)
        return model.fit(given, init=start, weights=weights)

    return run


def measure_iterations(n: int) -> list[dict[str, Any]]:
    """Measure iterations of all kinds at one size."""
    rng = np.random.default_rng(n)
    X, start = rng.normal(size=(n, DIMENSIONS)), rng.normal(size=(n, 2))
    upper = pdist(X)
    D = squareform(upper)
    given = {"metric": "precomputed"}
    kinds: dict[str, tuple[str, Callable[[int], Any]]] = {
        "metric, float64": ("smacof", ours(D, start, **given)),
        "metric, upper triangle": ("smacof", ours(upper, start, **given)),
        "metric, float32": ("smacof", ours(D.astype(np.float32), start, **given)),
        "metric, float32 terms": ("smacof", ours(D.astype(np.float32), start, dtype="float32", **given)),
        "metric, from features": ("smacof", ours(X, start, store="features")),
        "weighted": ("smacof", ours(D, start, weights=1.0 / (1.0 + D), **given)),
    }
    peers = {"smacof": scikit_learns(D, start)}
    if n in ORDINAL_SIZES:
        kinds["ordinal"] = ("smacof, ordinal", ours(D, start, metric_mds=False, **given))
        peers["smacof, ordinal"] = scikit_learns(D, start, metric=False)
    found = dict.fromkeys([*kinds, *peers], np.inf)
    for _ in range(REPEATS):
        for name, run in peers.items():
            found[name] = min(found[name], iteration(run, ITERATIONS["peer"]))
        for name, (_, run) in kinds.items():
            found[name] = min(found[name], iteration(run, ITERATIONS["bmrm"]))
    return [
        {
            "n": n,
            "kind": name,
            "seconds": found[name],
            "peer_seconds": found[peer],
            "times_faster": found[peer] / found[name],
            "aim": AIMS.get(name),
        }
        for name, (peer, _) in kinds.items()
    ]


def measure_whole(n: int) -> list[dict[str, Any]]:
    """Measure whole scalings."""
    D = squareform(pdist(np.random.default_rng(n).normal(size=(n, DIMENSIONS))))
    rows = []
    for who, model in {
        "scikit-learn": manifold.MDS(
            2, metric="precomputed", init="classical_mds", n_init=1, eps=1e-6, max_iter=3000
        ),
        "bmrm, relax=False": MDS(2, metric="precomputed", relax=False, max_iter=3000, threads=1),
        "bmrm": MDS(2, metric="precomputed", max_iter=3000, threads=1),
    }.items():
        taken = seconds(lambda model=model: model.fit(D))
        d = pdist(model.embedding_)
        stress = float(np.sqrt(((squareform(D) - d) ** 2).sum() / (d**2).sum()))
        rows.append({"n": n, "who": who, "seconds": taken, "n_iter": model.n_iter_, "stress": stress})
    return rows


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "mds.json")
    options = parser.parse_args()
    iterations = []
    for n in SIZES:
        for row in measure_iterations(n):
            iterations.append(row)
            print(
                f"{n} {row['kind']}: {1e3 * row['seconds']:.2f} ms, scikit-learn "
                f"{1e3 * row['peer_seconds']:.1f}, {row['times_faster']:.1f} times faster",
                flush=True,
            )
    whole = measure_whole(WHOLE_SIZE)
    for row in whole:
        print(f"{row['who']}: {row['seconds']:.2f} s, {row['n_iter']} iterations, {row['stress']:.6f}")
    versions = {"numpy": np.__version__, "scikit_learn": sklearn.__version__}
    aims = [
        report.aim(f"scikit-learn / bmrm, {row['n']}, {row['kind']}", row["times_faster"], row["aim"])
        for row in iterations
        if row["aim"] is not None
    ]
    report.write(options.out, SECTIONS, versions=versions, iterations=iterations, whole=whole, aims=aims)


if __name__ == "__main__":
    main()
