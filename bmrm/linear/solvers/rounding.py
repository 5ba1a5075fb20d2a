"""What rounding hides of J if products are summed in float32, measured at the point in question.

How much that is depends on the data: sums with terms that cancel, as those of nearly collinear columns with
large weights of opposite sign do, lose the digits of the terms and not of the result. No bound that is known
beforehand is of use: the worst case of a sum of n terms is n times the unit roundoff, and its typical size
the square root of that. But ``X w`` and ``X (s w) / s`` are the same in exact arithmetic, and if s is not a
power of two every weight, product and partial sum of the second is rounded elsewhere. So the differences of a
few such evaluations show the size of the error of one; it takes one product each, once per solve.

The bound is a sum of other terms. If points are combinations of rows (``backends/host/row_space.py``), the
square of the model's minimiser comes from products of cuts, whose sum may cancel: it is compared with a new
one. Offsets of cuts are differences of risks as large as the first one, so bounds may be wrong by its
roundoff in any case, and by a share of what float32 resolves in general.

References
----------
The idea of seeing rounding by perturbing it: Parker, Monte Carlo arithmetic, UCLA CSD-970002 (1997).
"""

from __future__ import annotations

from bmrm.linear.objective.objective import Objective
from bmrm.linear.objective.passes import Iterate, Weights

SCALES = (0.7071, 1.3797)
"""Scales of the weights, for one more evaluation each."""

SAFETY_FACTOR = 16.0
"""What J and its bound are taken to be known to, as a multiple of the largest difference seen."""

MIN_RESOLUTION_SHARE = 0.25
"""Share of the products' resolution that is hidden in any case."""

FLOAT32_ROUNDOFF = 2.0**-24
"""Share of the objective at the start that is hidden in any case."""


def rounding(
    objective: Objective, point: Iterate, minimiser: Weights | None, resolution: float, first: float
) -> float:
    """Return how far rounding may have moved the value of J at a point, and the bound; not a worst case.

    It is `SAFETY_FACTOR` times the largest difference of evaluations that differ by rounding, and at least
    what is always hidden.

    - ``point``: with the value of J from a new product
    - ``minimiser``: of the model that gave the bound
    - ``resolution``: share of J below which rounding of the products hides a gap, whatever the data
    """
    passes, reg = objective.passes, objective.reg
    values = [risk_at(objective, point.margins, 0.0, point.intercept)]
    for scale in SCALES:
        z = passes.rescaled(point.w, scale)
        values.append(risk_at(objective, z, 1.0 / scale - 1.0, point.intercept))
    seen = max(values) - min(values)
    if minimiser is not None:
        before = passes.penalty(reg, minimiser)
        seen = max(seen, abs(passes.penalty(reg, passes.fresh(minimiser)[0]) - before))
    return max(
        SAFETY_FACTOR * seen,
        MIN_RESOLUTION_SHARE * resolution * abs(point.objective),
        FLOAT32_ROUNDOFF * first,
    )


def risk_at(objective: Objective, z: object, more: float, intercept: float) -> float:
    """Return the risk at the margins ``(1 + more) z + intercept``."""
    return objective.passes.risk(z, z, more, intercept)[0]
