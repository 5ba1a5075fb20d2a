"""A step of multidimensional scaling on a GPU, against the usual forms in PyTorch.

    python -m benchmarks.reductions.gpu_mds [--out FILE]

The points are normal in 10 dimensions, and scaled to 2; dissimilarities are on the GPU before. A step is a
Guttman transform with the stress, read by the host. Its time is that of some steps after one another, from
the first call to the end of the last, divided by their number; the least of some rounds in which ours and
PyTorch's take turns. PyTorch computes in float32: in one form with a product of matrices, in the other, if
``torch.compile`` works there, with differences, fused. Ours computes in float64, or, with float32 terms, in
float32 as PyTorch does, but adds in float64.

The time of a pass of a fit, accelerated and not, is that of a whole fit less that of a shorter one, divided
by the difference of their passes.

"One read" is the time in which a copy on the same GPU moves the bytes of all n x n dissimilarities, once for
the read and none for the write.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.common import gpu_timing, report
from bmrm import MDS
from bmrm.matrix import _cuda

DIMENSIONS = 10
STEPS = 20
ROUNDS = 5
FIT_PASSES = (5, 35)
CHECKED_ROWS = 200
SHAPES = (
    # points, axes, kind
    (2_000, 2, "full float32"),
    (20_000, 2, "full float32"),
    (20_000, 2, "half float32"),
    (20_000, 2, "full float64"),
    (20_000, 2, "weighted float32"),
    (20_000, 2, "features"),
    (20_000, 2, "full float32, float32 terms"),
    (20_000, 3, "full float32"),
    (20_000, 3, "full float32, float32 terms"),
    (40_000, 2, "full float32"),
    (40_000, 2, "full float32, float32 terms"),
)
AIMS = {"times_faster": 12.0, "of_read": 0.6, "single": 1.8}
FLOAT32_TERMS = ", float32 terms"
AIMED = ((20_000, 2, "full float32"), (40_000, 2, "full float32"))


SECTIONS = """
## Multidimensional scaling on a GPU

{device[name]}. An iteration of SMACOF, in float64 unless the kind says float32 terms; PyTorch's is in
float32. The last column is the fraction of read bandwidth: the time of one read of the dissimilarities, at
the speed of a copy ({copy_bytes_per_second:.0f GB} GB/s), over the time of
the iteration.

[rows]
points, kind = {points} x {axes}, {kind} | ms = {seconds[ours]:.3g ms} |
PyTorch ms = {seconds[torch]:.3g ms} | torch.compile ms = {seconds[torch.compile]:.3g ms} |
fraction of read bandwidth = {of_read:.2f}

[aims]
"""


def step_seconds(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least time of a step of each, of several after one another."""

    def several(call: Callable[[], Any]) -> Callable[[], None]:
        def steps() -> None:
            for _ in range(STEPS):
                call()

        return steps

    found = gpu_timing.least_seconds(
        {name: several(call) for name, call in calls.items()}, (ROUNDS, ROUNDS), 0.0
    )
    return {name: seconds / STEPS for name, seconds in found.items()}


