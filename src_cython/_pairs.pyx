"""Pairs of points on the CPU (C++ in ``pairs/``)."""

from libc.stdint cimport int64_t
from libcpp cimport bool as c_bool
from libcpp.memory cimport unique_ptr

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
        int64_t, int64_t, int64_t, PairValues, bint, double, double, int, double*, c_bool*) except +
    const int64_t kInspectedRows


INSPECTED_ROWS = kInspectedRows
"""Of which the first row that `inspect_pairs` looks at is a multiple."""

DEFECTS = ("", "negative", "infinite", "asymmetric", "diagonal", "missing")
"""What `inspect_pairs` may find."""


def inspect_pairs(values, int64_t n, *, bint nan_allowed, double diagonal, double tolerance, threads=None, rows=None):
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
    rows : (int, int), optional
        First row to look at, with the pairs with later rows, and the end; default: all.

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
    cdef int64_t first, last
    first, last = (0, n) if rows is None else rows
    if not 0 <= first <= last <= n or (first % INSPECTED_ROWS and first < n):
        raise ParameterError(f"rows: found {first} to {last}, expected some of {n}, from a multiple of {INSPECTED_ROWS}")
    with nogil:
        found = c_inspect(n, first, last, given, nan_allowed, diagonal, tolerance, n_threads, &largest, &missing)
    return DEFECTS[found.kind], found.row, found.column, found.value, found.other, largest, missing


cdef extern from "pairs/placed_points.h" namespace "bmrm" nogil:
    cdef cppclass CPlacedPoints "bmrm::PlacedPoints":
        CPlacedPoints(const double*, int64_t, int, const double*, const int64_t*) except +
        int64_t points()
        int axes()
        int64_t bytes()


cdef extern from "pairs/pair_counter.h" namespace "bmrm" nogil:
    cdef enum class PairKernel:
        float64, brute, cells

    cdef enum class PairImages:
        nearest, all

    cdef struct PairsSeen:
        double candidates
        double rechecked

    cdef cppclass CPairCounter "bmrm::PairCounter":
        int64_t tasks()
        double candidates()
        int64_t bytes()
        PairsSeen count(int64_t, int64_t, int, int64_t*) except +

    unique_ptr[CPairCounter] make_pair_counter(
        const CPlacedPoints&, const CPlacedPoints*, const double*, int64_t, PairKernel, PairImages) except +


KERNELS = ("float64", "brute", "cells")
"""Names of the kernels that count."""


cdef class PlacedPoints:
    """Points in the order in which kernels read them.

    Parameters
    ----------
    coordinates : ndarray, shape (d, n)
        By axes; finite.
    box : ndarray, shape (d,)
        Lengths of the axes; 0 for an open one.
    order : ndarray of int64, shape (n,), optional
        The point of each place.
    """

    cdef unique_ptr[CPlacedPoints] impl

    def __cinit__(self, coordinates, box, *, order=None):
        coordinates = _input(coordinates, coordinates.shape, "coordinates")
        cdef int64_t n = coordinates.shape[1]
        cdef int axes = coordinates.shape[0]
        if axes < 1:
            raise ParameterError("coordinates: found no axes, expected at least 1")
        box = _input(box, (axes,), "box")
        cdef const int64_t* places = NULL
        if order is not None:
            order = np.require(order, np.int64, ("C", "A"))
            if order.shape != (n,):
                raise ParameterError(f"order: found shape {order.shape}, expected ({n},)")
            places = <const int64_t*>_address(order)
        cdef const double* values = <const double*>_address(coordinates)
        cdef const double* lengths = <const double*>_address(box)
        with nogil:
            self.impl.reset(new CPlacedPoints(values, n, axes, lengths, places))

    @property
    def n(self):
        """Number of points."""
        return self.impl.get().points()

    @property
    def axes(self):
        """Number of axes."""
        return self.impl.get().axes()

    @property
    def bytes(self):
        """Memory in use."""
        return self.impl.get().bytes()


cdef class PairCounter:
    """Counts pairs by their squared distances; several threads may call `count` at once.

    Parameters
    ----------
    a, b : PlacedPoints
        Pairs of a with b; of a with itself, each once, if b is None.
    bounds : ndarray, shape (bins + 1,)
        Bin k has the pairs whose squared distance is at least bounds[k] and below bounds[k + 1]. At least 0;
        they do not fall.
    kernel : str
        One of `KERNELS`.
    images : {"nearest", "all"}
        The nearest image of each pair, or all; not those of a point itself.
    """

    cdef unique_ptr[CPairCounter] impl
    cdef object _owners
    cdef int64_t _bins

    def __cinit__(self, PlacedPoints a not None, PlacedPoints b, bounds, str kernel, str images="nearest"):
        bounds = _input(bounds, bounds.shape, "bounds")
        self._bins = len(bounds) - 1
        if self._bins < 1 or not bounds[0] >= 0.0 or not (bounds[1:] >= bounds[:self._bins]).all():
            raise ParameterError("bounds: expected numbers of at least 0 that do not fall")
        if b is not None and b.axes != a.axes:
            raise ParameterError(f"b: found {b.axes} axes, expected {a.axes}")
        cdef PairKernel how = <PairKernel><int>KERNELS.index(kernel)
        cdef PairImages which = PairImages.all if images == "all" else PairImages.nearest
        cdef const double* values = <const double*>_address(bounds)
        cdef const CPlacedPoints* other = b.impl.get() if b is not None else NULL
        self._owners = a, b
        with nogil:
            self.impl = make_pair_counter(a.impl.get()[0], other, values, self._bins, how, which)

    @property
    def tasks(self):
        """Number of tasks, which depends on the points and bounds alone."""
        return self.impl.get().tasks()

    @property
    def candidates(self):
        """Number of pairs whose distance all tasks compute."""
        cdef double found
        with nogil:
            found = self.impl.get().candidates()
        return found

    @property
    def bytes(self):
        """Memory besides that of the points."""
        return self.impl.get().bytes()

    def count(self, int64_t first, int64_t last, threads=None):
        """Count the pairs of some tasks.

        Parameters
        ----------
        first, last : int
            Tasks first to last - 1.
        threads : int, optional

        Returns
        -------
        counts : ndarray of int64, shape (bins,)
        candidates : float
            Pairs whose distance was computed.
        rechecked : float
            Of these, pairs that were decided in float64.
        """
        cdef int n_threads = _threads(threads)
        if not 0 <= first <= last <= self.tasks:
            raise ParameterError(f"tasks: found {first} to {last}, expected some of {self.tasks}")
        counts = np.zeros(self._bins, np.int64)
        cdef int64_t* target = <int64_t*>_address(counts)
        cdef PairsSeen seen
        with nogil:
            seen = self.impl.get().count(first, last, n_threads, target)
        return counts, seen.candidates, seen.rechecked
