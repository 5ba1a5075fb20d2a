"""The C interface of numbers of pairs on a device; ``src_cuda/api/pair_values.h`` documents it."""

from cuda.blackbox cimport bb_status
from libc.stdint cimport int32_t, int64_t


cdef extern from "api/pair_values.h" nogil:
    enum:
        BB_PAIR_VECTORS
        BB_PAIR_PRODUCTS

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

    bb_status bb_pairs_inspect(int32_t device, int64_t n, const bb_pair_values *values, int32_t nan_allowed,
                                 double diagonal, double asymmetry, bb_pair_defect *found)
