from typing import Any

import numpy as np
from numpy.typing import NDArray

_F64 = NDArray[np.float64]
_I64 = NDArray[np.int64]

class JointRisk:
    def __init__(
        self,
        kind: str,
        rows: _I64,
        starts: _I64,
        level: _I64,
        weight: _F64,
        value: _F64,
        anchor: _F64,
        share: _F64,
        *,
        k: int = 1,
        beta: float = 1.0,
        threads: int = 1,
    ) -> None: ...
    @property
    def parts(self) -> dict[str, Any]: ...
    @property
    def constants(self) -> _F64: ...
    def with_share(self, share: _F64) -> JointRisk: ...
    def evaluate(self, z: _F64, dz: _F64, t: float, b: float, r: _F64) -> _F64: ...
    def thresholds(self, z: _F64) -> _F64: ...
