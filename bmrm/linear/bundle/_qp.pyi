from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

def cholesky_solve(M: NDArray[np.float64], x: NDArray[np.float64]) -> bool: ...
def penalised_quadratic(
    H: NDArray[np.float64],
    slope: NDArray[np.float64],
    l1: NDArray[np.float64],
    prior: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    w: NDArray[np.float64],
) -> int: ...

class ActiveSet: ...

def solve(
    gram: NDArray[np.float64],
    offset: NDArray[np.float64],
    group: NDArray[np.int32],
    serial: NDArray[np.int64],
    groups: int,
    lam: float,
    alpha: NDArray[np.float64],
    gradient: NDArray[np.float64],
    active_set: ActiveSet,
    *,
    best: float,
    rel_tol: float,
    abs_tol: float,
    max_changes: int,
    origin: NDArray[np.float64] | None = None,
    dependent: float = 1e-10,
) -> tuple[float, float, int]: ...

class Table:
    def __new__(
        cls,
        gram: NDArray[np.float64],
        offset: NDArray[np.float64],
        alpha: NDArray[np.float64],
        group: NDArray[np.int32],
        idle: NDArray[np.int32],
        serial: NDArray[np.int64],
        blur: NDArray[np.float64],
    ) -> Self: ...
    def append(self, products: NDArray[np.float64], offsets: NDArray[np.float64], serial: int) -> bool: ...
    def maximise(
        self,
        n: int,
        groups: int,
        lam: float,
        active_set: ActiveSet,
        *,
        best: float,
        rel_tol: float,
        abs_tol: float,
        max_changes: int,
        offsets: NDArray[np.float64] | None = None,
        origin: NDArray[np.float64] | None = None,
    ) -> tuple[float, float]: ...
    def offset_of_mean(self, n: int) -> float: ...
    def blur_of_mean(self, alpha: NDArray[np.float64]) -> tuple[float, float, float, float]: ...
    def missed(self, alpha: NDArray[np.float64], groups: int, left_out: int = -1) -> float: ...
    def age(self, n: int) -> None: ...
    def count_idle(self, n: int, patience: int) -> int: ...
    def steep(self, n: int, since: int, most: float) -> list[int]: ...

def gram(
    A_old: ArrayLike, A_new: ArrayLike, out: NDArray[np.float64] | None = None, *, threads: int | None = None
) -> NDArray[np.float64]: ...
def combine(
    A: ArrayLike, coef: ArrayLike, out: NDArray[np.float64] | None = None, *, threads: int | None = None
) -> NDArray[np.float64]: ...
def along(
    x: ArrayLike,
    y: ArrayLike,
    t: float,
    out: NDArray[np.float64] | None = None,
    *,
    threads: int | None = None,
) -> NDArray[np.float64]: ...
