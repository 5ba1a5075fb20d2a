"""The C interface of a consumer of blocks of a text; documented in ``block_consumer.h``."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "svmlight/block_consumer.h" nogil:
    const char *SVMLIGHT_BLOCK_CONSUMER

    ctypedef struct svmlight_slot:
        int32_t *indices
        void *values

    ctypedef struct svmlight_block_consumer:
        void *context
        int32_t slots
        int32_t (*lend)(void *context, int32_t slot, svmlight_slot *out) noexcept nogil
        int32_t (*send)(void *context, int32_t slot, int64_t first, int64_t count, int32_t ones) noexcept nogil
