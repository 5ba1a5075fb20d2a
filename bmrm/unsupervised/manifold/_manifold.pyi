from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_F64 = npt.NDArray[np.float64]
_I64 = npt.NDArray[np.int64]

MIN_PART_PAIRS: int
"""Minimum number of pairs of points of a part of a pass on the CPU."""
FLOAT_RUN: int
"""Terms that are added in float32 at most."""
MAX_AXES: int
"""Maximum number of coordinates of a point on a GPU."""
MAX_PRODUCTS: int
"""Maximum number of inner products at once on a GPU."""
SQUARED_COLUMNS: int
"""Columns that are multiplied by squared dissimilarities at once on a GPU."""
MAX_STRIPS: int
"""Tiles of a column of pairs at most on a GPU, up to 163,840 points."""
TILE_COLUMNS: int
"""Columns of a tile in two or three dimensions."""

class Pairs:
    @staticmethod
    def given(
        delta: npt.NDArray[Any],
        n: int,
        *,
        weights: npt.NDArray[Any] | None = None,
        missing: bool = False,
        threads: int | None = None,
    ) -> Pairs: ...
    @staticmethod
    def of_features(
        X: npt.NDArray[Any], *, weights: npt.NDArray[Any] | None = None, threads: int | None = None
    ) -> Pairs: ...
    def share(
        self, rank: int, ranks: int, in_turn: Callable[[int, Callable[[_F64 | None], _F64]], _F64]
    ) -> None: ...
    def descent(self, X: _F64, *, single: bool = False) -> tuple[_F64, float, float, int]: ...
    def laplacian(self, Y: _F64) -> _F64: ...
    def squared(self, Y: _F64, unknown: float = 0.0) -> _F64: ...
    def curvature(self, X: _F64, Y: _F64) -> _F64: ...
    def pulls(self, X: _F64) -> _F64: ...
    def summary(self) -> tuple[_F64, float, float, int]: ...
    def distances(self, X: _F64, out: _F64 | None = None) -> _F64: ...
    def place(self, X: _F64, delta: _F64, start: _F64, max_iter: int) -> tuple[_F64, _F64]: ...
    @property
    def nbytes(self) -> int: ...

def fit_disparities(
    order: npt.NDArray[Any],
    tie_begins: _I64,
    tie_ends: _I64,
    distances: _F64,
    weights: _F64 | None,
    total: float,
    out: _F64,
    *,
    threads: int | None = None,
) -> None: ...
