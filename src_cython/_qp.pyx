"""Binding of the inner QP (``qp.h`` has the problem and the method) and of Cholesky (``dense.h``)."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "qp.h" namespace "bmrm" nogil:
    cdef struct QpProblem:
        int64_t n
        int64_t groups
        int64_t stride
        const double* gram
        const double* offset
        const int32_t* group
        double lam
        double* alpha
        double* gradient

    cdef struct QpResult:
        double dual
        double gap
        int64_t changes

    cdef cppclass QpSolver:
        QpSolver(QpProblem& problem) except +
        QpResult run(double best, double rel_tol, double abs_tol, int64_t max_changes) except +


cdef extern from "dense.h" namespace "bmrm" nogil:
    bint c_cholesky_solve "bmrm::cholesky_solve"(size_t n, double* M, double* x)


def cholesky_solve(double[:, ::1] M, double[::1] x):
    """Solve ``M x' = x`` in place, M symmetric; False where M, which is overwritten, is not positive definite."""
    cdef size_t n = x.shape[0]
    if n == 0 or M.shape[0] != x.shape[0] or M.shape[1] != x.shape[0]:
        raise ValueError("matrix and right-hand side disagree in size")
    cdef bint done
    with nogil:
        done = c_cholesky_solve(n, &M[0, 0], &x[0])
    return done


def solve(
    const double[:, ::1] gram,
    const double[::1] offset,
    const int32_t[::1] group,
    int64_t groups,
    double lam,
    double[::1] alpha,
    double[::1] gradient,
    *,
    double best,
    double rel_tol,
    double abs_tol,
    int64_t max_changes,
):
    """Improve ``alpha`` in place, fill ``gradient``; return (dual, gap, changes)."""
    cdef int64_t n = offset.shape[0]
    if gram.shape[0] < n or gram.shape[1] < n or group.shape[0] != n:
        raise ValueError("gram, offset and group disagree in size")
    if n == 0 or alpha.shape[0] != n or gradient.shape[0] != n:
        raise ValueError("alpha and gradient need one entry a cut, and there must be a cut")
    cdef QpProblem q
    q.n = n
    q.groups = groups
    q.stride = gram.shape[1]
    q.gram = &gram[0, 0]
    q.offset = &offset[0]
    q.group = &group[0]
    q.lam = lam
    q.alpha = &alpha[0]
    q.gradient = &gradient[0]
    cdef QpSolver* solver = new QpSolver(q)
    cdef QpResult result
    try:
        with nogil:
            result = solver.run(best, rel_tol, abs_tol, max_changes)
    finally:
        del solver
    return result.dual, result.gap, result.changes
