import numpy as np
from numpy.typing import NDArray

def names() -> tuple[str, ...]: ...
def smooth(loss: int) -> bool: ...

class Risk:
    def __init__(
        self,
        loss: int,
        parameter: float,
        y: NDArray[np.float64],
        s: NDArray[np.float64] | None,
        scale: float,
        threads: int,
    ) -> None: ...
    def slope(
        self, z: NDArray[np.float64], dz: NDArray[np.float64], t: float, b: float
    ) -> tuple[float, float]: ...
    def cut(
        self,
        z: NDArray[np.float64],
        dz: NDArray[np.float64],
        t: float,
        b: float,
        starts: NDArray[np.int64],
        r: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def curvature(self, z: NDArray[np.float64], b: float, r: NDArray[np.float64]) -> float: ...

CLASS_LOSSES: tuple[str, ...]

class ClassRisk:
    def __init__(
        self,
        loss: str,
        y: NDArray[np.float64],
        K: int,
        costs: NDArray[np.float64] | None,
        s: NDArray[np.float64] | None,
        scale: float,
        threads: int,
    ) -> None: ...
    def slope(
        self, z: NDArray[np.float64], dz: NDArray[np.float64], t: float, b: float
    ) -> tuple[float, float]: ...
    def cut(
        self,
        z: NDArray[np.float64],
        dz: NDArray[np.float64],
        t: float,
        b: float,
        starts: NDArray[np.int64],
        r: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def curvature(self, z: NDArray[np.float64], b: float, r: NDArray[np.float64]) -> float: ...
