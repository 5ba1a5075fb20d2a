"""The minimum of a quadratic model of J by products with its Hessian, where that is not formed.

Conjugate gradients take a product with X and one with X' per step (Steihaug, SIAM J. Numer. Anal. 20 (1983)
626; Lin, Weng, Keerthi, JMLR 9 (2008) 627), scaled by what is known of the diagonal of the Hessian (Hsia,
Chiang, Lin, ACML 2018).  Under a penalty with kinks they run on the features that are free to move with the
signs that they have; a feature that would cross a kink stops there (Andrew, Gao, ICML 2007, 33, for the
choice of the signs). Steps of the proximal gradient between them find the face, the smooth piece of the
penalty on which the minimum lies (as in More, Toraldo, SIAM J. Optim. 1 (1991) 93, for bounds).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bmrm.base.vectors import Vector, dot
from bmrm.linear.objective.line_search import bracket_minimum
from bmrm.linear.objective.passes import MAX_LINE_STEP
from bmrm.linear.regularizers import LineDerivative, Regularizer
from bmrm.linear.regularizers.separable import FreeFace
from bmrm.linear.solvers.newton import CG_FORCING, MAX_CG_STEPS


def minimise_quadratic(
    reg: Regularizer, at: Vector, gradient: Vector, times: Callable[[Vector], Vector], diagonal: Vector
) -> Vector | None:
    """Minimise ``lam Omega(v) + <gradient, v - at> + (v - at)' H (v - at) / 2``, on one face after another.

    Return a point near the minimum; None if no step from ``at`` goes down. ``times`` multiplies by H, the
    Hessian of the risk, and ``diagonal`` is what is known of that of H.
    """
    w, slope, budget, first, bend = at, gradient, MAX_CG_STEPS, 0.0, 0.0

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
        if size <= CG_FORCING**2 * first:
            break
        bend = bend or dot(residual, times(residual)) / size
        # A step of the proximal gradient finds the face, unless all features are free; then minimise on it.
        found = not face.free.all() and bend > 0.0 and move(reg.proximal(w, slope, bend))
        face = reg.face(w, slope)
        residual = np.where(face.free, -face.slope, 0.0)
        wanted = CG_FORCING**2 * dot(residual, residual)
        step, budget = _conjugate_gradients(times, face, diagonal, residual, wanted, budget)
        # If too many features stop at kinks, the way there may rise at once; the straight way never does.
        if not (move(reg.land(w, step, face)) or move(reg.project(w + step)) or found):
            break
    return None if w is at else w


def _content_step(line: LineDerivative, p: float, q: float) -> float:
    """Return 1 if that step gains most of what there is to gain on the line, else the best step.

    The quadratic has the derivative ``p + q t`` on the line.
    """

    def slope(t: float) -> float:
        return p + q * t + line.slope(t)

    first = slope(0.0)
    if not first < 0.0:
        return 0.0
    if line.end >= 1.0 and abs(slope(1.0)) <= -0.5 * first:
        return 1.0
    # Without any curvature, the quadratic has no minimum.
    return min(line.end, MAX_LINE_STEP, bracket_minimum(slope, 0.0, 1.0, 0.0, first).nearest)


def _conjugate_gradients(
    times: Callable[[Vector], Vector],
    face: FreeFace,
    diagonal: Vector,
    residual: Vector,
    wanted: float,
    budget: int,
) -> tuple[Vector, int]:
    """Return a step on the face that leaves a squared slope ``wanted``, and the products left.

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
