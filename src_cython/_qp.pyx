"""What a bundle does with its cuts: the inner QP, the table of cuts that it works on, and the products of cuts.

Bindings of ``qp/qp.h``, which has the problem and the method, of Newton's model under a penalty
(``qp/penalised_quadratic.h``), of Cholesky (``qp/dense_algebra.h``) and of the products (``qp/cut_products.h``).
"""

from libc.math cimport INFINITY, fabs, isfinite
from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

import numpy as np

from bmrm.errors import ParameterError


cdef extern from "qp/qp.h" namespace "bmrm" nogil:
    cdef struct QpProblem:
        int64_t n
        int64_t groups
        int64_t stride
        const double* gram
        const double* offset
        const double* origin
        const int32_t* group
        const int64_t* serial
        double lam
        double dependent
        double* alpha
        double* gradient

    cdef struct QpResult:
        double dual
        double gap
        int64_t changes

    cdef cppclass KeptActiveSet:
        KeptActiveSet() except +

    cdef cppclass QpSolver:
        QpSolver(QpProblem& problem, KeptActiveSet& kept) except +
        QpResult run(double best, double rel_tol, double abs_tol, int64_t max_changes) except +


cdef extern from "qp/dense_algebra.h" namespace "bmrm" nogil:
    bint c_cholesky_solve "bmrm::cholesky_solve"(size_t n, double* M, double* x) except +


cdef extern from "qp/penalised_quadratic.h" namespace "bmrm" nogil:
    cdef struct PenalisedQuadratic:
        size_t n
        const double* H
        double* slope
        const double* l1
        const double* prior
        const double* low
        const double* high
        double* w

    cdef cppclass PenalisedQuadraticSolver:
        PenalisedQuadraticSolver(PenalisedQuadratic& problem) except +
        int run() except +


def cholesky_solve(double[:, ::1] M, double[::1] x):
    """Solve ``M x' = x`` in place, M symmetric, overwriting M; False if M is not positive definite."""
    cdef size_t n = x.shape[0]
    if n == 0 or M.shape[0] != x.shape[0] or M.shape[1] != x.shape[0]:
        raise ValueError("matrix and right-hand side disagree in size")
    cdef bint done
    with nogil:
        done = c_cholesky_solve(n, &M[0, 0], &x[0])
    return done


cdef const double* _start(const double[::1] origin, Py_ssize_t n) except? NULL:
    """Return the alpha from which the values of cuts are counted; NULL for 0."""
    if origin is None:
        return NULL
    if origin.shape[0] != n:
        raise ValueError("origin needs one entry per cut")
    return &origin[0]


# Share of a cut's square below which rounding of the Gram matrix may be all that is left of it.
cdef double _DEPENDENT = 1e-10


cdef class ActiveSet:
    """The factored active set of a QP whose cuts come and go, kept from one `solve` to the next."""

    cdef KeptActiveSet kept


cdef QpResult _improve(
    int64_t n,
    int64_t groups,
    int64_t stride,
    const double* gram,
    const double* offset,
    const double* origin,
    const int32_t* group,
    const int64_t* serial,
    double lam,
    double* alpha,
    double* gradient,
    ActiveSet active_set,
    double best,
    double rel_tol,
    double abs_tol,
    int64_t max_changes,
    double dependent,
) except *:
    cdef QpProblem q
    q.n, q.groups, q.stride = n, groups, stride
    q.gram, q.offset, q.origin = gram, offset, origin
    q.group, q.serial, q.lam, q.dependent = group, serial, lam, dependent
    q.alpha, q.gradient = alpha, gradient
    cdef QpSolver* solver = new QpSolver(q, active_set.kept)
    try:
        with nogil:
            return solver.run(best, rel_tol, abs_tol, max_changes)
    finally:
        del solver


