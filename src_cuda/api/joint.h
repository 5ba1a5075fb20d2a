// The C interface of joint risks on a device: losses of margins taken together, R = sum_g share_g F_g(u) over
// groups of rows, as src_cython/joint has them for the CPU.  Rows that take part are given group by group.
// Failures as in blackbox.h.
#pragma once
#include "api/training.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_joint bb_joint;

// In the order of the kinds in src_cython/_joint.pyx.
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

// The arrays are on the host, and have `size` elements unless noted.  Arrays that the kind does not need are
// not read.
typedef struct {
    int32_t kind;           // bb_joint_kind
    int64_t size;           // rows that take part
    int64_t groups;         // of rows
    const int64_t* rows;    // numbers of the rows, group by group
    const int64_t* starts;  // groups + 1: where each group begins in these arrays
    const int64_t* level;   // of each row, from 0 within its group
    const double* weight;   // of each row
    const double* value;    // of each row: its relevance or gain
    const double* anchor;   // of each row
    const double* share;    // groups: the weight of each group in the risk
    int64_t k;              // rows at the top, or levels of the ordinal risk
    double beta;            // of BB_F_BETA
} bb_joint_rows;

// Creates a joint risk on the rows of a problem.
// problem: made with BB_PYTHON_LOSS, must outlive the result; rows: copied; out: is set to the risk, which
// bb_joint_destroy frees.
BB_API bb_status bb_joint_create(bb_problem* problem, const bb_joint_rows* rows, bb_joint** out);
// Frees a joint risk; NULL is allowed.
BB_API void bb_joint_destroy(bb_joint* joint);
// Evaluates the risk at the margins z + t dz + b.
// z, dz: margins on the device, in the matrix's type; dz may be NULL if t is 0.  which: the set of
// derivatives of the problem, 0 or 1, that the derivatives are stored in, or negative for none.  moved: is
// set to z + t dz unless it is NULL.  sums: is set to the risk and its derivatives in t and in b.
BB_API bb_status bb_joint_evaluate(bb_joint* joint, const void* z, const void* dz, double t, double b,
                                   int32_t which, void* moved, double sums[3]);

#ifdef __cplusplus
}
#endif
