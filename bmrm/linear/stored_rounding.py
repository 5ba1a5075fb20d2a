"""What is known of the problem of a file's numbers from a solve on the float32 numbers nearest to them.

Let x be the numbers of the file and z those stored.  Rounding to nearest moves each by at most

    |x_ij - z_ij| <= UNIT |z_ij| + TINY,

hence a margin by at most ``sum_j |w_j| |x_ij - z_ij|``, and a risk whose derivative in the margin of row i is
nowhere larger than g_i by

    |R_x(w) - R_z(w)| <= sum_j c_j |w_j| =: E(w),      c_j = sum_i g_i (UNIT |z_ij| + TINY).

These c are sums over the rows, not the largest error of a column: a column that few rows have moves few
margins, and the sum of the largest errors of all columns of a text is far more than E.

``J_x(w) <= J_z(w) + E(w)`` is the objective then.  The least J_x is at some w*, where it is at least the
bound of the solve less E(w*), and w* is not known.  But it is not far away (P is the penalty, w0 its prior
mean):

- ``P(w*) <= J_x(w*) - floor <= J_x(w) - floor``, as no risk is below its floor.
- Where P has curvature, ``J_x(w) >= J_x(w*) + sum_j l2_j (w_j - w*_j)^2 / 2``, and what J_x(w) can be above
  J_x(w*) is the gap of the solve and E(w) + E(w*): a quadratic inequality for the distance.

The smaller of the two that follow is taken away from the bound.

Losses with squares have no such g.  The root of their risk does: it is a norm of the rows' distances to where
the loss is 0, and moves by at most ``rho(w) = sum_j r_j |w_j|``, r_j the root of the mean square of
``UNIT |z_ij| + TINY``.  So ``R = k m^2`` moves by at most ``k (2 m + rho) rho``, where m^2 <= J_x / k.

Of several margins a row the losses that take differences move by the range of w_jc over the classes c in the
place of |w_j|, sums over the classes by the sum of |w_jc|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import dot
from bmrm.io import _svmlight
from bmrm.io.csr import Csr
from bmrm.linear.regularizers import Regularizer
from bmrm.losses import JointLoss, Loss, NamedLoss
from bmrm.losses.joint import collect_members
from bmrm.losses.ranking import MAX_DISCOUNT_STEP, RankingLoss, gain

Vector = NDArray[np.float64]

UNIT, TINY = 2.0**-24, 2.0**-150
"""Rounding to float32 moves a number by at most this share of the result, and below float32's normal numbers
by at most the second."""

SLACK = 1.0 + 1e-9
"""What a bound is multiplied by, for the rounding of its own sums."""

COARSE = 2.0
"""The same for products that a GPU sums in float32, of numbers of one sign: it never adds up so many of them
one after the other that they would be wrong by as much."""

DENSE_ROWS = 1 << 22
"""Numbers of a dense X that are looked at together."""


class Slopes(NamedTuple):
    """How fast a risk moves with the margins of each row.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        The largest size of the derivative; of a square the row's share of the mean.
    square : float
        k where the risk is k times a mean square, else 0.
    """

    rows: Vector
    square: float = 0.0


class Bounds(NamedTuple):
    """What is known of J of a file's numbers: ``lower_bound <= optimum <= J(w) <= objective``.

    Attributes
    ----------
    objective, lower_bound : float
    rounding : float
        How far the two have been moved apart for the rounding of X.
    """

    objective: float
    lower_bound: float
    rounding: float = 0.0


_STEEPEST: dict[str, Callable[[float], float]] = {
    "hinge": lambda _: 1.0,
    "huber_hinge": lambda _: 1.0,
    "logistic": lambda _: 1.0,
    "absolute": lambda _: 1.0,
    "quantile": lambda tau: max(tau, 1.0 - tau),
    "epsilon_insensitive": lambda _: 1.0,
    "huber": lambda delta: delta,
    "novelty": lambda nu: 1.0 / nu,
    "multiclass": lambda _: 1.0,
    "softmax": lambda _: 1.0,
    "multilabel": lambda _: 1.0,
    "multilabel_ranking": lambda _: 1.0,
}
"""The largest derivative of a row's loss, from its parameter."""

