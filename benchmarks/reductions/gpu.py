"""Reductions on a GPU: seconds of a pass and of compiling, against our own kernels, CuPy and PyTorch.

    python -m benchmarks.reductions.gpu [--programs NAME ...] [--out FILE]

Rows are on the GPU before. A time is the least of the calls of half a second, each from the call to the end
of its work, after a tenth of a second of calls: the GPU's clock and caches, and Python, are warm. Row
function and estimator are measured in turn, three times, since other work of a machine slows the host down.
Results of row functions and peers stay on the GPU. The kernels of the estimators (`KMeans`,
`GaussianMixture`, `PCA`) take their parameters from main memory and return their sums there, since an
estimator needs them there; their time over that of the row function should be at least MIN_RATIO.

Compiling is the processor time of the first call on a few rows on a GPU that has been started, with an empty
cache on disk and without NVRTC's own, less a later call: the least of two processes, and at most
MAX_COLD_SECONDS. After that the same in a new process with what the first one cached.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing, report
from benchmarks.reductions.programs import CASES, normal_rows
from bmrm.distributed.row_set import RowSet
from bmrm.matrix import _cuda
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.unsupervised.clusters.gpu import DeviceClusters

ROUNDS = 3
WARM_SECONDS, MEASURED_SECONDS = 0.1, 0.2
REPEATS = (5, 1_000_000)
COLD_RUNS = 2
MIN_RATIO = 0.7
MAX_COLD_SECONDS = 0.5
SHAPES = (
    ("k-means", 1_000_000, 2, 300),
    ("k-means", 4_000_000, 4, 100),
    ("k-means", 1_000_000, 16, 64),
    ("k-means", 10_000_000, 16, 16),
    ("EM", 1_000_000, 16, 32),
    ("EM", 1_000_000, 8, 16),
    ("memberships", 10_000_000, 4, 4),
    ("memberships", 1_000_000, 16, 32),
    ("sums by memberships", 1_000_000, 16, 32),
    ("covariance", 2_000_000, 64, 0),
    ("histogram", 4_000_000, 16, 32),
    ("logistic gradient", 4_000_000, 32, 0),
)
COMPILED = """
import time, numpy as np
from benchmarks.reductions.programs import CASES, normal_rows
from bmrm.matrix.gpu.driver import device

device(0)
case, X = CASES[{program!r}], normal_rows(max(10, {k}), {columns}, "float32")
words = case.words(np.random.default_rng(1), X, {k})
times = []
for _ in range(2):
    start = time.process_time()
    case.reduction(X, device="cuda", **words)
    times.append(time.process_time() - start)
print(times[0] - times[1])
"""


SECTIONS = """
## Reductions on a GPU
headline: row functions on a GPU | PyTorch | rows | seconds[torch]/seconds[ours] | {gpu}

{gpu}. Row functions compiled by NVRTC, against the kernels of our estimators, and the usual forms of CuPy
and PyTorch; rows and results stay on the GPU. Processor seconds to compile: with nothing cached, and from
the disk.

[rows]
program = {program}, {rows} x {columns}{k:, k */} | ms = {seconds[ours]:.3g ms} |
estimator ms = {seconds[estimator]:.3g ms} | ratio = {ratio:.2f} | CuPy ms = {seconds[cupy]:.3g ms} |
PyTorch ms = {seconds[torch]:.3g ms} | cold = {compile_seconds[0]:.2f} | cached = {compile_seconds[1]:.3f}

