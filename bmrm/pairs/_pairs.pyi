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