def solve(
    const double[:, ::1] gram,
    const double[::1] offset,
    const int32_t[::1] group,
    const int64_t[::1] serial,
    int64_t groups,
    double lam,
    double[::1] alpha,
    double[::1] gradient,
    ActiveSet active_set not None,
    *,
    double best,
    double rel_tol,
    double abs_tol,
    int64_t max_changes,
    const double[::1] origin=None,
    double dependent=_DEPENDENT,
):
    """Improve ``alpha`` in place, fill ``gradient``; return (dual, gap, changes).

    ``serial`` names the cuts: a name that `active_set` has seen before stands for the same cut, with the same
    products. With an ``origin``, the ``offset`` of a cut is its value at that alpha, and ``dual`` is the rise
    from there. A cut whose square beside the active ones is below a share ``dependent`` of its own counts as
    one that depends on them: what is left is rounding, unless the diagonal was raised by as much.
    """
    cdef int64_t n = offset.shape[0]
    if gram.shape[0] < n or gram.shape[1] < n or group.shape[0] != n or serial.shape[0] != n:
        raise ValueError("gram, offset, group and serial disagree in size")
    if n == 0 or alpha.shape[0] != n or gradient.shape[0] != n:
        raise ValueError("alpha and gradient need one entry per cut, and there must be a cut")
    cdef const double* start = _start(origin, n)
    cdef QpResult result = _improve(
        n, groups, gram.shape[1], &gram[0, 0], &offset[0], start, &group[0], &serial[0], lam, &alpha[0],
        &gradient[0], active_set, best, rel_tol, abs_tol, max_changes, dependent)
    return result.dual, result.gap, result.changes


