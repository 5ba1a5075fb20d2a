// Draws of k-means++ by sums of shares w D^2. src_cuda/clusters/kernels/candidate_draws.cuh has the same
// operations in the same order; a product is rounded before it is added or subtracted, also where there are
// fused multiply-adds.
#pragma once

#include <algorithm>

#include "clusters/nearest.h"

namespace bmrm {

/// Lanes into which the shares of a strip of kPanelRows rows are added: every eighth row.
constexpr i64 kShareLanes = 8;

/// A place that was drawn, and what is left of the number in [0, 1] that has drawn it.
struct Draw {
    i64 place;
    double rest;
};

/// Where a number falls in a place that ends at the cumulative sum `end`: 0 at its begin, 1 at its end.
double left_in_place(double target, double end, double sum);

/// Draws one of `count` places in proportion to sums; a place of sum 0 is never found unless all are 0.
Draw descend(const double* sums, i64 count, double number);

/// Draws one of up to `kRows` rows, given their squared distances and weights (null if all are 1).
template <i64 kRows>
i64 draw_row(const float* closest, const double* weights, i64 count, double number) {
    static_assert(kRows % kPanelRows == 0, "whole strips");
    double shares[kRows] = {}, sums[kRows / kPanelRows];
    for (i64 i = 0; i < count; ++i)
        shares[i] = static_cast<double>(closest[i]) * (weights ? weights[i] : 1.0);
    asm volatile("" : : "r"(shares) : "memory");  // no fused multiply-add
    const i64 strips = (count + kPanelRows - 1) / kPanelRows;
    for (i64 s = 0; s < strips; ++s) {
        double lanes[kShareLanes] = {};
        for (i64 i = 0; i < kPanelRows; ++i) lanes[i % kShareLanes] += shares[s * kPanelRows + i];
        for (i64 apart = 1; apart < kShareLanes; apart *= 2)
            for (i64 l = 0; l < kShareLanes; l += 2 * apart) lanes[l] += lanes[l + apart];
        sums[s] = lanes[0];
    }
    const Draw strip = descend(sums, strips, number);
    const i64 first = strip.place * kPanelRows;
    return first + descend(shares + first, std::min(kPanelRows, count - first), strip.rest).place;
}

}  // namespace bmrm
