"""Parts of rows (C++ in ``parts/``)."""

from libc.stdint cimport int64_t

from parts.parts cimport c_add_in_order, c_part_rows

import numpy as np

from bmrm.errors import ParameterError

include "common/vectors.pxi"


def part_rows(int64_t total, int64_t numbers=1):
    """Return the number of rows of a part, whose sums are ``numbers``, of ``total`` rows: a power of two."""
    return c_part_rows(total, numbers)


def add_in_order(values, int64_t each):
    """Return the sums of every ``each`` numbers along the last axis, added in order.

    Parameters
    ----------
    values : ndarray of float64, shape (m,) or (c, m)
    each : int

    Returns
    -------
    ndarray of float64, shape (ceil(m / each),) or (c, ceil(m / each))
    """
    values = _input(values, values.shape, "values")
    cdef int64_t count = values.shape[values.ndim - 1]
    sums = np.empty((*values.shape[:values.ndim - 1], (count + each - 1) // each))
    cdef const double* source = <const double*>_address(values)
    cdef double* target = <double*>_address(sums)
    cdef int64_t c, rows = values.size // max(1, count), size = sums.shape[sums.ndim - 1]
    for c in range(rows):
        c_add_in_order(source + c * count, count, each, target + c * size)
    return sums