def torch_forms(D: cp.ndarray, start: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return steps in PyTorch."""
    import torch

    delta = torch.from_dlpack(D)
    places = torch.from_numpy(start.astype(np.float32)).cuda()

    def by_products() -> Any:
        d = torch.cdist(places, places)
        stress = (delta - d).square_().sum()
        ratio = torch.where(d > 0, delta / d, 0.0)
        moved = (places * ratio.sum(1, keepdim=True) - ratio @ places) / len(places)
        return moved, stress.item()

    def fused(x: Any, given: Any) -> Any:
        u = [x[:, None, k] - x[None, :, k] for k in range(x.shape[1])]
        square = sum(each * each for each in u)
        y = torch.where(square > 0, torch.rsqrt(square), 0.0)
        stress = (given - square * y).square().sum(1)
        return [(given * y * each).sum(1) / x.shape[0] for each in u], stress

    forms: dict[str, Callable[[], Any]] = {"torch": by_products}
    try:
        compiled = torch.compile(fused)
        compiled(places, delta)

        def by_compiled() -> Any:
            moved, stress = compiled(places, delta)
            return moved, stress.sum().item()

        forms["torch.compile"] = by_compiled
    except Exception as error:  # no compiler there, or one that does not know the GPU
        print(f"torch.compile: {str(error).splitlines()[0]}")
    return forms


def direction_of_rows(X: np.ndarray, D: cp.ndarray, W: cp.ndarray | None, rows: slice) -> np.ndarray:
    """Return half the descent direction of some rows, by NumPy's formula in float64."""
    places = cp.asarray(X)
    u = places[rows][:, None] - places[None]
    d = cp.sqrt((u * u).sum(axis=2))
    ratio = cp.where(d > 0, D[rows].astype(cp.float64) / cp.where(d > 0, d, 1.0), 0.0) - 1.0
    if W is not None:
        ratio *= W[rows]
    return cp.asnumpy((ratio[:, :, None] * u).sum(axis=1))


def measure(n: int, p: int, kind: str, bandwidth: float) -> dict[str, Any]:
    """Measure steps of one kind at one size."""
    single, kind = kind.endswith(FLOAT32_TERMS), kind.removesuffix(FLOAT32_TERMS)
    rng = np.random.default_rng(n + p)
    features, start = rng.normal(size=(n, DIMENSIONS)), rng.normal(size=(n, p))
    if single:
        start = start.astype(np.float32).astype(np.float64)
    there = cp.asarray(features)
    squares = (there * there).sum(axis=1)
    D = squares[:, None] + squares[None] - 2.0 * there @ there.T
    D = cp.sqrt(cp.maximum(D, 0.0, out=D), out=D)
    cp.fill_diagonal(D, 0.0)
    D = cp.maximum(D, D.T).astype(cp.float64 if kind == "full float64" else cp.float32)
    W = None
    words: dict[str, Any] = {"delta": D}
    if kind == "half float32":
        words["delta"] = D[cp.triu(cp.ones((n, n), bool), 1)]
    if kind == "weighted float32":
        W = words["weights"] = 1.0 / (1.0 + D)
    if kind == "features":
        words = {"features": features}
    cp.cuda.runtime.deviceSynchronize()
    pairs = _cuda.ResidentPairs(n, **words)
    X = pairs.put(start)

    def ours() -> Any:
        direction, stress, *_ = pairs.descent(X, single=single)
        return pairs.combine([X, direction], [1.0, 1.0 / n]), stress

    found, again = (pairs.descent(X, single=single) for _ in range(2))
    whole = pairs.descent(X)
    direction = pairs.get(found[0])
    rows = slice(n // 3, n // 3 + CHECKED_ROWS)
    expected = direction_of_rows(start, D, W, rows)
    error = float(np.abs(direction[rows] - expected).max() / np.abs(expected).max())
    same_bits = bool((direction == pairs.get(again[0])).all()) and found[1:] == again[1:]
    calls: dict[str, Callable[[], Any]] = {"ours": ours}
    if kind == "full float32":
        calls |= torch_forms(D, start)
    seconds = step_seconds(calls)
    stress_error = None
    if "torch" in calls:
        moved, stress = calls["torch"]()
        stress_error = abs(stress / 2 - found[1]) / found[1]
        ours_moved = pairs.get(calls["ours"]()[0]) - start.mean(axis=0)
        assert np.abs(ours_moved - moved.cpu().numpy()).max() < 1e-3 * np.abs(ours_moved).max()
    read = n * n * 4 / bandwidth
    peers = {name: value for name, value in seconds.items() if name != "ours"}
    assert same_bits
    assert error < (1e-6 if single or kind == "features" else 1e-12)
    return {
        "points": n,
        "axes": p,
        "kind": kind + FLOAT32_TERMS if single else kind,
        "seconds": seconds,
        "times_faster": {name: value / seconds["ours"] for name, value in peers.items()},
        "of_read": read / seconds["ours"],
        "of_half": read / 2 / seconds["ours"],
        "error": error,
        "stress_difference": abs(found[1] - whole[1]) / whole[1],
        "stress_difference_of_torch": stress_error,
        "same_bits": same_bits,
        "device_bytes": pairs.device_bytes,
    }


def measure_fit(n: int) -> dict[str, Any]:
    """Measure a pass of a whole fit of dissimilarities on the GPU."""
    rng = np.random.default_rng(n)
    there, start = cp.asarray(rng.normal(size=(n, DIMENSIONS))), rng.normal(size=(n, 2))
    squares = (there * there).sum(axis=1)
    D = cp.sqrt(cp.maximum(squares[:, None] + squares[None] - 2.0 * there @ there.T, 0.0))
    cp.fill_diagonal(D, 0.0)
    D = cp.maximum(D, D.T).astype(cp.float32)
    found: dict[str, Any] = {"points": n}
    for name, relax in (("plain", False), ("accelerated", True)):
        times = []
        for passes in FIT_PASSES:
            least = np.inf
            for _ in range(3):
                begin = time.perf_counter()
                model = MDS(2, metric="precomputed", relax=relax, eps=0.0, max_iter=passes)
                model.fit(D, init=start)
                least = min(least, time.perf_counter() - begin)
            times.append(least)
        found[f"{name}_pass_seconds"] = (times[1] - times[0]) / (FIT_PASSES[1] - FIT_PASSES[0])
        found[f"{name}_short_fit_seconds"] = times[0]
        found[f"{name}_stress"] = model.normalized_stress_
        assert model.placement_.gpu == 0
    return found


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the aims, and whether they are reached."""
    found = []
    for row in rows:
        if (row["points"], row["axes"], row["kind"]) in AIMED:
            name = f"{row['points']} x {row['axes']}, {row['kind']}"
            faster, share = row["times_faster"]["torch"], row["of_read"]
            found.append(report.aim(f"PyTorch / bmrm, {name}", faster, AIMS["times_faster"]))
            found.append(report.aim(f"fraction of read bandwidth, {name}", share, AIMS["of_read"]))
        compiled = row["times_faster"].get("torch.compile")
        if row["kind"].endswith(FLOAT32_TERMS) and compiled is not None:
            name = f"{row['points']} x {row['axes']}, {row['kind']}"
            found.append(report.aim(f"torch.compile / bmrm, {name}", compiled, AIMS["single"]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default=report.RESULTS / "gpu_mds.json")
    args = parser.parse_args()
    bandwidth = gpu_timing.copy_bandwidth(gpu_timing.Clock())
    cp.cuda.Stream.null.use()
    rows = []
    for shape in SHAPES:
        row = measure(*shape, bandwidth)
        rows.append(row)
        times = "  ".join(f"{name} {1e3 * value:.3f} ms" for name, value in row["seconds"].items())
        faster = "  ".join(f"{value:.1f}x {name}" for name, value in row["times_faster"].items())
        print(
            f"{row['points']:6d} x {row['axes']}  {row['kind']:17s} {times}  {faster}  "
            f"{row['of_read']:.2f} of one read, {row['of_half']:.2f} of the half, error {row['error']:.1e}",
            flush=True,
        )
        cp.get_default_memory_pool().free_all_blocks()
    fits = [measure_fit(n) for n in (2_000, 20_000)]
    for fit in fits:
        print(", ".join(f"{name} {value:.4g}" for name, value in fit.items()))
    results = {
        "device": gpu_timing.device(),
        "copy_bytes_per_second": bandwidth,
        "rows": rows,
        "fits": fits,
        "aims": aims(rows),
    }
    for aim in results["aims"]:
        print(report.line(aim))
    report.write(args.out, SECTIONS, **results)


if __name__ == "__main__":
    main()
