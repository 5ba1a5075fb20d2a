// The C interface of joint risks on a device: losses of margins taken together, R = sum_g share_g F_g(u) over
// groups of rows, as src_cython/joint has them for the CPU.  Rows that take part are given group by group.
#pragma once
#include "api/training.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_joint bb_joint;

// In the order of the kinds of src_cython/_joint.pyx.
typedef enum {
    BB_PAIRS = 0,
    BB_GRADED_PAIRS,
    BB_F_BETA,
    BB_PRECISION_AT_K,
    BB_RECALL_AT_K,
    BB_BREAK_EVEN,
    BB_NDCG,
    BB_MRR,
    BB_ORDINAL
} bb_joint_kind;

// Arrays of the rows that take part run along with `rows`; those that the kind has no use for are not read.
typedef struct {
    int32_t kind;
    int64_t size, groups;
    const int64_t *rows, *starts, *level;  // starts: groups + 1 of them; level: from 0 within the group
    const double *weight, *value, *anchor;
    const double* share;  // one a group
    int64_t k;            // rows at the top, or levels of the ordinal risk
    double beta;
} bb_joint_rows;

// problem: one of BB_PYTHON_LOSS.
BB_API bb_status bb_joint_create(bb_problem* problem, const bb_joint_rows* rows, bb_joint** out);
BB_API void bb_joint_destroy(bb_joint* joint);
// At the margins z + t dz + b; dz may be NULL for t = 0.  Keeps the derivatives as the `which`-th of the
// problem's two sets, unless it is negative; moved = z + t dz, unless it is NULL.  sums: the risk, its slopes
// in t and in b.
BB_API bb_status bb_joint_evaluate(bb_joint* joint, const void* z, const void* dz, double t, double b,
                                   int32_t which, void* moved, double sums[3]);

#ifdef __cplusplus
}
#endif
