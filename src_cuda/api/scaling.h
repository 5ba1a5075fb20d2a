// The C interface of multidimensional scaling on a device: passes over all pairs of n points, whose
// dissimilarities are resident, and vectors of numbers of the points.  bmrm/unsupervised/manifold/passes.py
// says what a pass computes.  Failures, addresses and "either" as in blackbox.h.
//
// All arithmetic is in float64.  Sums are taken in a fixed order that depends on the sizes only.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BB_SCALING_AXES = 16,      // maximum number of coordinates of a point
    BB_SCALING_VECTORS = 32,   // maximum number of vectors that are combined at once
    BB_SCALING_PRODUCTS = 64,  // maximum number of inner products at once
    BB_SCALING_SQUARED = 8     // numbers of a point that a product with squared dissimilarities takes at once
};

typedef struct bb_scaling bb_scaling;

// One number per pair, either.
typedef struct {
    const void* values;  // a square matrix, or its upper triangle row by row; NULL: there are none
    int32_t type;        // bb_type
    int32_t square;      // 1: a square matrix, of which the upper triangle counts
    int32_t in_place;    // 1: on the device, used where it is, and outlives the passes; 0: copied
} bb_pair_values;

typedef struct {
    int64_t n;
    bb_pair_values delta;    // dissimilarities; without values they are the distances of features
    bb_pair_values weights;  // without values all are 1
    int32_t missing;         // 1: some dissimilarities are NaN, which means unknown
    int32_t stored;          // 1: distances of features are computed once and stored
    const void* features;    // (n, m), row-major, either
    int32_t features_type;   // bb_type
    int64_t m;
    int32_t threads;  // of the host, for the upload
} bb_pairs;

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
// to = each point's numbers divided by the sum of its weights; after bb_scaling_summary.  p: of a point.
BB_API bb_status bb_scaling_over_degrees(bb_scaling* scaling, int32_t p, const double* vector, double* to);
// to = the vector less the mean of all points.
BB_API bb_status bb_scaling_centre(bb_scaling* scaling, int32_t p, const double* vector, double* to);

// --- passes; X and directions have p numbers per point, at most BB_SCALING_AXES

// degrees: (n) on the host, set to the sum of weights of each point; totals: (3), set to the sums of
// w delta^2 and of delta^2, and the number of known pairs.
BB_API bb_status bb_scaling_summary(bb_scaling* scaling, double* degrees, double* totals);
// direction: is set to half the negative gradient of the stress at X; totals: (3), set to the sums of
// w (delta - d)^2 and of w d^2, and the number of pairs at one place although w delta > 0.
BB_API bb_status bb_scaling_descent(bb_scaling* scaling, int32_t p, const double* X, double* direction,
                                    double* totals);
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
// values: (n) on the host, set to the dissimilarities of a point to all, 0 to itself.
BB_API bb_status bb_scaling_row(bb_scaling* scaling, int64_t i, double* values);

// --- checks

// What makes numbers of pairs invalid.
typedef struct {
    int32_t kind;         // 0: nothing; 1: negative; 2: infinite; 3: not symmetric; 4: diagonal; 5: NaN
    int32_t missing;      // 1: some are NaN
    int64_t row, column;  // of the first in the order of rows
    double value, other;  // the two entries of the pair
    double largest;
} bb_pair_defect;

// Looks for what makes numbers on the device invalid.
// nan_allowed: 1: NaN means unknown; diagonal: the maximum absolute value on the diagonal of a square matrix,
// negative: it is not looked at; asymmetry: the maximum difference of the two entries of a pair; both as a
// share of the largest entry; found: is set.
BB_API bb_status bb_scaling_inspect(int32_t device, int64_t n, const bb_pair_values* values,
                                    int32_t nan_allowed, double diagonal, double asymmetry,
                                    bb_pair_defect* found);

#ifdef __cplusplus
}
#endif
