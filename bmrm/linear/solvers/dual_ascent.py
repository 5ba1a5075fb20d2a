"""Coordinate ascent in the dual, for text and whatever else has many features for its rows.

A row that shares few of its features with the others hardly disturbs them.  So its derivative r_i may go at
once to where the dual

    D(r) = -|X' r|^2 / (2 lam) - sum_i f_i(r_i),       f_i the conjugate of the loss of row i,

is largest, and the next row sees what that made of ``w = -X' r / lam``
(``src_cython/dual/coordinate_ascent.h``).  A few sweeps do what takes planes a hundred passes: these learn of
all rows at once, but only their sum.  A sweep is the work of one thread, and slow to read memory: the rule
below was measured on two cores, beside planes.

Any r within the domains of the f_i makes a cutting plane of the risk as it is,

    R(w) >= <X' r, w> - sum_i f_i(r_i),

by the Fenchel-Young inequality, whose minimum with the penalty is D(r): objective and bound rest on no sweep.

The weight of a constant feature, or an intercept without penalty, is held near where a step begins.  Behind
the step r is balanced: brought to the sum that belongs to it, which is 0 for a free intercept.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bmrm.linear.bundle.store import CUT_BYTES
from bmrm.linear.objective.objective import CutBatch, Objective, Subgradients

Vector = NDArray[np.float64]

WIDE, ROWS, FEW_ROWS, FULL = 1000, 16, 4, 16
"""Stored values a feature up to which ascent pays. Rows for each feature up to which it does, over the
threads that planes would use; at least, and for a smooth loss in solves whose products are done together. And
how many times as many features as a row has values there must be, where there are more rows than features at
all."""

FEW_THREADS, SMALL = 4, 8_000_000
"""Threads up to which planes are no faster where a problem is large, and the stored values up to which it is
not: there the bundle takes as long as the products."""


MARGIN_BYTES = 128
"""What a margin takes in the dual, while its conjugate is told: no more in all than cuts may take."""


def is_wide(shape: tuple[int, int], nnz: int, columns: int, threads: int, *, quick: bool = False) -> bool:
    """Whether X is so wide that ascent pays for a loss that tells its conjugates.

    Parameters
    ----------
    shape : tuple of int
    nnz : int
        Stored values.
    columns : int
        Margins of a row.
    threads : int
        That products may use.
    quick : bool, default False
        Whether planes are quick: few are wanted, and their products are done together with other solves'.

    Examples
    --------
    >>> is_wide((20_000, 50_000), 1_500_000, 1, 2)
    True
    >>> is_wide((20_000, 50), 300_000, 1, 2)
    False
    """
    m, d = shape
    rows = FEW_ROWS if quick else max(FEW_ROWS, ROWS // threads)
    wide = nnz <= WIDE * d and m <= (rows if FULL * nnz <= m * d else 1) * d
    fits = m * columns * MARGIN_BYTES <= CUT_BYTES
    return fits and wide and (threads <= FEW_THREADS or nnz * columns <= SMALL)


class Halving:
    """Tells whether an ascent goes on: as long as its last steps have halved the gap.

    Parameters
    ----------
    tried : int
        How many steps; so many are taken in any case.

    Examples
    --------
    >>> halving = Halving(2)
    >>> [halving.goes_on(gap) for gap in (1.0, 0.9, 0.5, 0.4, 0.4)]
    [True, True, True, True, False]
    """

    def __init__(self, tried: int) -> None:
        self._tried = tried
        self._gaps: list[float] = []

    def goes_on(self, gap: float) -> bool:
        """Whether to go on, where the last step has left this gap."""
        self._gaps = [*self._gaps[-self._tried :], gap]
        return len(self._gaps) <= self._tried or gap <= 0.5 * self._gaps[0]


def fenchel_cut(objective: Objective, planes: Subgradients, conjugate: float) -> CutBatch | None:
    """Return the cut ``R(w) >= <X' r, w> - sum_i f_i(r_i)``: the slopes are known, and that sum is given.

    There is none where r is not in the domain of every f_i, whose sum is then infinite.
    """
    if not math.isfinite(conjugate):
        return None
    offsets = np.array([-conjugate])
    planes = planes._replace(risk=offsets + planes.at_point)
    return CutBatch(
        planes, offsets, objective.risk(planes.risk), objective.blur_of_conjugates(planes, offsets)
    )
