"""Cuts whose columns are spread over the ranks."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot, dot_rows
from bmrm.distributed.group import Group
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.bundle._qp import combine
from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.objective.passes import Subgradients
from bmrm.linear.regularizers import Regularizer


class SplitCuts(HostCuts):
    """Cuts of which each rank has some columns, and of their metric too."""

    whole = False

    def __init__(self, group: Group, bounds: Indices, threads: int, metric: Vector | None = None) -> None:
        self.group, self.bounds = group, bounds
        self.columns = int(bounds[group.rank]), int(bounds[group.rank + 1])
        super().__init__(self.columns[1] - self.columns[0], threads, metric)

    @property
    def most(self) -> int:
        """Number of cuts that fit on the rank with the most columns."""
        return CUT_BYTES // (8 * int(np.diff(self.bounds).max()))

    def append(self, planes: Subgradients) -> Vector:
        return self.group.total(super().append(planes))

    def append_level(self, count: int) -> None:
        """Append nothing: such a plane leaves tiny masses to the others, and no metric can help here."""

    def minimise(self, reg: Regularizer, alpha: Vector, near: Vector) -> tuple[Vector, float]:
        """Minimise ``lam Omega(w) + <sum_k alpha_k a_k, w>`` over all columns; return w and the minimum."""
        piece = np.empty(self.width)
        combine(self._rows[: len(alpha)], alpha, piece, threads=self.threads)
        a = self.group.gathered(piece, self.bounds)
        w = reg.minimiser(a)
        return w, reg.value(w) + dot(w, a)

    def products(self, w: Vector) -> tuple[Vector, Vector, None]:
        """Return the point, the products of cuts with it over all columns, and None."""
        return w, self.group.total(dot_rows(self._rows[: self.size], self._here(w))), None

    def _here(self, w: Vector) -> Vector:
        """Return the weights of the columns here."""
        return w[slice(*self.columns)]

    def only(self, kept: NDArray[np.intp]) -> Self:
        cuts = type(self)(self.group, self.bounds, self.threads, self.metric)
        cuts._rows, cuts.size = self._rows[kept], len(kept)
        return cuts

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        """Copy some cuts: all their columns on rank 0, and none on the other ranks."""
        n, widths, group = len(numbers), np.diff(self.bounds), self.group
        counts = (n * widths).tolist()
        received = np.empty(sum(counts) if group.rank == 0 else 0)
        group.comm.Gatherv(self._rows[numbers], (received, counts))
        if group.rank != 0:
            return np.empty((n, 0))
        return np.hstack([part.reshape(n, -1) for part in np.split(received, np.cumsum(counts)[:-1])])
