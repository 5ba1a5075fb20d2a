"""Pairs of points on the CPU (C++ in ``pairs/``)."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from libcpp cimport bool as c_bool
from libcpp.memory cimport unique_ptr

import numpy as np

from bmrm.errors import ParameterError

include "common/threads.pxi"
include "common/vectors.pxi"
include "common/found_arrays.pxi"
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
        const CPlacedPoints&, const CPlacedPoints*, const double*, int64_t, PairKernel, PairImages,
        int) except +


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
    threads : int, optional
        Sort the points; results do not depend on it.
    """

    cdef unique_ptr[CPairCounter] impl
    cdef object _owners
    cdef int64_t _bins

    def __cinit__(self, PlacedPoints a not None, PlacedPoints b, bounds, str kernel, str images="nearest",
                  threads=None):
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
        cdef int n_threads = _threads(threads)
        self._owners = a, b
        with nogil:
            self.impl = make_pair_counter(a.impl.get()[0], other, values, self._bins, how, which, n_threads)

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


cdef extern from "pairs/near_order.h" namespace "bmrm" nogil:
    cdef cppclass Order "std::vector<bmrm::i64>":
        const int64_t* data()

    Order c_near_order "bmrm::near_order"(const CPlacedPoints&, int64_t, int) except +


def near_order(PlacedPoints points not None, int64_t leaf, threads=None):
    """Return an order of points in which neighbours are close.

    Parameters
    ----------
    points : PlacedPoints
    leaf : int
        Each so many places are a box with few other points in it.
    threads : int, optional

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    if leaf < 1:
        raise ParameterError(f"leaf: found {leaf}, expected at least 1")
    cdef int n_threads = _threads(threads)
    cdef Order found
    with nogil:
        found = c_near_order(points.impl.get()[0], leaf, n_threads)
    order = np.empty(points.n, np.int64)
    if points.n:
        memcpy(_address(order), found.data(), 8 * points.n)
    return order


cdef extern from "pairs/density_sums.h" namespace "bmrm" nogil:
    cdef enum class CShape "bmrm::Shape":
        pass

    const int kShapes
    const char** kShapeNames

    cdef struct Smoothing:
        CShape shape
        double scale
        double end

    cdef struct DensityKernels:
        c_bool fused

    const DensityKernels& density_kernels()
    const int64_t kDensityTile
    const int64_t kDensityGroup

    cdef cppclass CDensitySums "bmrm::DensitySums":
        CDensitySums(const double*, int64_t, int, const double*, bint) except +
        int axes()
        c_bool light()
        void nearest(const double*, int64_t, int, double*) except +
        void sums(const double*, int64_t, const Smoothing&, const double*, double, int,
                  double*, double*, double*) except +
        void light_sums(const double*, int64_t, const Smoothing&, float, float, double, int,
                        double*, double*, double*) except +


SHAPES = tuple([kShapeNames[i].decode() for i in range(kShapes)])
"""Functions of the distance that `DensitySums` sums."""

DENSITY_TILE, DENSITY_GROUP = kDensityTile, kDensityGroup
"""Points y of a tile, and points x of a group: both should be close to each other."""


cdef class DensitySums:
    """Sums over points y of a function of their distance to points x; several threads may call at once.

    Parameters
    ----------
    y : ndarray, shape (d, m)
        By axes, in near order; finite, and squared distances do not overflow.
    weights : ndarray, shape (m,)
        Above 0.
    light : bool
        Whether sums in float32 shall be possible: coordinates are numbers of that type.
    """

    cdef unique_ptr[CDensitySums] impl

    def __cinit__(self, y, weights, *, bint light):
        y = _input(y, y.shape, "y")
        cdef int64_t m = y.shape[1]
        cdef int axes = y.shape[0]
        if axes < 1 or m < 1:
            raise ParameterError(f"y: found shape {y.shape}, expected some points and axes")
        weights = _input(weights, (m,), "weights")
        cdef const double* values = <const double*>_address(y)
        cdef const double* factors = <const double*>_address(weights)
        with nogil:
            self.impl.reset(new CDensitySums(values, m, axes, factors, light))

    fused = density_kernels().fused
    """Whether sums in float32 round a product and its sum together."""

    cdef _read(self, x):
        return _input(x, (self.impl.get().axes(), x.shape[1]), "x")

    def nearest(self, x, threads=None):
        """Return the least squared distance of each x.

        Parameters
        ----------
        x : ndarray, shape (d, n)
            By axes, in near order.
        threads : int, optional

        Returns
        -------
        ndarray, shape (n,)
        """
        cdef int n_threads = _threads(threads)
        x = self._read(x)
        cdef int64_t n = x.shape[1]
        found = np.empty(n)
        cdef const double* values = <const double*>_address(x)
        cdef double* out = <double*>_address(found)
        with nogil:
            self.impl.get().nearest(values, n, n_threads, out)
        return found

    def sums(self, x, str shape, double scale, double end, offsets, double tolerance, threads=None):
        """Return sums in float64.

        Parameters
        ----------
        x : ndarray, shape (d, n)
            By axes, in near order.
        shape : str
            One of `SHAPES`: of s, which is ``scale`` times the squared distance, for "exponential" and
            "linear" times the distance. exp(offset - s), or for those that end 1, 1 - s, or cos(pi / 2 s).
        scale : float
        end : float
            Terms are 0 for squared distances from here on; infinity for "gaussian" and "exponential".
        offsets : ndarray, shape (n,), or None for 0
        tolerance : float
            Share of each sum that may be left out; 0: nothing.
        threads : int, optional

        Returns
        -------
        sums, inside, cuts : ndarray, shape (n,)
            The sums; for those that end, sums of the weights of terms that are not cut off; and bounds of
            what was left out.
        """
        cdef int n_threads = _threads(threads)
        cdef Smoothing smoothing = Smoothing(<CShape><int>SHAPES.index(shape), scale, end)
        x = self._read(x)
        cdef int64_t n = x.shape[1]
        cdef const double* shifts = NULL
        if offsets is not None:
            offsets = _input(offsets, (n,), "offsets")
            shifts = <const double*>_address(offsets)
        found = np.empty((3, n))
        cdef const double* values = <const double*>_address(x)
        cdef double* out = <double*>_address(found)
        with nogil:
            self.impl.get().sums(values, n, smoothing, shifts, tolerance, n_threads, out, out + n, out + 2 * n)
        return found[0], found[1], found[2]

    def light_sums(self, x, double scale, double rate, double most, double tolerance, threads=None):
        """Return sums of "gaussian" in float32.

        Parameters
        ----------
        x : ndarray, shape (d, n)
            As for `sums`; numbers of float32.
        scale : float
            As for `sums`.
        rate : float
            ``scale`` over log 2, a number of float32.
        most : float
            Larger squared distances are taken for this; a number of float32. The product with ``rate`` is at
            most 125.
        tolerance, threads
            As for `sums`.

        Returns
        -------
        sums, moments, cuts : ndarray, shape (n,)
            As for `sums`; moments are sums of the terms times their squared distances.
        """
        cdef int n_threads = _threads(threads)
        if not self.impl.get().light():
            raise ParameterError("light: expected True for sums in float32")
        cdef Smoothing smoothing = Smoothing(<CShape>0, scale, np.inf)
        x = self._read(x)
        cdef int64_t n = x.shape[1]
        found = np.empty((3, n))
        cdef const double* values = <const double*>_address(x)
        cdef double* out = <double*>_address(found)
        with nogil:
            self.impl.get().light_sums(
                values, n, smoothing, rate, most, tolerance, n_threads, out, out + n, out + 2 * n)
        return found[0], found[1], found[2]


cdef extern from "pairs/neighbours.h" namespace "bmrm" nogil:
    cdef enum class Metric:
        euclidean, sqeuclidean, cosine, manhattan, chebyshev, jaccard

    cdef struct Sought:
        int64_t nearest
        double radius

    cdef struct FoundTarget:
        double* distances
        int64_t* indices
        int32_t* narrow
        const int64_t* starts
        int64_t* counts

    cdef cppclass CNeighbourSearch "bmrm::NeighbourSearch":
        int64_t tasks()
        void search(int64_t, int64_t, int, const Sought&, const FoundTarget&) except +

    cdef struct Sides:
        const double* rows
        const double* points
        int64_t row_count
        int64_t point_count
        int64_t axes
        const double* box
        int64_t own

    unique_ptr[CNeighbourSearch] make_neighbour_search(const Sides&, Metric, c_bool, int) except +


METRICS = ("euclidean", "sqeuclidean", "cosine", "manhattan", "chebyshev", "jaccard")
"""Names of distances: ``cosine`` is that of rows of length 1, ``jaccard`` of rows of zeros and ones."""


cdef class NeighbourSearch:
    """Finds neighbours; several threads may call its methods at once.

    Parameters
    ----------
    rows, points : ndarray, shape (n, d) and (m, d)
        Whose neighbours are sought, and among which points, finite; the same array or two. They must not
        change while the search is in use.
    box : ndarray, shape (d,)
        Lengths of the axes; 0 for an open one.
    metric : str
        One of `METRICS`.
    products : bool
        Whether candidates come from products in low precision, for distances of squares on open axes.
    own : int
        The rows are the points from this one on, none of which is its own neighbour; -1: they are others.
    threads : int, optional
        Make the tree; results do not depend on it.
    """

    cdef unique_ptr[CNeighbourSearch] impl
    cdef object _owners
    cdef int64_t _rows, _others

    def __cinit__(self, rows, points, box, str metric, *, bint products, int64_t own,
                  threads=None):
        same = rows is points
        points = _input(points, points.shape, "points")
        if points.shape[1] < 1:
            raise ParameterError("points: found no axes, expected at least 1")
        rows = points if same else _input(rows, (rows.shape[0], points.shape[1]), "rows")
        box = _input(box, (points.shape[1],), "box")
        cdef Metric which = <Metric><int>METRICS.index(metric)
        cdef Sides sides
        sides.rows, sides.points = <const double*>_address(rows), <const double*>_address(points)
        sides.row_count, sides.point_count, sides.axes = len(rows), len(points), points.shape[1]
        sides.box, sides.own = <const double*>_address(box), own
        if own >= 0 and own + sides.row_count > sides.point_count:
            raise ParameterError(f"own: found {own}, expected the first of {sides.row_count} points")
        cdef int n_threads = _threads(threads)
        self._owners = rows, points
        self._rows, self._others = sides.row_count, sides.point_count - (own >= 0)
        with nogil:
            self.impl = make_neighbour_search(sides, which, products, n_threads)

    @property
    def tasks(self):
        """Number of tasks, which together have each row once."""
        return self.impl.get().tasks()

    cdef _search(self, int64_t first, int64_t last, threads, Sought sought, FoundTarget target):
        cdef int n_threads = _threads(threads)
        if not 0 <= first <= last <= self.tasks:
            raise ParameterError(f"tasks: found {first} to {last}, expected some of {self.tasks}")
        with nogil:
            self.impl.get().search(first, last, n_threads, sought, target)

    def nearest(self, int64_t first, int64_t last, distances, indices, threads=None):
        """Find the nearest of the rows of some tasks, as many as the arrays have columns.

        Parameters
        ----------
        first, last : int
            Tasks first to last - 1.
        distances : ndarray, shape (n, k)
        indices : ndarray of int64, shape (n, k)
        threads : int, optional
        """
        cdef int64_t k = distances.shape[1]
        if distances.shape[0] != self._rows or not 1 <= k <= self._others:
            raise ParameterError(f"distances: found shape {distances.shape}")
        _output(distances, (self._rows, k))
        cdef Sought sought = Sought(k, float("inf"))
        cdef FoundTarget target = FoundTarget(<double*>_address(distances), NULL, NULL, NULL, NULL)
        target.indices = <int64_t*>_whole(indices, "indices", np.int64, (self._rows, k))
        self._search(first, last, threads, sought, target)

    def count(self, int64_t first, int64_t last, double radius, counts, threads=None):
        """Count the neighbours within a radius of the rows of some tasks.

        Parameters
        ----------
        first, last : int
        radius : float
        counts : ndarray of int64, shape (n,)
        threads : int, optional
        """
        cdef FoundTarget target = FoundTarget(NULL, NULL, NULL, NULL, NULL)
        target.counts = <int64_t*>_whole(counts, "counts", np.int64, (self._rows,))
        self._search(first, last, threads, Sought(0, radius), target)

    def fill(self, int64_t first, int64_t last, double radius, starts, indices, distances, threads=None):
        """Write the neighbours that `count` has counted, in the order of their indices.

        Parameters
        ----------
        first, last : int
        radius : float
        starts : ndarray of int64, shape (n + 1,)
            Where each row begins: the sums of the counts.
        indices : ndarray of int32 or int64
        distances : ndarray
        threads : int, optional
        """
        cdef int64_t n = len(distances)
        cdef FoundTarget target = FoundTarget(NULL, NULL, NULL, NULL, NULL)
        target.starts = _row_starts(starts, self._rows, n)
        _output(distances, (n,))
        target.distances = <double*>_address(distances)
        if indices.dtype == np.int32:
            target.narrow = <int32_t*>_whole(indices, "indices", np.int32, (n,))
        else:
            target.indices = <int64_t*>_whole(indices, "indices", np.int64, (n,))
        self._search(first, last, threads, Sought(0, radius), target)