_SQUARES = {"squared": 0.5, "squared_hinge": 1.0, "squared_epsilon_insensitive": 1.0}
"""k of the losses that are k times a square."""

_SUMS_OF_CLASSES = ("multilabel",)
"""Losses that are sums over the classes; the others of several margins take differences of these."""

_COUNTED = ("f_beta", "precision_at_k", "recall_at_k", "prbep")


def bounded(loss: Loss | type[Loss]) -> bool:
    """Whether it is known how far rounding of X moves the risk: exp() of a margin may move by anything.

    Examples
    --------
    >>> from bmrm import losses
    >>> [bounded(losses.get(name)) for name in ("hinge", "squared", "pairwise", "poisson")]
    [True, True, True, False]
    """
    joint = isinstance(loss, JointLoss) or (isinstance(loss, type) and issubclass(loss, JointLoss))
    return joint or loss.name in _STEEPEST or loss.name in _SQUARES


def slopes_of(loss: Loss, y: Vector, weights: Vector | None, total: float) -> Slopes:
    """Return how fast the risk of some rows moves with their margins.

    Parameters
    ----------
    loss : Loss
        One that is `bounded`, bound to the groups of the rows if it needs them.
    y : ndarray of shape (m,), or (m, K)
        Coded labels of the rows.
    weights : ndarray of shape (m,), or None
    total : float
        Sum of the weights of all rows, which may be more than these.

    Returns
    -------
    Slopes

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import losses
    >>> slopes_of(losses.get("quantile", tau=0.2), np.zeros(2), None, 2.0).rows
    array([0.4, 0.4])
    """
    if isinstance(loss, JointLoss):
        return Slopes(_joint_slopes(loss, y, weights))
    assert isinstance(loss, NamedLoss)
    share = np.full(len(y), 1.0 / total) if weights is None else weights / total
    if loss.name in _SQUARES:
        return Slopes(share, _SQUARES[loss.name])
    return Slopes(_STEEPEST[loss.name](loss.parameter_value) * share)


def _joint_slopes(loss: JointLoss, y: Vector, weights: Vector | None) -> Vector:
    """Return the largest size of each row's derivative, of a risk of margins taken together."""
    slopes = np.zeros(len(y))
    if isinstance(loss, RankingLoss):
        return _ranking_slopes(loss, y, weights)
    found = collect_members(weights, None, len(y))
    labels, s = y[found.rows], found.weights
    if loss.name == "roc_area":
        positive = labels > 0.0
        of_class = np.where(positive, s[positive].sum(), s[~positive].sum())
        slopes[found.rows] = s / of_class
    elif loss.name in _COUNTED:
        slopes[found.rows] = 1.0 / len(found.rows)
    else:  # a hinge for each threshold between the classes
        slopes[found.rows] = y.max() * s / s.sum()
    return slopes


def _ranking_slopes(loss: RankingLoss, y: Vector, weights: Vector | None) -> Vector:
    found = loss.rankable_members(y, weights)
    slopes = np.zeros(len(y))
    group, first, labels = found.group, found.starts[:-1], y[found.rows]
    share = (found.group_weights / found.group_weights.sum())[group]

    def total(numbers: Vector) -> Vector:
        return np.asarray(np.add.reduceat(numbers, first)[group])

    if loss.name == "pairwise":
        s = found.weights
        order = np.lexsort((labels, group))
        opens = np.append(True, (np.diff(labels[order]) != 0) | (np.diff(group[order]) != 0))
        same = np.empty(len(s))
        same[order] = np.add.reduceat(s[order], np.flatnonzero(opens))[np.cumsum(opens) - 1]
        others = total(s) - same
        found_slopes = 2.0 * s * others / total(s * others)  # each pair is there twice
    elif loss.name == "lambda_ndcg":
        # |gain_i - gain_j| summed over j is at most that of both.
        gains = gain(labels)
        best, _ = loss.ideal_order(labels, found, len(labels))  # type: ignore[attr-defined]
        found_slopes = MAX_DISCOUNT_STEP / best[group] * (total(np.ones(len(gains))) * gains + total(gains))
    elif loss.name == "mrr":
        relevant = (labels > 0.0).astype(np.float64)
        found_slopes = 1.0 / np.where(relevant > 0.0, total(relevant), total(1.0 - relevant))
    else:  # ndcg: differences of discounts, which are at most 1
        found_slopes = np.ones(len(labels))
    slopes[found.rows] = share * found_slopes
    return slopes


