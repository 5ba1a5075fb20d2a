"""Passes over the rows for k-means (C++ in ``clusters/``)."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as c_bool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from parts.parts cimport c_part_rows

import numpy as np

from bmrm.errors import ParameterError

include "common/threads.pxi"
include "common/vectors.pxi"
include "parts/sums.pxi"


cdef extern from "clusters/kept_moments.h" namespace "bmrm" nogil:
    cdef cppclass KeptMoments:
        int64_t additions()


cdef extern from "clusters/kept_bounds.h" namespace "bmrm" nogil:
    cdef cppclass KeptBounds:
        pass


cdef extern from "clusters/kmeans.h" namespace "bmrm" nogil:
    cdef struct PassCounts:
        double inertia
        int64_t changed
        int64_t rechecked
        double largest

    cdef struct PassArguments:
        const double* centers
        int64_t k
        const double* weights
        int32_t* labels
        c_bool want_sums
        double* cluster_weights
        double* sums
        double* parts
        vector[KeptMoments]* kept
        KeptBounds* bounds

    cdef cppclass CClusters "bmrm::Clusters":
        PassCounts assign(const PassArguments&) except +
        void own_distances(const PassArguments&, double*) except +
        PassCounts single_moves(const PassArguments&) except +
        void potentials(
            const double*, int64_t, const double*, const float*, float*, int64_t, double*) except +
        int64_t bytes()

    CClusters* make_dense_clusters(
        const void*, int, int64_t, int64_t, int64_t, const double*, double, int) except +
    CClusters* make_sparse_clusters(
        const int64_t*, const void*, int, const void*, int, int64_t, int64_t, int64_t, int) except +

    int64_t part_sums(c_bool, int64_t, int64_t)

    const int64_t kPanelRows


cdef extern from "clusters/draws.h" namespace "bmrm" nogil:
    cdef struct Draw:
        int64_t place
        double rest

    Draw c_descend "bmrm::descend"(const double*, int64_t, double)
    int64_t c_draw_row "bmrm::draw_row<1024>"(const float*, const double*, int64_t, double)


PANEL_ROWS = kPanelRows
"""Number of rows of which `Clusters.potentials` returns one sum."""

SEEDING_PANEL_ROWS = 1024
"""Maximum number of rows that `draw_row` takes: rows of which a pass of k-means++ returns one sum."""


def cluster_sums(c_bool want_sums, int64_t k, int64_t d):
    """Return the length of the sums of a part in `Clusters.assign`."""
    return part_sums(want_sums, k, d)


cdef class KeptSums:
    """The sums of a pass over dense rows, for the next pass over the same rows (``clusters/kept_moments.h``).

    Parameters
    ----------
    bounded : bool, default False
        Whether bounds on distances are kept, too (``clusters/kept_bounds.h``): up to 68 bytes per row.
    """

    cdef vector[KeptMoments] parts
    cdef KeptBounds bounds
    cdef readonly c_bool bounded

    def __cinit__(self, *, c_bool bounded=False):
        self.bounded = bounded

    @property
    def additions(self):
        """Maximum number of additions to a sum of a part since it was taken afresh."""
        cdef int64_t most = 0
        cdef size_t p
        for p in range(self.parts.size()):
            most = max(most, self.parts[p].additions())
        return most


cdef class Clusters:
    """Rows on the CPU, as the passes of k-means read them.

    Arrays are shared with the caller and must not change. Dense rows are also packed in float32.
    """

    cdef unique_ptr[CClusters] impl
    cdef object _owners, _weights
    cdef int64_t _n, _d, _total

    @staticmethod
    def dense(X, shift, double scale, *, weights=None, total=None, threads=None):
        """Pack dense rows.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (n, d), C-contiguous
        shift : ndarray, shape (d,)
        scale : float
            A power of two; ``(X - shift) * scale`` should have a largest absolute value of about 1.
        weights : ndarray, shape (n,), optional
        total : int, optional
            Rows of which these are some; it decides about the parts.
        threads : int, optional
            Maximum number of threads; results do not depend on it.
        """
        cdef Clusters self = Clusters.__new__(Clusters)
        cdef int n_threads = _threads(threads), value_bytes = X.itemsize
        self._take(X, X.shape, weights, total)
        shift = _input(shift, (self._d,), "shift")
        cdef const void* values = _address(X)
        cdef const double* offsets = <const double*>_address(shift)
        with nogil:
            self.impl.reset(make_dense_clusters(
                values, value_bytes, self._n, self._d, self._total, offsets, scale, n_threads))
        return self

    @staticmethod
    def sparse(indptr, indices, data, shape, *, weights=None, total=None, threads=None):
        """Take compressed sparse rows.

        Parameters
        ----------
        indptr : ndarray of int64, shape (n + 1,)
        indices : ndarray of int32 or int64, shape (nnz,)
        data : ndarray of float32 or float64, shape (nnz,), or None
            None if all values are 1.
        shape : tuple of int
        weights, total, threads
            As in `dense`.
        """
        cdef Clusters self = Clusters.__new__(Clusters)
        cdef int n_threads = _threads(threads)
        self._take((indptr, indices, data), shape, weights, total)
        cdef const int64_t* pointers = <const int64_t*>_address(indptr)
        cdef const void* index = _address(indices)
        cdef const void* values = NULL
        if data is not None:
            values = _address(data)
        cdef int index_bytes = indices.itemsize, value_bytes = 8 if data is None else data.itemsize
        with nogil:
            self.impl.reset(make_sparse_clusters(
                pointers, index, index_bytes, values, value_bytes, self._n, self._d, self._total, n_threads))
        return self

    cdef int _take(self, owners, shape, weights, total) except -1:
        self._owners = owners
        self._n, self._d = shape
        self._total = self._n if total is None else total
        self._weights = None if weights is None else _input(weights, (self._n,), "weights")
        return 0

    cdef const double* _row_weights(self) except? NULL:
        if self._weights is None:
            return NULL
        return <const double*>_address(self._weights)

    cdef PassArguments _arguments(self, centers, labels) except *:
        cdef PassArguments found
        if labels.dtype != np.int32 or labels.shape != (self._n,) or not labels.flags.c_contiguous:
            raise ParameterError(f"labels: expected a contiguous int32 array of {self._n} numbers")
        found.centers = <const double*>_address(centers)
        found.k = len(centers)
        found.weights = self._row_weights()
        found.labels = <int32_t*>_address(labels)
        found.want_sums = False
        found.cluster_weights = found.sums = found.parts = NULL
        found.kept = NULL
        found.bounds = NULL
        return found

    def assign(self, centers, labels, sums, *, c_bool want_sums=True, KeptSums kept=None):
        """Label each row by its nearest centre, in place.

        Parameters
        ----------
        centers : ndarray, shape (k, d)
        labels : ndarray of int32, shape (n,)
            The former labels; overwritten.
        sums : ndarray, shape (size,) or (parts, size)
            What sums are added to, or those of each part of `part_rows` rows. They are, if wanted, sums of
            w (x - centre) over the rows of each centre, for sparse rows of w x; then the weights of the rows
            of each centre; then the inertia. `cluster_sums` returns their number.
        want_sums : bool, default True
        kept : KeptSums, optional
            What the last pass over the same rows left there. Dense rows whose label has not changed since are then
            not read again in float64 if sums are wanted.

        Returns
        -------
        changed, rechecked : int
            Rows with another label than before, and those resolved in float64.
        """
        centers = _input(centers, (len(centers), self._d), "centers")
        cdef PassArguments to = self._arguments(centers, labels)
        cdef int64_t size = part_sums(want_sums, to.k, self._d)
        cdef c_bool parts
        cdef double* target = _sums(sums, size, self._n, c_part_rows(self._total, size), &parts)
        to.want_sums = want_sums
        if kept is not None:
            to.kept = &kept.parts
            if kept.bounded:
                to.bounds = &kept.bounds
        if parts:
            to.parts = target
        else:
            to.sums = target
        cdef PassCounts found
        with nogil:
            found = self.impl.get().assign(to)
        return found.changed, found.rechecked

    def own_distances(self, centers, labels):
        """Return the squared distance of each row to the centre of its label."""
        centers = _input(centers, (len(centers), self._d), "centers")
        cdef PassArguments to = self._arguments(centers, labels)
        out = np.empty(self._n)
        cdef double* target = <double*>_address(out)
        with nogil:
            self.impl.get().own_distances(to, target)
        return out

    def single_moves(self, centers, labels, cluster_weights):
        """Return how many rows would each lower the inertia by a move to another cluster, and the largest gain."""
        centers = _input(centers, (len(centers), self._d), "centers")
        cluster_weights = _input(cluster_weights, (len(centers),), "cluster_weights")
        cdef PassArguments to = self._arguments(centers, labels)
        to.cluster_weights = <double*>_address(cluster_weights)
        cdef PassCounts found
        with nogil:
            found = self.impl.get().single_moves(to)
        return found.changed, found.largest

    def potentials(self, candidates, closest, least=None):
        """For each candidate as a new centre: the sums of w min(closest, distance), by panels of rows.

        Parameters
        ----------
        candidates : ndarray, shape (c, d)
            Rows in float64.
        closest : ndarray of float32, shape (n,)
            Squared distance of each row to its nearest centre so far.
        least : ndarray of float32, shape (c, n), optional
            Where to write ``closest`` after each candidate, rows of contiguous numbers. That of a single
            candidate may be a view of ``closest``.

        Returns
        -------
        ndarray, shape (c, panels)
        """
        candidates = _input(candidates, (len(candidates), self._d), "candidates")
        if closest.dtype != np.float32 or closest.shape != (self._n,) or not closest.flags.c_contiguous:
            raise ParameterError("closest: expected contiguous float32 distances of all rows")
        cdef float* minima = NULL
        cdef int64_t step = 0
        if least is not None:
            if least.dtype != np.float32 or least.shape != (len(candidates), self._n) or least.strides[1] != 4:
                raise ParameterError("least: expected float32 distances of all rows for each candidate")
            minima = <float*>_address(least)
            step = least.strides[0] // 4
        out = np.empty((len(candidates), (self._n + kPanelRows - 1) // kPanelRows))
        cdef const double* rows = <const double*>_address(candidates)
        cdef int64_t count = len(candidates)
        cdef const float* distances = <const float*>_address(closest)
        cdef double* target = <double*>_address(out)
        cdef const double* weights = self._row_weights()
        with nogil:
            self.impl.get().potentials(rows, count, weights, distances, minima, step, target)
        return out

    @property
    def shape(self):
        """Number of rows and columns."""
        return self._n, self._d

    @property
    def nbytes(self):
        """Memory besides the caller's arrays, in bytes."""
        return self.impl.get().bytes()


def descend(sums, double number):
    """Return the place that a number in [0, 1] draws in proportion to sums, and what is left of the number."""
    sums = _input(sums, sums.shape, "sums")
    cdef Draw found = c_descend(<const double*>_address(sums), len(sums), number)
    return found.place, found.rest


def draw_row(closest, weights, double number):
    """Return the row of a panel that a number in [0, 1] draws in proportion to w D^2.

    Parameters
    ----------
    closest : ndarray of float32, shape (n,)
        Squared distances of up to `SEEDING_PANEL_ROWS` rows.
    weights : ndarray of float64, shape (n,), or None
    number : float
    """
    closest = np.require(closest, np.float32, ("C", "A"))
    cdef int64_t count = len(closest)
    if not 0 < count <= 1024:
        raise ParameterError(f"closest: found {count} numbers, expected 1 to 1024")
    cdef const double* w = NULL
    if weights is not None:
        weights = _input(weights, (count,), "weights")
        w = <const double*>_address(weights)
    return c_draw_row(<const float*>_address(closest), w, count, number)
