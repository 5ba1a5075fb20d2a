"""The C interface of dense rows on a device; ``src_cuda/api/{dense_rows,gram,mixture}.h`` document it."""

from cuda.blackbox cimport bb_device, bb_status, bb_type
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/dense_rows.h" nogil:
    ctypedef struct bb_dense_rows:
        pass

    bb_status bb_dense_rows_create(const bb_device *device, bb_type type, int64_t n, int64_t d,
                                   const void *values, const double *weights, int64_t spare, int32_t threads,
                                   bb_dense_rows **out)
    bb_status bb_dense_rows_load(bb_dense_rows *rows, int64_t n, const void *values, const double *weights)
    void bb_dense_rows_destroy(bb_dense_rows *rows)
    bb_status bb_dense_rows_address(bb_dense_rows *rows, const void **values)
    bb_status bb_dense_rows_take(bb_dense_rows *rows, const int64_t *numbers, int64_t count, double *to)
    bb_status bb_dense_rows_extremes(bb_dense_rows *rows, double *largest, int64_t *not_finite)


cdef extern from "api/gram.h" nogil:
    bb_status bb_gram(bb_dense_rows *rows, const double *shift, int32_t grid, double *gram, double *totals)
    int64_t bb_gram_additions(int64_t n, int64_t d)
    int64_t bb_gram_bytes(int64_t n, int64_t d)


cdef extern from "api/mixture.h" nogil:
    ctypedef struct bb_mixture_model:
        int32_t k
        int32_t full
        const double *means
        const double *roots
        const double *constants

    ctypedef struct bb_mixture_moments:
        double *weights
        double *first
        double *second
        double likelihood

    int64_t bb_mixture_columns(const bb_device *device)
    int64_t bb_mixture_bytes(int64_t n, int64_t d, int32_t k, int32_t full)
    bb_status bb_mixture_step(bb_dense_rows *rows, const bb_mixture_model *model, const int32_t *labels,
                              int32_t grid, bb_mixture_moments *moments)
    bb_status bb_mixture_shares(bb_dense_rows *rows, const bb_mixture_model *model, double *densities,
                                double *shares)
