"""Where ``device="auto"`` runs each method, against the times on the CPU and on the GPU: ten sizes each.

    python -m benchmarks.reductions.crossover [--methods NAME ...] [--out FILE]

The sizes of a method are the multiples ``FACTORS`` of one size near which both take equally long; that size
was found by an earlier run, and is fixed here. Each run is a whole fit or call with rows in main memory,
after one that is not counted: validation, upload, passes and results. The passes are as many on both. A time
is the least of some. The choice is right if it is the faster device; its cost is the ratio of the two times.

The terms of the model are in the results too: the start of the GPU in a new process, the time of an upload,
and for each method and device the ratio of the measured to the predicted time of its passes, by which its
constant in the ``work.py`` beside it would have to be multiplied.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import report
from benchmarks.common.gpu_timing import least_seconds
from benchmarks.reductions.programs import CASES, normal_rows, sparse_rows
from bmrm import MDS, PCA, GaussianMixture, KMeans
from bmrm.base.threads import usable_cores
from bmrm.distributed.reading import read_rows
from bmrm.formulas.run.cost import predict_seconds, reduction_work
from bmrm.formulas.run.placing import predict_place
from bmrm.matrix.gpu import work
from bmrm.matrix.gpu.driver import device as driver_device
from bmrm.matrix.gpu.placement import Placement
from bmrm.unsupervised.clusters.work import kmeans_work, sparse_kmeans_work
from bmrm.unsupervised.decomposition.work import gram_work
from bmrm.unsupervised.manifold.work import scaling_work
from bmrm.unsupervised.mixtures.work import mixture_work

FACTORS = (1 / 32, 1 / 8, 1 / 3, 0.6, 0.8, 1.25, 1.7, 3.0, 8.0, 32.0)
"""Amounts of work as multiples of that at the crossover; four are within a factor of 2."""

ROUNDS = (3, 60)
MAX_SECONDS = 1.0
"""Time after which runs are not repeated."""

MAX_WRONG_COST = 1.3
MIN_RIGHT = 9
PASSES = 20
UPLOADED_BYTES = 1 << 28

STARTED = """
import time, numpy as np
from benchmarks.reductions.programs import CASES
from bmrm.matrix.gpu.driver import device
start = time.perf_counter()
device(0).upload(np.zeros(1))
print(time.perf_counter() - start)
"""


SECTIONS = """
## The choice of a device

{gpu} and {cores} cores. Ten sizes of each method, four of them within twice the crossover on either side;
rows in main memory. The cost of a pick is its time over that of the better device.

[methods]
method = {name} | right = {right} of {sizes:d count} | largest cost = {largest_cost:.2f}

