// Structured hinge bounds of measures of a contingency table: the formulas of src_cython/joint/contingency.h.
//
// Segment 0 has the negative rows, segment 1 the positive ones.  For each number c of positives labelled
// wrongly, a thread bisects for the best number b of negatives, whose gains decrease; the largest of all
// values is the risk.
#pragma once
#include <cub/block/block_reduce.cuh>

#include "contingency_table.h"
#include "joint/kernels/order.cuh"

namespace bmrm {

// The b highest margins of negatives, and the c lowest of positives.
template <class T>
struct ExtremesTerm {
    Ordered<T> order;
    int64_t negatives;
    __device__ __forceinline__ Sums<2> operator()(int64_t x) const {
        const bool negative = x < negatives;
        const double u = double(order.margin[negative ? negatives - 1 - x : x]);
        return {0, {negative ? u : 0.0, negative ? 0.0 : u}};
    }
};

// The labelling with the largest value: c positives and b negatives are wrong.
struct Labelling {
    double value;
    int64_t c, b;
};

// The better of two labellings; of equal ones that with fewer wrong positives, which the CPU's scan meets
// first.
__device__ __forceinline__ Labelling better(const Labelling& x, const Labelling& y) {
    return y.value > x.value || (y.value == x.value && y.c < x.c) ? y : x;
}

constexpr int kTableThreads = 256;

__device__ __forceinline__ Labelling best_of_block(Labelling mine) {
    using Reduce = cub::BlockReduce<Labelling, kTableThreads>;
    __shared__ typename Reduce::TempStorage scratch;
    const Labelling best =
        Reduce(scratch).Reduce(mine, [](const Labelling& x, const Labelling& y) { return better(x, y); });
    __syncthreads();
    return best;
}

// partial: one per block; the last block writes the best of all to `best`.
template <class T>
__global__ void __launch_bounds__(kTableThreads)
    best_labelling(const Ordered<T> order, const ContingencyTable table, double scale, const Sums<2>* sums,
                   Labelling* partial, uint32_t* ticket, Labelling* best) {
    // The true labelling is always allowed, and its value is 0.
    Labelling mine = {0.0, 0, 0};
    BB_FOR (c, table.positives + 1) {
        const int64_t a = table.positives - c, least = table.least(a), most = table.most(a);
        if (least > most) continue;
        const int64_t b = partition_point(uint32_t(least), uint32_t(most), [&](int64_t wrong) {
            const double next = double(order.margin[table.negatives - 1 - wrong]);
            return table.loss(a, wrong + 1) - table.loss(a, wrong) + scale * next > 0.0;
        });
        const double highest = sums[b].of[0], lowest = sums[table.negatives + c].of[1];
        mine = better(mine, {table.loss(a, b) + scale * (highest - lowest), c, b});
    }
    const Labelling found = best_of_block(mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = found;
    if (!comes_last(ticket)) return;
    mine = {0.0, 0, 0};
    for (int k = int(threadIdx.x); k < int(gridDim.x); k += kTableThreads) mine = better(mine, partial[k]);
    mine = best_of_block(mine);
    if (threadIdx.x == 0) *best = mine;
}

template <class T>
struct TableRule {
    int64_t negatives;
    double scale;
    const Labelling* best;

    __device__ __forceinline__ Share operator()(int64_t q) const {
        const bool positive = q >= negatives;
        const bool wrong = positive ? q - negatives < best->c : q >= negatives - best->b;
        return {q == 0 ? best->value : 0.0, wrong ? (positive ? -scale : scale) : 0.0};
    }
};

}  // namespace bmrm
