// Disparities of ordinal multidimensional scaling: the numbers nearest to the distances, in weighted least
// squares, that do not fall as the dissimilarities rise.
//
// The pairs are sorted by dissimilarity once. Of equal ones the order is free (Kruskal's primary approach),
// so they are sorted by distance in each step. Adjacent violators are pooled from left to right with a stack
// of blocks, in linear time; the result does not depend on threads.
//
// J. B. Kruskal, Nonmetric multidimensional scaling: a numerical method, Psychometrika 29 (1964).
#pragma once

#include <algorithm>
#include <cmath>

#include "common/memory.h"

namespace bmrm {

/// Writes the disparity of each pair to `out`, scaled so that the sum of w dhat^2 is `total`. Those of points
/// that are all at one place cannot be scaled: `out` stays as it is. `order` (count) has the pairs by rising
/// dissimilarity, and is changed within runs of equal ones, `ties` of them from tie_begins to tie_ends.
/// `weights` may be null.
template <class I>
void disparities(i64 count, I* order, const i64* tie_begins, const i64* tie_ends, i64 ties,
                 const double* distances, const double* weights, double total, double* out, int threads);

}  // namespace bmrm
