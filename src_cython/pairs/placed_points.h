// Points as the kernels that count pairs read them: by axes, in an order in which neighbours are close.
#pragma once

#include <algorithm>
#include <vector>

#include "common/memory.h"

namespace bmrm {

/// Numbers after the end of an axis that registers may read: NaN, which is in no bin.
constexpr i64 kPointPad = 64;

class PlacedPoints {
  public:
    /// Copies n points of some axes, coordinate k of point i at coordinates[k * n + i], in an order, or as
    /// they are if it is null. `box` has the lengths of the axes, 0 for open ones.
    PlacedPoints(const double* coordinates, i64 n, int axes, const double* box, const i64* order);

    /// Copies points whose coordinates are next to each other.
    static PlacedPoints by_rows(const double* rows, i64 n, int axes, const double* box);

    /// A copy in another order.
    PlacedPoints in_order(const i64* order, int threads) const;

    i64 points() const { return n_; }
    int axes() const { return static_cast<int>(box_.size()); }
    const double* box() const { return box_.data(); }
    i64 stride() const { return n_ + kPointPad; }
    const double* axis(int k) const { return values_.get() + k * stride(); }
    i64 bytes() const { return values_.bytes(); }

    /// The least and the largest coordinate of points first to last on an axis.
    std::pair<double, double> range(int k, i64 first, i64 last) const;

  private:
    PlacedPoints(i64 n, const std::vector<double>& box) : n_(n), box_(box), values_(axes() * stride()) {}
    void end_axes();
    void copy(const double* from, i64 stride, const i64* order, int threads);

    i64 n_;
    std::vector<double> box_;
    Buffer<double> values_;
};

}  // namespace bmrm
