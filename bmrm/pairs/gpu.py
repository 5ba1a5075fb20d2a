"""Pairs of points on a GPU, by the kernels of ``src_cuda/pairs``; see `bmrm.pairs.passes`."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import check_finite
from bmrm.base.vectors import Indices, Vector
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.matrix.gpu.memory import too_little
from bmrm.pairs.passes import Counter, DensityPasses
from bmrm.pairs.work import Rate, device_bytes, gpu_rate


class DevicePairs:
    """Passes on a GPU.

    - ``number``: its CUDA number
    """

    density_pairs: ClassVar[float] = 2e11
    sample_points: ClassVar[dict[str, int]] = {"float64": 100_000, "brute": 200_000, "cells": 1_000_000}

    def __init__(self, number: int) -> None:
        self.device = f"cuda:{number}"
        self._cuda, self._number = import_cuda(), number
        self._info: dict[str, Any] = self._cuda.device_info(number)

    def clock(self) -> float:
        return time.perf_counter()

    @property
    def machine(self) -> str:
        """The name of the GPU."""
        return str(self._info["name"])

    def place(self, coordinates: Vector, box: Vector, order: NDArray[np.int64] | None = None) -> Any:
        return self._cuda.PlacedPoints(coordinates, box, device=self._number)  # it has an order of its own

    def place_resident(self, x: DeviceArray, box: Vector) -> Any:
        """Copy points that are on this GPU, shape (n, d), there; raise `DataError` if some are not finite."""
        _, row = self._cuda.DenseRows(x, device=self._number).extremes()
        if row is not None:
            check_finite("x", x.numpy())
        return self._cuda.PlacedPoints(x, box, by_points=True, device=self._number)

    def counter(
        self, a: Any, b: Any, bounds: Vector, kernel: str, images: str, threads: int | None
    ) -> Counter:
        found: Counter = self._cuda.PairCounter(a, b, bounds, kernel, images)
        return found

    def near_order(self, coordinates: Vector, leaf: int, threads: int | None) -> Indices:
        return np.arange(coordinates.shape[1])  # no tile is left out

    def density_sums(self, y: Vector, weights: Vector, light: bool) -> DensityPasses:
        found: DensityPasses = self._cuda.DensitySums(y, weights, light=light, device=self._number)
        return found

    def rate(self, kernel: str, axes: int, bins: int, points: int) -> Rate:
        return gpu_rate(kernel, axes, bins, self._info["multiprocessors"])

    def growth(self, axes: int, points: int) -> float:
        return 1.0

    def worth(self, threads: int) -> float:
        return 1.0

    def memory(self, kernel: str, points: int, axes: int, bins: int, threads: int | None) -> int:
        return device_bytes(kernel, points, axes, bins)

    def require(self, needed: int, what: str) -> None:
        free = self._cuda.device_info(self._number)["free_bytes"]
        if needed > free:
            raise too_little(free, f"{what} takes {needed / 1e6:.4g} MB")
