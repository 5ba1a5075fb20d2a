// The C interface of the Gram matrix of dense rows on a device.  Failures as in blackbox.h.
#pragma once
#include "api/dense_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sums w (x - shift) (x - shift)' and w (x - shift) over the rows, in float64 and in a fixed order.
// shift: d numbers; grid: number of blocks of threads, 0 for as many as there are parts of the rows (no bit
// depends on it); gram: (d, d), both halves; totals: d.  All on the host.
BB_API bb_status bb_gram(bb_dense_rows* rows, const double* shift, int32_t grid, double* gram,
                         double* totals);
// Returns the maximum number of additions that a product goes through.
BB_API int64_t bb_gram_additions(int64_t n, int64_t d);
// Returns the bytes on the device besides the rows.
BB_API int64_t bb_gram_bytes(int64_t n, int64_t d);

#ifdef __cplusplus
}
#endif
