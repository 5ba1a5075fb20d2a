"""Random draws of rows that are the same wherever the rows are.

Numbers for each row come from a generator without a state: row i of a draw gets the i-th output of SplitMix64
started at the draw's key. So neither the device, nor threads, nor ranks change them.

G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014, figure 17.
"""

from __future__ import annotations

import numpy as np

from bmrm.base.vectors import Vector

STEP = np.uint64(0x9E3779B97F4A7C15)
"""What the state grows by: the golden ratio in units of 2^-64, made odd."""

FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
"""Factor of the first mixing step."""

SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
"""Factor of the second mixing step."""

UNIFORM_BITS = 53
"""Bits of a number in [0, 1): those of float64."""


def uniform_of_rows(key: int, first: int, last: int) -> Vector:
    """Return the numbers in [0, 1) of the rows from ``first`` to before ``last``, for a key of 64 bits.

    Examples
    --------
    >>> uniform_of_rows(0, 0, 3).round(4)
    array([0.8833, 0.4315, 0.0264])
    >>> bool((uniform_of_rows(0, 0, 3)[1:] == uniform_of_rows(0, 1, 3)).all())
    True
    """
    state = np.uint64(key) + np.arange(first + 1, last + 1, dtype=np.uint64) * STEP
    state = (state ^ (state >> np.uint64(30))) * FIRST_FACTOR
    state = (state ^ (state >> np.uint64(27))) * SECOND_FACTOR
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(64 - UNIFORM_BITS)).astype(np.float64) * 2.0**-UNIFORM_BITS