def column_sums(X: Csr | NDArray[Any], rows: Vector, *, squares: bool, threads: int) -> Vector:
    """Return the sum of the sizes of the values of each column, or of their squares, times weights of rows.

    Examples
    --------
    >>> import numpy as np
    >>> column_sums(np.array([[1.0, -2.0], [0.0, 4.0]]), np.array([1.0, 0.5]), squares=False, threads=1)
    array([1., 4.])
    """
    if isinstance(X, Csr):
        if X.data is None:
            return column_sums(
                X._replace(data=np.ones(X.nnz, np.float32)), rows, squares=squares, threads=threads
            )
        return _svmlight.column_sums(
            X.indptr,
            X.indices,
            X.data,
            np.ascontiguousarray(rows),
            X.shape[1],
            squares=squares,
            threads=threads,
        )
    sums = np.zeros(X.shape[1])
    step = max(1, DENSE_ROWS // X.shape[1])
    for first in range(0, X.shape[0], step):
        part = X[first : first + step].astype(np.float64)
        sizes = np.square(part) if squares else np.abs(part)
        sums += (rows[first : first + step, None] * sizes).sum(axis=0)
    return sums


def matrix_sums(matrix: Any, rows: Vector, *, squares: bool, negative: bool) -> Vector:
    """Return what `column_sums` does, or more, of an X that is on a device alone.

    Parameters
    ----------
    matrix : Matrix
    rows : ndarray of shape (m,)
    squares : bool
    negative : bool
        Whether some value may be below 0.
    """
    m = matrix.shape[0]
    whole = m * np.asarray(matrix.mean_squares)
    most = float(rows.max(initial=0.0))
    if squares:
        return np.asarray(most * whole)
    sums = np.asarray(math.sqrt(dot(rows, rows)) * np.sqrt(whole))  # Cauchy and Schwarz
    if negative or not most:
        return sums
    scaled = COARSE * most * np.asarray(matrix.rmatvec(rows / most), np.float64)
    return np.asarray(np.fmin(sums, np.where(scaled >= 0.0, scaled, np.inf)))


class Rounding:
    """What rounding of X makes of the certificates of one loss, on some rows.

    Parameters
    ----------
    sums : ndarray of shape (n_features,)
        Of `column_sums` with the slopes of all rows, squares where the loss is one.
    weight : float
        Sum of these slopes.
    square : float
        As in `Slopes`.
    loss : str
    """

    def __init__(self, sums: Vector, weight: float, square: float, loss: str) -> None:
        if square:
            sums, weight = np.sqrt(sums), math.sqrt(weight)
        moved = UNIT * sums + TINY * weight
        self.columns = np.where(np.isnan(moved), np.inf, SLACK * moved)
        self.square = square
        self._sums_classes = loss in _SUMS_OF_CLASSES

    def of(self, w: Vector) -> float:
        """Return the most that the margins, as the loss takes them, move with these weights.

        Parameters
        ----------
        w : ndarray of shape (n_features,), or (n_features, K)
        """
        sizes = self._sizes(w)
        used = sizes > 0.0  # or a column that is not known would spoil the sum without a weight
        return SLACK * dot(self.columns[used], sizes[used])

    def _sizes(self, w: Vector) -> Vector:
        if w.ndim == 1:
            return np.abs(w)
        return np.asarray(np.abs(w).sum(axis=1) if self._sums_classes else np.ptp(w, axis=1))

    def bounds(
        self, objective: float, lower_bound: float, w: Vector, penalty: Regularizer, floor: float
    ) -> Bounds:
        """Return what the certificate of a solve is for the numbers of the file.

        Parameters
        ----------
        objective, lower_bound : float
            Of the problem of the stored numbers.
        w : ndarray of shape (n_features,), or (n_features, K)
            Where the objective was found.
        penalty : Regularizer
        floor : float
            A number that no risk on these rows is below.

        Returns
        -------
        Bounds
            The bound is the floor, or minus infinity, where no more is known.
        """
        at, k = self.of(w), self.square
        more = k * at * (2.0 * math.sqrt(max(objective, 0.0) / k) + at) if k else at
        upper = objective + SLACK * more
        strengths = _strengths(penalty, w)
        reach = self._reach(upper - floor, *strengths)
        steep = 1.0
        if k:
            # Neither at w nor at the optimum are rows farther away than the objective has room for.
            steep = k * (2.0 * math.sqrt(max(upper, 0.0) / k) + max(reach, at))
        near = self._near(objective - lower_bound, steep, at, strengths.l2, w.shape)
        less = SLACK * min(steep * reach, near) if self.columns.any() else 0.0
        lower = max(floor, lower_bound - less) if less else lower_bound
        moved = lower_bound - lower if math.isfinite(lower) else 0.0
        return Bounds(upper, lower, upper - objective + moved)

    def _reach(self, room: float, l1: Vector, l2: Vector, prior: Vector) -> float:
        """Return the most that margins move with weights whose penalty is no more than there is room for."""
        if not room < math.inf:
            return math.inf
        room, moved = max(room, 0.0), self.columns > 0.0
        with np.errstate(divide="ignore"):
            by_l1 = float((self.columns[moved] / l1[moved]).max(initial=0.0)) * room
        by_l2 = self._length(l2, prior.shape) * math.sqrt(2.0 * room)
        return SLACK * (self.of(prior) + min(by_l1, by_l2))

    def _near(self, gap: float, steep: float, at: float, l2: Vector, shape: tuple[int, ...]) -> float:
        """Return the most that the risk moves at the optimum, from how far away that can be."""
        slope, room = steep * self._length(l2, shape), gap + 2.0 * steep * at
        if not (math.isfinite(slope) and math.isfinite(room)):
            return math.inf
        # The excess g of J at w is at most room + slope sqrt(2 g), and the distance to the optimum sqrt(2 g).
        distance = slope + math.sqrt(slope**2 + 2.0 * max(room, 0.0))
        return SLACK * (steep * at + slope * distance)

    def _length(self, l2: Vector, shape: tuple[int, ...]) -> float:
        """Return the most that margins move with weights whose squares, l2 times, add up to 1."""
        moved = self.columns > 0.0
        with np.errstate(divide="ignore"):
            parts = self.columns[moved] / np.sqrt(l2[moved])
        several = shape[1:]  # the norm of a row of weights that moves the loss by 1
        return math.sqrt(dot(parts, parts)) * math.sqrt(
            (several[0] if self._sums_classes else 2.0) if several else 1.0
        )


class _Strengths(NamedTuple):
    """The least factors of ``|w_j - w0_j|``, and of half its square, of each feature; and w0."""

    l1: Vector
    l2: Vector
    prior: Vector


def _strengths(penalty: Regularizer, w: Vector) -> _Strengths:
    """Return those of the features alone: intercepts that are penalised stand behind them."""
    zeros = np.zeros(w.size)
    if penalty.terms is None:
        curvature = penalty.curvature
        l2 = zeros + (curvature if isinstance(curvature, float) else curvature[: w.size])
        l1, prior = zeros, penalty.prior
    else:
        l1, l2, prior = (part[: w.size] for part in penalty.terms[:3])
    return _Strengths(
        l1.reshape(len(w), -1).min(axis=1),
        l2.reshape(len(w), -1).min(axis=1),
        (zeros if prior is None else prior[: w.size]).reshape(w.shape),
    )
