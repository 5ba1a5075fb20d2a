from typing import Any

import numpy as np
import numpy.typing as npt

_F64 = npt.NDArray[np.float64]

def mixture_sums(k: int, d: int, full: bool) -> int: ...
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
