from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_F64 = npt.NDArray[np.float64]

MAX_COLUMNS: int
MAX_HISTORY: int

def sort_edges_by_target(
    source: npt.NDArray[np.int32],
    target: npt.NDArray[np.int32],
    weight: _F64 | None,
    rank: npt.NDArray[np.int32] | None,
    n: int,
    duplicates: str,
    drop_loops: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], _F64 | None]: ...
def count_nodes(ids: npt.NDArray[np.int32], n: int) -> npt.NDArray[np.int64]: ...
def sum_weights_by_source(sources: npt.NDArray[np.int32], weights: _F64, n: int) -> _F64: ...
def count_additions(n: int, columns: int) -> int: ...

class Passes:
    def __init__(self, scale: _F64, columns: int, threads: int | None = None) -> None: ...
    def messages(self, vectors: Sequence[_F64], factors: _F64 | None, x: _F64, z: _F64) -> _F64: ...
    def update(
        self,
        damping: float,
        c: _F64,
        v: _F64 | None,
        v0: float,
        mass: _F64,
        u: _F64 | None,
        b: _F64 | None,
        restarts: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], _F64] | None,
        x: _F64,
        g: _F64,
        f: _F64 | None,
        z: _F64,
    ) -> _F64: ...
    def products(self, vectors: Sequence[_F64]) -> _F64: ...
    def weighted_sums(self, weights: _F64, t: _F64) -> _F64: ...
