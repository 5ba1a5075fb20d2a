"""The dual of the inner model with a separable penalty: a concave maximum over a product of simplices.

    maximise  D(alpha) = <b, alpha> + min_w [ P(w) + <A' alpha, w> + sum_j mu_j / 2 (w_j - centre_j)^2 ]

For a squared penalty D is quadratic, and ``src_cython/qp/qp.h`` maximises it at once.  With kinks and
intervals it is piecewise quadratic: a feature whose w_j is on a kink or at an end of its interval adds
nothing to its curvature.  So Newton's method for such functions is used (Qi, Sun, Math. Programming 58 (1993)
353): a QP with the curvature of the features that move, by the same active set, then a search on the line to
its maximiser. The steps gain as long as there is anything to gain, and near the optimum one is exact.

If cuts are far steeper in one direction than in others, as with one row far longer than the rest, rounding
of their products hides the curvature in the others, and a step may lead down.  Then the diagonal of the QP is
raised a little, as by Levenberg and Marquardt: that is a proximal term for alpha, whose steps are shorter but
right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot, dot_rows
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.cut_model import CutModel, combination, risk_and_excess, rounding_gap
from bmrm.linear.bundle.gram_cache import GramCache
from bmrm.linear.objective.line_search import bracket_minimum
from bmrm.linear.regularizers.separable import Separable

MAX_CHANGES = 5000
"""Maximum number of cuts that may enter or leave in one QP; the next one goes on from there."""

MAX_NEWTON_STEPS = 40
"""Maximum number of QPs of one maximisation."""

SHORT_STEP = 0.1
"""A step below this is of a QP whose products rounding has spoilt; so its diagonal is raised."""

MIN_DAMPING, MAX_DAMPING = 1e-15, 1e-6
"""Shares of the diagonal that it is raised by: from the rounding of one product up."""

DAMPING_CHANGE = 10.0
"""Factor of the share from one step to the next: up after a short step, down after another one."""

DEPENDENT_SHARE = 0.1
"""Curvature of a cut beside others, as a share of what the diagonal was raised by, that is rounding."""

QP_GAP_SHARE = 0.1
"""Gap of each QP, as a share of the one wanted of D."""

SEARCH_TOL = 1e-6
"""Accuracy of the line searches between QPs, as a share of what their slope at the start promises."""

MASS_TOL = 1e-14
"""Deviation from 1 of the masses of a block above which they are scaled: that rounds each of them, and so the
plane, again."""


def maximise(
    gram: Vector,
    offsets: Vector,
    blocks: NDArray[np.int32],
    groups: int,
    lam: float,
    alpha: Vector,
    best: float,
    rel_tol: float,
    abs_tol: float,
    serials: Indices | None = None,
    active_set: _qp.ActiveSet | None = None,
    origin: Vector | None = None,
    damping: float = 0.0,
) -> None:
    """Solve the QP of a Gram matrix; ``alpha`` is the start, and becomes the solution.

    It ends when the gap is at most the larger of ``abs_tol`` and ``rel_tol`` times ``best`` minus its value.
    A cut of block -1 takes no part. An ``active_set`` is kept from an earlier call, by ``serials``.
    With an ``origin`` the offsets are the values of the cuts at the minimiser for that alpha. The diagonal
    is raised by the share ``damping``.
    """
    more = {}
    if damping:
        gram = gram[: len(alpha), : len(alpha)].copy()
        gram[np.diag_indices(len(alpha))] *= 1.0 + damping
        more = {"dependent": DEPENDENT_SHARE * damping}
    _qp.solve(
        gram,
        offsets,
        blocks,
        np.arange(len(alpha)) if serials is None else serials,
        groups,
        lam,
        alpha,
        np.empty(len(alpha)),
        active_set or _qp.ActiveSet(),
        best=best,
        rel_tol=rel_tol,
        abs_tol=abs_tol,
        max_changes=MAX_CHANGES,
        origin=origin,
        **more,
    )


class Maximum(NamedTuple):
    """A point where D is nearly largest: the model's minimiser there, and the mean plane."""

    w: Vector
    a: Vector
    value: float
    """Of the model at ``w``, with the penalty and without the proximal term."""
    steps: int
    """The number of Newton's steps taken."""


