"""The inner problem of a separable penalty: a concave maximisation over a product of simplices.

    maximise  D(alpha) = <b, alpha> + min_w [ P(w) + <A' alpha, w> + sum_j mu_j / 2 (w_j - centre_j)^2 ]

For the plain L2 penalty D is quadratic, and ``src_cython/qp/qp.h`` maximises it at once.  With kinks and
intervals it is piecewise quadratic: the features whose w_j is on a kink or at an end of its interval add
nothing to its curvature.  So Newton's method for such functions (Qi, Sun, Math. Programming 58 (1993) 353):
a QP with the curvature of the features that move, by the same active set, then a search on the line to its
maximiser.  The steps gain as long as there is anything to gain, and near the optimum one is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot, dot_rows
from bmrm.linear.bundle import _qp
from bmrm.linear.bundle.gram_cache import GramCache
from bmrm.linear.objective.line_search import bracket_minimum
from bmrm.linear.objective.running_error import ErrorBound, MeanBlur
from bmrm.linear.regularizers.separable import Separable
from bmrm.matrix import _cpu

Vector = NDArray[np.float64]

MAX_CHANGES = 5000
"""Cuts that may enter or leave in one QP; the next one goes on from there."""

NEWTON_STEPS = 40
"""Most QPs of one maximisation."""

SEARCH_TOL = 1e-6
"""Accuracy of the searches between them, as a share of what their slope at the start promises."""

GOOD_SUM = 1e-14
"""How far from 1 the weights of a block may add up: to scale them rounds each, and so the plane, again."""


class CutModel(Protocol):
    """The cutting planes of a bundle, as inner solvers see them.

    The gradients are asked only where they are on the host.
    """

    groups: int
    threads: int
    floor: float
    errors: ErrorBound | None
    """What rounding may hide."""
    first_objective: float
    floored: bool
    lost: float
    """What the last bound of `minimiser` is lower by where products of rows cancel."""

    @property
    def gradients(self) -> Vector:
        """Gradients a, shape (cuts, n_features)."""

    @property
    def offsets(self) -> Vector:
        """Offsets b, shape (cuts,)."""

    @property
    def blocks(self) -> NDArray[np.int32]:
        """Block of each cut, shape (cuts,)."""

    @property
    def whole(self) -> bool:
        """Whether whole gradients are on the host, so that their products may be taken in another metric."""

    @property
    def metric(self) -> Vector | None:
        """Weights of the features in products of gradients; None where all are 1."""

    def weigh(self, metric: Vector) -> None:
        """Take products of gradients with other weights from now on."""

    @property
    def alpha(self) -> Vector:
        """Dual solution, shape (cuts,), from which an inner solver starts; not to be written to."""

    def set_alpha(self, alpha: Vector) -> None:
        """Take a dual solution that an inner solver has found."""

    def minimiser(self, reg: Any, near: Any) -> tuple[Any, float]:
        """Return the minimiser of a regulariser plus the mean plane, where weights live, and a bound on J."""

    def sharpened(self, reg: Any, w: Any) -> tuple[Any, Vector, float] | None:
        """Return a minimiser, the values of all planes there, and a bound, none of which cancel.

        None where the gradients are out of reach.
        """

    def blur(self, alpha: Vector) -> MeanBlur:
        """Return what rounding may have done to the mean plane."""

    def certified(self, least: float, alpha: Vector, size: float) -> float:
        """Return the minimum of a penalty and the mean plane, a bound, less what rounding may hide."""

    def maximise(
        self,
        lam: float,
        best: float,
        rel_tol: float,
        offsets: Vector | None = None,
        origin: Vector | None = None,
    ) -> float:
        """Maximise D for ``lam/2 |w|^2`` in alpha, up to ``rel_tol`` of ``best`` minus its value.

        The offsets are the planes', or those given: with an ``origin`` the values of the planes where alpha
        is that, and ``best`` is less the value of D there. Return the mean square of the gradients.
        """

    @property
    def serials(self) -> NDArray[np.int64]:
        """A number for each cut that no other has had, shape (cuts,)."""

    @property
    def made(self) -> int:
        """The number that the next cut will have."""

    def steep(self, since: int, most: float) -> list[int]:
        """Return the numbers of cuts with serials from ``since`` on whose square is above ``most``."""


def combination(planes: CutModel, alpha: Vector) -> tuple[Vector, float]:
    """Return the mean plane ``(A' alpha, <b, alpha>)``."""
    a = np.empty(planes.gradients.shape[1])
    _cpu.combine(planes.gradients, alpha, a, threads=planes.threads)
    return a, dot(planes.offsets, alpha)


def tops(planes: CutModel, heights: Vector, alpha: Vector) -> tuple[float, float]:
    """Return the sum of the blocks' highest planes, and how far it is above their mean with these weights."""
    highest = np.full(planes.groups, -np.inf)
    np.maximum.at(highest, planes.blocks, heights)
    total = float(highest.sum())
    return total, total - dot(alpha, heights)


def tiny(best: float) -> float:
    """Gap that is rounding beside an objective."""
    return 1e-15 * abs(best)


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
    serials: NDArray[np.int64] | None = None,
    face: _qp.Face | None = None,
    origin: Vector | None = None,
) -> None:
    """Solve the QP of a Gram matrix, from ``alpha`` to ``alpha``.

    Its gap ends at the larger of ``abs_tol`` and ``rel_tol`` of ``best`` minus its value; a cut of block -1
    takes no part. A ``face`` remembers what an earlier call left, by the cuts' ``serials``. Offsets with an
    ``origin`` are the values of the cuts where alpha is that.
    """
    _qp.solve(
        gram,
        offsets,
        blocks,
        np.arange(len(alpha)) if serials is None else serials,
        groups,
        lam,
        alpha,
        np.empty(len(alpha)),
        face or _qp.Face(),
        best=best,
        rel_tol=rel_tol,
        abs_tol=abs_tol,
        max_changes=MAX_CHANGES,
        origin=origin,
    )


