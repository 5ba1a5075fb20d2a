"""Ascent in the dual, for text and other wide data: when it pays, and when it ends.

A row that shares few of its features with the others hardly disturbs them.  So its derivative r_i may go at
once to where the dual

    D(r) = -|X' r|^2 / (2 lam) - sum_i f_i(r_i),       f_i the conjugate of the loss of row i,

is largest, and the next row sees what that made of ``w = -X' r / lam``
(``src_cython/dual/coordinate_ascent.h``, row by row, on the CPU; ``backends/gpu/ascent.py`` moves all rows at
once).  A few sweeps do what takes planes a hundred passes: planes learn of all rows at once, but only of
their sum.  A sweep is the work of one thread, and reads memory slowly; when it pays was measured against
planes on two cores.

Any r within the domains of the f_i makes a cutting plane of the risk as it is,

    R(w) >= <X' r, w> - sum_i f_i(r_i),

by the Fenchel-Young inequality, whose minimum with the penalty is D(r): objective and bound rest on no sweep.

The weight of a constant feature, or an intercept without penalty, is held near where a step begins.  After
the step r is balanced: brought to the sum that belongs to it, which is 0 for a free intercept.
"""

from __future__ import annotations

from bmrm.linear.bundle.store import CUT_BYTES

MAX_VALUES_PER_COLUMN = 1000
"""Stored values per column up to which ascent pays."""

MAX_ROWS_PER_COLUMN = 16
"""Rows per column, divided by the threads that planes would use, up to which ascent pays."""

MAX_ROWS_PER_COLUMN_IN_STEP = 4
"""The same with any number of threads; and for a smooth loss in solves in step, whose products are done
together."""

MIN_COLUMNS_PER_VALUE = 16
"""With more rows than columns, ascent pays only if a row has at most one stored value in this many
columns."""

MAX_ASCENT_THREADS = 4
"""Threads up to which ascent is faster than planes even on large problems, where the bundle takes as long as
the products."""

MAX_SMALL_VALUES = 8_000_000
"""Stored values of a problem that is not large in this sense."""

MARGIN_BYTES = 128
"""Memory that the dual takes per margin; in all it may take no more than the cuts may."""


def is_wide(shape: tuple[int, int], nnz: int, columns: int, threads: int, *, quick: bool = False) -> bool:
    """Whether X is so wide that ascent pays, for a loss whose conjugates are known.

    - ``threads``: that products may use; 1 if ascent is far ahead of planes
    - ``quick``: whether planes are quick: few are needed, and their products are done together with other
      solves'

    Examples
    --------
    >>> is_wide((20_000, 50_000), 1_500_000, 1, 2)
    True
    >>> is_wide((20_000, 50), 300_000, 1, 2)
    False
    """
    m, d = shape
    few = MAX_ROWS_PER_COLUMN_IN_STEP
    rows = few if quick else max(few, MAX_ROWS_PER_COLUMN // threads)
    sparse = MIN_COLUMNS_PER_VALUE * nnz <= m * d
    wide = nnz <= MAX_VALUES_PER_COLUMN * d and m <= (rows if sparse else 1) * d
    fits = m * columns * MARGIN_BYTES <= CUT_BYTES
    return fits and wide and (threads <= MAX_ASCENT_THREADS or nnz <= MAX_SMALL_VALUES)


class Halving:
    """Decides whether an ascent goes on: as long as its last steps have halved the gap.

    ``min_steps`` steps have to halve the gap, and are taken in any case.

    Examples
    --------
    >>> halving = Halving(2)
    >>> [halving.continues(gap) for gap in (1.0, 0.9, 0.5, 0.4, 0.4)]
    [True, True, True, True, False]
    """

    def __init__(self, min_steps: int) -> None:
        self._min_steps = min_steps
        self._gaps: list[float] = []

    def continues(self, gap: float) -> bool:
        """Whether to go on after a step that has left this gap."""
        self._gaps = [*self._gaps[-self._min_steps :], gap]
        return len(self._gaps) <= self._min_steps or gap <= 0.5 * self._gaps[0]
