"""The C interface of a solve on a device; ``src_cuda/api/training.h`` documents it."""

from cuda.blackbox cimport bb_matrix, bb_status
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/training.h" nogil:
    ctypedef struct bb_problem:
        pass

    ctypedef enum bb_vector:
        BB_WEIGHTS
        BB_MARGINS

    ctypedef struct bb_search_request:
        double p, q, first, longest, accuracy, farthest, reach
        int64_t cut

    ctypedef struct bb_search_answer:
        double step, risk
        int32_t passes

    ctypedef struct bb_newton_request:
        double lam, intercept, forcing
        int64_t cut
        int32_t cuts, steps, profile
        const double *mean_squares

    bb_status bb_problem_create(bb_matrix *matrix, int32_t loss, double parameter, double scale,
                                const double *labels, const double *weights, double constant,
                                int32_t in_rows, bb_problem **out)
    bb_status bb_problem_set_offsets(bb_problem *problem, const double *offsets)
    void bb_problem_destroy(bb_problem *problem)
    double bb_problem_product_seconds(bb_problem *problem)
    int64_t bb_problem_products(bb_problem *problem)

    bb_status bb_vector_take(bb_problem *problem, bb_vector kind, void **out)
    void bb_vector_give(bb_problem *problem, bb_vector kind, void *vector)
    bb_status bb_weights_set(bb_problem *problem, void *w, const double *source)
    bb_status bb_weights_get(bb_problem *problem, const void *w, double *target)
    bb_status bb_margins_get(bb_problem *problem, const void *z, double *target)
    bb_status bb_weights_between(bb_problem *problem, const void *w, const void *end, double t, void *target)

    bb_status bb_margins(bb_problem *problem, const void *w, void *z)
    bb_status bb_renew(bb_problem *problem, void *w, void *z, double *square)
    bb_status bb_rescaled(bb_problem *problem, const void *w, double scale, void *z)
    bb_status bb_direction(bb_problem *problem, const void *z, void *end)
    bb_status bb_search(bb_problem *problem, const void *z, void *end, void *moved, const void *w,
                        const void *w_end, const bb_search_request *request, bb_search_answer *answer)
    bb_status bb_slope(bb_problem *problem, const void *z, const void *dz, double t, double b, double *slopes)
    bb_status bb_risk_at(bb_problem *problem, const void *z, const void *dz, double t, double b, void *moved,
                         double *risk)
    bb_status bb_derivatives(bb_problem *problem, const void *z, const void *dz, double t, double b,
                             int32_t which, double *sums)
    bb_status bb_set_derivatives(
        bb_problem *problem, const double *r, const int64_t *starts, int32_t blocks)
    bb_status bb_mix_derivatives(bb_problem *problem, double share)

    bb_status bb_cuts_reserve(bb_problem *problem, int64_t capacity)
    bb_status bb_cut(bb_problem *problem, int64_t size, const int64_t *starts, int32_t blocks, const void *z,
                     const void *dz, const void *w, const void *end, double t, double *sums, double *dots)
    bb_status bb_cuts_combine(bb_problem *problem, int64_t count, const double *weights, double factor,
                              const void *from_, void *w, void *z, double *sums)
    bb_status bb_round_kinks(bb_problem *problem, double width)
    bb_status bb_newton_point(bb_problem *problem, const void *w, const void *z,
                              const bb_newton_request *request, void *to, void *to_margins, double *sums,
                              int32_t *steps)
    bb_status bb_ascent_begin(bb_problem *problem, int32_t from_derivatives)
    bb_status bb_ascent_climb(bb_problem *problem, double lam, int32_t steps, double *conjugate)
    bb_status bb_cuts_move(bb_problem *problem, int64_t to, int64_t from_)
    bb_status bb_cuts_merge(bb_problem *problem, int64_t i, int64_t j, double share)
    bb_status bb_cuts_get(bb_problem *problem, int64_t first, int64_t count, double *target)
    bb_status bb_cuts_set(bb_problem *problem, int64_t first, int64_t count, const double *source)
