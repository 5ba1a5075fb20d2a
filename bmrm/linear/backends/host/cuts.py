"""Cuts whose gradients are in main memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector, dot, dot_rows
from bmrm.linear.bundle._qp import combine, gram
from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.objective.passes import Subgradients
from bmrm.linear.regularizers import Regularizer

RESERVE_FACTOR = 8
"""Factor by which address space is reserved in advance: each time it ends, all cuts must be copied."""


class HostCuts:
    """Gradients of cuts in one array.

    ``metric``, shape (width,), has the weights of the features in products of gradients; None for 1.
    """

    whole = True
    hands_over = False

    def __init__(self, width: int, threads: int, metric: Vector | None = None) -> None:
        self.width, self.threads, self.metric, self.size = width, threads, metric, 0
        self._rows = np.empty((0, width))

    @property
    def most(self) -> int:
        return CUT_BYTES // (8 * self.width)

    @property
    def nbytes(self) -> int:
        return 8 * self.width * self.size

    def reserve(self, capacity: int) -> None:
        if capacity <= len(self._rows):
            return
        # Reserved pages that nobody writes to take no memory.
        rows = np.empty((max(capacity, min(RESERVE_FACTOR * capacity, self.most)), self.width))
        rows[: self.size] = self._rows[: self.size]
        self._rows = rows

    def append(self, planes: Subgradients) -> Vector:
        gradients = planes.gradients
        assert isinstance(gradients, np.ndarray)
        first, self.size = self.size, self.size + len(gradients)
        self._rows[first : self.size] = gradients
        return self._products(self._rows[first : self.size], self.metric).T

    def append_level(self, count: int) -> Vector | None:
        return self.put(np.zeros((count, self.width)))

    def _products(self, gradients: Vector, metric: Vector | None) -> Vector:
        """Products of all cuts with some of them."""
        weighed = gradients if metric is None else metric * gradients
        return gram(self._rows[: self.size], weighed, threads=self.threads)

    def change_metric(self, metric: Vector) -> Vector:
        products = self._products(self._rows[: self.size], metric)
        self.metric = metric
        return products

    def minimise(self, reg: Regularizer, alpha: Vector, near: Vector) -> tuple[Vector, float]:
        a = np.empty(self.width)
        combine(self._rows[: len(alpha)], alpha, a, threads=self.threads)
        w = reg.minimiser(a)
        return w, reg.value(w) + dot(w, a)

    def products(self, w: Vector) -> tuple[Vector, Vector, None]:
        return w, dot_rows(self._rows[: self.size], w), None

    def combined_length(self, w: Vector) -> float:
        return 0.0

    def move(self, to: int, source: int) -> None:
        self._rows[to] = self._rows[source]

    def merge(self, i: int, j: int, share: float) -> None:
        self._rows[i] = share * self._rows[i] + (1.0 - share) * self._rows[j]

    def get(self) -> Vector:
        return self._rows[: self.size]

    def only(self, kept: NDArray[np.intp]) -> HostCuts:
        return HostCuts.of(self.taken(kept), self.threads, self.metric)

    @classmethod
    def of(cls, gradients: Vector, threads: int, metric: Vector | None = None) -> HostCuts:
        """Make a store from an array of gradients, without a copy."""
        cuts = cls(gradients.shape[1], threads, metric)
        cuts._rows, cuts.size = gradients, len(gradients)
        return cuts

    def taken(self, numbers: NDArray[np.intp]) -> Vector:
        return self._rows[numbers]

    def put(self, gradients: Vector) -> Vector:
        unknown = np.full(len(gradients), np.nan)
        return self.append(Subgradients(gradients, None, unknown, unknown, unknown))
