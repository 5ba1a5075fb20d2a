#include "pairs/leaves.h"

#include <limits>
#include <numeric>

#include "pairs/near_order.h"

namespace bmrm {

Leaves::Leaves(const PlacedPoints& points, bool near, int threads)
    : n_(points.points()), axes_(points.axes()), order_(n_), values_(count() * kLeaf * axes_) {
    if (near)
        order_ = near_order(points, kLeaf, threads);
    else
        std::iota(order_.begin(), order_.end(), i64{0});
    double* to = values_.get();
    for (i64 first = 0; first < n_; first += kLeaf)
        for (int k = 0; k < axes_; ++k) {
            const double* const x = points.axis(k);
            for (i64 i = first; i < first + kLeaf; ++i)
                *to++ = i < n_ ? x[order_[i]] : std::numeric_limits<double>::quiet_NaN();
        }
    if (!near || n_ == 0) return;
    boxes_.resize((2 * count() - 1) * axes_);
    node_of_.resize(count());
    find_boxes(0, 0, count());
}

void Leaves::find_boxes(i64 node, i64 first, i64 leaves) {
    Interval* const box = boxes_.data() + node * axes_;
    // Halves before they are added or subtracted: the sum of two numbers may overflow.
    const auto around = [](double low, double high) {
        return Interval{0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low};
    };
    if (leaves == 1) {
        node_of_[first] = node;
        for (int k = 0; k < axes_; ++k) {
            const double* const x = leaf(first) + k * kLeaf;
            const auto [low, high] = std::minmax_element(x, x + size(first));
            box[k] = around(*low, *high);
        }
        return;
    }
    const i64 left = leaves / 2;
    find_boxes(node + 1, first, left);
    find_boxes(node + 2 * left, first + left, leaves - left);
    for (int k = 0; k < axes_; ++k) {
        const Interval a = box[axes_ + k], b = box[2 * left * axes_ + k];
        box[k] = around(std::min(a.centre - a.half, b.centre - b.half),
                        std::max(a.centre + a.half, b.centre + b.half));
    }
}

}  // namespace bmrm
