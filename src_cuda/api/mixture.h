// The C interface of mixtures of normal distributions on a device.  Failures as in blackbox.h; arrays are on
// the host.
#pragma once
#include "api/dense_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

// A mixture: the log density of component j at x is constants[j] - |roots[j] (x - means[j])|^2 / 2.
typedef struct {
    int32_t k;                // components
    int32_t full;             // whether roots are lower triangles, else diagonals
    const double* means;      // (k, d)
    const double* roots;      // (k, d, d) or (k, d); NULL if labels are given
    const double* constants;  // (k); NULL likewise
} bb_mixture_model;

typedef struct {
    double* weights;    // (k): sums of w r, r being the share of the component in the row
    double* first;      // (k, d): of w r (x - mean)
    double* second;     // (k, d, d), lower triangles, or (k, d): of w r (x - mean)(x - mean)'
    double likelihood;  // the sum of w log density; 0 if labels are given
} bb_mixture_moments;

// Returns the maximum number of columns on a device.
BB_API int64_t bb_mixture_columns(const bb_device* device);
// Returns the bytes on the device besides the rows.
BB_API int64_t bb_mixture_bytes(int64_t n, int64_t d, int32_t k, int32_t full);
// Runs an E step and sums what the M step needs.
// labels: n components, negative for none, in place of shares; or NULL; grid: number of blocks of threads, 0
// for one for each part of the rows (no bit depends on it); moments: its arrays are filled.
BB_API bb_status bb_mixture_step(bb_dense_rows* rows, const bb_mixture_model* model, const int32_t* labels,
                                 int32_t grid, bb_mixture_moments* moments);
// Computes the log densities of the rows, (n), and the shares of the components, (n, k).
BB_API bb_status bb_mixture_shares(bb_dense_rows* rows, const bb_mixture_model* model, double* densities,
                                   double* shares);

#ifdef __cplusplus
}
#endif
