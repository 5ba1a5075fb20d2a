"""The C interface of counts of pairs on a device; ``src_cuda/api/pairs.h`` documents it."""

from cuda.blackbox cimport bb_status
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/pairs.h" nogil:
    ctypedef struct bb_points:
        pass

    ctypedef struct bb_pair_counter:
        pass

    ctypedef struct bb_point_data:
        int64_t n
        int32_t axes
        int32_t type
        const void *at
        int64_t point
        int64_t axis
        const double *box
        int32_t threads

    ctypedef struct bb_pair_work:
        int64_t tasks
        double candidates
        int64_t bytes

    bb_status bb_points_create(int32_t device, const bb_point_data *data, bb_points **out)
    void bb_points_destroy(bb_points *points)
    bb_status bb_points_used(bb_points *points, int64_t *bytes)
    int64_t bb_points_bytes(int64_t n, int32_t axes, int64_t *peak)
    bb_status bb_pair_counter_create(bb_points *a, bb_points *b, const double *bounds, int64_t bins,
                                     int32_t kernel, int32_t all_images, bb_pair_counter **out)
    void bb_pair_counter_destroy(bb_pair_counter *counter)
    bb_status bb_pair_counter_work(bb_pair_counter *counter, bb_pair_work *work)
    bb_status bb_pair_counter_count(bb_pair_counter *counter, int64_t first, int64_t last, int64_t *counts,
                                    double *candidates, double *rechecked)
