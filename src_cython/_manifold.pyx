"""Passes over pairs of points for multidimensional scaling (C++ in ``manifold/``)."""

from libc.stdint cimport int32_t, int64_t
from libcpp.memory cimport unique_ptr

import numpy as np

from bmrm.errors import ParameterError

include "common/threads.pxi"
include "common/vectors.pxi"
include "pairs/pair_values.pxi"


cdef extern from "manifold/scaling.h" namespace "bmrm" nogil:
    const int64_t kPartTotals

    cdef cppclass CPairs "bmrm::Pairs":
        CPairs(int64_t, PairValues, PairValues, bint, int) except +
        CPairs(int64_t, const void*, int, int64_t, PairValues, int) except +
        int64_t bytes()
        void share(int64_t, int64_t)
        int64_t stride()
        int64_t own_parts(int64_t)
        void descent[Real](const double*, int64_t, double*) except +
        void laplacian(const double*, int64_t, double*) except +
        void squared(const double*, int64_t, double, double*) except +
        void curvature(const double*, int64_t, const double*, int64_t, double*) except +
        void pulls(const double*, int64_t, double*) except +
        void summary(double*) except +
        void add_up(const double*, int64_t, int64_t, double*) except +
        void distances(const double*, int64_t, double*) except +
        void place(const double*, int64_t, const double*, int64_t, double*, double*, int64_t) except +


cdef extern from "pairs/pair_parts.h" namespace "bmrm" nogil:
    const int64_t kMinPartPairs

cdef extern from "device_limits.h" namespace "bmrm" nogil:
    const int kMaxPairAxes, kMaxPairProducts, kSquaredColumns, kMostColumns, kMostFloatTerms
    const int64_t kMostStrips


cdef extern from "manifold/ordinal.h" namespace "bmrm" nogil:
    void c_disparities "bmrm::disparities"[I](
        int64_t, I*, const int64_t*, const int64_t*, int64_t, const double*, const double*, double, double*, int) except +


# Limits of a pass, and of passes on a GPU; see the headers.
MIN_PART_PAIRS, FLOAT_RUN = kMinPartPairs, kMostFloatTerms
MAX_AXES, MAX_PRODUCTS, SQUARED_COLUMNS = kMaxPairAxes, kMaxPairProducts, kSquaredColumns
MAX_STRIPS, TILE_COLUMNS = kMostStrips, kMostColumns


