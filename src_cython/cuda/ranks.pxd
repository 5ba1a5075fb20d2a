"""The C interface of sums over ranks; ``src_cuda/api/ranks.h`` documents it."""

from cuda.blackbox cimport bb_status
from libc.stdint cimport int32_t, int64_t
from cuda.training cimport bb_problem


cdef extern from "api/ranks.h" nogil:
    ctypedef struct bb_ranks:
        int32_t rank, size
        void *context
        int32_t (*total)(void *context, double *numbers, int64_t count) noexcept nogil
        int32_t (*add_up)(void *context, void *numbers, int64_t count) noexcept nogil
        int32_t (*gather)(void *context, void *whole, const int64_t *bounds) noexcept nogil

    ctypedef struct bb_nccl:
        pass

    enum:
        BB_NCCL_ID_BYTES
        BB_UUID_BYTES

    bb_status bb_device_uuid(int32_t device, char *uuid)

    bb_status bb_nccl_load(const char *library)
    bb_status bb_nccl_id(char *id)
    bb_status bb_nccl_join(int32_t device, const char *id, int32_t rank, int32_t size, bb_nccl **out)
    void bb_nccl_leave(bb_nccl *nccl)


cdef extern from "api/training.h" nogil:
    bb_status bb_problem_share(bb_problem *problem, const bb_ranks *ranks, bb_nccl *nccl)
