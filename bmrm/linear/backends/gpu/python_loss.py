"""The passes of a solve on a GPU with a loss in Python that takes arrays on the device.

Margins are made on the device and lent to the function, whose values and derivatives are summed on the
device: the host sees a few numbers per call. A search asks for slopes one point at a time, as on the host.
Everything else is as for compiled losses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base.foreign_arrays import RowNumbersOnDevice, borrow_rows, make_importer
from bmrm.base.vectors import Indices, Vector
from bmrm.linear.backends.gpu.cuts import GpuCuts, Resident
from bmrm.linear.backends.gpu.passes import SlopePasses
from bmrm.linear.objective.passes import Subgradients
from bmrm.losses import CallableLoss
from bmrm.matrix.gpu.devices import import_cuda

if TYPE_CHECKING:
    from bmrm.matrix import _cuda


class PythonLossPasses(SlopePasses):
    """`bmrm.linear.objective.passes.Passes` on a GPU, with a user's function as the loss.

    The function of the loss takes arrays on a device.
    """

    def __init__(self, cuts: GpuCuts, loss: CallableLoss) -> None:
        super().__init__(cuts)
        self.loss = loss
        self.own: _cuda.OwnLoss = import_cuda().OwnLoss(self.problem)
        self._import = make_importer(loss.arrays)
        self._labels: Any = self._import(self.own.labels())
        self._everything = np.array([0, self.problem.matrix.shape[0]], np.int64)

    def slope(self, z: Resident, dz: Resident, t: float, b: float) -> tuple[float, float]:
        _, derivatives, _ = self._call(z, dz, t, b, keep=False)
        return self.own.slope(derivatives, dz)

    def risk(self, z: Resident, dz: Resident | None, t: float, b: float) -> tuple[float, Resident]:
        values, _, moved = self._call(z, dz, t, b, keep=dz is not None)
        found = self._sums(values, None, 0, self._everything)
        return float(found[0, 0]), z if moved is None else moved

    def derivatives(
        self, z: Resident, dz: Resident | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        values, derivatives, _ = self._call(z, dz, t, b, keep=False)
        risk, total, _ = self._sums(values, derivatives, which, self._everything)[0]
        return float(risk), float(total)

    def planes(
        self, z: Resident, dz: Resident | None, t: float, starts: Indices, w: Resident, end: Resident
    ) -> Subgradients:
        values, derivatives, _ = self._call(z, dz, t, 0.0, keep=False)
        self._sums(values, derivatives, 0, starts)
        return self.mixed_planes(starts, w, end, t)

    def _call(
        self, z: Resident, dz: Resident | None, t: float, b: float, *, keep: bool
    ) -> tuple[RowNumbersOnDevice, RowNumbersOnDevice, Resident | None]:
        """Evaluate at ``z + t dz + b``; return values, derivatives, and ``z + t dz`` if ``keep`` is set."""
        lent, moved = self.own.margins(z, dz, t, b, keep)
        values, derivatives = self.loss.function(self._import(lent), self._labels)
        return self._taken(values, "values"), self._taken(derivatives, "derivatives"), moved

    def _taken(self, array: Any, what: str) -> RowNumbersOnDevice:
        matrix = self.problem.matrix
        name = f"loss {self.loss.name}: {what}"
        return borrow_rows(array, name, matrix.shape[0], matrix.device, self.own.stream, self.own.borrow)

    def _sums(
        self, values: RowNumbersOnDevice, derivatives: RowNumbersOnDevice | None, which: int, starts: Indices
    ) -> Vector:
        """Return risk, sum of derivatives, and number of values below the minimum, for each block of rows."""
        found = self.own.risk(values, derivatives, which, starts, self.loss.minimum)
        if found[:, 2].any():
            self.loss.check_minimum(self.own.get(values))
        return found