cdef class Pairs:
    """Dissimilarities of all pairs of n points, with weights, as the passes of scaling read them.

    Arrays are shared with the caller. Features are packed in float64. Ranks may share the parts of a pass: all
    call it together, and get the sums of all.
    """

    cdef unique_ptr[CPairs] impl
    cdef object _owners, _in_turn
    cdef int64_t _n

    def share(self, int64_t rank, int64_t ranks, in_turn):
        """Leave other parts of each pass to other ranks.

        - ``in_turn``: lets each rank in turn make a vector of so many numbers of that of the rank before, and
          returns the last one on all
        """
        self.impl.get().share(rank, ranks)
        self._in_turn = in_turn

    cdef _parts(self, int64_t sums, int64_t size):
        """Return room for the sums of the own parts of a pass with so many sums."""
        return np.empty((self.impl.get().own_parts(sums), size))

    cdef _added(self, parts):
        """Return the sums of all parts, those of other ranks too, added in their order."""
        cdef int64_t count = parts.shape[0], size = parts.shape[1]
        cdef const double* own = <const double*>_address(parts)

        def add(before):
            total = np.zeros(size) if before is None else before
            cdef double* target = <double*>_address(total)
            with nogil:
                self.impl.get().add_up(own, count, size, target)
            return total

        return add(None) if self._in_turn is None else self._in_turn(size, add)

    cdef _by_points(self, total, int64_t T):
        """Return planar numbers of the points as an array of shape (n, T)."""
        cdef int64_t stride = self.impl.get().stride()
        return np.ascontiguousarray(total[:T * stride].reshape(T, stride)[:, :self._n].T)

    @staticmethod
    def given(delta, int64_t n, *, weights=None, bint missing=False, threads=None):
        """Take dissimilarities.

        Parameters
        ----------
        delta : ndarray of float32 or float64, shape (n, n) or (n (n - 1) / 2,)
            Of a square matrix the upper triangle counts.
        n : int
        weights : ndarray, as `delta`, optional
        missing : bool, default False
            Whether some are NaN, which means unknown.
        threads : int, optional
            Maximum number of threads; results do not depend on it.
        """
        cdef Pairs self = Pairs.__new__(Pairs)
        cdef int n_threads = _threads(threads)
        self._n, self._owners = n, (delta, weights)
        cdef PairValues values = _pair_values(delta), w = _pair_values(weights)
        self.impl.reset(new CPairs(n, values, w, missing, n_threads))
        return self

    @staticmethod
    def of_features(X, *, weights=None, threads=None):
        """Take rows of features, whose distances are computed in each pass.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (n, m), C-contiguous
        weights, threads
            As for `given`.
        """
        cdef Pairs self = Pairs.__new__(Pairs)
        cdef int n_threads = _threads(threads), value_bytes = X.itemsize
        cdef int64_t m = X.shape[1]
        self._n, self._owners = X.shape[0], (weights,)
        cdef PairValues w = _pair_values(weights)
        cdef const void* features = _address(X)
        with nogil:
            self.impl.reset(new CPairs(self._n, features, value_bytes, m, w, n_threads))
        return self

    def descent(self, X, *, bint single=False):
        """Return half the negative gradient of the stress, and what else a pass finds.

        Parameters
        ----------
        X : ndarray, shape (n, p)
        single : bool, default False
            Whether places, dissimilarities and the terms of the sums are rounded to float32.

        Returns
        -------
        direction : ndarray, shape (n, p)
        stress, squares : float
            Sums of w (delta - d)^2 and of w d^2 over the pairs.
        together : int
            Pairs at one place although w delta > 0. An axis takes the place of their direction.
        """
        X = _input(X, (self._n, X.shape[1]), "X")
        cdef int64_t p = X.shape[1], sums = self.impl.get().stride() * p
        parts = self._parts(sums, sums + kPartTotals)
        cdef const double* places = <const double*>_address(X)
        cdef double* target = <double*>_address(parts)
        with nogil:
            if single:
                self.impl.get().descent[float](places, p, target)
            else:
                self.impl.get().descent[double](places, p, target)
        total = self._added(parts)
        stress, squares, together = total[sums:].tolist()
        return self._by_points(total, p), stress, squares, int(together)

    def laplacian(self, Y):
        """Return V Y for the Laplacian V of the weights and Y of shape (n, T)."""
        Y = _input(Y, (self._n, Y.shape[1]), "Y")
        cdef int64_t T = Y.shape[1], sums = self.impl.get().stride() * T
        parts = self._parts(sums, sums)
        cdef const double* numbers = <const double*>_address(Y)
        cdef double* target = <double*>_address(parts)
        with nogil:
            self.impl.get().laplacian(numbers, T, target)
        return self._by_points(self._added(parts), T)

    def squared(self, Y, double unknown=0.0):
        """Return the matrix of squared dissimilarities times Y of shape (n, T).

        NaN is replaced by the dissimilarity ``unknown``.
        """
        Y = _input(Y, (self._n, Y.shape[1]), "Y")
        cdef int64_t T = Y.shape[1], sums = self.impl.get().stride() * T
        parts = self._parts(sums, sums)
        cdef const double* numbers = <const double*>_address(Y)
        cdef double* target = <double*>_address(parts)
        with nogil:
            self.impl.get().squared(numbers, T, unknown, target)
        return self._by_points(self._added(parts), T)

    def curvature(self, X, Y):
        """Return half the Hessian of the stress at X, shape (n, p), times directions Y, shape (T, n, p)."""
        X = _input(X, (self._n, X.shape[1]), "X")
        Y = _input(Y, (Y.shape[0], *X.shape), "Y")
        joined = np.ascontiguousarray(Y.transpose(1, 0, 2))
        cdef int64_t p = X.shape[1], T = Y.shape[0], sums = self.impl.get().stride() * T * p
        parts = self._parts(sums, sums)
        cdef const double* places = <const double*>_address(X)
        cdef const double* numbers = <const double*>_address(joined)
        cdef double* target = <double*>_address(parts)
        with nogil:
            self.impl.get().curvature(places, p, numbers, T, target)
        found = self._by_points(self._added(parts), T * p).reshape(joined.shape)
        return np.ascontiguousarray(found.transpose(1, 0, 2))

    def pulls(self, X):
        """Return for each point the sum of w delta / d over its pairs, X of shape (n, p) being the places."""
        X = _input(X, (self._n, X.shape[1]), "X")
        cdef int64_t p = X.shape[1], sums = self.impl.get().stride()
        parts = self._parts(sums, sums)
        cdef const double* places = <const double*>_address(X)
        cdef double* target = <double*>_address(parts)
        with nogil:
            self.impl.get().pulls(places, p, target)
        return self._by_points(self._added(parts), 1)[:, 0]

    def summary(self):
        """Return sums over the pairs.

        Returns
        -------
        degrees : ndarray, shape (n,)
            Sum of the weights of the pairs of each point.
        weighted_squares, squares : float
            Sums of w delta^2 and of delta^2.
        known : int
            Number of pairs that are not NaN.
        """
        cdef int64_t sums = self._n + kPartTotals
        parts = self._parts(sums, sums)
        cdef double* target = <double*>_address(parts)
        with nogil:
            self.impl.get().summary(target)
        total = self._added(parts)
        weighted_squares, squares, known = total[self._n:].tolist()
        return total[:self._n].copy(), weighted_squares, squares, int(known)

    def distances(self, X, out=None):
        """Return the distances of all pairs of X, shape (n, p), row by row."""
        X = _input(X, (self._n, X.shape[1]), "X")
        out = _output(out, (self._n * (self._n - 1) // 2,))
        cdef const double* places = <const double*>_address(X)
        cdef double* target = <double*>_address(out)
        cdef int64_t p = X.shape[1]
        with nogil:
            self.impl.get().distances(places, p, target)
        return out

    def place(self, X, delta, start, int64_t max_iter):
        """Place new points among given ones.

        Parameters
        ----------
        X : ndarray, shape (n, p)
        delta : ndarray, shape (count, n)
            Dissimilarities, NaN for unknown.
        start : ndarray, shape (count, p)
        max_iter : int

        Returns
        -------
        places : ndarray, shape (count, p)
        stress : ndarray, shape (count,)
        """
        X = _input(X, (self._n, X.shape[1]), "X")
        delta = _input(delta, (len(delta), self._n), "delta")
        found = np.array(_input(start, (len(delta), X.shape[1]), "start"))
        stress = np.empty(len(delta))
        cdef const double* places = <const double*>_address(X)
        cdef const double* given = <const double*>_address(delta)
        cdef double* target = <double*>_address(found)
        cdef double* sums = <double*>_address(stress)
        cdef int64_t p = X.shape[1], count = len(delta)
        with nogil:
            self.impl.get().place(places, p, given, count, target, sums, max_iter)
        return found, stress

    @property
    def nbytes(self):
        """Memory besides the caller's arrays, in bytes."""
        return self.impl.get().bytes()


def fit_disparities(order, tie_begins, tie_ends, distances, weights, double total, out, *, threads=None):
    """Fit numbers that do not fall along an order to distances, by weighted least squares.

    Parameters
    ----------
    order : ndarray of int32 or int64, shape (count,)
        Places in `distances`. Changed within runs of ties, which are sorted by distance.
    tie_begins, tie_ends : ndarray of int64
        Runs of the order that are ties.
    distances : ndarray
    weights : ndarray or None
        As `distances`.
    total : float
        What the sum of w dhat^2 is scaled to.
    out : ndarray
        As `distances`; only places of the order are written.
    threads : int, optional
    """
    cdef int n_threads = _threads(threads)
    tie_begins = np.require(tie_begins, np.int64, ("C", "A"))
    tie_ends = np.require(tie_ends, np.int64, ("C", "A"))
    distances = _input(distances, (distances.size,), "distances")
    out = _output(out, distances.shape)
    cdef const double* w = NULL
    if weights is not None:
        weights = _input(weights, distances.shape, "weights")
        w = <const double*>_address(weights)
    cdef const double* d = <const double*>_address(distances)
    cdef double* target = <double*>_address(out)
    cdef const int64_t* begins = <const int64_t*>_address(tie_begins)
    cdef const int64_t* ends = <const int64_t*>_address(tie_ends)
    cdef int64_t count = len(order), ties = len(tie_begins)
    cdef void* places = _address(order)
    if order.dtype == np.int32:
        with nogil:
            c_disparities[int32_t](count, <int32_t*>places, begins, ends, ties, d, w, total, target, n_threads)
    elif order.dtype == np.int64:
        with nogil:
            c_disparities[int64_t](count, <int64_t*>places, begins, ends, ties, d, w, total, target, n_threads)
    else:
        raise ParameterError(f"order: found {order.dtype}, expected int32 or int64")
