"""Certificates for the numbers of a file, from a solve on the nearest float32 numbers.

Let x be the numbers of the file and z the stored ones.  Rounding to nearest moves each by at most

    |x_ij - z_ij| <= UNIT_ROUNDOFF |z_ij| + UNDERFLOW_UNIT.

This moves a margin by at most ``sum_j |w_j| |x_ij - z_ij|``.  If the derivative of the risk with respect to
the margin of row i is at most g_i in absolute value, the risk moves by

    |R_x(w) - R_z(w)| <= sum_j c_j |w_j| =: E(w),
    c_j = sum_i g_i (UNIT_ROUNDOFF |z_ij| + UNDERFLOW_UNIT).

These c_j are sums over the rows, not the largest error of a column: a column with few values moves few
margins, and for text data the sum of the largest errors of all columns is far more than E.

So the objective is ``J_x(w) <= J_z(w) + E(w)``.  Let w* be the minimiser of J_x. The minimum is at least the
lower bound of the solve minus E(w*).  w* is not known, but it is not far from w (P is the penalty, w0 its
prior mean):

- ``P(w*) <= J_x(w*) - floor <= J_x(w) - floor``, because no risk is below its floor.
- If P has curvature, ``J_x(w) >= J_x(w*) + sum_j l2_j (w_j - w*_j)^2 / 2``, and ``J_x(w) - J_x(w*)`` is at
  most the gap of the solve plus E(w) + E(w*): a quadratic inequality for the distance.

Each gives a bound of E(w*), and the smaller one is subtracted from the lower bound.

Squared losses have no such g_i, but the root of their risk does: it is a norm of the distances of the rows to
the region where the loss is 0, and moves by at most ``rho(w) = sum_j r_j |w_j|``, where r_j is the root mean
square of ``UNIT_ROUNDOFF |z_ij| + UNDERFLOW_UNIT``.  So ``R = k m^2`` moves by at most ``k (2 m + rho) rho``,
where m^2 <= J_x / k.

With several margins per row, |w_j| becomes the range of w_jc over the classes c if the loss depends on
differences of margins, and the sum of |w_jc| if it is a sum over the classes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector, dot
from bmrm.errors import ParameterError
from bmrm.io import _svmlight
from bmrm.io.csr import Csr
from bmrm.io.data import Data
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.progress import FileBounds, Progress
from bmrm.linear.solvers.settings import Callback, absolute_tol
from bmrm.losses import JointLoss, Loss, NamedLoss
from bmrm.losses.joint import collect_members
from bmrm.losses.ranking import MAX_DISCOUNT_STEP, RankingLoss, gain
from bmrm.matrix.dataset import Dataset

if TYPE_CHECKING:
    from bmrm.linear.problem import TrainingProblem
    from bmrm.linear.result import Result

UNIT_ROUNDOFF = 2.0**-24
"""Rounding to a normal float32 number moves a number by at most this share of the result."""

UNDERFLOW_UNIT = 2.0**-150
"""Rounding to a number below float32's normal numbers moves a number by at most this."""

FLOAT64_SAFETY = 1.0 + 1e-9
"""Bounds are multiplied by this, for the rounding errors of their own sums."""

FLOAT32_SAFETY = 2.0
"""Factor for products of nonnegative numbers that a GPU sums in float32: its sums are never sequences so long
that rounding could halve them."""

MAX_ROUNDING_SHARE = 0.5
"""Maximum share of the tolerance used up by rounding with which training continues on the same values."""

DENSE_CHUNK_VALUES = 1 << 16
"""Number of values of a dense X that are processed at a time: half a megabyte as float64, in the cache."""


class Slopes(NamedTuple):
    """How fast a risk moves with the margins of each row."""

    rows: Vector
    """Shape (m,): the largest absolute value of the derivative; for a squared loss, the row's share of the
    mean."""
    square: float = 0.0  # k if the risk is k times a mean square, otherwise 0


