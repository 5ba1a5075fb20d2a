"""The C interface of a landing; ``src_cuda/landing.h`` says what each part means."""

from blackbox cimport bb_status, bb_type
from libc.stdint cimport int32_t, int64_t


cdef extern from "landing.h" nogil:
    ctypedef struct bb_landing:
        pass

    int64_t bb_landing_bytes(int64_t rows, int64_t nonzeros, bb_type type)
    bb_status bb_landing_open(int32_t device, int64_t nonzeros, bb_type type, int32_t slots, int64_t each,
                              bb_landing **out)
    bb_status bb_landing_lend(bb_landing *landing, int32_t slot, int32_t **indices, void **values)
    bb_status bb_landing_send(bb_landing *landing, int32_t slot, int64_t first, int64_t count, int32_t ones)
    bb_status bb_landing_settle(bb_landing *landing, int64_t count, int32_t shift, const int32_t **indices,
                                const void **values)
    bb_status bb_landing_get(bb_landing *landing, const void *from_, int64_t step, int64_t count, int32_t bytes,
                             void *to)
    void bb_landing_close(bb_landing *landing)