def piecewise(
    cuts: CutModel,
    terms: Separable,
    mu: Vector | None,
    centre: Vector,
    best: float,
    rel_tol: float,
    products: GramCache,
) -> Maximum:
    """Maximise D in ``cuts.alpha`` until its gap is ``rel_tol`` of ``best`` minus its value.

    - ``mu``, shape (n_features,), or None: proximal term; positive wherever the penalty has no curvature
    - ``centre``, shape (n_features,)
    - ``products``: of the cuts, kept from one call to the next
    """
    alpha, gradients = cuts.alpha.copy(), cuts.gradients
    curvature = terms.l2 if mu is None else terms.l2 + mu
    # The QP takes the common factor, so that cached products need not know it.
    least = float(curvature.min())
    weights = least / curvature
    a, _ = combination(cuts, alpha)
    damping = 0.0
    for step in range(MAX_NEWTON_STEPS):
        w = terms.minimiser(a, mu, centre)
        heights = cuts.offsets + dot_rows(gradients, w)
        risk, gap = risk_and_excess(cuts, heights, alpha)
        value = terms.value(w) + risk
        prox = 0.0 if mu is None else 0.5 * dot(mu, (w - centre) ** 2)
        # D = value + prox - gap: what is left to gain of it, against how far it is from the best objective.
        wanted = max(rel_tol * (best - (value + prox - gap)), rounding_gap(best))
        if gap <= wanted or step == MAX_NEWTON_STEPS - 1:
            break
        moving = (w != terms.prior) & (w > terms.low) & (w < terms.high)
        target = alpha.copy()
        gram = products.update(gradients, cuts.serials, np.where(moving, weights, 0.0), cuts.threads)
        # The QP is in the change of alpha: A' alpha itself may be far smaller than what it is made of.
        maximise(
            gram, heights, cuts.blocks, cuts.groups, least, target, np.inf, 0.0, QP_GAP_SHARE * wanted,
            origin=alpha, damping=damping,
        )  # fmt: skip
        change = target - alpha
        da, rise = combination(cuts, change)
        t = _search(terms, w, a, da, rise, mu, centre) if rise + dot(da, w) > 0.0 else 0.0
        damping = _next_damping(damping, t)
        if damping > MAX_DAMPING:
            break
        if t == 0.0:
            continue
        alpha += t * change
        np.maximum(alpha, 0.0, out=alpha)
        sums = np.bincount(cuts.blocks, alpha, cuts.groups)
        off = np.abs(sums - 1.0) > MASS_TOL
        if off.any():
            alpha /= np.where(off, sums, 1.0)[cuts.blocks]
            a, _ = combination(cuts, alpha)
        else:
            a = a + t * da
    cuts.set_alpha(alpha)
    return Maximum(w, a, value, step)


def _next_damping(damping: float, t: float) -> float:
    """Return the share that the next QP's diagonal is raised by, after a step t."""
    if t < SHORT_STEP:
        return max(MIN_DAMPING, DAMPING_CHANGE * damping)
    return damping / DAMPING_CHANGE if damping > MIN_DAMPING else 0.0


def _search(
    terms: Separable,
    w: Vector,
    a: Vector,
    da: Vector,
    rise: float,
    mu: Vector | None,
    centre: Vector,
) -> float:
    """Return the step in [0, 1] that maximises D from the plane ``a`` in the direction ``(da, rise)``."""
    far = terms.minimiser(a + da, mu, centre)
    if rise + dot(da, far) >= 0.0:
        return 1.0
    # Each w_j is monotone in its slope: those that are the same at both ends do not move between them.
    moving = np.flatnonzero(w != far)
    near = terms.take(moving)
    start, change, middle = a[moving], da[moving], centre[moving]
    bend = None if mu is None else mu[moving]
    constant = rise + dot(da, w) - dot(change, w[moving])

    def fall(t: float) -> float:
        return -constant - dot(change, near.minimiser(start + t * change, bend, middle))

    first = fall(0.0)
    if not first < 0.0:
        return 0.0
    return min(1.0, bracket_minimum(fall, 0.0, 1.0, -SEARCH_TOL * first, first).nearest)
