// Partial sums that blocks have written side by side in global memory, added up by a second launch: if there
// are many, this is faster than letting the last block do it alone.
#pragma once
#include <stdint.h>

#include "runtime/chain.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

constexpr int kAddThreads = 256;
constexpr int kLoadsAtOnce = 8;  // loads that a thread has in flight, even if fewer sums are left

// Returns the sum of a few numbers, added pairwise, which shortens the chain of dependent additions.
__device__ __forceinline__ double sum_pairs(double (&some)[kLoadsAtOnce]) {
#pragma unroll
    for (int apart = kLoadsAtOnce / 2; apart; apart /= 2)
#pragma unroll
        for (int k = 0; k < apart; k++) some[k] += some[k + apart];
    return some[0];
}

// Returns the sum of every `groups`-th of `count` numbers from `first` on, `apart` elements from one another.
template <class S>
__device__ __forceinline__ double sum_strided(const S* __restrict__ sums, int64_t parts, int64_t apart,
                                              int first, int groups) {
    double sum = 0;
    for (int64_t begin = first; begin < parts; begin += kLoadsAtOnce * groups) {
        double some[kLoadsAtOnce];
#pragma unroll
        for (int k = 0; k < kLoadsAtOnce; k++) {
            const int64_t p = begin + k * groups;
            some[k] = double(p < parts ? load_input(sums + p * apart) : S(0));
        }
        sum += sum_pairs(some);
    }
    return sum;
}

// Adds `parts` rows of `count` partial sums, `stride` elements apart, in fixed order.  `groups` threads share
// a column.
template <class S, class T>
__global__ void __launch_bounds__(kAddThreads)
    add_partial_sums(const S* __restrict__ sums, int64_t parts, int64_t stride, int64_t count, int groups,
                     T* __restrict__ y) {
    __shared__ double of_thread[kAddThreads];
    const int across = kAddThreads / groups, tx = int(threadIdx.x) % across, ty = int(threadIdx.x) / across;
    const int64_t col = int64_t(blockIdx.x) * across + tx;
    let_next_start();
    wait_for_previous();
    double sum = col < count ? sum_strided(sums + col, parts, stride, ty, groups) : 0;
    // Sums within a warp by pairs of threads, then pairs of pairs; the few sums of warps likewise below.
    for (int apart = 16; apart >= across; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    if (ty == 0 && col < count) {
        static_assert(kAddThreads / 32 == kLoadsAtOnce, "one number per warp");
        double of_warp[kLoadsAtOnce];
#pragma unroll
        for (int k = 0; k < kLoadsAtOnce; k++) {
            const int other = tx + k * max(across, 32);
            of_warp[k] = other < kAddThreads ? of_thread[other] : 0;
        }
        y[col] = T(sum_pairs(of_warp));
    }
}

// Adds partial sums: y[i] is the sum of sums[k * stride + i] over k < parts, for i < count.  early: as in
// NextLaunch.
template <class S, class T>
void add_up(const S* sums, int64_t parts, int64_t stride, int64_t count, T* y, cudaStream_t stream,
            bool early) {
    int groups = 1;
    while (groups < 64 && kLoadsAtOnce * groups < parts) groups *= 2;
    const int across = kAddThreads / groups;
    const NextLaunch launch(unsigned((count + across - 1) / across), kAddThreads, 0, stream, early);
    launch(add_partial_sums<S, T>, sums, parts, stride, count, groups, y);
}

}  // namespace bmrm
