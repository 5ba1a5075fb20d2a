// Numbers of all pairs of n points, as passes over the pairs read them, and checks of such numbers. Failures,
// addresses and "either" as in blackbox.h.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BB_PAIR_AXES = 16,      // maximum number of coordinates of a point
    BB_PAIR_VECTORS = 32,   // maximum number of vectors that are combined at once
    BB_PAIR_PRODUCTS = 64,  // maximum number of inner products at once
};

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
    int32_t threads;      // of the host, for the upload
    int64_t first, last;  // the rows whose pairs with later rows count; others may be on other devices
} bb_pairs;

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
BB_API bb_status bb_pairs_inspect(int32_t device, int64_t n, const bb_pair_values* values,
                                  int32_t nan_allowed, double diagonal, double asymmetry,
                                  bb_pair_defect* found);

#ifdef __cplusplus
}
#endif
