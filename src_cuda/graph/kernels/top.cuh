// The largest entries of columns.
//
// Two passes over the rows find those of all columns.  The first takes the largest entry that each warp sees
// of each column; the last of the wanted ones among these bounds what has to be looked at from below.  The
// second writes down what reaches the bound, which is little more than what is wanted.
//
// A column with too many of them (most often zeros), or a long list, is looked at alone: a digit from which
// on there are enough entries, then a sort of those.  Entries are at least 0, so that their bits are in the
// same order as they are.  The first digit has sign, exponent and the first bit of the mantissa: entries of a
// popular node and of its neighbours in rank rarely share it with many others.  If they do, the sort is
// longer, and nothing else changes.
#pragma once
#include <stdint.h>

#include "graph/kernels/passes.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

// Columns of a base plus an image, by the numbers of the nodes.
struct ScoreRows {
    const double* base;
    const float* image;
    const uint32_t* place;  // of each number, or null
    int64_t n;
    int columns;
};

// maxima: the largest entry that each warp sees of each column, or -1, warps one after another.
template <int WIDTH>
static __global__ void __launch_bounds__(kPassThreads)
    column_maxima(const ScoreRows scores, double* __restrict__ maxima) {
    double most = -1;
    for_rows<WIDTH, 4>(
        scores.n, scores.columns,
        [&](int64_t, int64_t place) { return scores.base[place] + double(scores.image[place]); },
        [&](int64_t, int64_t, double value) { most = value > most ? value : most; });
#pragma unroll
    for (int apart = 16; apart >= WIDTH; apart /= 2) {
        const double other = __shfl_xor_sync(0xFFFFFFFFu, most, apart);
        most = other > most ? other : most;
    }
    const int lane = int(threadIdx.x) % 32;
    const int64_t warp = (int64_t(blockIdx.x) * kPassThreads + threadIdx.x) / 32;
    if (lane < scores.columns) maxima[warp * scores.columns + lane] = most;
}

// Writes down the entries of each column that are at least `least`, in any order, up to `room` of them, and
// counts them all.
template <int WIDTH>
static __global__ void __launch_bounds__(kPassThreads)
    list_leaders(const ScoreRows scores, const double* __restrict__ least, uint32_t room,
                 uint32_t* __restrict__ counts, uint32_t* __restrict__ numbers, double* __restrict__ values) {
    const int column = int(threadIdx.x) % WIDTH;
    const double from = column < scores.columns ? least[column] : 0;
    for_rows<WIDTH, 4>(
        scores.n, scores.columns,
        [&](int64_t number, int64_t) {
            const int64_t row = scores.place ? int64_t(scores.place[number]) : number;
            const int64_t place = row * scores.columns + column;
            return scores.base[place] + double(scores.image[place]);
        },
        [&](int64_t number, int64_t, double value) {
            if (value < from) return;
            const uint32_t at = atomicAdd(counts + column, 1u);
            if (at >= room) return;
            numbers[int64_t(column) * room + at] = uint32_t(number);
            values[int64_t(column) * room + at] = value;
        });
}

constexpr int kDigits = 4096;  // of 13 bits, the first of which is 0
constexpr int kDigitShift = 51;
constexpr int kDigitThreads = 1024;
constexpr int kDigitsEach = kDigits / kDigitThreads;

// A column of a base plus an image, by the numbers of the nodes; negative sums count as 0.
struct ScoreColumn {
    const double* base;  // both from their first entries of the column on
    const float* image;
    const uint32_t* place;  // of each number, or null
    int64_t n;
    int columns;

    __device__ __forceinline__ double value(int64_t number) const {
        const int64_t at = (place ? int64_t(place[number]) : number) * columns;
        const double sum = base[at] + double(image[at]);
        return sum > 0 ? sum : 0.0;
    }
    __device__ __forceinline__ uint64_t bits(int64_t number) const {
        return uint64_t(__double_as_longlong(value(number)));
    }
    __device__ __forceinline__ uint32_t digit(int64_t number) const {
        return uint32_t(bits(number) >> kDigitShift) & (kDigits - 1);
    }
};

static __global__ void __launch_bounds__(kDigitThreads)
    count_digits(const ScoreColumn scores, uint32_t* __restrict__ counts) {
    __shared__ uint32_t mine[kDigits];
    for (int d = int(threadIdx.x); d < kDigits; d += kDigitThreads) mine[d] = 0;
    __syncthreads();
    BB_FOR (i, scores.n) atomicAdd(mine + scores.digit(i), 1u);
    __syncthreads();
    for (int d = int(threadIdx.x); d < kDigits; d += kDigitThreads)
        if (mine[d]) atomicAdd(counts + d, mine[d]);
}

// The largest digit from which on there are at least `wanted` entries; 0 if there are fewer.
static __global__ void __launch_bounds__(kDigitThreads)
    find_digit(const uint32_t* __restrict__ counts, uint64_t wanted, uint32_t* __restrict__ digit) {
    __shared__ uint64_t from[kDigitThreads + 1];
    const int thread = int(threadIdx.x), first = thread * kDigitsEach;
    uint64_t mine = 0;
    for (int d = first; d < first + kDigitsEach; d++) mine += counts[d];
    from[thread] = mine;
    if (thread == 0) {
        from[kDigitThreads] = 0;
        *digit = 0;
    }
    __syncthreads();
    for (int apart = 1; apart < kDigitThreads; apart *= 2) {  // from[t] = entries of the threads from t on
        const uint64_t after = thread + apart < kDigitThreads ? from[thread + apart] : 0;
        __syncthreads();
        from[thread] += after;
        __syncthreads();
    }
    uint64_t above = from[thread + 1];
    if (above >= wanted) return;
    for (int d = first + kDigitsEach - 1; d >= first; d--) {
        above += counts[d];
        if (above < wanted) continue;
        *digit = uint32_t(d);
        return;
    }
}

static __global__ void flag_scores(const ScoreColumn scores, const uint32_t* __restrict__ digit,
                                   uint8_t* __restrict__ flag) {
    BB_FOR (i, scores.n) flag[i] = scores.digit(i) >= *digit;
}

// Keys that ascend as scores descend.
static __global__ void score_keys(const ScoreColumn scores, const uint32_t* __restrict__ number,
                                  int64_t count, uint64_t* __restrict__ key) {
    BB_FOR (i, count) key[i] = ~scores.bits(number[i]);
}

static __global__ void score_column(const ScoreColumn scores, double* __restrict__ values) {
    BB_FOR (i, scores.n) values[i] = scores.value(i);
}

}  // namespace bmrm
