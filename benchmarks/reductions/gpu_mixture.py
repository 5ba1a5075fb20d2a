"""Steps of EM and Gram matrices on a GPU, against forms in PyTorch in the same run.

    python -m benchmarks.reductions.gpu_mixture [--rows 1000000] [--out FILE]

Rows are on the GPU before. Our times are from the call to the sums on the host, those of PyTorch from the
call to the end of its work on the GPU; a time is the median of some calls. Ours are in float64 and checked
against NumPy in float64; of PyTorch's forms, which are in float32, the error is shown.

EM, full     `shifted`: (x - m) of all components, their products with the roots, and of each component the
             products of shares and differences, as batched products
             `features`: products of two columns of a row, written out once, times what the components make of
             them: fewer operations, but the digits of the data's distance from 0 are lost
EM, diag     `features`: the same with squares
iteration    our step with the M step of `GaussianMixture` on the host
Gram         the rows less their mean, and one product
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.common import report
from bmrm.matrix import _cuda
from bmrm.unsupervised.mixtures.estimator import GaussianMixture

REPEATS = 15
COLUMNS, COMPONENTS = 16, 32
GRAM_ROWS, GRAM_COLUMNS = 2_000_000, 64
CHECKED_ROWS = 100_000
TARGETS = {"EM full": 15.0, "Gram": 3.0}
TASKS = {"full": "EM, full", "diag": "EM, diagonal", "gram": "Gram matrix"}


SECTIONS = """
## Mixtures and Gram matrices on a GPU

{device}. An E and M step, and a Gram matrix of centred rows; errors are relative, against float64.

[rows]
task, baseline = {task}, {rows} rows, {peer} | ms = {seconds:.3g ms} | baseline ms = {peer_seconds:.3g ms} |
times faster = {peer_seconds/seconds:.1f} | error = {error:.0e} | baseline's error = {peer_error:.0e}

[aims]
"""


def seconds(call: Callable[[], Any]) -> float:
    """Return the median time of some calls, each with its work on the GPU."""
    found = []
    for _ in range(REPEATS + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found[3:])


def kernel_seconds(call: Callable[[], Any]) -> dict[str, float]:
    """Return the times of the kernels of one call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return {
        event.key.split("(")[0].split("<")[0]: 1e-6 * event.self_device_time_total
        for event in profile.key_averages()
        if event.self_device_time_total
    }


def shifted(X: Any, means: Any, roots: Any, constants: Any) -> tuple[Any, ...]:
    """Return a step of EM with full covariances by batched products."""
    E = X[None] - means[:, None]
    Y = torch.bmm(E, roots.transpose(1, 2))
    q = constants[:, None] - 0.5 * (Y * Y).sum(2)
    top = torch.logsumexp(q, 0)
    r = torch.exp(q - top)
    scaled = E * r[:, :, None]
    return top.sum(), r.sum(1), scaled.sum(1), torch.bmm(scaled.transpose(1, 2), E)


def features(F: Any, means: Any, quadratic: Any, linear: Any, constants: Any) -> tuple[Any, ...]:
    """Return a step of EM by products of what rows and components have; F: columns, then products."""
    d = means.shape[1]
    q = constants + F[:, :d] @ linear.T + F[:, d:] @ quadratic.T
    top = torch.logsumexp(q, 1)
    r = torch.exp(q - top[:, None])
    return top.sum(), r.sum(0), r.T @ F[:, :d], r.T @ F[:, d:]


