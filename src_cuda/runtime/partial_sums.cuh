// Sums that blocks left side by side in global memory, added up by a launch of its own: where they are many,
// that is faster than the last block alone.
#pragma once
#include <stdint.h>

#include "runtime/chain.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr int kPartThreads = 256;
constexpr int kPartsAtOnce = 8;  // loads that a thread has under way, also where fewer are left

// The sum of a few numbers, those of pairs first: fewer of them wait for one another.
__device__ __forceinline__ double sum_pairs(double (&some)[kPartsAtOnce]) {
#pragma unroll
    for (int apart = kPartsAtOnce / 2; apart; apart /= 2)
#pragma unroll
        for (int k = 0; k < apart; k++) some[k] += some[k + apart];
    return some[0];
}

// The sum of every `groups`-th of `parts` numbers from `first` on, `apart` from one another.
template <class S>
__device__ __forceinline__ double sum_of_parts(const S* __restrict__ sums, int64_t parts, int64_t apart,
                                               int first, int groups) {
    double sum = 0;
    for (int64_t begin = first; begin < parts; begin += kPartsAtOnce * groups) {
        double some[kPartsAtOnce];
#pragma unroll
        for (int k = 0; k < kPartsAtOnce; k++) {
            const int64_t p = begin + k * groups;
            some[k] = double(p < parts ? load_input(sums + p * apart) : S(0));
        }
        sum += sum_pairs(some);
    }
    return sum;
}

// Adds `parts` rows of `count` sums, `stride` apart, in fixed order: `groups` threads a column, each with its
// share.
template <class S, class T>
__global__ void __launch_bounds__(kPartThreads)
    add_parts(const S* __restrict__ sums, int64_t parts, int64_t stride, int64_t count, int groups,
              T* __restrict__ y) {
    __shared__ double of_thread[kPartThreads];
    const int across = kPartThreads / groups, tx = int(threadIdx.x) % across, ty = int(threadIdx.x) / across;
    const int64_t col = int64_t(blockIdx.x) * across + tx;
    let_next_start();
    wait_for_previous();
    double sum = col < count ? sum_of_parts(sums + col, parts, stride, ty, groups) : 0;
    // Those of a warp by pairs of threads, then pairs of pairs; those of the few warps one after the other.
    for (int apart = 16; apart >= across; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    if (ty == 0 && col < count) {
        static_assert(kPartThreads / 32 == kPartsAtOnce, "one number a warp");
        double of_warp[kPartsAtOnce];
#pragma unroll
        for (int k = 0; k < kPartsAtOnce; k++) {
            const int other = tx + k * max(across, 32);
            of_warp[k] = other < kPartThreads ? of_thread[other] : 0;
        }
        y[col] = T(sum_pairs(of_warp));
    }
}

// early: as of NextLaunch.
template <class S, class T>
void add_up(const S* sums, int64_t parts, int64_t stride, int64_t count, T* y, cudaStream_t stream,
            bool early) {
    int groups = 1;
    while (groups < 64 && kPartsAtOnce * groups < parts) groups *= 2;
    const int across = kPartThreads / groups;
    const NextLaunch launch(unsigned((count + across - 1) / across), kPartThreads, 0, stream, early);
    launch(add_parts<S, T>, sums, parts, stride, count, groups, y);
}

}  // namespace bmrm
