"""The steps of a solve whose loss takes margins together, with all of it on a GPU.

The vectors and the cuts are those of `DeviceSteps`; the risk and its derivatives come from a sort of the
margins on the device (``src_cuda/joint.cu``).  A search along a line asks for one slope at a time, as on the
host: eight at once would be eight sorts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.bundle import Bundle
from bmrm.dataset import Dataset
from bmrm.device import backend
from bmrm.device_steps import DeviceCuts, DeviceSteps
from bmrm.host_steps import search_on_slopes
from bmrm.losses import JointLoss
from bmrm.objective import Design, Planes, Searched
from bmrm.regularizers import Slopes

Vector = NDArray[np.float64]
Starts = NDArray[np.int64]

if TYPE_CHECKING:
    from bmrm import _cuda

Resident: TypeAlias = "_cuda.Vector"


class JointSteps(DeviceSteps):
    """`bmrm.objective.Steps` of a joint risk on a GPU.

    Parameters
    ----------
    cuts : DeviceCuts
        Of the problem to solve.
    joint : bmrm._cuda.Joint
        The risk, on the rows of that problem.
    """

    def __init__(self, cuts: DeviceCuts, joint: _cuda.Joint) -> None:
        super().__init__(cuts, ahead=False)
        self.joint = joint

    @classmethod
    def of(
        cls,
        data: Dataset,
        design: Design,
        loss: JointLoss,
        labels: Vector,
        scale: float,
        constant: float | None,
        known: Bundle | None,
        in_rows: bool,
    ) -> JointSteps:
        """Put labels and groups beside their matrix, with the cuts of a bundle that is there already."""
        number, parameter = backend().OWN_LOSS, 0.0
        cuts = cls.cuts_of(data, design, number, parameter, labels, scale, constant, known, in_rows)
        parts = loss.joint_risk(labels, data.weights, 1).parts
        return cls(cuts, backend().Joint(cuts.problem, **parts))

    def search(
        self,
        z: Resident,
        end: Resident,
        w: Resident,
        w_end: Resident,
        penalty: Slopes,
        first: float,
        accuracy: float,
        content: float,
    ) -> tuple[Resident, Searched]:
        """Minimise J along a line; return the direction too."""
        return search_on_slopes(self, z, end, penalty, first, accuracy, content)

    def slope(self, z: Resident, dz: Resident, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of ``R(z + t dz + b)`` in t and b."""
        _, along, across, _ = self.joint.evaluate(z, dz, t, b)
        return along, across

    def risk(self, z: Resident, dz: Resident | None, t: float, b: float) -> tuple[float, Resident]:
        """Risk at ``z + t dz + b``, and the margins ``z + t dz``."""
        risk, _, _, moved = self.joint.evaluate(z, dz, t, b, move=dz is not None)
        return risk, z if moved is None else moved

    def derivatives(
        self, z: Resident, dz: Resident | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        """Keep the derivatives of all rows; return risk and their sum."""
        risk, _, total, _ = self.joint.evaluate(z, dz, t, b, keep=which)
        return risk, total

    def planes(
        self, z: Resident, dz: Resident | None, t: float, starts: Starts, w: Resident, end: Resident
    ) -> Planes:
        """Return the cutting plane at ``z + t dz``, the margins of ``w + t (end - w)``."""
        risk, total = self.derivatives(z, dz, t, 0.0, 0)
        plane = self.mixed_planes(starts, w, end, t)
        return plane._replace(risk=np.array([risk]), slope=np.array([total]))
