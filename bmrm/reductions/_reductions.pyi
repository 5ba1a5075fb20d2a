from typing import Any, Self

import numpy as np
import numpy.typing as npt

_F64 = npt.NDArray[np.float64]
_F32 = npt.NDArray[np.float32]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]

PANEL_ROWS: int
SEEDING_PANEL_ROWS: int

def part_rows(total: int, numbers: int = 1) -> int: ...
def add_in_order(values: _F64, each: int) -> _F64: ...
def descend(sums: _F64, number: float) -> tuple[int, float]: ...
def draw_row(closest: _F32, weights: _F64 | None, number: float) -> int: ...
def cluster_sums(want_sums: bool, k: int, d: int) -> int: ...
def mixture_sums(k: int, d: int, full: bool) -> int: ...
def dense_values(matrix: object) -> npt.NDArray[Any] | None: ...

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

def mixture_step(
    X: npt.NDArray[Any],
    weights: _F64 | None,
    means: _F64,
    roots: _F64,
    constants: _F64,
    sums: _F64,
    *,
    total: int | None = None,
    threads: int | None = None,
) -> None: ...
def mixture_shares(
    X: npt.NDArray[Any], means: _F64, roots: _F64, constants: _F64, *, threads: int | None = None
) -> tuple[_F64, _F64]: ...

DEFECTS: tuple[str, ...]

def inspect_pairs(
    values: npt.NDArray[Any],
    n: int,
    *,
    nan_allowed: bool,
    diagonal: float,
    tolerance: float,
    threads: int | None = None,
) -> tuple[str, int, int, float, float, float, bool]: ...

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
    def descent(self, X: _F64) -> tuple[_F64, float, float, int]: ...
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
