"""The minimum of a penalty and a quadratic model of the risk, as Newton's steps with a Hessian need it."""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector
from bmrm.linear.bundle import _qp
from bmrm.linear.regularizers import Regularizer


def quadratic_minimiser(reg: Regularizer, hessian: Vector, gradient: Vector, w: Vector) -> Vector | None:
    """Return the v that minimises ``lam Omega(v) + <gradient, v - w> + (v - w)' hessian (v - w) / 2``.

    For a squared norm it is ``w - (hessian + P'')^{-1} (gradient + P'(w))``, P the penalty.  With kinks and
    bounds it is found by coordinate descent, and by steps for the active set that this finds.  None if
    rounding leaves no minimum.  The Hessian is overwritten.
    """
    hessian[np.diag_indices(len(w))] += reg.curvature
    slope, terms = gradient + reg.smooth_gradient(w), reg.terms
    if terms is None:
        return w - slope if _qp.cholesky_solve(hessian, slope) else None
    found = terms.project(w)
    _qp.penalised_quadratic(hessian, slope, terms.l1, terms.prior, terms.low, terms.high, found)
    return found