[aims]
"""


class Method(NamedTuple):
    """A method on rows of one width, by a number of rows."""

    size: int
    """Rows, or points, at the crossover."""
    power: float
    """Of the size, in the work."""
    make: Callable[[int], Any]
    """Returns the rows."""
    run: Callable[[Any, str], Any]
    place: Callable[[Any], Placement]
    predict: Callable[[Any], work.Work]


def reduction_words(X: Any) -> dict[str, Any]:
    """Return the parameters of a step of k-means with 64 centres."""
    return {"w": 1.0, "centers": X[:64].copy()}


def reduction_call(X: Any) -> Any:
    """Return the bound call of a step of k-means."""
    return CASES["k-means"].reduction._binder.bind(read_rows(X), reduction_words(X))


def work_of_reduction(X: Any) -> work.Work:
    """Return the work of a step of k-means as a reduction."""
    call = reduction_call(X)
    return reduction_work(predict_seconds(call, 1), len(call.part_bounds()) - 1, X.nbytes, 64 * 17 * 8)


def kmeans(device: str) -> KMeans:
    """Return k-means with a fixed number of passes."""
    return KMeans(32, random_state=0, tol=0.0, max_iter=PASSES, device=device)


def mixture(device: str) -> GaussianMixture:
    """Return a mixture with a fixed number of steps."""
    return GaussianMixture(
        16, random_state=0, tol=0.0, max_iter=PASSES, init_params="random_from_data", device=device
    )


def scaling(device: str) -> MDS:
    """Return scaling with a fixed number of passes."""
    return MDS(
        2, metric="precomputed", init="random", random_state=0, eps=0.0, max_iter=PASSES, device=device
    )


def dissimilarities(n: int) -> Any:
    """Return the distances of random points in 10 dimensions."""
    from scipy.spatial.distance import pdist, squareform

    return squareform(pdist(np.random.default_rng(0).normal(size=(n, 10))))


def fitted(estimator: Any, X: Any) -> Placement:
    """Return where an estimator with device="auto" has run."""
    found: Placement = estimator.fit(X).placement_
    return found


METHODS = {
    "reduction": Method(
        3_200,
        1.0,
        lambda n: normal_rows(n, 16, np.float32),
        lambda X, device: CASES["k-means"].reduction(X, device=device, **reduction_words(X)),
        lambda X: predict_place(reduction_call(X)),
        work_of_reduction,
    ),
    "KMeans": Method(
        50_000,
        1.0,
        lambda n: normal_rows(n, 16, np.float32),
        lambda X, device: kmeans(device).fit(X),
        lambda X: fitted(kmeans("auto"), X),
        lambda X: kmeans_work(*X.shape, 32, X.itemsize, moves=PASSES),
    ),
    "KMeans-sparse": Method(
        1_100,
        1.0,
        lambda n: sparse_rows(n, 1_000, 20),
        lambda X, device: kmeans(device).fit(X),
        lambda X: fitted(kmeans("auto"), X),
        lambda X: sparse_kmeans_work(*X.shape, X.nnz, 32, X.data.itemsize, moves=PASSES),
    ),
    "KMeans-wide": Method(
        1_000,
        1.0,
        lambda n: sparse_rows(n, 20_000, 60),
        lambda X, device: kmeans(device).fit(X),
        lambda X: fitted(kmeans("auto"), X),
        lambda X: sparse_kmeans_work(*X.shape, X.nnz, 32, X.data.itemsize, moves=PASSES),
    ),
    "GaussianMixture": Method(
        300,
        1.0,
        lambda n: normal_rows(n, 16, np.float32),
        lambda X, device: mixture(device).fit(X),
        lambda X: fitted(mixture("auto"), X),
        lambda X: mixture_work(*X.shape, 16, X.itemsize, full=True, steps=PASSES),
    ),
    "PCA": Method(
        2_900,
        1.0,
        lambda n: normal_rows(n, 64, np.float32),
        lambda X, device: PCA(8, svd_solver="covariance_eigh", device=device).fit(X),
        lambda X: fitted(PCA(8, svd_solver="covariance_eigh"), X),
        lambda X: gram_work(*X.shape, X.itemsize),
    ),
    "MDS": Method(
        320,
        2.0,
        dissimilarities,
        lambda D, device: scaling(device).fit(D),
        lambda D: fitted(scaling("auto"), D),
        lambda D: scaling_work(len(D), 2, passes=PASSES, square=True),
    ),
}


def measure(method: Method, factor: float) -> dict[str, Any]:
    """Measure one size."""
    n = max(64, round(method.size * factor ** (1.0 / method.power)))
    X = method.make(n)
    runs = {device: functools.partial(method.run, X, device) for device in ("cpu", "cuda")}
    seconds = least_seconds(runs, ROUNDS, MAX_SECONDS)
    placed = method.place(X)
    chosen = "cpu" if placed.gpu is None else "cuda"
    predicted = method.predict(X)
    overhead = (
        predicted.call_seconds
        + predicted.steps * work.STEP_SECONDS
        + predicted.upload_bytes / work.UPLOAD_BYTES_PER_SECOND
    )
    return {
        "size": n,
        "factor": factor,
        "seconds": seconds,
        "chosen": chosen,
        "right": seconds[chosen] == min(seconds.values()),
        "cost": seconds[chosen] / min(seconds.values()),
        "reason": placed.reason,
        "predicted": {"cpu": predicted.cpu_seconds, "overhead": overhead, "passes": predicted.gpu_seconds},
        "steps": predicted.steps,
    }


def crossing(rows: list[dict[str, Any]]) -> float | None:
    """Return the factor of the work at which both take equally long; None if one is always faster."""
    logs = [np.log(row["seconds"]["cpu"] / row["seconds"]["cuda"]) for row in rows]
    for before, after, low, high in zip(rows, rows[1:], logs, logs[1:], strict=False):
        if low <= 0.0 < high:
            share = -low / (high - low)
            return float(before["factor"] * (after["factor"] / before["factor"]) ** share)
    return None


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Say how good the choices are, and how far the constants are from what was measured."""
    at = crossing(rows)
    largest = rows[-1]
    passes = largest["seconds"]["cuda"] - largest["predicted"]["overhead"]
    return {
        "right": sum(row["right"] for row in rows),
        "largest_cost": max(row["cost"] for row in rows),
        "crossover_factor": at,
        "within_a_factor_of_2": 0 if at is None else sum(0.5 <= row["factor"] / at <= 2.0 for row in rows),
        "measured_over_predicted": {
            "cpu": [row["seconds"]["cpu"] / row["predicted"]["cpu"] for row in rows],
            "gpu passes": passes / largest["predicted"]["passes"],
            "gpu overhead": rows[0]["seconds"]["cuda"] / rows[0]["predicted"]["overhead"],
        },
    }


def terms() -> dict[str, float]:
    """Measure the terms that all methods share."""
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True)
    on = driver_device(0)
    X = np.ones(UPLOADED_BYTES // 8)
    (seconds,) = least_seconds({"": lambda: on.upload(X)}, ROUNDS, MAX_SECONDS).values()
    return {"start_seconds": float(done.stdout), "driver_upload_bytes_per_second": UPLOADED_BYTES / seconds}


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", default=report.RESULTS / "reductions_crossover.json")
    options = parser.parse_args()
    from bmrm.matrix.gpu.devices import gpu

    info = gpu()
    assert info is not None, "there is no GPU"
    found: dict[str, Any] = {"terms": terms(), "cores": usable_cores(), "methods": {}}
    print(found["terms"], flush=True)
    for name in options.methods:
        rows = [measure(METHODS[name], factor) for factor in FACTORS]
        about = summary(rows)
        found["methods"][name] = {**about, "sizes": rows}
        for row in rows:
            times = {device: f"{1e3 * seconds:.3f} ms" for device, seconds in row["seconds"].items()}
            words = f"{name} {row['size']}: {times}, chosen {row['chosen']}, cost {row['cost']:.2f}"
            print(f"{words}; {row['reason']}", flush=True)
        print(name, about, flush=True)
    about = found["methods"].values()
    aims = [
        report.aim("right choices of ten, fewest", min(each["right"] for each in about), MIN_RIGHT),
        report.aim("largest cost", max(each["largest_cost"] for each in about), MAX_WRONG_COST, below=True),
    ]
    for aim in aims:
        print(report.line(aim))
    report.write(options.out, SECTIONS, gpu=info["name"], **found, aims=aims)
    sys.exit(0 if all(aim["passed"] for aim in aims) else 1)


if __name__ == "__main__":
    main()
