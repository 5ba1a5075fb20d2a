"""Anderson's acceleration of a fixed-point iteration, from inner products alone.

Given images g_j = T(x_j) and residuals f_j = g_j - x_j, j = 0 the newest, the next point is the mixture
sum_j a_j g_j, sum_j a_j = 1, whose residual sum_j a_j f_j is shortest (Anderson, J. ACM 12 (1965) 547;
Walker, Ni, SIAM J. Numer. Anal. 49 (2011) 1715). In differences to the newest residual this is a
least-squares problem with a few unknowns. Its normal equations come from the inner products of the residuals.
They are solved by eigenvalues, and directions that rounding has taken over are left out. The method only
proposes points: bounds come from the residual of the point that it leads to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector

CUTOFF = 1e-11
"""Eigenvalues of the scaled normal equations below this share of the largest are rounding: the products come
from differences of residuals, which keep half of the digits or more."""


class History:
    """The images that a mixture may use, and the inner products of their residuals.

    Parameters
    ----------
    differences : int
        Maximum number of differences of residuals.
    """

    def __init__(self, differences: int) -> None:
        self._limit = differences + 1
        self.slots: list[int] = []
        self._products: dict[tuple[int, int], Vector] = {}

    @property
    def earlier(self) -> list[int]:
        """Slots of the residuals that the next one must be multiplied by."""
        return self.slots[: self._limit - 1]

    def clear(self) -> None:
        """Forget all images except the newest."""
        del self.slots[1:]

    def add(self, slot: int, products: Vector) -> None:
        """Add the newest image with the products of its residual with itself and with `earlier`."""
        kept = self.earlier if len(products) > 1 else []
        self.slots = [slot, *kept]
        for other, product in zip(self.slots, products, strict=True):
            self._products[slot, other] = self._products[other, slot] = product

    def keep(self, columns: Sequence[int]) -> None:
        """Go on with some columns only."""
        self._products = {pair: product[list(columns)] for pair, product in self._products.items()}

    def factors(self, plain: NDArray[np.bool_]) -> Vector | None:
        """Return the factors of the images in `slots`, shape (slots, columns); None if there is only one.

        Parameters
        ----------
        plain : ndarray of bool, shape (columns,)
            Columns that take the newest image as it is.
        """
        if len(self.slots) == 1:
            return None
        products = np.array([[self._products[i, j] for j in self.slots] for i in self.slots])
        newest, others = products[0, 0], products[1:, 0] - products[0, 0]  # <f_0, f_0>, <f_j - f_0, f_0>
        gram = products[1:, 1:] - products[1:, :1] - products[:1, 1:] + newest
        inner = _solve(np.moveaxis(gram, -1, 0), -others.T)
        inner[plain] = 0.0
        return np.ascontiguousarray(np.vstack([1.0 - inner.sum(1), inner.T]))


def _solve(gram: Vector, right: Vector) -> Vector:
    """Solve small positive semidefinite systems, shapes (columns, p, p) and (columns, p)."""
    diagonal = np.einsum("kii->ki", gram)
    size = np.sqrt(np.maximum(diagonal, 0.0))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = gram * inverse[:, :, None] * inverse[:, None, :]
    usable = np.isfinite(scaled).all((1, 2))
    values, vectors = np.linalg.eigh(np.where(usable[:, None, None], scaled, 0.0))
    good = values > CUTOFF * np.maximum(values[:, -1:], 1e-300)
    weights = np.divide(1.0, values, out=np.zeros_like(values), where=good)
    turned = np.einsum("kij,ki->kj", vectors, right * inverse) * weights
    found: Vector = np.einsum("kij,kj->ki", vectors, turned) * inverse
    found[~np.isfinite(found).all(1)] = 0.0
    return found
