"""Passes over the rows for the estimators of `bmrm.reductions` (C++ in ``reductions/``)."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as c_bool
from libcpp.memory cimport unique_ptr

from bmrm.matrix._cpu cimport Matrix

import numpy as np

from bmrm.errors import ParameterError

include "common/threads.pxi"
include "common/vectors.pxi"


cdef extern from "reductions/kmeans.h" namespace "bmrm" nogil:
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
        double* sums
        double* cluster_weights

    cdef cppclass CClusters "bmrm::Clusters":
        PassCounts assign(const PassArguments&) except +
        int64_t additions()
        void own_distances(const PassArguments&, double*) except +
        PassCounts single_moves(const PassArguments&) except +
        void potentials(const int64_t*, int64_t, const double*, float*, bint, double*) except +
        int64_t bytes()

    CClusters* make_dense_clusters(
        const void*, int, int64_t, int64_t, const double*, double, int) except +
    CClusters* make_sparse_clusters(
        const int64_t*, const void*, int, const void*, int, int64_t, int64_t, int) except +

    const int64_t kPanelRows


PANEL_ROWS = kPanelRows
"""Number of rows of which `Clusters.potentials` returns one sum."""


def dense_values(matrix):
    """Return the array that a dense `bmrm.matrix._cpu.Matrix` shares, None for any other matrix."""
    if not isinstance(matrix, Matrix):
        return None
    owners = (<Matrix>matrix)._owners
    return owners if isinstance(owners, np.ndarray) else None


cdef class Clusters:
    """Rows on the CPU, as the passes of k-means read them.

    Arrays are shared with the caller and must not change. Dense rows are also packed in float32.
    """

    cdef unique_ptr[CClusters] impl
    cdef object _owners, _weights
    cdef int64_t _n, _d

    @staticmethod
    def dense(X, shift, double scale, *, weights=None, threads=None):
        """Pack dense rows.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape (n, d), C-contiguous
        shift : ndarray, shape (d,)
        scale : float
            A power of two; ``(X - shift) * scale`` should have a largest absolute value of about 1.
        weights : ndarray, shape (n,), optional
        threads : int, optional
            Maximum number of threads; results do not depend on it.
        """
        cdef Clusters self = Clusters.__new__(Clusters)
        cdef int n_threads = _threads(threads), value_bytes = X.itemsize
        self._take(X, X.shape, weights)
        shift = _input(shift, (self._d,), "shift")
        cdef const void* values = _address(X)
        cdef const double* offsets = <const double*>_address(shift)
        with nogil:
            self.impl.reset(make_dense_clusters(values, value_bytes, self._n, self._d, offsets, scale, n_threads))
        return self

    @staticmethod
    def sparse(indptr, indices, data, shape, *, weights=None, threads=None):
        """Take compressed sparse rows.

        Parameters
        ----------
        indptr : ndarray of int64, shape (n + 1,)
        indices : ndarray of int32 or int64, shape (nnz,)
        data : ndarray of float32 or float64, shape (nnz,), or None
            None if all values are 1.
        shape : tuple of int
        weights, threads
            As in `dense`.
        """
        cdef Clusters self = Clusters.__new__(Clusters)
        cdef int n_threads = _threads(threads)
        self._take((indptr, indices, data), shape, weights)
        cdef const int64_t* pointers = <const int64_t*>_address(indptr)
        cdef const void* index = _address(indices)
        cdef const void* values = NULL
        if data is not None:
            values = _address(data)
        cdef int index_bytes = indices.itemsize, value_bytes = 8 if data is None else data.itemsize
        with nogil:
            self.impl.reset(make_sparse_clusters(
                pointers, index, index_bytes, values, value_bytes, self._n, self._d, n_threads))
        return self

    cdef int _take(self, owners, shape, weights) except -1:
        self._owners = owners
        self._n, self._d = shape
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
        found.sums = NULL
        found.cluster_weights = NULL
        return found

    def assign(self, centers, labels, *, bint want_sums=True):
        """Label each row by its nearest centre, in place.

        With sums, dense rows that stay where they were in the last pass with sums are not read again in float64.

        Parameters
        ----------
        centers : ndarray, shape (k, d)
        labels : ndarray of int32, shape (n,)
            The former labels; overwritten.
        want_sums : bool, default True

        Returns
        -------
        sums : ndarray, shape (k, d), or None
            Sums of w (x - centre) over the rows of each centre.
        cluster_weights : ndarray, shape (k,)
        inertia : float
        changed, rechecked : int
            Rows with another label than before, and those decided in float64.
        """
        centers = _input(centers, (len(centers), self._d), "centers")
        cdef PassArguments to = self._arguments(centers, labels)
        sums = np.empty((to.k, self._d)) if want_sums else None
        cluster_weights = np.empty(to.k)
        if want_sums:
            to.sums = <double*>_address(sums)
        to.cluster_weights = <double*>_address(cluster_weights)
        cdef PassCounts found
        with nogil:
            found = self.impl.get().assign(to)
        return sums, cluster_weights, found.inertia, found.changed, found.rechecked

    @property
    def additions(self):
        """Maximum number of additions that a row's term of the last inertia of `assign` went through."""
        return self.impl.get().additions()

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

    def potentials(self, candidates, closest, *, bint take=False):
        """For each candidate row as a new centre: the sums of w min(closest, distance), by panels of rows.

        Parameters
        ----------
        candidates : ndarray of int64, shape (c,)
        closest : ndarray of float32, shape (n,)
            Squared distance of each row to its nearest centre so far.
        take : bool, default False
            Whether the only candidate becomes a centre: ``closest`` is updated.

        Returns
        -------
        ndarray, shape (c, panels)
        """
        candidates = np.require(candidates, dtype=np.int64, requirements=("C", "A"))
        if closest.dtype != np.float32 or closest.shape != (self._n,) or (take and len(candidates) != 1):
            raise ParameterError("potentials: expected float32 distances of all rows, and one candidate to take")
        out = np.empty((len(candidates), (self._n + kPanelRows - 1) // kPanelRows))
        cdef const int64_t* rows = <const int64_t*>_address(candidates)
        cdef int64_t count = len(candidates)
        cdef float* distances = <float*>_address(closest)
        cdef double* target = <double*>_address(out)
        cdef const double* weights = self._row_weights()
        with nogil:
            self.impl.get().potentials(rows, count, weights, distances, take, target)
        return out

    @property
    def shape(self):
        """Number of rows and columns."""
        return self._n, self._d

    @property
    def nbytes(self):
        """Memory besides the caller's arrays, in bytes."""
        return self.impl.get().bytes()


cdef extern from "reductions/mixture.h" namespace "bmrm" nogil:
    cdef struct Mixture:
        const void* X
        int value_bytes
        const double* weights
        int64_t n
        int64_t d
        int64_t k
        const double* means
        const double* roots
        const double* constants
        bint full

    double c_mixture_step "bmrm::mixture_step"(const Mixture&, double*, int) except +
    void c_mixture_shares "bmrm::mixture_shares"(const Mixture&, double*, double*, int) except +


cdef Mixture _mixture(X, weights, means, roots, constants) except *:
    cdef Mixture found
    found.X = _address(X)
    found.value_bytes = X.itemsize
    found.weights = NULL
    if weights is not None:
        found.weights = <const double*>_address(weights)
    found.n, found.d = X.shape
    found.k = len(means)
    found.means = <const double*>_address(means)
    found.roots = <const double*>_address(roots)
    found.constants = <const double*>_address(constants)
    found.full = roots.ndim == 3
    return found


cdef tuple _components(X, means, roots, constants):
    """Return the arrays of a mixture, contiguous and of matching shapes."""
    k, d = len(means), X.shape[1]
    means = _input(means, (k, d), "means")
    roots = _input(roots, (k, d, d) if roots.ndim == 3 else (k, d), "roots")
    return means, roots, _input(constants, (k,), "constants")


def mixture_step(X, weights, means, roots, constants, *, threads=None):
    """Run an E step and sum what the M step needs.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n, d), C-contiguous
    weights : ndarray, shape (n,), or None
    means : ndarray, shape (k, d)
    roots : ndarray, shape (k, d, d), lower triangles, or (k, d), diagonals
        The log density of component j at x is ``constants[j] - |roots[j] (x - means[j])|^2 / 2``.
    constants : ndarray, shape (k,)
    threads : int, optional

    Returns
    -------
    log_likelihood : float
    weights : ndarray, shape (k,)
    first : ndarray, shape (k, d)
        Sums of w r (x - mean).
    second : ndarray, as `roots`
        Sums of w r (x - mean)(x - mean)', lower triangles or diagonals.
    """
    cdef int n_threads = _threads(threads)
    means, roots, constants = _components(X, means, roots, constants)
    weights = None if weights is None else _input(weights, (len(X),), "weights")
    cdef Mixture of = _mixture(X, weights, means, roots, constants)
    k, d = means.shape
    sums = np.empty((k, 1 + d + roots[0].size))
    cdef double* target = <double*>_address(sums)
    cdef double likelihood
    with nogil:
        likelihood = c_mixture_step(of, target, n_threads)
    return likelihood, sums[:, 0], sums[:, 1 : 1 + d], sums[:, 1 + d :].reshape(roots.shape)


def mixture_shares(X, means, roots, constants, *, threads=None):
    """Return the log densities of rows, shape (n,), and the shares of the components, shape (n, k)."""
    cdef int n_threads = _threads(threads)
    means, roots, constants = _components(X, means, roots, constants)
    cdef Mixture of = _mixture(X, None, means, roots, constants)
    densities, shares = np.empty(len(X)), np.empty((len(X), len(means)))
    cdef double* first = <double*>_address(densities)
    cdef double* second = <double*>_address(shares)
    with nogil:
        c_mixture_shares(of, first, second, n_threads)
    return densities, shares


include "reductions/scaling.pxi"
