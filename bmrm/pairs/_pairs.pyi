from typing import Any

import numpy.typing as npt

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
