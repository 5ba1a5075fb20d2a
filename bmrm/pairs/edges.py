"""From edges of distances to bounds of squared distances, which alone decide in which bin a pair counts.

Rounded roots are monotone: for each edge e there is a least number T(e) whose rounded root is at least e, and
a least number U(e) whose rounded root is above e. So sqrt(d2) >= e exactly if d2 >= T(e), and sqrt(d2) > e
exactly if d2 >= U(e), where sqrt rounds to nearest as IEEE 754 has it. Bin k has the pairs with B_k <= d2 <
B_k+1:

    closed="left"    [e_k, e_k+1)                          B_k = T(e_k)
    closed="last"    the same, and the last bin is closed  B_m = U(e_m)
    closed="right"   (e_k, e_k+1]                          B_k = U(e_k)

No root is taken for a pair. A bound may be infinite, which a squared distance is that overflows; such a pair
is in no bin, as one whose distance is beyond the last edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import ParameterError

CLOSED = ("last", "left", "right")
"""Which ends of bins count: the left ones and that of the last bin, the left ones, the right ones."""


@dataclass(frozen=True)
class Bins:
    """Bins of distances.

    Attributes
    ----------
    edges : ndarray of float64, shape (bins + 1,)
    closed : str
        One of `CLOSED`.
    bounds : ndarray of float64, shape (bins + 1,)
        Of squared distances.
    """

    edges: Vector
    closed: str
    bounds: Vector

    @property
    def count(self) -> int:
        """Number of bins."""
        return len(self.bounds) - 1

    @property
    def counted(self) -> Vector:
        """The bounds that kernels count by: if `takes_all`, with one more bin, of what is below the first."""
        return np.concatenate([[0.0], self.bounds]) if self.takes_all else self.bounds

    @property
    def reach(self) -> float:
        """The last edge."""
        return float(self.edges[-1])

    @property
    def takes_all(self) -> bool:
        """Whether the last bin has every pair that no other has, those whose square overflows too."""
        return self.reach == np.inf and self.closed != "left"


def reaches(edge: Vector) -> Vector:
    """Return the least numbers whose rounded roots are at least the edges.

    Examples
    --------
    >>> reaches(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 4.])
    """
    return _least(np.greater_equal, edge)


def exceeds(edge: Vector) -> Vector:
    """Return the least numbers whose rounded roots are above the edges; infinity if there is none.

    Examples
    --------
    >>> exceeds(np.array([-1.0, 2.0])).tolist()
    [0.0, 4.000000000000002]
    """
    return _least(np.greater, edge)


def _least(compare: np.ufunc, edge: Vector) -> Vector:
    """Return the least x of at least 0 with compare(sqrt(x), edge), found from the square on step by step."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.square(np.maximum(edge, 0.0))
        while (low := ~compare(np.sqrt(found), edge) & (found < np.inf)).any():
            found[low] = np.nextafter(found[low], np.inf)
        before = np.nextafter(found, 0.0)
        while (high := compare(np.sqrt(before), edge) & (found > 0.0)).any():
            found[high] = before[high]
            before = np.nextafter(found, 0.0)
    return found


def read_bins(edges: Any, closed: str) -> Bins:
    """Validate edges, and find their bounds.

    Raises
    ------
    ParameterError
        If they do not increase, or there are fewer than two.
    """
    check_choice("closed", closed, CLOSED)
    found = np.array(arguments.numbers("edges", edges, ParameterError))
    if found.ndim != 1 or len(found) < 2:
        raise ParameterError(f"edges: found shape {found.shape}, expected at least 2 numbers")
    falls = ~(found[1:] > found[:-1])  # NaN compares false
    if falls.any():
        at = int(np.argmax(falls))
        raise ParameterError(
            f"edges: found {found[at]:.17g} before {found[at + 1]:.17g}, expected increasing numbers"
        )
    bounds = exceeds(found) if closed == "right" else reaches(found)
    if closed == "last":
        bounds[-1:] = exceeds(found[-1:])
    return Bins(found, closed, bounds)


def read_radii(radius: Any) -> tuple[Bins, Indices, bool]:
    """Validate one or several radii; return their bins, the bin of each radius and whether it is only one.

    The number of pairs within a radius is the sum of its bin and those before it.
    """
    given = arguments.numbers("radius", radius, ParameterError, expected="one or several numbers")
    if given.ndim > 1 or not given.size:
        raise ParameterError(f"radius: found shape {given.shape}, expected one or several numbers")
    radii, which = np.unique(given.reshape(-1), return_inverse=True)
    if not (radii >= 0.0).all():
        bad = radii[~(radii >= 0.0)][0]
        raise ParameterError(f"radius: found {bad:g}, expected numbers of at least 0")
    bins = Bins(np.concatenate([[-0.0], radii]), "right", np.concatenate([[0.0], exceeds(radii)]))
    return bins, which.astype(np.int64).reshape(-1), given.ndim == 0
