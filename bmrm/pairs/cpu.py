"""Pairs of points in main memory, by the compiled loops; see `bmrm.pairs.passes`."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Indices, Vector
from bmrm.matrix.gpu.cache import cpu_name
from bmrm.matrix.gpu.work import cores_worth, threads_of
from bmrm.pairs._pairs import DensitySums, PairCounter, PlacedPoints, near_order
from bmrm.pairs.work import Rate, cpu_rate, host_bytes, point_growth


class HostPairs:
    """Passes on the CPU."""

    device = "cpu"
    density_pairs: ClassVar[float] = 4e8
    sample_points: ClassVar[dict[str, int]] = {"float64": 3000, "brute": 10_000, "cells": 30_000}

    def clock(self) -> float:
        return time.thread_time()

    @property
    def machine(self) -> str:
        """The processor and its instruction set."""
        return cpu_name()

    def place(self, coordinates: Vector, box: Vector, order: NDArray[np.int64] | None = None) -> PlacedPoints:
        return PlacedPoints(coordinates, box, order=order)

    def counter(
        self,
        a: PlacedPoints,
        b: PlacedPoints | None,
        bounds: Vector,
        kernel: str,
        images: str,
        threads: int | None,
    ) -> PairCounter:
        return PairCounter(a, b, bounds, kernel, images, threads)

    def near_order(self, coordinates: Vector, leaf: int, threads: int | None) -> Indices:
        return near_order(self.place(coordinates, np.zeros(len(coordinates))), leaf, threads)

    def density_sums(self, y: Vector, weights: Vector, light: bool) -> DensitySums:
        return DensitySums(y, weights, light=light)

    def rate(self, kernel: str, axes: int, bins: int, points: int) -> Rate:
        return cpu_rate(kernel, axes, bins, points)

    def growth(self, axes: int, points: int) -> float:
        return point_growth(axes, points)

    def worth(self, threads: int) -> float:
        return cores_worth(threads)

    def memory(self, kernel: str, points: int, axes: int, bins: int, threads: int | None) -> int:
        return host_bytes(kernel, points, axes, bins, threads_of(threads))

    def require(self, needed: int, what: str) -> None:
        require_memory(needed, what)
