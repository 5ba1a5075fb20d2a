"""The C interface of joint risks on a device; ``src_cuda/api/joint.h`` documents it."""

from cuda.blackbox cimport bb_status
from libc.stdint cimport int32_t, int64_t
from cuda.training cimport bb_problem


cdef extern from "api/joint.h" nogil:
    ctypedef struct bb_joint:
        pass

    ctypedef struct bb_joint_rows:
        int32_t kind
        int64_t size, groups
        const int64_t *rows
        const int64_t *starts
        const int64_t *level
        const double *weight
        const double *value
        const double *anchor
        const double *share
        int64_t k
        double beta

    bb_status bb_joint_create(bb_problem *problem, const bb_joint_rows *rows, bb_joint **out)
    void bb_joint_destroy(bb_joint *joint)
    bb_status bb_joint_evaluate(bb_joint *joint, const void *z, const void *dz, double t, double b,
                                int32_t which, void *moved, double *sums)
