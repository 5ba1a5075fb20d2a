"""The C interface of multidimensional scaling on a device; ``src_cuda/api/scaling.h`` documents it."""

from cuda.blackbox cimport bb_status
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/scaling.h" nogil:
    enum:
        BB_SCALING_VECTORS
        BB_SCALING_PRODUCTS

    ctypedef struct bb_scaling:
        pass

    ctypedef struct bb_pair_values:
        const void *values
        int32_t type
        int32_t square
        int32_t in_place

    ctypedef struct bb_pairs:
        int64_t n
        bb_pair_values delta
        bb_pair_values weights
        int32_t missing
        int32_t stored
        const void *features
        int32_t features_type
        int64_t m
        int32_t threads

    ctypedef struct bb_pair_defect:
        int32_t kind
        int32_t missing
        int64_t row
        int64_t column
        double value
        double other
        double largest

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
    bb_status bb_scaling_inspect(int32_t device, int64_t n, const bb_pair_values *values, int32_t nan_allowed,
                                 double diagonal, double asymmetry, bb_pair_defect *found)
