"""The l2 penalty if each rank has the weights of some columns."""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.distributed.group import Group
from bmrm.linear.regularizers import L2, Regularizer


class OwnedPenalty(L2):
    """The penalty over the columns of all ranks; vectors, strengths and prior mean are this rank's parts.

    Parameters
    ----------
    group : Group
    lam : float
    strengths, prior, params
        See `bmrm.linear.regularizers.L2`.
    """

    def __init__(
        self,
        group: Group,
        lam: float,
        strengths: Vector | None,
        prior: Vector | None,
        params: dict[str, float | bool],
    ) -> None:
        super().__init__(lam, strengths, prior, params)
        self.group = group

    @classmethod
    def part_of(cls, reg: Regularizer, group: Group, bounds: Indices) -> OwnedPenalty:
        """Return this rank's part of an l2 penalty with a strength in every column."""
        assert isinstance(reg, L2)
        here = slice(bounds[group.rank], bounds[group.rank + 1])
        strengths, prior = (None if v is None else v[here].copy() for v in (reg.strengths, reg.prior))
        return cls(group, reg.lam, strengths, prior, reg.params)

    def total(self, sums: Vector) -> Vector:
        return self.group.total(sums)

    def value(self, w: Vector) -> float:
        return float(self.group.total(np.array([self.value_here(w)]))[0])

    def value_here(self, w: Vector) -> float:
        """Return what the columns here add to the value."""
        return super().value(w)
