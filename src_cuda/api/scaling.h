// The C interface of multidimensional scaling on a device: passes over all pairs of n points, whose
// dissimilarities are resident, and vectors of numbers of the points.  bmrm/unsupervised/manifold/passes.py
// says what a pass computes.  Failures, addresses and "either" as in blackbox.h.
//
// Arithmetic is in float64, except of a descent that is asked for in float32.  Sums are taken in a fixed
// order that depends on the sizes only.
#pragma once
#include "api/pair_values.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BB_SCALING_SQUARED = 8  // numbers of a point that a product with squared dissimilarities takes at once
};

typedef struct bb_scaling bb_scaling;

// Prepares passes.
// pairs: copied, except values that are used in place; out: is set to the passes, which bb_scaling_destroy
// frees.
BB_API bb_status bb_scaling_create(int32_t device, const bb_pairs* pairs, bb_scaling** out);
BB_API void bb_scaling_destroy(bb_scaling* scaling);
// Returns the bytes of the sums of tiles that a pass adds up, for n points and `adds` numbers of each.
BB_API int64_t bb_scaling_sum_bytes(int64_t n, int32_t adds);
// bytes: is set to the device memory in use.
BB_API bb_status bb_scaling_used(bb_scaling* scaling, int64_t* bytes);

// --- vectors of `size` doubles on the device

// Takes and gives back a vector, whose values are undefined.
BB_API bb_status bb_scaling_lend(bb_scaling* scaling, int64_t size, double** vector);
BB_API void bb_scaling_give(bb_scaling* scaling, int64_t size, double* vector);
// Copies to the device from `values`, either, or from the device to `values`; waits.
BB_API bb_status bb_scaling_put(bb_scaling* scaling, int64_t size, const double* values, double* vector);
BB_API bb_status bb_scaling_get(bb_scaling* scaling, int64_t size, const double* vector, double* values);
// to = the sum of factors times vectors; `to` may be one of them.
BB_API bb_status bb_scaling_combine(bb_scaling* scaling, int64_t size, const double* const* vectors,
                                    const double* factors, int32_t count, double* to);
// products: (count), set to the inner products of vectors with others.
BB_API bb_status bb_scaling_products(bb_scaling* scaling, int64_t size, const double* const* vectors,
                                     const double* const* others, int32_t count, double* products);
// to = each point's numbers divided by one of `degrees` (n).  p: numbers of a point.
BB_API bb_status bb_scaling_over_degrees(bb_scaling* scaling, int32_t p, const double* degrees,
                                         const double* vector, double* to);
// to = the vector less the mean of all points.
BB_API bb_status bb_scaling_centre(bb_scaling* scaling, int32_t p, const double* vector, double* to);

// --- passes; X and directions have p numbers per point, at most BB_PAIR_AXES

// degrees: (n), set to the sum of weights of each point; totals: (3), set to the sums of
// w delta^2 and of delta^2, and the number of known pairs.
BB_API bb_status bb_scaling_summary(bb_scaling* scaling, double* degrees, double* totals);
// direction: is set to half the negative gradient of the stress at X; totals: (3), set to the sums of
// w (delta - d)^2 and of w d^2, and the number of pairs at one place although w delta > 0.
// terms: bb_type of what a pair adds; BB_FLOAT32: it is computed in float32, from places and dissimilarities
// that are rounded to it, and what a few pairs add is added in it.
BB_API bb_status bb_scaling_descent(bb_scaling* scaling, int32_t p, const double* X, int32_t terms,
                                    double* direction, double* totals);
// to = V Y for the Laplacian V of the weights.
BB_API bb_status bb_scaling_laplacian(bb_scaling* scaling, int32_t p, const double* Y, double* to);
// to = the matrix of squared dissimilarities times Y; p: at most BB_SCALING_SQUARED; unknown: replaces NaN.
BB_API bb_status bb_scaling_squared(bb_scaling* scaling, int32_t p, const double* Y, double unknown,
                                    double* to);
// to: (n), set to the sums of w delta / d of each point.
BB_API bb_status bb_scaling_pulls(bb_scaling* scaling, int32_t p, const double* X, double* to);
// to = half the Hessian of the stress at X times a direction.
BB_API bb_status bb_scaling_curvature(bb_scaling* scaling, int32_t p, const double* X,
                                      const double* direction, double* to);
// values: (n) on the host, set to the dissimilarities of a point to all, 0 to itself; if all rows are here.
BB_API bb_status bb_scaling_row(bb_scaling* scaling, int64_t i, double* values);

// --- passes over some of the rows, which leave their results to these functions

// Returns the number of rows of which ranks have multiples.
BB_API int64_t bb_scaling_strip_rows(int64_t n);
// to: (n, p), set to what the last pass adds to the points as rows; 0 for rows that are elsewhere.
BB_API bb_status bb_scaling_own_rows(bb_scaling* scaling, int32_t p, double* to);
// to: (n, p), what the last pass adds to the points as columns is added to it, strip by strip: after the rows
// of all ranks and the strips of those before.
BB_API bb_status bb_scaling_add_strips(bb_scaling* scaling, int32_t p, double* to);
// size: is set to the number of totals of the tiles here.
BB_API bb_status bb_scaling_count_totals(bb_scaling* scaling, int64_t* size);
// values: (size) on the host, set to these.
BB_API bb_status bb_scaling_own_totals(bb_scaling* scaling, int64_t size, double* values);
// values: (size) on the host, those of all ranks in their order; totals: (3), set to their sums.
BB_API bb_status bb_scaling_sum_totals(bb_scaling* scaling, int64_t size, const double* values,
                                       double* totals);

#ifdef __cplusplus
}
#endif
