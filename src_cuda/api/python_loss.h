// The C interface of a loss that the caller evaluates: the library lends it margins on the device, and reads
// its values and derivatives there.  The rest of a solve is in training.h, on a problem without a loss.
// Failures as in blackbox.h.
//
// z and dz are the margins of a point and the direction from them, on the device, in the matrix's type; dz
// may be NULL if t is 0.
#pragma once
#include "api/training.h"

#ifdef __cplusplus
extern "C" {
#endif

// One number per row, on the device.
typedef struct {
    const void* data;
    int64_t stride;  // numbers from one row to the next
    int32_t bytes;   // of a number: 4 (float) or 8 (double)
} bb_rows;

// labels: is set to the labels as the problem keeps them.
BB_API bb_status bb_own_labels(bb_problem* problem, bb_rows* labels);
// Makes work that is queued on `stream` (a cudaStream_t) from now on wait for what is queued on the matrix's
// stream so far.
BB_API bb_status bb_own_lend(bb_problem* problem, void* stream);
// Makes work that is queued on the matrix's stream from now on wait for what is queued on `stream` so far.
BB_API bb_status bb_own_borrow(bb_problem* problem, void* stream);
// out: is set to z + t dz + b, per row, in the matrix's type; moved: is set to z + t dz unless it is NULL.
BB_API bb_status bb_own_margins(bb_problem* problem, const void* z, const void* dz, double t, double b,
                                void* moved, void* out);
// slopes: the derivative of the loss per row; sums: is set to the derivatives of the risk along dz and in the
// intercept.
BB_API bb_status bb_own_slope(bb_problem* problem, const bb_rows* slopes, const void* dz, double sums[2]);
// Sums the risk over blocks of rows.
// values: of the loss, per row; slopes: its derivatives, NULL if not wanted; which: 0 or 1, the set of
// derivatives of the problem that the weighted derivatives are stored in; starts: blocks + 1 first rows, the
// last one past the end; least: a bound; sums: (blocks, 3), set to the risk, the sum of the derivatives and
// the number of values below `least`, per block.
BB_API bb_status bb_own_risk(bb_problem* problem, const bb_rows* values, const bb_rows* slopes, int32_t which,
                             const int64_t* starts, int32_t blocks, double least, double* sums);
// target: a double per row, on the host, set to the numbers of `rows`.
BB_API bb_status bb_own_get(bb_problem* problem, const bb_rows* rows, double* target);

#ifdef __cplusplus
}
#endif
