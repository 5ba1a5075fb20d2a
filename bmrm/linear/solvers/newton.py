"""Newton's point: where a quadratic model of J at the best point has its minimum.

The cutting-plane model knows nothing of curvature, so it needs dozens of cuts to follow a smooth risk.  If X
is narrow its Hessian can be formed,

    H = lam Omega'' + X' S X,        S = diag(s_i loss''(u_i, y_i)) / sum_i s_i,

and one step from w to w - H^{-1} J'(w), with the line searched, replaces many passes: convergence is
quadratic for a smooth loss, and for one whose second derivative jumps (the squared hinge) it still ends in a
few steps (Mangasarian, Optim. Methods Softw. 17 (2002) 913; Keerthi, DeCoste, JMLR 6 (2005) 341).  The point
is only a place to look at: objective, cuts and bound do not rest on it.

For a loss with kinks it is the risk with rounded kinks that has a Hessian; `bmrm.linear.solvers.smoothing`
decides how far they are rounded.

If an intercept b is minimised out, the Hessian of min_b J(w, b) is the Schur complement of b in that of J(w,
b).

If X is not narrow, H is not formed: conjugate gradients take a product with X and one with X' per step
(``conjugate_gradients.py``; on a GPU ``src_cuda/training/newton.cu``).

The passes make the point, since they know where X is (`Passes.newton_point`). Here is when it pays.
"""

from __future__ import annotations

import math

from bmrm.linear.objective.passes import DesignOperator
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import Loss

MAX_HESSIAN_WORK = 24.0
"""Multiply-adds per stored value up to which a step with a Hessian costs less than the passes that it saves:
a pass takes two, and some fifty are saved."""

FINE_TOL = 1e-9
"""A smaller relative tolerance is fine: without curvature, passes halve the gap some forty times, or end with
status precision, because the inner QP does not resolve so small a gap."""

MAX_FINE_HESSIAN_WORK = 100.0
"""`MAX_HESSIAN_WORK` at a fine tolerance, for a smooth loss: some two hundred passes are saved."""

MAX_CG_COLUMNS = 1024
"""Number of columns up to which conjugate gradients take few steps for a point, however sparse the rows."""

MAX_COLUMNS_PER_VALUE = 16
"""With more columns they still do if a row has at least one value in this many columns."""

MIN_ROWS_PER_COLUMN = 4
"""Number of rows per column that conjugate gradients need, to take few steps."""

MIN_KINKED_ROWS_PER_COLUMN = 32
"""The same for a loss with rounded kinks: only the rows near a kink have curvature."""

MAX_CG_STEPS = 100
"""Maximum number of steps of conjugate gradients for a point."""

CG_FORCING = 0.05
"""Share of the first slope of the quadratic model at which conjugate gradients end."""


def hessian_pays(operator: DesignOperator, *, fine: bool = False) -> bool:
    """Whether X is so narrow that the Hessian of a risk costs no more than a few passes.

    Parameters
    ----------
    operator : DesignOperator
    fine : bool, default False
        Whether the loss is smooth and the relative tolerance below `FINE_TOL`.
    """
    most = MAX_FINE_HESSIAN_WORK if fine else MAX_HESSIAN_WORK
    return operator.weighted_gram_work + operator.shape[1] ** 3 / 6 <= most * operator.nnz


def products_pay(operator: DesignOperator, rows: int, loss: Loss) -> bool:
    """Whether X is so full, or has so few columns, that conjugate gradients take few products for its rows.

    Otherwise, as for text, they take as many products as the passes that they save. With no Hessian at any
    price, as on a GPU, products take less time than these passes.
    """
    d = operator.shape[1]
    full, no_hessian = (
        rows * d <= MAX_COLUMNS_PER_VALUE * operator.nnz,
        math.isinf(operator.weighted_gram_work),
    )
    if loss.kinked:
        enough = rows >= MIN_KINKED_ROWS_PER_COLUMN * d
        return enough and (full or (no_hessian and d <= MAX_CG_COLUMNS))
    return rows >= MIN_ROWS_PER_COLUMN * d and (full or d <= MAX_CG_COLUMNS or no_hessian)


def newton_pays(operator: DesignOperator, rows: int, loss: Loss, reg: Regularizer) -> bool:
    """Whether Newton's points beat the minimisers of the cutting-plane model.

    ``rows`` are those of all processes.
    """
    if not loss.smooth and not loss.kinked:
        return False
    return hessian_pays(operator) or products_pay(operator, rows, loss) or (loss.smooth and reg.sparse)
