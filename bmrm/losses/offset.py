"""Risks with offsets: known numbers that are added to the margins.

An offset belongs to the loss of its row, as its label does: ``l_i(u) = loss(u + o_i, y_i)``. So margins stay
linear in the weights, and the method does not know of offsets. The conjugate is ``f_i(r) - o_i r``, and a
kink at a margin of ``p`` lies at ``p - o_i``.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from bmrm.base.offsets import offsets_of_margins
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import ParameterError
from bmrm.losses.base import Conjugates, DualRisk, KinkedRisk, Loss, RowRisk, SoftRisk
from bmrm.losses.joint import CompiledRisk, LineRisk


def margin_offsets(offset: Vector | None, loss: Loss, n_outputs: int) -> Vector | None:
    """Return the offset of each margin, row after row; raise if there are other margins than offsets.

    - ``offset``, shape (m,), or (m, K)
    - ``n_outputs``: K
    """
    if offset is None:
        return None
    columns = n_outputs if loss.several else None
    return offsets_of_margins(offset, columns, alike=loss.task == "multilabel").ravel()


def with_offset(risk: RowRisk, offset: Vector | None) -> RowRisk:
    """Return a risk at margins to which offsets, shape (margins,), are added; itself without offsets."""
    if offset is None:
        return risk
    return joint_with_offset(risk, offset) if isinstance(risk, LineRisk) else OffsetRisk(risk, offset)


def joint_with_offset(risk: LineRisk, offset: Vector) -> LineRisk:
    """Return a joint risk with offsets, shape (m,)."""
    return LineRisk(OffsetJointRisk(risk.compiled, offset), risk.size)


class _Shift:
    """Adds offsets to margins; the last sum is kept, since the solver repeats its arrays."""

    def __init__(self, offset: Vector) -> None:
        self._offset = offset
        self._last: tuple[Vector | None, Vector] = None, offset

    def __call__(self, z: Vector) -> Vector:
        if z is not self._last[0]:
            self._last = z, z + self._offset
        return self._last[1]


class OffsetRisk:
    """A sum over rows with offsets; it is a `DualRisk` or a `KinkedRisk` if that without offsets is one."""

    def __init__(self, risk: RowRisk, offset: Vector) -> None:
        self._risk, self._offset, self._shift = risk, offset, _Shift(offset)

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        return self._risk.slope(self._shift(z), dz, t, b)

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        return self._risk.cut(self._shift(z), dz, t, b, starts, r)

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        return self._risk.curvature(self._shift(z), b, r)

    def pieces(self) -> tuple[Vector, Vector, Vector]:
        slope, places, weights = cast("KinkedRisk", self._risk).pieces()
        return slope, places - self._offset, weights

    def rounded(self, width: float) -> OffsetRisk:
        return OffsetRisk(cast("KinkedRisk", self._risk).rounded(width), self._offset)

    def conjugates(self) -> Conjugates:
        found = cast("DualRisk", self._risk).conjugates()
        if isinstance(found, tuple):
            raise ParameterError("ascent in the dual: takes no offsets of several classes")
        found[:, 0] -= self._offset  # the place: the linear term of the conjugate
        return found


class OffsetSoftRisk:
    """A softened risk of K margins per row with offsets."""

    def __init__(self, risk: SoftRisk, offset: Vector) -> None:
        self._risk, self._shift = risk, _Shift(offset)

    def evaluate(
        self,
        z: Vector,
        dz: Vector,
        t: float,
        b: Vector,
        width: float,
        move: Vector | None = None,
        r: Vector | None = None,
        hessian: bool = False,
    ) -> Vector:
        return self._risk.evaluate(self._shift(z), dz, t, b, width, move, r, hessian)

    def class_weights(self) -> Vector:
        return self._risk.class_weights()


class OffsetJointRisk:
    """A compiled joint risk with offsets."""

    def __init__(self, risk: CompiledRisk, offset: Vector) -> None:
        self._risk, self._offset, self._shift = risk, offset, _Shift(offset)
        self._derivatives = np.empty(0)

    @property
    def parts(self) -> dict[str, Any]:
        return self._risk.parts

    def evaluate(self, z: Vector, dz: Vector, t: float, b: float, r: Vector) -> Vector:
        self._derivatives = r
        return self._risk.evaluate(self._shift(z), dz, t, b, r)

    @property
    def constants(self) -> Vector:
        """Values at margins of 0 of the last planes, of one group each; asked before derivatives change."""
        rows, starts = self.parts["rows"], self.parts["starts"]
        moved = self._derivatives[rows] * self._offset[rows]
        return np.asarray(self._risk.constants + np.add.reduceat(moved, starts[:-1]))
