// Neighbours by products in float32, which leave few candidates to decide in float64: for distances of
// squares with many open axes.
//
// Rows y and points z are those given after a common shift and a scaling by a power of two, rounded to
// float32, so that |y_f| <= 1. A pass computes |z|^2 / 2 - y.z, which is (|y - z|^2 - |y|^2) / 2. As k-means
// has it (clusters/kmeans.h), the roundings change it by at most
//
//     g (|z|^2 / 2 + |y| |z|) <= g (|z|^2 + |y|^2 / 2),   g = (d + 12) u / (1 - (d + 12) u),   u = 2^-24,
//
// and underflow. Both terms belong to one row each: the sum begins with |z|^2 / 2 - g |z|^2, and if it is
// more than the limit of a row plus g |y|^2, the point is farther than the limit.
#pragma once

#include "cpu/isa.h"
#include "pairs/neighbours.h"

namespace bmrm {

/// Points that are multiplied by a panel at once.
constexpr int kTilePoints = 4;

/// The loops of product_kernels.cpp.
struct CandidateKernels {
    i64 sweep;  // rows of a panel that are multiplied at once
    /// The first tile from `first` on with a sum of at most the limit of its row; bit l of rows[j]: that of
    /// row l and point j of the tile.
    i64 (*find)(const float* panel, i64 d, const float* tiles, const float* starts, i64 first, i64 last,
                const float* limits, std::uint64_t* rows);
};

BMRM_TABLES(CandidateKernels, candidate_kernels)

class ProductSearch : public NeighbourSearch {
  public:
    /// Null if float32 has no numbers of such sizes.
    static std::unique_ptr<ProductSearch> make(const Sides& sides, Metric metric);

    i64 tasks() const override { return (n_ + task_rows_ - 1) / task_rows_; }
    void search(i64 first, i64 last, int threads, const Sought& sought,
                const FoundTarget& target) const override;

  private:
    class Task;

    ProductSearch(const Sides& sides, Metric metric, std::vector<double> shift, double scale);
    const double* row(i64 i) const { return (other_rows_.size() ? other_rows_ : points_).get() + i * d_; }
    void pack_points();

    const Metric metric_;
    const i64 n_, m_, d_;  // rows, points, axes
    const i64 own_;        // as of `Sides`
    const std::vector<double> shift_;
    const double scale_;
    const double error_;  // g
    const i64 task_rows_, tiles_, chunk_;
    const Buffer<double> points_, other_rows_;  // by rows; of one set the rows are the points
    Buffer<float> values_, starts_;             // of the points in tiles
};

}  // namespace bmrm
