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
// Rows are split into parts that depend on the sizes only, and the sums of the parts are added in their
// order: the same bits for any number of threads. The rows may be some of a larger number that decides about
// the parts: those of a rank, or of a block of a file. Their sums are then added to those of the rows before,
// or are left for the ranks to add up in turn. Sums are of w (x - c), c being the centre that the pass was
// given: they keep their digits if the data are far from 0. Those of sparse rows are of w x.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/memory.h"
#include "reductions/kept_bounds.h"
#include "reductions/kept_moments.h"
#include "reductions/nearest.h"

namespace bmrm {

/// Maximum number of parts of a pass.
constexpr i64 kMaxParts = 64;
/// Maximum number of parts of rows; there are at least half as many, unless they would be too small.
constexpr i64 kMaxRowParts = 128;
/// Minimum number of rows of a part, so that adding up the parts costs little; a power of two.
constexpr i64 kMinPartRows = 2048;
/// Limit on the sums of all parts, in numbers. Kept sums and their references take twice as much.
constexpr i64 kMaxPartSums = i64{1} << 23;

/// What a pass found besides labels and sums.
struct PassCounts {
    double inertia;  // sum of w |x - c|^2, of a part
    i64 changed;     // rows whose label differs from before
    i64 rechecked;   // rows that were decided in float64
    double largest;  // maximum gain of moving one row to another centre, in `single_moves`
};

/// Rows of a part of `total` rows that has so many sums: a power of two, so that blocks of rows which begin
/// at a multiple of a large one have whole parts.
i64 part_rows(i64 total, i64 sums);

/// Half-open ranges of rows, some of `total`, a fixed number for given sizes; each begins at a multiple of
/// kPanelRows.
struct Parts {
    i64 n, count, each;

    Parts(i64 rows, i64 sums, i64 total) : n(rows), count(0), each(part_rows(total, sums)) {
        count = (rows + each - 1) / each;
    }
    i64 begin(i64 p) const { return p * each; }
    i64 end(i64 p) const { return std::min(n, (p + 1) * each); }
};

double rounding_of(double terms, double unit);

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

/// Adds the parts' sums to what is there, in their order; those of the next part are `stride` numbers on.
void accumulate_parts(const double* parts, i64 count, i64 size, i64 stride, double* out, int threads);

/// Adds up the parts' sums in their order.
void add_parts(const Buffer<double>& parts, i64 count, i64 size, double* out, int threads);

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
