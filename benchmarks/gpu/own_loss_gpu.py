"""Cost of a loss in Python in a solve on a GPU: the logistic loss, compiled and by several libraries.

    python -m benchmarks.gpu.own_loss_gpu [--rows 400000] [--columns 60] [--out FILE]

Dense float32 data. PyTorch, CuPy and JAX work on the solver's margins in place; JAX compiles the function,
CuPy fuses it, PyTorch runs it as it is. NumPy's function gets margins on the host and returns derivatives
there. Each is solved to the same gap on one resident matrix; times are the best of three solves after one to
warm up.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bmrm
from benchmarks.common import report
from bmrm.losses import CallableLoss
from bmrm.matrix.gpu.devices import gpu

LAM, TOL = 1e-4, 1e-3


SECTIONS = """
## A loss in Python on a GPU

{gpu}. The logistic loss on {shape[0]} x {shape[1]} dense float32 numbers, lam {lam:g}, to a relative gap of
{tol:g}; milliseconds of a solve on a resident matrix.

[rows]
the function = {what} | ms = {seconds:.1f ms} | of which products = {products:.1f ms} |
passes = {iterations} | calls = {calls} | J = {objective:.7f} | gap = {gap:.1e}
"""


def by_numpy() -> Callable[[Any, Any], tuple[Any, Any]]:
    """The logistic loss on the host."""
    return lambda u, y: (np.logaddexp(0.0, -y * u), -y / (1.0 + np.exp(y * u)))


def by_torch() -> Callable[[Any, Any], tuple[Any, Any]]:
    """The same with PyTorch's kernels, one after another."""
    import torch

    return lambda u, y: (torch.nn.functional.softplus(-y * u), -y * torch.sigmoid(-y * u))


def by_cupy() -> Callable[[Any, Any], tuple[Any, Any]]:
    """The same in one kernel of CuPy."""
    import cupy

    @cupy.fuse
    def fused(u: Any, y: Any) -> tuple[Any, Any]:
        return cupy.logaddexp(0.0 * u, -y * u), -y / (1.0 + cupy.exp(y * u))

    return lambda u, y: fused(u, y)


def by_jax() -> Callable[[Any, Any], tuple[Any, Any]]:
    """The same compiled by JAX."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    return jax.jit(lambda u, y: (jax.nn.softplus(-y * u), -y * jax.nn.sigmoid(-y * u)))


NAMES = {
    "compiled": "compiled",
    "torch": "PyTorch",
    "cupy": "CuPy, fused",
    "jax": "JAX, compiled",
    "numpy": "NumPy, on the host",
}
WAYS = {"torch": by_torch, "cupy": by_cupy, "jax": by_jax, "numpy": by_numpy}


def measure(data: bmrm.Dataset, name: str) -> dict[str, Any]:
    """Solve with the loss of a library, or the compiled one."""
    calls = 0

    def counted(u: Any, y: Any) -> tuple[Any, Any]:
        nonlocal calls
        calls += 1
        return function(u, y)

    loss: Any = "logistic"
    if name != "compiled":
        function = WAYS[name]()
        loss = CallableLoss(counted, name, "binary", minimum=0.0, arrays=name)
    bmrm.solve(data, loss=loss, lam=LAM, tol=TOL)
    times = []
    for _ in range(3):
        calls, began = 0, time.perf_counter()
        found = bmrm.solve(data, loss=loss, lam=LAM, tol=TOL)
        times.append(time.perf_counter() - began)
    return {
        "arrays": name,
        "what": NAMES[name],
        "seconds": min(times),
        "products": found.timings["products"],
        "iterations": found.n_iter,
        "calls": calls or None,
        "objective": found.objective,
        "gap": found.gap,
        "status": found.status,
    }


def main() -> None:
    """Print the table and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--out", default=report.RESULTS / "own_loss_gpu.json")
    options = parser.parse_args()
    device = gpu()
    if device is None:
        raise SystemExit("there is no CUDA device")
    rng = np.random.default_rng(0)
    shape = options.rows, options.columns
    X = rng.standard_normal(shape, dtype=np.float32)
    y = np.sign(X @ rng.standard_normal(shape[1], dtype=np.float32) + 2.0 * rng.standard_normal(shape[0]))
    data = bmrm.Dataset(X, y, device="cuda")
    rows = []
    for name in ("compiled", *WAYS):
        rows.append(measure(data, name))
        row = rows[-1]
        print(
            f"{name:9} {1e3 * row['seconds']:8.2f} ms, {row['iterations']} iterations, {row['calls']} calls, "
            f"J {row['objective']:.8f}, gap {row['gap']:.1e}, {row['status']}"
        )
    report.write(options.out, SECTIONS, gpu=device["name"], shape=shape, lam=LAM, tol=TOL, rows=rows)


if __name__ == "__main__":
    main()
