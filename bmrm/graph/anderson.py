"""Anderson's acceleration of a fixed-point iteration, from inner products alone.

Given images g_j = T(x_j) and residuals f_j = g_j - x_j, j = 0 the newest, the next point is the mixture
sum_j a_j g_j, sum_j a_j = 1, whose residual sum_j a_j f_j is shortest (Anderson, J. ACM 12 (1965) 547;
Walker, Ni, SIAM J. Numer. Anal. 49 (2011) 1715). In differences to the newest residual this is a
least-squares problem with a few unknowns. Its normal equations come from the inner products of the
residuals. They are solved by eigenvalues, and directions that rounding has taken over are left out.

Only every fourth step is a mixture, the others are plain (alternating Anderson: Pratapa, Suryanarayana, Pask,
J. Comput. Phys. 306 (2016) 43). On real graphs that takes as many products as mixing at every step, or fewer
for high damping, and a fraction of the other work. Plain steps shrink every residual by the damping factor,
so a bad mixture is soon made good. The method only proposes points: bounds come from the residual of the
point that it leads to.
"""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector

DIFFERENCES = 5
"""Differences of residuals that a mixture uses. Products to 1e-8 for damping .85 and .95 on the graphs of
slashdot, Enron's mail and the web of trust: 312 in all with 3, 288 with 4, 282 with 5, 275 with 6."""

PERIOD = 4
"""Steps from one mixture to the next. The same sum with 1, 2, 3, 4, 5: 310, 313, 281, 282, 276."""

CUTOFF = 1e-11
"""Eigenvalues of the scaled normal equations below this share of the largest are rounding: the products come
from differences of residuals, which keep half of the digits or more."""


def mixture(products: Vector) -> Vector:
    """Return the factors of the images whose residuals have these inner products.

    Parameters
    ----------
    products : ndarray of float64, shape (images, images, columns)
        The newest image first.

    Returns
    -------
    ndarray of float64, shape (images, columns)
        With the sum 1 in each column.

    Examples
    --------
    >>> mixture(np.array([[1.0, -2.0], [-2.0, 4.0]])[:, :, None]).ravel()  # f_1 = -2 f_0
    array([0.66666667, 0.33333333])
    """
    newest, others = products[0, 0], products[1:, 0] - products[0, 0]  # <f_0, f_0>, <f_j - f_0, f_0>
    gram = products[1:, 1:] - products[1:, :1] - products[:1, 1:] + newest
    inner = _solve(np.moveaxis(gram, -1, 0), -others.T)
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
    coordinates = np.einsum("kij,ki->kj", vectors, right * inverse) * weights
    found: Vector = np.einsum("kij,kj->ki", vectors, coordinates) * inverse
    found[~np.isfinite(found).all(1)] = 0.0
    return found
