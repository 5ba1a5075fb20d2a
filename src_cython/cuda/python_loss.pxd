"""The C interface of a loss that the caller evaluates; ``src_cuda/api/python_loss.h`` documents it."""

from cuda.blackbox cimport bb_status
from libc.stdint cimport int32_t, int64_t
from cuda.training cimport bb_problem


cdef extern from "api/python_loss.h" nogil:
    int BB_PYTHON_LOSS

    ctypedef struct bb_rows:
        const void *data
        int64_t stride
        int32_t bytes

    bb_status bb_own_labels(bb_problem *problem, bb_rows *labels)
    bb_status bb_own_lend(bb_problem *problem, void *stream)
    bb_status bb_own_borrow(bb_problem *problem, void *stream)
    bb_status bb_own_margins(bb_problem *problem, const void *z, const void *dz, double t, double b,
                             void *moved, void *out)
    bb_status bb_own_slope(bb_problem *problem, const bb_rows *slopes, const void *dz, double *sums)
    bb_status bb_own_risk(bb_problem *problem, const bb_rows *values, const bb_rows *slopes, int32_t which,
                          const int64_t *starts, int32_t blocks, double least, double *sums)
    bb_status bb_own_get(bb_problem *problem, const bb_rows *rows, double *target)