_MAX_SLOPES: dict[str, Callable[[float], float]] = {
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
"""The maximum absolute derivative of a row's loss, as a function of its parameter."""

_SQUARE_FACTORS = {"squared": 0.5, "squared_hinge": 1.0, "squared_epsilon_insensitive": 1.0}
"""k of the losses that are k times a square."""

_SUMS_OF_CLASSES = ("multilabel",)
"""Losses that are sums over the classes; other losses of several margins depend on differences of margins."""

_CONTINGENCY = ("f_beta", "precision_at_k", "recall_at_k", "prbep")
"""Losses of the contingency table, in which every row has the derivative 1/m at most."""


def bounded(loss: Loss | type[Loss], *, alone: bool = True) -> bool:
    """Return whether a bound is known for how far rounding of X moves the risk; for exp(margin) none is.

    For a joint loss all rows must be in one process (``alone``): its derivatives depend on all margins.

    Examples
    --------
    >>> from bmrm import losses
    >>> [bounded(losses.get(name)) for name in ("hinge", "squared", "pairwise", "poisson")]
    [True, True, True, False]
    """
    joint = isinstance(loss, JointLoss) or (isinstance(loss, type) and issubclass(loss, JointLoss))
    return alone if joint else loss.name in _MAX_SLOPES or loss.name in _SQUARE_FACTORS


def check_bounded(loss: Loss, *, alone: bool) -> None:
    """Raise `ParameterError` if no bound is known for values that reading has rounded."""
    if not bounded(loss, alone=alone):
        where = "" if alone else " on several ranks"
        raise ParameterError(
            f"loss {loss.name}: has no certificate{where} for values that float32 has rounded; "
            "read them as float64"
        )


def slopes_of(loss: Loss, y: Vector, weights: Vector | None, total: float) -> Slopes:
    """Return how fast the risk of some rows moves with their margins.

    - ``loss``: a `bounded` loss, with the groups of the rows if it needs them
    - ``y``, shape (m,), or (m, K): coded labels of the rows
    - ``weights``, shape (m,), or None
    - ``total``: sum of the weights of all rows, of which these may be a part

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
    if loss.name in _SQUARE_FACTORS:
        return Slopes(share, _SQUARE_FACTORS[loss.name])
    return Slopes(_MAX_SLOPES[loss.name](loss.parameter_value) * share)


def _joint_slopes(loss: JointLoss, y: Vector, weights: Vector | None) -> Vector:
    """Return the maximum absolute derivative of a joint risk with respect to each row's margin."""
    slopes = np.zeros(len(y))
    if isinstance(loss, RankingLoss):
        return _ranking_slopes(loss, y, weights)
    found = collect_members(weights, None, len(y))
    labels, s = y[found.rows], found.weights
    if loss.name == "roc_area":
        positive = labels > 0.0
        of_class = np.where(positive, s[positive].sum(), s[~positive].sum())
        slopes[found.rows] = s / of_class
    elif loss.name in _CONTINGENCY:
        slopes[found.rows] = 1.0 / len(found.rows)
    else:  # a hinge per threshold between the classes
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
        found_slopes = 2.0 * s * others / total(s * others)  # the total counts each pair twice
    elif loss.name == "lambda_ndcg":
        # |gain_i - gain_j| is at most gain_i + gain_j, summed over j.
        gains = gain(labels)
        best, _ = loss.ideal_order(labels, found, len(labels))  # type: ignore[attr-defined]
        found_slopes = MAX_DISCOUNT_STEP / best[group] * (total(np.ones(len(gains))) * gains + total(gains))
    elif loss.name == "mrr":
        relevant = (labels > 0.0).astype(np.float64)
        found_slopes = 1.0 / np.where(relevant > 0.0, total(relevant), total(1.0 - relevant))
    else:  # ndcg: differences of discounts are at most 1
        found_slopes = np.ones(len(labels))
    slopes[found.rows] = share * found_slopes
    return slopes


def column_sums(X: Csr | NDArray[Any], rows: Vector, *, squares: bool, threads: int) -> Vector:
    """Return, per column, the sum of absolute values, or of squares, times the weights ``rows`` of the rows.

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
    step = max(1, DENSE_CHUNK_VALUES // X.shape[1])
    for first in range(0, X.shape[0], step):
        part = X[first : first + step].astype(np.float64)
        sizes = np.square(part, out=part) if squares else np.abs(part, out=part)
        sums += np.einsum("i,ij->j", rows[first : first + step], sizes)
    return sums


def matrix_sums(matrix: Any, rows: Vector, *, squares: bool, negative: bool) -> Vector:
    """Return upper bounds of the sums of `column_sums`, for an X that is only on a device.

    - ``rows``, shape (m,)
    - ``negative``: whether a value may be below 0
    """
    m = matrix.shape[0]
    whole = m * np.asarray(matrix.mean_squares)
    largest = float(rows.max(initial=0.0))
    if squares:
        return np.asarray(largest * whole)
    sums = np.asarray(math.sqrt(dot(rows, rows)) * np.sqrt(whole))  # Cauchy and Schwarz
    if negative or not largest:
        return sums
    scaled = FLOAT32_SAFETY * largest * np.asarray(matrix.rmatvec(rows / largest), np.float64)
    return np.asarray(np.fmin(sums, np.where(scaled >= 0.0, scaled, np.inf)))


class Rounding:
    """The effect of rounding X on the certificates of one loss, on some rows.

    - ``sums``, shape (n_features,): from `column_sums` with the slopes of all rows; of squares if the loss is
      a square
    - ``weight``: sum of these slopes
    - ``square``: as in `Slopes`

    Examples
    --------
    >>> rounding = Rounding(np.array([1.0, 1.0]), 1.0, 0.0, "hinge")
    >>> rounding.of(np.array([1.0, -1.0])) < 1.2e-7
    True
    """

    def __init__(self, sums: Vector, weight: float, square: float, loss: str) -> None:
        if square:
            sums, weight = np.sqrt(sums), math.sqrt(weight)
        moved = UNIT_ROUNDOFF * sums + UNDERFLOW_UNIT * weight
        self.columns = np.where(np.isnan(moved), np.inf, FLOAT64_SAFETY * moved)
        self.square = square
        self._sums_classes = loss in _SUMS_OF_CLASSES

    def of(self, w: Vector) -> float:
        """Return E(w), the maximum change of the risk; for a squared loss rho(w), of the root of the risk."""
        sizes = self._sizes(w)
        used = sizes > 0.0  # a column of unknown (infinite) size must not spoil the sum if its weight is 0
        return FLOAT64_SAFETY * dot(self.columns[used], sizes[used])

    def _sizes(self, w: Vector) -> Vector:
        if w.ndim == 1:
            return np.abs(w)
        return np.asarray(np.abs(w).sum(axis=1) if self._sums_classes else np.ptp(w, axis=1))

    def bounds(
        self, objective: float, lower_bound: float, w: Vector, penalty: Regularizer, floor: float
    ) -> FileBounds:
        """Convert the certificate of a solve to one for the file's numbers, with a bound not below the floor.

        - ``objective``, ``lower_bound``: the certificate for the stored numbers
        - ``w``, shape (n_features,), or (n_features, K): the point of the objective
        - ``floor``: a lower bound of the risk on these rows
        """
        at, k = self.of(w), self.square
        more = k * at * (2.0 * math.sqrt(max(objective, 0.0) / k) + at) if k else at
        upper = objective + FLOAT64_SAFETY * more
        strengths = _strengths(penalty, w)
        reach = self._reach(upper - floor, *strengths)
        steep = 1.0
        if k:
            # Both at w and at the optimum, the objective limits the distance m of the rows.
            steep = k * (2.0 * math.sqrt(max(upper, 0.0) / k) + max(reach, at))
        near = self._near(objective - lower_bound, steep, at, strengths[1], w.shape)
        less = FLOAT64_SAFETY * min(steep * reach, near) if self.columns.any() else 0.0
        lower = max(floor, lower_bound - less) if less else lower_bound
        moved = lower_bound - lower if math.isfinite(lower) else 0.0
        return FileBounds(upper, lower, upper - objective + moved)

    def _reach(self, room: float, l1: Vector, l2: Vector, prior: Vector) -> float:
        """Return the maximum of E over all weights with a penalty of at most ``room``."""
        if not room < math.inf:
            return math.inf
        room, moved = max(room, 0.0), self.columns > 0.0
        with np.errstate(divide="ignore"):
            by_l1 = float((self.columns[moved] / l1[moved]).max(initial=0.0)) * room
        by_l2 = self._length(l2, prior.shape) * math.sqrt(2.0 * room)
        return FLOAT64_SAFETY * (self.of(prior) + min(by_l1, by_l2))

    def _near(self, gap: float, steep: float, at: float, l2: Vector, shape: tuple[int, ...]) -> float:
        """Return the maximum change of the risk at the optimum, from its maximum distance to w."""
        slope, room = steep * self._length(l2, shape), gap + 2.0 * steep * at
        if not (math.isfinite(slope) and math.isfinite(room)):
            return math.inf
        # With g = J(w) - min J, g <= room + slope sqrt(2 g), and the distance to the optimum is <= sqrt(2 g).
        distance = slope + math.sqrt(slope**2 + 2.0 * max(room, 0.0))
        return FLOAT64_SAFETY * (steep * at + slope * distance)

    def _length(self, l2: Vector, shape: tuple[int, ...]) -> float:
        """Return the maximum of E over all weights with ``sum_j l2_j w_j^2 <= 1``."""
        moved = self.columns > 0.0
        with np.errstate(divide="ignore"):
            parts = self.columns[moved] / np.sqrt(l2[moved])
        several = shape[1:]  # the factor below: the maximum size of a row of weights of norm 1
        return math.sqrt(dot(parts, parts)) * math.sqrt(
            (several[0] if self._sums_classes else 2.0) if several else 1.0
        )


def _strengths(penalty: Regularizer, w: Vector) -> tuple[Vector, Vector, Vector]:
    """Return lower bounds, per feature, of the factors of ``|w_j - w0_j|`` and of half its square; and w0.

    Penalised intercepts, which come after the features, are left out.
    """
    zeros = np.zeros(w.size)
    if penalty.terms is None:
        curvature = penalty.curvature
        l2 = zeros + (curvature if isinstance(curvature, float) else curvature[: w.size])
        l1, prior = zeros, penalty.prior
    else:
        l1, l2, prior = (part[: w.size] for part in penalty.terms[:3])
    return (
        l1.reshape(len(w), -1).min(axis=1),
        l2.reshape(len(w), -1).min(axis=1),
        (zeros if prior is None else prior[: w.size]).reshape(w.shape),
    )


class RoundedRows:
    """Rows whose values were rounded when they were read, and certificates for the numbers of the file.

    Its methods are collective over the ranks of ``group``.

    - ``source``: the rows as they were read
    - ``matrix``: the same on their device
    - ``loss``, ``labels``, ``weights``, ``total``: as for `slopes_of`
    - ``floor``: a lower bound of the risk of the rows of all ranks
    """

    def __init__(
        self, source: Data, matrix: Any, loss: Loss, labels: Vector, weights: Vector | None, *,
        total: float, floor: float, group: Any = None,
    ) -> None:  # fmt: skip
        check_bounded(loss, alone=group is None)
        self._source, self._matrix, self._loss, self._labels = source, matrix, loss, labels
        self._weights, self._total, self._floor, self._group = weights, total, floor, group

    @cached_property
    def _rounding(self) -> Rounding:
        X, group = self._source.X, self._group
        slopes = slopes_of(self._loss, self._labels, self._weights, self._total)
        squares = slopes.square > 0.0
        if isinstance(getattr(X, "data", None), np.ndarray) or isinstance(X, np.ndarray):
            sums = column_sums(X, slopes.rows, squares=squares, threads=self._matrix.threads)
        else:
            negative = self._source.negative
            sums = matrix_sums(self._matrix, slopes.rows, squares=squares, negative=negative)
        weight = float(slopes.rows.sum())
        if group is not None:
            sums, weight = group.total(sums), float(group.total(np.array([weight]))[0])
        return Rounding(sums, weight, slopes.square, self._loss.name)

    def bounds(self, objective: float, lower_bound: float, w: Vector, penalty: Regularizer) -> FileBounds:
        """Return the certificate for the numbers of the file, from that for the stored ones."""
        found = self._rounding.bounds(objective, lower_bound, w, penalty, self._floor)
        return found if self._group is None else FileBounds(*self._group.everyones(tuple(found))[0])

    def certified(self, result: Result, penalty: Regularizer, tol: float) -> Result:
        """Return a result with the certificate for the numbers of the file.

        It is not converged if that is too wide for ``tol``, which may be more than the solve was given.
        """
        objective, lower_bound, rounding = self.bounds(
            result.objective, result.lower_bound, result.w, penalty
        )
        gap, status = objective - lower_bound, result.status
        if status == "converged" and rounding and gap > absolute_tol(tol, result.tol_kind, objective):
            status = "precision"
        return replace(
            result,
            objective=objective,
            lower_bound=lower_bound,
            gap=gap,
            status=status,
            tol=tol,
            rounding=rounding,
        )


class RoundedProblem:
    """A problem whose values reading has rounded: its certificates hold for the numbers of the file."""

    def __init__(self, problem: TrainingProblem, tol: float) -> None:
        data, self._penalty, self._tol = problem.data, problem.whole_penalty, tol
        assert isinstance(data, Dataset)
        assert data.source is not None
        if data.owned and getattr(data, "wanted_by", "all") != "all":
            raise ParameterError(
                "wanted_by: values that float32 has rounded need all weights on all ranks, expected 'all'"
            )
        self._rows = RoundedRows(
            data.source, data.matrix, problem.loss, problem.labels, data.weights,
            total=data.total_weight, floor=problem.floor, group=data.group,
        )  # fmt: skip

    def bounds(self, state: Progress) -> FileBounds:
        """Return the certificate of a running solve."""
        return self._rows.bounds(state.objective, state.lower_bound, state.best()[0], self._penalty)

    def certified(self, result: Result) -> Result:
        """Return a result with its certificate."""
        return self._rows.certified(result, self._penalty, self._tol)


def counted_from(before: int, callback: Callback | None) -> Callback | None:
    """Return a callback that counts iterations from ``before`` on."""
    if callback is None:
        return None
    return lambda state: callback(replace(state, iteration=before + state.iteration))


def with_work_of(first: Result, second: Result) -> Result:
    """Return the second of two results, with the iterations, history and timings of both."""
    timings = Counter(first.timings)
    timings.update(second.timings)
    later = [{**row, "iteration": first.n_iter + row["iteration"]} for row in second.history]
    return replace(
        second,
        n_iter=first.n_iter + second.n_iter,
        history=[*first.history, *later],
        timings=dict(timings),
    )
