"""Newton's point: where a quadratic model of J at the best point has its minimum.

The cutting-plane model knows nothing of curvature, so it needs dozens of cuts to follow a smooth risk.  Where
X is narrow its Hessian is at hand,

    H = lam Omega'' + X' S X,        S = diag(s_i loss''(u_i, y_i)) / sum_i s_i,

and one step from w to w - H^{-1} J'(w), with the line searched, replaces many passes: convergence is
quadratic for a smooth loss, and for one whose second derivative jumps (the squared hinge) it still ends in a
few steps (Mangasarian, Optim. Methods Softw. 17 (2002) 913; Keerthi, DeCoste, JMLR 6 (2005) 341).  The point
is only a place to look at: objective, cuts and bound do not rest on it.

Of a loss with kinks it is the risk with rounded kinks that has a Hessian; `bmrm.linear.solvers.smoothing`
says how far.

With an intercept b that is minimised out, the Hessian of min_b J(w, b) is the Schur complement of b in that
of J(w, b).

Elsewhere H is not formed: conjugate gradients take a product with X and one with X' a step (Steihaug, SIAM
J. Numer. Anal. 20 (1983) 626; Lin, Weng, Keerthi, JMLR 9 (2008) 627), scaled by what is known of H's diagonal
(Hsia, Chiang, Lin, ACML 2018).  On a GPU they run there (``src_cuda/training/newton.cu``).  Under a penalty
with kinks they run on the features that are free to move with the signs that they have, what crosses a kink
stops there (Andrew, Gao, ICML 2007, 33, for the choice of the signs), and steps of the proximal gradient
between find the face (as in More, Toraldo, SIAM J. Optim. 1 (1991) 93, for bounds).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot
from bmrm.linear.backends.gpu.passes import GpuPasses
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.bundle.quadratic import quadratic_minimiser
from bmrm.linear.objective.line_search import bracket_minimum
from bmrm.linear.objective.objective import LONGEST_STEP, Gradients, Iterate, Objective, Operator, Weights
from bmrm.linear.regularizers import Regularizer, Slopes
from bmrm.linear.regularizers.separable import FreeFace
from bmrm.losses import Loss

Vector = NDArray[np.float64]

WORK = 24.0
"""Multiply-adds for a Newton step, by stored value, up to which it costs less than the passes that it spares:
a pass takes two, and some fifty are spared."""

NARROW, FULL = 1024, 16
"""Columns up to which conjugate gradients take few steps for such a point; and how many times as many columns
as a row has values they may be else."""

ROWS, KINKED_ROWS = 4, 32
"""Rows that are wanted for each column then; and where kinks are rounded, which bends few of them."""

CG_STEPS, FORCING = 100, 0.05
"""Most steps of conjugate gradients for a point, and the share of the slope at which they end."""


def hessian_pays(operator: Operator) -> bool:
    """Whether X is so narrow that the Hessian of a risk costs no more than a few passes."""
    return operator.weighted_gram_work + operator.shape[1] ** 3 / 6 <= WORK * operator.nnz


def products_pay(operator: Operator, rows: int, loss: Loss) -> bool:
    """Whether X is so full, or has so few columns, that conjugate gradients take few products for its rows.

    Where it is not, as text, they take as many as the passes that they spare. On a GPU, where there is no
    Hessian, they take less time than these.
    """
    d = operator.shape[1]
    full, on_gpu = rows * d <= FULL * operator.nnz, bool(np.isinf(operator.weighted_gram_work))
    if loss.kinked:
        return rows >= KINKED_ROWS * d and (full or (on_gpu and d <= NARROW))
    return rows >= ROWS * d and (full or d <= NARROW or on_gpu)


def newton_pays(operator: Operator, rows: int, loss: Loss, reg: Regularizer) -> bool:
    """Whether Newton's points beat the minimisers of the cutting-plane model.

    The rows are those of all processes.
    """
    if not loss.smooth and not loss.kinked:
        return False
    return hessian_pays(operator) or products_pay(operator, rows, loss) or (loss.smooth and reg.sparse)


def newton_point(objective: Objective, at: Iterate, gradients: Gradients) -> Weights | None:
    """Return the minimiser of the quadratic model of J at a point, or a point near it where X is wide.

    Parameters
    ----------
    objective : Objective
    at : Iterate
    gradients : Gradients
        Of the risk's parts there.

    Returns
    -------
    Weights or None
        None where rounding or overflow leave no positive definite Hessian.
    """
    if isinstance(gradients, range):
        passes = objective.passes
        assert isinstance(passes, GpuPasses)
        given = objective.operator, objective.reg.lam, objective.profile
        return passes.newton_point(at, gradients, *given, CG_STEPS, FORCING)
    gradient = objective.gradient(gradients)
    formed = hessian_pays(objective.operator)
    w = (_with_hessian if formed else _with_products)(objective, at, gradient)
    return None if w is None or not np.isfinite(w).all() else w


def _with_hessian(objective: Objective, at: Iterate, gradient: Vector) -> Vector | None:
    """Form the Hessian."""
    passes = objective.passes
    assert isinstance(passes, HostPasses)
    return quadratic_minimiser(objective.reg, passes.hessian(at, objective.profile), gradient, at.w)


def _with_products(objective: Objective, at: Iterate, gradient: Vector) -> Vector | None:
    """Minimise by conjugate gradients on products with X alone, on one face of the penalty after another."""
    operator, passes = objective.operator, objective.passes
    assert isinstance(passes, HostPasses)
    m, d = operator.shape
    everything = np.array([0, m], np.int64)
    margins, product = np.empty(m), np.empty((1, d))
    s, total = passes.curvature(at)
    # About the diagonal of X' S X: as if every row bent as the mean of them does.
    diagonal = total * operator.mean_squares

    def times(v: Vector) -> Vector:
        operator.matvec(v, margins)
        if objective.profile and total > 0.0:
            np.subtract(margins, passes.over_rows(s, margins) / total, out=margins)
        np.multiply(margins, s, out=margins)
        operator.rmatvec_blocks(margins, everything, product)
        return np.array(product[0])

    reg = objective.reg
    w, slope, budget, first, bend = at.w, gradient, CG_STEPS, 0.0, 0.0

    def move(to: Vector) -> bool:
        """Go towards a point as far as the quadratic model falls."""
        nonlocal w, slope, budget, bend
        way = to - w
        image, budget = times(way), budget - 1
        size, q = dot(way, way), dot(way, image)
        t = _content_step(reg.line(w, way), dot(slope, way), q) if size > 0.0 else 0.0
        if t > 0.0:
            w, slope, bend = w + t * way, slope + t * image, q / size
        return t > 0.0

    while budget > 0:
        face = reg.face(w, slope)
        residual = np.where(face.free, -face.slope, 0.0)
        size = dot(residual, residual)
        first = first or size
        if size <= FORCING**2 * first:
            break
        bend = bend or dot(residual, times(residual)) / size
        # A step of the proximal gradient finds the face, if it is not everything; the other minimises on it.
        found = not face.free.all() and bend > 0.0 and move(reg.proximal(w, slope, bend))
        face = reg.face(w, slope)
        residual = np.where(face.free, -face.slope, 0.0)
        wanted = FORCING**2 * dot(residual, residual)
        step, budget = _conjugate_gradients(times, face, diagonal, residual, wanted, budget)
        # Where too much stops at kinks, the way there may rise at once; the straight one never does.
        if not (move(reg.land(w, step, face)) or move(reg.project(w + step)) or found):
            break
    return None if w is at.w else w


def _content_step(line: Slopes, p: float, q: float) -> float:
    """Return 1 where that step gains most of what there is on the line, else the best one.

    The quadratic has the derivative ``p + q t`` there.
    """

    def slope(t: float) -> float:
        return p + q * t + line.slope(t)

    first = slope(0.0)
    if not first < 0.0:
        return 0.0
    if line.end >= 1.0 and abs(slope(1.0)) <= -0.5 * first:
        return 1.0
    # Where nothing bends, the quadratic has no minimum.
    return min(line.end, LONGEST_STEP, bracket_minimum(slope, 0.0, 1.0, 0.0, first).nearest)


def _conjugate_gradients(
    times: Callable[[Vector], Vector],
    face: FreeFace,
    diagonal: Vector,
    residual: Vector,
    wanted: float,
    budget: int,
) -> tuple[Vector, int]:
    """Return a step on the face that leaves a squared slope ``wanted``, and the budget that it leaves.

    The features are scaled by what is known of the diagonal of the Hessian.
    """
    scale = diagonal + face.curvature
    scale[scale <= 0.0] = 1.0
    scaled = residual / scale
    step, direction, size = np.zeros(len(residual)), scaled, dot(residual, scaled)
    while dot(residual, residual) > wanted and budget > 0:
        image = np.where(face.free, times(direction) + face.curvature * direction, 0.0)
        budget -= 1
        bend = dot(direction, image)
        if not 0.0 < bend < np.inf:
            break
        step += (size / bend) * direction
        residual -= (size / bend) * image
        scaled = residual / scale
        last, size = size, dot(residual, scaled)
        direction = scaled + (size / last) * direction
    return step, budget
