"""Binding of the inner QP (``qp.h`` has the problem and the method), of Newton's model under a penalty
(``penalised_quadratic.h``) and of Cholesky (``dense.h``)."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "qp.h" namespace "bmrm" nogil:
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
        double* alpha
        double* gradient

    cdef struct QpResult:
        double dual
        double gap
        int64_t changes

    cdef cppclass KeptFace:
        KeptFace() except +

    cdef cppclass QpSolver:
        QpSolver(QpProblem& problem, KeptFace& kept) except +
        QpResult run(double best, double rel_tol, double abs_tol, int64_t max_changes) except +


cdef extern from "dense.h" namespace "bmrm" nogil:
    bint c_cholesky_solve "bmrm::cholesky_solve"(size_t n, double* M, double* x) except +


cdef extern from "penalised_quadratic.h" namespace "bmrm" nogil:
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
    """Solve ``M x' = x`` in place, M symmetric; False where M, which is overwritten, is not positive definite."""
    cdef size_t n = x.shape[0]
    if n == 0 or M.shape[0] != x.shape[0] or M.shape[1] != x.shape[0]:
        raise ValueError("matrix and right-hand side disagree in size")
    cdef bint done
    with nogil:
        done = c_cholesky_solve(n, &M[0, 0], &x[0])
    return done


cdef class Face:
    """The factored face of a QP whose cuts come and go, kept from one `solve` to the next."""

    cdef KeptFace kept


def solve(
    const double[:, ::1] gram,
    const double[::1] offset,
    const int32_t[::1] group,
    const int64_t[::1] serial,
    int64_t groups,
    double lam,
    double[::1] alpha,
    double[::1] gradient,
    Face face not None,
    *,
    double best,
    double rel_tol,
    double abs_tol,
    int64_t max_changes,
    const double[::1] origin=None,
):
    """Improve ``alpha`` in place, fill ``gradient``; return (dual, gap, changes).

    ``serial`` names the cuts: one that `face` met before is the same as then, with the same products. With an
    ``origin`` the ``offset`` of a cut is its value where alpha is that, and ``dual`` is what it rises from there.
    """
    cdef int64_t n = offset.shape[0]
    if gram.shape[0] < n or gram.shape[1] < n or group.shape[0] != n or serial.shape[0] != n:
        raise ValueError("gram, offset, group and serial disagree in size")
    if n == 0 or alpha.shape[0] != n or gradient.shape[0] != n:
        raise ValueError("alpha and gradient need one entry a cut, and there must be a cut")
    if origin is not None and origin.shape[0] != n:
        raise ValueError("origin needs one entry a cut")
    cdef QpProblem q
    q.n = n
    q.groups = groups
    q.stride = gram.shape[1]
    q.gram = &gram[0, 0]
    q.offset = &offset[0]
    q.origin = NULL
    if origin is not None:
        q.origin = &origin[0]
    q.group = &group[0]
    q.serial = &serial[0]
    q.lam = lam
    q.alpha = &alpha[0]
    q.gradient = &gradient[0]
    cdef QpSolver* solver = new QpSolver(q, face.kept)
    cdef QpResult result
    try:
        with nogil:
            result = solver.run(best, rel_tol, abs_tol, max_changes)
    finally:
        del solver
    return result.dual, result.gap, result.changes


def penalised_quadratic(
    const double[:, ::1] H,
    double[::1] slope,
    const double[::1] l1,
    const double[::1] prior,
    const double[::1] low,
    const double[::1] high,
    double[::1] w,
):
    """Move ``w``, where the quadratic has ``slope``, to the minimum; both in place. Return the rounds taken."""
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
