"""Rows and weights times powers of two, so that their products neither overflow nor vanish.

Sums of w |x - c|^2 need values whose squares are numbers of float64 with all their digits. Rows whose largest
value is far from 1 are therefore multiplied by a power of two, and so are weights. This is exact, and nothing
is multiplied at ordinary scales. What is computed of them is returned in the user's units. There it may be
too large, which is an error, or too small, which is part of its bound.

A value that is far below the largest one loses digits if the rows are divided: at most 2^-1075 in units in
which the largest is about 1. Weights lose nothing, or are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Vector
from bmrm.base.weighting import multiply_weights
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError

ORDINARY_EXPONENT = 300
"""Largest absolute exponent of values that are used as they are."""

ORDINARY_WEIGHT_EXPONENT = 100
"""The same of weights: also of (w x)^2 the digits are far from the limits of float64."""

ORDINARY_SPARSE_EXPONENT = 40
"""Largest absolute exponent of values of sparse rows, whose squares seeding has in float32."""

LEAST = 2.0**-1074
"""Least positive number of float64: a product is wrong by at most half of it, besides its relative error."""

EXACT = 2.0**-1000
"""Numbers from which on a division by a power of two has surely been exact."""


@dataclass(frozen=True)
class Scales:
    """Exponents of two by which rows and weights were multiplied."""

    rows: int = 0
    weights: int = 0

    def scaled(self, points: Vector) -> Vector:
        """Return points of the user in the units of the rows."""
        return np.ldexp(points, self.rows) if self.rows else points

    def points(self, points: Vector) -> Vector:
        """Return points, or distances, in the user's units; rounded where these are denormal numbers."""
        return np.ldexp(points, -self.rows) if self.rows else points

    def of_weights(self, sums: Vector) -> Vector:
        """Return sums of weights in the user's units.

        Raise `DataError` if they are too large.
        """
        if not self.weights:
            return sums
        with np.errstate(over="ignore"):
            found = np.ldexp(sums, -self.weights)
        if not np.isfinite(found).all():
            raise DataError("sample_weight: found a sum that float64 does not hold, expected smaller weights")
        return found

    def inertia(self, value: float) -> float:
        """Return a sum of w |x - c|^2 in the user's units, infinite if it is too large."""
        exponent = -2 * self.rows - self.weights
        with np.errstate(over="ignore"):
            return float(np.ldexp(value, exponent)) if exponent else value

    def known_inertia(self, value: float) -> float:
        """Return such a sum in the user's units; raise `DataError` if it is too large for float64."""
        found = self.inertia(value)
        if not np.isfinite(found):
            raise DataError(
                "inertia: found a sum that float64 does not hold, expected smaller values or weights"
            )
        return found

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """Return bounds on such a sum, rounded away from it."""
        least, most = self.inertia(low), self.inertia(high)
        return least if least > EXACT else max(0.0, least - LEAST), most if most > EXACT else most + LEAST


UNSCALED = Scales()
"""Of rows and weights as the user has given them."""


def vanished(terms: float, total_weight: float, reach: float) -> float:
    """Bound what underflow takes from a sum of products w (x - c)^2.

    Each product loses at most half of `LEAST`, and so does a value of rows that were divided. Both are
    multiplied by a weight or by a difference again.

    - ``terms``: number of squares
    - ``reach``: largest absolute value of a difference
    """
    return 4.0 * LEAST * terms * (1.0 + total_weight) * (1.0 + reach)


def in_safe_units(rows: RowSet, centers: Vector | None = None) -> tuple[RowSet, Scales]:
    """Return rows of which sums of w |x - c|^2 can be formed, and by what they were multiplied.

    Values on a GPU stay as they are.

    - ``centers``: c, if they are known

    Raises
    ------
    DataError
        If weights are further apart than float64 can hold.
    """
    X, exponent = rows.X, 0
    if not rows.on_gpu:
        largest = max(rows.largest, 0.0 if centers is None else float(np.abs(centers).max()))
        ordinary = ORDINARY_SPARSE_EXPONENT if rows.sparse else ORDINARY_EXPONENT
        exponent = exponent_to_one(largest, ordinary)
    rows, weights = _with_safe_weights(rows)
    if exponent and not rows.sparse:
        require_memory(8 * X.size, "the rows in other units", "values near 1 need no copy")
    return (rows.multiplied(exponent) if exponent else rows), Scales(exponent, weights)


def with_safe_weights(rows: RowSet) -> tuple[RowSet, Scales]:
    """Return rows of which sums of w x^2 can be formed without multiplying the rows; see `in_safe_units`."""
    large = rows.on_gpu or rows.largest > 2.0**ORDINARY_EXPONENT
    rows, exponent = _with_safe_weights(rows, 0 if large else ORDINARY_WEIGHT_EXPONENT)
    return rows, Scales(0, exponent)


def _with_safe_weights(rows: RowSet, ordinary: int = ORDINARY_WEIGHT_EXPONENT) -> tuple[RowSet, int]:
    given = rows.weights
    if given is None:
        return rows, 0
    largest = max(rows.everyones(float(given.max())))
    exponent = exponent_to_one(largest, ordinary)
    if not exponent:
        return rows, 0
    weights, lost = multiply_weights(given, exponent)
    lost = min(rows.everyones(lost))
    if lost < np.inf:
        raise too_far_apart("sample_weight", lost, largest)
    return replace(rows, weights=weights), exponent


def too_far_apart(what: str, least: float, largest: float) -> DataError:
    """Return the error for weights that float64 cannot hold in one unit."""
    return DataError(f"{what}: found {least:.3g} and {largest:.3g}, expected numbers closer to each other")


def divided(values: Vector, *powers: float) -> Vector:
    """Return values over powers of two, infinite where they are too large; their product may be, too."""
    exponent = sum(1 - int(np.frexp(power)[1]) for power in powers)
    with np.errstate(over="ignore"):
        return np.ldexp(values, exponent)


def exponent_to_one(largest: float, ordinary: int) -> int:
    """Return the exponent of the factor that brings a number to 1/2 to 1; 0 if it is near enough."""
    found = int(np.frexp(largest)[1])
    return 0 if largest == 0.0 or abs(found) <= ordinary else -found
