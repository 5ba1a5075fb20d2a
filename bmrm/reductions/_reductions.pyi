from typing import Any

import numpy as np
import numpy.typing as npt

_F64 = npt.NDArray[np.float64]
_F32 = npt.NDArray[np.float32]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]

PANEL_ROWS: int

def dense_values(matrix: object) -> npt.NDArray[Any] | None: ...

class Clusters:
    @staticmethod
    def dense(
        X: npt.NDArray[Any],
        shift: _F64,
        scale: float,
        *,
        weights: _F64 | None = None,
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
        threads: int | None = None,
    ) -> Clusters: ...
    def assign(
        self, centers: _F64, labels: _I32, *, want_sums: bool = True
    ) -> tuple[_F64, _F64, float, int, int]: ...
    def own_distances(self, centers: _F64, labels: _I32) -> _F64: ...
    def single_moves(self, centers: _F64, labels: _I32, cluster_weights: _F64) -> tuple[int, float]: ...
    def potentials(self, candidates: _I64, closest: _F32, *, take: bool = False) -> _F64: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nbytes(self) -> int: ...

def mixture_step(
    X: npt.NDArray[Any],
    weights: _F64 | None,
    means: _F64,
    roots: _F64,
    constants: _F64,
    *,
    threads: int | None = None,
) -> tuple[float, _F64, _F64, _F64]: ...
def mixture_shares(
    X: npt.NDArray[Any], means: _F64, roots: _F64, constants: _F64, *, threads: int | None = None
) -> tuple[_F64, _F64]: ...
