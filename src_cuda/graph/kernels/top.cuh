// The largest entries of a column: a digit from which on there are enough of them, then a sort of those.
//
// Entries are at least 0, so that their bits are in the same order as they are.  The first digit has sign,
// exponent and the first bit of the mantissa: entries of a popular node and of its neighbours in rank rarely
// share it with many others.  If they do, the sort is longer, and nothing else changes.
#pragma once
#include <stdint.h>

#include "runtime/device_memory.h"

namespace bmrm {

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
