from typing import Any

import numpy as np
from numpy.typing import NDArray

class JointRisk:
    def __init__(
        self,
        kind: str,
        rows: NDArray[np.int64],
        starts: NDArray[np.int64],
        level: NDArray[np.int64],
        weight: NDArray[np.float64],
        value: NDArray[np.float64],
        anchor: NDArray[np.float64],
        share: NDArray[np.float64],
        *,
        k: int = 1,
        beta: float = 1.0,
        threads: int = 1,
    ) -> None: ...
    @property
    def parts(self) -> dict[str, Any]: ...
    def evaluate(
        self,
        z: NDArray[np.float64],
        dz: NDArray[np.float64],
        t: float,
        b: float,
        r: NDArray[np.float64],
    ) -> NDArray[np.float64]: ...
    def thresholds(self, z: NDArray[np.float64]) -> NDArray[np.float64]: ...
