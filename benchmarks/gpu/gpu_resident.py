"""The matrix under test: enough copies on the device to exceed the cache, and times of their products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cupy as cp
import cupyx
import numpy as np

from benchmarks.common import gpu_timing, shapes

PRODUCTS = {"X w": "normal", "X^T r": "transposed"}


def pinned(array: cp.ndarray) -> np.ndarray:
    """Copy an array to pinned memory of the host."""
    host = cupyx.empty_pinned(array.shape, array.dtype)
    array.get(out=host, blocking=True)
    return host


def host_arrays(matrix: shapes.Csr, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays that the constructor takes, in pinned memory."""
    return pinned(matrix.indptr), pinned(matrix.indices), pinned(matrix.values.astype(dtype))


class Resident:
    """Copies of a matrix, and the report of the first."""

    def __init__(
        self, clock: gpu_timing.Clock, build: Callable[[Any], Any], shape: tuple[int, int], dtype: str
    ) -> None:
        """`build(plan)` makes a matrix; the copies get the plans that the first one chose."""
        self.clock, self.shape, self.dtype = clock, shape, dtype
        first = build(None)
        report = first.report()
        self.chosen = {
            product: report[op]["candidates"][report[op]["chosen"]] for product, op in PRODUCTS.items()
        }
        plans = tuple(chosen["plan"] for chosen in self.chosen.values())
        copies = gpu_timing.copies_beyond_cache(min(map(self.format_bytes, PRODUCTS)))
        self.matrices = [first] + [build(plans) for _ in range(copies - 1)]
        for matrix in self.matrices:
            matrix.use_stream(clock.stream.ptr)

    def format_bytes(self, product: str) -> int:
        """Return the bytes of the stored format that the product reads."""
        return int(self.chosen[product]["bytes"])

    def moved_bytes(self, product: str) -> int:
        """Return the bytes that the product must move: format, input and output."""
        return self.format_bytes(product) + np.dtype(self.dtype).itemsize * sum(self.shape)

    def measure(self, product: str) -> tuple[float, cp.ndarray, cp.ndarray]:
        """Return the seconds of one product, and an input with its output."""
        rows, cols = self.shape if product == "X w" else self.shape[::-1]
        inputs = [gpu_timing.normal(cols, self.dtype, seed) for seed in range(len(self.matrices))]
        outputs = [cp.full(rows, cp.nan, self.dtype) for _ in self.matrices]
        work = [
            partial(matrix.apply, PRODUCTS[product], x, y)
            for matrix, x, y in zip(self.matrices, inputs, outputs, strict=True)
        ]
        return self.clock.seconds(work), inputs[0], outputs[0]

    def row(self, product: str, copy: float) -> tuple[dict[str, Any], cp.ndarray, cp.ndarray]:
        """Measure the product: entries of its table row, an input, its output. `copy`: bytes per second."""
        from bmrm.matrix.gpu.explain import plan_text

        seconds, x, y = self.measure(product)
        rate = self.moved_bytes(product) / seconds
        entries = {
            "us": 1e6 * seconds,
            "bytes": self.moved_bytes(product),
            "gbs": rate / 1e9,
            "of_copy": rate / copy,
            "plan": plan_text(self.chosen[product]["plan"]),
        }
        return entries, x, y


def sparse(
    clock: gpu_timing.Clock, arrays: tuple[np.ndarray, np.ndarray, np.ndarray], shape: tuple[int, int]
) -> Resident:
    """Keep a sparse matrix on the device."""
    from bmrm.matrix._cuda import Matrix

    return Resident(clock, lambda plan: Matrix(*arrays, shape, plan=plan), shape, arrays[2].dtype.name)


def of_csr(clock: gpu_timing.Clock, matrix: shapes.Csr, dtype: str) -> Resident:
    """Keep a generated matrix on the device, its values rounded to `dtype`."""
    return sparse(clock, host_arrays(matrix, dtype), matrix.shape)


def of_dense(clock: gpu_timing.Clock, matrix: cp.ndarray) -> Resident:
    """Keep a dense matrix on the device."""
    from bmrm.matrix._cuda import Matrix

    host = pinned(matrix)
    # There is one way to keep a dense matrix, so no plan to hand on.
    return Resident(clock, lambda _: Matrix.from_dense(host), matrix.shape, matrix.dtype.name)
