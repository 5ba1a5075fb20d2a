"""Newton's point: where a quadratic model of J at the best point has its minimum.

The cutting-plane model knows nothing of curvature, so it needs dozens of cuts to follow a smooth risk.  Where
X is narrow its Hessian is at hand,

    H = lam Omega'' + X' S X,        S = diag(s_i loss''(u_i, y_i)) / sum_i s_i,

and one step from w to w - H^{-1} J'(w), with the line searched, replaces many passes: convergence is
quadratic for a smooth loss, and for one whose second derivative jumps (the squared hinge) it still ends in a
few steps (Mangasarian, Optim. Methods Softw. 17 (2002) 913; Keerthi, DeCoste, JMLR 6 (2005) 341).  The point
is only a place to look at: objective, cuts and bound do not rest on it.

With an intercept b that is minimised out, the Hessian of min_b J(w, b) is the Schur complement of b in that
of J(w, b).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmrm import _qp
from bmrm.host_steps import HostSteps
from bmrm.losses import Loss
from bmrm.objective import Design, Iterate, Objective

Vector = NDArray[np.float64]

WORK = 24.0
"""Multiply-adds for a Newton step, by stored value, up to which it costs less than the passes that it spares:
a pass takes two, and some fifty are spared."""


def newton_pays(design: Design, loss: Loss) -> bool:
    """Whether the loss is smooth and X so narrow that the Hessian costs no more than a few passes."""
    d = design.shape[1]
    return loss.smooth and design.weighted_gram_work + d**3 / 6 <= WORK * design.nnz


def newton_point(objective: Objective, at: Iterate, gradient: Vector) -> Vector | None:
    """Return the minimiser of the quadratic model of J at a point.

    Parameters
    ----------
    objective : Objective
    at : Iterate
    gradient : ndarray of shape (n_features,)
        Gradient of the risk there.

    Returns
    -------
    ndarray of shape (n_features,), or None
        None where rounding or overflow leave no positive definite Hessian.
    """
    design, reg, steps = objective.design, objective.reg, objective.steps
    assert isinstance(steps, HostSteps)
    m, d = design.shape
    s, hessian = np.empty(m), np.empty((d, d))
    total = steps.rows.curvature(at.margins, at.intercept, s)
    design.weighted_gram(s, hessian)
    if objective.profile and total > 0.0:
        mixed = np.empty((1, d))
        design.rmatvec_blocks(s, np.array([0, m], np.int64), mixed)
        hessian -= mixed.T * (mixed / total)
    hessian[np.diag_indices(d)] += reg.curvature(at.w)
    step = gradient + reg.gradient(at.w)
    if not _qp.cholesky_solve(hessian, step) or not np.isfinite(step).all():
        return None
    w: Vector = at.w - step
    return w
