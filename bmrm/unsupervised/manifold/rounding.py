"""Bounds on what rounding does to the stress and to its gradient, with terms in float32 or in float64.

Let u be the unit roundoff of the terms, 2^-24 or 2^-53, and g(k) = k u / (1 - k u). A pass computes for each
pair the distance d and e = delta - d. Places are numbers of that type (in float32 the configuration that a
fit returns is the rounded one), so a difference of coordinates is wrong by a factor within 1 + u, a sum of p
squares of these by 1 + g(p + 2), its root by half of that, and the reciprocal of the root by 4 u more. A
product, a difference, and the rounding of delta follow. So e is wrong by at most g(p / 2 + 8) (d + delta) +
f, where f is the distance below which two points count as together; distances of m features that each pass
computes are wrong by m / 2 + 4 units of float64 more. Let |v| be the root of the sum of w v^2 over the
pairs. By Minkowski's inequality the error of e has a length of at most

    r = g(p / 2 + 8) (|d| + |delta|) + f sqrt(sum w),

and |e|, the root of the stress, is wrong by no more, so the stress by at most r (2 |e| + r). Adding up its
terms, which are positive, changes it by a share of at most g(RUN + 4), if up to RUN terms are added in
float32, and by that of a sum over all pairs in float64. A factor of 1.01 covers that all these are computed
from rounded sums. Squares below the least normal number of float32 are lost.

The term of half the gradient has a norm of at most w (d + delta), and by the same count an error of at most
g(p / 2 + 12) of that; RUN terms that are added in float32 make it g(p / 2 + 12 + RUN). `minimum` adds the
sums in float64.

N. J. Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4.
"""

from __future__ import annotations

import numpy as np

from bmrm.unsupervised.decomposition.scatter import rounding_bound
from bmrm.unsupervised.manifold._manifold import FLOAT_RUN
from bmrm.unsupervised.scales import vanished

TERMS, GRADIENT_TERMS = 8, 12
"""Roundings of a difference, and of a term of the gradient, besides those of the p squares."""

FEATURE_TERMS = 4
"""Roundings of a distance of features besides half of those of its squares."""

SINGLE_UNITS = 2.0**29
"""Units of float64 in one of float32."""

TOGETHER, SINGLE_TOGETHER = 1e-140, 1e-14
"""Distances below which two points count as together."""

LEAST_SINGLE = 2.0**-126
"""Least normal number of float32."""

SLACK = 1.01
"""Factor for bounds that are computed from rounded sums."""

MAX_SHARE = 1e-3
"""Largest relative error of which `SLACK` covers the square."""


def stress_error(
    stress: float,
    squares: float,
    delta_squares: float,
    weight: float,
    *,
    shape: tuple[int, int],
    features: int,
    reach: float,
    single: bool,
) -> float:
    """Bound the error of a stress.

    - ``squares``, ``delta_squares``: sums of w d^2 and of w delta^2
    - ``weight``: the sum of the weights
    - ``features``: of which each pass computes distances; 0 if dissimilarities are stored
    - ``reach``: largest coordinate
    """
    n, p = shape
    pairs = n * (n - 1) / 2
    share = rounding_bound((p / 2 + TERMS) * (SINGLE_UNITS if single else 1.0))
    share += rounding_bound(features / 2 + FEATURE_TERMS) if features else 0.0
    added = rounding_bound(pairs + n) + (rounding_bound((FLOAT_RUN + 4) * SINGLE_UNITS) if single else 0.0)
    if not max(share, added) < MAX_SHARE:
        return np.inf
    floor = SINGLE_TOGETHER if single else TOGETHER
    wrong = share * (np.sqrt(squares) + np.sqrt(delta_squares)) + floor * np.sqrt(weight)
    lost = vanished(n * n * p, weight, reach) + (pairs * LEAST_SINGLE if single else 0.0)
    return float(SLACK * (wrong * (2.0 * np.sqrt(stress) + wrong) + added * stress) + lost)


def gradient_rounding(n: int, p: int, terms: int, *, single: bool) -> float:
    """Return what the terms of half a gradient, and sums of n of them, are wrong by at most, relatively.

    - ``terms``: roundings in float64 of a term besides those of its p squares
    """
    found = rounding_bound(n + p + terms)
    return found + (rounding_bound((p / 2 + GRADIENT_TERMS + FLOAT_RUN) * SINGLE_UNITS) if single else 0.0)
