"""The passes and the cuts of a solve in the space of rows, for X with fewer rows than columns.

Under the l2 penalty every point of a solve is ``w = X' rho + c w_0``, a combination of rows and of the point
where it started, and the gradient of a cut is ``a = X' r`` (the representer theorem; Kimeldorf, Wahba, Ann.
Math. Stat. 41 (1970) 495).  So a point is kept as its coefficients ``(rho, c)`` together with its products
``(X w, <w_0, w>)``, a cut as ``(r, 0)`` and ``(X a, <w_0, a>)``; the inner product of two is that of the
coefficients of one with the products of the other.  A pass still makes two products with X, ``X' r`` and then
``X a`` instead of ``X w``. All vectors are as long as X has rows; a gradient of a text with a million words
would have a million entries.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, dot, dot_rows, norm
from bmrm.linear.backends.host.passes import HostPasses
from bmrm.linear.bundle._qp import combine, gram
from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.objective.passes import DesignOperator, Subgradients
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.regularizers.separable import StraightLine
from bmrm.losses.base import RowRisk

COEFFICIENTS, PRODUCTS = 0, 1


def inner(x: Vector, y: Vector) -> float:
    """Return the inner product of two points, or gradients, each of shape (2, rows + 1)."""
    return dot(x[COEFFICIENTS], y[PRODUCTS])


def _combined(operator: DesignOperator, rho: Vector, out: Vector | None = None) -> Vector:
    combined = np.empty((1, operator.shape[1])) if out is None else out
    operator.rmatvec_blocks(np.ascontiguousarray(rho), np.array([0, operator.shape[0]], np.int64), combined)
    return np.asarray(combined[0])


class RowPasses(HostPasses):
    """`bmrm.linear.objective.passes.Passes` with points as combinations of rows.

    The cuts are of the same operator.
    """

    whole = False

    def __init__(self, operator: DesignOperator, risk: RowRisk, cuts: RowCuts) -> None:
        super().__init__(operator, risk, threads=cuts.threads)
        self.cuts = cuts
        self._start = np.zeros(operator.shape[1])
        self._last = self._start, self._start, 0.0
        """The last point from a new product, its weights, and their square."""
        self._gradient = np.empty((1, operator.shape[1]))

    def weights(self, w: Vector) -> Vector:
        rows, _ = self.operator.shape
        point = np.zeros((2, rows + 1))
        if w.any():
            self._start = w
            point[COEFFICIENTS, rows] = 1.0
            point[PRODUCTS, :rows], point[PRODUCTS, rows] = super().margins(w), dot(w, w)
            self.cuts.start_at(point[PRODUCTS, :rows])
        return point

    def column_lengths(self, squares: Vector) -> float:
        return float(np.sqrt(squares.sum()))

    def size(self, w: Vector, lengths: Vector | float) -> float:
        return float(lengths) * math.sqrt(max(0.0, inner(w, w)))

    def array(self, w: Vector) -> Vector:
        point, array, _ = self._last
        if w is point:
            return array
        rho, c = w[COEFFICIENTS, :-1], float(w[COEFFICIENTS, -1])
        if not rho.any():  # where most solves start
            return c * self._start
        array = _combined(self.operator, rho)
        if c != 0.0:
            array += c * self._start
        return array

    def margins(self, w: Vector) -> Vector:
        """``X w``, from the products of the cuts."""
        return w[PRODUCTS, :-1].copy()

    def fresh(self, w: Vector) -> tuple[Vector, Vector]:
        array = self.array(w)
        z = super().margins(array)
        point = np.stack([w[COEFFICIENTS], np.append(z, dot(self._start, array))])
        self._last = point, array, dot(array, array)
        return point, z

    def penalty(self, reg: Regularizer, w: Vector) -> float:
        """``lam/2 |w|^2``; for a point from a new product, from its weights, since nothing cancels there."""
        point, _, square = self._last
        return 0.5 * reg.lam * (square if w is point else inner(w, w))

    def penalty_line(self, reg: Regularizer, w: Vector, end: Vector) -> StraightLine:
        dw = end - w
        return StraightLine(reg.lam * inner(w, dw), reg.lam * inner(dw, dw))

    def planes_of(self, r: Vector, starts: Indices, w: Vector) -> Subgradients:
        """Return the cutting plane in the form that `RowCuts` keeps; there is only one block."""
        self._keep(r)
        cut = np.zeros((2, w.shape[1]))
        cut[COEFFICIENTS, :-1] = r
        with self._timed():
            gradient = _combined(self.operator, r, self._gradient)
        cut[PRODUCTS, :-1] = super().margins(gradient)
        cut[PRODUCTS, -1] = self.cuts.along_start(r)
        unknown = np.full(1, np.nan)
        return Subgradients(cut.reshape(1, -1), None, np.array([inner(cut, w)]), unknown, unknown)


class RowCuts:
    """Cuts as combinations of rows, with the margins of their gradients."""

    hands_over = whole = False
    metric: Vector | None = None

    def __init__(self, operator: DesignOperator, threads: int) -> None:
        self.operator, self.threads, self.size = operator, threads, 0
        self.width = operator.shape[1]
        self._kept = np.empty((2, 0, operator.shape[0] + 1))
        self._start_margins = np.zeros(operator.shape[0])

    @property
    def most(self) -> int:
        return CUT_BYTES // (16 * self._kept.shape[2])

    @property
    def nbytes(self) -> int:
        return int(self._kept.nbytes)

    def start_at(self, margins: Vector) -> None:
        """Set the margins of the point at which a solve starts."""
        self._start_margins = margins
        for k in range(self.size):
            self._kept[PRODUCTS, k, -1] = self.along_start(self._kept[COEFFICIENTS, k, :-1])

    def along_start(self, r: Vector) -> float:
        """``<w_0, X' r>``."""
        return dot(r, self._start_margins)

    def reserve(self, capacity: int) -> None:
        kept = np.empty((2, capacity, self._kept.shape[2]))
        kept[:, : self._kept.shape[1]] = self._kept
        self._kept = kept

    def append(self, planes: Subgradients) -> Vector:
        assert isinstance(planes.gradients, np.ndarray)
        new = self.size
        self._kept[:, new] = planes.gradients.reshape(2, -1)
        self.size += 1
        products = np.empty((self.size, 1))
        gram(
            self._kept[COEFFICIENTS, : self.size],
            self._kept[PRODUCTS, new : self.size],
            products,
            threads=self.threads,
        )
        return products.T

    def append_level(self, count: int) -> Vector:
        zero = np.zeros(count)
        return self.append(Subgradients(np.zeros((count, 2 * self._kept.shape[2])), None, zero, zero, zero))

    def minimise(self, reg: Regularizer, alpha: Vector, near: Vector) -> tuple[Vector, float]:
        n = len(alpha)
        a = np.stack([combine(half[:n], alpha, threads=self.threads) for half in self._kept])
        w = reg.minimiser(a)
        return w, 0.5 * reg.lam * inner(w, w) + inner(a, w)

    def products(self, w: Vector) -> tuple[Vector, Vector, float]:
        """Return a minimiser with newly made products, its products with the cuts, and its square."""
        rows, _ = self.operator.shape
        rho = w[COEFFICIENTS, :-1]
        array, z = _combined(self.operator, rho), np.zeros(rows)
        self.operator.matvec(array, z)
        made = np.stack([w[COEFFICIENTS], np.append(z, self.along_start(rho))])
        return made, dot_rows(self._kept[COEFFICIENTS, : self.size, :-1], z), dot(array, array)

    def combined_length(self, w: Vector) -> float:
        return norm(w[COEFFICIENTS, :-1])

    def move(self, to: int, source: int) -> None:
        self._kept[:, to] = self._kept[:, source]

    def merge(self, i: int, j: int, share: float) -> None:
        self._kept[:, i] = share * self._kept[:, i] + (1.0 - share) * self._kept[:, j]

    def get(self) -> Vector:
        return self.taken(np.arange(self.size))

    def only(self, kept: NDArray[np.intp]) -> RowCuts:
        return RowCuts.of(self.operator, self._kept[:, kept], self.threads)

    @classmethod
    def of(cls, operator: DesignOperator, kept: Vector, threads: int) -> RowCuts:
        """Make a store from an array of shape (2, cuts, rows + 1), without a copy."""
        cuts = cls(operator, threads)
        cuts._kept, cuts.size = kept, kept.shape[1]
        return cuts

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        gradients = np.empty((len(numbers), self.width))
        for k, number in enumerate(numbers):
            gradients[k] = _combined(self.operator, self._kept[COEFFICIENTS, number, :-1])
        return gradients

    def put(self, gradients: Vector) -> Vector:
        raise NotImplementedError("cuts that are combinations of rows cannot be made from gradients")

    def change_metric(self, metric: Vector) -> Vector:
        raise NotImplementedError("cuts that are combinations of rows have no other metric")