def parameters(full: bool, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return random means, roots of precisions and constants of log densities."""
    k, d = COMPONENTS, COLUMNS
    means = 2.0 * rng.normal(size=(k, d))
    factors = rng.normal(size=(k, d, d)) / (2.0 * math.sqrt(d)) + np.eye(d)
    covariances = factors @ np.swapaxes(factors, 1, 2)
    if not full:
        covariances = np.einsum("kff->kf", covariances).copy()
    roots = np.tril(np.linalg.inv(np.linalg.cholesky(covariances))) if full else 1.0 / np.sqrt(covariances)
    logs = np.log(np.einsum("kff->kf", roots) if full else roots).sum(axis=1)
    return means, roots, logs - math.log(k) - 0.5 * d * math.log(2.0 * math.pi)


def expected(X: np.ndarray, means: Any, roots: Any, constants: Any) -> tuple[Any, ...]:
    """Return a step of EM in float64 by NumPy."""
    q = np.empty((len(X), len(means)))
    for j in range(len(means)):
        E = X - means[j]
        Y = E @ roots[j].T if roots.ndim == 3 else E * roots[j]
        q[:, j] = constants[j] - 0.5 * (Y * Y).sum(axis=1)
    top = q.max(axis=1)
    log_densities = top + np.log(np.exp(q - top[:, None]).sum(axis=1))
    r = np.exp(q - log_densities[:, None])
    first = np.array([r[:, j] @ (X - means[j]) for j in range(len(means))])
    if roots.ndim == 3:
        second = [np.tril((X - m).T @ ((X - m) * r[:, j, None])) for j, m in enumerate(means)]
    else:
        second = [r[:, j] @ (X - m) ** 2 for j, m in enumerate(means)]
    return log_densities.sum(), r.sum(axis=0), first, np.array(second)


def largest_error(found: tuple[Any, ...], reference: tuple[Any, ...]) -> float:
    """Return the largest error of the parts, each relative to the largest number of its part."""
    pairs = zip(found, reference, strict=True)
    return max(float(np.abs(np.subtract(a, b)).max() / np.abs(b).max()) for a, b in pairs)


def on_gpu(*arrays: np.ndarray) -> list[Any]:
    return [torch.tensor(array, dtype=torch.float32, device="cuda") for array in arrays]


def shifted_error(X: Any, model: tuple[Any, ...], reference: tuple[Any, ...]) -> float:
    found = [part.double().cpu().numpy() for part in shifted(X, *on_gpu(*model))]
    found[3] = np.tril(found[3])
    return largest_error(tuple(found), reference)


def measure_em(rows: int, full: bool) -> dict[str, Any]:
    """Return times and errors of EM."""
    rng = np.random.default_rng(0)
    means, roots, constants = parameters(full, rng)
    labels = rng.integers(0, COMPONENTS, rows)
    X = (means[labels] + rng.normal(size=(rows, COLUMNS))).astype(np.float32)
    there = torch.tensor(X, device="cuda")
    few = X[:CHECKED_ROWS].astype(np.float64)
    reference = expected(few, means, roots, constants)
    mine = _cuda.DenseRows(there[:CHECKED_ROWS].contiguous()).mixture_step(means, roots, constants)
    error = largest_error(mine, reference)
    assert error < 1e-11, error
    resident = _cuda.DenseRows(there)

    def step() -> Any:
        return resident.mixture_step(means, roots, constants)

    assert all(np.array_equal(a, b) for a, b in zip(step(), step(), strict=True))
    model = GaussianMixture(COMPONENTS, covariance_type="full" if full else "diag")

    def iteration() -> Any:
        _, sizes, first, second = step()
        return model._maximised(sizes, means, first, second).roots()

    found: dict[str, Any] = {
        "rows": rows,
        "bmrm": seconds(step),
        "bmrm, iteration": seconds(iteration),
        "bmrm, error": error,
        "kernels": kernel_seconds(step),
    }
    if full:
        given = on_gpu(means, roots, constants)
        found["PyTorch, shifted"] = seconds(lambda: shifted(there, *given))
        found["PyTorch, shifted, error"] = shifted_error(
            there[:CHECKED_ROWS], (means, roots, constants), reference
        )
        precisions = np.swapaxes(roots, 1, 2) @ roots
        lower = np.tril_indices(COLUMNS)
        products = there[:, lower[0]] * there[:, lower[1]]
        twice = np.where(lower[0] == lower[1], 0.5, 1.0)
        quadratic = -precisions[:, lower[0], lower[1]] * twice
    else:
        precisions = np.einsum("kf,fg->kfg", roots**2, np.eye(COLUMNS))
        products = there**2
        quadratic = -0.5 * roots**2
    linear = np.einsum("kfg,kg->kf", precisions, means)
    level = constants - 0.5 * np.einsum("kf,kf->k", linear, means)
    F = torch.cat([there, products], 1)
    given = on_gpu(means, quadratic, linear, level)
    found["PyTorch, features"] = seconds(lambda: features(F, *given))
    small = [part.double().cpu().numpy() for part in features(F[:CHECKED_ROWS], *given)]
    found["PyTorch, features, error"] = largest_error(tuple(small[:2]), reference[:2])
    return found


def measure_gram() -> dict[str, Any]:
    """Return times and errors of a Gram matrix."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(GRAM_ROWS, GRAM_COLUMNS)) + 3.0).astype(np.float32)
    there, shift = torch.tensor(X, device="cuda"), X.mean(axis=0, dtype=np.float64)
    resident = _cuda.DenseRows(there)
    matrix, _ = resident.gram(shift)
    assert np.array_equal(matrix, resident.gram(shift)[0])
    E = X.astype(np.float64) - shift
    reference = E.T @ E
    error = float(np.abs(matrix - reference).max() / np.abs(reference).max())
    assert error < 1e-12, error
    moved = torch.tensor(shift, dtype=torch.float32, device="cuda")

    def peer() -> Any:
        centred = there - moved
        return centred.T @ centred

    theirs = peer().double().cpu().numpy()
    return {
        "rows": GRAM_ROWS,
        "columns": GRAM_COLUMNS,
        "bmrm": seconds(lambda: resident.gram(shift)),
        "bmrm, error": error,
        "kernels": kernel_seconds(lambda: resident.gram(shift)),
        "PyTorch": seconds(peer),
        "PyTorch, error": float(np.abs(theirs - reference).max() / np.abs(reference).max()),
        "read of the rows": seconds(lambda: there.view(torch.int32).max()),
    }


def show(name: str, found: dict[str, Any], peer: str) -> None:
    print(f"{name}:")
    for key, value in found.items():
        if isinstance(value, dict):
            for kernel, time_ in value.items():
                print(f"    kernel {kernel:<40} {1e3 * time_:9.3f} ms")
        elif "error" in key:
            print(f"  {key:<30} {value:.2g}")
        elif isinstance(value, float):
            print(f"  {key:<30} {1e3 * value:9.3f} ms")
    ratio, target = found[peer] / found["bmrm"], TARGETS.get(name)
    aim = "" if target is None else f", at least {target:g} is the aim"
    print(f"  {peer} / bmrm: {ratio:.2f}{aim}")


def against(kind: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row per form of PyTorch."""
    return [
        {
            "task": TASKS[kind],
            "peer": peer,
            "rows": found["rows"],
            "seconds": found["bmrm"],
            "peer_seconds": found[peer],
            "error": found["bmrm, error"],
            "peer_error": found[f"{peer}, error"],
        }
        for peer in ("PyTorch", "PyTorch, shifted", "PyTorch, features")
        if peer in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", help="results file")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.cuda.get_device_name()
    full = measure_em(args.rows, True)
    show("EM full", full, "PyTorch, shifted")
    diag = measure_em(args.rows, False)
    show("EM diag", diag, "PyTorch, features")
    gram = measure_gram()
    show("Gram", gram, "PyTorch")
    if args.out:
        found = {"full": full, "diag": diag, "gram": gram}
        rows = [row for kind, each in found.items() for row in against(kind, each)]
        aims = [
            report.aim(f"{peer} / bmrm, {name}", each[peer] / each["bmrm"], TARGETS[name])
            for name, peer, each in (("EM full", "PyTorch, shifted", full), ("Gram", "PyTorch", gram))
        ]
        report.write(
            args.out, SECTIONS, device=device, torch=torch.__version__, rows=rows, aims=aims, **found
        )


if __name__ == "__main__":
    main()
