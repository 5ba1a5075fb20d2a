// Ordinal regression with its thresholds minimised out: the formulas of src_cython/joint/ordinal.h.
//
// The CPU merges the knots of the rows above a threshold with those of the other rows until the slope changes
// sign.  Here every row finds, by bisection, the slope of the merge after its own knot, from sums along the
// order.  A minimum over integers finds the first row of each kind after which the slope is positive; the
// earlier of the two knots is the threshold.
#pragma once
#include "joint/kernels/order.cuh"

namespace bmrm {

// Level and weight of the row at each position; and, for a row above a threshold and for one below, the
// position up to which the knots of the rows of the other kind come before its own.
struct OrdinalRows {
    uint32_t *level, *as_above, *as_below;
    double* weight;
};

// Weights of rows of level at most k, and of those above.
struct ThresholdTerm {
    OrdinalRows rows;
    uint32_t k;
    __device__ __forceinline__ Sums<2> operator()(int64_t q) const {
        Sums<2> out = {};
        out.of[rows.level[q] > k] = rows.weight[q];
        return out;
    }
};

// Where the merge stops: the numbers of rows of the two kinds before the knot, and the knot's share.
struct DeviceKnot {
    uint32_t first[2];  // of the rows below and above: the first with a positive slope after its knot
    uint32_t below, above;
    double share;
    uint32_t at_above;
};

static __global__ void open_knot(DeviceKnot* knot, uint32_t size) {
    *knot = {{size, size}, size, size, 0.0, 1};
}

template <class T>
__global__ void gather_ordinal(const Ordered<T> order, const uint32_t* level, const double* weight,
                               OrdinalRows rows) {
    BB_FOR (q, order.size) {
        const uint32_t p = order.place[q], size = uint32_t(order.size);
        const double u = double(order.margin[q]);
        rows.level[q] = level[p];
        rows.weight[q] = weight[p];
        rows.as_above[q] = partition_point(
            0, size, [&](uint32_t other) { return double(order.margin[other]) + 1.0 < u - 1.0; });
        rows.as_below[q] = partition_point(
            0, size, [&](uint32_t other) { return double(order.margin[other]) - 1.0 <= u + 1.0; });
    }
}

// Returns the slope of the merge before the knot of the row at q.
__device__ __forceinline__ double slope_before(const OrdinalRows& rows, int64_t size, const Sums<2>* sums,
                                               uint32_t q, bool above) {
    const uint32_t others = above ? rows.as_above[q] : rows.as_below[q];
    return sums[q].of[above] + sums[others].of[!above] - sums[size].of[0];
}

static __global__ void find_knot(const OrdinalRows rows, int64_t size, uint32_t k, const Sums<2>* sums,
                                 DeviceKnot* knot) {
    BB_FOR (q, size) {
        const bool above = rows.level[q] > k;
        // Most rows after the knot need not report: an earlier one has.
        if (uint32_t(q) < *static_cast<volatile uint32_t*>(&knot->first[above]) &&
            slope_before(rows, size, sums, uint32_t(q), above) + rows.weight[q] > 0.0)
            atomicMin(&knot->first[above], uint32_t(q));
    }
}

// Runs on one thread.
template <class T>
__global__ void settle_knot(const Ordered<T> order, const OrdinalRows rows, const Sums<2>* sums,
                            DeviceKnot* knot) {
    const uint32_t size = uint32_t(order.size), below = knot->first[0], above = knot->first[1];
    if (below == size && above == size) return;
    const bool at_above =
        above < size &&
        (below == size || !(double(order.margin[above]) - 1.0 > double(order.margin[below]) + 1.0));
    const uint32_t q = at_above ? above : below;
    const double before = slope_before(rows, order.size, sums, q, at_above);
    knot->share = before >= 0.0 ? 0.0 : -before / rows.weight[q];
    knot->at_above = at_above;
    knot->above = at_above ? q : rows.as_below[q];
    knot->below = at_above ? rows.as_above[q] : q;
}

// The number of a row's active hinges, and the sum of their signs.
struct Hinges {
    double active, slope;
};

static __global__ void add_hinges(const uint32_t* level, int64_t size, uint32_t k, const DeviceKnot* knot,
                                  Hinges* hinges) {
    const DeviceKnot at = *knot;
    BB_FOR (q, size) {
        const bool above = level[q] > k;
        double active;
        if (above)
            active = q < at.above ? 1.0 : q == at.above && at.at_above ? at.share : 0.0;
        else
            active = q > at.below ? 1.0 : q < at.below ? 0.0 : at.at_above ? 1.0 : 1.0 - at.share;
        Hinges mine = {};
        if (k) mine = hinges[q];
        hinges[q] = {mine.active + active, mine.slope + (above ? -active : active)};
    }
}

template <class T>
struct OrdinalRule {
    Ordered<T> order;
    const double *weight, *share;  // the weight by position
    const Hinges* hinges;

    __device__ __forceinline__ Share operator()(int64_t q) const {
        const double factor = share[0] * weight[q];
        // The derivatives add up to zero, so margins may be taken from any origin.
        const double origin = double(order.margin[order.size / 2]);
        const Hinges mine = hinges[q];
        return {factor * (mine.active + mine.slope * (double(order.margin[q]) - origin)),
                factor * mine.slope};
    }
};

}  // namespace bmrm
