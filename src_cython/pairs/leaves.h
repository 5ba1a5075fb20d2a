// Points in leaves of a few, each with a box around it: the tree of near_order.h.
#pragma once

#include "pairs/placed_points.h"

namespace bmrm {

/// Points of a leaf.
constexpr i64 kLeaf = 32;

/// Bounds of some points on an axis.
struct Interval {
    double centre, half;
};

class Leaves {
  public:
    /// With `near`, neighbours are near to each other and each leaf and node has a box; otherwise leaves are
    /// in the order of the points.
    Leaves(const PlacedPoints& points, bool near, int threads);

    i64 count() const { return (n_ + kLeaf - 1) / kLeaf; }
    int axes() const { return axes_; }
    i64 size(i64 leaf) const { return std::min(kLeaf, n_ - leaf * kLeaf); }
    /// Coordinate k of point i of a leaf is at k * kLeaf + i; NaN follows the last point.
    const double* leaf(i64 leaf) const { return values_.get() + leaf * axes_ * kLeaf; }
    /// The points of a leaf as they were given.
    const i64* indices(i64 leaf) const { return order_.data() + leaf * kLeaf; }
    bool has_boxes() const { return !boxes_.empty(); }
    /// The box of a node by axis. Node 0 has all leaves; of m leaves from a node on, the first m / 2 are
    /// those of the next node, and the others those of node + 2 (m / 2).
    const Interval* box(i64 node) const { return boxes_.data() + node * axes_; }
    const Interval* leaf_box(i64 leaf) const { return box(node_of_[leaf]); }

  private:
    void find_boxes(i64 node, i64 first, i64 leaves);

    i64 n_;
    int axes_;
    std::vector<i64> order_;
    Buffer<double> values_;
    std::vector<Interval> boxes_;
    std::vector<i64> node_of_;
};

}  // namespace bmrm
