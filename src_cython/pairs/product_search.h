// Neighbours by products in low precision, which leave few candidates to decide in float64: for distances of
// squares with many open axes.
//
// Rows y and points z are those given after a common shift and a scaling. A pass computes a number that is at
// least a proven error below Q = |z|^2 / 2 - y.z, which is (|y - z|^2 - |y|^2) / 2: if it is more than the
// limit of a row, the point is farther than the limit. Each error is a sum of terms of one row or one point.
//
// In float32 the scaling is by a power of two, so that |y_f| <= 1. As k-means has it (clusters/kmeans.h),
// roundings change Q by at most
//
//     g (|z|^2 / 2 + |y| |z|) <= g (|z|^2 + |y|^2 / 2),   g = (d + 12) u / (1 - (d + 12) u),   u = 2^-24,
//
// and underflow: the sum begins with |z|^2 / 2 - g |z|^2, and g |y|^2 is added to the limit.
//
// In bytes, if the processor multiplies those, the scaling makes the largest number 127, and y = r + a, z = s
// + b with whole r and s. Sums of their products are exact, so that y.z is off by r.b + a.s + a.b, at most
// |r| B + |a| (S + B) with the maxima B and S of |b| and |s|: this is added to the limit. Four times as many
// products take the same time, and of most data few more candidates are left. Where many are, the rest of a
// task is done in float32.
//
// Near pairs that are only counted need no decision if they are surely near. The errors have two sides: with
// 2 g |z|^2 + g |y|^2 added, the number in float32 is at least Q. What is at most the limit even so is
// counted by the pass, and only pairs between the two limits are candidates.
#pragma once

#include <atomic>
#include <mutex>

#include "cpu/isa.h"
#include "pairs/neighbours.h"

namespace bmrm {

/// Points that are multiplied by a panel at once.
constexpr int kTilePoints = 4;

/// Bytes that are multiplied and added in one step.
constexpr i64 kStepBytes = 4;

/// The first tile from `first` on with a number of at most the limit of its row; bit l of rows[j]: that of
/// row l and point j of the tile. Panels and tiles have `steps` values per row.
template <class V>
using FindCandidates = i64 (*)(const V* panel, i64 steps, const V* tiles, const V* starts, i64 first,
                               i64 last, const V* limits, std::uint64_t* rows);

/// Which pairs of a pass are surely near: numbers of at most the limit of the row less the slack of the tile.
struct SurelyNear {
    const float *limits, *slacks;
    std::uint32_t* counts;  // of rows
};

/// As `FindCandidates`, but counts pairs that are surely near; they are no candidates.
using CountCandidates = i64 (*)(const float* panel, i64 steps, const float* tiles, const float* starts,
                                i64 first, i64 last, const float* limits, const SurelyNear& sure,
                                std::uint64_t* rows);

/// The bytes of a step, as they are stored.
using Bytes = std::int32_t;

/// The largest whole number of a byte.
constexpr int kLargestByte = 127;

/// What is known of a coded row: the square of its length, and in bytes that of what rounding left, and the
/// sum of the whole numbers.
struct Code {
    double square = 0, rest = 0;
    i64 sum = 0;
};

/// Codes a row; values are `stride` apart. A point's bytes are negative, those of a row unsigned.
template <class V>
using EncodeRow = Code (*)(const double* x, const double* shift, i64 d, double scale, bool is_point, V* to,
                           i64 stride);

/// The loops of product_kernels.cpp.
struct CandidateKernels {
    i64 sweep;  // rows of a panel that are multiplied at once
    FindCandidates<float> floats;
    FindCandidates<Bytes> bytes;  // of rows unsigned, of points signed and negative; may be null
    CountCandidates counts;

    EncodeRow<float> encode_floats;
    EncodeRow<Bytes> encode_bytes;

    bool has_bytes() const;
};

BMRM_TABLES(CandidateKernels, candidate_kernels)

/// Points in tiles.
template <class V>
struct PointTiles {
    Buffer<V> values, starts;
    std::vector<float> slacks;  // of tiles in float32: `SurelyNear`
};

class ProductSearch : public NeighbourSearch {
  public:
    /// Null if float32 has no numbers of such sizes.
    static std::unique_ptr<ProductSearch> make(const Sides& sides, Metric metric);

    i64 tasks() const override { return (n_ + task_rows_ - 1) / task_rows_; }
    void search(i64 first, i64 last, int threads, const Sought& sought,
                const FoundTarget& target) const override;

  private:
    class Task;

    ProductSearch(const Sides& sides, Metric metric, std::vector<double> shift, double largest);

    template <class V>
    i64 steps() const {
        return std::is_same_v<V, float> ? d_ : (d_ + kStepBytes - 1) / kStepBytes;
    }
    template <class V>
    double scale() const {
        return std::is_same_v<V, float> ? scale_ : byte_scale_;
    }
    template <class V>
    Code encode(const double* x, double scale, bool is_point, V* to, i64 stride) const {
        if constexpr (std::is_same_v<V, float>)
            return candidate_kernels().encode_floats(x, shift_.data(), d_, scale, is_point, to, stride);
        else
            return candidate_kernels().encode_bytes(x, shift_.data(), d_, scale, is_point, to, stride);
    }
    template <class V>
    void pack(PointTiles<V>& tiles) const;
    const PointTiles<float>& floats() const;

    const Metric metric_;
    const i64 n_, m_, d_;  // rows, points, axes
    const i64 own_;        // as of `Sides`
    const std::vector<double> shift_;
    const double scale_, byte_scale_;
    const double error_;  // g
    const i64 task_rows_, tiles_, chunk_;
    const double *const rows_, *const points_;
    PointTiles<Bytes> bytes_;                       // if there are any
    mutable double byte_size_ = 0, byte_rest_ = 0;  // S, B
    mutable PointTiles<float> floats_;              // from the first use on
    mutable std::once_flag packed_;
    mutable std::atomic<int> vain_{0};  // tasks for which bytes left too many candidates, less others
};

}  // namespace bmrm
