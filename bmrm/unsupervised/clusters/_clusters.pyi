from typing import Any, Self

import numpy as np
import numpy.typing as npt

_F64 = npt.NDArray[np.float64]
_F32 = npt.NDArray[np.float32]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]

PANEL_ROWS: int
SEEDING_PANEL_ROWS: int

def descend(sums: _F64, number: float) -> tuple[int, float]: ...
def draw_row(closest: _F32, weights: _F64 | None, number: float) -> int: ...
def cluster_sums(want_sums: bool, k: int, d: int) -> int: ...

class KeptSums:
    def __new__(cls, *, bounded: bool = False) -> Self: ...
    @property
    def bounded(self) -> bool: ...
    @property
    def additions(self) -> int: ...

class Clusters:
    @staticmethod
    def dense(
        X: npt.NDArray[Any],
        shift: _F64,
        scale: float,
        *,
        weights: _F64 | None = None,
        total: int | None = None,
        threads: int | None = None,
    ) -> Clusters: ...
    @staticmethod
    def sparse(
        indptr: _I64,
        indices: npt.NDArray[Any],
        data: npt.NDArray[Any] | None,
        shape: tuple[int, int],
        *,
        weights: _F64 | None = None,
        total: int | None = None,
        threads: int | None = None,
    ) -> Clusters: ...
    def assign(
        self,
        centers: _F64,
        labels: _I32,
        sums: _F64,
        *,
        want_sums: bool = True,
        kept: KeptSums | None = None,
    ) -> tuple[int, int]: ...
    def own_distances(self, centers: _F64, labels: _I32) -> _F64: ...
    def single_moves(self, centers: _F64, labels: _I32, cluster_weights: _F64) -> tuple[int, float]: ...
    def potentials(self, candidates: _F64, closest: _F32, least: _F32 | None = None) -> _F64: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nbytes(self) -> int: ...
