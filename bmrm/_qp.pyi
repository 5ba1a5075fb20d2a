import numpy as np
from numpy.typing import NDArray

def cholesky_solve(M: NDArray[np.float64], x: NDArray[np.float64]) -> bool: ...
def solve(
    gram: NDArray[np.float64],
    offset: NDArray[np.float64],
    group: NDArray[np.int32],
    groups: int,
    lam: float,
    alpha: NDArray[np.float64],
    gradient: NDArray[np.float64],
    *,
    best: float,
    rel_tol: float,
    abs_tol: float,
    max_changes: int,
) -> tuple[float, float, int]: ...
