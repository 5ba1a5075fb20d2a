import numpy as np
import numpy.typing as npt

from bmrm.matrix._cpu import Matrix

_F64 = npt.NDArray[np.float64]

class Ascent:
    def __init__(
        self,
        X: Matrix,
        conjugates: _F64 | tuple[npt.NDArray[np.int32], _F64 | None, _F64],
        columns: int,
        lam: float,
        constant: float = 0.0,
        penalty: float | None = None,
        *,
        held: bool = False,
    ) -> None: ...
    def step(self, w: _F64, wanted: float = 0.0) -> None: ...
    def balance(self, sums: _F64) -> None: ...
    def set(self, r: _F64) -> None: ...
    def get(self, r: _F64) -> None: ...
    @property
    def conjugate(self) -> float: ...
    @property
    def enough(self) -> bool: ...