class Maximum(NamedTuple):
    """Where D is nearly largest: the model's minimiser there, and the mean plane."""

    w: Vector
    a: Vector
    value: float
    """Of the model at ``w``, with the penalty and without the proximal term."""
    steps: int
    """Newton's steps that it took."""


def piecewise(
    planes: CutModel,
    penalty: Separable,
    mu: Vector | None,
    centre: Vector,
    best: float,
    rel_tol: float,
    kept: GramCache,
) -> Maximum:
    """Maximise D in ``planes.alpha`` until its gap is ``rel_tol`` of ``best`` minus its value.

    Parameters
    ----------
    planes : CutModel
    penalty : Separable
    mu : ndarray of shape (n_features,), or None
        Proximal term; positive wherever the penalty has no curvature.
    centre : ndarray of shape (n_features,)
    best : float
        The best objective known.
    rel_tol : float
    kept : MovingGram
        Products of the cuts, from one call to the next.

    Returns
    -------
    Maximum
    """
    alpha, cuts = planes.alpha.copy(), planes.gradients
    curvature = penalty.l2 if mu is None else penalty.l2 + mu
    # A common factor is the QP's: products that are kept need not know it.
    least = float(curvature.min())
    weights = least / curvature
    a, _ = combination(planes, alpha)
    for step in range(NEWTON_STEPS):
        w = penalty.minimiser(a, mu, centre)
        heights = planes.offsets + dot_rows(cuts, w)
        top, gap = tops(planes, heights, alpha)
        value = penalty.value(w) + top
        prox = 0.0 if mu is None else 0.5 * dot(mu, (w - centre) ** 2)
        # D = value + prox - gap: what is left to gain of it, against how far it is from the best objective.
        wanted = max(rel_tol * (best - (value + prox - gap)), tiny(best))
        if gap <= wanted or step == NEWTON_STEPS - 1:
            break
        moving = (w != penalty.prior) & (w > penalty.low) & (w < penalty.high)
        target = alpha.copy()
        products = kept.update(cuts, planes.serials, np.where(moving, weights, 0.0), planes.threads)
        # A change from alpha: A' alpha itself may be far smaller than what it is made of.
        maximise(
            products, heights, planes.blocks, planes.groups, least, target, np.inf, 0.0, 0.1 * wanted,
            origin=alpha,
        )  # fmt: skip
        change = target - alpha
        da, rise = combination(planes, change)
        if not rise + dot(da, w) > 0.0:
            break
        t = _search(penalty, w, a, da, rise, mu, centre)
        if t == 0.0:
            break
        alpha += t * change
        np.maximum(alpha, 0.0, out=alpha)
        sums = np.bincount(planes.blocks, alpha, planes.groups)
        off = np.abs(sums - 1.0) > GOOD_SUM
        if off.any():
            alpha /= np.where(off, sums, 1.0)[planes.blocks]
            a, _ = combination(planes, alpha)
        else:
            a = a + t * da
    planes.set_alpha(alpha)
    return Maximum(w, a, value, step)


def _search(
    penalty: Separable,
    w: Vector,
    a: Vector,
    da: Vector,
    rise: float,
    mu: Vector | None,
    centre: Vector,
) -> float:
    """Return the step in [0, 1] that maximises D from the plane ``a`` in the direction ``(da, rise)``."""
    far = penalty.minimiser(a + da, mu, centre)
    if rise + dot(da, far) >= 0.0:
        return 1.0
    # Each w_j is monotone in its slope: those that are the same at both ends do not move between them.
    moving = np.flatnonzero(w != far)
    near = penalty.take(moving)
    start, change, middle = a[moving], da[moving], centre[moving]
    bend = None if mu is None else mu[moving]
    constant = rise + dot(da, w) - dot(change, w[moving])

    def fall(t: float) -> float:
        return -constant - dot(change, near.minimiser(start + t * change, bend, middle))

    first = fall(0.0)
    if not first < 0.0:
        return 0.0
    return min(1.0, bracket_minimum(fall, 0.0, 1.0, -SEARCH_TOL * first, first).nearest)
