// The C interface of a loss that the caller evaluates: margins are lent to it on the device, values and
// derivatives are taken from there.  All else of a solve is in training.h, on a problem without a loss.
#pragma once
#include "api/training.h"

#ifdef __cplusplus
extern "C" {
#endif

// Numbers a row, float or double, `stride` of them apart.
typedef struct {
    const void* data;
    int64_t stride;
    int32_t bytes;
} bb_rows;

// The labels as they are kept.
BB_API bb_status bb_own_labels(bb_problem* problem, bb_rows* labels);
// What is queued on `stream` from now on waits for what is queued on the matrix's so far; and the other way.
BB_API bb_status bb_own_lend(bb_problem* problem, void* stream);
BB_API bb_status bb_own_borrow(bb_problem* problem, void* stream);
// out = z + t dz + b, and moved = z + t dz where somebody wants it; dz may be NULL for t = 0.
BB_API bb_status bb_own_margins(bb_problem* problem, const void* z, const void* dz, double t, double b,
                                void* moved, void* out);
// The derivatives of the risk along dz and in the intercept, from those of the rows.
BB_API bb_status bb_own_slope(bb_problem* problem, const bb_rows* slopes, const void* dz, double sums[2]);
// sums: (blocks, 3), risk, sum of derivatives, and how many values are below `least`, of each block of rows.
// The weighted derivatives are kept as the `which`-th of two; slopes may be NULL where nobody wants them.
BB_API bb_status bb_own_risk(bb_problem* problem, const bb_rows* values, const bb_rows* slopes, int32_t which,
                             const int64_t* starts, int32_t blocks, double least, double* sums);
// Copies numbers to the host.
BB_API bb_status bb_own_get(bb_problem* problem, const bb_rows* rows, double* target);

#ifdef __cplusplus
}
#endif