[aims]
"""


def kmeans(xp: Any, X: Any, w: float, centers: Any) -> tuple[Any, ...]:
    """Return a step of k-means, for CuPy and PyTorch."""
    distances = (X * X).sum(1)[:, None] - 2 * (X @ centers.T) + (centers * centers).sum(1)
    label = distances.argmin(1)
    sums = xp.zeros_like(centers)
    if xp is cp:
        cp.add.at(sums, label, X)
        return sums, cp.bincount(label, minlength=len(centers)), distances.min(1).sum(), label
    sums.index_add_(0, label, X)
    return sums, xp.bincount(label, minlength=len(centers)), distances.min(1).values.sum(), label


def memberships(xp: Any, X: Any, mean: Any, prec: Any, const: Any) -> tuple[Any, ...]:
    """Return the memberships of EM by products, for CuPy and PyTorch."""
    q = const - 0.5 * ((X * X) @ prec.T - 2 * X @ (prec * mean).T + (prec * mean * mean).sum(1))
    top = q.max(1)
    top = top if xp is cp else top.values
    p = xp.exp(q - top[:, None])
    total = p.sum(1)
    return p / total[:, None], (top + xp.log(total)).sum()


def member_sums(xp: Any, X: Any, r: Any) -> tuple[Any, ...]:
    """Return the sums by memberships, for CuPy and PyTorch."""
    return r.sum(0), r.T @ X, r.T @ (X * X)


def em(xp: Any, X: Any, mean: Any, prec: Any, const: Any) -> tuple[Any, ...]:
    """Return a step of EM by products, for CuPy and PyTorch."""
    r, loglik = memberships(xp, X, mean, prec, const)
    return *member_sums(xp, X, r), loglik


def covariance(xp: Any, X: Any, shift: Any) -> tuple[Any, ...]:
    """Return the covariance sums, for CuPy and PyTorch."""
    E = X - shift
    return E.sum(0), E.T @ E


def own_kmeans(X: Any, w: float, centers: Any) -> Callable[[], Any]:
    """Return a pass of `KMeans`."""
    rows, moved = RowSet(DeviceArray("X", X, 2, (np.float32,)), None), centers.astype(float)
    passes = DeviceClusters(rows, 0)
    return lambda: passes.assign(moved)


def own_em(X: Any, mean: Any, prec: Any, const: Any) -> Callable[[], Any]:
    """Return a step of `GaussianMixture` with diagonal covariances."""
    rows, model = _cuda.DenseRows(X), [each.astype(float) for each in (mean, np.sqrt(prec), const)]
    return lambda: rows.mixture_step(*model)


def own_covariance(X: Any, shift: Any) -> Callable[[], Any]:
    """Return the Gram matrix of `PCA`."""
    rows, moved = _cuda.DenseRows(X), shift.astype(float)
    return lambda: rows.gram(moved)


OWN: dict[str, Callable[..., Callable[[], Any]]] = {
    "k-means": own_kmeans,
    "EM": own_em,
    "covariance": own_covariance,
}
PEERS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "k-means": kmeans,
    "EM": em,
    "memberships": memberships,
    "sums by memberships": member_sums,
    "covariance": covariance,
}


def compile_seconds(program: str, columns: int, k: int) -> list[float]:
    """Return processor times of compiling in a new process: without and with the cache on disk."""
    text = COMPILED.format(program=program, columns=columns, k=k)

    def run(_: int) -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            environ = {**os.environ, "XDG_CACHE_HOME": folder, "CUDA_CACHE_DISABLE": "1"}
            runs = [
                subprocess.run(
                    [sys.executable, "-c", text], env=environ, capture_output=True, text=True, check=True
                )
                for _ in range(2)
            ]
        return [float(each.stdout) for each in runs]

    with ThreadPoolExecutor(COLD_RUNS) as side_by_side:
        return [min(each) for each in zip(*side_by_side.map(run, range(COLD_RUNS)), strict=True)]


def measure(program: str, rows: int, columns: int, k: int) -> dict[str, Any]:
    """Measure a program in float32."""
    case, X = CASES[program], normal_rows(rows, columns, "float32")
    words = case.words(np.random.default_rng(1), X, k)
    there = cp.asarray(X)
    on_gpu = {key: cp.asarray(v) if isinstance(v, np.ndarray) else v for key, v in words.items()}
    sides = {"ours": lambda: case.reduction(there, keep=True, **on_gpu)}
    if program in OWN:
        sides["estimator"] = OWN[program](there, **words)

    def least(call: Callable[[], Any]) -> float:
        return gpu_timing.least_seconds({"": call}, REPEATS, MEASURED_SECONDS, warm_seconds=WARM_SECONDS)[""]

    rounds = [{side: least(call) for side, call in sides.items()} for _ in range(ROUNDS)]
    seconds = {side: min(each[side] for each in rounds) for side in sides}
    if program in PEERS:
        peer = PEERS[program]
        seconds["cupy"] = least(lambda: peer(cp, there, **on_gpu))
        try:
            import torch

            rows_there = torch.from_dlpack(there)
            words_there = {key: torch.from_dlpack(v) if hasattr(v, "get") else v for key, v in on_gpu.items()}
            seconds["torch"] = least(lambda: peer(torch, rows_there, **words_there))
        except ImportError:
            pass
    ours = case.reduction(there, **on_gpu)
    again = case.reduction(there, **on_gpu)
    some = slice(0, 100_000)
    few = {key: v[some] if np.shape(v)[:1] == (rows,) else v for key, v in words.items()}
    exact = case.by_numpy(X[some].astype(np.float64), **few)
    part = case.reduction(X[some], device="cuda", **few)
    compiling = compile_seconds(program, columns, k)
    ratio = seconds["estimator"] / seconds["ours"] if program in OWN else None
    return {
        "program": program,
        "rows": rows,
        "columns": columns,
        "k": k,
        "seconds": seconds,
        "bytes_per_second": X.nbytes / seconds["ours"],
        "ratio": ratio,
        "compile_seconds": compiling,
        "passed": (ratio is None or ratio >= MIN_RATIO) and compiling[0] <= MAX_COLD_SECONDS,
        "same_bits": [np.asarray(a).tobytes() for a in ours] == [np.asarray(b).tobytes() for b in again],
        "largest_relative_error": [
            float(np.abs(np.asarray(a, float) - b).max() / max(1e-300, np.abs(b).max()))
            for a, b in zip(part, exact, strict=True)
        ],
    }


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the aims, and whether they are reached."""
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    slowest = max(row["compile_seconds"][0] for row in rows)
    judged = [report.aim("estimator / row function, least", min(ratios), MIN_RATIO)] if ratios else []
    return [*judged, report.aim("seconds to compile, most", slowest, MAX_COLD_SECONDS, below=True)]


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "reductions_gpu.json")
    programs = list(dict.fromkeys(program for program, *_ in SHAPES))
    parser.add_argument("--programs", nargs="+", choices=programs, default=programs)
    options = parser.parse_args()
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found = []
    for shape in SHAPES:
        if shape[0] not in options.programs:
            continue
        row = measure(*shape)
        found.append(row)
        times = "  ".join(f"{who} {1e3 * s:.3f} ms" for who, s in row["seconds"].items())
        print(f"{row['program']} {row['rows']} x {row['columns']} k={row['k']}: {times}", flush=True)
        print(
            f"    ratio {row['ratio']}, passed {row['passed']}, "
            f"{row['bytes_per_second'] / 1e9:.0f} GB/s, compiling {row['compile_seconds']}, "
            f"same bits {row['same_bits']}, errors {[f'{e:.1e}' for e in row['largest_relative_error']]}",
            flush=True,
        )
    report.write(options.out, SECTIONS, gpu=name, rows=found, aims=aims(found))


if __name__ == "__main__":
    main()
