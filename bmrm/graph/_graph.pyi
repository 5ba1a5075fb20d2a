from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from bmrm.graph.peers import Peers

_F32 = npt.NDArray[np.float32]
_F64 = npt.NDArray[np.float64]

WIDTHS: tuple[int, ...]
EXACT_COLUMNS: int
MAX_HISTORY: int

def sort_edges_by_target(
    source: npt.NDArray[np.int32],
    target: npt.NDArray[np.int32],
    weight: _F64 | None,
    rank: npt.NDArray[np.int32] | None,
    n: int,
    duplicates: str,
    drop_loops: bool,
    threads: int | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], _F64 | None]: ...
def count_nodes(ids: npt.NDArray[np.int32], n: int, threads: int | None = None) -> npt.NDArray[np.int64]: ...
def order_nodes(
    n: int,
    counts: npt.NDArray[np.int64] | None,
    groups: npt.NDArray[np.uint8] | None,
    threads: int | None = None,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
def largest(
    base: _F64, e: _F32, columns: Sequence[int], count: int, threads: int | None = None
) -> list[tuple[npt.NDArray[np.int64], _F64]]: ...
def sum_weights_by_source(sources: npt.NDArray[np.int32], weights: _F64, n: int) -> _F64: ...
def basis_products(basis: Sequence[_F64], w: _F64, threads: int | None = None) -> _F64: ...
def add_basis(
    basis: Sequence[_F64], factors: npt.ArrayLike, w: _F64, threads: int | None = None
) -> float: ...

class Edges:
    n: int
    n_sources: int
    nbytes: int
    def __new__(
        cls,
        starts: npt.ArrayLike,
        sources: npt.ArrayLike,
        weights: _F64 | None = None,
        threads: int | None = None,
        *,
        n_sources: int | None = None,
    ) -> Self: ...
    def multiply(self, z: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]: ...
    def multiply_columns(self, z: _F64, out: _F64) -> None: ...
    def count_additions(self, columns: int) -> npt.NDArray[np.int32]: ...

class Walks:
    additions: npt.NDArray[np.int32]
    additions_per_sum: int
    def __init__(
        self,
        edges: Edges,
        scale: _F64,
        columns: int,
        damping: float,
        v: _F64 | None,
        v0: float,
        u: _F64 | None,
        restarts: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None,
        additions: npt.NDArray[np.int32] | None = None,
    ) -> None: ...
    def mix(self, images: Sequence[_F32], factors: _F64 | None, x: _F32, z: _F32) -> _F64: ...
    def light_step(
        self, restart: float, constant: _F32 | None, lost: _F64, x: _F32, z: _F32, g: _F32, sent: _F32
    ) -> _F64: ...
    def exact_step(
        self,
        e: _F32,
        factor: _F64,
        base: _F64,
        residual: _F32,
        z: _F64,
        y: _F64 | None,
        peers: Peers | None = None,
    ) -> _F64: ...
    def move(self, column: int, e: _F32, base: _F64, z: _F64) -> _F64: ...
    def total(self, column: int, base: _F64) -> _F64: ...
    def residual(self, column: int, lost: _F64, base: _F64, residual: _F32, y: _F64) -> _F64: ...
    def products(self, images: Sequence[_F32], points: Sequence[_F32 | None]) -> _F64: ...
    def collect(
        self,
        base: _F64,
        e: _F32,
        places: npt.NDArray[np.int32] | None,
        columns: Sequence[int],
        out: Sequence[_F64],
    ) -> None: ...
