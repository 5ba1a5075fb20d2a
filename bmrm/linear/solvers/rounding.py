"""What rounding hides of J where products are summed in float32, measured at the point in question.

How much that is depends on the data: sums whose terms cancel, as those of nearly collinear columns with
large weights of opposite sign do, lose the digits of the terms and not of the result. No bound that is known
beforehand is of use: the worst case of a sum of n terms is n times the unit roundoff, and its typical size
the root of that. But ``X w`` and ``X (s w) / s`` are the same in exact arithmetic, and for an s that is no
power of two every weight, product and partial sum of the second is rounded elsewhere. So the differences of a
few such evaluations tell the size of the error of one; it takes a product each, once a solve.

The bound is a sum of other terms. Where points are combinations of rows (``row_space.py``) the square of the
model's minimiser comes from products of cuts, whose sum may cancel: it is held against a new one. Offsets of
cuts are differences of risks as large as the first one: by its roundoff bounds may be wrong in any case, and
so they may by a share of what float32 resolves in general.

References
----------
The idea of seeing rounding by perturbing it: Parker, Monte Carlo arithmetic, UCLA CSD-970002 (1997).
"""

from __future__ import annotations

from bmrm.linear.objective.objective import Iterate, Objective, Weights

SCALES = (0.7071, 1.3797)
"""Of the weights, for one more evaluation each."""

SAFETY = 16.0
"""Times the largest difference seen: what J and its bound are taken to be known to."""

LEAST, ROUNDOFF = 0.25, 2.0**-24
"""What is hidden in any case: a share of the products' resolution, and one of the objective at the start."""


def rounding(
    objective: Objective, point: Iterate, minimiser: Weights | None, resolution: float, first: float
) -> float:
    """Return what the value of J at a point, and the bound, may be wrong by.

    Parameters
    ----------
    objective : Objective
    point : Iterate
        With the value of J from a product of its own.
    minimiser : Weights or None
        Of the model that gave the bound.
    resolution : float
        Share of J below which rounding of the products hides a gap, whatever the data.
    first : float
        J where the solve began.

    Returns
    -------
    float
        Not a worst case: `SAFETY` times the largest difference of evaluations that differ by rounding, and at
        least what is always hidden.
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
    return max(SAFETY * seen, LEAST * resolution * abs(point.objective), ROUNDOFF * first)


def risk_at(objective: Objective, z: object, more: float, intercept: float) -> float:
    """Risk at the margins ``(1 + more) z + intercept``."""
    return objective.passes.risk(z, z, more, intercept)[0]
