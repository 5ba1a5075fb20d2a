"""k-means, mixtures, PCA and MDS on one core, on all cores, and on a GPU with and without the upload.

    python -m benchmarks.reductions.cores [--out FILE]

Whole fits with a fixed number of passes, after one that is not counted; a time is the least of some. "With
upload": rows in main memory; "without": an array of CuPy, used where it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing, report
from benchmarks.reductions.crossover import PASSES, dissimilarities, kmeans, mixture, scaling
from benchmarks.reductions.programs import normal_rows
from bmrm import PCA
from bmrm.base.threads import usable_cores

ROUNDS = (2, 20)
MAX_SECONDS = 1.0

SECTIONS = """
## One core, all cores, a GPU

{gpu} and {cores} cores. Whole fits with {passes} passes, PCA with one. Speed-ups are over one core.

[rows]
method, rows = {method}, {about} | one core, ms = {seconds[one]:.1f ms} |
all cores, ms = {seconds[all]:.1f ms} | GPU with upload, ms = {seconds[upload]:.1f ms} |
GPU without, ms = {seconds[resident]:.1f ms} | all cores, times = {seconds[one]/seconds[all]:.1f} |
with upload = {seconds[one]/seconds[upload]:.0f} | without = {seconds[one]/seconds[resident]:.0f}
"""

METHODS: dict[str, tuple[Callable[[str], Any], Callable[[], Any], str]] = {
    "k-means, k 32": (kmeans, lambda: normal_rows(1_000_000, 16, np.float32), "1,000,000 x 16"),
    "mixture, 16 full": (mixture, lambda: normal_rows(200_000, 16, np.float32), "200,000 x 16"),
    "PCA, 8 components": (
        lambda device: PCA(8, svd_solver="covariance_eigh", device=device),
        lambda: normal_rows(1_000_000, 64, np.float32),
        "1,000,000 x 64",
    ),
    "MDS, 2 axes": (scaling, lambda: dissimilarities(5_000), "5000 points"),
}


def measure(name: str) -> dict[str, Any]:
    """Return the times of one method."""
    make, rows, about = METHODS[name]
    X = rows()
    lying = cp.asarray(X)
    cores = {"one": 1, "all": usable_cores()}
    calls: dict[str, Callable[[], object]] = {
        key: lambda threads=threads: make("cpu").set_params(threads=threads).fit(X)
        for key, threads in cores.items()
    }
    calls["upload"] = lambda: make("cuda").fit(X)
    calls["resident"] = lambda: make("cuda").fit(lying)
    seconds = gpu_timing.least_seconds(calls, ROUNDS, MAX_SECONDS)
    print(name, about, {key: f"{1e3 * found:.1f} ms" for key, found in seconds.items()}, flush=True)
    return {"method": name, "about": about, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "cores.json")
    options = parser.parse_args()
    rows = [measure(name) for name in METHODS]
    name = gpu_timing.device()["name"]
    report.write(options.out, SECTIONS, gpu=name, cores=usable_cores(), passes=PASSES, rows=rows)


if __name__ == "__main__":
    main()
