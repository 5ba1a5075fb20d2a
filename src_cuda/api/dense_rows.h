// The C interface of dense rows on a device, which passes of estimators read.  Failures, addresses and
// "either" as in blackbox.h.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_dense_rows bb_dense_rows;

// Puts rows on a device: in place if they are there already, which must then outlive the result.
// device: of bb_device_info; type: of the values; values: (n, d) by rows, either; weights: n numbers of at
// least 0 on the host, or NULL if all are 1; spare: bytes of device memory that must be left for passes;
// threads: of the host, for the upload; out: is set to the rows, which bb_dense_rows_destroy frees.
BB_API bb_status bb_dense_rows_create(const bb_device* device, bb_type type, int64_t n, int64_t d,
                                      const void* values, const double* weights, int64_t spare,
                                      int32_t threads, bb_dense_rows** out);
BB_API void bb_dense_rows_destroy(bb_dense_rows* rows);
// Replaces rows that were uploaded by n others on the host, no more than at first, and waits.
// weights: n, or NULL if those at first were.
BB_API bb_status bb_dense_rows_load(bb_dense_rows* rows, int64_t n, const void* values,
                                    const double* weights);
// values: is set to the address of the values on the device.
BB_API bb_status bb_dense_rows_address(bb_dense_rows* rows, const void** values);
// Copies some rows to the host.
// numbers: of these rows, `count`; to: (count, d), in float64.
BB_API bb_status bb_dense_rows_take(bb_dense_rows* rows, const int64_t* numbers, int64_t count, double* to);
// largest: is set to the largest absolute value, or infinity; not_finite: to the row of the first value that
// is not finite, or -1.
BB_API bb_status bb_dense_rows_extremes(bb_dense_rows* rows, double* largest, int64_t* not_finite);

#ifdef __cplusplus
}
#endif
