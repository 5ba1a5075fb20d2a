"""The choice of an inner model: how a bundle minimises the cutting-plane model with a penalty.

A squared penalty needs one QP (`l2_model`); one with kinks or bounds a proximal method (`proximal_model`).
An inner model holds the state of one run; the penalty holds none.
"""

from __future__ import annotations

from typing import Any, Protocol

from bmrm.base.vectors import Vector
from bmrm.linear.bundle.cut_model import CutModel
from bmrm.linear.bundle.l2_model import L2Model
from bmrm.linear.bundle.proximal_model import ProximalModel
from bmrm.linear.regularizers import Regularizer


class InnerModel(Protocol):
    """Minimises ``lam Omega(w) + sum_p max_{i in p} <a_i, w> + b_i``, pass after pass of one run."""

    reg: Regularizer

    @property
    def radius(self) -> float:
        """How far from the prior mean bounds cover features without a penalty; infinite if all have one."""

    def covers(self, w: Any) -> bool:
        """Whether bounds hold for a region as large as a best point calls for."""

    def cover(self, radius: float) -> None:
        """Set the radius; earlier bounds are void if it changes what they cover."""

    def reach(self, w: Any) -> None:
        """Widen the radius if it does not cover a best point, and later ones."""

    def minimise(self, cuts: CutModel, best: float, rel_tol: float, centre: Any) -> tuple[Any, float]:
        """Minimise the model; see `bmrm.linear.bundle.bundle.Bundle.minimise`.

        Parameters
        ----------
        cuts : CutModel
        best : float
            The best objective known.
        rel_tol : float
            The inner solver may end with a gap of this share of ``best`` minus the dual value.
        centre : Weights
            The best point known. If the penalty has no curvature, the minimiser is sought near it.

        Returns
        -------
        w : Weights
            The minimiser.
        bound : float
            A lower bound on the optimum of J.
        """


def inner_model(reg: Regularizer, mean_squares: Vector | None = None) -> InnerModel:
    """Return the inner model of a run.

    The mean squares of the columns of X are looked at only if the penalty has features without curvature.
    """
    if reg.terms is None:
        return L2Model(reg)
    return ProximalModel(reg, reg.terms, mean_squares)
