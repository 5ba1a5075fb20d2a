// Passes over the rows for k-means: nearest centres, the sums that move the centres, distances for seeding,
// and single moves (Hartigan).
//
// Labels are those of squared distances computed in float64 from differences, ties to the least centre. Most
// rows do not need them. For dense rows a pass in float32 minimises |z|^2/2 - y.z, where y and z are row and
// centre after a common shift and scaling by a power of two, so that |y_f| <= 1. With the roundings of y, z
// and h = |z|^2/2, and of the d multiply-adds that start from h, its error is at most
//
//     E = g (B^2/2 + |y| B),   g = (d + 6) u / (1 - (d + 6) u),   u = 2^-24,   B = max |z|
//
// (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, and Cauchy-Schwarz), plus underflow.
// If the two least values differ by more than 2E, the label is certain; otherwise the row is decided in
// float64. A comparison with NaN or infinity is false, so that overflow leads to float64 too. Sparse rows do
// the same with products in float64 instead of float32, u = 2^-53.
//
// Each part of the rows has sums of its own (parts/parts.h). They are of w (x - c), c being the centre that
// the pass was given: they keep their digits if the data are far from 0. Those of sparse rows are of w x.
#pragma once

#include <cstdint>
#include <vector>

#include "clusters/kept_bounds.h"
#include "clusters/kept_moments.h"
#include "clusters/nearest.h"

namespace bmrm {

/// What a pass found besides labels and sums.
struct PassCounts {
    double inertia;  // sum of w |x - c|^2, of a part
    i64 changed;     // rows whose label differs from before
    i64 rechecked;   // rows that were resolved in float64
    double largest;  // maximum gain of moving one row to another centre, in `single_moves`
};

/// What the passes read and write besides the rows.
struct PassArguments {
    const double* centers;  // k x d
    i64 k;
    const double* weights;  // n, or null: all are 1
    std::int32_t* labels;   // n; holds the former labels
    bool want_sums;
    double* cluster_weights;  // k, for `single_moves`
    double* sums;             // those of a part: k x d sums if they are wanted, k weights, the inertia
    double* parts;            // the sums of each part; null: they are added to `sums`
    std::vector<KeptMoments>*
        kept;            // of the last pass over the same dense rows, for each part; null: not kept
    KeptBounds* bounds;  // the same for all parts; null: not kept
};

/// Numbers of the sums of a part.
inline i64 part_sums(bool want_sums, i64 k, i64 d) { return (want_sums ? k * d : 0) + k + 1; }

/// The passes of rows of any kind, for the binding.
class Clusters {
  public:
    virtual ~Clusters() = default;
    virtual PassCounts assign(const PassArguments& to) const = 0;
    virtual void own_distances(const PassArguments& to, double* out) const = 0;
    virtual PassCounts single_moves(const PassArguments& to) const = 0;
    virtual void potentials(const double* candidates, i64 count, const double* weights, const float* closest,
                            float* least, i64 step, double* out) const = 0;
    virtual i64 bytes() const = 0;
};

Clusters* make_dense_clusters(const void* X, int value_bytes, i64 n, i64 d, i64 total, const double* shift,
                              double scale, int threads);

Clusters* make_sparse_clusters(const i64* ptr, const void* index, int index_bytes, const void* value,
                               int value_bytes, i64 n, i64 d, i64 total, int threads);

}  // namespace bmrm
