"""Passes over the rows for mixtures of normal distributions (C++ in ``mixtures/``)."""

from libc.stdint cimport int64_t
from libcpp cimport bool as c_bool

from parts.parts cimport c_part_rows

import numpy as np

from bmrm.errors import ParameterError

include "common/threads.pxi"
include "common/vectors.pxi"
include "parts/sums.pxi"


cdef extern from "mixtures/mixture.h" namespace "bmrm" nogil:
    cdef struct Mixture:
        const void* X
        int value_bytes
        const double* weights
        int64_t n
        int64_t d
        int64_t k
        int64_t total
        const double* means
        const double* roots
        const double* constants
        bint full

    int64_t c_mixture_sums "bmrm::mixture_sums"(int64_t, int64_t, c_bool)
    void c_mixture_step "bmrm::mixture_step"(const Mixture&, double*, double*, int) except +
    void c_mixture_shares "bmrm::mixture_shares"(const Mixture&, double*, double*, int) except +


cdef Mixture _mixture(X, weights, means, roots, constants) except *:
    cdef Mixture found
    found.X = _address(X)
    found.value_bytes = X.itemsize
    found.weights = NULL
    if weights is not None:
        found.weights = <const double*>_address(weights)
    found.n, found.d = X.shape
    found.total = found.n
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


def mixture_sums(int64_t k, int64_t d, c_bool full):
    """Return the length of the sums of a part in `mixture_step`."""
    return c_mixture_sums(k, d, full)


def mixture_step(X, weights, means, roots, constants, sums, *, total=None, threads=None):
    """Run an E step and sum what the M step needs.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n, d), C-contiguous
    weights : ndarray, shape (n,), or None
    means : ndarray, shape (k, d)
    roots : ndarray, shape (k, d, d), lower triangles, or (k, d), diagonals
        The log density of component j at x is ``constants[j] - |roots[j] (x - means[j])|^2 / 2``.
    constants : ndarray, shape (k,)
    sums : ndarray, shape (size,) or (parts, size)
        What sums are added to, or those of each part of `part_rows` rows. They are, for each component, the
        sums of w r, of w r (x - mean), and of w r (x - mean)(x - mean)', lower triangles or diagonals; then
        the log likelihood. `mixture_sums` returns their number.
    total : int, optional
        Rows of which these are some; it decides about the parts.
    threads : int, optional
    """
    cdef int n_threads = _threads(threads)
    means, roots, constants = _components(X, means, roots, constants)
    weights = None if weights is None else _input(weights, (len(X),), "weights")
    cdef Mixture of = _mixture(X, weights, means, roots, constants)
    if total is not None:
        of.total = total
    cdef int64_t size = c_mixture_sums(of.k, of.d, of.full)
    cdef c_bool parts
    cdef double* target = _sums(sums, size, of.n, c_part_rows(of.total, size), &parts)
    cdef double* whole = target
    cdef double* each = NULL
    if parts:
        whole = NULL
        each = target
    with nogil:
        c_mixture_step(of, whole, each, n_threads)


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
