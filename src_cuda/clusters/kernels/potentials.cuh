// What seeding needs besides seeding.cuh: the nearest of new points, draws of rows by themselves, and rows by
// number.
#pragma once
#include "clusters/kernels/centers.cuh"

namespace bmrm {

constexpr int kPotentialThreads = 256;

template <class V>
__global__ void __launch_bounds__(256)
    take_rows(const V* __restrict__ X, int64_t d, const int64_t* __restrict__ numbers, int64_t count,
              double* __restrict__ out) {
    BB_FOR (i, count * d) out[i] = double(X[numbers[i / d] * d + i % d]);
}

// values: (count, d), of rows of type V, so that the conversion is exact.
template <class V>
__global__ void __launch_bounds__(256)
    shift_points(const double* __restrict__ values, int64_t d, int64_t count, const Origin origin,
                 float* __restrict__ out) {
    BB_FOR (i, count * d) out[i] = origin.apply(V(values[i]), i % d);
}

// The bits of the maximum of |x|; those of NaN and infinity are above those of all numbers.
template <class V>
__global__ void __launch_bounds__(256)
    find_largest(const V* __restrict__ X, int64_t size, unsigned long long* largest) {
    unsigned long long mine = 0;
    BB_FOR (i, size) {
        const unsigned long long bits = (unsigned long long)__double_as_longlong(fabs(double(X[i])));
        mine = bits > mine ? bits : mine;
    }
    mine = over_warp<Greatest>(mine);
    if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

// One block per panel of rows.  squares: distances to the nearest of new points, fresh: which, from 0.  Those
// that are less than before replace what closest (times scale^2) and nearest have; sums: of w closest.
static __global__ void __launch_bounds__(kPotentialThreads)
    take_closer(const double* __restrict__ squares, const int32_t* __restrict__ fresh, int64_t n,
                const double* __restrict__ weights, double scale, int32_t first, float* __restrict__ closest,
                int32_t* __restrict__ nearest, double* __restrict__ sums) {
    __shared__ double scratch[kPotentialThreads / 32], total[1];
    double mine[1] = {0};
    const int64_t panel = blockIdx.x, end = min(n, (panel + 1) * BB_PANEL_ROWS);
    for (int64_t i = panel * BB_PANEL_ROWS + threadIdx.x; i < end; i += kPotentialThreads) {
        float least = closest[i];
        const float square = float(squares[i] * scale * scale);
        if (!first || square < least) {
            closest[i] = least = square;
            nearest[i] = first + fresh[i];
        }
        mine[0] += __dmul_rn(double(least), weights ? weights[i] : 1.0);
    }
    sum_block<1>(mine, scratch, total);
    if (threadIdx.x == 0) sums[panel] = total[0];
}

// counts: of the rows with each label, which are 0 at first.
static __global__ void __launch_bounds__(256)
    count_labels(const int32_t* __restrict__ labels, int64_t n, unsigned* counts) {
    BB_FOR (i, n)
        if (labels[i] >= 0) atomicAdd(counts + labels[i], 1u);
}

// The number in [0, 1) of a row, as in bmrm/unsupervised/clusters/draws.py: SplitMix64.
__device__ __forceinline__ double uniform_of_row(uint64_t key, uint64_t row) {
    uint64_t state = key + (row + 1) * 0x9E3779B97F4A7C15ull;
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9ull;
    state = (state ^ state >> 27) * 0x94D049BB133111EBull;
    state ^= state >> 31;
    return double(state >> 11) * 0x1p-53;
}

// Lists rows, each with probability w closest factor, in any order.  first: number of the first row here.
static __global__ void __launch_bounds__(256)
    draw_rows(const float* __restrict__ closest, int64_t n, const double* __restrict__ weights, uint64_t key,
              int64_t first, double factor, unsigned* count, int32_t* __restrict__ drawn) {
    BB_FOR (i, n) {
        const double share = __dmul_rn(double(closest[i]), weights ? weights[i] : 1.0);
        if (uniform_of_row(key, uint64_t(first + i)) < __dmul_rn(share, factor))
            drawn[atomicAdd(count, 1u)] = int32_t(i);
    }
}

}  // namespace bmrm
