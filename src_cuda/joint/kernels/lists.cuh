// Structured hinge bounds of measures of a ranked list: the formulas of src_cython/joint/lists.h.
#pragma once
#include "joint/kernels/order.cuh"

namespace bmrm {

// Rows are in ascending order of value - margin.
template <class T>
struct GainRule {
    Ordered<T> order;
    const T* margins;  // by place
    const double *value, *anchor, *share;
    int64_t k;

    __device__ __forceinline__ Share operator()(int64_t q) const {
        const uint32_t group = order.segment_at(q), p = order.place[q];
        const int64_t position = q - order.starts[group];
        const double discount = position < k ? 1.0 / log2(double(position + 2)) : 0.0;
        const double u = double(margins[p]), one = position == 0 ? 1.0 : 0.0;
        const double risk = one - anchor[p] * u - discount * (value[p] - u);
        return {share[group] * risk, share[group] * (discount - anchor[p])};
    }
};

// Margins of relevant rows.
template <class T>
struct RelevantTerm {
    Ordered<T> order;
    __device__ __forceinline__ Sums<1> operator()(int64_t q) const {
        return {0, {order.segment[q] & 1 ? double(order.margin[q]) : 0.0}};
    }
};

// Segment 2 g has the irrelevant rows of group g, segment 2 g + 1 the relevant ones.
template <class T>
struct ReciprocalRows {
    Ordered<T> order;
    const Sums<1>* relevant;  // sums of their margins before each position
    const double* share;
    uint32_t* ahead;  // per group: the number of irrelevant rows that it pays to put first

    struct Lists {
        uint32_t bad_from, good_from, good_to;
        double scale;
        __device__ __forceinline__ uint32_t bad() const { return good_from - bad_from; }
        __device__ __forceinline__ uint32_t good() const { return good_to - good_from; }
    };
    __device__ __forceinline__ Lists lists(uint32_t group) const {
        const uint32_t* at = order.starts + 2 * group;
        return {at[0], at[1], at[2], 1.0 / (double(at[1] - at[0]) * double(at[2] - at[1]))};
    }
    __device__ __forceinline__ double lowest(const Lists& of, uint32_t count) const {
        return relevant[of.good_from + count].of[0] - relevant[of.good_from].of[0];
    }
    // Returns the number of relevant rows whose margin is lower than u.
    __device__ __forceinline__ uint32_t below(const Lists& of, double u) const {
        return partition_point(of.good_from, of.good_to, [&](uint32_t i) { return order.margin[i] < u; }) -
               of.good_from;
    }
    // Returns the gain from putting the irrelevant row of margin u ahead of all relevant ones, as number
    // `rank`.
    __device__ __forceinline__ double gain(const Lists& of, uint32_t rank, double u, uint32_t under) const {
        const double forced = double(of.good() - under) * u - (lowest(of, of.good()) - lowest(of, under));
        return 1.0 / (double(rank + 1) * double(rank + 2)) + of.scale * forced;
    }

    __device__ __forceinline__ Share operator()(int64_t q) const {
        const uint32_t segment = order.segment[q], group = segment / 2, first = ahead[group];
        const Lists of = lists(group);
        const double u = double(order.margin[q]);
        if (segment & 1) {
            // It gains from the rows forced ahead of it, and from those that are above it by themselves.
            const uint32_t higher =
                of.good_from - partition_point(of.bad_from, of.good_from,
                                               [&](uint32_t j) { return !(order.margin[j] > u); });
            return {0.0, -share[group] * of.scale * double(higher > first ? higher : first)};
        }
        const uint32_t rank = of.good_from - 1 - uint32_t(q), under = below(of, u);
        const bool forced = rank < first;
        const double risk =
            of.scale * (double(under) * u - lowest(of, under)) + (forced ? gain(of, rank, u, under) : 0.0);
        return {share[group] * risk, share[group] * of.scale * double(forced ? of.good() : under)};
    }
};

template <class T>
__global__ void put_all_ahead(const ReciprocalRows<T> rows, int64_t groups) {
    BB_FOR (g, groups) rows.ahead[g] = rows.lists(uint32_t(g)).bad();
}

// Each row ahead gains less than the one before: the first that does not pay ends the search.
template <class T>
__global__ void find_ahead(const ReciprocalRows<T> rows) {
    BB_FOR (q, rows.order.size) {
        const uint32_t segment = rows.order.segment[q];
        if (segment & 1) continue;
        const auto of = rows.lists(segment / 2);
        const uint32_t rank = of.good_from - 1 - uint32_t(q);
        const double u = double(rows.order.margin[q]);
        if (!(rows.gain(of, rank, u, rows.below(of, u)) > 0.0)) atomicMin(rows.ahead + segment / 2, rank);
    }
}

}  // namespace bmrm
