"""Pairs of points on the CPU (C++ in ``pairs/``)."""

from libc.stdint cimport int64_t
from libcpp cimport bool as c_bool

import numpy as np

from bmrm.errors import ParameterError

include "common/threads.pxi"
include "common/vectors.pxi"
include "pairs/pair_values.pxi"


cdef extern from "pairs/pair_values.h" namespace "bmrm" nogil:
    cdef struct PairDefect:
        int kind
        int64_t row
        int64_t column
        double value
        double other

    PairDefect c_inspect "bmrm::inspect_pairs"(
        int64_t, PairValues, bint, double, double, int, double*, c_bool*) except +


DEFECTS = ("", "negative", "infinite", "asymmetric", "diagonal", "missing")
"""What `inspect_pairs` may find."""


def inspect_pairs(values, int64_t n, *, bint nan_allowed, double diagonal, double tolerance, threads=None):
    """Look for what makes dissimilarities or weights of pairs invalid.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n, n) or (n (n - 1) / 2,)
    n : int
    nan_allowed : bool
    diagonal : float
        Maximum absolute value on the diagonal; negative: it is not looked at.
    tolerance : float
        Maximum difference of the two entries of a pair.
    threads : int, optional

    Returns
    -------
    defect : str
        One of `DEFECTS`; the first in the order of the rows.
    row, column : int
    value, other : float
        The two entries of the pair.
    largest : float
    missing : bool
        Whether some are NaN.
    """
    cdef int n_threads = _threads(threads)
    cdef PairValues given = _pair_values(values)
    cdef double largest
    cdef c_bool missing
    cdef PairDefect found
    with nogil:
        found = c_inspect(n, given, nan_allowed, diagonal, tolerance, n_threads, &largest, &missing)
    return DEFECTS[found.kind], found.row, found.column, found.value, found.other, largest, missing
