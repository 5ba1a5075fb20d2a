"""One bundle for all folds: cuts of each fold's part of the risk, and a dual solution for each fold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.cut_model import rounding_gap
from bmrm.linear.bundle.inner_model import InnerModel
from bmrm.linear.bundle.inner_qp import maximise
from bmrm.linear.objective.passes import CutBatch, Iterate
from bmrm.linear.objective.running_error import MeanBlur


class FoldBundle(Bundle):
    """Cuts of each fold's part of the risk, with a dual solution for each fold that may be held out.

    Parameters
    ----------
    n_features, folds : int
    max_cuts : int, optional
    threads : int, default 1
    """

    def __init__(self, n_features: int, folds: int, max_cuts: int | None = None, threads: int = 1) -> None:
        self._held_out = folds
        super().__init__(HostCuts(n_features, threads), folds, max_cuts, threads=threads)
        self._active_sets = [_qp.ActiveSet() for _ in range(folds + 1)]
        self.hold_out(folds, 1.0)

    def hold_out(self, fold: int, scale: float) -> None:
        """Select the risk of all rows except one fold's; ``scale`` is c_f."""
        self._held_out, self._scale = fold, scale
        self._alpha = self._alphas[fold]
        self._tabulate()
        # The number of each block in the problem: -1 for the one held out, one less after it.
        self._number_of = np.arange(self.groups, dtype=np.int32)
        self._number_of[fold:] -= 1
        self._number_of[fold : fold + 1] = -1

    def add(self, cut: CutBatch) -> bool:
        """Add one cut for each fold."""
        first = self.size == 0
        if not super().add(cut):
            return False
        if first:
            # Row f has mass in every block but f; the last row, with nothing held out, in every block.
            self._alphas[:, : self.groups] = 1.0 - np.eye(self.groups + 1, self.groups)
        else:
            self._alphas[:, self.size - self.groups : self.size] = 0.0
        return True

    def minimise(self, model: InnerModel, best: Iterate, rel_tol: float) -> tuple[Vector, float]:
        """Minimise the model of the objective without the fold held out; see `Bundle.minimise`."""
        n, scale, reg = self.size, self._scale, model.reg
        # lam Omega + c_f sum_g Q_g is c_f times (lam / c_f) Omega + sum_g Q_g.
        maximise(
            self._gram,
            self.offsets,
            self._number_of[self.blocks],
            self._blocks,
            reg.lam / scale,
            self._alpha[:n],
            best.objective / scale,
            rel_tol,
            rounding_gap(best.objective),
            self.serials,
            self._active_sets[self._held_out],
        )
        self._idle[:n] = np.where(self._mass() > 0.0, 0, self._idle[:n] + 1)
        w, least = self.store.minimise(reg, scale * self.alpha, best.w)
        least += scale * self._table.offset_of_mean(n)
        return w, self.certified(least, self.alpha, 0.0 if self.errors is None else self.errors.size(w))

    def blur(self, alpha: Vector) -> MeanBlur:
        """Return what rounding may have done to the mean plane of the problem."""
        return MeanBlur(*(self._scale * part for part in super().blur(alpha)))

    def mass(self, alpha: Vector) -> float:
        """Return the largest deviation from 1 of the masses of a block that takes part."""
        return self._table.missed(alpha, self.groups, self._held_out)

    def active(self) -> Bundle:
        """Return a bundle with the cuts that hold mass in the last QP, those of blocks that take part."""
        kept = np.flatnonzero(self.alpha)
        blocks, scale = self._blocks, self._scale
        other = Bundle(HostCuts(self.n_features, self.threads), blocks, threads=self.threads)
        other.store = HostCuts.of(scale * self.gradients[kept], self.threads)
        other._gram = scale**2 * self._gram[np.ix_(kept, kept)]
        other._offset, other._alpha = scale * self._offset[kept], self._alpha[kept]
        other._group, other._idle = self._number_of[self._group[kept]], self._idle[kept]
        other._serial = other._number(len(kept))
        other._know(scale * self._blurs[:, kept])
        other.size = len(kept)
        other._tabulate()
        return other

    @property
    def _blocks(self) -> int:
        """Number of blocks that take part."""
        return self.groups - (self._held_out < self.groups)

    def _mass(self) -> Vector:
        """Mass of each cut over all dual solutions: one that any fold uses is not idle."""
        return np.asarray(self._alphas[:, : self.size].sum(axis=0))

    def _allocate(self, capacity: int) -> None:
        super()._allocate(capacity)
        self._alphas = np.zeros((self.groups + 1, capacity))
        self._alpha = self._alphas[self._held_out]
        self._tabulate()

    def _grow(self, capacity: int) -> None:
        alphas = self._alphas[:, : self.size]
        super()._grow(capacity)
        self._alphas[:, : self.size] = alphas

    def _keep(self, kept: NDArray[np.intp]) -> None:
        alphas = self._alphas[:, kept]
        super()._keep(kept)
        self._alphas[:, : len(kept)] = alphas

    def _move_mass(self, source: int, to: int) -> None:
        self._alphas[:, to] += self._alphas[:, source]