cdef class Table:
    """The numbers that a bundle keeps of its cuts, and what each pass does with them.

    This is little work in many steps, each of which would take NumPy a microsecond. The arrays remain the
    bundle's; if it replaces them, it makes a new table.

    Parameters
    ----------
    gram : ndarray of shape (capacity, capacity)
    offset, alpha : ndarray of shape (capacity,)
    group, idle : ndarray of int32, shape (capacity,)
    serial : ndarray of int64, shape (capacity,)
    blur : ndarray of shape (4, capacity)
    """

    cdef double[:, ::1] gram, blur
    cdef double[::1] offset, alpha
    cdef int32_t[::1] group, idle
    cdef int64_t[::1] serial
    cdef vector[double] gradient

    def __cinit__(
        self,
        double[:, ::1] gram,
        double[::1] offset,
        double[::1] alpha,
        int32_t[::1] group,
        int32_t[::1] idle,
        int64_t[::1] serial,
        double[:, ::1] blur,
    ):
        cdef Py_ssize_t capacity = offset.shape[0]
        if not (gram.shape[0] == gram.shape[1] == alpha.shape[0] == group.shape[0] == idle.shape[0]
                == serial.shape[0] == blur.shape[1] == capacity and blur.shape[0] == 4):
            raise ValueError("arrays disagree in size")
        self.gram, self.offset, self.alpha = gram, offset, alpha
        self.group, self.idle, self.serial, self.blur = group, idle, serial, blur
        self.gradient.resize(capacity)

    cdef int _check(self, Py_ssize_t n) except -1:
        if not 0 <= n <= self.offset.shape[0]:
            raise ValueError("more cuts than the table has room for")
        return 0

    def append(self, const double[:, :] products, const double[:] offsets, int64_t serial):
        """Append one cut per block: products with all cuts, offsets, and consecutive serials.

        The first cuts get all the weight; later ones get theirs from the QP. If some product is not finite,
        nothing is written, and the result is False.
        """
        cdef Py_ssize_t blocks = products.shape[0], n = products.shape[1], first = n - blocks, p, k
        self._check(n)
        if first < 0 or offsets.shape[0] != blocks:
            raise ValueError("products and offsets disagree in size")
        for p in range(blocks):
            for k in range(n):
                if not isfinite(products[p, k]):
                    return False
        # New columns are written row by row: the places of one column may all share a set of the cache.
        for k in range(n):
            for p in range(blocks):
                self.gram[k, first + p] = products[p, k]
        for p in range(blocks):
            for k in range(n):
                self.gram[first + p, k] = products[p, k]
            self.offset[first + p] = offsets[p]
            self.alpha[first + p] = 1.0 if first == 0 else 0.0
            self.group[first + p], self.idle[first + p] = p, 0
            self.serial[first + p] = serial + p
        return True

    def maximise(
        self,
        Py_ssize_t n,
        int64_t groups,
        double lam,
        ActiveSet active_set not None,
        *,
        double best,
        double rel_tol,
        double abs_tol,
        int64_t max_changes,
        const double[::1] offsets=None,
        const double[::1] origin=None,
    ):
        """Improve alpha of the first ``n`` cuts, see `solve`; ``offsets`` replaces those of the table.

        Return the mean of the squares of the gradients, weighted by alpha, and the gap.
        """
        self._check(n)
        if n == 0 or (offsets is not None and offsets.shape[0] != n):
            raise ValueError("offsets need one entry per cut, and there must be a cut")
        cdef const double* start = _start(origin, n)
        cdef const double* values = &self.offset[0]
        if offsets is not None:
            values = &offsets[0]
        cdef QpResult result = _improve(
            n, groups, self.gram.shape[1], &self.gram[0, 0], values, start, &self.group[0], &self.serial[0], lam,
            &self.alpha[0], self.gradient.data(), active_set, best, rel_tol, abs_tol, max_changes,
            _DEPENDENT)
        cdef double squares = 0.0
        cdef Py_ssize_t k
        for k in range(n):
            squares += self.alpha[k] * self.gram[k, k]
        return squares, result.gap

    def offset_of_mean(self, Py_ssize_t n):
        """Return the offset of the aggregate plane, ``<b, alpha>``."""
        self._check(n)
        cdef double total = 0.0
        cdef Py_ssize_t k
        for k in range(n):
            total += self.offset[k] * self.alpha[k]
        return total

    def blur_of_mean(self, const double[::1] alpha):
        """Return the means, weighted by ``alpha``, of the four numbers of the first cuts' blur."""
        self._check(alpha.shape[0])
        cdef double found[4]
        cdef Py_ssize_t k, p
        for p in range(4):
            found[p] = 0.0
            for k in range(alpha.shape[0]):
                found[p] += self.blur[p, k] * alpha[k]
        return found[0], found[1], found[2], found[3]

    def missed(self, const double[::1] alpha, int64_t groups, int64_t left_out=-1):
        """Return the largest deviation from 1 of the sum of a block's weights.

        For the block that is left out, the sum should be 0. Infinity if a weight is negative or NaN.
        """
        self._check(alpha.shape[0])
        cdef vector[double] sums
        sums.resize(groups)
        cdef Py_ssize_t k, p
        cdef double most = 0.0, off
        for k in range(alpha.shape[0]):
            # Negated, so that NaN is refused as well.
            if not (alpha[k] >= 0.0 and 0 <= self.group[k] < groups):
                return INFINITY
            sums[self.group[k]] += alpha[k]
        for p in range(groups):
            off = fabs(sums[p] - (p != left_out))
            if not off <= most:
                most = off
        return most

    def age(self, Py_ssize_t n):
        """Count one more pass without weight for the cuts that have none."""
        self._check(n)
        cdef Py_ssize_t k
        for k in range(n):
            self.idle[k] = 0 if self.alpha[k] > 0.0 else self.idle[k] + 1

    def count_idle(self, Py_ssize_t n, int32_t patience):
        """Return the number of cuts that have been idle for more than ``patience`` passes."""
        self._check(n)
        cdef Py_ssize_t k, count = 0
        for k in range(n):
            count += self.idle[k] > patience
        return count

    def steep(self, Py_ssize_t n, int64_t since, double most):
        """Return the indices of cuts with serials from ``since`` on whose squares exceed ``most``."""
        self._check(n)
        cdef Py_ssize_t k
        return [k for k in range(n) if self.serial[k] >= since and self.gram[k, k] > most]


def penalised_quadratic(
    const double[:, ::1] H,
    double[::1] slope,
    const double[::1] l1,
    const double[::1] prior,
    const double[::1] low,
    const double[::1] high,
    double[::1] w,
):
    """Move ``w``, where the quadratic has ``slope``, to the minimum; both in place. Return the number of rounds."""
    cdef PenalisedQuadratic q
    q.n = w.shape[0]
    if q.n == 0 or H.shape[0] != w.shape[0] or H.shape[1] != w.shape[0]:
        raise ValueError("matrix and vectors disagree in size")
    if not (slope.shape[0] == l1.shape[0] == prior.shape[0] == low.shape[0] == high.shape[0] == w.shape[0]):
        raise ValueError("vectors disagree in size")
    q.H = &H[0, 0]
    q.slope = &slope[0]
    q.l1 = &l1[0]
    q.prior = &prior[0]
    q.low = &low[0]
    q.high = &high[0]
    q.w = &w[0]
    cdef PenalisedQuadraticSolver* solver = new PenalisedQuadraticSolver(q)
    cdef int rounds
    try:
        with nogil:
            rounds = solver.run()
    finally:
        del solver
    return rounds


include "common/vectors.pxi"
include "common/threads.pxi"
include "qp/cut_products.pxi"
