"""The C interface of multidimensional scaling on a device; ``src_cuda/api/scaling.h`` documents it."""

from cuda.blackbox cimport bb_status
from cuda.pair_values cimport bb_pairs
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/scaling.h" nogil:
    ctypedef struct bb_scaling:
        pass

    bb_status bb_scaling_create(int32_t device, const bb_pairs *pairs, bb_scaling **out)
    void bb_scaling_destroy(bb_scaling *scaling)
    int64_t bb_scaling_sum_bytes(int64_t n, int32_t adds)
    bb_status bb_scaling_used(bb_scaling *scaling, int64_t *bytes)
    bb_status bb_scaling_lend(bb_scaling *scaling, int64_t size, double **vector)
    void bb_scaling_give(bb_scaling *scaling, int64_t size, double *vector)
    bb_status bb_scaling_put(bb_scaling *scaling, int64_t size, const double *values, double *vector)
    bb_status bb_scaling_get(bb_scaling *scaling, int64_t size, const double *vector, double *values)
    bb_status bb_scaling_combine(bb_scaling *scaling, int64_t size, const double *const *vectors,
                                 const double *factors, int32_t count, double *to)
    bb_status bb_scaling_products(bb_scaling *scaling, int64_t size, const double *const *vectors,
                                  const double *const *others, int32_t count, double *products)
    bb_status bb_scaling_over_degrees(bb_scaling *scaling, int32_t p, const double *vector, double *to)
    bb_status bb_scaling_centre(bb_scaling *scaling, int32_t p, const double *vector, double *to)
    bb_status bb_scaling_summary(bb_scaling *scaling, double *degrees, double *totals)
    bb_status bb_scaling_descent(bb_scaling *scaling, int32_t p, const double *X, double *direction,
                                 double *totals)
    bb_status bb_scaling_laplacian(bb_scaling *scaling, int32_t p, const double *Y, double *to)
    bb_status bb_scaling_squared(bb_scaling *scaling, int32_t p, const double *Y, double unknown, double *to)
    bb_status bb_scaling_pulls(bb_scaling *scaling, int32_t p, const double *X, double *to)
    bb_status bb_scaling_curvature(bb_scaling *scaling, int32_t p, const double *X, const double *direction,
                                   double *to)
    bb_status bb_scaling_row(bb_scaling *scaling, int64_t i, double *values)
