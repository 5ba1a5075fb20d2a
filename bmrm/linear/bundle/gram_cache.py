"""Products of cuts over the features that move, kept from one inner problem to the next.

A Newton step of `bmrm.linear.bundle.inner_qp.piecewise` needs ``A W A'`` with W the reciprocal curvature of
the features that move and 0 for the others.  Near the optimum few features begin or cease to move, and few
cuts come and go: so the last matrix is kept, and only what these change is added to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector
from bmrm.linear.bundle._qp import gram

MAX_CHANGED_SHARE = 0.25
"""Maximum number of features whose weight changes, as a share of those that move, that is worth an update:
with more the products are formed again."""

MIN_CACHED_OPERATIONS = 1 << 22
"""Multiply-adds of all products from which on they are kept: with fewer they are formed each time."""


class GramCache:
    """``A W A'`` of the cuts of one solve, up to a common factor of the weights."""

    def __init__(self) -> None:
        self._gram = np.empty((0, 0))
        self._serials: Indices = np.empty(0, np.int64)
        self._weights = np.empty(0)
        self._taken_away = 0.0

    def update(self, cuts: Vector, serials: Indices, weights: Vector, threads: int) -> Vector:
        """Return the products of all pairs of cuts, in the first rows and columns; valid until the next call.

        - ``cuts``, shape (cuts, n_features)
        - ``serials``, shape (cuts,): a number for each cut that no other cut ever has
        - ``weights``, shape (n_features,): of the features, at least 0
        """
        moving = np.count_nonzero(weights)
        if len(serials) ** 2 * moving <= MIN_CACHED_OPERATIONS:
            self._form(cuts, serials, weights, threads)
            return self._gram
        changed = np.flatnonzero(weights != self._weights) if len(self._weights) else None
        old = self._places(serials)
        fresh = np.flatnonzero(old < 0)
        if changed is None or len(changed) > MAX_CHANGED_SHARE * moving or len(fresh) > len(serials) // 2:
            self._form(cuts, serials, weights, threads)
        else:
            self._arrange(old, serials)
            self._change(cuts, changed, weights, fresh, threads)
            if len(fresh):
                self._append(cuts, fresh, threads)
            # Subtracted products leave their rounding.
            if self._taken_away > float(np.trace(self._gram[: len(serials), : len(serials)])):
                self._form(cuts, serials, weights, threads)
        return self._gram

    def _places(self, serials: Indices) -> NDArray[np.intp]:
        n = len(self._serials)
        if n <= len(serials) and np.array_equal(self._serials, serials[:n]):
            return np.concatenate([np.arange(n), np.full(len(serials) - n, -1)])
        if not n:
            return np.full(len(serials), -1)
        order = np.argsort(self._serials)
        at = order[np.minimum(np.searchsorted(self._serials[order], serials), n - 1)]
        return np.where(self._serials[at] == serials, at, -1)

    def _form(self, cuts: Vector, serials: Indices, weights: Vector, threads: int) -> None:
        n = len(serials)
        self._reserve(n)
        self._gram[:n, :n] = _products(cuts, np.flatnonzero(weights), weights, threads)
        self._serials, self._weights, self._taken_away = serials.copy(), weights, 0.0

    def _reserve(self, n: int) -> None:
        if n > len(self._gram):
            self._gram = np.zeros((2 * n, 2 * n))

    def _arrange(self, old: NDArray[np.intp], serials: Indices) -> None:
        """Move the products to the positions that the cuts have now."""
        n, known = len(serials), np.flatnonzero(old >= 0)
        if len(self._serials) > n or n > len(self._gram) or (old[known] != known).any():
            products = self._gram[np.ix_(old[known], old[known])]
            self._reserve(n)
            self._gram[np.ix_(known, known)] = products
        self._serials = serials.copy()

    def _change(
        self,
        cuts: Vector,
        changed: NDArray[np.intp],
        weights: Vector,
        fresh: NDArray[np.intp],
        threads: int,
    ) -> None:
        """Change the weight of some features, except in the products of new cuts."""
        n, more = len(cuts), weights - self._weights
        for features, sign in ((changed[more[changed] > 0.0], 1.0), (changed[more[changed] < 0.0], -1.0)):
            if not len(features):
                continue
            products = _products(cuts, features, np.abs(more), threads)
            if sign < 0.0:
                products[fresh, fresh] = 0.0
                self._taken_away += float(np.trace(products))
            self._gram[:n, :n] += sign * products
        self._weights = weights

    def _append(self, cuts: Vector, fresh: NDArray[np.intp], threads: int) -> None:
        n = len(cuts)
        products = gram(cuts, cuts[fresh] * self._weights, threads=threads)
        self._gram[:n, fresh], self._gram[fresh, :n] = products, products.T


def _products(cuts: Vector, features: NDArray[np.intp], weights: Vector, threads: int) -> Vector:
    if 2 * len(features) > cuts.shape[1]:
        scaled = cuts * np.sqrt(weights)
    else:
        scaled = cuts[:, features] * np.sqrt(weights[features])
    return gram(scaled, scaled, threads=threads)
