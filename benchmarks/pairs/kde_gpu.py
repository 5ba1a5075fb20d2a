"""Kernel densities on a GPU, against PyTorch and PyKeOps.

    python -m benchmarks.pairs.kde_gpu [--points N] [--out FILE]

Points are uniform in a cube, in float32, and on the GPU before; a Gaussian kernel, densities at the points.
Times are the least of some calls that take turns. "Sums" are those of terms over all points, without what is
added to them: reading points, logarithms and the bounds of errors, which "bmrm.pairs.kde" has too. PyTorch
takes `cdist` of blocks of rows, then `exp` and a sum in float32. PyTorch and PyKeOps get fewer points at
which the density is wanted, and the time per pair counts. PyKeOps is left out if it is not installed; its
first call, which compiles, is not counted.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing, report
from bmrm import pairs
from bmrm.matrix import _cuda

AXES, H = 3, 0.1
TORCH_ROWS, TORCH_AT, KEOPS_AT = 1000, 50_000, 200_000
CHECKED = 200
ROUNDS, LONG_SECONDS = (2, 20), 4.0

SECTIONS = """
## Kernel densities on a GPU
headline: kernel densities on a GPU | PyTorch | sums | rates[sums]/rates[torch] | {device[name]}

{device[name]}, PyTorch {versions[torch]}, PyKeOps {versions[pykeops]}. {points:,} uniform points in a cube, a
Gaussian kernel of h = {h}, densities at the points, in float32. Pairs per second, in units of 1e12.

[sums]
bmrm, sums = {rates[sums]:.3f T} | bmrm.pairs.kde = {rates[kde]:.3f T} |
PyTorch = {rates[torch]:.3f T} | PyKeOps = {rates[keops]:.3f T} | error = {error:.1e} |
reported = {reported:.1e}

[aims]
"""


def sums_of(x: np.ndarray) -> Callable[[], Any]:
    """Return a call of our sums of terms, of points that are on the GPU."""
    y = np.ascontiguousarray(x.T.astype(np.float64))
    sums = _cuda.DensitySums(y, np.ones(len(x)), light=True)
    scale = 0.5 / H**2
    rate = scale / math.log(2.0)
    return lambda: sums.light_sums(y, scale, rate, 124.0 / rate, 0.0)[0]


def torch_sums(x: Any) -> Callable[[], Any]:
    """Return a call of PyTorch's sums, by blocks of rows."""
    import torch

    points = torch.from_dlpack(x)

    def run() -> Any:
        found = [
            torch.exp(torch.cdist(rows, points).square_().mul_(-0.5 / H**2)).sum(1)
            for rows in points[:TORCH_AT].split(TORCH_ROWS)
        ]
        return torch.cat(found).cpu().numpy()

    return run


def keops_sums(x: Any) -> Callable[[], Any]:
    """Return a call of PyKeOps' sums."""
    import torch
    from pykeops.torch import LazyTensor

    points = torch.from_dlpack(x)
    x_i, y_j = LazyTensor(points[:KEOPS_AT, None, :]), LazyTensor(points[None, :, :])
    sums = (-((x_i - y_j) ** 2).sum(-1) / (2 * H * H)).exp()
    return lambda: sums.sum(axis=1, backend="GPU").cpu().numpy().ravel()


def exact_sums(x: np.ndarray) -> np.ndarray:
    """Return some of the sums, in long doubles."""
    y = x.astype(np.float64)
    squares = sum((y[:CHECKED, None, k] - y[None, :, k]) ** 2 for k in range(AXES))
    return np.array(np.exp(squares * (-0.5 / H**2)).sum(axis=1, dtype=np.longdouble))


def measure(n: int) -> dict[str, Any]:
    """Measure the sums over all points, per pair, and the errors."""
    x = np.random.default_rng(0).random((n, AXES), np.float32)
    there = cp.asarray(x)
    points = pairs.Points(there)
    calls: dict[str, Callable[[], Any]] = {
        "sums": sums_of(x),
        "kde": lambda: pairs.kde(points, bandwidth=H, device="cuda"),
        "torch": torch_sums(there),
    }
    at = {"sums": n, "kde": n, "torch": min(TORCH_AT, n), "keops": min(KEOPS_AT, n)}
    if report.optional("pykeops"):
        calls["keops"] = keops_sums(there)
    exact = exact_sums(x)
    for who in calls.keys() - {"kde"}:
        np.testing.assert_allclose(calls[who]()[:CHECKED], exact, rtol=1e-3, err_msg=who)
    found = calls["kde"]()
    scale = n * (math.sqrt(2.0 * math.pi) * H) ** AXES
    error = np.abs(found.values[:CHECKED] * scale / exact - 1)
    assert (error <= found.error_bound[:CHECKED]).all()
    seconds = gpu_timing.least_seconds(calls, ROUNDS, LONG_SECONDS)
    return {
        "seconds": seconds,
        "rates": {who: at[who] * n / seconds[who] for who in calls},
        "error": float(error.max()),
        "reported": float(found.error_bound.max()),
    }


def main() -> None:
    """Print the measurements and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--out", default=report.RESULTS / "pairs_kde_gpu.json")
    options = parser.parse_args()
    sums = measure(options.points)
    rates = sums["rates"]
    aims = [report.aim("bmrm / PyTorch", rates["sums"] / rates["torch"], 15.0)]
    if "keops" in rates:
        aims.append(report.aim("bmrm / PyKeOps", rates["sums"] / rates["keops"], 1.2))
    aims.append(report.aim("reported error", sums["reported"], 1e-6, below=True))
    for each in aims:
        print(report.line(each))
    versions = {name: report.version(name) for name in ("torch", "pykeops")}
    numbers = {"points": options.points, "h": H, "versions": versions, "sums": [sums], "aims": aims}
    report.write(options.out, SECTIONS, device=gpu_timing.device(), **numbers)


if __name__ == "__main__":
    main()
