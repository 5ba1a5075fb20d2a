from typing import Any, Self

import numpy as np
import numpy.typing as npt

DEFECTS: tuple[str, ...]
INSPECTED_ROWS: int

def inspect_pairs(
    values: npt.NDArray[Any],
    n: int,
    *,
    nan_allowed: bool,
    diagonal: float,
    tolerance: float,
    threads: int | None = None,
    rows: tuple[int, int] | None = None,
) -> tuple[str, int, int, float, float, float, bool]: ...

KERNELS: tuple[str, ...]

class PlacedPoints:
    def __new__(
        cls,
        coordinates: npt.NDArray[np.float64],
        box: npt.NDArray[np.float64],
        *,
        order: npt.NDArray[np.int64] | None = None,
    ) -> Self: ...
    @property
    def n(self) -> int: ...
    @property
    def axes(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class PairCounter:
    def __new__(
        cls,
        a: PlacedPoints,
        b: PlacedPoints | None,
        bounds: npt.NDArray[np.float64],
        kernel: str,
        images: str = "nearest",
        threads: int | None = None,
    ) -> Self: ...
    @property
    def tasks(self) -> int: ...
    @property
    def candidates(self) -> float: ...
    @property
    def bytes(self) -> int: ...
    def count(
        self, first: int, last: int, threads: int | None = None
    ) -> tuple[npt.NDArray[np.int64], float, float]: ...

def near_order(points: PlacedPoints, leaf: int, threads: int | None = None) -> npt.NDArray[np.int64]: ...

SHAPES: tuple[str, ...]
DENSITY_TILE: int
DENSITY_GROUP: int

class DensitySums:
    fused: bool
    def __new__(
        cls, y: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], *, light: bool
    ) -> Self: ...
    def nearest(self, x: npt.NDArray[np.float64], threads: int | None = None) -> npt.NDArray[np.float64]: ...
    def sums(
        self,
        x: npt.NDArray[np.float64],
        shape: str,
        scale: float,
        end: float,
        offsets: npt.NDArray[np.float64] | None,
        tolerance: float,
        threads: int | None = None,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]: ...
    def light_sums(
        self,
        x: npt.NDArray[np.float64],
        scale: float,
        rate: float,
        most: float,
        tolerance: float,
        threads: int | None = None,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]: ...

METRICS: tuple[str, ...]

class NeighbourSearch:
    def __new__(
        cls,
        rows: npt.NDArray[np.float64],
        points: npt.NDArray[np.float64],
        box: npt.NDArray[np.float64],
        metric: str,
        *,
        products: bool,
        own: int,
        threads: int | None = None,
    ) -> Self: ...
    @property
    def tasks(self) -> int: ...
    def nearest(
        self,
        first: int,
        last: int,
        distances: npt.NDArray[np.float64],
        indices: npt.NDArray[np.int64],
        threads: int | None = None,
    ) -> None: ...
    def count(
        self, first: int, last: int, radius: float, counts: npt.NDArray[np.int64], threads: int | None = None
    ) -> None: ...
    def fill(
        self,
        first: int,
        last: int,
        radius: float,
        starts: npt.NDArray[np.int64],
        indices: npt.NDArray[np.int32] | npt.NDArray[np.int64],
        distances: npt.NDArray[np.float64],
        threads: int | None = None,
    ) -> None: ...
