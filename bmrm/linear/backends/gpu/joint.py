"""The passes of a solve on a GPU with a loss that takes all margins together.

Vectors and cuts are those of `GpuPasses`; the risk and its derivatives come from a sort of the margins on the
device (``src_cuda/joint/joint.cu``).  A line search asks for one slope at a time, as on the host: eight at
once would be eight sorts.
"""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError
from bmrm.linear.backends.gpu.cuts import GpuCuts, Resident
from bmrm.linear.backends.gpu.passes import SlopePasses
from bmrm.linear.objective.passes import Subgradients
from bmrm.losses import JointLoss
from bmrm.matrix.gpu.devices import import_cuda

MAX_WEIGHT_RATIO = 1e15
"""Maximum ratio of the largest weight of a row to the least. Sums over pairs are differences of sums over all
local rows, which have twice the digits of float64."""


class JointPasses(SlopePasses):
    """`bmrm.linear.objective.passes.Passes` of a joint risk on a GPU.

    - ``labels``, shape (m,)
    - ``weights``, shape (m,), or None
    """

    def __init__(self, cuts: GpuCuts, loss: JointLoss, labels: Vector, weights: Vector | None) -> None:
        super().__init__(cuts)
        parts = loss.joint_risk(labels, weights, 1).parts
        least, most = parts["weight"].min(), parts["weight"].max()
        if not most <= MAX_WEIGHT_RATIO * least:
            raise DataError(
                f"sample weights: found one {most / least:g} times the least, expected at most "
                f"{MAX_WEIGHT_RATIO:g} for loss {loss.name} on a GPU; use device='cpu'"
            )
        self.joint = import_cuda().Joint(cuts.problem, **parts)

    def slope(self, z: Resident, dz: Resident, t: float, b: float) -> tuple[float, float]:
        _, along, across, _ = self.joint.evaluate(z, dz, t, b)
        return along, across

    def risk(self, z: Resident, dz: Resident | None, t: float, b: float) -> tuple[float, Resident]:
        risk, _, _, moved = self.joint.evaluate(z, dz, t, b, move=dz is not None)
        return risk, z if moved is None else moved

    def derivatives(
        self, z: Resident, dz: Resident | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        risk, _, total, _ = self.joint.evaluate(z, dz, t, b, keep=which)
        return risk, total

    def planes(
        self, z: Resident, dz: Resident | None, t: float, starts: Indices, w: Resident, end: Resident
    ) -> Subgradients:
        risk, total = self.derivatives(z, dz, t, 0.0, 0)
        plane = self.mixed_planes(starts, w, end, t)
        return plane._replace(risk=np.array([risk]), slope=np.array([total]))
